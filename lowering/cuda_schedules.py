"""Schedule rules for CUDA: TVM's Dlight rules one at a time, and a last rule that binds whatever is left.

Each rule takes a PrimFunc and our target, with TVM's target in scope. Gives a `Schedule`, or None where it does not
apply. A schedule that leaves a block without threads, or asks for more than a launch may have, is not given.
"""

from __future__ import annotations

from mlirtri.lowering.target import Target
from mlirtri.lowering.tvm_names import PrimFunc, Schedule, dlight, tvm


def _guarded(rule):
    """A Dlight rule in our form."""

    def apply(function: PrimFunc, _target: Target) -> Schedule | None:
        return rule.apply(function, tvm.target.Target.current(), False)

    return apply


CUDA_RULES = (
    ("Matmul", _guarded(dlight.gpu.Matmul())),
    ("GEMV", _guarded(dlight.gpu.GEMV())),
    ("Reduction", _guarded(dlight.gpu.Reduction())),
    ("GeneralReduction", _guarded(dlight.gpu.GeneralReduction())),
    ("Transpose", _guarded(dlight.gpu.Transpose())),
    ("Fallback", _guarded(dlight.gpu.Fallback())),
)
