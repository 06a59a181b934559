"""An entry of the op table: one `Op` per function of the kernel language.

An entry has a type rule, a NumPy reference, and one way to linalg:

* `scalar`: an elementwise op has a rule for one element, written with `dialect.scalar`: the body of a `linalg.generic`;
* `decompose`: a composite op is written with other ops of the table;
* `structured`: an op with a rule of its own in `lowering.linalg` (a test finds a missing one);
* `derived`: no operation of the dialect: the frontend writes the function with other ops.

`relax` names the Relax operator of the `relax` pipeline; without one that pipeline uses the lowering to linalg.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlirtri.dialect.base.tensor_type import TensorType

Types = Sequence[TensorType]
Attributes = Mapping[str, Any]


def reference_dtype(x: np.ndarray) -> np.dtype:
    """Return the dtype in which a NumPy reference sums and orders: fp32 for halves, else that of `x`."""
    return np.dtype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype


@dataclass(frozen=True)
class Op:
    """One function of the language. Its operation in the dialect is ``tri.<name>``; every operation has one result."""

    name: str
    group: str
    """``elementwise``, ``reduction``, ``shape``, ``contraction``, ``normalization``, ``creation``, ``indexing``,
    ``sequence`` or ``window``."""
    operands: tuple[str, ...] = ()
    """Names of the tensor operands; a name that ends in ``*`` takes any number."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attribute name to kind: ``int``, ``ints``, ``float``, ``bool``, ``string``, ``number`` or ``numbers``."""
    infer: Callable[[Types, Attributes], TensorType] | None = None
    """Returns the result type from operand types; raises `KernelTypeError` or `KernelValueError`."""
    numpy: Callable[..., Any] | None = None
    """Reference: arrays in operand order, attributes as keywords."""
    scalar: Callable[..., Any] | None = None
    decompose: Callable[..., Any] | None = None
    structured: bool = False
    relax: str | Callable[..., Any] | None = None
    """A name under `relax.op`, or a function ``(relax_ops, arguments, attributes, result_type) -> expression``."""
    relax_dtypes: str = "bifhuv"
    """The dtype kinds (``h`` is fp16) for which the Relax operator is exact; for others the op is lowered to linalg."""
    relax_when: Callable[[TensorType, Attributes], bool] | None = None
    """A further condition, on the first operand's type and the attributes, for the Relax operator to be exact."""
    derived: bool = False
    summary: str = ""

    @property
    def is_variadic(self) -> bool:
        """Return whether the last operand takes any number of tensors."""
        return any(name.endswith("*") for name in self.operands)
