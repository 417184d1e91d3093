"""How a gate bounds the gradient: one step of an LSTM, and a direct path (thesis §2.1.3, §1.3.1).

Each function is one formula. Rows of a Jacobian belong to what comes out, columns to what goes in.

Letters: E units of an input, H units of a state, T words, D units of a state of both directions;
i, f, g, o are the gates in torch's order, of which g is the candidate.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def lstm_gates(x: Tensor, h: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """i, f, g and o after reading a word.

    Args:
        x: (E,), the word.
        h: (H,), the state before it.
        weights: those of an ``nn.LSTM``: (4H, E), (4H, H), (4H,) and (4H,).

    Returns:
        Four times (H,).
    """
    W, U, *biases = weights
    i, f, g, o = (W @ x + U @ h + sum(biases)).chunk(4)
    return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()


def direct_jacobian(f: Tensor) -> Tensor:
    """∂c_t/∂c_{t-1} = diag(f_t), were the gates blind to h_{t-1}: (H,) -> (H, H).

    Its norm is the largest forget gate, hence below 1 (§2.1.3).
    """
    return torch.diag(f)


def full_jacobian(x: Tensor, c: Tensor, o: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """∂c_t/∂c_{t-1} with gates that see h_{t-1} = o_{t-1} ⊙ tanh(c_{t-1}) (§2.1.3).

    diag(f_t) + [diag(c_{t-1} ⊙ f_t') U_f + diag(g_t ⊙ i_t') U_i + diag(i_t ⊙ g_t') U_g]
    · diag(o_{t-1} ⊙ (1 - tanh²(c_{t-1}))), where ' is the derivative of a gate at what it sees.

    Args:
        x: (E,), the word at t.
        c: (H,), the cell before it, c_{t-1}.
        o: (H,), the output gate before it, o_{t-1}, which does not depend on c_{t-1}.
        weights: as for `lstm_gates`.

    Returns:
        (H, H); nothing keeps its norm below 1.
    """
    i, f, g, _ = lstm_gates(x, o * c.tanh(), weights)
    U_i, U_f, U_g, _ = weights[1].chunk(4)
    slopes = c * f * (1 - f), g * i * (1 - i), i * (1 - g**2)
    through_gates = sum(slope[:, None] * U for slope, U in zip(slopes, (U_f, U_i, U_g), strict=True))
    return direct_jacobian(f) + through_gates * (o * (1 - c.tanh() ** 2))


def direct_gain(path: Tensor) -> Tensor:
    """‖∂s/∂h_t‖_F / √D: by how much a direct path shrinks a gradient (root mean square).

    That is, of a gradient at the embedding s that points anywhere, as likely in one direction as in
    another.

    Args:
        path: (T, D, D), as the formulas of `whenpool.probes.paths` give it.

    Returns:
        (T,)
    """
    return torch.linalg.matrix_norm(path) / path.shape[-1] ** 0.5
