"""Print the assembly of the code that runs (llvm → asm)."""

from __future__ import annotations

from mlirtri.lowering.codegen.lowered_functions import assembly_of
from mlirtri.lowering.codegen.passes.source_locations import named_as
from mlirtri.lowering.core.stage import Code, CompileContext


def lower(code: Code, context: CompileContext) -> Code:
    """Return the assembly; it has no kernels if the function has none."""
    if code.payload is None:
        return Code("# no kernel\n", code.executable)
    return Code(lambda: named_as(assembly_of(code.payload), str(code.text)), code.executable, code.payload)
