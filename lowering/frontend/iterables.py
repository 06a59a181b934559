"""What a `for` of a kernel goes over: ranges, arrays, sequences known now, and combinations of these.

Gives how many turns there are, as far as that is known, and what the target is in each.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.language.storage import current
from mlirtri.lowering.frontend.python_to_ast import span_of_node


@dataclass(frozen=True)
class Iterable:
    """Turns 0 to `count` - 1; the `item` of a turn takes an int, or a Python int of run time."""

    count: Size
    item: Callable[[Any], Any]
    unroll: bool = False
    """Whether every turn is made on its own, however many there are."""
    start: Size | None = None
    """For a range with a positive step: the loop itself counts from here in `step`."""
    step: int = 1

    @property
    def known(self) -> int | None:
        return max(0, self.count.constant) if self.count.is_constant else None


def iterable_of(visitor: Any, node: ast.expr) -> Iterable:
    """What the expression after `in` is; raises `KernelTypeError` for what has no turns."""
    if isinstance(node, ast.Call):
        callee = visitor.visit(node.func)
        name = "static_range" if getattr(callee, "__mlirtri_name__", None) == "mlirtri.static_range" else callee
        if name in _CALLS and not node.keywords:
            return _CALLS[name](visitor, node)
        if callee is enumerate:
            return _enumerate(visitor, node)
    return _of_value(visitor, visitor.visit(node), node)


def _of_value(visitor: Any, value: Any, node: ast.expr) -> Iterable:
    if isinstance(value, range):
        return _range(visitor, value.start, value.stop, value.step)
    if isinstance(value, Tensor) and value.type.rank:
        # Each turn reads what the array holds then.
        return Iterable(
            Size.of(value.type.shape[0]), lambda turn: visitor.element(current(visitor.b.tri, value), (turn,))
        )
    if isinstance(value, (tuple, list, str)):
        return Iterable(Size.of(len(value)), lambda turn: value[turn], unroll=True)
    raise KernelTypeError(f"cannot loop over {describe(value)}", span_of_node(visitor.file, node))


def _range_call(visitor: Any, node: ast.Call) -> Iterable:
    arguments = visitor.elements(node.args)
    if not 1 <= len(arguments) <= 3:
        raise KernelTypeError(f"range takes 1 to 3 arguments, got {len(arguments)}")
    for each in arguments:
        is_integer = isinstance(each, Tensor) and not each.type.rank and each.type.dtype.is_integer
        if not is_integer and (isinstance(each, Tensor) or not hasattr(type(each), "__index__")):
            raise KernelTypeError(f"range takes integers, got {describe(each)}")
    start, stop, step = (0, *arguments, 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    return _range(visitor, start, stop, step)


def _range(visitor: Any, start: Any, stop: Any, step: Any) -> Iterable:
    indices = visitor.b.indices
    if isinstance(step, Tensor):
        size = indices.size_of(step)
        if not size.is_constant:
            return _run_time_steps(visitor, indices.size_of(start), indices.size_of(stop), size)
        step = size.constant
    if step == 0:
        raise KernelValueError("the step of a range is 0")
    first, last, step = indices.size_of(start), indices.size_of(stop), int(step)
    extent = last - first if step > 0 else first - last
    count = indices.floor_divide(extent + (abs(step) - 1), abs(step))

    def item(turn: Any) -> Any:
        position = first + indices.size_of(turn) * step
        return position.constant if position.is_constant else indices.tensor_of(position)

    return Iterable(count, item, start=first if step > 0 else None, step=step)


def _run_time_steps(visitor: Any, start: Size, stop: Size, step: Size) -> Iterable:
    """A range whose step only the run shows; it has to be positive."""
    b, indices = visitor.b, visitor.b.indices
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

    def item(turn: Any) -> Any:
        moved = b.tri.multiply(b.tri.index(indices.size_of(turn)), by)
        position = b.tri.add(b.tri.index(start), moved)
        symbol = indices.symbol(position, "i", start, stop - 1)
        return Tensor(position.value, position.type, weak=True, linear=Size.of(symbol))

    return Iterable(count, item)


def _static_range(visitor: Any, node: ast.Call) -> Iterable:
    over = _range_call(visitor, node)
    if over.known is None:
        raise KernelTypeError("static_range takes integers known at compile time", span_of_node(visitor.file, node))
    return Iterable(over.count, over.item, unroll=True)


def _zip(visitor: Any, node: ast.Call) -> Iterable:
    parts = [iterable_of(visitor, each) for each in node.args]
    if not parts:
        raise KernelTypeError("zip needs something to loop over")
    count = parts[0].count
    for part in parts[1:]:
        count = visitor.b.indices.minimum(count, part.count)
    return Iterable(count, lambda turn: tuple(p.item(turn) for p in parts), any(p.unroll for p in parts))


def _enumerate(visitor: Any, node: ast.Call) -> Iterable:
    if not 1 <= len(node.args) + len(node.keywords) <= 2:
        raise KernelTypeError("enumerate takes something to loop over, and a start")
    rest = [visitor.visit(each) for each in node.args[1:]] + [visitor.visit(each.value) for each in node.keywords]
    over, first = iterable_of(visitor, node.args[0]), rest[0] if rest else 0

    def number(turn: Any) -> Any:
        position = visitor.b.indices.size_of(turn) + visitor.b.indices.size_of(first)
        return position.constant if position.is_constant else visitor.b.indices.tensor_of(position)

    return Iterable(over.count, lambda turn: (number(turn), over.item(turn)), over.unroll)


def _reversed(visitor: Any, node: ast.Call) -> Iterable:
    if len(node.args) != 1:
        raise KernelTypeError("reversed takes one argument")
    over = iterable_of(visitor, node.args[0])
    indices = visitor.b.indices

    def item(turn: Any) -> Any:
        position = over.count - 1 - indices.size_of(turn)
        return over.item(position.constant if position.is_constant else indices.tensor_of(position))

    return Iterable(over.count, item, over.unroll)


_CALLS = {range: _range_call, "static_range": _static_range, zip: _zip, reversed: _reversed}
