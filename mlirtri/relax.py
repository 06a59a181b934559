"""TVM's library of operators by name, for kernels: ``mt.relax.nn.gelu(x)``, ``from mlirtri.relax import sigmoid``.

Every name is one of `relax.op`; whether there is such a function shows when a kernel calls it. See
`mlirtri.lowering.external.objects` for what may be passed.
"""

from __future__ import annotations

from mlirtri.lowering.external.objects import RelaxFunction


def __getattr__(name: str) -> RelaxFunction:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return RelaxFunction(name)
