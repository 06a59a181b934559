"""Recognise blocks that are products of tensors, whatever their operands' order, axes and dtypes.

Fusion treats functions that `mark_products` marks as products: it fuses their elementwise consumers, not their
producers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.tir.arithmetic import TWICE_AS_WIDE
from mlirtri.lowering.tir.blocks import BlockFacts, blocks_of, leaf_blocks
from mlirtri.lowering.tir.contraction import Axis, Factors, is_unit, multiply_add, size_of
from mlirtri.lowering.tir.statements import nodes_in
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    IRModule,
    PrimFunc,
    SBlock,
    Schedule,
    Stmt,
    TensorLoad,
    Var,
    structural_equal,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_passes import with_functions

OP_PATTERN = "op_pattern"
ELEMENTWISE, BROADCAST, REDUCTION, PRODUCT, OPAQUE = 0, 1, 3, 4, 8
"""TVM's `op_pattern` values `kElemWise`, `kBroadcast`, `kCommReduce`, `kOutEWiseFusable` and `kOpaque`."""


@dataclass(frozen=True)
class Product(Factors):
    """``result += left * right``; `columns` are the last dimensions of the result."""

    add: Callable[[Any, Any, Any], Any]
    result: Any
    update: Any
    """The accumulating store of the result."""

    @property
    def dtype(self) -> str:
        return str(self.result.dtype)

    @property
    def fits_tiles(self) -> bool:
        """Return whether it has, or may have at run time, two columns and four terms: fewer do not pay for tiles."""
        return _may_have(self.columns, 2) and _may_have(self.reduced, 4)


def _may_have(axes: Sequence[Axis], least: int) -> bool:
    size = size_of(axes)
    return not isinstance(size, int) or size >= least


def only_product(function: PrimFunc) -> tuple[Schedule, BlockFacts, Product] | None:
    """Return a schedule of the function, its only reduction, and that as a product; None if none or several."""
    if not _has_only_product(function):
        return None
    schedule = Schedule(function, error_render_level="fast")
    reductions = [block for block in leaf_blocks(schedule) if not block.is_spatial]
    product = find_product(reductions[0], schedule.get(reductions[0].handle)) if len(reductions) == 1 else None
    return None if product is None else (schedule, reductions[0], product)


def _has_only_product(function: PrimFunc) -> bool:
    """Return whether there is one reduction, a product; no schedule is made, since four rules ask of each function."""
    reductions = [(facts, block) for facts, block in blocks_of(function) if not facts.is_spatial]
    return len(reductions) == 1 and find_product(*reductions[0]) is not None


def find_product(facts: BlockFacts, block: SBlock) -> Product | None:
    """Return the block as a product of tensors; None if it is none."""
    is_plain = len(facts.writes) == 1 and not facts.calls and not facts.binds
    if not is_plain or not isinstance(block.body, tirx.BufferStore) or not _is_zero(block.init):
        return None
    reduced = [axis.var for axis, kind in zip(block.iter_vars, facts.kinds, strict=True) if kind == "R"]
    return product_of(block.body, [Axis(axis.var, int(axis.dom.extent)) for axis in block.iter_vars], reduced)


def product_of(store: Stmt, all_axes: Sequence[Axis], summed: Sequence[Var]) -> Product | None:
    """Return the product that a store in loops over all axes sums over those of `summed`; None if it is none."""
    parts = _parts(store)
    if parts is None:
        return None
    factors, add = parts
    axes = {axis.variable: axis for axis in all_axes}
    named = [_variables(factor) for factor in factors]
    shown = [variable for variable in axes if any(variable in names for names in named)]
    reduced = [axis for variable, axis in axes.items() if variable in summed and variable in shown]
    if any(not is_unit(axes[index]) for index in summed if index not in shown):
        return None
    if not reduced or any(axis.variable not in names for axis in reduced if not is_unit(axis) for names in named):
        return None
    indices = list(store.indices)
    while len(indices) > 1 and indices[-1] in axes and indices[-1] not in shown and is_unit(axes[indices[-1]]):
        indices.pop()
    last = indices[-1] if indices and indices[-1] in axes else None
    right = next((side for side in (0, 1) if last in named[side] and last not in named[1 - side]), None)
    if last is None or right is None:
        return None
    only_right = [index for index in indices if index in named[right] and index not in named[1 - right]]
    columns = _trailing(indices, only_right)
    rows = [index for index in indices if index in named[1 - right] and index not in named[right]]
    operand_axes = [*columns, *rows]
    batch = [axis for variable, axis in axes.items() if variable not in summed and variable not in operand_axes]
    return Product(
        tuple(batch), tuple(axes[index] for index in rows), tuple(axes[index] for index in columns), tuple(reduced),
        factors[1 - right], factors[right], add, store.buffer,
        tirx.BufferStore(store.buffer, tirx.BufferLoad(store.buffer, store.indices), store.indices),
    )  # fmt: skip


def _trailing(indices: list[Any], allowed: list[Any]) -> list[Any]:
    trailing: list[Any] = []
    for index in reversed(indices):
        if not any(index.same_as(variable) for variable in allowed):
            break
        trailing.insert(0, index)
    return trailing


def _parts(store: Stmt) -> tuple[list[Any], Callable[[Any, Any, Any], Any]] | None:
    """Return the two factors of what a store accumulates, and the function that multiplies and adds them; else None."""
    summands = _summands(store.value)
    if summands is None:
        return None
    accumulator, term = summands
    is_own = isinstance(accumulator, TensorLoad) and accumulator.source.same_as(store.buffer)
    if not is_own or not all(structural_equal(i, j) for i, j in zip(accumulator.indices, store.indices, strict=True)):
        return None
    if isinstance(term, tirx.Mul):
        return [term.a, term.b], multiply_add
    # Integers that wrap are multiplied in twice their width.
    if isinstance(term, tirx.Cast) and isinstance(term.value, tirx.Mul):
        wide = str(term.value.ty.dtype)
        factors = [term.value.a, term.value.b]
        if all(isinstance(side, tirx.Cast) and str(side.value.ty.dtype) == str(term.ty.dtype) for side in factors):
            return [factor.value for factor in factors], _adding_in(wide)
    return None


def _summands(value: Expr) -> tuple[Any, Any] | None:
    """Return the two operands of a sum, which for wrapping integers is in twice their width; None for anything else."""
    if isinstance(value, tirx.Add):
        return value.a, value.b
    if not isinstance(value, tirx.Cast) or not isinstance(value.value, tirx.Add):
        return None
    narrow, sides = str(value.ty.dtype), (value.value.a, value.value.b)
    is_widened = all(isinstance(side, tirx.Cast) and str(side.value.ty.dtype) == narrow for side in sides)
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


def _variables(expression: Expr) -> set[Any]:
    """Return the variables as a set: ``in`` on a list would compare by ``==``, which TIR makes an expression."""
    return set(nodes_in(expression, tirx.Var))


def mark_products(mod: IRModule) -> IRModule:
    """Return the module where products of cast operands count as products; TVM recognises plain ones only."""
    marked = {
        gv: function.with_attrs({OP_PATTERN: PRODUCT})
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc)
        and (function.attrs or {}).get(OP_PATTERN) == REDUCTION
        and _is_product(function)
    }
    return with_functions(mod, marked)


def _is_product(function: PrimFunc) -> bool:
    try:
        blocks = blocks_of(function)
    except ValueError:  # opaque or symbolic loops
        return False
    if len(blocks) != 1:
        return False
    facts, block = blocks[0]
    return find_product(facts, block) is not None or _is_vector_product(facts, block)


def _is_vector_product(facts: BlockFacts, block: Any) -> bool:
    """Return whether the block multiplies by a vector; unit axes may be missing from its indices."""
    if facts.calls or facts.binds or not isinstance(block.body, tirx.BufferStore) or not _is_zero(block.init):
        return False
    parts = _parts(block.body)
    kinds = zip(block.iter_vars, facts.kinds, strict=True)
    reduced = [axis.var for axis, kind in kinds if kind == "R" and int(axis.dom.extent) > 1]
    return parts is not None and bool(reduced) and all(set(reduced) <= _variables(factor) for factor in parts[0])
