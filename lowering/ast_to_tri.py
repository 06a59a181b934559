"""From Python's syntax to the `tri` dialect: statements. `ast_expressions` and `ast_calls` have the rest.

Takes a `KernelTree`. Gives a module with one `func.func` of `tri` operations, each at its true line, and sets
`context.interface`. Nothing of the user's function is executed: tensors are SSA values, all else is known now.
Refuses, each with a caret, all mistakes of the function that can be found in one go.
"""

from __future__ import annotations

import ast
from typing import Any

from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.dialect.locations import location_of, span_of
from mlirtri.dialect.mlir import func, ir
from mlirtri.errors import CompilerBugError, KernelError, KernelTypeError, Span, UnsupportedSyntaxError, raise_all
from mlirtri.lowering.ast_calls import Calls
from mlirtri.lowering.ast_expressions import Expressions
from mlirtri.lowering.language import Language, describe
from mlirtri.lowering.python_to_ast import KernelTree, span_of_node
from mlirtri.lowering.scope import POISON, Poisoned, Scope
from mlirtri.lowering.specialization import ConstantParameter, Interface, Leaf, RuntimeCheck, TensorParameter, like
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.tri_builder import Tensor

# Statements that kernels do not have, with the way out; the rest is refused without one.
INSTEAD = {
    "For": "write whole-tensor operations; element loops are not part of the language",
    "While": "write whole-tensor operations; run-time loops are not part of the language",
    "AsyncFor": "write whole-tensor operations",
    "Try": "a kernel raises nothing: check arguments before the call",
    "TryStar": "a kernel raises nothing: check arguments before the call",
    "Raise": "use static_assert for conditions known at compile time",
    "Assert": "use static_assert for conditions known at compile time",
    "With": "leave context managers outside of the kernel",
    "AsyncWith": "leave context managers outside of the kernel",
    "Delete": "names end with the function; just do not use it any more",
    "Global": "pass the value as an argument and return the new one",
    "Nonlocal": "pass the value as an argument and return the new one",
    "Import": "import at the top of the file",
    "ImportFrom": "import at the top of the file",
    "FunctionDef": "define helper functions at the top of the file",
    "AsyncFunctionDef": "define helper functions at the top of the file",
    "ClassDef": "a kernel has no classes",
    "Match": "use if/elif on values known at compile time",
    "TypeAlias": "a kernel has no type aliases",
}


class FunctionVisitor(Expressions, Calls):
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
        except (Poisoned, RecursionError):
            raise
        except Exception as error:
            raise CompilerBugError(error, type(node).__name__, span) from error
        finally:
            self.b.tri.location = outer

    def location_of(self, span: Span) -> ir.Location:
        """A place in this function, and the call that it is inlined at."""
        place = location_of(span)
        return place if self.call is None else ir.Location.callsite(place, [self.call])

    def run(self, body: list[ast.stmt]) -> Any:
        """The value the function returns; raises every error found in it."""
        returned = self.block(body)
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
        """Bind a name, or unpack into several."""
        span = span_of_node(self.file, target)
        if isinstance(target, ast.Name):
            self.scope.locals[target.id] = value
            name_value(value, target.id)
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

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """``x += y`` is ``x = x + y`` for a local of its own; a write into shared memory is refused."""
        if not isinstance(node.target, ast.Name):
            raise UnsupportedSyntaxError(
                f"updating {ast.unparse(node.target)!r} in place is not supported", help="assign a new tensor to a name"
            )
        name = node.target.id
        old = self.scope.read(name)
        new = self.binary(node.op, old, self.visit(node.value))
        if isinstance(old, Tensor) and not old.weak:
            self.check_update(name, old, new, node)
        self.scope.locals[name] = new
        name_value(new, name)

    def check_update(self, name: str, old: Tensor, new: Any, node: ast.AugAssign) -> None:
        """In-place arithmetic keeps shape and dtype, and is seen through every other name of the same memory."""
        spelled = f"{name} = {name} {OPERATOR_SIGNS.get(type(node.op), '…')} {ast.unparse(node.value)}"
        if isinstance(old.value.owner, ir.Block) or is_view(old):
            raise UnsupportedSyntaxError(
                f"`{ast.unparse(node)}` would write into memory that {name!r} shares with an argument or other tensor",
                help=f"write `{spelled}`, which makes a new tensor",
            )
        aliases = [
            n for n, v in self.scope.locals.items() if n != name and isinstance(v, Tensor) and v.value == old.value
        ]
        if aliases:
            raise UnsupportedSyntaxError(
                f"`{ast.unparse(node)}` would also change {aliases[0]!r}, which is the same tensor",
                help=f"write `{spelled}`, which makes a new tensor",
            )
        if new.type != old.type:
            raise KernelTypeError(
                f"`{ast.unparse(node)}` is {new.type}, which does not fit into {name!r}, {old.type}",
                help=f"write `{spelled}`, which makes a new tensor",
            )

    def visit_If(self, node: ast.If) -> Returned | None:
        """Only the arm that is taken is looked at."""
        return self.block(node.body if self.condition(node.test, "if") else node.orelse)


class Returned:
    """A return statement was reached."""

    def __init__(self, value: Any):
        self.value = value


OPERATOR_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip

_VIEWS = ("tri.reshape", "tri.transpose", "tri.slice", "tri.broadcast_to", "tri.flip")


def is_view(tensor: Tensor) -> bool:
    """Whether NumPy or torch could have made this tensor as a view of another."""
    return tensor.value.owner.name in _VIEWS


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


def lower(tree: KernelTree, context: CompileContext) -> ir.Module:
    """The `tri` module of a kernel, and `context.interface`; raises the function's `KernelError`s, all in one."""
    span = span_of_node(tree.file, tree.node)
    with new_context(), location_of(span):
        module = ir.Module.create()
        types = [mlir_type(parameter.type) for parameter in tree.specialization.tensors]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(tree.symbol, (types, []))
        block = function.add_entry_block(arg_locs=_argument_locations(tree))
        with ir.InsertionPoint(block):
            _emit_body(tree, context, function, block)
        module.operation.verify()
    return module


def _argument_locations(tree: KernelTree) -> list[ir.Location]:
    arguments = tree.node.args
    nodes = {a.arg: a for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return [location_of(span_of_node(tree.file, nodes[p.name]), p.name) for p in tree.specialization.tensors]


def _emit_body(tree: KernelTree, context: CompileContext, function, block: ir.Block) -> None:
    builder = Language(tree.specialization.semantics)
    scope = Scope(tree.function, context.captures)
    arguments = iter(block.arguments)
    for parameter in tree.specialization.parameters:
        if isinstance(parameter, ConstantParameter):
            scope.locals[parameter.name] = parameter.value
        else:
            scope.locals[parameter.name] = Tensor(next(arguments), parameter.type, parameter.weak)
    visitor = FunctionVisitor(builder, scope, tree.file)
    value = visitor.run(tree.node.body)
    results: list[Tensor] = []
    builder.tri.location = _return_location(tree)
    structure = _result_tree(value, builder, results, _return_span(tree))
    checks = []
    for condition, error, message, location in builder.pending_checks:
        checks.append(RuntimeCheck(len(results), error, message, span_of(location)))
        results.append(condition)
    func.ReturnOp([result.value for result in results], loc=builder.tri.location)
    # The function was made before its results were known.
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(inputs, [mlir_type(result.type) for result in results])
    )
    parameters: tuple[TensorParameter, ...] = tree.specialization.tensors
    context.interface = Interface(parameters, tuple(r.type for r in results), structure, tuple(checks))


def _return_span(tree: KernelTree):
    returns = [node for node in ast.walk(tree.node) if isinstance(node, ast.Return)]
    return span_of_node(tree.file, returns[-1] if returns else tree.node)


def _return_location(tree: KernelTree) -> ir.Location:
    return location_of(_return_span(tree))


def _result_tree(value: Any, builder: Language, results: list[Tensor], span) -> Any:
    """Python's structure with a `Leaf` for each tensor; numbers become tensors of rank 0."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return like(value, [_result_tree(each, builder, results, span) for each in value])
    if not isinstance(value, (Tensor, bool, int, float)):
        raise KernelTypeError(f"a kernel cannot return {describe(value)}", span, help="return tensors, numbers, tuples")
    result = value if isinstance(value, Tensor) else builder.tensor(value)
    results.append(result)
    return Leaf(len(results) - 1, result.type)
