"""Matrix products among the loops of imperative functions, as contractions in tiles that a target writes.

A product is fused with the fill of its result, with transposing copies of its operands, and with elementwise consumers;
the other passes leave its statements alone. Any size may be dynamic, and at most one of the sum's axes::

    for i, j: c[i, j] = 0
    for i, k, j: c[i, j] += a[i, k] * b[k, j]   ──►   tiles of relu(sum over k of a[i, k] * b[k, j])
    for i, j: c[i, j] = relu(c[i, j])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mlirtri.lowering.schedule.imperative.accesses import has_expensive_calls
from mlirtri.lowering.schedule.imperative.interchange import FINISHED
from mlirtri.lowering.schedule.imperative.perfect_nests import (
    Nest,
    contains_let,
    in_terms_of,
    is_copy,
    is_same,
    is_zero,
    nest_of,
    reading,
)
from mlirtri.lowering.tir.contraction import Axis, Contraction, shortened, without_units
from mlirtri.lowering.tir.product_recognition import Product, product_of
from mlirtri.lowering.tir.statements import index, loads_in, location_of, sequence, uses_in
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    structural_map,
    structural_walk,
    tirx,
)

Loops = Callable[[Contraction], "Stmt | None"]
"""From a contraction to its statements; None where tiles are not profitable."""


class StatementProducts:
    """A sequence of statements, of which some become products; a fused statement is None.

    With `is_open` those of a dynamic size do, without it those of static sizes, with None both. With `widens` products
    read bf16 elements, not their fp32 copies, and elements that are 0 where a condition fails.
    """

    def __init__(self, statements: Sequence[Stmt], loops: Loops, is_open: bool | None = None, widens: bool = False):
        self.statements: list[Any] = list(statements)
        self.loops, self.is_open, self.widens = loops, is_open, widens
        self.nests = [nest_of(statement) for statement in statements]
        self.allocated = [statement.buffer for statement in statements if isinstance(statement, tirx.AllocBuffer)]
        self._known_uses: dict[int, tuple[Any, set[int]]] = {}
        """By the address of a statement: the statement, and the addresses of what it uses."""

    def statement(self) -> Stmt:
        """Return the sequence with its products in tiles."""
        copies: list[int] = []
        for position, nest in enumerate(self.nests):
            if nest is None or self.statements[position] is None:
                continue
            product = _product(nest, self.is_open)
            if product is not None:
                copies += self._in_tiles(position, product)
        for position in sorted(set(copies), reverse=True):
            buffer = self.nests[position].store.buffer
            makers = [copy for copy in set(copies) if self.nests[copy].store.buffer.same_as(buffer)]
            if not any(self._uses(other, buffer) for other in range(len(self.statements)) if other not in makers):
                self.statements[position] = None
                self._drop_allocation(buffer)
        return sequence(*(statement for statement in self.statements if statement is not None))

    def _drop_allocation(self, buffer: Buffer) -> None:
        for position, statement in enumerate(self.statements):
            if isinstance(statement, tirx.AllocBuffer) and statement.buffer.same_as(buffer):
                self.statements[position] = None

    def _uses(self, position: int, buffer: Buffer) -> bool:
        statement = self.statements[position]
        if statement is None or isinstance(statement, tirx.AllocBuffer):
            return False
        address = statement.__chandle__()
        if address not in self._known_uses:
            self._known_uses[address] = statement, uses_in(statement)
        return buffer.__chandle__() in self._known_uses[address][1]

    def _in_tiles(self, position: int, product: Product) -> list[int]:
        """Replace a product by tiles; return the positions of the copies that they do not read any more."""
        copies: list[int] = []
        operands = self.operands(position, product, copies)
        if operands is None:
            return []
        left, right, loops = operands
        start = self._start(position, product)
        sums = tirx.decl_buffer(product.result.ty.shape, product.result.dtype, "sum", layout=None)
        indices = list(product.update.indices)
        value = tirx.BufferLoad(sums, indices)
        if start is None:
            value = tirx.BufferLoad(product.result, indices) + value
        stores, private, followers, moved = self._followers(position, product, [left, right], value)
        # A loop around products that moved inside of the sum has lost its location, what follows has one.
        location = location_of(*(self.statements[number] for number in (position, *followers)))
        contraction = _contraction(product, left, right, sums, stores)
        contraction = replace(contraction, private=tuple(private), location=location)
        tiles = loops(contraction)
        if tiles is None:
            return []
        self.statements[position] = tirx.AttrStmt(index(0), FINISHED, index(1), tiles)
        for number in [*followers, *([] if start is None else [start])]:
            self.statements[number] = None
        if moved:  # buffers that followers write are allocated before
            self.statements[position] = sequence(
                *(self.statements[number] for number in moved), self.statements[position]
            )
            for number in moved:
                self.statements[number] = None
        return copies

    def operands(self, position: int, product: Product, copies: list[int]) -> tuple[Expr, Expr, Loops] | None:
        """Return what a product reads instead of copies, and what writes it; None where it stays as it is.

        The positions of the copies are added to `copies`.
        """
        if not product.rows:
            return None
        return *self.sources(position, product, copies), self.loops

    def sources(self, position: int, product: Product, copies: list[int]) -> tuple[Expr, Expr]:
        """Return both operands with loads from the sources of copies, whose positions are added to `copies`."""
        left, right = (
            self._through_copies(position, operand, product.result, copies) for operand in (product.left, product.right)
        )
        return left, right

    def _through_copies(self, position: int, operand: Any, result: Any, copies: list[int]) -> Any:
        """Return the operand with loads from the sources of copies, unless a source is the result."""

        def load(node: Node) -> Any:
            copy = self._copy_before(position, node.source)
            if copy is None or any(inner.source.same_as(result) for inner in loads_in(self.nests[copy].store.value)):
                return node
            nest = self.nests[copy]
            copies.append(copy)
            pairs = zip(nest.store.indices, node.indices, strict=True)
            values = {variable: value for variable, value in pairs if isinstance(variable, tirx.Var)}
            return replaced(nest.store.value, values)

        count = len(copies)
        operand = structural_map(operand, (TensorLoad, load), order="post")
        return operand if len(copies) == count else self._through_copies(position, operand, result, copies)

    def _copy_before(self, position: int, buffer: Buffer) -> int | None:
        """Return the position of the statement that copies or converts another, unchanged buffer to `buffer`."""
        if not any(buffer.same_as(allocation) for allocation in self.allocated):
            return None
        stores = [number for number in range(len(self.statements)) if self.writes(number, buffer)]
        if len(stores) != 1 or stores[0] >= position:
            return None
        nest = self.nests[stores[0]]
        if nest is None or not nest.reaches_all() or not is_copy(nest, self.widens):
            return None
        [load] = loads_in(nest.store.value)
        if self.widens and self._narrows(nest, load):
            # The wider array may then stay where it is, in registers.
            return None
        if any(self.writes(number, load.source) for number in range(stores[0] + 1, position)):
            return None
        return stores[0]

    def _narrows(self, nest: Nest, load: TensorLoad) -> bool:
        """Return whether a nest copies an array of this sequence in a narrower dtype."""
        is_local = any(load.source.same_as(allocation) for allocation in self.allocated)
        return is_local and int(nest.store.buffer.dtype.bits) < int(load.source.dtype.bits)

    def writes(self, position: int, buffer: Buffer) -> bool:
        """Return whether the statement at a position stores to a buffer."""
        buffers: list[Any] = []
        if self._uses(position, buffer):
            structural_walk(self.statements[position], (tirx.BufferStore, lambda node: buffers.append(node.buffer)))
        return any(buffer.same_as(stored) for stored in buffers)

    def _start(self, position: int, product: Product) -> int | None:
        """Return the position of the statement that zeroes the result, if no later one accesses it; else None."""
        users = [number for number in range(position) if self._uses(number, product.result)]
        nest = self.nests[users[-1]] if users else None
        if nest is None or not nest.reaches_all() or not is_zero(nest.store.value):
            return None
        spatial = {axis.variable: axis.extent for axis in (*product.batch, *product.rows, *product.columns)}
        is_whole = all(
            is_same(spatial.get(variable, variable), size)
            for variable, size in zip(product.update.indices, product.result.ty.shape, strict=True)
        )
        return users[-1] if is_whole else None

    def _followers(
        self, position: int, product: Product, read: Sequence[Any], value: Expr
    ) -> tuple[list[Any], list[Any], list[int], list[int]]:
        """Return the consumers' stores, their private buffers, the positions of their statements and allocations.

        `read` are the operands that the tiles read, which other tiles must not write.
        """
        result, indices = product.result, list(product.update.indices)
        operands = [load.source for operand in (product.left, product.right, *read) for load in loads_in(operand)]
        stores, fused, moved, waiting = [tirx.BufferStore(result, value, indices)], [], [], []
        private: list[Any] = []
        for number in range(position + 1, len(self.statements)):
            if self._may_precede(number, result, operands):
                waiting.append(number)
                continue
            nest = self.nests[number]
            rewritten = None if nest is None else in_terms_of(nest, result, indices, product, operands)
            if rewritten is None:
                break
            *names, store = rewritten
            is_last = store.buffer.same_as(result)
            later = [other for other in range(position + 1, len(self.statements)) if other != number]
            users = [other for other in later if self._uses(other, result)]
            is_only = is_last or not users or (users[0] > number and self._overwrites(users[0], result))
            is_private = is_last or (is_only and any(result.same_as(allocation) for allocation in self.allocated))
            stores = [reading(store, result, value) for store in rewritten] if is_private else [*stores, *rewritten]
            private = [name.buffer for name in names]
            fused.append(number)
            moved += waiting
            break
        return stores, private, fused, moved

    def _overwrites(self, position: int, buffer: Buffer) -> bool:
        """Return whether a statement writes every element of a buffer and reads none: results share its memory."""
        nest = self.nests[position]
        if nest is None or nest.names or not nest.store.buffer.same_as(buffer) or not nest.reaches_all():
            return False
        return not any(load.source.same_as(buffer) for load in loads_in(nest.store.value))

    def _may_precede(self, number: int, result: Any, operands: Sequence[Any]) -> bool:
        """Return whether a statement is independent of the product: a `Bind`, an allocation or a loop over a row."""
        statement, nest = self.statements[number], self.nests[number]
        is_line = nest is not None and len(nest.axes) == 1 and nest.reaches_all()
        if not (is_line or isinstance(statement, tirx.AllocBuffer | tirx.Bind)) or self._uses(number, result):
            return False
        return not any(self.writes(number, operand) for operand in operands)


def _product(nest: Nest, is_open: bool | None) -> Product | None:
    stored = set(nest.store.indices)  # no list: see `products`
    summed = [variable for variable in nest.variables if variable not in stored]
    if not stored <= set(nest.variables):
        return None
    product = product_of(nest.store, nest.axes, summed)
    if product is None or not product.columns or nest.names:
        return None
    if is_open is not None and is_open != any(map(_is_open, nest.axes)):
        return None
    product = _with_open_sum_first(product)
    if product is None:
        return None
    are_distinct = len(stored) == len(nest.store.indices)
    operands = [load.source for operand in (product.left, product.right) for load in loads_in(operand)]
    reads_itself = any(operand.same_as(product.result) for operand in operands)
    has_calls = any(has_expensive_calls(operand) or contains_let(operand) for operand in (product.left, product.right))
    return product if are_distinct and not reads_itself and not has_calls and product.fits_tiles else None


def _is_open(axis: Axis) -> bool:
    return not isinstance(axis.extent, int)


def _with_open_sum_first(product: Product) -> Product | None:
    """Return the product with the dynamic axis of its sum outermost.

    None where there are two of them, or where one of several column axes is dynamic.
    """
    columns = without_units(product.columns)
    first = [axis for axis in product.reduced if _is_open(axis)]
    if len(first) > 1 or (len(columns) > 1 and any(map(_is_open, columns))):
        return None
    return replace(product, reduced=(*first, *(axis for axis in product.reduced if not _is_open(axis))))


def _contraction(product: Product, left: Any, right: Any, sums: Any, stores: Sequence[Any]) -> Contraction:
    parts = (product.batch, product.rows, product.columns, product.reduced)
    axes = [axis for part in parts for axis in part]
    left, right, *stores = shortened([left, right, *stores], axes)
    batch, rows, columns, reduced = map(without_units, parts)
    return Contraction(
        batch, rows, columns, reduced, left, right, product.dtype, sums, tuple(stores), (), product.add,
        packs_left=not isinstance(left, TensorLoad),
    )  # fmt: skip
