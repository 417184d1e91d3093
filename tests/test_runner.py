"""The script that a GPU machine runs: once as it is, on a processor, and its order with a stand-in."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pandas as pd
import pytest

from whenpool.runs.store import Store

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "gpu_runner.sh"
SMALL = "synthetic:train=60,validation=20,test=40,shortest=8,longest=12"


def run(script=SCRIPT, **options):
    """The script with nothing of this environment's own options."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    options = {name: str(value) for name, value in options.items()}
    environment = kept | {"OMP_NUM_THREADS": "1", "PYTHON": sys.executable} | options
    command = ["bash", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Run as it is, in folders of its own, without the book."""
    folder = tmp_path_factory.mktemp("runner")
    done = run(
        PROFILE="smoke", DEVICE="cpu", CORPUS=SMALL, ONLY="setting=mid,pooling=max+last",
        DEADLINE="10m", WORKERS=1, BOOK=0,
        STORE=folder / "runs", OUT=folder / "out", DATA=folder, WHENPOOL_CACHE=folder / "cache",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with tarfile.open(folder / "out" / "whenpool-results.tar.gz") as archive:
        archive.extractall(folder / "unpacked")
        names = archive.getnames()
    return done, folder / "unpacked", names


def test_what_was_asked_for_is_computed_twice_compared_and_packed(smoke):
    done, folder, names = smoke
    trainings = Store(folder / "runs").rows("training")
    assert set(trainings["setting"]) == {"mid"}
    assert sorted(trainings["pooling"]) == ["last", "max"]
    cells = pd.read_csv(folder / "results" / "comparisons.csv")
    assert cells["pairs"].sum() == cells["identical"].sum() == cells["with_weights"].sum() == 4
    assert "4 are identical" in (folder / "twice.txt").read_text()
    assert "device cpu:" in (folder / "check.txt").read_text()
    assert "training_to_skip" in (folder / "status.txt").read_text()
    assert all(name in done.stdout for name in names if "." in Path(name).name)
    assert "== no book was asked for" in done.stdout
    record = ROOT / "data" / "results" / "comparisons.csv"  # nothing smoke-sized is put on record
    assert not record.exists() or "synthetic" not in record.read_text()


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
def test_a_missing_gpu_ends_it_at_once_with_one_line(tmp_path):
    done = run(PROFILE="smoke", OUT=tmp_path / "out", STORE=tmp_path / "runs")
    assert done.returncode == 2
    [line] = done.stderr.strip().splitlines()
    assert line.startswith("gpu_runner: device cuda: torch")
    assert "sees no GPU" in line
    assert not (tmp_path / "out" / "whenpool-results.tar.gz").exists()


STAND_IN = """#!/usr/bin/env bash
[ "$1" = -c ] && exit "${NO_BOOK:-0}"
shift 2
echo "$@" >> "$CALLS"
case $1 in
    check) printf 'note    corpus imdb: not there; fetch it\\nok      corpus yelp: whole\\n' ;;
    run) mkdir -p "$WHENPOOL_STORE"; echo '{}' > "$WHENPOOL_STORE/abc.json" ;;
    book) mkdir -p _build/stage/book; echo '{}' > _build/stage/book/chapter.ipynb ;;
esac
[ "$1" != "${FAILING:-}" ] || exit 2
"""


@pytest.fixture
def clone(tmp_path):
    """A clone whose `whenpool` only notes what it is told."""
    folder = tmp_path / "clone"
    (folder / "scripts").mkdir(parents=True)
    (folder / "data" / "results").mkdir(parents=True)
    (folder / "data" / "results" / "trainings.csv").write_text("key\n")
    shutil.copy(SCRIPT, folder / "scripts")
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)

    def go(**options):
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        script = folder / "scripts" / SCRIPT.name
        done = run(script, PYTHON=stand_in, CALLS=calls, **options)
        return done, [line.split() for line in calls.read_text().splitlines()], folder

    return go


def test_the_order_of_what_it_does_on_a_gpu(clone):
    done, calls, folder = clone(
        TOGETHER=25, PRECISION="tf32", ONLY="table=1.6", DEADLINE="40m", CHAPTER="training_to_skip"
    )
    assert done.returncode == 0, done.stderr
    assert [words[0] for words in calls] == [
        "check", "run", "run", "compare", "run", "record", "book", "status",
    ]  # fmt: skip
    check, first, second, compare, whole, _, book, _ = calls
    assert check[1:] == ["--device", "cuda", "--profile", "paper"]
    for words in (first, second):
        text = " ".join(words)
        assert "--corpus yelp" in text  # the first that is here
        assert "--sizes 1000" in text
        assert "--device cuda --together 25 --precision tf32" in text
    stores = [words[words.index("--store") + 1] for words in (first, second)]
    assert compare[1:4] == [*stores, "--record"]
    assert stores[0] != stores[1]
    assert compare[-2:] == ["--results", "data/results"]
    assert " ".join(whole[1:]) == (
        "--profile paper --device cuda --together 25 --precision tf32 --deadline 40m "
        "--chapter training_to_skip --only table=1.6"
    )
    assert book[-2:] == ["--deadline", "1s"]
    packed = folder / "_build" / "runner" / "whenpool-results.tar.gz"
    with tarfile.open(packed) as archive:
        names = set(archive.getnames())
    assert {"./runs/abc.json", "./results/trainings.csv", "./notebooks/chapter.ipynb"} <= names
    assert not [path for path in packed.parent.iterdir() if path != packed]


MPS = """#!/usr/bin/env bash
if [ "${1:-}" = -d ]; then echo started; else cat; fi >> "$CALLS"
"""


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_session_on_a_gpu_starts_and_stops_mps(tmp_path, device):
    calls = tmp_path / "calls"
    noting = '#!/usr/bin/env bash\necho "works in ${CUDA_MPS_PIPE_DIRECTORY:-turns}" >> "$CALLS"\n'
    for name, text in {"nvidia-cuda-mps-control": MPS, "python": noting}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "packed").mkdir()
    (tmp_path / "blocks").write_text("exact --sizes 1000\n")
    with tarfile.open(tmp_path / "packed.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "packed", "packed")
    own = {"SESSION": tmp_path, "OUT": tmp_path / "out", "WORK": tmp_path / "work"}
    environment = os.environ | {name: str(folder) for name, folder in own.items()}
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": str(tmp_path / "python")}
    environment |= {"DEVICE": device, "CALLS": str(calls), "BLOCKS": str(tmp_path / "blocks")}
    script = ROOT / "scripts" / "gpu_session.sh"
    subprocess.run(["bash", script, "run"], env=environment, check=True, timeout=60)
    works = [f"works in {tmp_path / 'work' / 'mps'}"]
    expected = ["started", "get_server_list", *works, "quit"] if device == "cuda" else ["works in turns"]
    assert calls.read_text().splitlines() == expected


@pytest.mark.parametrize("verb", ["run", "compare", "record", "book", "status"])
def test_what_there_is_is_packed_though_something_failed(clone, verb):
    done, calls, folder = clone(FAILING=verb)
    assert done.returncode == 2
    assert [words[0] for words in calls][4:] == ["run", "record", "book", "status"]
    assert (folder / "_build" / "runner" / "whenpool-results.tar.gz").exists()


def test_without_jupyter_book_or_a_machine_that_is_ready_it_says_so(clone):
    done, calls, _ = clone(NO_BOOK=1, TWICE=0)
    assert done.returncode == 0
    assert "== no book: jupyter-book, jupytext or papermill is not installed" in done.stdout
    assert [words[0] for words in calls] == ["check", "run", "record", "status"]
    done, calls, _ = clone(FAILING="check")
    assert (done.returncode, [words[0] for words in calls]) == (2, ["check"])
