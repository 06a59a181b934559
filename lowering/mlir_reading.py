"""Reads MLIR types, constants and affine expressions as the bridge needs them: shapes, dtype names, numbers, indices.

Takes attributes, types and values of the bindings. Gives Python numbers, NumPy arrays, and TVM's names of dtypes.
Refuses element types that TVM lacks, dynamic shapes, and constants whose data the bindings cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from mlirtri.dialect.dtypes import as_dtype, find_dtype
from mlirtri.dialect.mlir import ir
from mlirtri.errors import UnsupportedOperationError


def is_shaped(kind: ir.Type) -> bool:
    return isinstance(kind, ir.ShapedType)


def element_type(kind: ir.Type) -> ir.Type:
    return kind.element_type if is_shaped(kind) else kind


def dtype_of(kind: ir.Type) -> str:
    """TVM's name of the element type; raises `UnsupportedOperationError` for those that TVM lacks."""
    spelling = str(element_type(kind))
    if spelling == "index":
        return "int64"
    if (dtype := find_dtype(spelling)) is None:
        raise UnsupportedOperationError(f"TVM has no element type {spelling}", help="cast to another dtype first")
    return dtype.name


def shape_of(kind: ir.Type) -> tuple[int, ...]:
    """The static shape; `()` for a scalar. Raises `UnsupportedOperationError` when a dimension is dynamic."""
    if not is_shaped(kind):
        return ()
    if not kind.has_rank or not kind.has_static_shape:
        raise UnsupportedOperationError(f"the shape of {kind} is dynamic", help="give every dimension a size")
    return tuple(kind.shape)


def scalar_constant(attribute: ir.Attribute) -> int | float | None:
    """The number in a scalar or splat attribute; None for a constant whose elements differ."""
    if isinstance(attribute, (ir.IntegerAttr, ir.FloatAttr, ir.BoolAttr)):
        return attribute.value
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return attribute.get_splat_value().value
    return None


def array_constant(attribute: ir.Attribute) -> np.ndarray:
    """The elements of a dense attribute in their own dtype and shape."""
    if not isinstance(attribute, ir.DenseElementsAttr):
        raise UnsupportedOperationError(
            f"the elements of this {attribute.type} constant are out of reach", help="pass the tensor as an argument"
        )
    shape = shape_of(attribute.type)
    spelling = str(attribute.type.element_type)
    if spelling == "bf16":
        return _bfloat16_elements(str(attribute)).reshape(shape)
    dtype = np.dtype(np.int64) if spelling == "index" else as_dtype(spelling).numpy
    return np.array(attribute).astype(dtype).reshape(shape)


def global_constant(operation: ir.Operation) -> np.ndarray:
    """The elements of a `memref.global`; of complex ones the parts, along a last axis of 2."""
    kind = ir.MemRefType(operation.attributes["type"].value)
    if not isinstance(kind.element_type, ir.ComplexType):
        return array_constant(operation.attributes["initial_value"])
    # The bindings cannot give an attribute of complex elements: their text is exact.
    body = re.search(r"= dense<(.*?)>(?: \{|$)", str(operation).strip(), re.DOTALL)
    if body is None:
        raise UnsupportedOperationError(f"the elements of {operation.attributes['sym_name']} are out of reach")
    parts = _floats(body[1], as_dtype(str(kind.element_type)).part.numpy).reshape(-1, 2)
    return np.broadcast_to(parts.reshape(*shape_of(kind), 2) if len(parts) > 1 else parts[0], (*shape_of(kind), 2))


def _floats(body: str, dtype: np.dtype) -> np.ndarray:
    """The numbers in the text of a dense attribute: one hex string of all, or decimals with hex for non-finite ones."""
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
    bits = np.dtype(f"u{dtype.itemsize}")
    words = re.findall(r"0x[0-9A-Fa-f]+|[-+.0-9eE]+", body)
    numbers = [bits.type(int(w, 16)).view(dtype) if w.startswith("0x") else dtype.type(float(w)) for w in words]
    return np.array(numbers, dtype)


def _bfloat16_elements(text: str) -> np.ndarray:
    """The bindings give no buffer of bf16; their text is exact: one hex string, or decimals with hex for non-finite."""
    dtype = as_dtype("bfloat16").numpy
    body = text[text.index("<") + 1 : text.rindex("> : ")]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:-1]), dtype="<u2").view(dtype)
    words = re.findall(r"0x[0-9A-Fa-f]+|[-+.0-9eE]+", body)
    bits = [_bfloat16_bits(word, dtype) for word in words]
    return np.array(bits, dtype=np.uint16).view(dtype)


def _bfloat16_bits(word: str, dtype: np.dtype) -> int:
    if word.startswith("0x"):
        return int(word, 16)
    return int(np.array(float(word)).astype(dtype).view(np.uint16))


def static_integers(operation: ir.Operation, name: str) -> list[int]:
    """A ``static_…`` attribute; raises `UnsupportedOperationError` when a number is only known at run time."""
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
    expression: ir.AffineExpr, dimensions: Sequence, constant: Callable[[int], object], symbols: Sequence = ()
):
    """`expression` over `dimensions` (any values with Python's arithmetic; `//` and `%` round down) and `symbols`."""
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
    """Positions of the dimensions that any result of `mapping` mentions."""
    found: set[int] = set()
    pending = list(mapping.results)
    while pending:
        expression = pending.pop()
        if isinstance(expression, ir.AffineDimExpr):
            found.add(expression.position)
        elif isinstance(expression, ir.AffineBinaryExpr):
            pending += [expression.lhs, expression.rhs]
    return found
