"""`tri` to linalg with loops, branches, run-time slices and sizes: numbers through a whole pipeline, and the text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tolerances import within

import mlirtri as mt
from mlirtri.dialect import ops
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.dialect.dtypes import DTYPES, as_dtype
from mlirtri.dialect.mlir import func, ir, print_complete, print_module, scf
from mlirtri.dialect.sizes import DYNAMIC
from mlirtri.dialect.types import TensorType
from mlirtri.lowering import fused_to_bufferized, linalg_to_fused, scf_builder, tri_to_linalg
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.target import as_target
from mlirtri.lowering.tri_builder import Tensor, TriBuilder

PIPELINES = ("linalg", "mlir")
FLOAT64, INT64 = DTYPES["float64"], DTYPES["int64"]
RANDOM = np.random.default_rng(7)


def tri_text(arrays, body) -> str:
    """A module whose function is `body`, which takes a builder and tensors and gives one tensor or several."""
    with new_context(), ir.Location.unknown():
        types = [TensorType(each.shape, as_dtype(each.dtype)) for each in arrays]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("kernel", ([mlir_type(each) for each in types], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            tensors = [Tensor(argument, each) for argument, each in zip(block.arguments, types, strict=True)]
            made = body(TriBuilder(), *tensors)
            results = [made] if isinstance(made, Tensor) else list(made)
            func.ReturnOp([result.value for result in results])
        kind = ir.FunctionType.get([mlir_type(each) for each in types], [mlir_type(each.type) for each in results])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        return print_complete(module)


def run(tmp_path, pipeline, arrays, body):
    arrays = [np.asarray(each) for each in arrays]
    file = tmp_path / "kernel.mlir"
    file.write_text(tri_text(arrays, body))
    return mt.resume(file, "tri", pipeline=pipeline)(*arrays)


def rooms(arrays, body) -> tuple[str, str]:
    """The text of `linalg` and of `fused`."""
    with new_context():
        module = ir.Module.parse(tri_text([np.asarray(each) for each in arrays], body))
        context = CompileContext("kernel", as_target("cpu"))
        module = tri_to_linalg.lower(module, context)
        module.operation.verify()
        linalg = print_module(module)
        module = linalg_to_fused.lower(module, context)
        module.operation.verify()
        return linalg, print_module(module)


def part(t: TriBuilder, x: Tensor, *sizes: Tensor) -> Tensor:
    """The first elements along each axis: a tensor all of whose sizes are of run time."""
    rank = x.type.rank
    return t.extract_slice(
        x, *sizes, offsets=(0,) * rank, sizes=(DYNAMIC,) * rank, strides=(1,) * rank, drop=()
    )  # fmt: skip


def padded(t: TriBuilder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x in the corner of zeros: functions return what has a size."""
    rank = len(shape)
    zeros = t.constant(0, x.type.dtype, shape)
    sizes = [t.size(x, axis=axis) for axis in range(rank)]
    return t.insert_slice(zeros, x, *sizes, offsets=(0,) * rank, sizes=(DYNAMIC,) * rank, strides=(1,) * rank, drop=())


def in_corner(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    whole = np.zeros(shape, x.dtype)
    whole[tuple(slice(size) for size in x.shape)] = x
    return whole


# --- the rows of indexing ------------------------------------------------------------------------------------------

X, P = RANDOM.random((5, 6)), np.array([[3, -1], [0, 9], [-7, 2]])
MASK = RANDOM.random((5, 6)) > 0.5
ONE, TWO, THREE = (np.int64(number) for number in (1, 2, 3))
ROWS = [
    ("extract_slice", [X, ONE, THREE], {"offsets": (DYNAMIC, 2), "sizes": (DYNAMIC, 4), "strides": (1, 1), "drop": ()}),
    ("extract_slice", [X, ONE], {"offsets": (DYNAMIC, 0), "sizes": (1, 3), "strides": (1, 2), "drop": (0,)}),
    ("extract_slice", [X, ONE, TWO], {"offsets": (DYNAMIC,) * 2, "sizes": (1, 1), "strides": (1, 1), "drop": (0, 1)}),
    ("extract_slice", [X, ONE], {"offsets": (DYNAMIC, 0), "sizes": (1, 1), "strides": (1, 1), "drop": ()}),
    ("extract_slice", [np.float64(3)], {"offsets": (), "sizes": (), "strides": (), "drop": ()}),
    ("insert_slice", [X, X[:3, :4] * 2, ONE, THREE],
     {"offsets": (DYNAMIC, 2), "sizes": (DYNAMIC, 4), "strides": (1, 1), "drop": ()}),
    ("insert_slice", [X, X[0, :3], ONE], {"offsets": (DYNAMIC, 0), "sizes": (1, 3), "strides": (1, 2), "drop": (0,)}),
    ("insert_slice", [X, np.float64(7), ONE, TWO],
     {"offsets": (DYNAMIC,) * 2, "sizes": (1, 1), "strides": (1, 1), "drop": (0, 1)}),
    ("insert_slice", [np.float64(3), np.float64(4)], {"offsets": (), "sizes": (), "strides": (), "drop": ()}),
    ("fill", [np.float32(1.5), THREE], {"shape": (DYNAMIC, 2)}),
    ("fill", [np.bool_(True)], {"shape": ()}),
    ("iota", [THREE], {"shape": (2, DYNAMIC), "axis": 1, "dtype": "int32"}),
    ("iota", [THREE], {"shape": (DYNAMIC, 2), "axis": 0, "dtype": "float64"}),
    ("dynamic_broadcast", [X[0], THREE], {"shape": (DYNAMIC, 6)}),
    ("dynamic_broadcast", [X[:, :1], THREE], {"shape": (5, DYNAMIC)}),
    ("dynamic_broadcast", [np.float32(2), THREE], {"shape": (DYNAMIC,)}),
    ("dynamic_reshape", [X, np.int64(10), THREE], {"shape": (DYNAMIC, DYNAMIC)}),
    ("dynamic_reshape", [X, np.int64(30)], {"shape": (DYNAMIC,)}),
    ("dynamic_reshape", [np.float64(2), ONE], {"shape": (DYNAMIC, 1)}),
    ("size", [X], {"axis": 1}),
    ("size", [X.astype(np.complex64)], {"axis": 0}),
    ("gather", [X, P], {}),
    ("gather", [X, P[:, 0], P[:, 1]], {}),
    ("gather", [X, THREE], {}),
    ("gather", [X, P[:, 0].astype(np.uint8)], {}),
    ("gather", [X, THREE, np.int64(-1)], {}),
    ("scatter", [X, RANDOM.random((3, 2, 6)), P], {}),
    ("scatter", [X, RANDOM.random((3,)), P[:, 0], P[:, 1]], {}),
    ("scatter", [X[0], np.arange(4.0), np.array([1, 2, 1, -5])], {}),
    ("scatter", [X, X[0] * 3, THREE], {}),
    ("compress", [X, MASK], {}),
    ("compress", [X, MASK[:, 1]], {}),
    ("compress", [X, MASK & False], {}),
    ("compress", [X, MASK | True], {}),
    ("place", [X, MASK, np.arange(MASK.sum(), dtype=float)], {}),
    ("place", [X, MASK[:, 1], RANDOM.random((MASK[:, 1].sum(), 6))], {}),
]  # fmt: skip


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("name", "operands", "attributes"), ROWS)
def test_rows_of_indexing_compute_their_reference(tmp_path, pipeline, name, operands, attributes):
    wanted = np.asarray(ops.load()[name].numpy(*operands, **attributes))
    larger = tuple(size + 1 for size in wanted.shape)

    def body(t, *tensors):
        made = t.emit(name, *tensors, **attributes)
        return made if made.type.is_static else (padded(t, made, larger), t.size(made, axis=0))

    found = run(tmp_path, pipeline, operands, body)
    if isinstance(found, tuple):
        found, count = found
        assert count == wanted.shape[0]
        wanted = in_corner(wanted, larger)
    assert np.array_equal(found, wanted)


def test_every_row_of_indexing_is_tested():
    rows = {op.name for op in ops.dialect_ops() if op.group == "indexing"}
    assert rows - {name for name, *_ in ROWS} == {"empty"}


# --- operations on sizes of run time -------------------------------------------------------------------------------

A, B, V = RANDOM.random((4, 5)), RANDOM.random((4, 5)), RANDOM.random(5)
SMALL = (3, 4)


def _dynamic(name, *arrays, **attributes):
    return pytest.param(name, arrays, attributes, id=f"{name}-{'x'.join(str(each.ndim) for each in arrays)}")


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(
    ("name", "arrays", "attributes"),
    [
        _dynamic("exp", A),
        _dynamic("add", A, B),
        _dynamic("add", A, A[0, :]),
        _dynamic("where", A > B, A, B),
        _dynamic("cast", A, dtype="float32"),
        _dynamic("sum", A, axes=(0, 1), keepdims=False),
        _dynamic("sum", A, axes=(0,), keepdims=False),
        _dynamic("sum", A.astype("float32"), axes=(1,), keepdims=True),
        _dynamic("max", A, axes=(1,), keepdims=True),
        _dynamic("mean", A, axes=(0,), keepdims=False),
        _dynamic("mean", A.astype("float16"), axes=(0, 1), keepdims=True),
        _dynamic("var", A, axes=(0, 1), keepdims=False, correction=1),
        _dynamic("std", A, axes=(1,), keepdims=True, correction=0),
        _dynamic("argmax", A, axes=(0, 1), keepdims=False),
        _dynamic("argmin", A, axes=(1,), keepdims=False),
        _dynamic("softmax", A, axis=1),
        _dynamic("transpose", A, permutation=(1, 0)),
        _dynamic("flip", A, axes=(0, 1)),
        _dynamic("flip", A, axes=(1,)),
        _dynamic("concatenate", A, B, axis=0),
        _dynamic("concatenate", A, B, axis=1),
        _dynamic("slice", A, offsets=(1, 0), sizes=(2, 2), strides=(1, 2)),
        _dynamic("reshape", V, shape=(DYNAMIC, 1)),
        _dynamic("reshape", V, shape=(1, DYNAMIC, 1)),
        _dynamic("reshape", A, shape=(DYNAMIC,)),
        _dynamic("reshape", V, shape=(DYNAMIC, 2)),
        _dynamic("matmul", A, A.T),
        _dynamic("matmul", RANDOM.random((3, 4, 5)), RANDOM.random((5, 4))),
        _dynamic("matmul", RANDOM.random((3, 4, 5)), RANDOM.random((3, 5, 4))),
        _dynamic("matmul", RANDOM.random((3, 4, 5)), RANDOM.random((2, 1, 5, 4))),
    ],
)
def test_operations_take_sizes_of_run_time(tmp_path, pipeline, name, arrays, attributes):
    """Each operand loses the last element of every axis, which only run time knows."""
    smaller = [each[tuple(slice(_less(size)) for size in each.shape)] for each in arrays]
    sizes = [[np.int64(size) for size in each.shape] for each in smaller]
    reference = dict(attributes)
    if name == "reshape":
        reference["shape"] = tuple(-1 if size == DYNAMIC else size for size in attributes["shape"])
    wanted = np.asarray(ops.load()[name].numpy(*smaller, **reference))

    def body(t, *tensors):
        wholes, indices = tensors[: len(arrays)], list(tensors[len(arrays) :])
        parts = [_part_of(t, whole, indices) for whole in wholes]
        made = t.emit(name, *parts, **attributes)
        return made if made.type.is_static else padded(t, made, wanted.shape)

    found = run(tmp_path, pipeline, [*arrays, *(size for each in sizes for size in each)], body)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, **within(wanted.dtype, 16))
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted) or wanted.dtype.kind == "f"


def _less(size: int) -> int:
    return size if size == 1 else size - 1


def _part_of(t, whole, indices):
    sizes = [indices.pop(0) for _ in whole.type.shape]
    static = [1 if size == 1 else DYNAMIC for size in whole.type.shape]
    rank = whole.type.rank
    moving = [size for size, known in zip(sizes, static, strict=True) if known == DYNAMIC]
    return t.extract_slice(whole, *moving, offsets=(0,) * rank, sizes=static, strides=(1,) * rank, drop=())


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_static_and_dynamic_sizes_meet(tmp_path, pipeline):
    def body(t, x, y, n):
        cut = part(t, x, n, n)
        row = t.extract_slice(y, offsets=(0,), sizes=(3,), strides=(1,), drop=())
        column = t.reshape(row, shape=(3, 1))
        return t.add(t.multiply(cut, row), t.multiply(column, cut))

    y = V[:3]
    found = run(tmp_path, pipeline, [A, V, THREE], body)
    assert np.array_equal(found, A[:3, :3] * y + y[:, None] * A[:3, :3])


# --- loops and branches --------------------------------------------------------------------------------------------


def _range(stop: Tensor):
    return (
        scf_builder.index_constant(0, None),
        scf_builder.index_of(stop, None),
        scf_builder.index_constant(1, None),
    )


def _element(t, x, *at):
    rank = len(at)
    return t.extract_slice(x, *at, offsets=(DYNAMIC,) * rank, sizes=(1,) * rank, strides=(1,) * rank, drop=range(rank))


def _dot(t, x, y, n):
    def step(i, carried):
        at = scf_builder.tensor_of_index(i, None)
        return [t.add(carried[0], t.multiply(_element(t, x, at), _element(t, y, at)))]

    return scf_builder.for_loop(_range(n), [t.constant(0, FLOAT64)], step, None)[0]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("count", [0, 4])
def test_a_loop_carries_a_scalar(tmp_path, pipeline, count):
    found = run(tmp_path, pipeline, [V, V * 2, np.int64(count)], _dot)
    np.testing.assert_allclose(found, (V * V * 2)[:count].sum(), **within("float64", 8))


def test_what_has_rank_0_is_a_scalar_in_loops():
    for text in rooms([V, V, THREE], _dot):
        inside = text[text.index("scf.for") : text.index("scf.yield")]
        assert "-> (f64)" in inside
        assert "tensor<f64>" not in inside
        assert "tensor.from_elements" not in inside
        assert "linalg.generic" not in inside


def test_operations_fuse_in_loop_bodies():
    def body(t, x, y, n):
        def step(i, carried):
            [x] = carried
            cut = part(t, x, n)
            made = t.add(t.exp(t.multiply(cut, part(t, y, n))), cut)
            return [t.insert_slice(x, made, n, offsets=(0,), sizes=(DYNAMIC,), strides=(1,), drop=())]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    linalg, fused = rooms([V, V, THREE], body)
    assert linalg.count("linalg.generic") == 3
    assert fused.count("linalg.generic") == 1
    assert "tensor.dim" not in fused


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_while_with_a_run_time_test(tmp_path, pipeline):
    """How often 3 is divided by 2 before it is below 0.1, and what is left."""

    def body(t, x, limit):
        def test(carried):
            return t.greater(carried[0], limit)

        def step(carried):
            return [t.multiply(carried[0], t.constant(0.5, FLOAT64)), t.add(carried[1], t.constant(1, INT64))]

        return scf_builder.while_loop([x, t.constant(0, INT64)], test, step, None)

    left, count = run(tmp_path, pipeline, [np.float64(3), np.float64(0.1)], body)
    assert (left, count) == (3 / 2**5, 5)


BRANCH = """
func.func @kernel(%x: tensor<4xui8>, %flag: tensor<i1>) -> (tensor<4xui8>, tensor<f64>) {
  %is = tensor.extract %flag[] : tensor<i1>
  %two = "tri.constant"() {value = 2 : i64, shape = array<i64>, dtype = "uint8"} : () -> tensor<ui8>
  %zero = "tri.constant"() {value = 0.5, shape = array<i64>, dtype = "float64"} : () -> tensor<f64>
  %0:2 = scf.if %is -> (tensor<4xui8>, tensor<f64>) {
    %y = "tri.multiply"(%x, %two) : (tensor<4xui8>, tensor<ui8>) -> tensor<4xui8>
    %s = "tri.sum"(%y) {axes = array<i64: 0>, keepdims = false} : (tensor<4xui8>) -> tensor<ui8>
    %f = "tri.cast"(%s) {dtype = "float64"} : (tensor<ui8>) -> tensor<f64>
    scf.yield %y, %f : tensor<4xui8>, tensor<f64>
  } else {
    scf.yield %x, %zero : tensor<4xui8>, tensor<f64>
  }
  return %0#0, %0#1 : tensor<4xui8>, tensor<f64>
}
"""


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("flag", [True, False])
def test_branches_give_tensors_and_scalars(tmp_path, pipeline, flag):
    file = tmp_path / "kernel.mlir"
    file.write_text(BRANCH)
    x = np.array([1, 2, 100, 30], np.uint8)
    y, total = mt.resume(file, "tri", pipeline=pipeline)(x, np.array(flag))
    assert np.array_equal(y, x * np.uint8(2) if flag else x)
    assert total == ((x * np.uint8(2)).sum(dtype=np.uint8) if flag else 0.5)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("left", "right"), [((1, 5), (5, 1)), ((4, 5), (5, 1)), ((1, 5), (5, 4)), ((4, 1), (1, 3))])
def test_products_in_loops_have_no_axis_of_size_1(tmp_path, pipeline, left, right):
    def body(t, x, y, n):
        start = t.constant(0, FLOAT64, (left[0], right[1]))
        return scf_builder.for_loop(_range(n), [start], lambda i, carried: [t.add(carried[0], t.matmul(x, y))], None)[0]

    x, y = RANDOM.random(left), RANDOM.random(right)
    found = run(tmp_path, pipeline, [x, y, TWO], body)
    np.testing.assert_allclose(found, x @ y * 2, **within("float64", 16))
    if 1 in (left[0], right[1]):
        assert "linalg.matmul" not in rooms([x, y, TWO], body)[0]


def test_locations_go_through_loops():
    file = 'loc("s"("/home/me/k.py":3:4))'
    text = tri_text([V, V, THREE], _dot).replace("loc(unknown)", file)
    with new_context():
        module = tri_to_linalg.lower(ir.Module.parse(text), CompileContext("kernel", as_target("cpu")))
        shown = print_complete(module)
    for line in shown.splitlines():
        assert "arith.mulf" not in line or "loc(" in line
    assert "/home/me/k.py" in shown


# --- what fusion leaves alone --------------------------------------------------------------------------------------


def test_what_a_loop_does_not_change_is_computed_before_it():
    def body(t, x, y, n):
        once = t.exp(y)
        return scf_builder.for_loop(_range(n), [x], lambda i, carried: [t.multiply(carried[0], once)], None)[0]

    _, fused = rooms([V, V, THREE], body)
    assert "math.exp" in fused[: fused.index("scf.for")]
    assert "math.exp" not in fused[fused.index("scf.for") :]


def test_a_contraction_in_a_loop_reads_what_was_computed_before_it():
    def body(t, x, y, n):
        return scf_builder.for_loop(_range(n), [x], lambda i, carried: [t.matmul(carried[0], t.exp(y))], None)[0]

    _, fused = rooms([A[:4, :4], A[:4, :4], THREE], body)
    assert "linalg.matmul" in fused
    assert "dealloc_tensor" not in fused


@pytest.mark.parametrize("written", [True, False])
def test_an_array_is_read_before_it_is_written(written):
    """``t = x + 1; x[0] = 5; return t * x``: with both in one loop nest, the old x had to be kept aside."""

    def body(t, x, y):
        made = t.add(x, t.constant(1, FLOAT64))
        target = x if written else y
        five = t.constant(5, FLOAT64)
        new = t.insert_slice(target, five, offsets=(0,), sizes=(1,), strides=(1,), drop=(0,))
        return t.multiply(made, new)

    _, fused = rooms([V, V], body)
    assert fused.count("linalg.generic") == (2 if written else 1)
    adding = fused.index("arith.addf")
    assert (adding < fused.index("tensor.insert")) == written


# --- masks without gathering ---------------------------------------------------------------------------------------


def _squares(t, z, c, mask):
    selected = t.compress(z, mask)
    made = t.add(t.multiply(selected, selected), t.multiply(t.compress(c, mask), t.constant(3, FLOAT64)))
    return t.place(z, mask, made)


def _mean(t, z, c, mask):
    return t.mean(t.exp(t.compress(z, mask)), axes=(0,), keepdims=False)


def _variance(t, z, c, mask):
    return t.var(t.compress(z, mask), axes=(0,), keepdims=True, correction=1)


def _extremes(t, z, c, mask):
    selected = t.compress(z, mask)
    largest = t.max(selected, axes=(0,), keepdims=False)
    any_large = t.any(t.greater(selected, t.constant(0.5, FLOAT64)), axes=(0,), keepdims=False)
    return largest, any_large, t.size(selected, axis=0)


MASKED = {
    "squares": (_squares, lambda z, c, m: np.where(m, z * z + c * 3, z)),
    "mean": (_mean, lambda z, c, m: np.exp(z[m]).mean()),
    "variance": (_variance, lambda z, c, m: z[m].var(ddof=1, keepdims=True)),
    "extremes": (_extremes, lambda z, c, m: (z[m].max(), (z[m] > 0.5).any(), m.sum())),
}


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", MASKED)
def test_what_is_computed_of_selected_elements_selects_in_the_end(tmp_path, pipeline, name):
    body, reference = MASKED[name]
    c = RANDOM.random(X.shape)
    found, wanted = run(tmp_path, pipeline, [X, c, MASK], body), reference(X, c, MASK)
    for mine, other in zip(np.atleast_1d(found), np.atleast_1d(wanted), strict=True):
        np.testing.assert_allclose(mine, other, **within("float64", 32))
    assert "scf.for" not in rooms([X, c, MASK], body)[0]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_masks_select_rows(tmp_path, pipeline):
    rows, weights = MASK[:, 1], V[:1] * np.arange(6)

    def body(t, x, mask, weights):
        selected = t.multiply(t.compress(x, mask), weights)
        new = t.place(x, mask, selected)
        return new, t.sum(selected, axes=(0,), keepdims=True), t.sum(selected, axes=(0, 1), keepdims=False)

    found = run(tmp_path, pipeline, [X, rows, weights], body)
    wanted = X.copy()
    wanted[rows] = X[rows] * weights
    for mine, other in zip(found, (wanted, (X[rows] * weights).sum(0, keepdims=True), (X[rows] * weights).sum()),
                           strict=True):  # fmt: skip
        np.testing.assert_allclose(mine, other, **within("float64", 32))
    assert "scf.for" not in rooms([X, rows, weights], body)[0]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_masks_that_differ_and_positions_select_first(tmp_path, pipeline):
    other = np.roll(MASK.ravel(), 3).reshape(MASK.shape)

    def body(t, x, mask, other):
        selected = t.compress(x, mask)
        return t.place(x, other, selected), t.argmax(selected, axes=(0,), keepdims=False)

    wanted = X.copy()
    wanted[other] = X[MASK]
    found, position = run(tmp_path, pipeline, [X, MASK, other], body)
    assert np.array_equal(found, wanted)
    assert position == X[MASK].argmax()


def test_branches_in_branches_update_an_array_in_place():
    def body(t, x, n, limit):
        def step(i, carried):
            at = scf_builder.tensor_of_index(i, None)
            [x] = carried
            inner = [t.less(at, limit), t.greater(_element(t, x, at), t.constant(0.5, FLOAT64))]
            return [_branch(t, inner, x, at)]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    with new_context():
        context = CompileContext("kernel", as_target("cpu"))
        module = tri_to_linalg.lower(ir.Module.parse(tri_text([V, THREE, TWO], body)), context)
        text = print_module(fused_to_bufferized.lower(module, context))
    inside = text[text.index("scf.for") :]
    assert inside.count("scf.if") == 2
    assert not re.search(r"memref.(alloc|copy)|linalg.copy", inside[: inside.index("\n    }")])


def _branch(t, conditions, x, at):
    """Adds 1 to ``x[at]`` for each condition that holds before the first that does not."""
    if not conditions:
        return x
    branch = scf.IfOp(scf_builder.condition_of(conditions[0], None), [x.value.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        raised = t.add(_element(t, x, at), t.constant(1, FLOAT64))
        written = t.insert_slice(x, raised, at, offsets=(DYNAMIC,), sizes=(1,), strides=(1,), drop=(0,))
        scf.YieldOp([_branch(t, conditions[1:], written, at).value])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([x.value])
    return Tensor(branch.results[0], x.type)


def test_an_array_that_a_loop_makes_anew_is_read_before_that():
    """``r = x[:3] > x[2:]; x[:] = 0; x[1:4][r] = 1``: the old x is read where the new one is not yet written."""
    middle = {"offsets": (1,), "sizes": (3,), "strides": (1,), "drop": ()}

    def body(t, x, n):
        def step(i, carried):
            left, right = (
                t.extract_slice(carried[0], offsets=(at,), sizes=(3,), strides=(1,), drop=()) for at in (0, 2)
            )
            falls = t.greater(left, right)
            new = t.fill(t.constant(0, FLOAT64), shape=(5,))
            return [
                t.insert_slice(new, t.where(falls, t.constant(1, FLOAT64), t.extract_slice(new, **middle)), **middle)
            ]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    _, fused = rooms([V, THREE], body)
    assert fused.index("arith.cmpf") < fused.index("linalg.fill") < fused.index("arith.select")


def test_what_is_broadcast_is_computed_once():
    """``x / sqrt(row)`` in a loop: one root per column, not one per element; filling a row costs nothing."""

    def body(t, x, row, n):
        def step(i, carried):
            five = t.fill(t.constant(5, FLOAT64), shape=(5,))
            return [t.multiply(t.divide(carried[0], t.sqrt(row)), five)]

        return scf_builder.for_loop(_range(n), [x], step, None)[0]

    _, fused = rooms([A, V, THREE], body)
    assert fused.count("linalg.generic") == 2
    rooted, divided = fused.index("math.sqrt"), fused.index("arith.divf")
    assert rooted < fused.index("linalg.yield") < divided
