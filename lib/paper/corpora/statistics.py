"""Counts of corpora, for Tables 1.1 and 1.7 and for plans."""

import json
from pathlib import Path
from typing import Any

from whenpool.base.files import code_fingerprint, hash_of, remembered
from whenpool.corpora import CorpusSource, sources


def statistics_of(source: CorpusSource, length: str) -> dict[str, Any]:
    """Counts of a corpus's texts and of their words between white space, remembered in the
    cache."""

    def measure() -> str:
        corpus = source.load(length)
        words = [len(text.split()) for split in corpus.splits.values() for text in split.texts]
        counts = {
            "classes": len(corpus.classes),
            "average_length": sum(words) / len(words),
            "max_length": max(words),
            **{f"{name}_size": len(s) for name, s in corpus.splits.items()},
        }
        return json.dumps(counts | {"complete": corpus.complete})

    identity = hash_of(
        "statistics", source.fingerprint(length), code_fingerprint(Path(sources.__file__).parent)
    )
    return json.loads(remembered(identity, measure))
