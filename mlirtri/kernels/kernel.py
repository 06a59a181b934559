"""A compiled kernel: called with tensors, and read stage by stage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirtri.compiler.records import COMPILING, Compilation, Passes, Texts
from mlirtri.compiler.traces import texts_of
from mlirtri.errors import ArgumentMismatchError, DeviceError, KernelError, SkippedStep, UnknownOptionError
from mlirtri.language.containers import run_time_leaves
from mlirtri.lowering.core.forks import renewed
from mlirtri.lowering.core.interface import Capture, Interface
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tracebacks import hide_frames, public
from mlirtri.lowering.pipelines import Pipeline
from mlirtri.trace.data import Trace, TracedKernel

if TYPE_CHECKING:
    from mlirtri.kernels.fusion_report import FusionReport
    from mlirtri.kernels.task_report import TaskReport


@dataclass(frozen=True)
class Compiled:
    """A compiled function."""

    kernel: Kernel
    captures: list[Capture]
    """What has to be as it is now for the kernel to be used again: what the function read from outside."""
    is_new: bool
    """False for a kernel from a cache."""
    content: str
    """The digest of stage `tri` and of the options."""


_RUNNERS = renewed(threading.RLock())
"""Held while a kernel's `Runner` is made, by its first call."""


class Kernel:
    """One specialization of a function (or one module) for one target, compiled by one pipeline.

    Call it with the run-time arguments in the order of the function's parameters, or by name; constants are compiled
    in. ``out=`` takes a tensor to write into, or a tuple of them. Raises `ArgumentMismatchError` or another
    `KernelError`.
    """

    # Python calls this slot directly: the fastest path that the first call found.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(
        self,
        name: str,
        pipeline: Pipeline,
        target: Target,
        semantics: str,
        compilation: Compilation,
        interface: Interface,
        compile_with_passes: Callable[[], Compilation],
    ):
        self.name = name
        self.pipeline = pipeline
        self.target = target
        self.semantics = semantics
        self.interface = interface
        self.compilation = compilation
        self.compile_with_passes = compile_with_passes
        """Compiles once more with text kept after each pass."""
        self.explanation: Any = None
        """Why it was compiled, for the kernels of a Python function."""
        self.annotatable: Collection[str] = ()
        """Parameters of a Python function, which may have annotations: elements of containers have none."""
        self._runner: Any = None
        self.__call__ = self._first_call

    def explain(self) -> str:
        """Return why it was compiled: what differs from earlier kernels of its function, and how to avoid it."""
        return f"{self.name}: not compiled from a call" if self.explanation is None else str(self.explanation)

    @property
    def ir(self) -> Texts:
        """Return each stage's text by name, in order."""
        return Texts(self.compilation, self.pipeline)

    def get_tir(self) -> str:
        """Return TIR after scheduling, as ``ir["scheduled"]``; raises `UnknownOptionError` in pipelines without TVM."""
        return self.ir[self.pipeline.find("scheduled").name]

    def get_source(self) -> str:
        """Return the code that was generated: CUDA, or LLVM IR of the CPU."""
        names = [name for name in ("cuda", "llvm", "llvmdialect") if name in self.ir]
        return self.ir[names[0]] if names else self.ir[self.pipeline.find("llvm").name]

    @cached_property
    def passes(self) -> dict[str, Passes]:
        """Return, by stage, the text after each of its passes; ``.changed`` names the passes that changed the IR.

        Compiles once more, with text kept after each pass, unless that was asked for from the start.
        """
        compilation = self.observed
        return {name: Passes(compilation.context.passes.get(name, [])) for name in compilation.records}

    @cached_property
    def fusion(self) -> FusionReport:
        """Return for every tensor between two operations whether they are fused, and why or why not."""
        from mlirtri.kernels.fusion_report import explain_fusion  # loads rich

        if not self.compilation.records:
            raise UnknownOptionError(f"{self.name} has no IR", help=self.compilation.why_no_text)
        return explain_fusion(self.name, self.compilation)

    @cached_property
    def tasks(self) -> TaskReport:
        """Return the parallel loops and the serial parts between them: bounds, blocks, what each reads and writes."""
        from mlirtri.kernels.task_report import tasks  # loads MLIR

        return tasks(self.name, self.compilation)

    @cached_property
    def observed(self) -> Compilation:
        """Return a compilation with the text after each pass: the kernel's own, or a second one."""
        if self.compilation.context.keep_passes:
            return self.compilation
        with COMPILING:  # cached properties have no lock of their own since Python 3.12
            return self.__dict__.get("observed") or self.compile_with_passes()

    @property
    def binaries(self) -> dict[str, bytes]:
        """Return the SPIR-V module of each kernel by name, in the order of the launches; none for other targets."""
        return dict(getattr(self.compilation.executable, "binaries", {}))

    @property
    def params(self) -> dict[str, Any]:
        """Return the tensors that the kernel is bound to, by name: weights and large constants."""
        return self.compilation.context.params

    @property
    def writes(self) -> tuple[str, ...]:
        """The parameters that a call writes, by name."""
        return tuple(self.interface.parameters[position].name for position, _ in self.interface.updates)

    @property
    def warnings(self) -> tuple[SkippedStep, ...]:
        """Return the schedule rules and passes that failed and were skipped, which costs speed only."""
        return tuple(self.compilation.context.warnings)

    @property
    def stats(self) -> dict[str, Any]:
        """Return ``kernels`` launched per call, ``bytes`` read and written by them, ``compile_seconds`` by stage.

        ``peak_bytes`` is the memory of all intermediates together; None where it is not known before a call.
        A kernel for CUDA has also ``launches``, a `LaunchFigures` each, and ``flops``; one for
        SPIR-V a `Dispatch` for each launch.
        """
        executable = self.compilation.executable
        figures = {
            "kernels": executable.kernels if executable else None,
            "bytes": executable.bytes if executable else None,
            "peak_bytes": getattr(executable, "peak_bytes", None),
            "compile_seconds": self.compilation.seconds,
        }
        return figures | self._figures_of_launches

    @cached_property
    def _figures_of_launches(self) -> dict[str, Any]:
        with COMPILING:
            make_figures = getattr(self.compilation.executable, "make_figures", tuple)
            if not (launches := make_figures()):
                return {}
            record = self.compilation.records["tir"] if "tir" in self.compilation.records else None
            flops = getattr(self.compilation.executable, "flops", None)
            if record is None or flops is not None:
                return {"launches": launches, "flops": flops}
            from mlirtri.lowering.toolchain.tvm_passes import estimated_flops, prim_funcs  # loads TVM

            counts = [estimated_flops(function) for _, function in prim_funcs(record.ir)]
            flops = None if None in counts else sum(count for count in counts if count is not None)
            return {"launches": launches, "flops": flops}

    @property
    def runner(self) -> Any:
        """Return the kernel's `Runner`; raises `DeviceError` if the pipeline stopped before code generation."""
        if (runner := self._runner) is not None:
            return runner
        with _RUNNERS:
            # Another thread may have made it: a second one would have states of its own.
            if (runner := self._runner) is None:
                runner = self._runner = self._new_runner()
            return runner

    def _new_runner(self) -> Any:
        from mlirtri.calls.runtime import Runner  # loads torch

        if self.compilation.executable is None:
            raise DeviceError(
                f"{self.name} was compiled up to stage {self.pipeline.names[-1]!r} only and cannot be called",
                help="compile it without stopping early",
            )
        return Runner(
            self.name,
            self.interface,
            self.compilation.executable,
            self.semantics,
            self.pipeline.signless,
            self.target.device == "cuda",
            self.params,
            annotatable=() if self.name == "lambda_" else self.annotatable,
        )

    def _first_call(self, /, *arguments: Any, **keywords: Any) -> Any:
        """Run, and write the short call of later calls."""
        try:
            call = self.__call__ = self._short_call()
            return call(*arguments, **keywords)
        except KernelError as error:
            hide_frames(error)
            raise

    def _short_call(self) -> Callable[..., Any]:
        from mlirtri.calls.short_calls import Callee, short_call

        callee = Callee(
            self.name, self.interface, self.compilation.executable, self.semantics, self.pipeline.signless,
            lambda: self.runner.prepared, self.target.device,
        )  # fmt: skip
        return short_call(callee, self._general_call, self._install, hide_frames)

    def _install(self, call: Callable[..., Any]) -> None:
        self.__call__ = call

    def _general_call(self, /, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        try:
            if out is not None and any(parameter.name == "out" for parameter in self.interface.parameters):
                # A parameter named `out` takes precedence, as in a call of the function.
                keywords, out = {**keywords, "out": out}, None
            if any(isinstance(argument, (tuple, list, dict)) for argument in arguments):
                arguments = run_time_leaves(arguments)
            if keywords or len(arguments) != len(self.interface.parameters):
                arguments = self.ordered(arguments, keywords)
            return self.runner(arguments, out)
        except KernelError as error:
            hide_frames(error)
            raise

    def ordered(self, arguments: Sequence[object], keywords: Mapping[str, object]) -> tuple[Any, ...]:
        """Return the arguments of a call in the order of the parameters; raises `ArgumentMismatchError`."""
        names = [parameter.name for parameter in self.interface.parameters]
        values = dict(zip(names, arguments, strict=False))
        unknown = [name for name in keywords if name not in names or name in values]
        values |= keywords
        missing = [name for name in names if name not in values]
        if unknown or missing or len(arguments) > len(names):
            raise ArgumentMismatchError(
                f"{self.name}() takes {', '.join(names) or 'no arguments'} at run time"
                + f"; missing {', '.join(missing)}" * bool(missing)
                + f"; not known or given twice: {', '.join(unknown)}" * bool(unknown)
                + f"; got {len(arguments)} positional arguments" * (len(arguments) > len(names)),
                help="values that it was compiled with, such as Python numbers and strings, are left out of its call"
                if unknown or len(arguments) > len(names)
                else None,
            )
        return tuple(values[name] for name in names)

    @public
    def trace(self, path: str | Path, *others: Kernel) -> Path:
        """Write a page of HTML with every stage and pass, beside those of `others`; return its path.

        It needs no network. A click on a line marks what comes from the same line of the source in every stage.
        """
        from mlirtri.trace.page import write_page  # loads Pygments

        kernels = (self, *others)
        title = ", ".join(dict.fromkeys(kernel.signature for kernel in kernels))
        write_page(Trace(title, tuple(kernel.traced() for kernel in kernels)), Path(path))
        return Path(path)

    def traced(self, launches: Sequence[object] = ()) -> TracedKernel:
        """Return what a page shows of this kernel, with the costs of its launches.

        Compiles once more where the texts after passes were not kept.
        """
        texts = texts_of(self.observed)
        try:
            edges = self.fusion.edges
        except KernelError:
            # A kernel that was resumed after the stages that fuse has none.
            edges = ()
        target = str(self.target)
        return TracedKernel(self.name, self.pipeline.name, self.signature, target, texts, edges, tuple(launches))

    def to_mlir(
        self,
        stage: str = "fused",
        bare: bool = False,
        *,
        format: str = "text",
        params: str = "arguments",
        destinations: bool = False,
    ) -> str | bytes:
        """Return a stage as MLIR that stock tools parse: text, or bytes with ``format="bytecode"``.

        `bare` omits locations and attributes of ours; ``params="inline"`` turns bound tensors into constants;
        `destinations` turns results into trailing memref arguments. Raises `UnknownOptionError` for a stage
        that is not MLIR or that this kernel did not run.
        """
        from mlirtri.kernels.export import Form, exported  # loads MLIR

        stages = [name for name, record in self.compilation.records.items() if record.stage.kind == "mlir"]
        name = self.pipeline.find(stage).name
        if name not in stages:
            help_text = f"its MLIR stages are {', '.join(stages)}" if stages else "it has no MLIR stage"
            raise UnknownOptionError(f"stage {name!r} of kernel {self.name!r} is not MLIR", help=help_text)
        form = Form(bare, format, params, destinations)
        return exported(self.compilation.records[name].complete(), form, self.params)

    @public
    def save(self, folder: str | Path, *, ir: bool = False) -> None:
        """Write the kernel to `folder`, which `mlirtri.load` reads without the compiler; `ir` keeps the stages' texts.

        Replaces a kernel that was saved there. Raises `ArtifactError`, and `CodegenError` where nothing can link code.
        """
        from mlirtri.kernels.saved import save  # loads what it writes

        save(self, Path(folder), ir)

    def saved(self, folder: Path) -> dict[str, Any]:
        """Return as JSON what this class of kernels has beside a plain one; its files go to `folder`."""
        return {}

    def restore(self, facts: dict[str, Any], folder: Path) -> None:
        """Take what `saved` returned."""

    def __reduce__(self) -> tuple[Any, ...]:
        from mlirtri.kernels.saved import from_bytes, to_bytes  # as above

        return from_bytes, (to_bytes(self),)

    @property
    def signature(self) -> str:
        """The name with the types of the run-time arguments."""
        parameters = self.interface.parameters if self.interface is not None else ()
        return f"{self.name}({', '.join(f'{p.name}: {p.type}' for p in parameters)})"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><code>{escape(repr(self))}</code></p>{self.ir._repr_html_()}"

    def __repr__(self) -> str:
        return f"<mlirtri kernel {self.signature} for {self.target}, pipeline {self.pipeline.name!r}>"
