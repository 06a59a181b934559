"""Join the conditions on the fields of DLTensors into few comparisons of eight bytes, which LLVM compiles fast.

A DLTensor's words are, by DLPack's layout: its address; device type and number; rank and dtype; the addresses of its
sizes and of its strides; its byte offset. Fields of one word are compared with one constant, as a little-endian CPU
reads them. All words together differ by ``(word ^ expected) | …``, which is zero where each is as expected: a tree of
``and`` over comparisons takes LLVM twice the time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mlirtri.lowering.tir.statements import operator_name
from mlirtri.lowering.toolchain.tvm_names import Expr, address_of, tirx

_RANK, _CODE, _BITS, _LANES, _OFFSET, _DEVICE_NUMBER, _DEVICE_TYPE, _ELEMENT = 4, 5, 6, 7, 8, 9, 10, 17
"""TVM's numbers of struct fields. The last one is "int64 of an array"."""
_SHIFTS = {_RANK: 0, _CODE: 32, _BITS: 40, _LANES: 48}
"""The bits at which fields start in the word of rank and dtype."""
_DEVICE_WORD, _RANK_WORD, _OFFSET_WORD = 1, 2, 5
_DL_TENSOR, _TENSOR = 7, 70
"""What `tvm_ffi` calls an argument that points to a DLTensor, and one that is an object which holds a DLTensor."""


def field_of(expression: Expr) -> Expr | None:
    """Return an expression that reads a field of a struct; None for others."""
    return expression if operator_name(expression) == "tirx.tvm_struct_get" else None


def word(pointer: Expr, number: int) -> Expr:
    """Return the expression of eight bytes that a pointer leads to."""
    return tirx.call_intrin("int64", "tirx.tvm_struct_get", pointer, number, _ELEMENT)


def joined(conditions: Iterable[Expr]) -> list[Expr]:
    """Return fewer conditions that hold together where all of `conditions` do."""
    words = _Words()
    rest = [words.without(part) for whole in conditions for part in _parts(whole)]
    return [*(condition for condition in rest if condition is not None), *words.conditions()]


class _Words:
    """The words that tensors must have, by what conditions say of fields."""

    def __init__(self) -> None:
        self._terms: list[Any] = []
        """Each is zero where a condition holds."""
        self._fields: dict[int, dict[int, Any]] = {}
        """By a tensor's address: the conditions that a field is a number."""

    def without(self, condition: Any) -> Any:
        """Return the condition, or a shorter one; None for one that is noted."""
        if isinstance(condition, tirx.Or) and isinstance(condition.b, tirx.GE):
            # TVM's condition on an argument's kind, which every object meets.
            kind = condition.b.a
            return tirx.Or(tirx.EQ(kind, _int32(_TENSOR)), tirx.EQ(kind, _int32(_DL_TENSOR)))
        field, value = _field_and_value(condition)
        return condition if field is None or not self._is_noted(condition, field, value) else None

    def _is_noted(self, condition: Any, field: Any, value: Any) -> bool:
        kind, tensor = int(field.args[2]), field.args[0]
        number = value.value if isinstance(value, tirx.IntImm) else None
        if kind == _ELEMENT and str(value.ty) == str(field.ty):
            self._terms.append(_difference(field, value))
        elif kind == _DEVICE_NUMBER:
            # The CPU has one number; the condition on the type is noted on its own.
            pass
        elif kind == _OFFSET and number == 0:
            self._terms.append(word(tensor, _OFFSET_WORD))
        elif number is not None and kind in (*_SHIFTS, _DEVICE_TYPE):
            self._fields.setdefault(address_of(tensor), {})[kind] = condition
        else:
            return False
        return True

    def conditions(self) -> list[Any]:
        """Return the conditions on the words."""
        apart, terms = [], list(self._terms)
        for fields in self._fields.values():
            if len(fields) <= len(_SHIFTS):
                apart += fields.values()
                continue
            numbers = {kind: _field_and_value(condition) for kind, condition in fields.items()}
            tensor, device = numbers[_DEVICE_TYPE][0].args[0], numbers[_DEVICE_TYPE][1].value
            kind_and_rank = sum(numbers[kind][1].value << shift for kind, shift in _SHIFTS.items())
            terms.append(_difference(word(tensor, _DEVICE_WORD), _int64(device)))
            terms.append(_difference(word(tensor, _RANK_WORD), _int64(kind_and_rank)))
        return [*apart, tirx.EQ(tree_of(operator.or_, terms), _int64(0))] if terms else apart


def tree_of(combine: Callable[[Expr, Expr], Expr], parts: Sequence[Expr]) -> Expr:
    """Return a balanced tree over all parts: functions may have hundreds of tensors, and TVM recurses."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return combine(tree_of(combine, parts[:middle]), tree_of(combine, parts[middle:]))


def _parts(condition: Any) -> Iterator[Any]:
    if isinstance(condition, tirx.And):
        yield from _parts(condition.a)
        yield from _parts(condition.b)
    else:
        yield condition


def _field_and_value(condition: Any) -> tuple[Any, Any]:
    if not isinstance(condition, tirx.EQ):
        return None, None
    pairs = ((condition.a, condition.b), (condition.b, condition.a))
    return next(((field, value) for field, value in pairs if field_of(field) is not None), (None, None))


def _difference(value: Any, expected: Any) -> Any:
    is_zero = isinstance(expected, tirx.IntImm) and expected.value == 0
    return value if is_zero else value ^ expected


def _int32(value: int) -> Any:
    return tirx.IntImm("int32", value)


def _int64(value: int) -> Any:
    return tirx.IntImm("int64", value)
