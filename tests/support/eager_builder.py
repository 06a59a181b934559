"""A builder that computes with NumPy at once, and the library's own result beside it; shared by the tests of spellings.

Signatures, defaults and results are tested so without a compiler.
"""

from __future__ import annotations

import math
import operator
import sys
import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tolerances import within

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.ops import table as ops
from mlirtri.dialect.promotion.dtype_rules import Operand, result_dtypes
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.dialect.spellings.base.spelling import METHOD_OWNERS
from mlirtri.errors import KernelTypeError

each = {
    "divide": np.true_divide, "atan2": np.arctan2, "bitwise_not": np.invert, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "round": np.rint,
    "erf": np.vectorize(math.erf, otypes=[np.float64]), "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x, beta, threshold: np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta),
}  # fmt: skip


@dataclass(frozen=True)
class Scalar:
    """A Python float that is known at run time only."""

    value: float


class Eager:
    """The builder's contract, on NumPy arrays: arrays are tensors, Python numbers are known."""

    def __init__(self, semantics: str):
        self.semantics = semantics
        self.used: set[str] = set()

    def type_of(self, x):
        if isinstance(x, Scalar):
            return TensorType((), DTYPES["float64"])
        return TensorType(x.shape, as_dtype(x.dtype)) if isinstance(x, (np.ndarray, np.generic)) else None

    def weak_kind(self, x):
        if isinstance(x, Scalar):
            return "float"
        is_python = isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)
        return type(x).__name__ if is_python else None

    def python_scalar(self, x):
        return x if np.asarray(x).dtype == np.bool_ else Scalar(float(x))

    def number_of(self, size):
        return size

    def size_from(self, number):
        return max(0, int(number))

    def check(self, condition, error, message):
        if np.any(condition):
            raise error(message)

    def is_own_device(self, value):
        return str(value) in ("cpu", "cpu:0")

    def require_inside(self, indices, size, wraps=True):
        values = np.asarray(indices)
        if np.any((values < (-size if wraps else 0)) | (values >= size)):
            raise IndexError(f"a position is out of bounds for an axis of size {size}")

    def muted(self):
        return nullcontext()

    def smaller_size(self, x, y):
        return min(x, y)

    def fail(self, message, help=None):
        raise KernelTypeError(message, help=help)

    def __getattr__(self, op):
        if op.startswith("_"):
            raise AttributeError(op)

        def record(*arguments, **keywords):
            self.used.add(op)
            with np.errstate(all="ignore"):
                if (method := getattr(Eager, f"op_{op}", None)) is not None:
                    return method(self, *arguments, **keywords)
                return self.plain(op, *arguments, **keywords)

        return record

    def operand(self, x):
        if (kind := self.weak_kind(x)) is not None:
            return Operand(None, kind, value=None if isinstance(x, Scalar) else x)
        return Operand(as_dtype(x.dtype), rank=x.ndim)

    def plain(self, op, *operands, **attributes):
        """An elementwise op or a normalization, in the dtypes that promotion gives."""
        plan = result_dtypes(self.semantics, op, [self.operand(x) for x in operands])
        arrays = [self.array(x, dtype) for x, dtype in zip(operands, plan.compute, strict=True)]
        if plan.identity:
            return arrays[0]
        function = each.get(op) or getattr(np, op)
        return np.asarray(function(*arrays, **attributes)).astype(plan.result.numpy)

    def array(self, x, dtype):
        return np.asarray(x.value if isinstance(x, Scalar) else x).astype(dtype.numpy)

    def op_real(self, x):
        return np.real(x)

    def op_imag(self, x):
        return np.imag(x)

    def op_conj(self, x):
        return np.conj(x)

    def op_angle(self, x):
        return np.asarray(np.angle(x)).astype(result_dtypes(self.semantics, "exp", [self.operand(x)]).result.part.numpy)

    def op_complex(self, real, imag):
        return (real + 1j * imag).astype(np.result_type(real, imag, np.complex64))

    def op_cast(self, x, dtype):
        return self.array(x, dtype)

    def op_gelu(self, x, approximate="none"):
        inner = each["erf"](x / np.sqrt(2)) if approximate == "none" else np.tanh(
            np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        )  # fmt: skip
        return (0.5 * x * (1 + inner)).astype(x.dtype)

    def op_clip(self, x, low, high):
        bounds = [bound for bound in (x, low, high) if bound is not None]
        dtype = result_dtypes(self.semantics, "clip", [self.operand(bound) for bound in bounds]).result
        result = self.array(x, dtype)
        result = result if low is None else np.maximum(result, self.array(low, dtype))
        return result if high is None else np.minimum(result, self.array(high, dtype))

    def reduce(self, op, x, axis, keepdims, dtype=None, **options):
        plan = result_dtypes(self.semantics, op, [self.operand(x)], dtype)
        axis = tuple(axis) if isinstance(axis, list) else axis
        result = getattr(np, op)(self.array(x, plan.compute[0]), axis=axis, keepdims=keepdims, **options)
        return np.asarray(result).astype(plan.result.numpy)

    def op_softmax(self, x, axis):
        dtype = result_dtypes(self.semantics, "softmax", [self.operand(x)]).result
        x = self.array(x, dtype)
        exponentials = np.exp(x - x.max(axis, keepdims=True))
        return exponentials / exponentials.sum(axis, keepdims=True)

    def op_log_softmax(self, x, axis):
        return np.log(self.op_softmax(x, axis))

    def op_layer_norm(self, x, normalized_axes=1, weight=None, bias=None, eps=1e-5):
        axes = tuple(range(-normalized_axes, 0))
        result = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
        result = result if weight is None else result * weight
        return (result if bias is None else result + bias).astype(x.dtype)

    def op_rms_norm(self, x, normalized_axes=1, weight=None, eps=1e-6):
        result = x / np.sqrt((x * x).mean(tuple(range(-normalized_axes, 0)), keepdims=True) + eps)
        return (result if weight is None else result * weight).astype(x.dtype)

    def product(self, op, x, y):
        plan = result_dtypes(self.semantics, op, [self.operand(x), self.operand(y)])
        return np.asarray(getattr(np, op)(x, y)).astype(plan.result.numpy)

    def op_matmul(self, x, y):
        return self.product("matmul", x, y)

    def op_dot(self, x, y):
        return self.product("dot", x, y)

    def op_reshape(self, x, shape):
        return np.reshape(self.array(x, self.type_of(x).dtype) if self.type_of(x) else x, shape)

    def op_transpose(self, x, axes=None):
        return np.transpose(x, axes)

    def op_broadcast_to(self, x, shape):
        return np.broadcast_to(x, shape)

    def op_squeeze(self, x, axis=None):
        return np.squeeze(x, axis)

    def op_unsqueeze(self, x, axis):
        return np.expand_dims(x, axis)

    def join(self, op, xs, axis):
        dtype = result_dtypes(self.semantics, op, [self.operand(x) for x in xs]).result
        return getattr(np, op)([self.array(x, dtype) for x in xs], axis=axis)

    def op_concatenate(self, xs, axis):
        return self.join("concatenate", xs, axis)

    def op_stack(self, xs, axis):
        return self.join("stack", xs, axis)

    def op_split(self, x, sections_or_indices, axis):
        return tuple(np.split(x, sections_or_indices, axis))

    def op_flip(self, x, axis=None):
        return np.flip(x, axis)

    def op_roll(self, x, shift, axis):
        return np.roll(x, shift, axis)

    def op_cut(self, x, axis, part):
        return np.asarray(x)[(slice(None),) * axis + (part,)]

    def op_pad(self, x, widths, value):
        return np.pad(x, widths, constant_values=value)

    def op_literal(self, values, shape, dtype):
        return np.array(values, dtype.numpy).reshape(shape)

    def op_scan(self, x, kind, axis, dtype=None):
        plan = result_dtypes(self.semantics, kind, [self.operand(x)], dtype)
        ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
        return ufunc.accumulate(self.array(x, plan.compute[0]), axis, plan.result.numpy)

    def op_sort(self, x, axis):
        return np.sort(x, axis)

    def op_argsort(self, x, axis):
        return np.argsort(x, axis, kind="stable")

    def op_searchsorted(self, x, values, right):
        return np.asarray(np.searchsorted(x, values, "right" if right else "left"))

    def op_bins(self, x, edges):
        x, edges = np.asarray(x), np.asarray(edges)
        bin = np.where(x == edges[-1], len(edges) - 2, np.searchsorted(edges, x, "right") - 1)
        return np.where((x >= edges[0]) & (x <= edges[-1]), bin, len(edges) - 1)

    def op_add_at(self, x, positions, values):
        result, in_bounds = np.array(x), (positions >= 0) & (positions < len(x))
        np.add.at(result, positions[in_bounds], np.asarray(values, x.dtype)[in_bounds])
        return result

    def op_correlate(self, x, y):
        return self.product("dot", x, y) if len(x) == len(y) == 0 else np.correlate(x, y, "valid")

    def op_convolution(self, x, w, strides, dilations, low, high, spread, groups):
        numbers = {"strides": strides, "dilations": dilations, "low": low, "high": high, "spread": spread}
        return ops.TABLE["convolution"].numpy(x, w, **numbers, groups=groups)

    def op_pool(self, x, kind, window, strides, dilations):
        return ops.TABLE["pool"].numpy(x, kind=kind, window=window, strides=strides, dilations=dilations)

    def op_pick(self, x, positions):
        return np.asarray(np.asarray(x)[positions])

    def op_full(self, shape, value, dtype):
        return np.full(shape, value, dtype.numpy)

    def op_empty(self, shape, dtype):
        return np.zeros(shape, dtype.numpy)

    def op_arange(self, start, stop, step, dtype):
        return np.arange(start, stop, step, dtype.numpy)

    def op_eye(self, n, m, k, dtype):
        return np.eye(n, m, k, dtype.numpy)


for _op in ("sum", "prod", "mean", "max", "min", "any", "all", "argmax", "argmin"):

    def _reduction(self, x, axis=None, keepdims=False, dtype=None, _op=_op):
        return self.reduce(_op, x, axis, keepdims, dtype)

    setattr(Eager, f"op_{_op}", _reduction)
for _op in ("var", "std"):

    def _deviation(self, x, axis=None, keepdims=False, correction=0, _op=_op):
        return self.reduce(_op, x, axis, keepdims, ddof=correction)

    setattr(Eager, f"op_{_op}", _deviation)


# --- comparing with the library ------------------------------------------------------------------------------------


def in_torch(value):
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value))
    if isinstance(value, (tuple, list)) and any(isinstance(item, np.ndarray) for item in value):
        return type(value)(in_torch(item) for item in value)
    return value


def flat(result) -> list:
    return [leaf for item in result for leaf in flat(item)] if isinstance(result, (tuple, list)) else [result]


def library_function(name: str):
    """The library's own function; a method is called on its first argument."""
    owner, *path = name.split(".")
    if owner not in METHOD_OWNERS:
        return operator.attrgetter(".".join(path))(sys.modules[owner])
    if spellings.lookup(name).is_attribute:
        return operator.attrgetter(path[0])
    return lambda tensor, *arguments, **keywords: getattr(tensor, path[0])(*arguments, **keywords)


def call(name: str, *arguments, **keywords):
    builder = Eager("torch" if name.startswith(("torch.", "Tensor.")) else "numpy")
    spelling = spellings.lookup(name)
    result = spelling.call(builder, *arguments, **keywords)
    assert builder.used <= {*spelling.ops, "cast"}, f"{name} does not declare {builder.used - set(spelling.ops)}"
    return result


def check(name: str, *arguments, **keywords) -> None:
    ours = flat(call(name, *arguments, **keywords))
    if name.startswith(("torch.", "Tensor.")):
        arguments = [in_torch(value) for value in arguments]
        keywords = {key: in_torch(value) for key, value in keywords.items()}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = flat(library_function(name)(*arguments, **keywords))
    # NumPy knows no conjugates that are yet to be done.
    theirs = [result.resolve_conj() if isinstance(result, torch.Tensor) else result for result in theirs]
    assert len(ours) == len(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        mine, expected = np.asarray(mine), np.asarray(expected)
        assert (mine.shape, mine.dtype) == (expected.shape, expected.dtype)
        if "empty" not in name:
            np.testing.assert_allclose(mine, expected, **within(expected.dtype))


def refused(sentence: str, name: str, *arguments, **keywords) -> KernelTypeError:
    with pytest.raises(KernelTypeError, match=sentence) as caught:
        call(name, *arguments, **keywords)
    return caught.value
