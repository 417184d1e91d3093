"""Hostile names and files: nothing of them is run, and a page shows them literally."""

import html
import re

import pandas as pd
import torch
import yaml
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from whenpool.base.paths import project_root
from whenpool.book.chapter import Provenance
from whenpool.book.report.corpora import corpora_table
from whenpool.book.report.tables import CaptionedTable, literal, provenance_line
from whenpool.corpora.tokens import load_vectors

HOSTILE = "<script>alert(1)</script>| x | {ref}`a <b>` `c` **d** $e$ <!-- [f](g) &lt; ~~h~~ :::\n# i"


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


def rendered(markdown):
    """Markdown as the book's parser makes HTML of it, with its extensions."""
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
