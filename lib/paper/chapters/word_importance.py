"""Word importance (§1.9): what the chapter runs and measures."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from pandas import DataFrame, Series

from paper.chapters.shared import Measure, with_numbers
from paper.runs.kinds.probe import Faithfulness, Probe, WordImportance
from paper.runs.plans import SAYING_MOST, TABLES, Options, Study, each
from paper.verdicts.results import Runs, column
from whenpool.corpora.published import THESIS_CORPORA
from whenpool.corpora.settings import SETTINGS


def plan(study: Study) -> Iterable[Probe]:
    """Figures 1.9, 1.10 and 1.11."""
    corpora = ("imdb", "yahoo", "amazon") if study.paper else THESIS_CORPORA
    for corpus in study.request.corpora_or(*corpora):
        figures = [tuple(row) for row in TABLES["importance_figures"] if row[0] == corpus]
        shown = [row[1:] for row in figures if row[2] in (study.request.sizes or (row[2],))]
        as_in_figures = study.paper and bool(shown)
        if not as_in_figures:  # the first size and the last
            shown = [
                (length, size, SETTINGS)
                for length, sizes in study.sizes(corpus).items()
                for size in (sizes if length == "short" else (*sizes[:1], *sizes[-1:]))
            ]
        for length, size, settings in shown:
            words: Options = {"k": 3} if length == "short" else {}
            if as_in_figures:
                shortest, longest = (50, 60) if length == "short" else (400, 500)
                words |= {"shortest": shortest, "longest": longest}
            base = study.base(corpus, length, size)
            small = study.compact and corpus == "imdb" and size == 1_000
            for run in each(base, setting=settings, pooling=study.poolings):
                for training in study.seeded(run):
                    yield WordImportance(training, **words)
                if small and run.setting in SAYING_MOST:
                    yield from map(Faithfulness, study.seeded(run))


def text_span(setting: str, share: float) -> tuple[float, float]:
    """Where the original text begins and ends, as parts of the whole (§1.8.1)."""
    share = 0.0 if setting == "standard" else share
    start = share * {"mid": 0.5, "right": 1.0}.get(setting, 0.0)
    return start, start + 1 - share


def where_the_text_stands(setting: str, share: float, points: int = 100) -> Any:
    """Which positions of a profile, (points,) bool, lie in the original text."""
    return Series(np.linspace(0, 1, points)).between(*text_span(setting, share)).to_numpy()


def ends_and_middle(profile: Any) -> tuple[float, float]:
    """Mean word importance of both outer tenths together, and of the middle fifth, of (100,)
    positions."""
    return (profile[:10].mean() + profile[90:].mean()) / 2, profile[40:60].mean()


def importance(runs: Runs) -> DataFrame:
    """Word importance, at the thesis's scale of texts as long as in its figures."""
    points = runs.table("nwi").sort_values("position")
    thesis_words = points["length"].map({"long": 400, "short": 50})
    thesis_words = thesis_words.where(points["max_words"].isna())
    shortest = points["shortest"].astype(float)
    alike = (shortest == thesis_words) | (shortest.isna() & thesis_words.isna())
    points = points[alike & runs.as_usual(points, {"texts": [None, WordImportance.texts]})]
    at_an_end = np.isin(np.arange(100), [*range(5), *range(95, 100)])
    numbers = {}
    for key, rows in points.groupby("key"):
        profile, (setting, share) = rows["mean"].to_numpy(), rows[["setting", "share"]].iloc[0]
        numbers[key] = {"ends_to_middle": np.divide(*ends_and_middle(profile))}
        if setting != "standard":
            text = where_the_text_stands(setting, share)
            # Algorithm 1 has subtracted each text's own minimum; by the authors' code it is that of
            # the mean.
            for name, curve in (("text_to_filler", profile), ("by_code", profile - profile.min())):
                filler = max(curve[~text].mean(), 1e-300)
                numbers[key][name] = np.divide(curve[text].mean(), filler)
            inside = profile[~text & ~at_an_end].mean()
            numbers[key]["end_peaks"] = profile[~text & at_an_end].mean() / inside
    columns = ["ends_to_middle", "text_to_filler", "by_code", "end_peaks"]
    table = DataFrame.from_dict(numbers, "index", columns=columns)
    return with_numbers(points, **dict(table.items()))


def faithful(runs: Runs) -> DataFrame:
    """By method, what the words that matter most are to a prediction: in points of its
    probability."""
    rows = runs.table("faithfulness")
    names = ("confidence", "without", "kept")
    confidence, without, kept = (100 * column(rows, name).astype(float) for name in names)
    return rows.assign(comprehensiveness=confidence - without, sufficiency=kept)


MEASURES = {
    "ends_to_middle": Measure(importance, "ends_to_middle", True),
    "text_to_filler": Measure(importance, "text_to_filler", True),
    "text_to_filler_by_code": Measure(importance, "by_code", True),
    "end_peaks": Measure(importance, "end_peaks", True),
    "comprehensiveness": Measure(faithful, "comprehensiveness"),
    "sufficiency": Measure(faithful, "sufficiency"),
    "rank_agreement_with_nwi": Measure(faithful, "agreement", most=1.0),
    "seconds_of_importance": Measure(faithful, "seconds", ratio=True),
}
