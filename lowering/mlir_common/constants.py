"""Read the elements of MLIR constants of every element type, and build constants from arrays, with the same bits.

The bindings give the buffer of the usual element types. For others (bf16, fp8, complex) the text is parsed: one hex
string of all elements, or decimals, with hex for those that are not finite. Reading takes time linear in the size.
Refuses element types without a NumPy dtype, and resources without data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import as_dtype, find_stored
from mlirtri.dialect.bindings.mlir import arith, ir
from mlirtri.errors import ParseError, UnsupportedOperationError

_BODY = re.compile(r'dense<("0x[0-9A-Fa-f]*"|[^>]*)>')
_KEY = re.compile(r'dense_resource<("(?:[^"\\]|\\.)*"|[^>]*)>')
_WORD = re.compile(r"0x[0-9A-Fa-f]+|[-+.0-9eE]+")


def numpy_dtype(element: ir.Type | str) -> np.dtype:
    """Return NumPy's dtype of an element type; raises `UnsupportedOperationError` where there is none."""
    text = str(element)
    if text == "index":
        return np.dtype(np.int64)
    dtype = find_stored(text.removeprefix("s") if re.fullmatch(r"si\d+", text) else text)
    if dtype is None:
        raise UnsupportedOperationError(
            f"there are no tensors of {text} here", help="cast it to i8, or to another type with a NumPy dtype"
        )
    return dtype.numpy


def array_constant(attribute: ir.Attribute) -> np.ndarray:
    """Return the elements of a dense attribute in their own dtype and shape."""
    if not isinstance(attribute, ir.DenseElementsAttr):
        raise UnsupportedOperationError(
            f"the elements of this {attribute.type} constant are out of reach", help="pass the tensor as an argument"
        )
    shape, dtype = _type(attribute.type)
    if dtype.isbuiltin != 1:
        return _from_text(str(attribute), shape, dtype)
    return np.array(attribute).astype(dtype).reshape(shape)


def operation_constant(operation: ir.Operation, name: str = "value") -> np.ndarray:
    """Return the elements of an operation's dense attribute; the bindings lack attributes of complex elements."""
    try:
        attribute = operation.attributes[name]
    except TypeError:
        type_ = operation.results[0].type if len(operation.results) else operation.attributes["type"].value
        return _from_text(str(operation), *_type(type_))
    return array_constant(attribute)


def odd_constant(operation: ir.Operation) -> np.ndarray:
    """Return the elements of a constant of odd-width integers, in the next wider NumPy dtype."""
    kind = ir.ShapedType(operation.results[0].type)
    width = ir.IntegerType(kind.element_type).width
    dtype = np.dtype(f"i{next(size for size in (1, 2, 4, 8) if size * 8 > width)}")
    body = _BODY.search(operation.get_asm())
    if body is None:
        raise UnsupportedOperationError(f"the elements of this {kind} are out of reach", help="use i8 or wider")
    if body[1].startswith('"0x'):
        # Each element takes whole bytes, possibly fewer than the NumPy dtype has.
        narrow = np.frombuffer(bytes.fromhex(body[1][3:-1]), np.uint8).reshape(-1, -(-width // 8))
        wide = np.zeros((len(narrow), dtype.itemsize), np.uint8)
        wide[:, : narrow.shape[1]] = narrow
        unused = dtype.itemsize * 8 - width
        numbers = ((wide.view(dtype)[:, 0] << unused) >> unused).astype(dtype)
    else:
        numbers = np.array([int(word) for word in re.findall(r"-?\d+", body[1])], dtype)
    return _shaped(numbers, tuple(kind.shape))


def global_constant(operation: ir.Operation) -> np.ndarray:
    """Return the elements of a `memref.global`; complex ones as parts along a last axis of 2."""
    array = operation_constant(operation, "initial_value")
    if array.dtype.kind != "c":
        return array
    part = np.dtype(f"f{array.dtype.itemsize // 2}")
    return np.ascontiguousarray(array).view(part).reshape(*array.shape, 2)


def resource_key(attribute: ir.Attribute) -> str | None:
    """Return the key of a `dense_resource`; None for any other attribute."""
    # The bindings have no class for this attribute, only for those whose text may be long.
    match = _KEY.match(str(attribute)) if type(attribute) is ir.Attribute else None
    if match is None:
        return None
    key = match[1]
    return re.sub(r"\\(.)", r"\1", key[1:-1]) if key.startswith('"') else key


def resource_constant(data: Any, type_: ir.Type, key: str) -> np.ndarray:
    """Return the tensor of type `type_` in a resource's bytes; raises `ParseError` when their number is wrong."""
    shape, dtype = _type(type_)
    count = prod(shape)
    if dtype == np.bool_ and len(data) != count and len(data) == -(-count // 8):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little")
        return bits.view(np.bool_).reshape(shape)
    if len(data) != count * dtype.itemsize:
        raise ParseError(f"resource {key!r} has {len(data)} bytes, and {type_} {count * dtype.itemsize}")
    return np.frombuffer(data, dtype).reshape(shape)


def _type(type_: ir.Type) -> tuple[tuple[int, ...], np.dtype]:
    shaped = ir.ShapedType(type_)
    return tuple(shaped.shape), numpy_dtype(shaped.element_type)


def _from_text(text: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    body = _BODY.search(text)
    if body is None:
        raise UnsupportedOperationError("the elements of this constant are out of reach")
    if body[1].startswith('"0x'):
        elements = np.frombuffer(bytes.fromhex(body[1][3:-1]), dtype)
    else:
        part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
        elements = np.array(list(_numbers(body[1], part)), part).view(dtype)
    return _shaped(elements, shape)


def _shaped(elements: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the elements of a constant in its shape; a splat has one element."""
    return elements.reshape(shape) if elements.size == prod(shape) else np.full(shape, elements[0])


def _numbers(body: str, dtype: np.dtype) -> Iterator[Any]:
    bits = np.dtype(f"u{dtype.itemsize}")
    for word in _WORD.findall(body):
        # Use NumPy's conversion: ml_dtypes rounds a Python float once, to nearest.
        yield bits.type(int(word, 16)).view(dtype) if word.startswith("0x") else np.array(float(word)).astype(dtype)


def constant_of(array: np.ndarray, type_: ir.RankedTensorType) -> ir.Value:
    """Return a constant of type `type_` with these elements; the NumPy dtype is the type's or its unsigned form."""
    if array.dtype.kind != "c":
        return arith.constant(type_, dense_attribute(array, type_))
    operation = ir.Operation.parse(f"%0 = arith.constant {_dense_text(array, type_)}")
    operation.location = ir.Location.current
    ir.InsertionPoint.current.insert(operation)
    return operation.results[0]


def dense_attribute(array: np.ndarray, type_: ir.RankedTensorType) -> ir.Attribute:
    """Return the dense attribute of that type; a splat where all elements have the same bits."""
    if array.dtype == np.bool_ and array.size:
        return ir.DenseElementsAttr.get([ir.BoolAttr.get(bool(element)) for element in array.flat], type_)
    return ir.Attribute.parse(_dense_text(array, type_))


def _dense_text(array: np.ndarray, type_: ir.RankedTensorType) -> str:
    if array.size == 0:
        return f"dense<> : {type_}"
    elements = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).reshape(array.size, -1)
    if (elements == elements[0]).all():
        elements = elements[:1]
    return f'dense<"0x{elements.tobytes().hex()}"> : {type_}'


def array_of(constant: Any) -> np.ndarray:
    """Return the elements of a Relax constant; bf16 in the dtype of `ml_dtypes`."""
    dtype = str(constant.ty.dtype)
    if dtype != "bfloat16":
        return constant.value.numpy()
    import torch

    return torch.from_dlpack(constant.value).view(torch.int16).numpy().view(as_dtype(dtype).numpy)
