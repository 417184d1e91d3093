"""Max-attention on frozen contextual embeddings (thesis §1.10.1).

A pretrained encoder reads each text once. The embeddings of its tokens go into a file, and from there,
batch by batch, into the unchanged model of the thesis. Neither writing nor reading holds more than a few
hundred texts in memory.

Letters: N texts, B of them in a batch, T tokens of the longest in it, E units of an embedding.
"""

import copy
import ctypes
import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from tqdm import tqdm

from whenpool.base.errors import InputError
from whenpool.base.files import whole_file
from whenpool.corpora.batches import Batch, Ragged, Texts, evaluation_batches
from whenpool.fewshot.pretrained import Pretrained
from whenpool.models.encoder import word_mask
from whenpool.models.text_classifier import TextClassifier

CHUNK = 256  # Texts that are embedded before they are written, so that those of similar length meet
BATCH_TOKENS, GPU_BATCH_TOKENS = 2_048, 32_768
"""Padded tokens of a batch that the encoder reads: few, since on a CPU more do not fit its caches."""


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
        """The texts of these numbers: as ``ids`` the embeddings, (B, T, E) float32, with zeros behind the
        end of each text, since there is no index of padding."""
        rows = [self.ids.row(index) for index in indices.tolist()]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.device).float()
        lengths = self.ids.lengths[indices].to(self.device)
        return Batch(padded, lengths, self.labels[indices.to(self.device)])


def embed(pretrained: Pretrained, texts: Texts, file: Path, device: str = "cpu") -> EmbeddedTexts:
    """The last hidden states of an encoder for every token, computed once and kept in a file.

    The header of the file, which is safetensors, says what it was made of. It gets its name when it is
    whole, so a computation that is stopped leaves nothing that looks finished. Where it is there, it is
    read. Texts are numbers of the encoder's tokens, see `Pretrained.tokenize`.

    Raises:
        InputError: for texts that the encoder cannot read, or a file that is not of these texts and this
            encoder, is no whole cache, or cannot be written.

    Examples:
        >>> import pathlib, tempfile
        >>> from whenpool.corpora.batches import Texts
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> texts = Texts(encoder.tokenize(["what a film"], max_tokens=16)[0], torch.tensor([1]))
        >>> file = pathlib.Path(tempfile.mkdtemp(), "embedded.safetensors")
        >>> embed(encoder, texts, file).batch(torch.arange(1), padding_index=0).ids.shape
        torch.Size([1, 5, 384])
    """
    if not len(texts):
        raise InputError("there are no texts to embed")
    lengths, longest = texts.ids.lengths, pretrained.max_tokens
    for index in ((lengths < 1) | (lengths > longest)).nonzero().flatten().tolist():
        raise InputError(
            f"text {index} has {int(lengths[index])} tokens; {pretrained.name} reads 1 to {longest}: "
            "leave such texts out, or cut them"
        )
    made_of = {"encoder": pretrained.name, "fingerprint": pretrained.fingerprint}
    made_of["texts"] = token_hash(texts.ids)
    if not file.exists():
        with whole_file(file, "the embeddings ", "or give another file") as stream:
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
        options: see `whenpool.TextClassifier`.

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
                # batches of ever new shapes leave freed memory in pieces, which add up; only glibc
                # keeps it, and gives it back when asked
                with suppress(AttributeError, OSError, TypeError):
                    ctypes.CDLL(None).malloc_trim(0)
                bar.update(len(some))
            yield chunk_rows[: last - first]


def _mapped(file: Path, made_of: dict[str, str]) -> Tensor:
    """The embeddings in a file, (tokens, E), read when they are used."""
    try:
        with safe_open(file, "pt") as stored:
            found = stored.metadata() or {}
            if "fingerprint" not in found:
                wrong = "is no cache of embeddings"
            elif found["fingerprint"] != made_of["fingerprint"]:
                wrong = f"was made with another encoder ({found.get('encoder')})"
            elif found.get("texts") != made_of["texts"]:
                wrong = "was made of other texts"
            else:
                return stored.get_tensor("embeddings")
    except (SafetensorError, OSError) as error:
        wrong = f"is no whole cache of embeddings ({error})"
    raise InputError(f"{file} {wrong}; delete it or give another file")
