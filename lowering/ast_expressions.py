"""Expressions of a kernel: names, numbers, operators, comparisons, subscripts, attributes.

An expression is worth a `Tensor` (an SSA value) or a Python object known now. Operators on known objects fold as
Python computes them; with a tensor on either side they become operations.
"""

from __future__ import annotations

import ast
import operator
from difflib import get_close_matches
from types import ModuleType
from typing import Any

import numpy as np

from mlirtri.dialect import spellings
from mlirtri.dialect.dtypes import DType, as_dtype, find_dtype
from mlirtri.errors import (
    KernelTypeError,
    KernelValueError,
    UnknownNameError,
    UnsupportedSyntaxError,
    did_you_mean,
    offer,
)  # fmt: skip
from mlirtri.lowering.language import describe
from mlirtri.lowering.language_shapes import reshape, strided
from mlirtri.lowering.python_to_ast import span_of_node
from mlirtri.lowering.tri_builder import Tensor

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
        if isinstance(node.value, (bool, int, float, str, type(None), type(...))):
            return node.value
        raise UnsupportedSyntaxError(f"{type(node.value).__name__} constants are not supported")

    def visit_Name(self, node: ast.Name) -> Any:
        return self.known(self.scope.read(node.id))

    def known(self, value: Any) -> Any:
        """A value from outside; a NumPy scalar is a tensor of rank 0, whose dtype counts in promotion."""
        return self.b.tensor(value.item(), as_dtype(value.dtype)) if isinstance(value, np.generic) else value

    def visit_Tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.elements(node.elts))

    def visit_List(self, node: ast.List) -> list:
        return self.elements(node.elts)

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
        return getattr(self.b, name)(left, right)

    def numpy_power(self, left: Tensor, right: Any) -> Any:
        """ndarray's operator, unlike numpy.power, squares and roots: other dtypes for bools, other results at -inf."""
        is_number, is_float = isinstance(right, (int, float)), left.type.dtype.is_float
        if is_number and right == 2 and (is_float or isinstance(right, int)):
            return self.b.square(left)
        if is_number and right == 0.5 and is_float:
            # A bfloat16 array to the power of a Python float is float32: NEP 50 does not cover ml_dtypes.
            return self.b.sqrt(self.b.cast(left, "float32") if left.type.dtype.name == "bfloat16" else left)
        return self.b.power(left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        name, function = UNARY[type(node.op)]
        if not isinstance(operand, Tensor):
            return fold(function, operand)
        if isinstance(node.op, ast.Not):
            raise KernelTypeError(
                f"`not` needs a value known at compile time, got {describe(operand)}", help="use ~x or logical_not(x)"
            )
        return getattr(self.b, name)(operand) if name else operand

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        word, sign = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
        value: Any = None
        for each in node.values:
            value = self.visit(each)
            if isinstance(value, Tensor):
                raise KernelTypeError(
                    f"`{word}` needs values known at compile time, got {describe(value)}",
                    span_of_node(self.file, each),
                    help=f"use `{sign}` on bool tensors, or logical_{word}",
                )
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value

    def visit_Compare(self, node: ast.Compare) -> Any:
        operands = [self.visit(each) for each in (node.left, *node.comparators)]
        if len(node.ops) > 1 and any(isinstance(each, Tensor) for each in operands):
            raise KernelTypeError(
                "a chained comparison needs values known at compile time", help="write (a < b) & (b < c)"
            )
        result: Any = True
        for sign, left, right in zip(node.ops, operands, operands[1:], strict=False):
            result = self.compare(sign, left, right)
            if not isinstance(result, Tensor) and not result:
                return result
        return result

    def compare(self, sign: ast.cmpop, left: Any, right: Any) -> Any:
        if type(sign) in IDENTITY:
            if isinstance(left, Tensor) and isinstance(sign, (ast.In, ast.NotIn)):
                raise KernelTypeError("`in` needs values known at compile time")
            return fold(IDENTITY[type(sign)], left, right)
        name, function = COMPARE[type(sign)]
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return getattr(self.b, name)(left, right)
        if isinstance(left, DType) or isinstance(right, DType):
            # A dtype has several spellings: x.dtype == np.float32, == torch.float32, == "float32".
            left, right = find_dtype(left) or left, find_dtype(right) or right
        return fold(function, left, right)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.visit(node.body if self.condition(node.test, "a conditional expression") else node.orelse)

    def condition(self, test: ast.expr, what: str) -> bool:
        """The truth of a condition, which has to be known now."""
        value = self.visit(test)
        if isinstance(value, Tensor):
            raise KernelTypeError(
                f"the condition of {what} is {describe(value)}, which is known at run time only",
                span_of_node(self.file, test),
                help="use where(condition, x, y) to choose element by element",
            )
        return bool(value)

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
        if isinstance(owner, DType) and name in ("name", "bits", "is_float", "is_integer"):
            return getattr(owner, name)
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
        facts = {"shape": tensor.type.shape, "dtype": tensor.type.dtype, "ndim": tensor.type.rank}
        if self.b.semantics == "numpy":
            # torch's x.size is a method.
            facts |= {"size": tensor.type.size, "itemsize": tensor.type.dtype.bytes}
        if name in facts:
            return facts[name]
        owners = ("ndarray", "Tensor") if self.b.semantics == "numpy" else ("Tensor", "ndarray")
        for owner in owners:
            if (found := spellings.lookup(f"{owner}.{name}")) is not None:
                return found.call(self.b, tensor) if found.is_attribute else Method(tensor, found)
        near = [n.split(".", 1)[1] for n in spellings.near(f"{owners[0]}.{name}")]
        near += get_close_matches(name, facts, n=1)
        raise UnknownNameError(f"a tensor has no attribute {name!r} in a kernel", help=offer(near).rstrip())

    # --- subscripts ------------------------------------------------------------------------------------------------

    def visit_Slice(self, node: ast.Slice) -> slice:
        return slice(*(self.visit(part) if part else None for part in (node.lower, node.upper, node.step)))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner, index = self.visit(node.value), self.visit(node.slice)
        if isinstance(owner, Tensor):
            return self.index(owner, index if isinstance(index, tuple) else (index,))
        if isinstance(owner, (tuple, list, str)):
            return fold(_item, owner, index)
        raise KernelTypeError(f"{describe(owner)} cannot be indexed")

    def rows(self, tensor: Tensor) -> list[Tensor]:
        """The tensor's parts along its first axis, as unpacking gives them."""
        return [self.index(tensor, (position,)) for position in range(tensor.type.shape[0])]

    def index(self, tensor: Tensor, index: tuple[Any, ...]) -> Tensor:
        """Basic indexing: integers drop an axis, slices cut one, None adds one, ``...`` stands for the rest."""
        consumed = sum(1 for part in index if part is not None and part is not ...)
        if sum(1 for part in index if part is ...) > 1:
            raise KernelValueError("an index can have one `...` only")
        if consumed > tensor.type.rank:
            raise KernelValueError(f"{consumed} indices for {tensor.type}, which has rank {tensor.type.rank}")
        rest = [slice(None)] * (tensor.type.rank - consumed)
        if not any(part is ... for part in index):
            index = (*index, ...)
        parts = [each for part in index for each in (rest if part is ... else [part])]
        ranges: list[range] = []
        shape: list[int] = []
        for part in parts:
            if part is None:
                shape.append(1)
                continue
            positions, keeps = self.positions(part, tensor.type.shape[len(ranges)], len(ranges), tensor)
            ranges.append(positions)
            shape += [len(positions)] if keeps else []
        return reshape(self.b, strided(self.b, tensor, ranges), shape)

    def positions(self, part: Any, size: int, axis: int, tensor: Tensor) -> tuple[range, bool]:
        """Which elements of an axis an index part picks, and whether the axis stays."""
        if isinstance(part, slice):
            if any(isinstance(bound, Tensor) for bound in (part.start, part.stop, part.step)):
                raise KernelTypeError("the bounds of a slice have to be known at compile time")
            if self.b.semantics == "torch" and (part.step or 1) < 0:
                raise KernelValueError("torch has no slices with a negative step", help="use flip")
            return range(size)[fold(_checked_slice, part)], True
        if isinstance(part, bool) or not hasattr(type(part), "__index__"):
            raise KernelTypeError(
                f"cannot index with {describe(part)}", help="indices are integers and slices known at compile time"
            )
        position = operator.index(part)
        if not -size <= position < size:
            raise KernelValueError(f"index {position} is out of bounds for axis {axis} of {tensor.type}")
        position %= size
        return range(position, position + 1), False


def _item(owner: Any, index: Any) -> Any:
    try:
        return owner[index]
    except IndexError:
        raise ValueError(f"index {index} is out of range for {len(owner)} elements") from None


def _checked_slice(part: slice) -> slice:
    part.indices(0)  # raises what Python would raise for wrong bounds
    return part


class Method:
    """A tensor method that waits for its call."""

    def __init__(self, tensor: Tensor, spelling: Any):
        self.tensor = tensor
        self.spelling = spelling
