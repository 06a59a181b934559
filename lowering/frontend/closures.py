"""Functions defined inside a kernel: closures and lambdas, which are inlined where they are called.

A local function sees the names of the function around it as they are when it is called, as in Python.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from mlirtri.errors import KernelTypeError, UnsupportedSyntaxError


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A `def` or `lambda` in a kernel, and the visitor of the function that it is in."""

    node: ast.FunctionDef | ast.Lambda
    visitor: Any
    defaults: dict[str, Any]

    @property
    def __name__(self) -> str:
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "lambda"

    @property
    def body(self) -> list[ast.stmt]:
        if isinstance(self.node, ast.FunctionDef):
            return self.node.body
        return [ast.copy_location(ast.Return(self.node.body), self.node.body)]

    def bind(self, arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
        """Parameter names to values; raises what Python would say about a wrong call."""
        parameters = self.node.args
        names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
        bound = dict(self.defaults) | dict(zip(names, arguments, strict=False)) | keywords
        every = [*names, *(each.arg for each in parameters.kwonlyargs)]
        unknown = [name for name in keywords if name not in every]
        missing = [name for name in every if name not in bound]
        if len(arguments) > len(names) or unknown or missing:
            problem = f"missing {missing[0]!r}" if missing else f"got an unexpected {unknown[0]!r}" if unknown else (
                f"takes {len(names)} arguments, got {len(arguments)}")  # fmt: skip
            raise KernelTypeError(f"{self.__name__}() {problem}")
        return bound


def local_function(node: ast.FunctionDef | ast.Lambda, visitor: Any) -> LocalFunction:
    """The function that a definition makes; raises `UnsupportedSyntaxError` for what cannot be inlined."""
    parameters = node.args
    if parameters.vararg or parameters.kwarg:
        raise UnsupportedSyntaxError("functions in a kernel take no *args or **kwargs", help="name every parameter")
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        raise UnsupportedSyntaxError("functions in a kernel have no decorators", help="define it outside of the kernel")
    names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
    values = [visitor.visit(each) for each in parameters.defaults]
    defaults = dict(zip(names[len(names) - len(values) :], values, strict=True))
    for each, value in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        if value is not None:
            defaults[each.arg] = visitor.visit(value)
    return LocalFunction(node, visitor, defaults)
