"""How each system of "Learning under limited data" looks, and what is compared in a panel (§1.10)."""

from typing import TYPE_CHECKING

from whenpool.runs.few_shot_run import CONTRAST, SYSTEMS, UNLABELLED
from whenpool.book.report.few_shot import NAMES
from whenpool.book.report.figures import COLOURS, TRICK_COLOURS

if TYPE_CHECKING:
    from pandas import DataFrame

_LOOKS = {
    "vampire": (TRICK_COLOURS["gradient_directed"], "p"),
    "bert": (TRICK_COLOURS["teacher_forcing"], "s"),
    "tmix": (COLOURS["attention"], "D"),
    "max_attention": (COLOURS["max_attention"], "o"),
    "uda": (COLOURS["max"], "^"),
    "mixtext": (COLOURS["last_attention"], "v"),
    "last_words": (COLOURS["last"], "s"),
    "max_attention_words": (COLOURS["max_attention"], "o"),
}
PALETTE = {title: _LOOKS[name][0] for name, title in NAMES.items()}
"""A colour for each system, by what figures call it: max-attention and the BiLSTM as in the whole book."""
SHAPES = {title: _LOOKS[name][1] for name, title in NAMES.items()}
DASHES = {title: (4, 1.5) if name in CONTRAST else "" for name, title in NAMES.items()}
"""Dashed on word vectors."""
PANELS = {
    "no unlabelled texts": [name for name in (*SYSTEMS, *CONTRAST) if name not in UNLABELLED],
    "with unlabelled texts": [name for name in SYSTEMS if name in UNLABELLED] + ["max_attention"],
}
"""What is compared in each panel; MaxAtt stands in both."""


def named(runs: "DataFrame") -> "DataFrame":
    """The runs of the first corpus with ``system`` as figures call and order them.

    Args:
        runs: from `whenpool.book.report.few_shot_rules.arranged`.
    """
    import pandas as pd

    own = runs[runs["corpus"] == runs["corpus"].iloc[0]] if len(runs) else runs
    present = [title for name, title in NAMES.items() if name in set(own["system"])]
    return own.assign(system=pd.Categorical(own["system"].map(NAMES), present))


def in_panels(runs: "DataFrame") -> "DataFrame":
    """The same with a column ``panel``, once for each of `PANELS` that a system is in."""
    import pandas as pd

    rows = named(runs)
    panels = {title: [NAMES[name] for name in names] for title, names in PANELS.items()}
    return pd.concat(
        [rows[rows["system"].isin(names)].assign(panel=title) for title, names in panels.items()],
        ignore_index=True,
    )
