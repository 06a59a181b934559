"""Merging of values: the type of a name after a branch, or of a loop-carried value.

* Python numbers that differ become run-time numbers of the wider kind.
* A Python number beside a rank-0 tensor takes its dtype, if that holds numbers of its kind.
* Arrays must agree in rank and dtype, and tuples in length. An axis whose sizes differ, or are known at run time only,
  is stored at its largest size, with its actual size as a separate value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.promotion.plan import WEAK_DTYPES
from mlirtri.lowering.core.interface import like, parts_of
from mlirtri.lowering.frontend.semantics.builder import NUMBERS, Language, describe, kind_of
from mlirtri.lowering.frontend.semantics.container_values import Identity, alike, identities, is_container, renewed
from mlirtri.lowering.frontend.semantics.memory_order import ROW_MAJOR, MemoryOrder, merged, order_of
from mlirtri.lowering.frontend.semantics.storage import Storage, first_elements, has_memory, is_array, with_memory

KINDS = ("bool", "int", "float", "complex")
INT64 = DTYPES["int64"]


class MaybeBound(NamedTuple):
    """The value of a name that some path has not assigned, and whether the path that ran did; else it is arbitrary."""

    value: Any
    is_bound: Any
    """A bool, known or run-time."""


def maybe_bound(value: KernelValue) -> MaybeBound:
    """Return the value of a name beside that of a path that may not have assigned it."""
    return value if isinstance(value, MaybeBound) else MaybeBound(value, True)


def unbound(b: Language, value: KernelValue) -> MaybeBound:
    """Return an arbitrary value of the type of `value`, as of a name that is not assigned; raises `Differs`."""
    inner = maybe_bound(value).value
    return MaybeBound(rebuilt(inner, iter([_arbitrary(b, leaf) for leaf in flat(inner)])), False)


def _arbitrary(b: Language, leaf: Any) -> Any:
    return zeros(b, kind(leaf)) if isinstance(leaf, TriValue) else leaf


def zeros(b: Language, target: Kind) -> TriValue:
    """Return zeros of a kind, an array with memory of its own where the kind is an array's."""
    zero = b.full(target.type.shape, 0, target.type.dtype)
    return owned(TriValue(zero.value, zero.type, target.weak), target)


class Differs(Exception):
    """The error that two values have no common type; the message says why."""


@dataclass(frozen=True)
class Kind:
    """The run-time representation of a value: one tensor, and an actual size for each varying axis."""

    type: TensorType
    """Static, but for sizes that the arguments' sizes decide; varying axes have their largest size."""
    weak: bool = False
    varying: tuple[int, ...] = ()
    is_array: bool | None = True
    """Whether it can be written in place; None where it is a number or a rank-0 array, known at run time only."""
    order: MemoryOrder = ROW_MAJOR
    """How the library lays it out."""

    @property
    def types(self) -> list[TensorType]:
        return [self.type, *[TensorType((), INT64)] * len(self.varying)]


@dataclass(frozen=True)
class Known:
    """The representation of what is known while compiling: of a text in a dict, of an array that stays where it is."""

    value: Any
    types: tuple[TensorType, ...] = ()


def is_number(value: object) -> bool:
    return isinstance(value, NUMBERS)


def is_value(value: object) -> bool:
    """Return whether a value can exist at run time: a tensor, a number, or a tuple, list or dict of these."""
    if is_container(value):
        return all(map(is_value, parts_of(value)))
    return isinstance(value, TriValue) or is_number(value)


def is_carried(value: object) -> bool:
    """Return whether a value has parts that can exist at run time, all of it or some elements of a list or dict."""
    if isinstance(value, (list, dict)):
        return any(map(is_carried, parts_of(value)))
    return is_value(value)


def is_same_view(x: KernelValue, y: KernelValue) -> TypeGuard[TriValue]:
    """Return whether two values are one view of one array, whose content may differ."""
    if not has_memory(x) or not has_memory(y):
        return False
    return x.origin.storage is y.origin.storage and x.origin.steps == y.origin.steps


def common_leaf(x: KernelValue, y: KernelValue) -> Kind | Known:
    """Return the representation of an element after a branch: of one that is no value of run time, if it is the same.

    Raises `Differs`.
    """
    if is_same_view(x, y):
        return Known(replace(x, origin=replace(x.origin, version=-1)))
    if not is_value(x) and same(x, y):
        return Known(x)
    return common(kind(x), kind(y))


def same(x: object, y: object) -> bool:
    """Return whether two values are known to be the same."""
    if is_container(x) and is_container(y):
        return alike(x, y) and all(map(same, parts_of(x), parts_of(y)))
    if isinstance(x, TriValue) or isinstance(y, TriValue):
        return isinstance(x, TriValue) and isinstance(y, TriValue) and x == y
    return x is y or (type(x) is type(y) and not isinstance(x, (float, complex)) and bool(x == y))


def holders(names: Mapping[str, KernelValue], identity: Identity) -> list[str]:
    """Return the names whose values hold a list or dict."""
    return [name for name, value in names.items() if identity in identities(value)]


def joined(merged: KernelValue, x: KernelValue, y: KernelValue, is_shared: Callable[[Identity], bool]) -> KernelValue:
    """Return `merged`, whose lists and dicts may be either those of x or those of y; shared ones do not change then."""
    pairs = list(zip(identities(x), identities(y), strict=True))
    if all(first is second for first, second in pairs):
        return merged
    either = any(is_shared(identity) for pair in pairs for identity in pair if pair[0] is not pair[1])
    return renewed(merged, EITHER if either else None)


EITHER = "it may be the list or dict of another name, depending on what ran"
"""Why a list or dict that has another name on some path does not change."""


def kind(value: KernelValue) -> Kind:
    """Return the kind of a value; raises `Differs` for one that cannot exist at run time."""
    if is_number(value):
        return Kind(TensorType((), WEAK_DTYPES[type(value).__name__]), weak=True, is_array=False)
    if not isinstance(value, TriValue):
        raise Differs(f"{describe(value)}, which is known at compile time only")
    varying = tuple(axis for axis, size in enumerate(value.type.shape) if not Size.of(size).is_fixed)
    bounds = [_bound(value, size) for size in value.type.shape]
    may_be_number = has_memory(value) and value.origin.storage.may_be_number
    is_written = None if may_be_number else is_array(value)
    return Kind(value.type.with_shape(bounds), value.weak, varying, is_written, order_of(value))


def _bound(value: TriValue, size: int | Size) -> int | Size:
    most = Size.of(size).most_fixed()
    if most is None:
        raise Differs(f"{describe(value)}, whose size {size} has no bound known before the kernel runs")
    return max(0, most.constant) if most.is_constant else most


def common(x: Kind, y: Kind, growing: bool = False) -> Kind:
    """Return the common kind of both; raises `Differs`.

    `growing`: y follows x in a loop, so x may be cast in the first iteration as NumPy would.
    """
    if x.type.rank != y.type.rank:
        if growing and x.weak and _holds(x, y):
            return y
        raise Differs(f"{described(x)} and {described(y)}")
    return replace(
        _one_shape(x, y, growing),
        type=TensorType(_sizes(x, y), _dtype(x, y, growing)),
        weak=x.weak and y.weak,
        is_array=x.is_array if x.is_array == y.is_array else None,
        order=merged(x.order, y.order),
    )


def _one_shape(x: Kind, y: Kind, growing: bool) -> Kind:
    pairs = enumerate(zip(x.type.shape, y.type.shape, strict=True))
    varying = {axis for axis, (a, b) in pairs if a != b} | {*x.varying, *y.varying}
    if varying and not (growing or x.varying or y.varying):
        # Static sizes that differ between branches are most often a mistake.
        raise Differs(f"{described(x)} and {described(y)}")
    return replace(x, varying=tuple(sorted(varying)))


def _sizes(x: Kind, y: Kind) -> tuple[int | Size, ...]:
    return tuple(_larger(x, y, a, b) for a, b in zip(x.type.shape, y.type.shape, strict=True))


def _larger(x: Kind, y: Kind, size: int | Size, other: int | Size) -> int | Size:
    difference = Size.of(size) - other
    least, most = difference.least(), difference.most()
    if least is not None and least >= 0:
        return size
    if most is not None and most <= 0:
        return other
    raise Differs(f"{described(x)} and {described(y)}, of which the larger one is not known")


def _dtype(x: Kind, y: Kind, growing: bool) -> DType:
    if x.type.dtype == y.type.dtype:
        return x.type.dtype
    if x.weak and y.weak:
        return max((x.type.dtype, y.type.dtype), key=_level)
    if x.weak and _holds(x, y):
        return y.type.dtype
    if y.weak and _holds(y, x):
        return x.type.dtype
    if growing and _widens(x.type.dtype, y.type.dtype):
        return y.type.dtype
    raise Differs(f"{described(x)} and {described(y)}")


def _level(dtype: DType) -> int:
    return KINDS.index(kind_of(TriValue(None, TensorType((), dtype))))


def _holds(weak: Kind, strong: Kind) -> bool:
    return _level(weak.type.dtype) <= _level(strong.type.dtype)


def _widens(narrow: DType, wide: DType) -> bool:
    try:
        return bool(np.result_type(narrow.numpy, wide.numpy) == wide.numpy)
    except TypeError:
        return False


def described(x: Kind | Known) -> str:
    """Return a kind as error messages print it."""
    if isinstance(x, Known):
        return describe(x.value)
    if x.weak:
        return f"a Python {kind_of(TriValue(None, x.type))}"
    return f"a tensor {x.type}"


def packed(b: Language, value: KernelValue, target: Kind | Known, into: TriValue | None = None) -> list[TriValue]:
    """Return a value as tensors of a kind; `into` is a buffer of its largest size that may be overwritten."""
    if isinstance(target, Known):
        return []
    if not isinstance(value, TriValue):
        return [b.full(target.type.shape, value, target.type.dtype)] + _counts(b, target, target.type.shape)
    result = b.tri.cast(value, target.type.dtype)
    if result.type.rank != target.type.rank:
        result = b.broadcast_to(result, target.type.shape)
    if not target.varying:
        return [TriValue(result.value, target.type)]
    sizes = result.type.shape
    buffer = into or b.full(target.type.shape, 0, target.type.dtype)
    if sizes != target.type.shape:
        result = first_elements(b.tri, sizes).write(b.tri, buffer, result)
    return [TriValue(result.value, target.type), *_counts(b, target, sizes)]


def unpacked(b: Language, target: Kind | Known, values: Iterator[TriValue]) -> KernelValue:
    """Return the value of a kind from its tensors."""
    if isinstance(target, Known):
        return target.value
    buffer = next(values)
    if not target.varying:
        return owned(TriValue(buffer.value, target.type, target.weak), target)
    sizes: list[int | Size] = list(target.type.shape)
    for axis in target.varying:
        symbol = b.indices.symbol(next(values), "n", Size.of(0), Size.of(sizes[axis]))
        sizes[axis] = Size.of(symbol)
    return first_elements(b.tri, sizes).read(b.tri, buffer)


def owned(value: TriValue, target: Kind) -> TriValue:
    """Return a value of a kind with memory of its own if that is, or may be, an array."""
    if target.is_array is False:
        return value
    result = with_memory(replace(value, order=target.order), 0)
    if has_memory(result):
        result.origin.storage.may_be_number = target.is_array is None
    return result


def _counts(b: Language, target: Kind, sizes: Any) -> list[TriValue]:
    return [b.tri.index(sizes[axis]) for axis in target.varying]


def flat(value: KernelValue) -> list[KernelValue]:
    """Return the tensors and numbers of a value, in order."""
    return [leaf for part in parts_of(value) for leaf in flat(part)] if is_container(value) else [value]


def aliases(value: object, storage: Storage) -> bool:
    """Return whether a leaf of a value is a view of this memory."""
    return any(has_memory(leaf) and leaf.origin.storage is storage for leaf in flat(value))


def rebuilt(value: KernelValue, leaves: Iterator[KernelValue]) -> KernelValue:
    """Return a value of the same structure with other leaves."""
    if is_container(value):
        return like(value, [rebuilt(part, leaves) for part in parts_of(value)])
    return next(leaves)
