"""Packed data: the same keys and results where neither archives nor torchtext are."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import nullcontext
from dataclasses import replace

import pytest
from archives import make_imdb
from clones import ROOT
from small_runs import SMALL, result_of, wait_for

from whenpool import InputError
from whenpool.cli import cli
from whenpool.cli.program import chosen, planned_runs
from whenpool.runs.compute import compute
from whenpool.runs.kinds.probe import PaddingSweep
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store

pack = importlib.import_module("pack").pack
VECTORS = {word: [0.1 * place] * 8 for place, word in enumerate(["word", "train", "river", "unread"])}
TRAINING = replace(SMALL, corpus="imdb", length="long", size=12, test=8, vectors="small.8d")
OPTIONS = "--profile smoke --corpus imdb --sizes 12 --settings mid --chapter training_to_skip".split()


@pytest.fixture
def place(place):
    make_imdb(place.data, reviews=15)
    sentences = [{"title": f"{n}", "sentence": f"the river number {n} is long"} for n in range(80)]
    (place.data / "wiki_sentences.jsonl").write_text("\n".join(map(json.dumps, sentences)))
    rows = [" ".join([word, *map(str, row)]) for word, row in VECTORS.items()]
    (place.data / "small.8d.txt").write_text("\n".join(rows))
    return place


def test_a_packed_run_has_the_key_and_the_result_of_the_same_run_on_the_archives(place, tmp_path):
    runs = [TRAINING, replace(TRAINING, setting="mid"), PaddingSweep(replace(TRAINING, setting="mid"))]
    runs.append(replace(TRAINING, size=7, draw=1))
    compute(runs, place)
    assert list(pack([*runs, Tagging("ud_ewt")], place, tmp_path / "packed")) == [
        "1 runs are left out: only trainings and probes are packed",
        "imdb, long: 14 train, 10 validation, 8 test texts", "small.8d.txt: 3 of 4 words",
    ]  # fmt: skip
    for file in ("aclImdb_v1.tar.gz", "wiki_sentences.jsonl", "small.8d.txt"):
        assert (tmp_path / "packed" / file).stat().st_size < 200
    packed = Place(Store(tmp_path / "store"), tmp_path / "packed", tmp_path / "packed" / "cache")
    compute(runs, packed)
    for run in runs:
        assert key(run, packed) == key(run, place)
        found, expected = (result_of(run, own) for own in (packed, place))
        assert {**found, "seconds": 0.0} == {**expected, "seconds": 0.0}


def test_what_cannot_be_packed_or_opened_is_told(place, tmp_path):
    with pytest.raises(InputError, match="there are no data to pack; choose other runs"):
        list(pack([Tagging("ud_ewt")], place, tmp_path / "packed"))
    context = cli.commands["status"].make_context("status", ["--packed", str(tmp_path)])
    with pytest.raises(
        InputError, match="this version of whenpool has not packed .*; run scripts/pack.py"
    ):
        chosen(context.params)


@pytest.mark.slow
def test_a_gpu_session_that_is_killed_goes_on_in_the_next_call(place, tmp_path):
    """On a processor, in a folder without git, with torchtext missing, on a fresh machine each time."""
    tree, session = tmp_path / "tree", tmp_path / "session"
    for name in ("lib", "scripts"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "torchtext.py").write_text("raise ModuleNotFoundError(name='torchtext')")
    options = cli.commands["status"].make_context("status", [*OPTIONS, "--data", str(place.data)]).params
    planned, _ = planned_runs(*chosen(options), options["chapters"])
    wanted = [run for runs in planned.values() for run in runs]
    list(pack(wanted, place, session / "packed"))
    with tarfile.open(session / "packed.tar.xz", "w:xz") as archive:
        archive.add(session / "packed", "packed")
    (tmp_path / "blocks").write_text(f"exact {' '.join(OPTIONS)}\n")

    def saved(folder):
        file = folder / "runs.tar.gz.0"
        with tarfile.open(file) if file.exists() else nullcontext() as archive:
            return archive.getnames() if archive else []

    def call(number, is_killed=False):
        out, work = tmp_path / f"out{number}", tmp_path / f"work{number}"
        own = {
            "SESSION": session, "OUT": out, "WORK": work, "BLOCKS": tmp_path / "blocks", "DEVICE": "cpu",
            "PYTHON": sys.executable, "PYTHONPATH": tree, "SAVE_EVERY": 1, "MINUTES": 60,
        }  # fmt: skip
        environment = os.environ | {name: str(value) for name, value in own.items()}
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
        command = ["bash", tree / "scripts" / "gpu_session.sh", "run"]
        child = subprocess.Popen(command, env=environment, text=True, **how)
        if is_killed:
            wait_for(lambda: saved(out) or child.poll() is not None)
            os.killpg(child.pid, signal.SIGKILL)
        said, _ = child.communicate(timeout=600)
        for part in out.glob("runs.tar.gz.*"):
            shutil.copy(part, session)
        return said

    call(1, is_killed=True)
    packed, said = saved(session), call(2)
    assert f"{len(wanted) - len(packed)} runs were done now, {len(packed)} had been stored" in said
    assert "million trained words a second" in said
    compute(wanted, place)
    found = Place(Store(tmp_path / "work2" / "runs" / "exact" / "smoke"), place.data, place.cache)
    for run in wanted:
        assert result_of(run, found)["test_loss"] == result_of(run, place)["test_loss"]
