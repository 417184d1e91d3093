"""A diagnosis: what it concludes from its trainings, no more than chance allows and no less; and
from a file to a page."""

import re
from collections import Counter
from dataclasses import replace
from html import escape, unescape

import numpy as np
import pandas as pd
import pytest
from called import told
from sklearn.metrics import f1_score

from whenpool import InputError, load_checkpoint
from whenpool.corpora.sources import FEWEST
from whenpool.explain.diagnosis import diagnose
from whenpool.explain.places import PLAIN, answered, first_of_each
from whenpool.explain.scores import (
    PLACES,
    Score,
    Task,
    difference,
    differences,
    f1_parts,
    verdict_on,
)
from whenpool.probes.position import folds_of

HOSTILE = '<script>alert("x")</script>'
POOLINGS = ("last", "max_attention")
TFIDF = "Use TF-IDF"


def score(pooling, right, total=400, first=0, filled=0.0):
    """A pooling that gets some texts right, from the ``first`` on."""
    labels = np.arange(total) % 2
    found = np.isin(np.arange(total), range(first, first + right))
    return Score(pooling, pooling.upper(), np.where(found, labels, 1 - labels), labels, filled)


def right(filled=None, **counts):
    return [
        score(name, count, filled=(filled or {}).get(name, 0.0)) for name, count in counts.items()
    ]


@pytest.mark.parametrize(
    "scores, simple, title, words",
    [
        (right(max=340, mean=250, last=200), {}, "Take MAX (max)", "^(?!.*others)"),
        # what cannot be told apart: accuracy and accuracy under filler count alike
        (
            right(max=330, mean=328, last=250, filled={"max": 60.0, "mean": 61.0, "last": 90.0}),
            {},
            "Take MEAN (mean), though others may do as well",
            "cannot tell MAX, MEAN apart",
        ),
        (
            [score("max", 330, filled=60.0), score("mean", 325, first=9, filled=61.0)],
            {},
            "Take MAX (max), though",
            "",
        ),
        # what wins or ties with less is recommended first
        (
            right(max=340, last=240),
            {"TF-IDF": 390, "vectors": 240},
            TFIDF,
            "It is right on 97.5 %.*If you still want a pooling: Take MAX .max.[.]",
        ),
        (right(max=340, last=240), {"TF-IDF": 338}, TFIDF, "84.5 %"),
        (right(max=340, last=240), {"TF-IDF": 250}, "Take MAX (max)", ""),
        # nothing, where nothing was learnt
        (
            right(max=215, last=200),
            {"TF-IDF": 216},
            "No pooling learnt enough",
            "53.8 % of 400 texts",
        ),
    ],
)
def test_the_verdict_is_no_surer_than_its_scores(scores, simple, title, words):
    labels = scores[0].labels
    majority = [Score("", "", np.full_like(labels, half), labels) for half in range(2)]
    baselines = [replace(score("", count), name=name) for name, count in simple.items()]
    pooling, head, sentences = verdict_on(scores, baselines, majority, "")
    assert head.startswith(title)
    assert re.search(words, " ".join(sentences))
    named = re.search(r"Take \w+ \((\w+)\)", " ".join([head, *sentences]))
    assert pooling == (named[1] if named else "")


@pytest.mark.parametrize("order", [1, -1])
def test_the_verdict_does_not_depend_on_which_of_two_classes_comes_first(order):
    """A model is above one of two equal classes by chance, which its texts show and the other's do
    not."""
    labels = np.repeat([0, 1], 30)
    classes = [Score("", "", np.full_like(labels, half), labels) for half in range(2)][::order]
    predicted = np.where(np.arange(60) < 34, labels, 1 - labels)
    title = verdict_on([Score("mean", "MEAN", predicted, labels, 50.0)], [], classes, "")[1]
    assert title == "No pooling learnt enough to be recommended"


def test_the_interval_of_a_difference_is_students_text_by_text():
    gap = differences([score("max", 330), score("mean", 300)])["mean"]
    points = np.repeat([100.0, 0.0], [30, 370])
    half = 1.966 * points.std(ddof=1) / np.sqrt(400)
    assert gap == pytest.approx((7.5, 7.5 - half, 7.5 + half), rel=1e-3)


RARE = np.array(["rare"] * 15 + ["common"] * 185)


def saying(right, wrong, name="max"):
    """A model that finds some rare texts, and takes some common ones for rare."""
    predicted = np.where(
        np.isin(np.arange(200), [*range(right), *range(15, 15 + wrong)]), "rare", "common"
    )
    return Score(name, name.upper(), predicted, RARE)


def test_parts_of_macro_f1_have_its_mean_and_the_spread_of_drawing_texts_again():
    rng = np.random.default_rng(0)
    labels, predicted = rng.choice([*"aaaaaabc"], 400), rng.choice([*"aaabc"], 400)
    parts = f1_parts(labels, predicted)
    assert parts.mean() == pytest.approx(f1_score(labels, predicted, average="macro"))
    draws = rng.integers(400, size=(150, 400))
    again = [f1_score(labels[draw], predicted[draw], average="macro") for draw in draws]
    assert parts.std() / 20 == pytest.approx(np.std(again), rel=0.2)
    model, never = saying(12, 3), saying(0, 0)
    assert difference(model, never)[0] == pytest.approx(model.value - never.value)


def test_where_one_class_has_most_texts_the_verdict_is_by_macro_f1():
    never = saying(0, 0, "mean")  # as the most frequent class, and the most accurate
    model = saying(14, 16)
    assert model.accuracy < never.accuracy
    pooling, title, sentences = verdict_on([never, model], [saying(0, 0, "")], [never], "")
    assert (pooling, title) == ("max", "Take MAX (max)")
    assert f"a macro F1 of {model.value:.1f} % on 200 texts" in sentences[0]
    assert "The largest class has 92.5 % of the texts" in sentences[1]
    assert "compared by macro F1" in sentences[1]
    assert verdict_on([never], [], [never], "")[1] == "No pooling learnt enough to be recommended"


class Memory:
    """Knows the labels of the texts that it has learnt from, and of no others."""

    def __init__(self, texts):
        self.read = {"max": texts[None]}

    def fit(self, task, pooling, texts, labels):
        self.known = dict(zip(texts, labels, strict=True))
        return self

    def predict(self, texts):
        return np.array([self.known.get(text, "unseen") for text in texts])


def test_each_text_is_answered_once_by_a_model_that_has_not_learnt_from_it():
    texts, labels = np.array([f"text {n}" for n in range(30)], object), np.array([*"ab"] * 15)
    task = Task(texts, texts, labels, folds_of(labels, 30), [], None, 1, print)
    some = np.arange(0, 30, 2)
    plain = pd.DataFrame({"text": range(30), "setting": [[*PLACES]] * 30, "share": 0.0})
    filled = pd.DataFrame({"text": some, "setting": "left", "share": 0.5})
    rows = pd.concat([plain, filled], ignore_index=True)
    _, said = answered(task, Memory(texts[rows["text"]]), "max", PLAIN, rows)
    assert {*said["said"]} == {"unseen"}
    cells = said.groupby(["setting", "share"])["text"].agg(sorted).to_dict()
    everywhere = {(place, 0.0): [*range(30)] for place in PLACES}
    assert cells == everywhere | {("left", 0.5): some.tolist()}


def test_of_many_texts_those_that_are_read_in_filler_have_the_shares_of_all():
    labels = pd.Series(["a"] * 600 + ["b"] * 300 + ["c"] * 100)
    assert Counter(labels[first_of_each(labels, 300)]) == {"a": 180, "b": 90, "c": 30}
    assert Counter(labels[first_of_each(labels, 60, equally=True)]) == {"a": 20, "b": 20, "c": 20}
    assert first_of_each(labels, 9)[900:].sum() == FEWEST


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A whole diagnosis, as small as it gets, of a rare and a common class with markup in text,
    label and names of columns: its folder, what was found and what was said."""
    folder = tmp_path_factory.mktemp("diagnosis")
    file, mark = folder / f"a & b {HOSTILE[:8]}.csv", HOSTILE.replace('"', '""')
    classes = [("fine", "good") if n % 10 else ("dull", "bad") for n in range(120)]
    rows = [
        f'"a {word} film <q.{n}@b> and so on and so on {mark}","{label}{mark}"'
        for n, (word, label) in enumerate(classes)
    ]
    file.write_text("\n".join([f'"body{mark}","stars{mark}"', *rows, rows[0], '"","1"']), "utf-8")
    (folder / "own.txt").write_text("fine 1 2\ndull 2 1\n")
    said = []
    found = diagnose(
        file,
        f"body{HOSTILE}",
        f"stars{HOSTILE}",
        poolings=POOLINGS,
        epochs=1,
        words=9,
        workers=1,
        vectors=str(folder / "own.txt"),
        output=folder / "out",
        data=folder,
        say=said.append,
    )
    return file, found, said


def test_the_page_has_the_f1_and_the_confusion_of_each_class(made):
    _, found, _ = made
    classes = [f"{label}{HOSTILE}" for label in ("good", "bad")]
    assert found.by_class["class"].tolist() == found.confusion["class"].tolist() == classes
    assert found.by_class["texts"].tolist() == [108, 12]
    counts = found.confusion.to_numpy()[:, 1:].astype(int)
    assert counts.sum(1).tolist() == [108, 12]
    f1 = 200 * counts.diagonal() / (counts.sum(0) + counts.sum(1))
    page = found.report.read_text()
    shown = re.search("How (.*) confuses them", page)[1]
    assert found.by_class[shown].astype(float).tolist() == pytest.approx(f1.tolist(), abs=0.06)
    row = found.scores.set_index("model").loc[shown]
    assert float(row["macro F1, %"]) == pytest.approx(f1.mean(), abs=0.06)
    assert float(row["accuracy, %"]) == pytest.approx(100 * counts.trace() / 120, abs=0.06)
    assert "24 texts, equally many of each class," in page


def test_models_are_saved_as_they_read_the_texts_of_the_file(made):
    """An address in angle brackets is no markup, also where its parts are words of their own."""
    _, found, _ = made
    for name in POOLINGS:
        saved = load_checkpoint(found.report.parent / "models" / name)
        assert saved.words("A <q.3@b>") == ["a", "<q", ".", "3@b>"]
        assert "<q" in saved.vocabulary


def test_the_page_stands_by_itself_and_nothing_that_the_user_wrote_is_run(made):
    file, found, _ = made
    text = found.report.read_text("utf-8")
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;" in text
    assert escape(file.name) in text
    # but for the marks of a drawing
    assert not re.search(r'<script|<img|<link|(src|href)="(?!#)', text)
    assert text.count('<svg role="img" aria-label="Accuracy with') == 3  # three places of the text


def test_numbers_and_notes_on_the_page_are_those_of_the_trainings(made):
    _, found, said = made
    page = unescape(found.report.read_text("utf-8"))
    *scores, _, _, _ = found.scores.itertuples(index=False)
    assert {row[1] for row in scores} == {*POOLINGS}
    assert float(scores[0][3]) >= float(scores[1][3])
    for cell in [*scores[0], *found.sentences]:
        assert cell in page
        assert cell in found.text
    assert set(found.notes) < set(said)
    for words in ("121 rows of", "1 rows repeat a text", "1 rows were left out", "than 9 words"):
        assert words in page


@pytest.mark.slow
def test_the_command_uses_vectors_at_hand(tmp_path, monkeypatch):
    vectors = [f"w{i} {i % 7} {i % 5} {i % 3} {i % 2}\n" for i in range(20)]
    (tmp_path / "glove.6B.100d.txt").write_text("".join(vectors))
    rows = [f"w{2 + n % 18} w{2 + n % 11} w{2 + n % 7} w{n % 2},{n % 2}" for n in range(100)]
    (tmp_path / "own.csv").write_text("\n".join(["text,label", *rows]))
    monkeypatch.chdir(tmp_path)
    words = "diagnose own.csv --poolings max --epochs 2 --workers 1".split()
    output = told(*words, "--data", str(tmp_path))
    for said in (
        "Word vectors: glove.6B.100d.",
        "The report is own-diagnosis/report.html",
        "mean of vectors with logistic regression",
        "Use TF-IDF with logistic regression",
    ):
        assert said in output


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "has no column 'text'"),
        ({"poolings": ("max", "median")}, "pooling 'median' is unknown"),
        ({"device": "tpu"}, "'tpu' is unknown"),
    ],
)
def test_what_cannot_be_done_leaves_nothing_behind(tmp_path, options, message):
    file = tmp_path / "a.csv"
    file.write_text("body,stars\nx,1\n")
    with pytest.raises(InputError, match=message):
        diagnose(file, **options)
    assert list(tmp_path.iterdir()) == [file]
