"""Guard operations whose sizes and offsets are known at run time only: an assertion, and bounds that always hold.

The conditions on all other sizes are checked before the call (`lowering/sizes/conditions.py`).

    extract_slice %x[%i] [4] [1]     ──►   cf.assert 0 <= %i <= dim - 4; extract_slice %x[clamped %i] [4] [1]
    linalg.add ins(%slice, %y)       ──►   cf.assert %match; scf.if %match { linalg.add … } else { its outs }
"""

from __future__ import annotations

from functools import reduce

from mlirtri.dialect.bindings.mlir import arith, func, ir, operations_named, public_functions, scf, tensor
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_bounds import bounds_of
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import defined_by, kept_axes
from mlirtri.lowering.sizes import loop_sizes
from mlirtri.lowering.sizes.conditions import EQUAL, conditions_of, dim, slice_of
from mlirtri.lowering.sizes.infer_size_program import size_values_of

NAMES = ("tensor.extract_slice", "tensor.insert_slice")
SLICE_MESSAGE = "a slice is out of bounds"
Values = list[ir.Value]


def guard_slices(module: ir.Module) -> None:
    """Guard the slices of `module`, in place."""
    slices = _dynamic_slices(module)
    if not slices:
        return
    inferred = size_values_of(
        module,
        lambda function: [value for operation in _dynamic_slices(function) for value in _slice_operands(operation)],
    )
    position = 0
    for operation in slices:
        count = len(_slice_operands(operation))
        is_known = all(map(inferred.is_of_sizes, range(position, position + count)))
        position += count
        if not is_known or not _is_at_top(operation):
            with ir.InsertionPoint(operation), operation.location:
                _guard_slice(operation)


def _dynamic_slices(module: ir.Module | func.FuncOp) -> list[ir.Operation]:
    slices = operations_named(module, *NAMES)
    return [operation for operation in slices if len(operation.operands) > _tensor_operands(operation)]


def _tensor_operands(operation: ir.Operation) -> int:
    return 2 if operation.name == "tensor.insert_slice" else 1


def _slice_operands(operation: ir.Operation) -> Values:
    return list(operation.operands)[_tensor_operands(operation) :] if _is_at_top(operation) else []


def _is_at_top(operation: ir.Operation) -> bool:
    return operation.parent.name == "func.func"


def _guard_slice(operation: ir.Operation) -> None:
    sliced = operation.operands[_tensor_operands(operation) - 1]
    offsets, sizes, strides = slice_of(operation)
    static_sizes, static_offsets = (list(operation.attributes[f"static_{name}"]) for name in ("sizes", "offsets"))
    unknown = ir.ShapedType.get_dynamic_size()
    clamped_offsets, clamped_sizes = list(offsets), list(sizes)
    for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        end = dim(sliced, axis)
        if static_sizes[axis] == unknown:
            if static_offsets[axis] != 0:
                clamped_offsets[axis] = _clamped(offset, end)
                end = arith.subi(end, clamped_offsets[axis])
            available = end if operation.attributes["static_strides"][axis] == 1 else arith.ceildivsi(end, stride)
            clamped_sizes[axis] = _clamped(size, available)
        elif static_offsets[axis] == unknown:
            reach = arith.addi(arith.muli(arith.subi(size, index_constant(1)), stride), index_constant(1))
            if not _is_inside(offset, sliced.type.shape[axis], static_sizes[axis]):
                clamped_offsets[axis] = _clamped(offset, arith.subi(end, reach) if static_sizes[axis] else end)
    pairs = _shorten_source(operation, static_sizes, clamped_sizes) if operation.name == "tensor.insert_slice" else []
    _assert_same([*pairs, *zip(offsets, clamped_offsets, strict=True), *zip(sizes, clamped_sizes, strict=True)])
    for size, clamped_size in zip(sizes, clamped_sizes, strict=True):
        _replace_size(size, clamped_size, operation)
    _set_operands(operation, (static_offsets, clamped_offsets), (static_sizes, clamped_sizes), strides)


def _is_inside(offset: ir.Value, length: int, size: int) -> bool:
    bounds = bounds_of(offset)
    return length >= 0 and bounds is not None and bounds.low >= 0 and bounds.high + size <= length


def _clamped(value: ir.Value, largest: ir.Value) -> ir.Value:
    if defined_by(value, "tensor.dim") is not None:
        return arith.minsi(value, largest)
    return arith.maxsi(arith.minsi(value, largest), index_constant(0))


def _shorten_source(
    operation: ir.Operation, static_sizes: list[int], clamped: Values
) -> list[tuple[ir.Value, ir.Value]]:
    """Insert only the part of the source that fits; return pairs of sizes that are equal if all of it does."""
    source = operation.operands[0]
    axes = kept_axes(static_sizes, source.type.rank) if source.type.rank < len(static_sizes) else range(len(clamped))
    for position, axis in enumerate(axes):
        if source.type.shape[position] < 0:
            clamped[axis] = _clamped(clamped[axis], dim(source, position))
    shape = [size if size < 0 else static_sizes[axis] for size, axis in zip(source.type.shape, axes, strict=True)]
    if all(size >= 0 for size in shape):
        return []
    zero, one_step = [0] * len(shape), [1] * len(shape)
    sizes = [clamped[axis] for position, axis in enumerate(axes) if shape[position] < 0]
    operation.operands[0] = tensor.extract_slice(source.type, source, [], sizes, [], zero, shape, one_step)
    return [
        (dim(source, position), clamped[axis]) for position, axis in enumerate(axes) if source.type.shape[position] < 0
    ]


def _replace_size(size: ir.Value, clamped: ir.Value, operation: ir.Operation) -> None:
    """Let later users of a slice's size see the clamped one, also where the assertion is going to fail."""
    if size == clamped:
        return
    for use in list(size.uses):
        user = use.owner.operation
        if user.block == operation.block and operation.is_before_in_block(user):
            user.operands[use.operand_number] = clamped


def _assert_same(pairs: list[tuple[ir.Value, ir.Value]]) -> None:
    _assert_all([arith.cmpi(arith.CmpIPredicate.eq, x, y) for x, y in pairs if x != y], SLICE_MESSAGE)


def _assert_all(conditions: Values, message: str) -> ir.Value | None:
    """Assert that all conditions hold, and return whether they do; None without any."""
    if not conditions:
        return None
    holds = reduce(arith.andi, conditions)
    ir.Operation.create("cf.assert", operands=[holds], attributes={"msg": ir.StringAttr.get(message)})
    return holds


def _set_operands(
    operation: ir.Operation, offsets: tuple[list[int], Values], sizes: tuple[list[int], Values], strides: Values
) -> None:
    unknown = ir.ShapedType.get_dynamic_size()
    groups = [[value for static, value in zip(*group, strict=True) if static == unknown] for group in (offsets, sizes)]
    fixed_strides = list(operation.attributes["static_strides"])
    steps = [value for static, value in zip(fixed_strides, strides, strict=True) if static == unknown]
    fixed = list(operation.operands)[: _tensor_operands(operation)]
    replacement = ir.Operation.create(
        operation.name,
        results=[operation.results[0].type],
        operands=[*fixed, *groups[0], *groups[1], *steps],
        attributes={name: operation.attributes[name] for name in operation.attributes},
    )
    replace(operation, [replacement.results[0]])


SIZES_MESSAGE = "the sizes of the operands do not match"
PREDICATES = {True: arith.CmpIPredicate.eq, False: arith.CmpIPredicate.sle}


def guard_structured(module: ir.Module) -> bool:
    """Guard all such operations of `module`, in place, and return whether there are any."""
    [function] = public_functions(module)
    operations = loop_sizes.operations_of_unknown_sizes(function)
    for operation in operations:
        with ir.InsertionPoint(operation), operation.location:
            _guard_structured(operation)
    return bool(operations)


def _guard_structured(operation: ir.Operation) -> None:
    conditions = conditions_of(operation)
    compared = [arith.cmpi(PREDICATES[each.relation == EQUAL], each.left, each.right) for each in conditions]
    if (holds := _assert_all(compared, SIZES_MESSAGE)) is None:
        return
    results = list(operation.results)
    branch = scf.IfOp(holds, [result.type for result in results], has_else=True)
    for condition, guarded in zip(results, branch.results, strict=True):
        condition.replace_all_uses_with(guarded)
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp(list(operation.operands)[-len(results) :])
    with ir.InsertionPoint(branch.then_block):
        end = scf.YieldOp(results)
    operation.move_before(end.operation)
