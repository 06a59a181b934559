"""A launch plan in two parts: what depends on bound tensors alone, and the rest."""

from __future__ import annotations

from mlirtri.lowering.runtime.launch_plan import Plan, Step, Value
from mlirtri.lowering.runtime.preparation import prepared

VALUE = Value((4,), "float32")


def plan(steps, results, bound=2, updates=None):
    count = 1 + max(number for step in steps for number in (*step.inputs, *step.outputs))
    return Plan(3, [VALUE] * count, {}, steps, results, updates or {}, bound=bound)


def test_marked_steps_and_views_of_their_results_run_once():
    steps = [
        Step("pack", (1,), (3,), is_once=True),
        Step(None, (3,), (4,)),
        Step("product", (0, 4, 2), (5,)),
    ]
    parts = prepared(plan(steps, (5,)))
    assert parts is not None
    assert [step.kernel for step in parts.once.steps] == ["pack", None]
    assert parts.once.arguments == 2
    assert parts.kept == (1,)
    assert parts.calls.arguments == 3  # the argument, the second bound tensor, the view of the packed first one
    assert parts.calls.steps == [Step("product", (0, 2, 1), (3,))]
    assert parts.calls.results == (3,)


def test_views_of_bound_tensors_are_made_where_they_are_read():
    steps = [
        Step(None, (1,), (3,)),
        Step("pack", (3,), (4,), is_once=True),
        Step(None, (2,), (5,)),
        Step("product", (0, 4, 5), (6,)),
    ]
    parts = prepared(plan(steps, (6,)))
    assert parts is not None
    assert [step.kernel for step in parts.once.steps] == [None, "pack"]
    assert [step.kernel for step in parts.calls.steps] == [None, "product"]
    assert parts.kept == (1,)


def test_results_and_what_depends_on_arguments_run_in_each_call():
    assert prepared(plan([Step("pack", (1,), (3,), is_once=True)], (3,))) is None
    assert prepared(plan([Step("pack", (0,), (3,), is_once=True), Step("sum", (3,), (4,))], (4,))) is None
    assert prepared(plan([Step("pack", (1,), (3,)), Step("sum", (3,), (4,))], (4,))) is None


def test_a_plan_with_its_preparation_survives_json():
    steps = [Step("pack", (1,), (3,), is_once=True), Step("sum", (0, 3), (4,))]
    whole = plan(steps, (4,))
    assert Plan.from_json(whole.to_json(), {}) == whole
