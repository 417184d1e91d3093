"""``python -m whenpool.book.launch [--check]``, see `whenpool.book.launch`."""

import sys

from whenpool.book.launch import stale, write
from whenpool.base.paths import project_root


def main() -> int:
    """Write the notebooks, or only say which differ; the exit code is 1 when some do."""
    root = project_root()
    if root is None:
        print("the chapters are in the repository: run this inside a clone", file=sys.stderr)
        return 2
    if "--check" in sys.argv[1:]:
        for path in (differ := stale(root)):
            print(
                f"{path.relative_to(root)} is not what its chapter gives: run python -m whenpool.book.launch"
            )
        return 1 if differ else 0
    for path in (changed := write(root)):
        print(f"{path.relative_to(root)} {'written' if path.exists() else 'removed'}")
    if not changed:
        print("the notebooks are up to date")
    return 0


sys.exit(main())
