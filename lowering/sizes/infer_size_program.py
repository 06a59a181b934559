"""Infer the size program of a function: its results' sizes, and the conditions on sizes, from its arguments' sizes.

A clone of the module returns the sizes instead of its results; upstream's passes reduce them to the arguments. Sizes
that depend on elements stay unknown: such a condition is left out where the program guards the operation itself, else
refused, and so is a result of such a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations, arith, func, ir, operations_named, public_functions
from mlirtri.errors import Span, UnsupportedOperationError
from mlirtri.lowering.core.size_program import CONSTANT, ELEMENT, SIZE, Condition, SizeProgram, SizeStep
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import CHECK, KEEPS_BOUNDS, SIZES, argument_attributes, result_attributes
from mlirtri.lowering.mlir_common.imperative import updates_of
from mlirtri.lowering.mlir_common.reading import defined_by, definition, is_block_argument
from mlirtri.lowering.sizes import loop_sizes
from mlirtri.lowering.sizes.conditions import EQUAL, NOT_MORE, Requirement, conditions_of, dim
from mlirtri.lowering.sizes.size_reader import SizeReader
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

TO_ARGUMENTS = (
    Pass("canonicalize", "sizes of results become sizes of operands"),
    Pass("cse", "equal sizes are computed once"),
    Pass("resolve-ranked-shaped-type-result-dims", "shapes of results become arithmetic on those of operands"),
    Pass("resolve-shaped-type-result-dims", "the same for operations that reify whole shapes"),
    Pass("canonicalize", "computations of elements are dead"),
    Pass("int-range-optimizations", "sizes are not negative"),
    Pass("canonicalize", "comparisons that are decided fold away"),
    Pass("cse", "equal sizes are computed once"),
    Pass("lower-affine", "affine maps become arithmetic"),
    Pass("canonicalize", "constants fold"),
)
"""The passes that express sizes by those of the arguments."""
TO_COMPARISONS = (
    Pass("cse", "equal sizes are computed once"),
    Pass("canonicalize", "comparisons of a size with itself fold away"),
)
"""The passes that decide comparisons of equal sizes."""
_IN_BODY = "an operation in a loop or a branch"
_IF_NOT_KNOWN = f"{_IN_BODY}, which may not run"
"""The same condition without the predicates of enclosing branches, for where those depend on elements."""
GUARDED = (_IN_BODY, _IF_NOT_KNOWN, "tensor.extract_slice", "tensor.insert_slice", "tensor.extract", "tensor.insert")
"""Operations that the program itself keeps in bounds, whatever the elements are."""


def size_program(module: ir.Module) -> SizeProgram | None:
    """Return the size program of the module's only function; raises `UnsupportedOperationError`."""
    [function] = public_functions(module)
    if is_static(function) and not any(map(_has_dynamic_size, all_operations(module))):
        return None
    requested = _Request([], [], is_guarded=KEEPS_BOUNDS in function.attributes)
    program = _program(size_values_of(module, lambda clone: _ask(clone, requested)), requested)
    return program if program.sizes or program.conditions or not is_static(function) else None


def size_values_of(module: ir.Module, ask: Callable[[func.FuncOp], list[ir.Value]]) -> SizeValues:
    """Express integers inside of the module's only function as arithmetic on the sizes of its arguments.

    `ask` takes the function of a clone, at an insertion point before its terminator, and returns the values to express.
    """
    with module.context, ir.Location.unknown():
        clone = module.operation.clone()
        [function] = public_functions(clone)
        block = function.regions[0].blocks[0]
        end = terminator(block)
        with ir.InsertionPoint(end):
            returned = ask(function)
            func.ReturnOp(returned)
        end.erase()
        kinds = [argument.type for argument in block.arguments], [value.type for value in returned]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
        if "res_attrs" in function.attributes:
            del function.attributes["res_attrs"]
        loop_sizes.rewrite(clone)
        context = CompileContext(function.name.value, as_target("cpu"), keep_passes=False)
        _express(clone, context)
        if not all(is_block_argument(operation.operands[0]) for operation in operations_named(clone, "tensor.dim")):
            # The last folds can leave sizes of tensors that are results.
            _express(clone, context)
        [function] = public_functions(clone)
        block = function.regions[0].blocks[0]
        reader = SizeReader(list(block.arguments))
        returned = list(terminator(block).operands)
        return SizeValues(reader.steps, [reader.step(value) for value in returned], list(map(_span, returned)))


def _express(clone: ir.Module, context: CompileContext) -> None:
    """Express sizes by those of the arguments, in place.

    `lower-affine` promises that products of sizes do not overflow, which `cse` takes for another product.
    """
    run_passes(clone, TO_ARGUMENTS, context)
    none = ir.Attribute.parse("#arith.overflow<none>", clone.context)
    for operation in all_operations(clone):
        if operation.name in ("arith.muli", "arith.addi", "arith.subi") and "overflowFlags" in operation.attributes:
            operation.attributes["overflowFlags"] = none
    run_passes(clone, TO_COMPARISONS, context)


def _span(value: ir.Value) -> Span | None:
    return None if is_block_argument(value) else span_of(value.owner.location)


@dataclass(frozen=True)
class SizeValues:
    """Steps of a size program, and the step of each value asked for (None where it depends on elements)."""

    steps: list[SizeStep]
    values: list[int | None]
    spans: list[Span | None]

    def is_of_sizes(self, position: int) -> bool:
        """Return whether a value depends on sizes alone."""
        pending = [self.values[position]]
        while pending:
            step = pending.pop()
            if step is None or self.steps[step].name == ELEMENT:
                return False
            pending += self.steps[step].operands
        return True


def is_static(function: func.FuncOp) -> bool:
    """Return whether all arguments and results of a function on tensors have static shape."""
    return all(kind.has_static_shape for kind in (*function.type.inputs, *function.type.results))


def _has_dynamic_size(operation: ir.Operation) -> bool:
    if operation.name == "tensor.pad" and len(operation.operands) > 1:
        return True
    kinds = [value.type for value in operation.results]
    return any(isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape for kind in kinds)


@dataclass(frozen=True)
class _Request:
    """The meaning of the values asked for, in order: sizes, then pairs of conditions, then checks."""

    sizes: list[tuple[int, int]]
    conditions: list[tuple[str, str, Span | None]]
    checks: list[tuple[str, Span | None]] = field(default_factory=list)
    is_guarded: bool = False
    """Whether the frontend keeps all operations in bounds whose sizes depend on elements."""


def _ask(function: func.FuncOp, requested: _Request) -> list[ir.Value]:
    """Return all values of the size program, emitted before the terminator; `requested` records their meaning."""
    block = function.regions[0].blocks[0]
    *operations, end = [operation.operation for operation in block.operations]
    results = list(end.operands)
    returned: list[ir.Value] = []
    for result, value in enumerate(results):
        for axis, size in enumerate(value.type.shape):
            if size < 0:
                requested.sizes.append((result, axis))
                returned.append(dim(value, axis))
    for left, right, name in _equal_by_name(function):
        requested.conditions.append((EQUAL, f"the signature (size {name!r})", None))
        returned += [left, right, arith.cmpi(_PREDICATES[EQUAL], left, right)]
    for requirement in _kept_sizes(function, results):
        returned += _compared(requirement, "an assignment", requested)
    for condition in (condition for operation in operations for condition in conditions_of(operation)):
        returned += _compared(condition, condition.operation.name, requested)
    for condition, why in _conditions_in_regions(function):
        returned += _compared(condition, why, requested)
    for result, attributes in enumerate(result_attributes(function)):
        if CHECK in attributes and (failed := _scalar_of(results[result])) is not None:
            requested.checks.append((ir.StringAttr(attributes[CHECK]).value, _span(results[result])))
            returned.append(failed)
    return returned


def _equal_by_name(function: func.FuncOp) -> Iterator[tuple[ir.Value, ir.Value, str]]:
    first: dict[str, ir.Value] = {}
    for argument, attributes in zip(function.arguments, argument_attributes(function), strict=True):
        for axis, attribute in enumerate(attributes.get(SIZES, ())):
            if name := ir.StringAttr(attribute).value:
                size = dim(argument, axis)
                if name in first:
                    yield size, first[name], name
                first.setdefault(name, size)


def _kept_sizes(function: func.FuncOp, results: list[ir.Value]) -> Iterator[Requirement]:
    """Yield that the new content of an argument has the argument's sizes."""
    for number, result in updates_of(function).items():
        argument, content = function.arguments[number], results[result]
        for axis, size in enumerate(argument.type.shape):
            if min(size, content.type.shape[axis]) < 0:
                operation = definition(content) or function.operation
                yield Requirement(dim(content, axis), EQUAL, dim(argument, axis), operation)


def _conditions_in_regions(function: func.FuncOp) -> Iterator[tuple[Requirement, str]]:
    """Yield the conditions of operations in loops and branches: first under their predicates, then unconditionally."""
    for operation, predicates in loop_sizes.operations_in_regions(function):
        for requirement in conditions_of(operation):
            left = requirement.left
            for predicate, expected in predicates:
                left = arith.select(predicate, *((left, requirement.right) if expected else (requirement.right, left)))
            yield replace(requirement, left=left), _IN_BODY
            yield requirement, _IF_NOT_KNOWN


_PREDICATES = {EQUAL: arith.CmpIPredicate.eq, NOT_MORE: arith.CmpIPredicate.sle}


def _compared(condition: Requirement, why: str, requested: _Request) -> list[ir.Value]:
    requested.conditions.append((condition.relation, why, span_of(condition.operation.location)))
    holds = arith.cmpi(_PREDICATES[condition.relation], condition.left, condition.right)
    return [condition.left, condition.right, holds]


def _scalar_of(value: ir.Value) -> ir.Value | None:
    scalar = defined_by(value, "tensor.from_elements")
    return None if scalar is None else scalar.operands[0]


def _program(evaluated: SizeValues, requested: _Request) -> SizeProgram:
    steps, values = evaluated.steps, iter(evaluated.values)
    sizes = []
    for (result, axis), step, position in zip(requested.sizes, values, evaluated.spans, strict=False):
        if step is None:
            raise UnsupportedOperationError(
                f"the size of axis {axis} of result {result} depends on the arguments' elements",
                position,
                help="return a tensor of the largest possible size, and the number of valid elements",
            )
        sizes.append((result, axis, step))
    conditions: dict[Condition, None] = {}
    is_known = False
    for relation, why, span in requested.conditions:
        left, right, holds = next(values), next(values), next(values)
        if why == _IF_NOT_KNOWN and is_known:
            continue
        is_known = left is not None and right is not None
        is_true = holds is not None and steps[holds].name == CONSTANT and steps[holds].literals[0] == 1
        if is_true or (left == right and left is not None):
            continue
        if left is None or right is None:
            _refuse_unless_guarded(why, span, requested)
            continue
        condition = Condition(left, relation, right, why, span)
        if not _holds(condition, steps):
            conditions.setdefault(condition)
    for message, span in requested.checks:
        if (step := next(values)) is not None:
            steps.append(SizeStep(CONSTANT, "i1", (), (0,)))
            conditions.setdefault(Condition(step, EQUAL, len(steps) - 1, "cf.assert", span, message))
    return SizeProgram(tuple(steps), tuple(sizes), tuple(_distinct(conditions)))


def _refuse_unless_guarded(why: str, span: Span | None, requested: _Request) -> None:
    """Raise for a condition that depends on elements, unless the program guards the operation (`sizes/guards.py`)."""
    if why not in GUARDED and not requested.is_guarded:
        raise UnsupportedOperationError(
            f"the sizes that {why} works on depend on the arguments' elements, and are not known to match",
            span,
            help=_CREATED if why == "tensor.empty" else _COMPARED,
        )


_COMPARED = "compare them in the program before, or compute on tensors of the largest size"
_CREATED = "repeat or create tensors by a number that is a Python int, such as the largest one, and mask the rest"


def _distinct(conditions: dict[Condition, None]) -> list[Condition]:
    """Drop repeated comparisons: the first operation that needs one is reported."""
    unique: dict[tuple, Condition] = {}
    for condition in conditions:
        pair = (condition.left, condition.right)
        pair = tuple(sorted(pair)) if condition.relation == EQUAL else pair
        unique.setdefault((pair, condition.relation, condition.error), condition)
    return list(unique.values())


def _holds(condition: Condition, steps: list[SizeStep]) -> bool:
    (low, high), (least, most) = _bounds(condition.left, steps), _bounds(condition.right, steps)
    if condition.relation == EQUAL:
        return low == high == least == most
    return high <= least


def _bounds(position: int, steps: list[SizeStep]) -> tuple[float, float]:
    step = steps[position]
    if step.name == SIZE:
        return 0, inf
    if step.name == CONSTANT and step.kind == "index":
        return step.literals[0], step.literals[0]
    if step.name == "arith.select":
        arms = [_bounds(operand, steps) for operand in step.operands[1:]]
        return min(low for low, _ in arms), max(high for _, high in arms)
    if step.name in ("arith.addi", "arith.muli", "arith.maxsi"):
        (low, high), (least, most) = (_bounds(operand, steps) for operand in step.operands)
        if step.name == "arith.maxsi":
            return max(low, least), max(high, most)
        if step.name == "arith.addi":
            return low + least, high + most
        if min(low, least) >= 0:
            return low * least, inf
    return -inf, inf
