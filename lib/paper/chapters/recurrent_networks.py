"""Recurrent networks (§1.3.1): what the chapter runs."""

from collections.abc import Iterable
from dataclasses import replace

from paper.chapters.shared import Measure
from paper.runs.kinds import Training
from paper.runs.plans import FEWER_SEEDS, Study, each


def plan(study: Study) -> Iterable[Training]:
    """Some cells without pooling, and a deep LSTM, whatever cell the reader asks for."""
    settings, seeds = study.request.settings or ("standard",), study.seeds(paper=FEWER_SEEDS)
    for base in study.but(cell=None, layers=None).bases():
        for run in each(base, pooling=["last"], setting=settings, seed=seeds):
            yield from each(run, cell=("elman", "prototype", "lstm", "gru"))
            yield replace(run, layers=2)


MEASURES: dict[str, Measure] = {}  # Its claims are about accuracy, which several chapters share
