"""A kernel for the tests of the command line."""

import mlirtri as mt


@mt.jit
def row_means(x: mt.Tensor[[4, 8], mt.float32]):
    return x.mean(1)
