"""Differences that are visible without running models, and what comparisons say of them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from inspection.graphs import Row, make_graph, make_model
from irrun.inspection import compare, diff
from irrun.ir.graph import BackEdge, Body, PortMapEntry
from irrun.ir.writer import save_model

X = np.float32([[1, -2, 3], [4, 5, -6]])
X2 = [X, np.float32([[2, 2, 5], [1, -1, 1]])]
PARAMETERS = [Row("x", "Parameter", shapes=[(2, 3)]), Row("z", "Parameter", shapes=[(2, 3)])]


def make(*rows):
    return make_model(*PARAMETERS, *rows, Row("y", "Result", [rows[-1].name]))


def list_differences(model, other):
    return {layer.key: list(layer.differences) for layer in diff(model, other).layers}


def test_equal_models_have_no_difference():
    model, other = (make(Row("a", "Elu", ["x"], {"alpha": "1"}), Row("s", "Add", ["a", "z"])) for _ in range(2))
    result = diff(model, other)
    assert result.is_equal
    assert (result.matched, result.layers, result.added, result.removed) == (5, [], [], [])
    assert repr(result) == "<ModelDifferences: 0 layers differ, 0 added, 0 removed>"
    assert diff(model, make(Row("a", "Elu", ["x"], {"alpha": 1.0}), Row("s", "Add", ["a", "z"]))).is_equal


def test_exchanged_inputs():
    model, other = make(Row("s", "Subtract", ["x", "z"])), make(Row("s", "Subtract", ["z", "x"]))
    assert list_differences(model, other) == {"s": ["inputs 0 and 1 are exchanged"]}
    first = compare(model, other, X2).first
    assert (first.key, first.reason) == ("s", "inputs 0 and 1 are exchanged")


def test_dropped_layer():
    model = make(Row("a", "Elu", ["x"], {"alpha": "1"}), Row("s", "Sigmoid", ["a"]))
    other = make(Row("a", "Elu", ["x"], {"alpha": "1"}), Row("r", "Relu", ["a"]), Row("s", "Sigmoid", ["r"]))
    result = diff(model, other)
    text = "input 0 comes from a (Elu), but from r (Relu) in the other model"
    assert [(layer.key, layer.differences) for layer in result.layers] == [("s", (text,))]
    assert (result.added, result.removed) == ([], [("r", "Relu")])
    assert diff(other, model).added == [("r", "Relu")]
    first = compare(model, other, X2).first
    assert (first.key, first.reason) == ("s", text.replace("other model", "reference"))


def test_other_operation():
    model, other = (make(Row("c", kind, ["x", "z"])) for kind in ("Greater", "Less"))
    text = "the type is Greater, but Less in the other model"
    assert list_differences(model, other) == {"c": [text]}
    first = compare(model, other, X2).first
    assert (first.key, first.reason) == ("c", text.replace("other model", "reference"))


def test_constants_and_shapes():
    def build(value):
        return make(
            Row("c", "Constant", value=np.float32(value)), Row("s", "Add", ["x", "c"], shapes=[np.shape(value)])
        )

    assert list_differences(build([1, 2, 3]), build([1, 2.5, 3])) == {"c": ["1 of 3 elements differ, by at most 0.5"]}
    differences = list_differences(build([1, 2, 3]), build([[1, 2, 3]]))
    assert differences["s"] == ["output 0 is f32[3], but f32[1,3] in the other model"]


def test_variables():
    def build(first, second):
        rows = [Row(f"r{v}", "ReadValue", ["x"], {"variable_id": v}, version="opset3") for v in (first, second)]
        rows = [row._replace(name=f"r{i}") for i, row in enumerate(rows)]
        return make(*rows, Row("s", "Add", ["r0", "r1"]))

    differences = list_differences(build("a", "b"), build("b", "a"))
    assert differences["r0"] == ["variable_id is a, but b in the other model"]
    assert differences["r1"] == ["variable_id is b, but a in the other model"]


def make_loop(exchanged):
    rows = [Row(name, "Parameter", shapes=[(1, 3)]) for name in ("slice", "p", "q")]
    rows += [Row("u", "Subtract", ["slice", "p"]), Row("v", "Multiply", ["q", "u"])]
    rows += [Row("ru", "Result", ["u"]), Row("rv", "Result", ["v"])]
    body = Body(
        make_graph(*rows),
        inputs=[PortMapEntry(0, 0, axis=0), PortMapEntry(1, 1), PortMapEntry(2, 2)],
        outputs=[PortMapEntry(3, 6)],
        back_edges=[BackEdge(6 if exchanged else 5, 1), BackEdge(5 if exchanged else 6, 2)],
    )
    states = [Row(name, "Constant", value=np.float32([[1, 2, 3]])) for name in ("s0", "s1")]
    return make(*states, Row("loop", "TensorIterator", ["x", "s0", "s1"], bodies={"body": body}))


def test_back_edges():
    model, other = make_loop(True), make_loop(False)
    differences = list_differences(model, other)
    assert list(differences) == ["loop"]
    assert differences["loop"] == [
        "the back edge from ru to q does not exist in the other model",
        "the back edge from rv to p does not exist in the other model",
    ]
    first = compare(model, other, X2).first
    assert first.key == "loop"
    assert "the back edge from ru to q does not exist in the reference" in first.reason


@pytest.mark.parametrize(("change", "code"), [(1.0, 0), (2.0, 1)])
def test_command(tmp_path, change, code):
    for name, alpha in (("a", 1.0), ("b", change)):
        save_model(make(Row("e", "Elu", ["x"], {"alpha": alpha})), tmp_path / f"{name}.xml")
    command = [sys.executable, "-m", "irrun", "diff", *(str(tmp_path / f"{name}.xml") for name in "ab")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == code
    lines = result.stdout.splitlines()
    assert lines[-1] == "4 layers matched: " + ("1 differ, 0 added, 0 removed" if code else "no difference")
    assert lines[:-1] == (["e (Elu): alpha is 1.0, but 2.0 in the other model"] if code else [])
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert json.loads(result.stdout)["equal"] is (code == 0)
    assert result.returncode == code


def test_numbers_of_inputs():
    two, three = (make(Row("c", "Concat", ["x", "z", "x"][:count], {"axis": "0"})) for count in (2, 3))
    assert list_differences(two, three) == {"c": ["2 inputs, but 3 in the other model"]}


def test_layers_with_other_numbers_of_outputs_do_not_match():
    def build(outputs):
        axis = Row("axis", "Constant", value=np.int64(0))
        return make(axis, Row("s", "Split", ["x", "axis"], {"num_splits": str(outputs)}, outputs=outputs))

    result = diff(build(2), build(4))
    assert (result.added, result.removed) == ([("s", "Split")], [("s", "Split")])


def test_inputs_that_are_not_connected():
    model = make(Row("c", "Clamp", ["x", ""]), Row("s", "Add", ["c", "z"]))
    assert diff(model, make(Row("c", "Clamp", ["x", ""]), Row("s", "Add", ["c", "z"]))).is_equal
    other = make(Row("c", "Clamp", ["x", "z"]), Row("s", "Add", ["c", "z"]))
    (text,) = list_differences(model, other)["c"]
    assert text.endswith("but from z (Parameter) in the other model")
    assert text.startswith("input 1 comes from ")


def test_bodies_that_the_other_model_does_not_have():
    def build(*tags, inputs=("x",)):
        body = Body(make_graph(Row("p", "Parameter", shapes=[(2, 3)]), Row("q", "Result", ["p"])))
        return make(Row("if", "If", inputs, version="opset8", bodies=dict.fromkeys(tags, body)))

    model, other = build("then_body", "else_body"), build("then_body")
    assert list_differences(model, other) == {"if": ["else_body does not exist in the other model"]}
    assert list_differences(other, model) == {}
    model = build("then_body", "else_body", inputs=("x", "z"))
    texts = ["inputs 0 and 1 are exchanged", "else_body does not exist in the other model"]
    assert list_differences(model, build("then_body", inputs=("z", "x"))) == {"if": texts}


def test_attributes_that_cannot_be_read_are_compared_as_texts():
    models = [make(Row("a", "Elu", ["x"], {"alpha": text})) for text in ("one", "two", "one")]
    assert list_differences(models[0], models[1]) == {"a": ["alpha is one, but two in the other model"]}
    assert list_differences(models[0], models[2]) == {}
