"""`gradient_norms` against a plain training step, and against a loop of `nn.LSTMCell` with
hooks."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench.timing import compare
from whenpool import TextClassifier
from whenpool.models.encoder import word_mask
from whenpool.probes import gradient_norms

E, CLASSES, WORDS = 100, 2, 5_000


def main() -> None:
    print(f"BiLSTM without pooling, E={E}; seconds, and ratios")
    heads = ("probe, s", "step, s", "loop, s", "probe/step", "loop/probe")
    print(f"{'B':>5}{'T':>6}{'H':>6}" + "".join(f"{head:>13}" for head in heads))
    shapes = (
        (32, 240, 256, 4),
        (8, 240, 256, 3),
        (32, 60, 256, 5),
        (32, 480, 256, 2),
        (32, 240, 64, 4),
    )
    for B, T, H, rounds in shapes:
        times = measure(B, T, H, rounds)
        probe, step, loop = times["probe"], times["step"], times["loop"]
        figures = (probe, step, loop, probe / step, loop / probe)
        print(f"{B:5}{T:6}{H:6}" + "".join(f"{figure:13.3f}" for figure in figures))


def measure(B: int, T: int, H: int, rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    model = TextClassifier(WORDS, CLASSES, "last", embedding_size=E, hidden_size=H)
    ids = torch.randint(0, WORDS, (B, T))
    lengths, labels = torch.randint(T * 3 // 4, T + 1, (B,)), torch.randint(0, CLASSES, (B,))
    lengths[0] = T
    probed, looped = (f(model, ids, lengths, labels) for f in (gradient_norms, hooked_loop))
    torch.testing.assert_close(probed, looped, rtol=1e-3, atol=1e-9, equal_nan=True)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        cross_entropy(model(ids, lengths), labels).backward()

    return compare(
        {
            "probe": lambda: gradient_norms(model, ids, lengths, labels),
            "step": step,
            "loop": lambda: hooked_loop(model, ids, lengths, labels),
        },
        rounds,
    )


def hooked_loop(model: TextClassifier, ids: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
    """The same norms by a cell that is called word by word, with a hook on every state."""
    B, T = ids.shape
    words, is_word = model.embed(ids).detach(), word_mask(lengths, T)
    squares, ends = torch.zeros(B, T, dtype=torch.float64), []
    for k, module in enumerate(model.encoder.layers[0]):
        cell = nn.LSTMCell(module.input_size, module.hidden_size)
        cell.load_state_dict({name[:-3]: value for name, value in module.state_dict().items()})
        h = c = torch.zeros(B, module.hidden_size)
        for t in range(T) if k == 0 else reversed(range(T)):
            active = is_word[:, t : t + 1]  # padding leaves a state as it is
            new_h, new_c = cell(words[:, t], (h, c))

            def keep(grad: Tensor, t: int = t) -> None:
                squares[:, t] += grad.double().square().sum(1)

            new_h.register_hook(keep)
            h, c = torch.where(active, new_h, h), torch.where(active, new_c, c)
        ends.append(h)
    logits = model.classifier(torch.cat(ends, dim=1))
    cross_entropy(logits, labels, reduction="sum").backward()
    return squares.sqrt().float().masked_fill(~is_word, torch.nan)
