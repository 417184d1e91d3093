"""The kernels of Triton for recurrences: in its interpreter, compiled, and on a GPU if there is
one."""

import importlib.util
import json
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch

import whenpool.models
from paper.runs import check_machine as doctor
from paper.runs.run import provenance
from whenpool.models import batched_lstm
from whenpool.models.batched_lstm import kernels_on, loops_for
from whenpool.models.precision import precision

with_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed: pip install '.[triton]'",
)
SHARED_MEMORY, PROCESSORS = {80: 163, 90: 227}, {80: 108, 90: 132}
"""KB that a program may have, and how many run at a time, by compute capability: A100, H100."""
INTERPRETED = """
import json, sys
import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

product = InterpreterBuilder.create_dot

def exact(number):
    # The interpreter has bfloat16 as whole numbers of the same bits, and would multiply these.
    if number.dtype.scalar != tl.bfloat16:
        return number
    return TensorHandle((number.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

InterpreterBuilder.create_dot = lambda self, a, b, *rest: product(self, exact(a), exact(b), *rest)

from paper.runs import check_machine

del check_machine.LARGEST_ERROR["tf32"]  # whose products the interpreter makes of whole float32
print(json.dumps(check_machine.largest_errors("cpu", *json.loads(sys.argv[1]))))
"""


@with_triton
@pytest.mark.slow
@pytest.mark.parametrize(
    ("H", "shapes"),
    [
        (20, [(3, 1), (18, 7), (5, 4)]),
        (16, [(1, 30)]),
        # several tiles of units and of depth, the last ones in part, and two blocks of texts
        (136, [(33, 3), (2, 1), (16, 2)]),
    ],
)
def test_in_the_interpreter_the_kernels_equal_loops_in_float64(H, shapes):
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED, json.dumps([H, shapes])],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("this Triton's interpreter is too old for this numpy: 3.7 can do with 2.4")
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)
    assert errors["tf32x3"] < 2e-6
    assert 1e-5 < errors["bfloat16"] < 1e-2


def compiled(kernel, way, R, H, capability, name, keep=True):
    import triton
    from triton.backends.compiler import GPUTarget

    from whenpool.models.triton_lstm import WARPS, settings_of

    settings = settings_of(way, R, 32, H, name, PROCESSORS[capability])
    short = "*bf16" if name == "bfloat16" else "*fp32"
    types = {"T": "i32", "B": "i32", "d": "i32", "lengths": "*i64", "across": short, "gates": short}
    settings |= {"KEEP": keep} if way == "forward" else {}
    types |= dict.fromkeys(settings, "constexpr")
    signature = {n: types.get(n, "*fp32") for n in kernel.arg_names}
    place = {n: (number,) for number, n in enumerate(kernel.arg_names)}
    constants = {place[n]: value for n, value in settings.items()}
    aligned = [place[n] for n, kind in signature.items() if kind in ("*fp32", "*bf16")]
    attributes = {number: [["tt.divisibility", 16]] for number in aligned}
    source = triton.compiler.ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    return triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": WARPS}
    )


@with_triton
@pytest.mark.slow
@pytest.mark.parametrize("capability", SHARED_MEMORY)
@pytest.mark.parametrize(("R", "H"), [(50, 256), (50, 64), (120, 256)])
@pytest.mark.parametrize("name", ["tf32x3", "bfloat16"])
def test_the_kernels_compile_for_gpus_that_are_not_here(
    name, R, H, capability, monkeypatch, tmp_path
):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from whenpool.models.triton_lstm import _read, _read_back

    kinds = (_read, "forward", True), (_read, "forward", False), (_read_back, "backward", True)
    for kernel, way, keep in kinds:
        made = compiled(kernel, way, R, H, capability, name, keep)
        assert made.metadata.shared <= SHARED_MEMORY[capability] * 1024
        assert "mma" in made.asm["ptx"]
        assert "bar.sync" in made.asm["ptx"]


@with_triton
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.cuda
@pytest.mark.parametrize("H", [256, 64, 20])
def test_on_a_gpu_the_kernels_equal_loops_in_float64(H):
    first, again = (doctor.largest_errors("cuda", H) for _ in range(2))
    assert all(first[name] <= most for name, most in doctor.LARGEST_ERROR.items())
    assert first == again


@pytest.fixture
def card(monkeypatch):
    """A GPU by name alone, with a Triton that compiles nothing."""
    triton = MagicMock(__version__="3.7.1", __spec__=ModuleSpec("triton", None))
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", triton.language)
    monkeypatch.delitem(sys.modules, "whenpool.models.triton_lstm", raising=False)
    monkeypatch.setattr(whenpool.models, "triton_lstm", None, raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A card")
    yield triton
    sys.modules.pop("whenpool.models.triton_lstm", None)


def found(monkeypatch, **errors):
    values = {"tf32x3": 3e-7, "tf32": 2e-4, "bfloat16": 1e-3, **errors}
    monkeypatch.setattr(doctor, "largest_errors", lambda device, H: values)
    return doctor.try_out("cuda")


def test_kernels_are_remembered_for_this_gpu_these_versions_and_this_file(card, monkeypatch):
    assert not kernels_on("cuda")
    right = True, "they differ from float64 by 3e-07 in tf32x3, 2e-04 in tf32, 1e-03 in bfloat16"
    assert found(monkeypatch) == right
    assert kernels_on("cuda")
    for owner, name, value in (
        (torch, "__version__", "9.9"),
        (torch.cuda, "get_device_name", lambda device: "Another"),
        (card, "__version__", "9.9"),
        (batched_lstm, "code_fingerprint", lambda file: "other"),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(owner, name, value)
            assert not kernels_on("cuda")
    assert not found(monkeypatch, tf32=float("nan"))[0]
    assert not kernels_on("cuda")


def test_kernels_are_used_where_they_passed_and_a_precision_is_asked_for(card, monkeypatch):
    weights = SimpleNamespace(is_cuda=True, dtype=torch.float32, device=torch.device("cuda"))

    def used(**changes):
        return loops_for(SimpleNamespace(**{**vars(weights), **changes})) is not batched_lstm.TORCH

    with precision("tf32x3"):
        assert not used()
        assert provenance("cuda", together=5)["precision"] == "float32"
    found(monkeypatch)
    assert not used()
    for name in ("tf32x3", "tf32", "bfloat16"):
        with precision(name):
            assert used()
            assert not used(dtype=torch.float64)
            assert not used(is_cuda=False)
            assert provenance("cuda", together=5)["precision"] == name
    with precision("tf32x3"):
        assert provenance("cuda")["precision"] == provenance("cpu", 5)["precision"] == "float32"
    assert not kernels_on("cpu")
    monkeypatch.setattr(batched_lstm, "find_spec", lambda name: None)
    assert not kernels_on("cuda:1")


def test_the_check_says_whether_they_are_used_and_why_not(card, monkeypatch):
    monkeypatch.setattr(doctor, "check_device", lambda device: None)
    monkeypatch.setattr(torch, "ones", MagicMock())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (8e9, 8e9))
    for error, message in ((3e-7, "are used unless --precision"), (1e-3, "are not used")):
        found(monkeypatch, tf32x3=error)
        assert message in doctor.described("cuda")
    fail = MagicMock(side_effect=RuntimeError("out of resource: shared memory\nmore lines"))
    monkeypatch.setattr(doctor, "largest_errors", fail)
    assert "they cannot be used (out of resource: shared memory)" in doctor.described("cuda")
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert "without Triton: pip install" in doctor.described("cuda")
