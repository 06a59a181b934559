"""Programs from TOSA, an operator at a time, against NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.nn import functional

import mlirtri as mt
from mlirtri.errors import ParseError

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(11)
SHORT = {"float32": "f32", "float16": "f16", "int32": "i32", "int8": "i8", "bool": "i1", "int64": "i64"}


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind == "i":
        return RNG.integers(-9, 9, shape).astype(dtype)
    return RNG.uniform(-2, 2, shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """One operator: what stands for `%0 =`, its arguments, and what it computes."""

    body: str
    arguments: tuple[np.ndarray, ...]
    oracle: Callable[..., np.ndarray]


def mlir_type(array: np.ndarray) -> str:
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{SHORT[array.dtype.name]}>"


def program_of(case: Case):
    """The program, and what the case is to give."""
    wanted = np.asarray(case.oracle(*case.arguments))
    types = {f"T{at}": mlir_type(each) for at, each in enumerate(case.arguments)} | {"R": mlir_type(wanted)}
    body = case.body
    for name, kind in types.items():
        body = body.replace(f"${name}", kind)
    parameters = ", ".join(f"%a{at}: {mlir_type(each)}" for at, each in enumerate(case.arguments))
    text = f"func.func @main({parameters}) -> {types['R']} {{\n  {body}\n  return %0 : {types['R']}\n}}"
    return mt.from_tosa(text), wanted


def unary(name: str, oracle: Callable, *, positive: bool = False, dtype: str = "float32") -> Case:
    x = random(3, 5, dtype=dtype)
    return Case(f"%0 = tosa.{name} %a0 : ($T0) -> $R", (np.abs(x) + 1 if positive else x,), oracle)


def binary(name: str, oracle: Callable, *, dtype: str = "float32", positive: bool = False) -> Case:
    a, b = random(3, 5, dtype=dtype), random(1, 5, dtype=dtype)
    if positive:
        a, b = np.abs(a) + 1, np.abs(b) + 1
    return Case(f"%0 = tosa.{name} %a0, %a1 : ($T0, $T1) -> $R", (a, b.astype(a.dtype)), oracle)


def reduction(name: str, oracle: Callable, dtype: str = "float32") -> Case:
    return Case(f"%0 = tosa.{name} %a0 {{axis = 1 : i32}} : ($T0) -> $R", (random(3, 4, 2, dtype=dtype),), oracle)


def over(function: Callable) -> Callable:
    return lambda x: function(x, axis=1, keepdims=True)


def shape_constant(name: str, values: list[int]) -> str:
    listed = ", ".join(map(str, values))
    rank = len(values)
    return (
        f"%{name} = tosa.const_shape {{values = dense<[{listed}]> : tensor<{rank}xindex>}} : () -> !tosa.shape<{rank}>"
    )


ZERO = '%z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>\n  '
ATTRIBUTES = "dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 2, 2>"


def channels_last(image: np.ndarray) -> torch.Tensor:
    return torch.tensor(image).permute(0, 3, 1, 2)


def convolved(x, w, b) -> np.ndarray:
    found = functional.conv2d(channels_last(x), channels_last(w), torch.tensor(b), stride=2, padding=1)
    return found.permute(0, 2, 3, 1).numpy()


def convolved_by_channel(x, w, b) -> np.ndarray:
    weight = torch.tensor(w).permute(2, 3, 0, 1).reshape(-1, 1, *w.shape[:2])
    found = functional.conv2d(channels_last(x), weight, torch.tensor(b), stride=2, padding=1, groups=x.shape[3])
    return found.permute(0, 2, 3, 1).numpy()


def pooled(x) -> np.ndarray:
    return functional.max_pool2d(channels_last(x), 2, 2).permute(0, 2, 3, 1).numpy()


def gathered(x, i) -> np.ndarray:
    return np.stack([rows[picks] for rows, picks in zip(x, i, strict=True)])


CASES = {
    "abs": unary("abs", np.abs),
    "ceil": unary("ceil", np.ceil),
    "floor": unary("floor", np.floor),
    "exp": unary("exp", np.exp),
    "log": unary("log", np.log, positive=True),
    "rsqrt": unary("rsqrt", lambda x: 1 / np.sqrt(x), positive=True),
    "reciprocal": unary("reciprocal", lambda x: 1 / x, positive=True),
    "tanh": unary("tanh", np.tanh),
    "sigmoid": unary("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    "erf": unary("erf", lambda x: torch.erf(torch.tensor(x)).numpy()),
    "sin": unary("sin", np.sin),
    "bitwise_not": unary("bitwise_not", np.invert, dtype="int32"),
    "clz": unary(
        "clz", lambda x: np.int32([[32 - int(v).bit_length() for v in row] for row in x]), positive=True, dtype="int32"
    ),
    "logical_not": unary("logical_not", np.logical_not, dtype="bool"),
    "cast": unary("cast", lambda x: x.astype(np.float32), dtype="int8"),
    "cast to int": unary("cast", lambda x: np.rint(x).astype(np.int32)),
    "add": binary("add", np.add),
    "sub": binary("sub", np.subtract, dtype="int32"),
    "pow": binary("pow", np.power, positive=True),
    "maximum": binary("maximum", np.maximum),
    "minimum": binary("minimum", np.minimum, dtype="int32"),
    "intdiv": binary("intdiv", lambda a, b: a // b, dtype="int32", positive=True),
    "logical_xor": binary("logical_xor", np.logical_xor, dtype="bool"),
    "bitwise_and": binary("bitwise_and", np.bitwise_and, dtype="int32"),
    "greater": binary("greater", np.greater),
    "equal": binary("equal", np.equal, dtype="int32"),
    "logical_left_shift": binary("logical_left_shift", np.left_shift, dtype="int32", positive=True),
    "select": Case(
        "%0 = tosa.select %a0, %a1, %a2 : ($T0, $T1, $T2) -> $R",
        (random(3, 5, dtype="bool"), random(3, 5), random(3, 5)),
        np.where,
    ),
    "clamp": Case(
        "%0 = tosa.clamp %a0 {min_val = -1.0 : f32, max_val = 1.0 : f32} : ($T0) -> $R",
        (np.float32([-3, 0.5, 3]),),
        lambda x: np.clip(x, -1, 1),
    ),
    "reduce_sum": reduction("reduce_sum", over(np.sum)),
    "reduce_max": reduction("reduce_max", over(np.max)),
    "reduce_min": reduction("reduce_min", over(np.min), "int32"),
    "reduce_product": reduction("reduce_product", over(np.prod)),
    "reduce_any": reduction("reduce_any", over(np.any), "bool"),
    "argmax": Case(
        "%0 = tosa.argmax %a0 {axis = 1 : i32} : ($T0) -> $R",
        (random(3, 6),),
        lambda x: np.argmax(x, 1).astype(np.int32),
    ),
    "reshape": Case(
        f"{shape_constant('s', [4, 6])}\n  %0 = tosa.reshape %a0, %s : ($T0, !tosa.shape<2>) -> $R",
        (random(2, 3, 4),),
        lambda x: x.reshape(4, 6),
    ),
    "transpose": Case(
        "%0 = tosa.transpose %a0 {perms = array<i32: 2, 0, 1>} : ($T0) -> $R",
        (random(2, 3, 4),),
        lambda x: x.transpose(2, 0, 1),
    ),
    "reverse": Case(
        "%0 = tosa.reverse %a0 {axis = 1 : i32} : ($T0) -> $R", (random(2, 3, 4),), lambda x: x[:, ::-1].copy()
    ),
    "concat": Case(
        "%0 = tosa.concat %a0, %a1 {axis = 1 : i32} : ($T0, $T1) -> $R",
        (random(2, 3), random(2, 4)),
        lambda a, b: np.concatenate([a, b], 1),
    ),
    "slice": Case(
        f"{shape_constant('s', [1, 2])}\n  {shape_constant('n', [2, 3])}\n  "
        "%0 = tosa.slice %a0, %s, %n : ($T0, !tosa.shape<2>, !tosa.shape<2>) -> $R",
        (random(4, 6),),
        lambda x: x[1:3, 2:5].copy(),
    ),
    "pad": Case(
        f"{ZERO}{shape_constant('p', [1, 0, 0, 2])}\n  "
        "%0 = tosa.pad %a0, %p, %z : ($T0, !tosa.shape<4>, tensor<1xf32>) -> $R",
        (random(2, 3),),
        lambda x: np.pad(x, ((1, 0), (0, 2))),
    ),
    "tile": Case(
        f"{shape_constant('t', [2, 3])}\n  %0 = tosa.tile %a0, %t : ($T0, !tosa.shape<2>) -> $R",
        (random(2, 3),),
        lambda x: np.tile(x, (2, 3)),
    ),
    "gather": Case(
        "%0 = tosa.gather %a0, %a1 : ($T0, $T1) -> $R",
        (random(2, 4, 3), np.int32([[0, 3, 1], [2, 2, 0]])),
        gathered,
    ),
    "matmul": Case(
        f"{ZERO}%0 = tosa.matmul %a0, %a1, %z, %z : ($T0, $T1, tensor<1xf32>, tensor<1xf32>) -> $R",
        (random(2, 3, 4), random(2, 4, 5)),
        np.matmul,
    ),
    "conv2d": Case(
        f"{ZERO}%0 = tosa.conv2d %a0, %a1, %a2, %z, %z {{acc_type = f32, {ATTRIBUTES}}} : "
        "($T0, $T1, $T2, tensor<1xf32>, tensor<1xf32>) -> $R",
        (random(1, 7, 7, 3), random(4, 3, 3, 3), random(4)),
        convolved,
    ),
    "depthwise_conv2d": Case(
        f"{ZERO}%0 = tosa.depthwise_conv2d %a0, %a1, %a2, %z, %z {{acc_type = f32, {ATTRIBUTES}}} : "
        "($T0, $T1, $T2, tensor<1xf32>, tensor<1xf32>) -> $R",
        (random(1, 7, 7, 3), random(3, 3, 3, 2), random(6)),
        convolved_by_channel,
    ),
    "max_pool2d": Case(
        "%0 = tosa.max_pool2d %a0 {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, "
        "stride = array<i64: 2, 2>} : ($T0) -> $R",
        (random(1, 6, 6, 3),),
        pooled,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    program, wanted = program_of(CASES[name])
    found = program.compile()(*CASES[name].arguments)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["add", "conv2d", "gather", "argmax"])
def test_operators_without_tvm(name):
    program, wanted = program_of(CASES[name])
    found = program.compile(pipeline="mlir")(*CASES[name].arguments)
    np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_quantised_layer_is_rescaled(pipeline):
    text = """
func.func @main(%a: tensor<1x3x4xi8>, %b: tensor<1x4x5xi8>) -> tensor<1x3x5xi8> {
  %za = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zb = "tosa.const"() <{values = dense<-1> : tensor<1xi8>}> : () -> tensor<1xi8>
  %m = tosa.matmul %a, %b, %za, %zb : (tensor<1x3x4xi8>, tensor<1x4x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x5xi32>
  %multiplier = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %shift = "tosa.const"() <{values = dense<33> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zi = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %zo = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.rescale %m, %multiplier, %shift, %zi, %zo {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = SINGLE_ROUND, scale32 = true} : (tensor<1x3x5xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x3x5xi8>
  return %0 : tensor<1x3x5xi8>
}"""  # noqa: E501 - TOSA says every type
    a, b = random(1, 3, 4, dtype="int8"), random(1, 4, 5, dtype="int8")
    product = (a.astype(np.int64) - 3) @ (b.astype(np.int64) + 1)
    # The multiplier is 2^30 of 2^33: an eighth, rounded to nearest, halves up.
    wanted = np.clip((product + 4 >> 3) + 5, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(mt.from_tosa(text).compile(pipeline=pipeline)(a, b), wanted)


def test_text_that_does_not_parse_is_shown():
    with pytest.raises(ParseError, match="<text>:2"):
        mt.from_tosa("func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n  %0 = tosa.nothing %a\n}")
