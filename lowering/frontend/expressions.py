"""Expressions of a kernel: names, numbers, operators, comparisons, subscripts, attributes.

An expression is worth a `Tensor` (an SSA value) or a Python object known now. Operators on known objects fold as
Python computes them; with a tensor on either side they become operations.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import replace
from difflib import get_close_matches
from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType, as_dtype, find_dtype
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.builder import Tensor
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import (
    KernelTypeError,
    KernelValueError,
    UnknownNameError,
    UnsupportedSyntaxError,
    did_you_mean,
    offer,
)  # fmt: skip
from mlirtri.lowering.external.base import External
from mlirtri.lowering.frontend.iterables import iterable_of
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.python_to_ast import span_of_node

BINARY = {
    ast.Add: ("add", operator.add), ast.Sub: ("subtract", operator.sub), ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", operator.truediv), ast.FloorDiv: ("floor_divide", operator.floordiv),
    ast.Mod: ("remainder", operator.mod), ast.Pow: ("power", operator.pow), ast.MatMult: ("matmul", operator.matmul),
    ast.BitAnd: ("bitwise_and", operator.and_), ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor), ast.LShift: ("left_shift", operator.lshift),
    ast.RShift: ("right_shift", operator.rshift),
}  # fmt: skip
UNARY = {
    ast.USub: ("negative", operator.neg), ast.Invert: ("bitwise_not", operator.invert),
    ast.UAdd: (None, operator.pos), ast.Not: (None, operator.not_),
}  # fmt: skip
COMPARE = {
    ast.Eq: ("equal", operator.eq), ast.NotEq: ("not_equal", operator.ne), ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le), ast.Gt: ("greater", operator.gt), ast.GtE: ("greater_equal", operator.ge),
}  # fmt: skip
IDENTITY = {
    ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda x, y: operator.contains(y, x), ast.NotIn: lambda x, y: not operator.contains(y, x),
}  # fmt: skip


def fold(function, *operands: Any) -> Any:
    """Python's own result on compile-time values; what Python raises becomes a located error."""
    if function is operator.pow and all(isinstance(x, int) for x in operands) and abs(operands[1]) > 4096:
        raise KernelValueError(f"{operands[0]} ** {operands[1]} is too large to compute at compile time")
    try:
        return function(*operands)
    except (TypeError, ZeroDivisionError, OverflowError, ValueError) as error:
        raise KernelValueError(f"{error}") from None


class Expressions:
    """The `visit_*` methods of expressions."""

    def visit_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, (bool, int, float, complex, str, type(None), type(...))):
            return node.value
        raise UnsupportedSyntaxError(f"{type(node.value).__name__} constants are not supported")

    def visit_Name(self, node: ast.Name) -> Any:
        return self.known(self.scope.read(node.id, self.b.tri))

    def known(self, value: Any) -> Any:
        """A value from outside; a NumPy scalar is a tensor of rank 0, whose dtype counts in promotion."""
        return self.b.tensor(value.item(), as_dtype(value.dtype)) if isinstance(value, np.generic) else value

    def visit_Tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.elements(node.elts))

    def visit_List(self, node: ast.List) -> list:
        return self.elements(node.elts)

    def visit_ListComp(self, node: ast.ListComp) -> list[Any]:
        """Over turns known at compile time; its names are its own."""
        names = dict(self.scope.locals)
        found: list[Any] = []
        self.comprehend(node.generators, node.elt, found)
        self.scope.locals = names
        return found

    visit_GeneratorExp = visit_ListComp

    def comprehend(self, generators: list[ast.comprehension], element: ast.expr, found: list[Any]) -> None:
        if not generators:
            found.append(self.visit(element))
            return
        first, *rest = generators
        over = iterable_of(self, first.iter)
        if over.known is None:
            raise KernelTypeError(
                "a comprehension has as many turns as are known at compile time",
                span_of_node(self.file, first.iter),
                help="write a loop that fills an array",
            )
        for turn in range(over.known):
            self.assign(first.target, over.item(turn))
            truths = [self.truth(test) for test in first.ifs]
            if any(isinstance(truth, Tensor) for truth in truths):
                raise KernelTypeError("the `if` of a comprehension has to be known at compile time")
            if all(truths):
                self.comprehend(rest, element, found)

    def elements(self, nodes: list[ast.expr]) -> list[Any]:
        for each in nodes:
            if isinstance(each, ast.Starred):
                raise UnsupportedSyntaxError(
                    "star-expressions are not supported", span_of_node(self.file, each), help="write every element"
                )
        return [self.visit(each) for each in nodes]

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self.binary(node.op, self.visit(node.left), self.visit(node.right))

    def binary(self, sign: ast.operator, left: Any, right: Any) -> Any:
        name, function = BINARY[type(sign)]
        if not isinstance(left, Tensor) and not isinstance(right, Tensor):
            return fold(function, left, right)
        if name == "power" and self.b.semantics == "numpy" and isinstance(left, Tensor):
            return self.numpy_power(left, right)
        result = getattr(self.b, name)(left, right)
        return self.with_linear(result, name, left, right)

    def with_linear(self, result: Any, name: str, left: Any, right: Any) -> Any:
        """Python ints of run time keep what they are in terms of loop indices."""
        if name not in ("add", "subtract", "multiply") or not isinstance(result, Tensor) or not result.weak:
            return result
        if not result.type.dtype.is_integer:
            return result
        x, y = (self.b.indices.size_of(each) if is_integer(each) else None for each in (left, right))
        if x is None or y is None:
            return result
        if name == "multiply":
            factor, size = (x, y) if x.is_constant else (y, x)
            return replace(result, linear=size * factor.constant) if factor.is_constant else result
        return replace(result, linear=x + y if name == "add" else x - y)

    def numpy_power(self, left: Tensor, right: Any) -> Any:
        """ndarray's operator, unlike numpy.power, squares and roots: other dtypes for bools, other results at -inf."""
        is_number, is_inexact = isinstance(right, (int, float, complex)), left.type.dtype.is_inexact
        if is_number and right == 2 and (is_inexact or isinstance(right, int)):
            return self.b.square(left)
        if is_number and right == 0.5 and is_inexact:
            # A bfloat16 array to the power of a Python float is float32: NEP 50 does not cover ml_dtypes.
            return self.b.sqrt(self.b.cast(left, "float32") if left.type.dtype.name == "bfloat16" else left)
        return self.b.power(left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        name, function = UNARY[type(node.op)]
        if not isinstance(operand, Tensor):
            return fold(function, operand)
        if isinstance(node.op, ast.Not):
            truth = self.truth_of(operand, node.operand)
            return replace(self.b.tri.logical_not(truth), weak=True)
        result = getattr(self.b, name)(operand) if name else operand
        return replace(result, linear=-operand.linear) if name == "negative" and operand.linear else result

    def visit_Compare(self, node: ast.Compare) -> Any:
        left = self.visit(node.left)
        result: Any = True
        for sign, each in zip(node.ops, node.comparators, strict=True):
            right = self.visit(each)
            compared = self.compare(sign, left, right)
            result = compared if result is True else self.both(result, compared, node)
            if not isinstance(result, Tensor) and not result:
                return result
            left = right
        return result

    def both(self, first: Any, second: Any, node: ast.Compare) -> Any:
        """The parts of a chained comparison together, which Python joins with `and`."""
        if isinstance(first, Tensor) and first.type.rank:
            raise KernelTypeError(
                f"a chained comparison joins its parts with `and`, and {describe(first)} is not one truth value",
                help="write (a < b) & (b < c)",
            )
        if not isinstance(second, Tensor):
            return first if second else False
        return self.b.logical_and(first, second) if isinstance(first, Tensor) else second

    def compare(self, sign: ast.cmpop, left: Any, right: Any) -> Any:
        if type(sign) in IDENTITY:
            if isinstance(left, Tensor) and isinstance(sign, (ast.In, ast.NotIn)):
                raise KernelTypeError("`in` needs values known at compile time")
            return fold(IDENTITY[type(sign)], left, right)
        name, function = COMPARE[type(sign)]
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            decided = self.decided(name, left, right)
            return getattr(self.b, name)(left, right) if decided is None else decided
        if isinstance(left, DType) or isinstance(right, DType):
            # A dtype has several spellings: x.dtype == np.float32, == torch.float32, == "float32".
            left, right = find_dtype(left) or left, find_dtype(right) or right
        return fold(function, left, right)

    def decided(self, name: str, left: Any, right: Any) -> bool | None:
        """A comparison of Python ints of run time whose bounds decide it now."""
        if not (is_integer(left) and is_integer(right)):
            return None
        difference = self.b.indices.size_of(left) - self.b.indices.size_of(right)
        least, most = difference.least(), difference.most()
        below = None if most is None or least is None else most < 0 or (False if least >= 0 else None)
        equal = None if most is None or least is None else (least == most == 0) or (
            False if least > 0 or most < 0 else None)  # fmt: skip
        above = None if most is None or least is None else least > 0 or (False if most <= 0 else None)
        answers = {
            "less": below, "greater": above, "equal": equal,
            "not_equal": None if equal is None else not equal,
            "greater_equal": None if below is None else not below,
            "less_equal": None if above is None else not above,
        }  # fmt: skip
        return answers[name]

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.visit(node.value)
        self.assign(node.target, value)
        return value

    def visit_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.visit(part)) for part in node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.visit(node.value)
        value = str(value.type) if isinstance(value, Tensor) else value
        spec = self.visit(node.format_spec) if node.format_spec else ""
        if node.conversion == ord("r"):
            value = repr(value)
        return fold(format, value, spec)

    # --- attributes ------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return self.attribute(self.visit(node.value), node.attr)

    def attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Tensor):
            return self.tensor_attribute(owner, name)
        if isinstance(owner, ModuleType):
            return self.module_attribute(owner, name)
        if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
            return getattr(owner, name)
        if isinstance(owner, (int, float, complex)) and name in ("real", "imag"):
            return getattr(owner, name)
        if isinstance(owner, DType) and name in ("name", "bits", "is_float", "is_integer", "is_inexact", "is_complex"):
            return getattr(owner, name)
        if isinstance(owner, External):
            return owner.member(name)
        if (found := spellings.member(owner, name)) is not None:
            return found
        raise UnknownNameError(f"{describe(owner)} has no attribute {name!r} in a kernel")

    def module_attribute(self, module: ModuleType, name: str) -> Any:
        if not hasattr(module, name):
            raise UnknownNameError(
                f"module {module.__name__!r} has no attribute {name!r}",
                help=did_you_mean(name, dir(module), count=3).rstrip(),
            )
        value = self.scope.capture(f"{module.__name__}.{name}", getattr(module, name), lambda: getattr(module, name))
        return self.known(value)

    def tensor_attribute(self, tensor: Tensor, name: str) -> Any:
        facts = {
            "shape": tuple(map(self.number_of, tensor.type.shape)),
            "dtype": tensor.type.dtype,
            "ndim": tensor.type.rank,
        }
        if self.b.semantics == "numpy":
            # torch's x.size is a method.
            facts |= {"size": self.elements_of(tensor), "itemsize": tensor.type.dtype.bytes}
        if name in facts:
            return facts[name]
        owners = ("ndarray", "Tensor") if self.b.semantics == "numpy" else ("Tensor", "ndarray")
        for owner in owners:
            if (found := spellings.lookup(f"{owner}.{name}")) is not None:
                return self.spelled(found, [tensor], {}) if found.is_attribute else Method(tensor, found)
        near = [n.split(".", 1)[1] for n in spellings.near(f"{owners[0]}.{name}")]
        near += get_close_matches(name, facts, n=1)
        raise UnknownNameError(f"a tensor has no attribute {name!r} in a kernel", help=offer(near).rstrip())

    def number_of(self, size: int | Size) -> Any:
        """A size as a Python int, known or of run time."""
        return self.b.indices.tensor_of(size) if is_dynamic(size) else size

    def elements_of(self, tensor: Tensor) -> Any:
        """How many elements a tensor has."""
        if tensor.type.size is not None:
            return tensor.type.size
        return reduce(lambda x, y: self.binary(ast.Mult(), x, y), map(self.number_of, tensor.type.shape))

    # --- subscripts ------------------------------------------------------------------------------------------------

    def visit_Slice(self, node: ast.Slice) -> slice:
        return slice(*(self.visit(part) if part else None for part in (node.lower, node.upper, node.step)))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner, index = self.visit(node.value), self.visit(node.slice)
        if owner is np.s_ or owner is np.index_exp:
            return owner[index]
        if isinstance(owner, Tensor):
            return self.element(owner, index if isinstance(index, tuple) else (index,))
        if isinstance(owner, (tuple, list, str)):
            return fold(_item, owner, index)
        if (found := spellings.member(owner, "__getitem__")) is not None:
            return self.spelled(found, [index], {})
        raise KernelTypeError(f"{describe(owner)} cannot be indexed")

    def rows(self, tensor: Tensor) -> list[Tensor]:
        """The tensor's parts along its first axis, as unpacking gives them."""
        return [self.element(tensor, (position,)) for position in range(tensor.type.shape[0])]


def is_integer(value: Any) -> bool:
    """A Python int, known or of run time."""
    if isinstance(value, Tensor):
        return value.weak and value.type.dtype.is_integer
    return isinstance(value, int) and not isinstance(value, bool)


def _item(owner: Any, index: Any) -> Any:
    try:
        return owner[index]
    except IndexError:
        raise ValueError(f"index {index} is out of range for {len(owner)} elements") from None


class Method:
    """A tensor method that waits for its call."""

    def __init__(self, tensor: Tensor, spelling: Any):
        self.tensor = tensor
        self.spelling = spelling
