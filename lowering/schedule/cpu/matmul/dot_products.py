"""Instructions that multiply and add up groups of narrow numbers: two of bf16, four of int8, into each 32-bit lane.

Takes a contraction whose operands are such numbers, widened. Gives the same one over words, each of which holds a group
of neighbours along the sum, or the contraction as it is where this CPU has no such instruction.

bf16 (AVX512-BF16): sums are fp32; denormal numbers count as zero, as in other libraries on such CPUs.
int8 (VNNI): exact. The instruction wants one operand unsigned: the left one moves up by 128, and what that adds, 128
times the sums of the right operand's columns, is taken away from the initial value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.lowering.codegen.targets import cpu_features, vector_bits
from mlirtri.lowering.schedule.cpu.matmul.dot_instructions import add_bytes, add_halves
from mlirtri.lowering.tir.arithmetic import widened_bfloat16
from mlirtri.lowering.tir.contraction import Axis, Contraction
from mlirtri.lowering.tir.tiles import parts_of, replaced, sized
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, structural_equal, structural_map, tirx

HALF, BYTE = "bfloat16", "int8"


def in_groups(contraction: Contraction) -> Contraction:
    """The contraction by groups of its innermost sum, where there is an instruction for it."""
    left, right = (_narrow(each, contraction.dtype) for each in (contraction.left, contraction.right))
    if left is None or right is None:
        return contraction
    dtypes = {str(left.ty.dtype), str(right.ty.dtype)}
    if dtypes == {HALF} and contraction.dtype == "float32" and _has_halves():
        return _by_words(contraction, left, right, 2, add_halves)
    # Of bytes that are a byte again in the end, the sign makes no difference.
    bytes_are = {BYTE} if str(contraction.result.dtype) == "int32" else {BYTE, "uint8"}
    if dtypes <= bytes_are and contraction.dtype == "int32" and _has_bytes():
        return _by_words(contraction, left, right, 4, add_bytes)
    return contraction


def _has_halves() -> bool:
    return vector_bits() == 512 and "avx512bf16" in cpu_features()


def _has_bytes() -> bool:
    return bool(cpu_features() & ({"avx512vnni"} if vector_bits() == 512 else {"avxvnni"}))


def _narrow(operand: Any, dtype: str) -> Any:
    """The load of a narrow number that an operand widens to a contraction's dtype; None for anything else."""
    loads: list[Any] = []
    structural_map(operand, (TensorLoad, lambda load: loads.append(load) or load))
    if len(loads) != 1:
        return None
    [load] = loads
    if str(load.ty.dtype) == HALF:
        forms = [widened_bfloat16(tirx.reinterpret("uint16", load)), tirx.Cast(dtype, load)]
    else:
        forms = [load, tirx.Cast(dtype, load)]
    return load if any(structural_equal(operand, form) for form in forms) else None


def _by_words(contraction: Contraction, left: Any, right: Any, group: int, add: Any) -> Contraction:
    *outer, inner = contraction.reduced
    words = Axis(tirx.Var(inner.variable.name, "int64"), parts_of(inner.extent, group))
    in_place = not _may_end_inside(inner, group) and _is_contiguous(left, inner.variable)
    make_left = _word_in_memory if in_place else _word
    terms = None
    word = make_left(left, inner, words.variable, group)
    if str(left.ty.dtype) != HALF:
        word = tirx.bitwise_xor(word, tirx.IntImm("int32", -0x7F7F7F80))
        signed = tirx.Cast("int32", tirx.reinterpret(BYTE, right))
        terms = (signed * tirx.IntImm("int32", -128), contraction.reduced)
    return replace(
        contraction, reduced=(*outer, words), left=word, right=_word(right, inner, words.variable, group), add=add,
        packs_left=not in_place, packs_right=True, column_terms=terms,
    )  # fmt: skip


def _may_end_inside(inner: Axis, group: int) -> bool:
    """Whether the last group may have fewer elements: always, where only the run shows how many there are."""
    return not isinstance(inner.extent, int) or inner.extent % group != 0


def _is_contiguous(load: Any, variable: Any) -> bool:
    return load.indices[-1].same_as(variable)


def _word_in_memory(load: Any, _inner: Axis, word: Any, group: int) -> Any:
    """A group that is a word in memory already."""
    first = tirx.Ramp(word * tirx.IntImm("int64", group), tirx.IntImm("int64", 1), group)
    element = tirx.BufferLoad(load.source, [*list(load.indices)[:-1], first])
    if str(load.ty.dtype) == HALF:
        element = tirx.reinterpret(f"uint16x{group}", element)
    return tirx.reinterpret("int32", element)


def _word(load: Any, inner: Axis, word: Any, group: int) -> Any:
    """A group put together, with zeros behind the end of the sum."""
    bits = 32 // group
    made = None
    for place in range(group):
        at = word * tirx.IntImm("int64", group) + tirx.IntImm("int64", place)
        is_inside = at < sized(inner.extent)
        if _may_end_inside(inner, group):
            at = tirx.min(at, sized(inner.extent - 1))
        element = replaced(load, {inner.variable: at})
        element = tirx.Cast("uint32", tirx.reinterpret(f"uint{bits}", element))
        if place and _may_end_inside(inner, group):
            element = tirx.Select(is_inside, element, tirx.IntImm("uint32", 0))
        if place:
            element = tirx.shift_left(element, tirx.IntImm("uint32", bits * place))
        made = element if made is None else tirx.bitwise_or(made, element)
    return tirx.reinterpret("int32", made)
