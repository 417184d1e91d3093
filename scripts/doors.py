"""Note in data/results/doors.csv how a notebook fared with the newest packages, for
scripts/doors.sh.

python scripts/doors.py CHAPTER EXIT_CODE LOG
"""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
import pandas as pd

FILE = Path(__file__).parents[1] / "data" / "results" / "doors.csv"
PACKAGES = ("torch", "numpy", "pandas", "matplotlib")


@click.command()
@click.argument("chapter")
@click.argument("code", type=int)
@click.argument("log", type=click.Path(path_type=Path))
def main(chapter: str, code: int, log: Path) -> None:
    """Write the chapter's row anew; what does not work keeps the day on which it last did."""
    today, lines = f"{datetime.now(UTC):%Y-%m-%d}", log.read_text("utf-8").strip().splitlines()
    row = {"chapter": chapter, "tried": today, "last_worked": today, "error": ""}
    row |= {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    table = pd.DataFrame(columns=list(row))
    if FILE.exists():
        table = pd.read_csv(FILE, dtype=str, keep_default_na=False)
    is_chapter = table["chapter"] == chapter
    if code:
        row["last_worked"] = "".join(table.loc[is_chapter, "last_worked"])
        row["error"] = "".join(lines[-1:])[:200]
    table = pd.concat([table[~is_chapter], pd.DataFrame([row])]).sort_values("chapter")
    table.to_csv(FILE, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
