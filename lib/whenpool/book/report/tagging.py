"""What the figures and tables of "Sequence labelling" show, and which runs they rest on."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any
from whenpool.book.report.verdicts import column, of_one_kind
from whenpool.corpora.tagged.sources import PUBLISHED
from whenpool.runs.plans.sequence_labelling import LARGE, SMALL
from whenpool.runs.kinds.tagging import Tagging
from typing import TYPE_CHECKING
from collections.abc import Sequence
from whenpool.base.files import Columns, checked_table
from whenpool.base.errors import InputError
from whenpool.base.paths import project_root
from whenpool.book.report.tables import corpus_name
from whenpool.book.report.tables import mean_text
from whenpool.book.report.verdicts import Cell
from whenpool.corpora.tagged import convert, entity_scores

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from pandas import DataFrame



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


def arranged(runs: "DataFrame") -> "DataFrame":
    """Some runs by corpus, cell, encoding and seed, both directions before one; ``size`` is the number
    of training sentences, as training texts are elsewhere, and what a record is too old to tell is
    empty.

    Args:
        runs: rows of `Store.taggings`.
    """
    names = (*(field.name for field in fields(Tagging)), *RESULTS)
    runs = runs.assign(**{name: column(runs, name) for name in names if name not in runs})
    runs = runs.assign(size=runs["train_texts"], one_way=~runs["bidirectional"].eq(True))
    order = ["corpus", "hidden_size", "cell", "encoding", "one_way", "seed"]
    return runs.sort_values(order, na_position="first", kind="stable", ignore_index=True)


def of_record(runs: "DataFrame") -> "Series":
    """Which runs are of record, whatever their size."""
    return _by(runs, {}) | _by(runs, LARGE)


def on_record(runs: "DataFrame") -> "DataFrame":
    """The runs that decide claims, from one kind of vectors, each seed once."""
    if runs.empty:
        return arranged(runs)
    own = of_one_kind(arranged(runs[_by(runs, {})]))
    return own.drop_duplicates([name for name in COMPARED if name != "vectors"], keep="last")


def _by(runs: "DataFrame", more: dict[str, Any]) -> "Series":
    """Which runs on whole published corpora have their settings, apart from what is compared."""
    import pandas as pd

    found = pd.Series(False, index=runs.index)
    for corpus in PUBLISHED:
        own = (runs["corpus"] == corpus) & runs["corpus_complete"].eq(True) & runs["vectors"].notna()
        settings = SMALL[corpus] | more
        for field in fields(Tagging):
            if field.name not in COMPARED:
                own &= runs[field.name] == settings.get(field.name, field.default)
        found |= own
    return found


READS = {True: "both directions", False: "left to right"}
"""What figures call taggers that read both ways, and others."""


def model_name(cell: str, bidirectional: bool) -> str:
    """What a page calls a tagger."""
    cells = {"lstm": "LSTM", "gru": "GRU", "elman": "Elman"}
    return f"{cells.get(cell, cell)}, {READS[bidirectional]}"


def task_name(corpus: str) -> str:
    """What is tagged in the embedded corpus, in a word."""
    return "parts of speech" if "task=pos" in corpus else "entities"


def later_words(runs: "DataFrame") -> "DataFrame":
    """Accuracy on the words whose tag only a later word decides, and on all others.

    Args:
        runs: from `whenpool.book.report.tagging.arranged`; those with such words count, and none that
            were trained in another encoding than the file's.

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
    shown = shown.assign(
        **{"decided by a later word": runs["later_accuracy"], "all other words": others}
    )
    return shown.melt(["tagger", "reads", "seed"], var_name="words", value_name="accuracy")


def along_sentences(points: "DataFrame") -> "DataFrame":
    """Gradients along sentences: of the sum of all words' losses, and of the middle word's; the mean
    over runs.

    Args:
        points: rows of `Store.tagging_gradients` with a column ``bidirectional``.

    Returns:
        Columns ``reads``, ``stage``, ``place`` (from 0 to 1), ``loss`` and ``gradient``, empty where
        nothing flows.
    """
    told = points.assign(reads=points["bidirectional"].eq(True).map(READS))
    losses = {"mean": "every word's loss", "single": "the middle word's loss"}
    if told.empty:
        return told
    means = told.groupby(["reads", "stage", "position"])[list(losses)].mean().reset_index()
    longest = means.groupby(["reads", "stage"])["position"].transform("max").clip(lower=1)
    means = means.rename(columns=losses).assign(place=means["position"] / longest)
    lines = means.melt(["reads", "stage", "place"], list(losses.values()), "loss", "gradient")
    return lines.assign(gradient=lines["gradient"].where(lines["gradient"] > 0))


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
_PUBLISHED = Columns(
    frozenset("corpus source system measure value cite differs".split()), numbers=frozenset(["value"])
)


def encodings_table() -> "DataFrame":
    """The slides' example in each encoding, converted now."""
    import pandas as pd

    tags = list(SLIDE.values())
    found = {title: convert(tags, name) for name, title in ENCODING_NAMES.items()}
    shown = {"IO, as the slides write it": [tag.removeprefix("I-") for tag in found["IO"]]}
    return pd.DataFrame({"word": list(SLIDE)} | shown | found)


def bank_table() -> "DataFrame":
    """What three taggers score on a text with two entities, one of which they find, cut short, or leave
    out; by seqeval, now."""
    import pandas as pd

    bank, other = ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O", "O"], ["B-PER", "O", "O"]
    said = {
        "First Bank of Chicago": bank,
        "Bank of Chicago": ["O", "B-ORG", "I-ORG", "I-ORG", "O", "O"],
        "nothing": ["O"] * len(bank),
    }
    rows = []
    for what, tags in said.items():
        scores = entity_scores([bank, other], [tags, other])
        right = sum(a == b for a, b in zip([*bank, *other], [*tags, *other], strict=True))
        rows.append(
            {
                "selected": what,
                "words right": f"{right} of {len(bank) + len(other)}",
                "fp": str(scores.predicted - scores.right),
                "fn": str(scores.true - scores.right),
                "precision": f"{scores.precision:.0f}",
                "recall": f"{scores.recall:.0f}",
                "F1": f"{scores.f1:.0f}",
            }
        )
    return pd.DataFrame(rows)


def results_table(runs: "DataFrame") -> "DataFrame":
    """Accuracy over words and scores of entities of each model, mean ± deviation (seeds), below what
    needs no network.

    Args:
        runs: from `whenpool.book.report.tagging.arranged`.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    rows: list[dict[str, str]] = []
    for corpus, own in runs.groupby("corpus", sort=False):
        rows.append({"tagger": f"**{what_is_tagged(str(corpus))}**"})
        for column, title in BASELINES.items():
            rows.append({"tagger": title, "words": f"{own[column].mean():.1f}"})
        keys = ["cell", "hidden_size", "one_way", "encoding"]
        for (cell, units, one_way, encoding), part in own.groupby(keys, sort=False, dropna=False):
            title = model_name(cell, not one_way)
            title += f", {int(units)} units" if own["hidden_size"].nunique() > 1 else ""
            title += f", {ENCODING_NAMES[encoding]}" if isinstance(encoding, str) else ""
            rows.append(
                {"tagger": title} | {text: _shown(part, name) for name, text in MEASURES.items()}
            )
    frame = pd.DataFrame(rows).fillna("")
    return frame[[name for name in frame if frame[name].ne("").any()]]


def errors_table(runs: "DataFrame") -> "DataFrame":
    """Of the entities that taggers find, how many are right, and what is wrong with the others: the mean
    over seeds, in % of those found; missed ones in % of those there are.

    Args:
        runs: from `arranged`.
    """
    import pandas as pd

    runs = runs[runs["entities_predicted"].fillna(0) > 0]
    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    kinds = {
        "right": "right", "boundary": "other borders", "mistyped": "another type",
        "spurious": "no entity",
    }  # fmt: skip
    rows = []
    keys = ["corpus", "cell", "hidden_size", "one_way", "encoding"]
    for (corpus, cell, _, one_way, encoding), part in runs.groupby(keys, sort=False, dropna=False):
        title = model_name(cell, not one_way)
        title += f", {ENCODING_NAMES[encoding]}" if isinstance(encoding, str) else ""
        row = {"": what_is_tagged(str(corpus)), "tagger": title}
        row["found"] = f"{part['entities_predicted'].mean():,.0f}"
        for name, text in kinds.items():
            row[text] = _mean(100 * part[f"entities_{name}"] / part["entities_predicted"])
        row["missed"] = _mean(100 * part["entities_missed"] / part["entities_true"])
        rows.append(row)
    frame = pd.DataFrame(rows)
    frame[""] = frame[""].where(frame[""] != frame[""].shift(), "")
    return frame


def published_table(runs: "DataFrame") -> "DataFrame":
    """What others report, beside our taggers that read both ways.

    Args:
        runs: from `whenpool.book.report.tagging.on_record`.

    Raises:
        InputError: outside a clone of the book.
    """
    import pandas as pd

    root = project_root()
    if root is None:
        raise InputError("published numbers are in the clone of the book: run this inside it")
    table = checked_table(root / "data" / "paper" / "tagging.csv", "published numbers", _PUBLISHED)
    both = runs[runs["bidirectional"].eq(True) & runs["encoding"].isna()] if len(runs) else runs
    rows = []
    for corpus, theirs in table.groupby("corpus", sort=False):
        measure = theirs["measure"].iloc[0]
        ours = _spread(both.loc[both["corpus"] == corpus, measure]) if len(both) else ""
        head = f"{NAMES[str(corpus)]}, {'F1' if measure == 'entity_f1' else 'accuracy'}"
        rows.append({"tagger": f"{head}: **ours**", "%": ours or "not run yet", "what differs": ""})
        rows += [
            {
                "tagger": f"{row['system']} {{cite:p}}`{row['cite']}`, {row['source']}",
                "%": f"{row['value']:g}",
                "what differs": row["differs"],
            }
            for _, row in theirs.iterrows()
        ]
    return pd.DataFrame(rows)


def what_is_tagged(corpus: str) -> str:
    """A corpus as a table names it, with what its tags say."""
    if corpus.startswith("generated"):
        return f"generated sentences, {task_name(corpus)}"
    return NAMES.get(corpus, corpus_name(corpus))


def facts(runs: "DataFrame", prefix: str) -> dict[str, str]:
    """What the text says of some runs: mean accuracy on words that a later one decides, by task and
    direction, and of the embedded corpus how many test words these are.

    Args:
        runs: from `arranged`.
    """
    found = {}
    for task in ("entities", "pos"):
        of_task = runs["corpus"].map(lambda name, task=task: ("task=pos" in name) == (task == "pos"))
        own = runs[of_task & (runs["cell"] == "lstm") & runs["encoding"].isna()] if len(runs) else runs
        for way, name in ((True, "both"), (False, "one")):
            part = own[own["bidirectional"].eq(way)] if len(own) else own
            for column, what in (("later_accuracy", "later"), ("test_accuracy", "all")):
                values = part[column].dropna() if len(part) else ()
                text = f"{sum(values) / len(values):.1f}" if len(values) else "not run"
                found[f"{prefix}_{task}_{name}_{what}"] = text
    return found


def _spread(values: "Series | Sequence[Any]") -> str:
    values = values.dropna().astype(float)  # type: ignore[union-attr]
    return mean_text(Cell(values.mean(), values.std(ddof=1), len(values), "")) if len(values) else ""


def _shown(runs: "DataFrame", name: str) -> str:
    """Of precision and recall the mean alone, so that the table stays narrow."""
    if name not in ("entity_precision", "entity_recall"):
        return _spread(runs[name])
    return f"{runs[name].mean():.1f}" if runs[name].notna().any() else ""


def _mean(values: "Series") -> str:
    return f"{values.mean():.0f} %"
