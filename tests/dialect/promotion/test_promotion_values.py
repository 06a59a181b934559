"""Promotion by the values of Python numbers, defaults, and the sentences that refuse."""

from __future__ import annotations

import contextlib
from itertools import product

import numpy as np
import pytest
import torch
from promotion_helpers import (
    NAMES,
    SCALARS,
    numpy_2,
    numpy_value,
    operand,
    ours,
)

import mlirtri as mt
from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.promotion import tables
from mlirtri.dialect.promotion.dtype_rules import Operand, Plan, common_dtype, default_dtype, result_dtypes
from mlirtri.errors import KernelDivisionError, KernelTypeError, KernelValueError


def weak(value) -> Operand:
    return Operand(None, type(value).__name__, value=value)


@numpy_2
@pytest.mark.parametrize("value", [300, -1, 2**40, 2**63, -(2**63), 5])
@pytest.mark.parametrize("name", [name for name in NAMES if DTYPES[name].is_integer])
def test_numpy_refuses_python_ints_that_do_not_fit(name, value):
    fits = np.iinfo(name).min <= value <= np.iinfo(name).max
    for op in ("add", "maximum", "bitwise_and"):
        assert (ours("numpy", op, [operand(name), weak(value)]) == name) == fits
        with contextlib.nullcontext() if fits else pytest.raises(OverflowError):
            getattr(np, op)(numpy_value(name), value)


@pytest.mark.parametrize("value", [300, -1, 2**40, 2**63, 2**64 - 1, -(2**63), 5])
@pytest.mark.parametrize("name", [name for name in NAMES if DTYPES[name].is_integer])
def test_numpy_compares_with_any_python_int(name, value):
    """Both sides fit the dtypes they are compared in, so the comparison is exact."""
    plan = result_dtypes("numpy", "less", [operand(name), weak(value)])
    assert plan.result.is_bool
    tensor, number = (np.iinfo(dtype.numpy) for dtype in plan.compute)
    assert number.min <= value <= number.max
    assert tensor.min <= np.iinfo(name).min
    assert tensor.max >= np.iinfo(name).max
    assert plan.mixed_signs == (plan.compute[0] != plan.compute[1])


def test_uint64_and_int64_are_compared_each_in_its_own_sign():
    plan = result_dtypes("numpy", "less", [operand("uint64"), operand("int8")])
    assert plan == Plan((DTYPES["uint64"], DTYPES["int64"]), DTYPES["bool"], mixed_signs=True)
    with pytest.raises(KernelValueError, match="fits neither int64 nor uint64"):
        result_dtypes("numpy", "less", [operand("int8"), weak(2**70)])


def test_numpy_says_which_python_int_does_not_fit():
    with pytest.raises(KernelValueError, match="Python int 300 does not fit uint8") as caught:
        result_dtypes("numpy", "add", [operand("uint8"), weak(300)])
    assert "wider dtype" in caught.value.help


def test_torch_wraps_python_ints_except_where_it_checks_them():
    uint8 = operand("uint8")
    assert ours("torch", "add", [uint8, weak(300)]) == "uint8"
    for op, operands in {
        "where": [operand("bool"), uint8, weak(300)],
        "clip": [uint8, weak(0), weak(300)],
        "power": [uint8, weak(300)],
        "add": [uint8, weak(2**70)],
    }.items():
        with pytest.raises(KernelValueError, match="does not fit"):
            result_dtypes("torch", op, operands)


@pytest.mark.parametrize("semantics", ["numpy", "torch"])
def test_negative_integer_powers_are_refused(semantics):
    with pytest.raises(KernelValueError, match="negative integer power -1"):
        result_dtypes(semantics, "power", [operand("int32"), weak(-1)])
    assert ours(semantics, "power", [operand("float32"), weak(-1)]) == "float32"


def test_torch_raises_for_integer_division_by_a_zero_that_is_known():
    with pytest.raises(KernelDivisionError):
        result_dtypes("torch", "floor_divide", [operand("int32"), weak(0)])
    assert ours("torch", "floor_divide", [operand("float32"), weak(0)]) == "float32"
    assert ours("numpy", "floor_divide", [operand("int32"), weak(0)]) == "int32"


@pytest.mark.parametrize(
    ("op", "left", "right", "result", "kind"),
    [
        ("add", 1, 2.0, "float64", "float"),
        ("add", True, True, "int64", "int"),
        ("divide", 1, 2, "float64", "float"),
        ("floor_divide", 7, 2, "int64", "int"),
        ("less", 1.0, 2, "bool", "bool"),
        ("bitwise_and", True, False, "bool", "bool"),
        ("maximum", 1, 2.5, "float64", "float"),
    ],
)
def test_operators_on_python_scalars_stay_python_scalars(op, left, right, result, kind):
    for semantics in ("numpy", "torch"):
        plan = result_dtypes(semantics, op, [weak(left), weak(right)])
        assert (plan.result.name, plan.weak) == (result, kind)


def test_functions_of_one_python_scalar():
    assert result_dtypes("numpy", "exp", [weak(2)]) == Plan((DTYPES["float64"],), DTYPES["float64"], weak="float")
    assert result_dtypes("torch", "negative", [weak(True)]).result.name == "int64"
    assert result_dtypes("torch", "sum", [weak(2.0)]) == Plan((DTYPES["float32"],), DTYPES["float32"])
    assert result_dtypes("numpy", "stack", [weak(1), weak(2.0)]).result.name == np.stack([1, 2.0]).dtype.name


def test_defaults_are_those_of_the_libraries():
    for kind, value in SCALARS.items():
        assert default_dtype("numpy", kind).name == np.full(2, value).dtype.name
        assert default_dtype("torch", kind).torch == torch.full((2,), value).dtype
    assert common_dtype("numpy", [operand("int8"), operand("uint8")]).name == "int16"
    assert common_dtype("torch", [operand("int8"), operand("float64", rank=0)]).name == "float64"


def test_roundings_of_integers_are_nothing():
    for semantics, op in product(("numpy", "torch"), tables.ROUNDINGS):
        assert result_dtypes(semantics, op, [operand("int16")]).identity
        assert not result_dtypes(semantics, op, [operand("float16")]).identity


def test_dtype_of_sums_and_means():
    assert result_dtypes("numpy", "sum", [operand("int8")], dtype=DTYPES["int8"]).compute == (DTYPES["int8"],)
    with pytest.raises(KernelTypeError, match="mean does not compute in int32"):
        result_dtypes("torch", "mean", [operand("int8")], dtype=DTYPES["int32"])


@pytest.mark.parametrize(
    ("semantics", "op", "names", "sentence"),
    [
        ("numpy", "subtract", ["bool", "bool"], "subtract of bool and bool is refused, as NumPy does"),
        ("torch", "mean", ["int32"], "mean of int32 is refused, as torch does"),
        ("torch", "matmul", ["float32", "float16"], "one dtype, not float32 and float16"),
        ("torch", "add", ["uint16", "int8"], "add of uint16 and int8 is refused, as torch does"),
        ("torch", "where", ["int8", "int8", "int8"], "bool condition, not int8"),
        ("numpy", "concatenate", ["bfloat16", "float16"], "is refused, as NumPy does"),
        ("numpy", "frobnicate", ["int8"], "no dtype rule for operation 'frobnicate'"),
    ],
)  # fmt: skip
def test_refusals_are_sentences(semantics, op, names, sentence):
    with pytest.raises(KernelTypeError, match=sentence) as caught:
        result_dtypes(semantics, op, [operand(name) for name in names])
    assert op == "frobnicate" or caught.value.help


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_torch_multiplies_half_by_unrounded_python_numbers(dtype, pipeline):
    def program(h, s):
        return h * s, s * h, h / s, h // s, h * 70000, h * 1e39

    h = torch.tensor([0.1, -3.0, 0.0, 7.7, 6e4, 1e-5]).to(dtype)
    for mine, other in zip(mt.jit(program, pipeline=pipeline)(h, 0.1), program(h, 0.1), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0, equal_nan=True)
