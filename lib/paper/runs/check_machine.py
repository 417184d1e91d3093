"""A look at this machine before long work, which is what `whenpool check` does: versions, device,
corpora and disk, a line each. On a GPU the kernels of models trained together are tried out."""

import shutil
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch

from paper.runs.request import Request
from paper.runs.run import Place, processor
from whenpool.base.devices import check_device, processors
from whenpool.base.errors import check
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS, THESIS_CORPORA
from whenpool.corpora.settings import find_filler
from whenpool.corpora.tokens import VECTORS, find_vectors
from whenpool.models.batched_lstm import LARGEST_ERROR, kernel_error


def check_machine(
    device: str,
    profile: str,
    data: Path | None,
    store: Path | None,
    say: Callable[[str], None] = print,
) -> bool:
    """Look at everything that runs need; returns whether they can start. ``say`` is called with
    each line: a mark, "ok" or "missing", and a text that ends with what helps."""
    place = Place.default(data, store, profile == "smoke")
    names = Request(profile).corpora_or(*THESIS_CORPORA)
    here = [
        name for name in names if name not in PUBLICATIONS or PUBLICATIONS[name].find(place.data)
    ]

    def corpora() -> str:
        find((here or names)[0], place.data)  # says how to get one, where there is none
        lacking = [name for name in names if name not in here]
        return f"{', '.join(here)}; not there: {', '.join(lacking) or 'none'}"

    def disk() -> str:
        place.store.check_writable()
        free = shutil.disk_usage(place.store.directory).free / 1e9
        check(free >= 1, f"only {free:.1f} GB are free, but runs need 1; name another with --store")
        return f"{place.store.directory}, {free:.0f} GB free"

    looks = {
        "torch": lambda: version("torch"),
        f"device {device}": lambda: described(device),
        "corpora": corpora,
        "store": disk,
    }
    if not (place.data / "cache").is_dir():  # packed texts are numbers
        looks["torchtext"] = lambda: version("torchtext")
    if profile not in ("smoke", "quick"):
        looks["filler"] = lambda: find_filler(place.data).name
        looks["word vectors"] = lambda: (
            find_vectors(place.data) or place.vectors_file(VECTORS[0]).name
        )
    ready = True
    for what, look in looks.items():
        try:
            mark, text = "ok", look()
        except (ValueError, ImportError, OSError, RuntimeError) as error:
            mark, text, ready = "missing", str(error).partition("\n")[0], False
        say(f"{mark:8}{what}: {text}")
    return ready


def described(device: str) -> str:
    """What computes, and whether models trained together have kernels there; raises where it
    cannot."""
    check_device(device)
    if device == "cpu":
        return f"{processor()}, {processors()} processors"
    torch.ones(8, device=device).sum().item()  # another process may hold it, or torch lack kernels
    free = torch.cuda.mem_get_info(device)[0] / 1e9
    card = f"{torch.cuda.get_device_name(device)}, {free:.0f} GB free, CUDA {torch.version.cuda}"
    if find_spec("triton") is None:
        return (
            f"{card}; no kernels of --models-per-batch without Triton: pip install "
            "'whenpool[triton]'"
        )
    return f"{card}; kernels of --models-per-batch are {tried(device)}"


def tried(device: str) -> str:
    """Whether the kernels are used on a GPU, and how right they are."""
    try:
        apart = kernel_error(device)
    except Exception as error:  # of Triton's compiler, the driver or memory
        reason = str(error).partition("\n")[0] or type(error).__name__
        return f"not used: they cannot be ({reason})"
    used = "used with --precision bfloat16" if apart <= LARGEST_ERROR else "not used"
    return f"{used}: they differ from float64 by {apart:.0e}"
