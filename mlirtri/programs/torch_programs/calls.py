"""A kernel made from a torch module is called as the module is: its arguments, its results, its effects.

Takes what `torch_graphs.py` found out about the module's signature. Gives `TorchKernel`. Refuses arguments of another
structure than those that the module was exported with, other values where the export made constants of them, and
written arguments that share memory with others: the module was exported as if none did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from mlirtri.calls.arrays import as_array, as_torch
from mlirtri.calls.updates import share_elements, why_not_writable
from mlirtri.errors import ArgumentMismatchError, KernelError
from mlirtri.kernels.kernel import Kernel, shown_to_user
from mlirtri.programs.torch_programs.flat_calls import flat_call


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
    names: tuple[str, ...] = ()
    """Of the arguments that were given in order at the export, which a call may name."""

    def flattened(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of the arguments; raises `ArgumentMismatchError`."""
        leaves, found = pytree.tree_flatten((tuple(args), self._ordered(kwargs)))
        if found != self.arguments:
            args, kwargs = self._in_order(args, kwargs)
            leaves, found = pytree.tree_flatten((args, self._ordered(kwargs)))
        if found != self.arguments:
            self._refuse_names(name, args, kwargs)
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

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with those that have a name here and had none at the export in their places."""
        placed, named = list(args), dict(kwargs)
        while len(placed) < len(self.names) and self.names[len(placed)] in named:
            placed.append(named.pop(self.names[len(placed)]))
        return tuple(placed), named

    def _refuse_names(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises `ArgumentMismatchError` where arguments are missing, or are more than there are."""
        in_order, by_name = self.arguments.children()
        names = self.names or tuple(f"argument {at}" for at in range(in_order.num_children))
        keywords = list(by_name.context or ())
        left = [*names[len(args) :], *keywords]
        missing = [each for each in left if each not in kwargs]
        unknown = [each for each in kwargs if each not in left]
        if not (missing or unknown or len(args) > len(names)):
            return
        raise ArgumentMismatchError(
            f"{name}() takes {', '.join([*names, *keywords]) or 'no arguments'}"
            + f"; missing {', '.join(missing)}" * bool(missing)
            + f"; not known or given twice: {', '.join(unknown)}" * bool(unknown)
            + f"; got {len(args)} positional arguments" * (len(args) > len(names)),
            help=None
            if missing and not unknown
            else "to pass what the module was exported without, export it with that",
        )

    def _ordered(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Keywords in the order of the export, in which their structures are compared."""
        wanted = [key for key in self.arguments.children()[1].context or () if key in kwargs]
        return {key: kwargs[key] for key in (*wanted, *(key for key in kwargs if key not in wanted))}


class TorchKernel(Kernel):
    """A compiled module."""

    calling: Calling
    held: dict[str, torch.Tensor]
    """The module's tensors: those that the function is bound to, and those that only a call needs."""

    def rebind(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take other weights from the next call on."""
        self.held.update(tensors)
        self.params.update({name: tensor for name, tensor in tensors.items() if name in self.params})
        self._runner = None
        self.__call__ = self._first_call
        self.__dict__.pop("_owners", None)

    def _first_call(self, /, *arguments: Any, **keywords: Any) -> Any:
        result = self._general_call(*arguments, **keywords)
        runner = self.runner
        self.__call__ = flat_call(self.calling, runner, self._general_call)
        if self._runner is not runner:
            # Another thread has bound other weights since.
            self.__call__ = self._first_call
        return result

    def _general_call(self, /, *arguments: Any, **keywords: Any) -> Any:
        try:
            return self._call(arguments, keywords)
        except KernelError as error:
            raise shown_to_user(error)

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        leaves = self.calling.flattened(self.name, args, kwargs)
        return pytree.tree_unflatten(self.on_leaves(leaves), self.calling.results)

    def on_leaves(self, leaves: list[Any]) -> list[Any]:
        """A call without the structures: the leaves of the results for those of the arguments."""
        inputs = [leaf for given, leaf in zip(self.calling.given, leaves, strict=True) if not given.is_constant]
        if self.calling.input_updates or self.calling.buffer_updates:
            self._check_written(leaves)
        results = self._results(inputs)
        self._write(leaves, results)
        return [self._part(each, leaves, results) for each in self.calling.returned]

    def _results(self, inputs: list[Any]) -> tuple[Any, ...]:
        given = self.runner(inputs)
        if given is None:
            return ()
        return given if isinstance(given, tuple) else (given,)

    def _check_written(self, leaves: list[Any]) -> None:
        """Raises `ArgumentMismatchError` for arguments that cannot be written, or are written as another tensor."""
        names = [given.name for given in self.calling.given]
        for at in self.calling.input_updates:
            if problem := why_not_writable(_settled(leaves[at])):
                raise ArgumentMismatchError(
                    f"{self.name}(): {names[at]!r}, which the module writes, {problem}", help="pass a copy"
                )
            for other, leaf in enumerate(leaves):
                if other != at and _meet(leaves[at], leaf):
                    raise _shared(self.name, names[at], names[other])
        for at, leaf in enumerate(leaves):
            for name in self._owners.get(_memory(leaf), ()):
                is_written = at in self.calling.input_updates or name in self.calling.buffer_updates
                if is_written and _meet(leaf, self.held[name]):
                    raise _shared(self.name, names[at], name)

    @cached_property
    def _owners(self) -> dict[int, list[str]]:
        """Where memory begins, and which of the module's tensors are in it."""
        owners: dict[int, list[str]] = {}
        for name, tensor in self.held.items():
            if pointer := _memory(tensor):
                owners.setdefault(pointer, []).append(name)
        return owners

    def _write(self, leaves: list[Any], results: tuple[Any, ...]) -> None:
        """Hand new contents to the buffers and arguments that the module writes."""
        with torch.no_grad():
            for name, number in self.calling.buffer_updates.items():
                self.held[name].copy_(_as_tensor(results[number]))
                if not self.held[name].is_contiguous() or self.held[name].device.type != self.runner.device.type:
                    # The runner has a copy of it.
                    self._runner = None
            for at, number in self.calling.input_updates.items():
                target = leaves[at]
                if isinstance(target, torch.Tensor):
                    target.copy_(results[number])
                else:
                    result = results[number]
                    target[...] = as_array(result) if isinstance(result, torch.Tensor) else result

    def _part(self, returned: Returned, leaves: list[Any], results: tuple[Any, ...]) -> Any:
        if returned.kind == "result":
            return results[returned.what]
        if returned.kind == "scalar":
            value = results[returned.what]
            return value.item() if isinstance(value, (torch.Tensor, np.generic)) else value
        if returned.kind == "input":
            return leaves[returned.what]
        return self.held[returned.what] if returned.kind == "param" else returned.what


def _as_tensor(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else as_torch(np.asarray(result))


def _shared(kernel: str, one: str, other: str) -> ArgumentMismatchError:
    return ArgumentMismatchError(
        f"{kernel}(): {one!r} shares memory with {other!r}, and the module writes there", help="pass a copy of one"
    )


def _settled(leaf: Any) -> Any:
    """A tensor whose memory can be looked at; the others are refused by the kernel."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach() if leaf.layout is torch.strided else torch.empty(0)


def _memory(leaf: Any) -> int:
    """Where the memory begins that a tensor or an array is in; 0 for none."""
    if isinstance(leaf, np.ndarray):
        return leaf.__array_interface__["data"][0]
    return _settled(leaf).untyped_storage().data_ptr() if isinstance(leaf, torch.Tensor) else 0


def _meet(a: Any, b: Any) -> bool:
    """Whether two arguments have memory in common."""
    try:
        return share_elements(_settled(a), _settled(b))
    except (TypeError, RuntimeError):
        # Strided tensors of a dtype, or with a sign, that NumPy lacks.
        return _memory(a) == _memory(b) != 0


def _same(wanted: Any, found: Any) -> bool:
    return type(wanted) is type(found) and (wanted == found or (wanted != wanted and found != found))


def _shown(spec: pytree.TreeSpec) -> str:
    args, kwargs = pytree.tree_unflatten(["·"] * spec.num_leaves, spec)
    return ", ".join([*map(str, args), *(f"{name}={value}" for name, value in kwargs.items())]) or "nothing"
