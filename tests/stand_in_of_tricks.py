"""Run by `test_learnability.py`: the tricks on the device of ``stand_in.py``."""

import pytest
from stand_in import _device as _device
from stand_in import classifier, step

from paper.tricks import DropoutAttention, GradientDirected, PenaltyAttention


@pytest.mark.parametrize("trick", [PenaltyAttention, DropoutAttention, GradientDirected])
def test_every_trick_learns_there(trick):
    model, objective = classifier(), trick(5)
    objective.begin(model, None)
    objective.start_epoch(1)
    step(model, objective)
