"""Calls in a kernel: library functions and methods by spelling, dtypes as casts, Python functions inlined.

A function of numpy, torch, math or mlirtri is looked up by identity and called as its own library's signature says.
A plain Python function, or another jit function, is inlined: its body is visited with the arguments' values.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from mlirtri.dialect.base.dtypes import DType, find_dtype
from mlirtri.dialect.builder import Tensor
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import KernelTypeError, UnknownNameError, UnsupportedSyntaxError, offer
from mlirtri.lowering.external import relax_library
from mlirtri.lowering.external.base import External
from mlirtri.lowering.frontend.builtin_calls import KERNEL_FUNCTIONS, RUN_TIME_BUILTINS, emit_breakpoint
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit
from mlirtri.lowering.frontend.expressions import elements
from mlirtri.lowering.frontend.inlining import LocalFunction, inline, inline_local, inline_macro
from mlirtri.lowering.frontend.language import linear_algebra
from mlirtri.lowering.frontend.language.builder import Language, describe
from mlirtri.lowering.frontend.language.views import as_new_array
from mlirtri.lowering.frontend.library_calls import Method, spelled
from mlirtri.lowering.frontend.operators import fold
from mlirtri.lowering.frontend.scope import BUILTINS

_BUILTINS = set(BUILTINS.values())


@handles(ast.Call)
def visit_call(context: FunctionContext, node: ast.Call) -> Any:
    b, callee = context.b, visit(context, node.func)
    callee = relax_library.of_tvm(callee) or callee
    if isinstance(callee, External):
        return as_new_array(callee.emit(b, elements(context, node.args), _keywords(context, node.keywords)))
    if getattr(callee, "references", ()):
        return inline_macro(context, callee, node)
    arguments = elements(context, node.args)
    keywords = _keywords(context, node.keywords)
    if isinstance(callee, LocalFunction):
        return inline_local(context, callee, arguments, keywords, node)
    if isinstance(callee, Method):
        return spelled(b, callee.spelling, [callee.tensor, *arguments], keywords)
    if isinstance(callee, spellings.Spelling):
        return spelled(b, callee, arguments, keywords)
    return _call_object(context, callee, arguments, keywords, node)


def _keywords(context: FunctionContext, nodes: list[ast.keyword]) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for node in nodes:
        if node.arg is None:
            raise UnsupportedSyntaxError(
                "** arguments are not supported", context.span(node.value), help="write every keyword"
            )
        keywords[node.arg] = visit(context, node.value)
    return keywords


def _call_object(
    context: FunctionContext, callee: Any, arguments: list[Any], keywords: dict[str, Any], node: ast.Call
) -> Any:
    """Return the value of a call of an object from outside the kernel; raises `UnknownNameError`."""
    b, dtype = context.b, find_dtype(callee)
    if not callable(callee) and dtype is None:
        raise KernelTypeError(f"{describe(callee)} is not a function")
    if dtype is not None and callee not in (bool, float, int, complex):
        if len(arguments) != 1 or keywords:
            raise KernelTypeError(f"{dtype}(…) takes one argument")
        return b.tensor(arguments[0], dtype)
    name = getattr(callee, "__mlirtri_name__", None) or _qualified_name(callee)
    if (algorithm := linear_algebra.find(callee)) is not None:
        return as_new_array(inline(context, algorithm, arguments, keywords, node))
    if name in KERNEL_FUNCTIONS:
        return KERNEL_FUNCTIONS[name](b, arguments, keywords)
    if name is not None and (spelling := spellings.lookup(name)) is not None:
        return spelled(b, spelling, arguments, keywords)
    if callable(callee) and callee in _BUILTINS:
        return _call_builtin(b, callee, arguments, keywords)
    function = getattr(callee, "__mlirtri_function__", callee)
    if inspect.isfunction(function) and not _is_library(function):
        return inline(context, function, arguments, keywords, node)
    _refuse_call(callee, node)


def _call_builtin(b: Language, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Return the result of a Python builtin: folded on compile-time values, else the implementation for tensors."""
    if function is breakpoint:
        return emit_breakpoint(b, arguments, keywords)
    tensors = [value for value in _flat(arguments) if isinstance(value, Tensor)]
    if not tensors:
        if function is isinstance:
            raise KernelTypeError("isinstance() is not supported on these arguments in a kernel")
        return fold(lambda: function(*arguments, **keywords))
    if function in RUN_TIME_BUILTINS:
        return RUN_TIME_BUILTINS[function](b, *arguments, **keywords)
    raise KernelTypeError(f"{function.__name__}() of {describe(tensors[0])} is not known at compile time")


def _flat(values: Any) -> list[Any]:
    return [part for value in values for part in (_flat(value) if isinstance(value, (tuple, list)) else [value])]


def _refuse_call(callee: Any, node: ast.Call) -> NoReturn:
    name = ast.unparse(node.func)
    if type(callee).__module__.startswith("tvm."):
        way_out = f"register it before: {name} = mlirtri.tensorir({name})"
        raise UnknownNameError(f"{name} is a function of TVM's, not of kernels", help=way_out)
    near = spellings.near(_full_name(callee) or name)
    raise UnknownNameError(
        f"{name} is not a function that kernels have",
        help=offer(near).rstrip() or "the operation reference lists every function",
    )


def _qualified_name(callee: Any) -> str | None:
    return None if isinstance(callee, DType) or callee in _BUILTINS else spellings.qualified_name(callee)


def _full_name(callee: Any) -> str | None:
    module, name = getattr(callee, "__module__", None), getattr(callee, "__name__", None)
    return f"{module}.{name}" if module and name else name


def _is_library(function: Callable[..., Any]) -> bool:
    """Return whether a function is numpy's, torch's or a Python builtin: those have spellings and are never inlined."""
    if function.__module__ == linear_algebra.__name__:
        return False
    top = (function.__module__ or "").split(".")[0]
    return top in ("numpy", "torch", "math", "mlirtri", *sys.stdlib_module_names) and top != "__main__"
