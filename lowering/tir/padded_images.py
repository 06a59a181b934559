"""Images of convolutions that are padded where they are read.

A padded operand is ``if_then_else(0 <= h and h < 56 and …, x[n, c, h, w], 0)``, perhaps converted to fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlirtri.lowering.tir.linear_forms import Linear, linear
from mlirtri.lowering.tir.statements import operator_name
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    Node,
    TensorLoad,
    structural_equal,
    structural_map,
    tirx,
)


@dataclass(frozen=True)
class Padded:
    """An element of a tensor that is padded with a constant."""

    load: TensorLoad
    """The element, where the indices are inside of the tensor."""
    value: Expr
    """The constant."""
    guarded: frozenset[int]
    """The dimensions that are padded."""
    operand: Expr
    """The element as the contraction uses it, perhaps in a wider dtype."""

    @property
    def dtype(self) -> str:
        return str(self.operand.ty.dtype)

    def padding(self) -> Expr:
        """Return the constant in the dtype of the operand."""
        return tirx.const(self.value.value, self.dtype)

    def element(self, indices: Sequence[Expr]) -> Expr:
        """Return the tensor's element at some indices, in the dtype of the operand."""
        return with_core(self.operand, tirx.BufferLoad(self.load.source, indices))


def core_of(operand: Expr) -> Expr:
    """Return the fp16 or bf16 expression that an operand widens to fp32; any other operand itself."""
    core = operand
    while (inner := _converted(core)) is not None:
        core = inner
    is_wider = str(operand.ty.dtype) == "float32" and str(core.ty.dtype) in ("float16", "bfloat16")
    return core if is_wider else operand


def _converted(value: Expr) -> Expr | None:
    """Return the operand of a conversion, else None; bf16 bits are the upper half of an fp32's."""
    if isinstance(value, tirx.Cast):
        return value.value
    if isinstance(value, tirx.LShift):
        return value.a
    return value.args[0] if _is_call(value, "reinterpret") else None


def with_core(operand: Expr, core: Expr) -> Expr:
    """Return the operand with `core` in place of the result of `core_of`."""
    if operand.same_as(core_of(operand)):
        return core
    return structural_map(operand, (type(core_of(operand)), _exchanged(core_of(operand), core)), order="post")


def _exchanged(old: Expr, new: Expr) -> Callable[[Expr], Expr]:
    return lambda node: new if structural_equal(node, old) else node


def _is_call(node: Node, name: str) -> bool:
    return operator_name(node).endswith(f".{name}")


def without_padding(load: Expr) -> Padded:
    """Return a load, perhaps widened, as a `Padded` tensor without padding."""
    return Padded(core_of(load), tirx.const(0, str(core_of(load).ty.dtype)), frozenset(), load)


def padded(operand: Expr) -> Padded | None:
    """Return the operand as a padded tensor; None where its condition is no plain bounds check."""
    chosen = core_of(operand)
    if not _is_call(chosen, "if_then_else"):
        return None
    condition, load, value = chosen.args
    if not isinstance(load, TensorLoad) or not isinstance(value, tirx.FloatImm | tirx.IntImm):
        return None
    if not chosen.same_as(operand) and value.value != 0:  # the conversions are not evaluated here
        return None
    forms = [linear(position, {}) for position in load.indices]
    sizes = [size.value if isinstance(size, tirx.IntImm) else None for size in load.source.ty.shape]
    dimensions = [_dimension_inside(comparison, forms, sizes) for comparison in _conditions(condition)]
    guarded = frozenset(dimension for dimension in dimensions if dimension is not None)
    return None if None in dimensions else Padded(load, value, guarded, operand)


def linear_indices(load: TensorLoad) -> list[Linear] | None:
    """Return the indices of a load as linear forms; None where one has none."""
    forms = [linear(position, {}) for position in load.indices]
    return None if None in forms else [form for form in forms if form is not None]


def _conditions(condition: Expr) -> list[Expr]:
    if isinstance(condition, tirx.And):
        return _conditions(condition.a) + _conditions(condition.b)
    return [condition]


def _dimension_inside(condition: Expr, forms: Sequence[Linear | None], sizes: Sequence[int | None]) -> int | None:
    """Return the dimension whose index a comparison bounds by 0 or by its size; None for any other condition."""
    sides = (condition.a, condition.b) if isinstance(condition, tirx.GE | tirx.LT) else None
    if isinstance(condition, tirx.LE | tirx.GT):
        sides = (condition.b, condition.a)
    left, right = (linear(side, {}) for side in sides or (None, None))
    if left is None or right is None:
        return None
    is_lower = isinstance(condition, tirx.GE | tirx.LE)
    for dimension, (form, size) in enumerate(zip(forms, sizes, strict=True)):
        limit = 0 if is_lower else size
        if form is not None and limit is not None and form.plus(-limit) == left - right:
            return dimension
    return None
