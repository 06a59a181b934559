"""Matrix products of `torch`, and the functions of `torch.nn.functional`, with torch's signatures and defaults.

Functions without a table op are composed (`linear`, attention, `leaky_relu`…). In-place variants are refused.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.tensor_type import shown_shape
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import register, spelling, unsupported
from mlirtri.dialect.spellings.torch_api.elementwise import scaled

# --- products ------------------------------------------------------------------------------------------------------


@spelling("torch.matmul torch.linalg.matmul", ops="matmul")
def _(b, input, other, *, out=unsupported()):
    return b.matmul(input, other)


def _require_ranks(b, name: str, *operands_and_ranks) -> None:
    for operand, rank in operands_and_ranks:
        helpers.require_rank(b, f"an operand of {name}", operand, (rank,))


@spelling("torch.mm", ops="matmul")
def _(b, input, mat2, *, out=unsupported()):
    _require_ranks(b, "torch.mm", (input, 2), (mat2, 2))
    return b.matmul(input, mat2)


@spelling("torch.bmm", ops="matmul")
def _(b, input, mat2, *, out=unsupported()):
    _require_ranks(b, "torch.bmm", (input, 3), (mat2, 3))
    return b.matmul(input, mat2)


@spelling("torch.mv", ops="matmul")
def _(b, input, vec, *, out=unsupported()):
    _require_ranks(b, "torch.mv", (input, 2), (vec, 1))
    return b.matmul(input, vec)


@spelling("torch.dot", ops="dot")
def _(b, input, tensor, *, out=unsupported()):
    _require_ranks(b, "torch.dot", (input, 1), (tensor, 1))
    return b.dot(input, tensor)


@spelling("torch.inner", ops="matmul transpose multiply")
def _(b, input, other, *, out=unsupported()):
    if not helpers.shape_of(b, input) or not helpers.shape_of(b, other):
        return b.multiply(input, other)
    helpers.require_rank(b, "the second operand of torch.inner", other, (1, 2))
    return b.matmul(input, other if helpers.rank_of(b, other) == 1 else b.transpose(other))


@spelling("torch.outer", ops="multiply reshape")
def _(b, input, vec2, *, out=unsupported()):
    _require_ranks(b, "torch.outer", (input, 1), (vec2, 1))
    return b.multiply(b.reshape(input, (-1, 1)), b.reshape(vec2, (1, -1)))


@spelling("torch.addmm", ops="matmul add multiply")
def _(b, input, mat1, mat2, *, beta=1, alpha=1, out=unsupported()):
    _require_ranks(b, "torch.addmm", (mat1, 2), (mat2, 2))
    return b.add(scaled(b, input, beta), scaled(b, b.matmul(mat1, mat2), alpha))


@spelling("torch.baddbmm", ops="matmul add multiply")
def _(b, input, batch1, batch2, *, beta=1, alpha=1, out=unsupported()):
    _require_ranks(b, "torch.baddbmm", (batch1, 3), (batch2, 3))
    return b.add(scaled(b, input, beta), scaled(b, b.matmul(batch1, batch2), alpha))


@spelling("torch.nn.functional.linear", ops="matmul transpose add")
def linear(b, input, weight, bias=None):
    helpers.require_rank(b, "the weight of linear", weight, (1, 2))
    product = b.matmul(input, b.transpose(weight))
    return product if bias is None else b.add(product, bias)


# --- activations ---------------------------------------------------------------------------------------------------


def _activation(op: str):
    def function(b, input, inplace=unsupported(False)):
        return getattr(b, op)(input)

    return function


def _plain(op: str):
    def function(b, input):
        return getattr(b, op)(input)

    return function


for _op in ("relu", "silu"):
    register(f"torch.nn.functional.{_op}", _activation(_op), _op)
for _op in ("sigmoid", "tanh"):
    register(f"torch.nn.functional.{_op}", _plain(_op), _op)


@spelling("torch.nn.functional.gelu", ops="gelu")
def _(b, input, *, approximate="none"):
    if approximate not in ("none", "tanh"):
        b.fail(f"approximate is 'none' or 'tanh', not {approximate!r}")
    return b.gelu(input, approximate=approximate)


@spelling("torch.nn.functional.softplus", ops="softplus")
def _(b, input, beta=1, threshold=20):
    if isinstance(beta, complex):
        b.fail(f"softplus takes a real beta, not {beta}")
    return b.softplus(input, beta=float(beta), threshold=float(threshold))


@spelling("torch.nn.functional.leaky_relu", ops="where greater multiply")
def _(b, input, negative_slope=0.01, inplace=unsupported(False)):
    return b.where(b.greater(input, 0), input, b.multiply(input, negative_slope))


register("torch.nn.functional.relu6", lambda b, input, inplace=unsupported(False): b.clip(input, 0, 6), "clip")


@spelling("torch.nn.functional.elu", ops="where greater multiply expm1 minimum cast")
def _(b, input, alpha=1.0, inplace=unsupported(False)):
    dtype = helpers.dtype_of(b, "elu", input)
    wide = b.cast(input, "float32") if dtype.is_half else input
    return b.cast(b.where(b.greater(wide, 0), wide, b.multiply(b.expm1(wide), alpha)), dtype)


@spelling("torch.nn.functional.logsigmoid", ops="subtract clip log1p exp negative abs")
def _(b, input):
    # -softplus(-x), arranged so that no exponential overflows.
    return b.subtract(b.clip(input, None, 0), b.log1p(b.exp(b.negative(b.abs(input)))))


# --- normalizations ------------------------------------------------------------------------------------------------


def _along(op: str, sign: int = 1):
    def function(b, input, dim=None, dtype=None):
        if dim is None:
            b.fail(f"{op} needs dim, the axis that sums to one", help="torch picks one by itself only with a warning")
        source = input if dtype is None else b.cast(input, as_dtype(dtype))
        return getattr(b, op)(source if sign > 0 else b.negative(source), dim)

    return function


def _functional(along):
    def function(b, input, dim=None, _stacklevel=3, dtype=None):
        return along(b, input, dim, dtype)

    return function


for _op in ("softmax", "log_softmax"):
    register(f"torch.{_op} torch.special.{_op}", _along(_op), f"{_op} cast")
    register(f"torch.nn.functional.{_op}", _functional(_along(_op)), f"{_op} cast")
register("torch.nn.functional.softmin", _functional(_along("softmax", -1)), "softmax negative cast")


@spelling("torch.logsumexp torch.special.logsumexp", ops="max where isinf full subtract exp sum log add squeeze")
def _(b, input, dim, keepdim=False, *, out=unsupported()):
    rank = helpers.rank_of(b, input)
    axes = helpers.many_axes(b, dim, max(rank, 1)) if rank or dim != () else ()
    axes = axes if rank else ()
    if not helpers.dtype_of(b, "torch.logsumexp", input).is_float:
        # Differences of unsigned integers would wrap.
        input = b.cast(input, "float32")
    with b.muted():  # there may be no elements
        highest = b.max(input, axis=axes, keepdims=True)
    # An infinite maximum would give inf - inf.
    shift = b.where(b.isinf(highest), b.full((), 0, b.type_of(highest).dtype), highest)
    result = b.add(b.log(b.sum(b.exp(b.subtract(input, shift)), axis=axes, keepdims=True)), shift)
    return result if keepdim else b.squeeze(result, axes)


def _normalized_count(b, input, normalized_shape) -> int:
    """Return how many trailing axes `normalized_shape` names; fail unless they are the input's."""
    shape = helpers.shape_of(b, input)
    # `x.shape` of run-time sizes has run-time integers.
    normalized = tuple(b.size_from(size) if b.type_of(size) else size for size in helpers.as_tuple(normalized_shape))
    if not normalized or shape[-len(normalized) :] != normalized:
        b.fail(f"normalized_shape {shown_shape(normalized)} is not the end of the input's shape {shown_shape(shape)}")
    return len(normalized)


def _layer_norm(b, input, normalized_shape, weight, bias, eps):
    count = _normalized_count(b, input, normalized_shape)
    return b.layer_norm(input, count, weight=weight, bias=bias, eps=eps)


@spelling("torch.nn.functional.layer_norm", ops="layer_norm")
def _(b, input, normalized_shape, weight=None, bias=None, eps=1e-05):
    return _layer_norm(b, input, normalized_shape, weight, bias, eps)


@spelling("torch.layer_norm", ops="layer_norm")
def _(b, input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True):
    return _layer_norm(b, input, normalized_shape, weight, bias, eps)


@spelling("torch.nn.functional.rms_norm torch.rms_norm", ops="rms_norm")
def _(b, input, normalized_shape, weight=None, eps=None):
    if eps is None:
        # The epsilon of the dtype that torch computes in: float32 for halves.
        eps = 2.0**-52 if helpers.dtype_of(b, "rms_norm", input).bits == 64 else 2.0**-23
    return b.rms_norm(input, _normalized_count(b, input, normalized_shape), weight=weight, eps=eps)


# --- attention -----------------------------------------------------------------------------------------------------

ATTENTION_OPS = "matmul multiply transpose softmax where full arange reshape subtract less_equal add equal all"


@spelling("torch.nn.functional.scaled_dot_product_attention", ops=ATTENTION_OPS)
def attention(
    b, query, key, value, attn_mask=None, dropout_p=unsupported(0.0), is_causal=False, scale=None,
    enable_gqa=unsupported(False),
):  # fmt: skip
    if attn_mask is not None and is_causal:
        b.fail("attn_mask and is_causal exclude each other", help="put the causal part into the mask")
    helpers.require_rank(b, "the query of scaled_dot_product_attention", query, range(2, 9))
    width = helpers.shape_of(b, query)[-1]
    scale = 1.0 / max(width, 1) ** 0.5 if scale is None else scale
    keys = helpers.matrix_transposed(b, "the key of scaled_dot_product_attention", key)
    # The query is scaled first, so that products of halves do not overflow.
    scores = b.matmul(b.multiply(query, scale), keys)
    minus_infinity = b.full((), float("-inf"), b.type_of(scores).dtype)
    if is_causal:
        rows, columns = helpers.shape_of(b, scores)[-2:]
        scores = b.where(helpers.triangle(b, rows, columns, 0, lower=True), scores, minus_infinity)
    if attn_mask is None:
        return b.matmul(b.softmax(scores, -1), value)
    masks = b.type_of(attn_mask).dtype.is_bool
    scores = b.where(attn_mask, scores, minus_infinity) if masks else b.add(scores, attn_mask)
    # A fully masked row is zero, not NaN.
    hidden = b.all(b.equal(scores, minus_infinity), axis=-1, keepdims=True)
    weights = b.where(hidden, b.full((), 0, b.type_of(scores).dtype), b.softmax(scores, -1))
    return b.matmul(weights, value)
