"""`for i, j in mt.ndrange(n, m)` as one parallel loop in another.

The bounds are evaluated once, before the loops, as Python evaluates the expression after `in`.
"""

from __future__ import annotations

import ast
from typing import Any

from mlirtri.errors import KernelTypeError, UnsupportedSyntaxError
from mlirtri.lowering.frontend.context import FunctionContext, function_named
from mlirtri.lowering.frontend.expressions import elements

BOUND = ".bound"
"""Start of the hidden names of the bounds."""


def nested(context: FunctionContext, node: Any) -> Any:
    """Return a loop over an `ndrange` of several bounds as nested loops over one each; other loops unchanged."""
    call = node.iter
    _refuse_starred(context, call)
    if not isinstance(call, ast.Call) or len(call.args) < 2 or call.keywords:
        return node
    if getattr(function_named(context, call), "__mlirtri_name__", None) != "mlirtri.ndrange":
        return node
    if not hasattr(node, "nest"):
        node.nest = _nest(context, node, call)
    for name, bound in zip(node.nest.bounds, elements(context, call.args), strict=True):
        context.scope.locals[name] = bound
    return node.nest


def _refuse_starred(context: FunctionContext, call: ast.expr) -> None:
    for argument in call.args if isinstance(call, ast.Call) else ():
        if isinstance(argument, ast.Starred):
            raise UnsupportedSyntaxError(
                "a loop takes no star-expressions", context.span(argument), help="write every bound"
            )


def _nest(context: FunctionContext, node: Any, call: ast.Call) -> Any:
    """Return the nest, innermost loop first; each loop has the liveness of the one that the user wrote."""
    names, body = _targets(context, node, len(call.args))
    loop: Any = node
    bounds = [f"{BOUND}{call.lineno}.{call.col_offset}.{axis}" for axis in range(len(names))]
    for axis in reversed(range(len(names))):
        bound = ast.copy_location(ast.Name(bounds[axis], ast.Load()), call.args[axis])
        head = ast.copy_location(ast.Call(call.func, [bound], []), call)
        loop = ast.copy_location(ast.For(target=names[axis], iter=head, body=body, orelse=[]), node)
        loop.flag = node.flag
        loop.live_out = node.live_out if axis == 0 else node.live_body
        loop.live_body = node.live_body
        body = [loop]
    loop.bounds = bounds
    return loop


def _targets(context: FunctionContext, node: Any, count: int) -> tuple[list[ast.expr], list[ast.stmt]]:
    """Return the targets of the loops, and the body; a single target is assigned the tuple of the indices."""
    target = node.target
    if isinstance(target, (ast.Tuple, ast.List)):
        if len(target.elts) != count:
            raise KernelTypeError(
                f"this ndrange has {count} indices, and {len(target.elts)} names to assign them to",
                context.span(target),
            )
        return list(target.elts), node.body
    hidden = [f".index{axis}" for axis in range(count)]
    stores: list[ast.expr] = [ast.copy_location(ast.Name(name, ast.Store()), target) for name in hidden]
    loads: list[ast.expr] = [ast.copy_location(ast.Name(name, ast.Load()), target) for name in hidden]
    value = ast.copy_location(ast.Tuple(loads, ast.Load()), target)
    return stores, [ast.copy_location(ast.Assign([target], value), target), *node.body]
