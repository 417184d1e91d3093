"""What `whenpool check` says of a GPU that is here by name alone."""

from unittest.mock import MagicMock

import pytest
import torch

from paper.runs import check_machine


@pytest.mark.parametrize(
    "error, words",
    [
        ([1e-3], "are used with --precision bfloat16: they differ from float64 by 1e-03"),
        ([0.1], "are not used: they differ from float64 by 1e-01"),
        (RuntimeError("out of resource\nmore"), "are not used: they cannot be (out of resource)"),
    ],
)
def test_the_check_says_whether_kernels_are_used_and_why_not(monkeypatch, error, words):
    monkeypatch.setattr(check_machine, "check_device", lambda device: None)
    monkeypatch.setattr(check_machine, "kernel_error", MagicMock(side_effect=error))
    monkeypatch.setattr(check_machine, "find_spec", lambda name: name)
    monkeypatch.setattr(torch, "ones", MagicMock())
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A card")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (8e9, 8e9))
    assert check_machine.described("cuda").endswith(f"kernels of --models-per-batch {words}")
    monkeypatch.setattr(check_machine, "find_spec", lambda name: None)
    described = check_machine.described("cuda")
    assert described.startswith("A card, 8 GB free, CUDA ")
    assert "without Triton: pip install" in described
    failure = RuntimeError("CUDA error: no kernel image is available\nmore lines")
    monkeypatch.setattr(torch, "ones", MagicMock(side_effect=failure))
    said = []
    assert not check_machine.check_machine("cuda", "smoke", None, None, said.append)
    assert "missing device cuda: CUDA error: no kernel image is available" in said
