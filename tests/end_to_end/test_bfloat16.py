"""bf16 rounds as in torch, bit for bit: ties, denormal numbers, infinities and NaN, in all three pipelines.

Some CPUs have an instruction for rounding to bf16 that takes denormal numbers for zero; no kernel may use it on them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.dialect.bindings.mlir import ir, print_module
from mlirtri.lowering.mlir_common import narrow_floats

PIPELINES = ("linalg", "relax", "mlir")
DENORMAL = [1e-39, -1e-39, 2e-39, 1e-40, -3e-39, 5e-39, 1e-38, -9.2e-41]
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 3.38e38, -3.38e38, 1.0, -1.5, 1.17549435e-38]


def halves() -> torch.Tensor:
    return torch.tensor([*DENORMAL, *SPECIAL]).bfloat16()


def wide() -> torch.Tensor:
    """fp32 just below, on and just above the middle between two bf16, from the smallest number to NaN."""
    tops = np.array([0, 1, 2, 0x10, 0x7F, 0x80, 0x81, 0x3F80, 0x3F81, 0x7F7E, 0x7F7F, 0x7F80, 0x7FC0], np.uint32)
    tops = np.concatenate([tops, tops | 0x8000])
    bits = np.add.outer(tops << 16, np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).ravel()
    every_bit = np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32)
    return torch.from_numpy(np.concatenate([bits, every_bit]).view(np.float32))


def assert_same(got: torch.Tensor, want: torch.Tensor) -> None:
    """The same bits, except that one NaN is as good as another."""
    assert got.dtype == want.dtype == torch.bfloat16
    assert torch.equal(got.isnan(), want.isnan())
    keep = ~want.isnan()
    np.testing.assert_array_equal(got[keep].view(torch.int16).numpy(), want[keep].view(torch.int16).numpy())


def convert(x):
    return x.bfloat16()


def arithmetic(x, y):
    return (
        x + x,
        x * x + x,
        x - y,
        x * y,
        x / y,
        -x,
        abs(x),
        torch.trunc(x),
        x.float().bfloat16(),
        x.double().bfloat16(),
    )


def choices(x, y):
    return torch.maximum(x, y), torch.minimum(x, y), torch.where(x > y, x, y), torch.relu(x)


def reductions(x):
    return x.sum(), x.max(), x.min(), x.amax(0), x.sum(1)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_rounds_to_nearest_even(pipeline):
    x = wide()
    got = mt.jit(convert, pipeline=pipeline)(x)
    assert_same(got, x.bfloat16())
    assert (got[x.isnan()].view(torch.int16) == 0x7FC0).all()


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_arithmetic_keeps_denormal_numbers(pipeline):
    x, y = (part.clone() for part in torch.cartesian_prod(halves(), halves()).T)
    for got, want in zip(mt.jit(arithmetic, pipeline=pipeline)(x, y), arithmetic(x, y), strict=True):
        assert_same(got, want)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_choices_keep_denormal_numbers(pipeline):
    """Adding zero takes the sign from a zero: which of two zeros is the greater is open, in torch too."""
    x, y = (part.clone() for part in torch.cartesian_prod(halves(), halves()).T)
    for got, want in zip(mt.jit(choices, pipeline=pipeline)(x, y), choices(x, y), strict=True):
        assert_same(got + 0, want + 0)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("sign", [1, -1])
def test_reductions_keep_denormal_numbers(sign, pipeline):
    """A reduction carries its value from one turn of a loop to the next and out of the loop."""
    x = (torch.tensor([DENORMAL]).abs() * sign).bfloat16().repeat(3, 1)
    for got, want in zip(mt.jit(reductions, pipeline=pipeline)(x), reductions(x), strict=True):
        assert_same(got, want)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_single_elements_keep_denormal_numbers(pipeline):
    def scalars(x, y):
        return x + y, torch.where(x > y, x, y), x * 0.5

    x, y = torch.tensor(1e-39).bfloat16(), torch.tensor(-3e-39).bfloat16()
    for got, want in zip(mt.jit(scalars, pipeline=pipeline)(x, y), scalars(x, y), strict=True):
        assert_same(got, want)


def test_nothing_but_casts_of_bits_sees_a_bfloat16():
    """Frontends write most of it in fp32, but a program may enter with arithmetic on bf16 itself."""
    binary = [f"%{name} = arith.{name} %x, %y : bf16" for name in ("addf", "divf", "remf", "maximumf", "minnumf")]
    others = ["%n = arith.negf %x : bf16", "%c = arith.cmpf ogt, %x, %y : bf16", "%d = arith.truncf %w : f64 to bf16",
              "%s = arith.select %c, %x, %y : bf16", "%e = arith.extf %x : bf16 to f64"]  # fmt: skip
    body = "\n".join([*binary, *others, "return"])
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @f(%x: bf16, %y: bf16, %w: f64) {{ {body} }}")
        narrow_floats.rewrite(module)
        lines = [line for line in print_module(module).splitlines() if "bf16" in line and "func.func" not in line]
    assert lines
    assert all("arith.bitcast" in line for line in lines), lines


def test_copies_of_a_value_bind_its_names_once(monkeypatch):
    """A rounding that a relu reads three times was three buffers of one name, which TVM refuses."""
    monkeypatch.setenv("MLIRTRI_FORCE_SCHEDULES", "1")
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1, groups=2), torch.nn.ReLU()).to(torch.bfloat16).eval()
    x = torch.randn(1, 8, 6, 7).to(torch.bfloat16)
    kernel = mt.from_torch(net, (x,)).compile(pipeline="relax")
    torch.testing.assert_close(kernel(x), net(x))


def test_extrema_of_columns_of_a_run_time_length():
    """A name of a value that the kernel keeps was bits of memory that TVM took for fp32."""
    rows = ({0: torch.export.Dim.DYNAMIC},)
    kernel = mt.from_torch(lambda x: x.amax(0), (torch.randn(5, 6).bfloat16(),), dynamic_shapes=rows).compile()
    x = torch.randn(9, 6).bfloat16()
    x[3, 2] = torch.nan
    assert_same(kernel(x), x.amax(0))
