"""From call arguments to a `Specialization`: what is a tensor, a run-time scalar, or a compile-time constant."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType, find_dtype
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.errors import (
    ArgumentMismatchError,
    KernelError,
    KernelTypeError,
    Span,
    span_of_definition,
)
from mlirtri.language.arguments import COMPILE_TIME, NUMBERS, RUN_TIME, is_array, is_torch, semantics_of
from mlirtri.language.containers import (
    VARIADIC,
    at,
    container_key,
    is_container,
    leaves,
    mapped,
    parameter_tree,
    run_time_paths,
)
from mlirtri.language.dimensions import Dyn, substituted, unified
from mlirtri.language.names import Tensor, ptr
from mlirtri.lowering.core.interface import (
    Parameter,
    Specialization,
    TensorParameter,
    bound_arguments,
    flat_parameters,
)
from mlirtri.lowering.core.named_sizes import named_sizes, signature_program


class Signature:
    """The parameters of a kernel, with what their annotations ask for."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.parameters = dict(inspect.signature(function).parameters)
        self.annotations = self._annotations()
        self.signature = inspect.Signature(
            [p.replace(annotation=inspect.Parameter.empty) for p in self.parameters.values()]
        )

    @cached_property
    def positional(self) -> int:
        """The number of arguments that a call gives in order; -1 where it has to be bound."""
        kinds = {parameter.kind for parameter in self.parameters.values()}
        return -1 if kinds & {inspect.Parameter.KEYWORD_ONLY, *VARIADIC} else len(self.parameters)

    @cached_property
    def variadic(self) -> frozenset[str]:
        """The parameters that take the rest of a call's arguments."""
        return frozenset(name for name, parameter in self.parameters.items() if parameter.kind in VARIADIC)

    def _annotations(self) -> dict[str, Any]:
        closure = inspect.getclosurevars(self.function).nonlocals if self.function.__closure__ else {}
        try:
            annotations = inspect.get_annotations(self.function, eval_str=True, locals=closure or None)
        except (NameError, AttributeError, SyntaxError, TypeError, KernelError) as error:
            span = self._span_of_text(closure)
            if isinstance(error, KernelError):
                raise KernelTypeError(error.message, span, help=error.help) from None
            is_text = any(isinstance(kind, str) for kind in self.function.__annotations__.values())
            raise KernelTypeError(
                f"an annotation of {self.function.__name__} does not evaluate: {error}", span,
                help="leave out `from __future__ import annotations`: text does not find names of the function around"
                if is_text and isinstance(error, NameError) else None,
            ) from None  # fmt: skip
        named = {name: _annotation(value, name) for name, value in annotations.items() if name in self.parameters}
        return self._with_one_size_per_name(named)

    def _span_of_text(self, closure: Mapping[str, Any]) -> Span:
        """Return the position of the first annotation whose text does not evaluate; else that of the function."""
        for name, kind in self.function.__annotations__.items():
            try:
                eval(kind, self.function.__globals__, closure) if isinstance(kind, str) else None
            except Exception:
                return span_of_annotation(self.function, name) or self.span
        return self.span

    def _with_one_size_per_name(self, annotations: dict[str, Any]) -> dict[str, Any]:
        """Return the annotations with every size in the same symbols; raises `KernelTypeError`."""
        tensors: dict[str, Any] = {
            name: kind for name, kind in annotations.items() if isinstance(kind, Tensor) and kind.shape
        }
        replaced = unified(kind.shape for kind in tensors.values())
        for name, kind in tensors.items():
            tensors[name] = replace(kind, shape=tuple(substituted(size, replaced) for size in kind.shape))
        try:
            named_sizes([kind.shape for kind in tensors.values()], list(tensors))
        except KernelTypeError as error:
            raise error.at(self.span) from None
        return annotations | tensors

    @property
    def span(self) -> Span:
        return span_of_definition(self.function)

    def __str__(self) -> str:
        """Return one line per parameter: ``$`` is decided at compile time, ``$dyn`` at run time."""
        lines = [f"  {self._shown(name)}" for name in self.parameters]
        return "\n".join([f"{self.function.__name__}(", *lines, ")"])

    def __repr__(self) -> str:
        return f"<signature {self.function.__name__}({', '.join(map(self._shown, self.parameters))})>"

    def _shown(self, name: str) -> str:
        annotation, default = self.annotations.get(name), self.parameters[name].default
        if isinstance(annotation, Tensor):
            shown = annotation.specialization
        elif isinstance(annotation, DType):
            shown = f"$dyn {annotation}"
        elif annotation is ptr:
            shown = "$dyn ptr of $dtype"
        else:
            shown = "$" if annotation is None else f"$ {annotation.__name__}"
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        name = stars.get(self.parameters[name].kind, "") + name
        return f"{name}: {shown}" + ("" if default is inspect.Parameter.empty else f" = {default!r}")

    @cached_property
    def has_strides(self) -> bool:
        """Return whether strides of an argument are part of the key of a call."""
        return any(isinstance(kind, Tensor) and kind.strides is not None for kind in self.annotations.values())

    @cached_property
    def key_makers(self) -> list[Callable[[Any], Any]] | None:
        """Return the key function of each parameter; None if all are `key_of`."""
        makers = [
            _key_maker_of_rest(self.annotations.get(name))
            if name in self.variadic
            else _key_maker(self.annotations.get(name))
            for name in self.parameters
        ]
        return makers if any(make is not key_of for make in makers) else None

    def bind(self, arguments: tuple[object, ...], keywords: dict[str, Any], abstract: bool = False) -> dict[str, Any]:
        """Return arguments by parameter name, with defaults; with `abstract` fully annotated tensors may be omitted."""
        if abstract:
            keywords = dict(keywords)
            for name in list(self.parameters)[len(arguments) :]:
                annotated = self.annotations.get(name)
                if name not in keywords and isinstance(annotated, Tensor) and annotated.type is not None:
                    keywords[name] = annotated
        name = self.function.__name__
        bound = bound_arguments(name, self.signature, arguments, keywords, ArgumentMismatchError, self.span)
        bound.apply_defaults()
        return dict(bound.arguments)

    def specialize(self, arguments: dict[str, Any], semantics: str | None = None) -> Specialization:
        """Return the `Specialization` for these arguments; raises one `ArgumentMismatchError` for all misfits."""
        parameters, problems, taken = list[Parameter](), list[str](), set(arguments)
        for name, value in arguments.items():
            annotation, is_variadic = self.annotations.get(name), name in self.variadic
            try:
                parameters.append(parameter_tree(name, value, annotation, taken, is_variadic))
            except KernelTypeError as error:
                separator = "" if error.message.startswith(("[", "**")) else ": "
                problems.append(f"{name!r}{separator}{error.message}")
        problems += self._misfitting_sizes(parameters, arguments) if not problems else []
        if problems:
            shown = "\n  ".join(problems)
            raise ArgumentMismatchError(f"{self.function.__name__}(): arguments do not fit\n  {shown}", self.span)
        values = list(leaves(tuple(arguments.values())))
        return Specialization(tuple(parameters), semantics or semantics_of(values, self.function))

    def _misfitting_sizes(self, parameters: Sequence[Any], arguments: dict[str, Any]) -> list[str]:
        """Return what is wrong with the sizes that the annotations name, in real arguments."""
        tensors = [parameter for parameter in flat_parameters(parameters) if isinstance(parameter, TensorParameter)]
        if all(parameter.type.is_static for parameter in tensors):
            return []
        names = [parameter.name for parameter in tensors]
        program = signature_program(named_sizes([parameter.type.shape for parameter in tensors], names))
        given = [at(tuple(arguments.values()), path) for path in run_time_paths(parameters)]
        pairs = zip(tensors, given, strict=True)
        shapes = [(0,) if parameter.is_memory else getattr(value, "shape", ()) for parameter, value in pairs]
        # Those of abstract arguments may be `mt.dyn`, with a name or without one.
        if not all(isinstance(size, int) for shape in shapes for size in shape):
            return []
        values = program.run(shapes, lambda argument, indices: None)
        return [program.misfit(condition, values, names) for condition in program.violated(values)]


def key_of(argument: object) -> Any:
    """Return the part of an argument that a compilation depends on; computed at every call, so cheap."""
    if is_torch(argument):
        return argument.shape, argument.dtype
    if is_array(argument):
        return argument.shape, argument.dtype, "number" if isinstance(argument, np.generic) else "numpy"
    kind = type(argument)
    return kind if kind in RUN_TIME else _constant_key(argument)


def stand_in(value: object, semantics: str) -> Any:
    """Return, for an abstract tensor, an array or a torch tensor of its type without memory; other values as they are.

    So is a tensor of which a size is known at run time only. The elements of containers are treated alike.
    """
    if is_container(value):
        return mapped(value, lambda part: stand_in(part, semantics))
    if not isinstance(value, Tensor) or value.type is None or not value.type.is_static:
        return value
    if semantics == "numpy":
        return np.broadcast_to(np.zeros((), value.type.dtype.numpy), value.type.shape)
    import torch  # late: kernels of NumPy arrays need none

    return torch.empty(value.type.shape, dtype=value.type.dtype.torch, device="meta")


def _constant_key(value: Any) -> Any:
    """Return a compile-time value with its type: 1, 1.0 and True are different constants, as are 0.0 and -0.0."""
    kind = type(value)
    if kind is float:
        return float, value.hex()
    if kind is complex:
        return complex, repr(value)
    if is_container(value):
        return container_key(value, key_of)
    if kind is tuple or kind is list:
        return kind, tuple([_constant_key(element) for element in value])
    try:
        hash(value)
    except TypeError:
        return kind, id(value)
    return kind, value


def _key_maker(annotation: Any) -> Callable[[Any], Any]:
    if isinstance(annotation, DType):
        # A run-time scalar, whatever its value.
        return lambda argument: type(argument) if isinstance(argument, NUMBERS) else key_of(argument)
    if annotation is float or annotation is complex:
        make = _key_maker_of_constant(annotation)
        return lambda argument: make(argument.item() if isinstance(argument, np.generic) else argument)
    if annotation in COMPILE_TIME:
        return lambda argument: key_of(argument.item() if isinstance(argument, np.generic) else argument)
    if annotation is ptr:
        return lambda argument: key_of(argument)[1:] if hasattr(argument, "shape") else key_of(argument)
    make = key_of
    if isinstance(annotation, Tensor) and annotation.shape and any(map(is_dynamic, annotation.shape)):
        make = _key_of_sizes(annotation.shape)
    if isinstance(annotation, Tensor) and annotation.strides is not None:
        return _key_of_strides(make, annotation.strides)
    return make


def _key_maker_of_rest(annotation: Any) -> Callable[[Any], Any]:
    """Return the key function of ``*rest`` or ``**rest``, whose annotation is that of each element."""
    make = _key_maker(annotation)
    return lambda argument: container_key(argument, make)


def _key_of_strides(make: Callable[[Any], Any], annotated: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the key function of a tensor whose strides of compile time count."""
    fixed = [axis for axis, stride in enumerate(annotated) if not isinstance(stride, Dyn)]

    def key(argument: Any) -> Any:
        if not hasattr(argument, "shape") or len(argument.shape) != len(annotated):
            return make(argument)
        strides = argument.stride() if is_torch(argument) else argument.strides
        return make(argument), tuple([strides[axis] for axis in fixed])

    return key


def _key_maker_of_constant(kind: type) -> Callable[[Any], Any]:
    return lambda argument: _constant_key(argument) if isinstance(argument, kind) else key_of(argument)


def _key_of_sizes(sizes: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the key function of a tensor whose axes of run-time size are left out."""
    fixed = [axis for axis, size in enumerate(sizes) if not is_dynamic(size)]
    rank = len(sizes)

    def key(argument: Any) -> Any:
        whole = key_of(argument)
        if not isinstance(whole[0], tuple) or len(whole[0]) != rank:
            return whole
        shape, *others = whole
        return (*[shape[axis] for axis in fixed], *others)

    return key


def span_of_annotation(function: Callable[..., object], parameter: str) -> Span | None:
    """Return the position of a parameter's annotation; None where the source cannot be read."""
    try:
        lines, first = inspect.getsourcelines(function)
        text = textwrap.dedent("".join(lines))
        [definition] = ast.parse(text).body
    except (OSError, SyntaxError, ValueError):
        return None
    indent = len(lines[0]) - len(lines[0].lstrip())
    named = (node for node in ast.walk(definition) if isinstance(node, ast.arg) and node.arg == parameter)
    kind = next((node.annotation for node in named), None)
    if kind is None or kind.end_col_offset is None:
        return None
    line = first + kind.lineno - 1
    end = first + (kind.end_lineno or kind.lineno) - 1
    file = function.__code__.co_filename
    return Span(file, line, kind.col_offset + indent + 1, end, kind.end_col_offset + indent + 1)


def _annotation(value: Any, name: str) -> Any:
    if value is Tensor:
        return Tensor()
    if isinstance(value, Tensor):
        return value.named(name)
    if value is ptr or value in COMPILE_TIME:
        return value
    return find_dtype(value)
