"""A graph of kernels: the calls of several kernels on symbolic values, recorded in order.

It is what stage `graph` prints; `graph_to_tri` makes one function of it. Values are numbered: the arguments and the
tensors that calls return, in the order in which they were recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelTypeError, Span
from mlirtri.lowering.core.interface import (
    ConstantParameter,
    Parameter,
    ResultTree,
    TensorParameter,
    flat_parameters,
    like,
    parts_of,
)
from mlirtri.lowering.core.stage import CompileContext


@dataclass(frozen=True)
class ValueNumber:
    """A value of a graph, by its number."""

    number: int


@dataclass(frozen=True)
class GraphArgument:
    """An argument of the whole graph."""

    parameter: TensorParameter
    number: int
    """The number of its value."""
    span: Span


@dataclass(frozen=True)
class Dispatch:
    """One recorded call of a kernel."""

    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    """What each parameter of the function is, as in a call outside of the graph."""
    arguments: tuple[Any, ...]
    """By parameter, elements of containers in their place: a `ValueNumber`, a Python number, None for constants."""
    first: int
    """The number of the first tensor that it returns; the others follow."""
    span: Span
    """The line of the call."""
    semantics: str
    unroll: int
    inline_depth: int
    debug: bool


@dataclass
class KernelGraph:
    """The input of the first lowering of a graph."""

    symbol: str
    span: Span
    semantics: str
    """``"numpy"`` or ``"torch"``: what its results are where they have rank 0."""
    arguments: list[GraphArgument] = field(default_factory=list)
    dispatches: list[Dispatch] = field(default_factory=list)
    results: list[tuple[Any, tuple[TensorType, ...]]] = field(default_factory=list)
    """By dispatch: what it returns, with a `ValueNumber` for each tensor, and their types."""
    returned: Any = None
    """What the graph returns, with a `ValueNumber` for each tensor."""
    return_span: Span | None = None

    def __str__(self) -> str:
        """Return the listing that stage `graph` shows: a line per argument and per call."""
        arguments = ", ".join(f"%{a.number} {a.parameter.name}: {a.parameter.type}" for a in self.arguments)
        lines = [f"graph {self.symbol}({arguments})"]
        for dispatch, (result, types) in zip(self.dispatches, self.results, strict=True):
            shown_types = ", ".join(map(str, types))
            prefix = f"{_shown(result)} = " if types else ""
            call = f"{dispatch.function.__name__}({', '.join(_arguments(dispatch))})"
            lines.append(f"  {prefix}{call}{f' : {shown_types}' if types else ''}")
        return "\n".join([*lines, f"  return {_shown(self.returned)}"]) + "\n"


def lower(graph: KernelGraph, context: CompileContext) -> KernelGraph:
    """Return the graph; raises `KernelTypeError` for one without arguments or kernels."""
    if not graph.dispatches:
        raise KernelTypeError(
            f"graph {graph.symbol!r} has no kernels", graph.span,
            help="call kernels on the values of graph.argument(…) inside of `with mt.graph() as graph:`",
        )  # fmt: skip
    return graph


def mapped(tree: ResultTree, change: Callable[[ResultTree], ResultTree]) -> ResultTree:
    """Return a tree of results with `change` of each of its leaves; None stays."""
    if tree is None:
        return None
    if isinstance(tree, (tuple, list, dict)):
        return like(tree, [mapped(part, change) for part in parts_of(tree)])
    return change(tree)


def _arguments(dispatch: Dispatch) -> list[str]:
    shown = []
    for parameter, argument in zip(flat_parameters(dispatch.parameters), dispatch.arguments, strict=True):
        if isinstance(parameter, ConstantParameter):
            value = getattr(parameter.value, "__name__", None) or repr(parameter.value)
            shown.append(f"{parameter.name}={value}")
        else:
            shown.append(_shown(argument))
    return shown


def _shown(tree: Any) -> str:
    if isinstance(tree, ValueNumber):
        return f"%{tree.number}"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{key}: {_shown(part)}' for key, part in tree.items())}}}"
    if isinstance(tree, (tuple, list)):
        opening, closing = "[]" if isinstance(tree, list) else "()"
        return f"{opening}{', '.join(map(_shown, tree))}{closing}"
    return repr(tree)
