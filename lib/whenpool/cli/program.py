"""The commands of ``whenpool``. Rooms are entered inside them, so that ``--help`` waits for no torch."""

import os
import runpy
import shlex
import signal
import sys
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import click

from whenpool.base import paths
from whenpool.base.errors import BookError, InputError, check, check_known
from whenpool.base.version import __version__
from whenpool.cli import options as opt
from whenpool.models.registry import COMPARED


def main() -> None:
    """Run the command line: a user's mistake is one line and exit code 2."""
    signal.signal(signal.SIGTERM, _stop)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # letters that its encoding lacks
    try:
        cli.main(standalone_mode=False)
        return
    except (click.Abort, KeyboardInterrupt):
        click.echo(
            "whenpool: stopped; finished runs are stored, which the same command does not repeat",
            err=True,
        )
        sys.exit(130)
    except click.ClickException as error:
        line = error.format_message() + " See --help." * (not isinstance(error, click.BadParameter))
    except InputError as error:
        line = str(error)
    except OSError as error:  # a folder that cannot be made or written, wherever it is needed
        line = f"{error.filename or 'a file'}: {error.strerror or error}"
    click.echo(f"whenpool: {InputError(line)}", err=True)
    sys.exit(2)


def _stop(number: int, frame: Any) -> NoReturn:
    """What a batch scheduler sends is what ctrl-C sends."""
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise KeyboardInterrupt


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="whenpool")
def cli() -> None:
    """Why and when should you pool? Build the book, run its experiments and manage its data."""


def _clone() -> Path:
    root = paths.project_root()
    if root is None:
        raise InputError("the book and its runs are not here; run this inside a clone of the repository")
    return root


def _script(name: str) -> dict[str, Any]:
    """What a script of the clone defines: tools of those who write the book."""
    _clone()  # outside of which there are none
    return runpy.run_path(str(Path(__file__).parents[3] / "scripts" / f"{name}.py"))


@cli.command()
@opt.request_options
@opt.engine_options
@click.option("--chapter", "chapters", multiple=True, help="Execute only this chapter. Repeatable.")
@click.option("--force", is_flag=True, help="Execute all chapters, even unchanged ones.")
def book(chapters: tuple[str, ...], force: bool, **options: Any) -> None:
    """Execute the chapters that changed, and build the pages."""
    try:
        from whenpool.book.build import Builder
    except ModuleNotFoundError as error:
        mend = "pip install -e '.[book]', or use make book"
        raise InputError(f"the book needs the package {error.name}: {mend}") from None

    root = _clone()
    request, place = opt.chosen(options)
    workforce = opt.workforce_of(options)
    try:
        Builder(root, request, place, workforce, say=click.echo).build(chapters, force)
    except BookError as error:
        click.echo(f"whenpool: {error}", err=True)
        sys.exit(1)
    if request.profile != "smoke":
        apart = "; the book of the profile's own corpus in _build/html stays as it was"
        click.echo(f"Open it in a browser{apart if request.corpora else ', or run `make serve`'}.")


@cli.command()
@click.option("--paper", is_flag=True, help="Print the book's article instead of the whole book.")
def pdf(paper: bool) -> None:
    """Print the built book into a PDF, with this machine's Chromium."""
    print_book = _script("print_book")["print_book"]
    click.echo(f"The {'paper' if paper else 'book'} is printed: {print_book(_clone(), paper)}")


@cli.command()
@opt.runs_options
@opt.engine_options
@click.option("--keep-weights", is_flag=True, help="Keep the weights of each training's best epoch.")
@click.option("--dry-run", is_flag=True, help="Only show which runs are missing and how long they take.")
def run(chapters: tuple[str, ...], keep_weights: bool, dry_run: bool, **options: Any) -> None:
    """Execute the runs that are not stored yet. You can stop it at any time: the same command continues."""
    if dry_run:
        _print_status(chapters, options)
        return
    from whenpool.book.progress import outcome_table
    from whenpool.runs.compute import compute, standing
    from whenpool.runs.estimates import Pace

    request, place = opt.chosen(options)
    workforce = opt.workforce_of(options)
    planned, line = opt.planned_runs(request, place, chapters)
    runs = list(dict.fromkeys(run for of_chapter in planned.values() for run in of_chapter))
    before = standing(runs, place)
    if all(map(request.leaves_out, before.absent)):  # else all there is to say is that data are not here
        click.echo(line, err=True)
    pace = Pace.measured(place, workforce) if workforce.until else Pace()
    report = compute(
        runs, place, workforce, skip_absent=request.leaves_out, keep_weights=lambda _: keep_weights,
        say=partial(click.echo, err=True), seconds=pace.seconds,
    )  # fmt: skip
    parts = (
        f"{report.done} runs were done now",
        f"{len(before.done)} had been stored before",
        f"another command did {report.shared} meanwhile" if report.shared else "",
        f"{len(report.failed)} failed",
        f"{len(before.absent)} lack their data",
        f"{report.left} are left: they would not end in time" if report.left else "",
    )
    click.echo(", ".join(filter(None, parts)))
    if table := outcome_table(runs, place):
        click.echo(table)
    sys.exit(1 if report.failed else 0)  # 2 is a mistake of who called


@cli.command()
@click.argument("folder", type=opt.FOLDER)
@opt.runs_options
def pack(folder: Path, chapters: tuple[str, ...], **options: Any) -> None:
    """Pack the data of trainings and probes for another machine.

    There, `whenpool run --packed FOLDER` with the same other options executes them.
    """
    from whenpool.runs.pack import pack as packed

    request, place = opt.chosen(options)
    planned, line = opt.planned_runs(request, place, chapters)
    click.echo(line)
    for line in packed((run for of_chapter in planned.values() for run in of_chapter), place, folder):
        click.echo(line)


@cli.command()
@opt.runs_options
@opt.speed_options
def status(chapters: tuple[str, ...], **options: Any) -> None:
    """Count the runs that are done and missing, with the time left."""
    _print_status(chapters, options)


def _print_status(chapters: tuple[str, ...], options: dict[str, Any]) -> None:
    from whenpool.book.progress import status_table

    request, place = opt.chosen(options)
    workforce = opt.workforce_of(options)
    planned, line = opt.planned_runs(request, place, chapters)
    progress = status_table(planned, request, place, workforce)
    click.echo(
        "\n".join([line, progress.table.to_string(index=False), *progress.notes, *progress.times])
    )


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
@opt.data_option
@click.argument("action", type=click.Choice(["list", "verify", "fetch"]), default="list")
@click.argument("names", nargs=-1)
def data(action: str, names: tuple[str, ...], data: Path | None) -> None:
    """List the corpora, verify their checksums, or download some.

    \b
    whenpool data                lists the files that are there
    whenpool data verify         compares them with the publishers' checksums
    whenpool data fetch imdb     downloads; also yelp, yahoo, amazon, glove, wikitext
    """
    from whenpool.corpora import published

    folder = data or paths.data_directory()
    if action == "fetch":
        check(names, f"no download is named; choose some of {', '.join(published.DOWNLOADS)}")
        for name in names:
            for path in published.fetch(name, folder):
                click.echo(f"{path} is there")
        return
    check(not names, f"`whenpool data {action}` takes no names; leave out {' '.join(names)}")
    for line in published.listing(folder, verify=action == "verify"):
        click.echo(line)


@cli.command()
@opt.data_option
@opt.store_option
def record(data: Path | None, store: Path | None) -> None:
    """Copy finished runs into data/results/. Only runs on whole published corpora are copied."""
    script = _script("record")
    from whenpool.runs.kinds import KINDS
    from whenpool.runs.run import Place

    place, folder = Place.default(data, store), _clone() / "data" / "results"
    if data or os.environ.get("WHENPOOL_DATA"):
        check(place.data.is_dir(), f"data folder {place.data} does not exist; name one that does")
    check(not store or store.is_dir(), f"folder of runs {store} does not exist; name one that does")
    counts = [f"{script['export'](kind, place, folder)} {kind} runs" for kind in KINDS]
    corpora = script["export_statistics"](place, folder)
    statistics = f"the statistics of {corpora} {'corpus' if corpora == 1 else 'corpora'}"
    click.echo(f"{', '.join(counts)} and {statistics} are now in {folder}")


@cli.command()
@opt.data_option
@opt.store_option
def export(data: Path | None, store: Path | None) -> None:
    """Write the models of the page "Try it". This command stores their runs:

    \b
    whenpool run --profile compact --corpus imdb --sizes 1000 --settings standard \\
        --chapter natural_bias --keep-weights
    """
    from whenpool.book import try_it
    from whenpool.runs.run import Place

    file, script = _clone() / try_it.FILE, _script("export_try_it")
    script["export"](script["chosen_runs"](), Place.default(data, store), file, say=click.echo)
    click.echo(f"{file} was written, {file.stat().st_size / 1e6:.1f} MB")


@cli.command("check")
@click.option("--device", default="cpu", show_default=True, help="Device to check: cpu or cuda.")
@click.option("--profile", default="paper", show_default=True, help=opt.PROFILES)
@opt.data_option
@opt.store_option
def check_command(device: str, profile: str, data: Path | None, store: Path | None) -> None:
    """Check versions, the device, data and disk before long work."""
    from whenpool.cli.doctor import check_machine

    sys.exit(0 if check_machine(device, profile, data, store, click.echo) else 2)


@cli.command()
@click.argument("file", type=opt.FILE)
@click.option("--text-column", default="text", show_default=True, help="Name of the column of texts.")
@click.option("--label-column", default="label", show_default=True, help="Name of the column of labels.")
@click.option("--poolings", type=opt.NAMES, default=",".join(COMPARED), show_default=True,
              help="Poolings to train.")  # fmt: skip
@opt.count_option("--seeds", default=1, help="Number of seeds for each pooling.")
@opt.count_option("--epochs", default=6, help="Number of epochs of each training.")
@opt.count_option(
    "--limit", default=2_000, help="About how many texts to use; 10 of each class at least."
)
@opt.count_option("--words", default=1_000, help="Number of words to read of a text.")
@click.option("--vectors", help="File of word vectors, or random. [default: GloVe in the data folder]")
@click.option("--characters", is_flag=True, help="Read each character as a word.")
@opt.count_option("--drop-classes-below", default=1, help="Leave out classes with fewer texts.")
@click.option("--output", type=opt.FOLDER, help="Folder for the report. [default: FILE-diagnosis]")
@click.option("--data", type=opt.FOLDER, help="Folder with filler and word vectors. [WHENPOOL_DATA]")
@opt.place_options
def diagnose(file: Path, **options: Any) -> None:
    """Recommend a pooling for the labelled texts in FILE. It is a .csv, .tsv or .jsonl file.

    The command trains and probes a small model with each pooling, and writes a page with its advice.
    """
    check(os.path.isfile(file), f"file {file} does not exist; check its path")  # before the imports
    from whenpool.explain.diagnosis import diagnose as diagnosed

    command = shlex.join(["whenpool", *sys.argv[1:]])
    page = diagnosed(file, **options, command=command, say=partial(click.echo, err=True))
    click.echo(f"{page.text}\n\nThe report is {page.report}\nTo explain a text: {page.explain}")


@cli.command()
@click.option("--model", type=opt.FOLDER, required=True, help="Folder of a saved model.")
@click.option("--text", help="Text to explain; - reads it from standard input.")
@click.option("--file", type=opt.FILE, help="File with a text on each line.")
@click.option("--label", help="Class to explain. [default: the predicted one]")
@opt.count_option("--k", help="Number of words in a window. [default: 5, fewer in short texts]")
@click.option(
    "--format", "style", type=click.Choice(["text", "html", "json"]),
    help="Format of the explanation. [default: as --output is called, or text]",
)  # fmt: skip
@click.option("--output", type=opt.FILE, help="File to write the explanation into.")
def explain(
    model: Path, text: str | None, file: Path | None, label: str | None, k: int | None,
    style: str | None, output: Path | None,
) -> None:  # fmt: skip
    """Show a text's predicted class and which words speak for it."""
    check((text is None) != (file is None), 'give either --text "..." or --file FILE')
    import torch

    from whenpool.base.files import write_atomically
    from whenpool.explain import explanation as explaining
    from whenpool.explain.checkpoint import load_checkpoint

    torch.set_num_threads(1)  # for one text: threads would wait for each other
    checkpoint = load_checkpoint(model)
    if label is not None:
        check_known("--label", label, checkpoint.classes)
    try:
        given = sys.stdin.buffer.read().decode("utf-8-sig") if text == "-" else text or ""
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text (byte {error.start}); convert it") from None
    style = style or {".html": "html", ".json": "json"}.get(output.suffix if output else "", "text")
    written = {"html": explaining.as_html, "json": explaining.as_json, "text": explaining.as_text}[style]
    on_screen = style == "text" and output is None
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    explanations = []
    for number, each in enumerate(explaining.in_file(file) if file else [given], 1):
        try:
            explanations.append(explaining.explain(checkpoint, each, label, k))
        except InputError as error:
            raise InputError(f"{file}, text {number}: {error}" if file else f"--text: {error}") from None
        if on_screen:  # at once, since many texts take long
            blank = "\n" * (number > 1)
            click.echo(blank + explaining.as_text(explanations[-1:], colour), nl=False)
    if output:
        write_atomically(output, written(explanations))
        click.echo(f"{output} was written")
    elif not on_screen:
        click.echo(written(explanations), nl=False)
