"""One step of Jacobi's iteration in loops: parallel over rows, vectors along columns, and a reduction."""

import numpy as np

import mlirtri as mt

Grid = mt.Tensor[[256, 256], mt.float32]


@mt.jit
def jacobi(a: Grid, b: Grid):
    change = np.float32(0)
    for i in mt.prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = np.float32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
    for i in mt.prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            change = max(change, abs(b[i, j] - a[i, j]))
    return change
