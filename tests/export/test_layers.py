"""Single layers in onnxruntime: attributes and shapes that few models have, and the nodes that they become."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, graph, layer, net, port, write

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime as ort

import irrun
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.runtime.shape_inference import GraphInference


def run_exported(path, values):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {v.name: value for v, value in zip(session.get_inputs(), values, strict=True)})


#: Attributes that are 0 or 1.
FLAGS = {
    "allowzero", "antialias", "ceil_mode", "count_include_pad", "exclude_outside", "exclusive", "inverse", "keepdims",
    "largest", "linear_before_reset", "noop_with_empty_axes", "onesided", "reverse", "saturate", "sorted",
    "storage_order", "training_mode",
}  # fmt: skip


def check_nodes(graph):
    """Check that flags of nodes are 0 or 1, in bodies too."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                check_nodes(attribute.g)
            assert attribute.name not in FLAGS or attribute.i in (0, 1), f"{node.op_type}: {attribute.name}"


def check_shapes(model, exported, results):
    """Check the declared shapes: all that irrun infers for outputs is declared, and nothing contradicts the results."""
    if "NonZero" in [node.op_type for node in exported.graph.node]:
        return  # ONNX's rule for scalars differs
    onnx.shape_inference.infer_shapes(exported, strict_mode=True)
    inference = GraphInference(model.graph)
    inferred = [inference.get_results()[spec.layer.id] for spec in model.outputs]
    for output, known, result in zip(exported.graph.output, inferred, results, strict=False):
        kind, shape = output.type.tensor_type, np.shape(result)
        declared = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        assert not kind.HasField("shape") or len(declared) == len(shape)
        assert all(d in (None, n) for d, n in zip(declared, shape, strict=False))
        if known is not None and known.shape is not None:
            assert kind.HasField("shape"), output.name
            assert [d for d in known.shape if isinstance(d, int)] == [
                d for d, k in zip(declared, known.shape, strict=True) if isinstance(k, int)
            ]


def check(folder, type, version, data, values, *, constants=(), dynamic=False, unranked=(), outputs=1, rtol=1e-5):
    """Check that an exported layer gives what irrun computes, and return the types of its nodes.

    Args:
        folder: The folder of the model.
        type: The type of the layer.
        version: Its opset.
        data: Its attributes as text.
        values: Its inputs; None for one that is missing.
        constants: Positions of inputs that are constants.
        dynamic: Whether the dimensions of the other inputs are dynamic, or the positions of inputs with dynamic ones.
        unranked: Positions of inputs with dynamic ranks.
        outputs: The number of its outputs.
        rtol: The relative tolerance.
    """
    layers, edges, weights, parameters = [], [], b"", []
    for i, value in enumerate(values):
        kind = ElementType.of(value.dtype)
        shape = value.shape
        if i in constants:
            text = f'element_type="{kind}" shape="{",".join(map(str, shape))}" offset="{len(weights)}"'
            layers.append(layer(i, "Const", data=f'{text} size="{value.nbytes}"', outputs=[port(0, shape)]))
            weights += value.tobytes()
        else:
            shape = ["?"] * value.ndim if dynamic is True or (dynamic and i in dynamic) else shape
            shape = ["..."] if i in unranked else shape
            text = f'element_type="{kind}" shape="{",".join(map(str, shape))}"'
            shape = () if i in unranked else shape
            layers.append(layer(i, "Parameter", data=text, outputs=[port(0, shape)]))
            parameters.append(value)
        edges.append((i, 0, 100, i))
    ports = range(len(values), len(values) + outputs)
    layers.append(layer(100, type, version, data, [port(i) for i in range(len(values))], [port(p) for p in ports]))
    for p in ports:
        layers.append(layer(200 + p, "Result", inputs=[port(0)]))
        edges.append((100, p, 200 + p, 0))
    model = irrun.read_model(write(folder, net(layers, edges), weights))
    irrun.export_onnx(model, folder / "model.onnx")
    results = irrun.compile_model(model, precision="declared")(parameters)
    exported = onnx.load(str(folder / "model.onnx"))
    check_nodes(exported.graph)
    check_shapes(model, exported, [results[i] for i in range(outputs)])
    for i, found in enumerate(run_exported(folder / "model.onnx", parameters)):
        expected = np.asarray(results[i])
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if expected.dtype == object:
            assert found.tolist() == expected.tolist()
            continue
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
    return [node.op_type for node in exported.graph.node]


def make(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 2, 3), (1, 1, 3), (3,), (4,), (1,), (2, 3, 4)])
def test_slopes(shape, tmp_path):
    data = make(2, 3) if shape[0] == 1 and len(shape) > 1 else make(2, 3, 4)
    slope = make(*shape, seed=1)
    check(tmp_path, "PRelu", "opset1", "", [data, slope])
    check(tmp_path, "PRelu", "opset1", "", [data, slope], constants=[1])


@pytest.mark.parametrize("mode", ["inside_sqrt", "outside_sqrt"])
@pytest.mark.parametrize("variance", ["true", "false"])
@pytest.mark.parametrize("axes", [[], [1], [0, 2]])
def test_normalization_over_axes(axes, variance, mode, tmp_path):
    data = make(2, 3, 4)
    data[0, 0, 0] = np.inf if not axes else 1
    attributes = f'eps="0.01" normalize_variance="{variance}" eps_mode="{mode}"'
    check(tmp_path, "MVN", "opset6", attributes, [data, np.array(axes, np.int64)], constants=[1], rtol=1e-4)


POOL = 'kernel="{k}" strides="{s}" pads_begin="{b}" pads_end="{e}" rounding_type="{r}" auto_pad="{a}"'


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("operation", ["MaxPool", "AvgPool"])
@pytest.mark.parametrize(
    ("k", "s", "b", "e", "r", "a", "excludes"),
    [
        ("2,2", "2,2", "0,0", "0,0", "floor", "explicit", "true"),
        ("3,3", "2,2", "1,1", "1,1", "floor", "explicit", "true"),
        ("3,3", "2,2", "1,1", "1,1", "floor", "explicit", "false"),
        ("2,2", "3,3", "0,0", "0,0", "ceil", "explicit", "true"),
        ("3,3", "2,2", "0,0", "0,0", "ceil", "explicit", "true"),
        ("3,3", "2,2", "1,0", "0,1", "ceil", "explicit", "false"),
        ("3,2", "2,1", "0,0", "0,0", "floor", "same_upper", "true"),
        ("3,2", "2,1", "0,0", "0,0", "floor", "same_lower", "true"),
        ("3,2", "2,1", "0,0", "0,0", "floor", "same_lower", "false"),
        ("3,3", "2,2", "5,5", "5,5", "floor", "valid", "true"),
    ],
)
def test_pools(operation, k, s, b, e, r, a, excludes, dynamic, tmp_path):
    attributes = POOL.format(k=k, s=s, b=b, e=e, r=r, a=a)
    attributes += f' exclude-pad="{excludes}"' if operation == "AvgPool" else ""
    types = check(tmp_path, operation, "opset1", attributes, [make(1, 2, 7, 8)], dynamic=dynamic)
    if operation == "MaxPool" and (k, r, a, b) == ("3,3", "ceil", "explicit", "0,0"):
        assert types == ["MaxPool"]
    if operation == "MaxPool" and (r, a) == ("floor", "explicit"):
        assert types == ["MaxPool"]


@pytest.mark.parametrize("axis", [0, 2, -1])
@pytest.mark.parametrize("dilations", ["1,1", "2,2"])
def test_indices_of_pools(axis, dilations, tmp_path):
    attributes = POOL.format(k="2,2", s="2,2", b="0,0", e="1,1", r="floor", a="explicit")
    attributes += f' dilations="{dilations}" index_element_type="i32" axis="{axis}"'
    check(tmp_path, "MaxPool", "opset8", attributes, [make(2, 2, 6, 6)], outputs=2)


@pytest.mark.parametrize(("method", "size"), [("max", "2,3"), ("bilinear", "2,3"), ("bilinear", "1,1")])
def test_pooled_regions(method, size, tmp_path):
    rows, columns = size.split(",")
    attributes = f'pooled_h="{rows}" pooled_w="{columns}" spatial_scale="0.5" method="{method}"'
    boxes = [[0, 1, 1, 9, 7], [1, 0, 2, 6, 10]] if method == "max" else [[0, 0.1, 0, 0.9, 0.6], [1, 0, 0.2, 1, 1]]
    rois = np.array(boxes, np.float32)
    check(tmp_path, "ROIPooling", "opset2", attributes, [make(2, 3, 6, 7), rois], rtol=1e-4)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("zero", ["none", "each", "scalar"])
def test_compressed_products(groups, zero, tmp_path):
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 255, (8, 16), np.uint8)
    scales = rng.random((8, groups)).astype(np.float32)
    values = [make(3, 16), weights, np.zeros(0, np.float32), scales]
    if zero != "none":
        values.append(rng.integers(0, 255, (8, groups) if zero == "each" else (1, 1), np.uint8))
    if zero == "scalar":
        values[-1] = values[-1].reshape(())
    constants = range(1, len(values))
    check(tmp_path, "FullyConnectedCompressed", "ie_internal_opset", "", values, constants=constants, rtol=1e-4)


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("is_constant", [True, False])
def test_branches_use_inputs_of_the_layer(chosen, is_constant, tmp_path):
    def make_body(type):
        layers = [
            layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")]),
            layer(1, type, inputs=[port(0, (2,))], outputs=[port(1, (2,), "FP32")]),
            layer(2, "Result", inputs=[port(0, (2,))]),
        ]
        return graph(layers, [(0, 0, 1, 0), (1, 1, 2, 0)])

    maps = (
        '<port_map><input external_port_id="1" internal_layer_id="0"/>'
        '<output external_port_id="2" internal_layer_id="2"/></port_map>'
    )
    inner = "".join(
        maps.replace("port_map", f"{name}_port_map") + f"<{name}_body>{make_body(type)}</{name}_body>"
        for name, type in (("then", "Relu"), ("else", "Negative"))
    )
    condition = 'element_type="boolean" shape=""'
    layers = [
        layer(0, "Const", data=f'{condition} offset="0" size="1"', outputs=[port(0, (), "BOOL")])
        if is_constant
        else layer(0, "Parameter", data=condition, outputs=[port(0, (), "BOOL")]),
        layer(1, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")]),
        layer(2, "If", "opset8", "", [port(0), port(1, (2,))], [port(2, (2,), "FP32")], inner=inner),
        layer(3, "Result", inputs=[port(0, (2,))]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), bytes([chosen]))
    irrun.export_onnx(path, tmp_path / "model.onnx")
    types = [node.op_type for node in onnx.load(str(tmp_path / "model.onnx")).graph.node]
    assert types == (["Relu" if chosen else "Neg", "Identity"] if is_constant else ["Reshape", "If"])
    x = np.float32([-1, 2])
    (found,) = run_exported(tmp_path / "model.onnx", [x] if is_constant else [np.array(chosen), x])
    assert found.tolist() == ([0, 2] if chosen else [1, -2])


def test_domains_of_layers_that_are_kept_are_imported(tmp_path):
    path = write(tmp_path, chain("Relu", "Mine", versions=["opset1", "extension"]))
    irrun.export_onnx(path, tmp_path / "model.onnx", partial=True)
    model = onnx.load(str(tmp_path / "model.onnx"))
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 21), ("org.openvinotoolkit", 1)]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_ranges(dtype, tmp_path):
    values = [np.array(value, dtype) for value in ((0.5, 4, 0.75) if dtype is np.float32 else (2, 11, 3))]
    kind = str(ElementType.of(np.dtype(dtype)))
    check(tmp_path, "Range", "opset4", f'output_type="{kind}"', values)
    if dtype is not np.float32:
        check(tmp_path, "Range", "opset4", 'output_type="i32"', values)


@pytest.mark.parametrize("sigma", [0.0, 0.25])
@pytest.mark.parametrize("is_constant", [True, False])
def test_boxes_whose_overlap_equals_the_threshold_are_suppressed(sigma, is_constant, tmp_path):
    boxes = np.array([[[0, 0, 2, 1], [0, 0, 1, 1], [0, 0, 0.5, 1], [5, 5, 6, 6]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32)
    numbers = [np.array(4), *(np.array(x, np.float32) for x in (0.5, 0.0, sigma))]
    data = 'box_encoding="corner" sort_result_descending="true" output_type="i64"'
    constants = (2, 3, 4, 5) if is_constant else (2, 3, 4)
    check(tmp_path, "NonMaxSuppression", "opset9", data, [boxes, scores, *numbers], constants=constants, outputs=3)
    count = irrun.run(tmp_path / "model.xml", [boxes, scores, *([] if is_constant else numbers[3:])])[2]
    assert int(count[0]) == (4 if sigma else 3)  # soft suppression only lowers scores


@pytest.mark.parametrize("type", ["Elu", "Gelu"])
def test_functions_of_floats(type, tmp_path):
    data = 'alpha="0.7"' if type == "Elu" else 'approximation_mode="TANH"'
    check(tmp_path, type, "opset1" if type == "Elu" else "opset7", data, [make(3, 4)], rtol=1e-4)


@pytest.mark.parametrize("transposed", [(True, True), (True, False), (False, True), (False, False)])
def test_rotary_embeddings(transposed, tmp_path):
    data = 'rotary_ndims="4" is_interleaved="false" is_chatglm="false" is_qwen="false" support_2d_rope="false"'
    data += ' slice_start="0" slice_stop="0" head_cnt="0" head_size="0" gather_position_arg_id="0"'
    data += f' input_trans0213="{str(transposed[0]).lower()}" output_trans0213="{str(transposed[1]).lower()}"'
    x = make(1, 3, 2, 4) if transposed[0] else make(1, 2, 3, 4)
    values = [x, make(1, 1, 3, 4, seed=1), make(1, 1, 3, 4, seed=2)]
    check(tmp_path, "RoPE", "ie_internal_opset", data, values, rtol=1e-4)


@pytest.mark.parametrize(
    ("type", "data", "message"),
    [
        ("Broadcast", 'mode="explicit"', "the rank of the result is dynamic"),
        ("Tile", "", "the number of repeats is dynamic"),
    ],
)
def test_lengths_of_shapes_are_needed(type, data, message, tmp_path):
    values = [make(3), np.int64([2, 3])]
    if type == "Broadcast":
        values.append(np.int64([1]))
    with pytest.raises(irrun.UnsupportedError, match=message):
        check(tmp_path, type, "opset1", data, values, constants=[2], dynamic=True)


@pytest.mark.parametrize(
    ("kind", "opset", "stored"),
    [
        ("i4", 20, "INT8"),
        ("i4", 21, "INT4"),
        ("u4", 20, "UINT8"),
        ("u4", 21, "UINT4"),
        ("u2", 20, "UINT8"),
        ("u2", 21, "UINT4"),
        ("f8e4m3", 18, "UINT8"),
        ("f8e4m3", 19, "FLOAT8E4M3FN"),
        ("f8e5m2", 18, "UINT8"),
        ("f8e5m2", 19, "FLOAT8E5M2"),
        ("bf16", 18, "BFLOAT16"),
    ],
)
def test_constants_are_stored_in_a_type_of_the_opset(kind, opset, stored, tmp_path):
    count = 1 << 16  # more than are converted during the export
    size = count * ELEMENT_TYPES[kind].bits // 8
    codes = np.random.default_rng(0).integers(0, 60, size).astype(np.uint8).tobytes()
    data = f'element_type="{kind}" shape="{count}" offset="0" size="{size}"'
    layers = [
        layer(0, "Parameter", data=f'shape="{count}" element_type="f32"', outputs=[port(0, (count,), "FP32")]),
        layer(1, "Const", data=data, outputs=[port(0, (count,))]),
        layer(2, "Convert", data='destination_type="f32"', inputs=[port(0)], outputs=[port(1, (count,), "FP32")]),
        layer(3, "Multiply", inputs=[port(0), port(1)], outputs=[port(2, (count,), "FP32")]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    model = irrun.read_model(
        write(tmp_path, net(layers, [(0, 0, 3, 0), (1, 0, 2, 0), (2, 1, 3, 1), (3, 2, 4, 0)]), codes)
    )
    irrun.export_onnx(model, tmp_path / "model.onnx", opset=opset)
    exported = onnx.load(str(tmp_path / "model.onnx"))
    onnx.checker.check_model(exported, full_check=True)
    assert stored in [onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in exported.graph.initializer]
    (found,) = run_exported(tmp_path / "model.onnx", [np.ones(count, np.float32)])
    np.testing.assert_array_equal(found, irrun.run(model, np.ones(count, np.float32))[0])


ROTARY = (
    'rotary_ndims="{n}" is_interleaved="{interleaved}" is_chatglm="{chatglm}" is_qwen="{qwen}" '
    'support_2d_rope="{two}" slice_start="0" slice_stop="0" head_cnt="{heads}" head_size="{size}" '
    'gather_position_arg_id="{argument}" use_rope_cache="{cache}" input_trans0213="false" output_trans0213="false"'
)
PLAIN = {
    "n": 4, "interleaved": "false", "chatglm": "false", "qwen": "false", "two": "false", "heads": 0, "size": 0,
    "argument": 0, "cache": "true",
}  # fmt: skip
POSITIONS = np.array([[2, 0, 5]])


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({}, [make(1, 2, 3, 6), make(1, 1, 3, 4, seed=1), make(1, 1, 3, 4, seed=2)]),
        ({}, [make(1, 2, 3, 6), make(1, 1, 3, 2, seed=1), make(1, 1, 3, 2, seed=2)]),
        ({}, [make(2, 3, 6), make(3, 4, seed=1), make(3, 4, seed=2)]),
        ({"argument": 3}, [make(1, 2, 3, 6), make(7, 4, seed=1), make(7, 4, seed=2), POSITIONS]),
        ({"argument": 3}, [make(1, 2, 3, 6), make(1, 1, 7, 4, seed=1), make(1, 1, 7, 4, seed=2),
                           POSITIONS.reshape(1, 1, 3, 1)]),
        ({"interleaved": "true"}, [make(1, 3, 2, 6), make(1, 3, 4, seed=1), make(1, 3, 4, seed=2)]),
        ({"qwen": "true", "heads": 2, "size": 4},
         [make(1, 3, 24), make(1, 7, 1, 4, seed=1), make(1, 7, 1, 4, seed=2)]),
        ({"qwen": "true", "heads": 2, "size": 4, "argument": 3},
         [make(1, 3, 24), make(1, 7, 1, 4, seed=1), make(1, 7, 1, 4, seed=2), POSITIONS]),
        ({"chatglm": "true", "heads": 2, "size": 6}, [make(3, 1, 12), make(3, 1, 2, 2, seed=1), make(1)]),
        ({"chatglm": "true", "heads": 2, "size": 6, "cache": "false"},
         [make(3, 1, 12), make(3, 1, 1, 2, seed=1), make(3, 1, 1, 2, seed=2)]),
    ],
)  # fmt: skip
def test_variants_of_rotary_embeddings(changes, values, tmp_path):
    data = ROTARY.format(**PLAIN | changes)
    check(tmp_path, "RoPE", "ie_internal_opset", data, values, rtol=1e-4)


def test_rotary_embeddings_need_a_number_of_angles(tmp_path):
    values = [make(1, 2, 3, 6), make(1, 1, 3, 4, seed=1), make(1, 1, 3, 4, seed=2)]
    with pytest.raises(irrun.UnsupportedError, match="the number of angles is dynamic"):
        check(tmp_path, "RoPE", "ie_internal_opset", ROTARY.format(**PLAIN), values, dynamic=True)


LSTM = 'hidden_size="3" activations="{f},{g},{h}" activations_alpha="{alpha}" activations_beta="{beta}" clip="{clip}"'


@pytest.mark.parametrize("clip", [0, 0.4])
@pytest.mark.parametrize("functions", [("sigmoid", "tanh", "tanh"), ("hardsigmoid", "relu", "sigmoid")])
def test_cells(functions, clip, tmp_path):
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    f, g, h = functions
    scales = {"alpha": "0.3", "beta": "0.6"} if f == "hardsigmoid" else {"alpha": "", "beta": ""}
    data = LSTM.format(f=f, g=g, h=h, clip=clip, **scales)
    x, state, cell = draw(2, 4), draw(2, 3), draw(2, 3)
    check(tmp_path, "LSTMCell", "opset4", data, [x, state, cell, draw(12, 4), draw(12, 3), draw(12)],
          constants=[3, 4, 5], outputs=2, rtol=1e-4)  # fmt: skip
    gru = data.replace(f",{h}", "") + ' linear_before_reset="{}"'
    for linear, size in (("false", 9), ("true", 12)):
        values = [x, state, draw(9, 4), draw(9, 3), draw(size)]
        check(tmp_path, "GRUCell", "opset3", gru.format(linear), values, constants=[2, 3, 4], rtol=1e-4)
    rnn = data.replace(f",{g},{h}", "")
    check(
        tmp_path, "RNNCell", "opset1", rnn, [x, state, draw(3, 4), draw(3, 3), draw(3)], constants=[2, 3, 4], rtol=1e-4
    )


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("functions", [("sigmoid", "tanh", "tanh"), ("hardsigmoid", "relu", "sigmoid")])
def test_sequences(functions, direction, tmp_path):
    rng = np.random.default_rng(0)
    count = 2 if direction == "bidirectional" else 1

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    f, g, h = functions
    scales = {"alpha": "0.3", "beta": "0.6"} if f == "hardsigmoid" else {"alpha": "", "beta": ""}
    data = LSTM.format(f=f, g=g, h=h, clip=0, **scales) + f' direction="{direction}"'
    x, state, lengths = draw(2, 5, 4), draw(2, count, 3), np.array([5, 3])
    weights = [draw(count, 12, 4), draw(count, 12, 3), draw(count, 12)]
    values = [x, state, draw(2, count, 3), lengths, *weights]
    check(tmp_path, "LSTMSequence", "opset5", data, values, constants=[4, 5, 6], outputs=3, rtol=1e-4)
    gru = data.replace(f",{h}", "") + ' linear_before_reset="{}"'
    for linear, size in (("false", 9), ("true", 12)):
        values = [x, state, lengths, draw(count, 9, 4), draw(count, 9, 3), draw(count, size)]
        check(tmp_path, "GRUSequence", "opset5", gru.format(linear), values, constants=[3, 4, 5], outputs=2, rtol=1e-4)
    rnn = data.replace(f",{g},{h}", "")
    values = [x, state, lengths, draw(count, 3, 4), draw(count, 3, 3), draw(count, 3)]
    check(tmp_path, "RNNSequence", "opset5", rnn, values, constants=[3, 4, 5], outputs=2, rtol=1e-4)


@pytest.mark.parametrize("is_input", [True, False])
def test_ranks_that_follow_from_the_order_of_axes(is_input, tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="..." element_type="f32"', outputs=[port(0, (), "FP32")]),
        layer(1, "Relu", inputs=[port(0)], outputs=[port(1, (), "FP32")]),
        layer(2, "Const", data='element_type="i64" shape="3" offset="0" size="24"', outputs=[port(0, (3,), "I64")]),
        layer(3, "Transpose", inputs=[port(0), port(1)], outputs=[port(2, (), "FP32")]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    source = (0, 0) if is_input else (1, 1)
    edges = [(0, 0, 1, 0), (*source, 3, 0), (2, 0, 3, 1), (3, 2, 4, 0)]
    if is_input:
        layers, edges = [own for own in layers if 'type="Relu"' not in own], edges[1:]
    model = irrun.read_model(write(tmp_path, net(layers, edges), np.int64([2, 0, 1])))
    irrun.export_onnx(model, tmp_path / "model.onnx")
    exported = onnx.load(str(tmp_path / "model.onnx")).graph
    assert [node.op_type for node in exported.node] == (
        ["Transpose"] if is_input else ["Relu", "Identity", "Transpose"]
    )
    assert len(exported.input[0].type.tensor_type.shape.dim) == (3 if is_input else 0)
    x = make(2, 3, 4)
    (found,) = run_exported(tmp_path / "model.onnx", [x])
    np.testing.assert_array_equal(found, irrun.run(model, x)[0])
