"""Texts per second of embedding by a pretrained encoder, and what memory that takes.

The plain loop is what one would write by hand: the same encoder on 32 texts at a time in the given
order, padded to the longest. Where IMDb is in WHENPOOL_DATA its reviews are read, else texts of
such
lengths: of random tokens, since what a token is makes no difference to speed.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from paper.fewshot.pretrained import MINILM, Pretrained, embed, load_encoder
from paper.runs.kinds.training import Training
from paper.runs.run import Place
from whenpool.base.errors import InputError
from whenpool.corpora.batches import Ragged, Texts

TEXTS, LONGEST = 1_000, 512
MEMORY_TEXTS = (500, 2_000)
Way = Callable[[Pretrained, Texts], object]
LOG_MEAN, LOG_DEVIATION = 5.52, 0.64
"""Of the tokens of IMDb's reviews: their logarithms are nearly normal."""


def main() -> None:
    pretrained = load_encoder(MINILM)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker has
    name, texts = load(pretrained, TEXTS)
    tokens = len(texts.ids.flat)
    print(f"{len(texts):,} {name}, {tokens:,} tokens, cut at {LONGEST}; {MINILM}, one thread")
    times = in_turns({"ours": ours, "plain": plain}, pretrained, texts)
    for way, seconds in times.items():
        print(f"{way:>8}{len(texts) / seconds:8.1f} texts/s{tokens / seconds:10,.0f} tokens/s")
    print(f"{'ratio':>8}{times['plain'] / times['ours']:8.2f}")
    torch.set_num_threads(threads)
    for count in MEMORY_TEXTS:
        call = [sys.executable, "-m", "bench.embedding", str(count)]
        print(subprocess.run(call, capture_output=True, text=True, check=True).stdout, end="")


def load(pretrained: Pretrained, count: int) -> tuple[str, Texts]:
    place = Place.default()
    try:
        source = place.source(Training("imdb", "standard", 1000, "max"))
        ids, _ = pretrained.tokenize(source.load("any").train.texts[:count], LONGEST)
        name = "reviews of IMDb"
    except InputError:
        generator = torch.Generator().manual_seed(0)
        logs = LOG_MEAN + LOG_DEVIATION * torch.randn(count, generator=generator)
        lengths = logs.exp().long().clamp(3, LONGEST).tolist()
        ids = Ragged.of(
            torch.randint(1_000, 30_000, (n,), generator=generator).tolist() for n in lengths
        )
        name = "texts of random tokens"
    return name, Texts(ids, torch.zeros(len(ids), dtype=torch.int64))


def in_turns(ways: dict[str, Way], pretrained: Pretrained, texts: Texts) -> dict[str, float]:
    """Seconds of each way: they take turns with a part of the texts, so that disturbances hit
    all."""
    seconds = dict.fromkeys(ways, 0.0)
    for run in ways.values():
        run(pretrained, texts.first(32))  # warm up
    for indices in torch.arange(len(texts)).split(256):
        rows = Ragged.of(texts.ids.row(i).tolist() for i in indices.tolist())
        part = Texts(rows, texts.labels[indices])
        for name, run in ways.items():
            start = time.perf_counter()
            run(pretrained, part)
            seconds[name] += time.perf_counter() - start
    return seconds


def ours(pretrained: Pretrained, texts: Texts) -> int:
    """Bytes that were written."""
    with tempfile.TemporaryDirectory() as folder:
        embed(pretrained, texts, Path(folder) / "states.npy")
        return sum(file.stat().st_size for file in Path(folder).iterdir())


@torch.no_grad()
def plain(pretrained: Pretrained, texts: Texts) -> list[Tensor]:
    found = []
    for indices in torch.arange(len(texts)).split(32):
        ids, lengths, _ = texts.batch(indices, 0)
        mask = (torch.arange(ids.shape[1]) < lengths.unsqueeze(1)).long()
        hidden = pretrained.model(input_ids=ids, attention_mask=mask).last_hidden_state
        found += [states[:n].half() for states, n in zip(hidden, lengths.tolist(), strict=True)]
    return found


def memory(count: int) -> None:
    """Of this process: before, and at most while it embeds some texts."""
    torch.set_num_threads(1)
    pretrained = load_encoder(MINILM)
    _, texts = load(pretrained, count)
    before = peak_megabytes()
    written = ours(pretrained, texts) / 1e6
    peak = f"{before:.0f} MB before, at most {peak_megabytes():.0f} MB"
    print(f"{count:8,} texts: {peak}; {written:.0f} MB written")


def peak_megabytes() -> float:
    """Of resident memory so far; Linux alone tells that of this process without its parent's."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) / 1e3


if __name__ == "__main__":
    memory(int(sys.argv[1])) if len(sys.argv) > 1 else main()
