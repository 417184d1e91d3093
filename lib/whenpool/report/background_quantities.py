"""The numbers that decide the slides' claims on recurrent cells, one for every seed.

They read small trainings without pooling, which `Evidence.small` holds: those of the quick profile on
1K reviews of IMDb, but for their cell.
"""

from collections.abc import Callable

from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.quantities import minus


def cell_lead(evidence: Evidence, cell: str, over: str) -> PerSeed:
    """Test accuracy with one cell minus that with another, in points."""
    return minus(evidence.small_values("last", cell=cell), evidence.small_values("last", cell=over))


def cell_distance(evidence: Evidence, cell: str, other: str) -> PerSeed:
    """How far apart two cells are, in points of test accuracy."""
    return {seed: abs(value) for seed, value in cell_lead(evidence, cell, other).items()}


QUANTITIES: dict[str, Callable[..., PerSeed]] = {f.__name__: f for f in (cell_lead, cell_distance)}
