"""Words per second of tokenising and numbering a corpus, and reading it back from the cache."""

import tempfile
import time
from pathlib import Path

from paper.corpora.dataset import _read_encoded, encode
from paper.runs.kinds.training import Training
from paper.runs.run import Place
from whenpool.base.errors import InputError


def main() -> None:
    place = Place.default()
    print(f"{'corpus':>10} {'words':>12} {'encode, s':>10} {'words/s':>10} {'read back, s':>13}")
    for name, length in (("synthetic", "any"), ("imdb", "long")):
        try:
            source = place.source(Training(name, "standard", 1000, "max"))
        except InputError as error:
            print(f"{name:>10} {error}")
            continue
        with tempfile.TemporaryDirectory() as cache:
            start = time.perf_counter()
            encoded = encode(source, length, Path(cache))
            seconds = time.perf_counter() - start
            _read_encoded.cache_clear()
            start = time.perf_counter()
            encode(source, length, Path(cache))
            again = time.perf_counter() - start
        texts = [part.ids for part in encoded.texts.values()] + list(encoded.filler.values())
        words = sum(len(part.flat) for part in texts)
        print(f"{name:>10} {words:12,} {seconds:10.1f} {words / seconds:10,.0f} {again:13.2f}")
