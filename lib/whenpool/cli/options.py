"""What the commands can be told: which runs, where their data are, and who executes them."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whenpool.base.errors import check

if TYPE_CHECKING:
    from whenpool.runs.engine import Workforce
    from whenpool.runs.filter import Only
    from whenpool.runs.request import Choice
    from whenpool.runs.run import Place, Run

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
COUNT = click.IntRange(1)
Command = Callable[..., Any]


def names(text: str) -> tuple[str, ...]:
    if found := tuple(filter(None, map(str.strip, text.split(",")))):
        return found
    raise click.BadParameter(f"{text!r} names nothing")


def numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1000,2000") from None


def seconds(text: str) -> float:
    from pandas import Timedelta  # takes its time to load, which only a deadline is worth

    time = text.strip().lower().replace("d", "D")  # pandas names days and hours so
    with suppress(ValueError):
        found = 0.0 if time.replace(".", "").isdigit() else Timedelta(time).total_seconds()
        if found >= 1:  # NaN is not
            return found
    raise click.BadParameter(f"{text!r} is not a time such as 90s, 40m, 2h or 1h30m")


NAMES, NUMBERS, TIME = map(click.types.FuncParamType, (names, numbers, seconds))


def _selection(context: Any, option: Any, text: str | None) -> "Only":
    from whenpool.runs.filter import Only

    return Only.parse(text)


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def _from_environment(name: str, help: str, **more: Any) -> Callable[[Command], Command]:  # noqa: A002
    """An option that a variable of the environment can give as well."""
    variable = f"WHENPOOL_{name.upper()}"
    return click.option(f"--{name}", envvar=variable, help=f"{help} [{variable}]", **more)


data_option = click.option("--data", type=FOLDER, help="Folder of corpora. [WHENPOOL_DATA]")
store_option = click.option("--store", type=FOLDER, help="Folder of runs. [WHENPOOL_STORE]")
choice_options = _with(
    click.option("--profile", default="quick", show_default=True, help="smoke, quick, compact, paper."),
    click.option(
        "--corpus", multiple=True, help="imdb, yahoo, amazon, yelp, synthetic[:option=value,...], "
        "or a .csv/.tsv/.jsonl file; of tagged words ud_ewt, wnut17, or a .conllu or other file, "
        "whose own splits are FILE:dev=NAME,test=NAME. Repeatable. Default: the profile's own.",
    ),
    data_option,
    click.option("--packed", type=FOLDER, help="In the place of --data: what `whenpool pack` wrote."),
    store_option,
    click.option("--sizes", type=NUMBERS, help="Training texts, such as 1000,2000."),
    click.option("--settings", type=NAMES, help="Some of standard,left,mid,right."),
    click.option("--poolings", type=NAMES, help="Such as last,max_attention."),
    click.option("--seeds", type=int, help="How many, counted from 0."),
    click.option("--cell", help="In the place of lstm, such as gru, elman, mingru or transformer."),
    click.option("--layers", type=int, help="How many are stacked; default: 1."),
    click.option("--unmasked", is_flag=True, help="Padding counts as words."),
    click.option("--encoder", help="Few-shot: a name or folder that transformers loads."),
    click.option("--labels", type=NUMBERS, help="Few-shot: per class, such as 1,3,10."),
    click.option("--systems", type=NAMES, help="Few-shot: such as bert,max_attention."),
    click.option("--unlabelled", type=int, help="Few-shot: texts without labels."),
    click.option("--paraphrases", help="Few-shot: a .jsonl file of paraphrases."),
)  # fmt: skip
only_option = click.option(
    "--only", metavar="KEY=VALUE,...", callback=_selection,
    help="Of these runs some, such as table=1.3,corpus=imdb,size=1000+2000; "
    "keys: table, corpus, length, size, setting, pooling, seed, system, labels.",
)  # fmt: skip
runs_options = _with(
    choice_options,
    only_option,
    click.option(
        "--chapter", "chapters", multiple=True, help="Of this chapter, or all. Repeatable. "
        "[default: training_to_skip; with --only table=...: all]",
    ),
)  # fmt: skip


def planned_runs(
    choice: "Choice", place: "Place", only: "Only", chapters: tuple[str, ...]
) -> "tuple[dict[str, list[Run]], str]":
    """The runs that `run` and `status` are about, by chapter, and a line that says which they are."""
    from whenpool.runs.filter import planned

    named = chapters or (("all",) if only.names_table else ("training_to_skip",))
    every = "all" in named
    found = planned(choice, place, only, () if every else named)
    line = "Runs of every chapter" if every else f"Runs of {', '.join(found)}"
    hint = "" if chapters or every else "; --chapter all means every chapter"
    return found, f"{line} (profile {choice.profile}){hint}"


speed_options = _with(
    _from_environment("workers", "Processes; default: one a processor, two a GPU.", type=COUNT),
    _from_environment("device", "cpu or cuda.", default="cpu", show_default=True),
    _from_environment("together", "Models of one seed that a process trains at once.", type=COUNT),
    _from_environment(
        "precision", "float32, tf32x3, tf32 or bfloat16.", default="float32", show_default=True
    ),
)
engine_options = _with(
    _from_environment("engine", "local or ray.", default="local", show_default=True),
    _from_environment("address", "Of a Ray cluster."),
    speed_options,
    click.option("--deadline", type=TIME, metavar="TIME", help="Stop after 40m, 1h30m or the like."),
)


def chosen(options: dict[str, Any]) -> "tuple[Choice, Place]":
    """What `choice_options` ask for; raises `InputError` for what makes no sense or is not there."""
    from whenpool.runs.request import NARROWING, Choice, corpora_named, placed
    from whenpool.runs.run import Place

    narrow = {name: options[name] for name in NARROWING}
    narrow |= {name: placed(options[name]) for name in ("encoder", "paraphrases")}
    named = corpora_named(options["corpus"])
    choice = Choice(options["profile"], named, **narrow, masked=not options["unmasked"])
    data = options["data"]
    check(data is None or data.is_dir(), f"data folder {data} is not there")
    if packed := options["packed"]:
        from whenpool.runs.pack import check_pack

        check_pack(packed)
        data = packed.resolve()
        os.environ["WHENPOOL_CACHE"] = str(data / "cache")  # of this command's workers as well
    return choice, Place.default(data, options["store"], choice.profile == "smoke")


def workforce_of(options: dict[str, Any]) -> "Workforce":
    """What `engine_options` or `speed_options` ask for; without an engine a GPU need not be here."""
    from whenpool.runs.engine import Workforce

    names = ("engine", "address", "workers", "device", "together", "precision")
    workforce = Workforce(
        **{name: options[name] for name in names if name in options},
        until=time.monotonic() + options["deadline"] if options.get("deadline") else None,
    )
    workforce.check(here="engine" in options)
    return workforce
