"""Rewrite Fourier transforms as products with constant matrices, cumulative products by doubling, and determinants.

Source of the transforms: the ONNX operator specification, DFT-20 and STFT-17.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.layers import known, static_shape
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, operand

LONGEST = 1024
"""The longest transform that is a product with a matrix of all its coefficients."""


def _fourier(node: NodeProto, values: Values) -> list[NodeProto]:
    shape = static_shape(node, node.input[0], values)
    is_inverse, is_onesided = attribute_of(node, "inverse", 0), attribute_of(node, "onesided", 0)
    default = 1 if values.version < 20 else -2
    axis = int(known(node, 2, values, "axis").item()) if operand(node, 2) else attribute_of(node, "axis", default)
    axis %= len(shape)
    given = operand(node, 1)
    natural = 2 * (shape[axis] - 1) if is_inverse and is_onesided else shape[axis]
    length = int(known(node, 1, values, "length").item()) if given else natural
    _refuse_long(node, length)
    add = Nodes(node)
    real, imaginary = _parts(add, node.input[0], shape, axis)
    if is_inverse and is_onesided:
        matrices = _half_spectrum(length, shape[axis])
    else:
        count = length // 2 + 1 if is_onesided else length
        matrices = _coefficients(length, min(shape[axis], length), count, bool(is_inverse))
    if shape[axis] > len(matrices[0]):
        index = add.constant(np.arange(len(matrices[0])))
        real, imaginary = (part and add("Gather", part, index, axis=-1) for part in (real, imaginary))
    results = _product(add, real, imaginary, matrices, node.input[0])
    parts = results[:1] if is_inverse and is_onesided else results
    joined = add("Concat", *(add("Unsqueeze", part, add.constant(np.array([-1]))) for part in parts), axis=-1)
    _moved(add, joined, len(shape), axis, is_result=True)
    return add.nodes


def _refuse_long(node: NodeProto, length: int) -> None:
    if length > LONGEST:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a {node.op_type} of length {length}, longer than {LONGEST}",
            help="transform shorter signals",
        )


def _moved(add: Nodes, value: str, rank: int, axis: int, is_result: bool = False) -> str:
    """Exchange the axis with the last but one."""
    order = list(range(rank))
    order[axis], order[rank - 2] = order[rank - 2], order[axis]
    return add("Transpose", value, perm=order, result=0) if is_result else add("Transpose", value, perm=order)


def _parts(add: Nodes, value: str, shape: list[int], axis: int) -> tuple[str, str]:
    """Return the real and the imaginary part with `axis` last, the latter empty for real numbers."""
    moved = _moved(add, value, len(shape), axis)
    parts = [add("Gather", moved, add.constant(np.array(part)), axis=-1) for part in range(shape[-1])]
    return parts[0], parts[1] if len(parts) > 1 else ""


def _coefficients(length: int, terms: int, count: int, is_inverse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    # The remainder keeps the angles exact.
    angles = 2 * np.pi * (np.outer(np.arange(terms), np.arange(count)) % length) / length
    return (np.cos(angles) / length, np.sin(angles) / length) if is_inverse else (np.cos(angles), -np.sin(angles))


def _half_spectrum(length: int, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of the inverse of half a spectrum, whose other half is its conjugate."""
    used = min(terms, length // 2 + 1)
    cosine, sine = _coefficients(length, used, length, True)
    twice = np.full((used, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0 and used == length // 2 + 1:
        twice[-1] = 1
    return cosine * twice, sine * twice


def _product(
    add: Nodes, real: str, imaginary: str, matrices: tuple[np.ndarray, np.ndarray], like: str
) -> tuple[str, str]:
    """Multiply in fp64, as these sums cancel, and return numbers of the type of `like`."""
    cosine, sine = map(add.constant, matrices)
    real = add("Cast", real, to=TensorProto.DOUBLE)
    results = add("MatMul", real, cosine), add("MatMul", real, sine)
    if imaginary:
        imaginary = add("Cast", imaginary, to=TensorProto.DOUBLE)
        results = (
            add("Sub", results[0], add("MatMul", imaginary, sine)),
            add("Add", results[1], add("MatMul", imaginary, cosine)),
        )
    return add("CastLike", results[0], like), add("CastLike", results[1], like)


def _short_time(node: NodeProto, values: Values) -> list[NodeProto]:
    shape = static_shape(node, node.input[0], values)
    shape = shape if len(shape) == 3 else [*shape, 1]
    step = int(known(node, 1, values, "step").item())
    window = operand(node, 2)
    windows = values.static_shape(window) if window else None
    length = int(known(node, 3, values, "length").item()) if operand(node, 3) else (windows or [shape[1]])[0]
    _refuse_long(node, length)
    add = Nodes(node)
    frames = np.arange(0, shape[1] - length + 1, step)[:, None] + np.arange(length)
    signal = add("Reshape", node.input[0], add.constant(np.array(shape)))
    count = length // 2 + 1 if attribute_of(node, "onesided", 1) and shape[-1] == 1 else length
    parts = []
    for part in range(shape[-1]):
        line = add("Gather", signal, add.constant(np.array(part)), axis=2)
        framed = add("Gather", line, add.constant(frames), axis=1)
        parts.append(add("Mul", framed, window) if window else framed)
    results = _product(add, parts[0], parts[1] if len(parts) > 1 else "", _coefficients(length, length, count), signal)
    columns = [add("Unsqueeze", result, add.constant(np.array([-1]))) for result in results]
    add("Concat", *columns, axis=-1, result=0)
    return add.nodes


def _cumulative_product(node: NodeProto, values: Values) -> list[NodeProto]:
    """Multiply by what lies 1, 2, 4, … before: the scan of Hillis and Steele."""
    shape = static_shape(node, node.input[0], values)
    axis = int(known(node, 1, values, "axis").item()) % len(shape)
    add, length = Nodes(node), shape[axis]
    one = add.constant(np.array(1, values.dtype(node.input[0])))
    index = np.arange(length)[:: -1 if attribute_of(node, "reverse", 0) else 1]
    steps = [1] if attribute_of(node, "exclusive", 0) else []
    value = node.input[0]
    for number, shift in enumerate([*steps, *(2**bit for bit in range(max(length - 1, 0).bit_length()))]):
        # Positions count from where the scan starts.
        before = np.argsort(index) - shift
        source = index[np.clip(before, 0, length - 1)]
        others = add("Gather", value, add.constant(source), axis=axis)
        mask = (before >= 0).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        shifted = add("Where", add.constant(mask), others, one)
        value = shifted if number < len(steps) else add("Mul", value, shifted)
    add("Identity", value, result=0)
    return add.nodes


def _determinant(node: NodeProto, values: Values) -> list[NodeProto]:
    """Eliminate below the diagonal with partial pivoting."""
    shape = static_shape(node, node.input[0], values)
    add, size = Nodes(node), shape[-1]
    dtype = values.dtype(node.input[0])
    if not 0 < size <= 32:
        raise UnsupportedOperationError(f"node {node.name!r} is a Det of size {size}", help="at most 32 are unrolled")
    matrix, result = node.input[0], add.constant(np.ones([*shape[:-2], 1, 1], dtype))
    zero, one = add.constant(np.array(0, dtype)), add.constant(np.array(1, dtype))
    for step in range(size):
        first = add("Gather", matrix, add.constant(np.array([0])), axis=-2)
        column = add("Gather", matrix, add.constant(np.array([0])), axis=-1)
        largest = add("ArgMax", add("Abs", column), axis=len(shape) - 2, keepdims=1)
        rows = add.constant(np.arange(size - step).reshape(-1, 1))
        is_pivot = add("Equal", rows, largest)
        row = add("ReduceSum", add("Where", is_pivot, matrix, zero), add.constant(np.array([-2])), keepdims=1)
        pivot = add("Gather", row, add.constant(np.array([0])), axis=-1)
        is_kept = add("Equal", largest, add.constant(np.array(0)))
        result = add("Mul", result, add("Where", is_kept, pivot, add("Neg", pivot)))
        if step == size - 1:
            break
        exchanged = add("Where", is_pivot, first, matrix)
        rest = np.arange(1, size - step)
        lower = add("Gather", exchanged, add.constant(rest), axis=-2)
        safe = add("Where", add("Equal", pivot, zero), one, pivot)
        factors = add("Div", add("Gather", lower, add.constant(np.array([0])), axis=-1), safe)
        reduced = add("Sub", lower, add("Mul", factors, row))
        matrix = add("Gather", reduced, add.constant(rest), axis=-1)
    add("Reshape", result, add.constant(np.array(shape[:-2], np.int64)), result=0)
    return add.nodes


TRANSFORMS: dict[str, Rewrite] = {
    "DFT": _fourier, "STFT": _short_time, "CumProd": _cumulative_product, "Det": _determinant,
}  # fmt: skip
