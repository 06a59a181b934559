"""Kernels of Python functions by way of the disk cache: what is there is read, what is not is compiled and written.

A hit loads neither MLIR's bindings nor TVM's compiler. Kernels without a key (interpreted ones, those with stages of
the user's, searched schedules, edited files) are compiled as without a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from mlirtri import settings
from mlirtri.cache.captures import Differs
from mlirtri.cache.digests import NoDescription
from mlirtri.cache.entries import Origins, StoredCode, StoredKernel, kernel_writer, read_kernel
from mlirtri.cache.key import Key, constants_of, key_of_function
from mlirtri.cache.misses import log, log_miss
from mlirtri.cache.store import DamagedError, Store, warn
from mlirtri.cache.writes import FileLock, write_later
from mlirtri.compiler.records import Compilation
from mlirtri.errors import CacheMissError
from mlirtri.kernels.kernel import Compiled, Kernel
from mlirtri.kernels.options import Options, language_options, resolved
from mlirtri.lowering.core.interface import Interface, Specialization

Kernels = MutableMapping[Any, Kernel]
"""The kernels of this process, by digest of stage `tri` with all options, and stages."""


@dataclass(frozen=True)
class Request:
    """A kernel that is asked for."""

    function: Callable[..., Any]
    annotations: Mapping[str, Any]
    specialization: Specialization
    options: Options

    @cached_property
    def key(self) -> Key:
        """Return the key in the disk cache; raises `NoDescription` where there is none."""
        if settings.get("MLIRTRI_OVERRIDE_DIR") is not None:
            raise NoDescription("MLIRTRI_OVERRIDE_DIR is set, and files there may replace stages")
        if settings.get("MLIRTRI_TRACE") is not None:
            raise NoDescription("MLIRTRI_TRACE is set, and its pages are written while stages run")
        return self.new_key()

    def new_key(self) -> Key:
        """Return the key as the function's file is now."""
        target, schedule, pipeline = resolved(self.options)
        language = language_options(self.options)
        return key_of_function(
            self.function, self.specialization, self.annotations, pipeline, target, schedule, language
        )  # type: ignore[arg-type]

    @property
    def origins(self) -> Origins:
        return Origins(self.function, constants_of(self.specialization))  # type: ignore[arg-type]


def compile_cached(request: Request, kernels: Kernels) -> Compiled:
    """Return the kernel of a function, from the disk cache or compiled.

    Raises the `KernelError` of the stage that refuses, `CacheMissError` where a compilation is not allowed.
    """
    if (stored := find_on_disk(request, kernels)) is not None:
        return stored
    store = _store_for(request)
    if store is None:
        return _compiled(request, kernels)
    key = request.key
    lock = store.lock(key.digest)
    is_kept = False
    try:
        # Another process may have written it while this one waited.
        if lock.acquire() and (stored := _find(store, request, kernels)) is not None:
            return stored
        compiled = _compiled(request, kernels)
        is_kept = keep(store, key.name, lock, lambda: _writer(store, request, compiled))
        return compiled
    finally:
        if not is_kept:
            lock.release()


def find_on_disk(request: Request, kernels: Kernels) -> Compiled | None:
    """Return the kernel of a function from the disk cache; None where it has none.

    Raises `CacheMissError` where a compilation is not allowed.
    """
    store = Store.of_settings()
    if store is None:
        return None
    try:
        key = request.key
    except NoDescription as problem:
        _refuse(store, request, str(problem))
        return None
    stored = _find(store, request, kernels)
    if stored is None:
        log_miss(store, key, request.origins)
    return stored


def keep_on_disk(request: Request, compiled: Compiled) -> None:
    """Write a kernel that another process has compiled to the disk cache, in the background."""
    if (store := _store_for(request)) is not None:
        # Nobody waits for the entry: its lock was never taken.
        keep(store, request.key.name, store.lock(request.key.digest), lambda: _writer(store, request, compiled))


def _store_for(request: Request) -> Store | None:
    """Return the disk cache; None where it is off, or keeps no such kernel."""
    store = Store.of_settings()
    try:
        return store if store is not None and request.key else None
    except NoDescription:
        return None


def _compiled(request: Request, kernels: Kernels) -> Compiled:
    from mlirtri.kernels import session  # loads MLIR

    return session.compile_function(request.function, request.specialization, request.options, kernels)


def _refuse(store: Store, request: Request, reason: str) -> None:
    name = request.function.__qualname__
    if settings.get("MLIRTRI_ASSERT_CACHE_HIT"):
        raise CacheMissError(f"{name} is not kept in the disk cache: {reason}")
    store.refuse(name, reason)
    log(f"{name} is not kept: {reason}")


def _find(store: Store, request: Request, kernels: Kernels) -> Compiled | None:
    target, schedule, _ = resolved(request.options)
    for entry in store.entries(request.key.digest):
        try:
            stored = read_kernel(entry, target, schedule, request.origins)
        except Differs:
            continue
        except DamagedError:
            store.set_aside(entry.folder)
            continue
        kernel = _kernel_of(stored, target, kernels)
        log(f"{request.key.name} is entry {entry.name}")
        _observe(kernel, stored, request.options, schedule)
        return Compiled(kernel, stored.captures, is_new=False, content=stored.content)
    return None


def _kernel_of(stored: StoredKernel, target: Any, kernels: Kernels) -> Kernel:
    """Return the kernel that this process has of the same content, or the one that was read."""
    key = (stored.content, stored.pipeline.stages)
    if key not in kernels:

        def compile_with_passes() -> Compilation:
            from mlirtri.kernels import session  # loads MLIR

            return session.compile_again(stored.compilation, stored.pipeline)

        kernels[key] = Kernel(
            stored.name, stored.pipeline, target, stored.semantics, stored.compilation,
            cast(Interface, stored.interface),  # a kernel without one is not written
            compile_with_passes,
        )  # fmt: skip
        if isinstance(code := stored.compilation.ir, StoredCode):
            code.compile_again = lambda: compile_with_passes().executable
    return kernels[key]


def _observe(kernel: Kernel, stored: StoredKernel, options: Options, schedule: str) -> None:
    """Print and dump what a compilation would have printed and dumped."""
    names = ("MLIRTRI_PRINT_IR", "MLIRTRI_DUMP_DIR")
    if options.print_ir or any(settings.get(name) for name in names):
        from mlirtri.kernels import session  # loads MLIR

        session.observe_again(kernel, options.print_ir, stored.content, schedule)


def _writer(store: Store, request: Request, compiled: Compiled) -> Callable[[], Any]:
    """Return a function that writes the entry; raises `NoDescription` for a kernel that is not kept."""
    kernel = compiled.kernel
    stored = StoredKernel(
        kernel.name, kernel.pipeline, kernel.semantics, kernel.interface, kernel.compilation, compiled.content,
        compiled.captures,
    )  # fmt: skip
    if request.new_key().digest != request.key.digest or not all(c.is_current() for c in compiled.captures):
        raise NoDescription("its file or a captured value changed while it was compiled")
    return kernel_writer(store, request.key, stored, request.origins)


def keep(store: Store, name: str, lock: FileLock, writer: Callable[[], Callable[[], Any]]) -> bool:
    """Write an entry in the background and free its lock then, and return True; False for what is not kept.

    `writer` returns the function that writes. Both may raise `NoDescription`.
    """
    try:
        write_entry = writer()
    except NoDescription as problem:
        store.refuse(name, str(problem))
        log(f"{name} is not kept: {problem}")
        return False

    def write() -> None:
        try:
            if write_entry() is not None:
                store.accept(name)
        except NoDescription as problem:
            store.refuse(name, str(problem))
            log(f"{name} is not kept: {problem}")
        except Exception as problem:  # a failure to write is none of the kernel's
            warn(repr(problem))
        finally:
            lock.release()

    write_later(write)
    return True
