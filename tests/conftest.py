"""For every part: what a test run must not inherit from its shell, and what it leaves out."""

import os
import signal
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """A shell starts what runs in the background with SIGINT ignored; penstock would ignore it too, as it should."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_deselected(items):
    """For ./tests/run, the names of what its marks leave out; side by side each process leaves out the same."""
    left_out = os.environ.get("PENSTOCK_LEFT_OUT")
    if left_out and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        with Path(left_out).open("a") as file:
            file.writelines(f"{item.nodeid}\n" for item in items)
