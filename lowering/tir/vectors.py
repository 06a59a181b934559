"""Stores and loads in the dtype of their memory, vector loops and prefetches, for row kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.tir.statements import index, operator_name, plus
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, Var, ir, structural_map, tirx

PARTS = 2
"""Elements of memory that a complex number takes: its real and its imaginary part, side by side."""
INFINITY_BITS = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}


def integers_of(dtype: object) -> str:
    """Return the integer dtype as wide as a float dtype."""
    return str(dtype).replace("float", "int")


def fetch(element: Expr) -> Stmt:
    """Return a prefetch of an address: to read it, and to keep it in all caches."""
    reading, all_caches, data = (tirx.IntImm("int32", number) for number in (0, 3, 1))
    # TVM's parser does not know how TVM's own prefetch prints.
    call = tirx.call_llvm_intrin("void", "llvm.prefetch", tirx.address_of(element), reading, all_caches, data)
    return tirx.Evaluate(call)


def expected(condition: Expr) -> Expr:
    """Return a condition of which LLVM is told that it nearly always holds; TVM's `likely` does not reach LLVM."""
    return tirx.call_llvm_pure_intrin("bool", "llvm.expect", condition, tirx.IntImm("bool", 1))


def is_fetch(expression: Expr) -> bool:
    """Return whether an expression is such a prefetch."""
    is_intrinsic = operator_name(expression) == "tirx.call_llvm_intrin"
    return is_intrinsic and operator_name(expression.args[1]) == "tirx.address_of"


Combine = Callable[[Expr, Expr], Expr]


def doubled_up_to(lanes: int) -> int:
    """Return the power of two from which lanes are halved down to one: at least `lanes`."""
    return 1 << (lanes - 1).bit_length()


def together(buffers: Sequence[tuple[Buffer, object, Combine]], vectors: int, lanes: int) -> list[Stmt]:
    """Reduce vectors, then halves, down to element 0 of each buffer, given with dtype and operation.

    Each access is a whole vector or a part of one: LLVM keeps memory that is read across the stored vectors out of
    registers, and a CPU waits for the stores.
    """
    statements = []
    while vectors > 1:
        half = vectors // 2
        for buffer, dtype, combine in buffers:
            value = _with_others(dtype, combine, buffer, (vectors - half) * lanes)
            statements += [lanewise(buffer, vector * lanes, lanes, value) for vector in range(half)]
        vectors -= half
    while lanes > 1:
        lanes //= 2
        for buffer, dtype, combine in buffers:
            statements.append(lanewise(buffer, 0, lanes, _with_others(dtype, combine, buffer, lanes)))
    return statements


def _with_others(dtype: object, combine: Combine, partial: Buffer, distance: int) -> Callable[[Expr], Expr]:
    def value(lane: Expr) -> Expr:
        mine, other = (loaded(partial, [plus(lane, index(far))], dtype) for far in (0, distance))
        return vectorizable(combine(mine, other))

    return value


def stored(buffer: Buffer, indices: list[Expr], value: Expr) -> Stmt:
    """Return a store in the dtype of the memory."""
    dtype = str(buffer.dtype)
    return tirx.BufferStore(buffer, value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value), indices)


def loaded(buffer: Buffer, indices: list[Expr], dtype: object) -> Expr:
    """Return a load in the dtype that the value has in the program."""
    value = tirx.BufferLoad(buffer, indices)
    return value if str(buffer.dtype) == str(dtype) else tirx.Cast(str(dtype), value)


def lanewise(buffer: Buffer, first: int, lanes: int, value: Callable[[Expr], Expr]) -> Stmt:
    """Return stores into `lanes` neighbours, as one vector."""
    if lanes == 1:
        return stored(buffer, [index(first)], value(index(first)))
    lane = tirx.Var("lane", "int64")
    position = plus(index(first), lane)
    store = stored(buffer, [position], value(position))
    return tirx.For(lane, index(0), index(lanes), tirx.ForKind.VECTORIZED, store)


@dataclass(frozen=True)
class Joined:
    """Axes fused into one loop: their indices in terms of its variable, and their extents."""

    indices: list[Any]
    extents: list[int]
    loop: Any


def joined_by(axes: Sequence[Any], point: Mapping[Var, Expr], loop: Stmt) -> list[Joined]:
    """Return the axes that one loop fuses, if there are several."""
    if len(axes) == 1:
        return []
    return [Joined([point[axis.variable] for axis in axes], [axis.extent for axis in axes], loop)]


def in_one(buffer: Buffer, indices: list[Expr], joined: Sequence[Joined]) -> list[Expr]:
    """Return the indices with all axes of one fused loop in the last one, if the address stays the same.

    Quotients and remainders by sizes that are no multiples of a vector hide that its lanes are neighbours. Not for a
    slice, whose axes end before its dimensions do, and not for the kernel's own memory, of which TVM keeps what such
    indices reach.
    """
    for axes in joined:
        count = len(axes.indices)
        for first in range(len(indices) - count + 1):
            last = first + count
            sizes = zip(list(buffer.ty.shape)[first + 1 : last], axes.extents[1:], strict=False)
            pairs = zip(indices[first:last], axes.indices, strict=True)
            is_whole = all(isinstance(size, tirx.IntImm) and size.value == extent for size, extent in sizes)
            if is_whole and all(position.same_as(axis_index) for position, axis_index in pairs):
                return [*indices[:first], *[index(0)] * (count - 1), axes.loop, *indices[last:]]
    return indices


def is_same_number(constant: Expr, other: Expr) -> bool:
    """Return whether an expression is a constant of the value of another constant."""
    return isinstance(constant, tirx.FloatImm | tirx.IntImm) and constant.value == other.value


def vectorizable(value: Expr) -> Expr:
    """Return `value` with NaN found by its bits: TVM has no vector form of `isnan`."""

    def visit(call: Expr) -> Any:
        dtype = str(call.args[0].ty.dtype) if len(call.args) == 1 else ""
        if operator_name(call) != "tirx.isnan" or dtype not in INFINITY_BITS:
            return call
        bits = tirx.reinterpret(integers_of(dtype), tirx.abs(call.args[0]))
        return tirx.GT(bits, tirx.const(INFINITY_BITS[dtype], integers_of(dtype)))

    return structural_map(value, (ir.Call, visit), order="post")


def in_order(statements: list[Stmt]) -> Stmt:
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
