"""Trainings that have not ended: what stops one costs a minute and an epoch at most. Those trained together
write a file of their last epoch one after the other, and keep that of the epoch before until all are written:
so they go on from the same epoch and, the same ones together, bit for bit as if nothing had stopped them.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from whenpool.base.errors import StorageError
from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.base.memory import give_back_freed_memory
from whenpool.models.batched_lstm import kernels_on
from whenpool.models.precision import precision_used
from whenpool.runs.run import provenance
from whenpool.runs.store import Store
from whenpool.training.loop import State

EVERY = 60.0  # Seconds between two saves, at least: of the thesis's model one takes 0.1 s, and 50 MB
_FILES = [file for kind in ("*.py", "*.toml") for file in sorted(Path(__file__).parents[1].rglob(kind))]
_CODE = hash_of(*map(code_fingerprint, _FILES))  # Of the library that this process has loaded


class Unfinished:
    """Those of some trainings of a store that are trained together that have not ended; nobody else is at
    these ``keys``. What another version of the library, another device or another precision has saved is
    not read: one result would hold numbers of two kinds."""

    def __init__(self, store: Store, keys: Sequence[str], device: str) -> None:
        self._folder, self._keys = store.directory / "unfinished", keys
        # how many were trained at once at most, also before they were stopped, and what names those models
        self.together = len(keys)
        self.group = hash_of(*sorted(keys))[:8] if len(keys) > 1 else ""
        self._device, made = device, provenance(device)
        named = ("device", "threads", "torch", "python")
        how = (precision_used(), len(keys) > 1 and kernels_on(device))
        self._made = hash_of(_CODE, *map(str, how), *(str(made[name]) for name in named))[:12]
        files = [self._folder.glob(self._file(number, "*").name) for number in range(len(keys))]
        saved = [{int(file.suffixes[-2][1:]) for file in of_training} for of_training in files]
        common = set[int].intersection(*saved)
        self._first = [max(common or epochs, default=0) for epochs in saved]  # epochs to go on from
        self._open = set(range(len(keys)))
        self._done, self._time = 0, time.monotonic()  # epochs until the last save, and when it was

    def read(self, number: int) -> State | None:
        """The state that a training goes on from; None where there is none, or its file is damaged."""
        file = self._file(number, self._first[number])
        with suppress(Exception):  # of many kinds; a training can always begin anew
            state = State.read(file)
            if state.facts["together"] > self.together:
                self.together, self.group = state.facts["together"], state.facts["group"]
            return state
        self._first[number] = 0
        return None

    def provenance(self) -> dict[str, Any]:
        """Of a result of these trainings that is ready now."""
        return provenance(self._device, self.together, self.group)

    def remove(self, number: int) -> None:
        """Forget a training that is stored, or has failed."""
        self._open.discard(number)
        self._unlink([number])

    def save(self, number: int, state: State) -> None:
        """Called after each epoch of a training; saves when it is time to."""
        done = len(state.facts["history"]) - self._first[number]  # epochs since this process began
        if done != self._done:  # the first one decides for all
            if time.monotonic() - self._time < EVERY:
                return
            self._done, self._time = done, time.monotonic()
            give_back_freed_memory()  # now and then: after each epoch it would cost short ones too much
        state.facts.update(together=self.together, group=self.group)
        with suppress(StorageError):  # a disk that is too full for it may have room for the result
            write_atomically(self._file(number, self._first[number] + done), state.as_bytes())
        kept = {self._file(other, self._first[other] + done) for other in self._open}
        if all(file.exists() for file in kept):
            self._unlink(self._open, kept)

    def _file(self, number: int, epoch: int | str) -> Path:
        return self._folder / f"{self._keys[number]}-{self._made}.{epoch}.pt"

    def _unlink(self, numbers: Iterable[int], kept: Collection[Path] = ()) -> None:
        """Delete all files of some trainings, those of other versions and half-written ones included."""
        for number in numbers:
            for file in self._folder.glob(f"*{self._keys[number]}-*"):
                with suppress(OSError):  # one that stays does no harm
                    if file not in kept:
                        file.unlink()
