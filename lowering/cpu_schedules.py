"""Schedule rules for the CPU, in the order in which they are tried.

Each rule takes a PrimFunc and our target. Gives a `Schedule`, or None where it does not apply.
"""

from __future__ import annotations

from mlirtri.lowering.target import Target
from mlirtri.lowering.tvm_names import PrimFunc, Schedule


def fallback(function: PrimFunc, _target: Target) -> Schedule:
    """The loops as they are; right for everything."""
    return Schedule(function)


CPU_RULES = (("Fallback", fallback),)
