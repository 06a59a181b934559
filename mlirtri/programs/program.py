"""A program that did not come from a Python function: MLIR, torch, ONNX, StableHLO, TOSA or Relax.

Compiling changes the module, so it is read again for each compilation.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirtri import settings
from mlirtri.compiler.interfaces import function_of
from mlirtri.compiler.observe import Observer
from mlirtri.compiler.records import COMPILING, Compilation
from mlirtri.compiler.stage_loop import run_stages
from mlirtri.compiler.versions import versions
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, KernelTypeError, ParseError, Span, UnknownOptionError, did_you_mean
from mlirtri.kernels.cached_stages import StagesRequest, compile_stages
from mlirtri.kernels.export import Form, exported
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options, content_key, resolved
from mlirtri.kernels.session import manifest
from mlirtri.lowering.core.interface import Interface, kernel_names
from mlirtri.lowering.core.stage import CompileContext, Stage
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.lowering.pipelines import Pipeline, normal_form_stage, pipeline_of_import
from mlirtri.programs.params import Params

if TYPE_CHECKING:
    from mlirtri.programs.report import Report


@dataclass(frozen=True)
class ProgramSignature:
    """The types of a function's parameters and results."""

    parameters: dict[str, TensorType]
    results: tuple[TensorType, ...]

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}: {type_}" for name, type_ in self.parameters.items())
        return f"({parameters}) -> ({', '.join(map(str, self.results))})"


class Program:
    """A module of one or several functions, compiled by `compile`, or at the first call. Thread-safe."""

    usual_pipeline: str | None = None
    """The pipeline where neither an option nor ``MLIRTRI_PIPELINE`` names one; None for the one of kernels."""

    def __init__(
        self,
        source: str,
        read: Callable[[], Any],
        functions: Sequence[str],
        file: str,
        params: Mapping[str, Any] | None = None,
        semantics: str = "numpy",
    ):
        self.source = source
        """The language that it entered in, a key of `pipelines.IMPORT_STAGES`."""
        self.functions = tuple(functions)
        """The functions that can be compiled."""
        self.file = file
        """The file name that errors show."""
        self.params = Params(params)
        """Tensors that the program is bound to, by name; a kernel has those of the time when it was compiled.

        After a replacement, `compile` gives a kernel of the new ones without compiling again, and the program, called
        itself, uses them.
        """
        self.written: frozenset[str] = frozenset()
        """Those of `params` that a call writes: what depends on the others alone is computed once."""
        self.semantics = semantics
        self.original: tuple[str, Any] | None = None
        """The library that runs what it was read from, and that: a torch module, a model of ONNX."""
        self._read = read
        self._kernels: dict[Any, tuple[int, Kernel]] = {}
        self._called: tuple[int, Kernel] | None = None

    def compile(
        self,
        entry: str | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        target: str | Target | None = None,
        pipeline: str | Pipeline | None = None,
        schedule: str | None = None,
        print_ir: bool | tuple[str, ...] | None = None,
    ) -> Kernel:
        """Return the kernel of the function `entry`, by default the only one or ``main``.

        Dynamic sizes of the function's types (`?`) are dynamic in the kernel. `shapes` sets the shapes of arguments by
        name instead: code of static sizes is faster. Compiles once for the same options; replaced `params` need no
        compilation. A kernel keeps the `params` of its time: after `params.update`, call `compile` again, or the
        program itself. Raises the `KernelError` of the first stage that refuses.
        """
        try:
            return self._compile(
                self.entry_named(entry), Options(target, pipeline, schedule, print_ir), _known_shapes(shapes)
            )
        except KernelError as error:
            hide_frames(error)
            raise

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        """Run on tensors, compiled with the default options the first time."""
        try:
            called = self._called
            if called is None or called[0] != self.params.version:
                called = self._called = (self.params.version, self.compile())
            return called[1](*arguments, **keywords)
        except KernelError as error:
            hide_frames(error)
            raise

    def save(self, folder: str | Path, entry: str | None = None, *, ir: bool = False, **options: Any) -> None:
        """Compile the function `entry` and write its kernel with the program's tensors to `folder`.

        `options` are those of `compile`; `ir` keeps the text of each stage. `mlirtri.load` reads it without the
        compiler. Raises `ArtifactError`, and what `compile` raises.
        """
        self.compile(entry, **options).save(folder, ir=ir)

    def signature(self, entry: str | None = None) -> ProgramSignature:
        """Return the types of the function `entry`; compiles up to `linalg` only."""
        try:
            target, schedule, pipeline = resolved(Options(target="cpu", pipeline="linalg"))
            pipeline = pipeline_of_import(self.source, pipeline)
            pipeline = pipeline.until(normal_form_stage(pipeline))
            run = _Run(self, self._symbol(self.entry_named(entry)), target, schedule, pipeline)
            interface = run(False, None).context.interface
        except KernelError as error:
            hide_frames(error)
            raise
        hidden = {check.index for check in interface.checks} | {result for _, result in interface.states}
        results = tuple(type_ for position, type_ in enumerate(interface.leaves) if position not in hidden)
        return ProgramSignature({parameter.name: parameter.type for parameter in interface.parameters}, results)

    def report(
        self, entry: str | None = None, *, pipeline: str | None = None, target: str | Target | None = None
    ) -> Report:
        """Return which operations of the function `entry` a pipeline, or each of the three, translates, with all
        reasons.

        No code is generated. Raises a `KernelError` for an unknown entry or option.
        """
        # loads MLIR, which a program needs only to compile
        from mlirtri.programs.report import report_on

        try:
            return report_on(self, entry, pipeline, target)
        except KernelError as error:
            hide_frames(error)
            raise

    def to_mlir(
        self,
        stage: str = "linalg",
        bare: bool = False,
        *,
        entry: str | None = None,
        format: str = "text",
        params: str = "arguments",
        destinations: bool = False,
    ) -> str | bytes:
        """Return a stage of pipeline `mlir` as `Kernel.to_mlir` does; raises the `KernelError` that refuses."""
        try:
            target, schedule, pipeline = resolved(Options(target="cpu", pipeline="mlir"))
            imported = pipeline_of_import(self.source, pipeline)
            pipeline = imported.until(stage)
            if pipeline.stages[-1].kind != "mlir":
                names = [stage.name for stage in imported.stages if stage.kind == "mlir"]
                raise UnknownOptionError(f"stage {stage!r} is not MLIR", help=f"its MLIR stages are {', '.join(names)}")
            form = Form(bare, format, params, destinations)
            compilation = _Run(self, self._symbol(self.entry_named(entry)), target, schedule, pipeline)(False, None)
            return exported(compilation.records[pipeline.names[-1]].complete(), form, compilation.context.params)
        except KernelError as error:
            hide_frames(error)
            raise

    def anew(self) -> Program:
        """Return a program of the same module and `params` that has compiled nothing yet."""
        program = copy.copy(self)
        program._kernels, program._called = {}, None
        return program

    def entry_named(self, entry: str | None) -> str:
        """Return the function that this names, by default the only one or ``main``; raises `ParseError` for none."""
        names = ", ".join(self.functions) or "none"
        if entry is not None:
            if entry in self.functions:
                return entry
            hint = f"{did_you_mean(entry, self.functions)}its functions are {names}"
            raise ParseError(f"the program has no function {entry!r}", Span(self.file, 1, 1), help=hint)
        if len(self.functions) == 1:
            return self.functions[0]
        if "main" in self.functions:
            return "main"
        raise ParseError(
            f"the program has {len(self.functions) or 'no'} public functions",
            Span(self.file, 1, 1),
            help=f"say entry=, one of {names}; on the command line FILE::{self.functions[0]}"
            if self.functions
            else "give one a body, and no private visibility",
        )

    def _symbol(self, entry: str) -> str:
        return kernel_names(self.functions)[entry]

    def _compile(self, entry: str, options: Options, shapes: dict[str, tuple[int, ...]]) -> Kernel:
        if options.pipeline is None and not settings.is_set("MLIRTRI_PIPELINE"):
            options = replace(options, pipeline=self.usual_pipeline)
        target, schedule, pipeline = resolved(options)
        pipeline = pipeline_of_import(self.source, pipeline)
        observer = Observer(self._symbol(entry), pipeline, options.print_ir)
        key = (entry, repr(target), schedule, pipeline, tuple(sorted(shapes.items())))
        with COMPILING:
            kernel = None if observer.override_folder is not None else self._cached(key)
            if is_new := kernel is None:
                kernel = self._build(_Run(self, observer.kernel, target, schedule, pipeline, shapes), observer)
                if observer.override_folder is None:
                    self._kernels[key] = (self.params.version, kernel)
        if not is_new and observer.printed:
            observer.replay(kernel.observed)
        if observer.dump_folder is not None:
            facts = {**manifest(kernel, schedule), "source": self.source}
            observer.dump(kernel.observed, _digest(kernel, schedule), facts)
        return kernel

    def _build(self, run: _Run, observer: Observer) -> Kernel:
        compilation = run(True, observer) if observer.wants_passes else self._by_cache(run, observer)
        for position, _ in compilation.context.interface.states:
            name = compilation.context.interface.bound[position].name
            self.params.adopt(name, compilation.context.params[name])
        interface = compilation.context.interface
        parts = (run.kernel, run.pipeline, run.target, self.semantics, compilation, interface)
        return self._kernel(*parts, lambda: run(True, None))

    def _by_cache(self, run: _Run, observer: Observer) -> Compilation:
        imported = run.imported(False, observer)
        return compile_stages(
            StagesRequest(
                run.kernel,
                self.source,
                self.semantics,
                run.pipeline,
                run.target,
                run.schedule,
                imported,
                lambda: run.rest(imported, observer),
                lambda: run(False, None),
            )
        )

    def _cached(self, key: Any) -> Kernel | None:
        version, kernel = self._kernels.get(key, (0, None))
        if kernel is None or version == self.params.version:
            return kernel
        compilation = kernel.compilation
        params = {name: self.params.get(name, tensor) for name, tensor in compilation.context.params.items()}
        rebound = Compilation(replace(compilation.context, params=params), compilation.records, compilation.ir)
        parts = (kernel.name, kernel.pipeline, kernel.target, kernel.semantics, rebound, kernel.interface)
        kernel = self._kernel(*parts, kernel.compile_with_passes)
        self._kernels[key] = (self.params.version, kernel)
        return kernel

    def _interface(self, module: Any) -> Interface:
        return function_of("mlir", module, Path(self.file))[1]

    def _kernel(self, *parts: Any) -> Kernel:
        """Return the kernel object; subclasses override this for other calling conventions."""
        return Kernel(*parts)

    def __repr__(self) -> str:
        # A module of torch is in no file; its nodes are lines of one that is called like it.
        where = self.source if self.file == f"<{self.functions[0]}>" else self.file
        return f"<mlirtri program of {', '.join(self.functions)} from {where}>"


@dataclass(frozen=True)
class _Run:
    program: Program
    kernel: str
    target: Target
    schedule: str
    pipeline: Pipeline
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __call__(self, keep_passes: bool, observer: Observer | None) -> Compilation:
        imported = self.imported(keep_passes, observer)
        return self.rest(imported, observer) if self.has_normal_form else imported

    @property
    def has_normal_form(self) -> bool:
        """Return whether the pipeline is not cut before the normal form, as for the text of an earlier stage."""
        return normal_form_stage(self.pipeline) in self.pipeline.names

    def imported(self, keep_passes: bool, observer: Observer | None) -> Compilation:
        """Return the compilation up to the normal form."""
        program = self.program
        context = CompileContext(
            self.kernel, self.target, self.schedule, keep_passes=keep_passes, params=dict(program.params)
        )
        context.shapes = dict(self.shapes)
        if observer is not None:
            context.on_pass, context.on_failure = observer.on_pass, observer.on_failure

        def hook(stage: Stage, ir: Any, context: CompileContext) -> Any:
            if stage.name == normal_form_stage(self.pipeline):
                context.interface = program._interface(ir)
                names = [leaf.name for leaf in context.interface.bound]
                context.params = {name: context.params[name] for name in names if name in context.params}
                context.fixed = frozenset(context.params) - program.written
                names = (*self.pipeline.names, *self.pipeline.left_out)
                context.prepares = "tir" in names and not self.target.is_cuda
            return ir if observer is None else observer(stage, ir, context)

        # MLIR parses here, so this needs the lock, too.
        with COMPILING:
            stages = self.pipeline.until(normal_form_stage(self.pipeline)) if self.has_normal_form else self.pipeline
            return run_stages(program._read(), stages, context, hook)

    def rest(self, imported: Compilation, observer: Observer | None) -> Compilation:
        """Return the whole compilation: the stages after the normal form, on the IR that they change."""
        stages = self.pipeline.after(normal_form_stage(self.pipeline))
        later = run_stages(imported.ir, stages, imported.context, observer)
        return Compilation(imported.context, {**imported.records, **later.records}, later.ir)


def _known_shapes(shapes: Any) -> dict[str, tuple[int, ...]]:
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise KernelTypeError(
            f"shapes= takes a dictionary of names and shapes, got {shapes!r}", help='write shapes={"x": (2, 3)}'
        )
    checked = {}
    for name, shape in shapes.items():
        try:
            checked[name] = tuple(map(operator.index, shape))
        except TypeError:
            raise KernelTypeError(
                f"shapes= has {shape!r} for {name!r}, and a shape is a sequence of integers", help="write (2, 3)"
            ) from None
    return checked


def _digest(kernel: Kernel, schedule: str) -> str:
    text = kernel.compilation.records[normal_form_stage(kernel.pipeline)].complete()
    return content_key(
        text, kernel.pipeline.name, kernel.pipeline.names, repr(kernel.target), schedule, kernel.semantics, versions()
    )
