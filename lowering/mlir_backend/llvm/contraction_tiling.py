"""Tile and vectorise contractions over memrefs, by upstream's transform dialect.

A contraction of static sizes that is large enough (a sum of products of two operands, each read by plain loops, one of
them contiguous along the innermost loop of the result) becomes loops over chunks (an `scf.forall` for several threads),
in which a tile of rows and vectors accumulates the reduction in registers. Remainders become tiles of other sizes, so
that no element is computed alone. An operand that is contiguous along the reduction only is transposed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from mlirtri.dialect.bindings.mlir import apply_transform, ir, linalg, memref, operations_named
from mlirtri.lowering.core.cpu import PARALLEL_MULTIPLICATIONS, simd_registers
from mlirtri.lowering.mlir_backend.llvm.gathered_windows import chunk_sizes, gather_windows, largest_divisor
from mlirtri.lowering.mlir_backend.llvm.thread_chunks import TRANSFORM
from mlirtri.lowering.mlir_backend.llvm.window_views import order_loops, with_views
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, loop_extents, maps_of, plain_accesses, set_maps
from mlirtri.lowering.mlir_common.reading import defined_by, definition

MARK = "mlirtri.contraction"
WIDENING = ("arith.extf", "arith.extsi", "arith.extui")
SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
CHUNK_BYTES = 1 << 20
"""Bytes of the right operand that a chunk reads at most, to stay in the second-level cache."""
BLOCK_BYTES = 1 << 15
"""Bytes of the right operand that all rows of a chunk read in turn at most, to stay in the first-level cache."""


@dataclass(frozen=True)
class Contraction:
    """The loops of a generic by role; each is a loop number."""

    row: int
    column: int
    extents: tuple[int, ...]
    reduced: tuple[int, ...]
    bits: int
    """Width of an element of the result."""


def rewrite(module: ir.Module, threads: int) -> None:
    """Tile and vectorise the contractions of `module`, for that many threads."""
    _split_convolutions(module)
    marked = []
    for generic in operations_named(module, "linalg.generic"):
        undo, loops = _with_windows(generic)
        if loops is None:
            continue
        if undo is not None:
            # Row and column adjacent: a unit loop between them would be a vector dimension, too.
            ends = (loops.row, loops.column, *loops.reduced)
            outer = [loop for loop in range(len(loops.extents)) if loop not in ends]
            order_loops(generic, [*outer, *ends], len(outer))
            if (loops := contraction(generic)) is None:
                continue
        _put_columns_second(generic, loops)
        generic = _with_contiguous_right(generic, loops)
        generic.attributes[MARK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(marked))
        marked.append(loops)
    if marked:
        steps = [line for number, loops in enumerate(marked) for line in _steps(number, loops, threads)]
        apply_transform(module, _PROGRAM.format(steps="\n    ".join(steps)))


def _split_convolutions(module: ir.Module) -> None:
    """Put loops around the convolutions whose windows are too many to gather at once."""
    steps: list[str] = []
    for generic in operations_named(module, "linalg.generic"):
        sizes = chunk_sizes(generic) if _is_product(generic) else None
        if sizes is not None:
            number = len(steps)
            generic.attributes[MARK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
            loops = _loops(f"c{number}", f"%m{number}", sizes, [loop for loop, size in enumerate(sizes) if size])
            steps += ["\n    ".join((_match(number), *loops))]
    if steps:
        apply_transform(module, TRANSFORM.format(steps="\n    ".join(steps)))
    for generic in operations_named(module, "linalg.generic") if steps else ():
        if MARK in generic.attributes:
            del generic.attributes[MARK]


def _match(number: int) -> str:
    return (
        f"%m{number} = transform.structured.match attributes {{{MARK} = {number} : i64}} in %root"
        " : (!transform.any_op) -> !transform.any_op"
    )


def _with_windows(generic: ir.Operation) -> tuple[Callable[[], None] | None, Contraction | None]:
    """Return the contraction that a generic is with windows as views, and how to undo these."""
    if not _is_product(generic):
        return None, None
    element = ir.MemRefType(generic.operands[2].type).element_type
    if gather_windows(generic, simd_registers().bits // element.width):
        return None, contraction(generic)
    undo = with_views(generic)
    loops = contraction(generic)
    if undo is None or (loops is not None and _has_contiguous_columns(generic, loops)):
        return undo, loops
    undo()
    return None, None


def contraction(generic: ir.Operation) -> Contraction | None:
    """Return the roles of the loops, or None where it is no contraction or too small for tiles."""
    if not _is_product(generic) or (accesses := plain_accesses(generic)) is None:
        return None
    left, right, out = accesses
    if len(set(left)) != len(left) or len(set(right)) != len(right) or not out:
        return None
    extents, loops = loop_extents(generic), range(maps_of(generic)[0].n_dims)
    reduced = tuple(loop for loop in loops if loop not in out)
    column = out[-1]
    if (column in left) == (column in right) or len(extents) != len(loops):
        return None
    other = left if column in right else right
    rows = [loop for loop in out if loop in other and loop not in (left if other is right else right)]
    if not rows or not reduced or any(loop not in left or loop not in right for loop in reduced):
        return None
    row = rows[-1]
    bits = ir.MemRefType(generic.operands[2].type).element_type.width
    terms = prod(extents[loop] for loop in reduced)
    if extents[column] < simd_registers().bits // bits or extents[row] < 4 or terms < 4:
        return None
    return Contraction(row, column, tuple(extents[loop] for loop in loops), reduced, bits)


def _is_product(generic: ir.Operation) -> bool:
    operands = list(generic.operands)
    return len(operands) == 3 and all(map(_is_static, operands)) and _is_sum_of_products(generic)


def _has_contiguous_columns(generic: ir.Operation, loops: Contraction) -> bool:
    """Return whether columns are contiguous in the operand that has them, as it is read."""
    accesses = plain_accesses(generic) or []
    position = 1 if loops.column in accesses[1] else 0
    strides, _ = generic.operands[position].type.get_strides_and_offset()
    return accesses[position][-1] == loops.column and strides[-1] == 1


def _is_static(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType) and value.type.has_static_shape


def _is_sum_of_products(generic: ir.Operation) -> bool:
    """Return whether the body is ``out + left * right``, the factors widened or not, in any order."""
    block = generic.regions[0].blocks[0]
    *steps, last = [view.operation for view in block.operations]
    addition = definition(last.operands[0])
    if addition is None or addition.name not in SUMS:
        return False
    terms = [value for value in addition.operands if value != block.arguments[2]]
    product = defined_by(terms[0], SUMS[addition.name]) if len(terms) == 1 else None
    if product is None:
        return False
    sources = [_narrow(value) for value in product.operands]
    allowed = {*SUMS, *SUMS.values(), *WIDENING}
    is_wide = str(addition.results[0].type) in ("f32", "f64", "i32", "i64")
    return is_wide and set(sources) == set(block.arguments[0:2]) and all(step.name in allowed for step in steps)


def _narrow(value: ir.Value) -> ir.Value:
    cast = definition(value)
    return value if cast is None or cast.name not in WIDENING else cast.operands[0]


def _put_columns_second(generic: ir.Operation, loops: Contraction) -> None:
    """Swap the factors where the first one has the columns: upstream's outer products have the second's lanes."""
    block = generic.regions[0].blocks[0]
    columns = block.arguments[1 if loops.column in (plain_accesses(generic) or [])[1] else 0]
    for step in block.operations:
        product = step.operation
        if product.name in SUMS.values() and _narrow(product.operands[0]) == columns:
            product.operands[0], product.operands[1] = product.operands[1], product.operands[0]


def _with_contiguous_right(generic: ir.Operation, loops: Contraction) -> ir.Operation:
    """Copy the operand that has the columns if these are not its innermost axis; return the generic."""
    maps, accesses = maps_of(generic), plain_accesses(generic)
    position = 1 if loops.column in accesses[1] else 0
    if accesses[position][-1] == loops.column:
        return generic
    order = [*(axis for axis, loop in enumerate(accesses[position]) if loop != loops.column)]
    order.append(accesses[position].index(loops.column))
    source = generic.operands[position]
    kind = ir.MemRefType.get([source.type.shape[axis] for axis in order], source.type.element_type)
    with ir.InsertionPoint(generic), generic.location:
        copy = memref.alloc(kind, [], [])
        linalg.transpose(source, outs=[copy], permutation=order)
    with ir.InsertionPoint.after(generic), generic.location:
        memref.dealloc(copy)
    generic.operands[position] = copy
    maps[position] = dimensions(*(accesses[position][axis] for axis in order), rank=maps[position].n_dims)
    set_maps(generic, maps)
    return generic


_PROGRAM = """module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op) {{
    {steps}
    %functions = transform.structured.match ops{{["func.func"]}} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {{
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.vector.sink_ops
    }} : !transform.any_op
    transform.apply_patterns to %functions {{
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    }} : !transform.any_op
    transform.apply_cse to %functions : !transform.any_op
    %hoisted = transform.structured.hoist_redundant_vector_transfers %functions
      : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %hoisted {{
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
    }} : !transform.any_op
    transform.apply_patterns to %hoisted {{
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_broadcast
      transform.apply_patterns.vector.lower_transpose
      transform.apply_patterns.vector.transfer_to_scf full_unroll = true
    }} : !transform.any_op
    transform.apply_patterns to %hoisted {{
      transform.apply_patterns.canonicalization
    }} : !transform.any_op
    transform.yield
  }}
}}
"""


def _steps(number: int, loops: Contraction, threads: int) -> Iterator[str]:
    """Split a contraction into parts of whole tiles, and each part into chunks and tiles."""
    name = f"%m{number}"
    yield _match(number)
    lanes = simd_registers().bits // loops.bits
    columns = parts(loops.extents[loops.column], (*(size * lanes for size in widths()), 1))
    rows = parts(loops.extents[loops.row], (6, 1))
    for column_part, (column_name, column) in enumerate((yield from _split(name, loops.column, columns))):
        split = yield from _split(column_name, loops.row, rows)
        for row_part, (part, row) in enumerate(split):
            yield from _tiles(part, f"{number}_{column_part}_{row_part}", loops, row, column, threads)


def widths() -> tuple[int, ...]:
    """Return tile widths in vectors: LLVM's code for three in one value is bad."""
    return (4, 2, 1) if simd_registers().count >= 32 else (2, 1)


def parts(extent: int, units: tuple[int, ...]) -> list[tuple[int, int]]:
    """Split `extent` into parts, each a multiple of a unit with tiles of one size: (extent, tile size)."""
    parts = []
    for position, unit in enumerate(units):
        multiple = extent // unit * unit
        if multiple:
            parts.append((multiple, unit if position == 0 else multiple))
        extent -= multiple
    return parts


def _split(name: str, loop: int, parts: list[tuple[int, int]]) -> Iterator[str]:
    """Emit lines that split an operation along a loop; return the handles of the parts."""
    handles = []
    for position, (extent, size) in enumerate(parts):
        if position == len(parts) - 1:
            handles.append((name, (extent, size)))
            break
        both, head, tail = f"{name}s{loop}", f"{name}h{loop}_{position}", f"{name}r{loop}"
        yield f"{both} = transform.structured.split {name} after {extent} {{dimension = {loop}}} : !transform.any_op"
        yield (
            f"{head}, {tail} = transform.split_handle {both}"
            " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"
        )
        handles.append((head, (extent, size)))
        name = tail
    return handles


def _tiles(
    part: str, label: str, loops: Contraction, row: tuple[int, int], column: tuple[int, int], threads: int
) -> Iterator[str]:
    """Emit a part as chunks of tiles with the reduction inside, each a vector operation."""
    sizes = _chunk(loops, row, column, threads)
    extents = list(loops.extents)
    extents[loops.row], extents[loops.column] = row[0], column[0]
    count = prod(-(-extent // size) for extent, size in zip(extents, sizes, strict=True) if size)
    work = row[0] * column[0] * prod(loops.extents) // (loops.extents[loops.row] * loops.extents[loops.column])
    if threads > 1 and count > 1 and work >= PARALLEL_MULTIPLICATIONS:
        yield (
            f"%o{label}, %f{label} = transform.structured.tile_using_forall {part} tile_sizes {sizes}"
            " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"
        )
    else:
        yield from _loops(f"o{label}", part, sizes, [loop for loop, size in enumerate(sizes) if size])
    order = [loop for loop in range(len(sizes)) if loop not in (loops.row, loops.column, *loops.reduced)]
    inner = [1] * len(sizes)
    inner[loops.row], inner[loops.column] = row[1], column[1]
    chunk = f"%o{label}"
    block = _reduction_block(loops, column[1])
    if block:
        shared = [0] * len(sizes)
        shared[loops.column], shared[loops.reduced[0]] = column[1], block
        yield from _loops(f"b{label}", chunk, shared, [loops.column, loops.reduced[0]])
        chunk = f"%b{label}"
    yield from _loops(f"t{label}", chunk, inner, [*order, loops.column, loops.row, *loops.reduced])
    yield f"transform.structured.vectorize %t{label} : !transform.any_op"


def _chunk(loops: Contraction, row: tuple[int, int], column: tuple[int, int], threads: int) -> list[int]:
    """Return a chunk's extent per loop, 0 for all: columns that fit the cache, and enough chunks."""
    reach = prod(loops.extents[loop] for loop in loops.reduced) * loops.bits // 8
    tiles = row[0] // row[1]
    column_chunk = column[1] * largest_divisor(column[0] // column[1], max(1, CHUNK_BYTES // (reach * column[1])))
    row_tiles = largest_divisor(tiles, 16 if threads == 1 else max(1, min(16, tiles // (2 * threads))))
    sizes = [0 if loop in loops.reduced else 1 for loop in range(len(loops.extents))]
    sizes[loops.row], sizes[loops.column] = row[1] * row_tiles, column_chunk
    return sizes


def _reduction_block(loops: Contraction, columns: int) -> int:
    """Return how far the outermost reduction goes with right elements that stay in L1; 0 for all of it.

    An extent without such divisors is one block: the sums of short blocks would be stored and loaded too often.
    """
    first, *rest = (loops.extents[loop] for loop in loops.reduced)
    fits = max(1, BLOCK_BYTES // (prod(rest) * columns * loops.bits // 8))
    block = largest_divisor(first, fits)
    return 0 if fits >= first or 2 * block < fits else block


def _loops(handle: str, operation: str, sizes: list[int], order: list[int]) -> Iterator[str]:
    """Emit lines that tile an operation with loops in an order; `handle` names the tile's handle."""
    count = sum(size > 0 for size in sizes)
    ranks = sorted(order)
    yield (
        f"%{handle}, %l{handle}:{count} = transform.structured.tile_using_for {operation} tile_sizes {sizes}"
        f" interchange = {[*order, *(loop for loop in range(len(sizes)) if loop not in ranks)]}"
        f" : (!transform.any_op) -> ({', '.join(['!transform.any_op'] * (count + 1))})"
    )
