"""Trainings that have not ended: what stops one costs a minute and an epoch at most. Those trained together
write a file of their last epoch one after the other, and keep that of the epoch before until all are written:
so they go on from the same epoch and, the same ones together, bit for bit as if nothing had stopped them.
"""

import time
from collections.abc import Sequence
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
    these ``keys``. ``states`` are what they go on from, None for those that begin anew, as all do where one
    cannot be read. What another version of the library, another device or another precision has saved is
    not read: one result would hold numbers of two kinds."""

    def __init__(self, store: Store, keys: Sequence[str], device: str) -> None:
        self._folder, self._keys, self._device = store.directory / "unfinished", keys, device
        # how many were trained at once at most, also before they were stopped, and what names those models
        self._together = len(keys), hash_of(*sorted(keys))[:8] if len(keys) > 1 else ""
        made = provenance(device)
        how = precision_used(), len(keys) > 1 and kernels_on(device)
        named = (made[name] for name in ("device", "threads", "torch", "python"))
        self._made = hash_of(_CODE, *map(str, (*how, *named)))[:12]
        self._open = set(range(len(keys)))
        self._epoch, self._time = 0, time.monotonic()  # of the last save
        files = [self._folder.glob(self._file(key, "*").name) for key in keys]
        saved = [{int(file.suffixes[-2][1:]) for file in of_training} for of_training in files]
        common = max(set[int].intersection(*saved), default=0)
        self.states: list[State | None] = [None] * len(keys)
        with suppress(Exception):  # of many kinds; a training can always begin anew
            states = [State.read(self._file(key, common)) for key in keys if common]
            of_groups = [(state.facts["together"], state.facts["group"]) for state in states]
            self._together = max([self._together, *of_groups])
            self.states = [*states] or self.states

    def provenance(self) -> dict[str, Any]:
        """Of a result of these trainings that is ready now."""
        return provenance(self._device, *self._together)

    def remove(self, number: int) -> None:
        """Forget a training that is stored, or has failed."""
        self._open.discard(number)
        self._unlink(self._keys[number])

    def save(self, number: int, state: State) -> None:
        """Called after each epoch of a training; saves when it is time to."""
        epoch = len(state.facts["history"])
        if epoch != self._epoch:  # the first one decides for all
            if time.monotonic() - self._time < EVERY:
                return
            self._epoch, self._time = epoch, time.monotonic()
            give_back_freed_memory()  # now and then: after each epoch it would cost short ones too much
        state.facts.update(zip(("together", "group"), self._together, strict=True))
        with suppress(StorageError):  # a disk that is too full for it may have room for the result
            write_atomically(self._file(self._keys[number], epoch), state.as_bytes())
        kept = {key: self._file(key, epoch) for key in (self._keys[other] for other in self._open)}
        if all(file.exists() for file in kept.values()):
            for key, file in kept.items():
                self._unlink(key, file)

    def _file(self, key: str, epoch: int | str) -> Path:
        return self._folder / f"{key}-{self._made}.{epoch}.pt"

    def _unlink(self, key: str, kept: Path | None = None) -> None:
        """Delete all files of a training, those of other versions and half-written ones included."""
        for file in self._folder.glob(f"*{key}-*"):
            with suppress(OSError):  # one that stays does no harm
                if file != kept:
                    file.unlink()
