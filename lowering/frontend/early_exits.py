"""Rewrite `return`, `break` and `continue` without jumps: what follows an `if` that may exit moves into its arms.

Takes the statements of a function. Gives equivalent statements in which a `return` ends the function's last statement
or an arm of it, and no `break` or `continue` is left: exiting a loop is an assignment to a flag that the loop tests.
Also computes liveness, so that loops carry and branches merge no more names than needed.
Generated names contain a dot, which no Python name does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

VALUE, RETURNED = ".value", ".returned"
"""The names of the value of a `return` inside a loop, and of the flag that it was reached."""
CHOSEN = ".chosen"
"""The name of the value of a conditional expression."""
Loop = ast.For | ast.While


@dataclass(frozen=True)
class _Inside:
    """The loop that encloses statements."""

    flag: str


def structured(body: Sequence[ast.stmt], read_after: Iterable[str] = ()) -> list[ast.stmt]:
    """Return statements without jumps, annotated: loops and branches with `live_out`, loops with `flag`, `live_body`.

    Names in `read_after` are read after the function: a macro's references.
    """
    statements = _block(list(body), None, iter(range(1 << 30)))
    if read_after:
        _note_exits(statements, frozenset(read_after))
    _live(statements, frozenset(read_after))
    return statements


def _note_exits(body: Sequence[ast.stmt], read_after: frozenset[str]) -> None:
    for each in (each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Return)):
        each.read_after = read_after  # type: ignore[attr-defined]


def _block(body: list[ast.stmt], inside: _Inside | None, serial: Iterator[int]) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for at, statement in enumerate(body):
        rest = body[at + 1 :]
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
            return made + _leave(statement, inside)
        if isinstance(statement, ast.If) and _leaves(statement):
            arms = [_block([*arm, *rest], inside, serial) for arm in (statement.body, statement.orelse)]
            return [*made, _copy(statement, body=arms[0], orelse=arms[1])]
        if isinstance(statement, ast.With):
            made.append(_copy(statement, body=_block(statement.body, inside, serial)))
        elif isinstance(statement, ast.If):
            arms = [_block(arm, inside, serial) for arm in (statement.body, statement.orelse)]
            made.append(_copy(statement, body=arms[0], orelse=arms[1]))
        elif isinstance(statement, (ast.For, ast.While)):
            returns = _returns(statement)
            made += [_assign(RETURNED, ast.Constant(False), statement)] * returns
            made.append(_loop(statement, serial))
            if returns:
                return [*made, _after_return(statement, rest, inside, serial)]
        else:
            made.append(statement)
    return made


def _leave(statement: ast.stmt, inside: _Inside | None) -> list[ast.stmt]:
    if isinstance(statement, ast.Return) and inside is None:
        return [statement]
    if inside is None or isinstance(statement, ast.Continue):
        return []
    out = _assign(inside.flag, ast.Constant(False), statement)
    if isinstance(statement, ast.Break):
        return [out]
    value = statement.value if isinstance(statement, ast.Return) and statement.value else ast.Constant(None)
    return [_assign(VALUE, value, statement), _assign(RETURNED, ast.Constant(True), statement), out]


def _loop(statement: Any, serial: Iterator[int]) -> ast.stmt:
    flag = f".running{next(serial)}"
    made: Any = _copy(statement, body=_block(statement.body, _Inside(flag), serial))
    made.flag = flag if flag in stored(made.body) else None
    return made


def _after_return(statement: ast.stmt, rest: list[ast.stmt], inside: _Inside | None, serial: Iterator[int]) -> ast.stmt:
    """Return the statements after a loop that may return: they run only if it did not."""
    if inside is None:
        leave: ast.stmt = ast.copy_location(ast.Return(_name(VALUE, statement)), statement)
    else:
        leave = _assign(inside.flag, ast.Constant(False), statement)
    if _ends_by_return_only(statement):
        return leave
    made = ast.If(test=_name(RETURNED, statement), body=[leave], orelse=_block(rest, inside, serial))
    return ast.copy_location(made, statement)


def _ends_by_return_only(loop: ast.stmt) -> bool:
    """Return whether a loop is ``while True`` without a `break` of its own."""
    is_endless = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    return is_endless and not _breaks(loop)


def _breaks(statement: ast.AST) -> bool:
    children = (each for each in ast.iter_child_nodes(statement) if not isinstance(each, (ast.For, ast.While)))
    return any(isinstance(child, ast.Break) or _breaks(child) for child in children)


def _leaves(statement: ast.AST) -> bool:
    """Return whether an `if` contains a jump out of itself."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, (ast.Return, ast.Break, ast.Continue)):
            return True
        if isinstance(child, (ast.For, ast.While)):
            if _returns(child):
                return True
        elif isinstance(child, (ast.If, ast.With)) and _leaves(child):
            return True
    return False


def _returns(statement: ast.AST) -> bool:
    """Return whether a statement contains a `return`, other than of a function defined in it."""
    children = (each for each in ast.iter_child_nodes(statement) if not isinstance(each, (ast.FunctionDef, ast.Lambda)))
    return any(isinstance(child, ast.Return) or _returns(child) for child in children)


def _copy(statement: Any, **fields: Any) -> Any:
    made = type(statement)(**{**dict(ast.iter_fields(statement)), **fields})
    return ast.copy_location(made, statement)


def _name(name: str, where: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), where)


def _assign(name: str, value: ast.expr, where: ast.AST) -> ast.Assign:
    value = value if hasattr(value, "lineno") else ast.copy_location(value, where)
    target = ast.copy_location(ast.Name(name, ast.Store()), where)
    return ast.copy_location(ast.Assign([target], value), where)


# --- names -----------------------------------------------------------------------------------------------------------


def stored(nodes: ast.AST | Sequence[ast.AST]) -> set[str]:
    """Return every name that statements may bind."""
    nodes = [nodes] if isinstance(nodes, ast.AST) else nodes
    walked = (each for node in nodes for each in ast.walk(node))
    return {each.id for each in walked if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def rebound(body: Sequence[ast.AST]) -> set[str]:
    """Return the names that statements may rebind; ``x += y``, which rebinds only numbers, does not count."""
    updates = {
        id(each.target) for node in body for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    }  # fmt: skip
    walked = (each for node in body for each in ast.walk(node))
    names = (each for each in walked if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    return {each.id for each in names if id(each) not in updates}


def loaded(*nodes: ast.AST | None) -> set[str]:
    """Return every name that is read."""
    walked = (each for node in nodes if node is not None for each in ast.walk(node))
    return {each.id for each in walked if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Store)}


def written(body: Sequence[ast.AST]) -> set[str]:
    """Return the names whose memory statements visibly write: by subscript or attribute, in updates, as `out`."""
    found: set[str] = set()
    for node in (each for statement in body for each in ast.walk(statement)):
        if isinstance(node, ast.Assign):
            found |= {name for target in node.targets for name in _bases(target)}
        elif isinstance(node, ast.AugAssign):
            found |= {node.target.id} if isinstance(node.target, ast.Name) else set(_bases(node.target))
        elif isinstance(node, ast.keyword) and node.arg == "out":
            found |= loaded(node.value)
    return found


def _bases(target: ast.AST) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _bases(each)
    elif isinstance(target, (ast.Subscript, ast.Attribute)):
        yield from loaded(target.value)


def _live(body: Sequence[ast.stmt], after: frozenset[str]) -> frozenset[str]:
    """Return the names live before statements, given those live after; annotates loops and branches with them."""
    for statement in reversed(body):
        after = _live_before(statement, after)
    return after


def _live_before(statement: Any, after: frozenset[str]) -> frozenset[str]:
    if isinstance(statement, ast.Return):
        return frozenset(loaded(statement)) | getattr(statement, "read_after", frozenset())
    if isinstance(statement, ast.If):
        statement.live_out = after
        return _live(statement.body, after) | _live(statement.orelse, after) | loaded(statement.test)
    if isinstance(statement, ast.With):
        return _live(statement.body, after) | {name for item in statement.items for name in loaded(item.context_expr)}
    if isinstance(statement, (ast.For, ast.While)):
        return _live_before_loop(statement, after)
    if isinstance(statement, ast.FunctionDef):
        return (after - {statement.name}) | loaded(statement)
    targets = stored(statement)
    if isinstance(statement, ast.AugAssign):
        return after | loaded(statement) | targets
    return (after - targets) | loaded(statement)


def _live_before_loop(loop: Any, after: frozenset[str]) -> frozenset[str]:
    loop.live_out = after
    head = after | (loaded(loop.test) if isinstance(loop, ast.While) else frozenset())
    head |= {loop.flag} if loop.flag else frozenset()
    assigned = stored(loop.target) if isinstance(loop, ast.For) else set()
    while True:
        before = head | (_live(loop.body, head) - assigned)
        if before == head:
            break
        head = before
    loop.live_body = head
    return head | (loaded(loop.iter) if isinstance(loop, ast.For) else frozenset())
