"""What all probes ask of a model and a batch."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whenpool.base.errors import InputError, check


def check_steps(
    model: nn.Module, probe: str, steps: Sequence[str] = ("embed", "encode", "classify")
) -> None:
    """Raises `InputError` for a model that lacks a step of the protocol, naming it."""
    missing = [step for step in steps if not callable(getattr(model, step, None))]
    check(
        not missing,
        f"{probe} calls a model's methods {', '.join(steps)}, but {type(model).__name__} has no "
        f"{', '.join(missing)}; {inside(model) or 'see whenpool.probes'}",
    )


def inside(model: nn.Module) -> str:
    """What to give instead of what torch wraps around a model, ``nn.DataParallel`` say; empty: it
    is none."""
    names = (
        name
        for name in ("module", "_orig_mod")
        if isinstance(getattr(model, name, None), nn.Module)
    )
    return next((f"give the model inside it, its .{name}" for name in names), "")


def check_float(model: nn.Module) -> None:
    """Raises `InputError` for a model with quantised layers, which pass no gradient, or pass it in
    part."""
    kinds = {type(m) for m in model.modules() if ".quantized." in type(m).__module__}
    # weights of such layers, sums of floats, and tables, which come before all states
    other = re.compile("Packed|Float|Embedding")
    names = ", ".join(sorted(kind.__name__ for kind in kinds if not other.search(kind.__name__)))
    check(
        not names,
        f"{type(model).__name__} has quantised layers without a gradient ({names})"
        "; take the model as it was before it was quantised",
    )


def whole_numbers(name: str, values: Any) -> Tensor:
    """The values as a tensor. Raises `InputError` for what are no whole numbers."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):  # of words, say
        raise InputError(f"{name} must be whole numbers, not {values!r:.40}") from None
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    check(is_whole, f"{name} must be whole numbers, not {tensor.dtype}")
    return tensor


def checked_batch(
    model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """A batch as probes take it, on the model's device: ids (B, T), lengths (B,), labels (B,), or
    all 0."""
    ids = torch.as_tensor(ids)
    hint = "; one text is ids.unsqueeze(0)" * (ids.dim() == 1)
    check(ids.dim() == 2, f"ids must be word numbers (B, T), not {tuple(ids.shape)}{hint}")
    B, T = ids.shape
    check(B and T, f"the batch has no texts or no words: ids have the shape {(B, T)}")
    whole_numbers("ids", ids)
    lengths = whole_numbers("lengths", lengths)
    labels = ids.new_zeros(B) if labels is None else whole_numbers("labels", labels)
    for name, values in (("lengths", lengths), ("labels", labels)):
        check(
            values.shape == (B,),
            f"a batch of {B} texts needs {B} {name}, not {tuple(values.shape)}",
        )
    device = next((p.device for p in model.parameters()), ids.device)
    for name, values in (("ids", ids), ("labels", labels)):
        apart = f"{name} are on {values.device}, but the model is on {device}; move one with .to()"
        check(values.device == device, apart)
    for text in ((lengths < 1) | (lengths > T)).nonzero().flatten().tolist():
        n = int(lengths[text])
        raise InputError(f"text {text} has the length {n}; lengths must be between 1 and {T}")
    rows = getattr(getattr(model, "embedding", None), "num_embeddings", math.inf)
    check(
        int(ids.max()) < rows,
        f"ids have the word {int(ids.max())}, but the model knows {rows} words",
    )
    check(int(ids.min()) >= 0, f"ids have the word {int(ids.min())}; words are numbers from 0")
    return ids.long(), lengths.to(device), labels.long()


def check_labels(labels: Tensor, logits: Tensor) -> None:
    """Raises `InputError` for a label that the model's logits (B, C) have no column for, or one
    logit."""
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
    check(
        isinstance(shape, tuple) and len(shape) == 2 and shape[1] > 1,
        f"logits must be (B, C) of two classes or more, not {shape}"
        "; of one logit z make torch.nn.functional.pad(z.view(-1, 1), (1, 0))",
    )
    C = logits.shape[1]
    for row in ((labels < 0) | (labels >= C)).nonzero().flatten().tolist():
        y = int(labels[row])
        raise InputError(
            f"text {row} has the label {y}, but the model has {C} classes, 0 to {C - 1}"
        )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, each module afterwards in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def interpolate(values: Tensor, counts: Tensor, points: int = 100) -> Tensor:
    """Each row of (B, W) read by linear interpolation at ``points`` places, the first and the last
    of its ``counts`` (B,) values included: (B, points). What stands behind them does not matter."""
    check(points >= 1, f"points must be at least 1, not {points}")
    # half precision has no place for 2,049
    exact = torch.promote_types(values.dtype, torch.float32)
    share = torch.linspace(0, 1, points, dtype=exact, device=values.device)
    last = (counts.to(values.device) - 1).unsqueeze(1)  # (B, 1)
    position = share * last  # (B, points)
    left = position.floor().long().clamp(min=0)
    right = torch.minimum(left + 1, last)
    ends = values.gather(1, left).to(exact), values.gather(1, right).to(exact)
    return torch.lerp(*ends, position - left).to(
        values.dtype if values.is_floating_point() else exact
    )
