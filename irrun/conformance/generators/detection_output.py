"""Conformance cases for DetectionOutput."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases

CORNER = "caffe.PriorBoxParameter.CORNER"
CENTER = "caffe.PriorBoxParameter.CENTER_SIZE"


def _make_case(
    rng, version, *, images=2, priors=12, classes=4, dtype=np.float32, aux=False, one_prior_set=True, **overrides
):
    """Return a case of random priors with predictions close to them, so that boxes of a class overlap."""
    attributes = {
        "background_label_id": 0,
        "top_k": -1,
        "keep_top_k": [10],
        "code_type": CENTER,
        "share_location": True,
        "nms_threshold": 0.4,
        "confidence_threshold": 0.2,
        "normalized": True,
        "variance_encoded_in_target": False,
        "clip_before_nms": False,
        "clip_after_nms": False,
        "decrease_label_id": False,
        "input_height": 1,
        "input_width": 1,
        "objectness_score": 0.0,
    }
    note = overrides.pop("note", "")
    options = {key: overrides.pop(key) for key in ("dynamic", "tolerance") if key in overrides}
    attributes.update(overrides)
    if version == 1:
        attributes["num_classes"] = classes
    sets = 1 if one_prior_set else images
    low = rng.uniform(-0.1, 0.6, (sets, priors, 2))
    anchors = np.concatenate([low, low + rng.uniform(0.2, 0.5, low.shape)], axis=-1)
    if not attributes["normalized"]:
        size = np.array([attributes["input_width"], attributes["input_height"]] * 2)
        marks = np.arange(priors)[None, :, None] % 3 + np.zeros((sets, priors, 1))
        anchors = np.concatenate([marks, anchors * size], axis=-1)
    proposals = anchors.reshape(sets, 1, -1)
    if not attributes["variance_encoded_in_target"]:
        variances = np.zeros_like(proposals)
        variances[..., : priors * 4] = rng.uniform(0.1, 0.3, (sets, 1, priors * 4))
        proposals = np.concatenate([proposals, variances], axis=1)
    location_classes = 1 if attributes["share_location"] else classes
    spread = 0.15 if attributes["variance_encoded_in_target"] else 0.6
    inputs = [
        rng.normal(scale=spread, size=(images, priors * location_classes * 4)),
        rng.permutation(images * priors * classes).reshape(images, -1) / (images * priors * classes),
        proposals,
    ]
    if aux:
        inputs.append(rng.uniform(0, 1, (images, priors * 2)))
        inputs.append(rng.normal(scale=spread, size=inputs[0].shape))
    return Case([x.astype(dtype) for x in inputs], attributes, note=note, **options)


@register_cases("DetectionOutput", since=1, version=1)
@register_cases("DetectionOutput", since=8, version=8)
def _generate_cases(rng, version):
    for code_type in (CORNER, CENTER):
        for share_location in (True, False):
            for in_target in (True, False):
                yield _make_case(
                    rng,
                    version,
                    code_type=code_type,
                    share_location=share_location,
                    variance_encoded_in_target=in_target,
                )
    for keep_top_k, top_k in ((3, -1), (3, 4), (100, 2), (-1, -1), (-1, 3), (-1, 50)):
        for decrease in (False, True):
            yield _make_case(rng, version, keep_top_k=[keep_top_k], top_k=top_k, decrease_label_id=decrease)
    for background in (-1, 0, 1, 3):
        yield _make_case(rng, version, background_label_id=background)
    # The CPU plugin supports decrease_label_id only with background 0, and evaluate is not implemented.
    yield _make_case(rng, version, share_location=False, decrease_label_id=True)
    for before in (False, True):
        for after in (False, True):
            yield _make_case(rng, version, clip_before_nms=before, clip_after_nms=after, code_type=CORNER)
    for code_type in (CORNER, CENTER):
        for in_target in (False, True):
            yield _make_case(
                rng,
                version,
                code_type=code_type,
                normalized=False,
                variance_encoded_in_target=in_target,
                input_height=240,
                input_width=320,
                note="priors in pixels",
            )
    yield _make_case(rng, version, one_prior_set=False, note="separate priors for each image")
    yield _make_case(rng, version, one_prior_set=False, normalized=False, input_height=24, input_width=32)
    for share_location in (True, False):
        for score in (0.0, 0.4, 2.0):
            yield _make_case(
                rng,
                version,
                aux=True,
                images=1 if score else 2,
                one_prior_set=False,
                share_location=share_location,
                objectness_score=score,
                note="refined priors",
            )
    yield _make_case(
        rng, version, aux=True, images=1, objectness_score=0.5, clip_before_nms=True, note="refined priors"
    )
    yield _make_case(
        rng, version, aux=True, images=1, objectness_score=0.5, decrease_label_id=True, note="refined, MXNet"
    )
    for threshold in (0.0, 0.7, 1.0):
        yield _make_case(rng, version, nms_threshold=threshold)
    for threshold in (-1.0, 0.9, 2.0):
        yield _make_case(rng, version, confidence_threshold=threshold)
        yield _make_case(rng, version, confidence_threshold=threshold, decrease_label_id=True)
    yield _make_case(rng, version, classes=1, background_label_id=-1)
    yield _make_case(rng, version, images=1, priors=1)
    yield _make_case(rng, version, priors=60, classes=3, keep_top_k=[40], note="many boxes")
    equal = _make_case(rng, version, keep_top_k=[20], top_k=6, note="equal scores are sorted by prior")
    equal.inputs[1] = np.round(equal.inputs[1] * 4).astype(np.float32) / 4
    yield equal
    yield _make_case(rng, version, dynamic=(0, 1, 2), note="dynamic shapes")
    half = {"dtype": np.float16, "note": "computed in f32"}
    yield _make_case(rng, version, **half)
    yield _make_case(rng, version, decrease_label_id=True, share_location=False, **half)
