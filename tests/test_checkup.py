"""The look at a machine before long work."""

import re
import shutil
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from archives import make_zhang

from whenpool.cli import doctor, main
from whenpool.cli.doctor import check_machine


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
    for words in (f"torch: {re.escape(torch.__version__)}", r"torchtext: 0\.6\.0", "device cpu:",
                  "corpora: synthetic", rf"store: {tmp_path}/runs/smoke, \d+ GB free"):  # fmt: skip
        assert re.search(words, "\n".join(said))
    assert not list((tmp_path / "runs" / "smoke").iterdir())


@pytest.mark.parametrize(("requirement", "message"), [
    ("no-such-package>=1", "no-such-package: .*no-such-package"),
    ("numpy<1", r"numpy: [\d.]+ is installed; pip install 'numpy<1'"),
    ("torchtext==0.6.0", r"torchtext: import of torchtext halted"),
])  # fmt: skip
def test_a_package_that_does_not_fit_is_one_line(monkeypatch, tmp_path, requirement, message):
    project = f'[project]\ndependencies = []\noptional-dependencies.runs = ["{requirement}"]\n'
    (tmp_path / "pyproject.toml").write_text(project)
    monkeypatch.setattr(doctor, "project_root", lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "torchtext", None)
    assert re.match(message, missing())
    assert not any("device" in line for line in look()[1])


@pytest.mark.parametrize(("words", "code", "told"), [
    ("--profile smoke", 0, "ok      corpora: synthetic"),
    ("--data tests --store {}/runs", 2, "missing corpora: none of imdb"),
    ("--device tpu", 2, "whenpool: device 'tpu' is unknown; choose cpu or cuda\n"),
])  # fmt: skip
def test_the_command_exits_with_2_where_no_run_starts(monkeypatch, capsys, tmp_path, words, code, told):
    monkeypatch.setattr("sys.argv", ["whenpool", "check", *words.format(tmp_path).split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert told in "".join(capsys.readouterr())


def test_a_gpu_is_described_and_one_that_is_not_there_or_cannot_compute_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = look(device="cuda", mark="missing")[1]
    assert re.match(r"device cuda: torch \S+ sees no GPU; install a driver", said[0])
    assert not any("corpora" in line for line in look(device="cuda")[1])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A card")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (79e9, 80e9))
    monkeypatch.setattr(torch, "ones", lambda *_, device: torch.zeros(1))
    assert "device cuda: A card, 79 GB free, CUDA None" in look(device="cuda")[1]
    failure = RuntimeError("CUDA error: no kernel image is available\nmore lines")
    monkeypatch.setattr(torch, "ones", Mock(side_effect=failure))
    assert "device cuda: CUDA error: no kernel image is available" in look(device="cuda")[1]


def test_corpora_are_a_part_or_absent_and_runs_can_start(corpora):
    ready, said = look("paper", data=corpora)
    assert ready
    assert {"word vectors: wiki-reviews.100d", "filler: wiki_sentences.txt"} <= set(said)
    lacking = "in part, and no reference runs: yelp; not there: imdb, yahoo, amazon"
    assert f"corpora: yelp; {lacking}" in said


@pytest.mark.parametrize(("name", "message"), [
    ("yelp_review_polarity_csv.tgz", r"corpora: none of imdb, yahoo, amazon, yelp is in \S+; run"),
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
    assert re.match(r"store: cannot write .*taken/smoke", missing(store=tmp_path / "taken"))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2e8))
    store, cache = look(mark="missing")[1]
    assert store.endswith("has 0.2 GB free, but needs 1; name another with --store")
    assert cache.endswith("WHENPOOL_CACHE")
