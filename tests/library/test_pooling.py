"""Each pooling against its formula, written out word by word; and in a model of
sentence-transformers."""

import numpy as np
import pytest
import torch
from called import refused
from small_models import close

from whenpool import POOLINGS, SentencePooling
from whenpool.models.pooling import StraightThrough

B, T, D = 3, 6, 8
LENGTHS = [6, 3, 1]
MASK = torch.arange(T) < torch.tensor(LENGTHS).unsqueeze(1)
every_pooling = pytest.mark.parametrize("name", POOLINGS)


@pytest.fixture
def states():
    torch.manual_seed(0)
    return torch.randn(B, T, D, dtype=torch.float64)


def attend(words, query, unit_length):
    """Weights and embedding of one text by the formulas of §1.3.1 and §1.3.2."""
    scaled = words / np.linalg.norm(words, axis=1, keepdims=True) if unit_length else words
    powers = np.exp(scaled @ query)
    weights = powers / powers.sum()
    return weights, weights @ words


def by_hand(name, words, module):
    """(embedding, weights or None) of one text, from its states (n, D)."""
    n, (forward, backward) = len(words), np.split(words, 2, axis=1)
    if name == "last":
        return np.concatenate([forward[-1], backward[0]]), None
    if name == "mean":
        return words.mean(0), np.full(n, 1 / n)
    if name == "max":
        return words.max(0), None
    if name == "attention":
        weights, embedding = attend(words, module.query.detach().numpy(), unit_length=False)
    elif name == "max_attention":
        weights, embedding = attend(words, words.max(0), unit_length=True)
    elif name == "last_attention":
        left, first = attend(forward, forward[-1], unit_length=True)
        right, second = attend(backward, backward[0], unit_length=True)
        weights, embedding = (left + right) / 2, np.concatenate([first, second])
    else:
        pytest.skip(f"{name} has no formula here yet, see CONTRIBUTING.md")
    return embedding, weights


@every_pooling
def test_equals_its_formula_and_gradients_agree_with_finite_differences(name, states):
    module = POOLINGS[name](D, bidirectional=True).double()
    assert torch.autograd.gradcheck(lambda s: module(s, MASK)[0], states.clone().requires_grad_())
    embedding, weights = module(states, MASK)
    assert embedding.shape == (B, D)
    for text, n in enumerate(LENGTHS):
        expected, expected_weights = by_hand(name, states[text, :n].numpy(), module)
        np.testing.assert_allclose(embedding[text].detach(), expected, atol=1e-12)
        assert (weights is None) == (expected_weights is None)
        if weights is not None:
            wanted = np.pad(expected_weights, (0, T - n))
            np.testing.assert_allclose(weights[text].detach(), wanted, atol=1e-12)


@every_pooling
def test_a_text_without_words_gives_zeros_and_padding_does_not_matter(name, states):
    """It may stand on the left, and masks may be numbers."""
    module = POOLINGS[name](D).double()
    nothing = torch.zeros_like(states, requires_grad=True)
    embedding, _ = module(nothing + 7, torch.zeros(B, T, dtype=torch.bool))
    assert (embedding == 0).all()
    embedding.sum().backward()
    assert nothing.grad.isfinite().all()
    left = torch.full_like(states, 1e6)
    left[MASK.flip(1)] = states[MASK]
    for found in (module(left, MASK.flip(1))[0], module(states, MASK.long())[0]):
        close(found, module(states, MASK)[0])
    assert module(states.float(), MASK)[0].dtype == torch.float32  # of a head in other numbers
    for bad, message in (
        ((states, torch.ones(3, 5, dtype=torch.bool)), r"not \(3, 6, 8\) and \(3, 5\)"),
        ((states, None), r"the mask a tensor \(B, T\), not \(3, 6, 8\) and a NoneType"),
        ((states[:, :0], MASK[:, :0]), "the states are of no words, T = 0"),
        ((states[..., :6], MASK), r"\(8\) cannot pool states of 6 units"),
        ((states, (~MASK).float() * -1e9), "of an additive mask take mask == 0"),
    ):
        refused(message, module, *bad)


@pytest.mark.filterwarnings("ignore")
@every_pooling
def test_what_torch_records_of_a_full_batch_holds_for_padded_ones(name, states):
    """It also works text by text in `torch.vmap`, which has no values to ask for."""
    module = POOLINGS[name](D).double().requires_grad_(False)
    wanted = module(states, MASK)[0]
    traced = torch.jit.trace(lambda s, m: module(s, m)[0], (states, torch.ones_like(MASK)))
    close(traced(states, MASK), wanted)
    alone = torch.vmap(lambda s, m: module(s.unsqueeze(0), m.unsqueeze(0))[0].squeeze(0))
    close(alone(states, MASK), wanted)


@every_pooling
def test_the_embedding_of_one_pooling_goes_with_the_gradient_of_another(name, states):
    read, learn = POOLINGS["attention"](D).double(), POOLINGS[name](D).double()
    given = states.clone().requires_grad_()
    embedding, weights = StraightThrough(read, learn)(given, MASK)
    close((embedding, weights), read(states, MASK), atol=0)
    direction = torch.randn_like(embedding)
    (gradient,) = torch.autograd.grad(embedding, given, direction, retain_graph=True)
    (expected,) = torch.autograd.grad(learn(given, MASK)[0], given, direction)
    assert torch.equal(gradient, expected)
    embedding.sum().backward()
    assert read.query.grad is None


def test_half_precision_does_not_overflow_in_the_scores_of_max_attention():
    states = 40 * torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0)).half()
    mask, pool = torch.ones(2, 5), POOLINGS["max_attention"](64, False)
    close(pool(states, mask)[1].float(), pool(states.float(), mask)[1], atol=1e-3)


def features_of(dtype, side, kind):
    """Tokens of four texts as modules of sentence-transformers hand them on."""
    lengths, options = torch.tensor([6, 3, 4, 6]), {"prompt_length": torch.full((4,), 2)}
    texts = [torch.randn(n, D).to(dtype) for n in lengths.tolist()]
    if kind == "flat":
        ends = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
        return options | {"token_embeddings": torch.cat(texts)[None], "cu_seq_lens_q": ends}
    options["token_embeddings"] = torch.nn.utils.rnn.pad_sequence(texts, True, 0.0, side)
    place = torch.arange(6).expand(4, 6)
    mask = (place.flip(1) if side == "left" else place) < lengths.unsqueeze(1)
    if kind == "weighted":
        options["token_weights_sum"] = torch.rand(4) + 1
    return options if kind == "unmasked" else options | {"attention_mask": mask.long()}


@pytest.mark.parametrize(
    "kind, dtype",
    [
        ("usual", torch.float16),
        ("weighted", torch.float32),
        ("weighted", torch.bfloat16),
        ("unmasked", torch.float64),
        ("flat", torch.float16),
    ],
)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("include_prompt", [True, False])
def test_features_are_read_as_by_sentence_transformers(kind, dtype, side, include_prompt):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    modes = {"mean": "mean", "max": "max", "cls": "cls", "last": "lasttoken"}
    for ours, theirs in modes.items():
        given = features_of(dtype, side, kind)
        pooled = SentencePooling(ours, include_prompt=include_prompt)(given)
        assert "sentence_embedding" not in given
        expected = modules.Pooling(D, theirs, include_prompt)(given)["sentence_embedding"]
        close(pooled["sentence_embedding"], expected)


@pytest.mark.filterwarnings("ignore")
def test_a_query_and_the_switch_for_prompts_are_kept_with_the_model(tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    pooling = SentencePooling("attention", size=D)
    model = sentence_transformers.SentenceTransformer(modules=[pooling], device="cpu")
    model.set_pooling_include_prompt(False)
    assert (pooling.include_prompt, model.get_embedding_dimension()) == (False, D)
    model.save(str(tmp_path))
    saved = {"device": "cpu", "trust_remote_code": True}
    (again,) = sentence_transformers.SentenceTransformer(str(tmp_path), **saved)
    assert (again.pooling, again.include_prompt) == ("attention", False)
    given = features_of(torch.float32, "right", "usual")
    close(again(given), pooling(given))
