"""Training to skip (§1.8): what the chapter runs and measures."""

from collections.abc import Iterable
from itertools import product

from pandas import DataFrame

from paper.chapters.shared import SEEDS_NEEDED, Measure, trainings
from paper.runs.kinds import Training
from paper.runs.plans import SAYING_MOST, SEEDS, SEEDS_FROM, Study, each
from paper.verdicts.results import SCALES, Runs, has, published
from whenpool.corpora.published import THESIS_CORPORA
from whenpool.corpora.settings import SETTINGS
from whenpool.corpora.tokens import VECTORS
from whenpool.models.registry import THESIS_POOLINGS


def plan(study: Study) -> Iterable[Training]:
    """Tables 1.3 to 1.6 and 1.8, and how much the word vectors matter."""
    for base in study.bases((), THESIS_CORPORA):
        for run in each(base, setting=SETTINGS, pooling=study.poolings):
            yield from study.seeded(run, paper=SEEDS)
            small = study.compact and (run.corpus, run.size) == ("imdb", 1_000)
            if small and run.setting in SAYING_MOST:
                yield from each(run, vectors=(VECTORS[1], None), seed=study.seeds())


def highest_mean(runs: Runs) -> DataFrame:
    """In how many % of the cases of Tables 1.3 and 1.4, those with three seeds of all five models,
    MaxAtt has the highest mean: a number over all runs, and one over later seeds alone once they
    fill every case."""
    case = ["corpus", "length", "setting", "size"]
    cases = published("accuracy").query("table in ('1.3', '1.4')")[case].drop_duplicates()
    models = {"model": [*THESIS_POOLINGS], "masked": True}
    trained = runs.table(trainings)
    trained, rows = trained[has(trained, models)].merge(cases, on=case), []
    # published runs come first
    data = trained["data_corpus"].astype(object).fillna("")
    of_corpus = data.groupby([trained["corpus"], trained["length"]])
    trained = trained[data == of_corpus.transform("first")]
    for scale, first_seed in product(SCALES.values(), (0, SEEDS_FROM)):
        alike = {name: value for name, value in scale.items() if name not in case}
        used = trained[has(trained, alike) & trained["seed"].ge(first_seed)]
        used = used.drop_duplicates([*case, "model", "seed"], keep="last")
        accuracies = used.groupby([*case, "model"])["test_accuracy"]
        means = accuracies.mean()[accuracies.size() >= SEEDS_NEEDED].unstack()
        full = means.reindex(columns=THESIS_POOLINGS).dropna()
        if len(full) == len(cases) or (len(full) and not first_seed):
            value = 100 * full.idxmax(axis=1).eq("max_attention").mean()
            number = {"model": "max_attention", "seed": int(first_seed > 0), "value": value}
            rows.append(used.iloc[0].to_dict() | scale | number | {"began": used["began"].min()})
    return DataFrame(rows)


MEASURES = {"highest_mean": Measure(highest_mean, exact=True)}
