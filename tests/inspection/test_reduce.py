"""Reduction of models that fail to the smallest part that still fails."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from inspection import faults, networks, planted
from irrun.cli import main
from irrun.element_types import ELEMENT_TYPES
from irrun.inspection import KeyTable, parse_condition, reduce
from irrun.inspection.openvino_precision import get_precision
from irrun.ir.constant import Constant

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
RNG = np.random.default_rng(7)
INPUTS = {
    "resnet": RNG.standard_normal((1, 3, 32, 32), np.float32),
    "bert": {"input_ids": RNG.integers(0, 50, (1, 12)), "attention_mask": np.array([[1] * 9 + [0] * 3])},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    pytest.importorskip("openvino")
    folder = tmp_path_factory.mktemp("networks")
    return {name: networks.save(getattr(networks, f"make_{name}")(), folder, name) for name in INPUTS}


def set_constant(model, key, change):
    """Change the value of a constant in place."""
    constant = KeyTable(model).find_layer(key)
    value = np.array(constant.constant.to_array())
    change(value)
    constant.constant = Constant.from_array(value, constant.constant.element_type)


def make_nan(model, key):
    set_constant(model, key, lambda value: value.reshape(-1).__setitem__(0, np.nan))


def run_cli(capsys, *args):
    """Run the command line, and return the exit code, stdout and stderr."""
    try:
        main([str(arg) for arg in args])
        code = 0
    except SystemExit as exit:
        code = exit.code
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def run_repro(folder):
    return subprocess.run([sys.executable, folder / "repro.py"], capture_output=True, text=True, check=False)


def load_inputs(reduction, folder):
    with np.load(folder / "inputs.npz") as archive:
        return {name: archive[name] for name in reduction.inputs}


# Faults


@pytest.mark.parametrize("name", INPUTS)
def test_planted_fault_is_reduced_to_its_layer(models, name):
    good = irrun.read_model(models[name])
    count = 0
    for fault in planted.plant_faults(good, INPUTS[name], 8, seed=1):
        result = reduce(fault.model, INPUTS[name], against=good)
        assert result is not None, fault
        assert len(result.layers) <= 2, fault
        assert fault.layer in result.layers, fault
        assert result.trials < result.layers_total
        count += 1
    assert count == 8


def test_fault_in_a_body_is_reduced_to_a_layer_of_the_body():
    good = irrun.read_model(EXAMPLE / "model.xml")
    inputs = np.load(EXAMPLE / "input.npy")
    reduced = []
    for fault in planted.plant_faults(good, inputs, 6, only_bodies=True):
        result = reduce(fault.model, inputs, against=good, fails="differing>0")
        assert result is not None, fault
        assert len(result.layers) <= 2, fault
        reduced.append((fault, result.layers))
    assert [pair for pair in reduced if re.sub(r"\[\d+\]", "[0]", pair[1][-1]) != pair[0].layer] == []


def test_model_that_agrees_is_not_reduced(models):
    assert reduce(models["resnet"], INPUTS["resnet"], against=models["resnet"]) is None
    assert reduce(models["resnet"], INPUTS["resnet"], against="f64") is None
    assert reduce(models["resnet"], INPUTS["resnet"], fails="nan") is None
    assert reduce(models["resnet"], INPUTS["resnet"], fails="error") is None


@pytest.mark.parametrize("against", ["openvino", "f64"])
def test_difference_from_a_reference_is_reduced(models, against):
    result = reduce(models["bert"], INPUTS["bert"], against=against, fails="max_abs>0")
    assert result is not None
    assert len(result.layers) == 1


def check_low_precision(models, against, folder):
    """Reduce a model that differs from a reference in each layer, and run the saved part."""
    result = reduce(models["resnet"], INPUTS["resnet"], against=against, fails="sqnr<80")
    assert result is not None
    assert len(result.layers) <= 2
    result.save(folder)
    assert run_repro(folder).returncode == 1


def test_low_precision_of_weights_is_reduced(models, tmp_path):
    """This does not depend on the processor."""
    rounded = irrun.read_model(models["resnet"])
    for layer_ in rounded.graph.layers:
        if layer_.type == "Constant" and layer_.constant.element_type.name == "f32":
            value = layer_.constant.to_array().astype(ml_dtypes.bfloat16).astype(np.float32)
            layer_.constant = Constant.from_array(value, layer_.constant.element_type)
    irrun.save_model(rounded, tmp_path / "rounded.xml")
    check_low_precision(models, tmp_path / "rounded.xml", tmp_path / "part")


def test_low_precision_of_openvino_is_reduced(models, tmp_path):
    """The CPU plugin computes in bf16 on processors that have it, and in f32 on all others."""
    import openvino as ov

    hint = {"INFERENCE_PRECISION_HINT": "bf16"}
    try:
        precision = get_precision(ov.Core().compile_model(models["resnet"], "CPU", hint))
    except RuntimeError:  # of the layer, whose kernels need it
        pytest.skip("ONEDNN_MAX_CPU_ISA forbids bf16, but OpenVINO offers it")
    if precision == "bf16":
        check_low_precision(models, "openvino:bf16", tmp_path / "part")
    else:
        assert precision == "f32"
        assert reduce(models["resnet"], INPUTS["resnet"], against="openvino:bf16", fails="sqnr<80") is None


def test_origin_of_nan_is_found(models, tmp_path):
    model = irrun.read_model(models["bert"])
    make_nan(model, "encoder.1/mlp/up/bias_value")
    result = reduce(model, INPUTS["bert"], fails="nan")
    assert result.layers == ["encoder.1/mlp/up/bias"]
    assert result.message == "nan holds for an output of the model"
    result.save(tmp_path / "part")
    assert run_repro(tmp_path / "part").returncode == 1


def test_origin_of_large_values_is_found(models):
    model = irrun.read_model(models["bert"])
    set_constant(model, "encoder.0/mlp/down/bias_value", lambda value: value.__setitem__(0, 1e6))
    result = reduce(model, INPUTS["bert"], fails="abs>1e4")
    assert result is None  # normalization makes the outputs of the model small again
    result = reduce(irrun.extract(model, outputs=["encoder.0/mlp/down/bias"]), INPUTS["bert"], fails="abs>1e4")
    assert result.layers == ["encoder.0/mlp/down/bias"]


def test_failure_of_two_layers_together_keeps_both(tmp_path):
    """A value overflows in f16 only after both multiplications."""
    model = make_products(tmp_path, [1.0, 200.0, 1.0, 1.0, 200.0, 1.0])
    result = reduce(model, np.ones(2, np.float32), fails="abs>30000")
    assert result.layers == ["product4"]  # its input is 200 in the run
    result = reduce(model, np.ones(2, np.float32), test=[sys.executable, "-c", CHECK_RATIO, "{model}", "{inputs}"])
    assert result.layers == ["product1", "product4"]


CHECK_RATIO = """
import sys, numpy as np, irrun
x = next(iter(np.load(sys.argv[2]).values()))
y = irrun.run(sys.argv[1], x)[0]
sys.exit(int(y.max() / x.max() > 30000))
"""


def make_products(tmp_path, factors):
    """Return a chain of products with constants."""
    layers = [layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")], name="x")]
    edges = []
    for i, _ in enumerate(factors):
        data = 'element_type="f32" shape="1" offset="0" size="4"'
        layers.append(layer(100 + i, "Const", data=data, outputs=[port(0, (1,), "FP32")], name=f"factor{i}"))
        inputs = [port(0, (2,)), port(1, (1,))]
        layers.append(layer(i + 1, "Multiply", inputs=inputs, outputs=[port(2, (2,), "FP32")], name=f"product{i}"))
        edges += [(i, 2 if i else 0, i + 1, 0), (100 + i, 0, i + 1, 1)]
    layers.append(layer(50, "Result", inputs=[port(0, (2,))], name="result"))
    edges.append((len(factors), 2, 50, 0))
    path = write(tmp_path, net(layers, edges))
    path.with_suffix(".bin").write_bytes(np.float32(1).tobytes())
    model = irrun.read_model(path)
    for i, factor in enumerate(factors):
        constant = KeyTable(model).find_layer(f"factor{i}")
        constant.constant = Constant.from_array(np.array([factor], np.float32), ELEMENT_TYPES["f32"])
    return model


# Errors


def test_layer_that_raises_an_error_is_found(models, tmp_path):
    model = irrun.read_model(models["bert"])
    set_constant(model, "encoder.1/attention/join/shape", lambda value: value.__setitem__(2, 31))
    with pytest.raises(irrun.IrrunError):
        irrun.run(model, INPUTS["bert"])
    result = reduce(model, INPUTS["bert"], fails="error")
    assert result.layers == ["encoder.1/attention/join"]
    assert "encoder.1/attention/join" in result.message
    result.save(tmp_path / "part")
    repro = run_repro(tmp_path / "part")
    assert repro.returncode == 1
    assert "encoder.1/attention/join" in repro.stdout


def test_layer_that_prevents_compilation_is_found(models):
    model = irrun.read_model(models["resnet"])
    KeyTable(model).find_layer("layer2.0/conv2").attributes["strides"] = "many"
    result = reduce(model, INPUTS["resnet"], fails="error")
    assert result.layers == ["layer2.0/conv2"]
    assert result.inputs["layer2.0/relu1"].shape == (1, 16, 8, 8)


def test_unsupported_operation_is_found(models):
    model = irrun.read_model(models["resnet"])
    KeyTable(model).find_layer("layer1.1/relu2").type = "Unknown"
    result = reduce(model, INPUTS["resnet"], fails="error")
    assert result.layers == ["layer1.1/relu2"]


@pytest.mark.parametrize("name", ["beam_search[0]/decoder", "beam_search[0]/Gather_9"])
def test_layer_of_a_body_that_raises_an_error_is_found(name):
    model = irrun.read_model(EXAMPLE / "model.xml")
    table = KeyTable(model)
    target = table.find_layer(name)
    graph = table.get_graph(target)
    source = next(e for e in graph.edges if e.to_layer == target.id and e.to_port == target.inputs[-1].id)
    constant = next(n for n in graph.layers if n.id == source.from_layer)
    assert constant.type == "Constant"
    value = np.array([5, 7], constant.constant.to_array().dtype)
    constant.constant = Constant.from_array(value, constant.constant.element_type)
    result = reduce(model, np.load(EXAMPLE / "input.npy"), fails="error")
    assert result.layers == [name]


def test_error_of_the_model_is_raised_unless_it_is_the_failure(models):
    model = irrun.read_model(models["bert"])
    set_constant(model, "encoder.1/attention/join/shape", lambda value: value.__setitem__(2, 31))
    with pytest.raises(irrun.InputError, match="join"):
        reduce(model, INPUTS["bert"], fails="nan")


def test_error_of_openvino_is_reduced(models):
    model = irrun.read_model(models["resnet"])
    constant = KeyTable(model).find_layer("layer1.0/conv2/weights")
    constant.constant = Constant.from_array(constant.constant.to_array().astype(np.float16), ELEMENT_TYPES["f16"])
    constant.outputs[0].element_type = ELEMENT_TYPES["f16"]
    result = reduce(model, INPUTS["resnet"], against="openvino", fails="error")
    assert result.layers == ["layer1.0/conv2"]
    assert "OpenVINO" in result.message


# Results


def test_part_is_written_with_inputs_and_script(models, tmp_path):
    good = irrun.read_model(models["bert"])
    broken = faults.copy_model(good)
    KeyTable(broken).find_layer("encoder.0/norm2").attributes["eps"] = "0.1"
    result = reduce(broken, INPUTS["bert"], against=good)
    folder = tmp_path / "new/part"
    written = result.save(folder)
    names = {"model.xml", "model.bin", "inputs.npz", "reference.xml", "reference.bin", "repro.py"}
    assert {path.name for path in written} == names == {path.name for path in folder.iterdir()}
    inputs = load_inputs(result, folder)
    outputs = [irrun.run(folder / name, list(inputs.values()))[0] for name in ("model.xml", "reference.xml")]
    assert not np.allclose(outputs[0], outputs[1], atol=1e-3)
    repro = run_repro(folder)
    assert repro.returncode == 1
    assert "SQNR" in repro.stdout
    (folder / "reference.xml").write_text((folder / "model.xml").read_text())
    assert run_repro(folder).returncode == 0


def test_names_are_literals_in_the_script(models, tmp_path):
    model = irrun.read_model(models["resnet"])
    target = KeyTable(model).find_layer("layer2.0/conv2/bias")
    target.name = '"""\nimport os; os.abort() #{x} \u202e'
    make_nan(model, "layer2.0/conv2/bias_value")
    result = reduce(model, INPUTS["resnet"], fails="nan")
    result.save(tmp_path / "part")
    compile((tmp_path / "part/repro.py").read_text(), "repro.py", "exec")
    assert run_repro(tmp_path / "part").returncode == 1


def test_number_of_trials_is_limited(models):
    good = irrun.read_model(models["bert"])
    broken = faults.copy_model(good)
    KeyTable(broken).find_layer("encoder.0/norm2").attributes["eps"] = "0.1"
    result = reduce(broken, INPUTS["bert"], against=good, max_trials=4)
    assert result.trials == 4
    assert 1 < len(result.layers) < result.layers_total


def test_progress_is_reported(models):
    good = irrun.read_model(models["bert"])
    broken = faults.copy_model(good)
    KeyTable(broken).find_layer("encoder.0/norm2").attributes["eps"] = "0.1"
    calls = []
    result = reduce(broken, INPUTS["bert"], against=good, progress=lambda *numbers: calls.append(numbers))
    remaining, totals, trials = zip(*calls, strict=True)
    assert list(remaining) == sorted(remaining, reverse=True)
    assert remaining[-1] == 1
    assert set(totals) == {result.layers_total}
    assert trials[-1] == result.trials


def test_model_is_not_changed(models):
    good, broken = irrun.read_model(models["bert"]), irrun.read_model(models["bert"])
    KeyTable(broken).find_layer("encoder.0/norm2").attributes["eps"] = "0.1"
    before = irrun.run(broken, INPUTS["bert"]).to_tuple()
    reduce(broken, INPUTS["bert"], against=good)
    assert all(np.array_equal(a, b) for a, b in zip(before, irrun.run(broken, INPUTS["bert"]).to_tuple(), strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected a reference, a condition"),
        ({"fails": "sqnr<20"}, "requires a reference"),
        ({"fails": "abs > __import__('os')"}, "expected a condition"),
        ({"against": "caffe"}, "expected openvino, f64 or an .xml file"),
        ({"test": ""}, "found an empty one"),
        ({"test": "'a"}, "No closing quotation"),
        ({"test": "true", "fails": "nan"}, "cannot be combined"),
        ({"test": "irrun-no-such-command"}, "cannot run irrun-no-such-command"),
        ({"fails": "nan or error"}, "cannot be combined"),
    ],
)
def test_invalid_argument_is_reported(models, arguments, message):
    with pytest.raises(irrun.InputError, match=message):
        reduce(models["resnet"], INPUTS["resnet"], **arguments)


# Conditions


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("nan", [1, np.nan], True),
        ("nan", [1, np.inf], False),
        ("inf", [1, -np.inf], True),
        ("abs>1e4", [1, -20000], True),
        ("abs > 1e4", [1, 20], False),
        ("abs>1e4", [np.nan, 1], False),
        ("abs>1e4", [np.inf, 1], True),
        ("max<=-1.5", [-2, -1.5], True),
        ("min<0,nan", [1, np.nan], True),
        ("min<0 or max>2", [1, 2], False),
        ("zeros>=2", [0, 0], True),
        ("mean==1.5", [1, 2], True),
        ("abs>0", [], False),
        ("sqnr<20", [1], False),
    ],
)
def test_condition_on_values(text, value, expected):
    assert parse_condition(text).holds_for_value(np.array(value, np.float32)) is expected


def test_condition_on_other_types():
    assert parse_condition("abs>200").holds_for_value(np.array([201], np.uint8))
    assert parse_condition("max==1").holds_for_value(np.array([True]))
    assert not parse_condition("abs>0").holds_for_value(np.array(["a"], object))


@pytest.mark.parametrize(
    "text", ["", "abs", "abs>", "abs>x", "size>3", "abs>1;1", "abs>1 and nan", "nan>1", "a" * 2000]
)
def test_invalid_condition_is_reported(text):
    with pytest.raises(irrun.InputError, match="condition"):
        parse_condition(text)


# The command line


def test_command_reduces_a_model(models, tmp_path, capsys):
    good = irrun.read_model(models["resnet"])
    broken = faults.copy_model(good)
    set_constant(broken, "layer2.1/conv2/bias_value", lambda value: value.reshape(-1).__setitem__(3, 5.0))
    irrun.save_model(broken, tmp_path / "broken.xml")
    np.save(tmp_path / "x.npy", INPUTS["resnet"])
    arguments = ["reduce", tmp_path / "broken.xml", "--input", tmp_path / "x.npy", "--against", models["resnet"]]
    code, text, errors = run_cli(capsys, *arguments, "-o", tmp_path / "part")
    assert (code, errors) == (0, "")
    assert "layers reduced to 1 layer in" in text
    assert "layer2.1/conv2/bias\n" in text
    assert run_repro(tmp_path / "part").returncode == 1
    code, text, _ = run_cli(capsys, *arguments, "--json")
    result = json.loads(text)
    assert code == 0
    assert result["fails"]
    assert result["layers"] == ["layer2.1/conv2/bias"]
    code, text, _ = run_cli(
        capsys, "run", tmp_path / "part/model.xml", "--input", tmp_path / "part/inputs.npz", "--json"
    )
    assert code == 0


def test_command_reports_a_model_that_does_not_fail(models, tmp_path, capsys):
    arguments = ["reduce", models["resnet"], "--input", "random", "--fails", "nan", "-o", tmp_path / "part"]
    code, text, _ = run_cli(capsys, *arguments)
    assert code == 1
    assert text.endswith("does not fail\n")
    assert not (tmp_path / "part").exists()
    code, text, _ = run_cli(capsys, *arguments, "--json")
    assert (code, json.loads(text)) == (1, {"fails": False})


def test_command_reports_errors(models, tmp_path, capsys):
    code, _, errors = run_cli(capsys, "reduce", models["resnet"], "--input", "random")
    assert code == 2
    assert "expected a reference" in errors
    (tmp_path / "file").touch()
    code, _, errors = run_cli(
        capsys, "reduce", models["resnet"], "--input", "random", "--fails", "nan", "-o", tmp_path / "file"
    )
    assert code == 2


@pytest.mark.parametrize("fails", ["error", "nan"])
def test_model_with_variables_is_reduced(fails):
    model = irrun.read_model(EXAMPLE.parent / "text_generation/model.xml")
    inputs = {
        "input_ids": np.array([[1, 2, 3]]),
        "attention_mask": np.ones((1, 3), np.int64),
        "position_ids": np.arange(3)[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    key = "__module.blocks.1.joined/aten::linear/MatMul"
    layer = KeyTable(model).find_layer(key)
    if fails == "error":
        layer.attributes["transpose_b"] = "maybe"
    else:
        source = next(e.from_layer for e in model.graph.edges if (e.to_layer, e.to_port) == (layer.id, 1))
        while True:
            constant = next(n for n in model.graph.layers if n.id == source)
            if constant.type == "Constant":
                break
            source = next(e.from_layer for e in model.graph.edges if e.to_layer == source)
        make_nan(model, KeyTable(model).get_key(constant))
    assert reduce(model, inputs, fails=fails).layers == [key]
