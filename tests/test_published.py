"""The publishers' files: fetched from a server on loopback, read from small archives of our own, and the
real ones where they are."""

import gzip
import hashlib
import io
import json
import threading
import zipfile
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from archives import WORDS, make_imdb

from whenpool import InputError, corpora
from whenpool.corpora import published
from whenpool.corpora.published import Download, fetch, listing

CONTENT = b"a small archive " * 1000


def test_imdb(tmp_path):
    make_imdb(tmp_path)
    corpus = corpora.load("imdb", tmp_path)
    assert (corpus.classes, len(corpus.train), corpus.complete) == (("neg", "pos"), 24, False)
    assert all(f" train {corpus.classes[label]} " in text for text, label in corpus.train)
    assert all(" test " in text for text in corpus.validation.texts + corpus.test.texts)
    assert corpus.notes[0].startswith("aclImdb_v1.tar.gz is not the publisher's file (sha256")
    assert "hold 48 texts, fewer than the publisher's" in corpus.notes[1]
    assert {file.name for file in tmp_path.iterdir()} == {"cache", "aclImdb_v1.tar.gz"}
    with pytest.raises(InputError, match="has no filler sentences: .*`whenpool data fetch wikitext`"):
        corpora.find("imdb", tmp_path).load_filler()


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


def test_a_damaged_archive_is_named_with_what_to_do(tmp_path):
    make_imdb(tmp_path, reviews=200)
    path = tmp_path / "aclImdb_v1.tar.gz"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"Imdb_v1.tar.gz is damaged .*`whenpool data fetch imdb`"):
        corpora.load("imdb", tmp_path)


@pytest.fixture
def server(monkeypatch):
    """The mirror of all downloads, where one small file takes the place of IMDb's archive. It serves its
    ``files``, says that they have the length ``promised`` at least, and notes what was ``asked`` for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            httpd.asked.append(self.path)
            body = httpd.files.get(self.path) or b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(max(httpd.promised, len(body))))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.files, httpd.asked, httpd.promised = {}, [], 0
    values = {"url": "https://x.invalid/files/small.tgz", "sha256": hashlib.sha256(CONTENT).hexdigest()}
    monkeypatch.setitem(published.DOWNLOADS, "imdb", (Download("small.tgz", **values),))
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    monkeypatch.setenv("WHENPOOL_MIRROR", f"http://127.0.0.1:{httpd.server_port}/")
    yield httpd
    httpd.shutdown()
    httpd.server_close()


def test_a_file_is_fetched_once_and_verified(server, tmp_path):
    server.files["/small.tgz"] = CONTENT
    for _ in range(2):
        (file,) = fetch("imdb", tmp_path)
        assert (file, file.read_bytes()) == (tmp_path / "small.tgz", CONTENT)
    assert server.asked == ["/small.tgz"]
    assert "small.tgz (the publisher's, checksum verified)" in " ".join(listing(tmp_path, verify=True))


@pytest.mark.parametrize(("content", "promised", "says"), [
    (b"something else", 0, "hash"), (CONTENT[:5000], len(CONTENT), "try again, set WHENPOOL_MIRROR"),
], ids=["another checksum", "a broken transfer"])  # fmt: skip
def test_a_fetch_that_fails_leaves_nothing(server, tmp_path, content, promised, says):
    server.files["/small.tgz"], server.promised = content, promised
    with pytest.raises(InputError, match=f"small.tgz could not be downloaded .*{says}"):
        fetch("imdb", tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.files["/small.tgz"] = CONTENT
    assert fetch("imdb", tmp_path)[0].read_bytes() == CONTENT


def test_one_file_is_taken_out_of_a_zip_archive(server, tmp_path, monkeypatch):
    buffer, wanted = io.BytesIO(), "folder/wanted.txt"
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in (wanted, "folder/other.txt"):
            archive.writestr(name, "the 1 2 3" if name == wanted else "x")
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    archive = Download(wanted, "https://x.invalid/all.zip", sha256, wanted)
    monkeypatch.setitem(published.DOWNLOADS, "imdb", (archive,))
    server.files["/all.zip"] = buffer.getvalue()
    assert fetch("imdb", tmp_path)[0].read_text() == "the 1 2 3"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "wanted.txt"]


@pytest.mark.parametrize(("name", "classes", "length"), [
    ("imdb", 2, "long"), ("yelp", 2, "long"), ("yahoo", 10, "long"), ("amazon", 13, "long"),
    ("amazon", 13, "short"),
])  # fmt: skip
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
