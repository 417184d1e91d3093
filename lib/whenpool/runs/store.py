"""Finished runs, one file each, and the tables made of them.

A run is stored the moment it ends, under a key that is the hash of its *identity*: its
configuration, the fingerprints of its data, and the version of the protocol. Commit, versions and
device stand beside it as provenance. Files are written in one step, so a crash loses nothing that
was finished; a file that is damaged or does not belong here is set aside, never deleted and never
counted.

Runs of record are the same rows in CSV files that travel with the project; they are read only.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whenpool.base.errors import InputError
from whenpool.base.files import Columns, checked_table, write_atomically

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass
class Store:
    """A folder of finished runs, and maybe a folder of runs of record beside it.

    Attributes:
        set_aside: a line for each file that was set aside since the store was opened.
    """

    directory: Path
    records: Path | None = None
    set_aside: list[str] = field(default_factory=list)

    def put(
        self,
        identity: Mapping[str, Any],
        run: Mapping[str, Any],
        result: Mapping[str, Any],
        provenance: Mapping[str, Any],
        history: Iterable[Mapping[str, Any]] = (),
        weights: bytes | None = None,
    ) -> str:
        """Store a finished run and return its key.

        Raises:
            InputError: when the store cannot be written.
        """
        key = key_of(identity)
        row = {
            "identity": identity,
            "run": run,
            "result": result,
            "provenance": provenance,
            "history": list(history),
        }
        self._write(key, json.dumps(row, indent=1), weights)
        return key

    def adopt(self, key: str, content: bytes, weights: bytes | None = None) -> None:
        """Store a run that another store has under the same key, byte for byte; raises `InputError` for
        content that is damaged or of another key, and when the store cannot be written."""
        row, reason = parse_run(content, key)
        if row is None:
            raise InputError(f"run {key} cannot be taken over from another store: {reason}")
        self._write(key, content, weights)

    def check_writable(self) -> None:
        """Raises `InputError` when the store cannot be written, before work is done for it."""
        probe = self.directory / ".writable"
        write_atomically(probe, b"")
        probe.unlink(missing_ok=True)  # another command may look at the same moment

    def get(self, key: str) -> dict[str, Any] | None:
        """A stored run, or None; a damaged file is set aside."""
        file = self._file(key)
        if not file.exists():
            return None
        try:
            content = file.read_bytes()
        except OSError as error:  # it may be readable the next time
            raise InputError(f"stored run {file} cannot be read: {error.strerror}") from None
        row, reason = parse_run(content, key)
        if row is None:
            self._put_aside(file, reason)
        return row

    def keys(self) -> set[str]:
        """Of all runs here, records included."""
        here = {file.stem for file in self.directory.glob("*.json")}
        return {key for key in here if self.get(key)} | self._recorded_keys

    def has(self, key: str, with_weights: bool = False) -> bool:
        """Whether a run is done, and its weights are here if they are asked for."""
        if with_weights:
            return self.get(key) is not None and self.weights_file(key).exists()
        return self.get(key) is not None or key in self._recorded_keys

    def weights_file(self, key: str) -> Path:
        """Where the weights of a run's best epoch lie, as safetensors."""
        return self.directory / f"{key}.safetensors"

    def fail(self, key: str, run: Mapping[str, Any], message: str) -> None:
        """Note that a run failed; a later success clears the note."""
        write_atomically(self._failure_file(key), json.dumps({"run": run, "message": message}))

    def failure(self, key: str, since: float) -> str | None:
        """What a run said that has failed since a `time.time`, or None."""
        file = self._failure_file(key)
        try:
            if file.stat().st_mtime < since:
                return None
            return str(json.loads(file.read_text("utf-8"))["message"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def failures(self) -> dict[str, str]:
        """What each failed run said, by key."""
        found = {}
        for file in sorted((self.directory / "failed").glob("*.json")):
            try:
                found[file.stem] = str(json.loads(file.read_text("utf-8"))["message"])
            except (OSError, ValueError, KeyError, TypeError):
                self.set_aside.append(f"{file} is not a note of a failed run")
        return found

    def trainings(self) -> "DataFrame":
        """A row for each training: its configuration, result and provenance in columns."""
        return self._table(self.recorded, "training")

    def probes(self) -> "DataFrame":
        """A row for each probe run, the same way; ``probe`` is its kind."""
        return self._table(self.recorded_probes, "probe")

    def few_shots(self) -> "DataFrame":
        """A row for each few-shot run, the same way; ``system`` is a row of Table 1.9."""
        return self._table(self.recorded_few_shots, "few-shot")

    def taggings(self) -> "DataFrame":
        """A row for each tagging run, the same way."""
        return self._table(self.recorded_taggings, "tagging")

    def histories(self) -> "DataFrame":
        """A row for each epoch of each training: ``key`` and `whenpool.training.loop.Epoch`'s columns."""
        rows = self._history(lambda row: kind_of(row["run"]) == "training")
        return self._with_record(rows, HISTORY_OF_RECORD)

    def few_shot_histories(self) -> "DataFrame":
        """The same for few-shot runs, whose epochs end with a look at the validation texts."""
        rows = self._history(lambda row: kind_of(row["run"]) == "few-shot")
        return self._with_record(rows, LOOKS_OF_RECORD)

    def tagging_histories(self) -> "DataFrame":
        """The same for tagging runs."""
        rows = self._history(lambda row: kind_of(row["run"]) == "tagging", "epoch")
        return self._with_record(rows, TAGGED_EPOCHS_OF_RECORD)

    def tagging_gradients(self) -> "DataFrame":
        """A row for each place of a sentence where a tagging run measured gradients: ``stage``,
        ``position``, ``mean`` of all words' losses and ``single`` of one word's, and the ``key``."""
        rows = self._history(lambda row: kind_of(row["run"]) == "tagging", "position")
        return self._with_record(rows, TAGGING_GRADIENTS_OF_RECORD)

    def measured(self, kind: str) -> "DataFrame":
        """A row for each point that the probe runs of one kind measured, and their ``key``."""
        rows = self._history(lambda row: row["run"].get("probe") == kind)
        return self._with_record(rows, measured_file(kind))

    def measured_on(self, probes: "DataFrame", kind: str) -> "DataFrame":
        """The same for some rows of `probes`, with their columns beside; one that both have is the
        measured point's, and the run's ends in ``_of_run``."""
        rows = self.measured(kind)
        wanted = probes[probes["probe"] == kind] if len(probes) else probes
        if wanted.empty:
            return rows.head(0)
        return rows.merge(wanted.dropna(axis=1, how="all"), on="key", suffixes=("", "_of_run"))

    def _table(self, recorded: "DataFrame", kind: str) -> "DataFrame":
        import pandas as pd

        found = [(key, row) for key, row in self._rows() if kind_of(row["run"]) == kind]
        rows = pd.DataFrame([self._flat(key, row) for key, row in found])
        if len(rows):
            recorded = recorded[~recorded["key"].isin(rows["key"])]
        return pd.concat(
            [part for part in (recorded, rows) if len(part)] or [recorded], ignore_index=True
        )

    def _history(
        self, wanted: Callable[[dict[str, Any]], bool], having: str = ""
    ) -> list[dict[str, Any]]:
        """What some runs gave, of it what has a value of a name, where one is asked for."""
        return [
            {"key": key, **part}
            for key, row in self._rows()
            if wanted(row)
            for part in row["history"]
            if not having or having in part
        ]

    def _with_record(self, rows: list[dict[str, Any]], name: str) -> "DataFrame":
        import pandas as pd

        recorded = self.read_record(name)
        recorded = recorded[~recorded["key"].isin({row["key"] for row in rows})]
        parts = [part for part in (pd.DataFrame(rows), recorded) if len(part)]
        return pd.concat(parts, ignore_index=True) if parts else recorded

    def _rows(self) -> list[tuple[str, dict[str, Any]]]:
        keys = sorted(file.stem for file in self.directory.glob("*.json"))
        return [(key, row) for key in keys if (row := self.get(key))]

    @staticmethod
    def _flat(key: str, row: dict[str, Any]) -> dict[str, Any]:
        data = {f"data_{name}": value for name, value in row["identity"].get("data", {}).items()}
        protocol = {"protocol": row["identity"].get("protocol")}
        return {"key": key, **protocol, **row["run"], **row["result"], **data, **row["provenance"]}

    @cached_property
    def recorded(self) -> "DataFrame":
        """The trainings of record alone, as `trainings` has them."""
        return self.read_record(RUNS_OF_RECORD)

    @cached_property
    def recorded_probes(self) -> "DataFrame":
        """The probe runs of record alone, as `probes` has them."""
        return self.read_record(PROBES_OF_RECORD)

    @cached_property
    def recorded_few_shots(self) -> "DataFrame":
        """The few-shot runs of record alone, as `few_shots` has them."""
        return self.read_record(FEW_SHOTS_OF_RECORD)

    @cached_property
    def recorded_taggings(self) -> "DataFrame":
        """The tagging runs of record alone, as `taggings` has them."""
        return self.read_record(TAGGINGS_OF_RECORD)

    @cached_property
    def _recorded_keys(self) -> set[str]:
        tables = self.recorded, self.recorded_probes, self.recorded_few_shots, self.recorded_taggings
        return {key for table in tables for key in table["key"]}

    def read_record(self, name: str) -> "DataFrame":
        """A file of record as it is, or no rows where there is none; raises `InputError` for a column or
        value that is not as `whenpool.runs.store` says."""
        import pandas as pd

        file = self.records / name if self.records else None
        if file is None or not file.is_file():
            return pd.DataFrame(columns=["key"])
        columns = COLUMNS.get(name, Columns(frozenset(["key"])))
        return checked_table(file, "runs of record", columns, key=str)

    def _write(self, key: str, content: bytes | str, weights: bytes | None) -> None:
        if weights is not None:  # first, so that a run whose file is there has its weights too
            write_atomically(self.weights_file(key), weights)
        write_atomically(self._file(key), content)
        self._failure_file(key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self.directory / f"{key}.json"

    def _failure_file(self, key: str) -> Path:
        return self.directory / "failed" / f"{key}.json"

    def _put_aside(self, file: Path, reason: str) -> None:
        folder = self.directory / "set-aside"
        names = (folder / f"{file.stem}{number or ''}{file.suffix}" for number in count())
        aside = next(name for name in names if not name.exists())  # nothing is ever overwritten
        line = f"{file} is not counted: {reason}; "
        try:
            folder.mkdir(exist_ok=True)
            file.rename(aside)
            line += f"set aside as {aside}"
        except OSError as error:
            line += f"it could not be set aside ({error.strerror})"
        if line not in self.set_aside:
            self.set_aside.append(line)


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


_RUN = "key protocol corpus length seed"
_MADE = "seconds commit device torch finished"
_TRAINED = "setting size pooling masked hidden_size embedding_size layers cell bidirectional epochs"
_TAGGED = "hidden_size layers cell bidirectional epochs features entities"
_TESTED = "test_accuracy corpus_complete"
"""Empty where a training diverged."""
_NUMBERS = frozenset(
    "protocol size seed share max_words validation test layers embedding_size hidden_size "
    "drop_connect epochs batch_size learning_rate weight_decay test_accuracy test_loss "
    "validation_accuracy best_epoch majority_accuracy classes train_texts validation_texts "
    "test_texts vocabulary parameters encoder_parameters train_words filler_passes_train "
    "filler_passes_validation filler_passes_test seconds threads together strength texts k shortest "
    "longest texts_probed left middle right probe_protocol ratio middle_to_ends sample "
    "ratio_at_start ratio_at_95 examples_at_95 per_class max_tokens steps looks head_learning_rate "
    "unlabelled unlabelled_batch augmentations replaced topics pretraining steps_done "
    "accuracy_both accuracy_forward accuracy_backward "
    "halvings exponent labelled_texts unlabelled_texts unlabelled_read test_cut tokens_read "
    "feature_size dropout unknown_rate profiled lexicon_accuracy unseen_words later_words test_words "
    "unseen_accuracy later_accuracy entity_precision entity_recall entity_f1 entities_true "
    "entities_predicted entities_right entities_boundary entities_mistyped entities_spurious "
    "entities_missed gradient_evenness gradient_reach".split()
)
_FLAGS = frozenset(
    "bidirectional masked corpus_complete complete orthogonal untrained features entities".split()
)
_POINTS = frozenset(
    "epoch train_loss train_accuracy validation_loss validation_accuracy seconds factor "
    "attention_accuracy mass_left divergence position mean median std share_added accuracy words "
    "examples ratio band_ratio megabytes supervised consistency margin confidence left_out confident "
    "single validation_entity_precision validation_entity_recall validation_entity_f1".split()
)
_COMPARED = (
    "size hidden_size epochs together together_other pairs identical with_weights mean_difference "
    "largest_accuracy largest_loss"
)
_SIDES = "corpus length setting masked device precision engine device_other precision_other engine_other"
_MEASURED = "classes average_length max_length train_size test_size"

RUNS = Columns(numbers=_NUMBERS, flags=_FLAGS)
"""Of the configuration, result and provenance of any stored run."""
POINTS = Columns(numbers=_POINTS)
"""Of what a stored run gives for each epoch or position."""


def _columns(required: str, numbers: frozenset[str], present: str = "", unique: str = "") -> Columns:
    return Columns(frozenset(required.split()), frozenset(present.split()), numbers, _FLAGS, unique)


def _runs(required: str, present: str = "") -> Columns:
    return _columns(f"{_RUN} {required}", _NUMBERS, f"{_MADE} {present}", "key")


def _points(required: str) -> Columns:
    return _columns(f"key {required}", _POINTS)


COLUMNS = {
    "trainings.csv": _runs(_TRAINED, _TESTED),
    "probes.csv": _runs(f"{_TRAINED} probe probe_protocol"),
    "few_shots.csv": _runs("system per_class", _TESTED),
    "taggings.csv": _columns(
        f"key protocol corpus seed {_TAGGED}", _NUMBERS, f"{_MADE} {_TESTED}", "key"
    ),
    "trainings_history.csv": _points("epoch"),
    "few_shots_history.csv": _points("epoch"),
    "taggings_history.csv": _points("epoch"),
    "taggings_gradients.csv": _points("stage position mean single"),
    "probes_gradients.csv": _points("position mean"),
    "probes_first_steps.csv": _points("position mean"),
    "probes_directions.csv": _points("direction accuracy"),
    "probes_memory.csv": _points("words megabytes"),
    "probes_nwi.csv": _points("position mean"),
    "probes_sweep.csv": _points("share_added accuracy setting_added"),
    "probes_trace.csv": _points("examples ratio"),
    "comparisons.csv": _columns(
        f"key {_SIDES} {_COMPARED}",
        frozenset(f"{_COMPARED} std_difference largest_weight".split()),
        unique="key",
    ),
    "corpora.csv": _columns(
        f"corpus length {_MEASURED}", frozenset([*_MEASURED.split(), "validation_size"])
    ),
}
"""Of each file of record, by its name."""
