"""`for i, j in mt.ndrange(n, m)` as one parallel loop in another.

The bounds are evaluated once, before the loops, as Python evaluates the expression after `in`.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from mlirtri.errors import KernelTypeError, UnsupportedSyntaxError
from mlirtri.lowering.frontend.context import FunctionContext, function_named
from mlirtri.lowering.frontend.expressions import elements

BOUND = ".bound"
"""Start of the hidden names of the bounds."""


def nested(context: FunctionContext, node: Any) -> Any:
    """Return a loop over an `ndrange` of several bounds as nested loops over one each; other loops unchanged."""
    call = node.iter
    starred = [each for each in call.args if isinstance(each, ast.Starred)] if isinstance(call, ast.Call) else []
    is_nest = isinstance(call, ast.Call) and not call.keywords and (len(call.args) > 1 or starred)
    if not is_nest or getattr(function_named(context, call), "__mlirtri_name__", None) != "mlirtri.ndrange":
        if starred and function_named(context, call) is not np.ndindex:
            message, help = "a loop takes no star-expressions", "write every bound"
            raise UnsupportedSyntaxError(message, context.span(starred[0]), help=help)
        return node
    bounds = elements(context, call.args)
    if not bounds:
        raise KernelTypeError("this ndrange has no bounds", context.span(call))
    # In an unrolled loop around, a star-expression may have another length each time.
    if not hasattr(node, "nest") or len(node.nest.bounds) != len(bounds):
        node.nest = _nest(context, node, call, len(bounds))
    for name, bound in zip(node.nest.bounds, bounds, strict=True):
        context.scope.locals[name] = bound
    return node.nest


def _nest(context: FunctionContext, node: Any, call: ast.Call, count: int) -> Any:
    """Return the nest, innermost loop first; each loop has the liveness of the one that the user wrote."""
    names, body = _targets(context, node, count)
    loop: Any = node
    bounds = [f"{BOUND}{call.lineno}.{call.col_offset}.{axis}" for axis in range(count)]
    for axis in reversed(range(count)):
        # Behind a star-expression no argument is a bound of its own.
        argument = call.args[axis] if len(call.args) == count else call
        bound = ast.copy_location(ast.Name(bounds[axis], ast.Load()), argument)
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
