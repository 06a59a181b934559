"""A kernel made from a torch module is called as the module is: its arguments, its results, its effects.

Takes what `torch_graphs.py` found out about the module's signature. Gives `TorchKernel`. Refuses arguments of another
structure than those that the module was exported with, and other values where the export made constants of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from mlirtri.errors import ArgumentMismatchError, KernelError
from mlirtri.kernel import Kernel
from mlirtri.tracebacks import shown_to_user


@dataclass(frozen=True)
class Given:
    """Where one leaf of the arguments goes: into the function, or nowhere."""

    name: str
    is_constant: bool = False
    value: Any = None
    """Of a constant: what the module was exported for."""


@dataclass(frozen=True)
class Returned:
    """Where one leaf of the results comes from."""

    kind: str
    """``result`` or ``scalar`` of the function, ``input``, ``param``, or ``constant``."""
    what: Any
    """Its number, name or value."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that the export left open, as expressions of symbols, and what it assumed of them."""

    expressions: tuple[tuple[int, int, Any], ...] = ()
    """Leaf of the arguments, axis, and the SymPy expression of its size; those that are one symbol come first."""
    ranges: Mapping[Any, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest value of a symbol."""

    def check(self, name: str, given: Sequence[Given], leaves: Sequence[Any]) -> None:
        """Raises `ArgumentMismatchError` for sizes that the exported program is not for."""
        known: dict[Any, int] = {}
        for at, axis, expression in self.expressions:
            size, place = _size(leaves[at], axis), f"axis {axis} of {given[at].name!r}"
            if size is None:
                # Of another rank, which the kernel refuses.
                continue
            wanted = known.setdefault(expression, size) if expression.is_Symbol else int(expression.subs(known))
            if size != wanted:
                raise ArgumentMismatchError(f"{name}(): {place} is {size}, and has to be {expression} = {wanted}")
            low, high = self.ranges.get(expression, (size, size))
            if not low <= size <= high:
                raise ArgumentMismatchError(f"{name}() was exported for {low:g} to {high:g} along {place}, got {size}")


def _size(leaf: Any, axis: int) -> int | None:
    """The size of an axis, or the number itself where the export left a number open."""
    if not isinstance(leaf, torch.Tensor):
        return leaf if isinstance(leaf, int) else None
    return leaf.shape[axis] if axis < leaf.dim() else None


@dataclass(frozen=True)
class Calling:
    """How a module is called."""

    arguments: pytree.TreeSpec
    """Of ``(args, kwargs)``."""
    given: tuple[Given, ...]
    results: pytree.TreeSpec
    returned: tuple[Returned, ...]
    buffer_updates: Mapping[str, int]
    """Buffers that the module writes, with the results that are their new contents."""
    input_updates: Mapping[int, int]
    """The same for leaves of the arguments."""
    persistent: frozenset[str] = frozenset()
    """The parameters and buffers that the module's state dict has."""
    sizes: Sizes = field(default_factory=Sizes)

    def flattened(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of the arguments; raises `ArgumentMismatchError`."""
        leaves, found = pytree.tree_flatten((tuple(args), self._ordered(kwargs)))
        if found != self.arguments:
            raise ArgumentMismatchError(
                f"{name}() was exported for arguments of the structure {_shown(self.arguments)}, got {_shown(found)}",
                help="export the module again with arguments like these",
            )
        for given, leaf in zip(self.given, leaves, strict=True):
            if given.is_constant and not _same(given.value, leaf):
                raise ArgumentMismatchError(
                    f"{name}() was exported for {given.name} = {given.value!r}, got {leaf!r}",
                    help="export the module again: numbers, strings and None are part of the program",
                )
        self.sizes.check(name, self.given, leaves)
        return leaves

    def _ordered(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Keywords in the order of the export, in which their structures are compared."""
        wanted = [key for key in self.arguments.children()[1].context or () if key in kwargs]
        return {key: kwargs[key] for key in (*wanted, *(key for key in kwargs if key not in wanted))}


class TorchKernel(Kernel):
    """A compiled module."""

    calling: Calling
    held: dict[str, torch.Tensor]
    """The module's tensors: those that the function is bound to, and those that only a call needs."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives for these arguments."""
        try:
            return self._call(args, kwargs)
        except KernelError as error:
            raise shown_to_user(error)

    def rebind(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take other weights from the next call on."""
        self.held.update(tensors)
        self.params.update({name: tensor for name, tensor in tensors.items() if name in self.params})
        self._runner = None

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        leaves = self.calling.flattened(self.name, args, kwargs)
        return pytree.tree_unflatten(self.on_leaves(leaves), self.calling.results)

    def on_leaves(self, leaves: list[Any]) -> list[Any]:
        """A call without the structures: the leaves of the results for those of the arguments."""
        inputs = [leaf for given, leaf in zip(self.calling.given, leaves, strict=True) if not given.is_constant]
        results = self._results(inputs)
        self._write(leaves, results)
        return [self._part(each, leaves, results) for each in self.calling.returned]

    def _results(self, inputs: list[Any]) -> tuple[Any, ...]:
        given = self.runner(inputs)
        if given is None:
            return ()
        return given if isinstance(given, tuple) else (given,)

    def _write(self, leaves: list[Any], results: tuple[Any, ...]) -> None:
        """Hand new contents to the buffers and arguments that the module writes."""
        with torch.no_grad():
            for name, number in self.calling.buffer_updates.items():
                self.held[name].copy_(results[number])
                if not self.held[name].is_contiguous() or self.held[name].device.type != self.runner.device.type:
                    # The runner has a copy of it.
                    self._runner = None
            for at, number in self.calling.input_updates.items():
                leaves[at].copy_(results[number])

    def _part(self, returned: Returned, leaves: list[Any], results: tuple[Any, ...]) -> Any:
        if returned.kind == "result":
            return results[returned.what]
        if returned.kind == "scalar":
            value = results[returned.what]
            return value.item() if isinstance(value, torch.Tensor) else value
        if returned.kind == "input":
            return leaves[returned.what]
        return self.held[returned.what] if returned.kind == "param" else returned.what


def _same(wanted: Any, found: Any) -> bool:
    return type(wanted) is type(found) and (wanted == found or (wanted != wanted and found != found))


def _shown(spec: pytree.TreeSpec) -> str:
    args, kwargs = pytree.tree_unflatten(["·"] * spec.num_leaves, spec)
    return ", ".join([*map(str, args), *(f"{name}={value}" for name, value in kwargs.items())]) or "nothing"
