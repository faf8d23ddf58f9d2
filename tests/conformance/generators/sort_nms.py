"""Configurations for the suppression of overlapping boxes."""

from __future__ import annotations

import numpy as np

from conformance.harness import Case, configurations

F32 = np.float32


def _half(case):
    """The configuration with its floats in f16; OpenVINO computes it in f32 too."""
    case.inputs = [x.astype(np.float16) if x.dtype == F32 else x for x in case.inputs]
    case.note = "in f16"
    return case


def _counted(outputs):
    """Where nothing is selected, the CPU plugin leaves the number of selected boxes undefined."""
    if len(outputs) == 3 and not len(outputs[0]):
        outputs[2] = np.zeros_like(outputs[2])
    return outputs


def _boxes(rng, images, count, *, encoding="corner", pixels=False):
    """Boxes in clusters, so that many overlap."""
    centers = rng.uniform(0, 1, (images, max(1, count // 3), 2))
    chosen = rng.integers(0, centers.shape[1], (images, count))
    center = np.take_along_axis(centers, chosen[..., None], axis=1) + rng.normal(scale=0.05, size=(images, count, 2))
    size = rng.uniform(0.15, 0.4, (images, count, 2))
    if encoding == "center":
        return np.concatenate([center, size], axis=-1).astype(F32)
    boxes = np.concatenate([center - size / 2, center + size / 2], axis=-1)
    return ((boxes * 50).round() if pixels else boxes).astype(F32)


def _scores(rng, shape):
    """Scores between 0 and 1 no two of which are equal."""
    count = int(np.prod(shape))
    return ((rng.permutation(count) + 1) / (count + 1)).reshape(shape).astype(F32)


def _nms(rng, version):
    def case(*, images=1, classes=2, count=12, most=4, iou=0.4, score=0.2, sigma=None, soft=False, **own):
        rest = {k: own.pop(k) for k in ("note", "constants", "dynamic", "oracles", "expected") if k in own}
        scalars = own.pop("scalars", ())
        kind = own.pop("kind", np.int64)
        attributes = {"box_encoding": "corner", "sort_result_descending": True, **own}
        inputs = [
            _boxes(rng, images, count, encoding=attributes["box_encoding"]),
            _scores(rng, (images, classes, count)),
            np.full(scalars, most, kind),
        ]
        for value in (iou, score, sigma):
            if value is not None:
                inputs.append(np.full(scalars, value, F32))
        return Case(inputs, attributes, normalize=_counted, **rest)

    for encoding in ("corner", "center"):
        for descending in (True, False):
            yield case(box_encoding=encoding, sort_result_descending=descending, images=2)
            yield case(box_encoding=encoding, sort_result_descending=descending, images=3, classes=3, most=2)
    for most in (0, 1, 3, 100):
        yield case(most=most, constants=(2, 3, 4))
    for iou in (0.0, 0.1, 0.3, 0.7, 1.0):
        yield case(iou=iou, most=100)
    for score in (0.0, 0.5, 0.99, 2.0):
        yield case(score=score, most=100)
    yield case(score=-1.0, most=100)
    if version >= 5:
        yield case(scalars=(1,), note="thresholds of rank 1")
    yield case(kind=np.int32)
    yield case(constants=(2, 3, 4), images=2)
    yield case(dynamic=(1,), images=2)
    yield case(count=1)
    yield case(count=80, classes=4, most=30, iou=0.6)
    yield case(count=600, classes=1, most=200, iou=0.7, note="more boxes than are judged at once")
    if version >= 3:
        for kind in ("i32", "i64"):
            yield case(output_type=kind)
            yield case(output_type=kind, images=2, sort_result_descending=False)

    yield _half(case(images=2))
    equal = case(most=20, iou=0.5, images=2)
    equal.inputs[1] = (np.round(equal.inputs[1] * 3) / 3).astype(F32)
    equal.note = "equal scores go by image, class and box"
    yield equal
    flipped = case(images=2)
    flipped.inputs[0][:, ::2] = flipped.inputs[0][:, ::2][..., [2, 1, 0, 3]]
    flipped.note = "corners in any order"
    yield flipped
    flat = case(most=20)
    flat.inputs[0][:, ::3, 2:] = flat.inputs[0][:, ::3, :2]
    flat.note = "boxes without an area"
    yield flat
    exact = case(most=20, count=5, classes=1, iou=0.5, score=0.0)
    exact.inputs[0] = np.array([[[0, 0, 1, 1], [0, 0, 0.5, 1], [2, 2, 3, 3], [0, 0, 1, 1], [2, 2, 2.5, 2.5]]], F32)
    exact.note = "overlaps of exactly the threshold"
    yield exact
    three = case(most=3)
    three.inputs = three.inputs[:3]
    three.note = "without thresholds"
    yield three
    if version < 5:
        return
    four = case(most=3)
    four.inputs = four.inputs[:4]
    four.note = "without a score threshold"
    yield four
    yield _half(case(sigma=0.5, box_encoding="center"))
    for sigma in (0.0, 0.1, 0.5, 2.0):
        for encoding in ("corner", "center"):
            yield case(sigma=sigma, images=2, most=6, box_encoding=encoding)
        yield case(sigma=sigma, images=2, most=100, score=0.0, sort_result_descending=False)
    yield case(sigma=-1.0, most=10, note="a negative sigma means none")
    yield case(sigma=0.3, count=60, classes=3, most=25, score=0.05)
    for iou in (0.0, 0.5, 1.0):
        yield case(sigma=0.5, iou=iou, most=10)


@configurations("NonMaxSuppression", since=1)
def non_max_suppression_1(rng):
    yield from _nms(rng, 1)


@configurations("NonMaxSuppression", since=3)
def non_max_suppression_3(rng):
    yield from _nms(rng, 3)


@configurations("NonMaxSuppression", since=4)
def non_max_suppression_4(rng):
    yield from _nms(rng, 4)


@configurations("NonMaxSuppression", since=5)
def non_max_suppression_5(rng):
    yield from _nms(rng, 5)


@configurations("NonMaxSuppression", since=9)
def non_max_suppression_9(rng):
    yield from _nms(rng, 9)


@configurations("NMSRotated", since=13)
def nms_rotated_13(rng):
    def case(*, images=1, classes=2, count=12, most=6, iou=0.3, score=0.2, **own):
        rest = {k: own.pop(k) for k in ("note", "dynamic", "boxes") if k in own}
        attributes = {"sort_result_descending": True, "output_type": "i64", "clockwise": True, **own}
        boxes = rest.pop("boxes", None)
        if boxes is None:
            boxes = _boxes(rng, images, count, encoding="center")
            boxes[..., 3] *= 0.4
            boxes = np.concatenate([boxes, rng.uniform(-3.2, 3.2, (images, count, 1))], axis=-1)
        inputs = [
            np.asarray(boxes, F32),
            _scores(rng, (images, classes, np.shape(boxes)[1])),
            np.array(most, np.int64),
            np.array(iou, F32),
            np.array(score, F32),
        ]
        return Case(inputs, attributes, constants=(2, 3, 4), normalize=_counted, **rest)

    for clockwise in (True, False):
        for descending in (True, False):
            for kind in ("i32", "i64"):
                yield case(clockwise=clockwise, sort_result_descending=descending, output_type=kind, images=2)
        for iou in (0.0, 0.1, 0.5, 0.9):
            yield case(clockwise=clockwise, iou=iou, most=100, images=2)
        yield case(clockwise=clockwise, count=60, classes=3, most=30, iou=0.2)
    for most in (0, 1, 3):
        yield case(most=most)
    for score in (0.0, 0.5, 2.0):
        yield case(score=score)
    yield case(count=1)
    yield _half(case(images=2))
    yield case(dynamic=(1,))
    square = [0.5, 0.5, 0.4, 0.4]
    for iou in (0.3, 0.6, 0.8):
        turned = [[*square, angle] for angle in (0, np.pi / 4, np.pi / 2, 0.1, np.pi)]
        yield case(boxes=[turned], iou=iou, score=0.0, note="one square, turned")
    yield case(boxes=[[[0, 0, 2, 1, 0.3], [5, 5, 1, 1, 0], [0, 0, 1, 0.5, 0.3], [0, 0, 0, 1, 0]]], note="nested, flat")


@configurations("MatrixNms", since=8)
def matrix_nms_8(rng):
    def case(*, images=1, classes=3, count=12, note="", dynamic=(), **own):
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
        attributes.update(own)
        pixels = not attributes["normalized"]
        inputs = [_boxes(rng, images, count, pixels=pixels), _scores(rng, (images, classes, count))]
        return Case(inputs, attributes, note=note, dynamic=dynamic, normalize=_counted)

    for function in ("linear", "gaussian"):
        for normalized in (True, False):
            for images in (1, 3):
                yield case(decay_function=function, normalized=normalized, images=images)
            yield case(decay_function=function, normalized=normalized, post_threshold=0.4, images=2)
        for order in ("none", "score", "classid"):
            for across in (True, False):
                yield case(decay_function=function, sort_result_type=order, sort_result_across_batch=across, images=2)
        yield case(decay_function=function, count=70, nms_top_k=50, keep_top_k=60)
    for sigma in (0.5, 1.0, 3.0):
        yield case(decay_function="gaussian", gaussian_sigma=sigma)
    for background in (-1, 0, 1, 7):
        yield case(background_class=background, images=2)
    for top in (-1, 1, 3, 100):
        yield case(nms_top_k=top, images=2)
        yield case(keep_top_k=top, images=2)
    for threshold in (0.0, 0.5):  # the CPU plugin damages its memory where nothing is selected
        yield case(score_threshold=threshold)
    for kind in ("i32", "i64"):
        yield case(output_type=kind)
    yield _half(case(images=2))
    yield _half(case(decay_function="gaussian"))
    yield case(count=1, classes=1)
    yield case(dynamic=(1,), images=2)


def _multiclass(rng, version):
    def case(*, images=1, classes=3, count=12, note="", dynamic=(), numbers=None, number_type=np.int64, **own):
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
        attributes.update(own)
        pixels = not attributes["normalized"]
        if numbers is None:
            inputs = [_boxes(rng, images, count, pixels=pixels), _scores(rng, (images, classes, count))]
        else:
            count = sum(numbers)
            inputs = [_boxes(rng, classes, count, pixels=pixels), _scores(rng, (classes, count))]
            inputs.append(np.array(numbers, number_type))
        return Case(inputs, attributes, note=note, dynamic=dynamic, normalize=_counted)

    sets = [{"images": 2}] if version == 8 else [{"images": 2}, {"numbers": (7, 0, 5)}]
    for own in sets:
        for normalized in (True, False):
            yield case(normalized=normalized, **own)
            for threshold in (0.1, 0.7, 1.0):
                yield case(normalized=normalized, iou_threshold=threshold, **own)
        for eta in (0.0, 0.5, 0.9, 1.0):
            yield case(nms_eta=eta, iou_threshold=0.7, **own)
        for order in ("none", "score", "classid"):
            for across in (True, False):
                yield case(sort_result_type=order, sort_result_across_batch=across, **own)
                yield case(sort_result_type=order, sort_result_across_batch=across, keep_top_k=4, **own)
        for background in (-1, 0, 2, 7):
            yield case(background_class=background, **own)
        for top in (1, 3, 100):
            yield case(nms_top_k=top, **own)
            yield case(keep_top_k=top, **own)
        for threshold in (0.0, 0.5, 2.0):
            yield case(score_threshold=threshold, **own)
        yield case(output_type="i32", **own)
    yield case(count=1, classes=1)
    yield _half(case(images=2))
    yield case(count=80, nms_top_k=40, keep_top_k=50, iou_threshold=0.6, nms_eta=0.95)
    yield case(dynamic=(1,), images=2)
    if version == 9:
        yield case(numbers=(4, 3), number_type=np.int32)
        yield case(numbers=(5,))


@configurations("MulticlassNms", since=8)
def multiclass_nms_8(rng):
    yield from _multiclass(rng, 8)


@configurations("MulticlassNms", since=9)
def multiclass_nms_9(rng):
    yield from _multiclass(rng, 9)


@configurations("ExperimentalDetectronTopKROIs", since=6)
def experimental_detectron_topk_rois_6(rng):
    for regions, most in ((5, 3), (5, 5), (12, 7), (40, 10), (1, 1), (100, 100)):
        boxes = rng.normal(size=(regions, 4)).astype(F32)
        yield Case([boxes, _scores(rng, (regions,))], {"max_rois": most})
    boxes = rng.normal(size=(9, 4)).astype(F32)
    yield Case([boxes, _scores(rng, (9,))], {"max_rois": 4}, dynamic=(0, 1))
    yield Case([boxes, np.round(_scores(rng, (9,)) * 3).astype(F32)], {"max_rois": 6}, note="equal probabilities")
    yield Case([boxes.astype(np.float16), _scores(rng, (9,)).astype(np.float16)], {"max_rois": 4})
    yield Case([boxes, -_scores(rng, (9,))], {"max_rois": 4}, note="negative probabilities")
