"""Relax's library in kernels: any function of `relax.op` by name, what it may be given, and what it refuses."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tolerances import within
from tvm import relax as relax_of_tvm  # noqa: TID251 - as a user writes it
from tvm.relax.op import exp as exp_of_tvm  # noqa: TID251

import mlirtri as mt
from mlirtri import relax as R
from mlirtri.errors import KernelTypeError, UnknownNameError, UnsupportedOperationError
from mlirtri.relax import sigmoid

PIPELINES = ("linalg", "relax", "interpreter")
MATRIX = mt.Tensor((3, 4), mt.float32)
gelu, silu = mt.relax.nn.gelu, R.nn.silu


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@mt.jit
def named_in_other_ways(x):
    return sigmoid(x), silu(x), relax_of_tvm.op.nn.silu(x), exp_of_tvm(x)


def test_functions_are_imported_by_name_also_from_tvm_itself():
    x = array(3, 4)
    first, second, third, fourth = named_in_other_ways(x)
    np.testing.assert_allclose(first, 1 / (1 + np.exp(-x)), rtol=1e-5)
    np.testing.assert_allclose(second, x / (1 + np.exp(-x)), rtol=1e-5)
    np.testing.assert_array_equal(second, third)
    np.testing.assert_allclose(fourth, np.exp(x), rtol=1e-5)


@mt.jit
def gated(x, w):
    hidden = gelu(x @ w) + 1
    left, right = R.split(hidden, 2, axis=1)
    return mt.relax.sigmoid(left) * right


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_calls_may_be_between_operations_of_the_language(pipeline):
    x, w = torch.from_numpy(array(3, 6)), torch.from_numpy(array(6, 8))
    left, right = (F.gelu(x @ w) + 1).split(4, 1)
    found = gated.compile(x, w, pipeline=pipeline)(x, w)
    torch.testing.assert_close(found, left.sigmoid() * right, **within("float32", 6))


def test_arrays_of_numpy_come_back_as_such():
    assert isinstance(gated(array(3, 6), array(6, 8)), np.ndarray)


@mt.jit
def attributed(x, axis: int):
    total = R.sum(x, axis=[axis], keepdims=True)
    joined = R.concat([x, total], axis=axis)
    return (
        R.nn.softmax(joined, axis=axis),
        R.strided_slice(joined, axes=(0,), begin=[0], end=[2]),
        R.astype(x, np.float64),
    )


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("axis", [0, 1])
def test_compile_time_values_are_attributes(pipeline, axis):
    x = array(3, 4)
    softmax, part, wide = attributed.compile(x, axis, pipeline=pipeline)(x)
    joined = torch.from_numpy(np.concatenate([x, x.sum(axis, keepdims=True)], axis))
    torch.testing.assert_close(torch.from_numpy(softmax), joined.softmax(axis), **within("float32", 5))
    torch.testing.assert_close(torch.from_numpy(part), joined[:2], **within("float32", 4))
    assert wide.dtype == np.float64


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_numbers_become_tensors_where_relax_takes_nothing_else(pipeline):
    def numbers(x):
        return R.maximum(x, 0.5), R.clip(x, -0.5, 0.5), R.full((2,), 1.5), R.clip(x, 0.0, float("inf"))

    x = array(3, 4)
    found = mt.jit(numbers).compile(x, pipeline=pipeline)(x)
    wanted = np.maximum(x, 0.5), np.clip(x, -0.5, 0.5), np.full(2, 1.5), np.maximum(x, 0)
    for got, each in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, each)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_unsigned_integers_keep_their_sign_in_the_call(pipeline):
    def larger(x):
        return R.maximum(x, R.flip(x, axis=1)) // 2

    x = np.arange(8, dtype=np.uint8).reshape(2, 4) * 31
    np.testing.assert_array_equal(mt.jit(larger).compile(x, pipeline=pipeline)(x), np.maximum(x, x[:, ::-1]) // 2)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sorts_and_running_sums(pipeline):
    def sorts(x):
        values, places = R.topk(x + 1, k=2)
        return R.sort(x), R.argsort(x, axis=0), values, places, R.cumsum(x, axis=1) * 2

    x = array(3, 4)
    found = mt.jit(sorts).compile(x, pipeline=pipeline)(x)
    np.testing.assert_array_equal(found[0], np.sort(x))
    np.testing.assert_array_equal(found[1], np.argsort(x, 0))
    np.testing.assert_array_equal(found[2], np.sort(x + 1)[:, ::-1][:, :2])
    np.testing.assert_array_equal(found[3], np.argsort(-(x + 1))[:, :2])
    np.testing.assert_allclose(found[4], np.cumsum(x, 1) * 2, rtol=1e-6)


def test_relax_shows_the_operators_under_the_users_names():
    for pipeline in ("linalg", "relax"):
        text = gated.compile(mt.Tensor((3, 6), mt.float32), mt.Tensor((6, 8), mt.float32), pipeline=pipeline).ir[
            "relax"
        ]
        assert re.search(r"gelu\w*: .* = R\.nn\.gelu\(", text)
        assert re.search(r"left: .* = R\.split\(hidden, indices_or_sections=2, axis=1\)", text)


def test_what_a_call_is_made_of_fuses_with_its_neighbours():
    def chain(x):
        return R.sigmoid(x + 1) * 2

    for pipeline in ("linalg", "relax"):
        assert mt.jit(chain).compile(MATRIX, pipeline=pipeline).stats["kernels"] == 1


def test_stages_are_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    x, w = array(3, 6), array(6, 8)
    kernel = mt.jit(gated.__mlirtri_function__).compile(x, w)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    for stage in ("tri", "linalg", "fused", "relax"):
        [file] = tmp_path.glob(f"*/??_{stage}.*")
        np.testing.assert_array_equal(mt.resume(file, stage)(x, w), kernel(x, w))


def test_calls_that_nobody_reads_leave_nothing():
    def dead(x):
        R.sigmoid(x)
        return x + 1

    assert "relax" not in mt.jit(dead).compile(MATRIX).ir["tri"]


def test_calls_are_of_the_cuda_target_as_well():
    def chain(x):
        return R.nn.gelu(x) + 1

    assert "erff" in mt.jit(chain).compile(MATRIX, target="cuda").ir["cuda"]


def refused(function, error, message, *arguments, **options):
    with pytest.raises(error, match=message) as caught:
        mt.jit(function).compile(*(arguments or (MATRIX,)), **options)
    text = str(caught.value)
    assert f"{__file__}:" in text
    assert "^" in text
    assert ".cc" not in text
    assert "ir.Op(" not in text
    return caught.value


def test_an_unknown_name_is_refused_with_similar_ones():
    error = refused(lambda x: R.nn.geluu(x), UnknownNameError, "relax.nn.geluu is not a function of Relax's library")
    assert "'nn.gelu'" in error.help
    error = refused(lambda x: mt.relax.relu(x), UnknownNameError, "relax.relu is not a function")
    assert "'nn.relu'" in error.help
    refused(lambda x: R.nn(x), UnknownNameError, "relax.nn is a group of functions")


def test_a_wrong_call_shows_the_signature():
    error = refused(lambda x: R.nn.gelu(x, x), KernelTypeError, r"relax.nn.gelu\(\) too many positional arguments")
    assert error.help == "its signature is relax.nn.gelu(data)"
    refused(lambda x: R.nn.softmax(x, axes=0), KernelTypeError, "unexpected keyword argument 'axes'")


def test_wrong_operands_show_relaxs_own_message():
    refused(lambda x: R.matmul(x, x), KernelTypeError, "relax.matmul: Matmul requires the reduction length")
    refused(lambda x: R.nn.softmax(x, axis=7), KernelTypeError, "axis 7 is out of range")
    refused(lambda x: R.nn.softmax(x, axis=x), KernelTypeError, "Expected `int`")
    refused(lambda x: R.add(x, R), KernelTypeError, "is no attribute of a Relax function")
    refused(lambda x: R.sigmoid(x), KernelTypeError, "real tensors of known sizes", mt.Tensor((3,), mt.complex64))


def test_results_that_are_no_tensors_are_refused():
    refused(lambda x: R.shape_of(x), KernelTypeError, "relax.shape_of gives R.Shape")
    refused(lambda x: R.unique(x), KernelTypeError, "tensors of known shapes")
    refused(lambda x: R.to_vdevice(x, "llvm"), KernelTypeError, "is not for kernels")


def test_code_without_tvm_has_no_such_calls():
    error = refused(lambda x: R.sigmoid(x), UnsupportedOperationError, "a call of Relax's library", pipeline="mlir")
    assert 'pipeline="linalg"' in error.help


def normalized(x, steps: mt.int32):
    for step in range(steps):
        x = R.nn.softmax(x, axis=-1) * 3
        if step % 2 == 0:
            x = x + R.sum(x)
    return x


def gelu_of_rows(x, out):
    for i in mt.prange(x.shape[0]):
        out[i] = R.nn.gelu(x[i])
        out[i, 0] = R.sigmoid(x[i, 0])


@pytest.mark.parametrize("way", [{"pipeline": "linalg"}, {"pipeline": "relax"}, {"target": "cuda:emulated"}], ids=str)
def test_loops_compile_what_they_call(way):
    if "target" in way and shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    x = array(9, 8)
    expected = torch.from_numpy(x)
    for step in range(5):
        expected = torch.softmax(expected, -1) * 3
        expected = expected + expected.sum() if step % 2 == 0 else expected
    np.testing.assert_allclose(mt.jit(normalized, **way)(x, 5), expected, rtol=1e-5)
    out = np.zeros_like(x)
    mt.jit(gelu_of_rows, **way)(x, out)
    expected = torch.nn.functional.gelu(torch.from_numpy(x))
    expected[:, 0] = torch.sigmoid(torch.from_numpy(x[:, 0]))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


def test_tasks_of_loops_with_such_calls():
    [task] = mt.jit(gelu_of_rows).compile(array(9, 8), array(9, 8)).tasks
    assert (task.kind, task.writes) == ("range_for", ("out",))


def test_outside_of_kernels_they_are_not_for_calling():
    with pytest.raises(mt.KernelError, match=r"mlirtri\.relax\.sigmoid is a function of kernels"):
        R.sigmoid(array(3, 4))
