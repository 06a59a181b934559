"""From a file on the command line to the program in it: MLIR, StableHLO, TOSA, ONNX, torch, or Relax."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mlirtri.compiler.dumps import read_text
from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options, resolved
from mlirtri.kernels.session import resume
from mlirtri.language.names import Tensor
from mlirtri.lowering.pipelines import Pipeline, pipeline_of_import
from mlirtri.programs.mlir_program import from_mlir, from_tosa
from mlirtri.programs.mlir_sources import contents_of
from mlirtri.programs.onnx_program import from_onnx
from mlirtri.programs.program import Program
from mlirtri.programs.relax_program import from_relax
from mlirtri.programs.stablehlo_program import from_stablehlo

SUFFIXES = {
    ".mlir": None, ".mlirbc": None, ".stablehlo": "stablehlo", ".tosa": "tosa", ".onnx": "onnx", ".pt2": "torch",
}  # fmt: skip
"""Suffix of a file to its language; None where the content says it."""
STDIN = "-"
_LANGUAGES = ((rb"\b(stablehlo|chlo|vhlo|StableHLO_v[\d.]+)\b", "stablehlo"), (rb"\btosa\b", "tosa"))


def is_program(spec: str) -> bool:
    """Return whether ``FILE[::function]`` is a program's file: by its suffix, or stdin."""
    file = spec.partition("::")[0]
    return file == STDIN or Path(file).suffix in SUFFIXES


def load_program(file: str, language: str | None = None) -> Program:
    """Return the program of a file; `language`, a key of `IMPORT_STAGES`, overrides its suffix and content."""
    source = _source(file)
    language = language or SUFFIXES.get(Path(file).suffix) or _language(source)
    return _READERS[language](source)


def _source(file: str) -> bytes | Path:
    return sys.stdin.buffer.read() if file == STDIN else Path(file)


def _language(source: bytes | Path) -> str:
    data = contents_of(source)[0]
    # What a comment or a string says of a language is no operation of it.
    code = re.sub(rb'//[^\n]*|"[^"\\\n]*"(?!\()', b"", data) if not data.startswith(b"ML\xef") else data
    return next((name for pattern, name in _LANGUAGES if re.search(pattern, code)), "mlir")


def _torch(source: bytes | Path) -> Program:
    # loads torch, which the others do not need
    from mlirtri.programs.torch_programs.archives import load_archive
    from mlirtri.programs.torch_programs.program import from_torch

    return from_torch(load_archive(source))


def _relax(source: bytes | Path) -> Program:
    return from_relax(source.decode() if isinstance(source, bytes) else source)


_READERS: dict[str, Callable[[Any], Program]] = {
    "mlir": from_mlir, "stablehlo": from_stablehlo, "tosa": from_tosa, "onnx": from_onnx, "torch": _torch,
    "relax": _relax,
}  # fmt: skip


def compile_file(spec: str, arguments: dict[str, Any], options: Options, stages: Sequence[str] | None = None) -> Kernel:
    """Return the kernel of ``FILE[::function]``, compiled up to the stages `stages`; `arguments` set sizes."""
    file, _, entry = spec.partition("::")
    program = load_program(file)
    _, _, pipeline = resolved(options)
    keywords = {"target": options.target, "schedule": options.schedule, "shapes": _shapes(arguments)}
    return program.compile(entry or None, pipeline=_until(program, pipeline, stages), **keywords)


def _until(program: Program, pipeline: Pipeline, stages: Sequence[str] | None) -> Pipeline:
    imported = pipeline_of_import(program.source, pipeline)
    if stages is None:
        return pipeline
    last = max((imported.find(name).name for name in stages), key=imported.names.index)
    # The stages of its own language end with one that all pipelines have.
    common = next(name for name in pipeline.names if name in imported.names)
    return pipeline.until(last if last in pipeline.names else common)


def _shapes(arguments: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    for name, value in arguments.items():
        if not isinstance(value, (Tensor, DType)):
            raise KernelValueError(
                f"{name}={value!r} is not a tensor",
                help=f"write {name}=f32[2,3] for its sizes, or {name}=i64:3 for a number",
            )
    return {name: tuple(getattr(value, "shape", ())) for name, value in arguments.items()}


def to_mlir(spec: str, language: str, bare: bool, format_: str, inline: bool) -> str | bytes:
    """Return the linalg of a file's program, by `Program.to_mlir`."""
    file, _, entry = spec.partition("::")
    params = "inline" if inline else "arguments"
    return load_program(file, language).to_mlir(entry=entry or None, bare=bare, format=format_, params=params)


def to_relax(spec: str) -> str:
    """Return the Relax module of a file's program; operations of stage `tri` become Relax operators."""
    file, _, entry = spec.partition("::")
    _, _, pipeline = resolved(Options(pipeline="relax"))
    source = _source(file)
    if b'"tri.' in contents_of(source)[0]:
        name, text = ("<stdin>", source.decode()) if isinstance(source, bytes) else (file, read_text(source))
        return _relax_text(resume(name, "tri", Options(pipeline=pipeline.until("relax")), text))
    program = _READERS[_language(source)](source)
    return _relax_text(program.compile(entry or None, pipeline=_until(program, pipeline, ["relax"])))


def _relax_text(kernel: Kernel) -> str:
    """Return the readable text; the complete one where the readable text omits constants and would not parse."""
    text = kernel.ir["relax"]
    return kernel.compilation.records["relax"].complete() if "metadata[" in text else text


def report_on_file(spec: str, language: str | None, pipeline: str | None, target: str | None) -> Any:
    """Return the `Report` on a file's program."""
    file, _, entry = spec.partition("::")
    return load_program(file, language).report(entry or None, pipeline=pipeline, target=target)


def refuse_open_sizes(kernel: Kernel) -> None:
    """Raise `KernelTypeError` where a size of a parameter is open."""
    for parameter in kernel.interface.parameters:
        if any(map(is_dynamic, parameter.type.shape)):
            help = f"say --arg {parameter.name}={parameter.type.dtype.name}[…] with numbers"
            raise KernelTypeError(f"sizes of {parameter.name}: {parameter.type} are open", help=help)
