"""The look at a machine before long work."""

import re
import shutil
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from archives import make_zhang

from whenpool import Encoder
from whenpool.cli import doctor, main
from whenpool.cli.doctor import check_machine, error_beside_processor


def look(profile="smoke", device="cpu", mark="", data=None, store=None):
    """Whether runs can start, and the lines with a mark."""
    said = []
    ready = check_machine(device, profile, data, store, said.append)
    return ready, [line[8:] for line in said if line.startswith(f"{mark:8}" if mark else "")]


def missing(**options):
    ready, [line] = look(mark="missing", **options)
    assert not ready
    return line


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


def test_a_machine_that_is_ready_is_described_line_by_line(tmp_path):
    ready, said = look(store=tmp_path / "runs")
    assert ready
    for words in (f"torch {re.escape(torch.__version__)}", r"torchtext 0\.6\.0", "device cpu:",
                  "corpus synthetic:", rf"store {tmp_path}/runs/smoke: writable, \d+ GB free"):  # fmt: skip
        assert re.search(words, "\n".join(said))
    assert not list((tmp_path / "runs" / "smoke").iterdir())


@pytest.mark.parametrize(("python", "requirement", "message"), [
    (">=3.11", "no-such-package>=1", "no-such-package is not installed: pip install 'no-such-"),
    (">=3.11", "numpy<1", r"numpy is [\d.]+, but <1 is needed: pip install 'numpy<1'"),
    (">=4", "numpy>=1", r"python is 3[\d.]+, but >=4 is needed: use another one for"),
    (">=3.11", "torchtext==0.6.0", r"torchtext 0\.6\.0 cannot be loaded \(.+\): pip install 'torchtex"),
])  # fmt: skip
def test_a_package_that_does_not_fit_is_one_line(monkeypatch, python, requirement, message):
    monkeypatch.setattr(doctor, "_requirements", lambda: (python, [requirement]))
    monkeypatch.setitem(sys.modules, "torchtext", None)
    assert re.match(message, missing())
    assert not any("device" in line for line in look()[1])


@pytest.mark.parametrize(("words", "code", "told"), [
    ("--profile smoke", 0, "ok      corpus synthetic"),
    ("--data tests --store {}/runs", 2, "missing corpora: none of imdb"),
    ("--device tpu", 2, "whenpool: device 'tpu' is unknown; choose cpu or cuda\n"),
])  # fmt: skip
def test_the_command_exits_with_2_where_no_run_starts(monkeypatch, capsys, tmp_path, words, code, told):
    monkeypatch.setattr("sys.argv", ["whenpool", "check", *words.format(tmp_path).split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert told in "".join(capsys.readouterr())


def test_without_a_gpu_the_look_ends_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    line = missing(device="cuda")
    assert re.match(r"device cuda: torch \S+ is built (for CUDA \S+|without CUDA) and sees no GPU", line)
    assert not any("corpus" in line for line in look(device="cuda")[1])


def test_a_gpu_is_described_and_one_that_computes_something_else_or_nothing_is_refused(monkeypatch):
    card = SimpleNamespace(name="A card", total_memory=80e9, major=9, minor=0)
    error = Mock(return_value=2e-6)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (79e9, 80e9))
    monkeypatch.setattr(doctor, "error_beside_processor", error)
    for version, is_slow in ((91200, True), (91300, False)):
        monkeypatch.setattr(torch.backends.cudnn, "version", lambda version=version: version)
        ready, said = look(device="cuda")
        [line] = [line for line in said if "device cuda" in line]
        assert "A card, 79 of 80 GB free, compute capability 9.0" in line
        assert line.endswith("an encoder's results differ from the processor's by 2e-06")
        assert (ready, any("bfloat16 is slow here" in line for line in said)) == (True, is_slow)
    error.return_value = 0.5
    assert "differ from the processor's by 5e-01, more than 1e-03: update" in missing(device="cuda")
    error.side_effect = RuntimeError("CUDA error: no kernel image is available\nmore lines")
    assert "it cannot compute (CUDA error: no kernel image is available): " in missing(device="cuda")


def test_the_encoder_is_computed_on_both_devices(monkeypatch):
    assert error_beside_processor("cpu") == 0
    plain, scale = Encoder.forward, iter((1, 1.01))
    monkeypatch.setattr(Encoder, "forward", lambda *inputs: plain(*inputs) * next(scale))
    assert error_beside_processor("cpu") > 1e-3


def test_corpora_are_a_part_or_absent_and_runs_can_start(corpora):
    ready, (*absent, part) = look("paper", data=corpora, mark="note")
    assert (ready, len(absent)) == (True, 3)
    assert absent[0] == "corpus imdb: not there; `whenpool data fetch imdb` downloads it"
    assert re.match(r"corpus yelp: only a part or a stand-in, \d+ long training texts; its runs", part)
    fine = look("paper", data=corpora, mark="ok")[1]
    assert {"word vectors: wiki-reviews.100d", "filler: wiki_sentences.txt"} <= set(fine)


@pytest.mark.parametrize(("name", "message"), [
    ("yelp_review_polarity_csv.tgz", r"corpora: none of imdb, yahoo, amazon, yelp is in \S+: run"),
    ("wiki-reviews.100d.txt", r"word vectors: neither glove.6B.100d nor wiki-reviews.100d is in "),
    ("wiki_sentences.txt", "filler: .* has no filler sentences"),
])  # fmt: skip
def test_without_any_corpus_vectors_or_filler_runs_cannot_start(corpora, name, message):
    (corpora / name).unlink()
    assert re.match(message, missing(profile="paper", data=corpora))


def test_a_damaged_corpus_a_store_that_is_a_file_and_a_full_disk(corpora, monkeypatch, tmp_path):
    (corpora / "yelp_review_polarity_csv.tgz").write_bytes(b"nothing")
    assert "whenpool data fetch yelp" in missing(profile="paper", data=corpora)
    (tmp_path / "taken").write_text("a file")
    says = "store .*taken/smoke: cannot write .*; or name another folder with --store"
    assert re.fullmatch(says, missing(store=tmp_path / "taken"))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2e8))
    store, cache = look(mark="missing")[1]
    assert "0.2 GB free, but 1 GB is needed; free some; or name another folder with --store" in store
    assert cache.endswith("WHENPOOL_CACHE")
