"""From executed chapters to pages: jupyter-book."""

import re
import subprocess
import sys
from pathlib import Path

from whenpool.base.errors import BookError


def render(stage: Path, output: Path) -> Path:
    """Render the chapters of a staging folder; returns the first page.

    Args:
        stage: the folder of sources and executed notebooks, with ``_config.yml`` and ``_toc.yml``.
        output: the pages go into its folder ``_build/html``.

    Raises:
        BookError: for anything that jupyter-book or Sphinx warns of, with what they say.
    """
    log = output / "_build" / "render.log"
    command = [
        sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build",
        str(stage), "--path-output", str(output), "-W", "--keep-going", "-q",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    log.write_text(said)
    page = output / "_build" / "html" / "index.html"
    if done.returncode or not page.exists():
        told = [line for line in said.splitlines() if re.search("warning:|error", line, re.I)][:8]
        raise BookError("\n".join([f"the pages could not be rendered; the whole log is {log}", *told]))
    return page
