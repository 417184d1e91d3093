"""An encoder of texts that others have trained, read as it is: its states, pooled in passing.

Letters: N texts, B of them in a batch, T word pieces of the longest in the batch, D units of a
state, F folds, or 1 where all folds have the same.
"""

import inspect
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.func import functional_call
from transformers.utils import logging

from whenpool.base.devices import seeded
from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import code_fingerprint, fingerprint, whole_file
from whenpool.base.paths import cache_directory, encoder_folder
from whenpool.corpora.batches import Ragged, evaluation_batches, training_batches
from whenpool.models.pooling import Attention
from whenpool.models.sentence_pooling import TOKEN_POOLINGS

NAMES = {
    "mean": "mean",
    "cls": "[CLS]",
    "last": "last token",
    "max": "maximum",
    "max_attention": "MaxAtt",
    "attention": "learnt attention",
    "own": "the encoder's own mode",
}
OURS = "whenpool.models.sentence_pooling.SentencePooling"
BATCH_TOKENS, GPU_BATCH_TOKENS = 2_048, 32_768
EPOCHS = 15  # of the learnt query


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """An encoder that is read and not trained."""

    name: str
    model: Any  # of sentence-transformers; the first module gives the states
    longest: int  # word pieces that it reads
    fingerprint: str  # of its files
    poolings: tuple[str, ...]  # of `NAMES`
    prompt: str  # that it puts before each text
    before: int  # word pieces before a text: of the prompt, and special ones
    after: int  # special ones behind it

    def pieces(self, texts: Any) -> tuple[list[list[int]], np.ndarray]:
        """The numbers of each text's word pieces, cut where the encoder cuts, and how many there
        are without a cut, (N,)."""
        whole = self.model.tokenizer([self.prompt + text for text in texts], verbose=False)
        rows, end = whole["input_ids"], self.longest - self.after
        cut = [[*row[:end], *row[max(end, len(row) - self.after) :]] for row in rows]
        return cut, np.array([*map(len, rows)])

    @torch.inference_mode()
    def read(
        self, rows: Sequence[Sequence[int]], queries: np.ndarray | None = None
    ) -> Iterator[tuple[Tensor, Any, dict[str, np.ndarray]]]:
        """Of each batch the numbers of its texts, the features that sentence-transformers makes,
        ``token_embeddings`` (B, T, D) and ``attention_mask``, and the embeddings (F, B, D) of each
        pooling, of attention by the learnt queries (F, D). Padding is on the right, also of a
        decoder, where it does not move the positions of words."""
        lengths, device = torch.tensor([*map(len, rows)]), self.model.device
        room = BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS
        for some in evaluation_batches(lengths, room):
            batch = {"input_ids": [rows[text] for text in some.tolist()]}
            padded = self.model.tokenizer.pad(batch, return_tensors="pt").to(device)
            prompted = {"prompt_length": self.before} if self.prompt else {}
            features = self.model(dict(padded) | prompted)
            states, mask = features["token_embeddings"].float(), features["attention_mask"]
            made = {}
            for name in self.poolings:
                if name == "own":
                    made[name] = features["sentence_embedding"].float()[None]
                elif name != "attention":
                    made[name] = TOKEN_POOLINGS[name](None, False)(states, mask)[0][None]
                elif queries is not None:
                    made[name] = attended(states, mask, queries)
            yield some, features, {name: part.cpu().numpy() for name, part in made.items()}

    def embed(
        self,
        texts: Any,
        bar: Any,
        queries: np.ndarray | None = None,
        labels: Any = None,
        folds: Sequence[tuple[np.ndarray, np.ndarray]] = (),
        class_weight: str | None = None,
    ) -> dict[str, np.ndarray]:
        """The embeddings (F, N, D) of N texts by each pooling, and "queries", read once and then
        from the cache; a ``bar`` is told of the word pieces. Queries are given, or each fold learns
        one from the ``labels`` of its texts."""
        (rows, _), learns = self.pieces(texts), "attention" in self.poolings and len(folds) > 0
        parts, order, ragged = dict[str, list[np.ndarray]](), list[Tensor](), Ragged.of(rows)
        lesson = (labels, folds, class_weight) if learns else None
        code = [code_fingerprint(Path(inspect.getfile(of))) for of in (FrozenEncoder, Attention)]
        how = [self.fingerprint, self.prompt, self.poolings, code, queries, lesson]
        key = joblib.hash([*how, *texts])
        file = cache_directory() / "encoders" / f"{key}.npz"
        if file.exists():
            bar.update(len(ragged.flat))
            return dict(np.load(file))
        with tempfile.TemporaryFile() as store:  # in float16, so that no memory has all states
            shape = (len(ragged.flat), self.model[0].get_embedding_dimension())
            flat = np.memmap(store, np.float16, "w+", shape=shape) if learns else np.empty(0)
            stored = replace(ragged, flat=torch.from_numpy(flat))
            for some, features, made in self.read(rows, queries):
                order.append(some)
                for name, part in made.items():
                    parts.setdefault(name, []).append(part)
                if learns:
                    places, is_there, *_ = ragged.places(some)
                    states = features["token_embeddings"].half().cpu()
                    stored.flat[places[is_there]] = states[is_there]
                bar.update(int(ragged.lengths[some].sum()))
            if learns:
                lessons = [learnt_query(stored, labels, fold[0], class_weight) for fold in folds]
                queries = np.stack(lessons)
                for some in order:
                    places, is_there, *_ = stored.places(some)
                    pooled = attended(stored.flat[places].float(), is_there, queries)
                    parts.setdefault("attention", []).append(pooled.numpy())
        back = torch.cat(order).argsort().numpy()
        whole = {name: np.concatenate(part, 1)[:, back] for name, part in parts.items()}
        whole |= {} if queries is None else {"queries": queries}
        with whole_file(file) as stream:
            np.savez(stream, **whole)  # type: ignore[arg-type]
        return whole


def attended(states: Tensor, mask: Tensor, queries: np.ndarray) -> Tensor:
    """The embeddings (F, B, D) of attention by F queries (F, D)."""
    pool, of_folds = Attention(states.shape[-1], False), torch.from_numpy(queries).to(states)
    pooled = (functional_call(pool, {"query": query}, (states, mask))[0] for query in of_folds)
    return torch.stack([*pooled])


def learnt_query(
    stored: Ragged, labels: Any, train: np.ndarray, class_weight: str | None
) -> np.ndarray:
    """The query (D,) of attention with which a logistic regression learns best from the texts with
    these numbers; it starts as the mean of the states."""
    flat, D = stored.flat, stored.flat.shape[1]
    classes, targets = np.unique(labels, return_inverse=True)
    weight = compute_class_weight(class_weight, classes=classes, y=np.asarray(labels))
    scale = float(flat[:1_000].float().std())
    with seeded(0):
        pool, head = Attention(D, False), nn.Linear(D, len(classes))
        nn.init.zeros_(pool.query)
        adam = torch.optim.Adam([*pool.parameters(), *head.parameters()], 0.01)
        loss_of = nn.CrossEntropyLoss(torch.from_numpy(weight).float())
        generator, rows = torch.Generator().manual_seed(0), torch.from_numpy(train)
        for _ in range(EPOCHS):
            for some in training_batches(stored.lengths[rows], 32, generator):
                places, is_there, _, texts = stored.places(rows[some])
                logits = head(pool(flat[places].float() / scale, is_there)[0])
                adam.zero_grad()
                loss_of(logits, torch.from_numpy(targets)[texts]).backward()
                adam.step()
    return (pool.query.detach() / scale).numpy()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings and progress bars of transformers, which come back afterwards."""
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def load_encoder(name: str, poolings: Sequence[str], device: str = "cpu") -> FrozenEncoder:
    """An encoder by the name of a folder or in the cache. Raises `InputError` for one that is not
    there, cannot be read, or lacks what a pooling needs."""
    for pooling in poolings:
        check_known("pooling", pooling, NAMES)
    folder, kinds = encoder_folder(name), list[str]()
    with suppress(OSError, ValueError):
        kinds = [part["type"] for part in json.loads((folder / "modules.json").read_text("utf-8"))]
    # our own module counts as foreign there, and is installed: nothing of the folder is run
    ours = all(kind == OURS or kind.startswith("sentence_transformers.") for kind in kinds)
    configs = (file.read_text("utf-8", "replace") for file in folder.rglob("*config*.json"))
    code = next(folder.rglob("*.py"), None) or any("auto_map" in config for config in configs)
    trusted = OURS in kinds and ours and not code
    options: Any = {"local_files_only": True, "trust_remote_code": trusted, "device": device}
    try:
        with _quiet():
            model: Any = SentenceTransformer(str(folder), **options)
        model.eval().requires_grad_(False)
    except Exception as error:  # each kind of file has errors of its own
        why = f"cannot be read: {error!s:.300}"
        if "trust_remote_code" in str(error):
            why = "needs its own code (trust_remote_code), which is never run; choose another"
        raise InputError(f"encoder {name!r} {why}") from None
    tokenizer: Any = getattr(model[0], "tokenizer", None)
    has_states = isinstance(model[0], Transformer) and tokenizer is not None
    check(has_states, f"encoder {name!r} has no state for each word piece; choose a transformer")
    if tokenizer.pad_token is None:
        lacks = f"encoder {name!r} has no padding token, nor one that ends a text"
        check(tokenizer.eos_token, f"{lacks}; set tokenizer.pad_token and save it")
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    config = model[0].model.config
    limits = tokenizer.model_max_length, getattr(config, "max_position_embeddings", 0)
    for part in model[0].model.modules():
        places: Any = getattr(part, "position_embeddings", None)
        if getattr(places, "padding_idx", None) is not None:  # RoBERTa's begin behind padding's
            limits = limits[0], places.num_embeddings - places.padding_idx - 1
    longest = min([limit for limit in limits if limit and 0 < limit < 1e6], default=8_192)
    prompt = model.prompts.get(model.default_prompt_name) or ""
    marks = tokenizer(prompt or "a", return_special_tokens_mask=True)
    special, first = marks["special_tokens_mask"], marks["input_ids"][0]
    after = special[::-1].index(0)
    before = len(special) - after if prompt else special.index(0)
    has_cls = first == tokenizer.cls_token_id
    lacks = f"encoder {name!r} begins no text with [CLS]; leave out the pooling cls"
    check(has_cls or "cls" not in poolings, lacks)
    chosen = tuple(dict.fromkeys(poolings)) or tuple(
        pooling for pooling in NAMES if has_cls or pooling != "cls"
    )
    short = "/".join(Path(name).parts[-2:]) or folder.resolve().name  # of a folder
    return FrozenEncoder(short, model, longest, fingerprint(folder), chosen, prompt, before, after)
