"""Kernels whose annotations leave sizes to the call: one compile for all of them, in every pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from combinations import in_turn

import mlirtri as mt
from mlirtri.errors import KernelTypeError

M, N, K, P = mt.dyn["M"], mt.dyn["N"], mt.dyn["K"], mt.dyn["P", 4]
FOURS = mt.dyn["K", 4]
PIPELINES = ("linalg", "relax", "mlir", "interpreter")
SIZES = ((3, 4, 5), (1, 1, 1), (7, 13, 17), (0, 5, 0), (2, 3, 64), (33, 65, 1000))
Matrix, Row = mt.Tensor[[M, K], mt.float32], mt.Tensor[[K], mt.float32]
VECTOR = mt.Tensor[[N], mt.float32]


def wholes(a: Matrix, b: Row):
    exponents = np.exp(a - a.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True), np.maximum(a * b + b.sum(), 0), a.std(axis=1), a.argmax(1)


def products(a: Matrix, b: mt.Tensor[[K, N], mt.float32], c: VECTOR):
    return np.maximum(a @ b + c, 0), c @ b.T


def shapes(a: Matrix, c: mt.Tensor[[M, N], mt.float32]):
    m, k = a.shape
    halves = np.concatenate([a[:, k // 2 :], a[:, : k // 2]], axis=1)
    return a.T + 1, a.reshape(m * k), a.reshape(k, -1), np.concatenate([a, c], axis=1), halves, np.stack([a, -a])


def parts(a: VECTOR):
    n = a.shape[0]
    return a[: n // 2] + 1, a[n // 2 :], a[1::2], a[::-1], np.arange(n), np.pad(a, 2), np.cumsum(a), a[a > 0.5]


def loops(a: Matrix, b: Row):
    m, k = a.shape
    out, sums = np.zeros((m, k), np.float32), np.empty(m, np.float32)
    for i in range(m):
        total = 0.0
        for j in range(k):
            total += a[i, j]
        sums[i] = total
        out[i] = a[i] * b + k
    for _ in range(3):
        b = b * 0.5 + 1
    return out, sums, b


def updates(a: Matrix, b: Row):
    a *= 2
    a[1:] += b
    b[:] = 0


@pytest.mark.parametrize(
    ("function", "pipeline"), in_turn([wholes, products, shapes, parts, loops, updates], PIPELINES, of=2)
)
def test_one_compile_serves_all_sizes(function, pipeline):
    kernel = mt.jit(function, pipeline=pipeline)
    for sizes in SIZES:
        arguments = _arguments(function, dict(zip("MKN", sizes, strict=True)))
        copies = [argument.copy() for argument in arguments]
        expected = function(*arguments)
        results = kernel(*copies)
        for ours, numpys in zip([*copies, *(results or ())], [*arguments, *(expected or ())], strict=True):
            assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype), sizes
            np.testing.assert_allclose(ours, numpys, 2e-4, 1e-5, err_msg=str(sizes))
    assert kernel.compiles == 1


def _arguments(function: Any, sizes: dict[str, int]) -> list[np.ndarray]:
    annotations = [mt.jit(function).signature.annotations[name] for name in function.__annotations__]
    random = np.random.default_rng(0)
    return [random.random([sizes[str(size)] for size in kind.shape], np.float32) for kind in annotations]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_fifty_sizes_count_as_one_compile(pipeline):
    @mt.jit(pipeline=pipeline)
    def scaled(a: mt.Tensor[[mt.dyn, int], Any], b: mt.Tensor[[int], Any]):
        return a * b - a.shape[0]

    sizes = (0, 1, 2, 7919, *range(3, 49))
    for size in sizes:
        a = np.random.default_rng(size).random((size, 4))
        np.testing.assert_allclose(scaled(a, a[:1].sum(0)), a * a[:1].sum(0) - size)
    assert (len(sizes), scaled.compiles) == (50, 1)
    a = np.ones((3, 5))
    scaled(a, a[0])
    assert scaled.compiles == 2, "the other size is one of compile time"


def norms(a: Matrix, b: Row):
    return functional.layer_norm(a, (a.shape[-1],), b) + functional.rms_norm(a, a.shape[1:])


def norm_of_columns(a: Matrix):
    return functional.layer_norm(a, a.shape[:1])


def test_the_shape_of_a_norm_is_one_of_run_time_sizes():
    a, b = torch.rand(3, 130), torch.rand(130)
    expected = functional.layer_norm(a, (130,), b) + functional.rms_norm(a, (130,))
    torch.testing.assert_close(mt.jit(norms)(a, b), expected)
    with pytest.raises(KernelTypeError, match=r"normalized_shape \(M,\) is not the end of .* \(M, K\)"):
        mt.jit(norm_of_columns)(a)


@mt.jit
def joined(a: Matrix, b: Row, c: VECTOR):
    return a * b, c


def test_sizes_of_one_name_are_compared_at_each_call():
    a, c = np.ones((2, 3), np.float32), np.ones(4, np.float32)
    for _ in range(2):
        with pytest.raises(mt.KernelError, match="axis 0 of 'b' is 4 and axis 1 of 'a' is 3, which have to be equal"):
            joined(a, c, c)
        joined(a, a[0], c)
    with pytest.raises(mt.KernelError, match="axis 0 of 'b' is 4 and axis 1 of 'a' is 3"):
        joined.compile()(a, c, c)


def test_all_arguments_that_do_not_fit_are_reported_at_once():
    a = np.ones((2, 3), np.float32)
    with pytest.raises(
        mt.KernelError, match=r"(?s)'a': expected float32\[M, K\], got float64.*'b'.*'c': .*got float32\["
    ):
        joined(a.astype(np.float64), 1, a)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sizes_that_an_operation_needs_to_be_equal_are_compared_before_it_runs(pipeline):
    """Sizes of different names, and a run-time size of 1 beside another one, which is never broadcast in silence."""

    @mt.jit(pipeline=pipeline)
    def added(a: mt.Tensor[[M], mt.float32], b: VECTOR):
        return a + b, a + np.ones(3, np.float32)

    three = np.ones(3, np.float32)
    np.testing.assert_array_equal(added(three, three)[0], three + 1)
    for other in (np.ones(1, np.float32), np.ones(4, np.float32)):
        with pytest.raises(mt.KernelError, match=r"axis 0 of '[ab]' is [134]"):
            added(other, three)
        with pytest.raises(mt.KernelError, match=r"axis 0 of '[ab]' is [134]"):
            added(three, other)
        with pytest.raises(mt.KernelError, match=r"axis 0 of 'a' is [14]"):
            added(other, other)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sizes_follow_from_others(pipeline):
    @mt.jit(pipeline=pipeline)
    def pairs(a: mt.Tensor[[K * 2], mt.float32], b: mt.Tensor[[K + 1], mt.float32], c: mt.Tensor[[P]]):
        return a.reshape(-1, 2).sum(1) + b[1:], c.reshape(4, -1).sum(0), c[: c.shape[0] // 4]

    for size in (0, 1, 5):
        a, b, c = (np.random.default_rng(count).random(count, np.float32) for count in (2 * size, size + 1, 4 * size))
        expected = a.reshape(size, 2).sum(1) + b[1:], c.reshape(4, size).sum(0), c[:size]
        for ours, numpys in zip(pairs(a, b, c), expected, strict=True):
            np.testing.assert_allclose(ours, numpys, 1e-5)
    assert pairs.compiles == 1
    for wrong, message in (
        ((a[1:], b, c), "axis 0 of 'a' is 9.*a multiple of 2"),
        ((a, b[1:], c), r"axis 0 of 'b' is 5 and axis 0 of 'a' is 10.*size K \+ 1"),
        ((a, b, c[1:]), "axis 0 of 'c' is 19.*a multiple of 4"),
    ):
        with pytest.raises(mt.KernelError, match=message):
            pairs(*wrong)


def test_the_signature_shows_what_is_decided_when():
    @mt.jit
    def kernel(a: mt.Tensor[[int, K, 4], mt.float16], b: mt.Tensor[[K * 2, mt.dyn]], n: int = 1, s: mt.float32 = 2.0):
        return a

    assert str(kernel.signature).split("\n") == [
        "kernel(", "  a: float16[$, $dyn[K], 4]", "  b: $dtype[$dyn[2*K], $dyn[b.shape[1]]]", "  n: $ int = 1",
        "  s: $dyn float32 = 2.0", ")",
    ]  # fmt: skip
    assert "a: float16[$, $dyn[K], 4], b:" in repr(kernel.signature)


@pytest.mark.parametrize(
    ("annotate", "message"),
    [
        (lambda: mt.dyn["a b"], "a size has a name, which is a Python identifier"),
        (lambda: mt.dyn["K", 0], "a multiple of a positive int"),
        (lambda: mt.dyn * 2, "dyn without a name has no arithmetic"),
        (lambda: mt.Tensor[["K"], mt.float32], r'dyn\["K"\]'),
    ],
)
def test_a_wrong_size_of_an_annotation_is_refused(annotate, message):
    with pytest.raises(mt.KernelError, match=message):
        annotate()


def test_a_name_that_no_axis_gives_is_refused():
    @mt.jit
    def kernel(a: mt.Tensor[[M + K]]):
        return a

    with pytest.raises(mt.KernelError, match=r"axis 0 of 'a' has the size K \+ M, which does not say what K and M are"):
        kernel(np.ones(3))


def test_a_size_of_annotations_is_the_size_that_an_argument_has():
    @mt.jit
    def kernel(a: mt.Tensor[[M * 2 + 1], mt.float32], b: mt.Tensor[[FOURS], mt.float32]):
        return a.sum() * M + b.sum() * (K + 1)

    assert kernel(np.ones(7, np.float32), np.ones(8, np.float32)) == 7 * 3 + 8 * 9

    @mt.jit
    def other(a: mt.Tensor[[M], mt.float32]):
        return a * K

    with pytest.raises(mt.KernelError, match=r"(?s)'K' is a size of annotations.*M, K = a.shape"):
        other.compile()


def test_where_a_constant_is_needed_the_error_says_so():
    @mt.jit
    def unpacked(a: mt.Tensor[[M, 2], mt.float32]):
        x, y = a
        return x + y

    with pytest.raises(mt.KernelError, match="annotate that size with int"):
        unpacked.compile()

    @mt.jit
    def halves(a: mt.Tensor[[M, 2], mt.float32]):
        return np.array_split(a, 2)

    with pytest.raises(
        mt.KernelError, match=r"(?s)a size that is known at compile time, and M is known at run time only"
    ):
        halves.compile()


def test_a_dump_resumes_for_all_sizes(tmp_path, monkeypatch):
    """MLIR says all of it, and TVMScript with the manifest of its dump."""
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    a, c = np.random.default_rng(0).random((4, 6), np.float32), np.ones(3, np.float32)
    kernel = joined.compile(pipeline="relax")
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    [file] = tmp_path.glob("*/*_relax.py")
    text = kernel.ir["tri"]
    resumed = [mt.resume("joined.mlir", "tri", text=text, pipeline=name) for name in ("relax", "mlir")]
    resumed.append(mt.resume(file, "relax"))
    for again in resumed:
        np.testing.assert_array_equal(again(a, a[0], c)[0], a * a[0])
        with pytest.raises(mt.KernelError, match="size 'K'"):
            again(a, c, c)


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_a_slice_of_at_most_one_element_broadcasts(pipeline):
    @mt.jit(pipeline=pipeline)
    def kernel(a: mt.Tensor[[M, K], mt.float32]):
        return a - a[:, :1] * a[:1, :]

    for shape in ((3, 4), (1, 1), (1, 5), (6, 1)):
        a = np.random.default_rng(0).random(shape, np.float32)
        np.testing.assert_allclose(kernel(a), a - a[:, :1] * a[:1, :], rtol=1e-6)
    assert kernel.compiles == 1
    with pytest.raises(mt.KernelError, match="axis 1 of 'a' is 0, which does not fit"):
        kernel(np.ones((2, 0), np.float32))


def largest(a: Matrix):
    return a.max(axis=1)


def positions(a: Matrix):
    return np.argmin(a, axis=1)


def largest_part(a: Matrix):
    return a[a > 0].min()


def test_a_reduction_with_an_initial_value_has_one_for_no_elements():
    @mt.jit
    def extrema(a: Matrix):
        return a.max(axis=1, initial=2), np.bincount(a[:, :0].astype(np.int64).reshape(-1)).sum()

    maxima, count = extrema(np.ones((3, 0), np.float32))
    assert maxima.tolist() == [2, 2, 2]
    assert count == 0


@pytest.mark.parametrize("function", [largest, positions, largest_part])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_reduction_without_identity_over_no_elements_raises_as_numpy_does(function, pipeline):
    kernel = mt.jit(function, pipeline=pipeline)
    np.testing.assert_array_equal(kernel(np.ones((2, 3), np.float32)), function(np.ones((2, 3), np.float32)))
    for shape in ((3, 0), (0, 0)):
        with pytest.raises(ValueError, match="has no elements and no identity"):
            kernel(np.ones(shape, np.float32))
    if function is not largest_part:
        assert kernel(np.ones((0, 3), np.float32)).shape == (0,)


def replaced(a: VECTOR, b: Row):
    a[...] = b + 1


def replaced_by_part(a: VECTOR, b: Row):
    a[:] = b[1:]


@pytest.mark.parametrize("function", [replaced, replaced_by_part])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_replaces_an_argument_has_its_sizes(function, pipeline):
    kernel, b = mt.jit(function, pipeline=pipeline), np.arange(5, dtype=np.float32)
    expected = np.zeros(5 if function is replaced else 4, np.float32)
    a = expected.copy()
    function(expected, b)
    kernel(a, b)
    np.testing.assert_array_equal(a, expected)
    for count in (len(a) - 1, len(a) + 1):
        with pytest.raises(mt.KernelError, match=r"'b' is 5 .*'a' is|'a' is .*'b' is 5"):
            kernel(np.zeros(count, np.float32), b)
