"""Relax operators that linalg expresses better than their TIR, or that have no TIR: reshapes, scans and sorts.

A sort counts for every element how many come before it: stable, made of structured operations only, and quadratic in
the size of the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, linalg_fill, scf, tensor
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_relax.primfunc_frame import Size
from mlirtri.lowering.importers.from_relax.types import constant, converted, is_float, mlir_type, tensor_type
from mlirtri.lowering.mlir_common.index_values import index_constant, index_value
from mlirtri.lowering.mlir_common.linalg_builder import generic
from mlirtri.lowering.toolchain.tvm_names import Expr, relax
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir

Value = ir.Value | list["Value"]
"""The translation of a Relax expression: a tensor, a scalar, or the fields of a tuple."""


class Translation(Protocol):
    """The function under construction, as rules see it."""

    def value(self, expression: Expr) -> Any:
        """Return the translation of an expression."""
        ...

    def sizes_of(self, kind: tvm_ir.Type) -> list[Size]:
        """Return the sizes of a tensor type."""
        ...


Rule = Callable[[Translation, relax.Call], Value]
OPERATORS: Registry[str, Rule] = Registry("rule of a Relax operator")
NOT_LEGALISED: list[str] = []
"""Operators with a rule here that TVM could legalise, too."""


def operator(*names: str, is_better: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule; `is_better` for one that replaces TVM's own legalisation."""

    def register(rule: Rule) -> Rule:
        for name in names:
            OPERATORS.add(f"relax.{name}", rule)
            if is_better:
                NOT_LEGALISED.append(f"relax.{name}")
        return rule

    return register


@operator("reshape", "flatten", "squeeze", "expand_dims", is_better=True)
def _reshape(function: Translation, call: relax.Call) -> ir.Value:
    source = function.value(call.args[0])
    return reshaped(source, function.sizes_of(call.ty))


def reshaped(source: ir.Value, sizes: Sequence[int | ir.Value]) -> ir.Value:
    """Return the tensor in another shape, elements in the same order."""
    element = source.type.element_type
    static = [size if isinstance(size, int) else DYNAMIC for size in sizes]
    kind = ir.RankedTensorType.get(static, element)
    if source.type == kind and kind.has_static_shape:
        return source
    if not (source.type.has_static_shape and kind.has_static_shape):
        return _reshaped_at_run_time(source, sizes, kind)
    flat = ir.RankedTensorType.get([prod(static)], element)
    if source.type.rank != 1:
        source = _collapsed(flat, source)
    if kind.rank == 1:
        return source
    return _expanded(kind, source)


def _collapsed(flat: ir.Type, source: ir.Value) -> ir.Value:
    rank = source.type.rank
    if not rank:
        return tensor.expand_shape(flat, source, [], [], [1])
    return tensor.collapse_shape(flat, source, [list(range(rank))])


def _expanded(type_: ir.RankedTensorType, source: ir.Value) -> ir.Value:
    if not type_.rank:
        return tensor.collapse_shape(type_, source, [])
    return tensor.expand_shape(type_, source, [list(range(type_.rank))], [], list(type_.shape))


def _reshaped_at_run_time(source: ir.Value, sizes: Sequence[int | ir.Value], type_: ir.Type) -> ir.Value:
    index = ir.IndexType.get()
    values = [index_value(size) for size in sizes]
    shape = tensor.from_elements(ir.RankedTensorType.get([len(values)], index), values)
    return tensor.reshape(type_, source, shape)


@operator("concat", is_better=True)
def _concat(function: Translation, call: relax.Call) -> ir.Value:
    parts = function.value(call.args[0])
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis) % parts[0].type.rank
    if call.attrs.axis is None:
        parts = [reshaped(part, [prod(part.type.shape)]) for part in parts]
    return parts[0] if len(parts) == 1 else tensor.concat(tensor_type(call.ty), axis, parts)


@operator("shape_of")
def _shape_of(function: Translation, call: relax.Call) -> list[ir.Value]:
    value = function.value(call.args[0])
    return [tensor.dim(value, index_constant(axis)) for axis in range(value.type.rank)]


@operator("to_vdevice", "hint_on_device")
def _same(function: Translation, call: relax.Call) -> Value:
    return function.value(call.args[0])


@operator("cumsum", "cumprod")
def _scan(function: Translation, call: relax.Call) -> ir.Value:
    source, dtype = _as_result(function, call)
    axis, source = _axis(call, source)
    is_sum = call.op.name == "relax.cumsum"
    build = _COMBINE[is_sum, is_float(dtype)]
    kind = source.type
    shape = [1 if position == axis else size for position, size in enumerate(kind.shape)]
    carried = ir.RankedTensorType.get(shape, kind.element_type)
    start = linalg_fill(constant(0 if is_sum else 1, dtype), tensor.empty(shape, kind.element_type))
    bounds = [index_constant(bound) for bound in (0, kind.shape[axis], 1)]
    loop = scf.ForOp(*bounds, [tensor.empty(list(kind.shape), kind.element_type), start])
    identity = ir.AffineMap.get_identity(kind.rank)
    with ir.InsertionPoint(loop.body):
        result, last = loop.inner_iter_args
        offsets = [loop.induction_variable if position == axis else 0 for position in range(kind.rank)]
        part = _slice(source, offsets, carried)
        out = tensor.empty(shape, kind.element_type)
        [combined] = generic(
            [last, part], [out], [identity] * 3, ["parallel"] * kind.rank, lambda x, y, _: [build(x, y)]
        )
        scf.YieldOp([_inserted(last if bool(call.attrs.exclusive) else combined, result, offsets), combined])
    return reshaped(loop.results[0], function.sizes_of(call.ty))


_COMBINE = {
    (True, True): arith.addf, (True, False): arith.addi, (False, True): arith.mulf, (False, False): arith.muli,
}  # fmt: skip
"""The combining operation, by whether it is a sum and whether it is on floats."""


def _as_result(function: Translation, call: relax.Call) -> tuple[ir.Value, str]:
    source = function.value(call.args[0])
    source_dtype, dtype = str(call.args[0].ty.dtype), str(call.ty.dtype)
    if not source.type.has_static_shape:
        raise UnsupportedOperationError(f"{call.op.name} over a size that is only known at run time")
    if source_dtype == dtype:
        return source, dtype
    identity = ir.AffineMap.get_identity(source.type.rank)
    out = tensor.empty(list(source.type.shape), mlir_type(dtype))
    kinds = ["parallel"] * source.type.rank
    [cast] = generic([source], [out], [identity] * 2, kinds, lambda x, _: [converted(x, source_dtype, dtype)])
    return cast, dtype


def _axis(call: relax.Call, source: ir.Value) -> tuple[int, ir.Value]:
    if call.attrs.axis is None:
        return 0, reshaped(source, [prod(source.type.shape)])
    return int(call.attrs.axis) % max(source.type.rank, 1), source


def _slice(source: ir.Value, position: Sequence[int | ir.Value], type_: ir.RankedTensorType) -> ir.Value:
    offsets = [offset for offset in position if isinstance(offset, ir.Value)]
    static = [DYNAMIC if isinstance(offset, ir.Value) else offset for offset in position]
    return tensor.extract_slice(type_, source, offsets, [], [], static, list(type_.shape), [1] * type_.rank)


def _inserted(part: ir.Value, destination: ir.Value, position: Sequence[int | ir.Value]) -> ir.Value:
    offsets = [offset for offset in position if isinstance(offset, ir.Value)]
    static = [DYNAMIC if isinstance(offset, ir.Value) else offset for offset in position]
    return tensor.insert_slice(part, destination, offsets, [], [], static, list(part.type.shape), [1] * part.type.rank)


@operator("sort", "argsort", "topk")
def _sorted(function: Translation, call: relax.Call) -> Value:
    source = function.value(call.args[0])
    if not source.type.has_static_shape:
        raise UnsupportedOperationError(f"{call.op.name} over a size that is only known at run time")
    name, attributes, dtype = call.op.name.removeprefix("relax."), call.attrs, str(call.args[0].ty.dtype)
    axis = int(attributes.axis) % source.type.rank
    descends = bool(attributes.largest) if name == "topk" else bool(attributes.descending)
    order = _order(source, _ranks(source, axis, descends, dtype), axis)
    if name == "argsort":
        return _converted_order(order, str(call.ty.dtype))
    if name == "sort":
        return _gather(source, order, axis)
    return _top_k(source, order, axis, call)


def _top_k(source: ir.Value, order: ir.Value, axis: int, call: relax.Call) -> Value:
    count, results = int(call.attrs.k), str(call.attrs.ret_type)
    size = source.type.shape[axis]
    count = size if count < 1 else min(count, size)
    values, indices = _gather(source, order, axis), _converted_order(order, str(call.attrs.dtype))
    parts = []
    for result in (values, indices):
        shape = [count if position == axis else size for position, size in enumerate(result.type.shape)]
        kind = ir.RankedTensorType.get(shape, result.type.element_type)
        parts.append(_slice(result, [0] * kind.rank, kind))
    return {"both": parts, "values": parts[0], "indices": parts[1]}[results]


def _ranks(source: ir.Value, axis: int, descends: bool, dtype: str) -> ir.Value:
    """Count for every element how many come before it: smaller (larger) ones, and equal ones at a lower index."""
    rank = source.type.rank

    def body(mine: ir.Value, other: ir.Value, count: ir.Value) -> list[ir.Value]:
        first, second = (mine, other) if descends else (other, mine)
        comes_first = _is_less(first, second, dtype)
        is_equal = arith.xori(arith.ori(comes_first, _is_less(second, first, dtype)), constant(True, "bool"))
        is_left = arith.cmpi(arith.CmpIPredicate.slt, linalg.IndexOp(rank).result, linalg.IndexOp(axis).result)
        counts = arith.ori(comes_first, arith.andi(is_equal, is_left))
        return [arith.addi(count, arith.extui(count.type, counts))]

    return _over_pairs([source, source], axis, rank, body)


def _order(source: ir.Value, ranks: ir.Value, axis: int) -> ir.Value:
    rank = source.type.rank

    def body(_: ir.Value, element_rank: ir.Value, accumulator: ir.Value) -> list[ir.Value]:
        position = arith.index_cast(accumulator.type, linalg.IndexOp(axis).result)
        other = arith.index_cast(accumulator.type, linalg.IndexOp(rank).result)
        is_match = arith.cmpi(arith.CmpIPredicate.eq, element_rank, position)
        return [arith.addi(accumulator, arith.select(is_match, other, arith.constant(accumulator.type, 0)))]

    return _over_pairs([ranks, ranks], axis, rank, body)


def _over_pairs(inputs: Sequence[ir.Value], axis: int, rank: int, body: Callable[..., list[ir.Value]]) -> ir.Value:
    """Sum int64 over all pairs of elements along the axis; the second input is indexed by the inner one."""
    outer = [ir.AffineExpr.get_dim(position) for position in range(rank)]
    inner = [ir.AffineExpr.get_dim(rank if position == axis else position) for position in range(rank)]
    maps = [ir.AffineMap.get(rank + 1, 0, expressions) for expressions in (outer, inner, outer)]
    kind = mlir_type("int64")
    start = linalg_fill(constant(0, "int64"), tensor.empty(list(inputs[0].type.shape), kind))
    return generic(list(inputs), [start], maps, ["parallel"] * rank + ["reduction"], body)[0]


def _is_less(x: ir.Value, y: ir.Value, dtype: str) -> ir.Value:
    if is_float(dtype):
        return arith.cmpf(arith.CmpFPredicate.OLT, x, y)
    signed = dtype.startswith("int")
    return arith.cmpi(arith.CmpIPredicate.slt if signed else arith.CmpIPredicate.ult, x, y)


def _gather(source: ir.Value, order: ir.Value, axis: int) -> ir.Value:
    rank = source.type.rank

    def body(position: ir.Value, _: ir.Value) -> list[ir.Value]:
        indices = [linalg.IndexOp(position).result for position in range(rank)]
        indices[axis] = arith.index_cast(ir.IndexType.get(), position)
        return [tensor.extract(source, indices)]

    return _mapped(order, source.type.element_type, body)


def _converted_order(order: ir.Value, dtype: str) -> ir.Value:
    if dtype == "int64":
        return order
    return _mapped(order, mlir_type(dtype), lambda position, _: [converted(position, "int64", dtype)])


def _mapped(value: ir.Value, element: ir.Type, body: Callable[..., list[ir.Value]]) -> ir.Value:
    rank = value.type.rank
    out = tensor.empty(list(value.type.shape), element)
    return generic([value], [out], [ir.AffineMap.get_identity(rank)] * 2, ["parallel"] * rank, body)[0]
