"""The kernels of Triton for recurrences: in its interpreter, compiled, and on a GPU if there is
one."""

import importlib.util
import json
import math
import os
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from called import python

from whenpool.models import batched_lstm
from whenpool.models.batched_lstm import LARGEST_ERROR, kernel_error, kernels_on, loops_for
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

from whenpool.models.batched_lstm import kernel_error

print(kernel_error("cpu", *json.loads(sys.argv[1])))
"""


@with_triton
@pytest.mark.slow
@pytest.mark.parametrize(
    "H, shapes",
    [
        (20, [(3, 1), (18, 7), (5, 4)]),
        (16, [(1, 30)]),
        # several tiles of units and of depth, the last ones in part, and two blocks of texts
        (136, [(33, 3), (2, 1), (16, 2)]),
    ],
)
def test_in_the_interpreter_the_kernels_equal_loops_in_float64(H, shapes):
    environment = {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = python(INTERPRETED, json.dumps([H, shapes]), env=os.environ | environment)
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("this Triton's interpreter is too old for this numpy: 3.7 can do with 2.4")
    assert done.returncode == 0, done.stderr
    assert 1e-5 < float(done.stdout) < LARGEST_ERROR


def compiled(kernel, way, R, H, capability, keep=True):
    import triton
    from triton.backends.compiler import GPUTarget

    from whenpool.models.triton_lstm import WARPS, settings_of

    settings = settings_of(way, R, 32, H, PROCESSORS[capability])
    types = {"T": "i32", "B": "i32", "d": "i32", "lengths": "*i64"}
    types |= {"across": "*bf16", "gates": "*bf16"}
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
@pytest.mark.parametrize("R, H", [(50, 256), (50, 64), (120, 256)])
def test_the_kernels_compile_for_gpus_that_are_not_here(R, H, capability, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from whenpool.models.triton_lstm import _read, _read_back

    kinds = (_read, "forward", True), (_read, "forward", False), (_read_back, "backward", True)
    for kernel, way, keep in kinds:
        made = compiled(kernel, way, R, H, capability, keep)
        assert made.metadata.shared <= SHARED_MEMORY[capability] * 1024
        assert "mma" in made.asm["ptx"]
        assert "bar.sync" in made.asm["ptx"]


@with_triton
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.cuda
@pytest.mark.parametrize("H", [256, 64, 20])
def test_on_a_gpu_the_kernels_equal_loops_in_float64(H):
    first, again = kernel_error("cuda", H), kernel_error("cuda", H)
    assert first == again <= LARGEST_ERROR


@pytest.fixture
def tried(monkeypatch):
    """A GPU with Triton, by name alone, whose kernels have an error; and how often they were
    tried."""

    def error_is(error):
        kernels_on.cache_clear()
        monkeypatch.setattr(batched_lstm, "kernel_error", MagicMock(side_effect=[error]))

    monkeypatch.setattr(batched_lstm, "find_spec", lambda name: name)
    yield error_is
    kernels_on.cache_clear()


@pytest.mark.parametrize(
    "error, right",
    [(1e-3, True), (0.1, False), (math.nan, False), (RuntimeError("out of resource"), False)],
)
def test_kernels_are_tried_once_and_used_where_they_are_right(tried, error, right):
    tried(error)
    assert [kernels_on("cuda") for _ in range(2)] == [right] * 2  # a second trial would fail


def test_kernels_are_used_on_a_gpu_in_bfloat16_alone(tried, monkeypatch):
    weights = SimpleNamespace(is_cuda=True, dtype=torch.float32, device=torch.device("cuda"))
    monkeypatch.setattr(batched_lstm, "kernels", lambda: "Triton's")

    def used(**changes):
        return loops_for(SimpleNamespace(**{**vars(weights), **changes})) == "Triton's"

    tried(1e-3)
    assert not used()
    with precision("bfloat16"):
        assert used()
        assert not used(dtype=torch.float64)
        assert not used(is_cuda=False)
    tried(1e-3)
    assert not kernels_on("cpu")
    monkeypatch.setattr(batched_lstm, "find_spec", lambda name: None)
    tried(1e-3)
    assert not kernels_on("cuda:1")
