"""Counters of OpenVINO, joined with layers of irrun."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import openvino_profile
from irrun.inspection.keys import KeyTable
from irrun.inspection.openvino_profile import LayerPair, _join, _list_nodes, _measure, _Node, profile_openvino
from irrun.inspection.profile_layers import LayerProfile

X = np.ones((2, 3), np.float32)


def make_layer(key, seconds, flops=None, layers=None, types=("Relu",), module=()):
    numbers = {"calls": 1, "bytes": 0, "alive": 0, "bound": 0.0}
    return LayerProfile(
        key=key,
        type=types[0],
        types=types,
        layers=layers or (key,),
        module=module,
        seconds=seconds,
        flops=flops,
        **numbers,
    )


def make_node(name, layers, seconds, kernel="jit"):
    return _Node(name, "Eltwise", tuple(layers), kernel, seconds)


def test_smallest_common_groups_are_joined():
    layers = [
        make_layer("conv", 4.0, 100, ("conv", "bias"), ("Convolution", "Add"), ("m",)),
        make_layer("relu", 2.0, 10, types=("Relu",)),
        make_layer("tanh", 1.0, None, types=("Tanh",)),
        make_layer("loop[*]/a", 8.0, 5, types=("MatMul",), module=("n",)),
        make_layer("loop", 16.0, None, types=("Loop",)),
        make_layer("alone", 32.0, 7),
    ]
    nodes = [
        make_node("L0", ["bias", "relu"], 0.25),
        make_node("L1", ["tanh"], 0.0, "ref"),
        make_node("L2", ["loop"], 0.5, "ref"),
        make_node("L3", ["loop"], 0.125),
        make_node("reorder", [], 1.5),
        make_node("idle", [], 0.0),
        make_node("elsewhere", ["constant"], 2.5),
    ]
    assert list(_join(layers, nodes)) == [
        LayerPair("conv", "Convolution+Add+Relu", ("conv", "bias", "relu"), 6.0, 0.25, ("jit",), 110, ("m",)),
        LayerPair("tanh", "Tanh", ("tanh",), 1.0, 0.0, (), None),
        LayerPair("loop", "MatMul+Loop", ("loop",), 24.0, 0.625, ("ref", "jit"), 5, ("n",)),
        LayerPair("alone", "Relu", ("alone",), 32.0, None, (), 7),
        LayerPair("reorder", "Eltwise", (), None, 1.5, ("jit",), None),
        LayerPair("elsewhere", "Eltwise", ("constant",), None, 2.5, ("jit",), None),
    ]


def test_nodes_that_share_a_chain_of_layers_are_one_group():
    layers = [make_layer(name, 1.0) for name in "abcde"]
    nodes = [make_node("1", "ab", 1.0), make_node("2", "cd", 2.0), make_node("3", "bd", 4.0)]
    pairs = list(_join(layers, nodes))
    assert [(pair.layers, pair.seconds, pair.openvino_seconds) for pair in pairs] == [
        (("a", "b", "c", "d"), 4.0, 7.0),
        (("e",), 1.0, None),
    ]


def test_nodes_are_named_by_their_original_layers():
    def make_counter(milliseconds, name="Add", kernel="jit_f32"):
        return SimpleNamespace(
            real_time=timedelta(milliseconds=milliseconds), node_type=name, exec_type=kernel, node_name="x"
        )

    class Text:
        def __init__(self, text):
            self.astype = lambda kind: kind(text)

    def make_operation(name, **information):
        return SimpleNamespace(
            get_friendly_name=lambda: name, get_rt_info=lambda: {key: Text(value) for key, value in information.items()}
        )

    operations = [make_operation("L1", originalLayersNames="L0,L1,L9"), make_operation("L2"), make_operation("n")]
    runtime = SimpleNamespace(get_runtime_model=lambda: SimpleNamespace(get_ordered_ops=lambda: operations))
    keys = {"L0": "conv", "L1": "bias", "L2": "relu", "L3": "tanh"}
    counters = {
        "L1": [make_counter(ms) for ms in (1, 5, 2)],
        "L2": [make_counter(0)],
        "L2_abc_L3": [make_counter(4, "Reorder", "ref")],
        "L7": [make_counter(0)],
    }
    assert _list_nodes(runtime, counters, keys) == [
        _Node("bias", "Add", ("conv", "bias"), "jit_f32", 0.002),
        _Node("relu", "Add", ("relu",), "jit_f32", 0.0),
        _Node("relu_abc_tanh", "Reorder", (), "ref", 0.004),
    ]


def test_warm_up_is_not_measured(monkeypatch):
    times = iter([0, 100, 200, 203, 300, 305])
    monkeypatch.setattr(openvino_profile, "perf_counter", lambda: float(next(times)))
    calls = []
    infos = [SimpleNamespace(node_name=name) for name in "ab"]
    request = SimpleNamespace(
        reset_state=lambda: calls.append("reset"), infer=lambda x: calls.append(x), profiling_info=infos
    )
    totals, counters = _measure(request, (1, 2), 2)
    assert totals == [3, 5]
    assert counters == {"a": [infos[0]] * 2, "b": [infos[1]] * 2}
    assert calls == ["reset", [1, 2]] * 3


def run_openvino(folder, monkeypatch, error=None):
    """Measure a model with a stand-in of OpenVINO that fails to compile it, and return what it was asked for."""
    requests = []

    def compile_model(path, device, config):
        requests.append((irrun.read_model(path), device, config))
        raise error

    module = ModuleType("openvino")
    vars(module)["Core"] = lambda: SimpleNamespace(compile_model=compile_model)
    monkeypatch.setitem(sys.modules, "openvino", module)
    compiled = irrun.compile_model(write(folder, chain("Tanh", "Relu").replace("layer2", "layer1")), threads=1)
    with pytest.raises(irrun.IrrunError) as caught:
        profile_openvino(compiled, X, [], 1, KeyTable(compiled.model))
    return requests, caught.value


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("first\n  last line \n"), "OpenVINO failed: last line"),
        (RuntimeError(""), "OpenVINO failed: RuntimeError"),
        (irrun.InputError("the input is invalid"), "the input is invalid"),
    ],
)
def test_failures_of_openvino_are_reported(tmp_path, monkeypatch, error, message):
    requests, raised = run_openvino(tmp_path, monkeypatch, error)
    assert message in str(raised)
    assert isinstance(raised, irrun.InputError if isinstance(error, irrun.InputError) else irrun.ExecutionError)
    ((model, device, config),) = requests
    assert [layer.name for layer in model.graph.layers] == ["L0", "L1", "L2", "L3"]
    assert device == "CPU"
    assert config == {
        "PERF_COUNT": "YES",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": "1",
        "PERFORMANCE_HINT": "LATENCY",
    }


def test_irrun_in_the_place_of_openvino_is_not_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", irrun)
    with pytest.raises(irrun.InputError, match="--against openvino requires OpenVINO, found irrun in its place"):
        openvino_profile.check_is_installed()


def test_layers_with_equal_names_are_joined():
    openvino = pytest.importorskip("openvino")
    rows = [Row("x", "Parameter", shapes=[(2, 3)]), Row("a,b", "Tanh", ["x"], shapes=[(2, 3)])]
    rows += [Row("b", "Softmax", ["a,b"], {"axis": "1"}, shapes=[(2, 3)]), Row("y", "Result", ["b"])]
    model = make_model(*rows)
    model.graph.layers[2].name = "a,b"
    messages: list[str] = []
    result = irrun.profile(model, X, runs=1, optimize=False, against="openvino", progress=messages.append)
    assert messages[-1] == "OpenVINO"
    assert result.openvino is not None
    assert result.openvino.version == openvino.get_version()
    assert result.openvino.seconds > 0
    own = [pair for pair in result.openvino.pairs if pair.seconds is not None]
    assert [pair.layers for pair in own] == [("a,b",), ("a,b#2",)]
    assert all(pair.is_matched for pair in own)


def test_group_is_named_by_the_layer_with_the_most_operations():
    layers = [make_layer("tanh", 1.0, None), make_layer("add", 2.0, 1), make_layer("conv", 3.0, 1)]
    (pair,) = _join(layers, [make_node("n", ["tanh", "add", "conv"], 1.0)])
    assert (pair.key, pair.flops) == ("add", 2)
    (pair,) = _join(layers[:1], [make_node("n", ["tanh"], 1.0)])
    assert (pair.key, pair.flops) == ("tanh", None)
