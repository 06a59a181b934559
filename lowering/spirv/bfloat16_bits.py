"""bf16 for Vulkan, which has none: its bits as 16-bit integers in memory and between operations, arithmetic in fp32.

%x = memref.load %a : memref<8xbf16>     ──►   %x = memref.load %a : memref<8xi16>
%y = arith.mulf %x, %x : bf16                  %y = bits of (fp32 of %x * fp32 of %x), to nearest, ties to even
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named
from mlirtri.lowering.mlir_common import narrow_floats
from mlirtri.lowering.mlir_common.cloning import replace


def rewrite(module: ir.Module) -> None:
    """Replace every bf16 of `module`, which updates none atomically: loops that would run on one thread."""
    if not any(_has_bfloat16(value.type) for value in _values(module)):
        return
    narrow_floats.rewrite(module)
    for value in _values(module):
        if _has_bfloat16(value.type):
            value.set_type(_in_bits(value.type))
    for constant in operations_named(module, "arith.constant"):
        number = constant.attributes["value"]
        if isinstance(number, ir.FloatAttr) and isinstance(number.type, ir.BF16Type):
            bits = np.array(number.value, ml_dtypes.bfloat16).view(np.int16)
            constant.attributes["value"] = ir.IntegerAttr.get(_short(), int(bits))
    for cast in operations_named(module, "arith.bitcast"):
        if cast.operands[0].type == cast.results[0].type:
            replace(cast, [cast.operands[0]])
    for function in operations_named(module, "func.func"):
        inputs = [argument.type for argument in function.regions[0].blocks[0].arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))


def _values(module: ir.Module) -> list[ir.Value]:
    """Return the results and block arguments of all operations."""
    operations = all_operations(module)
    blocks = [block for operation in operations for region in operation.regions for block in region.blocks]
    results = [result for operation in operations for result in operation.results]
    return [*results, *(argument for block in blocks for argument in block.arguments)]


def _has_bfloat16(kind: ir.Type) -> bool:
    return isinstance(kind.element_type if isinstance(kind, ir.ShapedType) else kind, ir.BF16Type)


def _in_bits(kind: ir.Type) -> ir.Type:
    if not isinstance(kind, ir.MemRefType):
        return _short()
    return ir.MemRefType.get(kind.shape, _short(), kind.layout, kind.memory_space)


def _short() -> ir.Type:
    return ir.IntegerType.get_signless(16)
