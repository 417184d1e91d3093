"""Which command does which run, where several work on one store.

A claim is a lock on a small file, so that it ends with the process that holds it, however that ends.
"""

from pathlib import Path

from filelock import FileLock, Timeout


class Claims:
    """The claims of one command on a store."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self._held: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Claim a run; whether that was possible, or it was ours already."""
        if key in self._held:
            return True
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._folder / f"{key}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        self._held[key] = lock
        return True

    def release(self, key: str) -> None:
        """Let go of a run that is stored or has failed.

        The file goes first: who opened it before and gets the lock now looks into the store next, and
        finds what was done.
        """
        lock = self._held.pop(key)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()

    def release_all(self) -> None:
        """Let go of what was not ended. The files stay: of two that wait for one, each could otherwise
        get a lock on a file of its own."""
        while self._held:
            self._held.popitem()[1].release()
