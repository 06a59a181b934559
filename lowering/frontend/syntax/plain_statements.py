"""Statements written with simpler ones, before a function is lowered: `match`, ``with numpy.errstate(…)``.

A `match` is a chain of `if`: a value is compared with ``==``, a sequence by its length and elements, a name is
assigned. Patterns of mappings and of attributes stay, and are
refused. Generated names contain a dot, which no Python name does.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from itertools import count
from typing import Any

Tests = list[ast.expr]
_BUILTINS = ("bool", "int", "float", "str", "tuple", "list")
"""Classes whose pattern takes the value itself: ``case int(n)``."""


class SequenceOf(ast.expr):
    """The condition that a value is a tuple or list of so many elements, or of at least so many."""

    _fields = ("subject", "count", "takes_more")
    subject: ast.expr
    count: int
    takes_more: bool

    def is_met_by(self, value: object) -> bool:
        if not isinstance(value, (tuple, list)):
            return False
        return len(value) >= self.count if self.takes_more else len(value) == self.count


class _NotPlain(Exception):
    """Raised for a pattern that is not written with simpler statements."""


def plain(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without `match`, and without blocks that only set how NumPy reports floating-point errors."""
    # The tree of a function is shared by all its compilations.
    if not any(_is_rewritten(part) for statement in body for part in ast.walk(statement)):
        return body
    rewriter = _Rewriter(count())
    return rewriter.statements([copy.deepcopy(statement) for statement in body])


def _is_rewritten(node: ast.AST) -> bool:
    return isinstance(node, ast.Match) or (isinstance(node, ast.With) and _sets_errors(node))


_WITHOUT_EFFECT = ("errstate", "no_grad", "inference_mode", "enable_grad", "set_grad_enabled")
"""Context managers that say how errors are reported, or whether gradients are recorded: kernels record none."""


def _sets_errors(node: ast.With) -> bool:
    calls = [item.context_expr for item in node.items if item.optional_vars is None]
    names = [ast.unparse(call.func).rpartition(".")[2] for call in calls if isinstance(call, ast.Call)]
    return len(names) == len(node.items) and all(name in _WITHOUT_EFFECT for name in names)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, serial: Iterator[int]):
        self.serial = serial

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        results = [self.visit(statement) for statement in body]
        return [part for result in results for part in (result if isinstance(result, list) else [result])]

    def visit_With(self, node: ast.With) -> ast.With | list[ast.stmt]:
        node.body = self.statements(node.body)
        if not _sets_errors(node):
            return node
        # The call is still checked, for settings that raise.
        return [*(_at(ast.Expr(item.context_expr), item.context_expr) for item in node.items), *node.body]

    def visit_Match(self, node: ast.Match) -> ast.Match | list[ast.stmt]:
        name = f".subject{next(self.serial)}"
        for case in node.cases:
            case.body = self.statements(case.body)
        try:
            chain = _chain(_at(ast.Name(name, ast.Load()), node.subject), node.cases)
        except _NotPlain:
            return node
        return [_at(ast.Assign([ast.Name(name, ast.Store())], node.subject), node.subject), *chain]


def _at(node: ast.AST, where: ast.AST) -> Any:
    """Return a node with the place of another one, its parts without a place, too."""
    return ast.fix_missing_locations(ast.copy_location(node, where))


def _chain(subject: ast.expr, cases: list[ast.match_case]) -> list[ast.stmt]:
    """Return the `if` of the first case, whose `else` has the other ones."""
    if not cases:
        return []
    case, rest = cases[0], cases[1:]
    tests, bound = _matched(case.pattern, subject)
    if case.guard is None:
        then, is_last = [*bound, *case.body], not tests
    elif not bound:
        tests, then, is_last = [*tests, case.guard], case.body, False
    else:
        # What is bound is seen by the guard, after which the other cases stand a second time.
        guarded = ast.If(case.guard, case.body, copy.deepcopy(_chain(subject, rest)))
        then, is_last = [*bound, _at(guarded, case.guard)], not tests
    if is_last:
        return then
    test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
    return [_at(ast.If(test, then, _chain(subject, rest)), case.pattern)]


def _matched(pattern: ast.pattern, subject: ast.expr) -> tuple[Tests, list[ast.stmt]]:
    """Return the conditions under which a pattern matches, in order, and the assignments of its names."""
    if isinstance(pattern, ast.MatchValue):
        return [_at(ast.Compare(subject, [ast.Eq()], [pattern.value]), pattern)], []
    if isinstance(pattern, ast.MatchSingleton):
        return [_at(ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)]), pattern)], []
    if isinstance(pattern, ast.MatchOr):
        return _any_of(pattern, subject)
    if isinstance(pattern, ast.MatchAs):
        tests, bound = ([], []) if pattern.pattern is None else _matched(pattern.pattern, subject)
        return tests, bound if pattern.name is None else [*bound, _bind(pattern.name, subject, pattern)]
    if isinstance(pattern, ast.MatchSequence):
        return _sequence(pattern, subject)
    if isinstance(pattern, ast.MatchClass) and not (pattern.kwd_patterns or len(pattern.patterns) > 1):
        check = ast.Call(ast.Name("isinstance", ast.Load()), [subject, pattern.cls], [])
        is_of_builtin = isinstance(pattern.cls, ast.Name) and pattern.cls.id in _BUILTINS
        if is_of_builtin or not pattern.patterns:
            inner, bound = _matched(pattern.patterns[0], subject) if pattern.patterns else ([], [])
            return [_at(check, pattern), *inner], bound
    raise _NotPlain


def _bind(name: str, value: ast.expr, where: ast.AST) -> ast.stmt:
    return _at(ast.Assign([ast.Name(name, ast.Store())], value), where)


def _any_of(pattern: ast.MatchOr, subject: ast.expr) -> tuple[Tests, list[ast.stmt]]:
    alternatives = []
    for part in pattern.patterns:
        tests, bound = _matched(part, subject)
        if bound:
            raise _NotPlain
        alternatives.append(ast.BoolOp(ast.And(), tests) if len(tests) > 1 else [*tests, ast.Constant(True)][0])
    return [_at(ast.BoolOp(ast.Or(), alternatives), pattern)], []


def _sequence(pattern: ast.MatchSequence, subject: ast.expr) -> tuple[Tests, list[ast.stmt]]:
    parts = pattern.patterns
    starred = next((position for position, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
    has_star = starred is not None
    is_sequence: Any = SequenceOf()
    is_sequence.subject, is_sequence.count, is_sequence.takes_more = subject, len(parts) - has_star, has_star
    tests: Tests = [_at(is_sequence, pattern)]
    bound: list[ast.stmt] = []
    for position, part in enumerate(parts):
        from_end = starred is not None and position > starred
        index = position - len(parts) if from_end else position
        if isinstance(part, ast.MatchStar):
            behind = len(parts) - 1 - position
            end = ast.UnaryOp(ast.USub(), ast.Constant(behind)) if behind else None
            middle = ast.Subscript(subject, ast.Slice(ast.Constant(position), end), ast.Load())
            rest = ast.List([ast.Starred(middle, ast.Load())], ast.Load())
            bound += [_bind(part.name, rest, part)] if part.name else []
            continue
        more, names = _matched(part, _at(ast.Subscript(subject, ast.Constant(index), ast.Load()), part))
        tests += more
        bound += names
    return tests, bound
