"""Downloads from a real HTTP server on loopback."""

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from whenpool import InputError
from whenpool.corpora import downloads
from whenpool.corpora.downloads import Download, fetch, listing

CONTENT = b"a small archive " * 1000


@pytest.fixture
def server(monkeypatch):
    """Serves `server.files`, notes what was asked for, and is the mirror of all downloads."""
    files = {}
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content, promised = files.get(self.path, (None, 0))
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(promised or len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.files, httpd.asked = files, asked
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    monkeypatch.setenv("WHENPOOL_MIRROR", f"http://127.0.0.1:{httpd.server_port}/")
    yield httpd
    httpd.shutdown()
    httpd.server_close()


def publish(monkeypatch, **changes):
    """One small file takes the place of IMDb's archive."""
    values = {
        "file": "small.tgz",
        "url": "https://publisher.invalid/files/small.tgz",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    } | changes
    monkeypatch.setitem(downloads.SOURCES, "imdb", (Download(**values),))


def test_a_file_is_fetched_once_and_verified(server, tmp_path, monkeypatch):
    publish(monkeypatch)
    server.files["/small.tgz"] = (CONTENT, 0)
    for _ in range(2):
        assert fetch("imdb", tmp_path, progress=False) == [tmp_path / "small.tgz"]
    assert (tmp_path / "small.tgz").read_bytes() == CONTENT
    assert server.asked == ["/small.tgz"]
    lines = list(listing(tmp_path, verify=True))
    assert any("small.tgz (the publisher's, checksum verified)" in line for line in lines)


def test_another_checksum_is_refused_and_nothing_stays(server, tmp_path, monkeypatch):
    publish(monkeypatch)
    server.files["/small.tgz"] = (b"something else", 0)
    with pytest.raises(InputError, match=r"small.tgz could not be fetched .*hash") as error:
        fetch("imdb", tmp_path, progress=False)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_transfer_leaves_nothing_and_can_be_tried_again(server, tmp_path, monkeypatch):
    publish(monkeypatch)
    server.files["/small.tgz"] = (CONTENT[:5000], len(CONTENT))
    with pytest.raises(InputError, match=r"could not be fetched .*try again, set WHENPOOL_MIRROR"):
        fetch("imdb", tmp_path, progress=False)
    assert list(tmp_path.iterdir()) == []
    server.files["/small.tgz"] = (CONTENT, 0)
    fetch("imdb", tmp_path, progress=False)
    assert (tmp_path / "small.tgz").read_bytes() == CONTENT


def test_a_missing_file_and_a_dead_server_are_named(server, tmp_path, monkeypatch):
    publish(monkeypatch)
    with pytest.raises(InputError, match=r"small.tgz could not be fetched \(HTTPError: 404"):
        fetch("imdb", tmp_path, progress=False)
    monkeypatch.setenv("WHENPOOL_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"http://127.0.0.1:9/small.tgz could not be fetched"):
        fetch("imdb", tmp_path, progress=False)


def test_a_file_that_the_user_placed_is_accepted_and_told(server, tmp_path, monkeypatch):
    publish(monkeypatch)
    (tmp_path / "small.tgz").write_bytes(b"the user's own")
    fetch("imdb", tmp_path, progress=False)
    assert (tmp_path / "small.tgz").read_bytes() == b"the user's own"
    assert server.asked == []
    lines = list(listing(tmp_path, verify=True))
    assert any("not the publisher's file, used as it is: sha256" in line for line in lines)


def test_one_file_is_taken_out_of_a_zip_archive(server, tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/wanted.txt", "the 1 2 3")
        archive.writestr("folder/other.txt", "x")
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    publish(
        monkeypatch, file="folder/wanted.txt", url="https://x.invalid/all.zip", sha256=sha256,
        member="folder/wanted.txt",
    )  # fmt: skip
    server.files["/all.zip"] = (buffer.getvalue(), 0)
    assert fetch("imdb", tmp_path, progress=False)[0].read_text() == "the 1 2 3"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "wanted.txt"]


def test_what_an_interrupted_unpacking_has_left_is_not_taken_for_whole(server, tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("wanted.txt", "the whole text")
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    url = "https://x.invalid/all.zip"
    publish(monkeypatch, file="wanted.txt", url=url, sha256=sha256, member="wanted.txt")
    (tmp_path / "all.zip.unpacked").mkdir()
    (tmp_path / "all.zip.unpacked" / "wanted.txt").write_text("the wh")
    server.files["/all.zip"] = (buffer.getvalue(), 0)
    assert fetch("imdb", tmp_path, progress=False)[0].read_text() == "the whole text"


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path, monkeypatch):
    publish(monkeypatch)
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match=r"could not be fetched \((NotADirectory|FileExists)Error"):
        fetch("imdb", tmp_path / "taken" / "data", progress=False)


def test_unknown_names_are_named(tmp_path):
    with pytest.raises(InputError, match="'imbd' cannot be fetched; choose one of imdb, yelp"):
        fetch("imbd", tmp_path)


def test_every_address_is_https_and_every_hash_a_sha256():
    for sources in downloads.SOURCES.values():
        for download in sources:
            assert download.url.startswith("https://")
            assert download.sha256 is None or len(bytes.fromhex(download.sha256)) == 32


def test_the_listing_says_what_is_missing_and_how_to_get_it(tmp_path):
    lines = "\n".join(listing(tmp_path))
    assert "imdb     not there; `whenpool data fetch imdb`" in lines
    assert "amazon   not there; `whenpool data fetch amazon`" in lines
    assert "filler   not there" in lines
