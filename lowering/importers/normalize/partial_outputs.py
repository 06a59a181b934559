"""Lower structured operations that do not write each element of their outputs exactly once to loops of `tensor.insert`.

A TIR block cannot express them, and upstream drops the initial value where the body does not read it.

    linalg.generic writes s[i, i]   ──►   scf.for %i iter_args(%s) { tensor.insert … into %s[%i, %i] }
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, operations_named, tensor
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant, loop_nest
from mlirtri.lowering.mlir_common.linalg_builder import loop_size, maps_of
from mlirtri.lowering.mlir_common.reading import affine_index


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Lower all such operations of `module`, in place."""
    for generic in operations_named(module, "linalg.generic"):
        if _writes_each_element_once(generic) or not len(generic.results):
            continue
        with ir.InsertionPoint(generic), generic.location:
            values = _loops(generic)
        replace(generic, values)


def _writes_each_element_once(generic: ir.Operation) -> bool:
    """Return whether the same set of loops indexes every output completely, one loop per axis."""
    inputs = len(generic.operands) - len(generic.results)
    outputs, maps = list(generic.operands)[inputs:], maps_of(generic)[inputs:]
    loops = [_loops_of(value.type, mapping) for value, mapping in zip(outputs, maps, strict=True)]
    return None not in loops and len(set(loops)) <= 1


def _loops_of(type_: ir.RankedTensorType, mapping: ir.AffineMap) -> frozenset[int] | None:
    loops: list[int] = []
    for expression, size in zip(mapping.results, type_.shape, strict=True):
        if isinstance(expression, ir.AffineDimExpr):
            loops.append(expression.position)
        elif not (size == 1 and isinstance(expression, ir.AffineConstantExpr) and expression.value == 0):
            return None
    return frozenset(loops) if len(set(loops)) == len(loops) else None


def _loops(generic: ir.Operation) -> list[ir.Value]:
    maps, operands = maps_of(generic), list(generic.operands)
    inputs = len(operands) - len(generic.results)
    body = generic.regions[0].blocks[0]

    def element(value: ir.Value, mapping: ir.AffineMap, indices: Sequence[ir.Value]) -> ir.Value:
        return tensor.extract(value, _evaluated(mapping, indices)) if isinstance(value.type, ir.ShapedType) else value

    def step(indices: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        arguments = [element(*pair, indices) for pair in zip([*operands[:inputs], *carried], maps, strict=True)]
        yielded = _inline_body(generic, arguments, indices)
        positions = [_evaluated(mapping, indices) for mapping in maps[inputs:]]
        return [tensor.insert(*operands) for operands in zip(yielded, carried, positions, strict=True)]

    # Upstream's verifier requires an axis for each loop.
    sizes = [loop_size(loop, operands, maps) for loop in range(maps[0].n_dims)]
    return loop_nest(sizes, operands[inputs:], step) if body.operations else []


def _inline_body(generic: ir.Operation, arguments: Sequence[ir.Value], indices: Sequence[ir.Value]) -> list[ir.Value]:
    block, target = generic.regions[0].blocks[0], ir.InsertionPoint.current.block
    for inner in all_operations_in(generic):
        if inner.name == "linalg.index":
            replace(inner, [indices[inner.attributes["dim"].value]])
    for argument, value in zip(block.arguments, arguments, strict=True):
        argument.replace_all_uses_with(value)
    *operations, end = [inner.operation for inner in block.operations]
    for operation in operations:
        target.append(operation)
    return list(end.operands)


def _evaluated(mapping: ir.AffineMap, indices: Sequence[ir.Value]) -> list[ir.Value]:
    loops = [_Index(index) for index in indices]
    return [affine_index(expression, loops, _constant).value for expression in mapping.results]


def _constant(value: int) -> _Index:
    return _Index(index_constant(value))


class _Index:
    """An `index` value with Python's arithmetic operators, which build `arith` operations."""

    def __init__(self, value: ir.Value):
        self.value = value

    def __add__(self, other: _Index) -> _Index:
        return _Index(arith.addi(self.value, other.value))

    def __mul__(self, other: _Index) -> _Index:
        return _Index(arith.muli(self.value, other.value))

    def __floordiv__(self, other: _Index) -> _Index:
        return _Index(arith.floordivsi(self.value, other.value))

    def __mod__(self, other: _Index) -> _Index:
        # Indices are in bounds, so that no dividend is negative.
        return _Index(arith.remui(self.value, other.value))

    def __neg__(self) -> _Index:
        return _Index(arith.subi(index_constant(0), self.value))
