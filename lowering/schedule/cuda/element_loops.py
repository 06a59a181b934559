"""Schedule imperative kernels for CUDA: a launch with a grid-stride loop per parallel loop, of one thread between them.

    x = 0                                       one thread: x[0] = 0
    for step in range(9):  # in order           host: for step in range(9):
        for i, j:  # parallel            ──►        each thread: every (i, j) of its own, a grid apart: b[i, j] = …
            b[i, j] = a[i, j] * 2                   one thread: x[0] = b[0, 0]
        x = b[0, 0]

The host runs loops around launches, and branches, whose bounds and conditions sizes and constants give; a grid has as
many blocks as the loop's sizes need at that call. Conditions and bounds that are in device memory are read by the
launches inside: a branch guards them, and other loops in order are one thread's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod
from typing import Any

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.atomic_calls import with_calls
from mlirtri.lowering.schedule.cuda.largest_sizes import (
    LARGEST_EXTENT,
    UNBOUNDED,
    values_stored_once,
    with_largest_sizes,
)
from mlirtri.lowering.schedule.cuda.product_blocks import with_product_blocks
from mlirtri.lowering.schedule.cuda.row_blocks import SHORTEST, divided_row, on_block
from mlirtri.lowering.schedule.cuda.row_blocks import THREADS as ROW_THREADS
from mlirtri.lowering.schedule.cuda.tiles.atomic_updates import with_atomics
from mlirtri.lowering.schedule.cuda.tiles.tile_programs import bound, kernel_of_blocks
from mlirtri.lowering.schedule.cuda.tiles.tile_statements import with_buffers
from mlirtri.lowering.schedule.imperative.fusion import fused
from mlirtri.lowering.schedule.imperative.interchange import prepare
from mlirtri.lowering.tir.arithmetic import reads_memory
from mlirtri.lowering.tir.statements import depends_on, fresh, index, nodes_in, plus, sequence, split_grid, substituted
from mlirtri.lowering.tir.tiles import at_least, at_most, ceil_div, quotient, remainder, replaced, sized
from mlirtri.lowering.toolchain.tvm_names import (
    IMPERATIVE,
    INDEPENDENT,
    Buffer,
    Expr,
    IRModule,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    TensorLoad,
    structural_map,
    tirx,
)

THREADS = 256
"""Threads of a block."""
MOST_BLOCKS = 4096
"""Blocks of a grid; a thread of a longer loop computes several elements."""
LARGEST_LOCAL = 1 << 14
"""Elements of an array that each thread may have for itself."""


def element_loops(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the schedule of an imperative function; None for any other."""
    if IMPERATIVE not in (function.attrs or {}):
        return None
    body = with_product_blocks(function.body.block.body.block.body, target)
    body = with_largest_sizes(fused(prepare(with_atomics(body))))
    launches = list(_Offload(body, target).statements(_flat(body), ()))
    root = SBlockRealize([], True, SBlock([], [], [], "root", sequence(*launches)))
    module = IRModule({"main": function.with_body(root)})
    return Schedule(tirx.transform.ConvertSSA()(module)["main"], error_render_level="fast")


class _Offload:
    """Statements of the host, and the kernels that they launch."""

    def __init__(self, body: Stmt, target: Target) -> None:
        self.target = target
        self.names: dict[Any, Any] = {}
        """By variable that the host cannot read, the element of device memory that holds its value."""
        self.values: dict[Any, Any] = {}
        """By array of one element, its value of sizes and constants, where one statement outside of loops stores it."""
        self._numbers = {
            store.buffer
            for store in _flat(body)
            if isinstance(store, tirx.BufferStore) and store.buffer in values_stored_once(body)
        }

    def statements(self, statements: Sequence[Any], guards: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the host's statements; kernels run where all `guards`, elements of device memory, are true."""
        serial: list[Any] = []
        for original in statements:
            if isinstance(original, tirx.AllocBuffer):
                self._check_size(original.buffer)
            statement = self._renamed(_unwrapped(original))
            if isinstance(statement, tirx.AllocBuffer):
                yield statement
            elif isinstance(statement, tirx.Bind) and _is_of_host(statement.value):
                yield statement
            elif self._is_number(statement):
                self.values[statement.buffer] = statement.value
            elif isinstance(statement, tirx.Bind):
                allocation, store = self._kept(statement)
                yield allocation
                serial.append(store)
            elif _has_parallel(statement) and _is_offloaded(statement):
                yield from _one_thread(serial, guards)
                serial = []
                yield from self._offloaded(statement, guards)
            else:
                serial.append(statement)
        yield from _one_thread(serial, guards)

    def _check_size(self, buffer: Buffer) -> None:
        """Refuse an array that the host cannot allocate."""
        if any(reads_memory(size) or depends_on(size, list(self.names)) for size in buffer.shape):
            raise UnsupportedOperationError(
                f"the size of {buffer.name!r} is in device memory, and CUDA's arrays are allocated by the host",
                help="use a size that is known at compile time",
            )

    def _is_number(self, statement: Stmt) -> bool:
        is_store = isinstance(statement, tirx.BufferStore) and statement.buffer in self._numbers
        return is_store and _is_of_host(statement.value)

    def _renamed(self, statement: Stmt) -> Any:
        if not (self.names or self.values):
            return statement
        variable = (tirx.Var, lambda node: self.names.get(node, node))
        load = (TensorLoad, lambda node: self.values.get(node.source, node))
        return structural_map(statement, [variable, load], order="post")

    def _kept(self, binding: Any) -> tuple[Any, Any]:
        """Return an allocation of device memory for a named value, and its store."""
        buffer = tirx.decl_buffer([index(1)], str(binding.value.ty), binding.var.name, layout=None)
        self.names[binding.var] = tirx.BufferLoad(buffer, [index(0)])
        return tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, binding.value, [index(0)])

    def _offloaded(self, statement: Stmt, guards: tuple[Any, ...]) -> Iterator[Any]:
        if isinstance(statement, tirx.IfThenElse) and _is_of_host(statement.condition):
            arms = [
                None if arm is None else sequence(*self.statements(_flat(arm), guards))
                for arm in (statement.then_case, statement.else_case)
            ]
            yield tirx.IfThenElse(statement.condition, *arms)
        elif isinstance(statement, tirx.IfThenElse):
            yield from self._branch(statement, guards)
        elif split_grid(statement)[0]:
            yield kernel_of_blocks(statement, self.target, guards)
        elif INDEPENDENT in statement.annotations:
            yield _row_blocks(statement, guards) or _grid_stride(statement, guards)
        else:
            inner = list(self.statements(_flat(statement.body), guards))
            # Memory is allocated once, not in each iteration.
            yield from filter(_is_constant_array, inner)
            inner = [child for child in inner if not _is_constant_array(child)]
            yield tirx.For(statement.loop_var, statement.min, statement.extent, statement.kind, sequence(*inner))

    def _branch(self, branch: Any, guards: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the launches of both arms, each guarded by the condition, which is computed once."""
        arms = [(branch.condition, branch.then_case), (tirx.Not(branch.condition), branch.else_case)]
        kept = []
        for condition, _ in arms:
            buffer = tirx.decl_buffer([index(1)], "bool", "guard", layout=None)
            kept.append(tirx.BufferLoad(buffer, [index(0)]))
            yield tirx.AllocBuffer(buffer)
            yield from _one_thread([tirx.BufferStore(buffer, condition, [index(0)])], guards)
        for guard, (_, arm) in zip(kept, arms, strict=True):
            if arm is not None:
                yield from self.statements(_flat(arm), (*guards, guard))


def _is_constant_array(statement: Stmt) -> bool:
    return isinstance(statement, tirx.AllocBuffer) and all(
        isinstance(size, tirx.IntImm) for size in statement.buffer.shape
    )


def _flat(statement: Stmt) -> list[Any]:
    while isinstance(statement, tirx.AttrStmt):
        statement = statement.body
    return list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]


def _unwrapped(statement: Stmt) -> Any:
    """Return the loops over blocks of a product without the attribute that keeps other passes from them."""
    is_product = isinstance(statement, tirx.AttrStmt) and bool(split_grid(statement.body)[0])
    return statement.body if is_product else statement


def _has_parallel(statement: Stmt) -> bool:
    return any(INDEPENDENT in loop.annotations for loop in nodes_in(statement, tirx.For))


def _is_offloaded(statement: Stmt) -> bool:
    """Return whether launches stand in a statement: for others a condition or a bound would have to reach the host."""
    if isinstance(statement, tirx.IfThenElse):
        return True
    if not isinstance(statement, tirx.For):
        return False
    return INDEPENDENT in statement.annotations or _is_of_host(statement.extent)


def _is_of_host(expression: Expr) -> bool:
    """Return whether sizes and constants give an expression; not by a division that has to be guarded."""
    divisions = nodes_in(expression, tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
    return not reads_memory(expression) and all(_is_positive(node.b) for node in divisions)


def _is_positive(divisor: Any) -> bool:
    sides = (divisor.a, divisor.b) if isinstance(divisor, tirx.Max) else (divisor,)
    return any(isinstance(side, tirx.IntImm) and side.value > 0 for side in sides)


def _one_thread(statements: Sequence[Any], guards: tuple[Any, ...]) -> Iterator[Any]:
    """Yield a launch of one thread for statements; none where they do nothing."""
    if any(nodes_in(statement, tirx.BufferStore) for statement in statements):
        yield _launch(sequence(*statements), 1, 1, guards, tirx.Var("thread", "int64"), tirx.Var("block", "int64"))


def _grid_stride(loop: Stmt, guards: tuple[Any, ...]) -> Any:
    """Return the launch of a parallel loop, of several where each only contains the next."""
    loops, body = _nest(loop)
    thread, block, step = (tirx.Var(name, "int64") for name in ("thread", "block", "step"))
    extents = [_size(nested.extent) for nested in loops]
    total = reduce(_times, extents)
    # A constant bound of the grid is known, or the host knows its size, or nobody does.
    most = total if _is_counted(loop) else int(loop.annotations.get(LARGEST_EXTENT, UNBOUNDED))
    blocks = at_most(at_least(ceil_div(most, THREADS), 1), MOST_BLOCKS)
    stride, first = _times(blocks, THREADS), plus(block * index(THREADS), thread)
    is_once = isinstance(most, int) and most <= stride
    element = first if is_once else plus(step * sized(stride), first)
    values, rest = [], element
    for extent in reversed(extents[1:]):
        values.append(remainder(rest, extent))
        rest = quotient(rest, extent)
    for nested, value in zip(loops, [rest, *reversed(values)], strict=True):
        body = substituted(body, nested.loop_var, plus(nested.min, value))
    body = tirx.IfThenElse(tirx.LT(element, sized(total)), body, None)
    if not is_once:
        last = index(stride - 1) if isinstance(stride, int) else stride - index(1)
        rounds = tirx.floordiv(sized(total) + last, sized(stride))
        body = tirx.For(step, index(0), rounds, tirx.ForKind.SERIAL, body, None, dict(loop.annotations))
    return _launch(body, blocks, THREADS, guards, thread, block)


def _row_blocks(loop: Stmt, guards: tuple[Any, ...]) -> Any:
    """Return the launch of a parallel loop over rows, with a block for each long one; None for others."""
    thread, block, step = (tirx.Var(name, "int64") for name in ("thread", "block", "step"))
    rows = divided_row(loop) if _is_counted(loop) and len(_nest(loop)[0]) == 1 else None
    if rows is None or not _is_of_host(rows[1]) or depends_on(rows[1], [loop.loop_var]):
        return None
    body, length = rows
    count = _size(loop.extent)
    blocks = at_most(at_least(count, 1), MOST_BLOCKS)
    row = plus(step * sized(blocks), block)
    body = tirx.IfThenElse(tirx.LT(row, sized(count)), substituted(body, loop.loop_var, plus(loop.min, row)), None)
    rounds = tirx.floordiv(sized(count) + sized(blocks) - index(1), sized(blocks))
    body = on_block(tirx.For(step, index(0), rounds, tirx.ForKind.SERIAL, body), thread)
    for guard in reversed(guards):
        body = tirx.IfThenElse(guard, body, None)
    threads = bound(thread, ROW_THREADS, "threadIdx.x", with_calls(_without_names_of_functions(body)))
    short = fresh(_grid_stride(loop, guards))
    return tirx.IfThenElse(tirx.GE(length, index(SHORTEST)), bound(block, blocks, "blockIdx.x", threads), short)


def _times(x: Any, y: Any) -> Any:
    return x * y if isinstance(x, int) and isinstance(y, int) else sized(x) * sized(y)


def _size(extent: Any) -> Any:
    """Return an extent as a number where it is one, and never less than 0."""
    if isinstance(extent, tirx.IntImm):
        return int(extent)
    return extent if isinstance(extent, tirx.Var) else tirx.max(extent, index(0))


def _is_counted(loop: Stmt) -> bool:
    return LARGEST_EXTENT not in loop.annotations and _is_of_host(loop.extent)


def _nest(loop: Stmt) -> tuple[list[Any], Any]:
    """Return a parallel loop with those that it consists of, as far as the host knows their extents, and the body."""
    loops, body = [loop], loop.body
    while isinstance(body, tirx.For) and INDEPENDENT in body.annotations and _is_counted(loop):
        variables = [outer.loop_var for outer in loops]
        bounds = (body.min, body.extent)
        if not all(map(_is_of_host, bounds)) or any(depends_on(each, variables) for each in bounds):
            break
        loops.append(body)
        body = body.body
    return loops, body


def _launch(body: Stmt, blocks: Any, threads: int, guards: tuple[Any, ...], thread: Any, block: Any) -> Any:
    for guard in reversed(guards):
        body = tirx.IfThenElse(guard, body, None)
    body = _in_registers(with_calls(_without_names_of_functions(body)))
    return bound(block, blocks, "blockIdx.x", bound(thread, threads, "threadIdx.x", body))


def _without_names_of_functions(statement: Stmt) -> Any:
    """Return the statement with other names for its values: ``double sqrt = sqrt(x)`` is no CUDA."""
    names = {
        node.var: tirx.Var(f"{node.var.name}_value", node.var.ty) for node in nodes_in(statement, tirx.Bind, tirx.Let)
    }
    return replaced(statement, names) if names else statement


def _in_registers(statement: Stmt) -> Any:
    """Return the statement with the arrays that it allocates in the memory of each thread."""
    local: dict[Any, Any] = {}
    for allocation in nodes_in(statement, tirx.AllocBuffer):
        buffer = allocation.buffer
        if not all(isinstance(size, tirx.IntImm) for size in buffer.shape) or _elements(buffer) > LARGEST_LOCAL:
            raise UnsupportedOperationError(
                f"an iteration has an array of its own, {buffer.name!r}, which on CUDA has at most {LARGEST_LOCAL} "
                "elements, as many as are known at compile time",
                help="use an array that is allocated before the loop, or a loop over elements",
            )
        shape = [index(int(size)) for size in buffer.shape]
        local[buffer] = tirx.decl_buffer(shape, buffer.dtype, buffer.name, scope="local", layout=None)
    return with_buffers(statement, local) if local else statement


def _elements(buffer: Buffer) -> int:
    return prod(int(size) for size in buffer.shape)
