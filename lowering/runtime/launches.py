"""What a call of compiled code does, as data: functions on numbered tensors. `mlirtri.calls` writes it as Python code.

It needs neither torch nor TVM: what takes tensors in their fastest form is given along.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.lowering.runtime.launch_plan import Plan, last_uses
from mlirtri.lowering.runtime.memory import empty_array, lifetimes, offsets

LITTLE = 1 << 12
"""Bytes that one block of work may touch to take about a microsecond."""
KEPT_BYTES = 1 << 26
"""Bytes of intermediates that stay allocated between calls: new memory costs a page fault for every 4 KiB."""
ARGUMENT, RESULT, CONSTANT, SCRATCH = "argument", "result", "constant", "scratch"


@dataclass(frozen=True)
class Operand:
    """A tensor of a call: an argument, a result, a constant or an intermediate, by its number among those."""

    kind: str
    number: int
    shape: tuple[int, ...] | None = None
    """The shape that the launch takes the memory in, where it is not the tensor's own."""


@dataclass(frozen=True)
class Launch:
    """One call of a compiled function."""

    function: Callable[..., Any]
    operands: tuple[Operand, ...]
    """Inputs, then outputs. After them a function of pointers takes `sizes` and `strides`."""
    sizes: tuple[tuple[int, int], ...] = ()
    """(operand, axis) of each size that is known at run time only."""
    strides: tuple[tuple[int, int], ...] = ()
    """The same of strides, in elements."""
    last_uses: tuple[int, ...] = ()
    """Intermediates that no later launch reads."""


@dataclass(frozen=True)
class Scratch:
    """The type of an intermediate, and where it is in the block of all intermediates."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    offset: int

    def within(self, arena: np.ndarray) -> Any:
        """Return an array in the block, or a tensor where NumPy lacks the dtype."""
        dtype = as_dtype(self.dtype)
        memory = arena[self.offset : self.offset + self.bytes]
        if dtype.kind != "v":
            return memory.view(dtype.numpy).reshape(self.shape)
        import torch  # calls with arrays need none

        return torch.from_numpy(memory).view(dtype.torch).reshape(self.shape)


@dataclass(frozen=True)
class Launches:
    """All launches of a call in order."""

    steps: tuple[Launch, ...]
    scratch: Mapping[int, Scratch]
    constants: Mapping[int, Any]
    prepared: Callable[[Any], Any]
    """Returns an array or a tensor in the form that the functions take fastest; it shares the memory."""
    copies: tuple[tuple[int, Operand], ...] = ()
    """Results that no launch writes, with what is copied into them."""
    checks: bool = True
    """Whether functions check shapes, dtypes, strides and devices before they read or write."""
    separates: bool = False
    """Whether the function that writes the only result refuses one that shares memory with an argument."""
    takes_pointers: bool = False
    """Whether the function takes a table of pointers to the addresses of tensors and to sizes."""
    gives_status: bool = False
    """Whether the table's last entry points to a number that is not 0 after a call that found no memory."""
    takes_tensors: bool = False
    """Whether the function takes torch's tensors only."""

    @property
    def keeps_scratch(self) -> bool:
        """Return whether intermediates stay allocated between calls."""
        return self.arena_bytes <= KEPT_BYTES

    @property
    def arena_bytes(self) -> int:
        """Return the bytes of the block in which all intermediates are."""
        return max((value.offset + value.bytes for value in self.scratch.values()), default=0)

    def new_arena(self) -> np.ndarray:
        """Return uninitialised memory for all intermediates."""
        return empty_array((self.arena_bytes,), np.dtype(np.uint8))


def launches_of_plan(
    plan: Plan,
    home: Mapping[int, int],
    copies: Collection[tuple[int, int]],
    kernel: Callable[[str], Any],
    constants: Mapping[int, Any],
    prepared: Callable[[Any], Any],
    loops: Collection[str] = (),
) -> Launches | None:
    """Return the launches of a plan; None if it needs more than launches.

    `home` has the values that are written into results, `copies` the values that are copied to results, `loops` the
    functions whose statements may run for any time, however little memory they touch.
    """
    numbers = {number for step in plan.steps for number in (*step.inputs, *step.outputs)}
    if any(step.is_copy for step in plan.steps) or any(plan.values[number].device for number in numbers):
        return None
    if not all(value.size for value in plan.values) or not (plan.is_static or _is_sized(plan)):
        return None
    operands = _Operands(plan, home)
    launched = [step for step in plan.steps if step.kernel is not None]
    memory = [list(map(operands, (*step.inputs, *step.outputs))) for step in launched]
    uses = [{value.number for value in values if value.kind == SCRATCH} for values in memory]
    is_little = plan.bytes is not None and plan.bytes <= LITTLE
    steps = []
    for step, values, dead in zip(launched, memory, last_uses(uses), strict=True):
        function = kernel(str(step.kernel))
        if is_little and not any(other.kernel in loops for other in launched):
            # Other threads wait for less time than a GIL release takes.
            function.release_gil = False
        steps.append(Launch(function, tuple(values), last_uses=dead))
    lives = lifetimes(uses, {number: plan.values[number].bytes for number in sorted(operands.scratch)})
    where = offsets(lives)
    scratch = {
        number: Scratch(plan.values[number].static_shape, plan.values[number].dtype, life.bytes, where[number])
        for number, life in lives.items()
    }
    copied = tuple((position, operands(number)) for number, position in copies)
    is_separate = separates_result(plan, home, copies)
    return Launches(tuple(steps), scratch, dict(constants), prepared, copied, separates=is_separate)


def launches_of_tensors(launch: Callable[[Any, Any], None], inputs: int, outputs: int) -> Launches:
    """Return the one launch of an executable that takes torch's tensors, and checks nothing."""
    import torch  # calls with arrays need none

    operands = [Operand(ARGUMENT, number) for number in range(inputs)]
    operands += [Operand(RESULT, number) for number in range(outputs)]

    def function(*tensors: Any) -> None:
        launch(tensors[:inputs], tensors[inputs:])

    step = Launch(function, tuple(operands))
    return Launches((step,), {}, {}, torch.from_numpy, checks=False, takes_tensors=True)


def separates_result(plan: Plan, home: Mapping[int, int], copies: Collection[tuple[int, int]]) -> bool:
    """Return whether the last launch writes the only result, so that it can check that its memory is its own.

    Earlier launches have read by then the arguments that share memory with it.
    """
    if not plan.steps or plan.updates or copies or len(plan.results) != 1 or plan.has_parts or not plan.is_static:
        return False
    return plan.steps[-1].kernel is not None and plan.results[0] in plan.steps[-1].outputs and plan.results[0] in home


def _is_sized(plan: Plan) -> bool:
    """Return whether the functions get all run-time sizes from arguments and results, which are never views."""
    caller_values = {*range(plan.arguments), *plan.results}
    return not plan.has_parts and all(
        step.kernel is not None and caller_values.issuperset((*step.inputs, *step.outputs)) for step in plan.steps
    )


class _Operands:
    """From the number of a plan's value to its memory."""

    def __init__(self, plan: Plan, home: Mapping[int, int]):
        self._plan, self._home = plan, home
        self._views = {step.outputs[0]: step.inputs[0] for step in plan.steps if step.is_view}
        self.scratch: set[int] = set()

    def __call__(self, number: int) -> Operand:
        plan, shape = self._plan, self._plan.values[number].shape
        root = number
        while root in self._views:
            root = self._views[root]
        root = plan.updates.get(root, root)
        own: tuple[Any, ...] = plan.values[root].shape
        if root < plan.arguments:
            kind, position = ARGUMENT, root
        elif root in plan.constants:
            kind, position = CONSTANT, root
        elif root in self._home:
            kind, position = RESULT, self._home[root]
            own = plan.values[plan.results[position]].shape
        else:
            kind, position = SCRATCH, root
            self.scratch.add(root)
        return Operand(kind, position, plan.values[number].static_shape if shape != own else None)
