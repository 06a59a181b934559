"""Lower Relax to TIR (relax → tir): Relax operators become PrimFuncs, and chains of them become one.

``out = a + b; out = out + a`` is one PrimFunc ``fused_add_add``. Every SBlock carries ``mlirtri.loc``. Refuses
operators that TVM cannot legalise (`PassFailedError` on their line).
"""

from __future__ import annotations

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.external.vdevices import has_devices, mark_devices
from mlirtri.lowering.relax.call_merging import is_view
from mlirtri.lowering.relax.legalized import (
    fold_empty_loops,
    has_sorts,
    implement_sorts,
    locate_blocks,
    mark_elements,
    protect_arithmetic,
)
from mlirtri.lowering.relax.packed_weights import fixed_weights, keep_small_weights, mark_once, pack_weights
from mlirtri.lowering.relax.product_joining import join_products
from mlirtri.lowering.relax.product_operands import fold_operands, fold_padding
from mlirtri.lowering.relax.row_fusion import fuse_rows
from mlirtri.lowering.tir.product_recognition import mark_products
from mlirtri.lowering.toolchain.tvm_names import (
    BINDING_LOCATIONS,
    VIEW,
    BlockBuilder,
    Buffer,
    Expr,
    IRModule,
    PrimFunc,
    Var,
    ir,
    relax,
    tirx,
    tvm,
)
from mlirtri.lowering.toolchain.tvm_passes import (
    CALLS,
    Pass,
    bindings_of,
    operator_of,
    relax_functions,
    run_passes,
    span_of,
    with_functions,
)


def _mark_views(mod: IRModule) -> IRModule:
    """Return the module with ``mlirtri.view`` on pure reshapes, before a schedule changes their loops."""
    views = {
        gv: function.with_attrs({VIEW: True})
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc) and is_view(function)
    }
    return with_functions(mod, views)


def _legalize_power(builder: BlockBuilder, call: relax.Call) -> Expr:
    """Return TVM's power; to a constant as a call of C's function, about which `tirx.pow` prints no warnings."""
    x, y = call.args
    dtype = str(y.value.dtype) if isinstance(y, ir.GenericConst) and not y.value.shape else ""
    if dtype not in ("float32", "float64"):
        return ir.Op.get("relax.power").get_attr("FLegalize")(builder, call)
    exponent, name = tirx.const(y.value.numpy().item(), dtype), "powf" if dtype == "float32" else "pow"

    def power(values: Buffer) -> Buffer:
        def element(*index: Expr) -> Expr:
            return tirx.call_pure_extern(dtype, name, values(*index), exponent)

        return tvm.te.compute(values.shape, element, name="T_power")

    return builder.call_te(power, x)


OPERANDS = Pass("FoldOperands", fold_operands, "a product reads its operands where a transpose or a cast has them from")
PADDING = Pass("FoldPadding", fold_padding, "a convolution pads its image row by row, as it copies it anyway")
PASSES = (
    Pass(
        "LegalizeOps",
        relax.transform.LegalizeOps({"relax.power": _legalize_power}),
        "every operator becomes a call of a PrimFunc",
    ),
    Pass("ProtectArithmetic", protect_arithmetic, "TVM's simplifier must not see what rounds or overflows"),
    Pass(
        "LocateBlocks", locate_blocks, "the user's lines, from bindings' names into blocks, before names are fused away"
    ),
    Pass("FoldEmptyLoops", fold_empty_loops, "a reduction over nothing is its initial value"),
    Pass("ConvertToDataflow", relax.transform.ConvertToDataflow(), "fusion looks into dataflow blocks only"),
    Pass("AnnotateTIROpPattern", relax.transform.AnnotateTIROpPattern(), "says which PrimFuncs fuse with which"),
    OPERANDS,
    Pass("MarkProducts", mark_products, "what follows a product of cast operands fuses into it, too"),
    Pass("MarkElements", mark_elements, "elementwise work with memory of its own is elementwise"),
    Pass("FuseOps", relax.transform.FuseOps(), "groups elementwise chains, and what follows a matmul or reduction"),
    Pass("FuseTIR", relax.transform.FuseTIR(), "each group becomes one PrimFunc"),
)
CLEAN = Pass(
    "DeadCodeElimination", relax.transform.DeadCodeElimination(), "drops PrimFuncs that nothing calls any more"
)
VIEWS = Pass("MarkViews", _mark_views, "a pure reshape needs no launch")

DEVICES = Pass("MarkDevices", mark_devices, "each kind of device has its own schedules, so it has its own PrimFuncs")
SORTS = Pass("ImplementSorts", implement_sorts, "sorts and scans of Relax's library are functions of TVM's runtime")


def lower(mod: IRModule, context: CompileContext) -> IRModule:
    """Return the module with operators legalised and fused; raises `PassFailedError`, `UnsupportedOperationError`."""
    device_passes = (DEVICES,) if has_devices(mod) else ()
    passes = (*_first_passes(mod, context), *_row_passes(mod, context), CLEAN, VIEWS, *device_passes)
    mod = run_passes(mod, passes, context)
    if weights := fixed_weights(mod, context):
        mod = run_passes(mod, _weight_passes(weights), context)
    _refuse_operators(mod)
    return mod


def _weight_passes(weights: list[Var]) -> tuple[Pass, ...]:
    pack = Pass("PackWeights", lambda mod: pack_weights(mod, weights), "tiles read weights in an order of their own")
    once = Pass("MarkOnce", lambda mod: mark_once(mod, weights), "what depends on weights alone is computed once")
    return pack, once


def fused(mod: IRModule, context: CompileContext) -> tuple[IRModule, IRModule]:
    """Return the module after TVM's fusion, and after the fusion by rows after it, both without dead code."""
    by_tvm = run_passes(mod, (*_first_passes(mod, context), CLEAN), context)
    return by_tvm, run_passes(by_tvm, (*_row_passes(mod, context), CLEAN), context)


def _first_passes(mod: IRModule, context: CompileContext) -> tuple[Pass, ...]:
    if context.target.is_cuda:
        return PASSES
    position = PASSES.index(OPERANDS) + 1
    passes = PASSES if has_devices(mod) else (*PASSES[:position], PADDING, *_keeping(mod, context), *PASSES[position:])
    return (SORTS, *passes) if has_sorts(mod) else passes


def _keeping(mod: IRModule, context: CompileContext) -> tuple[Pass, ...]:
    if not fixed_weights(mod, context):
        return ()

    def kept(module: IRModule) -> IRModule:
        return keep_small_weights(module, fixed_weights(module, context))

    return (Pass("KeepSmallWeights", kept, "factors of weights alone are computed once, not for every element"),)


def _row_passes(mod: IRModule, context: CompileContext) -> tuple[Pass, ...]:
    if has_devices(mod):
        return ()
    why = "softmax, layernorm and the like are one kernel, in which each row is read once"

    def by_rows(module: IRModule) -> IRModule:
        return fuse_rows(module, context.target, fixed_weights(module, context))

    rows = Pass("FuseRows", by_rows, why)
    if context.target.is_cuda:
        return (rows,)

    def with_products(module: IRModule) -> IRModule:
        return join_products(module, context.target, fixed_weights(module, context))

    return rows, Pass("JoinProducts", with_products, "gates and rotations are part of the products that they read")


def _refuse_operators(mod: IRModule) -> None:
    """Refuse operators that TVM did not legalise: the virtual machine would report them far from their line."""
    refused = {}
    for _, function in relax_functions(mod):
        locations = (function.attrs or {}).get(BINDING_LOCATIONS, {})
        for binding in bindings_of(function):
            operator = operator_of(binding)
            if operator is not None and operator not in CALLS:
                refused.setdefault(operator, []).append(span_of(locations.get(binding.var.name)))
    if refused:
        counts = ", ".join(f"{name} ({len(uses)})" for name, uses in sorted(refused.items()))
        first_span = next((span for spans in refused.values() for span in spans if span), None)
        raise UnsupportedOperationError(f"TVM has no TIR for these operators: {counts}", first_span)
