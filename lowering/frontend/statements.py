"""Statements of a kernel: assignments, updates, assertions, definitions, returns; and the visitor of a whole function.

Takes the statements of one Python function. Emits `tri` operations for them; branches, loops, expressions, subscripts,
calls and device regions are in files of their own, `ast_*`. Nothing of the user's function is executed: tensors are SSA
values, all else is known now. Refuses, each with a caret, all mistakes of the function that can be found in one go.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import Tensor
from mlirtri.errors import (
    CompilerBugError,
    KernelAssertionError,
    KernelError,
    KernelTypeError,
    Span,
    UnsupportedSyntaxError,
    raise_all,
)
from mlirtri.lowering.frontend.branches import Branches, Returned
from mlirtri.lowering.frontend.calls import Calls
from mlirtri.lowering.frontend.closures import local_function
from mlirtri.lowering.frontend.device_regions import DeviceRegions
from mlirtri.lowering.frontend.early_exits import structured
from mlirtri.lowering.frontend.expressions import Expressions
from mlirtri.lowering.frontend.language.builder import Language, describe
from mlirtri.lowering.frontend.language.storage import current, has_memory, own
from mlirtri.lowering.frontend.language.views import viewed
from mlirtri.lowering.frontend.loop_state import Again, LoopPlan
from mlirtri.lowering.frontend.loops import Loops
from mlirtri.lowering.frontend.macro_references import Element
from mlirtri.lowering.frontend.python_to_ast import span_of_node
from mlirtri.lowering.frontend.scope import POISON, Poisoned, Scope
from mlirtri.lowering.frontend.updates import Updates

# Statements that kernels do not have, with the way out; the rest is refused without one.
INSTEAD = {
    "AsyncFor": "write whole-tensor operations",
    "Try": "a kernel raises nothing: check arguments before the call",
    "TryStar": "a kernel raises nothing: check arguments before the call",
    "Raise": "use static_assert for conditions known at compile time",
    "AsyncWith": "leave context managers outside of the kernel",
    "Global": "pass the value as an argument and return the new one",
    "Nonlocal": "pass the value as an argument and return the new one",
    "Import": "import at the top of the file",
    "ImportFrom": "import at the top of the file",
    "AsyncFunctionDef": "define helper functions at the top of the file",
    "ClassDef": "a kernel has no classes",
    "Match": "use if/elif on values known at compile time",
    "TypeAlias": "a kernel has no type aliases",
}


class FunctionVisitor(Branches, Loops, Expressions, Updates, Calls, DeviceRegions):
    """Visits one Python function. Inlined functions get a visitor each; all share the language builder."""

    def __init__(self, builder: Language, scope: Scope, file: str, depth: int = 0, call: ir.Location | None = None):
        self.b = builder
        self.scope = scope
        self.file = file
        self.depth = depth
        """How many calls deep this function is inlined."""
        self.call = call
        """Where it is called from, when it is inlined."""
        self.errors: list[KernelError] = []
        self.plans: dict[ast.AST, LoopPlan] = {}
        """What earlier attempts at this function's loops found out."""
        self.entry_serial = builder.memory.serial
        """Memory with a lower serial is that of arguments."""

    def visit(self, node: ast.AST) -> Any:
        """Dispatch on the node's class; operations made meanwhile get its place, and so do errors."""
        handler = getattr(self, f"visit_{type(node).__name__}", None)
        span = span_of_node(self.file, node)
        if handler is None:
            raise UnsupportedSyntaxError(
                f"a kernel cannot contain {type(node).__name__}", span, help=INSTEAD.get(type(node).__name__)
            )
        outer, self.b.tri.location = self.b.tri.location, self.location_of(span)
        try:
            return handler(node)
        except KernelError as error:
            raise error.at(span) from error.__cause__
        except (Poisoned, Again, RecursionError):
            raise
        except Exception as error:
            raise CompilerBugError(error, type(node).__name__, span) from error
        finally:
            self.b.tri.location = outer

    def location_of(self, span: Span) -> ir.Location:
        """A place in this function, and the call that it is inlined at."""
        place = location_of(span)
        return place if self.call is None else ir.Location.callsite(place, [self.call])

    def run(self, body: list[ast.stmt], read_after: Iterable[str] = ()) -> Any:
        """The value the function returns; raises every error found in it. Names of `read_after` are read by others."""
        returned = self.block(structured(body, read_after))
        raise_all(self.errors)
        return returned.value if returned else None

    def block(self, body: list[ast.stmt]) -> Returned | None:
        """Run statements up to a return. A statement that fails is noted, and the names it assigns are poisoned."""
        for statement in body:
            try:
                if (returned := self.visit(statement)) is not None:
                    return returned
            except (KernelError, Poisoned) as error:
                if isinstance(error, KernelError):
                    self.errors.append(error)
                for name in assigned_names(statement):
                    self.scope.locals[name] = POISON
        return None

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_Assert(self, node: ast.Assert) -> None:
        """Checked after the call by a kernel compiled with ``debug``; now, where it is known now."""
        truth = self.truth(node.test)
        message = self.visit(node.msg) if node.msg else None
        shown = f"assertion failed: {message if isinstance(message, str) else ast.unparse(node.test)}"
        if isinstance(truth, Tensor):
            if self.b.debug:
                self.b.check(self.b.tri.logical_not(truth), KernelAssertionError, shown)
        elif not truth:
            raise KernelAssertionError(shown, span_of_node(self.file, node.test))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.scope.locals[node.name] = local_function(node, self)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return local_function(node, self)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise UnsupportedSyntaxError("only names can be deleted", span_of_node(self.file, target))
            self.scope.locals.pop(target.id, None)

    def visit_Return(self, node: ast.Return) -> Returned:
        return Returned(self.visit(node.value) if node.value else None)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self.assign(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.visit(node.value))

    def assign(self, target: ast.expr, value: Any) -> None:
        """Bind a name, write into an array, or unpack into several of these."""
        span = span_of_node(self.file, target)
        if isinstance(target, ast.Name):
            self.assign_name(target.id, value)
            return
        if isinstance(target, ast.Subscript):
            self.assign_subscript(target, current(self.b.tri, value))
            return
        if isinstance(target, ast.Attribute):
            self.assign_attribute(target, value)
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise UnsupportedSyntaxError(
                f"assigning to {ast.unparse(target)!r} is not supported", span, help="assign to a name"
            )
        if isinstance(value, Tensor) and value.type.rank:
            value = self.rows(value)
        if not isinstance(value, (tuple, list)):
            raise KernelTypeError(f"cannot unpack {describe(value)}", span)
        if any(isinstance(each, ast.Starred) for each in target.elts):
            raise UnsupportedSyntaxError("starred targets are not supported", span, help="name every part")
        if len(value) != len(target.elts):
            raise KernelTypeError(f"cannot unpack {len(value)} values into {len(target.elts)} names", span)
        for each, part in zip(target.elts, value, strict=True):
            self.assign(each, part)

    def assign_name(self, name: str, value: Any) -> None:
        if isinstance(reference := self.scope.locals.get(name), Element):
            reference.write(current(self.b.tri, value))
            return
        self.scope.locals[name] = own(value)
        name_value(value, name)

    def assign_subscript(self, target: ast.Subscript, value: Any) -> None:
        owner, index = self.visit(target.value), self.visit(target.slice)
        if not isinstance(owner, Tensor):
            raise UnsupportedSyntaxError(
                f"assigning to an item of {describe(owner)} is not supported", help="make a new tuple or list"
            )
        self.write(owner, index if isinstance(index, tuple) else (index,), value)

    def assign_attribute(self, target: ast.Attribute, value: Any) -> None:
        """``x.shape = …`` gives the name another view; ``x.real = …`` and ``x.T = …`` write."""
        owner = self.visit(target.value)
        if isinstance(owner, Tensor) and target.attr == "shape" and isinstance(target.value, ast.Name):
            self.reshape_in_place(owner, value, target.value.id)
        elif isinstance(owner, Tensor) and target.attr in ("real", "imag", "flat"):
            part = self.attribute(owner, target.attr) if target.attr != "flat" else owner
            self.write(part, (...,), value)
        else:
            raise UnsupportedSyntaxError(
                f"assigning to {ast.unparse(target)!r} is not supported", help="assign to a name"
            )

    def reshape_in_place(self, owner: Tensor, shape: Any, name: str) -> None:
        """The array has another shape from now on, under each of its names."""
        reshaped = viewed(self.b, owner, self.b.reshape(owner, shape))
        if has_memory(owner) and (owner.origin.storage.argument is not None or not has_memory(reshaped)):
            raise UnsupportedSyntaxError(
                f"the shape of {name!r} cannot be changed in place: it is an argument, or no view of that shape exists",
                help=f"write `{name} = {name}.reshape(…)`",
            )
        for each, value in self.scope.locals.items():
            is_same = has_memory(value) and value.origin.storage is owner.origin.storage
            if each == name or (is_same and value.origin.steps == owner.origin.steps):
                self.scope.locals[each] = own(reshaped)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """``x += y`` writes into the memory of x when x is an array, and binds the name anew when it is a number."""
        if isinstance(node.target, ast.Name):
            old = self.scope.read(node.target.id, self.b.tri)
            new = self.binary(node.op, old, self.visit(node.value))
            if isinstance(reference := self.scope.locals.get(node.target.id), Element):
                reference.write(new)
            elif (
                isinstance(old, Tensor) and not old.weak and (has_memory(old) or isinstance(old.value.owner, ir.Block))
            ):
                self.update(old, new, node)
            else:
                self.scope.locals[node.target.id] = own(new)
                name_value(new, node.target.id)
            return
        if isinstance(node.target, ast.Attribute) and node.target.attr in ("real", "imag"):
            old = self.visit_Attribute(node.target)
            self.update(old, self.binary(node.op, old, self.visit(node.value)), node)
            return
        if not isinstance(node.target, ast.Subscript):
            raise UnsupportedSyntaxError(
                f"updating {ast.unparse(node.target)!r} in place is not supported", help="assign a new tensor to a name"
            )
        owner, index = self.visit(node.target.value), self.visit(node.target.slice)
        if not isinstance(owner, Tensor):
            raise UnsupportedSyntaxError(f"updating an item of {describe(owner)} is not supported")
        parts = index if isinstance(index, tuple) else (index,)
        old = self.element(owner, parts)
        new = self.binary(node.op, old, self.visit(node.value))
        self.check_update(old, new, node)
        self.write(owner, parts, new)

    def update(self, old: Tensor, new: Any, node: ast.AugAssign) -> None:
        """In-place arithmetic is seen through every other name of the same memory."""
        if not has_memory(old):
            if self.scope.locals.get(node.target.id) is old and old.value.owner.owner.name != "func.func":  # type: ignore
                self.scope.locals[node.target.id] = own(new)  # type: ignore[union-attr]
                return
            name = ast.unparse(node.target)
            raise UnsupportedSyntaxError(
                f"`{ast.unparse(node)}` would write into memory that {name!r} shares with an argument",
                help=f"write `{name} = {name} {OPERATOR_SIGNS.get(type(node.op), '…')} {ast.unparse(node.value)}`, "
                "which makes a new number, or pass an array of one element",
            )
        self.check_update(old, new, node)
        self.b.memory.write(self.b.tri, old.origin, self.b.tri.cast(self.b.tensor(new), old.type.dtype))

    def check_update(self, old: Tensor, new: Any, node: ast.AugAssign) -> None:
        """In-place arithmetic keeps the shape, and dtypes of another kind do not fit."""
        made = self.b.tensor(new) if not isinstance(new, Tensor) else new
        target = ast.unparse(node.target)
        # One element of a NumPy array is a number: the update is an assignment, which casts.
        is_number = self.b.semantics == "numpy" and not old.type.rank and not has_memory(old)
        is_wider = _rank(made.type.dtype) > _rank(old.type.dtype) and not is_number
        if is_wider or not _may_be_same(made.type.shape, old.type.shape):
            raise KernelTypeError(
                f"`{ast.unparse(node)}` is {made.type}, which does not fit into {target!r}, {old.type}",
                help=f"write `{target} = …`, which makes a new tensor",
            )


OPERATOR_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


def _may_be_same(shape: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two shapes are equal, as far as that is known at compile time."""
    pairs = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(a == b or is_dynamic(a) or is_dynamic(b) for a, b in pairs)


def _rank(dtype: Any) -> int:
    """Kinds of dtypes in the order in which `same_kind` casts may go up."""
    return 0 if dtype.is_bool else 1 if dtype.is_integer else 2 if dtype.is_float else 3


def assigned_names(statement: ast.AST) -> list[str]:
    """Every name that a statement may bind."""
    return [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def name_value(value: Any, name: str) -> None:
    """Let an SSA value carry the user's variable name in its location; the first name wins."""
    if not isinstance(value, Tensor) or isinstance(value.value.owner, ir.Block):
        return
    operation = value.value.owner
    if not isinstance(operation.location, ir.NameLoc):
        operation.location = ir.Location.name(name, operation.location)
