"""YAML and CSV files of the project's own, read so that a mistake in one is told in a line.

What reads them further counts on columns that are there and numbers that are numbers.
"""

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whenpool.base.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@dataclass(frozen=True)
class Columns:
    """What a table must be like.

    Attributes:
        required: columns that are there and have a value in each row; a number among them is finite.
        present: columns that are there besides, and may have gaps.
        numbers, flags: columns that hold numbers, or True and False, where they are there.
        unique: a column without repeated values; empty for none.
    """

    required: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    unique: str = ""

    def fault_in(self, row: Mapping[str, Any]) -> str:
        """What is wrong with a row that came from JSON, or nothing; it may lack any column."""
        for name, value in row.items():
            if not isinstance(value, str | int | float | bool | None):
                return f"{name:.40} is no plain value"
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and name in self.numbers and not is_number:
                return f"{name} is no number but {value!r:.40}"
            if value is not None and name in self.flags and not isinstance(value, bool):
                return f"{name} is neither true nor false but {value!r:.40}"
        return ""


def listed(file: Path, what: str) -> list[Any]:
    """The items of a YAML file that is one list.

    Args:
        what: the items, as a message calls them.

    Raises:
        InputError: for a file that cannot be read, or holds something else.
    """
    import yaml

    try:
        found = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"the {what} {file} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise InputError(f"{file} is not YAML of ours: brackets in too many brackets") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # the parser lets the mistakes of dates, numbers and marked types through as they come
        raise InputError(f"{file} is not YAML: {error!s:.300}") from None
    if found is None:
        return []
    if not isinstance(found, list):
        raise InputError(f"{file} is not a list of {what}")
    return found


def check_once(file: Path, what: str, ids: Sequence[str]) -> None:
    """Raises `InputError` for an id that two entries of a file have."""
    for name in ids:
        if ids.count(name) > 1:
            raise InputError(f"{file}: the {what} {name!r} stands there twice")


def shown(value: Any) -> str:
    """A value from such a file in few letters, however deep or repeated its parts are."""
    return reprlib.repr(value)


def checked_table(file: Path, what: str, columns: Columns, **text: type) -> "DataFrame":
    """A CSV file with its columns checked.

    Args:
        what: what it holds, as a message calls it.
        text: columns that are read as `str`, whatever they look like.

    Raises:
        InputError: for a file that cannot be read, a column that is missing, or a value that cannot be,
            named by its row (the first below the header is row 1) and column.
    """
    import pandas as pd

    try:
        found = pd.read_csv(file, dtype=text)
    except OSError as error:
        raise InputError(f"{what} {file} cannot be read: {error.strerror or error}") from None
    except (ValueError, OverflowError) as error:
        raise InputError(f"{what} {file} cannot be read: {error!s:.300}") from None
    for name in sorted(columns.required | columns.present, key=lambda name: (name != "key", name)):
        if name not in found:
            raise InputError(f"{what} {file} cannot be read: there is no column {name!r}")
    for name in found:
        if fault := _fault(found[name], columns):
            row, reason = fault
            raise InputError(f"{what} {file}, row {row + 1}, column {str(name)!r:.60}: {reason}")
    return found


def _fault(values: "Series", columns: Columns) -> tuple[int, str] | None:
    """The first row that is wrong, and why."""
    import pandas as pd

    name, missing = values.name, values.isna()
    wrong, reason = missing & False, ""
    if name in columns.required:
        wrong, reason = missing, "there is no value"
    if name in columns.numbers and not wrong.any():
        numbers = pd.to_numeric(values, errors="coerce") if values.dtype.kind not in "if" else values
        wrong, reason = numbers.isna() & ~missing, "it is no number"
        if values.dtype.kind == "b":
            wrong = ~missing
        elif name in columns.required and not wrong.any():
            wrong, reason = ~numbers.map(math.isfinite), "it is not finite"
    if name in columns.flags and not wrong.any():
        wrong = ~(missing | values.isin([True, False, "True", "False"]))
        reason = "it is not True or False"
        if values.dtype.kind in "if":
            wrong = ~missing
    if name == columns.unique and not wrong.any():
        wrong, reason = values.duplicated(), "it stands there twice"
    if not wrong.any():
        return None
    row = int(wrong.to_numpy().argmax())
    return row, f"{reason}, {str(values.iloc[row])!r:.60}" if not missing.iloc[row] else reason
