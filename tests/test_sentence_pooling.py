"""The poolings in a model of sentence-transformers: a small encoder whose weights come in a package."""

import warnings

import numpy as np
import pytest
import torch

from whenpool import POOLINGS, InputError, SentencePooling
from whenpool.fewshot.pretrained import MINILM, locate

TEXTS = ["a film", "a very long and rather dull film about nothing in particular", "fine"]


def model_with(pooling):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    try:
        folder = str(locate(MINILM))
    except InputError as error:
        pytest.skip(str(error))
    words = modules.Transformer(folder, max_seq_length=64)
    return sentence_transformers.SentenceTransformer(modules=[words, pooling], device="cpu")


@pytest.mark.parametrize("name", list(POOLINGS))
def test_an_embedding_is_what_the_pooling_gives_of_each_text_alone(name):
    pooling = SentencePooling(name, size=384)
    model = model_with(pooling)
    together = model.encode(TEXTS, batch_size=3)
    assert together.shape == (3, 384)
    for text, embedding in zip(TEXTS, together, strict=True):
        states = model.encode([text], output_value="token_embeddings")[0].clone().unsqueeze(0)
        alone = pooling.pool(states, torch.ones(states.shape[:2]))[0]
        np.testing.assert_allclose(embedding, alone[0].detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("name", ["max_attention", "attention", "mean"])
def test_it_is_saved_and_loaded_with_the_model(name, tmp_path):
    import sentence_transformers

    model = model_with(SentencePooling(name, size=384))
    model.save(str(tmp_path / "model"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = sentence_transformers.SentenceTransformer(
            str(tmp_path / "model"), device="cpu", trust_remote_code=True
        )
    np.testing.assert_allclose(again.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    assert again[1].pooling == name
    assert again.get_embedding_dimension() == 384


def test_gradients_reach_the_words_and_the_query():
    pooling = SentencePooling("attention", size=8)
    states = torch.randn(2, 5, 8, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    found = pooling({"token_embeddings": states, "attention_mask": mask})
    assert found["pooling_weights"].sum(1).tolist() == pytest.approx([1, 1])
    found["sentence_embedding"].sum().backward()
    assert pooling.pool.query.grad.abs().sum() > 0
    assert states.grad[0, 3:].abs().sum() == 0


def test_an_unknown_pooling_is_told():
    with pytest.raises(InputError, match="median.*max_attention"):
        SentencePooling("median")
