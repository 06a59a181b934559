"""What an imported function says of itself in attributes (`lowering/mlir/attributes.py`), as part of its `Interface`.

Takes the function and the interface of its bare types. Gives it with bound arguments apart, without checks and states
among the results, and with the dtypes that Python sees. Refuses nothing: the rooms of importers wrote the attributes.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlirtri import errors
from mlirtri.dialect.base.dtypes import as_dtype, find_stored
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import Span
from mlirtri.lowering.core.interface import Interface, Leaf, RuntimeCheck


def with_facts(function: Any, interface: Interface) -> Interface:
    """The interface of `function`, a `func.func` or what became of one; others say nothing."""
    from mlirtri.lowering.mlir.attributes import (
        BOUND,
        DTYPE,
        LENGTHS,
        NUMBER,
        STATE,
        argument_attributes,
        result_attributes,
    )

    if function.operation.name != "func.func":
        return interface
    results = result_attributes(function)
    arguments = argument_attributes(function)[: len(interface.parameters)]
    bound = [each[BOUND].value for each in arguments if BOUND in each]
    parameters = [
        replace(parameter, type=_as_seen(parameter.type, each.get(DTYPE)))
        for parameter, each in zip(interface.parameters, arguments, strict=True)
    ]
    # Of a bufferized function the results are arguments: what was said of them is in no attribute.
    leaves = [
        _as_seen(leaf, each.get(DTYPE))
        for leaf, each in zip(interface.leaves, _padded(results, interface), strict=True)
    ]
    checks = _checks(function, results)
    states = tuple((bound.index(each[STATE].value), at) for at, each in enumerate(results) if STATE in each)
    count = len(parameters) - len(bound)
    counts = {at: _pairs(list(each[LENGTHS])) for at, each in enumerate(results) if LENGTHS in each}
    hidden = {*(check.index for check in checks), *(at for _, at in states), *dict(interface.updates).values()}
    hidden |= {result for pairs in counts.values() for _, result in pairs}
    return replace(
        interface,
        parameters=tuple(parameters[:count]),
        bound=tuple(replace(each, name=name) for each, name in zip(parameters[count:], bound, strict=True)),
        leaves=tuple(leaves),
        tree=_tree([Leaf(at, of, counts.get(at, ())) for at, of in enumerate(leaves) if at not in hidden]),
        checks=checks,
        states=states,
        numbers=tuple(at for at, each in enumerate(results) if NUMBER in each),
    )


def error_class(name: str) -> type[Exception]:
    """The class of that name, ours or Python's; raises `AttributeError`."""
    return getattr(errors, name, None) or getattr(builtins, name)


def _checks(function: Any, results: Sequence[dict[str, Any]]) -> tuple[RuntimeCheck, ...]:
    from mlirtri.dialect.bindings.locations import span_of
    from mlirtri.lowering.mlir.attributes import CHECK, PLACE

    checks = []
    for at, each in enumerate(results):
        if CHECK in each:
            name, _, message = each[CHECK].value.partition(": ")
            span = _span(each[PLACE].value) if PLACE in each else span_of(function.location)
            checks.append(RuntimeCheck(at, error_class(name), message, span))
    return tuple(checks)


def _span(place: str) -> Span:
    file, line, column = place.rsplit(":", 2)
    return Span(file, int(line), int(column))


def _pairs(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _as_seen(of: TensorType, dtype: Any) -> TensorType:
    return of if dtype is None else of.with_dtype(find_stored(dtype.value) or as_dtype(dtype.value))


def _padded(results: list[dict[str, Any]], interface: Interface) -> list[dict[str, Any]]:
    return results if len(results) == len(interface.leaves) else [{} for _ in interface.leaves]


def _tree(leaves: Sequence[Leaf]) -> Any:
    if not leaves:
        return None
    return leaves[0] if len(leaves) == 1 else tuple(leaves)
