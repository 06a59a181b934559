"""The calling convention of a torch module: its arguments and results, as recorded by the export."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from mlirtri.errors import ArgumentMismatchError
from mlirtri.programs.torch_programs.random_draws import Draw


@dataclass(frozen=True)
class ArgumentLeaf:
    """The destination of one leaf of the arguments: the function, or none."""

    name: str
    is_constant: bool = False
    value: Any = None
    """Of a constant: what the module was exported for."""
    is_complex32: bool = False
    """Whether it is a tensor of complex32, which the function takes as complex64."""

    def converted(self, name: str, leaf: object) -> Any:
        """Return what the function `name` takes for this leaf; raises `ArgumentMismatchError`."""
        if not self.is_complex32:
            return leaf
        if not isinstance(leaf, torch.Tensor) or leaf.dtype != torch.complex32:
            got = leaf.dtype if isinstance(leaf, torch.Tensor) else type(leaf).__name__
            raise ArgumentMismatchError(f"{name}(): {self.name!r} is a tensor of torch.complex32, got {got}")
        return leaf.to(torch.complex64)


@dataclass(frozen=True)
class Returned:
    """The source of one leaf of the results."""

    kind: str
    """``result``, ``complex32`` or ``scalar`` of the function, ``input``, ``param``, or ``constant``."""
    what: Any
    """Its number, name or value."""


@dataclass(frozen=True)
class Sizes:
    """The dynamic sizes of the export, as expressions of symbols, and their ranges."""

    expressions: tuple[tuple[int, int, Any], ...] = ()
    """Leaf of the arguments, axis, and the SymPy expression of its size; those that are one symbol come first."""
    ranges: Mapping[Any, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest value of a symbol."""

    def check(self, name: str, inputs: Sequence[ArgumentLeaf], leaves: Sequence[object]) -> None:
        """Raise `ArgumentMismatchError` for sizes that the exported program does not support."""
        sizes: dict[Any, int] = {}
        for position, axis, expression in self.expressions:
            size, where = _size(leaves[position], axis), f"axis {axis} of {inputs[position].name!r}"
            if size is None:
                # The kernel refuses another rank.
                continue
            self._find_root(name, where, expression, size, sizes)
            if expression.free_symbols - sizes.keys():
                # Several symbols that no argument has alone: the kernel compares what it can.
                continue
            expected = int(expression.subs(sizes))
            if size != expected:
                raise ArgumentMismatchError(f"{name}(): {where} is {size}, and has to be {expression} = {expected}")
            low, high = self.ranges.get(expression, (size, size))
            if not low <= size <= high:
                raise ArgumentMismatchError(f"{name}() was exported for {low:g} to {high:g} along {where}, got {size}")

    def _find_root(self, name: str, where: str, expression: Any, size: int, sizes: dict[Any, int]) -> None:
        """Set the only unknown symbol of a size to what this size makes it; raises `ArgumentMismatchError`."""
        if expression.is_Symbol:
            sizes.setdefault(expression, size)
            return
        unknown = expression.free_symbols - sizes.keys()
        if len(unknown) != 1:
            return
        (symbol,) = unknown
        low, high = self.ranges.get(symbol, (0, float("inf")))
        fitting = [root for root in _whole_roots(expression.subs(sizes), symbol, size) if low <= root <= high]
        if not fitting:
            within = f"{symbol} a whole number from {low:g} to {high:g}"
            raise ArgumentMismatchError(f"{name}(): {where} is {size}, and has to be {expression} with {within}")
        sizes[symbol] = fitting[0]


@lru_cache(maxsize=1024)
def _whole_roots(expression: Any, symbol: Any, size: int) -> tuple[int, ...]:
    """Return the whole numbers for which an expression of a symbol is this size."""
    unknown = sympy.Dummy()  # the export's symbols are positive
    roots = sympy.solve(expression.subs(symbol, unknown) - size, unknown)
    return tuple(int(root) for root in roots if root.is_Integer)


def _size(leaf: Any, axis: int) -> int | None:
    """Return the size of an axis, or the number itself for a dynamic number."""
    if not isinstance(leaf, torch.Tensor):
        return leaf if isinstance(leaf, int) else None
    return leaf.shape[axis] if axis < leaf.dim() else None


@dataclass(frozen=True)
class Calling:
    """The calling convention of a module."""

    arguments: pytree.TreeSpec
    """Of ``(args, kwargs)``."""
    inputs: tuple[ArgumentLeaf, ...]
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
    draws: tuple[Draw, ...] = ()
    """Random tensors, which the function takes after the arguments."""

    def flattened(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> list[Any]:
        """Return the leaves of the arguments; raises `ArgumentMismatchError`."""
        leaves, structure = pytree.tree_flatten((tuple(args), self._ordered(kwargs)))
        if structure != self.arguments:
            args, kwargs = self._in_order(args, kwargs)
            leaves, structure = pytree.tree_flatten((args, self._ordered(kwargs)))
        if structure != self.arguments:
            self._refuse_names(name, args, kwargs)
            wanted, given = _shown(self.arguments), _shown(structure)
            raise ArgumentMismatchError(
                f"{name}() was exported for arguments of the structure {wanted}, got {given}"
                + " with other tensors or settings inside" * (wanted == given),
                help="export the module again with arguments like these",
            )
        for parameter, leaf in zip(self.inputs, leaves, strict=True):
            if parameter.is_constant and not _same(parameter.value, leaf):
                raise ArgumentMismatchError(
                    f"{name}() was exported for {parameter.name} = {parameter.value!r}, got {leaf!r}",
                    help="export the module again: numbers, strings and None are part of the program",
                )
        self.sizes.check(name, self.inputs, leaves)
        return leaves

    def structured(self, tensors: Sequence[object]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments in order and by name, as the module was exported for, of the tensors in them in order."""
        given = iter(tensors)
        leaves = [leaf.value if leaf.is_constant else next(given) for leaf in self.inputs]
        return pytree.tree_unflatten(leaves, self.arguments)

    def takes(self, name: str) -> bool:
        """Return whether the module has a parameter of this name."""
        return name in self.names or name in self.arguments.children()[1].context

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        placed, named = list(args), dict(kwargs)
        while len(placed) < len(self.names) and self.names[len(placed)] in named:
            placed.append(named.pop(self.names[len(placed)]))
        return tuple(placed), named

    def _refuse_names(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        in_order, by_name = self.arguments.children()
        names = self.names or tuple(f"argument {position}" for position in range(in_order.num_children))
        keywords = list(by_name.context or ())
        open_names = [*names[len(args) :], *keywords]
        missing = [parameter for parameter in open_names if parameter not in kwargs]
        unknown = [kwarg for kwarg in kwargs if kwarg not in open_names]
        if not (missing or unknown or len(args) > len(names)):
            return
        raise ArgumentMismatchError(
            f"{name}() takes {', '.join([*names, *keywords]) or 'no arguments'}"
            + f"; missing {', '.join(missing)}" * bool(missing)
            + f"; not known or given twice: {', '.join(unknown)}" * bool(unknown)
            + f"; got {len(args)} positional arguments" * (len(args) > len(names)),
            help=_help(missing, unknown),
        )

    def _ordered(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        exported = [key for key in self.arguments.children()[1].context or () if key in kwargs]
        return {key: kwargs[key] for key in (*exported, *(key for key in kwargs if key not in exported))}


def _same(exported: Any, value: Any) -> bool:
    return type(exported) is type(value) and (exported == value or (exported != exported and value != value))


def _shown(spec: pytree.TreeSpec) -> str:
    args, kwargs = pytree.tree_unflatten(["·"] * spec.num_leaves, spec)
    text = ", ".join([*map(str, args), *(f"{name}={value}" for name, value in kwargs.items())]) or "nothing"
    # Objects without a text of their own show their class, and not an address, which differs each time.
    return re.sub(r"<(?:[\w<>]+\.)*(\w+) object at 0x[0-9a-f]+>", r"\1", text)


def _help(missing: Sequence[str], unknown: Sequence[str]) -> str | None:
    if missing and not unknown:
        return None
    return "to pass what the module was exported without, export it with that"
