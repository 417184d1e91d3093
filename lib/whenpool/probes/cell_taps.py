"""Looking into a cell of `whenpool.models.cells`: the total gradient at each of its states.

A cell that is unrolled makes a tensor of each state, which both the next step and whatever reads the
states take: the gradient at it is the total one. Of a linear recurrence h_t = a_t ⊙ h_{t-1} + b_t it is
the gradient at b_t, since ∂h_t/∂b_t is the identity and b_t enters nowhere else.

Letters: B texts, T words of the longest, E units of an input, H units of a state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whenpool.base.errors import InputError
from whenpool.models.cells import Cell
from whenpool.models.linear_recurrence import LinearCell, linear_recurrence


@dataclass
class CellTap:
    """One call of a cell.

    Attributes:
        inputs: (B, T, E).
        outputs: the states, (B, T, H).
        wanted: the tensors whose gradients are the total ones: T states (B, H), or one (B, T, H).
    """

    module: nn.Module
    inputs: Tensor
    outputs: Tensor
    wanted: list[Tensor]

    def total(self, grads: Sequence[Tensor | None], whose: str) -> list[Tensor]:
        """∂L/∂h_t of every state, one tensor (B, T, H), given the gradients at ``wanted``.

        Raises:
            InputError: where the loss depends on no state.
        """
        if all(grad is None for grad in grads):
            raise unread(whose)
        known = [
            torch.zeros_like(of) if grad is None else grad
            for of, grad in zip(self.wanted, grads, strict=True)
        ]
        return known if isinstance(self.module, LinearCell) else [torch.stack(known, dim=1)]


def can_tap_cell(module: nn.Module) -> bool:
    """Whether a module is a cell that runs as `whenpool.models.cells` says."""
    known = (Cell.forward, LinearCell.forward)
    return isinstance(module, Cell) and type(module).forward in known


def record_cell(module: Any, taps: list[Any]) -> Any:
    """A ``forward`` for a cell that does what its own does, and leaves a `CellTap`."""

    def forward(inputs: Tensor) -> tuple[Tensor, Any]:
        if inputs.dim() != 3:
            raise InputError(f"a recurrence needs a batch (B, T, E), not {tuple(inputs.shape)}")
        if not inputs.requires_grad:  # so that every state has a gradient, of cells without weights too
            inputs = inputs.detach().requires_grad_()
        if isinstance(module, LinearCell):
            kept, added = module.terms(inputs)
            states, wanted = linear_recurrence(kept, added), [added]
            last: Any = states[:, -1]
        else:
            wanted, last = module.unroll(inputs)
            states = torch.stack(wanted, dim=1)
        taps.append(CellTap(module, inputs, states, wanted))
        return states, last

    return forward


def unread(whose: str) -> InputError:
    """Of a model whose loss does not depend on what it was looked into for."""
    return InputError(
        f"{whose}: the loss does not depend on the states of the recurrence that encode calls last"
    )
