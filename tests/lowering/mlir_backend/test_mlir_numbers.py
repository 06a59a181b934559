"""The `mlir` pipeline's stages, from linalg text to machine code, against NumPy."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.special
import torch
from mlir_stage_helpers import ADD_TWICE, SHAPES, SOFTMAX, compiled, elementwise, matmul, run, to_numpy
from tolerances import tolerance, within

import mlirtri
from mlirtri.dialect.base.dtypes import DTYPES


def test_add_twice(random):
    a, b = random.standard_normal((2, 2, 3), dtype=np.float32)
    (result,) = run(ADD_TWICE, [a, b], [((2, 3), "float32")])
    np.testing.assert_array_equal(result, a + b + a)


def test_softmax(random):
    a = random.standard_normal((5, 33), dtype=np.float32) * 10
    (result,) = run(SOFTMAX, [a], [((5, 33), "float32")])
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=tolerance("float32", 33))


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 1e-8, 20.0, -20.0, 100.0]
FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": scipy.special.erf, "absf": np.abs,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "roundeven": np.rint,
}  # fmt: skip
NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def every_function(kind, size):
    """One function that returns each of FUNCTIONS of its argument, so that a dtype costs one compilation."""
    steps = [f"%{i} = linalg.map {{ math.{name} }} ins(%a : T) outs(%e : T)" for i, name in enumerate(FUNCTIONS)]
    results = ", ".join(["T"] * len(FUNCTIONS))
    values = ", ".join(f"%{i}" for i in range(len(FUNCTIONS)))
    lines = "\n".join([*steps, f"return {values} : {results}"])
    text = f"func.func @f(%a: T) -> ({results}) {{ %e = tensor.empty() : T\n{lines} }}"
    return text.replace("T", f"tensor<{size}x{kind}>")


@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "bf16"])
def test_math_functions_are_accurate(kind, random):
    dtype = DTYPES[NAMES[kind]]
    x = torch.tensor([*random.standard_normal(60) * 3, *SPECIAL], dtype=dtype.torch)
    results = run(every_function(kind, len(x)), [x], [(tuple(x.shape), dtype.name)] * len(FUNCTIONS))
    with np.errstate(all="ignore"):
        for result, (name, reference) in zip(results, FUNCTIONS.items(), strict=True):
            expected = to_numpy(torch.tensor(reference(x.double().numpy())).to(dtype.torch))
            np.testing.assert_allclose(result, expected, rtol=tolerance(dtype.name), atol=1e-30, err_msg=name)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("operation", ["addf", "subf", "mulf", "divf"])
def test_half_arithmetic_rounds_once_per_operation(kind, operation, random):
    dtype = DTYPES[NAMES[kind]].torch
    x, y = (torch.tensor(random.standard_normal(64) * 100, dtype=dtype) for _ in range(2))
    body = f"%s = arith.{operation} %x0, %x1 : {kind}\n %r = arith.addf %s, %x0 : {kind}"
    (result,) = run(elementwise([kind, kind], kind, body, shape="64"), [x, y], [((64,), NAMES[kind])])
    step = {"addf": x + y, "subf": x - y, "mulf": x * y, "divf": x / y}[operation]
    np.testing.assert_array_equal(result, to_numpy(step + x))


def test_the_function_that_rounds_fp64_to_fp16_is_part_of_the_code():
    def angle(y, x):
        return np.arctan2(y, x)

    y = np.array([1, -2, 0.3, np.nan, np.inf, -0.0, 6e-8], np.float16)
    x = np.roll(y, 3)
    kernel = mlirtri.jit(angle, pipeline="mlir").compile(y, x)
    # Whether a library of the process has it as well depends on which are loaded.
    assert "@__truncdfhf2" in kernel.ir["llvmdialect"]
    np.testing.assert_array_equal(kernel(y, x), np.arctan2(y, x))


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_integer_operations_wrap_and_compare(kind):
    bits = DTYPES[kind].bits
    x = np.array([np.iinfo(kind).min, -7, -1, 0, 1, 7, np.iinfo(kind).max], dtype=kind)
    y = np.array([3, 2, -4, 5, 3, -2, 3], dtype=kind)
    unsigned = x.view(f"u{kind}"), y.view(f"u{kind}")
    with np.errstate(all="ignore"):
        cases = {
            "addi": x + y, "subi": x - y, "muli": x * y, "floordivsi": x // y, "andi": x & y, "xori": x ^ y,
            "maxsi": np.maximum(x, y), "minsi": np.minimum(x, y), "maxui": np.maximum(*unsigned),
            "divui": unsigned[0] // unsigned[1], "remui": unsigned[0] % unsigned[1],
            "divsi": np.trunc(x.astype("float64") / y).astype(kind) if bits < 64 else None,
            "shrsi": x >> (y & 3), "shrui": unsigned[0] >> (unsigned[1] & 3), "shli": x << (y & 3),
        }  # fmt: skip
    for name, expected in cases.items():
        if expected is None:
            continue
        shift = f"%three = arith.constant 3 : i{bits}\n %s = arith.andi %x1, %three : i{bits}\n "
        shifts = name.startswith("sh")
        body = f"{shift if shifts else ''}%r = arith.{name} %x0, {'%s' if shifts else '%x1'} : i{bits}"
        text = elementwise([f"i{bits}"] * 2, f"i{bits}", body, shape="7")
        (result,) = run(text, [x, y], [((7,), kind)])
        np.testing.assert_array_equal(result, expected.view(kind), err_msg=name)


def test_comparisons_give_bool_and_bool_selects():
    x = np.array([1.0, np.nan, -2.0, np.inf], dtype=np.float32)
    y = np.array([1.0, 1.0, 3.0, -np.inf], dtype=np.float32)
    (less,) = run(elementwise(["f32", "f32"], "i1", "%r = arith.cmpf olt, %x0, %x1 : f32"), [x, y], [((4,), "bool")])
    np.testing.assert_array_equal(less, x < y)
    text = elementwise(["i1", "f32", "f32"], "f32", "%r = arith.select %x0, %x1, %x2 : f32")
    (chosen,) = run(text, [less, x, y], [((4,), "float32")])
    np.testing.assert_array_equal(chosen, np.where(less, x, y))
    text = elementwise(["i1"], "i64", "%r = arith.extui %x0 : i1 to i64")
    (number,) = run(text, [less], [((4,), "int64")])
    np.testing.assert_array_equal(number, less.astype(np.int64))


def test_maximum_propagates_nan():
    x = np.array([1.0, np.nan, np.nan, 2.0], dtype=np.float32)
    y = np.array([np.nan, 1.0, np.nan, 3.0], dtype=np.float32)
    (result,) = run(elementwise(["f32"] * 2, "f32", "%r = arith.maximumf %x0, %x1 : f32"), [x, y], [((4,), "float32")])
    np.testing.assert_array_equal(result, np.maximum(x, y))


@pytest.mark.parametrize(
    ("source", "target", "cast"),
    [
        ("float32", "float16", "truncf"), ("float32", "bfloat16", "truncf"), ("bfloat16", "float32", "extf"),
        ("float16", "float64", "extf"), ("float64", "float16", "truncf"), ("int32", "float16", "sitofp"),
        ("int64", "bfloat16", "sitofp"), ("float32", "int16", "fptosi"), ("bfloat16", "int32", "fptosi"),
        ("int8", "int64", "extsi"), ("int64", "int8", "trunci"),
    ],
)  # fmt: skip
def test_casts(source, target, cast, random):
    x = torch.tensor(random.standard_normal(64) * 100).to(DTYPES[source].torch)
    old, new = DTYPES[source].signless, DTYPES[target].signless
    (result,) = run(
        elementwise([old], new, f"%r = arith.{cast} %x0 : {old} to {new}", shape="64"), [x], [((64,), target)]
    )
    np.testing.assert_array_equal(result, to_numpy(x.to(DTYPES[target].torch)))


@pytest.mark.parametrize("shape", [(4, 5, 6), (1, 7, 3), (17, 1, 33), (64, 48, 80), (3, 4, 0)])
def test_matmul(shape, random):
    m, n, k = shape
    a, b = random.standard_normal((m, k), dtype=np.float32), random.standard_normal((k, n), dtype=np.float32)
    (result,) = run(matmul(m, n, k), [a, b], [((m, n), "float32")])
    np.testing.assert_allclose(result, a @ b, **within("float32", k))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_half_matmul_accumulates_in_float32(kind, random):
    a, b = (torch.tensor(random.standard_normal((33, 33)), dtype=DTYPES[NAMES[kind]].torch) for _ in range(2))
    (result,) = run(matmul(33, 33, 33, kind), [a, b], [((33, 33), "float32")])
    np.testing.assert_allclose(result, (a.double() @ b.double()).numpy(), **within("float32", 33))


def test_batch_matmul(random):
    a, b = random.standard_normal((3, 5, 9), dtype=np.float32), random.standard_normal((3, 9, 4), dtype=np.float32)
    text = """
    func.func @f(%a: tensor<3x5x9xf32>, %b: tensor<3x9x4xf32>) -> tensor<3x5x4xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<3x5x4xf32>
      %i = linalg.fill ins(%zero : f32) outs(%e : tensor<3x5x4xf32>) -> tensor<3x5x4xf32>
      %0 = linalg.batch_matmul ins(%a, %b : tensor<3x5x9xf32>, tensor<3x9x4xf32>)
          outs(%i : tensor<3x5x4xf32>) -> tensor<3x5x4xf32>
      return %0 : tensor<3x5x4xf32>
    }"""
    (result,) = run(text, [a, b], [((3, 5, 4), "float32")])
    np.testing.assert_allclose(result, a @ b, **within("float32", 9))


def test_argmax_has_two_results_from_one_loop(random):
    text = """
    #id = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    func.func @f(%a: tensor<3x9xf32>) -> (tensor<3xf32>, tensor<3xi64>) {
      %lowest = arith.constant 0xFF800000 : f32
      %zero = arith.constant 0 : i64
      %e0 = tensor.empty() : tensor<3xf32>
      %e1 = tensor.empty() : tensor<3xi64>
      %f0 = linalg.fill ins(%lowest : f32) outs(%e0 : tensor<3xf32>) -> tensor<3xf32>
      %f1 = linalg.fill ins(%zero : i64) outs(%e1 : tensor<3xi64>) -> tensor<3xi64>
      %0:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]}
          ins(%a : tensor<3x9xf32>) outs(%f0, %f1 : tensor<3xf32>, tensor<3xi64>) {
      ^bb0(%x: f32, %best: f32, %where: i64):
        %j = linalg.index 1 : index
        %here = arith.index_cast %j : index to i64
        %more = arith.cmpf ogt, %x, %best : f32
        %value = arith.select %more, %x, %best : f32
        %place = arith.select %more, %here, %where : i64
        linalg.yield %value, %place : f32, i64
      } -> (tensor<3xf32>, tensor<3xi64>)
      return %0#0, %0#1 : tensor<3xf32>, tensor<3xi64>
    }"""
    a = random.standard_normal((3, 9), dtype=np.float32)
    value, place = run(text, [a], [((3,), "float32"), ((3,), "int64")])
    np.testing.assert_array_equal(value, a.max(1))
    np.testing.assert_array_equal(place, a.argmax(1))
    assert compiled(text).kernels == 1


def test_shape_operations(random):
    a, b = random.standard_normal((4, 6), dtype=np.float32), random.standard_normal((2, 6), dtype=np.float32)
    inserted = a.copy()
    inserted[0::2] = b
    expected = [
        a[1::2, 0::2], np.concatenate([a, b]), np.pad(a, ((1, 0), (0, 2)), constant_values=9), a.reshape(2, 2, 6),
        a.reshape(24), inserted,
    ]  # fmt: skip
    results = run(SHAPES, [a, b], [(one.shape, "float32") for one in expected])
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_results_that_are_arguments_duplicates_or_constants(random):
    text = """
    func.func @f(%a: tensor<2x2xf32>, %s: tensor<f64>)
        -> (tensor<2x2xf32>, tensor<f64>, tensor<2x2xf32>, tensor<3xi64>, tensor<2x2xf32>, tensor<2x2xf32>) {
      %e = tensor.empty() : tensor<2x2xf32>
      %0 = linalg.exp ins(%a : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
      %1 = linalg.add ins(%0, %a : tensor<2x2xf32>, tensor<2x2xf32>) outs(%a : tensor<2x2xf32>) -> tensor<2x2xf32>
      %c = arith.constant dense<[1, 2, 3]> : tensor<3xi64>
      return %a, %s, %0, %c, %0, %1 : tensor<2x2xf32>, tensor<f64>, tensor<2x2xf32>, tensor<3xi64>, tensor<2x2xf32>,
          tensor<2x2xf32>
    }"""
    a, s = random.standard_normal((2, 2), dtype=np.float32), np.array(2.5)
    square = ((2, 2), "float32")
    results = run(text, [a, s], [square, ((), "float64"), square, ((3,), "int64"), square, square])
    expected = [a, s, np.exp(a), np.array([1, 2, 3]), np.exp(a), np.exp(a) + a]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=tolerance(wanted.dtype))


def test_function_without_results():
    assert run("func.func @f(%a: tensor<2xf32>) { return }", [np.ones(2, np.float32)], []) == []


@pytest.mark.parametrize("shape", ["", "0", "3x0", "1x1"])
def test_scalar_and_empty_shapes(shape):
    sizes = tuple(int(size) for size in shape.split("x")) if shape else ()
    x = np.full(sizes, 3, dtype=np.float32)
    (result,) = run(elementwise(["f32"], "f32", "%r = arith.mulf %x0, %x0 : f32", shape), [x], [(sizes, "float32")])
    np.testing.assert_array_equal(result, x * x)


@pytest.mark.parametrize("kernel", ["exp", "malloc", "main", "memcpy", "expf"])
def test_kernel_may_bear_the_name_of_a_c_function(kernel):
    text = elementwise(["f32"], "f32", "%r = math.exp %x0 : f32").replace("@f(", f"@{kernel}(")
    (result,) = run(text, [np.ones(4, np.float32)], [((4,), "float32")], kernel)
    np.testing.assert_allclose(result, np.e, rtol=tolerance("float32"))


def test_integer_power_stays_private():
    text = elementwise(["i64", "i64"], "i64", "%r = math.ipowi %x0, %x1 : i64")
    (result,) = run(text, [np.array([2, 3, -2, 1]), np.array([5, 2, 3, 0])], [((4,), "int64")])
    np.testing.assert_array_equal(result, [32, 9, -8, 1])


def test_one_executable_from_several_threads(random):
    executable = compiled(SOFTMAX)
    failures = []

    def work(seed):
        a = torch.tensor(np.random.default_rng(seed).standard_normal((5, 33), dtype=np.float32))
        result = torch.empty_like(a)
        for _ in range(300):
            result.zero_()
            executable.launch([a], [result])
            if not torch.allclose(result, torch.softmax(a, 1), **within("float32", 33)):
                failures.append(seed)
                return

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_two_threads_compile_at_once():
    results = {}

    def work(value):
        text = elementwise(["f32"], "f32", f"%c = arith.constant {value}.0 : f32\n %r = arith.mulf %x0, %c : f32")
        results[value] = run(text, [np.ones(4, np.float32)], [((4,), "float32")])[0].tolist()

    threads = [threading.Thread(target=work, args=(value,)) for value in (2, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {value: [value] * 4 for value in (2, 3, 5, 7)}


def test_float64_to_float16_rounds_once():
    halves = np.array([1.0, 1.5, 1023.0, 2.0**-14, 2.0**-24, 65000.0, 3.1e-5], dtype=np.float16)
    above = np.nextafter(halves, np.float16(np.inf))
    middle = np.append((halves.astype("float64") + above.astype("float64")) / 2, 65520.0)  # the last: nearly infinity
    hard = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), [0, np.nan, np.inf, 1e-60]])
    x = np.concatenate([hard, -hard, [1e300, 1e-40, 1e-45]])
    text = elementwise(["f64"], "f16", "%r = arith.truncf %x0 : f64 to f16", shape=str(len(x)))
    (result,) = run(text, [x], [(x.shape, "float16")])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, x.astype(np.float16))
