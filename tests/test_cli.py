"""The command line: its verbs, and one line for every mistake."""

import re
import subprocess
import sys

import pytest

SMALL = "synthetic:train=60,validation=20,test=40,shortest=8,longest=12"


def whenpool(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "whenpool", *words],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_help_lists_the_verbs_and_loads_nothing_heavy():
    script = (
        "import sys\nfrom whenpool.cli import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "print(sorted({'torch', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for verb in ("book", "run", "status", "data", "record"):
        assert f"  {verb} " in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", ["book", "run", "status", "data", "record"])
def test_each_verb_has_help(verb):
    done = whenpool(verb, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_version():
    assert re.search(r"whenpool, version \d+\.\d+", whenpool("--version").stdout)


def test_runs_are_done_once_and_counted():
    words = ["--profile", "smoke", "--corpus", SMALL, "--settings", "mid", "--poolings", "max,last"]
    done = whenpool("run", *words, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "2 runs done now, 0 were stored already, 0 failed" in done.stdout
    assert "2/2" in done.stderr  # progress
    assert "0 runs done now, 2 were stored already" in whenpool("run", *words).stdout
    status = whenpool("status", *words).stdout
    assert re.search(r"training_to_skip +2 +0 +0 +0 +2", status)


def test_a_failed_run_is_told_and_sets_the_exit_code():
    words = ["--profile", "smoke", "--corpus", SMALL, "--settings", "mid", "--poolings", "max"]
    done = whenpool("run", *words, "--sizes", "40,1000", "--workers", "1")
    assert done.returncode == 2
    assert "1 runs done now" in done.stdout
    assert "the corpus has 60 train texts, 1,000 were asked for" in done.stderr
    status = whenpool("status", *words, "--sizes", "40,1000").stdout
    assert re.search(r"training_to_skip +1 +0 +1 +0 +2", status)


def test_too_few_texts_of_a_class_are_told_with_the_class(tmp_path):
    rows = [f"text number {n} here,{'bad' if n % 2 else 'good'}" for n in range(30)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]))
    words = ["--chapter", "few_shot", "--systems", "last_words", "--corpus", str(tmp_path / "mine.csv")]
    done = whenpool("run", *words, "--labels", "2,3,12", "--workers", "1")
    assert done.returncode == 2
    assert re.search(r"class 'bad' has 11 training texts, 12 per class were asked for", done.stderr)
    assert "Traceback" not in done.stderr
    assert "2 runs done now" in done.stdout  # what can be done is done


def test_data_lists_what_is_there(tmp_path):
    done = whenpool("data", "--data", str(tmp_path))
    assert done.returncode == 0
    assert f"Data folder: {tmp_path}" in done.stdout
    assert "`whenpool data fetch imdb`" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--profile", "quik"], "profile 'quik' is unknown; choose one of smoke, quick, paper"),
        (["run", "--corpus", "imdbb"], "corpus 'imdbb' is unknown; choose one of synthetic, imdb"),
        (["run", "--corpus", "imdb"], "aclImdb_v1.tar.gz is not in"),
        (["run", "--settings", "centre"], "setting 'centre' is unknown; choose one of standard"),
        (["run", "--poolings", "maximum"], "pooling 'maximum' is unknown; choose one of last"),
        (["run", "--sizes", "1K"], "'1K' is not a list of whole numbers such as 1000,2000"),
        (["run", "--seeds", "0"], "seeds is how many, at least 1, not 0"),
        (["run", "--device", "tpu"], "device 'tpu' is unknown; choose cpu or cuda"),
        (["run", "--chapter", "nothing"], "chapter 'nothing' needs no runs"),
        (["run", "--data", "/nowhere"], "data folder /nowhere is not there"),
        (["run", "--nonsense"], "No such option"),
        (["book", "--corpus", "imdb"], "aclImdb_v1.tar.gz is not in"),
        (["book", "--chapter", "nothing"], "there is no chapter 'nothing'; the book has index"),
        (["book", "--device", "tpu"], "device 'tpu' is unknown"),
        (["data", "fetch"], "name what to fetch: imdb, yelp, yahoo, amazon, glove, wikitext"),
        (["data", "fetch", "imbd"], "'imbd' cannot be fetched"),
        (["data", "list", "imdb"], "only fetch takes names"),
        (["run", "--sizes", ","], "',' is not a list of whole numbers"),
        (
            ["run", "--profile", "paper", "--corpus", "imdb", "--sizes", "3000"],
            "no runs with 3000 training texts; imdb has 1000, 2000, 5000, 10000, 20000",
        ),
        (["run", "--chapter", "few_shot", "--systems", "gpt"], "system 'gpt' is unknown; choose one of"),
        (
            ["run", "--chapter", "few_shot", "--labels", "3,0"],
            "labels are texts of each class, at least 1",
        ),
        (["run", "--chapter", "few_shot", "--labels", "few"], "'few' is not a list of whole numbers"),
        (["run", "--chapter", "few_shot", "--unlabelled", "0"], "unlabelled is a number of texts"),
        (
            ["run", "--chapter", "few_shot", "--systems", "bert", "--encoder", "/nowhere/bert"],
            "encoder '/nowhere/bert' is not here",
        ),
        (
            ["run", "--chapter", "few_shot", "--systems", "uda", "--paraphrases", "none.jsonl"],
            "paraphrases none.jsonl are not there",
        ),
        (["nonsense"], "No such command"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, message):
    done = whenpool(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_missing_cuda_is_one_line():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = whenpool("run", "--profile", "smoke", "--device", "cuda")
    assert done.returncode == 2
    assert "torch sees no GPU; use --device cpu" in done.stderr


def test_outside_a_clone_the_book_says_where_it_is(tmp_path):
    """An installed package, away from the repository."""
    script = "from whenpool import cli, places\nplaces.project_root = lambda: None\ncli.main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "book"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "run this inside a clone" in done.stderr


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("a file")
    done = whenpool("data", "fetch", "imdb", "--data", str(tmp_path / "taken" / "data"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_store_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("a file")
    done = whenpool("run", "--profile", "smoke", "--store", str(tmp_path / "taken" / "store"))
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1  # told before anything was trained
