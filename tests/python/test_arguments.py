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


def test_out_has_the_dtype_or_is_bytes(engine: penstock.Engine) -> None:
    numbers = numpy.arange(3000, dtype="float32")
    engine.put("numbers", numbers)
    for dtype in ("float32", "uint8"):
        out = numpy.zeros(12000 // numpy.dtype(dtype).itemsize, dtype=dtype)
        engine.get_async("numbers", out=out).result()
        assert out.tobytes() == numbers.tobytes()
    other = numpy.zeros(3000, dtype="int32")
    with pytest.raises(penstock.ArgumentError, match="is f32, `out` is i32"):
        engine.get_async("numbers", out=other)
    assert not other.any()


def test_a_lease_is_stored_and_filled(engine: penstock.Engine) -> None:
    numbers = numpy.arange(3000, dtype="float32")
    engine.put("numbers", numbers)
    with engine.get("numbers") as lease:
        engine.put("copy", lease)
    engine.put("copy", numbers + 1)
    with engine.get("copy", update=True) as filled:
        engine.get_async("numbers", out=filled).result()
        assert filled.array.tobytes() == numbers.tobytes()


def test_out_of_integers_takes_the_bits_of_bf16(engine: penstock.Engine) -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.arange(3000.0).to(torch.bfloat16)
    engine.put("numbers", numbers)
    out = numpy.zeros(3000, dtype="uint16")
    engine.get_async("numbers", out=out).result()
    assert out.tobytes() == numbers.view(torch.int16).numpy().tobytes()


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object()])
def test_a_value_of_the_configuration_that_json_lacks(tmp_path: Path, value: object) -> None:
    with pytest.raises(penstock.ConfigError, match="the mapping given"):
        penstock.Engine({"ram_bytes": value}, path=tmp_path)
