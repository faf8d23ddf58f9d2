"""Traces: recording, reading, replaying, and refusing invalid files."""

from __future__ import annotations

import io
import itertools
import json
import os
import struct
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import KeyTable, Recorder, Selection, Trace, record, replay, trace_file
from irrun.inspection.model_hash import hash_model
from irrun.inspection.replaying import isolate_layer

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


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.float32([[1, -2]]), np.float32([[1, -2]])),
        (np.array([1.5, -0.0], ml_dtypes.bfloat16), np.uint16([0x3FC0, 0x8000])),
        (np.array(["a", "ü"], object), np.array(["a", "ü"])),
    ],
    ids=["native", "bits", "text"],
)
def test_members_are_arrays_that_numpy_reads(value, stored):
    file = io.BytesIO()
    with (writer := trace_file.TraceWriter(file)).archive:
        writer.write("x.npy", value)
    file.seek(0)
    with np.load(file) as archive:
        member = archive["x"]
    assert member.dtype == stored.dtype
    np.testing.assert_array_equal(member, stored)


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
    np.testing.assert_allclose(replay(tmp_path / "run.trace", path, "layer1")["layer1"], np.exp(1), rtol=1e-6)
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
        ({"change": lambda index: {"format": "other"}}, "index.json does not belong to a trace"),
        ({"change": lambda index: index.update(format="other")}, "index.json does not belong to a trace"),
        ({"change": lambda index: index.update(values={})}, "index.json does not belong to a trace"),
        ({"change": lambda index: [1]}, "index.json does not belong to a trace"),
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
        ({"members": {"values/0.npy": save(X)[:-1]}}, "does not fit its shape"),
        ({"members": {"values/0.npy": save(X) + b"0"}}, "does not fit its shape"),
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


@pytest.mark.parametrize(("array", "is_read"), [(["a"], True), ([1.0], False), ([""], True), ([b"a"], False)])
def test_values_of_strings_are_texts(array, is_read, tmp_path):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    value = np.array(array)
    rewrite(path, change=set_value(type="string", shape=[1]), members={"values/0.npy": save(value)})
    trace = Trace.open(path)
    if is_read:
        assert trace["x"].tolist() == array
    else:
        with pytest.raises(irrun.InputError, match=f"expected the type string for 'x', found {value.dtype}"):
            trace["x"]


def test_texts_have_at_least_one_character(tmp_path):
    """As in the arrays of NumPy, of which no header declares fewer."""
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    member = save(np.array(["a"])).replace(b"<U1", b"<U0")
    rewrite(path, change=set_value(type="string", shape=[1]), members={"values/0.npy": member})
    with pytest.raises(irrun.InputError, match="expected the type string for 'x', found <U0"):
        Trace.open(path)["x"]


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


def patch_size(path, name, size):
    """Change the size of a member in the directory of a zip archive."""
    data = bytearray(path.read_bytes())
    position = data.index(b"PK\x01\x02")
    while data[position + 46 : position + 46 + len(name)] != name.encode():
        position = data.index(b"PK\x01\x02", position + 1)
    data[position + 20 : position + 28] = 2 * size.to_bytes(4, "little")
    path.write_bytes(data)


def test_members_are_within_the_file(tmp_path):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    with zipfile.ZipFile(path) as archive:
        others = sum(info.file_size for info in archive.infolist() if info.filename != "values/0.npy")
    size = path.stat().st_size
    patch_size(path, "values/0.npy", size - others)
    Trace.open(path).close()
    patch_size(path, "values/0.npy", size - others + 1)
    with pytest.raises(irrun.InputError, match="its members overlap"):
        Trace.open(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_are_unique_and_not_encrypted(tmp_path):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "encrypted.trace").write_bytes(data)
    with pytest.raises(irrun.InputError, match=r"expected uncompressed members, found 'values/0\.npy'"):
        Trace.open(tmp_path / "encrypted.trace")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("values/1.npy", b"")
    with pytest.raises(irrun.InputError, match=r"it contains 'values/1\.npy' twice"):
        Trace.open(path)


def test_size_of_the_index_is_limited(tmp_path, monkeypatch):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("index.json").file_size
    monkeypatch.setattr(trace_file, "MAX_INDEX", size)
    Trace.open(path).close()
    monkeypatch.setattr(trace_file, "MAX_INDEX", size - 1)
    with pytest.raises(irrun.InputError, match=f"expected an index.json of at most {size - 1} bytes, found {size}"):
        Trace.open(path)


@pytest.mark.parametrize(("excess", "message"), [(0, "Bad CRC-32"), (1, "at most 268435456 bytes, found 268435457")])
def test_index_takes_at_most_256_mib(tmp_path, excess, message):
    """The index consists of zeros, which take no space in the file, and its checksum is wrong."""
    path, size = tmp_path / "run.trace", (256 << 20) + excess
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("index.json", b"")
    content = path.read_bytes()
    header, (directory, end) = content[:40], content[40:].split(b"PK\5\6")
    sizes, offset = struct.pack("<II", size, size), struct.pack("<I", len(header) + size)
    with path.open("r+b") as file:
        file.seek(len(header) + size)
        file.write(directory[:20] + sizes + directory[28:] + b"PK\5\6" + end[:12] + offset + end[16:])
    with pytest.raises(irrun.InputError, match=message):
        Trace.open(path)


@pytest.mark.parametrize(("version", "is_valid"), [((1, 0), True), ((2, 0), True), ((3, 0), True), ((4, 0), False)])
def test_members_are_of_version_1_to_3(tmp_path, version, is_valid):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    file = io.BytesIO()
    np.lib.format.write_array(file, X, version=version if is_valid else (1, 0))
    content = file.getvalue()[:6] + bytes(version) + file.getvalue()[8:]
    rewrite(path, members={"values/0.npy": content})
    trace = Trace.open(path)
    if is_valid:
        np.testing.assert_array_equal(trace["x"], X)
    else:
        with pytest.raises(irrun.InputError, match=r"expected version 1, 2 or 3 of the format, found 4\.0"):
            trace["x"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": [1] * 64}, None),
        ({"shape": [1] * 65}, "invalid shape"),
        ({"shape": [2**63 - 1]}, None),
        ({"shape": [2**63]}, "invalid shape"),
        ({"shape": [True]}, "invalid shape"),
        ({"shape": "2"}, "invalid shape"),
        ({"port": True}, "the entry of 'x' is invalid"),
        ({"port": "0"}, "the entry of 'x' is invalid"),
        ({"seconds": "1"}, "the entry of 'x' is invalid"),
        ({"seconds": 1}, None),
        ({"statistics": []}, "the entry of 'x' is invalid"),
        ({"statistics": {"min": None, "max": 1.5}}, None),
        ({"member": 5}, "an entry of index.json is incomplete"),
        ({"member": None}, None),
        ({"layer": None}, "an entry of index.json is incomplete"),
        ({"layer_type": 1}, "an entry of index.json is incomplete"),
        ({"type": None}, "an entry of index.json is incomplete"),
    ],
    ids=itertools.count(),
)
def test_fields_of_values_are_checked(tmp_path, fields, message):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    rewrite(path, set_value(**fields))
    if message:
        with pytest.raises(irrun.InputError, match=message):
            Trace.open(path)
    else:
        with Trace.open(path) as trace:
            assert trace.has_data("x") == ("member" not in fields)


@pytest.mark.parametrize("name", ["model", "versions", "inputs", "outputs"])
def test_missing_parts_of_the_index_are_reported(tmp_path, name):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    rewrite(path, lambda index: index.pop(name) and None)
    with pytest.raises(irrun.InputError, match=f"{name} in index.json is invalid"):
        Trace.open(path)


def test_values_are_selected_unless_the_file_says_otherwise(tmp_path):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu", "Exp")), X, path, layers=["layer2"]).close()
    rewrite(path, lambda index: index["values"][0].pop("is_selected") and None)
    with Trace.open(path) as trace:
        assert [value.is_selected for value in trace.entries.values()] == [True, False, True]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(5, "Input/output error"), ": Input/output error$"),
        (OSError("broken"), ": OSError: broken$"),
        (ValueError("odd"), ": ValueError: odd$"),
        (zipfile.BadZipFile("bad"), ": bad$"),
    ],
)
def test_errors_of_the_file_are_described(tmp_path, monkeypatch, error, message):
    path = tmp_path / "run.trace"
    path.touch()

    def fail(*arguments):
        raise error

    monkeypatch.setattr(zipfile, "ZipFile", fail)
    with pytest.raises(irrun.InputError, match=f"{path} is not a valid trace{message}"):
        Trace.open(path)


def test_interrupt_of_the_user_is_not_an_invalid_trace(tmp_path, monkeypatch):
    path = tmp_path / "run.trace"
    path.touch()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile, "ZipFile", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Trace.open(path)


def test_large_values_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    with record(write(tmp_path, chain("Relu")), X, tmp_path / "run.trace") as trace:
        np.testing.assert_array_equal(trace["x"], X)


def test_index_is_valid_json():
    writer = trace_file.TraceWriter(io.BytesIO())
    with writer.archive, pytest.raises(ValueError, match="Out of range float values"):
        writer.finish({"x": np.nan}, [])


def test_file_is_closed_with_the_trace(tmp_path):
    path = tmp_path / "run.trace"
    record(write(tmp_path, chain("Relu")), X, path).close()
    with Trace.open(path) as trace:
        assert trace["x"].shape == (2, 3)
    with pytest.raises(irrun.InputError, match="is not a valid trace"):
        trace["x"]


# Recording


def test_parameters_of_bodies_are_recorded_unless_inputs_are_excluded(tmp_path):
    loop = write_row_loop(tmp_path)
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    inner = ["it[0]/x", "it[0]/layer1", "it[1]/x", "it[1]/layer1"]
    trace = record(loop, x)
    assert list(trace) == ["x", *inner, "it"]
    assert all(value.is_selected == ("/x" not in key) for key, value in trace.entries.items() if key != "x")
    np.testing.assert_array_equal(trace["it[1]/x"], x[1:])
    assert list(record(loop, x, with_inputs=False)) == ["x", *inner, "it"]
    selected = record(loop, x, layers=["it[1]/*"])
    assert {key: value.is_selected for key, value in selected.entries.items()} == {
        "x": False,
        "it[1]/x": False,
        "it[1]/layer1": True,
    }
    assert list(record(loop, x, types=["Relu"], with_inputs=False)) == ["x", "it[0]/layer1", "it[1]/layer1"]


def test_recorder_stores_inputs_and_selected_outputs():
    model = make_model(
        Row("x", "Parameter"),
        Row("c", "Constant", value=np.float32([1])),
        Row("a", "Add", ["x", "c"]),
        Row("axis", "Constant", value=np.int64(0)),
        Row("s", "Split", ["a", "axis"], {"num_splits": "2"}, 2),
        Row("y", "Result", ["s:1"]),
        Row("z", "Result", ["a"]),
    )
    compiled = irrun.compile_model(model, optimize=False)
    for selection, with_inputs, keys in (
        (["s.1"], None, {"a": False, "s.1": True}),
        (["s.1"], False, {"s.1": True}),
        ([], None, {"a": True, "s.0": True, "s.1": True}),
    ):
        stored = {}
        options = {} if with_inputs is None else {"with_inputs": with_inputs}
        recorder = Recorder(KeyTable(model), stored.__setitem__, Selection(selection), **options)
        compiled.create_infer_request().infer(np.float32([1, 2]), observers=[recorder])
        assert {value.key: value.is_selected for value in recorder.values} == keys
        assert list(stored) == [f"values/{i}.npy" for i in range(len(keys))] == [v.member for v in recorder.values]
        assert all((value.seconds > 0) == value.is_selected for value in recorder.values)
        split = recorder.values[-1]
        assert (split.layer, split.layer_type, split.port, split.type, split.shape) == ("s", "Split", 1, "f32", (1,))
    assert record(model, np.float32([1, 2])).output_keys == {"s.1": "s.1", "a": "a"}


def test_values_that_still_fit_are_stored(tmp_path):
    trace = record(write_row_loop(tmp_path), np.ones((2, 3), np.float32), max_bytes=40)
    data = [key for key in trace if trace.has_data(key)]
    assert data == ["x", "it[0]/x"]
    assert not trace.has_data("other")
    assert [value.member for value in trace.entries.values()][:3] == ["values/0.npy", "values/1.npy", None]


def test_index_describes_the_run(tmp_path):
    path = write(tmp_path, chain("Relu"))
    index = record(path, X).index
    assert index["model"]["path"] == str(path)
    assert index["model"]["name"] == "net"
    assert index["model"]["hash"].startswith("sha256:")
    assert set(index["versions"]) == {"irrun", "numpy", "python"}
    assert record(path, X).error is None
    model = irrun.read_model(path)
    model.path = None
    assert record(model, X).index["model"]["path"] is None
    assert record(path, X, recorded_precision="bf16").precision == "bf16"
    wide = irrun.compile_model(path, optimize=False, precision="f64")
    assert record(wide, X).precision == "f64"
    trace = record(path, X)
    assert (trace.entries["x"].seconds, trace.entries["x"].port) == (0, 0)
    assert not record(path, X, layers=["layer1"]).entries["x"].is_selected
    assert record(path, X, layers=["x", "layer1"]).entries["x"].is_selected
    assert record(path, X, types=["parameter"]).entries["x"].is_selected


def test_failure_of_a_run_in_memory_is_raised(tmp_path):
    path = write(tmp_path, chain("Negative", "Softmax", data=["", 'axis="7"']))
    with pytest.raises(irrun.IrrunError, match="Softmax"):
        record(path, X)


def test_hash_depends_on_layers_edges_and_weights():
    rows = [
        Row("x", "Parameter"),
        Row("c", "Constant", value=np.float32([1])),
        Row("d", "Constant", value=np.float32([1])),
        Row("a", "Subtract", ["c", "x"], {"auto_broadcast": "numpy"}),
        Row("y", "Result", ["a"]),
    ]
    hashes = {hash_model(make_model(*rows))}
    assert hashes == {hash_model(make_model(*rows))}
    for position, row in (
        (1, rows[1]._replace(value=np.float32([2]))),
        (3, rows[3]._replace(sources=["d", "x"])),
        (3, rows[3]._replace(sources=["x", "c"])),
        (3, rows[3]._replace(name="b")),
        (3, rows[3]._replace(type="Add")),
        (3, rows[3]._replace(version="opset14")),
        (3, rows[3]._replace(attributes={"auto_broadcast": "none"})),
    ):
        changed = [*rows[:position], row, *rows[position + 1 :]]
        end = changed[4]._replace(sources=[changed[3].name])
        hashes.add(hash_model(make_model(*changed[:4], end)))
    assert len(hashes) == 8
    # Traces of other versions remain valid.
    assert hash_model(make_model(*rows)).startswith("sha256:7b50d9f8e1108750")


# Replay


def test_layers_of_nested_keys_are_replayed(tmp_path):
    loop = write_row_loop(tmp_path)
    x = np.float32([[1, -2, 3], [-4, 5, 6]])
    trace = record(loop, x)
    outputs = replay(trace, loop, "it[1]/layer1")
    assert list(outputs) == ["it[1]/layer1"]
    np.testing.assert_array_equal(outputs["it[1]/layer1"], [[0, 5, 6]])
    np.testing.assert_array_equal(replay(trace, irrun.compile_model(loop), "it")["it"], np.maximum(x, 0))
    with pytest.raises(irrun.InputError, match=r"does not contain 'it\[7\]/x', an input of 'it\[7\]/layer1'"):
        replay(trace, irrun.read_model(loop), "it[7]/layer1")


def test_layer_with_the_name_of_its_owner_is_replayed(tmp_path):
    model = irrun.read_model(write_row_loop(tmp_path))
    KeyTable(model).find_layer("it[0]/layer1").name = "it"
    trace = record(model, np.ones((2, 3), np.float32))
    assert list(replay(trace, model, "it[1]/it")) == ["it[1]/it"]
    assert list(replay(trace, model, "it")) == ["it"]


def test_replayed_layers_keep_their_constants_and_inputs():
    rows = [
        Row("x", "Parameter"),
        Row("c", "Constant", value=np.float32([1, 2])),
        Row("d", "Exp", ["c"]),
        Row("a", "Negative", ["x"]),
        Row("b", "Subtract", ["a", "a"]),
        Row("e", "Subtract", ["d", "a"]),
        Row("axis", "Constant", value=np.int64(0)),
        Row("s", "Split", ["e", "axis"], {"num_splits": "2"}, 2),
        Row("y", "Result", ["s:1"]),
        Row("z", "Result", ["b"]),
    ]
    model = make_model(*rows)
    trace = record(model, np.float32([3, 5]))
    for name in "abes":
        for key, value in replay(trace, model, name).items():
            np.testing.assert_array_equal(value, trace[key])
    part, keys = isolate_layer(model, KeyTable(model), model.graph.layers[5])
    assert keys == ["a"]
    assert [n.name for n in part.graph.layers] == ["input0", "c", "d", "e", "output0/result"]
    assert len({n.id for n in part.graph.layers}) == 5
    part, keys = isolate_layer(model, KeyTable(model), model.graph.layers[4])
    assert keys == ["a"]
    part, keys = isolate_layer(model, KeyTable(model), model.graph.layers[5], lambda n: n.type == "Negative")
    assert keys == ["x"]
    assert [n.name for n in part.graph.layers if n.type in ("Negative", "Parameter")] == ["input0", "a"]
    part, keys = isolate_layer(model, KeyTable(model), model.graph.layers[7])
    assert (keys, len(part.outputs)) == (["e"], 2)


def test_isolated_layer_may_have_the_id_of_a_port():
    rows = [Row("a", "Subtract", ["x", "c"]), Row("x", "Parameter"), Row("c", "Constant", value=np.float32([1]))]
    model = make_model(*rows, Row("y", "Result", ["a"]))
    part, keys = isolate_layer(model, KeyTable(model), model.graph.layers[0])
    assert keys == ["x"]
    assert [n.type for n in part.graph.layers] == ["Parameter", "Constant", "Subtract", "Result"]
