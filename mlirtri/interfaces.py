"""How to call IR that did not come from Python: an `Interface` read off a module, or off a dump's manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlirtri.dialect.dtypes import as_dtype
from mlirtri.dialect.types import TensorType
from mlirtri.errors import ParseError, Span
from mlirtri.lowering.specialization import Interface, Leaf, RuntimeCheck, TensorParameter


def interface_of(kind: str, ir: Any, path: Path) -> tuple[str, Interface]:
    """The function's name and interface; the manifest beside a dumped file knows more than the module does."""
    name, interface = _of_mlir(ir, path) if kind == "mlir" else _of_relax(ir, path)
    manifest = path.parent / "manifest.json"
    if manifest.is_file():
        recorded = json.loads(manifest.read_text())
        if recorded.get("kernel") == name:
            return name, from_json(recorded["interface"])
    return name, interface


def _interface(parameters: list[TensorParameter], results: list[TensorType]) -> Interface:
    leaves = tuple(Leaf(index, of) for index, of in enumerate(results))
    tree = None if not leaves else leaves[0] if len(leaves) == 1 else leaves
    return Interface(tuple(parameters), tuple(results), tree)


def _of_mlir(module: Any, path: Path) -> tuple[str, Interface]:
    from mlirtri.dialect.definition import type_of
    from mlirtri.dialect.locations import name_of

    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(functions) != 1:
        raise ParseError(f"expected a module of one function, found {len(functions)}", Span(str(path), 1, 1))
    [function] = functions
    block = function.regions[0].blocks[0]
    parameters = [
        TensorParameter(name_of(argument.location) or f"arg{position}", type_of(argument.type))
        for position, argument in enumerate(block.arguments)
    ]
    return function.name.value, _interface(parameters, [type_of(result) for result in function.type.results])


def _of_relax(module: Any, path: Path) -> tuple[str, Interface]:
    from mlirtri.lowering.tvm_names import relax

    functions = [(g.name_hint, f) for g, f in module.functions_items() if isinstance(f, relax.Function)]
    if len(functions) != 1:
        raise ParseError(f"expected a module of one Relax function, found {len(functions)}", Span(str(path), 1, 1))
    [(name, function)] = functions
    returned = function.ret_ty
    results = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    parameters = [TensorParameter(parameter.name, _relax_type(parameter.ty)) for parameter in function.params]
    return name, _interface(parameters, [_relax_type(result) for result in results])


def _relax_type(of: Any) -> TensorType:
    return TensorType(tuple(int(size) for size in of.shape), as_dtype(str(of.dtype)))


# --- manifests -----------------------------------------------------------------------------------------------------


def to_json(interface: Interface) -> dict[str, Any]:
    """Parameters, result types, how results nest, and the run-time checks."""
    return {
        "parameters": [{"name": p.name, "type": _type_json(p.type), "weak": p.weak} for p in interface.parameters],
        "results": [_type_json(leaf) for leaf in interface.leaves],
        "tree": _tree_json(interface.tree),
        "checks": [
            {"index": check.index, "error": check.error.__name__, "message": check.message, "span": _span_json(check.span)}
            for check in interface.checks
        ],
    }


def from_json(data: dict[str, Any]) -> Interface:
    from mlirtri import errors

    results = tuple(_type_of_json(each) for each in data["results"])
    checks = tuple(
        RuntimeCheck(c["index"], getattr(errors, c["error"]), c["message"], Span(*c["span"]) if c["span"] else None)
        for c in data["checks"]
    )
    parameters = tuple(TensorParameter(p["name"], _type_of_json(p["type"]), p["weak"]) for p in data["parameters"])
    return Interface(parameters, results, _tree_of_json(data["tree"], results), checks)


def _type_json(of: TensorType) -> list[Any]:
    return [of.dtype.name, *of.shape]


def _type_of_json(data: list[Any]) -> TensorType:
    return TensorType(tuple(data[1:]), as_dtype(data[0]))


def _span_json(span: Span | None) -> list[Any] | None:
    return [span.file, span.line, span.column, span.end_line, span.end_column] if span else None


def _tree_json(tree: Any) -> Any:
    if isinstance(tree, Leaf):
        return tree.index
    return None if tree is None else {type(tree).__name__: [_tree_json(each) for each in tree]}


def _tree_of_json(data: Any, results: tuple[TensorType, ...]) -> Any:
    if isinstance(data, int):
        return Leaf(data, results[data])
    if data is None:
        return None
    [(kind, parts)] = data.items()
    return {"tuple": tuple, "list": list}[kind](_tree_of_json(each, results) for each in parts)
