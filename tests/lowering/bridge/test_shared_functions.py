"""Looking for an equal PrimFunc, and for a free name, takes no time that is quadratic in the size of a module."""

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.lowering.bridge import builder
from mlirtri.lowering.tir.primfunc import Names


@pytest.fixture
def comparisons(monkeypatch):
    pairs = []
    equal = builder.structural_equal
    monkeypatch.setattr(builder, "structural_equal", lambda *pair: pairs.append(pair) or equal(*pair))
    return pairs


def test_only_functions_of_one_hash_are_compared(comparisons):
    lines = [f"  %{i} = arith.addf %{i - 1 if i else 'a'}, %a : tensor<3xf32>" for i in range(40)]
    text = (
        "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
        + "\n".join(lines)
        + "\n  return %39 : tensor<3xf32>\n}"
    )
    kernel = mt.from_mlir(text).compile(pipeline="relax")
    a = np.ones(3, np.float32)
    np.testing.assert_array_equal(kernel(a), 41 * a)
    assert len(comparisons) <= 40


def test_names_are_numbered_in_order_and_avoid_those_in_use():
    names = Names(["x_2"])
    assert [names.unique("x") for _ in range(4)] == ["x", "x_1", "x_3", "x_4"]
    assert [names.unique(name) for name in ("x_1", "y", "y_1", "y")] == ["x_1_1", "y", "y_1", "y_2"]
