"""Save a compiled kernel as a folder, and load it in a process that never loads the compiler.

    manifest.json       types of arguments and results, target, CPU features, versions, digests of all files
    kernel.so …         the executable's files (`lowering/runtime/artifact.py`)
    params.npz          the tensors that the kernel is bound to, such as weights
    ir.json             the text of each stage, if it was asked for
    kernel.h, example.c pipeline `mlir`: the function for C programs

A loaded kernel is refused on another machine than it was compiled for, with other versions of the runtime, and if a
file is not as it was written.
"""

from __future__ import annotations

import json
import os
import platform
import re
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np

from mlirtri.compiler.interface_json import from_json, to_json
from mlirtri.compiler.records import COMPILING, Compilation, StageRecord, StoredRecord
from mlirtri.errors import ArtifactError, KernelError, KernelTypeError, ParseError
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.saved_files import MANIFEST, Facts, packed, read_folder, unpacked, write_folder
from mlirtri.lowering.core.cpu import cpu_flags
from mlirtri.lowering.core.interface import TensorParameter
from mlirtri.lowering.core.stage import Code, CompileContext, Stage
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.lowering.pipelines import Pipeline
from mlirtri.lowering.runtime.stored_tensors import read_tensors, restored, write_tensors
from mlirtri.lowering.toolchain.tvm_runtime import installed_version

IR, PARAMS = "ir.json", "params.npz"
_INSTRUCTIONS = re.compile(
    r"(avx|sse|amx|bmi|fma|xop|vaes|vpcl)\w*|ssse3|f16c|popcnt|abm|movbe|adx|aes|pclmulqdq|gfni|sha_ni|tbm|rtm|3dnow\w*"
)
"""Flags of Linux for instructions that code generators use."""
_RUNTIMES = {"mlir": ("mlirtri",), "kernel": ("mlirtri", "apache-tvm", "apache-tvm-ffi")}
_RUNTIMES["machine"] = _RUNTIMES["cuda"] = _RUNTIMES["kernel"]
"""The packages whose versions have to be those of the compilation, by kind of executable."""


def save(kernel: Kernel, folder: Path, ir: bool) -> None:
    """Write a kernel to `folder`; raises `ArtifactError`."""
    executable = kernel.compilation.executable
    if executable is None:
        raise ArtifactError(
            f"{kernel.name} was compiled up to stage {kernel.pipeline.names[-1]!r} only, and has no code to save",
            help="compile it without stopping early",
        )
    from mlirtri.kernels.c_interface import write_c_files
    from mlirtri.lowering.runtime.artifact import write_artifact  # loads torch
    from mlirtri.lowering.runtime.mlir_executable import MlirExecutable

    def fill(temporary: Path) -> Facts:
        description = write_artifact(executable, temporary)
        if description["kind"] == "cuda":
            description["flops"] = kernel.stats.get("flops")
        if kernel.interface.bound:
            _write_params(kernel, temporary)
        if isinstance(executable, MlirExecutable):
            facts = (kernel.name, kernel.signature, kernel.interface, executable.convention)
            write_c_files(*facts, temporary)
        if ir:
            (temporary / IR).write_text(json.dumps(_texts(kernel), indent=1), encoding="utf-8")
        return {**_facts(kernel, description["kind"]), "executable": description, "calling": kernel.saved(temporary)}

    with COMPILING:  # code is written by the compilers that made it
        write_folder(folder, fill)


def _facts(kernel: Kernel, kind: str) -> Facts:
    target = kernel.target
    return {
        "kernel": kernel.name,
        "signature": kernel.signature,
        "class": [type(kernel).__module__, type(kernel).__qualname__],
        "pipeline": kernel.pipeline.name,
        "stages": [[stage.name, stage.kind] for stage in kernel.pipeline.stages],
        "seconds": kernel.compilation.seconds,
        "target": {"kind": target.kind, "architecture": target.architecture, "threads": target.threads},
        "schedule": kernel.compilation.context.schedule,
        "semantics": kernel.semantics,
        "interface": to_json(kernel.interface),
        "params": {bound.name: type(kernel.params[bound.name]).__module__ for bound in kernel.interface.bound},
        "versions": {package: version(package) for package in _RUNTIMES[kind]},
        "machine": {"system": platform.system(), "machine": platform.machine(), "instructions": _instructions()},
    }


def _instructions() -> list[str]:
    return sorted(flag for flag in cpu_flags() if _INSTRUCTIONS.fullmatch(flag))


def _texts(kernel: Kernel) -> dict[str, list[str]]:
    return {name: [record.readable(), record.complete()] for name, record in kernel.compilation.records.items()}


def _write_params(kernel: Kernel, folder: Path) -> None:
    missing = [bound.name for bound in kernel.interface.bound if bound.name not in kernel.params]
    if missing:
        raise ArtifactError(f"{kernel.name} is bound to {', '.join(missing)}, whose contents are not here")
    tensors = {number: kernel.params[bound.name] for number, bound in enumerate(kernel.interface.bound)}
    write_tensors(folder / PARAMS, tensors)


def load(folder: str | Path) -> Kernel:
    """Return the kernel that `kernel.save`, `program.save` or ``mlirtri build`` wrote to `folder`.

    It is called as the one that was saved, and gives the same bits. Loads neither MLIR nor TVM's compiler. Raises
    `ArtifactError` if a file is not as it was saved, for another CPU, and for other versions of the runtime.
    """
    try:
        if not isinstance(folder, str | os.PathLike):
            raise KernelTypeError(f"load takes the path of a folder, not {type(folder).__name__}")
        return _load(Path(folder).resolve())
    except KernelError as error:
        hide_frames(error)
        raise


def _load(folder: Path) -> Kernel:
    facts = read_folder(folder)
    _check(facts, folder)
    try:
        return _kernel(facts, folder)
    except ParseError:
        text = f"the manifest in {folder} is that of another state of mlirtri {facts['versions']['mlirtri']}"
        raise ArtifactError(text, help="save the kernel again") from None
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise ArtifactError(f"the kernel in {folder} cannot be loaded: {problem!r}") from None


def _check(facts: Facts, folder: Path) -> None:
    """Raise `ArtifactError` where the kernel is for another machine, or for another runtime."""
    for package, wanted in facts["versions"].items():
        if (installed := installed_version(package)) != wanted:
            raise ArtifactError(
                f"the kernel in {folder} was saved with {package} {wanted}, here it is {installed or 'not installed'}",
                help="save it again with this version, or install that one",
            )
    machine = facts["machine"]
    for fact, here in (("system", platform.system()), ("machine", platform.machine())):
        if machine[fact] != here:
            raise ArtifactError(f"the kernel in {folder} was compiled for {machine[fact]}, this is {here}")
    if missing := sorted({*machine["instructions"]} - {*_instructions()}):
        raise ArtifactError(
            f"the kernel in {folder} was compiled for a CPU with {', '.join(missing)}, which this one lacks",
            help="compile it on a machine like this one",
        )


def _kernel(facts: Facts, folder: Path) -> Kernel:
    from mlirtri.lowering.runtime.artifact import read_artifact  # loads torch

    pipeline = Pipeline(facts["pipeline"], tuple(Stage(name, kind, _not_run) for name, kind in facts["stages"]))
    interface = from_json(facts["interface"], folder / MANIFEST)
    context = CompileContext(
        facts["kernel"], Target(**facts["target"]), facts["schedule"], interface=interface, keep_passes=False,
        params=_params(facts, interface.bound, folder),
    )  # fmt: skip
    executable = read_artifact(folder, facts["executable"])
    compilation = _Saved(context, _records(facts, pipeline, folder), Code("", executable), _NO_TEXT)
    compilation.recorded_seconds = facts["seconds"]
    kind = _class(*facts["class"])
    kernel = kind(
        facts["kernel"], pipeline, context.target, facts["semantics"], compilation, interface, _not_compiled
    )  # fmt: skip
    kernel.restore(facts["calling"], folder)
    return kernel


_NO_TEXT = "it was saved without its IR: save it with ir=True"


class _Saved(Compilation):
    """The compilation of a loaded kernel."""

    recorded_seconds: dict[str, float]

    @property
    def seconds(self) -> dict[str, float]:
        return self.recorded_seconds


def _not_run(_ir: Any, _context: CompileContext) -> NoReturn:
    raise ArtifactError("the stages of a loaded kernel do not run", help="compile the kernel anew")


def _not_compiled() -> NoReturn:
    raise ArtifactError(
        "a loaded kernel has no text after each pass: it cannot be compiled again", help="compile the kernel anew"
    )


def _records(facts: Facts, pipeline: Pipeline, folder: Path) -> dict[str, StageRecord]:
    if IR not in facts["files"]:
        return {}
    texts = json.loads((folder / IR).read_text(encoding="utf-8"))
    seconds = facts["seconds"]
    return {
        name: StoredRecord(pipeline.find(name), seconds.get(name, 0.0), *texts_of) for name, texts_of in texts.items()
    }


def _params(facts: Facts, bound: tuple[TensorParameter, ...], folder: Path) -> dict[str, Any]:
    if not bound:
        return {}
    arrays = read_tensors(folder / PARAMS)
    return {
        parameter.name: _param(arrays[number], parameter, facts["params"][parameter.name])
        for number, parameter in enumerate(bound)
    }


def _param(array: np.ndarray, parameter: TensorParameter, library: str) -> Any:
    dtype = parameter.type.dtype
    if library.partition(".")[0] == "torch":
        return restored(array, dtype.name)
    return array if array.dtype == dtype.numpy else array.view(dtype.numpy)


def _class(module: str, name: str) -> type[Kernel]:
    kind = getattr(import_module(module), name, None) if module.startswith("mlirtri.") else None
    if not (isinstance(kind, type) and issubclass(kind, Kernel)):
        raise ArtifactError(f"{module}.{name} is no class of kernels")
    return kind


def to_bytes(kernel: Kernel) -> bytes:
    """Return a kernel with the text of its stages as bytes."""
    with TemporaryDirectory(prefix="mlirtri-") as folder:
        save(kernel, Path(folder, "kernel"), ir=bool(kernel.compilation.records))
        return packed(Path(folder, "kernel"))


def from_bytes(data: bytes) -> Kernel:
    """Return the kernel that `to_bytes` packed: how pickled kernels are read."""
    folder = unpacked(data)
    kernel = load(folder.name)
    # A loaded kernel is saved again by copying its files.
    kernel.files = folder
    return kernel
