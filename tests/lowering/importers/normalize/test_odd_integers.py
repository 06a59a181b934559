"""Integers of odd widths inside of imported functions, operation by operation, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

PIPELINES = ("linalg", "relax", "mlir")
HOLDERS = {2: 8, 4: 8, 7: 8, 12: 16, 24: 32, 33: 64, 48: 64}


def signed(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def unsigned(number: int, width: int) -> int:
    return number & ((1 << width) - 1)


def truncating(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "addi": lambda x, y, w: x + y,
    "subi": lambda x, y, w: x - y,
    "muli": lambda x, y, w: x * y,
    "andi": lambda x, y, w: x & y,
    "ori": lambda x, y, w: x | y,
    "xori": lambda x, y, w: x ^ y,
    "maxsi": lambda x, y, w: max(x, y),
    "minsi": lambda x, y, w: min(x, y),
    "maxui": lambda x, y, w: max(unsigned(x, w), unsigned(y, w)),
    "minui": lambda x, y, w: min(unsigned(x, w), unsigned(y, w)),
}
DIVISIONS: dict[str, Callable[[int, int, int], int]] = {
    "divsi": lambda x, y, w: truncating(x, y),
    "remsi": lambda x, y, w: x - y * truncating(x, y),
    "floordivsi": lambda x, y, w: x // y,
    "ceildivsi": lambda x, y, w: -(-x // y),
    "divui": lambda x, y, w: unsigned(x, w) // unsigned(y, w),
    "remui": lambda x, y, w: unsigned(x, w) % unsigned(y, w),
    "ceildivui": lambda x, y, w: -(-unsigned(x, w) // unsigned(y, w)),
}
SHIFTS: dict[str, Callable[[int, int, int], int]] = {
    "shli": lambda x, y, w: x << y,
    "shrsi": lambda x, y, w: x >> y,
    "shrui": lambda x, y, w: unsigned(x, w) >> y,
}
UNARY: dict[str, Callable[[int, int], int]] = {
    "math.absi": lambda x, w: abs(x),
    "math.ctpop": lambda x, w: unsigned(x, w).bit_count(),
    "math.ctlz": lambda x, w: w - unsigned(x, w).bit_length(),
    "math.cttz": lambda x, w: w if x == 0 else (x & -x).bit_length() - 1,
}
PREDICATES = ("slt", "sge", "ult", "uge", "eq")


def text_of(width: int, count: int) -> tuple[str, list[str]]:
    """A function of all operations on narrowed arguments, and the names of what it returns."""
    wide, odd = f"tensor<{count}xi64>", f"tensor<{count}xi{width}>"
    lines = [f"  %{n} = arith.trunci %{n}w : {wide} to {odd}" for n in ("x", "y", "d", "s")]
    names, kinds = [], []

    def add(name: str, line: str, kind: str = wide) -> None:
        lines.append(f"  %{name} = {line}")
        names.append(name)
        kinds.append(kind)

    for group, second in ((BINARY, "y"), (DIVISIONS, "d"), (SHIFTS, "s")):
        for name in group:
            lines.append(f"  %odd_{name} = arith.{name} %x, %{second} : {odd}")
            add(name, f"arith.extsi %odd_{name} : {odd} to {wide}")
    for name in UNARY:
        lines.append(f"  %odd_{name[5:]} = {name} %x : {odd}")
        add(name[5:], f"arith.extsi %odd_{name[5:]} : {odd} to {wide}")
    for predicate in PREDICATES:
        add(predicate, f"arith.cmpi {predicate}, %x, %y : {odd}", f"tensor<{count}xi1>")
    add("extui", f"arith.extui %x : {odd} to {wide}")
    add("sitofp", f"arith.sitofp %x : {odd} to tensor<{count}xf64>", f"tensor<{count}xf64>")
    add("uitofp", f"arith.uitofp %x : {odd} to tensor<{count}xf64>", f"tensor<{count}xf64>")
    lines.append(f"  %chosen = arith.select %slt, %x, %y : tensor<{count}xi1>, {odd}")
    add("select", f"arith.extsi %chosen : {odd} to {wide}")
    lines.append(f"  %f = arith.sitofp %x : {odd} to tensor<{count}xf64>")
    lines.append(f"  %back = arith.fptosi %f : tensor<{count}xf64> to {odd}")
    add("fptosi", f"arith.extsi %back : {odd} to {wide}")
    arguments = ", ".join(f"%{n}w: {wide}" for n in ("x", "y", "d", "s"))
    values = ", ".join(f"%{name}" for name in names)
    body, types = "\n".join(lines), ", ".join(kinds)
    return f"func.func @f({arguments}) -> ({types}) {{\n{body}\n  return {values} : {types}\n}}", names


def expected(name: str, x: int, y: int, d: int, s: int, width: int) -> int | bool | float:
    if name in PREDICATES:
        a, b = (unsigned(x, width), unsigned(y, width)) if name.startswith("u") else (x, y)
        return {"lt": a < b, "ge": a >= b, "eq": a == b}[name[-2:]]
    special = {"extui": unsigned(x, width), "uitofp": float(unsigned(x, width)), "sitofp": float(x), "fptosi": x}
    if name in special:
        return special[name]
    if name == "select":
        return min(x, y)
    if f"math.{name}" in UNARY:
        return signed(UNARY[f"math.{name}"](x, width), width)
    group, second = next((g, v) for g, v in ((BINARY, y), (DIVISIONS, d), (SHIFTS, s)) if name in g)
    return signed(group[name](x, second, width), width)


def arguments_of(width: int) -> list[list[int]]:
    """All pairs of a narrow width; of a wide one its extremes and some between."""
    random = np.random.default_rng(width)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    some = (
        range(low, high + 1) if width <= 4 else [low, low + 1, -1, 0, 1, high, *random.integers(low, high, 8).tolist()]
    )
    pairs = [(x, y) for x in some for y in some]
    shifts = random.integers(0, min(width, 1 << (width - 1)), len(pairs)).tolist()
    return [
        list(column)
        for column in zip(*((x, y, y or 1, s) for (x, y), s in zip(pairs, shifts, strict=True)), strict=True)
    ]


@pytest.mark.parametrize(("width", "pipeline"), [(4, "linalg"), (4, "relax"), (4, "mlir"), (24, "linalg"), (48, "mlir"),
                                                 (2, "mlir"), (33, "linalg")])  # fmt: skip
def test_odd_widths_wrap_around_in_their_width(width, pipeline):
    columns = arguments_of(width)
    text, names = text_of(width, len(columns[0]))
    results = mt.from_mlir(text).compile(pipeline=pipeline)(*(np.array(column) for column in columns))
    for name, found in zip(names, results, strict=True):
        wanted = [expected(name, *row, width) for row in zip(*columns, strict=True)]
        np.testing.assert_array_equal(found, wanted, err_msg=f"{name} of i{width}")


@pytest.mark.parametrize("width", [2, 4, 7, 12, 24, 48])
@pytest.mark.parametrize("count", [3, 100])
def test_constants_of_odd_widths_keep_their_numbers(width, count):
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    numbers = [low, high, *np.random.default_rng(0).integers(low, high, count - 2, endpoint=True).tolist()]
    text = f"""func.func @f() -> (tensor<{count}xi64>, tensor<5xi64>) {{
  %w = arith.constant dense<{numbers}> : tensor<{count}xi{width}> loc("w")
  %s = arith.constant dense<-1> : tensor<5xi{width}>
  %x = arith.extsi %w : tensor<{count}xi{width}> to tensor<{count}xi64>
  %y = arith.extui %s : tensor<5xi{width}> to tensor<5xi64>
  return %x, %y : tensor<{count}xi64>, tensor<5xi64>
}}"""
    program = mt.from_mlir(text)
    held = [(name, each.dtype) for name, each in program.params.items()]
    assert held == ([("w", np.dtype(f"int{HOLDERS[width]}"))] if count == 100 else [])
    words, ones = program.compile(pipeline="mlir")()
    np.testing.assert_array_equal(words, numbers)
    np.testing.assert_array_equal(ones, [(1 << width) - 1] * 5)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_product_with_weights_of_four_bits(pipeline):
    random = np.random.default_rng(3)
    weights = random.integers(-8, 8, (16, 8))
    text = f"""func.func @f(%x: tensor<4x16xi8>) -> (tensor<4x8xi32>, tensor<16x8xf8E4M3FN>) {{
  %w = arith.constant dense<{weights.tolist()}> : tensor<16x8xi4>
  %c = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x8xi32>
  %f = linalg.fill ins(%c : i32) outs(%e : tensor<4x8xi32>) -> tensor<4x8xi32>
  %y = linalg.matmul ins(%x, %w : tensor<4x16xi8>, tensor<16x8xi4>) outs(%f : tensor<4x8xi32>) -> tensor<4x8xi32>
  %h = arith.sitofp %w : tensor<16x8xi4> to tensor<16x8xf8E4M3FN>
  return %y, %h : tensor<4x8xi32>, tensor<16x8xf8E4M3FN>
}}"""
    x = random.integers(-128, 128, (4, 16)).astype(np.int8)
    product, floats = mt.from_mlir(text).compile(pipeline=pipeline)(x)
    np.testing.assert_array_equal(product, x.astype(np.int32) @ weights)
    np.testing.assert_array_equal(floats.astype(np.float32), weights)
    assert floats.dtype == ml_dtypes.float8_e4m3fn


def test_operations_without_a_rule_are_refused_at_their_line():
    text = """func.func @f(%x: i32) -> i32 {
  %y = arith.trunci %x : i32 to i4
  %l, %h = arith.mulsi_extended %y, %y : i4
  %z = arith.extsi %h : i4 to i32
  return %z : i32
}"""
    with pytest.raises(UnsupportedOperationError, match="mulsi_extended has no lowering on i4") as caught:
        mt.from_mlir(text).compile()
    assert caught.value.span.line == 3
