"""Count at which share of filler each model of "Try it" gives up a negative review, for the front
page's first figure: ``python scripts/give_up.py --data FOLDER`` writes data/results/give_up.csv.

A review stands at the start of the text and filler behind it; models learnt from 1,000 plain
reviews. The reviews are the first 200 negative ones of IMDb's test set here, cut at 140 words.
"""

import argparse
from itertools import cycle
from pathlib import Path

import pandas as pd
import torch

from paper.faithfulness import probabilities
from paper.pages.try_it import on_page
from whenpool import load
from whenpool.corpora.tokens import tokenize
from whenpool.models.registry import COMPARED
from whenpool.settings import compose

SHARES = range(0, 95, 5)  # of filler, in % of all words
REVIEWS, WORDS = 200, 140
FILE = Path(__file__).parents[1] / "data" / "results" / "give_up.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", required=True, help="folder of published corpora")
    torch.set_num_threads(1)  # of small models: threads would wait for each other
    page, corpus = on_page(), load("imdb", parser.parse_args().data)
    label = corpus.classes.index("neg")
    reviews = [tokenize(text)[:WORDS] for text, number in corpus.test if number == label][:REVIEWS]
    rows = []
    for share in SHARES:
        texts = []
        for number, words in enumerate(reviews):  # each begins with another sentence of filler
            start = number % len(page.filler)
            sentences = cycle(page.filler[start:] + page.filler[:start])
            texts.append(compose(words, sentences, "left", share / 100))
        for model in COMPARED:
            sure = probabilities(page.models[model], [page.ids(text)[0] for text in texts])
            lost = (sure[:, label] < 0.5).nonzero().flatten().tolist()
            rows += [(number, model, share) for number in lost]
    table = pd.DataFrame(rows, columns=["review", "model", "share"])
    first = table.groupby(["model", "review"], sort=True)["share"].min().reset_index()
    first.to_csv(FILE, index=False)
    print(f"{len(first)} answers were given up, see {FILE.name}")


if __name__ == "__main__":
    main()
