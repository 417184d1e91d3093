"""``python -m whenpool.book.live``: the book on localhost, whose pages follow what is edited.

A changed chapter is executed and its page rendered again; a change of the library does the same for the
chapter that was edited last. Each build is a process of its own, so that it reads the library as it is.
"""

import argparse
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from livereload import Server

from whenpool.base.errors import InputError
from whenpool.base.paths import project_root
from whenpool.book.build import chapter_named

HOST = "127.0.0.1"


@dataclass
class Live:
    """Builds a chapter again when it changed, or the library; ``options`` are further ones of
    ``whenpool book``."""

    root: Path
    chapter: str
    options: tuple[str, ...] = ()

    @property
    def pages(self) -> Path:
        """Where the built pages are."""
        return self.root / "_build" / ("smoke/_build" if "smoke" in self.options else "") / "html"

    def changed(self, chapter: str | None = None) -> None:
        """Build a chapter, or the last one where the library changed. A mistake in it is told in one line,
        and its page stays as it was."""
        self.chapter = chapter or self.chapter
        print(f"{self.chapter} ...")
        command = [sys.executable, "-m", "whenpool", "book", "--chapter", self.chapter, *self.options]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            print(f"{self.chapter} is up to date")
        else:
            told = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason was given"]
            print(next((line for line in told if line.startswith("whenpool: ")), told[-1]))

    def serve(self, port: int) -> None:
        """Watch the chapters and the library, and serve the pages to browsers of this machine, which
        reload them, until it is interrupted."""
        server = Server()
        for source in sorted((self.root / "book").glob("*.md")):
            server.watch(str(source), partial(self.changed, source.stem))
        server.watch(str(self.root / "lib" / "whenpool" / "**" / "*.py"), self.changed)
        print(f"The book is at http://{HOST}:{port}/ and follows your edits (ctrl-C stops)")
        server.serve(port=port, host=HOST, root=str(self.pages))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m whenpool.book.live")
    parser.add_argument("--chapter", default="index", help="the one to begin with")
    parser.add_argument("--port", type=int, default=8000)
    given, options = parser.parse_known_args()
    root = project_root()
    try:
        if root is None:
            raise InputError("the chapters are in the repository: run this inside a clone")
        names = sorted(path.stem for path in (root / "book").glob("*.md"))
        live = Live(root, chapter_named(given.chapter, names), tuple(options))
        if not (live.pages / "index.html").exists():
            print("There is no book yet: the first build executes every chapter, some minutes")
        live.changed()
        if not (live.pages / "index.html").exists():
            raise InputError("there is no book yet, and it could not be built: run make book")
        live.serve(given.port)
    except InputError as error:
        print(f"whenpool: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a port that is in use
        print(f"whenpool: port {given.port}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
