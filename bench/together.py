"""Models trained as one batch of models: trained words per second, for 1, 5 and 25 at once.

A step is forward, backward and Adam of a max-attention model on 32 texts. Beside it stand the same
models one after another with `nn.LSTM`, on a GPU also each on a stream of its own, and together by the
kernels of Triton where `whenpool check` found them right; and what the device reaches in large products of
matrices, as words per second of this model: its limit.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from bench.timing import compare
from whenpool import TextClassifier
from whenpool.models.batched_lstm import kernels_on, run_together
from whenpool.models.encoder import encode_all
from whenpool.models.precision import precision

B, E, C = 32, 100, 2
VOCABULARY = 10_000


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = (240, 720) if device == "cuda" else (140,)
    for H in (256, 64):
        limit = limit_of(device, H)
        print(f"H={H}, B={B}; the device's limit: {limit:,.0f} words/s")
        for T in sizes:
            for count in (1, 5, 25) if device == "cuda" else (1, 5):
                speeds = measure(device, H, T, count)
                if (T, count) == (sizes[0], 1):
                    print(f"{'T':>5}{'models':>8}" + "".join(f"{name:>17}" for name in speeds))
                print(f"{T:5}{count:8}" + "".join(f"{speed:17,.0f}" for speed in speeds.values()))


def measure(device: str, H: int, T: int, count: int) -> dict[str, float]:
    """Trained words per second of each way."""
    torch.manual_seed(0)
    models = [TextClassifier(VOCABULARY, C, hidden_size=H).to(device) for _ in range(count)]
    optimizers = [torch.optim.Adam(model.parameters(), fused=True) for model in models]
    ids = [torch.randint(2, VOCABULARY, (B, T), device=device) for _ in models]
    labels = torch.randint(C, (B,), device=device)
    lengths = torch.full((B,), T, device=device)
    streams = [torch.cuda.Stream() for _ in models] if device == "cuda" else []

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def together() -> None:
        embedded = [model.embed(of) for model, of in zip(models, ids, strict=True)]
        encoders = [model.encoder for model in models]
        states = encode_all(encoders, embedded, [lengths] * count, run_together)
        logits = [model.classify(of, lengths) for model, of in zip(models, states, strict=True)]
        torch.autograd.backward([functional.cross_entropy(of, labels) for of in logits])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        wait()

    def by_triton(name: str) -> None:
        with precision(name):
            together()

    def step(number: int) -> None:
        loss = functional.cross_entropy(models[number](ids[number], lengths), labels)
        loss.backward()
        optimizers[number].step()
        optimizers[number].zero_grad(set_to_none=True)

    def one_by_one() -> None:
        for number in range(count):
            step(number)
        wait()

    def on_streams() -> None:
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                step(number)
        wait()

    ways = {"together": together, "one by one": one_by_one}
    if streams:
        ways["streams"] = on_streams
    if kernels_on(device):
        ways |= {f"triton {name}": partial(by_triton, name) for name in ("tf32x3", "bfloat16")}
    return {name: count * B * T / seconds for name, seconds in compare(ways, rounds=3).items()}


def limit_of(device: str, H: int) -> float:
    """Words per second if all were products as large as the device likes them: three for each of the
    two directions, forward and for both gradients."""
    size = 4096 if device == "cuda" else 1024
    left, right = torch.randn(size, size, device=device), torch.randn(size, size, device=device)

    def product() -> None:
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()

    seconds = compare({"product": product}, rounds=5)["product"]
    lstm = nn.LSTM(E, H)
    operations = 2 * 3 * 2 * sum(p.numel() for p in lstm.parameters() if p.dim() == 2)
    return 2 * size**3 / seconds / operations
