"""What the book adds to the command line ``whenpool``: options, then commands. Modules are loaded
inside commands, so that ``--help`` waits for no torch."""

import os
import re
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click
from click import argument, echo, option

from paper import chapter_named
from whenpool.base import paths
from whenpool.base.errors import InputError, check
from whenpool.cli import (
    FILE_THERE,
    FOLDER,
    NAMES,
    THERE,
    Commands,
    from_environment,
    options,
    place_options,
)

# Options: which runs, where their data are, and who executes them

PROFILES = "Size of models and training sets: smoke, quick, compact or paper."


def numbers(text: str) -> tuple[int, ...]:
    if re.fullmatch(r"\d+(,\d+)*", text):
        return tuple(map(int, text.split(",")))
    raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1000,2000")


def seconds(text: str) -> float:
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    hours, minutes, rest = (int(part or 0) for part in parts.groups()) if parts else (0, 0, 0)
    if total := 3_600 * hours + 60 * minutes + rest:
        return total
    raise click.BadParameter(f"{text!r} is not a time such as 90s, 40m, 2h or 1h30m")


NUMBERS, TIME = map(click.types.FuncParamType, (numbers, seconds))


data_option = option("--data", type=THERE, help="Folder with the corpora. [WHENPOOL_DATA]")
store_option = option("--store", type=FOLDER, help="Folder with the stored runs. [WHENPOOL_STORE]")
request_options = options(
    option("--profile", default="quick", show_default=True, help=PROFILES),
    option(
        "--corpus",
        multiple=True,
        help="Corpus to read: imdb, yahoo, amazon, yelp, synthetic, or a .csv, "
        ".tsv or .jsonl file; for tagged words ud_ewt, wnut17 or a file. Repeatable.",
    ),
    data_option,
    option("--packed", type=THERE, help="Folder that whenpool pack wrote, instead of --data."),
    store_option,
    option("--sizes", type=NUMBERS, help="Numbers of training texts, such as 1000,2000."),
    option("--settings", type=NAMES, help="Settings of texts: some of standard,left,mid,right."),
    option("--poolings", type=NAMES, help="Poolings to train, such as last,max_attention."),
    option("--seeds", type=int, help="Number of seeds, counted from 0."),
    option("--cell", help="Cell to train instead of lstm, such as gru, ssm or transformer."),
    option("--layers", type=int, help="Number of stacked layers. [default: 1]"),
    option("--unmasked", is_flag=True, help="Read padding as words."),
    option("--encoder", help="Name or folder of a pretrained encoder, for few-shot runs."),
    option("--labels", type=NUMBERS, help="Numbers of labelled texts per class, such as 1,3,10."),
    option("--systems", type=NAMES, help="Few-shot systems, such as bert,max_attention."),
    option("--unlabelled", type=int, help="Number of unlabelled texts in few-shot runs."),
    option("--paraphrases", help="A .jsonl file with paraphrases, for few-shot runs."),
)
runs_options = options(
    request_options,
    option(
        "--chapter",
        "chapters",
        multiple=True,
        default=("training_to_skip",),
        show_default=True,
        help="Name of a chapter, or all. Repeatable.",
    ),
)
speed_options = options(
    place_options,
    from_environment(
        "models_per_batch",
        "Models to train at once. [default: what fills a GPU, 1 on a cluster or processor]",
        type=click.IntRange(1),
    ),
    from_environment("precision", "Precision: float32 or bfloat16.", default="float32"),
)
engine_options = options(
    from_environment("engine", "Engine that executes the runs: local or ray.", default="local"),
    from_environment("address", "Address of a Ray cluster, such as head:6379."),
    speed_options,
    option("--deadline", type=TIME, metavar="TIME", help="Stop after 40m or 1h30m, for example."),
)


def planned_runs(request: Any, place: Any, chapters: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The runs of some chapters, or of "all", by chapter, and a line that says which they are.
    Raises `InputError` for a chapter without runs, options that leave none, or texts instead of
    tagged words."""
    from paper.chapters import PLANS, plan
    from paper.corpora.tagged import is_tagged
    from paper.runs.pack import those_packed

    every = "all" in chapters
    named = list(
        dict.fromkeys(chapter_named(name, PLANS) for name in (PLANS if every else chapters))
    )
    if named == ["sequence_labelling"] and request.corpora:  # beside others it has its own corpora
        mistake = (
            f"no tagged words are in {' '.join(request.corpora)}; name ud_ewt or a .conllu file"
        )
        check(any(map(is_tagged, request.corpora)), mistake)
    what = "every chapter" if every else ", ".join(named)
    runs = {name: plan(name, request, place) for name in named}
    check(any(runs.values()), f"these options leave no run of {what}; leave some of them out")
    line = f"Runs of {what} (profile {request.profile})"
    there = {name: those_packed(each, place) for name, each in runs.items()}
    left = sum(map(len, runs.values())) - sum(map(len, there.values()))
    check(any(there.values()), f"none of these {left} runs was packed; run whenpool pack again")
    return there, line + (f", without {left} that were not packed" if left else "")


def chosen(options: dict[str, Any]) -> tuple[Any, Any]:
    """What `request_options` ask for; raises `InputError` for what makes no sense or is not
    there."""
    from paper.runs.pack import KEYS
    from paper.runs.request import NARROWING, Request
    from paper.runs.run import Place

    data, masked = options["data"], not options["unmasked"]
    only = {name: value for name, value in options.items() if name in NARROWING}
    narrow = only | {"masked": masked}
    request = Request.of(options["profile"], options["corpus"], narrow, options["encoder"])
    if options["packed"]:
        at_once = "--packed FOLDER takes the place of --data; leave out one of them"
        check(not _given("data") or data == options["packed"], at_once)
        data = options["packed"].resolve()
        check((data / KEYS).is_file(), f"{data} holds nothing packed; run whenpool pack")
        os.environ["WHENPOOL_CACHE"] = str(data / "cache")  # of this command's workers as well
    return request, Place.default(data, options["store"], request.profile == "smoke")


def workforce_of(options: dict[str, Any]) -> Any:
    """What `engine_options` or `speed_options` ask for; without an engine a GPU need not be
    here."""
    from paper.runs.engine import Workforce

    fields = ("engine", "address", "workers", "device", "models_per_batch", "precision")
    until = time.monotonic() + options["deadline"] if options.get("deadline") else None
    workforce = Workforce(
        **{name: options[name] for name in fields if name in options}, until=until
    )
    workforce.check(here="engine" in options)
    return workforce


def _given(*names: str) -> bool:
    """Whether a user gave one of some options, or a variable of the environment did."""
    default = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)
    context = click.get_current_context()
    return any(context.get_parameter_source(name) not in default for name in names)


# Commands

COMMANDS = click.Group()


EXTRAS = {"transformers": "fewshot", "ray": "cluster", "playwright": "print", "pypdf": "print"}
"""The extra of lib/paper that has a package."""


def add_to(cli: Commands) -> None:
    """Add these commands to those of `whenpool`: an entry point, see `whenpool.cli.ADDED`."""
    cli.install |= {package: f"-e 'lib/paper[{extra}]'" for package, extra in EXTRAS.items()}
    for command in COMMANDS.commands.values():
        cli.add_command(command)


def _clone() -> Path:
    if root := paths.project_root():
        return root
    raise InputError(
        "the book and its runs are not here; run this inside a clone of the repository"
    )


@COMMANDS.command()
@request_options
@engine_options
@option("--chapter", "chapters", multiple=True, help="Execute only this chapter. Repeatable.")
@option("--force", is_flag=True, help="Execute all chapters, even unchanged ones.")
@option(
    "--notebooks", type=FOLDER, help="Render nothing; copy the executed notebooks into a folder."
)
@option("--executed", type=THERE, help="Execute nothing; render such a folder, filled elsewhere.")
def book(
    chapters: tuple[str, ...],
    force: bool,
    notebooks: Path | None,
    executed: Path | None,
    **options: Any,
) -> None:
    """Execute the chapters that changed, and build the pages."""
    from paper.pages.builder import Asked, Builder

    nothing = "--executed executes nothing; leave out --chapter, --force and --notebooks"
    check(not (executed and (chapters or force or notebooks)), nothing)
    asked = Asked(*chosen(options), workforce_of(options)) if _given(*options) else None
    builder = Builder(_clone(), asked, echo)
    if executed:
        builder.build_executed(executed)
    elif notebooks:
        builder.execute(chapters, force)
        builder.hand_on(notebooks)
    else:
        builder.build(chapters, force)


@COMMANDS.command()
@option("--paper", is_flag=True, help="Print the book's article instead of the whole book.")
def pdf(paper: bool) -> None:
    """Print the built book into a PDF, with this machine's Chromium."""
    from paper.pages.print_book import print_book

    printed = print_book(_clone(), paper)
    echo(f"The {'paper' if paper else 'book'} is printed: {printed}")


@COMMANDS.command()
@runs_options
@engine_options
@option("--keep-weights", is_flag=True, help="Keep the weights of each training's best epoch.")
@option("--dry-run", is_flag=True, help="Only show which runs are missing and how long they take.")
@option(
    "--redo",
    type=FILE_THERE,
    help="File of runs, as under each figure of the book: compute these again.",
)
def run(
    chapters: tuple[str, ...], keep_weights: bool, dry_run: bool, redo: Path | None, **options: Any
) -> None:
    """Execute the runs that are not stored yet. You can stop it at any time: the same command
    continues."""
    from paper.runs.request import NARROWING

    narrowing = (*NARROWING, "profile", "chapters", "corpus", "dry_run", "unmasked", "encoder")
    for parameter in run.params if redo else ():
        narrows = parameter.name in narrowing and _given(parameter.name)
        check(not narrows, f"--redo computes all runs of its file; leave out {parameter.opts[0]}")
    if dry_run:
        return status.callback(chapters, **options)  # type: ignore[misc]
    from paper.pages.progress import outcome_table
    from paper.runs.compute import compute, runs_of_file, standing
    from paper.runs.pack import those_packed
    from paper.runs.store import Store

    request, place = chosen(options)
    workforce = workforce_of(options)
    if redo:
        runs, line = those_packed(runs_of_file(redo), place), f"Runs of {redo}"
        check(runs, f"none of the runs of {redo} was packed; run whenpool pack again")
        place = replace(place, store=Store(place.store.directory))  # published results are not read
    else:
        planned, line = planned_runs(request, place, chapters)
        runs = list(dict.fromkeys(chain(*planned.values())))
    leaves_out = (lambda run: True) if redo else request.leaves_out
    before = len(standing(runs, place).done)
    report = compute(
        runs,
        place,
        workforce,
        skip_absent=leaves_out,
        keep_weights=keep_weights,
        say=partial(echo, err=True),
    )
    absent = standing(runs, place).absent  # again, since encoders may have been downloaded
    echo(
        f"{line}: {report.done} runs were done now, {before} had been stored before, "
        f"{report.shared} were done by another command, {len(report.failed)} failed, "
        f"{len(absent)} lack their data, {report.left} are left"
    )
    if table := outcome_table(runs, place):
        echo(table)
    sys.exit(1 if report.failed else 0)  # 2 is a mistake of who called


@COMMANDS.command()
@runs_options
@speed_options
def status(chapters: tuple[str, ...], **options: Any) -> None:
    """Count the runs that are done and missing, with the time left."""
    from paper.pages.progress import status_table

    request, place = chosen(options)
    workforce = workforce_of(options)
    planned, line = planned_runs(request, place, chapters)
    progress = status_table(planned, place, workforce)
    table = progress.table.to_string(index=False)
    echo("\n".join([line, table, *progress.notes, *progress.times]))


@COMMANDS.command()
@option("--chapter", help="Show only the claims of this chapter.")
@option("--verdict", help="Show only claims with this verdict, such as holds or 'not run'.")
@option("--format", "style", default="table", show_default=True, help="table, json or csv.")
def claims(chapter: str | None, verdict: str | None, style: str) -> None:
    """Print the claims with our verdicts."""
    import torch

    from paper.runs.run import Place
    from paper.verdicts.ledger import written

    torch.set_num_threads(1)  # theory's networks are small: threads would wait for each other
    echo(written(Place.default(), style, chapter, verdict))


@COMMANDS.command()
@option("--data", type=FOLDER, help="Folder of the corpora. [WHENPOOL_DATA]")
@argument("action", type=click.Choice(["verify", "fetch"]), default="verify")
@argument("names", nargs=-1)
def data(action: str, names: tuple[str, ...], data: Path | None) -> None:
    """List the corpora and verify them by the publishers' checksums, or fetch some by NAMES: imdb,
    yelp, yahoo, amazon, glove, wikitext."""
    from paper.corpora import downloads

    folder = data or paths.data_directory()
    if action != "fetch":
        check(not names, f"`whenpool data {action}` takes no names; leave out {' '.join(names)}")
        lines = downloads.listing(folder)
    else:
        check(names, f"no download is named; choose some of {', '.join(downloads.DOWNLOADS)}")
        lines = (f"{path} is there" for name in names for path in downloads.fetch(name, folder))
    for line in lines:
        echo(line)


@COMMANDS.command()
@data_option
@store_option
def record(data: Path | None, store: Path | None) -> None:
    """Copy finished runs into data/results/. Only runs on whole published corpora are copied."""
    check(not store or store.is_dir(), f"folder of runs {store} does not exist; name one that does")
    from paper.verdicts.record import record as put_on_record

    echo(put_on_record(data, store, _clone() / "data" / "results"))


@COMMANDS.command()
@argument("folders", nargs=2, metavar="FOLDER FOLDER")
@option("--record", is_flag=True, help="Add the rows to comparisons.csv.")
@option("--results", type=FOLDER, help="Folder of published runs. [default: data/results]")
def compare(folders: tuple[str, str], record: bool, results: Path | None) -> None:
    """Compare trainings that two folders of runs have both; "record" is the published runs."""
    from paper.verdicts.compare import report

    for line in report(folders, record, results or _clone() / "data" / "results"):
        echo(line)


@COMMANDS.command()
@argument("folder", type=FOLDER)
@runs_options
def pack(folder: Path, chapters: tuple[str, ...], **options: Any) -> None:
    """Pack what trainings and probes read into FOLDER, for a machine without the publishers' files:
    there, `whenpool run --packed FOLDER` with the same other options executes them."""
    from paper.runs.pack import pack as packed

    request, place = chosen(options)
    planned, _ = planned_runs(request, place, chapters)
    for line in packed(chain(*planned.values()), place, folder):
        echo(line)


@COMMANDS.command()
@data_option
@store_option
def export(data: Path | None, store: Path | None) -> None:
    """Write the models of the page "Try it". These commands store their runs:

    \b
    whenpool run --profile compact --corpus imdb --sizes 1000 --settings standard,mid \\
        --chapter natural_bias --chapter training_to_skip --keep-weights
    """
    from paper.pages.export_try_it import export_page

    echo(export_page(data, store, _clone()))


@COMMANDS.command("check")
@option("--device", default="cpu", show_default=True, help="Device to check: cpu or cuda.")
@option("--profile", default="paper", show_default=True, help=PROFILES)
@data_option
@store_option
def check_command(device: str, profile: str, data: Path | None, store: Path | None) -> None:
    """Check versions, the device, data and disk before long work."""
    from paper.runs.check_machine import check_machine

    ready = check_machine(device, profile, data, store, echo)
    sys.exit(0 if ready else 2)
