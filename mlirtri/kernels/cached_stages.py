"""Programs and graphs by way of the disk cache: what stands after the first stages is read, or compiled and written.

The key is the text of the function in the last stage that has run (a program's normal form, a graph's `tri`), with the
types of a program's weights and the options. Weights are arguments of the code, and no part of an entry: one entry
serves all weights of the same types, and constants that are part of the text are part of the key. The import, or the
recording of a graph, itself runs in each process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlirtri import settings
from mlirtri.cache.digests import NoDescription, describe, digest_of
from mlirtri.cache.entries import StoredCode, StoredKernel, kernel_writer, read_kernel
from mlirtri.cache.key import Key, facts_of_options
from mlirtri.cache.misses import log, log_miss
from mlirtri.cache.store import DamagedError, Store
from mlirtri.cache.writes import FileLock
from mlirtri.compiler.records import Compilation
from mlirtri.errors import CacheMissError
from mlirtri.kernels.cached import keep
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.pipelines import Pipeline


@dataclass(frozen=True)
class StagesRequest:
    """A function of a program or a graph whose first stages have run, and that has to be compiled from there."""

    name: str
    source: str
    """The language that it entered in; "graph" for graphs of kernels."""
    semantics: str
    pipeline: Pipeline
    target: Target
    schedule: str
    front: Compilation
    """The first stages."""
    compile_rest: Callable[[], Compilation]
    """Runs the other stages, once."""
    compile_again: Callable[[], Compilation]
    """Runs all stages, where the files of an entry are gone."""

    def key(self) -> Key:
        """Return the key in the disk cache; raises `NoDescription`."""
        if settings.get("MLIRTRI_OVERRIDE_DIR") is not None:
            raise NoDescription("MLIRTRI_OVERRIDE_DIR is set, and files there may replace stages")
        *_, (stage, record) = self.front.records.items()
        bound = [[parameter.name, str(parameter.type)] for parameter in self.front.context.interface.bound]
        facts: Mapping[str, Any] = {
            "kernel": self.name,
            "language": self.source,
            "normal form": stage,
            "text": digest_of(record.complete()),
            "weights": bound,
            "fixed weights": sorted(self.front.context.fixed),
            "shapes": describe(tuple(sorted(self.front.context.shapes.items()))),
            "semantics": self.semantics,
            **facts_of_options(self.pipeline, self.target, self.schedule),
        }
        return Key(self.name, dict(facts))


def compile_stages(request: StagesRequest) -> Compilation:
    """Return the whole compilation, with its later stages from the disk cache or compiled.

    Raises the `KernelError` of the stage that refuses, `CacheMissError` where a compilation is not allowed.
    """
    store = Store.of_settings()
    if store is None:
        return request.compile_rest()
    try:
        key = request.key()
    except NoDescription as problem:
        if settings.get("MLIRTRI_ASSERT_CACHE_HIT"):
            raise CacheMissError(f"{request.name} is not kept in the disk cache: {problem}") from None
        store.refuse(request.name, str(problem))
        log(f"{request.name} is not kept: {problem}")
        return request.compile_rest()
    if (stored := _find(store, request, key)) is not None:
        return stored
    log_miss(store, key, None)
    lock = store.lock(key.digest)
    is_kept = False
    try:
        # Another process may have written it while this one waited.
        if lock.acquire() and (stored := _find(store, request, key)) is not None:
            return stored
        compilation = request.compile_rest()
        is_kept = _keep(store, request, key, compilation, lock)
        return compilation
    finally:
        if not is_kept:
            lock.release()


def _find(store: Store, request: StagesRequest, key: Key) -> Compilation | None:
    front = request.front
    for entry in store.entries(key.digest):
        try:
            stored = read_kernel(entry, request.target, request.schedule, None)
        except DamagedError:
            store.set_aside(entry.folder)
            continue
        if isinstance(code := stored.compilation.ir, StoredCode):
            code.compile_again = lambda: request.compile_again().executable
        log(f"{key.name} is entry {entry.name}")
        records = {**stored.compilation.records, **front.records}
        return Compilation(front.context, {name: records[name] for name in request.pipeline.names}, code)
    return None


def _keep(store: Store, request: StagesRequest, key: Key, compilation: Compilation, lock: FileLock) -> bool:
    """Write the entry later, and return True; False for one that is not kept."""
    stored = StoredKernel(
        request.name, request.pipeline, request.semantics, compilation.context.interface, compilation, key.digest, []
    )
    return keep(store, key.name, lock, lambda: kernel_writer(store, key, stored, None))
