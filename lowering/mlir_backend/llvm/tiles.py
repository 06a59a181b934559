"""Tile and vectorise contractions over memrefs, by upstream's transform dialect.

Takes a module of bufferized `linalg.generic`. Gives, in place, of each contraction of static sizes that is large enough
(sums of products of two operands, each read by plain loops, one of them contiguous along the innermost loop of the
result): loops over chunks (an `scf.forall` for several threads), in which a tile of rows and vectors accumulates the
reduction in registers. Remainders become tiles of other sizes, so that no element is computed alone. An operand that is
contiguous along the reduction only is transposed into a copy first. Everything else stays as it is. Refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from mlirtri.dialect.bindings.mlir import apply_transform, ir, linalg, memref, operations_named
from mlirtri.lowering.core.cpu import simd_registers
from mlirtri.lowering.mlir_backend.llvm.windows import order_loops, with_even_columns, with_views

MARK = "mlirtri.contraction"
WIDENING = ("arith.extf", "arith.extsi", "arith.extui")
SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
WORTH = 1 << 18
"""Multiplications from which on a contraction gains from threads, which take some microseconds to start."""
CHUNK_BYTES = 1 << 20
"""Bytes of the right operand that a chunk reads at most, to stay in the second-level cache."""


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
    marked = []
    for generic in operations_named(module, "linalg.generic"):
        undo, found = _with_windows(generic)
        if found is None:
            continue
        if undo is not None:
            # Row and column adjacent: a unit loop between them would be a vector dimension, too.
            ends = (found.row, found.column, *found.reduced)
            outer = [at for at in range(len(found.extents)) if at not in ends]
            order_loops(generic, [*outer, *ends], len(outer))
            found = contraction(generic)
        generic = _with_contiguous_right(generic, found)
        generic.attributes[MARK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(marked))
        marked.append(found)
    if marked:
        steps = [line for number, found in enumerate(marked) for line in _steps(number, found, threads)]
        apply_transform(module, _PROGRAM.format(steps="\n    ".join(steps)))


def _with_windows(generic: ir.Operation) -> tuple[Callable[[], None] | None, Contraction | None]:
    """Return the contraction that a generic is with windows as views, and how to undo these."""
    if not _is_product(generic):
        return None, None
    undo = with_views(generic)
    found = contraction(generic)
    if undo is None or (found is not None and _has_contiguous_columns(generic, found)):
        return undo, found
    undo()
    if found is None or not with_even_columns(generic, found.column):
        return None, None
    return with_views(generic), contraction(generic)


def contraction(generic: ir.Operation) -> Contraction | None:
    """Return the roles of the loops, or None where it is no contraction or too small for tiles."""
    operands, maps = list(generic.operands), [each.value for each in generic.attributes["indexing_maps"]]
    if len(operands) != 3 or not all(map(_is_static, operands)) or not _is_sum_of_products(generic):
        return None
    if not all(isinstance(result, ir.AffineDimExpr) for one in maps for result in one.results):
        return None
    left, right, out = ([result.position for result in one.results] for one in maps)
    if len(set(left)) != len(left) or len(set(right)) != len(right) or not out:
        return None
    extents = _extents(operands, (left, right, out))
    loops = range(maps[0].n_dims)
    reduced = tuple(loop for loop in loops if loop not in out)
    column = out[-1]
    if (column in left) == (column in right) or len(extents) != len(loops):
        return None
    other = left if column in right else right
    rows = [loop for loop in out if loop in other and loop not in (left if other is right else right)]
    if not rows or not reduced or any(loop not in left or loop not in right for loop in reduced):
        return None
    row = rows[-1]
    bits = ir.MemRefType(operands[2].type).element_type.width
    if extents[column] < simd_registers().bits // bits or extents[row] < 4 or prod(extents[at] for at in reduced) < 4:
        return None
    return Contraction(row, column, tuple(extents[loop] for loop in loops), reduced, bits)


def _is_product(generic: ir.Operation) -> bool:
    operands = list(generic.operands)
    return len(operands) == 3 and all(map(_is_static, operands)) and _is_sum_of_products(generic)


def _has_contiguous_columns(generic: ir.Operation, found: Contraction) -> bool:
    """Return whether columns are contiguous in the operand that has them, as it is read."""
    maps = [[result.position for result in each.value.results] for each in generic.attributes["indexing_maps"]]
    at = 1 if found.column in maps[1] else 0
    strides, _ = generic.operands[at].type.get_strides_and_offset()
    return maps[at][-1] == found.column and strides[-1] == 1


def _is_static(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType) and value.type.has_static_shape


def _extents(operands: list[ir.Value], accesses: tuple[list[int], ...]) -> dict[int, int]:
    return {
        loop: size
        for operand, access in zip(operands, accesses, strict=True)
        for loop, size in zip(access, operand.type.shape, strict=True)
    }


def _is_sum_of_products(generic: ir.Operation) -> bool:
    """Return whether the body is ``out + left * right``, the factors widened or not, in any order."""
    block = generic.regions[0].blocks[0]
    *steps, last = [each.operation for each in block.operations]
    result = last.operands[0].owner
    if isinstance(result, ir.Block) or result.operation.name not in SUMS:
        return False
    total = result.operation
    factors = [value.owner for value in total.operands if value != block.arguments[2]]
    if len(factors) != 1 or isinstance(factors[0], ir.Block) or factors[0].operation.name != SUMS[total.name]:
        return False
    sources = [_narrow(value) for value in factors[0].operation.operands]
    known = {*SUMS, *SUMS.values(), *WIDENING}
    is_wide = str(total.results[0].type) in ("f32", "f64", "i32", "i64")
    return is_wide and set(sources) == set(block.arguments[0:2]) and all(step.name in known for step in steps)


def _narrow(value: ir.Value) -> ir.Value:
    owner = value.owner
    is_widened = not isinstance(owner, ir.Block) and owner.operation.name in WIDENING
    return owner.operation.operands[0] if is_widened else value


def _with_contiguous_right(generic: ir.Operation, found: Contraction) -> ir.Operation:
    """Copy the operand that has the columns if these are not its innermost axis; return the generic."""
    maps = [each.value for each in generic.attributes["indexing_maps"]]
    accesses = [[result.position for result in one.results] for one in maps]
    at = 1 if found.column in accesses[1] else 0
    if accesses[at][-1] == found.column:
        return generic
    order = [*(where for where, loop in enumerate(accesses[at]) if loop != found.column)]
    order.append(accesses[at].index(found.column))
    source = generic.operands[at]
    kind = ir.MemRefType.get([source.type.shape[where] for where in order], source.type.element_type)
    with ir.InsertionPoint(generic), generic.location:
        copy = memref.alloc(kind, [], [])
        linalg.transpose(source, outs=[copy], permutation=order)
    with ir.InsertionPoint.after(generic), generic.location:
        memref.dealloc(copy)
    generic.operands[at] = copy
    dims = [ir.AffineDimExpr.get(accesses[at][where]) for where in order]
    maps[at] = ir.AffineMap.get(maps[at].n_dims, 0, dims)
    generic.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(one) for one in maps])
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


def _steps(number: int, found: Contraction, threads: int) -> Iterator[str]:
    """Split a contraction into parts of whole tiles, and each part into chunks and tiles."""
    name = f"%m{number}"
    yield (
        f"{name} = transform.structured.match attributes {{{MARK} = {number} : i64}} in %root"
        " : (!transform.any_op) -> !transform.any_op"
    )
    lanes = simd_registers().bits // found.bits
    columns = parts(found.extents[found.column], (*(size * lanes for size in widths()), 1))
    rows = parts(found.extents[found.row], (6, 1))
    for at, (column_name, column) in enumerate((yield from _split(name, found.column, columns))):
        split = yield from _split(column_name, found.row, rows)
        for row_at, (part, row) in enumerate(split):
            yield from _tiles(part, f"{number}_{at}_{row_at}", found, row, column, threads)


def widths() -> tuple[int, ...]:
    """Return tile widths in vectors: LLVM's code for three in one value is bad."""
    return (4, 2, 1) if simd_registers().count >= 32 else (2, 1)


def parts(extent: int, units: tuple[int, ...]) -> list[tuple[int, int]]:
    """Split `extent` into parts, each a multiple of a unit with tiles of one size: (extent, tile size)."""
    parts = []
    for at, unit in enumerate(units):
        whole = extent // unit * unit
        if whole:
            parts.append((whole, unit if at == 0 else whole))
        extent -= whole
    return parts


def _split(name: str, loop: int, parts: list[tuple[int, int]]) -> Iterator[str]:
    """Emit lines that split an operation along a loop; return the handles of the parts."""
    found = []
    for at, (extent, size) in enumerate(parts):
        if at == len(parts) - 1:
            found.append((name, (extent, size)))
            break
        both, head, rest = f"{name}s{loop}", f"{name}h{loop}_{at}", f"{name}r{loop}"
        yield f"{both} = transform.structured.split {name} after {extent} {{dimension = {loop}}} : !transform.any_op"
        yield (
            f"{head}, {rest} = transform.split_handle {both}"
            " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"
        )
        found.append((head, (extent, size)))
        name = rest
    return found


def _tiles(
    part: str, label: str, found: Contraction, row: tuple[int, int], column: tuple[int, int], threads: int
) -> Iterator[str]:
    """Emit a part as chunks of tiles with the reduction inside, each a vector operation."""
    sizes = _chunk(found, row, column, threads)
    count = prod(
        -(-extent // size) for extent, size in zip(_extents_of(found, row, column), sizes, strict=True) if size
    )
    work = row[0] * column[0] * prod(found.extents) // (found.extents[found.row] * found.extents[found.column])
    if threads > 1 and count > 1 and work >= WORTH:
        yield (
            f"%o{label}, %f{label} = transform.structured.tile_using_forall {part} tile_sizes {sizes}"
            " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"
        )
    else:
        yield from _loops(f"o{label}", part, sizes, [at for at, size in enumerate(sizes) if size])
    order = [at for at in range(len(sizes)) if at not in (found.row, found.column, *found.reduced)]
    inner = [1] * len(sizes)
    inner[found.row], inner[found.column] = row[1], column[1]
    yield from _loops(f"t{label}", f"%o{label}", inner, [*order, found.column, found.row, *found.reduced])
    yield f"transform.structured.vectorize %t{label} : !transform.any_op"


def _extents_of(found: Contraction, row: tuple[int, int], column: tuple[int, int]) -> list[int]:
    """Return the extents of the loops of a part."""
    extents = list(found.extents)
    extents[found.row], extents[found.column] = row[0], column[0]
    return extents


def _chunk(found: Contraction, row: tuple[int, int], column: tuple[int, int], threads: int) -> list[int]:
    """Return a chunk's extent per loop, 0 for all: columns that fit the cache, and enough chunks."""
    reach = prod(found.extents[at] for at in found.reduced) * found.bits // 8
    tiles = row[0] // row[1]
    column_chunk = column[1] * _divisor(column[0] // column[1], max(1, CHUNK_BYTES // (reach * column[1])))
    row_tiles = _divisor(tiles, 16 if threads == 1 else max(1, min(16, tiles // (2 * threads))))
    sizes = [0 if at in found.reduced else 1 for at in range(len(found.extents))]
    sizes[found.row], sizes[found.column] = row[1] * row_tiles, column_chunk
    return sizes


def _loops(made: str, operation: str, sizes: list[int], order: list[int]) -> Iterator[str]:
    """Emit lines that tile an operation with loops in an order; `made` names the tile's handle."""
    count = sum(size > 0 for size in sizes)
    ranks = sorted(order)
    yield (
        f"%{made}, %l{made}:{count} = transform.structured.tile_using_for {operation} tile_sizes {sizes}"
        f" interchange = {[*order, *(at for at in range(len(sizes)) if at not in ranks)]}"
        f" : (!transform.any_op) -> ({', '.join(['!transform.any_op'] * (count + 1))})"
    )


def _divisor(number: int, most: int) -> int:
    return max(each for each in range(1, min(number, most) + 1) if number % each == 0)
