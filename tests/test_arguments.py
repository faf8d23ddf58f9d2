"""Wrong arguments of public functions: errors name the argument, and nothing else escapes from inside."""

from __future__ import annotations

import linecache
import os
import random
import re
import traceback
from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun import inspection

X = np.ones((2, 3), np.float32)
ROOT = str(Path(irrun.__file__).parent)
#: Random calls of the test; IRRUN_SEED selects others.
CALLS = 1200
HUGE = 10**30


class Odd:
    """An object of a type that nothing expects."""


class Unconvertible:
    def __array__(self, *arguments, **keywords):
        raise RuntimeError("this object is no array")


def make_values(compiled):
    """Return values of all kinds, most of which are wrong wherever they are passed."""
    endless: list = []
    endless.append(endless)
    return [
        *(None, 0, -1, 3, HUGE, True, 1.5, float("nan"), float("inf"), float("-inf"), 1j),
        *("", "nonsense", "\udc80", "a\0b", "a\nb", "[", "*", "x" * 5000, "missing.xml", "junk.xml", b"x"),
        *([], (), {}, [None], [[1, 2], [3]], [float("nan")], [[["a"]]], {"x": None}, {1: 2}, {None: 1}, {1}, endless),
        *(Odd(), Unconvertible(), Path("missing.xml"), Path("/"), Path("folder"), slice(None), range(3), os, int),
        *(np.zeros(3), np.float64("nan"), np.zeros((0, 5)), np.array([None, 1], object), np.array(["a"])),
        *(np.dtype("f4"), compiled, compiled.model, iter("x")),
    ]


def make_state(folder):
    variable = 'variable_id="sum" variable_type="f32" variable_shape="?"'
    layers = [
        layer(0, "Parameter", data='shape="?" element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "ReadValue", "opset6", variable, [port(0)], [port(1)]),
        layer(2, "Assign", "opset6", 'variable_id="sum"', [port(0)], [port(1)]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(folder, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0)]), name="state")
    return irrun.compile_model(path).create_infer_request().query_state()[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("arguments")
    write(path, chain("Relu", "Exp"))
    (path / "folder").mkdir()
    (path / "junk.xml").write_bytes(b"\x00\xffno XML")
    np.save(path / "x.npy", X)
    inspection.record(path / "model.xml", X, path / "t.trace")
    return path


@pytest.fixture(scope="module")
def compiled(folder):
    return irrun.compile_model(folder / "model.xml")


@pytest.fixture
def calls(folder, compiled, monkeypatch):
    """Return functions by name, each with arguments that it accepts."""
    monkeypatch.chdir(folder)
    model = irrun.read_model("model.xml")
    state = make_state(folder)
    trace = inspection.Trace.open("t.trace")
    profile = irrun.profile(compiled, X, runs=1)
    settings = {"precision": "f32", "threads": None, "memory": None, "weights_memory": None, "timeout": None}
    compilation = {"check": False, "optimize": True, "operations": (), "jit": None}
    compilation |= {name: value for name, value in settings.items() if name != "timeout"}
    run = {"inputs": X, "observers": (), "timeout": None}
    selection = {"layers": (), "types": (), "modules": ()}
    operation = {"operation_type": "Odd", "opset": "extension", "since": None, "folding": "small", "kind": "other"}
    grouping = {"by": "layer", "depth": None}
    images = {"seed": None, "layout": None, "channels": None, "mean": None, "scale": None}
    table = inspection.KeyTable(model)
    return {
        "compile_model": (
            irrun.compile_model,
            {"model": "model.xml", "weights": None, "config": None, "device_name": "CPU", **compilation},
        ),
        "CompiledModel": (irrun.CompiledModel, {"model": model, **compilation}),
        "CompiledModel.__call__": (lambda **a: compiled(a.pop("inputs"), **a), run),
        "InferRequest": (irrun.InferRequest, {"compiled": compiled, "instrument": None}),
        "infer": (compiled.create_infer_request().infer, run),
        "input": (compiled.input, {"key": 0}),
        "output": (model.output, {"key": 0}),
        "state": (lambda value: setattr(state, "state", value), {"value": np.zeros(2, np.float32)}),
        "read_model": (irrun.read_model, {"model": "model.xml", "weights": None, "check": True}),
        "run": (irrun.run, {"model": "model.xml", "inputs": X, "weights": None}),
        "extract": (irrun.extract, {"model": model, "inputs": (), "outputs": "layer1"}),
        "load_inputs": (irrun.load_inputs, {"specs": ["x.npy"], "model": compiled, "options": None, **images}),
        "save_model": (irrun.save_model, {"model": model, "path": "o.xml", "weights_path": None}),
        "save_outputs": (irrun.save_outputs, {"outputs": {"a": X}, "target": "o.npz"}),
        "validate": (irrun.validate, {"path": "model.xml", "weights": None, "operations": ()}),
        "op": (lambda **a: irrun.op(**a)(lambda data: data), {**operation, "category": None}),
        "from_function": (irrun.Operation.from_function, {"function": lambda data: data, **operation}),
        "PartialShape": (irrun.PartialShape, {"dimensions": [1, 2]}),
        "is_compatible": (irrun.PartialShape([1, 2]).is_compatible, {"shape": [1, 2]}),
        "ElementType.parse": (irrun.ElementType.parse, {"text": "f32"}),
        "ElementType.of": (irrun.ElementType.of, {"dtype": np.float32}),
        "get_byte_size": (irrun.ElementType.parse("f32").get_byte_size, {"count": 3}),
        "reshape": (lambda shapes: irrun.read_model("model.xml").reshape(shapes), {"shapes": {"x": [4, 3]}}),
        "add_outputs": (lambda names: irrun.read_model("model.xml").add_outputs(names), {"names": "layer1"}),
        "profile": (
            irrun.profile,
            {"model": "model.xml", "inputs": X, "against": None, "progress": None, "runs": 1, "jit": None, **settings},
        ),
        "Profile.group": (profile.group, grouping),
        "Profile.to_csv": (profile.to_csv, grouping),
        "Profile.save": (profile.save, {"path": "p.json"}),
        "check": (
            inspection.check,
            {"model": "model.xml", "inputs": X, "input_sets": (), "target_type": None, "observers": (), **settings},
        ),
        "compare": (
            inspection.compare,
            {"model": "model.xml", "against": "model.xml", "inputs": X, "factor": None, "observers": (), **settings},
        ),
        "find_cure": (
            inspection.find_cure,
            {"model": model, "other": model, "input_sets": [X], "count": 1, **settings},
        ),
        "record": (
            inspection.record,
            {"model": model, "inputs": X, "path": None, "max_bytes": None, "observers": (), **selection, **settings},
        ),
        "reduce": (
            inspection.reduce,
            {"model": model, "inputs": X, "against": None, "fails": "max>9", "max_trials": 1, "progress": None},
        ),
        "replay": (inspection.replay, {"trace": "t.trace", "model": model, "layer": "layer1", **settings}),
        "parse_condition": (inspection.parse_condition, {"text": "nan"}),
        "Breakpoint": (
            inspection.Breakpoint,
            {"model": model, "layers": (), "types": (), "condition": None, "stdin": None, "stdout": None},
        ),
        "KeyTable": (inspection.KeyTable, {"model": model}),
        "find_layer": (table.find_layer, {"key": "layer1"}),
        "Selection": (lambda **a: inspection.Selection(**a).check(table), selection),
        "measure": (inspection.measure, {"actual": X, "reference": X, "tolerance": 0.0}),
        "measure_top_k": (inspection.measure_top_k, {"actual": X, "reference": X, "k": 2}),
        "MapOptions": (
            irrun.distributed.MapOptions,
            {"batch": 1, "on_error": "stop", "imports": (), "shapes": (), "weights": None, "jit": None, **settings}
            | {"threads": 1},
        ),
        "Trace.open": (inspection.Trace.open, {"path": "t.trace"}),
        "has_data": (trace.has_data, {"key": "layer1"}),
        "report": (trace.report, {"model": model, "height": 800, "channels": "BGR"}),
    }


def find_escape(error):
    """Return where an exception comes from that no check of arguments raised, or "" for one that is deliberate."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_raised = last.filename.startswith(ROOT) and "raise" in linecache.getline(last.filename, last.lineno or 0)
    if isinstance(error, irrun.IrrunError):
        return "" if str(error) and "\n" not in str(error) else f"message {str(error)!r}"
    if type(error) in (TypeError, ValueError) and is_raised:
        return ""
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"


def test_wrong_arguments_do_not_escape(calls, compiled):
    for name, (function, arguments) in calls.items():
        if name != "find_cure":  # which requires a quantized model
            function(**arguments)
    values = make_values(compiled)
    rng = random.Random(int(os.environ.get("IRRUN_SEED", "0")))
    escaped = []
    for _ in range(CALLS):
        name, (function, arguments) = rng.choice(list(calls.items()))
        parameters = rng.sample(list(arguments), min(len(arguments), rng.choice((1, 1, 1, 2))))
        changed = {parameter: rng.choice(values) for parameter in parameters}
        if changed.get("runs") is HUGE or callable(changed.get("progress")):
            continue  # takes long, or is called
        try:
            function(**{**arguments, **changed})
        except Exception as error:
            escape = find_escape(error)
            if escape:
                escaped.append(f"{name}({changed!r}): {escape}")
    assert not escaped, "\n".join(escaped)


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("compile_model", {"model": None}, "model is None, expected a Model, the path of an .xml file, or its content"),
        ("compile_model", {"config": [1]}, "config is a list of 1, expected None"),
        ("compile_model", {"threads": 0}, "threads"),
        ("compile_model", {"operations": 3}, "operations is 3, expected a list of operations"),
        ("compile_model", {"optimize": X}, "optimize is an array of float32 with shape [2, 3], expected True or False"),
        ("CompiledModel", {"model": "model.xml"}, "model is 'model.xml', expected a Model; compile_model accepts"),
        ("infer", {"timeout": float("nan")}, "timeout is nan, expected a number of seconds"),
        ("infer", {"timeout": "1"}, "timeout is '1', expected a number of seconds"),
        ("infer", {"observers": print}, "observers is a builtin_function_or_method, expected a list of functions"),
        ("infer", {"observers": [1]}, "an element of observers is 1, expected a function"),
        ("infer", {"inputs": Unconvertible()}, "does not accept a Unconvertible"),
        ("check", {"timeout": float("nan")}, "timeout is nan, expected a number of seconds"),
        ("check", {"target_type": "f8"}, "target_type is 'f8', expected None, 'f16' or 'bf16'"),
        ("check", {"input_sets": 3}, "input_sets is 3, expected a list with the inputs of each run"),
        ("compare", {"factor": float("nan")}, "factor is nan, expected a number of at least 0"),
        ("profile", {"runs": 0}, "runs is 0, expected an integer of at least 1"),
        ("profile", {"against": "torch"}, "against is 'torch', expected None or 'openvino'"),
        ("Profile.group", {"by": "color"}, "by is 'color', expected 'layer', 'type' or 'module'"),
        ("Profile.save", {"path": "folder"}, "cannot write folder: Is a directory"),
        ("extract", {"outputs": [3]}, "an element of outputs is 3, expected a text or a list of texts"),
        ("save_outputs", {"outputs": {"a": [1]}}, "outputs['a'] is a list of 1, expected an array"),
        ("load_inputs", {"mean": [1, None]}, "mean is None, expected a number, or a list of numbers"),
        ("record", {"layers": [None]}, "an element of layers is None, expected a text or a list of texts"),
        ("record", {"path": "a\0b"}, "path contains a null character, expected the path of a file or None"),
        ("measure", {"actual": "text"}, "actual is 'text', expected an array of an element type"),
        ("measure_top_k", {"k": -1}, "k is -1, expected an integer of at least 0"),
        ("reshape", {"shapes": {"x": [None]}}, "the shape is a list of 1, expected integers, texts such as '1..8'"),
        ("state", {"value": "text"}, "the value of variable 'sum' is 'text', expected an array"),
        ("op", {"folding": "often"}, "folding is 'often', expected 'linear', 'small' or 'never'"),
        ("MapOptions", {"batch": 0}, "batch is 0, expected an integer of at least 1"),
        ("MapOptions", {"memory": "much"}, "memory is 'much', expected a number of bytes, or a text such as '800M'"),
        ("MapOptions", {"on_error": None}, "on_error is None, expected 'stop' or 'skip'"),
        ("input", {"key": None}, "unknown input None; the model has x: f32[2,3]"),
    ],
)
def test_errors_name_the_argument(name, changed, message, calls):
    function, arguments = calls[name]
    with pytest.raises((irrun.IrrunError, TypeError, ValueError), match=re.escape(message)):
        function(**{**arguments, **changed})


def test_numbers_of_numpy_are_accepted(calls):
    for name, changed in [
        ("compile_model", {"threads": np.int64(2), "optimize": np.True_, "jit": np.False_}),
        ("profile", {"runs": np.int32(1)}),
        ("infer", {"timeout": np.float32(100)}),
        ("measure_top_k", {"k": np.uint8(2)}),
    ]:
        function, arguments = calls[name]
        function(**{**arguments, **changed})
