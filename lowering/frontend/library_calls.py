"""Calls of library functions, and methods and attributes of tensors, by their spellings; the functions of mlirtri.

The result is a view of the first argument, a new array, or an array of the caller's that was written.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, DType, is_same_kind
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.dialect.spellings.registry import Spelling
from mlirtri.errors import KernelTypeError, KernelValueError, StaticAssertionError, UnknownNameError, nearest, offer
from mlirtri.lowering.core.interface import bound_arguments
from mlirtri.lowering.external.objects import device
from mlirtri.lowering.frontend.indexing.writes import write
from mlirtri.lowering.frontend.library_functions import inlined
from mlirtri.lowering.frontend.operators import array_of_list, binary
from mlirtri.lowering.frontend.semantics import storage
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.merging import flat
from mlirtri.lowering.frontend.semantics.pointers import match_buffer
from mlirtri.lowering.frontend.semantics.strides import steps_along_last_axis


@dataclass(frozen=True)
class Method:
    """A method of an array, before it is called: the array, and the function that the method's name stands for."""

    tensor: TriValue
    spelling: Spelling

    @property
    def __name__(self) -> str:
        return self.spelling.name


def spelled(
    b: Language, spelling: Spelling, arguments: list[KernelValue], keywords: dict[str, KernelValue]
) -> KernelValue:
    """Return a library function's result: a view of its argument, a new array, or what was written into `out`."""
    arguments, keywords = _arrays_of_lists(b, spelling, arguments, keywords)
    bound = spelling.arguments(arguments, keywords)
    if (out := bound.get("out")) is not None:
        return _write_out(b, out, spelling, arguments, {**keywords, "out": None})
    if spelling.writes:
        return _in_place(b, spelling, arguments, keywords)
    result = spelling.call(b, *arguments, **keywords)
    tensors = [value for value in flat([*arguments, *keywords.values()]) if isinstance(value, TriValue)]
    source = tensors[0] if tensors else None
    if (
        isinstance(result, TriValue)
        and source is not None
        and storage.returns_itself(spelling.name, source, result, bound)
    ):
        return source
    if storage.has_memory(source) and storage.is_read_only_view(spelling.name, arguments, source, result):
        if spelling.name.endswith(".view") and result.type.dtype.bytes != source.type.dtype.bytes:
            _require_last_axis(source)
        shared = storage.with_memory(storage.as_new_array(result))
        if storage.has_memory(shared):
            name = spelling.name.rpartition(".")[2]
            shared.origin.storage.share(name, [source.origin.storage])
            shared.origin.storage.frozen = (
                f"the result of {name} is a copy in kernels, and a view of the array in NumPy"
            )
        return shared
    result = storage.as_new_array(result)
    if storage.is_view_function(spelling.name, bound):
        for tensor in tensors:
            result = storage.viewed(spelling.name, tensor, result)
    return storage.with_rank_0_memory(b.semantics, spelling.name, [*arguments, *keywords.values()], result)


def _require_last_axis(source: TriValue) -> None:
    """Refuse a view as a dtype of another width of an array whose elements lie apart along the last axis."""
    memory, steps = source.origin.storage, source.origin.steps
    chain = [(step.op, step.attributes, step.moves_axes) for step in steps]
    if steps_along_last_axis(memory.value.type.shape, memory.order.axes, chain):
        raise KernelValueError(
            "a view as a dtype of another width needs elements that follow each other along the last axis",
            help="copy the array before: x.copy()",
        )


_ARRAY_LIKE = frozenset(
    "a b x x1 x2 y v A B m ar arr ary xp fp p array bins condition weights element test_elements values".split()
)
"""Parameters of NumPy's functions that take lists for arrays; others take lists as they are, or read them as arrays."""
_ARRAYS = frozenset("arrays tup operands".split())
"""Parameters that take several arrays, any of which may be a list."""


def _arrays_of_lists(
    b: Language, spelling: Spelling, arguments: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call of NumPy with arrays in place of lists, where its parameters are arrays."""
    if not spelling.name.startswith("numpy.") or b.semantics != "numpy":
        return arguments, keywords

    def converted(name: str, value: Any) -> Any:
        if name in _ARRAYS and isinstance(value, (tuple, list)):
            return type(value)([array_of_list(b, part) for part in value])
        return array_of_list(b, value) if name in _ARRAY_LIKE else value

    names = list(spelling.signature.parameters)
    if len(names) < len(arguments):
        return arguments, keywords
    positional = [converted(name, value) for name, value in zip(names, arguments, strict=False)]
    return positional, {name: converted(name, value) for name, value in keywords.items()}


def _in_place(b: Language, spelling: Spelling, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Write the result into the first argument: ``x.sort()``, ``numpy.fill_diagonal(x, 1)``."""
    target = next(iter([*arguments, *spelling.arguments(arguments, keywords).values()]), None)
    if not storage.has_memory(target):
        raise KernelTypeError(f"{spelling.name} writes into an array, got {describe(target)}")
    write_result(b, spelling.name, target, spelling.call(b, *arguments, **keywords))
    return None if spelling.name.startswith(("ndarray.", "numpy.")) else storage.current(b.tri, target)


def write_result(b: Language, name: str, target: TriValue, result: KernelValue) -> None:
    """Write what a function gives into an array; raises `KernelTypeError` for kinds of numbers that do not fit.

    torch casts to kinds that hold the numbers, as NumPy's ufuncs do; NumPy's other functions cast to any.
    """
    new = b.tensor(storage.as_new_array(result))
    is_numpys = name.startswith(("numpy.", "ndarray."))
    if (not is_numpys or name in _SAME_KIND) and not is_same_kind(b.semantics, new.type.dtype, target.type.dtype):
        raise KernelTypeError(
            f"{name} gives {new.type}, which does not fit into {target.type}",
            help="write y[...] = …, which casts, or give it an array of the result's dtype",
        )
    write(b, target, (...,), new)


_SAME_KIND = {"numpy.clip", *(f"numpy.{name}" for name in dir(np) if isinstance(getattr(np, name), np.ufunc))}
"""NumPy's functions that do not cast what they write to a lower kind."""


def _write_out(b: Language, out: Any, spelling: Spelling, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Cast the result to z's dtype and write it there: ``np.add(x, y, out=z)``."""
    if isinstance(out, tuple) and len(out) == 1:
        [out] = out
    if not storage.has_memory(out):
        raise KernelTypeError(f"out has to be an array, got {describe(out)}")
    names = list(spelling.signature.parameters)
    positional = arguments[1:] if spelling.is_method else arguments
    if "out" in names and len(positional) > names.index("out"):
        position = names.index("out") + (len(arguments) - len(positional))
        arguments = [*arguments[:position], *arguments[position + 1 :]]
    keywords = {name: value for name, value in keywords.items() if name != "out"}
    chosen = keywords.pop("where", True) if spelling.name in _SAME_KIND else True
    result = spelling.call(b, *arguments, **keywords)
    if chosen is not True:
        # Elements of `out` where the ufunc is not computed stay as they are.
        result = b.where(array_of_list(b, chosen), result, b.cast(storage.current(b.tri, out), b.type_of(result).dtype))
    write_result(b, spelling.name, out, result)
    return storage.current(b.tri, out)


def tensor_attribute(b: Language, tensor: TriValue, name: str) -> KernelValue:
    """Return ``tensor.name``: a property of its type, an attribute or a `Method`; raises `UnknownNameError`."""
    facts = {"shape": tuple(map(b.number_of, tensor.type.shape)), "dtype": tensor.type.dtype, "ndim": tensor.type.rank}
    if b.semantics == "numpy":
        # torch's x.size is a method, and its x.device no text.
        facts |= {"size": _element_count(b, tensor), "itemsize": tensor.type.dtype.bytes, "device": "cpu"}
    else:
        device = b.tri.placement.device_of(tensor)
        facts |= {"device": device, "is_cuda": device.kind == "cuda", "is_cpu": device.kind == "cpu", "data": tensor}
        facts |= {"requires_grad": False}
    if name in facts:
        return facts[name]
    if name == "flat" and b.semantics == "numpy":
        return _elements_in_order(b, tensor)
    owners = ("ndarray", "Tensor") if b.semantics == "numpy" else ("Tensor", "ndarray")
    for owner in owners:
        if (spelling := spellings.lookup(f"{owner}.{name}")) is not None:
            return spelled(b, spelling, [tensor], {}) if spelling.is_attribute else Method(tensor, spelling)
    near = [other.removeprefix(f"{owners[0]}.") for other in spellings.near(f"{owners[0]}.{name}")]
    near += nearest(name, facts)
    raise UnknownNameError(
        f"a tensor has no attribute {name!r} in a kernel",
        help=offer(near).rstrip() or "the operation reference lists every method",
    )


def _elements_in_order(b: Language, array: TriValue) -> TriValue:
    """Return the elements of an array in order, as a view of its memory; raises where the memory has another order."""
    flat = storage.viewed("reshape", array, b.reshape(array, (-1,)))
    if storage.has_memory(array) and not storage.has_memory(flat):
        raise KernelTypeError(
            f"the elements of {describe(array)} do not lie in order in memory, so writes through .flat are lost",
            help="write x.ravel() to read them, or index x itself",
        )
    return flat


def _element_count(b: Language, tensor: TriValue) -> Any:
    if tensor.type.size is not None:
        return tensor.type.size
    return reduce(lambda x, y: binary(b, ast.Mult(), x, y), map(b.number_of, tensor.type.shape))


# --- functions of mlirtri --------------------------------------------------------------------------------------------


def _static_print(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    if keywords:
        raise KernelTypeError("static_print takes no keyword arguments")
    print(*(str(value.type) if isinstance(value, TriValue) else value for value in arguments), file=sys.stderr)


def _static(_: Language, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if keywords or len(arguments) != 1:
        raise KernelTypeError("static takes one value")
    if isinstance(arguments[0], TriValue):
        raise KernelTypeError(
            f"static needs a value known at compile time, got {describe(arguments[0])}",
            help="annotate the parameter with int or bool, or leave out mt.static",
        )
    return arguments[0]


def _static_assert(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    if keywords or len(arguments) not in (1, 2):
        raise KernelTypeError("static_assert takes a condition and, if you like, a message")
    condition, *message = arguments
    if isinstance(condition, TriValue):
        raise KernelTypeError(f"static_assert needs a condition known at compile time, got {describe(condition)}")
    if not condition:
        raise StaticAssertionError(f"static assertion failed{f': {message[0]}' if message else ''}")


def _device_print(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    if keywords:
        raise KernelTypeError("device_print takes no keyword arguments")
    if b.debug:
        b.prints.add(b, arguments)


def _match_buffer(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> TriValue:
    signature = inspect.signature(partial(match_buffer, b))
    bound = bound_arguments("match_buffer", signature, arguments, keywords)
    return match_buffer(b, *bound.args, **bound.kwargs)


KERNEL_FUNCTIONS: dict[str | None, Callable[[Language, list[Any], dict[str, Any]], Any]] = {
    **inlined.CHECKS, "torch.device": lambda b, arguments, keywords: device(*arguments, **keywords),
    "mlirtri.static": _static, "mlirtri.device_print": _device_print, "mlirtri.static_print": _static_print,
    "mlirtri.static_assert": _static_assert, "mlirtri.match_buffer": _match_buffer,
}  # fmt: skip
"""Implementations by qualified name."""


def has_attribute(b: Language, value: KernelValue, name: KernelValue) -> bool:
    """Return what ``hasattr(value, name)`` says of a tensor or a number; raises `KernelTypeError` for other values."""
    if not isinstance(name, str):
        raise KernelTypeError(f"the name of an attribute is a text, got {describe(name)}")
    if isinstance(value, TriValue):
        is_torch = b.semantics == "torch" and "torch" in sys.modules
        return hasattr(sys.modules["torch"].Tensor if is_torch else np.ndarray, name)
    if not isinstance(value, (bool, int, float, complex, str)):
        raise KernelTypeError(
            f"hasattr() of {describe(value)} is not known", help="write the attribute itself, such as x.shape"
        )
    return hasattr(value, name)


def widened(
    b: Language, algorithm: Callable[..., object], arguments: list[KernelValue], keywords: dict[str, KernelValue]
) -> tuple[list[KernelValue], dict[str, KernelValue], DType | None]:
    """Return the operands of a function of torch that computes halves in float32, and the dtype of its result.

    None for other functions and operands, which stay as they are.
    """
    tensors = [value for value in flat([*arguments, *keywords.values()]) if isinstance(value, TriValue)]
    dtypes = {value.type.dtype for value in tensors if not value.weak and value.type.dtype.is_inexact}
    half = next(iter(dtypes)) if len(dtypes) == 1 else None
    if b.semantics != "torch" or algorithm.__name__ not in inlined.ROUNDED_ONCE or half is None or not half.is_half:
        return arguments, keywords, None

    def wide(value: Any) -> Any:
        is_half = isinstance(value, TriValue) and value.type.dtype == half
        return b.tri.cast(storage.current(b.tri, value), DTYPES["float32"]) if is_half else value

    return [wide(value) for value in arguments], {name: wide(value) for name, value in keywords.items()}, half
