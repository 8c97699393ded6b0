"""Names are declared, found and forgotten in one step each, whatever comes in between."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy
import penstock
import pytest

OPENED = """
import os, resource, signal, sys, threading, numpy, penstock
core = penstock._core.SwapEngine
engine = penstock.Engine({"penstock": {"ram_bytes": 0}}, path=sys.argv[1])
engine.put("a", bytes(5000))
"""


def run(script: str, *arguments: object) -> None:
    """In a process of its own, which may hang."""
    command = [sys.executable, "-c", OPENED + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
call = getattr(core, sys.argv[2])
def save(*_):
    setattr(core, sys.argv[2], call)
    engine.put("saved", bytes(5000))
    engine.forget("saved")
    engine.put("saved", bytes(6000))
def interrupted(*arguments):
    signal.raise_signal(signal.SIGUSR1)
    return call(*arguments)
signal.signal(signal.SIGUSR1, save)
setattr(core, sys.argv[2], interrupted)
engine.put("b", bytes(5000))
engine.forget("a")
assert sorted(engine.names()) == ["b", "saved"], engine.names()
assert engine.get("saved").nbytes == 6000 and engine.get("b").nbytes == 5000
"""


@pytest.mark.parametrize("call", ["find", "forget"])
def test_a_signals_handler_puts_and_forgets(tmp_path: Path, call: str) -> None:
    """As one of SIGTERM that saves what there is, while the thread that it interrupts does the same."""
    run(INTERRUPTED, tmp_path, call)


FORKED = """
forget = core.forget
ends = []
def fork():
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        for call in (lambda: engine.put("a", bytes(5000)), lambda: engine.forget("a"), engine.names):
            try:
                call()
            except penstock.ClosedError:
                continue
            os._exit(1)
        os._exit(0)
    ends.append(os.waitpid(child, 0)[1])
def forgotten(core, number):
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    forget(core, number)
core.forget = forgotten
engine.forget("a")
assert ends == [0], ends
"""


def test_a_child_that_is_forked_while_another_thread_forgets(tmp_path: Path) -> None:
    run(FORKED, tmp_path)


LOOKED_AT = """
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, most))
large = numpy.zeros(16 << 20, dtype="uint8")
class Shown:
    dtype, shape, __dlpack_device__ = large.dtype, large.shape, large.__dlpack_device__
    def __dlpack__(self, **how):
        thread = threading.Thread(target=engine.names)
        thread.start()
        thread.join()
        return large.__dlpack__(**how)
for attempt in range(2):
    try:
        engine.put("b", Shown())
    except penstock.StorageError:
        continue
    raise SystemExit("the put did not fail")
assert engine.names() == ["a"], engine.names()
engine.put("b", bytes(5000))
assert engine.get("b").nbytes == 5000
engine.forget("b")
"""


def test_a_name_that_is_looked_at_before_its_first_put_fails(tmp_path: Path) -> None:
    run(LOOKED_AT, tmp_path)


def test_a_put_of_another_shape_by_another_thread(tmp_path: Path) -> None:
    """Between the look at the name and the put."""
    with penstock.Engine(path=tmp_path) as engine:
        engine.put("a", bytes(5000))
        with pytest.raises(penstock.ArgumentError, match=r"'a' (is|of)"):
            engine._core.put_named(engine._space, "a", "u8", [6000], bytes(6000))
        with pytest.raises(penstock.ArgumentError, match=r"is u8 of shape \[5000\], not i16 of shape \[2, 1250\]"):
            engine.put("a", numpy.zeros((2, 1250), "int16"))
        assert engine.get("a").nbytes == 5000


def test_names_come_in_the_order_of_their_first_puts(tmp_path: Path) -> None:
    config = {"penstock": {"mode": "durable", "ram_bytes": 0}}
    content = numpy.ones(5000, dtype="uint8")
    for before in ([], ["layer.2", "layer.10"]):
        with penstock.Engine(config, path=tmp_path) as engine:
            assert engine.names() == before
            for name in ("layer.10", "layer.2"):
                engine.put(name, content)
            for name in ("z", "a"):
                engine.put(name, content)
            assert engine.names() == [*(before or ["layer.10", "layer.2"]), "z", "a"]
            for name in ("z", "a"):
                engine.forget(name)
    with pytest.raises(penstock.ClosedError):
        engine.names()


@pytest.mark.parametrize("name", [5, b"bytes", ["a"], "\ud800"])
def test_what_is_no_text_is_no_name(tmp_path: Path, name: object) -> None:
    with penstock.Engine(path=tmp_path) as engine:
        with pytest.raises(penstock.ArgumentError, match="is no name for a tensor"):
            engine.put(name, bytes(5000))
        with pytest.raises(penstock.UnknownTensorError, match="there is no tensor"):
            engine.get(name)
        assert engine.names() == []
