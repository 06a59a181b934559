"""Values that are one of two: what a name holds after a branch, and what a loop carries from turn to turn.

Takes what the frontend binds to names: tensors, Python numbers, tuples of them, and other things known now.
Gives tensors of one type for both sides, by the rules below, or the sentence why there is none.

* Python numbers that differ become numbers of run time: of the wider kind.
* A Python number beside a tensor of rank 0 takes its dtype, if that holds numbers of its kind.
* Arrays agree in shape and dtype; tuples in length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.dialect.promotion_plan import WEAK_DTYPES
from mlirtri.lowering.language import Language, describe
from mlirtri.lowering.tri_builder import Tensor

KINDS = ("bool", "int", "float", "complex")


class Differs(Exception):
    """Two values that are not of one type; the message says how."""


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def is_value(value: Any) -> bool:
    """Whether it may exist at run time: a tensor, a number, or a tuple of such."""
    if isinstance(value, (tuple, list)):
        return all(map(is_value, value))
    return isinstance(value, Tensor) or is_number(value)


def same(x: Any, y: Any) -> bool:
    """Whether two values are known to be the same."""
    if isinstance(x, (tuple, list)):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return isinstance(x, Tensor) and isinstance(y, Tensor) and x == y
    return x is y or (type(x) is type(y) and not isinstance(x, float) and bool(x == y))


def common(x: Any, y: Any, growing: bool = False) -> Tensor:
    """A tensor of the type that both have (its value says nothing); raises `Differs`.

    `growing`: y comes after x in a loop, so x may be cast as NumPy would in the first turn.
    """
    a, b = typed(x), typed(y)
    if a.type == b.type and a.weak == b.weak:
        return replace(a, linear=None, origin=None)
    if a.weak and b.weak:
        wider = max((a, b), key=lambda each: KINDS.index(kind_of(each)))
        return replace(wider, linear=None)
    if a.type == b.type:
        return replace(a, weak=False, linear=None, origin=None)
    if a.weak or b.weak:
        weak, strong = (a, b) if a.weak else (b, a)
        holds = KINDS.index(kind_of(weak)) <= KINDS.index(kind_of(strong))
        if holds and (strong.type.rank == 0 or (growing and weak is a and is_number(x))):
            return replace(strong, linear=None, origin=None)
    elif a.type.shape == b.type.shape and growing and _widens(a, b):
        return replace(b, origin=None)
    raise Differs(f"{describe(x)} and {describe(y)}")


def _widens(a: Tensor, b: Tensor) -> bool:
    import numpy as np

    try:
        return bool(np.result_type(a.type.dtype.numpy, b.type.dtype.numpy) == b.type.dtype.numpy)
    except TypeError:
        return False


def typed(value: Any) -> Tensor:
    """A number as the tensor it would be, without a value."""
    if isinstance(value, Tensor):
        return value
    if is_number(value):
        from mlirtri.dialect.types import TensorType

        return Tensor(None, TensorType((), WEAK_DTYPES[type(value).__name__]), weak=True)
    raise Differs(f"{describe(value)}, which is known at compile time only")


def kind_of(value: Tensor) -> str:
    dtype = value.type.dtype
    return "bool" if dtype.is_bool else "int" if dtype.is_integer else "float" if dtype.is_float else "complex"


def converted(b: Language, value: Any, wanted: Tensor) -> Tensor:
    """A value as the common type has it."""
    if not isinstance(value, Tensor):
        made = b.tri.constant(value, wanted.type.dtype, wanted.type.shape)
    else:
        made = b.tri.cast(value, wanted.type.dtype)
        if made.type.shape != wanted.type.shape:
            made = b.broadcast_to(made, wanted.type.shape)
    return Tensor(made.value, wanted.type, wanted.weak)


def flat(value: Any) -> list[Any]:
    """The tensors and numbers of a value, in order."""
    return [each for part in value for each in flat(part)] if isinstance(value, (tuple, list)) else [value]


def rebuilt(value: Any, leaves: Any) -> Any:
    """A value of the same structure with other leaves, from an iterator."""
    if isinstance(value, (tuple, list)):
        parts = [rebuilt(each, leaves) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return next(leaves)
