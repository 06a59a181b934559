"""A kernel of a torch module, called like the module: with its arguments, results and writes.

Written arguments may share memory with no others: the module was exported on that assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from mlirtri.calls.arrays import as_array, as_torch
from mlirtri.calls.short_calls import Call
from mlirtri.calls.updates import share_elements, why_not_writable
from mlirtri.errors import ArgumentMismatchError, KernelError
from mlirtri.kernels.kernel import Kernel
from mlirtri.language.arguments import shown_type
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.lowering.runtime.stored_tensors import read_tensors, restored, write_tensors
from mlirtri.programs.torch_programs.calling_convention import Calling, Returned
from mlirtri.programs.torch_programs.calling_json import calling_json, calling_of_json
from mlirtri.programs.torch_programs.flat_calls import flat_call

HELD = "held.npz"
"""The file of a saved kernel with the module's tensors that only a call needs."""


class TorchKernel(Kernel):
    """A compiled module."""

    calling: Calling
    held: dict[str, torch.Tensor]
    """The module's tensors: those that the function is bound to, and those that only a call needs."""

    def rebind(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Use these weights from the next call on."""
        self.held.update(tensors)
        self.params.update({name: tensor for name, tensor in tensors.items() if name in self.params})
        self._runner = None
        self.__call__ = self._first_call
        self.__dict__.pop("_owners", None)

    def saved(self, folder: Path) -> dict[str, Any]:
        others = {name: tensor for name, tensor in self.held.items() if name not in self.params}
        write_tensors(folder / HELD, dict(enumerate(others.values())))
        dtypes = [[name, str(tensor.dtype).removeprefix("torch.")] for name, tensor in others.items()]
        return {**calling_json(self.calling), "held": dtypes}

    def restore(self, facts: dict[str, Any], folder: Path) -> None:
        arrays = read_tensors(folder / HELD)
        others = {name: restored(arrays[number], dtype) for number, (name, dtype) in enumerate(facts["held"])}
        self.calling, self.held = calling_of_json(facts), {**others, **self.params}

    def _first_call(self, /, *arguments: Any, **keywords: Any) -> Any:
        result = self._general_call(*arguments, **keywords)
        runner = self.runner
        call = flat_call(self.calling, runner, self._general_call)
        self.__call__ = call if runner.prepared is runner.bound else self._watching(call)
        if self._runner is not runner:
            # Another thread has bound other weights.
            self.__call__ = self._first_call
        return result

    def _watching(self, call: Call) -> Call:
        """Return the call that looks first whether a weight, of which it has a copy, was written in the meantime."""
        watch = WeightWatch([weight for weight in self.params.values() if isinstance(weight, torch.Tensor)])

        def watched(*arguments: Any, **keywords: Any) -> Any:
            if watch.is_changed():
                self.rebind({})
                return self._first_call(*arguments, **keywords)
            return call(*arguments, **keywords)

        return watched

    def _general_call(self, /, *arguments: Any, **keywords: Any) -> Any:
        try:
            return self._call(arguments, keywords)
        except KernelError as error:
            hide_frames(error)
            raise

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if "out" in kwargs and not self.calling.takes("out"):
            return self._into(kwargs["out"], args, {name: value for name, value in kwargs.items() if name != "out"})
        leaves = self.calling.flattened(self.name, args, kwargs)
        return pytree.tree_unflatten(self.on_leaves(leaves), self.calling.results)

    def _into(self, out: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call, and copy the results into `out`, of their structure or a tuple: arguments may be in it, no weights."""
        targets, structure = pytree.tree_flatten(out)
        self._check_targets(targets, type(out) is tuple or structure == self.calling.results)
        results = self.on_leaves(self.calling.flattened(self.name, args, kwargs))
        for number, (target, result) in enumerate(zip(targets, results, strict=True)):
            wanted, given = shown_type(result), shown_type(target)
            if wanted != given:
                raise ArgumentMismatchError(f"{self.name}(): out of result {number} has to be {wanted}, got {given}")
        with torch.no_grad():
            for target, result in zip(targets, results, strict=True):
                _settled(as_torch(target) if isinstance(target, np.ndarray) else target).copy_(_as_tensor(result))
        return pytree.tree_unflatten(targets, self.calling.results)

    def _check_targets(self, targets: list[Any], fits: bool) -> None:
        """Raise `ArgumentMismatchError` for what results cannot be written into, before anything is computed."""
        calling = self.calling
        if calling.input_updates or calling.buffer_updates or any(leaf.kind != "result" for leaf in calling.returned):
            problem = "a module that writes, or returns more than tensors that it computes, takes no out"
            raise ArgumentMismatchError(f"{self.name}(): {problem}", help="write out.copy_(program(...))")
        fits = fits and len(targets) == calling.results.num_leaves
        if not fits or not all(isinstance(each, (torch.Tensor, np.ndarray)) for each in targets):
            raise ArgumentMismatchError(
                f"{self.name}(): out has to be of the results' structure, with a tensor or an array for each",
                help=f"the results are {pytree.tree_unflatten(['·'] * calling.results.num_leaves, calling.results)}",
            )
        for number, target in enumerate(targets):
            if problem := why_not_writable(_settled(target)):
                raise ArgumentMismatchError(f"{self.name}(): out of result {number} {problem}")
            if any(_meet(target, other) for other in targets[:number]):
                raise ArgumentMismatchError(f"{self.name}(): two results have one out, or share memory in it")
            for name in self._owners.get(_memory(target), ()):
                if _meet(target, self.held[name]):
                    raise ArgumentMismatchError(f"{self.name}(): out of result {number} is the module's {name!r}")

    def on_leaves(self, leaves: list[Any]) -> list[Any]:
        """Call with flat arguments, and return flat results."""
        pairs = zip(self.calling.inputs, leaves, strict=True)
        inputs = [parameter.converted(self.name, leaf) for parameter, leaf in pairs if not parameter.is_constant]
        inputs += [draw.tensor(leaves) for draw in self.calling.draws]
        if self.calling.input_updates or self.calling.buffer_updates:
            self._check_written(leaves)
        results = self._results(inputs)
        self._write(leaves, results)
        return [self._part(leaf, leaves, results) for leaf in self.calling.returned]

    def _results(self, inputs: list[Any]) -> tuple[Any, ...]:
        result = self.runner(inputs)
        if result is None:
            return ()
        return result if isinstance(result, tuple) else (result,)

    def _check_written(self, leaves: list[Any]) -> None:
        names = [parameter.name for parameter in self.calling.inputs]
        for index in self.calling.input_updates:
            if problem := why_not_writable(_settled(leaves[index])):
                raise ArgumentMismatchError(
                    f"{self.name}(): {names[index]!r}, which the module writes, {problem}", help="pass a copy"
                )
            for other, leaf in enumerate(leaves):
                if other != index and _meet(leaves[index], leaf):
                    raise _shared(self.name, names[index], names[other])
        for index, leaf in enumerate(leaves):
            for name in self._owners.get(_memory(leaf), ()):
                is_written = index in self.calling.input_updates or name in self.calling.buffer_updates
                if is_written and _meet(leaf, self.held[name]):
                    raise _shared(self.name, names[index], name)

    @cached_property
    def _owners(self) -> dict[int, list[str]]:
        owners: dict[int, list[str]] = {}
        for name, tensor in self.held.items():
            if pointer := _memory(tensor):
                owners.setdefault(pointer, []).append(name)
        return owners

    def _write(self, leaves: list[Any], results: tuple[Any, ...]) -> None:
        with torch.no_grad():
            for name, number in self.calling.buffer_updates.items():
                self.held[name].copy_(_as_tensor(results[number]))
                if not self.held[name].is_contiguous() or self.held[name].device.type != self.runner.device.type:
                    # The runner works on a copy.
                    self._runner = None
            for position, number in self.calling.input_updates.items():
                target = leaves[position]
                if isinstance(target, torch.Tensor):
                    target.copy_(results[number])
                else:
                    result = results[number]
                    target[...] = as_array(result) if isinstance(result, torch.Tensor) else result

    def _part(self, returned: Returned, leaves: list[Any], results: tuple[Any, ...]) -> Any:
        if returned.kind == "result":
            return results[returned.what]
        if returned.kind == "complex32":
            return _as_tensor(results[returned.what]).to(torch.complex32)
        if returned.kind == "scalar":
            value = results[returned.what]
            return value.item() if isinstance(value, (torch.Tensor, np.generic)) else value
        if returned.kind == "input":
            return leaves[returned.what]
        return self.held[returned.what] if returned.kind == "param" else returned.what


def _as_tensor(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else as_torch(np.asarray(result))


def _shared(kernel: str, first: str, other: str) -> ArgumentMismatchError:
    return ArgumentMismatchError(
        f"{kernel}(): {first!r} shares memory with {other!r}, and the module writes there", help="pass a copy of one"
    )


def _settled(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach() if leaf.layout is torch.strided else torch.empty(0)


def _memory(leaf: Any) -> int:
    if isinstance(leaf, np.ndarray):
        return leaf.__array_interface__["data"][0]
    return _settled(leaf).untyped_storage().data_ptr() if isinstance(leaf, torch.Tensor) else 0


def _meet(a: Any, b: Any) -> bool:
    try:
        return share_elements(_settled(a), _settled(b))
    except (TypeError, RuntimeError):
        # Strided tensors of a dtype, or with a lazy negation, that NumPy lacks.
        return _memory(a) == _memory(b) != 0


SAMPLES = 64
"""Words of four bytes that are compared of each weight, about 0.3 µs."""


class WeightWatch:
    """Find out, at each call, whether a weight was written of which a kernel has a packed copy.

    torch counts writes by its own operations. Writes through ``.data``, NumPy or another process change no count: some
    bytes of each are compared as well, which finds a write of a whole tensor, and may miss one of a few elements.
    """

    def __init__(self, weights: Iterable[torch.Tensor]):
        self._counted = [weight for weight in weights if not weight.is_inference()]
        self._versions = [weight._version for weight in self._counted]
        self._samples = [sample for weight in weights if (sample := _sample(weight)) is not None]
        self._words = [sample.tobytes() for sample in self._samples]

    def is_changed(self) -> bool:
        """Return whether torch has counted a write since then, or a sampled element differs."""
        if [weight._version for weight in self._counted] != self._versions:
            return True
        return [sample.tobytes() for sample in self._samples] != self._words


def _sample(weight: torch.Tensor) -> np.ndarray | None:
    """Return a view of some words of a tensor's memory; None for what is not in main memory."""
    if weight.device.type != "cpu" or weight.layout != torch.strided or not weight.numel():
        return None
    storage = torch.empty(0, dtype=torch.uint8).set_(weight.detach().untyped_storage())  # type: ignore[arg-type]
    first = weight.storage_offset() * weight.element_size()
    last = first + (1 + sum((n - 1) * step for n, step in zip(weight.shape, weight.stride(), strict=True))) * (
        weight.element_size()
    )
    memory = storage.numpy()[first:last]
    words = memory[: len(memory) // 4 * 4].view(np.uint32) if len(memory) >= 4 and first % 4 == 0 else memory
    # An odd step: a power of two would look at one column of a matrix.
    step = max(1, len(words) // SAMPLES) | 1
    return words[::step][:SAMPLES]
