"""Traces of runs that hold several leases of one tensor."""

import numpy
import penstock as library
import pytest

SIM = "sim:read=3.5g,write=3g,latency=80us"


@pytest.mark.parametrize("order", ["update first", "read first"])
def test_each_lease_is_the_one_that_was_asked_for(penstock, tmp_path, monkeypatch, order):
    """One to change the tensor, which is committed, and one to read it, in any order."""
    trace = tmp_path / "trace.jsonl"
    monkeypatch.setenv("PENSTOCK_TRACE", str(trace))
    with library.Engine({"penstock": {"ram_bytes": 0}}, tmp_path / "swap") as engine:
        engine.put("x", numpy.zeros(3 << 20, "u1"))
        if order == "update first":
            update, read = engine.get_async("x", update=True), engine.get_async("x")
        else:
            read, update = engine.get_async("x"), engine.get_async("x", update=True)
        with update.result() if order == "read first" else read.result():
            pass
        lease = (read if order == "read first" else update).result()
        if order == "update first":
            engine.commit(lease).result()
        lease.release()
    monkeypatch.delenv("PENSTOCK_TRACE")
    done = penstock("replay", trace, "--device", SIM)
    assert done.returncode == 0, done.stderr
