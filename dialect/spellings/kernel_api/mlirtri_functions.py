"""mlirtri's own functions, `mlirtri.sum` and so on: one spelling per table op, for kernels of either semantics.

Shapes of results are NumPy's (`max` gives one value), dtypes those of the semantics, and so is the divisor of `std`.
Axes are `axis` and `keepdims`; torch's `dim` and `keepdim` are taken as well.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.promotion.dtype_rules import default_dtype
from mlirtri.dialect.promotion.tables import COMPARISONS, FLOAT_FUNCTIONS, PREDICATES
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, register, spelling
from mlirtri.dialect.spellings.torch_api import networks

_UNARY = (
    "negative", "abs", "sign", "floor", "ceil", "round", "trunc", *FLOAT_FUNCTIONS, "square", "reciprocal",
    *PREDICATES, "relu", "silu", "bitwise_not", "logical_not", "real", "imag", "conj", "angle",
)  # fmt: skip
_BINARY = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum", "fmin", "fmax",
    "atan2", "fmod", "hypot", "copysign", "logaddexp", "logaddexp2",
    *COMPARISONS, "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "logical_and", "logical_or",
    "logical_xor",
)  # fmt: skip


def _unary(op: str):
    return lambda b, x: getattr(b, op)(x)


def _binary(op: str):
    return lambda b, x, y: getattr(b, op)(x, y)


for _op in _UNARY:
    register(f"mlirtri.{_op}", _unary(_op), _op)
for _op in _BINARY:
    register(f"mlirtri.{_op}", _binary(_op), _op)


@spelling("mlirtri.gelu", ops="gelu")
def _(b, x, approximate="none"):
    if approximate not in ("none", "tanh"):
        b.fail(f"approximate is 'none' or 'tanh', not {approximate!r}")
    return b.gelu(x, approximate=approximate)


@spelling("mlirtri.softplus", ops="softplus")
def _(b, x, beta=1.0, threshold=20.0):
    return b.softplus(x, beta=float(beta), threshold=float(threshold))


register("mlirtri.where", lambda b, condition, x, y: b.where(condition, x, y), "where")


@spelling("mlirtri.clip", ops="clip minimum maximum")
def _(b, x, low=None, high=None):
    if low is None and high is None:
        b.fail("mlirtri.clip takes at least one of low and high")
    return b.clip(x, low, high)


register("mlirtri.cast mlirtri.astype", lambda b, x, dtype: helpers.converted(b, x, as_dtype(dtype)), "cast real")


# --- reductions ----------------------------------------------------------------------------------------------------


def _accumulation(op: str):
    def function(b, x, axis=None, keepdims=False, *, dtype=None):
        return getattr(b, op)(x, axis=axis, keepdims=keepdims, dtype=None if dtype is None else as_dtype(dtype))

    return function


def _reduction(op: str):
    def function(b, x, axis=None, keepdims=False):
        return getattr(b, op)(x, axis=axis, keepdims=keepdims)

    return function


def _deviation(op: str):
    def function(b, x, axis=None, keepdims=False, *, correction=None):
        if correction is None:
            correction = 1 if b.semantics == "torch" else 0
        return getattr(b, op)(x, axis=axis, keepdims=keepdims, correction=correction)

    return function


for _op in ("sum", "prod", "mean"):
    register(f"mlirtri.{_op}", _accumulation(_op), _op)
for _op in ("max", "min", "any", "all", "argmax", "argmin"):
    register(f"mlirtri.{_op}", _reduction(_op), _op)
for _op in ("var", "std"):
    register(f"mlirtri.{_op}", _deviation(_op), _op)


# --- normalizations and products -----------------------------------------------------------------------------------


register("mlirtri.softmax", lambda b, x, axis=-1: b.softmax(x, axis), "softmax")
register("mlirtri.log_softmax", lambda b, x, axis=-1: b.log_softmax(x, axis), "log_softmax")


@spelling("mlirtri.layer_norm", ops="layer_norm")
def _(b, x, normalized_axes=1, weight=None, bias=None, eps=1e-5):
    return b.layer_norm(x, normalized_axes, weight=weight, bias=bias, eps=eps)


@spelling("mlirtri.rms_norm", ops="rms_norm")
def _(b, x, normalized_axes=1, weight=None, eps=1e-6):
    return b.rms_norm(x, normalized_axes, weight=weight, eps=eps)


register("mlirtri.matmul", _binary("matmul"), "matmul")
register("mlirtri.dot", _binary("dot"), "dot")


@spelling("mlirtri.linear", ops="matmul transpose add")
def _(b, x, weight, bias=None):
    return networks.linear(b, x, weight, bias)


@spelling("mlirtri.scaled_dot_product_attention", ops=networks.ATTENTION_OPS)
def _(b, query, key, value, mask=None, *, is_causal=False, scale=None):
    return networks.attention(b, query, key, value, attn_mask=mask, is_causal=is_causal, scale=scale)


# --- shapes --------------------------------------------------------------------------------------------------------


register("mlirtri.reshape", lambda b, x, *shape: b.reshape(x, helpers.sizes(shape)), "reshape")


@spelling("mlirtri.transpose mlirtri.permute", ops="transpose")
def _(b, x, *axes):
    return b.transpose(x, None if axes in ((), (None,)) else helpers.sizes(axes))


register("mlirtri.broadcast_to", lambda b, x, *shape: b.broadcast_to(x, helpers.sizes(shape)), "broadcast_to")
register("mlirtri.squeeze", lambda b, x, axis=None: b.squeeze(x, axis), "squeeze")


@spelling("mlirtri.unsqueeze mlirtri.expand_dims", ops="unsqueeze")
def _(b, x, axis):
    return b.unsqueeze(x, helpers.one_axis(b, axis, helpers.rank_of(b, x) + 1))


register("mlirtri.concatenate mlirtri.cat", lambda b, xs, axis=0: b.concatenate(tuple(xs), axis), "concatenate")
register("mlirtri.stack", lambda b, xs, axis=0: b.stack(tuple(xs), axis), "stack")


@spelling("mlirtri.split", ops="split")
def _(b, x, sections_or_indices, axis=0):
    if not helpers.is_integer(sections_or_indices):
        sections_or_indices = tuple(sections_or_indices)
    return b.split(x, sections_or_indices, axis)


register("mlirtri.flip", lambda b, x, axis=None: b.flip(x, axis), "flip")


@spelling("mlirtri.tril", ops="where arange reshape subtract less_equal full")
def _(b, x, k=0):
    return helpers.trimmed(b, "mlirtri.tril", x, k, lower=True)


@spelling("mlirtri.triu", ops="where arange reshape subtract greater_equal full")
def _(b, x, k=0):
    return helpers.trimmed(b, "mlirtri.triu", x, k, lower=False)


# --- creation ------------------------------------------------------------------------------------------------------


def _dtype(b: Builder, dtype: Argument, kind: str = "float"):
    return default_dtype(b.semantics, kind) if dtype is None else as_dtype(dtype)


@spelling("mlirtri.full", ops="full broadcast_to cast")
def _(b, shape, value, dtype=None):
    return helpers.filled(b, shape, value, None if dtype is None else as_dtype(dtype), b.semantics)


register("mlirtri.zeros", lambda b, shape, dtype=None: b.full(helpers.as_tuple(shape), 0, _dtype(b, dtype)), "full")
register("mlirtri.ones", lambda b, shape, dtype=None: b.full(helpers.as_tuple(shape), 1, _dtype(b, dtype)), "full")
register("mlirtri.empty", lambda b, shape, dtype=None: b.empty(helpers.as_tuple(shape), _dtype(b, dtype)), "empty")


def _like(value: int):
    def function(b, x, dtype=None):
        helpers.require_tensor(b, "a _like function", x)
        kind = b.type_of(x)
        return b.full(kind.shape, value, kind.dtype if dtype is None else as_dtype(dtype))

    return function


register("mlirtri.zeros_like", _like(0), "full")
register("mlirtri.ones_like", _like(1), "full")


@spelling("mlirtri.empty_like", ops="empty")
def _(b, x, dtype=None):
    helpers.require_tensor(b, "mlirtri.empty_like", x)
    return b.empty(b.type_of(x).shape, b.type_of(x).dtype if dtype is None else as_dtype(dtype))


@spelling("mlirtri.full_like", ops="full broadcast_to cast")
def _(b, x, value, dtype=None):
    helpers.require_tensor(b, "mlirtri.full_like", x)
    return helpers.filled(
        b, b.type_of(x).shape, value, b.type_of(x).dtype if dtype is None else as_dtype(dtype), b.semantics
    )


@spelling("mlirtri.arange", ops="arange")
def _(b, start, stop=None, step=1, *, dtype=None):
    start, stop = (0, start) if stop is None else (start, stop)
    integers = helpers.counts_in_integers(b, start, stop, step)
    return b.arange(start, stop, step, _dtype(b, dtype, "int" if integers else "float"))


@spelling("mlirtri.eye", ops="eye")
def _(b, n, m=None, k=0, dtype=None):
    return b.eye(n, n if m is None else m, k, _dtype(b, dtype))
