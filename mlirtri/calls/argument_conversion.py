"""Convert one run-time argument of a kernel to a tensor that the executable can read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from mlirtri.calls.arrays import as_torch, is_settled, strided_as_torch, view_of
from mlirtri.calls.dynamic_shapes import admits
from mlirtri.dialect.base.dtypes import DType
from mlirtri.errors import ArgumentMismatchError, DeviceError, KernelTypeError
from mlirtri.language.arguments import annotated, is_other_array, shown_type
from mlirtri.lowering.core.interface import TensorParameter
from mlirtri.settings import users_frame

_NUMBERS = {bool: (bool,), int: (bool, int), float: (bool, int, float)}
"""Python's type for a dtype's numbers to the types that all such numbers hold."""


class NonContiguousWarning(UserWarning):
    """An argument was copied, because kernels read contiguous memory."""


class ArgumentConversion:
    """The conversion of one run-time argument."""

    def __init__(
        self, name: str, device: torch.device, parameter: TensorParameter, signless: bool, annotatable: bool = False
    ):
        self.name = name
        self.annotatable = annotatable
        """Whether the argument is a parameter of a Python function, which may have an annotation."""
        self.device = device
        self.parameter = parameter
        self.dtype: DType = parameter.type.dtype
        self.torch_dtype = self.dtype.torch
        self.shape = torch.Size(parameter.type.shape) if parameter.type.is_static else tuple(parameter.type.shape)
        """What a tensor's shape has to be; an unknown size fits all."""
        view = view_of(self.dtype, signless)
        self.view = _flat(view) if parameter.is_memory else view
        self.has_warned = False

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensor = value
        elif is_other_array(value):
            raise KernelTypeError(
                f"{self.name}(): {self.parameter.name!r} is a {type(value).__name__}, which has rules of its own",
                help="pass numpy.asarray(…)",
            )
        elif isinstance(value, np.generic) and not self.shape and value.dtype != self.dtype.numpy:
            tensor = self.scalar(value.item())
        elif isinstance(value, (np.ndarray, np.generic)):
            tensor = self.of_array(np.asarray(value))
        elif not self.shape and isinstance(value, (bool, int, float, complex)):
            tensor = self.scalar(value)
        else:
            raise self.mismatch(value)
        if tensor.dtype != self.torch_dtype or not self.admits(tensor):
            raise self.mismatch(value)
        if tensor.requires_grad and torch.is_grad_enabled():
            raise KernelTypeError(
                f"{self.name}(): {self.parameter.name!r} requires a gradient, which kernels do not compute",
                help="pass tensor.detach(), or call the kernel under torch.no_grad()",
            )
        if tensor.device.type != self.device.type:
            tensor = self.moved(value, tensor)
        if tensor.layout is not torch.strided:
            raise KernelTypeError(
                f"{self.name}(): {self.parameter.name!r} has layout {tensor.layout}", help="pass tensor.to_dense()"
            )
        tensor = self.settled(tensor)
        return tensor if self.view is None else self.view(tensor)

    def admits(self, tensor: torch.Tensor) -> bool:
        """Return whether the kernel takes a tensor of this shape; raises `ArgumentMismatchError` for a pointer's."""
        if not self.parameter.is_memory:
            return tensor.shape == self.shape or admits(self.shape, tensor.shape)
        if not is_settled(tensor):
            raise self.not_in_order()
        return True

    def not_in_order(self) -> ArgumentMismatchError:
        return ArgumentMismatchError(
            f"{self.name}(): {self.parameter.name!r} is a pointer, and this argument is not contiguous in memory",
            help="pass a contiguous copy, or annotate it with mt.Tensor",
        )

    def settled(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor whose memory holds the values as the kernel reads them: a copy if it does not."""
        if self.parameter.strides is not None:
            return self.strided(tensor)
        if is_settled(tensor):
            return tensor
        self.warn(has_memory=not tensor.is_neg() and not tensor.is_conj())
        return tensor.resolve_conj().resolve_neg().contiguous()

    def strided(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor that is read where it lies; raises `ArgumentMismatchError` for strides not compiled for."""
        if tensor.is_neg() or tensor.is_conj():
            self.warn(has_memory=False)
            tensor = tensor.resolve_conj().resolve_neg()
        wanted = self.parameter.strides or ()
        pairs = list(zip(tensor.shape, tensor.stride(), wanted, strict=True))
        if all(stride == fixed or fixed is None for _, stride, fixed in pairs):
            return tensor
        if any(fixed not in (None, stride) and size > 1 for size, stride, fixed in pairs) and tensor.numel():
            raise ArgumentMismatchError(
                f"{self.name}(): {self.parameter.name!r} was compiled for the strides "
                f"{['dyn' if fixed is None else fixed for fixed in wanted]}, got {list(tensor.stride())}",
                help="annotate strides of run time with dyn: mt.StridedTensor[[…], [dyn, dyn], …]",
            )
        # The stride of an axis with one element says nothing.
        return tensor.as_strided(tensor.shape, [stride if fixed is None else fixed for _, stride, fixed in pairs])

    def of_array(self, array: np.ndarray) -> torch.Tensor:
        """Return an array as a tensor; raises `KernelTypeError` for byte orders and dtypes that torch lacks."""
        if self.parameter.is_memory and not array.flags.c_contiguous:
            raise self.not_in_order()
        if self.parameter.strides is not None:
            if any(stride < 0 or stride % array.itemsize for stride in array.strides):
                raise ArgumentMismatchError(
                    f"{self.name}(): {self.parameter.name!r} has strides that are negative or between elements",
                    help="pass a copy",
                )
            return strided_as_torch(array)
        try:
            return as_torch(array, lambda: self.warn(has_memory=all(stride >= 0 for stride in array.strides)))
        except (TypeError, ValueError):
            help_text = f"pass array.astype({self.dtype.name!r})" if array.dtype.kind in "biufc" else None
            raise KernelTypeError(
                f"{self.name}(): {self.parameter.name!r} is an array of dtype {array.dtype.str!r}, which no tensor has",
                help=help_text,
            ) from None

    def bound_tensor(self, params: Mapping[str, object]) -> Any:
        """Return a bound tensor in the form that the executable takes."""
        if (value := params.get(self.parameter.name)) is None:
            raise ArgumentMismatchError(
                f"{self.name}() is bound to {self.parameter.name!r}, a {self.parameter.type} that is not here",
                help=f"give it: mt.resume(…, params={{{self.parameter.name!r}: tensor}})",
            )
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise DeviceError(
                f"{self.name}() was compiled for cuda, and there is no CUDA device here",
                help="the source is in kernel.ir['cuda']",
            )
        tensor = as_torch(value) if isinstance(value, np.ndarray) else value
        with torch.no_grad():
            return self(tensor.detach().contiguous().to(self.device))

    def scalar(self, value: bool | int | float | complex) -> Any:
        """Return a number as a rank-0 tensor; raises `ArgumentMismatchError` if the dtype cannot hold it."""
        # torch would drop the fraction, or convert any number to True.
        if not isinstance(value, _NUMBERS.get(self.dtype.python, (bool, int, float, complex))):
            raise self.mismatch(value)
        try:
            return torch.tensor(value, dtype=self.torch_dtype, device=self.device)
        except (RuntimeError, OverflowError, ValueError):
            raise self.mismatch(value) from None

    def mismatch(self, value: object) -> ArgumentMismatchError:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            shown = shown_type(value)
        else:
            shown = f"{type(value).__name__} {value!r}"
        return ArgumentMismatchError(
            f"{self.name}(): {self.parameter.name!r} was compiled for {self.parameter.type}, got {shown}"
        )

    def moved(self, value: object, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy on the kernel's device of what has none of its own: NumPy's values, and tensors of rank 0.

        Raises `DeviceError` for other tensors, as torch does, and without a device.
        """
        has_device = isinstance(value, torch.Tensor) and (bool(tensor.shape) or tensor.device.type != "cpu")
        if has_device or (self.device.type == "cuda" and not torch.cuda.is_available()):
            raise self.wrong_device(tensor)
        return tensor.to(self.device)

    def wrong_device(self, tensor: torch.Tensor) -> DeviceError:
        device = self.device.type
        other = f", or compile for target={tensor.device.type!r}" if tensor.device.type in ("cpu", "cuda") else ""
        help_text = f"move it with .to({device!r}){other}"
        if device == "cuda" and not torch.cuda.is_available():
            help_text = "no CUDA device is at hand here: the source is in kernel.ir['cuda']"
        return DeviceError(
            f"{self.name}() was compiled for {device}, and {self.parameter.name!r} is on {tensor.device}",
            help=help_text,
        )

    def warn(self, *, has_memory: bool) -> None:
        """Warn once per kernel and parameter that a call copies; `has_memory` where a kernel could read it in place."""
        if self.has_warned:
            return
        self.has_warned = True
        frame, help_text = users_frame(), ""
        if has_memory and self.annotatable:
            help_text = f"; {annotated(self.parameter, {}, strided=True)} to read it where it lies"
        # Without a registry: Python would show the text once per line, and kernels may have one name.
        warnings.warn_explicit(
            f"{self.name}(): {self.parameter.name!r} is not contiguous and is copied at each call{help_text}",
            NonContiguousWarning, frame.f_code.co_filename, frame.f_lineno,
        )  # fmt: skip


def _flat(view: Callable[[torch.Tensor], torch.Tensor] | None) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the view of a pointer's memory: its elements along one axis."""
    return lambda tensor: tensor.view(-1) if view is None else view(tensor.view(-1))
