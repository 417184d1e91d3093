"""The publishers' files are fetched and verified."""

import hashlib
import io
import zipfile

import pytest
from archives import make_imdb
from called import refused

from paper.corpora.dataset import encode
from paper.corpora.downloads import DOWNLOADS, Download, fetch, listing
from whenpool.corpora import find

CONTENT = b"a small archive " * 1000


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


def test_what_is_no_file_of_the_publisher_is_noted_where_its_texts_are_numbered(tmp_path):
    make_imdb(tmp_path)
    first, second = encode(find("imdb", tmp_path), "any", tmp_path / "cache").notes
    assert first.startswith("aclImdb_v1.tar.gz is not the publisher's file (sha256")
    assert "hold 48 texts, fewer than the publisher's" in second


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
    refused(r"tgz could not be downloaded \(ValueError: SHA.*try again", fetch, "imdb", tmp_path)


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
