"""Types, shapes and names of the layers that legacy layers are converted to."""

from __future__ import annotations

import numpy as np
from legacy_ir import LegacyNetwork, build_layer, check_declarations, make_random, run_layer

JOINED_TYPES = [
    ((np.float32, np.int32), np.float32),
    ((np.int32, np.float32), np.float32),
    ((np.int32, np.int64), np.int64),
    ((np.int64, np.uint8), np.int64),
    ((np.uint8, np.int32), np.int32),
    ((np.uint8, np.uint8), np.uint8),
    ((np.int32, np.float32, np.uint8), np.float32),
]


def test_joined_values_have_the_type_that_represents_all():
    for types, expected in JOINED_TYPES:
        parts = [np.arange(1, 4).astype(type) for type in types]
        (actual,) = run_layer("Concat", parts, [(3 * len(parts),)], {"axis": 0}, version=6)
        assert actual.dtype == expected
        np.testing.assert_array_equal(actual, np.concatenate(parts))


def test_type_of_a_value_without_precision_is_open():
    """Layers after one that irrun does not know, and whose precision the file does not state, are still read."""
    net = LegacyNetwork(7, precision="UNSPECIFIED")
    source = net.add_layer("Mystery", [net.add_input((2, 3), "FP32")], [(2, 3)]), 1
    for type, data in (("Power", {"power": 2}), ("Exp", {}), ("Abs", {}), ("Clamp", {"min": 0, "max": 1})):
        net.add_layer(type, [source], [(2, 3)], data)
    net.add_layer("Eltwise", [source, source], [(2, 3)], {"operation": "sum"})
    net.add_layer("Pad", [source], [(2, 3)], {"pads_begin": "0,0", "pads_end": "0,0"})
    types = {layer.type: layer.outputs[0].element_type for layer in net.read().graph.layers if layer.outputs}
    assert types.pop("Parameter").name == "f32"
    assert {"Mystery", "Power", "Exp", "Abs", "Clamp", "Add", "Pad"} <= types.keys()
    assert {type for name, type in types.items() if name != "Constant"} == {None}


def test_values_of_undeclared_shape_are_used_by_other_layers():
    """Files need not state dimensions."""
    x = np.float32([[0, 1], [2, 0]])
    net = LegacyNetwork(7)
    indices = net.add_layer("NonZero", [net.add_input(x.shape)], [()], precisions=["I32"]), 1
    for i, (type, inputs, data) in enumerate(
        [
            ("Eltwise", [indices, indices], {"operation": "sum"}),
            ("ReLU", [indices], {}),
            ("Eltwise", [indices, net.add_const(np.int32([[10], [20]]))], {"operation": "mul"}),
        ]
    ):
        net.add_layer(type, inputs, [()], data, name=f"out{i}", precisions=["I32"])
    expected = np.array([[0, 1], [1, 0]])
    actual = net.run(x)
    for value, other in zip(actual, (expected * 2, expected, expected * [[10], [20]]), strict=True):
        np.testing.assert_array_equal(value, other)
    check_declarations(net.read(), [x], may_be_dynamic=True)


def test_names_of_layers_are_unique():
    """Names of added layers begin with the name of the layer in the file."""
    blobs = {"weights": make_random(8, 5), "biases": make_random(8)}
    data = {"hidden_size": 2, "direction": "Forward"}
    net = build_layer("LSTMSequence", [make_random(1, 4, 3)], [(1, 4, 2), (1, 2), (1, 2)], data, blobs)
    names = [layer.name for layer in net.read().graph.layers if layer.type != "Parameter"]
    assert len(set(names)) == len(names)
    assert all(name.startswith("the layer") for name in names)
    constants = [name for name in names if name.startswith("the layer/shape")]
    assert constants == ["the layer/shape", *(f"the layer/shape.{i}" for i in range(1, len(constants)))]


def test_types_that_the_file_leaves_open_are_those_of_the_values():
    a, b = np.float32([1, 2, 3]), np.float32([1, 3, 2])
    net = build_layer("Eltwise", [a, b], [(3,)], {"operation": "less"}, precisions=["UNSPECIFIED"])
    for element in net.layers[2].iter("layer", "port"):
        element.attrib.pop("precision", None)
    (actual,) = net.run(a, b)
    assert actual.dtype == np.bool_
    net = LegacyNetwork(7, precision="UNSPECIFIED")
    source = net.add_layer("Mystery", [net.add_input((3,), "FP32")], [(3,)]), 1
    net.add_layer("ReLU", [source], [(3,)], precisions=["FP32"])
    (layer,) = net.read().graph.find_layers("Relu")
    assert layer.outputs[0].element_type is None


def test_single_value_is_joined_to_itself():
    x = make_random(2, 3)
    for axis in (0, 1):
        (actual,) = run_layer("Concat", [x], [(2, 3)], {"axis": axis})
        np.testing.assert_array_equal(actual, x)
