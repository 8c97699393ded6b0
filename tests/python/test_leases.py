"""What a lease may be used for: to read only, unless it was got with update=True."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import penstock
import pytest


@pytest.fixture(params=["resident", "on a drive"])
def engine(request: pytest.FixtureRequest, tmp_path: Path):
    ram = 1 << 30 if request.param == "resident" else 0
    with penstock.Engine({"penstock": {"ram_bytes": ram}}, path=tmp_path / "swap") as opened:
        opened.put("a", numpy.full(1 << 20, 7, dtype="uint8"))
        yield opened


def test_a_lease_to_read_is_read_only(engine: penstock.Engine) -> None:
    with engine.get("a") as lease, engine.get("a") as other:
        assert lease.readonly and memoryview(lease).readonly
        for view in (lease.array, numpy.frombuffer(lease, dtype="uint8"), numpy.from_dlpack(lease)):
            assert not view.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 1
        with pytest.raises(penstock.ArgumentError, match="writable"):
            engine.get_async("a", out=lease).result()
        assert (other.array == 7).all()
    with engine.get("a") as lease:
        assert (lease.array == 7).all()


def test_a_forked_child_has_no_lease_of_its_parents(engine: penstock.Engine) -> None:
    with engine.get("a") as lease:
        child = os.fork()
        if child == 0:  # its memory is not mapped here
            ways = (lambda: lease.array, lambda: lease.data_ptr, lambda: numpy.from_dlpack(lease), lambda: bytes(lease))
            refused = 0
            for way in ways:
                try:
                    way()
                except (penstock.ClosedError, BufferError, TypeError):
                    refused += 1
            os._exit(0 if refused == len(ways) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (lease.array == 7).all()


def test_a_lease_to_read_is_not_committed(engine: penstock.Engine) -> None:
    with engine.get("a") as lease:
        with pytest.raises(penstock.ArgumentError, match="update=True"):
            engine.commit(lease)
        with pytest.raises(penstock.ArgumentError, match="update=True"):
            engine.commit(engine.get_async("a").result())
    before = engine.state("a")["generation"]
    with engine.get("a", update=True) as lease:
        assert not lease.readonly and not memoryview(lease).readonly
        numpy.from_dlpack(lease)[:] = 8
        engine.commit(lease).result()
    assert engine.state("a")["generation"] == before + 1
    with engine.get("a") as lease:
        assert (lease.array == 8).all()


def test_torch_shares_the_memory_or_has_its_own(engine: penstock.Engine) -> None:
    torch = pytest.importorskip("torch")
    with engine.get("a") as lease:
        shared, own = torch.from_dlpack(lease), torch.from_dlpack(lease, copy=True)
        assert shared.data_ptr() == lease.data_ptr != own.data_ptr()
        own[:] = 1
        assert (shared == 7).all() and (lease.array == 7).all()
        alone = numpy.from_dlpack(lease, copy=True)
        alone[:] = 1
        assert (lease.array == 7).all()


def test_dlpack_says_read_only_where_it_can(engine: penstock.Engine) -> None:
    with engine.get("a") as read, engine.get("a", update=True) as update:
        for lease in (read, update):
            assert '"dltensor_versioned"' in repr(lease.__dlpack__(max_version=(1, 0)))
            assert '"dltensor"' in repr(lease.__dlpack__(max_version=(0, 8)))
            assert '"dltensor"' in repr(lease.__dlpack__(stream=None))
            with pytest.raises(BufferError):
                lease.__dlpack__(dl_device=(2, 0))


def test_an_array_of_a_type_that_numpy_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    with penstock.Engine(path=tmp_path) as engine:
        for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
            name = str(dtype).removeprefix("torch.")
            engine.put(name, torch.ones(1000).to(dtype))
            with engine.get(name) as lease:
                monkeypatch.setitem(sys.modules, "ml_dtypes", None)
                with pytest.raises(penstock.UnsupportedError, match=r"torch\.from_dlpack\(lease\)") as caught:
                    _ = lease.array
                assert name in str(caught.value) and "ml_dtypes" in str(caught.value)
                theirs = numpy.dtype([("bits", f"V{dtype.itemsize}")])
                monkeypatch.setitem(sys.modules, "ml_dtypes", SimpleNamespace(**{name: theirs}))
                assert lease.array.dtype == theirs and lease.array.shape == (1000,)
                assert (torch.from_dlpack(lease).float() == 1).all() and torch.from_dlpack(lease).dtype == dtype


def test_a_lease_that_is_given_twice_ends_its_update_once(engine: penstock.Engine) -> None:
    """A future may be asked again: the end of the second lease leaves the first one's update alone."""
    engine.put("b", numpy.zeros(4, dtype="float32"))
    future = engine.get_async("b", update=True)
    first, second = future.result(), future.result()
    del second
    gc.collect()
    with pytest.raises(penstock.ArgumentError, match="is being changed"):
        engine.get("b", update=True)
    first.array[:] = 3
    engine.commit(first).result()
    first.release()
    with engine.get("b", update=True) as lease:
        assert lease.array.tolist() == [3, 3, 3, 3]


def test_all_leases_of_a_future_are_to_read_once_one_is_committed(engine: penstock.Engine) -> None:
    future = engine.get_async("a", update=True)
    first, second = future.result(), future.result()
    first.array[:] = 8
    engine.commit(first).result()
    assert first.readonly and second.readonly and not second.array.flags.writeable
    assert future.result().readonly
    view = first.array  # keeps the memory
    first.release()
    second.release()
    late = future.result()  # of an update that has ended
    assert (view == 8).all()
    assert late.readonly and (late.array == 8).all()
    with pytest.raises(penstock.ArgumentError, match="update=True"):
        engine.commit(late)
    assert (engine.get("a").array == 8).all()


def test_a_commit_that_is_refused_leaves_the_lease_to_be_changed(engine: penstock.Engine, tmp_path: Path) -> None:
    with penstock.Engine(path=tmp_path / "other") as other, engine.get("a", update=True) as lease:
        with pytest.raises(penstock.ArgumentError, match="another engine"):
            other.commit(lease).result()
        lease.array[:] = 9
        engine.commit(lease).result()
    assert (engine.get("a").array == 9).all()


def test_a_committed_lease_is_to_read(engine: penstock.Engine) -> None:
    """Other readers share its memory."""
    engine.put("c", numpy.zeros(8, dtype="float32"))
    with engine.get("c", update=True) as lease:
        lease.array[:] = 1
        assert not lease.readonly
        engine.commit(lease).result()
        assert lease.readonly and not lease.array.flags.writeable and memoryview(lease).readonly
        engine.commit(lease).result()
    with engine.get("c") as lease:
        assert (lease.array == 1).all()


def test_a_lease_that_was_committed_does_not_come_back_over_a_newer_content(engine: penstock.Engine) -> None:
    engine.put("c", numpy.zeros(8, dtype="float32"))
    with engine.get("c", update=True) as lease:
        lease.array[:] = 1
        engine.commit(lease).result()
        engine.put("c", numpy.full(8, 2, dtype="float32"))
        with pytest.raises(penstock.ArgumentError, match="committed already"):
            engine.commit(lease).result()
    with engine.get("c") as lease:
        assert (lease.array == 2).all()


def test_a_lease_that_no_engine_made() -> None:
    lease = penstock._core.Lease.__new__(penstock._core.Lease)
    with pytest.raises(TypeError, match="made by an engine"):
        memoryview(lease)
    for name in ("array", "name", "release"):
        with pytest.raises(TypeError):
            getattr(lease, name)()


BEYOND_MEMORY = """
import resource, sys, numpy, penstock
engine = penstock.Engine({"penstock": {"ram_bytes": 0, "max_pinned_bytes": "4MiB"}}, path=sys.argv[1])
engine.put("large", numpy.zeros(64 << 20, dtype="uint8"))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20),) * 2)
try:
    engine.get("large")
except penstock.ExhaustedError as error:
    assert isinstance(error, MemoryError)
    print(error)
"""


def test_memory_that_the_machine_has_not_is_exhausted(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEYOND_MEMORY, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Cannot allocate memory" in done.stdout, done.stderr


LOST = """
import resource, sys, threading
import numpy, penstock
engine = penstock.Engine({"penstock": {"ram_bytes": 0, "max_pinned_bytes": "16MiB"}}, sys.argv[1])
zeros, said, spinning = numpy.zeros(1 << 18, "f4"), 0, True

def spin():
    while spinning:
        pass

engine.put("w", zeros)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
threading.Thread(target=spin).start()  # so that commit() has the GIL again when the write has failed
for _ in range(20):
    with engine.get("w", update=True) as lease:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
        engine.commit(lease)
    try:
        engine.flush()
    except penstock.StorageError:
        said += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    engine.put("w", zeros)
spinning = False
engine.close()
print(said)
"""


def test_a_write_that_fails_before_its_commit_returns_is_said(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LOST, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr
