"""Read MLIR: types, constants, definitions and users of values, affine expressions; TVM's names of dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError


def is_shaped(type_: ir.Type) -> bool:
    return isinstance(type_, ir.ShapedType)


def element_type(type_: ir.Type) -> ir.Type:
    return type_.element_type if is_shaped(type_) else type_


def dtype_of(type_: ir.Type) -> str:
    """Return TVM's name of the element type; raises `UnsupportedOperationError` for those that TVM lacks."""
    text = str(element_type(type_))
    if text == "index":
        return "int64"
    if (dtype := find_dtype(text)) is None:
        raise UnsupportedOperationError(f"TVM has no element type {text}", help="cast to another dtype first")
    return dtype.name


def shape_of(type_: ir.Type) -> tuple[int, ...]:
    """Return the static shape; `()` for a scalar. Raises `UnsupportedOperationError` for dynamic dimensions."""
    if not is_shaped(type_):
        return ()
    if not type_.has_rank or not type_.has_static_shape:
        raise UnsupportedOperationError(f"the shape of {type_} is dynamic", help="give every dimension a size")
    return tuple(type_.shape)


def is_block_argument(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Operation | ir.OpView)


def definition(value: ir.Value) -> ir.Operation | None:
    """Return the operation that defines a value; None for a block argument."""
    return None if is_block_argument(value) else value.owner.operation


def defined_by(value: ir.Value, name: str) -> ir.Operation | None:
    """Return the defining operation of a value if it has that name, else None."""
    operation = definition(value)
    return operation if operation is not None and operation.name == name else None


ALLOCATIONS = ("memref.alloc", "memref.alloca")
VIEWS_OF_MEMORY = (
    *("memref.subview", "memref.collapse_shape", "memref.expand_shape", "memref.cast", "memref.reinterpret_cast"),
    *("memref.transpose", "memref.reshape"),
)
"""Operations whose result is a view of the buffer that their first operand is."""


def buffer_behind(value: ir.Value) -> ir.Value:
    """Return the whole buffer that a view of memory is a part of; of what is no view, the value itself."""
    while (operation := definition(value)) is not None and operation.name in VIEWS_OF_MEMORY:
        value = operation.operands[0]
    return value


def reassociation_of(reshape: ir.Operation) -> list[list[int]]:
    """Return the groups of axes of a ``collapse_shape`` or ``expand_shape``: one of many axes per axis of few."""
    return [[axis.value for axis in group] for group in reshape.attributes["reassociation"]]


def symbol_name(operation: ir.Operation | ir.OpView) -> str:
    """Return the name of a function, a global or another symbol."""
    return ir.StringAttr(operation.attributes["sym_name"]).value


def width_of(type_: ir.Type) -> int:
    """Return the width in bits of an integer or float type; an index has 64."""
    return 64 if isinstance(type_, ir.IndexType) else type_.width


def only_user(value: ir.Value) -> ir.Operation | None:
    """Return the operation that uses a value once, if nothing else does."""
    uses = list(value.uses)
    return uses[0].owner.operation if len(uses) == 1 else None


def integer_constant(value: ir.Value) -> int | None:
    """Return the number of an integer or index `arith.constant`; None for other values."""
    constant = defined_by(value, "arith.constant")
    number = None if constant is None else constant.attributes["value"]
    return ir.IntegerAttr(number).value if isinstance(number, ir.IntegerAttr) else None


def trip_count(bounds: Sequence[ir.Value]) -> int | None:
    """Return the iterations of a loop by its lower bound, upper bound and step; None where one is no constant."""
    lower, upper, step = map(integer_constant, bounds)
    return None if lower is None or upper is None or not step else max(0, -((lower - upper) // step))


def scalar_constant(attribute: ir.Attribute) -> int | float | None:
    """Return the number in a scalar or splat attribute; None for a constant whose elements differ."""
    if isinstance(attribute, (ir.IntegerAttr, ir.FloatAttr, ir.BoolAttr)):
        return attribute.value
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return attribute.get_splat_value().value
    return None


def static_integers(operation: ir.Operation, name: str) -> list[int]:
    """Return a ``static_…`` attribute; raises `UnsupportedOperationError` when a number is dynamic."""
    numbers = list(operation.attributes[name])
    if any(number == ir.ShapedType.get_dynamic_size() for number in numbers):
        raise UnsupportedOperationError(
            f"{operation.name} has {name.removeprefix('static_')} that are only known at run time"
        )
    return numbers


_BINARY = (
    (ir.AffineAddExpr, lambda x, y: x + y),
    (ir.AffineMulExpr, lambda x, y: x * y),
    (ir.AffineModExpr, lambda x, y: x % y),
    (ir.AffineFloorDivExpr, lambda x, y: x // y),
    (ir.AffineCeilDivExpr, lambda x, y: -((-x) // y)),
)


def affine_index(
    expression: ir.AffineExpr,
    dimensions: Sequence[object],
    constant: Callable[[int], Any],
    symbols: Sequence[object] = (),
) -> Any:
    """Evaluate `expression` over `dimensions` (any values with arithmetic; `//` and `%` floor) and `symbols`."""
    if isinstance(expression, ir.AffineDimExpr):
        return dimensions[expression.position]
    if isinstance(expression, ir.AffineSymbolExpr) and symbols:
        return symbols[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return constant(expression.value)
    for kind, combine in _BINARY:
        if isinstance(expression, kind):
            left = affine_index(expression.lhs, dimensions, constant, symbols)
            return combine(left, affine_index(expression.rhs, dimensions, constant, symbols))
    raise UnsupportedOperationError(f"the index expression {expression} has symbols")


def used_dimensions(mapping: ir.AffineMap) -> set[int]:
    """Return the numbers of the dimensions that the results of an affine map depend on."""
    positions: set[int] = set()
    pending = list(mapping.results)
    while pending:
        expression = pending.pop()
        if isinstance(expression, ir.AffineDimExpr):
            positions.add(expression.position)
        elif isinstance(expression, ir.AffineBinaryExpr):
            pending += [expression.lhs, expression.rhs]
    return positions


def kept_axes(sizes: Sequence[int], rank: int) -> list[int]:
    """Return the axes that a rank-reduced slice of `rank` keeps: the first axes of size 1 are dropped."""
    surplus, axes = len(sizes) - rank, []
    for axis, size in enumerate(sizes):
        if size == 1 and surplus:
            surplus -= 1
        else:
            axes.append(axis)
    return axes
