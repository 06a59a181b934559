"""Calls in a kernel: library functions and methods by spelling, dtypes as casts, builtins, Python functions inlined.

Functions of numpy, torch, math and mlirtri are looked up by identity. Python's builtins are in `builtin_calls.py`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from mlirtri.dialect.base.dtypes import DType, find_dtype
from mlirtri.dialect.builder import KernelValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import CompilerBugError, KernelError, KernelTypeError, NestedTooDeeplyError, UnknownNameError, offer
from mlirtri.lowering.core.interface import bound_arguments
from mlirtri.lowering.external.objects import External, relax_function_of
from mlirtri.lowering.frontend.atomics import atomic_call, atomic_name
from mlirtri.lowering.frontend.builtin_calls import call_builtin
from mlirtri.lowering.frontend.containers import ContainerMethod, call_container_method, keyword_arguments
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit
from mlirtri.lowering.frontend.expressions import elements
from mlirtri.lowering.frontend.generators import consumed_by
from mlirtri.lowering.frontend.inlining import LocalFunction, inline, inline_local, inline_macro
from mlirtri.lowering.frontend.library_calls import (
    KERNEL_FUNCTIONS,
    Method,
    spelled,
    widened,
    write_result,
)
from mlirtri.lowering.frontend.library_functions import inlined
from mlirtri.lowering.frontend.operators import fold
from mlirtri.lowering.frontend.scope import BUILTINS
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.storage import (
    as_new_array,
    current,
    with_rank_0_memory,
)
from mlirtri.lowering.frontend.tile_kernels import tile_call
from mlirtri.lowering.frontend.tile_language.function_table import name_of_tile_function

_BUILTINS = set(BUILTINS.values())


@handles(ast.Call)
def visit_call(context: FunctionContext, node: ast.Call) -> KernelValue:
    b, callee = context.b, visit(context, node.func)
    callee = relax_function_of(callee) or callee
    if isinstance(callee, External):
        arguments = elements(context, node.args)
        result = as_new_array(callee.emit(b, arguments, _keywords(context, node.keywords)))
        return with_rank_0_memory(b.semantics, "", arguments, result)
    if (name := atomic_name(callee)) is not None:
        return atomic_call(context, name, node)
    if (name := name_of_tile_function(callee)) is not None:
        return tile_call(context, name, node)
    if getattr(callee, "references", ()):
        return inline_macro(context, callee, node)
    if (consumed := consumed_by(context, callee, node)) is not None:
        return consumed
    arguments = elements(context, node.args)
    keywords = _keywords(context, node.keywords)
    return _call(context, callee, current(b.tri, arguments), keywords, node)


def _call(context: FunctionContext, callee: Any, arguments: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
    b = context.b
    if isinstance(callee, ContainerMethod):
        return call_container_method(context, callee, arguments, keywords)
    if isinstance(callee, LocalFunction):
        return inline_local(context, callee, arguments, keywords, node)
    if isinstance(callee, Method):
        return spelled(b, callee.spelling, [current(b.tri, callee.tensor), *arguments], keywords)
    if isinstance(callee, inlined.BoundFunction):
        owner = current(b.tri, callee.owner)
        result = _call_algorithm(context, callee.function, [owner, *arguments], keywords, node)
        if not callee.writes:
            return result
        write_result(b, f"Tensor.{callee.function.__name__}_", owner, current(b.tri, result))
        return current(b.tri, owner)
    spelling = callee if isinstance(callee, spellings.Spelling) else None
    name = None if spelling is None else spelling.name
    if (algorithm := inlined.find(callee, name, arguments, keywords)) is not None:
        return _call_algorithm(context, algorithm, arguments, keywords, node)
    if spelling is not None:
        return spelled(b, spelling, arguments, keywords)
    return _call_object(context, callee, arguments, keywords, node)


def _keywords(context: FunctionContext, nodes: list[ast.keyword]) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for node in nodes:
        if node.arg is None:
            keywords |= keyword_arguments(visit(context, node.value), keywords)
        else:
            keywords[node.arg] = visit(context, node.value)
    return keywords


def _call_object(
    context: FunctionContext, callee: Any, arguments: list[Any], keywords: dict[str, Any], node: ast.Call
) -> Any:
    b, dtype = context.b, find_dtype(callee)
    if not callable(callee) and dtype is None:
        help = "leave out the parentheses" if isinstance(node.func, ast.Attribute) else "index with brackets: x[i]"
        raise KernelTypeError(f"{describe(callee)} is not a function", help=help)
    if dtype is not None and callee not in (bool, float, int, complex):
        if len(arguments) != 1 or keywords:
            raise KernelTypeError(f"{dtype}(…) takes one argument")
        return b.tensor(arguments[0], dtype)
    if callee in inlined.COMPILE_TIME:
        return callee(*arguments, **keywords)
    if (made := _named_tuple(callee, arguments, keywords)) is not None:
        return made
    name = getattr(callee, "__mlirtri_name__", None) or _qualified_name(callee)
    if name in KERNEL_FUNCTIONS:
        return KERNEL_FUNCTIONS[name](b, arguments, keywords)
    if name is not None and (spelling := spellings.lookup(name)) is not None:
        return spelled(b, spelling, arguments, keywords)
    if (found := _of_python(b, callee, arguments, keywords)) is not _NOT_PYTHONS:
        return found
    function = getattr(callee, "__mlirtri_function__", callee)
    if inspect.isfunction(function) and not _is_library(function):
        return inline(context, function, arguments, keywords, node)
    _refuse_call(callee, node)


_NOT_PYTHONS = object()


def _of_python(b: Language, callee: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Return what a builtin gives, or a method of a number or text that is known; a marker for any other call."""
    if callable(callee) and callee in _BUILTINS:
        return call_builtin(b, callee, arguments, keywords)
    is_of_constant = isinstance(getattr(callee, "__self__", None), (int, float, complex, str))
    return fold(partial(callee, *arguments, **keywords)) if is_of_constant else _NOT_PYTHONS


def _named_tuple(callee: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Return the named tuple that a call makes, by its class or by ``x._replace(…)``; None for any other call."""
    is_class = isinstance(callee, type) and issubclass(callee, tuple) and hasattr(callee, "_fields")
    if is_class and callee.__new__.__code__.co_varnames[1:][: len(callee._fields)] == callee._fields:
        bound = bound_arguments(callee.__name__, inspect.signature(callee), arguments, keywords)
        bound.apply_defaults()
        return callee(*bound.args)
    if isinstance(getattr(callee, "__self__", None), tuple) and callee.__name__ == "_replace":
        return fold(partial(callee, *arguments, **keywords))
    return None


def _call_algorithm(
    context: FunctionContext,
    algorithm: Callable[..., Any],
    arguments: list[Any],
    keywords: dict[str, Any],
    node: ast.Call,
) -> Any:
    """Return the result of a library's function written in the kernel language; its first error is the call's."""
    b, semantics = context.b, context.b.semantics
    # NumPy's generators draw NumPy's numbers among tensors too.
    b.semantics = "numpy" if inlined.is_of_generator(algorithm) else semantics
    try:
        arguments, keywords, half = widened(b, algorithm, arguments, keywords)
        result = inline(context, algorithm, arguments, keywords, node)
        result = result if half is None else b.tensor(current(b.tri, result), half)
        # What it gives may be an argument itself, or a view of one, where the library's is a new array.
        result = result if algorithm in inlined.VIEWS else as_new_array(result)
    except (CompilerBugError, NestedTooDeeplyError):
        raise
    except KernelError as error:
        first = getattr(error, "errors", (error,))[0]
        if isinstance(first, CompilerBugError):
            raise
        operands = " and ".join(map(describe, [*arguments, *keywords.values()]))
        message = f"{ast.unparse(node.func)}{operands and f' of {operands}'}: {first.message}"
        raise type(first)(message, context.span(node), help=first.help) from None
    finally:
        b.semantics = semantics
    return with_rank_0_memory(b.semantics, algorithm.__name__, [*arguments, *keywords.values()], result)


def _refuse_call(callee: Any, node: ast.Call) -> NoReturn:
    name = ast.unparse(node.func)
    if type(callee).__module__.startswith("tvm."):
        help = f"register it before: {name} = mlirtri.tensorir({name})"
        raise UnknownNameError(f"{name} is a function of TVM's, not of kernels", help=help)
    near = spellings.near(_full_name(callee) or name)
    raise UnknownNameError(
        f"{name} is not a function that kernels have",
        help=offer(near).rstrip() or "the operation reference lists every function",
    )


def _qualified_name(callee: Any) -> str | None:
    if _full_name(callee) == "torch.device":
        return "torch.device"
    return None if isinstance(callee, DType) or callee in _BUILTINS else spellings.qualified_name(callee)


def _full_name(callee: Any) -> str | None:
    module, name = getattr(callee, "__module__", None), getattr(callee, "__name__", None)
    return f"{module}.{name}" if module and name else name


def _is_library(function: Callable[..., Any]) -> bool:
    """Return whether a function is numpy's, torch's or a Python builtin: those have spellings and are never inlined."""
    if function.__module__ in inlined.MODULES:
        return False
    top = (function.__module__ or "").split(".")[0]
    return top in ("numpy", "torch", "math", "mlirtri", *sys.stdlib_module_names) and top != "__main__"
