"""Which runs the chapter "Recurrent networks from scratch" draws from (the slides; thesis §1.3.1)."""

from collections.abc import Iterable
from dataclasses import replace

from whenpool.corpora.published import PUBLICATIONS
from whenpool.runs.kinds.probe import GradientProfile
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.bases import base_run, each, sizes_of, with_cell
from whenpool.runs.request import Choice
from whenpool.runs.run import Place, Run

EMBEDDED_CORPUS = "synthetic:density=0.2,longest=40,shortest=30,test=500"
"""Short texts that say much: cells that are unrolled in Python take a step of it for every word."""
FAMILY = ("sum", "tanh_sum", "elman", "prototype", "lstm", "gru", "mingru", "minlstm")
"""The cells in the order in which the slides come to them, and what came after."""
COMPARED_CELLS = ("elman", "prototype", "lstm", "gru")
"""Those that are trained on published corpora, in both directions."""
SEEDS = 3
_TEXTS = {"smoke": 8, "quick": 100, "paper": 500}


def recurrent_networks(choice: Choice, place: Place) -> Iterable[Run]:
    """Every cell without pooling: from left to right with the gradients of its states on the embedded
    corpus, or a file of the reader's; on published corpora those that claims are about.

    A cell or number of layers that the reader asks for changes nothing: the chapter compares them.
    """
    own = replace(choice, cell=None, layers=None)
    for corpus in choice.corpora or (("imdb",) if choice.profile == "paper" else (EMBEDDED_CORPUS,)):
        for length, sizes in sizes_of(corpus, own, place).items():
            if length == "short":
                continue
            base = base_run(corpus, length, sizes[0], own, place)
            base = replace(base, pooling="last", masked=choice.masked)
            for mixed in each(base, setting=choice.settings or ("standard",)):
                yield from _runs(mixed, own)


def _runs(base: Training, choice: Choice) -> Iterable[Run]:
    if base.corpus in PUBLICATIONS and choice.profile != "smoke":
        for seeded in each(base, seed=range(choice.seeds or SEEDS)):
            yield from (with_cell(seeded, cell) for cell in COMPARED_CELLS)
            yield with_cell(seeded, "lstm", layers=2)
        return
    if choice.profile == "quick":
        base = replace(base, epochs=8)  # in which those that can learn do
    texts = _TEXTS[choice.profile]
    for seeded in each(base, seed=range(choice.seeds or 1)):
        for run in _from_scratch(seeded):
            yield run
            yield GradientProfile(run, texts, untrained=True)
            yield GradientProfile(run, texts)


def _from_scratch(base: Training) -> Iterable[Training]:
    """The family from left to right, an LSTM as torch starts it, and one in both directions and deep."""
    one_way = replace(base, bidirectional=False)
    yield from (with_cell(one_way, cell) for cell in FAMILY)
    yield replace(one_way, forget_bias=None)
    yield base
    yield with_cell(base, "lstm", layers=2)
