"""Part of a launch plan that depends on bound tensors alone: it runs once, when they are bound, not in each call.

plan(x, w):         p = pack(w);  y = product(x, p)
  ──►
preparation(w):     p = pack(w)
calls(x, p):        y = product(x, p)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlirtri.lowering.runtime.launch_plan import Plan, Step


@dataclass(frozen=True)
class Preparation:
    """A plan in two parts: what runs once, and what runs in each call on the values that remain."""

    once: Plan
    """Takes all bound tensors; its results are the values that calls read."""
    calls: Plan
    """Takes the arguments of a call, the bound tensors in `kept`, and the results of `once`."""
    kept: tuple[int, ...]
    """Positions among the bound tensors of those that calls read as they are."""


def prepared(plan: Plan) -> Preparation | None:
    """Return the plan in two parts; None where nothing of it runs once."""
    marked = _once(plan)
    if not marked or not plan.is_static:
        return None
    first = plan.arguments - plan.bound
    views = _views_for(plan, marked)
    steps = [step for number, step in enumerate(plan.steps) if number in marked | views]
    rest = [step for number, step in enumerate(plan.steps) if number not in marked]
    read = {value for step in rest for value in step.inputs} | set(plan.results)
    rest = [step for step in rest if not step.is_view or read & set(step.outputs)]
    computed = {value for number in marked for value in plan.steps[number].outputs}
    read = {value for step in rest for value in step.inputs} | set(plan.results)
    passed = sorted(computed & read)
    read |= set(plan.updates.values())
    kept = tuple(value - first for value in range(first, plan.arguments) if value in read)
    once = _numbered(plan, [*range(first, plan.arguments)], steps, tuple(passed))
    arguments = [*range(first), *(first + position for position in kept), *passed]
    return Preparation(once, _numbered(plan, arguments, rest, plan.results), kept)


def _once(plan: Plan) -> frozenset[int]:
    """Return the numbers of the steps that run once: their functions are marked, or they are views of such values."""
    results = set(plan.results)
    for step in reversed(plan.steps):
        if step.is_view and results & set(step.outputs):
            results.update(step.inputs)
    marked: set[int] = set()
    fixed = {*range(plan.arguments - plan.bound, plan.arguments), *plan.constants}
    computed: set[int] = set()
    for number, step in enumerate(plan.steps):
        if step.is_copy or not fixed.issuperset(step.inputs) or results & set(step.outputs):
            continue
        if step.is_once or (step.is_view and computed & set(step.inputs)):
            marked.add(number)
            fixed.update(step.outputs)
            computed.update(step.outputs)
        elif step.is_view:
            fixed.update(step.outputs)
    return frozenset(marked)


def _views_for(plan: Plan, marked: frozenset[int]) -> frozenset[int]:
    """Return the numbers of the views of bound tensors that marked steps read; calls may read them, too."""
    needed = {value for number in marked for value in plan.steps[number].inputs}
    views = set()
    for number, step in reversed(list(enumerate(plan.steps))):
        if step.is_view and number not in marked and needed & set(step.outputs):
            views.add(number)
            needed.update(step.inputs)
    return frozenset(views)


def _numbered(plan: Plan, arguments: list[int], steps: list[Step], results: tuple[int, ...]) -> Plan:
    """Return the plan of some steps, whose values are numbered anew: arguments first."""
    used = {value for step in steps for value in (*step.inputs, *step.outputs)} | set(results)
    used |= set(plan.updates) & used
    order = [*arguments, *sorted(used - set(arguments))]
    number = {value: position for position, value in enumerate(order)}
    return Plan(
        len(arguments),
        [plan.values[value] for value in order],
        {number[value]: constant for value, constant in plan.constants.items() if value in number},
        [
            replace(step, inputs=tuple(number[v] for v in step.inputs), outputs=tuple(number[v] for v in step.outputs))
            for step in steps
        ],
        tuple(number[value] for value in results),
        {
            number[value]: number[argument]
            for value, argument in plan.updates.items()
            if value in number and argument in number
        },
        plan.has_parts,
    )
