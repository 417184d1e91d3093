"""A diagnosis: from a file to a page, taken up again where it stopped."""

import re
import subprocess
import sys
import time
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from browsing import DESKTOP, PHONE, looked_at, needs_browser, violations
from outline import Outline

from whenpool import InputError, load, load_checkpoint
from whenpool.book.printing import opened_browser
from whenpool.explain.diagnosis import Wish, diagnose
from whenpool.explain.diagnosis.data import survey
from whenpool.explain.diagnosis.findings import make_plan
from whenpool.explain.explanation import explain
from whenpool.models.registry import COMPARED
from whenpool.runs.engine import Workforce
from whenpool.runs.run import Place
from whenpool.runs.store import Store

HOSTILE = '<script>alert("x")</script>'
POOLINGS = ("last", "max_attention")


def reviews(path, hostile=""):
    """Texts of the embedded corpus in a file, with markup in text, label and the columns' names."""
    corpus = load("synthetic:train=120,validation=20,test=20,shortest=8,longest=14")
    more = hostile.replace('"', '""')
    texts = [*corpus.train, *corpus.validation, *corpus.test]
    rows = [f'"{text} {more}","{label}{more}"' for text, label in texts]
    header = f'"body{more}","stars{more}"'
    path.write_text("\n".join([header, *rows, rows[0], '"","1"']), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A whole diagnosis, as small as it gets, of hostile texts: its folder, wish and page."""
    folder = tmp_path_factory.mktemp("diagnosis")
    file = reviews(folder / f"a & b {HOSTILE[:8]}.csv", HOSTILE)
    wish = Wish(
        file, f"body{HOSTILE}", f"stars{HOSTILE}", POOLINGS, epochs=1, limit=160, words=12,
        folder=folder / "out", data=folder / "nothing",
    )  # fmt: skip
    told = []
    page = diagnose(wish, Workforce(workers=1), told.append)
    return folder / "out", wish, page, told


def test_the_page_stands_by_itself_and_is_what_was_returned(made):
    folder, _, page, _ = made
    text = (folder / "report.html").read_text("utf-8")
    assert text == page.html
    tags = Outline(text).tags
    assert {"script", "img", "link", "iframe", "a"} & {tag for tag, _ in tags} == set()
    assert not re.search(r'(src|href)="(?!#)', text)  # but for the marks of a drawing
    drawings = [facts for tag, facts in tags if tag == "svg"]
    assert len(drawings) == 6  # accuracy, three places of the text, gradients, importance
    assert all(facts["aria-label"] for facts in drawings)
    ids = [facts["id"] for _, facts in tags if "id" in facts]
    assert len(ids) == len(set(ids))
    assert "#000000" not in text  # black is the page's own ink, which a dark page has too
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert max(np.diff(levels)) <= 1


def test_nothing_that_the_user_wrote_is_run(made):
    folder, wish, _, _ = made
    text = (folder / "report.html").read_text("utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;" in text
    assert escape(wish.path.name) in text


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_the_page_is_for_everyone_and_every_screen(made, size, scheme):
    needs_browser()
    report = made[2].report
    with opened_browser() as browser, looked_at(browser, report, size, scheme) as (page, complaints):
        assert complaints == []
        assert violations(page) == []
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0, f"the page is {wider} pixels wider than the screen"


def test_what_was_used_and_left_out_is_said(made):
    _, _, page, told = made
    text = re.sub(r"\s+", " ", page.html)
    for said in (
        "161 rows had both; 160 texts are used: 96 to train, 32 to choose the best epoch, 32 to test",
        "1 repeated text counts once (texts that are the same as far as they are read are one)",
        "1 row was left out for want of words or a label",
        "are longer than 12 words and cut there",
        "exact sign test",
    ):
        assert said in text
    assert page.survey.much_cut
    assert told[0] == f"{page.survey.name}: 160 texts of 2 classes, 8 runs into {page.report.parent}"
    assert told[1 : 1 + len(page.survey.notes)] == page.survey.notes
    assert told[-2] == "Word vectors: random. Up to 12 words of a text are read."
    assert told[-1].startswith("It takes about 1 min on 1 processors")


def accuracy_rows(page):
    """Cells of the table of accuracies, by option."""
    table = page[page.index('aria-label="Accuracy by pooling"') :]
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", table[: table.index("</table>")], re.DOTALL)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in rows]
    plain = [[re.sub(r"<.*?>|\s+$", "", cell) for cell in row] for row in cells]
    return {option: more for option, *more in plain}


def test_numbers_on_the_page_are_those_of_the_runs(made):
    page = made[2]
    accuracies = [score.accuracy for score in page.found.scores]
    assert accuracies == sorted(accuracies, reverse=True)
    rows = accuracy_rows(page.html)
    for score in page.found.scores:
        kept = page.found.kept(score.pooling)
        between = f"{score.low:.1f} to {score.high:.1f}"
        assert rows[score.pooling][:2] == [f"{score.accuracy:.1f}", between]
        assert rows[score.pooling][-1] == f"{kept:.1f}"
        assert f"{score.accuracy:5.1f} %" in page.text
        assert score.right.mean() * 100 == pytest.approx(score.accuracy)
        assert score.low <= score.accuracy <= score.high
    for probed in (page.found.sweeps, page.found.gradients, page.found.importance):
        assert set(probed) == set(POOLINGS)


def test_what_probes_could_not_find_is_missing_on_the_page_alone(made):
    page = made[2]
    sweeps = {"last": [row | {"accuracy": 0.0} for row in page.found.sweeps["last"]]}
    found = replace(page.found, sweeps=sweeps, gradients={}, importance={}, thirds={})
    partly = replace(page, found=found)
    Outline(partly.html)
    kept = {option: cells[-1] for option, cells in accuracy_rows(partly.html).items()}
    assert kept == {"last": "0.0", "max_attention": "–", "": ""}
    shown = {line.split()[1]: line.split()[-2:] for line in partly.text.splitlines()[1:3]}
    assert (shown["last"], shown["max_attention"][-1]) == (["0.0", "%"], "–")
    assert "When filler is added" not in replace(page, found=replace(found, sweeps={})).html


def test_baselines_that_are_missing_for_want_of_a_package_are_told(made):
    _, _, page, _ = made
    assert "Without scikit-learn" not in page.text + page.html
    without = replace(page, found=replace(page.found, baselines=()))
    for shown in (without.text, without.html):
        assert "Without scikit-learn there are no baselines" in shown


def test_each_model_is_there_to_be_explained(made):
    folder, _, page, _ = made
    for pooling in POOLINGS:
        checkpoint = load_checkpoint(folder / "models" / pooling)
        assert checkpoint.max_words == 12
        text = " ".join(checkpoint.vocabulary[2:30])
        said = checkpoint.probabilities([text])[0].tolist()
        assert explain(checkpoint, text).probabilities == pytest.approx(said, abs=1e-6)
    shown = page.verdict.pooling or page.found.scores[0].pooling
    assert page.explain == f'whenpool explain --model {folder}/models/{shown} --text "..."'


def test_a_second_call_does_nothing_again_and_more_seeds_only_what_is_new(made):
    folder, wish, page, _ = made

    def stored():
        return {file: file.stat().st_mtime_ns for file in (folder / "runs").glob("*.json")}

    before = stored()
    assert len(before) == 8
    again = diagnose(wish, Workforce(workers=1), lambda line: None)
    assert (stored(), again.text) == (before, page.text)
    lost = next(file for file in before if '"sweep"' in file.read_text())
    lost.unlink()
    more = diagnose(replace(wish, seeds=2), Workforce(workers=1), lambda line: None)
    now = stored()
    assert len(now) == 10
    assert {file for file in now if before.get(file) == now[file]} == set(before) - {lost}
    assert all(len(score.accuracies) == 2 for score in more.found.scores)
    assert "±" in more.html
    assert more.again.endswith("--data " + str(wish.data))
    assert "--seeds 2 --epochs 1 --limit 160 --words 12" in more.again


def test_what_was_finished_outlives_a_kill(tmp_path):
    words = [
        sys.executable, "-m", "whenpool", "diagnose", str(reviews(tmp_path / "a.csv")),
        "--text-column", "body", "--label-column", "stars", "--poolings", "max,mean", "--epochs", "1",
        "--words", "12", "--workers", "1", "--output", str(tmp_path / "out"), "--data", str(tmp_path),
    ]  # fmt: skip
    runs = tmp_path / "out" / "runs"
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while not list(runs.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    first.kill()
    first.wait()
    assert not (tmp_path / "out" / "report.html").exists()
    before = {file: file.read_bytes() for file in runs.glob("*.json")}
    assert before
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    after = {file: file.read_bytes() for file in runs.glob("*.json")}
    assert len(after) == 8
    assert before.items() <= after.items()
    assert f"The report: {tmp_path}/out/report.html" in done.stdout
    assert f"whenpool explain --model {tmp_path}/out/models/" in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"poolings": ("max", "median")}, "pooling 'median' is unknown; choose from last"),
        ({"poolings": ("max", "max")}, "poolings are some different ones"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        Wish(**{"path": tmp_path / "a.csv", "text_column": "a", "label_column": "b"} | change)
    assert Wish(tmp_path / "a.csv", "a", "b").poolings == COMPARED


COLUMNS = ["--text-column", "body", "--label-column", "stars"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.csv"], "a.csv has no column 'text'; it has 'body', 'stars'"),
        (["a.csv", "--seeds", "0"], "0 is not in the range"),
        (["a.csv", *COLUMNS, "--output", "a.csv"], "a.csv' is a file"),
        (["a.csv", *COLUMNS, "--vectors", "glove.6B.100d"], "word vectors glove.6B.100d.txt are not in"),
    ],
)
def test_mistakes_are_one_line(tmp_path, words, message):
    reviews(tmp_path / "a.csv")
    done = subprocess.run(
        [sys.executable, "-m", "whenpool", "diagnose", *words],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert message in done.stderr
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_vectors_at_hand_are_used_and_a_folder_is_named_apart(tmp_path, monkeypatch):
    """A word decides, so that both baselines are right; the report says so first."""
    rng = np.random.default_rng(0)
    (tmp_path / "glove.6B.100d.txt").write_text(
        "".join(f"w{i} {' '.join(map(str, rng.normal(size=4).round(3)))}\n" for i in range(20))
    )
    file = tmp_path / "own.csv"
    texts = [[f"w{i}" for i in rng.integers(2, 20, 6)] + [f"w{n % 2}"] for n in range(200)]
    file.write_text("\n".join(["text,label", *(f"{' '.join(t)},{t[-1]}" for t in texts)]))
    (tmp_path / "own.tsv").write_text("")
    monkeypatch.chdir(tmp_path)
    told = []
    page = diagnose(
        Wish(file, "text", "label", ("max",), epochs=1, data=tmp_path), Workforce(workers=1), told.append
    )
    assert page.report.parent.name == "own.csv-diagnosis"
    assert "Word vectors: glove.6B.100d. Up to 7 words of a text are read." in told
    accuracy = {score.pooling: score.accuracy for score in page.found.baselines}
    assert accuracy.keys() == {"tfidf", "vectors"}
    assert accuracy["tfidf"] > 80
    assert accuracy["vectors"] > 60
    assert page.verdict.title == "Use TF-IDF with logistic regression"
    assert "TF-IDF with logistic regression" in page.text
    assert "the mean of those" in page.html
    again = Wish(file, "text", "label", characters=True, drop_classes_below=5, words=3).command
    assert again.endswith("--words 3 --characters --drop-classes-below 5")


def test_few_and_short_texts_give_a_page_that_says_so(tmp_path):
    file = tmp_path / "few.csv"
    rows = [f"w{label}{i},{label}" for label in ("0", "1") for i in range(10)]
    file.write_text("\n".join(["text,label", *rows]))
    wish = Wish(file, "text", "label", ("max",), epochs=1, folder=tmp_path / "out", data=tmp_path)
    page = diagnose(wish, Workforce(workers=1), lambda line: None)
    assert page.verdict.title == "Too few texts to recommend a pooling"
    assert page.plan.importance == {}  # texts of a word have no parts
    Outline(page.html)
    assert "Which words matter" not in page.html


def test_windows_fit_what_is_read_and_texts_without_thirds_are_left_out(tmp_path):
    file = tmp_path / "long.csv"
    rows = [f"{' '.join(f'w{i}{j}' for j in range(80))},{i % 2}" for i in range(40)]
    file.write_text("\n".join(["text,label", *rows]))
    place = Place(Store(tmp_path / "runs"), tmp_path, tmp_path / "cache")
    for words, window in ((200, 5), (40, 3), (10, 1), (2, 1)):
        wish = Wish(file, "text", "label", ("max",), epochs=1, limit=100, folder=tmp_path / "out")
        looked = survey(wish, words)
        plan = make_plan(looked, place, wish)
        assert (looked.middle, plan.window) == (80, window)
        found = [(probe.k, probe.shortest) for probe in plan.importance.values()]
        assert found == ([(window, 3 * window)] if words > 2 else [])


def test_a_file_that_is_not_there_is_told_at_once(tmp_path):
    code = (
        "import sys; from whenpool.cli import main\n"
        "sys.argv = ['whenpool', 'diagnose', 'nowhere.csv']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "corpus file nowhere.csv is not there" in done.stderr
    assert done.stdout == "False\n"
