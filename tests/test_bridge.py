"""The bridge from linalg on tensors to Relax: what it builds, that it computes what NumPy computes, what it refuses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlirtri.dialect.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering import relax_to_tir
from mlirtri.lowering.fused_to_relax import lower
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.target import as_target
from mlirtri.lowering.tvm_names import PrimFunc, VirtualMachine, relax, tvm

BF16 = ml_dtypes.bfloat16
MAPS = {1: "affine_map<(d0) -> (d0)>", 2: "affine_map<(d0, d1) -> (d0, d1)>"}
ROWS = "affine_map<(d0, d1) -> (d0)>"


def bridge(text: str):
    """The Relax module of MLIR text."""
    with ir.Context():
        return lower(ir.Module.parse(text), CompileContext("k", as_target("cpu")))


def fused(text: str):
    return relax_to_tir.lower(bridge(text), CompileContext("k", as_target("cpu")))


def run(text: str, *arrays):
    """The results of function ``k`` in `text`, as a list of arrays."""
    machine = VirtualMachine(tvm.compile(fused(text), target="llvm"), tvm.cpu())
    result = machine["k"](*(tvm.runtime.tensor(np.asarray(array)) for array in arrays))
    return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]


def function(arguments: str, body: str, returned: str, types: str) -> str:
    return f"func.func @k({arguments}) -> ({types}) {{\n{body}\n  return {returned} : {types}\n}}"


def generic(name, inputs, outputs, maps, iterators, body):
    """Text of a linalg.generic; inputs and outputs are (value, type) pairs."""

    def group(pairs):
        return f"({', '.join(value for value, _ in pairs)} : {', '.join(kind for _, kind in pairs)})"

    ins = f"ins{group(inputs)} " if inputs else ""
    results = ", ".join(kind for _, kind in outputs)
    return (
        f"{name} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
        f"iterator_types = [{', '.join(chr(34) + each + chr(34) for each in iterators)}]}} "
        f"{ins}outs{group(outputs)} {{\n{body}\n}} -> ({results})"
    )


def elementwise(lines: list[str], arguments: str, types: list[str]) -> str:
    """A function whose n-th line computes ``%rn`` on whole tensors."""
    body = "\n".join(f"  %r{at} = {line}" for at, line in enumerate(lines))
    return function(arguments, body, ", ".join(f"%r{at}" for at in range(len(lines))), ", ".join(types))


def prim_functions(module) -> dict:
    return {gv.name_hint: each for gv, each in module.functions_items() if isinstance(each, PrimFunc)}


# --- structured operations ------------------------------------------------------------------------------------------

MATMUL = """
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<5x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x3xf32>) -> tensor<5x3xf32>
  %c = linalg.matmul ins(%a, %b : tensor<5x4xTYPE>, tensor<4x3xTYPE>) outs(%init : tensor<5x3xf32>) -> tensor<5x3xf32>
"""


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f16", np.float16), ("bf16", BF16)])
def test_matmul_accumulates_in_the_output_dtype(kind, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 4)).astype(dtype), rng.normal(size=(4, 3)).astype(dtype)
    arguments = f"%a: tensor<5x4x{kind}>, %b: tensor<4x3x{kind}>"
    (c,) = run(function(arguments, MATMUL.replace("TYPE", kind), "%c", "tensor<5x3xf32>"), a, b)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-6)


def test_fill_before_a_matmul_is_the_init_and_what_follows_fuses():
    body = MATMUL.replace("TYPE", "f32") + "  %d = math.absf %c : tensor<5x3xf32>"
    module = fused(function("%a: tensor<5x4xf32>, %b: tensor<4x3xf32>", body, "%d", "tensor<5x3xf32>"))
    assert len(prim_functions(module)) == 1
    assert "with T.init():" in module.script()


def test_a_tensor_as_initial_value_is_added_to():
    rng = np.random.default_rng(1)
    a, b, c = (rng.normal(size=size).astype(np.float32) for size in ((2, 5, 4), (2, 4, 3), (2, 5, 3)))
    body = (
        "  %r = linalg.batch_matmul ins(%a, %b : tensor<2x5x4xf32>, tensor<2x4x3xf32>) "
        "outs(%c : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>"
    )
    arguments = "%a: tensor<2x5x4xf32>, %b: tensor<2x4x3xf32>, %c: tensor<2x5x3xf32>"
    (result,) = run(function(arguments, body, "%r", "tensor<2x5x3xf32>"), a, b, c)
    np.testing.assert_allclose(result, c + a @ b, rtol=1e-5, atol=1e-6)


def reduction(kind: str, start: str, combine: str, shape: str = "4x3", out: str = "4", maps=(MAPS[2], ROWS)) -> str:
    body = f"""
  %start = arith.constant {start}{"" if kind == "i1" else f" : {kind}"}
  %empty = tensor.empty() : tensor<{out}x{kind}>
  %init = linalg.fill ins(%start : {kind}) outs(%empty : tensor<{out}x{kind}>) -> tensor<{out}x{kind}>
  """ + generic(
        "%r", [("%a", f"tensor<{shape}x{kind}>")], [("%init", f"tensor<{out}x{kind}>")], maps,
        ["parallel" if f"d{at}" in maps[1].split("->")[1] else "reduction" for at in range(2)],
        f"^bb0(%x: {kind}, %o: {kind}):\n %s = {combine} %o, %x : {kind}\n linalg.yield %s : {kind}",
    )  # fmt: skip
    return function(f"%a: tensor<{shape}x{kind}>", body, "%r", f"tensor<{out}x{kind}>")


@pytest.mark.parametrize(
    ("kind", "start", "combine", "dtype", "reference"),
    [
        ("f32", "0.0", "arith.addf", np.float32, np.sum),
        ("f64", "1.0", "arith.mulf", np.float64, np.prod),
        ("i32", "0", "arith.addi", np.int32, np.sum),
        ("i8", "-128", "arith.maxsi", np.int8, np.max),
        ("i16", "-1", "arith.minui", np.uint16, np.min),
        ("i1", "true", "arith.andi", np.bool_, np.all),
        ("i1", "false", "arith.ori", np.bool_, np.any),
        ("f32", "0xFF800000", "arith.maximumf", np.float32, np.max),
        ("bf16", "0x7F80", "arith.minimumf", BF16, np.min),
    ],
)
def test_reductions(kind, start, combine, dtype, reference):
    a = np.random.default_rng(2).integers(-100, 100, size=(4, 3)).astype(dtype)
    if dtype == np.float32:
        a[1, 1] = np.nan
    signless = a.view(np.int16) if dtype == np.uint16 else a
    (result,) = run(reduction(kind, start, combine), signless)
    expected = reference(a, axis=1).astype(dtype)
    np.testing.assert_array_equal(result.view(dtype).astype(np.float64), expected.astype(np.float64))


def test_reduction_over_the_first_axis_and_over_nothing():
    columns = (MAPS[2], "affine_map<(d0, d1) -> (d1)>")
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    (result,) = run(reduction("f32", "0.0", "arith.addf", "4x3", "3", columns), a)
    np.testing.assert_array_equal(result, a.sum(0))
    (result,) = run(reduction("f32", "7.0", "arith.addf", "0x3", "3", columns), a[:0])
    np.testing.assert_array_equal(result, np.full(3, 7, np.float32))


ARGMAX = (
    """
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %e0 = tensor.empty() : tensor<4xf32>
  %e1 = tensor.empty() : tensor<4xi64>
  %i0 = linalg.fill ins(%low : f32) outs(%e0 : tensor<4xf32>) -> tensor<4xf32>
  %i1 = linalg.fill ins(%zero : i64) outs(%e1 : tensor<4xi64>) -> tensor<4xi64>
  """
    + generic(
        "%r:2", [("%a", "tensor<4x3xf32>")], [("%i0", "tensor<4xf32>"), ("%i1", "tensor<4xi64>")],
        [MAPS[2], ROWS, ROWS], ["parallel", "reduction"],
        """^bb0(%x: f32, %m: f32, %i: i64):
     %d = linalg.index 1 : index
     %j = arith.index_cast %d : index to i64
     %gt = arith.cmpf ogt, %x, %m : f32
     %nm = arith.select %gt, %x, %m : f32
     %ni = arith.select %gt, %j, %i : i64
     linalg.yield %nm, %ni : f32, i64""",
    )
)  # fmt: skip


def test_argmax_has_two_results_that_update_together():
    a = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)
    values, positions = run(function("%a: tensor<4x3xf32>", ARGMAX, "%r#0, %r#1", "tensor<4xf32>, tensor<4xi64>"), a)
    np.testing.assert_array_equal(values, a.max(1))
    np.testing.assert_array_equal(positions, a.argmax(1))


def test_one_result_of_several_may_be_dropped():
    a = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)
    (positions,) = run(function("%a: tensor<4x3xf32>", ARGMAX, "%r#1", "tensor<4xi64>"), a)
    np.testing.assert_array_equal(positions, a.argmax(1))


def test_named_convolution_transpose_broadcast_and_reduce():
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(1, 6, 2)).astype(np.float32), rng.normal(size=(3, 2, 4)).astype(np.float32)
    body = """
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x4xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %c = linalg.conv_1d_nwc_wcf ins(%x, %w : tensor<1x6x2xf32>, tensor<3x2x4xf32>)
       outs(%i : tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %t = linalg.transpose ins(%c : tensor<1x4x4xf32>) outs(%e : tensor<1x4x4xf32>) permutation = [0, 2, 1]
  %e2 = tensor.empty() : tensor<1x4xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x4xf32>) -> tensor<1x4xf32>
  %s = linalg.reduce { arith.addf } ins(%t : tensor<1x4x4xf32>) outs(%i2 : tensor<1x4xf32>) dimensions = [2]
  %e3 = tensor.empty() : tensor<1x4x2xf32>
  %b = linalg.broadcast ins(%s : tensor<1x4xf32>) outs(%e3 : tensor<1x4x2xf32>) dimensions = [2]
"""
    arguments = "%x: tensor<1x6x2xf32>, %w: tensor<3x2x4xf32>"
    conv, both = run(function(arguments, body, "%c, %b", "tensor<1x4x4xf32>, tensor<1x4x2xf32>"), x, w)
    expected = np.stack([np.einsum("wc,wcf->f", x[0, at : at + 3], w) for at in range(4)])[None]
    np.testing.assert_allclose(conv, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(both, np.repeat(expected.sum(1)[..., None], 2, -1), rtol=1e-5, atol=1e-5)


def test_gather_reads_a_captured_tensor_by_index():
    body = "  %e = tensor.empty() : tensor<3x2xf32>\n" + generic(
        "%r", [("%i", "tensor<3xi64>")], [("%e", "tensor<3x2xf32>")], [ROWS, MAPS[2]], ["parallel", "parallel"],
        """^bb0(%p: i64, %o: f32):
     %row = arith.index_cast %p : i64 to index
     %column = linalg.index 1 : index
     %x = tensor.extract %a[%row, %column] : tensor<5x2xf32>
     linalg.yield %x : f32""",
    )  # fmt: skip
    a, i = np.random.default_rng(5).normal(size=(5, 2)).astype(np.float32), np.array([4, 0, 2])
    (result,) = run(function("%a: tensor<5x2xf32>, %i: tensor<3xi64>", body, "%r", "tensor<3x2xf32>"), a, i)
    np.testing.assert_array_equal(result, a[i])


def test_parallel_output_may_be_read_and_runtime_scalars_captured():
    body = "  %s = tensor.extract %f[] : tensor<f64>\n  %t = arith.truncf %s : f64 to f32\n" + generic(
        "%r", [("%a", "tensor<4xf32>")], [("%b", "tensor<4xf32>")], [MAPS[1]] * 2, ["parallel"],
        """^bb0(%x: f32, %o: f32):
     %y = arith.mulf %x, %t : f32
     %z = arith.addf %y, %o : f32
     linalg.yield %z : f32""",
    )  # fmt: skip
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    arguments = "%a: tensor<4xf32>, %b: tensor<4xf32>, %f: tensor<f64>"
    (result,) = run(function(arguments, body, "%r", "tensor<4xf32>"), a, b, np.float64(2.5))
    np.testing.assert_array_equal(result, a * np.float32(2.5) + b)


def test_shared_values_keep_expressions_small():
    lines = ["^bb0(%x0: f32, %o: f32):"]
    lines += [f"%x{at + 1} = arith.addf %x{at}, %x{at} : f32" for at in range(40)]
    body = "  %e = tensor.empty() : tensor<2xf32>\n" + generic(
        "%r", [("%a", "tensor<2xf32>")], [("%e", "tensor<2xf32>")], [MAPS[1]] * 2, ["parallel"],
        "\n".join([*lines, "linalg.yield %x40 : f32"]),
    )  # fmt: skip
    text = function("%a: tensor<2xf32>", body, "%r", "tensor<2xf32>")
    assert len(bridge(text).script()) < 10_000
    (result,) = run(text, np.array([1, -3], np.float32))
    np.testing.assert_array_equal(result, np.array([2.0**40, -3 * 2.0**40], np.float32))


# --- scalars --------------------------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3.7, 0.49999997, 1e-30, 20.0, np.inf, -np.inf, np.nan]
UNARY = {
    "math.absf": np.abs, "math.ceil": np.ceil, "math.floor": np.floor, "math.trunc": np.trunc, "arith.negf": np.negative,
    "math.roundeven": np.rint, "math.exp": np.exp, "math.exp2": np.exp2, "math.expm1": np.expm1, "math.log": np.log,
    "math.log2": np.log2, "math.log10": np.log10, "math.log1p": np.log1p, "math.sqrt": np.sqrt, "math.sin": np.sin,
    "math.cos": np.cos, "math.tan": np.tan, "math.asin": np.arcsin, "math.acos": np.arccos, "math.atan": np.arctan,
    "math.sinh": np.sinh, "math.cosh": np.cosh, "math.tanh": np.tanh, "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh, "math.atanh": np.arctanh, "math.cbrt": np.cbrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x), "math.round": lambda x: np.trunc(x + np.copysign(np.float64(0.5), x)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("kind", "dtype", "ulps"),
    [("f32", np.float32, 3), ("f64", np.float64, 4), ("f16", np.float16, 1), ("bf16", BF16, 1)],
)
def test_unary_functions_are_a_few_ulp_exact(kind, dtype, ulps):
    rng = np.random.default_rng(6)
    x = np.concatenate([SPECIAL, rng.normal(size=200), rng.normal(size=200) * 1e-3]).astype(dtype)
    tensor = f"tensor<{len(x)}x{kind}>"
    results = run(elementwise([f"{name} %x : {tensor}" for name in UNARY], f"%x: {tensor}", [tensor] * len(UNARY)), x)
    for (name, reference), result in zip(UNARY.items(), results, strict=True):
        # In more than the tested precision; 0.49999997 + 0.5 is exact there.
        expected = reference(x.astype(np.float64 if dtype != np.float64 else np.longdouble)).astype(dtype)
        assert_close_in_ulps(name, result, expected, ulps)


def assert_close_in_ulps(name, result, expected, ulps):
    wide, wanted = result.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(wide[~finite], wanted[~finite], err_msg=name)
    np.testing.assert_array_equal(np.signbit(wide[wanted == 0]), np.signbit(wanted[wanted == 0]), err_msg=name)
    step = np.abs(np.spacing(expected[finite])).astype(np.float64)
    worst = np.max(np.abs(wide[finite] - wanted[finite]) / step)
    assert worst <= ulps, f"{name}: {worst} ulp"


PAIRS = np.array(
    [(x, y) for x in SPECIAL[:2] + SPECIAL[6:10] + SPECIAL[-3:] for y in SPECIAL[:2] + SPECIAL[6:10] + SPECIAL[-3:]]
)
PREDICATES = {
    "oeq": lambda x, y: x == y, "one": lambda x, y: (x < y) | (x > y), "olt": lambda x, y: x < y,
    "ole": lambda x, y: x <= y, "ogt": lambda x, y: x > y, "oge": lambda x, y: x >= y,
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)), "uno": lambda x, y: np.isnan(x) | np.isnan(y),
    "ueq": lambda x, y: ~((x < y) | (x > y)), "une": lambda x, y: x != y, "ult": lambda x, y: ~(x >= y),
    "ule": lambda x, y: ~(x > y), "ugt": lambda x, y: ~(x <= y), "uge": lambda x, y: ~(x < y),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", BF16)]
)
def test_comparisons_with_nan(kind, dtype):
    x, y = PAIRS[:, 0].astype(dtype), PAIRS[:, 1].astype(dtype)
    tensor, answer = f"tensor<{len(x)}x{kind}>", f"tensor<{len(x)}xi1>"
    lines = [f"arith.cmpf {name}, %x, %y : {tensor}" for name in PREDICATES]
    lines += [f"arith.xori %r{at}, %true : {answer}" for at in range(len(PREDICATES))]
    text = elementwise(lines, f"%x: {tensor}, %y: {tensor}, %true: {answer}", [answer] * len(lines))
    results = run(text, x, y, np.ones(len(x), bool))
    expected = [reference(x.astype(np.float64), y.astype(np.float64)) for reference in PREDICATES.values()]
    for at, (result, wanted) in enumerate(zip(results, [*expected, *(~each for each in expected)], strict=True)):
        np.testing.assert_array_equal(result, wanted, err_msg=lines[at])


BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.remf": np.fmod, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin, "math.atan2": np.arctan2, "math.powf": np.power, "math.copysign": np.copysign,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", BF16)]
)
def test_binary_float_operations(kind, dtype):
    x, y = PAIRS[:, 0].astype(dtype), PAIRS[:, 1].astype(dtype)
    tensor = f"tensor<{len(x)}x{kind}>"
    lines = [f"{name} %x, %y : {tensor}" for name in BINARY]
    results = run(elementwise(lines, f"%x: {tensor}, %y: {tensor}", [tensor] * len(lines)), x, y)
    for (name, reference), result in zip(BINARY.items(), results, strict=True):
        expected = reference(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
        np.testing.assert_allclose(
            result.astype(np.float64),
            expected.astype(np.float64),
            rtol=4 * float(ml_dtypes.finfo(dtype).eps),
            err_msg=name,
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constant_zeros_are_not_folded_away():
    x = np.array(SPECIAL, np.float32)
    tensor = f"tensor<{len(x)}xf32>"
    lines = [
        f"arith.constant dense<0.0> : {tensor}", f"arith.mulf %x, %r0 : {tensor}", f"arith.divf %r0, %x : {tensor}",
        f"arith.divf %x, %r0 : {tensor}", f"arith.addf %x, %r0 : {tensor}",
    ]  # fmt: skip
    _, *results = run(elementwise(lines, f"%x: {tensor}", [tensor] * 5), x)
    zero = np.float32(0)
    for result, wanted in zip(results, [x * zero, zero / x, x / zero, x + zero], strict=True):
        np.testing.assert_array_equal(result, wanted)
        np.testing.assert_array_equal(np.signbit(result[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_floats_are_no_reals():
    """TVM's simplifier cancels ``(x + y) - x`` and takes ``x == x`` for true."""
    kind, answer = "tensor<4xf32>", "tensor<4xi1>"
    body = f"  %e = tensor.empty() : {kind}\n  %b = tensor.empty() : {answer}\n" + generic(
        "%r:5", [("%x", kind), ("%y", kind)], [("%e", kind)] * 3 + [("%b", answer)] * 2, [MAPS[1]] * 7, ["parallel"],
        """^bb0(%p: f32, %q: f32, %o0: f32, %o1: f32, %o2: f32, %o3: i1, %o4: i1):
     %s = arith.addf %p, %q : f32
     %d0 = arith.subf %s, %p : f32
     %d1 = arith.subf %p, %s : f32
     %d2 = arith.subf %p, %p : f32
     %c3 = arith.cmpf oeq, %p, %p : f32
     %c4 = arith.cmpf une, %p, %p : f32
     linalg.yield %d0, %d1, %d2, %c3, %c4 : f32, f32, f32, i1, i1""",
    )  # fmt: skip
    types = ", ".join([kind] * 3 + [answer] * 2)
    text = function(f"%x: {kind}, %y: {kind}", body, "%r#0, %r#1, %r#2, %r#3, %r#4", types)
    x, y = np.array([1e8, 1, np.inf, np.nan], np.float32), np.array([1.25, 1e-9, 1, 1], np.float32)
    with np.errstate(invalid="ignore"):
        expected = [(x + y) - x, x - (x + y), x - x, x == x, x != x]
    for result, wanted in zip(run(text, x, y), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def integers(dtype) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    values = [0, 1, -1, 2, 3, -3, 7, -7, 100, info.max, info.min, info.max - 1, info.min + 1]
    pairs = np.array([(x, y) for x in values for y in values], dtype)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def guarded(divide):
    """A division with our answer where MLIR leaves it open: by 1 for a divisor of 0 or an overflowing quotient."""

    def reference(x, y):
        bad = y == 0
        if np.issubdtype(y.dtype, np.signedinteger):
            bad = bad | ((x == np.iinfo(x.dtype).min) & (y == -1))
        return divide(x, np.where(bad, np.ones_like(y), y))

    return reference


def unsigned(operation):
    def reference(x, y):
        kind = np.dtype(f"u{x.dtype}")
        return operation(x.view(kind), y.view(kind)).view(x.dtype)

    return reference


def bits_of(x):
    return x & np.array(8 * x.dtype.itemsize - 1, x.dtype)


INTEGER = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.maxui": unsigned(np.maximum), "arith.minui": unsigned(np.minimum),
    "arith.floordivsi": guarded(np.floor_divide), "arith.remsi": guarded(np.fmod),
    "arith.divsi": guarded(lambda x, y: (x - np.fmod(x, y)) // y),
    "arith.ceildivsi": guarded(lambda x, y: np.floor_divide(x, y) + (np.mod(x, y) != 0)),
    "arith.divui": unsigned(guarded(np.floor_divide)), "arith.remui": unsigned(guarded(np.remainder)),
    "arith.shli": lambda x, y: x << bits_of(y), "arith.shrsi": lambda x, y: x >> bits_of(y),
    "arith.shrui": lambda x, y: unsigned(np.right_shift)(x, bits_of(y)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integer_operations_wrap_and_never_trap(dtype):
    x, y = integers(dtype)
    tensor = f"tensor<{len(x)}xi{8 * x.itemsize}>"
    lines = [f"{name} %x, %y : {tensor}" for name in INTEGER]
    lines += [f"math.ipowi %x, %y : {tensor}", f"math.absi %x : {tensor}", f"math.ctpop %x : {tensor}"]
    results = run(elementwise(lines, f"%x: {tensor}, %y: {tensor}", [tensor] * len(lines)), x, y)
    for (name, reference), result in zip(INTEGER.items(), results[: len(INTEGER)], strict=True):
        np.testing.assert_array_equal(result, reference(x, y), err_msg=name)
    power, absolute, ones = results[len(INTEGER) :]
    is_small = (y >= 0) & (y <= 100)
    np.testing.assert_array_equal(power[is_small], np.power(x[is_small], y[is_small]))
    np.testing.assert_array_equal(power[y < 0], np.where(np.abs(x) == 1, np.where(y & 1, x, 1), 0)[y < 0])
    np.testing.assert_array_equal(absolute, np.abs(x))
    np.testing.assert_array_equal(
        ones, np.bitwise_count(x.view(f"u{x.dtype}")) if hasattr(np, "bitwise_count") else ones
    )


def test_wrapping_is_not_simplified_away():
    body = "  %e = tensor.empty() : tensor<2xi1>\n" + generic(
        "%r", [("%a", "tensor<2xi32>")], [("%e", "tensor<2xi1>")], [MAPS[1]] * 2, ["parallel"],
        """^bb0(%x: i32, %o: i1):
     %one = arith.constant 1 : i32
     %y = arith.addi %x, %one : i32
     %z = arith.cmpi sgt, %y, %x : i32
     linalg.yield %z : i1""",
    )  # fmt: skip
    (result,) = run(function("%a: tensor<2xi32>", body, "%r", "tensor<2xi1>"), np.array([5, 2**31 - 1], np.int32))
    np.testing.assert_array_equal(result, [True, False])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_comparisons_with_the_smallest_integer(dtype):
    """TVM's simplifier takes ``x == INT_MIN`` for false."""
    lowest = np.iinfo(dtype).min
    x = np.array([lowest, lowest + 1, 0, 5], dtype)
    kind = f"tensor<4xi{8 * x.itemsize}>"
    lines = [f"arith.constant dense<{lowest}> : {kind}", f"arith.constant dense<0> : {kind}"]
    lines += [f"arith.cmpi {name}, %x, %r0 : {kind}" for name in ("eq", "ne", "sle", "sgt", "ule")]
    lines += [f"arith.cmpi {name}, %x, %r1 : {kind}" for name in ("ule", "ugt")]
    results = run(elementwise(lines, f"%x: {kind}", [kind] * 2 + ["tensor<4xi1>"] * 7), x)[2:]
    expected = [x == lowest, x != lowest, x == lowest, x != lowest, (x == lowest) | (x >= 0), x == 0, x != 0]
    for line, result, wanted in zip(lines[2:], results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=line)


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_integer_comparisons(dtype):
    x, y = integers(dtype)
    kind = f"tensor<{len(x)}xi{8 * x.itemsize}>"
    signed = {"eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
              "sge": np.greater_equal}  # fmt: skip
    below = {"ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}
    lines = [f"arith.cmpi {name}, %x, %y : {kind}" for name in (*signed, *below)]
    results = run(elementwise(lines, f"%x: {kind}, %y: {kind}", [f"tensor<{len(x)}xi1>"] * len(lines)), x, y)
    u, v = x.view(f"u{x.dtype}"), y.view(f"u{y.dtype}")
    expected = [compare(x, y) for compare in signed.values()] + [compare(u, v) for compare in below.values()]
    for line, result, wanted in zip(lines, results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=line)


def test_bool_arithmetic_is_that_of_one_bit():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    kind = "tensor<4xi1>"
    cases = {
        "arith.addi": x ^ y, "arith.muli": x & y, "arith.maxui": x | y, "arith.minui": x & y, "arith.maxsi": x & y,
        "arith.minsi": x | y, "arith.cmpi slt,": x & ~y, "arith.cmpi ult,": ~x & y, "arith.cmpi eq,": x == y,
    }  # fmt: skip
    results = run(
        elementwise([f"{name} %x, %y : {kind}" for name in cases], f"%x: {kind}, %y: {kind}", [kind] * 9), x, y
    )
    for (name, expected), result in zip(cases.items(), results, strict=True):
        np.testing.assert_array_equal(result, expected, err_msg=name)


CONVERSIONS = [
    ("arith.extsi", "i1", "i32", np.array([0, 1], bool), np.array([0, -1], np.int32)),
    ("arith.extui", "i1", "i32", np.array([0, 1], bool), np.array([0, 1], np.int32)),
    ("arith.uitofp", "i1", "f32", np.array([0, 1], bool), np.array([0, 1], np.float32)),
    ("arith.sitofp", "i1", "f32", np.array([0, 1], bool), np.array([0, -1], np.float32)),
    ("arith.extsi", "i8", "i64", np.array([-5, 5], np.int8), np.array([-5, 5])),
    ("arith.extui", "i8", "i64", np.array([-5, 5], np.int8), np.array([251, 5])),
    ("arith.trunci", "i32", "i8", np.array([300, -1], np.int32), np.array([44, -1], np.int8)),
    ("arith.trunci", "i32", "i1", np.array([2, 3], np.int32), np.array([False, True])),
    ("arith.sitofp", "i32", "f16", np.array([-7, 2049], np.int32), np.array([-7, 2048], np.float16)),
    ("arith.sitofp", "i64", "bf16", np.array([-7, 257], np.int64), np.array([-7, 256], BF16)),
    ("arith.uitofp", "i32", "f64", np.array([-1, 1], np.int32), np.array([2**32 - 1, 1], np.float64)),
    ("arith.uitofp", "i64", "f32", np.array([-1, 1]), np.array([2**64, 1], np.float32)),
    ("arith.fptosi", "f32", "i8", np.array([-3.9, 3.9], np.float32), np.array([-3, 3], np.int8)),
    ("arith.fptosi", "bf16", "i64", np.array([-3.5, 3.5], BF16), np.array([-3, 3])),
    ("arith.fptoui", "f64", "i32", np.array([2.0**31, 3.9]), np.array([-(2**31), 3], np.int32)),
    ("arith.truncf", "f32", "bf16", np.array([1.00390625, np.nan], np.float32), np.array([1.0, np.nan], BF16)),
    ("arith.truncf", "f64", "f16", np.array([1.0 + 2**-12, 1e6]), np.array([1, np.inf], np.float16)),
    ("arith.truncf", "f64", "bf16", np.array([1.01171875, -2.5]), np.array([1.015625, -2.5], BF16)),
    ("arith.truncf", "f32", "f16", np.array([0.1, 65520], np.float32), np.array([0.1, np.inf], np.float16)),
    ("arith.extf", "bf16", "f64", np.array([1.5, -2], BF16), np.array([1.5, -2])),
    ("arith.extf", "f16", "f64", np.array([1.5, -2], np.float16), np.array([1.5, -2])),
    ("arith.bitcast", "f32", "i32", np.array([1.0, -0.0], np.float32), np.array([0x3F800000, -(2**31)], np.int32)),
]


def test_conversions():
    arguments = ", ".join(f"%x{at}: tensor<2x{case[1]}>" for at, case in enumerate(CONVERSIONS))
    lines = [f"{name} %x{at} : tensor<2x{a}> to tensor<2x{b}>" for at, (name, a, b, _, _) in enumerate(CONVERSIONS)]
    results = run(elementwise(lines, arguments, [f"tensor<2x{b}>" for _, _, b, _, _ in CONVERSIONS]),
                  *(case[3] for case in CONVERSIONS))  # fmt: skip
    for line, case, result in zip(lines, CONVERSIONS, results, strict=True):
        np.testing.assert_array_equal(result.astype(np.float64), case[4].astype(np.float64), err_msg=line)
        assert result.dtype == case[4].dtype, line


# --- tensors, constants, functions ----------------------------------------------------------------------------------


def test_slices_padding_and_concatenation():
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    b = -np.arange(1, 5, dtype=np.float32).reshape(2, 2)
    body = """
  %s = tensor.extract_slice %a[1, 0] [2, 3] [2, 2] : tensor<4x5xf32> to tensor<2x3xf32>
  %row = tensor.extract_slice %a[2, 1] [1, 4] [1, 1] : tensor<4x5xf32> to tensor<4xf32>
  %i = tensor.insert_slice %b into %a[1, 0] [2, 2] [2, 3] : tensor<2x2xf32> into tensor<4x5xf32>
  %r = tensor.insert_slice %row into %a[0, 3] [4, 1] [1, 1] : tensor<4xf32> into tensor<4x5xf32>
  %seven = arith.constant 7.0 : f32
  %p = tensor.pad %b low[1, 0] high[0, 2] { ^bb0(%x: index, %y: index): tensor.yield %seven : f32 }
       : tensor<2x2xf32> to tensor<3x4xf32>
  %c = tensor.concat dim(1) %b, %s : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>
  %f = tensor.collapse_shape %a [[0, 1]] : tensor<4x5xf32> into tensor<20xf32>
  %g = tensor.expand_shape %f [[0, 1]] output_shape [10, 2] : tensor<20xf32> into tensor<10x2xf32>
"""
    shapes = ("2x3", "4", "4x5", "4x5", "3x4", "2x5", "10x2")
    types = ", ".join(f"tensor<{shape}xf32>" for shape in shapes)
    text = function("%a: tensor<4x5xf32>, %b: tensor<2x2xf32>", body, "%s, %row, %i, %r, %p, %c, %g", types)
    strided, row, inserted, column, padded, joined, flat = run(text, a, b)
    np.testing.assert_array_equal(strided, a[1:4:2, 0:5:2])
    np.testing.assert_array_equal(row, a[2, 1:])
    expected = a.copy()
    expected[1:4:2, 0:4:3] = b
    np.testing.assert_array_equal(inserted, expected)
    expected = a.copy()
    expected[:, 3] = a[2, 1:]
    np.testing.assert_array_equal(column, expected)
    np.testing.assert_array_equal(padded, np.pad(b, ((1, 0), (0, 2)), constant_values=7))
    np.testing.assert_array_equal(joined, np.concatenate([b, a[1:4:2, 0:5:2]], 1))
    np.testing.assert_array_equal(flat, a.reshape(10, 2))


def test_constants_keep_their_dtype():
    kinds = {
        "tensor<2xi64>": ("[1099511627776, -1]", np.array([2**40, -1])),
        "tensor<2xf64>": ("[0.1, 1.0e300]", np.array([0.1, 1e300])),
        "tensor<3xbf16>": ("[1.5, 0x7F80, -3.0e-5]", np.array([1.5, np.inf, -3e-5], BF16)),
        "tensor<2xf16>": ("[0.1, 2.0]", np.array([0.1, 2], np.float16)),
        "tensor<2xi1>": ("[true, false]", np.array([True, False])),
        "tensor<2x2xi8>": ("-7", np.full((2, 2), -7, np.int8)),
        "tensor<f32>": ("0x7F800000", np.array(np.inf, np.float32)),
        "tensor<0xf32>": ("[]", np.zeros(0, np.float32)),
    }
    lines = [f"arith.constant dense<{text}> : {kind}" for kind, (text, _) in kinds.items()]
    for result, (_, wanted) in zip(run(elementwise(lines, "", list(kinds))), kinds.values(), strict=True):
        np.testing.assert_array_equal(result, wanted)
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)


def test_arguments_and_values_may_be_returned_again_and_again():
    text = function("%a: tensor<2xf32>, %b: tensor<f64>", "  %c = math.exp %a : tensor<2xf32>", "%c, %a, %c, %b",
                    "tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f64>")  # fmt: skip
    a = np.array([0, 1], np.float32)
    results = run(text, a, np.float64(3))
    for result, expected in zip(results, (np.exp(a), a, np.exp(a), 3.0), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    (same,) = run(function("%a: tensor<2xf32>", "", "%a", "tensor<2xf32>"), a)
    np.testing.assert_array_equal(same, a)
    assert run("func.func @k(%a: tensor<2xf32>) { return }", a) == []


@pytest.mark.parametrize("shape", ["0x", "3x0x", ""])
def test_empty_tensors_and_scalars(shape):
    kind = f"tensor<{shape}f32>"
    sizes = tuple(int(size) for size in shape.split("x") if size)
    x = np.full(sizes, 2, np.float32)
    (result,) = run(elementwise([f"arith.addf %x, %x : {kind}"], f"%x: {kind}", [kind]), x)
    np.testing.assert_array_equal(result, x + x)
    assert result.shape == sizes


def test_names_and_locations_travel():
    text = """
func.func @add(%a: tensor<2xf32> loc("first"("/k.py":1:5))) -> tensor<2xf32> {
  %0 = arith.addf %a, %a : tensor<2xf32> loc("total"("/k.py":2:5 to :9))
  %1 = math.exp %0 : tensor<2xf32> loc(callsite("lambda"("/h.py":7:1) at "/k.py":3:1))
  %2 = math.exp %1 : tensor<2xf32> loc(fused["total"("/k.py":4:3), "/k.py":5:3])
  return %2 : tensor<2xf32>
}"""
    module = bridge(text)
    caller = module["add"]
    assert isinstance(caller, relax.Function)
    assert [parameter.name for parameter in caller.params] == ["first"]
    assert dict(caller.attrs["mlirtri.locations"]) == {
        "total": "/k.py:2:5", "v_lambda": "/h.py:7:1", "total_1": "/k.py:4:3",
    }  # fmt: skip
    assert caller.attrs["global_symbol"] == "add"
    # The kernel keeps its name, the PrimFunc gives way; equal functions of different lines stay apart.
    assert sorted(prim_functions(module)) == ["add_1", "exp", "exp_1"]
    assert '"mlirtri.loc": "/h.py:7:1"' in prim_functions(module)["exp"].script()


def test_equal_operations_of_one_line_share_a_primfunc():
    text = """
func.func @k(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = math.exp %a : tensor<2xf32> loc("x"("/k.py":2:5))
  %1 = math.exp %0 : tensor<2xf32> loc("x"("/k.py":2:5))
  return %1 : tensor<2xf32>
}"""
    assert list(prim_functions(bridge(text))) == ["exp"]


def test_all_unsupported_operations_are_reported_at_once():
    text = """
func.func @k(%a: tensor<2x2xf32>, %c: tensor<2xcomplex<f32>>) -> tensor<2x2xf32> {
  %e = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.softmax dimension(1) ins(%a : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32> loc("/k.py":2:1)
  %1 = linalg.softmax dimension(0) ins(%0 : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32> loc("/k.py":3:1)
  %2 = linalg.map ins(%1 : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) (%x: f32, %o: f32) {
    %p = math.clampf %x to [%x, %x] : f32 loc("/k.py":4:1)
    linalg.yield %p : f32
  }
  %3 = arith.addf %2, %a : tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}"""
    with pytest.raises(UnsupportedOperationError) as caught:
        bridge(text)
    message = str(caught.value)
    assert "linalg.softmax (2×)" in message
    assert "math.clampf inside linalg.map" in message
    assert str(caught.value.span) == "/k.py:2:1"
    assert "/k.py:3:1" in message
    assert "/k.py:4:1" in message


def test_dynamic_shapes_and_foreign_types_are_refused():
    for kind, word in (
        ("tensor<?xf32>", "dynamic"),
        ("tensor<2xcomplex<f32>>", "complex<f32>"),
        ("tensor<2xi4>", "i4"),
    ):
        with pytest.raises(UnsupportedOperationError, match=word):
            bridge(f"func.func @k(%a: {kind}) -> {kind} {{ return %a : {kind} }}")
