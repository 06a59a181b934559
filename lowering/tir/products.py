"""Recognises blocks that are products of tensors, whatever their operands' order, axes and dtypes.

Takes a block with its facts, or a module before fusion. Gives the product's axes by kind, or the module in which
fusion treats such functions as products: it fuses their elementwise consumers, but not their producers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.tir.arithmetic import TWICE_AS_WIDE
from mlirtri.lowering.tir.blocks import BlockFacts, leaf_blocks
from mlirtri.lowering.tir.contraction import Axis, multiply_add
from mlirtri.lowering.toolchain.tvm_names import (
    IRModule,
    PrimFunc,
    Schedule,
    TensorLoad,
    structural_equal,
    structural_walk,
    tirx,
)

OP_PATTERN = "op_pattern"
REDUCTION, PRODUCT = 3, 4
"""TVM's `op_pattern` values `kCommReduce` and `kOutEWiseFusable`."""


@dataclass(frozen=True)
class Product:
    """``result += left * right``, with the axes of the block by kind.

    `columns` are axes of the right operand only, the last dimensions of the result; `rows` of the left one only;
    `batch` are all other axes that are not summed over.
    """

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    left: Any
    right: Any
    add: Callable[[Any, Any, Any], Any]
    result: Any
    update: Any
    """The accumulating store of the result."""

    @property
    def dtype(self) -> str:
        return str(self.result.dtype)


def only_product(function: PrimFunc) -> tuple[Schedule, BlockFacts, Product] | None:
    """Return a schedule of the function, its only reduction, and that as a product; None if none or several."""
    schedule = Schedule(function, error_render_level="fast")
    found = [block for block in leaf_blocks(schedule) if not block.is_spatial]
    product = find_product(found[0], schedule.get(found[0].handle)) if len(found) == 1 else None
    return None if product is None else (schedule, found[0], product)


def find_product(facts: BlockFacts, block: Any) -> Product | None:
    """Return the block as a product of tensors; None if it is none."""
    is_plain = len(facts.writes) == 1 and not facts.calls and not facts.binds
    if not is_plain or not isinstance(block.body, tirx.BufferStore) or not _is_zero(block.init):
        return None
    reduced = [axis.var for axis, kind in zip(block.iter_vars, facts.kinds, strict=True) if kind == "R"]
    return product_of(block.body, [Axis(axis.var, int(axis.dom.extent)) for axis in block.iter_vars], reduced)


def product_of(store: Any, all_axes: Sequence[Axis], summed: Sequence[Any]) -> Product | None:
    """Return the product that a store in loops over all axes sums over those of `summed`; None if it is none."""
    parts = _parts(store)
    if parts is None:
        return None
    factors, add = parts
    axes = {axis.variable: axis for axis in all_axes}
    named = [_variables(factor) for factor in factors]
    shown = [variable for variable in axes if any(variable in names for names in named)]
    reduced = [axis for variable, axis in axes.items() if variable in summed and variable in shown]
    if any(not _is_one(axes[each].extent) for each in summed if each not in shown):
        return None
    if not reduced or any(axis.variable not in names for axis in reduced for names in named):
        return None
    places = list(store.indices)
    while len(places) > 1 and places[-1] in axes and places[-1] not in shown and _is_one(axes[places[-1]].extent):
        places.pop()
    last = places[-1] if places and places[-1] in axes else None
    right = next((side for side in (0, 1) if last in named[side] and last not in named[1 - side]), None)
    if last is None or right is None:
        return None
    only_right = [place for place in places if place in named[right] and place not in named[1 - right]]
    columns = _trailing(places, only_right)
    rows = [place for place in places if place in named[1 - right] and place not in named[right]]
    done = [*columns, *rows]
    batch = [axis for variable, axis in axes.items() if variable not in summed and variable not in done]
    return Product(
        tuple(batch), tuple(axes[each] for each in rows), tuple(axes[each] for each in columns), tuple(reduced),
        factors[1 - right], factors[right], add, store.buffer,
        tirx.BufferStore(store.buffer, tirx.BufferLoad(store.buffer, store.indices), store.indices),
    )  # fmt: skip


def _is_one(extent: Any) -> bool:
    """Return whether an axis has extent 1, so that no operand has to be indexed by it."""
    return isinstance(extent, int) and extent == 1


def _trailing(places: list[Any], allowed: list[Any]) -> list[Any]:
    """Return the longest suffix of `places` that consists of allowed ones."""
    found: list[Any] = []
    for place in reversed(places):
        if not any(place.same_as(each) for each in allowed):
            break
        found.insert(0, place)
    return found


def _parts(store: Any) -> tuple[list[Any], Callable[[Any, Any, Any], Any]] | None:
    """Return the two factors of what a store accumulates, and the function that multiplies and adds them; else None."""
    summands = _summands(store.value)
    if summands is None:
        return None
    own, term = summands
    is_own = isinstance(own, TensorLoad) and own.source.same_as(store.buffer)
    if not is_own or not all(structural_equal(i, j) for i, j in zip(own.indices, store.indices, strict=True)):
        return None
    if isinstance(term, tirx.Mul):
        return [term.a, term.b], multiply_add
    # Integers that wrap are multiplied in twice their width.
    if isinstance(term, tirx.Cast) and isinstance(term.value, tirx.Mul):
        wide = str(term.value.ty.dtype)
        factors = [term.value.a, term.value.b]
        if all(isinstance(each, tirx.Cast) and str(each.value.ty.dtype) == str(term.ty.dtype) for each in factors):
            return [each.value for each in factors], _adding_in(wide)
    return None


def _summands(value: Any) -> tuple[Any, Any] | None:
    """Return the two operands of a sum, which for wrapping integers is in twice their width; None for anything else."""
    if isinstance(value, tirx.Add):
        return value.a, value.b
    if not isinstance(value, tirx.Cast) or not isinstance(value.value, tirx.Add):
        return None
    narrow, sides = str(value.ty.dtype), (value.value.a, value.value.b)
    is_widened = all(isinstance(each, tirx.Cast) and str(each.value.ty.dtype) == narrow for each in sides)
    is_wrapping = TWICE_AS_WIDE.get(narrow) == str(value.value.ty.dtype)
    return (sides[0].value, sides[1].value) if is_widened and is_wrapping else None


def _adding_in(wide: str) -> Callable[[Any, Any, Any], Any]:
    def add(sums: Any, left: Any, right: Any) -> Any:
        dtype = str(sums.ty.dtype)
        _, _, lanes = dtype.partition("x")
        wider = f"{wide}x{lanes}" if lanes else wide
        return sums + tirx.Cast(dtype, tirx.Mul(tirx.Cast(wider, left), tirx.Cast(wider, right)))

    return add


def _is_zero(init: Any) -> bool:
    value = getattr(init, "value", None)
    return isinstance(value, (tirx.FloatImm, tirx.IntImm)) and value.value == 0


def _variables(expression: Any) -> set[Any]:
    """Return the variables as a set: ``in`` on a list would compare by ``==``, which TIR makes an expression."""
    found: list[Any] = []
    structural_walk(expression, (tirx.Var, found.append))
    return set(found)


def mark_products(mod: IRModule) -> IRModule:
    """Return the module where products of cast operands count as products; TVM recognises plain ones only."""
    marked = {
        gv: function.with_attr(OP_PATTERN, PRODUCT)
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc)
        and (function.attrs or {}).get(OP_PATTERN) == REDUCTION
        and _is_product(function)
    }
    return IRModule({**dict(mod.functions_items()), **marked}, attrs=mod.attrs) if marked else mod


def _is_product(function: PrimFunc) -> bool:
    if (function.attrs or {}).get(OP_PATTERN) != REDUCTION:
        return False
    schedule = Schedule(function)
    try:
        blocks = leaf_blocks(schedule)
    except ValueError:  # opaque or symbolic loops
        return False
    if len(blocks) != 1:
        return False
    block = schedule.get(blocks[0].handle)
    return find_product(blocks[0], block) is not None or _is_vector_product(blocks[0], block)


def _is_vector_product(facts: BlockFacts, block: Any) -> bool:
    """Return whether the block multiplies by a vector; unit axes may be missing from its indices."""
    if facts.calls or facts.binds or not isinstance(block.body, tirx.BufferStore) or not _is_zero(block.init):
        return False
    parts = _parts(block.body)
    reduced = [
        axis.var
        for axis, kind in zip(block.iter_vars, facts.kinds, strict=True)
        if kind == "R" and int(axis.dom.extent) > 1
    ]
    return parts is not None and bool(reduced) and all(set(reduced) <= _variables(factor) for factor in parts[0])
