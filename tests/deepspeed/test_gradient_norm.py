"""The norm of a gradient is DeepSpeed's in every bit, without DeepSpeed's copy in double precision."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from penstock.deepspeed import gradient_norm


def original(self: Any, input: torch.Tensor, buffer_size: int = 250_000_000) -> Any:
    """DeepSpeed's formula."""
    norm: Any = 0.0
    for part in input.view(-1).split(buffer_size):
        norm = norm + part.data.double().norm(2) ** 2.0
    return norm**0.5


def unused(self: Any, input: torch.Tensor, buffer_size: int = 0) -> Any:
    raise AssertionError("the gradient was widened")


STAGE3: Any = types.SimpleNamespace()


def test_the_formula_is_that_of_the_installed_version() -> None:
    norm = getattr(DeepSpeedZeroOptimizer_Stage3._constant_buffered_norm2, "__wrapped__", None)
    theirs = norm or DeepSpeedZeroOptimizer_Stage3._constant_buffered_norm2
    gradient = torch.randn(30_001)
    assert torch.equal(theirs(STAGE3, gradient, 7000), original(STAGE3, gradient, 7000))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("threads", [1, 2])
def test_norms_are_equal_in_every_bit(dtype: torch.dtype, threads: int) -> None:
    if gradient_norm._lanes_of_torch() == 0:
        pytest.skip("torch adds in an order of its own on this processor")
    ours, before = gradient_norm.in_place(unused), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for numel in (1, 2, 3, 5, 4096, 4099, 32_768, 32_771, 100_003, 1_000_001):
            gradient = (torch.randn(numel) * 3e-3).to(dtype)
            for buffer_size in (250_000_000, 40_009):
                mine, theirs = ours(STAGE3, gradient, buffer_size), original(STAGE3, gradient, buffer_size)
                assert mine.dtype == theirs.dtype and torch.equal(mine, theirs), (numel, buffer_size)
    finally:
        torch.set_num_threads(before)


def test_a_gradient_that_is_not_finite_shows() -> None:
    gradient = torch.ones(5000, dtype=torch.bfloat16)
    gradient[4999] = float("inf")
    assert gradient_norm.in_place(original)(STAGE3, gradient).isinf()
    gradient[7] = float("nan")
    assert gradient_norm.in_place(original)(STAGE3, gradient).isnan()


@pytest.mark.parametrize("gradient", [torch.ones(8, 8).t()[:, 1:], torch.ones(9, dtype=torch.float64), torch.ones(0)])
def test_what_the_kernel_does_not_know_goes_to_deepspeed(gradient: torch.Tensor) -> None:
    seen: list[torch.Tensor] = []
    gradient_norm.in_place(lambda self, input, size=0: seen.append(input))(STAGE3, gradient)
    assert len(seen) == 1 and seen[0] is gradient


def test_another_order_of_torch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_norm, "_lanes_of_torch", lambda: 0)
    gradient, seen = torch.ones(9), []
    gradient_norm.in_place(lambda self, input, size=0: seen.append(input))(STAGE3, gradient)
    assert len(seen) == 1
