"""Run what TVM compiled: lists of launches, or functions with branches on Relax's virtual machine.

What runs a list on torch's tensors is made when they are first given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlirtri.lowering.core.stage import Tensors
from mlirtri.lowering.runtime.launch_plan import Plan, Step, Store
from mlirtri.lowering.runtime.launches import Launches, launches_of_plan, launches_of_tensors, separates_result
from mlirtri.lowering.runtime.preparation import Preparation, prepared
from mlirtri.lowering.toolchain.tvm_runtime import runtime, start_machine

Launch = Callable[[Sequence[Any], Sequence[Any]], None]


@dataclass(frozen=True)
class Library:
    """The compiled functions of a plan, and how their parallel loops run."""

    module: Any
    """A runtime module of TVM."""
    threads: int
    """CPU threads that the code was compiled for."""
    has_loops: bool
    """Whether it has parallel loops that may run on torch's threads."""
    long: tuple[str, ...] = ()
    """Functions whose statements may run for any time, however little memory they touch."""
    file: Path | None = None
    """The shared library of an artifact that it was loaded from."""


@dataclass(frozen=True)
class KernelExecutable:
    """A kernel without branches: launches of compiled functions, one after the other."""

    kernels: int
    bytes: int | None
    launch: Launch
    updates_in_place: bool = False
    """Whether results that update arguments are those arguments' tensors, written in place."""
    plan: Plan | None = None
    library: Library | None = None
    """What it was made of, for artifacts; no library in a kernel without code, or for CUDA."""
    data: Launches | None = None
    """What `launches` returns."""
    preparation: Preparation | None = None
    """The part of the plan that runs once."""
    launch_once: Launch | None = None
    """Computes the results of ``preparation.once`` from the bound tensors."""

    def prepared(self, bound: Sequence[object]) -> tuple[Any, ...]:
        """Return what `launch` takes after a call's arguments: some of the bound tensors, and what is made of them."""
        if self.preparation is None or self.launch_once is None:
            return tuple(bound)
        from mlirtri.lowering.runtime.tensor_launches import new_tensors  # loads torch

        once = self.preparation.once
        tensors = new_tensors([once.values[number] for number in once.results])
        self.launch_once(bound, tensors)
        return (*(bound[position] for position in self.preparation.kept), *tensors)

    @property
    def peak_bytes(self) -> int | None:
        """Return the bytes of the intermediates of a call, which share one block; None if sizes are dynamic."""
        return None if self.data is None else self.data.arena_bytes

    def launches(self, inputs: int, outputs: int) -> Launches | None:
        """Return what a call does, for calls that are written as Python; None if it is no list of launches."""
        return self.data


def make_executable(plan: Plan, kernel: Callable[[str], Callable], library: Library | None = None) -> KernelExecutable:
    """Return the executable of `plan`; `kernel` looks a compiled function up by its name."""
    preparation = prepared(plan)
    calls = plan if preparation is None else preparation.calls
    store = _assign_outputs(calls)
    constants = {number: _constant(value, calls.values[number].dtype) for number, value in calls.constants.items()}
    long = library.long if library is not None else ()
    launches = launches_of_plan(calls, store.home, store.copies, kernel, constants, _prepared, long)
    launch = _made_late(lambda: _launch_of_plan(calls, store, kernel))
    updates = bool(plan.updates)
    executable = KernelExecutable(calls.kernels, calls.bytes, launch, updates, plan, library, launches, preparation)
    if preparation is None:
        return executable
    once = preparation.once
    return replace(executable, launch_once=_made_late(lambda: _launch_of_plan(once, _assign_outputs(once), kernel)))


def found_in(library: Library | None, module: Any) -> Callable[[str], Callable]:
    """Return the lookup of functions in a library, where it has them, else in a runtime module of TVM."""
    own = None if library is None else library.module
    return lambda name: own[name] if own is not None and own.implements_function(name) else module[name]


def _launch_of_plan(plan: Plan, store: Store, kernel: Callable[[str], Callable]) -> Launch:
    from mlirtri.lowering.runtime.tensor_launches import launch_of_plan  # loads torch

    return launch_of_plan(plan, store, kernel)


def _made_late(make: Callable[[], Launch]) -> Launch:
    """Return a launch that is made when it is first called: calls with arrays alone never need it."""
    launches: list[Launch] = []

    def launch(inputs: Tensors, outputs: Tensors) -> None:
        if not launches:
            launches.append(make())
        launches[0](inputs, outputs)

    return launch


def _constant(value: Any, dtype: str) -> Any:
    """Return a constant as an array, or as a tensor where NumPy lacks the dtype or it is one already."""
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        return value
    from mlirtri.lowering.runtime.tensor_launches import host_tensor  # loads torch

    return host_tensor(value, dtype)


def _prepared(tensor: Any) -> Any:
    """Return a tensor as TVM's own, which compiled functions take fastest."""
    return runtime().from_dlpack(tensor)


def _assign_outputs(plan: Plan) -> Store:
    """Assign the caller's memory to each result that a launch writes; the source of a view shares it."""
    produced = {number: step for step in plan.steps for number in step.outputs}
    home: dict[int, int] = {}
    copies = []
    for position, number in enumerate(plan.results):
        if number in plan.updates:
            continue
        source = number
        while source in produced and produced[source].is_view:
            source = produced[source].inputs[0]
        if source in produced and source not in home:
            home[source] = position
        elif _is_filled(plan, number, produced):
            copies.append((number, position))
    return Store(home, tuple(copies))


def _is_filled(plan: Plan, number: int, produced: dict[int, Step]) -> bool:
    """Return False for empty values whose launch was dropped."""
    return number in produced or number < plan.arguments or number in plan.constants


def separate_results(plan: Plan) -> dict[str, int]:
    """Return the function that writes the result of a direct call, with the index of its result parameter."""
    store = _assign_outputs(plan)
    if not separates_result(plan, store.home, store.copies):
        return {}
    step = plan.steps[-1]
    return {str(step.kernel): (*step.inputs, *step.outputs).index(plan.results[0])}


class MachineExecutable:
    """A Relax function that branches, or allocates what run-time sizes need.

    Each thread has a virtual machine of its own, since a machine is not thread-safe.
    """

    bytes = None

    def __init__(self, library: Library, function: str, kernels: int):
        self.kernels = kernels
        self.library, self.function = library, function
        self._local = threading.local()

    def launches(self, inputs: int, outputs: int) -> Launches:
        """Return what a call does, for calls that are written as Python."""
        return launches_of_tensors(self.launch, inputs, outputs)

    def launch(self, inputs: Tensors, outputs: Tensors) -> None:
        """Run on torch tensors; copies what the virtual machine returns into the outputs."""
        machine = getattr(self._local, "machine", None)
        if machine is None:
            machine = self._local.machine = start_machine(self.library.module)
        import torch  # reading it from a file needs none

        produced = machine[self.function](*inputs)
        for output, value in zip(outputs, _tensors(produced), strict=True):
            output.copy_(torch.from_dlpack(value))


def _tensors(produced: Any) -> list[Any]:
    if hasattr(produced, "__dlpack__"):
        return [produced]
    return [tensor for item in produced for tensor in _tensors(item)]
