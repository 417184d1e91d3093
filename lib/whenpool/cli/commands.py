"""The commands for a user's own texts: ``whenpool diagnose | explain``."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from whenpool.base.errors import InputError
from whenpool.base.files import is_file
from whenpool.cli.options import FOLDER, Names, speed_options, workforce_of
from whenpool.models.registry import COMPARED

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("file", type=FILE)
@click.option("--text-column", default="text", show_default=True, help="Name of the texts' column.")
@click.option("--label-column", default="label", show_default=True, help="Name of the labels' column.")
@click.option("--poolings", type=Names(), help=f"Default: {','.join(COMPARED)}.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Of each pooling.")
@click.option("--epochs", type=click.IntRange(1), default=6, show_default=True, help="Of each training.")
@click.option("--limit", type=click.IntRange(1), default=2_000, show_default=True, help="Texts used.")
@click.option("--words", type=click.IntRange(1), default=200, show_default=True, help="Read of a text.")
@click.option("--vectors", help="Word vectors in the data folder, such as glove.6B.100d.")
@click.option("--output", type=FOLDER, help="Folder of the report. [default: FILE-diagnosis]")
@click.option("--data", type=FOLDER, help="Folder of filler and vectors. [WHENPOOL_DATA]")
@speed_options
def diagnose(file: Path, poolings: tuple[str, ...] | None, output: Path | None, **options: Any) -> None:
    """Which pooling for the labelled texts in FILE, a .csv, .tsv or .jsonl?

    Trains small models with each pooling, probes them, and writes a page with a recommendation.
    """
    if not is_file(file):  # before what takes seconds to import
        raise InputError(f"corpus file {file} is not there")
    from whenpool.explain.diagnosis import Wish
    from whenpool.explain.diagnosis import diagnose as make

    workforce = workforce_of(options | {"engine": "local"})
    names = ("text_column", "label_column", "seeds", "epochs", "limit", "words", "vectors", "data")
    more: dict[str, Any] = {"poolings": poolings} if poolings else {}
    wish = Wish(file, folder=output, **{name: options[name] for name in names}, **more)
    page = make(wish, workforce, say=lambda line: click.echo(line, err=True))
    click.echo(page.text)
    click.echo(f"\nThe report: {page.report}\nAsk a model why: {page.explain}")


@click.command()
@click.option("--model", type=FOLDER, required=True, help="A checkpoint: a folder that was saved.")
@click.option("--text", help="The text; - reads it from standard input.")
@click.option("--file", type=FILE, help="A file with a text on each line.")
@click.option("--label", help="The class to explain. [default: the predicted one]")
@click.option(
    "--k", type=click.IntRange(1), help="Words of a window. [default: 5, fewer in short texts]"
)
@click.option(
    "--format", "style", type=click.Choice(["text", "html", "json"]), default="text", show_default=True,
    help="Of the explanation.",
)  # fmt: skip
@click.option("--output", type=FILE, help="A file to write, instead of the terminal.")
def explain(
    model: Path,
    text: str | None,
    file: Path | None,
    label: str | None,
    k: int | None,
    style: str,
    output: Path | None,
) -> None:
    """What a model says of a text, and which words made it say so."""
    if (text is None) == (file is None):
        raise InputError('give either --text "..." or --file FILE')
    from whenpool.base.files import write_atomically
    from whenpool.explain import explanation as explaining
    from whenpool.explain import shown as explained
    from whenpool.explain.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(model)
    try:
        explaining.check_label(checkpoint, label)
    except InputError as error:
        raise InputError(f"--label: {error}") from None
    if file is not None:
        texts = explaining.in_file(file)
    else:
        texts = [_standard_input() if text == "-" else str(text)]
    found = []
    for number, one in enumerate(texts, 1):
        try:
            found.append(explaining.explain(checkpoint, one, label, k))
        except InputError as error:
            raise InputError(f"{file}, text {number}: {error}" if file else f"--text: {error}") from None
    colour = output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if style == "text":
        shown = "\n".join(explained.as_text(one, colour) for one in found)
    else:
        shown = explained.as_html(found) if style == "html" else explained.as_json(found)
    if output is None:
        click.echo(shown, nl=False, color=colour)
    else:
        write_atomically(output, shown)
        click.echo(f"{output} is written")


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text (byte {error.start})") from None
