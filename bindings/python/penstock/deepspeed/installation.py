"""Puts penstock's swappers where DeepSpeed looks for its own, and takes them away again."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.deepspeed.patch_table import Place

_lock = threading.Lock()
_undo: list[Callable[[], None]] = []


def install() -> None:
    """Makes DeepSpeed swap through penstock, in this process and in those that multiprocessing starts from it.

    Idempotent; any thread may call it.

    Raises CompatibilityError when a stock swapper exists already (call it before the model is built) and when
    the installed DeepSpeed cannot work with penstock; the message lists the differences.
    """
    with _lock:
        if _undo:
            return
        from penstock.deepspeed import child_processes, contract, exit_status, stock_swappers

        report = contract.require_known_surface()
        stock_swappers.require_none_exists()
        try:
            _patch_all(report.patched)
            _replace(sys, "exit", exit_status.remembering_code(sys.exit))
            child_processes.install_in_children()
            _undo.append(child_processes.leave_children_alone)
        except BaseException:
            _restore()
            raise


def uninstall() -> None:
    """Puts DeepSpeed's own swappers back. Models that are built already go on with penstock's."""
    with _lock:
        _restore()


def is_installed() -> bool:
    return bool(_undo)


def _restore() -> None:
    while _undo:
        _undo.pop()()


def _patch_all(places: Iterable[Place]) -> None:
    for place in places:
        module: Any = importlib.import_module(place.module)
        _patch(getattr(module, place.owner) if place.owner else module, place)


def _patch(owner: Any, place: Place) -> None:
    if place.wrap is not None:
        _replace(owner, place.attribute, place.wrap(getattr(owner, place.attribute)))


def _replace(owner: Any, name: str, replacement: Any) -> None:
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    _undo.append(lambda: setattr(owner, name, original))
