"""The command line ``whenpool``: its options, then its commands. Rooms are entered inside commands,
so that ``--help`` waits for no torch."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from importlib import import_module
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import click

from whenpool import __version__
from whenpool.base import paths
from whenpool.base.errors import BookError, InputError, check
from whenpool.models.registry import COMPARED

# Options: which runs, where their data are, and who executes them

PROFILES = "Size of models and training sets: smoke, quick, compact or paper."
FOLDER = click.Path(path_type=Path, file_okay=False)
THERE = click.Path(path_type=Path, file_okay=False, exists=True)
POSITIVE = click.IntRange(1)
count_option = partial(click.option, type=POSITIVE, show_default=True)
Command = Callable[..., Any]


def names(text: str) -> tuple[str, ...]:
    return tuple(map(str.strip, text.split(",")))


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


NAMES, NUMBERS, TIME = map(click.types.FuncParamType, (names, numbers, seconds))


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def _from_environment(name: str, text: str, **more: Any) -> Callable[[Command], Command]:
    """An option that a variable of the environment can give as well, and its help text."""
    more |= {"envvar": f"WHENPOOL_{name.upper()}", "show_envvar": True, "show_default": True}
    return click.option(f"--{name.replace('_', '-')}", help=text, **more)


data_option = click.option("--data", type=THERE, help="Folder with the corpora. [WHENPOOL_DATA]")
store_option = click.option(
    "--store", type=FOLDER, help="Folder with the stored runs. [WHENPOOL_STORE]"
)
request_options = _with(
    click.option("--profile", default="quick", show_default=True, help=PROFILES),
    click.option(
        "--corpus",
        multiple=True,
        help="Corpus to read: imdb, yahoo, amazon, yelp, synthetic, or a .csv, "
        ".tsv or .jsonl file; for tagged words ud_ewt, wnut17 or a file. Repeatable.",
    ),
    data_option,
    click.option(
        "--packed", type=THERE, help="Folder that scripts/pack.py wrote, instead of --data."
    ),
    store_option,
    click.option("--sizes", type=NUMBERS, help="Numbers of training texts, such as 1000,2000."),
    click.option(
        "--settings", type=NAMES, help="Settings of texts: some of standard,left,mid,right."
    ),
    click.option("--poolings", type=NAMES, help="Poolings to train, such as last,max_attention."),
    click.option("--seeds", type=int, help="Number of seeds, counted from 0."),
    click.option(
        "--cell", help="Cell to train instead of lstm, such as gru, mingru or transformer."
    ),
    click.option("--layers", type=int, help="Number of stacked layers. [default: 1]"),
    click.option("--unmasked", is_flag=True, help="Read padding as words."),
    click.option("--encoder", help="Name or folder of a pretrained encoder, for few-shot runs."),
    click.option(
        "--labels", type=NUMBERS, help="Numbers of labelled texts per class, such as 1,3,10."
    ),
    click.option("--systems", type=NAMES, help="Few-shot systems, such as bert,max_attention."),
    click.option("--unlabelled", type=int, help="Number of unlabelled texts in few-shot runs."),
    click.option("--paraphrases", help="A .jsonl file with paraphrases, for few-shot runs."),
)
runs_options = _with(
    request_options,
    click.option(
        "--chapter",
        "chapters",
        multiple=True,
        default=("training_to_skip",),
        show_default=True,
        help="Name of a chapter, or all. Repeatable.",
    ),
)
place_options = _with(
    _from_environment(
        "workers", "Processes; by default 1 per processor, 2 per GPU.", type=POSITIVE
    ),
    _from_environment("device", "Device that computes: cpu or cuda.", default="cpu"),
)
speed_options = _with(
    place_options,
    _from_environment(
        "models_per_batch",
        "Models to train at once. [default: what fills a GPU, 1 on a cluster or processor]",
        type=POSITIVE,
    ),
    _from_environment(
        "precision", "Precision: float32, tf32x3, tf32 or bfloat16.", default="float32"
    ),
)
engine_options = _with(
    _from_environment("engine", "Engine that executes the runs: local or ray.", default="local"),
    _from_environment("address", "Address of a Ray cluster, such as head:6379."),
    speed_options,
    click.option(
        "--deadline", type=TIME, metavar="TIME", help="Stop after 40m or 1h30m, for example."
    ),
)


def planned_runs(request: Any, place: Any, chapters: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The runs of some chapters, or of "all", by chapter, and a line that says which they are.
    Raises `InputError` for a chapter without runs, options that leave none, or texts instead of
    tagged words."""
    from whenpool.corpora.tagged import is_tagged
    from whenpool.runs.plans import PLANS, chapter_named, plan

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
    return runs, f"Runs of {what} (profile {request.profile})"


def chosen(options: dict[str, Any]) -> tuple[Any, Any]:
    """What `request_options` ask for; raises `InputError` for what makes no sense or is not
    there."""
    from whenpool.runs.request import NARROWING, Request, corpora_named, placed
    from whenpool.runs.run import Place

    narrow = {name: options[name] for name in NARROWING}
    narrow |= {name: placed(options[name]) for name in ("encoder", "paraphrases")}
    corpora, data = corpora_named(options["corpus"]), options["data"]
    mine = options["profile"] == "smoke" and (options["labels"] or options["unlabelled"])
    check(not mine, "the profile smoke has its own --labels and --unlabelled; leave them out")
    request = Request(options["profile"], corpora, **narrow, masked=not options["unmasked"])
    if options["packed"]:
        data = options["packed"].resolve()
        check((data / "cache").is_dir(), f"{data} holds nothing packed; run scripts/pack.py")
        os.environ["WHENPOOL_CACHE"] = str(data / "cache")  # of this command's workers as well
    return request, Place.default(data, options["store"], request.profile == "smoke")


def workforce_of(options: dict[str, Any]) -> Any:
    """What `engine_options` or `speed_options` ask for; without an engine a GPU need not be
    here."""
    from whenpool.runs.engine import Workforce

    fields = ("engine", "address", "workers", "device", "models_per_batch", "precision")
    until = time.monotonic() + options["deadline"] if options.get("deadline") else None
    workforce = Workforce(
        **{name: options[name] for name in fields if name in options}, until=until
    )
    workforce.check(here="engine" in options)
    return workforce


# Commands

EXTRAS = {"pypdf": "print", "playwright": "print", "transformers": "fewshot", "ray": "cluster"}
"""The extra that has a package; the others are those of the book."""


def main() -> None:
    """Run the command line: a user's mistake is one line and exit code 2."""

    def stop(
        *_: Any,
    ) -> None:  # as ctrl-C does, and once: a second signal would disturb the clean-up
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)  # of a batch scheduler
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # letters that its encoding lacks
    code = 2
    try:
        cli.main(sys.argv[1:] or ["--help"], standalone_mode=False)
        return
    except (click.Abort, KeyboardInterrupt):
        line, code = "stopped; finished runs are stored, which run and book do not repeat", 130
    except BookError as error:
        line, code = str(error), 1
    except click.ClickException as error:
        hint = "" if isinstance(error, click.BadParameter) else " See --help."
        line = str(InputError(error.format_message() + hint))
    except InputError as error:
        line = str(error)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name).partition(".")[0], "book")
        line = f"this needs the package {error.name}: pip install -e '.[{extra}]'"
    except OSError as error:  # a folder that cannot be made or written, wherever it is needed
        line = str(InputError(f"{error.filename or 'a file'}: {error.strerror or error}"))
    click.echo(f"whenpool: {line}", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="whenpool")
def cli() -> None:
    """Why and when should you pool? Build the book, run its experiments and manage its data."""


def _clone() -> Path:
    if root := paths.project_root():
        return root
    raise InputError(
        "the book and its runs are not here; run this inside a clone of the repository"
    )


def _script(name: str) -> Any:
    """A script of the clone as a module: tools of those who write the book."""
    sys.path.insert(0, str(_clone() / "scripts"))
    return import_module(name)


@cli.command()
@request_options
@engine_options
@click.option("--chapter", "chapters", multiple=True, help="Execute only this chapter. Repeatable.")
@click.option("--force", is_flag=True, help="Execute all chapters, even unchanged ones.")
def book(chapters: tuple[str, ...], force: bool, **options: Any) -> None:
    """Execute the chapters that changed, and build the pages."""
    build_book = _script("build_book")
    request, place = chosen(options)
    builder = build_book.Builder(_clone(), request, place, workforce_of(options), say=click.echo)
    builder.build(chapters, force)


@cli.command()
@click.option("--paper", is_flag=True, help="Print the book's article instead of the whole book.")
def pdf(paper: bool) -> None:
    """Print the built book into a PDF, with this machine's Chromium."""
    printed = _script("print_book").print_book(_clone(), paper)
    click.echo(f"The {'paper' if paper else 'book'} is printed: {printed}")


@cli.command()
@runs_options
@engine_options
@click.option(
    "--keep-weights", is_flag=True, help="Keep the weights of each training's best epoch."
)
@click.option(
    "--dry-run", is_flag=True, help="Only show which runs are missing and how long they take."
)
@click.option(
    "--redo",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="File of runs, as under each figure of the book: compute these again.",
)
def run(
    chapters: tuple[str, ...], keep_weights: bool, dry_run: bool, redo: Path | None, **options: Any
) -> None:
    """Execute the runs that are not stored yet. You can stop it at any time: the same command
    continues."""
    from whenpool.runs.request import NARROWING

    context, narrowing = click.get_current_context(), (*NARROWING, "chapters", "corpus", "dry_run")
    narrowing += ("unmasked", "encoder", "paraphrases")
    for option in context.command.params if redo else ():
        given = context.get_parameter_source(option.name) is click.core.ParameterSource.COMMANDLINE
        narrows = given and option.name in narrowing
        check(not narrows, f"--redo computes all runs of its file; leave out {option.opts[0]}")
    if dry_run:
        return status.callback(chapters, **options)  # type: ignore[misc]
    from whenpool.book.progress import outcome_table
    from whenpool.runs.compute import compute, runs_of_file, standing
    from whenpool.runs.store import Store

    request, place = chosen(options)
    workforce = workforce_of(options)
    if redo:
        runs, line = runs_of_file(redo), f"Runs of {redo}"
        place = replace(place, store=Store(place.store.directory))  # published results are not read
    else:
        planned, line = planned_runs(request, place, chapters)
        runs = list(dict.fromkeys(chain(*planned.values())))
    leaves_out = (lambda run: True) if redo else request.leaves_out
    before = standing(runs, place)
    report = compute(
        runs,
        place,
        workforce,
        skip_absent=leaves_out,
        keep_weights=keep_weights,
        say=partial(click.echo, err=True),
    )
    click.echo(
        f"{line}: {report.done} runs were done now, {len(before.done)} had been stored before, "
        f"{report.shared} were done by another command, {len(report.failed)} failed, "
        f"{len(before.absent)} lack their data, {report.left} are left"
    )
    if table := outcome_table(runs, place):
        click.echo(table)
    sys.exit(1 if report.failed else 0)  # 2 is a mistake of who called


@cli.command()
@runs_options
@speed_options
def status(chapters: tuple[str, ...], **options: Any) -> None:
    """Count the runs that are done and missing, with the time left."""
    from whenpool.book.progress import status_table

    request, place = chosen(options)
    workforce = workforce_of(options)
    planned, line = planned_runs(request, place, chapters)
    progress = status_table(planned, place, workforce)
    table = progress.table.to_string(index=False)
    click.echo("\n".join([line, table, *progress.notes, *progress.times]))


@cli.command()
@click.option("--chapter", help="Show only the claims of this chapter.")
@click.option("--verdict", help="Show only claims with this verdict, such as holds or 'not run'.")
@click.option("--format", "style", default="table", show_default=True, help="table, json or csv.")
def claims(chapter: str | None, verdict: str | None, style: str) -> None:
    """Print the claims with our verdicts."""
    import torch

    from whenpool.book.ledger import written
    from whenpool.runs.run import Place

    torch.set_num_threads(1)  # theory's networks are small: threads would wait for each other
    click.echo(written(Place.default(), style, chapter, verdict))


@cli.command()
@click.option("--data", type=FOLDER, help="Folder of the corpora. [WHENPOOL_DATA]")
@click.argument("action", type=click.Choice(["verify", "fetch"]), default="verify")
@click.argument("names", nargs=-1)
def data(action: str, names: tuple[str, ...], data: Path | None) -> None:
    """List the corpora and verify them by the publishers' checksums, or fetch some by NAMES: imdb,
    yelp, yahoo, amazon, glove, wikitext."""
    from whenpool.corpora import published

    folder = data or paths.data_directory()
    if action != "fetch":
        check(not names, f"`whenpool data {action}` takes no names; leave out {' '.join(names)}")
        lines = published.listing(folder)
    else:
        check(names, f"no download is named; choose some of {', '.join(published.DOWNLOADS)}")
        lines = (f"{path} is there" for name in names for path in published.fetch(name, folder))
    for line in lines:
        click.echo(line)


@cli.command()
@data_option
@store_option
def record(data: Path | None, store: Path | None) -> None:
    """Copy finished runs into data/results/. Only runs on whole published corpora are copied."""
    check(not store or store.is_dir(), f"folder of runs {store} does not exist; name one that does")
    click.echo(_script("record").record(data, store, _clone() / "data" / "results"))


@cli.command()
@data_option
@store_option
def export(data: Path | None, store: Path | None) -> None:
    """Write the models of the page "Try it". These commands store their runs:

    \b
    whenpool run --profile compact --corpus imdb --sizes 1000 --settings standard,mid \\
        --chapter natural_bias --chapter training_to_skip --keep-weights
    """
    click.echo(_script("export_try_it").export_page(data, store, _clone()))


@cli.command("check")
@click.option("--device", default="cpu", show_default=True, help="Device to check: cpu or cuda.")
@click.option("--profile", default="paper", show_default=True, help=PROFILES)
@data_option
@store_option
def check_command(device: str, profile: str, data: Path | None, store: Path | None) -> None:
    """Check versions, the device, data and disk before long work."""
    ready = _script("check_machine").check_machine(device, profile, data, store, click.echo)
    sys.exit(0 if ready else 2)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--text-column", default="text", show_default=True, help="Name of the column of texts."
)
@click.option(
    "--label-column", default="label", show_default=True, help="Name of the column of labels."
)
@click.option(
    "--encoding", default="", help="Encoding of the file, such as cp1252. [default: UTF-8]"
)
@click.option(
    "--merge-case", is_flag=True, help="Merge labels that differ in case or spaces alone."
)
@click.option(
    "--drop-rare", is_flag=True, help="Leave out classes of fewer than 10 different texts."
)
@click.option("--poolings", type=NAMES, default=",".join(COMPARED), help="Poolings to train.")
@count_option("--epochs", default=6, help="Number of epochs of each training.")
@count_option("--limit", default=2_000, help="About how many texts to use.")
@count_option("--words", default=1_000, help="Number of words to read of a text.")
@click.option(
    "--vectors", help="File of word vectors, or random. [default: GloVe in the data folder]"
)
@click.option("--output", type=FOLDER, help="Folder for the report. [default: FILE-diagnosis]")
@click.option("--data", type=THERE, help="Folder with filler and word vectors. [WHENPOOL_DATA]")
@place_options
def diagnose(file: Path, **options: Any) -> None:
    """Recommend a pooling for the labelled texts in FILE: .csv, .tsv, .jsonl, .json, .xlsx or
    .parquet.

    The command trains and probes a small model with each pooling, and writes a page with its
    advice.
    """
    from whenpool.explain import diagnosis

    made = diagnosis.diagnose(file, **options, say=partial(click.echo, err=True))
    click.echo(f"{made.text}\n\nThe report is {made.report}\nTo explain a text: {made.explain}")


@cli.command()
@click.option("--model", type=FOLDER, required=True, help="Folder of a saved model.")
@click.option(
    "--text",
    "texts",
    multiple=True,
    help="Text to explain; - reads it from standard input. Repeatable.",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Table of texts to explain: .csv, .tsv, .jsonl, .json, .xlsx or .parquet.",
)
@click.option(
    "--text-column", default="text", show_default=True, help="Name of its column of texts."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV file to write: a row with the answer and the words for each text of --file.",
)
@click.option("--label", help="Class to explain. [default: the predicted one]")
def explain(
    model: Path,
    texts: tuple[str, ...],
    file: Path | None,
    text_column: str,
    out: Path | None,
    label: str | None,
) -> None:
    """Show each text's predicted class and which words speak for it, or write both for a whole
    file."""
    import torch

    from whenpool.explain import checkpoint

    check(bool(texts) != bool(file), "give what to explain: --text, or --file and --out")
    check(
        bool(file) == bool(out),
        "--file needs --out, the .csv file to write, and --out needs --file",
    )
    torch.set_num_threads(1)  # for one text: threads would wait for each other
    made = checkpoint.load_checkpoint(model)
    if file and out:
        count = checkpoint.explain_file(made, file, out, text_column, label)
        click.echo(f"{count:,} texts are explained in {out}")
    for place, text in enumerate(texts):
        if text == "-":
            text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
        click.echo("\n" * (place > 0) + checkpoint.explain(made, text, label).text)
