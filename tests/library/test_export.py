"""Models outside of Python: classifiers compiled, and exported for onnxruntime."""

import pytest
import torch
from called import elsewhere, refused
from small_models import close

from whenpool import TextClassifier

RAGGED = [  # other B and T than the first, which is exported, down to one text of one word
    (torch.tensor([[2, 3, 4, 5], [6, 7, 1, 1], [8, 1, 1, 1]]), torch.tensor([4, 2, 1])),
    (torch.tensor([[2, 3, 4, 5, 6, 7, 8], [6, 7, 1, 1, 1, 1, 1]]), torch.tensor([7, 2])),
    (torch.tensor([[3]]), torch.tensor([1])),
]
SHAPES = {"ids": {0: "B", 1: "T"}, "lengths": {0: "B"}}
OTHERS = ("last", "lstm"), ("mean", "gru"), ("max", "elman"), ("attention", "transformer")
MODELS = [  # the others take ten seconds each
    ("max_attention", "lstm", 2),
    *(pytest.param(*other, 1, marks=pytest.mark.slow) for other in OTHERS),
]


def model_of(pooling, cell, layers=1):
    torch.manual_seed(0)
    return TextClassifier(9, 3, pooling, cell, 4, 4, layers, padding_index=1).eval()


@pytest.mark.slow
@pytest.mark.parametrize("pooling, cell", [("max_attention", "lstm"), ("last", "minlstm")])
def test_a_compiled_classifier_computes_the_same_on_any_shape(pooling, cell):
    model = model_of(pooling, cell)
    compiled = torch.compile(model, backend="aot_eager", dynamic=True)
    for given in RAGGED:
        logits = [call(*given) for call in (compiled, model)]
        close(*logits)
        gradients = [torch.autograd.grad(of.square().sum(), [*model.parameters()]) for of in logits]
        close(*gradients, atol=1e-6, rtol=1e-4)


@pytest.mark.skipif(not hasattr(torch.onnx, "ops"), reason="torch before 2.8 cannot")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pooling, cell, layers", MODELS)
def test_onnxruntime_computes_the_same(pooling, cell, layers, tmp_path):
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is missing: pip install 'whenpool[onnx]'")
    from onnxruntime import InferenceSession

    model, file = model_of(pooling, cell, layers), tmp_path / "model.onnx"
    options = {"dynamo": True, "dynamic_shapes": SHAPES, "external_data": False, "verbose": False}
    torch.onnx.export(model, RAGGED[0], file, **options)
    assert [*tmp_path.iterdir()] == [file]
    session = InferenceSession(file)
    for ids, lengths in RAGGED:
        (logits,) = session.run(None, {"ids": ids.numpy(), "lengths": lengths.numpy()})
        close(torch.from_numpy(logits), model(ids, lengths), atol=1e-5, rtol=1e-4)


def test_a_cell_that_onnx_lacks_is_named(monkeypatch):
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    refused(
        "ONNX has no cell 'mingru'; export one of lstm, gru, elman",
        model_of("mean", "mingru"),
        *RAGGED[0],
    )


def test_training_steps_run_on_a_device_that_is_not_the_processor():
    elsewhere("stand_in.py", tests=22)
