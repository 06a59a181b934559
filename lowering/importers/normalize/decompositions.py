"""Decompose operations of imported modules into simpler ones: by upstream's decompositions, and by rules of our own.

tensor.generate { ^bb0(%i): … tensor.yield %x }   ──►   linalg.generic { %i = linalg.index 0 … linalg.yield %x }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import all_operations, apply_transform, arith, ir, tensor
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.arithmetic.total_arithmetic import compare, literal
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import cast_to_index, index_constant, loop_nest, mixed_sizes
from mlirtri.lowering.mlir_common.linalg_builder import elements, generic_of_region, padded

DECOMPOSE = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    %matches = transform.structured.match ops{{["{name}"]}} in %root : (!transform.any_op) -> !transform.any_op
    transform.foreach %matches : !transform.any_op {{
    ^bb0(%match: !transform.any_op):
      %parts = transform.structured.{decompose} %match : (!transform.any_op) -> !transform.any_op
    }}
    transform.yield
  }}
}}
"""
UPSTREAM = {
    "linalg.softmax": "decompose_interface",
    "linalg.winograd_filter_transform": "decompose_winograd_op",
    "linalg.winograd_input_transform": "decompose_winograd_op",
    "linalg.winograd_output_transform": "decompose_winograd_op",
}
"""The operations that upstream's transform dialect decomposes, and its operation that does so."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Decompose the operations of `module`, in place."""
    present = {operation.name for operation in all_operations(module)}
    for name, decompose in UPSTREAM.items():
        if name in present:
            apply_transform(module, DECOMPOSE.format(name=name, decompose=decompose))
    # Inner operations first: the rule of an outer one moves its regions.
    for operation in reversed(all_operations(module)):
        if (rule := RULES.get(operation.name)) is None:
            continue
        with errors_at(operation), ir.InsertionPoint(operation), operation.location:
            values = rule(operation)
        if values is not None:
            replace(operation, values)


Rule = Callable[[ir.Operation], Sequence[ir.Value] | None]
RULES: Registry[str, Rule] = Registry("decomposition")
decomposes = RULES.register
"""Register a rule: it takes an operation and returns the values of its results, or None to leave it as it is."""
DYNAMIC = ir.ShapedType.get_dynamic_size()


@decomposes("tensor.generate")
def _generate(operation: ir.Operation) -> Sequence[ir.Value]:
    kind = operation.results[0].type
    out = tensor.empty(mixed_sizes(kind, list(operation.operands)), kind.element_type)
    return [generic_of_region(operation.regions[0].blocks[0], out)]


@decomposes("tensor.pad")
def _pad(operation: ir.Operation) -> Sequence[ir.Value] | None:
    """Decompose paddings by a computed value or of negative widths; later stages lower the others better."""
    source, kind = operation.operands[0], operation.results[0].type
    block = operation.regions[0].blocks[0]
    low, high = (list(operation.attributes[f"static_{name}"]) for name in ("low", "high"))
    *inner, end = (inner.operation for inner in block.operations)
    is_one_number = (
        all(operation.name == "arith.constant" for operation in inner) and end.operands[0] not in block.arguments
    )
    if DYNAMIC in (*low, *high, *kind.shape, *source.type.shape):
        return None
    if is_one_number and min([0, *low, *high]) >= 0:
        return None
    if 0 in source.type.shape:
        return [generic_of_region(block, tensor.empty(kind.shape, kind.element_type))]

    def choose(indices: Sequence[ir.Value], padding: ir.Value) -> ir.Value:
        is_inside, positions = literal(ir.IntegerType.get_signless(1), 1), []
        for index, offset, size in zip(indices, low, source.type.shape, strict=True):
            position = arith.subi(index, index_constant(offset))
            # Compared as unsigned, an index before the tensor is out of bounds, too.
            is_inside = arith.andi(is_inside, compare("ult", position, index_constant(size)))
            positions.append(arith.maxsi(arith.minsi(position, index_constant(size - 1)), index_constant(0)))
        return arith.select(is_inside, tensor.extract(source, positions), padding)

    return [generic_of_region(block, tensor.empty(kind.shape, kind.element_type), choose)]


@decomposes("linalg.pack")
def _pack(operation: ir.Operation) -> Sequence[ir.Value] | None:
    source, kind = operation.operands[0], operation.results[0].type
    tiles = _tiles(operation)
    if tiles is None or DYNAMIC in (*kind.shape, *source.type.shape):
        return None
    tiled_axes, order = list(operation.attributes["inner_dims_pos"]), _outer_order(operation, source.type.rank)
    padded_shape = list(source.type.shape)
    for axis, tile in zip(tiled_axes, tiles, strict=True):
        padded_shape[axis] = kind.shape[order.index(axis)] * tile
    if padded_shape != list(source.type.shape):
        source = _padded(source, padded_shape, operation)
    loops = [ir.AffineDimExpr.get(loop) for loop in range(kind.rank)]
    into = [loops[order.index(axis)] for axis in range(source.type.rank)]
    for position, (axis, tile) in enumerate(zip(tiled_axes, tiles, strict=True)):
        into[axis] = into[axis] * tile + loops[source.type.rank + position]
    mapping = ir.AffineMap.get(kind.rank, 0, into)
    return [elements(kind, [(source, mapping)], lambda _, element: element[0])]


def _padded(source: ir.Value, shape: Sequence[int], operation: ir.Operation) -> ir.Value:
    has_number = list(operation.attributes["operandSegmentSizes"])[2]
    element = operation.operands[2] if has_number else literal(source.type.element_type, 0)
    kind = ir.RankedTensorType.get(shape, source.type.element_type)
    high = [padded_size - size for padded_size, size in zip(shape, source.type.shape, strict=True)]
    return padded(source, kind, [0] * kind.rank, high, element)


@decomposes("linalg.unpack")
def _unpack(operation: ir.Operation) -> Sequence[ir.Value] | None:
    source, kind = operation.operands[0], operation.results[0].type
    tiles = _tiles(operation)
    if tiles is None or DYNAMIC in (*kind.shape, *source.type.shape):
        return None
    tiled_axes, order = list(operation.attributes["inner_dims_pos"]), _outer_order(operation, kind.rank)
    loops = [ir.AffineDimExpr.get(loop) for loop in range(kind.rank)]
    tile_of = dict(zip(tiled_axes, tiles, strict=True))
    outer = [ir.AffineExpr.get_floor_div(loops[axis], tile_of[axis]) if axis in tile_of else loops[axis]
             for axis in order]  # fmt: skip
    inner = [ir.AffineExpr.get_mod(loops[axis], tile) for axis, tile in tile_of.items()]
    mapping = ir.AffineMap.get(kind.rank, 0, [*outer, *inner])
    return [elements(kind, [(source, mapping)], lambda _, element: element[0])]


def _tiles(operation: ir.Operation) -> list[int] | None:
    tiles = list(operation.attributes["static_inner_tiles"])
    return None if DYNAMIC in tiles else tiles


def _outer_order(operation: ir.Operation, rank: int) -> list[int]:
    permutation = list(operation.attributes["outer_dims_perm"]) if "outer_dims_perm" in operation.attributes else []
    return permutation or list(range(rank))


@decomposes("tensor.gather")
def _gather(operation: ir.Operation) -> Sequence[ir.Value] | None:
    source, coordinates = operation.operands
    kind, axes = operation.results[0].type, list(operation.attributes["gather_dims"])
    if not kind.has_static_shape or not source.type.has_static_shape:
        return None
    batch = coordinates.type.rank - 1
    slice_axes = _kept_axes(source.type, axes, kind.rank - batch)

    def read(indices: Sequence[ir.Value], _: Sequence[ir.Value]) -> ir.Value:
        position = dict(zip(axes, _coordinates(coordinates, indices[:batch], len(axes)), strict=True))
        for axis, index in zip(slice_axes, indices[batch:], strict=True):
            position[axis] = position.get(axis, index)
        return tensor.extract(source, [position[axis] for axis in range(source.type.rank)])

    return [elements(kind, [], read)]


@decomposes("tensor.scatter")
def _scatter(operation: ir.Operation) -> Sequence[ir.Value] | None:
    source, target, coordinates = operation.operands
    axes = list(operation.attributes["scatter_dims"])
    if not all(operand.type.has_static_shape for operand in (source, target, coordinates)):
        return None
    batch = coordinates.type.rank - 1
    slice_axes = _kept_axes(target.type, axes, source.type.rank - batch)

    def write(indices: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        position = dict(zip(axes, _coordinates(coordinates, indices[:batch], len(axes)), strict=True))
        for axis, index in zip(slice_axes, indices[batch:], strict=True):
            position[axis] = position.get(axis, index)
        target_indices = [position[axis] for axis in range(target.type.rank)]
        return [tensor.insert(tensor.extract(source, indices), carried[0], target_indices)]

    return loop_nest(list(source.type.shape), [target], write)


def _kept_axes(indexed: ir.RankedTensorType, axes: Sequence[int], rank: int) -> list[int]:
    """Return the axes that a gathered slice keeps: all of them, with those of `axes` of size 1, or all but these."""
    every = list(range(indexed.rank))
    return every if rank == indexed.rank else [axis for axis in every if axis not in axes]


def _coordinates(indices: ir.Value, batch: Sequence[ir.Value], count: int) -> list[ir.Value]:
    columns = [tensor.extract(indices, [*batch, index_constant(column)]) for column in range(count)]
    return list(map(cast_to_index, columns))


@decomposes("tensor.bitcast")
def _bitcast(operation: ir.Operation) -> Sequence[ir.Value] | None:
    source, kind = operation.operands[0], operation.results[0].type
    signed = (
        isinstance(kind, ir.IntegerType) and not kind.is_signless
        for kind in (source.type.element_type, kind.element_type)
    )
    if not kind.has_static_shape or not source.type.has_static_shape or any(signed):
        return None
    identity = ir.AffineMap.get_identity(kind.rank)
    return [elements(kind, [(source, identity)], lambda _, element: arith.bitcast(kind.element_type, element[0]))]


@decomposes("tensor.reshape")
def _reshape(operation: ir.Operation) -> Sequence[ir.Value] | None:
    source, kind = operation.operands[0], operation.results[0].type
    ranked = isinstance(kind, ir.RankedTensorType) and isinstance(source.type, ir.RankedTensorType)
    if not ranked or not kind.has_static_shape or not source.type.has_static_shape:
        return None
    flat = ir.RankedTensorType.get([prod(kind.shape)], kind.element_type)
    if source.type.rank == 0:
        source = tensor.expand_shape(flat, source, [], [], [1])
    elif source.type.rank > 1:
        source = tensor.collapse_shape(flat, source, [list(range(source.type.rank))])
    if kind.rank == 0:
        return [tensor.collapse_shape(kind, source, [])]
    if kind.rank == 1:
        return [source]
    return [tensor.expand_shape(kind, source, [list(range(kind.rank))], [], list(kind.shape))]


@decomposes("tensor.rank")
def _rank(operation: ir.Operation) -> Sequence[ir.Value] | None:
    kind = operation.operands[0].type
    return [index_constant(kind.rank)] if isinstance(kind, ir.RankedTensorType) else None


@decomposes("bufferization.alloc_tensor")
def _allocation(operation: ir.Operation) -> Sequence[ir.Value]:
    kind = operation.results[0].type
    dynamic, copied, _ = list(operation.attributes["operandSegmentSizes"])
    if copied:
        return [operation.operands[dynamic]]
    return [tensor.empty(mixed_sizes(kind, list(operation.operands)[:dynamic]), kind.element_type)]


@decomposes("affine.min", "affine.max")
def _affine_extreme(operation: ir.Operation) -> Sequence[ir.Value]:
    mapping, index = operation.attributes["map"].value, ir.IndexType.get()
    values = []
    for expression in mapping.results:
        single = ir.AffineMapAttr.get(ir.AffineMap.get(mapping.n_dims, mapping.n_symbols, [expression]))
        applied = ir.Operation.create("affine.apply", [index], list(operation.operands), {"map": single})
        values.append(applied.result)
    return [reduce(arith.minsi if operation.name == "affine.min" else arith.maxsi, values)]


_INDEX_ARITHMETIC = {
    "add": arith.addi, "sub": arith.subi, "mul": arith.muli, "divs": arith.divsi, "divu": arith.divui,
    "ceildivs": arith.ceildivsi, "ceildivu": arith.ceildivui, "floordivs": arith.floordivsi, "rems": arith.remsi,
    "remu": arith.remui, "maxs": arith.maxsi, "maxu": arith.maxui, "mins": arith.minsi, "minu": arith.minui,
    "shl": arith.shli, "shrs": arith.shrsi, "shru": arith.shrui, "and": arith.andi, "or": arith.ori, "xor": arith.xori,
}  # fmt: skip


@decomposes(*(f"index.{name}" for name in _INDEX_ARITHMETIC))
def _index_arithmetic(operation: ir.Operation) -> Sequence[ir.Value]:
    return [_INDEX_ARITHMETIC[operation.name.removeprefix("index.")](*operation.operands)]


@decomposes("index.constant", "index.bool.constant", "index.sizeof")
def _index_constant(operation: ir.Operation) -> Sequence[ir.Value]:
    if operation.name == "index.sizeof":
        return [index_constant(64)]
    return [arith.constant(operation.results[0].type, operation.attributes["value"].value)]


@decomposes("index.casts", "index.castu")
def _index_cast(operation: ir.Operation) -> Sequence[ir.Value]:
    cast = arith.index_cast if operation.name == "index.casts" else arith.index_castui
    return [cast(operation.results[0].type, operation.operands[0])]


@decomposes("index.cmp")
def _index_comparison(operation: ir.Operation) -> Sequence[ir.Value]:
    predicate = str(operation.attributes["pred"]).rpartition("(")[2].rstrip(")>").rpartition(" ")[2]
    return [compare(predicate, *operation.operands)]
