"""What the commands can be told: which runs, where their data are, and who executes them."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whenpool.base.errors import check

if TYPE_CHECKING:
    from whenpool.runs.engine import Workforce
    from whenpool.runs.filter import Only
    from whenpool.runs.request import Request
    from whenpool.runs.run import Place, Run

PROFILES = "Size of models and training sets: smoke, quick, compact or paper."
FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
COUNT = click.IntRange(1)
count_option = partial(click.option, type=COUNT, show_default=True)
Command = Callable[..., Any]


def names(text: str) -> tuple[str, ...]:
    if found := tuple(filter(None, map(str.strip, text.split(",")))):
        return found
    raise click.BadParameter(f"{text!r} has no name in it; write names such as last,mean")


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
    option, named = f"--{name.replace('_', '-')}", f"WHENPOOL_{name.upper()}"
    return click.option(option, envvar=named, show_default=True, help=f"{help} [{named}]", **more)


data_option = click.option("--data", type=FOLDER, help="Folder with the corpora. [WHENPOOL_DATA]")
store_option = click.option("--store", type=FOLDER, help="Folder with the stored runs. [WHENPOOL_STORE]")
request_options = _with(
    click.option("--profile", default="quick", show_default=True, help=PROFILES),
    click.option(
        "--corpus", multiple=True, help="Corpus to read: imdb, yahoo, amazon, yelp, "
        "synthetic[:option=value,...], or a .csv, .tsv or .jsonl file; for tagged words ud_ewt, wnut17, "
        "or a file, with its own splits as FILE:dev=NAME,test=NAME. Repeatable. [default: the profile's]",
    ),
    data_option,
    click.option("--packed", type=FOLDER, help="Folder that `whenpool pack` wrote, instead of --data."),
    store_option,
    click.option("--sizes", type=NUMBERS, help="Numbers of training texts, such as 1000,2000."),
    click.option("--settings", type=NAMES, help="Settings of texts: some of standard,left,mid,right."),
    click.option("--poolings", type=NAMES, help="Poolings to train, such as last,max_attention."),
    click.option("--seeds", type=int, help="Number of seeds, counted from 0."),
    click.option("--cell", help="Cell to train instead of lstm, such as gru, mingru or transformer."),
    click.option("--layers", type=int, help="Number of stacked layers. [default: 1]"),
    click.option("--unmasked", is_flag=True, help="Read padding as words."),
    click.option("--encoder", help="Name or folder of a pretrained encoder, for few-shot runs."),
    click.option("--labels", type=NUMBERS, help="Numbers of labelled texts per class, such as 1,3,10."),
    click.option("--systems", type=NAMES, help="Few-shot systems, such as bert,max_attention."),
    click.option("--unlabelled", type=int, help="Number of unlabelled texts in few-shot runs."),
    click.option("--paraphrases", help="A .jsonl file with paraphrases, for few-shot runs."),
)  # fmt: skip
only_option = click.option(
    "--only", metavar="KEY=VALUE,...", callback=_selection,
    help="Select some of these runs, such as table=1.3,corpus=imdb,size=1000+2000. "
    "Keys: table, corpus, length, size, setting, pooling, seed, system, labels.",
)  # fmt: skip
runs_options = _with(
    request_options,
    only_option,
    click.option(
        "--chapter", "chapters", multiple=True, help="Name of a chapter, a part of it, or all. Repeatable. "
        "[default: training_to_skip, and all with --only table=...]",
    ),
)  # fmt: skip


def planned_runs(
    request: "Request", place: "Place", only: "Only", chapters: tuple[str, ...]
) -> "tuple[dict[str, list[Run]], str]":
    """The runs that `run` and `status` are about, by chapter, and a line that says which they are."""
    from whenpool.runs.filter import planned

    named = chapters or (("all",) if only.names_table else ("training_to_skip",))
    every = "all" in named
    found = planned(request, place, only, () if every else named)
    line = "Runs of every chapter" if every else f"Runs of {', '.join(found)}"
    hint = "" if chapters or every else "; --chapter all selects every chapter"
    return found, f"{line} (profile {request.profile}){hint}"


speed_options = _with(
    _from_environment(
        "workers", "Number of processes. [default: 1 per processor, 2 per GPU]", type=COUNT
    ),
    _from_environment("device", "Device that computes: cpu or cuda.", default="cpu"),
    _from_environment("models_per_batch", "Number of models of one seed to train at once.", type=COUNT),
    _from_environment("precision", "Precision: float32, tf32x3, tf32 or bfloat16.", default="float32"),
)
engine_options = _with(
    _from_environment("engine", "Engine that executes the runs: local or ray.", default="local"),
    _from_environment("address", "Address of a Ray cluster, such as head:6379."),
    speed_options,
    click.option("--deadline", type=TIME, metavar="TIME", help="Stop after 40m or 1h30m, for example."),
)


def chosen(options: dict[str, Any]) -> "tuple[Request, Place]":
    """What `request_options` ask for; raises `InputError` for what makes no sense or is not there."""
    from whenpool.runs.request import NARROWING, Request, corpora_named, placed
    from whenpool.runs.run import Place

    narrow = {name: options[name] for name in NARROWING}
    narrow |= {name: placed(options[name]) for name in ("encoder", "paraphrases")}
    named = corpora_named(options["corpus"])
    request = Request(options["profile"], named, **narrow, masked=not options["unmasked"])
    data = options["data"]
    check(data is None or data.is_dir(), f"data folder {data} does not exist; name one that does")
    if packed := options["packed"]:
        from whenpool.runs.pack import check_pack

        check_pack(packed)
        data = packed.resolve()
        os.environ["WHENPOOL_CACHE"] = str(data / "cache")  # of this command's workers as well
    return request, Place.default(data, options["store"], request.profile == "smoke")


def workforce_of(options: dict[str, Any]) -> "Workforce":
    """What `engine_options` or `speed_options` ask for; without an engine a GPU need not be here."""
    from whenpool.runs.engine import Workforce

    names = ("engine", "address", "workers", "device", "models_per_batch", "precision")
    workforce = Workforce(
        **{name: options[name] for name in names if name in options},
        until=time.monotonic() + options["deadline"] if options.get("deadline") else None,
    )
    workforce.check(here="engine" in options)
    return workforce
