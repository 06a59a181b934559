"""Compile once, from a function or a file: shared by `jit`, the command line and `resume`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlirtri import settings
from mlirtri.compiler.dumps import read_manifest, read_params, read_text
from mlirtri.compiler.interface_json import to_json
from mlirtri.compiler.interfaces import interface_of, with_sizes
from mlirtri.compiler.observe import Observer
from mlirtri.compiler.printing import RESUMABLE, parse, parse_given
from mlirtri.compiler.records import COMPILING, Compilation, StageRecord
from mlirtri.compiler.stage_loop import record_of, run_stages
from mlirtri.compiler.versions import versions
from mlirtri.errors import KernelError, UnknownOptionError
from mlirtri.kernels.cached_stages import StagesRequest, compile_stages
from mlirtri.kernels.kernel import Compiled, Kernel
from mlirtri.kernels.options import Options, content_key, language_options, resolved
from mlirtri.lowering.core.interface import KernelSource, Specialization
from mlirtri.lowering.core.recursion import more_frames
from mlirtri.lowering.core.stage import CompileContext, StageIR
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.lowering.frontend.graph.kernel_graph import KernelGraph
from mlirtri.lowering.frontend.python_to_ast import symbol_of
from mlirtri.lowering.pipelines import (
    IMPORT_STAGES,
    INTERPRETER,
    PIPELINE_STAGES,
    Pipeline,
    for_devices,
    pipeline_of_graph,
    pipeline_of_import,
)

FRAMES_OF_REGIONS = 10_000
"""Frames of Python for passes that follow nested regions, which inlined calls with branches make."""


@dataclass(frozen=True)
class Elaborated:
    """A compilation after its front end: what the later stages need, which may run in another process."""

    symbol: str
    semantics: str
    observer: Observer
    front: Compilation
    back: Pipeline
    """The stages that have not run."""
    pipeline: Pipeline
    key: Any
    """The kernel's key in the caches of this process."""
    digest: str
    """The part of the key that is text."""

    def known(self, cache: MutableMapping[Any, Kernel]) -> Compiled | None:
        """Return the kernel if the cache has it, and print and dump it as its compilation would have been."""
        kernel = cache.get(self.key) if self.is_shared else None
        if kernel is None:
            return None
        if self.observer.printed:
            self.observer.replay(kernel.observed, already=tuple(self.front.records))
        return self._compiled(kernel, is_new=False)

    @property
    def is_shared(self) -> bool:
        """Whether the cache may have the kernel: not one with edited stages."""
        return self.observer.override_folder is None

    def finished(self, records: Mapping[str, StageRecord], ir: StageIR, cache: MutableMapping[Any, Kernel]) -> Compiled:
        """Return the kernel of the later stages' records and the last one's result, and put it into the cache."""
        context = self.front.context
        complete = Compilation(context, {**self.front.records, **records}, ir)
        kernel = Kernel(
            self.symbol, self.pipeline, context.target, self.semantics, complete, context.interface,
            lambda: compile_again(complete, self.pipeline),
        )  # fmt: skip
        if self.is_shared:
            cache[self.key] = kernel
        return self._compiled(kernel, is_new=True)

    def _compiled(self, kernel: Kernel, is_new: bool) -> Compiled:
        context, observer = self.front.context, self.observer
        if observer.dump_folder is not None:
            observer.dump(kernel.observed, self.digest, manifest(kernel, context.schedule))
        return Compiled(kernel, [*context.captures, *observer.overrides()], is_new, self.digest)


def compile_function(
    function: Callable[..., object],
    specialization: Specialization,
    options: Options,
    cache: MutableMapping[Any, Kernel],
) -> Compiled:
    """Return the kernel of a function for a specialization; raises the `KernelError` of the stage that refuses."""
    elaborated = elaborate(function, specialization, options)
    return elaborated.known(cache) or run_later_stages(elaborated, cache)


def compile_graph(graph: KernelGraph, options: Options, cache: MutableMapping[Any, Kernel]) -> Compiled:
    """Return the kernel of a graph of kernels; raises the `KernelError` of the stage that refuses."""
    target, schedule, pipeline = resolved(options)
    chosen = target, schedule, pipeline_of_graph(pipeline)
    elaborated = _elaborated(graph, graph.symbol, graph.semantics, chosen, options)
    known = elaborated.known(cache)
    if known is not None or elaborated.observer.wants_passes:
        return known or run_later_stages(elaborated, cache)
    request = StagesRequest(
        graph.symbol, "graph", graph.semantics, elaborated.pipeline, target, schedule, elaborated.front,
        lambda: _whole(elaborated), lambda: compile_again(elaborated.front, elaborated.pipeline),
    )  # fmt: skip
    complete = compile_stages(request)
    later = {stage.name: complete.records[stage.name] for stage in elaborated.back.stages}
    return elaborated.finished(later, complete.ir, cache)


def _whole(elaborated: Elaborated) -> Compilation:
    front = elaborated.front
    later = _later_stages(elaborated)
    return Compilation(front.context, {**front.records, **later.records}, later.ir)


def elaborate(function: Callable[..., object], specialization: Specialization, options: Options) -> Elaborated:
    """Return a compilation up to stage `tri`; raises the `KernelError` of the front end."""
    symbol = symbol_of(function)
    source = KernelSource(function, symbol, specialization)
    return _elaborated(source, symbol, specialization.semantics, resolved(options), options)


def _elaborated(
    source: KernelSource | KernelGraph,
    symbol: str,
    semantics: str,
    chosen: tuple[Target, str, Pipeline],
    options: Options,
) -> Elaborated:
    target, schedule, pipeline = chosen
    observer = Observer(symbol, pipeline, options.print_ir)
    context = CompileContext(
        symbol, target, schedule, keep_passes=observer.wants_passes, on_pass=observer.on_pass,
        on_failure=observer.on_failure,
        **language_options(options), stops=pipeline.name == INTERPRETER,
    )  # fmt: skip
    front, _ = _split(pipeline)
    compilation = run_stages(source, front, context, observer)
    if context.interface is not None and front.stages[-1].kind == "mlir":
        context.interface = with_sizes(context.interface, compilation.ir)
    pipeline = for_devices(pipeline, target, front.stages[-1].kind, compilation.ir)
    observer.follow(pipeline)
    _, back = _split(pipeline)
    key, digest = _keys(compilation, pipeline, target, schedule, semantics)
    return Elaborated(symbol, semantics, observer, compilation, back, pipeline, key, digest)


def run_later_stages(elaborated: Elaborated, cache: MutableMapping[Any, Kernel]) -> Compiled:
    """Return the kernel of a function after its front end; raises the `KernelError` of the stage that refuses."""
    later = _later_stages(elaborated)
    return elaborated.finished(later.records, later.ir, cache)


def _later_stages(elaborated: Elaborated) -> Compilation:
    front = elaborated.front
    with more_frames(FRAMES_OF_REGIONS):
        return run_stages(front.ir, elaborated.back, front.context, elaborated.observer)


def _split(pipeline: Pipeline) -> tuple[Pipeline, Pipeline]:
    cut = pipeline.names.index("tri") + 1 if "tri" in pipeline.names else len(pipeline.stages)
    return Pipeline(pipeline.name, pipeline.stages[:cut]), Pipeline(pipeline.name, pipeline.stages[cut:])


def _keys(front: Compilation, pipeline: Pipeline, target: Target, schedule: str, semantics: str) -> tuple[Any, str]:
    last = list(front.records.values())[-1]
    facts = (
        last.complete(), front.context.interface, pipeline.name, pipeline.names, repr(target), schedule, semantics,
        versions(),
    )  # fmt: skip
    digest = content_key(*facts)
    return (digest, pipeline.stages), digest


def compile_again(compiled: Compilation, pipeline: Pipeline) -> Compilation:
    """Return another compilation from the text of the last stage of the frontend, with text kept after each pass."""
    first, (front, back) = compiled.context, _split(pipeline)
    start = front.stages[-1]
    records = {name: compiled.records[name] for name in front.names}
    context = CompileContext(first.kernel, first.target, first.schedule, interface=first.interface)
    if not back.stages:
        return Compilation(context, records)
    with COMPILING:  # parsing, too
        later = run_stages(parse(start.kind, records[start.name].complete()), back, context)
    return Compilation(context, {**records, **later.records}, later.ir)


def observe_again(kernel: Kernel, print_ir: bool | tuple[str, ...] | None, digest: str, schedule: str) -> None:
    """Print and dump a kernel from the disk cache as its compilation would have been."""
    observer = Observer(kernel.name, kernel.pipeline, print_ir)
    if observer.printed:
        observer.replay(kernel.observed)
    if observer.dump_folder is not None:
        observer.dump(kernel.observed, digest, manifest(kernel, schedule))


def resume(
    file: str | Path,
    stage: str,
    options: Options | None = None,
    text: str | None = None,
    *,
    target: str | Target | None = None,
    pipeline: str | Pipeline | None = None,
    schedule: str | None = None,
    print_ir: bool | tuple[str, ...] | None = None,
    params: Mapping[str, object] | None = None,
) -> Kernel:
    """Return a kernel compiled from the text of a stage: a dumped (perhaps edited) file, or any MLIR or TVMScript.

    Omitted options come from the manifest beside the file, if any: pipeline, target, schedule, and the interface.
    So do the bound tensors, unless `params` has others. TVM's parser runs TVMScript as Python: it is trusted like
    code. Raises `ParseError` if the text does not parse as that stage, `UnknownOptionError` for an unknown stage.
    """
    explicit = Options(target, pipeline, schedule, print_ir)
    try:
        with COMPILING:  # parsing, too
            return _resume(Path(file), stage, explicit.over(options) if options else explicit, text, params)
    except KernelError as error:
        hide_frames(error)
        raise


def _as_recorded(path: Path, pipeline: Pipeline) -> Pipeline:
    recorded = read_manifest(path.parent) if path.is_file() else None
    source = (recorded or {}).get("source")
    return pipeline_of_import(source, pipeline) if source in IMPORT_STAGES else pipeline


def _resume(
    path: Path, stage: str, options: Options, text: str | None, params: Mapping[str, Any] | None = None
) -> Kernel:
    target, schedule, pipeline = resolved(options.over(recorded_options(path)))
    pipeline = _as_recorded(path, pipeline)
    start = pipeline.find(stage)
    if start.kind not in RESUMABLE:
        names = ", ".join(later.name for later in pipeline.stages if later.kind in RESUMABLE)
        raise UnknownOptionError(f"stage {start.name!r} cannot be resumed from text", help=f"resume from {names}")
    content = read_text(path) if text is None else text
    ir = parse_given(start.kind, content, str(path))
    name, interface, semantics = interface_of(start.kind, ir, path)
    pipeline = for_devices(pipeline, target, start.kind, ir)
    observer = Observer(name, pipeline, options.print_ir)
    params = {**(read_params(path.parent, interface.bound) if path.is_file() else {}), **(params or {})}

    def run(module: Any, keep_passes: bool, hook: Observer | None) -> Compilation:
        context = CompileContext(name, target, schedule, interface=interface, keep_passes=keep_passes, params=params)
        if hook is not None:
            context.on_pass, context.on_failure = hook.on_pass, hook.on_failure
        first = record_of(start, module, 0.0)
        later = run_stages(module, pipeline.after(start.name), context, hook)
        return Compilation(context, {start.name: first, **later.records}, later.ir)

    compilation = run(ir, observer.wants_passes, observer)
    kernel = Kernel(
        name,
        pipeline,
        target,
        semantics,
        compilation,
        interface,
        lambda: run(parse(start.kind, content, str(path)), True, None),
    )
    if observer.dump_folder is not None:
        digest = content_key(content, pipeline.name, pipeline.names, repr(target), schedule, semantics, versions())
        observer.dump(compilation, digest, manifest(kernel, schedule))
    return kernel


def recorded_options(path: Path) -> Options:
    """Return the options of the dump that contains the file."""
    recorded = read_manifest(path.parent) if path.is_file() else None
    if recorded is None:
        return Options()
    pipeline = recorded.get("pipeline")
    return Options(
        target=settings.get("MLIRTRI_TARGET", recorded.get("target")),
        pipeline=pipeline if pipeline in PIPELINE_STAGES else None,
        schedule=recorded.get("schedule"),
    )


def manifest(kernel: Kernel, schedule: str) -> dict[str, Any]:
    """Return the manifest without versions and times: enough to resume the dump and call the kernel."""
    return {
        "kernel": kernel.name,
        "pipeline": kernel.pipeline.name,
        "stages": list(kernel.pipeline.names),
        "target": str(kernel.target),
        "schedule": schedule,
        "semantics": kernel.semantics,
        "interface": to_json(kernel.interface),
    }
