"""Generators that a builtin consumes: `sum`, `any`, `all`, `max` and `min` of one become loops; `map` and `filter`.

A generator over what is known while compiling is unrolled, as a comprehension is. One whose length or condition is
known at run time only, or one of many numbers of run time, is a loop in a function of its own, which is inlined:

    sum(e for x in xs if c)   ──►   total = 0
                                    for x in xs:
                                        if c: total = total + e
                                    return total
"""

from __future__ import annotations

import ast
from math import prod
from typing import Any

from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.lowering.frontend.context import FunctionContext, visit
from mlirtri.lowering.frontend.inlining import LocalFunction, inline_local
from mlirtri.lowering.frontend.iterables import iterable_of
from mlirtri.lowering.frontend.operators import condition
from mlirtri.lowering.frontend.statements import assign

LONGEST_UNROLLED = 16
"""Elements of a generator of numbers of run time that are computed one by one, without a loop."""
_EXTREMUM = """
if empty_ or element_ {sign} best_:
    best_ = element_
    empty_ = False
"""
_BEST = "if empty_: raise ValueError('{name}() iterable argument is empty')\nreturn best_"
_BODIES: dict[Any, tuple[str, str, str]] = {
    sum: ("total_ = 0", "total_ = total_ + element_", "return total_"),
    any: ("", "if element_: return True", "return False"),
    all: ("", "if not element_: return False", "return True"),
    max: ("empty_, best_ = True, False", _EXTREMUM.format(sign=">"), _BEST.format(name="max")),
    min: ("empty_, best_ = True, False", _EXTREMUM.format(sign="<"), _BEST.format(name="min")),
}
"""By builtin: what comes before the loop, what each element does, and what comes after the loop."""


def consumed_by(context: FunctionContext, callee: KernelValue, node: ast.Call) -> KernelValue:
    """Return what a builtin gives for a generator that has to be a loop, or for `map` and `filter`; None for others."""
    if callee in (map, filter) and len(node.args) > 1 and not node.keywords:
        return visit(context, _generator(callee, node))
    if not isinstance(callee, type(sum)) or callee not in _BODIES or not 1 <= len(node.args) <= 1 + (callee is sum):
        return None
    [generator, *rest] = node.args
    if isinstance(generator, ast.Call) and isinstance(generator.func, ast.Name) and len(generator.args) > 1:
        function = visit(context, generator.func) if generator.func.id in ("map", "filter") else None
        generator = _generator(function, generator) if function in (map, filter) else generator
    if not isinstance(generator, ast.GeneratorExp) or any(isinstance(p, ast.NamedExpr) for p in ast.walk(node)):
        return None
    starts = [*rest, *(keyword.value for keyword in node.keywords if (callee, keyword.arg) == (sum, "start"))]
    if len(starts) != len(rest) + len(node.keywords) or not _is_loop(context, generator):
        return None
    function = LocalFunction(_function(callee, generator, starts), context, {})
    return inline_local(context, function, [], {}, node)


def _generator(function: Any, call: ast.Call) -> ast.GeneratorExp:
    """Return ``(f(a, b) for a, b in zip(x, y))`` for ``map(f, x, y)``, ``(a for a in x if f(a))`` for `filter`."""
    applied, *sources = call.args
    names = [f"item{number}." for number in range(len(sources))]
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    values: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
    element: ast.expr = ast.Call(applied, values, [])
    tests: list[ast.expr] = []
    if function is filter:
        is_truth = isinstance(applied, ast.Constant) and applied.value is None
        element, tests = values[0], [values[0] if is_truth else element]
    target, source = targets[0], sources[0]
    if len(sources) > 1:
        target, source = ast.Tuple(targets, ast.Store()), ast.Call(ast.Name("zip", ast.Load()), sources, [])
    generator = ast.GeneratorExp(element, [ast.comprehension(target, source, tests, 0)])
    return ast.fix_missing_locations(ast.copy_location(generator, call))


def _is_loop(context: FunctionContext, generator: ast.GeneratorExp) -> bool:
    """Return whether the length or a condition is known at run time only, or there are many numbers of run time.

    The first element tells; what is emitted for it has no effect.
    """
    outer = dict(context.scope.locals)
    counts: list[int | None] = []
    try:
        with context.b.muted():
            for level in generator.generators:
                iterable = iterable_of(context, level.iter)
                if iterable.unroll or iterable.static_count == 0:
                    return None in counts
                counts.append(iterable.static_count)
                assign(context, level.target, iterable.item(0))
                if any(isinstance(condition(context, test), TriValue) for test in level.ifs):
                    return True
            element = visit(context, generator.elt)
    finally:
        context.scope.locals = outer
    is_number = isinstance(element, TriValue) and not element.type.rank
    return None in counts or (is_number and prod(count for count in counts if count) > LONGEST_UNROLLED)


def _function(callee: Any, generator: ast.GeneratorExp, starts: list[ast.expr]) -> ast.FunctionDef:
    """Return the definition of a function that runs the loop."""
    before, each, after = (
        [_Placed(generator).visit(part) for part in ast.parse(text).body] for text in _BODIES[callee]
    )
    body: list[ast.stmt] = [ast.Assign([ast.Name("element.", ast.Store())], generator.elt), *each]
    for level in reversed(generator.generators):
        for test in reversed(level.ifs):
            body = [ast.If(test, body, [])]
        body = [ast.For(level.target, level.iter, body, [])]
    before = [*(ast.Assign([ast.Name("total.", ast.Store())], start) for start in starts), *before[len(starts) :]]
    arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    definition = ast.FunctionDef(callee.__name__, arguments, [*before, *body, *after], [])
    return ast.fix_missing_locations(ast.copy_location(definition, generator))


class _Placed(ast.NodeTransformer):
    """Gives statements of ours the place of a generator, and their names a dot, which no Python name has."""

    def __init__(self, generator: ast.GeneratorExp):
        self.generator = generator

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Name) and node.id.endswith("_"):
            node.id = node.id[:-1] + "."
        if "lineno" in node._attributes:
            ast.copy_location(node, self.generator)
        return self.generic_visit(node)
