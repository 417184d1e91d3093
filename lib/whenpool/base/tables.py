"""Tables and lists that people write by hand, read so that a mistake in one is a line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Columns(NamedTuple):
    """The columns that a table must have, separated by spaces, and which of them hold numbers."""

    required: str = ""
    numbers: str = ""


def checked_table(file: Path, what: str, columns: Columns, **text: type) -> "pd.DataFrame":
    """A CSV file, called ``what`` in messages, with its columns checked; ``text`` are types of some. A
    value that cannot be is named by its row (the first below the header is row 1) and column."""
    import pandas as pd

    try:
        table = pd.read_csv(file, dtype=text)
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise InputError(f"{what} {file} cannot be read: {reason:.300}") from None
    for name in columns.required.split():
        check(name in table, f"{what} {file} cannot be read: column {name!r} is missing")
        values = table[name]
        if name in columns.numbers.split():
            values = pd.to_numeric(values, errors="coerce").replace(float("inf"), float("nan"))
        for row in values.index[values.isna()]:
            wrong = f"{str(table[name][row])!r:.60} is missing or no number"
            raise InputError(f"{what} {file}, row {row + 1}, column {name!r}: {wrong}")
    return table
