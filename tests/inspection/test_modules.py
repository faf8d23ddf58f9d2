"""Module paths of layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from inspection.graphs import Row, make_graph
from irrun.inspection.modules import choose_depth, find_common_path, find_modules, format_module, parse_module_path
from irrun.ir.graph import Body
from irrun.ir.weights import Weights

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation/model.xml"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("__module.encoder.layer.0.attention/aten::linear/MatMul_1", ("encoder", "layer", "0", "attention")),
        ("__module/aten::add/Add", ()),
        ("aten::tanh/Tanh", ()),
        ("/encoder/layer.0/attention/MatMul", ("encoder", "layer", "0", "attention")),
        ("/MatMul", None),
        ("model/block1/Conv2D", ("model", "block1")),
        ("fire7/expand3x3/WithoutBiases", ("fire7",)),
        ("Multiply_9954", None),
        ("Multiply_9954/WithoutBiases", None),
        ("", None),
        ("/", None),
        ("///", ()),
        ("__module.", ()),
        ("</script><img src=x onerror=alert(1)>", ("<",)),
        ("__module", ()),
        ("__module.a", ("a",)),
        ("__module.a.b", ("a", "b")),
        ("prim::ListConstruct", ()),
        ("/a/b", ("a",)),
        ("/a/b/c.d/Add", ("a", "b", "c", "d")),
        ("a/b", ("a",)),
        ("a/b/", ("a", "b")),
        ("a/Dims", None),
        ("a/b/Dims12", ("a",)),
        ("a/b/fq_weights_1", ("a",)),
        ("self.a.b", None),
        ("layer1.0.conv1", ("layer1", "0")),
        ("encoder.fc", ("encoder",)),
        ("Multiply_1.0", None),
        ("1.conv", None),
        ("aten", None),
    ],
)
def test_module_path_is_parsed_by_the_convention_of_the_framework(name, path):
    assert parse_module_path(name) == path


def test_weights_of_pytorch_belong_to_their_module():
    assert parse_module_path("self.encoder.query.weight", "pytorch") == ("encoder", "query")
    assert parse_module_path("Multiply/1", "pytorch") is None
    assert parse_module_path("self.weight", "pytorch") == ()
    assert parse_module_path("self", "pytorch") is None
    assert parse_module_path("other.a.weight", "pytorch") is None
    assert parse_module_path("a/b", "onnx") is None
    assert parse_module_path("/b", "onnx") == ()
    assert parse_module_path("/layers.0/layer/layer.1/conv/Conv", "onnx") == ("layers", "0", "layer", "1", "conv")
    assert parse_module_path("/layer/layers/layer.1/Relu", "onnx") == ("layer", "layers", "layer", "1")
    assert parse_module_path("a", "path") is None


def make_model(tmp_path, names, constants=()):
    """Return a chain of Add layers with these names; `constants` are the names of the second operands."""
    layers = [layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0)], name="x")]
    edges = []
    for i, name in enumerate(names, 1):
        layers.append(layer(i, "Add", inputs=[port(0), port(1)], outputs=[port(2)], name=name))
        edges.append((i - 1, 2 if i > 1 else 0, i, 0))
        data = 'element_type="f32" shape="" offset="0" size="4"'
        constant = constants[i - 1] if constants else f"{i}"
        layers.append(layer(100 + i, "Const", data=data, outputs=[port(0)], name=constant))
        edges.append((100 + i, 0, i, 1))
    layers.append(layer(50, "Result", inputs=[port(0)], name="result"))
    edges.append((len(names), 2, 50, 0))
    return irrun.read_model(write(tmp_path, net(layers, edges), b"\0" * 4))


def get_modules(model):
    """Return the module of each layer as text, by name."""
    paths = find_modules(model)
    return {n.name: format_module(paths[id(n)]) for _, n in model.graph.walk()}


def test_layers_without_path_take_it_from_consumers_then_producers(tmp_path):
    model = make_model(tmp_path, ["Multiply_1", "__module.a.norm/aten::add/Add", "Add_7"])
    modules = get_modules(model)
    assert modules["x"] == modules["Multiply_1"] == modules["1"] == "a.norm"
    assert modules["Add_7"] == modules["result"] == modules["3"] == "a.norm"


def test_path_of_weights_precedes_that_of_neighbors(tmp_path):
    names = ["Multiply_1", "__module.a.norm/aten::add/Add"]
    modules = get_modules(make_model(tmp_path, names, ["self.a.conv.weight", "2"]))
    assert modules["Multiply_1"] == "a.conv"


def test_names_of_other_conventions_are_not_paths_in_models_from_pytorch(tmp_path):
    modules = get_modules(make_model(tmp_path, ["__module.a.b/aten::add/Add", "Constant_3/Add"]))
    assert modules["Constant_3/Add"] == "a.b"


def test_model_without_paths_is_one_module(tmp_path):
    assert set(get_modules(make_model(tmp_path, ["conv1", "conv2"])).values()) == {"(network)"}


def test_layers_of_bodies_belong_to_the_module_of_their_owner():
    model = irrun.read_model(EXAMPLE)
    paths = find_modules(model)
    owner = next(n for n in model.graph.layers if n.bodies)
    inner = [n for body in owner.bodies.values() for n in body.graph.layers]
    assert inner
    assert all(id(n) in paths for n in inner)


def test_common_path_is_the_innermost_shared_module():
    assert find_common_path([("a", "b", "c"), ("a", "b"), ("a", "b", "d")]) == ("a", "b")
    assert find_common_path([("a",), ("b",)]) == ()
    assert find_common_path([("a", "b", "c"), ("a", "c", "c")]) == ("a",)
    assert find_common_path([("b", "c"), ("a", "c"), ("a", "c")]) == ()
    assert find_common_path([("a", "b")]) == ("a", "b")
    assert find_common_path([(), ("a",)]) == ()
    assert find_common_path(iter([("a", "b"), ("a",)])) == ("a",)


def test_depth_is_limited_by_the_number_of_groups():
    paths = [("a", str(i), str(j)) for i in range(3) for j in range(3)]
    assert [choose_depth(paths, n) for n in (9, 8, 3, 2, 1)] == [3, 2, 2, 1, 1]
    assert choose_depth([()], 5) == 1
    assert choose_depth([], 5) == 1
    assert choose_depth([("a", "b", "c")], 1) == 3


def test_most_specific_convention_of_the_names_is_used():
    rows = [Row("x", "Parameter"), Row("a/b", "Relu", ["x"]), Row("/c/d/e", "Relu", ["a/b"])]
    assert get_modules(make_rows(*rows)) == {"x": "c.d", "a/b": "c.d", "/c/d/e": "c.d"}
    rows.append(Row("__module.f/aten::relu", "Relu", ["/c/d/e"]))
    assert set(get_modules(make_rows(*rows)).values()) == {"f"}
    assert set(get_modules(make_rows(rows[0], Row("a", "Relu", ["x"]))).values()) == {"(network)"}


def test_dots_separate_modules_if_most_names_with_modules_have_them():
    rows = [
        Row("x", "Parameter"),
        Row("layer1.0.conv1", "Relu", ["x"]),
        Row("layer1.1.conv1", "Relu", ["layer1.0.conv1"]),
    ]
    assert get_modules(make_rows(*rows)) == {
        "x": "layer1.0",
        "layer1.0.conv1": "layer1.0",
        "layer1.1.conv1": "layer1.1",
    }
    names = ["a/b.c/d", "a/e", "a/f"]
    more = [Row(name, "Relu", ["x"]) for name in names]
    assert [get_modules(make_rows(*rows, *more))[name] for name in names] == ["a.b.c", "a", "a"]


def test_layers_belong_to_what_their_neighbors_have_in_common():
    rows = [
        Row("x", "Parameter"),
        Row("m", "Relu", ["x"]),
        Row("a/b/c", "Relu", ["m"]),
        Row("a/d/c", "Relu", ["m"]),
        Row("n", "Add", ["a/b/c", "a/d/c"]),
        Row("k", "Constant", value=np.float32(1)),
        Row("o", "Add", ["n", "k"]),
        Row("y", "Result", ["o"]),
    ]
    modules = get_modules(make_rows(*rows))
    assert modules == {"x": "a", "m": "a", "a/b/c": "a.b", "a/d/c": "a.d", "n": "a", "k": "a", "o": "a", "y": "a"}


def test_weights_of_one_module_determine_that_of_a_layer():
    def make(second):
        rows = [
            Row("x", "Parameter"),
            Row("a/w", "Constant", value=np.float32(1)),
            Row(second, "Constant", value=np.float32(1)),
            Row("f", "Convert", ["a/w"], {"destination_type": "f32"}),
            Row("g", "Convert", [second], {"destination_type": "f32"}),
            Row("v", "Multiply", ["f", "g"]),
            Row("p", "Multiply", ["x", "v"]),
            Row("z/q", "Relu", ["p"]),
        ]
        return get_modules(make_rows(*rows))

    modules = make("a/scale")
    assert [modules[name] for name in ("f", "g", "v", "p")] == ["a", "a", "a", "a"]
    modules = make("b/scale")
    assert [modules[name] for name in ("f", "g", "v", "p")] == ["a", "b", "z", "z"]


def test_owners_of_bodies_do_not_take_the_path_of_their_weights():
    body = Body(make_graph(Row("i", "Relu"), Row("c/d/j", "Relu")))
    rows = [
        Row("x", "Parameter"),
        Row("a/w", "Constant", value=np.int64(1)),
        Row("loop", "Loop", ["a/w", "x"], bodies={"body": body}),
        Row("b/q", "Relu", ["loop"]),
    ]
    graph = make_graph(*rows)
    paths = find_modules(graph)
    assert paths[id(graph.layers[2])] == ("b",)
    assert [paths[id(n)] for n in body.graph.layers] == [("b",), ("c", "d")]


def make_rows(*rows):
    return irrun.Model(make_graph(*rows), Weights())
