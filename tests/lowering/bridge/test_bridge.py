"""The bridge from linalg on tensors to Relax: what it builds, that it computes what NumPy computes, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_helpers import BF16, MAPS, ROWS, bridge, elementwise, function, fused, generic, prim_functions, run
from tolerances import tolerance, within

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.toolchain.tvm_names import relax

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
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), **within("float32", 4))


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
    np.testing.assert_allclose(result, c + a @ b, **within("float32", 4))


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
    np.testing.assert_allclose(conv, expected, **within("float32", 6))
    np.testing.assert_allclose(both, np.repeat(expected.sum(1)[..., None], 2, -1), **within("float32", 24))


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
        np.testing.assert_allclose(result, expected, rtol=tolerance("float32"))
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
func.func @k(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %e = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.softmax dimension(1) ins(%a : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>)
       -> tensor<2x2xf32> loc("/k.py":2:1)
  %1 = linalg.softmax dimension(0) ins(%0 : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>)
       -> tensor<2x2xf32> loc("/k.py":3:1)
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


def test_element_types_that_tvm_lacks_are_refused():
    with pytest.raises(UnsupportedOperationError, match="i4"):
        bridge("func.func @k(%a: tensor<2xi4>) -> tensor<2xi4> { return %a : tensor<2xi4> }")
