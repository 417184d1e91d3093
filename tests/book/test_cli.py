"""The command line: its verbs, one line for every mistake, and the look at a machine before long
work."""

import re
import shlex
from functools import partial
from unittest.mock import Mock

import pytest
import torch
from archives import make_zhang
from called import python
from clones import clone
from conftest import told

from paper.runs.check_machine import check_machine

VERBS = "book run status data record export check diagnose explain".split()
SMOKE = "--profile smoke --corpus synthetic:train=60,validation=20,test=40,shortest=8,longest=12"


def test_help_lists_the_verbs_and_loads_nothing_heavy():
    script = (
        "import sys; from whenpool.cli import cli; cli.main(['--help'], standalone_mode=False)\n"
        "print(sorted({'torch', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules)))\n"
        "import paper.runs.engine, paper.fewshot.pretrained\n"
        "print(sorted({'ray', 'transformers'} & set(sys.modules)))"
    )
    *lines, heavy, extra = python(script).stdout.splitlines()
    assert set(VERBS) <= {line.split()[0] for line in lines if line.startswith("  ")}
    assert heavy == extra == "[]"


def test_a_failed_run_is_named_and_sets_the_exit_code(tmp_path, here):
    words = f"{SMOKE} --settings mid --poolings max --sizes 40,1000".split()
    said = told("run", *words, code=1)
    assert "1 runs were done now" in said
    assert "the corpus has 60 train texts, but 1,000 were asked for" in said
    assert re.search(r"training_to_skip +1 +1 +0 +2", told("status", *words))
    rows = [f"text number {n} here,{'bad' if n % 2 else 'good'}" for n in range(30)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]))
    line = f"run --chapter few_shot --systems last_words --corpus {tmp_path}/mine.csv"
    said = told(*line.split(), "--labels", "2,3,12", code=1)
    assert "class 'bad' has 11 training texts, but 12 per class are needed" in said
    assert "2 runs were done now" in said  # what can be done is done


@pytest.mark.parametrize(
    "message, line",
    {
        "profile 'quik' is unknown; choose one of smoke, quick, compact": "run --profile quik",
        "if it holds tagged words, add --chapter sequence_labelling": f"run --corpus {__file__}",
        "--redo computes all runs of its file; leave out": f"run --redo {__file__} --unmasked",
        "'1K' is not a list of whole numbers such as 1000,2000": "run --sizes 1K",
        "chapter 'index' is unknown; choose one of gradient_propagation": "run --chapter index",
        "Directory '/nowhere' does not exist": "run --data /nowhere",
        "'40' is not a time such as 90s, 40m, 2h or 1h30m": "run --deadline 40",
        "chapter 'nothing' is unknown; choose one of index": "book --chapter nothing",
        "no download is named; choose some of imdb, yelp, yahoo, glove, wikitext": "data fetch",
        "options leave no run of training_to_": "run --profile paper --corpus imdb --sizes 3000",
        "no tagged words are in imdb; name": "run --chapter sequence_labelling --corpus imdb",
        "system 'gpt' is unknown; choose one of": "run --chapter few_shot --systems gpt",
        "pooling 'a\\x1b[31m\\nb' is unknown": "run --poolings 'a\x1b[31m\nb'",
        "chapter 'none' is unknown; choose one of gradient_propagation, ": "claims --chapter none",
        "File 'nowhere.csv' does not exist": "diagnose nowhere.csv",
        "--executed executes nothing; leave out --chapter": "book --executed . --chapter index",
        "leave out --profile": f"run --redo {__file__} --profile smoke",
        "No such command": "nonsense",
    }.items(),
)
def test_a_mistake_is_one_line_and_exit_code_2(mistake, message, line):
    assert message in mistake(*shlex.split(line))


def test_runs_are_picked_and_told_without_doing_them(tmp_path, here):
    def files():
        return sorted(path for path in (tmp_path / "store").rglob("*") if path.is_file())

    run = partial(told, *f"run {SMOKE} --settings mid --poolings max,last".split())
    none = "0 had been stored before, 0 were done by another command, 0 failed, 0 lack their data,"
    said = run("--dry-run")
    assert said.startswith("Runs of training_to_skip (profile smoke)")
    assert re.search(r"training_to_skip +0 +2 +0 +2 +\? +\?", said)
    assert files() == []
    said = run("--deadline", "1h")
    assert (
        f"Runs of training_to_skip (profile smoke): 2 runs were done now, {none} 0 are left" in said
    )
    assert re.search(r"accuracy in %\n(?s:.*) mid +\d+ +last +\d+\.\d \(1\)\n", said)
    before = files()
    assert re.search(r"training_to_skip +2 +0 +0 +2 +0 s +\d+ s", run("--dry-run"))
    assert "0 runs were done now, 2 had been stored before" in run()
    assert files() == before != []


def test_the_signal_of_a_batch_scheduler_stops_as_ctrl_c_does():
    """What ctrl-C stops, and how, is in `test_faults.py`."""
    done = python(
        "import signal; from whenpool import cli\n"
        "cli.cli.main = lambda *_, **how: signal.raise_signal(15)\ncli.main()"
    )
    assert (done.returncode, "stopped; finished runs are" in done.stderr) == (130, True)


def test_recording_with_nothing_new_changes_no_byte(tmp_path, monkeypatch):
    results = clone(tmp_path, {"index": "# A page"}) / "data" / "results"
    monkeypatch.chdir(tmp_path)
    before = {file.name: file.read_bytes() for file in results.iterdir()}
    assert "the statistics of 1 corpora are now in" in told("record", "--data", str(tmp_path))
    assert {file.name: file.read_bytes() for file in results.iterdir()} == before


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, mistake):
    missing = ModuleNotFoundError("no", name="pypdf")
    monkeypatch.setattr("paper.pages.print_book.print_book", Mock(side_effect=missing))
    assert "this needs the package pypdf: pip install -e 'lib/paper[print]'" in mistake("pdf")


def test_outside_a_clone_the_book_says_where_it_is(monkeypatch, mistake):
    monkeypatch.setattr("whenpool.base.paths.project_root", lambda: None)
    assert "run this inside a clone" in mistake("book")


def look(profile="smoke", device="cpu", mark="", data=None, store=None):
    """Whether runs can start, and the lines with a mark."""
    said = []
    ready = check_machine(device, profile, data, store, said.append)
    return ready, [line[8:] for line in said if line.startswith(f"{mark:8}" if mark else "")]


@pytest.fixture
def corpora(tmp_path):
    """A folder with vectors, filler, and a part of Yelp."""
    folder = tmp_path / "corpora"
    folder.mkdir()
    (folder / "wiki-reviews.100d.txt").write_text("word " + "0 " * 100)
    (folder / "wiki_sentences.txt").write_text("\n\n".join(f"Sentence {n} ." for n in range(50)))
    rows = [(1 + n % 2, f"{n} {'word ' * 150}") for n in range(40)]
    make_zhang(folder, "yelp_review_polarity_csv", rows)
    return folder


def test_a_machine_that_is_ready_is_described_line_by_line(corpora, tmp_path):
    ready, said = look("paper", data=corpora, store=tmp_path / "runs")
    assert ready
    for words in (
        f"torch: {re.escape(torch.__version__)}",
        r"torchtext: 0\.6\.0",
        "device cpu:",
        "corpora: yelp; not there: imdb, yahoo, amazon",
        "word vectors: wiki-reviews.100d",
        "filler: wiki_sentences.txt",
        rf"store: {tmp_path}/runs, \d+ GB free",
    ):
        assert re.search(words, "\n".join(said))
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    "name, message",
    [
        ("yelp_review_polarity_csv.tgz", "corpora: .*run `whenpool data fetch imdb`"),
        ("wiki-reviews.100d.txt", "word vectors: .*`whenpool data fetch glove`"),
        ("wiki_sentences.txt", "filler: .* has no filler sentences"),
    ],
)
def test_without_any_corpus_vectors_or_filler_runs_cannot_start(corpora, name, message):
    (corpora / name).unlink()
    ready, [line] = look("paper", data=corpora, mark="missing")
    assert not ready
    assert re.match(message, line)
    assert look("quick", data=corpora)[0]  # which reads generated texts
