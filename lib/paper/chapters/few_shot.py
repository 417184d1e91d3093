"""Few labels (§1.10): what the chapter runs, Table 1.9 or its likeness in small and accuracy over
the number of labels, and what it measures."""

from collections.abc import Iterable
from functools import partial
from itertools import product

import numpy as np
from pandas import DataFrame, Series

from paper.chapters.shared import Measure, thesis_numbers
from paper.corpora.statistics import statistics_of
from paper.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from paper.runs.kinds.few_shot import CONTRAST, READ_BY_ENCODER, SYSTEMS, FewShot
from paper.runs.plans import TABLES, Options, Study
from paper.verdicts.results import SCALES, Runs
from whenpool.base.errors import check_known
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS

LABELS = (1, 3, 10, 30, 100)  # Labelled texts of each class; the thesis has 10
STEPS = {name: options.get("steps", FewShot.steps) for name, options in TABLES["paper"].items()}
"""The steps that each system takes at the thesis's scale."""


def plan(study: Study) -> Iterable[FewShot]:
    """The systems that the reader names, or all."""
    request = study.request
    for name in request.systems or ():
        check_known("system", name, (*SYSTEMS, *CONTRAST))
    paper = study.paper
    for corpus in request.corpora_or("imdb", *(["yahoo"] if paper else [])):
        # what depends on the corpus and the reader; a system takes what it has use for
        encoder = request.encoder or (DEFAULT_ENCODER if paper else MINILM)
        shared: Options = {"encoder": encoder, "paraphrases": request.paraphrases}
        labels = (FewShot.per_class,) if paper else LABELS
        if corpus in PUBLICATIONS:
            shared["vectors"] = study.vectors
            if paper:  # as in Chen et al. (2020): of each class
                shared["unlabelled"] = 5_000 * PUBLICATIONS[corpus].classes
        else:
            shared |= TABLES["brief"]
            counts = statistics_of(find(corpus, study.place.data), "any")
            # half of the texts of a small file stay unlabelled
            half = counts["train_size"] // counts["classes"] // 2
            labels = (max(1, min(FewShot.per_class, half)),)
        if request.unlabelled:
            shared["unlabelled"] = request.unlabelled
        options = TABLES["paper" if paper else "small"]
        systems = request.systems or (*SYSTEMS, *CONTRAST)
        chosen = product(study.seeds(), request.labels or labels, systems)
        for seed, per_class, system in chosen:
            yield FewShot(corpus, system, per_class, seed, **(options[system] | shared))


def few_shot_scale(rows: DataFrame) -> Series:
    """At the thesis's scale systems start from its encoder, read all texts, as many tokens as it
    did, and take its steps; the compact replication starts from MiniLM."""
    without = ~rows["system"].isin(READ_BY_ENCODER)
    bert, mini = (without | (rows["encoder"] == name) for name in (DEFAULT_ENCODER, MINILM))
    whole = rows["test"].isna() & (rows["steps"] >= rows["system"].map(STEPS))
    whole &= rows["max_tokens"] >= np.where(rows["system"] == "max_attention", 512, 256)
    scales = np.select([mini & ~whole, bert & whole], ["compact", "thesis"], "other")
    return Series(scales, rows.index)


def few_labels(runs: Runs) -> DataFrame:
    """Of texts of any length."""
    rows = runs.table("few-shot")
    return rows.assign(scale=few_shot_scale(rows))[rows["length"] == "any"]


MEASURES = {
    "few_shot_accuracy": Measure(
        few_labels,
        "test_accuracy",
        fixed={
            name: {"corpus": "imdb", "per_class": FewShot.per_class, "scale": name}
            for name in SCALES
        },
        thesis=partial(thesis_numbers, "few_shot", "accuracy"),
    )
}
