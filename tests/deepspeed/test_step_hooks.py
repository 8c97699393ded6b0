"""What looks at the step of an optimizer is seen, and what torch itself puts around each step is not taken for it."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam
from penstock.deepspeed.step_hooks import is_hooked

KINDS = [torch.optim.AdamW, torch.optim.Adagrad, torch.optim.SGD, DeepSpeedCPUAdam]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A class whose step may be replaced."""
    before = vars(request.param).get("step")
    yield request.param
    if before is None:
        with contextlib.suppress(AttributeError):
            del request.param.step
    else:
        request.param.step = before


def optimizer_of(kind: Any) -> Any:
    """DeepSpeed's without its constructor, which compiles."""
    if kind is DeepSpeedCPUAdam:
        optimizer = DeepSpeedCPUAdam.__new__(DeepSpeedCPUAdam)
        torch.optim.Optimizer.__init__(optimizer, [torch.zeros(3)], {"lr": 0.1, "amsgrad": False})
        return optimizer
    return kind([torch.nn.Parameter(torch.zeros(3))], lr=0.1)


def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Any, closure: Any = None) -> Any:
        return original(self, closure)

    return step


def wrapped_under_its_name(original: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(original)(wrapped(original))


def wrapped_without_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    """Below what is torch's."""
    return torch.no_grad()(wrapped(original))


def wrapped_by_an_object(original: Callable[..., Any]) -> Any:
    return functools.partialmethod(original)


WRAPPERS = [wrapped, wrapped_under_its_name, wrapped_without_gradients, wrapped_by_an_object]


def test_a_step_of_its_own_is_not_hooked(kind: Any) -> None:
    import torch._dynamo  # it changes steps

    optimizer = optimizer_of(kind)
    assert not is_hooked(optimizer)
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    assert not is_hooked(optimizer)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_step_that_is_wrapped_on_the_class(kind: Any, wrap: Callable[..., Any]) -> None:
    early = optimizer_of(kind)
    torch.optim.lr_scheduler.ExponentialLR(early, 0.9)
    kind.step = wrap(kind.step)
    assert is_hooked(early)
    assert is_hooked(optimizer_of(kind))  # torch wraps it once more


def test_a_step_that_is_put_into_the_optimizer(kind: Any) -> None:
    optimizer = optimizer_of(kind)
    optimizer.step = types.MethodType(wrapped(kind.step), optimizer)
    assert is_hooked(optimizer)


class OfAnotherModule(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


def test_a_subclass_may_have_its_own_step() -> None:
    assert not is_hooked(optimizer_of(OfAnotherModule))
