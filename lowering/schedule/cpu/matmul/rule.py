"""The CPU rule for products of tensors: a contraction in tiles, fused with its elementwise producers and consumers.

Products are batched or transposed, of converted operands, with several axes of each kind (`tir.products`). Elementwise
producers are computed in the copies of the operands, elementwise consumers on each tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.loops import spatial
from mlirtri.lowering.schedule.cpu.common.tile_sizes import lanes_for
from mlirtri.lowering.schedule.cpu.matmul.column_sums import MAX_ROWS
from mlirtri.lowering.schedule.cpu.matmul.dot_products import add_halves, in_groups, with_functions
from mlirtri.lowering.schedule.cpu.matmul.nest import contraction_loops
from mlirtri.lowering.schedule.cpu.matmul.tile import without_lets
from mlirtri.lowering.tir.blocks import BlockFacts, leaf_blocks
from mlirtri.lowering.tir.contraction import (
    Axis,
    Contraction,
    Way,
    depends,
    lies_along,
    shortened,
    size_of,
    without_units,
)
from mlirtri.lowering.tir.products import Product, only_product
from mlirtri.lowering.tir.statements import index, loads_in, sequence
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
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

MAX_ROWS_IN_PLACE = 48
"""Rows up to which a right operand that is contiguous along the columns is not packed, whatever its size."""
MAX_ROWS_OF_DOTS = 32
"""Rows up to which a right operand that is contiguous along the sum is not packed."""
OPERATIONS_PER_SUM = 3
"""Instructions per horizontal sum of a vector, where four vectors are reduced together."""


def matmul(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with its product in tiles; None where there is no product, or tiles are not profitable."""
    match = only_product(function)
    if match is None or not _is_profitable(match[-1]) or _slides(match[-1]):
        return None
    return in_tiles(*match, _loops, target)


def _loops(contraction: Contraction, target: Target) -> Stmt:
    return _statements_for(_choose_way(contraction), target)


def _statements_for(contraction: Contraction, target: Target, least: int = 1) -> Stmt:
    contraction = in_groups(contraction) if contraction.way is Way.TILES else contraction
    statement = contraction_loops(contraction, target, least)
    return with_functions(statement) if contraction.add is add_halves else statement


def open_loops(contraction: Contraction, target: Target) -> Stmt:
    """Return the statements of a contraction with dynamic sizes."""
    rows, columns, inner = size_of(contraction.rows), contraction.columns[-1], contraction.reduced[-1]
    right = contraction.right
    if isinstance(rows, int) and rows == 1 and are_dots(contraction.left, right, contraction.reduced):
        return _statements_for(replace(contraction, way=Way.DOTS), target)
    if not all(isinstance(axis.extent, int) for axis in (*contraction.columns, *contraction.reduced)):
        return _statements_for(contraction, target)
    few, most = None, 0
    if all(_lies_along(operand, inner) for operand in (contraction.left, right)) and inner.extent >= lanes_for(
        "float32"
    ):
        most, few = MAX_ROWS_OF_DOTS, replace(contraction, way=Way.DOTS)
    elif isinstance(right, TensorLoad) and lies_along(right, columns):
        most, few = MAX_ROWS_IN_PLACE, replace(contraction, packs_right=False)
        if _right_bytes(contraction) <= cache_bytes()[2] // 2:
            return _statements_for(few, target)
    if few is None or isinstance(rows, int):
        return _statements_for(contraction if few is None or rows > most else few, target)
    tiled = _statements_for(contraction, target, most + 1)
    return tirx.IfThenElse(tirx.LE(rows, index(most)), _statements_for(few, target), tiled)


def are_dots(left: Expr, right: Expr, reduced: Sequence[Axis]) -> bool:
    """Whether both operands are contiguous along a sum of static length, and the sum is long enough for vectors."""
    inner = reduced[-1]
    are_known = all(isinstance(axis.extent, int) for axis in reduced)
    return (
        are_known
        and inner.extent >= lanes_for("float32")
        and all(_lies_along(operand, inner) for operand in (left, right))
    )


def _right_bytes(product: Product | Contraction) -> int:
    return size_of(product.columns) * size_of(product.reduced) * 4


def _choose_way(contraction: Contraction) -> Contraction:
    """Return the contraction with its `Way`: few rows take less time than packing the right operand."""
    rows, inner = size_of(contraction.rows), contraction.reduced[-1]
    if rows <= MAX_ROWS and _lies_along(contraction.right, contraction.columns[-1]):
        return replace(contraction, way=Way.COLUMNS)
    lanes = lanes_for(contraction.dtype)
    if not _lies_along(contraction.left, inner) or inner.extent < lanes_for("float32"):
        return contraction
    transposes = not _lies_along(contraction.right, inner)
    # Tiles read more streams at once, which is faster where the operand is not in the cache.
    is_cached = rows * size_of(contraction.reduced) * 4 <= cache_bytes()[3]
    is_narrow = size_of(contraction.columns) <= lanes and _is_plain(contraction) and is_cached
    if not is_narrow and (transposes or rows > MAX_ROWS_OF_DOTS):
        return contraction
    dots = replace(contraction, way=Way.DOTS, transposes_right=transposes)
    return dots if _operations_of_dots(dots, lanes) < _operations_of_tiles(contraction, lanes) else contraction


def _is_plain(contraction: Contraction) -> bool:
    """Whether operands are plain loads: any computation on them would be repeated for each group of columns."""
    return all(isinstance(operand, TensorLoad) for operand in (contraction.left, contraction.right))


def _operations_of_dots(contraction: Contraction, lanes: int) -> int:
    """Estimate the instructions of sums along lanes, including horizontal sums and the copy, if there is one."""
    *outer, inner = contraction.reduced
    vectors = size_of(outer) * -(-inner.extent // lanes)
    columns = size_of(contraction.columns)
    copied = columns * size_of(contraction.reduced) if contraction.transposes_right else 0
    return size_of(contraction.rows) * columns * (vectors + OPERATIONS_PER_SUM) + copied


def _operations_of_tiles(contraction: Contraction, lanes: int) -> int:
    columns, reduced = size_of(contraction.columns), size_of(contraction.reduced)
    copied = columns * reduced if contraction.packs_right else 0
    return size_of(contraction.rows) * -(-columns // lanes) * reduced + copied


def _lies_along(operand: Any, axis: Axis) -> bool:
    loads = loads_in(operand)
    return len(loads) == 1 and lies_along(loads[0], axis)


def in_tiles(
    schedule: Schedule, block: BlockFacts, product: Product, loops: Callable[[Contraction, Target], Any], target: Target
) -> Schedule | None:
    """Return the function with `loops` of the product, fused with elementwise producers and consumers where possible.

    `loops` returns the statements of the contraction, or None, which is then returned.
    """
    function, blocks = schedule.mod["main"], leaf_blocks(schedule)
    surroundings = _surroundings(function, schedule, blocks, block, product)
    statement = loops(_contraction(product, surroundings), target)
    if statement is None:
        return None
    for other in blocks:
        if other.name not in surroundings.absorbed:
            spatial(schedule, other, target)
    scheduled = _with_statement(schedule.mod["main"], blocks, block, surroundings, statement)
    # Stored values may contain `Let`, and are repeated for each vector.
    return Schedule(tirx.transform.ConvertSSA()(IRModule({"main": scheduled}))["main"])


def _slides(product: Product) -> bool:
    """Whether the right operand is read at sums of a column and a window's axis, as in convolutions."""
    indices = [position for load in loads_in(product.right) for position in load.indices]
    return any(depends(position, product.columns) and depends(position, product.reduced) for position in indices)


def _is_profitable(product: Product) -> bool:
    return size_of(product.columns) >= 2 and size_of(product.reduced) >= 4


@dataclass(frozen=True)
class Surroundings:
    """The elementwise blocks fused with the product."""

    left: Any
    right: Any
    """The operands, with the values of producers in place of loads of their results."""
    stores: tuple[Any, ...]
    private: tuple[Any, ...]
    absorbed: frozenset[str]
    """Names of the fused blocks, the product's among them."""
    buffers: tuple[Any, ...]
    """Buffers that are no longer allocated."""


def _surroundings(
    function: PrimFunc, schedule: Schedule, blocks: list[BlockFacts], block: BlockFacts, product: Product
) -> Surroundings:
    position = next(number for number, candidate in enumerate(blocks) if candidate.name == block.name)
    left, right, producers = _with_producers(schedule, blocks[:position], [product.left, product.right])
    followers = _followers(schedule, blocks[position + 1 :], product)
    absorbed = {block.name, *producers, *(name for name, _ in followers)}
    inner = schedule.get(schedule.get_sblock("root")).alloc_buffers
    read_outside = [read.buffer for other in blocks if other.name not in absorbed for read in other.reads]

    def is_private(buffer: Buffer) -> bool:
        return any(buffer.same_as(allocation) for allocation in inner) and not any(
            buffer.same_as(read) for read in read_outside
        )

    stores = [] if is_private(product.result) else [product.update]
    private = []
    for _, body in followers:
        scratch = list(body.alloc_buffers)
        private += [*scratch, *(store.buffer for store in _stores_of(body) if is_private(store.buffer))]
        stores += _stores_of(body)
    removed = [
        buffer
        for candidate in blocks
        if candidate.name in absorbed
        for buffer in [candidate.target]
        if is_private(buffer)
    ]
    stores, named = without_lets(stores)
    distinct = (*dict.fromkeys(private), *named)
    return Surroundings(left, right, tuple(stores), distinct, frozenset(absorbed), tuple(removed))


def _with_producers(schedule: Schedule, earlier: list[BlockFacts], operands: list[Any]) -> tuple[Any, Any, list[str]]:
    """Return the operands with the values of elementwise producers that nothing else reads, and their names."""
    names = []
    for block in reversed(earlier):
        body = schedule.get(block.handle)
        if not _is_inlinable(schedule, block, body, names):
            continue
        variables = [axis.var for axis in body.iter_vars]

        def load(node: Any, block=block, body=body, variables=variables) -> Any:
            if not node.source.same_as(block.target):
                return node
            order = [node.indices[block.writes[0].axes.index(number)] for number in range(len(variables))]
            return replaced(body.body.value, dict(zip(variables, order, strict=True)))

        operands = [structural_map(operand, (TensorLoad, load), order="post") for operand in operands]
        names.append(block.name)
    return operands[0], operands[1], names


def _is_inlinable(schedule: Schedule, block: BlockFacts, body: Stmt, removed: list[str]) -> bool:
    is_simple = block.is_spatial and isinstance(body.body, tirx.BufferStore)
    if not is_simple or sorted(axis for axis in block.writes[0].axes if axis is not None) != list(
        range(len(block.kinds))
    ):
        return False
    if len(block.writes[0].axes) != len(block.kinds):
        return False
    readers = [schedule.get(handle) for handle in schedule.get_consumers(block.handle)]
    is_inner = any(
        block.target.same_as(allocation) for allocation in schedule.get(schedule.get_sblock("root")).alloc_buffers
    )
    return is_inner and all(reader.name_hint in removed or _is_reduction(reader) for reader in readers)


def _is_reduction(block: Any) -> bool:
    return any(axis.iter_type == tirx.IterVar.CommReduce for axis in block.iter_vars)


def _followers(schedule: Schedule, later: list[BlockFacts], product: Product) -> list[tuple[str, Any]]:
    """Return the elementwise consumers that tiles can compute: names, and blocks in terms of the product's axes."""
    indices = {product.result: [tuple(product.update.indices)]}
    axes = (*product.batch, *product.rows, *product.columns)
    extents = {axis.variable: axis.extent for axis in axes}
    fused: list[tuple[str, Any]] = []
    skipped: list[Any] = []
    for block in later:
        body = schedule.get(block.handle)
        renamed = _in_terms_of(block, body, indices, extents, skipped)
        if renamed is None:
            skipped += [write.buffer for write in block.writes]
            continue
        fused.append((block.name, renamed))
        for store in _stores_of(renamed):
            indices.setdefault(store.buffer, []).append(tuple(store.indices))
    return fused


def _in_terms_of(
    block: BlockFacts, body: Stmt, indices: dict[Any, list], extents: dict[Any, int], skipped: list[Any]
) -> Any:
    """Return the block in terms of the product's axes; None where it does not read all of the product elementwise."""
    values: dict[Any, Any] = {}
    is_behind = False
    for read in block.reads:
        if any(read.buffer.same_as(buffer) for buffer in skipped):
            return None
        if read.buffer not in indices:
            continue
        is_behind = True
        for axis, position in zip(read.axes, indices[read.buffer][0], strict=True):
            # A slice covers a part of the product only: on the tile it would write out of bounds.
            if axis is None or block.extents[axis] != extents.get(position, 1):
                return None
            if not values.setdefault(body.iter_vars[axis].var, position).same_as(position):
                return None
    units = [axis.var for axis in body.iter_vars if int(axis.dom.extent) == 1]
    for variable in units:
        values.setdefault(variable, tirx.IntImm("int64", 0))
    if not block.is_spatial or not is_behind or len(values) != len(body.iter_vars):
        return None
    if not all(isinstance(store, tirx.BufferStore) for store in _statements_of(body.body)):
        return None
    return _with_body(body, replaced(body.body, values))


def _statements_of(body: Stmt) -> list[Any]:
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _stores_of(block: Any) -> list[Any]:
    return _statements_of(block.body)


def _with_body(block: Any, body: Stmt, buffers: Any = None) -> Any:
    return SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init,
        block.alloc_buffers if buffers is None else buffers, block.match_buffers, block.annotations,
    )  # fmt: skip


def _shortened(product: Product, around: Surroundings) -> tuple[Product, Surroundings]:
    """Return both without axes of extent 1 and with simplified indices, which show what is contiguous."""
    parts = (product.batch, product.rows, product.columns, product.reduced)
    axes = [axis for part in parts for axis in part]
    left, right, *stores = shortened([around.left, around.right, *around.stores], axes)
    batch, rows, columns, reduced = map(without_units, parts)
    product = replace(product, batch=batch, rows=rows, columns=columns, reduced=reduced)
    return product, replace(around, left=left, right=right, stores=tuple(stores))


def _contraction(product: Product, around: Surroundings) -> Contraction:
    product, around = _shortened(product, around)
    rows_are_many = size_of(product.rows) > MAX_ROWS_IN_PLACE
    is_plain = isinstance(around.right, TensorLoad)
    in_place = (
        is_plain
        and lies_along(around.right, product.columns[-1])
        and (_right_bytes(product) <= cache_bytes()[2] // 2 or not rows_are_many)
    )
    dtype = _accumulators(product.dtype)
    left, right = (
        operand if dtype == product.dtype else tirx.Cast(dtype, operand) for operand in (around.left, around.right)
    )
    return Contraction(
        product.batch, product.rows, product.columns, product.reduced, left, right, dtype, product.result,
        around.stores, around.private, product.add,
        packs_left=_packs_left(around.left, product), packs_right=not in_place,
    )  # fmt: skip


def _packs_left(left: Any, product: Product) -> bool:
    """Whether elements are computed, or a row's stride is so large that its elements evict each other from L1."""
    if not isinstance(left, TensorLoad):
        return True
    lines = size_of(product.reduced) * 64
    is_used_often = size_of(product.columns) >= 16 * lanes_for(_accumulators(product.dtype))
    return not _lies_along(left, product.reduced[-1]) and lines > cache_bytes()[1] // 2 and is_used_often


def _accumulators(dtype: str) -> str:
    """Return the dtype of the sums: wrapping integers are the low bits of sums in int32."""
    return "int32" if dtype in ("int8", "uint8", "int16", "uint16") else dtype


def _with_statement(
    function: PrimFunc, blocks: list[BlockFacts], block: BlockFacts, around: Surroundings, statement: Stmt
) -> PrimFunc:
    root = function.body.block
    nests = _statements_of(root.body)
    statements = []
    for other, nest in zip(blocks, nests, strict=True):
        if other.name == block.name:
            statements.append(statement)
        elif other.name not in around.absorbed:
            statements.append(nest)
    buffers = [
        buffer for buffer in root.alloc_buffers if not any(buffer.same_as(removed) for removed in around.buffers)
    ]
    return function.with_body(SBlockRealize([], True, _with_body(root, sequence(*statements), buffers)))
