"""Comprehensions of a kernel, whose iterations are known at compile time."""

from __future__ import annotations

import ast
from typing import Any

from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.containers import dict_of, known_key
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit
from mlirtri.lowering.frontend.iterables import Iterable, forget_iterated, iterable_of
from mlirtri.lowering.frontend.operators import condition
from mlirtri.lowering.frontend.statements import assign
from mlirtri.lowering.frontend.syntax.early_exits import stored


@handles(ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
def visit_comprehension(
    context: FunctionContext, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp
) -> KernelValue:
    """Return the list, set or dict of a comprehension over a compile-time sequence; its targets are local to it."""
    if isinstance(node, ast.DictComp):
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        return dict_of([_comprehension(context, node, pair)], {})
    values = _comprehension(context, node, node.elt)
    return frozenset(map(known_key, values)) if isinstance(node, ast.SetComp) else values


def _comprehension(context: FunctionContext, node: Any, element: ast.expr) -> list[Any]:
    outer_names = set(context.scope.locals)
    first, names, values = iterable_of(context, node.generators[0].iter), context.scope.locals, []
    targets = stored([generator.target for generator in node.generators])
    hidden = {name: names.pop(name) for name in targets if name in names}
    try:
        _comprehend(context, node.generators, first, element, values)
    finally:
        names = context.scope.locals
        for name in targets:
            names.pop(name, None)
        names.update(hidden)
        forget_iterated(context, outer_names)
    return values


def _comprehend(
    context: FunctionContext,
    generators: list[ast.comprehension],
    iterable: Iterable,
    element: ast.expr,
    values: list[Any],
) -> None:
    first, *inner = generators
    if iterable.static_count is None:
        raise KernelTypeError(
            "a comprehension has as many iterations as are known at compile time",
            context.span(first.iter),
            help="write a loop that fills an array",
        )
    for iteration in range(iterable.static_count):
        assign(context, first.target, iterable.item(iteration))
        tests = [condition(context, test) for test in first.ifs]
        if any(isinstance(test, TriValue) for test in tests):
            raise KernelTypeError("the `if` of a comprehension has to be known at compile time")
        if not all(tests):
            continue
        if inner:
            _comprehend(context, inner, iterable_of(context, inner[0].iter), element, values)
        else:
            values.append(visit(context, element))
