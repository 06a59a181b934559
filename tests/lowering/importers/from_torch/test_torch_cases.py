"""Every operator case of `torch_cases`, in both CPU pipelines, against eager mode."""

from __future__ import annotations

import pytest
from torch.export import Dim
from torch_case_checks import agrees
from torch_cases import elementwise, makers, masks, networks, open_sizes, quantised, reductions, shapes

import mlirtri as mt
from mlirtri.errors import CompilerBugError, KernelError

TABLES = {
    "elementwise": elementwise,
    "reductions": reductions,
    "shapes": shapes,
    "networks": networks,
    "quantised": quantised,
    "masks": masks,
}
CASES = {f"{name}: {case}": (function, make) for name, table in TABLES.items() for case, function, make in table.CASES}
NOT_LOWERED = frozenset(
    {f"reductions: {name}" for name in ("median", "cummax", "cummin", "histc")} | {"shapes: diagonal scatter"}
)
"""What torch.export or torch-mlir cannot lower, and what has results of a size that only the run shows."""
LOWERED = [name for name in CASES if name not in NOT_LOWERED]
SAMPLE = LOWERED[::30]


def test_names_are_unique():
    assert len(CASES) == sum(len(table.CASES) for table in TABLES.values()) >= 300


def check(name: str) -> None:
    function, make = CASES[name]
    makers.restart()
    arguments = make()
    wanted = function(*[each.clone() for each in arguments])
    program = mt.from_torch(function, arguments)
    for pipeline in ("linalg", "mlir"):
        assert agrees(program.compile(pipeline=pipeline)(*arguments), wanted) is None, pipeline


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample(name: str):
    check(name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in LOWERED if name not in SAMPLE])
def test_all(name: str):
    check(name)


OPEN = {name: (function, make) for name, function, make in open_sizes.CASES}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [name if name in list(OPEN)[::10] else pytest.param(name, marks=pytest.mark.slow) for name in OPEN]
)
def test_open_sizes(name: str):
    function, make = OPEN[name]
    makers.restart()
    arguments = make()
    open_axes = tuple(dict.fromkeys(range(each.dim()), Dim.AUTO) for each in arguments)
    program = mt.from_torch(function, arguments, dynamic_shapes=open_axes)
    for pipeline in ("linalg", "mlir"):
        assert agrees(program.compile(pipeline=pipeline)(*arguments), function(*arguments)) is None, pipeline


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NOT_LOWERED))
def test_operators_without_a_lowering_are_refused(name: str):
    function, make = CASES[name]
    makers.restart()
    arguments = make()
    with pytest.raises(KernelError) as caught:
        mt.from_torch(function, arguments).compile()(*arguments)
    assert not isinstance(caught.value, CompilerBugError)
