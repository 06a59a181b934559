"""Passes within TVM's lowering that keep integer and float arithmetic as the source has it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mlirtri.lowering.elementary.tir_pass import is_for_cpu
from mlirtri.lowering.tir.arithmetic import TWICE_AS_WIDE, is_update, reads_memory
from mlirtri.lowering.tir.statements import operator_name, rewritten
from mlirtri.lowering.toolchain.tvm_names import Expr, IRModule, Stmt, ir, register_pure_operator, structural_map, tirx

_NODES = {"add": tirx.Add, "sub": tirx.Sub, "mul": tirx.Mul}
_PREFIX = "tirx.mlirtri_wrapping_"
_HALF = {wide: narrow for narrow, wide in TWICE_AS_WIDE.items()}


def mark_wrapping(mod: IRModule) -> IRModule:
    """Replace sums, differences and products of wrapping integers by operators of ours, on the CPU.

    `tir.arithmetic.wrapped` writes them in twice the width. TVM's simplifier goes through such an expression twice per
    level, in time exponential in the length of a chain; our operators may be vectorised and are simplified by nobody.
    """
    return rewritten(mod, (tirx.Cast, _marked), is_for_cpu)


def expand_wrapping(mod: IRModule) -> IRModule:
    """Replace our operators by wide arithmetic again, vectorised where TVM has vectorised them."""
    return rewritten(mod, (ir.Call, _expanded), is_for_cpu)


def _marked(cast: Any) -> Any:
    narrow, wide = str(cast.ty.dtype), str(cast.value.ty.dtype)
    name = next((name for name, node in _NODES.items() if isinstance(cast.value, node)), None)
    if name is None or TWICE_AS_WIDE.get(narrow) != wide:
        return cast
    operands = [_narrow(operand) for operand in (cast.value.a, cast.value.b)]
    if any(operand is None for operand in operands):
        return cast
    return ir.Call(_operators()[name], operands, ret_ty=narrow)


def _narrow(operand: Any) -> Any:
    half = _HALF[str(operand.ty.dtype)]
    if isinstance(operand, tirx.IntImm):
        bits = int(half.removeprefix("int"))
        return tirx.IntImm(half, operand.value) if -(1 << (bits - 1)) <= operand.value < 1 << (bits - 1) else None
    if isinstance(operand, tirx.Cast) and str(operand.value.ty.dtype) == half:
        return operand.value
    return None


def _expanded(call: Expr) -> Any:
    name = operator_name(call)
    if name == "tirx.reinterpret" and isinstance(call.args[0], tirx.IntImm) and not call.args[0].value:
        # What the simplifier leaves of x - x: TVM makes no code of reinterpreted zeros but for pointers.
        return tirx.const(0, str(call.ty.dtype))
    if not name.startswith(_PREFIX):
        return call
    narrow, times, lanes = str(call.ty.dtype).partition("x")
    wide = TWICE_AS_WIDE[narrow] + times + lanes
    node = _NODES[name.removeprefix(_PREFIX)]
    return tirx.Cast(str(call.ty.dtype), node(*(tirx.Cast(wide, operand) for operand in call.args)))


@lru_cache(maxsize=1)
def _operators() -> dict[str, Any]:
    return {name: register_pure_operator(_PREFIX + name, f"{name}, wrapping, by mlirtri") for name in _NODES}


def cast_index_bits(mod: IRModule) -> IRModule:
    """Replace unsigned reinterpretations of expressions without loads by casts.

    The bridge writes wrapping integer arithmetic as reinterpretations of the operands' bits. TVM's narrowing shrinks a
    loop variable below a reinterpretation to 32 bits and keeps the 64-bit result: wrong bits. A cast follows the
    narrowing, and is the same for an index.
    """
    reinterpret = ir.Op.get("tirx.reinterpret")

    def visit(call: Expr) -> Any:
        if not call.op.same_as(reinterpret):
            return call
        [bits] = call.args
        to, source = str(call.ty.dtype), str(bits.ty.dtype)
        if to != f"u{source}" or reads_memory(bits):
            return call
        return tirx.Cast(to, bits)

    return rewritten(mod, (ir.Call, visit))


def select_predicates(mod: IRModule) -> IRModule:
    """Replace casts of predicates to numbers by selections of 1 or 0.

    A cast fails once it is vectorised and bound by TVM's common subexpression elimination: the analyzer's integer sets
    make scalar constants of its vector type. A predicate cast only to be compared with 0, as by Relax's `where`,
    stays itself: TVM's simplifier takes time exponential in the depth of selections in conditions.
    """

    def visit(cast: Any) -> Any:
        dtype = str(cast.ty.dtype)
        if str(cast.value.ty.dtype) != "bool" or dtype == "bool":
            return cast
        return tirx.Select(cast.value, tirx.const(1, dtype), tirx.const(0, dtype))

    return rewritten(mod, [(tirx.Cast, visit), (tirx.LT, _predicate)])


def _predicate(comparison: Any) -> Any:
    """Return the predicate of ``0 < select(predicate, 1, 0)``; other comparisons as they are."""
    chosen = comparison.b
    if not isinstance(chosen, tirx.Select):
        return comparison
    numbers = comparison.a, chosen.true_value, chosen.false_value
    is_cast = all(isinstance(each, tirx.IntImm) for each in numbers) and [int(each) for each in numbers] == [0, 1, 0]
    return chosen.condition if is_cast else comparison


_FENCE = "llvm.arithmetic.fence"
_SUMS = (tirx.Add, tirx.Sub)


def fence_products(mod: IRModule) -> IRModule:
    """Fence every float product that is an operand of a sum, except in reductions' updates, on the CPU.

    TVM lets LLVM contract ``a * b + c`` into one instruction with one rounding, everywhere. That is right for the sums
    of a matmul, which are never bit-equal to a library's, and wrong for a user's, whose library rounds twice. A product
    that is added to the very element that is stored is a reduction's and stays free.
    """
    rules = [
        (tirx.BufferStore, _fenced),
        (tirx.Bind, _fenced_bind),
        (tirx.While, lambda loop: tirx.While(_fenced_sums(loop.condition), loop.body)),
        (tirx.IfThenElse, _fenced_branch),
    ]
    return rewritten(mod, rules, is_for_cpu)


def _fenced_bind(bind: Any) -> Any:
    value = _fenced_sums(bind.value)
    return bind if value.same_as(bind.value) else tirx.Bind(bind.var, value)


def _fenced_branch(branch: Any) -> Any:
    condition = _fenced_sums(branch.condition)
    if condition.same_as(branch.condition):
        return branch
    return tirx.IfThenElse(condition, branch.then_case, branch.else_case)


def _fenced(store: Stmt) -> Any:
    if isinstance(store.value, _SUMS) and is_update(store):
        return store
    value = _fenced_sums(store.value)
    if isinstance(value, tirx.Mul) and _is_float(value):
        # A stored product may be forwarded to a load and added there.
        value = _fence(value)
    if value.same_as(store.value):
        return store
    return tirx.BufferStore(store.buffer, value, store.indices, span=store.span)


def _fenced_sums(value: Expr) -> Any:
    return structural_map(value, [(kind, _with_fences) for kind in _SUMS], order="post")


def _with_fences(sum_: Any) -> Any:
    if not _is_float(sum_) or not (isinstance(sum_.a, tirx.Mul) or isinstance(sum_.b, tirx.Mul)):
        return sum_
    return type(sum_)(*(_fence(operand) for operand in (sum_.a, sum_.b)))


def _fence(operand: Any) -> Any:
    if not isinstance(operand, tirx.Mul):
        return operand
    if any(_is_unit(factor) for factor in (operand.a, operand.b)):
        # A negation: LLVM looks through it at the product.
        return tirx.Mul(_fence(operand.a), _fence(operand.b))
    return tirx.call_llvm_pure_intrin(operand.ty.dtype, _FENCE, operand)


def _is_unit(factor: Any) -> bool:
    """Return whether a factor is 1 or -1, also as a vector: the product needs no rounding."""
    number = factor.value if isinstance(factor, tirx.Broadcast) else factor
    return isinstance(number, tirx.FloatImm) and abs(number.value) == 1


def _is_float(expression: Expr) -> bool:
    return str(expression.ty.dtype).startswith(("float32", "float64"))
