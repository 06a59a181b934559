"""Lower Python numbers of an exported graph: sizes, arithmetic on them, and elements read by `item()`."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node

from mlirtri.lowering.importers.from_torch.decomposition_rules import Scalar

aten, prim = torch.ops.aten, torch.ops.prim


def rewrite(graph: Graph) -> None:
    """Rewrite the arithmetic of `graph`, in place."""
    for node in list(graph.nodes):
        rule = RULES.get(node.target) if node.op == "call_function" else None
        if rule is None:
            continue
        with graph.inserting_before(node):
            replacement = rule(Writer(node), *node.args)
        if replacement is not None:
            node.replace_all_uses_with(replacement)
            graph.erase_node(node)


class Writer:
    """Creates nodes before the one that they replace, with its source line."""

    def __init__(self, node: Node):
        self.node = node
        self.is_integer = isinstance(node.meta.get("val"), (torch.SymInt, int))

    def __call__(self, target: Any, compute: Callable[..., Any], *operands: Any) -> Node:
        """Create a call of `target`; `compute` returns its value, given the operands' values."""
        call = self.node.graph.call_function(target, operands)
        call.meta = {key: value for key, value in self.node.meta.items() if key != "val"}
        call.meta["val"] = compute(*map(value_of, operands))
        return call

    def real(self, x: Scalar) -> Scalar:
        if is_real(x):
            return x
        return self(aten.Float.Scalar, torch.sym_float, x) if isinstance(x, Node) else float(x)

    def below(self, x: Scalar) -> Node:
        """Return the largest integer that is not above the float `x`."""
        negated = self(aten.neg.float, operator.neg, self.real(x))
        return self(operator.neg, operator.neg, self(aten.ceil.float, math.ceil, negated))


def value_of(operand: Scalar) -> Scalar:
    return operand.meta["val"] if isinstance(operand, Node) else operand


def is_real(x: Scalar) -> bool:
    return isinstance(value_of(x), (torch.SymFloat, float))


def _to_real(write: Writer, x: Any) -> Any:
    return write.real(x)


def _to_integer(write: Writer, x: Any) -> Any:
    return write(aten.Int.Scalar, torch.sym_int, x) if is_real(x) else x


def _minimum(write: Writer, x: Any, y: Any) -> Node | None:
    return write(prim.min.int, torch.sym_min, x, y) if write.is_integer else None


def _maximum(write: Writer, x: Any, y: Any) -> Node | None:
    return write(prim.max.int, torch.sym_max, x, y) if write.is_integer else None


def _select(write: Writer, condition: Any, x: Any, y: Any) -> Node | None:
    if not write.is_integer:
        return None
    number = write(aten.Int.bool, lambda condition: torch.sym_ite(condition, 1, 0), condition)
    difference = write(operator.sub, operator.sub, x, y) if isinstance(x, Node) or isinstance(y, Node) else x - y
    return write(operator.add, operator.add, write(operator.mul, operator.mul, number, difference), y)


def _negation(write: Writer, condition: Any) -> Node:
    return write(aten.ne.bool, lambda condition, _: torch.sym_not(condition), condition, True)


def _on_integers(combine: Any, on_booleans: Callable[[Any, Any], Any]) -> Callable[..., Node]:
    """Return the rule that combines two bools as integers 0 and 1, and compares the result with 0."""

    def combine_integers(write: Writer, x: Any, y: Any) -> Node:
        x, y = (_as_number(write, operand) for operand in (x, y))
        number = write(combine, combine, x, y)
        condition = on_booleans(*map(value_of, write.node.args))
        return write(operator.gt, lambda *_: condition, number, 0)

    return combine_integers


def _as_number(write: Writer, condition: Any) -> Any:
    if not isinstance(condition, Node):
        return int(condition)
    return write(aten.Int.bool, lambda value: torch.sym_ite(value, 1, 0), condition)


def _remainder(write: Writer, x: Any, y: Any) -> Node | None:
    return write(aten.remainder.int, operator.mod, x, y) if write.is_integer else None


def _power(write: Writer, x: Any, exponent: Any) -> Node | None:
    if type(exponent) is int and 1 <= exponent <= 8:
        result = x
        for _ in range(exponent - 1):
            result = write(operator.mul, operator.mul, result, x)
        return result
    if write.is_integer:
        return None
    return _of_tensors(write, lambda base: (aten.pow.Tensor_Scalar, base, float(exponent)), x)


def _root(write: Writer, x: Any) -> Node:
    return _of_tensors(write, lambda tensor: (aten.sqrt.default, tensor), x)


def _of_tensors(write: Writer, call: Callable[[Node], tuple], x: Any) -> Node:
    """Apply a float function that torch-mlir has for tensors only."""
    scalar = FakeTensorMode().from_tensor(torch.empty((), dtype=torch.float64))
    tensor = write(aten.scalar_tensor.default, lambda _: scalar, write.real(x))
    tensor.kwargs = {"dtype": torch.float64}
    function, *operands = call(tensor)
    result = write(function, lambda *_: scalar, *operands)
    return write(aten.Float.Tensor, lambda _: write.node.meta["val"], result)


def _ceiling(write: Writer, x: Any) -> Any:
    return write(aten.ceil.float, math.ceil, x) if is_real(x) else x


def _floor(write: Writer, x: Any) -> Any:
    return write.below(x) if is_real(x) else x


def _rounded(write: Writer, x: Any, digits: Any = None) -> Any:
    if digits is not None or not is_real(x):
        return x if digits is None else None
    half_up = write(operator.add, operator.add, x, 0.5)
    near = write.below(half_up)
    is_tie = write(operator.eq, operator.eq, half_up, write.real(near))
    is_odd = write(operator.ne, operator.ne, write(aten.remainder.int, operator.mod, near, 2), 0)
    steps = [
        write(aten.Int.bool, lambda condition: torch.sym_ite(condition, 1, 0), operand) for operand in (is_tie, is_odd)
    ]
    return write(operator.sub, operator.sub, near, write(operator.mul, operator.mul, *steps))


def _sum(write: Writer, numbers: Any) -> Any:
    result = numbers[0]
    for number in numbers[1:]:
        result = write(operator.add, operator.add, result, number)
    return result


def _element(write: Writer, x: Any) -> Node | None:
    """Read a bool as `aten.Bool`: torch-mlir's importer reads it as an integer."""
    condition = write.node.meta.get("val")
    return write(aten.Bool.Tensor, lambda _: condition, x) if isinstance(condition, torch.SymBool) else None


def _swapped(target: Any, compare: Callable[[Any, Any], Any]) -> Callable[[Writer, Any, Any], Node | None]:
    """Return the rule that swaps the operands of a comparison: torch-mlir lowers two float comparisons only."""

    def write_swapped(write: Writer, x: Any, y: Any) -> Node | None:
        if not is_real(x) and not is_real(y):
            return None
        return write(target, lambda a, b: compare(b, a), write.real(y), write.real(x))

    return write_swapped


def _differ(write: Writer, x: Any, y: Any) -> Node | None:
    if not is_real(x) and not is_real(y):
        return None
    return _negation(write, write(aten.eq.float, operator.eq, write.real(x), write.real(y)))


RULES: dict[Any, Callable[..., Node | None]] = {
    torch.sym_float: _to_real,
    torch.sym_int: _to_integer,
    torch.sym_min: _minimum,
    torch.sym_max: _maximum,
    torch.sym_ite: _select,
    torch.sym_not: _negation,
    torch.sym_sum: _sum,
    torch.sym_sqrt: _root,
    torch._sym_sqrt: _root,
    operator.and_: _on_integers(operator.mul, operator.and_),
    operator.or_: _on_integers(operator.add, operator.or_),
    operator.mod: _remainder,
    operator.pow: _power,
    operator.lt: _swapped(aten.gt.float, operator.lt),
    operator.le: _swapped(aten.ge.float, operator.le),
    operator.ne: _differ,
    aten._local_scalar_dense.default: _element,
    aten.item.default: _element,
    math.sqrt: _root,
    math.ceil: _ceiling,
    math.floor: _floor,
    math.trunc: _to_integer,
    builtins.round: _rounded,
}
