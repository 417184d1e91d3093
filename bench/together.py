"""Models trained as one batch of models: trained words per second, for 1, 5 and 18 at once.

A step is forward, backward and Adam of a max-attention model on a batch of 32 texts, of the lengths of IMDb's
reviews with filler (on a processor without, cut at 140 words), or of the embedded corpus where IMDb is not
here. Models of one seed read texts of the same lengths in every step, those of several seeds do not. They are
compared with the same models one after another with `nn.LSTM`; on a GPU also with each on a stream of its
own, and with the other precisions, which the kernels of Triton compute where `whenpool check` found them
right. The limit is what the device reaches in large products of matrices, as words per second of this model.
"""

from functools import partial
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.epoch import load
from bench.timing import compare
from whenpool import TextClassifier
from whenpool.corpora.batches import Batch, training_batches
from whenpool.models.batched_lstm import kernels_on, run_together
from whenpool.models.encoder import encode_all
from whenpool.models.precision import precision

B, E, C = 32, 100, 2
VOCABULARY = 10_000
STEPS = 3  # of different lengths


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name, lengths = lengths_of(device)
    for H in (64, 256):
        limit = limit_of(device, H)
        print(f"H={H}, B={B}, lengths of {name}; the device's limit: {limit:,.0f} words/s")
        for count in (1, 5, 18) if device == "cuda" else (1, 5):
            speeds = measure(device, H, count, lengths)
            print(f"{count:3} models" + "".join(f"{n:>17}:{v:10,.0f}" for n, v in speeds.items()))
            fastest = max(speeds, key=speeds.__getitem__)
    print(f"Fastest, {count} models of {H} units: {fastest}, {speeds[fastest]:,.0f} words/s")


def lengths_of(device: str) -> tuple[str, Tensor]:
    """Words of each text (N,)."""
    name, dataset = load("mid" if device == "cuda" else "standard")
    lengths = dataset.train.ids.lengths
    return name, lengths if device == "cuda" else lengths.clamp(max=140)


def batches_of(lengths: Tensor, seed: int, device: str) -> list[Batch]:
    """The first steps of a training with a seed."""
    order = torch.Generator().manual_seed(seed)
    found = []
    for indices in islice(training_batches(lengths, B, order), STEPS):
        own = lengths[indices]
        ids = torch.randint(2, VOCABULARY, (len(own), int(own.max())))
        found.append(Batch(*(t.to(device) for t in (ids, own, torch.randint(C, (len(own),))))))
    return found


def measure(device: str, H: int, count: int, lengths: Tensor) -> dict[str, float]:
    """Trained words per second of each way."""
    torch.manual_seed(0)
    models = [TextClassifier(VOCABULARY, C, hidden_size=H).to(device) for _ in range(count)]
    optimizers = [torch.optim.Adam(model.parameters(), fused=True) for model in models]
    one_seed = [batches_of(lengths, 0, device)] * count
    seeds = [batches_of(lengths, seed, device) for seed in range(count)]
    streams = [torch.cuda.Stream() for _ in models] if device == "cuda" else []

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def together(of: list[list[Batch]]) -> None:
        for batches in zip(*of, strict=True):
            embedded = [model.embed(b.ids) for model, b in zip(models, batches, strict=True)]
            encoders, words = [model.encoder for model in models], [b.lengths for b in batches]
            losses = []
            states = encode_all(encoders, embedded, words, run_together)
            for model, own, b in zip(models, states, batches, strict=True):
                losses.append(functional.cross_entropy(model.classify(own, b.lengths), b.labels))
            torch.autograd.backward(losses)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        wait()

    def in_precision(name: str) -> None:
        with precision(name):
            together(one_seed)

    def step(number: int, b: Batch) -> None:
        functional.cross_entropy(models[number](b.ids, b.lengths), b.labels).backward()
        optimizers[number].step()
        optimizers[number].zero_grad(set_to_none=True)

    def one_by_one() -> None:
        for number in range(count):
            for b in one_seed[number]:
                step(number, b)
        wait()

    def on_streams() -> None:
        for b in one_seed[0]:
            for number, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    step(number, b)
        wait()

    ways = {"one by one": (one_by_one, one_seed), "together": (lambda: together(one_seed), one_seed)}
    if count > 1:
        ways["mixed seeds"] = (lambda: together(seeds), seeds)
    if streams:
        ways["streams"] = (on_streams, one_seed)
        by = "triton" if kernels_on(device) else "together"
        for name in ("tf32x3", "tf32", "bfloat16")[
            by == "together" :
        ]:  # without kernels that is float32
            ways[f"{by} {name}"] = (partial(in_precision, name), one_seed)
    seconds = compare({name: way for name, (way, _) in ways.items()}, rounds=3)
    read = {name: sum(int(b.lengths.sum()) for own in of for b in own) for name, (_, of) in ways.items()}
    return {name: read[name] / seconds[name] for name in ways}


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
