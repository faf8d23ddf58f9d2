"""Small files that once took minutes, gigabytes, or ended in a traceback; run one with `python cases.py NAME`.

A case may end normally or with an `IrrunError`. Any other exception is a defect. `refused` cases must end with an error
that matches a pattern.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ir_text import graph, layer, net, port, write

CASES: dict[str, tuple[Callable[[Path], object], str]] = {}


def case(refused: str = ""):
    """Register a case; `refused` is a pattern of the error that it must end with, empty if any end is fine."""

    def register(function):
        CASES[function.__name__] = (function, refused)
        return function

    return register


def read(folder, text, weights=b""):
    import irrun

    return irrun.read_model(write(folder, text, weights))


def compile_text(folder, text, weights=b"", **options):
    import irrun

    return irrun.compile_model(write(folder, text, weights), **options)


def read_peak():
    """Return the peak of the resident memory in bytes.

    Not by getrusage: its figure is at least the memory of the process that started this one.
    """
    from irrun.inspection.peak_memory import read_peak

    return read_peak()


def run_cli(*args):
    """Run the command line and raise what it reports as a RuntimeError."""
    import contextlib
    import io

    from irrun import IrrunError
    from irrun.cli import main

    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            main([str(a) for a in args])
    except SystemExit as end:
        if "Warning" in errors.getvalue() or "Traceback" in errors.getvalue():
            raise RuntimeError(errors.getvalue()) from None
        raise IrrunError(f"exit {end.code}: {errors.getvalue()}") from None
    if "Warning" in errors.getvalue():
        raise RuntimeError(errors.getvalue())


def parameter(id, shape, type="f32"):
    text = ",".join(map(str, shape))
    return layer(id, "Parameter", data=f'shape="{text}" element_type="{type}"', outputs=[port(0, shape)])


def constant(id, shape, type="f32", offset=0, size=None):
    text = ",".join(map(str, shape))
    bits = {"f32": 4, "f16": 2, "i64": 8, "u8": 1, "i32": 4, "boolean": 1}[type]
    size = int(np.prod(shape)) * bits if size is None else size
    return layer(
        id,
        "Const",
        data=f'element_type="{type}" shape="{text}" offset="{offset}" size="{size}"',
        outputs=[port(0, shape)],
    )


def single(type, shapes, version="opset8", data="", types=(), outputs=1, constants=()):
    """Return a net of one layer whose inputs are Parameters, or constants for the positions in `constants`."""
    layers, edges = [], []
    count = len(shapes)
    for i, shape in enumerate(shapes):
        kind = types[i] if types else "f32"
        layers.append(constants[i] if i in dict(enumerate(constants)) and constants[i] else parameter(i, shape, kind))
        edges.append((i, 0, count, i))
    layers.append(
        layer(count, type, version, data, [port(i) for i in range(count)], [port(count + i) for i in range(outputs)])
    )
    for i in range(outputs):
        layers.append(layer(count + 1 + i, "Result", inputs=[port(0)]))
        edges.append((count, count + i, count + 1 + i, 0))
    return net(layers, edges)


def run_single(folder, type, shapes, version="opset8", data="", types=(), outputs=1, arrays=None):
    compiled = compile_text(folder, single(type, shapes, version, data, types, outputs))
    if arrays is None:
        kinds = types or ["f32"] * len(shapes)
        arrays = [np.zeros(s, {"f32": "f4", "i32": "i4", "i64": "i8"}[k]) for s, k in zip(shapes, kinds, strict=True)]
    return compiled(arrays, timeout=20)


# ------------------------------------------------------------------- reading


def iterator(count_bodies=1, entries="", body=None, inputs=1, outputs=1):
    body = (
        body or "<body>" + graph([parameter(0, (1,)), layer(1, "Result", inputs=[port(0)])], [(0, 0, 1, 0)]) + "</body>"
    )
    return layer(
        1,
        "TensorIterator",
        inputs=[port(i) for i in range(inputs)],
        outputs=[port(inputs + i) for i in range(outputs)],
        inner=body * count_bodies + f"<port_map>{entries}</port_map>",
    )


@case()
def many_bodies_and_port_map_entries(folder):
    entries = '<input external_port_id="0" internal_layer_id="0"/>' * 4000
    body = '<body><layers><layer id="0" type="Parameter" name="p"/></layers></body>'
    read(folder, net([parameter(0, (1,)), iterator(4000, entries, body)], [(0, 0, 1, 0)]))


@case()
def many_empty_bodies(folder):
    read(folder, net([parameter(0, (1,)), iterator(100_000, "", "<body/>")], []))


def legacy(layers, edges=""):
    return f'<net name="n" version="6" batch="1"><layers>{layers}</layers><edges>{edges}</edges></net>'


@case()
def legacy_layers_of_one_name(folder):
    layers = '<layer id="0" name="same" type="Input" precision="FP32"><output><port id="0"><dim>1</dim></port></output></layer>'
    edges = ""
    for i in range(1, 10_000):
        layers += (
            f'<layer id="{i}" name="same" type="Power" precision="FP32"><data power="2" scale="3" shift="1"/>'
            '<input><port id="0"><dim>1</dim></port></input><output><port id="1"><dim>1</dim></port></output></layer>'
        )
        edges += f'<edge from-layer="{i - 1}" from-port="{0 if i == 1 else 1}" to-layer="{i}" to-port="0"/>'
    read(folder, legacy(layers, edges))


@case()
def legacy_layer_with_open_inputs(folder):
    ports = "".join(f'<port id="{i}"><dim>1</dim></port>' for i in range(50_000))
    layers = (
        f'<layer id="0" name="c" type="Concat" precision="FP32"><data axis="0"/><input>{ports}</input>'
        '<output><port id="50000"><dim>50000</dim></port></output></layer>'
    )
    read(folder, legacy(layers))


@case("dimensions")
def shape_of_many_long_dimensions(folder):
    for digits, function in ((19, attempt), (18, call)):
        shape = ",".join(["9" * digits] * 100_000)
        data = f'element_type="f32" shape="{shape}" offset="0" size="4"'
        function(read, folder, net([layer(0, "Const", data=data, outputs=[port(0)])], []), b"1234")


@case("dimensions")
def port_of_many_long_dimensions(folder):
    text = net(
        [layer(0, "Const", data='element_type="f32" offset="0" size="4"', outputs=[port(0, ["9" * 18] * 100_000)])], []
    )
    read(folder, text, b"1234")


@case()
def chained_iterators(folder):
    layers, edges = [parameter(0, (1,))], []
    body = "<body>" + graph([parameter(0, (1,)), layer(1, "Result", inputs=[port(0)])], [(0, 0, 1, 0)]) + "</body>"
    entries = '<input external_port_id="0" internal_layer_id="0"/><output external_port_id="1" internal_layer_id="1"/>'
    for i in range(1, 8000):
        layers.append(
            layer(
                i, "TensorIterator", inputs=[port(0)], outputs=[port(1)], inner=body + f"<port_map>{entries}</port_map>"
            )
        )
        edges.append((i - 1, 0 if i == 1 else 1, i, 0))
    layers.append(layer(8000, "Result", inputs=[port(0)]))
    edges.append((7999, 1, 8000, 0))
    compile_text(folder, net(layers, edges))(np.ones(1, "f4"))


@case("FIFO|pipe|regular")
def fifo_below_dev(folder):
    import irrun

    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        raise irrun.IrrunError("no writable folder below /dev for a FIFO")
    path = shm / f"irrun-{os.getpid()}.xml"
    os.mkfifo(path)
    try:
        irrun.read_model(path)
    finally:
        path.unlink()


@case("digits|integer|dimension")
def shape_of_5000_digits(folder):
    read(folder, net([parameter(0, ("9" * 5000,))], []))


@case("digits|integer")
def offset_of_5000_digits(folder):
    data = f'element_type="f32" shape="1" offset="{"9" * 5000}" size="4"'
    read(folder, net([layer(0, "Const", data=data, outputs=[port(0, (1,))])], []))


@case("integer|digits")
def legacy_dimension_of_5000_digits(folder):
    layers = f'<layer id="0" name="i" type="Input" precision="FP32"><output><port id="0"><dim>{"9" * 5000}</dim></port></output></layer>'
    read(folder, legacy(layers))


@case()
def encodings(folder):
    import irrun

    text = net([parameter(0, (1,))], [])
    for name in (
        "gbk",
        "utf-7",
        "utf-32",
        "idna",
        "utf-16",
        "cp037",
        "hex",
        "undefined",
        "punycode",
        "rot13",
        "x" * 99,
    ):
        head = f'<?xml version="1.0" encoding="{name}"?>'.encode()
        for payload in (head + text.partition("?>")[2].encode(), head + b"\xff\xfe\x00" * 50):
            try:
                irrun.read_model(payload)
            except irrun.IrrunError as error:
                print(error)


@case("at most 1073741824 bytes")
def sparse_xml(folder):
    import irrun

    path = folder / "model.xml"
    with open(path, "wb") as file:
        file.write(b'<?xml version="1.0"?><net name="n" version="11"><!--')
        file.truncate(3 << 30)
    irrun.read_model(path)


@case("memory|dimension|range|large")
def legacy_memory_of_large_dimensions(folder):
    import irrun

    shape = f"<dim>{1 << 70}</dim>"
    layers = (
        f'<layer id="0" name="r" type="Memory" precision="FP32"><data id="m" index="1" size="2"/><output><port id="0">{shape}'
        f'</port></output></layer><layer id="1" name="w" type="Memory" precision="FP32"><data id="m" index="0" size="2"/>'
        f'<input><port id="0">{shape}</port></input></layer>'
    )
    text = legacy(layers, '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>')
    irrun.compile_model(write(folder, text))()


# ---------------------------------------------------------- compiling


@case()
def split_of_a_constant_into_many(folder):
    count = 8000
    lengths = np.ones(count, np.int64)
    weights = np.zeros(count, np.float32).tobytes() + np.int64(0).tobytes() + lengths.tobytes()
    layers = [
        constant(0, (count,)),
        constant(1, (), "i64", 4 * count, 8),
        constant(2, (count,), "i64", 4 * count + 8),
        layer(3, "VariadicSplit", inputs=[port(i) for i in range(3)], outputs=[port(3 + i) for i in range(count)]),
    ]
    edges = [(i, 0, 3, i) for i in range(3)]
    for i in range(count):
        layers.append(layer(4 + i, "Result", inputs=[port(0)]))
        edges.append((3, 3 + i, 4 + i, 0))
    compile_text(folder, net(layers, edges), weights)()


@case("axis|rank|expected")
def chain_that_fails_to_fold(folder):
    count = 8000
    layers = [constant(0, (2,)), layer(1, "Softmax", data='axis="7"', inputs=[port(0)], outputs=[port(1)])]
    edges = [(0, 0, 1, 0)]
    for i in range(2, count):
        layers.append(layer(i, "ReLU", inputs=[port(0)], outputs=[port(1)]))
        edges.append((i - 1, 1, i, 0))
    layers.append(parameter(count, (2,)))
    layers.append(
        layer(count + 1, "Concat", data='axis="0"', inputs=[port(i) for i in range(count)], outputs=[port(count)])
    )
    edges += [(i, 1, count + 1, i) for i in range(1, count)] + [(count, 0, count + 1, 0)]
    layers.append(layer(count + 2, "Result", inputs=[port(0)]))
    edges.append((count + 1, count, count + 2, 0))
    compile_text(folder, net(layers, edges), np.zeros(2, "f4").tobytes())(np.zeros(2, "f4"))


@case()
def many_results(folder):
    count = 30_000
    layers, edges = [parameter(0, (2,))], []
    for i in range(1, count):
        layers.append(layer(i, "Result", inputs=[port(0)]))
        edges.append((0, 0, i, 0))
    compile_text(folder, net(layers, edges))(np.zeros(2, "f4"))


@case()
def decompression_of_one_constant_many_times(folder):
    count, size = 160, 2 << 20
    layers = [constant(0, (size,), "f16")]
    edges = []
    for i in range(count):
        multiply, convert, result = 1 + 3 * i, 2 + 3 * i, 3 + 3 * i
        layers.append(layer(multiply, "Multiply", inputs=[port(0), port(1)], outputs=[port(2, (size,), "FP16")]))
        layers.append(
            layer(
                convert, "Convert", data='destination_type="f32"', inputs=[port(0)], outputs=[port(1, (size,), "FP32")]
            )
        )
        layers.append(layer(result, "Result", inputs=[port(0)]))
        edges += [(0, 0, multiply, 0), (0, 0, multiply, 1), (multiply, 2, convert, 0), (convert, 1, result, 0)]
    compile_text(folder, net(layers, edges), np.ones(size, np.float16).tobytes(), memory="1G")
    peak = read_peak()
    assert peak < 1 << 30, peak


# -------------------------------------------------- loops over nothing


@case()
def pooling_over_nothing(folder):
    for type in ("MaxPool", "AvgPool"):
        data = 'strides="1,1" kernel="1000000000,1" pads_begin="999999999,0" pads_end="0,0" exclude-pad="true" rounding_type="floor" auto_pad="explicit"'
        for shape in ((0, 1, 1, 1), (1, 1, 1, 1)):
            attempt(run_single, folder, type, [shape], "opset1", data)


@case("iterations|slices|elements")
def iterator_over_nothing(folder):
    body = "<body>" + graph([parameter(0, (0, 1)), layer(1, "Result", inputs=[port(0)])], [(0, 0, 1, 0)]) + "</body>"
    entries = (
        '<input external_port_id="0" internal_layer_id="0" axis="1" part_size="1" stride="1" start="0" end="-1"/>'
        '<output external_port_id="1" internal_layer_id="1" axis="1" part_size="1" stride="1"/>'
    )
    layers = [parameter(0, (0, 999999999)), iterator(1, entries, body), layer(2, "Result", inputs=[port(0)])]
    compile_text(folder, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)]))(np.zeros((0, 999999999), "f4"))


@case()
def gather_tree_over_nothing(folder):
    shape = (3_000_000_000, 0, 1)
    attempt(run_single, folder, "GatherTree", [shape, shape, (0,), ()], "opset1", types=["i32"] * 4)
    shape = (100_000_000, 0, 1)
    run_single(folder, "GatherTree", [shape, shape, (0,), ()], "opset1", types=["i32"] * 4)


@case()
def lstm_sequence_over_nothing(folder):
    hidden, size = 2, 1
    shapes = [
        (0, 1_000_000, size),
        (0, 1, hidden),
        (0, 1, hidden),
        (0,),
        (1, 4 * hidden, size),
        (1, 4 * hidden, hidden),
        (1, 4 * hidden),
    ]
    types = ["f32", "f32", "f32", "i32", "f32", "f32", "f32"]
    run_single(folder, "LSTMSequence", shapes, "opset5", 'direction="forward" hidden_size="2"', types, 3)


@case()
def nms_over_nothing(folder):
    for type in ("MatrixNms", "MulticlassNms"):
        attempt(run_single, folder, type, [(1, 0, 4), (1, 1_000_000_000, 0)], "opset8", "", (), 3)


# ------------------------------------------------------------- memory


def call(function, *args, **kwargs):
    return function(*args, **kwargs)


def check_refusal(error):
    """Print an error, which must not be a failed allocation: sizes are checked before memory is requested."""
    print(error)
    assert "out of memory" not in str(error), error


def attempt(function, *args, **kwargs):
    """Call a function that may raise an IrrunError, and print it."""
    import irrun

    try:
        function(*args, **kwargs)
    except irrun.IrrunError as error:
        check_refusal(error)


@case()
def results_sized_by_shapes(folder):
    import irrun

    n = 500_000
    column, row = np.zeros((n, 1), "f4"), np.zeros((1, n), "f4")
    for type, version, data, arrays in (
        ("Add", "opset1", "", (column, row)),
        ("Equal", "opset1", "", (column, row)),
        ("Multiply", "opset1", "", (column, row)),
        ("MatMul", "opset1", "", (column, row)),
        ("PRelu", "opset1", "", (column, row)),
        ("Select", "opset1", "", (np.zeros((n, 1), bool), row, column)),
        ("Einsum", "opset7", 'equation="i,j-&gt;ij"', (column[:, 0], row[0])),
        ("SquaredDifference", "opset1", "", (column, row)),
        ("Minimum", "opset1", "", (column, row)),
        ("Mod", "opset1", "", (column, row)),
        ("FakeQuantize", "opset1", 'levels="256"', (column, row, row, row, row)),
    ):
        for optimize in (True, False):
            types = ["boolean" if a.dtype == bool else "f32" for a in arrays]
            compiled = compile_text(
                folder, single(type, [a.shape for a in arrays], version, data, types), optimize=optimize
            )
            try:
                compiled(list(arrays))
            except irrun.IrrunError as error:
                print(error)
            else:
                raise AssertionError(type)


@case("the run would take|the result would take")
def column_and_row_of_ranges(folder):
    weights = np.array([0, 1, 500_000], np.int64).tobytes() + np.array([1, 0], np.int64).tobytes()
    layers = [constant(i, (), "i64", 8 * i, 8) for i in range(3)]
    layers += [constant(3, (1,), "i64", 24, 8), constant(4, (1,), "i64", 32, 8)]
    layers += [
        layer(5, "Range", "opset4", 'output_type="f32"', [port(i) for i in range(3)], [port(3)]),
        layer(6, "Unsqueeze", inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(7, "Unsqueeze", inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(8, "Add", inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(9, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 5, 0), (2, 0, 5, 1), (1, 0, 5, 2), (5, 3, 6, 0), (3, 0, 6, 1), (5, 3, 7, 0), (4, 0, 7, 1)]
    edges += [(6, 2, 8, 0), (7, 2, 8, 1), (8, 2, 9, 0)]
    compile_text(folder, net(layers, edges), weights)()


def doubling(count, shape=(1 << 20,)):
    layers, edges = [parameter(0, shape)], []
    for i in range(1, count + 1):
        layers.append(layer(i, "Concat", data='axis="0"', inputs=[port(0), port(1)], outputs=[port(2)]))
        edges += [(i - 1, 2 if i > 1 else 0, i, k) for k in range(2)]
    layers.append(layer(count + 1, "Result", inputs=[port(0)]))
    edges.append((count, 2, count + 1, 0))
    return net(layers, edges)


@case("the run would take")
def concat_that_doubles(folder):
    compile_text(folder, doubling(40), memory="1G")(np.zeros(1 << 20, "f4"))


@case("the run would take")
def loop_that_doubles_its_state(folder):
    body_layers = [
        parameter(0, (-1,)),
        layer(1, "Concat", data='axis="0"', inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(2, "Result", inputs=[port(0)]),
        constant(3, (), "boolean", 8, 1),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 1, 0), (0, 0, 1, 1), (1, 2, 2, 0), (3, 0, 4, 0)]
    inner = (
        "<body>" + graph(body_layers, edges) + "</body><port_map>"
        '<input external_port_id="2" internal_layer_id="0"/>'
        '<output external_port_id="3" internal_layer_id="2"/>'
        '<output external_port_id="-1" internal_layer_id="4" purpose="execution_condition"/></port_map>'
        '<back_edges><edge from-layer="2" to-layer="0"/></back_edges>'
    )
    layers = [
        constant(0, (), "i64", 0, 8),
        constant(1, (), "boolean", 8, 1),
        parameter(2, (1 << 20,)),
        layer(3, "Loop", "opset5", inputs=[port(0), port(1), port(2)], outputs=[port(3)], inner=inner),
        layer(4, "Result", inputs=[port(0)]),
    ]
    text = net(layers, [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)])
    compile_text(folder, text, np.int64(40).tobytes() + b"\1", memory="1G")(np.zeros(1 << 20, "f4"))


@case("the run would take")
def many_live_arrays(folder):
    count, size = 12, 100 << 20
    layers, edges = [parameter(0, (1, 1)), parameter(1, (1, size // 4))], []
    for i in range(count):
        layers.append(layer(2 + i, "Add", inputs=[port(0), port(1)], outputs=[port(2)]))
        edges += [(0, 0, 2 + i, 0), (1, 0, 2 + i, 1), (2 + i, 2, 100 + i, 0)]
    layers += [layer(100 + i, "Result", inputs=[port(0)]) for i in range(count)]
    compile_text(folder, net(layers, edges), memory="1G")([np.ones((1, 1), "f4"), np.zeros((1, size // 4), "f4")])


@case("the run would take")
def many_small_live_arrays(folder):
    count, size = 3000, 1 << 18
    layers, edges = [parameter(0, (1, 1)), parameter(1, (1, size // 4))], []
    for i in range(count):
        layers.append(layer(2 + i, "Add", inputs=[port(0), port(1)], outputs=[port(2)]))
        edges += [(0, 0, 2 + i, 0), (1, 0, 2 + i, 1), (2 + i, 2, 10_000 + i, 0)]
    layers += [layer(10_000 + i, "Result", inputs=[port(0)]) for i in range(count)]
    compile_text(folder, net(layers, edges), memory="300M")([np.ones((1, 1), "f4"), np.zeros((1, size // 4), "f4")])


def iterator_with_outputs(count, size, outputs):
    """Return a net that adds each of `count` numbers to `size` zeros, and concatenates the sums `outputs` times."""
    body = [
        parameter(0, (1,)),
        parameter(1, (size,)),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2)]),
        *(layer(3 + i, "Result", inputs=[port(0)]) for i in range(outputs)),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), *((2, 2, 3 + i, 0) for i in range(outputs))]
    entries = '<input external_port_id="0" internal_layer_id="0" axis="0" part_size="1" stride="1" start="0" end="-1"/>'
    entries += '<input external_port_id="1" internal_layer_id="1"/>'
    for i in range(outputs):
        entries += (
            f'<output external_port_id="{2 + i}" internal_layer_id="{3 + i}" axis="0" part_size="{size}" '
            f'stride="{size}" start="0" end="-1"/>'
        )
    inner = f"<body>{graph(body, edges)}</body><port_map>{entries}</port_map>"
    ports = [port(2 + i) for i in range(outputs)]
    layers = [
        parameter(0, (count,)),
        parameter(1, (size,)),
        layer(2, "TensorIterator", inputs=[port(0), port(1)], outputs=ports, inner=inner),
        *(layer(3 + i, "Result", inputs=[port(0)]) for i in range(outputs)),
    ]
    return net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), *((2, 2 + i, 3 + i, 0) for i in range(outputs))])


def collect_outputs(folder, optimize):
    count, size = 8000, 1 << 14  # 500 MiB for each of three outputs, in parts of 64 KiB
    compiled = compile_text(folder, iterator_with_outputs(count, size, 3), memory="1G", optimize=optimize)
    try:
        compiled([np.zeros(count, "f4"), np.zeros(size, "f4")])
    finally:
        peak = read_peak()
        assert peak < 3 << 29, peak


@case("the run would take")
def iterator_that_collects_outputs(folder):
    collect_outputs(folder, optimize=True)


@case("the run would take")
def plain_iterator_that_collects_outputs(folder):
    collect_outputs(folder, optimize=False)


@case()
def giants_from_empty_arrays(folder):
    n = 3_000_000_000
    axes = np.array([1], np.int64)
    for type, shapes, version, data, others in (
        ("ReduceSum", [(n, 0)], "opset1", 'keep_dims="true"', [axes]),
        ("ReduceMax", [(n, 0)], "opset1", 'keep_dims="false"', [axes]),
        ("ReduceL2", [(n, 0)], "opset4", 'keep_dims="false"', [axes]),
        ("MatMul", [(n, 0), (0, 5)], "opset1", "", []),
        ("MVN", [(n, 0)], "opset6", 'eps="1" normalize_variance="true" eps_mode="inside_sqrt"', [axes]),
        ("Gather", [(n, 0)], "opset8", "", [np.zeros(1, np.int64), np.array(1)]),
        ("Einsum", [(n, 0), (0, 5)], "opset7", 'equation="ij,jk-&gt;ik"', []),
        ("NormalizeL2", [(n, 0)], "opset1", 'eps="1" eps_mode="add"', [axes]),
        ("TopK", [(n, 0)], "opset3", 'axis="1" mode="max" sort="value" index_element_type="i64"', [np.array(0)]),
        ("Softmax", [(n, 0)], "opset8", 'axis="1"', []),
        ("CumSum", [(n, 0)], "opset3", "", [np.array(1)]),
    ):
        arrays = [np.zeros(s, "f4") for s in shapes] + others
        kinds = ["f32"] * len(shapes) + ["i64"] * len(others)
        outputs = 2 if type == "TopK" else 1
        attempt(run_single, folder, type, [a.shape for a in arrays], version, data, kinds, outputs, arrays)


@case()
def image_patches_of_large_sizes(folder):
    for value in (1 << 31, (1 << 31) - 1, 1 << 40):
        for shape in ((1, 1, 8, 8), (0, 1, 8, 8), (1, 0, 8, 8)):
            for auto_pad in ("valid", "same_upper", "same_lower"):
                for data in (
                    f'sizes="{value},{value}" strides="1,1" rates="1,1" auto_pad="{auto_pad}"',
                    f'sizes="2,2" strides="1,1" rates="{value},{value}" auto_pad="{auto_pad}"',
                    f'sizes="2,2" strides="{value},{value}" rates="1,1" auto_pad="{auto_pad}"',
                ):
                    attempt(run_single, folder, "ExtractImagePatches", [shape], "opset3", data)


@case("axis 2147483648 is out of range")
def axis_of_2_to_31(folder):
    weights = np.array([0, 1 << 31], np.int64).tobytes()
    layers = [
        parameter(0, (5,)),
        constant(1, (), "i64", 0, 8),
        constant(2, (1,), "i64", 8, 8),
        layer(3, "Gather", "opset8", inputs=[port(i) for i in range(3)], outputs=[port(3)]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    text = net(layers, [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)])
    compile_text(folder, text, weights)(np.zeros(5, "f4"))


@case("has no elements")
def constant_without_elements_of_large_dimensions(folder):
    layers = [
        parameter(0, (5,)),
        constant(1, (2, 3_000_000_000, 65536, 3, 0), "i32", 0, 0),
        layer(2, "GatherND", "opset5", inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    compile_text(folder, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))(np.zeros(5, "f4"))


@case()
def grids_and_frames_of_large_sizes(folder):
    for size in ([1 << 32, 0], [0, 1 << 32], [1 << 20, 1 << 20]):
        arrays = [np.array(size), np.array([64, 64])]
        attempt(
            run_single, folder, "PriorBox", [(2,), (2,)], "opset8", 'offset="0.5" min_size="16" step="16"',
            ["i64", "i64"], 1, arrays,
        )  # fmt: skip
    for frame in ([1 << 40, 1], [11, 1 << 40], [1 << 33, 1 << 33]):
        arrays = [np.zeros((3, 6, 5, 2), "f4"), np.ones(11, "f4"), *map(np.array, frame)]
        attempt(
            run_single, folder, "ISTFT", [a.shape for a in arrays], "opset16", 'center="false" normalized="false"',
            ["f32", "f32", "i64", "i64"], 1, arrays,
        )  # fmt: skip


@case()
def many_samples_per_region(folder):
    data = 'pooled_h="7" pooled_w="7" sampling_ratio="1000" spatial_scale="1" mode="avg" aligned_mode="asymmetric"'
    arrays = [np.zeros((1, 1, 8, 8), "f4"), np.array([[0, 0, 4, 4]], "f4"), np.zeros(1, np.int64)]
    kinds = ["f32", "f32", "i64"]
    for type, version, roi in (
        ("ROIAlign", "opset9", arrays[1]),
        ("ROIAlignRotated", "opset15", np.ones((1, 5), "f4")),
    ):
        attempt(
            run_single, folder, type, [(1, 1, 8, 8), roi.shape, (1,)], version, data + ' clockwise_mode="true"', kinds, 1,
            [arrays[0], roi, arrays[2]],
        )  # fmt: skip
    attempt(
        run_single, folder, "ExperimentalDetectronROIFeatureExtractor", [(1, 4), (1, 1, 8, 8)], "opset6",
        'output_size="7" sampling_ratio="1000" pyramid_scales="4" aligned="false"', (), 2,
        [np.array([[0, 0, 4, 4]], "f4"), np.zeros((1, 1, 8, 8), "f4")],
    )  # fmt: skip
    peak = read_peak()
    assert peak < 2 << 30, peak


# ------------------------------------------------- inputs and outputs


@case("reads|takes|header|bytes|npz")
def npz_with_lying_header(folder):
    import io
    import zipfile

    import irrun

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 28,)})
    path = folder / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    compiled = compile_text(folder, single("ReLU", [(-1,)]))
    irrun.load_inputs([f"{path}:x"], compiled.inputs)


@case("pixels|takes|large")
def png_of_many_pixels(folder):
    import struct
    import zlib

    import irrun

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    side = 13_000
    compressor = zlib.compressobj(9)
    rows = b"".join(compressor.compress(bytes(1 + (side + 7) // 8)) for _ in range(side)) + compressor.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    path = folder / "x.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    compiled = compile_text(folder, single("ReLU", [(1, 3, 224, 224)]))
    irrun.load_inputs([str(path)], compiled.inputs)


@case("take|bytes")
def strings_of_different_lengths(folder):
    import irrun

    strings = np.array(["x"] * 100_000 + ["y" * 100_000], dtype=object)
    irrun.save_outputs({"s": strings}, folder / "out.npz")


@case("dimension|large|range|expected")
def zeros_of_the_largest_shape(folder):
    run_cli("run", write(folder, single("ReLU", [(0, (1 << 63) - 1)])), "--input", "zeros")


@case()
def input_numbers_of_5000_digits(folder):
    path = write(folder, single("ReLU", [(-1,)]))
    for value in ("[" + "9" * 5000 + "]", "9" * 5000, "zeros:" + "9" * 5000, "[1e" + "9" * 5000 + "]"):
        attempt(run_cli, "run", path, "--input", value)
        attempt(run_cli, "run", path, "--input", "x=" + value)
        attempt(run_cli, "run", path, "--input", "9" * 5000 + "=" + value)


@case()
def deep_json_for_strings(folder):
    path = write(folder, single("Identity", [(-1,)], "opset16", types=["string"]))
    for depth in (33, 70, 500, 100_000):
        attempt(run_cli, "run", path, "--input", "[" * depth + '"a"' + "]" * depth)


@case()
def output_names_of_many_bytes(folder):
    import irrun

    for suffix in ("npz", "npy", "dir"):
        attempt(
            irrun.save_outputs,
            {"n" * 70_000: np.ones(2)},
            folder / f"out.{suffix}" if suffix != "dir" else folder / "d",
        )


@case()
def arithmetic_without_warnings(folder):
    attempt(run_single, folder, "MVN", [(2, 0)], "opset6", 'eps="1" normalize_variance="true" eps_mode="inside_sqrt"',
            ["f32", "i64"], arrays=[np.zeros((2, 0), "f4"), np.array([1])])  # fmt: skip
    layers = (
        '<layer id="0" name="i" type="Input" precision="FP32"><output><port id="0"><dim>1</dim></port></output></layer>'
        '<layer id="1" name="s" type="Swish" precision="FP32"><data alpha="1e308"/><input><port id="0"><dim>1</dim></port></input>'
        '<output><port id="1"><dim>1</dim></port></output></layer>'
    )
    compiled = compile_text(folder, legacy(layers, '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>'))
    compiled(np.ones(1, "f4"))
    from PIL import Image

    Image.new("RGB", (4, 4), (1, 2, 3)).save(folder / "x.png")
    path = write(folder, single("ReLU", [(1, 3, 4, 4)]))
    attempt(run_cli, "run", path, "--input", folder / "x.png", "--scale", "1e-320")
    attempt(run_cli, "run", path, "--input", folder / "x.png", "--mean", "1e308", "--scale", "1e-308")


# ---------------------------------------------------------------- time


def endless_loop(body_layers=(), body_edges=()):
    layers = [
        parameter(0, (1,)),
        layer(1, "Result", inputs=[port(0)]),
        constant(2, (), "boolean", 8, 1),
        layer(3, "Result", inputs=[port(0)]),
        *body_layers,
    ]
    inner = (
        "<body>" + graph(layers, [(0, 0, 1, 0), (2, 0, 3, 0), *body_edges]) + "</body><port_map>"
        '<input external_port_id="2" internal_layer_id="0"/>'
        '<output external_port_id="3" internal_layer_id="1"/>'
        '<output external_port_id="-1" internal_layer_id="3" purpose="execution_condition"/></port_map>'
        '<back_edges><edge from-layer="1" to-layer="0"/></back_edges>'
    )
    outer = [
        constant(0, (), "i64", 0, 8),
        constant(1, (), "boolean", 8, 1),
        parameter(2, (1,)),
        layer(3, "Loop", "opset5", inputs=[port(0), port(1), port(2)], outputs=[port(3)], inner=inner),
        layer(4, "Result", inputs=[port(0)]),
    ]
    return net(outer, [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]), np.int64(-1).tobytes() + b"\1"


@case("exceeded its time limit of 1 s")
def endless_loop_with_timeout(folder):
    compile_text(folder, *endless_loop())(np.zeros(1, "f4"), timeout=1)


@case("exceeded its time limit of 1 s")
def endless_plain_loop_with_timeout(folder):
    compile_text(folder, *endless_loop(), optimize=False)(np.zeros(1, "f4"), timeout=1)


@case("exceeded its time limit of 0.5 s")
def endless_loop_on_the_command_line(folder):
    run_cli("run", write(folder, *endless_loop()), "--input", "[1.0]", "--timeout", "0.5")


@case("exit 130")
def interrupted_loop(folder):
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell ignore it
    threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    run_cli("run", write(folder, *endless_loop()), "--input", "[1.0]")


def main(name: str) -> None:
    import irrun

    function, refused = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(Path(folder))
        except irrun.IrrunError as error:
            check_refusal(error)
            assert not refused or re.search(refused, str(error)), f"expected {refused!r}, found {error}"
        else:
            assert not refused, f"expected an error that matches {refused!r}"


if __name__ == "__main__":
    main(sys.argv[1])
