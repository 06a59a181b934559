"""Lower branches between blocks, `affine`, and parallel loops to `scf.for`, `scf.while` and `scf.if`; poison to 0.

scf.index_switch %i case 2 { A } default { B }   ──►   scf.if %i == 2 { A } else { B }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.locations import errors_at, span_of
from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, operations_named, scf, tensor
from mlirtri.dialect.scalar.complex_parts import constant as complex_constant
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.cloning import clone_all, inlined, replace
from mlirtri.lowering.mlir_common.index_bounds import bounds_of
from mlirtri.lowering.mlir_common.index_values import index_constant, index_value
from mlirtri.lowering.mlir_common.reading import width_of
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

ENDLESS = 2**62
"""A trip count that no run finishes: tools write it for a loop whose condition they have lost."""
LIFT = (
    Pass("func.func(lift-cf-to-scf)", "branches between blocks become loops and branches with regions"),
    Pass("canonicalize", "unused loop-carried values disappear"),
)
LOWER = (
    Pass("lower-affine", "affine loops, branches and applied maps become scf and arith"),
    Pass("canonicalize", "regions that run once are inlined"),
)
SHAPES = (
    Pass("canonicalize", "shapes of known sizes are constants"),
    Pass("convert-shape-to-std", "arithmetic on shapes becomes arith and tensor"),
    Pass("canonicalize", "dead operations disappear"),
)
STRUCTURED = (
    Pass("func.func(convert-elementwise-to-linalg)", "arithmetic on whole tensors in loops becomes structured"),
    Pass("canonicalize", "loops carry and yield no unused values"),
    Pass("cse", "nor equal values twice"),
    Pass("canonicalize", "fewer values are carried then"),
)
Values = list[ir.Value]
RULES: Registry[str, Callable[[ir.Operation], Values]] = Registry("lowering of control flow")


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Lower all control flow of `module`, in place; raises `UnsupportedOperationError`, `PassFailedError`."""
    if any(len(region.blocks) > 1 for operation in all_operations(module) for region in operation.regions):
        run_passes(module, LIFT, context)
    names = {operation.name for operation in all_operations(module)}
    if any(name.startswith("shape.") for name in names):
        run_passes(module, SHAPES, context)
    if any(name.startswith("affine.") or name == "scf.execute_region" for name in names):
        run_passes(module, LOWER, context)
    # Inner operations first: the rule of an outer one moves its regions as they are then.
    for operation in reversed(all_operations(module)):
        if (rule := RULES.get(operation.name)) is None:
            continue
        with errors_at(operation), ir.InsertionPoint(operation), operation.location:
            results = rule(operation)
        replace(operation, results)
    for loop in operations_named(module, "scf.for"):
        with ir.InsertionPoint(loop), loop.location:
            _count_by_index(loop)
            _require_positive_step(loop)
        _refuse_endless(loop)
    if any(name.startswith("scf.") for name in names):
        run_passes(module, STRUCTURED, context)


def _count_by_index(loop: ir.Operation) -> None:
    """Count by a signed `index`: upstream's loops let a narrower counter wrap before it reaches its bound."""
    block, index = loop.regions[0].blocks[0], ir.IndexType.get()
    counter = block.arguments[0]
    kind, is_unsigned = counter.type, "unsignedCmp" in loop.attributes
    if is_unsigned:
        del loop.attributes["unsignedCmp"]
    if isinstance(kind, ir.IntegerType):
        for position in range(3):
            cast = arith.index_castui if is_unsigned else arith.index_cast
            loop.operands[position] = cast(index, loop.operands[position])
        counter.set_type(index)
        with ir.InsertionPoint.at_block_begin(block):
            shown = arith.index_cast(kind, counter)
        counter.replace_all_uses_except(shown, shown.owner.operation)
    if is_unsigned and width_of(kind) == 64:
        for position in (0, 1):
            message = "a bound of an unsigned loop is 2**63 or more"
            loop.operands[position] = _at_least(index_constant(0), loop.operands[position], message)


def _at_least(least: ir.Value, value: ir.Value, message: str) -> ir.Value:
    """Assert that an integer is not smaller than a constant, and return the larger of both."""
    is_right = arith.cmpi(arith.CmpIPredicate.sge, value, least)
    ir.Operation.create("cf.assert", operands=[is_right], attributes={"msg": ir.StringAttr.get(message)})
    return arith.maxsi(value, least)


def _require_positive_step(loop: ir.Operation) -> None:
    """Refuse or guard steps that are not positive: they divide by zero, or the loop never ends."""
    step, message = loop.operands[2], "the step of a loop is not positive"
    bounds = bounds_of(step)
    if bounds is not None and bounds[1] <= 0:
        raise UnsupportedOperationError(message, span_of(loop.location), help="count upwards, and derive what falls")
    if bounds is not None and bounds[0] > 0:
        return
    loop.operands[2] = _at_least(index_constant(1), step, message)


def _refuse_endless(loop: ir.Operation) -> None:
    lower, upper, step = (bounds_of(operand) for operand in list(loop.operands)[:3])
    if None in (lower, upper, step) or step[1] <= 0 or (upper[0] - lower[1]) // step[1] < ENDLESS:
        return
    raise UnsupportedOperationError(
        f"a loop of {(upper[0] - lower[1]) // step[1]} iterations does not end",
        span_of(loop.location),
        help="the tool that wrote this program has lost the condition of a loop: write it with a known trip count",
    )


@RULES.register("scf.forall")
def _forall(operation: ir.Operation) -> Values:
    (lower, upper, steps), outputs = _bounds(operation)
    block = operation.regions[0].blocks[0]

    def body(indices: Values, carried: Values) -> Values:
        *operations, last = [inner.operation for inner in block.operations]
        values = dict(zip(block.arguments, [*indices, *carried], strict=True))
        clone_all(operations, values)
        content = dict(zip(list(block.arguments)[len(indices) :], carried, strict=True))
        for insertion in [inner.operation for inner in last.regions[0].blocks[0].operations]:
            _insert(insertion, content, values)
        return list(content.values())

    return _sequential_loops(lower, upper, steps, outputs, body)


def _insert(insertion: ir.Operation, content: dict[ir.Value, ir.Value], values: dict[ir.Value, ir.Value]) -> None:
    source, target, *positions = insertion.operands
    inserted = ir.Operation.create(
        "tensor.insert_slice",
        results=[target.type],
        operands=[
            values.get(source, source),
            content[target],
            *(values.get(position, position) for position in positions),
        ],
        attributes={name: insertion.attributes[name] for name in insertion.attributes},
    )
    content[target] = inserted.results[0]


def _bounds(operation: ir.Operation) -> tuple[list[Values], Values]:
    counts, operands = list(operation.attributes["operandSegmentSizes"]), list(operation.operands)
    groups = []
    for count, name in zip(counts, ("staticLowerBound", "staticUpperBound", "staticStep"), strict=False):
        dynamic, operands = iter(operands[:count]), operands[count:]
        static = list(operation.attributes[name])
        unknown = ir.ShapedType.get_dynamic_size()
        groups.append([next(dynamic) if size == unknown else index_constant(size) for size in static])
    return groups, operands


@RULES.register("scf.parallel")
def _parallel(operation: ir.Operation) -> Values:
    count = operation.attributes["operandSegmentSizes"][0]
    operands, block = list(operation.operands), operation.regions[0].blocks[0]
    lower, upper, steps = (operands[group * count : (group + 1) * count] for group in range(3))

    def body(indices: Values, carried: Values) -> Values:
        *operations, last = [inner.operation for inner in block.operations]
        values = dict(zip(block.arguments, indices, strict=True))
        clone_all(operations, values)
        elements = [values.get(operand, operand) for operand in last.operands]
        combined = zip(last.regions, carried, elements, strict=True)
        return [
            inlined(region.blocks[0], [accumulator, element], values)[0] for region, accumulator, element in combined
        ]

    return _sequential_loops(lower, upper, steps, operands[3 * count :], body)


def _sequential_loops(
    lower: Values, upper: Values, steps: Values, carried: Values, body: Callable[[Values, Values], Values]
) -> Values:
    def around(indices: Values, carried: Values) -> Values:
        loop = len(indices)
        if loop == len(lower):
            return body(indices, carried)
        for_op = scf.ForOp(index_value(lower[loop]), upper[loop], steps[loop], carried)
        with ir.InsertionPoint(for_op.body):
            scf.YieldOp(around([*indices, for_op.induction_variable], list(for_op.inner_iter_args)))
        return list(for_op.results)

    return around([], carried)


@RULES.register("scf.index_switch")
def _switch(operation: ir.Operation) -> Values:
    cases = list(operation.attributes["cases"])
    default, *regions = operation.regions
    return _chain(operation, list(zip(cases, regions, strict=True)), default)


def _chain(operation: ir.Operation, cases: Sequence[tuple[int, ir.Region]], default: ir.Region) -> Values:
    if not cases:
        return inlined(default.blocks[0], [])
    (case, region), *others = cases
    is_this = arith.cmpi(arith.CmpIPredicate.eq, operation.operands[0], index_constant(case))
    branch = scf.IfOp(is_this, [result.type for result in operation.results], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp(inlined(region.blocks[0], []))
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp(_chain(operation, others, default))
    return list(branch.results)


@RULES.register("scf.execute_region")
def _region(operation: ir.Operation) -> Values:
    if len(operation.regions[0].blocks) > 1:
        raise UnsupportedOperationError("scf.execute_region with branches between blocks")
    block = operation.regions[0].blocks[0]
    for inner in [inner.operation for inner in block.operations][:-1]:
        inner.move_before(operation)
    return list(terminator(block).operands)


@RULES.register("ub.poison")
def _poison(operation: ir.Operation) -> Values:
    """Replace poison by 0: no program may depend on its value."""
    return [_zero(operation.results[0].type)]


def _zero(type_: ir.Type) -> ir.Value:
    if isinstance(type_, ir.ComplexType):
        return complex_constant(0.0, 0.0, type_)
    if isinstance(type_, ir.RankedTensorType) and type_.has_static_shape:
        return tensor.splat(type_, _zero(type_.element_type), [])
    if isinstance(type_, (ir.FloatType, ir.IntegerType, ir.IndexType)):
        return arith.constant(type_, 0.0 if isinstance(type_, ir.FloatType) else 0)
    raise UnsupportedOperationError(f"poison of type {type_}")
