"""Calls in a kernel: library functions and methods by spelling, dtypes as casts, builtins, Python functions inlined.

Functions of numpy, torch, math and mlirtri are looked up by identity. Python's builtins (`len`, `abs`, `max`…) are
folded on values known at compile time, else implemented here.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from mlirtri.dialect.base.dtypes import DTYPES, DType, find_dtype
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import CompilerBugError, KernelError, KernelTypeError, NestedTooDeeplyError, UnknownNameError, offer
from mlirtri.lowering.core.interface import bound_arguments
from mlirtri.lowering.external.objects import External, relax_function_of
from mlirtri.lowering.frontend.atomics import atomic_call, atomic_name
from mlirtri.lowering.frontend.containers import ContainerMethod, call_container_method, dict_of, keyword_arguments
from mlirtri.lowering.frontend.context import FunctionContext, handles, visit
from mlirtri.lowering.frontend.expressions import elements
from mlirtri.lowering.frontend.indexing.reads import rows
from mlirtri.lowering.frontend.inlining import LocalFunction, inline, inline_local, inline_macro
from mlirtri.lowering.frontend.library_calls import (
    KERNEL_FUNCTIONS,
    Method,
    has_attribute,
    spelled,
    widened,
    write_result,
)
from mlirtri.lowering.frontend.library_functions import inlined
from mlirtri.lowering.frontend.operators import fold, is_integer, is_weak, predicate_of
from mlirtri.lowering.frontend.scope import BUILTINS
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.debugging import stop_in_debugger
from mlirtri.lowering.frontend.semantics.merging import flat
from mlirtri.lowering.frontend.semantics.storage import (
    as_new_array,
    current,
    either,
    has_memory,
    is_array,
    with_rank_0_memory,
)
from mlirtri.lowering.frontend.syntax.refused_syntax import INSTEAD_OF_BUILTINS
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
    if callable(callee) and callee in _BUILTINS:
        return _call_builtin(b, callee, arguments, keywords)
    function = getattr(callee, "__mlirtri_function__", callee)
    if inspect.isfunction(function) and not _is_library(function):
        return inline(context, function, arguments, keywords, node)
    _refuse_call(callee, node)


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
    return with_rank_0_memory(b.semantics, "", arguments, result)


def _call_builtin(b: Language, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if function is breakpoint:
        return stop_in_debugger(b, arguments, keywords)
    if function is isinstance and len(arguments) == 2 and not keywords:
        return _isinstance(b, *arguments)
    if function is dict:
        return dict_of(arguments, keywords)
    if function is hasattr and len(arguments) == 2 and not isinstance(arguments[0], ModuleType):
        return has_attribute(b, *arguments)
    if function not in (isinstance, len):
        arguments = [tuple(value) if isinstance(value, dict) else value for value in arguments]
    tensors = [value for value in flat(arguments) if isinstance(value, TriValue)]
    if not tensors or function is slice:
        made = partial(function, *arguments, **keywords)
        return fold(lambda: tuple(made()) if function in (zip, enumerate, reversed) else made())
    if function in RUN_TIME_BUILTINS:
        implementation = RUN_TIME_BUILTINS[function]
        bound = bound_arguments(function.__name__, inspect.signature(partial(implementation, b)), arguments, keywords)
        return with_rank_0_memory(b.semantics, "", arguments, implementation(b, *bound.args, **bound.kwargs))
    raise KernelTypeError(
        f"{function.__name__}() of {describe(tensors[0])} is not known at compile time",
        help=INSTEAD_OF_BUILTINS.get(function.__name__),
    )


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


def _len(b: Language, x: Any) -> Any:
    if isinstance(x, (tuple, list, dict)):
        return len(x)
    if not x.type.rank:
        raise KernelTypeError(f"{describe(x)} has no len()")
    return b.number_of(x.type.shape[0])


def _float(b: Language, x: TriValue) -> Any:
    return replace(b.tri.cast(_real_scalar(b, x, "float"), DTYPES["float64"]), weak=True)


def _int(b: Language, x: TriValue) -> Any:
    return replace(b.tri.cast(_real_scalar(b, x, "int"), DTYPES["int64"]), weak=True, linear=x.linear)


def _real_scalar(b: Language, x: TriValue, name: str) -> TriValue:
    if not isinstance(x, TriValue):
        raise KernelTypeError(f"{name}() takes a number, got {describe(x)}")
    scalar = b.reshape(x, ()) if x.type.size == 1 else x
    if scalar.type.rank or scalar.type.dtype.is_complex:
        raise KernelTypeError(f"{name}() takes a number, got {describe(x)}", help="use astype or cast")
    return scalar


def _bool(b: Language, x: TriValue) -> Any:
    predicate = predicate_of(b, x)
    return replace(predicate, weak=True) if isinstance(predicate, TriValue) else predicate


def _complex(b: Language, real: Any, imag: Any = None) -> Any:
    if any(isinstance(part, TriValue) and part.type.rank for part in (real, imag)):
        raise KernelTypeError(f"complex() takes numbers, got {describe(real)}", help="use astype or cast")
    if imag is None:
        return replace(b.tri.cast(b.tensor(real), DTYPES["complex128"]), weak=True)
    parts = [b.tri.cast(b.tensor(part), DTYPES["float64"]) for part in (real, imag)]
    return replace(b.tri.emit("complex", *parts), weak=True)


def _round(b: Language, x: TriValue, digits: Any = None) -> Any:
    rounded = b.round(x)
    if digits not in (None, 0):
        raise KernelTypeError("round() to digits is not supported on numbers of run time", help="use np.round")
    is_number = x.weak or (b.semantics == "numpy" and not x.type.rank)
    return _int(b, rounded) if digits is None and is_number else rounded


def _extremum(name: str, comparison: str) -> Callable[..., Any]:
    def extremum(b: Language, *arguments: Any) -> Any:
        is_array = len(arguments) == 1 and isinstance(arguments[0], TriValue)
        values = rows(b, arguments[0]) if is_array else list(arguments)
        if len(values) == 1 and isinstance(values[0], (tuple, list)):
            values = list(values[0])
        if any(isinstance(value, TriValue) and value.type.rank for value in values):
            raise KernelTypeError(f"{name}() of arrays", help=f"use {name}imum(x, y) or x.{name}()")
        if all(map(is_integer, values)):
            # Bounds of sizes may decide at compile time which is larger.
            sizes = [b.indices.size_of(value) for value in values]
            size = reduce(b.indices.maximum if name == "max" else b.indices.minimum, sizes)
            return b.number_of(size.simplified())
        for value in values[1:]:
            _check_dtype_known(name, values[0], value)
        return reduce(lambda x, y: _first_unless_beyond(b, comparison, x, y), values)

    return extremum


def _check_dtype_known(name: str, x: Any, y: Any) -> None:
    """Refuse `max` and `min` of numbers of different types: Python returns one of the two, which the values decide."""
    strong = [value.type.dtype for value in (x, y) if isinstance(value, TriValue) and not value.weak]
    if len(strong) == 2:
        is_known, kinds = strong[0] == strong[1], strong
    elif strong and isinstance(number := x if is_weak(x) else y, (int, float, TriValue)):
        [dtype] = strong
        is_whole = number.type.dtype.is_integer if isinstance(number, TriValue) else isinstance(number, int)
        # Of a float32 or wider and a Python number both hold the same value.
        is_known = dtype.name in ("float32", "float64") or (dtype.name == "int64" and is_whole)
        kinds = [dtype, f"a Python {'int' if is_whole else 'float'}"]
    else:
        return
    if not is_known:
        raise KernelTypeError(
            f"{name}() returns {kinds[0]} or {kinds[1]}, depending on the values",
            help=f"write numpy.{name}imum(x, y), or int(x) or float(x) of the elements",
        )


def _first_unless_beyond(b: Language, comparison: str, x: Any, y: Any) -> Any:
    """Return Python's `max` or `min` of two: the first unless the second compares beyond it, so a leading NaN stays."""
    if not isinstance(x, TriValue) and not isinstance(y, TriValue):
        return (max if comparison == "greater" else min)(x, y)
    return either(b.where(getattr(b, comparison)(y, x), y, x), (x, y), "the result of max() or min()")


def _sum(b: Language, values: Any, start: Any = 0) -> Any:
    if isinstance(values, TriValue):
        dtype, is_inexact = values.type.dtype, isinstance(start, (float, complex, TriValue))
        if values.type.shape[:1] == (0,):
            return start
        result = b.sum(values, 0)
        if dtype.is_integer and not dtype.is_bool and not is_inexact:
            # Python adds one element after the other, which wrap around in their own dtype.
            result = b.cast(result, dtype)
        return result if type(start) is int and start == 0 else b.add(result, start)
    return reduce(b.add, values, start)


def _truth(name: str) -> Callable[..., Any]:
    """Return `any` or `all` of the elements of an array of rank 1, or of values, each of which is evaluated."""

    def truth(b: Language, values: Any) -> Any:
        if isinstance(values, TriValue):
            if values.type.rank != 1:
                raise KernelTypeError(f"{name}() of {describe(values)}", help=f"write x.{name}()")
            return replace(getattr(b, name)(values), weak=True)
        predicates = [predicate_of(b, value) for value in values]
        combine = b.logical_or if name == "any" else b.logical_and
        return replace(reduce(combine, predicates), weak=True)

    return truth


def _isinstance(b: Language, value: Any, kinds: Any) -> bool:
    """Return whether the value that Python would have is of a class, or of one of several."""
    classes = flat(kinds)
    if not all(isinstance(kind, type) for kind in classes):
        raise KernelTypeError(f"isinstance() takes classes, got {describe(kinds)}", help="compare x.dtype or x.ndim")
    if not isinstance(value, TriValue):
        return isinstance(value, tuple(classes))
    if has_memory(value) and value.origin.storage.may_be_number:
        raise KernelTypeError(
            f"whether {describe(value)} is an array or a number depends on what ran before", help="compare x.dtype"
        )
    if value.weak:
        return issubclass(value.type.dtype.python, tuple(classes))
    if b.semantics == "torch":
        return issubclass(sys.modules["torch"].Tensor, tuple(classes)) if "torch" in sys.modules else False
    return issubclass(np.ndarray if is_array(value) else value.type.dtype.numpy.type, tuple(classes))


def _parts(b: Language, x: Any) -> Any:
    return rows(b, x) if isinstance(x, TriValue) else x


RUN_TIME_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: _len, builtins.abs: lambda b, x: b.abs(x), builtins.float: _float, builtins.int: _int,
    builtins.bool: _bool, builtins.complex: _complex, builtins.round: _round,
    builtins.pow: lambda b, x, y: b.power(x, y),
    builtins.divmod: lambda b, x, y: (b.floor_divide(x, y), b.remainder(x, y)),
    builtins.max: _extremum("max", "greater"), builtins.min: _extremum("min", "less"), builtins.sum: _sum,
    builtins.any: _truth("any"), builtins.all: _truth("all"), builtins.tuple: lambda b, x: tuple(_parts(b, x)),
    builtins.list: lambda b, x: list(_parts(b, x)),
    builtins.zip: lambda b, *xs, strict=False: fold(lambda: list(zip(*(_parts(b, x) for x in xs), strict=strict))),
    builtins.enumerate: lambda b, x, start=0: list(enumerate(_parts(b, x), start)),
    builtins.reversed: lambda b, x: list(_parts(b, x))[::-1],
}  # fmt: skip
"""Implementations by Python builtin."""
