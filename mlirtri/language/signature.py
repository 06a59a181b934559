"""From call arguments to a `Specialization`: what is a tensor, a run-time scalar, or a compile-time constant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import ArgumentMismatchError, KernelTypeError, Span, UnsupportedSyntaxError, span_of_definition
from mlirtri.language.dimensions import Dyn, named, substituted, unified
from mlirtri.language.names import Tensor, ptr
from mlirtri.lowering.core.binding import bound_arguments
from mlirtri.lowering.core.interface import ConstantParameter, ListConstant, Specialization, TensorParameter
from mlirtri.lowering.core.named_sizes import named_sizes, signature_program

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
        named = {name: _annotation(value, name) for name, value in annotations.items() if name in self.parameters}
        return self._with_one_size_per_name(named)

    def _with_one_size_per_name(self, annotations: dict[str, Any]) -> dict[str, Any]:
        """Return the annotations with every size in the same symbols; raises `KernelTypeError`."""
        tensors = {name: kind for name, kind in annotations.items() if isinstance(kind, Tensor) and kind.shape}
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
        return f"{name}: {shown}" + ("" if default is inspect.Parameter.empty else f" = {default!r}")

    @cached_property
    def has_strides(self) -> bool:
        """Return whether strides of an argument are part of the key of a call."""
        return any(isinstance(kind, Tensor) and kind.strides is not None for kind in self.annotations.values())

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
        problems += self._misfitting_sizes(parameters, arguments) if not problems else []
        if problems:
            shown = "\n  ".join(problems)
            raise ArgumentMismatchError(f"{self.function.__name__}(): arguments do not fit\n  {shown}", self.span)
        return Specialization(tuple(parameters), semantics or semantics_of(arguments.values(), self.function))

    def _misfitting_sizes(self, parameters: Sequence[Any], arguments: dict[str, Any]) -> list[str]:
        """Return what is wrong with the sizes that the annotations name, in real arguments."""
        tensors = [parameter for parameter in parameters if isinstance(parameter, TensorParameter)]
        if all(parameter.type.is_static for parameter in tensors):
            return []
        names = [parameter.name for parameter in tensors]
        program = signature_program(named_sizes([parameter.type.shape for parameter in tensors], names))
        shapes = [(0,) if p.is_memory else getattr(arguments[p.name], "shape", ()) for p in tensors]
        # Those of abstract arguments may be `mt.dyn`, with a name or without one.
        if not all(isinstance(size, int) for shape in shapes for size in shape):
            return []
        values = program.run(shapes, lambda argument, indices: None)
        return [program.misfit(condition, values, names) for condition in program.violated(values)]


def key_of(argument: Any) -> Any:
    """Return the part of an argument that a compilation depends on; computed at every call, so cheap."""
    if is_torch(argument):
        return argument.shape, argument.dtype
    if is_array(argument):
        return argument.shape, argument.dtype, "number" if isinstance(argument, np.generic) else "numpy"
    kind = type(argument)
    return kind if kind in _RUN_TIME else _constant_key(argument)


def stand_in(value: Any, semantics: str) -> Any:
    """Return, for an abstract tensor, an array or a torch tensor of its type without memory; other values as they are.

    So is a tensor of which a size is known at run time only.
    """
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
    if annotation in _COMPILE_TIME:
        return lambda argument: key_of(argument.item() if isinstance(argument, np.generic) else argument)
    if annotation is ptr:
        return lambda argument: key_of(argument)[1:] if hasattr(argument, "shape") else key_of(argument)
    make = key_of
    if isinstance(annotation, Tensor) and annotation.shape and any(map(is_dynamic, annotation.shape)):
        make = _key_of_sizes(annotation.shape)
    if isinstance(annotation, Tensor) and annotation.strides is not None:
        return _key_of_strides(make, annotation.strides)
    return make


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


def _annotation(value: Any, name: str) -> Any:
    if value is Tensor:
        return Tensor()
    if isinstance(value, Tensor):
        return value.named(name)
    if value is ptr or value in _COMPILE_TIME:
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


def is_dlpack(value: Any) -> bool:
    """Return whether a value is a tensor of another library, such as JAX's or CuPy's, that DLPack can hand over."""
    return hasattr(type(value), "__dlpack__") and not is_torch(value) and not is_array(value)


def parameter_of(name: str, value: Any, annotation: Any) -> TensorParameter | ConstantParameter:
    """Return the parameter for this argument; raises `KernelTypeError` if it cannot be one."""
    if isinstance(value, np.generic) and annotation in _COMPILE_TIME:
        value = value.item()
    if is_other_array(value):
        raise KernelTypeError(
            f"a {type(value).__name__} has rules of its own, which kernels do not follow: pass np.asarray(…)"
        )
    if annotation is ptr:
        return _pointer(name, value)
    if is_array(value) or is_torch(value) or isinstance(value, Tensor):
        if isinstance(value, Tensor):
            value = value.named(name)
        strides = strides_of(value, annotation.strides if isinstance(annotation, Tensor) else None)
        return TensorParameter(
            name, _fitting(tensor_type(value), annotation), strides=strides, number=isinstance(value, np.generic)
        )
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


def _pointer(name: str, value: Any) -> TensorParameter:
    if not (is_array(value) or is_torch(value) or isinstance(value, Tensor)):
        raise KernelTypeError(f"expected an array or a tensor for a pointer, got {_shown(value)}")
    size = Size.of(replace(named(f"{name}.size"), key=("dyn", name, "size")))
    dtype = value.dtype if isinstance(value, Tensor) else tensor_type(value).dtype
    if dtype is None:
        raise KernelTypeError("an abstract argument for a pointer has to say its dtype")
    return TensorParameter(name, TensorType((size,), dtype), is_memory=True)


def strides_of(value: Any, annotated: tuple[Any, ...] | None) -> tuple[int | None, ...] | None:
    """Return the strides of an argument, None for those of run time; raises `KernelTypeError` for one that is not so.

    None for an argument that is annotated to be row-major.
    """
    if annotated is None and isinstance(value, Tensor):
        annotated = value.strides
    if annotated is None:
        return None
    if isinstance(value, Tensor):
        actual = value.strides or row_major(value.shape)
    else:
        actual = in_elements(value)
    strides = []
    for axis, (stride, wanted) in enumerate(zip(actual, annotated, strict=False)):
        is_free = getattr(value, "shape", ())[axis] == 1
        if isinstance(wanted, int) and stride != wanted and not is_free:
            raise KernelTypeError(
                f"axis {axis} has the stride {stride}, and its annotation says {wanted}: "
                "write int for strides of compile time, or dyn for those of run time"
            )
        strides.append(None if isinstance(wanted, Dyn) or isinstance(stride, Dyn) else wanted or stride)
    return tuple(strides)


def row_major(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Return the strides of an abstract tensor, in elements; raises `KernelTypeError` for sizes of run time."""
    if any(not isinstance(size, int) for size in shape[1:]):
        raise KernelTypeError(
            "the abstract argument has to say its strides: mt.StridedTensor[[M, K], [mt.dyn, 1], dtype]"
        )
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def in_elements(value: Any) -> tuple[int, ...]:
    """Return the strides of an array or tensor in elements; raises `KernelTypeError` for those between elements."""
    if is_torch(value):
        return tuple(value.stride())
    width = value.dtype.itemsize
    if any(stride % width for stride in value.strides):
        raise KernelTypeError("its strides are no multiples of its elements: pass a copy")
    return tuple(stride // width for stride in value.strides)


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
    """Return a hashable compile-time value: lists become `ListConstant`s, dtypes of any library `DType`s."""
    if isinstance(value, (*NUMBERS, str, type(None))):
        return value
    if (dtype := find_dtype(value)) is not None:
        return dtype
    if isinstance(value, (tuple, list)):
        if any(is_array(element) or is_torch(element) for element in value):
            kind = type(value).__name__
            raise KernelTypeError(f"a {kind} of tensors is not an argument kernels take: pass each by itself")
        elements = tuple(constant_of(element) for element in value)
        return ListConstant(elements) if isinstance(value, list) else elements
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
    if annotation.shape is None:
        return type_
    return type_.with_shape(
        size if is_dynamic(size) else actual for size, actual in zip(annotation.shape, type_.shape, strict=True)
    )


def _shape_fits(shape: tuple[int, ...], sizes: tuple[int | None, ...] | None) -> bool:
    if sizes is None:
        return True
    return len(shape) == len(sizes) and all(
        size is None or is_dynamic(size) or size == n for n, size in zip(shape, sizes, strict=True)
    )


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r}" if isinstance(value, (*NUMBERS, str)) else type(value).__name__
