"""Compile what ``FILE[::name]`` on the command line names: a kernel, a graph, a program, or IR of a stage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlirtri.cli.program_files import check_arguments, compile_file
from mlirtri.compiler.dumps import read_text
from mlirtri.errors import UnknownOptionError
from mlirtri.kernels.jit import JitFunction
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options, resolved
from mlirtri.kernels.session import recorded_options, resume
from mlirtri.language.arguments import library_of
from mlirtri.lowering.core.stage import Stage
from mlirtri.lowering.pipelines import CUDA, TARGET_STAGES, Pipeline, pipeline_of_graph
from mlirtri.sources.program_files import is_program
from mlirtri.sources.python_files import arguments_of_each, checked_arguments, load_graph, load_kernel


def compile_program(
    file: str, start: str | None, arguments: dict[str, Any], options: Options, stages: Sequence[str] | None = None
) -> Kernel:
    """Return the kernel of ``FILE.py[::name]`` for these arguments, of a program's file, or of IR of the stage `start`.

    Compiles no further than the last of the `stages` stages, so that what a later stage refuses can be looked at.
    """
    if start is not None:
        kernel = _resume(file, start, options, stages)
        # Data of a shape is made for sizes that the IR leaves open.
        of_open_sizes = [parameter.name for parameter in kernel.interface.parameters if not parameter.type.is_static]
        if not set(arguments) <= set(of_open_sizes):
            raise UnknownOptionError(
                "--arg does not apply with --from: the IR has types of its own",
                help=f"sizes are open in {', '.join(of_open_sizes)}" if of_open_sizes else None,
            )
        check_arguments(kernel, arguments)
        return kernel
    if is_program(file):
        return compile_file(file, arguments, options, stages)
    path = Path(file.partition("::")[0])
    if path.suffix not in ("", ".py"):
        raise UnknownOptionError(f"{file} is not Python", help="say with --from STAGE which stage's IR it is")
    if (graph := load_graph(file)) is not None:
        if arguments:
            raise UnknownOptionError("--arg does not apply to a graph: its arguments have types")
        until = _until(pipeline_of_graph(resolved(options.over(graph.options))[2]), stages)
        return graph.compile(options.target, until, options.schedule)
    function = _by_its_library(load_kernel(file))
    [own] = arguments_of_each([function], arguments)
    arguments = checked_arguments(function, own)
    _, _, pipeline = resolved(options.over(function.options))
    if "cuda" in (stages or ()) and CUDA not in pipeline.stages:
        # Of a kernel with regions on a GPU the CUDA source is a stage whatever its target is.
        kernel = function.compile_with((), arguments, options)
        if "cuda" in kernel.ir:
            return kernel
    return function.compile_with((), arguments, Options(pipeline=_until(pipeline, stages)).over(options))


def _by_its_library(function: JitFunction) -> JitFunction:
    """Return the kernel with NumPy's semantics where it is written in NumPy alone: no argument says it here."""
    if function.options.semantics is not None or library_of(function.__mlirtri_function__) != "numpy":
        return function
    return JitFunction(function.__mlirtri_function__, replace(function.options, semantics="numpy"))


def _resume(file: str, start: str, options: Options, stages: Sequence[str] | None) -> Kernel:
    text = sys.stdin.read() if file == "-" else read_text(Path(file))
    options = options.over(recorded_options(Path(file)))
    _, _, pipeline = resolved(options)
    later = (pipeline.find(start).name, *pipeline.after(start).names)
    early = [name for name in stages or () if _stage(pipeline, name).name not in later]
    if early:
        raise UnknownOptionError(
            f"stage {early[0]!r} does not come after {start!r}", help=f"the stages from there are {', '.join(later)}"
        )
    options = replace(options, pipeline=_until(pipeline, stages))
    return resume("<stdin>" if file == "-" else file, start, options, text)


def _until(pipeline: Pipeline, stages: Sequence[str] | None) -> Pipeline:
    if stages is None:
        return pipeline
    return pipeline.until(max((_stage(pipeline, name).name for name in stages), key=pipeline.names.index))


def _stage(pipeline: Pipeline, name: str) -> Stage:
    try:
        return pipeline.find(name)
    except UnknownOptionError as error:
        target = "cpu" if CUDA in pipeline.stages else "cuda"
        if name not in (stage.name for stage in TARGET_STAGES[target]):
            raise
        pipeline_option = "--pipeline=linalg " if pipeline.name == "mlir" else ""
        raise UnknownOptionError(
            error.message, help=f"{name!r} is a stage of target {target}: say {pipeline_option}--target={target}"
        ) from None


def saved_files(kernel: Kernel, folder: str, ir: bool) -> list[str]:
    """Save a kernel to `folder`; return a line on it, and one per file."""
    kernel.save(folder, ir=ir)
    files = sorted(Path(folder).iterdir())
    lines = [f"  {file.name}: {file.stat().st_size} bytes" for file in files]
    return [f"{folder}: {kernel.signature} for {kernel.target}, pipeline {kernel.pipeline.name}", *lines]
