"""A look at this machine before long work, which is what `whenpool check` does: versions, device,
corpora and disk, a line each. On a GPU the kernels of models trained together are tried out."""

import shutil
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paper.runs.request import Request
from paper.runs.run import Place, processor
from whenpool.base.devices import check_device, processors
from whenpool.base.errors import check
from whenpool.base.files import write_atomically
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS, THESIS_CORPORA
from whenpool.corpora.settings import find_filler
from whenpool.corpora.tokens import VECTORS, find_vectors
from whenpool.models.batched_lstm import KERNELS, TORCH, kernels_mark, run_layer
from whenpool.models.encoder import word_mask
from whenpool.models.precision import precision

LARGEST_ERROR = {"tf32x3": 1e-5, "tf32": 1e-3, "bfloat16": 1e-2}
"""‖Δ‖ / ‖reference‖ of states and of each gradient, in the precisions for which there are
kernels."""


def check_machine(
    device: str,
    profile: str,
    data: Path | None,
    store: Path | None,
    say: Callable[[str], None] = print,
) -> bool:
    """Look at everything that runs need; returns whether they can start. ``say`` is called with
    each line: a mark, "ok" or "missing", and a text that ends with what helps."""
    place, names = (
        Place.default(data, store, profile == "smoke"),
        Request(profile).corpora_or(*THESIS_CORPORA),
    )
    here = [
        name for name in names if name not in PUBLICATIONS or PUBLICATIONS[name].find(place.data)
    ]

    def corpora() -> str:
        find((here or names)[0], place.data)  # says how to get one, where there is none
        lacking = [name for name in names if name not in here]
        return f"{', '.join(here)}; not there: {', '.join(lacking) or 'none'}"

    def disk() -> str:
        place.store.check_writable()
        free, advice = (
            shutil.disk_usage(place.store.directory).free / 1e9,
            "name another with --store",
        )
        check(free >= 1, f"only {free:.1f} GB are free in its folder, but runs need 1; {advice}")
        return f"{place.store.directory}, {free:.0f} GB free"

    looks = {
        "torch": lambda: version("torch"),
        f"device {device}": lambda: described(device),
        "torchtext": lambda: version("torchtext"),
        "corpora": corpora,
        "word vectors": lambda: find_vectors(place.data) or place.vectors_file(VECTORS[0]).name,
        "filler": lambda: find_filler(place.data).name,
        "store": disk,
    }
    for name in ("word vectors", "filler") if profile in ("smoke", "quick") else ():
        del looks[name]
    if (place.data / "cache").is_dir():  # packed texts are numbers
        del looks["torchtext"]
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
    right, result = try_out(device)  # the cache remembers a trial
    used = "used unless --precision is float32" if right else "not used"
    return f"{card}; kernels of --models-per-batch are {used}: {result}"


def largest_errors(
    device: str, H: int = 256, shapes: Sequence[tuple[int, int]] = ((32, 40), (5, 1), (33, 17))
) -> dict[str, float]:
    """For each precision the largest ‖Δ‖ / ‖reference‖ of the states and of the gradients that the
    kernels compute, beside torch's loops in float64 on the processor, of models that read in one
    direction and in both; ``shapes``: of each model B and the words of the longest text."""
    M, B, longest = len(shapes), *map(max, zip(*shapes, strict=True))
    lengths = torch.ones(M, B, dtype=torch.int64)
    for row, (texts, words) in zip(lengths, shapes, strict=True):
        row[:texts] = words - torch.arange(texts) % words
    random, R = torch.Generator().manual_seed(0), 2 * M
    is_word = word_mask(lengths.flatten(), longest + 1).view(M, B, -1, 1)
    sizes = (R, 4 * H, 20), (R, 4 * H, H), (R, 4 * H)
    drawn = [(2 * torch.rand(size, generator=random) - 1) * H**-0.5 for size in sizes]
    inputs = is_word * (2 * torch.rand(M, B, longest + 1, 20, generator=random) - 1)

    def computed(loops: Any, **where: Any) -> list[Tensor]:
        found: list[Tensor] = []
        for weights in ([values[:M] for values in drawn], drawn):  # of one direction, and of both
            leaves = [
                values.to(**where, copy=True).requires_grad_() for values in (inputs, *weights)
            ]
            x, into, across, bias = leaves
            asked = lengths.to(x.device), into, across, bias, loops
            with torch.inference_mode():  # nothing is kept
                found.append(run_layer(x, *asked))
            found.append(run_layer(x, *asked))
            found += torch.autograd.grad(found[-1].square().sum(), leaves)
        return [of.detach().double().cpu() for values in found for of in values]  # a model's

    exact, errors = computed(TORCH, dtype=torch.float64), {}
    for name in LARGEST_ERROR:
        with precision(name):
            values = computed(import_module(KERNELS), device=device)
        pairs = zip(values, exact, strict=True)
        apart = [(mine - right).norm() / right.norm().clamp(min=1e-30) for mine, right in pairs]
        errors[name] = torch.stack(apart).max().item()  # NaN if any is; some references are zeros
    return errors


def try_out(device: str) -> tuple[bool, str]:
    """Whether the kernels are right on a GPU, which the cache folder remembers, and what was found.
    Raises `ModuleNotFoundError` without Triton."""
    mark = kernels_mark(device)
    try:
        errors = [largest_errors(device, H) for H in (256, 64)]
        text = ", ".join(
            f"{max(of[name] for of in errors):.0e} in {name}" for name in LARGEST_ERROR
        )
        message = f"they differ from float64 by {text}"
        if all(of[name] <= most for of in errors for name, most in LARGEST_ERROR.items()):
            write_atomically(mark, text)
            return True, message
    except torch.OutOfMemoryError:
        return False, "the GPU has too little memory to test them; the earlier result is kept"
    except Exception as error:  # of Triton's compiler, the driver, memory or disk
        message = (
            f"they cannot be used ({str(error).partition(chr(10))[0] or type(error).__name__})"
        )
    mark.unlink(missing_ok=True)
    return False, message
