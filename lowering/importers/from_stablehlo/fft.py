"""Lower StableHLO's `fft` to products with constant matrices of sines and cosines, on real and imaginary parts.

A length is split into factors of up to `LARGEST_MATRIX` (J. W. Cooley and J. W. Tukey, "An algorithm for the machine
calculation of complex Fourier series", 1965). Refuses lengths with a prime factor beyond `LARGEST_PRIME`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named, tensor
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import loop_nest, sizes_of

LARGEST_MATRIX = 64
"""The longest transform by a single matrix."""
LARGEST_PRIME = 2048


def rewrite(module: ir.Module) -> None:
    """Lower all transforms of `module`, in place; raises `UnsupportedOperationError`."""
    for operation in operations_named(module, "stablehlo.fft"):
        with operation.location, ir.InsertionPoint(operation):
            is_static = operation.operands[0].type.has_static_shape
            result = _transformed(operation) if is_static else _one_by_one(operation)
        replace(operation, [result])


def _one_by_one(operation: ir.Operation) -> ir.Value:
    """Transform in a loop over the axes of run-time sizes; raises `UnsupportedOperationError` for such lengths."""
    source, kind = operation.operands[0], operation.results[0].type
    count = source.type.rank - len(ir.DenseI64ArrayAttr(operation.attributes["fft_length"]))
    if any(size < 0 for size in (*source.type.shape[count:], *kind.shape[count:])):
        raise UnsupportedOperationError(
            "a Fourier transform over a length known at run time only is not lowered",
            span_of(operation.location),
            help="give the transformed axes static sizes",
        )
    sizes = sizes_of(source)[:count]
    out = tensor.empty([*sizes, *kind.shape[count:]], kind.element_type)

    def step(indices: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        ones, stay = [1] * count, [0] * (source.type.rank - count)
        offsets = [*[ir.ShapedType.get_dynamic_size()] * count, *stay]
        shape, transformed = list(source.type.shape[count:]), list(kind.shape[count:])
        steps = [1] * source.type.rank
        part = ir.RankedTensorType.get(shape, source.type.element_type)
        row = tensor.extract_slice(part, source, indices, [], [], offsets, [*ones, *shape], steps)
        attributes = {name: operation.attributes[name] for name in operation.attributes.keys()}
        result = ir.RankedTensorType.get(transformed, kind.element_type)
        inner = ir.Operation.create("stablehlo.fft", [result], [row], attributes)
        value = _transformed(inner)
        inner.erase()
        return [tensor.insert_slice(value, carried[0], indices, [], [], offsets, [*ones, *transformed], steps)]

    [filled] = loop_nest(sizes, [out], step)
    return filled if filled.type == kind else tensor.cast(kind, filled)


@dataclass(frozen=True)
class _Parts:
    real: ir.Value
    imaginary: ir.Value

    @property
    def shape(self) -> list[int]:
        return list(self.real.type.shape)


def _transformed(operation: ir.Operation) -> ir.Value:
    kind = str(operation.attributes["fft_type"]).rpartition(" ")[2].rstrip(">")
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["fft_length"]))
    value = operation.operands[0]
    first = value.type.rank - len(lengths)
    axes = list(range(first, value.type.rank))
    for length in lengths:
        _check(length, operation)
    if kind == "RFFT":
        parts = _along(_Parts(value, _zeros_like(value)), axes[-1], False)
        parts = _on_parts(parts, lambda x: _sliced(x, axes[-1], 0, lengths[-1] // 2 + 1))
        return _joined(_along_all(parts, axes[:-1], False))
    parts = _split(value)
    if kind == "IRFFT":
        parts = _along_all(parts, axes[:-1], True)
        return _along(_full_spectrum(parts, axes[-1], lengths[-1]), axes[-1], True).real
    return _joined(_along_all(parts, axes, kind == "IFFT"))


def _check(length: int, operation: ir.Operation) -> None:
    if (largest := _factors(length)[-1]) > LARGEST_PRIME:
        raise UnsupportedOperationError(
            f"a Fourier transform over {length} points, a length with the prime factor {largest}, is not lowered",
            span_of(operation.location),
            help="pad it to a length of small factors, such as a power of 2",
        )


def _factors(length: int) -> list[int]:
    factors, candidate = [], 2
    while candidate <= isqrt(length):
        if length % candidate:
            candidate += 1
        else:
            factors.append(candidate)
            length //= candidate
    return [*factors, length]


def _along_all(parts: _Parts, axes: Sequence[int], inverse: bool) -> _Parts:
    for axis in axes:
        parts = _along(parts, axis, inverse)
    return parts


def _along(parts: _Parts, axis: int, inverse: bool) -> _Parts:
    length = parts.shape[axis]
    if length <= 1:
        return parts
    result = _forward(parts, axis, -1 if inverse else 1)
    return _on_parts(result, lambda x: _scaled(x, 1 / length)) if inverse else result


def _forward(parts: _Parts, axis: int, sign: int) -> _Parts:
    """Return the sum over j of x[j] exp(-2πi sign jk / n)."""
    length = parts.shape[axis]
    outer = _outer_factor(length)
    if outer == 1:
        return _product(parts, axis, sign)
    inner = length // outer
    shape = parts.shape
    split_shape = [*shape[:axis], outer, inner, *shape[axis + 1 :]]
    parts = _on_parts(parts, lambda x: _reshaped(x, split_shape))
    parts = _forward(parts, axis, sign)
    parts = _twiddled(parts, axis, outer, inner, sign)
    parts = _forward(parts, axis + 1, sign)
    order = [*range(axis), axis + 1, axis, *range(axis + 2, len(split_shape))]
    return _on_parts(parts, lambda x: _reshaped(_transposed(x, order), shape))


def _outer_factor(length: int) -> int:
    if length <= LARGEST_MATRIX:
        return 1
    factors = [factor for factor in range(2, LARGEST_MATRIX + 1) if length % factor == 0 and factor < length]
    return max(factors, default=1)


def _product(parts: _Parts, axis: int, sign: int) -> _Parts:
    length = parts.shape[axis]
    angles = 2 * np.pi * (np.outer(np.arange(length), np.arange(length)) % length) / length
    cosines, sines = _constant(np.cos(angles), parts.real), _constant(sign * np.sin(angles), parts.real)
    return _rotated(parts, lambda value, matrix: _dot(value, matrix, axis), cosines, sines)


def _twiddled(parts: _Parts, axis: int, outer: int, inner: int, sign: int) -> _Parts:
    """Multiply by the twiddle factors exp(-2πi sign jk / n), k along `axis` and j along the next one."""
    length = outer * inner
    angles = 2 * np.pi * (np.outer(np.arange(outer), np.arange(inner)) % length) / length
    shape = parts.shape
    cosines, sines = (
        _broadcast(_constant(angles, parts.real), [axis, axis + 1], shape)
        for angles in (np.cos(angles), sign * np.sin(angles))
    )
    return _rotated(parts, _times, cosines, sines)


def _full_spectrum(parts: _Parts, axis: int, length: int) -> _Parts:
    """Complete a half spectrum by its conjugate; the imaginary parts of elements 0 and n / 2 are ignored."""
    shape = parts.shape
    keep = np.ones(shape[axis])
    keep[0] = 0
    if length % 2 == 0:
        keep[length // 2] = 0
    imaginary = _times(parts.imaginary, _broadcast(_constant(keep, parts.real), [axis], shape))
    count = length - shape[axis]
    if count == 0:
        return _Parts(parts.real, imaginary)
    tails = [_reversed(_sliced(part, axis, 1, 1 + count), axis) for part in (parts.real, imaginary)]
    real = _concatenated([parts.real, tails[0]], axis)
    return _Parts(real, _concatenated([imaginary, _scaled(tails[1], -1.0)], axis))


def _on_parts(parts: _Parts, function: Callable[[ir.Value], ir.Value]) -> _Parts:
    return _Parts(function(parts.real), function(parts.imaginary))


def _op(
    name: str, shape: Sequence[int], like: ir.Value, operands: Sequence[ir.Value], **attributes: ir.Attribute
) -> ir.Value:
    kind = ir.RankedTensorType.get(list(shape), like.type.element_type)
    return ir.Operation.create(f"stablehlo.{name}", [kind], list(operands), attributes).result


def _split(value: ir.Value) -> _Parts:
    element = ir.ComplexType(value.type.element_type).element_type
    kind = ir.RankedTensorType.get(list(value.type.shape), element)
    return _Parts(*(ir.Operation.create(f"stablehlo.{name}", [kind], [value]).result for name in ("real", "imag")))


def _joined(parts: _Parts) -> ir.Value:
    kind = ir.RankedTensorType.get(parts.shape, ir.ComplexType.get(parts.real.type.element_type))
    return ir.Operation.create("stablehlo.complex", [kind], [parts.real, parts.imaginary]).result


def _constant(values: np.ndarray, like: ir.Value) -> ir.Value:
    dtype = np.float64 if isinstance(like.type.element_type, ir.F64Type) else np.float32
    attribute = ir.DenseElementsAttr.get(np.asarray(values, dtype, order="C"))
    return ir.Operation.create("stablehlo.constant", [attribute.type], attributes={"value": attribute}).result


def _zeros_like(value: ir.Value) -> ir.Value:
    attribute = ir.Attribute.parse(f"dense<0.0> : {value.type}")
    return ir.Operation.create("stablehlo.constant", [value.type], attributes={"value": attribute}).result


def _dot(value: ir.Value, matrix: ir.Value, axis: int) -> ir.Value:
    shape, last = list(value.type.shape), value.type.rank - 1
    dimensions = f"#stablehlo.dot<lhs_contracting_dimensions = [{axis}], rhs_contracting_dimensions = [0]>"
    others = [size for position, size in enumerate(shape) if position != axis]
    product = _op(
        "dot_general",
        [*others, shape[axis]],
        value,
        [value, matrix],
        dot_dimension_numbers=ir.Attribute.parse(dimensions),
    )
    return _transposed(product, [*range(axis), last, *range(axis, last)])


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == sorted(order):
        return value
    shape = [value.type.shape[axis] for axis in order]
    return _op("transpose", shape, value, [value], permutation=ir.DenseI64ArrayAttr.get(list(order)))


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    return _op("reshape", shape, value, [value])


def _broadcast(value: ir.Value, axes: Sequence[int], shape: Sequence[int]) -> ir.Value:
    return _op("broadcast_in_dim", shape, value, [value], broadcast_dimensions=ir.DenseI64ArrayAttr.get(list(axes)))


def _sliced(value: ir.Value, axis: int, start: int, stop: int) -> ir.Value:
    shape = list(value.type.shape)
    starts, limits = [0] * len(shape), list(shape)
    starts[axis], limits[axis], shape[axis] = start, stop, stop - start
    bounds = {"start_indices": starts, "limit_indices": limits, "strides": [1] * len(shape)}
    return _op(
        "slice", shape, value, [value], **{name: ir.DenseI64ArrayAttr.get(values) for name, values in bounds.items()}
    )


def _reversed(value: ir.Value, axis: int) -> ir.Value:
    return _op("reverse", value.type.shape, value, [value], dimensions=ir.DenseI64ArrayAttr.get([axis]))


def _concatenated(values: Sequence[ir.Value], axis: int) -> ir.Value:
    shape = list(values[0].type.shape)
    shape[axis] = sum(value.type.shape[axis] for value in values)
    dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
    return _op("concatenate", shape, values[0], values, dimension=dimension)


def _scaled(value: ir.Value, factor: float) -> ir.Value:
    return _times(value, _broadcast(_constant(np.array(factor), value), [], value.type.shape))


Product = Callable[[ir.Value, ir.Value], ir.Value]


def _times(a: ir.Value, b: ir.Value) -> ir.Value:
    return _op("multiply", a.type.shape, a, [a, b])


def _rotated(parts: _Parts, times: Product, cosines: ir.Value, sines: ir.Value) -> _Parts:
    a, b = times(parts.real, cosines), times(parts.imaginary, sines)
    c, d = times(parts.imaginary, cosines), times(parts.real, sines)
    return _Parts(_op("add", a.type.shape, a, [a, b]), _op("subtract", c.type.shape, c, [c, d]))
