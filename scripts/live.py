"""``make live``: the book on localhost, whose pages follow what is edited.

A changed chapter is executed and its page rendered again; a change of the library does the same for
the chapter that was edited last. Each build is a process of its own, so that it reads the library
as it is.
"""

import argparse
import subprocess
import sys
from functools import partial

from livereload import Server

from paper import chapter_named
from paper.pages.builder import Builder
from paper.runs.request import Request, corpora_named
from paper.runs.run import Place
from whenpool.base.errors import InputError
from whenpool.base.paths import project_root

HOST = "127.0.0.1"


def serve(chapter: str, port: int, options: list[str]) -> None:
    """Build a chapter, then watch all of them and the library, and serve the pages to browsers of
    this machine, which reload them, until it is interrupted. ``options``: further ones of
    ``whenpool book``."""
    root = project_root()
    if root is None:
        raise InputError("the chapters are not here; run this inside a clone of the repository")
    sources = {path.stem: path for path in sorted((root / "book").glob("*.md"))}
    last = chapter_named(chapter, list(sources))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--corpus", action="append")
    asked, _ = parser.parse_known_args(options)
    request = Request(asked.profile, corpora_named(asked.corpus))
    pages = Builder(root, request, Place.default()).output / "_build" / "html"

    def build(chapter: str | None = None) -> None:
        """Build a chapter, or the last one; a mistake in it is one line, and its page stays as it
        was."""
        nonlocal last
        last = chapter or last
        print(f"building {last} ...")
        command = [sys.executable, "-m", "whenpool", "book", "--chapter", last, *options]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            print(f"{last} is up to date")
        else:
            lines = [line for line in done.stderr.splitlines() if line.strip()] or [
                "no reason was given"
            ]
            print(next((line for line in lines if line.startswith("whenpool: ")), lines[-1]))

    if not (pages / "index.html").exists():
        print(
            "There is no book yet; the first build executes every chapter, which takes some minutes"
        )
    build()
    if not (pages / "index.html").exists():
        raise InputError("there is no book yet, and it could not be built; run make book")
    server = Server()
    for name, source in sources.items():
        server.watch(str(source), partial(build, name))
    for kind in ("py", "toml"):
        server.watch(str(root / "lib" / "whenpool" / "**" / f"*.{kind}"), partial(build, None))
    print(f"The book is at http://{HOST}:{port}/ and follows your edits (ctrl-C stops it)")
    server.serve(port=port, host=HOST, root=str(pages))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/live.py")
    parser.add_argument("--chapter", default="index", help="Chapter to begin with.")
    parser.add_argument("--port", type=int, default=8000, help="Port of the local server.")
    given, options = parser.parse_known_args()
    try:
        serve(given.chapter, given.port, options)
    except InputError as error:
        print(f"whenpool: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a port that is in use
        print(f"whenpool: port {given.port}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
