"""Hostile names and files: nothing of them is run, a page shows them literally, and a command or a reader
refuses them in one line."""

import html
import json
import os
import re

import pandas as pd
import pytest
import torch
import yaml
from fuzzing import hold, inputs
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from whenpool import TextClassifier, save_checkpoint
from whenpool.base.paths import project_root
from whenpool.book.chapter import Provenance
from whenpool.book.tables import CaptionedTable, literal, provenance_line
from whenpool.corpora import find
from whenpool.corpora.tokens import load_vectors

HOSTILE = "<script>alert(1)</script>| x | {ref}`a <b>` `c` **d** $e$ <!-- [f](g) &lt; ~~h~~ :::\n# i"
BAD_FILES = {
    "empty.csv": b"", "binary.csv": os.urandom(2_000), "few.csv": b"text,label\na,1\n",
    "utf16.csv": "text,label\na,1\n".encode("utf-16"),
    "lines.jsonl": b'{"text": "a", "label": "b"}\n[1]\n',
}  # fmt: skip
BAD_FACTS = {"none": None, "bytes": b"\xff"}
NAMES = [
    *BAD_FILES, "nowhere.csv", "nothing", "imdb:a=b", "synthetic:", "synthetic:classes=3",
    "synthetic:density=nan", "synthetic:train=-1", "few.csv:text_column=label",
]  # fmt: skip
GOOD = ["explain", "--model", "good"]
COMMANDS = [
    *(["diagnose", name] for name in [*BAD_FILES, "nowhere.csv", "folder.csv"]),
    *(["run", "--profile", "smoke", "--corpus", name] for name in NAMES),
    *(["explain", "--model", name, "--text", "a"] for name in (*BAD_FACTS, "nowhere", "few.csv")),
    [*GOOD, "--text", " \n "], [*GOOD, "--file", "empty.csv"], GOOD,
    ["claims", "--chapter", "x"], ["claims", "--verdict", "<b>"], ["run", "--data", "few.csv"],
    ["run", "--encoder", "~nobody/x", "--chapter", "few_shot"], ["run", "--chapter", "../x"],
    ["run", "--poolings", "a\x1b[31m\nb"], ["run", "--paraphrases", "x" * 5_000],
    ["data", "fetch", "../x"],
]  # fmt: skip


def test_torchtexts_pickles_are_never_read(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was read"))
    (tmp_path / "v.txt").write_text("a 1 2 3\nb 4 5 6\n")
    (tmp_path / "cache").mkdir()
    for file in ("v.txt.pt", "cache/v.txt.pt"):
        (tmp_path / file).write_bytes(b"\x80\x04.")
    for _ in range(2):
        assert load_vectors(tmp_path / "v.txt", tmp_path / "cache").words == ["a", "b"]


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files that are not what their names say."""
    folder = tmp_path_factory.mktemp("here")
    for name, content in BAD_FILES.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    model = TextClassifier(3, classes=2, embedding_size=4, hidden_size=4)
    for name, content in {"good": None, **BAD_FACTS}.items():
        saved = save_checkpoint(folder / name, model, ("<unk>", "<pad>", "a"), ("no", "yes"))
        if name != "good":
            (saved / "model.json").unlink()
        if content:
            (saved / "model.json").write_bytes(content)
    return folder


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: repr(" ".join(words)[:60]))
def test_a_mistake_is_one_line_and_exit_code_2(folder, monkeypatch, mistake, words):
    monkeypatch.chdir(folder)
    mistake(*words)


def check_corpus(file):
    corpus = find(str(file)).load()
    splits = corpus.splits.values()
    assert len(corpus.classes) == len(set(corpus.classes)) >= 2
    texts = [text for split in splits for text in split.texts]
    assert len(texts) == len(set(texts))
    assert all(text.strip() for text in texts)
    assert all(split.labels for split in splits)
    assert {label for split in splits for label in split.labels} <= set(range(len(corpus.classes)))
    "".join([*texts, *corpus.classes, *corpus.notes]).encode()  # no halves of characters


def check_vectors(file):
    vectors = load_vectors(file, file.with_name("cache"))
    assert vectors.matrix.shape[0] == len(vectors.words) > 0
    assert bool(torch.isfinite(vectors.matrix).all())


ROWS = [(f"a text, {i} of “many”", "yes" if i % 2 else "no") for i in range(24)]
TABLE = "\n".join(["text,label", *(f'"{text}",{label}' for text, label in ROWS)])
OBJECTS = "\n".join(json.dumps({"text": text, "label": label}) for text, label in ROWS)
VECTORS = "\n".join(f"wörd{i} {i}.5 -{i} 1e-3 4" for i in range(20))


@pytest.mark.parametrize(("parser", "name", "good", "check"), [
    ("csv", "a.csv", TABLE, check_corpus), ("jsonl", "a.jsonl", OBJECTS, check_corpus),
    ("vectors", "v.txt", VECTORS, check_vectors),
])  # fmt: skip
def test_a_file_is_read_or_refused_in_one_line(tmp_path, parser, name, good, check):
    def parse(data):
        (tmp_path / name).write_bytes(data)
        check(tmp_path / name)

    parse(good.encode())
    hold(parser, inputs(good.encode()), parse, name)
