"""Conformance cases for non-maximum suppression."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases

F32 = np.float32


def _convert_to_f16(case):
    """Convert the floats of a case to f16, which OpenVINO computes in f32 as well."""
    case.inputs = [x.astype(np.float16) if x.dtype == F32 else x for x in case.inputs]
    case.note = "in f16"
    return case


def _clear_undefined_count(outputs):
    """Clear the number of selected boxes if it is 0, because the CPU plugin leaves it undefined."""
    if len(outputs) == 3 and not len(outputs[0]):
        outputs[2] = np.zeros_like(outputs[2])
    return outputs


def _sample_boxes(rng, images, count, *, encoding="corner", pixels=False):
    """Return random boxes in clusters, so that many overlap."""
    centers = rng.uniform(0, 1, (images, max(1, count // 3), 2))
    cluster = rng.integers(0, centers.shape[1], (images, count))
    center = np.take_along_axis(centers, cluster[..., None], axis=1) + rng.normal(scale=0.05, size=(images, count, 2))
    size = rng.uniform(0.15, 0.4, (images, count, 2))
    if encoding == "center":
        return np.concatenate([center, size], axis=-1).astype(F32)
    boxes = np.concatenate([center - size / 2, center + size / 2], axis=-1)
    return ((boxes * 50).round() if pixels else boxes).astype(F32)


def _make_scores(rng, shape):
    """Return distinct scores between 0 and 1."""
    count = int(np.prod(shape))
    return ((rng.permutation(count) + 1) / (count + 1)).reshape(shape).astype(F32)


@register_cases("NonMaxSuppression", since=1, version=1)
@register_cases("NonMaxSuppression", since=3, version=3)
@register_cases("NonMaxSuppression", since=4, version=4)
@register_cases("NonMaxSuppression", since=5, version=5)
@register_cases("NonMaxSuppression", since=9, version=9)
def _generate_nms_cases(rng, version):
    def make_case(
        *, images=1, classes=2, count=12, max_boxes=4, iou=0.4, score=0.2, sigma=None, soft=False, **overrides
    ):
        options = {k: overrides.pop(k) for k in ("note", "constants", "dynamic", "expected") if k in overrides}
        scalars = overrides.pop("scalars", ())
        kind = overrides.pop("kind", np.int64)
        attributes = {"box_encoding": "corner", "sort_result_descending": True, **overrides}
        inputs = [
            _sample_boxes(rng, images, count, encoding=attributes["box_encoding"]),
            _make_scores(rng, (images, classes, count)),
            np.full(scalars, max_boxes, kind),
        ]
        for value in (iou, score, sigma):
            if value is not None:
                inputs.append(np.full(scalars, value, F32))
        return Case(inputs, attributes, normalize=_clear_undefined_count, **options)

    for encoding in ("corner", "center"):
        for descending in (True, False):
            yield make_case(box_encoding=encoding, sort_result_descending=descending, images=2)
            yield make_case(box_encoding=encoding, sort_result_descending=descending, images=3, classes=3, max_boxes=2)
    for max_boxes in (0, 1, 3, 100):
        yield make_case(max_boxes=max_boxes, constants=(2, 3, 4))
    for iou in (0.0, 0.1, 0.3, 0.7, 1.0):
        yield make_case(iou=iou, max_boxes=100)
    for score in (0.0, 0.5, 0.99, 2.0):
        yield make_case(score=score, max_boxes=100)
    yield make_case(score=-1.0, max_boxes=100)
    if version >= 5:
        yield make_case(scalars=(1,), note="thresholds of rank 1")
    yield make_case(kind=np.int32)
    yield make_case(constants=(2, 3, 4), images=2)
    yield make_case(dynamic=(1,), images=2)
    yield make_case(count=1)
    yield make_case(count=80, classes=4, max_boxes=30, iou=0.6)
    yield make_case(count=600, classes=1, max_boxes=200, iou=0.7, note="more boxes than one block")
    if version >= 3:
        for kind in ("i32", "i64"):
            yield make_case(output_type=kind)
            yield make_case(output_type=kind, images=2, sort_result_descending=False)

    yield _convert_to_f16(make_case(images=2))
    equal = make_case(max_boxes=20, iou=0.5, images=2)
    equal.inputs[1] = (np.round(equal.inputs[1] * 3) / 3).astype(F32)
    equal.note = "equal scores go by image, class and box"
    yield equal
    flipped = make_case(images=2)
    flipped.inputs[0][:, ::2] = flipped.inputs[0][:, ::2][..., [2, 1, 0, 3]]
    flipped.note = "corners in any order"
    yield flipped
    flat = make_case(max_boxes=20)
    flat.inputs[0][:, ::3, 2:] = flat.inputs[0][:, ::3, :2]
    flat.note = "boxes without an area"
    yield flat
    exact = make_case(max_boxes=20, count=5, classes=1, iou=0.5, score=0.0)
    exact.inputs[0] = np.array([[[0, 0, 1, 1], [0, 0, 0.5, 1], [2, 2, 3, 3], [0, 0, 1, 1], [2, 2, 2.5, 2.5]]], F32)
    exact.note = "overlaps of exactly the threshold"
    yield exact
    three = make_case(max_boxes=3)
    three.inputs = three.inputs[:3]
    three.note = "without thresholds"
    yield three
    if version < 5:
        return
    four = make_case(max_boxes=3)
    four.inputs = four.inputs[:4]
    four.note = "without a score threshold"
    yield four
    yield _convert_to_f16(make_case(sigma=0.5, box_encoding="center"))
    for sigma in (0.0, 0.1, 0.5, 2.0):
        for encoding in ("corner", "center"):
            yield make_case(sigma=sigma, images=2, max_boxes=6, box_encoding=encoding)
        yield make_case(sigma=sigma, images=2, max_boxes=100, score=0.0, sort_result_descending=False)
    yield make_case(sigma=-1.0, max_boxes=10, note="negative sigma is ignored")
    yield make_case(sigma=0.3, count=60, classes=3, max_boxes=25, score=0.05)
    for iou in (0.0, 0.5, 1.0):
        yield make_case(sigma=0.5, iou=iou, max_boxes=10)


@register_cases("NMSRotated", since=13)
def nms_rotated_13(rng):
    def make_case(*, images=1, classes=2, count=12, max_boxes=6, iou=0.3, score=0.2, **overrides):
        options = {k: overrides.pop(k) for k in ("note", "dynamic", "boxes") if k in overrides}
        attributes = {"sort_result_descending": True, "output_type": "i64", "clockwise": True, **overrides}
        boxes = options.pop("boxes", None)
        if boxes is None:
            boxes = _sample_boxes(rng, images, count, encoding="center")
            boxes[..., 3] *= 0.4
            boxes = np.concatenate([boxes, rng.uniform(-3.2, 3.2, (images, count, 1))], axis=-1)
        inputs = [
            np.asarray(boxes, F32),
            _make_scores(rng, (images, classes, np.shape(boxes)[1])),
            np.array(max_boxes, np.int64),
            np.array(iou, F32),
            np.array(score, F32),
        ]
        return Case(inputs, attributes, constants=(2, 3, 4), normalize=_clear_undefined_count, **options)

    for clockwise in (True, False):
        for descending in (True, False):
            for kind in ("i32", "i64"):
                yield make_case(clockwise=clockwise, sort_result_descending=descending, output_type=kind, images=2)
        for iou in (0.0, 0.1, 0.5, 0.9):
            yield make_case(clockwise=clockwise, iou=iou, max_boxes=100, images=2)
        yield make_case(clockwise=clockwise, count=60, classes=3, max_boxes=30, iou=0.2)
    for max_boxes in (0, 1, 3):
        yield make_case(max_boxes=max_boxes)
    for score in (0.0, 0.5, 2.0):
        yield make_case(score=score)
    yield make_case(count=1)
    yield _convert_to_f16(make_case(images=2))
    yield make_case(dynamic=(1,))
    square = [0.5, 0.5, 0.4, 0.4]
    for iou in (0.3, 0.6, 0.8):
        rotated = [[*square, angle] for angle in (0, np.pi / 4, np.pi / 2, 0.1, np.pi)]
        yield make_case(boxes=[rotated], iou=iou, score=0.0, note="rotated square")
    yield make_case(
        boxes=[[[0, 0, 2, 1, 0.3], [5, 5, 1, 1, 0], [0, 0, 1, 0.5, 0.3], [0, 0, 0, 1, 0]]],
        note="nested and flat boxes",
    )


@register_cases("MatrixNms", since=8)
def matrix_nms_8(rng):
    def make_case(*, images=1, classes=3, count=12, note="", dynamic=(), **overrides):
        attributes = {
            "sort_result_type": "none",
            "sort_result_across_batch": False,
            "output_type": "i64",
            "score_threshold": 0.1,
            "nms_top_k": -1,
            "keep_top_k": -1,
            "background_class": -1,
            "normalized": True,
            "decay_function": "linear",
            "gaussian_sigma": 2.0,
            "post_threshold": 0.0,
        }
        attributes.update(overrides)
        pixels = not attributes["normalized"]
        inputs = [_sample_boxes(rng, images, count, pixels=pixels), _make_scores(rng, (images, classes, count))]
        return Case(inputs, attributes, note=note, dynamic=dynamic, normalize=_clear_undefined_count)

    for function in ("linear", "gaussian"):
        for normalized in (True, False):
            for images in (1, 3):
                yield make_case(decay_function=function, normalized=normalized, images=images)
            yield make_case(decay_function=function, normalized=normalized, post_threshold=0.4, images=2)
        for order in ("none", "score", "classid"):
            for across in (True, False):
                yield make_case(
                    decay_function=function, sort_result_type=order, sort_result_across_batch=across, images=2
                )
        yield make_case(decay_function=function, count=70, nms_top_k=50, keep_top_k=60)
    for sigma in (0.5, 1.0, 3.0):
        yield make_case(decay_function="gaussian", gaussian_sigma=sigma)
    for background in (-1, 0, 1, 7):
        yield make_case(background_class=background, images=2)
    for top in (-1, 1, 3, 100):
        yield make_case(nms_top_k=top, images=2)
        yield make_case(keep_top_k=top, images=2)
    for threshold in (0.0, 0.5):  # the CPU plugin corrupts memory if no box is selected
        yield make_case(score_threshold=threshold)
    for kind in ("i32", "i64"):
        yield make_case(output_type=kind)
    yield _convert_to_f16(make_case(images=2))
    yield _convert_to_f16(make_case(decay_function="gaussian"))
    yield make_case(count=1, classes=1)
    yield make_case(dynamic=(1,), images=2)


@register_cases("MulticlassNms", since=8, version=8)
@register_cases("MulticlassNms", since=9, version=9)
def _generate_multiclass_cases(rng, version):
    def make_case(
        *, images=1, classes=3, count=12, note="", dynamic=(), numbers=None, number_type=np.int64, **overrides
    ):
        attributes = {
            "sort_result_type": "none",
            "sort_result_across_batch": False,
            "output_type": "i64",
            "iou_threshold": 0.4,
            "score_threshold": 0.1,
            "nms_top_k": -1,
            "keep_top_k": -1,
            "background_class": -1,
            "normalized": True,
            "nms_eta": 1.0,
        }
        attributes.update(overrides)
        pixels = not attributes["normalized"]
        if numbers is None:
            inputs = [_sample_boxes(rng, images, count, pixels=pixels), _make_scores(rng, (images, classes, count))]
        else:
            count = sum(numbers)
            inputs = [_sample_boxes(rng, classes, count, pixels=pixels), _make_scores(rng, (classes, count))]
            inputs.append(np.array(numbers, number_type))
        return Case(inputs, attributes, note=note, dynamic=dynamic, normalize=_clear_undefined_count)

    sets = [{"images": 2}] if version == 8 else [{"images": 2}, {"numbers": (7, 0, 5)}]
    for overrides in sets:
        for normalized in (True, False):
            yield make_case(normalized=normalized, **overrides)
            for threshold in (0.1, 0.7, 1.0):
                yield make_case(normalized=normalized, iou_threshold=threshold, **overrides)
        for eta in (0.0, 0.5, 0.9, 1.0):
            yield make_case(nms_eta=eta, iou_threshold=0.7, **overrides)
        for order in ("none", "score", "classid"):
            for across in (True, False):
                yield make_case(sort_result_type=order, sort_result_across_batch=across, **overrides)
                yield make_case(sort_result_type=order, sort_result_across_batch=across, keep_top_k=4, **overrides)
        for background in (-1, 0, 2, 7):
            yield make_case(background_class=background, **overrides)
        for top in (1, 3, 100):
            yield make_case(nms_top_k=top, **overrides)
            yield make_case(keep_top_k=top, **overrides)
        for threshold in (0.0, 0.5, 2.0):
            yield make_case(score_threshold=threshold, **overrides)
        yield make_case(output_type="i32", **overrides)
    yield make_case(count=1, classes=1)
    yield _convert_to_f16(make_case(images=2))
    yield make_case(count=80, nms_top_k=40, keep_top_k=50, iou_threshold=0.6, nms_eta=0.95)
    yield make_case(dynamic=(1,), images=2)
    if version == 9:
        yield make_case(numbers=(4, 3), number_type=np.int32)
        yield make_case(numbers=(5,))


@register_cases("ExperimentalDetectronTopKROIs", since=6)
def experimental_detectron_topk_rois_6(rng):
    for regions, max_boxes in ((5, 3), (5, 5), (12, 7), (40, 10), (1, 1), (100, 100)):
        boxes = rng.normal(size=(regions, 4)).astype(F32)
        yield Case([boxes, _make_scores(rng, (regions,))], {"max_rois": max_boxes})
    boxes = rng.normal(size=(9, 4)).astype(F32)
    yield Case([boxes, _make_scores(rng, (9,))], {"max_rois": 4}, dynamic=(0, 1))
    yield Case([boxes, np.round(_make_scores(rng, (9,)) * 3).astype(F32)], {"max_rois": 6}, note="equal probabilities")
    yield Case([boxes.astype(np.float16), _make_scores(rng, (9,)).astype(np.float16)], {"max_rois": 4})
    yield Case([boxes, -_make_scores(rng, (9,))], {"max_rois": 4}, note="negative probabilities")
