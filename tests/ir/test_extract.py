"""Parts of models, the names of tensors, and graphs that are created by code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.extract import extract, extract_between
from irrun.ir.graph import Edge, Graph, Layer, OutputNames, Port
from irrun.ir.model import Model, TensorSpec, index_names, name_outputs
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

F32, I64 = (ElementType.parse(name) for name in ("f32", "i64"))


def make_model() -> Model:
    """Return a model with two branches: a -> b -> c -> Result, and a, d -> e -> Result. Ids and order differ."""
    shape = PartialShape([2, 3])
    layers = [
        Layer(4, "a", "Parameter", attributes={"shape": "2,3"}, outputs=[Port(0, F32, shape, ("a.in",))]),
        Layer(9, "d", "Parameter", attributes={"shape": "2,3"}, outputs=[Port(0, F32, shape)]),
        Layer(1, "b", "Relu", inputs=[Port(0)], outputs=[Port(1, F32, shape, ("b.out",))]),
        Layer(2, "e", "Add", inputs=[Port(0), Port(1)], outputs=[Port(2, F32, shape)]),
        Layer(3, "c", "Exp", inputs=[Port(0)], outputs=[Port(1, F32, shape)]),
        Layer(5, "first", "Result", inputs=[Port(0)]),
        Layer(6, "second", "Result", inputs=[Port(0)]),
    ]
    edges = [(4, 0, 1, 0), (1, 1, 3, 0), (3, 1, 5, 0), (4, 0, 2, 0), (9, 0, 2, 1), (2, 2, 6, 0)]
    graph = Graph(layers, [Edge(*edge) for edge in edges], name="net", rt_info="<rt_info/>")
    return Model(graph, Weights(b"weights"), 10, None, "<rt_info/>", "<meta_data/>", 10)


def describe(model: Model) -> list[tuple[int, str, str]]:
    return [(current.id, current.type, current.name) for current in model.graph.layers]


def test_part_has_the_layers_between_the_values():
    model = make_model()
    part = extract(model, ["b"], ["c"])
    assert describe(part) == [(10, "Parameter", "b"), (3, "Exp", "c"), (11, "Result", "c/result")]
    assert part.graph.edges == [Edge(10, 0, 3, 0), Edge(3, 1, 11, 0)]
    assert (part.version, part.source_version, part.rt_info, part.meta_data) == (11, 10, "<rt_info/>", "<meta_data/>")
    assert (part.graph.name, part.graph.rt_info) == ("net", "<rt_info/>")
    assert part.weights is model.weights
    (parameter,) = part.graph.find_layers("Parameter")
    assert parameter.attributes == {"element_type": "f32", "shape": "2,3"}
    assert parameter.outputs == [Port(0, F32, PartialShape([2, 3]), ("b.out",))]
    assert part.graph.layers[1] is model.graph.layers[4]
    assert len(model.graph.layers) == 7


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ((), (), ["a", "d", "b", "e", "c", "first", "second"]),
        ((), "c", ["a", "b", "c", "c/result"]),
        ("b", "c", ["b", "c", "c/result"]),
        ("b.out", "c.0", ["b.out", "c", "c.0/result"]),
        ("b", (), ["b", "a", "d", "e", "c", "first", "second"]),
        (["d", "b"], (), ["d", "b", "a", "e", "c", "first", "second"]),
        ("a", "a", ["a", "a/result"]),
        ((), ["e", "b"], ["a", "d", "b", "e", "e/result", "b/result"]),
        ("a", ["b", "b"], ["a", "b", "b/result", "b/result"]),
    ],
)
def test_extracted_layers(inputs, outputs, expected):
    assert [current.name for current in extract(make_model(), inputs, outputs).graph.layers] == expected


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ("x", (), "unknown value 'x'"),
        ((), "first", "unknown value 'first'"),
        ((), "b.ouf", "unknown value 'b.ouf'; did you mean b.out"),
        ("d", "c", "the outputs do not depend on d"),
        (["d", "b", "e"], "c", "the outputs do not depend on d, e"),
        ("c", "b", "the outputs do not depend on c"),
    ],
)
def test_parts_that_do_not_exist_are_reported(inputs, outputs, message):
    with pytest.raises(ModelError, match=f"^{re.escape(message)}"):
        extract(make_model(), inputs, outputs)


def test_layers_of_parts_follow_their_sources():
    model = make_model()
    model.graph.layers.reverse()
    for part in (extract(model, "b", "c"), extract(model, (), ["e", "b"])):
        order = {current.id: i for i, current in enumerate(part.graph.layers)}
        assert part.graph.edges
        assert all(order[edge.from_layer] < order[edge.to_layer] for edge in part.graph.edges)


def test_part_between_ports_ignores_cuts_that_are_not_reached():
    part = extract_between(make_model(), {(9, 0): "y", (4, 0): "x", (1, 1): "z"}, [((2, 2), "out"), ((4, 0), "in")])
    assert describe(part) == [
        (10, "Parameter", "y"),
        (11, "Parameter", "x"),
        (2, "Add", "e"),
        (12, "Result", "out/result"),
        (13, "Result", "in/result"),
    ]
    assert part.graph.edges == [Edge(11, 0, 2, 0), Edge(10, 0, 2, 1), Edge(2, 2, 12, 0), Edge(11, 0, 13, 0)]


def test_part_includes_the_assignments_of_its_variables():
    layers = [
        Layer(0, "x", "Parameter", outputs=[Port(0, F32)]),
        Layer(1, "read", "ReadValue", attributes={"variable_id": "v"}, inputs=[Port(0)], outputs=[Port(1, F32)]),
        Layer(2, "sum", "Add", inputs=[Port(0), Port(1)], outputs=[Port(2, F32)]),
        Layer(3, "assign", "Assign", attributes={"variable_id": "v"}, inputs=[Port(0)], outputs=[Port(1, F32)]),
        Layer(4, "other", "Assign", attributes={"variable_id": "w"}, inputs=[Port(0)]),
        Layer(5, "alone", "ReadValue", attributes={"variable_id": "u"}, outputs=[Port(0, F32)]),
        Layer(6, "y", "Result", inputs=[Port(0)]),
    ]
    edges = [Edge(0, 0, 1, 0), Edge(1, 1, 2, 0), Edge(0, 0, 2, 1), Edge(2, 2, 3, 0), Edge(0, 0, 4, 0), Edge(1, 1, 6, 0)]
    model = Model(Graph(layers, edges), Weights())
    names = [current.name for current in extract(model, (), "read").graph.layers]
    assert names == ["x", "read", "sum", "assign", "read/result"]
    assert [current.name for current in extract(model, (), "alone").graph.layers] == ["alone", "alone/result"]
    assert [current.name for current in extract(model).graph.layers] == ["x", "read", "sum", "assign", "other", "y"]


@pytest.mark.parametrize(
    ("type", "shape", "element_type", "expected"),
    [
        ("Relu", [2], F32, ("f32", "2")),
        ("Relu", [], F32, ("f32", "...")),
        ("Relu", None, F32, ("f32", "...")),
        ("Relu", [-1, 3], None, ("dynamic", "?,3")),
        ("Parameter", [], I64, ("i64", "")),
        ("Parameter", None, I64, ("i64", "...")),
        ("Constant", [], F32, ("f32", "")),
    ],
)
def test_new_parameters_declare_the_value(type, shape, element_type, expected):
    """A port without dimensions is a scalar only where the attributes of the layer say so."""
    declared = None if shape is None else PartialShape(shape)
    layers = [Layer(0, "x", type, outputs=[Port(0, element_type, declared)])]
    layers.append(Layer(1, "y", "Abs", inputs=[Port(0)], outputs=[Port(1)]))
    part = extract(Model(Graph(layers, [Edge(0, 0, 1, 0)]), Weights()), "x", "y")
    (parameter,) = part.graph.find_layers("Parameter")
    assert (parameter.attributes["element_type"], parameter.attributes["shape"]) == expected
    assert parameter.outputs[0].element_type == element_type
    assert str(parameter.outputs[0].shape) == ("None" if expected[1] == "..." else f"[{expected[1]}]")


# Names


def make_split() -> Graph:
    return Graph(
        [
            Layer(0, "x", "Parameter", outputs=[Port(0, names=("x", "same"))]),
            Layer(1, "parts", "Split", outputs=[Port(3), Port(4, names=("second",)), Port(5, names=("x",))]),
            Layer(2, "same", "Relu", outputs=[Port(0)]),
            Layer(3, "parts", "Relu", outputs=[Port(0)]),
        ]
    )


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("x", (0, 0)),
        ("x.0", (0, 0)),
        ("same", (0, 0)),
        ("same.0", (2, 0)),
        ("parts", (1, 3)),
        ("parts.0", (1, 3)),
        ("parts.1", (1, 4)),
        ("parts.2", (1, 5)),
        ("second", (1, 4)),
    ],
)
def test_output_ports_have_several_names(name, address):
    assert OutputNames(make_split()).find(name) == address


def test_unknown_names_list_similar_ones():
    names = OutputNames(make_split())
    with pytest.raises(ModelError, match=r"^unknown value 'part\.1'; did you mean parts\.1, parts\.2, parts\.0\?$"):
        names.find("part.1")
    with pytest.raises(ModelError, match=r"^unknown value 'q'$"):
        names.find("q")


def make_spec(names, port_names=(), result_names=()) -> TensorSpec:
    result = Layer(0, "r", "Result", inputs=[Port(0, names=tuple(result_names)), Port(1, names=("other",))])
    return TensorSpec(tuple(names), F32, PartialShape([2]), result, Port(0, names=tuple(port_names)))


def test_tensor_names_precede_names_of_layers():
    specs = [make_spec("ab", "a"), make_spec("ba", "b"), make_spec("bc", (), "c"), make_spec("d")]
    assert index_names(specs) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert specs[2].tensor_names == {"c"}
    assert TensorSpec(("n",), F32, None, Layer(0, "n", "Parameter")).tensor_names == frozenset()
    assert name_outputs(specs) == ["a", "b", "c", "d"]
    assert name_outputs([make_spec("a")] * 4) == ["a", "output1", "output2", "output3"]
    assert name_outputs([make_spec(["output1"]), make_spec(["output1"])]) == ["output1", "output1.result"]
    assert name_outputs([make_spec([]), make_spec(["output0"])]) == ["output0", "output1"]


def test_specs_of_tensors_are_keys_and_have_shapes():
    spec = make_spec("ab")
    assert hash(spec) == hash(make_spec("ab"))
    assert {spec: 1}[spec] == 1
    assert (spec.any_name, spec.shape) == ("a", (2,))
    for shape, text in ((None, "[...]"), (PartialShape([-1]), r"\[\?\]")):
        dynamic = TensorSpec(("n",), None, shape, spec.layer)
        with pytest.raises(ModelError, match="n has the dynamic shape"):
            dynamic.shape  # noqa: B018
        assert re.fullmatch(rf"n: any{text}" if shape else re.escape(f"n: any{text}"), str(dynamic))
    with pytest.raises(ModelError, match=r"the tensor has no name"):
        make_spec("").any_name  # noqa: B018


def test_outputs_are_named_by_result_port_and_producer():
    shape = PartialShape([2])
    layers = [
        Layer(0, "x", "Parameter"),
        Layer(9, "two", "Parameter", outputs=[Port(0, F32), Port(1, I64)]),
        Layer(1, "parts", "Split", outputs=[Port(1, F32, shape), Port(2, I64, shape, ("tensor",))]),
        Layer(2, "r0", "Result", inputs=[Port(0, I64, None, ("named",)), Port(1, F32, None, ("more",))]),
        Layer(3, "r1", "Result", inputs=[Port(0)]),
        Layer(4, "r2", "Result", inputs=[Port(0, I64, shape, ("unused",))]),
        Layer(5, "r3", "Result"),
        Layer(6, "r4", "Result", inputs=[Port(0, I64)]),
        Layer(7, "twice", "Relu", outputs=[Port(3, F32), Port(3, I64)]),
        Layer(8, "r5", "Result", inputs=[Port(0)]),
    ]
    edges = [Edge(1, 1, 2, 0), Edge(1, 2, 3, 0), Edge(1, 9, 6, 0), Edge(7, 3, 8, 0)]
    model = Model(Graph(layers, edges), Weights())
    assert [(spec.names, spec.element_type, spec.partial_shape) for spec in model.outputs] == [
        (("named", "parts.0", "r0"), F32, shape),
        (("tensor", "parts.1", "r1"), I64, shape),
        (("r2",), I64, shape),
        (("r3",), None, None),
        (("r4",), I64, None),
        (("twice.0", "r5"), F32, None),
    ]
    assert [spec.port for spec in model.outputs][2:5] == [None] * 3
    spec, other = model.inputs
    assert (other.names, other.element_type) == (("two",), F32)
    assert (spec.names, spec.element_type, spec.partial_shape, spec.port) == (("x",), None, None, Port(0))


def test_tensors_are_found_by_position_or_name():
    model = make_model()
    for key, name in ((0, "a"), (1, "d"), ("a.in", "a"), ("a", "a"), ("d", "d")):
        assert model.input(key).layer.name == name
    assert (model.input().layer.name, model.output().layer.name) == ("a", "first")
    assert (model.output(1).layer.name, model.output("e").layer.name) == ("second", "second")
    for key in (2, -1, "b"):
        with pytest.raises(ModelError, match=re.escape(f"unknown input {key!r}; the model has a.in: f32[2,3]; d: ")):
            model.input(key)
    for key in (2, -1, "a"):
        with pytest.raises(ModelError, match=re.escape(f"unknown output {key!r}; the model has c: f32[2,3]; e: f32")):
            model.output(key)
    with pytest.raises(ModelError, match="unknown input 0; the model has none"):
        Model(Graph(), Weights()).input()


def test_model_is_shown_as_a_table(tmp_path):
    model = irrun.read_model(write_row_loop(tmp_path))
    html = model._repr_html_()
    for text in ("IR v11", "3 layers", "1 TensorIterator, 1 Relu", "f32", "[2,3]", "input", "output", "it"):
        assert text in html
    empty = Model(Graph([Layer(0, "x", "Parameter"), Layer(1, "a", "Relu"), Layer(2, "b", "Relu")]), Weights())
    html = empty._repr_html_()
    for text in ("unnamed", "3 layers", "2 Relu", "any", "[...]"):
        assert text in html
    assert "Parameter" not in html
    assert (empty.version, empty.source_version) == (11, 11)


def test_added_results_have_new_ids_and_the_declaration_of_the_port():
    graph = make_model().graph
    result = graph.add_result("value", (1, 1))
    assert (result.id, result.name, result.type) == (10, "value/result", "Result")
    assert result.inputs == [Port(0, F32, PartialShape([2, 3]))]
    assert graph.layers[-1] is result
    assert graph.edges[-1] == Edge(1, 1, 10, 0)


def test_outputs_are_added_once_each():
    model = make_model()
    assert [t.layer.id for t in model.add_outputs(["b", "c", "b.out", "e"])] == [10, 5, 10, 6]
    assert [t.layer.id for t in model.add_outputs("a")] == [11]
    assert len(model.outputs) == 4


def test_shapes_are_passed_by_name_position_or_alone(tmp_path):
    text = chain("Relu")
    for shapes in ([5, 3], {"x": [5, 3]}, {0: [5, 3]}):
        model = irrun.read_model(write(tmp_path, text))
        model.reshape(shapes)
        assert (model.inputs[0].shape, model.outputs[0].shape) == ((5, 3), (5, 3))
        assert model.graph.layers[0].attributes["shape"] == "5,3"
    with pytest.raises(ModelError, match=re.escape("unknown input 1; the model has x: f32[5,3]")):
        model.reshape({1: [2]})
    layers = [
        layer(0, "Const", data='element_type="f32" shape="1"', outputs=[port(0)]),
        layer(1, "Result", inputs=[port(0)]),
    ]
    model = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 1, 0)]), np.float32([1])))
    with pytest.raises(ModelError, match="expected shapes by the names of inputs; the model has none"):
        model.reshape([1])


def test_layers_of_nested_bodies_are_in_the_order_of_the_file():
    def make_owner(name, *inner):
        from irrun.ir.graph import Body

        owner = Layer(0, name, "If")
        for tag, layers in zip(("then_body", "else_body"), inner, strict=False):
            owner.bodies[tag] = Body(Graph(layers))
        return owner

    deepest = make_owner("c", [Layer(0, "d", "Relu")])
    graph = Graph([Layer(0, "a", "Relu"), make_owner("b", [deepest], [Layer(0, "e", "Relu")]), Layer(1, "f", "Relu")])
    assert [current.name for _, current in graph.walk()] == ["a", "b", "c", "d", "e", "f"]


def test_layers_describe_themselves():
    assert Layer(3, "name", "Type", "opset8").describe() == "layer 3 'name' (Type, opset8)"
    assert Layer(3, "", "Type").describe() == "layer 3 (Type, opset1)"
