"""A diagnosis: what it concludes from its findings, no more than chance allows and no less; and from a file
to a page."""

import json
import re
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from browsing import DESKTOP, PHONE, looked_at, violations
from click.testing import CliRunner
from outline import outline

from whenpool import InputError, load, load_checkpoint
from whenpool.cli import cli
from whenpool.explain.diagnosis import diagnose
from whenpool.explain.findings import (
    Findings,
    Score,
    evidence_place,
    evidence_sentence,
    learnt_among,
    verdict_on,
)
from whenpool.models.registry import THESIS_POOLINGS

HOSTILE = '<script>alert("x")</script>'
POOLINGS = ("last", "max_attention")


def score(pooling, right, total=400, first=0, seeds=(0.0,)):
    """A pooling that gets some texts right, from the ``first`` on; each of the ``seeds`` differs from that by
    so many points."""
    hits = np.zeros(total)
    hits[first : first + right] = 1
    return Score(pooling, tuple(100 * right / total + points for points in seeds), hits, 1.0)


def findings(*scores, simple=(), sweeps=None, texts=400, majority=50.0, filler=""):
    probed, point = {}, {"share_added": 0.5, "setting_added": "left"}
    for pooling, value in (sweeps or {}).items():
        probed[pooling] = {"texts_probed": 300}, [point | {"accuracy": value}]
    scores = tuple(sorted(scores, key=lambda s: -s.accuracy))
    return Findings(scores, tuple(simple), majority, texts, filler, probed)


def right(**counts):
    return [score(pooling, count) for pooling, count in counts.items()]


TIED, ALONE = right(max=330, mean=328), right(max=340, mean=250, last=200)
ALSO_LEARNT = [score("max", 66, 100), score("mean", 52, 100, first=30)]  # more than 50 % is 62 of 100
TFIDF = "Use TF-IDF with logistic regression"


@pytest.mark.parametrize(("scores", "more", "title", "said"), [
    (right(max=330, mean=328, last=250), {"sweeps": {"max": 60.0, "mean": 61.0, "last": 90.0}},
     "Take MeanPool (mean), though others may do as well",
     "may be chance.*MeanPool does best .*82.0 %. and with filler .*61.0 %.*why MaxPool beats BiLSTM"),
    # 1.25 points count for more than 1 under filler
    (right(max=330, mean=325), {"sweeps": {"max": 60.0, "mean": 61.0}}, "Take MaxPool (max), though", ""),
    (right(max=330, mean=330), {}, "Take MaxPool (max), though any may do", ""),
    (TIED, {"sweeps": {"max": 0.0, "mean": 70.0}}, "Take MeanPool (mean), though", "MeanPool does best"),
    # what wins or ties with less is recommended first
    (right(max=340, last=240), {"simple": right(tfidf=390, vectors=240)}, TFIDF,
     "more than MaxPool.*If you still want a pooling: Take MaxPool .max.[.]"),
    (right(max=340, last=240), {"simple": right(tfidf=340)}, TFIDF, "as many as MaxPool"),
    (right(max=340, last=240), {"simple": right(tfidf=336)}, TFIDF, "not clearly fewer"),
    (right(max=340, last=240), {"simple": right(tfidf=250)}, "Take MaxPool (max)", ""),
    # nothing, where nothing was learnt or texts are few
    (right(max=215, last=200), {}, "No pooling learnt enough", ""),
    (right(max=215, last=200), {"simple": right(tfidf=216)}, "No pooling learnt enough", ""),
    ([score("max", 20, 20), score("last", 1, 20)], {"texts": 20}, "Too few texts", "give 30 texts or more"),
    # what did not learn is not recommended, however it does under filler
    (ALSO_LEARNT, {"texts": 100, "sweeps": {"max": 50.0, "mean": 62.0}}, "Take MaxPool (max)",
     "The most frequent class is not clearly worse than MeanPool(?!.*best when)"),
    # two standard errors under filler are 7.2 points
    (ALONE, {"sweeps": {"max": 70.0, "mean": 77.0}}, "Take MaxPool (max)", "^(?!.*filler)"),
    (ALONE, {"sweeps": {"max": 70.0, "mean": 78.0}, "filler": "wiki"}, "Take MaxPool (max)",
     "When filler is added around the texts, MeanPool"),
    (ALONE, {"sweeps": {"max": 70.0, "mean": 78.0}}, "Take", "When filler of invented words is added"),
    (ALONE, {"sweeps": {"max": 78.0, "mean": 70.0}, "filler": "wiki"}, "Take MaxPool",
     "It is also the best when filler is added"),
    (ALONE, {"sweeps": {"max": 70.0, "last": 90.0}}, "Take MaxPool", "^(?!.*filler)"),  # has not learnt
    (ALONE, {"sweeps": {"mean": 90.0}}, "Take MaxPool", "^(?!.*filler)"),
    # the number of trainings is part of it
    *(([score("max", 340, seeds=seeds), score("mean", 240, seeds=seeds)], {}, "Take MaxPool", said)
      for seeds, said in (((0.0,), "--seeds 3 does"), ((1.0, -1.0), "--seeds 3 does"),
                          ((1.0, 0.0, -1.0), "^(?!.*--seeds)"))),
])  # fmt: skip
def test_the_verdict_is_no_surer_than_its_findings(scores, more, title, said):
    verdict = verdict_on(findings(*scores, **more))
    assert verdict.title.startswith(title)
    assert re.search(said, " ".join(verdict.sentences))
    named = re.search(r"Take \w+ \((\w+)\)", " ".join([verdict.title, *verdict.sentences]))
    assert verdict.pooling == (named[1] if named else "")


def test_the_interval_of_a_difference_is_students_text_by_text():
    gap, *_ = findings(score("max", 330), score("mean", 300)).differences
    points = np.repeat([100.0, 0.0], [30, 370])
    half = 1.966 * points.std(ddof=1) / np.sqrt(400)
    assert gap.points == pytest.approx(7.5)
    assert gap.interval == pytest.approx((7.5 - half, 7.5 + half), rel=1e-3)
    assert not gap.may_be_chance


@pytest.mark.parametrize(("lead", "chance"), [(5, True), (6, False), (7, False)])
def test_one_training_each_is_compared_by_the_exact_sign_test(lead, chance):
    """Alone right on n texts, never alone wrong: p = 2^(1 - n), below 5 % from n = 6 on."""
    gaps = findings(score("max", 300 + lead), score("mean", 300)).differences
    assert [gap.may_be_chance for gap in gaps] == [chance]


def test_seeds_that_spread_more_than_texts_widen_the_interval():
    def found(spread):
        seeds = (-spread, 0.0, spread)
        scores = score("max", 300, seeds=seeds), score("mean", 280, seeds=seeds)
        return findings(*scores).differences[0]

    calm, wild = found(0.1), found(10.0)
    assert calm.points == wild.points == pytest.approx(5)
    assert not calm.may_be_chance
    assert wild.may_be_chance
    low, high = wild.interval
    assert (high - low) / 2 == pytest.approx(1.966 * np.hypot(10, 10) / np.sqrt(3), rel=1e-3)


def test_what_may_be_chance_is_taken_for_more_as_seldom_as_it_is_said():
    """Of 400 times five poolings with the same chance to be right on each text. Of five that guess at 100
    texts one is above its own 95 % interval in 1 of 8 times."""
    rng, guessed, missed = np.random.default_rng(0), 0, 0

    def five(texts, chance):
        for name in THESIS_POOLINGS:
            hits = (rng.random(texts) < chance).astype(float)
            yield Score(name, (100 * hits.mean(),), hits, 1.0)

    for _ in range(400):
        guessed += bool(learnt_among([*five(100, 0.5)], 50.0))
        found = findings(*five(300, 0.7), texts=300)
        missed += not all(one.may_be_chance for one in found.differences)
    assert guessed <= 20  # at most 2.5 % of 400 are expected
    assert 1 <= missed <= 30  # 5 % of 400 are 20, and tests in Bonferroni's way find fewer


@pytest.mark.parametrize(("thirds", "where"), [
    ([(0.5, 0.2, 0.2), (0.6, 0.3, 0.3)], "start"), ([(0.2, 0.5, 0.3)], "middle"),
    ([(0.2, 0.2, 0.5)], "end"), ([(0.4, 0.42, 0.41)], "everywhere"),
    ([(0.5, 0.2, 0.2), (0.2, 0.2, 0.5)], "unknown"), ([(0.4, 0.4, 0.2)], "unknown"), ([], "unknown"),
])  # fmt: skip
def test_the_place_of_the_evidence_is_told_only_where_it_is_clear(thirds, where):
    results = [dict(zip(("left", "middle", "right"), part, strict=True)) for part in thirds]
    assert evidence_place(results) == where
    for cut in (False, True):
        said = evidence_sentence(where, ("MaxPool", "MeanPool")[: len(thirds)], cut)
        assert ("MaxPool" in said) == bool(thirds)
        assert ("words that are read" in said) == (cut and bool(thirds))
        assert where in ("everywhere", "unknown") or f" the {where} of" in said


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A whole diagnosis, as small as it gets, of texts of the embedded corpus with markup in text, label and
    names of columns: its folder, page and what was said."""
    folder = tmp_path_factory.mktemp("diagnosis")
    file, mark = folder / f"a & b {HOSTILE[:8]}.csv", HOSTILE.replace('"', '""')
    corpus = load("synthetic:train=80,validation=20,test=20,shortest=8,longest=14")
    texts = [*corpus.train, *corpus.validation, *corpus.test]
    rows = [f'"{text} {mark}","{label}{mark}"' for text, label in texts]
    file.write_text("\n".join([f'"body{mark}","stars{mark}"', *rows, rows[0], '"","1"']), "utf-8")
    said = []
    page = diagnose(
        file, f"body{HOSTILE}", f"stars{HOSTILE}", poolings=POOLINGS, epochs=1, words=12, workers=1,
        vectors="random", output=folder / "out", data=folder, say=said.append,
    )  # fmt: skip
    return file, page, said


def test_the_page_stands_by_itself_and_nothing_that_the_user_wrote_is_run(made):
    file, page, _ = made
    text = page.report.read_text("utf-8")
    tags, _ = outline(text)
    assert {"script", "img", "link", "iframe", "a"} & {tag for tag, _ in tags} == set()
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;" in text
    assert escape(file.name) in text
    assert not re.search(r'(src|href)="(?!#)', text)  # but for the marks of a drawing
    drawings = [facts for tag, facts in tags if tag == "svg"]
    assert len(drawings) == 6  # accuracy, three places of the text, gradients, importance
    assert all(facts["aria-label"] for facts in drawings)
    ids = [facts["id"] for _, facts in tags if "id" in facts]
    assert len(ids) == len(set(ids))
    assert "#000000" not in text  # black is the page's own ink, which a dark page has too


@pytest.mark.slow
@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_the_page_is_for_everyone_and_every_screen(made, chromium, size, scheme):
    with looked_at(chromium, made[1].report, size, scheme) as (page, complaints):
        assert complaints == []
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_what_was_used_and_left_out_is_said(made):
    _, page, said = made
    text = re.sub(r"\s+", " ", page.html)
    for words in (
        "121 rows have both; 120 texts are used", "1 repeated text counts once",
        "1 row was left out, without words or a label", "are longer than 12 words and cut there",
        "by models that learnt from the other two thirds",
    ):  # fmt: skip
        assert words in text
    assert f": 120 texts of 2 classes, 6 trainings, written into {page.report.parent}" in said[0]
    assert set(page.survey.notes) < set(said)
    assert "Word vectors: random. Models read up to 12 words of a text." in said


def accuracy_rows(page):
    table = page[page.index('aria-label="Accuracy by pooling"') :]
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", table[: table.index("</table>")], re.DOTALL)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in rows]
    plain = [[re.sub(r"<.*?>|\s+$", "", cell) for cell in row] for row in cells]
    return {option: more for option, *more in plain}


def test_numbers_on_the_page_are_those_of_the_trainings(made):
    page, result = made[1], made[1].findings
    accuracies = [score.accuracy for score in result.scores]
    assert accuracies == sorted(accuracies, reverse=True)
    rows = accuracy_rows(page.html)
    for score in result.scores:
        assert rows[score.pooling][:2] == [f"{score.accuracy:.1f}", score.range]
        assert rows[score.pooling][-1] == f"{result.under_filler(score.pooling):.1f}"
        assert f"{score.accuracy:5.1f} % ({score.range})" in page.text
        assert (score.right.mean() * 100, len(score.right)) == (pytest.approx(score.accuracy), 120)
    assert set(result.sweeps) == set(result.gradients) == set(result.importance) == set(POOLINGS)
    assert "Which words matter" not in replace(page, findings=replace(result, importance={})).html


def test_the_texts_and_the_models_can_be_used(made):
    _, page, _ = made
    folder = page.report.parent
    texts = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    assert len(load(folder / "texts.jsonl").train) > 50
    saved = {pooling: load_checkpoint(folder / "models" / pooling) for pooling in POOLINGS}
    assert {model.max_words for model in saved.values()} == {12}
    assert {*saved["last"].predict([texts[0]["text"]])} <= {row["label"] for row in texts}
    shown = page.verdict.pooling or page.findings.scores[0].pooling
    assert page.explain == f'whenpool explain --model {folder}/models/{shown} --text "..."'


@pytest.mark.slow
def test_the_command_uses_vectors_at_hand_and_several_seeds(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    vectors = [f"w{i} {' '.join(map(str, rng.normal(size=4).round(3)))}\n" for i in range(20)]
    (tmp_path / "glove.6B.100d.txt").write_text("".join(vectors))
    texts = [[f"w{i}" for i in rng.integers(2, 20, 6)] + [f"w{n % 2}"] for n in range(100)]
    rows = "\n".join(["text,label", *(f"{' '.join(t)},{t[-1]}" for t in texts)])
    (tmp_path / "own.csv").write_text(rows)
    (tmp_path / "own.tsv").write_text("")
    monkeypatch.chdir(tmp_path)
    words = "diagnose own.csv --poolings max --epochs 1 --seeds 2 --workers 1".split()
    done = CliRunner().invoke(cli, [*words, "--data", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    for said in (
        "Word vectors: glove.6B.100d. Models read up to 7 words of a text.", "2 classes, 6 trainings",
        "The report is own.csv-diagnosis/report.html", "TF-IDF with logistic regression: ",
        "mean of the word vectors with logistic regression: ", "Use TF-IDF with logistic regression",
    ):  # fmt: skip
        assert said in done.output


@pytest.mark.parametrize(("options", "message"), [
    ({}, "has no column 'text'"), ({"poolings": ("max", "median")}, "pooling 'median' is unknown"),
    ({"poolings": ("max", "max")}, "must be different ones"), ({"device": "tpu"}, "'tpu' is unknown"),
])  # fmt: skip
def test_what_cannot_be_done_leaves_nothing_behind(tmp_path, options, message):
    file = tmp_path / "a.csv"
    file.write_text("body,stars\nx,1\n")
    with pytest.raises(InputError, match=message):
        diagnose(file, **options)
    with pytest.raises(InputError, match="data folder .*nope does not exist; check --data"):
        diagnose(file, data=tmp_path / "nope")
    assert list(tmp_path.iterdir()) == [file]
