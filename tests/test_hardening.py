"""Hostile names and files: nothing of them is run, a page shows them literally, and a reader refuses them in
one line."""

import html
import json
import re

import pandas as pd
import pytest
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from whenpool import InputError
from whenpool.base.paths import project_root
from whenpool.book.tables import CaptionedTable, literal
from whenpool.corpora import find
from whenpool.corpora.tokens import load_vectors

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


def check_corpus(file):
    corpus = find(str(file)).load()
    texts = [text for split in corpus.splits.values() for text in split.texts]
    assert len(corpus.classes) == len(set(corpus.classes)) >= 2
    assert len(texts) == len(set(texts))
    assert all(text.strip() for text in texts)
    "".join([*texts, *corpus.classes, *corpus.notes]).encode()  # no halves of characters


def check_vectors(file):
    vectors = load_vectors(file, file.with_name("cache"))
    assert vectors.matrix.shape[0] == len(vectors.words) > 0
    assert bool(torch.isfinite(vectors.matrix).all())


ROWS = [(f"a text, {i} of “many”", "yes" if i % 2 else "no") for i in range(24)]
TABLE = "\n".join(["text,label", *(f'"{text}",{label}' for text, label in ROWS)])
OBJECTS = "\n".join(json.dumps({"text": text, "label": label}) for text, label in ROWS)
VECTORS = "\n".join(f"wörd{i} {i}.5 -{i} 1e-3 4" for i in range(20))


PIECES = [  # bytes that are no text or that a terminal obeys, ends of lines, marks of formats, odd numbers
    b"\x00", b"\x1b[31m", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n\n", "\u2028".encode(), b'"', b"\\",
    b'"\\ud800"', b",", b"{", b"[" * 5_000, b"a " * 50_000, b"NaN", b"1e999", b"null",
]  # fmt: skip


@st.composite
def broken(draw, data):
    """A valid input with up to four changes."""
    for _ in range(draw(st.integers(0, 4))):
        at, piece = draw(st.integers(0, len(data))), draw(st.sampled_from(PIECES))
        inserted, cut = data[:at] + piece + data[at:], data[:at] + data[at + draw(st.integers(1, 60)) :]
        data = draw(st.sampled_from([inserted, cut, data[:at], data.replace(b"\n", b"\r")]))
    return data


@pytest.mark.parametrize(("name", "good", "parse"), [
    ("a.csv", TABLE, check_corpus), ("a.jsonl", OBJECTS, check_corpus), ("v.txt", VECTORS, check_vectors),
])  # fmt: skip
def test_a_file_is_read_or_refused_in_one_line(tmp_path, name, good, parse):
    refused = []

    @settings(max_examples=80, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate])  # fmt: skip
    @given(st.one_of(*[broken(good.encode())] * 3, st.binary(max_size=300)))
    def tried(data):
        (tmp_path / name).write_bytes(data)
        try:
            parse(tmp_path / name)
        except InputError as error:
            refused.append(str(error))

    tried()
    assert 4 < len(refused) < 80  # some are bad, and some good enough
    for message in refused:
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", message)
        assert len(message) <= 2_000
        assert name in message, message[:300]
