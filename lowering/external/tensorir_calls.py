"""Calls of the user's TensorIR functions: the PrimFunc for the sizes of one call, as TVMScript.

Takes a registered function and the arguments of a call in a kernel. Gives the PrimFunc without variables in its shapes,
and the types of its results. Refuses arguments whose number, shape or dtype is another, with the parameter's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.base.tensor_type import TensorType, shown_shape
from mlirtri.errors import KernelError, KernelTypeError
from mlirtri.lowering.toolchain.tvm_names import (
    IS_SCHEDULED,
    SCRIPT_NAMES,
    IRModule,
    PrimFunc,
    SBlockRealize,
    from_source,
    script_of,
    structural_map,
    structural_walk,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_passes import short_message
from mlirtri.lowering.toolchain.tvm_text import without_spans

OPAQUE = 8
"""TVM's `op_pattern` of a function that fuses with nothing."""
_FOLDED = {
    tirx.Add: lambda a, b: a + b, tirx.Sub: lambda a, b: a - b, tirx.Mul: lambda a, b: a * b,
    tirx.FloorDiv: tirx.floordiv, tirx.FloorMod: tirx.floormod, tirx.Min: tirx.min, tirx.Max: tirx.max,
}  # fmt: skip


@dataclass(frozen=True)
class TensorIRCall:
    """A PrimFunc for one call, as TVMScript, with its operands and result types."""

    name: str
    """The function's name as a symbol that C, CUDA and LLVM accept."""
    source: str
    tensors: tuple[Any, ...]
    results: tuple[TensorType, ...]


def specialized(registered: object, arguments: list[Any], keywords: dict[str, Any]) -> TensorIRCall:
    """Return the call of a `TensorIRFunction` on these arguments; raises `KernelTypeError`."""
    name = registered.__name__
    function = _prim_func(registered, arguments, keywords)
    count = len(function.params) - registered.outputs
    inputs, outputs = list(function.params)[:count], list(function.params)[count:]
    if function is not registered.function:
        arguments, keywords = [value for value in (*arguments, *keywords.values()) if _is_tensor(value)], {}
    bound = _bind(name, inputs, arguments, keywords)
    bindings: dict[Any, Any] = {}
    for parameter, value in zip(inputs, bound, strict=True):
        _match(name, parameter, value, bindings)
    for parameter, shape in _ruled(registered, outputs, bound):
        _unify(f"{name}(): its shape rule says {shown_shape(shape)} for", parameter, shape, bindings)
    _check_free(name, outputs, bindings)
    fixed = _finished(function, bindings)
    tensors = tuple(value for value in bound if _is_tensor(value))
    types = [_type_of(name, parameter) for parameter in fixed.params]
    for parameter, tensor_type, tensor in zip(fixed.params, types, tensors, strict=False):
        if tensor_type != tensor.type:
            raise KernelTypeError(f"{name}(): {parameter.name!r} is {tensor_type} here, got {tensor.type}")
    _check_writes(name, fixed, len(tensors))
    own_name = str((function.attrs or {}).get("global_symbol", name))
    symbol = re.sub(r"\W", "_", own_name, flags=re.ASCII)
    return TensorIRCall(
        symbol, _with_wide_sizes(script_of(fixed, show_meta=True)), tensors, tuple(types[len(tensors) :])
    )


def prim_func_of(source: str) -> PrimFunc:
    """Return the PrimFunc of a text that `specialized` returned."""
    function = from_source(source, dict(SCRIPT_NAMES))
    [(_, parsed)] = without_spans(IRModule({"main": function})).functions_items()
    return parsed.without_attr("global_symbol")


def _is_tensor(value: Any) -> bool:
    return isinstance(getattr(value, "type", None), TensorType)


def _prim_func(registered: Any, arguments: list[Any], keywords: dict[str, Any]) -> PrimFunc:
    function = registered.function
    if not isinstance(function, PrimFunc):
        keyword_facts = {name: _fact(value) for name, value in keywords.items()}
        try:
            function = function(*map(_fact, arguments), **keyword_facts)
        except KernelError:
            raise
        except Exception as error:
            raise KernelTypeError(f"{registered.__name__}() made no PrimFunc: {short_message(error)}") from error
    if not isinstance(function, PrimFunc):
        raise KernelTypeError(f"{registered.__name__}() gives {type(function).__name__}, not a PrimFunc")
    if not isinstance(function.body, SBlockRealize):
        raise KernelTypeError(
            f"{registered.__name__} has no blocks, which fusion and schedules look for",
            help="write it with @T.prim_func(s_tir=True) and T.sblock",
        )
    if len(function.params) < registered.outputs:
        raise KernelTypeError(f"{registered.__name__} has {len(function.params)} parameters, fewer than results")
    return function


def _fact(value: Any) -> Any:
    """Return the type of a tensor; any other argument itself."""
    return value.type if _is_tensor(value) else value


def _bind(name: str, parameters: list[Any], arguments: list[Any], keywords: Mapping[str, Any]) -> list[Any]:
    names = [parameter.name for parameter in parameters]
    values = dict(zip(names, arguments, strict=False)) | dict(keywords)
    wrong = len(arguments) > len(names) or any(key not in names for key in keywords)
    if wrong or len(values) != len(names) or len(arguments) + len(keywords) != len(names):
        raise KernelTypeError(
            f"{name}() takes {len(names)} arguments ({', '.join(names)}), got {len(arguments) + len(keywords)}",
            help="the buffer of the result is not passed: the call gives it" if len(arguments) > len(names) else None,
        )
    return [values[key] for key in names]


def _match(name: str, parameter: Any, value: Any, bindings: dict[Any, Any]) -> None:
    """Bind the variables of a parameter by its argument, in `bindings`; raise `KernelTypeError` if it does not fit."""
    if not isinstance(parameter.ty, tirx.BufferType):
        if _is_tensor(value) or not isinstance(value, (bool, int, float)):
            raise KernelTypeError(f"{name}(): {parameter.name!r} is a number, which has to be known at compile time")
        bindings[parameter] = tirx.const(value, str(parameter.ty.dtype))
        return
    if not _is_tensor(value):
        raise KernelTypeError(f"{name}(): {parameter.name!r} is a buffer, got {value!r}", help="pass a tensor")
    if not value.type.is_static or str(parameter.ty.dtype) != value.type.dtype.name:
        raise KernelTypeError(f"{name}(): {parameter.name!r} is {_shown(parameter)}, got {value.type}")
    _unify(f"{name}(): got {value.type} for", parameter, value.type.shape, bindings)


def _unify(start: str, parameter: Any, shape: Any, bindings: dict[Any, Any]) -> None:
    """Bind the variables of a shape, in `bindings`; raise `KernelTypeError` where a size differs."""
    sizes = parameter.ty.shape
    if len(sizes) != len(shape):
        raise KernelTypeError(f"{start} {parameter.name!r}, which is {_shown(parameter)}")
    for size, number in zip(sizes, shape, strict=True):
        if isinstance(size, tirx.Var) and size not in bindings:
            bindings[size] = tirx.IntImm(str(size.ty.dtype), int(number))
        bound_size = bindings.get(size, size)
        if hasattr(bound_size, "value") and int(bound_size.value) != int(number):
            binding = f", where {size} is {bound_size.value}" if isinstance(size, tirx.Var) else ""
            raise KernelTypeError(f"{start} {parameter.name!r}, which is {_shown(parameter)}{binding}")


def _ruled(registered: Any, outputs: list[Any], bound: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the results' buffers with shapes from the user's shape function."""
    if registered.shape is None:
        return
    shapes = registered.shape(*map(_fact, bound))
    shapes = shapes if isinstance(shapes, list) else [shapes]
    if len(shapes) != len(outputs):
        raise KernelTypeError(f"{registered.__name__}(): its shape rule gives {len(shapes)} shapes, not {len(outputs)}")
    yield from zip(outputs, (tuple(shape) for shape in shapes), strict=True)


def _check_free(name: str, outputs: list[Any], bindings: Mapping[Any, Any]) -> None:
    for parameter in outputs:
        if not isinstance(parameter.ty, tirx.BufferType):
            raise KernelTypeError(f"{name}(): its result {parameter.name!r} is no buffer")
        used: list[Any] = []
        for size in parameter.ty.shape:
            structural_walk(size, (tirx.Var, used.append), order="pre")
        if free := [variable.name for variable in used if variable not in bindings]:
            raise KernelTypeError(
                f"{name}(): the size {free[0]!r} of its result {parameter.name!r} does not follow from the arguments",
                help="register it with a rule: mlirtri.tensorir(shape=lambda …: …)",
            )


def _finished(function: PrimFunc, bindings: Mapping[Any, Any]) -> PrimFunc:
    """Return the function with known variables replaced, and with the attributes for fusion and schedules."""
    buffers = [parameter for parameter in function.params if isinstance(parameter.ty, tirx.BufferType)]
    trimmed = PrimFunc(buffers, function.body, function.ret_type, function.attrs)
    rewrites = [(tirx.Var, lambda variable: bindings.get(variable, variable)), *((kind, _folded) for kind in _FOLDED)]
    fixed = structural_map(trimmed, rewrites, order="post").with_attrs({"tirx.noalias": True})
    if "op_pattern" in (function.attrs or {}):
        return fixed
    fixed = fixed.with_attrs({"op_pattern": OPAQUE})
    return fixed.with_attrs({IS_SCHEDULED: True}) if _has_schedule(function) else fixed


def _folded(node: Any) -> Any:
    """Fold arithmetic on known sizes; a division by 0 is left as the user wrote it."""
    are_known = isinstance(node.a, tirx.IntImm) and isinstance(node.b, tirx.IntImm)
    is_division = type(node) in (tirx.FloorDiv, tirx.FloorMod)
    if not are_known or (is_division and not node.b.value):
        return node
    return _FOLDED[type(node)](node.a, node.b)


def _has_schedule(function: PrimFunc) -> bool:
    kinds: list[Any] = []
    structural_walk(function.body, (tirx.For, lambda loop: kinds.append(loop.kind)), order="pre")
    return any(kind != tirx.ForKind.SERIAL for kind in kinds)


def _check_writes(name: str, function: PrimFunc, inputs: int) -> None:
    read = list(function.params)[:inputs]
    written: list[Any] = []
    structural_walk(function.body, (tirx.BufferStore, lambda store: written.append(store.buffer)), order="pre")
    for parameter in read:
        if any(parameter.same_as(buffer) for buffer in written):
            raise KernelTypeError(
                f"{name}() writes into its argument {parameter.name!r}, and kernels' values do not change",
                help="write into a result, which the function has as its last parameter",
            )


def _with_wide_sizes(script: str) -> str:
    """Return the text with int64 sizes and loops, as Relax has them: TVM does not fuse functions with others."""
    return f"{ast.unparse(_WideSizes().visit(ast.parse(script)))}\n"


class _WideSizes(ast.NodeTransformer):
    """Makes integer literals int64 (int32 by default) in the arguments of buffers and loops."""

    MAKERS = (
        "range", "T.grid", "T.serial", "T.parallel", "T.vectorized", "T.unroll", "T.thread_binding", "T.Buffer",
        "T.sblock_alloc_buffer", "T.alloc_buffer", "T.axis.spatial", "T.axis.reduce", "T.axis.opaque",
    )  # fmt: skip

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) in self.MAKERS:
            node.args = [self.wide(argument) for argument in node.args]
        return node

    def wide(self, node: ast.expr) -> ast.expr:
        if isinstance(node, (ast.Tuple, ast.List)):
            return type(node)([self.wide(element) for element in node.elts], node.ctx)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return ast.parse(f"T.int64({node.value})", mode="eval").body
        return node


def _type_of(name: str, parameter: Any) -> TensorType:
    """Return the type of a buffer whose sizes are known; raise `KernelTypeError` where one is not."""
    dtype = find_dtype(str(parameter.ty.dtype))
    sizes = [int(size.value) for size in parameter.ty.shape if hasattr(size, "value")]
    if dtype is None or len(sizes) != len(parameter.ty.shape):
        raise KernelTypeError(f"{name}(): {parameter.name!r} is {_shown(parameter)}, which kernels do not hold")
    return TensorType(tuple(sizes), dtype)


def _shown(parameter: Any) -> str:
    """Return a buffer's type as `TensorType` prints it."""
    sizes = ", ".join(str(getattr(size, "value", size)) for size in parameter.ty.shape)
    return f"{parameter.ty.dtype}[{sizes}]"
