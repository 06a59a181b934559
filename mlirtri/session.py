"""One compilation, from a function or from a file: what `jit`, the command line and `resume` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlirtri.compiler import Walk, walk
from mlirtri.errors import ParseError, Span
from mlirtri.jit import Options, checked, content_key
from mlirtri.kernel import Kernel
from mlirtri.lowering.pipelines import Pipeline
from mlirtri.lowering.python_to_ast import symbol_of
from mlirtri.lowering.specialization import Capture, Interface, KernelSource, Specialization
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.target import Target
from mlirtri.observe import Observer, versions
from mlirtri.printing import RESUMABLE, parse


def compile_function(
    function: Callable[..., Any], specialization: Specialization, options: Options, cache: dict[Any, Kernel]
) -> tuple[Kernel, list[Capture], bool]:
    """The kernel, what the function read from outside, and whether it was compiled anew."""
    target, schedule, pipeline = checked(options)
    source = KernelSource(function, symbol_of(function), specialization)
    observer = Observer(source.symbol, pipeline, options.print_ir)
    context = CompileContext(source.symbol, target, schedule, keep_passes=observer.wants_passes, on_pass=observer.on_pass)
    front, back = _split(pipeline)
    walked = walk(source, front, context, observer)
    key, digest = _keys(walked, pipeline, target, schedule, specialization.semantics)
    if (kernel := cache.get(key)) is not None and observer.override_folder is None:
        if observer.wants_passes:
            observer.replay(kernel.observed)
            observer.dump(kernel.observed, digest, manifest(kernel))
        return kernel, context.captures, False
    rest = walk(walked.ir, back, context, observer)
    walked.records |= rest.records
    walked.ir = rest.ir

    def walk_again() -> Walk:
        return walk(source, pipeline, CompileContext(source.symbol, target, schedule))

    kernel = cache[key] = Kernel(
        source.symbol, pipeline, target, specialization.semantics, walked, context.interface, walk_again
    )
    observer.dump(walked, digest, manifest(kernel))
    return kernel, context.captures, True


def _split(pipeline: Pipeline) -> tuple[Pipeline, Pipeline]:
    """Up to `tri`, whose text is the content key, and the rest."""
    cut = pipeline.names.index("tri") + 1 if "tri" in pipeline.names else len(pipeline.stages)
    return Pipeline(pipeline.name, pipeline.stages[:cut]), Pipeline(pipeline.name, pipeline.stages[cut:])


def _keys(walked: Walk, pipeline: Pipeline, target: Target, schedule: str, semantics: str) -> tuple[Any, str]:
    """The cache key (with the stages themselves, which a user may have replaced) and its printable digest."""
    last = list(walked.records.values())[-1]
    facts = (last.complete(), walked.context.interface, pipeline.name, pipeline.names, target, schedule, semantics, versions())
    digest = content_key(*facts)
    return (digest, pipeline.stages), digest


def resume(
    file: str | Path, stage: str, options: Options | None = None, text: str | None = None
) -> Kernel:
    """A kernel from the text of a stage: a dumped (and perhaps edited) file, or any `.mlir` or TVMScript of that stage.

    Raises `ParseError` if the text is not of that kind, `UnknownOptionError` for an unknown stage.
    """
    target, schedule, pipeline = checked(options or Options())
    start = pipeline.find(stage)
    if start.kind not in RESUMABLE:
        raise ParseError(f"stage {start.name!r} cannot be resumed from text", Span(str(file), 1, 1))
    path = Path(file)
    content = path.read_text() if text is None else text

    def run(keep_passes: bool, observer: Observer | None) -> Walk:
        from mlirtri.interfaces import interface_of

        ir = parse(start.kind, content, str(path))
        name, interface = interface_of(start.kind, ir, path)
        context = CompileContext(name, target, schedule, interface=interface, keep_passes=keep_passes)
        if observer is not None:
            context.on_pass = observer.on_pass
        return walk(ir, pipeline.after(start.name), context, observer)

    observer = Observer(path.stem, pipeline, options.print_ir if options else None)
    walked = run(observer.wants_passes, observer)
    interface: Interface = walked.context.interface
    kernel = Kernel(
        walked.context.kernel, pipeline, target, "torch", walked, interface, lambda: run(True, None)
    )
    observer.dump(walked, content_key(content, pipeline.name, target), manifest(kernel))
    return kernel


def manifest(kernel: Kernel) -> dict[str, Any]:
    """What a dump's manifest.json says beside versions and times; enough to call what is resumed from it."""
    from mlirtri.interfaces import to_json

    return {
        "kernel": kernel.name,
        "pipeline": kernel.pipeline.name,
        "stages": list(kernel.pipeline.names),
        "target": str(kernel.target),
        "semantics": kernel.semantics,
        # A pipeline that stops at `ast` knows no types yet.
        "interface": to_json(kernel.interface) if kernel.interface is not None else None,
    }
