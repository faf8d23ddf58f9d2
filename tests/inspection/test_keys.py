"""Keys of layers and values, and selections of layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from inspection.graphs import Row, make_graph
from irrun.inspection import KeyTable, Selection
from irrun.inspection.keys import find_constant_layers, find_similar
from irrun.ir.graph import Body, Layer, Port

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation/model.xml"


def make_table(tmp_path, *names):
    """Return the keys of a chain of layers with these names."""
    layers = [layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0)], name="x")]
    edges = []
    for i, name in enumerate(names, 1):
        layers.append(layer(i, "Relu", inputs=[port(0)], outputs=[port(1)], name=name))
        edges.append((i - 1, int(i > 1), i, 0))
    layers.append(layer(len(layers), "Result", inputs=[port(0)], name="result"))
    edges.append((len(names), 1, len(names) + 1, 0))
    model = irrun.read_model(write(tmp_path, net(layers, edges)))
    return model, KeyTable(model)


def test_key_is_the_name(tmp_path):
    model, table = make_table(tmp_path, "a", "b")
    assert [table.get_key(n) for n in model.graph.layers] == ["x", "a", "b", "result"]
    assert table.find_layer("b") is model.graph.layers[2]


@pytest.mark.parametrize("names", [("a", "a", "a"), ("", "", "a"), ("a#2", "a", "a"), ("a", "a.0", "", "#3")])
def test_keys_are_unique(tmp_path, names):
    model, table = make_table(tmp_path, *names)
    keys = [table.get_value_key(n, 0) for n in model.graph.layers]
    assert len(set(keys)) == len(keys)
    assert all(table.find_layer(key) is n for key, n in zip(keys, model.graph.layers, strict=True))


def test_layers_of_several_bodies_are_distinguished_by_their_tags(tmp_path):
    """Both branches of an If have a layer "a", and one of them two."""

    def make_branch(names):
        layers = [layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0)], name="x")]
        layers += [layer(i, "Relu", inputs=[port(0)], outputs=[port(1)], name=n) for i, n in enumerate(names, 1)]
        layers.append(layer(9, "Result", inputs=[port(0)], name="r"))
        edges = [(i, int(i > 0), i + 1 if i < len(names) else 9, 0) for i in range(len(names) + 1)]
        return net(layers, edges).partition("<net")[2].partition(">")[2].removesuffix("</net>")

    port_map = (
        '<{0}_port_map><input external_port_id="1" internal_layer_id="0"/>'
        '<output external_port_id="2" internal_layer_id="9"/></{0}_port_map>'
    )
    inner = "".join(port_map.format(tag) for tag in ("then", "else"))
    inner += f"<then_body>{make_branch(['a'])}</then_body><else_body>{make_branch(['a', 'a', ''])}</else_body>"
    layers = [
        layer(0, "Parameter", data='shape="" element_type="boolean"', outputs=[port(0)], name="c"),
        layer(1, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0)], name="x"),
        layer(2, "If", "opset8", inputs=[port(0), port(1)], outputs=[port(2)], inner=inner, name="if"),
        layer(3, "Result", inputs=[port(0)], name="y"),
    ]
    model = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])))
    table = KeyTable(model)
    keys = [key for key, n in table.iterate_layers() if n.type == "Relu"]
    assert len(set(keys)) == 4
    assert all(table.get_path(table.find_layer(key)) == key for key in keys)


def test_key_in_a_body_names_owner_and_iteration():
    model = irrun.read_model(EXAMPLE)
    table = KeyTable(model)
    keys = set()

    def observe(layer, inputs, outputs, seconds, scope):
        keys.add(table.get_key(layer, scope))

    irrun.compile_model(model)(np.load(EXAMPLE.parent / "input.npy"), observers=[observe])
    loop = next(n.name for n in model.graph.layers if n.type == "TensorIterator")
    inside = [key for key in keys if key.startswith(f"{loop}[3]/")]
    assert inside
    assert table.find_layer(inside[0]) is table.find_layer(inside[0].replace("[3]", "[7]"))


def test_unknown_key_is_reported_with_similar_ones(tmp_path):
    _, table = make_table(tmp_path, "encoder", "decoder")
    with pytest.raises(irrun.InputError, match="unknown layer 'encodr'; did you mean encoder"):
        table.find_layer("encodr")


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), "x m.1/a m.1/b m.10/c result"),
        (Selection(["m.1/*"]), "m.1/a m.1/b"),
        (Selection(["m.1?/c", "m.1/a"]), "m.1/a m.10/c"),
        (Selection(types=["relu"]), "m.1/a m.1/b m.10/c"),
        (Selection(modules=["m.1"]), "m.1/a m.1/b"),
        (Selection(modules=["m.1/"]), "m.1/a m.1/b"),
        (Selection(modules=["m.1/a"]), "m.1/a"),
        (Selection(modules=["m"]), "m.1/a m.1/b m.10/c"),
        (Selection(["*b", "*c"], modules=["m.1"]), "m.1/b"),
    ],
)
def test_selection_contains_matching_layers(tmp_path, selection, expected):
    model, table = make_table(tmp_path, "m.1/a", "m.1/b", "m.10/c")
    selected = [n.name for n in model.graph.layers if selection.contains(n, table.get_key(n))]
    assert selected == expected.split()
    selection.check(table)


def test_brackets_in_globs_are_literal(tmp_path):
    model = irrun.read_model(EXAMPLE)
    table = KeyTable(model)
    path = next(p for p in table.get_paths() if "[0]/" in p)
    third = path.replace("[0]", "[3]")
    assert Selection([third]).contains(table.find_layer(path), third)
    assert Selection([path.replace("[0]", "[*]")]).contains(table.find_layer(path), third)
    assert not Selection([path]).contains(table.find_layer(path), third)
    Selection([third]).check(table)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(["nothing"]), "no layer matches 'nothing'"),
        (Selection(types=["Conv"]), "no layer is of type 'Conv'; the model has Parameter, Relu, Result"),
        (Selection(modules=["nothing"]), "no layer is in the module 'nothing'"),
    ],
)
def test_selection_that_matches_nothing_is_reported(tmp_path, selection, message):
    _, table = make_table(tmp_path, "a")
    with pytest.raises(irrun.InputError, match=message):
        selection.check(table)


def test_constant_layers_are_found(tmp_path):
    model = irrun.read_model(EXAMPLE)
    constant = find_constant_layers(model.graph)
    types = {n.type for n in model.graph.layers if n.id in constant}
    assert "Constant" in types
    assert "TensorIterator" not in types
    assert find_constant_layers(irrun.read_model(write(tmp_path, chain("Relu"))).graph) == set()


def list_keys(*rows):
    graph = make_graph(*rows)
    table = KeyTable(graph)
    return [table.get_key(n) for n in graph.layers]


def test_keys_that_look_like_others_have_numbers():
    relus = [Row(name, "Relu") for name in ("a", "a#2", "a")]
    assert list_keys(*relus) == ["a", "a#2", "layer:2#2"]
    relus = [Row(name, "Relu") for name in ("a", "a#3", "layer:3#2", "a")]
    assert list_keys(*relus) == ["a", "a#3", "layer:3#2", "layer:3#3"]
    assert list_keys(Row("", "Relu"), Row("", "Relu")) == ["#0", "#1"]
    assert list_keys(Row("a.1", "Relu"), Row("a", "Split", outputs=2)) == ["a.1", "a#1"]
    assert list_keys(Row("a.2", "Relu"), Row("a", "Split", outputs=2)) == ["a.2", "a"]
    assert list_keys(Row("a", "Split", outputs=2), Row("a.1", "Relu")) == ["a", "a.1#1"]
    assert list_keys(Row("a", "Split", outputs=2), Row("a.2", "Relu")) == ["a", "a.2"]


def test_keys_do_not_look_like_those_of_bodies():
    body = Body(make_graph(Row("a", "Relu"), Row("a#2", "Relu"), Row("a", "Relu")))
    loop = Row("it", "TensorIterator", bodies={"body": body})
    names = [Row("it[0]/a", "Relu"), Row("it[0", "Relu"), Row("other[0]/a", "Relu")]
    assert list_keys(loop, *names) == ["it", "layer:1#2", "it[0", "other[0]/a"]
    assert list_keys(*names) == ["it[0]/a", "it[0", "other[0]/a"]
    table = KeyTable(make_graph(loop))
    assert table.get_paths() == ["it", "it[0]/a", "it[0]/a#2", "it[0]/layer:2#2"]


def test_keys_of_several_bodies_are_preceded_by_their_tags():
    bodies = {tag: Body(make_graph(Row("a", "Relu"))) for tag in ("then_body", "else_body")}
    bodies["else_body"].graph.layers[0].id = 7
    bodies["third"] = Body(make_graph(Row("a#8", "Relu"), Row("a", "Relu")))
    bodies["third"].graph.layers[1].id = 8
    graph = make_graph(Row("if", "If", bodies=bodies))
    assert KeyTable(graph).get_paths() == ["if", "if[0]/a", "if[0]/a#7", "if[0]/a#8", "if[0]/third:a"]


def make_nested_table():
    """Return the keys of a loop in a loop, with a layer of two outputs inside."""
    inner = Body(make_graph(Row("split", "Split", outputs=2)))
    outer = Body(make_graph(Row("inner", "Loop", bodies={"body": inner})))
    graph = make_graph(Row("x", "Parameter"), Row("outer", "Loop", ["x"], bodies={"body": outer}))
    return KeyTable(graph), inner.graph.layers[0], outer.graph.layers[0], graph.layers[1]


def test_layers_of_nested_bodies_are_found_by_key():
    table, split, inner, outer = make_nested_table()
    scope = ((outer, 2), (inner, 5))
    assert table.get_key(split) == "split"
    assert table.get_key(split, scope) == "outer[2]/inner[5]/split"
    assert table.get_value_key(split, 1, scope) == "outer[2]/inner[5]/split.1"
    assert table.get_value_key(inner, 0) == "inner"
    assert table.get_path(split) == "outer[0]/inner[0]/split"
    assert table.get_owner(split) is inner
    assert table.get_owner(inner) is outer
    assert table.get_owner(outer) is None
    assert table.get_graph(split).layers == [split]
    for key in ("outer[2]/inner[5]/split", "outer[2]/inner[5]/split.1", "outer[0]/inner[0]/split"):
        assert table.find_layer(key) is split
    assert [key for key, _ in table.iterate_layers()] == ["x", "outer", "outer[0]/inner", "outer[0]/inner[0]/split"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("split", r"unknown layer 'split'; did you mean outer\[0\]/inner\[0\]/split\?"),
        ("spilt", r"unknown layer 'spilt'; did you mean outer\[0\]/inner\[0\]/split\?"),
        ("outer/inner/split", r"unknown layer 'outer/inner/split'; did you mean outer\[0\]/inner\[0\]/split\?"),
        ("outre", r"unknown layer 'outre'; did you mean outer\?"),
        ("convolution", "unknown layer 'convolution'$"),
    ],
)
def test_similar_keys_are_suggested(name, message):
    with pytest.raises(irrun.InputError, match=message):
        make_nested_table()[0].find_layer(name)


def test_at_most_three_keys_are_suggested():
    table = KeyTable(make_graph(*(Row(f"layer{i}", "Relu") for i in range(5))))
    assert len(find_similar("layer9", table.get_paths())) == 3
    body = Body(make_graph(*(Row(f"node{i}", "Relu") for i in range(5))))
    paths = KeyTable(make_graph(Row("it", "Loop", bodies={"body": body}))).get_paths()
    assert len(find_similar("node9", paths)) == 3
    assert find_similar("*node3?", paths)[0] == "it[0]/node3"


def test_outputs_are_selected_by_key_or_tensor_name():
    graph = make_graph(Row("split", "Split", outputs=3), Row("end", "Result", ["split"]))
    split, end = graph.layers
    split.outputs[2].names = ("last", "tail")
    for globs, ports in (
        ([], (0, 1, 2)),
        (["split"], (0, 1, 2)),
        (["split.1"], (1,)),
        (["tail"], (2,)),
        (["split.0", "last"], (0, 2)),
        (["end"], ()),
    ):
        assert Selection(globs).select_ports(split, "split") == ports
        assert Selection(globs).contains(split, "split") == bool(ports)
    assert Selection(["end"]).select_ports(end, "end") == Selection(["end.0"]).select_ports(end, "end") == (0,)
    assert Selection("split.1", "SPL*").select_ports(split, "split") == (1,)
    assert Selection(types="spl").select_ports(split, "split") == ()
    assert not Selection()
    assert all((Selection(["a"]), Selection(types=["a"]), Selection(modules=["a"])))


@pytest.mark.parametrize(
    ("module", "keys"),
    [
        ("a", "a a/b a.c a[0]/d a#3 a:e __module.a/f"),
        ("a/", "a/b __module.a/f"),
        ("a/b", "a/b"),
        ("__module.a", "__module.a/f"),
        ("ab", "ab __module.ab"),
        ("c", ""),
    ],
)
def test_modules_end_where_a_part_of_the_key_ends(module, keys):
    names = ["a", "ab", "a/b", "a.c", "a[0]/d", "a#3", "a:e", "a_f", "__module.a/f", "__module.ab"]
    layer = Layer(1, "", "Relu", outputs=[Port(0)])
    assert [n for n in names if Selection(modules=[module]).contains(layer, n)] == keys.split()


def test_layers_are_constant_if_all_inputs_are():
    body = Body(make_graph(Row("a", "Relu")))
    rows = [
        Row("x", "Parameter"),
        Row("c", "Constant", value=np.float32([1, 2])),
        Row("axis", "Constant", value=np.int64(0)),
        Row("relu", "Relu", ["c"]),
        Row("split", "Split", ["relu", "axis"], {"num_splits": "2"}, 2),
        Row("sum", "Add", ["split:1", "x"]),
        Row("product", "Multiply", ["split:1", "c"]),
        Row("random", "RandomUniform", ["axis", "c", "c"], version="opset8"),
        Row("read", "ReadValue", ["c"], {"variable_id": "v"}, version="opset3"),
        Row("loop", "Loop", ["axis", "c"], bodies={"body": body}, version="opset5"),
        Row("unknown", "Unknown", ["c"]),
        Row("lonely", "Relu"),
        Row("end", "Result", ["c"]),
    ]
    graph = make_graph(*rows)
    constant = find_constant_layers(graph)
    assert [n.name for n in graph.layers if n.id in constant] == ["c", "axis", "relu", "split", "product"]
