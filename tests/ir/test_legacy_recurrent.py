"""Old recurrent cells, sequences and loops against today's; Memory layers by hand."""

from __future__ import annotations

import numpy as np
import pytest
from lxml import etree
from old_ir import Case, OldNet, compare, random, run_openvino

pytest.importorskip("openvino")

import openvino as ov
from openvino import opset13 as ops

import irrun
from irrun.ir.writer import save_model

HIDDEN, FEATURES, BATCH, STEPS = 4, 3, 2, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weights(kind: str, extra: int = 0):
    """The blobs of an old layer: weights of the data and of the state side by side, and biases."""
    rows = GATES[kind] * HIDDEN
    both = random(rows, FEATURES + HIDDEN, seed=3) * np.float32(0.5)
    return {"weights": both, "biases": random(rows + extra, seed=4) * np.float32(0.5)}


def constants(blobs, lead=()):
    """W, R and B of today's operation."""
    both = blobs["weights"]
    parts = both[:, :FEATURES], both[:, FEATURES:], blobs["biases"]
    return [ops.constant(np.ascontiguousarray(p).reshape(*lead, *p.shape)) for p in parts]


def outputs(node):
    return [node.output(i) for i in range(node.get_output_size())]


X, H, C = random(BATCH, FEATURES), random(BATCH, HIDDEN, seed=1), random(BATCH, HIDDEN, seed=2)


def cells():
    lstm, gru, reset, rnn = weights("LSTM"), weights("GRU"), weights("GRU", HIDDEN), weights("RNN")
    yield Case(
        "LSTMCell",
        [X, H, C],
        lambda x, h, c: outputs(ops.lstm_cell(x, h, c, *constants(lstm), HIDDEN)),
        {"hidden_size": HIDDEN},
        lstm,
        version=5,
    )
    yield Case(
        "LSTMCell",
        [X, H, C],
        lambda x, h, c: outputs(
            ops.lstm_cell(x, h, c, *constants(lstm), HIDDEN, ["tanh", "sigmoid", "relu"], [], [], 0.4)
        ),
        {"hidden_size": HIDDEN, "activations": "tanh,sigmoid,relu", "clip": 0.4},
        lstm,
    )
    yield Case(
        "LSTMCell",
        [X, H, C],
        lambda x, h, c: outputs(
            ops.lstm_cell(x, h, c, *constants({**lstm, "biases": np.zeros(16, np.float32)}), HIDDEN)
        ),
        {"hidden_size": HIDDEN},
        {"weights": lstm["weights"]},
        note="no biases",
    )
    yield Case(
        "GRUCell",
        [X, H],
        lambda x, h: outputs(ops.gru_cell(x, h, *constants(gru), HIDDEN)),
        {"hidden_size": HIDDEN},
        gru,
    )
    yield Case(
        "GRUCell",
        [X, H],
        lambda x, h: outputs(ops.gru_cell(x, h, *constants(reset), HIDDEN, linear_before_reset=True)),
        {"hidden_size": HIDDEN, "linear_before_reset": 1},
        reset,
        version=6,
    )
    yield Case(
        "RNNCell",
        [X, H],
        lambda x, h: outputs(ops.rnn_cell(x, h, *constants(rnn), HIDDEN, ["sigmoid"], [], [])),
        {"hidden_size": HIDDEN, "activations": "sigmoid"},
        rnn,
    )


def sequences():
    data = random(BATCH, STEPS, FEATURES)
    shapes = [(BATCH, STEPS, HIDDEN), (BATCH, HIDDEN), (BATCH, HIDDEN)]

    def today(kind, blobs, direction, x, *states, axis=1, **more):
        if axis == 0:
            x = ops.transpose(x, ops.constant([1, 0, 2]))
        states = [ops.unsqueeze(s, ops.constant(1)) for s in states]
        count = 2 if kind == "LSTM" else 1
        states = states or [ops.constant(np.zeros((BATCH, 1, HIDDEN), np.float32))] * count
        lengths = ops.constant(np.full(BATCH, STEPS, np.int64))
        made = {"LSTM": ops.lstm_sequence, "GRU": ops.gru_sequence, "RNN": ops.rnn_sequence}[kind]
        node = made(x, *states, lengths, *constants(blobs, (1,)), HIDDEN, direction, **more)
        squeezed = [ops.squeeze(o, ops.constant(1)) for o in outputs(node)]
        if axis == 0:
            squeezed[0] = ops.transpose(squeezed[0], ops.constant([1, 0, 2]))
        return squeezed

    for kind in GATES:
        blobs, states = weights(kind), [H, C] if kind == "LSTM" else [H]
        for direction, modern in (("Forward", "forward"), ("Backward", "reverse")):
            yield Case(
                f"{kind}Sequence",
                [data, *states],
                lambda *n, k=kind, b=blobs, d=modern: today(k, b, d, *n),
                {"hidden_size": HIDDEN, "direction": direction, "axis": 1},
                blobs,
                outputs=shapes[: 1 + len(states)],
                version=5 if direction == "Forward" else 7,
            )
    blobs = weights("LSTM")
    yield Case(
        "LSTMSequence",
        [np.ascontiguousarray(data.transpose(1, 0, 2)), H, C],
        lambda *n: today("LSTM", blobs, "forward", *n, axis=0),
        {"hidden_size": HIDDEN, "direction": "Forward", "axis": 0},
        blobs,
        outputs=[(STEPS, BATCH, HIDDEN), *shapes[1:]],
    )
    yield Case(
        "GRUSequence",
        [data],
        lambda x: today("GRU", weights("GRU"), "forward", x)[0],
        {"hidden_size": HIDDEN, "direction": "Forward"},
        weights("GRU"),
        outputs=shapes[:1],
        note="no states",
    )


CASES = [*cells(), *sequences()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer(case: Case, tmp_path) -> None:
    case.check(tmp_path)


def iterator(version: int, *, backward: bool = False, with_input_layer: bool = False) -> tuple[OldNet, int]:
    """A TensorIterator whose body squeezes a step, runs an LSTMCell and puts the axis back."""
    net = OldNet(version)
    sources = [net.input(s, name=n) for n, s in (("x", (BATCH, STEPS, FEATURES)), ("h", H.shape), ("c", C.shape))]
    shapes = [(BATCH, STEPS, HIDDEN), H.shape, C.shape]
    id = net.layer("TensorIterator", sources, shapes, name="ti")
    element = net.layers[id]
    root = etree.SubElement(element, "body")
    body = OldNet(version, root=root, weights=net.weights)
    step = body.input((BATCH, 1, FEATURES), name="step") if with_input_layer else [BATCH, 1, FEATURES]
    squeeze = body.layer("Reshape", [step], [(BATCH, FEATURES)], {"dim": [-1, FEATURES]}, name="squeeze")
    cell = body.layer(
        "LSTMCell",
        [(squeeze, 1), list(H.shape), list(C.shape)],
        [H.shape, C.shape],
        {"hidden_size": HIDDEN},
        weights("LSTM"),
        name="cell",
    )
    unsqueeze = body.layer("Reshape", [(cell, 3)], [(BATCH, 1, HIDDEN)], {"dim": [-1, 1, HIDDEN]}, name="unsqueeze")
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
def test_tensor_iterator(version: int, backward: bool, with_input_layer: bool, tmp_path) -> None:
    """A loop over an LSTMCell is an LSTMSequence."""
    x, h, c = (ops.parameter(s, np.float32) for s in ((BATCH, STEPS, FEATURES), H.shape, C.shape))
    states = [ops.unsqueeze(s, ops.constant(1)) for s in (h, c)]
    lengths = ops.constant(np.full(BATCH, STEPS, np.int64))
    direction = "reverse" if backward else "forward"
    node = ops.lstm_sequence(x, *states, lengths, *constants(weights("LSTM"), (1,)), HIDDEN, direction)
    model = ov.Model([ops.squeeze(o, ops.constant(1)) for o in outputs(node)], [x, h, c])
    fed = [random(BATCH, STEPS, FEATURES), H, C]
    expected = run_openvino(model, fed)
    net, _ = iterator(version, backward=backward, with_input_layer=with_input_layer)
    compare(net.run(*fed), expected, "irrun on the old file, OpenVINO on LSTMSequence")
    path, _ = save_model(net.read(), tmp_path / "upgraded.xml")
    compare(run_openvino(path, fed), expected, "OpenVINO on the upgraded file")


def test_tensor_iterator_over_chunks(tmp_path) -> None:
    """The stride is the size of a chunk, also where the file names no part_size; a Const stands in the body."""
    net = OldNet(5)
    id = net.layer("TensorIterator", [net.input((1, 12), name="x")], [(1, 12)], name="ti")
    body = OldNet(5, root=etree.SubElement(net.layers[id], "body"), weights=net.weights)
    added = random(1, 4)
    total = body.layer("Eltwise", [[1, 4], body.const(added)], [(1, 4)], {"operation": "sum"}, name="add")
    result = body.layer("Power", [(total, 2)], [(1, 4)], {"scale": 2, "shift": 1, "power": 1}, name="more")
    section = etree.SubElement(net.layers[id], "port_map")
    for tag, port, layer, inner in (("input", 0, total, 0), ("output", 1, result, 1)):
        values = {
            "external_port_id": port,
            "internal_layer_id": layer,
            "internal_port_id": inner,
            "axis": 1,
            "stride": 4,
        }
        etree.SubElement(section, tag, {k: str(v) for k, v in values.items()})
    x = random(1, 12)
    expected = [(x.reshape(3, 4) + added).reshape(1, 12) * 2 + 1]
    compare(net.run(x), expected, "irrun on the old file")
    path, _ = save_model(net.read(), tmp_path / "upgraded.xml")
    compare(run_openvino(path, [x]), expected, "OpenVINO on the upgraded file")


def test_an_iterator_that_is_not_fed_is_reported() -> None:
    net, id = iterator(7)
    entry = net.layers[id].find("port_map")[2]
    entry.getparent().remove(entry)
    with pytest.raises(irrun.ModelError, match=r"'ti'.*nothing feeds the input 'cell\.2' of its body"):
        net.read()


def test_memory_keeps_its_value_between_runs(tmp_path) -> None:
    """y = x + the y before, from zero on."""
    net = OldNet(7)
    x = net.input((1, 3), name="x")
    before = net.layer("Memory", [], [(1, 3)], {"id": "r_1", "index": 1, "size": 2}, name="before")
    total = net.layer("Eltwise", [x, (before, 0)], [(1, 3)], {"operation": "sum"}, name="total")
    net.layer("Memory", [(total, 2)], [], {"id": "r_1", "index": 0, "size": 2}, name="after")
    net.layer("ReLU", [(total, 2)], [(1, 3)], name="y")
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


def test_a_memory_without_its_pair_is_reported() -> None:
    net = OldNet(7)
    before = net.layer("Memory", [], [(1, 3)], {"id": "r_1", "index": 1, "size": 2}, name="before")
    net.layer("ReLU", [(before, 0)], [(1, 3)])
    with pytest.raises(irrun.ModelError, match=r"no Memory layer sets the variable 'r_1'"):
        net.read()
