"""The formulas of the direct gradient paths, against autograd."""

import pytest
import torch
from torch.autograd.functional import jacobian

from whenpool import POOLINGS, InputError
from whenpool.probes.gradients import DIRECT_PATHS

T, D = 6, 4


@pytest.mark.parametrize("name", DIRECT_PATHS)
def test_the_formula_is_the_derivative(name):
    torch.manual_seed(1)
    states, mask = torch.randn(T, D).double(), torch.ones(1, T, dtype=torch.bool)
    pool = POOLINGS[name](D).double()
    by_autograd = jacobian(lambda h: pool(h.unsqueeze(0), mask)[0].squeeze(0), states)  # (D, T, D)
    path = DIRECT_PATHS[name](states, getattr(pool, "query", None))
    torch.testing.assert_close(path, by_autograd.transpose(0, 1))


def test_attention_without_its_query_is_refused():
    with pytest.raises(InputError, match="give it"):
        DIRECT_PATHS["attention"](torch.ones(T, D))
