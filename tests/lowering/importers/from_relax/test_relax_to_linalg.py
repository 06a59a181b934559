"""Relax modules on their way to linalg: in pipeline `mlir` they give the numbers that TVM gives.

Operators go through TVM's legalisation; PrimFuncs are written here, with statements of every kind. The oracle is TVM's
own code, or NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest
from relax_operator_calls import ARGUMENTS, OFTEN, SELDOM, module_of
from relax_results import SEVERAL, flat

import mlirtri as mt

CALLS_PER_MODULE = 24


def groups():
    for calls, marks in ((OFTEN, ()), (SELDOM, [pytest.mark.slow])):
        for at in range(0, len(calls), CALLS_PER_MODULE):
            yield pytest.param(calls[at : at + CALLS_PER_MODULE], id=calls[at], marks=marks)


@pytest.mark.parametrize("calls", list(groups()))
def test_operators(calls):
    program = mt.from_relax(module_of(calls))
    wanted = program.compile()(*ARGUMENTS.values())
    found = program.compile(pipeline="mlir")(*ARGUMENTS.values())
    problems = [f"{call}: {p}" for call, f, w in zip(calls, found, wanted, strict=True) if (p := difference(f, w))]
    assert not problems, "\n".join(problems)


def difference(found, wanted) -> str | None:
    for f, w in zip(flat(found), flat(wanted), strict=True):
        if (f.dtype, f.shape) != (w.dtype, w.shape):
            return f"{f.dtype}{f.shape}, TVM has {w.dtype}{w.shape}"
        tolerance = 1e-2 if w.dtype.itemsize == 2 else 1e-4
        if not np.allclose(f.astype("f8"), w.astype("f8"), tolerance, tolerance, equal_nan=True):
            return f"{f}, TVM has {w}"
    return None


def test_functions_that_tvm_has_no_code_for():
    program = mt.from_relax(module_of(["R.sinh(A)", "R.cosh(A)"]))
    found = program.compile(pipeline="mlir")(*ARGUMENTS.values())
    for f, function in zip(found, (np.sinh, np.cosh), strict=True):
        np.testing.assert_allclose(f, function(ARGUMENTS["A"]), rtol=1e-5)


# --- PrimFuncs -------------------------------------------------------------------------------------------------------

PRIM_FUNC = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def compute(a: T.Buffer((T.int64({size}),), "{dtype}"), out: T.Buffer((T.int64({size}),), "{result}")):
        T.func_attr({{"op_pattern": 8}})
{body}

    @R.function
    def main(x: R.Tensor(({size},), "{dtype}")):
        cls = Module
        y = R.call_tir(cls.compute, (x,), out_ty=R.Tensor(({size},), "{result}"))
        return y
"""


def block(body: str) -> str:
    lines = [*body.strip().splitlines()]
    head = ['with T.sblock("all"):', "    T.reads(a[0:6])", "    T.writes(out[0:6])"]
    return "\n".join(" " * 8 + line for line in [*head, *("    " + line for line in lines)])


def elementwise(expression: str) -> str:
    lines = ["for i in range(T.int64(6)):", '    with T.sblock("each"):', "        v = T.axis.spatial(T.int64(6), i)",
             f"        out[v] = {expression}"]  # fmt: skip
    return "\n".join(" " * 8 + line for line in lines)


def program_of(body: str, dtype: str = "float32", result: str | None = None):
    return mt.from_relax(PRIM_FUNC.format(size=6, dtype=dtype, result=result or dtype, body=body))


def run(body: str, argument, result: str | None = None):
    argument = np.asarray(argument)
    return program_of(body, str(argument.dtype), result).compile(pipeline="mlir")(argument)


NUMBERS = np.float32([1, -2.5, 0.5, 3, -0.75, 2])


def test_loops_that_read_their_own_writes():
    body = """
out[0] = a[0]
for i in range(5):
    out[i + 1] = out[i] + a[i + 1]
"""
    np.testing.assert_allclose(run(block(body), NUMBERS), np.cumsum(NUMBERS), rtol=1e-6)


def test_branches_and_local_memory():
    body = """
t = T.sblock_alloc_buffer((2,), "float32")
for i in range(6):
    t[0] = a[i]
    t[1] = t[0] * T.float32(2)
    if a[i] < T.float32(0):
        out[i] = t[1]
    else:
        out[i] = t[0]
        if i > 3:
            out[i] = T.float32(-1)
"""
    wanted = np.where(NUMBERS < 0, NUMBERS * 2, np.where(np.arange(6) > 3, -1, NUMBERS))
    np.testing.assert_array_equal(run(block(body), NUMBERS), wanted)


def test_while():
    body = """
for i in range(6):
    out[i] = a[i]
    while out[i] < T.float32(10):
        out[i] = out[i] + T.float32(4)
"""
    wanted = NUMBERS.copy()
    while (wanted < 10).any():
        wanted[wanted < 10] += 4
    np.testing.assert_array_equal(run(block(body), NUMBERS), wanted)


def test_accesses_out_of_bounds_change_nothing():
    body = """
for i in range(6):
    out[i] = a[i]
for i in range(6):
    out[T.Cast("int32", a[i])] = T.float32(9)
"""
    argument = np.float32([1, -2, 100, 3, 1e6, 2])
    wanted = argument.copy()
    wanted[[1, 3, 2]] = 9
    np.testing.assert_array_equal(run(block(body), argument), wanted)


def test_an_assertion_is_a_check():
    body = """
assert a[0] > T.float32(0), ("ValueError", ["the first is not positive"])
for i in range(6):
    out[i] = a[i]
"""
    kernel = program_of(block(body)).compile(pipeline="mlir")
    np.testing.assert_array_equal(kernel(NUMBERS), NUMBERS)
    with pytest.raises(mt.KernelError, match="the first is not positive"):
        kernel(-NUMBERS)


def test_buffers_with_strides_are_refused():
    text = PRIM_FUNC.format(size=6, dtype="float32", result="float32", body=elementwise("a[v]"))
    strided = text.replace(
        'a: T.Buffer((T.int64(6),), "float32")', 'a: T.Buffer((T.int64(6),), "float32", strides=(T.int64(2),))'
    )
    with pytest.raises(mt.KernelError, match="has strides"):
        mt.from_relax(strided).to_mlir()


@pytest.mark.parametrize(
    ("expression", "dtype", "wanted"),
    [
        ("T.shift_right(a[v], T.uint8(1))", "uint8", lambda a: a >> 1),
        ("T.truncdiv(a[v], T.uint8(3))", "uint8", lambda a: a // 3),
        ("T.floormod(a[v], T.int8(-3))", "int8", lambda a: a % -3),
        ("T.floordiv(a[v], T.int8(-3))", "int8", lambda a: a // -3),
        ("T.truncmod(a[v], T.int8(3))", "int8", lambda a: np.fmod(a, np.int8(3))),
        ("T.max(a[v], T.uint8(200))", "uint8", lambda a: np.maximum(a, 200)),
        ("T.bitwise_not(a[v])", "int8", lambda a: ~a),
        ("T.Cast('uint8', a[v] < T.uint8(200))", "uint8", lambda a: (a < 200).astype("uint8")),
        ("T.Cast('int8', T.Cast('int64', a[v]) * T.int64(9))", "int8", lambda a: (a.astype(int) * 9).astype("int8")),
        ("T.if_then_else(a[v] != T.int8(0), T.truncdiv(T.int8(60), a[v]), T.int8(1))", "int8",
         lambda a: np.where(a != 0, np.trunc(60 / np.where(a, a, 1)), 1).astype("int8")),
        ("T.popcount(a[v])", "uint8", lambda a: np.uint8([bin(each).count("1") for each in a])),
    ],
)  # fmt: skip
def test_integers_keep_their_sign(expression, dtype, wanted):
    argument = np.array([0, 1, 7, 100, 200, 255]).astype(dtype)
    found = run(elementwise(expression), argument)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted(argument))


SPECIAL = np.float32([0.5, 2.5, -1.5, np.nan, np.inf, -0.0])


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("T.round(a[v])", np.rint),
        ("T.max(a[v], T.float32(1))", lambda a: np.where(a > 1, a, 1)),
        ("T.min(T.float32(1), a[v])", lambda a: np.where(1 < a, 1, a)),
        ("T.call_pure_extern('float32', 'expm1f', a[v])", np.expm1),
        ("T.call_pure_extern('float32', 'roundf', a[v])", lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a)),
        ("T.Cast('float32', T.reinterpret('int32', a[v]) == 0)", lambda a: (a.view("int32") == 0).astype("float32")),
        ("T.Cast('float32', a[v] != a[v] + T.float32(0))", lambda a: (a != a).astype("float32")),
        ("T.float32('inf') - a[v]", lambda a: np.inf - a),
        ("a[v] * a[T.int64(5) - v]", lambda a: a * a[::-1]),
    ],
)
def test_float_functions_follow_tir(expression, wanted):
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(elementwise(expression), SPECIAL), wanted(SPECIAL).astype("float32"))


def test_a_reduction_whose_length_no_input_tells():
    body = """
        for i, k in T.grid(T.int64(6), T.int64(3)):
            with T.sblock("sum"):
                v, w = T.axis.remap("SR", [i, k])
                with T.init():
                    out[v] = T.float32(0)
                out[v] = out[v] + a[T.min(v + w, T.int64(5))]
"""
    wanted = sum(NUMBERS[np.minimum(np.arange(6) + k, 5)] for k in range(3))
    np.testing.assert_allclose(run(body, NUMBERS), wanted, rtol=1e-6)
    assert '"reduction"' in program_of(body).to_mlir()


# --- functions -------------------------------------------------------------------------------------------------------

X = np.float32([0, 1, -1, 2])


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_branches_calls_and_nested_results(pipeline):
    kernel = mt.from_relax(SEVERAL).compile("main", pipeline=pipeline)
    for condition, z in ((True, np.exp(X) + 1), (False, -X)):
        (added, multiplied), last = kernel(X, np.array(condition))
        for found, wanted in ((added, z + X), (multiplied, z * X), (last, z)):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_pipeline_linalg_goes_through_linalg_and_no_name_stays_relax(monkeypatch):
    program = mt.from_relax(SEVERAL)
    stages = ("linalg", "fused", "relax", "tir", "scheduled", "llvm", "asm")
    assert tuple(program.compile("main", pipeline="linalg").ir) == ("imported", *stages)
    assert tuple(program.compile("main").ir) == ("relax", *stages[3:])
    monkeypatch.setenv("MLIRTRI_PIPELINE", "linalg")
    assert "fused" in program.compile("main").ir


SYMBOLIC = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        m = T.int64()
        b = R.concat((R.exp(x), y), axis=1)
        c = R.nn.softmax(b)
        d = R.matmul(R.permute_dims(c), x)
        return (c, R.reshape(d, ((m + 4) * 4,)))
"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_sizes_of_run_time(pipeline):
    kernel = mt.from_relax(SYMBOLIC).compile(pipeline=pipeline)
    for n, m in ((5, 3), (2, 1)):
        x, y = np.random.default_rng(n).standard_normal((2, n, 4)).astype("float32")
        y = y[:, :m]
        powers = np.exp(np.concatenate((np.exp(x), y), axis=1))
        c = powers / powers.sum(1, keepdims=True)
        found = kernel(x, np.ascontiguousarray(y))
        np.testing.assert_allclose(found[0], c, rtol=1e-5)
        np.testing.assert_allclose(found[1], (c.T @ x).ravel(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_shapes_that_are_said(pipeline):
    program = mt.from_relax(SYMBOLIC)
    shapes = {"x": (5, 4), "y": (5, 3)}
    kernel = program.compile(pipeline=pipeline, shapes=shapes)
    assert [each.type.shape for each in kernel.interface.parameters] == list(shapes.values())
    x, y = np.ones((5, 4), "float32"), np.ones((5, 3), "float32")
    np.testing.assert_allclose(kernel(x, y)[0], program.compile(pipeline=pipeline)(x, y)[0], rtol=1e-6)
    for wrong in ({"x": (5, 4), "y": (4, 3)}, {"x": (5, 3)}, {"z": (1,)}):
        with pytest.raises(mt.KernelError):
            program.compile(pipeline=pipeline, shapes=wrong)


def test_only_unstructured_statements_become_loops():
    text = mt.from_relax(module_of(["R.nn.conv2d(X, R.concat((W, W), axis=1), padding=[1, 1, 1, 1])"])).to_mlir()
    assert "tensor.pad" in text
    assert "tensor.concat" in text
    assert "scf." not in text
    assert "tensor.extract " not in text


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def double(a: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({"op_pattern": 8})
        with T.sblock("all"):
            T.reads(a[0:4])
            T.writes(a[0:4])
            for i in range(4):
                a[i] = a[i] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        VALUE
        z = R.call_tir_inplace(cls.double, (y,), out_ty=R.Tensor((4,), "float32"), inplace_indices=[0])
        return z
"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_an_argument_that_is_updated(pipeline):
    x = X.copy()
    mt.from_relax(IN_PLACE.replace("VALUE", "").replace("(y,)", "(x,)")).compile(pipeline=pipeline)(x)
    np.testing.assert_array_equal(x, 2 * X)


def test_updates_of_other_values_are_refused():
    with pytest.raises(mt.KernelError, match="in place of a value that is not an argument"):
        mt.from_relax(IN_PLACE.replace("VALUE", "y = R.exp(x)")).compile()
