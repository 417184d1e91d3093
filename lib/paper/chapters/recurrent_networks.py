"""Recurrent networks (§1.3.1): what the chapter runs."""

from collections.abc import Iterable
from dataclasses import replace

from paper.runs.kinds import Training
from paper.runs.plans import FEWER_SEEDS, bases, each, seeds_of
from paper.runs.request import Request
from paper.runs.run import Place


def plan(request: Request, place: Place) -> Iterable[Training]:
    """Some cells without pooling, and a deep LSTM, whatever cell the reader asks for."""
    settings, seeds = request.settings or ("standard",), seeds_of(request, paper=FEWER_SEEDS)
    for base in bases(replace(request, cell=None, layers=None), place):
        for run in each(base, pooling=["last"], setting=settings, seed=seeds):
            yield from each(run, cell=("elman", "prototype", "lstm", "gru"))
            yield replace(run, layers=2)
