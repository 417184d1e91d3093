"""Hostile names and files: nothing of them is run, a page shows them literally, and a reader refuses them in
one line."""

import html
import re

import pandas as pd
import yaml
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from whenpool.base.paths import project_root
from whenpool.book.chapter import Provenance
from whenpool.book.tables import CaptionedTable, literal, provenance_line

HOSTILE = "<script>alert(1)</script>| x | {ref}`a <b>` `c` **d** $e$ <!-- [f](g) &lt; ~~h~~ :::\n# i"


def rendered(markdown):
    """Markdown as the book's parser makes HTML of it, with its extensions."""
    config = yaml.safe_load((project_root() / "_config.yml").read_text())
    extensions = set(config["parse"]["myst_enable_extensions"]) - {"substitution"}
    return create_md_parser(MdParserConfig(enable_extensions=extensions), RendererHTML).render(markdown)


def test_a_hostile_name_is_shown_and_is_no_markup():
    def cells(page, tag="td"):
        found = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", page, re.DOTALL)
        return [html.unescape(cell.strip()) for cell in found]

    name, hostile = " ".join(HOSTILE.split()), literal(HOSTILE)
    frame = pd.DataFrame({"corpus": [hostile], "accuracy": ["**61.5**"]})
    bundle = CaptionedTable(frame, "A table.", "tab-x", hostile, hostile)._repr_mimebundle_()
    assert cells(bundle["text/html"]) == [name, "<b>61.5</b>"]
    assert cells(bundle["text/html"], "small") == [name, name]
    body = bundle["text/markdown"].partition("\n\n")[2].partition("\n:::\n")[0]
    assert cells(rendered(body)) == [name, "<strong>61.5</strong>"]
    assert "<script" not in bundle["text/html"] + rendered(bundle["text/markdown"])
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
