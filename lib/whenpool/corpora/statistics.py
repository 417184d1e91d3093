"""The figures of Tables 1.1 and 1.7, for any corpus."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from whenpool.base.files import code_fingerprint, hash_of, remembered
from whenpool.corpora.corpus import Corpus, count_words
from whenpool.corpora.sources import CorpusSource


@dataclass(frozen=True)
class Statistics:
    """Lengths are in words between white space, over all splits."""

    classes: int
    average_length: float
    max_length: int
    train_size: int
    validation_size: int
    test_size: int
    complete: bool


def measure(corpus: Corpus) -> Statistics:
    """Count texts and words."""
    texts = [*corpus.train.texts, *corpus.validation.texts, *corpus.test.texts]
    lengths = [count_words(text) for text in texts]
    return Statistics(
        classes=len(corpus.classes),
        average_length=sum(lengths) / len(lengths),
        max_length=max(lengths),
        train_size=len(corpus.train),
        validation_size=len(corpus.validation),
        test_size=len(corpus.test),
        complete=corpus.complete,
    )


def statistics_of(source: CorpusSource, length: str) -> Statistics:
    """Measure a corpus, or read from the cache what was measured.

    Raises:
        InputError: for files that cannot be read.
    """
    identity = hash_of("statistics", source.fingerprint(length), code_fingerprint(Path(__file__).parent))
    return Statistics(
        **json.loads(remembered(identity, lambda: json.dumps(asdict(measure(source.load(length))))))
    )
