"""Relax functions with several results, and flat lists of what kernels return."""

from __future__ import annotations

import numpy as np


def flat(results):
    if not isinstance(results, (tuple, list)):
        return [np.asarray(results)]
    return [leaf for part in results for leaf in flat(part)]


SEVERAL = """
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
        return (R.add(a, b), R.multiply(a, b))

    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        if c:
            y = R.exp(x)
            z = R.add(y, R.const(1.0, "float32"))
        else:
            z = R.negative(x)
        q = cls.helper(z, x)
        return (q, z)
"""
