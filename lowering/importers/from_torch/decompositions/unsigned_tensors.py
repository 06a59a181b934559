"""Decompose casts to uint16 and uint64, and tensors created of them, into signed integers with the same bits.

torch-mlir's lowering ends where it meets a cast to these dtypes. Operators on such operands are translated after its
decompositions. (`lowering/importers/from_torch/unsigned_integers.py`)
"""

from __future__ import annotations

from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operator, Results, Rule, creates_unsigned
from mlirtri.lowering.importers.from_torch.decompositions.complex_numbers.tensors import CREATED
from mlirtri.lowering.importers.from_torch.decompositions.elementwise.integers import wrapped

Tensor = torch.Tensor
SIGNED = {torch.uint16: torch.int16, torch.uint64: torch.int64}
"""The signed dtype of the same width."""
LEAST = -(1 << 63)


@creates_unsigned(torch.ops.prims.convert_element_type.default)
def convert_element_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert to uint16 or uint64: integers modulo 2^16 or 2^64, floats by truncation where the result fits."""
    if dtype not in SIGNED or x.dtype == dtype:
        return NotImplemented
    x = x.real if x.dtype.is_complex else x
    return _bits(x, SIGNED[dtype]).view(dtype)


def _bits(x: Tensor, kind: torch.dtype) -> Tensor:
    if not x.dtype.is_floating_point:
        return x.to(kind)
    if kind == torch.int16:
        return x.to(torch.int64).to(kind)
    is_large = x >= 2.0**63
    return torch.where(is_large, (x - 2.0**63).to(kind) + LEAST, x.to(kind))


def filled_with_bits(operator: Operator, number: int | None) -> Rule:
    """Return the rule of an unsigned tensor filled with argument `number`; for None, with `operator`'s own value."""

    def apply(*arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Results:
        kind = dtype or (arguments[0].dtype if isinstance(arguments[0], Tensor) else None)
        if kind not in SIGNED:
            return NotImplemented
        if number is not None:
            bits = wrapped(int(arguments[number]), SIGNED[kind])
            arguments = (*arguments[:number], bits, *arguments[number + 1 :])
        return operator(*arguments, dtype=SIGNED[kind], **options).view(kind)

    return apply


for _operator, _number in CREATED.items():
    creates_unsigned(_operator)(filled_with_bits(_operator, _number))
