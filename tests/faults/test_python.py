"""Faults and mistakes as a program in Python meets them: one exception of the right class, and no content lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path

import penstock
import pytest
from conftest import ROOT, Row, said
from engine_contents import filled, unharmed

numpy = pytest.importorskip("numpy")

FAULTY_DRIVE = Path(os.environ.get("PENSTOCK_FAULTY_DRIVE", ROOT / "build/release/tests/faults/penstock_faulty_drive"))
ORDINARY_USER = 65534

PREAMBLE = """
def outcome_of(what, call):
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
result = outcome_of("put", lambda: engine.put("large", filled(64, 2)))
engine.put("small", filled(6, 3))
result["good"] = bool((engine.get("small").array == 3).all())
engine.flush()
print(json.dumps(result))
"""
    result = said(in_own_mounts("mount -t tmpfs -o size=22m none {drive}", python(PREAMBLE + body)))
    assert result["kind"] == "StorageError ENOSPC" and result["good"]
    assert result["tensor"] == "large" and result["file"] and "ram_bytes" in result["text"]
    row.happened("put: StorageError, errno ENOSPC", "yes")


def test_read_only_file_system(row: Row, in_own_mounts, python) -> None:
    row.fault("read-only file system", "tmpfs mounted read-only")
    body = 'print(json.dumps(outcome_of("open", lambda: penstock.Engine(config, path=drive))))'
    result = said(in_own_mounts("mount -t tmpfs -o ro none {drive}", python(PREAMBLE + body)))
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
set_rules = lambda rule: os.write(os.open(drive + "/.faults", os.O_WRONLY), (rule + "\\n").encode())
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
set_rules({rule!r})
result = outcome_of("get", lambda: engine.get("a"))
set_rules("clear")
result["good"] = bool((engine.get("a").array == 3).all() and (engine.get("b").array == 13).all())
print(json.dumps(result))
"""
    result = said(in_own_mounts(on_faulty_drive(), python(PREAMBLE + FAULTY + body)))
    assert result["kind"] == expected and result["tensor"] == "a" and result["good"]
    assert "drive" in result["file"]
    row.happened("get: " + expected.replace("Error ", "Error, errno "), "yes")


def test_failing_writes(row: Row, in_own_mounts, python) -> None:
    row.fault("EIO during a write", "FUSE drive that fails every write")
    body = """
set_rules("writes eio")
result = outcome_of("put", lambda: engine.put("a", filled(4, 9)))
result["good"] = bool((engine.get("a").array == 3).all())
set_rules("clear")
engine.put("a", filled(4, 9))
result["good"] = result["good"] and bool((engine.get("a").array == 9).all())
print(json.dumps(result))
"""
    result = said(in_own_mounts(on_faulty_drive(), python(PREAMBLE + FAULTY + body)))
    assert result["kind"] == "StorageError EIO" and result["tensor"] == "a" and result["good"]
    row.happened("put: StorageError, errno EIO", "yes")


def limited(python, tmp_path: Path, body: str, prepare) -> dict[str, object]:
    command = [str(part) for part in python(PREAMBLE + body)]
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
result = outcome_of("open", lambda: penstock.Engine(config, path=drive))
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
result = outcome_of("put", lambda: engine.put("large", filled(20, 2)))
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
    os.chown(".", {ORDINARY_USER}, {ORDINARY_USER})
    os.setgid({ORDINARY_USER})
    os.setuid({ORDINARY_USER})
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
    calls = {"get": lambda: engine.get("t"), "put": lambda: engine.put("t", filled(2, 2))}
    kinds = {outcome_of(what, call)["kind"] for what, call in calls.items()}
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
