"""Legacy recurrent cells, sequences and TensorIterators compared with OpenVINO; Memory layers."""

from __future__ import annotations

import numpy as np
import pytest
from legacy_ir import Case, LegacyNetwork, check_declarations, compare, make_random, run_openvino
from lxml import etree

pytest.importorskip("openvino")

import openvino as ov
from openvino import opset13 as ops

import irrun
from irrun.ir.writer import save_model

HIDDEN, FEATURES, BATCH, STEPS = 4, 3, 2, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def make_weights(kind: str, extra: int = 0):
    """Return the blobs of a layer: the weights of data and state side by side, and the biases."""
    rows = GATES[kind] * HIDDEN
    weights = make_random(rows, FEATURES + HIDDEN, seed=3) * np.float32(0.5)
    return {"weights": weights, "biases": make_random(rows + extra, seed=4) * np.float32(0.5)}


def make_constants(blobs, lead=()):
    """Return the inputs W, R and B of the operation."""
    weights = blobs["weights"]
    parts = weights[:, :FEATURES], weights[:, FEATURES:], blobs["biases"]
    return [ops.constant(np.ascontiguousarray(p).reshape(*lead, *p.shape)) for p in parts]


def get_outputs(node):
    return [node.output(i) for i in range(node.get_output_size())]


X, H, C = make_random(BATCH, FEATURES), make_random(BATCH, HIDDEN, seed=1), make_random(BATCH, HIDDEN, seed=2)


def make_cell_cases():
    lstm, gru, reset, rnn = make_weights("LSTM"), make_weights("GRU"), make_weights("GRU", HIDDEN), make_weights("RNN")
    yield Case(
        "LSTMCell",
        [X, H, C],
        lambda x, h, c: get_outputs(ops.lstm_cell(x, h, c, *make_constants(lstm), HIDDEN)),
        {"hidden_size": HIDDEN},
        lstm,
        version=5,
    )
    yield Case(
        "LSTMCell",
        [X, H, C],
        lambda x, h, c: get_outputs(
            ops.lstm_cell(x, h, c, *make_constants(lstm), HIDDEN, ["tanh", "sigmoid", "relu"], [], [], 0.4)
        ),
        {"hidden_size": HIDDEN, "activations": "tanh,sigmoid,relu", "clip": 0.4},
        lstm,
    )
    yield Case(
        "LSTMCell",
        [X, H, C],
        lambda x, h, c: get_outputs(
            ops.lstm_cell(x, h, c, *make_constants({**lstm, "biases": np.zeros(16, np.float32)}), HIDDEN)
        ),
        {"hidden_size": HIDDEN},
        {"weights": lstm["weights"]},
        note="no biases",
    )
    yield Case(
        "GRUCell",
        [X, H],
        lambda x, h: get_outputs(ops.gru_cell(x, h, *make_constants(gru), HIDDEN)),
        {"hidden_size": HIDDEN},
        gru,
    )
    yield Case(
        "GRUCell",
        [X, H],
        lambda x, h: get_outputs(ops.gru_cell(x, h, *make_constants(reset), HIDDEN, linear_before_reset=True)),
        {"hidden_size": HIDDEN, "linear_before_reset": 1},
        reset,
        version=6,
    )
    yield Case(
        "RNNCell",
        [X, H],
        lambda x, h: get_outputs(ops.rnn_cell(x, h, *make_constants(rnn), HIDDEN, ["sigmoid"], [], [])),
        {"hidden_size": HIDDEN, "activations": "sigmoid"},
        rnn,
    )


def make_sequence_cases():
    data = make_random(BATCH, STEPS, FEATURES)
    shapes = [(BATCH, STEPS, HIDDEN), (BATCH, HIDDEN), (BATCH, HIDDEN)]

    def build_sequence(kind, blobs, direction, x, *states, axis=1, **more):
        if axis == 0:
            x = ops.transpose(x, ops.constant([1, 0, 2]))
        states = [ops.unsqueeze(s, ops.constant(1)) for s in states]
        count = 2 if kind == "LSTM" else 1
        states = states or [ops.constant(np.zeros((BATCH, 1, HIDDEN), np.float32))] * count
        lengths = ops.constant(np.full(BATCH, STEPS, np.int64))
        create = {"LSTM": ops.lstm_sequence, "GRU": ops.gru_sequence, "RNN": ops.rnn_sequence}[kind]
        node = create(x, *states, lengths, *make_constants(blobs, (1,)), HIDDEN, direction, **more)
        squeezed = [ops.squeeze(o, ops.constant(1)) for o in get_outputs(node)]
        if axis == 0:
            squeezed[0] = ops.transpose(squeezed[0], ops.constant([1, 0, 2]))
        return squeezed

    for kind in GATES:
        blobs, states = make_weights(kind), [H, C] if kind == "LSTM" else [H]
        for direction, reference_direction in (("Forward", "forward"), ("Backward", "reverse")):
            yield Case(
                f"{kind}Sequence",
                [data, *states],
                lambda *n, k=kind, b=blobs, d=reference_direction: build_sequence(k, b, d, *n),
                {"hidden_size": HIDDEN, "direction": direction, "axis": 1},
                blobs,
                outputs=shapes[: 1 + len(states)],
                version=5 if direction == "Forward" else 7,
            )
    blobs = make_weights("LSTM")
    yield Case(
        "LSTMSequence",
        [np.ascontiguousarray(data.transpose(1, 0, 2)), H, C],
        lambda *n: build_sequence("LSTM", blobs, "forward", *n, axis=0),
        {"hidden_size": HIDDEN, "direction": "Forward", "axis": 0},
        blobs,
        outputs=[(STEPS, BATCH, HIDDEN), *shapes[1:]],
    )
    yield Case(
        "GRUSequence",
        [data],
        lambda x: build_sequence("GRU", make_weights("GRU"), "forward", x)[0],
        {"hidden_size": HIDDEN, "direction": "Forward"},
        make_weights("GRU"),
        outputs=shapes[:1],
        note="no states",
    )


CASES = [*make_cell_cases(), *make_sequence_cases()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer_matches_openvino(case: Case, tmp_path) -> None:
    case.check(tmp_path)


def make_iterator(version: int, *, backward: bool = False, with_input_layer: bool = False) -> tuple[LegacyNetwork, int]:
    """Return a network with a TensorIterator whose body squeezes a step, runs an LSTMCell and restores the axis."""
    net = LegacyNetwork(version)
    sources = [net.add_input(s, name=n) for n, s in (("x", (BATCH, STEPS, FEATURES)), ("h", H.shape), ("c", C.shape))]
    shapes = [(BATCH, STEPS, HIDDEN), H.shape, C.shape]
    id = net.add_layer("TensorIterator", sources, shapes, name="ti")
    element = net.layers[id]
    root = etree.SubElement(element, "body")
    body = LegacyNetwork(version, root=root, weights=net.weights)
    step = body.add_input((BATCH, 1, FEATURES), name="step") if with_input_layer else [BATCH, 1, FEATURES]
    squeeze = body.add_layer("Reshape", [step], [(BATCH, FEATURES)], {"dim": [-1, FEATURES]}, name="squeeze")
    cell = body.add_layer(
        "LSTMCell",
        [(squeeze, 1), list(H.shape), list(C.shape)],
        [H.shape, C.shape],
        {"hidden_size": HIDDEN},
        make_weights("LSTM"),
        name="cell",
    )
    unsqueeze = body.add_layer("Reshape", [(cell, 3)], [(BATCH, 1, HIDDEN)], {"dim": [-1, 1, HIDDEN]}, name="unsqueeze")
    section = etree.SubElement(element, "port_map")
    first = (0, 0) if with_input_layer else (squeeze, 0)
    order = {"stride": -1, "start": -1, "end": 0} if backward else {"stride": 1, "start": 0}
    if version < 6:
        order.pop("start")
        order.pop("end", None)
    for tag, port, end, more in (
        ("input", 0, first, {"axis": 1, "part_size": 1, **order}),
        ("input", 1, (cell, 1), {"axis": -1} if version > 5 else {}),
        ("input", 2, (cell, 2), {}),
        ("output", 3, (unsqueeze, 1), {"axis": 1, "part_size": 1, **order}),
        ("output", 4, (cell, 3), {}),
        ("output", 5, (cell, 4), {}),
    ):
        values = {"external_port_id": port, "internal_layer_id": end[0], "internal_port_id": end[1], **more}
        etree.SubElement(section, tag, {k: str(v) for k, v in values.items()})
    section = etree.SubElement(element, "back_edges")
    for source, target in (((cell, 3), (cell, 1)), ((cell, 4), (cell, 2))):
        values = {"from-layer": source[0], "from-port": source[1], "to-layer": target[0], "to-port": target[1]}
        etree.SubElement(section, "edge", {k: str(v) for k, v in values.items()})
    return net, id


@pytest.mark.parametrize("version", [4, 6, 7])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("with_input_layer", [False, True])
def test_tensor_iterator_matches_lstm_sequence(version: int, backward: bool, with_input_layer: bool, tmp_path) -> None:
    """A TensorIterator over an LSTMCell is equivalent to an LSTMSequence."""
    x, h, c = (ops.parameter(s, np.float32) for s in ((BATCH, STEPS, FEATURES), H.shape, C.shape))
    states = [ops.unsqueeze(s, ops.constant(1)) for s in (h, c)]
    lengths = ops.constant(np.full(BATCH, STEPS, np.int64))
    direction = "reverse" if backward else "forward"
    node = ops.lstm_sequence(x, *states, lengths, *make_constants(make_weights("LSTM"), (1,)), HIDDEN, direction)
    model = ov.Model([ops.squeeze(o, ops.constant(1)) for o in get_outputs(node)], [x, h, c])
    arrays = [make_random(BATCH, STEPS, FEATURES), H, C]
    expected = run_openvino(model, arrays)
    net, _ = make_iterator(version, backward=backward, with_input_layer=with_input_layer)
    compare(net.run(*arrays), expected, "irrun on the legacy file, OpenVINO on LSTMSequence")
    check_declarations(net.read(), arrays)
    path, _ = save_model(net.read(), tmp_path / "upgraded.xml")
    compare(run_openvino(path, arrays), expected, "OpenVINO on the upgraded file")


@pytest.mark.parametrize(("shape", "axis", "stride"), [((1, 12), 1, 4), ((3, 4), 0, 1)])
def test_tensor_iterator_stride_is_the_size_of_a_slice(tmp_path, shape, axis: int, stride: int) -> None:
    """The stride is the size of a slice even if the file omits part_size. The body contains a Const."""
    net = LegacyNetwork(5)
    id = net.add_layer("TensorIterator", [net.add_input(shape, name="x")], [shape], name="ti")
    body = LegacyNetwork(5, root=etree.SubElement(net.layers[id], "body"), weights=net.weights)
    added = make_random(1, 4)
    total = body.add_layer("Eltwise", [[1, 4], body.add_const(added)], [(1, 4)], {"operation": "sum"}, name="add")
    result = body.add_layer("Power", [(total, 2)], [(1, 4)], {"scale": 2, "shift": 1, "power": 1}, name="more")
    section = etree.SubElement(net.layers[id], "port_map")
    for tag, port, layer, inner in (("input", 0, total, 0), ("output", 1, result, 1)):
        values = {
            "external_port_id": port,
            "internal_layer_id": layer,
            "internal_port_id": inner,
            "axis": axis,
            "stride": stride,
        }
        etree.SubElement(section, tag, {k: str(v) for k, v in values.items()})
    x = make_random(*shape)
    (iterator,) = net.read().graph.find_layers("TensorIterator")
    for entry in (*iterator.bodies["body"].inputs, *iterator.bodies["body"].outputs):
        assert (entry.axis, entry.stride, entry.part_size) == (axis, stride, stride)
    expected = [(x.reshape(3, 4) + added).reshape(shape) * 2 + 1]
    compare(net.run(x), expected, "irrun on the legacy file")
    check_declarations(net.read(), [x])
    path, _ = save_model(net.read(), tmp_path / "upgraded.xml")
    compare(run_openvino(path, [x]), expected, "OpenVINO on the upgraded file")


def test_unmapped_body_input_is_reported() -> None:
    net, id = make_iterator(7)
    entry = net.layers[id].find("port_map")[2]
    entry.getparent().remove(entry)
    with pytest.raises(
        irrun.ModelError, match=r"'ti'.*no input of the port map refers to the input 'cell\.2' of the body"
    ):
        net.read()


def test_invalid_entry_of_a_port_map_is_reported() -> None:
    net, id = make_iterator(7)
    net.layers[id].find("port_map")[0].set("axis", "x")
    with pytest.raises(irrun.ModelError, match="axis 'x' of <input> is not an integer"):
        net.read()


def remove_body(element) -> None:
    element.remove(element.find("body"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_body, "requires the element <body>"),
        (lambda e: e.find("port_map")[0].set("external_port_id", "9"), "refers to input port 9, which does not exist"),
        (lambda e: e.find("port_map")[3].set("external_port_id", "9"), "refers to output port 9, which does not exist"),
        (lambda e: e.find("port_map")[0].set("internal_port_id", "9"), "which is not an input of the body"),
        (lambda e: e.find("port_map")[0].set("internal_layer_id", "9"), "which is not an input of the body"),
        (lambda e: e.find("port_map")[3].set("internal_port_id", "9"), "which is not an output of the body"),
        (lambda e: e.find("port_map")[3].set("internal_layer_id", "9"), "which is not an output of the body"),
        (
            lambda e: e.find("port_map")[2].set("internal_port_id", e.find("port_map")[1].get("internal_port_id")),
            r"two inputs of the port map name port \d of layer \d of the body",
        ),
        (
            lambda e: e.find("back_edges")[0].set("to-port", "0"),
            r"a back edge leads to port 0 of layer \d, which no input of the port map refers to",
        ),
        (lambda e: e.find("back_edges")[0].set("from-port", "9"), "which is not an output of the body"),
    ],
)
def test_invalid_bodies_are_reported(damage, message: str) -> None:
    net, id = make_iterator(7)
    damage(net.layers[id])
    with pytest.raises(irrun.ModelError, match=message):
        net.read()


def test_memory_keeps_its_value_between_runs(tmp_path) -> None:
    """y = x + y of the previous run, which is zero in the first one."""
    net = LegacyNetwork(7)
    x = net.add_input((1, 3), name="x")
    before = net.add_layer("Memory", [], [(1, 3)], {"id": "r_1", "index": 1, "size": 2}, name="before")
    total = net.add_layer("Eltwise", [x, (before, 0)], [(1, 3)], {"operation": "sum"}, name="total")
    net.add_layer("Memory", [(total, 2)], [], {"id": "r_1", "index": 0, "size": 2}, name="after")
    net.add_layer("ReLU", [(total, 2)], [(1, 3)], name="y")
    request = irrun.compile_model(net.read()).create_infer_request()
    value = np.float32([[1, 2, 3]])
    for times in (1, 2, 3):
        np.testing.assert_array_equal(request.infer([value])[0], times * value)
    request.reset_state()
    np.testing.assert_array_equal(request.infer([value])[0], value)
    path, _ = save_model(net.read(), tmp_path / "upgraded.xml")
    upgraded = ov.Core().compile_model(str(path), "CPU").create_infer_request()
    for times in (1, 2):
        np.testing.assert_array_equal(upgraded.infer([value])[0], times * value)


def test_unpaired_memory_is_reported() -> None:
    net = LegacyNetwork(7)
    before = net.add_layer("Memory", [], [(1, 3)], {"id": "r_1", "index": 1, "size": 2}, name="before")
    net.add_layer("ReLU", [(before, 0)], [(1, 3)])
    with pytest.raises(irrun.ModelError, match=r"no Memory layer assigns the variable 'r_1'"):
        net.read()
