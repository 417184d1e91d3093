"""Draw the front page's figure for the README, after runs were recorded: python scripts/front_figure.py."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt

from whenpool.book.report import figures, front
from whenpool.book.report.measures import Runs
from whenpool.runs.run import Place

FILE = Path(__file__).parents[1] / "book" / "_static" / "front.svg"


def main() -> None:
    """Write the figure; its description holds the numbers that it was drawn from, which a test compares."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    runs = Runs(Place.default())
    figures.use_style()
    plt.rcParams |= {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"], "svg.hashsalt": "front"}
    figure = front.draw_front(runs)
    figure.set_facecolor("white")  # which is legible on dark pages too
    figure.savefig(
        FILE, metadata={"Description": "; ".join(map(" ".join, front.facts(runs).items())), "Date": None}
    )
    print(f"{FILE} was written")


if __name__ == "__main__":
    main()
