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


def test_buffers_with_strides_are_copied(engine: penstock.Engine) -> None:
    """As arrays of NumPy with strides are. What is read into is not: its owner would not see it."""
    numbers = numpy.arange(6000, dtype="int32").reshape(60, 100)
    for name, shown in (("every other", numbers[:, ::2]), ("transposed", numbers.T), ("backwards", numbers[::-1])):
        engine.put(name, memoryview(shown))
        assert engine.get(name).array.tobytes() == shown.tobytes()
    content = bytearray(range(250)) * 40
    engine.put("bytes", memoryview(content)[::2])
    assert bytes(engine.get("bytes")) == content[::2]
    with pytest.raises(penstock.ArgumentError, match="lies in C order"):
        engine.get_async("bytes", out=memoryview(content)[::2])


class Interrupted:
    """Its owner is interrupted as it hands over its memory for the first time."""

    def __init__(self, error: BaseException | None) -> None:
        self._content = numpy.arange(4, dtype="float32")
        self.dtype, self.shape = self._content.dtype, self._content.shape
        self._error = error

    def __dlpack_device__(self):
        return self._content.__dlpack_device__()

    def __dlpack__(self, **keywords):
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._content.__dlpack__(**keywords)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TimeoutError("of a signal's handler")], ids=["Ctrl-C", "alarm"])
def test_what_a_signals_handler_raises_reaches_the_caller(engine: penstock.Engine, error: BaseException) -> None:
    with pytest.raises(type(error)):
        engine.put("a", Interrupted(error))
    engine.put("a", Interrupted(None))
    assert engine.get("a").array.tolist() == [0, 1, 2, 3]


def test_paths_are_texts_bytes_or_path_likes(tmp_path: Path) -> None:
    for path in (str(tmp_path), bytes(tmp_path), tmp_path, [bytes(tmp_path / "a"), tmp_path / "b"]):
        with penstock.Engine(path=path) as engine:
            engine.put("a", bytes(5000))
            assert engine.get("a").nbytes == 5000
    for no_path in (5, [5], bytes(tmp_path) + b"\xff", str(tmp_path) + "\udcff"):
        with pytest.raises(penstock.ArgumentError, match="is no path"):
            penstock.Engine(path=no_path)


def test_one_device_may_be_a_text(tmp_path: Path) -> None:
    with penstock.Engine(path=tmp_path, devices="host:0") as engine:
        engine.put("a", numpy.arange(5000), device="host:0")
        assert (engine.get("a").array == numpy.arange(5000)).all()
        with pytest.raises(penstock.ArgumentError, match="5 is no device"):
            engine.put("a", numpy.arange(5000), device=5)
    for no_devices in (5, [5], None):
        with pytest.raises(penstock.ArgumentError, match="is no device"):
            penstock.Engine(path=tmp_path, devices=no_devices)


def test_what_torch_shows_the_negative_or_conjugate_of(engine: penstock.Engine) -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.complex(torch.arange(3000.0), torch.ones(3000))
    for name, shown in (("negative", numbers.conj().imag), ("conjugate", numbers.conj())):
        engine.put(name, shown)
        assert (engine.get(name).array == shown.resolve_conj().resolve_neg().numpy()).all()
        with pytest.raises(penstock.ArgumentError, match="negative or conjugate"):
            engine.get_async(name, out=shown)


@pytest.mark.parametrize(
    "name",
    ["complex64", "bfloat16", *(f"float8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"))],
)
def test_types_beside_the_usual_ones(engine: penstock.Engine, name: str) -> None:
    """Of torch and of NumPy (with ml_dtypes): there and back, by a lease and by out=."""
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = torch.arange(12.0).reshape(3, 4).to(getattr(torch, name))
    engine.put("torch", numbers)
    with engine.get("torch") as lease:
        assert torch.from_dlpack(lease).dtype == numbers.dtype
        assert bytes(memoryview(lease)) == numbers.view(torch.uint8).numpy().tobytes()
        assert lease.array.dtype == getattr(numpy if name == "complex64" else ml_dtypes, name)
        engine.put("numpy", lease.array)
        engine.put("transposed", lease.array.T)
        out = numpy.zeros_like(lease.array)
        engine.get_async("numpy", out=out).result()
        assert out.tobytes() == bytes(memoryview(lease))
    with engine.get("transposed") as lease:
        assert lease.dtype == engine.get("torch").dtype
        assert lease.array.tobytes() == out.T.tobytes()


def test_a_masked_array_is_refused(engine: penstock.Engine) -> None:
    masked = numpy.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(penstock.ArgumentError, match=r"\.filled\(\)"):
        engine.put("a", masked)
    engine.put("a", masked.filled(0))
    with pytest.raises(penstock.ArgumentError, match=r"give its `\.data`"):
        engine.get_async("a", out=masked)
    engine.get_async("a", out=masked.data).result()


def test_elements_that_share_bytes(tmp_path: Path) -> None:
    from penstock._core import SwapEngine

    engine = SwapEngine("{}", "defaults")
    space = engine.open_namespace("main", [str(tmp_path)])
    tensor = engine.declare(space, "nibbles", "f4", [8], "param")
    engine.put(tensor, bytes(range(4))).result()
    lease = engine.get(tensor, False).result()
    assert bytes(memoryview(lease)) == bytes(range(4))
    with pytest.raises(penstock.UnsupportedError, match="memoryview"):
        _ = lease.array
    with pytest.raises(BufferError, match="memoryview"):
        lease.__dlpack__()


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


def test_strides_of_any_type(engine: penstock.Engine) -> None:
    """Also of types, and by steps, that nanobind does not copy."""
    torch = pytest.importorskip("torch")
    eights = torch.arange(24, dtype=torch.float32).reshape(4, 6).to(torch.float8_e4m3fn)
    pairs = numpy.zeros(5, dtype=[("x", "<f4"), ("y", "<i2")])
    pairs["x"] = numpy.arange(5)
    for array in (eights.t(), eights[::2], eights[:1].expand(3, 6)):
        engine.put("eights", array)
        with engine.get("eights") as lease:
            assert bytes(memoryview(lease)) == array.contiguous().view(torch.uint8).numpy().tobytes()
        engine.forget("eights")
    engine.put("x", pairs["x"])
    with engine.get("x") as lease:
        assert bytes(memoryview(lease)) == numpy.arange(5, dtype="f4").tobytes()


def test_tensors_that_dlpack_lacks(engine: penstock.Engine) -> None:
    torch = pytest.importorskip("torch")
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for lacking in (torch.empty(3, device="meta"), torch.eye(3).to_sparse(), nested, torch.ones(3, 4).to_mkldnn()):
        with pytest.raises(penstock.ArgumentError, match="penstock cannot store"):
            engine.put("a", lacking)
    assert engine.names() == []


def test_tensors_without_memory_of_their_own(engine: penstock.Engine) -> None:
    """As DTensor, and what is traced. Their DLPack has a pointer to nothing."""
    torch = pytest.importorskip("torch")
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(3)
    engine.put("a", torch.ones(3))
    for without in (fake, torch._efficientzerotensor((3,))):
        with pytest.raises(penstock.ArgumentError, match="penstock cannot store this torch"):
            engine.put("a", without)
    with pytest.raises(penstock.ArgumentError, match="penstock cannot read into this torch"):
        engine.get_async("a", out=fake)
    with engine.get("a") as lease:
        assert torch.equal(torch.from_dlpack(lease), torch.ones(3))


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object()])
def test_a_value_of_the_configuration_that_json_lacks(tmp_path: Path, value: object) -> None:
    with pytest.raises(penstock.ConfigError, match="the mapping given"):
        penstock.Engine({"ram_bytes": value}, path=tmp_path)
