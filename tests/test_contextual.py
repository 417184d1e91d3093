"""Frozen embeddings of a pretrained encoder: what is computed, what is kept, and what reads them."""

import os
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch
from torch import nn

from whenpool import InputError
from whenpool.corpora.batches import Ragged, Texts
from whenpool.fewshot import contextual
from whenpool.fewshot.contextual import contextual_classifier, embed
from whenpool.fewshot.pretrained import Pretrained
from whenpool.training.loop import Recipe, train

transformers = pytest.importorskip("transformers")

E, WORDS, LONGEST = 16, 50, 24
LENGTHS = (5, 24, 2, 9, 1, 17, 9, 3, 24, 12, 6)
HALF = 2e-3
"""What float16 leaves of numbers up to 4, and what another batch does to float32."""


def encoder(seed=0, name="tiny"):
    """A BERT with random weights; large ones, so that the whole text tells in each embedding."""
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=E, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=LONGEST, initializer_range=0.3,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.BertModel(config)
    return Pretrained(name, None, model.eval(), f"hash of {name} {seed}", E, 2, LONGEST)


def some_texts(lengths=LENGTHS, seed=5):
    """Neither from short to long nor from long to short; with labels of two classes."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(0, WORDS, (n,), generator=generator).tolist() for n in lengths]
    return Texts(Ragged.of(rows), torch.arange(len(rows)) % 2)


TEXTS = some_texts()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "folder" / "embeddings.safetensors"


def watched(pretrained, act):
    """Call a function before each batch that the encoder reads."""
    pretrained.model.register_forward_pre_hook(lambda module, given: act())
    return pretrained


def refusal(*arguments):
    with pytest.raises(InputError) as caught:
        embed(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_token_gets_what_the_encoder_says_of_its_text_alone(file):
    pretrained = encoder()
    found = embed(pretrained, TEXTS, file)
    assert found.ids.flat.dtype == torch.float16
    assert found.ids.lengths.tolist() == list(LENGTHS)
    assert torch.equal(found.labels, TEXTS.labels)
    for i in range(len(TEXTS)):
        with torch.no_grad():
            expected = pretrained.model(TEXTS.ids.row(i).long().unsqueeze(0)).last_hidden_state[0]
        torch.testing.assert_close(found.ids.row(i).float(), expected, rtol=0, atol=HALF)
    assert expected.std() > 0.3  # not nothing


@pytest.mark.parametrize("chunk", [1, 3, 256])
@pytest.mark.parametrize("words", [1, 30, 10_000])
def test_chunks_batches_and_order_do_not_matter(tmp_path, chunk, words, monkeypatch):
    expected = embed(encoder(), TEXTS, tmp_path / "once")
    monkeypatch.setattr(contextual, "CHUNK", chunk)
    monkeypatch.setattr(contextual, "BATCH_TOKENS", words)
    order = torch.tensor([6, 0, 10, 3, 9, 1, 8, 2, 7, 5, 4])
    moved = Texts(Ragged.of(TEXTS.ids.row(int(i)).tolist() for i in order), TEXTS.labels[order])
    found = embed(encoder(), moved, tmp_path / "again")
    for place, i in enumerate(order.tolist()):
        torch.testing.assert_close(found.ids.row(place), expected.ids.row(i), rtol=0, atol=HALF)


def test_embeddings_are_frozen_while_the_model_on_them_learns(file):
    pretrained = encoder()
    before = {name: value.clone() for name, value in pretrained.model.state_dict().items()}
    texts = embed(pretrained, TEXTS, file)
    content = file.read_bytes()
    torch.manual_seed(0)
    model = contextual_classifier(E, 2, hidden_size=6)
    own = {name: value.clone() for name, value in model.state_dict().items()}
    assert not any(name.startswith("embedding") for name in own)
    splits = SimpleNamespace(train=texts, validation=texts.first(6), test=texts.first(4))
    outcome = train(model, splits, Recipe(epochs=8, batch_size=4, learning_rate=1e-2), seed=0)
    assert outcome.history[-1].train_loss < outcome.history[0].train_loss
    assert all(not torch.equal(value, own[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in pretrained.model.parameters())
    assert all(torch.equal(v, before[name]) for name, v in pretrained.model.state_dict().items())
    assert file.read_bytes() == content


def test_a_file_that_is_there_is_read_and_the_encoder_is_not_asked(file):
    first = embed(encoder(), TEXTS, file)
    other_labels = Texts(TEXTS.ids, 1 - TEXTS.labels)
    again = embed(watched(encoder(), lambda: pytest.fail("asked again")), other_labels, file)
    assert torch.equal(again.ids.flat, first.ids.flat)
    assert torch.equal(again.labels, 1 - TEXTS.labels)


def test_batches_are_padded_with_zeros(file):
    texts = embed(encoder(), TEXTS, file)
    indices = torch.tensor([3, 1, 4, 4])
    batch = texts.batch(indices, 1)
    rows = [texts.ids.row(int(i)).float() for i in indices]
    assert torch.equal(batch.ids, nn.utils.rnn.pad_sequence(rows, batch_first=True))
    assert batch.ids.dtype == torch.float32
    assert batch.lengths.tolist() == [9, 24, 1, 1]
    assert batch.labels.tolist() == [1, 1, 0, 0]
    assert texts.batch(torch.tensor([4]), 1).ids.shape == (1, 1, E)


def test_a_file_of_another_encoder_or_of_other_texts_is_refused(file):
    embed(encoder(), TEXTS, file)
    advice = "; delete it or give another file"
    assert refusal(encoder(1, "other"), TEXTS, file) == (
        f"{file} was made with another encoder (tiny){advice}"
    )
    one, two, three, four, *rest = TEXTS.ids.to_lists()  # the same tokens with other borders
    texts = Texts(Ragged.of([one, two, three[:-1], [three[-1], *four], *rest]), TEXTS.labels)
    assert refusal(encoder(), texts, file) == f"{file} was made of other texts{advice}"


@pytest.mark.parametrize("left", [0, 5, 300, -1])
def test_a_file_that_was_cut_short_is_refused(file, left):
    embed(encoder(), TEXTS, file)
    os.truncate(file, left if left >= 0 else file.stat().st_size + left)
    told = refusal(encoder(), TEXTS, file)
    assert told.startswith(f"{file} is no whole cache of embeddings (")
    assert told.endswith("; delete it or give another file")


def test_a_file_of_something_else_is_refused_and_left_alone(file):
    file.parent.mkdir()
    safetensors.torch.save_file({"embeddings": torch.ones(3)}, file)
    content = file.read_bytes()
    assert f"{file} is no cache of embeddings; delete it" in refusal(encoder(), TEXTS, file)
    assert file.read_bytes() == content


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_what_was_stopped_leaves_nothing(file, batch, monkeypatch):
    monkeypatch.setattr(contextual, "CHUNK", 3)
    monkeypatch.setattr(contextual, "BATCH_TOKENS", 100)
    count = iter(range(1_000))

    def stop():
        if next(count) == batch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(watched(encoder(), stop), TEXTS, file)
    assert list(file.parent.iterdir()) == []


def test_texts_that_the_encoder_cannot_read_are_told(file):
    long = some_texts([3, LONGEST + 1])
    assert refusal(encoder(), long, file) == (
        "text 1 has 25 tokens; tiny reads 1 to 24: leave such texts out, or cut them"
    )
    assert "text 0 has 0 tokens" in refusal(encoder(), some_texts([0, 3]), file)
    assert refusal(encoder(), some_texts([]), file) == "there are no texts to embed"
    assert not file.exists()
