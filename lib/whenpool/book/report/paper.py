"""The thesis's numbers, as data: ``data/paper/*.csv``."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from whenpool.base.documents import Columns, checked_table
from whenpool.base.errors import InputError
from whenpool.base.paths import project_root

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = {
    name: Columns(frozenset(f"table {names} {numbers}".split()), numbers=frozenset(numbers.split()))
    for name, names, numbers in (
        ("accuracy", "length corpus setting pooling", "size mean std"),
        ("corpora", "length corpus", "classes average_length max_length train_size test_size"),
        ("vanishing", "source pooling", "size ratio validation_accuracy"),
        ("few_shot", "model corpus", "accuracy"),
        ("learnability", "method corpus setting", "size accuracy"),
    )
}
FILES = tuple(COLUMNS)
RUNS_PER_CELL = 5
"""Seeds behind each mean and standard deviation of the thesis (§1.4.2)."""


def published(name: str) -> "DataFrame":
    """One of `FILES`: each row is a number of the thesis, ``table`` says where it stands.

    Raises:
        InputError: outside a clone of the book, or for a file that is not as it should be.
    """
    root = project_root()
    if root is None:
        raise InputError("the thesis's numbers are in the clone of the book: run this inside it")
    file = Path(root) / "data" / "paper" / f"{name}.csv"
    return _read(file, name, file.stat().st_mtime_ns if file.is_file() else 0).copy()


@lru_cache
def _read(file: Path, name: str, changed: int) -> "DataFrame":
    return checked_table(file, "the thesis's numbers", COLUMNS[name], table=str)
