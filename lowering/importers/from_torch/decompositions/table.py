"""The operators that torch takes apart before torch-mlir sees them: torch-mlir's own table, and what it gets wrong.

Each function of ours computes what eager computes, with operators that torch-mlir lowers rightly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from mlirtri.dialect.bindings.mlir import torch_decompositions
from mlirtri.lowering.importers.from_torch.decompositions import (  # noqa: F401 - they register their rules
    argmax,
    attention,
    bits,
    complex_functions,
    complex_moves,
    counts,
    distances,
    distributions,
    embedding_bags,
    foreach,
    fourier,
    grid_sampling,
    linear_algebra,
    norms,
    order_statistics,
    pooling,
    powers,
    products,
    random_choice,
    rank_zero,
    reductions,
    scalars,
    scatters,
    special,
    spectra,
    strides,
)  # fmt: skip
from mlirtri.lowering.importers.from_torch.decompositions import complex_basic as torch_complex
from mlirtri.lowering.importers.from_torch.decompositions import integers as torch_integers
from mlirtri.lowering.importers.from_torch.decompositions import masks as torch_masks
from mlirtri.lowering.importers.from_torch.decompositions.floats import floor_divided
from mlirtri.lowering.importers.from_torch.decompositions.indices import put_at_one_index, settled_values
from mlirtri.lowering.importers.from_torch.decompositions.masks import has_masks
from mlirtri.lowering.importers.from_torch.decompositions.quantized import quantised
from mlirtri.lowering.importers.from_torch.decompositions.rules import (
    COMPLEX_RULES,
    RULES,
    SCALAR_RULES,
    Rule,
    chained,
    decomposes,
)

aten = torch.ops.aten


@decomposes(aten.abs.default)
def absolute(x: torch.Tensor) -> torch.Tensor:
    """torch-mlir takes unsigned integers for signed ones."""
    return torch_complex.absolute(x) if x.dtype.is_signed else x.clone()


@decomposes(aten.div.Tensor_mode)
def divided(x: Any, y: Any, *, rounding_mode: str | None = None) -> torch.Tensor:
    """torch-mlir rounds quotients of floats twice; `torch_integers.py` has those of integers."""
    if rounding_mode == "floor" and torch.result_type(x, y).is_floating_point:
        return floor_divided(x, y)
    return torch_integers.divided(x, y, rounding_mode=rounding_mode)


@decomposes(aten.constant_pad_nd.default)
def padded(x: torch.Tensor, pad: list[int], value: float = 0) -> torch.Tensor:
    """It pads by a negative number as if that were nothing."""
    if all(isinstance(each, int) and each >= 0 for each in pad):
        return NotImplemented
    for at, (low, high) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = x.dim() - 1 - at
        x = x.narrow(axis, max(-low, 0), x.shape[axis] - max(-low, 0) - max(-high, 0))
    return aten.constant_pad_nd(x, [max(each, 0) for each in pad], value)


def compared(operator: Any) -> Callable[[torch.Tensor, Any], torch.Tensor]:
    """torch-mlir compares in the first operand's dtype, torch in the dtype that both have room in."""

    def compare(x: torch.Tensor, y: Any) -> torch.Tensor:
        kind = torch.result_type(x, y)
        if kind.is_complex:
            return (
                torch_complex.is_equal(x, y) if operator in EQUAL else torch.logical_not(torch_complex.is_equal(x, y))
            )
        if type(y) is int and kind in torch_integers.NARROW and not torch_integers.is_plain(y, kind):
            return operator(x.long(), torch_integers.wrapped(y, kind))
        if type(y) is int and x.dtype.is_floating_point:
            # It also compares a constant with the bits of an integer.
            return operator(x, float(y))
        is_settled = x.dtype == kind and (not isinstance(y, torch.Tensor) or y.dtype == kind)
        if is_settled:
            return NotImplemented
        return operator(x.to(kind), y.to(kind) if isinstance(y, torch.Tensor) else y)

    return compare


@decomposes(aten.eq.Tensor)
def equal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """torch-mlir takes what is compared with itself for equal, NaN too."""
    if not torch.result_type(x, y).is_floating_point:
        return compared(aten.eq.Tensor)(x, y)
    return torch.logical_not(torch.ne(x, y))


@decomposes(aten.all.dims)
def all_of(x: torch.Tensor, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
    """torch-mlir has this of one axis."""
    axes = range(x.dim()) if dim is None else sorted((each % x.dim() for each in dim), reverse=True)
    for axis in sorted(axes, reverse=True):
        x = torch.all(x, axis, keepdim)
    return x.bool()


@decomposes(aten.roll.default)
def rolled(x: torch.Tensor, shifts: Any, dims: Any = ()) -> torch.Tensor:
    """torch-mlir rolls along axes only, and not by more than their size."""
    if not dims:
        return x.flatten().roll(shifts, 0).view(x.shape)
    sizes = [x.shape[axis] for axis in dims]
    if any(isinstance(each, int) and each == 0 for each in sizes):
        return x.clone()
    inside = [
        shift % size if isinstance(size, int) and isinstance(shift, int) else shift
        for shift, size in zip(shifts, sizes, strict=True)
    ]
    if inside == list(shifts) and all(isinstance(each, int) for each in sizes):
        return NotImplemented
    for axis, shift, size in zip(dims, inside, sizes, strict=True):
        at = torch.arange(size, device=x.device)
        x = x.roll([shift], [axis]) if isinstance(size, int) else x.index_select(axis, (at - shift) % size)
    return x


@decomposes(aten.index_put.default)
def placed(x: torch.Tensor, indices: Any, values: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    """torch-mlir takes a negative position for one outside of the tensor, and no indices that are apart."""
    if getattr(_SETTLED, "inside", False):
        return NotImplemented
    if has_masks(indices):
        return torch_masks.write(x, indices, values, accumulate)
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    if axes[-1] - axes[0] >= len(axes):
        # The axes of apart indices come first in what is put; so they do where these axes stand in front.
        order = [*axes, *[axis for axis in range(x.dim()) if axis not in axes]]
        found = aten.index_put.default(x.permute(order), [indices[axis] for axis in axes], values, accumulate)
        return found.permute([order.index(axis) for axis in range(x.dim())])
    if (settled := settled_values(x, indices, values)) is None:
        return x.clone()
    values = settled
    if (found := put_at_one_index(x, indices, values, accumulate)) is not None:
        return found
    positive = [
        None if each is None else torch.where(each < 0, each + x.shape[axis], each).long()
        for axis, each in enumerate(indices)
    ]
    return _once(aten.index_put.default, x, positive, values, accumulate)


_SETTLED = threading.local()


def _once(operator: Any, *arguments: Any) -> Any:
    """The operator itself, which is not taken apart again."""
    _SETTLED.inside = True
    try:
        return operator(*arguments)
    finally:
        _SETTLED.inside = False


@decomposes(aten.searchsorted.Tensor)
def searched(
    boundaries: torch.Tensor,
    values: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """How many boundaries lie before each value, of all of them or of its row; before NaN all do."""
    boundaries = boundaries if sorter is None else boundaries.gather(-1, sorter)
    boundaries = boundaries if boundaries.dim() == 1 else boundaries.unsqueeze(-2)
    values = values.unsqueeze(-1)
    before = boundaries <= values if right or side == "right" else boundaries < values
    if values.is_floating_point():
        before = before | torch.isnan(values)
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


@decomposes(aten.searchsorted.Scalar)
def searched_number(boundaries: torch.Tensor, number: Any, **options: Any) -> torch.Tensor:
    """The same of a Python number."""
    kind = torch.result_type(boundaries, number)
    return searched(boundaries, torch.full((), number, dtype=kind, device=boundaries.device), **options)


@decomposes(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucket(values: Any, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> torch.Tensor:
    """The same with its operands the other way round."""
    search = searched if isinstance(values, torch.Tensor) else searched_number
    return search(boundaries, values, out_int32=out_int32, right=right)


@decomposes(aten.addmv.default)
def added_product(x: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * x + alpha * (matrix @ vector)``"""
    return _added(x, torch.mv(matrix, vector), beta, alpha)


@decomposes(aten.addbmm.default)
def added_products(x: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """The same with the sum of the products of a stack."""
    if x.dtype in (torch.float16, torch.bfloat16):
        x, left, right, kind = x.float(), left.float(), right.float(), x.dtype
        return _added(x, torch.bmm(left, right).sum(0), beta, alpha).to(kind)
    return _added(x, torch.bmm(left, right).sum(0), beta, alpha)


def _added(x: torch.Tensor, product: torch.Tensor, beta: Any, alpha: Any) -> torch.Tensor:
    if not (x.is_floating_point() or x.is_complex()):
        beta, alpha = int(beta), int(alpha)
    product = (alpha * product).to(x.dtype)
    return product + beta * x if beta else product.expand(torch.broadcast_shapes(product.shape, x.shape)).clone()


@decomposes(aten.sort.stable)
def stably_sorted(x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    """torch-mlir's sort, which becomes a stable one."""
    return aten.sort.default(x, dim, descending)


@decomposes(aten._assert_async.default, aten._assert_async.msg)
def asserted(truth: torch.Tensor, message: str = "") -> None:
    """torch-mlir leaves out what does not wait for its answer."""
    aten._assert_scalar(truth.item(), message)


@decomposes(aten._assert_tensor_metadata.default)
def nothing(*arguments: Any, **options: Any) -> None:
    """What only repeats a dtype, which may be that of an operator whose own word of it is not what eager gives."""


EQUAL = (aten.eq.Tensor, aten.eq.Scalar)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _operator in (getattr(aten, _name).Tensor, getattr(aten, _name).Scalar):
        if _operator is not aten.eq.Tensor:
            decomposes(_operator)(compared(_operator))


def decompositions() -> dict[Any, Rule]:
    """Return the rules by operator, for `ExportedProgram.run_decompositions` and AOTAutograd.

    torch's operators on quantised tensors are among them once torch has registered these.
    """
    return {**_decompositions(), **quantised()}


@cache
def _decompositions() -> dict[Any, Rule]:
    table = {**torch_decompositions(), **RULES}
    for layer in (COMPLEX_RULES, SCALAR_RULES):
        for operator, rule in layer.items():
            table[operator] = chained([rule, table[operator]] if operator in table else [rule])
    return table
