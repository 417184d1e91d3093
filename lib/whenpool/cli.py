"""The command line: ``whenpool book | run | status | data | record``."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whenpool import __version__
from whenpool.errors import BookError, InputError

if TYPE_CHECKING:
    from whenpool.choice import Choice
    from whenpool.runs import Place

_FOLDER = click.Path(path_type=Path, file_okay=False)

# Rooms are entered inside the commands, so that `whenpool --help` does not wait for torch.


def main() -> None:
    """Run the command line: a user's mistake is one line and exit code 2."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"whenpool: {error.format_message()}", err=True)
        sys.exit(2)
    except InputError as error:
        click.echo(f"whenpool: {error}", err=True)
        sys.exit(2)
    except OSError as error:  # a folder that cannot be made or written, wherever it is needed
        click.echo(f"whenpool: {error.filename or 'a file'}: {error.strerror or error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("whenpool: stopped; what is finished is stored, the same command goes on", err=True)
        sys.exit(130)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="whenpool")
def cli() -> None:
    """Why and when should you pool? Build the book, run its experiments, look after its data."""


class _Names(click.ParamType):
    """Names separated by commas."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        names = tuple(part.strip() for part in value.split(",") if part.strip())
        if not names:
            self.fail(f"{value!r} names nothing", param, ctx)
        return names


class _Numbers(_Names):
    """Whole numbers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:  # type: ignore[override]
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers such as 1000,2000", param, ctx)


def _choice_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What to run, and where its data are."""
    options = [
        click.option("--profile", default="quick", show_default=True, help="smoke, quick or paper."),
        click.option(
            "--corpus", multiple=True, help="imdb, yahoo, amazon, yelp, synthetic[:option=value,...], "
            "or a .csv/.jsonl file. Repeatable. Default: the profile's own.",
        ),
        click.option("--data", type=_FOLDER, help="Folder of corpora. [WHENPOOL_DATA]"),
        click.option("--store", type=_FOLDER, help="Folder of runs. [WHENPOOL_STORE]"),
        click.option("--sizes", type=_Numbers(), help="Training texts, such as 1000,2000."),
        click.option("--settings", type=_Names(), help="Some of standard,left,mid,right."),
        click.option("--poolings", type=_Names(), help="Such as last,max_attention."),
        click.option("--seeds", type=int, help="How many, counted from 0."),
        click.option("--unmasked", is_flag=True, help="Let padding in, as the authors' code does."),
        click.option("--encoder", help="Few-shot: a name or folder that transformers loads."),
        click.option("--labels", type=_Numbers(), help="Few-shot: per class, such as 1,3,10."),
        click.option("--systems", type=_Names(), help="Few-shot: such as bert,max_attention."),
        click.option("--unlabelled", type=int, help="Few-shot: texts without labels."),
        click.option("--paraphrases", help="Few-shot: a .jsonl file of paraphrases."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--workers", type=click.IntRange(1), help="Processes. [default: one a processor]"),
        click.option("--device", default="cpu", show_default=True, help="cpu or cuda."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _chosen(options: dict[str, Any]) -> "tuple[Choice, Place]":
    from whenpool.choice import NARROWING, Choice, corpora_named, placed
    from whenpool.runs import Place

    narrow = {name: options[name] for name in NARROWING}
    narrow |= {name: placed(options[name]) for name in ("encoder", "paraphrases")}
    named = corpora_named(options["corpus"])
    choice = Choice(options["profile"], named, **narrow, masked=not options["unmasked"])
    if options["data"] is not None and not options["data"].is_dir():
        raise InputError(f"data folder {options['data']} is not there")
    return choice, Place.default(options["data"], options["store"], choice.profile == "smoke")


@cli.command()
@_choice_options
@_engine_options
@click.option("--chapter", "chapters", multiple=True, help="Execute this chapter only. Repeatable.")
def book(workers: int | None, device: str, chapters: tuple[str, ...], **options: Any) -> None:
    """Execute the chapters and build the pages."""
    try:
        from whenpool.book import Builder
    except ModuleNotFoundError as error:
        raise InputError(
            f"the book needs the package {error.name}: pip install -e '.[book]', or use make book"
        ) from None
    from whenpool.engine.local import check_device
    from whenpool.places import project_root

    root = project_root()
    if root is None:
        raise InputError("the book's sources are in its repository: run this inside a clone")
    choice, place = _chosen(options)
    check_device(device)
    try:
        Builder(root, choice, place, workers, device, say=click.echo).build(chapters)
    except BookError as error:
        click.echo(f"whenpool: {error}", err=True)
        sys.exit(1)
    if choice.profile != "smoke":
        click.echo("Open it in a browser, or run `make serve`.")


@cli.command()
@_choice_options
@_engine_options
@click.option("--chapter", default="training_to_skip", show_default=True, help="Whose runs.")
@click.option("--keep-weights", is_flag=True, help="Keep the weights of each best epoch.")
def run(workers: int | None, device: str, chapter: str, keep_weights: bool, **options: Any) -> None:
    """Execute the runs that are not stored yet; stop and go on at any time."""
    from whenpool.engine.local import check_device
    from whenpool.plans import plan
    from whenpool.results import compute, standing

    choice, place = _chosen(options)
    check_device(device)
    runs = plan(chapter, choice, place)
    before = standing(runs, place)
    report = compute(
        runs,
        place,
        workers=workers,
        device=device,
        skip_absent=choice.lets_lack,
        keep_weights=lambda _: keep_weights,
        say=lambda line: click.echo(line, err=True),
    )
    click.echo(
        f"{report.done} runs done now, {len(before.done)} were stored already, "
        f"{len(report.failed)} failed, {len(before.absent)} lack their data"
    )
    sys.exit(2 if report.failed else 0)


@cli.command()
@_choice_options
def status(**options: Any) -> None:
    """How many runs are done, missing and failed, per table."""
    from whenpool.results import status_table

    choice, place = _chosen(options)
    table, notes = status_table(choice, place)
    click.echo(table.to_string(index=False))
    for note in notes:
        click.echo(note)


@cli.command()
@click.option("--data", type=_FOLDER, help="Folder of corpora. [WHENPOOL_DATA]")
@click.argument("action", type=click.Choice(["list", "verify", "fetch"]), default="list")
@click.argument("names", nargs=-1)
def data(action: str, names: tuple[str, ...], data: Path | None) -> None:
    """List the corpora that are there, verify their checksums, or fetch some.

    \b
    whenpool data                what is there
    whenpool data verify         whether it is what the publishers give
    whenpool data fetch imdb     download; also yelp, yahoo, amazon, glove, wikitext
    """
    from whenpool.corpora import downloads
    from whenpool.places import data_directory

    folder = data or data_directory()
    if action == "fetch":
        if not names:
            raise InputError(f"name what to fetch: {', '.join(downloads.SOURCES)}")
        for name in names:
            for path in downloads.fetch(name, folder):
                click.echo(f"{path} is there")
        return
    if names:
        raise InputError(f"only fetch takes names, {action} was given {names[0]!r}")
    for line in downloads.listing(folder, verify=action == "verify"):
        click.echo(line)


@cli.command()
@click.option("--data", type=_FOLDER, help="Folder of corpora. [WHENPOOL_DATA]")
@click.option("--store", type=_FOLDER, help="Folder of runs. [WHENPOOL_STORE]")
def record(data: Path | None, store: Path | None) -> None:
    """Copy finished runs on whole published corpora into data/results/, the runs of record."""
    from whenpool.places import project_root
    from whenpool.record import export_few_shots, export_probes, export_runs, export_statistics
    from whenpool.runs import Place

    root = project_root()
    if root is None:
        raise InputError("runs of record live in the repository: run this inside a clone")
    place, folder = Place.default(data, store), root / "data" / "results"
    trainings, probes = export_runs(place, folder), export_probes(place, folder)
    few_shots, corpora = export_few_shots(place, folder), export_statistics(place, folder)
    click.echo(
        f"{trainings} trainings, {probes} probes, {few_shots} few-shot runs and the statistics of "
        f"{corpora} corpora are on record in {folder}"
    )
