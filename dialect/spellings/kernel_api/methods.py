"""Methods and attributes of tensors: `ndarray.sum` in NumPy's semantics, `Tensor.sum` in torch's.

Most are functions of the library with the tensor as first argument; here are those that differ. The frontend handles
`shape`, `dtype`, `ndim` and `size`, which need no operation.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Builder, register, share, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api import (
    arrays as spellings_numpy_arrays,
)
from mlirtri.dialect.spellings.numpy_api import (
    creation as spellings_numpy_making,
)
from mlirtri.dialect.spellings.numpy_api import (
    sequences as spellings_numpy_sequences,
)
from mlirtri.dialect.spellings.numpy_api import (
    shapes as spellings_numpy_shapes,
)
from mlirtri.dialect.spellings.numpy_api import (
    ufuncs as spellings_numpy,
)
from mlirtri.dialect.spellings.numpy_api.ufuncs import numpy_dtype
from mlirtri.dialect.spellings.torch_api import (
    arrays as spellings_torch_arrays,
)
from mlirtri.dialect.spellings.torch_api import (
    elementwise as spellings_torch,
)
from mlirtri.dialect.spellings.torch_api import networks
from mlirtri.dialect.spellings.torch_api import (
    products as spellings_torch_products,
)
from mlirtri.dialect.spellings.torch_api import (
    sequences as spellings_torch_sequences,
)

# These methods share functions of the library tables, which are imported first.
_TABLES = (
    spellings_numpy, spellings_numpy_arrays, spellings_numpy_making, spellings_numpy_sequences, spellings_numpy_shapes,
    spellings_torch, spellings_torch_arrays, spellings_torch_products, spellings_torch_sequences, networks,
)  # fmt: skip

# --- numpy.ndarray -------------------------------------------------------------------------------------------------

share("ndarray", "numpy", "sum prod max min mean any all var std argmax argmin round dot swapaxes squeeze ravel copy")
share("ndarray", "numpy", "cumsum cumprod argsort searchsorted repeat diagonal trace")


@spelling("ndarray.item", ops="reshape cast")
def _(b, a, *args):
    if args or helpers.size_of(b, a) != 1:
        b.fail("item() is of an array with one element", help="index the array: x[i, j]")
    element = b.reshape(a, ())
    return b.python_scalar(element) if b.type_of(element).dtype.is_inexact else element


@spelling("ndarray.view", ops="")
def _(b, a, dtype=None, type=unsupported()):
    if dtype is not None and numpy_dtype(b, dtype) != b.type_of(a).dtype:
        b.fail("view as another dtype is not supported", help="x.astype(dtype) converts the values")
    return a


@spelling("ndarray.nbytes", ops="", attribute=True)
def _(b, a):
    return helpers.size_of(b, a) * b.type_of(a).dtype.bytes


@spelling("ndarray.clip", ops="clip minimum maximum")
def _(b, a, min=None, max=None, out=unsupported()):
    return spellings_numpy.clip(b, a, min, max)


@spelling("ndarray.reshape", ops="reshape")
def _(b, a, *shape, order=unsupported("C"), copy=None):
    return b.reshape(a, helpers.sizes(shape))


@spelling("ndarray.flatten", ops="reshape")
def _(b, a, order=unsupported("C")):
    return b.reshape(a, (-1,))


@spelling("ndarray.transpose", ops="transpose")
def _(b, a, *axes):
    return b.transpose(a, None if axes in ((), (None,)) else helpers.sizes(axes))


@spelling("ndarray.astype", ops="cast real")
def _(b, a, dtype, order="K", casting=unsupported("unsafe"), subok=True, copy=True):
    return helpers.converted(b, a, numpy_dtype(b, dtype))


@spelling("ndarray.T", ops="transpose", attribute=True)
def _(b, a):
    return b.transpose(a)


@spelling("ndarray.mT", ops="transpose", attribute=True)
def _(b, a):
    return helpers.matrix_transposed(b, "mT", a)


# --- torch.Tensor --------------------------------------------------------------------------------------------------

share(
    "Tensor",
    "torch",
    """
    neg negative abs absolute sign floor ceil trunc fix exp exp2 log log2 log10 log1p expm1 sqrt rsqrt square
    reciprocal sin cos tan asin arcsin acos arccos atan arctan sinh cosh tanh asinh arcsinh acosh arccosh atanh arctanh
    erf isnan isinf isfinite sigmoid relu bitwise_not logical_not mul multiply floor_divide remainder bitwise_and
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
    return spellings_torch.rounded(b, input, decimals)


@spelling("Tensor.where", ops="where")
def _(b, input, condition, other):
    return b.where(condition, input, other)


@spelling("Tensor.reshape", ops="reshape")
def _(b, input, *shape):
    return b.reshape(input, helpers.sizes(shape))


@spelling("Tensor.view", ops="reshape")
def _(b, input, *shape):
    if len(shape) == 1 and not isinstance(shape[0], int) and find_dtype(shape[0]) is not None:
        b.fail("view as another dtype is not supported", help="x.to(dtype) converts the values")
    return b.reshape(input, helpers.sizes(shape))


@spelling("Tensor.view_as Tensor.reshape_as", ops="reshape")
def _(b, input, other):
    return b.reshape(input, helpers.shape_of(b, other))


@spelling("Tensor.permute", ops="transpose")
def _(b, input, *dims):
    return b.transpose(input, helpers.sizes(dims))


@spelling("Tensor.expand", ops="broadcast_to")
def _(b, input, *size):
    return b.broadcast_to(input, helpers.expanded_shape(b, input, helpers.sizes(size)))


@spelling("Tensor.expand_as", ops="broadcast_to")
def _(b, input, other):
    return b.broadcast_to(input, helpers.shape_of(b, other))


@spelling("Tensor.broadcast_to", ops="broadcast_to")
def _(b, input, *size):
    return b.broadcast_to(input, helpers.expanded_shape(b, input, helpers.sizes(size)))


@spelling("Tensor.flip", ops="flip")
def _(b, input, *dims):
    dims = helpers.sizes(dims)
    return b.flip(input, dims) if dims else input


@spelling("Tensor.to", ops="cast real")
def _(b, input, *arguments, dtype=None, non_blocking=False, copy=False, memory_format=None, device=unsupported()):
    """Cast for `x.to(dtype)` and `x.to(other)`; a kernel has one device, so `x.to("cuda")` is refused."""
    for argument in arguments:
        if isinstance(argument, bool):
            continue
        other = b.type_of(argument)
        dtype = other.dtype if other is not None else _torch_dtype(b, argument)
    return input if dtype is None else helpers.converted(b, input, _torch_dtype(b, dtype))


def _torch_dtype(b: Builder, dtype: Any) -> DType:
    result = None if isinstance(dtype, str) else find_dtype(dtype)
    if result is not None:
        return result
    b.fail(f"{dtype!r} is no dtype; tensors do not move between devices in a kernel", help="x.to(torch.float32)")


@spelling("Tensor.type", ops="cast real")
def _(b, input, dtype=None, non_blocking=False):
    if dtype is None:
        b.fail("x.type() without a dtype is a string of torch's", help="use x.dtype")
    return helpers.converted(b, input, _torch_dtype(b, dtype))


@spelling("Tensor.type_as", ops="cast real")
def _(b, input, tensor):
    return helpers.converted(b, input, b.type_of(tensor).dtype)


def _conversion(dtype: DType):
    return lambda b, input, memory_format=None: helpers.converted(b, input, dtype)


for _word, _dtype in {
    "float": "float32", "half": "float16", "double": "float64", "bfloat16": "bfloat16", "int": "int32",
    "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}.items():  # fmt: skip
    register(f"Tensor.{_word}", _conversion(DTYPES[_dtype]), "cast real")


@spelling("Tensor.contiguous", ops="")
def _(b, input, memory_format=None):
    return input


@spelling("Tensor.detach", ops="")
def _(b, input):
    return input


@spelling("Tensor.size", ops="")
def _(b, input, dim=None):
    return helpers.shape_of(b, input) if dim is None else helpers.size_of(b, input, dim)


@spelling("Tensor.dim Tensor.ndimension", ops="")
def _(b, input):
    return helpers.rank_of(b, input)


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


@spelling("Tensor.mT", ops="transpose", attribute=True)
def _(b, input):
    return helpers.matrix_transposed(b, "mT", input)


@spelling("Tensor.mH", ops="transpose conj", attribute=True)
def _(b, input):
    return b.conj(helpers.matrix_transposed(b, "mH", input))
