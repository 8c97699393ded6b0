"""Puts penstock's swappers where DeepSpeed looks for its own, and takes them away again."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.errors import Error

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
    importlib.import_module("deepspeed")  # without the lock: where the import hook waits for it, that installs
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
    """Puts DeepSpeed's own swappers back.

    Raises an Error while an engine lives that swaps through penstock: DeepSpeed's code could not train or save it.
    """
    with _lock:
        _refuse_living_engines()
        _restore()


def is_installed() -> bool:
    return bool(_undo)


def _refuse_living_engines() -> None:
    session = sys.modules.get("penstock.deepspeed.session")
    if session is None or session.current_session() is None:
        return
    gc.collect()  # engines refer to themselves: one that the script has deleted ends now
    if session.current_session() is not None:
        raise Error(
            "penstock.deepspeed.uninstall(): a model or an optimizer swaps through penstock, and DeepSpeed's own code "
            "knows nothing of its contents: delete the engine first"
        )


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
