"""Faults and mistakes as a program in Python meets them: one exception of the right class, and no content lost."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

import penstock
import pytest
from conftest import ROOT, Row, said

numpy = pytest.importorskip("numpy")

FAULTY_DRIVE = Path(os.environ.get("PENSTOCK_FAULTY_DRIVE", ROOT / "build/release/tests/faults/penstock_faulty_drive"))
NOBODY = 65534


def filled(mebibytes: float, value: int) -> numpy.ndarray:
    return numpy.full(int(mebibytes * (1 << 20)), value, dtype="uint8")


@pytest.fixture
def engine(tmp_path: Path):
    config = {"penstock": {"ram_bytes": 0, "max_pinned_bytes": "8MiB"}}
    with penstock.Engine(config, path=tmp_path / "swap") as opened:
        opened.put("t", filled(2, 1))
        yield opened


def unharmed(engine: penstock.Engine) -> bool:
    return bool((engine.get("t").array == 1).all())


# --- The world ----------------------------------------------------------------------------------

TELL = """
def told(what, call):
    try:
        call()
    except penstock.Error as error:
        number = getattr(error, "errno", None)
        kind = type(error).__name__ + (" " + __import__("errno").errorcode[number] if number else "")
        assert "\\n" not in str(error), str(error)
        return {"what": what, "kind": kind, "text": str(error), "tensor": error.tensor,
                "file": getattr(error, "filename", "")}
    return {"what": what, "kind": "nothing", "text": "", "tensor": "", "file": ""}
config = {"penstock": {"ram_bytes": 0, "max_pinned_bytes": "8MiB"}}
filled = lambda mebibytes, value: numpy.full(mebibytes << 20, value, dtype="uint8")
"""


def test_full_disk(row: Row, in_own_mounts, python) -> None:
    row.fault("full disk during a write", "tmpfs of 22 MiB, put of 64 MiB")
    body = """
engine = penstock.Engine(config, path=drive)
engine.put("small", filled(6, 1))
result = told("put", lambda: engine.put("large", filled(64, 2)))
engine.put("small", filled(6, 3))
result["good"] = bool((engine.get("small").array == 3).all())
engine.flush()
print(json.dumps(result))
"""
    result = said(in_own_mounts("mount -t tmpfs -o size=22m none {drive}", python(TELL + body)))
    assert result["kind"] == "StorageError ENOSPC" and result["good"]
    assert result["tensor"] == "large" and result["file"] and "ram_bytes" in result["text"]
    row.happened("put: StorageError, errno ENOSPC", "yes")


def test_read_only_file_system(row: Row, in_own_mounts, python) -> None:
    row.fault("read-only file system", "tmpfs mounted read-only")
    body = 'print(json.dumps(told("open", lambda: penstock.Engine(config, path=drive))))'
    result = said(in_own_mounts("mount -t tmpfs -o ro none {drive}", python(TELL + body)))
    assert result["kind"] == "StorageError EROFS" and result["file"]
    row.happened("opening: StorageError, errno EROFS")


def on_faulty_drive() -> str:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no /dev/fuse")
    if not FAULTY_DRIVE.exists():
        pytest.skip(f"{FAULTY_DRIVE} is not built")
    # It ends with the shell that becomes the script, so that the mount is there until then.
    return f"{FAULTY_DRIVE} {{drive}} & while ! mountpoint -q {{drive}}; do sleep 0.02; kill -0 $!; done"


FAULTY = """
tell = lambda rule: os.write(os.open(drive + "/.faults", os.O_WRONLY), (rule + "\\n").encode())
engine = penstock.Engine(config, path=drive)
for value in (1, 2, 3):
    engine.put("a", filled(4, value))
    engine.put("b", filled(4, 10 + value))
"""


@pytest.mark.parametrize(
    ("fault", "made_by", "rule", "expected"),
    [
        ("EIO: blocks that cannot be read", "FUSE drive that fails every read", "reads eio", "StorageError EIO"),
        ("stale reads", "FUSE drive that returns what blocks held before", "reads stale", "CorruptError"),
        ("misdirected reads", "FUSE drive that returns other blocks", "reads shifted", "CorruptError"),
    ],
)
def test_drives_that_fail_or_lie(row: Row, in_own_mounts, python, fault, made_by, rule, expected) -> None:
    row.fault(fault, made_by)
    body = f"""
tell({rule!r})
result = told("get", lambda: engine.get("a"))
tell("clear")
result["good"] = bool((engine.get("a").array == 3).all() and (engine.get("b").array == 13).all())
print(json.dumps(result))
"""
    result = said(in_own_mounts(on_faulty_drive(), python(TELL + FAULTY + body)))
    assert result["kind"] == expected and result["tensor"] == "a" and result["good"]
    assert "drive" in result["file"]
    row.happened("get: " + expected.replace("Error ", "Error, errno "), "yes")


def test_failing_writes(row: Row, in_own_mounts, python) -> None:
    row.fault("EIO during a write", "FUSE drive that fails every write")
    body = """
tell("writes eio")
result = told("put", lambda: engine.put("a", filled(4, 9)))
result["good"] = bool((engine.get("a").array == 3).all())
tell("clear")
engine.put("a", filled(4, 9))
result["good"] = result["good"] and bool((engine.get("a").array == 9).all())
print(json.dumps(result))
"""
    result = said(in_own_mounts(on_faulty_drive(), python(TELL + FAULTY + body)))
    assert result["kind"] == "StorageError EIO" and result["tensor"] == "a" and result["good"]
    row.happened("put: StorageError, errno EIO", "yes")


def limited(python, tmp_path: Path, body: str, prepare) -> dict[str, object]:
    command = [str(part) for part in python(TELL + body)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, preexec_fn=prepare)
    return said(done)


def test_no_descriptors_left(row: Row, python, tmp_path: Path) -> None:
    row.fault("no file descriptors left", "RLIMIT_NOFILE lowered to the number in use")
    body = """
import resource
engine = penstock.Engine(config, path=drive)
engine.put("t", filled(2, 1))
engine.get("t").array  # imports what it needs
used = len(os.listdir("/proc/self/fd")) - 1
resource.setrlimit(resource.RLIMIT_NOFILE, (used, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
result = told("open", lambda: penstock.Engine(config, path=drive))
engine.put("t", filled(2, 2))
result["good"] = bool((engine.get("t").array == 2).all())
print(json.dumps(result))
"""
    result = limited(python, tmp_path, body, None)
    assert result["kind"] == "StorageError EMFILE" and result["good"]
    row.happened("opening: StorageError, errno EMFILE; what is open goes on", "yes")


def test_a_file_size_limit(row: Row, python, tmp_path: Path) -> None:
    row.fault("file size limit", "RLIMIT_FSIZE of 16 MiB")
    body = """
engine = penstock.Engine(config, path=drive)
engine.put("small", filled(4, 1))
result = told("put", lambda: engine.put("large", filled(20, 2)))
result["good"] = bool((engine.get("small").array == 1).all())
print(json.dumps(result))
"""
    result = limited(python, tmp_path, body, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, 16 << 20)))
    assert result["kind"] == "StorageError EFBIG" and result["tensor"] == "large" and result["good"]
    row.happened("put: StorageError, errno EFBIG", "yes")


def test_little_memlock_as_an_ordinary_user(row: Row, python, tmp_path: Path) -> None:
    row.fault("memlock of 64 KiB", "RLIMIT_MEMLOCK, as an ordinary user")
    (tmp_path / "drive").mkdir()
    body = f"""
import resource, penstock.array_view  # what an ordinary user might not reach
os.chdir(drive)  # nor this
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
if os.geteuid() == 0:
    os.chown(".", {NOBODY}, {NOBODY})
    os.setgid({NOBODY})
    os.setuid({NOBODY})
engine = penstock.Engine(config, path=".")
for value in range(4):
    engine.put(str(value), filled(3, value))
good = all((engine.get(str(value)).array == value).all() for value in range(4))
print(json.dumps({{"good": bool(good)}}))
"""
    assert limited(python, tmp_path, body, None)["good"]
    row.happened("all succeeds, unregistered", "yes")


def test_fork_with_an_open_engine(row: Row, python, tmp_path: Path) -> None:
    row.fault("fork() with an open engine", "the child calls put, get and close, then ends as any interpreter")
    body = """
engine = penstock.Engine(config, path=drive)
engine.put("t", filled(2, 1))
lease = engine.get("t")
child = os.fork()
if child == 0:
    kinds = {told("get", lambda: engine.get("t"))["kind"], told("put", lambda: engine.put("t", filled(2, 2)))["kind"]}
    engine.close()
    del lease, engine
    sys.exit(0 if kinds == {"ClosedError"} else 1)
status = os.waitpid(child, 0)[1]
lease.release()
engine.put("t", filled(2, 3))
print(json.dumps({"child": status, "good": bool((engine.get("t").array == 3).all())}))
"""
    result = limited(python, tmp_path, body, None)
    assert result == {"child": 0, "good": True}
    row.happened("child: put, get: ClosedError; the parent goes on", "yes")


def test_a_storm_of_signals(row: Row, engine: penstock.Engine) -> None:
    row.fault("signal storm", "SIGALRM every ms with a handler in Python, during put and get")
    seen = 0

    def handler(*_: object) -> None:
        nonlocal seen
        seen += 1

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for value in range(40):
            engine.put("s", filled(8, value))
            assert (engine.get("s").array == value).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen > 20 and unharmed(engine)
    row.happened("all succeeds", "yes")


def test_interrupted_while_it_waits(row: Row, engine: penstock.Engine) -> None:
    row.fault("Ctrl-C while waiting", "SIGINT during get, again and again")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in range(1, 30):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay / 10000)
                engine.put("s", filled(16, delay))
                engine.get("s").release()
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    engine.put("s", filled(16, 77))
    assert (engine.get("s").array == 77).all() and unharmed(engine)
    row.happened("KeyboardInterrupt, at once; the next call succeeds", "yes")


# --- The caller ---------------------------------------------------------------------------------


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
    for thing in (None, 3, "text", [1, 2], object(), numpy.array(["a"]), numpy.zeros(3, dtype="complex64")):
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
    how = "put of None, texts, lists, complex numbers; get into strided arrays and memory to read only"
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
    deadline = time.monotonic() + 60  # what nobody holds goes a moment later, when the I/O thread is done with it
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
