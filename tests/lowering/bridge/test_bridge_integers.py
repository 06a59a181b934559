"""Integer arithmetic of imported programs: every operation, on all pairs of numbers at the edges of each width."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from imported import PIPELINES, Row, module_of, numpy_of, run, wrapped


def edges(bits: int) -> list[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return [low, low + 1, -bits - 1, -bits, -7, -2, -1, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1, high - 1, high]


def unsigned(number: int, bits: int) -> int:
    return number & ((1 << bits) - 1)


def truncated(x: int, y: int) -> int:
    """The quotient rounded to zero; 0 if there is none."""
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def power(x: int, y: int, bits: int) -> int:
    if y >= 0:
        return pow(x, y, 1 << bits)
    return x ** (y & 1) if x in (1, -1) else 0


def of_unsigned(function):
    return lambda x, y, bits: function(unsigned(x, bits), unsigned(y, bits))


SIGNED_ORDER = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "eq": "==", "ne": "!="}
UNSIGNED_ORDER = {"ult": "<", "ule": "<=", "ugt": ">", "uge": ">="}
ORDER = {
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip

BINARY = {
    "addi": lambda x, y, _: x + y,
    "subi": lambda x, y, _: x - y,
    "muli": lambda x, y, _: x * y,
    "divsi": lambda x, y, _: truncated(x, y),
    "remsi": lambda x, y, _: 0 if y == 0 else x - y * truncated(x, y),
    "floordivsi": lambda x, y, _: 0 if y == 0 else x // y,
    "ceildivsi": lambda x, y, _: 0 if y == 0 else -(-x // y),
    "divui": of_unsigned(lambda x, y: 0 if y == 0 else x // y),
    "remui": of_unsigned(lambda x, y: 0 if y == 0 else x % y),
    "ceildivui": of_unsigned(lambda x, y: 0 if y == 0 else -(-x // y)),
    "andi": lambda x, y, _: x & y,
    "ori": lambda x, y, _: x | y,
    "xori": lambda x, y, _: x ^ y,
    "maxsi": lambda x, y, _: max(x, y),
    "minsi": lambda x, y, _: min(x, y),
    "maxui": of_unsigned(max),
    "minui": of_unsigned(min),
    "shli": lambda x, y, bits: x << y if 0 <= y < bits else 0,
    "shrsi": lambda x, y, bits: x >> (y if 0 <= y < bits else bits - 1),
    "shrui": lambda x, y, bits: unsigned(x, bits) >> y if 0 <= y < bits else 0,
}

ROWS = [
    *(Row(f"arith.{name} %x, %y : {{t}}", reference) for name, reference in BINARY.items()),
    *(
        Row(f"arith.cmpi {name}, %x, %y : {{t}}", lambda x, y, _, sign=sign: ORDER[sign](x, y), "i1")
        for name, sign in SIGNED_ORDER.items()
    ),
    *(
        Row(f"arith.cmpi {name}, %x, %y : {{t}}", of_unsigned(ORDER[sign]), "i1")
        for name, sign in UNSIGNED_ORDER.items()
    ),
    Row("math.ipowi %x, %y : {t}", power),
    Row("math.absi %x : {t}", lambda x, _, __: abs(x)),
    Row("math.ctpop %x : {t}", lambda x, _, bits: bin(unsigned(x, bits)).count("1")),
    Row("math.ctlz %x : {t}", lambda x, _, bits: bits - unsigned(x, bits).bit_length()),
    Row("math.cttz %x : {t}", lambda x, _, bits: (x & -x).bit_length() - 1 if x else bits),
    Row("arith.addui_extended %x, %y : {t}, {i1}",
        (lambda x, y, _: x + y, lambda x, y, bits: unsigned(x, bits) + unsigned(y, bits) >= 1 << bits),
        ("{t}", "i1")),
    Row("arith.subui_extended %x, %y : {t}, {i1}",
        (lambda x, y, _: x - y, of_unsigned(lambda x, y: x < y)), ("{t}", "i1")),
    Row("arith.mulsi_extended %x, %y : {t}",
        (lambda x, y, _: x * y, lambda x, y, bits: (x * y) >> bits), ("{t}", "{t}")),
    Row("arith.mului_extended %x, %y : {t}",
        (lambda x, y, _: x * y, lambda x, y, bits: (unsigned(x, bits) * unsigned(y, bits)) >> bits), ("{t}", "{t}")),
]  # fmt: skip


@cache
def results_of(bits: int, pipeline: str) -> list[np.ndarray]:
    return run(module_of(ROWS, f"i{bits}", len(edges(bits)) ** 2, "xy"), *pairs(bits), pipeline=pipeline)


@cache
def pairs(bits: int) -> list[np.ndarray]:
    numbers = np.array(edges(bits), dtype=f"int{bits}")
    return [np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))]


def expected(reference, bits: int, dtype: np.dtype) -> np.ndarray:
    numbers = [reference(int(x), int(y), bits) for x, y in zip(*pairs(bits), strict=True)]
    return np.array([number if dtype == np.bool_ else wrapped(int(number), bits) for number in numbers], dtype)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("bits", [32, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (8, 16, 64))])
def test_integer_operations(bits, pipeline):
    results = iter(results_of(bits, pipeline))
    wrong = []
    for row in ROWS:
        kinds = row.result if isinstance(row.result, tuple) else (row.result,)
        references = row.reference if isinstance(row.reference, tuple) else (row.reference,)
        for kind, reference in zip(kinds, references, strict=True):
            found = next(results)
            right = expected(reference, bits, numpy_of(kind.format(t=f"i{bits}")))
            if found.dtype != right.dtype or not np.array_equal(found, right):
                at = np.flatnonzero(found != right)[:4]
                x, y = pairs(bits)
                wrong.append((row.text, [(int(x[i]), int(y[i]), found[i], right[i]) for i in at]))
    assert not wrong, wrong


BITS = [
    Row("arith.addi %x, %y : {t}", lambda x, y: x ^ y),
    Row("arith.subi %x, %y : {t}", lambda x, y: x ^ y),
    Row("arith.muli %x, %y : {t}", lambda x, y: x & y),
    Row("arith.andi %x, %y : {t}", lambda x, y: x & y),
    Row("arith.ori %x, %y : {t}", lambda x, y: x | y),
    Row("arith.xori %x, %y : {t}", lambda x, y: x ^ y),
    Row("arith.maxsi %x, %y : {t}", lambda x, y: x & y),
    Row("arith.minsi %x, %y : {t}", lambda x, y: x | y),
    Row("arith.maxui %x, %y : {t}", lambda x, y: x | y),
    Row("arith.minui %x, %y : {t}", lambda x, y: x & y),
    Row("arith.cmpi slt, %x, %y : {t}", lambda x, y: x & ~y, "i1"),
    Row("arith.cmpi ult, %x, %y : {t}", lambda x, y: ~x & y, "i1"),
    Row("arith.divui %x, %y : {t}", lambda x, y: x & y),
    Row("arith.remui %x, %y : {t}", lambda x, y: x & False),
    Row("arith.divsi %x, %y : {t}", lambda x, y: x & y),
    Row("arith.shli %x, %y : {t}", lambda x, y: x & ~y),
    Row("arith.shrsi %x, %y : {t}", lambda x, y: x),
    Row("arith.shrui %x, %y : {t}", lambda x, y: x & ~y),
    Row("arith.select %x, %x, %y : {t}, {t}", lambda x, y: x | y),
    Row("arith.extsi %x : {i1} to {i8}", lambda x, y: -x.astype(np.int8), "i8"),
    Row("arith.extui %x : {i1} to {i64}", lambda x, y: x.astype(np.int64), "i64"),
    Row("arith.sitofp %x : {i1} to {f32}", lambda x, y: -x.astype(np.float32), "f32"),
    Row("arith.uitofp %x : {i1} to {f64}", lambda x, y: x.astype(np.float64), "f64"),
    Row("arith.index_castui %x : {i1} to {index}", lambda x, y: x.astype(np.int64), "index"),
    Row("arith.index_cast %x : {i1} to {index}", lambda x, y: -x.astype(np.int64), "index"),
]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_one_bit(pipeline):
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    check(BITS, "i1", pipeline, x, y)


def check(rows: list[Row], kind: str, pipeline: str, *arrays: np.ndarray) -> None:
    results = run(module_of(rows, kind, len(arrays[0]), "xyz"[: len(arrays)]), *arrays, pipeline=pipeline)
    for row, found in zip(rows, results, strict=True):
        right = row.reference(*arrays)
        assert found.dtype == right.dtype, row.text
        np.testing.assert_array_equal(found, right, err_msg=row.text)


CONVERSIONS = [
    Row("arith.extsi %x : {t} to {i64}", lambda x: x.astype(np.int64), "i64"),
    Row("arith.extui %x : {t} to {i64}", lambda x: x.view(np.uint32).astype(np.int64), "i64"),
    Row("arith.trunci %x : {t} to {i8}", lambda x: x.astype(np.int8), "i8"),
    Row("arith.trunci %x : {t} to {i1}", lambda x: (x & 1).astype(bool), "i1"),
    Row("arith.sitofp %x : {t} to {f32}", lambda x: x.astype(np.float32), "f32"),
    Row("arith.sitofp %x : {t} to {f64}", lambda x: x.astype(np.float64), "f64"),
    Row("arith.uitofp %x : {t} to {f32}", lambda x: x.view(np.uint32).astype(np.float32), "f32"),
    Row("arith.uitofp %x : {t} to {f64}", lambda x: x.view(np.uint32).astype(np.float64), "f64"),
    Row("arith.index_cast %x : {t} to {index}", lambda x: x.astype(np.int64), "index"),
    Row("arith.index_castui %x : {t} to {index}", lambda x: x.view(np.uint32).astype(np.int64), "index"),
    Row("arith.bitcast %x : {t} to {f32}", lambda x: x.view(np.float32), "f32"),
]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_conversions_of_integers(pipeline):
    check(CONVERSIONS, "i32", pipeline, np.array(edges(32), np.int32))
