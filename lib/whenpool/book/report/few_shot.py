"""What the figures, tables and text of "Learning under limited data" show (thesis §1.10).

``stored`` are rows of `Store.rows`, ``runs`` are such rows as `arranged` gives them.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from whenpool.book.report import accuracies
from whenpool.book.report.accuracies import NOTHING_YET, Heads, beside_thesis, in_order
from whenpool.book.report.figures import COLOURS, TRICK_COLOURS
from whenpool.book.report.provenance import duration
from whenpool.book.report.tables import LEGEND, CaptionedTable, beside, corpus_name
from whenpool.book.report.verdicts import Cell, column, published, verdict_of
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.explain.words import WordStrip, strip
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.probes.protocol import evaluating
from whenpool.runs.kinds.few_shot import (
    CONTRAST,
    READ_BY_ENCODER,
    SYSTEMS,
    UNLABELLED,
    FewShot,
    passes_of,
)
from whenpool.runs.plans.few_shot import PAPER, PAPER_UNLABELLED

PER_CLASS = 10
"""Labelled texts of each class in Table 1.9."""
STEPS = {name: settings.get("steps", FewShot.steps) for name, settings in PAPER.items()}
CORPORA = ("yahoo", "imdb")
NAMES = {
    "vampire": "VAMPIRE",
    "bert": "Fine-tuning (BERT)",
    "tmix": "TMix",
    "max_attention": "MaxAtt",
    "uda": "UDA",
    "mixtext": "MixText",
    "last_words": "BiLSTM, word vectors",
    "max_attention_words": "MaxAtt, word vectors",
}
"""How each system is called, in the order of Table 1.9; then those for contrast."""
GROUPS = {"rival": ("vampire", "bert", "tmix"), "semi": ("uda", "mixtext"), "all": SYSTEMS}
"""What the text holds MaxAtt against: what the thesis counts, beside it, among those without unlabelled
data, what reads unlabelled texts, and all."""
GIVEN = (
    "Unlabelled: the texts in the pool, and how many of them the steps come to at most. Tokens: words, "
    "where there is no encoder. Looks: at the validation texts; the best is tested. Cut: test texts "
    "longer than what is read of them. Parameters: those that labels train, and those of the pretrained "
    "encoder, which MaxAtt leaves as they are. Time: the mean of a seed, all of it."
)
"""What `given_table` shows."""
_UNLABELLED_TEXT = {"vampire": "in pretraining", "uda": "yes", "mixtext": "yes"}
_CORPORA = {"imdb": "IMDb", "yahoo": "Yahoo", "synthetic": "The embedded corpus"}
_HEADS: Heads = {
    "system": lambda name: NAMES.get(name, name),
    "per_class": lambda count: f"{count} per class",
    "corpus": lambda name: _CORPORA.get(name, name),
}
_COLUMNS = (
    "key", *(field.name for field in fields(FewShot)), "test_accuracy", "majority_accuracy",
    "corpus_complete", "classes", "labelled_texts", "unlabelled_texts", "unlabelled_read",
    "validation_texts", "test_texts", "test_cut", "tokens_read", "steps_done", "parameters",
    "encoder_parameters", "seconds", "finished", "device", "torch", "commit",
)  # fmt: skip


def arranged(runs: pd.DataFrame) -> pd.DataFrame:
    """Some runs in the order of Table 1.9, then by labels and seed. ``size`` is the number of labelled
    texts, as training texts are elsewhere, ``encoder`` is empty where a system reads without one, and so is
    what a record is too old to tell."""
    runs = runs.assign(**{name: column(runs, name) for name in _COLUMNS if name not in runs})
    encoders = runs["encoder"].where(runs["system"].isin(READ_BY_ENCODER), None)
    runs = runs.assign(size=runs["labelled_texts"], encoder=encoders)
    return in_order(runs.sort_values(["per_class", "seed"], kind="stable"), system=NAMES)


# which runs are shown


def follows_thesis(runs: pd.DataFrame) -> pd.Series:
    """Which runs are of Table 1.9's kind, whatever their number of labels."""
    system = runs["system"]
    encoder = ~system.isin(READ_BY_ENCODER) | (runs["encoder"] == DEFAULT_ENCODER)
    tokens = runs["max_tokens"] >= system.eq("max_attention").map({True: 512, False: 256})
    enough = runs["unlabelled_texts"] >= PAPER_UNLABELLED * runs["classes"]
    pool = ~system.isin(UNLABELLED) | enough
    steps = runs["steps"] >= system.map(STEPS)
    units = (system != "max_attention") | (runs["hidden_size"] == FewShot.hidden_size)
    return on_whole_corpus(runs) & runs["test"].isna() & encoder & tokens & pool & steps & units


def on_whole_corpus(runs: pd.DataFrame) -> pd.Series:
    """Which runs are on a whole corpus of Table 1.9, texts of any length."""
    whole = runs["corpus_complete"].eq(True) & (runs["length"] == "any")
    return whole & runs["corpus"].isin(CORPORA)


def on_record(stored: pd.DataFrame, corpus: str = "imdb") -> pd.DataFrame:
    """What is shown of a whole corpus: the runs with the encoder that the most runs have, of each system
    and number of labels one configuration."""
    runs = arranged(stored)
    runs = runs[on_whole_corpus(runs) & (runs["corpus"] == corpus)]
    encoder = runs["encoder"].mode().get(0, MINILM)
    runs = runs[runs["encoder"].isna() | (runs["encoder"] == encoder)]
    return one_configuration(runs, ["system", "per_class"])


def one_configuration(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """In each group of some runs those of one configuration: that with the most seeds, then the most
    test texts, then the most steps; each seed once."""
    if runs.empty:
        return runs
    return pd.concat([_fullest(own) for _, own in runs.groupby(list(by), sort=False, dropna=False)])


def _fullest(runs: pd.DataFrame) -> pd.DataFrame:
    varied = [field.name for field in fields(FewShot) if field.name != "seed"]
    _, largest = max(
        runs.groupby(varied, dropna=False, sort=False),
        key=lambda group: (
            group[1]["seed"].nunique(),
            group[1]["test_texts"].max(),
            group[1]["steps"].max(),
        ),
    )
    return largest.drop_duplicates("seed", keep="last")


# tables


def judge_few_shot(ours: pd.DataFrame, number: float) -> Cell:
    """The verdict on one cell of Table 1.9.

    Args:
        ours: from `arranged`, of the cell's corpus and system.
        number: the cell's, in %.
    """
    ours = ours[(ours["per_class"] == PER_CLASS) & (ours["length"] == "any")]
    if ours.empty:
        return Cell(np.nan, np.nan, 0, "not run")
    thesis, whole = follows_thesis(ours), ours["corpus_complete"].eq(True)
    used = _fullest(next((ours[kind] for kind in (thesis, whole) if kind.any()), ours))
    values = used["test_accuracy"]
    verdict = verdict_of(values.tolist(), number, 0.0) if thesis.any() else "pilot"
    return Cell(values.mean(), values.std(ddof=1), len(used), verdict, tuple(used["key"]))


def thesis_cells(stored: pd.DataFrame) -> pd.DataFrame:
    """The cells of Table 1.9 with ours and verdicts."""
    numbers = published("few_shot").rename(columns={"model": "system", "accuracy": "mean"})
    runs, cells = arranged(stored), []
    for _, row in numbers.iterrows():
        own = runs[(runs["corpus"] == row["corpus"]) & (runs["system"] == row["system"])]
        cells.append(judge_few_shot(own, row["mean"]))
    return beside(numbers.assign(std=float("nan")), cells)


def thesis_table(stored: pd.DataFrame) -> CaptionedTable:
    """Table 1.9 with ours beside, what ours are below."""
    cells, runs = thesis_cells(stored), arranged(stored)
    shown = runs[runs["key"].isin(cells["keys"].explode())]
    read = cells["system"].map(_UNLABELLED_TEXT).fillna("no")
    return beside_thesis(
        cells.assign(**{"unlabelled text": read}), runs, ["system", "unlabelled text"], ["corpus"],
        "Table 1.9 of the thesis, 10 labelled texts of each class: test accuracy in %.",
        "tab-thesis-1-9", _HEADS,
        " ".join([LEGEND, *(what_it_is(part) for _, part in shown.groupby("corpus"))]),
    )  # fmt: skip


def accuracy_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy of each system (rows) by labelled texts of each class, and by corpus where there are
    several (columns): mean ± deviation (seeds), and that of guessing."""
    columns = ["corpus", "per_class"] if runs["corpus"].nunique() > 1 else ["per_class"]
    return accuracies.accuracy_table(runs, ["system"], columns, _HEADS)


def given_table(runs: pd.DataFrame) -> pd.DataFrame:
    """What each system was given: texts, steps, parameters and time, the mean over seeds."""
    if runs.empty:
        return NOTHING_YET
    rows = []
    for system, own in runs.groupby("system", sort=False):
        row = own.iloc[-1]
        pool, read = (int(own[name].max()) for name in ("unlabelled_texts", "unlabelled_read"))
        options: Any = {name: int(row[name]) for name in ("steps", "looks", "batch_size")}
        looks = passes_of(FewShot(row["corpus"], system, **options), int(row["labelled_texts"]))[0]
        tokens = row["tokens_read"]
        rows.append(
            {
                "": NAMES[system],
                "read by": _reader(row),
                "labelled": f"{row['labelled_texts']:,.0f}",
                "unlabelled: pool, read": f"{pool:,}, {read:,}" if pool else "none",
                "tokens a text": "all" if pd.isna(tokens) else f"{tokens:,.0f}",
                "test texts cut": f"{100 * own['test_cut'].sum() / own['test_texts'].sum():.0f} %",
                "steps, looks": f"{row['steps_done']:,.0f}, {looks}",
                "parameters: trained, encoder's": f"{_size(row['parameters'])}, "
                + _size(row["encoder_parameters"]),
                "time": duration(own["seconds"].mean()),
            }
        )
    return pd.DataFrame(rows)


def what_it_is(runs: pd.DataFrame) -> str:
    """What the runs of one corpus read and were tested on, a sentence for below a table."""
    if runs.empty:
        return ""
    corpora = dict.fromkeys(str(name).split(":")[0] for name in runs["corpus"])
    own = {name: _span(runs[name]) for name in ("labelled_texts", "validation_texts", "test_texts")}
    tokens = runs["tokens_read"].dropna()
    part = not runs["corpus_complete"].eq(True).all()
    return (
        f"{', '.join(_CORPORA.get(name, corpus_name(name)) for name in corpora)}: "
        f"{own['labelled_texts']} labelled, {own['validation_texts']} validation and {own['test_texts']} "
        f"test texts; {f'texts cut at {_span(tokens)} tokens' if len(tokens) else 'whole texts'}; "
        f"{_span(runs['steps_done'])} steps"
        + ("; not the thesis's corpus, a stand-in or a part." if part else ".")
    )


def _reader(run: pd.Series) -> str:
    """What turns the words of a run into vectors: its encoder, word vectors, or a bag of words."""
    if isinstance(run["encoder"], str):
        return Path(run["encoder"]).name
    if run["system"] == "vampire":
        return "bag of words"
    return run["vectors"] if isinstance(run["vectors"], str) else "random word vectors"


def _size(count: float) -> str:
    """22713216 -> 22.7M."""
    number = 0 if pd.isna(count) else int(count)
    if number >= 100_000:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.0f}K" if number >= 1000 else str(number)


def _span(values: pd.Series) -> str:
    """One number, or the lowest to the highest."""
    return " to ".join(dict.fromkeys(f"{int(end):,}" for end in (values.min(), values.max())))


# what the text says


def facts(runs: pd.DataFrame) -> dict[str, str]:
    """What the text says of some runs: what they are, how systems stand with ten labelled texts of each
    class, see `standing`, and with how many numbers of labels MaxAtt is ahead of its rivals."""
    own = runs[runs["per_class"] == PER_CLASS]
    by_system = own.groupby("system")["test_accuracy"]
    deviations = by_system.std(ddof=1).dropna()
    means = runs.pivot_table("test_accuracy", "per_class", "system")
    means = means.reindex(columns=["max_attention", *GROUPS["rival"]]).dropna(how="all", axis=1)
    compared = means.dropna() if "max_attention" in means and means.shape[1] > 1 else means.head(0)
    ahead = compared.idxmax(axis=1).eq("max_attention") if len(compared) else compared
    return {
        **standing(by_system.mean(), "few"),
        "few_title": what_it_is(own) or "not run yet.",
        "few_seeds": str(own["seed"].nunique()),
        "few_spread": f"{deviations.min():.1f} to {deviations.max():.1f}"
        if len(deviations)
        else "unknown",
        "few_ahead": f"{int(ahead.sum())} of {len(ahead)}" if len(compared) else "none of none",
    }


def thesis_facts() -> dict[str, str]:
    """How systems stand in Table 1.9, see `standing`, by corpus."""
    numbers = published("few_shot").set_index(["corpus", "model"])["accuracy"]
    return {k: v for corpus in CORPORA for k, v in standing(numbers[corpus], f"thesis_{corpus}").items()}


def standing(means: pd.Series, prefix: str) -> dict[str, str]:
    """The accuracy of MaxAtt, the best of each of `GROUPS` with its name, the points of MaxAtt above it and
    above MaxAtt on word vectors, and all in order.

    Args:
        means: accuracies in %, by system.
        prefix: what the names of these facts begin with.
    """
    known = means[means.index.isin(SYSTEMS)].sort_values(ascending=False, kind="stable")
    ordered = [f"{NAMES[name]} {value:.1f}" for name, value in known.items()]
    ours, words = means.get("max_attention"), means.get("max_attention_words")
    found = {"order": ", ".join(ordered) or "none", "max_attention": _percent(ours)}
    found["above_words"] = _points(ours, words)
    for what, systems in GROUPS.items():
        best = known[known.index.isin(systems)].head(1)
        value = best.iloc[0] if len(best) else None
        found |= {what: _percent(value), f"above_{what}": _points(ours, value)}
        found[f"{what}_name"] = NAMES[best.index[0]] if len(best) else "none"
    return {f"{prefix}_{name}": text for name, text in found.items()}


def _percent(value: float | None) -> str:
    return "not run" if value is None else f"{value:.1f}"


def _points(value: float | None, other: float | None) -> str:
    return "not run" if value is None or other is None else f"{value - other:+.1f}".replace("-", "−")


# figures

_LOOKS = {
    "vampire": (TRICK_COLOURS["gradient_directed"], "p"),
    "bert": (TRICK_COLOURS["teacher_forcing"], "s"),
    "tmix": (COLOURS["attention"], "D"),
    "max_attention": (COLOURS["max_attention"], "o"),
    "uda": (COLOURS["max"], "^"),
    "mixtext": (COLOURS["last_attention"], "v"),
    "last_words": (COLOURS["last"], "s"),
    "max_attention_words": (COLOURS["max_attention"], "o"),
}
PALETTE = {title: _LOOKS[name][0] for name, title in NAMES.items()}
"""A colour for each system, by what figures call it: max-attention and the BiLSTM as in the whole book."""
SHAPES = {title: _LOOKS[name][1] for name, title in NAMES.items()}
DASHES = {title: (4, 1.5) if name in CONTRAST else "" for name, title in NAMES.items()}
"""Dashed on word vectors."""
PANELS = {
    "no unlabelled texts": [name for name in NAMES if name not in UNLABELLED],
    "with unlabelled texts": [*UNLABELLED, "max_attention"],
}
"""What is compared in each panel; MaxAtt stands in both."""


def named(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the first corpus with ``system`` as figures call and order them."""
    own = runs[runs["corpus"] == runs["corpus"].iloc[0]] if len(runs) else runs
    titles = pd.Categorical(own["system"].map(NAMES), list(NAMES.values()))
    return own.assign(system=titles.remove_unused_categories())


def in_panels(runs: pd.DataFrame) -> pd.DataFrame:
    """The same with a column ``panel``, once for each of `PANELS` that a system is in."""
    rows = named(runs)
    of_panel = {title: [NAMES[name] for name in systems] for title, systems in PANELS.items()}
    parts = [rows[rows["system"].isin(names)].assign(panel=title) for title, names in of_panel.items()]
    return pd.concat(parts, ignore_index=True)


# where max-attention looks

SHORTEST = 15
"""Word pieces of a text that is shown."""
CLASSES = 4
"""Texts shown at most, one of each class."""
_BEGINS = ("Ġ", "▁")


def chosen(lengths: Tensor, labels: Tensor) -> list[int]:
    """Which texts are shown: of each of the first classes the shortest one of `SHORTEST` word pieces or
    more, the first among equals. -> their numbers, in the order of the classes."""
    found = []
    for label in labels.unique().tolist()[:CLASSES]:
        own = ((labels == label) & (lengths >= SHORTEST)).nonzero().flatten()
        found += [int(own[lengths[own].argmin()])] if len(own) else []
    return found


def whole_words(pieces: Sequence[str], weights: Sequence[float]) -> tuple[list[str], list[float]]:
    """Word pieces put together to words, their weights added. Special tokens stay as they are: the model
    reads them, and attends to them.

    Args:
        pieces: tokens of a text, those inside a word marked by "##", or those that begin one by "Ġ" or
            "▁".
        weights: one for each.
    """
    by_beginning = any(piece.startswith(_BEGINS) for piece in pieces)
    words: list[str] = []
    sums: list[float] = []
    after_special = True
    for piece, weight in zip(pieces, weights, strict=True):
        special = piece[:1] + piece[-1:] in ("[]", "<>") and len(piece) > 2
        goes_on = not piece.startswith(_BEGINS) if by_beginning else piece.startswith("##")
        if goes_on and not (special or after_special):
            words[-1] += piece.removeprefix("##")
            sums[-1] += weight
        else:
            words.append(piece.lstrip("".join(_BEGINS)) or piece)
            sums.append(weight)
        after_special = special
    return words, sums


@torch.inference_mode()
def attention_strips(shown: Any) -> list[WordStrip]:
    """A strip for some test texts: the attention of max-attention on their words, and in the title the
    right class, with a cross where the model takes it for another."""
    if shown is None:
        return []
    found, texts, model = [], shown.texts, shown.model
    for number in chosen(texts.ids.lengths, texts.labels):
        batch, label = texts.batch(torch.tensor([number]), PADDING_INDEX), int(texts.labels[number])
        with evaluating(model):
            states = model.encode(model.embed(batch.ids), batch.lengths)
            weights = model.pool(states, batch.lengths)[1][0].tolist()
            right = int(model.classify(states, batch.lengths).argmax()) == label
        title = f"{shown.classes[label]} {'✓' if right else '✗'}"
        found.append(strip(*whole_words(shown.tokens[number], weights), title))
    return found
