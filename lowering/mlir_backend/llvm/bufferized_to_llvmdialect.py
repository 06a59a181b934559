"""Lower loop nests over memrefs to MLIR's LLVM dialect, mostly by upstream passes.

Takes the bufferized module. Gives one `llvm.func` per function, whose arguments are bare pointers, none of which
overlaps another that is written, and after them the sizes and strides that are known at run time only. The public
function is renamed to `symbol_of` its kernel, and returns whether its allocations succeeded, if it has any.
Refuses buffers larger than `core.untranslatable` allows.
"""

from __future__ import annotations

from functools import partial

from mlirtri.dialect.bindings.locations import location_of, span_of
from mlirtri.dialect.bindings.mlir import ir, memref, operations_named, public_functions
from mlirtri.errors import Span, UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse_large_buffers
from mlirtri.lowering.mlir_backend.llvm import (
    accumulated_products,
    allocations,
    contraction_tiling,
    elementary,
    kept_loops,
    loop_contractions,
    pairs,
    thread_chunks,
    vector_transposes,
)
from mlirtri.lowering.mlir_backend.loops import argmax, joined_reductions, order
from mlirtri.lowering.mlir_backend.loops.bufferized_to_loops import TO_GENERIC, lower_to_loops
from mlirtri.lowering.mlir_common import narrow_floats
from mlirtri.lowering.mlir_common.attributes import noted_strides
from mlirtri.lowering.mlir_common.imperative import is_imperative
from mlirtri.lowering.runtime.openmp import runtime_library
from mlirtri.lowering.sizes import size_arguments
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

_PREFIX = "mlirtri_"

TO_LOOPS = (
    Pass("func.func(convert-linalg-to-loops)", "structured operations become loop nests"),
    Pass(
        "lower-affine", "index arithmetic of the loops, and those of upstream's polyhedral passes, become arith and scf"
    ),
    Pass("convert-complex-to-standard", "complex arithmetic becomes arithmetic on its two parts"),
    Pass("func.func(math-extend-to-supported-types)", "functions of fp16 and bf16 are computed in fp32"),
)

TO_LLVM = (
    Pass("func.func(math-expand-ops{ops=rsqrt})", "the C library has no rsqrt"),
    Pass("convert-math-to-funcs", "integer powers become a loop in a function"),
    Pass("convert-scf-to-cf", "loops become branches"),
    Pass("expand-strided-metadata", "views become offset and stride arithmetic"),
    Pass("lower-affine", "the affine maps that views left behind"),
    Pass("convert-math-to-libm", "before MLIR's own expansions: its log1p and expm1 lose every digit near zero"),
    Pass("convert-vector-to-llvm", "what vectors are left"),
    Pass("convert-complex-to-llvm", "complex values become pairs"),
    Pass("convert-arith-to-llvm", "scalar arithmetic; quotients that round up or down become what LLVM has"),
    Pass("convert-index-to-llvm", "index arithmetic"),
    Pass("convert-ub-to-llvm", "poison that folding left behind"),
    Pass("convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}", "arguments become bare pointers"),
    Pass("convert-openmp-to-llvm", "parallel regions, and all that is left: loads, stores, allocations, branches"),
)

TO_READ = (
    Pass("canonicalize", "for reading: constants once, no unused descriptor"),
    Pass("cse", "for reading: equal values once"),
    Pass(
        "ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}",
        "the user's lines reach the machine code: disassembly, debuggers and profilers show them",
    ),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module` in place; raises `PassFailedError`, `KernelMemoryError`."""
    with module.context, ir.Location.unknown():
        refuse_large_buffers(module)
        run_rewrite("prepare-functions", prepare_functions, module, context)
        threads = context.target.threads if runtime_library() else 1
        if is_imperative(module):
            # It looks for fills, which are generics afterwards.
            run_rewrite("argmax-in-two-passes", partial(argmax.rewrite, only_dynamic=True), module, context)
            run_passes(module, TO_GENERIC, context)
            run_rewrite("accumulate-products", accumulated_products.rewrite, module, context)
            run_rewrite("mark-contractions", loop_contractions.mark, module, context)
            lower_to_loops(module, context, threads)
            run_rewrite("loops-to-contractions", loop_contractions.raise_marked, module, context)
            run_rewrite("tile-contractions", lambda module: contraction_tiling.rewrite(module, 1), module, context)
            run_rewrite("hoist-buffers", allocations.hoist, module, context)
            if threads > 1:
                run_passes(module, thread_chunks.to_openmp(threads), context)
                run_rewrite("inline-scopes", thread_chunks.inline_scopes, module, context)
        else:
            run_rewrite("argmax-in-two-passes", argmax.rewrite, module, context)
            run_passes(module, TO_GENERIC, context)
            run_rewrite("products-in-pairs", lambda module: pairs.rewrite(module, threads), module, context)
            run_rewrite(
                "tile-contractions", lambda module: contraction_tiling.rewrite(module, threads), module, context
            )
            run_passes(module, TO_GENERIC, context)
            run_rewrite("order-loops", order.rewrite, module, context)
            run_rewrite("join-reductions", joined_reductions.rewrite, module, context)
            run_rewrite("chunks-for-threads", lambda module: thread_chunks.rewrite(module, threads), module, context)
            if threads > 1:
                run_passes(module, thread_chunks.to_openmp(threads), context)
                run_rewrite("inline-scopes", thread_chunks.inline_scopes, module, context)
            run_rewrite("transpose-in-registers", vector_transposes.rewrite, module, context)
        run_rewrite("sizes-to-arguments", sizes_to_arguments, module, context)
        run_passes(module, TO_LOOPS, context)
        run_rewrite("keep-outer-loops", kept_loops.rewrite, module, context)
        run_rewrite("functions-to-arithmetic", elementary.rewrite, module, context)
        loops_to_llvm(module, context)
    return module


def loops_to_llvm(module: ir.Module, context: CompileContext) -> None:
    """Lower branches and loads in place, as `TO_LOOPS` leaves them, to LLVM's dialect, with checked allocations."""
    run_rewrite("narrow-floats", narrow_floats.rewrite, module, context)
    run_passes(module, TO_LLVM, context)
    run_rewrite("locations-of-calls", locate_calls, module, context)
    run_rewrite("narrow-memory", narrow_floats.rewrite_memory, module, context)
    run_rewrite("rounding-to-halves", narrow_floats.define_rounding, module, context)
    run_rewrite("failed-allocations", allocations.check, module, context)
    run_passes(module, TO_READ, context)


def symbol_of(kernel: str) -> str:
    """Return the symbol of a kernel, prefixed: a kernel called `exp` or `malloc` must not replace libc's."""
    return f"{_PREFIX}{kernel}"


def kernel_of(symbol: str) -> str:
    """Return the kernel's own name, the inverse of `symbol_of`."""
    return symbol.removeprefix(_PREFIX)


def prepare_functions(module: ir.Module) -> None:
    """Rename the kernels, mark arguments as not overlapping, and forbid inlining kernels twice.

    Raises `UnsupportedOperationError` for a function with other arguments than memrefs, or with results.
    """
    no_alias = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
    for function in public_functions(module):
        _refuse_other_types(function)
        function.attributes["sym_name"] = ir.StringAttr.get(symbol_of(function.name.value))
        function.attributes["llvm.no_inline"] = ir.UnitAttr.get()
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([no_alias] * len(function.type.inputs))
        _pass_empty_buffers_flat(function)


def _refuse_other_types(function: ir.OpView) -> None:
    others = [str(type_) for type_ in function.type.inputs if not isinstance(type_, ir.MemRefType)]
    if others or function.type.results:
        what = f"an argument of type {others[0]}" if others else "results"
        raise UnsupportedOperationError(
            f"@{function.name.value} has {what}, and a bufferized kernel takes memrefs alone",
            span_of(function.location), help="pass a number as memref<f32>, a result as a memref that is written",
        )  # fmt: skip


def locate_calls(module: ir.Module) -> None:
    """Give every call a location: LLVM refuses calls without one of inlinable functions."""
    for call in operations_named(module, "llvm.call"):
        if span_of(call.location) is None:
            call.location = location_of(Span("-", 1, 1))


def sizes_to_arguments(module: ir.Module) -> None:
    """Pass sizes and strides of run time to each public function as arguments of their own."""
    for function in public_functions(module):
        size_arguments.pass_sizes(function, noted_strides(module))


def _pass_empty_buffers_flat(function: ir.OpView) -> None:
    """Pass buffers without elements as rank 1: MLIR has no bare pointer for shapes like 3x0, and none is read."""
    block = function.regions[0].blocks[0]
    for argument in block.arguments:
        if 0 not in argument.type.shape[1:] or not argument.type.has_static_shape:
            continue
        with ir.InsertionPoint.at_block_begin(block), argument.location:
            argument.replace_all_uses_with(memref.alloca(argument.type, [], []))
        argument.set_type(ir.MemRefType.get([0], argument.type.element_type))
    kinds = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
