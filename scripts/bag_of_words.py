"""A bag of words beside the models: TF-IDF and logistic regression on the very texts of the
trainings.

    pip install -e '.[sklearn]'
    python scripts/bag_of_words.py --data FOLDER

It reads the training, validation and test texts of the trainings, in the same settings and with the
same filler, as numbers of the same vocabulary: IMDb, long, at the thesis's scale and at the compact
one. Of each it counts the words; their order is lost. What is rare in the training texts weighs
more (TF-IDF, with 1 + log of a count), and of the `STRENGTHS` of logistic regression the one that
validates best is tested.

Nothing in it is drawn at random, so a row of the output has no seed: running it again gives the
same accuracies. The texts of left and right differ in their order alone, so they have the same
accuracies.
"""

import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import click
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from paper.corpora.dataset import Dataset
from paper.runs.kinds.training import Training, prepare
from paper.runs.plans import COMPACT, COMPACT_SIZES, COMPACT_TEST
from paper.runs.run import Place, provenance
from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.corpora.settings import SETTINGS

CORPUS = "imdb"
SCALES: dict[str, dict[str, Any]] = {
    "thesis": {},
    "compact": {"max_words": COMPACT["max_words"], "test": COMPACT_TEST[CORPUS]},
}
"""What of a training's texts is special at each scale."""
STRENGTHS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000)
"""Values of C, the inverse of how strongly weights are held down; of equally good ones the
first."""
COLUMNS = (
    *("scale", "corpus", "setting", "size", "C", "validation_accuracy", "test_accuracy"),
    *("test_texts", "seconds", "commit", "finished"),
)
RESULTS = Path(__file__).resolve().parents[1] / "data" / "results" / "bag_of_words.csv"


def measure(dataset: Dataset) -> dict[str, Any]:
    """The best C, its accuracies, and how long it took of the processor's time."""
    start, words = time.process_time(), len(dataset.vocabulary)
    # words are numbers already
    how: Any = {"analyzer": iter, "vocabulary": range(words), "lowercase": False}
    weigh = TfidfVectorizer(**how, sublinear_tf=True)
    weigh.fit(dataset.train.ids.to_lists())
    parts = dataset.train, dataset.validation, dataset.test
    train, validation, test = ((weigh.transform(p.ids.to_lists()), p.labels.numpy()) for p in parts)
    models = (LogisticRegression(C=strength, max_iter=1_000).fit(*train) for strength in STRENGTHS)
    best = max(models, key=lambda model: model.score(*validation))
    return {
        "C": best.C,
        "validation_accuracy": round(100 * best.score(*validation), 3),
        "test_accuracy": round(100 * best.score(*test), 3),
        "test_texts": len(dataset.test),
        "seconds": round(time.process_time() - start, 1),
    }


def rows(place: Place) -> Iterator[dict[str, Any]]:
    """A row for each scale, size and setting."""
    for scale, size, setting in product(SCALES, COMPACT_SIZES[CORPUS], SETTINGS):
        run = Training(CORPUS, setting, size, "last", **SCALES[scale])
        row = run.values("corpus setting size") | {"scale": scale}
        row |= measure(prepare(run, place).dataset) | provenance("cpu")
        print(*row.values(), flush=True)
        yield row


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
def main(data: Path) -> None:
    try:
        table = pd.DataFrame(rows(Place.default(data.resolve())), columns=COLUMNS)
        write_atomically(RESULTS, table.to_csv(index=False, lineterminator="\n"))
    except InputError as error:
        sys.exit(f"bag_of_words: {error}")


if __name__ == "__main__":
    main()
