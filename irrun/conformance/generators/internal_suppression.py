"""Conformance cases for suppression and proposals with outputs of static shapes."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.internal import F32, make_case, sample_normal
from irrun.conformance.harness import COMPUTE, build_model, run_on_device


def pad_rows(rows, length):
    """Return `rows` padded with rows of -1."""
    return np.concatenate([rows, np.full((length - len(rows), *rows.shape[1:]), -1, rows.dtype)])


def sample_boxes_and_scores(rng, batch, classes, boxes):
    corner = rng.random((batch, boxes, 2))
    return np.concatenate([corner, corner + rng.random((batch, boxes, 2))], axis=2).astype(F32), rng.permutation(
        batch * classes * boxes
    ).reshape(batch, classes, boxes).astype(F32) / (batch * classes * boxes)


@register_cases("NonMaxSuppressionIEInternal", since=0)
def non_max_suppression_ie_internal(rng):
    from openvino import opset9 as ops
    from openvino import opset13

    for center, descending, sigma in product((0, 1), (False, True), (None, 0.0, 0.5)):
        boxes, scores = sample_boxes_and_scores(rng, 2, 3, 6)
        limits = [np.array(2), np.array(0.3, F32), np.array(0.2, F32)]
        limits += [] if sigma is None else [np.array(sigma, F32)]
        encoding = "center" if center else "corner"
        options = {"box_encoding": encoding, "sort_result_descending": descending, "output_type": "i32"}
        constants = [ops.constant(x) for x in limits]
        indices, selected, count = compute_outputs(
            lambda *data, c=constants, o=options: ops.non_max_suppression(*data, *c, **o), boxes, scores
        )
        expected = [pad_rows(indices, 2 * 3 * 2), pad_rows(selected, 2 * 3 * 2), count]
        attributes = {
            "center_point_box": center,
            "sort_result_descending": descending,
            "output_type": "i32",
            "score_output_type": "f32",
            "rotation": 0,
        }
        yield make_case(
            "NonMaxSuppressionIEInternal", "ie_internal_opset", [boxes, scores, *limits], attributes, expected
        )
    for rotation in (1, 2):
        boxes, scores = sample_boxes_and_scores(rng, 1, 2, 5)
        boxes = np.concatenate([boxes, rng.random((1, 5, 1)).astype(F32)], axis=2)
        limits = [np.array(9), np.array(0.3, F32), np.array(0.2, F32)]
        constants = [ops.constant(x) for x in limits]
        indices, selected, count = compute_outputs(
            lambda *data, c=constants, r=rotation: opset13.nms_rotated(*data, *c, True, "i32", r == 1), boxes, scores
        )
        attributes = {"sort_result_descending": True, "output_type": "i32", "rotation": rotation}
        expected = [pad_rows(indices, 5 * 2), pad_rows(selected, 5 * 2), count]
        yield make_case(
            "NonMaxSuppressionIEInternal", "ie_internal_opset", [boxes, scores, *limits], attributes, expected
        )


def compute_outputs(make, boxes, scores):
    """Compute all outputs of the node that `make` creates from boxes and scores."""
    import openvino as ov

    parameters = [ov.op.Parameter(ov.Type.f32, ov.PartialShape(list(x.shape))) for x in (boxes, scores)]
    results = [ov.op.Result(o) for o in make(*parameters).outputs()]
    return COMPUTE["cpu"](ov.Model(results, parameters), [boxes, scores])


def pad_batches(outputs, length):
    """Pad the rows of each image with rows of -1."""
    ends = np.cumsum(outputs[2])
    images = list(zip(ends - outputs[2], ends, strict=True))
    return [*(np.concatenate([pad_rows(x[a:b], length) for a, b in images]) for x in outputs[:2]), outputs[2]]


def generate_padded_cases(rng, type, **others):
    """Yield the cases of an operation over classes; `others` are its attributes beside the common ones."""
    from openvino import opset9 as ops

    create = ops.matrix_nms if type == "MatrixNms" else ops.multiclass_nms
    for background, nms_top_k, keep_top_k in product((-1, 0), (-1, 3), (-1, 4)):
        boxes, scores = sample_boxes_and_scores(rng, 2, 3, 6)
        attributes = {
            "sort_result_type": "score",
            "sort_result_across_batch": False,
            "output_type": "i32",
            "score_threshold": 0.1,
            "nms_top_k": nms_top_k,
            "keep_top_k": keep_top_k,
            "background_class": background,
            "normalized": True,
            **others,
        }
        outputs = compute_outputs(lambda *data, a=attributes: create(*data, **a), boxes, scores)
        rows = count_rows_per_image(6, 3, background, nms_top_k, keep_top_k)
        yield make_case(type, "ie_internal_opset", [boxes, scores], attributes, pad_batches(outputs, rows))


@register_cases("MatrixNms", since=0)
def matrix_nms(rng):
    yield from generate_padded_cases(rng, "MatrixNms", decay_function="linear", gaussian_sigma=2.0, post_threshold=0.1)


@register_cases("MulticlassNmsIEInternal", since=0)
def multiclass_nms(rng):
    yield from generate_padded_cases(rng, "MulticlassNmsIEInternal", iou_threshold=0.3, nms_eta=1.0)


def count_rows_per_image(boxes, classes, background, nms_top_k, keep_top_k):
    rows = (nms_top_k if 0 <= nms_top_k < boxes else boxes) * (classes - (0 <= background < classes))
    return min(rows, keep_top_k) if keep_top_k >= 0 else rows


@register_cases("GenerateProposalsIEInternal", since=0)
def generate_proposals_ie_internal(rng):
    for images, post, pre, threshold, count_type in [
        (1, 10, 40, 0.5, "i64"),
        (1, 100, 40, 0.7, "i32"),
        (2, 5, 30, 0.4, "i64"),
        (3, 1, 40, 0.7, "i64"),
        (2, 60, 1000, 1.0, "i32"),
        (1, 3, 2, 0.7, "i64"),
        (2, 20, 10, 0.1, "i64"),
        (1, 8, 40, 0.9, "i32"),
    ]:
        corner = rng.uniform(0, 30, (4, 5, 3, 2))
        size = rng.uniform(5, 20, corner.shape)
        inputs = [
            np.array([[50.0, 60.0, 1.0]] * images, F32),
            np.concatenate([corner, corner + size], axis=-1).astype(F32),
            sample_normal(rng, images, 12, 4, 5) * F32(0.3),
            rng.permutation(images * 60).reshape(images, 3, 4, 5).astype(F32) / (images * 60),
        ]
        attributes = {"min_size": 1.0, "nms_threshold": threshold, "post_nms_count": post, "pre_nms_count": pre}
        attributes |= {"normalized": True, "nms_eta": 1.0, "roi_num_type": count_type}
        model = build_model("GenerateProposals", 9, Case(inputs, attributes))
        boxes, scores, counts = run_on_device(model, inputs, "CPU")
        padding = images * post - len(scores)
        expected = [np.pad(boxes, [(0, padding), (0, 0)]), np.pad(scores, (0, padding)), counts]
        type_name = "GenerateProposalsIEInternal"
        yield make_case(type_name, "ie_internal_opset", inputs, attributes, expected, tolerance=(1e-4, 1e-3))
