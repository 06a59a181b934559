"""The functions of `numpy` that repeat, shift, pad and join arrays, with NumPy 2's signatures and defaults.

Indices are known at compile time: `taken` lowers a list of them to slices, flips and broadcasts, or a long one to a
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from mlirtri.dialect.base.tensor_type import broadcast_shapes
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import SPELLINGS, Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.ufuncs import FLOAT64, INT64, arrays, as_array


def known_ints(b: Builder, value: Value, subject: str) -> Value:
    """Return a compile-time int or a tuple of them; fail for anything else."""
    if isinstance(value, (tuple, list)):
        return tuple(known_ints(b, element, subject) for element in value)
    return known_int(b, value, subject)


def known_int(b: Builder, value: Value, subject: str) -> int:
    """Return a compile-time int; fail for anything else."""
    if not helpers.is_integer(value):
        b.fail(f"{subject} has to be an integer known at compile time, got {b.type_of(value) or repr(value)}")
    return int(value)


# --- taking known indices ------------------------------------------------------------------------------------------


def _runs(positions: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return indices as runs of (start, step, count) with steps 1, -1 and 0."""
    runs: list[tuple[int, int, int]] = []
    for position in positions:
        if runs:
            start, step, count = runs[-1]
            move = position - (start + step * (count - 1))
            if abs(move) <= 1 and (count == 1 or move == step):
                runs[-1] = (start, move, count + 1)
                continue
        runs.append((position, 0, 1))
    return runs


def _run_of(b: Builder, x: Value, axis: int, run: tuple[int, int, int]) -> Value:
    start, step, count = run
    if step == 0:
        shape = helpers.shape_of(b, x)
        first = b.cut(x, axis, slice(start, start + 1))
        return first if count == 1 else b.broadcast_to(first, (*shape[:axis], count, *shape[axis + 1 :]))
    stop = start + step * count
    return b.cut(x, axis, slice(start, None if stop < 0 else stop, step))


TAKEN = "cut broadcast_to concatenate transpose pick literal"
MOST_RUNS = 24
"""Runs of known indices that are slices; more are read by a table of indices."""


def taken(b: Builder, x: Value, positions: Sequence[int], axis: int) -> Value:
    """Return the elements of `x` at known indices of an axis."""
    if list(positions) == list(range(helpers.shape_of(b, x)[axis])):
        return x
    if not len(positions):
        return b.cut(x, axis, slice(0, 0))
    runs = _runs(positions)
    if len(runs) > MOST_RUNS:
        order = (axis, *(other for other in range(helpers.rank_of(b, x)) if other != axis))
        picked = b.pick(b.transpose(x, order), b.literal(tuple(positions), (len(positions),), INT64))
        return b.transpose(picked, tuple(map(order.index, range(len(order)))))
    parts = [_run_of(b, x, axis, run) for run in runs]
    return parts[0] if len(parts) == 1 else b.concatenate(tuple(parts), axis)


def rolled(b: Builder, x: Value, shift: Argument, axis: Argument) -> Value:
    """Return `numpy.roll` or `torch.roll`."""
    shape, shifts = helpers.shape_of(b, x), helpers.as_tuple(shift)
    if axis is None:
        x = b.reshape(x, (-1,))
        for amount in shifts:
            x = b.roll(x, amount, 0)
        return b.reshape(x, shape)
    axes = tuple(helpers.one_axis(b, part, len(shape)) for part in helpers.as_tuple(axis))
    for amount, position in broadcast_pairs(b, shifts, axes):
        x = b.roll(x, amount, position)
    return x


def broadcast_pairs(b: Builder, first: tuple[Value, ...], second: tuple[Value, ...]) -> list[tuple[Value, Value]]:
    """Pair two tuples; one of length 1 is repeated."""
    if len(first) != len(second) and 1 not in (len(first), len(second)):
        b.fail(f"{len(first)} values do not go with {len(second)}")
    count = max(len(first), len(second))
    longer = [values * count if len(values) == 1 else values for values in (first, second)]
    return list(zip(*longer, strict=True))


register("numpy.roll", lambda b, a, shift, axis=None: rolled(b, as_array(b, a), shift, axis), "roll reshape")


@spelling("numpy.repeat", ops=f"reshape unsqueeze {TAKEN}")
def repeat(b, a, repeats, axis=None):
    a = as_array(b, a)
    if axis is None:
        a, axis = b.reshape(a, (-1,)), 0
    shape = helpers.shape_of(b, a)
    axis, repeats = helpers.one_axis(b, axis, len(shape)), known_ints(b, repeats, "the number of repeats")
    counts = helpers.as_tuple(repeats)
    if len(counts) not in (1, shape[axis]) or any(count < 0 for count in counts):
        b.fail(f"{len(counts)} repeats do not go with the {shape[axis]} elements of axis {axis}")
    if len(counts) == 1:
        spread = b.broadcast_to(b.unsqueeze(a, axis + 1), (*shape[: axis + 1], counts[0], *shape[axis + 1 :]))
        return b.reshape(spread, (*shape[:axis], shape[axis] * counts[0], *shape[axis + 1 :]))
    return taken(b, a, [index for index, count in enumerate(counts) for _ in range(count)], axis)


@spelling("numpy.tile", ops="reshape broadcast_to")
def _(b, A, reps):
    A = as_array(b, A)
    return tiled(b, A, helpers.as_tuple(known_ints(b, reps, "the number of repetitions")))


def tiled(b: Builder, x: Value, reps: tuple[int, ...]) -> Value:
    """Return `numpy.tile` or `torch.tile`: each axis repeated, the axes aligned at the end."""
    shape = helpers.shape_of(b, x)
    rank = max(len(shape), len(reps))
    shape = (*[1] * (rank - len(shape)), *shape)
    reps = (*[1] * (rank - len(reps)), *reps)
    pairs = list(zip(reps, shape, strict=True))
    spread = b.reshape(x, tuple(part for _, size in pairs for part in (1, size)))
    spread = b.broadcast_to(spread, tuple(part for pair in pairs for part in pair))
    return b.reshape(spread, tuple(count * size for count, size in pairs))


@spelling("numpy.delete", ops=f"reshape {TAKEN}")
def _(b, arr, obj, axis=None):
    if axis is None:
        arr, axis = b.reshape(arr, (-1,)), 0
    axis = helpers.one_axis(b, axis, helpers.rank_of(b, arr))
    size = helpers.shape_of(b, arr)[axis]
    dropped = range(size)[obj] if isinstance(obj, slice) else helpers.as_tuple(known_ints(b, obj, "what is deleted"))
    if any(not -size <= index < size for index in dropped):
        b.fail(f"{obj} is out of range for axis {axis} of size {size}")
    deleted = {index % size for index in dropped}
    return taken(b, arr, [position for position in range(size) if position not in deleted], axis)


@spelling("numpy.append", ops="reshape concatenate")
def _(b, arr, values, axis=None):
    arr, values = arrays(b, arr, values)
    if axis is None:
        return b.concatenate((b.reshape(arr, (-1,)), b.reshape(values, (-1,))), 0)
    return b.concatenate((arr, values), axis)


# --- padding -------------------------------------------------------------------------------------------------------

_COPYING = ("edge", "reflect", "symmetric", "wrap")


def widths_of(b: Builder, pad_width: Argument, rank: int) -> list[tuple[int, int]]:
    """Return (before, after) per axis, from NumPy's int, pair, pairs or dict of axes."""
    if isinstance(pad_width, dict):
        pairs = {helpers.one_axis(b, axis, rank): pair for axis, pair in pad_width.items()}
        pad_width = [pairs.get(axis, (0, 0)) for axis in range(rank)]
        pad_width = [pair if isinstance(pair, (tuple, list)) else (pair, pair) for pair in pad_width]
    return _pairs(b, known_ints(b, pad_width, "a pad width"), rank)


def _pairs(b: Builder, values: Argument, rank: int) -> list[tuple[Any, Any]]:
    """Return a pair of numbers per axis from a number, a pair, or pairs."""
    try:
        return list(map(tuple, numpy.broadcast_to(numpy.array(values), (rank, 2)).tolist()))
    except ValueError:
        b.fail(f"the ends of {rank} axes have one number, a pair, or a pair for each axis, not {values}")


@spelling(
    "numpy.pad",
    ops=f"pad {TAKEN} cast full cut broadcast_to subtract multiply add flip floor round mean max min "
    "sum divide where sort concatenate reshape",
)
def _(b, array, pad_width, mode="constant", *, constant_values=0, reflect_type="even", stat_length=None, end_values=0):
    array = as_array(b, array)
    shape = helpers.shape_of(b, array)
    widths = widths_of(b, pad_width, len(shape))
    if any(width < 0 for pair in widths for width in pair):
        b.fail("pad widths are 0 or more")
    if mode == "empty" or (mode == "constant" and b.type_of(constant_values) is None):
        return _padded_with(b, array, widths, 0 if mode == "empty" else constant_values)
    if mode == "constant":
        return _padded_with_value(b, array, widths, constant_values)
    if mode in (*_STATISTICS, "linear_ramp"):
        given = end_values if mode == "linear_ramp" else stat_length
        ends = numpy.broadcast_to(numpy.array(given), (len(widths), 2)).tolist()
        return _padded_with_computed(b, array, widths, mode, ends)
    if mode not in _COPYING:
        known = ", ".join(("constant", *_COPYING, *_STATISTICS, "linear_ramp"))
        b.fail(f"numpy.pad has the modes {known} and empty in kernels, not {mode!r}")
    if mode in ("reflect", "symmetric") and reflect_type == "odd":
        return _padded_by_odd_reflections(b, array, widths, mode)
    for axis, (low, high) in enumerate(widths):
        array = taken(b, array, padded_indices(shape[axis], low, high, mode), axis)
    return array


def _padded_with_computed(
    b: Builder, x: Value, widths: list[tuple[int, int]], mode: str, given: list[list[Argument]]
) -> Value:
    """Pad axis by axis with a statistic of the elements at each end, or with a ramp from a number to the edge."""
    dtype = b.type_of(x).dtype

    def spelled(name: str, *arguments: Argument, **keywords: Argument) -> Value:
        return SPELLINGS[f"numpy.{name}"].call(b, *arguments, **keywords)

    for axis, width in enumerate(widths):
        shape, ends = helpers.shape_of(b, x), []
        for is_high in (0, 1):
            count, size = width[is_high], shape[axis]
            sizes = (*shape[:axis], count, *shape[axis + 1 :])
            if mode == "linear_ramp":
                edge = b.cut(x, axis, slice(size - 1, None) if is_high else slice(0, 1))
                line = (-1, *[1] * (len(shape) - axis - 1))
                steps = numpy.arange(count)[::-1] if is_high else numpy.arange(count)
                step = b.reshape(spelled("array", (steps / max(count, 1)).tolist()), line)
                wide = edge if dtype.is_inexact else b.cast(edge, FLOAT64)
                start = given[axis][is_high]
                ramp = b.add(b.multiply(b.subtract(wide, start), step), start)
                ends.append(b.cast(ramp if dtype.is_inexact else b.floor(ramp), dtype))
                continue
            length = given[axis][is_high] or size
            near = b.cut(x, axis, slice(size - min(length, size), None) if is_high else slice(0, min(length, size)))
            value = spelled(_STATISTICS[mode], near, axis=axis, keepdims=True)
            value = spelled("round", value) if mode in ("mean", "median") and not dtype.is_inexact else value
            ends.append(b.broadcast_to(b.cast(value, dtype), sizes))
        x = b.concatenate((ends[0], x, ends[1]), axis)
    return x


_STATISTICS = {"mean": "mean", "median": "median", "maximum": "max", "minimum": "min"}


def _padded_by_odd_reflections(b: Builder, x: Value, widths: list[tuple[int, int]], mode: str) -> Value:
    """Pad axis by axis with twice the edge minus the reflection, as far as one reflection reaches."""
    for axis, (low, high) in enumerate(widths):
        size, skipped = helpers.shape_of(b, x)[axis], int(mode == "reflect")
        if max(low, high) > size - skipped:
            b.fail(f"an odd reflection reaches {size - skipped} elements in kernels, not {max(low, high)}")
        before = b.flip(b.cut(x, axis, slice(skipped, skipped + low)), (axis,))
        after = b.flip(b.cut(x, axis, slice(size - skipped - high, size - skipped)), (axis,))
        edges = b.cut(x, axis, slice(0, 1)), b.cut(x, axis, slice(size - 1, None))
        before, after = (b.subtract(b.multiply(e, 2), part) for e, part in zip(edges, (before, after), strict=True))
        x = b.concatenate((before, x, after), axis)
    return x


def padded_indices(size: int, low: int, high: int, mode: Argument) -> list[int]:
    """Return the index of the element at each position of a padded axis, by a mode of `numpy.pad`."""
    return numpy.pad(numpy.arange(size), (low, high), mode).tolist()


def _padded_with(b: Builder, x: Value, widths: list[tuple[int, int]], values: Value) -> Value:
    """Pad with compile-time constants, at once or, where they differ, axis by axis as NumPy does."""
    pairs = _pairs(b, values, len(widths))
    if len({value for pair in pairs for value in pair}) <= 1:
        return b.pad(x, tuple(widths), pairs[0][0] if pairs else 0)
    for axis, pair in enumerate(pairs):
        for end, value in enumerate(pair):
            only = [(0, 0)] * len(widths)
            only[axis] = (widths[axis][0], 0) if end == 0 else (0, widths[axis][1])
            x = b.pad(x, tuple(only), value)
    return x


def _padded_with_value(b: Builder, x: Value, widths: list[tuple[int, int]], value: Value) -> Value:
    if helpers.rank_of(b, value):
        b.fail("constant_values is one number, or pairs of numbers known at compile time")
    value = b.cast(value, b.type_of(x).dtype)
    for axis, (low, high) in enumerate(widths):
        shape = helpers.shape_of(b, x)
        ends = [b.broadcast_to(value, (*shape[:axis], width, *shape[axis + 1 :])) for width in (low, high)]
        x = b.concatenate((ends[0], x, ends[1]), axis)
    return x


# --- joining and splitting -----------------------------------------------------------------------------------------


def at_least(b: Builder, x: Value, rank: int) -> Value:
    """Return `x` with axes of size 1, up to `rank`: leading ones for rank 1 and 2, for rank 3 as `atleast_3d`."""
    shape = helpers.shape_of(b, x)
    if rank < 3 or len(shape) >= 3:
        return helpers.at_least(b, x, rank)
    return b.reshape(x, {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}[len(shape)])


def _at_least(rank: int):
    def function(b, *arys):
        results = tuple(at_least(b, x, rank) for x in arrays(b, *arys))
        return results[0] if len(results) == 1 else results

    return function


for _rank in (1, 2, 3):
    register(f"numpy.atleast_{_rank}d", _at_least(_rank), "reshape cast")


@spelling("numpy.dstack", ops="concatenate reshape")
def _(b, tup):
    return b.concatenate(tuple(at_least(b, x, 3) for x in arrays(b, *tup)), 2)


@spelling("numpy.column_stack", ops="concatenate reshape")
def _(b, tup):
    columns = [b.reshape(x, (-1, 1)) if helpers.rank_of(b, x) < 2 else x for x in arrays(b, *tup)]
    return b.concatenate(tuple(columns), 1)


def _split_along(axis: int):
    def function(b, ary, indices_or_sections):
        split_axis = 0 if axis == 1 and helpers.rank_of(b, ary) == 1 else axis
        parts = indices_or_sections
        parts = parts if helpers.is_integer(parts) else helpers.as_tuple(parts)
        return list(b.split(ary, parts, split_axis))

    return function


for _axis, _name in enumerate(("vsplit", "hsplit", "dsplit")):
    spelling(f"numpy.{_name}", ops="split")(_split_along(_axis))


@spelling("numpy.broadcast_arrays", ops="broadcast_to")
def _(b, *args, subok=unsupported(False)):
    operands = arrays(b, *args)
    shape = broadcast_shapes(*(helpers.shape_of(b, x) for x in operands))
    return tuple(b.broadcast_to(x, shape) for x in operands)


@spelling("numpy.broadcast_shapes", ops="")
def _(b, *args):
    return broadcast_shapes(*(helpers.as_tuple(known_ints(b, shape, "a size")) for shape in args))


@spelling("numpy.rollaxis", ops="transpose")
def _(b, a, axis, start=0):
    rank = helpers.rank_of(b, a)
    axis, start = helpers.one_axis(b, axis, rank), known_int(b, start, "the start of rollaxis")
    start = start + rank if start < 0 else start
    return helpers.moved(b, a, axis, start - 1 if axis < start else start)


def rotated(b: Builder, x: Value, k: Argument, axes: Argument) -> Value:
    """Return `numpy.rot90` or `torch.rot90`: `x` rotated `k` times by 90 degrees in the plane of two axes."""
    if len(helpers.as_tuple(axes)) != 2:
        b.fail(f"the plane of a rotation has two axes, not {axes!r}")
    first, second = helpers.many_axes(b, axes, helpers.rank_of(b, x))
    rotations = known_int(b, k, "the number of rotations") % 4
    if rotations == 2:
        return b.flip(b.flip(x, first), second)
    if rotations == 1:
        return helpers.swapped(b, b.flip(x, second), first, second)
    return b.flip(helpers.swapped(b, x, first, second), second) if rotations else x


register("numpy.rot90", lambda b, m, k=1, axes=(0, 1): rotated(b, m, k, axes), "flip transpose")


@spelling("numpy.select", ops="where cast")
def _(b, condlist, choicelist, default=0):
    condlist, choicelist = helpers.as_tuple(condlist), helpers.as_tuple(choicelist)
    if len(condlist) != len(choicelist) or not condlist:
        b.fail(f"{len(condlist)} conditions do not go with {len(choicelist)} choices")
    result = default
    for condition, values in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = b.where(condition, values, result)
    return result
