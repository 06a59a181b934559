"""Translate a `tri` module to an executable that interprets it on NumPy, operation by operation.

The text of the `Code` lists the operations under their source lines. Slow, but the reference for the pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.bindings.locations import name_of, span_of
from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.dialect.definition import type_of
from mlirtri.lowering.core.interface import RuntimeCheck
from mlirtri.lowering.core.recursion import more_frames
from mlirtri.lowering.core.stage import Code, CompileContext, Tensors
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.frontend.semantics.debugging import CHECK, is_breakpoint
from mlirtri.lowering.interpreter.frames import Action, Breakpoint, Line, SourceLine, chain_of, lines_of
from mlirtri.lowering.interpreter.steps import Evaluator, evaluator_of

FRAMES_OF_RUN = 10_000
"""Frames of Python for a run: some for each inlined call and each branch that encloses an operation."""


def lower(module: ir.Module, context: CompileContext) -> Code:
    """Return the interpreted function of a module; raises `UnsupportedOperationError` for all unknown operations."""
    [function] = public_functions(module)
    translation = _Translation(context.interface.checks if context.interface is not None else ())
    body = translation.body(function.regions[0].blocks[0], ())
    kinds = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    dtypes = [[type_of(kind).dtype for kind in types] for types in (kinds.inputs, kinds.results)]
    refuse(translation.unknown, "NumPy", "report this: the interpreter has to know every operation of the tri stage")
    return Code("\n".join(_listing(body.actions)) + "\n", Interpreted(body, *dtypes))


@dataclass
class State:
    """The state of one run: SSA values by number, and the user's variables by name."""

    values: dict[int, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)

    def define(self, numbers: Sequence[int], values: Sequence[object], names: Sequence[str | None] = ()) -> None:
        self.values.update(zip(numbers, values, strict=True))
        self.names.update((name, value) for name, value in zip(names, values, strict=False) if name)

    def get(self, numbers: Sequence[int]) -> list[Any]:
        return [self.values[number] for number in numbers]


@dataclass
class Body:
    """A block: its arguments, its operations, and the operands of its terminator."""

    arguments: list[int]
    names: list[str | None]
    actions: list[Action]
    yielded: list[int]

    def run(self, state: State, arguments: Sequence[object]) -> list[Any]:
        state.define(self.arguments, arguments, self.names)
        for action in self.actions:
            action(state)
        return state.get(self.yielded)


@dataclass
class Operation:
    """An operation of the module: its function, and the numbers of its operands and results."""

    name: str
    operands: list[int]
    results: list[int]
    names: list[str | None]
    evaluate: Evaluator
    bodies: list[Body] = field(default_factory=list)

    def __call__(self, state: State) -> None:
        operands = state.get(self.operands)
        values = self.evaluate(state, self.bodies, *operands) if self.bodies else self.evaluate(*operands)
        state.define(self.results, values, self.names)


class _Translation:
    def __init__(self, checks: Sequence[RuntimeCheck]):
        self.checks = {(check.message, check.span): check for check in checks}
        self.numbers: dict[ir.Value, int] = {}
        self.unknown: list[tuple[ir.Operation, str]] = []

    def number(self, values: Sequence[ir.Value]) -> list[int]:
        return [self.numbers.setdefault(value, len(self.numbers)) for value in values]

    def body(self, block: ir.Block, callers: tuple[SourceLine, ...]) -> Body:
        """Translate a block, whose frames are called from those of `callers`."""
        arguments = list(block.arguments)
        *operations, terminator = (view.operation for view in block.operations)
        numbers, names = self.number(arguments), [name_of(argument.location) for argument in arguments]
        actions = []
        for operation in operations:
            chain = chain_of(operation.location)
            shared = chain[: len(callers)] == callers
            action = self.action(operation, chain[:-1])
            actions.append((chain[len(callers) :] if shared else chain, action))
        return Body(numbers, names, lines_of(actions), self.number(terminator.operands))

    def action(self, operation: ir.Operation, callers: tuple[SourceLine, ...]) -> Action:
        if is_breakpoint(operation):
            return Breakpoint()
        bodies = [self.body(block, callers) for region in operation.regions for block in region.blocks]
        evaluate = _CONTROL.get(operation.name) if bodies else evaluator_of(operation)
        if evaluate is None:
            self.unknown.append((operation, operation.name))
            return lambda state: None
        if CHECK in operation.attributes and len(operation.results) == 1:
            check = self.checks.get((operation.attributes[CHECK].value, span_of(operation.location)))
            evaluate = evaluate if check is None else _raising(evaluate, check)
        results = list(operation.results)
        # Several results share one location, so a name in it names none of them.
        names = [name_of(operation.location)] if len(results) == 1 else []
        return Operation(operation.name, self.number(operation.operands), self.number(results), names, evaluate, bodies)


def _raising(evaluate: Evaluator, check: RuntimeCheck) -> Evaluator:
    """Return an evaluator of the condition of a check, which raises where it is true."""

    def run(*operands: Any) -> Sequence[Any]:
        values = evaluate(*operands)
        if values[0]:
            raise check.error(check.message, check.span)
        return values

    return run


def _for(state: State, bodies: list[Body], lower: Any, upper: Any, step: Any, *carried: Any) -> Sequence[Any]:
    for index in range(int(lower), int(upper), int(step)):
        carried = tuple(bodies[0].run(state, [np.int64(index), *carried]))
    return carried


def _while(state: State, bodies: list[Body], *carried: Any) -> Sequence[Any]:
    before, after = bodies
    while True:
        is_running, *yielded = before.run(state, carried)
        if not is_running:
            return yielded
        carried = tuple(after.run(state, yielded))


def _if(state: State, bodies: list[Body], condition: Any) -> Sequence[Any]:
    arm = 0 if condition else 1
    return bodies[arm].run(state, ()) if arm < len(bodies) else ()


_CONTROL: dict[str, Callable[..., Sequence[Any]]] = {"scf.for": _for, "scf.while": _while, "scf.if": _if}


class Interpreted:
    """Run a body on torch tensors. Thread-safe: each run has its own state."""

    updates_in_place = True
    """An updated argument is read and written in the same memory: results are stored after all are computed."""

    def __init__(self, body: Body, inputs: Sequence[DType], outputs: Sequence[DType]):
        self.kernels = 0
        self.bytes = None
        self._body = body
        self._inputs = inputs
        self._outputs = outputs

    def launch(self, inputs: Tensors, outputs: Tensors) -> None:
        """Run on CPU tensors, complex ones by parts."""
        arrays = [as_array(tensor, dtype) for tensor, dtype in zip(inputs, self._inputs, strict=True)]
        # Copy first: a result may be an argument that another result overwrites.
        with more_frames(FRAMES_OF_RUN):
            results = [np.array(result) for result in self._body.run(State(), arrays)]
        for tensor, dtype, result in zip(outputs, self._outputs, results, strict=True):
            as_array(tensor, dtype)[...] = result


def as_array(tensor: object, dtype: DType) -> np.ndarray:
    """Return a tensor's memory as an array: bf16 as in `ml_dtypes`, real and imaginary parts as complex numbers."""
    if dtype.is_complex:
        return tensor.numpy().view(dtype.numpy)[..., 0]
    if dtype.name != "bfloat16":
        return tensor.numpy()
    import torch

    return tensor.view(torch.int16).numpy().view(dtype.numpy)


def _listing(actions: Sequence[Any], depth: int = 0) -> list[str]:
    lines: list[str] = []
    for action in actions:
        indent = "  " * depth
        if isinstance(action, Line):
            lines.append(f"{indent}{PurePath(action.file).name}:{action.line}")
            lines += _listing(action.actions, depth + 1)
        elif isinstance(action, Operation):
            operands, results = (", ".join(f"%{n}" for n in numbers) for numbers in (action.operands, action.results))
            lines.append(
                f"{indent}{results} = {action.name}({operands})" if results else f"{indent}{action.name}({operands})"
            )
            for body in action.bodies:
                yielded = ", ".join(f"%{number}" for number in body.yielded)
                lines += [*_listing(body.actions, depth + 1), f"{indent}  yield {yielded}".rstrip()]
        else:
            lines.append(f"{indent}breakpoint()")
    return lines
