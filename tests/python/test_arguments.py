"""What put() and get_async(out=) take beside arrays of NumPy and tensors of torch."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy
import penstock
import pytest


@pytest.fixture
def engine(tmp_path: Path):
    with penstock.Engine(path=tmp_path / "swap") as opened:
        yield opened


def test_arrays_of_ctypes_come_back(engine: penstock.Engine) -> None:
    """Their buffers have no strides."""
    engine.put("numbers", (ctypes.c_int32 * 3000)(*range(3000)))
    assert (engine.get("numbers").array.view("int32") == numpy.arange(3000)).all(), "a buffer is its bytes"
    out = (ctypes.c_int32 * 3000)()
    assert engine.get_async("numbers", out=out).result() is None
    assert list(out) == list(range(3000))


def test_what_torch_shows_the_negative_of(engine: penstock.Engine) -> None:
    torch = pytest.importorskip("torch")
    shown = torch._neg_view(torch.arange(3000.0))
    engine.put("negative", shown)
    assert (engine.get("negative").array == -numpy.arange(3000.0)).all()
    with pytest.raises(penstock.ArgumentError, match="negative"):
        engine.get_async("negative", out=shown)
