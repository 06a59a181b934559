"""A pass of relax → tir: carries the user's lines from the names of Relax bindings into TIR blocks.

Takes a legalised module whose Relax function has the attribute ``mlirtri.locations`` (binding name → location).
Gives the same module where every block that has no ``mlirtri.loc`` yet has its binding's. A PrimFunc called from
two lines is cloned, one per line, since its blocks can carry only one.
"""

from __future__ import annotations

from mlirtri.lowering.toolchain.tvm_attributes import BINDING_LOCATIONS, LOCATION
from mlirtri.lowering.toolchain.tvm_names import BlockBuilder, IRModule, PrimFunc, SBlock, ir, relax, structural_map
from mlirtri.lowering.toolchain.tvm_passes import relax_functions

CALL_TIR = ir.Op.get("relax.call_tir")


def locate_blocks(mod: IRModule) -> IRModule:
    """The module with a location on every block whose line is known."""
    functions = relax_functions(mod)
    if not any(BINDING_LOCATIONS in (function.attrs or {}) for _, function in functions):
        return mod
    clones = _Clones(mod)
    located = {name: _redirect(function, clones) for name, function in functions}
    result = clones.builder.get()
    for name, function in located.items():
        result.update_func(result.get_global_var(name), function)
    return result


class _Clones:
    """Which clone of a PrimFunc stands for which line; the first line keeps the function's own name."""

    def __init__(self, mod: IRModule):
        self.builder = BlockBuilder(mod)
        self._original = {gv.name_hint: function for gv, function in mod.functions_items()}
        self._clones: dict[tuple[str, str | None], ir.GlobalVar] = {}

    def at(self, callee: ir.GlobalVar, location: str | None) -> ir.GlobalVar:
        """The function to call instead of `callee` on this line."""
        key = (callee.name_hint, location)
        if key not in self._clones:
            located = with_location(self._original[callee.name_hint], location)
            if any(name == callee.name_hint for name, _ in self._clones):
                self._clones[key] = self.builder.add_func(located, callee.name_hint)
            else:
                self.builder.update_func(callee, located)
                self._clones[key] = callee
        return self._clones[key]


def _redirect(function: relax.Function, clones: _Clones) -> relax.Function:
    locations = (function.attrs or {}).get(BINDING_LOCATIONS, {})

    def visit(binding):
        call = binding.value
        if not isinstance(call, relax.Call) or call.op != CALL_TIR:
            return binding
        location = locations.get(binding.var.name)
        callee = clones.at(call.args[0], location and str(location))
        if callee.same_as(call.args[0]):
            return binding
        return relax.VarBinding(
            binding.var, relax.Call(call.op, [callee, *call.args[1:]], call.attrs, call.ty_args, call.span)
        )

    return structural_map(function, (relax.VarBinding, visit), order="post")


def with_location(function: PrimFunc, location: str | None) -> PrimFunc:
    """`function` with `location` on each of its blocks that has none; the root block stays bare."""
    if location is None:
        return function

    def visit(block):
        if LOCATION in block.annotations or block.name_hint == "root":
            return block
        return SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, block.body, block.init,
            block.alloc_buffers, block.match_buffers, {**block.annotations, LOCATION: location}, block.span,
        )  # fmt: skip

    return function.with_body(structural_map(function.body, (SBlock, visit), order="post"))
