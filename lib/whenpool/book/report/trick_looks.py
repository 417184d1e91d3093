"""What the figures of "Learnability tricks" are drawn from, and how each variant looks (thesis §2.2)."""

from typing import TYPE_CHECKING

from whenpool.book.report.figures import CHANCE_COLOUR, COLOURS, TRICK_COLOURS
from whenpool.book.report.tricks import SETTINGS, VARIANTS
from whenpool.book.report.verdicts import column

if TYPE_CHECKING:
    from pandas import DataFrame

BEFORE = "before training"
ATTENDING = ("penalty_attention", "dropout_attention")
_STARTS = {"forget 2": "#000000", "chrono": "#767676", "orthogonal": "#767676"}
_DASHES = {"forget 2": (1, 1.5), "chrono": (1, 1.5), "orthogonal": (4, 1.5, 1, 1.5)}
PALETTE = {BEFORE: CHANCE_COLOUR} | {
    title: (COLOURS | TRICK_COLOURS | _STARTS)[name] for name, title in VARIANTS.items()
}
"""A colour for each variant, by what figures call it."""
DASHES = {BEFORE: (4, 1.5)} | {title: _DASHES.get(name, "") for name, title in VARIANTS.items()}
"""Other starts are dotted or dashed."""


def named(rows: "DataFrame") -> "DataFrame":
    """Some rows with ``variant`` and ``setting`` as figures call and order them, those from before
    training as a variant of their own.

    Args:
        rows: of `Store.histories` or of the probe "gradients", with both columns.
    """
    import pandas as pd

    titles = rows["variant"].map(VARIANTS).mask(column(rows, "untrained").eq(True), BEFORE)
    orders = {"variant": list(PALETTE), "setting": list(SETTINGS)}
    values = {"variant": titles, "setting": rows["setting"]}
    return rows.assign(
        **{
            name: pd.Categorical(values[name], [one for one in order if one in set(values[name])])
            for name, order in orders.items()
        }
    )


def ending(epochs: "DataFrame") -> "DataFrame":
    """The epochs of what attends in training and tells how much attention is left, see `named`."""
    left = column(epochs, "mass_left").notna() & epochs["variant"].isin(ATTENDING)
    return named(epochs[left])
