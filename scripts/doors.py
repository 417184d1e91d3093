"""Note in data/results/doors.csv how a notebook fared with the newest packages, for
scripts/doors.sh.

python scripts/doors.py CHAPTER EXIT_CODE LOG
"""

import argparse
import csv
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

FILE = Path(__file__).parents[1] / "data" / "results" / "doors.csv"
PACKAGES = ("torch", "numpy", "pandas", "matplotlib")


def main() -> None:
    """Write the chapter's row anew; what does not work keeps the day on which it last did."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapter")
    parser.add_argument("code", type=int)
    parser.add_argument("log", type=Path)
    given = parser.parse_args()
    rows = {}
    if FILE.exists():
        with FILE.open(encoding="utf-8", newline="") as file:
            rows = {row["chapter"]: row for row in csv.DictReader(file)}
    today, worked = f"{datetime.now(UTC):%Y-%m-%d}", given.code == 0
    before = rows.get(given.chapter, {"last_worked": ""})["last_worked"]
    lines = given.log.read_text("utf-8").strip().splitlines() or [""]
    rows[given.chapter] = {
        "chapter": given.chapter,
        "tried": today,
        "last_worked": today if worked else before,
        "error": "" if worked else lines[-1][:200],
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }
    with FILE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, [*rows[given.chapter]], lineterminator="\n")
        table.writeheader()
        table.writerows(rows[name] for name in sorted(rows))


if __name__ == "__main__":
    main()
