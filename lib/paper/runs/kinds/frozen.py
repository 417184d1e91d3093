"""What one draw of reviews says of a ready encoder: how well logistic regressions read each pooling
of its states, on plain reviews and in filler.

Letters: N texts, D units of a state, C classes.
"""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from tqdm import tqdm

from paper.fewshot.pretrained import encoder_fingerprint
from paper.runs.run import Place, Run, provenance
from whenpool.base.errors import check
from whenpool.base.paths import MINILM
from whenpool.corpora import Corpus
from whenpool.corpora.tokens import tokenize
from whenpool.probes.position import regression, surrounded

if TYPE_CHECKING:
    from whenpool.explain.frozen import FrozenEncoder

FROZEN_PROTOCOL = 1  # Raised by hand when the meaning of a result changes
DRAWS = 5  # No text of one is in another, as far as the corpus has enough
POOLED = ("mean", "cls", "last", "max", "max_attention", "attention")
PLACES = ("left", "mid", "right")
SHARES = (1 / 3, 2 / 3)  # of filler
PLAIN, MIDDLE = ("standard", 0.0), ("mid", SHARES[-1])
CELLS = (PLAIN, *product(PLACES, SHARES))
PASSAGES = (56, 40)  # Words of one; cuts at every 56 words fall between a review and its filler
CUT = ("mean", "cls")  # The poolings of passages
LONGEST = 256  # Word pieces, where sentence-transformers cuts MiniLM
SENTENCES = 40  # of filler, from which those around a text are taken

Cell = tuple[str, float]  # where a text stands, and the share of filler
Versions = dict[Cell, str]  # of a text


@dataclass(frozen=True)
class Frozen(Run):
    """Regressions on what an encoder makes of the first words of some reviews. Texts of each class
    are equally many. No version of a text is longer than the encoder reads, so that none is cut.
    """

    kind, table, protocol = "frozen", "frozen", FROZEN_PROTOCOL
    histories: ClassVar = {"accuracies": "reader"}
    has_encoder, recurrent = True, False

    corpus: str  # a name for `whenpool.corpora.load`
    seed: int = 0  # the number of the draw, from 0
    encoder: str = MINILM  # a name or folder that `whenpool.explain.frozen` loads
    texts: int = 1_000  # to learn from, or the most that classes share evenly
    test: int = 200  # texts, likewise
    words: int = 56  # of a review, its first; shorter ones are left out

    @property
    def cost(self) -> float:
        # each text plain and in filler; a test text in each cell and once more in passages
        return float(self.words * (4 * self.texts + 24 * self.test))

    @property
    def named(self) -> "Frozen":
        folder = Path(self.encoder).expanduser()
        return replace(self, encoder=folder.name if folder.is_dir() else self.encoder)

    def identity(self, place: Place) -> dict[str, Any]:
        check(0 <= self.seed < DRAWS, f"there are {DRAWS} draws, from 0, but not {self.seed}")
        source = place.source(self)
        data = {
            "corpus": source.fingerprint("any"),
            "filler": source.filler_fingerprint(),
            "encoder": encoder_fingerprint(self.encoder),
        }
        run = self.named.changed() | {"corpus": source.label}
        return {"run": run, "data": data, "protocol": self.protocol}

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        started = time.perf_counter()
        self.identity(place)  # raises for what is not here before any work is done
        from whenpool.explain.frozen import load_encoder

        source = place.source(self)
        corpus, filler = source.load("any"), source.load_filler()
        encoder = load_encoder(self.encoder, POOLED, device)
        drawn = draw(self, corpus, filler, encoder)
        result = {
            "train_texts": len(drawn.train),
            "test_texts": len(drawn.test),
            "drawn_before": drawn.before,
            "classes": len(corpus.classes),
            "corpus_complete": corpus.complete,
            "corpus_notes": " ".join(corpus.notes),
        }
        rows = [*of_encoder(encoder, drawn), *of_words(drawn)]
        result["seconds"] = time.perf_counter() - started
        return self.put(place, result, provenance(device), rows)


@dataclass(frozen=True)
class Draw:
    """The versions of the texts of one run, and their classes (N,)."""

    train: list[Versions]
    labels: np.ndarray
    test: list[Versions]
    answers: np.ndarray
    before: int  # training texts that an earlier draw has read, where the corpus has too few


def draw(
    run: Frozen, corpus: Corpus, filler: dict[str, list[str]], encoder: "FrozenEncoder"
) -> Draw:
    """The texts of a run. Those of a class lie in the order of the splits. Training texts are
    taken from the first on and test texts from the last on, by one draw after the other; where
    there are too few, training texts start over, and no draw learns from a test text. Each text
    has sentences of its own around it, drawn by its words, from articles of its split."""
    C = len(corpus.classes)
    every = [*corpus.train, *corpus.validation, *corpus.test]
    n, m = run.texts // C, run.test // C
    train, test, before = list[Versions](), list[Versions](), 0
    for label, name in enumerate(corpus.classes):
        of_class = (text.split()[: run.words] for text, its in every if its == label)
        texts = [*dict.fromkeys(" ".join(words) for words in of_class if len(words) == run.words)]
        last = [*islice(_fitting(reversed(texts), filler["test"], encoder), DRAWS * m)]
        held = {versions[PLAIN] for versions in last}
        rest = (text for text in texts if text not in held)
        end = (run.seed + 1) * n
        first = [*islice(_fitting(rest, filler["train"], encoder), end)]
        few = f"class {name!r} has {len(first)} texts to learn from and {len(last)} to test"
        check(len(first) >= n > 0 and len(last) == DRAWS * m > 0, f"{few}; ask for fewer")
        train += [first[place % len(first)] for place in range(end - n, end)]
        test += last[run.seed * m : (run.seed + 1) * m]
        before += max(0, end - max(len(first), end - n))
    classes = np.arange(C)
    return Draw(train, classes.repeat(n), test, classes.repeat(m), before)


def _fitting(
    texts: Iterable[str], filler: Sequence[str], encoder: "FrozenEncoder"
) -> Iterator[Versions]:
    """The versions of each text of which the encoder reads all."""
    for text in texts:
        sentences = random.Random(text).sample(filler, min(SENTENCES, len(filler)))
        versions = {cell: surrounded([text], sentences, *cell)[0] for cell in CELLS}
        # those with the most filler are the longest
        _, pieces = encoder.pieces([versions[place, SHARES[-1]] for place in PLACES])
        if pieces.max() <= min(LONGEST, encoder.longest):
            yield versions


def _row(pooling: str, reader: str, cell: Cell, right: Any, passage: int | None = None) -> Any:
    """A row of the table of accuracies."""
    return {
        "pooling": pooling,
        "reader": reader,
        "setting": cell[0],
        "share": round(cell[1], 3),
        "passage": passage,
        "accuracy": 100 * float(np.mean(right)),
    }


def of_encoder(encoder: "FrozenEncoder", drawn: Draw) -> Iterator[dict[str, Any]]:
    """The accuracies of each pooling in each cell, of a regression that learnt from plain texts
    (the reader "plain") and of one that learnt from texts in the middle of filler ("filler");
    and of the first one on passages of the text ("passages"), of which the one decides that is most
    sure of its answer."""
    poolings, bar = encoder.poolings, tqdm(disable=True)
    everything = [(np.arange(len(drawn.train)), np.empty(0))]
    lesson: Any = {"labels": drawn.labels, "folds": everything}  # one fold, to learn a query from
    learnt = {
        reader: encoder.embed([text[cell] for text in drawn.train], bar, **lesson)
        for reader, cell in {"plain": PLAIN, "filler": MIDDLE}.items()
    }
    queries = np.concatenate([made["queries"] for made in learnt.values()])  # (2, D)
    read = {
        cell: encoder.embed([text[cell] for text in drawn.test], bar, queries=queries)
        for cell in CELLS
    }
    of_plain = {}
    for pooling in poolings:
        for number, (reader, made) in enumerate(learnt.items()):
            model = regression().fit(made[pooling][0], drawn.labels)
            if reader == "plain":
                of_plain[pooling] = model
            for cell in CELLS:
                Z = read[cell][pooling]  # (1 or 2, N, D)
                said = model.predict(Z[number % len(Z)])
                yield _row(pooling, reader, cell, said == drawn.answers)
    cutting = replace(encoder, poolings=CUT)
    cut = [cell for cell in CELLS if cell[1] != SHARES[0]]
    for length, cell in product(PASSAGES, cut):
        parts = [passages(text[cell], length) for text in drawn.test]
        starts = np.cumsum([0, *map(len, parts[:-1])])
        made = cutting.embed([part for of_text in parts for part in of_text], bar)
        for pooling in cutting.poolings:
            sure = of_plain[pooling].predict_proba(made[pooling][0])  # (passages, C)
            said = np.maximum.reduceat(sure, starts).argmax(1)  # classes are numbers from 0 on
            yield _row(pooling, "passages", cell, said == drawn.answers, length)


def passages(text: str, length: int) -> list[str]:
    """A text cut into passages of so many words; the last one has what is left."""
    words = text.split()
    return [" ".join(words[start : start + length]) for start in range(0, len(words), length)]


def of_words(drawn: Draw) -> Iterator[dict[str, Any]]:
    """The accuracies of a bag of words, under the pooling "words"."""

    def written(texts: Sequence[Versions], cell: Cell) -> list[str]:
        return [" ".join(tokenize(text[cell])) for text in texts]

    from whenpool.explain.scores import bag_of_words

    for reader, learnt in {"plain": PLAIN, "filler": MIDDLE}.items():
        model = bag_of_words().fit(written(drawn.train, learnt), drawn.labels)
        for cell in CELLS:
            said = model.predict(written(drawn.test, cell))
            yield _row("words", reader, cell, said == drawn.answers)
