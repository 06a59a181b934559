"""Find the launches of a straight-line Relax function: which kernels, on which values, in which order.

There is no plan for a function that needs the virtual machine (branches, packed calls, intermediate values of symbolic
shapes). Launches that would write nothing are left out. What a launch updates in place are arguments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.lowering.external.vdevices import device_of
from mlirtri.lowering.runtime.launch_plan import Plan, Step, Value
from mlirtri.lowering.toolchain.tvm_names import ONCE, VIEW, IRModule, ir, relax
from mlirtri.lowering.toolchain.tvm_passes import bindings_of, relax_functions

PARTS = "mlirtri.complex_as_parts"
"""Attribute of a Relax function whose complex tensors are tensors of real and imaginary parts."""


class _NeedsMachine(Exception):
    """The function has an operation that is no launch."""


def make_plan(mod: IRModule, bound: int = 0) -> Plan | None:
    """Return the plan of the module's only Relax function; None if it needs the virtual machine.

    `bound` is how many of the function's parameters, the last ones, are bound tensors.
    """
    functions = relax_functions(mod)
    if len(functions) != 1:
        return None
    try:
        return _Planner(mod, functions[0][1], bound).plan
    except _NeedsMachine:
        return None


class _Planner:
    def __init__(self, mod: IRModule, function: relax.Function, bound: int):
        self.mod = mod
        self.plan = Plan(len(function.params), has_parts=PARTS in (function.attrs or {}), bound=bound)
        self.bound: dict[relax.Var, int | tuple] = {}
        for parameter in function.params:
            self.bound[parameter] = self.new(parameter.ty)
        for binding in bindings_of(function):
            if not isinstance(binding, relax.VarBinding):
                raise _NeedsMachine
            self.bound[binding.var] = self.value(binding.value)
        result = self.value(function.body.body)
        self.plan.results = tuple(_flat(result))
        # Intermediate values need their shapes for allocation: the virtual machine evaluates them.
        caller_values = {*range(self.plan.arguments), *self.plan.results}
        if any(not value.is_static and number not in caller_values for number, value in enumerate(self.plan.values)):
            raise _NeedsMachine
        self.plan.steps = _needed(self.plan)

    def new(self, kind) -> int:
        """Return the number of a new value of this Relax type."""
        if not isinstance(kind, relax.TensorType) or not isinstance(kind.shape, relax.ShapeExpr):
            raise _NeedsMachine
        sizes = [int(size.value) if hasattr(size, "value") else None for size in kind.shape]
        device = device_of(kind.vdevice) if kind.vdevice is not None else None
        self.plan.values.append(Value(tuple(sizes), str(kind.dtype), device))
        return len(self.plan.values) - 1

    def value(self, expression) -> Any:
        """Return the number, or the tuple of numbers, of an expression."""
        if isinstance(expression, relax.Var):
            if expression not in self.bound:
                # A size, which a launch takes as a number.
                raise _NeedsMachine
            return self.bound[expression]
        if isinstance(expression, relax.Tuple):
            return tuple(self.value(item) for item in expression.fields)
        if isinstance(expression, relax.TupleGetItem):
            return self.value(expression.tuple_value)[expression.index]
        if isinstance(expression, ir.GenericConst):
            return self.constant(expression)
        if isinstance(expression, relax.Call):
            return self.call(expression)
        raise _NeedsMachine

    def constant(self, expression: ir.GenericConst) -> int:
        number = self.new(expression.ty)
        self.plan.constants[number] = expression.value
        return number

    def call(self, call: relax.Call) -> int | tuple:
        name = getattr(call.op, "name", "")
        if name == "relax.to_vdevice":
            return self.copied(self.value(call.args[0]), device_of(call.attrs.dst_vdevice))
        if len(call.args) != 2 or name not in ("relax.call_tir", "relax.call_tir_inplace"):
            raise _NeedsMachine
        callee, arguments = call.args
        kind = call.ty_args[0]
        several = isinstance(kind, relax.TupleType)
        inputs = tuple(_flat(self.value(arguments)))
        results = tuple(self.new(item) for item in (kind.fields if several else [kind]))
        if results and (device := self.plan.values[results[0]].device) is not None:
            inputs = tuple(self.on(number, device) for number in inputs)
        in_place = call.attrs.inplace_indices if name.endswith("_inplace") else ()
        for result, position in zip(results, in_place, strict=False):
            if position >= 0:
                self.update(result, inputs[int(position)])
        outputs = tuple(number for number in results if number not in self.plan.updates)
        attributes = self.mod[callee].attrs
        kernel = None if VIEW in attributes else callee.name_hint
        self.plan.steps.append(Step(kernel, inputs, outputs, is_once=ONCE in attributes))
        return results if several else results[0]

    def copied(self, number: int, device: str) -> int:
        """Return the number of a copy of a value on another device."""
        self.plan.values.append(replace(self.plan.values[number], device=device))
        self.plan.steps.append(Step(None, (number,), (len(self.plan.values) - 1,), is_copy=True))
        return len(self.plan.values) - 1

    def on(self, number: int, device: str) -> int:
        """Return the number of a value on the device of a launch; a constant is placed where it is first used."""
        value = self.plan.values[number]
        if value.device is None:
            self.plan.values[number] = replace(value, device=device)
        return number if self.plan.values[number].device == device else self.copied(number, device)

    def update(self, result: int, argument: int) -> None:
        """Note that a result is in the memory of an argument; no other memory is written in place."""
        if argument >= self.plan.arguments:
            raise _NeedsMachine
        self.plan.updates[result] = argument


def _flat(value: int | tuple) -> list[int]:
    return [value] if isinstance(value, int) else [number for item in value for number in _flat(item)]


def _needed(plan: Plan) -> list[Step]:
    """Return the steps that update an argument, or whose outputs are read later and not empty."""
    live, steps = set(plan.results), []
    updated = {argument for argument in plan.updates.values() if plan.values[argument].size}
    for step in reversed(plan.steps):
        used = [number for number in step.outputs if number in live and plan.values[number].size]
        if used or updated & set(step.inputs):
            live.update(step.inputs)
            steps.append(step)
    return steps[::-1]
