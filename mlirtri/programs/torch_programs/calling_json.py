"""Write the calling convention of a torch module as JSON, for kernels that are saved."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import sympy
from torch.utils import _pytree as pytree

from mlirtri.errors import ArtifactError
from mlirtri.programs.torch_programs.calling_convention import ArgumentLeaf, Calling, Returned, Sizes
from mlirtri.programs.torch_programs.random_draws import Draw

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.USub: operator.neg,
    ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_PLAIN = (bool, int, float, str, type(None))


def calling_json(calling: Calling) -> dict[str, Any]:
    """Return the JSON of a calling convention; raises `ArtifactError` for values and structures that have none."""
    return {
        "arguments": _structure_json(calling.arguments),
        "inputs": [[leaf.name, leaf.is_constant, _plain(leaf.value), leaf.is_complex32] for leaf in calling.inputs],
        "results": _structure_json(calling.results),
        "returned": [[leaf.kind, _plain(leaf.what)] for leaf in calling.returned],
        "buffer_updates": dict(calling.buffer_updates),
        "input_updates": [list(pair) for pair in calling.input_updates.items()],
        "persistent": sorted(calling.persistent),
        "expressions": [[leaf, axis, _expression_json(size)] for leaf, axis, size in calling.sizes.expressions],
        "ranges": [[_expression_json(size), *map(float, limits)] for size, limits in calling.sizes.ranges.items()],
        "names": list(calling.names),
        "draws": [[draw.operator, draw.arguments, draw.options] for draw in calling.draws],
    }


def calling_of_json(data: dict[str, Any]) -> Calling:
    """Return the calling convention that `calling_json` wrote; raises `ValueError` for other data."""
    expressions = tuple((leaf, axis, _expression(text)) for leaf, axis, text in data["expressions"])
    return Calling(
        pytree.treespec_loads(data["arguments"]),
        tuple(ArgumentLeaf(*leaf) for leaf in data["inputs"]),
        pytree.treespec_loads(data["results"]),
        tuple(Returned(kind, what) for kind, what in data["returned"]),
        data["buffer_updates"],
        {leaf: result for leaf, result in data["input_updates"]},
        frozenset(data["persistent"]),
        Sizes(expressions, {_expression(text): (low, high) for text, low, high in data["ranges"]}),
        tuple(data["names"]),
        tuple(Draw(*draw) for draw in data["draws"]),
    )


def _structure_json(structure: pytree.TreeSpec) -> str:
    try:
        return pytree.treespec_dumps(structure)
    except (NotImplementedError, TypeError, ValueError) as problem:
        raise ArtifactError(f"the module's arguments or results cannot be written: {problem}") from None


def _plain(value: Any) -> Any:
    if type(value) not in _PLAIN:
        raise ArtifactError(f"the module was exported for {value!r}, and a {type(value).__name__} cannot be written")
    return value


def _expression_json(size: Any) -> str:
    text = str(size)
    try:
        is_same = _expression(text) == _without_assumptions(size)
    except (ValueError, SyntaxError):
        is_same = False
    if not is_same:
        raise ArtifactError(f"the module's size {text} cannot be written")
    return text


def _without_assumptions(size: Any) -> Any:
    expression = sympy.sympify(size)
    return expression.subs({symbol: sympy.Symbol(symbol.name) for symbol in expression.free_symbols})


def _expression(text: str) -> Any:
    """Return the SymPy expression of a text of names, integers and arithmetic; raises `ValueError` for any other."""
    return _computed(ast.parse(text, mode="eval").body)


def _computed(node: ast.AST) -> Any:
    if isinstance(node, ast.Name):
        return sympy.Symbol(node.id)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return sympy.Integer(node.value)
    if isinstance(node, (ast.BinOp, ast.UnaryOp)) and type(node.op) in _OPERATORS:
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
        return _OPERATORS[type(node.op)](*map(_computed, operands))
    raise ValueError(f"{ast.unparse(node)} is no size")
