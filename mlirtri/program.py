"""A program that did not come from a Python function: read from MLIR, torch, ONNX, StableHLO, TOSA or Relax.

Takes the text of a module in the language that it entered in, with the tensors that it is bound to. Gives kernels, by
the pipelines and options that functions have. Parsing happens anew for each compile: a walk changes its module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mlirtri.compiler import Walk, walk
from mlirtri.errors import KernelError, ParseError, Span, did_you_mean
from mlirtri.interfaces import function_of
from mlirtri.kernel import Kernel
from mlirtri.lowering.pipelines import Pipeline, pipeline_of_import
from mlirtri.lowering.specialization import Interface
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.target import Target
from mlirtri.observe import Observer
from mlirtri.options import Options, resolved
from mlirtri.tracebacks import shown_to_user


class Program:
    """A module of one or several functions, compiled by `compile`, or at the first call."""

    def __init__(
        self,
        source: str,
        read: Callable[[], Any],
        functions: Sequence[str],
        file: str,
        params: dict[str, Any] | None = None,
        semantics: str = "numpy",
    ):
        self.source = source
        """The language that it entered in, a key of `pipelines.IMPORTS`."""
        self.functions = tuple(functions)
        """The functions that can be compiled."""
        self.file = file
        """What errors call the place that it came from."""
        self.params: dict[str, Any] = dict(params or {})
        """Tensors that the program is bound to, by name; a kernel has those of the time when it was compiled."""
        self.semantics = semantics
        self._read = read
        self._kernels: dict[Any, Kernel] = {}

    def compile(
        self,
        entry: str | None = None,
        *,
        target: str | Target | None = None,
        pipeline: str | Pipeline | None = None,
        schedule: str | None = None,
        print_ir: bool | tuple[str, ...] | None = None,
    ) -> Kernel:
        """The kernel of the function `entry`, which may be left out where there is one, or one called ``main``.

        Raises the `KernelError` of the first room that refuses.
        """
        try:
            return self._compile(self._entry(entry), Options(target, pipeline, schedule, print_ir))
        except KernelError as error:
            raise shown_to_user(error)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run on tensors, compiled with the default options the first time."""
        if None not in self._kernels:
            self._kernels[None] = self.compile()
        return self._kernels[None](*arguments, **keywords)

    def _entry(self, wanted: str | None) -> str:
        names = ", ".join(self.functions) or "none"
        if wanted is not None:
            if wanted in self.functions:
                return wanted
            hint = f"{did_you_mean(wanted, self.functions)}its functions are {names}"
            raise ParseError(f"the program has no function {wanted!r}", Span(self.file, 1, 1), help=hint)
        if len(self.functions) == 1:
            return self.functions[0]
        if "main" in self.functions:
            return "main"
        raise ParseError(
            f"the program has {len(self.functions)} functions",
            Span(self.file, 1, 1),
            help=f"say entry=, one of {names}",
        )

    def _compile(self, entry: str, options: Options) -> Kernel:
        target, schedule, pipeline = resolved(options)
        pipeline = pipeline_of_import(self.source, pipeline)
        observer = Observer(entry, pipeline, options.print_ir)

        def run(keep_passes: bool, hook: Observer | None) -> Walk:
            context = CompileContext(entry, target, schedule, keep_passes=keep_passes, params=dict(self.params))
            context.on_pass = hook.on_pass if hook else None
            cut = pipeline.names.index("linalg") + 1
            front = walk(self._read(), Pipeline(pipeline.name, pipeline.stages[:cut]), context, hook)
            context.interface = self._interface(front.ir)
            rest = walk(front.ir, Pipeline(pipeline.name, pipeline.stages[cut:]), context, hook)
            return Walk(context, {**front.records, **rest.records}, rest.ir)

        walked = run(observer.wants_passes, observer)
        interface = walked.context.interface
        return self._kernel(entry, pipeline, target, self.semantics, walked, interface, lambda: run(True, None))

    def _interface(self, module: Any) -> Interface:
        """How Python meets the function, from the normal form that `linalg` leaves."""
        return function_of("mlir", module, Path(self.file))[1]

    def _kernel(self, *parts: Any) -> Kernel:
        """What `compile` gives; a language whose calls differ has a kernel of its own."""
        return Kernel(*parts)

    def __repr__(self) -> str:
        return f"<mlirtri program of {', '.join(self.functions)} from {self.file}>"
