"""penstock.Engine: contents come back, views share memory, errors are the right classes, the GIL is free."""

from __future__ import annotations

import errno
import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import penstock
import pytest


@pytest.fixture
def engine(tmp_path: Path):
    with penstock.Engine(path=tmp_path / "swap") as opened:
        yield opened


def test_numpy_comes_back(engine: penstock.Engine) -> None:
    for dtype in ("float32", "float16", "int8", "uint8", "int64", "bool", "float64"):
        array = (numpy.arange(70000) % 2).astype(dtype).reshape(7, 10000)
        engine.put(dtype, array)
        with engine.get(dtype) as lease:
            assert lease.shape == (7, 10000)
            assert lease.nbytes == array.nbytes
            assert lease.array.dtype == array.dtype
            assert (lease.array == array).all()


def test_bytes_have_the_buffer_protocol(engine: penstock.Engine) -> None:
    engine.put("bytes", b"abc" * 5000)
    with engine.get("bytes") as lease:
        assert bytes(lease) == b"abc" * 5000
        assert memoryview(lease).nbytes == 15000


def test_a_forget_that_a_signal_ends_leaves_the_name_usable(engine: penstock.Engine, monkeypatch) -> None:
    """Wherever it comes: here behind the core's."""
    forget = penstock._core.SwapEngine.forget
    data = numpy.ones(3000, "uint8")

    def ended(core, number: int) -> None:
        forget(core, number)
        raise KeyboardInterrupt

    engine.put("a", data)
    monkeypatch.setattr(penstock._core.SwapEngine, "forget", ended)
    with pytest.raises(KeyboardInterrupt):
        engine.forget("a")
    monkeypatch.undo()
    assert "a" not in engine.names()
    engine.put("a", data)
    assert (engine.get("a").array == data).all()


def test_torch_shares_the_memory() -> None:
    torch = pytest.importorskip("torch")
    with penstock.Engine(path=os.environ.get("PENSTOCK_TMP", "/tmp")) as engine:
        source = torch.randn(300, 1000).to(torch.bfloat16).requires_grad_()
        engine.put("weight", source)
        lease = engine.get("weight")
        tensor = torch.from_dlpack(lease)
        assert tensor.dtype == torch.bfloat16 and tensor.shape == (300, 1000)
        assert tensor.data_ptr() == lease.data_ptr
        assert torch.equal(tensor, source.detach())
        lease.release()
        lease.release()
        assert torch.equal(tensor, source.detach()), "a view keeps the memory alive by itself"
        with pytest.raises(penstock.ClosedError):
            torch.from_dlpack(lease)


def test_views_survive_reuse_of_everything_else(engine: penstock.Engine) -> None:
    engine.put("a", numpy.full(1 << 20, 7, dtype="uint8"))
    view = engine.get("a").array
    for i in range(20):
        engine.put(f"b{i}", numpy.full(1 << 20, i, dtype="uint8"))
        engine.get(f"b{i}").release()
    gc.collect()
    assert (view == 7).all()


def test_reads_into_what_is_there(engine: penstock.Engine) -> None:
    array = numpy.arange(123457, dtype="float32")
    engine.put("a", array)
    out = numpy.zeros_like(array)
    future = engine.get_async("a", out=out)
    assert future.result(timeout=30) is None
    assert future.done()
    assert (out == array).all()


def test_the_callers_memory_is_free_when_the_end_was_seen(engine: penstock.Engine) -> None:
    """A bytearray that something holds cannot be resized."""
    content = bytearray(b"x" * (32 << 20))
    futures = [engine.put_async("b", content)]
    futures[0].result()
    content.append(1)
    content.pop()
    futures.append(engine.get_async("b", out=content))
    while not futures[1].done():
        pass
    content.append(1)
    futures.append(engine.put_async("c", content))
    futures[2].result()
    content.clear()
    assert all(future.done() for future in futures)


def test_update_and_commit(engine: penstock.Engine) -> None:
    engine.put("a", numpy.zeros(1 << 20, dtype="float32"))
    for i in range(5):
        lease = engine.get("a", update=True)
        lease.array[:] += 1
        engine.commit(lease)
        lease.release()
        assert (engine.get("a").array == i + 1).all()


def test_futures_time_out_and_go_on(engine: penstock.Engine) -> None:
    engine.put("a", numpy.zeros(64 << 20, dtype="uint8"))
    future = engine.get_async("a")
    try:
        future.result(timeout=0)
    except TimeoutError:
        pass
    assert future.result().nbytes == 64 << 20


def test_prefetch_plan_stats_state(engine: penstock.Engine) -> None:
    for i in range(4):
        engine.put(f"t{i}", numpy.full(1 << 20, i, dtype="uint8"))
    plan = engine.plan()
    assert plan["pinned_bytes"] <= plan["max_pinned_bytes"]
    engine.prefetch("t0")
    engine.prefetch(engine.names())
    for i in range(4):
        assert (engine.get(f"t{i}").array == i).all()
    stats = engine.stats()
    assert stats["gets"] == 4 and stats["misses"] == 0
    assert engine.state("t0")["on_drive"]


def test_configuration_from_mapping_and_file(tmp_path: Path) -> None:
    config = {"penstock": {"ram_bytes": "8MiB", "paths": [{"path": str(tmp_path / "nvme")}]}}
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(config))
    for given in (config, file, str(file)):
        with penstock.Engine(config=given) as engine:
            engine.put("a", numpy.zeros(4 << 20, dtype="uint8"))
            assert engine.state("a")["resident"]


def test_errors_are_of_the_right_class(engine: penstock.Engine, tmp_path: Path) -> None:
    with pytest.raises(penstock.UnknownTensorError, match="nothing"):
        engine.get("nothing")
    engine.put("a", numpy.zeros(10, dtype="uint8"))
    with pytest.raises(penstock.ArgumentError, match=r"shape \[10\]"):
        engine.put("a", numpy.zeros(11, dtype="uint8"))
    with pytest.raises(penstock.ArgumentError, match="complex"):
        engine.put("c", numpy.zeros(10, dtype="complex128"))
    with pytest.raises(penstock.ConfigError, match="ram_bytes"):
        penstock.Engine(config={"penstock": {"ram_byte": 0}}, path=tmp_path)
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{"penstock": {"paths": ["/caf\xe9"]}}')
    with pytest.raises(penstock.ConfigError, match="is not UTF-8, at byte 29"):
        penstock.Engine(config=latin)
    with pytest.raises(penstock.ConfigError, match="no-such"):
        penstock.Engine(config=tmp_path / "no-such.json")
    with pytest.raises(penstock.Error):
        penstock.Engine()
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(penstock.StorageError) as caught:
        penstock.Engine(path=in_the_way)
    assert isinstance(caught.value, OSError) and caught.value.errno and caught.value.filename == str(in_the_way)
    assert str(in_the_way) in str(caught.value)


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    engine = penstock.Engine(path=tmp_path)
    engine.put("a", numpy.zeros(1 << 20, dtype="uint8"))
    lease = engine.get("a")
    engine.close()
    engine.close()
    assert (lease.array == 0).all()
    with pytest.raises(penstock.ClosedError):
        engine.get("a")


def test_other_threads_run_while_one_waits(engine: penstock.Engine) -> None:
    """A reader that blocks must not hold the GIL: a counter in another thread goes on."""
    engine.put("a", numpy.zeros(256 << 20, dtype="uint8"))
    stop = threading.Event()
    ticks = 0

    def count() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.0005)

    counter = threading.Thread(target=count)
    counter.start()
    out = numpy.empty(256 << 20, dtype="uint8")
    before = ticks
    future = engine.get_async("a", out=out)
    future.result()
    counted = ticks - before
    stop.set()
    counter.join()
    assert counted >= 1


def test_threads_share_an_engine(engine: penstock.Engine) -> None:
    wrong = []

    def work(number: int) -> None:
        for i in range(20):
            name = f"{number}.{i % 3}"
            array = numpy.full((1 << 20) + number, (number * 31 + i) % 251, dtype="uint8")
            if i >= 3:
                engine.forget(name)
            engine.put(name, array)
            if not (engine.get(name).array == array).all():
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


TORCH_IN_THREADS = """
import sys, threading, penstock, torch
engine = penstock.Engine({"penstock": {"ram_bytes": 0, "max_pinned_bytes": "8MiB"}}, path=sys.argv[1])
def work(number):
    name = str(number)
    for value in range(500):
        engine.put(name, torch.full((1 << 16,), value % 100, dtype=torch.uint8))
        out = torch.empty(1 << 16, dtype=torch.uint8)
        engine.get_async(name, out=out).result()
        assert (out == value % 100).all()
    done.append(number)
done = []
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(done) == 6
"""


def test_torch_tensors_of_several_threads(tmp_path: Path) -> None:
    """To let go of one is to let go of the GIL: other threads are in the engine meanwhile."""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", TORCH_IN_THREADS, str(tmp_path)], check=True, timeout=300)


def test_import_needs_no_torch_and_starts_nothing() -> None:
    code = (
        "import sys, threading, penstock; assert 'torch' not in sys.modules and 'numpy' not in sys.modules;"
        "assert len(open('/proc/self/status').read().split('Threads:')[1].split()) and threading.active_count() == 1;"
        "import os; assert len(os.listdir('/proc/self/task')) == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_is_left_on_disk(tmp_path: Path) -> None:
    code = (
        "import penstock, numpy, os, sys; e = penstock.Engine(path=sys.argv[1]);"
        "e.put('a', numpy.zeros(1 << 22, dtype='uint8')); assert os.listdir(sys.argv[1]) == []; os._exit(9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert ended.returncode == 9
    assert list(tmp_path.iterdir()) == []


def test_stubs_name_what_the_module_has() -> None:
    import ast

    import penstock._core as core

    stub = Path(penstock.__file__).with_name("_core.pyi")
    classes = {node.name: node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)}
    for name, node in classes.items():
        real = getattr(core, name)
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and member.name not in ("__init__", "__buffer__"):
                assert hasattr(real, member.name), f"{name}.{member.name}"
        public = {attribute for attribute in vars(real) if not attribute.startswith("_")}
        assert public <= {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
    assert Path(penstock.__file__).with_name("py.typed").exists()


def test_a_durable_store_is_there_again(tmp_path: Path) -> None:
    config = {"penstock": {"mode": "durable", "ram_bytes": 0}}
    array = numpy.arange(100_000, dtype="float32").reshape(100, 1000)
    with penstock.Engine(config, path=tmp_path / "store") as engine:
        engine.put("layer.10", array)
        engine.put("layer.2", array[:1])
        engine.flush()
        assert engine.stats()["publishes"] > 0
        with pytest.raises(OSError, match=f"process {os.getpid()}") as busy:
            penstock.Engine(config, path=tmp_path / "store")
        assert busy.value.errno == errno.EBUSY
    with penstock.Engine(config, path=tmp_path / "store") as engine:
        assert engine.names() == ["layer.2", "layer.10"]
        assert engine.state("layer.10")["generation"] == 1
        with engine.get("layer.10") as lease:
            assert lease.shape == (100, 1000) and (lease.array == array).all()
        engine.put("layer.10", array + 1)
        engine.forget("layer.2")
    with penstock.Engine(config, path=tmp_path / "store") as engine:
        assert engine.names() == ["layer.10"]
        with engine.get("layer.10") as lease:
            assert (lease.array == array + 1).all()


def test_a_durable_store_survives_its_process(tmp_path: Path) -> None:
    script = """
import sys, os, numpy, penstock
engine = penstock.Engine({"penstock": {"mode": "durable"}}, path=sys.argv[1])
engine.put("a", numpy.full(50_000, 1.0))
engine.flush()
engine.put("a", numpy.full(50_000, 2.0))
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "store")], check=False)
    assert killed.returncode == -9
    with penstock.Engine({"penstock": {"mode": "durable"}}, path=tmp_path / "store") as engine:
        with engine.get("a") as lease:
            assert set(lease.array) == {1.0}


def test_a_first_put_that_fails_leaves_nothing_behind(tmp_path):
    """Neither name, size nor shape: the name may be put anew with another shape."""
    script = f"""
import resource, numpy, penstock
engine = penstock.Engine({{"penstock": {{"ram_bytes": 0, "max_pinned_bytes": "16MiB"}}}}, {str(tmp_path)!r})
engine.put("other", numpy.ones(10, numpy.uint8))
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
for put in (engine.put, lambda *arguments: engine.put_async(*arguments).result()):
    try:
        put("a", numpy.ones(200 << 20, numpy.uint8))
    except (penstock.Error, OSError):
        pass
    else:
        raise SystemExit("the put did not fail")
    assert engine.names() == ["other"], engine.names()
    try:
        engine.get("a")
    except penstock.UnknownTensorError:
        pass
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
engine.put("a", numpy.full(5, 7, numpy.int16))
assert engine.get("a").array.tolist() == [7] * 5 and engine.names() == ["other", "a"]
engine.close()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("size", [1 << 20, 8 << 20, 64 << 20, 200 << 20])
@pytest.mark.parametrize("room", [0, 1 << 20, 16 << 20, 100 << 20, 300 << 20])
def test_memory_that_is_short_ends_one_put(tmp_path, size, room):
    """Then flush, close and the interpreter's exit return, and what was put before is there."""
    script = f"""
import resource, numpy, penstock
engine = penstock.Engine({{}}, {str(tmp_path)!r})
engine.put("before", numpy.full(5000, 7, numpy.uint8))
data = numpy.ones({size}, numpy.uint8)
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {room}, hard))
for attempt in range(3):
    try:
        engine.put("large", data)
    except (MemoryError, penstock.Error):
        pass
    try:
        engine.get("large").release()
    except (MemoryError, penstock.Error):
        pass
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
engine.put("large", data)
assert engine.get("large").array[-1] == 1 and (engine.get("before").array == 7).all()
engine.flush()
{"engine.close()" if room else ""}
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
