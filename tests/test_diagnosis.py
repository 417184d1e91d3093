"""A diagnosis: what it concludes from its findings, no more than chance allows and no less; and from a file
to a page, taken up again where it stopped."""

import os
import re
import shlex
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from browsing import DESKTOP, PHONE, looked_at, violations
from click.testing import CliRunner
from outline import outline

from whenpool import InputError, load, load_checkpoint
from whenpool.base.memory import usable_megabytes
from whenpool.book.report.advice import Advice
from whenpool.cli import cli
from whenpool.explain import diagnosis
from whenpool.explain.diagnosis import Wish, diagnose
from whenpool.explain.diagnosis import findings as concluded
from whenpool.explain.diagnosis.data import survey
from whenpool.explain.diagnosis.findings import Findings, Score, evidence_place, evidence_sentence
from whenpool.explain.diagnosis.verdict import advice_on, verdict_on
from whenpool.models.registry import THESIS_POOLINGS
from whenpool.runs.engine import Workforce

HOSTILE = '<script>alert("x")</script>'
POOLINGS = ("last", "max_attention")


def score(pooling, right, total=400, first=0, seeds=(0.0,)):
    """A pooling that gets some texts right, from the ``first`` on; each of the ``seeds`` differs from that by
    so many points."""
    hits = np.zeros(total)
    hits[first : first + right] = 1
    return Score(pooling, tuple(100 * right / total + points for points in seeds), hits, 1.0)


def findings(*scores, simple=(), sweeps=None, test=400, majority=50.0, filler=""):
    rows, point = {}, {"share_added": 0.5, "setting_added": "left"}
    for pooling, value in (sweeps or {}).items():
        rows[pooling] = {"history": [point | {"accuracy": value}], "result": {"texts_probed": 300}}
    scores = tuple(sorted(scores, key=lambda s: -s.accuracy))
    return Findings(scores, tuple(simple), {}, majority, 1_200, test, test, filler, {}, rows, {})


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
    (TIED, {"sweeps": {"mean": 70.0}}, "Take MaxPool", "since MaxPool could not be tested with it"),
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
    ([score("max", 20, 20), score("last", 1, 20)], {"test": 20}, "Too few texts", "give 160 texts or more"),
    # what did not learn is not recommended, however it does under filler
    (ALSO_LEARNT, {"test": 100, "sweeps": {"max": 50.0, "mean": 62.0}}, "Take MaxPool (max)",
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
      for seeds, said in (((0.0,), "One training of .*--seeds"), ((1.0, -1.0), "Two trainings of .*--seeds"),
                          ((1.0, 0.0, -1.0), "^(?!.*--seeds)"))),
])  # fmt: skip
def test_the_verdict_is_no_surer_than_its_findings(scores, more, title, said):
    verdict = verdict_on(findings(*scores, **more))
    assert verdict.title.startswith(title)
    assert re.search(said, " ".join(verdict.sentences))
    named = re.search(r"Take \w+ \((\w+)\)", " ".join([verdict.title, *verdict.sentences]))
    assert verdict.pooling == (named[1] if named else "")


@pytest.mark.parametrize(("lead", "chance"), [(5, True), (6, False), (7, False)])
def test_one_training_each_is_compared_by_the_exact_sign_test(lead, chance):
    """Alone right on n texts, never alone wrong: p = 2^(1 - n), below 5 % from n = 6 on."""
    found = findings(score("max", 300 + lead), score("mean", 300))
    assert [one.may_be_chance for one in found.differences] == [chance]


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
        guessed += bool(concluded.learnt_among([*five(100, 0.5)], 50.0))
        found = findings(*five(300, 0.7), test=300)
        missed += not all(one.may_be_chance for one in found.differences)
    assert guessed <= 20  # at most 2.5 % of 400 are expected
    assert 1 <= missed <= 30  # 5 % of 400 are 20, and exact tests in Bonferroni's way find fewer


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


def test_advice_is_that_of_the_book_and_none_outside_of_it(tmp_path, monkeypatch):
    assert advice_on(200.0, 1_200, "unknown")
    found = {"a": ("holds",), "f": ("not run",), "h": ("so far holds", "not run")}
    given = [Advice(name, "Good.", ("c",) * len(verdicts), verdicts) for name, verdicts in found.items()]
    with monkeypatch.context() as patch:
        patch.setattr("whenpool.explain.diagnosis.verdict.advice_for", lambda *_: given)
        assert [one.id for one in advice_on(200.0, 1_200, "unknown")] == ["a", "h"]
    monkeypatch.setattr("whenpool.book.report.advice.project_root", lambda: None)
    assert advice_on(200.0, 1_200, "unknown") == []


@pytest.mark.parametrize(("groups", "limits", "megabytes"), [
    ("0::/\n", {"memory.max": "512000000"}, 512),
    ("0::/a/b\n", {"memory.max": "max", "a/memory.max": "300000000", "a/b/memory.max": "max"}, 300),
    ("0::/a\n", {"memory.max": "max"}, None),
    ("5:pids:/a\n4:memory:/a\n0::/\n", {"memory/memory.limit_in_bytes": "9223372036854771712",
     "memory/a/memory.limit_in_bytes": "200000000"}, 200),
    ("4:memory:/docker/x\n", {"memory/memory.limit_in_bytes": "100000000"}, 100),
    ("5:pids:/a\n4:memory:/b\n", {"memory/a/memory.limit_in_bytes": "1"}, None),
    (None, {"memory.max": "1"}, None),
])  # fmt: skip
def test_memory_is_that_of_the_container_not_of_its_host(tmp_path, groups, limits, megabytes):
    files = {f"sys/fs/cgroup/{name}": limit for name, limit in limits.items()}
    for name, text in (files | ({"proc/self/cgroup": groups} if groups else {})).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    assert usable_megabytes(tmp_path) == (megabytes or whole)


def test_longer_texts_are_read_where_there_is_more_memory(monkeypatch):
    words = []
    for megabytes in (1, 1_000, 4_000):
        monkeypatch.setattr(diagnosis, "usable_megabytes", lambda megabytes=megabytes: megabytes)
        words.append(diagnosis._words_that_fit(workers=2))
    assert words[0] == 64 < words[1] < words[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A whole diagnosis, as small as it gets, of texts of the embedded corpus with markup in text, label and
    names of columns: its folder, wish, page and what was said."""
    folder = tmp_path_factory.mktemp("diagnosis")
    file, mark = folder / f"a & b {HOSTILE[:8]}.csv", HOSTILE.replace('"', '""')
    corpus = load("synthetic:train=120,validation=20,test=20,shortest=8,longest=14")
    texts = [*corpus.train, *corpus.validation, *corpus.test]
    rows = [f'"{text} {mark}","{label}{mark}"' for text, label in texts]
    file.write_text("\n".join([f'"body{mark}","stars{mark}"', *rows, rows[0], '"","1"']), "utf-8")
    (empty := folder / "no-filler-here").mkdir()
    wish = Wish(
        file, f"body{HOSTILE}", f"stars{HOSTILE}", POOLINGS, epochs=1, limit=160, words=12,
        folder=folder / "out", data=empty,
    )  # fmt: skip
    said = []
    return folder / "out", wish, diagnose(wish, Workforce(workers=1), said.append), said


@pytest.mark.slow
def test_the_page_stands_by_itself_and_nothing_that_the_user_wrote_is_run(made):
    folder, wish, page, _ = made
    text = (folder / "report.html").read_text("utf-8")
    assert text == page.html
    tags, _ = outline(text)
    assert {"script", "img", "link", "iframe", "a"} & {tag for tag, _ in tags} == set()
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;" in text
    assert escape(wish.path.name) in text
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
    with looked_at(chromium, made[2].report, size, scheme) as (page, complaints):
        assert complaints == []
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


@pytest.mark.slow
def test_what_was_used_and_left_out_is_said(made):
    _, _, page, told = made
    text = re.sub(r"\s+", " ", page.html)
    for said in (
        "161 rows have both; 160 texts are used: 96 to train, 32 to choose the best epoch, 32 to test",
        "1 repeated text counts once", "1 row was left out, without words or a label",
        "are longer than 12 words and cut there", "exact sign test",
    ):  # fmt: skip
        assert said in text
    assert page.survey.much_cut
    assert f": 160 texts of 2 classes, 8 runs, written into {page.report.parent}" in told[0]
    assert told[1:-1] == page.survey.notes
    assert told[-1] == "Word vectors: random. Models read up to 12 words of a text."


def accuracy_rows(page):
    table = page[page.index('aria-label="Accuracy by pooling"') :]
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", table[: table.index("</table>")], re.DOTALL)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in rows]
    plain = [[re.sub(r"<.*?>|\s+$", "", cell) for cell in row] for row in cells]
    return {option: more for option, *more in plain}


@pytest.mark.slow
def test_numbers_on_the_page_are_those_of_the_runs(made):
    page, found = made[2], made[2].found
    accuracies = [score.accuracy for score in found.scores]
    assert accuracies == sorted(accuracies, reverse=True)
    rows = accuracy_rows(page.html)
    for score in found.scores:
        between = "{:.1f} to {:.1f}".format(*score.interval)
        assert rows[score.pooling][:2] == [f"{score.accuracy:.1f}", between]
        assert rows[score.pooling][-1] == f"{found.kept(score.pooling):.1f}"
        assert f"{score.accuracy:5.1f} % ({between})" in page.text
        assert score.right.mean() * 100 == pytest.approx(score.accuracy)
        assert score.interval[0] <= score.accuracy <= score.interval[1]
    assert set(found.sweeps) == set(found.gradients) == set(found.importance) == set(POOLINGS)


@pytest.mark.slow
def test_what_probes_could_not_find_is_missing_on_the_page_alone(made):
    page, swept = made[2], made[2].found.sweeps["last"]
    nothing = swept | {"history": [row | {"accuracy": 0.0} for row in swept["history"]]}
    found = replace(page.found, sweeps={"last": nothing}, gradients={}, importance={})
    partly = replace(page, found=found)
    outline(partly.html)
    kept = {option: cells[-1] for option, cells in accuracy_rows(partly.html).items()}
    assert kept == {"last": "0.0", "max_attention": "–", "": ""}
    shown = {line.split()[1]: line.split()[-2:] for line in partly.text.splitlines()[1:3]}
    assert (shown["last"], shown["max_attention"][-1]) == (["0.0", "%"], "–")
    assert "When filler is added" not in replace(page, found=replace(found, sweeps={})).html


@pytest.mark.slow
def test_a_second_call_does_nothing_again_and_more_seeds_only_what_is_new(made):
    folder, wish, page, _ = made

    def stored():
        return {file: file.stat().st_mtime_ns for file in (folder / "runs").glob("*.json")}

    before = stored()
    assert len(before) == 8
    assert {load_checkpoint(folder / "models" / pooling).max_words for pooling in POOLINGS} == {12}
    shown = page.verdict.pooling or page.found.scores[0].pooling
    assert page.explain == f'whenpool explain --model {folder}/models/{shown} --text "..."'
    words = shlex.split(page.again)  # as the page says
    done = CliRunner().invoke(cli, [*words[1:], "--workers", "1"], catch_exceptions=False)
    assert (done.exit_code, stored()) == (0, before)
    assert page.text in done.stdout
    assert f"The report is {folder}/report.html\nTo explain a text: {page.explain}" in done.stdout
    old = folder / "models" / "mean" / "model.json"  # of other texts, which were here before
    old.parent.mkdir()
    another = folder / "models" / "mine" / "model.json"  # which is not ours to remove
    another.parent.mkdir()
    for file in (old, another):
        file.write_text("{}")
        os.utime(file, (1, 1))
    lost = next(file for file in before if '"sweep"' in file.read_text())
    lost.unlink()
    more = diagnose(replace(wish, seeds=2), Workforce(workers=1), lambda line: None)
    now = stored()
    assert (len(now), old.exists(), another.exists()) == (10, False, True)
    assert {file for file in now if before.get(file) == now[file]} == set(before) - {lost}
    assert all(len(score.accuracies) == 2 for score in more.found.scores)
    assert "±" in more.html
    assert "--seeds 2 --epochs 1 --limit 160 --words 12" in more.again


def test_a_file_that_cannot_be_used_leaves_nothing_behind(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("body,stars\nx,1\n")
    with pytest.raises(InputError, match="has no column 'text'"):
        diagnose(Wish(file, "text", "label"), Workforce(workers=1), lambda line: None)
    assert list(tmp_path.iterdir()) == [file]


def test_wishes_that_make_no_sense_are_refused(tmp_path):
    told = {"median": "pooling 'median' is unknown", "max": "must be different ones"}
    for other, message in told.items():
        with pytest.raises(InputError, match=message):
            Wish(tmp_path / "a.csv", "a", "b", ("max", other))
    with pytest.raises(InputError, match="data folder .*nope does not exist; check --data"):
        Wish(tmp_path / "a.csv", "a", "b", data=tmp_path / "nope")


@pytest.mark.slow
def test_vectors_at_hand_are_used_and_a_folder_is_named_apart(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    vectors = [f"w{i} {' '.join(map(str, rng.normal(size=4).round(3)))}\n" for i in range(20)]
    (tmp_path / "glove.6B.100d.txt").write_text("".join(vectors))
    file = tmp_path / "own.csv"
    texts = [[f"w{i}" for i in rng.integers(2, 20, 6)] + [f"w{n % 2}"] for n in range(200)]
    file.write_text("\n".join(["text,label", *(f"{' '.join(t)},{t[-1]}" for t in texts)]))
    (tmp_path / "own.tsv").write_text("")
    monkeypatch.chdir(tmp_path)
    told = []
    wish = Wish(file, "text", "label", ("max",), epochs=1, data=tmp_path)
    page = diagnose(wish, Workforce(workers=1), told.append)
    assert page.report.parent.name == "own.csv-diagnosis"
    assert "Word vectors: glove.6B.100d. Models read up to 7 words of a text." in told
    accuracy = {score.pooling: score.accuracy for score in page.found.baselines}
    assert accuracy["tfidf"] > 80
    assert accuracy["vectors"] > 60
    assert page.verdict.title == "Use TF-IDF with logistic regression"
    assert page.verdict.title in page.text
    again = Wish(file, "text", "label", characters=True, drop_classes_below=5, words=3).command
    assert again.endswith("--words 3 --characters --drop-classes-below 5")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "window"), [(200, 5), (40, 3), (10, 1), (2, 1)])
def test_windows_fit_what_is_read_and_texts_without_thirds_are_left_out(tmp_path, place, words, window):
    file = tmp_path / "long.csv"
    rows = [f"{' '.join(f'w{i}{j}' for j in range(80))},{i % 2}" for i in range(40)]
    file.write_text("\n".join(["text,label", *rows]))
    wish = Wish(file, "text", "label", ("max",), epochs=1, limit=100, folder=tmp_path / "out")
    looked = survey(wish, words)
    plan = concluded.make_plan(looked, place, wish)
    assert (looked.middle, plan.window) == (80, window)
    found = [(probe.k, probe.shortest) for probe in plan.importance.values()]
    assert found == ([(window, 3 * window)] if words > 2 else [])
