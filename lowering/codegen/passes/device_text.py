"""Passes that make the source of device functions shorter, after TVM's lowering.

Each takes and gives a module of device functions, and refuses nothing.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.statements import substituted
from mlirtri.lowering.toolchain.tvm_names import IRModule, structural_map, tirx


def without_unit_loops(mod: IRModule) -> IRModule:
    """Replace loops of one iteration by their bodies: TVM leaves one where a thread's loop had annotations."""
    unit_loops = (tirx.For, _body_of_unit)
    functions = {
        name: function.with_body(structural_map(function.body, unit_loops, order="post"))
        for name, function in mod.functions_items()
    }
    return IRModule(functions, attrs=mod.attrs)


def _body_of_unit(loop: Any) -> Any:
    is_unit = isinstance(loop.extent, tirx.IntImm) and loop.extent.value == 1
    return substituted(loop.body, loop.loop_var, loop.min) if is_unit and loop.thread_binding is None else loop
