"""Copy what a kernel wrote back into the caller's arguments, whatever their strides.

A written argument may share elements with no other one: the kernel was compiled on that assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from mlirtri.calls.call_memory import may_overlap
from mlirtri.errors import ArgumentMismatchError
from mlirtri.language.arguments import is_dlpack
from mlirtri.lowering.core.interface import Interface

EXACT_WORK = 10_000
"""How long NumPy may look for a common element of two strided arrays before they count as overlapping."""


class Updates:
    """The written arguments of one kernel. False if there are none."""

    def __init__(self, interface: Interface, in_place: bool):
        self.results = dict(interface.updates)
        """Number of a written parameter to the result that is its new content."""
        self.ordered = frozenset(interface.ordered)
        """Parameters whose order in memory decides what is a view."""
        self.names = [parameter.name for parameter in interface.parameters]
        self.strided = [parameter.strides is not None for parameter in interface.parameters]
        self.in_place = {result: parameter for parameter, result in interface.updates} if in_place else {}
        """Results that the executable writes into the argument itself, with the parameter's number."""

    def __bool__(self) -> bool:
        return bool(self.results or self.ordered)

    def checked(self, name: str, arguments: Sequence[object], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the tensors to work on; raises `ArgumentMismatchError`."""
        for number in self.results:
            self._check_writable(name, number, arguments[number])
            for other, argument in enumerate(arguments):
                if other != number and share_elements(arguments[number], argument):
                    raise ArgumentMismatchError(
                        f"{name}(): {self.names[number]!r}, which the kernel writes, shares memory with "
                        f"{self.names[other]!r}",
                        help="pass a copy of one of them",
                    )
        for number in self.ordered - self.results.keys():
            if not _is_in_order(arguments[number]):
                raise ArgumentMismatchError(
                    f"{name}(): an array that the kernel makes is laid out as {self.names[number]!r}, which is not in "
                    "row-major order, and is written beside a view of it in another shape",
                    help="pass a copy in row-major order, as np.ascontiguousarray gives",
                )
        return inputs

    def check_owners(self, name: str, arguments: Sequence[object]) -> None:
        """Raise `ArgumentMismatchError` for a written tensor of another library, whose tensors may be immutable."""
        for number in self.results:
            if is_dlpack(argument := arguments[number]):
                raise ArgumentMismatchError(
                    f"{name}(): {self.names[number]!r}, which the kernel writes, is a {type(argument).__name__}, "
                    "and its library may forbid writes",
                    help="if it allows them, pass torch.from_dlpack(…)",
                )

    def _check_writable(self, name: str, number: int, argument: Any) -> None:
        problem = why_not_writable(argument)
        if problem is None and self.strided[number] and _interleaves(argument):
            problem = "may have several elements at one address: an axis steps over fewer elements than others span"
        if problem is None and number in self.ordered and not _lies_in_order(argument):
            problem = "and of which it has a view in another shape, is not contiguous: NumPy would copy it there"
        if problem:
            raise ArgumentMismatchError(
                f"{name}(): {self.names[number]!r}, which the kernel writes, {problem}", help="pass a copy"
            )

    def copy_back(self, arguments: Sequence[object], results: Sequence[torch.Tensor]) -> None:
        """Copy results that were written elsewhere into the caller's memory, after the call."""
        for number, result in self.results.items():
            content = results[result]
            target = as_target(arguments[number])
            is_content = target is not None and target.data_ptr() == content.data_ptr()
            # What was written where it lies has the strides of the argument.
            if is_content and (target.is_contiguous() or target.stride() == content.stride()):
                continue
            _copy(arguments[number], content.view(tuple(arguments[number].shape)))


def why_not_writable(argument: object) -> str | None:
    """Return why an argument cannot be written, as the end of a sentence; None if it can."""
    if not isinstance(argument, (np.ndarray, torch.Tensor)):
        return f"is a {type(argument).__name__}, which has no memory to write"
    is_array = isinstance(argument, np.ndarray)
    strides = argument.strides if is_array else argument.stride()
    is_broadcast = any(stride == 0 and size > 1 for stride, size in zip(strides, argument.shape, strict=True))
    # NumPy gives copies of empty arrays strides of 0.
    if is_broadcast and 0 not in argument.shape:
        return "has several elements at one address, as broadcasting and expand() make them"
    return "is read-only" if is_array and not argument.flags.writeable else None


def _interleaves(argument: Any) -> bool:
    strides = argument.strides if isinstance(argument, np.ndarray) else argument.stride()
    return may_overlap(argument.shape, strides, argument.itemsize if isinstance(argument, np.ndarray) else 1)


def _lies_in_order(argument: Any) -> bool:
    return argument.flags.c_contiguous if isinstance(argument, np.ndarray) else argument.is_contiguous()


def _is_in_order(argument: Any) -> bool:
    """Return whether the strides do not grow from axis to axis: new arrays that follow them are row-major."""
    if not isinstance(argument, (np.ndarray, torch.Tensor)) or _lies_in_order(argument):
        return True
    strides = argument.strides if isinstance(argument, np.ndarray) else argument.stride()
    kept = [abs(stride) for stride, size in zip(strides, argument.shape, strict=True) if size != 1]
    return all(first >= second for first, second in pairwise(kept))


def as_target(argument: object) -> torch.Tensor | None:
    """Return a tensor of the caller's memory; None if torch cannot view it."""
    if isinstance(argument, torch.Tensor):
        return argument
    try:
        return torch.from_numpy(argument)
    except (TypeError, ValueError):
        return None


def _copy(argument: Any, content: torch.Tensor) -> None:
    if isinstance(argument, torch.Tensor):
        argument.copy_(content.view(argument.dtype) if content.dtype != argument.dtype else content)
        return
    content = content.cpu()
    array = content.view(torch.int16).numpy() if content.dtype == torch.bfloat16 else content.numpy()
    argument[...] = array.view(argument.dtype) if array.dtype != argument.dtype else array


def share_elements(a: object, b: object) -> bool:
    """Return whether two arguments share an element; True if that takes too long to decide."""
    if type(a) is torch.Tensor and type(b) is torch.Tensor:
        if a.is_contiguous() and b.is_contiguous():
            return overlap(a, b)
        if a.device.type != "cpu" or b.device.type != "cpu":
            return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    if any(isinstance(argument, torch.Tensor) and argument.device.type != "cpu" for argument in (a, b)):
        return False
    arrays = [_as_bytes(argument) for argument in (a, b)]
    if any(array is None for array in arrays) or not np.may_share_memory(*arrays):  # type: ignore[arg-type]
        return False
    try:
        return np.shares_memory(*arrays, max_work=EXACT_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _as_bytes(argument: Any) -> np.ndarray | None:
    if isinstance(argument, torch.Tensor):
        tensor = argument.detach()
        # NumPy has neither bfloat16 nor lazy conjugates.
        tensor = tensor.conj() if tensor.is_conj() else tensor
        return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return argument if isinstance(argument, np.ndarray) else None


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether the memory of two tensors may overlap; `a` is contiguous."""
    if a.numel() == 0 or b.numel() == 0 or a.device != b.device:
        return False
    a_start, b_start = a.data_ptr(), b.data_ptr()
    return a_start < b_start + b.nbytes and b_start < a_start + a.nbytes
