"""A launch plan: which compiled functions a call runs, on which values, in which order. Plain data, without TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype


@dataclass(frozen=True)
class Value:
    """The shape and dtype (TVM's name, which is also torch's) of one tensor of the plan."""

    shape: tuple[int | None, ...]
    """None for sizes known at run time only."""
    dtype: str
    device: str | None = None
    """Its device, in a module with devices; None for constants until they are used, and in other modules."""

    @property
    def is_static(self) -> bool:
        return None not in self.shape

    @property
    def static_shape(self) -> tuple[int, ...]:
        """Return the shape of a value whose sizes are all static."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def size(self) -> int:
        """Return the number of elements; not 0 if it is dynamic."""
        return prod(1 if size is None else size for size in self.shape)

    @property
    def bytes(self) -> int:
        return self.size * as_dtype(self.dtype).bytes


@dataclass(frozen=True)
class Step:
    """One launch, or with `kernel` None a view of the only input in the output's shape, or a copy of it."""

    kernel: str | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_copy: bool = False
    is_once: bool = False
    """Whether it computes what depends on bound tensors alone, and runs when they are bound."""

    @property
    def is_view(self) -> bool:
        return self.kernel is None and not self.is_copy


@dataclass
class Plan:
    """A list of launches. Values are numbered: first the arguments, then results in order."""

    arguments: int
    values: list[Value] = field(default_factory=list)
    constants: dict[int, Any] = field(default_factory=dict)
    """Tensors with `__dlpack__`, by the number of their value."""
    steps: list[Step] = field(default_factory=list)
    results: tuple[int, ...] = ()
    updates: dict[int, int] = field(default_factory=dict)
    """From the value that a launch wrote in place to the argument that it updates."""

    has_parts: bool = False
    """Whether complex tensors are passed as tensors of their parts, with a last dimension of 2."""
    bound: int = 0
    """How many arguments, the last ones, are bound tensors."""

    @property
    def kernels(self) -> int:
        return sum(step.kernel is not None for step in self.steps)

    @property
    def is_static(self) -> bool:
        """Return whether all sizes are static."""
        return all(value.is_static for value in self.values)

    @property
    def bytes(self) -> int | None:
        """Return bytes read and written per call: distinct inputs and outputs of each launch or copy.

        None if sizes are dynamic.
        """
        if not self.is_static:
            return None
        launches = (step for step in self.steps if not step.is_view)
        return sum(self.values[number].bytes for step in launches for number in {*step.inputs, *step.outputs})

    def to_json(self) -> dict[str, Any]:
        """Return the plan without its constants' contents."""
        return {
            "arguments": self.arguments,
            "values": [asdict(value) for value in self.values],
            "constants": list(self.constants),
            "steps": [asdict(step) for step in self.steps],
            "results": list(self.results),
            "updates": [list(pair) for pair in self.updates.items()],
            "has_parts": self.has_parts,
            "bound": self.bound,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], constants: Mapping[int, Any]) -> Plan:
        """Return the plan that `to_json` wrote."""
        return cls(
            data["arguments"],
            [Value(tuple(value["shape"]), value["dtype"], value["device"]) for value in data["values"]],
            {number: constants[number] for number in data["constants"]},
            [
                Step(step["kernel"], tuple(step["inputs"]), tuple(step["outputs"]), step["is_copy"], step["is_once"])
                for step in data["steps"]
            ],
            tuple(data["results"]),
            {result: argument for result, argument in data["updates"]},
            data["has_parts"],
            data["bound"],
        )


def last_uses(used: Sequence[Set[int]], live: Set[int] = frozenset()) -> list[tuple[int, ...]]:
    """Return, for each of some launches in order, the values that no later one uses, of those that are not `live`."""
    seen, dead = set(live), []
    for values in reversed(used):
        dead.append(tuple(sorted(values - seen)))
        seen |= values
    return dead[::-1]


@dataclass(frozen=True)
class Store:
    """The memory of the plan's values during a call: an input, a constant, an output or a fresh tensor."""

    home: dict[int, int]
    """From a value to the index of the output that it is written into."""
    copies: tuple[tuple[int, int], ...]
    """(value, output position) for results that are not written in place: arguments, constants, repeated results."""
