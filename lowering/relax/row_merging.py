"""Merges several calls of PrimFuncs into one: their blocks in order, with intermediate results in local buffers.

Takes calls of a dataflow block in order. Gives the merged PrimFunc with its arguments and the results that are used
outside. Does not decide whether the merge is profitable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.toolchain.tvm_names import (
    PrimFunc,
    SBlock,
    SBlockRealize,
    TensorLoad,
    ir,
    relax,
    structural_map,
    structural_walk,
    tirx,
    tvm,
)

_WORDS = 4
_FLOATS = ("float32", "float64", "float16")
_LITERALS = (*_FLOATS, "int32", "int64", "bool")
_renewed = tvm.get_global_func("s_tir.RenewDefs")


@dataclass(frozen=True, eq=False)
class Launch:
    """A call of a PrimFunc with one result."""

    binding: Any
    name: str
    function: PrimFunc
    arguments: tuple[Any, ...]

    @property
    def result(self) -> Any:
        return self.binding.var


@dataclass(frozen=True, eq=False)
class Merged:
    """The function that replaces several calls."""

    function: PrimFunc
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    """The Relax variables of the results, in the order of the outputs."""
    types: tuple[Any, ...]


def merged(launches: Sequence[Launch], is_seen: Callable[[Any], bool]) -> Merged:
    """Return one function for `launches`; a result that `is_seen` outside is an output. Constants become literals."""
    inputs: dict[Any, Any] = {}
    inside: dict[Any, Any] = {}
    bodies, memory, outputs, results = [], [], [], []
    for launch in launches:
        function = _renewed(launch.function)
        *parameters, target = function.params
        places: dict[Any, Any] = {}
        numbers: dict[Any, Any] = {}
        for parameter, argument in zip(parameters, launch.arguments, strict=True):
            number = _number(argument)
            if number is not None and not (number.value == 0 and _is_factor(parameter, function)):
                numbers[parameter] = number
                continue
            if argument not in inside and argument not in inputs:
                inputs[argument] = _like(parameter, parameter.name)
            places[parameter] = inside.get(argument, inputs.get(argument))
        inside[launch.result] = places[target] = _like(target, launch.result.name)
        if is_seen(launch.result):
            outputs.append(inside[launch.result])
            results.append(launch.result)
        else:
            memory.append(inside[launch.result])
        body = _with_numbers(function.body, numbers) if numbers else function.body
        root = structural_map(body, (tirx.Var, lambda each, places=places: places.get(each, each))).block
        bodies.extend(root.body.seq if isinstance(root.body, tirx.SeqStmt) else [root.body])
        memory.extend(root.alloc_buffers)
    body = SBlock([], [], [], "root", tirx.SeqStmt(_named_apart(bodies)), None, memory)
    function = PrimFunc([*inputs.values(), *outputs], SBlockRealize([], True, body))
    types = tuple(relax.TensorType(each.ty.shape, each.ty.dtype) for each in results)
    return Merged(function.with_attr({"s_tir": True, "tirx.noalias": True}), tuple(inputs), tuple(results), types)


def _number(argument: Any) -> Any:
    """Return the literal for a constant of rank 0; None for anything else."""
    if not isinstance(argument, ir.GenericConst) or len(argument.ty.shape) or str(argument.ty.dtype) not in _LITERALS:
        return None
    dtype, value = str(argument.ty.dtype), argument.value.numpy().item()
    return tirx.FloatImm(dtype, value) if dtype in _FLOATS else tirx.IntImm(dtype, int(value))


def _is_factor(parameter: Any, function: PrimFunc) -> bool:
    """Return whether the function multiplies or divides by a parameter: TVM folds that with a literal 0, or fails."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        sides = [each.value if isinstance(each, tirx.Cast) else each for each in (node.a, node.b)]
        found.extend(each for each in sides if isinstance(each, TensorLoad) and each.source.same_as(parameter))

    structural_walk(function.body, [(kind, visit) for kind in (tirx.Mul, tirx.Div)])
    return bool(found)


def _with_numbers(body: Any, numbers: dict[Any, Any]) -> Any:
    """Return the body with `numbers` in place of loads."""

    def load(node: Any) -> Any:
        return numbers.get(node.source, node)

    def block(node: Any) -> Any:
        reads = [each for each in node.reads if each.source not in numbers]
        return SBlock(
            node.iter_vars, reads, node.writes, node.name_hint, node.body, node.init,
            node.alloc_buffers, node.match_buffers, node.annotations, node.span,
        )  # fmt: skip

    return structural_map(body, [(TensorLoad, load), (SBlock, block)], order="post")


def _like(parameter: Any, name: str) -> Any:
    return tirx.decl_buffer(parameter.ty.shape, str(parameter.dtype), name, layout=None)


def _named_apart(bodies: list[Any]) -> list[Any]:
    """Return the statements with unique block names."""
    taken: set[str] = set()

    def visit(block: Any) -> Any:
        name, count = str(block.name_hint), 0
        while name in taken:
            count += 1
            name = f"{block.name_hint}_{count}"
        taken.add(name)
        if name == block.name_hint:
            return block
        return SBlock(
            block.iter_vars, block.reads, block.writes, name, block.body, block.init,
            block.alloc_buffers, block.match_buffers, block.annotations, block.span,
        )  # fmt: skip

    return [structural_map(body, (SBlock, visit), order="post") for body in bodies]


def merged_name(names: Sequence[str]) -> str:
    """Return a name built from the first of the calls' names."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) <= _WORDS:
        return "_".join(distinct)
    return "_".join([*distinct[: _WORDS - 1], f"and_{len(distinct) - _WORDS + 1}_more"])
