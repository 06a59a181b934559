"""Products of dynamic sizes among the loops of imperative functions, as tiles; also those that are convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.loops.convolutions import is_convolution, tiles_of, unpadded_load
from mlirtri.lowering.schedule.cpu.matmul.rule import are_dots, open_loops
from mlirtri.lowering.schedule.products.statement_products import Loops, StatementProducts
from mlirtri.lowering.tir.contraction import Contraction
from mlirtri.lowering.tir.padded_images import core_of, with_core
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import loads_in
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, TensorLoad, tirx


def with_products(statement: Stmt, target: Target) -> Stmt:
    """Return the statement with its products of dynamic size in tiles."""
    if isinstance(statement, tirx.AttrStmt):
        body = with_products(statement.body, target)
        return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)
    if not isinstance(statement, tirx.SeqStmt):
        return statement
    return sequence_in_tiles(statement.seq, target, open_loops, is_open=True)


def sequence_in_tiles(
    statements: Sequence[Stmt], target: Target, loops: Callable[[Contraction, Target], Stmt | None], is_open: bool
) -> Stmt:
    """Return a sequence of statements with its products in tiles, which `loops` writes.

    With `is_open` those of a dynamic size, else those of static sizes.
    """
    return _CpuProducts(statements, target, loops, is_open).statement()


class _CpuProducts(StatementProducts):
    """Products of a sequence of statements, sums of a single row, and convolutions of dynamic sizes."""

    def __init__(
        self,
        statements: Sequence[Stmt],
        target: Target,
        loops: Callable[[Contraction, Target], Stmt | None],
        is_open: bool,
    ):
        super().__init__(statements, lambda contraction: loops(contraction, target), is_open)
        self.target = target

    def operands(self, position: int, product: Product, copies: list[int]) -> tuple[Expr, Expr, Loops] | None:
        """Return the operands of a convolution without its padding; those of other products as the base class."""
        convolution = self._convolution(position, product, copies) if self.is_open else None
        if convolution is not None:
            return convolution.left, convolution.right, lambda contraction: tiles_of(contraction, self.target)
        left, right = self.sources(position, product, copies)
        return (left, right, self.loops) if product.rows or are_dots(left, right, product.reduced) else None

    def _convolution(self, position: int, product: Product, copies: list[int]) -> Product | None:
        """Return the product as a convolution, if it can be of an image without its padding; None where it is none."""
        for image in (self._without_padding, lambda _at, product, _copies: product.right):
            used_copies: list[int] = []
            right = image(position, product, used_copies)
            if right is None:
                continue
            left, right = self.sources(position, replace(product, right=right), used_copies)
            candidate = replace(product, left=left, right=right)
            if is_convolution(candidate):
                copies += used_copies
                return candidate
        return None

    def _without_padding(self, position: int, product: Product, copies: list[int]) -> Expr | None:
        """Return the right operand with a conditional load of the image before padding; None where it is not padded."""
        load = core_of(product.right)
        if not isinstance(load, TensorLoad) or not any(
            load.source.same_as(allocation) for allocation in self.allocated
        ):
            return None
        stores = [number for number in range(len(self.statements)) if self.writes(number, load.source)]
        nests = [self.nests[number] for number in stores]
        if len(stores) != 2 or stores[-1] >= position or None in nests or any(nest.names for nest in nests):
            return None
        fill, copy = nests
        inner = loads_in(copy.store.value)
        if not fill.reaches_all() or len(inner) != 1 or inner[0].source.same_as(product.result):
            return None
        if any(self.writes(number, inner[0].source) for number in range(stores[0], position)):
            return None
        extents = {axis.variable: axis.extent for axis in copy.axes}
        unpadded = unpadded_load(fill.store, copy.store, extents, load.indices)
        copies += stores
        return None if unpadded is None else with_core(product.right, unpadded)
