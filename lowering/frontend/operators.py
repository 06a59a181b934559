"""Operators of a kernel: arithmetic, comparisons, `not`, and truth values.

Run-time Python ints keep their linear form in terms of loop indices, so that bounds can decide comparisons at compile
time.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

from mlirtri.dialect.base.dtypes import DType, find_dtype
from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import KernelError, KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit
from mlirtri.lowering.frontend.raising import error_of
from mlirtri.lowering.frontend.scope import latest
from mlirtri.lowering.frontend.semantics import merging
from mlirtri.lowering.frontend.semantics.axes import is_index
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.container_values import Dict, List, is_container
from mlirtri.lowering.frontend.semantics.storage import as_new_array, current, has_memory, is_array, with_rank_0_memory

BINARY = {
    ast.Add: ("add", operator.add), ast.Sub: ("subtract", operator.sub), ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", operator.truediv), ast.FloorDiv: ("floor_divide", operator.floordiv),
    ast.Mod: ("remainder", operator.mod), ast.Pow: ("power", operator.pow), ast.MatMult: ("matmul", operator.matmul),
    ast.BitAnd: ("bitwise_and", operator.and_), ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor), ast.LShift: ("left_shift", operator.lshift),
    ast.RShift: ("right_shift", operator.rshift),
}  # fmt: skip
ONLY_TRUTH = "only_truth"
"""The attribute of a node of `and` or `or` of whose value only the truth is used."""
UNARY = {
    ast.USub: ("negative", operator.neg), ast.Invert: ("bitwise_not", operator.invert),
    ast.UAdd: (None, operator.pos), ast.Not: (None, operator.not_),
}  # fmt: skip
COMPARE = {
    ast.Eq: ("equal", operator.eq), ast.NotEq: ("not_equal", operator.ne), ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le), ast.Gt: ("greater", operator.gt), ast.GtE: ("greater_equal", operator.ge),
}  # fmt: skip
_ARITHMETIC = {function for _, function in [*BINARY.values(), *UNARY.values()]} - {operator.not_}


def fold(function: Callable[..., KernelValue], *operands: KernelValue) -> KernelValue:
    """Return Python's own result on compile-time values; raises what Python raises as an error of ours."""
    if function is operator.pow and all(isinstance(x, int) for x in operands) and abs(operands[1]) > 4096:
        raise KernelValueError(f"{operands[0]} ** {operands[1]} is too large to compute at compile time")
    # Generators of random numbers are named tuples here.
    named = [describe(x) for x in operands if hasattr(x, "__name__") or hasattr(x, "described")]
    if named and function in _ARITHMETIC:
        raise KernelTypeError(f"expected numbers, got {' and '.join(named)}", help="call it, or a method of it")
    try:
        return function(*operands)
    except KernelError:
        raise
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise error_of(error) from None


@handles(ast.BinOp)
def visit_bin_op(context: FunctionContext, node: ast.BinOp) -> KernelValue:
    left, right = visit(context, node.left), visit(context, node.right)
    # The right operand may have written the left one's memory, or changed a list.
    return binary(context.b, node.op, current(context.b.tri, latest(context.scope, left)), right)


def binary(b: Language, sign: ast.operator, left: KernelValue, right: KernelValue) -> KernelValue:
    """Return ``left sign right``, folded where both are known at compile time."""
    name, function = BINARY[type(sign)]
    if not isinstance(left, TriValue) and not isinstance(right, TriValue):
        return fold(function, left, right)
    left, right = _arrays_of_lists(b, left, right)
    if name == "power" and b.semantics == "numpy" and isinstance(left, TriValue):
        return _new(b, name, _numpy_power(b, left, right), left, right)
    if name == "divide" and b.semantics == "torch" and is_weak(left) and not is_weak(right):
        # As torch.Tensor.__rtruediv__, which rounds twice.
        result = b.multiply(b.reciprocal(right), left)
    else:
        result = getattr(b, name)(left, right)
    return _new(b, name, _with_linear(b, result, name, left, right), left, right)


def _arrays_of_lists(b: Language, *operands: Any) -> list[Any]:
    """Return the operands of an operator of an array of NumPy, which makes arrays of tuples and lists."""
    is_numpys = b.semantics == "numpy" and any(isinstance(x, TriValue) and is_array(x) for x in operands)
    return [array_of_list(b, x) if is_numpys else x for x in operands]


def array_of_list(b: Language, value: KernelValue) -> KernelValue:
    """Return the array that NumPy makes of a tuple or list; any other value as it is."""
    return spellings.SPELLINGS["numpy.asarray"].call(b, value) if isinstance(value, (tuple, list)) else value


def is_weak(value: object) -> bool:
    """Return whether a value is a Python number, of compile time or run time."""
    return not isinstance(value, TriValue) or value.weak


def _new(b: Language, name: str, result: Any, *operands: Any) -> Any:
    """Return an operator's result; of tensors of torch it is one with memory of its own, of rank 0, too."""
    return with_rank_0_memory(b.semantics, name, operands, result)


def _with_linear(b: Language, result: Any, name: str, left: Any, right: Any) -> Any:
    if name not in _ON_SIZES or not isinstance(result, TriValue) or not result.type.dtype.is_integer:
        return result
    if not (result.weak or _is_offset(b, result, name, left, right)):
        return result
    x, y = (b.indices.size_of(operand) if is_integer(operand) or not result.weak else None for operand in (left, right))
    if x is None or y is None:
        return result
    size = _ON_SIZES[name](b, x, y)
    return result if size is None else replace(result, linear=size)


def _is_offset(b: Language, result: TriValue, name: str, left: Any, right: Any) -> bool:
    """Return whether the result is a number read from memory, plus or minus the index of a loop.

    In a tile kernel constants are added, too: ``A[row : row + 32]``. A sum that leaves the dtype is no index. Products
    of arguments are sizes and strides: ``strides=(N * s, s)``.
    """
    if name == "multiply" and not result.type.rank and all(map(is_index, (left, right))):
        forms = [operand.linear for operand in (left, right) if isinstance(operand, TriValue)]
        return all(form is not None and b.indices.fixed.has(form) for form in forms)
    if name not in ("add", "subtract") or result.type.rank or result.type.dtype.name not in ("int32", "int64"):
        return False
    operands = [operand for operand in (left, right) if isinstance(operand, TriValue)]
    has_loop_index = any(operand.linear is not None and not operand.linear.is_constant for operand in operands)
    return all(map(is_index, (left, right))) and (has_loop_index or b.in_tile_kernel)


def _product(b: Language, x: Size, y: Size) -> Size | None:
    has_symbols = not (x.is_constant or y.is_constant)
    return None if has_symbols and not b.indices.fixed.has(x, y) else b.indices.product(x, y)


def _quotient(b: Language, x: Size, y: Size) -> Size | None:
    """Return the quotient of a size that the sizes of the arguments decide; others keep their operation."""
    if not y.is_constant or y.constant <= 0 or not b.indices.fixed.has(x):
        return None
    return b.indices.floor_divide(x, y.constant)


def _rest(b: Language, x: Size, y: Size) -> Size | None:
    quotient = _quotient(b, x, y)
    return None if quotient is None else x - quotient * y.constant


_ON_SIZES: dict[str, Callable[[Language, Size, Size], Size | None]] = {
    "add": lambda b, x, y: x + y, "subtract": lambda b, x, y: x - y, "multiply": _product,
    "floor_divide": _quotient, "remainder": _rest,
}  # fmt: skip
"""Operators on run-time Python ints in linear form, which give None where the result has none."""


def _numpy_power(b: Language, left: TriValue, right: Any) -> Any:
    """Return ndarray's ``**``, unlike numpy.power by squares and roots: other dtypes for bools, results at -inf."""
    is_number, is_inexact = isinstance(right, (int, float, complex)), left.type.dtype.is_inexact
    if left.type.dtype.is_bool and not left.type.rank and left.origin is None and type(right) is int and right >= 0:
        # A scalar is no array of rank 0: a bool becomes a Python int.
        return b.power(b.cast(left, "int64"), right)
    if is_number and right == 2 and (is_inexact or isinstance(right, int)):
        return b.square(left)
    if is_number and right == 0.5 and is_inexact and is_array(left):
        # A bfloat16 array to the power of a Python float is float32: NEP 50 does not cover ml_dtypes.
        return b.sqrt(b.cast(left, "float32") if left.type.dtype.name == "bfloat16" else left)
    return b.power(left, right)


@handles(ast.UnaryOp)
def visit_unary_op(context: FunctionContext, node: ast.UnaryOp) -> KernelValue:
    evaluate = condition if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.BoolOp) else visit
    operand = evaluate(context, node.operand)
    name, function = UNARY[type(node.op)]
    if not isinstance(operand, TriValue):
        return fold(function, operand)
    if isinstance(node.op, ast.Not):
        return replace(context.b.tri.logical_not(predicate_at(context, operand, node.operand)), weak=True)
    if name is None:
        # torch returns the tensor itself, NumPy a copy.
        return (
            operand if context.b.semantics == "torch" else _new(context.b, "positive", as_new_array(operand), operand)
        )
    result = getattr(context.b, name)(operand)
    if name == "negative" and operand.linear:
        return replace(result, linear=-operand.linear)
    return _new(context.b, name, result, operand)


@handles(ast.Compare)
def visit_compare(context: FunctionContext, node: ast.Compare) -> KernelValue:
    left = visit(context, node.left)
    result: Any = True
    for sign, comparator in zip(node.ops, node.comparators, strict=True):
        right = visit(context, comparator)
        compared = _compare(context.b, sign, current(context.b.tri, latest(context.scope, left)), right)
        result = compared if result is True else _conjunction(context.b, result, compared)
        if not isinstance(result, TriValue) and not result:
            return result
        left = right
    return result


def _conjunction(b: Language, first: Any, second: Any) -> Any:
    if isinstance(first, TriValue) and first.type.rank:
        raise KernelTypeError(
            f"a chained comparison joins its parts with `and`, and {describe(first)} is not one truth value",
            help="write (a < b) & (b < c)",
        )
    if not isinstance(second, TriValue):
        return first if second else False
    return b.logical_and(first, second) if isinstance(first, TriValue) else second


def _compare(b: Language, sign: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(sign, (ast.In, ast.NotIn)):
        found = _contains(b, right, left)
        if isinstance(sign, ast.In):
            return found
        return replace(b.tri.logical_not(found), weak=True) if isinstance(found, TriValue) else not found
    if isinstance(sign, (ast.Is, ast.IsNot)):
        if isinstance(left, TriValue) and left.weak and left.type.dtype.is_bool and isinstance(right, bool):
            # Python has one object for each.
            sign = ast.Eq() if isinstance(sign, ast.Is) else ast.NotEq()
            return _compare(b, sign, left, right)
        return _is_same(left, right) == isinstance(sign, ast.Is)
    name, function = COMPARE[type(sign)]
    if isinstance(left, TriValue) or isinstance(right, TriValue):
        left, right = _arrays_of_lists(b, left, right)
        decided = _decided_by_bounds(b, name, left, right)
        return _new(b, name, getattr(b, name)(left, right), left, right) if decided is None else decided
    if is_container(left) and is_container(right) and any(isinstance(x, TriValue) for x in merging.flat((left, right))):
        return _compare_containers(b, sign, left, right)
    if isinstance(left, DType) or isinstance(right, DType):
        # A dtype has several spellings: x.dtype == np.float32, == torch.float32, == "float32".
        left, right = find_dtype(left) or left, find_dtype(right) or right
    return fold(function, left, right)


def _compare_containers(b: Language, sign: ast.cmpop, left: Any, right: Any) -> Any:
    """Compare tuples, lists or dicts of run-time elements as Python does: in order, the first that differ decide."""
    kinds = [next((kind for kind in (tuple, list) if isinstance(x, kind)), dict) for x in (left, right)]
    is_equality = isinstance(sign, (ast.Eq, ast.NotEq))
    if (
        kinds[0] is not kinds[1]
        or (is_equality and len(left) != len(right))
        or (kinds[0] is dict and set(left) != set(right))
    ):
        return isinstance(sign, ast.NotEq) if is_equality else fold(COMPARE[type(sign)][1], left, right)
    if kinds[0] is dict:
        left, right = list(left.values()), [right[key] for key in left]

    def truth(test: ast.cmpop, x: Any, y: Any) -> Any:
        return predicate_of(b, _compare(b, test, x, y))

    def combined(name: str, x: Any, y: Any) -> Any:
        return replace(getattr(b.tri, name)(b.tensor(x), b.tensor(y)), weak=True)

    result: Any = fold(COMPARE[type(sign)][1], len(left), len(right))
    for x, y in reversed(list(zip(left, right, strict=False))):
        if is_equality:
            name = "logical_and" if isinstance(sign, ast.Eq) else "logical_or"
            result = combined(name, truth(sign, x, y), result)
        else:
            decided = combined("logical_and", truth(ast.NotEq(), x, y), truth(sign, x, y))
            result = combined("logical_or", decided, combined("logical_and", truth(ast.Eq(), x, y), result))
    return result


def _contains(b: Language, values: Any, x: Any) -> Any:
    """Return ``x in values``: whether an element equals x. Python compares values with NaN by identity first."""
    if isinstance(values, TriValue):
        if not values.type.rank:
            raise KernelTypeError(f"{describe(values)} has no elements", help="write x == value")
        return replace(b.any(_compare(b, ast.Eq(), values, x)), weak=True)
    if isinstance(values, dict):
        values = list(values)
    if not isinstance(x, TriValue) and not any(isinstance(value, TriValue) for value in merging.flat(values)):
        return fold(lambda: x in values)
    if not isinstance(values, (tuple, list)):
        raise KernelTypeError(f"{describe(values)} has no elements that are known", help="write (x == value).any()")
    equal = [predicate_of(b, _compare(b, ast.Eq(), value, x)) for value in values]
    if any(part is True for part in equal):
        return True
    parts = [part for part in equal if isinstance(part, TriValue)]
    return replace(reduce(b.tri.logical_or, parts), weak=True) if parts else False


def _is_same(left: Any, right: Any) -> bool:
    """Return ``left is right``: of arrays whether both are one view of one memory."""
    if isinstance(left, (List, Dict)) and isinstance(right, (List, Dict)):
        if left.identity.fixed or right.identity.fixed:
            raise KernelTypeError(
                f"whether {describe(left)} and {describe(right)} are one object is not known",
                help="compare them with ==",
            )
        return left.identity is right.identity
    if not isinstance(left, TriValue) or not isinstance(right, TriValue):
        return left is right
    if has_memory(left) and has_memory(right):
        storages = left.origin.storage, right.origin.storage
        if not any(storage.frozen for storage in storages):
            return storages[0] is storages[1] and left.origin.steps == right.origin.steps
    raise KernelTypeError(
        f"whether {describe(left)} and {describe(right)} are one object is not known", help="compare them with =="
    )


def _decided_by_bounds(b: Language, name: str, left: Any, right: Any) -> bool | None:
    """Return the result of comparing run-time Python ints where their bounds decide it at compile time, else None."""
    if not (is_integer(left) and is_integer(right)):
        return None
    difference = b.indices.size_of(left) - b.indices.size_of(right)
    least, most = difference.least(), difference.most()
    if least is None or most is None:
        return None
    below = most < 0 or (False if least >= 0 else None)
    above = least > 0 or (False if most <= 0 else None)
    equal = (least == most == 0) or (False if least > 0 or most < 0 else None)
    answers = {
        "less": below, "greater": above, "equal": equal,
        "not_equal": None if equal is None else not equal,
        "greater_equal": None if below is None else not below,
        "less_equal": None if above is None else not above,
    }  # fmt: skip
    return answers[name]


def is_integer(value: object) -> bool:
    """Return whether a value is a Python int, compile-time or run-time."""
    if isinstance(value, TriValue):
        return value.weak and value.type.dtype.is_integer
    return isinstance(value, int) and not isinstance(value, bool)


def condition(context: FunctionContext, test: ast.expr) -> bool | TriValue:
    """Return the truth value of an expression: a compile-time bool, or a rank-0 bool tensor."""
    if isinstance(test, ast.BoolOp):
        setattr(test, ONLY_TRUTH, True)
    return predicate_at(context, visit(context, test), test)


def predicate_at(context: FunctionContext, value: KernelValue, node: ast.expr) -> bool | TriValue:
    """Return the truth value of a node's value; errors get the node's span."""
    try:
        return predicate_of(context.b, value)
    except KernelTypeError as error:
        raise error.at(context.span(node)) from None


def predicate_of(b: Language, value: KernelValue) -> bool | TriValue:
    """Return the truth value of a value; raises `KernelTypeError` for arrays of several elements."""
    if not isinstance(value, TriValue):
        return bool(value)
    if value.type.rank:
        if value.type.size != 1:
            raise KernelTypeError(
                f"the truth of {describe(value)} is not one of true and false",
                help="use .any() or .all(), or where(condition, x, y) to choose element by element",
            )
        value = b.reshape(value, ())
    if value.type.dtype.is_bool:
        return value
    return b.tri.not_equal(value, b.tri.constant(0, value.type.dtype))
