"""Represent quantised tensors in a trace by integers, scales and zero points, which torch can trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mlirtri.errors import UnsupportedOperationError

aten = torch.ops.aten
STORED = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}


@dataclass(frozen=True)
class Quantised:
    """The integers, scale and zero point of a quantised tensor."""

    integers: torch.Tensor
    scale: Any
    """A Python number, or a tensor with one element per index along `axis`."""
    zero_point: Any
    axis: int | None = None

    def along_axis(self, numbers: object) -> Any:
        """Reshape a scale or zero point to broadcast over the tensor."""
        if self.axis is None:
            return numbers
        shape = [1] * self.integers.dim()
        shape[self.axis] = -1
        return numbers.view(shape)


class QuantisedTensors:
    """The quantised tensors of one trace, by the id of their integers."""

    def __init__(self) -> None:
        self.by_id: dict[int, Quantised] = {}

    def call(self, function: object, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Return the result of a `function` that creates or takes a quantised tensor; NotImplemented for others."""
        if function in _MAKERS:
            quantised = _MAKERS[function](*args, **kwargs)
            self.by_id[id(quantised.integers)] = quantised
            return quantised.integers
        if not any(id(argument) in self.by_id for argument in (*args, *kwargs.values())):
            return NotImplemented
        if getattr(function, "__name__", "") == "__get__" and getattr(function, "__self__", None) in _PROPERTIES:
            return NotImplemented
        if function not in _READERS or kwargs or len(args) != 1:
            name = getattr(function, "__name__", str(function))
            raise UnsupportedOperationError(
                f"{name} of a quantised tensor is not lowered", help="dequantize it before, and quantize the result"
            )
        return _READERS[function](self.by_id[id(args[0])])

    def refuse_results(self, results: object) -> None:
        """Raise `UnsupportedOperationError` if the module returns a quantised tensor."""
        if any(id(leaf) in self.by_id for leaf in torch.utils._pytree.tree_leaves(results)):
            raise UnsupportedOperationError(
                "the module returns a quantised tensor", help="return its int_repr(), or dequantize it"
            )


_PROPERTIES = (torch.Tensor.shape, torch.Tensor.device, torch.Tensor.layout, torch.Tensor.requires_grad)


def _by_tensor(x: torch.Tensor, scale: float, zero_point: int, dtype: torch.dtype) -> Quantised:
    """Quantise as eager: multiply by the inverse of the scale in float32, then round."""
    kind = STORED[dtype]
    limits = torch.iinfo(kind)
    shifted = torch.round(x * (1.0 / scale)) + zero_point
    return Quantised(torch.clamp(shifted, limits.min, limits.max).to(kind), scale, zero_point)


def _of_integers(x: torch.Tensor, scale: float, zero_point: int) -> Quantised:
    return Quantised(x.clone(), scale, zero_point)


def _of_channels(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int) -> Quantised:
    return Quantised(x.clone(), scale, zero_point, axis)


def _dequantised(x: Quantised) -> torch.Tensor:
    zero_point = x.along_axis(x.zero_point)
    wide = x.integers.to(torch.float32) - (zero_point if x.axis is None else zero_point.to(torch.float32))
    scale = x.along_axis(x.scale)
    return wide * (scale if x.axis is None else scale.to(torch.float32))


def _integers(x: Quantised) -> torch.Tensor:
    return x.integers.clone()


_MAKERS: dict[Any, Callable[..., Quantised]] = {
    torch.quantize_per_tensor: _by_tensor,
    aten.quantize_per_tensor: _by_tensor,
    torch._make_per_tensor_quantized_tensor: _of_integers,  # pyright: ignore[reportPrivateImportUsage]
    aten._make_per_tensor_quantized_tensor: _of_integers,
    torch._make_per_channel_quantized_tensor: _of_channels,  # pyright: ignore[reportPrivateImportUsage]
    aten._make_per_channel_quantized_tensor: _of_channels,
}
_READERS: dict[Any, Callable[[Quantised], torch.Tensor]] = {
    torch.dequantize: _dequantised,
    torch.Tensor.dequantize: _dequantised,
    aten.dequantize: _dequantised,
    torch.int_repr: _integers,
    torch.Tensor.int_repr: _integers,
    aten.int_repr: _integers,
}
