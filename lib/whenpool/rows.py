"""From the rows of tables back to the configurations of runs."""

from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any

from whenpool.few_shot_run import FewShot
from whenpool.probing import PROBES, Probe
from whenpool.runs import Training


def training_of(row: Any) -> Training:
    """The configuration of a row of `Store.trainings`."""
    values = _values(row, fields(Training))
    values["forget_bias"] = _number_or_word(values["forget_bias"])
    return Training(**values)


def probe_of(row: Any) -> Probe:
    """The configuration of a row of `Store.probes`."""
    kind = PROBES[row["probe"]]
    own = [field for field in fields(kind) if field.name != "training"]
    return kind(training_of(row), **_values(row, own))


def few_shot_of(row: Any) -> FewShot:
    """The configuration of a row of `Store.few_shots`."""
    return FewShot(**_values(row, fields(FewShot)))


def _values(row: Any, wanted: Iterable[Field[Any]]) -> dict[str, Any]:
    """Values of fields from a row of a table, where numbers may have become fractions."""
    values: dict[str, Any] = {}
    for field in wanted:
        value = row.get(field.name)  # records can be older than a field
        if value != value or value is None:  # NaN stands for None in tables
            value = None if "None" in str(field.type) else field.default
        elif isinstance(field.default, int | float):
            value = type(field.default)(value)
        elif "int" in str(field.type):
            value = int(value)
        values[field.name] = value
    return values


def _number_or_word(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
