"""The thesis's numbers, as data: ``data/paper/*.csv``."""

from pathlib import Path
from typing import TYPE_CHECKING

from whenpool.errors import InputError
from whenpool.places import project_root

if TYPE_CHECKING:
    from pandas import DataFrame

FILES = ("accuracy", "corpora", "vanishing", "few_shot", "learnability")
RUNS_PER_CELL = 5
"""Seeds behind each mean and standard deviation of the thesis (§1.4.2)."""


def published(name: str) -> "DataFrame":
    """One of `FILES`: each row is a number of the thesis, ``table`` says where it stands.

    Raises:
        InputError: outside a clone of the book.
    """
    import pandas as pd

    root = project_root()
    if root is None:
        raise InputError("the thesis's numbers are in the clone of the book: run this inside it")
    file = Path(root) / "data" / "paper" / f"{name}.csv"
    return pd.read_csv(file, dtype={"table": str})
