"""One chapter: from MyST Markdown to an executed notebook (jupytext, papermill)."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError

from whenpool.base.errors import BookError, InputError
from whenpool.base.paths import variables

_ASSIGNMENT = re.compile(r"(?P<name>\w+) = (?P<value>[^#]*?)(?P<remark>\s*#.*)?")
CELL_SECONDS = 3600
"""A cell that takes longer is stopped: the runs it needs were computed before."""


ALIASES = {"nwi": "word_importance", "tricks": "learnability", "gradients": "gradient_propagation"}
"""Short names of chapters, beside every part of a name that no other chapter has."""


def chapter_named(name: str, names: Sequence[str]) -> str:
    """The chapter that is meant by its name, an alias or a part of its name.

    Raises:
        InputError: when there is none, or several.
    """
    name = Path(name).stem if name.endswith(".md") else name
    if name in names:
        return name
    if (alias := ALIASES.get(name, "")) in names:
        return alias
    found = [chapter for chapter in names if name in chapter]
    if not name or len(found) != 1:
        several = f" and {name!r} is in the names of several" if name and found else ""
        raise InputError(f"there is no chapter {name!r}{several}; the book has {', '.join(names)}")
    return found[0]


def is_notebook(source: Path) -> bool:
    """Whether a page has cells to execute."""
    return "\nkernelspec:" in source.read_text("utf-8")


def execute(
    source: Path, target: Path, parameters: Mapping[str, Any], environment: dict[str, str]
) -> None:
    """Execute a chapter and put the notebook where the pages are rendered from.

    Args:
        parameters: values for the chapter's parameters cell; those it does not have are left out.
        environment: variables of the kernel.

    Raises:
        BookError: when a cell fails; the notebook as far as it got stays beside ``target``.
    """
    notebook = jupytext.read(source)
    unexecuted, executing = target.with_suffix(".source.ipynb"), target.with_suffix(".executing.ipynb")
    jupytext.write(notebook, unexecuted)
    try:
        with variables(environment):
            known = papermill.inspect_notebook(unexecuted)
            papermill.execute_notebook(
                unexecuted,
                executing,
                parameters={name: value for name, value in parameters.items() if name in known},
                cwd=target.parent,
                kernel_name="python3",
                execution_timeout=CELL_SECONDS,
                extra_arguments=["--IPKernelApp.log_level=50"],  # its errors are told below
                progress_bar={
                    "desc": "    cells",
                    "bar_format": "{desc} {n_fmt}/{total_fmt} |{bar:20}| {elapsed}",
                },
            )
    except PapermillExecutionError as error:
        where = _place(error, [cell.source for cell in notebook.cells])
        raise BookError(
            f"chapter {source.stem}, {where}: {error.ename}: {error.evalue}\n"
            f"The notebook as far as it got: {executing}"
        ) from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise BookError(f"chapter {source.stem}: {error}") from None
    finally:
        unexecuted.unlink()
    _tidy(executing, parameters)
    executing.replace(target)


def _place(error: PapermillExecutionError, sources: list[str]) -> str:
    """The number of the failed cell among the chapter's, and its first line."""
    line = error.source.partition("\n")[0]
    number = sources.index(error.source) + 1 if error.source in sources else error.cell_index + 1
    return f"cell {number} ({line})"


def _tidy(notebook: Path, parameters: Mapping[str, Any]) -> None:
    """Show the parameters that were used in the chapter's own cell rather than in papermill's, and
    keep folders of this machine out of the file."""
    content = nbformat.read(notebook, as_version=4)
    for cell in content.cells:
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags:
            tags.append("remove-cell")
        elif "parameters" in tags:
            cell.source = "\n".join(_with_value(line, parameters) for line in cell.source.splitlines())
    for name in ("input_path", "output_path"):
        content.metadata.papermill.pop(name, None)
    nbformat.write(content, notebook)


def _with_value(line: str, parameters: Mapping[str, Any]) -> str:
    """``name = default  # remark`` with the value that was used."""
    match = _ASSIGNMENT.fullmatch(line)
    if not match or match["name"] not in parameters:
        return line
    value = parameters[match["name"]]
    shown = _literal(value) if isinstance(value, str) else repr(value)
    return f"{match['name']} = {shown.ljust(len(match['value']))}{match['remark'] or ''}"


def _literal(text: str) -> str:
    """A text as Python writes it, in double quotes, whatever it holds; a file can have any name."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
