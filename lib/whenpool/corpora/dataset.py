"""From a corpus to what a training reads: composed texts, or tagged sentences, as numbers of the vocabulary
of a run.

A corpus of texts is kept on disk as numbers of a table of all its words. A run takes its part of it,
surrounds the texts with filler, counts the words of its training texts, and renumbers. Composing depends on
corpus, split and setting alone: every model reads the same texts.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from whenpool.base.errors import InputError, check
from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.corpora import CorpusSource
from whenpool.corpora.batches import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Batch, Ragged, Texts
from whenpool.corpora.corpus import SPLITS
from whenpool.corpora.settings import SHARE, FillerStream, check_setting, compose
from whenpool.corpora.tagged import Tagged, TaggedCorpus
from whenpool.corpora.tokens import WordVectors, build_vocabulary, start_from, tokenize


@dataclass(frozen=True, eq=False)
class EncodedCorpus:
    """A corpus as numbers of a table of all its words; classes, complete and notes as in `Corpus`."""

    words: list[str]
    texts: dict[str, Texts]  # by split
    filler: dict[str, Ragged]  # by split, numbered by the same table; empty where none was found
    classes: tuple[str, ...]
    complete: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Splits:
    """The texts of one training."""

    train: Texts
    validation: Texts
    test: Texts


@dataclass(frozen=True)
class Dataset(Splits):
    """What one training reads: composed texts as numbers of its vocabulary."""

    vocabulary: list[str]  # the words by number, <unk> and <pad> first
    vectors: Tensor | None  # (V, E) to start the embedding from
    classes: tuple[str, ...]
    filler_passes: dict[str, int]  # how often each split's filler sentences were begun
    test_filler: Ragged | None  # the filler sentences that belong to test texts, where any were found


@lru_cache(maxsize=4)
def encode(source: CorpusSource, length: str, cache_directory: Path) -> EncodedCorpus:
    """Tokenise a corpus and its filler, or read them from the cache."""
    file, has_filler = encoded_file(source, length, cache_directory)
    if not file.exists():
        corpus, table = source.load(length), dict[str, int]()

        def numbered(texts: Iterable[str]) -> Ragged:
            rows = (tokenize(text) or [UNKNOWN] for text in texts)
            return Ragged.of([table.setdefault(word, len(table)) for word in row] for row in rows)

        coded = {
            split: Texts(numbered(part.texts), torch.tensor(part.labels))
            for split, part in corpus.splits.items()
        }
        sentences = source.load_filler() if has_filler else {}
        filler = {split: numbered(texts) for split, texts in sentences.items()}
        facts = corpus.classes, corpus.complete, corpus.notes
        keep_encoded(EncodedCorpus(list(table), coded, filler, *facts), file)
    with safe_open(file, "pt") as stored:
        words, classes, complete, notes = json.loads(stored.metadata()["facts"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118

    def ragged(name: str) -> Ragged:
        return Ragged(tensors[f"{name}.flat"], tensors[f"{name}.offsets"])

    texts = {split: Texts(ragged(f"texts.{split}"), tensors[f"labels.{split}"]) for split in SPLITS}
    filler = {split: ragged(f"filler.{split}") for split in SPLITS if f"filler.{split}.flat" in tensors}
    return EncodedCorpus(words, texts, filler, tuple(classes), complete, tuple(notes))


def encoded_file(source: CorpusSource, length: str, cache_directory: Path) -> tuple[Path, bool]:
    """Where `encode` keeps a corpus, and whether there is filler; raises as `encode`."""
    try:
        filler_hash = source.filler_fingerprint()
    except InputError:  # `make_dataset` says so where a setting needs filler
        filler_hash = "none"
    tokenizer = code_fingerprint(Path(__file__).with_name("tokens.py"))
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
    encoded: EncodedCorpus, *, size: int, setting: str = "standard", share: float = SHARE,
    validation: int | None = None, test: int | None = None, max_words: int | None = None,
    vectors: WordVectors | None = None, seed: int = 0, draw: int = 0,
) -> Dataset:  # fmt: skip
    """Compose, count, and renumber. Raises `InputError` when the corpus has fewer texts than asked for; by
    default there are as many validation as training texts, and all test texts. ``max_words`` cuts a text
    before it is composed; ``vectors`` start the embedding, and the ``seed`` draws those that are missing.
    Training texts are the first of the corpus, or for another ``draw`` as many after those of the last."""
    if validation is None:
        validation = min(size, len(encoded.texts["validation"]))
    if test is None:
        test = len(encoded.texts["test"])
    dataset = _numbered(encoded, (size, validation, test), setting, share, max_words, draw)
    return replace(dataset, vectors=start_from(vectors, dataset.vocabulary, seed))


@lru_cache(maxsize=1)  # the poolings and seeds of a corpus, size and setting follow each other
def _numbered(
    encoded: EncodedCorpus, counts: tuple[int, ...], setting: str, share: float, max_words: int | None,
    draw: int,
) -> Dataset:  # fmt: skip
    """A dataset of so many texts of each split, without vectors."""
    composed, passes = {}, {}
    for split, count in zip(SPLITS, counts, strict=True):
        have = len(encoded.texts[split])
        start = draw * count if split == "train" else 0
        if not 1 <= count <= have - start:
            few = f"the corpus has {have:,} {split} texts, but {start + count:,} were asked for"
            raise InputError(f"{few}; choose from 1 to {have // (1 + (draw if start else 0)):,}")
        composed[split], passes[split] = _composed(
            encoded, split, setting, share, count, max_words, start
        )
    occurrences = torch.bincount(composed["train"].ids.flat, minlength=len(encoded.words)).tolist()
    vocabulary = build_vocabulary(dict(zip(encoded.words, occurrences, strict=True)))
    number = _numbers_in(vocabulary, encoded)

    def renumbered(rows: Ragged) -> Ragged:
        return Ragged(number[rows.flat], rows.offsets)

    return Dataset(
        **{split: Texts(renumbered(texts.ids), texts.labels) for split, texts in composed.items()},
        vocabulary=list(vocabulary), vectors=None, classes=encoded.classes, filler_passes=passes,
        test_filler=renumbered(encoded.filler["test"]) if encoded.filler else None,
    )  # fmt: skip


def _numbers_in(vocabulary: Mapping[str, int], encoded: EncodedCorpus) -> Tensor:
    """The number in a run's vocabulary of each word of the corpus."""
    number_of = {**vocabulary, PADDING: UNKNOWN_INDEX}  # where a text has such a word
    return torch.tensor([number_of.get(word, UNKNOWN_INDEX) for word in encoded.words]).int()


def refilled(
    encoded: EncodedCorpus, dataset: Dataset, epoch: int, *, size: int, setting: str, share: float,
    max_words: int | None, draw: int,
) -> Tensor:  # fmt: skip
    """The words of a dataset's training texts, one after the other, with filler that an ``epoch`` from 1 on
    draws anew. Words that the vocabulary lacks are unknown."""
    stream = f"train filler {epoch}"
    texts, _ = _composed(encoded, "train", setting, share, size, max_words, draw * size, stream)
    vocabulary = {word: place for place, word in enumerate(dataset.vocabulary)}
    return _numbers_in(vocabulary, encoded)[texts.ids.flat]


@lru_cache(maxsize=12)  # runs of one corpus and setting follow each other, and read the same texts
def _composed(
    encoded: EncodedCorpus, split: str, setting: str, share: float, count: int, max_words: int | None,
    start: int, stream_name: str = "",
) -> tuple[Texts, int]:  # fmt: skip
    """Some texts of a split, from a ``start`` on, in a setting, and how often the filler was begun; filler
    of another name comes in another order."""
    texts = encoded.texts[split].first(count, start)
    if setting == "standard" and max_words is None:
        return texts, 0
    check_setting(setting)
    sentences = []
    if setting != "standard":
        check(encoded.filler, f"setting {setting!r} needs filler; run `whenpool data fetch wikitext`")
        sentences = encoded.filler[split].to_lists()
    stream = FillerStream(sentences, stream_name or f"{split} filler")
    rows = (compose(row[:max_words], stream, setting, share) for row in texts.ids.to_lists())
    return Texts(Ragged.of(rows), texts.labels), stream.passes


# Tagged sentences. Letters: N sentences, B of them in a batch, T words of the longest in it, W words of all,
# F numbers of a word: of the word in lower case, of its suffix, and of its shape, so that a word that no
# training sentence has is known by suffix and shape.

PAD_TAG, UNKNOWN_TAG = -100, -1  # Where no word is; and a tag that no training word has


@dataclass(frozen=True)
class NumberedSentences(Texts):
    """N sentences: of each word a row of F numbers, W rows int32, and as labels the tags (W,) of all words,
    int64, `UNKNOWN_TAG` for those that training has not."""

    def batch(self, indices: Tensor, padding_index: int) -> Batch:
        """The sentences of these numbers (B,), padded to the longest of them: ids (B, T, F), lengths
        (B,), and as labels the tags (B, T), `PAD_TAG` after each sentence's end."""
        places, is_word, lengths, _ = self.ids.places(indices)
        ids = self.ids.flat[places].long()  # (B, T, F)
        ids = ids.masked_fill(~is_word.unsqueeze(-1), padding_index)
        return Batch(ids, lengths, self.labels[places].masked_fill(~is_word, PAD_TAG))


@dataclass(frozen=True)
class NumberedCorpus(Splits):
    """All splits as numbers: `NumberedSentences` each."""

    tags: tuple[str, ...]  # names, in the order of their numbers
    sizes: tuple[int, ...]  # how many different words, suffixes and shapes there are, F of them
    rare: Tensor  # (words,) bool, those that stand once in the training sentences
    seen: Tensor  # (words,) bool, those that stand there at all
    vectors: Tensor | None  # (words, E) to start from
    later: Tensor  # (W,) bool, for each test word whether only a later one decides its tag
    spelling: Tensor | None = None  # (forms, L), see `whenpool.models.sequence_tagger.Spelling`


def number(
    corpus: TaggedCorpus, with_features: bool = True, vectors: WordVectors | None = None, seed: int = 0,
    with_spelling: bool = False,
) -> NumberedCorpus:  # fmt: skip
    """Number the words and tags of a corpus; ``with_features`` suffix and shape as well, F = 3,
    ``with_spelling`` also the number of the form in which a word is written. Words that have ``vectors``
    are known even where no training sentence has them; the ``seed`` draws those of words that have none."""
    counts = Counter(word.lower() for sentence in corpus.train for word in sentence.words)
    known = set(vectors.words) if vectors else set()
    others = [*corpus.validation, *corpus.test]
    unseen = known & ({word.lower() for s in others for word in s.words} - counts.keys())
    among = counts | dict.fromkeys(sorted(unseen), 1)  # what has no count is left out
    words = build_vocabulary(among, len(among))
    features: list[Any] = [(str.lower, words | {PADDING: UNKNOWN_INDEX})]  # if a text has such a word
    for feature in (suffix, shape) if with_features else ():
        values = sorted({feature(word) for sentence in corpus.train for word in sentence.words})
        features.append((feature, {value: i for i, value in enumerate(values, PADDING_INDEX + 1)}))
    sizes = (len(words), *(len(numbers) + PADDING_INDEX + 1 for _, numbers in features[1:]))
    spelling = None
    if with_spelling:
        forms, spelling = spelled(corpus)
        features.append((str, forms))
    number_of = {tag: place for place, tag in enumerate(corpus.tags)}

    def numbered(sentences: Sequence[Tagged]) -> NumberedSentences:
        words = [word for sentence in sentences for word in sentence.words]
        row_of = {  # a word is looked at once
            word: [numbers.get(feature(word), UNKNOWN_INDEX) for feature, numbers in features]
            for word in set(words)
        }
        rows = torch.tensor([row_of[word] for word in words], dtype=torch.int32)  # (W, F)
        offsets = torch.tensor([0, *accumulate(map(len, sentences))])
        tags = [number_of.get(tag, UNKNOWN_TAG) for sentence in sentences for tag in sentence.tags]
        return NumberedSentences(Ragged(rows, offsets), torch.tensor(tags))

    frequency = torch.tensor([counts.get(word, 0) for word in words])
    return NumberedCorpus(
        **{name: numbered(part) for name, part in corpus.splits.items()}, tags=corpus.tags, sizes=sizes,
        rare=frequency == 1, seen=frequency > 0, vectors=start_from(vectors, words, seed),
        later=torch.tensor([i in s.later for s in corpus.test for i in range(len(s))]),
        spelling=spelling,
    )  # fmt: skip


def spelled(corpus: TaggedCorpus) -> tuple[dict[str, int], Tensor]:
    """The number of each written form of all splits, and their first 20 letters (forms, L): 1 stands for a
    letter that no training word has, 0 for none."""
    letters = sorted({letter for s in corpus.train for word in s.words for letter in word})
    number_of = {letter: place for place, letter in enumerate(letters, 2)}
    forms = sorted({word for part in corpus.splits.values() for s in part for word in s.words})
    rows = [[number_of.get(letter, 1) for letter in form[:20]] for form in forms]
    no_word = [torch.ones(1, dtype=torch.int64)] * (PADDING_INDEX + 1)  # padding and unknown
    table = nn.utils.rnn.pad_sequence([*no_word, *map(torch.tensor, rows)], batch_first=True)
    return {form: place for place, form in enumerate(forms, PADDING_INDEX + 1)}, table


def suffix(word: str) -> str:
    """The last three letters of a word, in lower case: "ing" of "Walking"."""
    return word[-3:].lower()


def shape(word: str) -> str:
    """Upper and lower case, digits and other signs, each run once: "Xx" of "Chicago", "dx" of "1990s"."""
    tests = {"X": str.isupper, "x": str.islower, "d": str.isdigit}
    kinds = (next((kind for kind, holds in tests.items() if holds(letter)), ".") for letter in word)
    return "".join(kind for kind, _ in groupby(kinds))[:8]
