"""The compiled form of DetectionOutput: the bits of the plain kernel."""

import importlib.util

import numpy as np
import pytest

from irrun.fast.errors import NoKernelError
from irrun.fast.specialization import CallSite
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.boxes import compute_areas
from irrun.ops._support.nms import suppress_overlapping
from irrun.ops._support.registry import find

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

F32 = np.float32


def draw_boxes(count, seed):
    """Return boxes, of which some are inverted, empty or infinite, or contain NaN."""
    rng = np.random.default_rng(seed)
    centers, sides = rng.random((count, 2), F32), rng.random((count, 2), F32) * F32(0.3)
    boxes = np.concatenate([centers - sides, centers + sides], axis=1)
    boxes[3::11] = boxes[3::11][:, [2, 3, 0, 1]]
    boxes[5::13, 2] = boxes[5::13, 0]
    boxes[7::17, 3] = np.inf
    boxes[2::19, 1] = np.nan
    return boxes


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.3, 0.9])
@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, 40, 300])
def test_the_boxes_of_the_definition_are_selected(count, threshold, monkeypatch):
    from irrun.fast.jit import detections

    monkeypatch.setattr(detections, "MAX_PAIRS", 5000)
    boxes = draw_boxes(count, count)
    with np.errstate(all="ignore"):
        areas = compute_areas(boxes)
        expected = suppress_overlapping(boxes, areas, F32(threshold))
    np.testing.assert_array_equal(detections.suppress_overlapping(boxes, areas, F32(threshold)), expected)


ATTRIBUTES = {"keep_top_k": [30], "nms_threshold": 0.4, "confidence_threshold": 0.3, "top_k": 50}
CODE_TYPES = ["caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"]


@pytest.mark.parametrize("version", ["opset1", "opset8"])
@pytest.mark.parametrize("has_refinement", [False, True])
@pytest.mark.parametrize("changes", [{}, {"share_location": False}, {"confidence_threshold": -1.0, "top_k": -1}])
def test_detections_have_the_bits_of_the_definition(version, has_refinement, changes):
    from irrun.fast.jit.sites import create_kernel

    rng = np.random.default_rng(0)
    images, priors, classes = 2, 90, 4
    attributes = {**ATTRIBUTES, "normalized": True, "code_type": CODE_TYPES[has_refinement], **changes}
    if version == "opset1":
        attributes["num_classes"] = classes
    location_classes = 1 if attributes.get("share_location", True) else classes
    inputs = [
        rng.normal(size=(images, priors * location_classes * 4)),
        rng.random((images, priors * classes)),
        np.stack([draw_boxes(priors, 1).reshape(-1), np.full(priors * 4, 0.1)])[np.newaxis],
    ]
    if has_refinement:
        attributes["objectness_score"] = 0.3
        inputs += [rng.random((images, priors * 2)), rng.normal(size=inputs[0].shape)]
    inputs = [x.astype(F32) for x in inputs]
    load_kernels("DetectionOutput")
    operation = find("DetectionOutput", version)
    constants = (None, None, inputs[2], *inputs[5:], *[None] * (len(inputs) - 3))
    site = CallSite(operation, attributes, constants, (False,) * len(inputs), 1)
    kernel = create_kernel(site, [x.shape for x in inputs] + [(1, 1, 60, 7)])
    with np.errstate(all="ignore"):
        expected = operation.kernel(*inputs, **attributes)
        result = kernel(*inputs[:2], *inputs[3:])
    assert result.shape == expected.shape
    assert (expected[0, 0, :, 0] == 1).any()
    np.testing.assert_array_equal(result, expected)
    wrong = [x.shape for x in inputs]
    wrong[1] = (images, priors * classes + priors)
    if version == "opset1":
        with pytest.raises(NoKernelError, match="number of priors and classes"):
            create_kernel(site, [*wrong, (1, 1, 60, 7)])
    else:
        create_kernel(site, [*wrong, (1, 1, 60, 7)])
