"""The command line ``whenpool``: `diagnose` and `explain`, and the commands that other packages
add to it. Modules are loaded inside commands, so that ``--help`` waits for no torch."""

import signal
import sys
from collections.abc import Callable
from functools import partial, reduce
from importlib.metadata import entry_points
from io import TextIOWrapper
from pathlib import Path
from typing import Any

try:
    import click
except ModuleNotFoundError:
    sys.exit("whenpool: the command needs click: pip install 'whenpool[texts]'")

from whenpool import __version__
from whenpool.base.errors import BookError, InputError, check

ADDED = "whenpool.commands"
"""The group of entry points with functions that add commands to `cli`."""
OF_THE_BOOK = "book check claims compare data export pack pdf record run status"
OF_TEXTS = ("torchtext", "sklearn", "pandas", "jinja2")
"""Packages of the extra "texts"."""
Command = Callable[..., Any]
Option = Callable[[Command], Command]  # What adds one to a command
FOLDER = click.Path(path_type=Path, file_okay=False)
THERE = click.Path(path_type=Path, file_okay=False, exists=True)
FILE = click.Path(path_type=Path, dir_okay=False)
FILE_THERE = click.Path(path_type=Path, dir_okay=False, exists=True)


def names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


NAMES = click.types.FuncParamType(names)
count_option = partial(click.option, type=click.IntRange(1), show_default=True)


def column_option(name: str) -> Option:
    """The option that names a column of the user's table."""
    more: dict[str, Any] = {"default": name, "show_default": True}
    return click.option(f"--{name}-column", help=f"Name of the column of {name}s.", **more)


def options(*listed: Option) -> Option:
    """Several options as one decorator."""
    return lambda command: reduce(lambda made, option: option(made), reversed(listed), command)


def from_environment(name: str, text: str, **more: Any) -> Option:
    """An option that a variable of the environment can give as well, and its help text."""
    more |= {"envvar": f"WHENPOOL_{name.upper()}", "show_envvar": True, "show_default": True}
    return click.option(f"--{name.replace('_', '-')}", help=text, **more)


place_options = options(
    from_environment(
        "workers", "Processes; by default 1 per processor, 2 per GPU.", type=click.IntRange(1)
    ),
    from_environment("device", "Device that computes: cpu or cuda.", default="cpu"),
)


class Commands(click.Group):
    """The commands of this package and, once they are asked for, those that others add, with what
    pip is given to ``install`` a package that they need."""

    added = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.install = dict.fromkeys(OF_TEXTS, "'whenpool[texts]'")
        self.install["sentence_transformers"] = "'whenpool[sentence_transformers]'"

    def list_commands(self, context: click.Context) -> list[str]:
        self._add()
        return super().list_commands(context)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.commands:
            self._add()
        command = super().get_command(context, name)
        absent = command is None and name in OF_THE_BOOK.split()
        check(not absent, f"`whenpool {name}` is a command of the book; run it in a clone of it")
        return command

    def _add(self) -> None:
        if not self.added:
            self.added = True
            for point in entry_points(group=ADDED):
                point.load()(self)


def main() -> None:
    """Run the command line: a user's mistake is one line and exit code 2."""

    # as ctrl-C does, and once: a second signal would disturb the clean-up
    def stop(*_: Any) -> None:
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
        install = cli.install.get(str(error.name).partition(".")[0])
        advice = f"pip install {install}" if install else "make setup"
        line = f"this needs the package {error.name}: {advice}"
    except OSError as error:  # a folder that cannot be made or written, wherever it is needed
        line = str(InputError(f"{error.filename or 'a file'}: {error.strerror or error}"))
    click.echo(f"whenpool: {line}", err=True)
    sys.exit(code)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="whenpool")
def cli() -> None:
    """Why and when should you pool? Advice for your own texts, and the experiments of the book."""


@cli.command()
@click.argument("file", type=FILE_THERE)
@column_option("text")
@column_option("label")
@click.option(
    "--encoding", default="", help="Encoding of the file, such as cp1252. [default: UTF-8]"
)
@click.option(
    "--merge-case", is_flag=True, help="Merge labels that differ in case or spaces alone."
)
@click.option(
    "--drop-rare", is_flag=True, help="Leave out classes of fewer than 10 different texts."
)
@click.option(
    "--poolings",
    type=NAMES,
    default="",
    help="Poolings to train; an encoder also has cls and own, its own mode. [default: all]",
)
@click.option(
    "--encoder",
    help="Pool the states of this encoder: a folder, or a name in Hugging Face's cache.",
)
@click.option("--json", "json_file", type=FILE, help="File for the numbers.")
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

    The command trains and probes a small model with each pooling, or reads the texts with an
    encoder that is ready, and writes a page with its advice.
    """
    from whenpool.explain import diagnosis

    made = diagnosis.diagnose(file, **options, say=partial(click.echo, err=True))
    click.echo(f"{made.text}\n\nThe report is {made.report}")
    if made.explain:
        click.echo(f"To explain a text: {made.explain}")


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
    type=FILE_THERE,
    help="Table of texts to explain: .csv, .tsv, .jsonl, .json, .xlsx or .parquet.",
)
@column_option("text")
@click.option(
    "--out",
    type=FILE,
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

    from whenpool.explain.checkpoint import load_checkpoint
    from whenpool.explain.explanation import explain as explained
    from whenpool.explain.explanation import explain_file

    complete = bool(texts) != bool(file) == bool(out)
    check(complete, "give what to explain: --text, or --file and --out, the .csv file to write")
    torch.set_num_threads(1)  # for one text: threads would wait for each other
    made = load_checkpoint(model)
    if file and out:
        count = explain_file(made, file, out, text_column, label)
        click.echo(f"{count:,} texts are explained in {out}")
    for number, text in enumerate(texts):
        if text == "-":
            text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
        click.echo("\n" * (number > 0) + explained(made, text, label).text)
