"""The element kernels of examples/elements in two pipelines, against NumPy; what `mt.static` refuses."""

from __future__ import annotations

import numpy as np
import pytest
from elements import EXAMPLES

import mlirtri as mt


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_computes_what_numpy_does(name, pipeline):
    EXAMPLES[name].check(pipeline)


def test_static_refuses_values_of_run_time():
    @mt.jit
    def chosen(a, n: mt.int64):
        return a if mt.static(n > 1) else -a

    with pytest.raises(mt.KernelError, match="static needs a value known at compile time"):
        chosen(np.ones(3), 2)

    @mt.jit
    def unrolled(a, n: mt.int64):
        for i in mt.static(range(n)):
            a[i] = i

    with pytest.raises(mt.KernelError, match="static needs a number of iterations that is known at compile time"):
        unrolled(np.ones(3), 2)
    assert mt.static(3) == 3
