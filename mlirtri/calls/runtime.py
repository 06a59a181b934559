"""Run an executable on the user's tensors: torch in, torch out; NumPy in, NumPy out; contiguous data is not copied."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mlirtri import settings
from mlirtri.calls.argument_conversion import ArgumentConversion
from mlirtri.calls.arrays import as_array, as_torch, of_dlpack, unviewed, view_of
from mlirtri.calls.callee import Callee
from mlirtri.calls.dynamic_shapes import DynamicShapes
from mlirtri.calls.short_calls import Call, keep_frames, short_call
from mlirtri.calls.updates import Updates, overlap
from mlirtri.dialect.base.dtypes import find_stored
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import ArgumentMismatchError, KernelError, KernelMemoryError, KernelTypeError
from mlirtri.language.arguments import is_dlpack, shown_type
from mlirtri.lowering.core.forks import renewed
from mlirtri.lowering.core.interface import Interface, Leaf, PrintLog, PrintSite, like, parts_of
from mlirtri.lowering.core.stage import Executable
from mlirtri.lowering.runtime.memory import empty
from mlirtri.lowering.runtime.red_zones import launch_between_zones

_STATES = renewed(threading.Lock())
"""Kernels of one program share its states, so that one lock is for all."""


class Runner:
    """A kernel's executable, called with Python's tensors. Thread-safe."""

    def __init__(
        self,
        name: str,
        interface: Interface,
        executable: Executable,
        semantics: str,
        signless: bool,
        cuda: bool,
        params: Mapping[str, Any] | None = None,
        annotatable: Collection[str] = (),
    ):
        self.name = name
        self.interface = interface
        self.executable = executable
        self.returns_arrays = semantics == "numpy"
        """What a kernel without tensor arguments returns; the others return what they are called with."""
        self.device = torch.device("cuda" if cuda else "cpu")
        self.conversions = [
            ArgumentConversion(name, self.device, parameter, signless, parameter.name in annotatable)
            for parameter in interface.parameters
        ]
        self.bound = tuple(
            ArgumentConversion(name, self.device, leaf, signless).bound_tensor(params or {}) for leaf in interface.bound
        )
        """The tensors that the kernel is bound to."""
        prepare = getattr(executable, "prepared", None)
        self.prepared = prepare(self.bound) if prepare is not None and self.bound else self.bound
        """What the executable takes after the arguments: the same tensors at every call."""
        self.outputs = [(tuple(leaf.shape), leaf.dtype.torch) for leaf in interface.leaves]
        self.sizes = DynamicShapes(name, interface, interface.sizes) if interface.sizes is not None else None
        self.views = [view_of(leaf.dtype, signless) for leaf in interface.leaves]
        self.has_views = any(view is not None for view in self.views)
        self.updates = Updates(interface, getattr(executable, "updates_in_place", False))
        self.callee = Callee(name, interface, executable, semantics, signless, lambda: self.prepared, self.device.type)
        self.has_red_zones: bool = settings.get("MLIRTRI_RED_ZONES")

    def short_call(
        self, general: Call, install: Callable[[Call], None], hide: Callable[[KernelError], None] = keep_frames
    ) -> Call:
        """Return `general` made faster for plain arguments, if the executable allows it; else `general` itself.

        `install` gets a faster one whenever there is one; `hide` removes our frames from an error.
        """
        return short_call(self.callee, general, install, hide)

    def __call__(self, arguments: Sequence[object], out: Any = None) -> Any:
        if any(map(is_dlpack, arguments)):
            self.updates.check_owners(self.name, arguments)
            arguments = list(map(of_dlpack, arguments))
        inputs = [convert(argument) for convert, argument in zip(self.conversions, arguments, strict=True)]
        if self.updates:
            inputs = self.updates.checked(self.name, arguments, inputs)
        device = self.device if self.device.type == "cpu" else (inputs[0].device if inputs else self.device)
        if out is not None:
            return self.into(out, arguments, inputs, device)
        arrays = self.gives_arrays(arguments)
        results = self.allocated(inputs, device, arrays)
        self.launch(inputs, results)
        self.updates.copy_back(arguments, results)
        return self.rebuild(self.interface.tree, results, arrays)

    def allocated(self, inputs: list[torch.Tensor], device: torch.device, arrays: bool = False) -> list[torch.Tensor]:
        """Allocate every result; one that is written in place is its argument."""
        results: list[Any] = []
        for index, (shape, dtype) in enumerate(self.shaped(inputs)):
            parameter = self.updates.in_place.get(index)
            if parameter is None and arrays:
                results.append(self.allocate(empty, shape, dtype, device=device))
            elif parameter is None:
                results.append(self.allocate(torch.empty, shape, dtype, device=device))
            else:
                results.append(unviewed(inputs[parameter], dtype))
        return results

    def allocate(
        self, make: Callable[..., torch.Tensor], shape: tuple[int, ...], dtype: torch.dtype, **where: object
    ) -> torch.Tensor:
        """Allocate a tensor; raises `KernelMemoryError`."""
        try:
            return make(shape, dtype=dtype, **where)
        except (MemoryError, RuntimeError, ValueError, OverflowError) as error:
            raise _no_memory(self.name, shape, dtype, error) from None

    def shaped(self, inputs: Sequence[torch.Tensor]) -> Sequence[tuple[tuple[int, ...], torch.dtype]]:
        """Return shape and dtype of every result for these arguments."""
        if self.sizes is None:
            return self.outputs
        shapes = self.sizes.results((*inputs, *self.bound))
        return [(shape, dtype) for shape, (_, dtype) in zip(shapes, self.outputs, strict=True)]

    def gives_arrays(self, arguments: Sequence[object]) -> bool:
        """Return whether results are NumPy arrays: if no argument is a torch tensor and one is an array."""
        if any(isinstance(argument, torch.Tensor) for argument in arguments):
            return False
        return self.returns_arrays or any(isinstance(argument, (np.ndarray, np.generic)) for argument in arguments)

    def launch(self, inputs: list[torch.Tensor], results: list[torch.Tensor]) -> None:
        """Launch the executable on its views of the results, then evaluate the run-time checks."""
        viewed = results
        if self.has_views:
            viewed = [r if view is None else view(r) for r, view in zip(results, self.views, strict=True)]
        if self.interface.states:
            self.run_with_states(inputs, viewed)
        else:
            self.run(inputs, viewed)
        if self.interface.log is not None:
            _print_log(self.interface.log, results)
        for check in self.interface.checks:
            if results[check.index].item() == check.code:
                raise check.error(check.message, check.span)

    def run_with_states(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Launch and store the new states, one call at a time, as each call reads its predecessor's states."""
        with _STATES:
            self.run(inputs, outputs)
            for bound, result in self.interface.states:
                self.bound[bound].copy_(outputs[result])

    def run(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Launch the executable; raises `KernelTypeError` for tensors without memory (of vmap, or fake)."""
        try:
            if self.has_red_zones:
                names = [parameter.name for parameter in self.interface.parameters]
                names += [f"the weight {number}" for number in range(len(self.prepared))]
                launch_between_zones(self.name, self.executable, (*inputs, *self.prepared), outputs, names)
            else:
                self.executable.launch((*inputs, *self.prepared) if self.prepared else inputs, outputs)
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, KernelMemoryError):
                raise
            if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
                raise KernelMemoryError(f"{self.name}(): no memory for a temporary of the kernel") from None
            if "data pointer" not in str(error) and "storage" not in str(error):
                raise
            raise KernelTypeError(
                f"{self.name}() was called with a tensor that has no memory (of vmap, or fake)",
                help="call the kernel with plain tensors, outside of torch.vmap and of tracing",
            ) from None

    def rebuild(self, tree: object, results: list[torch.Tensor], arrays: bool) -> Any:
        """Return Python's return value, nested as `tree`, from the flat results."""
        if isinstance(tree, Leaf):
            result = results[tree.index]
            for axis, count in tree.counts:
                result = result.narrow(axis, 0, int(results[count].item()))
            if tree.index in self.interface.numbers:
                return result.item()
            return as_array(result, tree.is_array) if arrays else result
        return None if tree is None else like(tree, [self.rebuild(part, results, arrays) for part in parts_of(tree)])

    def into(self, out: object, arguments: Sequence[object], inputs: list[torch.Tensor], device: torch.device) -> Any:
        """Write results into the caller's tensors and return those."""
        arrays = self.gives_arrays(arguments)
        outputs = _flatten(out)
        leaves = [leaf.index for leaf in _leaves(self.interface.tree)]
        if len(outputs) != len(leaves):
            raise ArgumentMismatchError(f"{self.name}(): out has {len(outputs)} tensors for {len(leaves)} results")
        shapes = [shape for shape, _ in self.shaped(inputs)]
        targets = [
            self._checked_output(target, index, shapes[index], arrays)
            for index, target in zip(leaves, outputs, strict=True)
        ]
        if any(overlap(a, b) for position, a in enumerate(targets) for b in targets[:position]):
            raise ArgumentMismatchError(f"{self.name}(): the tensors of out share memory")
        results = self.allocated(inputs, device)
        late: list[tuple[Any, Any]] = []
        for index, target in zip(leaves, targets, strict=True):
            others = (*inputs, *self.bound, *results)
            is_there = target.device.type == self.device.type and target.is_contiguous()
            if is_there and not any(overlap(target, other) for other in others):
                results[index] = target
            else:
                late.append((target, results[index]))
        self.launch(inputs, results)
        self.updates.copy_back(arguments, results)
        for target, result in late:
            target.copy_(result)
        return out

    def _checked_output(self, target: Any, index: int, shape: tuple[int, ...], arrays: bool) -> Any:
        leaf = self.interface.leaves[index].with_shape(shape)
        kind = np.ndarray if arrays else torch.Tensor
        if not isinstance(target, kind) or tuple(target.shape) != leaf.shape or find_stored(target.dtype) != leaf.dtype:
            shown = shown_type(target) if hasattr(target, "shape") else ""
            raise ArgumentMismatchError(
                f"{self.name}(): out has to be a {kind.__name__} {leaf}, got {type(target).__name__} {shown}".rstrip()
            )
        if isinstance(target, np.ndarray) and (
            not target.flags.writeable or any(stride < 0 for stride in target.strides)
        ):
            raise ArgumentMismatchError(f"{self.name}(): out is read-only, or has a negative stride")
        tensor = as_torch(target) if isinstance(target, np.ndarray) else target
        if tensor is target and tensor.device.type != self.device.type:
            raise ArgumentMismatchError(f"{self.name}(): out is on {tensor.device}, the kernel on {self.device}")
        if tensor.requires_grad:
            raise ArgumentMismatchError(f"{self.name}(): out requires a gradient; pass out.detach()")
        if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
            raise ArgumentMismatchError(f"{self.name}(): several elements of out share memory, as expand() makes them")
        return tensor


def _flatten(tree: Any) -> list[Any]:
    if not isinstance(tree, (tuple, list, dict)):
        return [tree]
    return [leaf for part in parts_of(tree) for leaf in _flatten(part)]


def _leaves(tree: Any) -> list[Leaf]:
    return [leaf for leaf in _flatten(tree) if isinstance(leaf, Leaf)]


_NO_MEMORY = ("bad_alloc", "allocate memory", "out of memory")
"""What C++, torch and CUDA call it."""


def _no_memory(name: str, shape: Any, dtype: torch.dtype, error: BaseException) -> KernelMemoryError:
    reason = (str(error).splitlines() or ["no memory"])[0]
    return KernelMemoryError(f"{name}(): no memory for a result {dtype} {list(shape)}: {reason}")


def _print_log(log: PrintLog, results: Sequence[Any]) -> None:
    rows, count = results[log.index].cpu().numpy(), int(results[log.count].item())
    for row in rows[: min(count, len(rows))]:
        number, *values = row
        print(_line(log.sites[int(number)], iter(values)))
    if count > len(rows):
        print(f"… and {count - len(rows)} more prints")


def _line(site: PrintSite, values: Iterator[float]) -> str:
    return " ".join(part if isinstance(part, str) else _shown_value(part, values) for part in site.parts)


def _shown_value(part: TensorType, values: Iterator[float]) -> str:
    numbers = [next(values) for _ in range(part.size or 0)]
    array = np.array(numbers, np.float64).astype(part.dtype.numpy).reshape(part.shape)
    return str(array) if part.rank else str(array.item())
