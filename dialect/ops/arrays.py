"""Rows of the op table for whole arrays: creation, padding, literals, correlation, scans, sorts and searches.

`constant arange eye` take no operands. `pad literal correlate` are straight-line; `scan sort argsort add_at` are
sequential and become loops; `searchsorted` and `bins` search an index for each element.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.base.sizes import UNKNOWN, is_dynamic, sum_of
from mlirtri.dialect.base.tensor_type import TensorType, same_shape
from mlirtri.dialect.ops.op import Op, reference_dtype
from mlirtri.errors import KernelTypeError, KernelValueError

INT64 = DTYPES["int64"]
SCANS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
"""The NumPy ufunc of each kind of `scan`."""
LOOPS = ("scan", "sort", "argsort", "add_at")
"""Operations of this file that become loops over elements."""


def _constant(types, attributes):
    return TensorType(tuple(attributes["shape"]), as_dtype(attributes["dtype"]))


def _arange(types, attributes):
    if attributes["size"] < 0:
        raise KernelValueError(f"arange of {attributes['size']} elements")
    return TensorType((attributes["size"],), as_dtype(attributes["dtype"]))


def _eye(types, attributes):
    if attributes["rows"] < 0 or attributes["columns"] < 0:
        raise KernelValueError(f"eye of {attributes['rows']} rows and {attributes['columns']} columns")
    return TensorType((attributes["rows"], attributes["columns"]), as_dtype(attributes["dtype"]))


def _pad(types, attributes) -> TensorType:
    [x] = types
    low, high = attributes["low"], attributes["high"]
    if not len(low) == len(high) == x.rank or any(width < 0 for width in (*low, *high)):
        raise KernelValueError(f"padding {x} needs {x.rank} widths of 0 or more for each end, got {low} and {high}")
    return x.with_shape(map(sum_of, zip(low, x.shape, high, strict=True)))


def _literal(types, attributes) -> TensorType:
    result = TensorType(tuple(attributes["shape"]), as_dtype(attributes["dtype"]))
    if result.dtype.kind == "c":
        raise KernelTypeError("a literal has no complex dtype: build the tensor from its real and imaginary parts")
    if result.size != len(attributes["values"]):
        raise KernelValueError(f"{result} does not hold {len(attributes['values'])} numbers")
    return result


def _reference_constant(value, shape, dtype):
    dtype = as_dtype(dtype)
    if dtype.is_integer and not dtype.holds(value):
        # The language wraps where the library does; NumPy refuses such an int.
        value = np.uint64(value % 2**64).astype(dtype.numpy)
    return np.full(shape, value, dtype.numpy)


def _reference_literal(values, shape, dtype):
    # Unsigned 64-bit integers are stored as signed ones.
    elements = np.array(values, np.float64 if as_dtype(dtype).is_float else np.int64)
    return elements.astype(as_dtype(dtype).numpy).reshape(shape)


def _along(types, attributes) -> TensorType:
    [x] = types
    if not 0 <= attributes["axis"] < x.rank:
        raise KernelValueError(f"axis {attributes['axis']} is not an axis of {x}")
    return x


def _scan(types, attributes) -> TensorType:
    if attributes["kind"] not in SCANS:
        raise KernelValueError(f"a scan is one of {', '.join(SCANS)}, not {attributes['kind']!r}")
    return _along(types, attributes)


def _vector(name: str, x: TensorType) -> None:
    if x.rank != 1:
        raise KernelTypeError(f"{name} has rank 1, not {x.rank}: it is {x}")


def _searchsorted(types, attributes) -> TensorType:
    x, values = types
    _vector("what searchsorted looks in", x)
    if x.dtype != values.dtype or x.dtype.kind == "c":
        raise KernelTypeError(f"searchsorted takes real numbers of one dtype, got {x} and {values}")
    return values.with_dtype(INT64)


def _bins(types, attributes) -> TensorType:
    x, edges = types
    _vector("the edges of bins", edges)
    if not x.dtype.is_float or x.dtype != edges.dtype:
        raise KernelTypeError(f"bins takes floats of one dtype, got {x} and {edges}")
    if not is_dynamic(edges.shape[0]) and edges.shape[0] < 2:
        raise KernelValueError(f"bins need two edges or more, got {edges}")
    return x.with_dtype(INT64)


def _reference_bins(x, edges):
    count = len(edges) - 1
    index = np.searchsorted(edges, x, "right") - 1
    index = np.where(x == edges[-1], count - 1, index)
    return np.where((x >= edges[0]) & (x <= edges[-1]), index, count).astype(np.int64)


def _add_at(types, attributes) -> TensorType:
    x, positions, values = types
    _vector("what add_at adds to", x)
    _vector("the positions of add_at", positions)
    if positions.dtype != INT64 or x.dtype != values.dtype or not same_shape(positions.shape, values.shape):
        raise KernelTypeError(f"add_at of {x} takes int64 positions and as many {x.dtype}, got {positions}, {values}")
    return x


def _reference_add_at(x, positions, values):
    result, in_range = x.copy(), (positions >= 0) & (positions < len(x))
    np.add.at(result, positions[in_range], values[in_range])
    return result


def _correlate(types, attributes) -> TensorType:
    x, y = types
    _vector("an operand of correlate", x)
    _vector("an operand of correlate", y)
    if x.dtype != y.dtype:
        raise KernelTypeError(f"operands have different dtypes: {x} and {y}")
    if x.is_static and y.is_static and not 1 <= y.shape[0] <= x.shape[0]:
        raise KernelValueError(f"correlate takes the longer operand first, got {x} and {y}")
    return x.with_shape((x.shape[0] - y.shape[0] + 1 if x.is_static and y.is_static else UNKNOWN,))


def _reference_scan(x, kind, axis):
    return SCANS[kind].accumulate(x, axis, x.dtype)


def rows() -> Iterator[Op]:
    yield from _created()
    yield from _structured()
    for name, group, reference, summary in (
        ("cut", "shape", np.take, "a slice of one axis"),
        ("roll", "shape", np.roll, "two slices of one axis, concatenated the other way around"),
        ("pick", "indexing", np.take, "gather along the first axes"),
    ):
        yield Op(name, group, ("x",), derived=True, numpy=reference, summary=summary)


def _created() -> Iterator[Op]:
    constant = {"value": "number", "shape": "ints", "dtype": "string"}
    yield Op(
        "constant", "creation", (), constant, _constant, _reference_constant, structured=True,
    )  # fmt: skip
    arange = {"start": "number", "step": "number", "size": "int", "dtype": "string"}
    yield Op(
        "arange", "creation", (), arange, _arange,
        lambda start, step, size, dtype: (start + step * np.arange(size)).astype(as_dtype(dtype).numpy),
        structured=True,
    )  # fmt: skip
    eye = {"rows": "int", "columns": "int", "diagonal": "int", "dtype": "string"}
    yield Op(
        "eye", "creation", (), eye, _eye,
        lambda rows, columns, diagonal, dtype: np.eye(rows, columns, diagonal, as_dtype(dtype).numpy),
        structured=True,
    )  # fmt: skip
    yield Op("full", "creation", (), derived=True, numpy=np.full, summary="a constant, or a scalar broadcast")


def _structured() -> Iterator[Op]:
    table = (
        ("pad", "shape", ("x",), {"low": "ints", "high": "ints", "value": "number"}, _pad,
         lambda x, low, high, value: np.pad(x, list(zip(low, high, strict=True)), constant_values=value)),
        ("literal", "creation", (), {"values": "numbers", "shape": "ints", "dtype": "string"}, _literal,
         _reference_literal),
        ("scan", "sequence", ("x",), {"kind": "string", "axis": "int"}, _scan, _reference_scan),
        ("sort", "sequence", ("x",), {"axis": "int"}, _along,
         # Of bf16 no order puts NaN last.
         lambda x, axis: np.sort(x.astype(reference_dtype(x)), axis, kind="stable").astype(x.dtype)),
        ("argsort", "sequence", ("x",), {"axis": "int"}, lambda t, a: _along(t, a).with_dtype(INT64),
         lambda x, axis: np.argsort(x.astype(reference_dtype(x)), axis, kind="stable")),
        ("searchsorted", "sequence", ("x", "values"), {"right": "bool"}, _searchsorted,
         lambda x, values, right: np.searchsorted(x, values, "right" if right else "left").astype(np.int64)),
        ("bins", "sequence", ("x", "edges"), {}, _bins, _reference_bins),
        ("add_at", "sequence", ("x", "positions", "values"), {}, _add_at, _reference_add_at),
        ("correlate", "contraction", ("x", "y"), {}, _correlate,
         # np.correlate conjugates the second operand.
         lambda x, y: np.correlate(x, np.conj(y), "valid").astype(x.dtype)),
    )  # fmt: skip
    for name, group, operands, attributes, infer, reference in table:
        yield Op(name, group, operands, attributes, infer, reference, structured=True)
