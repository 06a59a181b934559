"""MLIR of others, compiled by each pipeline and run; shared by the tests of imported programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import mlirtri as mt
from mlirtri.dialect.base.dtypes import as_dtype

PIPELINES = ("linalg", "mlir")


def run(text: str, *arrays: np.ndarray, pipeline: str) -> list[np.ndarray]:
    """The results of the only function in `text`."""
    results = mt.from_mlir(text).compile(pipeline=pipeline)(*arrays)
    return [np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))]


@dataclass(frozen=True)
class Row:
    """One operation on whole tensors, and what it gives."""

    text: str
    """The operation with its operands ``%x %y %z``; ``{t}`` is their type, ``{name:u8}`` that of another element."""
    reference: Any
    """A function of the arguments' arrays (or of Python integers) that gives the right result, or a tuple of such."""
    result: str | tuple[str, ...] = "{t}"
    """The element type of the result, or of each."""


def module_of(rows: Sequence[Row], kind: str, count: int, names: str = "xyz") -> str:
    """A module that applies every row to tensors of `count` elements of MLIR's type `kind`."""

    def tensor(element: str) -> str:
        return f"tensor<{count}x{element.format(t=kind)}>"

    def typed(line: str) -> str:
        for element in ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "index"):
            line = line.replace("{" + element + "}", tensor(element))
        return line.replace("{t}", tensor(kind))

    lines, values, kinds = [], [], []
    for number, row in enumerate(rows):
        results = row.result if isinstance(row.result, tuple) else (row.result,)
        row_names = [f"%r{number}_{which}" for which in range(len(results))]
        lines.append(f"  {', '.join(row_names)} = {typed(row.text)}")
        values += row_names
        kinds += [tensor(each) for each in results]
    arguments = ", ".join(f"%{name}: {tensor(kind)}" for name in names)
    end = f"  return {', '.join(values)} : {', '.join(kinds)}"
    return "\n".join([f"func.func @k({arguments}) -> ({', '.join(kinds)}) {{", *lines, end, "}"])


def wrapped(number: int, bits: int) -> int:
    """An integer as the signed one of `bits` that has the same lowest bits."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def numpy_of(kind: str) -> np.dtype:
    """NumPy's dtype of MLIR's element type."""
    return as_dtype("bool" if kind == "i1" else "int64" if kind == "index" else kind).numpy


@dataclass(frozen=True)
class Case:
    """A piece of a function: operations on some arguments, and what they give."""

    arguments: dict[str, np.ndarray]
    body: str
    """Operations on ``%name`` of the arguments."""
    results: dict[str, np.ndarray]
    """Values of `body` by name, and what they have to be."""


def type_of(array: np.ndarray) -> str:
    """MLIR's type of an array; unsigned ones lose their sign."""
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{type_element(array)}>"


def type_element(array: np.ndarray) -> str:
    return as_dtype(array.dtype).signless


def together(cases: Sequence[Case]) -> tuple[str, list[np.ndarray]]:
    """One function of all cases, and its arguments: a compile costs more than what it is for."""
    lines, arguments, arrays, values = [], [], [], []
    for number, case in enumerate(cases):
        lines.append(re.sub(r"%([A-Za-z_]\w*)", rf"%c{number}_\1", case.body))
        arguments += [f"%c{number}_{name}: {type_of(array)}" for name, array in case.arguments.items()]
        arrays += [array.view(as_dtype(type_element(array)).numpy) for array in case.arguments.values()]
        values += [(f"%c{number}_{name}", type_of(array)) for name, array in case.results.items()]
    names, kinds = (", ".join(column) for column in zip(*values, strict=True))
    body = "\n".join(lines)
    return f"func.func @k({', '.join(arguments)}) -> ({kinds}) {{\n{body}\n  return {names} : {kinds}\n}}", arrays


def check_cases(cases: Sequence[Case], pipeline: str, **near: float) -> None:
    """Run the cases in one kernel and compare: exactly, or with the tolerances of ``assert_allclose``."""
    text, arrays = together(cases)
    copies = [array.copy() for array in arrays]
    results = iter(run(text, *arrays, pipeline=pipeline))
    for case in cases:
        for name, right in case.results.items():
            result = next(results)
            message = f"%{name} of {case.body}"
            assert result.dtype.itemsize == right.dtype.itemsize, message
            result = result.view(right.dtype) if right.dtype != result.dtype else result
            np.testing.assert_allclose(result, right, err_msg=message, **(near or {"rtol": 0, "atol": 0}))
    for before, after in zip(copies, arrays, strict=True):
        np.testing.assert_array_equal(before, after, err_msg="an argument was written")
