"""What the figures, tables and text of "Learning under limited data" show (thesis §1.10).

``stored`` are rows of `Store.rows`, ``runs`` are such rows as `arranged` gives them.
"""

from dataclasses import fields
from typing import Any

import pandas as pd

from whenpool.book.report import tables
from whenpool.book.report.tables import CORPUS_NAMES, CaptionedTable, in_order
from whenpool.book.report.verdicts import MARKS, NOT_RUN, cell_of, fullest, has, published, verdict_of
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.runs.kinds.few_shot import READ_BY_ENCODER, UNLABELLED, FewShot
from whenpool.runs.plans import PAPER, PAPER_UNLABELLED

PER_CLASS = 10  # Labelled texts of each class in Table 1.9
STEPS = {name: settings.get("steps", FewShot.steps) for name, settings in PAPER.items()}
CORPORA = ("yahoo", "imdb")
NAMES = {
    "vampire": "VAMPIRE",
    "bert": "Fine-tuning",
    "tmix": "TMix",
    "max_attention": "MaxAtt",
    "uda": "UDA",
    "mixtext": "MixText",
    "last_words": "BiLSTM, word vectors",
    "max_attention_words": "MaxAtt, word vectors",
}
"""How each system is called, in the order of Table 1.9; then those for contrast."""
LEGEND = (
    "Ours, in bold: mean ± standard deviation (seeds). "
    f"{MARKS['reproduced']} reproduced, {MARKS['differs']} differs, {MARKS['undecided']} undecided, "
    f"{MARKS['so far']} fewer than three seeds, {MARKS['pilot']} a pilot: another encoder, or fewer steps "
    "than the thesis's kind of run needs ({ref}`the rule <verdicts>`)."
)
_CORPORA = CORPUS_NAMES | {"synthetic": "The generated corpus"}
HEADS: dict[str, Any] = {
    "system": lambda name: NAMES.get(name, name),
    "per_class": lambda count: f"{count} per class",
    "corpus": lambda name: _CORPORA.get(name, name),
}
"""How tables write what names their rows and columns."""


def arranged(runs: pd.DataFrame) -> pd.DataFrame:
    """Some runs in the order of Table 1.9, then by labels and seed. ``size`` is the number of labelled
    texts, as training texts are elsewhere; ``encoder`` is empty where a system reads without one."""
    if runs.empty:
        runs = runs.reindex(columns=sorted(FewShot.names()))
    encoders = runs["encoder"].where(runs["system"].isin(READ_BY_ENCODER), None)
    runs = runs.assign(size=runs["labelled_texts"], encoder=encoders)
    return in_order(runs.sort_values(["per_class", "seed"], kind="stable"), system=NAMES)


def follows_thesis(runs: pd.DataFrame) -> pd.Series:
    """Which runs are of Table 1.9's kind, whatever their number of labels."""
    system, pooled = runs["system"], runs["system"] == "max_attention"
    found = on_whole_corpus(runs) & runs["test"].isna() & (runs["steps"] >= system.map(STEPS))
    found &= ~system.isin(READ_BY_ENCODER) | (runs["encoder"] == DEFAULT_ENCODER)
    found &= runs["max_tokens"] >= pooled.map({True: 512, False: 256})
    found &= ~system.isin(UNLABELLED) | (runs["unlabelled_texts"] >= PAPER_UNLABELLED * runs["classes"])
    return found & (~pooled | (runs["hidden_size"] == FewShot.hidden_size))


def on_whole_corpus(runs: pd.DataFrame) -> pd.Series:
    """Which runs are on a whole corpus of Table 1.9, texts of any length."""
    whole = runs["corpus_complete"].eq(True) & (runs["length"] == "any")
    return whole & runs["corpus"].isin(CORPORA)


RULES_OF = pd.Timestamp("2026-11-22T07:45:13+00:00")
"""When the rules on Table 1.9 were registered: runs that began before are pilots, which no page shows."""


def registered(stored: pd.DataFrame) -> pd.DataFrame:
    """Those that began after the rules were registered."""
    ended = pd.to_datetime(stored["finished"], utc=True, format="ISO8601")
    return stored[ended - pd.to_timedelta(stored["seconds"].fillna(0), unit="s") > RULES_OF]


def on_record(stored: pd.DataFrame) -> pd.DataFrame:
    """What is shown of the whole of IMDb, read by the encoder that the most runs have; no pilots."""
    runs = arranged(registered(stored))
    runs = runs[on_whole_corpus(runs) & (runs["corpus"] == "imdb")]
    encoder = runs["encoder"].mode().get(0, MINILM)
    runs = runs[runs["encoder"].isna() | (runs["encoder"] == encoder)]
    groups = runs.groupby(["system", "per_class"], sort=False)
    return pd.concat([_fullest(own) for _, own in groups]) if len(runs) else runs


def _fullest(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the configuration with the most seeds, then the most test texts, then the most steps."""
    varied = [field.name for field in fields(FewShot) if field.name != "seed"]
    return fullest(runs, varied, "test_texts", "steps")


def thesis_cells(stored: pd.DataFrame) -> pd.DataFrame:
    """The cells of Table 1.9 with ours: runs of its kind count before others, whole corpora before parts."""
    numbers = published("few_shot").rename(columns={"model": "system", "accuracy": "mean"})
    runs, cells = arranged(stored), []
    for row in numbers.itertuples():
        asked = {"corpus": row.corpus, "system": row.system, "per_class": PER_CLASS, "length": "any"}
        ours = runs[has(runs, asked)]
        if ours.empty:
            cells.append(NOT_RUN)
            continue
        thesis, whole = follows_thesis(ours), ours["corpus_complete"].eq(True)
        used = _fullest(next((ours[kind] for kind in (thesis, whole) if kind.any()), ours))
        verdict = verdict_of(used["test_accuracy"].tolist(), row.mean, 0.0) if thesis.any() else "pilot"
        cells.append(cell_of(used, verdict))
    return numbers.assign(std=float("nan")).join(pd.DataFrame(cells, numbers.index, list(NOT_RUN)))


def thesis_table(stored: pd.DataFrame) -> CaptionedTable:
    """Table 1.9 with ours beside, what ours are below."""
    cells, runs = thesis_cells(stored), arranged(stored)
    shown = runs[runs["key"].isin(cells["keys"].explode())]
    unlabelled = {"vampire": "in pretraining", "uda": "yes", "mixtext": "yes"}
    read = cells["system"].map(unlabelled).fillna("no")
    return tables.beside_thesis(
        cells.assign(**{"unlabelled text": read}), runs, ["system", "unlabelled text"], ["corpus"],
        "Table 1.9 of the thesis, 10 labelled texts of each class: test accuracy in %.",
        "tab-thesis-1-9", HEADS,
        " ".join([LEGEND, *(what_it_is(part) for _, part in shown.groupby("corpus"))]),
    )  # fmt: skip


def what_it_is(runs: pd.DataFrame) -> str:
    """What the runs of one corpus read and were tested on, a sentence for below a table."""
    if runs.empty:
        return ""

    def span(name: str) -> str:
        """One number, or the lowest to the highest."""
        return " to ".join(dict.fromkeys(f"{int(end):,}" for end in runs[name].agg(["min", "max"])))

    corpora = dict.fromkeys(str(name).split(":")[0] for name in runs["corpus"])
    names = ", ".join(_CORPORA.get(name, tables.corpus_name(name)) for name in corpora)
    cut = runs["tokens_read"].notna().any()
    read = f"texts cut at {span('tokens_read')} tokens" if cut else "whole texts"
    whole = runs["corpus_complete"].eq(True).all()
    part = "" if whole else "; not the thesis's corpus, a stand-in or a part"
    return (
        f"{names}: {span('labelled_texts')} labelled, {span('validation_texts')} validation and "
        f"{span('test_texts')} test texts; {read}; {span('steps_done')} steps{part}."
    )
