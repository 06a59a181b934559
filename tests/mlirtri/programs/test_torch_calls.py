"""Calls of compiled modules after the first one, which go a shorter way: the same results, effects and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mlirtri as mt
from mlirtri.calls.argument_conversion import NonContiguousWarning
from mlirtri.errors import ArgumentMismatchError, KernelError, ProgramAssertionError
from mlirtri.programs.torch_programs import torch_kernel
from mlirtri.programs.torch_programs.flat_calls import flat_call
from mlirtri.programs.torch_programs.torch_kernel import TorchKernel

X, Y = torch.linspace(-1.0, 1.0, 8), torch.arange(8.0)


class Tagged(torch.Tensor):
    pass


def warm(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    kernel = mt.from_torch(function, arguments, **options).compile()
    for _ in range(2):
        kernel(*arguments)
    return kernel


@pytest.fixture(scope="module")
def add():
    return warm(lambda x, y: x + 2 * y, X, Y)


@pytest.fixture(scope="module", params=["one result", "several"])
def kernel(request: pytest.FixtureRequest):
    return warm((lambda x, y: x + 2 * y) if request.param == "one result" else (lambda x, y: (x + y, x - y)), X, Y)


def doubled_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    return y, y


FUNCTIONS = {
    "tensor": (lambda x: x + 1, (X,)),
    "tuple": (lambda x, y: (x - y, x * y), (X, Y)),
    "list": (lambda x, y: [x * y, x - y], (X, Y)),
    "tuple of one": (lambda x: (x + 1,), (X,)),
    "list of one": (lambda x: [x + 1], (X,)),
    "one result twice": (doubled_twice, (X,)),
    "integers": (lambda x: x // 3, (torch.arange(8),)),
    "bytes": (lambda x: x + 200, (torch.arange(8, dtype=torch.uint8),)),
    "booleans": (lambda x: (x > 0, x < 0), (X,)),
    "complex": (lambda x: x * x, (torch.complex(X, Y),)),
    "no elements": (lambda x: x + 1, (torch.zeros(0, 3),)),
    "rank 0": (lambda x, y: x + y, (X, torch.tensor(2.0))),
    "a linear layer": (nn.Linear(8, 3).eval().requires_grad_(False), (torch.randn(4, 8),)),
}
STRUCTURES = {
    "a dictionary": (lambda x: {"a": x + 1}, (X,)),
    "nested": (lambda x: (x + 1, [x - 1]), (X,)),
    "an argument back": (lambda x: (x, x + 1), (X,)),
    "a constant": (lambda x: (x + 1, 3, None), (X,)),
    "a number": (lambda x: x.sum().item(), (Y,)),
    "nested arguments": (lambda x, pair: x + pair[0] - pair[1]["a"], (X, (Y, {"a": X}))),
    "constant arguments": (lambda x, factor: x * factor, (X, 3)),
}


def check(function: Callable[..., Any], arguments: tuple[Any, ...]) -> TorchKernel:
    kernel, wanted = mt.from_torch(function, arguments).compile(), function(*arguments)
    for _ in range(3):
        found = kernel(*arguments)
        assert type(found) is type(wanted)
        torch.testing.assert_close(found, wanted)
    return kernel


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_results(name: str, monkeypatch: pytest.MonkeyPatch):
    function, arguments = FUNCTIONS[name]
    kernel = check(function, arguments)
    if name not in ("rank 0", "no elements", "complex"):
        monkeypatch.setattr(TorchKernel, "_call", None)
        kernel(*arguments)


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures(name: str):
    check(*STRUCTURES[name])


def test_results_are_new_each_time(add: Any):
    one, other = add(X, Y), add(X, Y)
    assert one.data_ptr() != other.data_ptr()


def test_arguments_by_name(add: Any):
    wanted = add(X, Y)
    assert torch.equal(add(x=X, y=Y), wanted)
    assert torch.equal(add(X, y=Y), wanted)
    assert torch.equal(add(y=Y, x=X), wanted)
    named = mt.from_torch(lambda x, *, y: x - y, (X,), {"y": Y}).compile()
    for _ in range(3):
        assert torch.equal(named(X, y=Y), X - Y)
    with pytest.raises(ArgumentMismatchError, match="missing y"):
        named(X)


WRONG = {
    "too few": (X,),
    "too many": (X, Y, X),
    "none": (),
    "shape": (X, Y[:4]),
    "rank": (X, Y[None]),
    "dtype": (X, Y.double()),
    "a number": (X, 2.0),
    "a string": (X, "y"),
    "a structure": (X, (Y,)),
    "nothing": (X, None),
    "an array's dtype": (X.numpy(), Y.double().numpy()),
    "a gradient": (X, Y.clone().requires_grad_()),
    "sparse": (X, Y.to_sparse()),
    "meta": (X, Y.to("meta")),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_first_call(kernel: Any, name: str):
    kernel.__call__ = kernel._first_call
    with pytest.raises(KernelError) as at_first:
        kernel(*WRONG[name])
    for _ in range(2):
        kernel(X, Y)
    assert kernel.__call__ != kernel._first_call
    with pytest.raises(type(at_first.value)) as then:
        kernel(*WRONG[name])
    assert str(then.value) == str(at_first.value)


def test_other_tensors(kernel: Any):
    wanted = kernel(X, Y)

    def same(*arguments: Any) -> None:
        torch.testing.assert_close(kernel(*arguments), wanted)

    same(X, nn.Parameter(Y, requires_grad=False))
    same(X.as_subclass(Tagged), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NonContiguousWarning)
        same(X, torch._neg_view(-Y))
    with torch.no_grad():
        same(X, nn.Parameter(Y))
        same(X.clone().requires_grad_(), Y)
    with torch.inference_mode():
        same(X, Y)
        same(X.clone(), Y.clone())
    same(X.numpy(), Y)
    for found, tensor in zip(leaves(kernel(X.numpy(), Y.numpy())), leaves(wanted), strict=True):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, tensor)
        assert not tensor.requires_grad


def leaves(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_strided_tensors_are_copied_and_that_is_said_once():
    kernel = warm(lambda x: x + 1, X)
    strided = torch.arange(16.0)[::2]
    with pytest.warns(NonContiguousWarning) as said:
        found = kernel(strided)
    assert said[0].filename == __file__
    assert torch.equal(found, strided + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(kernel(strided), strided + 1)


def test_weights_that_change():
    x = torch.randn(2, 4)
    module, other = nn.Linear(4, 3).eval(), nn.Linear(4, 3).eval()
    program = mt.from_torch(module, (x,))
    kernel = program.compile()
    for _ in range(2):
        kernel(x)
    with torch.no_grad():
        module.weight.mul_(2)
    torch.testing.assert_close(kernel(x), module(x).detach())
    program.load_state_dict(other.state_dict())
    for _ in range(3):
        torch.testing.assert_close(kernel(x), other(x).detach())
    program.params.update({name: tensor.detach() for name, tensor in module.named_parameters()})
    for _ in range(3):
        torch.testing.assert_close(program(x), module(x).detach())


def test_other_weights_while_a_first_call_runs(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(2, 4)
    module, other = nn.Linear(4, 3).eval(), nn.Linear(4, 3).eval()
    program = mt.from_torch(module, (x,))
    kernel = program.compile()

    def with_other_weights(calling: Any, runner: Any, general: Any) -> Any:
        program.load_state_dict(other.state_dict())
        return flat_call(calling, runner, general)

    monkeypatch.setattr(torch_kernel, "flat_call", with_other_weights)
    kernel(x)
    monkeypatch.undo()
    torch.testing.assert_close(kernel(x), other(x).detach())
    torch.testing.assert_close(kernel(x), other(x).detach())


def test_constants_of_the_program_are_compared_in_the_short_call(monkeypatch):
    """``a * s`` of a module that was exported with a number took 20 us, ten times as long as one of tensors."""
    kernel = warm(lambda x, s, y: x * s + y, X, 2, Y)
    wanted = X * 2 + Y
    assert torch.equal(kernel(x=X, s=2, y=Y), wanted)
    for other in (3, 2.0, True, "2", X):
        with pytest.raises(ArgumentMismatchError, match="exported for s = 2"):
            kernel(X, other, Y)
    monkeypatch.setattr(torch_kernel.Calling, "flattened", None)  # the general way
    assert torch.equal(kernel(X, 2, Y), wanted)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x + self.count


class Writer(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


def test_what_is_written():
    counter = mt.from_torch(Counter(), (X,)).compile()
    for turn in range(1, 4):
        torch.testing.assert_close(counter(X), X + turn)
    writer, x = mt.from_torch(Writer(), (X.clone(),)).compile(), X.clone()
    for turn in range(1, 4):
        torch.testing.assert_close(writer(x), (X + turn) * 2)
        torch.testing.assert_close(x, X + turn)


@pytest.mark.parametrize("results", ["one result", "several"])
def test_sizes_that_are_open(results: str):
    count = torch.export.Dim("count", max=50)
    function = (lambda x, y: x + y[: x.shape[0]]) if results == "one result" else (lambda x, y: (x + 1, y - 1))
    shapes = ({0: count}, {0: 2 * count})
    kernel = mt.from_torch(function, (torch.ones(5, 4), torch.ones(10, 4)), dynamic_shapes=shapes).compile()
    for size in (3, 8, 3, 1, 8):
        x, y = torch.randn(size, 4), torch.randn(2 * size, 4)
        torch.testing.assert_close(kernel(x, y), function(x, y))
    with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 7, and has to be .* = 6"):
        kernel(torch.ones(3, 4), torch.ones(7, 4))
    with pytest.raises(ArgumentMismatchError, match=r"to 50 along axis 0 of 'x', got 51"):
        kernel(torch.ones(51, 4), torch.ones(102, 4))
    with pytest.raises(ArgumentMismatchError, match=r"float32\[\?, 4\]"):
        kernel(torch.ones(3, 5), torch.ones(6, 4))


def test_sizes_whose_symbol_no_argument_has_alone():
    pairs = 2 * torch.export.Dim("half", min=2, max=50)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2).sum(1) + y[::2]

    kernel = mt.from_torch(function, (torch.ones(8), torch.ones(8)), dynamic_shapes=({0: pairs}, {0: pairs})).compile()
    x = torch.arange(12.0)
    torch.testing.assert_close(kernel(x, x), function(x, x))
    with pytest.raises(
        ArgumentMismatchError, match=r"axis 0 of 'x' is 11, and has to be 2\*(\w+) with \1 a whole number"
    ):
        kernel(torch.ones(11), torch.ones(11))
    with pytest.raises(ArgumentMismatchError, match=r"is 102, .* from 2 to 50"):
        kernel(torch.ones(102), torch.ones(102))
    with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 10, and has to be .* = 12"):
        kernel(x, torch.ones(10))


def test_checks_of_a_program_are_made_at_each_call():
    def checked(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "all are positive")
        return x + 1

    kernel = warm(checked, Y + 1)
    for _ in range(2):
        with pytest.raises(ProgramAssertionError, match="all are positive"):
            kernel(X)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_the_backend(mode: Callable[[], Any]):
    module, x = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(3, 8)
    compiled = torch.compile(module, backend="mlirtri")
    for turn in range(3):
        with mode():
            found, wanted = compiled(x), module(x)
            torch.testing.assert_close(found, wanted)
            assert found.requires_grad == wanted.requires_grad
            if found.requires_grad:
                found.sum().backward()
                gradients = [each.grad.clone() for each in module.parameters()]
                module.zero_grad()
                wanted.sum().backward()
                torch.testing.assert_close(gradients, [each.grad for each in module.parameters()])
                module.zero_grad()
        with torch.no_grad():
            module[0].weight.mul_(1 + turn)
    strided = torch.randn(8, 3).T
    with torch.no_grad():
        torch.testing.assert_close(compiled(strided), module(strided))
