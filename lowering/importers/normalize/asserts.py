"""Lower `cf.assert` to checks: one more result per message, of rank 0, that is true where the assertion failed.

Loops and branches yield whether an assertion failed in them. The assertions of a structured operation move to a
reduction over only those loops that the condition depends on.

    linalg.generic { cf.assert %c, "m"; … }   ──►   %failed = linalg.generic { ori %acc, not %c }; linalg.generic { … }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, operations_named, public_functions, scf, tensor
from mlirtri.errors import ProgramAssertionError, Span, UnsupportedOperationError, error_class
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import (
    CHECK,
    CHECK_LOCATION,
    ERROR,
    argument_attributes,
    result_attributes,
    set_signature,
)
from mlirtri.lowering.mlir_common.cloning import clone_all, leading_to, needed_by, replace
from mlirtri.lowering.mlir_common.linalg_builder import generalize, generic, iterators_of, loop_size, maps_of
from mlirtri.lowering.mlir_common.reading import defined_by, used_dimensions
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

MAX_CHECKS = 8
"""The number of messages with a result of their own; all others share the last one."""
FOLD = (
    Pass("canonicalize", "assertions that hold fold away"),
    Pass("cse", "equal assertions become one"),
)


class Kind(NamedTuple):
    """What an assertion says where it fails."""

    message: str
    span: Span | None
    error: str


@dataclass(frozen=True)
class Failure:
    """A failed assertion: an i1 of its block that is true where the assertion failed."""

    value: ir.Value
    message: str
    span: Span | None
    error: str = ProgramAssertionError.__name__
    """The name of the class that is raised."""

    @property
    def kind(self) -> Kind:
        """What failures that are combined have in common."""
        return Kind(self.message, self.span, self.error)


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Replace every `cf.assert`; raises `ProgramAssertionError`, `UnsupportedOperationError`."""
    if not operations_named(module, "cf.assert"):
        return
    run_passes(module, FOLD, context)
    [function] = public_functions(module)
    block = function.regions[0].blocks[0]
    for operation in block.operations:
        _refuse_certain(operation.operation)
    failures = _shared(_failures_in(block))
    end = terminator(block)
    arguments, results = argument_attributes(function), result_attributes(function)
    with ir.InsertionPoint(end), end.location:
        kind = ir.RankedTensorType.get([], _bool())
        values = [*end.operands, *(_as_tensor(failure.value, kind) for failure in failures)]
        ir.Operation.create(end.name, operands=values)
    end.erase()
    set_signature(function, arguments, [*results, *map(_attributes, failures)])
    run_passes(module, FOLD, context)


def _attributes(failure: Failure) -> dict[str, ir.Attribute]:
    attributes = {CHECK: ir.StringAttr.get(f"{failure.error}: {failure.message}")}
    return attributes | ({CHECK_LOCATION: ir.StringAttr.get(str(failure.span))} if failure.span else {})


def _refuse_certain(operation: ir.Operation) -> None:
    condition = defined_by(operation.operands[0], "arith.constant") if operation.name == "cf.assert" else None
    if condition is not None and not ir.BoolAttr(condition.attributes["value"]).value:
        raise error_class(_error_of(operation))(operation.attributes["msg"].value, span_of(operation.location))


def _error_of(operation: ir.Operation) -> str:
    return operation.attributes[ERROR].value if ERROR in operation.attributes else ProgramAssertionError.__name__


def _as_tensor(value: ir.Value, type_: ir.Type) -> ir.Value:
    extract = defined_by(value, "tensor.extract")
    return tensor.from_elements(type_, [value]) if extract is None else extract.operands[0]


def _failures_in(block: ir.Block) -> list[Failure]:
    failures: list[Failure] = []
    for operation in [operation.operation for operation in block.operations]:
        if operation.name == "cf.assert":
            failures.append(_failure(operation))
        elif operation.regions and any(inner.name == "cf.assert" for inner in all_operations_in(operation)):
            failures += _failures_of(operation)
    end = terminator(block)
    with ir.InsertionPoint(end), end.location:
        return _merged(failures)


def _failure(operation: ir.Operation) -> Failure:
    with ir.InsertionPoint(operation), operation.location:
        failed = arith.xori(operation.operands[0], arith.constant(_bool(), 1))
    failure = Failure(failed, operation.attributes["msg"].value, span_of(operation.location), _error_of(operation))
    operation.erase()
    return failure


def _failures_of(operation: ir.Operation) -> list[Failure]:
    if operation.name.startswith("linalg."):
        return _failures_of_structured(operation if operation.name == "linalg.generic" else generalize(operation))
    if (carry := _REGION_RULES.get(operation.name)) is None:
        raise UnsupportedOperationError(f"an assertion inside of {operation.name}", span_of(operation.location))
    failures = [_failures_in(region.blocks[0]) if region.blocks else [] for region in operation.regions]
    kinds = list(dict.fromkeys(failure.kind for group in failures for failure in group))
    groups = [[_value_for(kind, group) for kind in kinds] for group in failures]
    values = carry(operation, groups, len(kinds))
    return [Failure(value, *kind) for value, kind in zip(values, kinds, strict=True)]


def _value_for(kind: Kind, failures: Sequence[Failure]) -> ir.Value | None:
    return next((failure.value for failure in failures if failure.kind == kind), None)


def _merged(failures: Sequence[Failure]) -> list[Failure]:
    merged: dict[Kind, ir.Value] = {}
    for failure in failures:
        first = merged.get(failure.kind)
        merged[failure.kind] = failure.value if first is None else arith.ori(first, failure.value)
    return [Failure(value, *kind) for kind, value in merged.items()]


def _shared(failures: list[Failure]) -> list[Failure]:
    if len(failures) <= MAX_CHECKS:
        return failures
    separate, shared = failures[: MAX_CHECKS - 1], failures[MAX_CHECKS - 1 :]
    message = "one of these fails: " + "; ".join(dict.fromkeys(failure.message for failure in shared))
    errors = {failure.error for failure in shared}
    error = errors.pop() if len(errors) == 1 else ProgramAssertionError.__name__
    kind = Kind(message, shared[0].span, error)
    end = terminator(shared[0].value.owner.operation.block)
    with ir.InsertionPoint(end), end.location:
        return [*separate, *_merged([Failure(failure.value, *kind) for failure in shared])]


def _bool() -> ir.Type:
    return ir.IntegerType.get_signless(1)


def _failures_of_structured(operation: ir.Operation) -> list[Failure]:
    body = operation.regions[0].blocks[0]
    failures = _failures_in(body)
    with ir.InsertionPoint(operation), operation.location:
        reduced = [(_over_all_elements(operation, failure.value), failure) for failure in failures]
    return [Failure(value, *failure.kind) for value, failure in reduced if value is not None]


def _over_all_elements(operation: ir.Operation, failed: ir.Value) -> ir.Value | None:
    loops = _Loops(operation)
    steps = leading_to(loops.body, [failed])
    used = {value for step in steps for value in needed_by(step)} | {failed}
    read = [position for position, argument in enumerate(loops.body.arguments) if argument in used]
    loops.refuse_accumulated(read)
    needed = sorted(_indexed(steps).union(*(used_dimensions(loops.maps[position]) for position in read)))
    if any(loops.size(loop) == 0 for loop in range(loops.count) if loop not in needed):
        return None
    extents = [loop for loop in needed if not any(_is_indexed_by(loops.maps[position], loop) for position in read)]
    inputs = [*(loops.operands[position] for position in read), *(loops.extent(loop) for loop in extents)]
    renumbered = _renumbering(loops.count, needed)
    maps = [
        *(_renumbered(loops.maps[position], renumbered) for position in read),
        *(ir.AffineMap.get(len(needed), 0, [ir.AffineDimExpr.get(needed.index(loop))]) for loop in extents),
    ]

    def body(*elements: ir.Value) -> list[ir.Value]:
        values = dict(zip((loops.body.arguments[position] for position in read), elements, strict=False))
        clone_all(steps, values)
        for step in steps:
            _renumber_indices(values[step.results[0]].owner.operation if step.results else step, needed)
        return [arith.ori(elements[-1], values.get(failed, failed))]

    start = tensor.from_elements(ir.RankedTensorType.get([], _bool()), [arith.constant(_bool(), 0)])
    maps.append(ir.AffineMap.get(len(needed), 0, []))
    [result] = generic(inputs, [start], maps, ["reduction"] * len(needed), body)
    return tensor.extract(result, [])


class _Loops:
    def __init__(self, operation: ir.Operation):
        self.operation = operation
        self.body = operation.regions[0].blocks[0]
        self.operands = list(operation.operands)
        self.inputs = operation.attributes["operandSegmentSizes"][0]
        self.maps, self.iterators = maps_of(operation), iterators_of(operation)
        self.count = len(self.iterators)

    def size(self, loop: int) -> int | ir.Value:
        try:
            return loop_size(loop, self.operands, self.maps)
        except ValueError:
            raise UnsupportedOperationError(
                "an assertion in a loop whose extent is not the size of an operand", span_of(self.operation.location)
            ) from None

    def extent(self, loop: int) -> ir.Value:
        return tensor.empty([self.size(loop)], _bool())

    def refuse_accumulated(self, read: Sequence[int]) -> None:
        """Raise `UnsupportedOperationError` where the accumulator of a reduction is read."""
        if "reduction" in self.iterators and any(position >= self.inputs for position in read):
            raise UnsupportedOperationError(
                "an assertion on what a reduction has accumulated", span_of(self.operation.location)
            )


def _indexed(steps: Sequence[ir.Operation]) -> set[int]:
    inner = (inner for step in steps for inner in all_operations_in(step))
    return {index.attributes["dim"].value for index in inner if index.name == "linalg.index"}


def _is_indexed_by(mapping: ir.AffineMap, loop: int) -> bool:
    return any(isinstance(index, ir.AffineDimExpr) and index.position == loop for index in mapping.results)


def _renumbering(count: int, loops: Sequence[int]) -> ir.AffineMap:
    expressions = [ir.AffineDimExpr.get(loops.index(loop)) if loop in loops else None for loop in range(count)]
    return ir.AffineMap.get(len(loops), 0, [expression or ir.AffineConstantExpr.get(0) for expression in expressions])


def _renumbered(mapping: ir.AffineMap, renumbering: ir.AffineMap) -> ir.AffineMap:
    return ir.AffineMap.get(renumbering.n_dims, 0, [expression.compose(renumbering) for expression in mapping.results])


def _renumber_indices(step: ir.Operation, loops: Sequence[int]) -> None:
    for inner in all_operations_in(step):
        if inner.name == "linalg.index":
            position = loops.index(inner.attributes["dim"].value)
            inner.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), position)


Bits = Sequence[ir.Value | None]
Rule = Callable[[ir.Operation, Sequence[Bits], int], list[ir.Value]]


def _branch(operation: ir.Operation, groups: Sequence[Bits], count: int) -> list[ir.Value]:
    extended = _extended(operation, [], count)
    for region, new, bits in zip(operation.regions, extended.regions, groups, strict=True):
        if not region.blocks:
            new.blocks.append()
            with ir.InsertionPoint(new.blocks[0]), operation.location:
                scf.YieldOp([_false() for _ in range(count)])
            continue
        region.blocks[0].append_to(new)
        _yield_also(new.blocks[0], bits)
    return _replace_extended(operation, extended)


def _counted_loop(operation: ir.Operation, groups: Sequence[Bits], count: int) -> list[ir.Value]:
    extended = _extended(operation, _false_bits(operation, count), count)
    operation.regions[0].blocks[0].append_to(extended.regions[0])
    block = extended.regions[0].blocks[0]
    _yield_also(block, groups[0], _more_arguments(block, count))
    return _replace_extended(operation, extended)


def _while_loop(operation: ir.Operation, groups: Sequence[Bits], count: int) -> list[ir.Value]:
    """Carry the bits through both regions: the condition runs once more than the body and may fail, too."""
    extended = _extended(operation, _false_bits(operation, count), count)
    for region, new, bits in zip(operation.regions, extended.regions, groups, strict=True):
        region.blocks[0].append_to(new)
        _yield_also(new.blocks[0], bits, _more_arguments(new.blocks[0], count))
    return _replace_extended(operation, extended)


_REGION_RULES: dict[str, Rule] = {"scf.if": _branch, "scf.for": _counted_loop, "scf.while": _while_loop}


def _extended(operation: ir.Operation, operands: Sequence[ir.Value], count: int) -> ir.Operation:
    return ir.Operation.create(
        operation.name,
        results=[*(result.type for result in operation.results), *[_bool()] * count],
        operands=[*operation.operands, *operands],
        attributes={name: operation.attributes[name] for name in operation.attributes},
        regions=len(operation.regions),
        loc=operation.location,
        ip=ir.InsertionPoint(operation),
    )


def _replace_extended(operation: ir.Operation, extended: ir.Operation) -> list[ir.Value]:
    count, results = len(operation.results), list(extended.results)
    replace(operation, results[:count])
    return results[count:]


def _more_arguments(block: ir.Block, count: int) -> list[ir.Value]:
    return [block.add_argument(_bool(), ir.Location.unknown()) for _ in range(count)]


def _yield_also(block: ir.Block, bits: Bits, arguments: Bits = ()) -> None:
    end = terminator(block)
    with ir.InsertionPoint(end), end.location:
        earlier = list(arguments) or [None] * len(bits)
        values = [_either(*pair) for pair in zip(earlier, bits, strict=True)]
        ir.Operation.create(end.name, operands=[*end.operands, *values])
    end.erase()


def _either(first: ir.Value | None, second: ir.Value | None) -> ir.Value:
    if first is None or second is None:
        return first or second or _false()
    return arith.ori(first, second)


def _false_bits(operation: ir.Operation, count: int) -> list[ir.Value]:
    with ir.InsertionPoint(operation), operation.location:
        return [_false() for _ in range(count)]


def _false() -> ir.Value:
    return arith.constant(_bool(), 0)
