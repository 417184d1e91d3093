"""The thesis's tables with ours beside, and whether a cell was reproduced, by a rule fixed before
the runs.

A verdict needs three seeds of the same protocol: the corpus in full, the same classes, training
size, hidden units, epochs and word vectors. The 95 % Welch interval of the difference of means
decides: wholly within ±3 points is *reproduced*, wholly outside *differs*, anything else
*undecided*. Runs from other vectors are *pilots*. The number of the compact replication is beside
each cell and is never judged.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from paper.chapter import Chapter
from paper.chapters.few_shot import few_shot_scale
from paper.chapters.shared import LAMBDA_IN_USE, RUNS_PER_CELL, SEEDS_NEEDED, tested
from paper.fewshot.pretrained import MINILM
from paper.pages.tabling import grid, in_order
from paper.runs.kinds.few_shot import READ_BY_ENCODER
from paper.runs.plans import COMPACT
from paper.runs.store import Facts
from paper.tables import CaptionedTable, mean_text, spread
from paper.verdicts.results import (
    THESIS_MODEL,
    Sample,
    began,
    column,
    estimate,
    has,
    published,
)
from whenpool.corpora.tokens import VECTORS

MARGIN = 3.0  # Points of accuracy
MARKS = {
    "reproduced": "✓",
    "differs": "✗",
    "undecided": "?",
    "so far": "…",
    "pilot": "~",
    "not run": "",
}
"""Each verdict with its mark: "so far" has fewer than three seeds, a pilot has other word vectors
than the thesis's."""
JUDGED = ["reproduced", "differs", "undecided"]
"""Verdicts that at least three seeds by the thesis's protocol lead to."""
NOT_RUN: Facts = {
    "ours": np.nan,
    "ours_std": np.nan,
    "n": 0,
    "verdict": "not run",
    "keys": (),
    "compact": "",
}
"""What is beside a published cell of which there are no runs: mean and standard deviation (NaN for
one run) of our test accuracies in %, the number of runs, the verdict, the keys of all runs, and
what the compact replication reached."""
LEGEND = (
    "Each model has a line for the thesis's mean ± standard deviation, one for our runs at "
    "its scale (in "
    "bold, with the number of seeds), and one for the compact replication (64 units, 8 "
    "epochs, texts cut at "
    f"140 words; * on a part of the corpus or a stand-in). {MARKS['reproduced']} reproduced, "
    f"{MARKS['differs']} differs, {MARKS['undecided']} undecided, {MARKS['so far']} fewer "
    "than three seeds, "
    f"{MARKS['pilot']} a pilot from other word vectors ({{ref}}`the rule <verdicts>`)."
)
VARIED = ("vectors", "validation", "encoder", "steps", "test_texts")
CELL = ["corpus", "length", "setting", "size", "pooling"]


def is_plain(runs: DataFrame) -> Series:
    """Which runs have the usual start and no trick, so that they are called as their pooling."""
    return runs["model"].eq(runs["pooling"])


def is_reference(runs: DataFrame) -> Series:
    """Which runs follow the protocol (§1.4.2) on a whole corpus, with padding masked or not."""
    protocol = has(runs, THESIS_MODEL | {"forget_bias": ..., "masked": ...}) & is_plain(runs)
    return protocol & runs["corpus_complete"].eq(True) & runs["vectors"].notna()


def reference_runs(stored: DataFrame) -> DataFrame:
    """The runs that follow the thesis's protocol on a whole corpus of its."""
    return stored[is_reference(stored) & stored["masked"].eq(True)].reset_index(drop=True)


def finished(runs: DataFrame) -> DataFrame:
    """The runs that did not diverge."""
    return runs[~column(runs, "diverged").eq(True)]


def with_most_seeds(runs: DataFrame) -> DataFrame:
    """Of configurations that differ in `VARIED` the one with the most seeds, a run of each."""
    varied = [name for name in VARIED if name in runs]
    groups = (group for _, group in runs.groupby(varied, dropna=False, sort=False))
    most = max(groups, key=lambda group: group["seed"].nunique())
    return most.drop_duplicates("seed", keep="last")


def _cell(runs: DataFrame, theirs: Any, pilot: bool) -> Facts:
    """What is beside a published mean and standard deviation, see `NOT_RUN`; pilots have no
    verdict."""
    values, verdict = runs["test_accuracy"], "pilot" if pilot else "so far"
    if not pilot and len(values) >= SEEDS_NEEDED:
        mine = Sample.of(dict(enumerate(values.tolist())))
        _, low, high = estimate(
            [(1, mine), (-1, Sample(theirs["mean"], theirs["std"], RUNS_PER_CELL))]
        )
        within, outside = low >= -MARGIN and high <= MARGIN, low > MARGIN or high < -MARGIN
        verdict = "reproduced" if within else "differs" if outside else "undecided"
    ours = {"ours": values.mean(), "ours_std": values.std(), "n": len(runs), "verdict": verdict}
    return NOT_RUN | ours | {"keys": tuple(runs["key"])}


def compact_runs(stored: DataFrame) -> DataFrame:
    """The runs of the compact replication, from the thesis's word vectors."""
    model = THESIS_MODEL | COMPACT | {"vectors": VECTORS[0], "test": ..., "forget_bias": ...}
    return tested(stored[has(stored, model) & is_plain(stored)])


def judged(runs: DataFrame, theirs: DataFrame) -> DataFrame:
    """Rows of ``data/paper/accuracy.csv`` with ours beside, see `NOT_RUN`."""
    reference, compact = (
        dict(iter(table.groupby(CELL))) for table in (reference_runs(runs), compact_runs(runs))
    )
    cells = []
    for _, row in theirs.iterrows():
        place, cell = tuple(row[CELL]), NOT_RUN
        if place in reference:
            used = reference[place]
            thesis = used[used["vectors"] == VECTORS[0]]
            used = thesis if thesis["seed"].nunique() >= SEEDS_NEEDED else used
            used = with_most_seeds(used)
            cell = _cell(used, row, pilot=(used["vectors"] != VECTORS[0]).any())
        if place in compact:
            small = compact[place].drop_duplicates("seed", keep="last")
            whole = small["corpus_complete"].eq(True).all()  # no part of the corpus, no stand-in
            text = spread(small["test_accuracy"]) + "*" * (not whole)
            cell = cell | {"compact": text, "keys": (*cell["keys"], *small["key"])}
        cells.append(cell)
    return theirs.join(DataFrame(cells, theirs.index, list(NOT_RUN)))


def by_source(cells: DataFrame, rows: Sequence[str]) -> DataFrame:
    """Judged cells as texts: for each line of the table the thesis's numbers, below them ours and
    those of the compact replication where there are any; cells that bring a ``text`` keep it."""
    parts = []
    for _, line in cells.groupby(list(rows), sort=False):
        if column(line, "text").notna().all():
            parts.append(line.assign(source=""))
            continue
        texts: dict[str, list[str]] = {"thesis": [], "ours": [], "compact": [*line["compact"]]}
        for row in line.to_dict("records"):
            texts["thesis"].append(f"{row['mean']:.1f} ± {row['std']:.1f}".removesuffix(" ± nan"))
            ours = mean_text(row["ours"], row["ours_std"], int(row["n"]))
            texts["ours"].append(f"**{ours}** {MARKS[row['verdict']]}" * (row["n"] > 0))
        parts += [
            line.assign(source=source, text=text) for source, text in texts.items() if any(text)
        ]
    return pd.concat(parts)


def beside_thesis(
    chapter: Chapter,
    cells: DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    name: str,
    heads: Facts | None = None,
    legend: str = LEGEND,
) -> CaptionedTable:
    """A table of the thesis with ours in its cells, see `judged`, and where ours come from."""
    frame = grid(by_source(cells, rows), [*rows, "source"], columns, heads)
    each = cells.explode("keys").rename(columns={"keys": "key"}).dropna(subset="key")
    return chapter.table(frame, caption, name, each, legend)


# Table 2.1, learnability tricks.

VARIANTS = {
    "last": "BiLSTM",
    "max": "MaxPool",
    "teacher_forcing": "Teacher forcing",
    "penalty_attention": "Penalty attention",
    "dropout_attention": "Dropout attention",
    "gradient_directed": "Gradient-directed",
    "max_attention": "MaxAtt",
    "forget 2": "BiLSTM, forget bias 2",
    "chrono": "BiLSTM, chrono start",
    "orthogonal": "BiLSTM, orthogonal start",
}
"""What the chapter on learnability compares, in the order of Table 2.1, and how it calls it."""
TRICK_SETTINGS = ("standard", "mid")


def with_variant(runs: DataFrame) -> DataFrame:
    """Those of the runs that have that chapter's settings and variants and the λ that is in use, in
    the order of `VARIANTS`, with a column ``variant``, see `paper.verdicts.results.variant_of`."""
    runs = runs.assign(variant=runs["model"])
    runs = runs[has(runs, LAMBDA_IN_USE)]
    return in_order(
        runs.sort_values("seed", kind="stable"), variant=VARIANTS, setting=TRICK_SETTINGS
    )


def trick_cells(stored: DataFrame) -> DataFrame:
    """The cells of Table 2.1, one number each, and MaxAtt's of Table 1.3 beside, with ours and
    verdicts."""
    best = {"table": "1.3", "corpus": "imdb", "size": 10_000, "pooling": "max_attention"}
    best |= {"setting": [*TRICK_SETTINGS]}
    usual = published("accuracy")
    table = published("learnability").rename(columns={"method": "pooling", "accuracy": "mean"})
    cells = pd.concat(
        [table.assign(length="long", std=0.0), usual[has(usual, best)]], ignore_index=True
    )
    runs = finished(with_variant(stored))
    cells = judged(runs.assign(pooling=runs["variant"]), cells)
    return cells.assign(std=cells["std"].replace(0.0, np.nan), variant=cells["pooling"])


# Table 1.9, few labels. ``stored`` are rows of `Store.rows`, ``runs`` are such rows as `arranged`
# gives them.

PER_CLASS = 10  # Labelled texts of each class in Table 1.9
FEW_CORPORA = ("yahoo", "imdb")
SYSTEM_NAMES = {
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
RULES_OF = pd.Timestamp("2026-11-22T07:45:13+00:00")
"""When the rules on Table 1.9 were registered: runs that began before are pilots, which no page
shows."""


WHOLE: Facts = {"corpus_complete": True, "length": "any"}


def arranged(runs: DataFrame) -> DataFrame:
    """Some runs in the order of Table 1.9, then by labels and seed. ``size`` is the number of
    labelled texts, as training texts are elsewhere; ``encoder`` is empty where a system reads
    without one."""
    encoders = runs["encoder"].where(runs["system"].isin(READ_BY_ENCODER), None)
    runs = runs[began(runs) > RULES_OF].assign(size=runs["labelled_texts"], encoder=encoders)
    return in_order(runs.sort_values(["per_class", "seed"], kind="stable"), system=SYSTEM_NAMES)


def on_record(stored: DataFrame) -> DataFrame:
    """What is shown of IMDb, as a whole and read by MiniLM, by the systems that read an encoder."""
    runs = arranged(stored)
    runs = runs[has(runs, WHOLE | {"corpus": "imdb", "encoder": [None, MINILM]})]
    groups = [
        with_most_seeds(group) for _, group in runs.groupby(["system", "per_class"], sort=False)
    ]
    return pd.concat([runs.head(0), *groups])


def few_shot_cells(stored: DataFrame) -> DataFrame:
    """The cells of Table 1.9 with ours, on whole corpora: runs of its kind count before others."""
    numbers = published("few_shot").rename(columns={"model": "system", "accuracy": "mean"})
    runs, cells = arranged(stored), []
    for row in numbers.assign(std=0.0).to_dict("records"):
        asked = {"corpus": row["corpus"], "system": row["system"], "per_class": PER_CLASS}
        ours = runs[has(runs, WHOLE | asked)]
        thesis = ours[few_shot_scale(ours) == "thesis"]
        used = thesis if len(thesis) else ours
        cells.append(_cell(with_most_seeds(used), row, thesis.empty) if len(used) else NOT_RUN)
    return numbers.assign(std=np.nan).join(DataFrame(cells, numbers.index, list(NOT_RUN)))


# Tables 1.1 and 1.7, statistics of the corpora (§1.4.1, §1.8.5).

FIGURES = ("classes", "average_length", "max_length", "train_size", "test_size")
