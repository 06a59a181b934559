"""Perfect loop nests around one store, as the products of imperative functions and what stands around them are.

A nest may bind values before its store. Copies, zeros and elementwise consumers of a product are such nests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.tir.bfloat16_storage import BITS, HALF
from mlirtri.lowering.tir.contraction import Axis
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import depends_on, index, is_load, loads_in, new_buffer, nodes_in, with_accesses
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Extent,
    Node,
    Stmt,
    TensorLoad,
    Var,
    ir,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)

WIDENING = {"reinterpret", "shift_left"}
"""Calls in a conversion of bf16 to fp32."""


@dataclass(frozen=True)
class Nest:
    """Perfect loops from 0 on around one store."""

    axes: tuple[Axis, ...]
    store: Any
    names: tuple[Any, ...] = ()
    """Stores of bound values before it, each to a scalar buffer of its own."""

    @property
    def variables(self) -> list[Var]:
        return [axis.variable for axis in self.axes]

    def reaches_all(self) -> bool:
        """Return whether each axis is an index of the store, and runs over the whole dimension."""
        pairs = zip(self.store.indices, self.store.buffer.ty.shape, strict=True)
        sizes = {position: size for position, size in pairs if not (is_zero(position) and is_same(size, 1))}
        return len(sizes) == len(self.axes) and all(
            variable in sizes and is_same(extent, sizes[variable])
            for variable, extent in ((axis.variable, axis.extent) for axis in self.axes)
        )


def nest_of(statement: Stmt) -> Nest | None:
    """Return a perfect nest of loops around one store; None for any other statement."""
    axes: list[Axis] = []
    while isinstance(statement, tirx.For):
        extent = statement.extent
        is_plain = statement.step is None and isinstance(statement.min, tirx.IntImm) and statement.min.value == 0
        if not is_plain or depends_on(extent, [axis.variable for axis in axes]) or loads_in(extent):
            return None
        axes.append(Axis(statement.loop_var, int(extent) if isinstance(extent, tirx.IntImm) else extent))
        statement = without_scalar(statement.body)
    *names, store = statement.seq if isinstance(statement, tirx.SeqStmt) else [statement]
    if not axes or not isinstance(store, tirx.BufferStore) or not all(isinstance(name, tirx.Bind) for name in names):
        return None
    # Not `Let`: repeated per vector, TVM takes each for another value of the same variable.
    scalars = {name.var: new_buffer(name.var.name, str(name.var.ty), 1) for name in names}
    loads = {name: tirx.BufferLoad(scalar, [index(0)]) for name, scalar in scalars.items()}
    stores = [tirx.BufferStore(scalars[name.var], replaced(name.value, loads), [index(0)]) for name in names]
    return Nest(tuple(axes), replaced(store, loads), tuple(stores))


def in_terms_of(
    nest: Nest, result: Buffer, indices: Sequence[Expr], product: Product, operands: list[Buffer]
) -> list[Stmt] | None:
    """Return the nest's stores in terms of the product's axes; None where it does not read the product elementwise."""
    everything = [statement.value for statement in (*nest.names, nest.store)]
    reads = [load for value in everything for load in loads_in(value) if load.source.same_as(result)]
    if any(str(name.buffer.dtype) == "bool" for name in nest.names) or any(map(contains_let, everything)):
        return None
    if not reads or len(nest.axes) != len(indices):
        return None
    values = dict(zip(reads[0].indices, indices, strict=True))
    extents = {axis.variable: axis.extent for axis in (*product.batch, *product.rows, *product.columns)}
    for axis in nest.axes:
        if axis.variable not in values or not is_same(axis.extent, extents[values[axis.variable]]):
            return None
    *names, store = (replaced(statement, values) for statement in (*nest.names, nest.store))
    target = store.buffer
    moving = [axis_of(position, extents) for position in store.indices]
    if any(target.same_as(operand) for operand in operands) or None in moving or len(set(moving)) != len(indices):
        return None
    if target.same_as(result) and not all(map(structural_equal, store.indices, indices)):
        return None
    for load in (load for statement in (*names, store) for load in loads_in(statement.value)):
        expected = indices if load.source.same_as(result) else store.indices if load.source.same_as(target) else None
        if expected is not None and not all(map(structural_equal, load.indices, expected)):
            return None
    return [*names, store]


def axis_of(position: Expr, axes: Mapping[Any, Any]) -> Var | None:
    """Return the axis that an index moves along by one element per iteration, whatever its offset; None for others."""
    form = linear(position, {})
    moving = [] if form is None else [variable for variable in form.terms if variable in axes]
    return moving[0] if len(moving) == 1 and form is not None and form.factor(moving[0]) == 1 else None


def reading(store: Stmt, buffer: Buffer, value: Expr) -> Stmt:
    """Return a store with `value` in place of the loads from a buffer."""

    def load(node: Node) -> Any:
        return value if node.source.same_as(buffer) else node

    return tirx.BufferStore(store.buffer, structural_map(store.value, (TensorLoad, load), order="post"), store.indices)


def is_copy(nest: Nest, widens: bool = False) -> bool:
    """Return whether a nest copies, converts or scales elements.

    With `widens` also bf16 to its bits and to fp32 by them, and elements that are 0 where a condition fails.
    """
    value = _guarded(nest.store.value) if widens else nest.store.value
    if nest.names or not (is_scaled(value) or (widens and _is_widened(value))):
        return False
    return len(loads_in(nest.store.value)) == 1 and not any(map(loads_in, loads_in(value)[0].indices))


def _guarded(value: Expr) -> Any:
    """Return the value that is chosen where a condition holds, and is 0 elsewhere; any other value itself."""
    is_choice = isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith("if_then_else")
    return value.args[1] if is_choice and is_zero(value.args[2]) else value


def _is_widened(value: Expr) -> bool:
    """Return whether a value is a bf16 element's bits, or these shifted to those of fp32."""
    loads, calls = loads_in(value), nodes_in(value, ir.Call)
    names = [str(getattr(call.op, "name", "")).rsplit(".", 1)[-1] for call in calls]
    is_shifted = len(nodes_in(value, tirx.LShift)) == 1 or "shift_left" in names
    if len(loads) != 1 or not set(names) <= WIDENING:
        return False
    dtype, result = str(loads[0].source.dtype), str(value.ty.dtype)
    return dtype in (HALF, BITS) and result == "float32" if is_shifted else (dtype, result) == (HALF, BITS)


def contains_let(node: Node) -> bool:
    """Return whether an expression binds a variable."""
    lets: list[Any] = []
    structural_walk(node, (tirx.Let, lets.append))
    return bool(lets)


def is_zero(value: Expr) -> bool:
    return isinstance(value, tirx.FloatImm | tirx.IntImm) and value.value == 0


def without_scalar(statement: Stmt) -> Stmt:
    """Return loops that accumulate in memory, for ones in a scalar buffer loaded before and stored after them."""
    if not isinstance(statement, tirx.SeqStmt) or len(statement.seq) != 5:
        return statement
    name, allocated, first, loop, last = statement.seq
    kinds = (tirx.Bind, tirx.AllocBuffer, tirx.BufferStore, tirx.For, tirx.BufferStore)
    if not all(map(isinstance, statement.seq, kinds)):
        return statement
    scalar, element = allocated.buffer, tirx.BufferLoad(last.buffer, last.indices)
    is_read = first.buffer.same_as(scalar) and first.value.same_as(name.var) and structural_equal(name.value, element)
    if not is_read or not is_load(last.value, scalar):
        return statement

    return with_accesses(loop, lambda buffer, _: (last.buffer, last.indices) if buffer.same_as(scalar) else None)


def is_same(extent: Extent, size: Extent) -> bool:
    """Return whether second sizes, integers or expressions, are equal."""
    first, second = (index(operand) if isinstance(operand, int) else operand for operand in (extent, size))
    return first is not None and structural_equal(first, second)


def is_scaled(value: Expr) -> bool:
    """Return whether a value is a load, converted, or times an invariant float."""
    while isinstance(value, tirx.Cast):
        value = value.value
    if isinstance(value, tirx.Mul) and "float" in str(value.ty.dtype):
        [*scaled] = (operand for operand in (value.a, value.b) if not isinstance(operand, tirx.FloatImm | tirx.Var))
        return len(scaled) == 1 and is_scaled(scaled[0])
    return isinstance(value, TensorLoad)
