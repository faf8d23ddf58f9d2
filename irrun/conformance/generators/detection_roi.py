"""Conformance cases for pooling regions and for the YOLO layers."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases


def _sample_regions(rng, count, height, width, margin=0.2):
    """Return random regions, [count, 4], in a feature map, some of them partly outside."""
    size = np.array([width, height])
    low = rng.uniform(-margin, 0.7, (count, 2))
    high = low + rng.uniform(0.1, 0.6, (count, 2))
    return (np.concatenate([low, high], axis=1) * np.tile(size, 2)).astype(np.float32)


def _make_roi_align_case(
    rng, *, rotated=False, shape=(2, 3, 9, 11), regions=5, dtype=np.float32, index=np.int32, **overrides
):
    attributes = {"pooled_h": 2, "pooled_w": 3, "sampling_ratio": 2, "spatial_scale": 0.5}
    if rotated:
        attributes["clockwise_mode"] = False
    else:
        attributes["mode"] = "avg"
    options = {k: overrides.pop(k) for k in ("note", "faults", "tolerance", "dynamic", "constants") if k in overrides}
    rois = overrides.pop("rois", None)
    attributes.update(overrides)
    if rois is None:
        rois = _sample_regions(
            rng, regions, shape[2] / attributes["spatial_scale"], shape[3] / attributes["spatial_scale"]
        )
        if rotated:
            centers, sizes = (rois[:, :2] + rois[:, 2:]) / 2, rois[:, 2:] - rois[:, :2]
            angles = rng.uniform(-3.2, 3.2, (regions, 1))
            rois = np.concatenate([centers, sizes, angles], axis=1)
    batches = rng.integers(0, shape[0], len(rois)).astype(index)
    inputs = [rng.normal(size=shape).astype(dtype), np.asarray(rois).astype(dtype), batches]
    return Case(inputs, attributes, **options)


HALF = {"dtype": np.float16, "faults": ("reference-roi-align",)}


def _generate_roi_align_cases(rng, rotated, modes):
    for mode in modes:
        yield _make_roi_align_case(rng, rotated=rotated, **mode)
        yield _make_roi_align_case(rng, rotated=rotated, sampling_ratio=0, **mode)
        yield _make_roi_align_case(rng, rotated=rotated, sampling_ratio=1, pooled_h=7, pooled_w=7, **mode)
        yield _make_roi_align_case(rng, rotated=rotated, sampling_ratio=3, spatial_scale=1.0, **mode)
        yield _make_roi_align_case(rng, rotated=rotated, spatial_scale=0.0625, regions=2, **mode)
        yield _make_roi_align_case(rng, rotated=rotated, shape=(1, 1, 1, 1), **mode)
        yield _make_roi_align_case(rng, rotated=rotated, **mode, **HALF)
    yield _make_roi_align_case(rng, rotated=rotated, shape=(3, 20, 5, 4), regions=30)
    yield _make_roi_align_case(rng, rotated=rotated, dynamic=(0,), faults=("reference-dynamic-output",))
    yield _make_roi_align_case(rng, rotated=rotated, pooled_h=1, pooled_w=1)


@register_cases("ROIAlign", since=3)
def roi_align_3(rng):
    yield from _generate_roi_align_cases(rng, False, [{"mode": "avg"}, {"mode": "max"}])
    yield _make_roi_align_case(rng, rois=[[3, 3, 1, 1], [2, 2, 2, 2]], note="regions without area are pooled as 1x1")
    yield _make_roi_align_case(rng, rois=[[-90, -90, -50, -50], [90, 90, 99, 99]], note="outside of the map")
    yield _make_roi_align_case(rng, rois=[[-1, -1, 40, 40]], sampling_ratio=0, note="larger than the map")


@register_cases("ROIAlign", since=9)
def roi_align_9(rng):
    aligned = ("asymmetric", "half_pixel_for_nn", "half_pixel")
    modes = [{"mode": m, "aligned_mode": a} for m in ("avg", "max") for a in aligned]
    yield from _generate_roi_align_cases(rng, False, modes)
    for mode in aligned:
        yield _make_roi_align_case(rng, rois=[[1, 1, 2, 2.5]], aligned_mode=mode, note="a small region")


@register_cases("ROIAlignRotated", since=15)
def roi_align_rotated_15(rng):
    yield from _generate_roi_align_cases(rng, True, [{"clockwise_mode": True}, {"clockwise_mode": False}])
    for angle in (0.0, np.pi / 2, np.pi, -np.pi / 4):
        yield _make_roi_align_case(rng, rotated=True, rois=[[9, 8, 10, 6, angle]])


def _add_batch_indices(rng, regions, batches):
    return np.concatenate([rng.integers(0, batches, (len(regions), 1)), regions], axis=1).astype(np.float32)


@register_cases("ROIPooling", since=2)
def roi_pooling_2(rng):
    def make_case(regions, *, shape=(2, 3, 12, 14), pooled=(3, 2), dtype=np.float32, **overrides):
        options = {k: overrides.pop(k) for k in ("note", "dynamic", "tolerance") if k in overrides}
        attributes = {"pooled_h": pooled[0], "pooled_w": pooled[1], "spatial_scale": 0.5, "method": "max", **overrides}
        rois = _add_batch_indices(rng, regions, shape[0])
        return Case([rng.normal(size=shape).astype(dtype), rois.astype(dtype)], attributes, **options)

    for pooled in ((1, 1), (3, 2), (7, 7), (2, 5)):
        for scale in (1.0, 0.5, 0.0625):
            regions = _sample_regions(rng, 6, 12 / scale, 14 / scale)
            yield make_case(regions, pooled=pooled, spatial_scale=scale)
        regions = _sample_regions(rng, 6, 1, 1, margin=0.0)
        yield make_case(np.minimum(regions, 1), pooled=pooled, method="bilinear", spatial_scale=1.0)
    yield make_case(np.array([[8, 8, 4, 4], [2, 2, 2, 2]]), note="regions without area are pooled as 1x1")
    yield make_case(np.array([[100, 100, 140, 140], [-60, -60, -40, -40]]), note="outside of the map")
    yield make_case(np.array([[0, 0, 40, 40]]), note="larger than the map")
    yield make_case(np.array([[1, 1, 1, 1], [0, 0, 0, 0]]), method="bilinear", note="single points")
    yield make_case(np.array([[0, 0, 1, 1], [0.5, 0.5, 1.2, 1.3]]), method="bilinear", note="beyond the edge")
    yield make_case(_sample_regions(rng, 20, 24, 28), shape=(3, 17, 12, 14))
    yield make_case(_sample_regions(rng, 4, 24, 28), dynamic=(0,))
    yield make_case(_sample_regions(rng, 4, 24, 28), dtype=np.float16)
    yield make_case(_sample_regions(rng, 4, 24, 28), shape=(1, 2, 1, 1))
    for method in ("max", "bilinear"):
        case = make_case(
            _sample_regions(rng, 4, 2, 2, margin=0), method=method, note="batch -1 ends the list of regions"
        )
        case.inputs[1][2, 0] = -1
        yield case


@register_cases("RegionYolo", since=1)
def region_yolo_1(rng):
    def make_case(shape, dtype=np.float32, note="", dynamic=(), **overrides):
        attributes = {"axis": 1, "coords": 4, "classes": 3, "end_axis": 3, "num": 2, "do_softmax": True}
        attributes.update(overrides)
        x = (3 * rng.normal(size=shape)).astype(dtype)
        return Case([x], attributes, note=note, dynamic=dynamic)

    for batch in (1, 3):
        yield make_case((batch, 16, 4, 5))
        yield make_case((batch, 16, 4, 5), do_softmax=False, mask=[0, 1])
    yield make_case((1, 24, 4, 5), num=3)
    yield make_case((1, 24, 4, 5), num=6, do_softmax=False, mask=[3, 4, 5])
    yield make_case((1, 21, 3, 3), num=3, classes=2)
    yield make_case((1, 14, 3, 3), num=2, classes=1, coords=5)
    for axis, end_axis in ((1, 2), (2, 3), (0, 3), (1, 1), (-3, -1)):
        yield make_case((2, 16, 3, 3), axis=axis, end_axis=end_axis, note="flattened axes")
    yield make_case((1, 16, 1, 1), anchors=[10.0, 14.0, 23.0, 27.0])
    yield make_case((1, 255, 2, 2), num=6, classes=80, do_softmax=False, mask=[0, 1, 2])
    yield make_case((1, 16, 4, 5), dynamic=(0,))
    yield make_case((1, 16, 4, 5), dtype=np.float16)
    yield make_case((1, 16, 4, 5), dtype=np.float16, do_softmax=False, mask=[0, 1])


@register_cases("ReorgYolo", since=2)
def reorg_yolo_2(rng):
    for shape, stride in (
        ((1, 4, 2, 2), 2),
        ((1, 4, 4, 6), 2),
        ((2, 8, 4, 4), 2),
        ((1, 9, 3, 6), 3),
        ((1, 18, 6, 6), 3),
        ((3, 5, 4, 3), 1),
        ((1, 64, 26, 26), 2),
        ((1, 16, 8, 4), 4),
    ):
        yield Case([rng.normal(size=shape).astype(np.float32)], {"stride": [stride]})
    for shape, stride in (((2, 5, 4, 4), 2), ((3, 7, 2, 2), 2), ((2, 10, 6, 3), 3), ((1, 11, 2, 6), 2)):
        data = rng.normal(size=shape).astype(np.float32)
        yield Case([data], {"stride": [stride]}, note="channels are not a multiple of stride squared")
    for dtype in (np.float16, np.float64, np.int32, np.uint8):
        yield Case([rng.integers(0, 100, (1, 8, 4, 4)).astype(dtype)], {"stride": [2]})
    yield Case([rng.normal(size=(1, 4, 4, 6)).astype(np.float32)], {"stride": [2]}, dynamic=(0,))


@register_cases("PSROIPooling", since=1)
def psroi_pooling_1(rng):
    def make_case(regions, *, mode="average", size=2, outputs=3, bins=(1, 1), hw=(9, 11), batch=2, **overrides):
        options = {k: overrides.pop(k) for k in ("note", "dynamic") if k in overrides}
        attributes = {
            "output_dim": outputs,
            "group_size": size,
            "spatial_scale": overrides.get("spatial_scale", 1.0),
            "mode": mode,
            "spatial_bins_x": bins[1],
            "spatial_bins_y": bins[0],
        }
        groups = size * size if mode == "average" else bins[0] * bins[1]
        data = rng.normal(size=(batch, outputs * groups, *hw)).astype(np.float32)
        return Case([data, _add_batch_indices(rng, regions, batch)], attributes, **options)

    for size in (1, 2, 3, 7):
        for scale in (1.0, 0.5, 0.0625):
            yield make_case(
                np.maximum(_sample_regions(rng, 5, 9 / scale, 11 / scale, 0.0), 0), size=size, spatial_scale=scale
            )
        for bins in ((1, 1), (2, 3), (4, 1)):
            regions = np.minimum(_sample_regions(rng, 5, 1, 1, 0.0), 1)
            yield make_case(regions, mode="bilinear", size=size, bins=bins)
    regions = np.minimum(_sample_regions(rng, 5, 20, 20, 0.0), 20)
    yield make_case(regions, mode="bilinear", spatial_scale=0.05, bins=(2, 2))
    regions = np.clip(_sample_regions(rng, 6, 1, 1, 0.0) - 0.3, -1, 1)
    yield make_case(regions, mode="bilinear", size=3, bins=(2, 3), note="samples before the first pixel")
    yield make_case(np.array([[0, 0, 10, 8], [3, 2, 3, 2]]), note="whole map and single pixel")
    yield make_case(_sample_regions(rng, 30, 8, 8, 0.0), outputs=11, size=3)
    yield make_case(_sample_regions(rng, 6, 9, 11, 0.3), note="partly outside")
    for mode, size in (("average", 8), ("bilinear", 1)):
        half = make_case(_sample_regions(rng, 3, size, size, 0.0), mode=mode, bins=(2, 2))
        half.inputs = [x.astype(np.float16) for x in half.inputs]
        yield half


@register_cases("DeformablePSROIPooling", since=1)
def deformable_psroi_pooling_1(rng):
    def make_case(*, size=2, outputs=4, bins=(1, 1), part=None, classes=1, scale=1.0, std=0.1, regions=4, **overrides):
        attributes = {
            "output_dim": outputs,
            "group_size": size,
            "spatial_scale": scale,
            "spatial_bins_x": bins[1],
            "spatial_bins_y": bins[0],
            "trans_std": std,
            "part_size": part or 1,
            "mode": "bilinear_deformable",
        }
        data = rng.normal(size=(2, outputs * size * size, 9, 11)).astype(np.float32)
        rois = _add_batch_indices(rng, _sample_regions(rng, regions, 9 / scale, 11 / scale), 2)
        inputs = [data, rois]
        if part:
            inputs.append(rng.normal(size=(regions, 2 * classes, part, part)).astype(np.float32))
        return Case(inputs, attributes, **overrides)

    for size in (1, 2, 3):
        for bins in ((1, 1), (2, 3), (4, 4)):
            yield make_case(size=size, bins=bins)
            yield make_case(size=size, bins=bins, part=size)
    yield make_case(part=3, size=2, note="different numbers of parts and bins")
    yield make_case(part=2, size=5)
    for classes in (2, 4):
        yield make_case(part=2, classes=classes, bins=(2, 2), note="offsets for several classes")
    for std in (0.0, 0.5, 1.0):
        yield make_case(part=2, std=std, bins=(3, 2))
    for scale in (0.5, 0.0625):
        yield make_case(part=2, scale=scale, bins=(2, 2))
    yield make_case(regions=30, part=3, size=3, bins=(2, 2))
    half = make_case(part=2, bins=(2, 2))
    half.inputs = [x.astype(np.float16) for x in half.inputs]
    yield half
    case = make_case(part=2, note="regions of batch -1 produce zeros")
    case.inputs[1][1:, 0] = -1
    yield case
