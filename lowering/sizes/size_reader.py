"""Read MLIR's arithmetic on sizes as steps of a size program.

A value has no step where it is not arithmetic on the sizes of the arguments and on their elements at constant indices.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.size_program import CONSTANT, ELEMENT, OPERATIONS, SIZE, SizeStep, add_step
from mlirtri.lowering.mlir_common.reading import definition, kept_axes


class SizeReader:
    """Reads values computed from the arguments' sizes, and from their elements at constant indices."""

    def __init__(self, arguments: list[ir.Value]):
        self.arguments = {argument: position for position, argument in enumerate(arguments)}
        self.steps: list[SizeStep] = []
        self._known: dict[ir.Value, int | None] = {}

    def step(self, value: ir.Value) -> int | None:
        """Return the number of the step that computes a value; None where it is no arithmetic on sizes."""
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self._known:
                pending.pop()
                continue
            missing = [operand for operand in _inputs(current) if operand not in self._known]
            if missing:
                pending += missing
                continue
            self._known[current] = self._new_step(current)
            pending.pop()
        return self._known[value]

    def _new_step(self, value: ir.Value) -> int | None:
        operation, kind = definition(value), str(value.type)
        if operation is None:
            return None
        if operation.name == "arith.constant":
            return self._literal(operation, kind)
        if operation.name in ("tensor.dim", "tensor.extract"):
            return self._of_argument(operation, kind)
        if operation.name not in OPERATIONS or kind not in _KINDS:
            return None
        operands = [step for operand in operation.operands if (step := self._known[operand]) is not None]
        if len(operands) < len(operation.operands):
            return None
        literals = (operation.attributes["predicate"].value,) if "predicate" in operation.attributes else ()
        return add_step(self.steps, SizeStep(operation.name, kind, tuple(operands), literals))

    def _literal(self, operation: ir.Operation, kind: str) -> int | None:
        if kind not in _KINDS:
            return None
        literal = operation.attributes["value"].value
        return add_step(self.steps, SizeStep(CONSTANT, kind, (), (int(literal) if kind == "i1" else literal,)))

    def _of_argument(self, operation: ir.Operation, kind: str) -> int | None:
        source, *indices = operation.operands
        constants = [self.steps[step] for index in indices if (step := self._known[index]) is not None]
        if kind not in _KINDS or len(constants) < len(indices) or any(step.name != CONSTANT for step in constants):
            return None
        name, position = SIZE, [step.literals[0] for step in constants]
        if operation.name == "tensor.extract":
            name, (source, position) = ELEMENT, traced_element(source, position)
        if source not in self.arguments:
            return None
        return add_step(self.steps, SizeStep(name, kind, (), (self.arguments[source], *position)))


def traced_element(source: ir.Value, indices: list[int]) -> tuple[ir.Value, list[int]]:
    """Trace an element through static slices and reshapes: return the tensor that holds it, and its indices there."""
    dynamic = ir.ShapedType.get_dynamic_size()
    while (operation := definition(source)) is not None:
        if len(operation.operands) != 1 or not isinstance(operation.operands[0].type, ir.RankedTensorType):
            break
        if {dynamic, 0} & {*source.type.shape, *operation.operands[0].type.shape}:
            break
        if operation.name == "tensor.extract_slice":
            offsets, sizes, strides = (list(operation.attributes[f"static_{name}"]) for name in _SLICE)
            steps = dict(zip(kept_axes(sizes, source.type.rank), indices, strict=True))
            indices = [first + steps.get(axis, 0) * strides[axis] for axis, first in enumerate(offsets)]
        elif operation.name in ("tensor.collapse_shape", "tensor.expand_shape"):
            indices = _reshaped(indices, list(source.type.shape), list(operation.operands[0].type.shape))
        else:
            break
        source = operation.operands[0]
    return source, indices


_SLICE = ("offsets", "sizes", "strides")


def _reshaped(indices: list[int], new_shape: list[int], old_shape: list[int]) -> list[int]:
    offset = 0
    for index, size in zip(indices, new_shape, strict=True):
        offset = offset * size + index
    position = []
    for size in reversed(old_shape):
        position.insert(0, offset % size)
        offset //= size
    return position


_KINDS = frozenset({"index", "i1", "i8", "i16", "i32", "i64", "f32", "f64"})


def _inputs(value: ir.Value) -> list[ir.Value]:
    operation = definition(value)
    if operation is None:
        return []
    if operation.name in ("tensor.dim", "tensor.extract"):
        return list(operation.operands)[1:]
    return list(operation.operands) if operation.name in OPERATIONS else []
