"""From loop nests over memrefs to MLIR's LLVM dialect, by upstream MLIR passes alone.

Takes the bufferized module. Gives one `llvm.func` per function, whose arguments are bare pointers (every shape is
static), none of which overlaps another that is written. The public function is renamed to `symbol_of` its kernel.
Refuses nothing of its own.
"""

from __future__ import annotations

from mlirtri.dialect.mlir import ir, public_functions
from mlirtri.lowering.mlir_passes import Pass, run_passes
from mlirtri.lowering.stage import CompileContext

PASSES = (
    Pass("func.func(convert-linalg-to-loops)", "structured operations become loop nests"),
    Pass("func.func(convert-vector-to-scf)", "vector transfers become loops or loads"),
    Pass("lower-affine", "index arithmetic of the loops becomes arith"),
    Pass("convert-complex-to-standard", "complex arithmetic becomes arithmetic on its two parts"),
    Pass("func.func(arith-expand)", "operations that LLVM lacks: ceildivsi, floordivsi"),
    Pass("func.func(math-extend-to-supported-types)", "functions of fp16 and bf16 are computed in fp32"),
    Pass("convert-scf-to-cf", "loops become branches"),
    Pass("expand-strided-metadata", "views become offset and stride arithmetic"),
    Pass("lower-affine", "the affine maps that views left behind"),
    Pass("convert-math-to-llvm", "functions that are LLVM intrinsics; these vectorize"),
    Pass("convert-math-to-libm", "all other functions are calls of the C library"),
    Pass("convert-vector-to-llvm", "what vectors are left"),
    Pass("convert-complex-to-llvm", "complex values become pairs"),
    Pass("convert-arith-to-llvm", "scalar arithmetic"),
    Pass("convert-index-to-llvm", "index arithmetic"),
    Pass("convert-ub-to-llvm", "poison that folding left behind"),
    Pass("finalize-memref-to-llvm", "loads, stores, allocations"),
    Pass("convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}", "arguments become bare pointers"),
    Pass("convert-cf-to-llvm", "branches"),
    Pass("reconcile-unrealized-casts", "the casts between the passes above cancel out"),
    Pass("canonicalize", "for reading: constants once, no unused descriptor"),
    Pass("cse", "for reading: equal values once"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module` in place; raises `PassFailedError`."""
    with module.context, ir.Location.unknown():
        for function in public_functions(module):
            _prepare(function)
        run_passes(module, PASSES, context)
    return module


def symbol_of(kernel: str) -> str:
    """The kernel's symbol: prefixed, so that a kernel called `exp` or `malloc` does not stand in for libc's."""
    return f"mlirtri_{kernel}"


def _prepare(function: ir.OpView) -> None:
    """Rename the function and tell LLVM what it may assume: no overlap, and no second copy of the code inlined."""
    function.attributes["sym_name"] = ir.StringAttr.get(symbol_of(function.name.value))
    function.attributes["llvm.no_inline"] = ir.UnitAttr.get()
    no_alias = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([no_alias] * len(function.type.inputs))
