"""Statements of a kernel: assignments, updates in place, assertions, device regions, returns.

Branches and loops are in `branches.py` and `loops.py`, definitions of functions in `inlining.py`.
"""

from __future__ import annotations

import ast
from typing import Any

from mlirtri.dialect.base.dtypes import DType, is_same_kind
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelAssertionError, KernelTypeError, KernelValueError, Span, UnsupportedSyntaxError
from mlirtri.lowering.external.objects import Device
from mlirtri.lowering.frontend.builtin_calls import call_builtin, is_number, kinds_in_doubt
from mlirtri.lowering.frontend.containers import assign_item, delete_item, extended, item, latest
from mlirtri.lowering.frontend.context import (
    FunctionContext,
    Returned,
    function_named,
    handles,
    note_value,
    visit,
    visit_block,
)
from mlirtri.lowering.frontend.expressions import attribute
from mlirtri.lowering.frontend.indexing.reads import element, rows
from mlirtri.lowering.frontend.indexing.writes import write
from mlirtri.lowering.frontend.operators import binary, condition
from mlirtri.lowering.frontend.scope import Element
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.storage import current, has_memory, viewed, with_memory
from mlirtri.lowering.frontend.tile_kernels import enter, write_guarded
from mlirtri.lowering.frontend.tile_language.function_table import Grid


@handles(ast.Pass)
def visit_pass(context: FunctionContext, node: ast.Pass) -> None:
    return None


@handles(ast.Expr)
def visit_expr(context: FunctionContext, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):
        visit(context, node.value)


@handles(ast.Return)
def visit_return(context: FunctionContext, node: ast.Return) -> Returned:
    return Returned(current(context.b.tri, visit(context, node.value)) if node.value else None)


@handles(ast.Delete)
def visit_delete(context: FunctionContext, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Subscript) and isinstance(owner := visit(context, target.value), (list, dict)):
            delete_item(context, owner, visit(context, target.slice))
            continue
        if not isinstance(target, ast.Name):
            raise UnsupportedSyntaxError(
                "only names and items of lists and dicts can be deleted", context.span(target),
                help="write numpy.delete(x, …) for elements",
            )  # fmt: skip
        if target.id in context.scope.references:
            raise UnsupportedSyntaxError(f"{target.id!r} is the caller's, and cannot be deleted", context.span(target))
        context.scope.locals.pop(target.id, None)


@handles(ast.Assert)
def visit_assert(context: FunctionContext, node: ast.Assert) -> None:
    """Check a compile-time condition now, a run-time one after the call in a kernel compiled with ``debug``."""
    b, predicate = context.b, condition(context, node.test)
    message = visit(context, node.msg) if node.msg else None
    shown = f"assertion failed: {message if isinstance(message, str) else ast.unparse(node.test)}"
    if isinstance(predicate, TriValue):
        if b.debug:
            b.check(b.tri.logical_not(predicate), KernelAssertionError, shown)
    elif not predicate:
        raise KernelAssertionError(shown, context.span(node.test))


@handles(ast.With)
def visit_with(context: FunctionContext, node: ast.With) -> Returned | None:
    """Emit the body of ``with mt.device("gpu"):`` on the device; values of other devices are copied there."""
    first, *others = node.items
    device = visit(context, first.context_expr)
    if isinstance(device, Grid):
        return enter(context, device, node)
    if not isinstance(device, Device):
        raise UnsupportedSyntaxError(
            f"a kernel cannot enter {describe(device)}",
            help='leave context managers outside of the kernel; regions are `with mlirtri.device("gpu"):`',
        )
    extra = others[0].context_expr if others else first.optional_vars
    if extra is not None:
        raise UnsupportedSyntaxError(
            "a device region names one device and no variable", context.span(extra), help="nest regions"
        )
    with context.b.tri.placement.on(device):
        return visit_block(context, node.body)


@handles(ast.Assign)
def visit_assign(context: FunctionContext, node: ast.Assign) -> None:
    if (value := _reduced(context, node)) is None:
        # All targets name one array.
        value = with_memory(visit(context, node.value))
    for target in node.targets:
        assign(context, target, value)


def _reduced(context: FunctionContext, node: ast.Assign) -> TriValue | None:
    """Return the value of ``x[i] = min(y, z)`` in the dtype of `x`; None for other statements.

    Where iterations without order write `x`, the extremum of its own element and another number leaves out NaN, so that
    it does not depend on the order.
    """
    [target, *others], call = node.targets, node.value
    if others or not isinstance(target, ast.Subscript) or not isinstance(call, ast.Call) or len(call.args) != 2:
        return None
    if call.keywords or not isinstance(target.value, ast.Name):
        return None
    b, function, array = context.b, function_named(context, call), visit(context, target.value)
    if not (function is min or function is max) or not has_memory(array):
        return None
    is_own = [ast.unparse(argument) == ast.unparse(target) for argument in call.args]
    is_reduction = sum(is_own) == 1 and any(array.origin.storage in loop.shared for loop in b.counted_loops)
    dtype, values = array.type.dtype, current(b.tri, [visit(context, argument) for argument in call.args])
    if not is_reduction and all(map(is_number, values)) and kinds_in_doubt(*values):
        # Either number is cast to the array's dtype, whichever it is.
        is_beyond = (b.greater if function is max else b.less)(values[1], values[0])
        return b.tensor(b.where(is_beyond, *(b.cast(value, dtype) for value in reversed(values))))
    if not is_reduction or not all(_is_number_of(dtype, value) for value in values):
        return with_memory(call_builtin(b, function, values, {}))
    name = "max" if function is max else "min"
    return b.tensor(getattr(b, f"f{name}" if dtype.is_float else f"{name}imum")(*values), dtype)


def _is_number_of(dtype: DType, value: Any) -> bool:
    """Return whether a number has this dtype, or is Python's and takes it."""
    if isinstance(value, TriValue):
        is_float = value.type.dtype.is_float
        takes = value.type.dtype == dtype or (value.weak and (dtype.is_float or not is_float))
        return not value.type.rank and takes and not dtype.is_bool
    return type(value) is int or (type(value) is float and dtype.is_float)


@handles(ast.AnnAssign)
def visit_ann_assign(context: FunctionContext, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign(context, node.target, visit(context, node.value))


@handles(ast.NamedExpr)
def visit_named_expr(context: FunctionContext, node: ast.NamedExpr) -> KernelValue:
    value = with_memory(visit(context, node.value))
    assign(context, node.target, value)
    return value


def assign(context: FunctionContext, target: ast.expr, value: KernelValue) -> None:
    """Bind a name, write into an array, or unpack into several of these."""
    span = context.span(target)
    if isinstance(target, ast.Name):
        note_value(context, span, value, target.id)
        return _assign_name(context, target.id, value)
    if isinstance(target, ast.Subscript):
        return _assign_subscript(context, target, current(context.b.tri, value))
    if isinstance(target, ast.Attribute):
        return _assign_attribute(context, target, value)
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise UnsupportedSyntaxError(
            f"assigning to {ast.unparse(target)!r} is not supported", span, help="assign to a name"
        )
    if isinstance(value, TriValue) and value.type.rank:
        value = rows(context.b, value)
    if not isinstance(value, (tuple, list)):
        raise KernelTypeError(f"cannot unpack {describe(value)}", span, help="assign it to one name")
    if any(isinstance(part, ast.Starred) for part in target.elts):
        return _assign_starred(context, target, list(value), span)
    if len(value) != len(target.elts):
        raise KernelTypeError(
            f"cannot unpack {len(value)} values into {len(target.elts)} names", span, help="write a name for each value"
        )
    for part, part_value in zip(target.elts, value, strict=True):
        assign(context, part, part_value)


def _assign_starred(context: FunctionContext, target: ast.Tuple | ast.List, values: list[Any], span: Span) -> None:
    """Assign to several targets, one of which takes a list of what the others leave."""
    starred = next(number for number, part in enumerate(target.elts) if isinstance(part, ast.Starred))
    behind = len(target.elts) - 1 - starred
    if len(values) < starred + behind:
        raise KernelTypeError(
            f"cannot unpack {len(values)} values into at least {starred + behind} names", span,
            help="write a name for each value",
        )  # fmt: skip
    last = len(values) - behind
    parts = [*values[:starred], values[starred:last], *values[last:]]
    for part, value in zip(target.elts, parts, strict=True):
        assign(context, part.value if isinstance(part, ast.Starred) else part, value)


def _assign_name(context: FunctionContext, name: str, value: Any) -> None:
    if isinstance(reference := context.scope.locals.get(name), Element):
        reference.write(current(context.b.tri, value))
        return
    context.scope.locals[name] = with_memory(value)
    _name_value(value, name)


def _name_value(value: Any, name: str) -> None:
    """Record the user's variable name in the location of an SSA value; the first name wins."""
    if not isinstance(value, TriValue) or isinstance(value.value.owner, ir.Block):
        return
    operation = value.value.owner
    if not isinstance(operation.location, ir.NameLoc):
        operation.location = ir.Location.name(name, operation.location)


def _assign_subscript(context: FunctionContext, target: ast.Subscript, value: Any) -> None:
    owner, index = visit(context, target.value), visit(context, target.slice)
    if isinstance(owner, (list, dict)):
        return assign_item(context, owner, index, value)
    if not isinstance(owner, TriValue):
        raise UnsupportedSyntaxError(
            f"assigning to an item of {describe(owner)} is not supported", help="make a new tuple, or a list"
        )
    b, array = context.b, current(context.b.tri, owner)

    def update(inside: tuple[Any, ...]) -> None:
        write(b, current(b.tri, array), inside, value)

    write_guarded(context, array, index if isinstance(index, tuple) else (index,), update, target)


def _assign_attribute(context: FunctionContext, target: ast.Attribute, value: Any) -> None:
    """Rebind or write an attribute: ``x.shape = …`` makes another view; ``x.real = …`` and ``x.flat = …`` write."""
    owner = visit(context, target.value)
    if isinstance(owner, TriValue) and target.attr == "shape" and isinstance(target.value, ast.Name):
        _reshape_in_place(context, owner, value, target.value.id)
    elif isinstance(owner, TriValue) and target.attr in ("real", "imag", "flat"):
        part = attribute(context, owner, target.attr) if target.attr != "flat" else owner
        write(context.b, part, (...,), value)
    else:
        raise UnsupportedSyntaxError(f"assigning to {ast.unparse(target)!r} is not supported", help="assign to a name")


def _reshape_in_place(context: FunctionContext, owner: TriValue, shape: Any, name: str) -> None:
    reshaped = viewed("reshape", owner, context.b.reshape(owner, shape))
    if has_memory(owner) and (owner.origin.storage.argument is not None or not has_memory(reshaped)):
        raise UnsupportedSyntaxError(
            f"the shape of {name!r} cannot be changed in place: it is an argument, or no view of that shape exists",
            help=f"write `{name} = {name}.reshape(…)`",
        )
    for other, value in context.scope.locals.items():
        is_same = has_memory(value) and value.origin.storage is owner.origin.storage
        if other == name or (is_same and value.origin.steps == owner.origin.steps):
            context.scope.locals[other] = with_memory(reshaped)


@handles(ast.AugAssign)
def visit_aug_assign(context: FunctionContext, node: ast.AugAssign) -> None:
    """Emit ``x += y``: write x's memory when x is an array, rebind the name when it is a number."""
    b, target = context.b, node.target
    if isinstance(target, ast.Name):
        _update_name(context, target.id, node)
        return
    if isinstance(target, ast.Attribute) and target.attr in ("real", "imag"):
        old = attribute(context, visit(context, target.value), target.attr)
        _update_array(context, old, binary(b, node.op, old, visit(context, node.value)), node)
        return
    if not isinstance(target, ast.Subscript):
        raise UnsupportedSyntaxError(
            f"updating {ast.unparse(target)!r} in place is not supported", help="assign a new tensor to a name"
        )
    owner, index = visit(context, target.value), visit(context, target.slice)
    if isinstance(owner, (list, dict)):
        return _update_item(context, owner, index, node)
    if not isinstance(owner, TriValue):
        raise UnsupportedSyntaxError(
            f"updating an item of {describe(owner)} is not supported", help="make a new tuple, or a list"
        )
    array, parts = current(b.tri, owner), index if isinstance(index, tuple) else (index,)
    write_guarded(context, array, parts, lambda inside: _update_element(context, array, inside, node), node)


def _update_item(context: FunctionContext, owner: Any, index: Any, node: ast.AugAssign) -> None:
    """Emit ``l[i] += y`` of a list or dict: an array is written where it is, anything else replaced."""
    array, value = item(owner, index), visit(context, node.value)
    old = current(context.b.tri, array)
    if isinstance(old, list) and isinstance(node.op, ast.Add):
        return extended(context, old, value)
    new = binary(context.b, node.op, old, value)
    if has_memory(old):
        return _update_array(context, old, new, node)
    assign_item(context, latest(context.scope, owner), index, new)


def _update_element(context: FunctionContext, owner: TriValue, parts: tuple[Any, ...], node: ast.AugAssign) -> None:
    b = context.b
    old = element(b, current(b.tri, owner), parts)
    value = visit(context, node.value)
    old, owner = current(b.tri, old), current(b.tri, owner)
    _check_overlap(b, old, value, node)
    new = binary(b, node.op, old, value)
    _check_update(b, old, new, node)
    write(b, owner, parts, new)


def _update_name(context: FunctionContext, name: str, node: ast.AugAssign) -> None:
    old = context.scope.read(name, context.b)
    value = visit(context, node.value)
    if isinstance(old, list) and isinstance(node.op, (ast.Add, ast.Mult)):
        times = value if isinstance(node.op, ast.Mult) else None
        return extended(context, latest(context.scope, old), value, times)
    old = current(context.b.tri, old)
    _check_overlap(context.b, old, value, node)
    new = binary(context.b, node.op, old, value)
    # A branch inside of the value replaces the dictionary of names.
    names = context.scope.locals
    if isinstance(reference := names.get(name), Element):
        _check_update(context.b, old, new, node)
        reference.write(new)
    elif has_memory(old):
        _check_identity(context, name, old, node)
        _update_array(context, old, new, node)
    else:
        names[name] = with_memory(new)
        _name_value(new, name)


def _check_overlap(b: Language, old: Any, value: Any, node: ast.AugAssign) -> None:
    """Refuse ``x += x[0]`` where torch does: a view of the elements that are written, and not just these in order."""
    if b.semantics != "torch" or not has_memory(old) or not has_memory(value):
        return
    written, read = old.origin, value.origin
    if written.storage is not read.storage or read.steps[: len(written.steps)] != written.steps:
        return
    if any(step.op != "reshape" for step in read.steps[len(written.steps) :]):
        raise KernelValueError(
            f"`{ast.unparse(node)}` writes elements that it also reads elsewhere",
            help=f"torch refuses it, too: write {ast.unparse(node.value)}.clone()",
        )


def _check_identity(context: FunctionContext, name: str, old: TriValue, node: ast.AugAssign) -> None:
    """Refuse ``x += y`` where x may be a number and has another name: whether that name sees it is not known."""
    storage = old.origin.storage
    if storage.may_be_number and context.is_shared(name, storage):
        others = " and ".join(map(repr, context.other_names(name, storage))) or "a name of the calling function"
        raise UnsupportedSyntaxError(
            f"{name!r} is a number or a rank-0 array, depending on what ran before, and {others} may be the same array",
            help=f"write `{_as_assignment(node)}`, which makes a new one",
        )


def _update_array(context: FunctionContext, old: TriValue, new: Any, node: ast.AugAssign) -> None:
    """Write the result of in-place arithmetic into the array's memory, which every alias sees."""
    b, names, target = context.b, context.scope.locals, node.target
    if not has_memory(old):
        if isinstance(target, ast.Name) and names.get(target.id) is old:
            names[target.id] = with_memory(new)
            return
        raise UnsupportedSyntaxError(
            f"`{ast.unparse(node)}` would write into memory that {ast.unparse(target)!r} shares with an argument",
            help=f"write `{_as_assignment(node)}`, which makes a new number, or pass an array of one element",
        )
    _check_update(b, old, new, node)
    b.memory.write(b.tri, old.origin, b.tri.cast(b.tensor(new), old.type.dtype))


def _check_update(b: Language, old: TriValue, new: Any, node: ast.AugAssign) -> None:
    """Refuse in-place arithmetic that changes the shape or gives a wider kind of dtype."""
    update = b.tensor(new) if not isinstance(new, TriValue) else new
    target = ast.unparse(node.target)
    # One element of a NumPy array is a scalar: the update is an assignment, which casts.
    is_number = b.semantics == "numpy" and not old.type.rank and not has_memory(old)
    is_wider = not is_number and not is_same_kind(b.semantics, update.type.dtype, old.type.dtype)
    if is_wider or not _may_be_equal(update.type.shape, old.type.shape):
        raise KernelTypeError(
            f"`{ast.unparse(node)}` is {update.type}, which does not fit into {target!r}, {old.type}",
            help=f"write `{target} = …`, which makes a new tensor",
        )


def _as_assignment(node: ast.AugAssign) -> str:
    """Return ``x = x + y`` for ``x += y``."""
    return f"{ast.unparse(node.target)} = {ast.unparse(ast.BinOp(node.target, node.op, node.value))}"


def _may_be_equal(shape: tuple[int | Size, ...], other: tuple[int | Size, ...]) -> bool:
    pairs = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(x == y or is_dynamic(x) or is_dynamic(y) for x, y in pairs)
