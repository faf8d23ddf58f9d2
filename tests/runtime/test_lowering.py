"""Lowering: errors name the file, the layer and the line, and constants that overlap are limited."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from irrun.runtime.lowering import MIN_POSTPONED_BYTES, lower

F32 = np.float32


def test_errors_name_the_file_the_layer_and_its_line(tmp_path):
    path = write(tmp_path, chain("Relu", "Clamp"))
    with pytest.raises(irrun.ModelError, match="Clamp-1 requires the attribute max, min") as caught:
        irrun.compile_model(path)
    assert caught.value.path == path
    assert caught.value.layer == "layer 2 'layer2' (Clamp, opset1)"
    assert caught.value.line == 5


def test_errors_in_bodies_name_the_inner_layer(tmp_path):
    path = write_row_loop(tmp_path)
    path.write_text(path.read_text().replace('type="Relu"', 'type="Clamp"'))
    with pytest.raises(irrun.ModelError, match="Clamp-1 requires the attribute max, min") as caught:
        irrun.compile_model(path)
    assert caught.value.layer == "layer 1 'layer1' (Clamp, opset1)"
    lines = path.read_text().splitlines()
    assert 'type="Clamp"' in lines[caught.value.line - 1]


def test_unsupported_layers_are_counted_by_operation(tmp_path):
    path = write(tmp_path, chain("Foo", "Relu", "Foo", "Bar"))
    message = (
        r"unsupported operations: Foo of opset1 \(layer 1 'layer1' and 1 more\); Bar of opset1 \(layer 4 'layer4'\);"
    )
    with pytest.raises(irrun.UnsupportedError, match=message) as caught:
        irrun.compile_model(path)
    assert caught.value.path == path


def write_constants(folder, element_type, shape, size, count, weights):
    """Write a model that returns constants of the same bytes, of which each has another shape."""
    layers, edges = [], []
    for i in range(count):
        dims = (1,) * i + shape
        data = f'element_type="{element_type}" shape="{",".join(map(str, dims))}" offset="0" size="{size}"'
        layers.append(layer(2 * i, "Const", data=data, outputs=[port(0, dims)], name=f"c{i}"))
        layers.append(layer(2 * i + 1, "Result", inputs=[port(0, dims)]))
        edges.append((2 * i, 0, 2 * i + 1, 0))
    return write(folder, net(layers, edges), weights)


def test_missing_weights_are_reported(tmp_path):
    path = write_constants(tmp_path, "f32", (4,), 16, 1, b"")
    path.with_suffix(".bin").unlink()
    with pytest.raises(irrun.ModelError, match=r"model\.bin"):
        irrun.compile_model(path)


@pytest.mark.parametrize(
    ("element_type", "bits", "is_limited"), [("u4", 4, True), ("boolean", 8, True), ("u8", 8, False)]
)
def test_memory_of_unpacked_constants_that_overlap_is_limited(element_type, bits, is_limited, tmp_path):
    """Each reads the whole file, of 1 MiB; values that need not be unpacked are views of it."""
    size = 1 << 20
    for count in (9, 10):  # the limit is 8 MiB and an allowance of 1 MiB
        path = write_constants(tmp_path, element_type, (size * 8 // bits,), size, count, bytes(size))
        if is_limited and count > 9:
            with pytest.raises(irrun.ModelError, match="constants overlap: they take more than 8 times the 1048576"):
                irrun.compile_model(path)
        else:
            assert len(irrun.compile_model(path).outputs) == count


def test_equal_constants_share_their_values(tmp_path):
    layers, edges = [], []
    for i in range(30):  # far more than may overlap
        data = f'element_type="u4" shape="{1 << 21}" offset="0" size="{1 << 20}"'
        layers.append(layer(2 * i, "Const", data=data, outputs=[port(0, (1 << 21,))]))
        layers.append(layer(2 * i + 1, "Result", inputs=[port(0, (1 << 21,))]))
        edges.append((2 * i, 0, 2 * i + 1, 0))
    program = irrun.compile_model(write(tmp_path, net(layers, edges), bytes(1 << 20)))._program
    assert len({program.initial[slot].__array_interface__["data"][0] for slot in program.results}) == 1


def test_consumers_of_a_result_read_its_input(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "Negative", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")]),
        layer(2, "Result", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")]),
        layer(3, "Abs", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0), (3, 1, 4, 0)]))
    first, second = irrun.run(path, np.full((2, 3), 2, F32)).to_tuple()
    np.testing.assert_array_equal(first, np.full((2, 3), -2))
    np.testing.assert_array_equal(second, np.full((2, 3), 2))


@pytest.mark.parametrize("type", ["Const", "Parameter"])
def test_constants_and_inputs_have_a_single_output(type, tmp_path):
    data = 'element_type="f32" shape="1" ' + 'offset="0" size="4"' * (type == "Const")
    layers = [
        layer(0, type, data=data, outputs=[port(0, (1,), "FP32"), port(1, (1,), "FP32")]),
        layer(1, "Result", inputs=[port(0, (1,))]),
    ]
    for output in (0, 1):
        path = write(tmp_path, net(layers, [(0, output, 1, 0)]), bytes(4))
        if output:
            with pytest.raises(
                irrun.ModelError, match="the layer has 2 output ports, expected edges only from the first one"
            ):
                irrun.compile_model(path)
        else:
            inputs = [np.zeros(1, F32)] * (type == "Parameter")
            assert irrun.compile_model(path)(inputs)[0] == 0


def test_constants_without_a_type_stand_for_omitted_inputs(tmp_path):
    """OpenVINO writes them for inputs in the middle that are omitted."""
    received = []

    def compute(x, y=None, z=None):
        received.append(y)
        return x + z

    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "Const", data='element_type="dynamic" shape="0" offset="0" size="0"', outputs=[port(0, (0,))]),
        layer(2, "Custom", "extension", "", [port(i) for i in range(3)], [port(3, (2, 3), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (0, 0, 2, 2), (2, 3, 3, 0)]))
    operation = irrun.Operation.from_function(compute, "Custom", opset="extension")
    result = irrun.compile_model(path, operations=[operation])(np.ones((2, 3), F32))[0]
    np.testing.assert_array_equal(result, np.full((2, 3), 2))
    assert received == [None]


def test_constants_that_were_removed_are_reported(tmp_path):
    model = irrun.read_model(write_constants(tmp_path, "f32", (4,), 16, 1, bytes(16)))
    model.graph.find_layers("Constant")[0].constant = None
    with pytest.raises(irrun.ModelError, match=r"layer 0 'c0' .*: the layer has no constant"):
        irrun.compile_model(model)


@pytest.mark.parametrize(
    ("element_type", "size", "postpones", "is_postponed"),
    [
        ("u4", MIN_POSTPONED_BYTES, True, True),
        ("i4", MIN_POSTPONED_BYTES, True, True),
        ("u4", MIN_POSTPONED_BYTES - 1, True, False),
        ("u4", MIN_POSTPONED_BYTES, False, False),
        ("u8", MIN_POSTPONED_BYTES, True, False),
        ("u1", MIN_POSTPONED_BYTES, True, False),
    ],
)
def test_large_constants_of_nibbles_are_unpacked_later(element_type, size, postpones, is_postponed, tmp_path):
    weights = np.random.default_rng(0).integers(0, 256, size).astype(np.uint8)
    count = size * 8 // {"u4": 4, "i4": 4, "u8": 8, "u1": 1}[element_type]
    path = write_constants(tmp_path, element_type, (count,), size, 1, weights.tobytes())
    program = lower(irrun.read_model(path), postpones=postpones)
    (slot,) = program.constant_layers
    assert list(program.postponed) == ([slot] if is_postponed else [])
    if is_postponed:
        program.postponed[slot].fill()
        (expected,) = (v for v in lower(irrun.read_model(path)).initial if v is not None)
        np.testing.assert_array_equal(program.initial[slot].view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("shape", [(0, 1 << 40), (1 << 40, 0)])
def test_constants_without_elements_have_no_large_dimensions(shape, tmp_path):
    path = write_constants(tmp_path, "f32", shape, 0, 1, b"")
    with pytest.raises(irrun.InputError, match="has no elements"):
        lower(irrun.read_model(path))
