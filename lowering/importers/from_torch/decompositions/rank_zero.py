"""Tensors of no axes along an axis, which torch allows: as tensors of one element, which torch-mlir has rules for."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from mlirtri.lowering.importers.from_torch.decompositions.rules import Rule, decomposes_scalars

aten = torch.ops.aten
Tensor = torch.Tensor

ALONG_AN_AXIS = (
    *(aten.median.dim, aten.nanmedian.dim, aten.mode.default, aten.kthvalue.default),
    *(aten.sort.default, aten.sort.stable, aten.topk.default, aten.max.dim, aten.min.dim),
    *(aten.cumsum.default, aten.cumprod.default, aten.cummax.default, aten.cummin.default),
    *(aten._softmax.default, aten._log_softmax.default, aten.logcumsumexp.default),
    *(aten.any.dim, aten.all.dim, aten.prod.dim_int, aten.amax.default, aten.amin.default),
    *(aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two),
    *(aten.gather.default, aten.index_select.default, aten.argmax.default, aten.argmin.default),
    *(aten.flip.default, aten.logsumexp.default),
)
"""With the same axis, of the first and only number of a tensor of no axes."""
FROM_THE_END = (aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two)
"""torch-mlir counts an axis from the end among those of the index, and refuses where that has another shape."""


def of_one(operator: Any) -> Rule:
    """The operator on one element; a result is of no axes again, but for what is read at places: that is like them."""

    def apply(x: Tensor, *arguments: Any, **options: Any) -> Any:
        if x.dim():
            if operator in FROM_THE_END and arguments[0] < 0:
                return operator(x, arguments[0] + x.dim(), *arguments[1:], **options)
            return NotImplemented
        if operator is aten.gather.default:
            return x.expand(arguments[1].shape)
        wider = pytree.tree_map(_as_row, (x, *arguments))
        return pytree.tree_map(_as_number, operator(*wider, **options))

    return apply


def _as_row(each: Any) -> Any:
    return each.view([1]) if isinstance(each, Tensor) and not each.dim() else each


def _as_number(each: Any) -> Any:
    return each.view([]) if isinstance(each, Tensor) and each.numel() == 1 else each


for _operator in ALONG_AN_AXIS:
    decomposes_scalars(_operator)(of_one(_operator))
