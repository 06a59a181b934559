"""Each check of the emulated device, shown by a kernel with the mistake planted in its CUDA source.

The first element of a kernel's first argument says which of the planted mistakes it makes: 0 is none.
"""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import DeviceCheckError

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


def softmax(x):
    y = np.exp(x - np.max(x, axis=1, keepdims=True))
    return y / np.sum(y, axis=1, keepdims=True)


def chain(x):
    return np.tanh(x) + x


def product(a, b):
    return a @ b


def first_line(function):
    return function.__code__.co_firstlineno


SHAPES = {softmax: [(2, 512)], chain: [(37, 50)], product: [(64, 48), (48, 64)]}


@pytest.fixture(scope="module")
def kernels():
    dtypes = {product: mt.float16}
    return {
        function: mt.jit(function).compile(
            *[mt.Tensor(shape, dtypes.get(function, mt.float32)) for shape in shapes], target="cuda:emulated"
        )
        for function, shapes in SHAPES.items()
    }


def is_(number):
    return f"((float)FIRST[0] == {number})"


BARRIER = r"  __syncthreads\(\);\n"
STORE = r"(out_ptr\[.*?\]) = "
END = r"\}\s*$"
MISTAKES = {
    softmax: [
        (BARRIER, f"""if {is_(1)} {{}} else if ({is_(2)} && threadIdx.x < 32)
         __syncthreads(); else
         __syncthreads();"""),
        (r"generic_partial_ptr\[\(\(int\)threadIdx\.x\)\] = ", rf"if (!{is_(3)}) \g<0>"),
        (END, f"if ({is_(4)} && threadIdx.x < 64) __syncthreads(); }}"),
    ],
    chain: [
        (r"< 925\)", f"< ({is_(1)} ? 2000 : {is_(10)} ? 100 : 925))"),
        (STORE, rf"""if {is_(12)} \1 += 1; if {is_(13)} atomicAdd(&\1, 1.0f);
         if {is_(2)} out_ptr[-1] = 1; if {is_(3)} out_ptr[0] = 1; if {is_(4)} out_ptr[threadIdx.x] = 1;
         if {is_(5)} *(float2*)(out_ptr + 1) = make_float2(1, 2);
         float own[4]; if {is_(6)} for (int at = 0; at <= 4; ++at) own[at] = at; \1 = own[blockIdx.x];
         if ({is_(7)} && threadIdx.x % 2) own[0] = __shfl_down_sync(0xffffffff, own[0], 1);
         if {is_(8)} __trap(); if {is_(11)} {{ __shared__ float big[12289]; big[0] = 1; }}
         if {is_(9)} \1 = *(float*)(threadIdx.x * (uint64_t)4); \g<0>"""),
    ],
    product: [
        (r"mlirtri_wait_for_all_but_2\(\);", rf"if (!{is_(1)}) \g<0>"),
        (BARRIER, rf"if (!{is_(2)}) \g<0>"),
        (END, f"if {is_(3)} mlirtri_copy_16(tiles_ptr, a_ptr, 16); }}"),
        (r"mlirtri_copy_16\(\(&\(tiles_ptr\[", rf"\g<0>({is_(4)} ? 60000 : 0) + "),
    ],
}  # fmt: skip
CASES = {
    "a barrier that none reaches": (softmax, 1, "racecheck", "with no barrier between"),
    "two barriers": (softmax, 2, "synccheck", "waits at another one"),
    "a store that is missing": (softmax, 3, "initcheck", "which nothing has written in this block"),
    "a barrier that half of the threads reach": (
        softmax, 4, "synccheck", "64 of 128 threads of block (0, 0, 0) wait at a barrier that thread (64, 0, 0)"
    ),
    "past the end": (chain, 1, "memcheck", "writes 4 bytes of global memory 'out' at byte 7400 of 7400"),
    "before the start": (chain, 2, "memcheck", "writes 4 bytes of global memory 'out' at byte -4 of 7400"),
    "one element by all threads": (chain, 3, "racecheck", "writes global memory 'out' at byte 0"),
    "one element by all blocks": (chain, 4, "racecheck", "in another block of the same launch"),
    "a vector at an odd element": (chain, 5, "memcheck", "'out' at byte 4 of 7400, which is no multiple of 8"),
    "past a local array": (chain, 6, "memcheck", "a local or shared array at index 4"),
    "a shuffle without half of its lanes": (chain, 7, "synccheck", "lanes of its warp that do not take part"),
    "a trap": (chain, 8, "memcheck", "stops at a trap"),
    "more shared memory than may be declared": (chain, 11, "memcheck", "shared arrays take 49156 bytes, of 49152"),
    "a result that is read first": (chain, 12, "initcheck", "global memory 'out' at byte"),
    "an atomic update of a result": (chain, 13, "initcheck", "which nothing has written in this call"),
    "a null pointer": (chain, 9, "memcheck", "reads 4 bytes of memory of no buffer"),
    "a copy that is not awaited": (product, 1, "racecheck", "whose asynchronous copy"),
    "a tile without a barrier": (product, 2, "racecheck", "with no barrier between"),
    "a copy that is never awaited": (product, 3, "synccheck", "ends without waiting for its asynchronous copy"),
    "past shared memory": (product, 4, "memcheck", "'dynamic shared memory' at byte 120000 of 38912"),
}  # fmt: skip


@pytest.fixture(scope="module")
def broken(kernels):
    """The executables of the sources with all mistakes."""
    return {function: kernel.compilation.executable.with_source(source_of(function, kernel))
            for function, kernel in kernels.items()}  # fmt: skip


def source_of(function, kernel):
    # Mistakes are made in the kernel, not in the functions before it.
    head, start, body = kernel.ir["cuda"].rpartition('extern "C" __global__')
    for pattern, replacement in MISTAKES[function]:
        body, count = re.subn(pattern, replacement, body, count=1)
        assert count == 1, pattern
    return head + start + body.replace("FIRST", "a_ptr" if function is product else "x_ptr")


def launch(executable, function, number):
    dtype = torch.float16 if function is product else torch.float32
    given = [torch.full(shape, number, dtype=dtype) for shape in SHAPES[function]]
    out = torch.empty((64, 64) if function is product else SHAPES[function][0], dtype=dtype)
    executable.launch(given, [out])
    return given, out


@pytest.mark.parametrize("name", CASES)
def test_a_planted_mistake_is_found(broken, name):
    function, number, check, words = CASES[name]
    with pytest.raises(DeviceCheckError) as caught:
        launch(broken[function], function, number)
    error = caught.value
    assert error.check == check
    assert words in error.message, error.message
    assert error.span.file == __file__
    assert first_line(function) < error.span.line <= first_line(function) + 2
    assert any("of stage cuda" in note.message for note in error.notes)


def test_the_same_sources_run_without_the_mistakes(broken):
    for function, executable in broken.items():
        given, out = launch(executable, function, 0)
        expected = torch.from_numpy(np.asarray(function(*[tensor.numpy() for tensor in given])))
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


def test_an_error_names_both_accesses_and_shows_the_line(broken):
    with pytest.raises(DeviceCheckError) as caught:
        launch(broken[softmax], softmax, 1)
    text = str(caught.value)
    assert "test_device_checks.py" in text
    assert "return y / np.sum(y, axis=1, keepdims=True)" in text
    store, load = r"if \(!.*\) generic_partial_ptr\[\(\(int\)threadIdx\.x\)\] =", r"if \(\(generic_partial_ptr\["
    assert re.search(rf"note: CUDA source, line \d+ of stage cuda: {store}", text)
    assert re.search(rf"note: the other one, line \d+ of stage cuda: {load}", text)


def test_a_temporary_array_has_no_value_until_a_launch_writes_it():
    @mt.jit
    def reversed_twice(x):
        t = np.empty(x.shape[0])
        for i in mt.prange(x.shape[0]):
            t[i] = x[i] * 2
        y = np.empty(x.shape[0])
        for i in mt.prange(x.shape[0]):
            y[i] = t[x.shape[0] - 1 - i] + 1
        return y

    x = np.arange(600.0)
    kernel = reversed_twice.compile(x, target="cuda:emulated")
    for _ in range(2):
        np.testing.assert_array_equal(kernel(x), 2 * x[::-1] + 1)
    source, count = re.subn(r"temporary_ptr(\[.*\]) = ", r"if (threadIdx.x != 7) \g<0>", kernel.ir["cuda"])
    assert count == 2
    with pytest.raises(DeviceCheckError) as caught:
        kernel.compilation.executable.with_source(source).launch([torch.from_numpy(x)], [torch.empty(600).double()])
    assert caught.value.check == "initcheck"
    assert "reads global memory 'temporary' at byte" in caught.value.message
    assert "which nothing has written in this call" in caught.value.message


def test_what_is_not_written_is_nan(broken):
    _, out = launch(broken[chain], chain, 10)
    assert torch.isnan(out).any()


WARP_BODY = """
  int thread = threadIdx.x, at = blockIdx.x * 1024 + thread;
  __shared__ int counts[32];
  __shared__ float shown[1024];
  if (thread < 32) counts[thread] = 0;
  float own = at < 1850 ? x_ptr[at] : 0;
  shown[thread] = own;
  SYNC;
  float other = shown[thread ^ 1];
  __syncthreads();
  atomicAdd(&counts[thread % 32], thread / 32);
  __syncthreads();
  float up = __shfl_up_sync(~0u, own, 1), down = __shfl_down_sync(~0u, own, 2, 16);
  float first = __shfl_sync(~0u, own, 5), crossed = __shfl_xor_sync(~0u, own, 3);
  int thirds = __popc(__ballot_sync(~0u, thread % 3 == 0)) + __all_sync(~0u, thread >= 0) + __any_sync(~0u, 0);
  if (at < 1850) out_ptr[at] = other + 2 * up + 3 * down + 4 * first + 5 * crossed + 100 * thirds + counts[thread % 32];
}
"""


def warp_source(kernel, sync):
    head, start, _ = kernel.ir["cuda"].rpartition('extern "C" __global__')
    signature = kernel.ir["cuda"][len(head + start) :].partition("{")[0]
    return head + start + signature + "{" + WARP_BODY.replace("SYNC", sync)


def test_lanes_exchange_what_cuda_says(kernels):
    values = torch.randn(37, 50)
    out = torch.empty(37, 50)
    executable = kernels[chain].compilation.executable
    executable.with_source(warp_source(kernels[chain], "__syncwarp()")).launch([values], [out])
    lanes = np.zeros(2048, np.float32)
    lanes[:1850] = values.numpy().ravel()
    lanes = lanes.reshape(-1, 32)
    lane = np.arange(32)
    up = np.where(lane > 0, lanes[:, lane - 1], lanes)
    down = np.where(lane % 16 + 2 < 16, lanes[:, (lane + 2) % 32], lanes)
    thirds = (np.arange(1024) % 3 == 0).reshape(-1, 32).sum(1) + 1
    expected = lanes[:, lane ^ 1] + 2 * up + 3 * down + 4 * lanes[:, 5:6] + 5 * lanes[:, lane ^ 3]
    expected += 100 * np.tile(thirds, 2)[:, None] + sum(range(32))
    np.testing.assert_allclose(out.numpy().ravel(), expected.ravel()[:1850], rtol=1e-5)


def test_lanes_of_a_warp_race_unless_they_wait_for_each_other(kernels):
    executable = kernels[chain].compilation.executable
    with pytest.raises(DeviceCheckError, match=r"'shown'.*with no barrier between") as caught:
        executable.with_source(warp_source(kernels[chain], "")).launch([torch.ones(37, 50)], [torch.empty(37, 50)])
    assert caught.value.check == "racecheck"
