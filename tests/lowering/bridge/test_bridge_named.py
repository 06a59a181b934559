"""The named operations of linalg in imported programs: products, convolutions, poolings, elementwise ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from imported import PIPELINES, Case, check_cases, type_of
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

RNG = np.random.default_rng(4)


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Small whole numbers: all sums of their products are exact."""
    return RNG.integers(-4, 5, shape).astype(dtype)


def named(name: str, inputs: list[np.ndarray], start: np.ndarray, right: np.ndarray, attributes: str = "") -> Case:
    """``linalg.<name>`` of `inputs`, which accumulates onto `start`."""
    values = ", ".join(f"%in{at}" for at in range(len(inputs)))
    kinds = ", ".join(scalar_or_tensor(each) for each in inputs)
    scalars = "\n".join(
        f"  %in{at} = arith.constant {each} : i32" for at, each in enumerate(inputs) if not isinstance(each, np.ndarray)
    )
    arguments = {f"in{at}": each for at, each in enumerate(inputs) if isinstance(each, np.ndarray)}
    kind = type_of(start)
    body = f"{scalars}\n  %r = linalg.{name} {attributes} ins({values} : {kinds}) outs(%start : {kind}) -> {kind}"
    return Case({**arguments, "start": start}, body, {"r": right})


def scalar_or_tensor(value: np.ndarray | int) -> str:
    return type_of(value) if isinstance(value, np.ndarray) else "i32"


def product(name: str, labels: str, left: tuple, right: tuple, attributes: str = "", dtype: type = np.float32) -> Case:
    x, y = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype)
    wide = np.int32 if dtype == np.int8 else np.float32
    exact = np.einsum(labels, x.astype(wide), y.astype(wide))
    start = numbers(*exact.shape, dtype=wide)
    return named(name, [x, y], start, start + exact, attributes)


TRANSPOSED = "indexing_maps = [{}]".format(
    ", ".join(f"affine_map<(m, n, k) -> ({each})>" for each in ("k, m", "k, n", "m, n"))
)
PRODUCTS = [
    product("matmul", "mk,kn->mn", (3, 4), (4, 5)),
    product("matmul", "mk,kn->mn", (3, 4), (4, 5), dtype=np.float16),
    product("matmul", "mk,kn->mn", (3, 4), (4, 5), dtype=np.int8),
    product("matmul", "km,kn->mn", (4, 3), (4, 5), TRANSPOSED),
    product("contract", "km,kn->mn", (4, 3), (4, 5), TRANSPOSED),
    product("batch_matmul", "bmk,bkn->bmn", (2, 3, 4), (2, 4, 5)),
    product("batch_reduce_matmul", "bmk,bkn->mn", (2, 3, 4), (2, 4, 5)),
    product("matvec", "mk,k->m", (3, 4), (4,)),
    product("vecmat", "k,kn->n", (4,), (4, 5)),
    product("batch_matvec", "bmk,bk->bm", (2, 3, 4), (2, 4)),
    product("batch_vecmat", "bk,bkn->bn", (2, 4), (2, 4, 5)),
    product("dot", "k,k->", (4,), (4,)),
    product("mmt4d", "mkac,nkbc->mnab", (2, 3, 4, 2), (2, 3, 5, 2)),
    product("batch_mmt4d", "xmkac,xnkbc->xmnab", (2, 2, 3, 4, 2), (2, 2, 3, 5, 2)),
    product("mmt4d", "mkac,nkbc->mnab", (2, 3, 4, 2), (2, 3, 5, 2), dtype=np.int8),
    product("matmul", "mk,kn->mn", (3, 0), (0, 5)),
    product("matmul", "mk,kn->mn", (0, 4), (4, 5)),
]


def quantized(name: str, labels: str, left: tuple, right: tuple) -> Case:
    x, y = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in (left, right))
    exact = np.einsum(labels, x.astype(np.int32) - 3, y.astype(np.int32) + 7)
    start = numbers(*exact.shape, dtype=np.int32)
    return named(name, [x, y, 3, -7], start, (start + exact).astype(np.int32))


QUANTIZED = [
    quantized("quantized_matmul", "mk,kn->mn", (3, 4), (4, 5)),
    quantized("quantized_batch_matmul", "bmk,bkn->bmn", (2, 3, 4), (2, 4, 5)),
]
BYTES = [RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((3, 4), (4, 5))]
UNSIGNED = np.matmul(*(each.view(np.uint8).astype(np.int32) for each in BYTES))
QUANTIZED.append(
    named("matmul", BYTES, np.ones((3, 5), np.int32), UNSIGNED + 1, "{cast = #linalg.type_fn<cast_unsigned>}")
)
STRIDES, DILATIONS = (2, 1, 1), (1, 2, 1)


def windows(x: np.ndarray, axes: tuple, sizes: tuple) -> np.ndarray:
    """All windows of `x` over `axes` as last axes, with the strides and dilations of the tests."""
    steps, gaps = STRIDES[: len(axes)], DILATIONS[: len(axes)]
    spans = tuple((size - 1) * gap + 1 for size, gap in zip(sizes, gaps, strict=True))
    view = sliding_window_view(x, spans, axis=axes)
    for number, axis in enumerate(axes):
        view = view.take(range(0, view.shape[axis], steps[number]), axis)
        last = x.ndim + number
        view = view.take(range(0, view.shape[last], gaps[number]), last)
    return view


def spacing(count: int) -> str:
    strides, dilations = (", ".join(map(str, each[:count])) for each in (STRIDES, DILATIONS))
    kind = f"tensor<{count}xi64>"
    return f"{{strides = dense<[{strides}]> : {kind}, dilations = dense<[{dilations}]> : {kind}}}"


def convolution(name: str, image: tuple, kernel: tuple, axes: tuple, labels: str, zeros: bool = False) -> Case:
    """`labels` are einsum's for the windows, whose own axes i, j, k come last, and the kernel."""
    operands = labels.partition("->")[0].split(",")
    sizes = tuple(kernel[operands[1].index(letter)] for letter in "ijk"[: len(axes)])
    dtype, wide = (np.int8, np.int32) if zeros else (np.float32, np.float32)
    x, w = numbers(*image, dtype=dtype), numbers(*kernel, dtype=dtype)
    shifted = (x.astype(wide) - 2, w.astype(wide) - 1) if zeros else (x, w)
    exact = np.einsum(labels, windows(shifted[0], axes, sizes), shifted[1])
    start = numbers(*exact.shape, dtype=wide)
    return named(name, [x, w, *([2, 1] if zeros else [])], start, (start + exact).astype(wide), spacing(len(axes)))


CONVOLUTIONS = [
    convolution("conv_1d_nwc_wcf", (2, 9, 3), (3, 3, 4), (1,), "nwci,icf->nwf"),
    convolution("conv_1d_ncw_fcw", (2, 3, 9), (4, 3, 3), (2,), "ncwi,fci->nfw"),
    convolution("conv_2d_nhwc_hwcf", (2, 9, 8, 3), (3, 2, 3, 4), (1, 2), "nhwcij,ijcf->nhwf"),
    convolution("conv_2d_nhwc_fhwc", (2, 9, 8, 3), (4, 3, 2, 3), (1, 2), "nhwcij,fijc->nhwf"),
    convolution("conv_2d_nchw_fchw", (2, 3, 9, 8), (4, 3, 3, 2), (2, 3), "nchwij,fcij->nfhw"),
    convolution("conv_2d_ngchw_fgchw", (2, 2, 3, 9, 8), (4, 2, 3, 3, 2), (3, 4), "ngchwij,fgcij->ngfhw"),
    convolution("conv_2d_ngchw_gfchw", (2, 2, 3, 9, 8), (2, 4, 3, 3, 2), (3, 4), "ngchwij,gfcij->ngfhw"),
    convolution("conv_2d_nhwgc_gfhwc", (2, 9, 8, 2, 3), (2, 4, 3, 2, 3), (1, 2), "nhwgcij,gfijc->nhwgf"),
    convolution("conv_3d_ndhwc_dhwcf", (1, 5, 6, 5, 2), (2, 3, 2, 2, 3), (1, 2, 3), "ndhwcijk,ijkcf->ndhwf"),
    convolution("conv_3d_ncdhw_fcdhw", (1, 2, 5, 6, 5), (3, 2, 2, 3, 2), (2, 3, 4), "ncdhwijk,fcijk->nfdhw"),
    convolution("depthwise_conv_1d_nwc_wc", (2, 9, 3), (3, 3), (1,), "nwci,ic->nwc"),
    convolution("depthwise_conv_1d_ncw_cw", (2, 3, 9), (3, 3), (2,), "ncwi,ci->ncw"),
    convolution("depthwise_conv_1d_nwc_wcm", (2, 9, 3), (3, 3, 2), (1,), "nwci,icm->nwcm"),
    convolution("depthwise_conv_2d_nhwc_hwc", (2, 9, 8, 3), (3, 2, 3), (1, 2), "nhwcij,ijc->nhwc"),
    convolution("depthwise_conv_2d_nchw_chw", (2, 3, 9, 8), (3, 3, 2), (2, 3), "nchwij,cij->nchw"),
    convolution("depthwise_conv_2d_nhwc_hwcm", (2, 9, 8, 3), (3, 2, 3, 2), (1, 2), "nhwcij,ijcm->nhwcm"),
    convolution("depthwise_conv_3d_ndhwc_dhwc", (1, 5, 6, 5, 2), (2, 3, 2, 2), (1, 2, 3), "ndhwcijk,ijkc->ndhwc"),
    convolution("depthwise_conv_3d_ncdhw_cdhw", (1, 2, 5, 6, 5), (2, 2, 3, 2), (2, 3, 4), "ncdhwijk,cijk->ncdhw"),
    convolution("depthwise_conv_3d_ndhwc_dhwcm", (1, 5, 6, 5, 2), (2, 3, 2, 2, 2), (1, 2, 3), "ndhwcijk,ijkcm->ndhwcm"),
    convolution("conv_2d_nhwc_hwcf_q", (2, 9, 8, 3), (3, 2, 3, 4), (1, 2), "nhwcij,ijcf->nhwf", True),
    convolution("conv_2d_nhwc_fhwc_q", (2, 9, 8, 3), (4, 3, 2, 3), (1, 2), "nhwcij,fijc->nhwf", True),
    convolution("conv_2d_nchw_fchw_q", (2, 3, 9, 8), (4, 3, 3, 2), (2, 3), "nchwij,fcij->nfhw", True),
    convolution("conv_2d_ngchw_gfchw_q", (2, 2, 3, 9, 8), (2, 4, 3, 3, 2), (3, 4), "ngchwij,gfcij->ngfhw", True),
    convolution("conv_2d_nhwgc_gfhwc_q", (2, 9, 8, 2, 3), (2, 4, 3, 2, 3), (1, 2), "nhwgcij,gfijc->nhwgf", True),
    convolution("conv_3d_ndhwc_dhwcf_q", (1, 5, 6, 5, 2), (2, 3, 2, 2, 3), (1, 2, 3), "ndhwcijk,ijkcf->ndhwf", True),
    convolution("depthwise_conv_2d_nhwc_hwc_q", (2, 9, 8, 3), (3, 2, 3), (1, 2), "nhwcij,ijc->nhwc", True),
    convolution("depthwise_conv_2d_nhwc_hwcm_q", (2, 9, 8, 3), (3, 2, 3, 2), (1, 2), "nhwcij,ijcm->nhwcm", True),
]


def plain_convolution(name: str, image: tuple, kernel: tuple) -> Case:
    """Those that have no strides."""
    x, w = numbers(*image), numbers(*kernel)
    axes = tuple(range(len(image)))
    exact = np.tensordot(sliding_window_view(x, kernel), w, axes=(tuple(each + len(image) for each in axes), axes))
    start = numbers(*exact.shape)
    return named(name, [x, w], start, start + exact)


CONVOLUTIONS += [
    plain_convolution("conv_1d", (9,), (3,)),
    plain_convolution("conv_2d", (9, 8), (3, 2)),
    plain_convolution("conv_3d", (5, 6, 4), (2, 3, 2)),
]


def pooling(name: str, image: tuple, axes: tuple, dtype: type = np.float32) -> Case:
    x, sizes = (numbers(*image) % 256).astype(dtype), (2, 3, 2)[: len(axes)]
    combine, over = (np.max if "max" in name else np.min if "min" in name else np.sum), windows(x, axes, sizes)
    exact = combine(over, axis=tuple(range(-len(axes), 0))).astype(dtype)
    start = (numbers(*exact.shape) % 256).astype(dtype)
    join = np.maximum if "max" in name else np.minimum if "min" in name else np.add
    return named(name, [x, np.zeros(sizes, dtype)], start, join(start, exact), spacing(len(axes)))


POOLINGS = [
    pooling("pooling_nchw_max", (2, 3, 9, 8), (2, 3)), pooling("pooling_nchw_sum", (2, 3, 9, 8), (2, 3)),
    pooling("pooling_ncw_max", (2, 3, 9), (2,)), pooling("pooling_ncw_sum", (2, 3, 9), (2,)),
    pooling("pooling_nwc_max", (2, 9, 3), (1,)), pooling("pooling_nwc_min", (2, 9, 3), (1,)),
    pooling("pooling_nwc_sum", (2, 9, 3), (1,)), pooling("pooling_nhwc_max", (2, 9, 8, 3), (1, 2)),
    pooling("pooling_nhwc_min", (2, 9, 8, 3), (1, 2)), pooling("pooling_nhwc_sum", (2, 9, 8, 3), (1, 2)),
    pooling("pooling_nhwc_max_unsigned", (2, 9, 8, 3), (1, 2), np.uint8),
    pooling("pooling_nhwc_min_unsigned", (2, 9, 8, 3), (1, 2), np.uint8),
    pooling("pooling_nwc_max_unsigned", (2, 9, 3), (1,), np.uint16),
    pooling("pooling_nwc_min_unsigned", (2, 9, 3), (1,), np.uint16),
    pooling("pooling_ndhwc_max", (1, 5, 6, 5, 2), (1, 2, 3)), pooling("pooling_ndhwc_min", (1, 5, 6, 5, 2), (1, 2, 3)),
    pooling("pooling_ndhwc_sum", (1, 5, 6, 5, 2), (1, 2, 3)),
]  # fmt: skip


def elementwise(name: str, function, *inputs: np.ndarray, attributes: str = "") -> Case:
    with np.errstate(all="ignore"):
        right = np.asarray(function(*inputs)).astype(inputs[-1].dtype)
    return named(name, list(inputs), np.zeros_like(right), right, attributes)


A, B = (RNG.uniform(0.5, 4, (3, 4)).astype(np.float32) for _ in range(2))
MINUS = A - 2
INTEGERS = (np.array([7, -7, 5, -(2**31), 3], np.int32), np.array([2, 2, 0, -1, -3], np.int32))
ELEMENTWISE = [
    elementwise("abs", np.abs, MINUS), elementwise("add", np.add, A, B), elementwise("ceil", np.ceil, MINUS),
    elementwise("div", np.divide, A, B), elementwise("erf", special.erf, MINUS), elementwise("exp", np.exp, MINUS),
    elementwise("floor", np.floor, MINUS), elementwise("log", np.log, A), elementwise("max", np.maximum, A, B),
    elementwise("min", np.minimum, A, B), elementwise("mul", np.multiply, A, B), elementwise("negf", np.negative, A),
    elementwise("powf", np.power, A, B), elementwise("reciprocal", np.reciprocal, A),
    elementwise("round", np.round, MINUS), elementwise("rsqrt", lambda x: 1 / np.sqrt(x), A),
    elementwise("sqrt", np.sqrt, A), elementwise("square", np.square, A), elementwise("sub", np.subtract, A, B),
    elementwise("tanh", np.tanh, MINUS), elementwise("select", np.where, MINUS > 0, A, B),
    elementwise("copy", np.copy, A),
    elementwise("elementwise", np.exp, MINUS, attributes="kind=#linalg.elementwise_kind<exp>"),
    elementwise("elementwise", np.add, A, B, attributes="kind=#linalg.elementwise_kind<add>"),
    elementwise("elementwise", np.where, MINUS > 0, A, B, attributes="kind=#linalg.elementwise_kind<select>"),
    elementwise("div", lambda x, y: np.array([3, -3, 0, -(2**31), -1]), *INTEGERS),
    elementwise("div_unsigned", lambda x, y: np.array(
        [3, 2147483644, 0, 0, 0]), *INTEGERS),
    elementwise("max", np.maximum, *INTEGERS), elementwise("sub", np.subtract, *INTEGERS),
]  # fmt: skip

MOVING = [
    Case({"x": A}, """
  %e = tensor.empty() : tensor<4x3xf32>
  %r = linalg.transpose ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) permutation = [1, 0]""", {"r": A.T}),
    Case({"x": A}, """
  %e = tensor.empty() : tensor<3x2x4xf32>
  %r = linalg.broadcast ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x2x4xf32>) dimensions = [1]""",
         {"r": np.broadcast_to(A[:, None], (3, 2, 4))}),
    Case({"x": A, "y": B}, """
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.map { arith.mulf } ins(%x, %y : tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>)""",
         {"r": A * B}),
    Case({"x": A, "s": B[0]}, """
  %r = linalg.reduce { arith.maximumf } ins(%x : tensor<3x4xf32>) outs(%s : tensor<4xf32>) dimensions = [0]""",
         {"r": np.maximum(A.max(0), B[0])}),
    Case({"x": np.float32(2.5)}, """
  %e = tensor.empty() : tensor<2x3xf32>
  %v = tensor.extract %x[] : tensor<f32>
  %r = linalg.fill ins(%v : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>""",
         {"r": np.full((2, 3), 2.5, np.float32)}),
]  # fmt: skip


GROUPS = {
    "products": ([*PRODUCTS, *QUANTIZED], {}),
    "convolutions": (CONVOLUTIONS, {}),
    "poolings": (POOLINGS, {}),
    "elementwise": ([*ELEMENTWISE, *MOVING], {"rtol": 4e-6, "atol": 1e-6}),
}
QUICK = {("products", "linalg"), ("convolutions", "mlir"), ("poolings", "linalg"), ("elementwise", "mlir")}


@pytest.mark.parametrize(
    ("group", "pipeline"),
    [
        pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow)
        for each in itertools.product(GROUPS, PIPELINES)
    ],
)
def test_named_operations(group, pipeline):
    cases, near = GROUPS[group]
    check_cases(cases, pipeline, **near)
