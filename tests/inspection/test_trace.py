"""Traces: recording, reading, replaying, and refusing invalid files."""

from __future__ import annotations

import io
import itertools
import json
import os
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from irrun.inspection import Trace, record, replay

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
X = np.float32([[1, -2, 3], [np.nan, 0, np.inf]])


def test_trace_contains_every_value(tmp_path):
    path = write(tmp_path, chain("Negative", "Relu"))
    trace = record(path, X, tmp_path / "run.trace")
    assert list(trace) == ["x", "layer1", "layer2"]
    np.testing.assert_array_equal(trace["layer1"], -X)
    assert trace.input_keys == ["x"]
    assert trace.output_keys == {"layer2": "layer2"}
    assert trace.precision == "declared"
    value = trace.entries["layer2"]
    assert (value.layer_type, value.type, value.shape, value.is_selected) == ("Relu", "f32", (2, 3), True)
    assert value.seconds >= 0
    assert value.statistics["nans"] == 1
    assert (trace.entries["x"].statistics["min"], trace.entries["x"].statistics["max"]) == (-2, 3)
    in_memory = record(path, X)
    assert list(in_memory) == list(trace)
    assert in_memory.model_hash == trace.model_hash
    assert record(write(tmp_path, chain("Negative", "Abs")), X).model_hash != trace.model_hash


@pytest.mark.parametrize(
    "value",
    [
        np.array([["a", "ü€"], ["", "long"]], object),
        np.array([1.5, -0.0, np.nan], ml_dtypes.bfloat16),
        np.array([1.5, 2], ml_dtypes.float8_e4m3fn),
        np.array([1, -8, 7], ml_dtypes.int4),
        np.array([(3,), (1,)], [("u3", np.uint8)]),
        np.array([True, False]),
        np.array(7, np.int64),
        np.zeros((0, 3), np.float16),
        np.arange(6.0).reshape(2, 3).T,
    ],
    ids=lambda value: str(value.dtype),
)
def test_values_of_all_types_are_restored(tmp_path, value):
    kind = irrun.ElementType.of(value.dtype)
    layers = [
        layer(0, "Parameter", data=f'shape="..." element_type="{kind}"', outputs=[port(0)], name="x"),
        layer(1, "Result", inputs=[port(0)], name="y"),
    ]
    trace = record(write(tmp_path, net(layers, [(0, 0, 1, 0)])), value, tmp_path / "run.trace")
    restored = trace["x"]
    assert (restored.dtype, restored.shape) == (value.dtype, value.shape)
    assert np.array_equal(restored, value) or restored.tobytes() == value.tobytes()


def test_trace_contains_bodies_and_any_layer_can_be_replayed(tmp_path):
    x = np.load(EXAMPLE / "input.npy")
    model = irrun.read_model(EXAMPLE / "model.xml")
    trace = record(model, x, tmp_path / "run.trace")
    keys = [value.layer for value in trace.entries.values() if value.layer_type not in ("Parameter",)]
    assert any("[10]/" in key for key in keys)
    for key in dict.fromkeys(keys):
        if "]/" in key and "[3]/" not in key:
            continue
        for name, value in replay(trace, model, key).items():
            np.testing.assert_array_equal(value, trace[name], err_msg=name)


def test_selected_layers_are_recorded_with_their_inputs(tmp_path):
    path = write(tmp_path, chain("Negative", "Relu", "Abs"))
    trace = record(path, X, tmp_path / "run.trace", layers=["layer2"])
    assert {key: value.is_selected for key, value in trace.entries.items()} == {
        "x": False,
        "layer1": False,
        "layer2": True,
    }
    np.testing.assert_array_equal(replay(trace, path, "layer2")["layer2"], trace["layer2"])
    assert list(record(path, X, types=["Abs"], with_inputs=False)) == ["x", "layer3"]
    with pytest.raises(irrun.InputError, match="does not contain 'layer2', an input of 'layer3'"):
        replay(record(path, X, types=["Negative"]), path, "layer3")


def test_values_beyond_max_bytes_have_statistics_only(tmp_path):
    trace = record(write(tmp_path, chain("Negative", "Relu")), X, tmp_path / "run.trace", max_bytes=2 * X.nbytes)
    assert [trace.has_data(key) for key in trace] == [True, True, False]
    assert trace.entries["layer2"].statistics["infinities"] == 0
    with pytest.raises(irrun.InputError, match="contains only statistics of 'layer2'"):
        trace["layer2"]


def test_trace_of_a_failed_run_ends_at_the_layer_that_failed(tmp_path):
    path = write(tmp_path, chain("Negative", "Softmax", versions=["opset1", "opset1"], data=["", 'axis="7"']))
    with pytest.raises(irrun.IrrunError, match="Softmax"):
        record(path, X, tmp_path / "run.trace")
    trace = Trace.open(tmp_path / "run.trace")
    assert list(trace) == ["x", "layer1"]
    assert "Softmax" in trace.error


def test_values_in_memory_are_copies(tmp_path):
    x = np.ones((2, 3), np.float32)
    trace = record(write(tmp_path, chain("Relu")), x)
    x[:] = 7
    np.testing.assert_array_equal(trace["x"], 1)


def test_values_are_looked_up_by_key(tmp_path):
    path = write(tmp_path, chain("Relu", "Exp"))
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    trace = record(path, x, path=tmp_path / "run.trace")
    with Trace.open(tmp_path / "run.trace") as opened:
        assert repr(opened) == f"<Trace: {len(opened)} values in {tmp_path / 'run.trace'}>"
        assert "layer1" in opened
        assert "layer7" not in opened
        np.testing.assert_array_equal(opened.get_inputs()[0], x)
        with pytest.raises(KeyError, match="the trace does not contain 'layer7'"):
            opened["layer7"]
    assert repr(record(path, x)) == f"<Trace: {len(trace)} values>"


def test_replay_of_a_file_requires_inputs_and_iterations(tmp_path):
    path = write(tmp_path, chain("Exp", "Relu", "Relu"))
    record(path, np.ones((2, 3), np.float32), path=tmp_path / "run.trace", layers=["layer1"])
    np.testing.assert_allclose(replay(tmp_path / "run.trace", path, "layer1")["layer1"], np.e, rtol=1e-6)
    with pytest.raises(irrun.InputError, match="the trace does not contain 'layer2', an input of 'layer3'"):
        replay(tmp_path / "run.trace", path, "layer3")
    loop = write_row_loop(tmp_path)
    trace = record(loop, np.ones((2, 3), np.float32))
    assert "it[1]/layer1" in replay(trace, loop, "it[1]/layer1")
    with pytest.raises(irrun.InputError, match=r"unknown layer 'layer1'; did you mean it\[0\]/layer1"):
        replay(trace, loop, "layer1")


def test_trace_is_written_atomically(tmp_path):
    target = tmp_path / "run.trace"
    target.write_bytes(b"previous")

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(write(tmp_path, chain("Relu")), X, target, observers=[interrupt])
    assert target.read_bytes() == b"previous"
    assert not list(tmp_path.glob(".irrun*"))
    with pytest.raises(irrun.InputError, match="cannot write"):
        record(write(tmp_path, chain("Relu")), X, target / "run.trace")


def rewrite(path, change=lambda index: None, members=None, compression=zipfile.ZIP_STORED, drop=()):
    """Write a trace again after changing its index and its members."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist() if name not in drop}
    if "index.json" in contents:
        index = json.loads(contents["index.json"])
        contents["index.json"] = json.dumps(change(index) or index).encode()
    contents.update(members or {})
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def save(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def set_value(**fields):
    return lambda index: index["values"][0].update(fields)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"drop": ["index.json"]}, "does not contain index.json"),
        ({"compression": zipfile.ZIP_DEFLATED}, "expected uncompressed members"),
        ({"change": lambda index: {"format": "other"}}, "index.json is not that of a trace"),
        ({"change": lambda index: index.update(format="other")}, "index.json is not that of a trace"),
        ({"change": lambda index: index.update(values={})}, "index.json is not that of a trace"),
        ({"change": lambda index: [1]}, "index.json is not that of a trace"),
        ({"change": lambda index: index.update(version=99)}, "expected version 1 of the format, found 99"),
        ({"change": lambda index: index.update(inputs=3)}, "inputs in index.json is invalid"),
        ({"change": lambda index: index["values"].append(3)}, "not an object"),
        ({"change": lambda index: index["values"].append(index["values"][0])}, "the key 'x' twice"),
        ({"change": set_value(shape=[-1])}, "invalid shape"),
        ({"change": set_value(shape=[1] * 100)}, "invalid shape"),
        ({"change": set_value(shape=[10**40])}, "invalid shape"),
        ({"change": set_value(type="f33")}, "unknown element type 'f33'"),
        ({"change": set_value(member="values/99.npy")}, "does not contain 'values/99.npy'"),
        ({"change": set_value(statistics={"min": "1"})}, "invalid statistics"),
        ({"change": set_value(seconds=None)}, "is invalid"),
        ({"change": set_value(key=5)}, "incomplete"),
        ({"members": {"index.json": b"{"}}, "JSONDecodeError"),
        ({"members": {"index.json": b"[" * 100_000}}, "RecursionError"),
        ({"drop": ["values/0.npy"]}, "does not contain 'values/0.npy'"),
    ],
    ids=itertools.count(),
)
def test_invalid_trace_is_refused(tmp_path, arguments, message):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    rewrite(path, **arguments)
    with pytest.raises(irrun.InputError, match=f"is not a valid trace.*{message}"):
        Trace.open(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"change": set_value(shape=[1000, 1000])}, r"expected the shape \[1000, 1000\]"),
        ({"change": set_value(type="f64")}, "expected the type f64"),
        ({"members": {"values/0.npy": b""}}, "ValueError"),
        ({"members": {"values/0.npy": save(X)[:-1]}}, "not the size of its shape"),
        ({"members": {"values/0.npy": save(X) + b"0"}}, "not the size of its shape"),
        ({"members": {"values/0.npy": save(np.array([X, None], object))}}, "expected the shape"),
        ({"members": {"values/0.npy": save(X.astype(object))}}, "expected the type f32"),
        ({"members": {"values/0.npy": save(np.asfortranarray(X))}}, "expected the shape"),
    ],
    ids=itertools.count(),
)
def test_invalid_value_is_refused_when_it_is_read(tmp_path, arguments, message):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    rewrite(path, **arguments)
    trace = Trace.open(path)
    with pytest.raises(irrun.InputError, match=message):
        trace["x"]
    np.testing.assert_array_equal(trace["layer1"], np.maximum(X, 0))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(irrun.InputError, match="does not exist"):
        Trace.open(tmp_path / "missing.trace")
    with pytest.raises(irrun.InputError, match="expected a regular file"):
        Trace.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(irrun.InputError, match="expected a regular file"):
        Trace.open(tmp_path / "pipe")
    (tmp_path / "text").write_text("no zip")
    with pytest.raises(irrun.InputError, match="File is not a zip file"):
        Trace.open(tmp_path / "text")
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    data = path.read_bytes()
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(irrun.InputError):
            Trace.open(path)
