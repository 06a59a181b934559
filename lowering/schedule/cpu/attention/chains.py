"""Matches attention in a PrimFunc: two matrix products with row kernels (scaling, masks, softmax) between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlirtri.lowering.schedule.rows.nests import BlockNest, NotRows, nests_of, with_plain_indices
from mlirtri.lowering.schedule.rows.plan import RowPlan, make_plan, runs_along_memory
from mlirtri.lowering.schedule.rows.shared_axes import find_rows
from mlirtri.lowering.tir.blocks import blocks_of
from mlirtri.lowering.tir.contraction import Values, size_of
from mlirtri.lowering.tir.product_recognition import Product, find_product
from mlirtri.lowering.tir.statements import index, loads_in
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Node, PrimFunc, TensorLoad, structural_map, tirx


@dataclass(frozen=True)
class Scores:
    """The first product with its elementwise consumers, in terms of the product's axes."""

    target: Any
    value: Any
    indices: tuple[Any, ...]
    """Per dimension of the target, the variable of the product's axis, or 0."""


@dataclass(frozen=True)
class Chain:
    """A product, the row kernels that follow, and the last product."""

    first: Product
    rows: RowPlan
    second: Product
    weights: BlockNest
    """The row nest that the second product reads."""
    stores: tuple[Any, ...]
    """The stores of the second product and its elementwise consumer, in terms of its axes."""
    scores: Scores
    """The elements of the first product that the row nests read."""
    dimensions: tuple[int | None, ...]
    """Per dimension of the scores, the position of the axis among the rows' axes; None for the row itself."""
    block: int
    """The position of the rows' axis that is the first product's row, and the second's."""

    @property
    def row(self) -> int:
        return self.rows.rows.extents[self.block]

    @property
    def length(self) -> int:
        """Elements of a row of scores."""
        return size_of(self.first.columns)


def chain_of(function: PrimFunc) -> Chain | None:
    """Return the chain that a PrimFunc is; None where it is none."""
    function = with_plain_indices(function)
    try:
        blocks = {facts.name: (facts, block) for facts, block in blocks_of(function)}
        nests = nests_of(function)
        products = {
            n: product
            for n, nest in enumerate(nests)
            if nest.is_reduction and (product := find_product(*blocks[nest.name])) is not None
        }
        if len(products) != 2:
            return None
        return _chain(nests, products, function.params)
    except (NotRows, ValueError):  # opaque, symbolic or strange loops
        return None


def _chain(nests: list[BlockNest], products: dict[int, Product], arguments: Sequence[Any]) -> Chain | None:
    start, end = products
    first, second = map(_with_one_row_axis, products.values())
    first = _with_own_queries(first, nests, start)
    if first is None or not all(_are_arguments(operand, arguments) for operand in (first.left, first.right)):
        return None
    scores, middle = _scores(first, nests[start + 1 : end])
    if not middle or len(first.rows) != 1 or len(second.rows) != 1:
        return None
    stores = _stores_behind(nests[end + 1 :], second)
    weights = next((nest for nest in middle if loads_of(second.left, nest.target)), None)
    exposed = [nest.target for nest in nests[:end] if any(nest.target.same_as(output) for output in arguments)]
    if (
        stores is None
        or weights is None
        or exposed
        or any(second_reads(second, nest) for nest in nests[:end] if nest is not weights)
    ):
        return None
    if weights is not middle[-1] or str(weights.target.dtype) != str(scores.target.dtype):
        return None
    plan = make_plan(middle, find_rows(middle), [weights.target])
    if not plan.reducers or not all(runs_along_memory(plan, n) for n in plan.reducers):
        return None
    dimensions = _dimensions(plan, scores.target)
    if dimensions is None:
        return None
    axis_of = dict(zip(scores.indices, dimensions, strict=True))
    block = axis_of.get(first.rows[0].variable)
    if block is None:
        return None
    chain = Chain(first, plan, second, weights, stores, scores, dimensions, block)
    return chain if _fits(chain, axis_of) else None


def _with_own_queries(first: Product, nests: Sequence[BlockNest], start: int) -> Product | None:
    """Return the product with the elementwise nests before it in its left operand; None where they are others."""
    left = first.left
    for number in reversed(range(start)):
        nest = nests[number]
        readers = [other for other in nests[number + 1 :] if other.reads(nest.target)]
        if not _is_elementwise(nest) or len(readers) != 1 or not loads_of(left, nest.target):
            return None

        def load(node: Node, nest: BlockNest = nest) -> Any:
            return nest.value_at(node.indices) if node.source.same_as(nest.target) else node

        left = structural_map(left, (TensorLoad, load), order="post")
    return replace(first, left=left)


def _are_arguments(operand: Expr, arguments: Sequence[Any]) -> bool:
    return all(any(load.source.same_as(argument) for argument in arguments) for load in loads_in(operand))


def _is_elementwise(nest: BlockNest) -> bool:
    """Return whether a nest stores each element of its target, of elements at its own axes."""
    if nest.is_reduction or nest.before or set(nest.target_axes) != set(range(len(nest.axes))):
        return False
    indices = (position for load in nest.loads for position in zip(nest.plain(load.indices), load.indices, strict=True))
    return all(axis is not None or isinstance(position, tirx.IntImm) for axis, position in indices)


def _with_one_row_axis(product: Product) -> Product:
    """Return the product with its innermost row axis alone as rows: heads of a group that share keys are a batch."""
    long = [axis for axis in product.rows if axis.extent > 1] or list(product.rows)
    rows = tuple(long[-1:])
    return replace(product, rows=rows, batch=(*product.batch, *(axis for axis in product.rows if axis not in rows)))


def _scores(first: Product, middle: list[BlockNest]) -> tuple[Scores, list[BlockNest]]:
    result_indices = tuple(first.update.indices)
    scores = Scores(first.result, tirx.BufferLoad(first.result, list(result_indices)), result_indices)
    while middle:
        nest, *remaining = middle
        if nest.is_reduction or nest.before or any(other.reads(scores.target) for other in remaining):
            break
        values = _at_same_element(nest, scores.target, scores.indices)
        if values is None or _reads_matrices(nest, scores.target):
            break

        def load(node: Node, scores: Scores = scores) -> Any:
            return scores.value if node.source.same_as(scores.target) else node

        value = structural_map(nest.store.value, (TensorLoad, load), order="post")
        indices = tuple(replaced(position, values) for position in nest.store.indices)
        scores = Scores(nest.target, replaced(value, values), indices)
        middle = remaining
    return scores, middle


def _reads_matrices(nest: BlockNest, scores: Any) -> bool:
    """Return whether a nest reads a matrix besides the scores, whose rows are better read one after the other."""
    others = [load for load in nest.loads if not load.source.same_as(scores)]
    return any(len([axis for axis in nest.plain(load.indices) if axis is not None]) > 1 for load in others)


def _at_same_element(nest: BlockNest, buffer: Buffer, indices: Sequence[Any]) -> Values | None:
    """Return the values of an elementwise nest's axes where it reads `buffer` at `indices`; None for a part."""
    loads = [load for load in nest.loads if load.source.same_as(buffer)]
    if not loads or len({nest.plain(load.indices) for load in loads}) != 1:
        return None
    values: Values = {axis.variable: index(0) for axis in nest.axes}
    for axis, position, expression in zip(nest.plain(loads[0].indices), loads[0].indices, indices, strict=True):
        if axis is not None:
            values[nest.axes[axis].variable] = expression
        elif not isinstance(position, tirx.IntImm):
            return None
    is_whole = prod(axis.extent for axis in nest.axes) == prod(int(size) for size in buffer.shape)
    return values if is_whole else None


def second_reads(second: Product, nest: BlockNest) -> bool:
    """Return whether the second product reads the result of a nest."""
    return bool(loads_of(second.left, nest.target) or loads_of(second.right, nest.target))


def loads_of(expression: Expr, buffer: Buffer) -> list[TensorLoad]:
    """Return the loads from a buffer in an expression."""
    return [load for load in loads_in(expression) if load.source.same_as(buffer)]


def _dimensions(plan: RowPlan, scores: Any) -> tuple[int | None, ...] | None:
    """Return per dimension of the scores the position of the rows' axis; None where the nests differ."""
    variants: set[tuple[int | None, ...]] = set()
    for n, nest in enumerate(plan.nests):
        rows, inner_axes = plan.rows.axes[n], [axis for group in plan.inside[n].groups for axis in group]
        for load in nest.loads:
            if not load.source.same_as(scores):
                continue
            axes = nest.plain(load.indices)
            inner = [axis for axis in axes if axis is not None and axis not in rows and nest.axes[axis].extent > 1]
            if inner != inner_axes:
                return None
            variants.add(tuple(rows.index(axis) if axis in rows else None for axis in axes))
    return variants.pop() if len(variants) == 1 else None


def _fits(chain: Chain, axis_of: dict[Any, int | None]) -> bool:
    """Return whether the rows are the products' batch and row axes, and the second product reduces along the rows."""
    first, second, extents = chain.first, chain.second, chain.rows.rows.extents
    if any(axis_of.get(axis.variable) is not None for axis in first.columns):
        return False
    row_axes = {axis_of.get(axis.variable) for axis in (*first.batch, *first.rows) if axis.extent > 1}
    if None in row_axes or any(extent > 1 and axis not in row_axes for axis, extent in enumerate(extents)):
        return False
    [load, *more] = loads_of(chain.second.left, chain.weights.target)
    if more:
        return False
    n = next(number for number, nest in enumerate(chain.rows.nests) if nest is chain.weights)
    rows = chain.rows.rows.axes[n]
    axes = [rows.index(axis) if axis in rows else None for axis in chain.weights.target_axes]
    reduced = [axis.variable for axis in second.reduced]
    inner = [
        position
        for position, axis in zip(load.indices, axes, strict=True)
        if axis is None and not isinstance(position, tirx.IntImm)
    ]
    used = {axis: position for position, axis in zip(load.indices, axes, strict=True) if axis is not None}
    wide = [position for position in inner if any(position.same_as(variable) for variable in reduced)]
    is_along = len(wide) == len(reduced) and all(
        position.same_as(variable) for position, variable in zip(wide, reduced, strict=True)
    )
    return is_along and used.get(chain.block) is not None and used[chain.block].same_as(second.rows[0].variable)


def _stores_behind(behind: Sequence[BlockNest], second: Product) -> tuple[Any, ...] | None:
    if not behind:
        return (second.update,)
    values = _at_same_element(behind[0], second.result, second.update.indices)
    if len(behind) > 1 or behind[0].is_reduction or behind[0].before or values is None:
        return None
    return (replaced(behind[0].store, values),)
