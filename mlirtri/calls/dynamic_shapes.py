"""Compute the shapes of results with dynamic sizes, and check that the arguments' sizes match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.errors import ArgumentMismatchError, error_class
from mlirtri.lowering.core.interface import Interface
from mlirtri.lowering.core.size_program import SIGNATURE, Condition, SizeProgram

MAX_SHAPES = 4096
"""Combinations of argument shapes that are remembered."""
LARGEST_SIZE = 1 << 48
"""Of an axis of a result; no memory holds more."""
Shape = tuple[int, ...]


def admits(shape: Sequence[Any], other: Sequence[int]) -> bool:
    """Return whether a tensor of shape `other` has a type of `shape`, whose sizes may be unknown."""
    return len(shape) == len(other) and all(
        is_dynamic(size) or size == actual for size, actual in zip(shape, other, strict=True)
    )


class DynamicShapes:
    """A cache from the arguments' shapes to the results'. Thread-safe: entries may be lost."""

    def __init__(self, name: str, interface: Interface, program: SizeProgram):
        self.name = name
        self.program = program
        self.names = [parameter.name for parameter in (*interface.parameters, *interface.bound)]
        self.patterns = [tuple(leaf.shape) for leaf in interface.leaves]
        self.elements = [step.literals for step in program.elements]
        self._shapes: dict[Any, list[Shape]] = {}

    def results(self, inputs: Sequence[object]) -> list[Shape]:
        """Return the shape of each result; raises `ArgumentMismatchError`, or the size program's own error."""
        key = tuple([tuple(tensor.shape) for tensor in inputs])
        if self.elements:
            key = (key, tuple([element_of(inputs, *numbers) for numbers in self.elements]))
        shapes = self._shapes.get(key)
        if shapes is None:
            shapes = self._computed(inputs)
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes = {}
            self._shapes[key] = shapes
        return shapes

    def _computed(self, inputs: Sequence[Any]) -> list[Shape]:
        shapes = [tuple(tensor.shape) for tensor in inputs]
        values = self.program.run(shapes, lambda argument, indices: element_of(inputs, argument, *indices))
        if violated := list(self.program.violated(values)):
            raise self._refusal(violated, values)
        sizes = {(result, axis): values[step] for result, axis, step in self.program.sizes}
        for (result, axis), size in sizes.items():
            if not 0 <= size <= LARGEST_SIZE:
                raise ArgumentMismatchError(f"{self.name}(): axis {axis} of result {result} would have the size {size}")
        return [
            tuple(sizes.get((result, axis), size) for axis, size in enumerate(pattern))
            for result, pattern in enumerate(self.patterns)
        ]

    def _refusal(self, violated: Sequence[Condition], values: list[Any]) -> Exception:
        first = violated[0]
        if first.error is not None:
            kind, _, message = first.error.partition(": ")
            return error_class(kind)(message, first.span)
        of_signature = [condition for condition in violated if condition.why.startswith(SIGNATURE)]
        problems = dict.fromkeys(
            self.program.misfit(condition, values, self.names) for condition in of_signature or violated[:1]
        )
        return ArgumentMismatchError(f"{self.name}(): {', and '.join(problems)}", first.span)


def element_of(inputs: Sequence[Any], argument: int, *indices: int) -> Any:
    """Return one element of an argument as a Python number."""
    return inputs[argument][indices].item()
