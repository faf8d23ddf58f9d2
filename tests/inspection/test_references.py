"""References: matched layers, differences that are visible without a run, arrays by name, and arguments."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import ir_text
import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, net, port, write, write_row_loop

import irrun
from inspection.graphs import Row, make_graph, make_model
from irrun.element_types import ELEMENT_TYPES
from irrun.inspection import compare, record
from irrun.inspection.array_reference import ArrayReference, make_mapping_reference
from irrun.inspection.connections import Connections, ConnectionTable, find_free_ids
from irrun.inspection.differences import find_differing_values
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.references import ModelReference, convert_arguments, describe_precision, match_outputs
from irrun.ir.graph import Body, Layer

X = np.float32([1, 2])


def list_matches(graph, reference):
    matches = match_layers(graph, reference)
    names = {n.name: matches.find(n) for n in graph.layers}
    return {name: (match.layer.name, match.matched_by) for name, match in names.items() if match is not None}


def make_chain(*layers, shape=(2,)):
    """Return a graph of unary layers, as pairs of name and type."""
    rows = [Row("x", "Parameter", shapes=[shape])]
    for name, kind in layers:
        rows.append(Row(name, kind, [rows[-1].name], shapes=[shape]))
    return make_graph(*rows, Row("y", "Result", [rows[-1].name]))


def test_layers_are_matched_by_name_and_type():
    graph = make_chain(("a", "Relu"), ("b", "Exp"))
    assert list_matches(graph, make_chain(("a", "Relu"), ("b", "Exp"))) == {
        name: (name, "name") for name in ("x", "a", "b", "y")
    }
    other = make_chain(("b", "Relu"), ("a", "Exp"))
    assert list_matches(graph, other) == {
        "x": ("x", "name"),
        "a": ("b", "order"),
        "b": ("a", "order"),
        "y": ("y", "name"),
    }


def test_layers_with_other_names_are_aligned_between_those_with_equal_ones():
    graph = make_chain(("a", "Relu"), ("fixed", "Tanh"), ("b", "Relu"), ("c", "Exp"))
    other = make_chain(("p", "Exp"), ("q", "Relu"), ("fixed", "Tanh"), ("r", "Exp"))
    matches = list_matches(graph, other)
    assert matches["a"] == ("q", "order")
    assert matches["fixed"] == ("fixed", "name")
    assert matches["c"] == ("r", "order")
    assert "b" not in matches


def test_many_equal_layers_are_matched_in_order():
    count = 250
    graph, other = (make_chain(*((f"{prefix}{i}", "Relu") for i in range(count))) for prefix in "ab")
    matches = list_matches(graph, other)
    assert [matches[f"a{i}"] for i in range(count)] == [(f"b{i}", "order") for i in range(count)]


def test_shapes_and_types_decide_the_order():
    graph = make_chain(("a", "Relu"))
    assert "a" not in list_matches(graph, make_chain(("b", "Relu"), shape=(3,)))
    assert "a" not in list_matches(graph, make_chain(("b", "Exp")))


def test_layers_that_one_model_may_lack_are_matched_by_their_sources():
    for kind in ("Convert", "FakeQuantize"):
        matches = list_matches(make_chain(("a", kind)), make_chain(("b", kind)))
        assert matches["a"] == ("b", "order")
        assert "a" not in list_matches(make_chain(("a", kind)), make_chain(("b", "Relu")))
        assert "a" not in list_matches(make_chain(("a", kind)), make_chain(("b", "Relu"), ("c", kind)))


def test_equal_names_are_not_matched():
    twice = make_graph(Row("x", "Parameter"), Row("a", "Relu", ["x"]), Row("b", "Tanh", ["a"]), Row("c", "Abs", ["b"]))
    twice.layers[3].name = "a"
    once = make_graph(Row("x", "Parameter"), Row("a", "Relu", ["x"]), Row("q", "Exp", ["a"]))
    assert list_matches(twice, once)["x"] == ("x", "name")
    assert match_layers(twice, once).find(twice.layers[1]).matched_by == "order"
    assert match_layers(once, twice).find(once.layers[1]).matched_by == "order"
    nameless = make_graph(Row("x", "Parameter"), Row("", "Relu", ["x"]))
    assert match_layers(nameless, nameless).find(nameless.layers[1]).matched_by == "order"


def test_numbers_of_outputs_must_be_equal():
    graph = make_graph(Row("x", "Parameter"), Row("s", "Split", ["x"], outputs=2))
    other = make_graph(Row("x", "Parameter"), Row("s", "Split", ["x"], outputs=3))
    assert list_matches(graph, other).keys() == {"x"}


def test_constants_are_paired_by_name():
    rows = [
        Row("x", "Parameter"),
        Row("c", "Constant", value=X),
        Row("d", "Exp", ["c"]),
        Row("e", "Exp", ["x"]),
        Row("a", "Add", ["x", "d"]),
    ]
    graph = make_graph(*rows)
    other = make_graph(*rows[:2], Row("d", "Exp", ["x"]), Row("e", "Exp", ["c"]), rows[4])
    matches = match_layers(graph, graph)
    assert [(a.name, b.name) for a, b in matches.constants] == [("c", "c"), ("d", "d")]
    assert [(a.name, b.name) for a, b in match_layers(graph, other).constants] == [("c", "c"), ("d", "d"), ("e", "e")]
    assert list_matches(graph, graph).keys() == {"x", "e", "a"}


def test_bodies_are_matched_by_tag():
    def make_branches(*names):
        bodies = {
            tag: Body(make_chain((name, "Relu"))) for tag, name in zip(("then_body", "else_body"), names, strict=False)
        }
        return make_graph(Row("if", "If", bodies=bodies))

    graph, other = make_branches("a", "b"), make_branches("a")
    matches = match_layers(graph, other)
    then_layer, else_layer = (body.graph.layers[1] for body in graph.layers[0].bodies.values())
    assert matches.find(then_layer).layer is other.layers[0].bodies["then_body"].graph.layers[1]
    assert matches.find(else_layer) is None
    assert match_layers(other, graph).find(other.layers[0].bodies["then_body"].graph.layers[1]) is not None
    assert match_layers(make_graph(Row("c", "If", bodies=graph.layers[0].bodies)), make_graph()).matches == {}


def test_attributes_of_both_layers_are_compared():
    a = Layer(1, "", "Elu", attributes={"alpha": "1", "beta": 2, "own": "x", "same": "3"})
    b = Layer(2, "", "Elu", attributes={"beta": "3", "alpha": "2", "other": "y", "same": 3})
    assert list(find_differing_values(a, b)) == [("alpha", "1", "2"), ("beta", 2, "3")]
    assert list(find_differing_values(a, a)) == []


def test_attributes_are_compared_as_values():
    a = Layer(1, "", "Convolution", attributes={"strides": "2,2", "pads_begin": "0,0", "auto_pad": "explicit"})
    b = Layer(1, "", "Convolution", attributes={"strides": "2, 2", "pads_begin": [0, 0]})
    assert list(find_differing_values(a, b)) == []
    b.attributes["strides"] = "2,1"
    assert list(find_differing_values(a, b)) == [("strides", "2,2", "2,1")]
    b.attributes["auto_pad"] = "same_upper"
    assert [name for name, _, _ in find_differing_values(a, b)] == ["strides", "auto_pad"]


# Connections


def test_sources_of_inputs_are_found():
    graph = make_graph(
        Row("x", "Parameter"),
        Row("s", "Split", ["x"], outputs=2),
        Row("a", "Clamp", ["s:1", "", "x"]),
    )
    connections = Connections(graph)
    sources = connections.find_sources(graph.layers[2])
    assert [None if s is None else (s.layer.name, s.port) for s in sources] == [("s", 1), None, ("x", 0)]
    assert [n.name for n in connections.find_producers(graph.layers[2])] == ["s", "x"]
    table = ConnectionTable(KeyTable(graph))
    assert table.get(graph.layers[0]) is table.get(graph.layers[2])
    assert not table.is_constant(graph.layers[2])
    graph.layers[1].id = 7
    ids = find_free_ids(graph)
    assert [next(ids) for _ in range(7)] == [1, 3, 4, 5, 6, 8, 9]


# Differences that are visible without a run


def make_scaled(a=(1, 2), b=(3, 4), dtype=np.float32, sources=("a", "b"), operation="Subtract", name="b", **attributes):
    """Return x * (a - b), where a and b are constants."""
    return make_model(
        Row("x", "Parameter"),
        Row("a", "Constant", value=np.array(a, np.float32)),
        Row(name, "Constant", value=np.array(b, dtype)),
        Row("d", operation, [name if s == "b" else s for s in sources], attributes),
        Row("p", "Multiply", ["x", "d"]),
        Row("y", "Result", ["p"]),
    )


def test_differences_of_constants_are_the_reason():
    model = make_scaled()
    first = compare(model, make_scaled(b=(3, 5)), X).first
    assert (first.key, first.reason) == ("p", "constant 'b' differs in 1 of 2 elements")
    first = compare(model, make_scaled(a=(0, 0), b=(0, 1)), X).first
    assert first.reason == "constant 'a' differs in 2 of 2 elements; constant 'b' differs in 2 of 2 elements"
    first = compare(model, make_scaled(b=(3, 5), name="other"), X).first
    assert (first.key, first.reason) == ("p", "constant 'b' differs in 1 of 2 elements")
    assert compare(model, make_scaled(), X).agrees


def test_constant_layers_with_other_inputs_or_attributes_are_compared():
    model = make_scaled()
    swapped = compare(model, make_scaled(sources=("b", "a")), X)
    first = swapped.layers[0]
    assert (first.key, first.type, first.matched_by, first.verdict) == ("d", "Subtract", "name", "adds")
    assert (first.reason, first.tolerance, first.name) == ("the order of its inputs differs", 0.0, "d")
    assert (first.own.max_abs, first.accumulated.max_abs) == (4, 4)
    assert swapped.first is first
    same = make_scaled(a=(3, 4), sources=("a", "b"))
    assert compare(same, make_scaled(a=(3, 4), sources=("b", "a")), X).agrees
    other = compare(make_scaled(sources=("a", "a")), make_scaled(sources=("a", "b")), X)
    assert [layer.key for layer in other.layers] == ["p"]
    changed = [make_scaled(sources=("a",), operation="Elu", alpha=alpha, a=(-1, -2), b=(0, 0)) for alpha in ("1", "2")]
    first = compare(changed[0], changed[1], X).first
    assert (first.key, first.reason) == ("d", "alpha differs")
    same = [make_scaled(sources=("a",), operation="Elu", alpha=alpha) for alpha in ("1", "2")]
    assert compare(same[0], same[1], X).agrees


def test_types_of_constant_layers_are_compared():
    models = [
        make_model(
            Row("x", "Parameter"),
            Row("c", "Constant", value=np.float32([1, 2])),
            Row("d", "Convert", ["c"], {"destination_type": kind}),
            Row("e", "Convert", ["d"], {"destination_type": "f32"}),
            Row("p", "Multiply", ["x", "e"]),
            Row("y", "Result", ["p"]),
        )
        for kind in ("f16", "f32")
    ]
    result = compare(models[0], models[1], X)
    assert [(n.key, n.reason) for n in result.layers if n.verdict == "adds"] == [("d", "destination_type differs")]


def test_differences_of_attributes_are_stated_with_both_values():
    models = [
        make_model(Row("x", "Parameter"), Row("a", "Elu", ["x"], {"alpha": alpha}), Row("y", "Result", ["a"]))
        for alpha in ("1", "2")
    ]
    (layer,) = compare(models[0], models[1], -X).layers
    assert (layer.verdict, layer.reason) == ("adds", "alpha is 1, but 2 in the reference")
    (layer,) = compare(models[0], models[1], X).layers
    assert (layer.verdict, layer.reason) == ("exact", "")


# Arrays


def test_arrays_belong_to_values_by_several_names():
    model = make_model(
        Row("x", "Parameter"),
        Row("__module.a/b::c", "Split", ["x", "axis"], {"num_splits": "2"}, 2),
        Row("axis", "Constant", value=np.int64(0)),
        Row("r", "Relu", ["__module.a/b::c:1"]),
        Row("y", "Result", ["r"]),
    )
    split, relu = model.graph.layers[1], model.graph.layers[3]
    split.outputs[1].names = ("tensor:1",)
    arrays = {
        "__module.a/b::c.0": np.float32([0]),
        "__module.a/b::c": np.float32([1]),
        "a_b_c.1": np.float32([2]),
        "tensor:1": np.float32([3]),
        "tensor_1": np.float32([4]),
        "r.0": np.float32([5]),
    }

    def get(port, *names, layer=split):
        return make_mapping_reference(model, {name: arrays[name] for name in names}).get_value(layer, port, ())

    assert get(0, "__module.a/b::c.0", "__module.a/b::c") == [0]
    assert get(0, "__module.a/b::c") == [1]
    assert get(1, "__module.a/b::c") is None
    assert get(1, "a_b_c.1", "tensor_1") == [2]
    assert get(1, "tensor:1", "a_b_c.1") == [3]
    assert get(1, "tensor_1") == [4]
    assert get(0, "r.0", layer=relu) == [5]
    reference = make_mapping_reference(model, {"tensor_1": arrays["tensor_1"]})
    assert reference.find_match(split) == "name"
    assert reference.find_match(relu) is None
    assert not reference.is_perturbed(split, ())
    assert (reference.name, reference.precision, reference.epsilon, reference.notes) == ("arrays", "unknown", 0, [])
    assert reference.get_outputs() == [None]
    (output,) = make_mapping_reference(model, {"r": X}).get_outputs()
    assert output is not None
    assert reference.find_match(model.graph.layers[4]) is None


def test_arrays_of_iterations_are_matched(tmp_path):
    model = irrun.read_model(write_row_loop(tmp_path))
    layer = KeyTable(model).find_layer("it[0]/layer1")
    owner = model.graph.layers[1]
    reference = ArrayReference("arrays", model, ["it[1]/layer1"], lambda name: X)
    assert reference.find_match(layer) == "name"
    assert reference.get_value(layer, 0, ((owner, 0),)) is None
    assert reference.get_value(layer, 0, ((owner, 1),)) is X
    assert ArrayReference("arrays", model, ["layer1"], lambda name: X).find_match(layer) is None
    layer.outputs[0].names = ("tensor",)
    assert ArrayReference("arrays", model, ["tensor"], lambda name: X).find_match(layer) is None


def test_first_of_equal_names_is_read():
    model = make_model(Row("x", "Parameter"), Row("a:b", "Relu", ["x"]), Row("y", "Result", ["a:b"]))
    layer = model.graph.layers[1]
    reference = ArrayReference("arrays", model, ["a_b", "a.b", "a:b"], lambda name: np.array([name], object))
    assert reference.get_value(layer, 0, ()) == ["a:b"]
    reference = ArrayReference("arrays", model, ["a b", "a/b"], lambda name: np.array([name], object))
    assert reference.get_value(layer, 0, ()) == ["a b"]


def test_output_that_a_reference_does_not_have_is_missing():
    model = make_model(
        Row("x", "Parameter"),
        Row("a", "Relu", ["x"]),
        Row("b", "Exp", ["x"]),
        Row("y", "Result", ["a"]),
        Row("z", "Result", ["b"]),
    )
    result = compare(model, {"b": np.exp(X)}, X)
    assert result.agrees
    assert [(o.name, o.metrics is None, o.top_k, o.agrees) for o in result.outputs] == [
        ("a", True, 0.0, True),
        ("b", False, 1.0, True),
    ]
    shown = {"name": "a", "max_abs": None, "sqnr_db": None, "top_k": 0.0, "run": 0, "agrees": True, "score": None}
    assert result.to_json()["outputs"][0] == shown
    assert (result.matched, result.layers_total) == (1, 2)


def test_precision_and_source_of_traces_are_stated(tmp_path):
    path = write(tmp_path, chain("Relu", "Exp"))
    x = np.ones((2, 3), np.float32)
    trace = record(path, x, tmp_path / "run.trace", max_bytes=48, recorded_precision="bf16")
    for reference in (trace, tmp_path / "run.trace"):
        result = compare(path, reference, x)
        assert result.reference == str(tmp_path / "run.trace")
        assert result.precision == "bf16"
        assert [layer.key for layer in result.layers] == ["layer1"]
    assert compare(path, record(path, x), x).reference == "trace"


def test_files_of_arrays_are_read(tmp_path, monkeypatch):
    path = write(tmp_path, chain("Relu"))
    x = np.ones((2, 3), np.float32)
    for version in ((1, 0), (2, 0)):
        with open(tmp_path / "layer1.npy", "wb") as file:
            np.lib.format.write_array(file, x, version=version)
        import zipfile

        with zipfile.ZipFile(tmp_path / "values.NPZ", "w") as archive:
            archive.write(tmp_path / "layer1.npy", "layer1.npy")
            archive.writestr("readme.txt", "")
        assert compare(path, tmp_path / "values.NPZ", x).matched == 1
    (tmp_path / "folder.npy").mkdir()
    assert compare(path, tmp_path, x).matched == 1
    assert compare(path, tmp_path, x).reference == str(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(irrun.InputError, match=r"requires safetensors: pip install 'irrun\[safetensors\]'"):
        compare(path, tmp_path / "a.safetensors", x)


def test_tensors_that_cannot_be_read_are_reported(tmp_path):
    module = pytest.importorskip("safetensors.numpy")
    path = write(tmp_path, chain("Relu"))
    module.save_file({"layer1": np.ones((2, 3), np.float32)}, tmp_path / "a.safetensors")
    data = (tmp_path / "a.safetensors").read_bytes().replace(b'"F32"', b'"F31"')
    (tmp_path / "b.safetensors").write_bytes(data)
    with pytest.raises(irrun.InputError, match=r"cannot read .*b\.safetensors"):
        compare(path, tmp_path / "b.safetensors", np.ones((2, 3), np.float32))


# Arguments and outputs


def make_two_inputs(*names, kinds=("f32", "f32")):
    rows = [Row(name, "Parameter", attributes={"element_type": kind}) for name, kind in zip(names, kinds, strict=True)]
    rows += [Row("c", "Convert", [names[0]], {"destination_type": "f32"})]
    rows += [Row("d", "Convert", [names[1]], {"destination_type": "f32"})]
    model = make_model(*rows, Row("s", "Subtract", ["c", "d"]), Row("y", "Result", ["s"]))
    for layer, kind in zip(model.graph.layers, kinds, strict=False):
        layer.outputs[0].element_type = ELEMENT_TYPES[kind]
    return model


@pytest.mark.parametrize(
    ("names", "kinds", "expected"),
    [
        (("a", "b"), ("f32", "f32"), [1, 3]),
        (("b", "a"), ("f32", "f32"), [3, 1]),
        (("b", "c"), ("f32", "f32"), [1, 3]),
        (("b", "a"), ("f16", "bf16"), [3, 1]),
        (("a", "b"), ("f64", "f32"), [1, 3]),
    ],
)
def test_arguments_are_passed_by_name_if_all_names_are_known(names, kinds, expected):
    model, other = make_two_inputs("a", "b"), make_two_inputs(*names, kinds=kinds)
    compiled = irrun.compile_model(other, optimize=False)
    values = convert_arguments(model, compiled, [np.float32([1]), np.float32([3])])
    assert [float(v[0]) for v in values] == expected
    assert [v.dtype for v in values] == [ELEMENT_TYPES[kind].dtype for kind in kinds]


def test_arguments_of_low_precision_are_converted():
    model, other = make_two_inputs("a", "b", kinds=("bf16", "f16")), make_two_inputs("a", "b")
    arguments = [np.array([1.5], ml_dtypes.bfloat16), np.float16([0.5])]
    values = convert_arguments(model, irrun.compile_model(other, optimize=False), arguments)
    assert [(v.dtype, v[0]) for v in values] == [(np.float32, 1.5), (np.float32, 0.5)]


def test_integers_are_not_converted_to_floating_point():
    model, other = make_two_inputs("a", "b", kinds=("i32", "f32")), make_two_inputs("a", "b", kinds=("i32", "f32"))
    values = convert_arguments(model, irrun.compile_model(other, optimize=False), [np.int32([1]), np.float32([2])])
    assert [v.dtype for v in values] == [np.int32, np.float32]


def make_outputs(*names):
    rows = [Row("x", "Parameter"), *(Row(name, "Relu", ["x"]) for name in names)]
    return make_model(*rows, *(Row(f"y{i}", "Result", [name]) for i, name in enumerate(names)))


def test_outputs_are_matched_by_name_or_else_by_position():
    assert match_outputs(make_outputs("a", "b"), make_outputs("b", "a")) == [1, 0]
    assert match_outputs(make_outputs("a", "b"), make_outputs("c", "a", "b")) == [1, 2]
    model, other = make_outputs("a", "b"), make_outputs("p", "q")
    for m, names in ((model, ("t", "u")), (other, ("u", "t"))):
        for layer, name in zip(m.graph.layers[1:3], names, strict=True):
            layer.outputs[0].names = (name,)
    for m in (model, other):
        for layer in m.graph.layers[3:]:
            layer.name = ""
    assert match_outputs(model, other) == [1, 0]
    other.graph.layers[1].outputs[0].names = other.graph.layers[2].outputs[0].names = ("v",)
    assert match_outputs(model, other) == [0, 1]
    assert match_outputs(make_outputs("a", "b", "c"), make_outputs("d")) == [0, None, None]


@pytest.mark.parametrize(
    ("names", "other_names", "expected"),
    [
        (("a", "b"), ("b", "a"), [1, 0]),
        (("a", "b"), ("b", "c"), [0, 1]),
        (("a", "a"), ("b", "a"), [0, 1]),
        (("a", "b"), ("b", "b"), [0, 1]),
        (("a",), ("b", "a"), [1]),
        (("b", "a"), ("a",), [0, None]),
    ],
)
def test_names_count_only_if_they_identify_every_output(names, other_names, expected):
    models = []
    for tensors in (names, other_names):
        model = make_outputs(*(f"layer{i}" for i in range(len(tensors))))
        for spec, name in zip(model.outputs, tensors, strict=True):
            spec.layer.name = ""
            model.graph.layers[int(spec.layer.id) - len(tensors)].outputs[0].names = (name,)
        models.append(model)
    assert match_outputs(*models) == expected


def test_precision_of_a_model_is_that_of_its_values():
    model = make_two_inputs("a", "b", kinds=("f16", "i32"))
    assert describe_precision(model) == "f16"
    model.graph.layers[2].outputs[0].element_type = ELEMENT_TYPES["f32"]
    assert describe_precision(model) == "f16, f32"
    assert describe_precision(make_model(Row("x", "Parameter"), Row("y", "Result", ["x"]))) == "declared"
    quantized = make_model(
        Row("c", "Constant", value=X), Row("q", "FakeQuantize", ["c"] * 5), Row("y", "Result", ["q"])
    )
    quantized.graph.layers[0].outputs[0].element_type = ELEMENT_TYPES["f32"]
    assert describe_precision(quantized) == "FakeQuantize"


def test_values_of_iterations_are_those_of_the_matched_owner(tmp_path):
    model, other = (irrun.read_model(write_row_loop(tmp_path)) for _ in range(2))
    other.graph.layers[1].name = "renamed"
    x = np.float32([[1, -2, 3], [-4, 5, 6]])
    reference = ModelReference("other", model, other, [x])
    owner, layer = model.graph.layers[1], KeyTable(model).find_layer("it[0]/layer1")
    np.testing.assert_array_equal(reference.get_value(layer, 0, ((owner, 1),)), [[0, 5, 6]])
    assert reference.get_value(layer, 0, ((owner, 2),)) is None
    assert reference.get_value(layer, 0, ((model.graph.layers[0], 0),)) is None
    assert not reference.is_perturbed(layer, ())
    assert reference.find_match(owner) == "order"
    assert (reference.precision, reference.epsilon, reference.is_same_runtime) == ("f32", 0, True)
    other.graph.layers[1].type = "Unknown"
    assert ModelReference("other", model, model, [x]).find_match(owner) == "name"
    reference.close()
    assert reference.get_value(layer, 0, ((owner, 1),)) is None


def test_attributes_are_compared_in_the_order_of_the_model():
    attributes = {"min": "0", "max": "1"}, {"max": "2", "min": "-1"}
    models = [make_scaled(a=(-5, 5), sources=("a",), operation="Clamp", **own) for own in attributes]
    assert compare(models[0], models[1], X).first.reason == "min differs"
    models = [
        make_model(Row("x", "Parameter"), Row("a", "Clamp", ["x"], own), Row("y", "Result", ["a"]))
        for own in attributes
    ]
    assert (
        compare(models[0], models[1], 5 * X).first.reason
        == "min is 0, but -1 in the reference; max is 1, but 2 in the reference"
    )


def test_layers_that_compute_constants_in_one_model_only_are_not_compared():
    def make(source, alpha):
        rows = [Row("x", "Parameter"), Row("c", "Constant", value=X), Row("d", "Elu", [source], {"alpha": alpha})]
        return make_model(*rows, Row("p", "Multiply", ["x", "d"]), Row("y", "Result", ["p"]))

    result = compare(make("c", "1"), make("x", "2"), X)
    assert [(n.key, n.verdict) for n in result.layers] == [("p", "exact")]


def test_constants_are_matched_by_their_role():
    def make(name, factor, other):
        rows = [Row("x", "Parameter"), Row("c", "Constant", value=np.float32(factor)), Row("m", "Multiply", ["x", "c"])]
        rows += [Row(name, "Constant", value=np.float32(other)), Row("p", "Add", ["m", name])]
        return make_model(*rows, Row("y", "Result", ["p"]))

    result = compare(make("d", 2, 3), make("e", 4, 5), X)
    assert [(n.key, n.verdict, n.reason) for n in result.layers] == [
        ("m", "adds", "constant 'c' differs in 1 of 1 elements"),
        ("p", "adds", "constant 'd' differs in 1 of 1 elements"),
    ]


def test_constants_behind_many_layers_are_searched_once():
    def make_ladder(value):
        rows = [Row("x", "Parameter", shapes=[(2,)]), Row("c", "Constant", value=np.float32([value]))]
        rows += [Row(f"d{i}", "Maximum", [f"d{i - 1}" if i else "c"] * 2) for i in range(50)]
        return make_model(*rows, Row("a", "Add", ["x", "d49"]), Row("y", "Result", ["a"]))

    first = compare(make_ladder(1), make_ladder(2), X).first
    assert first is not None
    assert (first.key, first.verdict) == ("a", "adds")
    assert first.reason.startswith("constant 'c' differs in 1 of 1 elements")


def test_at_most_five_names_are_listed():
    from irrun.inspection.array_reference import _list_some

    assert _list_some([]) == ""
    assert _list_some("abcde") == "a, b, c, d, e"
    assert _list_some("abcdef") == "a, b, c, d, e, ..."


def write_two_outputs(folder):
    """Write a model with the outputs layer1 (Relu) and layer2 (Negative)."""
    layers = [
        ir_text.layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")], name="x"),
        ir_text.layer(1, "Relu", inputs=[port(0)], outputs=[port(1, (2,), "FP32")]),
        ir_text.layer(2, "Negative", inputs=[port(0)], outputs=[port(1, (2,), "FP32")]),
        ir_text.layer(3, "Result", inputs=[port(0)]),
        ir_text.layer(4, "Result", inputs=[port(0)]),
    ]
    return irrun.read_model(write(folder, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0), (2, 1, 4, 0)])))


@pytest.mark.parametrize(
    ("names", "matched"),
    [
        (["a", "b"], True),
        (["a"], False),
        (["a", "b", "c"], False),
        (["layer1", "b"], False),  # an output has its name
        (["layer1", "b", "c"], False),
        (["a", "x"], False),  # so has another value
    ],
)
def test_arrays_are_matched_by_position_if_no_name_is_known(names, matched, tmp_path):
    reference = ArrayReference("arrays", write_two_outputs(tmp_path), names, lambda name: np.zeros(2))
    notes = ["no array has a name of the model: outputs are matched by position (a=layer1, b=layer2)"]
    assert [note for note in reference.notes if "by position" in note] == notes * matched


def test_reasons_of_int8_kernels_are_counted(monkeypatch):
    from irrun.inspection import cured_model

    saturates = "the int8 kernel of the reference saturates in 16 bits, as on processors without VNNI: 3 of 4 elements"
    rounds = "the int8 kernel rounds (to even)"
    reasons = [(saturates, "adds"), (saturates.replace("3", "2"), "adds"), (rounds, "adds"), ("", "one level")]
    reasons += [("", "one level"), ("", "one level"), ("", "adds"), ("", "perturbed"), ("", "exact"), ("", "inherits")]
    compared = SimpleNamespace(layers=[SimpleNamespace(reason=reason, verdict=verdict) for reason, verdict in reasons])
    monkeypatch.setattr(cured_model, "compare", lambda model, reference, inputs: compared)
    assert cured_model.explain_int8_kernels(None, []) == [  # type: ignore[arg-type]
        "3 layers: a few elements are rounded to another level",
        "2 layers: the int8 kernel of the reference saturates in 16 bits, as on processors without VNNI",
        "2 layers: the kernel computes different values for an unknown reason",
        "1 layer: the int8 kernel rounds",
    ]
