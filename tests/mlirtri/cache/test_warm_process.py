"""What another process loads for a kernel that is in the disk cache, and that it shares entries with others."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time

import numpy as np
import pytest
from disk_caches import DiskCache

from mlirtri.cache.store import read

KERNELS = """
import sys

import numpy as np

import mlirtri as mt

SCALE = np.float32(2)


def helper(x):
    return np.exp(x) * SCALE


@mt.jit
def chained(a, b, s):
    return helper(a) @ b + s


@mt.jit
def several(a):
    return [a.sum(axis=0), (a.T, a > 0)]


@mt.jit(pipeline="mlir")
def by_mlir(a):
    return np.tanh(a) + 1


a = np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6)
b = np.linspace(0, 1, 42, dtype=np.float32).reshape(6, 7)
for _ in range(3):
    results = [chained(a, b, 0.5), *several(a)[:1], *several(a)[1], by_mlir(a)]
loaded = [name for name in ("torch", "torch_mlir", "tvm", "rich", "click") if name in sys.modules]
compiles = [function.compiles for function in (chained, several, by_mlir)]
if __name__ == "__main__":
    out = np.empty((5, 7), np.float32)
    assert chained(a, b, 0.5, out=out) is out, "the general way, which loads torch"
    np.testing.assert_array_equal(out, results[0])
    print(loaded, compiles, *[result.astype(np.float64).sum() for result in results])
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    return DiskCache(tmp_path / "cache", monkeypatch)


PROCESSES = """
import os
import sys
import time

import numpy as np

import mlirtri as mt


@mt.jit(pipeline=sys.argv[1])
def first(a):
    return np.exp(a) + a


@mt.jit(pipeline=sys.argv[1])
def second(a):
    return np.cumsum(a) - a


functions = (first, second) if int(sys.argv[2]) % 2 else (second, first)
x = np.linspace(0, 1, 12, dtype=np.float32)
for function in functions:
    result = function(x)
    np.testing.assert_allclose(result, function.__wrapped__(x), rtol=1e-5)
print(first.compiles + second.compiles)
"""


def _start(file, number, pipeline="mlir"):
    command = [sys.executable, file, pipeline, str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_four_processes_on_a_cold_cache_compile_each_kernel_once(cache, tmp_path):
    file = tmp_path / "shared_kernels.py"
    file.write_text(PROCESSES)
    outputs = [process.communicate() for process in [_start(file, number) for number in range(4)]]
    assert [error for _, error in outputs] == [""] * 4
    assert sum(int(output) for output, _ in outputs) == 2
    assert len(cache.entries()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["mlir", "linalg"])
def test_a_compilation_that_is_killed_leaves_a_usable_cache(cache, tmp_path, pipeline, random):
    file = tmp_path / "killed_kernels.py"
    file.write_text(PROCESSES)
    started = time.monotonic()
    _start(file, 0, pipeline).communicate()
    whole = time.monotonic() - started
    for _ in range(3):
        for folder in cache.entries():
            cache.store.remove(folder)
        process = _start(file, 0, pipeline)
        time.sleep(whole * random.uniform(0.4, 1))
        process.kill()
        process.communicate()
        for folder in cache.entries():
            read(folder)
        output, error = _start(file, 1, pipeline).communicate()
        assert error == ""
        assert int(output) in range(3)
        assert len(cache.entries()) == 2


def test_a_warm_process_loads_no_compiler_and_no_torch(cache, tmp_path):
    file = tmp_path / "warm_kernels.py"
    file.write_text(KERNELS)
    cold = runpy.run_path(str(file), run_name="cold")
    assert cold["compiles"] == [1, 1, 1]
    assert len(cache.entries()) == 3
    environment = {**os.environ, "MLIRTRI_ASSERT_CACHE_HIT": "1"}
    warm = subprocess.run([sys.executable, file], env=environment, capture_output=True, text=True, check=False)
    assert warm.stderr == ""
    loaded, _, rest = warm.stdout.partition("] ")
    compiles, _, sums = rest.partition("] ")
    assert (loaded, compiles) == ("[", "[0, 0, 0")
    np.testing.assert_array_equal([float(each) for each in sums.split()],
                                  [result.astype(np.float64).sum() for result in cold["results"]])  # fmt: skip
