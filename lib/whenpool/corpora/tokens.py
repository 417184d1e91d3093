"""Words, vocabularies and word vectors, by torchtext 0.6, for which the authors' code was written; it is
the last version in pure Python. It is loaded when a text is read, so that models and training do without it.
Nothing here touches the network."""

import ssl
import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from torch import Tensor

from whenpool.base.errors import InputError
from whenpool.base.files import fingerprint, write_atomically
from whenpool.corpora.batches import PADDING, UNKNOWN

if TYPE_CHECKING:
    from torchtext.vocab import Vocab

VOCABULARY_LIMIT = 25_000
"""Words of the largest vocabulary, besides the two special ones (thesis §1.4.2)."""


def tokenize(text: str) -> list[str]:
    """The lower-case words and punctuation marks of a text, by torchtext's ``basic_english``. Raises
    `InputError` where torchtext is missing."""
    words: list[str] = _torchtext().data.utils.get_tokenizer("basic_english")(text)
    return words


@cache
def _torchtext() -> Any:
    try:
        import torchtext.data.utils
        import torchtext.vocab
    except ModuleNotFoundError:
        raise InputError("texts are read by torchtext: pip install 'whenpool[runs]'") from None
    return torchtext


@dataclass(frozen=True)
class WordVectors:
    """Pretrained vectors: ``matrix`` (V, E) holds one row for each of ``words``."""

    words: list[str]
    matrix: Tensor

    @property
    def size(self) -> int:
        return self.matrix.shape[1]


def build_vocabulary(
    counts: Mapping[str, int],
    limit: int = VOCABULARY_LIMIT,
    vectors: WordVectors | None = None,
    generator: torch.Generator | None = None,
) -> "Vocab":
    """``<unk>``, ``<pad>``, then at most ``limit`` words from frequent to rare (§1.4.2).

    Args:
        vectors: fill ``vocabulary.vectors``; a word that has none, and the two special ones, get one from
            N(0, 1) by the ``generator``, as in the authors' code.
    """
    vocabulary = _torchtext().vocab.Vocab(Counter(counts), max_size=limit, specials=(UNKNOWN, PADDING))
    if vectors is not None:
        row_of = {word: row for row, word in enumerate(vectors.words)}
        vocabulary.set_vectors(
            row_of, vectors.matrix, vectors.size, lambda row: row.normal_(generator=generator)
        )
    return vocabulary


def load_vectors(path: Path, cache_directory: Path) -> WordVectors:
    """Read vectors in GloVe's text format, ``word number number ...`` a line, maybe gzipped.

    torchtext parses the file once; the copy kept in ``cache_directory`` is safetensors and plain
    text, which load fast and run no code. Raises `InputError` when the file is missing, or its lines differ
    in their number of values.
    """
    if not path.is_file():
        raise InputError(f"word vectors {path} are not there; `whenpool data` tells where to get them")
    stem = f"{path.name.split('.txt')[0]}-{fingerprint(path)[:20]}"
    words_file = cache_directory / "vectors" / f"{stem}.txt"
    matrix_file = cache_directory / "vectors" / f"{stem}.safetensors"
    if not words_file.exists():  # written last
        parsed = _parse(path)
        write_atomically(matrix_file, safetensors.torch.save({"matrix": parsed.matrix}))
        write_atomically(words_file, "\n".join(parsed.words))
    words = words_file.read_bytes().decode("utf-8").split("\n")  # a word may hold "\\r"
    return WordVectors(words, safetensors.torch.load_file(matrix_file)["matrix"])


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
    if not read.itos:
        raise InputError(f"word vectors {path} cannot be read: no line has a word and its numbers")
    finite = torch.isfinite(read.vectors).all(1)
    if not bool(finite.all()):
        word = read.itos[int(finite.int().argmin())]
        raise InputError(f"word vectors {path}: those of {word!r:.60} are not finite numbers")
    return WordVectors(read.itos, read.vectors)
