"""Hostile archives, servers, names and options: nothing is written, run or left to guess."""

import gzip
import hashlib
import html
import io
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest
import requests
import torch
from test_fuzz_texts import reviews

from whenpool import InputError
from whenpool.book.chapter import Provenance
from whenpool.book.report.corpora import corpora_table
from whenpool.book.report.provenance import provenance_line
from whenpool.book.report.tables import CaptionedTable, literal
from whenpool.corpora import downloads
from whenpool.corpora.downloads import Download
from whenpool.corpora.published import load_published
from whenpool.corpora.settings import load_filler
from whenpool.corpora.tokens import load_vectors

HOSTILE = "<script>alert(1)</script>| x | {ref}`a <b>` `c` **d** $e$ <!-- [f](g) &lt; ~~h~~ :::\n# i"


# Archives


def entry(name, kind=tarfile.REGTYPE, link="", data=b""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info, io.BytesIO(data)


def imdb_with(folder, *entries):
    """IMDb's archive with more in it than reviews."""
    file = folder / "aclImdb_v1.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for name, data in reviews().items():
            archive.addfile(*entry(name, data=data))
        for one in entries:
            archive.addfile(*one)
    return file


def everything_below(folder):
    return set(folder.rglob("*"))


@pytest.mark.parametrize(
    "more",
    [
        entry("../../outside.txt", data=b"x"),
        entry("/outside.txt", data=b"x"),
        entry("aclImdb/train/neg/../../../outside.txt", data=b"x"),
        entry("aclImdb/train/neg/9_1.txt", tarfile.SYMTYPE, "/etc/passwd"),
        entry("aclImdb/train/neg/9_1.txt", tarfile.SYMTYPE, "../neg/9_1.txt"),
        entry("aclImdb/train/neg/9_1.txt", tarfile.LNKTYPE, "aclImdb/nowhere"),
        entry("aclImdb/train/neg/9_1.txt", tarfile.CHRTYPE),
        entry("aclImdb/train/neg/9_1.txt", tarfile.FIFOTYPE),
        entry("aclImdb/train/neg/9_1.txt", tarfile.DIRTYPE),
    ],
    ids=["up", "root", "hidden", "link", "loop", "hard link", "device", "pipe", "folder"],
)
def test_nothing_leads_out_of_an_archive(tmp_path, more):
    file = imdb_with(tmp_path, more)
    before = everything_below(tmp_path)
    corpus = load_published("imdb", file, "long")
    assert len(corpus.train) == 6  # the reviews alone
    assert everything_below(tmp_path) == before


def test_a_table_in_an_archive_may_not_be_a_link(tmp_path):
    file = tmp_path / "yelp.tgz"
    with tarfile.open(file, "w:gz") as archive:
        archive.addfile(*entry("yelp/train.csv", tarfile.SYMTYPE, "/etc/passwd"))
    with pytest.raises(InputError, match=r"yelp.tgz holds no train.csv"):
        load_published("yelp", file, "long")


class Zeros(io.RawIOBase):
    """A file of nothing, that takes no place."""

    def __init__(self, size):
        self.left = size

    def readable(self):
        return True

    def readinto(self, buffer):
        size = min(len(buffer), self.left)
        buffer[:size] = bytes(size)
        self.left -= size
        return size


def grown(read):
    """Megabytes that a process of its own needs at its peak to be told that something is too large."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from whenpool import InputError\n"
        "from whenpool.corpora.published import load_published\n"
        "from whenpool.corpora.settings import load_filler\n"
        "from whenpool.corpora.tokens import load_vectors\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "before = peak()\n"
        f"try:\n    {read}\n"
        "except InputError as error:\n    print(error)\n"
        "print(peak() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *said, megabytes = done.stdout.splitlines()
    assert len(said) == 1, done.stdout
    return said[0], float(megabytes)


BOMB = 300 * 2**20


def test_what_unpacks_to_far_more_is_refused_in_little_memory(tmp_path):
    file = tmp_path / "aclImdb_v1.tar.gz"
    info = tarfile.TarInfo("aclImdb/train/neg/1_1.txt")
    info.size = BOMB
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        archive.addfile(info, io.BufferedReader(Zeros(BOMB)))
    assert file.stat().st_size < BOMB / 100
    said, megabytes = grown(f"load_published('imdb', Path({str(file)!r}), 'long')")
    assert "1_1.txt has 314,572,800 bytes, which no text has" in said
    assert megabytes < 150


def test_so_is_a_header_that_names_a_large_part(tmp_path):
    file = tmp_path / "aclImdb_v1.tar.gz"
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, BOMB
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(info.tobuf())
        for _ in range(BOMB // 2**20):
            packed.write(bytes(2**20))
    said, megabytes = grown(f"load_published('imdb', Path({str(file)!r}), 'long')")
    assert "a part is larger than 16 MB" in said
    assert megabytes < 150


@pytest.mark.parametrize(
    ("name", "read"),
    [("amazon/Books_5.json.gz", "load_published('amazon', path.parent, 'long')"),
     ("v.txt.gz", "load_vectors(path, path.parent)")],
)  # fmt: skip
def test_so_is_a_line_without_end(tmp_path, name, read):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    with gzip.open(file, "wb", compresslevel=1) as packed:
        for _ in range(BOMB // 2**20):
            packed.write(b"x" * 2**20)
    said, megabytes = grown(f"path = Path({str(file)!r}); {read}")
    assert "line 1" in said
    assert megabytes < 150


def test_so_are_filler_sentences_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "LARGEST_FILE", 1_000)
    file = tmp_path / "wiki_sentences.txt.gz"
    file.write_bytes(gzip.compress(b"a line .\n" * 1_000))
    with pytest.raises(InputError, match=r"wiki_sentences.txt.gz holds over 1,000 letters"):
        load_filler(file)


# Downloads


def test_what_is_unpacked_has_a_checksum():
    for sources in downloads.SOURCES.values():
        for download in sources:
            assert download.url.startswith("https://")
            assert not download.member or download.sha256
            assert not os.path.isabs(download.file)
            assert ".." not in download.file.split("/")


@pytest.fixture
def servers(monkeypatch, tmp_path):
    """Two servers on loopback: the first leads on to wherever `leads` says, both serve "content"."""
    leads = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            target = leads.get(f"{self.server.server_port}{self.path}")
            self.send_response(302 if target else 200)
            if target:
                self.send_header("Location", target)
            self.send_header("Content-Length", "0" if target else "7")
            self.end_headers()
            self.wfile.write(b"" if target else b"content")

        def log_message(self, *_):
            pass

    both = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    for server in both:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = [server.server_port for server in both]
    monkeypatch.setenv("WHENPOOL_MIRROR", f"http://127.0.0.1:{ports[0]}")
    monkeypatch.setitem(downloads.SOURCES, "imdb", (Download("a.tgz", "https://x.invalid/a.tgz", None),))
    yield ports, leads
    for server in both:
        server.shutdown()
        server.server_close()


def test_a_server_may_lead_on_within_itself(servers, tmp_path):
    (port, _), leads = servers
    leads[f"{port}/a.tgz"] = "/other/a.tgz"
    (file,) = downloads.fetch("imdb", tmp_path, progress=False)
    assert file.read_bytes() == b"content"


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{}/a.tgz", "//127.0.0.1:{}/a.tgz", "file:///etc/passwd"]
)
def test_a_server_may_not_lead_on_to_another_without_https(servers, tmp_path, target):
    (port, other), leads = servers
    leads[f"{port}/a.tgz"] = target.format(other)
    with pytest.raises(InputError, match="it leads on to .* which is not https") as error:
        downloads.fetch("imdb", tmp_path, progress=False)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_no_way_leads_from_https_to_http_even_on_one_server():
    response = requests.Response()
    response.status_code, response.url = 302, "https://a.invalid/x"
    response.headers["location"] = "http://a.invalid/x"
    with pytest.raises(ValueError, match="not https"):
        downloads._stays_secure(response)
    response.headers["location"] = "https://b.invalid/x"
    downloads._stays_secure(response)


def test_a_zip_archive_writes_nothing_but_the_file_that_is_wanted(servers, tmp_path, monkeypatch):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("../out.txt", "/out.txt", "v.txt/../../out.txt"):
            archive.writestr(name, "out")
        archive.writestr("v.txt", "in")
    sha256 = hashlib.sha256(packed.getvalue()).hexdigest()
    monkeypatch.setitem(
        downloads.SOURCES, "imdb", (Download("v.txt", "https://x.invalid/v.zip", sha256, "v.txt"),)
    )
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "v.zip").write_bytes(packed.getvalue())  # as if it had been fetched
    (file,) = downloads.fetch("imdb", folder, progress=False)
    assert file.read_text() == "in"
    assert everything_below(tmp_path) == {tmp_path / "a", folder, file}


# Nothing is run


def test_torchtexts_pickles_are_never_read(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pickle was read")

    monkeypatch.setattr(torch, "load", refuse)
    (tmp_path / "v.txt").write_text("a 1 2 3\nb 4 5 6\n")
    (tmp_path / "v.txt.pt").write_bytes(b"\x80\x04.")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "v.txt.pt").write_bytes(b"\x80\x04.")
    for _ in range(2):
        assert load_vectors(tmp_path / "v.txt", tmp_path / "cache").words == ["a", "b"]


# Pages


def rendered(markdown):
    """Markdown as the book's parser makes HTML of it, with its extensions."""
    import yaml
    from markdown_it.renderer import RendererHTML
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    from whenpool.base.paths import project_root

    config = yaml.safe_load((project_root() / "_config.yml").read_text())
    extensions = set(config["parse"]["myst_enable_extensions"]) - {"substitution"}
    parser = create_md_parser(MdParserConfig(enable_extensions=extensions), RendererHTML)
    return parser.render(markdown)


def cells(page):
    return [html.unescape(cell.strip()) for cell in re.findall(r"<td[^>]*>(.*?)</td>", page, re.DOTALL)]


def test_a_hostile_name_is_shown_and_is_no_markup():
    name = " ".join(HOSTILE.split())
    frame = pd.DataFrame({"corpus": [literal(HOSTILE)], "accuracy": ["**61.5**"]})
    bundle = CaptionedTable(
        frame, "A table.", "tab-x", literal(HOSTILE), literal(HOSTILE)
    )._repr_mimebundle_()
    assert cells(bundle["text/html"]) == [name, "<b>61.5</b>"]
    assert "<script" not in bundle["text/html"]
    notes = re.findall("<small>(.*?)</small>", bundle["text/html"])
    assert [html.unescape(note) for note in notes] == [name, name]
    body = bundle["text/markdown"].partition("\n\n")[2].partition("\n:::\n")[0]
    assert cells(rendered(body)) == [name, "<strong>61.5</strong>"]
    assert "<script" not in rendered(bundle["text/markdown"])
    assert name in bundle["text/plain"]


def test_a_line_of_provenance_says_the_name_of_a_file_and_not_its_folder():
    run = {
        "corpus": f"/home/me/{HOSTILE.replace('/', '')}:label_column=x", "size": 10, "device": HOSTILE,
        "torch": "2", "commit": "c", "seconds": 1.0, "finished": "2026-01-02", "filler": HOSTILE,
    }  # fmt: skip
    line = provenance_line(pd.DataFrame([run]))
    assert "/home/me" not in line
    bundle = Provenance(line)._repr_mimebundle_()
    for shown in (bundle["text/html"], rendered(bundle["text/markdown"].split("\n")[1])):
        assert not re.search(r"<(script|i|b|a|code|em|strong|s|math|h1)\b", shown)
        assert "<script>alert(1)<" in html.unescape(shown)


def test_the_table_of_corpora_shows_a_users_file_literally(place, tmp_path):
    file = tmp_path / "a|b `c` <i>d.csv"
    file.write_text("text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(60)))
    frame = corpora_table(place, [str(file)])
    assert frame["corpus"].iloc[-1] == literal(file.name)
