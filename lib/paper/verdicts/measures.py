"""The numbers that claims are about: of each finished run one, or several with what they were
measured at. Each chapter has its own measures in `paper.chapters`; here they are looked up."""

from collections.abc import Sequence
from typing import Any

from pandas import DataFrame, Series

from paper.chapters import MEASURES
from paper.runs.kinds import KINDS
from paper.runs.kinds.few_shot import CONTRAST, SYSTEMS
from paper.runs.kinds.probe import PROBES
from paper.runs.kinds.training import TRICKS
from paper.verdicts.results import SCALES, Numbers, Runs, has
from whenpool.base.errors import check_known
from whenpool.corpora.corpus import LENGTHS
from whenpool.corpora.settings import SETTINGS
from whenpool.models.encoder import STARTS
from whenpool.models.registry import LISTED

CHOICES: dict[str, Sequence[str]] = {
    "length": LENGTHS,
    "setting": SETTINGS,
    "model": (*LISTED, "cls", *TRICKS, *STARTS, "orthogonal"),
    "system": (*SYSTEMS, *CONTRAST),
}
"""The values of columns that do not take any; a name of several words, of a model that differs in
more, is not among them."""


def numbers(runs: Runs, measure: str) -> Numbers:
    """All numbers of a measure, read once."""
    if measure not in runs.numbers:
        about = MEASURES[measure]
        rows = runs.table(about.rows)
        if len(rows):
            rows = rows.assign(value=rows[about.column]).dropna(subset=["value"])
        runs.numbers[measure] = Numbers(rows)
    return runs.numbers[measure]


def results(
    runs: Runs, what: str, scale: str | Sequence[str] | None = None, **selection: Any
) -> DataFrame:
    """The numbers of a measure, or the rows of a `Runs.table`, whose columns have the values of a
    scale, or of one of several, and of ``selection``, see `paper.verdicts.results.has`. It
    remembers the question, see `note`. Raises `InputError` for what there is not, naming those
    there are."""
    check_known("measure or kind", what, (*MEASURES, *KINDS, *PROBES))
    scales = MEASURES[what].fixed if what in MEASURES else SCALES
    rows = numbers(runs, what).rows if what in MEASURES else runs.table(what)
    for name, value in selection.items():
        check_known("column", name, sorted(rows) or [name])
        for choice in value if isinstance(value, list | tuple) else [value]:
            if name in CHOICES and isinstance(choice, str) and " " not in choice:
                check_known(name, choice, CHOICES[name])
    chosen = Series(not scale, index=rows.index, dtype=bool)
    for name in [scale] if isinstance(scale, str) else scale or ():
        check_known("scale", name, scales)
        usual = {k: v for k, v in scales[name].items() if k in rows and k not in selection}
        chosen |= has(rows, usual)
    rows = rows[chosen & has(rows, {k: v for k, v in selection.items() if k in rows})]
    return rows
