"""Fuse operations on tensors into fewer, larger ones, by upstream MLIR passes: the stage `fused`.

%0 = a + b; %1 = %0 + a    (two linalg.generic)   ──►   one linalg.generic whose body adds twice
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, linalg_fill, operations_named, tensor
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.fusion import (
    cancel_reshapes,
    channels_last,
    cheap_producers,
    cost_guard,
    flatten_batches,
    hoist_invariants,
    merge_products,
    slices_of_heads,
    spread_reshapes,
    transposed_convolutions,
    widened_products,
)
from mlirtri.lowering.mlir_common import memory_spaces
from mlirtri.lowering.mlir_common.linalg_builder import generic, loop_extents, static_slice, zero
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

PREPARE = (
    Pass("canonicalize", "folds what is known now, drops dead operations"),
    Pass("cse", "the same value is computed once"),
    Pass("func.func(convert-elementwise-to-linalg)", "arith and math on whole tensors fuse like any other operation"),
    Pass("func.func(linalg-fold-unit-extent-dims)", "axes kept at size 1 meet their broadcast without a reshape"),
    Pass("canonicalize", "the reshapes of the pass before cancel out"),
)

FUSE = (
    Pass("func.func(linalg-fuse-elementwise-ops)", "elementwise producers move into the body of their only consumer"),
    Pass("canonicalize", "merges operands that became equal, drops unused ones: this opens new fusions"),
    Pass("cse", "bodies that became equal after fusion are computed once"),
    Pass("func.func(linalg-fuse-elementwise-ops)", "takes the fusions that merging operands opened"),
    Pass("canonicalize", "leaves no unused operand, empty or dead operation behind"),
)

AGAIN = (
    Pass("func.func(linalg-fuse-elementwise-ops)", "reshapes with one reader move through it"),
    Pass("canonicalize", "reshapes that meet their inverse cancel out"),
)

TIDY = (
    Pass("func.func(linalg-fold-unit-extent-dims)", "fusion moves reshapes through operations as axes of size 1"),
    Pass("canonicalize", "the reshapes of the pass before cancel out"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Fuse `module` in place; raises `PassFailedError`."""
    has_tiles = memory_spaces.has_tiles(module)
    with module.context, ir.Location.unknown():
        if has_tiles:
            run_rewrite("hide-memory-spaces", memory_spaces.hide, module, context)
        if transposed_convolutions.has_dilated_images(module):
            run_passes(module, PREPARE[:1], context)
            # A bias has to be an addition first.
            run_rewrite("start-transposed-from-zero", start_from_zero, module, context)
            run_rewrite("split-transposed-convolutions", transposed_convolutions.rewrite, module, context)
        run_rewrite("slice-unit-windows", slice_unit_windows, module, context)
        run_rewrite("widen-in-products", widened_products.rewrite, module, context)
        run_rewrite("start-products-from-zero", start_from_zero, module, context)
        run_rewrite("flatten-batches", flatten_batches.rewrite, module, context)
        run_rewrite("split-before-slicing", slices_of_heads.rewrite, module, context)
        if context.prepares:
            run_rewrite("merge-products", merge_products.rewrite, module, context)
        if context.target.kind == "cpu":
            run_rewrite("convolutions-to-channels-last", channels_last.rewrite, module, context)
        run_passes(module, PREPARE, context)
        # On a GPU it would be a launch of its own, and tiles are placed.
        if context.target.kind == "cpu" and not has_tiles and hoist_invariants.has_loops(module):
            run_rewrite("hoist-invariants", hoist_invariants.rewrite, module, context)
        run_rewrite("copy-cheap-producers", cheap_producers.rewrite, module, context)
        run_rewrite("guard-producers", partial(cost_guard.guard, prepares=context.prepares), module, context)
        if cost_guard.guard_groups(module):
            run_passes(module, FUSE[:1], context)
            cost_guard.release(module, cost_guard.GROUP)
        run_passes(module, FUSE, context)
        if cancel_reshapes.is_needed(module):
            run_rewrite("cancel-reshapes", cancel_reshapes.rewrite, module, context)
            run_passes(module, AGAIN, context)
        _spread_reshapes(module, context)
        run_rewrite("release-producers", cost_guard.release, module, context)
        if _reshapes_after_tidying(module, context) < _reshapes(module):
            run_passes(module, TIDY, context)
        if has_tiles:
            run_rewrite("memory-spaces", memory_spaces.note, module, context)
    return module


def _spread_reshapes(module: ir.Module, context: CompileContext) -> None:
    for _ in range(spread_reshapes.ROUNDS):
        if not spread_reshapes.is_needed(module):
            return
        run_rewrite("spread-reshapes", spread_reshapes.rewrite, module, context)
        run_passes(module, AGAIN, context)


def _reshapes(module: ir.Module) -> int:
    return sum(len(operations_named(module, name)) for name in cost_guard.RESHAPES)


def _reshapes_after_tidying(module: ir.Module, context: CompileContext) -> int:
    """Return how many reshapes TIDY would leave: it can be more, where the signature itself has axes of size 1."""
    trial = module.operation.clone()
    run_passes(trial, TIDY, replace(context, keep_passes=False))
    return _reshapes(trial)


PRODUCTS = ("linalg.conv_", "linalg.depthwise_conv_", "linalg.matmul", "linalg.batch_matmul", "linalg.matvec")
STARTS = ("linalg.fill", "tensor.empty")
"""Operations that make initial values at no cost."""


def start_from_zero(module: ir.Module) -> None:
    """Let products and convolutions accumulate from zero: a bias becomes an addition after them, which fuses.

    A bias that was broadcast only to accumulate into it is read as it was. Inside of loops the sum keeps accumulating.

        %b = broadcast %bias; %y = linalg.conv_2d … outs(%b)   ──►   %c = linalg.conv_2d … outs(zeros); %y = %c + %bias
    """
    for operation in operations_named(module, "linalg.*"):
        if operation.name.startswith(PRODUCTS) and _starts_from_an_array(operation):
            _split_bias(operation)


def _starts_from_an_array(operation: ir.Operation) -> bool:
    if len(operation.results) != 1 or operation.parent.name != "func.func":
        return False
    start = operation.operands[len(operation.operands) - 1]
    if not isinstance(start.type, ir.RankedTensorType) or not start.type.has_static_shape:
        return False
    if not isinstance(start.type.element_type, ir.FloatType | ir.IntegerType):
        return False
    return not isinstance(start.owner, ir.Operation | ir.OpView) or start.owner.name not in STARTS


def _split_bias(operation: ir.Operation) -> None:
    last = len(operation.operands) - 1
    start, kind, [result] = operation.operands[last], operation.operands[last].type, operation.results
    is_float, rank = isinstance(kind.element_type, ir.FloatType), len(kind.shape)
    with operation.location:
        with ir.InsertionPoint(operation):
            empty = tensor.empty(list(kind.shape), kind.element_type)
            operation.operands[last] = linalg_fill(zero(kind.element_type), empty)
        with ir.InsertionPoint.after(operation):
            value, access = _read_bias(start, rank)
            identity = ir.AffineMap.get_identity(rank)
            add = arith.addf if is_float else arith.addi
            [added] = generic(
                [result, value], [empty], [identity, access, identity], ["parallel"] * rank,
                lambda product, other, _: [add(product, other)],
            )  # fmt: skip
    result.replace_all_uses_except(added, added.owner.operation)


def _read_bias(start: ir.Value, rank: int) -> tuple[ir.Value, ir.AffineMap]:
    """Return the tensor that the addition reads, and its indexing map: a broadcast tensor is read as it was before."""
    owner = start.owner
    if isinstance(owner, ir.Operation | ir.OpView) and owner.name == "linalg.broadcast":
        added = list(ir.DenseI64ArrayAttr(owner.attributes["dimensions"]))
        axes = [ir.AffineDimExpr.get(axis) for axis in range(rank) if axis not in added]
        return owner.operands[0], ir.AffineMap.get(rank, 0, axes)
    return start, ir.AffineMap.get_identity(rank)


def slice_unit_windows(module: ir.Module) -> None:
    """Slice off elements that a window never reads, along axes with a single window position.

    Otherwise upstream's folding of unit extents fails: without the loop over positions, the window's loop has to be as
    long as the operand's axis. An index that stays a multiple of its loop, as in a 1 x 1 convolution of every second
    pixel, may read less than all.

        pool of 2 with one result, of tensor<3xf32>   ──►   the same of tensor.extract_slice %x[0] [2] [1]
    """
    for operation in operations_named(module, "linalg.*"):
        maps = linalg.get_indexing_maps(operation)
        if maps is None:
            continue
        maps = [
            ir.AffineMapAttr(attribute).value if isinstance(attribute, ir.Attribute) else attribute
            for attribute in maps
        ]
        extents = loop_extents(operation, maps)
        for position, mapping in enumerate(maps):
            _slice_operand(operation, position, mapping, extents)


def _slice_operand(operation: ir.Operation, position: int, access: ir.AffineMap, extents: dict[int, int]) -> None:
    operand = operation.operands[position]
    if not isinstance(operand.type, ir.RankedTensorType) or not operand.type.has_static_shape:
        return
    sizes = list(operand.type.shape)
    for axis, expression in enumerate(access.results):
        last = None if isinstance(expression, ir.AffineDimExpr) else _largest_index(expression, extents)
        if last is None or not last[1] or _is_strided(expression, extents):
            continue
        if last[0] + 1 < sizes[axis]:
            sizes[axis] = last[0] + 1
    if sizes == list(operand.type.shape):
        return
    with operation.location, ir.InsertionPoint(operation):
        operation.operands[position] = static_slice(operand, [0] * len(sizes), sizes)


def _is_strided(expression: ir.AffineExpr, extents: dict[int, int]) -> bool:
    """Return whether a loop of several iterations is multiplied: it is no plain index without the others, either."""
    if isinstance(expression, ir.AffineMulExpr):
        left, right = _largest_index(expression.lhs, extents), _largest_index(expression.rhs, extents)
        return left is not None and right is not None and left[0] * right[0] > 0
    if isinstance(expression, ir.AffineAddExpr):
        return _is_strided(expression.lhs, extents) or _is_strided(expression.rhs, extents)
    return False


def _largest_index(expression: ir.AffineExpr, extents: dict[int, int]) -> tuple[int, bool] | None:
    """Return the largest value of an expression, and whether it has a loop of extent 1; None where it is not known."""
    if isinstance(expression, ir.AffineConstantExpr):
        return (expression.value, False) if expression.value >= 0 else None
    if isinstance(expression, ir.AffineDimExpr):
        extent = extents.get(expression.position, 0)
        return (extent - 1, extent == 1) if extent > 0 else None
    if not isinstance(expression, (ir.AffineAddExpr, ir.AffineMulExpr)):
        return None
    left, right = _largest_index(expression.lhs, extents), _largest_index(expression.rhs, extents)
    if left is None or right is None:
        return None
    value = left[0] + right[0] if isinstance(expression, ir.AffineAddExpr) else left[0] * right[0]
    return value, left[1] or right[1]
