"""Replace elementary functions in a PrimFunc by vector arithmetic, where LLVM would call the C library per element.

`mark`, before TVM's lowering, makes them operators of ours that TVM may vectorise; `expand`, after it, builds the
expression of each. Functions and dtypes without a rule are left to LLVM and to the C library.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mlirtri.lowering.elementary.double import FUNCTIONS
from mlirtri.lowering.elementary.tir_lanes import Lanes
from mlirtri.lowering.tir.statements import depends_on, flat, nodes_in, operator_name, rewritten
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    IRModule,
    Node,
    PrimFunc,
    Stmt,
    Var,
    ir,
    register_pure_operator,
    structural_map,
    structural_walk,
    tirx,
    with_values,
)

PREFIX = "tirx.mlirtri."
_EXTERNAL = "tirx.call_pure_extern"
_OF_LLVM = ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "pow")
"""Functions that LLVM has intrinsics for, vector ones included."""
_WITHOUT_HALF = {"asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf"}
"""Functions that TVM has no code for in fp16; Relax's operators come down to them."""


def mark(mod: IRModule) -> IRModule:
    """Replace elementary functions by operators of ours.

    What is computed beside a `while` never becomes a vector: there the C library is faster than the same arithmetic on
    one number.
    """
    bodies = [function.body for _, function in mod.functions_items() if isinstance(function, PrimFunc)]
    if not any(nodes_in(body, tirx.While) for body in bodies):
        return rewritten(mod, (ir.Call, _marked), is_for_cpu)
    return rewritten(rewritten(mod, (tirx.For, _marked_loop), is_for_cpu), (ir.Call, _of_library), is_for_cpu)


def _marked_loop(loop: Stmt) -> Any:
    return loop if nodes_in(loop, tirx.While) else structural_map(loop, (ir.Call, _marked), order="post")


def _of_library(call: Expr) -> Any:
    marked = _marked(call)
    is_plain = str(getattr(marked.ty, "dtype", "")) in ("float32", "float64") and _name(marked) in _OF_LLVM
    return _called(marked) if is_plain and _name(call) is None else marked


def expand(mod: IRModule) -> IRModule:
    """Replace those operators by arithmetic, with its variables bound in statements before the use.

    TVM's simplifier rejects variables bound inside of values. A conditional operand may load memory that is valid only
    under its condition: it stays where it is, as a call.
    """
    functions = [function for _, function in mod.functions_items() if isinstance(function, PrimFunc)]
    if not any(_has_functions(function.body) for function in functions):
        # Checking each statement's value takes a tenth of the time of compiling a small kernel.
        return mod
    statements = [(tirx.BufferStore, _expanded_store), (tirx.Bind, _expanded_bind), (tirx.SeqStmt, _flattened)]
    return rewritten(rewritten(mod, statements, is_for_cpu), (ir.Call, _called), is_for_cpu)


def _has_functions(node: Node, *kinds: type) -> bool:
    """Return whether a node has an operator of ours in it, or a node of one of these classes."""
    found: list[Any] = []
    calls = (ir.Call, lambda call: found.append(call) if _name(call) else None)
    structural_walk(node, [calls, *((kind, found.append) for kind in kinds)], order="pre")
    return bool(found)


def is_for_cpu(function: PrimFunc) -> bool:
    """Return whether a PrimFunc is bound to no target, or to one of LLVM's."""
    target = (function.attrs or {}).get("target")
    return target is None or target.kind.name == "llvm"


def _marked(call: Expr) -> Any:
    # A call may return a pointer, which has no dtype.
    dtype, name = str(getattr(call.ty, "dtype", "")), operator_name(call)
    operands = list(call.args)
    if name == _EXTERNAL:
        name, operands = str(operands[0].value), operands[1:]
        name = name.removesuffix("f") if dtype == "float32" else name
    else:
        name = name.removeprefix("tirx.").removeprefix("prim.")
    if dtype == "float16" and name in _WITHOUT_HALF:
        wide = ir.Call(call.op, [tirx.Cast("float32", operand) for operand in operands], ret_ty="float32")
        return tirx.Cast("float16", _marked(wide))
    if name == "pow" and getattr(operands[0], "value", None) == 2:
        name, operands = "exp2", operands[1:]
    # Every exponent from 3 on of a `pow` of its own makes TVM print a warning for each pass that rebuilds the call.
    is_quieted = name == "pow" and dtype == "float64"
    if not is_quieted and (name not in FUNCTIONS or dtype not in FUNCTIONS[name].dtypes):
        return call
    return ir.Call(_operators()[name], operands, ret_ty=dtype)


def _expanded_store(store: Stmt) -> Any:
    names, value = _expanded(store.value)
    return _after(names, tirx.BufferStore(store.buffer, value, store.indices, span=store.span)) if names else store


def _expanded_bind(bind: Any) -> Any:
    names, value = _expanded(bind.value)
    return _after(names, tirx.Bind(bind.var, value)) if names else bind


def _after(names: list[tuple[Any, Any]], statement: Stmt) -> Any:
    return tirx.SeqStmt([*Lanes("float32", names).statements(), statement])


def _flattened(sequence: Any) -> Any:
    """Return nested sequences as one: a binding is visible to the statements that follow in its own sequence."""
    statements = list(sequence.seq)
    # Not by isinstance, which takes longer for another class.
    return tirx.SeqStmt(flat(statements)) if tirx.SeqStmt in map(type, statements) else sequence


def _expanded(value: Expr) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the bindings that `value` needs, in topological order, and the value that uses them."""
    names: list[tuple[Any, Any]] = []
    if not _has_functions(value, tirx.Let):
        return names, value
    loads: dict[Any, Any] = {}
    for let in always_bound(value):
        part = _expanded_part(with_loads(let.value, loads), names)
        loads[let.var] = Lanes(str(let.var.ty.dtype), names).buffered(part)
    return names, _expanded_part(with_loads(value, loads), names)


def always_bound(value: Expr) -> list[Expr]:
    """Return the `Let`s in `value` outside of conditional arms, in topological order.

    Left in place, a function of a bound value would nest bindings: two `mish` in a row took minutes.
    """
    conditional: list[Any] = []
    structural_walk(value, (ir.Call, lambda call: conditional.extend(_lets_in_arms(call))), order="pre")
    ordered: list[Any] = []

    def visit(part: Any) -> None:
        for let in _lets(part):
            if _is_of(let.var, ordered) or _is_of(let.var, conditional):
                continue
            visit(let.value)
            ordered.append(let)

    visit(value)
    return ordered


def _lets_in_arms(call: Expr) -> list[Any]:
    if not operator_name(call).endswith(".if_then_else"):
        return []
    return [let for arm in call.args[1:] for let in _lets(arm)]


def _lets(value: Expr) -> list[Any]:
    lets: list[Any] = []
    structural_walk(value, (tirx.Let, lets.append), order="pre")
    return lets


def _is_of(variable: Var, lets: list[Any]) -> bool:
    return any(let.var.same_as(variable) for let in lets)


def with_loads(value: Expr, loads: dict[Var, Expr]) -> Expr:
    """Return `value` with loads in place of the given variables, and without their `Let`s."""
    if not loads:
        return value
    bare = structural_map(value, (tirx.Let, lambda let: let.body if let.var in loads else let), order="post")
    return with_values(bare, loads)


def _expanded_part(value: Expr, names: list[tuple[Any, Any]]) -> Any:
    """Return `value` with its functions as arithmetic, whose bindings are appended to `names`."""
    bound = [let.var for let in _lets(value)]

    def expanded(call: Expr) -> Any:
        name = _name(call)
        # What depends on a variable bound inside the value cannot be computed before the statement.
        if name is None or any(depends_on(operand, bound) for operand in call.args):
            return call
        lanes = Lanes(str(call.ty.dtype), names)
        if lanes.dtype not in FUNCTIONS[name].dtypes:
            return _called(call)
        return lanes.buffered(FUNCTIONS[name].make(lanes, *map(lanes.buffered, call.args)))

    behind_conditions = structural_map(value, (ir.Call, _with_calls_in_arms), order="post")
    return structural_map(behind_conditions, (ir.Call, expanded), order="post")


def _name(call: Expr) -> str | None:
    """Return the function that an operator of ours stands for; None for other calls."""
    name = operator_name(call)
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else None


def _with_calls_in_arms(call: Expr) -> Any:
    # A select may also be between pointers.
    if not operator_name(call).endswith(".if_then_else") or not hasattr(call.ty, "dtype"):
        return call
    condition, *arms = call.args
    arms = [structural_map(arm, (ir.Call, _called), order="post") for arm in arms]
    return tirx.if_then_else(condition, *arms)


def _called(call: Expr) -> Any:
    name = _name(call)
    if name is None:
        return call
    dtype = str(call.ty.dtype)
    if name in _OF_LLVM:
        return tirx.call_llvm_pure_intrin(dtype, f"llvm.{name}", *call.args)
    lanes = Lanes(dtype)
    if lanes.count == 1:
        return tirx.call_pure_extern(dtype, name + ("f" if dtype == "float32" else ""), *call.args)
    return lanes.closed(FUNCTIONS[name].make(lanes, *map(lanes.named, call.args)))


@lru_cache(maxsize=1)
def _operators() -> dict[str, Any]:
    return {name: register_pure_operator(PREFIX + name, f"{name}, by mlirtri") for name in FUNCTIONS}
