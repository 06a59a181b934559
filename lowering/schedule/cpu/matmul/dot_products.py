"""Dot-product instructions of x86: the products of two bf16 or four int8 elements are added to each 32-bit lane.

A contraction of widened bf16 or int8 elements becomes one over 32-bit words, each of which holds a group of neighbours
along the sum; it stays as it is where this CPU has no such instruction.

bf16 (AVX512-BF16): sums are fp32; denormals count as zero, as in other libraries on such CPUs.
int8 (VNNI): exact. The instruction takes one unsigned operand: 128 is added to the left one, and 128 times the sums of
the right operand's columns is subtracted from the initial value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.lowering.codegen.targets import cpu_features, vector_bits
from mlirtri.lowering.schedule.cpu.matmul.matrix_tile import (
    function_in_llvm,
    is_in_matrices,
    row_stride,
)
from mlirtri.lowering.schedule.products.packed_weights import narrow_load
from mlirtri.lowering.tir.contraction import Axis, Contraction, Way
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.tir.tiles import ceil_div, quotient, replaced, sized
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    Stmt,
    TensorLoad,
    Var,
    ir,
    structural_walk,
    tirx,
)

HALF, BYTE = "bfloat16", "int8"


def in_groups(contraction: Contraction) -> Contraction:
    """Return the contraction over words along its innermost reduction axis, or itself where no instruction fits."""
    left, right = (narrow_load(operand, contraction.dtype) for operand in (contraction.left, contraction.right))
    if left is None or right is None:
        return contraction
    dtypes = {str(left.ty.dtype), str(right.ty.dtype)}
    if dtypes == {HALF} and contraction.dtype == "float32" and vector_bits() == 512:
        if is_in_matrices(contraction):
            return _by_words(replace(contraction, way=Way.MATRICES), left, right, 2, add_halves)
        return _by_words(contraction, left, right, 2, add_halves) if _has_halves() else contraction
    # Where the result is a byte as well, signed and unsigned bytes have the same low bits.
    bytes_are = {BYTE} if str(contraction.result.dtype) == "int32" else {BYTE, "uint8"}
    if dtypes <= bytes_are and contraction.dtype == "int32" and _has_bytes():
        return _by_words(contraction, left, right, 4, add_bytes)
    return contraction


def _has_halves() -> bool:
    return "avx512bf16" in cpu_features()


def _has_bytes() -> bool:
    return bool(cpu_features() & ({"avx512vnni"} if vector_bits() == 512 else {"avxvnni"}))


def _by_words(contraction: Contraction, left: Any, right: Any, group: int, add: Any) -> Contraction:
    *outer, inner = contraction.reduced
    words = Axis(tirx.Var(inner.variable.name, "int64"), ceil_div(inner.extent, group))
    in_place = not _may_end_inside(inner, group) and _is_contiguous(left, inner.variable)
    if contraction.way is Way.MATRICES:
        in_place = in_place and not outer and row_stride(left, contraction.rows) is not None
    terms = simple = None
    word = (_word_in_memory if in_place else _word)(left, inner, words.variable, group)
    if not in_place and _is_contiguous(left, inner.variable):
        simple = _word_in_memory(left, inner, words.variable, group), quotient(inner.extent, group)
    if str(left.ty.dtype) != HALF:
        signs = tirx.IntImm("int32", -0x7F7F7F80)
        word = tirx.bitwise_xor(word, signs)
        simple = simple and (tirx.bitwise_xor(simple[0], signs), simple[1])
        signed = tirx.Cast("int32", tirx.reinterpret(BYTE, right))
        terms = (signed * tirx.IntImm("int32", -128), contraction.reduced)
    copied = _packed_word(right, words.variable) if contraction.is_right_packed else _word(
        right, inner, words.variable, group
    )  # fmt: skip
    return replace(
        contraction, reduced=(*outer, words), left=word, right=copied, add=add,
        packs_left=not in_place, packs_right=True, column_terms=terms, simple_left=simple,
    )  # fmt: skip


def _may_end_inside(inner: Axis, group: int) -> bool:
    """Return whether the last group may have fewer elements, as it may for a dynamic extent."""
    return not isinstance(inner.extent, int) or inner.extent % group != 0


def _is_contiguous(load: TensorLoad, variable: Var) -> bool:
    return load.indices[-1].same_as(variable)


def _packed_word(load: TensorLoad, word: Any) -> Any:
    """Return a word of a weight that was packed in words."""
    *outer, _, lane, _ = load.indices
    pair = tirx.BufferLoad(load.source, [*outer, word, lane, tirx.Ramp(index(0), index(1), 2)])
    return tirx.reinterpret("int32", tirx.reinterpret("uint16x2", pair))


def _word_in_memory(load: TensorLoad, _inner: Axis, word: Any, group: int) -> Any:
    first = tirx.Ramp(word * tirx.IntImm("int64", group), tirx.IntImm("int64", 1), group)
    element = tirx.BufferLoad(load.source, [*list(load.indices)[:-1], first])
    if str(load.ty.dtype) == HALF:
        element = tirx.reinterpret(f"uint16x{group}", element)
    return tirx.reinterpret("int32", element)


def _word(load: TensorLoad, inner: Axis, word: Any, group: int) -> Any:
    """Return a word of a group, element by element, with zeros after the end of the sum."""
    bits = 32 // group
    result = None
    for position in range(group):
        offset = word * tirx.IntImm("int64", group) + tirx.IntImm("int64", position)
        is_inside = offset < sized(inner.extent)
        if _may_end_inside(inner, group):
            offset = tirx.min(offset, sized(inner.extent - 1))
        element = replaced(load, {inner.variable: offset})
        element = tirx.Cast("uint32", tirx.reinterpret(f"uint{bits}", element))
        if position and _may_end_inside(inner, group):
            element = tirx.Select(is_inside, element, tirx.IntImm("uint32", 0))
        if position:
            element = tirx.shift_left(element, tirx.IntImm("uint32", bits * position))
        result = element if result is None else tirx.bitwise_or(result, element)
    return tirx.reinterpret("int32", result)


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
"""TVM's attribute of a statement whose module links LLVM IR."""


def add_halves(sums: Expr, left: Expr, right: Expr) -> Expr:
    """Return fp32 sums plus the products of pairs of bf16 in 32-bit words (`vdpbf16ps`).

    TVM has no bf16 vectors, which the instruction takes: it is called in an inlined function in LLVM IR.
    """
    return tirx.call_pure_extern(str(sums.ty.dtype), _HALVES, sums, left, right)


def add_bytes(sums: Expr, left: Expr, right: Expr) -> Expr:
    """Return int32 sums plus the products of four bytes, uint8 in the left words and int8 in the right (`vpdpbusd`)."""
    bits = 32 * int(str(sums.ty.dtype).partition("x")[2])
    operands = [tirx.reinterpret(f"int8x{bits // 8}", operand) for operand in (left, right)]
    return tirx.call_llvm_pure_intrin(str(sums.ty.dtype), _ADD_BYTES[bits], sums, *operands)


def with_functions(statement: Stmt) -> Stmt:
    """Return a statement with products of bf16, with the LLVM IR of the functions that it calls around it."""
    names: set[str] = set()
    structural_walk(statement, (ir.StringImm, lambda node: names.add(str(node.value))))
    text = "".join(function_in_llvm(name) for name in sorted(names))
    text += _HALVES_IN_LLVM if _HALVES in names else ""
    return tirx.AttrStmt(tirx.IntImm("int64", 0), _IMPORT, ir.StringImm(text), statement)
