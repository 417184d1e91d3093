"""Words, vocabularies and word vectors. Texts and files of vectors are read by torchtext 0.6, for which the
authors' code was written; it is the last version in pure Python, and is loaded when it is needed. Nothing
here touches the network."""

import re
import ssl
import tempfile
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from whenpool.base.errors import InputError, check
from whenpool.base.files import fingerprint, write_atomically
from whenpool.corpora.batches import PADDING, UNKNOWN

VOCABULARY_LIMIT = 25_000  # Words of the largest vocabulary, besides the two special ones (§1.4.2)

_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""


def tokenize(text: str) -> list[str]:
    """The lower-case words and punctuation marks of a text, by torchtext's ``basic_english``."""
    words: list[str] = _torchtext().data.utils.get_tokenizer("basic_english")(text)
    return words


def without_spaces(texts: Iterable[str]) -> bool:
    """Whether a typical text puts no spaces between words, so that `tokenize` finds none."""
    starts = (text.strip()[:1_000] for text in texts)
    runs = (len(_UNSPACED.findall(start)) / len(start.split()) for start in starts if start)
    return median([*runs] or [0]) >= 8  # letters in one piece, which no words of other scripts have


@cache
def _torchtext() -> Any:
    try:
        import torchtext.data.utils
        import torchtext.vocab
    except ModuleNotFoundError:
        raise InputError("reading texts needs torchtext: pip install 'whenpool[runs]'") from None
    return torchtext


@dataclass(frozen=True)
class WordVectors:
    """Pretrained vectors: ``matrix`` (V, E) holds one row for each of ``words``."""

    words: list[str]
    matrix: Tensor

    @property
    def size(self) -> int:
        return self.matrix.shape[1]


def build_vocabulary(counts: Mapping[str, int], limit: int = VOCABULARY_LIMIT) -> dict[str, int]:
    """The number of each word: ``<unk>``, ``<pad>``, then at most ``limit`` words from frequent to rare
    (§1.4.2), words of one frequency by the alphabet; it equals torchtext's."""
    special = [UNKNOWN, PADDING]
    seen = [word for word, count in counts.items() if count > 0 and word not in special]
    words = special + sorted(seen, key=lambda word: (-counts[word], word))[:limit]
    return {word: number for number, word in enumerate(words)}


def start_from(vectors: WordVectors | None, words: Collection[str], seed: int) -> Tensor | None:
    """Vectors (V, E) of words to start an embedding from, None where there are none; words that have none
    draw theirs from N(0, 1) by the ``seed``, as in the authors' code. Raises `InputError` where all would."""
    if vectors is None:
        return None
    row_of = {word: row for row, word in enumerate(vectors.words)}
    check(not row_of.keys().isdisjoint(words), "no word of the texts has a vector; choose other vectors")
    matrix, generator = torch.empty(len(words), vectors.size), torch.Generator().manual_seed(seed)
    for own, word in zip(matrix, words, strict=True):
        if word in row_of:
            own.copy_(vectors.matrix[row_of[word]])
        else:
            own.normal_(generator=generator)
    return matrix


def load_vectors(path: Path, cache_directory: Path) -> WordVectors:
    """Read vectors in GloVe's text format, ``word number number ...`` a line, maybe gzipped. torchtext parses
    the file once; the copy kept in ``cache_directory``, safetensors and plain text, loads fast. Raises
    `InputError` for a file that is missing, or whose lines differ in their number of values."""
    check(path.is_file(), f"word vectors {path} do not exist; `whenpool data` lists where to get them")
    words_file = _words_file(path, cache_directory)
    if not words_file.exists():
        keep_vectors(_parse(path), path, cache_directory)
    words = words_file.read_bytes().decode("utf-8").split("\n")  # a word may hold "\\r"
    matrix = safetensors.torch.load_file(words_file.with_suffix(".safetensors"))["matrix"]
    return WordVectors(words, matrix)


def keep_vectors(vectors: WordVectors, path: Path, cache_directory: Path) -> None:
    """Write the copy that `load_vectors` reads in the place of a file."""
    words_file = _words_file(path, cache_directory)
    matrix = safetensors.torch.save({"matrix": vectors.matrix})
    write_atomically(words_file.with_suffix(".safetensors"), matrix)
    write_atomically(words_file, "\n".join(vectors.words))  # last, since it says that both are there


def _words_file(path: Path, cache_directory: Path) -> Path:
    """The words of the copy; the matrix is in a file of the same name with the suffix .safetensors."""
    return cache_directory / "vectors" / f"{path.name.split('.txt')[0]}-{fingerprint(path)[:20]}.txt"


def _parse(path: Path) -> WordVectors:
    reading = _torchtext().vocab
    trust, bar = ssl._create_default_https_context, reading.tqdm
    reading.tqdm = lambda lines, **_: lines  # it draws a bar for each file
    try:
        with tempfile.TemporaryDirectory() as scratch:  # and leaves a pickle there
            read = reading.Vectors(str(path), cache=scratch)
    except (RuntimeError, ValueError, OSError, EOFError, LookupError, TypeError, zlib.error) as error:
        raise InputError(f"word vectors {path} cannot be read: {error!s:.200}") from None
    finally:  # it also switches off the checking of https certificates in the whole process
        ssl._create_default_https_context, reading.tqdm = trust, bar
    read.vectors = read.vectors[: len(read.itos)]  # words that are not UTF-8 are left out
    check(read.itos, f"word vectors {path} cannot be read: no line has a word and its numbers")
    finite = torch.isfinite(read.vectors).all(1)
    if not bool(finite.all()):
        word = read.itos[int(finite.int().argmin())]
        raise InputError(f"word vectors {path}: {word!r:.60} has numbers that are not finite")
    return WordVectors(read.itos, read.vectors)
