"""A pass of relax → tir: loops over nothing.

Takes PrimFuncs of any static shape. Gives PrimFuncs in which a reduction over a dimension of size zero is its initial
value and a block over no points is gone, because a loop that never runs would never store the initial value.
"""

from __future__ import annotations

from mlirtri.lowering.bridge.scalar.floats import hide_zero
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, SBlock, SBlockRealize, structural_map, tirx


def fold_empty_loops(mod: IRModule) -> IRModule:
    """The module without loops of extent zero."""
    changed = {}
    for gv, function in mod.functions_items():
        if isinstance(function, PrimFunc) and (body := _folded(function)) is not function.body:
            changed[gv] = function.with_body(body)
    if not changed:
        return mod
    return IRModule({**dict(mod.functions_items()), **changed}, attrs=mod.attrs)


def _folded(function: PrimFunc):
    return structural_map(function.body, (tirx.For, _fold_nest), order="pre")


def _fold_nest(loop: tirx.For):
    """A loop nest around one block, without its empty reduction loops; no statement if a spatial one is empty."""
    loops, inner = [], loop
    while isinstance(inner, tirx.For):
        loops.append(inner)
        inner = inner.body
    if not isinstance(inner, SBlockRealize) or all(_extent(each) != 0 for each in loops):
        return loop
    block = inner.block
    spatial = [
        (axis, value)
        for axis, value in zip(block.iter_vars, inner.iter_values, strict=True)
        if axis.iter_type != tirx.IterVar.CommReduce
    ]
    if block.init is None or any(_size(axis) == 0 for axis, _ in spatial):
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    # Fusion writes the value into its readers, where a plain zero divided by whatever would be a zero.
    init = structural_map(block.init, (tirx.BufferStore, _hidden), order="post")
    initial = SBlock(
        [axis for axis, _ in spatial], [], block.writes, block.name_hint, init, annotations=block.annotations
    )
    result = SBlockRealize([value for _, value in spatial], inner.predicate, initial)
    for each in reversed(loops):
        if _extent(each) != 0:
            result = tirx.For(each.loop_var, each.min, each.extent, each.kind, result, annotations=each.annotations)
    return result


def _hidden(store: tirx.BufferStore) -> tirx.BufferStore:
    return tirx.BufferStore(store.buffer, hide_zero(store.value), store.indices)


def _extent(loop) -> int | None:
    return int(loop.extent) if isinstance(loop.extent, tirx.IntImm) else None


def _size(axis) -> int | None:
    return int(axis.dom.extent) if isinstance(axis.dom.extent, tirx.IntImm) else None
