"""Distribute the iterations of parallel loops evenly over tasks, neighbouring iterations to one thread.

TVM gives all but the last task ceil(iterations / tasks) iterations: of ten in 32 tasks, the first of two threads has
all, and of 33 it has 32.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.toolchain.tvm_names import PrimFunc, structural_map, tirx


def in_even_tasks(function: PrimFunc, tasks: int) -> PrimFunc:
    """Return `function` with its parallel loops over `tasks` tasks."""

    def loop(node: Any) -> Any:
        is_fit = node.kind == tirx.ForKind.PARALLEL and tasks > 1
        return _over_tasks(node, tasks) if is_fit and not _is_even(node.extent, tasks) else node

    return function.with_body(structural_map(function.body, (tirx.For, loop), order="post"))


def _is_even(extent: Any, tasks: int) -> bool:
    return isinstance(extent, tirx.IntImm) and extent.value % tasks == 0


def _over_tasks(loop: Any, tasks: int) -> Any:
    """Return the loop over tasks. Task t begins with iteration ceil(t · extent / tasks)."""
    variable, kind = loop.loop_var, str(loop.loop_var.ty.dtype)
    task, of_all = tirx.Var("task", loop.loop_var.ty), tirx.IntImm(kind, tasks)
    share, remainder = tirx.Div(loop.extent, of_all), tirx.Mod(loop.extent, of_all)

    def first(number: Any) -> Any:
        # Not of the whole extent: its product with the number of tasks may overflow the loop's type.
        return number * share + tirx.Div(number * remainder + tirx.IntImm(kind, tasks - 1), of_all)

    start = first(task)
    inner = tirx.For(
        variable, loop.min + start, first(task + tirx.IntImm(kind, 1)) - start, tirx.ForKind.SERIAL, loop.body
    )
    outer = tirx.IntImm(kind, 0), tirx.IntImm(kind, tasks)
    return tirx.For(task, *outer, tirx.ForKind.PARALLEL, inner)
