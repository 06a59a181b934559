"""tir → scheduled: every PrimFunc gets loops, threads and vectors for its target.

`context.schedule` is ``"default"``, ``"none"``, which leaves CPU loops as they are, or ``"meta"``, which searches first
(`meta/rule.py`). Each PrimFunc's attribute ``mlirtri.schedule`` names the rule that fired. Rules are tried in order;
the last rule of a target takes everything, so that no kernel stays unbound on CUDA. A rule that finds that it does not
apply returns None or raises `NotApplicableError`. One that fails in any other way is skipped and reported by
`CompileContext.skip`. The attribute ``mlirtri.schedule_failures`` names both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlirtri.errors import CodegenError, SkippedStep, UnsupportedOperationError
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tuning import budget_of
from mlirtri.lowering.external.vdevices import is_for, targets_in
from mlirtri.lowering.schedule.cpu.cpu_rules import CPU_RULES
from mlirtri.lowering.tir.blocks import NotApplicableError, NotStaticLoopsError
from mlirtri.lowering.toolchain.tvm_names import (
    IS_SCHEDULED,
    KERNEL_LOCATIONS,
    SCHEDULE_FAILURES,
    SCHEDULE_RULE,
    IRModule,
    PrimFunc,
    Schedule,
)
from mlirtri.lowering.toolchain.tvm_passes import Pass, locations_of, prim_funcs, run_passes, short_message, source_span

NAME = "global_symbol"
Rule = Callable[[PrimFunc, Target], "Schedule | None"]


def lower(mod: IRModule, context: CompileContext) -> IRModule:
    """Return the module with every PrimFunc scheduled; raises `CodegenError` on the line of one that no rule takes."""
    targets = [kind for kind in targets_in(mod, context.target) if kind.is_cuda or context.schedule != "none"]
    mod = _with_lines(mod) if targets else mod
    searched = _searched(mod, targets, context)
    for target in targets:
        rules = (*searched, *_rules(target))
        passes = tuple(Pass(name, partial(_schedule_with, name, rule, target, context)) for name, rule in rules)
        with tvm_target(target):
            mod = run_passes(mod, passes, context)
    for name, function in prim_funcs(mod):
        is_wanted = any(is_for(function, target.kind) for target in targets)
        if is_wanted and not _is_scheduled(function):
            raise CodegenError(f"no schedule fits the kernel {name}", source_span(function))
    return mod


def _rules(target: Target) -> tuple[tuple[str, Rule], ...]:
    if not target.is_cuda:
        return CPU_RULES
    from mlirtri.lowering.schedule.cuda.cuda_rules import (
        CUDA_RULES,
    )  # late: a compilation for CPUs needs none of its files

    return CUDA_RULES


def _is_scheduled(function: PrimFunc) -> bool:
    return IS_SCHEDULED in (function.attrs or {})


def _searched(mod: IRModule, targets: list[Target], context: CompileContext) -> tuple[tuple[str, Rule], ...]:
    if not targets or budget_of(context.schedule) is None:
        return ()
    from mlirtri.lowering.schedule.meta.rule import meta_rule

    return (("MetaSchedule", meta_rule(mod, targets, context, partial(_default_schedule, context))),)


def _default_schedule(context: CompileContext, function: PrimFunc, target: Target) -> PrimFunc:
    """Return one function scheduled by the rules of its target."""
    with tvm_target(target):
        for name, rule in _rules(target):
            function = _apply(name, rule, function, target, context)
            if _is_scheduled(function):
                return function
    raise CodegenError("no schedule fits the kernel", source_span(function))


def _with_lines(mod: IRModule) -> IRModule:
    """Return the module with each PrimFunc's source lines as its attribute, because schedules inline blocks away."""
    lines = {
        gv: function.with_attrs({KERNEL_LOCATIONS: list(locations)})
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc) and (locations := locations_of(function))
    }
    return IRModule({**dict(mod.functions_items()), **lines}, attrs=mod.attrs, global_infos=mod.global_infos)


def _schedule_with(name: str, rule: Rule, target: Target, context: CompileContext, mod: IRModule) -> IRModule:
    """Return the module with those functions scheduled that `rule` takes."""
    changed = {}
    for gv, function in mod.functions_items():
        if isinstance(function, PrimFunc) and not _is_scheduled(function) and is_for(function, target.kind):
            # Rules lower what they make; under its own name it need not be lowered again by the stage `llvm`.
            named = function.with_attrs({NAME: gv.name_hint})
            applied = _apply(name, rule, named, target, context)
            if not applied.same_as(named):
                changed[gv] = applied if NAME in (function.attrs or {}) else applied.without_attr(NAME)
    return IRModule({**dict(mod.functions_items()), **changed}, attrs=mod.attrs) if changed else mod


def _apply(name: str, rule: Rule, function: PrimFunc, target: Target, context: CompileContext) -> PrimFunc:
    """Return the function scheduled by the rule, or unscheduled where the rule does not apply or fails."""
    try:
        schedule = rule(function, target)
    except NotStaticLoopsError:
        return function
    except UnsupportedOperationError as error:
        raise error.at(source_span(function)) from None
    except NotApplicableError as error:
        return _with_failure(function, name, _first_line(error))
    except Exception as error:  # a mistake in a rule must not cost the user the kernel
        kernel = str((function.attrs or {}).get(NAME, context.kernel))
        context.skip(SkippedStep(name, kernel, _first_line(error), source_span(function)), error)
        return _with_failure(function, name, _first_line(error))
    if schedule is None:
        return function
    (scheduled,) = [member for member in schedule.mod.functions.values() if isinstance(member, PrimFunc)]
    return scheduled.with_attrs({SCHEDULE_RULE: name, IS_SCHEDULED: True})


def _first_line(error: Exception) -> str:
    return short_message(error).splitlines()[0]


def _with_failure(function: PrimFunc, rule: str, reason: str) -> PrimFunc:
    failures = [*(function.attrs or {}).get(SCHEDULE_FAILURES, []), f"{rule}: {reason}"]
    return function.with_attrs({SCHEDULE_FAILURES: failures})
