"""TensorIterator: examples of the specification, and files that OpenVINO cannot write."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import graph, layer, net, port, write

import irrun

F32 = np.float32


def make_body(layers, edges):
    return f"<body>{graph(layers, edges)}</body>"


def make_parameter(id, shape, name=None):
    data = f'element_type="f32" shape="{",".join(map(str, shape))}"'
    return layer(id, "Parameter", data=data, outputs=[port(0, shape, "FP32")], name=name)


def test_first_example_of_specification(tmp_path):
    """One input is sliced in reverse order, one has a back edge, and the output is concatenated in reverse order."""
    inner = make_body(
        [
            make_parameter(0, (2, 1, 3)),
            make_parameter(1, (2, 1, 3)),
            layer(3, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 1, 3), "FP32")]),
            layer(2, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 3, 0), (1, 0, 3, 1), (3, 2, 2, 0)],
    )
    port_map = """
        <port_map>
            <input external_port_id="0" internal_layer_id="0" axis="1" start="-1" end="0" stride="-1"/>
            <input external_port_id="1" internal_layer_id="1"/>
            <output external_port_id="3" internal_layer_id="2" axis="1" start="-1" end="0" stride="-1"/>
        </port_map>
        <back_edges>
            <edge from-layer="2" to-layer="1"/>
        </back_edges>"""
    iterator = layer(
        2, "TensorIterator", inputs=[port(0), port(1)], outputs=[port(3, (2, 4, 3), "FP32")], inner=port_map + inner
    )
    text = net(
        [
            make_parameter(0, (2, 4, 3), "x"),
            make_parameter(1, (2, 1, 3), "s"),
            iterator,
            layer(3, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 2, 0), (1, 0, 2, 1), (2, 3, 3, 0)],
    )
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(2, 4, 3)).astype(F32), rng.normal(size=(2, 1, 3)).astype(F32)
    out = irrun.run(write(tmp_path, text), {"x": x, "s": s})[0]
    expected = s + np.cumsum(x[:, ::-1], 1)[:, ::-1]
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


SECOND_BODY = """
<body>
    <layers>
        <layer id="0" type="Parameter"><output><port id="0" precision="FP32">
            <dim>1</dim><dim>1</dim><dim>512</dim></port></output></layer>
        <layer id="1" type="Const"><data offset="0" size="16"/><output><port id="1" precision="I64">
            <dim>2</dim></port></output></layer>
        <layer id="2" type="Reshape"><input><port id="0"><dim>1</dim><dim>1</dim><dim>512</dim></port>
            <port id="1"><dim>2</dim></port></input>
            <output><port id="2" precision="FP32"><dim>1</dim><dim>512</dim></port></output></layer>
        <layer id="3" type="Parameter"><output><port id="0" precision="FP32">
            <dim>1</dim><dim>256</dim></port></output></layer>
        <layer id="4" type="Parameter"><output><port id="0" precision="FP32">
            <dim>1</dim><dim>256</dim></port></output></layer>
        <layer id="5" type="Const"><data offset="16" size="3145728"/><output><port id="1" precision="FP32">
            <dim>1024</dim><dim>768</dim></port></output></layer>
        <layer id="6" type="Const"><data offset="3145744" size="4096"/><output><port id="1" precision="FP32">
            <dim>1024</dim></port></output></layer>
        <layer id="7" type="LSTMCell"><data hidden_size="256"/>
            <input><port id="0"><dim>1</dim><dim>512</dim></port><port id="1"><dim>1</dim><dim>256</dim></port>
            <port id="2"><dim>1</dim><dim>256</dim></port><port id="3"><dim>1024</dim><dim>768</dim></port>
            <port id="4"><dim>1024</dim></port></input>
            <output><port id="5" precision="FP32"><dim>1</dim><dim>256</dim></port>
            <port id="6" precision="FP32"><dim>1</dim><dim>256</dim></port></output></layer>
        <layer id="8" type="Result"><input><port id="0"><dim>1</dim><dim>256</dim></port></input></layer>
        <layer id="9" type="Result"><input><port id="0"><dim>1</dim><dim>256</dim></port></input></layer>
        <layer id="10" type="Const"><data offset="3149840" size="24"/><output><port id="1" precision="I64">
            <dim>3</dim></port></output></layer>
        <layer id="11" type="Reshape"><input><port id="0"><dim>1</dim><dim>256</dim></port>
            <port id="1"><dim>3</dim></port></input>
            <output><port id="2" precision="FP32"><dim>1</dim><dim>1</dim><dim>256</dim></port></output></layer>
        <layer id="12" type="Result"><input><port id="0"><dim>1</dim><dim>1</dim><dim>256</dim></port></input></layer>
    </layers>
    <edges>
        <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
        <edge from-layer="1" from-port="1" to-layer="2" to-port="1"/>
        <edge from-layer="2" from-port="2" to-layer="7" to-port="0"/>
        <edge from-layer="3" from-port="0" to-layer="7" to-port="1"/>
        <edge from-layer="4" from-port="0" to-layer="7" to-port="2"/>
        <edge from-layer="5" from-port="1" to-layer="7" to-port="3"/>
        <edge from-layer="6" from-port="1" to-layer="7" to-port="4"/>
        <edge from-layer="7" from-port="6" to-layer="8" to-port="0"/>
        <edge from-layer="7" from-port="5" to-layer="9" to-port="0"/>
        <edge from-layer="7" from-port="5" to-layer="11" to-port="0"/>
        <edge from-layer="10" from-port="1" to-layer="11" to-port="1"/>
        <edge from-layer="11" from-port="2" to-layer="12" to-port="0"/>
    </edges>
</body>"""


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_second_example_of_specification(tmp_path):
    """An LSTM of 25 steps with combined weights, gates f, i, c, o, and two back edges."""
    port_map = """
        <port_map>
            <input axis="1" external_port_id="0" internal_layer_id="0" start="0"/>
            <input external_port_id="1" internal_layer_id="3"/>
            <input external_port_id="2" internal_layer_id="4"/>
            <output axis="1" external_port_id="3" internal_layer_id="12"/>
        </port_map>
        <back_edges>
            <edge from-layer="8" to-layer="4"/>
            <edge from-layer="9" to-layer="3"/>
        </back_edges>"""
    iterator = layer(
        3,
        "TensorIterator",
        inputs=[port(0, (1, 25, 512)), port(1, (1, 256)), port(2, (1, 256))],
        outputs=[port(3, (1, 25, 256), "FP32")],
        inner=port_map + SECOND_BODY,
    )
    text = net(
        [
            *[
                make_parameter(i, s, n)
                for i, (s, n) in enumerate([((1, 25, 512), "x"), ((1, 256), "h"), ((1, 256), "c")])
            ],
            iterator,
            layer(4, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)],
    )
    rng = np.random.default_rng(1)
    w = (rng.normal(size=(1024, 768)) / 30).astype(F32)
    b = rng.normal(size=1024).astype(F32)
    shapes = np.array([1, 512]).tobytes(), np.array([1, 1, 256]).tobytes()
    weights = shapes[0] + w.tobytes() + b.tobytes() + shapes[1]
    x, h, c = (rng.normal(size=s).astype(F32) for s in ((1, 25, 512), (1, 256), (1, 256)))
    out = irrun.run(write(tmp_path, text, weights), {"x": x, "h": h, "c": c})[0]

    expected = []
    h, c = h.astype(np.float64), c.astype(np.float64)
    for t in range(25):
        gates = np.concatenate([x[:, t], h], 1) @ w.T.astype(np.float64) + b
        f, i, g, o = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        expected.append(h)
    np.testing.assert_allclose(out, np.stack(expected, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("outer", [1, -1])
@pytest.mark.parametrize("inner", [1, -1])
def test_nested_bodies(tmp_path, outer, inner):
    """The outer iterator slices rows, the inner one columns; the state is passed through both."""

    def describe_slices(stride):
        return 'axis="0" start="0" end="-1" stride="1"' if stride > 0 else 'axis="0" start="-1" end="0" stride="-1"'

    add = make_body(
        [
            make_parameter(0, (1,)),
            make_parameter(1, (1,)),
            layer(2, "Const", data='element_type="f32" shape="1" offset="0" size="4"', outputs=[port(0, (1,), "FP32")]),
            layer(3, "Multiply", inputs=[port(0), port(1)], outputs=[port(2, (1,), "FP32")]),
            layer(4, "Add", inputs=[port(0), port(1)], outputs=[port(2, (1,), "FP32")]),
            layer(5, "Result", inputs=[port(0)]),
        ],
        [(1, 0, 3, 0), (2, 0, 3, 1), (0, 0, 4, 0), (3, 2, 4, 1), (4, 2, 5, 0)],
    )
    inside = layer(
        4,
        "TensorIterator",
        inputs=[port(0), port(1)],
        outputs=[port(2, (1,), "FP32"), port(3, (3,), "FP32")],
        inner=f"""<port_map>
            <input external_port_id="0" internal_layer_id="0" {describe_slices(inner)}/>
            <input external_port_id="1" internal_layer_id="1"/>
            <output external_port_id="2" internal_layer_id="5"/>
            <output external_port_id="3" internal_layer_id="5" {describe_slices(inner)}/>
        </port_map><back_edges><edge from-layer="5" to-layer="1"/></back_edges>{add}""",
    )
    flat, wide = (
        layer(i, "Reshape", data='special_zero="false"', inputs=[port(0), port(1)], outputs=[port(2, s, "FP32")])
        for i, s in ((3, (3,)), (5, (1, 3)))
    )
    sizes = [
        layer(
            i,
            "Const",
            data=f'element_type="i64" shape="{n}" offset="{at}" size="{8 * n}"',
            outputs=[port(0, (n,), "I64")],
        )
        for i, n, at in ((10, 1, 8), (11, 2, 16))
    ]
    middle = make_body(
        [
            make_parameter(0, (1, 3)),
            make_parameter(1, (1,)),
            *sizes,
            flat,
            inside,
            wide,
            layer(6, "Result", inputs=[port(0)]),
            layer(7, "Result", inputs=[port(0)]),
        ],
        [
            (0, 0, 3, 0),
            (10, 0, 3, 1),
            (3, 2, 4, 0),
            (1, 0, 4, 1),
            (4, 2, 6, 0),
            (4, 3, 5, 0),
            (11, 0, 5, 1),
            (5, 2, 7, 0),
        ],
    )
    outside = layer(
        2,
        "TensorIterator",
        inputs=[port(0), port(1)],
        outputs=[port(2, (1,), "FP32"), port(3, (4, 3), "FP32")],
        inner=f"""<port_map>
            <input external_port_id="0" internal_layer_id="0" {describe_slices(outer)}/>
            <input external_port_id="1" internal_layer_id="1"/>
            <output external_port_id="2" internal_layer_id="6"/>
            <output external_port_id="3" internal_layer_id="7" {describe_slices(outer)}/>
        </port_map><back_edges><edge from-layer="6" to-layer="1"/></back_edges>{middle}""",
    )
    results = [layer(i, "Result", inputs=[port(0)]) for i in (8, 9)]
    text = net(
        [make_parameter(0, (4, 3), "x"), make_parameter(1, (1,), "s"), outside, *results],
        [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 8, 0), (2, 3, 9, 0)],
    )
    weights = F32(0.5).tobytes() + bytes(4) + np.array([3, 1, 3]).tobytes()
    x = np.random.default_rng(2).normal(size=(4, 3)).astype(F32)
    last, every = irrun.run(write(tmp_path, text, weights), {"x": x, "s": np.ones(1, F32)}).to_tuple()
    state = F32(1)
    expected = np.zeros((4, 3), F32)
    for r in range(4)[::outer]:
        for k in range(3)[::inner]:
            state = x[r, k] + state * F32(0.5)
            expected[r, k] = state
    np.testing.assert_allclose(every, expected, rtol=1e-6)
    np.testing.assert_allclose(last, [state], rtol=1e-6)


def run_two_sliced_inputs(tmp_path, lengths, omit=""):
    inner = make_body(
        [
            make_parameter(0, (1,)),
            make_parameter(1, (1,)),
            layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (1,), "FP32")]),
            layer(3, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)],
    )
    port_map = """<port_map><input external_port_id="0" internal_layer_id="0" axis="0"/>
        <input external_port_id="1" internal_layer_id="1" axis="0"/>
        <output external_port_id="2" internal_layer_id="3" axis="0"/></port_map>""".replace(omit, "")
    iterator = layer(2, "TensorIterator", inputs=[port(0), port(1)], outputs=[port(2, ("?",))], inner=port_map + inner)
    text = net(
        [
            make_parameter(0, ("?",), "a"),
            make_parameter(1, ("?",), "b"),
            iterator,
            layer(3, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)],
    )
    a, b = (np.arange(n, dtype=F32) for n in lengths)
    return irrun.run(write(tmp_path, text), {"a": a, "b": b})[0]


@pytest.mark.falls_back
def test_different_numbers_of_slices_are_reported(tmp_path):
    np.testing.assert_array_equal(run_two_sliced_inputs(tmp_path, (3, 3)), [0, 2, 4])
    with pytest.raises(irrun.InputError, match=r"layer 2 .*different numbers of iterations .*input 0: 3, input 1: 4"):
        run_two_sliced_inputs(tmp_path, (3, 4))


def test_incomplete_port_map_is_reported(tmp_path):
    with pytest.raises(irrun.ModelError, match=r"layer 2 .*port map has no input for layer 1 "):
        run_two_sliced_inputs(tmp_path, (3, 3), omit='<input external_port_id="1" internal_layer_id="1" axis="0"/>')
    with pytest.raises(irrun.ModelError, match=r"layer 2 .*port map has no entry for output port 2"):
        run_two_sliced_inputs(tmp_path, (3, 3), omit='<output external_port_id="2" internal_layer_id="3" axis="0"/>')


@pytest.mark.falls_back
def test_empty_inputs_run_no_iterations(tmp_path):
    assert run_two_sliced_inputs(tmp_path, (0, 0)).shape == (0,)


@pytest.mark.falls_back
def test_error_in_body_names_iteration(tmp_path):
    inner = make_body(
        [
            make_parameter(0, (1, "?")),
            layer(1, "Const", data='element_type="i64" shape="1" offset="0" size="8"', outputs=[port(0, (1,), "I64")]),
            layer(4, "Const", data='element_type="i64" shape="" offset="8" size="8"', outputs=[port(0, (), "I64")]),
            layer(
                2,
                "Gather",
                "opset8",
                inputs=[port(0), port(1), port(2)],
                outputs=[port(3, (1, 1), "FP32")],
                name="pick",
            ),
            layer(3, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 2, 0), (1, 0, 2, 1), (4, 0, 2, 2), (2, 3, 3, 0)],
    )
    port_map = """<port_map><input external_port_id="0" internal_layer_id="0" axis="0"/>
        <output external_port_id="1" internal_layer_id="3" axis="0"/></port_map>"""
    iterator = layer(
        1, "TensorIterator", inputs=[port(0)], outputs=[port(1, (3, 1))], inner=port_map + inner, name="walk"
    )
    text = net(
        [make_parameter(0, (3, "?"), "x"), iterator, layer(2, "Result", inputs=[port(0)])], [(0, 0, 1, 0), (1, 1, 2, 0)]
    )
    path = write(tmp_path, text, np.array([0, 9]).tobytes())
    with pytest.raises(irrun.IrrunError, match=r"layer 2 'pick' .*in iteration 0 of layer 1 'walk'"):
        irrun.run(path, np.zeros((3, 2), F32))
