"""Contents that go into the records of an archive are proved, whatever their size."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from penstock import ArgumentError, CorruptError, Engine, UnsupportedError
from penstock._core import ArchiveIntake, MomentLayout, SwapEngine

MIB = 1 << 20
CONFIG = {"penstock": {"mode": "durable", "ram_bytes": 0, "integrity": "full"}}


def _saved(store: Path, archive: Path, nbytes: int) -> None:
    """What the store has of "t", in a record that was reserved for it."""
    with zipfile.ZipFile(archive, "w") as reserved:
        reserved.writestr("model/data/0", bytes(nbytes))
    engine = SwapEngine(json.dumps(CONFIG), "the test")
    try:
        tensor, _, _ = engine.tensors(engine.open_namespace("main", [str(store)]))["t"]
        filling = engine.fill_archive(bytes(archive), [("data/0", [(tensor, None)], 0)])
        while filling.step() is not None:
            pass
    finally:
        engine.close()


@pytest.mark.parametrize("nbytes", [100, 4096, MIB, 2 * MIB, 2 * MIB + 1])
def test_a_content_that_the_drive_has_changed_is_found(tmp_path: Path, nbytes: int) -> None:
    """Its proof lies behind its last byte, in a part of its own where the content fills those before."""
    content = numpy.random.default_rng(3).integers(0, 256, nbytes, dtype=numpy.uint8)
    store, archive = tmp_path / "store", tmp_path / "archive.pt"
    with Engine(CONFIG, store) as engine:
        engine.put("t", content)
    _saved(store, archive, nbytes)
    with zipfile.ZipFile(archive) as written:
        assert written.testzip() is None
        assert written.read("model/data/0") == content.tobytes()
    [data] = store.glob("tensors-*.data")
    stored = data.read_bytes()
    at = stored.index(content.tobytes())
    data.write_bytes(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
    with pytest.raises(CorruptError, match="'t' is damaged"):
        _saved(store, archive, nbytes)


def test_a_record_of_several_contents(engine: SwapEngine, tmp_path: Path) -> None:
    """One behind the other; records before and behind it have theirs."""
    space = engine.open_namespace("main", [str(tmp_path)])
    parts = [numpy.random.default_rng(number).bytes(size) for number, size in enumerate((2 * MIB + 1, 5, MIB, 9))]
    tensors = []
    for number, part in enumerate(parts):
        tensors.append(engine.declare(space, f"t{number}", "u8", [len(part)]))
        engine.put(tensors[-1], numpy.frombuffer(part, numpy.uint8)).result()
    archive = tmp_path / "archive.pt"
    sizes = {"data/0": len(parts[3]), "data/1": sum(map(len, parts[:3])), "data/2": len(parts[1])}
    with zipfile.ZipFile(archive, "w") as reserved:
        for name, size in sizes.items():
            reserved.writestr(f"model/{name}", bytes(size))
    whole = [(tensor, None) for tensor in tensors]
    filled = [("data/0", whole[3:], 0), ("data/1", whole[:3], 0), ("data/2", whole[1:2], 0)]
    filling = engine.fill_archive(bytes(archive), filled)
    while filling.step() is not None:
        pass
    with zipfile.ZipFile(archive) as written:
        assert written.testzip() is None
        assert written.read("model/data/0") == parts[3]
        assert written.read("model/data/1") == b"".join(parts[:3])
        assert written.read("model/data/2") == parts[1]
    with pytest.raises(ArgumentError, match="2 tensors up to 't1'"):
        engine.fill_archive(bytes(archive), [("data/1", whole[:2], 0)])


def _archive(path: Path, **records: numpy.ndarray) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"model/{name}", content.tobytes())
    return str(path)


def _stream(intake: ArchiveIntake, path: str, record: str, *lanes: list[tuple[int, int, int, str]]) -> None:
    intake.begin(os.fsencode(path), [(record, list(lanes))])
    while intake.step() is not None:
        pass


def _read(engine: SwapEngine, tensor: int, dtype: str) -> numpy.ndarray:
    with engine.get(tensor).result() as lease:
        return numpy.frombuffer(memoryview(lease), dtype=dtype).copy()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SwapEngine]:
    engine = SwapEngine(json.dumps({"penstock": {"ram_bytes": 0, "integrity": "full"}}), "the test")
    yield engine
    engine.close()


@pytest.fixture
def space(engine: SwapEngine, tmp_path: Path) -> int:
    return engine.open_namespace("main", [str(tmp_path / "swap")])


def test_several_archives_fill_one_tensor(engine: SwapEngine, space: int, tmp_path: Path) -> None:
    """Ranges of their records in a row, zeros where they say so, and halves of floats in another lane."""
    draw = numpy.random.default_rng(5)
    contents = [draw.standard_normal(count).astype("f4") for count in (3, MIB, 2 * MIB + 1, 70_000)]
    ranges = [(1, 2), (5, MIB - 5), (0, 2 * MIB + 1), (69_999, 1)]  # begin, elements
    padding = [0, 1, 100_000, 3]
    pieces = [content[begin : begin + count] for content, (begin, count) in zip(contents, ranges, strict=True)]
    padded = [numpy.append(piece, numpy.zeros(zeros, "f4")) for piece, zeros in zip(pieces, padding, strict=True)]
    whole = engine.declare(space, "whole", "f32", [sum(map(len, padded))])
    halves = [engine.declare(space, f"half {number}", "f16", [len(part)]) for number, part in enumerate(padded)]
    intake = engine.take_archives()
    for number, content in enumerate(contents):
        path = _archive(tmp_path / f"{number}.pt", contents=content)  # begins at byte 44
        begin, count = ranges[number]
        place = (4 * begin, count, "f32")
        _stream(intake, path, "contents", [(whole, *place)], [(halves[number], *place)])
        intake.pad(0, whole, padding[number])
        intake.pad(1, halves[number], padding[number])
    intake.publish()
    assert numpy.array_equal(_read(engine, whole, "f4"), numpy.concatenate(padded))
    for half, part in zip(halves, padded, strict=True):
        assert numpy.array_equal(_read(engine, half, "f2"), part.astype("f2"))


def test_a_tensor_that_is_not_full_changes_nothing(engine: SwapEngine, space: int, tmp_path: Path) -> None:
    old = numpy.arange(1000, dtype="f4")
    first, second = (engine.declare(space, name, "f32", [1000]) for name in ("first", "second"))
    for tensor in (first, second):
        engine.put(tensor, old).result()
    path = _archive(tmp_path / "new.pt", content=numpy.ones(1500, "f4"))
    intake = engine.take_archives()
    _stream(intake, path, "content", [(first, 0, 1000, "f32"), (second, 4000, 400, "f32")])
    with pytest.raises(ArgumentError, match="tensor 'second' was given 1600 of its 4000 bytes"):
        _stream(intake, path, "content", [(first, 0, 1, "f32")])
    with pytest.raises(ArgumentError, match="tensor 'second' was given 1600 of its 4000 bytes"):
        intake.publish()
    del intake
    for tensor in (first, second):
        assert numpy.array_equal(_read(engine, tensor, "f4"), old)


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        ([(0, 1001)], "bytes for a content of which"),
        ([(0, 1501)], "1501 elements of f32 at byte 0 of record content, which has 6000 bytes"),
        ([(6004, 0)], "0 elements of f32 at byte 6004 of record content, which has 6000 bytes"),
        ([(0, 1 << 63)], "elements of f32 at byte 0 of record content"),
        ([(0, 10), (36, 10)], "targets of record content overlap at byte 36"),
    ],
)
def test_ranges_that_do_not_fit(
    engine: SwapEngine, space: int, tmp_path: Path, targets: list[tuple[int, int]], sentence: str
) -> None:
    tensor = engine.declare(space, "t", "f32", [1000])
    path = _archive(tmp_path / "new.pt", content=numpy.ones(1500, "f4"))
    with pytest.raises(ArgumentError, match=sentence):
        _stream(engine.take_archives(), path, "content", [(tensor, *target, "f32") for target in targets])


def test_elements_that_blocks_of_the_file_would_cut(engine: SwapEngine, space: int, tmp_path: Path) -> None:
    """Of a record that no torch.save has written they can be copied, and not converted."""
    path = _archive(tmp_path / "new.pt", content=numpy.ones(10, "f4"))  # begins at byte 43
    same, half = (engine.declare(space, dtype, dtype, [10]) for dtype in ("f32", "f16"))
    _stream(engine.take_archives(), path, "content", [(same, 0, 10, "f32")])
    with pytest.raises(UnsupportedError, match="tensor 'f16' is f16 and cannot take f32 at byte 43 of the file"):
        _stream(engine.take_archives(), path, "content", [(half, 0, 10, "f32")])


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_moments_in_fewer_bits_pass_through_floats(engine: SwapEngine, space: int, tmp_path: Path, dtype: str) -> None:
    """Floats of a record become encoded chunks and come back as what these stand for; a second time nothing changes."""
    segments = [(5000, "8bit", 0), (3, "fp32", 0), (2000, "4bit", 0), (77, "bf16", 0)]
    numel = sum(count for count, _, _ in segments)
    values = numpy.random.default_rng(3).standard_normal(numel).astype(dtype)
    kind = {"f4": "f32", "f2": "f16"}[dtype]
    layouts = MomentLayout.cut("exp_avg", segments, 3000)
    assert [layout.elements for layout in layouts] == [3000, 3000, 1080]
    tensors = [engine.declare(space, f"m/{chunk}", "u8", [layout.nbytes]) for chunk, layout in enumerate(layouts)]
    found = values
    for turn in range(2):
        path = _archive(tmp_path / f"in{turn}.pt", contents=numpy.append(found, numpy.zeros(4, dtype)))
        intake = engine.take_archives()
        for tensor, layout in zip(tensors, layouts, strict=True):
            intake.encode(tensor, layout)
        places = [(begin, min(3000, numel - begin)) for begin in range(0, numel, 3000)]
        targets = [
            (tensor, begin * values.itemsize, count, kind)
            for tensor, (begin, count) in zip(tensors, places, strict=True)
        ]
        _stream(intake, path, "contents", targets)
        intake.publish()
        archive = tmp_path / f"out{turn}.pt"
        with zipfile.ZipFile(archive, "w") as reserved:
            reserved.writestr("model/data/0", bytes(4 * numel))
        filling = engine.fill_archive(bytes(archive), [("data/0", list(zip(tensors, layouts, strict=True)), 0)])
        while filling.step() is not None:
            pass
        with zipfile.ZipFile(archive) as written:
            assert written.testzip() is None
            decoded = numpy.frombuffer(written.read("model/data/0"), "f4")
        if turn == 0:
            assert numpy.abs(decoded - values).max() < numpy.abs(values).max() / 8
            assert numpy.array_equal(decoded[5000:5003], values[5000:5003].astype("f4"))
            found, dtype, kind = decoded.copy(), "f4", "f32"
            values = found
        else:
            assert numpy.array_equal(decoded, found)


def test_layouts_that_do_not_fit(engine: SwapEngine, space: int, tmp_path: Path) -> None:
    (layout,) = MomentLayout.cut("exp_avg_sq", [(1000, "8bit", 0)], 1000)
    assert layout is not None and MomentLayout.cut("exp_avg", [(7, "fp32", 0), (9, "fp32", 0)], 100) == [None]
    tensor = engine.declare(space, "t", "u8", [layout.nbytes + 4])
    engine.put(tensor, numpy.zeros(layout.nbytes + 4, "u1")).result()
    archive = tmp_path / "out.pt"
    with zipfile.ZipFile(archive, "w") as reserved:
        reserved.writestr("model/data/0", bytes(4000))
    with pytest.raises(ArgumentError, match="its layout 1016"):
        engine.fill_archive(bytes(archive), [("data/0", [(tensor, layout)], 0)])
    with pytest.raises(ArgumentError, match="1000 elements of float32 and 1016 bytes are expected"):
        layout.encode(numpy.zeros(999, "f4"), numpy.zeros(layout.nbytes, "u1"))
    with pytest.raises(ArgumentError, match="1000 elements of float32 and 1016 bytes are expected"):
        layout.decode(numpy.zeros(layout.nbytes, "u1"), numpy.zeros(1000, "f8"))
    with pytest.raises(ArgumentError, match="is no format of states"):
        MomentLayout.cut("exp_avg", [(1000, "9bit", 0)], 1000)
