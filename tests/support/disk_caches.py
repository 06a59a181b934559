"""A disk cache of a test's own, and what a new process would have of it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

import mlirtri as mt
from mlirtri.cache.store import Store
from mlirtri.cache.writes import finish_writes
from mlirtri.kernels import session


class DiskCache:
    """The folder, and how often something was compiled."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.folder = folder
        self.compiles = 0
        self._patch = monkeypatch
        monkeypatch.setenv("MLIRTRI_CACHE", "1")
        monkeypatch.setenv("MLIRTRI_CACHE_DIR", str(folder))
        compile_function = session.compile_function

        def counted(*arguments: Any) -> Any:
            compiled = compile_function(*arguments)
            self.compiles += compiled.is_new
            return compiled

        monkeypatch.setattr(session, "compile_function", counted)
        self.renew()

    @property
    def store(self) -> Store:
        store = Store.of_settings()
        assert store is not None
        return store

    def renew(self) -> None:
        """Write what is left to be written, and forget the kernels of this process."""
        finish_writes()
        self._patch.setattr(import_module("mlirtri.kernels.jit"), "_kernels", WeakValueDictionary())

    def jit(self, function: Any, **options: Any) -> Any:
        """Return the kernel function of a new process."""
        self.renew()
        return mt.jit(function, **{"pipeline": "mlir", **options})

    def entries(self) -> list[Path]:
        finish_writes()
        return self.store.all_folders()
