"""Rewrites of `tri` modules before they are lowered: composite operations, and elements selected by masks.

Each takes a `tri` module and changes it in place. `decompose` replaces composite operations (softmax, layer_norm, var…)
by others of the op table; fp16 and bf16 operands are widened to fp32 for the whole composition, rounded once.
`select_by_masks` computes masked elements densely: a mask's selected elements, elementwise operations on them, and a
write under the same mask or a reduction become one loop nest with independent iterations, without a gather. Other uses
of selected elements stay.

    z[m] = z[m] * z[m] + c[m]   ──►   z = where(m, z * z + c, z)
    sum(x[m])                   ──►   sum(where(m, x, 0))
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op
from mlirtri.lowering.linalg.reductions import identity

REDUCTIONS = ("tri.sum", "tri.prod", "tri.max", "tri.min", "tri.any", "tri.all")


def has_masks(module: ir.Module) -> bool:
    return any(operation.name == "tri.compress" for operation in tri_operations(module))


def select_by_masks(module: ir.Module) -> None:
    """Replace the uses of selected elements that need no selection, then erase dead operations."""
    masks = Masks()
    for operation in tri_operations(module):
        with errors_at(operation):
            masks.replace(operation)
    for operation in reversed(tri_operations(module)):
        if not any(True for _ in operation.results[0].uses):
            operation.erase()


class Masks:
    """The values that are selected elements, with their dense counterparts."""

    def __init__(self):
        self.builder = TriBuilder()
        self.masks: dict[ir.Value, ir.Value | None] = {}
        self.dense: dict[ir.Value, TriValue] = {}

    def replace(self, operation: ir.Operation) -> None:
        """Replace the uses of `operation` by the same result, computed without its selected operand."""
        self.builder.location = operation.location
        with ir.InsertionPoint(operation):
            if (value := self._without_selection(operation)) is not None:
                operation.results[0].replace_all_uses_with(value.value)

    def _without_selection(self, operation: ir.Operation) -> TriValue | None:
        if operation.name == "tri.place":
            x, mask, update = operation.operands
            if (mask_of_update := self.mask_of(update)) is None or mask_of_update != mask:
                return None
            return self.builder.where(self._over(_tensor(mask), type_of(x.type)), self.dense_of(update), _tensor(x))
        if operation.name not in (*REDUCTIONS, "tri.size") or (mask := self.mask_of(operation.operands[0])) is None:
            return None
        parameters = attributes.from_mlir(op_of(operation), operation)
        if operation.name == "tri.size":
            return self._count(_tensor(mask)) if parameters["axis"] == 0 else None
        return self._reduced(operation, mask, parameters) if 0 in parameters["axes"] else None

    def _count(self, mask: TriValue) -> TriValue:
        ones = self.builder.cast(mask, DTYPES["int64"])
        return self.builder.sum(ones, axes=tuple(range(mask.type.rank)), keepdims=False)

    def _reduced(self, operation: ir.Operation, mask: ir.Value, parameters) -> TriValue:
        t, name = self.builder, operation.name.removeprefix("tri.")
        x, rank = self.dense_of(operation.operands[0]), type_of(mask.type).rank
        nothing = t.constant(identity(name, x.type.dtype), x.type.dtype)
        selected = t.where(self._over(_tensor(mask), x.type), x, nothing)
        axes = (*range(rank), *(axis + rank - 1 for axis in parameters["axes"] if axis))
        result = t.emit(name, selected, axes=axes, keepdims=False)
        expected = type_of(operation.results[0].type)
        return result if result.type.rank == expected.rank else t.reshape(result, shape=expected.shape)

    def _over(self, mask: TriValue, type_: TensorType) -> TriValue:
        """Return the mask with axes of size 1 for those that it selects as a whole."""
        ones = (1,) * (type_.rank - mask.type.rank)
        return self.builder.reshape(mask, shape=(*mask.type.shape, *ones)) if ones else mask

    def mask_of(self, value: ir.Value) -> ir.Value | None:
        """Return the mask under which a value was selected, or computed elementwise; None without one."""
        if value not in self.masks:
            self.masks[value] = self._find_mask(value)
        return self.masks[value]

    def _find_mask(self, value: ir.Value) -> ir.Value | None:
        if isinstance(value.owner, ir.Block) or not value.owner.name.startswith("tri."):
            return None
        operation = value.owner.operation
        if operation.name == "tri.compress":
            return operation.operands[1]
        if op_of(operation).scalar is None:
            return None
        by_operand = [(operand, self.mask_of(operand)) for operand in operation.operands]
        masks = [mask for _, mask in by_operand if mask is not None]
        if not masks or any(mask != masks[0] for mask in masks):
            return None
        row_rank = type_of(value.type).rank - 1
        are_alike = all(_is_same_for_all(operand, row_rank) for operand, mask in by_operand if mask is None)
        return masks[0] if are_alike else None

    def dense_of(self, value: ir.Value) -> TriValue:
        """Return the dense tensor that a masked value is a selection of, computed where the value is."""
        if value in self.dense:
            return self.dense[value]
        operation = value.owner.operation
        if operation.name == "tri.compress":
            return _tensor(operation.operands[0])
        with ir.InsertionPoint(operation):
            rank = type_of(value.type).rank
            operands = [self._dense_operand(operand, rank) for operand in operation.operands]
            op = op_of(operation)
            dense = self.builder.emit(op.name, *operands, **attributes.from_mlir(op, operation))
        self.dense[value] = dense
        return dense

    def _dense_operand(self, operand: ir.Value, rank: int) -> TriValue:
        if self.mask_of(operand) is not None:
            return self.dense_of(operand)
        x = _tensor(operand)
        return self.builder.reshape(x, shape=x.type.shape[1:]) if x.type.rank == rank else x


def _tensor(value: ir.Value) -> TriValue:
    return TriValue(value, type_of(value.type))


def _is_same_for_all(operand: ir.Value, row_rank: int) -> bool:
    """Return whether every selected row reads the same elements of an operand."""
    type_ = type_of(operand.type)
    return type_.rank <= row_rank or (type_.rank == row_rank + 1 and type_.shape[0] == 1)


def tri_operations(module: ir.Module) -> list[ir.Operation]:
    """Return every `tri` operation, in program order."""
    return [operation.operation for operation in operations_named(module, "tri.*")]


def decompose_all(module: ir.Module) -> None:
    """Replace every composite operation, until none is left."""
    decompose(module, lambda op, operation: True)


def decompose(module: ir.Module, is_decomposed: Callable[[Op, ir.Operation], bool]) -> None:
    """Replace every composite operation for which `is_decomposed` holds, until none is left."""
    builder = TriBuilder()
    while composites := [
        operation
        for operation in tri_operations(module)
        if (op := op_of(operation)).decompose is not None and is_decomposed(op, operation)
    ]:
        for operation in composites:
            with errors_at(operation):
                _replace(builder, operation)


def _replace(builder: TriBuilder, operation: ir.Operation) -> None:
    op = op_of(operation)
    builder.location = operation.location
    operands = [TriValue(value, type_of(value.type)) for value in operation.operands]
    dtype = operands[0].type.dtype
    with ir.InsertionPoint(operation):
        if dtype.is_half:
            operands = [builder.cast(operand, DTYPES["float32"]) for operand in operands]
        result = op.decompose(builder, *operands, **attributes.from_mlir(op, operation))
        if dtype.is_half:
            result = builder.cast(result, dtype)
    operation.results[0].replace_all_uses_with(result.value)
    operation.erase()
