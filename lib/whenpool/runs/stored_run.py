"""What a finished run is like as a file: its parts, its key, and the files of record by their names."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from whenpool.runs.columns import POINTS, RUNS

RUNS_OF_RECORD, HISTORY_OF_RECORD = "trainings.csv", "trainings_history.csv"
PROBES_OF_RECORD = "probes.csv"
FEW_SHOTS_OF_RECORD, LOOKS_OF_RECORD = "few_shots.csv", "few_shots_history.csv"
TAGGINGS_OF_RECORD, TAGGED_EPOCHS_OF_RECORD = "taggings.csv", "taggings_history.csv"
TAGGING_GRADIENTS_OF_RECORD = "taggings_gradients.csv"
_PARTS = ("identity", "run", "result", "provenance")


def measured_file(kind: str) -> str:
    """The file of record that holds what probe runs of one kind measured."""
    return f"probes_{kind}.csv"


def kind_of(run: Mapping[str, Any]) -> str:
    """Whether a stored run is a "training", a "probe", a "few-shot" or a "tagging" run."""
    marks = {"probe": "probe", "system": "few-shot", "encoding": "tagging"}
    return next((kind for name, kind in marks.items() if name in run), "training")


def key_of(identity: Mapping[str, Any]) -> str:
    """20 hexadecimal digits that depend on every value of the identity."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def parse_run(content: bytes, key: str) -> tuple[dict[str, Any] | None, str]:
    """A stored run, or None and what is wrong with its file."""
    try:
        row = json.loads(content)
    except (ValueError, RecursionError):
        return None, "truncated or not JSON"
    if not isinstance(row, dict) or not all(isinstance(row.get(part), dict) for part in _PARTS):
        return None, "not a run"
    history, data = row.get("history"), row["identity"].get("data", {})
    if not isinstance(history, list) or not all(isinstance(part, dict) for part in [data, *history]):
        return None, "not a run"
    if key_of(row["identity"]) != key:
        return None, "its content belongs to another key"
    parts = [(RUNS, row[part]) for part in _PARTS[1:]] + [(POINTS, part) for part in history]
    fault = next((fault for columns, part in parts if (fault := columns.fault_in(part))), "")
    return None if fault else row, fault
