"""Every spelling against its library: same call, same values, same dtypes; and what it refuses.

The builder here computes with NumPy at once, so that signatures, defaults and results are tested without a compiler.
"""

from __future__ import annotations

import inspect
import math
import operator
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tolerances import tolerance, within

from mlirtri.dialect import spellings, spellings_numpy, spellings_torch
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.dialect.dtypes import DTYPES, as_dtype
from mlirtri.dialect.mlir import func, ir
from mlirtri.dialect.promotion import Operand, result_dtypes
from mlirtri.dialect.types import TensorType
from mlirtri.errors import KernelError, KernelTypeError
from mlirtri.lowering.language import Language
from mlirtri.lowering.tri_builder import Tensor

# --- a builder that computes at once -------------------------------------------------------------------------------

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
        return type(x).__name__ if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic) else None

    def python_scalar(self, x):
        return Scalar(float(x))

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

    def op_cast(self, x, dtype):
        return self.array(x, dtype)

    def op_gelu(self, x, approximate="none"):
        inner = each["erf"](x / np.sqrt(2)) if approximate == "none" else np.tanh(
            np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        )  # fmt: skip
        return (0.5 * x * (1 + inner)).astype(x.dtype)

    def op_clip(self, x, low, high):
        given = [bound for bound in (x, low, high) if bound is not None]
        dtype = result_dtypes(self.semantics, "clip", [self.operand(bound) for bound in given]).result
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
    if owner not in spellings.METHOD_OWNERS:
        return operator.attrgetter(".".join(path))(sys.modules[owner])
    if spellings.lookup(name).is_attribute:
        return operator.attrgetter(path[0])
    return lambda tensor, *arguments, **keywords: getattr(tensor, path[0])(*arguments, **keywords)


def call(name: str, *arguments, **keywords):
    builder = Eager("torch" if name.startswith(("torch.", "Tensor.")) else "numpy")
    found = spellings.lookup(name)
    result = found.call(builder, *arguments, **keywords)
    assert builder.used <= {*found.ops, "cast"}, f"{name} does not declare {builder.used - set(found.ops)}"
    return result


def check(name: str, *arguments, **keywords) -> None:
    ours = flat(call(name, *arguments, **keywords))
    if name.startswith(("torch.", "Tensor.")):
        arguments = [in_torch(value) for value in arguments]
        keywords = {key: in_torch(value) for key, value in keywords.items()}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = flat(library_function(name)(*arguments, **keywords))
    assert len(ours) == len(theirs)
    for mine, wanted in zip(ours, theirs, strict=True):
        mine, wanted = np.asarray(mine), np.asarray(wanted)
        assert (mine.shape, mine.dtype) == (wanted.shape, wanted.dtype)
        if "empty" not in name:
            np.testing.assert_allclose(mine, wanted, **within(wanted.dtype))


def refused(sentence: str, name: str, *arguments, **keywords) -> KernelTypeError:
    with pytest.raises(KernelTypeError, match=sentence) as caught:
        call(name, *arguments, **keywords)
    return caught.value


random = np.random.default_rng(0)
X = random.uniform(0.1, 0.9, (2, 3)).astype(np.float32)
Y = random.uniform(-2, 2, (2, 3)).astype(np.float32)
V = random.uniform(-2, 2, 3).astype(np.float32)
B = random.uniform(-2, 2, (4, 2, 3)).astype(np.float32)
C = random.uniform(-2, 2, (4, 3, 2)).astype(np.float32)
N = np.array([[3, -7, 5], [-2, 9, 1]], np.int32)
P = np.array([[1, 2, 3], [4, 2, 1]], np.int32)
M = np.array([[True, False, True], [False, True, True]])
S = np.ones((1, 3, 1), np.float32)
Z = np.array(2.0, np.float32)


class Case:
    """A call: ``case("numpy.sum", X, axis=1)``."""

    def __init__(self, name: str, *arguments, **keywords):
        self.name, self.arguments, self.keywords = name, arguments, keywords

    def __str__(self) -> str:
        shown = [f"{v.dtype}{v.shape}" if isinstance(v, np.ndarray) else str(v)[:30] for v in self.arguments]
        return f"{self.name}({', '.join([*shown, *(f'{key}={value}' for key, value in self.keywords.items())])})"


NUMPY = [
    *(Case(f"numpy.{op}", x) for op in ("sum", "prod", "max", "amin", "mean", "var", "std") for x in (X, N)),
    *(Case(f"numpy.{op}", x, 1) for op in ("any", "all", "argmax", "argmin", "min") for x in (X, N, M)),
    Case("numpy.sum", X, (0, 1), keepdims=True), Case("numpy.sum", N, dtype=np.int8), Case("numpy.sum", X, -1, "f8"),
    Case("numpy.mean", N, 0, np.float32), Case("numpy.std", X, 0, ddof=1), Case("numpy.std", X, correction=1),
    Case("numpy.var", X, axis=1, keepdims=True), Case("numpy.var", X, dtype=np.float64),
    Case("numpy.max", X, out=None), Case("numpy.argmax", X, keepdims=True), Case("numpy.sum", X, axis=()),
    Case("numpy.round", Y * 10), Case("numpy.round", Y, 2), Case("numpy.round", N * 7, -1), Case("numpy.round", N, 2),
    Case("numpy.around", Y, decimals=1), Case("numpy.rint", N), Case("numpy.rint", Y), Case("numpy.fabs", N),
    Case("numpy.fix", Y * 3), Case("numpy.float_power", N, P), Case("numpy.divmod", N, P), Case("numpy.divmod", Y, 2),
    Case("numpy.where", M, X, Y), Case("numpy.where", N, 1, 2.5), Case("numpy.clip", Y, -1, 1),
    Case("numpy.clip", Y, None, 0.5), Case("numpy.clip", Y, min=0.0), Case("numpy.clip", P.astype(np.uint8), -1, 300),
    Case("numpy.clip", P.astype(np.uint8), 2, 300), Case("numpy.clip", N, a_min=0, a_max=2.5),
    Case("numpy.clip", Y, X, 1), Case("numpy.exp", N, dtype=np.float32), Case("numpy.add", N, N, dtype=np.float64),
    Case("numpy.add", X, 1), Case("numpy.exp", 2), Case("numpy.add", 1, 2.5), Case("numpy.less", 1, 2),
    Case("numpy.sum", 3), Case("numpy.matmul", X, C[0]), Case("numpy.matmul", B, C), Case("numpy.matmul", V, C),
    Case("numpy.matmul", X, V), Case("numpy.dot", X, 2), Case("numpy.dot", X, C[0]), Case("numpy.dot", V, V),
    Case("numpy.inner", X, Y), Case("numpy.inner", X, V), Case("numpy.vdot", X, Y), Case("numpy.outer", X, V),
    Case("numpy.dot", a=V, b=V), Case("numpy.reshape", X, (3, 2)), Case("numpy.reshape", X, -1),
    Case("numpy.ravel", X), Case("numpy.reshape", X, shape=6), Case("numpy.transpose", B),
    Case("numpy.transpose", B, (1, 2, 0)), Case("numpy.permute_dims", B, [0, 2, 1]),
    Case("numpy.matrix_transpose", B), Case("numpy.swapaxes", B, 0, -1), Case("numpy.moveaxis", B, 0, -1),
    Case("numpy.moveaxis", B, (0, 1), (2, 0)), Case("numpy.broadcast_to", V, (2, 3)), Case("numpy.squeeze", S),
    Case("numpy.squeeze", S, 0), Case("numpy.squeeze", S, (0, 2)), Case("numpy.expand_dims", X, 1),
    Case("numpy.expand_dims", X, (0, -1)), Case("numpy.flip", X), Case("numpy.flip", X, 1), Case("numpy.flipud", X),
    Case("numpy.fliplr", X), Case("numpy.concatenate", (X, N)), Case("numpy.concatenate", [X, Y], 1),
    Case("numpy.concatenate", (X, V), axis=None), Case("numpy.concat", (N, N), dtype=np.float32),
    Case("numpy.stack", (X, Y)), Case("numpy.stack", (X, Y), axis=-1), Case("numpy.vstack", (V, X)),
    Case("numpy.hstack", (V, V)), Case("numpy.hstack", (X, Y)), Case("numpy.split", X, 3, 1),
    Case("numpy.split", X, [1, 2], axis=1), Case("numpy.array_split", V, 2), Case("numpy.array_split", X, (1,), 1),
    Case("numpy.unstack", X), Case("numpy.unstack", X, axis=1), Case("numpy.tril", B), Case("numpy.triu", X, 1),
    Case("numpy.full", (2, 3), 7), Case("numpy.full", 3, 2.5, np.int32), Case("numpy.full", (2, 3), V),
    Case("numpy.zeros", (2, 3)), Case("numpy.ones", 3, dtype="i8"), Case("numpy.empty", (2, 2), np.float32),
    Case("numpy.zeros_like", N), Case("numpy.ones_like", N, np.float32), Case("numpy.full_like", N, 2.5),
    Case("numpy.empty_like", X), Case("numpy.zeros_like", X, shape=(4,)), Case("numpy.arange", 5),
    Case("numpy.arange", 5.0), Case("numpy.arange", 1, 7, 2), Case("numpy.arange", 1, 2, 0.25),
    Case("numpy.arange", 3, dtype=np.float32), Case("numpy.eye", 3), Case("numpy.eye", 2, 4, 1, np.int32),
    Case("numpy.identity", 2), Case("numpy.astype", X, np.int32), Case("numpy.asarray", X, np.float64),
    Case("numpy.asarray", 2), Case("numpy.copy", X), Case("numpy.shape", X), Case("numpy.ndim", X),
    Case("numpy.size", X), Case("numpy.size", X, 1), Case("ndarray.sum", X, 1), Case("ndarray.std", X, ddof=1),
    Case("ndarray.max", N), Case("ndarray.round", Y, 1), Case("ndarray.reshape", X, 3, 2),
    Case("ndarray.reshape", X, (3, -1)), Case("ndarray.flatten", X), Case("ndarray.transpose", B),
    Case("ndarray.transpose", B, 2, 0, 1), Case("ndarray.transpose", B, (0, 2, 1)),
    Case("ndarray.transpose", B, None), Case("ndarray.astype", X, "i4"), Case("ndarray.T", B), Case("ndarray.mT", B),
    Case("ndarray.clip", Y, -1, 1), Case("ndarray.clip", Y, max=0), Case("ndarray.dot", X, C[0]),
    Case("ndarray.ravel", X), Case("ndarray.swapaxes", X, 0, 1), Case("ndarray.squeeze", S), Case("ndarray.mean", N),
    Case("ndarray.all", M, 0),
]  # fmt: skip

TORCH = [
    *(Case(f"torch.{op}", x) for op in ("sum", "prod", "max", "amin") for x in (X, N)),
    *(Case(f"torch.{op}", X) for op in ("mean", "var", "std", "var_mean", "std_mean", "argmax")),
    *(Case(f"torch.{op}", x, 1) for op in ("max", "min", "any", "all", "sum", "amax") for x in (X, N, M)),
    Case("torch.prod", X, 1), Case("torch.prod", N, 1),
    Case("torch.max", X, 0, True), Case("torch.max", X, dim=-1, keepdim=True), Case("torch.max", X, Y),
    Case("torch.min", X, other=Y), Case("torch.sum", X, (0, 1)), Case("torch.sum", X, ()),
    Case("torch.sum", X, axis=0), Case("torch.sum", X, 0, keepdims=True), Case("torch.sum", N, dtype=torch.int8),
    Case("torch.mean", N, dtype=torch.float64), Case("torch.mean", X, [0, 1]), Case("torch.std", X, 0),
    Case("torch.std", X, correction=0), Case("torch.std", X, 0, False), Case("torch.std", X, False),
    Case("torch.var", X, 1, keepdim=True, correction=0), Case("torch.var", X, 0, unbiased=False),
    Case("torch.argmin", X, 1, True), Case("torch.any", P.astype(np.uint8)), Case("torch.any", M, (0, 1)),
    Case("torch.logsumexp", X, 0), Case("torch.logsumexp", X, (0, 1), True),
    Case("torch.logsumexp", np.array([-np.inf, -np.inf], np.float32), 0), Case("torch.add", X, Y, alpha=2),
    Case("torch.add", 1, X), Case("torch.sub", N, 1, alpha=3), Case("torch.mul", 2.0, X), Case("torch.div", N, P),
    Case("torch.div", N, P, rounding_mode="trunc"), Case("torch.div", N, P, rounding_mode="floor"),
    Case("torch.div", N, -2, rounding_mode="trunc"), Case("torch.div", Y, X, rounding_mode="trunc"),
    Case("torch.true_divide", N, 2), Case("torch.pow", 2, X), Case("torch.pow", X, 2),
    Case("torch.float_power", N, 2), Case("torch.eq", input=X, other=1), Case("torch.round", Y * 3),
    Case("torch.round", Y, decimals=1), Case("torch.where", M, X, Y), Case("torch.where", M, 1, 0.5),
    Case("torch.where", M, N, 0.5), Case("torch.clamp", Y, -1, 1), Case("torch.clamp", Y, min=0),
    Case("torch.clip", N, max=2.5), Case("torch.clamp", Y, X), Case("torch.clamp_min", Y, 0),
    Case("torch.clamp_max", N, 2), Case("torch.masked_fill", X, M, -1), Case("torch.masked_fill", N, M, 2.5),
    Case("torch.absolute", input=Y), Case("torch.exp", x=Y), Case("torch.matmul", B, C), Case("torch.mm", X, C[0]),
    Case("torch.bmm", B, C), Case("torch.mv", X, V), Case("torch.dot", V, V), Case("torch.inner", X, Y),
    Case("torch.inner", X, Z), Case("torch.outer", V, V), Case("torch.addmm", X[:, :2], X, C[0], beta=0.5, alpha=2),
    Case("torch.baddbmm", B[:, :, :2], B, C), Case("torch.reshape", X, (3, 2)), Case("torch.flatten", B),
    Case("torch.flatten", B, 1), Case("torch.flatten", Z), Case("torch.ravel", X),
    Case("torch.unflatten", B, 0, (2, -1)), Case("torch.transpose", B, 0, 2), Case("torch.swapaxes", B, 0, 1),
    Case("torch.permute", B, (2, 0, 1)), Case("torch.movedim", B, 0, -1), Case("torch.movedim", B, (0, 1), (1, 2)),
    Case("torch.t", X), Case("torch.t", V), Case("torch.adjoint", B), Case("torch.broadcast_to", V, (2, 3)),
    Case("torch.squeeze", S), Case("torch.squeeze", S, 1), Case("torch.squeeze", S, (0, 1)),
    Case("torch.squeeze", Z, 0), Case("torch.unsqueeze", X, -1), Case("torch.flip", X, (0, 1)),
    Case("torch.flip", X, [1]), Case("torch.flip", X, ()), Case("torch.flipud", X), Case("torch.fliplr", X),
    Case("torch.tril", X), Case("torch.triu", B, 1), Case("torch.tril", N, diagonal=-1), Case("torch.cat", (X, N)),
    Case("torch.cat", [X, Y], 1), Case("torch.cat", (X, Y), axis=1), Case("torch.concatenate", (X, Y), axis=1),
    Case("torch.stack", (X, Y), -1), Case("torch.stack", [Z, Z]), Case("torch.vstack", (V, X)),
    Case("torch.hstack", (V, V)), Case("torch.split", B, 3), Case("torch.split", X, [1, 2], dim=1),
    Case("torch.chunk", B, 3), Case("torch.chunk", V, 2), Case("torch.tensor_split", V, 2),
    Case("torch.tensor_split", B, (1, 3)), Case("torch.unbind", X), Case("torch.unbind", X, 1),
    Case("torch.narrow", B, 0, 1, 2), Case("torch.narrow", B, 0, -2, 1), Case("torch.full", (2, 3), 7),
    Case("torch.full", (2,), 2.5), Case("torch.full", (2,), True), Case("torch.full", (2,), 3, dtype=torch.float16),
    Case("torch.zeros", 2, 3), Case("torch.zeros", (2, 3)), Case("torch.ones", 3, dtype=torch.int64),
    Case("torch.empty", 2), Case("torch.zeros_like", N), Case("torch.ones_like", N, dtype=torch.float32),
    Case("torch.empty_like", X), Case("torch.full_like", N, 2.5), Case("torch.arange", 5),
    Case("torch.arange", 1, 2.5, 0.5), Case("torch.arange", end=4), Case("torch.arange", 1, 3, dtype=torch.float64),
    Case("torch.eye", 3), Case("torch.eye", 2, 3), Case("torch.clone", X), Case("torch.numel", X),
    Case("torch.softmax", X, 1), Case("torch.softmax", X, -1, torch.float64), Case("torch.log_softmax", X, dim=0),
    Case("torch.special.softmax", X, 0), Case("torch.layer_norm", X, (3,)), Case("torch.rms_norm", X, (3,), V),
    Case("Tensor.sum", X, 1, True), Case("Tensor.max", X), Case("Tensor.max", X, 1),
    Case("Tensor.round", Y, decimals=1), Case("Tensor.where", X, M, Y), Case("Tensor.where", X, M, 0.0),
    Case("Tensor.reshape", X, 3, 2), Case("Tensor.view", X, (-1,)), Case("Tensor.view_as", X, X),
    Case("Tensor.permute", B, 2, 0, 1), Case("Tensor.permute", B, (2, 0, 1)), Case("Tensor.expand", S, 4, 3, -1),
    Case("Tensor.expand", V, (2, -1)), Case("Tensor.expand_as", V, X), Case("Tensor.broadcast_to", V, (2, 3)),
    Case("Tensor.flip", X, 0), Case("Tensor.flip", X, (0, 1)), Case("Tensor.to", X, torch.float64),
    Case("Tensor.to", X, dtype=torch.int32), Case("Tensor.to", X, N), Case("Tensor.type", X, torch.float64),
    Case("Tensor.type_as", X, N),
    *(Case(f"Tensor.{word}", Y) for word in ("float", "half", "double", "int", "long", "short")),
    *(Case(f"Tensor.{word}", Y) for word in ("char", "bool", "contiguous", "detach")),
    Case("Tensor.byte", P), Case("Tensor.size", X), Case("Tensor.size", X, 1), Case("Tensor.dim", X),
    Case("Tensor.numel", X), Case("Tensor.new_zeros", N, 2, 3), Case("Tensor.new_ones", N, (2,)),
    Case("Tensor.new_full", N, (2,), 3), Case("Tensor.new_empty", N, (2,)), Case("Tensor.T", X), Case("Tensor.mT", B),
    Case("Tensor.H", X), Case("Tensor.mH", B), Case("Tensor.t", X), Case("Tensor.transpose", B, 0, 1),
    Case("Tensor.add", X, Y, alpha=2), Case("Tensor.clamp", Y, 0), Case("Tensor.softmax", X, 1),
    Case("Tensor.std", X, 0), Case("Tensor.masked_fill", X, M, 0.0), Case("Tensor.split", B, 3),
    Case("Tensor.matmul", X, V), Case("Tensor.unflatten", B, 0, (2, 2)), Case("Tensor.argmax", X, 1),
    Case("Tensor.mul", X, 2),
]  # fmt: skip

F = "torch.nn.functional"
MASK = np.array([[True, False, True], [False, False, False], [True, True, True]])
Q, K, W = (random.uniform(-2, 2, (2, 3, 5)).astype(np.float32) for _ in range(3))
NETWORKS = [
    *(Case(f"{F}.{op}", 3 * Y) for op in ( "relu", "silu", "sigmoid", "tanh", "gelu")),
    *(Case(f"{F}.{op}", 3 * Y) for op in ("softplus", "leaky_relu", "relu6", "elu", "logsigmoid")),
    Case(f"{F}.gelu", Y, approximate="tanh"), Case(f"{F}.softplus", Y, 2, 3), Case(f"{F}.softplus", Y, beta=0.5),
    Case(f"{F}.leaky_relu", Y, 0.2), Case(f"{F}.elu", Y, alpha=0.5), Case(f"{F}.softmax", Y, 1),
    Case(f"{F}.softmax", Y, dim=0, dtype=torch.float64), Case(f"{F}.log_softmax", Y, -1), Case(f"{F}.softmin", Y, 1),
    Case(f"{F}.layer_norm", X, (3,)), Case(f"{F}.layer_norm", X, (3,), V, V, 1e-3),
    Case(f"{F}.layer_norm", B, (2, 3)), Case(f"{F}.rms_norm", X * 1e-3, (3,)),
    Case(f"{F}.rms_norm", X, [3], V, eps=1e-3), Case(f"{F}.linear", X, Y), Case(f"{F}.linear", X, Y, X[:, 0]),
    Case(f"{F}.linear", B, V), Case(f"{F}.scaled_dot_product_attention", Q, K, W),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, is_causal=True),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, scale=0.3),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, MASK),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, np.where(MASK, 0, -np.inf).astype(np.float32)),
]  # fmt: skip


@pytest.mark.parametrize("case", [*NUMPY, *TORCH, *NETWORKS], ids=str)
def test_same_call_same_result(case):
    check(case.name, *case.arguments, **case.keywords)


def leaves(value) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value] if isinstance(value, np.ndarray) else []


def with_tensors(value, tensors):
    """`value` with the next of `tensors` in place of each array."""
    if isinstance(value, (tuple, list)):
        return type(value)(with_tensors(item, tensors) for item in value)
    return next(tensors) if isinstance(value, np.ndarray) else value


@pytest.fixture(scope="module")
def context():
    with (made := new_context()), ir.Location.unknown():
        yield made


@pytest.mark.parametrize("case", [*NUMPY, *TORCH, *NETWORKS], ids=str)
def test_the_builder_of_kernels_gives_the_same_types(case, context):
    """The same call with the builder that makes MLIR operations."""
    arrays = leaves([*case.arguments, *case.keywords.values()])
    types = [TensorType(array.shape, as_dtype(array.dtype)) for array in arrays]
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        block = func.FuncOp("kernel", ir.FunctionType.get([mlir_type(t) for t in types], [])).add_entry_block()
    tensors = iter([Tensor(argument, t) for argument, t in zip(block.arguments, types, strict=True)])
    builder = Language("torch" if case.name.startswith(("torch.", "Tensor.")) else "numpy")
    arguments = [with_tensors(value, tensors) for value in case.arguments]
    keywords = {key: with_tensors(value, tensors) for key, value in case.keywords.items()}
    with ir.InsertionPoint(block):
        result = flat(spellings.lookup(case.name).call(builder, *arguments, **keywords))
    wanted = flat(call(case.name, *case.arguments, **case.keywords))
    for mine, theirs in zip(result, wanted, strict=True):
        expected = TensorType(theirs.shape, as_dtype(theirs.dtype)) if isinstance(theirs, np.ndarray) else theirs
        assert (mine.type if isinstance(mine, Tensor) else mine) == expected


@pytest.mark.parametrize("op", [*spellings_numpy._UNARY, *spellings_numpy._TESTS])
def test_numpy_unary_rows(op):
    for word in (spellings_numpy._UNARY | spellings_numpy._TESTS)[op].split():
        check(f"numpy.{word}", N if op == "bitwise_not" else X + 1 if op == "acosh" else X)


@pytest.mark.parametrize("op", [*spellings_numpy._BINARY, *spellings_numpy._COMPARISONS])
def test_numpy_binary_rows(op):
    operands = (N, P) if "bit" in op or "shift" in op else (Y, X)
    operands = (X, Y) if op == "power" else operands
    for word in spellings_numpy._BINARY.get(op, op).split():
        check(f"numpy.{word}", *operands)
        check(f"numpy.{word}", N if operands[0] is N else X, 2)


@pytest.mark.parametrize("op", spellings_torch._UNARY)
def test_torch_unary_rows(op):
    for word in spellings_torch._UNARY[op].split():
        check(f"torch.{word}", N if op == "bitwise_not" else X + 1 if op == "acosh" else X)
        if "special" not in word:
            check(f"Tensor.{word}", N if op == "bitwise_not" else X + 1 if op == "acosh" else X)


TORCH_BINARY = spellings_torch._BINARY | spellings_torch._TENSOR_AND_NUMBER | spellings_torch._TWO_TENSORS


@pytest.mark.parametrize("op", TORCH_BINARY)
def test_torch_binary_rows(op):
    operands = (N, P) if "bit" in op or "shift" in op else (Y, X)
    for word in TORCH_BINARY[op].split():
        check(f"torch.{word}", *operands)
        check(f"Tensor.{word}", *operands)
        if op in spellings_torch._TWO_TENSORS:
            refused("takes a tensor here, not a Python int", f"torch.{word}", operands[0], 2)
        else:
            check(f"torch.{word}", operands[0], 2)


# --- math ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in dir(math) if inspect.isbuiltin(getattr(math, n)) and n[0] != "_"])
def test_math_folds_whatever_it_has(name):
    arguments = {
        "dist": ((1.0, 2.0), (3.0, 4.0)), "fsum": ([1, 2.5],), "prod": ([2, 3],), "sumprod": ([1, 2], [3, 4]),
        "fma": (1.0, 2.0, 3.0), "acosh": (1.5,), "factorial": (5,), "isqrt": (17,),
        **dict.fromkeys(("gcd", "lcm", "comb", "perm", "ldexp"), (7, 2)),
        **dict.fromkeys(("atan2", "copysign", "fmod", "isclose", "nextafter", "pow", "remainder", "hypot"), (1.5, 2.0)),
    }.get(name, (0.5,))  # fmt: skip
    assert call(f"math.{name}", *arguments) == getattr(math, name)(*arguments)


@pytest.mark.parametrize(
    "name",
    ["exp", "log", "sqrt", "fabs", "erf", "tanh", "degrees", "radians", "log2", "asin", "floor", "ceil", "isnan"],
)
def test_math_of_run_time_scalars(name):
    for scalar in (Scalar(0.7), np.array(0.7), np.array(0.7, np.float32)):
        result = call(f"math.{name}", scalar)
        expected = getattr(math, name)(float(getattr(scalar, "value", scalar)))
        assert float(getattr(result, "value", result)) == pytest.approx(float(expected), rel=tolerance("float64"))
        assert isinstance(result, Scalar) == isinstance(expected, float)


def test_math_of_two():
    assert call("math.pow", Scalar(2.0), 3).value == 8
    assert call("math.log", Scalar(8.0), 2).value == pytest.approx(3)
    assert call("math.atan2", np.array(1.0), Scalar(2.0)).value == pytest.approx(math.atan2(1, 2))


def test_math_refuses_what_it_would_raise_and_what_is_no_scalar():
    refused("math.sqrt: ", "math.sqrt", -1.0)
    refused("math.exp takes a scalar, not float32\\[2, 3\\]", "math.exp", X)
    refused("math.gcd takes numbers that are known at compile time", "math.gcd", Scalar(2.0), 3)
    refused("too many positional arguments", "math.exp", Scalar(2.0), 3)


# --- mlirtri's own -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("semantics", ["numpy", "torch"])
def test_own_functions_follow_the_semantics(semantics):
    def own(name, *arguments, **keywords):
        builder = Eager(semantics)
        found = spellings.lookup(f"mlirtri.{name}")
        result = found.call(builder, *arguments, **keywords)
        assert builder.used <= {*found.ops, "cast"}
        return result

    library = np if semantics == "numpy" else torch
    of = (lambda x: x) if semantics == "numpy" else torch.from_numpy

    def same(mine, theirs):
        theirs = np.asarray(theirs)
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, **within(theirs.dtype))

    same(own("std", X, 1), library.std(of(X), 1))
    same(own("sum", N, axis=0), library.sum(of(N), 0))
    same(own("sum", N, dim=0, keepdim=True), library.sum(of(N), 0, keepdims=True))
    same(own("divide", N, P), library.divide(of(N), of(P)))
    same(own("exp", N), library.exp(of(N)))
    same(own("zeros", (2, 3)), library.zeros((2, 3)))
    same(own("full", (2,), 2.5), library.full((2,), 2.5))
    same(own("arange", 1, 2, 0.25), library.arange(1, 2, 0.25))
    same(own("max", X, 1), library.amax(of(X), 1))
    same(own("where", M, X, 0.0), library.where(of(M), of(X), 0.0))
    same(own("clip", Y, -1, 1), library.clip(of(Y), -1, 1))
    same(own("transpose", X), X.T)
    same(own("permute", B, 2, 0, 1), B.transpose(2, 0, 1))
    same(own("reshape", X, 3, 2), X.reshape(3, 2))
    same(own("reshape", X, (3, 2)), X.reshape(3, 2))
    same(own("softmax", X), torch.softmax(torch.from_numpy(X), -1))
    same(own("gelu", X, "tanh"), torch.nn.functional.gelu(torch.from_numpy(X), approximate="tanh"))
    same(own("linear", X, Y), torch.nn.functional.linear(torch.from_numpy(X), torch.from_numpy(Y)))
    same(
        own("layer_norm", X, 1, V, V, 1e-3),
        torch.layer_norm(*map(torch.from_numpy, [X]), (3,), torch.from_numpy(V), torch.from_numpy(V), 1e-3),
    )
    same(
        own("scaled_dot_product_attention", Q, K, W, is_causal=True),
        torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (Q, K, W)), is_causal=True),
    )
    same(own("full_like", N, 2), np.full_like(N, 2))
    same(own("concatenate", (X, Y), 1), np.concatenate((X, Y), 1))
    same(own("stack", (X, Y), dim=1), np.stack((X, Y), 1))
    same(own("eye", 2, 3), library.eye(2, 3))
    same(own("tril", X), np.tril(X))
    assert [part.shape for part in own("split", X, 3, axis=1)] == [(2, 1)] * 3


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "case"),
    [
        ("numpy.sum\\(where=…\\) is not supported", Case("numpy.sum", X, where=M)),
        ("numpy.exp\\(out=…\\) is not supported", Case("numpy.exp", X, X)),
        ("numpy.reshape\\(order=…\\) is not supported", Case("numpy.reshape", X, (3, 2), "F")),
        ("numpy.sum\\(\\) has no parameter 'dim'", Case("numpy.sum", X, dim=1)),
        ("numpy.sum\\(\\) missing a required argument: 'a'", Case("numpy.sum")),
        ("numpy.where with one argument", Case("numpy.where", M)),
        ("torch.where with one argument", Case("torch.where", M)),
        ("5 elements do not split into 2 equal parts", Case("numpy.split", np.ones(5), 2)),
        ("dtype=int32 cannot hold float32", Case("numpy.add", X, X, dtype=np.int32)),
        ("ddof and correction", Case("numpy.std", X, ddof=1, correction=1)),
        ("numpy's dtype <class 'complex'> is not one of kernels", Case("numpy.zeros", 2, complex)),
        ("torch.exp takes a tensor here, not a Python float", Case("torch.exp", 2.0)),
        ("torch.add takes a tensor here", Case("torch.add", 1, 2)),
        ("reduces one dimension or all", Case("torch.prod", X, (0, 1))),
        ("torch.nn.functional.relu\\(inplace=…\\) is not supported", Case(f"{F}.relu", X, inplace=True)),
        ("torch.zeros\\(device=…\\) is not supported", Case("torch.zeros", 2, device="cuda")),
        ("tensors do not move between devices", Case("Tensor.to", X, "cuda")),
        ("softmax needs dim", Case(f"{F}.softmax", X)),
        ("at least one of min and max", Case("torch.clamp", X)),
        ("rounding_mode is None, 'floor' or 'trunc'", Case("torch.div", X, X, rounding_mode="up")),
        ("axis 2 is out of range for rank 2", Case("numpy.swapaxes", X, 0, 2)),
        ("name an axis twice", Case("numpy.moveaxis", B, (0, 0), (1, 2))),
        ("an axis is an integer known at compile time, not 0.5", Case("torch.transpose", X, 0.5, 0)),
        ("has rank 2, not 3", Case("torch.mm", B, C)),
        ("add up to 2, and dimension 0 has 4", Case("torch.split", B, [1, 1])),
        ("the sizes \\(3, -1\\) do not multiply to 4", Case("torch.unflatten", B, 0, (3, -1))),
        ("does not expand to", Case("Tensor.expand", V, 3, -1, 1)),
        ("view as another dtype", Case("Tensor.view", X, torch.int32)),
        ("is not the end of the input's shape", Case(f"{F}.layer_norm", X, (2,))),
        ("exclude each other", Case(f"{F}.scaled_dot_product_attention", Q, K, W, MASK, is_causal=True)),
        ("approximate is 'none' or 'tanh'", Case(f"{F}.gelu", X, approximate="fast")),
        ("the mask of masked_fill is a bool tensor", Case("torch.masked_fill", X, N, 0)),
        ("rank 2 or more", Case("torch.tril", V)),
        ("is not within dimension 0", Case("torch.narrow", B, 0, 3, 2)),
    ],
    ids=str,
)
def test_refusals_are_sentences(sentence, case):
    refused(sentence, case.name, *case.arguments, **case.keywords)


def test_a_wrong_call_shows_the_signature():
    error = refused("too many", "torch.sum", X, 1, False, None)
    assert error.help == "its signature is torch.sum(input, dim=None, keepdim=False, *, dtype=None, out=None)"
    assert str(spellings.lookup("ndarray.sum")).startswith("ndarray.sum(axis=None, dtype=None, out=None")


def test_the_libraries_own_defaults_may_be_written_out():
    check("numpy.sum", X, None, None, None)
    check("torch.zeros", 2, device=None, requires_grad=False)


def test_errors_are_kernel_errors():
    for name in ("numpy.concatenate", "torch.cat"):
        with pytest.raises(KernelError):
            call(name, X, X, X, X, X)
