"""One argument of a call: whether it is a tensor, a run-time scalar or a compile-time constant, and its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype, instead_of, is_torch_device
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelTypeError
from mlirtri.language.dimensions import Dyn, named, written
from mlirtri.language.names import Tensor, ptr
from mlirtri.lowering.core.interface import ConstantParameter, ListConstant, SliceConstant, TensorParameter

NUMBERS = (bool, int, float, complex)
"""Python's."""
RUN_TIME = {float: "float64", complex: "complex128"}
"""Python numbers that are run-time scalars when their parameter has no annotation."""
COMPILE_TIME = (int, float, complex, bool, str)


def semantics_of(values: Any, function: Callable[..., Any]) -> str:
    """Return ``numpy`` if all tensors are NumPy arrays, else ``torch``; without tensors, by the modules that are named.

    Those that the code names come first, then those of its file; NumPy where neither is.
    """
    tensors = [value for value in values if is_array(value) or is_torch(value) or isinstance(value, Tensor)]
    if tensors:
        return "numpy" if all(is_array(value) for value in tensors) else "torch"
    return library_of(function) or library_of(function, function.__globals__) or "numpy"


def library_of(function: Callable[..., Any], names: Iterable[str] | None = None) -> str | None:
    """Return the library that the code names, or that names of its file are: torch before NumPy; None for neither."""
    names = function.__code__.co_names if names is None else names
    modules = {getattr(function.__globals__.get(name), "__name__", "").partition(".")[0] for name in names}
    return next((library for library in ("torch", "numpy") if library in modules), None)


def is_array(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def is_other_array(value: object) -> bool:
    """Return whether an array means something else: its own rules for elements that are hidden, or for `*`."""
    # numpy.ma loads when it is first asked for, which takes longer than the rest of this package.
    is_plain = type(value) is np.ndarray or not isinstance(value, np.ndarray)
    return not is_plain and isinstance(value, (np.ma.MaskedArray, np.matrix))


def is_torch(value: object) -> bool:
    return hasattr(value, "data_ptr") and hasattr(value, "requires_grad")


def is_dlpack(value: object) -> bool:
    """Return whether a value is a tensor of another library, such as JAX's or CuPy's, that DLPack can hand over."""
    return hasattr(type(value), "__dlpack__") and not is_torch(value) and not is_array(value)


def parameter_of(name: str, value: object, annotation: object) -> TensorParameter | ConstantParameter:
    """Return the parameter for this argument; raises `KernelTypeError` if it cannot be one.

    A number of NumPy's with another dtype than its annotation is taken as Python's number of that value.
    """
    value = _as_annotated(value, annotation)
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
        raise KernelTypeError(f"expected {annotation.__name__}{_expected_of(value, annotation)}, got {_shown(value)}")
    if isinstance(value, (float, complex)) and annotation is not float and annotation is not complex:
        kind = float if isinstance(value, float) else complex
        return TensorParameter(name, TensorType((), DTYPES[RUN_TIME[kind]]), weak=True, number=True)
    return ConstantParameter(name, constant_of(value))


def _expected_of(value: Any, annotation: type) -> str:
    """Return what to write where a run-time number was asked for but the parameter is a compile-time one."""
    if not isinstance(value, DType) or annotation not in COMPILE_TIME:
        return ""
    return f", whose value is compiled in (pass the value, or annotate the parameter mt.{value})"


def _as_annotated(value: Any, annotation: Any) -> Any:
    """Return Python's number for one of NumPy's that is no run-time number of the annotated dtype."""
    if not isinstance(value, np.generic):
        return value
    is_other_dtype = isinstance(annotation, DType) and find_dtype(value.dtype) != annotation
    return value.item() if is_other_dtype or annotation in COMPILE_TIME else value


def _pointer(name: str, value: Any) -> TensorParameter:
    if not (is_array(value) or is_torch(value) or isinstance(value, Tensor)):
        raise KernelTypeError(f"expected an array or a tensor for a pointer, got {_shown(value)}")
    size = Size.of(replace(named(f"{name}.size"), key=("dyn", name, "size")))
    dtype = value.dtype if isinstance(value, Tensor) else tensor_type(value).dtype
    if dtype is None:
        raise KernelTypeError("an abstract argument for a pointer has to say its dtype")
    return TensorParameter(name, TensorType((size,), dtype), is_memory=True)


def strides_of(value: object, annotated: tuple[Any, ...] | None) -> tuple[int | None, ...] | None:
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


def in_elements(value: object) -> tuple[int, ...]:
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
        hint = f": mt.Tensor((), mt.{dtype}) stands for a scalar of run time" if find_dtype(value) is not None else ""
        raise KernelTypeError(f"expected a scalar of {dtype}, got {_shown(value)}{hint}")
    if dtype.is_integer and not dtype.holds(int(value)):
        raise KernelTypeError(f"{value} does not fit {dtype}")
    return TensorType((), dtype)


def _inexact_types(dtype: DType) -> tuple[type, ...]:
    return (float, complex) if dtype.is_complex else (float,) if dtype.is_float else ()


def constant_of(value: object) -> Any:
    """Return a hashable compile-time value: lists become `ListConstant`s, dtypes of any library `DType`s."""
    if isinstance(value, (*NUMBERS, str, type(None))):
        return value
    if (dtype := find_dtype(value)) is not None:
        return dtype
    if isinstance(value, (tuple, list)):
        elements = tuple(constant_of(element) for element in value)
        return ListConstant(elements) if isinstance(value, list) else elements
    if callable(value) or is_torch_device(value):
        return value
    if isinstance(value, slice):
        return SliceConstant((constant_of(value.start), constant_of(value.stop), constant_of(value.step)))
    if isinstance(value, Iterator):
        raise KernelTypeError(f"a {type(value).__name__} is not an argument kernels take: pass list(…) of it")
    if type(value).__module__.startswith("numpy.random"):
        raise KernelTypeError(
            "a random generator is not an argument kernels take: pass a seed, and make it in the kernel",
            help="rng = numpy.random.default_rng(seed)",
        )
    raise KernelTypeError(
        f"a {type(value).__name__} is not an argument kernels take: pass tensors, arrays, numbers, strings, or tuples, "
        "lists and dicts of these"
    )


def tensor_type(value: object) -> TensorType:
    """Return the type of a torch tensor, an array or an abstract tensor; raises `KernelTypeError` for other dtypes."""
    if isinstance(value, Tensor):
        if value.type is None:
            raise KernelTypeError(f"the abstract argument {value} has to say its whole shape and dtype")
        return value.type
    if (dtype := find_dtype(value.dtype)) is None:
        what = f"dtype {value.dtype} is not supported"
        if "float8" in str(value.dtype):
            raise KernelTypeError(f"{what}: {instead_of(value.dtype)}")
        raise KernelTypeError(f"{what}; the dtypes are {', '.join(DTYPES)}")
    return TensorType(tuple(value.shape), dtype)


def shown_type(value: object) -> str:
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
    if isinstance(value, DType):
        return f"the dtype {value}"
    return f"{type(value).__name__} {value!r}" if isinstance(value, (*NUMBERS, str)) else type(value).__name__


def annotated(parameter: TensorParameter, names: Mapping[int, str], *, strided: bool = False) -> str:
    """Return the advice to annotate a tensor so that these axes have named sizes known at run time only.

    `strided` is for strides known at run time only.
    """
    shape, strides = parameter.type.shape, parameter.strides
    sizes = [f'mt.dyn["{names[axis]}"]' if axis in names else written(size) for axis, size in enumerate(shape)]
    if strided:
        strides = (None,) * len(shape)
    kind = "Tensor" if strides is None else "StridedTensor"
    shown = [f"[{', '.join(sizes)}]"]
    if strides is not None:
        shown.append(f"[{', '.join('mt.dyn' if stride is None else 'int' for stride in strides)}]")
    return f"annotate {parameter.name}: mt.{kind}[{', '.join([*shown, f'mt.{parameter.type.dtype.name}'])}]"
