"""Instructions of x86 that add products of neighbours in 32-bit words to vectors of sums.

Takes TIR expressions of whole vectors. TVM has no vectors of bf16, which LLVM wants for the one for bf16: that is a
function in LLVM's language, which comes along with the statements that call it and is inlined.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.toolchain.tvm_names import ir, tirx

_ADD_BYTES = {512: "llvm.x86.avx512.vpdpbusd.512", 256: "llvm.x86.avx512.vpdpbusd.256"}
_HALVES = "mlirtri_add_bfloat16_products"
_HALVES_IN_LLVM = f"""
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define linkonce_odr <16 x float> @{_HALVES}(<16 x float> %sums, <16 x i32> %left, <16 x i32> %right) alwaysinline {{
  %a = bitcast <16 x i32> %left to <32 x bfloat>
  %b = bitcast <16 x i32> %right to <32 x bfloat>
  %c = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %sums, <32 x bfloat> %a, <32 x bfloat> %b)
  ret <16 x float> %c
}}
"""
_IMPORT = "pragma_import_llvm"
"""TVM's attribute of statements that bring functions in LLVM's language along."""


def add_halves(sums: Any, left: Any, right: Any) -> Any:
    """fp32 sums and the products of pairs of bf16 in 32-bit words."""
    return tirx.call_pure_extern(str(sums.ty.dtype), _HALVES, sums, left, right)


def add_bytes(sums: Any, left: Any, right: Any) -> Any:
    """int32 sums and the products of four bytes, unsigned ones of the left words and signed ones of the right."""
    bits = 32 * int(str(sums.ty.dtype).partition("x")[2])
    operands = [tirx.reinterpret(f"int8x{bits // 8}", each) for each in (left, right)]
    return tirx.call_llvm_pure_intrin(str(sums.ty.dtype), _ADD_BYTES[bits], sums, *operands)


def with_functions(statement: Any) -> Any:
    """A statement that uses `add_halves`, with the function that it calls."""
    return tirx.AttrStmt(tirx.IntImm("int64", 0), _IMPORT, ir.StringImm(_HALVES_IN_LLVM), statement)
