"""Legacy layers that move, create, look up and resize data, compared with OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest
from legacy_ir import Case, LegacyNetwork, StoredInput, make_random, run_openvino

pytest.importorskip("openvino")

from openvino import opset13 as ops

import irrun
from irrun.ir.writer import save_model

X = make_random(2, 4, 6, 5)


def make_i64(*values):
    return ops.constant(np.array(values[0] if len(values) == 1 else values, np.int64))


def make_f32(*values):
    return ops.constant(np.array(values[0] if len(values) == 1 else values, np.float32))


def get_outputs(node):
    return [node.output(i) for i in range(node.get_output_size())]


def make_concat_split_cases():
    yield Case("Concat", [X, X[:, :1]], lambda a, b: ops.concat([a, b], 1), {"axis": 1}, version=3)
    yield Case("Concat", [X, X, X[..., :2]], lambda *n: ops.concat(list(n), 3), {"axis": 3})
    yield Case("Concat", [X, X], lambda a, b: ops.concat([a, b], 1), version=2)
    for name in ("Split", "Slice"):
        yield Case(
            name,
            [X],
            lambda x: get_outputs(ops.variadic_split(x, make_i64(2), make_i64([1, 3, 2]))),
            {"axis": 2},
            outputs=[(2, 4, 1, 5), (2, 4, 3, 5), (2, 4, 2, 5)],
        )
    yield Case("Split", [X], lambda x: get_outputs(ops.split(x, make_i64(1), 2)), version=2)
    yield Case("Tile", [X], lambda x: ops.tile(x, make_i64([1, 3, 1, 1])), {"axis": 1, "tiles": 3}, version=2)
    yield Case("Permute", [X], lambda x: ops.transpose(x, make_i64([0, 2, 3, 1])), {"order": [0, 2, 3, 1]}, version=2)


def make_crop_pad_cases():
    def crop(x):
        return ops.slice(x, make_i64([1, 2]), make_i64([3, 5]), make_i64([1, 1]), make_i64([1, 3]))

    yield Case("Crop", [X], crop, {"axis": [1, 3], "offset": [1, 2], "dim": [2, 3]}, version=3)
    yield Case("Crop", [X], crop, {"axis": [1, 3], "crop_begin": [1, 2], "crop_end": [1, 0]}, version=3)
    yield Case("Crop", [X], crop, {"axis": [1, 3], "offset": [1, 2]}, version=2, data_tag="crop-data")
    yield Case("Crop", [X, X[:, :2, :, :3]], lambda x, y: crop(x), {"axis": [1, 3], "offset": [1, 2]})
    for mode in ("constant", "edge", "reflect", "symmetric"):
        data = {"pads_begin": [0, 1, 2, 0], "pads_end": [0, 0, 1, 2], "pad_mode": mode, "pad_value": 1.5}
        fill = make_f32(1.5) if mode == "constant" else None
        yield Case(
            "Pad", [X], lambda x, m=mode, v=fill: ops.pad(x, make_i64([0, 1, 2, 0]), make_i64([0, 0, 1, 2]), m, v), data
        )


def make_shape_cases():
    def build_reshape(*shape):
        return lambda x, *_: ops.reshape(x, make_i64(list(shape)), False)

    yield Case("Reshape", [X], build_reshape(2, 12, 10), {"dim": [0, 12, 10], "axis": 0, "num_axes": -1}, version=3)
    yield Case("Reshape", [X], build_reshape(2, 4, 30), {"dim": [0, 0, -1]}, version=3)
    yield Case(
        "Reshape",
        [X],
        build_reshape(2, 8, 3, 5),
        {"dim": "8,3", "axis": 1, "num_axes": 2},
        version=2,
        note="part of the axes",
    )
    yield Case("Reshape", [X], build_reshape(8, 30), version=6, note="no dim")
    yield Case("Reshape", [X, StoredInput(np.int32([0, -1]))], build_reshape(2, 120))
    yield Case("Reshape", [X, StoredInput(np.float32([-1, 15]))], build_reshape(16, 15), version=5)
    yield Case("Flatten", [X], build_reshape(2, 120), {"axis": 1}, version=3)
    yield Case("Flatten", [X], build_reshape(2, 120), version=2)
    yield Case("Flatten", [X], build_reshape(2, 24, 5), {"axis": 1, "end_axis": 2})
    yield Case("Flatten", [X], build_reshape(240), {"axis": 0, "end_axis": -1})
    thin = make_random(2, 1, 3, 1)
    yield Case("Squeeze", [thin, StoredInput(np.int32([1, 3]))], lambda x, a: ops.squeeze(x, a))
    yield Case("Squeeze", [thin, StoredInput(np.float32([1]))], lambda x, a: ops.squeeze(x, make_i64([1])), version=5)
    yield Case("Squeeze", [thin], lambda x: ops.squeeze(x, make_i64([1, 3])), version=5, note="no axes")
    yield Case("Unsqueeze", [thin, StoredInput(np.int32([0, 2]))], lambda x, a: ops.unsqueeze(x, a), version=6)
    yield Case("ShapeOf", [X], lambda x: ops.shape_of(x, "i32"))
    yield Case("Shape", [X], lambda x: ops.shape_of(x, "i32"), precision="I32")
    yield Case("Convert", [X], lambda x: ops.convert(x, "i32"), {"precision": "I32"})
    yield Case("Copy", [X], lambda x: ops.reshape(x, make_i64(list(X.shape)), False))


def make_rearrangement_cases():
    yield Case(
        "DepthToSpace",
        [X],
        lambda x: ops.depth_to_space(x, "blocks_first", 2),
        {"block_size": 2, "mode": "blocks_first"},
    )
    yield Case("DepthToSpace", [X], lambda x: ops.depth_to_space(x, "blocks_first", 2), {"block_size": 2}, version=5)
    even = make_random(2, 3, 4, 6)
    yield Case("SpaceToDepth", [even], lambda x: ops.space_to_depth(x, "blocks_first", 2), {"block_size": 2}, version=5)
    yield Case("ShuffleChannels", [X], lambda x: ops.shuffle_channels(x, 1, 2), {"axis": 1, "group": 2}, version=6)
    lengths = np.int32([2, 4])
    data = {"seq_axis": 1, "batch_axis": 0}
    yield Case("ReverseSequence", [X, lengths], lambda x, n: ops.reverse_sequence(x, n, 0, 1), data)
    yield Case(
        "ReverseSequence",
        [X, lengths.astype(np.float32)],
        lambda x, n: ops.reverse_sequence(x, ops.convert(n, "i32"), 0, 2),
        {"seq_axis": -2},
        version=5,
    )
    block = [StoredInput(np.int32(v)) for v in ([1, 1, 2, 2], [0, 0, 1, 0], [0, 0, 1, 1])]
    yield Case("SpaceToBatch", [X, *block], lambda x, b, p, q: ops.space_to_batch(x, b, p, q))
    batches = make_random(8, 2, 3, 2)
    yield Case("BatchToSpace", [batches, *block], lambda x, b, p, q: ops.batch_to_space(x, b, p, q))
    image = make_random(1, 2, 8, 8)
    yield Case(
        "ExtractImagePatches",
        [image],
        lambda x: ops.extract_image_patches(x, [3, 3], [2, 2], [1, 1], "same_upper"),
        {"sizes": [3, 3], "strides": [2, 2], "rates": [1, 1], "auto_pad": "same_upper"},
    )


def make_creation_cases():
    shape = StoredInput(np.int32([2, 3, 4]))
    row = make_random(1, 4)
    yield Case("Broadcast", [row, shape], lambda x, s: ops.broadcast(x, s))
    yield Case("Fill", [shape, make_random(1)], lambda s, x: ops.broadcast(x, s), version=6)
    yield Case("Fill", [shape, np.float32(0.5)], lambda s, x: ops.broadcast(x, s))
    yield Case(
        "Range",
        [np.float32(1), StoredInput(np.float32(7)), StoredInput(np.float32(2))],
        lambda a, b, c: ops.range(a, b, c, "f32"),
        outputs=[(3,)],
    )
    yield Case(
        "Range",
        [np.int32([1]), StoredInput(np.int32([7])), StoredInput(np.int32([2]))],
        lambda a, b, c: ops.range(*(ops.squeeze(n, make_i64(0)) for n in (a, b, c)), "i32"),
        outputs=[(3,)],
    )


def make_indexing_cases():
    indices = np.int32([[0, 3], [2, 1]])
    yield Case("Gather", [X, indices], lambda x, i: ops.gather(x, i, make_i64(1)), {"axis": 1})
    yield Case(
        "Gather",
        [X[0, 0], indices.astype(np.float32)],
        lambda x, i: ops.gather(x, ops.convert(i, "i32"), make_i64(0)),
        version=3,
    )
    places = np.int32([[[0, 1], [3, 2]], [[1, 1], [2, 0]]])
    yield Case("GatherND", [X, places], lambda x, i: ops.gather_nd(x, i, 1), {"batch_dims": 1})
    updates = make_random(2, 2, 5)
    rows = np.int32([[[0, 1, 2], [1, 3, 4]], [[0, 0, 0], [1, 1, 1]]])
    yield Case("ScatterNDUpdate", [X, rows, updates], ops.scatter_nd_update)
    bounds = [StoredInput(np.int32(v)) for v in ([0, 1, 0, 4], [0, 4, 0, 0], [1, 2, 1, -1])]
    yield Case(
        "StridedSlice",
        [X, *bounds],
        lambda x, b, e, s: ops.strided_slice(x, b, e, s, [1, 0, 1, 0], [1, 0, 1, 0], [0] * 4, [0] * 4, [0] * 4),
        {
            "begin_mask": [0, 1, 0, 1],
            "end_mask": [0, 1, 0, 1],
            "new_axis_mask": [0] * 4,
            "shrink_axis_mask": [0] * 4,
            "ellipsis_mask": [0] * 4,
        },
    )
    # Separate cases: where a layer has both masks, OpenVINO's CPU plugin differs from OpenVINO's reference.
    bounds = [StoredInput(np.int32(v)) for v in ([1, 0, 2], [2, 0, 5], [1, 1, 2])]
    for name, masks in (("new_axis_mask", [[0, 1, 0], [0] * 3]), ("shrink_axis_mask", [[0] * 3, [1, 0, 0]])):
        yield Case(
            "StridedSlice",
            [X, *bounds],
            lambda x, b, e, s, m=masks: ops.strided_slice(x, b, e, s, [0, 1, 0], [0, 1, 0], *m, [0] * 3),
            {"begin_mask": "1,0", "end_mask": "1,0,1", name: "0,1" if name == "new_axis_mask" else "1"},
            version=6,
        )
    yield Case(
        "StridedSlice",
        [X[0], *[StoredInput(np.int32(v)) for v in ([1, 2, 0], [3, 5, 4])]],
        lambda x, b, e: ops.strided_slice(x, b, e, make_i64([1, 1, 1]), [0] * 3, [0] * 3),
        version=5,
        note="no masks",
    )
    yield Case(
        "StridedSlice",
        [X[0], StoredInput(np.int32([1, 2, 0]))],
        lambda x, b: ops.strided_slice(x, b, make_i64([0, 0, 0]), make_i64([1, 1, 1]), [0] * 3, [1] * 3),
        version=6,
        note="no end",
    )
    numbers = np.int32([[0, 2], [1, 5]])
    yield Case(
        "OneHot",
        [numbers],
        lambda x: ops.one_hot(x, make_i64(4), make_f32(2), make_f32(-1), 1),
        {"depth": 4, "axis": 1, "on_value": 2, "off_value": -1},
    )
    yield Case(
        "OneHot",
        [numbers.astype(np.float32)],
        lambda x: ops.one_hot(ops.convert(x, "i64"), make_i64(4), make_f32(1), make_f32(0), -1),
        {"depth": 4, "on_value": "True", "off_value": "False"},
        version=6,
    )


def make_search_cases():
    for mode in ("max", "min"):
        for sort in ("value", "index"):
            yield Case(
                "TopK",
                [X, StoredInput(np.int32([3]))],
                lambda x, k, m=mode, s=sort: get_outputs(ops.topk(x, make_i64(3), 2, m, s, "i32")),
                {"axis": 2, "mode": mode, "sort": sort},
                version=6,
            )
    yield Case(
        "TopK",
        [X, StoredInput(np.int32(2))],
        lambda x, k: get_outputs(ops.topk(x, make_i64(2), 3, "max", "value", "i32")),
        {"axis": -1, "mode": "max", "sort": "value"},
    )
    yield Case(
        "TopK",
        [X, StoredInput(np.int32([2]))],
        lambda x, k: ops.topk(x, make_i64(2), 1, "max", "index", "i32").output(1),
        {"axis": 1, "mode": "max", "sort": "index"},
        note="indices only",
    )
    for both in (0, 1):
        yield Case(
            "ArgMax",
            [X],
            lambda x, i=both: [ops.convert(ops.topk(x, make_i64(2), 1, "max", "value", "i32").output(1 - i), "f32")],
            {"axis": 1, "top_k": 2, "out_max_val": both},
            version=3,
        )

    def build_flat_top_k(x, both):
        node = ops.topk(ops.reshape(x, make_i64([2, 120]), False), make_i64(3), 1, "max", "value", "i32")
        parts = [ops.convert(node.output(1), "f32"), *([node.output(0)] if both else [])]
        return ops.reshape(ops.concat(parts, 1), make_i64([2, 2 if both else 1, 3]), False)

    for both in (0, 1):
        yield Case(
            "ArgMax", [X], lambda x, b=both: build_flat_top_k(x, b), {"top_k": 3, "out_max_val": both}, version=2
        )
    yield Case("NonZero", [np.float32([[0, 1, 2], [3, 0, 0]])], lambda x: ops.non_zero(x, "i32"))
    yield Case(
        "CumSum", [X, StoredInput(np.int32(2))], lambda x, a: ops.cum_sum(x, a, True), {"exclusive": 1, "reverse": 0}
    )
    yield Case(
        "Bucketize",
        [X, StoredInput(np.float32([-1, 0, 0.5]))],
        lambda x, b: ops.bucketize(x, b, "i32", False),
        {"with_right_bound": 0},
    )
    places = np.int32([[2, 0], [1, 3]])
    updates = make_random(2, 2)
    yield Case(
        "ScatterUpdate",
        [X[0, 0], places, updates],
        lambda x, i, u: ops.scatter_elements_update(x, i, u, make_i64(1)),
        {"axis": 1},
        version=6,
    )
    yield Case(
        "ScatterUpdate",
        [X[0, 0], np.int32([4, 1]), make_random(2, 5), StoredInput(np.int32(0))],
        lambda x, i, u, a: ops.scatter_update(x, i, u, a),
    )
    yield Case(
        "ScatterElementsUpdate",
        [X[0, 0], places, updates, StoredInput(np.int32(0))],
        lambda x, i, u, a: ops.scatter_elements_update(x, i, u, a),
    )
    steps = np.random.default_rng(0).integers(0, 10, (4, 2, 3)).astype(np.int32)
    parents = np.random.default_rng(1).integers(0, 3, (4, 2, 3)).astype(np.int32)
    lengths = np.int32([3, 4])
    yield Case(
        "GatherTree",
        [steps, parents, lengths, StoredInput(np.int32(9))],
        lambda s, p, n, e: ops.gather_tree(s, p, n, e),
    )


def make_unique_cases():
    values = np.float32([3, 1, 3, 2, 1, 1])
    uniques, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    padded = np.full(6, uniques[-1], np.float32)
    padded[: len(uniques)] = uniques
    counted = np.zeros(6, np.float32)
    counted[: len(counts)] = counts

    def build_reference(x):
        zero = ops.multiply(x, make_f32(0))
        return [ops.add(zero, make_f32(a.astype(np.float32))) for a in (padded, places, counted)]

    yield Case("Unique", [values], build_reference, {"sorted": 1, "return_inverse": 1, "return_counts": 1})


TABLE = make_random(5, 3)


def make_embedding_cases():
    indices, segments = np.int32([0, 2, 4, 1, 1]), np.int32([0, 0, 0, 2, 2])
    weights = make_random(5, seed=1)
    yield Case(
        "EmbeddingBagOffsetsSum",
        [TABLE, indices, np.int32([0, 2, 2]), StoredInput(np.int32(1)), weights],
        lambda t, i, o, d, w: ops.embedding_bag_offsets_sum(t, i, o, d, w),
    )
    yield Case(
        "EmbeddingBagPackedSum",
        [TABLE, np.int32([[0, 2], [4, 1]])],
        lambda t, i: ops.embedding_bag_packed_sum(t, i),
    )
    yield Case(
        "EmbeddingSegmentsSum",
        [TABLE, indices, segments, StoredInput(np.int32(4)), StoredInput(np.int32(0))],
        lambda t, i, s, n, d: ops.embedding_segments_sum(t, i, s, n, d),
    )

    def sum_segments(t, i, s, counts):
        total = ops.embedding_segments_sum(t, ops.convert(i, "i64"), ops.convert(s, "i64"), make_i64(5))
        return ops.divide(total, make_f32(np.float32(counts).reshape(5, 1)))

    floats = [indices.astype(np.float32), segments.astype(np.float32)]
    for name, counts in (
        ("SparseSegmentSum", [1, 1, 1, 1, 1]),
        ("SparseSegmentMean", [3, 1, 2, 1, 1]),
        ("SparseSegmentSqrtN", [3**0.5, 1, 2**0.5, 1, 1]),
    ):
        yield Case(name, [TABLE, *floats], lambda t, i, s, c=counts: sum_segments(t, i, s, c))
    positions = np.int32([[0, 0], [0, 1], [2, 3], [2, 0], [2, 2]])
    yield Case(
        "ExperimentalSparseWeightedSum",
        [positions, indices, StoredInput(np.int32([4, 4])), TABLE, StoredInput(np.int32(3)), weights],
        lambda p, v, n, t, d, w: ops.embedding_segments_sum(
            t,
            v,
            ops.squeeze(ops.slice(p, make_i64([0]), make_i64([1]), make_i64([1]), make_i64([1])), make_i64(1)),
            ops.constant(np.int32(4)),
            d,
            w,
        ),
    )
    dense = np.int32([[0, 1], [2, 2]])
    yield Case(
        "SparseToDense",
        [dense, StoredInput(np.int32([3, 4])), make_random(2), StoredInput(np.float32(0.5))],
        lambda i, n, v, d: ops.scatter_nd_update(ops.broadcast(d, n), i, v),
    )


def make_resize_cases():
    def resize(x, size, mode, coordinates, **more):
        return ops.interpolate(
            x, make_i64(size), mode, "sizes", coordinate_transformation_mode=coordinates, axes=make_i64([2, 3]), **more
        )

    for size in ([12, 10], [4, 9], [6, 5]):
        data = {"width": size[1], "height": size[0], "pad_beg": 0, "pad_end": 0}
        shape = [(2, 4, *size)]
        for aligned, mode in ((1, "align_corners"), (0, "asymmetric")):
            yield Case(
                "Interp",
                [X],
                lambda x, s=size, m=mode: resize(x, s, "linear_onnx", m),
                {**data, "align_corners": aligned},
                outputs=shape,
                version=2 if aligned else 7,
            )
        for version in (3, 6, 7):
            coordinates = ("half_pixel", "round_prefer_ceil") if version < 7 else ("asymmetric", "floor")
            yield Case(
                "Resample",
                [X],
                lambda x, s=size, c=coordinates: resize(x, s, "nearest", c[0], nearest_mode=c[1]),
                {"type": "caffe.ResampleParameter.NEAREST", "antialias": 0, "factor": 2.0},
                outputs=shape,
                version=version,
            )
        # If one axis shrinks and the other grows, OpenVINO's CPU plugin differs from OpenVINO's reference.
        for antialias in (0, 1) if size != [4, 9] else (0,):
            yield Case(
                "Resample",
                [X],
                lambda x, s=size, a=antialias: resize(x, s, "linear", "half_pixel", antialias=bool(a)),
                {"type": "caffe.ResampleParameter.LINEAR", "antialias": antialias, "factor": 1.0},
                outputs=shape,
            )
    yield Case(
        "Interp",
        [X],
        lambda x: resize(
            ops.slice(x, make_i64([1, 1]), make_i64([5, 4]), make_i64([1, 1]), make_i64([2, 3])),
            [8, 9],
            "linear_onnx",
            "align_corners",
        ),
        {"pad_beg": -1, "pad_end": -1, "align_corners": 1, "height": 8, "width": 9},
    )
    yield Case(
        "Upsampling", [X], lambda x: resize(x, [12, 10], "nearest", "asymmetric", nearest_mode="floor"), {"scale": 2}
    )
    theta = make_random(2, 6) * 0.2 + np.float32([1, 0, 0, 0, 1, 0])

    def transformer(x, t):
        """Exchange x and y of the matrix, and measure from the edges of pixels."""
        rows = [[2 * i / 6 - 1, 2 * j / 5 - 1, 1] for i in range(6) for j in range(5)]
        grid = ops.matmul(make_f32(rows), ops.reshape(t, make_i64([2, 2, 3]), False), False, True)
        grid = ops.reshape(ops.gather(grid, make_i64([1, 0]), make_i64(2)), make_i64([2, 6, 5, 2]), False)
        return ops.grid_sample(
            x, ops.add(grid, make_f32([1 / 5, 1 / 6])), {"mode": "bilinear", "padding_mode": "zeros"}
        )

    yield Case("SpatialTransformer", [X, theta.astype(np.float32)], transformer)


CASES = [
    *make_concat_split_cases(),
    *make_crop_pad_cases(),
    *make_shape_cases(),
    *make_rearrangement_cases(),
    *make_creation_cases(),
    *make_indexing_cases(),
    *make_search_cases(),
    *make_unique_cases(),
    *make_embedding_cases(),
    *make_resize_cases(),
]


def test_sizes_beyond_f16_precision_come_from_the_output() -> None:
    """In an FP16 file even shapes are f16, so that the size that the output declares is used instead."""
    net = LegacyNetwork(4, "FP16")
    shape = net.add_const(np.float16([1, 3001]))
    net.add_layer("Reshape", [net.add_input((3001,)), shape], [(1, 3001)])
    x = make_random(3001)
    np.testing.assert_array_equal(net.run(x)[0], x[None])


@pytest.mark.parametrize("type", ["ArgMax", "TopK"])
def test_first_of_equal_elements_is_selected(type: str, tmp_path) -> None:
    net = LegacyNetwork(7)
    inputs = [net.add_input((2, 40))]
    if type == "ArgMax":
        net.add_layer(type, inputs, [(2, 3)], {"top_k": 3, "axis": 1})
    else:
        inputs.append(net.add_const(np.int32([3])))
        data = {"axis": 1, "mode": "max", "sort": "value"}
        net.add_layer(type, inputs, [(2, 3), (2, 3)], data, precisions=["FP32", "I32"])
    x = np.zeros((2, 40), np.float32)
    x[1, [20, 30, 35, 37]] = 1
    expected = [[0, 1, 2], [20, 30, 35]]
    assert net.run(x)[-1].tolist() == expected
    path, _ = save_model(net.read(), tmp_path / "upgraded.xml")
    assert run_openvino(path, [x])[-1].tolist() == expected


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer_matches_openvino(case: Case, tmp_path) -> None:
    case.check(tmp_path)


@pytest.mark.parametrize(("pattern", "batch"), [([0, 12], 5), ([0, -1], 5), ([2, 12], 2)])
def test_patterns_of_reshape_are_kept_for_other_batches(pattern, batch):
    net = LegacyNetwork(version=6)
    data = net.add_input((2, 3, 4))
    net.add_layer("Reshape", [data], [(2, 12)], {"dim": pattern})
    model = net.read()
    x = make_random(batch, 3, 4)
    model.reshape([batch, 3, 4])
    np.testing.assert_array_equal(irrun.run(model, x)[0], x.reshape(batch, 12))
