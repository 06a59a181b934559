"""Imported Relax → `relax`: one Relax function, `context.kernel`, with all calls inlined and nested results flat.

Its bound parameters (`context.params`, and large constants) come last; the attribute ``mlirtri.bound`` names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlirtri.errors import ArgumentMismatchError, UnsupportedOperationError
from mlirtri.lowering.core.interface import kernel_names
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_relax.types import sizes_in
from mlirtri.lowering.importers.normalize.constants import LARGEST_LITERAL
from mlirtri.lowering.mlir_common.attributes import BOUND
from mlirtri.lowering.mlir_common.constants import array_of
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    GlobalVar,
    IRModule,
    PrimFunc,
    Var,
    relax,
    structural_map,
    structural_walk,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir
from mlirtri.lowering.toolchain.tvm_passes import Pass, bindings_of, operator_of, relax_functions, run_pass, run_passes

MAX_CALL_DEPTH = 32


def lower(mod: IRModule, context: CompileContext) -> IRModule:
    """Bring `mod` into the normal form; raises `UnsupportedOperationError`, `ArgumentMismatchError`."""
    mod = run_passes(
        mod,
        (
            Pass("OneEntry", lambda mod: _with_one_entry(mod, context.kernel)),
            Pass("KnownShapes", lambda mod: _with_known_shapes(mod, context.shapes)),
            Pass("BoundParameters", lambda mod: _with_bound_parameters(mod, context)),
            Pass("UpdatesOfArguments", _checked_updates),
            Pass("FlatResults", _with_flat_results),
        ),
        context,
    )
    return run_pass(mod, Pass("Normalize", relax.transform.Normalize()))


def entry_of(mod: IRModule) -> tuple[GlobalVar, relax.Function]:
    """Return the only Relax function and its global variable."""
    [(name, function)] = relax_functions(mod)
    return mod.get_global_var(name), function


def _with_one_entry(mod: IRModule, entry: str) -> IRModule:
    others = dict(relax_functions(mod))
    kernels = kernel_names(list(others))
    name = next(other for other in others if kernels[other] == entry)
    function = others[name]
    for _ in range(MAX_CALL_DEPTH):
        called = _called(function, others)
        if name in called:
            raise UnsupportedOperationError(f"the Relax function {name!r} calls itself", help="write it as operators")
        if not called:
            return _without_others(mod, entry, function)
        function = function.inline_functions({callee: others[callee] for callee in called})
    raise UnsupportedOperationError(f"what the Relax function {name!r} calls never ends", help="write it as operators")


def _called(function: relax.Function, others: dict[str, relax.Function]) -> list[str]:
    names: dict[str, None] = {}

    def note(call: relax.Call) -> None:
        if isinstance(call.op, GlobalVar) and call.op.name_hint in others:
            names[call.op.name_hint] = None

    structural_walk(function.body, (relax.Call, note), order="pre")
    return list(names)


def _without_others(mod: IRModule, entry: str, function: relax.Function) -> IRModule:
    primfuncs = {callee: function for callee, function in mod.functions_items() if isinstance(function, PrimFunc)}
    named = function.with_attrs({"global_symbol": entry})
    module = IRModule({**primfuncs, GlobalVar(entry): named}, attrs=mod.attrs, global_infos=mod.global_infos)
    return relax.transform.DeadCodeElimination([entry])(module)


def _with_known_shapes(mod: IRModule, shapes: Mapping[str, Sequence[int]]) -> IRModule:
    callee, function = entry_of(mod)
    sizes: dict[Var, int] = {}
    for parameter in function.params:
        if parameter.name in shapes:
            _bind_sizes(parameter, shapes[parameter.name], sizes)
    if unknown := [name for name in shapes if name not in {parameter.name for parameter in function.params}]:
        raise ArgumentMismatchError(f"shapes names {unknown[0]!r}, which is not a parameter")
    return _updated(mod, callee, function.bind_symbolic_vars(sizes)) if sizes else mod


def _bind_sizes(parameter: relax.Var, shape: Sequence[int], bindings: dict[Var, int]) -> None:
    sizes = sizes_in(parameter.ty)
    is_consistent = len(sizes) == len(shape)
    for size, value in zip(sizes, shape, strict=False):
        if isinstance(size, tirx.Var):
            is_consistent &= bindings.setdefault(size, value) == value
        elif isinstance(size, tirx.IntImm):
            is_consistent &= int(size.value) == value
    if not is_consistent:
        raise ArgumentMismatchError(f"{parameter.name!r} of {parameter.ty} cannot have the shape {tuple(shape)}")


def _checked_updates(mod: IRModule) -> IRModule:
    """Refuse in-place calls except those that this package emits: of arguments, with their new contents as results."""
    _, function = entry_of(mod)
    parts: dict[relax.Var, tuple[Expr, int]] = {}
    for binding in bindings_of(function):
        value = getattr(binding, "value", None)
        if isinstance(value, relax.TupleGetItem):
            parts[binding.var] = (value.tuple_value, int(value.index))
    returned = function.body.body
    results = list(returned.fields) if isinstance(returned, relax.Tuple) else [returned]
    for binding in bindings_of(function):
        if operator_of(binding) != "relax.call_tir_inplace":
            continue
        arguments = list(binding.value.args[1].fields)
        for position, argument in enumerate(map(int, binding.value.attrs.inplace_indices)):
            if argument < 0:
                continue
            is_own = argument < len(function.params) and arguments[argument].same_as(function.params[argument])
            is_returned = returned.same_as(binding.var) or (
                position < len(results) and _is_part(results[position], binding.var, position, parts)
            )
            if not is_own or not is_returned:
                raise UnsupportedOperationError(
                    f"{binding.var.name} is computed in place of a value that is not an argument of the function",
                    help="give it its own memory: call_tir instead of call_tir_inplace",
                )
    return mod


def _is_part(value: Expr, call: relax.Var, position: int, parts: dict[relax.Var, tuple[Expr, int]]) -> bool:
    if isinstance(value, relax.TupleGetItem):
        return value.tuple_value.same_as(call) and int(value.index) == position
    if value in parts:
        return parts[value][0].same_as(call) and parts[value][1] == position
    return position == 0 and value.same_as(call)


def _with_bound_parameters(mod: IRModule, context: CompileContext) -> IRModule:
    callee, function = entry_of(mod)
    for parameter in function.params:
        if not isinstance(parameter.ty, (relax.TensorType, tvm_ir.PrimType)):
            raise UnsupportedOperationError(
                f"the parameter {parameter.name} of a Relax function is not a tensor", help="pass its parts one by one"
            )
    constants: dict[str, tuple[relax.Var, np.ndarray]] = {}

    def visit(constant: Expr) -> Expr:
        return _parameter(constant, constants, context)

    body = structural_map(function.body, (tvm_ir.GenericConst, visit), order="post")
    unbound = [parameter for parameter in function.params if parameter.name not in context.params]
    bound = [parameter for parameter in function.params if parameter.name in context.params]
    bound += [variable for variable, _ in constants.values()]
    for name, (_, array) in constants.items():
        context.params[name] = array
    changed = relax.Function([*unbound, *bound], body, function.ret_ty, function.is_pure, function.attrs)
    if bound:
        changed = changed.with_attrs({BOUND: [parameter.name for parameter in bound]})
    return _updated(mod, callee, changed)


def _parameter(constant: Expr, constants: dict[str, tuple[relax.Var, np.ndarray]], context: CompileContext) -> Expr:
    array = array_of(constant) if isinstance(constant.ty, relax.TensorType) else None
    if array is None or array.size <= LARGEST_LITERAL or (array == array.flat[0]).all():
        return constant
    for variable, other in constants.values():
        if other.dtype == array.dtype and other.shape == array.shape and other.tobytes() == array.tobytes():
            return variable
    name, count = "constant", 0
    while name in constants or name in context.params:
        name, count = f"constant_{count}", count + 1
    constants[name] = (relax.Var(name, constant.ty), array)
    return constants[name][0]


def _with_flat_results(mod: IRModule) -> IRModule:
    callee, function = entry_of(mod)
    kind = function.ret_ty
    if not isinstance(kind, relax.TupleType) or not any(isinstance(field, relax.TupleType) for field in kind.fields):
        return mod
    body = function.body
    flat = relax.SeqExpr(body.blocks, relax.Tuple(_leaves(body.body, kind)))
    result = relax.TupleType(_leaf_types(kind))
    changed = relax.Function(function.params, flat, result, function.is_pure, function.attrs)
    return _updated(mod, callee, changed)


def _leaf_types(kind: tvm_ir.Type) -> list[tvm_ir.Type]:
    if not isinstance(kind, relax.TupleType):
        return [kind]
    return [leaf for field in kind.fields for leaf in _leaf_types(field)]


def _leaves(value: Expr, kind: tvm_ir.Type) -> list[Expr]:
    if not isinstance(kind, relax.TupleType):
        return [value]
    is_tuple = isinstance(value, relax.Tuple)
    parts = value.fields if is_tuple else [relax.TupleGetItem(value, position) for position in range(len(kind.fields))]
    return [leaf for part, field in zip(parts, kind.fields, strict=True) for leaf in _leaves(part, field)]


def _updated(mod: IRModule, callee: GlobalVar, function: relax.Function) -> IRModule:
    functions = {**dict(mod.functions_items()), callee: function}
    return IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
