"""Bufferize functions on tensors: results are written into buffers that the caller passes.

Gives the same public functions over memrefs, with one more argument per result and no result. Only arguments with
``mlirtri.updated_by`` are written: their new content has no other buffer; a result that is an argument, or that is
returned twice, is copied. The module gets the attributes `SIGNATURE`, `UPDATES` and those of `note_counts`. Refuses
arguments and results that are not tensors.

    func @f(%a: tensor<4xf32>) -> tensor<4xf32>   ──►   func @f(%a: memref<4xf32>, %out: memref<4xf32>)
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import bufferization, func, ir, memref, operations_named, public_functions
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.external.calls import refuse_without_tvm
from mlirtri.lowering.fusion.cost_guard import RESHAPES
from mlirtri.lowering.mlir_backend.bufferize import carried_buffers, destinations, reshaped_updates, reuse
from mlirtri.lowering.mlir_backend.bufferize.kernels import note_counts
from mlirtri.lowering.mlir_common import memory_spaces
from mlirtri.lowering.mlir_common.aliasing import is_content_of, may_share, terminator
from mlirtri.lowering.mlir_common.attributes import SIGNATURE, UPDATES, note_strides
from mlirtri.lowering.mlir_common.cloning import copies_to_linalg
from mlirtri.lowering.mlir_common.imperative import UPDATED_BY, is_imperative, updates_of
from mlirtri.lowering.mlir_common.reading import definition
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

BUFFERIZE = "one-shot-bufferize{{bufferize-function-boundaries=true {}}}".format
IDENTITY_LAYOUT = "function-boundary-type-conversion=identity-layout-map"
FROM_TENSORS = (
    Pass("eliminate-empty-tensors", "the last operation writes straight into the caller's buffer"),
    Pass(
        BUFFERIZE(IDENTITY_LAYOUT),
        "tensors become buffers; copies only where a value would be overwritten while it is still needed",
    ),
)
FROM_LOOPS = (
    FROM_TENSORS[0],
    Pass(
        BUFFERIZE(f"{IDENTITY_LAYOUT} allow-return-allocs-from-loops=true"),
        "tensors become buffers, which loops and updates write in place; copies as above",
    ),
)
TO_MEMREF = (
    Pass("func.func(promote-buffers-to-stack{max-alloc-size-in-bytes=1024})", "small buffers need no malloc"),
    Pass(
        "buffer-deallocation-pipeline",
        "every buffer that is allocated is freed; equal views are made once, and nothing dead is left",
    ),
    Pass("convert-bufferization-to-memref", "what bufferization still says about buffers becomes plain memref"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Bufferize `module` in place; raises `PassFailedError` and `UnsupportedOperationError`.

    The memrefs are row-major. An attribute of the module has the strides of arguments that are not.
    """
    refuse_without_tvm(module)
    imperative = is_imperative(module)
    has_tiles = memory_spaces.has_tiles(module)
    with module.context, ir.Location.unknown():
        if has_tiles:
            run_rewrite("hide-memory-spaces", memory_spaces.hide, module, context)
        note_signature(module)
        run_rewrite("one-empty-per-loop", reuse.one_empty_per_loop, module, context)
        if imperative:
            run_rewrite("insert-into-latest", destinations.insert_into_latest, module, context)
            run_rewrite("splats-to-fills", reuse.splats_to_fills, module, context)
            run_rewrite("constant-bodies-to-fills", reuse.constant_bodies_to_fills, module, context)
            run_rewrite("fill-at-use", destinations.fill_at_use, module, context)
        else:
            run_rewrite("one-fill-per-use", reuse.one_fill_per_use, module, context)
        run_rewrite("concat-to-slices", reuse.concat_to_slices, module, context)
        run_rewrite("elementwise-in-place", reuse.elementwise_in_place, module, context)
        run_rewrite("separate-shared-memory", destinations.separate_shared, module, context)
        run_rewrite("results-to-arguments", results_to_arguments, module, context)
        if imperative:
            run_rewrite("while-carries-everything", carried_buffers.carry_every_value, module, context)
            if has_tiles and context.target.is_cuda:
                # Tiles stay apart from the arrays that they are copied to: their memory is nearer.
                run_rewrite("tiles-apart", tiles_apart, module, context)
            run_rewrite("compute-in-destinations", destinations.rewrite, module, context)
            run_rewrite("one-buffer-per-carried-value", carried_buffers.rewrite, module, context)
        run_passes(module, FROM_LOOPS if imperative else FROM_TENSORS, context)
        if imperative:
            run_rewrite("updates-in-another-shape", reshaped_updates.rewrite, module, context)
        run_passes(module, TO_MEMREF, context)
        run_rewrite("strided-copies-to-linalg", strided_copies_to_linalg, module, context)
        if has_tiles:
            run_rewrite("memory-spaces", memory_spaces.note, module, context)
        note_counts(module)
    return module


def tiles_apart(module: ir.Module) -> None:
    """Allocate an array of constant size for each use of an empty one: none becomes a part of what it is copied to."""
    for empty in operations_named(module, "tensor.empty"):
        kind = empty.results[0].type
        if not kind.has_static_shape:
            continue
        for use in list(empty.results[0].uses):
            with ir.InsertionPoint(use.owner), use.owner.location:
                use.owner.operands[use.operand_number] = bufferization.alloc_tensor(kind, [])
        empty.operation.erase()


def note_signature(module: ir.Module) -> None:
    """Record the signature, which alone tells later stages which buffers are results and what shapes they have."""
    if len(functions := public_functions(module)) != 1:
        return
    module.operation.attributes[SIGNATURE] = functions[0].attributes["function_type"]
    note_strides(module, functions[0])
    if updates := updates_of(functions[0]):
        pairs = [number for pair in sorted(updates.items()) for number in pair]
        module.operation.attributes[UPDATES] = ir.DenseI64ArrayAttr.get(pairs)


def results_to_arguments(module: ir.Module) -> None:
    """Give each public function a buffer per result, which it writes, in place of the result."""
    for function in public_functions(module):
        _results_of_function_to_arguments(function)


def _results_of_function_to_arguments(function: func.FuncOp) -> None:
    _refuse_what_is_no_tensor(function, [*function.type.inputs, *function.type.results])
    updates, block = updates_of(function), function.regions[0].blocks[0]
    end, top = terminator(block), ir.InsertionPoint.at_block_begin(block)
    inputs, results = list(block.arguments), list(end.operands)
    updated = {inputs[position]: results[result] for position, result in updates.items()}
    for position, value in enumerate(results):
        if position in updates.values():
            continue
        buffer = block.add_argument(ir.MemRefType.get(value.type.shape, value.type.element_type), value.location)
        value, buffer = _before_reshapes(value, buffer, top)
        # The old content of an updated argument is read before the update.
        with top if value in updated else ir.InsertionPoint(end), end.location:
            # restrict: the caller's outputs overlap nothing.
            bufferization.materialize_in_destination(None, value, buffer, restrict=True, writable=True)
    with ir.InsertionPoint(end), end.location:
        _update(updated)
        func.ReturnOp([])
    end.erase()
    _set_arguments(function, len(inputs), updates)


def _update(updated: dict[ir.Value, ir.Value]) -> None:
    """Turn each updated argument into a buffer, into which its new content is written at the end."""
    for argument, value in updated.items():
        if is_content_of(value, argument):
            carried_buffers.keep_for_late_readers(value, argument)
        else:
            carried_buffers.own_memory(value, argument)
    written = [(argument, _new_content(argument, value, updated)) for argument, value in updated.items()]
    for argument, value in written:
        kind = ir.MemRefType.get(argument.type.shape, argument.type.element_type)
        with ir.InsertionPoint.at_block_begin(argument.owner), argument.location:
            tensor_of = bufferization.to_tensor(argument.type, argument, restrict=True, writable=True)
        argument.replace_all_uses_except(tensor_of, tensor_of.owner.operation)
        argument.set_type(kind)
        value = tensor_of if value == argument else value
        # Upstream's analysis would see a conflict where a branch yields the buffer's old content.
        if not is_content_of(value, tensor_of):
            value = bufferization.materialize_in_destination(value.type, value, tensor_of)
        bufferization.materialize_in_destination(None, value, argument, writable=True)


def _new_content(argument: ir.Value, value: ir.Value, updated: dict[ir.Value, ir.Value]) -> ir.Value:
    """Return `value`, or a copy where it lies in another argument that is updated as well."""
    shares = any(may_share(value, other) for other in updated if other != argument)
    return carried_buffers.keep_until(value) if shares else value


def _set_arguments(function: func.FuncOp, inputs: int, updates: dict[int, int]) -> None:
    kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
    read_only = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
    attributes = [read_only] * inputs + [ir.DictAttr.get({})] * (len(kinds) - inputs)
    for position, result in updates.items():
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), result)
        attributes[position] = ir.DictAttr.get({UPDATED_BY: number})
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _before_reshapes(value: ir.Value, buffer: ir.Value, top: ir.InsertionPoint) -> tuple[ir.Value, ir.Value]:
    """Return a result before its reshape, with a matching view of the output: the reshape itself would copy.

    Views stand at `top` of the function, so that the operations that compute the result can write there.
    """
    while (reshape := definition(value)) is not None and reshape.name in RESHAPES:
        if not value.type.has_static_shape and reshape.name != "tensor.expand_shape":
            break
        value = reshape.operands[0]
        kind = ir.MemRefType.get(value.type.shape, value.type.element_type)
        groups = reshape.attributes["reassociation"]
        if reshape.name == "tensor.expand_shape":
            buffer = memref.collapse_shape(kind, buffer, groups, ip=top)
        else:
            buffer = memref.expand_shape(kind, buffer, groups, [], value.type.shape, ip=top)
    return value, buffer


def _refuse_what_is_no_tensor(function: func.FuncOp, kinds: list[ir.Type]) -> None:
    for kind in kinds:
        if not isinstance(kind, ir.RankedTensorType):
            raise UnsupportedOperationError(
                f"the function {function.name.value!r} takes or returns a {kind}; "
                "the mlir pipeline has ranked tensors only",
                span_of(function.location),
                help='use pipeline="linalg", or give the value the type tensor<…>',
            )


def strided_copies_to_linalg(module: ir.Module) -> None:
    """Turn `memref.copy` of strided views, which needs a runtime library, into `linalg.copy`, a loop nest."""
    copies_to_linalg(module, lambda source, target: not source.layout == target.layout == _identity(source))


def _identity(type_: ir.MemRefType) -> ir.Attribute:
    return ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
