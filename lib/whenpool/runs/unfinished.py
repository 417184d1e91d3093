"""Trainings that have not ended, beside the finished ones: what stops one costs an epoch.

Each has a file for its last epoch. Trainings that are trained together write theirs one after the other, and
keep those of the epoch before until all are written: so they go on from the same epoch, and bit for bit as if
nothing had stopped them.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from whenpool.base.errors import StorageError
from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.runs.run import provenance
from whenpool.runs.store import Store
from whenpool.training.state import State

EVERY = 60.0
"""Seconds between two saves, at least: a file of the thesis's model has 50 MB, and takes 0.1 s or more."""
_CODE = hash_of(*map(code_fingerprint, sorted(Path(__file__).parents[1].rglob("*.py"))))
"""Of the library that this process has loaded."""


class Unfinished:
    """The unfinished ones among some trainings of a store that are trained together, or of one alone.

    What another version of the library, another device or another precision has saved is not read: one result
    would hold numbers of two kinds.

    Args:
        keys: of the trainings; nobody else is at them.
        device: where they are trained.

    Attributes:
        together: how many models were trained at once at most, also before they were stopped.
    """

    def __init__(self, store: Store, keys: Sequence[str], device: str) -> None:
        self._folder, self._keys, self.together = store.directory / "unfinished", keys, len(keys)
        made = provenance(device)
        named = ("device", "threads", "precision", "torch", "python")
        self._made = hash_of(_CODE, *(str(made[name]) for name in named))[:12]
        found = [self._epochs(key) for key in keys]
        common = set[int].intersection(*found)
        self._first = [max(common or own, default=0) for own in found]  # epochs to go on from
        self._open = set(keys)
        self._epoch, self._time = 0, time.monotonic()  # of the last save

    def read(self, number: int) -> State | None:
        """What a training goes on from; None where there is nothing, or its file is damaged."""
        file = self._file(self._keys[number], self._first[number])
        with suppress(Exception):  # of many kinds; a training can always begin anew
            state = State.read(file)
            self.together = max(self.together, state.facts["together"])
            return state
        return None

    def saver(self, number: int) -> Callable[[State], None]:
        """What a training is to call after each epoch; it saves when it is time to."""
        return lambda state: self._save(self._keys[number], state)

    def remove(self, number: int) -> None:
        """Forget a training that is stored, or has failed."""
        self._open.discard(self._keys[number])
        for file in self._files(self._keys[number]):
            file.unlink(missing_ok=True)

    def _save(self, key: str, state: State) -> None:
        epoch = len(state.facts["history"])
        if epoch != self._epoch:  # the first one decides for all
            if time.monotonic() - self._time < EVERY:
                return
            self._epoch, self._time = epoch, time.monotonic()
        state.facts["together"] = self.together
        with suppress(StorageError):  # a disk that is too full for it may have room for the result
            write_atomically(self._file(key, epoch), state.as_bytes())
        if all(self._file(own, epoch).exists() for own in self._open):
            kept = {self._file(own, epoch) for own in self._open}
            for file in {file for own in self._open for file in self._files(own)} - kept:
                file.unlink(missing_ok=True)

    def _file(self, key: str, epoch: int) -> Path:
        return self._folder / f"{key}-{self._made}.{epoch}.safetensors"

    def _files(self, key: str) -> set[Path]:
        """All of a training, also those of other versions, and what a kill has left half written."""
        return set(self._folder.glob(f"*{key}-*"))

    def _epochs(self, key: str) -> set[int]:
        return {
            int(file.suffixes[-2][1:]) for file in self._folder.glob(f"{key}-{self._made}.*.safetensors")
        }
