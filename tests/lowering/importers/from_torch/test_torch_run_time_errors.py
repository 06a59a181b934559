"""What eager torch raises for at run time: indices out of bounds, division by zero, too few elements."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import mlirtri as mt
from mlirtri.errors import KernelError, ProgramDivisionError, ProgramIndexError

X = torch.arange(4.0)


def ints(*numbers, dtype=torch.int64):
    return torch.tensor(numbers, dtype=dtype)


def small(*numbers):
    return ints(*numbers, dtype=torch.int8)


def unsigned(*numbers):
    return ints(*numbers, dtype=torch.uint8)


def wide(*numbers):
    return ints(*numbers, dtype=torch.int32)


READS = {
    "x[i]": (lambda x, i: x[i], (X, ints(1, -4)), (X, ints(1, 4))),
    "x[i] from the end": (lambda x, i: x[i], (X, ints(3, 2)), (X, ints(1, -5))),
    "x[i, j]": (lambda x, i, j: x[i, j], (X.view(2, 2), ints(1, 0), ints(1)), (X.view(2, 2), ints(1, 0), ints(2))),
    "x[:, i] of int32": (lambda x, i: x[:, i], (X.view(2, 2), wide(1)), (X.view(2, 2), wide(7))),
    "index_select": (lambda x, i: x.index_select(0, i), (X, ints(3)), (X, ints(-1))),
    "take": (lambda x, i: x.take(i), (X.view(2, 2), ints(-4)), (X.view(2, 2), ints(4))),
    "gather": (lambda x, i: x.gather(0, i), (X, ints(3)), (X, ints(-1))),
    "embedding": (lambda i, x: F.embedding(i, x), (ints(3), X.view(4, 1)), (ints(4), X.view(4, 1))),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), (X.view(2, 2), ints(1, -100)), (X.view(2, 2), ints(1, 2))),
}
WRITES = {
    "index_put": (lambda x, i, v: x.index_put((i,), v), (X, ints(-4), X[:1]), (X, ints(4), X[:1])),
    "index_copy": (lambda x, i, v: x.index_copy(0, i, v), (X, ints(3), X[:1]), (X, ints(-1), X[:1])),
    "index_add": (lambda x, i, v: x.index_add(0, i, v, alpha=2), (X, ints(3), X[:1]), (X, ints(-1), X[:1])),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), (X, ints(-4)), (X, ints(4))),
    "scatter": (lambda x, i, v: x.scatter(0, i, v), (X, ints(3), X[:1]), (X, ints(-1), X[:1])),
    "scatter_add": (lambda x, i, v: x.scatter_add(0, i, v), (X, ints(3), X[:1]), (X, ints(4), X[:1])),
    "put": (lambda x, i, v: x.put(i, v), (X, ints(-4), X[:1]), (X, ints(4), X[:1])),
}
DIVISIONS = {
    "//": (lambda x, y: x // y, (ints(7, -7), ints(2, 3)), (ints(7, 7), ints(1, 0))),
    "% of int8": (lambda x, y: x % y, (small(7, -7), small(2, 3)), (small(7, 7), small(1, 0))),
    "// of uint8": (lambda x, y: x // y, (unsigned(7, 200), unsigned(2, 3)), (unsigned(7, 7), unsigned(1, 0))),
    "% of uint8": (lambda x, y: x % y, (unsigned(7, 200), unsigned(2, 3)), (unsigned(7, 7), unsigned(1, 0))),
    "// of int32, in floats": (lambda x, y: x // y, (wide(7, -7), wide(2, 3)), (wide(7, 7), wide(1, 0))),
    "fmod": (torch.fmod, (ints(7, -7), ints(2, 3)), (ints(7, 7), ints(1, 0))),
    "a row of divisors": (
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        (ints(7, 8, 9).view(3, 1), ints(2, 3)),
        (ints(7, 8, 9).view(3, 1), ints(0, 3)),
    ),
}
OTHERS = {
    "masked_scatter": (
        lambda x, m, v: x.masked_scatter(m, v),
        (X, X > 1, X[:2]),
        (X, X > 0, X[:2]),
    ),
    "one_hot": (lambda i: F.one_hot(i, 4), (ints(3, 0),), (ints(3, 4),)),
}
CASES = {**READS, **WRITES, **DIVISIONS, **OTHERS}
FAST = {"linalg": ("x[i]", "x[i, j]", "index_copy", "//", "% of int8", *OTHERS), "relax": (), "mlir": ("x[i]", "//")}


def raised(function, arguments):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any of eager's
        function(*arguments)
    return caught


@pytest.mark.parametrize(
    ("pipeline", "name"),
    [
        pytest.param(pipeline, name, marks=[] if name in fast else pytest.mark.slow)
        for pipeline, fast in FAST.items()
        for name in CASES
    ],
)
def test_errors_are_those_of_eager(pipeline, name):
    function, right, wrong = CASES[name]
    kernel = mt.from_torch(function, right).compile(pipeline=pipeline)
    torch.testing.assert_close(kernel(*right), function(*right))
    eager, error = raised(function, wrong), raised(kernel, wrong)
    assert isinstance(error.value, (eager.type, KernelError))
    assert isinstance(error.value, eager.type)
    if name not in OTHERS:
        assert error.type is (ProgramDivisionError if name in DIVISIONS else ProgramIndexError)
    if name in DIVISIONS:
        assert "ZeroDivisionError" in str(error.value)


class TwoReads(torch.nn.Module):
    def forward(self, x, i, j):
        y = x[i]
        return y + x[j]


def test_an_error_names_its_line():
    kernel = mt.from_torch(TwoReads(), (X, ints(1), ints(2))).compile(pipeline="mlir")
    first = TwoReads.forward.__code__.co_firstlineno
    for offset, wrong in ((1, (X, ints(9), ints(2))), (2, (X, ints(1), ints(9)))):
        with pytest.raises(ProgramIndexError, match="an index is out of bounds for an axis of size 4") as caught:
            kernel(*wrong)
        assert caught.value.span.file == __file__
        assert caught.value.span.line == first + offset


def test_compiled_functions_raise():
    compiled = torch.compile(lambda x, i, y: (x[i], i // y), backend="mlirtri", options={"pipeline": "mlir"})
    assert compiled(X, ints(1), ints(1))[0] == 1
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(X, ints(4), ints(1))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(X, ints(1), ints(0))


def test_what_is_known_costs_no_check():
    def compute(x, n, mask):
        best = x[x.argmax()]
        return best, x[torch.arange(3) + 1], x[n % 4], n // 3, n // torch.clamp(n, min=1), x[mask]

    arguments = X, ints(5, -6), X > 1
    kernel = mt.from_torch(compute, arguments).compile(pipeline="mlir")
    torch.testing.assert_close(kernel(*arguments), compute(*arguments))
    assert "an index is" not in kernel.ir["linalg"]
    assert "ZeroDivision" not in kernel.ir["linalg"]
