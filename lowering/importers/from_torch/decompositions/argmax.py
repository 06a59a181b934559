"""Where the largest and the smallest elements are, which torch-mlir does not know where these are NaN."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten


def place_of(best: Any) -> Callable[..., torch.Tensor]:
    """`argmax` or `argmin`, of which `best` is `amax` or `amin`: NaN is beyond all numbers to either."""

    def place(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
        if not x.dtype.is_floating_point or x.dim() == 0:
            return NotImplemented
        flat, axis = (x.flatten(), 0) if dim is None else (x, dim)
        is_best = (flat == best(flat, axis, True)) | torch.isnan(flat)
        found = torch.argmax(is_best.to(torch.int32), axis, keepdim and dim is not None)
        return found.view([1] * x.dim()) if keepdim and dim is None else found

    return place


def with_place(best: Any, place: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """`max` or `min` along an axis."""

    def apply(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
        if not x.dtype.is_floating_point or x.dim() == 0:
            return NotImplemented
        return best(x, dim, keepdim), place(x, dim, keepdim)

    return apply


def pooled(operator: Any, rank: int) -> Callable[..., Any]:
    """Max pools along the last `rank` axes: the place is of the last NaN, else of the first largest element."""

    def pool(x: torch.Tensor, *window: Any, **options: Any) -> Any:
        if getattr(_SETTLED, "inside", False) or not x.dtype.is_floating_point:
            return NotImplemented
        if x.dim() == rank + 1:
            values, places = pool(x.unsqueeze(0), *window, **options)
            return values.squeeze(0), places.squeeze(0)

        def once(y: torch.Tensor) -> Any:
            _SETTLED.inside = True
            try:
                return operator(y, *window, **options)
            finally:
                _SETTLED.inside = False

        values, places = once(x)
        sizes = x.shape[2:]
        count = 1
        for size in sizes:
            count = count * size
        # Floats of 64 bits hold all places; a pool of integers has no minus infinity to pad with.
        number = torch.arange(count, dtype=torch.float64, device=x.device).view(sizes).expand(x.shape)
        nan = once(torch.where(torch.isnan(x), number, -1.0))[0].long()
        first = -once(-number)[0].long()
        # Where all are minus infinity, none is larger than what the pool begins with.
        places = torch.where(values == float("-inf"), first, places)
        return values, torch.where(torch.isnan(values), nan, places)

    return pool


_SETTLED = threading.local()

argmax, argmin = place_of(torch.amax), place_of(torch.amin)
decomposes(aten.argmax.default)(argmax)
decomposes(aten.argmin.default)(argmin)
decomposes(aten.max.dim)(with_place(torch.amax, argmax))
decomposes(aten.min.dim)(with_place(torch.amin, argmin))
decomposes(aten.max_pool2d_with_indices.default)(pooled(aten.max_pool2d_with_indices.default, 2))
decomposes(aten.max_pool3d_with_indices.default)(pooled(aten.max_pool3d_with_indices.default, 3))
