"""What can be asked for, stored and looked up, and where its data and results lie."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError
from whenpool.base.paths import cache_directory, data_directory, project_root, store_directory
from whenpool.corpora import CorpusSource, find
from whenpool.runs.kinds.base import Run as Run
from whenpool.runs.kinds.base import key_of
from whenpool.runs.store import Store

VECTORS = ("glove.6B.100d", "wiki-reviews.100d")
"""Word vectors that the paper's protocol looks for, best first (§1.4.2)."""


@dataclass(frozen=True)
class Place:
    """Where runs find their data and leave their results."""

    store: Store
    data: Path
    cache: Path

    @classmethod
    def default(
        cls, data: Path | None = None, store: Path | None = None, smoke: bool = False
    ) -> "Place":
        """The folders that the environment or the clone names, see `whenpool.base.paths`.

        Runs of the profile "smoke" lie apart, where nothing that is published reads them.
        """
        directory = store or store_directory()
        if smoke:
            return cls(Store(directory / "smoke"), data or data_directory(), cache_directory())
        root = project_root()
        records = root / "data" / "results" if root else None
        return cls(Store(directory, records), data or data_directory(), cache_directory())

    def source(self, run: Any) -> CorpusSource:
        return find(run.corpus, self.data)

    def vectors_file(self, name: str) -> Path:
        """Raises `InputError` when the vectors are not there."""
        for suffix in (".txt", ".txt.gz"):
            for folder in (self.data, self.data / "vectors"):
                if (folder / f"{name}{suffix}").is_file():
                    return folder / f"{name}{suffix}"
        raise InputError(
            f"word vectors {name}.txt are not in {self.data}; `whenpool data fetch glove` brings GloVe's"
        )


def find_vectors(place: Place) -> str | None:
    """The first of `VECTORS` that is there."""
    for name in VECTORS:
        with suppress(InputError):
            place.vectors_file(name)
            return name
    return None


def key(run: Run, place: Place) -> str:
    """The key under which a run is stored."""
    return key_of(run.identity(place))
