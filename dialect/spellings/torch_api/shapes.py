"""The functions of `torch` that repeat, shift and join tensors or generate them, with torch's signatures."""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.creation import counted, evenly, on_diagonal, spread
from mlirtri.dialect.spellings.numpy_api.shapes import TAKEN, at_least, known_ints, repeat, rolled, rotated, tiled

FLOAT32, FLOAT64, INT64 = DTYPES["float32"], DTYPES["float64"], DTYPES["int64"]
HALVES = (DTYPES["float16"], DTYPES["bfloat16"])


@spelling("torch.roll Tensor.roll", ops="roll reshape")
def _(b, input, shifts, dims=None):
    if len(helpers.as_tuple(shifts)) != (1 if dims is None else len(helpers.as_tuple(dims))):
        b.fail("torch.roll takes a shift for each of the dimensions")
    return rolled(b, input, shifts, dims)


@spelling("torch.tile", ops="reshape broadcast_to")
def _(b, input, dims):
    return tiled(b, input, helpers.as_tuple(known_ints(b, dims, "the number of repetitions")))


@spelling("Tensor.tile", ops="reshape broadcast_to")
def _tiled(b, input, *repeats):
    return tiled(b, input, helpers.as_tuple(known_ints(b, helpers.sizes(repeats), "the number of repetitions")))


@spelling("Tensor.repeat", ops="reshape broadcast_to")
def _(b, input, *repeats):
    if len(helpers.sizes(repeats)) < helpers.rank_of(b, input):
        b.fail(f"repeat takes a number for each dimension of {b.type_of(input)}, or more", help="tile takes fewer")
    return _tiled(b, input, *repeats)


@spelling("torch.repeat_interleave Tensor.repeat_interleave", ops=f"reshape unsqueeze {TAKEN}")
def _(b, input, repeats, dim=None, *, output_size=unsupported()):
    return repeat(b, input, repeats, dim)


@spelling("torch.rot90 Tensor.rot90", ops="flip transpose")
def _(b, input, k=1, dims=(0, 1)):
    return rotated(b, input, k, dims)


# --- diagonals -----------------------------------------------------------------------------------------------------


@spelling("torch.diag Tensor.diag", ops="eye where full pad reshape cut")
def _(b, input, diagonal=0):
    helpers.require_rank(b, "the operand of torch.diag", input, (1, 2))
    if helpers.rank_of(b, input) == 1:
        return on_diagonal(b, input, diagonal)
    return helpers.diagonal(b, input, diagonal)


@spelling("torch.diagonal Tensor.diagonal", ops="transpose reshape cut")
def _(b, input, offset=0, dim1=0, dim2=1):
    axes = helpers.many_axes(b, (dim1, dim2), helpers.rank_of(b, input))
    return helpers.diagonal(b, helpers.moved(b, input, axes, (-2, -1)), offset)


@spelling("torch.trace Tensor.trace", ops="reshape cut sum")
def _(b, input):
    helpers.require_rank(b, "the operand of torch.trace", input, (2,))
    return b.sum(helpers.diagonal(b, input, 0), axis=None)


# --- joining and splitting -----------------------------------------------------------------------------------------


def _at_least(rank: int):
    def function(b, *tensors):
        operands = helpers.sizes(tensors)
        results = tuple(at_least(b, x, rank) for x in operands)
        return results[0] if len(results) == 1 and operands is tensors else results

    return function


for _rank in (1, 2, 3):
    register(f"torch.atleast_{_rank}d", _at_least(_rank), "reshape")


@spelling("torch.dstack", ops="concatenate reshape")
def _(b, tensors, *, out=unsupported()):
    return b.concatenate(tuple(at_least(b, x, 3) for x in tensors), 2)


@spelling("torch.column_stack", ops="concatenate reshape")
def _(b, tensors, *, out=unsupported()):
    columns = [b.reshape(x, (-1, 1)) if helpers.rank_of(b, x) < 2 else x for x in tensors]
    return b.concatenate(tuple(columns), 1)


# --- generated tensors ---------------------------------------------------------------------------------------------


def _range(b: Builder, start: Value, end: Value, steps: Argument, name: str) -> Value:
    if any(b.type_of(x) is not None and helpers.rank_of(b, x) for x in (start, end)):
        b.fail(f"{name} takes numbers, not tensors of rank 1 and more")
    return evenly(b, start, end, counted(b, steps, name), True)[0]


def _range_of_halves(b: Builder, start: Value, end: Value, steps: int, kind: DType) -> Value:
    """Return a range of fp16 or bf16 as eager: it rounds each step and counts from both ends."""
    start, end = b.cast(start, kind), b.cast(end, kind)
    step, index = b.divide(b.subtract(end, start), b.cast(steps - 1, kind)), b.arange(0, steps, 1, INT64)
    rising = b.add(start, b.multiply(step, b.cast(index, kind)))
    falling = b.subtract(end, b.multiply(step, b.cast(b.subtract(steps - 1, index), kind)))
    return b.where(b.less(index, steps // 2), rising, falling)


RANGE = "less arange reshape cast add multiply subtract divide equal where broadcast_to"


@spelling("torch.linspace", ops=RANGE)
def _(
    b, start, end, steps, *, out=unsupported(), dtype=None, layout=unsupported(), device=unsupported(),
    requires_grad=unsupported(False),
):  # fmt: skip
    kind = FLOAT32 if dtype is None else as_dtype(dtype)
    if kind in HALVES and helpers.is_integer(steps) and steps > 1:
        return _range_of_halves(b, start, end, int(steps), kind)
    return b.cast(_range(b, start, end, steps, "torch.linspace"), kind)


@spelling("torch.logspace", ops=f"{RANGE} power")
def _(
    b, start, end, steps, base=10.0, *, out=unsupported(), dtype=None, layout=unsupported(), device=unsupported(),
    requires_grad=unsupported(False),
):  # fmt: skip
    exponents = _range(b, start, end, steps, "torch.logspace")
    return b.cast(b.power(b.cast(base, FLOAT64), exponents), FLOAT32 if dtype is None else as_dtype(dtype))


@spelling("torch.meshgrid", ops="reshape broadcast_to")
def _(b, *tensors, indexing=None):
    tensors = helpers.sizes(tensors)
    for x in tensors:
        helpers.require_rank(b, "a tensor of torch.meshgrid", x, (0, 1))
    lines = [b.reshape(x, (-1,)) for x in tensors]
    order = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        order[:2] = [1, 0]
    shape = tuple(helpers.shape_of(b, lines[axis])[0] for axis in order)
    return tuple(spread(b, line, order.index(axis), shape) for axis, line in enumerate(lines))
