"""`gradient_norms` against a plain training step, and against a loop of `nn.LSTMCell` with hooks."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench.timing import compare
from whenpool import TextClassifier
from whenpool.probes import gradient_norms

E, CLASSES, WORDS = 100, 2, 5_000


def main() -> None:
    print(f"BiLSTM without pooling, E={E}; seconds, and ratios")
    heads = ("probe, s", "step, s", "loop, s", "probe/step", "loop/probe")
    print(f"{'B':>5}{'T':>6}{'H':>6}" + "".join(f"{head:>13}" for head in heads))
    for B, T, H, rounds in (
        (32, 240, 256, 4),
        (8, 240, 256, 3),
        (32, 60, 256, 5),
        (32, 480, 256, 2),
        (32, 240, 64, 4),
    ):
        times = measure(B, T, H, rounds)
        probe, step, loop = times["probe"], times["step"], times["loop"]
        figures = (probe, step, loop, probe / step, loop / probe)
        print(f"{B:5}{T:6}{H:6}" + "".join(f"{figure:13.3f}" for figure in figures))


def measure(B: int, T: int, H: int, rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    model = TextClassifier(WORDS, CLASSES, "last", embedding_size=E, hidden_size=H)
    ids = torch.randint(0, WORDS, (B, T))
    lengths, labels = torch.full((B,), T), torch.randint(0, CLASSES, (B,))
    probed, looped = gradient_norms(model, ids, lengths, labels), hooked_loop(model, ids, labels)
    torch.testing.assert_close(probed, looped, rtol=1e-3, atol=1e-9)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        cross_entropy(model(ids, lengths), labels).backward()

    return compare(
        {
            "probe": lambda: gradient_norms(model, ids, lengths, labels),
            "step": step,
            "loop": lambda: hooked_loop(model, ids, labels),
        },
        rounds,
    )


def hooked_loop(model: TextClassifier, ids: Tensor, labels: Tensor) -> Tensor:
    """The same norms by a cell that is called word by word, with a hook on every state."""
    B, T = ids.shape
    words = model.embed(ids).detach()
    squares, ends = torch.zeros(B, T), []
    for k, module in enumerate(model.encoder.layers[0]):
        cell = nn.LSTMCell(module.input_size, module.hidden_size)
        cell.load_state_dict({name[:-3]: value for name, value in module.state_dict().items()})
        state = None
        for t in range(T) if k == 0 else reversed(range(T)):
            state = cell(words[:, t], state)

            def keep(grad: Tensor, t: int = t) -> None:
                squares[:, t] += grad.double().square().sum(1)

            state[0].register_hook(keep)
        ends.append(state[0])
    logits = model.classifier(torch.cat(ends, dim=1))
    cross_entropy(logits, labels, reduction="sum").backward()
    return squares.sqrt()


if __name__ == "__main__":
    main()
