"""What the figures and tables of "Sequence labelling" show, and which runs they rest on.

``runs`` are rows of `Store.rows`, behind `arranged` as that gives them.
"""

from dataclasses import fields
from typing import Any

import pandas as pd

from whenpool.base.errors import InputError
from whenpool.base.files import Columns, checked_table
from whenpool.base.paths import project_root
from whenpool.book.report.accuracies import NOTHING_YET, spread
from whenpool.book.report.tables import corpus_name
from whenpool.book.report.verdicts import column, has, of_one_kind
from whenpool.corpora.tagged import convert, entity_scores
from whenpool.corpora.tagged.sources import PUBLISHED
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.plans.chapters import LARGE_TAGGERS, SMALL_TAGGERS

COMPARED = ("corpus", "seed", "cell", "bidirectional", "encoding", "vectors")
"""What runs of one size differ in."""
RESULTS = (
    "key", "test_accuracy", "test_loss", "best_epoch", "classes", "corpus_complete", "entities",
    "train_texts", "vocabulary", "parameters", "majority_accuracy", "lexicon_accuracy", "unseen_words",
    "unseen_accuracy", "test_words", "later_words", "later_accuracy", "entity_precision",
    "entity_recall", "entity_f1",
    "entities_true", "entities_predicted", "entities_right", "entities_boundary", "entities_mistyped",
    "entities_spurious", "entities_missed", "gradient_evenness", "gradient_reach", "seconds",
    "finished", "device", "torch", "commit",
)  # fmt: skip
READS = {True: "both directions", False: "left to right"}
"""What figures call taggers that read both ways, and others."""
SLIDE = {
    "Fred": "B-PER", "showed": "O", "Sue": "B-PER", "Mengqiu": "B-PER", "Huang": "I-PER", "'s": "O",
    "new": "O", "painting": "O",
}  # fmt: skip
"""The slides' example of encodings, in IOB2: three people, of whom the last two touch."""
NAMES = {"ud_ewt": "UD English EWT", "wnut17": "WNUT 2017"}
ENCODING_NAMES = {"io": "IO", "iob1": "IOB1", "iob2": "IOB2"}
MEASURES = {
    "test_accuracy": "words", "unseen_accuracy": "unseen words", "entity_precision": "precision",
    "entity_recall": "recall", "entity_f1": "F1",
}  # fmt: skip
"""What tables show of a run, in %, and what it is called."""
BASELINES = {
    "majority_accuracy": "always the most frequent tag",
    "lexicon_accuracy": "each word's most frequent tag",
}
ERRORS = {
    "right": "right", "boundary": "other borders", "mistyped": "another type", "spurious": "no entity",
}  # fmt: skip
"""What an entity that was found can be, and what tables call it."""
_CELLS = {"lstm": "LSTM", "gru": "GRU", "elman": "Elman"}
_TAGGER = ["cell", "hidden_size", "one_way", "encoding"]
_PUBLISHED = Columns(
    frozenset("corpus source system measure value cite differs".split()), numbers=frozenset(["value"])
)


def arranged(runs: pd.DataFrame) -> pd.DataFrame:
    """Some runs by corpus, cell, encoding and seed, both directions before one; ``size`` is the number
    of training sentences, as training texts are elsewhere, and what a record is too old to tell is
    empty."""
    names = (*(field.name for field in fields(Tagging)), *RESULTS)
    runs = runs.assign(**{name: column(runs, name) for name in names if name not in runs})
    runs = runs.assign(size=runs["train_texts"], one_way=~runs["bidirectional"].eq(True))
    order = ["corpus", "hidden_size", "cell", "encoding", "one_way", "seed"]
    return runs.sort_values(order, na_position="first", kind="stable", ignore_index=True)


def of_record(runs: pd.DataFrame) -> pd.Series:
    """Which runs are of record, whatever their size."""
    return _by(runs, {}) | _by(runs, LARGE_TAGGERS)


def on_record(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that decide claims, from one kind of vectors, each seed once."""
    if runs.empty:
        return arranged(runs)
    own = of_one_kind(arranged(runs[_by(runs, {})]))
    return own.drop_duplicates([name for name in COMPARED if name != "vectors"], keep="last")


def _by(runs: pd.DataFrame, more: dict[str, Any]) -> pd.Series:
    """Which runs on whole published corpora have their settings, apart from what is compared."""
    usual = {field.name: field.default for field in fields(Tagging) if field.name not in COMPARED}
    found = pd.Series(False, index=runs.index)
    for corpus in PUBLISHED:
        given = {name: value for name, value in (SMALL_TAGGERS[corpus] | more).items() if name in usual}
        found |= has(runs, usual | given | {"corpus": corpus, "corpus_complete": True})
    return found & runs["vectors"].notna()


def model_name(cell: str, bidirectional: bool) -> str:
    """What a page calls a tagger."""
    return f"{_CELLS.get(cell, cell)}, {READS[bidirectional]}"


def _title(cell: str, one_way: bool, encoding: str, size: str = "") -> str:
    return model_name(cell, not one_way) + size + (f", {ENCODING_NAMES[encoding]}" if encoding else "")


def task_name(corpus: str) -> str:
    """What is tagged in the embedded corpus, in a word."""
    return "parts of speech" if "task=pos" in corpus else "entities"


def what_is_tagged(corpus: str) -> str:
    """A corpus as a table names it, with what its tags say."""
    if corpus.startswith("generated"):
        return f"generated sentences, {task_name(corpus)}"
    return NAMES.get(corpus, corpus_name(corpus))


# figures


def later_words(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracy on the words whose tag only a later word decides, and on all others.

    Args:
        runs: from `arranged`; those with such words count, and none that were trained in another encoding
            than the file's.

    Returns:
        Columns ``tagger``, ``reads``, ``seed``, ``words`` and ``accuracy``.
    """
    runs = runs[runs["later_accuracy"].notna() & runs["encoding"].isna()]
    share = runs["later_words"] / runs["test_words"]
    others = (runs["test_accuracy"] - share * runs["later_accuracy"]) / (1 - share)
    ways = runs["bidirectional"].eq(True)
    taggers = [
        f"{task_name(corpus)}: {model_name(cell, way)}"
        for corpus, cell, way in zip(runs["corpus"], runs["cell"], ways, strict=True)
    ]
    shown = runs[["seed"]].assign(tagger=taggers, reads=ways.map(READS))
    told = {"decided by a later word": runs["later_accuracy"], "all other words": others}
    return shown.assign(**told).melt(
        ["tagger", "reads", "seed"], var_name="words", value_name="accuracy"
    )


def along_sentences(points: pd.DataFrame) -> pd.DataFrame:
    """Gradients along sentences: of the sum of all words' losses, and of the middle word's; the mean
    over runs.

    Args:
        points: rows of `Store.tagging_gradients` with a column ``bidirectional``.

    Returns:
        Columns ``reads``, ``stage``, ``place`` (from 0 to 1), ``loss`` and ``gradient``, empty where
        nothing flows.
    """
    if points.empty:
        return points
    losses = {"mean": "every word's loss", "single": "the middle word's loss"}
    told = points.assign(reads=points["bidirectional"].eq(True).map(READS)).rename(columns=losses)
    names = list(losses.values())
    means = told.groupby(["reads", "stage", "position"])[names].mean().reset_index()
    longest = means.groupby(["reads", "stage"])["position"].transform("max").clip(lower=1)
    means = means.assign(place=means["position"] / longest)
    lines = means.melt(["reads", "stage", "place"], names, "loss", "gradient")
    return lines.assign(gradient=lines["gradient"].where(lines["gradient"] > 0))


# tables


def encodings_table() -> pd.DataFrame:
    """The slides' example in each encoding, converted now."""
    found = {title: convert(list(SLIDE.values()), name) for name, title in ENCODING_NAMES.items()}
    shown = {"IO, as the slides write it": [tag.removeprefix("I-") for tag in found["IO"]]}
    return pd.DataFrame({"word": list(SLIDE)} | shown | found)


def bank_table() -> pd.DataFrame:
    """What three taggers score on a text with two entities, one of which they find, cut short, or leave
    out; by seqeval, now."""
    bank, other = ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O", "O"], ["B-PER", "O", "O"]
    said = {
        "First Bank of Chicago": bank,
        "Bank of Chicago": ["O", "B-ORG", "I-ORG", "I-ORG", "O", "O"],
        "nothing": ["O"] * len(bank),
    }
    rows = []
    for selected, tags in said.items():
        found = entity_scores([bank, other], [tags, other])
        right = len(other) + sum(a == b for a, b in zip(bank, tags, strict=True))
        row = {"selected": selected, "words right": f"{right} of {len(bank) + len(other)}"}
        row |= {"fp": str(found.predicted - found.right), "fn": str(found.true - found.right)}
        scores = {"precision": found.precision, "recall": found.recall, "F1": found.f1}
        rows.append(row | {name: f"{score:.0f}" for name, score in scores.items()})
    return pd.DataFrame(rows)


def results_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracy over words and scores of entities of each model, mean ± deviation (seeds), below what
    needs no network. Of precision and recall the mean alone, so that the table stays narrow."""
    if runs.empty:
        return NOTHING_YET
    rows: list[dict[str, str]] = []
    for corpus, own in runs.groupby("corpus", sort=False):
        rows.append({"tagger": f"**{what_is_tagged(corpus)}**"})
        rows += [
            {"tagger": title, "words": f"{own[name].mean():.1f}"} for name, title in BASELINES.items()
        ]
        sized = own["hidden_size"].nunique() > 1
        for (cell, units, one_way, encoding), part in _taggers(own):
            size = f", {int(units)} units" if sized else ""
            row = {"tagger": _title(cell, one_way, encoding, size)}
            for name, text in MEASURES.items():
                values = part[name].dropna().astype(float)
                narrow = name in ("entity_precision", "entity_recall")
                if len(values):
                    row[text] = f"{values.mean():.1f}" if narrow else spread(values)
            rows.append(row)
    frame = pd.DataFrame(rows).fillna("")
    return frame[[name for name in frame if frame[name].ne("").any()]]


def errors_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Of the entities that taggers find, how many are right, and what is wrong with the others: the mean
    over seeds, in % of those found; missed ones in % of those there are."""
    runs = runs[runs["entities_predicted"].fillna(0) > 0]
    if runs.empty:
        return NOTHING_YET
    rows = []
    for corpus, own in runs.groupby("corpus", sort=False):
        name = what_is_tagged(corpus)
        for (cell, _, one_way, encoding), part in _taggers(own):
            row = {"": name, "tagger": _title(cell, one_way, encoding)}
            predicted = part["entities_predicted"]
            row["found"] = f"{predicted.mean():,.0f}"
            shares = {text: part[f"entities_{kind}"] / predicted for kind, text in ERRORS.items()}
            shares["missed"] = part["entities_missed"] / part["entities_true"]
            rows.append(row | {text: f"{100 * share.mean():.0f} %" for text, share in shares.items()})
            name = ""
    return pd.DataFrame(rows)


def _taggers(runs: pd.DataFrame) -> Any:
    """The runs of each tagger; a tagger that was trained in the encoding of its file has none."""
    return runs.assign(encoding=runs["encoding"].fillna("")).groupby(_TAGGER, sort=False)


def published_table(runs: pd.DataFrame) -> pd.DataFrame:
    """What others report, beside our taggers that read both ways.

    Args:
        runs: from `on_record`.

    Raises:
        InputError: outside a clone of the book.
    """
    root = project_root()
    if root is None:
        raise InputError("published numbers are in the clone of the book: run this inside it")
    table = checked_table(root / "data" / "paper" / "tagging.csv", "published numbers", _PUBLISHED)
    both = runs[runs["bidirectional"].eq(True) & runs["encoding"].isna()]
    rows = []
    for corpus, theirs in table.groupby("corpus", sort=False):
        measure = theirs["measure"].iloc[0]
        ours = both.loc[both["corpus"] == corpus, measure].dropna().astype(float)
        head = f"{NAMES[corpus]}, {'F1' if measure == 'entity_f1' else 'accuracy'}: **ours**"
        rows.append(
            {"tagger": head, "%": spread(ours) if len(ours) else "not run yet", "what differs": ""}
        )
        for row in theirs.itertuples():
            name = f"{row.system} {{cite:p}}`{row.cite}`, {row.source}"
            rows.append({"tagger": name, "%": f"{row.value:g}", "what differs": row.differs})
    return pd.DataFrame(rows)
