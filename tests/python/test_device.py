"""penstock.Engine with a device: a simulated one, whose memory is the CPU's, so that it is seen where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock
import pytest
from penstock import device_array

torch = pytest.importorskip("torch")
DEVICE = "host:0"


@pytest.fixture
def engine(tmp_path: Path):
    config = {"penstock": {"max_pinned_bytes": "8MiB", "ram_bytes": 0}}
    with penstock.Engine(config, tmp_path / "swap", devices=["host"]) as opened:
        yield opened


def test_tensors_of_any_size_come_back(engine: penstock.Engine) -> None:
    for number, numel in enumerate((1, 4095, 300_000, 12_000_001)):  # the last is six times what is pinned
        source = torch.randn(numel).to(torch.bfloat16)
        engine.put(f"{number}", source, device=DEVICE)
        out = torch.zeros_like(source)
        assert engine.get_async(f"{number}", out=out, device=DEVICE).result() is None
        assert torch.equal(out, source)
    stats = engine.stats()
    assert stats["from_device_bytes"] == stats["to_device_bytes"] == 2 * (1 + 4095 + 300_000 + 12_000_001)
    assert stats["pinned_bytes"] <= 8 << 20
    assert stats["staging_bytes"] == 2 << 20


def test_what_the_host_put_a_device_gets_and_the_other_way_round(engine: penstock.Engine) -> None:
    source = torch.arange(100_000, dtype=torch.float32)
    engine.put("a", source)
    out = torch.zeros_like(source)
    engine.get_async("a", out=out, device=DEVICE).result()
    assert torch.equal(out, source)
    engine.put("a", source + 1, device=DEVICE)
    with engine.get("a") as lease:
        assert torch.equal(torch.from_dlpack(lease), source + 1)


def test_subnormal_halves_where_the_processor_flushes_subnormals(tmp_path: Path) -> None:
    """The threads of an engine flush what the one does that opened it. torch's own conversions do not."""
    halves = torch.arange(65536).to(torch.int16).view(torch.float16)
    halves = halves[~halves.isnan()]
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        config = {"penstock": {"max_pinned_bytes": "8MiB", "ram_bytes": 0}}
        with penstock.Engine(config, tmp_path / "swap", devices=["host"]) as engine:
            engine.put("halves", halves)
            for dtype, bits in ((torch.float32, torch.int32), (torch.bfloat16, torch.int16)):
                out = torch.zeros(halves.shape, dtype=dtype)
                engine.get_async("halves", out=out, device=DEVICE, convert=True).result()
                assert torch.equal(out.view(bits), halves.to(dtype).view(bits))
    finally:
        torch.set_flush_denormal(False)


def test_converts_where_it_is_said(engine: penstock.Engine) -> None:
    master = torch.randn(50_000)
    engine.put("master", master)
    weight = torch.zeros(50_000, dtype=torch.bfloat16)
    with pytest.raises(penstock.ArgumentError, match="'master' is f32, not bf16"):
        engine.get_async("master", out=weight, device=DEVICE)
    engine.get_async("master", out=weight, device=DEVICE, convert=True).result()
    assert torch.equal(weight, master.to(torch.bfloat16))
    with pytest.raises(penstock.ArgumentError, match="f32 of shape"):
        engine.put("master", weight, device=DEVICE)
    engine.put("master", weight, device=DEVICE, convert=True)
    with engine.get("master") as lease:
        assert torch.equal(torch.from_dlpack(lease), weight.float())
    with pytest.raises(penstock.ArgumentError, match="on the CPU, convert first"):
        engine.put("master", weight, convert=True)


def test_bits_as_bytes_and_as_integers(engine: penstock.Engine) -> None:
    """As in the CPU's memory, for libraries without bf16."""
    halves = torch.randn(50_000).bfloat16()
    engine.put("halves", halves)
    for dtype in (torch.int16, torch.uint8):
        out = torch.zeros(halves.nbytes // dtype.itemsize, dtype=dtype)
        engine.get_async("halves", out=out, device=DEVICE).result()
        assert torch.equal(out.view(torch.int16), halves.view(torch.int16))
    with pytest.raises(penstock.ArgumentError, match="is bf16, not i32: give the same dtype, or bytes"):
        engine.get_async("halves", out=torch.zeros(25_000, dtype=torch.int32), device=DEVICE)


def test_a_device_that_the_engine_was_not_opened_for(engine: penstock.Engine, tmp_path: Path) -> None:
    engine.put("a", torch.zeros(10))
    with pytest.raises(penstock.ArgumentError, match="not opened for cuda:3: name it when it is made"):
        engine.get_async("a", out=torch.zeros(10), device="cuda:3")
    with pytest.raises(penstock.ArgumentError, match="not opened for cuda:3"):
        engine.put("b", torch.zeros(10), device="cuda:3")
    assert engine.names() == ["a"]
    with pytest.raises(penstock.ArgumentError, match="'tpu:0' is no device"):
        penstock.Engine(path=tmp_path / "other", devices=["tpu"])
    with pytest.raises(penstock.UnsupportedError):
        penstock.Engine(path=tmp_path / "other", devices=["cuda:99"])


def test_sizes_and_types_are_looked_at(engine: penstock.Engine) -> None:
    engine.put("a", torch.zeros(1000))
    with pytest.raises(penstock.ArgumentError, match="4000 bytes as f32, the device's memory for it 3996"):
        engine.get_async("a", out=torch.zeros(999), device=DEVICE).result()
    engine.put("whole", torch.zeros(1000, dtype=torch.int32))
    with pytest.raises(penstock.ArgumentError, match="is i32 and cannot be converted"):
        engine.get_async("whole", out=torch.zeros(1000), device=DEVICE, convert=True).result()


class OnDevice:
    """What a framework hands over of a tensor in a device's memory, with the stream that it is asked for."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.dtype, self.shape = tensor, tensor.dtype, tensor.shape
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, stream: int | None = None) -> Any:
        assert stream is not None
        self.streams.append(stream)
        return self.tensor.__dlpack__()


def test_the_producer_is_asked_to_order_its_work_before_our_copies(
    engine: penstock.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(device_array._RUNTIMES, 2, "host")
    source = OnDevice(torch.randn(5000))
    engine.put("a", source)
    out = OnDevice(torch.zeros(5000))
    engine.get_async("a", out=out).result()
    assert torch.equal(out.tensor, source.tensor)
    assert source.streams == [engine._core.device_stream(DEVICE, False)]
    assert out.streams == [engine._core.device_stream(DEVICE, True)]
    assert source.streams != out.streams


def test_memory_lives_as_long_as_a_copy(engine: penstock.Engine) -> None:
    expected = []
    futures = []
    for number in range(16):
        source = torch.full((200_000,), float(number))
        futures.append(engine.put_async(f"{number}", source, device=DEVICE))
        expected.append(float(number))
        del source
    for number, future in enumerate(futures):
        future.result()
        with engine.get(f"{number}") as lease:
            assert (torch.from_dlpack(lease) == expected[number]).all()


def test_pinned_memory_for_devices_is_named_where_it_is_short(tmp_path: Path) -> None:
    sentence = "that is without 4.0 MiB of max_pinned_bytes"
    for place, bytes_, is_pinned in (("ram", 5000, False), ("dedicated", 14 << 20, True)):
        rule = {"match": "a", "place": place}
        config = {"penstock": {"ram_bytes": 0, "max_pinned_bytes": "16MiB", "tensors": [rule]}}
        with penstock.Engine(config, tmp_path / place, devices=DEVICE) as engine:
            engine.put("a", torch.zeros(bytes_, dtype=torch.uint8))
            with pytest.raises(penstock.Error) as refused:
                engine.get("a")
            assert (sentence in str(refused.value)) == is_pinned, refused.value
