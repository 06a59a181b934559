"""Rows of indexing and operations on sizes of run time, from `tri` to machine code, against their references."""

from __future__ import annotations

import numpy as np
import pytest
from imperative_tri import MASK, ONE, PIPELINES, RANDOM, THREE, TWO, A, B, P, V, X, in_corner, padded, part, run
from tolerances import within

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.ops import table as ops

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
    wanted = np.asarray(ops.TABLE[name].numpy(*operands, **attributes))
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


SMALL = (3, 4)


def _dynamic(name, *arrays, marks=(), **attributes):
    ranks = "x".join(str(each.ndim) for each in arrays)
    return pytest.param(name, arrays, attributes, marks=marks, id=f"{name}-{ranks}")


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
        _dynamic("matmul", RANDOM.random((3, 4, 5)), RANDOM.random((5, 4)), marks=pytest.mark.slow),
        _dynamic("matmul", RANDOM.random((3, 4, 5)), RANDOM.random((3, 5, 4)), marks=pytest.mark.slow),
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
    wanted = np.asarray(ops.TABLE[name].numpy(*smaller, **reference))

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
