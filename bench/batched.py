"""Models trained as one batch of models: trained words per second, for 1, 5 and 18 at once.

A step is forward, backward and Adam of a max-attention model on a batch of 32 texts, of the lengths of IMDb's
reviews with filler (on a processor without, cut at 140 words), or of the embedded corpus where IMDb is not
here. Models of one seed read texts of the same lengths in every step, those of several seeds do not. They are
compared with the same models one after another with `nn.LSTM`, and with a process for each, at most one a
processor; on a GPU also with each on a stream of its own, and with the other precisions, which the kernels
of Triton compute where `whenpool check` found them right. The limit is what the device reaches in large
products of matrices, as words per second of this model.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.epoch import load
from bench.timing import compare
from whenpool import TextClassifier
from whenpool.corpora.batches import Batch, training_batches
from whenpool.models.batched_lstm import encode_together, kernels_on
from whenpool.models.precision import precision

B, E, C = 32, 100, 2
VOCABULARY = 10_000
STEPS = 3  # of different lengths
ROUNDS = 3


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
            states = encode_together(encoders, embedded, words)
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

    def one_by_one() -> None:
        for number in range(count):
            for b in one_seed[number]:
                step(models[number], optimizers[number], b)
        wait()

    def on_streams() -> None:
        for b in one_seed[0]:
            for number, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    step(models[number], optimizers[number], b)
        wait()

    ways = {"one by one": (one_by_one, one_seed), "together": (lambda: together(one_seed), one_seed)}
    if count > 1:
        ways["mixed seeds"] = (lambda: together(seeds), seeds)
    if streams:
        ways["streams"] = (on_streams, one_seed)
        by, names = "triton", ("tf32x3", "tf32", "bfloat16")
        if not kernels_on(device):  # tf32x3 is float32 there
            by, names = "together", names[1:]
        for name in names:
            ways[f"{by} {name}"] = (partial(in_precision, name), one_seed)
    seconds = compare({name: way for name, (way, _) in ways.items()}, rounds=ROUNDS)
    read = {name: sum(map(words, of)) for name, (_, of) in ways.items()}
    speeds = {name: read[name] / seconds[name] for name in ways}
    return speeds | ({"processes": in_processes(device, H, count, lengths)} if count > 1 else {})


def step(model: TextClassifier, optimizer: torch.optim.Adam, b: Batch) -> None:
    functional.cross_entropy(model(b.ids, b.lengths), b.labels).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def words(batches: list[Batch]) -> int:
    return sum(int(b.lengths.sum()) for b in batches)


def in_processes(device: str, H: int, count: int, lengths: Tensor) -> float:
    """Trained words per second of processes that train a model each at the same time."""
    count = min(
        count, os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1
    )
    spawn = get_context("spawn")
    ready = (spawn.Barrier(count),)
    with ProcessPoolExecutor(count, spawn, initializer=wait_for_each_other, initargs=ready) as pool:
        found = list(pool.map(partial(train_alone, device, H, lengths), range(count)))
    read, begun, ended = zip(*found, strict=True)
    return sum(read) / (max(ended) - min(begun))


def wait_for_each_other(ready: Barrier) -> None:
    """In a new process: what `train_alone` waits at until all processes can start."""
    global all_ready
    all_ready = ready.wait
    torch.set_num_threads(1)


all_ready: Callable[[], int]


def train_alone(device: str, H: int, lengths: Tensor, seed: int) -> tuple[int, float, float]:
    """How many words a process trained on, and when it began and ended."""
    torch.manual_seed(seed)
    model = TextClassifier(VOCABULARY, C, hidden_size=H).to(device)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batches = batches_of(lengths, 0, device)
    for b in batches:  # warm up
        step(model, optimizer, b)
    all_ready()
    begun = time.monotonic()
    for _ in range(ROUNDS):
        for b in batches:
            step(model, optimizer, b)
    if device == "cuda":
        torch.cuda.synchronize()
    return ROUNDS * words(batches), begun, time.monotonic()


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
