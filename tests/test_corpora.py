"""Selection and splits, the synthetic corpus, files of the user's own, names."""

import csv
import json
from collections import Counter

import pytest

from whenpool import InputError, corpora
from whenpool.corpora.corpus import Raw, SplitSizes, has_length, select_and_split
from whenpool.corpora.sources import measure, statistics_of
from whenpool.corpora.synthetic import Grammar, encyclopedia, make_corpus


def raw(count, label, part="", start=0):
    return [Raw(f"text {label} number {i}", label, part) for i in range(start, start + count)]


def texts_of(corpus):
    return [set(split.texts) for split in (corpus.train, corpus.validation, corpus.test)]


# selection and splits


@pytest.mark.parametrize(
    ("words", "length", "longest", "kept"),
    [
        (100, "long", None, False), (101, "long", None, True), (500, "long", 500, True),
        (501, "long", 500, False), (99, "short", None, True), (100, "short", None, True),
        (101, "short", None, False),
        (0, "short", None, False), (0, "any", None, False), (1, "any", None, True),
    ],
)  # fmt: skip
def test_lengths(words, length, longest, kept):
    assert has_length(" w" * words, length, longest) is kept


def test_splits_share_no_text_and_do_not_depend_on_the_order_of_the_file():
    rows = raw(60, "a") + raw(60, "b")
    sizes = SplitSizes(train=60, test=30, validation=30)
    corpus = select_and_split(rows, sizes, "file")
    assert [len(s) for s in (corpus.train, corpus.validation, corpus.test)] == [60, 30, 30]
    train, validation, test = texts_of(corpus)
    assert not (train & validation | train & test | validation & test)
    assert select_and_split(rows[::-1], sizes, "file") == corpus
    assert corpus.classes == ("a", "b")
    for text, label in corpus.train:
        assert f" {corpus.classes[label]} " in text


def test_repeated_texts_are_kept_once():
    rows = raw(30, "a") + raw(30, "b") + raw(30, "a")
    corpus = select_and_split(rows, SplitSizes(30, 15, 15), "file")
    assert sum(len(s) for s in (corpus.train, corpus.validation, corpus.test)) == 60


def test_each_class_gives_equally_many():
    corpus = select_and_split(raw(500, "a") + raw(100, "b"), SplitSizes(120, 40, 40), "file")
    labels = corpus.train.labels + corpus.validation.labels + corpus.test.labels
    assert Counter(labels) == {0: 100, 1: 100}
    assert 0.35 < sum(corpus.train.labels) / len(corpus.train) < 0.65  # and each split has both


def test_the_publishers_parts_do_not_mix():
    rows = raw(50, "a", "train") + raw(50, "b", "train")
    rows += raw(40, "a", "test", 1000) + raw(40, "b", "test", 1000)
    rows.append(Raw(rows[-1].text, "b", "train"))  # also in the other part
    corpus = select_and_split(rows, SplitSizes(80, 40, 40), "file")
    train, validation, test = texts_of(corpus)
    assert all(int(text.split()[-1]) < 1000 for text in train)
    assert all(int(text.split()[-1]) >= 1000 for text in validation | test)
    assert (len(train), len(validation), len(test)) == (80, 40, 40)


def test_all_splits_shrink_alike_when_there_are_too_few_texts():
    corpus = select_and_split(raw(50, "a") + raw(50, "b"), SplitSizes(1000, 500, 500), "file")
    assert [len(s) for s in (corpus.train, corpus.validation, corpus.test)] == [50, 25, 25]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (raw(9, "a"), "file: only class 'a' was found; classification needs at least two classes"),
        ([], "file: no usable text was found"),
        (raw(1, "a") + raw(1, "b"), "file: 2 usable texts are too few"),
    ],
)
def test_unusable_corpora_are_named(rows, message):
    with pytest.raises(InputError, match=message):
        select_and_split(rows, SplitSizes(6, 2, 2), "file")


def test_numeric_labels_are_ordered_as_numbers():
    rows = [row for label in ("10", "9", "1") for row in raw(10, label)]
    assert select_and_split(rows, SplitSizes(10, 5, 5), "file").classes == ("1", "9", "10")


def test_splits_are_sequences():
    split = make_corpus(Grammar(train=5)).train
    assert len(split[1:3]) == 2
    assert split[1:3].texts == split.texts[1:3]
    assert split[-1].text == split.texts[-1]
    assert [label for _, label in split] == split.labels


# the synthetic corpus


def test_synthetic_texts_keep_their_parameters():
    grammar = Grammar(shortest=30, longest=40, density=0.1, agreement=0.75, train=400)
    corpus = make_corpus(grammar)
    lengths = [len(text.split()) for text in corpus.train.texts]
    assert (min(lengths), max(lengths)) == (30, 40)
    words = [word for text in corpus.train.texts for word in text.split()]
    evidence = {word: name for name, found in grammar.evidence.items() for word in found}
    assert sum(word in evidence for word in words) / len(words) == pytest.approx(0.1, abs=0.01)
    speaks = [
        evidence[word] == corpus.classes[label]
        for text, label in corpus.train
        for word in text.split()
        if word in evidence
    ]
    assert sum(speaks) / len(speaks) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("classes", [2, 10])
def test_synthetic_corpora_are_balanced_deterministic_and_disjoint(classes):
    grammar = Grammar(classes=classes, train=200, validation=50, test=50)
    corpus = make_corpus(grammar)
    assert len(corpus.classes) == classes
    assert set(Counter(corpus.train.labels).values()) == {200 // classes}
    assert make_corpus(grammar) == corpus
    assert make_corpus(Grammar(classes=classes, train=200, seed=1)).train != corpus.train
    train, validation, test = texts_of(corpus)
    assert not (train & validation | train & test | validation & test)


def test_evidence_speaks_for_one_class_only_and_no_filler_holds_any():
    for classes in (2, 10):
        words = [word for found in Grammar(classes=classes).evidence.values() for word in found]
        assert len(words) == len(set(words))
        filler = {word for sentence in encyclopedia("train") for word in sentence.split()}
        assert not filler & set(words)


def test_encyclopedias_of_two_splits_differ():
    assert set(encyclopedia("train")[:100]) != set(encyclopedia("test")[:100])
    assert encyclopedia("train", 20) == encyclopedia("train", 20)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("synthetic:classes=3", "classes=2 or classes=10, not 3"),
        ("synthetic:density=0.5", r"density is a part of all words in \[0, 0.2\], not 0.5"),
        ("synthetic:agreement=2", "agreement is a probability, not 2"),
        ("synthetic:shortest=50,longest=20", "shortest=50 and longest=20 bound no length"),
        ("synthetic:train=0", "at least one text each"),
        ("synthetic:colour=red", "no option 'colour'; it has classes, shortest"),
        ("synthetic:density=much", "option density='much' of the synthetic corpus is not a number"),
        ("synthetic:density", "corpus 'synthetic:density' is unknown"),
        ("imdbb", "corpus 'imdbb' is unknown; choose one of synthetic, imdb, yahoo, amazon, yelp"),
        ("nowhere.csv", "corpus file nowhere.csv is not there"),
        ("imdb:a=1", "corpus 'imdb' takes no options, a was given"),
    ],
)
def test_bad_names_and_options_are_named(spec, message):
    with pytest.raises(InputError, match=message):
        corpora.load(spec)


def test_options_stand_behind_a_colon_or_as_arguments():
    short = corpora.load("synthetic:train=7,shortest=5,longest=6")
    assert corpora.load("synthetic", train=7, shortest=5, longest=6) == short
    assert len(short.train) == 7


# a file of the user's own


def write_csv(path, rows, header=("text", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


ROWS = [(f'a comma, a "quote" and\na new line {i}', "yes" if i % 2 else "no") for i in range(20)]


def test_csv_is_read_and_split(tmp_path):
    name = write_csv(tmp_path / "own.csv", ROWS)
    corpus = corpora.load(name)
    assert corpus.classes == ("no", "yes")
    assert [len(s) for s in (corpus.train, corpus.validation, corpus.test)] == [12, 4, 4]
    assert set().union(*texts_of(corpus)) == {text for text, _ in ROWS}


def test_columns_can_be_named(tmp_path):
    name = write_csv(tmp_path / "own.csv", ROWS, ("body", "stars"))
    expected = corpora.load(write_csv(tmp_path / "other.csv", ROWS)).train
    assert corpora.load(name, text_column="body", label_column="stars").train == expected
    assert corpora.load(f"{name}:text_column=body,label_column=stars").train == expected
    with pytest.raises(InputError, match="has no column 'text'; it has 'body', 'stars'"):
        corpora.load(name)
    with pytest.raises(InputError, match="has the options text_column, label_column and balanced, not"):
        corpora.load(name, colour="red")


def test_jsonl_is_read(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(json.dumps({"text": t, "label": i % 2}) for i, (t, _) in enumerate(ROWS)))
    assert corpora.load(str(path)).classes == ("0", "1")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.csv", "text,label\ngood,1\n,0\n", "a.csv, line 3: no text in column 'text'"),
        ("a.csv", "text,label\ngood,1\nbad, \n", "a.csv, line 3: no label in column 'label'"),
        ("a.csv", "text,label\ngood\n", "a.csv, line 2: no label in column 'label'"),
        ("a.csv", "", "a.csv has no column 'text'; it has none"),
        ("a.csv", "text,label\ngood,1\nbad,1\n", "only class '1' was found"),
        ("a.jsonl", '{"text": "x", "label": 1}\n{"text": "x"\n', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl, line 1: expected an object with 'text'"),
        ("a.jsonl", '{"text": "x", "label": ["y"]}\n', "a label is a word or a number, not"),
        ("a.jsonl", '{"text": 7, "label": 1}\n', "a.jsonl, line 1: no text in column 'text'"),
        ("a.jsonl", '{"text": "  ", "label": 1}\n', "a.jsonl, line 1: no text in column 'text'"),
    ],
)
def test_bad_rows_are_named_by_line(tmp_path, file, content, message):
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=message) as error:
        corpora.load(str(tmp_path / file))
    assert "\n" not in str(error.value)


def test_what_was_left_out_is_noted_and_rare_labels_are_refused(tmp_path):
    rows = [(f"text {i}", "common") for i in range(60)] + [(f"other {i}", "rare") for i in range(12)]
    corpus = corpora.load(write_csv(tmp_path / "own.csv", [*rows, rows[0], ("text 1", "rare")]))
    assert sum(len(s) for s in (corpus.train, corpus.validation, corpus.test)) in range(22, 25)
    assert corpus.notes == (
        "own.csv: 74 rows, 24 used, as many of each class as of the rarest; "
        "1 texts carry several labels, of which the first counts.",
    )
    with pytest.raises(
        InputError, match="class 'rare' has 5 different texts, 2 classes were found; at least 10"
    ):
        corpora.load(write_csv(tmp_path / "own.csv", rows[:65]))


def test_paths_may_be_given_as_paths_and_with_large_suffixes(tmp_path, monkeypatch):
    write_csv(tmp_path / "OWN.CSV", ROWS)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert corpora.load(tmp_path / "OWN.CSV").train == corpora.load("~/OWN.CSV").train


def test_text_in_another_encoding_is_named(tmp_path):
    (tmp_path / "a.csv").write_bytes("text,label\nsch\xf6n,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"a.csv, line 2: not UTF-8 text \(byte 0xf6 behind 'sch'\)"):
        corpora.load(str(tmp_path / "a.csv"))


# sources


def test_a_label_writes_a_name_in_one_way(tmp_path):
    first, second = "synthetic:density=0.1,classes=10", "synthetic:classes=10,density=0.10"
    assert corpora.find(first).label == corpora.find(second).label == "synthetic:classes=10,density=0.1"
    path = write_csv(tmp_path / "own.csv", ROWS, ("body", "label"))
    assert corpora.find(f"{path}:text_column=body").label == "own.csv:text_column=body"


def test_fingerprints_follow_the_texts(tmp_path):
    def fingerprint(rows, name="own.csv"):
        return corpora.find(write_csv(tmp_path / name, rows)).fingerprint("any")

    rows = [(f"text {i}", "yes" if i % 2 else "no") for i in range(40)]
    first = fingerprint(rows)
    assert fingerprint(rows[::-1]) == first  # another order of rows selects the same
    assert fingerprint(rows, "other.csv") == first
    assert fingerprint([(rows[0][0], "yes"), *rows[1:]]) != first
    assert fingerprint([("another text", "no"), *rows[1:]]) != first


def test_what_other_code_has_made_is_made_anew(monkeypatch):
    from whenpool.corpora import sources as module

    source = corpora.find("synthetic:train=5,validation=5,test=5")
    source.fingerprint("any")
    monkeypatch.setattr(module, "code_fingerprint", lambda folder: "other code")
    monkeypatch.setattr(module.CorpusSource, "load", lambda *_: make_corpus(Grammar(train=6)))
    assert source.fingerprint("any") == module._hash_texts(make_corpus(Grammar(train=6)))


def test_a_file_without_wikipedia_gets_the_encyclopedia(tmp_path):
    source = corpora.find(write_csv(tmp_path / "own.csv", ROWS), tmp_path)
    assert source.load_filler()["train"] == encyclopedia("train")
    (tmp_path / "wiki_sentences.txt").write_text("a fact .\n" * 50)
    assert set(source.load_filler()["train"]) == {"a fact ."}


# statistics


def test_statistics_count_all_splits():
    corpus = make_corpus(Grammar(shortest=10, longest=12, train=30, validation=5, test=8))
    found = measure(corpus)
    assert (found.classes, found.train_size, found.validation_size, found.test_size) == (2, 30, 5, 8)
    assert found.max_length == 12
    assert 10 <= found.average_length <= 12
    source = corpora.find("synthetic:shortest=10,longest=12,train=30,validation=5,test=8")
    assert statistics_of(source, "any") == found
    assert statistics_of(source, "any") == found  # read back
