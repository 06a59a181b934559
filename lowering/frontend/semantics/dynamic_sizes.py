"""Run-time sizes and indices in linear form: bounds decide at compile time where they can, else operations are emitted.

``A[i - 1]`` wraps around for a negative index and ``A[:n]`` ends with the axis. Where the bounds of the symbols exclude
both, nothing is emitted; otherwise rank-0 int64 operations select, and their result is a new symbol. Equal operations
on equal symbols give equal symbols, so equal slices have equal sizes. Sizes of operands that must be equal and are not
known to be are compared at run time; until the error is raised, after the call, the kernel computes on the smaller one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import Size, Symbol, is_dynamic
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.errors import KernelValueError
from mlirtri.lowering.frontend.semantics.fixed_sizes import FixedSizes
from mlirtri.lowering.frontend.semantics.storage import first_elements
from mlirtri.lowering.mlir_common.attributes import CLAMP

if TYPE_CHECKING:
    from mlirtri.lowering.frontend.semantics.builder import Language

INT64 = DTYPES["int64"]
_PURE = ("tri.", "arith.", "tensor.from_elements", "tensor.extract")


class IndexArithmetic:
    """Creates symbols, and emits the operations behind them."""

    def __init__(self, b: TriBuilder):
        self.b = b
        self.count = 0
        self.keys: dict[Any, Hashable] = {}
        self.computed: dict[Hashable, int] = {}
        self.checked: set[Hashable] = set()
        """Arrays of indices, with the size that they were compared with and the block where."""
        self.fixed = FixedSizes(b, self.symbol)

    def size_of(self, x: TriValue | int) -> Size:
        """Return the linear form of a Python int or of a run-time rank-0 integer."""
        if not isinstance(x, TriValue):
            return Size.of(int(x))
        if x.linear is not None:
            return x.linear
        if (number := constant_of(x.value)) is not None:
            return Size.of(number)
        # Bools and unsigned integers of fewer than 64 bits are non-negative.
        lower = Size.of(0) if x.type.dtype.is_unsigned or x.type.dtype.is_bool else None
        return Size.of(self.symbol(self.b.cast(x, INT64), "n", lower))

    def tensor_of(self, size: int | Size) -> TriValue:
        index = self.b.index(size)
        return TriValue(index.value, index.type, weak=True, linear=Size.of(size))

    def symbol(
        self, value: TriValue, name: str, lower: Size | None = None, upper: Size | None = None, takes_all: bool = False
    ) -> Symbol:
        self.count += 1
        return Symbol(
            self.key(value.value), name, lower, upper, TriValue(value.value, value.type), self.count, takes_all,
            self.fixed.is_open,
        )  # fmt: skip

    def forget(self) -> None:
        """Forget the keys of values: operations were erased, and new ones may reuse their addresses."""
        self.keys.clear()
        self.checked.clear()

    def key(self, value: ir.Value) -> Hashable:
        """Return a key that is equal for values computed by the same operations from the same values."""
        if value in self.keys:
            return self.keys[value]
        self.count += 1
        result: Hashable = -self.count
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.operation.name.startswith(_PURE):
            operation = owner.operation
            attributes = tuple((name, str(operation.attributes[name])) for name in operation.attributes)
            computed = (operation.name, attributes, *(self.key(operand) for operand in operation.operands))
            # Number the computations: comparing whole expression trees would be too slow.
            result = self.computed.setdefault(computed, len(self.computed))
        self.keys[value] = result
        return result

    def minimum(self, x: Size, y: Size) -> Size:
        if (bound := (y - x).least()) is not None and bound >= 0:
            return x
        if (bound := (x - y).least()) is not None and bound >= 0:
            return y
        least = [bound for size in (x, y) if (bound := size.least()) is not None]
        lower = Size.of(min(least)) if len(least) == 2 else None
        upper = x if y.most() is None else y
        return self._emitted("minimum", (x, y), (lower, upper))

    def maximum(self, x: Size, y: Size) -> Size:
        if (bound := (x - y).least()) is not None and bound >= 0:
            return x
        if (bound := (y - x).least()) is not None and bound >= 0:
            return y
        most = [bound for size in (x, y) if (bound := size.most()) is not None]
        upper = Size.of(max(most)) if len(most) == 2 else None
        lower = x if y.least() is None else y
        return self._emitted("maximum", (x, y), (lower, upper))

    def _emitted(self, name: str, operands: tuple[Size, ...], bounds: tuple[Size | None, Size | None]) -> Size:
        """Return the symbol of an operation on sizes, which is emitted in the prologue if it can."""
        emit = lambda: self.b.emit(name, *map(self.b.index, operands))  # noqa: E731 - emitted where the symbol is
        if self.fixed.has(*operands):
            return self.fixed.computed(name, operands, emit, bounds)
        return Size.of(self.symbol(emit(), "n", *bounds))

    def floor_divide(self, x: Size, divisor: int) -> Size:
        if divisor == 1:
            return x
        if all(factor % divisor == 0 for _, factor in x.terms):
            return Size(tuple((s, f // divisor) for s, f in x.terms), x.constant // divisor)
        least, most = x.least(), x.most()
        lower = None if least is None else Size.of(least // divisor)
        upper = None if most is None else Size.of(most // divisor)
        if upper is None and least is not None and least >= 0 and self.fixed.has(x):
            upper = x
        return self._emitted("floor_divide", (x, Size.of(divisor)), (lower, upper))

    def product(self, x: Size, y: Size) -> Size:
        """Return the product of two sizes, of which the factors of at most one may change in the body."""
        if x.is_constant or y.is_constant:
            return y * x.constant if x.is_constant else x * y.constant
        if self.fixed.has(x, y):
            return self.fixed.product(x, y)
        least = [size.least() for size in (x, y)]
        lower = Size.of(0) if all(low is not None and low >= 0 for low in least) else None
        return Size.of(self.symbol(self.b.multiply(self.b.index(x), self.b.index(y)), "n", lower))

    def wrapped(self, position: Size, size: Size) -> Size:
        """Return an index that counts from the end when it is negative."""
        if (bound := position.least()) is not None and bound >= 0:
            return position
        if (bound := position.most()) is not None and bound < 0:
            return position + size
        b = self.b

        def emit() -> TriValue:
            x = b.index(position)
            return b.where(b.less(x, b.constant(0, INT64)), b.index(position + size), x)

        if self.fixed.has(position, size):
            return self.fixed.computed("wrapped", (position, size), emit, (None, None))
        return Size.of(self.symbol(emit(), "i"))

    def inside(self, position: Size, size: Size, wraps: bool = True) -> Size:
        """Return the same for an index that is known to be inside of its axis; below 0 only if it `wraps`."""
        wrapped = self.wrapped(position, size) if wraps else position
        return self._bounded(wrapped, size) if wrapped.least() is None else wrapped

    def zero_where(self, wrong: TriValue, position: Size, size: Size) -> Size:
        """Return the index of an element, from the start of its axis, and 0 where it is wrong."""
        value = self.b.where(wrong, self.b.constant(0, INT64), self.b.index(position))
        return Size.of(self.symbol(value, "i", Size.of(0), size - 1))

    def _bounded(self, position: Size, size: Size) -> Size:
        return Size.of(self.symbol(self.b.index(position), "i", Size.of(0), size - 1))

    def element(self, position: Size, size: Size, wraps: bool = True) -> Size:
        """Return the index of one element of an axis, clamped to the axis; one below 0 counts from the end first."""
        position = self.wrapped(position, size) if wraps else position
        below = self._marked(position, self.minimum(position, size - 1))
        return self._marked(below, self.maximum(below, Size.of(0)))

    def _marked(self, position: Size, clamped: Size) -> Size:
        """Return an index after one half of its clamping, whose operation carries the attribute `CLAMP`."""
        if clamped != position and len(clamped.terms) == 1:
            [(symbol, _)] = clamped.terms
            owner = symbol.value.value.owner
            if not isinstance(owner, ir.Block) and owner.operation.name in ("tri.minimum", "tri.maximum"):
                owner.operation.attributes[CLAMP] = ir.UnitAttr.get()
        return clamped

    def slice_bounds_backwards(self, part: slice, size: Size, step: int) -> tuple[Size, Size]:
        """Return offset and number of the elements of ``start:stop:-step``, counted from the last element."""
        start = size - 1 if part.start is None else self._bound(part.start, size, -1)
        stop = Size.of(-1) if part.stop is None else self._bound(part.stop, size, -1)
        extent = self.maximum(start - stop, Size.of(0))
        count = self.floor_divide(extent + (step - 1), step)
        offset = start - (count - 1) * step
        return self.maximum(offset, Size.of(0)), count

    def slice_bounds(self, part: slice, size: Size, step: int) -> tuple[Size, Size]:
        """Return offset and number of elements of ``start:stop:step`` with a positive step, clamped as Python does."""
        start = Size.of(0) if part.start is None else self._bound(part.start, size)
        stop = size if part.stop is None else self._bound(part.stop, size)
        extent = self.maximum(stop - start, Size.of(0))
        count = self.floor_divide(extent + (step - 1), step)
        if count.is_constant and count.constant == 0:
            return Size.of(0), count
        return start, count

    def _bound(self, bound: Any, size: Size, least: int = 0) -> Size:
        """Return a bound of a slice, clamped between `least` and `size + least`."""
        position = self.wrapped(self.size_of(bound), size)
        return self.maximum(self.minimum(position, size + least), Size.of(least))


def constant_of(value: ir.Value) -> int | None:
    """Return the value of a rank-0 integer `tri.constant`, else None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "tri.constant":
        return None
    attribute = owner.operation.attributes["value"]
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None


def aligned(b: Language, tensors: Sequence[TriValue]) -> list[TriValue]:
    """Return the operands of an elementwise operation, sliced to common sizes where these may differ."""
    if all(x.type.is_static for x in tensors):
        return list(tensors)
    rank = max(x.type.rank for x in tensors)
    operands = list(tensors)
    for axis in range(-rank, 0):
        operands = _broadcast_slices(b, operands, axis)
        sizes = [x.type.shape[axis] for x in operands if x.type.rank >= -axis and x.type.shape[axis] != 1]
        if len(set(sizes)) < 2 or not any(map(is_dynamic, sizes)):
            continue
        common = common_size(b, sizes)
        operands = [
            cut(b, x, axis % x.type.rank, common) if x.type.rank >= -axis and x.type.shape[axis] != 1 else x
            for x in operands
        ]
    return operands


def _broadcast_slices(b: Language, operands: list[TriValue], axis: int) -> list[TriValue]:
    """Return the operands with size 1 for a slice such as ``x[:1]`` along an axis where others have another size.

    Its size at run time is 0 or 1: the call refuses 0.
    """
    sizes = {x.type.shape[axis] for x in operands if x.type.rank >= -axis and x.type.shape[axis] != 1}
    if len(sizes) < 2:
        return operands
    narrow = {size for size in sizes if is_dynamic(size) and size.is_fixed and size.most() == 1}
    return [
        _first_elements(b, x, axis % x.type.rank, 1) if x.type.rank >= -axis and x.type.shape[axis] in narrow else x
        for x in operands
    ]


def checked_at_call(b: Language, sizes: Sequence[int | Size]) -> bool:
    """Return whether the call itself can refuse sizes that must be equal and differ: arguments' sizes decide them.

    Not in loops and branches, which may not run. What requires it is the operation (`lowering/sizes/conditions.py`).
    """
    return not b.memory.journals and b.indices.fixed.has(*map(Size.of, sizes)) and any(map(is_dynamic, sizes))


def seen_as(x: TriValue, axis: int, size: int | Size) -> TriValue:
    """Return `x` with another size of an axis, which the call checks to be the same."""
    shape = [size if number == axis else full for number, full in enumerate(x.type.shape)]
    return replace(x, type=x.type.with_shape(shape))


def same_sizes(b: Language, x: TriValue, shape: Sequence[int | Size]) -> TriValue:
    """Return `x` with the sizes of `shape` for its last axes, as far as the call can check them; not where one is 1."""
    for axis in range(-min(x.type.rank, len(shape)), 0):
        sizes = (x.type.shape[axis], shape[axis])
        if 1 not in sizes and sizes[0] != sizes[1] and checked_at_call(b, sizes):
            x = seen_as(x, axis % x.type.rank, shape[axis])
    return x


def common_size(b: Language, sizes: Sequence[int | Size]) -> int | Size:
    """Return the smallest of sizes that must be equal; a check raises after the call if they differ.

    Where the call itself can check them, it is any of them, a static one if there is one.
    """
    if checked_at_call(b, sizes):
        return next((size for size in sizes if not is_dynamic(size)), sizes[0])
    first, *others = dict.fromkeys(sizes)
    least = Size.of(first)
    for other in others:
        differ = b.tri.not_equal(b.tri.index(first), b.tri.index(other))
        b.check(differ, KernelValueError, "sizes known at run time only, which have to be equal, are not")
        least = b.indices.minimum(least, Size.of(other))
    return least.simplified()


def cut(b: Language, x: TriValue, axis: int, size: int | Size) -> TriValue:
    """Return the elements of `x` before `size` along an axis; all of them where the call checks that it is the size."""
    if x.type.shape[axis] == size:
        return x
    if checked_at_call(b, (x.type.shape[axis], size)):
        return seen_as(x, axis, size)
    return _first_elements(b, x, axis, size)


def _first_elements(b: Language, x: TriValue, axis: int, size: int | Size) -> TriValue:
    step = first_elements(b.tri, [size if number == axis else full for number, full in enumerate(x.type.shape)])
    return step.read(b.tri, TriValue(x.value, x.type))
