"""Natural bias (§1.6, §1.7): what the chapter runs and measures."""

from collections.abc import Iterable
from dataclasses import replace

from pandas import DataFrame

from paper.chapters.shared import Measure
from paper.runs.kinds.probe import DirectionUse, PaddingSweep
from paper.runs.plans import SAYING_MOST, SEEDS, SEEDS_FROM, WITH_AND_WITHOUT, Study, each
from paper.runs.run import Run
from paper.verdicts.results import Runs
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import COMPARED, LISTED_CELLS


def plan(study: Study) -> Iterable[Run]:
    """Figures 1.4, 1.6 and 1.7, and what padding and the forget gate (of the thesis, of the public
    code, and chrono) have to do with them."""
    request = study.request
    for corpus in request.corpora_or("imdb", "amazon"):
        sizes = (1_000, 5_000, 10_000, 20_000) if corpus == "imdb" else (10_000,)
        for plain in study.but(corpora=(corpus,)).bases(sizes):
            for base in study.seeded(plain):
                # Figure 1.7 has the BiLSTM alone; the blog post has 5K reviews with every pooling
                usual = ("last",) if base.size == 20_000 else COMPARED
                yield from map(PaddingSweep, each(base, pooling=request.poolings or usual))
                if not LISTED_CELLS[base.cell].recurrent:
                    continue
                masked, unmasked = each(base, pooling=["last"], masked=(True, False))
                yield PaddingSweep(unmasked)
                yield from map(DirectionUse, (masked, unmasked))
                if base.size == 1_000:
                    yield PaddingSweep(replace(masked, forget_bias="chrono"))
                if base.size in (1_000, 10_000):
                    yield PaddingSweep(replace(unmasked, seed=SEEDS_FROM + base.seed))
        if corpus == "imdb" and request.is_whole and 1_000 in (request.sizes or (1_000,)):
            base = study.base("imdb", "long", 1_000)
            base = replace(base, masked=False, pooling="last")
            compact, seeds = study.compact, study.seeds(SEEDS)
            yield from each(base, seed=seeds, setting=SETTINGS)
            in_both = {"seed": seeds, "setting": SAYING_MOST}
            yield from each(base, **in_both, forget_bias=[2.0], masked=(True, False))
            for run in each(base, **in_both, pooling=COMPARED if compact else WITH_AND_WITHOUT):
                yield run
                if compact or run.pooling == "last":
                    yield replace(run, forget_bias="chrono", masked=True)


def sweeps(runs: Runs) -> DataFrame:
    """A row for each share of filler and place of the text: its accuracy and what that lost. The
    row of the middle also compares left with right, and the lower of these with the middle."""
    points = runs.table("sweep")
    points = points[runs.as_usual(points, {"texts": [None, PaddingSweep.texts]})]
    points = points.assign(
        added=points["setting_added"], share_added=points["share_added"].round(3)
    )
    if points.empty:
        return points
    start = points[points["share_added"] == 0].set_index(["key", "added"])["accuracy"]
    sides = points.pivot_table("accuracy", ["key", "share_added"], "added")
    sides = sides.reindex(columns=["left", "mid", "right"])
    compared = DataFrame(
        {
            "asymmetry": sides["left"] - sides["right"],
            "both_ends_cost": sides[["left", "right"]].min(axis=1) - sides["mid"],
        }
    )
    compared = compared.assign(added="mid").reset_index()
    points = points.merge(compared, "left", ["key", "share_added", "added"])
    points = points.join(start.rename("start"), on=["key", "added"])
    return points.assign(loss=points["start"] - points["accuracy"])


def directions(runs: Runs) -> DataFrame:
    """How much better the forward direction alone classifies than the backward one."""
    rows = runs.table("probe")
    usual = runs.as_usual(rows, {"texts": [None, DirectionUse.texts]})
    rows = rows[usual & rows["probe"].eq("directions")]
    return rows.assign(value=rows["accuracy_forward"] - rows["accuracy_backward"])


MEASURES = {
    "swept_accuracy": Measure(sweeps, "accuracy"),
    "swept_loss": Measure(sweeps, "loss"),
    "sweep_asymmetry": Measure(sweeps, "asymmetry"),
    "both_ends_cost": Measure(sweeps, "both_ends_cost"),
    "direction_gap": Measure(directions),
}
