"""A look at this machine before long work: versions, device, corpora and folders, a line each."""

import importlib
import shutil
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path

from whenpool.base.errors import InputError, check
from whenpool.base.paths import MANIFEST, data_directory, project_root

Looks = Iterator[tuple[str, Callable[[], str]]]
"""At what, and what says how it is, or raises where no run can start."""


def check_machine(
    device: str, profile: str, data: Path | None, store: Path | None, say: Callable[[str], None] = print
) -> bool:
    """Look at everything that runs need; returns whether they can start. ``say`` is called with each line: a
    mark, "ok" or "missing", and a text that ends with what helps."""
    folder, ready = data or data_directory(), True
    for looks in (_packages(folder), _device(device), _data(profile, folder, store)):
        for what, look in looks if ready else ():
            try:
                mark, text = "ok", look()  # said at once, since reading corpora takes its time
            except (InputError, ImportError, OSError, RuntimeError) as error:
                mark, text = "missing", str(error).partition("\n")[0]
            say(f"{mark:8}{what}: {text}")
            ready &= mark == "ok"
    return ready


def _packages(data: Path) -> Looks:
    from packaging.requirements import Requirement

    def version(needed: Requirement) -> str:
        here = metadata.version(needed.name)
        check(here in needed.specifier, f"{here} is installed; pip install '{needed}', or `make setup`")
        if needed.name in ("torch", "torchtext"):  # compiled parts, or an old package on a new torch
            importlib.import_module(needed.name)
        return here

    if root := project_root():  # elsewhere pip has seen to it
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        for needed in map(
            Requirement, [*project["dependencies"], *project["optional-dependencies"]["runs"]]
        ):
            if needed.name != "torchtext" or not (data / MANIFEST).is_file():  # packed texts are numbers
                yield needed.name, partial(version, needed)


def _device(device: str) -> Looks:
    import torch

    from whenpool.runs.engine import check_device, processors
    from whenpool.runs.run import processor

    def gpu() -> str:
        mend = "install a driver and a torch for it, or use --device cpu"
        check(torch.cuda.is_available(), f"torch {torch.__version__} sees no GPU; {mend}")
        torch.ones(8, device=device).sum().item()  # another process may hold it, or torch lack kernels
        free = torch.cuda.mem_get_info(device)[0] / 1e9
        return f"{torch.cuda.get_device_name(device)}, {free:.0f} GB free, CUDA {torch.version.cuda}"

    check_device(device, here=False)
    yield "device cpu", lambda: f"{processor()}, {processors()} processors"
    if device != "cpu":
        yield f"device {device}", gpu
        yield "kernels of --models-per-batch", lambda: kernels(device)


def kernels(device: str) -> str:
    """Whether models trained together have kernels for their recurrences; the cache remembers a trial."""
    try:
        from whenpool.models.triton_lstm import try_out
    except ModuleNotFoundError:
        return "not used, since Triton is not installed; pip install 'whenpool[triton]'"
    right, result = try_out(device)
    return f"used unless --precision is float32: {result}" if right else f"not used: {result}"


def _data(profile: str, data: Path, store: Path | None) -> Looks:
    from whenpool.corpora import find
    from whenpool.corpora.published import PUBLICATIONS
    from whenpool.corpora.settings import find_filler
    from whenpool.corpora.sources import statistics_of
    from whenpool.runs.pack import check_pack
    from whenpool.runs.request import Request
    from whenpool.runs.run import VECTORS, Place, find_vectors
    from whenpool.runs.store import Store

    place, names = Place.default(data, store, profile == "smoke"), Request(profile).corpus_names
    here = [name for name in names if name not in PUBLICATIONS or PUBLICATIONS[name].find(data)]

    def packed() -> str:
        check_pack(data)
        return f"{', '.join(here)}; runs read them with --packed {data}"

    def corpora() -> str:
        check(here, f"none of {', '.join(names)} is in {data}; run `whenpool data fetch {names[0]}`, or name "
              "the folder that has them with --data")  # fmt: skip
        parts = [name for name in here if name in PUBLICATIONS and not whole(name)]
        lacking = [name for name in names if name not in here]
        more = f"; in part, and no reference runs: {', '.join(parts)}" if parts else ""
        return ", ".join(here) + more + (f"; not there: {', '.join(lacking)}" if lacking else "")

    def whole(name: str) -> bool:
        return statistics_of(find(name, data), "long")["complete"]  # read once; the cache remembers it

    def vectors() -> str:
        name = find_vectors(place)
        check(name, f"neither {' nor '.join(VECTORS)} is in {data}; run `whenpool data fetch glove`")
        return str(name)

    def writable(folder: Path, option: str) -> str:
        Store(folder).check_writable()
        free = shutil.disk_usage(folder).free / 1e9
        check(free >= 1, f"{folder} has {free:.1f} GB free, but needs 1; name another with {option}")
        return f"{folder}, {free:.0f} GB free"

    if (data / MANIFEST).is_file():
        yield "packed data", packed
    else:
        yield "corpora", corpora
        if any(name in PUBLICATIONS for name in names):
            yield "word vectors", vectors
            yield "filler", lambda: find_filler(data).name
    yield "store", lambda: writable(place.store.directory, "--store")
    yield "cache", lambda: writable(place.cache, "WHENPOOL_CACHE")
