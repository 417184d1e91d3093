"""Tables and lists that people write by hand, read so that a mistake in one is a line."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from whenpool.base.errors import InputError, check

if TYPE_CHECKING:
    import pandas as pd


def listed(file: Path, what: str) -> list[Any]:
    """The items of a YAML file that is one list, called ``what`` in messages."""
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built
        items = loader(file.read_text("utf-8")).get_single_data()
    except OSError as error:
        raise InputError(f"the {what} {file} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # the parser lets the mistakes of dates, numbers and types through
        raise InputError(f"{file} is not valid YAML; correct it: {error!s:.300}") from None
    check(items is None or isinstance(items, list), f"{file} must be a YAML list of {what}")
    return items or []


class Columns:
    """What a table must be like: columns ``required`` in each row, or ``present`` with gaps, separated by
    spaces; which of them hold ``numbers`` or ``flags``, and the ``unique`` one."""

    def __init__(
        self, required: str = "", present: str = "", numbers: str = "", flags: str = "", unique: str = ""
    ) -> None:
        self.required, self.present = frozenset(required.split()), frozenset(present.split())
        self.numbers, self.flags = frozenset(numbers.split()), frozenset(flags.split())
        self.unique = unique

    def fault_in(self, row: Mapping[str, Any]) -> str:
        """What is wrong with a row that came from JSON, or nothing; it may lack any column."""
        for name, value in row.items():
            is_flag = isinstance(value, bool)
            if value is None:
                continue
            if not isinstance(value, str | int | float):
                return f"{name:.40} is not a number, text, true or false"
            if name in self.numbers and (is_flag or isinstance(value, str)):
                return f"{name} is {value!r:.40}, which is not a number"
            if name in self.flags and not is_flag:
                return f"{name} is {value!r:.40}, which is not true or false"
        return ""


def checked_table(file: Path, what: str, columns: Columns, **text: type) -> "pd.DataFrame":
    """A CSV file, called ``what`` in messages, with its columns checked; ``text`` are types of some. A
    value that cannot be is named by its row (the first below the header is row 1) and column."""
    import pandas as pd

    try:
        table = pd.read_csv(file, dtype=text)
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise InputError(f"{what} {file} cannot be read: {reason:.300}") from None
    for name in sorted(columns.required | columns.present, key=lambda name: (name != "key", name)):
        check(name in table, f"{what} {file} cannot be read: column {name!r} is missing")
    for name, values in table.items():
        missing, kind = values.isna(), values.dtype.kind
        faults = []  # which rows are wrong, and why
        if name in columns.required:
            faults.append((missing, "the value is missing"))
        if name in columns.numbers:
            numbers = pd.to_numeric(values, errors="coerce")
            faults.append((~missing & (numbers.isna() | (kind == "b")), "the value is not a number"))
            if name in columns.required:
                faults.append((~numbers.astype(float).abs().lt(float("inf")), "the value is not finite"))
        if name in columns.flags:
            is_flag = values.isin([True, False, "True", "False"]) & (kind not in "if")
            faults.append((~missing & ~is_flag, "the value is not True or False"))
        if name == columns.unique:
            faults.append((values.duplicated(), "the value occurs twice"))
        for wrong, reason in faults:
            if wrong.any():
                row = int(wrong.to_numpy().argmax())
                value = "" if pd.isna(values.iloc[row]) else f", {str(values.iloc[row])!r:.60}"
                where = f"{what} {file}, row {row + 1}, column {str(name)!r:.60}"
                raise InputError(f"{where}: {reason}{value}")
    return table
