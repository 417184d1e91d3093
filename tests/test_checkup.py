"""The look at a machine before long work."""

import re
import shutil
from types import SimpleNamespace

import pytest
import torch

from whenpool.cli import doctor as checkup
from whenpool.cli import main
from whenpool.cli.doctor import check_machine, error_beside_processor


def look(profile="smoke", device="cpu", **folders):
    said = []
    ready = check_machine(device, profile, folders.get("data"), folders.get("store"), said.append)
    return ready, said


def lines_of(said, mark):
    return [line[8:] for line in said if line.startswith(f"{mark:8}")]


@pytest.fixture
def corpora(tmp_path):
    """A folder with vectors, filler, and a part of Yelp."""
    import io
    import tarfile

    folder = tmp_path / "corpora"
    folder.mkdir()
    (folder / "wiki-reviews.100d.txt").write_text("word " + "0 " * 100)
    (folder / "wiki_sentences.txt").write_text("\n\n".join(f"Sentence {n} ." for n in range(50)))
    long = " ".join(f"word{n}" for n in range(150))
    with tarfile.open(folder / "yelp_review_polarity_csv.tgz", "w:gz") as archive:
        for name in ("train", "test"):
            rows = "".join(f'"{1 + n % 2}","{name} {n} {long}"\n' for n in range(40)).encode()
            member = tarfile.TarInfo(f"yelp_review_polarity_csv/{name}.csv")
            member.size = len(rows)
            archive.addfile(member, io.BytesIO(rows))
    return folder


def test_a_machine_that_is_ready_is_told_line_by_line(tmp_path):
    ready, said = look(store=tmp_path / "runs")
    assert ready
    assert {line[:8].strip() for line in said} <= {"ok", "note"}
    text = "\n".join(said)
    for words in (f"torch {torch.__version__}", "torchtext 0.6.0", "device cpu:", "corpus synthetic:"):
        assert words in text
    assert re.search(rf"store {tmp_path}/runs/smoke: writable, \d+ GB free", text)
    assert not list((tmp_path / "runs" / "smoke").iterdir())


@pytest.mark.parametrize(
    ("python", "requirement", "message"),
    [
        (">=3.11", "no-such-package>=1", "no-such-package is not installed: pip install 'no-such-"),
        (">=3.11", "numpy<1", r"numpy [\d.]+, <1 is needed: pip install 'numpy<1'"),
        (">=4", "numpy>=1", r"python 3[\d.]+, >=4 is needed: make the environment with another"),
    ],
)  # fmt: skip
def test_a_missing_package_is_one_line_and_nothing_further_is_looked_at(
    monkeypatch, python, requirement, message
):
    monkeypatch.setattr(checkup, "_requirements", lambda: (python, [requirement]))
    ready, said = look()
    assert not ready
    [line] = lines_of(said, "missing")
    assert re.match(message, line)
    assert not any("device" in line for line in said)


def test_a_package_that_does_not_load_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torchtext", None)
    ready, said = look()
    assert not ready
    [line] = lines_of(said, "missing")
    assert re.match(r"torchtext 0\.6\.0 cannot be loaded \(.+\): pip install 'torchtext==0\.6\.0'", line)


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["--profile", "smoke"], 0, "ok      corpus synthetic", ""),
        (["--data", "tests", "--store", "{}/runs"], 2, "missing corpora: none of imdb", ""),
        (["--device", "tpu"], 2, "ok ", "whenpool: device 'tpu' is unknown; choose cpu or cuda\n"),
    ],
)  # fmt: skip
def test_the_verb_exits_with_2_where_runs_cannot_start(
    monkeypatch, capsys, tmp_path, words, code, out, err
):
    words = [word.format(tmp_path) for word in words]
    monkeypatch.setattr("sys.argv", ["whenpool", "check", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code or 0) == code
    told = capsys.readouterr()
    assert out in told.out
    assert told.err == err


def test_without_a_gpu_the_look_ends_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ready, said = look(device="cuda")
    assert not ready
    [line] = lines_of(said, "missing")
    assert re.match(r"device cuda: torch \S+ is built (for CUDA \S+|without CUDA) and sees no GPU", line)
    assert not any("corpus" in line for line in said)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU as torch tells it; what it computes a test says."""
    card = SimpleNamespace(name="A card", total_memory=80e9, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (79e9, 80e9))
    return lambda compute: monkeypatch.setattr(checkup, "error_beside_processor", compute)


def test_a_gpu_is_described(gpu):
    gpu(lambda device: 2e-6)
    ready, said = look(device="cuda")
    assert ready
    line = next(line for line in said if "device cuda" in line)
    assert "A card, 79 of 80 GB free, compute capability 9.0" in line
    assert line.endswith("an encoder differs from the processor's by 2e-06")


def test_a_gpu_that_computes_something_else_is_told(gpu):
    gpu(lambda device: 0.5)
    ready, said = look(device="cuda")
    assert not ready
    assert "differs from the processor's by 5e-01, 1e-03 is allowed" in lines_of(said, "missing")[0]


def test_a_gpu_that_cannot_compute_is_told(gpu):
    def compute(device):
        raise RuntimeError("CUDA error: no kernel image is available\nmore lines")

    gpu(compute)
    ready, said = look(device="cuda")
    assert not ready
    assert lines_of(said, "missing") == [
        "device cuda: it cannot compute (CUDA error: no kernel image is available): free it, or install "
        "a torch for it"
    ]


def test_the_encoder_is_computed_on_both_devices(monkeypatch):
    from whenpool import Encoder

    assert error_beside_processor("cpu") == 0
    plain, calls = Encoder.forward, []

    def forward(self, inputs, lengths):
        calls.append(inputs)
        return plain(self, inputs, lengths) * (1 if len(calls) == 1 else 1.01)

    monkeypatch.setattr(Encoder, "forward", forward)
    assert error_beside_processor("cpu") > 1e-3
    assert len(calls) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_real_gpu_agrees_with_the_processor():
    assert error_beside_processor("cuda") < checkup.LARGEST_ERROR


def test_corpora_are_a_part_or_absent_and_runs_can_start(corpora):
    ready, said = look("paper", data=corpora)
    assert ready
    *absent, part = lines_of(said, "note")
    for name in ("imdb", "yahoo", "amazon"):
        assert f"corpus {name}: not there; `whenpool data fetch {name}` brings it" in absent
    assert re.match(r"corpus yelp: a part or a stand-in, \d+ long training texts; not for", part)
    assert "word vectors: wiki-reviews.100d" in lines_of(said, "ok")
    assert "filler: wiki_sentences.txt" in lines_of(said, "ok")


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("yelp_review_polarity_csv.tgz", r"corpora: none of imdb, yahoo, amazon, yelp is in \S+: run"),
        ("wiki-reviews.100d.txt", r"word vectors: neither glove.6B.100d nor wiki-reviews.100d is in "),
        ("wiki_sentences.txt", "filler: no filler sentences in"),
    ],
)  # fmt: skip
def test_without_any_corpus_vectors_or_filler_runs_cannot_start(corpora, gone, message):
    (corpora / gone).unlink()
    ready, said = look("paper", data=corpora)
    assert not ready
    [line] = lines_of(said, "missing")
    assert re.match(message, line)


def test_a_damaged_corpus_is_told(corpora):
    (corpora / "yelp_review_polarity_csv.tgz").write_bytes(b"nothing")
    ready, said = look("paper", data=corpora)
    assert not ready
    assert "whenpool data fetch yelp" in lines_of(said, "missing")[0]


def test_a_store_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "taken").write_text("a file")
    ready, said = look(store=tmp_path / "taken")
    assert not ready
    [line] = lines_of(said, "missing")
    assert re.match(
        rf"store {tmp_path}/taken/smoke: cannot write .*; or name another with --store", line
    )


def test_a_full_disk_is_told(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2e8))
    ready, said = look()
    assert not ready
    store, cache = lines_of(said, "missing")
    assert "0.2 GB free, 1 GB is needed: free some, or name another folder with --store" in store
    assert cache.endswith("WHENPOOL_CACHE")
