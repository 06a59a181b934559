"""Rules of the tensor dialect: shapes, slices, padding, single elements.

Reshapes and concatenation become Relax operators, slices and padding PrimFuncs that copy; all of them fuse.
Refuses offsets, sizes and strides that are only known at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.locations import name_of, spans_in
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.bridge.builder import RULES, RelaxBuilder, Splat, Uninitialized, rule
from mlirtri.lowering.mlir_common.reading import dtype_of, shape_of, static_integers
from mlirtri.lowering.tir.primfunc import LoopAxis, Names, Statements, buffer, build, load, store
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.toolchain.tvm_names import relax, tirx


@rule("tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape")
def _reshape(builder: RelaxBuilder, operation: ir.Operation) -> None:
    source, result = operation.operands[0], operation.results[0]
    shape = shape_of(result.type)
    meaning = builder.meaning(source)
    if isinstance(meaning, Splat):
        return builder.write(result, Splat(meaning.element, shape))
    if isinstance(meaning, Uninitialized):
        return builder.write(result, Uninitialized(shape, meaning.dtype))
    if any(isinstance(size, int) and size == 0 for size in shape):
        # R.reshape reads a size of 0 as the size that the axis had before.
        return builder.write(result, Uninitialized(shape, dtype_of(result.type)))
    return builder.emit(operation, relax.op.reshape(meaning, shape))


@rule("tensor.cast")
def _cast(builder: RelaxBuilder, operation: ir.Operation) -> None:
    builder.write(operation.results[0], builder.meaning(operation.operands[0]))


@rule("tensor.concat")
def _concatenate(builder: RelaxBuilder, operation: ir.Operation) -> None:
    axis = operation.attributes["dim"].value
    parts = [operand for operand in operation.operands if shape_of(operand.type)[axis] != 0] or [operation.operands[0]]
    if len(parts) == 1:
        return builder.write(operation.results[0], builder.meaning(parts[0]))
    return builder.emit(operation, relax.op.concat(builder.read_all(parts), axis))


@rule("tensor.extract_slice")
def _extract_slice(builder: RelaxBuilder, operation: ir.Operation) -> None:
    source, result = operation.operands[0], operation.results[0]
    offsets, sizes, strides = _slice_numbers(operation)
    kept = _kept_dimensions(sizes, shape_of(result.type))

    def element(variables: Sequence, read):
        position = iter(variables)
        steps = [next(position) if is_kept else index(0) for is_kept in kept]
        return read(0, [_affine(*bounds) for bounds in zip(steps, offsets, strides, strict=True)])

    _emit_copy(builder, operation, "slice", [source], element)


@rule("tensor.insert_slice")
def _insert_slice(builder: RelaxBuilder, operation: ir.Operation) -> None:
    source, target = operation.operands[:2]
    offsets, sizes, strides = _slice_numbers(operation)
    kept = _kept_dimensions(sizes, shape_of(source.type))

    def element(variables: Sequence, read):
        in_slice, position = [], []
        for variable, bounds, is_kept, size in zip(
            variables, zip(offsets, sizes, strides, strict=True), kept, shape_of(target.type), strict=True
        ):
            conditions, step = _within(variable, bounds, size)
            in_slice += conditions
            position += [step] if is_kept else []
        return _choose(in_slice, read(0, position), read(1, variables))

    _emit_copy(builder, operation, "insert_slice", [source, target], element)


@rule("tensor.pad")
def _pad(builder: RelaxBuilder, operation: ir.Operation) -> None:
    source = operation.operands[0]
    low, _ = static_integers(operation, "static_low"), static_integers(operation, "static_high")
    *constants, terminator = [view.operation for view in operation.regions[0].blocks[0].operations]
    value = terminator.operands[0]
    for constant in constants:
        if constant.name == "arith.constant":
            RULES["arith.constant"](builder, constant)
    padded = shape_of(operation.results[0].type)

    def element(variables: Sequence, read):
        in_source, position = [], []
        bounds = zip(low, shape_of(source.type), [1] * len(low), strict=True)
        for variable, dimension, size in zip(variables, bounds, padded, strict=True):
            conditions, step = _within(variable, dimension, size)
            in_source += conditions
            position.append(step)
        return _choose(in_source, read(0, position), read(1, []))

    _emit_copy(builder, operation, "pad", [source, value], element)


@rule("tensor.extract")
def _extract(builder: RelaxBuilder, operation: ir.Operation) -> None:
    source, *indices = operation.operands
    if (element := builder.literal(source)) is not None:
        return builder.write(operation.results[0], Splat(element, ()))
    if not indices:
        return builder.write(operation.results[0], builder.meaning(source))
    return _emit_copy(
        builder, operation, "extract", [source, *indices],
        lambda _, read: read(0, [read(number, []) for number in range(1, len(indices) + 1)]),
    )  # fmt: skip


@rule("tensor.from_elements")
def _from_elements(builder: RelaxBuilder, operation: ir.Operation) -> None:
    elements, result = list(operation.operands), operation.results[0]
    shape = shape_of(result.type)
    if not shape:
        return builder.write(result, builder.meaning(elements[0]))
    parts = [relax.op.reshape(element, (1,)) for element in builder.read_all(elements)]
    flat = relax.op.concat(parts, 0) if len(parts) > 1 else parts[0]
    return builder.emit(operation, flat if len(shape) == 1 else relax.op.reshape(flat, shape))


@rule("tensor.splat")
def _splat(builder: RelaxBuilder, operation: ir.Operation) -> None:
    source, result = operation.operands[0], operation.results[0]
    if (element := builder.literal(source)) is not None:
        return builder.write(result, Splat(element, shape_of(result.type)))
    return builder.emit(operation, relax.op.broadcast_to(builder.read(source), shape_of(result.type)))


@rule("tensor.dim")
def _dimension(builder: RelaxBuilder, operation: ir.Operation) -> None:
    source, position = operation.operands
    number = builder.literal(position)
    if number is None:
        raise UnsupportedOperationError("tensor.dim of a dimension that is only known at run time")
    builder.write(operation.results[0], Splat(index(shape_of(source.type)[int(number)]), ()))


def _slice_numbers(operation: ir.Operation) -> list[list[int]]:
    """Return the static offsets, sizes and strides of a slice."""
    return [static_integers(operation, f"static_{name}") for name in ("offsets", "sizes", "strides")]


def _kept_dimensions(sizes: Sequence[int], reduced: Sequence[int]) -> list[bool]:
    """Return the dimensions that a rank-reduced slice keeps: from the left, those that match (as MLIR infers it)."""
    kept, matched = [], 0
    for size in sizes:
        matches = matched < len(reduced) and reduced[matched] == size
        kept.append(matches)
        matched += matches
    return kept


def _affine(variable, offset: int, stride: int):
    scaled = variable if stride == 1 else variable * index(stride)
    return scaled if offset == 0 else scaled + index(offset)


def _within(variable, bounds: tuple[int, int, int], extent: int) -> tuple[list, object]:
    """Return the conditions for `variable` to be in the slice (offset, size, stride), and its index in it."""
    offset, size, stride = bounds
    if (offset, size, stride) == (0, extent, 1):
        return [], variable
    distance = variable if offset == 0 else variable - index(offset)
    conditions = []
    if offset > 0:
        conditions.append(tirx.GE(variable, index(offset)))
    if offset + (size - 1) * stride + 1 < extent or size == 0:
        conditions.append(tirx.LT(distance, index((size - 1) * stride + 1)))
    if stride == 1:
        return conditions, distance
    conditions.append(tirx.EQ(tirx.floormod(distance, index(stride)), index(0)))
    return conditions, tirx.floordiv(distance, index(stride))


def _choose(conditions: list, value, otherwise):
    if not conditions:
        return value
    condition = conditions[0]
    for other in conditions[1:]:
        condition = tirx.And(condition, other)
    # Not a Select: outside of the slice there is nothing to load.
    return tirx.if_then_else(condition, value, otherwise)


def _emit_copy(builder: RelaxBuilder, operation: ir.Operation, name: str, values: Sequence[ir.Value], element) -> None:
    """Bind a PrimFunc with elements ``element(variables, read)``; ``read(n, indices)`` reads the n-th value."""
    result = operation.results[0]
    shape = shape_of(result.type)
    names = Names()
    output = buffer(names.unique(name_of(operation.location) or "out"), shape, dtype_of(result.type))
    inputs = {number: buffer(names.unique("in"), shape_of(value.type), dtype_of(value.type))
              for number, value in enumerate(values) if builder.literal(value) is None}  # fmt: skip

    def read(number: int, indices: Sequence):
        return load(inputs[number], indices) if number in inputs else builder.literal(values[number])

    def statements(variables: list) -> Statements:
        indices = variables[: len(shape)]
        return Statements(store(output, element(indices, read), indices))

    axes = [LoopAxis(size) for size in shape]
    function = build(name, list(inputs.values()), [output], axes, statements, spans_in(operation))
    builder.call(operation, function, name, [values[number] for number in inputs])
