"""Lower each `linalg.generic` on memrefs, its loops in execution order, to a loop nest.

Neighbouring parallel loops become an `scf.parallel`, reductions an `scf.for`. The accumulators of innermost reductions
are loop-carried values, read and written once per element.

    out[i] = out[i] + a[i, j]   ──►   parallel i { s = load out[i]; for j carrying s { s + load a[i, j] }; store s }
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, memref, operations_named, scf
from mlirtri.lowering.core.stage import NARROWED_SUM
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.cloning import clone, replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, maps_of
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, defined_by, definition

Values = list[ir.Value]


def rewrite(module: ir.Module) -> None:
    """Replace every `linalg.generic` by its loops."""
    generics = operations_named(module, "linalg.generic")
    narrowed = [_is_narrowed_sum(generic) for generic in generics]
    for generic, is_narrowed in zip(generics, narrowed, strict=True):
        with ir.InsertionPoint(generic), generic.location:
            _Nest(generic, is_narrowed).loops_from(0, [])
        generic.erase()


class _Nest:
    """One generic, while its loops are built."""

    def __init__(self, generic: ir.Operation, is_narrowed: bool):
        self.is_narrowed = is_narrowed
        """Whether it is a sum in fp64 that is only read as fp32."""
        self.body = generic.regions[0].blocks[0]
        self.buffers = list(generic.operands)
        self.inputs = generic.attributes["operandSegmentSizes"][0]
        self.maps = maps_of(generic)
        self.reduces = [kind == "reduction" for kind in iterators_of(generic)]
        self.zero, self.one = index_constant(0), index_constant(1)
        self.sizes = [self._size_of(loop) for loop in range(len(self.reduces))]

    @property
    def outputs(self) -> range:
        return range(self.inputs, len(self.maps))

    def loops_from(self, first: int, indices: Values) -> None:
        """Build the loops from `first` on that carry nothing: adjacent parallel ones together, reductions alone."""
        if all(self.reduces[first:]):
            self._element(indices)
            return
        last = first + 1
        if not self.reduces[first]:
            while last < len(self.reduces) and not self.reduces[last]:
                last += 1
        bounds = [self.zero] * (last - first), self.sizes[first:last], [self.one] * (last - first)
        loop = scf.ForOp(*(value for (value,) in bounds)) if self.reduces[first] else _parallel(*bounds)
        if self.is_narrowed and self.reduces[first]:
            loop.attributes[NARROWED_SUM] = ir.UnitAttr.get()
        with ir.InsertionPoint(loop.regions[0].blocks[0]):
            self.loops_from(last, [*indices, *loop.regions[0].blocks[0].arguments])
            scf.YieldOp([]) if self.reduces[first] else scf.ReduceOp([], 0)

    def _element(self, indices: Values) -> None:
        """Compute one element of every output by the innermost reductions."""
        targets = {position: self._indices_of(position, indices) for position in self.outputs}
        carries = len(indices) < len(self.reduces)
        old = {
            position: memref.load(self.buffers[position], targets[position])
            for position in self.outputs
            if carries or self._reads(position)
        }
        new = self._reduce(indices, list(old.values())) if carries else self._step(indices, old)
        for position, value in zip(self.outputs, new, strict=True):
            memref.store(value, self.buffers[position], targets[position])

    def _reduce(self, indices: Values, carried: Values) -> Values:
        """Build sequential loops over the dimensions that `indices` lacks."""
        if len(indices) == len(self.reduces):
            return self._step(indices, dict(zip(self.outputs, carried, strict=True)))
        loop = scf.ForOp(self.zero, self.sizes[len(indices)], self.one, carried)
        if self.is_narrowed:
            loop.attributes[NARROWED_SUM] = ir.UnitAttr.get()
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(self._reduce([*indices, loop.induction_variable], list(loop.inner_iter_args)))
        return list(loop.results)

    def _step(self, indices: Values, accumulators: dict[int, ir.Value]) -> Values:
        """Clone the body once; return what it yields."""
        values = {self.body.arguments[position]: value for position, value in accumulators.items()}
        for position in range(self.inputs):
            if self._reads(position):
                values[self.body.arguments[position]] = self._input(position, indices)
        *steps, last = (view.operation for view in self.body.operations)
        for step in steps:
            if step.name == "linalg.index":
                values[step.results[0]] = indices[step.attributes["dim"].value]
            else:
                values.update(zip(step.results, _clone(step, values, indices).results, strict=True))
        return [values.get(value, value) for value in last.operands]

    def _input(self, position: int, indices: Values) -> ir.Value:
        buffer = self.buffers[position]
        is_memory = isinstance(buffer.type, ir.MemRefType)
        return memref.load(buffer, self._indices_of(position, indices)) if is_memory else buffer

    def _reads(self, position: int) -> bool:
        return any(True for _ in self.body.arguments[position].uses)

    def _indices_of(self, position: int, indices: Values) -> Values:
        return [_value_of(expression, indices) for expression in self.maps[position].results]

    def _size_of(self, loop: int) -> ir.Value:
        """Return the extent of a loop: that of an axis that it alone indexes, which every loop has."""
        axes = [
            (position, axis)
            for position, mapping in enumerate(self.maps)
            for axis, result in enumerate(mapping.results)
            if isinstance(result, ir.AffineDimExpr) and result.position == loop
        ]
        static = [size for position, axis in axes if (size := self.buffers[position].type.shape[axis]) >= 0]
        if static:
            return index_constant(static[0])
        position, axis = axes[0]
        return memref.dim(self.buffers[position], index_constant(axis))


def _parallel(lower: Values, upper: Values, steps: Values) -> scf.ParallelOp:
    loop = scf.ParallelOp([], lower, upper, steps, [])
    loop.regions[0].blocks.append(*[value.type for value in lower])
    return loop


def _clone(step: ir.Operation, values: dict[ir.Value, ir.Value], indices: Sequence[ir.Value]) -> ir.Operation:
    copy = clone(step, values)
    for inner in all_operations_in(copy):
        if inner.name == "linalg.index":
            replace(inner, [indices[inner.attributes["dim"].value]])
    return copy


def _value_of(expression: ir.AffineExpr, indices: Sequence[ir.Value]) -> ir.Value:
    if isinstance(expression, ir.AffineDimExpr):
        return indices[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return index_constant(expression.value)
    left, right = _value_of(expression.lhs, indices), _value_of(expression.rhs, indices)
    return _ARITHMETIC[type(expression)](left, right)


_ARITHMETIC = {
    ir.AffineAddExpr: arith.addi,
    ir.AffineMulExpr: arith.muli,
    ir.AffineModExpr: arith.remui,  # never negative: indices are inside their buffers
    ir.AffineFloorDivExpr: arith.floordivsi,
    ir.AffineCeilDivExpr: arith.ceildivsi,
}


def _is_narrowed_sum(generic: ir.Operation) -> bool:
    """Return whether a reduction adds fp32 numbers in fp64 memory that is only read as fp32.

    out[i] = out[i] + extf a[i, j] : f64      nothing reads out but truncf to f32
    """
    if len(generic.operands) != generic.attributes["operandSegmentSizes"][0] + 1:
        return False
    memory = generic.operands[len(generic.operands) - 1]
    is_wide = isinstance(memory.type, ir.MemRefType) and isinstance(memory.type.element_type, ir.F64Type)
    if not is_wide or "reduction" not in iterators_of(generic) or not _adds_narrow(generic):
        return False
    owner = definition(memory)
    if owner is None or owner.name not in ALLOCATIONS:
        return False
    return all(_keeps_narrow(use.owner.operation, use.operand_number) for use in memory.uses)


def _adds_narrow(generic: ir.Operation) -> bool:
    """Return whether the body yields the sum of the accumulator and a widened number."""
    block = generic.regions[0].blocks[0]
    addition = defined_by(terminator(block).operands[0], "arith.addf")
    if addition is None:
        return False
    accumulator = block.arguments[len(block.arguments) - 1]
    terms = [operand for operand in addition.operands if operand != accumulator]
    return len(terms) == 1 and defined_by(terms[0], "arith.extf") is not None


def _keeps_narrow(user: ir.Operation, position: int) -> bool:
    """Return whether a user of the memory does not read it, reads it as fp32 or less, or adds to it."""
    if user.name in ("linalg.fill", "memref.dealloc", "memref.dim"):
        return True
    if user.name == "memref.load":
        return _is_narrowed(user.results[0])
    if user.name != "linalg.generic":
        return False
    element = user.regions[0].blocks[0].arguments[position]
    is_input = position < user.attributes["operandSegmentSizes"][0]
    return _is_narrowed(element) or (not is_input and _adds_narrow(user))


def _is_narrowed(value: ir.Value) -> bool:
    return all(use.owner.operation.name == "arith.truncf" for use in value.uses)
