"""Small models with bodies, variables and many kinds of attributes, for planted faults."""

from __future__ import annotations

import numpy as np

from inspection.graphs import Row, make_graph, make_model
from irrun.ir.graph import BackEdge, Body, PortMapEntry

__all__ = [
    "MODELS",
    "make_branches",
    "make_layers",
    "make_loop",
    "make_masked",
    "make_padded",
    "make_recurrent",
    "make_stateful",
]


def make_body(rows, inputs, outputs, back_edges=()):
    """Return a body. Port maps name its Parameters and Results; their other parts are those of `PortMapEntry`."""
    graph = make_graph(*rows, name="body")
    ids = {layer.name: layer.id for layer in graph.layers}
    entering, leaving = (
        [PortMapEntry(port, ids[name], **options) for port, name, options in entries] for entries in (inputs, outputs)
    )
    return Body(graph, entering, leaving, [BackEdge(ids[source], ids[target]) for source, target in back_edges])


def weights(rng, name, *shape):
    return Row(name, "Constant", value=(rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))


def integers(name, *values):
    return Row(name, "Constant", value=np.array(values, np.int64))


def make_recurrent(seed=0):
    """Return a TensorIterator over the rows of x with two states, and a sum of its outputs."""
    rng = np.random.default_rng(seed)
    body = make_body(
        [
            Row("slice", "Parameter", shapes=[[1, 8]]),
            Row("a", "Parameter", shapes=[[1, 8]]),
            Row("b", "Parameter", shapes=[[1, 8]]),
            weights(rng, "wa", 8, 8),
            weights(rng, "wb", 8, 8),
            weights(rng, "bias", 1, 8),
            Row("pa", "MatMul", ["slice", "wa"], {"transpose_a": "false", "transpose_b": "true"}),
            Row("pb", "MatMul", ["b", "wb"], {"transpose_a": "false", "transpose_b": "true"}),
            Row("sum", "Add", ["pa", "pb"]),
            Row("shift", "Add", ["sum", "bias"]),
            Row("gate", "Sigmoid", ["shift"]),
            Row("keep", "Multiply", ["gate", "a"]),
            Row("new", "Tanh", ["pb"]),
            Row("next", "Subtract", ["new", "keep"]),
            Row("na", "Result", ["next"]),
            Row("nb", "Result", ["gate"]),
        ],
        [(0, "slice", {"axis": 0}), (1, "a", {}), (2, "b", {})],
        [(3, "na", {"axis": 0}), (4, "nb", {})],
        [("na", "a"), ("nb", "b")],
    )
    return make_model(
        Row("x", "Parameter", shapes=[[5, 8]]),
        weights(rng, "a0", 1, 8),
        weights(rng, "b0", 1, 8),
        Row("scaled", "Tanh", ["x"]),
        Row("iterator", "TensorIterator", ["scaled", "a0", "b0"], outputs=2, bodies={"body": body}),
        Row("joined", "Concat", ["iterator:0", "iterator:1"], {"axis": "0"}),
        weights(rng, "head", 8, 3),
        Row("logits", "MatMul", ["joined", "head"], {"transpose_a": "false", "transpose_b": "false"}),
        Row("softmax", "SoftMax", ["logits"], {"axis": "1"}),
        Row("y", "Result", ["softmax"]),
    )


def make_loop(seed=0):
    """Return a Loop that counts, with a condition, two states and a concatenated output."""
    rng = np.random.default_rng(seed)
    body = make_body(
        [
            Row("count", "Parameter", attributes={"element_type": "i64", "shape": ""}),
            Row("state", "Parameter", shapes=[[1, 6]]),
            Row("memory", "Parameter", shapes=[[1, 6]]),
            Row("x", "Parameter", shapes=[[1, 6]]),
            weights(rng, "w", 6, 6),
            Row("limit", "Constant", value=np.int64(4)),
            Row("one", "Constant", value=np.int64(1)),
            Row("half", "Constant", value=np.float32(0.5)),
            Row("product", "MatMul", ["state", "w"], {"transpose_a": "false", "transpose_b": "false"}),
            Row("mixed", "Add", ["product", "x"]),
            Row("active", "Tanh", ["mixed"]),
            Row("decayed", "Multiply", ["memory", "half"]),
            Row("updated", "Subtract", ["decayed", "active"]),
            Row("following", "Add", ["count", "one"]),
            Row("continues", "Less", ["count", "limit"]),
            Row("r_continues", "Result", ["continues"]),
            Row("r_count", "Result", ["following"]),
            Row("r_state", "Result", ["active"]),
            Row("r_memory", "Result", ["updated"]),
        ],
        [(2, "x", {}), (3, "state", {}), (4, "memory", {}), (5, "count", {})],
        [
            (-1, "r_continues", {"purpose": "execution_condition"}),
            (6, "r_state", {"axis": 0}),
            (7, "r_memory", {}),
        ],
        [("r_count", "count"), ("r_state", "state"), ("r_memory", "memory")],
    )
    return make_model(
        Row("x", "Parameter", shapes=[[1, 6]]),
        Row("trips", "Constant", value=np.int64(7)),
        Row("start", "Constant", value=np.array(True)),
        weights(rng, "state0", 1, 6),
        weights(rng, "memory0", 1, 6),
        Row("zero", "Constant", value=np.int64(0)),
        Row("input", "Sigmoid", ["x"]),
        Row(
            "loop",
            "Loop",
            ["trips", "start", "input", "state0", "memory0", "zero"],
            outputs=2,
            bodies={"body": body},
            version="opset5",
        ),
        integers("axes", 0),
        Row("mean", "ReduceMean", ["loop:0", "axes"], {"keep_dims": "true"}),
        Row("both", "Concat", ["mean", "loop:1"], {"axis": "1"}),
        Row("y", "Result", ["both"]),
    )


def make_branches(seed=0):
    """Return an If with two bodies that compute alike."""
    rng = np.random.default_rng(seed)

    def branch(name, activation):
        return make_body(
            [
                Row(f"{name}/x", "Parameter", shapes=[[2, 6]]),
                weights(rng, f"{name}/w", 6, 6),
                weights(rng, f"{name}/b", 1, 6),
                Row(f"{name}/product", "MatMul", [f"{name}/x", f"{name}/w"]),
                Row(f"{name}/shift", "Add", [f"{name}/product", f"{name}/b"]),
                Row(f"{name}/active", activation, [f"{name}/shift"]),
                Row(f"{name}/y", "Result", [f"{name}/active"]),
            ],
            [(1, f"{name}/x", {})],
            [(2, f"{name}/y", {})],
        )

    bodies = {"then_body": branch("then", "Tanh"), "else_body": branch("else", "Sigmoid")}
    return make_model(
        Row("x", "Parameter", shapes=[[2, 6]]),
        integers("axes", 0, 1),
        Row("threshold", "Constant", value=np.float32(0.3)),
        Row("total", "ReduceMean", ["x", "axes"], {"keep_dims": "false"}),
        Row("large", "Greater", ["total", "threshold"]),
        Row("scaled", "Tanh", ["x"]),
        Row("if", "If", ["large", "scaled"], bodies=bodies, version="opset8"),
        weights(rng, "gain", 1, 6),
        Row("gained", "Multiply", ["if", "gain"]),
        Row("y", "Result", ["gained"]),
    )


def make_stateful(seed=0):
    """Return a model with two variables of the same type and shape."""
    rng = np.random.default_rng(seed)
    variable = {"variable_type": "f32", "variable_shape": "1,6"}
    return make_model(
        Row("x", "Parameter", shapes=[[1, 6]]),
        weights(rng, "initial_fast", 1, 6),
        weights(rng, "initial_slow", 1, 6),
        Row("fast", "ReadValue", ["initial_fast"], {"variable_id": "fast", **variable}, version="opset6"),
        Row("slow", "ReadValue", ["initial_slow"], {"variable_id": "slow", **variable}, version="opset6"),
        weights(rng, "w", 6, 6),
        Row("product", "MatMul", ["x", "w"], {"transpose_a": "false", "transpose_b": "false"}),
        Row("mixed", "Add", ["product", "fast"]),
        Row("active", "Tanh", ["mixed"]),
        Row("decay", "Constant", value=np.float32(0.9)),
        Row("decayed", "Multiply", ["slow", "decay"]),
        Row("blended", "Subtract", ["active", "decayed"]),
        Row("write_fast", "Assign", ["active"], {"variable_id": "fast"}, version="opset6"),
        Row("write_slow", "Assign", ["blended"], {"variable_id": "slow"}, version="opset6"),
        Row("read_back", "Sigmoid", ["blended"]),
        Row("y", "Result", ["read_back"]),
    )


def make_layers(seed=0):
    """Return a convolutional network whose layers have many kinds of attributes."""
    rng = np.random.default_rng(seed)
    window = {"strides": "1,1", "pads_begin": "1,1", "pads_end": "1,1", "dilations": "1,1", "auto_pad": "explicit"}
    pool = {"strides": "1,1", "pads_begin": "1,1", "pads_end": "1,1", "kernel": "3,3", "rounding_type": "floor"}
    norm = {"eps": "1e-3", "normalize_variance": "true", "eps_mode": "INSIDE_SQRT"}
    rows = [
        Row("x", "Parameter", shapes=[[1, 4, 12, 12]]),
        weights(rng, "mean", 1, 4, 1, 1),
        Row("centered", "Subtract", ["x", "mean"]),
        weights(rng, "w1", 8, 4, 3, 3),
        Row("conv1", "Convolution", ["centered", "w1"], window),
        weights(rng, "b1", 1, 8, 1, 1),
        Row("bias1", "Add", ["conv1", "b1"]),
        weights(rng, "slope", 8),
        Row("prelu", "PReLU", ["bias1", "slope"]),
        integers("channels", 1),
        Row("norm", "NormalizeL2", ["prelu", "channels"], {"eps": "1e-6", "eps_mode": "add"}),
        Row("low", "Constant", value=np.float32(-0.4)),
        Row("high", "Constant", value=np.float32(0.4)),
        Row("quantized", "FakeQuantize", ["norm", "low", "high", "low", "high"], {"levels": "256"}),
        weights(rng, "w2", 8, 1, 1, 3, 3),
        Row("depthwise", "GroupConvolution", ["quantized", "w2"], window),
        Row("clamped", "Clamp", ["depthwise"], {"min": "-0.6", "max": "0.6"}),
        Row("average", "AvgPool", ["clamped"], {**pool, "exclude-pad": "true"}),
        Row("maximum", "MaxPool", ["clamped"], pool),
        Row("joined", "Concat", ["average", "maximum"], {"axis": "1"}),
        Row("spatial", "Constant", value=np.array([2, 3], np.int64)),
        Row("mvn", "MVN", ["joined", "spatial"], norm, version="opset6"),
        Row("elu", "Elu", ["mvn"], {"alpha": "1.0"}),
        integers("order", 0, 2, 3, 1),
        Row("last", "Transpose", ["elu", "order"]),
        weights(rng, "w3", 16, 16),
        Row("dense", "MatMul", ["last", "w3"], {"transpose_a": "false", "transpose_b": "true"}),
        weights(rng, "b3", 16),
        Row("bias3", "Add", ["dense", "b3"]),
        Row("gelu", "Gelu", ["bias3"], {"approximation_mode": "ERF"}, version="opset7"),
        integers("pixels", 1, 2),
        Row("pooled", "ReduceMean", ["gelu", "pixels"], {"keep_dims": "false"}),
        Row("softmax", "SoftMax", ["pooled"], {"axis": "1"}),
        Row("y", "Result", ["softmax"]),
        Row("features", "Result", ["pooled"]),
    ]
    return make_model(*rows)


def make_padded(seed=0):
    """Return an LSTM over sequences of which two are shorter, whose steps are summed up to their ends."""
    rng = np.random.default_rng(seed)
    return make_model(
        Row("x", "Parameter", shapes=[[3, 5, 6]]),
        Row("scaled", "Tanh", ["x"]),
        weights(rng, "h0", 3, 1, 4),
        weights(rng, "c0", 3, 1, 4),
        Row("lengths", "Constant", value=np.array([5, 2, 3], np.int64)),
        weights(rng, "w", 1, 16, 6),
        weights(rng, "r", 1, 16, 4),
        weights(rng, "b", 1, 16),
        Row(
            "lstm",
            "LSTMSequence",
            ["scaled", "h0", "c0", "lengths", "w", "r", "b"],
            {"hidden_size": "4", "direction": "forward", "activations": "sigmoid,tanh,tanh", "clip": "0"},
            outputs=3,
            version="opset5",
        ),
        integers("directions", 1),
        Row("steps", "Squeeze", ["lstm:0", "directions"]),
        Row("active", "Sigmoid", ["steps"]),
        Row("ends", "Constant", value=(np.arange(5) < np.array([[5], [2], [3]])).astype(np.float32)[:, :, None]),
        Row("defined", "Multiply", ["active", "ends"]),
        integers("axes", 1),
        Row("sum", "ReduceSum", ["defined", "axes"], {"keep_dims": "false"}),
        Row("state", "Add", ["lstm:1", "lstm:2"]),
        Row("last", "Squeeze", ["state", "directions"]),
        Row("both", "Concat", ["sum", "last"], {"axis": "1"}),
        weights(rng, "head", 8, 3),
        Row("y", "MatMul", ["both", "head"], {"transpose_a": "false", "transpose_b": "false"}),
        Row("result", "Result", ["y"]),
        Row("hidden", "Result", ["steps"]),
    )


def make_masked(seed=0):
    """Return two attentions, whose masks are added: one of the largest number, one of -10000."""
    rng = np.random.default_rng(seed)

    def attend(name, source, mask):
        flags = {"transpose_a": "false", "transpose_b": "true"}
        kept = np.arange(12) < 3
        return [
            *(weights(rng, f"{name}/w{k}", 8, 8) for k in "qkv"),
            *(Row(f"{name}/{k}", "MatMul", [source, f"{name}/w{k}"], flags) for k in "qkv"),
            Row(f"{name}/scores", "MatMul", [f"{name}/q", f"{name}/k"], flags),
            Row(f"{name}/mask", "Constant", value=np.where(kept, 0, mask).astype(np.float32)[None, None]),
            Row(f"{name}/masked", "Add", [f"{name}/scores", f"{name}/mask"], shapes=[[1, 12, 12]]),
            Row(f"{name}/weights", "SoftMax", [f"{name}/masked"], {"axis": "2"}, shapes=[[1, 12, 12]]),
            Row(f"{name}/y", "MatMul", [f"{name}/weights", f"{name}/v"], {**flags, "transpose_b": "false"}),
            Row(f"{name}/sum", "Add", [source, f"{name}/y"]),
        ]

    return make_model(
        Row("x", "Parameter", shapes=[[1, 12, 8]]),
        *attend("first", "x", np.finfo(np.float32).min),
        *attend("second", "first/sum", -1e4),
        Row("y", "Result", ["second/sum"]),
    )


def _random(*shape):
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


#: Builders, with functions that make inputs.
MODELS = {
    "recurrent": (make_recurrent, _random(5, 8)),
    "loop": (make_loop, _random(1, 6)),
    "branches": (make_branches, lambda rng: (0.6 + rng.standard_normal((2, 6)) / 4).astype(np.float32)),
    "stateful": (make_stateful, _random(1, 6)),
    "layers": (make_layers, _random(1, 4, 12, 12)),
    "padded": (make_padded, _random(3, 5, 6)),
    "masked": (make_masked, _random(1, 12, 8)),
}
