"""Checks of the values of a run."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import check

X = np.ones((2, 3), np.float32)


def list_kinds(report):
    return [(f.kind, f.key) for f in report.findings]


def test_model_without_findings_passes(tmp_path):
    report = check(write(tmp_path, chain("Sigmoid", "Exp")), X)
    assert report.passed
    assert report.findings == []
    assert report.to_json() == {"passed": True, "runs": 1, "first": None, "findings": []}


def test_layer_that_makes_nan_is_named(tmp_path):
    report = check(write(tmp_path, chain("Negative", "Sqrt", "Exp")), X)
    assert not report.passed
    assert report.first.key == "layer2"
    assert report.first.message == "6 NaN elements, made here; they appear here first"
    assert list_kinds(report) == [("nan", "layer2")]


def test_nan_of_the_inputs_is_inherited(tmp_path):
    report = check(write(tmp_path, chain("Exp", "Sqrt")), np.full((2, 3), np.nan, np.float32))
    assert list_kinds(report) == [("nan", "layer1")]
    assert "inherited from an input of the model or a constant" in report.first.message


def test_infinity_and_nan_from_it_are_distinguished(tmp_path):
    report = check(write(tmp_path, chain("Exp", "Sin")), np.full((2, 3), 100, np.float32))
    assert list_kinds(report) == [("infinity", "layer1"), ("nan", "layer2")]
    assert "made from infinite inputs" in report.findings[1].message


def test_swallowed_nan_is_noted(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "Sqrt", inputs=[port(0)], outputs=[port(1)]),
        layer(2, "IsNaN", "opset10", inputs=[port(0)], outputs=[port(1)]),
        layer(3, "Select", inputs=[port(0), port(1), port(2)], outputs=[port(3)]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0), (0, 0, 3, 1), (1, 1, 3, 2), (3, 3, 4, 0)]
    report = check(write(tmp_path, net(layers, edges)), np.float32([-1, 4]))
    assert list_kinds(report) == [("nan", "layer1"), ("nan swallowed", "layer3")]


@pytest.mark.parametrize(
    ("target", "value", "kinds"),
    [
        ("f16", 12, [("overflow", "layer1")]),
        ("bf16", 12, []),
        ("f16", -20, [("vanishing", "layer1")]),
        ("bf16", -20, []),
        (None, 12, []),
        (None, -95, [("denormal", "layer1")]),
    ],
)
def test_values_that_a_type_cannot_represent_are_reported(tmp_path, target, value, kinds):
    report = check(write(tmp_path, chain("Exp", "Sigmoid")), np.full((2, 3), value, np.float32), target_type=target)
    assert list_kinds(report) == kinds
    assert report.passed == ("overflow" not in str(kinds))


def test_constant_channels_are_found_over_all_inputs(tmp_path):
    path = write(tmp_path, chain("Relu", shape=("?", 3)))
    x = np.float32([[-1, 1, 2]] * 8)
    report = check(path, x)
    assert list_kinds(report) == [("zero channels", "layer1"), ("constant channels", "layer1")]
    other = np.float32([[-1, 3, 4]] * 8)
    report = check(path, input_sets=[x, other])
    assert [(f.kind, f.message) for f in report.findings] == [
        ("zero channels", "1 of 3 channels are always zero over all inputs")
    ]
    assert report.runs == 2


def write_quantization(folder, low, high):
    """Write a model that quantizes its input to 256 levels."""
    layers = [
        layer(0, "Parameter", data='shape="?" element_type="f32"', outputs=[port(0, (-1,), "FP32")], name="x"),
        layer(1, "FakeQuantize", data='levels="256"', inputs=[port(i) for i in range(5)], outputs=[port(5)]),
        *(
            layer(2 + i, "Const", data=f'element_type="f32" shape="" offset="{4 * i}" size="4"', outputs=[port(0)])
            for i in range(2)
        ),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), *((2 + i % 2, 0, 1, 1 + i) for i in range(4)), (1, 5, 4, 0)]
    return write(folder, net(layers, edges), np.float32([low, high]))


@pytest.mark.parametrize(
    ("low", "high", "count", "message"),
    [
        (0, 1, 0, None),
        (0, 1, 1, "1.0% of the elements are clipped"),
        (0, 1, 37, "37.0% of the elements are clipped"),
        (-9, 0.5, 37, "63.0% of the elements are clipped"),
        (1, 0, 2, "2.0% of the elements are clipped"),
    ],
)
def test_elements_that_are_clipped_are_counted(tmp_path, low, high, count, message):
    x = np.linspace(0.501, 1, 100, dtype=np.float32)
    x[:count] = -1
    report = check(write_quantization(tmp_path, low, high), x)
    assert [f.message for f in report.findings if f.kind == "saturation"] == ([message] if message else [])
    assert report.passed


def test_values_at_the_limits_are_not_clipped(tmp_path):
    x = np.full(100, 1 + 5e-7, np.float32)
    assert not [f for f in check(write_quantization(tmp_path, 0, 1), x).findings if f.kind == "saturation"]
    x[:] = 1 + 2e-6
    findings = check(write_quantization(tmp_path, 0, 1), x).findings
    assert [f.message for f in findings if f.kind == "saturation"] == ["100.0% of the elements are clipped"]


@pytest.mark.parametrize(
    ("shape", "channels"), [((8, 3), 3), ((2, 4, 3), 3), ((1, 2, 4, 5), 2), ((1, 2, 2, 2, 5), 2), ((7, 3), None)]
)
def test_channels_are_the_second_axis_of_images_and_the_last_of_others(tmp_path, shape, channels):
    x = np.zeros(shape, np.float32)
    report = check(write(tmp_path, chain("Relu", shape=shape)), x)
    messages = [f.message for f in report.findings if f.kind == "zero channels"]
    assert messages == ([f"{channels} of {channels} channels are always zero over all inputs"] if channels else [])


def test_vectors_have_no_channels(tmp_path):
    path = write(tmp_path, chain("Relu", shape=(3,)))
    report = check(path, input_sets=[np.zeros(3, np.float32)] * 20)
    assert report.runs == 20
    assert report.findings == []


def test_only_channels_of_floating_point_values_of_some_operations_are_checked(tmp_path):
    x = np.zeros((8, 3), np.float32)
    assert check(write(tmp_path, chain("Abs", shape=(8, 3))), x).findings == []
    model = make_model(Row("x", "Parameter", attributes={"element_type": "i32"}), Row("a", "Add", ["x", "x"]))
    model.graph.add_result("y", (1, model.graph.layers[1].outputs[0].id))
    assert check(model, x.astype(np.int32)).findings == []


def test_inputs_may_have_different_numbers_of_channels(tmp_path):
    path = write(tmp_path, chain("Relu", shape=("?", "?")))
    report = check(path, input_sets=[np.zeros((8, 3), np.float32), np.ones((8, 4), np.float32)])
    assert report.runs == 2
    assert [f.message for f in report.findings] == ["3 of 3 channels are always zero over all inputs"]


def test_channels_of_layers_that_inherit_them_are_not_repeated(tmp_path):
    x = np.float32([[0, 1, 2]] * 8) + np.float32([[0, 1, 0]]) * np.arange(8, dtype=np.float32)[:, None]
    report = check(write(tmp_path, chain("Relu", "Relu", "Sigmoid", shape=(8, 3))), x)
    assert ("zero channels", "layer1") in list_kinds(report)
    assert ("zero channels", "layer2") not in list_kinds(report)


def test_wrong_declarations_are_errors(tmp_path):
    text = chain("Relu").replace(
        '<port id="1" precision="FP32"><dim>2</dim><dim>3</dim>',
        '<port id="1" precision="FP32"><dim>2</dim><dim>4</dim>',
    )
    report = check(irrun.read_model(write(tmp_path, text)), X)
    assert list_kinds(report) == [("declaration", "layer1")]
    assert "declared f32[2,4] and is f32[2,3]" in report.first.message


def test_unknown_type_is_reported(tmp_path):
    with pytest.raises(irrun.InputError, match="target_type is 'f8', expected None, 'f16' or 'bf16'"):
        check(write(tmp_path, chain("Relu")), X, target_type="f8")


def run_check(*rows, inputs=None, **options):
    return check(make_model(*rows), inputs, **options)


def list_messages(report):
    return [(f.kind, f.level, f.key, f.type, f.message) for f in report.findings]


def test_findings_of_several_runs_and_elements_are_added_up():
    x = np.float32([[-1, -2, 4, 0, 1, 1]])
    rows = [Row("x", "Parameter"), Row("a", "Sqrt", ["x"]), Row("b", "Exp", ["a"]), Row("y", "Result", ["b"])]
    report = run_check(*rows, input_sets=[[x], [-x]])
    assert report.runs == 2
    message = "5 NaN elements, made here; they appear here first"
    assert list_messages(report) == [("nan", "error", "a", "Sqrt", message)]
    assert report.to_json()["first"] == "a"
    assert report.to_json()["findings"] == [
        {"kind": "nan", "level": "error", "key": "a", "type": "Sqrt", "message": message}
    ]


def test_only_the_first_layer_with_inherited_values_is_reported():
    rows = [
        Row("x", "Parameter"),
        Row("a", "Relu", ["x"]),
        Row("b", "Sqrt", ["a"]),
        Row("c", "Log", ["b"]),
        Row("y", "Result", ["c"]),
    ]
    report = run_check(*rows, inputs=np.float32([np.inf, 1]))
    message = "1 infinite element, inherited from an input of the model or a constant"
    assert list_messages(report) == [("infinity", "error", "a", "Relu", message)]


def test_origin_of_each_kind_is_distinguished():
    rows = [
        Row("x", "Parameter"),
        Row("one", "Parameter"),
        Row("a", "Divide", ["one", "x"]),
        Row("b", "Subtract", ["a", "a"]),
        Row("c", "Log", ["x"]),
        Row("y", "Result", ["b"]),
        Row("z", "Result", ["c"]),
    ]
    report = run_check(*rows, inputs=[np.float32([0, -1]), np.float32([1, 1])])
    assert list_messages(report) == [
        ("infinity", "error", "a", "Divide", "1 infinite element, made here; it appears here first"),
        ("nan", "error", "b", "Subtract", "1 NaN element, made from infinite inputs; it appears here first"),
        ("nan", "error", "c", "Log", "1 NaN element, made here"),
        ("infinity", "error", "c", "Log", "1 infinite element, made here"),
    ]
    inherited = run_check(*rows[:4], Row("y", "Result", ["b"]), inputs=[np.float32([np.nan]), np.float32([0])])
    assert [f.key for f in inherited.findings] == ["a"]


def test_layers_without_floating_point_outputs_swallow_nothing():
    rows = [
        Row("x", "Parameter"),
        Row("shape", "ShapeOf", ["x"], {"output_type": "i64"}, version="opset3"),
        Row("is_nan", "IsNaN", ["x"], version="opset10"),
        Row("y", "Result", ["shape"]),
        Row("z", "Result", ["is_nan"]),
    ]
    assert run_check(*rows, inputs=np.float32([np.nan])).findings == []


@pytest.mark.parametrize(
    ("count", "size", "message"), [(1, 100, "1.0%"), (1, 101, None), (2, 3, "66.7%"), (1, 1, "100.0%")]
)
def test_vanishing_elements_are_reported_from_one_percent_on(tmp_path, count, size, message):
    x = np.ones(size, np.float32)
    x[:count] = 1e-9
    report = check(write(tmp_path, chain("Relu", shape=(size,))), x, target_type="f16")
    expected = [f"{message} of the elements become 0 in f16"] if message else []
    assert [(f.kind, f.level, f.message) for f in report.findings] == [("vanishing", "note", text) for text in expected]


def test_overflow_states_the_largest_finite_element(tmp_path):
    path = write(tmp_path, chain("Relu", shape=(4,)))
    report = check(path, np.float32([65519, 65520, 1e6, 1]), target_type="f16")
    assert [f.message for f in report.findings] == ["2 elements overflow in f16, the largest is 1e+06"]
    report = check(path, input_sets=[np.float32([7e4, 1, 1, 1]), np.float32([1, 1, 1, np.inf])], target_type="f16")
    assert [(f.kind, f.message) for f in report.findings if f.kind == "overflow"] == [
        ("overflow", "1 element overflows in f16, the largest is 7e+04")
    ]
    assert not report.passed


def test_denormal_elements_are_counted(tmp_path):
    tiny = float(np.finfo(np.float32).tiny)
    path = write(tmp_path, chain("Negative", shape=(5,)))
    report = check(path, np.float32([tiny, tiny / 2, -tiny / 4, 0, 1]))
    message = "2 elements are denormal, which slows processors down"
    assert list_messages(report) == [("denormal", "note", "layer1", "Negative", message)]
    assert report.passed
    assert report.first is None


def quantize(*inputs, size=5):
    """Return the findings of a FakeQuantize whose limits are inputs of the model."""
    names = [f"x{i}" for i in range(5)]
    rows = [*(Row(name, "Parameter") for name in names)]
    rows += [Row("q", "FakeQuantize", names[:size], {"levels": "256"}), Row("y", "Result", ["q"])]
    return [f.message for f in run_check(*rows, inputs=list(inputs)).findings if f.kind == "saturation"]


def test_clipping_is_measured_for_each_channel():
    x = np.float32([[0.5, 1.5], [2.5, 3.5], [-1, 1]])
    one = np.float32([0])
    assert quantize(x, one, np.float32([1, 2]), one, one + 1) == ["50.0% of the elements are clipped"]
    assert quantize(x, np.float32([[0], [2], [-1]]), np.float32([[2], [4], [1]]), one, one + 1) == []
    assert quantize(x[0, :1] + 7, one, one + 1, one, one + 1) == ["100.0% of the elements are clipped"]
    assert quantize(one + 0.5, one + 0.5, one + 0.5, one, one + 1) == []
    low = np.float32([-0.5, 0])
    assert quantize(x[2:] * 0, low, -low, one, one + 1) == []


def test_limits_that_broadcast_by_an_axis_are_not_checked():
    attributes = {"levels": "256", "auto_broadcast": "pdpd", "auto_broadcast_axis": "1"}
    rows = [
        Row("x", "Parameter"),
        *(Row(f"c{i}", "Constant", value=np.full(3, i % 2, np.float32)) for i in range(4)),
        Row("q", "FakeQuantize", ["x", "c0", "c1", "c2", "c3"], attributes),
        Row("y", "Result", ["q"]),
    ]
    assert run_check(*rows, inputs=np.full((2, 3, 4), 7, np.float32)).findings == []


def test_channels_are_constant_only_if_all_elements_are_equal():
    x = np.float32([[[[1, 1], [1, 1]], [[0, 0], [0, 1e-6]], [[0, 0], [0, 0]]]] * 2)
    rows = [Row("x", "Parameter"), Row("a", "Relu", ["x"]), Row("y", "Result", ["a"])]
    assert list_messages(run_check(*rows, inputs=x)) == [
        ("zero channels", "note", "a", "Relu", "1 of 3 channels are always zero over all inputs"),
        ("constant channels", "note", "a", "Relu", "1 of 3 channels are constant over all inputs"),
    ]
    assert run_check(*rows, inputs=x[:, :, :0]).findings == []
    assert run_check(*rows, inputs=np.zeros(20, np.float32)).findings == []
    few = [x[:1, :, :1], x[:1, :, 1:], x[1:, :, :1]]
    assert run_check(*rows, input_sets=[[v] for v in few]).findings == []
    assert len(run_check(*rows, input_sets=[[v] for v in (*few, x[1:, :, 1:])]).findings) == 2


def test_other_numbers_of_channels_do_not_change_the_ranges():
    rows = [Row("x", "Parameter"), Row("a", "Relu", ["x"]), Row("y", "Result", ["a"])]
    x = np.ones((4, 3), np.float32)
    report = run_check(*rows, input_sets=[[x], [np.zeros((8, 1), np.float32)], [x]])
    assert [f.message for f in report.findings] == ["3 of 3 channels are constant over all inputs"]
    report = run_check(*rows, input_sets=[[x], [np.zeros((8, 1), np.float32)]])
    assert report.findings == []


def test_channels_that_an_input_has_too_are_not_reported():
    x = np.tile(np.float32([0, 1, 2]), (8, 1)) + np.float32([0, 0, 1]) * np.arange(8, dtype=np.float32)[:, None]
    c = np.float32([1, 1, 1])
    rows = [
        Row("x", "Parameter"),
        Row("a", "Relu", ["x"]),
        Row("b", "Multiply", ["a", "c"]),
        Row("c", "Constant", value=c),
        Row("d", "Add", ["b", "c"]),
        Row("y", "Result", ["d"]),
    ]
    assert [(f.kind, f.key, f.message) for f in run_check(*rows, inputs=x).findings] == [
        ("zero channels", "a", "1 of 3 channels are always zero over all inputs"),
        ("constant channels", "a", "1 of 3 channels are constant over all inputs"),
        ("constant channels", "d", "2 of 3 channels are constant over all inputs"),
    ]


def test_constants_are_not_checked():
    nan = np.float32([np.nan] * 8)
    rows = [
        Row("x", "Parameter"),
        Row("c", "Constant", value=nan),
        Row("d", "Relu", ["c"]),
        Row("a", "Add", ["x", "d"]),
        Row("y", "Result", ["a"]),
    ]
    message = "8 NaN elements, inherited from an input of the model or a constant"
    for memory in (0, None):
        compiled = irrun.compile_model(make_model(*rows), optimize=False, weights_memory=memory)
        report = check(compiled, np.float32([1] * 8))
        assert [(f.key, f.message) for f in report.findings] == [("a", message)]


def test_layers_of_bodies_are_checked_in_all_iterations(tmp_path):
    x = np.float32([[-1, -2, -3], [1e-40, 0, 0]])
    report = check(write_row_loop(tmp_path), x, observers=[lambda *arguments: None])
    assert [(f.kind, f.key, f.message) for f in report.findings] == [
        ("denormal", "it[0]/layer1", "1 elements are denormal, which slows processors down"),
        ("denormal", "it", "1 elements are denormal, which slows processors down"),
    ]


def test_compiled_models_are_checked_as_they_are(tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Sqrt")), optimize=False)
    assert check(compiled, -X).first is not None
    assert check(irrun.read_model(write(tmp_path, chain("Sqrt"))), X).runs == 1


def test_channels_of_another_kind_are_reported():
    x = np.float32([[-1, -2, 1]] * 8) * np.arange(1, 9, dtype=np.float32)[:, None]
    rows = [Row("x", "Parameter"), Row("a", "Relu", ["x"]), Row("b", "Sigmoid", ["a"]), Row("y", "Result", ["b"])]
    assert [(f.kind, f.key, f.message) for f in run_check(*rows, inputs=x).findings] == [
        ("zero channels", "a", "2 of 3 channels are always zero over all inputs"),
        ("constant channels", "b", "2 of 3 channels are constant over all inputs"),
    ]
