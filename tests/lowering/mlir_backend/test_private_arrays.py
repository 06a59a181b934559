"""Arrays of one iteration are allocated in the parallel loop, so that it runs on threads."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt


def sorted_windows(a, out):
    for i in mt.prange(a.shape[0] - 4):
        window = np.zeros(5)
        for k in range(5):
            window[k] = a[i + k]
        for k in range(1, 5):
            for other in range(k):
                if window[other] > window[k]:
                    window[other], window[k] = window[k], window[other]
        out[i] = window[2]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_local_arrays(pipeline, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    a = np.random.default_rng(0).random(40_000)
    out = np.zeros(a.size - 4)
    kernel = mt.jit(sorted_windows, pipeline=pipeline).compile(a, out)
    kernel(a, out)
    windows = np.lib.stride_tricks.sliding_window_view(a, 5)
    np.testing.assert_array_equal(out, np.median(windows, axis=1))
    assert [task.kind for task in kernel.tasks] == ["range_for"]
    text = kernel.ir["scheduled" if pipeline == "linalg" else "llvmdialect"]
    assert ("T.parallel" if pipeline == "linalg" else "omp.parallel") in text
