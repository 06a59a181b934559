"""Rows of the op table for reductions. `axes` is sorted, non-negative and complete; `keepdims` keeps size 1.

`sum prod max min any all argmax argmin` are structured operations; `mean var std` are decomposed.
Sums and products of fp16 and bf16 are accumulated in fp32. A maximum over a NaN is NaN; argmax finds the first NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.ops.op import Op, reference_dtype
from mlirtri.errors import KernelTypeError, KernelValueError

AXES = {"axes": "ints", "keepdims": "bool"}
LONGEST_SUM, LONGEST_HALF_SUM = 256, 16384
"""The largest numbers of fp32, and of fp16 or bf16, elements summed in fp32; longer sums accumulate in fp64."""


def reduced_shape(shape: Sequence[int | Size], axes: Sequence[int], keepdims: bool) -> tuple[int | Size, ...]:
    """Return `shape` without `axes`, or with size 1 there."""
    sizes = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return tuple(size for axis, size in enumerate(sizes) if keepdims or axis not in axes)


def _infer(kinds: str, result=None, needs_elements: bool = False, result_is_part: bool = False):
    def infer(types, attributes) -> TensorType:
        [operand] = types
        axes = attributes["axes"]
        if operand.dtype.kind not in kinds:
            raise KernelTypeError(f"this reduction does not take {operand.dtype}")
        if list(axes) != sorted(set(axes)) or any(not 0 <= axis < operand.rank for axis in axes):
            raise KernelValueError(f"axes {list(axes)} are not sorted axes of {operand}")
        if needs_elements and any(operand.shape[axis] == 0 for axis in axes):
            raise KernelValueError(f"a reduction of {operand} over axes {list(axes)} has no elements and no identity")
        shape = reduced_shape(operand.shape, axes, attributes["keepdims"])
        of_part = operand.dtype.part if result_is_part else operand.dtype
        return TensorType(shape, DTYPES[result] if result else of_part)

    return infer


def _reference(function):
    def reference(x, axes, keepdims):
        return function(x.astype(reference_dtype(x)), axis=tuple(axes), keepdims=keepdims).astype(x.dtype)

    return reference


def _arg_reference(function):
    def reference(x, axes, keepdims):
        other_axes = [axis for axis in range(x.ndim) if axis not in axes]
        length = prod(x.shape[axis] for axis in axes)
        moved = np.transpose(x, [*other_axes, *axes]).reshape([x.shape[axis] for axis in other_axes] + [length])
        shape = reduced_shape(x.shape, axes, keepdims)
        return function(moved, axis=-1).astype(np.int64).reshape(shape)

    return reference


def _mean(t, x, axes, keepdims):
    sum_ = t.sum(x, axes=axes, keepdims=keepdims)
    return t.divide(sum_, _count(t, x, axes))


def _count(t, x, axes, correction=0):
    """Return the number of reduced elements minus the correction, at least 0, in x's dtype."""
    sizes = [x.type.shape[axis] for axis in axes]
    if not any(map(is_dynamic, sizes)):
        return t.constant(max(0, prod(sizes) - correction), x.type.dtype)
    int64 = DTYPES["int64"]
    count = reduce(t.multiply, (t.size(x, axis=axis) for axis in axes))
    return t.cast(t.maximum(t.subtract(count, t.constant(correction, int64)), t.constant(0, int64)), x.type.dtype)


def _var(t, x, axes, keepdims, correction):
    """Compute the variance in two passes, mean first: the one-pass formula cancels (Chan, Golub & LeVeque 1983)."""
    squares = _squares(t, t.subtract(x, t.mean(x, axes=axes, keepdims=True)))
    sum_ = t.sum(squares, axes=axes, keepdims=keepdims)
    return t.divide(sum_, _count(t, squares, axes, correction))


def _squares(t, x):
    if not x.type.dtype.is_complex:
        return t.multiply(x, x)
    real, imaginary = t.real(x), t.imag(x)
    return t.add(t.multiply(real, real), t.multiply(imaginary, imaginary))


def _std(t, x, axes, keepdims, correction):
    return t.sqrt(t.var(x, axes=axes, keepdims=keepdims, correction=correction))


def _adds_few(operand: TensorType, attributes) -> bool:
    """Return whether Relax's sequential fp32 sum is precise enough for this operand, and not a constant."""
    is_single = operand.dtype.is_float and operand.dtype.bits < 64
    count = prod(operand.shape[axis] for axis in attributes["axes"])
    return count > 0 and (not is_single or count <= LONGEST_SUM)


def _relax_reduce(name):
    def rule(relax_ops, arguments, attributes, result):
        return getattr(relax_ops, name)(arguments[0], axis=list(attributes["axes"]), keepdims=attributes["keepdims"])

    return rule


def rows() -> Iterator[Op]:
    for name, kinds, reference in (("sum", "iufvc", np.sum), ("prod", "iufvc", np.prod)):
        yield Op(
            name, "reduction", ("x",), AXES, _infer(kinds), _reference(reference), structured=True,
            relax=_relax_reduce(name), relax_dtypes="iuf", relax_when=_adds_few,
        )  # fmt: skip
    for name, reference in (("max", np.max), ("min", np.min)):
        yield Op(
            name, "reduction", ("x",), AXES, _infer("iufvbc", needs_elements=True), _reference(reference),
            structured=True, relax=_relax_reduce(name), relax_dtypes="iu",
        )  # fmt: skip
    for name, reference in (("any", np.any), ("all", np.all)):
        yield Op(name, "reduction", ("x",), AXES, _infer("b"), _reference(reference), structured=True)
    for name, reference in (("argmax", np.argmax), ("argmin", np.argmin)):
        yield Op(
            name, "reduction", ("x",), AXES, _infer("iufvbc", "int64", needs_elements=True),
            _arg_reference(reference), structured=True,
        )  # fmt: skip
    with_correction = AXES | {"correction": "int"}
    yield Op(
        "mean", "reduction", ("x",), AXES, _infer("fvc"), _reference(np.mean), decompose=_mean,
        relax=_relax_reduce("mean"), relax_dtypes="f", relax_when=_adds_few,
    )  # fmt: skip
    for name, decompose, function in (("var", _var, np.var), ("std", _std, np.std)):
        yield Op(
            name, "reduction", ("x",), with_correction, _infer("fvc", result_is_part=True),
            _corrected(function), decompose=decompose,
        )  # fmt: skip


def _corrected(function):
    def reference(x, axes, keepdims, correction):
        with np.errstate(invalid="ignore", divide="ignore"):
            wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
            result = function(wide, axis=tuple(axes), keepdims=keepdims, ddof=correction)
            return np.asarray(result).astype(x.real.dtype)

    return reference
