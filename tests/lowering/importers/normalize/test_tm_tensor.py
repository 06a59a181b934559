"""torch-mlir's scans, sorts, scatters, best elements and attention in imported programs, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import ProgramAssertionError

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(8)


def compiled(body: str, arguments: dict[str, str], results: dict[str, str], pipeline: str):
    """The kernel of a function with these names and types."""
    signature = ", ".join(f"%{name}: tensor<{of}>" for name, of in arguments.items())
    types = ", ".join(f"tensor<{of}>" for of in results.values())
    names = ", ".join(f"%{name}" for name in results)
    text = f"func.func @main({signature}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}"
    return mt.from_mlir(text).compile(pipeline=pipeline)


# --- running totals ------------------------------------------------------------------------------------------------


def scan(axis: int, inclusive: str, shape: str, rest: str, operation: str = "arith.addf %l, %m") -> str:
    return f"""
  %e = tensor.empty() : tensor<{shape}xf32>
  %t:2 = tm_tensor.scan dimension({axis}) inclusive({inclusive}) ins(%x : tensor<{shape}xf32>)
      outs(%e, %s : tensor<{shape}xf32>, tensor<{rest}xf32>) {{
  ^bb0(%l: f32, %m: f32):
    %q = {operation} : f32
    tm_tensor.yield %q : f32
  }} -> tensor<{shape}xf32>, tensor<{rest}xf32>"""


def totals(x: np.ndarray, start: np.ndarray, axis: int, inclusive: bool) -> tuple[np.ndarray, np.ndarray]:
    """What the dialect's own loops compute; the last total is that of lines of two or more."""
    x, out = np.moveaxis(x, axis, 0), np.empty_like(np.moveaxis(x, axis, 0))
    for at in range(len(x)):
        first = x[0] if inclusive else start
        out[at] = first if at == 0 else out[at - 1] + x[at if inclusive else at - 1]
    return np.moveaxis(out, 0, axis), out[-1] if len(x) > 1 else start


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(
    ("shape", "axis", "inclusive"), [((3, 5), 1, True), ((3, 5), 0, False), ((3, 5), 1, False), ((4, 1), 1, True)]
)
def test_scans(shape, axis, inclusive, pipeline):
    rest = shape[:axis] + shape[axis + 1 :]
    spelled, spelled_rest = ("x".join(map(str, each)) for each in (shape, rest))
    body = scan(axis, str(inclusive).lower(), spelled, spelled_rest)
    types = {"x": f"{spelled}xf32", "s": f"{spelled_rest}xf32"}
    kernel = compiled(body, types, {"t#0": types["x"], "t#1": types["s"]}, pipeline)
    x, start = (RNG.integers(-9, 9, each).astype(np.float32) for each in (shape, rest))
    for found, wanted in zip(kernel(x, start), totals(x, start, axis, inclusive), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_scan_by_any_function(pipeline):
    """The total comes first: here it decides what happens to the element."""
    body = scan(0, "true", "6", "", "arith.subf %m, %l").replace("tensor<xf32>", "tensor<f32>")
    kernel = compiled(body, {"x": "6xf32", "s": "f32"}, {"t#0": "6xf32"}, pipeline)
    x = np.arange(6, dtype=np.float32)
    wanted = x.copy()
    for at in range(1, 6):
        wanted[at] = x[at] - wanted[at - 1]
    np.testing.assert_array_equal(kernel(x, np.float32(0)), wanted)


# --- sorting -------------------------------------------------------------------------------------------------------


def sort(shape: str, axis: int, comparison: str, kind: str = "f32") -> str:
    return f"""
  %t:2 = tm_tensor.sort dimension({axis}) outs(%x, %n : tensor<{shape}x{kind}>, tensor<{shape}xi64>) {{
  ^bb0(%a: {kind}, %b: {kind}, %c: i64, %d: i64):
    {comparison}
    tm_tensor.yield %p : i1
  }} -> tensor<{shape}x{kind}>, tensor<{shape}xi64>"""


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("predicate", ["ole", "oge", "olt", "ogt"])
def test_sorts_of_several_tensors_by_one_key(predicate, pipeline):
    """In ascending or descending order, equal elements in theirs; NaN is after all numbers, as in torch."""
    shape = (2, 21)
    body = sort("2x21", 1, f"%p = arith.cmpf {predicate}, %a, %b : f32")
    kernel = compiled(body, {"x": "2x21xf32", "n": "2x21xi64"}, {"t#0": "2x21xf32", "t#1": "2x21xi64"}, pipeline)
    x = RNG.integers(-4, 4, shape).astype(np.float32)
    x[0, 5] = x[1, 0] = np.nan
    places = np.tile(np.arange(shape[1]), (shape[0], 1))
    # A strict comparison lets an equal element pass those before it.
    order = x if predicate in ("ole", "ogt") else x[:, ::-1]
    wanted = np.argsort(order, axis=1, kind="stable")
    wanted = wanted if predicate in ("ole", "ogt") else shape[1] - 1 - wanted
    wanted = wanted if predicate in ("ole", "olt") else wanted[:, ::-1]
    values, moved = kernel(x, places)
    np.testing.assert_array_equal(moved, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sorts_by_any_comparison(pipeline):
    """By absolute values, along the first axis, with more elements than are sorted by counting."""
    comparison = """%k = math.absf %a : f32
    %l = math.absf %b : f32
    %p = arith.cmpf ole, %k, %l : f32"""
    types = {"x": "40x2xf32", "n": "40x2xi64"}
    results = {"t#0": types["x"], "t#1": types["n"]}
    kernel = compiled(sort("40x2", 0, comparison), types, results, pipeline)
    x = RNG.integers(-9, 9, (40, 2)).astype(np.float32)
    places = np.tile(np.arange(40)[:, None], (1, 2))
    values, moved = kernel(x, places)
    wanted = np.argsort(np.abs(x), axis=0, kind="stable")
    np.testing.assert_array_equal(moved, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 0))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_comparison_that_contradicts_itself_loses_no_row(pipeline):
    comparison = "%k = arith.addf %a, %b : f32\n %p = arith.cmpf olt, %k, %a : f32"
    kernel = compiled(sort("37", 0, comparison), {"x": "37xf32", "n": "37xi64"}, {"t#1": "37xi64"}, pipeline)
    moved = kernel(RNG.normal(size=37).astype(np.float32), np.arange(37))
    np.testing.assert_array_equal(np.sort(moved), np.arange(37))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_unsigned_keys_and_empty_rows(pipeline):
    body = sort("9", 0, "%p = arith.cmpi ule, %a, %b : i8", "i8")
    kernel = compiled(body, {"x": "9xi8", "n": "9xi64"}, {"t#0": "9xi8"}, pipeline)
    x = RNG.integers(-128, 127, 9).astype(np.int8)
    np.testing.assert_array_equal(kernel(x, np.arange(9)), np.sort(x.view(np.uint8)).view(np.int8))
    empty = compiled(
        sort("0", 0, "%p = arith.cmpf ole, %a, %b : f32"), {"x": "0xf32", "n": "0xi64"}, {"t#0": "0xf32"}, pipeline
    )
    assert empty(np.zeros(0, np.float32), np.zeros(0, np.int64)).shape == (0,)


# --- scattering ----------------------------------------------------------------------------------------------------


def scatter(axes: str, updates: str, places: str, original: str, body: str) -> str:
    return f"""
  %t = tm_tensor.scatter {{dimension_map = array<i64: {axes}>}} unique_indices(false)
      ins(%u, %p : tensor<{updates}xf32>, tensor<{places}>) outs(%x : tensor<{original}xf32>) {{
  ^bb0(%new: f32, %old: f32):
    {body}
  }} -> tensor<{original}xf32>"""


OVERWRITE, ADD = "tm_tensor.yield %new : f32", "%s = arith.addf %old, %new : f32\n tm_tensor.yield %s : f32"


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_scattered_elements_the_last_update_wins(pipeline):
    body = scatter("0, 1", "5", "5x2xi64", "3x4", OVERWRITE)
    kernel = compiled(body, {"u": "5xf32", "p": "5x2xi64", "x": "3x4xf32"}, {"t": "3x4xf32"}, pipeline)
    places = np.array([[0, 1], [2, 3], [0, 1], [1, 0], [0, 1]])
    updates, x = RNG.normal(size=5).astype(np.float32), RNG.normal(size=(3, 4)).astype(np.float32)
    wanted, before = x.copy(), x.copy()
    for update, (row, column) in zip(updates, places, strict=True):
        wanted[row, column] = update
    np.testing.assert_array_equal(kernel(updates, places, x), wanted)
    np.testing.assert_array_equal(x, before)
    for wrong in ([3, 0], [0, -1], [2**40, 0]):
        with pytest.raises(ProgramAssertionError, match="out of bounds"):
            kernel(updates, np.array([[0, 0]] * 4 + [wrong]), x)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_scattered_rows_are_combined(pipeline):
    body = scatter("0", "3x4", "3x1xi32", "5x4", ADD)
    kernel = compiled(body, {"u": "3x4xf32", "p": "3x1xi32", "x": "5x4xf32"}, {"t": "5x4xf32"}, pipeline)
    places = np.array([[4], [1], [4]], np.int32)
    updates, x = RNG.integers(0, 9, (3, 4)).astype(np.float32), np.ones((5, 4), np.float32)
    wanted = x.copy()
    np.add.at(wanted, places[:, 0], updates)
    np.testing.assert_array_equal(kernel(updates, places, x), wanted)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_scattered_windows_start_at_their_indices(pipeline):
    """An update that has the scattered axis is a window of it."""
    body = scatter("0", "2x2x3", "2x1xi64", "6x3", OVERWRITE)
    kernel = compiled(body, {"u": "2x2x3xf32", "p": "2x1xi64", "x": "6x3xf32"}, {"t": "6x3xf32"}, pipeline)
    updates, x = RNG.normal(size=(2, 2, 3)).astype(np.float32), np.zeros((6, 3), np.float32)
    wanted = x.copy()
    wanted[4:6], wanted[1:3] = updates
    np.testing.assert_array_equal(kernel(updates, np.array([[4], [1]]), x), wanted)
    with pytest.raises(ProgramAssertionError):
        kernel(updates, np.array([[5], [1]]), x)


# --- the best of each line, and attention --------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_top_k_along_an_axis(pipeline):
    body = """
  %low = arith.constant dense<0xFF800000> : tensor<2x3xf32>
  %none = arith.constant dense<2147483647> : tensor<2x3xi32>
  %t:2 = tm_tensor.topk dimension(1) ins(%x : tensor<2x9xf32>) outs(%low, %none : tensor<2x3xf32>, tensor<2x3xi32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.cmpf ogt, %a, %b : f32
    tm_tensor.yield %p : i1
  } -> tensor<2x3xf32>, tensor<2x3xi32>"""
    kernel = compiled(body, {"x": "2x9xf32"}, {"t#0": "2x3xf32", "t#1": "2x3xi32"}, pipeline)
    x = RNG.integers(0, 4, (2, 9)).astype(np.float32)
    values, places = kernel(x)
    wanted = np.argsort(-x, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))
    np.testing.assert_array_equal(places, wanted)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("mask", [None, (4, 6), (2, 4, 6)])
def test_attention(mask, pipeline):
    given = ", %m" if mask else ""
    kind = f", tensor<{'x'.join(map(str, mask))}xf32>" if mask else ""
    body = f"""
  %e = tensor.empty() : tensor<2x4x5xf32>
  %t = tm_tensor.attention ins(%q, %k, %v{given} : tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x5xf32>{kind})
      outs(%e : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>"""
    types = {"q": "2x4x8xf32", "k": "2x6x8xf32", "v": "2x6x5xf32"}
    if mask:
        types["m"] = f"{'x'.join(map(str, mask))}xf32"
    kernel = compiled(body, types, {"t": "2x4x5xf32"}, pipeline)
    q, k, v = (RNG.normal(size=shape).astype(np.float32) for shape in ((2, 4, 8), (2, 6, 8), (2, 6, 5)))
    biases = [RNG.normal(size=mask).astype(np.float32)] if mask else []
    weights = q @ k.transpose(0, 2, 1) / np.sqrt(8) + (biases[0] if mask else 0)
    weights = np.exp(weights - weights.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(kernel(q, k, v, *biases), wanted, rtol=1e-5, atol=1e-6)
