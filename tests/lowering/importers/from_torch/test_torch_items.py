"""Python's functions of numbers that `item()` gives, which torch.export traces in its strict mode."""

from __future__ import annotations

import math
import operator

import pytest
import torch
from torch import nn

import mlirtri as mt
from mlirtri.errors import KernelError


class Calculation(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


CASES = {
    "unequal": lambda x, y: float(x) != int(y),
    "below": lambda x, y: int(y) < float(x),
    "remainder": lambda x, y: float(x) % int(y),
    "remainder of integers": lambda x, y: -7 % int(y),
    "power": lambda x, y: abs(float(x)) ** int(y),
    "largest": lambda x, y: max(float(x), 0.5) + min(int(y), 2),
    "floor and ceiling": lambda x, y: math.floor(float(x)) * 10 + math.ceil(float(x)),
    "truncated": lambda x, y: int(float(x)) - int(y),
    "root": lambda x, y: torch.sym_sqrt(int(y)),
    "absolute": lambda x, y: operator.abs(float(x)) + abs(-int(y)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_the_run(name: str):
    module = Calculation(CASES[name])
    x, y = torch.tensor(-2.75, dtype=torch.float64), torch.tensor(3)
    kernel = mt.from_torch(module, (x, y), strict=True).compile(pipeline="mlir")
    for arguments in ((x, y), (-x * 2, y + 1)):
        found, wanted = kernel(*arguments), module(*arguments)
        assert type(found) is type(wanted)
        assert found == pytest.approx(wanted)


def test_a_write_of_elements_that_another_mask_chose_is_refused():
    """Their number need not be that of the places."""

    def mixed(x, m, n):
        z = x.clone()
        z[m] = x[n]
        return z

    x = torch.arange(6.0)
    with pytest.raises(KernelError, match="as many values"):
        mt.from_torch(mixed, (x, x > 2, x < 3)).compile()
