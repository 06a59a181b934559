"""Convert an `Interface` to and from the JSON of a dump's manifest."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import astuple
from pathlib import Path
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype, find_stored
from mlirtri.dialect.base.sizes import UNKNOWN, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, ParseError, Span, error_class, name_of_error
from mlirtri.lowering.core.interface import (
    Interface,
    Leaf,
    PrintLog,
    PrintSite,
    RuntimeCheck,
    TensorParameter,
    like,
    parts_of,
)
from mlirtri.lowering.core.size_program import Condition, SizeProgram, SizeStep


def to_json(interface: Interface | None) -> dict[str, Any] | None:
    """Return parameters, result types, the nesting of results, and run-time checks; None if untyped."""
    if interface is None:
        return None
    return {
        "parameters": [_parameter_json(parameter) for parameter in interface.parameters],
        "results": [_type_json(leaf) for leaf in interface.leaves],
        "tree": _tree_json(interface.tree),
        "checks": [
            {
                "index": check.index,
                "error": name_of_error(check.error),
                "message": check.message,
                "span": _span_json(check.span),
                "code": check.code,
            }
            for check in interface.checks
        ],
        "updates": [list(pair) for pair in interface.updates],
        "log": _log_json(interface.log),
        "ordered": list(interface.ordered),
        "bound": [_parameter_json(parameter) for parameter in interface.bound],
        "states": [list(pair) for pair in interface.states],
        "numbers": list(interface.numbers),
        "signless": list(interface.signless),
        "signless_results": list(interface.signless_results),
        "sizes": size_program_json(interface.sizes),
    }


def from_json(data: dict[str, Any], path: Path) -> Interface:
    """Return the interface that `to_json` wrote; raises `ParseError` for anything else."""
    try:
        results = tuple(_type_of_json(type_data) for type_data in data["results"])
        checks = tuple(
            RuntimeCheck(
                c["index"], error_class(c["error"]), c["message"], Span(*c["span"]) if c["span"] else None, c["code"]
            )
            for c in data["checks"]
        )
        return Interface(
            tuple(map(_parameter_of_json, data["parameters"])),
            results,
            _tree_of_json(data["tree"], results),
            checks,
            tuple((parameter, result) for parameter, result in data["updates"]),
            _log_of_json(data["log"]),
            tuple(data["ordered"]),
            tuple(map(_parameter_of_json, data["bound"])),
            tuple((bound, result) for bound, result in data["states"]),
            tuple(data["numbers"]),
            # Dumps of earlier versions do not have these.
            tuple(data.get("signless", ())),
            tuple(data.get("signless_results", ())),
            sizes=size_program_of_json(data["sizes"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, KernelError):
        raise ParseError("the interface in this manifest is not one", Span(str(path), 1, 1), help="remove it") from None


def _parameter_json(parameter: TensorParameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": _type_json(parameter.type),
        "weak": parameter.weak,
        "number": parameter.number,
        "memory": parameter.is_memory,
        "strides": None if parameter.strides is None else list(parameter.strides),
    }


def _parameter_of_json(data: dict[str, Any]) -> TensorParameter:
    strides = None if data["strides"] is None else tuple(data["strides"])
    type_ = _type_of_json(data["type"])
    return TensorParameter(data["name"], type_, data["weak"], data["number"], data["memory"], strides)


def _type_json(type_: TensorType) -> list[Any]:
    return [type_.dtype.name, *(None if is_dynamic(size) else size for size in type_.shape)]


def _type_of_json(data: list[Any]) -> TensorType:
    return TensorType(
        tuple(UNKNOWN if size is None else size for size in data[1:]), find_stored(data[0]) or as_dtype(data[0])
    )


def _span_json(span: Span | None) -> list[Any] | None:
    return [span.file, span.line, span.column, span.end_line, span.end_column] if span else None


def _log_json(log: PrintLog | None) -> dict[str, Any] | None:
    if log is None:
        return None
    sites = [
        {"span": _span_json(site.span), "parts": [p if isinstance(p, str) else _type_json(p) for p in site.parts]}
        for site in log.sites
    ]
    return {"index": log.index, "count": log.count, "sites": sites}


def _log_of_json(data: dict[str, Any] | None) -> PrintLog | None:
    if data is None:
        return None
    sites = []
    for site in data["sites"]:
        parts = tuple(p if isinstance(p, str) else _type_of_json(p) for p in site["parts"])
        sites.append(PrintSite(Span(*site["span"]) if site["span"] else None, parts))
    return PrintLog(data["index"], data["count"], tuple(sites))


def _tree_json(tree: Any) -> Any:
    if isinstance(tree, Leaf):
        if not tree.counts and not tree.is_array:
            return tree.index
        return {"leaf": tree.index, "counts": [list(pair) for pair in tree.counts], "array": tree.is_array}
    if tree is None:
        return None
    parts = [_tree_json(part) for part in parts_of(tree)]
    if isinstance(tree, dict):
        return {"dict": list(tree), "parts": parts}
    if hasattr(tree, "_fields"):
        return {"name": type(tree).__name__, "fields": list(tree._fields), "parts": parts}
    return {"list" if isinstance(tree, list) else "tuple": parts}


def _tree_of_json(data: Any, results: tuple[TensorType, ...]) -> Any:
    if isinstance(data, int):
        return Leaf(data, results[data])
    if data is None:
        return None
    if "leaf" in data:
        counts = tuple((axis, result) for axis, result in data["counts"])
        return Leaf(data["leaf"], results[data["leaf"]], counts, data.get("array", False))
    if "fields" in data:
        parts = [_tree_of_json(part, results) for part in data["parts"]]
        return namedtuple(data["name"], data["fields"])(*parts)
    if "dict" in data:
        return like(dict.fromkeys(data["dict"]), [_tree_of_json(part, results) for part in data["parts"]])
    [(kind, parts)] = data.items()
    return {"tuple": tuple, "list": list}[kind](_tree_of_json(part, results) for part in parts)


def size_program_json(program: SizeProgram | None) -> dict[str, Any] | None:
    """Return the JSON of a size program."""
    if program is None:
        return None
    return {
        "steps": [[step.name, step.kind, list(step.operands), list(step.literals)] for step in program.steps],
        "sizes": [list(size) for size in program.sizes],
        "conditions": [
            [
                condition.left,
                condition.relation,
                condition.right,
                condition.why,
                list(astuple(condition.span)) if condition.span else None,
                condition.error,
            ]
            for condition in program.conditions
        ],
    }


def size_program_of_json(data: dict[str, Any] | None) -> SizeProgram | None:
    """Return the size program that `size_program_json` wrote."""
    if data is None:
        return None
    steps = tuple(
        SizeStep(name, kind, tuple(operands), tuple(literals)) for name, kind, operands, literals in data["steps"]
    )
    conditions = tuple(
        Condition(left, relation, right, why, Span(*span) if span else None, error)
        for left, relation, right, why, span, error in data["conditions"]
    )
    return SizeProgram(steps, tuple((result, axis, step) for result, axis, step in data["sizes"]), conditions)
