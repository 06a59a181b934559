"""Elements of tuples and lists at a position of run time: the list becomes a table, whose rows are its elements.

    (1, 0, -1)[k]      ──►   numpy.array([1, 0, -1])[k], as a Python int
    [a[0], b][k]       ──►   numpy.stack([a[0], b])[k], which is not written

Elements are of one kind: numbers of one type, arrays of one shape and dtype, or tuples of these. A position outside
raises `IndexError` after the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlirtri.dialect.builder import TriValue
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.core.interface import like, parts_of
from mlirtri.lowering.frontend.indexing.reads import element
from mlirtri.lowering.frontend.semantics.builder import NUMBERS, Language, describe
from mlirtri.lowering.frontend.semantics.container_values import alike, is_container
from mlirtri.lowering.frontend.semantics.merging import kind
from mlirtri.lowering.frontend.semantics.storage import as_new_array, either


def chosen(b: Language, values: Sequence[Any], index: TriValue) -> Any:
    """Return the element at a position of run time; raises `KernelTypeError` for elements of several kinds."""
    if not values:
        raise KernelTypeError(f"{describe(values)} is empty", help="index what has elements")
    first = values[0]
    if is_container(first) and all(alike(first, value) for value in values):
        columns = zip(*map(parts_of, values), strict=True)
        return like(first, [chosen(b, column, index) for column in columns])
    if len({_kind(value) for value in values}) > 1 or _kind(first) is None:
        raise KernelTypeError(
            f"which element of {describe(values)} is known at run time only, and they are not of one type and shape",
            help="give them one type and shape, such as 1.0 beside 2.5, or write `if` and `elif`",
        )
    if isinstance(first, TriValue):
        table = b.stack(tuple(map(as_new_array, values)), 0)
        return either(replace(element(b, table, (index,)), weak=first.weak), values, "an element of a list")
    dtype = kind(first).type.dtype
    for value in values:
        b.check_fits(value, dtype)
    table = b.literal(values, (len(values),), dtype)
    return replace(element(b, table, (index,)), weak=True, origin=None)


def _kind(value: Any) -> Any:
    """Return what has to be equal for two elements to have one place in a table; None for what has none."""
    if isinstance(value, TriValue):
        return value.type, value.weak
    return type(value) if isinstance(value, NUMBERS) else None
