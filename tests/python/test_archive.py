"""Contents that go into the records of an archive are proved, whatever their size."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy
import pytest
from penstock import CorruptError, Engine
from penstock._core import SwapEngine

MIB = 1 << 20
CONFIG = {"penstock": {"mode": "durable", "ram_bytes": 0, "integrity": "full"}}


def _saved(store: Path, archive: Path, nbytes: int) -> None:
    """What the store has of "t", in a record that was reserved for it."""
    with zipfile.ZipFile(archive, "w") as reserved:
        reserved.writestr("model/data/0", bytes(nbytes))
    engine = SwapEngine(json.dumps(CONFIG), "the test")
    try:
        tensor, _, _ = engine.tensors(engine.open_namespace("main", [str(store)]))["t"]
        filling = engine.fill_archive(str(archive), [("data/0", tensor, 0)])
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
