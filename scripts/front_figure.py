"""Draw the first figure of the front page for the README, after its models have changed: python
scripts/front_figure.py."""

import argparse
from pathlib import Path
from typing import Any

import jupytext
import matplotlib.pyplot as plt

BOOK = Path(__file__).parents[1] / "book"
FILE = BOOK / "_static" / "front.svg"


def drawn() -> dict[str, Any]:
    """The names that the cells of the front page define, up to the one that draws its figure."""
    names: dict[str, Any] = {"plt": plt}
    show, plt.show = plt.show, lambda: None
    try:
        for cell in jupytext.read(BOOK / "index.md").cells:
            if cell.cell_type == "code":
                exec(cell.source, names)  # noqa: S102 - the page is ours
            if "fig-hero" in str(cell.metadata):
                return names
    finally:
        plt.show = show
    raise AssertionError("book/index.md has no figure fig-hero")


def facts_of(page: dict[str, Any]) -> str:
    """What the figure shows: how sure each model is at each share of filler."""
    answers = page["answers"]
    return "; ".join(f"{name} {' '.join(map('{:.2f}'.format, answers[name]))}" for name in answers)


def main() -> None:
    """Write the figure; its description holds the numbers that it was drawn from, which a test
    compares."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    page = drawn()
    plt.rcParams["svg.hashsalt"] = "front"
    page["figure"].set_facecolor("white")  # which is legible on dark pages too
    page["figure"].savefig(FILE, metadata={"Description": facts_of(page), "Date": None})
    print(f"{FILE} was written")


if __name__ == "__main__":
    main()
