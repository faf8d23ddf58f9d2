"""Files of IR v2 to v7: lines, names, precisions, spellings of elements, and errors with the place of their cause."""

from __future__ import annotations

import re

import numpy as np
import pytest
from legacy_ir import LegacyNetwork, build_layer, make_random
from lxml import etree

import irrun
from irrun.ir.graph import Edge, PortMapEntry
from irrun.ir.legacy.layer import LegacyLayer
from irrun.ir.legacy.xml_elements import parse_precision, read_edge, read_port_map_entry
from irrun.ir.reader import read_findings


def save(net: LegacyNetwork, folder):
    path = folder / "old.xml"
    path.write_bytes(net.to_xml())
    path.with_suffix(".bin").write_bytes(bytes(net.weights))
    return path


def find_line(path, text: str) -> int:
    """Return the line of the first element that contains a text."""
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_layers_have_the_line_of_the_layer_in_the_file(tmp_path):
    net = LegacyNetwork(3)
    x = net.add_input((1, 2, 3, 4), name="x")
    first = net.add_layer("Power", [x], [(1, 2, 3, 4)], {"scale": 2, "shift": 1}, name="first"), 1
    net.add_layer("Eltwise", [first, [1, 2, 3, 4]], [(1, 2, 3, 4)], {}, name="second")
    weights = np.float32([1, 2])
    net.add_layer("ScaleShift", [first], [(1, 2, 3, 4)], {}, {"weights": weights}, name="third")
    element = etree.SubElement(net.root, "pre-process", {"reference-layer-name": "x"})
    for _ in range(2):
        etree.SubElement(etree.SubElement(element, "channel"), "mean", value="1")
    path = save(net, tmp_path)
    lines = {name: find_line(path, f'name="{name}"') for name in ("x", "first", "second", "third")}
    lines["x/"] = find_line(path, "<pre-process")
    model = irrun.read_model(path)
    for layer in model.graph.layers:
        owner = max((name for name in lines if layer.name.startswith(name)), key=len)
        if layer.type != "Parameter" and owner == "x":
            owner = "x/"
        assert layer.line == lines[owner], layer
    assert {layer.name for layer in model.graph.find_layers("Subtract", "Divide")} == {"x/subtract"}
    assert [layer.name for layer in model.graph.find_layers("Result")] == ["second/sink_port_0", "third/sink_port_0"]


def test_outputs_have_the_name_of_the_layer_and_their_number():
    net = LegacyNetwork(7)
    x = net.add_input((2, 4), name="x")
    net.add_layer("Split", [x], [(2, 1), (2, 3)], {"axis": 1}, name="parts")
    k = net.add_const(np.int32(2))
    net.add_layer("TopK", [x, k], [(2, 2)], {"axis": 1, "sort": "value"}, name="values", precisions=["FP32"])
    net.add_layer("Clamp", [x], [(2, 4)], {"min": 0, "max": 1}, name="clamp")
    net.add_layer("Split", [x], [(2, 4)], {"axis": 1}, name="whole")
    graph = net.read().graph
    names = {layer.name: [port.names for port in layer.outputs] for layer in graph.layers if layer.outputs}
    assert names["parts"] == [("parts.0",), ("parts.1",)]
    assert names["values"] == [("values",), ()]
    assert names["clamp"] == [("clamp",)]
    assert names["whole"] == [("whole",)]
    assert names["x"] == [("x",)]
    assert [t.any_name for t in net.read().outputs] == ["parts.0", "parts.1", "values", "clamp", "whole"]


def test_open_shapes_are_those_that_the_file_declares():
    for declared, expected in (((2, 6), "[2,6]"), ((), "None")):
        net = build_layer("NonZero", [make_random(2, 3)], [declared], precisions=["I32"])
        (layer,) = net.read().graph.find_layers("NonZero")
        assert str(layer.outputs[0].shape) == expected


def test_known_shapes_are_those_of_the_operation():
    net = build_layer("ReLU", [make_random(2, 3)], [(3, 2)])
    (layer,) = net.read().graph.find_layers("Relu")
    assert str(layer.outputs[0].shape) == "[2,3]"


@pytest.mark.parametrize("type", ["relu", "RELU", "ReLU"])
def test_case_of_types_is_ignored(type):
    x = make_random(2, 3)
    np.testing.assert_array_equal(build_layer(type, [x], [x.shape]).run(x)[0], np.maximum(x, 0))
    net = build_layer(type, [x], [x.shape])
    net.layers[0].set("type", "INPUT")
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))


#: Type, tags of the element with its attributes, attributes, shape of the input and the output, blobs.
SPELLINGS = [
    ("FullyConnected", ("fc", "fc_data", "data", "fullyconnected_data"), {"out-size": 2}, (1, 3), (1, 2), (2, 3)),
    ("InnerProduct", ("fc", "fc_data", "data", "innerproduct"), {"out-size": 2}, (1, 3), (1, 2), (2, 3)),
    ("Norm", ("lrn", "norm", "norm_data", "data"), {"local-size": 3, "alpha": 1, "beta": 1}, (1, 3), (1, 3), None),
    ("LRN", ("lrn", "norm", "norm_data", "lrn_data"), {"local-size": 3, "alpha": 1, "beta": 1}, (1, 3), (1, 3), None),
    ("Crop", ("crop", "crop-data", "data", "crop_data"), {"axis": 1, "offset": 1, "dim": 1}, (1, 3), (1, 1), None),
    ("BatchNormalization", ("batch_norm", "batch_norm_data", "data"), {"epsilon": 1}, (1, 3), (1, 3), (3,)),
    ("Eltwise", ("elementwise", "elementwise_data", "eltwise_data"), {"operation": "logical_not"}, (1,), (1,), None),
    ("Clamp", ("data", "clamp_data", "clamp"), {"min": 0, "max": 1}, (1, 3), (1, 3), None),
]


def test_attributes_are_in_elements_of_several_names():
    for type, tags, data, shape, output, blob in SPELLINGS:
        blobs = {} if blob is None else {"weights": np.ones(blob, np.float32), "biases": np.ones(blob[0], np.float32)}
        for tag in tags:
            net = LegacyNetwork(2)
            net.add_layer(type, [net.add_input(shape)], [output], data, blobs, data_tag=tag)
            other = build_layer(type, [np.zeros(shape, np.float32)], [output], data, blobs)
            actual, expected = (
                [(layer.type, str(layer.attributes)) for layer in n.read().graph.layers] for n in (net, other)
            )
            assert actual == expected
        net = LegacyNetwork(2)
        net.add_layer(type, [net.add_input(shape)], [output], data, blobs, data_tag="other")
        if type != "Eltwise":
            with pytest.raises(irrun.ModelError, match="requires the attribute"):
                net.read()


CROPS = [
    ([{"axis": 1, "offset": 1, "dim": 2}, {"axis": 2, "offset": 0, "dim": 3}], np.s_[:, 1:3, :3]),
    ([{"axis": 1, "dim": 2}, {"axis": 2, "offset": 1, "dim": 3}], np.s_[:, :2, 1:4]),
    ([{"axis": 1, "offset": 1, "dim": 2}, {"axis": 2, "offset": 2}], np.s_[:, 1:4, 2:5]),
    ([{"axis": 2, "offset": 1}], np.s_[:, :, 1:4]),
    ([{"offset": 1, "dim": 1}], np.s_[1:2]),
]


def test_elements_of_crops_are_joined():
    for crops, expected in CROPS:
        x = make_random(2, 4, 5)
        net = LegacyNetwork(2)
        net.add_layer("Crop", [net.add_input(x.shape)], [x[expected].shape])
        data = etree.SubElement(net.layers[1], "crop_data")
        for crop in crops:
            etree.SubElement(data, "crop", {name: str(value) for name, value in crop.items()})
        np.testing.assert_array_equal(net.run(x)[0], x[expected])


def test_number_of_attributes_is_limited(monkeypatch):
    monkeypatch.setattr("irrun.ir.legacy.xml_elements.MAX_ATTRIBUTES", 2)
    assert build_layer("Clamp", [make_random(3)], [(3,)], {"min": 0, "max": 1}).read().outputs
    with pytest.raises(irrun.ModelError, match=r"line \d+: 3 attributes, expected at most 2"):
        build_layer("Clamp", [make_random(3)], [(3,)], {"min": 0, "max": 1, "more": 2}).read()


PRECISIONS = [
    ("FP32", "f32"),
    ("FP16", "f16"),
    ("I8", "i8"),
    ("BIN", "u1"),
    ("BOOL", "boolean"),
    ("UNSPECIFIED", None),
    ("MIXED", None),
    ("", None),
    (None, None),
]


def test_precisions_are_parsed():
    for text, expected in PRECISIONS:
        element_type = parse_precision(etree.Element("port"), text)
        assert (element_type.name if element_type else None) == expected


def test_precision_is_that_of_the_port_the_layer_or_the_network():
    for place in ["net", "layer", "port", "none"]:
        for precision in ["I32", "FP16"]:
            net = LegacyNetwork(7, "FP32")
            net.add_layer("Power", [net.add_input((3,), "FP32")], [(3,)], {"power": 1})
            power = net.layers[1]
            port = power.find("output/port")
            del power.attrib["precision"]
            del port.attrib["precision"]
            source = net.layers[0]
            del source.attrib["precision"]
            del source.find("output/port").attrib["precision"]
            for element in {"net": [net.root], "layer": [source], "port": [source.find("output/port")], "none": []}[
                place
            ]:
                element.set("precision", precision)
            if place == "port":
                source.set("precision", "U8")
            if place == "layer":
                net.root.set("precision", "U8")
            (tensor,) = net.read().inputs
            expected = "f32" if precision == "FP16" or place == "none" else "i32"
            assert str(tensor.element_type) == expected


def test_precision_of_a_constant_is_that_of_the_blob_the_port_or_the_layer():
    """FP32 if there is none."""
    for place in ["blob", "layer", "port", "none"]:
        values = np.int32([1, 2, 3]) if place != "none" else np.float32([1, 2, 3])
        net = LegacyNetwork(7, "FP32")
        net.add_layer("Copy", [net.add_const(values)], [(3,)])
        const = net.layers[0]
        port, blob = const.find("output/port"), const.find("blobs/custom")
        for element in (const, port, blob):
            element.attrib.pop("precision", None)
        elements = {"blob": [blob], "layer": [const], "port": [port], "none": []}[place]
        for element in elements:
            element.set("precision", "I32")
        if place == "port":
            const.set("precision", "FP32")
        if place == "blob":
            const.set("precision", "FP32")
        net.layers[1].attrib.pop("precision")
        net.layers[1].find("output/port").attrib.pop("precision")
        (layer,) = net.read().graph.find_layers("Constant")
        assert layer.constant.to_array().tolist() == [1, 2, 3]
        assert layer.constant.to_array().dtype == values.dtype


def test_precision_of_a_blob_is_not_that_of_the_output():
    """Only a Const states it there."""
    weights = make_random(2, 3)
    net = LegacyNetwork(7)
    net.add_layer("FullyConnected", [net.add_input((1, 3))], [(1, 2)], {"out-size": 2}, {"weights": weights})
    del net.layers[1].find("blobs/weights").attrib["precision"]
    net.layers[1].find("output/port").set("precision", "FP16")
    x = make_random(1, 3, seed=1)
    np.testing.assert_allclose(net.run(x)[0], x @ weights.T, rtol=1e-5)


def test_empty_blobs_are_ignored():
    net = LegacyNetwork(6)
    blobs = {"weights": make_random(2, 3), "biases": np.zeros(0, np.float32)}
    net.add_layer("FullyConnected", [net.add_input((1, 3))], [(1, 2)], {"out-size": 2}, blobs)
    x = make_random(1, 3, seed=1)
    np.testing.assert_allclose(net.run(x)[0], x @ blobs["weights"].T, rtol=1e-5)
    for name in ("offset", "size"):
        net.layers[1].find("blobs/biases").set(name, "x")
        with pytest.raises(irrun.ModelError, match=f"{name} 'x' of <biases> is not an integer"):
            net.read()
        del net.layers[1].find("blobs/biases").attrib[name]
    np.testing.assert_allclose(net.run(x)[0], x @ blobs["weights"].T, rtol=1e-5)


ENTRIES = [
    ({}, {}),
    ({"axis": -1}, {}),
    ({"axis": 0}, {"axis": 0}),
    ({"axis": 1, "stride": 2}, {"axis": 1, "stride": 2, "part_size": 2}),
    ({"axis": 1, "stride": -2}, {"axis": 1, "start": -1, "end": 0, "stride": -2, "part_size": 2}),
    ({"axis": 1, "stride": -1}, {"axis": 1, "start": -1, "end": 0, "stride": -1}),
    ({"axis": 1, "stride": -1, "start": 4, "end": 1}, {"axis": 1, "start": 4, "end": 1, "stride": -1}),
    ({"axis": 1, "start": 2, "end": 5, "part_size": 3}, {"axis": 1, "start": 2, "end": 5}),
]


def test_entry_of_a_port_map_is_read():
    for attributes, expected in ENTRIES:
        element = etree.fromstring('<input external_port_id="3" internal_layer_id="5"/>')
        for name, value in attributes.items():
            element.set(name, str(value))
        assert read_port_map_entry(element) == (PortMapEntry(3, 5, line=1, **expected), (5, 0))
        element.set("internal_port_id", "7")
        assert read_port_map_entry(element)[1] == (5, 7)


def test_missing_numbers_are_reported_with_their_line():
    root = etree.fromstring('<a>\n<edge from-layer="1" from-port="2" to-layer="3" to-port="4"/></a>')
    assert read_edge(root[0]) == Edge(1, 2, 3, 4)
    for name in ("from-layer", "from-port", "to-layer", "to-port"):
        text = root[0].attrib.pop(name)
        with pytest.raises(irrun.ModelError, match=f"line 2: {name} None of <edge> is not an integer"):
            read_edge(root[0])
        root[0].set(name, text)
    for name in ("external_port_id", "internal_layer_id"):
        element = etree.fromstring('<input external_port_id="3" internal_layer_id="5"/>')
        del element.attrib[name]
        with pytest.raises(irrun.ModelError, match=f"{name} None of <input> is not an integer"):
            read_port_map_entry(element)


DAMAGES = [
    (lambda net: net.layers[1].set("id", "x"), '"x"', "id 'x' of <layer> is not an integer"),
    (lambda net: net.layers[1].set("id", "0"), 'name="clamp"', "two layers have the id 0"),
    (lambda net: net.edges[0].set("from-layer", "9"), "<net", "an edge refers to layer 9, which does not exist"),
    (
        lambda net: net.edges[0].set("from-port", "9"),
        'name="input0"',
        "layer 0 'input0' (Input, legacy): an edge refers to port 9, which is not one of its outputs",
    ),
    (
        lambda net: net.layers[1].find("data").set("min", "x"),
        'name="clamp"',
        "layer 'clamp' (Clamp, legacy): attribute min='x' is not a number",
    ),
    (
        lambda net: net.layers[1].append(etree.fromstring("<output><port/></output>")),
        None,
        "",
    ),
    (
        lambda net: net.layers[1].find("output").append(etree.fromstring('<port id="7"/>')),
        'name="clamp"',
        "layer 'clamp' (Clamp, legacy): has 2 outputs, expected 1",
    ),
    (lambda net: net.layers[0].set("type", "Clamp"), 'name="input0"', "layer 'input0' (Clamp, legacy): "),
    (
        lambda net: net.layers[1].set("type", "TensorIterator"),
        'name="clamp"',
        "layer 'clamp' (TensorIterator, legacy): requires the element <body>",
    ),
]


def test_errors_have_the_file_and_the_line(tmp_path):
    for damage, place, message in DAMAGES:
        net = LegacyNetwork(6)
        net.add_layer("Clamp", [net.add_input((1, 3))], [(1, 3)], {"min": 0, "max": 1}, name="clamp")
        damage(net)
        path = save(net, tmp_path)
        if place is None:
            assert irrun.read_model(path).outputs
            continue
        line = find_line(path, place)
        with pytest.raises(irrun.ModelError, match="^" + re.escape(f"{path}:{line}: {message}")):
            irrun.read_model(path)
        with pytest.raises(irrun.ModelError, match="^" + re.escape(f"line {line}: {message}")):
            irrun.read_model(path.read_bytes(), b"")


def test_inconsistent_layers_are_reported():
    """A Split along an axis that one of its outputs does not have."""
    net = LegacyNetwork(6)
    net.add_layer("Split", [net.add_input((2, 4))], [(2, 2), (2,)], {"axis": 1}, name="split")
    with pytest.raises(
        irrun.ModelError, match=r"layer 'split' \(Split, legacy\): ports, blobs and attributes are inconsistent: "
    ):
        net.read()


def test_constants_outside_of_the_weights_are_findings(tmp_path):
    net = LegacyNetwork(6)
    blobs = {"weights": make_random(2, 3), "biases": make_random(2)}
    net.add_layer("FullyConnected", [net.add_input((1, 3))], [(1, 2)], {"out-size": 2}, blobs, name="dense")
    path = save(net, tmp_path)
    path.with_suffix(".bin").write_bytes(bytes(16))
    model, findings = read_findings(path)
    (line,) = {layer.line for layer in model.graph.layers if layer.name.startswith("dense")}
    assert [finding.line for finding in findings] == [line, line]
    assert [(f.layer.partition("'")[2].partition("'")[0], f.message) for f in findings] == [
        ("dense/weights", f"requires bytes 0 to 24 of {path.with_suffix('.bin')}, found 16 bytes"),
        ("dense/biases", f"requires bytes 24 to 32 of {path.with_suffix('.bin')}, found 16 bytes"),
    ]


def test_meta_data_and_the_version_of_the_file_are_kept(tmp_path):
    net = LegacyNetwork(4)
    net.add_layer("ReLU", [net.add_input((1, 3))], [(1, 3)])
    assert net.read().meta_data is None
    net.root.append(etree.fromstring('<meta_data><version value="2018"/></meta_data>'))
    path = tmp_path / "old.xml"
    path.write_bytes(etree.tostring(net.root).replace(b"</meta_data>", b"</meta_data>\n\n"))
    model = irrun.read_model(path)
    assert model.meta_data == '<meta_data><version value="2018"/></meta_data>'
    assert (model.version, model.source_version, model.path, model.name) == (11, 4, path, "net")


def make_layer(**attributes: str) -> LegacyLayer:
    return LegacyLayer("name", "Type", 7, 0, attributes)


BOOLEANS = [
    *((text, True) for text in ("1", "true", "True", " YES ", "2", "0.5", "-1")),
    *((text, False) for text in ("0", "false", "No", "0.0", "00")),
]


def test_booleans_are_parsed():
    for text, expected in BOOLEANS:
        for default in (False, True):
            assert make_layer(a=text).get_bool("a", default=default) is expected
        assert make_layer().get_bool("a") is False
        assert make_layer(a=" ").get_bool("a", default=True) is True
        with pytest.raises(irrun.ModelError, match="attribute a='maybe' is not a boolean"):
            make_layer(a="maybe").get_bool("a")


INTEGERS = [("3", 3), (" -3 ", -3), ("3.0", 3), ("3.5", None), ("x", None), ("inf", None), ("", None)]


def test_integers_are_parsed():
    for text, expected in INTEGERS:
        if expected is not None:
            assert make_layer(a=text).get_int("a") == expected
            assert make_layer(a=f"{text}, 7 8,").get_ints("a") == [expected, 7, 8]
            continue
        with pytest.raises(irrun.ModelError, match=re.escape(f"attribute a={text!r} is not an integer")):
            make_layer(a=text).get_int("a")
        if text:
            with pytest.raises(irrun.ModelError, match=re.escape(f"attribute a='{text} 1' is not a list of integers")):
                make_layer(a=f"{text} 1").get_ints("a")
            if text not in ("3.5", "inf"):
                with pytest.raises(irrun.ModelError, match="is not a list of numbers"):
                    make_layer(a=f"{text} 1").get_floats("a")


def test_first_of_several_names_counts():
    layer = make_layer(b="2", c="3")
    assert layer.get_int("a", "b", "c") == 2
    assert layer.get_int("c", "b") == 3
    assert layer.get_int("a", default=5) == 5
    assert layer.has_attribute("a", "b")
    assert not layer.has_attribute("a", "d")
    with pytest.raises(irrun.ModelError, match=r"^layer 'name' \(Type, legacy\): requires the attribute a$"):
        layer.get_text("a", "d")


AXES = [
    ("0", 1, 0),
    ("-1", 3, 2),
    ("-3", 3, 0),
    ("2", 3, 2),
    ("3", 3, None),
    ("-4", 3, None),
]


def test_axes_are_counted_from_either_end():
    for axis, rank, expected in AXES:
        if expected is None:
            with pytest.raises(irrun.ModelError, match=rf"axis {axis} is out of range \[-3, 2\]"):
                make_layer(axis=axis).get_axis(rank)
            continue
        assert make_layer(axis=axis).get_axis(rank) == expected
        assert make_layer(other=axis).get_axis(rank, "other") == expected
        assert make_layer().get_axis(rank, default=int(axis)) == expected


def test_missing_ports_of_a_layer_are_reported():
    for position in (0, 2):
        with pytest.raises(irrun.ModelError, match=f"has 0 inputs, requires at least {position + 1}"):
            make_layer().get_input_shape(position)
        with pytest.raises(irrun.ModelError, match=f"has 0 outputs, requires at least {position + 1}"):
            make_layer().get_output_shape(position)
        assert make_layer().get_output_type(position).name == "f32"
