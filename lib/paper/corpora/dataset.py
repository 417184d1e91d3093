"""From a corpus to what a training reads: composed texts as numbers of the vocabulary of a run.

A corpus of texts is kept on disk as numbers of a table of all its words. A run takes its part of
it, surrounds the texts with filler, counts the words of its training texts, and renumbers.
Composing depends on corpus, split and setting alone: every model reads the same texts.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor

from paper.corpora.downloads import notes_on_files
from whenpool.base.errors import InputError, StorageError, check
from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.corpora import CorpusSource, tokens
from whenpool.corpora.batches import UNKNOWN, Ragged, Splits, Texts
from whenpool.corpora.corpus import SPLITS
from whenpool.corpora.settings import SHARE, compose
from whenpool.corpora.tokens import WordVectors, build_vocabulary, number, start_from, tokenize


@dataclass(frozen=True, eq=False)
class EncodedCorpus:
    """A corpus as numbers of a table of all its words; classes, complete and notes as in
    `Corpus`."""

    words: list[str]
    texts: dict[str, Texts]  # by split
    filler: dict[str, Ragged]  # by split, numbered by the same table; empty where none was found
    classes: tuple[str, ...]
    complete: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Dataset(Splits):
    """What one training reads: composed texts as numbers of its vocabulary."""

    vocabulary: list[str]  # the words by number, <unk> and <pad> first
    vectors: Tensor | None  # (V, E) to start the embedding from
    classes: tuple[str, ...]
    filler_passes: dict[str, int]  # how often each split's filler sentences were begun
    test_filler: (
        Ragged | None
    )  # the filler sentences that belong to test texts, where any were found


def encode(source: CorpusSource, length: str, cache_directory: Path) -> EncodedCorpus:
    """Tokenise a corpus and its filler, or read them from the cache."""
    file, has_filler = encoded_file(source, length, cache_directory)
    if not file.exists():
        corpus, table = source.load(length), dict[str, int]()

        def numbered(texts: Iterable[str]) -> Ragged:
            rows = (tokenize(text) or [UNKNOWN] for text in texts)
            return Ragged.of([table.setdefault(word, len(table)) for word in row] for row in rows)

        parts = corpus.splits.items()
        coded = {name: Texts(numbered(of.texts), torch.tensor(of.labels)) for name, of in parts}
        sentences = source.load_filler() if has_filler else {}
        filler = {split: numbered(texts) for split, texts in sentences.items()}
        notes = *notes_on_files(source.name, source.folder), *corpus.notes
        facts = corpus.classes, corpus.complete, notes
        keep_encoded(EncodedCorpus(list(table), coded, filler, *facts), file)
    return _read_encoded(file)


@lru_cache(
    maxsize=4
)  # by the file, whose name changes with the texts: the name of a source does not
def _read_encoded(file: Path) -> EncodedCorpus:
    with safe_open(file, "pt") as stored:
        words, classes, complete, notes = json.loads(stored.metadata()["facts"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118

    def ragged(name: str) -> Ragged:
        return Ragged(tensors[f"{name}.flat"], tensors[f"{name}.offsets"])

    texts = {split: Texts(ragged(f"texts.{split}"), tensors[f"labels.{split}"]) for split in SPLITS}
    filler = {
        split: ragged(f"filler.{split}") for split in SPLITS if f"filler.{split}.flat" in tensors
    }
    return EncodedCorpus(words, texts, filler, tuple(classes), complete, tuple(notes))


def encoded_file(source: CorpusSource, length: str, cache_directory: Path) -> tuple[Path, bool]:
    """Where `encode` keeps a corpus, and whether there is filler; raises as `encode`."""
    try:
        filler_hash = source.filler_fingerprint()
    except StorageError:
        raise
    except InputError:  # `make_dataset` says so where a setting needs filler
        filler_hash = "none"
    tokenizer = code_fingerprint(Path(tokens.__file__))
    identity = hash_of(source.fingerprint(length), filler_hash, tokenizer)
    file = cache_directory / "encoded" / f"{Path(source.name).stem}-{identity[:20]}.safetensors"
    return file, filler_hash != "none"


def keep_encoded(corpus: EncodedCorpus, file: Path) -> None:
    """Write a corpus where `encode` reads it."""
    rows = {f"texts.{split}": texts.ids for split, texts in corpus.texts.items()}
    rows |= {f"filler.{split}": sentences for split, sentences in corpus.filler.items()}
    tensors = {f"labels.{split}": texts.labels for split, texts in corpus.texts.items()}
    for name, ragged in rows.items():
        tensors |= {f"{name}.flat": ragged.flat, f"{name}.offsets": ragged.offsets}
    facts = json.dumps([corpus.words, corpus.classes, corpus.complete, corpus.notes])
    write_atomically(file, safetensors.torch.save(tensors, {"facts": facts}))


def make_dataset(
    encoded: EncodedCorpus,
    *,
    size: int,
    setting: str = "standard",
    share: float = SHARE,
    validation: int | None = None,
    test: int | None = None,
    max_words: int | None = None,
    vectors: WordVectors | None = None,
    seed: int = 0,
    draw: int = 0,
) -> Dataset:
    """Compose, count, and renumber. Raises `InputError` when the corpus has fewer texts than asked
    for; by default there are as many validation as training texts, and all test texts.
    ``max_words`` cuts a text before it is composed; ``vectors`` start the embedding, and the
    ``seed`` draws those that are missing. Training texts are the first of the corpus, or for
    another ``draw`` as many after those of the last."""
    validation = min(size, len(encoded.texts["validation"])) if validation is None else validation
    test = len(encoded.texts["test"]) if test is None else test
    dataset = _numbered(encoded, (size, validation, test), setting, share, max_words, draw)
    return replace(dataset, vectors=start_from(vectors, dataset.vocabulary, seed))


@lru_cache(maxsize=4)  # the poolings and seeds of a corpus, size and each setting follow each other
def _numbered(
    encoded: EncodedCorpus,
    counts: tuple[int, ...],
    setting: str,
    share: float,
    max_words: int | None,
    draw: int,
) -> Dataset:
    """A dataset of so many texts of each split, without vectors."""
    composed, passes = {}, {}
    for split, count in zip(SPLITS, counts, strict=True):
        have, start = len(encoded.texts[split]), draw * count if split == "train" else 0
        asked = f"but {start + count:,} were asked for; choose fewer"
        check(1 <= count <= have - start, f"the corpus has {have:,} {split} texts, {asked}")
        composed[split], passes[split] = _composed(
            encoded, split, (start, count), setting, share, max_words, f"{split} filler"
        )
    occurrences = torch.bincount(composed["train"].ids.flat, minlength=len(encoded.words)).tolist()
    vocabulary = build_vocabulary(dict(zip(encoded.words, occurrences, strict=True)))
    new = number([encoded.words], vocabulary).flat  # of each word of the corpus

    def renumbered(rows: Ragged) -> Ragged:
        return Ragged(new[rows.flat], rows.offsets)

    return Dataset(
        **{split: Texts(renumbered(texts.ids), texts.labels) for split, texts in composed.items()},
        vocabulary=list(vocabulary),
        vectors=None,
        classes=encoded.classes,
        filler_passes=passes,
        test_filler=renumbered(encoded.filler["test"]) if encoded.filler else None,
    )


def _composed(
    encoded: EncodedCorpus,
    split: str,
    part: tuple[int, int],
    setting: str,
    share: float,
    max_words: int | None,
    seed: str,
) -> tuple[Texts, int]:
    """A part of a split's texts, its start and size, cut first, then with filler around them that a
    seed shuffles; and how often the filler was begun."""
    start, count = part
    texts, sentences = encoded.texts[split].first(count, start), []
    if setting == "standard" and max_words is None:
        return texts, 0
    if setting != "standard":
        check(
            encoded.filler, f"setting {setting!r} needs filler; run `whenpool data fetch wikitext`"
        )
        sentences = encoded.filler[split].to_lists()
    stream = FillerStream(sentences, seed)
    rows = (compose(row[:max_words], stream, setting, share) for row in texts.ids.to_lists())
    return Texts(Ragged.of(rows), texts.labels), stream.passes


class FillerStream(Iterator[Sequence[int]]):
    """Endless sentences, shuffled by a seed, and again when all have been used; ``passes`` counts
    this."""

    def __init__(self, sentences: Sequence[Sequence[int]], seed: str) -> None:
        self._sentences, self._rng = sentences, random.Random(seed)
        self._order: list[int] = []
        self.passes = 0

    def __next__(self) -> Sequence[int]:
        if not self._order:
            self._order = list(range(len(self._sentences)))
            self._rng.shuffle(self._order)
            self.passes += 1
        return self._sentences[self._order.pop()]


def refiller(
    encoded: EncodedCorpus,
    dataset: Dataset,
    *,
    size: int,
    setting: str,
    share: float,
    max_words: int | None,
    draw: int,
) -> Callable[[int], Tensor]:
    """What gives the words of a dataset's training texts for an epoch, from 1 on, with filler drawn
    anew."""
    vocabulary = {word: place for place, word in enumerate(dataset.vocabulary)}
    new, part = number([encoded.words], vocabulary).flat, (draw * size, size)

    def words_of(epoch: int) -> Tensor:
        texts, _ = _composed(
            encoded, "train", part, setting, share, max_words, f"train filler {epoch}"
        )
        return new[texts.ids.flat]

    return words_of
