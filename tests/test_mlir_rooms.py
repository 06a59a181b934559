"""The `mlir` pipeline's rooms, from linalg text to machine code, against NumPy."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import torch
from tolerances import tolerance, within

from mlirtri.dialect.dtypes import DTYPES
from mlirtri.dialect.mlir import ir, print_complete, print_module
from mlirtri.errors import CodegenError, UnsupportedOperationError
from mlirtri.lowering import bufferized_to_llvmdialect, fused_to_bufferized, linalg_to_fused, llvmdialect_to_asm
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.target import as_target

ROOMS = {
    "fused": linalg_to_fused,
    "bufferized": fused_to_bufferized,
    "llvmdialect": bufferized_to_llvmdialect,
    "asm": llvmdialect_to_asm,
}


def walk(text, until="asm", kernel="f", **options):
    """The IR after the room `until`, and the context that went along."""
    context = CompileContext(kernel, as_target("cpu"), **options)
    with ir.Context():
        state = ir.Module.parse(text)
        for stage, room in ROOMS.items():
            context.stage = stage
            state = room.lower(state, context)
            if stage == until:
                return state, context


def text_after(text, until):
    return print_module(walk(text, until)[0])


def compiled(text, kernel="f"):
    return walk(text, kernel=kernel)[0].executable


def run(text, inputs, outputs, kernel="f"):
    """Call the kernel of `text`: `inputs` are arrays, `outputs` (shape, dtype name). Gives arrays."""
    tensors = [torch.as_tensor(value) for value in inputs]
    before = [bytes(tensor.untyped_storage()) for tensor in tensors]
    results = [torch.full(shape, 7, dtype=DTYPES[name].torch) for shape, name in outputs]
    compiled(text, kernel).launch(tensors, results)
    for tensor, old in zip(tensors, before, strict=True):
        assert bytes(tensor.untyped_storage()) == old, "an input was written"
    return [to_numpy(result) for result in results]


def to_numpy(tensor):
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def elementwise(types, result, body, shape="4"):
    """A function over `types` (MLIR element types) of one elementwise operation whose body yields %r."""
    dims = [f"d{axis}" for axis in range(len(shape.split("x")))] if shape else []
    identity = f"affine_map<({', '.join(dims)}) -> ({', '.join(dims)})>"
    kinds = [f"tensor<{shape}x{one}>" if shape else f"tensor<{one}>" for one in (*types, result)]
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds[:-1]))
    names = ", ".join(f"%a{i}" for i in range(len(types)))
    block = ", ".join([*(f"%x{i}: {one}" for i, one in enumerate(types)), f"%o: {result}"])
    loops = ", ".join(['"parallel"'] * len(dims))
    return f"""
    func.func @f({arguments}) -> {kinds[-1]} {{
      %e = tensor.empty() : {kinds[-1]}
      %0 = linalg.generic {{indexing_maps = [{", ".join([identity] * len(kinds))}], iterator_types = [{loops}]}}
          ins({names} : {", ".join(kinds[:-1])}) outs(%e : {kinds[-1]}) {{
      ^bb0({block}):
        {body}
        linalg.yield %r : {result}
      }} -> {kinds[-1]}
      return %0 : {kinds[-1]}
    }}"""


def chain(*steps, shape="4", result=None):
    """A function of %a, written shortly: ``%2 = f(%1) exp``, ``%3 = f[12](%2, %1) addf``, ``%4 = sum(%3)`` over the
    last axis, or a line of MLIR as it is. Returns the value of the last step, of shape `result`.
    """
    lines = [_step(step, shape) for step in steps]
    last, result = steps[-1].split(" = ")[0], f"tensor<{result or shape}xf32>"
    return f"""
    func.func @f(%a: tensor<{shape}xf32>) -> {result} {{
      {"".join(lines)}
      return {last} : {result}
    }}"""


def _step(step, shape):
    match = re.fullmatch(r"(%\w+) = (f|sum)(?:\[(\w+)\])?\((.*?)\) ?(\w*)", step)
    if match is None:
        return step + "\n"
    name, kind, own_shape, operands, function = match.groups()
    sizes, operands = (own_shape or shape).split("x"), operands.split(", ")
    whole = f"tensor<{'x'.join(sizes)}xf32>"
    dims = [f"d{axis}" for axis in range(len(sizes))]
    out = dims if kind == "f" else dims[:-1]
    target = f"tensor<{'x'.join([*sizes[: len(out)], 'f32'])}>"
    maps = [f"affine_map<({', '.join(dims)}) -> ({', '.join(one)})>" for one in [dims] * len(operands) + [out]]
    loops = ", ".join(['"parallel"'] * len(out) + ['"reduction"'] * (len(dims) - len(out)))
    dialect = "arith" if function.endswith("f") else "math"
    values = ", ".join(f"%x{i}" for i in range(len(operands)))
    body = f"%r = {dialect}.{function} {values} : f32" if kind == "f" else "%r = arith.addf %o, %x0 : f32"
    return f"""
      %zero{name[1:]} = arith.constant 0.0 : f32
      %empty{name[1:]} = tensor.empty() : {target}
      %init{name[1:]} = linalg.fill ins(%zero{name[1:]} : f32) outs(%empty{name[1:]} : {target}) -> {target}
      {name} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{loops}]}}
          ins({", ".join(operands)} : {", ".join([whole] * len(operands))}) outs(%init{name[1:]} : {target}) {{
      ^bb0({", ".join(f"%x{i}: f32" for i in range(len(operands)))}, %o: f32):
        {body}
        linalg.yield %r : f32
      }} -> {target}
"""


ADD_TWICE = """
#id = affine_map<(i, j) -> (i, j)>
func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32> loc("out"("/src/k.py":3:11))
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %a : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32> loc("out"("/src/k.py":4:11))
  return %1 : tensor<2x3xf32>
}"""

SOFTMAX = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i, 0)>
func.func @f(%a: tensor<5x33xf32>) -> tensor<5x33xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<5x33xf32>
  %e1 = tensor.empty() : tensor<5x1xf32>
  %f1 = linalg.fill ins(%lowest : f32) outs(%e1 : tensor<5x1xf32>) -> tensor<5x1xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<5x33xf32>) outs(%f1 : tensor<5x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.maximumf %o, %x : f32
    linalg.yield %s : f32
  } -> tensor<5x1xf32>
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %m : tensor<5x33xf32>, tensor<5x1xf32>) outs(%e : tensor<5x33xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.subf %x, %y : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<5x33xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5x1xf32>) -> tensor<5x1xf32>
  %n = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<5x33xf32>) outs(%f2 : tensor<5x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.addf %o, %x : f32
    linalg.yield %s : f32
  } -> tensor<5x1xf32>
  %q = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %n : tensor<5x33xf32>, tensor<5x1xf32>) outs(%e : tensor<5x33xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.divf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<5x33xf32>
  return %q : tensor<5x33xf32>
}"""


def matmul(m, n, k, kind="f32"):
    return f"""
    func.func @f(%a: tensor<{m}x{k}x{kind}>, %b: tensor<{k}x{n}x{kind}>) -> tensor<{m}x{n}xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<{m}x{n}xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      %0 = linalg.matmul ins(%a, %b : tensor<{m}x{k}x{kind}>, tensor<{k}x{n}x{kind}>)
          outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      return %0 : tensor<{m}x{n}xf32>
    }}"""


@pytest.fixture
def random():
    return np.random.default_rng(0)


# The fused room


def test_two_adds_become_one_generic():
    fused = text_after(ADD_TWICE, "fused")
    assert fused.count("linalg.generic") == 1
    assert fused.count("arith.addf") == 2


def test_locations_survive_fusion():
    module, _ = walk(ADD_TWICE, "fused")
    assert '"/src/k.py":4:11' in print_complete(module)


def test_diamond_fuses_through_both_arms():
    fused = text_after(chain("%1 = f(%a) exp", "%2 = f(%1) sin", "%3 = f(%1) cos", "%4 = f(%2, %3) addf"), "fused")
    assert fused.count("linalg.generic") == 1
    assert fused.count("math.exp") == 1


def test_splat_constants_enter_the_body():
    text = chain("%c = arith.constant dense<3.0> : tensor<4xf32>", "%1 = f(%a) exp", "%2 = f(%1, %c) mulf")
    fused = text_after(text, "fused")
    assert "dense<" not in fused
    assert fused.count("linalg.generic") == 1


def test_elementwise_producer_enters_the_reduction_and_the_accumulator_stays_first():
    text = chain("%1 = f(%a) exp", "%2 = sum(%1)", shape="3x4", result="3")
    fused = text_after(text, "fused")
    assert fused.count("linalg.generic") == 1
    assert "arith.addf %out, %" in fused


def test_elementwise_on_both_sides_of_a_reshape_is_one_kernel():
    reshape = "%2 = tensor.collapse_shape %1 [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>"
    text = chain("%1 = f(%a) exp", reshape, "%3 = f[12](%2) sin", shape="3x4", result="12")
    assert text_after(text, "fused").count("linalg.generic") == 1


def test_fused_module_holds_only_what_the_bridge_reads():
    for text in (ADD_TWICE, SOFTMAX, matmul(4, 5, 6), matmul(4, 5, 6, "f16")):
        names = {line.split("= ")[-1].split(".")[0].strip(' "') for line in text_after(text, "fused").splitlines()}
        assert not names & {"bufferization", "memref", "scf", "affine", "vector", "ub"}


def test_matmul_keeps_its_name():
    assert "linalg.matmul" in text_after(matmul(4, 5, 6), "fused")


# a softmax whose weights a matmul reads: rows(p) @ v
WEIGHTED = """
#id = affine_map<(i, j) -> (i, j)>
func.func @f(%a: tensor<4x8xf32>, %v: tensor<8x6xf32>) -> tensor<2x2x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %r = math.exp %x : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %e1 = tensor.empty() : tensor<4x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %m = linalg.matmul ins(%p, %v : tensor<4x8xf32>, tensor<8x6xf32>) outs(%f : tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = tensor.expand_shape %m [[0, 1], [2]] output_shape [2, 2, 6] : tensor<4x6xf32> into tensor<2x2x6xf32>
  return %s : tensor<2x2x6xf32>
}"""


def test_arithmetic_stays_out_of_a_matmul_that_a_reshape_made_generic(random):
    fused = text_after(WEIGHTED, "fused")
    (contraction,) = [one for one in fused.split("linalg.generic") if "reduction" in one]
    assert "math.exp" not in contraction
    assert fused.count("linalg.generic") == 2
    assert "mlirtri.kept" not in fused
    assert "return %" in fused
    a, v = random.standard_normal((4, 8), dtype=np.float32), random.standard_normal((8, 6), dtype=np.float32)
    (result,) = run(WEIGHTED, [a, v], [((2, 2, 6), "float32")])
    np.testing.assert_allclose(result, (np.exp(a) @ v).reshape(2, 2, 6), rtol=tolerance("float32", 8))


def test_transposes_and_widening_casts_do_enter_a_contraction():
    text = WEIGHTED.replace("math.exp %x : f32", "arith.extf %x : f16 to f32").replace("%x: f32", "%x: f16")
    text = text.replace("%a: tensor<4x8xf32>", "%a: tensor<4x8xf16>").replace(
        "%a : tensor<4x8xf32>", "%a : tensor<4x8xf16>"
    )
    assert text_after(text, "fused").count("linalg.generic") == 1


KEEPDIMS = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#kept = affine_map<(i, j) -> (i, 0)>
func.func @f(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3xf32>) -> tensor<3xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<3x4xf32>) outs(%f : tensor<3xf32>) {
  ^bb0(%x: f32, %o: f32):
    %r = arith.addf %o, %x : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  %k = tensor.expand_shape %s [[0, 1]] output_shape [3, 1] : tensor<3xf32> into tensor<3x1xf32>
  %e = tensor.empty() : tensor<3x4xf32>
  %q = linalg.generic {indexing_maps = [#id, #kept, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %k : tensor<3x4xf32>, tensor<3x1xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.divf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<3x4xf32>
  return %q : tensor<3x4xf32>
}"""


def test_kept_axes_of_size_one_leave_no_reshape():
    assert "shape" not in text_after(KEEPDIMS, "fused")


def test_axes_of_size_one_in_the_signature_stay():
    text = matmul(1, 5, 6).replace("return %0", "%r = linalg.exp ins(%0 : T) outs(%e : T) -> T\n return %r")
    fused = text_after(text.replace(": T", ": tensor<1x5xf32>").replace("-> T", "-> tensor<1x5xf32>"), "fused")
    assert "shape" not in fused
    assert "linalg.matmul" in fused


# Numbers


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


def test_maximum_hands_nan_on():
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


SHAPES = """
func.func @f(%a: tensor<4x6xf32>, %b: tensor<2x6xf32>)
    -> (tensor<2x3xf32>, tensor<6x6xf32>, tensor<5x8xf32>, tensor<2x2x6xf32>, tensor<24xf32>, tensor<4x6xf32>) {
  %zero = arith.constant 9.0 : f32
  %slice = tensor.extract_slice %a[1, 0] [2, 3] [2, 2] : tensor<4x6xf32> to tensor<2x3xf32>
  %concat = tensor.concat dim(0) %a, %b : (tensor<4x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
  %pad = tensor.pad %a low[1, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x6xf32> to tensor<5x8xf32>
  %expand = tensor.expand_shape %a [[0, 1], [2]] output_shape [2, 2, 6] : tensor<4x6xf32> into tensor<2x2x6xf32>
  %collapse = tensor.collapse_shape %a [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %insert = tensor.insert_slice %b into %a[0, 0] [2, 6] [2, 1] : tensor<2x6xf32> into tensor<4x6xf32>
  return %slice, %concat, %pad, %expand, %collapse, %insert : tensor<2x3xf32>, tensor<6x6xf32>, tensor<5x8xf32>,
      tensor<2x2x6xf32>, tensor<24xf32>, tensor<4x6xf32>
}"""


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


# What the rooms promise beside numbers


def test_no_copy_and_no_buffer_that_could_be_the_output():
    bufferized = text_after(SOFTMAX, "bufferized")
    assert "memref.copy" not in bufferized
    assert bufferized.count("memref.alloca()") == 1  # for the maximum, then for the sum; exponentials go to the output
    assert not re.search(r"memref\.(copy|alloc)", text_after(matmul(64, 64, 64), "bufferized"))
    large = text_after(SOFTMAX.replace("5x", "5000x"), "bufferized")
    assert large.count("memref.alloc()") == large.count("memref.dealloc") == 1


def test_elementwise_works_in_place_only_on_what_nobody_needs(random):
    first = chain("%1 = f(%a) exp", "%2 = f(%1) sin", shape="3x3").replace("return %2", "return %1, %2")
    first = first.replace("-> tensor<3x3xf32> {", "-> (tensor<3x3xf32>, tensor<3x3xf32>) {", 1)
    first = first.replace("return %1, %2 : ", "return %1, %2 : tensor<3x3xf32>, ")
    a = random.standard_normal((3, 3), dtype=np.float32)
    square = ((3, 3), "float32")
    exponential, sine = run(first, [a], [square, square])
    np.testing.assert_allclose(exponential, np.exp(a), rtol=tolerance("float32"))
    np.testing.assert_allclose(sine, np.sin(np.exp(a)), **within("float32"))
    (result,) = run(TRANSPOSED_SUM, [a, a], [square])
    np.testing.assert_allclose(result, a @ a + (a @ a).T, **within("float32", 3))


TRANSPOSED_SUM = """
#id = affine_map<(i, j) -> (i, j)>
#swap = affine_map<(i, j) -> (j, i)>
func.func @f(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x3xf32>) -> tensor<3x3xf32>
  %m = linalg.matmul ins(%a, %b : tensor<3x3xf32>, tensor<3x3xf32>) outs(%f : tensor<3x3xf32>) -> tensor<3x3xf32>
  %0 = linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]}
      ins(%m, %m : tensor<3x3xf32>, tensor<3x3xf32>) outs(%e : tensor<3x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.addf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}"""


def test_shared_fills_and_reshaped_results_cost_no_copy():
    second = """
      %1 = linalg.matmul ins(%b, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
      %r = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 2, 4] : tensor<4x4xf32> into tensor<2x2x4xf32>
      %s = tensor.collapse_shape %1 [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
      return %r, %s : tensor<2x2x4xf32>, tensor<16xf32>"""
    text = matmul(4, 4, 4).replace("return %0 : tensor<4x4xf32>", second)
    text = text.replace("-> tensor<4x4xf32> {", "-> (tensor<2x2x4xf32>, tensor<16xf32>) {", 1)
    assert not re.search(r"copy|alloc", text_after(text, "bufferized"))
    a, b = np.arange(16, dtype=np.float32).reshape(4, 4), np.eye(4, dtype=np.float32) * 2
    first, second = run(text, [a, b], [((2, 2, 4), "float32"), ((16,), "float32")])
    np.testing.assert_array_equal(first, (a @ b).reshape(2, 2, 4))
    np.testing.assert_array_equal(second, (b @ a).reshape(16))


def test_bufferized_function_takes_inputs_then_outputs():
    signature = "func.func @f(%arg0: memref<2x3xf32>, %arg1: memref<2x3xf32>, %out: memref<2x3xf32>) {"
    assert signature in text_after(ADD_TWICE, "bufferized")


def test_kernels_are_the_loop_nests():
    assert compiled(ADD_TWICE).kernels == 1
    assert compiled(SOFTMAX).kernels == 4
    assert compiled(SHAPES).kernels == 3  # concat, pad, insert_slice


def test_every_pass_is_recorded_with_a_name_of_its_own():
    _, context = walk(ADD_TWICE, "llvmdialect")
    fused = {record.name: record for record in context.passes["fused"]}
    assert fused["linalg-fuse-elementwise-ops"].changed
    assert not fused["canonicalize#3"].changed
    assert "one-shot-bufferize" in {record.name for record in context.passes["bufferized"]}
    assert "narrow-floats" in {record.name for record in context.passes["llvmdialect"]}


def test_keeping_no_passes_gives_the_same_ir():
    for stage in ("fused", "bufferized", "llvmdialect"):
        quick, context = walk(SOFTMAX, stage, keep_passes=False)
        assert print_complete(quick) == print_complete(walk(SOFTMAX, stage)[0])
        assert context.passes == {}


def loops_of(text):
    _, context = walk(text, "llvmdialect")
    (ordered,) = [record.text for record in context.passes["llvmdialect"] if record.name == "order-loops"]
    return ordered


def test_loops_of_a_matmul_run_along_memory():
    ordered = loops_of(matmul(4, 5, 6))
    assert 'iterator_types = ["parallel", "reduction", "parallel"]' in ordered
    assert "arith.mulf %in, %in_0 fastmath<contract>" in ordered
    assert re.search(r"arith.addf %out, %\d+ fastmath<reassoc,contract>", ordered)


def test_only_the_accumulation_is_reassociated():
    ordered = loops_of(chain("%1 = f(%a, %a) addf", "%2 = f(%1, %a) mulf", "%3 = sum(%2)", shape="3x4", result="3"))
    assert 'iterator_types = ["parallel", "reduction"]' in ordered
    (first, _, last) = re.findall(r"arith\.(?:addf|mulf) .*", ordered)
    assert "fastmath" not in first
    assert "reassoc" in last


def test_column_sums_run_row_by_row(random):
    text = chain("%1 = sum(%a)", shape="3x4", result="3").replace("(d0, d1) -> (d0)", "(d0, d1) -> (d1)")
    text = text.replace("tensor<3xf32>", "tensor<4xf32>").replace(
        '["parallel", "reduction"]', '["reduction", "parallel"]'
    )
    assert 'iterator_types = ["reduction", "parallel"]' in loops_of(text)
    a = random.standard_normal((3, 4), dtype=np.float32)
    np.testing.assert_allclose(run(text, [a], [((4,), "float32")])[0], a.sum(0), rtol=tolerance("float32", 3))


def test_convolution_with_compound_indices(random):
    text = """
    func.func @f(%a: tensor<1x7x3xf32>, %k: tensor<3x3x2xf32>) -> tensor<1x5x2xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<1x5x2xf32>
      %i = linalg.fill ins(%zero : f32) outs(%e : tensor<1x5x2xf32>) -> tensor<1x5x2xf32>
      %0 = linalg.conv_1d_nwc_wcf {dilations = dense<1> : tensor<1xi64>, strides = dense<1> : tensor<1xi64>}
          ins(%a, %k : tensor<1x7x3xf32>, tensor<3x3x2xf32>) outs(%i : tensor<1x5x2xf32>) -> tensor<1x5x2xf32>
      return %0 : tensor<1x5x2xf32>
    }"""
    a, k = random.standard_normal((1, 7, 3), dtype=np.float32), random.standard_normal((3, 3, 2), dtype=np.float32)
    expected = sum(a[:, w : w + 5] @ k[w] for w in range(3))
    np.testing.assert_allclose(run(text, [a, k], [((1, 5, 2), "float32")])[0], expected, **within("float32", 9))


@pytest.mark.parametrize("stage", ["bufferized", "llvmdialect"])
def test_locations_survive_every_room(stage):
    assert '"/src/k.py":4:11' in print_complete(walk(ADD_TWICE, stage)[0])


def test_assembly_is_for_the_host():
    text = walk(elementwise(["f32"], "f32", "%r = arith.addf %x0, %x0 : f32", shape="1024"))[0].text
    assert "mlirtri_f" in text
    if platform.machine() == "x86_64" and shutil.which("objdump"):
        assert re.search(r"\b[yz]mm\d", text)


def test_assembly_names_the_users_lines():
    if shutil.which("objdump"):
        assert re.search(r"^; /src/k.py:4$", walk(ADD_TWICE)[0].text, flags=re.MULTILINE)


def test_locations_of_inlined_helpers_compile():
    called = 'callsite("helper"("/h.py":1:2) at callsite("/g.py":3:4 at fused["/src/k.py":4:11, unknown]))'
    text = ADD_TWICE.replace('"out"("/src/k.py":4:11)', called).replace('"out"("/src/k.py":3:11)', "unknown")
    a = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(text, [a, a], [((2, 3), "float32")])[0], a * 3)


def test_without_objdump_the_text_is_llvm_ir(monkeypatch):
    monkeypatch.setenv("PATH", "")
    text = walk(ADD_TWICE)[0].text
    assert text.startswith("; objdump is not on PATH")
    assert "define void @mlirtri_f(" in text


def test_scalar_arguments_are_refused_with_the_way_out():
    with pytest.raises(UnsupportedOperationError, match=r"'f' takes or returns a f32; .*ranked tensors only"):
        walk("func.func @f(%a: f32) { return }", "bufferized")


def test_resuming_from_the_complete_text_gives_the_same_stages():
    def resumed(stage, later):
        context = CompileContext("f", as_target("cpu"), stage=later)
        with ir.Context():
            module = ir.Module.parse(print_complete(walk(SOFTMAX, stage)[0]))
            return print_complete(ROOMS[later].lower(module, context))

    for stage, later in (("fused", "bufferized"), ("bufferized", "llvmdialect")):
        assert resumed(stage, later) == print_complete(walk(SOFTMAX, later)[0])


def test_llvm_dialect_from_elsewhere_runs():
    text = """
    llvm.func @store(%p: !llvm.ptr) {
      %c = llvm.mlir.constant(5.0 : f32) : f32
      llvm.store %c, %p : f32, !llvm.ptr
      llvm.return
    }"""
    context = CompileContext("store", as_target("cpu"), stage="asm")
    result = torch.zeros(1)
    with ir.Context():
        llvmdialect_to_asm.lower(ir.Module.parse(text), context).executable.launch([], [result])
        assert result.item() == 5
        two = text + text.replace("@store", "@other")
        with pytest.raises(CodegenError, match="public functions: store, other"):
            llvmdialect_to_asm.lower(ir.Module.parse(two), replace(context, kernel="third"))


def test_this_pipeline_needs_no_tvm():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_mlir_rooms as rooms; "
        "rooms.compiled(rooms.SOFTMAX); print('tvm' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "False"
