"""Compiled models and their outputs: the arguments of `compile_model`, descriptions, and names."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.runtime.compiled_model import CompiledModel, _is_device, _resolve_size, compile_model
from irrun.runtime.options import RunSettings

X = np.float32([[-1, 0, 2], [3, -4, 5]])
OPTIONS = {
    "check": True,
    "weights_memory": 1 << 20,
    "threads": 3,
    "operations": (),
    "optimize": False,
    "memory": "3M",
    "jit": False,
    "precision": "f64",
}


@pytest.fixture
def path(tmp_path):
    return write(tmp_path, chain("Relu", "Negative"))


@pytest.fixture
def passed(monkeypatch):
    """The keyword arguments of each compiled model."""
    calls = []

    def record(model, **options):
        calls.append(options)
        return CompiledModel(model, **options)

    monkeypatch.setattr(importlib.import_module("irrun.runtime.compiled_model"), "CompiledModel", record)
    return calls


def test_options_are_those_of_the_compiled_model(path, passed):
    compile_model(path)
    defaults = {name: p.default for name, p in inspect.signature(CompiledModel.__init__).parameters.items()}
    assert passed == [{name: defaults[name] for name in OPTIONS}]
    compiled = compile_model(path, **OPTIONS)
    assert passed[1] == OPTIONS
    assert (compiled.check, compiled.threads, compiled.optimize) == (True, 3, False)
    assert (compiled.memory, compiled.jit, compiled.precision) == (3 << 20, False, "f64")


def test_settings_are_passed_on(path, passed):
    settings = RunSettings("f64", 2, 1 << 20, 0, False)
    settings.compile(irrun.read_model(path))
    expected = {"precision": "f64", "threads": 2, "memory": 1 << 20, "weights_memory": 0, "jit": False}
    assert passed == [{"optimize": True, **expected}]
    settings.compile(irrun.read_model(path), optimize=False, check=True, threads=4)
    assert passed[1] == {"optimize": False, "check": True, **expected, "threads": 4}


def test_options_have_the_documented_defaults(path):
    compiled = compile_model(path, jit=False)
    assert (compiled.check, compiled.optimize, compiled.memory, compiled.precision) == (False, True, None, "f32")


def test_declarations_are_checked_only_on_request(tmp_path):
    text = chain("Relu").replace("<dim>3</dim></port></output>", "<dim>4</dim></port></output>", 2)
    text = text.replace('shape="2,3"', 'shape="2,?"')
    path = write(tmp_path, text)
    for check in (False, True):
        request = compile_model(path, jit=False, check=check).create_infer_request()
        request.infer(X)
        assert bool(request.mismatches) is check


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CPU", True),
        ("GPU.1", True),
        ("AUTO:GPU,CPU", True),
        ("MYDEVICE", True),
        ("a.b:c", False),
        ("model.bin", False),
        ("folder/weights", False),
        ("", False),
    ],
)
def test_names_of_devices_in_place_of_the_weights(text, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _is_device(text) is expected
    if "/" not in text and text:
        Path(text).touch()
        assert _is_device(text) is (text in ("CPU", "GPU.1", "AUTO:GPU,CPU"))


def test_second_argument_is_the_weights_a_device_or_properties(path, tmp_path):
    assert compile_model(path, "CPU", jit=False)(X)[0].tolist() == (-np.maximum(X, 0)).tolist()
    assert compile_model(path, {}, jit=False).inputs
    with pytest.raises(irrun.InputError, match="properties of devices are not supported, found A, B; the options"):
        compile_model(path, {"A": 1, "B": 2})
    with pytest.raises(irrun.InputError, match="device 'GPU' is not supported, expected one of CPU, AUTO"):
        compile_model(path, "GPU")
    with pytest.raises(irrun.InputError, match="weights can only be passed with the path of a model"):
        compile_model(irrun.read_model(path), b"")
    with pytest.raises(irrun.ModelError, match=r"missing\.bin: cannot read the weights"):
        compile_model(path, tmp_path / "missing.bin")


@pytest.mark.parametrize("threads", [0, -1, True, "2", 1.5, np.True_])
def test_numbers_of_threads_are_checked(threads, path):
    with pytest.raises(irrun.InputError, match="threads: expected at least one thread, found"):
        compile_model(path, threads=threads)
    assert compile_model(path, threads=np.int64(2), jit=False).threads == 2


@pytest.mark.parametrize("size", [0, "0", -1, "many"])
def test_limits_of_memory_are_checked(size, path):
    with pytest.raises(irrun.InputError, match=f"memory is {size!r}, expected a number of bytes or a size"):
        compile_model(path, memory=size)
    if str(size) != "0":
        with pytest.raises(irrun.InputError, match=f"weights_memory is {size!r}, expected a number of bytes"):
            compile_model(path, weights_memory=size)
    else:
        assert compile_model(path, weights_memory=size, jit=False).inputs


def test_compiled_models_are_not_copied(path):
    compiled = compile_model(path, jit=False)
    for use in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a CompiledModel cannot be copied or pickled: it never changes"):
            use(compiled)
        with pytest.raises(TypeError, match="an InferRequest cannot be copied or pickled: create one for each user"):
            use(compiled.create_infer_request())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"optimize": False}, "plain kernels"),
        ({"jit": False}, "jit off"),
        ({"jit": True}, "jit on"),
        ({"jit": "auto"}, "jit auto (not compiled)"),
    ],
)
def test_kernels_are_described(options, expected, path, tmp_path, monkeypatch):
    if options.get("jit"):
        pytest.importorskip("llvmlite")
        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setattr("irrun.runtime.compilation._known", {})
    compiled = compile_model(path, threads=1, memory="1M", **options)
    assert repr(compiled).endswith(f", 1 thread, precision f32, {expected}>")
    page = compiled._repr_html_()
    count = len(compiled._fast_program.instructions)
    for text in (expected, f"{count} instructions, {0 if 'plain' in expected else count} of them with", "1 MiB"):
        assert text in page
    assert "the available memory" in compile_model(path, jit=False)._repr_html_()


def test_missing_compiler_is_described(path, monkeypatch):
    monkeypatch.setattr("irrun.runtime.compilation.is_installed", lambda: False)
    compiled = compile_model(path, jit="auto")
    assert repr(compiled).endswith("jit auto (llvmlite is not installed)>")


@pytest.mark.parametrize(("count", "expected"), [(4, "x0: f32[2], x1: f32[2], x2: f32[2], x3: f32[2]"), (6, "2 more")])
def test_four_inputs_are_shown(count, expected, tmp_path):
    parameter = 'shape="2" element_type="f32"'
    layers = [
        layer(i, "Parameter", data=parameter, outputs=[port(0, (2,), "FP32", f"x{i}")], name=f"x{i}")
        for i in range(count)
    ]
    ports = [port(i, (2,)) for i in range(count)]
    layers.append(layer(count, "Concat", data='axis="0"', inputs=ports, outputs=[port(9, (2 * count,), "FP32", "y")]))
    layers.append(layer(count + 1, "Result", inputs=[port(0)]))
    edges = [*((i, 0, count, i) for i in range(count)), (count, 9, count + 1, 0)]
    text = repr(compile_model(write(tmp_path, net(layers, edges)), jit=False))
    assert f"{expected}) -> (y: " in text
    assert "x4" not in text


@pytest.mark.parametrize(
    ("options", "is_complete", "has_kernels", "is_compiled"),
    [
        ({"jit": False}, True, False, False),
        ({"jit": True, "optimize": False}, True, False, False),
        ({"jit": True}, False, True, True),
        ({"jit": "auto"}, False, True, False),
        ({"jit": "auto"}, True, True, True),
    ],
)
def test_kernels_are_compiled_on_request_or_if_they_have_been(
    options, is_complete, has_kernels, is_compiled, path, monkeypatch
):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr("irrun.runtime.compilation._known", {})
    monkeypatch.setattr("irrun.runtime.compilation.ProgramKernels.are_complete", lambda self: is_complete)
    compiled = compile_model(path, **options)
    assert (compiled._kernels is not None, compiled._is_compiled) == (has_kernels, is_compiled)
    assert compiled._prefetches_weights is not is_compiled


# Outputs


def test_outputs_are_found_by_position_name_and_specification(path):
    compiled = compile_model(path, jit=False)
    outputs = compiled(X)
    expected = (-np.maximum(X, 0)).tolist()
    for key in (0, -1, "layer2", "layer2:0", compiled.outputs[0]):
        if key in outputs:
            assert outputs[key].tolist() == expected
    assert 0 in outputs
    assert "layer2" in outputs
    assert compiled.outputs[0] in outputs
    assert 1 not in outputs
    assert "layer1" not in outputs
    with pytest.raises(IndexError, match=r"unknown output 1; the model has 1: "):
        outputs[1]
    with pytest.raises(KeyError, match=r"unknown output 'layer1'; the model has 1: "):
        outputs["layer1"]
    with pytest.raises(KeyError, match=r"unknown output .*x.*; the model has 1: "):
        outputs[compiled.inputs[0]]
    assert (len(outputs), list(outputs), len(outputs.to_tuple())) == (1, ["layer2"], 1)
    assert repr(outputs).startswith("<Outputs: layer2: f32[2,3]")
    assert "layer2" in outputs._repr_html_()


def test_inputs_and_outputs_are_those_of_the_model(path):
    compiled = compile_model(path, jit=False)
    assert compiled.input() == compiled.input(0) == compiled.input("x") == compiled.inputs[0]
    assert compiled.output() == compiled.output(0) == compiled.output("layer2") == compiled.outputs[0]
    for find in (compiled.input, compiled.output):
        with pytest.raises(irrun.ModelError):
            find(1)


def test_calls_share_a_request_and_requests_do_not(path):
    compiled = compile_model(path, jit=False)
    compiled.reset_state()  # there is none yet
    compiled(X)
    request = compiled._request
    compiled(X)
    assert compiled._request is request
    assert compiled.create_infer_request() is not compiled.create_infer_request()


def test_model_runs_once(path):
    from irrun.runtime.compiled_model import run

    assert run(path, X)[0].tolist() == (-np.maximum(X, 0)).tolist()
    assert run(path, {"x": X}, path.with_suffix(".bin"))[0].shape == (2, 3)


@pytest.mark.parametrize(("options", "dtype"), [({}, np.float16), ({"keeps_output_types": False}, np.float32)])
def test_outputs_keep_their_types_by_default(options, dtype, tmp_path):
    text = chain("Relu").replace('element_type="f32"', 'element_type="f16"').replace("FP32", "FP16")
    compiled = CompiledModel(irrun.read_model(write(tmp_path, text)), jit=False, **options)
    assert compiled(np.ones((2, 3), np.float16))[0].dtype == dtype


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [(1, 1), ("1", 1), (np.int64(5), 5), ("3M", 3 << 20), ("1.5 GiB", 3 << 29), (0, None), ("0", None)],
)
def test_sizes_are_numbers_of_bytes_or_texts(size, bytes_):
    assert _resolve_size("weights_memory", size, accepts_zero=True) == (bytes_ or 0)
    if bytes_ is not None:
        assert _resolve_size("memory", size) == bytes_
    else:
        with pytest.raises(irrun.InputError):
            _resolve_size("memory", size)
