"""NonZero, Compress, Unique, and gathers and scatters by their results: lengths that the elements say."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx_models import PIPELINES, check, check_rewritten, model_of, random, rewritten

from mlirtri.errors import UnsupportedOperationError

MASKS = [np.array([[0, 1, 1], [1, 0, 0]], np.float32), np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_mask_selects_rows_and_writes_them(pipeline):
    nodes = [
        helper.make_node("NonZero", ["m"], ["i"]),
        helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "t"], ["g"]),
        helper.make_node("Neg", ["g"], ["u"]),
        helper.make_node("ScatterND", ["x", "t", "u"], ["y"]),
    ]
    inputs = {"m": MASKS[0], "x": random(2, 3, 2)}
    model = model_of(nodes, inputs, outputs=("y", "g"))
    check(model, inputs, pipeline)
    check(model, inputs | {"m": MASKS[1]}, pipeline)


@pytest.mark.parametrize("mask", MASKS)
def test_indices_of_elements_that_are_not_zero(mask):
    check_rewritten([helper.make_node("NonZero", ["x"], ["y"])], {"x": mask}, gone=["NonZero"])


@pytest.mark.parametrize(("axis", "length"), [(None, 6), (0, 1), (-1, 3)])
def test_conditions_select_slices(axis, length):
    attributes = {} if axis is None else {"axis": axis}
    node = helper.make_node("Compress", ["x", "c"], ["y"], **attributes)
    condition = np.array([True, False, True, True, False, True])[:length]
    check_rewritten([node], {"x": random(2, 3), "c": condition}, gone=["Compress"])


OUTPUTS = ("y", "i", "v", "c")
FLOATS = np.array([2, 1, 1, np.nan, 3, 0, 3, -0.0, np.nan], np.float32)


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("x", [FLOATS, np.array([200, 3, 200], np.uint8), np.array([True, False, True]), FLOATS[:1]])
def test_distinct_elements(x, is_sorted):
    node = helper.make_node("Unique", ["x"], list(OUTPUTS), sorted=is_sorted)
    check_rewritten([node], {"x": x}, gone=["Unique"], outputs=OUTPUTS)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("has_nan", [False, True])
def test_distinct_slices(axis, has_nan):
    x = np.array([[1, 2, 1, 0], [0, 0, 0, 1], [1, 2, 1, 0]], np.float32)
    x = np.where(x == 2, np.nan, x) if has_nan else x
    check_rewritten([helper.make_node("Unique", ["x"], list(OUTPUTS), axis=axis)], {"x": x}, outputs=OUTPUTS)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_distinct_elements_have_the_length_of_the_run(pipeline):
    node = helper.make_node("Unique", ["x"], list(OUTPUTS))
    check(model_of([node], {"x": FLOATS}, outputs=OUTPUTS), {"x": FLOATS}, pipeline)


def test_too_many_slices_and_long_conditions_are_refused():
    x = random(1024, 32)
    with pytest.raises(UnsupportedOperationError, match="Unique of 1024 slices of 32 elements"):
        rewritten(model_of([helper.make_node("Unique", ["x"], ["y"], axis=0)], {"x": x}))
    node = helper.make_node("Compress", ["x", "c"], ["y"], axis=0)
    with pytest.raises(UnsupportedOperationError, match="of 2 elements by a condition of 3"):
        rewritten(model_of([node], {"x": random(2), "c": np.ones(3, bool)}))
    with pytest.raises(UnsupportedOperationError, match=r"NonZero of a tensor of shape \[\]"):
        rewritten(model_of([helper.make_node("NonZero", ["x"], ["y"])], {"x": random()}))
