"""Rewrite `return`, `break` and `continue` without jumps: what follows an `if` that may exit moves into its arms.

So does what follows a `raise` in a loop; one outside of loops is a check, and what follows it stays where it is.
A `return` then ends the function's last statement or an arm of it; a loop's exit sets a flag that the loop tests.
Also computes liveness, so that loops carry and branches merge no more names than needed.
Generated names contain a dot, which no Python name does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

VALUE, RETURNED, RAISED = ".value", ".returned", ".raised"
"""The names of the value of a `return` inside a loop, and of the flags that it, or a `raise`, was reached."""
CHOSEN = ".chosen"
"""The name of the value of a conditional expression."""


def structured(body: Sequence[ast.stmt], read_after: Iterable[str] = ()) -> list[ast.stmt]:
    """Return statements without jumps, annotated: loops and branches with `live_out`, loops with `flag`, `live_body`.

    Names in `read_after` are read after the function: a macro's references.
    """
    statements = _block(list(body), None, iter(range(1 << 30)))
    _Liveness(frozenset(read_after) | _captured(statements)).of_block(statements, frozenset())
    return statements


def _block(body: list[ast.stmt], enclosing_flag: str | None, serial: Iterator[int]) -> list[ast.stmt]:
    rewritten: list[ast.stmt] = []
    for index, statement in enumerate(body):
        following = body[index + 1 :]
        if isinstance(statement, (ast.For, ast.While)) and statement.orelse:
            return rewritten + _block([*_without_else(statement, serial), *following], enclosing_flag, serial)
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return rewritten + _leave(statement, enclosing_flag)
        if isinstance(statement, ast.If) and _leaves(statement, enclosing_flag is not None):
            arms = [_block([*arm, *following], enclosing_flag, serial) for arm in (statement.body, statement.orelse)]
            return [*rewritten, _copy(statement, body=arms[0], orelse=arms[1])]
        if isinstance(statement, ast.With):
            rewritten.append(_copy(statement, body=_block(statement.body, enclosing_flag, serial)))
        elif isinstance(statement, ast.If):
            arms = [_block(arm, enclosing_flag, serial) for arm in (statement.body, statement.orelse)]
            rewritten.append(_copy(statement, body=arms[0], orelse=arms[1]))
        elif isinstance(statement, (ast.For, ast.While)):
            returns, raises = (_has(statement, kind) for kind in (ast.Return, ast.Raise))
            raises = raises and enclosing_flag is not None
            rewritten += [_assign(RETURNED, ast.Constant(False), statement)] * returns
            rewritten += [_assign(RAISED, ast.Constant(False), statement)] * raises
            rewritten.append(_loop(statement, serial))
            if raises:
                return [*rewritten, _after_raise(statement, following, enclosing_flag, serial)]
            if returns:
                return [*rewritten, _after_return(statement, following, enclosing_flag, serial)]
        else:
            rewritten.append(statement)
    return rewritten


def _leave(statement: ast.stmt, enclosing_flag: str | None) -> list[ast.stmt]:
    if isinstance(statement, (ast.Return, ast.Raise)) and enclosing_flag is None:
        return [statement]
    if enclosing_flag is None or isinstance(statement, ast.Continue):
        return []
    out = _assign(enclosing_flag, ast.Constant(False), statement)
    if isinstance(statement, ast.Break):
        return [out]
    if isinstance(statement, ast.Raise):
        return [_assign(RAISED, ast.Constant(True), statement), out, statement]
    returned: list[ast.stmt] = [_assign(RETURNED, ast.Constant(True), statement), out]
    # None is known at compile time, so no loop carries it.
    if statement.value is None or _is_bare(statement):
        return returned
    return [_assign(VALUE, statement.value, statement), *returned]


def _is_bare(statement: Any) -> bool:
    """Return whether a `return` gives None."""
    return statement.value is None or (isinstance(statement.value, ast.Constant) and statement.value.value is None)


def _returns(statement: ast.AST) -> Iterator[ast.Return]:
    """Yield the `return` statements in a statement, other than of functions defined in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.Return):
            yield child
        elif not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from _returns(child)


def _loop(statement: Any, serial: Iterator[int]) -> ast.stmt:
    flag = f".running{next(serial)}"
    rewritten: Any = _copy(statement, body=_block(statement.body, flag, serial))
    rewritten.flag = flag if flag in stored(rewritten.body) else None
    return rewritten


def _without_else(loop: Any, serial: Iterator[int]) -> list[ast.stmt]:
    """Return a loop and its `else`, which runs unless a `break` has cleared a flag."""
    if not _breaks(loop):
        return [_copy(loop, orelse=[]), *loop.orelse]
    flag = f".completed{next(serial)}"
    body = _marked(loop.body, flag)
    branch = ast.copy_location(ast.If(test=_name(flag, loop), body=loop.orelse, orelse=[]), loop)
    return [_assign(flag, ast.Constant(True), loop), _copy(loop, body=body, orelse=[]), branch]


def _marked(body: list[ast.stmt], flag: str) -> list[ast.stmt]:
    """Return statements that clear `flag` before each `break` of the loop around them."""
    marked: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.Break):
            marked.append(_assign(flag, ast.Constant(False), statement))
        if isinstance(statement, (ast.For, ast.While)):
            statement = _copy(statement, orelse=_marked(statement.orelse, flag))
        elif isinstance(statement, ast.If):
            arms = _marked(statement.body, flag), _marked(statement.orelse, flag)
            statement = _copy(statement, body=arms[0], orelse=arms[1])
        elif isinstance(statement, ast.With):
            statement = _copy(statement, body=_marked(statement.body, flag))
        marked.append(statement)
    return marked


def _after_return(
    statement: ast.stmt, following: list[ast.stmt], enclosing_flag: str | None, serial: Iterator[int]
) -> ast.stmt:
    if enclosing_flag is None:
        value = None if all(map(_is_bare, _returns(statement))) else _name(VALUE, statement)
        leave: ast.stmt = ast.copy_location(ast.Return(value), statement)
    else:
        leave = _assign(enclosing_flag, ast.Constant(False), statement)
    if _ends_by_return_only(statement):
        return leave
    branch = ast.If(test=_name(RETURNED, statement), body=[leave], orelse=_block(following, enclosing_flag, serial))
    return ast.copy_location(branch, statement)


def _after_raise(
    statement: Any, following: list[ast.stmt], enclosing_flag: str | None, serial: Iterator[int]
) -> ast.stmt:
    """Return what follows an inner loop that may raise: the loop around it is left, too."""
    assert enclosing_flag is not None
    leave = _assign(enclosing_flag, ast.Constant(False), statement)
    rest = (
        [_after_return(statement, following, enclosing_flag, serial)]
        if _has(statement, ast.Return)
        else _block(following, enclosing_flag, serial)
    )
    return ast.copy_location(ast.If(test=_name(RAISED, statement), body=[leave], orelse=rest), statement)


def _ends_by_return_only(loop: ast.stmt) -> bool:
    is_endless = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    return is_endless and not _breaks(loop)


def _breaks(loop: Any) -> bool:
    """Return whether a `break` in the body of a loop ends this loop: those in the `else` of an inner one do, too."""
    return any(map(_has_break, loop.body))


def _has_break(statement: ast.AST) -> bool:
    if isinstance(statement, (ast.For, ast.While)):
        return any(map(_has_break, statement.orelse))
    return isinstance(statement, ast.Break) or any(map(_has_break, ast.iter_child_nodes(statement)))


def _leaves(statement: ast.AST, in_loop: bool) -> bool:
    """Return whether a branch may exit; a `raise` does in a loop."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, (ast.Return, ast.Break, ast.Continue)) or (in_loop and isinstance(child, ast.Raise)):
            return True
        if isinstance(child, (ast.For, ast.While)):
            if _has(child, ast.Return) or (in_loop and _has(child, ast.Raise)):
                return True
        elif isinstance(child, (ast.If, ast.With)) and _leaves(child, in_loop):
            return True
    return False


def _has(statement: ast.AST, kind: type[ast.stmt]) -> bool:
    """Return whether a statement contains one of a class, other than of a function defined in it."""
    children = (node for node in ast.iter_child_nodes(statement) if not isinstance(node, (ast.FunctionDef, ast.Lambda)))
    return any(isinstance(child, kind) or _has(child, kind) for child in children)


def _copy(statement: Any, **fields: Any) -> Any:
    duplicate = type(statement)(**{**dict(ast.iter_fields(statement)), **fields})
    return ast.copy_location(duplicate, statement)


def _name(name: str, where: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), where)


def _assign(name: str, value: ast.expr, where: ast.AST) -> ast.Assign:
    value = value if hasattr(value, "lineno") else ast.copy_location(value, where)
    target = ast.copy_location(ast.Name(name, ast.Store()), where)
    return ast.copy_location(ast.Assign([target], value), where)


def stored(nodes: ast.AST | Sequence[ast.AST]) -> set[str]:
    """Return every name that statements may bind; targets of comprehensions are local to these."""
    return {name.id for name in _stores([nodes] if isinstance(nodes, ast.AST) else nodes)}


def rebound(body: Sequence[ast.AST]) -> set[str]:
    """Return the names that statements may rebind; ``x += y``, which rebinds only numbers, does not count."""
    updates = {
        id(part.target) for node in body for part in ast.walk(node)
        if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name)
    }  # fmt: skip
    return {name.id for name in _stores(body) if id(name) not in updates}


def _stores(nodes: Sequence[ast.AST]) -> Iterator[ast.Name]:
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            pending += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.comprehension):
            pending += [node.iter, *node.ifs]
        else:
            pending += ast.iter_child_nodes(node)


def _captured(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names that functions defined in these statements read from around them, whenever they are called."""
    captured: set[str] = set()
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            inner = node.body if isinstance(node.body, list) else [node.body]
            bound = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)} | stored(inner)
            captured |= loaded(*inner) - bound | nonlocals(inner)
    return frozenset(captured)


def nonlocals(body: Sequence[ast.AST]) -> set[str]:
    """Return the names that a function's own statements declare as `nonlocal`."""
    names, pending = set[str](), list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Nonlocal):
            names.update(node.names)
        elif not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return names


def loaded(*nodes: ast.AST | None) -> set[str]:
    nodes_below = (part for node in nodes if node is not None for part in ast.walk(node))
    return {part.id for part in nodes_below if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Store)}


def written(body: Sequence[ast.AST]) -> set[str]:
    """Return the names whose memory statements visibly write: by subscript or attribute, in updates, as `out`."""
    names: set[str] = set()
    for node in (part for statement in body for part in ast.walk(statement)):
        if isinstance(node, ast.Assign):
            names |= {name for target in node.targets for name in _bases(target)}
        elif isinstance(node, ast.AugAssign):
            names |= {node.target.id} if isinstance(node.target, ast.Name) else set(_bases(node.target))
        elif isinstance(node, ast.keyword) and node.arg == "out":
            names |= loaded(node.value)
    return names


def _bases(target: ast.AST) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _bases(element)
    elif isinstance(target, (ast.Subscript, ast.Attribute)):
        yield from loaded(target.value)


@dataclass(frozen=True)
class _Liveness:
    """Liveness of names in the statements of one function; annotates loops and branches with it."""

    always: frozenset[str]
    """Names that are live everywhere."""

    def of_block(self, body: Sequence[ast.stmt], after: frozenset[str]) -> frozenset[str]:
        """Return the names live before statements, given those live after."""
        for statement in reversed(body):
            after = self._before(statement, after | self.always)
        return after | self.always

    def _before(self, statement: Any, after: frozenset[str]) -> frozenset[str]:
        if isinstance(statement, (ast.Return, ast.Raise)):
            return frozenset(loaded(statement))
        if isinstance(statement, ast.If):
            statement.live_out = after
            arms = self.of_block(statement.body, after) | self.of_block(statement.orelse, after)
            return arms | loaded(statement.test)
        if isinstance(statement, ast.With):
            items = {name for item in statement.items for name in loaded(item.context_expr)}
            return self.of_block(statement.body, after) | items
        if isinstance(statement, (ast.For, ast.While)):
            return self._before_loop(statement, after)
        if isinstance(statement, ast.FunctionDef):
            return (after - {statement.name}) | loaded(statement)
        targets = stored(statement)
        if isinstance(statement, ast.AugAssign):
            return after | loaded(statement) | targets
        return (after - targets) | loaded(statement)

    def _before_loop(self, loop: Any, after: frozenset[str]) -> frozenset[str]:
        loop.live_out = after
        head = after | (loaded(loop.test) if isinstance(loop, ast.While) else frozenset())
        head |= {loop.flag} if loop.flag else frozenset()
        assigned = stored(loop.target) if isinstance(loop, ast.For) else set()
        while True:
            before = head | (self.of_block(loop.body, head) - assigned)
            if before == head:
                break
            head = before
        loop.live_body = head
        # The loop itself sets its flag first.
        head -= {loop.flag}
        return head | (loaded(loop.iter) if isinstance(loop, ast.For) else frozenset())
