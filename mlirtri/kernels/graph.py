"""`mt.graph()`: record calls of several kernels on symbolic arguments, and compile them as one program.

    with mt.graph() as graph:
        x = graph.argument("x", mt.Tensor((128, 64), mt.float32))
        graph.returns(scale(normalize(x), 2.0))
    kernel = graph.compile()

Each call is lowered once when it is recorded, so that what does not fit is reported at its line.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from mlirtri import settings
from mlirtri.compiler.records import COMPILING
from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import DeviceError, KernelError, KernelTypeError, Span
from mlirtri.kernels.kernel import Compiled, Kernel
from mlirtri.kernels.options import Options, language_options, resolved
from mlirtri.language.arguments import is_torch, parameter_of
from mlirtri.language.containers import at, run_time_paths
from mlirtri.language.containers import mapped as mapped_argument
from mlirtri.language.names import Tensor
from mlirtri.lowering.core.interface import ConstantParameter, TensorParameter, identifier_of
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.core.tracebacks import hide_frames, public, public_class, span_of
from mlirtri.lowering.frontend.graph.kernel_graph import Dispatch, GraphArgument, KernelGraph, ValueNumber, mapped
from mlirtri.lowering.pipelines import INTERPRETER, Pipeline

_kernels: WeakValueDictionary[Any, Kernel] = WeakValueDictionary()
"""Of all graphs, by content, as long as somebody keeps them."""
_PYTHON_NUMBERS = {float: 0.0, complex: 0j}
"""What stands for a Python number that is known at run time only."""


class Value:
    """A tensor of a graph: an argument, or what a kernel returned. Kernels are called with it while recording."""

    __mlirtri_value__ = True
    """`JitFunction` lets the graph record a call with such an argument."""

    def __init__(self, graph: Graph, number: int, type_: TensorType, weak: type | None = None):
        self.__mlirtri_graph__ = graph
        self.number = number
        self.type = type_
        self.weak = weak
        """``float`` or ``complex`` for a Python number."""

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.type.shape)

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return self.type.rank

    def __len__(self) -> int:
        raise self._refusal("length")

    def __bool__(self) -> bool:
        raise self._refusal("truth")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._refusal("elements")

    def __iter__(self) -> Any:
        raise self._refusal("elements")

    def __add__(self, *_: Any) -> Any:
        raise self._refusal("arithmetic")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __neg__ = __add__
    __matmul__ = __rmatmul__ = __getitem__ = __setitem__ = __add__

    def _refusal(self, what: str) -> KernelError:
        error = KernelTypeError(
            f"{self!r} is a value of a graph, which has no {what}", span_of(settings.users_frame()),
            help="only kernels compute with it: put this into a function decorated with @mlirtri.jit",
        )  # fmt: skip
        hide_frames(error)
        return error

    def __repr__(self) -> str:
        return f"<value %{self.number} of graph {self.__mlirtri_graph__.name!r}: {self.type}>"


@dataclass(frozen=True)
class _OwnTarget:
    """The target that a kernel of a graph asks for."""

    name: str
    target: Target
    span: Span

    def check(self, target: Target) -> None:
        """Raise `DeviceError` where the graph is for another kind of target."""
        if self.target.kind != target.kind:
            raise DeviceError(
                f"{self.name} is a kernel for {self.target}, and the graph is for {target}", self.span,
                help=f"say mt.graph(target={str(self.target)!r}), or leave the kernel's target out",
            )  # fmt: skip


@public_class("argument", "returns", "compile", "__enter__")
class Graph:
    """Calls of kernels, recorded in a `with` statement and compiled as one program."""

    def __init__(self, name: str, options: Options):
        resolved(options)
        language_options(options)
        self.name = name
        self.options = options
        self._graph = KernelGraph(identifier_of(name), span_of(settings.users_frame()), options.semantics or "torch")
        self._module: Any = None
        self._count = 0
        """Values so far."""
        self._targets: list[_OwnTarget] = []
        self._is_open = False
        self._failed: BaseException | None = None
        self._compiled: Compiled | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Graph:
        if self._module is not None or self._graph.arguments:
            raise KernelTypeError(f"graph {self.name!r} was recorded already", help="record another one: mt.graph()")
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._is_open = False
        self._module = None
        self._failed = error

    def argument(self, name: str, type: object) -> Value:  # noqa: A002 - what the caller would call it
        """Return a new argument of the graph.

        `type` is a full `Tensor`, whose sizes may be `dyn`, a real array or tensor whose type it takes, a dtype for a
        scalar, or ``float`` or ``complex`` for Python's numbers. A call of the graph takes the arguments in this order.
        """
        self._check_open()
        taken = [argument.parameter.name for argument in self._graph.arguments]
        if not isinstance(name, str) or not name.isidentifier() or name in taken:
            problem = "is an argument already" if name in taken else "is not a name"
            raise KernelTypeError(f"graph {self.name!r}: {name!r} {problem}", span_of(settings.users_frame()))
        span, weak = span_of(settings.users_frame()), type if type is float or type is complex else None
        try:
            parameter = _parameter(name, type)
        except KernelError as error:
            raise error.at(span) from None
        self._graph.arguments.append(GraphArgument(parameter, self._count, span))
        self._count += 1
        return Value(self, self._count - 1, parameter.type, weak)

    def returns(self, *results: object, **named: object) -> None:
        """Say what a call of the graph returns: one value, several as a tuple, or a dict of those given by name.

        One of the results may be a nested tuple, list or dict of values.
        """
        self._check_open()
        span = span_of(settings.users_frame())
        if self._graph.return_span is not None:
            raise KernelTypeError(f"graph {self.name!r} says twice what it returns", span, help="name all at once")
        if results and named:
            raise KernelTypeError("give results by position or by name, not both", span)
        whole = named or (results[0] if len(results) == 1 else results)
        self._graph.returned = mapped(whole, lambda value: self._number_of(value, span))
        self._graph.return_span = span

    def dispatch(self, function: object, named: dict[str, Any], out: object) -> Any:
        """Record a call of a `JitFunction` with arguments by parameter name; return its result as `Value`s."""
        span = span_of(settings.users_frame())
        self._check_open(span)
        if out is not None:
            raise KernelTypeError("out= is not recorded in a graph", span, help="use what the kernel returns")
        dispatch = self._dispatch_of(function, named, span)
        if function.options.target is not None:
            own = _OwnTarget(function.__name__, as_target(function.options.target), span)
            own.check(resolved(self.options)[0])
            self._targets.append(own)
        with COMPILING:
            module = self._current_module()
            try:
                result = module.add(dispatch)
            except KernelError as error:
                # The statements before the mistake may have written values.
                self._module = None
                raise error.at(span) from None
        types: list[TensorType] = []

        def value_of(number: ValueNumber) -> Value:
            types.append(module.type_of(number))
            return Value(self, number.number, types[-1])

        values = mapped(result, value_of)
        self._count += len(types)
        self._graph.dispatches.append(dispatch)
        self._graph.results.append((result, tuple(types)))
        return values

    def _dispatch_of(self, function: Any, named: dict[str, Any], span: Span) -> Dispatch:
        abstract = {
            name: mapped_argument(value, partial(self._abstract, name=name, span=span)) for name, value in named.items()
        }
        try:
            specialization = function.signature.specialize(abstract, "torch")
        except KernelError as error:
            raise type(error)(error.message, span, help=error.help, notes=error.notes) from None
        options = function.options.over(self.options)
        arguments = []
        paths = iter(run_time_paths(specialization.parameters))
        for parameter in specialization.flat:
            if isinstance(parameter, ConstantParameter):
                arguments.append(None)
                continue
            value = at(tuple(named.values()), next(paths))
            if parameter.is_memory:
                raise KernelTypeError(
                    f"{function.__name__}(): {parameter.name!r} is a pointer, which graphs do not pass", span,
                    help="annotate it with mt.Tensor",
                )  # fmt: skip
            arguments.append(ValueNumber(value.number) if isinstance(value, Value) else value)
        return Dispatch(
            function.__mlirtri_function__, specialization.parameters, tuple(arguments), self._count,
            span, options.semantics or "torch", **language_options(options),
        )  # fmt: skip

    def _abstract(self, value: Any, name: str, span: Span) -> Any:
        """Return what stands for an argument of a call: an abstract tensor for a value of the graph."""
        if isinstance(value, Value):
            self._number_of(value, span)
            return _PYTHON_NUMBERS[value.weak] if value.weak else Tensor(value.shape, value.dtype)
        if is_torch(value) or isinstance(value, (np.ndarray, Tensor)):
            raise KernelTypeError(
                f"{name!r} is a {type(value).__name__}, and the other arguments are values of a graph", span,
                help=f"make it an argument of the graph: graph.argument({name!r}, …)",
            )  # fmt: skip
        return value

    def _number_of(self, value: Any, span: Span) -> ValueNumber:
        if not isinstance(value, Value):
            raise KernelTypeError(
                f"{value!r} is not a value of graph {self.name!r}", span,
                help="give what kernels returned, or arguments",
            )  # fmt: skip
        if value.__mlirtri_graph__ is not self:
            raise KernelTypeError(f"{value!r} is a value of another graph than {self.name!r}", span)
        return ValueNumber(value.number)

    def _current_module(self) -> Any:
        """Return the module of all calls so far; an argument that came later starts another one."""
        from mlirtri.lowering.frontend.graph.graph_to_tri import GraphModule  # loads MLIR

        if self._module is None or self._module.arguments != tuple(self._graph.arguments):
            target, schedule, pipeline = resolved(self.options)
            context = CompileContext(
                self._graph.symbol, target, schedule, **language_options(self.options),
                stops=pipeline.name == INTERPRETER,
            )  # fmt: skip
            self._module = GraphModule(self._graph.symbol, self._graph.arguments, context)
            for dispatch in self._graph.dispatches:
                self._module.add(dispatch)
        return self._module

    def _check_open(self, span: Span | None = None) -> None:
        if not self._is_open:
            raise KernelTypeError(
                f"graph {self.name!r} is not being recorded", span or span_of(settings.users_frame()),
                help="call kernels on its values inside of `with mt.graph() as graph:`",
            )  # fmt: skip

    def compile(
        self, target: str | Target | None = None, pipeline: str | Pipeline | None = None, schedule: str | None = None
    ) -> Kernel:
        """Return the kernel of the whole graph; raises the `KernelError` of the first stage that refuses."""
        return self._compile(Options(target, pipeline, schedule)).kernel

    def _compile(self, options: Options) -> Compiled:
        if self._failed is not None:
            why = getattr(self._failed, "message", None) or repr(self._failed)
            raise KernelTypeError(f"graph {self.name!r} was not recorded to its end: {why}", self._graph.span)
        if self._is_open:
            raise KernelTypeError(f"graph {self.name!r} is still recorded", help="compile it after the `with`")
        from mlirtri.kernels.session import compile_graph  # loads MLIR

        options = options.over(self.options)
        for own in self._targets:
            own.check(resolved(options)[0])
        with COMPILING:
            return compile_graph(self._graph, options, _kernels)

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        """Run with these arguments, compiling at the first call, and when a value that kernels captured has changed."""
        try:
            return self._current_kernel()(*arguments, **keywords)
        except KernelError as error:
            hide_frames(error)
            raise

    def _current_kernel(self) -> Kernel:
        compiled = self._compiled
        if compiled is None or not all(capture.is_current() for capture in compiled.captures):
            with self._lock:
                compiled = self._compiled = self._compile(Options())
        return compiled.kernel

    def __str__(self) -> str:
        return str(self._graph)

    def __repr__(self) -> str:
        return f"<mlirtri graph {self.name!r} of {len(self._graph.dispatches)} calls>"


@public
def graph(
    name: str = "graph",
    *,
    target: str | None = None,
    pipeline: str | Pipeline | None = None,
    schedule: str | None = None,
    print_ir: bool | tuple[str, ...] | None = None,
    semantics: str | None = None,
) -> Graph:
    """Return a graph to record calls of kernels in: ``with mt.graph() as g:``. Options are those of `jit`.

    A kernel's own `semantics`, `unroll`, `inline_depth` and `debug` hold for its calls; target, pipeline and schedule
    are the graph's. Kernels without `semantics` follow the graph's, torch's unless it says ``semantics="numpy"``.
    """
    if not isinstance(name, str):
        raise KernelTypeError(f"a graph's name is a string, not {name!r}", help='write mlirtri.graph("step")')
    return Graph(name, Options(target, pipeline, schedule, print_ir, semantics))


def _parameter(name: str, kind: Any) -> TensorParameter:
    """Return the parameter of a graph's argument; raises `KernelTypeError`."""
    if kind is float or kind is complex:
        dtype = DTYPES["float64" if kind is float else "complex128"]
        return TensorParameter(name, TensorType((), dtype), weak=True, number=True)
    if (dtype := find_dtype(kind)) is not None:
        return TensorParameter(name, TensorType((), dtype), number=True)
    parameter = parameter_of(name, kind, None)
    if not isinstance(parameter, TensorParameter):
        raise KernelTypeError(
            f"{kind!r} does not say what {name!r} is",
            help="give a mt.Tensor((…), dtype), an array, a dtype, or float; other values are given to the kernels",
        )
    return parameter
