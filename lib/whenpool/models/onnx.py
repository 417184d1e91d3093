"""A recurrence as ONNX's own LSTM, GRU or RNN, while ``torch.onnx.export`` records a model.

Torch itself would write out the steps of a recurrence, for one number of words. The file that is exported
reads any number of texts and words, and needs nothing of ours.
"""

# Letters: B texts, T words of the longest, E units of an input, H units of a state.

from typing import Any

import torch
from torch import Tensor, nn

from whenpool.base.errors import check

# For each cell ONNX's name of it, and where its gates stand among torch's
GATES = {"lstm": ("LSTM", (0, 3, 1, 2)), "gru": ("GRU", (1, 0, 2)), "elman": ("RNN", (0,))}


def onnx_node(recurrence: nn.Module, cell: str, inputs: Tensor) -> Tensor:
    """The states (B, T, H) of inputs (B, T, E), as a node of the graph that is being recorded. Raises
    `InputError` for a cell that ONNX lacks."""
    check(cell in GATES, f"ONNX has no cell {cell!r}; export one of {', '.join(GATES)}")
    name, order = GATES[cell]

    def reordered(weight: Tensor) -> Tensor:
        gates = weight.chunk(len(order))
        return torch.cat([gates[place] for place in order]).unsqueeze(0)  # (1, gates · H, ·)

    into, across, *biases = map(reordered, recurrence.parameters())
    B, T, _ = inputs.shape
    H = across.shape[-1]
    attributes: dict[str, Any] = {"hidden_size": H}
    if cell == "gru":
        attributes["linear_before_reset"] = 1  # as torch computes it
    states = torch.onnx.ops.symbolic(
        name, (inputs.transpose(0, 1), into, across, torch.cat(biases, dim=1)), attrs=attributes,
        dtype=inputs.dtype, shape=(T, 1, B, H),
    )  # fmt: skip
    return states.squeeze(1).transpose(0, 1)  # (B, T, H)
