"""Conformance cases for PriorBox and PriorBoxClustered."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases

FOUR = [0.1, 0.1, 0.2, 0.2]


def _make_sizes(grid, image, dtype=np.int64):
    return [np.array(grid, dtype), np.array(image, dtype)]


def _generate_prior_box_cases(*, version_8: bool):
    extra = {"min_max_aspect_ratios_order": True} if version_8 else {}
    common = {"offset": 0.5, "variance": FOUR, **extra}

    def make_case(attributes, grid=(3, 4), image=(60, 100), dtype=np.int64, **options):
        return Case(_make_sizes(grid, image, dtype), {**common, **attributes}, constants=(0,), **options)

    base = {"min_size": [16.0], "max_size": [38.46], "aspect_ratio": [2.0], "flip": True}
    yield make_case({**base, "step": 16.0})
    yield make_case({**base, "step": 0.0})
    yield make_case({**base, "step": 16.0, "clip": True})
    yield make_case({**base, "step": 16.0, "offset": 0.0})
    yield make_case({**base, "flip": False, "aspect_ratio": [2.0, 3.0, 0.5]})
    yield make_case({**base, "aspect_ratio": [1.0, 2.0, 2.0, 3.0, 1.5]}, note="ratios of 1 and duplicates are ignored")
    yield make_case({**base, "aspect_ratio": []})
    yield make_case({"min_size": [16.0, 30.0], "max_size": [20.0, 40.0], "aspect_ratio": [2.0], "step": 8.0})
    yield make_case(
        {"min_size": [16.0, 30.0], "max_size": [20.0], "aspect_ratio": [2.0]},
        note="fewer values in max_size than in min_size",
    )
    yield make_case({"min_size": [256.0], "max_size": [315.0], "aspect_ratio": [2.0], "flip": True}, (2, 2), (300, 300))
    for variance in ([], [0.3], FOUR):
        yield make_case({**base, "variance": variance})
    for dtype in (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64):
        yield make_case({**base, "step": 4.0}, dtype=dtype)
    yield make_case(base, (0, 3), note="empty grid")
    yield make_case(base, (1, 1), (1, 1))
    yield Case(
        _make_sizes((2, 3), (30, 40)), {**common, **base}, faults=("reference-dynamic-output",), note="dynamic grid"
    )
    for ratios in ([2.0], []):
        mxnet = {"scale_all_sizes": False, "min_size": [0.2, 0.27], "aspect_ratio": ratios, "flip": True}
        for step in (-1.0, 0.0, 0.25):
            yield make_case({**mxnet, "step": step}, note="sizes relative to the height of the image")
    dense = {"fixed_size": [8.0, 16.7], "density": [2.0, 3.0], "step": 8.0, "clip": False}
    yield make_case({**dense, "fixed_ratio": [1.0]}, note="density with one fixed_ratio")
    yield make_case(
        {**dense, "fixed_ratio": [1.0, 2.0], "aspect_ratio": [2.0]}, note="as many fixed_ratio as aspect_ratio values"
    )
    yield make_case({**dense})
    yield make_case({**dense, "aspect_ratio": [2.0], "flip": True})
    yield make_case({**dense, "aspect_ratio": [3.0], "clip": True})
    yield make_case({**dense, "density": [1.0, 1.0], "step": 0.0})


@register_cases("PriorBox", since=1)
def prior_box_1(rng):
    yield from _generate_prior_box_cases(version_8=False)


@register_cases("PriorBox", since=8)
def prior_box_8(rng):
    yield from _generate_prior_box_cases(version_8=True)
    for order in (True, False):
        for scale_all in (True, False):
            attributes = {
                "min_size": [10.0, 20.0] if scale_all else [0.1, 0.2],
                "max_size": [15.0, 30.0] if scale_all else [],
                "aspect_ratio": [2.0, 3.0],
                "flip": True,
                "offset": 0.5,
                "variance": FOUR,
                "step": 0.0,
                "scale_all_sizes": scale_all,
                "min_max_aspect_ratios_order": order,
            }
            yield Case(_make_sizes((2, 3), (64, 80), np.int32), attributes, constants=(0,))


@register_cases("PriorBoxClustered", since=1)
def prior_box_clustered_1(rng):
    nine = {
        "width": [86.0, 13.0, 57.0, 39.0, 68.0, 34.0, 142.0, 50.0, 23.0],
        "height": [44.0, 10.0, 30.0, 19.0, 94.0, 32.0, 61.0, 53.0, 17.0],
    }
    for clip in (True, False):
        for steps in ({"step": 16.0}, {"step_w": 8.0, "step_h": 4.0}, {}, {"step": 16.0, "step_w": 3.0}):
            for offset in (0.5, 0.0):
                yield Case(
                    _make_sizes((3, 4), (180, 320)),
                    {**nine, "clip": clip, "offset": offset, "variance": FOUR, **steps},
                    constants=(0,),
                )
    for variance in ([], [0.3], FOUR):
        yield Case(_make_sizes((2, 3), (30, 40)), {**nine, "offset": 0.5, "variance": variance}, constants=(0, 1))
    one = {"width": [2.5], "height": [3.3], "offset": 0.25, "variance": FOUR, "step": 4.0}
    for dtype in (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64):
        yield Case(_make_sizes((5, 2), (21, 13), dtype), one, constants=(0,))
    yield Case(_make_sizes((0, 2), (21, 13)), one, constants=(0,), note="empty grid")
    yield Case(_make_sizes((4, 2), (21, 13)), one, faults=("reference-dynamic-output",), note="dynamic grid")
