"""Profiles: times, operations, bytes, groups, and what is written."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from inspection import networks
from irrun.inspection.instruments import FlopCounter, InstructionRecord, KernelTimer, MemoryMeter
from irrun.inspection.keys import KeyTable
from irrun.inspection.machine import Machine, measure_machine
from irrun.inspection.profile_table import describe_profile, format_quantity, make_openvino_rows, make_profile_rows
from irrun.runtime import compilation
from irrun.runtime.request import InferRequest

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation/model.xml"
LENGTH, ITERATIONS = 33, 11
HOSTILE = "=[bold]</script><img src=x onerror=alert(1)>,\"'\n\u202e\U0001f600" + "x" * 500

pytestmark = pytest.mark.usefixtures("known_machine")


@pytest.fixture(scope="module")
def example():
    return irrun.profile(EXAMPLE, np.load(EXAMPLE.parent / "input.npy"), runs=2)


@pytest.fixture(scope="module")
def plain_example():
    return irrun.profile(EXAMPLE, np.load(EXAMPLE.parent / "input.npy"), runs=1, optimize=False)


def count_flops(model, inputs):
    compiled = irrun.compile_model(model)
    counter = FlopCounter(KeyTable(compiled.model))
    compiled.create_infer_request(counter).infer(inputs, observers=[counter])
    return {layer.name: counter.flops[id(layer)] for layer in counter.layers}


def make_chain(tmp_path, *names, types=None):
    """Return a model that applies unary layers with these names one after another to f32[2,3]."""
    model = irrun.read_model(write(tmp_path, chain(*(types or ("Sigmoid",) * len(names)))))
    for target, name in zip(model.graph.layers[1:-1], names, strict=True):
        target.name = name
    return model


def test_times_of_layers_and_executor_are_the_time_of_the_run():
    compiled = irrun.compile_model(EXAMPLE)
    timer = KernelTimer()
    request = compiled.create_infer_request(timer)
    for _ in range(2):
        timer.start_run()
        request.infer(np.load(EXAMPLE.parent / "input.npy"))
        timer.finish_run(1.0)
    for i in range(2):
        assert sum(record.runs[i] for record in timer.records) == pytest.approx(timer.kernel_totals[i], rel=1e-12)
        # Kernels of bodies are part of the call of their owner, and are counted once.
        outermost = [event for event in timer.events if not event.scope]
    assert timer.kernel_totals[1] == pytest.approx(sum(e.end - e.start for e in outermost), rel=1e-6)


def test_requests_without_instrument_run_the_kernels_themselves(tmp_path):
    compiled = irrun.compile_model(make_chain(tmp_path, "a", types=("Tanh",)), optimize=False)
    request = compiled.create_infer_request()
    (step,) = request._get_executor(compiled._program)._steps
    assert step[0] is compiled._program.instructions[0].kernel


def test_every_layer_belongs_to_one_row(example, plain_example):
    shown = [name for row in example.layers for name in row.layers]
    assert len(shown) == len(set(shown))
    assert {name for row in plain_example.layers for name in row.layers} >= set(shown)
    assert all(row.seconds >= 0 and row.calls for row in example.layers)


def test_layers_of_bodies_are_counted_in_each_iteration(plain_example):
    rows = {row.key: row for row in plain_example.layers}
    decoder = rows["beam_search[*]/decoder"]
    assert decoder.calls == ITERATIONS
    model = irrun.read_model(EXAMPLE)
    cell = next(n for _, n in model.graph.walk() if n.name == "decoder")
    hidden, size = int(cell.attributes["hidden_size"]), int(cell.inputs[3].shape[-1])
    batch = int(decoder.outputs[0].split("[")[1].split(",")[0])
    assert decoder.flops == ITERATIONS * batch * hidden * (8 * (size + hidden) + 13)


def test_number_of_operations_does_not_depend_on_the_program(example, plain_example):
    assert example.optimized
    assert not plain_example.optimized
    assert example.total.flops == plain_example.total.flops
    assert example.unknown_flops == plain_example.unknown_flops == ["TopK"]


def test_operations_of_bert_are_those_of_the_formula(tmp_path):
    pytest.importorskip("openvino")
    layers, size, heads, tokens, words = 3, 32, 4, 12, 50
    path = networks.save(networks.make_bert(layers, size, heads, tokens, words), tmp_path, "bert")
    ids = np.arange(tokens, dtype=np.int64)[None]
    flops = count_flops(path, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    values = tokens * size
    scores = heads * tokens * tokens
    projections = 4 * (2 * tokens * size * size + values)
    attention = 2 * (2 * tokens * tokens * size) + scores * (1 + 1 + 5)  # scaling, mask, softmax
    perceptron = 2 * (2 * tokens * size * 4 * size) + 5 * values + 5 * 4 * values  # biases of 5 values, Gelu
    normalization = values * (5 + 2)
    layer_flops = projections + attention + perceptron + 2 * normalization + 2 * values
    embeddings = values + normalization + 2 * tokens  # the mask: subtraction and product
    pooler = 2 * size * size + size + size
    assert sum(flops.values()) == layers * layer_flops + embeddings + pooler


def test_operations_that_depend_on_constants_only_are_not_counted(tmp_path):
    data = 'element_type="f32" shape="2,3" offset="0" size="24"'
    text = net(
        [
            layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3))], name="x"),
            layer(1, "Const", data=data, outputs=[port(0, (2, 3), "FP32")], name="weights"),
            layer(2, "Exp", inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")], name="constant"),
            layer(3, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32")], name="sum"),
            layer(4, "Result", inputs=[port(0)], name="result"),
        ],
        [(1, 0, 2, 0), (0, 0, 3, 0), (2, 1, 3, 1), (3, 2, 4, 0)],
    )
    path = write(tmp_path, text, np.zeros(6, np.float32))
    model = irrun.compile_model(path, weights_memory=0)
    assert irrun.profile(model, np.ones((2, 3), np.float32), runs=1).total.flops == 6


def test_memory_is_that_of_the_values_alive(tmp_path):
    # Two Sigmoids of one input, which are added: three values of 4000 bytes while Add runs.
    shape = (1000,)
    text = net(
        [
            layer(0, "Parameter", data='shape="1000" element_type="f32"', outputs=[port(0, shape)], name="x"),
            layer(1, "Sigmoid", inputs=[port(0)], outputs=[port(1, shape, "FP32")], name="a"),
            layer(2, "Tanh", inputs=[port(0)], outputs=[port(1, shape, "FP32")], name="b"),
            layer(3, "Add", inputs=[port(0), port(1)], outputs=[port(2, shape, "FP32")], name="sum"),
            layer(4, "Unsqueeze", inputs=[port(0), port(1)], outputs=[port(2, (1, 1000), "FP32")], name="view"),
            layer(5, "Const", data='element_type="i64" shape="1" offset="0" size="8"', outputs=[port(0)], name="axis"),
            layer(6, "Result", inputs=[port(0)], name="result"),
        ],
        [(0, 0, 1, 0), (0, 0, 2, 0), (1, 1, 3, 0), (2, 1, 3, 1), (3, 2, 4, 0), (5, 0, 4, 1), (4, 2, 6, 0)],
    )
    compiled = irrun.compile_model(write(tmp_path, text, bytes(8)), optimize=False)
    rows = {row.key: row for row in irrun.profile(compiled, np.zeros(shape, np.float32), runs=1).layers}
    assert {key: row.alive for key, row in rows.items()} == {"a": 4000, "b": 8000, "sum": 12000, "view": 4000}
    assert [rows[key].bytes for key in ("a", "b", "sum")] == [8000, 8000, 12000]
    assert rows["view"].bytes == 8  # a view; only the axis is read
    assert rows["sum"].flops == 1000


def test_weights_are_read_in_each_call(tmp_path):
    weights = np.zeros((6, 4), np.float32)
    text = net(
        [
            layer(0, "Parameter", data='shape="2,6" element_type="f32"', outputs=[port(0, (2, 6))], name="x"),
            layer(1, "Const", data='element_type="f32" shape="6,4" offset="0" size="96"', outputs=[port(0)], name="w"),
            layer(2, "MatMul", inputs=[port(0), port(1)], outputs=[port(2, (2, 4), "FP32")], name="product"),
            layer(3, "Result", inputs=[port(0)], name="result"),
        ],
        [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)],
    )
    path = write(tmp_path, text, weights)
    for optimize in (True, False):
        (row,) = irrun.profile(path, np.zeros((2, 6), np.float32), runs=1, optimize=optimize).layers
        assert (row.bytes, row.alive, row.flops) == (48 + 96 + 32, 32, 2 * 2 * 6 * 4)
        assert row.outputs == ("f32[2,4]",)


def test_fused_layers_are_one_row_with_the_operations_of_all(tmp_path):
    model = make_chain(tmp_path, "first", "second", types=("Tanh", "Sigmoid"))
    compiled = irrun.compile_model(model, optimize=False)
    first, second = compiled._program.instructions
    fused = replace(
        second,
        kernel=lambda x: second.kernel(first.kernel(x)),
        inputs=first.inputs,
        plain=(first, second),
    )
    compiled._fast_program = replace(compiled._program, instructions=[fused])
    (row,) = irrun.profile(compiled, np.zeros((2, 3), np.float32), runs=1).layers
    assert row.layers == ("first", "second")
    assert row.types == ("Tanh", "Sigmoid")
    assert row.flops == 12


def test_layers_without_an_instruction_belong_to_what_consumes_them(tmp_path):
    """Relu is not computed, since FakeQuantize limits its values too."""
    openvino = pytest.importorskip("openvino")
    ops = openvino.opset13
    x = ops.parameter([2, 3], np.float32, name="x")
    limits = [ops.constant(np.float32(v)) for v in (0, 1, 0, 1)]
    value = ops.fake_quantize(ops.relu(x, name="relu"), *limits, 256, name="quantize")
    model = openvino.Model([ops.result(ops.tanh(value, name="tanh"))], [x], "m")
    openvino.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    result = irrun.profile(irrun.compile_model(tmp_path / "m.xml", jit=False), np.ones((2, 3), np.float32), runs=1)
    (row,) = [row for row in result.layers if "relu" in row.layers]
    assert "quantize" in row.layers
    assert sorted(name for row in result.layers for name in row.layers) == ["quantize", "relu", "tanh"]


@pytest.mark.parametrize(("count", "shown"), [(4, "Tanh+Exp+Relu+Abs"), (6, "Tanh+Exp+Relu+Abs+2 more")])
def test_at_most_four_types_of_a_row_are_shown(tmp_path, count, shown):
    types = ("Tanh", "Exp", "Relu", "Abs", "Sign", "Elu")[:count]
    profile = irrun.profile(make_chain(tmp_path, "first"), np.zeros((2, 3), np.float32), runs=1)
    changed = replace(profile, layers=tuple(replace(row, types=types) for row in profile.layers))
    assert make_profile_rows(changed)[1][0][1] == shown


def test_profile_is_described(tmp_path):
    model = make_chain(tmp_path, "first")
    text = repr(irrun.profile(model, np.zeros((2, 3), np.float32), runs=1))
    assert text.startswith("<Profile: 'net', 1 layers, ")


def test_kernels_that_fail_leave_their_layers_to_the_plain_ones(tmp_path):
    def fail(x):
        raise ValueError("refused")

    compiled = irrun.compile_model(make_chain(tmp_path, "a", "b", types=("Tanh", "Sigmoid")), optimize=False)
    first, second = compiled._program.instructions
    fused = replace(second, kernel=fail, inputs=first.inputs, plain=(first, second))
    compiled._fast_program = replace(compiled._program, instructions=[fused])
    rows = irrun.profile(compiled, np.zeros((2, 3), np.float32), runs=3).layers
    assert [(row.key, row.flops, row.calls) for row in rows if row.flops] == [("a", 6, 1), ("b", 6, 1)]
    assert len(rows) == 3


def test_kernels_that_would_be_compiled_later_are_measured(tmp_path, monkeypatch):
    """What a model that has run already uses is not replaced."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compilation, "_known", {})
    path = write(tmp_path, chain("Tanh", shape=(64, 64)))
    used, new = (irrun.compile_model(path, jit="auto") for _ in range(2))
    x = np.zeros((64, 64), np.float32)
    used(x)
    for compiled, is_compiled in ((used, False), (new, True)):
        irrun.profile(compiled, x, runs=1)
        assert compiled._is_compiled == is_compiled


def test_warm_up_is_not_part_of_the_profile(tmp_path):
    compiled = irrun.compile_model(make_chain(tmp_path, "a", types=("Tanh",)), optimize=False)
    (plain,) = compiled._program.instructions
    calls = []

    def fail_once(x):
        calls.append(x)
        if len(calls) == 1:
            raise ValueError("not ready")
        return plain.kernel(x)

    fast = replace(plain, kernel=fail_once, plain=(plain,))
    compiled._fast_program = replace(compiled._program, instructions=[fast])
    (row,) = irrun.profile(compiled, np.zeros((2, 3), np.float32), runs=2).layers
    assert (row.key, row.flops, row.bytes, row.alive, row.calls) == ("a", 6, 48, 24, 1)


def test_groups_add_up_to_the_total(example):
    for by in ("layer", "type", "module"):
        groups = example.group(by)
        assert sum(g.flops or 0 for g in groups) == example.total.flops
        assert sum(g.seconds for g in groups) == pytest.approx(example.total.seconds)
        total = example.total.seconds + example.executor_seconds
        assert sum(map(example.get_share, groups)) == pytest.approx(example.total.seconds / total)
    assert example.group("module")[0].key == "(network)"
    with pytest.raises(ValueError, match="by is 'size'"):
        example.group("size")


def test_machine_is_measured():
    machine = measure_machine(1)
    assert machine.threads == 1
    assert machine.flops_per_second > 1e6
    assert machine.bytes_per_second > 1e6


def test_bound_is_that_of_operations_or_bytes():
    machine = Machine(1, 10.0, 5.0)
    assert machine.get_bound(20, 5) == 2
    assert machine.get_bound(None, 25) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 0}, "runs is 0, expected an integer of at least 1"),
        ({"against": "x"}, "against is 'x', expected None or 'openvino'"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        irrun.profile(EXAMPLE, **options)


def test_state_is_reset_before_each_run(tmp_path, monkeypatch):
    data = 'variable_id="v" variable_type="f32" variable_shape="2,3"'
    shape = (2, 3)
    text = net(
        [
            layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, shape)], name="x"),
            layer(1, "ReadValue", "opset6", data, [port(0)], [port(1, shape, "FP32")], name="read"),
            layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, shape, "FP32")], name="sum"),
            layer(3, "Assign", "opset6", 'variable_id="v"', [port(0)], [port(1, shape, "FP32")], name="assign"),
            layer(4, "Result", inputs=[port(0)], name="result"),
        ],
        [(0, 0, 1, 0), (1, 1, 2, 0), (0, 0, 2, 1), (2, 2, 3, 0), (2, 2, 4, 0)],
    )
    compiled = irrun.compile_model(write(tmp_path, text))
    x = np.ones(shape, np.float32)
    irrun.profile(compiled, x, runs=2)
    assert compiled(x)[0].max() == 2
    states = []
    infer = InferRequest.infer

    def spy(request, *arguments, **options):
        states.extend(float(np.max(state.state.data)) for state in request.query_state())
        return infer(request, *arguments, **options)

    monkeypatch.setattr(InferRequest, "infer", spy)
    irrun.profile(compiled, x, runs=2)
    assert len(states) > 6
    assert len(set(states)) == 1


def find_children(events, parent):
    begin, end = parent["ts"], parent["ts"] + parent["dur"]
    return [e for e in events if e is not parent and begin <= e["ts"] and e["ts"] + e["dur"] <= end + 1e-6]


def test_chrome_trace_has_the_structure_that_viewers_require(example):
    trace = json.loads(json.dumps(example.to_chrome(), allow_nan=False))
    names = {e["name"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert set(names) == {"process_name", "thread_name"}
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert all({"name", "cat", "ts", "dur", "pid", "tid", "args"} <= e.keys() for e in events)
    assert min(e["ts"] for e in events) == 0
    assert min(e["dur"] for e in events) >= 0
    assert len({(e["pid"], e["tid"]) for e in events}) == 1
    # On one thread, two events are either disjoint or nested.
    open_ends: list[float] = []
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        while open_ends and open_ends[-1] <= event["ts"] + 1e-6:
            open_ends.pop()
        end = event["ts"] + event["dur"]
        assert not open_ends or end <= open_ends[-1] + 1e-6
        open_ends.append(end)
    loop = next(e for e in events if e["name"] == "beam_search")
    iterations = [e for e in find_children(events, loop) if e["cat"] == "iteration"]
    assert [e["name"] for e in sorted(iterations, key=lambda e: e["ts"])] == [f"iteration {i}" for i in range(11)]
    cell = next(e for e in find_children(events, iterations[3]) if e["cat"] == "LSTMCell")
    assert cell["args"]["iteration"] == 3
    assert cell["args"]["flops"] > 0
    assert cell["args"]["outputs"][0].startswith("f32[")


def test_chrome_trace_has_a_counter_of_memory(example):
    counters = [e for e in example.to_chrome()["traceEvents"] if e["ph"] == "C"]
    assert {e["name"] for e in counters} == {"memory"}
    times = [e["ts"] for e in counters]
    assert times == sorted(times)
    values = [e["args"]["values in bytes"] for e in counters]
    assert max(values) == example.peak
    assert values[-1] == 0


def test_hostile_names_are_harmless(tmp_path):
    model = make_chain(tmp_path, HOSTILE, "-1+1", "</script>")
    model.graph.name = HOSTILE
    x = np.zeros((2, 3), np.float32)
    result = irrun.profile(irrun.compile_model(model, optimize=False), x, runs=1)
    html = result._repr_html_()
    assert "<img" not in html
    assert "</script" not in html
    table = list(csv.reader(io.StringIO(result.to_csv())))
    assert [row[0] for row in table[1:]] == [f"'{HOSTILE}", "'-1+1", "</script>"]
    assert json.loads(json.dumps(result.to_dict()))["layers"][0]["key"] == HOSTILE
    assert HOSTILE in {event["name"] for event in result.to_chrome()["traceEvents"]}
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=800).print(result)
    assert "[bold]</script>" in stream.getvalue()
    assert "\u202e" not in stream.getvalue()


def test_files_are_written(tmp_path, example):
    example.save(tmp_path / "p.json")
    example.save(tmp_path / "p.csv")
    example.save_chrome(tmp_path / "trace.json")
    content = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    assert content["flops"] == example.total.flops
    assert len(content["layers"]) == len(example.layers)
    assert len((tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()) == len(example.layers) + 1
    assert json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]


def test_table_contains_executor_and_total(example):
    header, rows, right = make_profile_rows(example, sort="time", top=3)
    assert len(rows) == 5
    assert [row[0] for row in rows[3:]] == ["executor", "total"]
    assert all(len(row) == len(header) for row in rows)
    assert set(right) <= set(header)
    assert "FLOP" in describe_profile(example)[0]


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (999, "999"), (1000, "1 K"), (8_206_518_248, "8.21 G"), (3e12, "3 T"), (999_999, "1 M")],
)
def test_quantities_have_decimal_units(number, text):
    assert format_quantity(number) == text


def test_counters_of_openvino_are_joined_by_fused_layers(tmp_path):
    pytest.importorskip("openvino")
    path = networks.save(networks.make_resnet((1, 1), 4, 16), tmp_path, "resnet")
    image = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    messages: list[str] = []
    result = irrun.profile(path, image, runs=1, against="openvino", progress=messages.append)
    assert messages == ["compilation", "operations and memory", "warm-up", "run 1 of 1", "OpenVINO"]
    other = result.openvino
    assert other is not None
    assert sum(p.seconds or 0 for p in other.pairs) == pytest.approx(result.total.seconds)
    assert sum(p.openvino_seconds or 0 for p in other.pairs) == pytest.approx(other.layer_seconds)
    stem = next(pair for pair in other.pairs if "stem" in pair.layers)
    assert {"stem", "stem/bias", "stem/relu"} <= set(stem.layers)
    assert stem.is_matched
    convolutions = [pair for pair in other.pairs if "Convolution" in pair.type.split("+")]
    assert all(pair.is_matched for pair in convolutions)
    header, rows, _ = make_openvino_rows(result, sort="excess", top=2)
    assert rows[-1][0] == "total"
    assert all(len(row) == len(header) for row in rows)
    assert json.loads(json.dumps(result.to_dict()))["openvino"]["pairs"]
    for by in ("type", "module"):
        assert make_openvino_rows(result, by)[1][-1][2:4] == rows[-1][2:4]


def test_layers_that_openvino_alone_fuses_are_one_pair(tmp_path):
    pytest.importorskip("openvino")
    path = networks.save(networks.make_resnet((1, 1), 4, 16), tmp_path, "resnet")
    image = np.zeros((1, 3, 16, 16), np.float32)
    result = irrun.profile(irrun.compile_model(path, optimize=False), image, runs=1, against="openvino")
    assert result.openvino is not None
    (stem,) = [pair for pair in result.openvino.pairs if "stem" in pair.layers]
    assert {"stem", "stem/bias", "stem/relu"} <= set(stem.layers)
    assert stem.seconds == pytest.approx(sum(r.seconds for r in result.layers if r.key in stem.layers))


def test_bodies_are_one_layer_of_openvino():
    pytest.importorskip("openvino")
    result = irrun.profile(EXAMPLE, np.load(EXAMPLE.parent / "input.npy"), runs=1, against="openvino")
    assert result.openvino is not None
    (loop,) = [pair for pair in result.openvino.pairs if pair.key == "beam_search"]
    expected = [r.seconds for r in result.layers if r.key == "beam_search" or r.key.startswith("beam_search[*]/")]
    assert loop.seconds == pytest.approx(sum(expected))
    assert loop.is_matched


def test_missing_openvino_is_reported_before_the_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(irrun.InputError, match=r"pip install 'irrun\[openvino\]'"):
        irrun.profile(EXAMPLE, against="openvino")


def test_meter_counts_memory_of_views_once(tmp_path):
    compiled = irrun.compile_model(make_chain(tmp_path, "a", "b", types=("Tanh", "Sigmoid")), optimize=False)
    meter = MemoryMeter()
    compiled.create_infer_request(meter).infer(np.zeros((2, 3), np.float32))
    records: list[InstructionRecord] = [meter.records[id(i)] for i in compiled._program.instructions]
    assert [record.alive for record in records] == [24, 48]
