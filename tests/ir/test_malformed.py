"""Invalid and hostile files end in a one-line error and exit code 2, in bounded time and memory."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import tracemalloc

import numpy as np
import pytest
from command_line import call
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ir_text import chain, layer, net, port, write

import irrun
from irrun.ir import xml
from irrun.ir.reader import read_findings
from irrun.ir.weights import MissingWeightsError
from irrun.shapes import MAX_RANK

GOOD = chain("Relu", "Relu")

PARAMETER = layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x")


RESULT = layer(9, "Result", inputs=[port(0)])


def make_constant_net(data, out=None, weights=b"\0" * 64):
    """Return a net that adds a constant to its input, and its weights."""
    layers = [PARAMETER, layer(1, "Const", data=data, outputs=[out or port(0, (3,), "FP32")])]
    layers += [layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32")]), RESULT]
    return net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 9, 0)]), weights


def make_unary_net(type, data="", version="opset1"):
    """Return a net of one layer with one input."""
    body = layer(1, type, version, data, [port(0, (2, 3))], [port(1, (2, 3), "FP32")])
    return net([PARAMETER, body, RESULT], [(0, 0, 1, 0), (1, 1, 9, 0)])


def make_iterator_net(
    entry='external_port_id="0" internal_layer_id="0" axis="1"', out=None, back="", body=None, port_map=None
):
    """Return a net with a TensorIterator over the columns of its input."""
    if body is None:
        inner = layer(0, "Parameter", data='shape="2,1" element_type="f32"', outputs=[port(0, (2, 1), "FP32")])
        inner += layer(1, "Result", inputs=[port(0)])
        body = f'<layers>{inner}</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>'
    out = out or 'external_port_id="1" internal_layer_id="1" axis="1"'
    port_map = port_map or f"<input {entry}/><output {out}/>"
    text = f"<port_map>{port_map}</port_map><back_edges>{back}</back_edges><body>{body}</body>"
    it = layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=text)
    return net([PARAMETER, it, RESULT], [(0, 0, 1, 0), (1, 1, 9, 0)])


def make_endless_loop():
    """Return a Loop that concatenates the outputs of 2**62 iterations, and its weights."""
    trips = 'element_type="i64" shape="" offset="0" size="8"'
    start = 'element_type="boolean" shape="" offset="8" size="1"'
    port_map = '<input external_port_id="2" internal_layer_id="0"/>'
    port_map += '<output external_port_id="3" internal_layer_id="1" axis="0"/>'
    body = layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")])
    body += layer(1, "Result", inputs=[port(0)])
    body = f'<layers>{body}</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>'
    inner = f"<port_map>{port_map}</port_map><body>{body}</body>"
    layers = [
        PARAMETER,
        layer(1, "Const", data=trips, outputs=[port(0)]),
        layer(2, "Const", data=start, outputs=[port(0)]),
    ]
    layers += [layer(3, "Loop", "opset5", "", [port(0), port(1), port(2)], [port(3)], inner=inner), RESULT]
    return net(layers, [(1, 0, 3, 0), (2, 0, 3, 1), (0, 0, 3, 2), (3, 3, 9, 0)]), (1 << 62).to_bytes(
        8, "little"
    ) + b"\1"


def make_billion_laughs(levels=10):
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, levels))
    return f'<?xml version="1.0"?><!DOCTYPE net [{entities}]><net name="&a{levels - 1};" version="11"/>'


def make_quadratic_blowup():
    return f'<!DOCTYPE net [<!ENTITY a "{"x" * 50_000}">]><net version="11" name="{"&a;" * 10_000}"/>'


def make_nested_elements(depth):
    return '<net version="11">' + "<layers>" * depth + "</layers>" * depth + "</net>"


def make_nested_bodies(depth):
    text = '<net version="11"><layers>'
    for i in range(depth):
        text += f'<layer id="{i}" type="TensorIterator" version="opset1"><body><layers>'
    return text + "</layers></body></layer>" * depth + "</layers></net>"


FILES = {
    # truncated files, and files of another format
    "empty": "",
    "one byte": "<",
    "first half": GOOD[: len(GOOD) // 2],
    "missing end": GOOD[:-3],
    "end inside a tag": GOOD[: GOOD.index("<layer ") + 12],
    "end inside an attribute": GOOD[: GOOD.index("element_type=") + 15],
    "text": "hello, world",
    "json": '{"net": {}}',
    "html": "<!doctype html><html><body>404</body></html>",
    "zeros": "\0" * 1000,
    "another root": "<model version='11'/>",
    "two roots": GOOD + "<net/>",
    "an unclosed tag": GOOD.replace("</layers>", ""),
    "a wrong closing tag": GOOD.replace("</layers>", "</layer>"),
    "an attribute twice": GOOD.replace('id="1" name', 'id="1" id="2" name'),
    "an unknown encoding": GOOD.replace('version="1.0"?', 'version="1.0" encoding="klingon"?'),
    "a multi-byte encoding": GOOD.replace('version="1.0"?', 'version="1.0" encoding="shift_jis"?'),
    "an undefined entity": GOOD.replace('name="net"', 'name="&what;"'),
    "a control character": GOOD.replace('name="net"', 'name="\x01"'),
    # hostile XML
    "billion laughs": make_billion_laughs(),
    "quadratic blow-up": make_quadratic_blowup(),
    "external entity": '<!DOCTYPE net [<!ENTITY x SYSTEM "file:///etc/passwd">]><net name="&x;" version="11"/>',
    "external entity in text": '<!DOCTYPE n [<!ENTITY x SYSTEM "file:///etc/passwd">]><net version="11">&x;</net>',
    "external dtd": '<!DOCTYPE net SYSTEM "http://localhost:1/x.dtd"><net version="11"/>',
    "public dtd": '<!DOCTYPE net PUBLIC "-//x//y" "http://localhost:1/x.dtd"><net version="11"/>',
    "parameter entity": '<!DOCTYPE net [<!ENTITY % x SYSTEM "file:///etc/hosts"> %x;]><net version="11"/>',
    "a dtd after a comment": "<!-- " + "x" * 100_000 + ' --><!DOCTYPE net [<!ENTITY a "b">]><net version="11"/>',
    "deep nesting": make_nested_elements(100_000),
    "deep bodies": make_nested_bodies(5_000),
    # the net
    "no layers": '<net version="11"/>',
    "no layers inside": '<net version="11"><layers/><edges/></net>',
    "version zero": GOOD.replace('version="11"', 'version="0"'),
    "unsupported version": GOOD.replace('version="11"', 'version="99"'),
    "version of 5000 digits": GOOD.replace('version="11"', f'version="{"9" * 5000}"'),
    "opset of 5000 digits": make_unary_net("Relu", version="opset" + "9" * 5000),
    "infinite attribute": make_unary_net("Concat", 'axis="1e400"'),
    "attribute that is not a number": make_unary_net("Concat", 'axis="nan"'),
    "attribute of 100000 letters": make_unary_net("Concat", f'axis="{"x" * 100_000}"'),
    "name that moves the cursor": make_unary_net("NoSuchThing&#x9b;31m&#10;x"),
    "version in words": GOOD.replace('version="11"', 'version="eleven"'),
    "no result": net([PARAMETER], []),
    "unconnected result": net([PARAMETER, RESULT], []),
    # layers, ports, edges
    "layer without id": GOOD.replace('layer id="1"', "layer"),
    "layer with a word for an id": GOOD.replace('layer id="1"', 'layer id="one"'),
    "layer with a huge id": GOOD.replace('layer id="1"', 'layer id="99999999999999999999999"'),
    "layer without type": GOOD.replace(' type="Relu"', "", 1),
    "two layers with one id": GOOD.replace('layer id="2"', 'layer id="1"'),
    "port without id": GOOD.replace('<port id="1"', "<port", 1),
    "two ports with one id": make_unary_net("Relu").replace(
        '<port id="0"><dim>2</dim><dim>3</dim></port></input>', "<port id='0'/><port id='0'/></input>"
    ),
    "unknown precision": GOOD.replace('precision="FP32"', 'precision="FP31"', 1),
    "unknown element type": GOOD.replace('element_type="f32"', 'element_type="f31"'),
    "dimension in words": GOOD.replace("<dim>2</dim>", "<dim>two</dim>", 1),
    "negative dimension": GOOD.replace("<dim>2</dim>", "<dim>-7</dim>", 1),
    "bad shape attribute": GOOD.replace('shape="2,3"', 'shape="2,,3"'),
    "edge from a missing layer": GOOD.replace('from-layer="0"', 'from-layer="77"'),
    "edge to a missing layer": GOOD.replace('to-layer="1"', 'to-layer="77"'),
    "edge from a missing port": GOOD.replace('from-layer="0" from-port="0"', 'from-layer="0" from-port="5"'),
    "edge to a missing port": GOOD.replace('to-layer="1" to-port="0"', 'to-layer="1" to-port="5"'),
    "edge without a port": GOOD.replace(' to-port="0"', "", 1),
    "edge of words": GOOD.replace('from-layer="0"', 'from-layer="zero"'),
    "two edges into one port": GOOD.replace(
        "<edges>", '<edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>'
    ),
    "cycle of one": net(
        [PARAMETER, layer(1, "Relu", inputs=[port(0)], outputs=[port(1)]), RESULT], [(1, 1, 1, 0), (0, 0, 9, 0)]
    ),
    "cycle of two": net(
        [PARAMETER, *[layer(i, "Relu", inputs=[port(0)], outputs=[port(1)]) for i in (1, 2)], RESULT],
        [(1, 1, 2, 0), (2, 1, 1, 0), (0, 0, 9, 0)],
    ),
    "unconnected input": net(
        [PARAMETER, layer(1, "Add", inputs=[port(0), port(1)], outputs=[port(2)]), RESULT], [(0, 0, 1, 0), (1, 2, 9, 0)]
    ),
    "too many inputs": net(
        [PARAMETER, layer(1, "Relu", inputs=[port(0), port(1)], outputs=[port(2)]), RESULT],
        [(0, 0, 1, 0), (0, 0, 1, 1), (1, 2, 9, 0)],
    ),
    # attributes
    "unknown operation": make_unary_net("NoSuchThing"),
    "unknown opset": make_unary_net("Relu", version="opsetX"),
    "missing attribute": make_unary_net("Concat"),
    "attribute of a wrong type": make_unary_net("Concat", 'axis="first"'),
    "attribute outside its range": make_unary_net("Concat", 'axis="17"'),
    "attribute outside its choices": make_unary_net("Gelu", 'approximation_mode="guess"', "opset7"),
    # ports that an operation does not have
    "a second output of a parameter": net(
        [layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0), port(1)]), RESULT],
        [(0, 1, 9, 0)],
    ),
    "a second output of a constant": make_constant_net('element_type="f32" shape="3" offset="0" size="12"')[0]
    .replace('FP32"><dim>3</dim></port>', 'FP32"><dim>3</dim></port><port id="7"/>')
    .replace('from-layer="1" from-port="0"', 'from-layer="1" from-port="7"'),
    "a second output of an operation that has one": net(
        [PARAMETER, layer(1, "Relu", inputs=[port(0)], outputs=[port(1), port(2)]), RESULT],
        [(0, 0, 1, 0), (1, 2, 9, 0)],
    ),
    "a second input of a result": net(
        [PARAMETER, layer(9, "Result", inputs=[port(0), port(1)])], [(0, 0, 9, 0), (0, 0, 9, 1)]
    ),
    "a result that reads its second input alone": net(
        [PARAMETER, layer(9, "Result", inputs=[port(0), port(1)])], [(0, 0, 9, 1)]
    ),
    "more dimensions than an array may have": GOOD.replace('shape="2,3"', f'shape="{",".join(["1"] * 200)}"'),
    "too many attributes": make_unary_net("Concat", " ".join(f'a{i}="1"' for i in range(100_000))),
    "too many attributes in legacy IR": f"""<net version="7"><layers><layer id="0" type="ReLU"><data {
        " ".join(f'a{i}="1"' for i in range(100_000))
    }/></layer></layers></net>""",
    # constants
    "bin too short": make_constant_net('element_type="f32" shape="3" offset="60" size="12"'),
    "bin missing": make_constant_net('element_type="f32" shape="3" offset="0" size="12"', weights=None),
    "bin empty": make_constant_net('element_type="f32" shape="3" offset="0" size="12"', weights=b""),
    "offset beyond the end": make_constant_net('element_type="f32" shape="3" offset="99999999999999" size="12"'),
    "negative offset": make_constant_net('element_type="f32" shape="3" offset="-4" size="12"'),
    "negative size": make_constant_net('element_type="f32" shape="3" offset="0" size="-12"'),
    "size too small": make_constant_net('element_type="f32" shape="3" offset="0" size="8"'),
    "offset in words": make_constant_net('element_type="f32" shape="3" offset="start" size="12"'),
    "a shape of 2**62 elements": make_constant_net(
        'element_type="f32" shape="4611686018427387904" offset="0" size="12"'
    ),
    "a shape that overflows": make_constant_net('element_type="u8" shape="4294967296,4294967296" offset="0" size="0"'),
    "a dynamic shape": make_constant_net('element_type="f32" shape="?" offset="0" size="12"'),
    "no type at all": make_constant_net('offset="0" size="12"', port(0, (3,))),
    "string constant with invalid offsets": make_constant_net(
        'element_type="string" shape="2" offset="0" size="64"', port(0, (2,), "STRING"), b"\xff" * 64
    ),
    # port maps
    "port map to a missing body layer": make_iterator_net('external_port_id="0" internal_layer_id="7" axis="1"'),
    "port map to a layer of another kind": make_iterator_net('external_port_id="0" internal_layer_id="1" axis="1"'),
    "port map from a missing port": make_iterator_net('external_port_id="4" internal_layer_id="0" axis="1"'),
    "port map output from a parameter": make_iterator_net(out='external_port_id="1" internal_layer_id="0" axis="1"'),
    "port map without ids": make_iterator_net('axis="1"'),
    "port map of words": make_iterator_net('external_port_id="0" internal_layer_id="0" axis="x"'),
    "port map of something else": make_iterator_net(port_map="<what/>"),
    "back edge to a missing layer": make_iterator_net(back='<edge from-layer="1" to-layer="5"/>'),
    "back edge of words": make_iterator_net(back='<edge from-layer="a" to-layer="0"/>'),
    "back edge the wrong way round": make_iterator_net(back='<edge from-layer="0" to-layer="1"/>'),
    "a loop whose outputs exceed the memory": make_endless_loop(),
    "iterator without a body": make_unary_net("TensorIterator"),
    "body without layers": make_iterator_net(body="<edges/>"),
    "stride of zero": make_iterator_net('external_port_id="0" internal_layer_id="0" axis="1" stride="0"'),
    "part size of zero": make_iterator_net('external_port_id="0" internal_layer_id="0" axis="1" part_size="0"'),
    "axis outside the rank": make_iterator_net('external_port_id="0" internal_layer_id="0" axis="5"'),
    "start beyond the axis": make_iterator_net('external_port_id="0" internal_layer_id="0" axis="1" start="50"'),
    "a stride that does not divide the axis": make_iterator_net(
        'external_port_id="0" internal_layer_id="0" axis="1" stride="2" part_size="2"'
    ),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", FILES)
def test_invalid_file_is_reported_in_one_line(name, tmp_path, capsys):
    """Exit code 2, one line on stderr, nothing on stdout, less than 64 MB."""
    text, weights = FILES[name] if isinstance(FILES[name], tuple) else (FILES[name], b"")
    path = write(tmp_path, text, weights)
    tracemalloc.start()
    try:
        code, out, err = call(capsys, path, "--input", "random", "--output", tmp_path / "out.npz")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert code == 2, (out, err)
    assert err.startswith("irrun: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert all(c.isprintable() for c in err[:-1])
    assert len(err) < 1000
    unsupported = ("unknown operation", "unknown opset", "opset of 5000 digits", "name that moves the cursor")
    assert ("unsupported operations" in err) == (name in unsupported)
    assert not out
    assert not (tmp_path / "out.npz").exists()
    assert peak < 64 << 20


def test_files_are_at_least_60():
    assert len(FILES) >= 60


SEED = make_iterator_net().encode()


@settings(
    max_examples=400, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.binary(min_size=0, max_size=3)), min_size=1, max_size=6)
)
@example(edits=[(SEED.index(b"2,3"), b"9")])
def test_randomly_edited_file_runs_or_raises_irrun_error(edits, tmp_path):
    """A file with random changes either runs or raises an IrrunError."""
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
            if shape is None or not shape.is_static or math.prod(shape) > 1e6:
                return
        compiled([np.ones(t.shape, (t.element_type or irrun.ElementType.parse("f32")).dtype) for t in compiled.inputs])


@settings(
    max_examples=200, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_rejected(data, tmp_path):
    path = tmp_path / "model.xml"
    path.write_bytes(data)
    with pytest.raises(irrun.ModelError):
        irrun.read_model(path)


def count_calls(path):
    """Return the number of calls of Python and C functions while a model is read."""
    count = 0

    def count_call(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        with contextlib.suppress(irrun.ModelError):
            assert irrun.read_model(path).outputs
    finally:
        sys.setprofile(None)
    return count


def test_reading_takes_linear_time_in_the_number_of_layers(tmp_path):
    """Ten times the layers take about ten times the calls, and 100,000 layers can be read."""
    few, many = (
        count_calls(write(tmp_path, chain(*["Relu"] * count, shape=(1,)), name=f"m{count}"))
        for count in (1_000, 10_000)
    )
    assert 5 < many / few < 11
    path = write(tmp_path, chain(*["Relu"] * 100_000, shape=(1,)))
    assert len(irrun.read_model(path).graph.layers) == 100_002


def make_constant_graph(make):
    """Return a net without inputs, and its weights. `make` adds layers with `add(type, inputs, data)`."""
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


def add_constant(add, value):
    return add("Const", value=value)


def add_broadcast(add, *shape):
    return add("Broadcast", [add_constant(add, np.float32(1)), add_constant(add, np.array(shape))])


def add_repeated(add, type, count, value):
    for _ in range(count):
        value = add(type, [value, value] if type == "Add" else [value])
    return value


EXPANDING_CONSTANTS = {
    "a sum of 4 GiB": lambda add: add_repeated(add, "Add", 1, add_broadcast(add, 1 << 30)),
    "many sums of 64 MiB": lambda add: add_repeated(add, "Add", 2000, add_broadcast(add, 1 << 24)),
    "many sums of 1 KiB": lambda add: add_repeated(add, "Add", 2000, add_broadcast(add, 1 << 8)),
    "an outer sum": lambda add: add("Add", [add_broadcast(add, 1 << 15, 1), add_broadcast(add, 1 << 15)]),
    "an outer product": lambda add: add(
        "MatMul",
        [add_broadcast(add, 1 << 15, 1), add_broadcast(add, 1, 1 << 15)],
        'transpose_a="false" transpose_b="false"',
    ),
    "a long product": lambda add: add(
        "MatMul",
        [add_broadcast(add, 1 << 13, 1 << 12), add_broadcast(add, 1 << 12, 1 << 13)],
        'transpose_a="0" transpose_b="0"',
    ),
    "a wider type": lambda add: add("Convert", [add_broadcast(add, 1 << 27)], 'destination_type="f64"'),
    "a tile": lambda add: add("Tile", [add_broadcast(add, 1 << 10), add_constant(add, np.array([1 << 20]))]),
    "rows of a table": lambda add: add(
        "Gather",
        [
            add_broadcast(add, 1, 1 << 20),
            add_constant(add, np.zeros(1 << 10, np.int64)),
            add_constant(add, np.int64(0)),
        ],
    ),
    "many places": lambda add: add("NonZero", [add_broadcast(add, 1 << 10, 1 << 15)], 'output_type="i64"'),
    "a long transform": lambda add: add("Softmax", [add_broadcast(add, 1 << 28)], 'axis="0"'),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", EXPANDING_CONSTANTS)
def test_compiling_takes_little_memory_if_folded_constants_would_be_large(name, tmp_path):
    """Declared shapes are wrong here: each port declares [1]."""
    path = write(tmp_path, *make_constant_graph(EXPANDING_CONSTANTS[name]))
    tracemalloc.start()
    try:
        irrun.compile_model(path)
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_overlapping_constants_are_unpacked_once_or_rejected(tmp_path):
    """A hundred constants of the same bytes share one array. A hundred that start one byte apart are rejected."""
    weights = b"\0" * (1 << 20)

    def overlapping(step):
        def make_constant(i):
            data = f'element_type="u4" shape="2000000" offset="{i * step}" size="1000000"'
            return layer(i, "Const", data=data, outputs=[port(0, (2000000,), "U4")])

        layers = [make_constant(i) for i in range(100)]
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


def test_small_constants_may_overlap(tmp_path):
    """Nine constants of 60 of the 64 bytes take more than eight times as much when they are unpacked."""
    constants = [
        layer(i, "Const", data=f'element_type="u4" shape="{120 - i}" offset="{i % 4}" size="60"',
              outputs=[port(0, (120 - i,), "U4")])
        for i in range(9)
    ]  # fmt: skip
    results = [layer(9 + i, "Result", inputs=[port(0)]) for i in range(9)]
    text = net(constants + results, [(i, 0, 9 + i, 0) for i in range(9)])
    compiled = irrun.compile_model(write(tmp_path, text, bytes(range(64))))
    assert [int(value[0]) for value in compiled().to_tuple()] == [i % 4 for i in range(9)]


def test_devices_and_pipes_are_rejected(tmp_path):
    """Neither endless devices nor pipes without a writer block reading."""
    path = write(tmp_path, GOOD)
    for model, weights in (("/dev/zero", None), ("a\0b.xml", None), (path, "/dev/zero"), (path, tmp_path)):
        with pytest.raises(irrun.ModelError):
            irrun.read_model(model, weights)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(irrun.ModelError, match="cannot read the weights: expected a regular file"):
            irrun.read_model(path, tmp_path / "pipe")
        with pytest.raises(irrun.ModelError, match="expected a regular file, found a pipe"):
            irrun.read_model(tmp_path / "pipe")


def test_consumer_of_a_result_reads_its_input(tmp_path):
    """In OpenVINO a Result has an output, too."""
    result = layer(1, "Result", inputs=[port(0)], outputs=[port(1)])
    layers = [PARAMETER, result, layer(2, "Negative", inputs=[port(0)], outputs=[port(1)]), RESULT]
    model = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 9, 0)])))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(model(x).to_tuple(), [x, -x])


def test_kernel_error_describes_inputs(tmp_path):
    """Relu compares strings with numbers."""
    path = write(tmp_path, GOOD.replace('element_type="f32"', 'element_type="string"'))
    with pytest.raises(irrun.ExecutionError, match=r"layer 1 .*TypeError.*, for inputs string\[2, 3\]$"):
        irrun.run(path, [["a", "b", "c"], ["d", "e", "f"]])


def make_many_results(count):
    split = layer(1, "Split", "opset1", 'num_splits="2"', [port(0)], [port(i) for i in range(count)])
    results = [layer(10 + i, "Result", inputs=[port(0)]) for i in range(count)]
    return net([PARAMETER, split, *results], [(0, 0, 1, 0), *[(1, i, 10 + i, 0) for i in range(count)]])


def make_many_invalid_edges(count):
    concat = layer(1, "Concat", "opset1", 'axis="0"', [port(i) for i in range(count)], [port(0)])
    return net([PARAMETER, concat, RESULT], [(0, 0, 1, count + i) for i in range(count)])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [make_many_results, make_many_invalid_edges])
def test_reading_takes_linear_time_in_the_number_of_ports(make, tmp_path):
    """Ten times the ports take about ten times the calls, and 100,000 can be read."""
    few, many = (count_calls(write(tmp_path, make(count), name=f"m{count}")) for count in (1_000, 10_000))
    assert 5 < many / few < 11
    with contextlib.suppress(irrun.ModelError):
        assert irrun.read_model(write(tmp_path, make(100_000))).outputs


def test_model_without_names_runs(tmp_path):
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
    with pytest.raises(KeyError, match="unknown output 'x'"):
        out["x"]


def test_execution_graph_is_recognized(tmp_path):
    ov = pytest.importorskip("openvino")
    compiled = ov.compile_model(write(tmp_path, chain("Relu", "Relu")), "CPU")
    path = tmp_path / "run.xml"
    ov.serialize(compiled.get_runtime_model(), path)
    with pytest.raises(irrun.ModelError, match=r"no Result.*it is an execution graph"):
        irrun.compile_model(path)
    with pytest.raises(irrun.ModelError, match=r"nothing to compute( \(|$)"):
        irrun.compile_model(write(tmp_path, net([PARAMETER], [])))


def test_long_message_is_truncated(tmp_path, capsys):
    path = write(tmp_path, GOOD.replace('shape="2,3"', f'shape="{",".join(["1"] * 100_000)}"'))
    code, _, err = call(capsys, path, "--input", "zeros")
    assert code == 2
    assert len(err) < 25_000


def test_overlapping_constants_are_not_written(tmp_path):
    """A thousand constants that share a megabyte would take a gigabyte."""
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


def test_dtd_is_reported_with_its_line(tmp_path):
    path = write(
        tmp_path, '<?xml version="1.0"?>\n<!-- model -->\n<!DOCTYPE net [<!ENTITY a "b">]>\n<net version="11"/>'
    )
    with pytest.raises(
        irrun.ModelError, match=r"model\.xml:3: DTDs are not allowed in model files, found <!DOCTYPE net>"
    ):
        irrun.read_model(path)


def test_error_states_how_many_more_there_are(tmp_path):
    text = chain("Relu", "Relu", "Relu")
    for count, more in ((1, None), (2, "and 1 more, listed by irrun validate")):
        with pytest.raises(irrun.ModelError, match="output port 9") as caught:
            irrun.read_model(write(tmp_path, text.replace('from-port="1" to', 'from-port="9" to', count)))
        assert more in str(caught.value) if more else "more" not in str(caught.value)


def test_size_of_a_file_is_limited(tmp_path, monkeypatch):
    path = write(tmp_path, chain("Relu"))
    size = path.stat().st_size
    monkeypatch.setattr(xml, "MAX_SIZE", size)
    assert irrun.read_model(path).inputs
    monkeypatch.setattr(xml, "MAX_SIZE", size - 1)
    with pytest.raises(irrun.ModelError, match=f"expected at most {size - 1} bytes, found {size}"):
        irrun.read_model(path)
    monkeypatch.setattr("irrun.ir.xml.os.stat", lambda path: os.stat_result((0,) * 10))  # a file that grows
    with pytest.raises(irrun.ModelError, match=f"expected at most {size - 1} bytes, found more"):
        irrun.read_model(path)


def test_number_of_dimensions_is_limited(tmp_path):
    for rank, is_valid in ((MAX_RANK, True), (MAX_RANK + 1, False)):
        text = chain("Relu").replace("<dim>2</dim>", "<dim>1</dim>" * (rank - 1))
        _, findings = read_findings(write(tmp_path, text))
        messages = {finding.message for finding in findings}
        assert any(f"expected at most {MAX_RANK} dimensions, found {rank}" in m for m in messages) != is_valid


def test_constant_outside_of_the_weights_is_a_finding(tmp_path):
    text, weights = make_constant_net('element_type="f32" shape="3" offset="60" size="12"')
    model, findings = read_findings(write(tmp_path, text, weights))
    assert [finding.message for finding in findings] == [
        f"requires bytes 60 to 72 of {tmp_path / 'model.bin'}, found 64 bytes"
    ]
    assert model.graph.layers[1].constant is None


def test_missing_weights_are_reported_by_findings_and_compilation(tmp_path):
    text, _ = make_constant_net('element_type="f32" shape="3" offset="0" size="12"')
    path = write(tmp_path, text, None)
    model, findings = read_findings(path)
    (finding,) = findings
    assert finding.message.startswith(f"the weights file {tmp_path / 'model.bin'} is missing")
    assert finding.message.endswith("; 1 constant requires it")
    constant = model.graph.layers[1].constant
    assert constant is not None
    assert (constant.data, constant.size, constant.shape) == (None, 12, (3,))
    with pytest.raises(MissingWeightsError, match=r"layer 1 .*model\.bin is missing"):
        irrun.compile_model(irrun.read_model(path, check=False))
    with pytest.raises(MissingWeightsError, match=r"model\.bin is missing"):
        irrun.save_model(model, tmp_path / "copy.xml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<!-- a -- b -->\n<net/>", 2),
        ("\n<net><layers></net>", 3),
        ("<net", 2),
    ],
)
def test_xml_that_is_not_well_formed_is_reported_with_its_line(text, line, tmp_path):
    path = tmp_path / "model.xml"
    path.write_text(f'<?xml version="1.0"?>\n{text}')
    with pytest.raises(irrun.ModelError, match=f"^{re.escape(str(path))}:{line}: not well-formed XML: "):
        irrun.read_model(path)
