"""Words, vocabularies and word vectors. Texts are read by torchtext 0.6, for which the authors'
code was written; it is the last version in pure Python, and is loaded when it is needed. Nothing
here touches the network."""

import math
import re
import zlib
from array import array
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor

from whenpool.base.errors import InputError, check
from whenpool.base.files import fingerprint, stream_of, write_atomically
from whenpool.corpora.batches import PADDING, UNKNOWN, UNKNOWN_INDEX, Ragged

VECTORS = ("glove.6B.100d", "wiki-reviews.100d")
"""Word vectors that are looked for by default, best first (§1.4.2)."""
VOCABULARY_LIMIT = 25_000  # Words of the largest vocabulary, besides the two special ones (§1.4.2)

_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, Japanese,
Chinese."""


def tokenize(text: str) -> list[str]:
    """The lower-case words and punctuation marks of a text, by torchtext's ``basic_english``."""
    words: list[str] = _tokenizer()(text)
    return words


def without_spaces(texts: Iterable[str]) -> bool:
    """Whether a typical text puts no spaces between words, so that `tokenize` finds none."""
    starts = (text.strip()[:1_000] for text in texts)
    runs = (len(_UNSPACED.findall(start)) / len(start.split()) for start in starts if start)
    return median([*runs] or [0]) >= 8  # letters in one piece, which no words of other scripts have


@cache
def _tokenizer() -> Any:
    try:
        from torchtext.data.utils import get_tokenizer
    except ModuleNotFoundError:
        raise InputError("reading texts needs torchtext: pip install 'whenpool[texts]'") from None
    return get_tokenizer("basic_english")


@dataclass(frozen=True)
class WordVectors:
    """Pretrained vectors: ``matrix`` (V, E) holds one row for each of ``words``."""

    words: list[str]
    matrix: Tensor

    @property
    def size(self) -> int:
        return self.matrix.shape[1]


def strings(texts: Iterable[str]) -> list[str]:
    """Raises `InputError` for one string instead of several, a table, or what is no string."""
    check(not isinstance(texts, str), "texts must be a list, not one string; give [text]")
    check(
        not isinstance(texts, Mapping) and getattr(texts, "ndim", 1) == 1,
        "texts must be a list or one column; of a table give table['text']",
    )
    listed = list(texts)
    for number, text in enumerate(listed):
        check(isinstance(text, str), f"text {number} must be a string, not {type(text).__name__}")
    return listed


def build_vocabulary(counts: Mapping[str, int], limit: int = VOCABULARY_LIMIT) -> dict[str, int]:
    """The number of each word: ``<unk>``, ``<pad>``, then at most ``limit`` words from frequent to
    rare (§1.4.2), words of one frequency by the alphabet; it equals torchtext's."""
    special = [UNKNOWN, PADDING]
    seen = [word for word, count in counts.items() if count > 0 and word not in special]
    words = special + sorted(seen, key=lambda word: (-counts[word], word))[:limit]
    return {word: number for number, word in enumerate(words)}


def number(texts: Iterable[Iterable[str]], vocabulary: Mapping[str, int]) -> Ragged:
    """The numbers of the words of each text; one that the vocabulary lacks, or of padding, is
    unknown."""
    number_of = {**vocabulary, PADDING: UNKNOWN_INDEX}
    return Ragged.of([number_of.get(word, UNKNOWN_INDEX) for word in words] for words in texts)


def start_from(vectors: WordVectors | None, words: Collection[str], seed: int) -> Tensor | None:
    """Vectors (V, E) of words to start an embedding from, None where there are none; words that
    have none draw theirs from N(0, 1) by the ``seed``, as in the authors' code. Raises `InputError`
    where all would."""
    if vectors is None:
        return None
    row_of = {word: row for row, word in enumerate(vectors.words)}
    check(
        not row_of.keys().isdisjoint(words),
        "no word of the texts has a vector; choose other vectors",
    )
    matrix, generator = torch.empty(len(words), vectors.size), torch.Generator().manual_seed(seed)
    for row, word in zip(matrix, words, strict=True):
        if word in row_of:
            row.copy_(vectors.matrix[row_of[word]])
        else:
            row.normal_(generator=generator)
    return matrix


def vectors_file(name: str, directory: Path) -> Path:
    """The file of some word vectors, by name or full path; raises `InputError` when it is not in
    the data folder."""
    for folder in (directory, directory / "vectors"):
        for suffix in (".txt", ".txt.gz", ""):
            if (file := folder / f"{name}{suffix}").is_file():
                return file
    raise InputError(
        f"found no word vectors {name}, as a file or in {directory}; "
        "`whenpool data fetch glove` downloads GloVe's"
    )


def find_vectors(directory: Path) -> str | None:
    """The first of `VECTORS` that is in the data folder, or None."""
    for name in VECTORS:
        with suppress(InputError):
            vectors_file(name, directory)
            return name
    return None


def load_vectors(path: Path, cache_directory: Path) -> WordVectors:
    """Read vectors in GloVe's text format, ``word number number ...`` a line, maybe gzipped, maybe
    below a line with their counts, as word2vec writes; a word may have spaces. A copy in
    ``cache_directory`` loads fast the next time. Raises `InputError` for a file that is missing or
    binary, or a line of another form."""
    check(
        path.is_file(), f"word vectors {path} do not exist; `whenpool data` lists where to get them"
    )
    copy = _copy_of(path, cache_directory)
    if not copy.exists():
        keep_vectors(_parse(path), path, cache_directory)
    with safe_open(copy, "pt") as stored:
        return WordVectors(stored.metadata()["words"].split("\n"), stored.get_tensor("matrix"))


def keep_vectors(vectors: WordVectors, path: Path, cache_directory: Path) -> None:
    """Write the copy that `load_vectors` reads in the place of a file."""
    words = {"words": "\n".join(vectors.words)}
    content = safetensors.torch.save({"matrix": vectors.matrix}, words)
    write_atomically(_copy_of(path, cache_directory), content)


def _copy_of(path: Path, cache_directory: Path) -> Path:
    name = f"{path.name.split('.txt')[0]}-{fingerprint(path)[:20]}.safetensors"
    return cache_directory / "word_vectors" / name


def _is_number(field: bytes) -> bool:
    with suppress(ValueError):
        float(field)
        return True
    return False


def _parse(path: Path) -> WordVectors:
    words, values, size = list[str](), array("f"), 0
    try:
        with stream_of(path) as file:
            for number, line in enumerate(file, 1):
                fields = line.removeprefix(b"\xef\xbb\xbf").split()
                if not fields or (number == 1 and len(fields) == 2 and b"".join(fields).isdigit()):
                    continue  # the second is how many words and numbers there are
                size = size or sum(1 for _ in takewhile(_is_number, fields[:0:-1]))
                # the last fields are the numbers; a word may have spaces, as ". . ." has
                word, row = fields[: len(fields) - size], array("f")
                with suppress(ValueError):
                    row = array("f", map(float, fields[len(word) :]))
                # also as they are stored
                is_row = len(row) == size > 0 and all(map(math.isfinite, row))
                is_row = is_row and len(word) > 0 and not any(map(_is_number, word[1:][-1:]))
                check(
                    is_row,
                    f"word vectors {path}, line {number}: expected a word and {size or 'its'} "
                    f"numbers, but found {line[:40]!r}; correct or delete the line; if the file is "
                    "no plain text, unpack a .zip, save UTF-16 as UTF-8, and write a .bin of "
                    "word2vec as text, with gensim: KeyedVectors.load_word2vec_format("
                    "'vectors.bin', binary=True).save_word2vec_format('vectors.txt')",
                )
                with suppress(UnicodeDecodeError):  # words that are not UTF-8 are left out
                    words.append(b" ".join(word).decode("utf-8"))
                    values.extend(row)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"word vectors {path} cannot be read: {error!s:.200}; fetch them again"
        ) from None
    check(words, f"word vectors {path}: no line has a word and its numbers; fetch them again")
    return WordVectors(words, torch.frombuffer(values, dtype=torch.float32).view(-1, size))
