"""Parts of models, the search for the smallest one that fails, and the scripts that reproduce failures."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ir_text import write_row_loop

import irrun
from inspection.graphs import Row, make_graph, make_model
from irrun.element_types import ELEMENT_TYPES
from irrun.errors import ExecutionError, InputError, UnsupportedError
from irrun.inspection import measure, parse_condition, record, reduce, reduction_trials
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.parts import Counterpart, Frame, Part, add_probes
from irrun.inspection.reduction_search import Search
from irrun.inspection.reduction_trials import create_trial, find_failing_layers, run_command
from irrun.inspection.reproduction import name_inputs, save_part
from irrun.ir.graph import Graph
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

X = np.float32([1, 2])
Y = np.float32([5, 7])

ROWS = [
    Row("x", "Parameter", shapes=[(2,)]),
    Row("y", "Parameter", shapes=[(2,)]),
    Row("c", "Constant", value=np.float32([3, 4])),
    Row("d", "Negative", ["c"], shapes=[(2,)]),
    Row("a", "Subtract", ["y", "x"], shapes=[(2,)]),
    Row("b", "Multiply", ["a", "d"], shapes=[(2,)]),
    Row("axis", "Constant", value=np.int64(0)),
    Row("s", "Split", ["b", "axis"], {"num_splits": "2"}, shapes=[(1,), (1,)]),
    Row("e", "Add", ["s:1", "a"], shapes=[(2,)]),
    Row("r", "Result", ["e"]),
]
IDS = {row.name: i for i, row in enumerate(ROWS)}


def make_frame(rows=ROWS, inputs=(X, Y), without=(), other=None):
    model = make_model(*rows)
    values = {key: value for key, value in record(model, list(inputs)).items() if key not in without}
    counterpart = None
    if other is not None:
        counterpart = Counterpart(other, other.graph, match_layers(model.graph, other.graph))
    return Frame(model, model.graph, KeyTable(model), values, "", counterpart)


def get_ids(names):
    return {IDS[name] for name in names.split()}


def run_part(part):
    return [
        list(map(float, value)) for value in irrun.compile_model(part.model, optimize=False)(part.inputs).to_tuple()
    ]


def test_layers_are_grouped_in_the_order_of_execution():
    assert make_frame().atoms == [(IDS[name],) for name in "abse"]
    rows = [
        Row("x", "Parameter", shapes=[(2,)]),
        Row("read", "ReadValue", ["x"], {"variable_id": "v"}, version="opset6"),
        Row("a", "Add", ["read", "x"]),
        Row("other", "ReadValue", ["a"], {"variable_id": "w"}, version="opset6"),
        Row("write", "Assign", ["a"], {"variable_id": "v"}, version="opset6"),
        Row("y", "Result", ["other"]),
    ]
    graph = make_graph(*rows)
    frame = Frame(make_model(*rows), graph, KeyTable(graph), {})
    assert frame.atoms == [(1, 4), (2,), (3,)]


@pytest.mark.parametrize(
    ("names", "inputs", "outputs"),
    [
        ("a", {"y": Y, "x": X}, [[4, 5]]),
        ("b", {"a": [4, 5]}, [[-12, -20]]),
        ("a b", {"y": Y, "x": X}, [[4, 5], [-12, -20]]),
        ("s", {"b": [-12, -20]}, [[-20]]),
        ("b s", {"a": [4, 5]}, [[-20]]),
        ("e", {"s.1": [-20], "a": [4, 5]}, [[-16, -15]]),
        ("a b s e", {"y": Y, "x": X}, [[-16, -15]]),
        ("a e", {"y": Y, "x": X, "s.1": [-20]}, [[4, 5], [-16, -15]]),
    ],
)
def test_part_computes_the_values_of_the_run(names, inputs, outputs):
    part = make_frame().make_part(get_ids(names))
    named = name_inputs(part)
    assert {name: list(map(float, value)) for name, value in named.items()} == {
        name: list(map(float, value)) for name, value in inputs.items()
    }
    assert run_part(part) == outputs
    assert part.keys == [name for name in "abse" if name in names.split()]
    assert part.counterpart is None
    assert part.positions == []


def test_parts_without_values_at_their_boundaries_do_not_exist():
    frame = make_frame(without=["a"])
    assert frame.make_part(get_ids("b")) is None
    assert frame.make_part(get_ids("a b")) is not None
    assert frame.make_part(set()) is None
    assert frame.get_keys(get_ids("e a")) == ["a", "e"]
    assert [frame.get_key((IDS["s"], 2 + port)) for port in range(2)] == ["s.0", "s.1"]


def test_results_that_nothing_uses_are_outputs():
    rows = [Row("x", "Parameter", shapes=[(2,)]), Row("a", "Exp", ["x"], shapes=[(2,)]), Row("b", "Exp", ["a"])]
    rows += [Row("k", "Constant", value=np.int64(0)), Row("s", "Split", ["x", "k"], {"num_splits": "2"}, 2)]
    rows += [Row("y", "Result", ["a"])]
    frame = make_frame(rows, [X])
    assert len(frame.make_part({2}).model.outputs) == 1
    assert len(frame.make_part({4}).model.outputs) == 2
    assert len(frame.make_part({1, 2}).model.outputs) == 1


def test_values_have_the_declared_types():
    frame = make_frame()
    layers = frame.model.graph.layers
    layers[IDS["a"]].outputs[0].element_type = ELEMENT_TYPES["f16"]
    part = frame.make_part(get_ids("b"))
    assert part.inputs[0].dtype == np.float16
    assert part.model.inputs[0].element_type.name == "f16"
    assert part.model.inputs[0].layer.attributes == {"element_type": "f16", "shape": "2"}
    frame.values["a"] = np.int32([4, 5])
    assert frame.make_part(get_ids("b")).inputs[0].dtype == np.int32
    layers[IDS["a"]].outputs[0].element_type = ELEMENT_TYPES["i64"]
    frame.values["a"] = np.float32([4, 5])
    assert frame.make_part(get_ids("b")).inputs[0].dtype == np.float32
    layers[IDS["a"]].outputs[0].element_type = None
    assert frame.make_part(get_ids("b")).inputs[0].dtype == np.float32
    layers[IDS["a"]].outputs[0].element_type = ELEMENT_TYPES["nf4"]
    assert frame.make_part(get_ids("b")).inputs[0].dtype == np.float32


@pytest.mark.parametrize(
    ("declared", "shape"), [((2,), "[2]"), ((-1,), "[?]"), ((3,), "[2]"), (None, "[2]"), ((2, 1), "[2]")]
)
def test_inputs_have_the_declared_shapes_if_possible(declared, shape):
    frame = make_frame()
    frame.model.graph.layers[IDS["a"]].outputs[0].shape = None if declared is None else PartialShape(declared)
    assert str(frame.make_part(get_ids("b")).model.inputs[0].partial_shape) == shape


# Counterparts


def change(rows, name, **fields):
    return [row._replace(**fields) if row.name == name else row for row in rows]


def test_counterpart_has_the_same_inputs_and_outputs():
    other = make_model(*change(ROWS, "c", value=np.float32([6, 8])))
    frame = make_frame(other=other)
    part = frame.make_part(get_ids("a b"))
    assert part.positions == [0, 1]
    values = irrun.compile_model(part.counterpart, optimize=False)(part.counterpart_inputs).to_tuple()
    np.testing.assert_array_equal(values[0], [4, 5])
    np.testing.assert_array_equal(values[1], [-24, -40])


def test_counterpart_may_have_another_order():
    rows = [ROWS[i] for i in (1, 0, 2, 3, 4, 5, 6, 7, 8, 9)]
    part = make_frame(other=make_model(*rows)).make_part(get_ids("a"))
    values = irrun.compile_model(part.counterpart, optimize=False)(part.counterpart_inputs).to_tuple()
    np.testing.assert_array_equal(values[part.positions[0]], [4, 5])
    assert sorted(n.layer.name for n in part.counterpart.inputs) == ["x", "y"]


def test_layers_that_a_counterpart_does_not_have_are_skipped_if_they_quantize():
    quantize = [
        *ROWS[:5],
        Row("q", "Convert", ["a"], {"destination_type": "f32"}, shapes=[(2,)]),
        *change(ROWS[5:], "b", sources=["q", "d"]),
    ]
    other = make_model(*ROWS)
    model = make_model(*quantize)
    values = record(model, [X, Y])
    matches = match_layers(model.graph, other.graph)
    frame = Frame(model, model.graph, KeyTable(model), values, "", Counterpart(other, other.graph, matches))
    ids = {row.name: i for i, row in enumerate(quantize)}
    part = frame.make_part({ids["b"]})
    assert [n.name for n in part.counterpart.graph.layers if n.type != "Result"] == ["q", "c", "d", "b"]
    np.testing.assert_array_equal(part.counterpart_inputs[0], [4, 5])
    frame.model.graph.layers[ids["q"]].type = "Relu"
    assert frame.make_part({ids["b"]}) is None


def test_parts_that_a_counterpart_does_not_have_do_not_exist():
    missing = change(ROWS, "a", type="Floor", sources=["x"])
    missing = [row._replace(name="z") if row.name == "a" else row for row in missing]
    missing = [row._replace(sources=["z" if s == "a" else s for s in row.sources]) for row in missing]
    frame = make_frame(other=make_model(*missing))
    assert frame.make_part(get_ids("a")) is None
    assert frame.make_part(get_ids("b")) is None
    more = change(ROWS, "b", sources=["a", "y"])
    frame = make_frame(other=make_model(*more))
    assert frame.make_part(get_ids("b")) is None
    assert frame.make_part(get_ids("a b")) is not None


def test_inputs_of_a_counterpart_have_its_types():
    other = make_model(*ROWS)
    other.graph.layers[IDS["a"]].outputs[0].element_type = ELEMENT_TYPES["f16"]
    part = make_frame(other=other).make_part(get_ids("b"))
    assert (part.inputs[0].dtype, part.counterpart_inputs[0].dtype) == (np.float32, np.float16)


# Bodies


def make_loop_frame(tmp_path, values=None, other=None, probes=False):
    model = irrun.read_model(write_row_loop(tmp_path))
    x = np.float32([[1, -2, 3], [-4, 5, 6]])
    values = record(add_probes(model) if probes else model, x) if values is None else values
    counterpart = None if other is None else Counterpart(other, other.graph, match_layers(model.graph, other.graph))
    return Frame(model, model.graph, KeyTable(model), values, "", counterpart)


def test_iterations_of_bodies_are_entered(tmp_path):
    frame = make_loop_frame(tmp_path)
    owner = frame.model.graph.layers[1]
    inner = list(frame.enter(owner))
    assert [f.prefix for f in inner] == ["it[0]/", "it[1]/"]
    part = inner[1].make_part({1})
    assert part.keys == ["it[1]/layer1"]
    (output,) = irrun.compile_model(part.model, optimize=False)(part.inputs).to_tuple()
    np.testing.assert_array_equal(output, [[0, 5, 6]])
    keys = {f"it[{i}]/layer1": X for i in (10, 9, 1)}
    frame = make_loop_frame(tmp_path, keys)
    assert [f.prefix for f in frame.enter(frame.model.graph.layers[1])] == ["it[1]/", "it[9]/", "it[10]/"]
    assert list(frame.enter(frame.model.graph.layers[0])) == []


def test_bodies_of_a_counterpart_are_entered_with_it(tmp_path):
    other = irrun.read_model(write_row_loop(tmp_path))
    frame = make_loop_frame(tmp_path, other=other)
    inner = list(frame.enter(frame.model.graph.layers[1]))
    assert [f.counterpart.graph for f in inner] == [other.graph.layers[1].bodies["body"].graph] * 2
    part = inner[0].make_part({1})
    assert part.counterpart is not None
    other.graph.layers[1].bodies.clear()
    frame = make_loop_frame(tmp_path, other=other)
    assert list(frame.enter(frame.model.graph.layers[1])) == []
    other.graph.layers[1].type = "Unknown"
    frame = make_loop_frame(tmp_path, other=other)
    assert list(frame.enter(frame.model.graph.layers[1])) == []


def test_parameters_of_bodies_with_other_names_are_matched_by_position(tmp_path):
    other = irrun.read_model(write_row_loop(tmp_path))
    body = other.graph.layers[1].bodies["body"]
    body.graph.layers[0] = replace(body.graph.layers[0], id=40, name="renamed")
    body.graph.edges[0] = body.graph.edges[0]._replace(from_layer=40)
    body.inputs[0].internal_layer_id = 40
    frame = make_loop_frame(tmp_path, other=other)
    (first, _) = frame.enter(frame.model.graph.layers[1])
    part = first.make_part({1})
    np.testing.assert_array_equal(part.counterpart_inputs[0], [[1, -2, 3]])


def test_probes_record_the_parameters_of_bodies(tmp_path):
    model = irrun.read_model(write_row_loop(tmp_path))
    body = model.graph.layers[1].bodies["body"].graph
    probed = add_probes(model)
    assert probed.graph.layers[0] is model.graph.layers[0]
    changed = probed.graph.layers[1].bodies["body"].graph
    assert [n.name for n in changed.layers] == ["x", "irrun/parameter/0", "layer1", "result"]
    assert len({n.id for n in changed.layers}) == 4
    assert len(body.layers) == 3
    frame = make_loop_frame(tmp_path, probes=True)
    values = dict(frame.values)
    values.pop("it[1]/x")
    frame = make_loop_frame(tmp_path, values)
    part = list(frame.enter(frame.model.graph.layers[1]))[1].make_part({1})
    np.testing.assert_array_equal(part.inputs[0], [[-4, 5, 6]])


# The search


def search(count, required, *, suspects=(), max_trials=None, grouped=False):
    """Search for the required layers, and return the search, the parts and the progress."""
    parts, calls = [], []
    atoms = [(i, i + 100) if grouped else (i,) for i in range(count)]
    frame = SimpleNamespace(
        prefix="",
        graph=Graph(),
        model=SimpleNamespace(weights=Weights()),
        atoms=atoms,
        layers={i: SimpleNamespace(bodies={}) for group in atoms for i in group},
        make_part=lambda ids: SimpleNamespace(keys=sorted(ids)),
    )

    def fails(part):
        parts.append(part.keys)
        return set(required) <= set(part.keys)

    trial = SimpleNamespace(message="why", is_error=False, fails=fails, find_suspects=lambda model: set(suspects))
    whole = SimpleNamespace(keys=[i for group in atoms for i in group])
    result = Search(trial, whole, max_trials, lambda *numbers: calls.append(numbers))
    result.descend(frame)
    return result, parts, calls


@pytest.mark.parametrize(
    ("count", "required", "trials"),
    [
        (8, [0], 7),
        (8, [7], 4),
        (8, [3], 5),
        (8, [2, 3], 6),
        (8, [0, 7], 16),
        (8, [1, 4, 6], 16),
        (16, [5, 9], 16),
        (5, [1, 2, 3], 10),
        (9, [0, 4, 8], 24),
        (3, [1], 4),
        (2, [0, 1], 3),
        (1, [0], 1),
        (12, [2, 3, 8, 9], 20),
    ],
)
def test_smallest_set_of_layers_is_found_with_few_trials(count, required, trials):
    result, parts, calls = search(count, required)
    assert result.best.keys == required
    assert result.trials == trials == len(parts) + 1
    assert len({tuple(part) for part in parts}) == len(parts)
    assert [numbers[2] for numbers in calls] == list(range(2, trials + 1))
    assert {numbers[1] for numbers in calls} <= {count}
    assert [numbers[0] for numbers in calls][-1:] == [len(required)][: len(calls)]


def test_suspects_are_tested_first():
    result, parts, _ = search(8, [2, 5], suspects=[2, 5, 77])
    assert parts[0] == [2, 5]
    assert result.best.keys == [2, 5]
    result, parts, _ = search(8, [2, 5], suspects=[2])
    assert parts[0] == [2]
    assert result.best.keys == [2, 5]


def test_layers_of_a_group_stay_together():
    result, _, _ = search(4, [2], grouped=True)
    assert result.best.keys == [2, 102]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_search_ends_after_the_largest_number_of_trials(limit):
    result, parts, _ = search(8, [0, 7], max_trials=limit)
    assert result.trials == limit
    assert len(parts) == limit - 1
    assert len(result.best.keys) == 8


def test_parts_that_raise_an_error_do_not_fail():
    model = make_model(*ROWS)
    calls = []

    class Trial:
        message = ""
        is_error = False

        def fails(self, part):
            if len(part.keys) < 2:
                raise irrun.InputError("the part is too small")
            return "e" in part.keys

        def find_suspects(self, model):
            return set()

    frame = make_frame()
    whole = Part(model, [X, Y], frame.get_keys(frame.layers))
    result = Search(Trial(), whole, None, lambda *numbers: calls.append(numbers))
    result.descend(frame)
    assert len(result.best.keys) == 2
    assert len(calls) == result.trials - 1


# Trials


def make_product(factor):
    model = make_model(
        Row("x", "Parameter", shapes=[(2,)]),
        Row("c", "Constant", value=np.float32([factor])),
        Row("p", "Multiply", ["x", "c"], shapes=[(2,)]),
        Row("y", "Result", ["p"]),
    )
    model.graph.layers[1].outputs[0].element_type = ELEMENT_TYPES["f32"]
    return model


def make_part(factor, other=None, x=X):
    part = Part(make_product(factor), [x], ["p"])
    if other is not None:
        part.counterpart, part.counterpart_inputs, part.positions = make_product(other), [X], [0]
    return part


@pytest.mark.parametrize(("size", "fails"), [(3, True), (4, False)])
def test_errors_of_openvino_may_depend_on_the_inputs(size, fails):
    pytest.importorskip("openvino")
    rows = [Row("x", "Parameter", attributes={"shape": "?"}), Row("shape", "Constant", value=np.int64([2, 2]))]
    rows += [Row("a", "Reshape", ["x", "shape"], {"special_zero": "false"}), Row("y", "Result", ["a"])]
    trial = create_trial("openvino", None, parse_condition("error"), None)
    assert trial.fails(Part(make_model(*rows), [np.ones(size, np.float32)])) is fails


@pytest.mark.parametrize(
    ("against", "condition", "expected"),
    [
        (None, "nan", None),
        ("f64", "nan", "f64"),
        ("f64", "error", None),
        ("openvino:bf16", "sqnr<20", "openvino:bf16"),
        ("openvino:bf16", "error", "openvino:bf16"),
        ("openvino.xml", "error", None),
        ("openvino.xml", "nan", None),
    ],
)
def test_reference_is_a_runtime_unless_it_is_a_model(against, condition, expected):
    other = make_model(*ROWS) if against is not None and against.endswith(".xml") else None
    trial: Any = create_trial(against, other, parse_condition(condition), None)
    assert trial.reference == expected


def test_condition_must_hold_for_an_output_and_not_for_an_input():
    trial = create_trial(None, None, parse_condition("abs>3"), None)
    assert trial.fails(make_part(2))
    assert trial.message == "abs>3 holds for an output of the model"
    assert (trial.condition_text, trial.command_text, trial.is_error) == ("abs>3", "", False)
    assert not trial.fails(make_part(1))
    assert not create_trial(None, None, parse_condition("abs>1"), None).fails(make_part(2))
    assert trial.find_suspects(make_product(1)) == set()
    other = make_product(2)
    trial = create_trial(other, other, parse_condition("abs>3"), None)
    assert trial.fails(make_part(1, 2))
    assert trial.message == "abs>3 holds for an output of the reference"


def test_difference_from_another_model_is_a_failure():
    other = make_product(1)
    trial = create_trial(other, other, None, None)
    assert trial.condition_text == ""
    assert not trial.fails(make_part(1, 1))
    assert trial.condition_text == "sqnr<120"
    assert trial.fails(make_part(1.001, 1))
    assert trial.message.startswith("an output has an SQNR of 60.0 dB, max abs 0.002")
    assert not create_trial(other, other, parse_condition("sqnr<20"), None).fails(make_part(1.001, 1))
    trial = create_trial(other, other, None, None)
    part = make_part(1.0001, 1)
    part.counterpart.graph.layers[2].outputs[0].element_type = ELEMENT_TYPES["f16"]
    assert not trial.fails(part)
    assert trial.condition_text == "sqnr<60"
    part = make_part(1.5, 1)
    part.positions = [None]
    assert not trial.fails(part)


def test_worst_output_is_described():
    assert reduction_trials._describe_difference(measure(X, Y[:1])) == "the shape of an output differs"
    rows = [
        Row("x", "Parameter", shapes=[(2,)]),
        *(Row(f"c{i}", "Constant", value=np.float32(i)) for i in (1, 2)),
        *(Row(f"p{i}", "Multiply", ["x", f"c{i}"], shapes=[(2,)]) for i in (1, 2)),
        *(Row(f"y{i}", "Result", [f"p{i}"]) for i in (1, 2)),
    ]
    other = make_model(*change(change(rows, "c1", value=np.float32(1.1)), "c2", value=np.float32(3)))
    part = Part(make_model(*rows), [X], [], other, [X], [0, 1])
    trial = create_trial(other, other, None, None)
    assert trial.fails(part)
    assert trial.message == "an output has an SQNR of 9.5 dB, max abs 2"


def test_difference_from_f64_is_a_failure():
    trial = create_trial("f64", None, None, None)
    assert not trial.fails(make_part(1))
    assert trial.condition_text == "sqnr<60"
    trial = create_trial("f64", None, parse_condition("max_abs>0"), None)
    assert trial.fails(make_part(0.1, x=Y))
    assert not trial.fails(make_part(1))


def test_difference_from_openvino_is_a_failure():
    pytest.importorskip("openvino")
    trial = create_trial("openvino", None, None, None)
    assert not trial.fails(make_part(0.1))
    assert trial.condition_text == "sqnr<60"
    low = create_trial("openvino:bf16", None, None, None)
    low.fails(make_part(0.1))
    assert low.condition_text in ("sqnr<60", "sqnr<24.08")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, None, None, None), "expected a reference, a condition such as 'nan', or a test command"),
        ((None, None, "sqnr<20", None), "the condition 'sqnr<20' requires a reference"),
        ((None, None, "nan or error", None), "'error' cannot be combined with other conditions, found 'nan or error'"),
        (("f64", None, None, "true"), "a test command cannot be combined"),
        ((None, None, "nan", "true"), "a test command cannot be combined"),
    ],
)
def test_invalid_combinations_are_reported(arguments, message):
    against, other, condition, test = arguments
    with pytest.raises(InputError, match=message):
        create_trial(against, other, None if condition is None else parse_condition(condition), test)


def test_references_of_errors_are_only_those_of_openvino():
    error = parse_condition("error")
    assert vars(create_trial("openvino:bf16", None, error, None))["reference"] == "openvino:bf16"
    assert vars(create_trial("f64", None, error, None))["reference"] is None
    assert vars(create_trial(None, None, error, None))["reference"] is None
    model = make_product(1)
    assert vars(create_trial(model, model, error, None))["reference"] is None
    assert create_trial(None, None, error, None).condition_text == "error"


def make_failing(axis):
    rows = [Row("x", "Parameter", shapes=[(2,)]), Row("p", "Softmax", ["x"], {"axis": axis}, shapes=[(2,)])]
    return Part(make_model(*rows, Row("y", "Result", ["p"])), [X], ["p"])


def test_part_must_raise_the_same_error():
    trial = create_trial(None, None, parse_condition("error"), None)
    assert not trial.fails(make_part(1))
    assert trial.find_suspects(make_product(1)) == set()
    assert trial.fails(make_failing("7"))
    assert "axis" in trial.message
    assert trial.find_suspects(make_failing("7").model) == {1}
    assert trial.fails(make_failing("8"))
    other = make_failing("7")
    other.model.graph.layers[1].name = "q"
    assert not trial.fails(other)
    other.model.graph.layers[1].name = "p"
    other.model.graph.layers[1].type = "Unknown"
    assert not trial.fails(other)


def test_missing_openvino_is_not_the_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    trial = create_trial("openvino", None, parse_condition("error"), None)
    with pytest.raises(InputError, match="requires OpenVINO"):
        trial.fails(make_part(1))


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (InputError("a 1"), InputError("a 22"), True),
        (InputError("a 1"), InputError("b 1"), False),
        (InputError("a"), ExecutionError("a"), False),
        (InputError("a", layer="l"), InputError("b", layer="l"), True),
        (InputError("a", layer="l"), InputError("a", layer="m"), False),
        (InputError("a", layer="l in iteration 2 of m"), InputError("b", layer="l in iteration 7 of n"), True),
        (ExecutionError("x src/a/b.cpp:17: y"), ExecutionError("z src/a/b.cpp:17 w"), True),
        (ExecutionError("x src/a/b.cpp:17: y"), ExecutionError("x src/a/b.cpp:18: y"), False),
        (ExecutionError("src/a.cpp:1", layer="l"), ExecutionError("src/a.cpp:2", layer="l"), True),
        (UnsupportedError("a"), UnsupportedError("b"), True),
    ],
)
def test_errors_are_identified_by_layer_place_or_message(first, second, is_same):
    identify = reduction_trials._identify_error
    assert (identify(first) == identify(second)) is is_same


def test_layers_that_an_error_names_are_found(tmp_path):
    model = irrun.read_model(write_row_loop(tmp_path))
    inner = KeyTable(model).find_layer("it[0]/layer1")
    owner = model.graph.layers[1]
    assert find_failing_layers(model, InputError("a", layer=inner.describe())) == {1}
    place = f"{inner.describe()} in iteration 3 of {owner.describe()}"
    assert find_failing_layers(model, InputError("a", layer=place)) == {1}
    assert find_failing_layers(model, InputError("a", layer=model.graph.layers[2].describe())) == {2}
    assert find_failing_layers(model, InputError("a")) == set()
    assert find_failing_layers(model, UnsupportedError("a")) == set()
    inner.type = "Unknown"
    assert find_failing_layers(model, UnsupportedError("a")) == {1}


# Commands


def test_command_is_run_with_paths(tmp_path):
    code = "import sys, pathlib; pathlib.Path(sys.argv[1], 'seen').write_text(' '.join(sys.argv[2:])); sys.exit(3)"
    words = [sys.executable, "-c", code, "{folder}", "{model}", "--in={inputs}", "{other}"]
    assert run_command(words, tmp_path) == 3
    seen = (tmp_path / "seen").read_text()
    assert seen == f"{tmp_path / 'model.xml'} --in={tmp_path / 'inputs.npz'} {{other}}"


@pytest.mark.parametrize(
    ("code", "fails", "message"),
    [
        (0, False, ""),
        (1, True, "the test command exits with 1"),
        (125, False, ""),
        (124, True, "the test command exits with 124"),
        (-9, True, "signal 9 ends the test command"),
    ],
)
def test_exit_code_of_a_command_decides(monkeypatch, code, fails, message):
    calls = []

    def run(words, folder):
        calls.append((words, sorted(path.name for path in folder.iterdir())))
        return code

    monkeypatch.setattr(reduction_trials, "run_command", run)
    trial = create_trial(None, None, None, "check 'a b'")
    assert trial.command_text == "check 'a b' '{model}' '{inputs}'"
    assert trial.fails(make_part(1)) is fails
    assert trial.message == message
    assert calls == [(["check", "a b", "{model}", "{inputs}"], ["inputs.npz", "model.bin", "model.xml"])]
    assert (trial.condition_text, trial.is_error, trial.find_suspects(make_product(1))) == ("", False, set())


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("check {model}", "check '{model}'"),
        ("check --in={inputs}", "check '--in={inputs}'"),
        (["check", "{folder}"], "check '{folder}'"),
        (["check it"], "'check it' '{model}' '{inputs}'"),
    ],
)
def test_paths_are_appended_unless_the_command_has_places_for_them(test, text):
    assert create_trial(None, None, None, test).command_text == text


# Scripts


def run_script(folder, capsys):
    """Run repro.py in this process, and return its exit code and output."""
    with pytest.raises(SystemExit) as exit:
        runpy.run_path(str(folder / "repro.py"), run_name="__main__")
    return exit.value.code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("factor", "options", "code", "text"),
    [
        (2, {"condition": "abs>9"}, 1, "fails\n"),
        (1, {"condition": "abs>9"}, 0, "does not fail\n"),
        (2, {"condition": "abs>1"}, 0, "does not fail\n"),
        (3.1, {"condition": "max_abs>0", "against": "f64"}, 1, "fails\n"),
        (1, {"condition": "max_abs>0", "against": "f64"}, 0, "SQNR inf dB, max abs 0\ndoes not fail\n"),
        (1, {"condition": "error"}, 0, "does not fail\n"),
        (1, {"condition": "error", "against": "f64"}, 0, "does not fail\n"),
    ],
)
def test_script_checks_the_condition(tmp_path, capsys, factor, options, code, text):
    written = save_part(tmp_path / "part", make_part(factor, x=3 * X), **options)
    assert [path.name for path in written] == ["model.xml", "model.bin", "inputs.npz", "repro.py"]
    result, output = run_script(tmp_path / "part", capsys)
    assert result == code
    assert output.endswith(text)


def test_script_compares_with_openvino(tmp_path, capsys):
    pytest.importorskip("openvino")
    save_part(tmp_path, make_part(2), condition="sqnr<60", against="openvino")
    code, output = run_script(tmp_path, capsys)
    assert code == 0
    assert "SQNR" in output
    save_part(tmp_path, make_part(2), condition="error", against="openvino")
    assert run_script(tmp_path, capsys) == (0, "does not fail\n")
    save_part(tmp_path, make_failing("7"), condition="error", against="openvino")
    code, output = run_script(tmp_path, capsys)
    assert code == 1
    assert "OpenVINO" in output


def make_difference(*names):
    rows = [Row(name, "Parameter", shapes=[(2,)]) for name in names]
    return make_model(*rows, Row("d", "Subtract", ["a", "b"], shapes=[(2,)]), Row("y", "Result", ["d"]))


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_script_passes_inputs_to_the_other_model_by_name(tmp_path, capsys, names):
    arrays = {"a": X, "b": Y}
    other = make_difference(*names)
    part = Part(make_difference("a", "b"), [X, Y], ["d"], other, [arrays[name] for name in names], [0])
    written = save_part(tmp_path, part, condition="sqnr<100", against="other.xml", message="why {not}")
    assert [path.name for path in written][3:] == ["reference.xml", "reference.bin", "repro.py"]
    code, output = run_script(tmp_path, capsys)
    assert (code, output.splitlines()[-1]) == (0, "does not fail")
    text = (tmp_path / "repro.py").read_text()
    assert "MESSAGE = 'why {not}'\nLAYERS = ['d']\nINPUTS = ['a', 'b']\n" in text
    other.graph.layers[2].type = "Add"
    save_part(tmp_path, part, condition="sqnr<100")
    assert "MESSAGE" not in (tmp_path / "repro.py").read_text()
    assert run_script(tmp_path, capsys)[0] == 1
    save_part(tmp_path, part, condition="error")
    assert run_script(tmp_path, capsys) == (0, "does not fail\n")


def test_script_passes_inputs_with_other_names_by_position(tmp_path, capsys):
    other = make_difference("a", "b")
    for layer, name in zip(other.graph.layers[:2], "pq", strict=True):
        layer.name = name
    part = Part(make_difference("a", "b"), [X, Y], ["d"], other, [X, Y], [0])
    save_part(tmp_path, part, condition="sqnr<100")
    assert run_script(tmp_path, capsys)[0] == 0
    for layer in other.graph.layers[:2]:
        layer.outputs[0].names = ("b",)
    save_part(tmp_path, part, condition="sqnr<100")
    assert run_script(tmp_path, capsys)[0] == 0


def test_script_runs_the_test_command(tmp_path, capsys):
    for expected in (0, 3, 125):
        command = f"{sys.executable} -c 'import sys; sys.exit({expected})' {{model}}"
        save_part(tmp_path, make_part(1), command=command)
        assert run_script(tmp_path, capsys)[0] == (1 if expected == 3 else 0)
    assert "MODEL" not in (tmp_path / "repro.py").read_text()


def test_files_that_cannot_be_written_are_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=f"cannot write {tmp_path / 'file' / 'part'}: Not a directory"):
        save_part(tmp_path / "file" / "part", make_part(1))
    (tmp_path / "repro.py").mkdir()
    (tmp_path / "repro.py" / "file").touch()
    with pytest.raises(InputError, match=rf"cannot write {tmp_path}/repro\.py: "):
        save_part(tmp_path, make_part(1), condition="nan")
    assert save_part(tmp_path, make_part(1), with_script=False)


def test_inputs_have_unique_names():
    rows = [Row(f"x{i}", "Parameter", shapes=[(2,)]) for i in range(4)]
    model = make_model(*rows, Row("s", "Concat", [row.name for row in rows], {"axis": "0"}), Row("y", "Result", ["s"]))
    for layer, name in zip(model.graph.layers, ("a", "a", "input3", "a"), strict=False):
        layer.name = name
    values = [np.float32([i]) for i in range(4)]
    assert name_inputs(Part(model, values)) == dict(zip(("a", "input1", "input3", "input3#"), values, strict=True))


# Whole reductions


def test_reduction_describes_itself():
    model = make_product(2)
    result = reduce(model, X, fails="abs>3")
    assert result.layers == ["p"]
    assert (result.layers_total, result.trials, result.against, result.command) == (1, 1, "", "")
    assert result.model is result.part.model
    assert result.to_json() == {
        "layers": ["p"],
        "layers_total": 1,
        "trials": 1,
        "message": "abs>3 holds for an output of the model",
        "condition": "abs>3",
        "against": "",
        "inputs": [{"name": "x", "type": "float32", "shape": [2]}],
    }
    assert reduce(model, X, against=make_product(3)).against == "another model"
    assert reduce(model, X, against="f64", fails="abs>3").against == "f64"
    assert reduce(model, X, fails=parse_condition("abs>3")).condition == "abs>3"


def test_other_models_must_be_files_in_ir(tmp_path):
    irrun.save_model(make_product(3), tmp_path / "other.xml")
    assert reduce(make_product(2), X, against=tmp_path / "other.xml").against == str(tmp_path / "other.xml")
    for text in ("openvin", "f32", "other.onnx"):
        with pytest.raises(InputError, match=f"expected openvino, f64 or an .xml file as the reference, found {text}"):
            reduce(make_product(2), X, against=text)


def test_layers_that_prevent_compilation_are_left_out_of_the_run():
    rows = [
        Row("x", "Parameter", shapes=[(2,)]),
        Row("a", "Exp", ["x"], shapes=[(2,)]),
        Row("b", "Unknown", ["a"], shapes=[(2,)]),
        Row("c", "Exp", ["b"], shapes=[(2,)]),
        Row("d", "Softmax", ["a"], {"axis": "many"}, shapes=[(2,)]),
        Row("e", "Exp", ["a"], shapes=[(2,)]),
        *(Row(f"y{name}", "Result", [name]) for name in "cde"),
    ]
    result = reduce(make_model(*rows), X, fails="error")
    assert result.layers == ["b"]
    np.testing.assert_allclose(result.inputs["a"], np.exp(X), rtol=1e-6)
    alone = [Row("x", "Parameter", shapes=[(2,)]), Row("b", "Unknown", ["x"], shapes=[(2,)]), Row("y", "Result", ["b"])]
    assert reduce(make_model(*alone), X, fails="error").layers == ["b"]
