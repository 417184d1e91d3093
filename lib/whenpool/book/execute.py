"""One chapter: from its text to an executed notebook (jupytext, papermill)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import papermill
import yaml
from jupyter_client.kernelspec import NoSuchKernel
from jupytext.myst import MystMetadataParsingError
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from whenpool.base.errors import BookError
from whenpool.book.fresh import LAST_CELL

CELL_SECONDS = 3600  # A cell that takes longer is stopped: the runs it needs were computed before


def is_notebook(source: Path) -> bool:
    """Whether a page has cells to execute."""
    return "\nkernelspec:" in source.read_text("utf-8")


def execute(source: Path, target: Path, parameters: Mapping[str, Any]) -> str:
    """Execute a chapter in a kernel and put the notebook where pages are rendered from; returns what the
    kernel says in `LAST_CELL`. papermill sets ``parameters`` after the chapter's parameters cell; those that
    it does not have are left out. Raises `BookError` when a cell fails; the notebook as far as it got stays
    beside ``target``."""
    executing = target.with_suffix(".executing.ipynb")
    try:
        notebook = jupytext.read(source)
        notebook.cells.append(nbformat.v4.new_code_cell(LAST_CELL))
        jupytext.write(notebook, executing)
    except (yaml.YAMLError, MystMetadataParsingError) as error:
        raise BookError(f"{source} has YAML that is not valid: {' '.join(str(error).split())}") from None
    known = papermill.inspect_notebook(executing)
    kernel = ["--IPKernelApp.log_level=50"]  # its errors are reported below
    try:
        executed = papermill.execute_notebook(
            executing, executing, {name: value for name, value in parameters.items() if name in known},
            # not papermill's cwd, which changes the folder of this whole process
            resources={"metadata": {"path": str(target.parent.resolve())}},
            kernel_name="python3", execution_timeout=CELL_SECONDS, extra_arguments=kernel,
            progress_bar=False,
        )  # fmt: skip
    except (PapermillExecutionError, NoSuchKernel, RuntimeError, OSError) as error:
        kind, message = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", error)
        why, where = f"{kind}: {' '.join(str(message).split())}", ""
        if isinstance(error, DeadKernelError):
            why += f"; where memory ran out, execute it alone with --chapter {source.stem}"
        cells = nbformat.read(executing, 4).cells
        begun = [cell for cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
        if begun:  # else the kernel has not started
            text, code = source.read_text("utf-8"), begun[-1].source
            line = text.count("\n", 0, text.find(f"\n{code}\n```") + 1) + 1
            where = f", the cell at line {line} ({code.partition(chr(10))[0]})"
            why += f"\nThe notebook up to this cell is {executing}"
        raise BookError(f"book/{source.name}{where}: {why}") from None
    used = "".join(output["text"] for output in executed.cells.pop()["outputs"])
    del executed.metadata.papermill["input_path"], executed.metadata.papermill["output_path"]
    # who opens the notebook changes its own parameters cell; each figure says which runs it has
    executed.cells = [
        cell for cell in executed.cells if "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    nbformat.write(executed, executing)
    executing.replace(target)
    return used
