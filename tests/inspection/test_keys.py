"""Keys of layers and values, and selections of layers."""

from __future__ import annotations

from pathlib import Path

import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.inspection import KeyTable, Selection
from irrun.inspection.keys import find_constant_layers

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

    import numpy as np

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
