"""Calls of `relax.op` in kernels, as Relax expressions.

Takes the name of a function of `relax.op`, and its arguments as text: ``"data=_0, axis=-1"``, where ``_0`` is the first
tensor. Gives the Relax expression, and the types of its results as Relax infers them. Refuses unknown names, and
arguments that Relax refuses, with Relax's message without C++ frames.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, KernelTypeError, UnknownNameError, did_you_mean
from mlirtri.lowering.toolchain.tvm_names import BlockBuilder, relax
from mlirtri.lowering.toolchain.tvm_passes import short_message


def function_of(path: str) -> Any:
    """Return the Python function of `relax.op` with that dotted name; raise `UnknownNameError` with near names."""
    member: Any = relax.op
    for part in path.split("."):
        member = getattr(member, part, None)
    if callable(member) and not isinstance(member, type):
        return member
    near = did_you_mean(path, _names(), count=3).rstrip()
    word = path.rpartition(".")[2]
    near = near or did_you_mean(word, [name.rpartition(".")[2] for name in _names()], count=3).rstrip()
    problem = "is a group of functions" if isinstance(member, ModuleType) else "is not a function of Relax's library"
    raise UnknownNameError(f"relax.{path} {problem}", help=near or None)


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    """Return the names of all functions of `relax.op`, the shortest where TVM has several."""
    groups = {"": relax.op, "nn.": relax.op.nn, "image.": relax.op.image}
    return tuple(
        f"{prefix}{name}"
        for prefix, group in groups.items()
        for name, value in sorted(vars(group).items())
        if inspect.isfunction(value) and not name.startswith("_")
    )


def bind(path: str, arguments: Sequence[object], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by parameter name; raise `KernelTypeError` where they do not bind."""
    signature = inspect.signature(function_of(path))
    shown = f"relax.{path}({', '.join(str(parameter).split(':')[0] for parameter in signature.parameters.values())})"
    if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in signature.parameters.values()):
        raise KernelTypeError(f"relax.{path} takes any number of arguments, which kernels have no way to pass")
    try:
        return dict(signature.bind(*arguments, **keywords).arguments)
    except TypeError as error:
        raise KernelTypeError(f"relax.{path}() {error}", help=f"its signature is {shown}") from None


def tensor_parameters(path: str) -> list[str]:
    """Return the parameters that TVM annotates as expressions: tensors or, of some functions, scalars."""
    parameters = inspect.signature(function_of(path)).parameters.values()
    return [parameter.name for parameter in parameters if "Expr" in str(parameter.annotation)]


def expression(path: str, arguments: str, operands: Sequence[object]) -> Any:
    """Return the call as a Relax expression on `operands`; raise `KernelTypeError` with TVM's message."""
    keywords = ast.parse(f"f({arguments})", mode="eval").body.keywords  # type: ignore[attr-defined]
    try:
        result = function_of(path)(**{str(keyword.arg): _value(keyword.value, operands) for keyword in keywords})
    except KernelError:
        raise
    except Exception as error:
        raise KernelTypeError(f"relax.{path}: {shown_message(error)}") from None
    if isinstance(result, relax.Expr):
        return result
    raise KernelTypeError(f"relax.{path} gives {type(result).__name__}, which kernels have no use for")


def _value(node: ast.expr, operands: Sequence[Any]) -> Any:
    if isinstance(node, ast.Name):
        return operands[int(node.id[1:])]
    if isinstance(node, (ast.List, ast.Tuple)):
        parts = [_value(element, operands) for element in node.elts]
        return parts if isinstance(node, ast.List) else tuple(parts)
    return ast.literal_eval(node)


def result_types(path: str, arguments: str, types: Sequence[TensorType]) -> list[TensorType]:
    """Return the result types of a call; raise `KernelTypeError` where Relax or the kernel refuses them."""
    for kind in types:
        if kind.dtype.is_complex or not kind.is_static:
            raise KernelTypeError(f"relax.{path} takes real tensors of known sizes, got {kind}")
    variables = [relax.Var(f"x{i}", relax.TensorType(kind.shape, kind.dtype.name)) for i, kind in enumerate(types)]
    call = expression(path, arguments, variables)
    try:
        result = BlockBuilder().normalize(call).ty
    except Exception as error:
        raise KernelTypeError(f"relax.{path}: {shown_message(error)}") from None
    return list(_tensors(path, result))


def _tensors(path: str, result: Any) -> Iterator[TensorType]:
    for kind in result.fields if isinstance(result, relax.TupleType) and len(result.fields) else [result]:
        is_tensor = isinstance(kind, relax.TensorType) and isinstance(kind.shape, relax.ShapeExpr)
        sizes = [size.value for size in kind.shape if hasattr(size, "value")] if is_tensor else []
        dtype = find_dtype(str(kind.dtype)) if is_tensor else None
        if not is_tensor or len(sizes) != len(kind.shape) or dtype is None:
            raise KernelTypeError(f"relax.{path} gives {kind}, and a kernel holds tensors of known shapes and dtypes")
        yield TensorType(tuple(map(int, sizes)), dtype)


def shown_message(error: Exception) -> str:
    """Return TVM's message with operators shown by name."""
    text = re.sub(r'ir\.Op\(.*?name="([\w.]+)".*?support_level=\d+\)', r"\1", short_message(error))
    return re.sub(r"\bT\.int(?:32|64)\((-?\d+)\)", r"\1", text)
