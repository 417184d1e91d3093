"""Which tagging runs are of record, and which decide claims.

Of record are runs on a whole published corpus by the settings of `whenpool.runs.plans.sequence_labelling`, small or
large. Claims are decided by the small ones alone, which are more: their scale is "small".
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from whenpool.book.report.verdicts import column, of_one_kind
from whenpool.corpora.tagged.sources import PUBLISHED
from whenpool.runs.plans.sequence_labelling import LARGE, SMALL
from whenpool.runs.tagging_run import Tagging

if TYPE_CHECKING:
    from pandas import DataFrame, Series

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
