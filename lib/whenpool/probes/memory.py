"""How much memory a step of training takes (thesis §1.3.3, §1.11.1).

Tensors are counted, not the process: the bytes of all tensors that are alive at one time follow
from the model and the text alone, and are the same on every machine that computes with the same
kernels. Not seen is what a kernel takes for itself and gives back before it ends.
"""

import copy
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from whenpool.base.errors import check
from whenpool.probes.protocol import check_float, check_labels, checked_batch, evaluating


def step_megabytes(model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor) -> float:
    """The most that the tensors of a training step, forward and backward, hold at any time, in MB
    of 10⁶ bytes: states and what is kept of them, gradients on the way, and those of the
    parameters, but not the parameters and the batch themselves. The model maps ids (B, T) and
    lengths (B,) to logits (B, C); labels are (B,); ``grad`` of the parameters stays as it is.
    Raises `InputError` for a batch that does not fit, and for a model that cannot be trained, since
    it is quantised or frozen.

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> ids = torch.randint(50, (1, 4000))
        >>> step_megabytes(model, ids, torch.tensor([4000]), torch.tensor([0])) < 100
        True
    """
    ids, lengths, labels = checked_batch(model, ids, lengths, labels)
    check_float(model)
    learns = any(parameter.requires_grad for parameter in model.parameters())
    check(learns, f"{type(model).__name__} has no weights to train; they are all frozen")
    copied = copy.deepcopy(model)
    with torch.no_grad(), evaluating(copied):
        check_labels(labels, copied(ids, lengths))
    copied.train()
    copied.zero_grad(set_to_none=True)
    counter = LiveBytes([*copied.parameters(), *copied.buffers(), ids, lengths, labels])
    forked = torch.random.fork_rng(devices=[ids.device] if ids.is_cuda else [])
    with torch.inference_mode(False), torch.enable_grad(), forked, counter:
        cross_entropy(copied(ids, lengths), labels).backward()
    return counter.most / 1e6


class LiveBytes(TorchDispatchMode):
    """The most bytes at one time of all tensors made while it is on, those ``there`` not
    counted."""

    def __init__(self, there: list[Tensor]) -> None:
        super().__init__()
        self.most, self._now = 0, 0
        self._seen = weakref.WeakSet[Any](of.untyped_storage() for of in there)  # views share one

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(outputs):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                storage = tensor.untyped_storage()
                if storage not in self._seen:
                    self._seen.add(storage)
                    self._now += storage.nbytes()
                    self.most = max(self.most, self._now)
                    weakref.finalize(storage, self._freed, storage.nbytes())
        return outputs

    def _freed(self, size: int) -> None:
        self._now -= size
