"""tir → scheduled: every PrimFunc gets loops, threads and vectors for its target.

Takes the module of `tir` and `context.schedule`: ``"default"``, ``"none"`` which leaves CPU loops as they are, or
``"meta"`` which searches before (`meta_schedule.py`).
Gives the module with the same Relax function; each PrimFunc's attribute ``mlirtri.schedule`` names the rule that fired.
Rules are tried in order on one function at a time. One that raises is passed over and named in the attribute
``mlirtri.schedule_failures``, or with ``MLIRTRI_FORCE_SCHEDULES`` on a CPU an error, unless it finds that it has no
vectors for the function; the last rule of a target takes everything, so that no kernel stays unbound on CUDA.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri import settings
from mlirtri.errors import CodegenError
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.schedule_option import budget_of
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.external.device_functions import is_for
from mlirtri.lowering.external.vdevices import targets_in
from mlirtri.lowering.schedule.cpu.rules import CPU_RULES
from mlirtri.lowering.schedule.cuda.rules import CUDA_RULES
from mlirtri.lowering.tir.blocks import NotStaticLoopsError, PartedLanesError
from mlirtri.lowering.toolchain.tvm_attributes import IS_SCHEDULED, KERNEL_LOCATIONS, SCHEDULE_FAILURES, SCHEDULE_RULE
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, Schedule
from mlirtri.lowering.toolchain.tvm_passes import (
    Pass,
    locations_of,
    place_of,
    prim_funcs,
    run_passes,
    short_message,
)

NAME = "global_symbol"
Rule = Callable[[PrimFunc, Target], "Schedule | None"]


def lower(mod: IRModule, context: CompileContext) -> IRModule:
    """The module with every PrimFunc scheduled; raises `CodegenError` on the line of one that no rule takes."""
    targets = [each for each in targets_in(mod, context.target) if each.is_cuda or context.schedule != "none"]
    mod = _with_lines(mod) if targets else mod
    searched = _searched(mod, targets, context)
    for target in targets:
        rules = (*searched, *_rules(target))
        passes = tuple(Pass(name, _applying(name, rule, target)) for name, rule in rules)
        with tvm_target(target):
            mod = run_passes(mod, passes, context)
    for name, function in prim_funcs(mod):
        is_wanted = any(is_for(function, target.kind) for target in targets)
        if is_wanted and IS_SCHEDULED not in (function.attrs or {}):
            raise CodegenError(f"no schedule fits the kernel {name}", place_of(function))
    return mod


def _rules(target: Target) -> tuple[tuple[str, Rule], ...]:
    return CUDA_RULES if target.is_cuda else CPU_RULES


def _searched(mod: IRModule, targets: list[Target], context: CompileContext) -> tuple[tuple[str, Rule], ...]:
    if not targets or budget_of(context.schedule) is None:
        return ()
    from mlirtri.lowering.schedule.meta.rule import meta_rule

    return (("MetaSchedule", meta_rule(mod, targets, context)),)


def schedule_one(function: PrimFunc, target: Target) -> PrimFunc:
    """One function by the rules of its target, which is in scope."""
    for name, rule in _rules(target):
        function = _apply(name, rule, function, target)
        if IS_SCHEDULED in (function.attrs or {}):
            return function
    raise CodegenError("no schedule fits the kernel", place_of(function))


def _with_lines(mod: IRModule) -> IRModule:
    """The module with each PrimFunc's lines as its attribute, because blocks disappear into each other."""
    lines = {
        gv: function.with_attr(KERNEL_LOCATIONS, list(locations))
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc) and (locations := locations_of(function))
    }
    return IRModule({**dict(mod.functions_items()), **lines}, attrs=mod.attrs, global_infos=mod.global_infos)


def _applying(name: str, rule: Rule, target: Target) -> Callable[[IRModule], IRModule]:
    """A pass that schedules the functions which `rule` takes and leaves the others."""

    def run(mod: IRModule) -> IRModule:
        changed = {}
        for gv, function in mod.functions_items():
            is_open = isinstance(function, PrimFunc) and IS_SCHEDULED not in (function.attrs or {})
            if is_open and is_for(function, target.kind):
                # Rules try what they make, and what is tried under its own name need not be lowered again.
                named = function.with_attr(NAME, gv.name_hint)
                applied = _apply(name, rule, named, target)
                if not applied.same_as(named):
                    changed[gv] = applied if NAME in (function.attrs or {}) else applied.without_attr(NAME)
        return IRModule({**dict(mod.functions_items()), **changed}, attrs=mod.attrs) if changed else mod

    return run


def _with_failure(function: PrimFunc, failure: str) -> PrimFunc:
    return function.with_attr(SCHEDULE_FAILURES, [*(function.attrs or {}).get(SCHEDULE_FAILURES, []), failure])


def _apply(name: str, rule: Rule, function: PrimFunc, target: Target) -> PrimFunc:
    try:
        schedule = rule(function, target)
    except NotStaticLoopsError:
        return function
    except PartedLanesError as error:
        return _with_failure(function, f"{name}: {error}")
    except Exception as error:  # a rule's own mistake must not cost the user the kernel: the next rule is tried
        failure = f"{name}: {short_message(error).splitlines()[0]}"
        # Not on CUDA, where Dlight's rules are tried, and what fails or no launch can hold is passed over.
        if settings.get("MLIRTRI_FORCE_SCHEDULES") and not target.is_cuda:
            raise CodegenError(f"a schedule rule takes the kernel and fails: {failure}", place_of(function)) from error
        return _with_failure(function, failure)
    if schedule is None:
        return function
    (scheduled,) = [each for each in schedule.mod.functions.values() if isinstance(each, PrimFunc)]
    return scheduled.with_attr({SCHEDULE_RULE: name, IS_SCHEDULED: True})
