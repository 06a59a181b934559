"""Bodies of `linalg.generic`, as text for MLIR and as NumPy, and the operation's meaning by its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.array_rules import Spelled
from fuzz.bounded_array import convert

TYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "int8": "i8", "bool": "i1"}

FLOAT_BODY = (
    ("{a} + {b}", "arith.addf {a}, {b}"), ("{a} - {b}", "arith.subf {a}, {b}"), ("{a} * {b}", "arith.mulf {a}, {b}"),
    ("{a} / (np.abs({b}) + 1)", ""), ("np.maximum({a}, {b})", "arith.maximumf {a}, {b}"), ("-{a}", "arith.negf {a}"),
    ("np.minimum({a}, {b})", "arith.minimumf {a}, {b}"), ("np.fmax({a}, {b})", "arith.maxnumf {a}, {b}"),
    ("np.exp({a})", "math.exp {a}"), ("np.tanh({a})", "math.tanh {a}"), ("np.sin({a})", "math.sin {a}"), ("np.cos({a})", "math.cos {a}"),
    ("np.abs({a})", "math.absf {a}"), ("np.floor({a})", "math.floor {a}"), ("np.ceil({a})", "math.ceil {a}"),
    ("np.sqrt({a})", "math.sqrt {a}"), ("np.log1p({a})", "math.log1p {a}"), ("np.arctan2({a}, {b})", "math.atan2 {a}, {b}"),
    ("np.copysign({a}, {b})", "math.copysign {a}, {b}"), ("{a} * {b} + {c}", "math.fma {a}, {b}, {c}"), ("{a} / {b}", "arith.divf {a}, {b}"),
    ("np.trunc({a})", "math.trunc {a}"), ("np.rint({a})", "math.roundeven {a}"), ("np.fmod({a}, {b})", "arith.remf {a}, {b}"),
    ("np.expm1({a})", "math.expm1 {a}"), ("np.log({a})", "math.log {a}"), ("np.arctan({a})", "math.atan {a}"),
)  # fmt: skip
INTEGER_BODY = (
    ("{a} + {b}", "arith.addi {a}, {b}"), ("{a} - {b}", "arith.subi {a}, {b}"), ("{a} * {b}", "arith.muli {a}, {b}"),
    ("np.maximum({a}, {b})", "arith.maxsi {a}, {b}"), ("np.minimum({a}, {b})", "arith.minsi {a}, {b}"), ("{a} & {b}", "arith.andi {a}, {b}"),
    ("{a} | {b}", "arith.ori {a}, {b}"), ("{a} ^ {b}", "arith.xori {a}, {b}"), ("np.abs({a})", "math.absi {a}"),
)  # fmt: skip
COMPARISONS = {
    "<": ("olt", "slt"),
    "<=": ("ole", "sle"),
    ">": ("ogt", "sgt"),
    ">=": ("oge", "sge"),
    "==": ("oeq", "eq"),
    "!=": ("une", "ne"),
}
COMBINE = {
    "add": ("np.sum", "np.add", "arith.addf", "arith.addi"), "max": ("np.max", "np.maximum", "arith.maximumf", "arith.maxsi"),
    "min": ("np.min", "np.minimum", "arith.minimumf", "arith.minsi"), "mul": ("np.prod", "np.multiply", "arith.mulf", "arith.muli"),
}  # fmt: skip


def generic(
    maps: tuple[str, ...],
    operands: tuple[Any, ...],
    body: str,
    result: str,
    out: str,
    combine: str = "",
    init: Any = None,
) -> Any:
    """Return what a `linalg.generic` of one result computes; `maps` are indices as text, such as ``"d1, d0 + d2"``."""
    sizes = loop_sizes(maps, operands)
    names = sorted(sizes)
    counters = dict(zip(names, np.indices([sizes[name] for name in names]), strict=True))
    scope: dict[str, Any] = {"np": Spelled(), "convert": convert, **counters}
    for position, (text, operand) in enumerate(zip(maps, operands, strict=True)):
        index = tuple(eval(each, dict(counters)) for each in text.split(", ")) if text else ()
        scope[f"in{position}"] = (
            operand[index] if index else np.broadcast_to(operand, tuple(sizes[name] for name in names))
        )
    for line in body.split("; "):
        exec(line, scope)
    value = scope[result]
    kept = out.split(", ") if out else []
    reduced = tuple(position for position, name in enumerate(names) if name not in kept)
    if reduced:
        total = COMBINE[combine][0]
        whole = {"dtype": value.dtype} if combine in ("add", "mul") else {}
        value = eval(total)(value, axis=reduced, **whole)
    left = [name for name in names if name in kept]
    # The initial value has the order of the result, which may be another than that of the loops.
    value = np.transpose(value, [left.index(name) for name in kept])
    return value if init is None or not combine else eval(COMBINE[combine][1])(init, value)


def loop_sizes(maps: tuple[str, ...], operands: tuple[Any, ...]) -> dict[str, int]:
    """Return the extents of the loops: of those that are an index by themselves, then of those in sums."""
    indices = [(each, size) for text, operand in zip(maps, operands, strict=True) if text
               for each, size in zip(text.split(", "), operand.shape, strict=True)]  # fmt: skip
    sizes: dict[str, int] = {}
    for index, size in indices:
        if index.isidentifier() and sizes.setdefault(index, size) != size:
            raise ValueError("extents differ")
    for index, size in indices:
        if " + " not in index:
            continue
        scaled, other = index.split(" + ")
        scale, name = (scaled.split(" * ") + [scaled])[:2] if " * " in scaled else ("1", scaled)
        extent = (size - sizes[other]) // int(scale) + 1
        if extent < 1 or (extent - 1) * int(scale) + sizes[other] != size or sizes.setdefault(name, extent) != extent:
            raise ValueError("a window that does not fit")
    return sizes


def neutral(combine: str, dtype: str) -> str:
    """Return the initial value of a reduction as MLIR's text."""
    if combine in ("add", "mul"):
        return f"{int(combine == 'mul')}" + (".0" if dtype.startswith("float") else "")
    if dtype.startswith("float"):
        return ("0x" + ("F" if combine == "max" else "7") + ("F80" if dtype == "float32" else "FF0")).ljust(
            10 if dtype == "float32" else 18, "0"
        )
    limits = np.iinfo(dtype)
    return str(limits.min if combine == "max" else limits.max)
