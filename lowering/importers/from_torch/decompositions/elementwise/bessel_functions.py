"""Decompose Bessel, modified Bessel and Airy functions, computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import decomposes
from mlirtri.lowering.importers.from_torch.decompositions.elementwise.special_functions import in_float64
from mlirtri.lowering.special_functions import bessel
from mlirtri.lowering.special_functions.definitions import modified_first

aten = torch.ops.aten
Tensor = torch.Tensor

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "i0": lambda x: modified_first(torch, x, 0, False),
    "special_i0e": lambda x: modified_first(torch, x, 0, True),
    "special_i1": lambda x: modified_first(torch, x, 1, False),
    "special_i1e": lambda x: modified_first(torch, x, 1, True),
    "special_modified_bessel_i0": lambda x: modified_first(torch, x, 0, False),
    "special_modified_bessel_i1": lambda x: modified_first(torch, x, 1, False),
    "special_modified_bessel_k0": lambda x: bessel.modified_second(torch, x, 0, False),
    "special_modified_bessel_k1": lambda x: bessel.modified_second(torch, x, 1, False),
    "special_scaled_modified_bessel_k0": lambda x: bessel.modified_second(torch, x, 0, True),
    "special_scaled_modified_bessel_k1": lambda x: bessel.modified_second(torch, x, 1, True),
    "special_bessel_j0": lambda x: bessel.first_kind(torch, x, 0),
    "special_bessel_j1": lambda x: bessel.first_kind(torch, x, 1),
    "special_bessel_y0": lambda x: bessel.second_kind(torch, x, 0),
    "special_bessel_y1": lambda x: bessel.second_kind(torch, x, 1),
    "special_spherical_bessel_j0": lambda x: bessel.spherical(torch, x),
    "special_airy_ai": lambda x: bessel.airy(torch, x),
}
for _name, _function in FUNCTIONS.items():
    decomposes(getattr(aten, _name).default)(in_float64(_function))
