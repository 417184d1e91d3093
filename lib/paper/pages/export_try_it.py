"""Writes the models of the page "Try it" from stored runs, in the form of
``lib/paper/pages/try_it.py``: what `whenpool export` does."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paper.pages.try_it import FILES, FOLDER, LARGEST, MIDDLE, OnPage, on_page, read_model
from paper.runs.kinds.training import Training, prepare, trained
from paper.runs.plans import COMPACT, COMPACT_TEST
from paper.runs.run import Facts, Place, key
from whenpool.base.files import hash_of, write_atomically
from whenpool.corpora.batches import UNKNOWN_INDEX, Texts
from whenpool.corpora.tokens import VECTORS
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.word_importance import window_importance
from whenpool.settings import compose
from whenpool.training.loop import evaluate

POOLINGS = ("last", "mean", "max", "attention", "max_attention")  # those that model.js computes
WORDS = 8_000
SEED = 2
"""Of five seeds the one from which the BiLSTM learnt most: the page is about what hides opinions
from it."""
RANKS = {"standard": 2, "mid": 5}
"""In how many directions word vectors may change, by setting: among filler they change in more."""
PERCENT = 70  # Of filler around the review, which is in the middle, as the page opens


def chosen_runs(setting: str = "standard") -> dict[str, Training]:
    """The trainings that the page has in a setting, by the name that it calls them by."""
    compact = COMPACT | {"test": COMPACT_TEST["imdb"], "vectors": VECTORS[0]}
    base = Training("imdb", setting, 1_000, "last", SEED, **compact)
    runs = {name: replace(base, pooling=name) for name in POOLINGS}
    return runs | {"chrono": replace(base, forget_bias="chrono")}


def export(
    runs: dict[str, Training],
    place: Place,
    file: Path,
    setting: str = "standard",
    words: int = WORDS,
    say: Callable[[str], None] = print,
) -> None:
    """Write the models of some trainings on the same texts, before and after training, with the
    accuracy of the stored run, and of what is written, in which all but the most frequent ``words``
    are unknown."""
    content: Facts = {"matrices": {}, "models": {}}

    def shared(matrix: Tensor) -> str:
        """The name under which a matrix is in the file; equal ones of different models are there
        once."""
        packed = pack(matrix)
        name = hash_of(packed["values"], str(packed["scales"]))[:8]
        content["matrices"][name] = packed
        return name

    def written(model: TextClassifier, first: Tensor) -> Facts:
        weights = {name: value.detach() for name, value in model.named_parameters()}
        change = weights.pop("embedding.weight")[: len(first)] - first  # (V, E)
        state = {  # of up to 1,000 values as numbers
            name: shared(value) if value.numel() > 1_000 else _numbers(value)
            for name, value in weights.items()
        }
        if not bool(change.any()):
            return {"state": state}
        U, S, W = torch.linalg.svd(change, full_matrices=False)
        rank = RANKS[setting]
        along, ways = (U[:, :rank] * S[:rank]).t(), W[:rank]  # (rank, V), (rank, E)
        return {"state": state, "change": [shared(along), shared(ways)]}

    for name, run in runs.items():
        after, before = trained(run, place), prepare(run, place).model
        stored = place.store.get(key(run, place))
        assert stored is not None  # its weights are here
        first = before.embedding.weight.detach()[:words]
        if "words" not in content:
            content["words"] = " ".join(after.dataset.vocabulary[: len(first)])
            content["vectors"] = shared(first)
        for label, model in ((name, after.model), (f"{name} untrained", before)):
            content["models"][label] = written(model, first) | {"pooling": run.pooling}
            content["models"][label]["here"] = accuracy(
                read_model(content, label), after.dataset.test
            )
        facts = {"key": key(run, place), "accuracy": stored["result"]["test_accuracy"]}
        content["models"][name] |= facts
        say(
            "{key}: stored {accuracy:.1f} %, exported {here:.1f} %".format(
                **content["models"][name]
            )
        )
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    write_atomically(file, f"whenpoolTryIt.{FILES[setting][1]} = {body};\n")


def export_page(data: Path | None, store: Path | None, root: Path) -> str:
    """Write into a clone the models that were trained on plain reviews, those trained in filler,
    and what the latter say of the review with which the page opens; returns a line on them."""
    folder = root / FOLDER
    for setting, (name, _) in FILES.items():
        export(chosen_runs(setting), Place.default(data, store), folder / name, setting)
    write_atomically(folder / "first.js", f"whenpoolTryIt.first = {json.dumps(first_answers())};\n")
    return f"The models were written into {folder}"


def first_answers() -> Facts:
    """What the page shows before it has loaded a model: the state in which it opens, and each
    answer. The page opens with the review and the pooled model of the largest `on_opinion`."""
    page = on_page("mid")
    title, pooling = max(
        product(page.reviews, POOLINGS[1:]), key=lambda one: on_opinion(page, *one)
    )
    windows = [round(value, 4) for value in importances(page, title, pooling).tolist()]
    ids = page.ids(_in_filler(page, title))
    answers = {}
    for name, model in page.models.items():
        positive = model(ids, torch.tensor([ids.shape[1]])).softmax(1)[0, 1].item()
        known = {fact: page.facts[name][fact] for fact in ("accuracy", "here")}
        answers[name] = {"positive": round(positive, 4), **known}
    opening = {"set": "filler", "place": "mid", "percent": PERCENT}
    shown = {"title": title, "pooling": pooling, "windows": windows, "answers": answers}
    return opening | shown


def on_opinion(page: OnPage, title: str, name: str) -> float:
    """Which part of the importance that a model finds in a review among filler, above that of the
    least window, lies on windows with a word of the review's opinion."""
    text, windows = _in_filler(page, title), importances(page, title, name)
    above = windows - windows.min()
    opinion = [
        not page.opinions[title].isdisjoint(text[5 * w : 5 * w + 5]) for w in range(len(above))
    ]
    return float(above[opinion].sum() / above.sum())


def importances(page: OnPage, title: str, name: str) -> Tensor:
    """Of each window of five words of a review among filler, (W,)."""
    ids, label = page.ids(_in_filler(page, title)), page.reviews[title][1]
    lengths, labels = torch.tensor([ids.shape[1]]), torch.tensor([label])
    return window_importance(page.models[name], ids, lengths, labels, k=5)[0]


def _in_filler(page: OnPage, title: str) -> list[str]:
    return compose(page.reviews[title][0], cycle(page.filler), "mid", PERCENT / 100)


def accuracy(model: TextClassifier, texts: Texts) -> float:
    """In %, words that the model does not have being unknown."""
    unknown = texts.ids.flat >= model.embedding.num_embeddings
    ids = replace(texts.ids, flat=texts.ids.flat.masked_fill(unknown, UNKNOWN_INDEX))
    return evaluate(model, replace(texts, ids=ids)).accuracy


def pack(matrix: Tensor) -> Facts:
    """(R, C) -> a scale for each row, and a character for each value."""
    scales = _numbers(matrix.abs().amax(1) / LARGEST)
    steps = torch.tensor(scales).clamp(min=torch.finfo(matrix.dtype).tiny).unsqueeze(1)
    values = (matrix / steps).round().clamp(-LARGEST, LARGEST).int()
    text = bytes((values + MIDDLE).flatten().tolist()).replace(b"\\", b"#").decode()
    return {"scales": scales, "values": text}


def _numbers(values: Tensor) -> list[Any]:
    if values.dim() > 1:
        return [_numbers(row) for row in values]
    return [float(f"{value:.4g}") for value in values.tolist()]
