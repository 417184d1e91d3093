"""The publishers' files: fetched, read from small archives of our own, and the real ones where they
are."""

import gzip
import hashlib
import io
import json
import zipfile
from collections import Counter

import pytest
from archives import WORDS, make_imdb

from paper.corpora.downloads import DOWNLOADS, Download, fetch, listing
from whenpool import InputError, corpora
from whenpool.corpora import published

CONTENT = b"a small archive " * 1000


def test_imdb(tmp_path):
    make_imdb(tmp_path)
    corpus = corpora.load("imdb", tmp_path)
    assert (corpus.classes, len(corpus.train), corpus.complete) == (("neg", "pos"), 24, False)
    assert all(f" train {corpus.classes[label]} " in text for text, label in corpus.train)
    assert all(" test " in text for text in corpus.validation.texts + corpus.test.texts)
    assert corpus.notes[0].startswith("aclImdb_v1.tar.gz is not the publisher's file (sha256")
    assert "hold 48 texts, fewer than the publisher's" in corpus.notes[1]
    with pytest.raises(
        InputError, match="has no filler sentences: .*`whenpool data fetch wikitext`"
    ):
        corpora.find("imdb", tmp_path).load_filler()
    path = tmp_path / "aclImdb_v1.tar.gz"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"Imdb_v1.tar.gz is damaged .*`whenpool data fetch imdb`"):
        corpora.load("imdb", tmp_path)


def test_amazon(tmp_path, monkeypatch):
    def write(category, *lines):
        file = tmp_path / "amazon" / f"{category}_5.json.gz"
        file.write_bytes(gzip.compress("\n".join(lines).encode()))

    (tmp_path / "amazon").mkdir()
    for category in ("Books", "Software"):
        texts = [*(f"{WORDS}{category} {i}" for i in range(30)), "w " * 501]
        write(category, *(json.dumps({"reviewText": text}) for text in texts), '{"overall": 5}')
    corpus = corpora.load("amazon", tmp_path)
    assert corpus.classes == ("Books", "Software")
    assert sum(map(len, corpus.splits.values())) in range(57, 61)
    assert all(corpus.classes[label] in text for text, label in corpus.train)
    monkeypatch.setattr(published, "AMAZON_REVIEWS_READ", 12)
    assert len(corpora.load("amazon", tmp_path).train) in range(10, 25)
    write("Books", '{"reviewText": "x"}', "{broken")
    with pytest.raises(InputError, match=r"Books_5.json.gz, line 2: expected a JSON object"):
        corpora.load("amazon", tmp_path)


@pytest.fixture
def served(monkeypatch):
    """What pooch is asked for, and the bytes that it downloads; one small file takes the place of
    IMDb's."""
    asked, content = [], [CONTENT]

    def retrieve(url, known_hash, fname, path, downloader):
        asked.append((url, known_hash))
        if not content:
            raise ValueError("SHA256 hash of downloaded file does not match")
        (path / fname).parent.mkdir(exist_ok=True)
        (path / fname).write_bytes(content[0])
        return str(path / fname)

    monkeypatch.setattr("pooch.retrieve", retrieve)
    monkeypatch.setenv("WHENPOOL_MIRROR", "https://mirror.invalid/")
    values = {
        "url": "https://x.invalid/files/small.tgz",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }
    monkeypatch.setitem(DOWNLOADS, "imdb", (Download("small.tgz", **values),))
    return asked, content


def test_a_file_is_fetched_once_and_verified(served, tmp_path):
    for _ in range(2):
        (file,) = fetch("imdb", tmp_path)
        assert (file, file.read_bytes()) == (tmp_path / "small.tgz", CONTENT)
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    assert served[0] == [("https://mirror.invalid/small.tgz", f"sha256:{sha256}")]
    assert "small.tgz (the publisher's, checksum verified)" in " ".join(listing(tmp_path))
    file.write_bytes(b"another")
    assert "small.tgz (not the publisher's file (sha256" in " ".join(listing(tmp_path))
    file.unlink()
    served[1].clear()
    with pytest.raises(
        InputError, match=r"tgz could not be downloaded \(ValueError: SHA.*try again"
    ):
        fetch("imdb", tmp_path)


def test_one_file_is_taken_out_of_a_zip_archive(served, tmp_path, monkeypatch):
    buffer, wanted = io.BytesIO(), "folder/wanted.txt"
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(wanted, "the 1 2 3")
        archive.writestr("folder/other.txt", "x")
    archive = Download(wanted, "https://x.invalid/all.zip", None, wanted)
    monkeypatch.setitem(DOWNLOADS, "imdb", (archive,))
    served[1][:] = [buffer.getvalue()]
    assert fetch("imdb", tmp_path)[0].read_text() == "the 1 2 3"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "wanted.txt"]


@pytest.mark.parametrize(
    ("name", "classes", "length"),
    [
        ("imdb", 2, "long"),
        ("yelp", 2, "long"),
        ("yahoo", 10, "long"),
        ("amazon", 13, "long"),
        ("amazon", 13, "short"),
    ],
)
def test_real_corpora_are_read_balanced_and_marked(real_data, name, classes, length):
    corpus = corpora.load(name, real_data, length)
    assert (len(corpus.classes), corpus.complete) == (classes, name == "imdb")
    splits = corpus.splits.values()
    counts = Counter(label for split in splits for label in split.labels)
    texts = {text for split in splits for text in split.texts}
    assert len(texts) == counts.total()
    if name == "imdb":  # Table 1.1
        assert [len(split) for split in splits] == [20_000, 5_000, 9_800]
        assert max(len(text.split()) for text in texts) == 2470
    else:
        assert max(counts.values()) - min(counts.values()) <= 3  # but for the rounding of splits
