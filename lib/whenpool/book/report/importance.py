"""What the figures of word importance show (thesis §1.9)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from whenpool.corpora.settings import SETTINGS

if TYPE_CHECKING:
    from pandas import DataFrame


def where_the_text_stands(setting: str, share: float, points: int = 100) -> Any:
    """Which of the positions of a profile lie in the original text, by construction (§1.8.1).

    Args:
        setting: "standard", "left", "mid" or "right".
        share: filler's part of all words.

    Returns:
        (points,) bool
    """
    place = np.linspace(0, 1, points)
    low, high = text_span(setting, share)
    return (place >= low) & (place <= high)


def text_span(setting: str, share: float) -> tuple[float, float]:
    """Where the original text begins and ends, as parts of the whole."""
    return {
        "standard": (0.0, 1.0),
        "left": (0.0, 1 - share),
        "mid": (share / 2, 1 - share / 2),
        "right": (share, 1.0),
    }[setting]


def ends_and_middle(profile: Any) -> tuple[float, float]:
    """Mean NWI of both outer tenths together, and of the middle fifth, of (100,) positions."""
    return (profile[:10].mean() + profile[90:].mean()) / 2, profile[40:60].mean()


def importance_table(measured: "DataFrame") -> "DataFrame":
    """Mean NWI where the text stands, and where the filler stands, by setting (rows) and pooling.

    Args:
        measured: rows of the probe "nwi" beside the configuration of their training.
    """
    import pandas as pd

    from whenpool.book.report.tables import POOLING_NAMES, grid

    if measured.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    cells = []
    for (setting, pooling), rows in measured.groupby(["setting", "pooling"], sort=False):
        profile = rows.groupby("position")["mean"].mean().to_numpy()
        inside = where_the_text_stands(str(setting), rows["share"].iloc[0], len(profile))
        ends, middle = ends_and_middle(profile)
        text = f"{ends:.2f} / {middle:.2f}"
        if setting != "standard":
            text = f"{profile[inside].mean():.2f} / {profile[~inside].mean():.2f}"
        cells.append({"setting": setting, "pooling": pooling, "text": text})
    order = [*POOLING_NAMES, *SETTINGS]
    table = pd.DataFrame(cells).sort_values(["pooling", "setting"], key=lambda c: c.map(order.index))
    return grid(table, ["pooling"], ["setting"], lambda row: row["text"])
