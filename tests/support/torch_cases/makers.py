"""Arguments of the cases: random tensors, the same ones in every run."""

from __future__ import annotations

import torch

_GENERATOR = torch.Generator()


def restart() -> None:
    """Begin the sequence anew: a case's arguments do not depend on which cases ran before it."""
    _GENERATOR.manual_seed(20)


def f(*shape, dtype=torch.float32):
    """Of a normal distribution."""
    return torch.randn(shape, generator=_GENERATOR, dtype=torch.float64).to(dtype)


def p(*shape, dtype=torch.float32):
    """Positive, between 0.1 and 2.1."""
    return (torch.rand(shape, generator=_GENERATOR, dtype=torch.float64) * 2 + 0.1).to(dtype)


def u(*shape, dtype=torch.float32):
    """Between -0.95 and 0.95."""
    return (torch.rand(shape, generator=_GENERATOR, dtype=torch.float64) * 1.9 - 0.95).to(dtype)


def i(*shape, low=-5, high=6, dtype=torch.int64):
    """Integers."""
    return torch.randint(low, high, shape, generator=_GENERATOR).to(dtype)


def b(*shape):
    """Booleans."""
    return torch.randint(0, 2, shape, generator=_GENERATOR).bool()


def c(*shape, dtype=torch.complex64):
    """Complex."""
    return torch.complex(f(*shape, dtype=torch.float64), f(*shape, dtype=torch.float64)).to(dtype)


def n(*shape):
    """Normal numbers with a NaN, both infinities and both zeros among them."""
    tensor = f(*shape)
    flat = tensor.view(-1)
    flat[:5] = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0])[: flat.numel()]
    return tensor
