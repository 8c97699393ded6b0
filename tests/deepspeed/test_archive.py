"""Files as torch.save writes them, of tensors that the engine has, and as torch.load reads them."""

from __future__ import annotations

import datetime
import gc
import json
import os
import sys
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from penstock import StorageError, UnsupportedError
from penstock._core import SwapEngine
from penstock.deepspeed.checkpoint.archive import Archive, ArchivePlan, stream
from penstock.deepspeed.checkpoint.content import Content
from penstock.deepspeed.checkpoint.intake import Intake
from torch.utils.dlpack import from_dlpack

DTYPES = {"f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2, "bf16": torch.bfloat16, "u8": torch.uint8}


@pytest.fixture
def engine() -> Iterator[SwapEngine]:
    engine = SwapEngine(json.dumps({"penstock": {"ram_bytes": 0, "integrity": "full"}}), "the test")
    yield engine
    engine.close()


@pytest.mark.parametrize("kind", DTYPES)
def test_a_swapped_tensor_of_any_dtype_is_torchs_own(engine: SwapEngine, tmp_path: Path, kind: str) -> None:
    numel = 5000
    values = torch.randn(numel, generator=torch.Generator().manual_seed(1)).to(DTYPES[kind])
    tensor = engine.declare(engine.open_namespace("main", [str(tmp_path)]), "t", kind, [numel])
    engine.put(tensor, values.view(torch.uint8)).result()
    file = tmp_path / "saved.pt"
    plan = ArchivePlan({"t": Content(engine, [tensor], numel, values), "step": 3})
    plan.write(str(file), engine, lambda _: None)
    for saved in (torch.load(file), Archive(str(file)).load()):
        assert saved["step"] == 3
        assert saved["t"].dtype == values.dtype
        assert torch.equal(saved["t"].view(torch.uint8), values.view(torch.uint8))


def test_a_name_need_not_be_utf8(engine: SwapEngine, tmp_path: Path) -> None:
    values, target = torch.arange(5000.0), tmp_path / "caf\udce9.pt"
    space = engine.open_namespace("main", [str(tmp_path)])
    tensor, other = (engine.declare(space, name, "f32", [values.numel()]) for name in ("t", "u"))
    engine.put(tensor, values).result()
    ArchivePlan({"t": Content(engine, [tensor], values.numel(), values)}).write(str(target), engine, lambda _: None)
    archive = Archive(str(target), large_bytes=1)
    saved = archive.load()["t"]
    record, offset = archive.record_of(saved)  # type: ignore[misc]
    intake = engine.take_archives()
    stream(intake, str(target), [(record, [[(other, offset, values.numel(), "f32")]])], lambda _: None)
    intake.publish()
    assert torch.equal(from_dlpack(engine.get(other).result()), values)
    with pytest.raises(StorageError) as error:
        Archive(str(tmp_path / "no\udce9.pt"))
    assert error.value.filename == str(tmp_path / "no\udce9.pt")


def _open_files() -> list[str]:
    return [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]


def test_archives_go_through_the_engine_that_the_configuration_names(tmp_path: Path) -> None:
    engine = SwapEngine(json.dumps({"penstock": {"ram_bytes": 0, "engine": "threads"}}), "the test")
    gc.collect()  # rings of other tests
    values = torch.arange(9e6)  # one step moves 32 MiB
    tensor = engine.declare(engine.open_namespace("main", [str(tmp_path)]), "t", "f32", [values.numel()])
    engine.put(tensor, values).result()
    target = str(tmp_path / "saved.pt")
    plan = ArchivePlan({"t": Content(engine, [tensor], values.numel(), values)})
    opened = []
    plan.write(target, engine, lambda _: opened.extend(_open_files()))
    intake = engine.take_archives()
    opened += _open_files()
    del intake
    engine.close()
    assert target in opened
    assert not [name for name in opened if "io_uring" in name]


def test_what_was_loaded_is_let_go(engine: SwapEngine, tmp_path: Path) -> None:
    file = tmp_path / "saved.pt"
    torch.save({"t": torch.arange(10.0)}, file)
    tensor = engine.declare(engine.open_namespace("main", [str(tmp_path)]), "t", "f32", [10])
    archive, intake = Archive(str(file)), Intake(engine)
    intake.add(archive)
    intake.to_engine(archive, archive.load()["t"], tensor)
    intake.run(str(file), speaks=False)
    intake.publish()
    is_open = weakref.ref(archive)
    del archive, intake
    assert is_open() is None


def test_a_file_that_is_replaced_meanwhile_is_not_read_on(tmp_path: Path) -> None:
    file = tmp_path / "saved.pt"
    torch.save({"t": torch.zeros(3)}, file)
    archive = Archive(str(file))
    archive.refuse_replaced()
    torch.save({"t": torch.ones(3)}, tmp_path / "newer.pt")
    (tmp_path / "newer.pt").rename(file)
    with pytest.raises(StorageError, match="was replaced while it was read"):
        archive.refuse_replaced()


def test_code_is_not_run_where_that_is_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, more = tmp_path / "tensors.pt", tmp_path / "more.pt"
    torch.save({"t": torch.ones(3)}, tensors)
    torch.save({"t": torch.ones(3), "when": datetime.timedelta(1)}, more)
    assert Archive(str(more)).load()["when"] == datetime.timedelta(1)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    assert torch.equal(Archive(str(tensors)).load()["t"], torch.ones(3))
    with pytest.raises(UnsupportedError, match="TORCH_FORCE_WEIGHTS_ONLY_LOAD is set"):
        Archive(str(more)).load()


@pytest.mark.parametrize("large_bytes", [1, 1 << 20])
@pytest.mark.parametrize("numel", [0, 200])
def test_no_tensor_is_larger_than_its_record(tmp_path: Path, numel: int, large_bytes: int) -> None:
    whole, claiming = tmp_path / "whole.pt", tmp_path / "claiming.pt"
    torch.save(torch.zeros(numel), whole)
    assert Archive(str(whole), large_bytes).load().shape == (numel,)
    shape, larger = (b"K" + bytes([size]) + b"\x85" for size in (numel, numel + 1))
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(claiming, "w") as target:
        assert source.read("whole/data.pkl").count(shape) == 1
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(shape, larger))
    with pytest.raises(RuntimeError, match="resize storage"):
        Archive(str(claiming), large_bytes).load()


def test_another_byte_order_is_refused(tmp_path: Path) -> None:
    file, other = tmp_path / "saved.pt", tmp_path / "other.pt"
    torch.save({"t": torch.ones(1 << 18)}, file)
    with zipfile.ZipFile(file) as saved, zipfile.ZipFile(other, "w") as swapped:
        for record in saved.namelist():
            is_order = record.endswith("/byteorder")
            swapped.writestr(record, b"big" if is_order and sys.byteorder == "little" else saved.read(record))
    with pytest.raises(UnsupportedError, match="another byte order"):
        Archive(str(other)).load()
