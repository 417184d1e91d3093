"""Profiles of texts of different length, brought to one length (thesis §1.5 and Algorithm 1)."""

import torch
from torch import Tensor

from whenpool.base.errors import InputError


def interpolate(values: Tensor, counts: Tensor, points: int = 100) -> Tensor:
    """Each row read by linear interpolation at ``points`` places, the first and last value included.

    Args:
        values: (B, W); what stands behind a row's count does not matter.
        counts: (B,), how many values each row has, at least 1.

    Returns:
        (B, points)

    Raises:
        InputError: for fewer than one point.
    """
    if points < 1:
        raise InputError(f"points must be at least 1, not {points}")
    share = torch.linspace(0, 1, points, dtype=values.dtype, device=values.device)
    last = (counts.to(values.device) - 1).unsqueeze(1)  # (B, 1)
    place = share * last  # (B, points)
    left = place.floor().long().clamp(min=0)
    right = torch.minimum(left + 1, last)
    weight = place - left
    return torch.lerp(values.gather(1, left), values.gather(1, right), weight)
