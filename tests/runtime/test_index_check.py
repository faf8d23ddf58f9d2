"""Indices out of range that kernels accept: checks report them, and results still equal the reference."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import call
from ir_text import graph, layer, net, port, write

import irrun
from irrun.inspection import check
from irrun.ir.graph import Layer
from irrun.runtime.index_check import InvalidIndices

TABLE = np.arange(1, 9, dtype=np.float32).reshape(4, 2)


def write_gather(folder, type="Gather", version="opset8", data="", axis="0"):
    layers = [
        layer(0, "Parameter", data='shape="?,2" element_type="f32"', outputs=[port(0)], name="table"),
        layer(1, "Parameter", data='shape="..." element_type="i64"', outputs=[port(0)], name="ids"),
        layer(2, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0)]),
        layer(3, type, version, data, [port(0), port(1), port(2)], [port(3)], name="lookup"),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]
    return write(folder, net(layers, edges), np.array(int(axis)))


def run(path, *inputs):
    request = irrun.compile_model(path, check=True).create_infer_request()
    outputs = request.infer(list(inputs))
    return outputs[0], request.invalid_indices


@pytest.mark.parametrize("version", ["opset1", "opset7", "opset8"])
def test_gather_gives_zeros_and_reports_them(version, tmp_path):
    path = write_gather(tmp_path, version=version)
    result, (found,) = run(path, TABLE, np.array([[0, -4, 3], [4, 99, -5]]))
    np.testing.assert_array_equal(result[1], np.zeros((3, 2)))
    assert (found.count, found.total, found.index, found.position) == (3, 6, 4, (1, 0))
    assert (found.minimum, found.maximum, found.is_intended) == (-4, 3, False)
    assert found.message == (
        "3 of 6 indices out of range (the result is zero there); the first is 4 at [1, 0], valid are -4 to 3"
    )
    assert str(found).startswith("layer 3 'lookup' (Gather")


@pytest.mark.falls_back
def test_indices_in_range_are_not_reported(tmp_path):
    path = write_gather(tmp_path)
    assert run(path, TABLE, np.array([-4, 3]))[1] == []
    assert run(path, TABLE, np.zeros(0, np.int64))[1] == []
    request = irrun.compile_model(path).create_infer_request()
    request.infer([TABLE, np.array([9])])
    assert request.invalid_indices == []  # without check


def test_axis_and_empty_tables(tmp_path):
    path = write_gather(tmp_path, axis="1")
    assert run(path, TABLE, np.array(2))[1][0].message == (
        "1 of 1 index out of range (the result is zero there); the first is 2, valid are -2 to 1"
    )
    path = write_gather(tmp_path)
    (found,) = run(path, TABLE[:0], np.array([0]))[1]
    assert found.message.endswith("valid are none, since the axis is empty")


def write_one_hot(folder, version, data):
    layers = [
        layer(0, "Parameter", data='shape="?" element_type="i32"', outputs=[port(0)], name="ids"),
        *(
            layer(i, "Const", data=f'element_type="i32" shape="" offset="{4 * i - 4}" size="4"', outputs=[port(0)])
            for i in (1, 2, 3)
        ),
        layer(4, "OneHot", version, f'axis="-1" {data}', [port(i) for i in range(4)], [port(4)], name="hot"),
        layer(5, "Result", inputs=[port(0)]),
    ]
    edges = [(i, 0, 4, i) for i in range(4)] + [(4, 4, 5, 0)]
    return write(folder, net(layers, edges), np.array([3, 1, 0], np.int32))


@pytest.mark.parametrize(
    ("version", "data", "count", "minimum"),
    [
        ("opset1", "", 3, 0),
        ("opset16", 'negative_indices_mode="ignore-negative"', 3, 0),
        ("opset16", 'negative_indices_mode="normalize"', 2, -3),
    ],
)
def test_indices_that_one_hot_ignores_are_notes(version, data, count, minimum, tmp_path):
    path = write_one_hot(tmp_path, version, data)
    ids = np.array([2, -1, 3, -4], np.int32)
    _, (found,) = run(path, ids)
    assert (found.count, found.minimum, found.maximum, found.is_intended) == (count, minimum, 2, True)
    report = check(path, ids)
    assert report.passed
    (finding,) = [f for f in report.findings if f.kind == "indices"]
    assert (finding.level, finding.key, finding.type) == ("note", "hot", "OneHot")


def test_segments_that_are_ignored_are_notes(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="?,2" element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "Parameter", data='shape="?" element_type="i64"', outputs=[port(0)], name="ids"),
        layer(2, "Parameter", data='shape="" element_type="i64"', outputs=[port(0)], name="count"),
        layer(3, "SegmentMax", "opset16", 'fill_mode="ZERO"', [port(0), port(1), port(2)], [port(3)], name="max"),
        layer(4, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]))
    _, (found,) = run(path, TABLE, np.array([0, 1, 2, 3]), np.array(2))
    assert (found.count, found.index, found.minimum, found.maximum) == (2, 2, 0, 1)


def test_iterations_are_added_up(tmp_path):
    """A loop over the rows of x gathers from each row."""
    body = graph(
        [
            layer(0, "Parameter", data='shape="1,2" element_type="f32"', outputs=[port(0, (1, 2))], name="row"),
            layer(1, "Parameter", data='shape="1,3" element_type="i64"', outputs=[port(0, (1, 3))], name="id"),
            layer(2, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0)]),
            layer(3, "Gather", "opset8", 'batch_dims="1"', [port(0), port(1), port(2)], [port(3, (1, 3))], name="pick"),
            layer(4, "Result", inputs=[port(0, (1, 3))]),
        ],
        [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)],
    )
    ports = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        '<input axis="0" external_port_id="1" internal_layer_id="1"/>'
        f'<output axis="0" external_port_id="2" internal_layer_id="4"/></port_map><body>{body}</body>'
    )
    layers = [
        layer(0, "Parameter", data='shape="3,2" element_type="f32"', outputs=[port(0, (3, 2))], name="x"),
        layer(1, "Parameter", data='shape="3,3" element_type="i64"', outputs=[port(0, (3, 3))], name="ids"),
        layer(2, "TensorIterator", inputs=[port(0), port(1)], outputs=[port(2, (3, 3))], inner=ports, name="it"),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), np.array(1))
    ids = np.array([[0, 1, 0], [0, 1, 2], [5, 6, 1]])
    (found,) = run(path, TABLE[:3], ids)[1]
    assert (found.count, found.total, found.index) == (3, 9, 2)
    assert "the first is 2 at [0, 2] in iteration 1 of it, valid are -2 to 1" in found.message
    (finding,) = [f for f in check(path, [TABLE[:3], ids]).findings if f.kind == "indices"]
    assert (finding.level, finding.key) == ("error", "it[0]/pick")


def test_custom_operations_of_the_same_type_are_not_checked(tmp_path):
    operation = irrun.Operation.from_function(lambda data, indices, axis: data, "Gather", since=8)
    compiled = irrun.compile_model(write_gather(tmp_path), check=True, operations=[operation])
    request = compiled.create_infer_request()
    request.infer([TABLE, np.array([9])])
    assert request.invalid_indices == []


@pytest.mark.falls_back
def test_commands_report_indices(tmp_path, capsys):
    path = write_gather(tmp_path)
    np.save(tmp_path / "table.npy", TABLE)
    inputs = ["-i", f"table={tmp_path / 'table.npy'}", "-i"]
    message = "1 of 2 indices out of range (the result is zero there); the first is 4 at [1], valid are -4 to 3"
    code, out, _ = call(capsys, "run", path, *inputs, "ids=[0,4]", "--check")
    assert code == 1
    assert f"indices out of range: layer 3 'lookup' (Gather, opset8): {message}" in out.replace("\n", "")
    assert "1 layer with indices out of range" in out
    code, out, _ = call(capsys, "run", path, *inputs, "ids=[0,4]", "--check", "--json")
    assert code == 1
    assert json.loads(out)["invalid_indices"][0].endswith(message)
    assert call(capsys, "run", path, *inputs, "ids=[0,3]", "--check")[0] == 0
    assert call(capsys, "run", path, *inputs, "ids=[0,4]")[0] == 0
    code, out, _ = call(capsys, "check", path, *inputs, "ids=[0,4]", "--json")
    assert code == 1
    (finding,) = [f for f in json.loads(out)["findings"] if f["kind"] == "indices"]
    assert finding == {"kind": "indices", "level": "error", "key": "lookup", "type": "Gather", "message": message}


@pytest.mark.parametrize(
    ("count", "total", "position", "scope", "limits", "expected"),
    [
        (1, 1, (), (), (-2, 1), "1 of 1 index out of range (zero); the first is 7, valid are -2 to 1"),
        (1, 2, (0, 3), (), (0, 0), "1 of 2 indices out of range (zero); the first is 7 at [0, 3], valid are 0 to 0"),
        (2, 2, (1,), ((0, "outer"), (4, "inner")), (0, -1),
         "2 of 2 indices out of range (zero); the first is 7 at [1] in iteration 4 of inner in iteration 0 of outer, "
         "valid are none, since the axis is empty"),
    ],
)  # fmt: skip
def test_message_has_the_first_index_and_its_place(count, total, position, scope, limits, expected):
    scope = tuple((Layer(9, name, "Loop", "opset5"), number) for number, name in scope)
    gather = Layer(3, "g", "Gather", "opset8")
    minimum, maximum = limits
    indices = InvalidIndices(gather, count, total, 7, position, scope, minimum, maximum, "zero", False)
    assert indices.message == expected
    assert str(indices) == f"{indices.layer.describe()}: {expected}"
