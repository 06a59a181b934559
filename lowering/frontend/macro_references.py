"""Macro parameters that stand for something of the caller's: a variable, or elements of an array.

Elements are written at once. A variable has its new value when the macro has ended; meanwhile nobody else can see it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.builder import Tensor
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.frontend.language.storage import own
from mlirtri.lowering.frontend.python_to_ast import span_of_node


@dataclass(frozen=True, eq=False)
class Variable:
    """A name of the caller's."""

    visitor: Any
    name: str
    value: Any

    def hand_back(self, value: Any) -> None:
        """The macro has ended with this value."""
        self.visitor.scope.locals[self.name] = own(value)
        self.visitor.scope.referenced.add(self.name)


@dataclass(frozen=True, eq=False)
class Element:
    """Elements of an array."""

    visitor: Any
    array: Tensor
    index: tuple[Any, ...]

    def read(self) -> Any:
        return self.visitor.element(self.array, self.index)

    def write(self, value: Any) -> None:
        self.visitor.write(self.array, self.index, value)


def reference_to(visitor: Any, node: ast.expr) -> Variable | Element:
    """What an argument of a macro refers to; raises `KernelTypeError` for a value that nobody could see change."""
    if isinstance(node, ast.Name):
        return Variable(visitor, node.id, visitor.visit(node))
    if isinstance(node, ast.Subscript):
        array, index = visitor.visit(node.value), visitor.visit(node.slice)
        if isinstance(array, Tensor):
            return Element(visitor, array, index if isinstance(index, tuple) else (index,))
    raise KernelTypeError(
        f"the macro writes this argument, and {ast.unparse(node)!r} is no variable or array element",
        span_of_node(visitor.file, node),
        help="give it a name first",
    )
