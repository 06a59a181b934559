"""Unsigned integers in the torch dialect, which torch-mlir lowers as signed: computed in si64.

uint64 has no wider type: comparisons are applied to operands shifted by 2^63, and arithmetic on tensors of one shape is
builtin MLIR. Refuses other operations on uint64.

    torch.aten.div.Tensor %a, %b : ui8   ──►   to si64, & 255, torch.aten.div.Tensor : si64, to ui8
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, math
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.importers.from_torch.builder import (
    as_type,
    bare_type,
    cast,
    compute,
    element_of,
    integer,
    shape_of,
    tensor_op,
)
from mlirtri.lowering.mlir_common.cloning import replace

SIGNLESS = frozenset(
    "torch.aten." + name
    for name in (
        "add.Tensor add.Scalar sub.Tensor sub.Scalar rsub.Scalar mul.Tensor mul.Scalar neg bitwise_and.Tensor "
        "bitwise_and.Scalar bitwise_or.Tensor bitwise_xor.Tensor bitwise_not bitwise_left_shift.Tensor eq.Tensor "
        "eq.Scalar ne.Tensor ne.Scalar logical_not logical_and logical_or logical_xor any any.dim any.dims all all.dim "
        "where.self where.ScalarSelf where.ScalarOther where.Scalar view reshape permute transpose.int t expand "
        "broadcast_to slice.Tensor select.int cat index_select gather index.Tensor index.Tensor_hacked_twin "
        "index_put index_put.hacked_twin squeeze squeeze.dim unsqueeze flatten.using_ints unflatten.int "
        "constant_pad_nd flip roll clone contiguous detach as_strided zeros_like ones_like full_like empty_like "
        "new_zeros new_ones new_empty new_full scatter.src scatter.value scatter_add masked_fill.Scalar "
        "masked_fill.Tensor tril triu copy slice_scatter select_scatter repeat repeat_interleave.self_int movedim.int "
        "size.int size dim numel _reshape_alias item Int.Tensor tensor_split.sections split.Tensor split_with_sizes "
        "unbind.int embedding alias lift_fresh_copy diagonal tile"
    ).split()
) | {"torch.prim.ListConstruct", "torch.prims.view_of", "torch.prims.collapse", "torch.prims.split_dim"}
"""What moves numbers, or computes the same bits whether there is a sign or none, where all are of one type."""
QUANTISED = frozenset(
    f"torch.aten.{name}"
    for name in ("_make_per_tensor_quantized_tensor", "_make_per_channel_quantized_tensor", "int_repr")
)
"""What says that integers are quantised numbers, or that they are not; torch-mlir knows which of these have signs."""
CASTS = frozenset({"torch.aten.to.dtype", "torch.prims.convert_element_type", "torch.aten._to_copy"})
ORDERED = frozenset(
    "torch.aten." + name
    for name in (
        "gt.Tensor", "lt.Tensor", "ge.Tensor", "le.Tensor", "maximum", "minimum", "max.dim", "min.dim", "max", "min",
        "amax", "amin", "argmax", "argmin", "sort", "topk", "clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor",
    )
)  # fmt: skip
"""What only compares."""
WRAPPING = frozenset(f"torch.aten.{name}" for name in ("sum", "sum.dim_IntList", "cumsum", "mm", "bmm", "matmul"))
"""What wraps, where the width of the result is that of the operands."""
OF_64_BITS = {
    "torch.aten.div.Tensor": lambda x, y: arith.divui(x, y),
    "torch.aten.div.Tensor_mode": lambda x, y: arith.divui(x, y),
    "torch.aten.remainder.Tensor": lambda x, y: arith.remui(x, y),
    "torch.aten.fmod.Tensor": lambda x, y: arith.remui(x, y),
    "torch.aten.bitwise_right_shift.Tensor": lambda x, y: arith.shrui(x, y),
}
"""What is computed of two tensors of uint64 without torch-mlir."""
FLOATS = ({"f32"}, {"f64"})
"""The dtypes of results that are floats of one width."""
_UNSIGNED = re.compile(r",ui(8|16|32|64)>")


def rewrite(module: ir.Module) -> None:
    """Rewrite the operations whose result depends on the sign; raises `UnsupportedOperationError`."""
    for operation in all_operations(module):
        if (make := _builder_of_uint64(operation)) is not None:
            with operation.location, ir.InsertionPoint(operation):
                compute(operation, make)
        elif _gives_floats(operation):
            with operation.location, ir.InsertionPoint(operation):
                _convert_operands(operation)
    operations = [operation for operation in all_operations(module) if _depends_on_sign(operation)]
    refuse(_too_wide(operations), "signed integers", "cast to int64 before, where the numbers fit")
    for operation in operations:
        with operation.location, ir.InsertionPoint(operation):
            _widen(operation)


def _builder_of_uint64(operation: ir.Operation) -> Callable[..., ir.Value] | None:
    if operation.name in CASTS and _width(operation.operands[0]) == 64 and "f" in element_of(operation.results[0]):
        kind = bare_type([], element_of(operation.results[0])).element_type
        return lambda x: arith.uitofp(kind, x)
    if operation.name == "torch.aten.pow.Tensor_Tensor" and _is_float_to_wide(operation):
        return lambda x, y: math.powf(x, arith.uitofp(x.type, y))
    types = {operand.type for operand in [*list(operation.operands)[:2], *operation.results]}
    if operation.name not in OF_64_BITS or len(types) > 1 or _width(operation.results[0]) != 64:
        return None
    return OF_64_BITS[operation.name]


def _is_float_to_wide(power: ir.Operation) -> bool:
    base, exponent = power.operands
    same = shape_of(base) == shape_of(exponent) == shape_of(power.results[0])
    return same and base.type == power.results[0].type and "f" in element_of(base) and _width(exponent) == 64


def _gives_floats(operation: ir.Operation) -> bool:
    is_aten = operation.name.startswith(("torch.aten.", "torch.prims.")) and operation.name not in CASTS | QUANTISED
    is_wide = any(_width(operand) == 64 for operand in operation.operands)
    return is_aten and is_wide and {element_of(result) for result in operation.results} in FLOATS


def _convert_operands(operation: ir.Operation) -> None:
    """Convert operands of uint64 to the dtype of the result, as eager does before it computes floats of integers."""
    element = element_of(operation.results[0])
    for position, operand in enumerate(operation.operands):
        if _width(operand) == 64:
            number = bare_type([], element).element_type
            conversion = cast(operand, element)
            operation.operands[position] = conversion
            compute(conversion.owner, lambda x, number=number: arith.uitofp(number, x))


def _width(value: ir.Value) -> int:
    match = _UNSIGNED.search(str(value.type))
    return int(match[1]) if match and str(value.type).startswith("!torch.vtensor") else 0


def _depends_on_sign(operation: ir.Operation) -> bool:
    if not operation.name.startswith(("torch.aten.", "torch.prims.")):
        return False
    if operation.name in QUANTISED:
        return False
    if operation.name in SIGNLESS:
        return _converts(operation)
    widths = [_width(operand) for operand in operation.operands]
    if operation.name in WRAPPING and set(widths) <= {0, 64}:
        return False
    if operation.name in CASTS:
        return widths[0] != 0 or (_width(operation.results[0]) != 0 and "f" in element_of(operation.operands[0]))
    return any(widths)


def _converts(operation: ir.Operation) -> bool:
    same = {f"ui{width}" for operand in operation.operands if (width := _width(operand))}
    elements = {element_of(result) for result in operation.results if str(result.type).startswith("!torch.vtensor")}
    return bool(same) and not elements <= same | {"i1"}


def _too_wide(operations: Iterable[ir.Operation]) -> Iterable[tuple[ir.Operation, str]]:
    for operation in operations:
        if not any(_width(operand) == 64 for operand in operation.operands) or operation.name in (
            *ORDERED,
            "torch.aten.abs",
        ):
            continue
        if operation.name not in CASTS or "f" in element_of(operation.results[0]):
            yield operation, f"{operation.name.removeprefix('torch.')} of uint64"


def _widen(operation: ir.Operation) -> None:
    if operation.name == "torch.aten.abs":
        replace(operation, [operation.operands[0]])
        return
    is_cast = operation.name in CASTS
    is_shifted = any(_width(operand) == 64 for operand in operation.operands) and not is_cast
    for position, operand in enumerate(operation.operands):
        if width := _width(operand):
            operation.operands[position] = _shifted(_signed(operand, 64)) if is_shifted else _signed(operand, width)
    if is_cast:
        if "f" in element_of(operation.operands[0]):
            operation.operands[0] = cast(operation.operands[0], "si64")
        return
    results = [_width(result) for result in operation.results]
    if any(results):
        _replace(operation, results, is_shifted)


def _replace(operation: ir.Operation, widths: list[int], is_shifted: bool) -> None:
    types = [
        as_type(result.type, "si64") if width else result.type
        for result, width in zip(operation.results, widths, strict=True)
    ]
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    wide = ir.Operation.create(operation.name, types, list(operation.operands), attributes)
    for old, new, width in zip(operation.results, wide.results, widths, strict=True):
        value = _shifted(new) if is_shifted and width else new
        old.replace_all_uses_with(_bitcast(cast(value, f"si{width}"), f"ui{width}", width) if width else value)
    operation.erase()


def _signed(value: ir.Value, width: int) -> ir.Value:
    wide = cast(_bitcast(value, f"si{width}", width), "si64")
    if width == 64:
        return wide
    mask = integer((1 << width) - 1)
    return tensor_op("bitwise_and.Scalar", wide.type, wide, mask)


def _bitcast(value: ir.Value, element: str, width: int) -> ir.Value:
    shape = str(value.type).partition("[")[2].partition("]")[0]
    bare = ir.Type.parse(f"tensor<{''.join(f'{size}x' for size in shape.split(',') if size)}i{width}>")
    bits = ir.Operation.create("torch_c.to_builtin_tensor", [bare], [value]).result
    return ir.Operation.create("torch_c.from_builtin_tensor", [as_type(value.type, element)], [bits]).result


def _shifted(value: ir.Value) -> ir.Value:
    """Add 2^63 modulo 2^64, which maps the unsigned order to the signed one and back."""
    return tensor_op("add.Scalar", value.type, value, integer(-(1 << 63)), integer(1))
