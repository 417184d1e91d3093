"""Selection and splits, the synthetic corpus, names and fingerprints."""

from collections import Counter

import pytest

from whenpool import InputError, corpora
from whenpool.corpora.corpus import Raw, SplitSizes, has_length, select_and_split
from whenpool.corpora.sources import statistics_of
from whenpool.corpora.synthetic import Grammar, encyclopedia, make_corpus


def raw(count, label, part="", start=0):
    return [Raw(f"text {label} number {i}", label, part) for i in range(start, start + count)]


def sizes_of(corpus):
    return [len(split) for split in (corpus.train, corpus.validation, corpus.test)]


def disjoint_texts(corpus):
    """The texts of each split, which share none."""
    splits = [set(split.texts) for split in (corpus.train, corpus.validation, corpus.test)]
    assert len(set.union(*splits)) == sum(map(len, splits))
    return splits


# selection and splits


@pytest.mark.parametrize(
    ("words", "length", "longest", "kept"),
    [
        (100, "long", None, False), (101, "long", None, True), (500, "long", 500, True),
        (501, "long", 500, False), (100, "short", None, True), (101, "short", None, False),
        (0, "short", None, False), (0, "any", None, False), (1, "any", None, True),
    ],
)  # fmt: skip
def test_lengths(words, length, longest, kept):
    assert has_length(" w" * words, length, longest) is kept


def test_splits_share_no_text_and_do_not_depend_on_the_order_of_the_file():
    rows = raw(60, "a") + raw(60, "b")
    sizes = SplitSizes(train=60, test=30, validation=30)
    corpus = select_and_split(rows + rows[:30], sizes, "file")  # a text that is repeated counts once
    assert sizes_of(corpus) == [60, 30, 30]
    disjoint_texts(corpus)
    assert select_and_split(rows[::-1], sizes, "file") == corpus
    assert corpus.classes == ("a", "b")
    assert all(f" {corpus.classes[label]} " in text for text, label in corpus.train)


def test_each_class_gives_equally_many_and_splits_shrink_alike_where_texts_are_too_few():
    corpus = select_and_split(raw(500, "a") + raw(100, "b"), SplitSizes(1_200, 400, 400), "file")
    assert sizes_of(corpus) == [120, 40, 40]
    labels = corpus.train.labels + corpus.validation.labels + corpus.test.labels
    assert Counter(labels) == {0: 100, 1: 100}
    assert 0.35 < sum(corpus.train.labels) / len(corpus.train) < 0.65  # and each split has both


def test_the_publishers_parts_do_not_mix():
    rows = raw(50, "a", "train") + raw(50, "b", "train")
    rows += raw(40, "a", "test", 1000) + raw(40, "b", "test", 1000)
    rows.append(Raw(rows[-1].text, "b", "train"))  # also in the other part
    corpus = select_and_split(rows, SplitSizes(80, 40, 40), "file")
    train, validation, test = disjoint_texts(corpus)
    assert all(int(text.split()[-1]) < 1000 for text in train)
    assert all(int(text.split()[-1]) >= 1000 for text in validation | test)
    assert sizes_of(corpus) == [80, 40, 40]


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


# the synthetic corpus


def test_synthetic_texts_keep_their_parameters():
    grammar = Grammar(shortest=30, longest=40, density=0.1, agreement=0.75, train=400)
    corpus = make_corpus(grammar)
    lengths = [len(text.split()) for text in corpus.train.texts]
    assert (min(lengths), max(lengths)) == (30, 40)
    evidence = {word: name for name, found in grammar.evidence.items() for word in found}
    speaks = [
        evidence[word] == corpus.classes[label]
        for text, label in corpus.train
        for word in text.split()
        if word in evidence
    ]
    assert len(speaks) / sum(lengths) == pytest.approx(0.1, abs=0.01)
    assert sum(speaks) / len(speaks) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("classes", [2, 10])
def test_synthetic_corpora_are_balanced_deterministic_and_disjoint(classes):
    grammar = Grammar(classes=classes, train=200, validation=50, test=50)
    corpus = make_corpus(grammar)
    assert len(corpus.classes) == classes
    assert set(Counter(corpus.train.labels).values()) == {200 // classes}
    assert make_corpus(grammar) == corpus
    assert make_corpus(Grammar(classes=classes, train=200, seed=1)).train != corpus.train
    disjoint_texts(corpus)
    words = [word for found in grammar.evidence.values() for word in found]
    assert len(words) == len(set(words))  # each speaks for one class, and no filler has any
    assert not set(words) & {word for sentence in encyclopedia("train") for word in sentence.split()}


# names, fingerprints and statistics


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("synthetic:classes=3", "classes=2 or classes=10, not 3"),
        ("synthetic:density=0.5", r"density is a part of all words in \[0, 0.2\], not 0.5"),
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


def write_csv(path, rows, header="text,label"):
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]), encoding="utf-8")
    return str(path)


ROWS = [(f"text {i}", "yes" if i % 2 else "no") for i in range(40)]


def test_a_label_writes_a_name_in_one_way(tmp_path):
    first, second = "synthetic:density=0.1,classes=10", "synthetic:classes=10,density=0.10"
    assert corpora.find(first).label == corpora.find(second).label == "synthetic:classes=10,density=0.1"
    path = write_csv(tmp_path / "own.csv", ROWS, "body,label")
    assert corpora.find(f"{path}:text_column=body").label == "own.csv:text_column=body"


def test_fingerprints_follow_the_texts(tmp_path):
    def fingerprint(rows, name="own.csv"):
        return corpora.find(write_csv(tmp_path / name, rows)).fingerprint("any")

    first = fingerprint(ROWS)
    assert fingerprint(ROWS[::-1]) == first  # another order of rows selects the same
    assert fingerprint(ROWS, "other.csv") == first
    assert fingerprint([(ROWS[0][0], "yes"), *ROWS[1:]]) != first
    assert fingerprint([("another text", "no"), *ROWS[1:]]) != first


def test_a_fingerprint_is_remembered_until_the_code_changes(monkeypatch):
    source = corpora.find("synthetic:train=5,validation=5,test=5")
    first, other = source.fingerprint("any"), make_corpus(Grammar(train=6))
    monkeypatch.setattr(corpora.CorpusSource, "load", lambda *_: other)
    assert source.fingerprint("any") == first
    monkeypatch.setattr("whenpool.corpora.sources.code_fingerprint", lambda folder: "other code")
    assert source.fingerprint("any") != first


def test_a_file_without_wikipedia_gets_the_encyclopedia(tmp_path):
    source = corpora.find(write_csv(tmp_path / "own.csv", ROWS), tmp_path)
    assert source.load_filler()["train"] == encyclopedia("train")
    (tmp_path / "wiki_sentences.txt").write_text("a fact .\n" * 50)
    assert set(source.load_filler()["train"]) == {"a fact ."}


def test_statistics_count_all_splits():
    source = corpora.find("synthetic:shortest=10,longest=12,train=30,validation=5,test=8")
    found = statistics_of(source, "any")
    assert (found.classes, found.train_size, found.validation_size, found.test_size) == (2, 30, 5, 8)
    assert found.max_length == 12
    assert 10 <= found.average_length <= 12
    assert statistics_of(source, "any") == found  # read back
