"""One public function is left of an imported module: the entry, with all that it calls inlined.

Takes a module of functions and `context.kernel`, the entry's symbol. Refuses functions that call themselves.
"""

from __future__ import annotations

from mlirtri.dialect.mlir import ir, public_functions
from mlirtri.lowering.mlir_passes import Pass, run_passes
from mlirtri.lowering.stage import CompileContext

INLINE = (
    Pass("inline", "the bridge translates one function"),
    Pass("symbol-dce", "what was inlined everywhere is not needed any more"),
)


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Keep the entry alone; raises `KernelError`."""
    for function in public_functions(module):
        if function.attributes["sym_name"].value != context.kernel:
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    run_passes(module, INLINE, context)
