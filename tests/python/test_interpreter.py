"""Daemon threads that use an engine while the interpreter ends do not take the process down; subinterpreters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = """
import os, sys, threading, time, numpy, penstock
engine = penstock.Engine({"penstock": {"ram_bytes": 0, "max_pinned_bytes": "8MiB"}}, path=sys.argv[1])
content = numpy.ones(1 << 20, dtype="uint8")
for name in "abc":
    engine.put(name, content)
out = numpy.empty_like(content)
def read(): engine.get("a").release()
def write(): engine.put("b", content)
def wait(): engine.get_async("c").result().release()
def fill(): engine.get_async("a", out=out).result()
def refused():
    try: engine.put("a", content[:1])
    except penstock.ArgumentError: pass
def viewed(): assert engine.get("c").array[0] == 1
begun = []
def forever(call):
    call()
    begun.append(call)
    while True: call()
calls = [globals()[name] for name in sys.argv[2].split(",")]
for call in calls:
    threading.Thread(target=forever, args=(call,), daemon=True).start()
while len(begun) < len(calls): time.sleep(0.001)
time.sleep(int(sys.argv[3]) / 1000)
"""


def end_with_daemons(directory: Path, calls: str, delays_ms: range, before: str = "", after: str = "") -> None:
    for delay in delays_ms:
        command = [sys.executable, "-c", before + WORKERS + after, str(directory), calls, str(delay)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"after {delay} ms: {done.returncode}\n{done.stderr}"


def test_daemon_threads_at_exit(tmp_path: Path) -> None:
    end_with_daemons(tmp_path, "read,write,wait,fill", range(20))


def test_daemon_threads_that_call_back_into_python_at_exit(tmp_path: Path) -> None:
    """Errors and arrays are made by Python code, where a thread may be ended as well."""
    end_with_daemons(
        tmp_path, "refused,refused,viewed,viewed", range(10), before="import sys; sys.setswitchinterval(1e-6)"
    )


ENDED_IN_PYTHON_CODE = """
import sys, threading, time, types, numpy, penstock, penstock.array_view
engine = penstock.Engine(path=sys.argv[1])
engine.put("a", numpy.ones(1 << 20, dtype="uint8"))
begun = threading.Event()
def array_of(lease):
    del sys.modules["penstock.array_view"], penstock.array_view  # the C++ that calls this is its last owner
    begun.set()
    time.sleep(0.3)  # until the interpreter ends
penstock.array_view.array_of = array_of
threading.Thread(target=lambda: engine.get("a").array, daemon=True).start()
begun.wait()
class Last:
    def __del__(self, sleep=time.sleep): sleep(0.8)  # the end goes on when that thread has met it
sys.modules["last"] = types.ModuleType("last")
sys.modules["last"].last = Last()
"""


def test_a_daemon_thread_that_ends_in_python_code_frees_nothing(tmp_path: Path) -> None:
    """It has not the GIL then."""
    command = [sys.executable, "-c", ENDED_IN_PYTHON_CODE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}"


def test_close_at_exit_beside_daemon_threads(tmp_path: Path) -> None:
    """It waits for operations, not for the threads that began them."""
    closes = "\nthreading.excepthook = lambda failure: None\nimport atexit; atexit.register(engine.close)\n"
    end_with_daemons(tmp_path, "read,write,wait,fill", range(5), after=closes)
    closes_last = "\nclass Last:\n    def __del__(self, close=engine.close): close()\nlast = Last()\n"
    end_with_daemons(tmp_path, "read,write,wait,fill", range(5), after=closes_last)


IN_A_SUBINTERPRETER = """
import sys, _xxsubinterpreters as interpreters
if sys.argv[2] == "after":
    import penstock
    own = penstock.Engine(path=sys.argv[1])
    own.put("a", b"content")
number = interpreters.create(isolated=False)
try:
    interpreters.run_string(number, f"import penstock; engine = penstock.Engine(path={sys.argv[1]!r})")
except interpreters.RunFailedError as error:
    print(error)
interpreters.destroy(number)
if sys.argv[2] == "after":
    assert bytes(own.get("a")) == b"content" and own.names() == ["a"]
    penstock.Engine(path=sys.argv[1]).close()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_subinterpreter_is_refused(tmp_path: Path, when: str) -> None:
    """Also one that is there after the main interpreter has imported penstock, which goes on working."""
    pytest.importorskip("_xxsubinterpreters", exc_type=ImportError)
    command = [sys.executable, "-c", IN_A_SUBINTERPRETER, str(tmp_path), when]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "ImportError" in done.stdout and "not in a subinterpreter" in done.stdout
