"""``make live``: the book on localhost, whose pages follow what is edited.

A changed chapter is executed and its page rendered again; a change of the packages does the same
for the chapter that was edited last. Each build is a process of its own, so that it reads the
packages as they are.
"""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
from livereload import Server

from paper import chapter_named
from whenpool.base.errors import InputError
from whenpool.base.paths import project_root

HOST = "127.0.0.1"


class Live:
    """Builds chapters by `whenpool book` with some ``options``, and knows where the pages lie."""

    def __init__(self, root: Path, chapter: str, options: tuple[str, ...]) -> None:
        self.root, self.chapter, self.options = root, chapter, options
        self.page = root / "_build" / "html" / "index.html"  # unless options say otherwise

    def build(self, chapter: str | None = None) -> None:
        """Build a chapter, or the last one; a mistake in it is one line, and its page stays as it
        was."""
        self.chapter = chapter or self.chapter
        print(f"building {self.chapter} ...")
        command = [sys.executable, "-m", "whenpool", "book", "--chapter", self.chapter]
        done = subprocess.run(
            [*command, *self.options], cwd=self.root, capture_output=True, text=True, check=False
        )
        if built := re.search(r"^The book was built .*: (.*)$", done.stdout, re.MULTILINE):
            self.page = Path(built[1]).parents[1] / "index.html"
        if done.returncode == 0:
            print(f"{self.chapter} is up to date")
            return
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        mistakes = [line for line in lines if line.startswith("whenpool: ")]
        print([*mistakes, *lines[-1:], "no reason was given"][0])


def serve(chapter: str, port: int, options: tuple[str, ...]) -> None:
    """Build a chapter, then watch all of them and the packages, and serve the pages to browsers of
    this machine, which reload them, until it is interrupted."""
    root = project_root()
    if root is None:
        raise InputError("the chapters are not here; run this inside a clone of the repository")
    sources = {path.stem: path for path in sorted((root / "book").glob("[!.]*.md"))}
    live = Live(root, chapter_named(chapter, list(sources)), options)
    if not live.page.exists():
        print("The first build of a book executes every chapter, which takes some minutes")
    live.build()
    if not live.page.exists():
        raise InputError("the book could not be built; run make book")
    server = Server()
    for name, source in sources.items():
        server.watch(str(source), partial(live.build, name))
    for kind in ("py", "toml"):
        # of a pattern, a function with a parameter would be given the files that changed
        server.watch(str(root / "lib" / "**" / f"*.{kind}"), lambda: live.build())
    print(f"The book is at http://{HOST}:{port}/ and follows your edits (ctrl-C stops it)")
    server.serve(port=port, host=HOST, root=str(live.page.parent))


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--chapter", default="index", help="Chapter to begin with.")
@click.option("--port", default=8000, help="Port of the local server.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(chapter: str, port: int, options: tuple[str, ...]) -> None:
    """Serve the book and follow edits; OPTIONS are further ones of `whenpool book`."""
    try:
        serve(chapter, port, options)
    except (InputError, OSError) as error:  # such as a port that is in use
        print(f"whenpool: port {port}: " * isinstance(error, OSError) + str(error), file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
