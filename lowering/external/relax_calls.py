"""What Relax makes of a call of its library that a kernel writes.

Takes the name of a function of `relax.op`, and its arguments as text: ``"data=_0, axis=-1"``, where ``_0`` is the first
tensor. Gives Relax's expression, and the types of its results as Relax infers them. Refuses unknown names, and repeats
what Relax says of arguments that do not fit, without its C++ frames.
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
    """The Python function of `relax.op` with that dotted name; raises `UnknownNameError` with near names."""
    found: Any = relax.op
    for part in path.split("."):
        found = getattr(found, part, None)
    if callable(found) and not isinstance(found, type):
        return found
    near = did_you_mean(path, _names(), count=3).rstrip()
    word = path.rpartition(".")[2]
    near = near or did_you_mean(word, [name.rpartition(".")[2] for name in _names()], count=3).rstrip()
    what = "is a group of functions" if isinstance(found, ModuleType) else "is not a function of Relax's library"
    raise UnknownNameError(f"relax.{path} {what}", help=near or None)


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    """All functions of `relax.op` by the shortest names that TVM itself offers."""
    groups = {"": relax.op, "nn.": relax.op.nn, "image.": relax.op.image}
    return tuple(
        f"{prefix}{name}"
        for prefix, group in groups.items()
        for name, value in sorted(vars(group).items())
        if inspect.isfunction(value) and not name.startswith("_")
    )


def bind(path: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Parameter names to what the call gives; raises `KernelTypeError` for a call that the function does not take."""
    signature = inspect.signature(function_of(path))
    shown = f"relax.{path}({', '.join(str(each).split(':')[0] for each in signature.parameters.values())})"
    if any(each.kind == each.VAR_POSITIONAL for each in signature.parameters.values()):
        raise KernelTypeError(f"relax.{path} takes any number of arguments, which kernels have no way to pass")
    try:
        return dict(signature.bind(*arguments, **keywords).arguments)
    except TypeError as error:
        raise KernelTypeError(f"relax.{path}() {error}", help=f"its signature is {shown}") from None


def tensor_parameters(path: str) -> list[str]:
    """The parameters that TVM says are expressions: tensors or, of some functions, numbers."""
    parameters = inspect.signature(function_of(path)).parameters.values()
    return [each.name for each in parameters if "Expr" in str(each.annotation)]


def expression(path: str, arguments: str, operands: Sequence[Any]) -> Any:
    """The call as a Relax expression on `operands`; raises `KernelTypeError` with what TVM says."""
    keywords = ast.parse(f"f({arguments})", mode="eval").body.keywords  # type: ignore[attr-defined]
    try:
        made = function_of(path)(**{str(each.arg): _value(each.value, operands) for each in keywords})
    except KernelError:
        raise
    except Exception as error:
        raise KernelTypeError(f"relax.{path}: {said(error)}") from None
    if isinstance(made, relax.Expr):
        return made
    raise KernelTypeError(f"relax.{path} gives {type(made).__name__}, which kernels have no use for")


def _value(node: ast.expr, operands: Sequence[Any]) -> Any:
    if isinstance(node, ast.Name):
        return operands[int(node.id[1:])]
    if isinstance(node, (ast.List, ast.Tuple)):
        parts = [_value(each, operands) for each in node.elts]
        return parts if isinstance(node, ast.List) else tuple(parts)
    return ast.literal_eval(node)


def result_types(path: str, arguments: str, types: Sequence[TensorType]) -> list[TensorType]:
    """The types of the tensors that a call gives; raises `KernelTypeError` when Relax or a kernel refuses them."""
    for each in types:
        if each.dtype.is_complex or not each.is_static:
            raise KernelTypeError(f"relax.{path} takes real tensors of known sizes, got {each}")
    variables = [relax.Var(f"x{at}", relax.TensorType(each.shape, each.dtype.name)) for at, each in enumerate(types)]
    call = expression(path, arguments, variables)
    try:
        made = BlockBuilder().normalize(call).ty
    except Exception as error:
        raise KernelTypeError(f"relax.{path}: {said(error)}") from None
    return list(_tensors(path, made))


def _tensors(path: str, made: Any) -> Iterator[TensorType]:
    for each in made.fields if isinstance(made, relax.TupleType) and len(made.fields) else [made]:
        is_tensor = isinstance(each, relax.TensorType) and isinstance(each.shape, relax.ShapeExpr)
        sizes = [size.value for size in each.shape if hasattr(size, "value")] if is_tensor else []
        dtype = find_dtype(str(each.dtype)) if is_tensor else None
        if not is_tensor or len(sizes) != len(each.shape) or dtype is None:
            raise KernelTypeError(f"relax.{path} gives {each}, and a kernel holds tensors of known shapes and dtypes")
        yield TensorType(tuple(map(int, sizes)), dtype)


def said(error: Exception) -> str:
    """TVM's message, with operators by name in place of their whole records."""
    text = re.sub(r'ir\.Op\(.*?name="([\w.]+)".*?support_level=\d+\)', r"\1", short_message(error))
    return re.sub(r"\bT\.int(?:32|64)\((-?\d+)\)", r"\1", text)
