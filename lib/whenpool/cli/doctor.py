"""A look at this machine before long work; nothing heavy is imported at the top: what lacks is a line."""

import importlib
import importlib.util
import platform
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from whenpool.base.errors import InputError, check
from whenpool.base.paths import MANIFEST, data_directory, project_root

if TYPE_CHECKING:
    from whenpool.runs.run import Place

GIGABYTE = 1e9
ROOM_NEEDED = 1.0  # Gigabytes: a few thousand stored runs, or a corpus in the cache, need less
LARGEST_ERROR = 1e-3  # Of a GPU in float32: a reordered sum is a hundred times closer to the processor's
Finding = tuple[str, str]
"""A mark, "ok", "note" (runs can start all the same) or "missing", and a line that ends with what helps."""


def check_machine(
    device: str, profile: str, data: Path | None, store: Path | None, say: Callable[[str], None] = print
) -> bool:
    """Look at everything that runs need, and say it, a line each; returns whether they can start."""

    def complete(findings: Iterator[Finding]) -> bool:
        marks = []
        for mark, text in findings:  # said at once: reading corpora takes its time
            say(f"{mark:8}{text}")
            marks.append(mark)
        return "missing" not in marks

    python, needed = _requirements()
    if ((data or data_directory()) / MANIFEST).is_file():  # texts are numbers already
        needed = [line for line in needed if not line.startswith("torchtext")]
    if not complete(_packages(python, needed)):
        return False
    from whenpool.runs.request import Request  # which needs some of the packages
    from whenpool.runs.run import Place

    names = Request(profile).corpus_names
    if not complete(_device(device)):
        return False
    place = Place.default(data, store, profile == "smoke")
    with_data = complete(_data(names, place))
    return complete(_folders(place)) and with_data


def _requirements() -> tuple[str, list[str]]:
    root = project_root()
    if root and (root / "pyproject.toml").is_file():
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        needed = [*project["dependencies"], *project["optional-dependencies"]["runs"]]
        return project["requires-python"], needed
    installed = metadata.metadata("whenpool")
    lines = installed.get_all("Requires-Dist") or []
    needed = [line for line in lines if "extra ==" not in line or re.search("extra == .runs.", line)]
    return installed["Requires-Python"], [line.partition(";")[0] for line in needed]


def _packages(python: str, lines: Sequence[str]) -> Iterator[Finding]:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    here, right = platform.python_version(), []
    if here in SpecifierSet(python):
        yield "ok", f"python {here}"
    else:
        yield "missing", f"python is {here}, but {python} is needed: use another one for the environment"
    for requirement in map(Requirement, lines):
        name, version = requirement.name, ""
        mend = f"pip install '{requirement}', or `make`, which sets up .venv"
        try:
            version = metadata.version(name)
            if not requirement.specifier.contains(version, prereleases=True):
                yield "missing", f"{name} is {version}, but {requirement.specifier} is needed: {mend}"
                continue
            if name in ("torch", "torchtext"):  # compiled parts, or an old package on a new torch
                importlib.import_module(name)
            right.append(f"{name} {version}")
        except metadata.PackageNotFoundError:
            yield "missing", f"{name} is not installed: {mend}"
        except (ImportError, OSError) as error:
            reason = str(error).partition("\n")[0]
            yield "missing", f"{name} {version} cannot be loaded ({reason}): {mend}"
    if right:
        yield "ok", ", ".join(right)
    if not importlib.util.find_spec("jupyter_book"):
        yield "note", "jupyter-book is not installed: runs can start, but the book cannot be built"


def _device(device: str) -> Iterator[Finding]:
    import torch

    from whenpool.runs.engine import check_device, processors
    from whenpool.runs.run import processor

    check_device(device, here=False)
    yield "ok", f"device cpu: {processor()}, {processors()} processors"
    if device == "cpu":
        return
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    if not torch.cuda.is_available():
        none = f"device {device}: torch {torch.__version__} is built {built} and sees no GPU"
        yield "missing", f"{none}: install a driver and a torch for CUDA, or use --device cpu"
        return
    try:
        card = torch.cuda.get_device_properties(device)
        free = torch.cuda.mem_get_info(device)[0] / GIGABYTE
        error = error_beside_processor(device)
    except RuntimeError as failure:  # another process holds it, or torch has no kernels for it
        reason, mend = str(failure).partition("\n")[0], "free it, or install a torch that supports it"
        yield "missing", f"device {device}: it cannot compute ({reason}): {mend}"
        return
    text = (
        f"device {device}: {card.name}, {free:.0f} of {card.total_memory / GIGABYTE:.0f} GB free, "
        f"compute capability {card.major}.{card.minor}, torch built {built}, cuDNN "
        f"{torch.backends.cudnn.version()}; an encoder's results differ from the processor's by {error:.0e}"
    )
    mend = f"more than {LARGEST_ERROR:.0e}: update the driver and torch, or use --device cpu"
    yield ("ok", text) if error <= LARGEST_ERROR else ("missing", f"{text}, {mend}")
    if (torch.backends.cudnn.version() or 0) < 91300:
        slow = "--precision bfloat16 is slow here: cuDNN 9.13, which torch 2.10 has, makes it fast"
        yield "note", slow
    yield _kernels(device)


def _kernels(device: str) -> Finding:
    """Whether models trained together have kernels for their recurrences; the cache remembers a trial."""
    right, found, mend = False, "Triton is not installed", "pip install 'whenpool[triton]'"
    if importlib.util.find_spec("triton"):
        from whenpool.models.triton_lstm import try_out

        (right, found), mend = try_out(device), "install the version of triton that torch requires"
    if right:
        return "ok", f"--models-per-batch uses kernels of Triton unless --precision is float32: {found}"
    return "note", f"--models-per-batch uses a slower loop of torch, without Triton: {found}; {mend}"


def error_beside_processor(device: str) -> float:
    """The largest absolute difference of an encoder's states and gradients from those on the processor."""
    import torch

    from whenpool.models.encoder import Encoder
    from whenpool.models.precision import precision

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder, inputs = Encoder(16, 24), torch.randn(4, 12, 16)
    lengths = torch.tensor([12, 9, 5, 1])
    found = []
    for where in ("cpu", device):
        encoder.to(where).zero_grad()
        with precision("float32"):
            states = encoder(inputs.to(where), lengths.to(where))
            states.square().sum().backward()
        values = [states, *(parameter.grad for parameter in encoder.parameters())]
        found.append([value.detach().cpu() for value in values if value is not None])
    return max((one - other).abs().max().item() for one, other in zip(*found, strict=True))


def _data(names: Sequence[str], place: "Place") -> Iterator[Finding]:
    from whenpool.corpora import find
    from whenpool.corpora.published import PUBLICATIONS
    from whenpool.corpora.settings import find_filler
    from whenpool.corpora.sources import statistics_of
    from whenpool.runs.pack import check_pack
    from whenpool.runs.run import VECTORS, find_vectors

    published = [name for name in names if name in PUBLICATIONS]
    if published and (place.data / MANIFEST).is_file():
        try:
            check_pack(place.data)
            there = [name for name in published if PUBLICATIONS[name].find(place.data)]
            yield "ok", f"packed data: {', '.join(there)}; runs read them with --packed {place.data}"
        except InputError as error:
            yield "missing", f"packed data: {error}"
        return
    for name in names:
        if name not in published:
            yield "ok", f"corpus {name}: generated when it is needed"
            continue
        if PUBLICATIONS[name].find(place.data) is None:
            yield "note", f"corpus {name}: not there; `whenpool data fetch {name}` downloads it"
            continue
        try:  # each is read once, and that remembered in the cache
            source = find(name, place.data)
            lengths = {length: statistics_of(source, length) for length in PUBLICATIONS[name].sizes}
        except InputError as error:
            yield "missing", f"corpus {name}: {error}"
            continue
        texts = ", ".join(f"{found['train_size']:,} {length}" for length, found in lengths.items())
        if all(found["complete"] for found in lengths.values()):
            yield "ok", f"corpus {name}: whole, {texts} training texts"
        else:
            part = f"only a part or a stand-in, {texts} training texts"
            yield "note", f"corpus {name}: {part}; its runs cannot be reference runs"
    if not published:
        return
    if not any(PUBLICATIONS[name].find(place.data) for name in published):
        mend = f"run `whenpool data fetch {published[0]}`, or name the folder that has them with --data"
        yield "missing", f"corpora: none of {', '.join(published)} is in {place.data}: {mend}"
    if vectors := find_vectors(place):
        yield "ok", f"word vectors: {vectors}"
    else:
        none = f"neither {' nor '.join(VECTORS)} is in {place.data}"
        yield "missing", f"word vectors: {none}: run `whenpool data fetch glove`"
    try:
        yield "ok", f"filler: {find_filler(place.data).name}"
    except InputError as error:
        yield "missing", f"filler: {error}"


def _folders(place: "Place") -> Iterator[Finding]:
    from whenpool.runs.store import Store

    folders = ("store", place.store.directory, "--store"), ("cache", place.cache, "WHENPOOL_CACHE")
    for name, folder, option in folders:
        try:
            Store(folder).check_writable()
            free = shutil.disk_usage(folder).free / GIGABYTE
            few = f"{free:.1f} GB free, but {ROOM_NEEDED:.0f} GB is needed; free some"
            check(free >= ROOM_NEEDED, few)
            yield "ok", f"{name} {folder}: writable, {free:.0f} GB free"
        except InputError as error:
            yield "missing", f"{name} {folder}: {error}; or name another folder with {option}"
