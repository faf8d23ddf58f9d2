"""How errors of layers, bodies and outputs are measured by comparisons."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import compare, record

EPSILON = 2**-23
X = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)


def make_chain(*layers):
    """Return a model of unary layers with the names a, b, c, ..."""
    rows = [Row("x", "Parameter", shapes=[(2, 3)])]
    for name, (kind, attributes) in zip("abcdef", layers, strict=False):
        rows.append(Row(name, kind, [rows[-1].name], attributes))
    return make_model(*rows, Row("y", "Result", [rows[-1].name]))


def get_verdicts(result):
    return {n.key: n.verdict for n in result.layers}


def get_layer(model, reference, x=X, **options):
    (compared,) = compare(model, reference, x, **options).layers
    return compared


def test_tolerance_depends_on_the_reference():
    model = make_chain(("Negative", {}))
    assert get_layer(model, model).tolerance == 2 * EPSILON
    assert get_layer(model, "f64").tolerance == 64 * EPSILON
    assert get_layer(model, {"a": -X}).tolerance == 64 * EPSILON
    assert get_layer(model, {"a": -X}, factor=5).tolerance == 5 * EPSILON
    assert get_layer(model, {"a": (-X).astype(np.float16)}).tolerance == 64 * 2**-10
    assert get_layer(model, {"a": (-X).astype(np.float64)}).tolerance == 64 * EPSILON
    exp = make_chain(("Exp", {}))
    moved = np.exp(X.astype(np.float64)) * (1 + 3 * EPSILON)
    rounded = get_layer(exp, {"a": moved.astype(np.float32)})
    assert 64 * EPSILON <= rounded.tolerance < 65 * EPSILON


@pytest.mark.parametrize(("steps", "verdict"), [(0, "exact"), (60, "exact"), (70, "adds")])
def test_errors_above_the_tolerance_are_added(steps, verdict):
    model = make_chain(("Negative", {}))
    x = np.ones((2, 3), np.float32)
    result = compare(model, {"a": -x * np.float32(1 + steps * EPSILON)}, x)
    assert get_verdicts(result) == {"a": verdict}
    assert result.agrees == (verdict == "exact")


def test_layers_whose_rounding_explains_a_large_error_are_ill_conditioned():
    rows = [
        Row("x", "Parameter"),
        Row("axes", "Constant", value=np.int64([0])),
        Row("s", "ReduceSum", ["x", "axes"], {"keep_dims": "false"}),
        Row("y", "Result", ["s"]),
    ]
    x = np.float32([1e8, 1, -1e8])
    result = compare(make_model(*rows), {"s": np.float64(1)}, x)
    assert get_verdicts(result) == {"s": "ill-conditioned"}
    assert not result.agrees
    assert result.outcome == "unexplained"
    assert result.describe() == "the outputs differ, but no layer adds an error: s (ReduceSum) is ill-conditioned"


def test_a_reference_without_any_value_of_the_model_is_an_error():
    message = "nothing to compare: arrays has no value with the name of a layer or a tensor of the model, such as {}$"
    with pytest.raises(irrun.InputError, match=message.format("x, a, y")):
        compare(make_chain(("Exp", {})), {"other": X, "another": X}, X)
    with pytest.raises(irrun.InputError, match=message.format("x, a, b, c, d")):
        compare(make_chain(*[("Exp", {})] * 5), {"other": X, "another": X}, X)


def test_layers_without_a_reference_do_not_hide_wrong_outputs():
    path = make_chain(("Exp", {}), ("Relu", {}))
    result = compare(path, {"b": np.exp(X) * 2}, X)
    assert not result.agrees


def test_large_tolerances_do_not_hide_wrong_outputs():
    path = make_chain(("Exp", {}))
    value = np.exp(X) * np.float32(1.01)
    result = compare(path, {"a": value}, X, factor=1e6)
    assert get_verdicts(result) == {"a": "exact"}
    assert result.first is None
    assert not result.agrees
    assert not result.outputs[0].agrees
    assert compare(path, {"a": np.exp(X) * np.float32(1.0005)}, X, factor=1e6).agrees


def test_numbers_in_place_of_infinities_are_errors():
    model = make_chain(("Exp", {}), ("Relu", {}))
    values = {"a": np.exp(X), "b": np.exp(X)}
    assert compare(model, values, X).agrees
    values["a"][1, 2] = np.inf
    result = compare(model, values, X)
    assert [layer.key for layer in result.causes] == ["a", "b"]
    x = X * np.float32(1000)
    with np.errstate(over="ignore"):
        values = {"a": np.exp(x), "b": np.exp(x)}
    assert np.isinf(values["a"]).any()
    assert compare(model, values, x).agrees


def test_type_changes_are_errors_unless_both_are_floating_point():
    def convert(kind):
        return make_chain(("Convert", {"destination_type": kind}))

    first = compare(convert("i32"), convert("i64"), X).first
    assert (first.key, first.reason) == ("a", "destination_type is i32, but i64 in the reference")
    assert compare(convert("f32"), convert("f16"), X.round()).first is None
    assert compare(convert("f32"), convert("i32"), X.round()).first.own.is_exact
    assert get_verdicts(compare(convert("i32"), {"a": X.astype(np.int64)}, X)) == {"a": "exact"}
    assert get_verdicts(compare(convert("i32"), {"a": X.astype(np.int32) + 1}, X)) == {"a": "adds"}


def test_errors_that_grow_are_amplified():
    model = make_chain(("Relu", {}), ("Exp", {}), ("Negative", {}))
    x = np.full((2, 3), 50, np.float32)
    result = compare(model, record(model, x * np.float32(1.001)), x)
    assert get_verdicts(result) == {"a": "adds", "b": "amplifies", "c": "inherits"}
    assert result.agrees is False
    assert result.layers[1].accumulated.max_rel == pytest.approx(0.0488, rel=1e-2)


def write_loop(folder, *types, data=()):
    """Write a model with a TensorIterator "it" over rows of x, whose body is a chain."""
    text = write_row_loop(folder).read_text()
    body = chain(*types, shape=(1, 3), data=data).partition("<net")[2].partition(">")[2].removesuffix("</net>")
    start, end = text.index("<body>") + len("<body>"), text.index("</body>")
    text = text[:start] + body + text[end:]
    text = text.replace('internal_layer_id="2"', f'internal_layer_id="{len(types) + 1}"')
    return write(folder, text, name="loop")


def test_errors_that_grow_in_a_body_are_amplified(tmp_path):
    path = write_loop(tmp_path, "Relu", "Exp")
    x = np.full((2, 3), 50, np.float32)
    values = dict(record(path, x * np.float32(1.001)))
    verdicts = get_verdicts(compare(path, values, x))
    assert [verdicts[f"it[{i}]/layer{k}"] for i in range(2) for k in (1, 2)] == ["adds", "amplifies"] * 2


def test_iterations_that_the_reference_does_not_have_are_left_out(tmp_path):
    path = write_loop(tmp_path, "Relu", "Exp")
    values = record(path, X)
    result = compare(path, {"it[1]/layer1": values["it[1]/layer1"]}, X)
    assert get_verdicts(result) == {"it[1]/layer1": "exact"}
    assert (result.matched, result.layers_total) == (1, 3)


def test_constant_layers_that_are_computed_in_the_run_are_not_compared():
    rows = [
        Row("x", "Parameter"),
        Row("c", "Constant", value=np.ones((2, 3), np.float32)),
        Row("d", "Exp", ["c"]),
        Row("a", "Add", ["x", "d"]),
        Row("y", "Result", ["a"]),
    ]
    model = make_model(*rows)
    result = compare(model, {"d": X, "a": X + np.exp(np.float32(1))}, X, weights_memory=0)
    assert get_verdicts(result) == {"a": "exact"}
    assert (result.matched, result.layers_total) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "gates", "first"), [("LSTMSequence", 4, 3), ("GRUSequence", 3, 2), ("RNNSequence", 1, 2)]
)
def test_steps_after_the_end_of_a_sequence_are_undefined(kind, gates, first):
    rng = np.random.default_rng(0)
    states = ["h", "c"][: first - 1]
    rows = [Row("x", "Parameter"), *(Row(name, "Constant", value=np.zeros((2, 1, 4), np.float32)) for name in states)]
    rows += [Row("lengths", "Constant", value=np.int32([1, 3]))]
    for name, shape in (("w", (1, gates * 4, 3)), ("r", (1, gates * 4, 4)), ("b", (1, gates * 4))):
        rows.append(Row(name, "Constant", value=rng.standard_normal(shape).astype(np.float32)))
    names = ["x", *states, "lengths", "w", "r", "b"]
    rows.append(Row("s", kind, names, {"hidden_size": "4", "direction": "forward"}, first, version="opset5"))
    model = make_model(*rows, Row("y", "Result", ["s:0"]), Row("z", "Result", ["s:1"]))
    x = rng.standard_normal((2, 3, 3)).astype(np.float32)
    values = {key: value.copy() for key, value in record(model, x).items() if key.startswith("s.")}
    assert values["s.0"].shape == (2, 1, 3, 4)
    values["s.0"][0, 0, 1:] += 5
    assert get_verdicts(compare(model, values, x)) == {"s": "exact"}
    result = compare(model, values, x)
    assert result.layers[0].accumulated.is_exact
    values["s.0"][1, 0, 2, 3] += 5
    assert get_verdicts(compare(model, values, x)) == {"s": "adds"}
    values["s.0"][1, 0, 2, 3] -= 5
    values["s.1"] += 5
    assert get_verdicts(compare(model, values, x)) == {"s": "adds"}
    assert get_verdicts(compare(model, {"s.1": values["s.1"]}, x)) == {"s": "adds"}
    flat = {"s.0": values["s.0"].reshape(2, 3, 4)}
    assert get_verdicts(compare(model, flat, x)) == {"s": "adds"}


def make_convert():
    return make_chain(("Convert", {"destination_type": "i64"}), ("Convert", {"destination_type": "f32"}))


def test_conversions_of_numbers_without_an_integer_are_not_compared():
    x = np.float32([[1.5, np.nan, np.inf], [-np.inf, 2.5, 1e30]])
    other = np.int64([[1, 7, 8], [9, 2, 10]])
    layers = compare(make_convert(), {"a": other}, x).layers
    assert [(n.key, n.verdict) for n in layers] == [("a", "exact")]
    other[0, 0] = 2
    assert compare(make_convert(), {"a": other}, x).first.key == "a"
    # Another run of irrun must agree there, too.
    assert compare(make_convert(), make_convert(), x).agrees


def test_numbers_on_the_edge_of_two_integers_explain_other_outputs():
    x = np.float32([[1, 2, 3], [4.5, 50, 60]])
    values = {"a": np.int64([[0, 2, 3], [4, 50, 60]]), "b": np.float32([[0, 2, 3], [4, 50, 60]])}
    result = compare(make_convert(), values, x)
    assert get_verdicts(result) == {"a": "one level", "b": "inherits"}
    assert result.agrees


def test_wrong_quantizers_are_found_in_f64():
    model = make_model(
        Row("x", "Parameter", shapes=[(2, 3)]),
        Row("low", "Constant", value=np.float32(-3)),
        Row("high", "Constant", value=np.float32(3)),
        Row("q", "FakeQuantize", ["x", "low", "high", "low", "high"], {"levels": "256"}),
        Row("y", "Result", ["q"]),
    )

    def shift(layer, inputs, outputs, seconds, scope):
        return [np.flip(outputs[0])]

    assert compare(model, "f64", X).agrees
    result = compare(model, "f64", X, observers=[shift])
    assert (result.outcome, result.first.key) == ("differs", "q")


def test_transforms_may_round_their_angles():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 64, 2), np.float32)
    model = make_model(
        Row("x", "Parameter", shapes=[x.shape]),
        Row("axes", "Constant", value=np.int64([0, 1])),
        Row("d", "DFT", ["x", "axes"], version="opset7"),
        Row("y", "Result", ["d"]),
    )
    exact = np.fft.fft2(x[..., 0] + 1j * x[..., 1])
    angles = rng.uniform(-1, 1, exact.shape) * 40 * EPSILON
    values = np.stack([(exact * np.exp(16j * angles)).real, (exact * np.exp(16j * angles)).imag], -1)
    result = compare(model, {"d": values.astype(np.float32)}, x)
    assert (get_verdicts(result), result.agrees) == ({"d": "near zero"}, True)
    values[3, 4] *= 1.01
    assert compare(model, {"d": values.astype(np.float32)}, x).first.key == "d"


def test_texts_are_compared():
    model = make_model(
        Row("x", "Parameter", attributes={"element_type": "string"}),
        Row("a", "Identity", ["x"], version="opset16"),
        Row("y", "Result", ["a"]),
    )
    x = np.array(["a", "b"], object)
    result = compare(model, {"a": x}, x)
    assert (result.agrees, result.outputs[0].top_k) == (True, 1)
    result = compare(model, {"a": np.array(["a", "c"], object)}, x)
    assert (get_verdicts(result), result.outputs[0].top_k) == ({"a": "adds"}, 0)
    assert get_verdicts(compare(model, {"a": np.float32([1, 2])}, x)) == {"a": "adds"}


def test_outputs_are_compared_by_their_largest_elements():
    model = make_model(Row("x", "Parameter"), Row("a", "Negative", ["x"]), Row("y", "Result", ["a"]))
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    result = compare(model, {"a": x}, x)
    assert [output.top_k for output in result.outputs] == [0.8]
    scalar = compare(model, {"a": np.float32(2)}, np.float32(-2))
    assert [output.top_k for output in scalar.outputs] == [1]
    scalar = compare(model, {"a": np.float32(3)}, np.float32(-2))
    assert [output.top_k for output in scalar.outputs] == [0]


def test_outputs_of_low_precision_may_differ_more():
    model = make_chain(("Sigmoid", {}), ("Exp", {}))
    values = {key: value.astype(ml_dtypes.bfloat16) for key, value in record(model, X).items()}
    result = compare(model, {"b": values["b"]}, X)
    assert result.outputs[0].metrics.sqnr_db < 60
    assert result.outputs[0].agrees
    assert not compare(model, {"b": values["b"].astype(np.float32)}, X, factor=1e6).outputs[0].agrees
    other_shape = compare(model, {"b": np.zeros(3, np.float32)}, X)
    assert not other_shape.outputs[0].agrees


def test_all_runs_call_observers_first(tmp_path):
    calls = []

    def observe(layer, inputs, outputs, seconds, scope):
        calls.append(layer.name)

    compare(make_chain(("Relu", {}), ("Exp", {})), "f64", X, observers=[observe])
    assert calls == ["a", "b", "a", "b"]


def test_references_in_f64_keep_their_type():
    model = make_chain(("Exp", {}), ("Log", {}))
    result = compare(model, "f64", X)
    assert (result.reference, result.precision) == ("f64", "f64")
    assert 0 < result.outputs[0].metrics.max_abs < 1e-6
    assert result.to_json()["reference"] == "f64"
    assert compare(model, make_chain(("Exp", {}), ("Log", {})), X).reference == "net"


# Bodies, against OpenVINO


@pytest.fixture
def openvino_values(monkeypatch):
    """Change values of OpenVINO: by 1 for the keys in the returned set."""
    pytest.importorskip("openvino")
    from irrun.inspection.openvino_reference import OpenVinoReference

    keys: set[str] = set()
    get_value = OpenVinoReference.get_value

    def get_changed_value(self, layer, port, scope):
        value = get_value(self, layer, port, scope)
        return value + 1 if value is not None and layer.name in keys else value

    monkeypatch.setattr(OpenVinoReference, "get_value", get_changed_value)
    return keys


def test_layers_of_bodies_are_compared_with_openvino(tmp_path, openvino_values):
    path = write_loop(tmp_path, "Relu", "Exp")
    result = compare(path, "openvino", X)
    keys = ["it[0]/layer1", "it[0]/layer2", "it[1]/layer1", "it[1]/layer2", "it"]
    assert list(get_verdicts(result)) == keys
    assert (result.agrees, result.matched, result.layers_total) == (True, 3, 3)
    openvino_values.add("it")
    verdicts = get_verdicts(compare(path, "openvino", X))
    assert (verdicts["it"], verdicts["it[0]/layer1"]) == ("adds", "exact")
    openvino_values.symmetric_difference_update(("it", "layer1"))
    verdicts = get_verdicts(compare(path, "openvino", X))
    assert (verdicts["it"], verdicts["it[0]/layer1"]) == ("exact", "adds")
    openvino_values.add("it")
    verdicts = get_verdicts(compare(path, "openvino", X))
    assert (verdicts["it"], verdicts["it[0]/layer1"], verdicts["it[1]/layer1"]) == ("amplifies", "adds", "adds")
    assert compare(path, "openvino", X, factor=1e9).first is None


def write_branch_loop(folder):
    """Write a loop over an output of a Split, whose body passes on a Parameter that nothing else uses."""
    shape, row = (2, 3), (1, 3)
    body_layers = [
        layer(0, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, row, "FP32")], name="row"),
        layer(1, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, shape, "FP32")], name="whole"),
        layer(2, "Exp", inputs=[port(0, row)], outputs=[port(1, row, "FP32")], name="exp"),
        layer(3, "Result", inputs=[port(0, row)], name="r0"),
        layer(4, "Result", inputs=[port(0, shape)], name="r1"),
    ]
    body = net(body_layers, [(0, 0, 2, 0), (2, 1, 3, 0), (1, 0, 4, 0)])
    body = body.partition("<net")[2].partition(">")[2].removesuffix("</net>")
    inner = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        '<input external_port_id="1" internal_layer_id="1"/>'
        '<output axis="0" external_port_id="2" internal_layer_id="3"/>'
        '<output external_port_id="3" internal_layer_id="4"/></port_map>'
        f"<body>{body}</body>"
    )
    layers = [
        layer(0, "Parameter", data='shape="4,3" element_type="f32"', outputs=[port(0, (4, 3), "FP32")], name="x"),
        layer(1, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0, (), "I64")]),
        layer(2, "Split", data='num_splits="2"', inputs=[port(0, (4, 3)), port(1)],
              outputs=[port(2, shape, "FP32"), port(3, shape, "FP32")], name="split"),
        layer(3, "TensorIterator", inputs=[port(0, shape), port(1, shape)],
              outputs=[port(2, shape, "FP32"), port(3, shape, "FP32")], inner=inner, name="it"),
        *(layer(4 + i, "Result", inputs=[port(0, shape)], name=f"y{i}") for i in range(3)),
    ]  # fmt: skip
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 3, 3, 0), (2, 2, 3, 1), (3, 2, 4, 0), (3, 3, 5, 0), (2, 2, 6, 0)]
    return write(folder, net(layers, edges), bytes(8), name="branches")


def test_bodies_are_run_on_the_values_that_openvino_has(tmp_path, openvino_values):
    path = write_branch_loop(tmp_path)
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    result = compare(path, "openvino", x)
    assert get_verdicts(result) == dict.fromkeys(("split", "it[0]/exp", "it[1]/exp", "it"), "exact")
    assert result.agrees
    openvino_values.add("exp")
    assert [n.key for n in compare(path, "openvino", x).layers if n.verdict == "adds"] == ["it[0]/exp", "it[1]/exp"]


def test_bodies_without_values_of_inputs_are_not_compared(tmp_path):
    from irrun.inspection.bodies import compare_bodies
    from irrun.inspection.keys import KeyTable

    model = irrun.read_model(write_branch_loop(tmp_path))

    class Reference:
        def find_value(self, layer, port):
            return None

    owner = next(n for n in model.graph.layers if n.bodies)
    assert compare_bodies(model, KeyTable(model), Reference(), owner, None) == []


def test_arrays_of_another_kind_differ():
    model = make_chain(("Negative", {}), ("Exp", {}))
    texts = np.full((2, 3), "a", object)
    assert get_verdicts(compare(model, {"a": texts}, X)) == {"a": "adds"}
    assert get_verdicts(compare(model, {"a": np.zeros((2, 3), [("nf4", np.uint8)])}, X)) == {"a": "adds"}


def test_layers_are_described():
    layer = get_layer(make_chain(("Negative", {})), {"a": X})
    assert (layer.name, layer.type, layer.key, layer.matched_by) == ("a", "Negative", "a", "name")
    integers = make_chain(("Convert", {"destination_type": "i32"}))
    assert get_layer(integers, {"a": X.astype(np.int32)}).tolerance == 0
    assert get_layer(integers, {"a": X.astype(np.int32) + 1}).tolerance == 0
    assert get_layer(integers, {"a": X}).tolerance == 0


def test_layers_between_compared_ones_are_named_by_the_nearest_before_them():
    """Both inputs of the sum depend on a layer that the reference does not have."""
    model = make_model(
        Row("x", "Parameter", shapes=[X.shape]),
        Row("a", "Sigmoid", ["x"]),
        Row("b", "Relu", ["a"]),
        Row("c", "Exp", ["a"]),
        Row("d", "Add", ["b", "c"]),
        Row("y", "Result", ["d"]),
    )
    a = 1 / (1 + np.exp(-X))
    for reference, since in (({}, ("x",)), ({"a": a}, ("a",)), ({"c": np.exp(a)}, ("c", "x")), ({"b": a}, ("b", "x"))):
        (cause,) = compare(model, {**reference, "d": a + np.exp(a) + 1}, X).causes
        assert (cause.key, cause.since) == ("d", since)
    (cause,) = compare(model, {"b": a, "c": np.exp(a), "d": a + np.exp(a) + 1}, X).causes
    assert cause.since == ()
