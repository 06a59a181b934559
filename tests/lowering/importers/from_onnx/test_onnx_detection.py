"""NonMaxSuppression and RoiAlign beside ONNX's reference, and convolutions of integers with several zero points."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx_models import PIPELINES, check, check_rewritten, model_of, random

GENERATOR = np.random.default_rng(3)
BOXES = GENERATOR.uniform(0, 1, (2, 9, 4)).astype(np.float32)
SCORES = GENERATOR.integers(0, 6, (2, 3, 9)).astype(np.float32)
"""Some of them equal: then the first box comes first."""


@pytest.mark.parametrize(("pipeline", "is_centred"), [pytest.param("linalg", 0, marks=pytest.mark.slow), ("mlir", 1)])
def test_boxes_are_selected_by_batch_and_class(pipeline, is_centred):
    limits = {"n": np.int64([3]), "iou": np.float32([0.1]), "least": np.float32([0.5])}
    inputs = {"boxes": BOXES, "scores": SCORES, **limits}
    node = helper.make_node("NonMaxSuppression", list(inputs), ["y"], center_point_box=is_centred)
    model = model_of([node], inputs)
    check(model, inputs, pipeline)
    check(model, inputs | {"least": np.float32([9])}, pipeline)


IMAGE = random(2, 3, 7, 6)
REGIONS = np.float32([[0, 0, 5, 6], [1.5, 2.5, 3.25, 6.5], [-3, -3, 9, 12], [2, 2, 2, 2.5]])


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("mode", "samples", "form"), [("avg", 0, "half_pixel"), ("max", 2, "output_half_pixel")])
def test_regions_are_sampled(mode, samples, form, pipeline):
    attributes = {"mode": mode, "sampling_ratio": samples, "coordinate_transformation_mode": form}
    sizes = {"output_height": 3, "output_width": 2, "spatial_scale": 0.75}
    inputs = {"x": IMAGE, "rois": REGIONS, "batches": np.int64([0, 1, 1, 0])}
    node = helper.make_node("RoiAlign", list(inputs), ["y"], **attributes, **sizes)
    check(model_of([node], inputs), inputs, pipeline)


def test_filters_have_zero_points_of_their_own():
    inputs = {"x": random(1, 2, 5, 5, dtype="uint8"), "w": random(3, 2, 2, 2, dtype="uint8"), "a": np.uint8(3)}
    inputs["b"] = np.uint8([1, 5, 0])
    node = helper.make_node("ConvInteger", list(inputs), ["y"], pads=[1, 0, 1, 1])
    check_rewritten([node], inputs, gone=["ConvInteger"])
