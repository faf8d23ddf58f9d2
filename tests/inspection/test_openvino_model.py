"""Models that OpenVINO runs: batches of added outputs, precisions, notes and errors."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, write, write_row_loop

import irrun
from inspection import bodies
from inspection.graphs import Row, make_model
from irrun.element_types import ELEMENT_TYPES
from irrun.errors import ExecutionError
from irrun.inspection import compare, openvino_model, spool
from irrun.inspection.openvino_precision import (
    Target,
    count_precisions,
    format_type,
    get_precision,
    get_precision_epsilon,
    parse_target,
)
from irrun.ir.graph import Port
from irrun.shapes import PartialShape, parse_shape

pytest.importorskip("openvino")

from irrun.inspection.openvino_model import OpenVinoModel
from irrun.inspection.openvino_reference import OpenVinoBody, OpenVinoReference
from irrun.inspection.spool import Spool

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
KEYS = [f"layer{i}" for i in range(1, 6)]


@pytest.fixture
def path(tmp_path):
    return write(tmp_path, chain("Tanh", "Sigmoid", "Exp", "Relu", "Negative"))


def run_model(path, x=X):
    """Run a model with all values, and return it with the values and the sizes of the batches."""
    model = OpenVinoModel(irrun.read_model(path), Target())
    sizes = []
    add_batch = model._add_batch

    def spy(layers, *arguments):
        sizes.append(len(layers))
        add_batch(layers, *arguments)

    model._add_batch = spy
    values = Spool()
    outputs = model.run([x], values)
    model.close()
    return model, values, outputs, sizes


def check_values(path, values, x=X):
    for key, value in irrun.inspection.record(path, x).items():
        if key != "x":
            np.testing.assert_allclose(values.get(key), value, rtol=1e-4)


def test_outputs_that_do_not_move_are_not_perturbed(path):
    model, values, outputs, sizes = run_model(path)
    assert model.perturbed == set()
    assert len(outputs) == 1
    assert sizes == [5]
    check_values(path, values)


@pytest.mark.parametrize(
    ("small_batch", "moves", "sizes"), [(2, True, [5, 2, 2, 1]), (4, True, [5, 4, 1]), (5, True, [5]), (2, False, [5])]
)
def test_batches_that_move_outputs_are_divided(path, monkeypatch, small_batch, moves, sizes):
    monkeypatch.setattr(openvino_model, "SMALL_BATCH", small_batch)
    monkeypatch.setattr(OpenVinoModel, "_have_moved", lambda self, differences: moves)
    model, values, _, compiled = run_model(path)
    assert compiled == sizes
    assert model.perturbed == (set(KEYS) if moves else set())
    check_values(path, values)


@pytest.mark.parametrize(
    ("size", "sizes"), [(0, [1] * 5), (24, [1] * 5), (47, [1] * 5), (48, [2, 2, 1]), (72, [3, 2]), (120, [5])]
)
def test_batches_fit_into_memory(path, monkeypatch, size, sizes):
    monkeypatch.setattr(openvino_model, "BATCH_BYTES", size)
    _, values, _, compiled = run_model(path)
    assert compiled == sizes
    check_values(path, values)


@pytest.mark.parametrize(
    ("precision", "factor", "has_moved"),
    [("f32", 1.1, True), ("f32", 0.9, False), ("bf16", 1.1, True), ("bf16", 0.9, False), ("unknown", 1.1, True)],
)
def test_outputs_move_if_they_differ_by_more_than_rounding(path, precision, factor, has_moved):
    model = OpenVinoModel(irrun.read_model(path), Target())
    model.precision = precision
    epsilon = 2**-7 if precision == "bf16" else 2**-23
    values = np.ones(4)
    difference = irrun.inspection.measure(values * (1 + factor * 64 * epsilon), values)
    same = irrun.inspection.measure(values, values)
    assert model._have_moved([difference]) is has_moved
    assert model._have_moved([same, difference, same]) is has_moved
    assert not model._have_moved([same])


def test_values_in_two_runs_are_those_of_their_inputs(path):
    model = OpenVinoModel(irrun.read_model(path), Target())
    model.keeps_batches = True
    for x in (X, 2 * X):
        values = Spool()
        np.testing.assert_array_equal(model.run([x], values)[0], model.infer([x])[0])
        check_values(path, values, x)
    assert len(model._plans) == 1
    model.close()
    assert model._plans == []


def test_weights_are_released_before_batches(path):
    model, *_ = run_model(path)
    assert model._base is None


def test_only_layers_that_compute_something_are_read(tmp_path):
    model = make_model(
        Row("x", "Parameter", shapes=[(2, 3)]),
        Row("c", "Constant", value=np.float32([1, 2, 3])),
        Row("d", "Exp", ["c"], shapes=[(3,)]),
        Row("a", "Add", ["x", "d"], shapes=[(2, 3)]),
        Row("unused", "Exp", ["x"], shapes=[(2, 3)]),
        Row("k", "Constant", value=np.int64(1)),
        Row("t", "TopK", ["a", "k"], {"axis": "1", "mode": "max", "sort": "value", "index_element_type": "i32"}, 2),
        Row("y", "Result", ["t:0"]),
    )
    for port, name in zip(model.graph.layers[6].outputs, ("f32", "i32"), strict=True):
        port.element_type, port.shape = ELEMENT_TYPES[name], PartialShape((2, 1))
    reference = OpenVinoReference("openvino", model, [X])
    layers = {n.name: n for n in model.graph.layers}
    assert {name: reference.find_match(n) for name, n in layers.items()} == {
        "x": None, "c": None, "d": None, "a": "name", "unused": None, "k": None, "t": "name", "y": None,
    }  # fmt: skip
    assert reference.get_value(layers["t"], 0, ()) is not None
    assert reference.get_value(layers["t"], 1, ()) is None
    assert reference.get_value(layers["a"], 0, ((layers["a"], 0),)) is None
    np.testing.assert_array_equal(reference.find_value(layers["x"], 0), X)
    assert reference.find_value(layers["a"], 0).shape == (2, 3)
    assert [value.shape for value in reference.get_outputs()] == [(2, 1)]
    assert (reference.precision, reference.epsilon, reference.is_same_runtime) == ("f32", 2**-23, False)
    reference.close()
    assert reference.get_value(layers["a"], 0, ()) is None
    assert compare(model, "openvino", X).agrees


def test_layers_with_other_outputs_than_those_of_openvino_are_not_read():
    window = {"kernel": "2,2", "strides": "2,2", "dilations": "1,1", "pads_begin": "0,0", "pads_end": "0,0"}
    model = make_model(
        Row("x", "Parameter", shapes=[(1, 1, 4, 4)]),
        Row("p", "MaxPool", ["x"], window, version="opset8", shapes=[(1, 1, 2, 2)]),  # without the indices
        Row("a", "Exp", ["p"], shapes=[(1, 1, 2, 2)]),
        Row("y", "Result", ["a"]),
    )
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    reference = OpenVinoReference("openvino", model, [x])
    assert [reference.find_match(n) for n in model.graph.layers] == [None, None, "name", None]
    np.testing.assert_allclose(reference.find_value(model.graph.layers[2], 0), np.exp([[[[5, 7], [13, 15]]]]), 1e-5)
    reference.close()


@pytest.mark.parametrize(
    ("shape", "element_type", "size"),
    [
        ("2,3", "f32", 24),
        ("2,3", "u4", 3),
        ("3", "i64", 24),
        ("", "f64", 8),
        ("?,3", "f32", 1 << 20),
        (None, "f32", 1 << 20),
        ("2,3", None, 1 << 20),
        ("2,3", "string", 0),
    ],
)
def test_sizes_are_those_of_static_shapes(shape, element_type, size):
    kind = None if element_type is None else ELEMENT_TYPES[element_type]
    port = Port(0, kind, None if shape is None else parse_shape(shape))
    assert openvino_model._estimate_size(port) == size


def test_layers_that_move_outputs_by_rounding_only_are_not_perturbed(path, monkeypatch):
    infer = OpenVinoModel._infer

    def infer_with_rounding(self, compiled, arguments):
        results = infer(self, compiled, arguments)
        return [x * np.float32(1 + 2**-22) if len(results) > 1 else x for x in results]

    monkeypatch.setattr(OpenVinoModel, "_infer", infer_with_rounding)
    model, _, _, sizes = run_model(path)
    assert model.perturbed == set()
    assert sizes == [5]


def test_values_of_another_shape_are_not_those_of_a_layer(path):
    model = OpenVinoModel(irrun.read_model(path), Target())
    layer = model.model.graph.layers[1]
    values = Spool()
    model._store([layer], [X[:1]], {(layer.name, 0): 0}, values)
    assert values.get("layer1") is None
    model._store([layer], [X], {(layer.name, 0): 0}, values)
    np.testing.assert_array_equal(values.get("layer1"), X)
    model.close()


def test_values_in_f64_are_those_of_f32(tmp_path):
    x = np.linspace(0, 3, 6, dtype=np.float64).reshape(2, 3)
    model = make_model(
        Row("x", "Parameter", attributes={"element_type": "f64"}, shapes=[(2, 3)]),
        Row("sin", "Sin", ["x"]),
        Row("y", "Result", ["sin"]),
    )
    for layer in model.graph.layers:
        for port in layer.outputs:
            port.element_type = ELEMENT_TYPES["f64"]
            port.shape = PartialShape((2, 3))
    result = compare(model, "openvino", x)
    assert result.agrees
    assert 100 < result.outputs[0].metrics.sqnr_db < 200


def test_files_that_have_changed_are_not_read_again(path, tmp_path):
    model = irrun.read_model(path)
    assert OpenVinoModel(model, Target())._names[id(model.graph.layers[1])] == "layer1"
    expected = irrun.run(model, X)[0]
    for change in (lambda: path.write_text("nothing"), lambda: path.write_text(chain("Tanh")), path.unlink):
        change()
        (output,) = OpenVinoModel(model, Target()).infer([X])
        np.testing.assert_allclose(output, expected, rtol=1e-4)


def test_changes_in_memory_are_run(tmp_path):
    text = chain("Elu", "Elu", "Elu", data=['alpha="1"'] * 3)
    model = irrun.read_model(write(tmp_path, text))
    changed = irrun.read_model(model.path)
    changed.graph.layers[2].attributes["alpha"] = "3"
    changed.graph.layers[1].name = "layer2"
    for m in (model, changed):
        (output,) = OpenVinoModel(m, Target()).infer([X])
        np.testing.assert_allclose(output, irrun.run(m, X)[0], rtol=1e-4)
    changed.graph.layers[1].name = ""
    (output,) = OpenVinoModel(changed, Target()).infer([X])
    np.testing.assert_allclose(output, irrun.run(changed, X)[0], rtol=1e-4)


def test_layers_with_equal_names_have_keys(tmp_path):
    path = write(tmp_path, chain("Tanh", "Exp", "Relu").replace("layer3", "layer1"))
    result = compare(path, "openvino", X)
    assert (result.agrees, [layer.key for layer in result.layers]) == (True, ["layer1", "layer2", "layer1#3"])


@pytest.mark.parametrize("name", ["", "layer1"])
def test_layers_without_a_name_of_their_own_have_values(tmp_path, name):
    path = write(tmp_path, chain("Tanh", "Exp", "Relu").replace('name="layer2"', f'name="{name}"'))
    model = irrun.read_model(path)
    reference = OpenVinoReference("openvino", model, [X])
    values = [reference.find_value(n, 0) for n in model.graph.layers[1:4]]
    for value, expected in zip(values, (np.tanh(X), np.exp(np.tanh(X)), np.exp(np.tanh(X))), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4)
    reference.close()


def test_f16_inputs_of_version_10_are_read_as_openvino_declares_them(tmp_path):
    text = (
        chain("Relu", shape=(2, 3))
        .replace('version="11"', 'version="10"')
        .replace('element_type="f32"', 'element_type="f16"')
    )
    path = write(tmp_path, text.replace("FP32", "FP16"))
    x = X.astype(np.float16)
    assert compare(path, "openvino", x).agrees


@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_body_is_run_with_the_target_of_its_model(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(spool, "MEMORY", memory)  # values beyond it are in a file, which each iteration replaces
    model = irrun.read_model(write_row_loop(tmp_path))
    reference = OpenVinoReference("openvino", model, [X])
    body = model.graph.layers[1].bodies["body"].graph
    inner = OpenVinoBody(irrun.Model(body, model.weights), reference)
    assert (inner.name, inner.target, inner.precision, inner.epsilon, inner.notes) == (
        "openvino",
        Target(),
        "f32",
        2**-23,
        [],
    )
    relu = body.layers[1]
    for x in (X[:1], X[1:]):
        inner.run([x])
        np.testing.assert_array_equal(inner.get_value(relu, 0, ()), np.maximum(x, 0))
        np.testing.assert_array_equal(inner.find_value(body.layers[0], 0), x)
        np.testing.assert_array_equal(inner.get_outputs()[0], np.maximum(x, 0))
    assert inner.find_match(relu) == "name"
    assert reference.find_match(relu) is None
    inner.close()
    reference.close()


# Perturbed layers and notes


def test_layers_beside_perturbed_ones_are_perturbed(path):
    model = irrun.read_model(path)
    reference = OpenVinoReference("openvino", model, [X])
    layers = model.graph.layers[1:-1]
    assert [reference.is_perturbed(n, ()) for n in layers] == [False] * 5
    reference._model.perturbed = {"layer2"}
    assert [reference.is_perturbed(n, ()) for n in layers] == [False, True, True, False, False]
    assert not reference.is_perturbed(layers[1], ((layers[0], 0),))
    note = "reading 1 layers changed the outputs of OpenVINO; they are marked as perturbed"
    assert note in reference._make_notes()


def test_precisions_are_noted(path):
    reference = OpenVinoReference("openvino", irrun.read_model(path), [X])
    model = reference._model
    model.kernel_precisions = Counter({"f32": 2, "bf16": 3})
    model.precision, model.default_precision = "f32", "f32"
    assert reference._make_notes() == ["OpenVINO runs the model in f32 (3 in bf16, 2 in f32 kernels)"]
    model.kernel_precisions, model.default_precision = Counter(), "bf16"
    assert reference._make_notes() == [
        "OpenVINO's default on this machine is bf16; compare with openvino:bf16 to measure it"
    ]


# Precisions


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("openvino", Target("CPU", "f32")),
        ("openvino:", Target("CPU", "f32")),
        ("openvino:bf16", Target("CPU", "bf16")),
        ("openvino:FP16", Target("CPU", "f16")),
        ("openvino:fp32", Target("CPU", "f32")),
        ("openvino:default", Target("CPU", "")),
        ("openvino:float", Target("CPU", "f32", keeps_quantizers=True)),
        ("openvino:CPU:float", Target("CPU", "f32", keeps_quantizers=True)),
        ("openvino:GPU", Target("GPU", "f32")),
        ("openvino:GPU:f16", Target("GPU", "f16")),
        ("openvino:HETERO:GPU,CPU:bf16", Target("HETERO:GPU,CPU", "bf16")),
        ("openvino:bf16:CPU", Target("bf16:CPU", "f32")),
    ],
)
def test_target_is_a_device_and_a_precision(text, target):
    assert parse_target(text) == target


def test_epsilon_of_lower_precisions_is_known():
    assert [get_precision_epsilon(name) for name in ("f32", "bf16", "f16", "declared")] == [
        2**-23,
        2**-7,
        2**-10,
        0,
    ]
    named = SimpleNamespace(get_type_name=lambda: "bf16")
    assert [format_type(t) for t in (named, "<Type: 'float32'>", "<Type: 'float16'>", "<Type: 'x'>", "bfloat16")] == [
        "bf16",
        "f32",
        "f16",
        "<Type: 'x'>",
        "bf16",
    ]


class Text:
    def __init__(self, text):
        self.astype = lambda kind: kind(text)


def test_kernels_are_counted_by_precision():
    infos = [
        {"layerType": "Convolution", "runtimePrecision": "f32"},
        {"layerType": "Add", "runtimePrecision": "bf16"},
        {"layerType": "MatMul", "runtimePrecision": "f32"},
        {"layerType": "Input", "runtimePrecision": "f32"},
        {"layerType": "Output", "runtimePrecision": "f32"},
        {"layerType": "Const", "runtimePrecision": "f32"},
        {"layerType": "Reorder", "runtimePrecision": "f32"},
        {"layerType": "Add"},
        {"runtimePrecision": "f32"},
    ]
    nodes = [
        SimpleNamespace(get_rt_info=lambda info=info: {key: Text(value) for key, value in info.items()})
        for info in infos
    ]
    runtime = SimpleNamespace(get_ordered_ops=lambda: nodes)
    assert count_precisions(SimpleNamespace(get_runtime_model=lambda: runtime)) == {"f32": 2, "bf16": 1}

    def fail(*arguments):
        raise RuntimeError

    assert count_precisions(SimpleNamespace(get_runtime_model=fail)) == {}
    assert get_precision(SimpleNamespace(get_property=fail)) == "unknown"
    assert get_precision(SimpleNamespace(get_property=lambda name: "f32")) == "f32"


def test_device_without_a_default_precision_has_that_of_the_model(path):
    model = OpenVinoModel(irrun.read_model(path), Target())

    def fail(*arguments):
        raise RuntimeError

    model._core = SimpleNamespace(get_property=fail)
    assert model._find_default_precision() == "f32"
    model._core = SimpleNamespace(get_property=lambda device, name: f"{device} {name}")
    assert model._find_default_precision() == "CPU INFERENCE_PRECISION_HINT"


def test_requested_precision_is_used(path):
    expected = {
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    }
    assert OpenVinoModel(irrun.read_model(path), Target())._config == expected
    assert OpenVinoModel(irrun.read_model(path), Target(precision=""))._config == {}
    model = OpenVinoModel(irrun.read_model(path), Target(precision="bf16"))
    if model.precision == "bf16":
        assert compare(path, "openvino:bf16", X).precision == "bf16"


# The reference implementation


def test_reference_implementation_computes_all_values(path):
    result = compare(path, "openvino:reference", X)
    assert result.agrees
    assert result.precision == "declared"
    assert [layer.key for layer in result.layers] == KEYS[: len(result.layers)]


def test_reference_implementation_computes_dynamic_shapes(tmp_path):
    path = write(tmp_path, chain("HSwish", "Relu", shape=(-1, 3), versions=("opset4", "opset1")))
    large = np.full((2, 3), 3e38, np.float32)  # squared before it is divided
    assert not compare(path, "openvino:reference", large).agrees
    assert compare(path, "openvino:reference", X).agrees


def test_reference_implementation_keeps_variables():
    model = bodies.make_stateful()
    rng = np.random.default_rng(0)
    runs = [rng.standard_normal((1, 6), np.float32) for _ in range(3)]
    result = compare(model, "openvino:reference", sequence=runs)
    assert (result.outcome, result.runs) == ("agrees", 3)
    wrong = bodies.make_stateful(seed=1)
    values = OpenVinoModel(wrong, Target("reference"))
    values.keeps_batches = True
    request = irrun.compile_model(wrong, optimize=False).create_infer_request()
    for x in runs:
        values.run([x], Spool())
        request.infer([x])
        for variable in request.query_state():
            np.testing.assert_allclose(values.get_variable(variable.name), variable.state, rtol=1e-5)
    values.close()


def test_operations_without_reference_implementation_are_an_error(tmp_path):
    with pytest.raises(ExecutionError, match="OpenVINO: "):
        compare(write(tmp_path, chain("Relu", "Elu", data=("", 'alpha="1"'))), "openvino:reference", X)


# Errors


def test_errors_of_openvino_are_its_last_lines(path):
    model = OpenVinoModel(irrun.read_model(path), Target())
    text = "\n".join(["first", " second ", "", "third", "fourth"])
    error = RuntimeError(text)
    with pytest.raises(ExecutionError, match=r"^OpenVINO: second third fourth$") as caught, model._report_errors():
        raise error
    assert caught.value.__cause__ is error
    for other in (NotImplementedError("x"), ValueError("x")):
        with pytest.raises(type(other), match=r"^x$"), model._report_errors():
            raise other
    with pytest.raises(ExecutionError):
        model.infer([X[:1]])


def test_missing_openvino_is_reported(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(irrun.InputError, match=r"requires OpenVINO: pip install 'irrun\[openvino\]'"):
        OpenVinoModel(irrun.read_model(path), Target())


def test_temporary_files_are_deleted(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    model.graph.layers[1].name = ""
    openvino = OpenVinoModel(model, Target())
    folder = Path(openvino._folder.name)
    assert (folder / "model.xml").is_file()
    openvino.close()
    assert not folder.exists()
