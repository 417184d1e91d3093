"""Results must not change while the protocols of `paper.runs.kinds` stay the same.

When this fails, either a refactoring changed results by accident, or the meaning of a result
changed on purpose: then raise the PROTOCOL of that kind of run, and run this file: ``python
tests/book/test_golden.py`` writes tests/book/golden.json anew after a PROTOCOL was raised, else
only what it lacks.
"""

import json
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from paper.fewshot.pretrained import MINILM
from paper.runs.compute import compute
from paper.runs.engine import Workforce
from paper.runs.kinds import KINDS as ALL_KINDS
from paper.runs.kinds import probe as kinds
from paper.runs.kinds.few_shot import CONTRAST, FEW_SHOT_PROTOCOL, SYSTEMS, FewShot
from paper.runs.kinds.frozen import FROZEN_PROTOCOL, Frozen
from paper.runs.kinds.tagging import TAGGING_PROTOCOL, Tagging
from paper.runs.kinds.training import PROTOCOL, TRICKS, Training
from paper.runs.run import Place, key
from paper.runs.store import Store
from whenpool.models.registry import LISTED

PROTOCOLS = {
    "protocol": PROTOCOL,
    "probe_protocol": kinds.PROBE_PROTOCOL,
    "few_shot_protocol": FEW_SHOT_PROTOCOL,
    "tagging_protocol": TAGGING_PROTOCOL,
    "frozen_protocol": FROZEN_PROTOCOL,
}
FILE = Path(__file__).with_name("golden.json")
BASE = Training(
    "synthetic:train=120,validation=40,test=60,shortest=10,longest=20,density=0.2",
    "standard",
    100,
    "last",
    length="any",
    embedding_size=10,
    hidden_size=8,
    epochs=3,
    learning_rate=1e-2,
)
OF_RUNS = {
    **{name: {"pooling": name} for name in LISTED},
    **{setting: {"pooling": "max", "setting": setting} for setting in ("left", "mid", "right")},
    "gru": {"cell": "gru"},
    "elman": {"cell": "elman"},
    "transformer": {"cell": "transformer", "pooling": "max_attention"},
    "two causal transformer layers": {"cell": "transformer", "layers": 2, "bidirectional": False},
    "two layers": {"layers": 2},
    "one direction": {"bidirectional": False},
    "seed 1": {"seed": 1},
    "low forget bias": {"forget_bias": "low"},
    "chrono forget bias": {"forget_bias": "chrono"},
    "forget bias 5, input bias -5": {"forget_bias": 5.0, "input_bias": -5.0},
    "forget part of chrono 30": {
        "forget_bias": "chrono forget",
        "chrono_words": 30,
        "held": "W_hh",
    },
    "input part of chrono, another draw": {
        "forget_bias": "chrono input",
        "size": 50,
        "draw": 1,
        "shuffled": True,
    },
    "forget bias 2": {"forget_bias": 2.0},
    "orthogonal start": {"orthogonal": True},
    "unmasked": {"pooling": "mean", "masked": False},
    "dropconnect": {"drop_connect": 0.3},
    "open memory": {"backward": "open"},
    "even gradient": {"backward": "even", "setting": "mid"},
    "clipped steps": {"clip": 0.1},
    "weight decay": {"weight_decay": 1e-3},
    "cut texts": {"max_words": 6, "setting": "mid"},
    "ten classes": {"corpus": BASE.corpus + ",classes=10", "pooling": "max"},
    "teacher forcing": {"trick": "teacher_forcing"},
    "penalty attention": {"trick": "penalty_attention", "epochs": 4},
    "dropout attention": {"trick": "dropout_attention", "epochs": 4},
    "gradient-directed": {"trick": "gradient_directed", "epochs": 4},
    "gradient-directed, reverse": {
        "trick": "gradient_directed",
        "divergence": "reverse",
        "strength": 0.5,
        "epochs": 4,
    },
    "own texts, Wikipedia, vectors": {
        "corpus": "own.csv",
        "setting": "mid",
        "pooling": "max",
        "vectors": "glove.6B.100d",
        "size": 60,
    },
}
RUNS = {name: replace(BASE, **changes) for name, changes in OF_RUNS.items()}
"""Tiny runs, one for each pooling, cell, setting and option that gives a result its meaning."""
LEARNT = replace(
    BASE, corpus=BASE.corpus + ",agreement=1", pooling="mean", learning_rate=3e-2, epochs=6
)
"""Which has learnt enough for filler, or a direction that is left out, to change what it says."""
PROBES = {
    "gradients": kinds.GradientProfile(RUNS["last"], texts=40),
    "gradients before training": kinds.GradientProfile(RUNS["last"], texts=40, untrained=True),
    "trace": kinds.GradientTrace(
        replace(BASE, batch_size=8, drop_connect=0.3), texts=16, sample=32
    ),
    "held-out trace": kinds.GradientTrace(
        replace(BASE, seed=2), texts=16, sample=32, shortest=15, longest=20, until=150
    ),
    "states": kinds.UntrainedStates(replace(LEARNT, forget_bias=5.0, input_bias=-5.0)),
    "sweep": kinds.PaddingSweep(LEARNT, texts=50),
    "nwi": kinds.WordImportance(RUNS["mid"], texts=20, k=3, shortest=35, longest=50),
    "memory": kinds.MemoryUse(RUNS["transformer"], longest=200, halvings=2, attention="plain"),
    "first steps": kinds.FirstSteps(replace(RUNS["last"], weight_decay=1e-3), texts=30),
    "directions": kinds.DirectionUse(LEARNT, texts=50),
    "valleys": kinds.Valleys(replace(BASE, seed=3), texts=16, shortest=15, longest=20, until=60),
    "faithfulness": kinds.Faithfulness(LEARNT, texts=20),
    "states course": kinds.StatesCourse(
        replace(LEARNT, pooling="last", through="max", seed=4), texts=50
    ),
}
FEW_SHOTS = {
    system: FewShot(
        "synthetic:train=80,validation=20,test=40,shortest=10,longest=20,density=0.2",
        system,
        per_class=3,
        validation=20,
        max_tokens=20,
        steps=6,
        looks=2,
        batch_size=3,
        encoder=MINILM,
        learning_rate=learning_rate,
        hidden_size=6,
        unlabelled=40,
        unlabelled_batch=2,
        augmentations=2,
        topics=4,
        pretraining=10,
    )
    for system, learning_rate in {
        **dict.fromkeys(("vampire", *CONTRAST), 1e-3),
        "max_attention": 1e-2,
        **dict.fromkeys(("bert", "tmix", "uda", "mixtext"), 1e-4),
    }.items()
}
TAGGER = Tagging(
    "generated:train=60,validation=20,test=40,clauses=2",
    embedding_size=8,
    hidden_size=6,
    feature_size=4,
    epochs=3,
    learning_rate=2e-2,
    profiled=10,
)
TAGGINGS = {
    "entities": TAGGER,
    "in io, left to right": replace(TAGGER, encoding="io", bidirectional=False),
    "parts of speech, words alone": replace(
        TAGGER, corpus=TAGGER.corpus + ",task=pos", features=False, cell="elman", layers=2
    ),
    "own words": replace(TAGGER, corpus="own.conll", vectors="glove.6B.100d", embedding_size=10),
}
FROZENS = {
    "a draw": Frozen(
        "synthetic:train=120,validation=40,test=120,shortest=10,longest=20,density=0.2",
        seed=1,
        texts=40,
        test=20,
        words=8,
    )
}


def write_own_data(folder):
    """A file of texts, filler and vectors, so that reading, selecting and splitting count as
    well."""
    folder.mkdir()
    rng, words = random.Random(0), [f"word{number}" for number in range(60)]
    halves = words[:40], words[30:]
    rows = [f"{' '.join(rng.choices(halves[label], k=12))},{label}" for label in (0, 1) * 60]
    (folder / "own.csv").write_text("\n".join(["text,label", *rows]))
    sentences = [" ".join(rng.choices(words, k=7)) for _ in range(90)]
    tags = {word: "O" if n % 3 else f"{'IB'[n % 2]}-T{n % 4}" for n, word in enumerate(words)}
    tagged = ["\n".join(f"{word} {tags[word]}" for word in text.split()) for text in sentences]
    (folder / "own.conll").write_text("\n\n".join(tagged))
    (folder / "wiki_sentences.txt").write_text("\n".join(sentences))
    vectors = [
        " ".join([word, *(f"{rng.gauss(0, 1):.3f}" for _ in range(10))]) for word in words[:50]
    ]
    (folder / "glove.6B.100d.txt").write_text("\n".join(vectors))


def results(folder):
    place = Place(Store(folder / "store"), folder / "data", folder / "cache")
    write_own_data(place.data)

    def with_own_file(run):
        own = getattr(run, "corpus", "") in ("own.csv", "own.conll")
        return replace(run, corpus=str(place.data / run.corpus)) if own else run

    every = [with_own_file(run) for runs, _ in KINDS.values() for run in runs.values()]
    report = compute(every, place, Workforce(workers=1), say=lambda line: None)
    assert not report.failed, report.failed
    for kind in ALL_KINDS.values():  # each row gives its run back
        for row in place.store.current(kind.kind).to_dict("records"):
            assert key(kind.of_row(row), place) == row["key"]
    return {
        kind: {
            name: of(place.store.get(key(with_own_file(run), place))) for name, run in runs.items()
        }
        for kind, (runs, of) in KINDS.items()
    }


def _numbers(row, names):
    return {name: row["result"][name] for name in names.split()}


def _of_training(row):
    """Its numbers; of a trick the loss of each epoch, since it minimises something else in each."""
    losses = [epoch["train_loss"] for epoch in row["history"]]
    more = {"train_losses": losses} if row["run"]["trick"] else {}
    return more | {"train_loss": losses[-1]} | _numbers(row, "test_loss best_epoch vocabulary")


def _of_probe(row):
    """Its numbers, and a tenth of its rows."""
    about = ("training", "probe_protocol", "corpus_complete", "corpus_notes", "seconds")
    numbers = {name: value for name, value in row["result"].items() if name not in about}
    points = row["history"][:: max(1, len(row["history"]) // 10)]
    return {
        "result": numbers,
        "rows": [{n: v for n, v in p.items() if n != "seconds"} for p in points],
    }


def _of_few_shot(row):
    """Its numbers, and what its objective tells of each epoch."""
    about = ("seconds", "train_accuracy", "validation_accuracy")
    looks = [{name: look[name] for name in look if name not in about} for look in row["history"]]
    numbers = _numbers(row, "test_loss best_epoch parameters test_cut unlabelled_read steps_done")
    return {"result": numbers, "looks": looks}


def _of_tagging(row):
    """Its numbers, the losses of its epochs, and the gradients at both ends and in the middle."""
    numbers = _numbers(row, "test_loss best_epoch parameters vocabulary unseen_words")
    losses = [part["train_loss"] for part in row["history"] if "epoch" in part]
    places = [part for part in row["history"] if "position" in part]
    gradients = [[part["mean"], part["single"]] for part in places[:: max(1, len(places) // 4)]]
    return {"result": numbers, "train_losses": losses, "gradients": gradients}


def _of_frozen(row):
    """Some of its rows."""
    return {"rows": row["history"][::9]}


KINDS = {
    "runs": (RUNS, _of_training),
    "probes": (PROBES, _of_probe),
    "few_shots": (FEW_SHOTS, _of_few_shot),
    "taggings": (TAGGINGS, _of_tagging),
    "frozens": (FROZENS, _of_frozen),
}
GOLDEN = json.loads(FILE.read_text())
CLOSE = {  # by kind of run, and for a name in it
    "runs": {"rel": 1e-3},
    "probes": {"rel": 1e-2, "abs": 2e-4},
    "few_shots": {"rel": 1e-2, "abs": 2e-3},
    "taggings": {"rel": 1e-2},
    "frozens": {"rel": 1e-6},
    "gradients": {"rel": 3e-2, "abs": 1e-6},
    # in %: one text of the smallest sample, 20, may be on the other side of a border elsewhere
    "accuracy": {"rel": 0, "abs": 100 / 20 + 0.01},
}


def test_golden_results_belong_to_this_protocol_and_are_of_every_pooling_trick_probe_and_system():
    for name, number in PROTOCOLS.items():
        assert GOLDEN[name] == number, f"{name.upper()} was raised: run tests/book/test_golden.py"
    assert {run.pooling for run in RUNS.values()} == set(LISTED)
    assert {run.trick for run in RUNS.values()} == {None, *TRICKS}
    assert {probe.probe for probe in PROBES.values()} == set(kinds.PROBES)
    assert {run.system for run in FEW_SHOTS.values()} == {*SYSTEMS, *CONTRAST}


@pytest.fixture(scope="module")
def found(tmp_path_factory, all_here):
    return results(tmp_path_factory.mktemp("golden"))


def check(ours, theirs, kind, name=""):
    """Whatever is in it: numbers are close, and all else is the same."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), name
        for key in theirs:
            check(ours[key], theirs[key], key if key in CLOSE else kind, key)
    elif isinstance(theirs, list):
        for one, other in zip(ours, theirs, strict=True):
            check(one, other, kind, name)
    elif isinstance(theirs, float) or kind in ("few_shots", "taggings"):
        how = "accuracy" if "accuracy" in name and kind == "probes" else kind
        assert ours == pytest.approx(theirs, **CLOSE[how]), name
    else:
        assert ours == theirs, name


@pytest.mark.parametrize("kind, name", [(kind, n) for kind, (own, _) in KINDS.items() for n in own])
def test_results_are_those_of_this_protocol(found, kind, name):
    check(found[kind][name], GOLDEN[kind][name], kind)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = results(Path(scratch))
    there = json.loads(FILE.read_text())
    if all(there.get(name, number) == number for name, number in PROTOCOLS.items()):
        for (
            part,
            runs,
        ) in found.items():  # what the file has of the same protocols stays as it is there
            runs |= {name: old for name, old in there.get(part, {}).items() if name in runs}
    FILE.write_text(json.dumps(PROTOCOLS | found, indent=1) + "\n")
    sys.stdout.write(
        f"{FILE} is written for the protocols {', '.join(map(str, PROTOCOLS.values()))}\n"
    )
