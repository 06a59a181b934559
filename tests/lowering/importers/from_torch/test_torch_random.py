"""Random numbers of torch programs: eager's own for the same state of torch's generator, which both leave alike."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mlirtri as mt
from mlirtri.errors import KernelValueError, UnsupportedOperationError


def seeded(function, *arguments):
    torch.manual_seed(3)
    return function(*arguments), torch.get_rng_state()


def check_draws(kernel, reference, *arguments, exact: bool = True):
    """Compare the results, and where the generator is afterwards."""
    (results, state), (expected, expected_state) = seeded(kernel, *arguments), seeded(reference, *arguments)
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(results, expected, **tolerance)
    assert torch.equal(state, expected_state)


def draw_all(x, p):
    of_shapes = torch.rand(2, 3), torch.randn_like(x.t()), torch.randint(2, 9, (4,)), torch.randperm(6)
    of_shapes += torch.randn(3, generator=None), torch.randint(2, 9, (4,), generator=None)
    in_place = [x.clone().uniform_(1, 2), x.clone().exponential_(2.0), x.clone().geometric_(0.3), x.clone().cauchy_()]
    in_place += [
        x.clone().log_normal_(),
        x.double().normal_(1, 3),
        x.clone().bernoulli_(p),
        torch.normal(0.0, 2.0, (3,)),
    ]
    of_elements = torch.bernoulli(p), torch.normal(x, p), torch.normal(x, 1.0), torch.normal(1.0, p), torch.rand_like(x)
    rows = torch.multinomial(p, 2), torch.multinomial(p[0], 1), torch.multinomial(p.double(), 7, replacement=True)
    return of_shapes, in_place, of_elements, rows


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_draws_are_those_of_eager(pipeline):
    x, p = torch.randn(3, 4), torch.rand(3, 4)
    check_draws(mt.from_torch(draw_all, (x, p)).compile(pipeline=pipeline), draw_all, x, p)


def drop(x, half):
    dropped = F.dropout(x, 0.3), F.dropout(half, 0.4), F.dropout(x, 1.0), F.dropout2d(x[None], 0.5)
    return (
        *dropped,
        F.alpha_dropout(x, 0.5),
        F.gumbel_softmax(x),
        F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    )


def test_dropout_is_that_of_eager():
    x = torch.randn(3, 4, 5)
    arguments = x, x.bfloat16()
    check_draws(mt.from_torch(drop, arguments).compile(), drop, *arguments, exact=False)


def test_a_saved_module_in_training_mode_draws(tmp_path):
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = torch.randn(3, 4)
    kernel = mt.from_torch(module, (x,)).compile()
    kernel.save(tmp_path / "kernel.mlirtri")
    for each in (kernel, mt.load(tmp_path / "kernel.mlirtri")):
        check_draws(each, lambda x: module(x).detach(), x, exact=False)


def test_draws_of_dynamic_sizes():
    def noisy(x):
        return x + torch.randn_like(x), torch.rand(x.shape[0] * 2 + 1), torch.multinomial(x.abs(), 9, replacement=True)

    program = mt.from_torch(noisy, (torch.randn(3, 5),), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    kernel = program.compile()
    for rows in (2, 7):
        check_draws(kernel, noisy, torch.randn(rows, 5))


def test_compiled_functions_draw():
    def noisy(x, y):
        return F.dropout(x, 0.4) + torch.rand_like(y) * torch.randint(0, 3, (4,))

    arguments = torch.randn(3, 4), torch.randn(3, 4)
    check_draws(torch.compile(noisy, backend="mlirtri"), noisy, *arguments, exact=False)


def test_draws_that_depend_on_elements_are_refused():
    with pytest.raises(KernelValueError, match=r"aten\.poisson\.default draws depends on elements"):
        mt.from_torch(torch.poisson, (torch.rand(3),))

    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: x * 2, (x,))

    with pytest.raises(UnsupportedOperationError, match="in a branch or a loop"):
        mt.from_torch(branch, (torch.ones(3),))
    with pytest.raises(UnsupportedOperationError, match="shape of random numbers is computed from elements"):
        mt.from_torch(lambda x: torch.rand(x.nonzero().shape[0]), (torch.ones(3),))
