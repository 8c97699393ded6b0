"""Mistakes of a caller in Python: each is an error, and the engine is unharmed."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import penstock
import pytest
from conftest import Row
from engine_contents import filled, unharmed

numpy = pytest.importorskip("numpy")


def mistake(row: Row, what: str, how: str, happened: str) -> None:
    row.fault(f"caller: {what}", how)
    row.happened(happened, "yes")


def test_unknown_tensors(row: Row, engine: penstock.Engine) -> None:
    engine.put("gone", filled(1, 2))
    engine.forget("gone")
    for name in ("gone", "never", ""):
        for call in (engine.get, engine.forget, engine.state, lambda name: engine.prefetch([name])):
            with pytest.raises(penstock.UnknownTensorError):
                call(name)
    assert unharmed(engine)
    mistake(row, "unknown tensor", "a name never put, and one that was forgotten", "every call: UnknownTensorError")


def test_wrong_sizes(row: Row, engine: penstock.Engine) -> None:
    for array in (filled(1, 0), filled(3, 0), filled(2, 0).view("float32"), filled(2, 0).reshape(2, -1)):
        with pytest.raises(penstock.ArgumentError, match="'t'"):
            engine.put("t", array)
    for out in (filled(1, 0), filled(3, 0)):
        with pytest.raises(penstock.ArgumentError, match="'t'"):
            engine.get_async("t", out=out).result()
    with pytest.raises(penstock.ArgumentError, match="no bytes"):
        engine.put("empty", numpy.zeros(0, dtype="uint8"))
    assert unharmed(engine) and engine.names() == ["t"]
    mistake(row, "wrong size", "put of another size, dtype or shape; get into too little memory", "ArgumentError")


def test_what_cannot_be_stored(row: Row, engine: penstock.Engine) -> None:
    apart = numpy.arange(4096.0).reshape(64, 64)[:, ::2]
    for thing in (None, 3, "text", [1, 2], object(), numpy.array(["a"]), numpy.zeros(3, dtype="complex128")):
        with pytest.raises(penstock.ArgumentError, match="cannot store"):
            engine.put("new", thing)
    read_only = filled(2, 0)
    read_only.flags.writeable = False
    for out in (read_only, apart, b"text", 3):
        with pytest.raises(penstock.ArgumentError, match="cannot read into"):
            engine.get_async("t", out=out)
    assert engine.names() == ["t"] and unharmed(engine)
    engine.put("new", apart + 1)  # the name is still free
    engine.put("new", apart)
    assert (engine.get("new").array == apart).all()
    how = "put of None, texts, lists, complex128; get into strided arrays and memory to read only"
    mistake(row, "what cannot be stored", how, "ArgumentError")


def test_names(row: Row, engine: penstock.Engine) -> None:
    for name in ("", "n" * (1 << 20), "line\nbreak", None, 3, b"t", "\ud800"):
        with pytest.raises(penstock.ArgumentError, match="name"):
            engine.put(name, filled(1, 0))
    engine.put("größe/層.0", filled(1, 5))
    assert engine.names() == ["t", "größe/層.0"] and unharmed(engine)
    mistake(row, "names", "empty, of 1 MiB, with line breaks, no text", "put: ArgumentError")


def test_double_release(row: Row, engine: penstock.Engine) -> None:
    lease = engine.get("t", update=True)
    view = lease.array
    for _ in range(3):
        lease.release()
    with pytest.raises(penstock.ClosedError):
        _ = lease.array
    with pytest.raises(penstock.ClosedError):
        engine.commit(lease)
    with pytest.raises(penstock.ClosedError):
        _ = lease.data_ptr
    assert (view == 1).all() and unharmed(engine)
    mistake(row, "double release", "three times, then array, data_ptr and commit", "nothing; then ClosedError")


def test_release_on_another_thread(row: Row, engine: penstock.Engine) -> None:
    for _ in range(20):
        threads = [threading.Thread(target=engine.get("t").release) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert unharmed(engine)
    engine.forget("t")  # with what was read ahead of it
    deadline = time.monotonic() + 60  # what has no holder goes a moment later, when the I/O thread is done with it
    while engine.stats()["pool_live_bytes"] + engine.stats()["overflow_bytes"] and time.monotonic() < deadline:
        time.sleep(0.001)
    assert engine.stats()["pool_live_bytes"] + engine.stats()["overflow_bytes"] == 0
    mistake(row, "release on another thread", "leases of one thread released by eight others", "nothing")


def test_use_after_close(row: Row, tmp_path: Path) -> None:
    engine = penstock.Engine(path=tmp_path / "swap")
    engine.put("t", filled(2, 1))
    lease = engine.get("t")
    engine.close()
    engine.close()
    calls = (
        lambda: engine.get("t"),
        lambda: engine.put("t", filled(2, 2)),
        lambda: engine.put("new", filled(2, 2)),
        lambda: engine.get_async("t", out=filled(2, 2)).result(),
        lambda: engine.commit(lease).result(),
        lambda: engine.forget("t"),
        engine.plan,
        engine.flush,
        lambda: engine.state("t"),
    )
    for call in calls:
        with pytest.raises(penstock.ClosedError):
            call()
    engine.prefetch(["t"])
    engine.stats()
    assert (lease.array == 1).all()
    row.fault("caller: use after close", "every call, and a lease that was taken before")
    row.happened("every call: ClosedError", "in the lease")


def test_another_engines_lease(row: Row, engine: penstock.Engine, tmp_path: Path) -> None:
    with penstock.Engine(path=tmp_path / "other") as other:
        other.put("o", filled(1, 9))
        with pytest.raises(penstock.ArgumentError, match="another engine"):
            engine.commit(other.get("o")).result()
    assert unharmed(engine)
    mistake(row, "another engine's lease", "commit of a lease that a second engine gave", "commit: ArgumentError")


def test_put_while_leased_for_writing(row: Row, engine: penstock.Engine) -> None:
    lease = engine.get("t", update=True)
    lease.array[:] = 5
    engine.put("t", filled(2, 2))
    lease.array[:] = 6
    lease.release()
    assert (engine.get("t").array == 2).all()
    lease = engine.get("t", update=True)
    engine.put("t", filled(2, 3))
    lease.array[:] = 1
    engine.commit(lease).result()
    lease.release()
    assert unharmed(engine)
    mistake(
        row, "put while leased for writing", "the lease is dropped, then committed, afterwards", "the last one counts"
    )


def test_the_same_name_from_two_threads(row: Row, tmp_path: Path) -> None:
    wrong = []

    def work(engine: penstock.Engine, barrier: threading.Barrier, name: str) -> None:
        barrier.wait()
        try:
            engine.put(name, filled(0.25, 7))
        except penstock.Error as error:
            wrong.append(error)

    with penstock.Engine(path=tmp_path / "swap") as engine:
        for i in range(50):
            barrier = threading.Barrier(4)
            threads = [threading.Thread(target=work, args=(engine, barrier, str(i))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert (engine.get(str(i)).array == 7).all()
    assert wrong == []
    mistake(row, "the same new name from four threads at once", "50 names", "all succeeds")


def test_a_file_in_the_way(row: Row, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("mine")
    with pytest.raises(penstock.StorageError) as caught:
        penstock.Engine(path=in_the_way)
    assert caught.value.errno == errno.ENOTDIR and caught.value.filename == str(in_the_way)
    assert in_the_way.read_text() == "mine"
    row.fault("a file where the directory should be", "a regular file of that name")
    row.happened("opening: StorageError, errno ENOTDIR")
