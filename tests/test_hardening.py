"""Hostile names: a page shows them literally."""

import html
import re

import pandas as pd
import yaml
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from whenpool.base.paths import project_root
from whenpool.book.tables import CaptionedTable, literal

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
