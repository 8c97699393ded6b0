"""For every group: what a test run must not inherit from whoever started it."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """A shell starts what runs in the background with SIGINT ignored; penstock would ignore it too, as it should."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
