"""The decompositions that torch applies before torch-mlir imports a graph: torch-mlir's own, and those of this package.

Importing the modules below fills the tables of `decomposition_rules.py`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from mlirtri.dialect.bindings.mlir import torch_decompositions
from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    COMPLEX_RULES,
    RULES,
    SCALAR_RULES,
    UNSIGNED_RULES,
    Operator,
    Results,
    Rule,
    chained,
    decomposes,
    decomposes_scalars,
)
from mlirtri.lowering.importers.from_torch.decompositions import (  # noqa: F401 - they register their rules
    counting,
    foreach,
    indexing,
    order_statistics,
    random_numbers,
    reductions,
    unique_elements,
    unsigned_tensors,
    views,
)
from mlirtri.lowering.importers.from_torch.decompositions.complex_numbers import functions, tensors  # noqa: F401 - they register their rules
from mlirtri.lowering.importers.from_torch.decompositions.elementwise import (  # noqa: F401 - they register their rules
    bessel_functions,
    bits,
    comparisons,
    floats,
    integers,
    orthogonal_polynomials,
    special_functions,
)
from mlirtri.lowering.importers.from_torch.decompositions.images import grid_samples, pools, resampling  # noqa: F401 - they register their rules
from mlirtri.lowering.importers.from_torch.decompositions.matrices import (  # noqa: F401 - they register their rules
    fourier,
    householder,
    linear_algebra,
    matrix_products,
    norms,
    spectra,
)
from mlirtri.lowering.importers.from_torch.decompositions.matrices.experts import third_party_rules
from mlirtri.lowering.importers.from_torch.decompositions.networks import flash_attention, layers, recurrent  # noqa: F401 - they register their rules
from mlirtri.lowering.importers.from_torch.decompositions.networks.losses import losses_in_chunks
from mlirtri.lowering.importers.from_torch.decompositions.networks.quantized import quantised

aten = torch.ops.aten
Tensor = torch.Tensor


def decompositions() -> dict[Operator, Rule]:
    """Return the rules by operator; those that libraries register on their import are included if they are there."""
    return {**_decompositions(), **quantised(), **third_party_rules(), **losses_in_chunks()}


@cache
def _decompositions() -> dict[Operator, Rule]:
    table = {**torch_decompositions(), **RULES}
    for layer in (COMPLEX_RULES, UNSIGNED_RULES, SCALAR_RULES):
        for operator, rule in layer.items():
            table[operator] = chained([rule, table[operator]] if operator in table else [rule])
    return table


@decomposes(aten._assert_async.default, aten._assert_async.msg)
def assert_async(condition: Tensor, message: str = "") -> None:
    """Assert on the element itself; torch-mlir drops an assertion whose result is unused."""
    aten._assert_scalar(condition.item(), message)


@decomposes(aten._assert_tensor_metadata.default)
def assert_tensor_metadata(*arguments: object, **options: object) -> None:
    """Drop the assertion: for some operators torch infers another dtype than eager returns."""


ALONG_AN_AXIS = (
    *(aten.median.dim, aten.nanmedian.dim, aten.mode.default, aten.kthvalue.default),
    *(aten.sort.default, aten.sort.stable, aten.topk.default, aten.max.dim, aten.min.dim),
    *(aten.cumsum.default, aten.cumprod.default, aten.cummax.default, aten.cummin.default),
    *(aten._softmax.default, aten._log_softmax.default, aten.logcumsumexp.default),
    *(aten.any.dim, aten.all.dim, aten.prod.dim_int, aten.amax.default, aten.amin.default),
    *(aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two),
    *(aten.gather.default, aten.index_select.default, aten.argmax.default, aten.argmin.default),
    *(aten.flip.default, aten.logsumexp.default),
)
"""Operators that torch applies to the one element of a rank-0 tensor as well."""
FROM_THE_END = (aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two)
"""torch-mlir counts a negative axis by the rank of the index, and refuses an index of another rank."""


def on_rank_0(operator: Operator) -> Rule:
    """Return the rule that applies the operator to a one-element tensor and reshapes the results to rank 0."""

    def apply(x: Tensor, *arguments: Any, **options: Any) -> Results:
        if x.dim():
            if operator in FROM_THE_END and arguments[0] < 0:
                return operator(x, arguments[0] + x.dim(), *arguments[1:], **options)
            return NotImplemented
        if operator is aten.gather.default:
            return x.expand(arguments[1].shape)
        wider = pytree.tree_map(_as_row, (x, *arguments))
        return pytree.tree_map(_as_number, operator(*wider, **options))

    return apply


def _as_row(operand: Any) -> Results:
    return operand.view([1]) if isinstance(operand, Tensor) and not operand.dim() else operand


def _as_number(operand: Any) -> Results:
    return operand.view([]) if isinstance(operand, Tensor) and operand.numel() == 1 else operand


for _operator in ALONG_AN_AXIS:
    decomposes_scalars(_operator)(on_rank_0(_operator))
