"""What can be compared: kernels, graphs of kernels and programs, by object or by the file that has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

from mlirtri.compiler.observe import keeping_passes
from mlirtri.errors import KernelError, KernelTypeError
from mlirtri.kernels.argument_text import data_for, device_for, random_array
from mlirtri.kernels.graph import Graph
from mlirtri.kernels.jit import JitFunction, jit
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.session import compile_function
from mlirtri.language.arguments import tensor_type
from mlirtri.language.containers import is_container
from mlirtri.language.names import Tensor
from mlirtri.lowering.core.interface import Specialization
from mlirtri.measure.columns import Column
from mlirtri.measure.copies import copied
from mlirtri.measure.eager import as_plain, widened
from mlirtri.programs.program import Program
from mlirtri.sources.program_files import is_program, load_program
from mlirtri.sources.python_files import arguments_of_each, checked_arguments, each_kernel, load_graph, load_kernel

TWICE = 2
"""Kernels are compiled twice, for the first compile of a process also imports lowerings and fills tables."""
_OF_ARRAYS = frozenset({"astype", "copy", "choose", "compress", "searchsorted"})
"""Methods of NumPy's arrays that torch's tensors lack."""
_KINDS = "a jit function, a program, a graph, a Relax module or a file of them"


@dataclass
class KernelSubject:
    """A jit function; its plain function is what results are compared with."""

    function: JitFunction
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    device: str = "cpu"
    is_observed: bool = False
    compilations: int = TWICE
    kernels: dict[str, Kernel] = field(default_factory=dict)
    """Observed kernels, by column."""

    @property
    def name(self) -> str:
        return self.function.__name__

    def observe(self) -> None:
        """Have kernels compiled once from now on, each with the text after each pass."""
        self.is_observed = True

    @cached_property
    def named(self) -> dict[str, Any]:
        """Return the data of a call by parameter name, in order."""
        bound = self.function.signature.bind(self.arguments, dict(self.keywords), abstract=True)
        for name, value in bound.items():
            if name in self.function.signature.variadic or is_container(value):
                raise KernelTypeError(
                    f"{name!r} is a container of tensors, which are not copied and compared by the parts",
                    help="measure a kernel that takes each tensor by itself",
                )
        return {name: self._data(name, value) if isinstance(value, Tensor) else value for name, value in bound.items()}

    def _data(self, name: str, value: Tensor) -> Any:
        type_ = tensor_type(value)
        is_numpy = self.function.options.semantics == "numpy" or self.is_written_in_numpy
        if is_numpy and self.device == "cpu" and type_.is_static:
            return random_array(name, type_, value.bounds)
        return data_for(name, type_, value, self.device)

    @cached_property
    def is_written_in_numpy(self) -> bool:
        """Return whether the function names NumPy, or a method of arrays alone, and not torch.

        Abstract arguments become arrays then.
        """
        function = self.function.__mlirtri_function__
        names = function.__code__.co_names
        used = {getattr(function.__globals__.get(name), "__name__", "") for name in names}
        is_of_arrays = not _OF_ARRAYS.isdisjoint({*names} - {*function.__globals__})
        return self.function.options.semantics is None and (is_of_arrays or "numpy" in used) and "torch" not in used

    @cached_property
    def specialization(self) -> Specialization:
        return self.function.signature.specialize(self.named, self.function.options.semantics)

    def compile(self, column: Column) -> Kernel:
        """Return a kernel that was compiled anew; raises the `KernelError` that refuses."""
        if not self.is_observed:
            return [self.compile_once(column) for _ in range(self.compilations)][-1]
        if column.name not in self.kernels:
            with keeping_passes():
                self.kernels[column.name] = self.compile_once(column)
        return self.kernels[column.name]

    def compile_once(self, column: Column) -> Kernel:
        """Return a kernel whose compile times do not count; raises the `KernelError` that refuses."""
        options = column.options.over(self.function.options)
        return compile_function(self.function.__mlirtri_function__, self.specialization, options, {}).kernel

    def call_of(self, kernel: Kernel, values: Mapping[str, object]) -> Callable[[], Any]:
        """Return a call of the kernel on these values of `named`."""
        arguments = [values[parameter.name] for parameter in self.specialization.tensors]
        return lambda: kernel(*arguments)

    @property
    def resets(self) -> tuple[Callable[[], None], ...]:
        """Return what to call before each call, so that it finds the subject as the first call did."""
        return ()

    def plain(self, values: Mapping[str, object]) -> Callable[[], Any]:
        """Return a call of the plain function on these values, which it may write."""
        return as_plain(self.function, values)

    def copies(self, is_wide: bool = False) -> dict[str, Any]:
        """Return copies of the arguments, in float64 where `is_wide`."""
        return widened(self.named) if is_wide else copied(self.named)


@dataclass
class ProgramSubject:
    """A program or a graph: arguments are those of the first pipeline that compiles it."""

    program: Program | Graph
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    entry: str | None = None
    device: str = "cpu"
    columns: Sequence[Column] = ()
    kernels: dict[str, Kernel | KernelError] = field(default_factory=dict)
    """What compiling gave, by column."""
    is_observed: bool = False
    compilations: int = TWICE
    kept: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """By identity, the module's tensors that a call writes, each with a copy of before."""
    takes_states: bool = False
    """Whether the program may keep values between calls, so that no two calls give the same."""

    def observe(self) -> None:
        self.is_observed = True
        self.kernels.clear()

    @property
    def name(self) -> str:
        kernel = self.first
        if kernel is not None:
            return kernel.name
        return self.program.name if isinstance(self.program, Graph) else self.entry or self.program.functions[0]

    @property
    def first(self) -> Kernel | None:
        """Return the kernel of the first column that compiles."""
        for column in self.columns:
            if isinstance(kernel := self._kernel(column), Kernel):
                return kernel
        return None

    @cached_property
    def named(self) -> dict[str, Any]:
        if (kernel := self.first) is None:
            return {}
        parameters, given = kernel.interface.parameters, dict(self.keywords)
        given = dict(zip((parameter.name for parameter in parameters), self.arguments, strict=False)) | given
        if isinstance(self.program, Graph) or self.keywords or self.arguments:
            known = [parameter for parameter in parameters if parameter.type.is_static]
            absent = {parameter.name: Tensor(parameter.type.shape, parameter.type.dtype) for parameter in known}
            if isinstance(self.program, Graph) or not self.arguments:
                given = absent | given
            ordered = kernel.ordered((), given)
        else:
            ordered = tuple(None for _ in parameters)
        pairs = zip(parameters, ordered, strict=True)
        return {p.name: data_for(p.name, p.type, value, self.device) for p, value in pairs}

    def compile(self, column: Column) -> Kernel:
        kernel = self._kernel(column)
        if isinstance(kernel, KernelError):
            raise kernel
        return kernel

    def _kernel(self, column: Column) -> Kernel | KernelError:
        if column.name not in self.kernels:
            try:
                with column.environment():
                    self.kernels[column.name] = kernel = self._anew(column)
            except KernelError as error:
                self.kernels[column.name] = error
            else:
                self._keep(kernel)
        return self.kernels[column.name]

    def _keep(self, kernel: Kernel) -> None:
        if calling := getattr(kernel, "calling", None):
            tensors = [kernel.held[name] for name in calling.buffer_updates]  # type: ignore[attr-defined]
            self.kept = {id(tensor): (tensor, tensor.clone()) for tensor in tensors} | self.kept

    @property
    def resets(self) -> tuple[Callable[[], None], ...]:
        return (self._reset,) if self.kept else ()

    def _reset(self) -> None:
        for tensor, before in self.kept.values():
            tensor.data.copy_(before)

    def _anew(self, column: Column) -> Kernel:
        if not self.is_observed:
            return [self.compile_once(column) for _ in range(self.compilations)][-1]
        with keeping_passes():
            return self.compile_once(column)

    def compile_once(self, column: Column) -> Kernel:
        """Return a kernel whose compile times do not count; raises the `KernelError` that refuses."""
        chosen = {name: getattr(column.options, name) for name in ("pipeline", "target", "schedule")}
        if isinstance(self.program, Graph):
            return self.program.compile(**chosen)
        kernel = self.program.anew().compile(self.entry, **chosen)
        if kernel.interface.states and not self.takes_states:
            help = "compare a program whose results follow from its arguments"
            raise KernelTypeError("this program keeps values between calls, and compare calls it many times", help=help)
        return kernel

    def call_of(self, kernel: Kernel, values: Mapping[str, object]) -> Callable[[], Any]:
        arguments, keywords = self.structured(values)
        return lambda: kernel(*arguments, **keywords)

    def structured(self, values: Mapping[str, object]) -> tuple[Sequence[object], Mapping[str, object]]:
        """Return the arguments in order and by name: an exported torch module takes those that it was exported with."""
        calling = getattr(self.first, "calling", None)
        return calling.structured(list(values.values())) if calling else (list(values.values()), {})


Subject = KernelSubject | ProgramSubject
"""One thing to compare, with its arguments."""


def subjects_of(
    what: object, arguments: tuple[object, ...], keywords: Mapping[str, object], columns: Sequence[Column]
) -> list[Subject]:
    """Return what `what` names, or each of a list; raises `KernelTypeError` for what cannot be compared.

    Of several kernels each takes the keyword arguments that it has parameters for.
    """
    objects = list(what) if isinstance(what, (list, tuple)) else [what]
    objects_of_files = [(found, isinstance(named, str | Path)) for named in objects for found in _objects(named)]
    if not objects_of_files:
        raise KernelTypeError("there is nothing to compare", help=f"give {_KINDS}")
    device = device_for(columns[0].target) if columns else "cpu"
    given = _Given(arguments, columns, device)
    each = arguments_of_each([what for (what, _), _ in objects_of_files], keywords)
    return [_subject(*found, given, own, is_file) for (found, is_file), own in zip(objects_of_files, each, strict=True)]


def _objects(what: Any) -> list[tuple[Any, str | None]]:
    if isinstance(what, Path) or (isinstance(what, str) and "\n" not in what):
        return _of_file(str(what))
    if isinstance(what, JitFunction | Program | Graph):
        return [(what, None)]
    if isinstance(what, FunctionType):
        return [(jit(what), None)]
    if _is_relax_module(what):
        from mlirtri.programs.relax_program import from_relax  # loads TVM, which the module has loaded

        return [(from_relax(what), None)]
    help = "decorate it with @mlirtri.jit"
    raise KernelTypeError(f"compare takes {_KINDS}, not {what!r}", help=help)


def _is_relax_module(value: Any) -> bool:
    return type(value).__name__ == "IRModule" and type(value).__module__.startswith("tvm.")


def _of_file(spec: str) -> list[tuple[Any, str | None]]:
    file, _, entry = spec.partition("::")
    if is_program(spec):
        program = load_program(file)
        return [(program, program.entry_named(entry or None))]
    if Path(file).suffix not in ("", ".py"):
        raise KernelTypeError(f"{file} is no file of kernels or of a program", help=f"give {_KINDS}")
    names = each_kernel(spec)
    graphs = [load_graph(name) for name in names]
    return [(graph or load_kernel(name), None) for name, graph in zip(names, graphs, strict=True)]


@dataclass(frozen=True)
class _Given:
    """What all subjects of a comparison have in common."""

    arguments: tuple[Any, ...]
    columns: Sequence[Column]
    device: str


def _subject(what: Any, entry: str | None, given: _Given, keywords: dict[str, Any], is_file: bool) -> Subject:
    if not isinstance(what, JitFunction):
        return ProgramSubject(what, given.arguments, keywords, entry, given.device, given.columns)
    if is_file:
        # Run-time numbers need no argument there.
        keywords = checked_arguments(what, keywords)
    return KernelSubject(what, given.arguments, keywords, given.device)
