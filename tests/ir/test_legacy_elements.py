"""Files of IR v2 to v7: lines, names, precisions, spellings of elements, and errors with the place of their cause."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from legacy_ir import LegacyNetwork, build_layer, make_random
from lxml import etree

import irrun
from irrun.ir.graph import Edge, PortMapEntry
from irrun.ir.legacy.xml_elements import parse_precision, read_edge, read_port_map_entry

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


CROPS: list[Any] = [
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
