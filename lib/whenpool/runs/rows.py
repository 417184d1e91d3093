"""The rows of finished runs that count, and from rows back to the configurations of runs."""

from collections.abc import Iterable
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

from whenpool.runs.kinds.few_shot import FEW_SHOT_PROTOCOL, FewShot
from whenpool.runs.kinds.probe import PROBE_PROTOCOL, PROBES, Probe
from whenpool.runs.kinds.tagging import TAGGING_PROTOCOL, Tagging
from whenpool.runs.kinds.training import PROTOCOL, Training
from whenpool.runs.run import Place

if TYPE_CHECKING:
    from pandas import DataFrame


def current_trainings(place: Place) -> "DataFrame":
    """All finished trainings under the protocol of this version."""
    return _under(PROTOCOL, place.store.trainings())


def current_probes(place: Place) -> "DataFrame":
    """All finished probe runs under the protocols of this version."""
    table = place.store.probes()
    if table.empty:
        return table
    current = (table["protocol"] == PROTOCOL) & (table["probe_protocol"] == PROBE_PROTOCOL)
    return table[current].reset_index(drop=True)


def current_few_shots(place: Place) -> "DataFrame":
    """All finished few-shot runs under the protocol of this version."""
    return _under(FEW_SHOT_PROTOCOL, place.store.few_shots())


def current_taggings(place: Place) -> "DataFrame":
    """All finished tagging runs under the protocol of this version."""
    return _under(TAGGING_PROTOCOL, place.store.taggings())


def _under(protocol: int, table: "DataFrame") -> "DataFrame":
    """The rows of a protocol."""
    return table[table["protocol"] == protocol].reset_index(drop=True) if len(table) else table


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


def tagging_of(row: Any) -> Tagging:
    """The configuration of a row of `Store.taggings`."""
    return Tagging(**_values(row, fields(Tagging)))


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
