"""Comparison with references of all kinds, verdicts, and the JSON of the report."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.inspection import compare, record
from irrun.inspection.verdicts import VERDICTS

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
X = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)


def make_models(tmp_path, *types, data=("", "", "")):
    """Return a chain of Elu, Sigmoid and Elu, and one with other attributes."""
    good = write(tmp_path, chain("Elu", "Sigmoid", "Elu", data=['alpha="1"', "", 'alpha="1"']), name="good")
    bad = write(tmp_path, chain("Elu", "Sigmoid", "Elu", data=['alpha="2"', "", 'alpha="1"']), name="bad")
    return good, bad


def get_verdicts(result):
    return {n.key: n.verdict for n in result.layers}


def test_equal_models_are_exact(tmp_path):
    good, _ = make_models(tmp_path)
    result = compare(good, good, X)
    assert result.agrees
    assert result.first is None
    assert get_verdicts(result) == {"layer1": "exact", "layer2": "exact", "layer3": "exact"}


def test_layer_that_adds_an_error_is_distinguished_from_those_that_inherit_it(tmp_path):
    good, bad = make_models(tmp_path)
    result = compare(good, bad, X)
    assert not result.agrees
    assert result.first.key == "layer1"
    assert result.first.reason == "alpha is 1, but 2 in the reference"
    assert get_verdicts(result) == {"layer1": "adds", "layer2": "inherits", "layer3": "inherits"}
    own = {n.key: n.own.is_exact for n in result.layers}
    assert own == {"layer1": False, "layer2": True, "layer3": True}


def write_constants(folder, name, values, operands=(1, 2), element_type="f32"):
    """Write x * (a - b), where a and b are constants."""
    dtype = np.dtype({"f32": np.float32, "f16": np.float16}[element_type])
    constant = f'element_type="{element_type}" shape="2" offset="{{}}" size="{2 * dtype.itemsize}"'
    precision = {"f32": "FP32", "f16": "FP16"}[element_type]
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x")], name="x"),
        *(
            layer(i + 1, "Const", data=constant.format(i * 2 * dtype.itemsize), outputs=[port(0, (2,), precision)],
                  name="ab"[i])
            for i in range(2)
        ),
        layer(3, "Subtract", inputs=[port(0), port(1)], outputs=[port(2, (2,), precision)], name="difference"),
        layer(4, "Convert", data='destination_type="f32"', inputs=[port(0)], outputs=[port(1, (2,), "FP32")], name="c"),
        layer(5, "Multiply", inputs=[port(0), port(1)], outputs=[port(2, (2,), "FP32")], name="product"),
        layer(6, "Result", inputs=[port(0)], name="y"),
    ]  # fmt: skip
    edges = [(operands[0], 0, 3, 0), (operands[1], 0, 3, 1), (3, 2, 4, 0), (0, 0, 5, 0), (4, 1, 5, 1), (5, 2, 6, 0)]
    return write(folder, net(layers, edges), np.array(values, dtype), name=name)


def test_constants_that_differ_are_named(tmp_path):
    good = write_constants(tmp_path, "good", [[3, 4], [1, 2]])
    x = np.float32([1, 2])
    result = compare(good, write_constants(tmp_path, "bad", [[3, 4], [1, 5]]), x)
    assert (result.first.key, result.first.verdict) == ("product", "adds")
    assert result.first.reason == "constant 'b' differs in 1 of 2 elements"
    result = compare(good, write_constants(tmp_path, "half", [[3, 4], [1, 5]], element_type="f16"), x)
    assert (
        result.first.reason
        == "constant 'a' is f32, but f16 in the reference; constant 'b' is f32, but f16 in the reference"
    )
    assert compare(good, write_constants(tmp_path, "same", [[3, 4], [1, 2]]), x).agrees


def test_layers_of_constants_with_other_orders_of_inputs_are_found(tmp_path):
    good = write_constants(tmp_path, "good", [[3, 4], [1, 2]])
    x = np.float32([1, 2])
    result = compare(good, write_constants(tmp_path, "bad", [[3, 4], [1, 2]], operands=(2, 1)), x)
    reasons = {n.key: n.reason for n in result.layers}
    assert reasons["difference"] == "the order of its inputs differs"
    assert get_verdicts(result)["difference"] == "adds"
    equal = write_constants(tmp_path, "equal", [[3, 4], [3, 4]], operands=(2, 1))
    assert compare(write_constants(tmp_path, "first", [[3, 4], [3, 4]]), equal, x).agrees


def test_comparison_is_described(tmp_path):
    good, bad = make_models(tmp_path)
    assert repr(compare(good, good, X)) == f"<Comparison: agrees with {good}, 3 of 3 layers matched>"
    assert repr(compare(good, bad, X)) == f"<Comparison: differs with {bad}, 3 of 3 layers matched>"


def test_models_with_other_inputs_are_refused(tmp_path):
    good, _ = make_models(tmp_path)
    layers = [
        layer(i, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32", "xy"[i])])
        for i in range(2)
    ]
    layers += [layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32")])]
    layers += [layer(3, "Result", inputs=[port(0)])]
    other = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), name="other")
    with pytest.raises(irrun.InputError, match="the models have 1 and 2 inputs, expected the same inputs"):
        compare(good, other, X)


def test_tolerance_is_a_multiple_of_the_rounding_error(tmp_path):
    path = write(tmp_path, chain("Exp"))
    value = record(path, X)["layer1"]
    moved = value + 40 * np.spacing(value)
    assert compare(path, {"layer1": moved}, X, factor=100).agrees
    assert get_verdicts(compare(path, {"layer1": moved}, X, factor=1)) == {"layer1": "adds"}


def test_values_close_to_zero_are_recognized(tmp_path):
    """The sum cancels: its error is small compared with its inputs."""
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x")], name="x"),
        layer(1, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "y")], name="y"),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2,), "FP32")], name="sum"),
        layer(3, "Result", inputs=[port(0)], name="z"),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))
    x = np.float32([1000, 1000])
    y = -x + np.float32([0, 1])
    value = x + y
    for error, verdict in ((1e-5, "near zero"), (1, "adds")):
        other = value + np.float32([error, 0])
        assert get_verdicts(compare(path, {"sum": other}, [x, y]))["sum"] == verdict


def test_json_has_the_documented_form(tmp_path):
    good, bad = make_models(tmp_path)
    result = compare(good, bad, X).to_json()
    assert list(result) == [
        "agrees",
        "outcome",
        "reference",
        "precision",
        "matched",
        "layers_total",
        "first",
        "causes",
        "runs",
        "notes",
        "outputs",
        "layers",
    ]
    assert (result["agrees"], result["first"], result["matched"], result["layers_total"]) == (False, "layer1", 3, 3)
    assert result["reference"] == str(bad)
    names = ["name", "type", "key", "matched_by", "own", "accumulated", "verdict", "reason"]
    assert list(result["layers"][0]) == [*names, "run", "contribution_db", "since"]
    assert {"max_abs", "max_rel", "sqnr_db", "cosine"} < set(result["layers"][0]["own"])
    assert {"name", "max_abs", "sqnr_db"} < set(result["outputs"][0])
    assert {n["verdict"] for n in result["layers"]} <= set(VERDICTS)


@pytest.mark.parametrize("kind", ["trace", "npz", "folder", "safetensors", "mapping", "trace object"])
def test_recorded_values_are_a_reference(tmp_path, kind):
    good, bad = make_models(tmp_path)
    trace = record(bad, X, tmp_path / "bad.trace")
    values = {key: np.ascontiguousarray(trace[key]) for key in trace}
    reference = tmp_path / "values"
    if kind == "trace":
        reference = tmp_path / "bad.trace"
    elif kind == "npz":
        reference = tmp_path / "values.npz"
        np.savez(reference, **values)
    elif kind == "folder":
        reference.mkdir()
        for key, value in values.items():
            np.save(reference / f"{key}.npy", value)
    elif kind == "safetensors":
        reference = tmp_path / "values.safetensors"
        pytest.importorskip("safetensors.numpy").save_file(values, reference)
    else:
        reference = trace if kind == "trace object" else values
    result = compare(good, reference, X)
    assert result.first.key == "layer1"
    assert result.matched == 3
    assert compare(bad, reference, X).agrees


def test_partial_reference_measures_what_several_layers_add(tmp_path):
    good, bad = make_models(tmp_path)
    trace = record(bad, X)
    result = compare(good, {"layer2": trace["layer2"]}, X)
    assert get_verdicts(result) == {"layer2": "adds"}
    assert (result.matched, result.layers_total) == (1, 3)


def test_names_of_pytorch_and_of_files_are_matched(tmp_path):
    text = chain("Relu", "Exp").replace('name="layer1"', 'name="__module.block.0/aten::relu"')
    path = write(tmp_path, text)
    value = np.maximum(X, 0)
    for name in ("__module.block.0/aten::relu", "block.0_aten_relu"):
        assert compare(path, {name: value}, X).matched == 1


def test_layers_with_other_names_are_matched_by_order(tmp_path):
    good, bad = make_models(tmp_path)
    renamed = write(
        tmp_path,
        bad.read_text()
        .replace("layer", "node")
        .replace("<node", "<layer")
        .replace("</node", "</layer")
        .replace("from-node", "from-layer")
        .replace("to-node", "to-layer"),
        name="renamed",
    )
    result = compare(good, renamed, X)
    assert {n.matched_by for n in result.layers} == {"order"}
    assert result.first.key == "layer1"


def test_bodies_are_compared_iteration_by_iteration():
    x = np.load(EXAMPLE / "input.npy")
    model = irrun.read_model(EXAMPLE / "model.xml")
    trace = dict(record(model, x))
    key = next(k for k in trace if k.startswith("beam_search[4]/Tanh"))
    trace[key] = trace[key] + 1
    result = compare(model, trace, x)
    assert result.first.key == key


def test_f64_tells_ill_conditioned_layers_from_wrong_ones(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="4" element_type="f32"', outputs=[port(0, (4,), "FP32", "x")], name="x"),
        layer(1, "Exp", inputs=[port(0)], outputs=[port(1, (4,), "FP32")], name="exp"),
        layer(2, "Log", inputs=[port(0)], outputs=[port(1, (4,), "FP32")], name="log"),
        layer(3, "Result", inputs=[port(0)], name="y"),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)]))
    result = compare(path, "f64", np.float32([1e-6, 2e-6, 3e-6, 1e-5]))
    assert get_verdicts(result)["log"] == "ill-conditioned"
    assert result.first is None
    assert result.precision == "f64"


def test_overflow_in_f32_is_an_error_against_f64(tmp_path):
    path = write(tmp_path, chain("Exp", "Relu"))
    result = compare(path, "f64", np.full((2, 3), 100, np.float32))
    assert result.first.key == "layer1"


def test_element_at_the_edge_of_two_levels_is_recognized(tmp_path):
    quantize = layer(1, "FakeQuantize", data='levels="256"', inputs=[port(i) for i in range(5)], outputs=[port(5)])
    bounds = np.float32([-1, 1, -1, 1])
    constants = [
        layer(2 + i, "Const", data=f'element_type="f32" shape="" offset="{4 * i}" size="4"', outputs=[port(0)])
        for i in range(4)
    ]
    layers = [
        layer(0, "Parameter", data='shape="1000" element_type="f32"', outputs=[port(0, (1000,), "FP32")], name="x"),
        quantize,
        *constants,
        layer(6, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), *((2 + i, 0, 1, 1 + i) for i in range(4)), (1, 5, 6, 0)]
    path = write(tmp_path, net(layers, edges), bounds)
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    values = dict(record(path, x))
    value = values["layer1"].copy()
    value[17] += np.float32(2 / 255)
    assert get_verdicts(compare(path, {"layer1": value}, x)) == {"layer1": "one level"}
    value[18] += np.float32(1)
    assert get_verdicts(compare(path, {"layer1": value}, x)) == {"layer1": "adds"}


def test_other_shapes_differ(tmp_path):
    good, _ = make_models(tmp_path)
    result = compare(good, {"layer2": np.zeros(3, np.float32)}, X)
    assert get_verdicts(result) == {"layer2": "adds"}
    assert result.to_json()["layers"][0]["own"]["max_abs"] == "inf"


def test_wider_reference_types_are_compared(tmp_path):
    path = write(tmp_path, chain("Relu", "Sigmoid"))
    values = {key: value.astype(np.float64) for key, value in record(path, X).items()}
    assert compare(path, values, X).agrees
    rounded = {key: value.astype(ml_dtypes.bfloat16) for key, value in values.items()}
    assert compare(path, rounded, X).agrees


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("missing.npz", "missing.npz is not a file or folder"),
        ("missing.xml", "cannot read|No such file|does not exist"),
        ("", "does not contain .npy files"),
    ],
)
def test_invalid_reference_is_reported(tmp_path, reference, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(irrun.IrrunError, match=message):
        compare(make_models(tmp_path)[0], reference, X)


def test_empty_folder_and_damaged_files_are_reported(tmp_path):
    good, _ = make_models(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("a.npz", "a.trace", "a.safetensors"):
        (tmp_path / name).write_bytes(b"nothing")
    for name in ("empty", "a.npz", "a.trace", "a.safetensors"):
        with pytest.raises(irrun.InputError, match=name):
            compare(good, tmp_path / name, X)


def test_arrays_that_cannot_be_read_are_reported(tmp_path):
    good, _ = make_models(tmp_path)
    folder = tmp_path / "arrays"
    folder.mkdir()
    (folder / "layer1.npy").write_bytes(b"nothing")
    with pytest.raises(irrun.InputError, match=r"cannot read .*layer1\.npy"):
        compare(good, folder, X)
    np.save(folder / "layer1.npy", np.array([1j]))
    with pytest.raises(irrun.InputError, match=r"cannot read .*layer1\.npy: .*complex"):
        compare(good, folder, X)
    (tmp_path / "values.txt").write_text("")
    with pytest.raises(
        irrun.InputError, match=r"expected an \.xml, \.onnx, \.trace, \.npz or \.safetensors file or a folder"
    ):
        compare(good, tmp_path / "values.txt", X)
    np.savez(tmp_path / "values.npz", layer1=np.array(["a", None], object))
    with pytest.raises(irrun.InputError, match=r"cannot read 'layer1' of .*values\.npz"):
        compare(good, tmp_path / "values.npz", X)


def test_missing_openvino_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(irrun.InputError, match=r"requires OpenVINO: pip install 'irrun\[openvino\]'"):
        compare(make_models(tmp_path)[0], "openvino", X)


def test_openvino_states_its_precision(tmp_path):
    pytest.importorskip("openvino")
    good, _ = make_models(tmp_path)
    result = compare(good, "openvino", X)
    assert result.agrees
    assert result.precision == "f32"
    assert "OpenVINO runs the model in f32" in result.notes[0]
    with pytest.raises(irrun.IrrunError):
        compare(good, "openvino:NOTHING", X)


@pytest.mark.parametrize("size", [0, 50, 1 << 30])
def test_values_of_openvino_do_not_depend_on_batches(tmp_path, monkeypatch, size):
    pytest.importorskip("openvino")
    from irrun.inspection import openvino_model

    monkeypatch.setattr(openvino_model, "BATCH_BYTES", size)
    path = write(tmp_path, chain("Elu", "Sigmoid", "Tanh", "Exp", data=['alpha="1"', "", "", ""]))
    result = compare(path, "openvino", X)
    assert result.agrees
    assert [n.key for n in result.layers] == ["layer1", "layer2", "layer3", "layer4"]
    assert result.matched == 4


def test_openvino_runs_layers_with_equal_names_and_models_in_memory(tmp_path):
    pytest.importorskip("openvino")
    path = write(
        tmp_path, chain("Elu", "Sigmoid", "Elu", data=['alpha="1"', "", 'alpha="1"']).replace("layer3", "layer1")
    )
    model = irrun.read_model(path)
    model.graph.layers[1].attributes["alpha"] = "0.5"
    result = compare(model, "openvino", X)
    assert result.agrees
    assert result.matched == 3
