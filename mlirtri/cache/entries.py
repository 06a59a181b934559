"""A compiled kernel as an entry of the store: its executable's files, the text of every stage, and how to call it.

manifest.json     facts of the key, captured values, stages, interface, the description of the executable
stages.json       by stage its readable and its complete text, and that after each pass where these were kept
artifact/         the files of the executable
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mlirtri.cache.captures import Path as ValuePath
from mlirtri.cache.captures import Reached, captures_now, recorded, value_at
from mlirtri.cache.digests import Description, NoDescription, digest_of
from mlirtri.cache.key import Key, described_stages
from mlirtri.cache.store import MANIFEST, DamagedError, Entry, Store, stamp
from mlirtri.compiler.interface_json import from_json, to_json
from mlirtri.compiler.records import Compilation, StageRecord, StoredRecord
from mlirtri.dialect.base.sizes import UNKNOWN, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import ArtifactError, KernelError
from mlirtri.lowering.core.interface import Capture, Interface, Leaf, like, parts_of
from mlirtri.lowering.core.stage import Code, CompileContext, Executable, PassRecord, Stage
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.pipelines import LazyLowering, Pipeline

STAGES, ARTIFACT = "stages.json", "artifact"
Captured = Sequence[tuple[ValuePath, Description]]


@dataclass(frozen=True)
class Origins:
    """What captured values are reached from: the kernel's function, and its compile-time arguments by name."""

    function: Any
    """A `FunctionType`, which as the type of an attribute would be that of a method."""
    constants: Mapping[str, Any]

    def record(self, captures: Sequence[Capture]) -> tuple[Captured, Reached]:
        """Return paths and descriptions of the captured values; raises `NoDescription`."""
        return recorded(self.function, self.constants, captures)

    def now(self, captured: Captured) -> list[Capture]:
        """Return this process's captures for recorded ones; raises `Differs`."""
        return captures_now(self.function, self.constants, captured)

    def value_at(self, path: ValuePath) -> Any:
        """Return what a path leads to."""
        return value_at(self.function, self.constants, path)


class StoredCode(Code):
    """The code of an entry, which is loaded when it is first called."""

    def __init__(self, description: dict[str, Any], folder: Path):
        self._text, self.payload = "", None
        self._description, self._folder = description, folder
        self.compile_again: Callable[[], Executable | None] = lambda: None
        """Makes the executable where the files are gone: another process may remove an entry at any time."""

    @cached_property
    def executable(self) -> Executable | None:  # type: ignore[override]
        """Return the executable, from its files or, where these are gone, compiled again."""
        from mlirtri.lowering.runtime.artifact import read_artifact

        try:
            return read_artifact(self._folder, self._description)
        except ArtifactError:
            return self.compile_again()


@dataclass(frozen=True)
class StoredKernel:
    """What an entry holds of a kernel."""

    name: str
    pipeline: Pipeline
    semantics: str
    interface: Interface | None
    """None for a kernel that was compiled up to its syntax only."""
    compilation: Compilation
    content: str
    """The digest under which the process keeps the kernel."""
    captures: list[Capture]


def kernel_writer(
    store: Store, key: Key, stored: StoredKernel, origins: Origins | None, facts: Mapping[str, object] | None = None
) -> Callable[[], Path | None]:
    """Return a function that writes a kernel's entry, and its folder; raises `NoDescription` where there is none.

    Captured values are described now. Without `origins` the kernel has none: it is that of a program. The function
    raises `NoDescription` for an executable without files.
    """
    captured, reached = origins.record(stored.captures) if origins else ([], None)
    context, executable = stored.compilation.context, stored.compilation.executable
    if context.warnings:
        raise NoDescription("a schedule rule or a pass failed, and the next compilation is to say so again")
    if stored.interface is None:
        raise NoDescription("it ends with its syntax, before it has an interface")
    classes = _class_paths(stored.interface, reached)
    _check_interface(stored.interface)
    manifest = {
        "kernel": key.name,
        "name": stored.name,
        "facts": key.facts,
        "captures": [list(capture) for capture in captured],
        "pipeline": stored.pipeline.name,
        "stages": described_stages(stored.pipeline),
        "semantics": stored.semantics,
        "interface": to_json(stored.interface),
        "classes": classes,
        "content": stored.content,
        "keeps_passes": context.keep_passes,
        "seconds": stored.compilation.seconds,
        **(facts or {}),
    }

    def fill(folder: Path) -> dict[str, Any]:
        texts = json.dumps(_texts(stored.compilation), indent=0)
        (folder / STAGES).write_text(texts, encoding="utf-8")
        return {**manifest, "executable": _write_executable(executable, folder / ARTIFACT)}

    entry = digest_of([list(capture) for capture in captured])[:16]
    return lambda: store.write(key.digest, entry, fill)


def _write_executable(executable: Executable | None, folder: Path) -> dict[str, Any] | None:
    if executable is None:
        return None
    from mlirtri.lowering.cuda_emulation.executable import EmulatedExecutable
    from mlirtri.lowering.runtime.artifact import write_artifact  # loads what it writes
    from mlirtri.lowering.runtime.cuda_executable import CudaExecutable

    if isinstance(executable, EmulatedExecutable):
        raise NoDescription("it is for the emulated device, and its library is compiled at the first call")
    if isinstance(executable, CudaExecutable):
        raise NoDescription("it is for CUDA, and nvcc would take seconds for its code")
    folder.mkdir()
    try:
        return write_artifact(executable, folder)
    except KernelError as problem:
        raise NoDescription(problem.message) from None


def _texts(compilation: Compilation) -> dict[str, Any]:
    passes = compilation.context.passes if compilation.context.keep_passes else {}
    return {
        name: {
            "text": record.readable(),
            "complete": record.complete(),
            "passes": [[step.name, step.text, step.changed, None, step.is_ours] for step in passes.get(name, ())],
        }
        for name, record in compilation.records.items()
    }


def read_kernel(entry: Entry, target: Target, schedule: str, origins: Origins | None) -> StoredKernel:
    """Return the kernel of an entry.

    Raises `Differs` where a captured value is another one now, `DamagedError` where the entry cannot be used.
    """
    manifest = entry.manifest
    captures = origins.now([(path, value) for path, value in manifest["captures"]]) if origins else []
    try:
        stages = tuple(Stage(name, kind, LazyLowering(module)) for name, kind, module in manifest["stages"])
        interface = from_json(manifest["interface"], entry.folder / MANIFEST)
        interface = _with_classes(
            interface, [origins.value_at(path) for path in manifest["classes"]] if origins else []
        )
        context = CompileContext(manifest["name"], target, schedule, interface=interface, keep_passes=False)
        records = _records(entry, stages, context)
        executable = manifest["executable"]
    except (KernelError, KeyError, TypeError, ValueError, LookupError, AttributeError) as problem:
        raise DamagedError(str(problem)) from None
    code = None if executable is None else StoredCode(executable, entry.folder / ARTIFACT)
    compilation = Compilation(context, records, code)
    stamp(entry.folder)
    pipeline = Pipeline(manifest["pipeline"], stages)
    return StoredKernel(
        manifest["name"], pipeline, manifest["semantics"], interface, compilation, manifest["content"], captures
    )


def _records(entry: Entry, stages: Sequence[Stage], context: CompileContext) -> dict[str, StageRecord]:
    texts, seconds = json.loads(entry.files[STAGES]), entry.manifest["seconds"]
    context.passes = {
        name: [PassRecord(*fields) for fields in stage["passes"]] for name, stage in texts.items() if stage["passes"]
    }
    context.keep_passes = entry.manifest["keeps_passes"]
    by_name = {stage.name: stage for stage in stages}
    return {
        name: StoredRecord(by_name[name], seconds[name], stage["text"], stage["complete"])
        for name, stage in texts.items()
    }


def _check_interface(interface: Interface) -> None:
    """Raise `NoDescription` for an interface that the manifest does not hold in full."""
    read_back = from_json(json.loads(json.dumps(to_json(interface))), Path(MANIFEST))
    if _with_classes(read_back, list(_named_tuples(interface.tree))) != _without_names_of_sizes(interface):
        raise NoDescription("its interface has parts that cannot be written")


def _without_names_of_sizes(interface: Interface) -> Interface:
    """Return the interface with run-time sizes as a manifest has them: the size program alone tells them apart."""

    def of_type(type_: TensorType) -> TensorType:
        return TensorType(tuple(UNKNOWN if is_dynamic(size) else size for size in type_.shape), type_.dtype)

    def of_tree(tree: Any) -> Any:
        if isinstance(tree, Leaf):
            return replace(tree, type=of_type(tree.type))
        return None if tree is None else like(tree, [of_tree(part) for part in parts_of(tree)])

    return replace(
        interface,
        parameters=tuple(replace(parameter, type=of_type(parameter.type)) for parameter in interface.parameters),
        bound=tuple(replace(parameter, type=of_type(parameter.type)) for parameter in interface.bound),
        leaves=tuple(map(of_type, interface.leaves)),
        tree=of_tree(interface.tree),
    )


def _named_tuples(tree: Any) -> Iterator[type]:
    """Yield the class of each named tuple in a result, outer ones first."""
    if tree is None or isinstance(tree, Leaf):
        return
    if hasattr(tree, "_fields"):
        yield type(tree)
    for part in parts_of(tree):
        yield from _named_tuples(part)


def _class_paths(interface: Interface, reached: Reached | None) -> list[ValuePath]:
    """Return how each class of named tuples in the result is reached; raises `NoDescription`."""
    paths: list[ValuePath] = []
    for kind in _named_tuples(interface.tree):
        path = reached.path_of_class(kind) if reached is not None else None
        if path is None and getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind:
            path = [["module", kind.__module__], ["attribute", kind.__name__]]
        if path is None:
            raise NoDescription(f"where the class {kind.__qualname__} of the result comes from is not known")
        paths.append(path)
    return paths


def _with_classes(interface: Interface, classes: Sequence[type]) -> Interface:
    """Return the interface with this process's classes of named tuples; raises `ValueError` where they do not fit."""
    remaining = iter(classes)

    def rebuilt(tree: Any) -> Any:
        if tree is None or isinstance(tree, Leaf):
            return tree
        if not hasattr(tree, "_fields"):
            return like(tree, [rebuilt(part) for part in parts_of(tree)])
        kind: Any = next(remaining, None)
        if getattr(kind, "_fields", None) != tree._fields:
            raise ValueError(f"the class of the result is not {type(tree).__name__}")
        return kind(*(rebuilt(part) for part in tree))

    return replace(interface, tree=rebuilt(interface.tree))
