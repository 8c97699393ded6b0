"""Installs penstock the moment DeepSpeed has been imported, and imports nothing of it before.

A script may set DS_ACCELERATOR or other variables that DeepSpeed reads while it is imported; so the runner must
not import it first.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from penstock.deepspeed.child_processes import install_in_children


def install_when_imported() -> None:
    """In this process and those that multiprocessing starts."""
    install_in_children()
    if "deepspeed" in sys.modules:
        _install()
    else:
        sys.meta_path.insert(0, _Finder())


def _install() -> None:
    from penstock.deepspeed.installation import install

    install()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `deepspeed` where everybody else would, with a loader that installs afterwards.

    It stays until the module has been loaded: libraries ask whether DeepSpeed exists long before they import it.
    """

    def __init__(self) -> None:
        self._asking_the_others = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "deepspeed" or self._asking_the_others:
            return None
        self._asking_the_others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking_the_others = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, original: Any, finder: _Finder) -> None:
        self._original = original
        self._finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._original.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._original
        module.__loader__ = self._original
        self._original.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        _install()
