"""Iterables of a kernel's loops: ranges, arrays, compile-time sequences, and combinations of these."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import KernelTypeError, KernelValueError, UnsupportedSyntaxError
from mlirtri.lowering.core.interface import bound_arguments
from mlirtri.lowering.frontend.context import FunctionContext, function_named, visit
from mlirtri.lowering.frontend.expressions import elements
from mlirtri.lowering.frontend.indexing.reads import element
from mlirtri.lowering.frontend.operators import binary
from mlirtri.lowering.frontend.semantics.axes import is_index, is_run_time_integer
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.container_values import Dict, List, View
from mlirtri.lowering.frontend.semantics.storage import current
from mlirtri.lowering.frontend.semantics.value_ranges import tightened
from mlirtri.lowering.frontend.tile_kernels import range_of
from mlirtri.lowering.frontend.tile_language.function_table import LOOPS, name_of_tile_function

ITERATED = ".iterated"
"""Start of the hidden names of arrays that loops run over."""


@dataclass(frozen=True)
class Iterable:
    """Iterations 0 to `count` - 1; `item` maps an iteration to its value.

    An iteration is an int, or an SSA value that promotes as Python's int does.
    """

    count: Size
    item: Callable[[Any], Any]
    unroll: bool = False
    """Whether to unroll the loop, however many iterations it has."""
    start: Size | None = None
    """For a range with a positive step: the initial value of the induction variable, which advances by `step`."""
    step: int = 1
    order: str = "python"
    """`python`: as fast as the same results allow; `serial`: in order, not unrolled; `parallel`: declared independent;
    `blocks`: the blocks of a tile kernel, which run in any order where that changes nothing; `pipelined`: in order,
    with the copies of later iterations ahead.
    """

    stages: int = 0
    """Of a pipelined loop: iterations whose copies are in memory at once."""

    @property
    def static_count(self) -> int | None:
        return max(0, self.count.constant) if self.count.is_constant else None


def iterable_of(context: FunctionContext, node: ast.expr) -> Iterable:
    """Return the iterable of the expression after `in`; raises `KernelTypeError` for other values."""
    if isinstance(node, ast.Call):
        callee = function_named(context, node)
        if (loop := name_of_tile_function(callee)) in LOOPS:
            return _of_tile_kernel(context, loop, range_of(context, loop, node))
        name = getattr(callee, "__mlirtri_name__", callee)
        if name in _CALLS and not node.keywords:
            return _CALLS[name](context, node)
        if callee is enumerate:
            return _enumerate(context, node)
    return _of_value(context, visit(context, node), node)


def _of_tile_kernel(context: FunctionContext, name: str, node: ast.Call) -> Iterable:
    iterable = _range_call(context, node)
    if name == "unroll":
        return replace(iterable, unroll=iterable.static_count is not None)
    if name == "Parallel":
        return _parallel(context, node, iterable)
    # A grid and a pipeline stay loops, however short.
    stages = next((visit(context, keyword.value) for keyword in node.keywords if keyword.arg == "num_stages"), 0)
    return replace(iterable, order={"blocks": "blocks", "Pipelined": "pipelined"}.get(name, "python"), stages=stages)


def _of_value(context: FunctionContext, value: Any, node: ast.expr) -> Iterable:
    if isinstance(value, range):
        return _range(context.b, value.start, value.stop, value.step)
    if isinstance(value, TriValue) and value.type.rank:
        _hold(context, value)
        return Iterable(
            Size.of(value.type.shape[0]),
            lambda iteration: element(context.b, current(context.b.tri, value), (iteration,)),
        )
    if isinstance(value, (List, Dict, View)):
        return _of_container(context, value)
    if isinstance(value, (tuple, list, str, dict)):
        parts = list(value) if isinstance(value, dict) else value
        return Iterable(Size.of(len(parts)), lambda iteration: parts[iteration], unroll=True)
    is_count = isinstance(value, int) or (isinstance(value, TriValue) and value.type.dtype.is_integer)
    help = f"write range({ast.unparse(node)})" if is_count else "loop over a range, an array or a tuple"
    raise KernelTypeError(f"cannot loop over {describe(value)}", context.span(node), help=help)


def _hold(context: FunctionContext, value: Any) -> str:
    """Give what a loop runs over a hidden name until the loop ends, so that every iteration reads its content then."""
    name = f"{ITERATED}{len(context.scope.locals)}"
    context.scope.locals[name] = value
    return name


def _of_container(context: FunctionContext, value: Any) -> Iterable:
    """Return the iterable of a list or dict, whose items are those that it has when an iteration begins."""
    name = _hold(context, value)

    def item(iteration: Any) -> Any:
        # A loop or branch around replaces the dictionary of names.
        now = context.scope.locals.get(name, value)
        if len(now) != len(value):
            raise UnsupportedSyntaxError(
                f"this loop changes the length of {describe(value)}, over which it runs", help="loop over list(x)"
            )
        return list(now)[iteration]

    return Iterable(Size.of(len(value)), item, unroll=True)


def _range_call(context: FunctionContext, node: ast.Call) -> Iterable:
    arguments = elements(context, node.args)
    if not 1 <= len(arguments) <= 3:
        raise KernelTypeError(f"range takes 1 to 3 arguments, got {len(arguments)}", context.span(node))
    for bound in arguments:
        if not is_run_time_integer(bound) and (isinstance(bound, TriValue) or not hasattr(type(bound), "__index__")):
            is_array = isinstance(bound, TriValue) and bound.type.rank
            help = "write range(len(x)), or `for element in x`" if is_array else "convert it by int(…)"
            raise KernelTypeError(f"range takes integers, got {describe(bound)}", context.span(node), help=help)
    start, stop, step = (0, *arguments, 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    return _range(context.b, start, stop, step)


def _range(b: Language, start: Any, stop: Any, step: Any) -> Iterable:
    indices = b.indices
    if isinstance(step, TriValue):
        size = indices.size_of(step)
        if not size.is_constant:
            return _range_of_run_time_step(b, indices.size_of(start), indices.size_of(stop), size)
        step = size.constant
    if step == 0:
        raise KernelValueError("the step of a range is 0")
    first, last, step = tightened(indices.size_of(start)), indices.size_of(stop), int(step)
    extent = last - first if step > 0 else first - last
    count = indices.floor_divide(extent + (abs(step) - 1), abs(step))

    def item(iteration: Any) -> Any:
        return b.number_of((first + indices.size_of(iteration) * step).simplified())

    return Iterable(count, item, start=first if step > 0 else None, step=step)


def _range_of_run_time_step(b: Language, start: Size, stop: Size, step: Size) -> Iterable:
    indices = b.indices
    least = step.least()
    if least is None or least < 1:
        wrong = b.tri.less(b.tri.index(step), b.tri.index(1))
        b.check(wrong, KernelValueError, "the step of a range is not positive, and known at run time only")
        step = indices.maximum(step, Size.of(1))
    by = b.tri.index(step)
    extent = b.tri.subtract(b.tri.add(b.tri.index(stop - start), by), b.tri.index(1))
    most = (stop - start).most()
    upper = None if most is None else Size.of(max(most, 0))
    count = Size.of(indices.symbol(b.tri.floor_divide(extent, by), "n", None, upper))

    def item(iteration: Any) -> Any:
        moved = b.tri.multiply(b.tri.index(indices.size_of(iteration)), by)
        position = b.tri.add(b.tri.index(start), moved)
        symbol = indices.symbol(position, "i", start, stop - 1)
        return TriValue(position.value, position.type, weak=True, linear=Size.of(symbol))

    return Iterable(count, item)


def _static_range(context: FunctionContext, node: ast.Call) -> Iterable:
    return _unrolled(context, "static_range", _range_call(context, node), node)


def _static(context: FunctionContext, node: ast.Call) -> Iterable:
    return _unrolled(context, "static", iterable_of(context, _only_argument(node)), node)


def _unrolled(context: FunctionContext, name: str, iterable: Iterable, node: ast.Call) -> Iterable:
    if iterable.static_count is None:
        message = f"{name} needs a number of iterations that is known at compile time"
        raise KernelTypeError(message, context.span(node))
    return Iterable(iterable.count, iterable.item, unroll=True)


def _only_argument(node: ast.Call) -> ast.expr:
    if len(node.args) != 1:
        raise KernelTypeError(f"{ast.unparse(node.func)} takes one argument, got {len(node.args)}")
    return node.args[0]


def _serial(context: FunctionContext, node: ast.Call) -> Iterable:
    return replace(_range_call(context, node), order="serial")


def _prange(context: FunctionContext, node: ast.Call) -> Iterable:
    return _parallel(context, node, _range_call(context, node))


def _ndrange(context: FunctionContext, node: ast.Call) -> Iterable:
    """Return the iterable of an `ndrange` with one bound; `loops` makes nested loops of one with several."""
    if len(node.args) != 1:
        raise KernelTypeError("ndrange takes the bounds of one axis or more", context.span(node))
    [bound] = elements(context, node.args)
    first, last = bound if isinstance(bound, (tuple, list)) and len(bound) == 2 else (0, bound)
    return _parallel(context, node, _range(context.b, first, last, 1))


def _parallel(context: FunctionContext, node: ast.Call, iterable: Iterable) -> Iterable:
    if iterable.start is None:
        raise KernelValueError(
            "a parallel loop has a positive step that is known at compile time", context.span(node),
            help="its iterations have no order: count upwards",
        )  # fmt: skip
    return replace(_from_zero_on(context.b, iterable), order="parallel")


def _from_zero_on(b: Language, iterable: Iterable) -> Iterable:
    """Check a start of run time: negative indices count from the end, where other iterations may be."""
    start, indices = Size.of(iterable.start or 0), b.indices
    least = start.least()
    if start.is_constant or (least is not None and least >= 0):
        return iterable
    message = "a parallel loop starts below 0, which is known at run time only"
    b.check(b.tri.less(b.tri.index(start), b.tri.index(0)), KernelValueError, message)
    first = indices.maximum(start, Size.of(0))
    upper = start + iterable.count * iterable.step
    count = indices.floor_divide(upper - first + (iterable.step - 1), iterable.step)

    def item(iteration: Any) -> TriValue:
        return indices.tensor_of(first + indices.size_of(iteration) * iterable.step)

    return replace(iterable, count=count, item=item, start=first)


def _zip(context: FunctionContext, node: ast.Call) -> Iterable:
    parts = [iterable_of(context, argument) for argument in node.args]
    if not parts:
        raise KernelTypeError("zip needs something to loop over")
    count = parts[0].count
    for part in parts[1:]:
        count = context.b.indices.minimum(count, part.count)
    return Iterable(count, lambda iteration: tuple(p.item(iteration) for p in parts), any(p.unroll for p in parts))


def _enumerate(context: FunctionContext, node: ast.Call) -> Iterable:
    keywords = {str(keyword.arg): keyword.value for keyword in node.keywords}
    bound = bound_arguments("enumerate", _SIGNATURE_OF_ENUMERATE, node.args, keywords).arguments
    b, first = context.b, visit(context, bound["start"]) if "start" in bound else 0
    iterable = iterable_of(context, bound["iterable"])

    def number(iteration: Any) -> Any:
        return b.number_of((b.indices.size_of(iteration) + b.indices.size_of(first)).simplified())

    return Iterable(iterable.count, lambda iteration: (number(iteration), iterable.item(iteration)), iterable.unroll)


_SIGNATURE_OF_ENUMERATE = inspect.signature(lambda iterable, start=0: None)


def _reversed(context: FunctionContext, node: ast.Call) -> Iterable:
    b, iterable = context.b, iterable_of(context, _only_argument(node))

    def item(iteration: Any) -> Any:
        return iterable.item(b.number_of((iterable.count - 1 - b.indices.size_of(iteration)).simplified()))

    return Iterable(iterable.count, item, iterable.unroll)


def _ndindex(context: FunctionContext, node: ast.Call) -> Iterable:
    sizes = elements(context, node.args)
    return _positions(context, sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)


def _positions(context: FunctionContext, sizes: Sequence[Any]) -> Iterable:
    """Return the iterable of the tuples of positions in an array of these sizes, the last axis fastest."""
    b = context.b
    for size in sizes:
        if not is_index(size):
            raise KernelTypeError(f"numpy.ndindex takes integers, got {describe(size)}")
        if isinstance(size, int) and size < 0:
            raise KernelValueError(f"numpy.ndindex of the negative size {size}")
    count = reduce(b.indices.product, map(b.indices.size_of, sizes), Size.of(1))

    def item(iteration: Any) -> tuple[Any, ...]:
        rest, positions = iteration, []
        for size in reversed(sizes[1:]):
            positions.append(binary(b, ast.Mod(), rest, size))
            rest = binary(b, ast.FloorDiv(), rest, size)
        return (rest, *reversed(positions)) if sizes else ()

    return Iterable(count, item)


def _ndenumerate(context: FunctionContext, node: ast.Call) -> Iterable:
    value = visit(context, _only_argument(node))
    if not isinstance(value, TriValue):
        raise KernelTypeError(f"numpy.ndenumerate takes an array, got {describe(value)}", context.span(node))
    _hold(context, value)
    positions = _positions(context, [context.b.number_of(Size.of(size)) for size in value.type.shape])

    def item(iteration: Any) -> tuple[Any, Any]:
        position = positions.item(iteration)
        return position, element(context.b, current(context.b.tri, value), position)

    return replace(positions, item=item)


_CALLS: dict[Any, Callable[[FunctionContext, ast.Call], Iterable]] = {
    range: _range_call,
    "mlirtri.static_range": _static_range,
    "mlirtri.static": _static,
    "mlirtri.serial": _serial,
    "mlirtri.prange": _prange,
    "mlirtri.ndrange": _ndrange,
    zip: _zip,
    reversed: _reversed,
    np.ndindex: _ndindex,
    np.ndenumerate: _ndenumerate,
}


def forget_iterated(context: FunctionContext, outer_names: set[str]) -> None:
    """Remove the names of what loops iterate over, but those of loops around, which are among `outer_names`."""
    names = context.scope.locals
    for name in [name for name in names if name.startswith(ITERATED) and name not in outer_names]:
        del names[name]
