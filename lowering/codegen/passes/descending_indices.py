"""Write quotients and rests of descending numerators by ascending ones, before TVM flattens the indices of buffers.

Under a condition TVM's iterator maps take ``(7 - i) // 2 * 2 + (7 - i) % 2 - 4`` for ``2 - i``, one too few. The same
by ``i // 2`` and ``i % 2`` is simplified rightly:

    (c - x) // k   ──►   m - (x + k m - c + k - 1) // k
    (c - x) % k    ──►   k - 1 - (x + k m - c - 1) % k

for any integer m; here one that keeps the constant from being negative.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.statements import rewritten
from mlirtri.lowering.toolchain.tvm_names import IRModule, tirx


def ascend(mod: IRModule) -> IRModule:
    """Rewrite all functions of the module."""
    return rewritten(mod, [(tirx.FloorDiv, _quotient), (tirx.FloorMod, _rest)])


def _quotient(node: tirx.FloorDiv) -> Any:
    if not _descends(node):
        return node
    constant, x, k = int(node.a.a.value), node.a.b, int(node.b.value)
    m = max(0, -(-(constant - k + 1) // k))
    return m - tirx.floordiv(x + (k * m - constant + k - 1), node.b)


def _rest(node: tirx.FloorMod) -> Any:
    if not _descends(node):
        return node
    constant, x, k = int(node.a.a.value), node.a.b, int(node.b.value)
    m = max(0, -(-(constant + 1) // k))
    return (k - 1) - tirx.floormod(x + (k * m - constant - 1), node.b)


def _descends(node: Any) -> bool:
    """Return whether a quotient or rest is of a constant minus something, by a positive constant."""
    is_positive = isinstance(node.b, tirx.IntImm) and int(node.b.value) > 0
    return is_positive and isinstance(node.a, tirx.Sub) and isinstance(node.a.a, tirx.IntImm)
