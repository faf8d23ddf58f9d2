"""What other threads see of a run: the layer that it has reached, and how many were computed."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from irrun.activity import announce, find_step
from irrun.ir.graph import Layer

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def compile_recorder(model, steps, **options):
    """Return a compiled model in which layers of type Custom append the current step to a list."""

    def record(x):
        steps.append(find_step())
        return x

    operation = irrun.Operation.from_function(record, "Custom", opset="extension")
    return irrun.compile_model(model, operations=[operation], **options)


def write_chain(folder, *types):
    return write(folder, chain(*types, versions=["extension" if t == "Custom" else "opset1" for t in types]))


@pytest.mark.parametrize("options", [{}, {"timeout": 1000}, {"observers": [lambda *_: None]}])
@pytest.mark.parametrize("optimize", [True, False])
def test_run_tells_its_layer_and_number(options, optimize, tmp_path):
    steps = []
    path = write_chain(tmp_path, "Relu", "Custom", "Relu", "Relu", "Custom")
    request = compile_recorder(path, steps, optimize=optimize).create_infer_request()
    for _ in range(2):  # the second run has its own executor
        assert find_step() is None
        request.infer(X, **options)
    assert find_step() is None
    first, second = ("Custom", "layer2", "", "", 1, 5, "layers"), ("Custom", "layer5", "", "", 4, 5, "layers")
    assert steps == [first, second] * 2


def test_memory_checks_do_not_change_the_number(tmp_path, monkeypatch):
    """Large results make the executor check each step from then on."""
    monkeypatch.setattr("irrun.limits.LARGE", 0)
    steps = []
    compile_recorder(write_chain(tmp_path, "Relu", "Custom", "Relu", "Custom"), steps)(X)
    assert [(step.name, step.done, step.total) for step in steps] == [("layer2", 1, 4), ("layer4", 3, 4)]


@pytest.mark.parametrize("observers", [(), [lambda *_: None]])
@pytest.mark.parametrize("optimize", [True, False])
def test_iterations_are_counted(observers, optimize, tmp_path):
    steps = []
    path = write_row_loop(tmp_path)
    path.write_text(path.read_text().replace('"Relu" version="opset1"', '"Custom" version="extension"'))
    compile_recorder(path, steps, optimize=optimize)(X, observers=observers)
    expected = ("Custom", "layer1"), "iterations of", ("it", 0, 1, "layers")
    assert steps == [(*expected[0], f"{n} of 2 {expected[1]}", *expected[2]) for n in (1, 2)]


def test_branches_are_not_iterations(tmp_path):
    """The layers of an If in a loop belong to the iteration of the loop, those of others to none."""
    steps = []
    body = chain("Custom", versions=["extension"]).partition("<net")[2].partition(">")[2].removesuffix("</net>")
    ports = '<input external_port_id="1" internal_layer_id="0"/><output external_port_id="2" internal_layer_id="2"/>'
    inner = "".join(
        f"<{name}_port_map>{ports}</{name}_port_map><{name}_body>{body}</{name}_body>" for name in ("then", "else")
    )
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "Parameter", data='shape="" element_type="boolean"', outputs=[port(0, (), "BOOL")], name="c"),
        layer(2, "If", "opset8", "", [port(0), port(1, (2, 3))], [port(2, (2, 3), "FP32")], inner=inner, name="if"),
        layer(3, "Result", inputs=[port(0, (2, 3))]),
    ]
    path = write(tmp_path, net(layers, [(1, 0, 2, 0), (0, 0, 2, 1), (2, 2, 3, 0)]))
    compile_recorder(path, steps)({"x": X, "c": np.True_})
    assert steps == [("Custom", "layer1", "", "", 0, 1, "layers")]


def test_failed_run_leaves_no_step(tmp_path):
    def refuse(x):
        raise ValueError("refused")

    operation = irrun.Operation.from_function(refuse, "Custom", opset="extension")
    compiled = irrun.compile_model(write_chain(tmp_path, "Relu", "Custom"), operations=[operation])
    request = compiled.create_infer_request()
    for _ in range(2):
        with pytest.raises(irrun.ExecutionError):
            request.infer(X)
        assert find_step() is None


def test_steps_before_the_run_are_announced(tmp_path, monkeypatch):
    """Those of reading and compiling, from within."""
    steps = []

    def record_steps_in(module, name):
        function = getattr(importlib.import_module(module), name)

        def call(*arguments, **options):
            steps.append(find_step())
            return function(*arguments, **options)

        monkeypatch.setattr(f"{module}.{name}", call)

    record_steps_in("irrun.ir.reader", "parse_file")
    record_steps_in("irrun.runtime.prepared_model", "lower")
    irrun.compile_model(write_chain(tmp_path, "Relu"))
    assert [step and (step.text, step.name, step.total) for step in steps] == [
        ("reading", "model.xml", 0),
        ("preparing the program", "", 0),
    ]


def test_reading_and_writing_files_is_announced(tmp_path, monkeypatch):
    steps = []
    module = importlib.import_module("irrun.ir.writer")
    atomic_write = module.atomic_write

    def record(path):
        steps.append(find_step())
        return atomic_write(path)

    monkeypatch.setattr(module, "atomic_write", record)
    irrun.save_model(irrun.read_model(write_chain(tmp_path, "Relu")), tmp_path / "copy.xml")
    assert [(step.text, step.name) for step in steps] == [("writing", "copy.xml")] * 2


def test_latest_activity_is_shown():
    with announce("first"), announce("second", "name"):
        step = find_step()
        assert step is not None
        assert (step.text, step.name) == ("second", "name")
    assert find_step() is None


def test_joined_instructions_count_all_of_their_layers():
    from irrun.ops._support import registry
    from irrun.runtime.program import Instruction

    operation = registry.find("Relu", "opset1")
    assert operation is not None
    single = [Instruction(abs, (1,), (2,), Layer(n, f"layer{n}", "Relu"), operation) for n in range(4)]
    conversion = Instruction(abs, (1,), (2,), Layer(9, "inserted", "Convert"), operation, is_observed=False)
    fused = Instruction(abs, (1,), (2,), single[2].layer, operation, plain=(conversion, *single[1:3]))
    joined = Instruction(abs, (1,), (2,), single[3].layer, operation, plain=(fused, single[3]))
    assert [i.count_layers() for i in (single[0], fused, joined)] == [1, 2, 3]
    assert joined.find_first_layer().name == "layer1"
