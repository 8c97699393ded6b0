"""Contents that the Python tests of faults put into engines."""

from __future__ import annotations

import penstock
import pytest

numpy = pytest.importorskip("numpy")


def filled(mebibytes: float, value: int) -> numpy.ndarray:
    return numpy.full(int(mebibytes * (1 << 20)), value, dtype="uint8")


def unharmed(engine: penstock.Engine) -> bool:
    return bool((engine.get("t").array == 1).all())
