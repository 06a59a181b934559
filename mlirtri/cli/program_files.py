"""Compile, translate and report on a program's file of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlirtri.compiler.dumps import read_text
from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.kernels.argument_text import check_said
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options, resolved
from mlirtri.kernels.session import resume
from mlirtri.language.names import Tensor
from mlirtri.lowering.pipelines import Pipeline, pipeline_of_import
from mlirtri.programs.mlir_sources import contents_of
from mlirtri.programs.program import Program
from mlirtri.sources.program_files import READERS, SUFFIXES, language_of, load_program, source_of


def compile_file(spec: str, arguments: dict[str, Any], options: Options, stages: Sequence[str] | None = None) -> Kernel:
    """Return the kernel of ``FILE[::function]``, compiled up to the stages `stages`; `arguments` set sizes."""
    file, _, entry = spec.partition("::")
    program = load_program(file)
    _, _, pipeline = resolved(options)
    keywords = {"target": options.target, "schedule": options.schedule, "shapes": _shapes(arguments)}
    kernel = program.compile(entry or None, pipeline=_until(program, pipeline, stages), **keywords)
    check_arguments(kernel, arguments)
    return kernel


def check_arguments(kernel: Kernel, arguments: dict[str, Any]) -> None:
    """Raise `KernelValueError` for a tensor that is given of another type than the kernel's parameter of its name."""
    for parameter in kernel.interface.parameters:
        check_said(parameter.name, parameter.type, arguments.get(parameter.name))


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
    if SUFFIXES.get(Path(file).suffix) in ("onnx", "torch"):
        program = load_program(file)
        return _relax_text(program.compile(entry or None, pipeline=_until(program, pipeline, ["relax"])))
    source = source_of(file)
    if b'"tri.' in contents_of(source)[0]:
        name, text = ("<stdin>", source.decode()) if isinstance(source, bytes) else (file, read_text(source))
        return _relax_text(resume(name, "tri", Options(pipeline=pipeline.until("relax")), text))
    program = READERS[language_of(source)](source)
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
