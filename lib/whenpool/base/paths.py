"""Where things lie: the clone, the data, the finished runs, the cache."""

import os
from pathlib import Path


def project_root() -> Path | None:
    """The clone of the book that this is: around the working directory, else around the package."""
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "_toc.yml").is_file() and (folder / "lib" / "whenpool").is_dir():
                return folder
    return None


def data_directory() -> Path:
    """Where downloaded corpora lie: ``WHENPOOL_DATA``, else ``data/corpora`` of the clone."""
    return _directory("WHENPOOL_DATA", "corpora", "user_data_path")


def store_directory() -> Path:
    """Where finished runs lie: ``WHENPOOL_STORE``, else ``data/runs`` of the clone."""
    return _directory("WHENPOOL_STORE", "runs", "user_data_path")


def cache_directory() -> Path:
    """What can be made again at any time: ``WHENPOOL_CACHE``, else ``data/cache`` of the clone."""
    return _directory("WHENPOOL_CACHE", "cache", "user_cache_path")


def _directory(variable: str, name: str, outside: str) -> Path:
    """What a variable says, else a folder of the clone, else the system's for such data."""
    if path := os.environ.get(variable):
        return Path(path).expanduser()
    if root := project_root():
        return root / "data" / name
    import platformdirs  # which models and probes do without

    folder: Path = getattr(platformdirs, outside)("whenpool")
    return folder if outside == "user_cache_path" else folder / name
