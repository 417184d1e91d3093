"""The options of the commands: which runs, where their data are, and who executes them."""

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
    from whenpool.runs.request import Request
    from whenpool.runs.run import Place, Run

PROFILES = "Size of models and training sets: smoke, quick, compact or paper."
FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
count_option = partial(click.option, type=click.IntRange(1), show_default=True)
Command = Callable[..., Any]


def names(text: str) -> tuple[str, ...]:
    if parts := tuple(filter(None, map(str.strip, text.split(",")))):
        return parts
    raise click.BadParameter(f"{text!r} has no name in it; write names such as last,mean")


def numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1000,2000") from None


def seconds(text: str) -> float:
    from pandas import Timedelta  # takes its time to load, which only a deadline is worth

    duration = text.strip().lower().replace("d", "D")  # pandas names days and hours so
    with suppress(ValueError):
        value = 0.0 if duration.replace(".", "").isdigit() else Timedelta(duration).total_seconds()
        if value >= 1:  # NaN is not
            return value
    raise click.BadParameter(f"{text!r} is not a time such as 90s, 40m, 2h or 1h30m")


NAMES, NUMBERS, TIME = map(click.types.FuncParamType, (names, numbers, seconds))


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def _from_environment(name: str, help: str, **more: Any) -> Callable[[Command], Command]:  # noqa: A002
    """An option that a variable of the environment can give as well."""
    option, variable = f"--{name.replace('_', '-')}", f"WHENPOOL_{name.upper()}"
    return click.option(option, envvar=variable, show_default=True, help=f"{help} [{variable}]", **more)


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
runs_options = _with(
    request_options,
    click.option(
        "--chapter", "chapters", multiple=True, default=("training_to_skip",), show_default=True,
        help="Name of a chapter, a part of it, or all. Repeatable.",
    ),
)  # fmt: skip
place_options = _with(
    _from_environment(
        "workers", "Number of processes. [default: 1 per processor, 2 per GPU]", type=click.IntRange(1)
    ),
    _from_environment("device", "Device that computes: cpu or cuda.", default="cpu"),
)
speed_options = _with(
    place_options,
    _from_environment(
        "models_per_batch", "Number of models of one seed to train at once.", type=click.IntRange(1)
    ),
    _from_environment("precision", "Precision: float32, tf32x3, tf32 or bfloat16.", default="float32"),
)
engine_options = _with(
    _from_environment("engine", "Engine that executes the runs: local or ray.", default="local"),
    _from_environment("address", "Address of a Ray cluster, such as head:6379."),
    speed_options,
    click.option("--deadline", type=TIME, metavar="TIME", help="Stop after 40m or 1h30m, for example."),
)


def planned_runs(
    request: "Request", place: "Place", chapters: tuple[str, ...]
) -> "tuple[dict[str, list[Run]], str]":
    """The runs of some chapters, or of "all", by chapter, and a line that says which they are. Raises
    `InputError` for a chapter without runs, or for texts where tagged words are needed."""
    from whenpool.corpora.tagged import is_tagged
    from whenpool.runs.plans import PLANS, chapter_named, plan

    every = "all" in chapters
    named = list(dict.fromkeys(chapter_named(name, PLANS) for name in (PLANS if every else chapters)))
    if (
        named == ["sequence_labelling"] and request.corpora
    ):  # beside other chapters it has its own corpora
        mistake = (
            f"no tagged words are in {' '.join(request.corpora)}; name ud_ewt, wnut17 or a file of some"
        )
        check(any(map(is_tagged, request.corpora)), mistake)
    line = f"Runs of {'every chapter' if every else ', '.join(named)} (profile {request.profile})"
    hint = "" if every else "; --chapter all selects every chapter"
    return {name: plan(name, request, place) for name in named}, line + hint


def chosen(options: dict[str, Any]) -> "tuple[Request, Place]":
    """What `request_options` ask for; raises `InputError` for what makes no sense or is not there."""
    from whenpool.runs.request import NARROWING, Request, corpora_named, placed
    from whenpool.runs.run import Place

    narrow = {name: options[name] for name in NARROWING}
    narrow |= {name: placed(options[name]) for name in ("encoder", "paraphrases")}
    corpora = corpora_named(options["corpus"])
    request = Request(options["profile"], corpora, **narrow, masked=not options["unmasked"])
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

    fields = ("engine", "address", "workers", "device", "models_per_batch", "precision")
    workforce = Workforce(
        **{name: options[name] for name in fields if name in options},
        until=time.monotonic() + options["deadline"] if options.get("deadline") else None,
    )
    workforce.check(here="engine" in options)
    return workforce
