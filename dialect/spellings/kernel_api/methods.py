"""Methods and attributes of tensors: `ndarray.sum` in NumPy's semantics, `Tensor.sum` in torch's.

Most are functions of the library with the tensor as first argument; here are those that differ. The frontend handles
`shape`, `dtype`, `ndim` and `size`, which need no operation.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, register, share, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api import (  # noqa: F401
    arrays,
    composed_functions,
    creation,
    linear_algebra,
    positions,
    quantiles,
    reductions,
    selection,
    sequences,
    shapes,
    statistical,
    ufuncs,
)  # fmt: skip
from mlirtri.dialect.spellings.torch_api import arrays as torch_arrays  # noqa: F401
from mlirtri.dialect.spellings.torch_api import elementwise, networks, products  # noqa: F401
from mlirtri.dialect.spellings.torch_api import sequences as torch_sequences  # noqa: F401

# These files register the functions that methods share.

# --- numpy.ndarray -------------------------------------------------------------------------------------------------

share("ndarray", "numpy", "sum prod max min mean any all var std argmax argmin round dot swapaxes squeeze ravel copy")
share("ndarray", "numpy", "cumsum cumprod argsort argpartition searchsorted repeat diagonal trace")


@spelling("ndarray.item", ops="reshape cast pick")
def _(b, a, *args):
    indices = helpers.sizes(args) if args else ()
    if len(indices) not in (0, 1, helpers.rank_of(b, a)):
        b.fail(f"item() takes {helpers.rank_of(b, a)} positions of {b.type_of(a)}, or one, not {len(indices)}")
    if not indices and helpers.size_of(b, a) != 1:
        b.fail("item() is of an array with one element", help="index the array: x[i, j]")
    element = b.reshape(a, (-1,) if len(indices) == 1 else ()) if len(indices) < 2 else a
    for position in indices:
        b.require_inside(position, helpers.shape_of(b, element)[0])
        element = b.pick(element, position)
    return b.python_scalar(element) if b.type_of(element).dtype.is_inexact else element


VIEW = "bitcast real imag complex stack cut reshape squeeze right_shift left_shift sum cast arange not_equal"


@spelling("ndarray.view", ops=VIEW)
def _(b, a, dtype=None, type=unsupported()):
    return a if dtype is None else helpers.reinterpreted(b, a, ufuncs.dtype_of(b, dtype))


@spelling("numpy.frombuffer", ops=VIEW)
def _(b, buffer, dtype=float, count=-1, offset=0, *, like=unsupported()):
    # A constant of bytes is the tuple of its numbers.
    flat = b.literal(list(buffer), (len(buffer),), DTYPES["uint8"]) if isinstance(buffer, tuple) else buffer
    dtype, flat = ufuncs.dtype_of(b, dtype), b.reshape(flat, (-1,))
    data = helpers.reinterpreted(b, flat, DTYPES["uint8"])
    stop = None if count == -1 else offset + count * dtype.bytes
    size = helpers.shape_of(b, data)[0]
    if isinstance(size, int) and not 0 <= offset <= (size if stop is None else stop) <= size:
        b.fail(f"a buffer of {size} bytes has no {count} elements of {dtype} from byte {offset} on")
    return helpers.reinterpreted(b, b.cut(data, 0, slice(offset, stop)), dtype)


register("ndarray.nbytes", lambda b, a: helpers.size_of(b, a) * b.type_of(a).dtype.bytes, "", attribute=True)


@spelling("ndarray.clip", ops="clip minimum maximum")
def _(b, a, min=None, max=None, out=unsupported()):
    return ufuncs.clip(b, a, min, max)


@spelling("ndarray.reshape", ops="reshape transpose")
def _(b, a, *shape, order="C", copy=None):
    return arrays.reshaped(b, a, helpers.sizes(shape), order)


register("ndarray.flatten", lambda b, a, order="C": arrays.reshaped(b, a, (-1,), order), "reshape transpose")


@spelling("ndarray.transpose", ops="transpose")
def _(b, a, *axes):
    return b.transpose(a, None if axes in ((), (None,)) else helpers.sizes(axes))


@spelling("ndarray.astype", ops="cast real")
def _(b, a, dtype, order="K", casting=unsupported("unsafe"), subok=True, copy=True):
    return helpers.converted(b, a, ufuncs.dtype_of(b, dtype))


register("ndarray.T", lambda b, a: b.transpose(a), "transpose", attribute=True)
register("ndarray.mT", lambda b, a: helpers.matrix_transposed(b, "mT", a), "transpose", attribute=True)


# --- torch.Tensor --------------------------------------------------------------------------------------------------

share(
    "Tensor",
    "torch",
    """
    neg negative abs absolute sign floor ceil trunc fix exp exp2 log log2 log10 log1p expm1 sqrt rsqrt square
    reciprocal sin cos tan asin arcsin acos arccos atan arctan sinh cosh tanh asinh arcsinh acosh arccosh atanh arctanh
    erf frac isnan isinf isfinite sigmoid relu bitwise_not logical_not mul multiply floor_divide remainder bitwise_and
    bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift eq ne not_equal lt less le less_equal gt greater ge
    cumsum cumprod diff sort argsort topk median index_select take gather count_nonzero bincount kron cross
    greater_equal minimum maximum atan2 arctan2 fmod copysign hypot logaddexp logaddexp2 fmin
    fmax signbit logical_and logical_or logical_xor add sub subtract div divide
    true_divide pow float_power clamp clip clamp_min clamp_max masked_fill sum mean prod max min amax amin argmax
    argmin any all var std softmax log_softmax logsumexp matmul mm bmm mv dot inner outer addmm baddbmm
    flatten ravel unflatten transpose swapdims swapaxes movedim moveaxis t adjoint squeeze unsqueeze fliplr flipud tril
    triu split chunk tensor_split unbind narrow clone numel
    """,
)


@spelling("Tensor.round", ops="round multiply divide")
def _(b, input, decimals=0):
    return elementwise.rounded(b, input, decimals)


register("Tensor.where", lambda b, input, condition, other: b.where(condition, input, other), "where")
register("Tensor.reshape", lambda b, input, *shape: b.reshape(input, helpers.sizes(shape)), "reshape")


@spelling("Tensor.view", ops=VIEW)
def _(b, input, *shape):
    dtype = find_dtype(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else None
    if dtype is not None:
        return helpers.reinterpreted(b, input, dtype)
    return b.reshape(input, helpers.sizes(shape))


@spelling("Tensor.view_as Tensor.reshape_as", ops="reshape")
def _(b, input, other):
    return b.reshape(input, helpers.shape_of(b, other))


register("Tensor.permute", lambda b, input, *dims: b.transpose(input, helpers.sizes(dims)), "transpose")


@spelling("Tensor.expand Tensor.broadcast_to", ops="broadcast_to")
def _(b, input, *size):
    return b.broadcast_to(input, helpers.expanded_shape(b, input, helpers.sizes(size)))


@spelling("Tensor.expand_as", ops="broadcast_to")
def _(b, input, other):
    return b.broadcast_to(input, helpers.shape_of(b, other))


@spelling("Tensor.flip", ops="flip")
def _(b, input, *dims):
    dims = helpers.sizes(dims)
    return b.flip(input, dims) if dims else input


@spelling("Tensor.to", ops="cast real")
def _(b, input, *arguments, dtype=None, non_blocking=False, copy=False, memory_format=None, device=unsupported()):
    """Cast for `x.to(dtype)` and `x.to(other)`; tensors do not move to another device."""
    for argument in arguments:
        if isinstance(argument, bool) or b.is_own_device(argument):
            continue
        other = b.type_of(argument)
        dtype = other.dtype if other is not None else _torch_dtype(b, argument)
    return input if dtype is None else helpers.converted(b, input, _torch_dtype(b, dtype))


def _torch_dtype(b: Builder, dtype: Argument) -> DType:
    result = None if isinstance(dtype, str) else find_dtype(dtype)
    if result is not None:
        return result
    b.fail(f"{dtype!r} is not a dtype; tensors do not move between devices in a kernel", help="x.to(torch.float32)")


@spelling("Tensor.type", ops="cast real")
def _(b, input, dtype=None, non_blocking=False):
    if dtype is None:
        b.fail("x.type() without a dtype is a string of torch's", help="use x.dtype")
    return helpers.converted(b, input, _torch_dtype(b, dtype))


@spelling("Tensor.type_as", ops="cast real")
def _(b, input, tensor):
    return helpers.converted(b, input, helpers.dtype_of(b, "type_as", tensor))


def _conversion(dtype: DType):
    return lambda b, input, memory_format=None: helpers.converted(b, input, dtype)


for _word, _dtype in {
    "float": "float32", "half": "float16", "double": "float64", "bfloat16": "bfloat16", "int": "int32",
    "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}.items():  # fmt: skip
    register(f"Tensor.{_word}", _conversion(DTYPES[_dtype]), "cast real")


def _stay(name):
    def function(b, input, device=None, non_blocking=False, memory_format=None):
        if not b.is_own_device(name):
            b.fail(f"x.{name}() moves a tensor to another device", help=f"write with mlirtri.device({name!r}):")
        return input

    return function


register("Tensor.cpu", _stay("cpu"), "")
register("Tensor.cuda", _stay("cuda"), "")
register("Tensor.contiguous", lambda b, input, memory_format=None: input, "")
register("Tensor.detach", lambda b, input: input, "")


@spelling("Tensor.size", ops="")
def _(b, input, dim=None):
    return helpers.shape_of(b, input) if dim is None else helpers.size_of(b, input, dim)


register("Tensor.dim Tensor.ndimension", lambda b, input: helpers.rank_of(b, input), "")


def _new(make):
    def function(
        b, input, *size, dtype=None, device=unsupported(), requires_grad=unsupported(False), layout=unsupported(),
        pin_memory=unsupported(False),
    ):  # fmt: skip
        return make(b, helpers.sizes(size), b.type_of(input).dtype if dtype is None else _torch_dtype(b, dtype))

    return function


register("Tensor.new_zeros", _new(lambda b, shape, dtype: b.full(shape, 0, dtype)), "full")
register("Tensor.new_ones", _new(lambda b, shape, dtype: b.full(shape, 1, dtype)), "full")
register("Tensor.new_empty", _new(lambda b, shape, dtype: b.empty(shape, dtype)), "empty")


@spelling("Tensor.new_full", ops="full broadcast_to cast")
def _(b, input, size, fill_value, *, dtype=None, device=unsupported(), requires_grad=unsupported(False)):
    dtype = b.type_of(input).dtype if dtype is None else _torch_dtype(b, dtype)
    return helpers.filled(b, size, fill_value, dtype, "torch")


@spelling("Tensor.T", ops="transpose", attribute=True)
def _transposed(b, input):
    helpers.require_rank(b, "the tensor of .T", input, (0, 1, 2))
    return b.transpose(input) if helpers.rank_of(b, input) == 2 else input


@spelling("Tensor.H", ops="transpose conj", attribute=True)
def _(b, input):
    helpers.require_rank(b, "the tensor of .H", input, (0, 2))
    return b.conj(_transposed(b, input))


register("Tensor.mT", lambda b, input: helpers.matrix_transposed(b, "mT", input), "transpose", attribute=True)


@spelling("Tensor.mH", ops="transpose conj", attribute=True)
def _(b, input):
    return b.conj(helpers.matrix_transposed(b, "mH", input))
