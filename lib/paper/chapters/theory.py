"""Theory, which needs no stored runs: what the chapter measures of networks that are drawn, built
or searched."""

from collections.abc import Callable

from pandas import DataFrame

from paper import theory
from paper.chapters.shared import Measure
from paper.verdicts.results import Runs


def step_changes(_: Runs) -> DataFrame:
    """By how many % the gradient norm changes with each step from the last state, before
    training."""
    drawn = [(name, 128, 1.0, 10, 30) for name in theory.MODELS]
    drawn += [("LSTM, forget bias 1", 256, variance, 20, 50) for variance in (1.0, 0.01)]
    columns = ["network", "hidden_size", "input_variance", "first", "last", "seed", "value"]
    rows = [
        (*network, seed, change)
        for network in drawn
        for seed, change in enumerate(theory.step_changes(*network))
    ]
    return DataFrame(rows, columns=columns)


def parity_reach() -> float:
    """On how many of the texts 1, 11, 111, … the last value of the best machine gives the parity,
    over the number for the best max-pooled machine; the least of units with two, three and four
    values."""
    reach = [theory.longest_parity_of_machines(6, 1, values) for values in (2, 3, 4)]
    return min(last / pooled for pooled, last in reach)


def single(number: Callable[[], float]) -> Measure:
    """One number that is built or searched."""

    def rows(_: Runs) -> DataFrame:
        return DataFrame([{"seed": 0, "value": number()}])

    return Measure(rows, fixed={"thesis": {"seed": 0}}, drawn=True, exact=True)


_DRAWN = {"thesis": {"input_variance": 1.0, "hidden_size": 128}}
MEASURES = {
    "step_change": Measure(step_changes, fixed=_DRAWN, drawn=True),
    "construction_error": single(theory.largest_error),
    "parity_reach": single(parity_reach),
}
