"""Tensors in, tensors out: torch and NumPy, strided and empty, every dtype, several threads, `out=`."""

from __future__ import annotations

import pickle
import sys
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch
from tolerances import within

import mlirtri as mt
from mlirtri import errors
from mlirtri.calls.argument_conversion import NonContiguousWarning
from mlirtri.dialect.base.dtypes import DTYPES

PIPELINES = ("linalg", "relax", "mlir")
every_pipeline = pytest.mark.parametrize("pipeline", PIPELINES)


def double(x):
    return x + x


def add(x, y):
    return x + y


def several(x):
    return x + 1, (x, [x * 2, None]), 3


def nothing(x):
    pass


@every_pipeline
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_every_dtype_in_and_out(dtype, pipeline):
    kernel = mt.jit(double, pipeline=pipeline)
    numpy_dtype = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    array = np.array([0, 1, 2, 100], numpy_dtype)
    result = kernel(array)
    assert isinstance(result, np.ndarray)
    assert result.dtype == numpy_dtype
    assert np.array_equal(result, array + array)
    tensor = torch.tensor([0, 1, 2, 100]).to(getattr(torch, dtype))
    assert torch.equal(kernel(tensor), torch.tensor([0, 2, 4, 200]).to(torch.int64).to(getattr(torch, dtype)))


@every_pipeline
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1, 1)])
def test_scalars_and_empty_tensors(shape, pipeline):
    kernel = mt.jit(double, pipeline=pipeline)
    tensor = torch.ones(shape)
    assert torch.equal(kernel(tensor), tensor + tensor)
    total = mt.jit(lambda x: x.sum(), pipeline=pipeline)
    assert torch.equal(total(tensor), tensor.sum())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lambdas of one line are refused, as code has no columns")
def test_a_copy_is_said_once_per_kernel_and_argument_of_one_line_too():
    x = np.ones((4, 4), np.float32).T
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for kernel in (mt.jit(lambda a: a + 3), mt.jit(lambda a: a * 3)):
            for _ in range(2):
                kernel(x)
    assert [str(each.message) for each in caught] == ["lambda_(): 'a' is not contiguous and is copied at each call"] * 2


@every_pipeline
def test_strided_arguments_are_copied_and_that_is_said_once(pipeline):
    kernel = mt.jit(add, pipeline=pipeline)
    base = torch.arange(24.0).reshape(4, 6)
    left, right = base.t()[::2], base[:, :3].t()
    with pytest.warns(NonContiguousWarning, match="'x' is not contiguous") as caught:
        assert torch.equal(kernel(left, right), left + right)
    assert {warning.filename for warning in caught} == {__file__}
    advice = "annotate x: mt.StridedTensor[[int, int], [mt.dyn, mt.dyn], mt.float32] to read it where it lies"
    assert advice in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(kernel(left, right), left + right)
    reverse = np.arange(6.0)[::-1]
    with pytest.warns(NonContiguousWarning, match="at each call$"):  # strides below 0 are copied in any case
        kernel(reverse, reverse)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(kernel(reverse, reverse[::-1]), reverse + reverse[::-1])
        expanded = torch.ones(1).expand(5)
        assert torch.equal(kernel(expanded, expanded), expanded * 2)
        negative = torch._neg_view(torch.ones(3))
        assert torch.equal(kernel(negative, negative), torch.full((3,), -2.0))


def test_read_only_arrays_are_read():
    array = np.arange(4.0)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(mt.jit(double)(array), array * 2)


def test_unpickled_arrays_are_read():
    array = pickle.loads(pickle.dumps(np.arange(4.0) * 1j))
    assert np.array_equal(mt.jit(double)(array), array * 2)


def test_arguments_are_not_written():
    x, y = torch.ones(3), torch.ones(3)
    mt.jit(add)(x, y)
    assert torch.equal(x, torch.ones(3))
    assert torch.equal(y, torch.ones(3))


@every_pipeline
def test_results_keep_python_structure(pipeline):
    x = torch.tensor([1.0, 2.0])
    first, (same, [twice, none]), number = mt.jit(several, pipeline=pipeline)(x)
    assert torch.equal(first, x + 1)
    assert torch.equal(same, x)
    assert same.data_ptr() != x.data_ptr()
    assert torch.equal(twice, x * 2)
    assert none is None
    assert (type(number), number) == (int, 3)
    assert mt.jit(nothing, pipeline=pipeline)(x) is None


def constant():
    out = 1 + 1
    return out


@every_pipeline
def test_a_kernel_of_constants(pipeline):
    result = mt.jit(constant, pipeline=pipeline)()
    assert (type(result), result) == (int, 2)


@every_pipeline
def test_python_numbers_are_returned_as_python_numbers(pipeline):
    def numbers(x, factor):
        count = 0
        for i in range(x.shape[0]):
            count += 1 if x[i] > 1 else 0
        return x.shape[0] / 3, 0.1, -0.0, count, factor * 3, count > 1, 1j, x.sum() / 3

    for x in (torch.arange(4, dtype=torch.int32), np.arange(4, dtype=np.float32)):
        results = mt.jit(numbers, pipeline=pipeline)(x, 0.7)
        expected = numbers(x, 0.7)
        assert repr(results[:-1]) == repr(expected[:-1])
        assert type(results[-1]) is type(expected[-1])


@every_pipeline
def test_out_takes_the_result(pipeline):
    kernel = mt.jit(add, pipeline=pipeline)
    x, out = torch.arange(6.0).reshape(2, 3), torch.full((2, 3), float("nan"))
    assert kernel(x, x, out=out) is out
    assert torch.equal(out, x + x)
    array = np.full((2, 3), np.nan, np.float32)
    kernel(x.numpy(), x.numpy(), out=array)
    assert np.array_equal(array, (x + x).numpy())


@every_pipeline
def test_out_may_be_strided_or_an_argument(pipeline):
    matmul = mt.jit(lambda x, y: x @ y, pipeline=pipeline)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    wanted = x @ y
    memory = torch.zeros(4, 8)
    matmul(x, y, out=memory[:, ::2])
    torch.testing.assert_close(memory[:, ::2], wanted)
    assert torch.equal(memory[:, 1::2], torch.zeros(4, 4))
    matmul(x, y, out=x)
    torch.testing.assert_close(x, wanted)


def test_out_that_does_not_fit():
    kernel = mt.jit(add)
    x = torch.ones(3)
    nowhere = torch.ones(3, device="meta")
    for out in (torch.ones(4), torch.ones(3, dtype=torch.float64), np.ones(3, np.float32), 3, (x, x), nowhere):
        with pytest.raises(errors.ArgumentMismatchError, match="out"):
            kernel(x, x, out=out)


def test_gradients_are_refused():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(errors.KernelTypeError, match="'x' requires a gradient") as caught:
        mt.jit(double)(x)
    assert "detach" in caught.value.help
    with torch.no_grad():
        assert torch.equal(mt.jit(double)(x), torch.full((3,), 2.0))


def test_tensors_that_are_no_plain_memory_are_refused():
    kernel = mt.jit(double)
    with pytest.raises(errors.KernelError):
        kernel(torch.ones(3).to_sparse())
    with pytest.raises(errors.KernelError):
        kernel(torch.ones(3, device="meta"))


def test_mixed_torch_and_numpy_has_torchs_semantics():
    result = mt.jit(add)(torch.tensor([1, 2], dtype=torch.int32), np.array([0.5, 1.5], np.float32))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == torch.float32


@every_pipeline
def test_run_time_scalars(pipeline):
    kernel = mt.jit(lambda x, s: x * s, pipeline=pipeline)
    x = torch.ones(3)
    for step in range(50):
        assert torch.equal(kernel(x, step / 7), x * (step / 7))
    assert kernel.compiles == 1
    kernel(x, 2)
    assert kernel.compiles == 2


def annotated(x, n: mt.int32, scale: float):
    return x * n * scale


def test_annotations_force_run_time_and_compile_time():
    kernel = mt.jit(annotated)
    x = torch.ones(3)
    for n in range(5):
        assert torch.equal(kernel(x, n, 2.0), x * n * 2.0)
    assert kernel.compiles == 1
    assert torch.equal(kernel(x, 1, 3.0), x * 3.0)
    assert kernel.compiles == 2
    with pytest.raises(errors.ArgumentMismatchError):
        kernel(x, 2**40, 2.0)
    with pytest.raises(errors.ArgumentMismatchError):
        kernel(x, 1.5, 2.0)


@every_pipeline
def test_threads_share_a_kernel(pipeline):
    kernel = mt.jit(lambda x: torch.softmax(x @ x, -1), pipeline=pipeline)
    inputs = [torch.randn(16, 16) for _ in range(4)]
    wanted = [torch.softmax(x @ x, -1) for x in inputs]
    failures = []

    def work(position):
        for _ in range(50):
            try:
                torch.testing.assert_close(kernel(inputs[position]), wanted[position], **within("float32", 16))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(position,)) for position in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert kernel.compiles == 1


def test_a_compiled_kernel_is_called_with_its_tensors():
    kernel = mt.jit(lambda x, n, y: x * n + y).compile(mt.Tensor((3,), mt.float32), 2, mt.Tensor[[3], mt.float32])
    x, y = torch.ones(3), torch.arange(3.0)
    assert torch.equal(kernel(x, y), x * 2 + y)
    assert torch.equal(kernel(x, y=y), x * 2 + y)
    with pytest.raises(errors.ArgumentMismatchError, match="missing y"):
        kernel(x)
    with pytest.raises(errors.ArgumentMismatchError, match="'y' was compiled for float32"):
        kernel(x, torch.ones(4))


def full_annotations(x: mt.Tensor((2, 3), mt.float32), y: mt.Tensor(shape=(3,), dtype="float32")):
    return x + y


def test_full_annotations_need_no_arguments_to_compile():
    kernel = mt.jit(full_annotations).compile()
    assert [str(p.type) for p in kernel.interface.parameters] == ["float32[2, 3]", "float32[3]"]


def test_a_cuda_kernel_says_what_is_missing():
    if torch.cuda.is_available():
        pytest.skip("a CUDA device is at hand")
    kernel = mt.jit(double, target="cuda")
    with pytest.raises(errors.DeviceError, match="was compiled for cuda"):
        kernel(torch.ones(3))
    assert "__global__" in kernel.compile(torch.ones(3)).ir["cuda"]
