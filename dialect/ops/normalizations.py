"""Rows of the op table for normalizations over the last axes: softmax, log_softmax, layer_norm, rms_norm.

In linalg they are decomposed into other ops, which upstream passes fuse; the `relax` pipeline has operators of its own.
fp16 and bf16 are computed in fp32 throughout and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlirtri.dialect.base.tensor_type import TensorType, same_shape
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import KernelTypeError, KernelValueError


def _infer_axis(types, attributes):
    [x] = types
    if not x.dtype.is_float:
        raise KernelTypeError(f"this operation takes floats, got {x}")
    if not 0 <= attributes["axis"] < max(1, x.rank):
        raise KernelValueError(f"axis {attributes['axis']} is not an axis of {x}")
    return x


def _infer_normalized(types, attributes):
    x, *parameters = types
    count = attributes["normalized"]
    if not x.dtype.is_float or not 1 <= count <= x.rank:
        raise KernelTypeError(f"normalising the last {count} axes of {x} is not possible")
    for parameter in parameters:
        if not same_shape(parameter.shape, x.shape[-count:]) or parameter.dtype != x.dtype:
            raise KernelTypeError(
                f"the weight and bias for the last {count} axes of {x} have to be {x.with_shape(x.shape[-count:])}, "
                f"got {parameter}"
            )
    return x


def _shifted(t, x, axis):
    """Return x minus its maximum along the axis, so that exp cannot overflow."""
    if x.type.rank == 0 or x.type.size == 0:
        return t.subtract(x, x)
    return t.subtract(x, t.max(x, axes=(axis,), keepdims=True))


def _axes(x, axis):
    return (axis,) if x.type.rank else ()


def _softmax(t, x, axis):
    weights = t.exp(_shifted(t, x, axis))
    return t.divide(weights, t.sum(weights, axes=_axes(x, axis), keepdims=True))


def _log_softmax(t, x, axis):
    shifted = _shifted(t, x, axis)
    return t.subtract(shifted, t.log(t.sum(t.exp(shifted), axes=_axes(x, axis), keepdims=True)))


def _last(x, normalized):
    return tuple(range(x.type.rank - normalized, x.type.rank))


def _layer_norm(t, x, *parameters, normalized, eps):
    """Normalize by mean and variance: Ba, Kiros & Hinton, "Layer Normalization", arXiv:1607.06450."""
    axes = _last(x, normalized)
    centered = t.subtract(x, t.mean(x, axes=axes, keepdims=True))
    variance = t.mean(t.multiply(centered, centered), axes=axes, keepdims=True)
    return _scaled(t, centered, variance, parameters, eps)


def _rms_norm(t, x, *parameters, normalized, eps):
    """Normalize by the root mean square: Zhang & Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467."""
    mean_square = t.mean(t.multiply(x, x), axes=_last(x, normalized), keepdims=True)
    return _scaled(t, x, mean_square, parameters, eps)


def _scaled(t, x, variance, parameters, eps):
    result = t.multiply(x, t.rsqrt(t.add(variance, t.constant(eps, x.type.dtype))))
    for combine, parameter in zip((t.multiply, t.add), parameters, strict=False):
        result = combine(result, parameter)
    return result


def _reference_softmax(x, axis):
    shifted = x.astype(np.float64) - (x.max(axis, keepdims=True, initial=-np.inf) if x.ndim else x)
    weights = np.exp(shifted)
    return (weights / (weights.sum(axis, keepdims=True) if x.ndim else weights)).astype(x.dtype)


def _reference_log_softmax(x, axis):
    with np.errstate(divide="ignore"):
        return np.log(_reference_softmax(x.astype(np.float64), axis)).astype(x.dtype)


def _reference_layer_norm(x, *parameters, normalized, eps):
    axes, wide = tuple(range(x.ndim - normalized, x.ndim)), x.astype(np.float64)
    centered = wide - wide.mean(axes, keepdims=True)
    return _reference_scaled(x, centered, (centered**2).mean(axes, keepdims=True), parameters, eps)


def _reference_rms_norm(x, *parameters, normalized, eps):
    axes, wide = tuple(range(x.ndim - normalized, x.ndim)), x.astype(np.float64)
    return _reference_scaled(x, wide, (wide**2).mean(axes, keepdims=True), parameters, eps)


def _reference_scaled(x, wide, variance, parameters, eps):
    result = wide / np.sqrt(variance + eps)
    if parameters:
        result = result * parameters[0]
    return (result + parameters[1] if len(parameters) > 1 else result).astype(x.dtype)


def _is_single(operand: TensorType, attributes) -> bool:
    """Return whether the operand is fp32: TVM's normalisations compute in fp32 for any input, and refuse fp64."""
    return operand.dtype.name == "float32"


def _relax_axis(name):
    return lambda ops, arguments, attributes, result: getattr(ops.nn, name)(arguments[0], axis=attributes["axis"])


def _relax_layer_norm(relax_ops, arguments, attributes, result):
    axes = list(range(result.rank - attributes["normalized"], result.rank))
    if len(arguments) == 3:
        return relax_ops.nn.layer_norm(*arguments, axes, epsilon=attributes["eps"])
    shape = result.shape[-attributes["normalized"] :]
    ones, zeros = relax_ops.ones(shape, result.dtype.name), relax_ops.zeros(shape, result.dtype.name)
    weight = arguments[1] if len(arguments) > 1 else ones
    return relax_ops.nn.layer_norm(arguments[0], weight, zeros, axes, epsilon=attributes["eps"])


def _relax_rms_norm(relax_ops, arguments, attributes, result):
    axes = list(range(result.rank - attributes["normalized"], result.rank))
    weight = (
        arguments[1]
        if len(arguments) > 1
        else relax_ops.ones(result.shape[-attributes["normalized"] :], result.dtype.name)
    )
    return relax_ops.nn.rms_norm(arguments[0], weight, axes, epsilon=attributes["eps"])


def rows() -> Iterator[Op]:
    for name, decompose, reference in (
        ("softmax", _softmax, _reference_softmax),
        ("log_softmax", _log_softmax, _reference_log_softmax),
    ):
        yield Op(
            name, "normalization", ("x",), {"axis": "int"}, _infer_axis, reference, decompose=decompose,
            relax=_relax_axis(name), relax_dtypes="f",
        )  # fmt: skip
    attributes = {"normalized": "int", "eps": "float"}
    for name, decompose, reference, relax in (
        ("layer_norm", _layer_norm, _reference_layer_norm, _relax_layer_norm),
        ("rms_norm", _rms_norm, _reference_rms_norm, _relax_rms_norm),
    ):
        yield Op(
            name, "normalization", ("x", "parameters*"), attributes, _infer_normalized, reference,
            decompose=decompose, relax=relax, relax_dtypes="f", relax_when=_is_single,
        )  # fmt: skip
