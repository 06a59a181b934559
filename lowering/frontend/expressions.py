"""Expressions of a kernel: constants, names, tuples, strings, attributes, subscripts.

The value of an expression is a `TriValue` (an SSA value) or a compile-time Python object.
"""

from __future__ import annotations

import ast
import numbers
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType, as_dtype, is_torch_device
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import KernelTypeError, UnknownNameError, UnsupportedSyntaxError, did_you_mean
from mlirtri.lowering.core.interface import Origin
from mlirtri.lowering.external.objects import External
from mlirtri.lowering.frontend.argument_sizes import named_size
from mlirtri.lowering.frontend.containers import container_method, item, latest
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit
from mlirtri.lowering.frontend.indexing.reads import element, rows
from mlirtri.lowering.frontend.indexing.sequences import chosen
from mlirtri.lowering.frontend.library_calls import spelled, tensor_attribute
from mlirtri.lowering.frontend.library_functions import inlined
from mlirtri.lowering.frontend.operators import fold
from mlirtri.lowering.frontend.semantics.axes import is_run_time_integer
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.container_values import from_outside
from mlirtri.lowering.frontend.semantics.storage import current
from mlirtri.lowering.frontend.tile_language.guards import guarded


@handles(ast.Constant)
def visit_constant(context: FunctionContext, node: ast.Constant) -> KernelValue:
    if isinstance(node.value, (bool, int, float, complex, str, type(None), type(...))):
        return node.value
    if isinstance(node.value, bytes):
        return tuple(node.value)
    raise UnsupportedSyntaxError(f"{type(node.value).__name__} constants are not supported")


@handles(ast.Name)
def visit_name(context: FunctionContext, node: ast.Name) -> KernelValue:
    return _captured(context.b, context.scope.read(node.id, context.b))


def _captured(b: Language, value: Any) -> Any:
    """Return a captured value; a NumPy scalar becomes a rank-0 tensor, whose dtype counts in promotion.

    A size of annotations is the run-time integer that an argument gives; raises `KernelTypeError` where none does.
    """
    if isinstance(value, Size):
        return b.number_of(named_size(b, value).simplified())
    if isinstance(value, np.generic):
        return b.tensor(value.item(), as_dtype(value.dtype))
    if isinstance(value, bytes):
        return tuple(value)
    return from_outside(value, "it comes from outside of the kernel")


@handles(ast.Tuple)
def visit_tuple(context: FunctionContext, node: ast.Tuple) -> tuple[KernelValue, ...]:
    return tuple(elements(context, node.elts))


@handles(ast.List)
def visit_list(context: FunctionContext, node: ast.List) -> list[KernelValue]:
    return elements(context, node.elts)


def elements(context: FunctionContext, nodes: list[ast.expr]) -> list[KernelValue]:
    """Return the values of several expressions; a starred one has several. Raises `KernelTypeError`."""
    values: list[Any] = []
    for node in nodes:
        values += _starred(context, node) if isinstance(node, ast.Starred) else [visit(context, node)]
    # One of them may have written the memory of those before it, or changed a list.
    return current(context.b.tri, [latest(context.scope, value) for value in values])


def _starred(context: FunctionContext, node: ast.Starred) -> list[Any]:
    value = visit(context, node.value)
    if isinstance(value, TriValue) and value.type.rank:
        return rows(context.b, value)
    if isinstance(value, (tuple, list, range, dict)):
        return list(value)
    raise KernelTypeError(
        f"cannot unpack {describe(value)}",
        context.span(node),
        help="only a tuple, a list, an array or a range of constant bounds has elements",
    )


@handles(ast.JoinedStr)
def visit_joined_str(context: FunctionContext, node: ast.JoinedStr) -> str:
    return "".join(str(visit(context, part)) for part in node.values)


@handles(ast.FormattedValue)
def visit_formatted_value(context: FunctionContext, node: ast.FormattedValue) -> str:
    value = visit(context, node.value)
    spec = visit(context, node.format_spec) if node.format_spec else ""
    if isinstance(value, TriValue):
        if spec:
            raise KernelTypeError(
                f"{describe(value)} is known at run time only, so a format has no value to show",
                help="mlirtri.device_print(…) prints it after the call",
            )
        value = str(value.type)
    convert = _CONVERSIONS.get(chr(node.conversion)) if node.conversion > 0 else None
    return fold(format, convert(value) if convert else value, spec)


_CONVERSIONS = {"r": repr, "s": str, "a": ascii}
"""By the letter after the exclamation mark in an f-string."""


@handles(ast.Attribute)
def visit_attribute(context: FunctionContext, node: ast.Attribute) -> KernelValue:
    owner = visit(context, node.value)
    if node.attr == "data" and context.b.in_tile_kernel and isinstance(owner, TriValue):
        # The memory of an array, as `T.Tensor(shape, dtype, x.data)` names it.
        return owner
    return attribute(context, owner, node.attr)


_DTYPE_ATTRIBUTES: dict[str, Callable[[DType], Any]] = {
    **{name: attrgetter(name) for name in ("name", "bits", "is_float", "is_integer", "is_inexact", "is_complex")},
    "type": lambda dtype: dtype,
    "itemsize": lambda dtype: dtype.bytes,
    "kind": lambda dtype: np.dtype(dtype.numpy).kind,
}
"""Attributes of dtypes; NumPy's ``x.dtype.type(1)`` is a cast."""


def attribute(context: FunctionContext, owner: KernelValue, name: str) -> KernelValue:
    """Return ``owner.name``; raises `UnknownNameError`, with similar names, for what kernels do not have."""
    if isinstance(owner, TriValue):
        method = inlined.method(owner, name, context.b.semantics)
        return tensor_attribute(context.b, owner, name) if method is None else method
    if isinstance(owner, ModuleType):
        return _module_attribute(context, owner, name)
    if isinstance(owner, tuple) and name in ("_replace", *getattr(owner, "_fields", ())) and hasattr(owner, "_fields"):
        return getattr(owner, name)
    if isinstance(owner, (int, float, complex, str)) and name in _ATTRIBUTES_OF_CONSTANTS and hasattr(owner, name):
        return getattr(owner, name)
    if isinstance(owner, DType) and name in _DTYPE_ATTRIBUTES:
        return _DTYPE_ATTRIBUTES[name](owner)
    if isinstance(owner, type) and issubclass(owner, Enum) and name in owner.__members__:
        return owner[name].value
    if isinstance(owner, External):
        return owner.member(name)
    if is_torch_device(owner) and name in ("type", "index"):
        return getattr(owner, name)
    known = container_method(owner, name) or spellings.member(owner, name)
    if (known := known or inlined.method(owner, name, context.b.semantics)) is not None:
        return known
    help = "give the value a name of its own at the top of the file" if isinstance(owner, type) else None
    raise UnknownNameError(f"{describe(owner)} has no attribute {name!r} in a kernel", help=help)


_ATTRIBUTES_OF_CONSTANTS = frozenset(
    """
    real imag bit_length bit_count is_integer conjugate count endswith find format index isalpha isdigit islower isupper
    join lower lstrip replace rstrip split startswith strip title upper
    """.split()
)
"""Attributes of numbers and texts that are known at compile time, which Python reads and calls."""


def _module_attribute(context: FunctionContext, module: ModuleType, name: str) -> Any:
    try:
        getattr(module, name)
    except AttributeError as error:
        message, _, instead = str(error).partition(": ")
        near = did_you_mean(name, dir(module), count=3).rstrip()
        raise UnknownNameError(message, help=near or instead if "dir(" in instead else instead or near) from None
    origin = Origin("attribute", module, name)
    full_name, value = f"{module.__name__}.{name}", getattr(module, name)
    return _captured(context.b, context.scope.capture(full_name, value, lambda: getattr(module, name), origin))


@handles(ast.Slice)
def visit_slice(context: FunctionContext, node: ast.Slice) -> slice:
    return slice(*(_bound(context, part) for part in (node.lower, node.upper, node.step)))


def _bound(context: FunctionContext, node: ast.expr | None) -> Any:
    bound = visit(context, node) if node else None
    # `numpy.mgrid` takes floats, and complex numbers for numbers of points.
    if bound is None or isinstance(bound, TriValue | numbers.Number) or hasattr(type(bound), "__index__"):
        return bound
    raise KernelTypeError(f"a slice takes integers, got {describe(bound)}", context.span(node) if node else None)


@handles(ast.Subscript)
def visit_subscript(context: FunctionContext, node: ast.Subscript) -> KernelValue:
    owner, index = visit(context, node.value), visit(context, node.slice)
    owner = current(context.b.tri, owner)
    if owner is np.s_ or owner is np.index_exp:
        return owner[index]
    if isinstance(owner, TriValue):
        return _element(context.b, owner, index if isinstance(index, tuple) else (index,))
    if isinstance(owner, (tuple, list)) and is_run_time_integer(index):
        return chosen(context.b, owner, index)
    if isinstance(owner, (tuple, list, str, dict)):
        return item(owner, index)
    if (spelling := spellings.member(owner, "__getitem__")) is not None:
        return spelled(context.b, spelling, [index], {})
    raise KernelTypeError(f"{describe(owner)} cannot be indexed")


def _element(b: Language, array: TriValue, index: tuple[Any, ...]) -> TriValue:
    """Return an element or a part of an array; in tile kernels, zero for an element out of bounds."""
    guard = guarded(b, array, index)
    if guard is None:
        return element(b, array, index)
    return b.where(guard.holds, element(b, array, guard.clamped), b.tensor(0, array.type.dtype))
