"""The rule "MetaSchedule": schedules that TVM's MetaSchedule searches for, by measuring.

Each function gets the fastest schedule that was measured and that computes what the default one does; where that is the
default one, the rule leaves the function to the rules after it. Functions of loops and of sizes known at run time have
no search space. Refuses, by `DeviceError`, to measure where there is no device.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from mlirtri.errors import CodegenError, DeviceError
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tuning import Budget, budget_of, recall, remember
from mlirtri.lowering.external.vdevices import is_for
from mlirtri.lowering.schedule.meta.process import SearchResult, Task, Tuner
from mlirtri.lowering.tir.blocks import leaf_blocks
from mlirtri.lowering.toolchain.tvm_names import (
    IMPERATIVE,
    KERNEL_LOCATIONS,
    LOCATION,
    PINNED,
    IRModule,
    PrimFunc,
    Schedule,
    apply_trace,
    ir,
    script_of,
    tvm,
)
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs, source_span

MAIN = "main"
"""The name that MetaSchedule gives the function in traces."""
Rule = Callable[[PrimFunc, Target], "Schedule | None"]
DefaultSchedule = Callable[[PrimFunc, Target], PrimFunc]
"""Returns a function with the schedule that it has without a search."""


def meta_rule(mod: IRModule, targets: list[Target], context: CompileContext, default: DefaultSchedule) -> Rule:
    """Return the rule that replays what is known of the module's functions, after searching for the rest."""
    findings = _findings(mod, targets, context, default)

    def replay(function: PrimFunc, target: Target) -> Schedule | None:
        finding = findings.get(task_key(function, target), {})
        if "failure" in finding:
            raise CodegenError(finding["failure"])
        trace = finding.get("trace")
        return None if trace is None else replayed(function, trace)

    return replay


def replayed(function: PrimFunc, trace: str) -> Schedule:
    """Return the schedule of a function that a trace builds; TVM raises if it does not fit."""
    schedule = Schedule(IRModule({MAIN: function}), error_render_level="fast")
    apply_trace(schedule, ir.load_json(trace))
    return schedule


def task_key(function: PrimFunc, target: Target, measured: bool = True) -> str:
    """Return what the best schedule of a function depends on: text without positions and name, target, compiler."""
    bare = function
    for attribute in (KERNEL_LOCATIONS, "global_symbol"):
        bare = bare.without_attr(attribute) if attribute in (bare.attrs or {}) else bare
    string = r'"(?:[^"\\]|\\.)*"'
    keys = "|".join(map(re.escape, (LOCATION, KERNEL_LOCATIONS)))
    text = re.sub(rf'"(?:{keys})": (?:{string}|\[(?:{string},? ?)*\]),? ?', "", script_of(bare))
    facts = (text, repr(target), str(tvm_target(target)), str(PINNED), str(measured))
    return "schedule-" + blake2b("\0".join(facts).encode(), digest_size=16).hexdigest()


def _findings(
    mod: IRModule, targets: list[Target], context: CompileContext, default: DefaultSchedule
) -> dict[str, dict[str, Any]]:
    """Return what is known of each function that can be searched, by `task_key`."""
    budget = budget_of(context.schedule) or Budget()
    recalled, unknown = {}, {}
    for name, function, target in _tasks(mod, targets):
        key = task_key(function, target)
        if key in recalled or key in unknown:
            continue
        if (finding := _recalled(function, target, budget)) is not None:
            recalled[key] = finding
        else:
            unknown[key] = (name, function, target)
    if budget.trials:
        _refuse_without_device(unknown.values())
    return {**recalled, **_searched(unknown, budget, context, default)}


def _tasks(mod: IRModule, targets: list[Target]) -> list[tuple[str, PrimFunc, Target]]:
    return [
        (name, function, target)
        for target in targets
        for name, function in prim_funcs(mod)
        if is_for(function, target.kind) and _has_space(function)
    ]


def _has_space(function: PrimFunc) -> bool:
    if IMPERATIVE in (function.attrs or {}):
        return False
    try:
        return bool(leaf_blocks(Schedule(function)))
    except (ValueError, tvm.error.InternalError):
        return False


def _recalled(function: PrimFunc, target: Target, budget: Budget) -> dict[str, Any] | None:
    """Return a recorded finding of at least this budget; a measured one is better than an unmeasured one."""
    finding = recall(task_key(function, target))
    if not budget.trials:
        return finding or recall(task_key(function, target, measured=False))
    if finding is None or finding["budget"][0] < budget.trials or finding["budget"][1] < budget.seconds:
        return None
    return finding


def _refuse_without_device(tasks: Any) -> None:
    has_cuda = tvm.get_global_func("device_api.cuda", allow_missing=True) is not None and bool(tvm.cuda(0).exist)
    for name, function, target in tasks:
        if target.is_cuda and not has_cuda:
            raise DeviceError(
                f'schedule "meta" measures {name} on a CUDA device, and TVM finds none here',
                source_span(function),
                help='schedule="meta:trials=0" takes a schedule that nobody has measured; "default" needs no device',
            )


def _searched(
    tasks: dict[str, Any], budget: Budget, context: CompileContext, default: DefaultSchedule
) -> dict[str, dict[str, Any]]:
    findings = {}
    deadline = time.monotonic() + budget.seconds
    with Tuner() as tuner:
        for number, (key, (name, function, target)) in enumerate(tasks.items()):
            seconds = max(1.0, (deadline - time.monotonic()) / (len(tasks) - number))
            task = Task(name, function, target, default(function, target) if budget.trials else None)
            result = tuner.search(task, Budget(budget.trials, seconds), context.on_trial)
            if result.failure is not None:
                findings[key] = {"failure": result.failure}
            else:
                findings[key] = _finding(name, result, budget)
                remember(key if budget.trials else task_key(function, target, measured=False), findings[key])
    return findings


def _finding(name: str, result: SearchResult, budget: Budget) -> dict[str, Any]:
    return {
        "name": name, "trace": result.trace, "seconds": result.seconds, "default_seconds": result.default,
        "trials": result.trials, "budget": [budget.trials, budget.seconds],
    }  # fmt: skip
