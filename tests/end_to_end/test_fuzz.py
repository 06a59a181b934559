"""The first programs of fixed seeds, which `make fuzz` makes more of; and what runs, bounds and reduces them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from fuzz import kernels, runner
from fuzz.bounded_array import bounded
from fuzz.bounds import NoRule, Undecided
from fuzz.program import Program, Statement, evaluate
from fuzz.reducer import reduce

SEED = 16
PROGRAMS = {"kernels": 2, "linalg": 1, "torch": 1, "torch_kernels": 1, "relax": 1}
"""How many programs of each kind are run; compiling them takes most of the time."""


@pytest.mark.parametrize(
    ("kind", "number"), [(kind, number) for kind, count in PROGRAMS.items() for number in range(count)]
)
def test_generated_programs(kind, number):
    program = runner.KINDS[kind].generate(Random(f"{kind} {SEED} {number}"))
    reference = runner.references(program)
    for pipeline in runner.KINDS[kind].pipelines:
        outcome = runner.outcome(program, pipeline, reference)
        assert outcome.what in (runner.AGREED, runner.REFUSED), (
            f"{pipeline}: {outcome}\n{runner.KINDS[kind].text(program)}"
        )


FUNCTIONS = {
    "exp": lambda x, y: np.exp(x) * np.sin(y) + 0.1,
    "product": lambda x, y: x @ y.T,
    "std": lambda x, y: np.std(x, axis=0) / 3,
    "cumsum": lambda x, y: np.cumsum(x * y),
    "where": lambda x, y: np.where(x > 0, np.sqrt(np.abs(y)), np.tanh(x)),
    "prod": lambda x, y: np.prod(x, axis=1),
    "complex": lambda x, y: np.abs(x + 1j * y),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_is_within_the_bounds(name, dtype, random):
    x, y = (bounded(random.standard_normal((5, 7)).astype(dtype)) for _ in range(2))
    result = FUNCTIONS[name](x, y)
    difference = np.abs(result.low.astype(result.high.dtype) - result.high)
    assert np.all(difference <= result.error)
    assert np.all(result.error < 200 * np.finfo(dtype).eps * (1 + np.abs(result.high)))


def test_sums_that_cancel_and_halves_are_within_their_bounds():
    x = bounded(np.float64(-0.668))
    assert np.abs(np.logaddexp(x, x).error) > 1e-16
    halves = bounded(np.full(12, 0.3, np.float16))
    program = Program("relax", {"x": halves.low}, (Statement("y = np.sum(x)"),), ("y",))
    error = evaluate(program)["y"].error
    assert 2 * np.sum(halves).error < error < 0.05


def test_what_hangs_on_a_rounding_is_no_program():
    third = bounded(np.array([1.0])) / 3
    with pytest.raises(Undecided):
        third * 3 < 1
    with pytest.raises(Undecided):
        np.floor(third * 3)
    zero = third * 3 - 1
    with pytest.raises(Undecided), np.errstate(invalid="ignore"):
        zero / zero
    with pytest.raises(Undecided), np.errstate(invalid="ignore"):
        np.signbit(np.arccosh(third))
    with pytest.raises(NoRule):
        np.interp(third, [0, 1], [0, 1])


def test_a_wrong_number_is_seen_and_reduced(monkeypatch):
    """A compiler that takes a cosine for a sine is found out, and the program is cut to that line."""
    x = np.linspace(0.5, 2, 12).reshape(3, 4)
    lines = ("a = x * 2", "b = np.exp(x)", "c = np.sin(a + b)", "d = c + b", "e = d.T")
    program = Program("kernels", {"x": x}, tuple(map(Statement, lines)), ("e", "b"), "import numpy as np\n")

    def run(program, pipeline):
        wrong = program.with_(
            statements=tuple(Statement(each.text.replace("sin", "cos")) for each in program.statements)
        )
        environment = evaluate(wrong, kernels.start)
        return [each.low for each in kernels.expected(wrong, environment)]

    monkeypatch.setitem(runner.KINDS, "kernels", runner.Kind(
        ("linalg",), kernels.generate, kernels.start, kernels.expected, run, kernels.text_of, kernels.as_test
    ))  # fmt: skip
    failure = runner.outcome(program, "linalg")
    assert failure.what == runner.WRONG
    assert "12 of 12 elements are wrong" in failure.detail
    small = reduce(program, "linalg", failure)
    assert [statement.text for statement in small.statements if "sin" in statement.text] == [small.statements[-1].text]
    assert len(small.statements) == 1
    assert all(np.size(value) == 1 for value in small.arguments.values())
    assert "def test_program" in kernels.as_test(small, "linalg", "Title.")
    compile(kernels.as_test(small.with_(arguments={}), "linalg", "Title."), "test", "exec")
