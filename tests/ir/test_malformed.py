"""Files that are broken or hostile: each ends in one line and exit code 2, in bounded time and memory."""

from __future__ import annotations

import contextlib
import os
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ir_text import chain, layer, net, port, write

import irrun
from irrun.cli import main

GOOD = chain("Relu", "Relu")

P = layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x")


def R():
    return layer(9, "Result", inputs=[port(0)])


def constant(data, out=None, weights=b"\0" * 64):
    """A net that adds a constant to its input."""
    layers = [P, layer(1, "Const", data=data, outputs=[out or port(0, (3,), "FP32")])]
    layers += [layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32")]), R()]
    return net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 9, 0)]), weights


def unary(type, data="", version="opset1"):
    """A net of one layer with one input."""
    body = layer(1, type, version, data, [port(0, (2, 3))], [port(1, (2, 3), "FP32")])
    return net([P, body, R()], [(0, 0, 1, 0), (1, 1, 9, 0)])


def iterator(entry='external_port_id="0" internal_layer_id="0" axis="1"', out=None, back="", body=None, port_map=None):
    """A TensorIterator over the columns of its input."""
    if body is None:
        inner = layer(0, "Parameter", data='shape="2,1" element_type="f32"', outputs=[port(0, (2, 1), "FP32")])
        inner += layer(1, "Result", inputs=[port(0)])
        body = f'<layers>{inner}</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>'
    out = out or 'external_port_id="1" internal_layer_id="1" axis="1"'
    port_map = port_map or f"<input {entry}/><output {out}/>"
    text = f"<port_map>{port_map}</port_map><back_edges>{back}</back_edges><body>{body}</body>"
    it = layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=text)
    return net([P, it, R()], [(0, 0, 1, 0), (1, 1, 9, 0)])


def endless_loop():
    """A Loop that concatenates what 2**62 iterations give."""
    trips = 'element_type="i64" shape="" offset="0" size="8"'
    start = 'element_type="boolean" shape="" offset="8" size="1"'
    port_map = '<input external_port_id="2" internal_layer_id="0"/>'
    port_map += '<output external_port_id="3" internal_layer_id="1" axis="0"/>'
    body = layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")])
    body += layer(1, "Result", inputs=[port(0)])
    body = f'<layers>{body}</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>'
    inner = f"<port_map>{port_map}</port_map><body>{body}</body>"
    layers = [P, layer(1, "Const", data=trips, outputs=[port(0)]), layer(2, "Const", data=start, outputs=[port(0)])]
    layers += [layer(3, "Loop", "opset5", "", [port(0), port(1), port(2)], [port(3)], inner=inner), R()]
    return net(layers, [(1, 0, 3, 0), (2, 0, 3, 1), (0, 0, 3, 2), (3, 3, 9, 0)]), (1 << 62).to_bytes(
        8, "little"
    ) + b"\1"


def laughs(levels=10):
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, levels))
    return f'<?xml version="1.0"?><!DOCTYPE net [{entities}]><net name="&a{levels - 1};" version="11"/>'


def quadratic():
    return f'<!DOCTYPE net [<!ENTITY a "{"x" * 50_000}">]><net version="11" name="{"&a;" * 10_000}"/>'


def nested(depth):
    return '<net version="11">' + "<layers>" * depth + "</layers>" * depth + "</net>"


def nested_bodies(depth):
    text = '<net version="11"><layers>'
    for i in range(depth):
        text += f'<layer id="{i}" type="TensorIterator" version="opset1"><body><layers>'
    return text + "</layers></body></layer>" * depth + "</layers></net>"


FILES = {
    # truncations and things that are no model at all
    "empty": "",
    "one byte": "<",
    "a half": GOOD[: len(GOOD) // 2],
    "all but the end": GOOD[:-3],
    "inside a tag": GOOD[: GOOD.index("<layer ") + 12],
    "inside an attribute": GOOD[: GOOD.index("element_type=") + 15],
    "text": "hello, world",
    "json": '{"net": {}}',
    "html": "<!doctype html><html><body>404</body></html>",
    "zeros": "\0" * 1000,
    "another root": "<model version='11'/>",
    "two roots": GOOD + "<net/>",
    "a tag that is not closed": GOOD.replace("</layers>", ""),
    "a wrong closing tag": GOOD.replace("</layers>", "</layer>"),
    "an attribute twice": GOOD.replace('id="1" name', 'id="1" id="2" name'),
    "an encoding that is not there": GOOD.replace('version="1.0"?', 'version="1.0" encoding="klingon"?'),
    "an undefined entity": GOOD.replace('name="net"', 'name="&what;"'),
    "a control character": GOOD.replace('name="net"', 'name="\x01"'),
    # hostile XML
    "billion laughs": laughs(),
    "quadratic blow-up": quadratic(),
    "external entity": '<!DOCTYPE net [<!ENTITY x SYSTEM "file:///etc/passwd">]><net name="&x;" version="11"/>',
    "external entity in text": '<!DOCTYPE n [<!ENTITY x SYSTEM "file:///etc/passwd">]><net version="11">&x;</net>',
    "external dtd": '<!DOCTYPE net SYSTEM "http://localhost:1/x.dtd"><net version="11"/>',
    "public dtd": '<!DOCTYPE net PUBLIC "-//x//y" "http://localhost:1/x.dtd"><net version="11"/>',
    "parameter entity": '<!DOCTYPE net [<!ENTITY % x SYSTEM "file:///etc/hosts"> %x;]><net version="11"/>',
    "a dtd after a comment": "<!-- " + "x" * 100_000 + ' --><!DOCTYPE net [<!ENTITY a "b">]><net version="11"/>',
    "deep nesting": nested(100_000),
    "deep bodies": nested_bodies(5_000),
    # the net
    "no layers": '<net version="11"/>',
    "no layers inside": '<net version="11"><layers/><edges/></net>',
    "version zero": GOOD.replace('version="11"', 'version="0"'),
    "version of the future": GOOD.replace('version="11"', 'version="99"'),
    "version of 5000 digits": GOOD.replace('version="11"', f'version="{"9" * 5000}"'),
    "opset of 5000 digits": unary("Relu", version="opset" + "9" * 5000),
    "attribute beyond all numbers": unary("Concat", 'axis="1e400"'),
    "attribute that is not a number": unary("Concat", 'axis="nan"'),
    "attribute of 100000 letters": unary("Concat", f'axis="{"x" * 100_000}"'),
    "name that moves the cursor": unary("NoSuchThing&#x9b;31m&#10;x"),
    "version in words": GOOD.replace('version="11"', 'version="eleven"'),
    "no result": net([P], []),
    "result that nothing feeds": net([P, R()], []),
    # layers, ports, edges
    "layer without id": GOOD.replace('layer id="1"', "layer"),
    "layer with a word for an id": GOOD.replace('layer id="1"', 'layer id="one"'),
    "layer with a huge id": GOOD.replace('layer id="1"', 'layer id="99999999999999999999999"'),
    "layer without type": GOOD.replace(' type="Relu"', "", 1),
    "two layers with one id": GOOD.replace('layer id="2"', 'layer id="1"'),
    "port without id": GOOD.replace('<port id="1"', "<port", 1),
    "two ports with one id": unary("Relu").replace(
        '<port id="0"><dim>2</dim><dim>3</dim></port></input>', "<port id='0'/><port id='0'/></input>"
    ),
    "unknown precision": GOOD.replace('precision="FP32"', 'precision="FP31"', 1),
    "unknown element type": GOOD.replace('element_type="f32"', 'element_type="f31"'),
    "dimension in words": GOOD.replace("<dim>2</dim>", "<dim>two</dim>", 1),
    "negative dimension": GOOD.replace("<dim>2</dim>", "<dim>-7</dim>", 1),
    "bad shape attribute": GOOD.replace('shape="2,3"', 'shape="2,,3"'),
    "edge from a layer that is not there": GOOD.replace('from-layer="0"', 'from-layer="77"'),
    "edge to a layer that is not there": GOOD.replace('to-layer="1"', 'to-layer="77"'),
    "edge from a port that is not there": GOOD.replace('from-layer="0" from-port="0"', 'from-layer="0" from-port="5"'),
    "edge to a port that is not there": GOOD.replace('to-layer="1" to-port="0"', 'to-layer="1" to-port="5"'),
    "edge without a port": GOOD.replace(' to-port="0"', "", 1),
    "edge of words": GOOD.replace('from-layer="0"', 'from-layer="zero"'),
    "two edges into one port": GOOD.replace(
        "<edges>", '<edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>'
    ),
    "cycle of one": net([P, layer(1, "Relu", inputs=[port(0)], outputs=[port(1)]), R()], [(1, 1, 1, 0), (0, 0, 9, 0)]),
    "cycle of two": net(
        [P, *[layer(i, "Relu", inputs=[port(0)], outputs=[port(1)]) for i in (1, 2)], R()],
        [(1, 1, 2, 0), (2, 1, 1, 0), (0, 0, 9, 0)],
    ),
    "an input that nothing feeds": net(
        [P, layer(1, "Add", inputs=[port(0), port(1)], outputs=[port(2)]), R()], [(0, 0, 1, 0), (1, 2, 9, 0)]
    ),
    "more inputs than the operation has": net(
        [P, layer(1, "Relu", inputs=[port(0), port(1)], outputs=[port(2)]), R()],
        [(0, 0, 1, 0), (0, 0, 1, 1), (1, 2, 9, 0)],
    ),
    # attributes
    "unknown operation": unary("NoSuchThing"),
    "unknown opset": unary("Relu", version="opsetX"),
    "missing attribute": unary("Concat"),
    "attribute of a wrong type": unary("Concat", 'axis="first"'),
    "attribute outside its range": unary("Concat", 'axis="17"'),
    "attribute that is no choice": unary("Gelu", 'approximation_mode="guess"', "opset7"),
    # ports that a layer has and an operation has not
    "a second output of a parameter": net(
        [layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0), port(1)]), R()],
        [(0, 1, 9, 0)],
    ),
    "a second output of a constant": constant('element_type="f32" shape="3" offset="0" size="12"')[0]
    .replace('FP32"><dim>3</dim></port>', 'FP32"><dim>3</dim></port><port id="7"/>')
    .replace('from-layer="1" from-port="0"', 'from-layer="1" from-port="7"'),
    "a second output of an operation that has one": net(
        [P, layer(1, "Relu", inputs=[port(0)], outputs=[port(1), port(2)]), R()], [(0, 0, 1, 0), (1, 2, 9, 0)]
    ),
    "a second input of a result": net([P, layer(9, "Result", inputs=[port(0), port(1)])], [(0, 0, 9, 0), (0, 0, 9, 1)]),
    "a result that reads its second input alone": net(
        [P, layer(9, "Result", inputs=[port(0), port(1)])], [(0, 0, 9, 1)]
    ),
    "more dimensions than an array may have": GOOD.replace('shape="2,3"', f'shape="{",".join(["1"] * 200)}"'),
    "more attributes than lxml reads in time": unary("Concat", " ".join(f'a{i}="1"' for i in range(100_000))),
    "as many in an old file": f"""<net version="7"><layers><layer id="0" type="ReLU"><data {
        " ".join(f'a{i}="1"' for i in range(100_000))
    }/></layer></layers></net>""",
    # constants
    "bin too short": constant('element_type="f32" shape="3" offset="60" size="12"'),
    "bin missing": constant('element_type="f32" shape="3" offset="0" size="12"', weights=None),
    "bin empty": constant('element_type="f32" shape="3" offset="0" size="12"', weights=b""),
    "offset beyond the end": constant('element_type="f32" shape="3" offset="99999999999999" size="12"'),
    "negative offset": constant('element_type="f32" shape="3" offset="-4" size="12"'),
    "negative size": constant('element_type="f32" shape="3" offset="0" size="-12"'),
    "size too small": constant('element_type="f32" shape="3" offset="0" size="8"'),
    "offset in words": constant('element_type="f32" shape="3" offset="start" size="12"'),
    "a shape of 2**62 elements": constant('element_type="f32" shape="4611686018427387904" offset="0" size="12"'),
    "a shape that overflows": constant('element_type="u8" shape="4294967296,4294967296" offset="0" size="0"'),
    "an open shape": constant('element_type="f32" shape="?" offset="0" size="12"'),
    "no type at all": constant('offset="0" size="12"', port(0, (3,))),
    "string constant with wild offsets": constant(
        'element_type="string" shape="2" offset="0" size="64"', port(0, (2,), "STRING"), b"\xff" * 64
    ),
    # port maps
    "port map to a body layer that is not there": iterator('external_port_id="0" internal_layer_id="7" axis="1"'),
    "port map to a layer of another kind": iterator('external_port_id="0" internal_layer_id="1" axis="1"'),
    "port map from a port that is not there": iterator('external_port_id="4" internal_layer_id="0" axis="1"'),
    "port map output from a parameter": iterator(out='external_port_id="1" internal_layer_id="0" axis="1"'),
    "port map without ids": iterator('axis="1"'),
    "port map of words": iterator('external_port_id="0" internal_layer_id="0" axis="x"'),
    "port map of something else": iterator(port_map="<what/>"),
    "back edge to a layer that is not there": iterator(back='<edge from-layer="1" to-layer="5"/>'),
    "back edge of words": iterator(back='<edge from-layer="a" to-layer="0"/>'),
    "back edge the wrong way round": iterator(back='<edge from-layer="0" to-layer="1"/>'),
    "a loop whose results would fill the memory": endless_loop(),
    "iterator without a body": unary("TensorIterator"),
    "body without layers": iterator(body="<edges/>"),
    "stride of zero": iterator('external_port_id="0" internal_layer_id="0" axis="1" stride="0"'),
    "part size of zero": iterator('external_port_id="0" internal_layer_id="0" axis="1" part_size="0"'),
    "axis outside the rank": iterator('external_port_id="0" internal_layer_id="0" axis="5"'),
    "start beyond the axis": iterator('external_port_id="0" internal_layer_id="0" axis="1" start="50"'),
    "a stride that does not divide": iterator(
        'external_port_id="0" internal_layer_id="0" axis="1" stride="2" part_size="2"'
    ),
}


def outcome(arguments, capsys):
    """Exit code, stdout and stderr of the command line."""
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.timeout(30)
@pytest.mark.parametrize("what", FILES)
def test_broken_files_end_in_one_line(what, tmp_path, capsys):
    """Exit code 2, one line on stderr, nothing on stdout, less than 64 MB."""
    text, weights = FILES[what] if isinstance(FILES[what], tuple) else (FILES[what], b"")
    path = write(tmp_path, text, weights)
    tracemalloc.start()
    try:
        code, out, err = outcome([path, "--input", "random", "--output", tmp_path / "out.npz"], capsys)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert code == 2, (out, err)
    assert err.startswith("irrun: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert all(c.isprintable() for c in err[:-1])
    assert len(err) < 1000
    lacking = ("unknown operation", "unknown opset", "opset of 5000 digits", "name that moves the cursor")
    assert ("lacks" in err) == (what in lacking)
    assert not out
    assert not (tmp_path / "out.npz").exists()
    assert peak < 64 << 20


def test_there_are_at_least_60():
    assert len(FILES) >= 60


SEED = iterator().encode()


@settings(
    max_examples=400, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.binary(min_size=0, max_size=3)), min_size=1, max_size=6)
)
@example(edits=[(SEED.index(b"2,3"), b"9")])
def test_random_edits_run_or_end_in_an_error_of_ours(edits, tmp_path):
    """Whatever bytes change, the file runs or an IrrunError says why not."""
    data = bytearray(SEED)
    for position, replacement in edits:
        data[position : position + len(replacement)] = replacement
        if not replacement:
            del data[position % len(data)]
    path = tmp_path / "model.xml"
    path.write_bytes(bytes(data))
    with contextlib.suppress(irrun.IrrunError):
        compiled = irrun.compile_model(path)
        for tensor in compiled.inputs:
            shape = tensor.partial_shape
            if shape is None or not shape.is_static or np.prod(shape, dtype=object) > 1e6:
                return
        compiled([np.ones(t.shape, (t.element_type or irrun.ElementType.parse("f32")).dtype) for t in compiled.inputs])


@settings(
    max_examples=200, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_refused(data, tmp_path):
    path = tmp_path / "model.xml"
    path.write_bytes(data)
    with pytest.raises(irrun.ModelError):
        irrun.read_model(path)


def calls_to_read(path):
    """How many Python and C functions are called while a model is read."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        with contextlib.suppress(irrun.ModelError):
            assert irrun.read_model(path).outputs
    finally:
        sys.setprofile(None)
    return count


def test_reading_takes_work_in_proportion_to_the_layers(tmp_path):
    """Ten times the layers, about ten times the calls; 100,000 layers read."""
    few, many = (
        calls_to_read(write(tmp_path, chain(*["Relu"] * count, shape=(1,)), name=f"m{count}"))
        for count in (1_000, 10_000)
    )
    assert 5 < many / few < 11
    path = write(tmp_path, chain(*["Relu"] * 100_000, shape=(1,)))
    assert len(irrun.read_model(path).graph.layers) == 100_002


def unfolding(make):
    """A net of constants alone: `make` adds layers with `add(type, inputs, data)`, which gives the new one's id."""
    layers, edges, weights = [], [], bytearray()

    def add(type, inputs=(), data="", value=None):
        id = len(layers)
        if value is not None:
            value = np.asarray(value)
            element = irrun.ElementType.of(value.dtype).name
            shape = ",".join(map(str, value.shape))
            place = f'offset="{len(weights)}" size="{value.nbytes}"'
            weights.extend(value.tobytes())
            data = f'element_type="{element}" shape="{shape}" {place}'
        edges.extend((source, 9, id, i) for i, source in enumerate(inputs))
        ports = [port(i, (1,)) for i in range(len(inputs))]
        layers.append(layer(id, type, "opset13", data, ports, [port(9, (1,), "FP32")] if type != "Result" else ()))
        return id

    add("Result", [make(add)])
    return net(layers, edges), bytes(weights)


def constant_of(add, value):
    return add("Const", value=value)


def spread(add, *shape):
    return add("Broadcast", [constant_of(add, np.float32(1)), constant_of(add, np.array(shape))])


def repeated(add, type, count, value):
    for _ in range(count):
        value = add(type, [value, value] if type == "Add" else [value])
    return value


UNFOLDING = {
    "a sum of 4 GiB": lambda add: repeated(add, "Add", 1, spread(add, 1 << 30)),
    "many sums of 64 MiB": lambda add: repeated(add, "Add", 2000, spread(add, 1 << 24)),
    "many sums of 1 KiB": lambda add: repeated(add, "Add", 2000, spread(add, 1 << 8)),
    "an outer sum": lambda add: add("Add", [spread(add, 1 << 15, 1), spread(add, 1 << 15)]),
    "an outer product": lambda add: add(
        "MatMul", [spread(add, 1 << 15, 1), spread(add, 1, 1 << 15)], 'transpose_a="false" transpose_b="false"'
    ),
    "a long product": lambda add: add(
        "MatMul", [spread(add, 1 << 13, 1 << 12), spread(add, 1 << 12, 1 << 13)], 'transpose_a="0" transpose_b="0"'
    ),
    "a wider type": lambda add: add("Convert", [spread(add, 1 << 27)], 'destination_type="f64"'),
    "a tile": lambda add: add("Tile", [spread(add, 1 << 10), constant_of(add, np.array([1 << 20]))]),
    "rows of a table": lambda add: add(
        "Gather",
        [spread(add, 1, 1 << 20), constant_of(add, np.zeros(1 << 10, np.int64)), constant_of(add, np.int64(0))],
    ),
    "many places": lambda add: add("NonZero", [spread(add, 1 << 10, 1 << 15)], 'output_type="i64"'),
    "a long transform": lambda add: add("Softmax", [spread(add, 1 << 28)], 'axis="0"'),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", UNFOLDING)
def test_compiling_takes_little_whatever_the_constants_would_grow_to(what, tmp_path):
    """Declared shapes lie here: each port says [1]."""
    path = write(tmp_path, *unfolding(UNFOLDING[what]))
    tracemalloc.start()
    try:
        irrun.compile_model(path)
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_constants_that_overlap_are_unpacked_once_or_refused(tmp_path):
    """A hundred views of the same bytes are one array; a hundred that begin one byte apart are too many."""
    weights = b"\0" * (1 << 20)

    def overlapping(step):
        def constant(i):
            data = f'element_type="u4" shape="2000000" offset="{i * step}" size="1000000"'
            return layer(i, "Const", data=data, outputs=[port(0, (2000000,), "U4")])

        layers = [constant(i) for i in range(100)]
        layers += [layer(100 + i, "Result", inputs=[port(0)]) for i in range(100)]
        return net(layers, [(i, 0, 100 + i, 0) for i in range(100)])

    tracemalloc.start()
    try:
        irrun.compile_model(write(tmp_path, overlapping(0), weights, name="same"))
        with pytest.raises(irrun.ModelError, match="constants overlap"):
            irrun.compile_model(write(tmp_path, overlapping(1), weights, name="apart"))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_what_is_no_file_is_not_read_to_its_end(tmp_path):
    """Neither endless devices nor pipes that nobody writes into."""
    path = write(tmp_path, GOOD)
    for model, weights in (("/dev/zero", None), ("a\0b.xml", None), (path, "/dev/zero"), (path, tmp_path)):
        with pytest.raises(irrun.ModelError):
            irrun.read_model(model, weights)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(irrun.ModelError, match="no regular file"):
            irrun.read_model(path, tmp_path / "pipe")
        with pytest.raises(irrun.ModelError, match="it is a pipe"):
            irrun.read_model(tmp_path / "pipe")


def test_a_layer_that_reads_a_result_reads_what_it_is_given(tmp_path):
    """OpenVINO's Result has an output, too."""
    result = layer(1, "Result", inputs=[port(0)], outputs=[port(1)])
    layers = [P, result, layer(2, "Negative", inputs=[port(0)], outputs=[port(1)]), R()]
    model = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 9, 0)])))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(model(x).to_tuple(), [x, -x])


def test_what_a_kernel_fails_on_is_told_with_its_inputs(tmp_path):
    """Relu compares strings with numbers."""
    path = write(tmp_path, GOOD.replace('element_type="f32"', 'element_type="string"'))
    with pytest.raises(irrun.ExecutionError, match=r"layer 1 .*TypeError.*, on inputs string\[2, 3\]$"):
        irrun.run(path, [["a", "b", "c"], ["d", "e", "f"]])


def many_results(count):
    split = layer(1, "Split", "opset1", 'num_splits="2"', [port(0)], [port(i) for i in range(count)])
    results = [layer(10 + i, "Result", inputs=[port(0)]) for i in range(count)]
    return net([P, split, *results], [(0, 0, 1, 0), *[(1, i, 10 + i, 0) for i in range(count)]])


def many_wrong_edges(count):
    concat = layer(1, "Concat", "opset1", 'axis="0"', [port(i) for i in range(count)], [port(0)])
    return net([P, concat, R()], [(0, 0, 1, count + i) for i in range(count)])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [many_results, many_wrong_edges])
def test_many_ports_take_linear_time(make, tmp_path):
    """Ten times the ports take about ten times the calls; 100,000 do not hang."""
    few, many = (calls_to_read(write(tmp_path, make(count), name=f"m{count}")) for count in (1_000, 10_000))
    assert 5 < many / few < 11
    calls_to_read(write(tmp_path, make(100_000)))


def test_a_model_without_any_name(tmp_path):
    layers = [layer(i, "Parameter", data='shape="1" element_type="f32"', outputs=[port(0)], name="") for i in (0, 1)]
    layers.append(layer(2, "Result", inputs=[port(0)], name=""))
    model = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 2, 0)], name="")))
    for tensor in (*model.inputs, *model.outputs):
        assert not tensor.names
        with pytest.raises(irrun.ModelError, match="has no name"):
            tensor.any_name  # noqa: B018
    with pytest.raises(irrun.ModelError, match="the model has \\(unnamed\\)"):
        model.input("x")
    out = model([np.zeros(1, np.float32)] * 2)
    assert list(out.to_dict()) == ["output0"]
    with pytest.raises(KeyError, match="no output 'x'"):
        out["x"]


def test_an_execution_graph_is_told_from_a_model(tmp_path):
    ov = pytest.importorskip("openvino")
    compiled = ov.compile_model(write(tmp_path, chain("Relu", "Relu")), "CPU")
    path = tmp_path / "run.xml"
    ov.serialize(compiled.get_runtime_model(), path)
    with pytest.raises(irrun.ModelError, match=r"no Result.*it is an execution graph"):
        irrun.compile_model(path)
    with pytest.raises(irrun.ModelError, match=r"nothing to compute( \(|$)"):
        irrun.compile_model(write(tmp_path, net([P], [])))


def test_a_message_has_an_end(tmp_path, capsys):
    path = write(tmp_path, GOOD.replace('shape="2,3"', f'shape="{",".join(["1"] * 100_000)}"'))
    code, _, err = outcome([path, "--input", "zeros"], capsys)
    assert code == 2
    assert len(err) < 25_000


def test_constants_that_overlap_are_not_written_one_by_one(tmp_path):
    """A thousand views of a megabyte would fill a gigabyte."""
    weights = b"\0" * (1 << 20)
    layers, edges = [], []
    for i in range(1000):
        data = f'element_type="u8" shape="1000000" offset="{i}" size="1000000"'
        layers.append(layer(i, "Const", data=data, outputs=[port(0, (1000000,), "U8")]))
        layers.append(layer(1000 + i, "Result", inputs=[port(0)]))
        edges.append((i, 0, 1000 + i, 0))
    model = irrun.read_model(write(tmp_path, net(layers, edges), weights))
    with pytest.raises(irrun.ModelError, match=r"layer 9 .*: constants overlap"):
        irrun.save_model(model, tmp_path / "copy.xml")
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".bin", ".xml"]
