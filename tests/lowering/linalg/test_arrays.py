"""Operations of whole arrays, row by row: running sums, sorting, looking up, counting, in every pipeline and dtype."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import within

import mlirtri as mt
from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import func, ir, print_complete
from mlirtri.dialect.builder import TriBuilder, TriValue
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.dialect.ops import table as ops
from mlirtri.errors import KernelError

PIPELINES = ("linalg", "relax", "mlir")
random = np.random.default_rng(5)
LONG = random.uniform(-2, 2, 1000)
TIES = random.integers(-9, 9, (3, 33, 2)).astype(np.int32)
HOLES = np.where(random.uniform(0, 1, (2, 50)) < 0.1, np.nan, random.uniform(-2, 2, (2, 50)))
EDGES = np.linspace(-1.5, 1.5, 8)
SORTS = ("sort", "argsort")
EMPTY = np.zeros((2, 0))
IMAGES, KERNELS = random.uniform(-2, 2, (2, 4, 7, 6)), random.uniform(-2, 2, (6, 2, 3, 2))
CONVOLUTION = {
    "strides": (2, 1), "dilations": (1, 2), "low": (1, 0), "high": (2, 1), "spread": (1, 2), "groups": 2,
}  # fmt: skip
POOL = {"window": (2, 3), "strides": (1, 2), "dilations": (1, 2)}
ODD = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1.5, -1.5, 1.4999999999999998])


class Row:
    """One operation of the table on arrays."""

    def __init__(self, name: str, *arrays: np.ndarray, **attributes):
        self.name, self.arrays, self.attributes = name, arrays, attributes

    def __str__(self) -> str:
        shown = [f"{each.dtype}{each.shape}" for each in self.arrays]
        return f"{self.name}({', '.join([*shown, *(f'{k}={v}' for k, v in self.attributes.items())])})"


ROWS = [
    *(Row("scan", x, kind=kind, axis=0) for x in (LONG, TIES) for kind in ("sum", "max", "min")),
    *(Row("scan", TIES, kind=kind, axis=axis) for kind in ("sum", "prod") for axis in (1, 2)),
    Row("scan", HOLES, kind="max", axis=1), Row("scan", EMPTY, kind="sum", axis=1),
    Row("scan", EMPTY, kind="sum", axis=0),
    Row("scan", HOLES.astype(np.float16), kind="sum", axis=0), Row("scan", np.array([-0.0]), kind="sum", axis=0),
    *(Row(op, x, axis=0) for op in SORTS for x in (LONG, ODD, LONG[:1], LONG > 0, TIES, TIES.astype("u1"))),
    *(Row(op, TIES, axis=axis) for op in SORTS for axis in (1, 2)), Row("sort", EMPTY, axis=1),
    *(Row(op, HOLES.astype(dtype), axis=1) for op in SORTS for dtype in (np.float16, np.float32, np.float64)),
    *(Row("searchsorted", EDGES, x, right=right) for x in (LONG, HOLES, EDGES, ODD) for right in (False, True)),
    Row("searchsorted", np.sort(TIES[0, :, 0]), TIES, right=True), Row("searchsorted", EMPTY[0], LONG, right=False),
    Row("searchsorted", np.append(EDGES, np.nan), ODD, right=False),
    Row("searchsorted", EDGES, np.array(0.5), right=True),
    *(Row("bins", x, EDGES) for x in (LONG, HOLES, EDGES, ODD, np.nextafter(EDGES, 9), np.nextafter(EDGES, -9))),
    Row("bins", LONG.astype(np.float32), EDGES.astype(np.float32)),
    Row("add_at", np.zeros(5), TIES[:, :, 0].ravel().astype(np.int64), LONG[:99]),
    Row("add_at", np.arange(9, dtype=np.int32), np.arange(8) % 3, TIES[0, :8, 0]),
    Row("correlate", LONG, EDGES), Row("correlate", LONG.astype(np.float16), EDGES.astype(np.float16)),
    Row("correlate", TIES[0, :, 0], TIES[1, :4, 0]), Row("pad", TIES, low=(0, 2, 1), high=(1, 0, 0), value=-3),
    Row("pad", EMPTY, low=(1, 2), high=(0, 0), value=2.5),
    Row("convolution", IMAGES, KERNELS, **CONVOLUTION), Row("pool", HOLES, kind="max", **POOL),
    Row("convolution", IMAGES.astype(np.float16), KERNELS.astype(np.float16), **CONVOLUTION),
    Row("convolution", TIES, TIES[:, :, :1], **dict.fromkeys(CONVOLUTION, (1,)) | {"groups": 1}),
    Row("pool", IMAGES.astype(np.float16), kind="sum", **POOL), Row("pool", TIES, kind="min", **POOL),
    Row("convolution", IMAGES[:, :2, :, 0], KERNELS[:3, :, :, 0], **dict.fromkeys(CONVOLUTION, (2,)) | {"groups": 1}),
    Row("literal", values=(0.5, -0.0), shape=(2, 1), dtype="float16"),
    Row("literal", values=(-1, 5), shape=(2,), dtype="uint64"),
    Row("literal", values=(1, 0, 1), shape=(3,), dtype="bool"),
]  # fmt: skip


def tri_text(row: Row) -> str:
    """A module with one function that applies the row to its arguments."""
    with new_context(), ir.Location.unknown():
        types = [TensorType(each.shape, as_dtype(each.dtype)) for each in row.arrays]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("row", ([mlir_type(each) for each in types], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            tensors = [TriValue(argument, each) for argument, each in zip(block.arguments, types, strict=True)]
            result = TriBuilder().emit(row.name, *tensors, **row.attributes)
            func.ReturnOp([result.value])
        kind = ir.FunctionType.get([mlir_type(each) for each in types], [mlir_type(result.type)])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        return print_complete(module)


def rows_and_pipelines():
    """Each row through one of the pipelines in turn, and the others when slow tests run."""
    for at, row in enumerate(ROWS):
        for position, pipeline in enumerate(PIPELINES):
            is_other = position != at % len(PIPELINES)
            yield pytest.param(row, pipeline, id=f"{row}-{pipeline}", marks=[pytest.mark.slow] * is_other)


@pytest.mark.parametrize(("row", "pipeline"), rows_and_pipelines())
def test_every_row_computes_its_reference(tmp_path, row, pipeline):
    file = tmp_path / "row.mlir"
    file.write_text(tri_text(row))
    found = np.asarray(mt.resume(file, "tri", pipeline=pipeline)(*row.arrays))
    wanted = np.asarray(ops.TABLE[row.name].numpy(*row.arrays, **row.attributes))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, **within(wanted.dtype, 1000))
    assert np.array_equal(np.signbit(found), np.signbit(wanted)) or row.name != "scan"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (Row("scan", LONG, kind="mean", axis=0), "a scan is one of sum, prod, max, min, not 'mean'"),
        (Row("sort", LONG, axis=1), "axis 1 is not an axis of float64"),
        (Row("searchsorted", TIES, TIES, right=True), "has rank 1, not 3"),
        (Row("searchsorted", LONG, TIES, right=True), "real numbers of one dtype"),
        (Row("bins", LONG, EDGES[:1]), "bins need two edges or more"),
        (Row("add_at", LONG, LONG, LONG), "int64 positions"),
        (Row("correlate", EDGES, LONG), "takes the longer operand first"),
        (Row("convolution", LONG, LONG, **CONVOLUTION), "one rank from 3 on"),
        (Row("convolution", IMAGES, KERNELS, **CONVOLUTION | {"groups": 3}), "the channels do not fit"),
        (Row("convolution", IMAGES, KERNELS, **CONVOLUTION | {"low": (0,)}), "low are 2 numbers of 0 or more"),
        (Row("pool", LONG, kind="mean", **POOL), "a pool is one of max, min, sum, not 'mean'"),
        (Row("pool", LONG, kind="max", **POOL), "has 1 to 1 axes, not 2"),
        (Row("pad", LONG, low=(-1,), high=(0,), value=0), "widths of 0 or more"),
        (Row("literal", values=(1, 2), shape=(3,), dtype="int8"), "does not hold 2 numbers"),
    ],
    ids=str,
)
def test_what_a_row_refuses(row, sentence):
    with pytest.raises(KernelError, match=sentence):
        tri_text(row)
