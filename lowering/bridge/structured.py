"""Rules of linalg, of constants, and of arith and math on whole tensors.

Constants stay literals until a tensor is needed. Any structured operation, named or generic, on tensors of static
shapes becomes a call of a PrimFunc. An initial value (`outs`) of a reduction becomes the block's init, so that
``linalg.fill`` before a matmul costs no kernel. Refuses bodies with operations that have no scalar rule.

    linalg.reduce addf over d1 of %a, outs(fill 0)   ──►   with T.init(): out[i] = 0
                                                           out[i] = out[i] + a[i, k]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.dialect.bindings.locations import name_of, spans_in
from mlirtri.dialect.bindings.mlir import ir, linalg
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.bridge.builder import RelaxBuilder, Splat, Uninitialized, rule
from mlirtri.lowering.bridge.scalar.body import ScalarBody
from mlirtri.lowering.bridge.scalar.scalar_rules import literal as scalar_literal
from mlirtri.lowering.mlir_common.constants import array_constant
from mlirtri.lowering.mlir_common.readable_names import name_of_scalar, name_of_structured
from mlirtri.lowering.mlir_common.reading import (
    affine_index,
    dtype_of,
    is_shaped,
    scalar_constant,
    shape_of,
    used_dimensions,
)
from mlirtri.lowering.tir.primfunc import LoopAxis, Names, Statements, buffer, build, load, store
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.toolchain.tvm_names import relax

Literal = Callable[[ir.Value], Any]


@rule("arith.constant")
def _constant(builder: RelaxBuilder, operation: ir.Operation) -> None:
    result = operation.results[0]
    attribute = operation.attributes["value"]
    number = scalar_constant(attribute)
    if number is not None:
        element = scalar_literal(number, dtype_of(result.type))
        return builder.write(result, Splat(element, shape_of(result.type)))
    # Without a dtype, relax.const narrows 64 bits to 32.
    return builder.write(result, relax.const(array_constant(attribute), dtype_of(result.type)))


@rule("tensor.empty")
def _empty(builder: RelaxBuilder, operation: ir.Operation) -> None:
    result = operation.results[0]
    builder.write(result, Uninitialized(shape_of(result.type), dtype_of(result.type)))


@rule("linalg.fill")
def _fill(builder: RelaxBuilder, operation: ir.Operation) -> None:
    element = builder.literal(operation.operands[0])
    if element is None:
        return structured(builder, operation)
    result = operation.results[0]
    return builder.write(result, Splat(element, shape_of(result.type)))


def structured(builder: RelaxBuilder, operation: ir.Operation) -> None:
    """Translate any linalg operation with indexing maps and a body."""
    nest, name = _Nest(operation, builder.literal), name_of_structured(operation)
    function = build(name, nest.reader.inputs, nest.outputs, nest.axes, nest.statements, spans_in(operation))
    builder.call(operation, function, name, nest.reader.arguments)


def elementwise(builder: RelaxBuilder, operation: ir.Operation) -> None:
    """Translate an operation of arith or math on whole tensors or scalars (rank-0 tensors)."""
    reader = _Reader(builder.literal)
    result = operation.results[0]
    output = reader.output_buffer(operation, result)

    def statements(variables: list) -> Statements:
        indices = variables[: len(shape_of(result.type))]
        body = ScalarBody(variables, reader.read)
        for operand in operation.operands:
            body.define(operand, reader.read(operand, indices if is_shaped(operand.type) else []))
        body.translate_operation(operation)
        statement, scratch = body.finish([result], [(output, indices)])
        return Statements(statement, scratch=scratch)

    name, axes = name_of_scalar(operation), [LoopAxis(size) for size in shape_of(result.type)]
    function = build(name, reader.inputs, [output], axes, statements, spans_in(operation))
    builder.call(operation, function, name, reader.arguments)


@rule("func.return")
def _return(builder: RelaxBuilder, operation: ir.Operation) -> None:
    builder.results = builder.read_all(operation.operands)


def is_structured(operation: ir.Operation) -> bool:
    """Return whether `operation` is a linalg operation on tensors with a body and indexing maps."""
    if not operation.name.startswith("linalg.") or not operation.regions or not operation.results:
        return False
    return bool(operation.regions[0].blocks) and linalg.get_indexing_maps(operation) is not None


class _Reader:
    """The input buffers of one PrimFunc, collected as its body reads them."""

    def __init__(self, literal: Literal):
        self.literal = literal
        self.names = Names()
        self.arguments: list[ir.Value] = []
        self.inputs: list = []

    def read(self, value: ir.Value, indices: Sequence):
        """Return an element of `value`: its literal, or a load from its input buffer."""
        if (constant := self.literal(value)) is not None:
            return constant
        if value not in self.arguments:
            self.arguments.append(value)
            self.inputs.append(self._input_buffer(value))
        return load(self.inputs[self.arguments.index(value)], indices)

    def output_buffer(self, operation: ir.Operation, result: ir.Value):
        name_hint = name_of(operation.location)
        if name_hint is None or name_hint in map(_input_name, operation.operands):
            name_hint = "out"
        return buffer(self.names.unique(name_hint), shape_of(result.type), dtype_of(result.type))

    def _input_buffer(self, value: ir.Value):
        return buffer(self.names.unique(_input_name(value)), shape_of(value.type), dtype_of(value.type))


def _input_name(value: ir.Value) -> str:
    owner = value.owner
    location = value.location if isinstance(owner, ir.Block) else owner.location
    return name_of(location) or ("in" if isinstance(owner, ir.Block) else owner.name.split(".")[-1])


class _Nest:
    """The loop nest of one operation: axes, inputs and targets of its outputs."""

    def __init__(self, operation: ir.Operation, literal: Literal):
        self.operation = operation
        self.reader = _Reader(literal)
        self.maps = [attribute.value for attribute in linalg.get_indexing_maps(operation)]
        self.values = list(operation.operands)[: len(self.maps)]
        self.first_output = len(self.maps) - len(operation.results)
        self.axes = _axes(operation, self.maps, self.values)
        self.reductions = {number for number, axis in enumerate(self.axes) if axis.is_reduction}
        self.outputs = [self.reader.output_buffer(operation, result) for result in operation.results]

    def statements(self, variables: list) -> Statements:
        """Return the block's body and init for one variable per dimension."""
        accesses = [[affine_index(result, variables, index) for result in mapping.results] for mapping in self.maps]
        block = self.operation.regions[0].blocks[0]
        body = ScalarBody(variables, self.reader.read)
        initial = []
        for number, (argument, value) in enumerate(zip(block.arguments, self.values, strict=True)):
            output = number - self.first_output
            if output < 0 or not self._accumulates(number):
                body.define_lazily(argument, lambda value=value, n=number: self.reader.read(value, accesses[n]))
                continue
            body.define(argument, load(self.outputs[output], accesses[number]), is_accumulator=True)
            initial.append(store(self.outputs[output], self.reader.read(value, accesses[number]), accesses[number]))
        targets = list(zip(self.outputs, accesses[self.first_output :], strict=True))
        statement, scratch = body.translate(block, targets)
        return Statements(statement, sequence(*initial) if initial else None, scratch)

    def _accumulates(self, number: int) -> bool:
        """Return whether this output accumulates over the reduction axes; otherwise each element is written once."""
        return bool(self.reductions) and not (used_dimensions(self.maps[number]) & self.reductions)


def _axes(operation: ir.Operation, maps: list[ir.AffineMap], values: list[ir.Value]) -> list[LoopAxis]:
    extents: dict[int, int] = {}
    for mapping, value in zip(maps, values, strict=True):
        for expression, size in zip(mapping.results, shape_of(value.type), strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                extents[expression.position] = size
    count = maps[0].n_dims
    if missing := [dimension for dimension in range(count) if dimension not in extents]:
        raise UnsupportedOperationError(f"no operand of {operation.name} tells how long dimension d{missing[0]} is")
    reductions = _reduction_dimensions(operation, maps)
    return [LoopAxis(extents[dimension], dimension in reductions) for dimension in range(count)]


def _reduction_dimensions(operation: ir.Operation, maps: list[ir.AffineMap]) -> set[int]:
    """Return the reduction axes of a generic; of a named op, whose types the bindings hide, those in no output map."""
    count = maps[0].n_dims
    if "iterator_types" in operation.attributes:
        kinds = operation.attributes["iterator_types"]
        return {dimension for dimension, kind in enumerate(kinds) if "reduction" in str(kind)}
    output_axes = set().union(*(used_dimensions(mapping) for mapping in maps[-len(operation.results) :]))
    return set(range(count)) - output_axes
