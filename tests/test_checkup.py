"""The look at a machine before long work."""

import re
from unittest.mock import Mock

import pytest
import torch
from archives import make_zhang

from whenpool.cli.doctor import check_machine


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
    make_zhang(
        folder, "yelp_review_polarity_csv", [(1 + n % 2, f"{n} {'word ' * 150}") for n in range(40)]
    )
    return folder


def test_a_machine_that_is_ready_is_described_line_by_line(corpora, tmp_path):
    ready, said = look("paper", data=corpora, store=tmp_path / "runs")
    assert ready
    for words in (f"torch: {re.escape(torch.__version__)}", r"torchtext: 0\.6\.0", "device cpu:",
                  "corpora: yelp; not there: imdb, yahoo, amazon", "word vectors: wiki-reviews.100d",
                  "filler: wiki_sentences.txt", rf"store: {tmp_path}/runs, \d+ GB free"):  # fmt: skip
        assert re.search(words, "\n".join(said))
    assert not list((tmp_path / "runs").iterdir())


def test_a_gpu_is_described_and_one_that_is_not_there_or_cannot_compute_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search("device cuda: .*sees no GPU", "\n".join(look(device="cuda", mark="missing")[1]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A card")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (79e9, 80e9))
    monkeypatch.setattr(torch, "ones", lambda *_, device: torch.zeros(1))
    assert re.search("device cuda: A card, 79 GB free, CUDA None; ", "\n".join(look(device="cuda")[1]))
    failure = RuntimeError("CUDA error: no kernel image is available\nmore lines")
    monkeypatch.setattr(torch, "ones", Mock(side_effect=failure))
    assert "device cuda: CUDA error: no kernel image is available" in look(device="cuda")[1]


@pytest.mark.parametrize(("name", "message"), [
    ("yelp_review_polarity_csv.tgz", "corpora: .*run `whenpool data fetch imdb`"),
    ("wiki-reviews.100d.txt", "word vectors: .*`whenpool data fetch glove`"),
    ("wiki_sentences.txt", "filler: .* has no filler sentences"),
])  # fmt: skip
def test_without_any_corpus_vectors_or_filler_runs_cannot_start(corpora, name, message):
    (corpora / name).unlink()
    ready, [line] = look("paper", data=corpora, mark="missing")
    assert not ready
    assert re.match(message, line)
