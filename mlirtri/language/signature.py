"""From call arguments to a `Specialization`: what is a tensor, a run-time scalar, or a compile-time constant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import ArgumentMismatchError, KernelTypeError, Span, UnsupportedSyntaxError, span_of_definition
from mlirtri.language.names import Tensor
from mlirtri.lowering.core.binding import bound_arguments
from mlirtri.lowering.core.interface import ConstantParameter, Specialization, TensorParameter

NUMBERS = (bool, int, float, complex)
"""Python's."""
_RUN_TIME = {float: "float64", complex: "complex128"}
"""Python numbers that are run-time scalars when their parameter has no annotation."""
_COMPILE_TIME = (int, float, complex, bool, str)


class Signature:
    """The parameters of a kernel, with what their annotations ask for."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.parameters = dict(inspect.signature(function).parameters)
        self.annotations = self._annotations()
        for name, parameter in self.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise UnsupportedSyntaxError(
                    f"{function.__name__} takes *{name}, which a kernel cannot", self.span, help="name every parameter"
                )
        self.signature = inspect.Signature(
            [p.replace(annotation=inspect.Parameter.empty) for p in self.parameters.values()]
        )

    @cached_property
    def positional(self) -> int:
        named = any(parameter.kind is parameter.KEYWORD_ONLY for parameter in self.parameters.values())
        return -1 if named else len(self.parameters)

    def _annotations(self) -> dict[str, Any]:
        closure = inspect.getclosurevars(self.function).nonlocals if self.function.__closure__ else {}
        try:
            annotations = inspect.get_annotations(self.function, eval_str=True, locals=closure or None)
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            raise KernelTypeError(
                f"an annotation of {self.function.__name__} does not evaluate: {error}", self.span
            ) from None
        return {name: _annotation(value) for name, value in annotations.items() if name in self.parameters}

    @property
    def span(self) -> Span:
        return span_of_definition(self.function)

    @cached_property
    def key_makers(self) -> list[Callable[[Any], Any]] | None:
        """Return the key function of each parameter; None if all are `key_of`."""
        makers = [_key_maker(self.annotations.get(name)) for name in self.parameters]
        return makers if any(make is not key_of for make in makers) else None

    def bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any], abstract: bool = False) -> dict[str, Any]:
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
        parameters, problems = [], []
        for name, value in arguments.items():
            try:
                parameters.append(parameter_of(name, value, self.annotations.get(name)))
            except KernelTypeError as error:
                problems.append(f"{name!r}: {error.message}")
        if problems:
            shown = "\n  ".join(problems)
            raise ArgumentMismatchError(f"{self.function.__name__}(): arguments do not fit\n  {shown}", self.span)
        return Specialization(tuple(parameters), semantics or semantics_of(arguments.values(), self.function))


def key_of(argument: Any) -> Any:
    """Return the part of an argument that a compilation depends on; computed at every call, so cheap."""
    if is_torch(argument):
        return argument.shape, argument.dtype
    if is_array(argument):
        return argument.shape, argument.dtype, "number" if isinstance(argument, np.generic) else "numpy"
    kind = type(argument)
    return kind if kind in _RUN_TIME else _constant_key(argument)


def _constant_key(value: Any) -> Any:
    """Return a compile-time value with its type: 1, 1.0 and True are different constants, as are 0.0 and -0.0."""
    kind = type(value)
    if kind is float:
        return float, value.hex()
    if kind is complex:
        return complex, repr(value)
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
        return lambda argument: _constant_key(argument) if isinstance(argument, annotation) else key_of(argument)
    return key_of


def _annotation(value: Any) -> Any:
    if value is Tensor:
        return Tensor()
    if isinstance(value, Tensor) or value in _COMPILE_TIME:
        return value
    return find_dtype(value)


def semantics_of(values: Any, function: Callable[..., Any]) -> str:
    """Return ``numpy`` if all tensors are NumPy arrays, else ``torch``; without tensors, by the code's modules."""
    tensors = [value for value in values if is_array(value) or is_torch(value) or isinstance(value, Tensor)]
    if tensors:
        return "numpy" if all(is_array(value) for value in tensors) else "torch"
    named = {getattr(function.__globals__.get(name), "__name__", "") for name in function.__code__.co_names}
    return "numpy" if "numpy" in named and "torch" not in named else "torch"


def is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def is_other_array(value: Any) -> bool:
    """Return whether an array means something else: its own rules for elements that are hidden, or for `*`."""
    # numpy.ma loads when it is first asked for, which takes longer than the rest of this package.
    is_plain = type(value) is np.ndarray or not isinstance(value, np.ndarray)
    return not is_plain and isinstance(value, (np.ma.MaskedArray, np.matrix))


def is_torch(value: Any) -> bool:
    return hasattr(value, "data_ptr") and hasattr(value, "requires_grad")


def parameter_of(name: str, value: Any, annotation: Any) -> TensorParameter | ConstantParameter:
    """Return the parameter for this argument; raises `KernelTypeError` if it cannot be one."""
    if isinstance(value, np.generic) and annotation in _COMPILE_TIME:
        value = value.item()
    if is_other_array(value):
        raise KernelTypeError(
            f"a {type(value).__name__} has rules of its own, which kernels do not follow: pass np.asarray(…)"
        )
    if is_array(value) or is_torch(value) or isinstance(value, Tensor):
        return TensorParameter(name, _fitting(tensor_type(value), annotation), number=isinstance(value, np.generic))
    if isinstance(annotation, Tensor):
        raise KernelTypeError(f"expected a tensor {annotation}, got {_shown(value)}")
    if isinstance(annotation, DType):
        return TensorParameter(name, _scalar(value, annotation), number=True)
    if isinstance(annotation, type) and not isinstance(value, _accepted(annotation)):
        raise KernelTypeError(f"expected {annotation.__name__}, got {_shown(value)}")
    if isinstance(value, (float, complex)) and annotation is not float and annotation is not complex:
        kind = float if isinstance(value, float) else complex
        return TensorParameter(name, TensorType((), DTYPES[_RUN_TIME[kind]]), weak=True, number=True)
    return ConstantParameter(name, constant_of(value))


def _accepted(annotation: type) -> tuple[type, ...]:
    return {float: (int, float), complex: NUMBERS}.get(annotation, (annotation,))


def _scalar(value: Any, dtype: DType) -> TensorType:
    if not isinstance(value, (bool, int, *_inexact_types(dtype))):
        raise KernelTypeError(f"expected a {dtype} scalar, got {_shown(value)}")
    if dtype.is_integer and not dtype.holds(int(value)):
        raise KernelTypeError(f"{value} does not fit {dtype}")
    return TensorType((), dtype)


def _inexact_types(dtype: DType) -> tuple[type, ...]:
    return (float, complex) if dtype.is_complex else (float,) if dtype.is_float else ()


def constant_of(value: Any) -> Any:
    """Return a hashable compile-time value: lists become tuples, dtypes of any library `DType`s."""
    if isinstance(value, (*NUMBERS, str, type(None))):
        return value
    if (dtype := find_dtype(value)) is not None:
        return dtype
    if isinstance(value, (tuple, list)):
        if any(is_array(element) or is_torch(element) for element in value):
            raise KernelTypeError("a tuple of tensors is not an argument kernels take: pass each by itself")
        return tuple(constant_of(element) for element in value)
    if callable(value):
        return value
    raise KernelTypeError(
        f"a {type(value).__name__} is not an argument kernels take: pass tensors, arrays, numbers, strings or tuples"
    )


def tensor_type(value: Any) -> TensorType:
    """Return the type of a torch tensor, an array or an abstract tensor; raises `KernelTypeError` for other dtypes."""
    if isinstance(value, Tensor):
        if value.type is None:
            raise KernelTypeError(f"the abstract argument {value} has to say its whole shape and dtype")
        return value.type
    if (dtype := find_dtype(value.dtype)) is None:
        raise KernelTypeError(f"dtype {value.dtype} is not supported; the dtypes are {', '.join(DTYPES)}")
    return TensorType(tuple(value.shape), dtype)


def shown_type(value: Any) -> str:
    """Return dtype and shape of a tensor or array as text, supported or not: ``float32[2, 3]``."""
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"


def _fitting(type_: TensorType, annotation: Any) -> TensorType:
    if annotation is None:
        return type_
    if isinstance(annotation, DType):
        annotation = Tensor((), annotation)
    if not isinstance(annotation, Tensor):
        raise KernelTypeError(f"expected {annotation.__name__}, got a tensor {type_}")
    if annotation.dtype not in (None, type_.dtype) or not _shape_fits(type_.shape, annotation.shape):
        raise KernelTypeError(f"expected {annotation}, got {type_}")
    return type_


def _shape_fits(shape: tuple[int, ...], sizes: tuple[int | None, ...] | None) -> bool:
    if sizes is None:
        return True
    return len(shape) == len(sizes) and all(size in (None, n) for n, size in zip(shape, sizes, strict=True))


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r}" if isinstance(value, (*NUMBERS, str)) else type(value).__name__
