"""Whatever is in a file of texts: it is read, or refused in one line that names the file."""

import csv
import gzip
import io
import json

import pytest
import torch
from fuzzing import hold, inputs

from whenpool.corpora import find
from whenpool.corpora.own import SUFFIXES
from whenpool.corpora.settings import load_filler
from whenpool.corpora.tokens import load_vectors
from whenpool.explain.explanation import in_file
from whenpool.fewshot.selection import load_paraphrases

ROWS = [(f"a text, {i} of “many”", "yes" if i % 2 else "no") for i in range(24)]


def table(delimiter):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([("text", "label"), *ROWS])
    return text.getvalue().encode()


def json_lines(rows):
    return "\n".join(json.dumps(row) for row in rows).encode()


def check_corpus(corpus):
    """A corpus that a model could be trained on."""
    splits = (corpus.train, corpus.validation, corpus.test)
    assert len(corpus.classes) == len(set(corpus.classes)) >= 2
    texts = [text for split in splits for text in split.texts]
    assert len(texts) == len(set(texts))
    for split in splits:
        assert len(split) > 0
        assert all(isinstance(text, str) and text.strip() for text in split.texts)
        assert set(split.labels) <= set(range(len(corpus.classes)))
    "".join([*texts, *corpus.classes, *corpus.notes]).encode()  # no halves of characters


@pytest.mark.parametrize(
    ("suffix", "valid"),
    [
        (".csv", (table(","), table(";"))),
        (".tsv", (table("\t"),)),
        (".jsonl", (json_lines([{"text": text, "label": label} for text, label in ROWS]),)),
    ],
)
def test_files_of_the_users_own(tmp_path, suffix, valid):
    assert suffix in SUFFIXES
    file = tmp_path / f"own{suffix}"

    def parse(data):
        file.write_bytes(data)
        check_corpus(find(str(file)).load())

    parse(valid[0])
    hold(f"own {suffix[1:]}", inputs(*valid), parse, file.name)


def test_filler_sentences(tmp_path):
    rows = [{"title": f"Article {i}", "sentence": f"the {i} is a place ."} for i in range(30)]
    wiki = "\n".join(f" = Title {i} = \n\n the {i} is . it was @-@ so . \n" for i in range(30))
    files = {
        "wiki_sentences.jsonl": json_lines(rows),
        "wiki_sentences.txt": "\n\n".join(row["sentence"] for row in rows).encode(),
        "wiki.train.raw": wiki.encode(),
    }

    def parse(data):
        name = next((name for name in files if data.startswith(name.encode())), "wiki.train.raw")
        (tmp_path / name).write_bytes(data.removeprefix(name.encode()))
        for sentences in load_filler(tmp_path / name).values():
            assert sentences
            "".join(sentences).encode()

    valid = [name.encode() + content for name, content in files.items()]
    for content in valid:
        parse(content)
    hold("filler", inputs(*valid), parse, str(tmp_path))


def test_word_vectors(tmp_path):
    lines = "\n".join(f"wörd{i} {i}.5 -{i} 1e-3 4" for i in range(20)).encode()

    def parse(data):
        file = tmp_path / ("v.txt.gz" if data[:1] == b"\x1f" else "v.txt")
        file.write_bytes(data)
        vectors = load_vectors(file, tmp_path / "cache")
        assert vectors.matrix.shape[0] == len(vectors.words) > 0
        assert bool(torch.isfinite(vectors.matrix).all())

    parse(lines)
    hold("vectors", inputs(lines, lines, gzip.compress(lines)), parse, "v.txt")


def test_paraphrases(tmp_path):
    file = tmp_path / "p.jsonl"
    valid = json_lines({"text": f"text {i}", "paraphrases": [f"a {i}", f"b {i}"]} for i in range(6))

    def parse(data):
        file.write_bytes(data)
        found = load_paraphrases(file, ["text 1", "text 2"])
        assert len(found) == 2
        assert len({len(versions) for versions in found}) == 1
        assert all(isinstance(version, str) and version for versions in found for version in versions)

    parse(valid)
    hold("paraphrases", inputs(valid), parse, file.name)


def test_texts_to_explain(tmp_path):
    file = tmp_path / "texts.txt"

    def parse(data):
        file.write_bytes(data)
        assert all(text.strip() for text in in_file(file))

    hold("texts", inputs("one text\nanother, ünd more\n".encode()), parse, file.name)
