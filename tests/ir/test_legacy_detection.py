"""Legacy layers of detection networks compared with OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest
from legacy_ir import Case, StoredInput, make_random

pytest.importorskip("openvino")

from openvino import opset13 as ops

import irrun


def make_i64(*values):
    return ops.constant(np.array(values[0] if len(values) == 1 else values, np.int64))


def make_f32(*values):
    return ops.constant(np.array(values[0] if len(values) == 1 else values, np.float32))


def make_zero(*nodes):
    """Return a zero that depends on the nodes, so that the model keeps all of them."""
    sums = [ops.reduce_sum(n, make_i64(list(range(len(n.get_output_shape(0))))), False) for n in nodes]
    total = sums[0]
    for other in sums[1:]:
        total = ops.add(total, other)
    return ops.multiply(total, make_f32(0))


FEATURES, IMAGE = make_random(1, 3, 4, 5), make_random(1, 3, 32, 40)
VARIANCE = [0.1, 0.1, 0.2, 0.2]


def make_prior_cases():
    def build_prior_box(data, image, size, **attributes):
        node = ops.prior_box(make_i64([4, 5]), make_i64(size), attributes)
        return ops.add(ops.unsqueeze(node, make_i64(0)), make_zero(data, image))

    common = {"offset": 0.5, "clip": 0, "flip": 1, "variance": VARIANCE}
    sizes = {"min_size": [8.0, 12.0], "max_size": [16.0, 20.0], "aspect_ratio": [2.0, 3.0]}
    for step in (0.0, 8.0):
        yield Case(
            "PriorBox",
            [FEATURES, IMAGE],
            lambda a, b, s=step: build_prior_box(
                a,
                b,
                [32, 40],
                offset=0.5,
                clip=False,
                flip=True,
                variance=VARIANCE,
                step=s,
                scale_all_sizes=True,
                **sizes,
            ),
            {**common, **sizes, "step": step, "step_h": 6, "step_w": 10, "img_size": 0, "img_h": 64, "img_w": 64},
            version=2,
        )
    for step in (0.0, 8.0, 9.6):  # as converted from MXNet: in pixels, whereas PriorBox expects fractions of the height
        yield Case(
            "PriorBox",
            [FEATURES, IMAGE],
            lambda a, b, s=step: build_prior_box(
                a,
                b,
                [32, 40],
                offset=0.5,
                clip=True,
                flip=False,
                variance=[0.1],
                scale_all_sizes=False,
                min_size=[6.4 / 32, 8.64 / 32],
                aspect_ratio=[1.0, 2.0, 0.5],
                step=s / 32,
            ),
            {
                "min_size": [6.4, 8.64],
                "max_size": "",
                "aspect_ratio": [1.0, 2.0, 0.5],
                "offset": 0.5,
                "clip": 1,
                "flip": 0,
                "scale_all_sizes": 0,
                "step": step,
            },
            version=6,
        )

    def build_clustered(data, image, size, **attributes):
        node = ops.prior_box_clustered(make_i64([4, 5]), make_i64(size), attributes)
        return ops.add(ops.unsqueeze(node, make_i64(0)), make_zero(data, image))

    sides = {"width": [9.4, 25.1], "height": [15.0, 39.6]}
    for data, size in (
        ({"step": 16.0}, [32, 40]),
        ({"step_w": 8.0, "step_h": 4.0}, [32, 40]),
        ({"img_h": 64, "img_w": 60, "step": 0}, [64, 60]),
    ):
        attributes = {k: v for k, v in data.items() if k.startswith("step_")}
        if data.get("step"):
            attributes = {"step_w": data["step"], "step_h": data["step"]}
        yield Case(
            "PriorBoxClustered",
            [FEATURES, IMAGE],
            lambda a, b, s=size, d=attributes: build_clustered(
                a, b, s, offset=0.5, clip=False, variance=VARIANCE, **sides, **d
            ),
            {**sides, **common, **data},
            version=3,
        )


def make_detection_output_cases():
    rng = np.random.default_rng(0)
    corners = np.sort(rng.random((12, 2, 2)), axis=1).astype(np.float32)
    boxes = np.concatenate([corners[:, 0], corners[:, 1]], axis=1).reshape(1, 1, 48)
    priors = np.concatenate([boxes, np.tile(np.float32(VARIANCE), 12).reshape(1, 1, 48)], axis=1)
    locations = make_random(2, 48) * np.float32(0.3)
    scores = rng.random((2, 36)).astype(np.float32)

    def build(location, scores, priors, **attributes):
        attributes = {
            "background_label_id": 0,
            "top_k": -1,
            "keep_top_k": [10],
            "nms_threshold": 0.45,
            "confidence_threshold": 0.2,
            "normalized": True,
            "share_location": True,
            "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
            "num_classes": 3,
            **attributes,
        }
        return ops.detection_output(location, scores, priors, attributes)

    data = {
        "num_classes": 3,
        "keep_top_k": 10,
        "nms_threshold": 0.45,
        "confidence_threshold": 0.2,
        "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
    }
    inputs = [locations, scores, priors]
    yield Case("DetectionOutput", inputs, build, data, version=2)
    full = {
        **data,
        "background_label_id": 0,
        "eta": 1.0,
        "input_height": -1,
        "input_width": -1,
        "normalized": 1,
        "share_location": 1,
        "top_k": 5,
        "variance_encoded_in_target": 0,
        "visualize": "False",
    }
    yield Case("DetectionOutput", inputs, lambda *n: build(*n, top_k=5), full, version=3)
    corner = "caffe.PriorBoxParameter.CORNER"
    yield Case(
        "DetectionOutput",
        [locations, scores, boxes],
        lambda *n: build(*n, code_type=corner, variance_encoded_in_target=True, clip_after_nms=True),
        {**data, "code_type": corner, "variance_encoded_in_target": 1, "clip_after_nms": 1},
    )
    yield Case(
        "DetectionOutput",
        inputs,
        lambda *n: build(*n, code_type=corner, clip_before_nms=True),
        {k: v for k, v in data.items() if k != "code_type"} | {"clip": 1},
        note="no code type",
    )


def make_yolo_cases():
    data = make_random(1, 14, 3, 4)
    yield Case(
        "RegionYolo",
        [data],
        lambda x: ops.region_yolo(x, 4, 2, 2, True, [], 1, 3),
        {"coords": 4, "classes": 2, "num": 2, "axis": 1, "end_axis": 3, "do_softmax": 1},
    )
    yield Case(
        "RegionYolo",
        [data],
        lambda x: ops.region_yolo(x, 4, 2, 2, True, [], 1, 3),
        {"coords": 4, "classes": 2, "num": 2},
        version=2,
    )
    yield Case(
        "RegionYolo",
        [data],
        lambda x: ops.region_yolo(x, 4, 2, 6, False, [0, 1], 1, 3),
        {"coords": 4, "classes": 2, "num": 6, "mask": [0, 1], "do_softmax": 0, "anchors": [1.0, 2.0]},
        version=4,
    )
    even = make_random(1, 4, 4, 6)
    yield Case("ReorgYolo", [even], lambda x: ops.reorg_yolo(x, [2]), {"stride": 2}, version=2)


def make_region_cases():
    rng = np.random.default_rng(1)
    scores = rng.random((1, 18, 4, 5)).astype(np.float32)
    deltas = make_random(1, 36, 4, 5) * np.float32(0.2)
    info = np.float32([[64, 80, 1]])
    data = {
        "base_size": 16,
        "pre_nms_topn": 60,
        "post_nms_topn": 12,
        "nms_thresh": 0.7,
        "feat_stride": 16,
        "min_size": 8,
        "ratio": [0.5, 1.0, 2.0],
        "scale": [1.0, 2.0, 3.0],
    }

    def build_proposal(s, d, i, **more):
        exact = {k: np.uint64(v) if isinstance(v, int) else v for k, v in data.items()}
        for name in ("ratio", "scale"):
            exact[name] = np.float64(exact[name])
        exact["nms_thresh"] = np.float64(0.7)
        attributes = {**exact, "clip_before_nms": True, "clip_after_nms": False, "normalize": False, **more}
        return ops.proposal(s, d, ops.reshape(i, make_i64([-1]), False), attributes)

    def get_first_output(node):
        return node.output(0)

    inputs = [scores, deltas, StoredInput(info)]
    yield Case("Proposal", inputs, lambda *n: get_first_output(build_proposal(*n, framework="")), data, version=2)
    yield Case(
        "Proposal",
        inputs,
        lambda *n: get_first_output(build_proposal(*n, framework="tensorflow")),
        {**data, "framework": "tensorflow"},
    )
    yield Case(
        "Proposal",
        inputs,
        lambda *n: [build_proposal(*n, framework="").output(i) for i in (0, 1)],
        {**data, "num_outputs": 2},
        note="with probabilities",
    )
    simple = {
        "min_bbox_size": 8,
        "feat_stride": 16,
        "pre_nms_topn": 60,
        "post_nms_topn": 12,
        "iou_threshold": 0.7,
        "scale": [1.0, 2.0, 3.0],
    }
    yield Case("SimplerNMS", inputs, lambda *n: get_first_output(build_proposal(*n, framework="")), simple, version=2)
    rois = np.float32([[0, 4, 4, 40, 30], [0, 10, 2, 70, 60], [0, 0, 0, 20, 20]])
    features = make_random(1, 8, 8, 10)
    yield Case(
        "PSROIPooling",
        [features, StoredInput(rois)],
        lambda x, r: ops.psroi_pooling(x, r, 2, 2, 0.125, 1, 1, "average"),
        {"output_dim": 2, "group_size": 2, "spatial_scale": 0.125},
        version=3,
    )
    offsets = make_random(3, 2, 2, 2) * np.float32(0.1)
    yield Case(
        "PSROIPooling",
        [features, StoredInput(rois), StoredInput(offsets)],
        lambda x, r, o: ops.deformable_psroi_pooling(x, r, 2, 0.125, 2, "bilinear_deformable", 2, 2, 0.1, 2, offsets=o),
        {
            "output_dim": 2,
            "group_size": 2,
            "spatial_scale": 0.125,
            "mode": "bilinear_deformable",
            "spatial_bins_x": 2,
            "spatial_bins_y": 2,
            "trans_std": 0.1,
            "part_size": 2,
            "no_trans": "False",
        },
    )
    bilinear = rois / np.float32([1, 80, 64, 80, 64])
    yield Case(
        "PSROIPooling",
        [features, StoredInput(bilinear)],
        lambda x, r: ops.psroi_pooling(x, r, 2, 2, 1.0, 2, 2, "bilinear"),
        {
            "output_dim": 2,
            "group_size": 2,
            "spatial_scale": 1.0,
            "mode": "bilinear",
            "spatial_bins_x": 2,
            "spatial_bins_y": 2,
        },
    )
    for method in ("max", "bilinear"):
        boxes = rois if method == "max" else rois / np.float32([1, 80, 64, 80, 64])
        yield Case(
            "ROIPooling",
            [features, StoredInput(boxes)],
            lambda x, r, m=method: ops.roi_pooling(x, r, [3, 2], 0.125, m),
            {"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.125, "method": method},
            version=5,
        )


def make_suppression_cases():
    rng = np.random.default_rng(2)
    corners = np.sort(rng.random((1, 20, 2, 2)), axis=2).astype(np.float32)
    boxes = np.concatenate([corners[:, :, 0], corners[:, :, 1]], axis=2)
    scores = rng.random((1, 2, 20)).astype(np.float32)
    limits = [StoredInput(np.int32(4)), StoredInput(np.float32(0.4)), StoredInput(np.float32(0.3))]
    data = {"center_point_box": 0, "sort_result_descending": 1, "output_type": "I32"}

    def build(b, s, n, i, t):
        selected = ops.non_max_suppression(b, s, n, i, t, box_encoding="corner", output_type="i32").output(0)
        return ops.slice(
            ops.concat([selected, ops.constant(np.full((8, 3), -1, np.int32))], 0),
            make_i64([0]),
            make_i64([8]),
            make_i64([1]),
            make_i64([0]),
        )

    yield Case("NonMaxSuppression", [boxes, scores, *limits], build, data)
    yield Case(
        "NonMaxSuppression",
        [boxes, scores],
        lambda b, s: build(b, s, make_i64(20), make_f32(1), make_f32(0)),
        {"center_point_box": 0},
        note="no limits",
    )
    logits = make_random(6, 2, 5)
    mask = np.array([[0, 0], [1, 1], [1, 1], [1, 1], [1, 1], [1, 0]], np.float32)
    mask[0] = 1
    for merge in (0, 1):
        yield Case(
            "CTCGreedyDecoder",
            [logits, mask],
            lambda x, m, merge=merge: ops.ctc_greedy_decoder(x, m, bool(merge)),
            {"ctc_merge_repeated": merge},
            version=6,
        )
    yield Case(
        "CTCGreedyDecoder",
        [logits],
        lambda x: ops.ctc_greedy_decoder(x, make_f32(np.ones((6, 2))), True),
        version=2,
        note="no mask",
    )


def create_node(type, *inputs, **attributes):
    """Return a node of opset6 for which the Python API has no function."""
    from openvino.utils.node_factory import NodeFactory

    return NodeFactory("opset6").create(type, [n.output(0) for n in inputs], attributes)


def make_detectron_cases():
    name = "ExperimentalDetectron"
    rois = np.float32([[0, 0, 10, 10], [5, 5, 20, 30], [2, 2, 8, 9]])
    yield Case(
        f"{name}TopKROIs",
        [rois, np.float32([0.3, 0.9, 0.5])],
        lambda r, s: ops.gather(r, ops.topk(s, make_i64(2), 0, "max", "value", "i64").output(1), make_i64(0)),
        {"max_rois": 2},
    )
    grid = {"flatten": True, "h": 0, "w": 0, "stride_x": 8.0, "stride_y": 4.0}
    image = make_random(1, 3, 32, 40)
    yield Case(
        f"{name}PriorGridGenerator",
        [rois, FEATURES, image],
        lambda *n: create_node(f"{name}PriorGridGenerator", *n, **grid),
        {**grid, "flatten": 1},
    )
    pyramid = [make_random(1, 2, 16, 20), make_random(1, 2, 8, 10)]
    pooled = {"output_size": 3, "sampling_ratio": 2, "pyramid_scales": [4, 8], "aligned": False}
    yield Case(
        f"{name}ROIFeatureExtractor",
        [rois, *pyramid],
        lambda *n: create_node(f"{name}ROIFeatureExtractor", *n, **pooled).output(0),
        {**pooled, "aligned": 0},
    )
    proposals = {"min_size": 0.0, "nms_threshold": 0.7, "post_nms_count": 4, "pre_nms_count": 8}
    deltas, scores = make_random(4, 2, 3) * np.float32(0.1), make_random(1, 2, 3)
    yield Case(
        f"{name}GenerateProposalsSingleImage",
        [np.float32([[32, 40, 1]]), np.tile(rois, (2, 1)), deltas, scores],
        lambda i, *n: [
            create_node(
                f"{name}GenerateProposalsSingleImage", ops.reshape(i, make_i64([3]), False), *n, **proposals
            ).output(k)
            for k in (0, 1)
        ],
        proposals,
    )
    final = {
        "score_threshold": 0.05,
        "nms_threshold": 0.5,
        "num_classes": 3,
        "post_nms_count": 10,
        "max_detections_per_image": 4,
        "class_agnostic_box_regression": False,
        "max_delta_log_wh": 4.1,
        "deltas_weights": [10.0, 10.0, 5.0, 5.0],
    }
    certain = np.abs(make_random(3, 3)) / np.float32(3)
    yield Case(
        f"{name}DetectionOutput",
        [rois, make_random(3, 12), certain, np.float32([[32, 40, 1]])],
        lambda *n: [create_node(f"{name}DetectionOutput", *n, **final).output(i) for i in range(3)],
        {**final, "class_agnostic_box_regression": 0},
    )


CASES = [
    *make_prior_cases(),
    *make_detection_output_cases(),
    *make_yolo_cases(),
    *make_region_cases(),
    *make_suppression_cases(),
    *make_detectron_cases(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer_matches_openvino(case: Case, tmp_path) -> None:
    case.check(tmp_path)


PRIORS = """<net name="priors" version="3">
<layers>
<layer id="0" name="x" type="Input" precision="FP32"><output><port id="0">{features}</port></output></layer>
<layer id="1" name="image" type="Input" precision="FP32"><output><port id="0">{image}</port></output></layer>
<layer id="2" name="boxes" type="{type}" precision="FP32"><data {data} offset="0.5" variance="0.1"/>
<input><port id="0">{features}</port><port id="1">{image}</port></input>
<output><port id="2"><dim>1</dim><dim>2</dim><dim>{count}</dim></port></output></layer>
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
</edges>
</net>"""


@pytest.mark.parametrize(
    ("type", "data"), [("PriorBox", 'min_size="4" flip="0" step="4"'), ("PriorBoxClustered", 'width="3" height="5"')]
)
def test_priors_follow_the_shapes_of_a_reshaped_model(type, data, tmp_path):
    def read(rows, columns):
        features, image = ("".join(f"<dim>{n}</dim>" for n in (1, 3, rows * k, columns * k)) for k in (1, 4))
        text = PRIORS.format(type=type, data=data, features=features, image=image, count=rows * columns * 4)
        path = tmp_path / f"{rows}.xml"
        path.write_text(text)
        return irrun.read_model(path)

    model = read(2, 3)
    model.reshape({"x": [1, 3, 5, 4], "image": [1, 3, 20, 16]})
    inputs = {"x": np.zeros((1, 3, 5, 4), np.float32), "image": np.zeros((1, 3, 20, 16), np.float32)}
    assert model.outputs[0].shape == (1, 2, 80)
    np.testing.assert_array_equal(irrun.run(model, inputs)[0], irrun.run(read(5, 4), inputs)[0])
    xml, _ = irrun.save_model(model, tmp_path / "new.xml")
    np.testing.assert_array_equal(irrun.run(xml, inputs)[0], irrun.run(model, inputs)[0])


def test_upgraded_detector_accepts_another_image_size(data):
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 320, 352)).astype(np.float32)
    results = []
    for folder in ("ir3", "ir11"):
        model = irrun.read_model(data / "face-detection-retail-0004" / folder / "model.xml")
        model.reshape({"data": x.shape})
        assert model.outputs[0].shape == (1, 1, 400, 7)
        results.append(irrun.run(model, x)[0])
    first, second = results
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)
