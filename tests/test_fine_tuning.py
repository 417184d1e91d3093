"""A pretrained encoder under a classifier, and TMix inside it (§1.10)."""

import pytest
import torch
from tiny_encoder import (
    CLASSES,
    IDS,
    LENGTHS,
    PARTNER,
    STYLES,
    TOKENS,
    classified,
    ids_of,
    interpolated,
    mixed_alone,
    read,
    texts_of,
    tiny,
)
from torch import nn

from whenpool import InputError
from whenpool.fewshot.fine_tuning import FineTuned, find_layers, mix_layers


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("padding", [0, 1, 17])
def test_a_text_is_classified_by_the_mean_over_its_own_tokens(style, padding):
    model = tiny(style)
    expected = torch.stack([classified(model, read(model, text)) for text in texts_of()])
    found = model(ids_of(padding=padding, more=3), LENGTHS)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.shape == (4, CLASSES)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("partner", [[2, 3, 1, 0], [1, 1, 0, 3]])
def test_hidden_states_of_two_texts_are_mixed_behind_a_layer(style, layer, partner):
    model, texts = tiny(style), texts_of()
    expected = [mixed_alone(model, texts[i], texts[j], 0.7, layer) for i, j in enumerate(partner)]
    found = model.mixed(ids_of(padding=0, more=2), LENGTHS, torch.tensor(partner), 0.7, layer)
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_a_layer_that_is_not_there_is_named(layer):
    with pytest.raises(InputError, match=f"layer {layer} is not one of 3, counted from 1"):
        tiny().mixed(IDS, LENGTHS, PARTNER, 0.6, layer)


def test_an_encoder_whose_layers_cannot_be_told_is_named():
    model = tiny()
    assert find_layers(model.encoder) is model.encoder.blocks
    model.encoder.more = nn.ModuleList([nn.Identity()] * 3)
    with pytest.raises(InputError, match="TinyEncoder: TMix and MixText .* one list of 3; choose"):
        model.mixed(IDS, LENGTHS, PARTNER, 0.6, 1)
    model(IDS, LENGTHS)  # fine-tuning needs no layers
    with pytest.raises(InputError, match="Linear: .* one list of a known number; choose an encoder"):
        find_layers(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("layers", "drawn"), [(12, (7, 9, 12)), (24, (14, 18, 24)), (6, (4, 5, 6)), (2, (2,)), (1, (1,))]
)
def test_layers_to_mix_behind_are_as_high_up_as_in_bert_base(layers, drawn):
    assert mix_layers(layers) == drawn


SIZES = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
DISTILLED = {"dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 16}


def small(family, attention=None, **more):
    """An encoder with random weights, large ones, so that tokens heed each other."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": TOKENS, "max_position_embeddings": 40, **more}
    sizes |= DISTILLED if family == "distilbert" else SIZES
    config = transformers.AutoConfig.for_model(family, **sizes)
    torch.manual_seed(0)
    options = {"attn_implementation": attention} if attention else {}
    encoder = transformers.AutoModel.from_config(config, **options)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if "norm" not in name.lower():
                parameter *= 10
    return FineTuned(encoder, 8, CLASSES).double().eval()


@pytest.mark.parametrize(
    ("family", "attention"),
    [
        ("bert", "sdpa"), ("bert", "eager"), ("roberta", None), ("distilbert", None), ("electra", None),
        ("mpnet", None), ("deberta-v2", None),
    ],
)  # fmt: skip
@torch.no_grad()
def test_encoders_of_transformers_mix_alike(family, attention):
    """Against the same encoder that reads, as if it was one long text, a mixture put in by hand."""
    model = small(family, attention)
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
