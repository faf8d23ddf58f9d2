"""Profiles of known numbers: sums, groups, texts, tables and files."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.text import Text

from irrun.inspection.chrome_trace import make_chrome_trace
from irrun.inspection.instruments import Event
from irrun.inspection.machine import Machine
from irrun.inspection.openvino_profile import LayerPair, OpenVinoProfile
from irrun.inspection.profile_layers import LayerProfile, merge_profiles
from irrun.inspection.profile_table import (
    describe_candidates,
    describe_profile,
    format_quantity,
    make_openvino_rows,
    make_profile_rows,
    make_rich_table,
)
from irrun.inspection.profiling import Profile
from irrun.runtime.executor import Fallback


def make_layer(key, type="Relu", module=(), **fields):
    numbers = {"calls": 1, "seconds": 0.0, "flops": 0, "bytes": 0, "alive": 0, "bound": 0.0}
    return LayerProfile(
        **{"key": key, "type": type, "layers": (key,), "types": (type,), "module": module} | numbers | fields
    )


CONV = make_layer(
    "conv", "Convolution", ("a", "b"), seconds=0.004, flops=8_000_000, bytes=2000, alive=999, bound=0.001,
    layers=("conv", "bias"), types=("Convolution", "Add"), outputs=("f32[2,3]", "i64[2]"), implementation="blocked",
)  # fmt: skip
RELU = make_layer("relu", "Relu", ("a", "c"), seconds=0.001, flops=1000, bytes=500, alive=1500, calls=3, bound=0.002)
TOPK = make_layer("topk", "TopK", seconds=0.0025, flops=None, bytes=40, alive=10)
LAST = make_layer("last", "Relu", ("a", "b"), seconds=0.0015, flops=500, bytes=60, alive=20, bound=0.0005)


def make_profile(*layers, **fields):
    arguments = {
        "model": "net",
        "layers": layers,
        "seconds": 0.0105,
        "executor_seconds": 0.001,
        "untimed_seconds": 0.008,
        "runs": 3,
        "optimized": True,
        "machine": Machine(2, 1e11, 2e10),
        "events": (),
        "dropped_events": 0,
    }
    return Profile(**(arguments | fields))


PROFILE = make_profile(CONV, RELU, TOPK, LAST)


def test_sum_of_layers_has_the_sums_of_their_numbers():
    total = PROFILE.total
    assert total == LayerProfile(
        key="total",
        type="",
        layers=("conv", "bias", "relu", "topk", "last"),
        types=("Convolution", "Add", "Relu", "TopK"),
        calls=6,
        seconds=pytest.approx(0.009),
        flops=8_001_500,
        bytes=2600,
        alive=1500,
        bound=pytest.approx(0.0035),
        merged_excess=pytest.approx(sum(layer.excess for layer in PROFILE.layers)),
    )
    assert PROFILE.get_share(CONV) == pytest.approx(0.4)
    assert PROFILE.peak == 1500
    assert PROFILE.unknown_flops == ["TopK"]
    assert merge_profiles("k", "TopK", [TOPK, TOPK]).flops is None
    assert merge_profiles("k", "t", [TOPK, RELU]).flops == 1000


def test_profile_without_layers_is_empty():
    profile = make_profile(executor_seconds=0.0)
    assert profile.total == LayerProfile(
        key="total",
        type="",
        calls=0,
        seconds=0,
        flops=0,
        bytes=0,
        alive=0,
        merged_excess=0.0,
        bound=0,
        layers=(),
        types=(),
    )
    assert profile.peak == 0
    assert profile.get_share(CONV) == 0
    assert make_profile_rows(profile)[1] == [
        ("executor", "", "", "0.000 ms", "", "", "", "", "", ""),
        ("total", "", "", "0.000 ms", "100.0%", "0", "-", "0 B", "0 B", "0.000 ms"),
    ]
    assert profile.to_chrome()["traceEvents"][2:] == []
    assert profile.group("module") == profile.group("type") == []


def test_rates_require_operations_and_time():
    assert CONV.flops_per_second == 2e9
    assert TOPK.flops_per_second is None
    assert replace(CONV, flops=0).flops_per_second is None
    assert replace(CONV, seconds=0.0).flops_per_second is None
    assert CONV.excess == pytest.approx(0.003)
    assert RELU.excess == 0


def test_layer_is_a_dictionary_of_fields_and_derived_values():
    assert CONV.to_dict() == {
        "key": "conv",
        "type": "Convolution",
        "layers": ["conv", "bias"],
        "types": ["Convolution", "Add"],
        "module": "a.b",
        "calls": 1,
        "seconds": 0.004,
        "flops": 8_000_000,
        "bytes": 2000,
        "alive": 999,
        "bound": 0.001,
        "outputs": ["f32[2,3]", "i64[2]"],
        "implementation": "blocked",
        "flops_per_second": 2e9,
        "excess": pytest.approx(0.003),
    }


def test_groups_are_those_of_types_and_modules():
    types = PROFILE.group("type")
    assert [g.key for g in types] == ["Convolution", "Relu", "TopK"]
    assert {g.key: (g.type, g.calls, g.flops) for g in types} == {
        "Convolution": ("Convolution", 1, 8_000_000),
        "TopK": ("TopK", 1, None),
        "Relu": ("Relu", 4, 1500),
    }
    slow = make_profile(RELU, CONV)
    assert [g.key for g in slow.group("type")] == ["Convolution", "Relu"]
    modules = PROFILE.group("module")
    assert [(g.key, g.module, g.layers) for g in modules] == [
        ("a.b", ("a", "b"), ("conv", "bias", "last")),
        ("a.c", ("a", "c"), ("relu",)),
        ("(network)", (), ("topk",)),
    ]
    assert [g.key for g in PROFILE.group("module", 1)] == ["a", "(network)"]
    assert PROFILE.group() == [CONV, RELU, TOPK, LAST]
    with pytest.raises(ValueError, match="by is 'size', expected 'layer', 'type' or 'module'"):
        PROFILE.group("size")


@pytest.mark.parametrize(("count", "groups"), [(40, 40), (41, 1)])
def test_modules_are_at_most_forty_groups(count, groups):
    profile = make_profile(*(make_layer(f"l{i}", module=("a", str(i))) for i in range(count)))
    assert len(profile.group("module")) == groups


def test_rows_of_layers():
    header, rows, right = make_profile_rows(PROFILE)
    numbers = ("time", "share", "flop", "GFLOP/s", "bytes", "alive", "above bound")
    assert header == ("layer", "type", "calls", *numbers)
    assert right == ("calls", *numbers)
    assert rows == [
        ("conv", "Convolution+Add", "1", "4.000 ms", "40.0%", "8 M", "2.0", "2 KB", "999 B", "3.000 ms"),
        ("relu", "Relu", "3", "1.000 ms", "10.0%", "1 K", "0.0", "500 B", "1.5 KB", "0.000 ms"),
        ("topk", "TopK", "1", "2.500 ms", "25.0%", "-", "-", "40 B", "10 B", "2.500 ms"),
        ("last", "Relu", "1", "1.500 ms", "15.0%", "500", "0.0", "60 B", "20 B", "1.000 ms"),
        ("executor", "", "", "1.000 ms", "10.0%", "", "", "", "", ""),
        ("total", "", "", "10.000 ms", "100.0%", "8 M", "0.9", "2.6 KB", "1.5 KB", "6.500 ms"),
    ]


def test_rows_are_sorted_and_cut():
    def list_keys(**options):
        return [row[0] for row in make_profile_rows(PROFILE, **options)[1][:-2]]

    assert list_keys(sort="order") == ["conv", "relu", "topk", "last"]
    assert list_keys(sort="time") == ["conv", "topk", "last", "relu"]
    assert list_keys(sort="excess") == ["conv", "topk", "last", "relu"]
    changed = replace(PROFILE, layers=(CONV, replace(RELU, seconds=0.0045), TOPK, LAST))
    assert [row[0] for row in make_profile_rows(changed, sort="time")[1]][:2] == ["relu", "conv"]
    assert [row[0] for row in make_profile_rows(changed, sort="excess")[1]][:4] == ["conv", "topk", "relu", "last"]
    assert list_keys(sort="time", top=2) == ["conv", "topk"]
    assert list_keys(top=0) == []


def test_rows_of_groups():
    header, rows, _ = make_profile_rows(PROFILE, "type", sort="time", top=1)
    assert header[:3] == ("type", "calls", "time")
    assert rows[0] == ("Convolution", "1", "4.000 ms", "40.0%", "8 M", "2.0", "2 KB", "999 B", "3.000 ms")
    assert rows[1] == ("executor", "", "1.000 ms", "10.0%", "", "", "", "", "")
    header, rows, _ = make_profile_rows(PROFILE, "module", 1)
    assert header[:3] == ("module", "layers", "time")
    assert [row[:4] for row in rows[:2]] == [("a", "4", "6.500 ms", "65.0%"), ("(network)", "1", "2.500 ms", "25.0%")]


def test_types_of_layers_without_a_list_are_their_own():
    profile = make_profile(replace(CONV, types=()))
    assert make_profile_rows(profile)[1][0][1] == "Convolution"
    assert describe_candidates(profile)[0][0] == "conv (Convolution)"


def test_profile_is_described_in_sentences():
    lines = describe_profile(PROFILE)
    assert lines == [
        "Profile: 8.000 ms per run (median of 3, optimized program), 10.500 ms with timers, 8 M FLOP, 1.0 GFLOP/s, "
        "at most 1.5 KB alive",
        "This machine with 2 threads: 100 GFLOP/s in matrix products, 20.0 GB/s in copies",
        "FLOP count unknown: TopK",
    ]
    plain = replace(PROFILE, layers=(TOPK,), optimized=False, machine=Machine(1, 1e11, 2e10), seconds=0.0035)
    assert describe_profile(plain)[:2] == [
        "Profile: 8.000 ms per run (median of 3, plain program), 3.500 ms with timers, - FLOP, at most 10 B alive",
        "This machine with 1 thread: 100 GFLOP/s in matrix products, 20.0 GB/s in copies",
    ]
    assert repr(PROFILE) == "<Profile: 'net', 4 layers, 8.000 ms per run>"


@pytest.mark.parametrize(("layer_seconds", "differs"), [(104, False), (105, True), (94, False), (93, True)])
def test_sum_of_layers_that_differs_from_the_run_is_mentioned(layer_seconds, differs):
    profile = make_profile(replace(CONV, seconds=float(layer_seconds)), seconds=100.0, executor_seconds=1.0)
    lines = describe_profile(profile)
    assert len(lines) == (3 if differs else 2)
    if differs:
        assert lines[2].startswith(f"The medians of the layers add up to {layer_seconds + 1}000.000 ms: times vary")


def test_layers_with_the_most_time_to_save_are_candidates():
    layers = [make_layer(f"l{i}", seconds=float(i + 2), bound=1.0) for i in range(7)]
    assert [key for key, _ in describe_candidates(make_profile(*layers))] == [f"l{i} (Relu)" for i in (6, 5, 4, 3, 2)]
    assert describe_candidates(PROFILE) == [
        ("conv (Convolution+Add)", "4.000 ms, bound 1.000 ms"),
        ("topk (TopK)", "2.500 ms, bound 0.000 ms"),
        ("last (Relu)", "1.500 ms, bound 0.500 ms"),
    ]
    small = make_layer("small", seconds=1.0)
    rest = make_layer("rest", seconds=99.0, bound=99.0)
    assert describe_candidates(make_profile(small, rest, executor_seconds=0.0)) == []
    assert len(describe_candidates(make_profile(small, rest, executor_seconds=-1.0))) == 1


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (999.4, "999"),
        (999.5, "1 K"),
        (-5, "-5"),
        (-12345, "-12.3 K"),
        (5e9, "5 G"),
        (1.5e15, "1500 T"),
        (4.5e6, "4.5 M"),
    ],
)
def test_quantities_have_three_digits(number, text):
    assert format_quantity(number) == text


def test_table_of_rich_is_aligned():
    table = make_rich_table(PROFILE, 2)
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    assert cells[0] == ["conv", "topk", "executor", "total"]
    assert [column.justify for column in table.columns] == ["left", "left", *["right"] * 8]
    assert [column.min_width for column in table.columns] == [12, *[8] * 9]
    assert all(column.no_wrap for column in table.columns)
    assert isinstance(table.title, Text)
    assert table.title.plain == "\n".join(describe_profile(PROFILE))
    assert table.title_justify == "left"
    assert not table.pad_edge


def test_long_tables_are_cut_at_forty_rows():
    profile = make_profile(*(make_layer(f"l{i}", seconds=1.0) for i in range(41)))
    html = profile._repr_html_()
    assert html.count("<tr>") == 1 + 40 + 2
    assert "1 more layer" in html
    assert profile.__rich__().row_count == 42
    assert "more layers" not in replace(profile, layers=profile.layers[:40])._repr_html_()


def test_profile_is_json(tmp_path):
    result = PROFILE.to_dict("type")
    groups = result.pop("types")
    assert result == {
        "model": "net",
        "optimized": True,
        "runs": 3,
        "seconds": 0.0105,
        "executor_seconds": 0.001,
        "untimed_seconds": 0.008,
        "layer_seconds": pytest.approx(0.009),
        "flops": 8_001_500,
        "bytes": 2600,
        "peak": 1500,
        "unknown_flops": ["TopK"],
        "fallbacks": [],
        "machine": {"threads": 2, "flops_per_second": 1e11, "bytes_per_second": 2e10},
    }
    assert groups[0]["share"] == pytest.approx(0.4)
    assert len(PROFILE.to_dict("module", 1)["modules"]) == 2
    for name in ("p.json", "p.CSV"):
        PROFILE.save(tmp_path / name)
    text = (tmp_path / "p.json").read_text(encoding="utf-8")
    assert text == json.dumps(PROFILE.to_dict(), indent=1) + "\n"
    assert (tmp_path / "p.CSV").read_text(encoding="utf-8") == PROFILE.to_csv()


def test_failed_kernels_are_named():
    fallbacks = [Fallback(("conv", "relu"), 3, "out of bounds"), Fallback(("exp",), 1, "no memory")]
    lines = describe_profile(replace(PROFILE, fallbacks=fallbacks))
    assert lines[-2:] == [
        "Fast kernel of relu failed, so the plain kernel ran: out of bounds",
        "Fast kernel of exp failed, so the plain kernel ran: no memory",
    ]
    assert lines[:-2] == describe_profile(PROFILE)


def test_profile_is_csv():
    assert "\r" not in PROFILE.to_csv()
    header, *rows = csv.reader(io.StringIO(PROFILE.to_csv()))
    assert header == [
        "key", "type", "calls", "seconds", "share", "flops", "flops_per_second", "bytes", "alive", "bound",
        "module", "outputs", "layers",
    ]  # fmt: skip
    assert rows[0] == [
        "conv", "Convolution", "1", "0.004", str(PROFILE.get_share(CONV)), "8000000", "2000000000.0", "2000",
        "999", "0.001", "a.b", "f32[2,3] i64[2]", "conv bias",
    ]  # fmt: skip
    assert rows[2][5:7] == ["", ""]
    assert len(list(csv.reader(io.StringIO(PROFILE.to_csv("module", 1))))) == 3
    formulas = [make_layer(name) for name in ("=1", "+1", "-1", "@a", "\ta", "a=1", "1")]
    names = [row[0] for row in csv.reader(io.StringIO(make_profile(*formulas).to_csv()))][1:]
    assert names == ["'=1", "'+1", "'-1", "'@a", "'\ta", "a=1", "1"]


# Events


def list_calls(trace):
    """Return the complete events of a trace."""
    return [e for e in trace["traceEvents"] if e["ph"] == "X"]


def test_calls_are_events_that_are_nested_in_iterations():
    owner, inner = SimpleNamespace(name="loop"), SimpleNamespace(name="inner")
    loop = make_layer("loop", "Loop", flops=None, bytes=7)
    body = make_layer(
        "loop[*]/a", "MatMul", ("m",), calls=2, flops=20, bytes=9, layers=("a", "b"), types=("MatMul", "Add")
    )
    deep = make_layer("loop[*]/inner[*]/c", "Relu", flops=3, types=(), outputs=("f32[2]",))

    def call(layer, start, end, *scope):
        return layer, Event(None, 10 + start, 10 + end, scope)

    events = (
        call(body, 0.25, 0.5, (owner, 0)),
        call(deep, 1.125, 1.25, (owner, 1), (inner, 4)),
        call(body, 1.0, 1.5, (owner, 1)),
        call(loop, 0.0, 2.0),
        call(RELU, 2.0, 2.000000001),
        call(body, 3.5, 3.75, (owner, 0)),
        call(loop, 3.0, 4.0),
    )
    trace = make_chrome_trace(make_profile(events=events, dropped_events=5))
    assert trace["displayTimeUnit"] == "ms"
    assert trace["otherData"] == {"dropped_events": 5}
    names, calls = trace["traceEvents"][:2], list_calls(trace)
    assert {e["ph"] for e in trace["traceEvents"][2:]} == {"X", "C"}
    assert [(e["name"], e["args"]["name"], e["ts"]) for e in names] == [
        ("process_name", "irrun: net", 0),
        ("thread_name", "run on 2 threads", 0),
    ]
    assert {e["pid"] for e in trace["traceEvents"]} == {1}
    assert {e["tid"] for e in (*names, *calls)} == {1}
    iterations = [(e["name"], e["ts"], e["dur"], e["args"]["layer"]) for e in calls if e["cat"] == "iteration"]
    assert sorted(iterations, key=lambda e: e[1:2]) == [
        ("iteration 0", 0.25e6, 0.25e6, "loop"),
        ("iteration 1", 1e6, 0.5e6, "loop"),
        ("iteration 4", 1.125e6, 0.125e6, "inner"),
        ("iteration 0", 3.5e6, 0.25e6, "loop"),
    ]
    kernels = [e for e in calls if e["cat"] != "iteration"]
    assert [(e["name"], e["cat"], e["ts"], e["dur"]) for e in kernels] == [
        ("loop", "Loop", 0, 2e6),
        ("loop[*]/a", "MatMul", 0.25e6, 0.25e6),
        ("loop[*]/a", "MatMul", 1e6, 0.5e6),
        ("loop[*]/inner[*]/c", "Relu", 1.125e6, 0.125e6),
        ("relu", "Relu", 2e6, 0.001),
        ("loop", "Loop", 3e6, 1e6),
        ("loop[*]/a", "MatMul", 3.5e6, 0.25e6),
    ]
    assert kernels[0]["args"] == {"type": "Loop", "module": "(network)", "outputs": [], "flops": None, "bytes": 7}
    assert kernels[1]["args"] == {
        "type": "MatMul+Add",
        "module": "m",
        "outputs": [],
        "flops": 10,
        "bytes": 4,
        "layers": ["a", "b"],
        "iteration": 0,
    }
    assert kernels[3]["args"]["type"] == "Relu"
    assert kernels[3]["args"]["iteration"] == 4
    assert kernels[4]["args"]["flops"] == 333


def test_events_that_start_together_are_ordered_by_their_length():
    events = tuple((layer, Event(None, 5.0, end, ())) for layer, end in ((RELU, 6.0), (CONV, 7.0)))
    calls = list_calls(make_chrome_trace(make_profile(events=events)))
    assert [(e["name"], e["ts"], e["dur"]) for e in calls] == [("conv", 0, 2e6), ("relu", 0, 1e6)]
    unused = make_layer("a", calls=0, flops=4, bytes=5)
    (call,) = list_calls(make_chrome_trace(make_profile(events=((unused, Event(None, 1.0, 2.0, ())),))))
    assert (call["args"]["flops"], call["args"]["bytes"]) == (4, 5)


# OpenVINO


def make_pair(key, own, other, flops=None, type="Relu", module=(), layers=None, kernels=("k",)):
    return LayerPair(key, type, layers or (key,), own, other, kernels, flops, module)


PAIRS = (
    make_pair("conv", 0.004, 0.001, 8_000_000, "A+B+C+D+E", ("a",), ("conv", "bias"), ("jit", "ref")),
    make_pair("relu", 0.001, 0.002, 1000, "Relu", ("b",)),
    make_pair("zero", 0.0, 0.0, None, "Relu", ("a",), kernels=("k", "m")),
    make_pair("own", 0.003, None, 500, "TopK"),
    make_pair("reorder", None, 0.0005, None, "Reorder"),
    make_pair("other", None, 0.0015, None, "Reorder"),
)
JOINED = replace(PROFILE, openvino=OpenVinoProfile("2025.4", PAIRS, 0.006, 0.005))


def test_rows_beside_openvino():
    header, rows, right = make_openvino_rows(JOINED)
    assert header == ("layer", "type", "flop", "irrun", "OpenVINO", "ratio", "kernel")
    assert right == ("flop", "irrun", "OpenVINO", "ratio")
    assert rows == [
        ("conv", "A+B+C+D+1 more", "8 M", "4.000 ms", "1.000 ms", "4.00", "jit, ref"),
        ("relu", "Relu", "1 K", "1.000 ms", "2.000 ms", "0.50", "k"),
        ("zero", "Relu", "-", "0.000 ms", "0.000 ms", "", "k, m"),
        ("1 only in irrun", "", "500", "3.000 ms", "0.000 ms", "", ""),
        ("2 only in OpenVINO", "", "0", "0.000 ms", "2.000 ms", "", ""),
        ("total", "", "8 M", "8.000 ms", "5.000 ms", "1.60", ""),
    ]
    matched = replace(JOINED, openvino=replace(JOINED.openvino, pairs=PAIRS[:2]))
    assert [row[0] for row in make_openvino_rows(matched)[1]] == ["conv", "relu", "total"]


def test_rows_beside_openvino_are_sorted_and_cut():
    def list_keys(**options):
        return [row[0] for row in make_openvino_rows(JOINED, **options)[1]]

    rest = ["1 only in irrun", "2 only in OpenVINO", "total"]
    assert list_keys(sort="time") == ["conv", "relu", "zero", *rest]
    assert list_keys(sort="excess") == ["conv", "zero", "relu", *rest]
    assert list_keys(sort="time", top=1) == ["conv", "2 more rows", *rest]
    assert list_keys(top=2) == ["conv", "relu", "1 more row", *rest]
    assert list_keys(top=3) == ["conv", "relu", "zero", *rest]
    reversed_pairs = replace(JOINED.openvino, pairs=PAIRS[2::-1])
    assert [r[0] for r in make_openvino_rows(replace(JOINED, openvino=reversed_pairs), sort="time")[1]][:3] == [
        "conv",
        "relu",
        "zero",
    ]
    row = make_openvino_rows(JOINED, top=1)[1][1]
    assert row == ("2 more rows", "", "1 K", "1.000 ms", "2.000 ms", "0.50", "")


def test_rows_beside_openvino_are_grouped():
    header, rows, _ = make_openvino_rows(JOINED, "type")
    assert header[:2] == ("type", "layers")
    assert rows[:2] == [
        ("A+B+C+D+1 more", "2", "8 M", "4.000 ms", "1.000 ms", "4.00", "jit, ref"),
        ("Relu", "2", "1 K", "1.000 ms", "2.000 ms", "0.50", "k, m"),
    ]
    rows = make_openvino_rows(JOINED, "module")[1]
    assert rows[0] == ("a", "3", "8 M", "4.000 ms", "1.000 ms", "4.00", "jit, ref, k, m")
    deep = [replace(pair, module=("x", str(i))) for i, pair in enumerate(PAIRS[:3])]
    profile = replace(JOINED, openvino=replace(JOINED.openvino, pairs=tuple(deep)))
    assert [row[0] for row in make_openvino_rows(profile, "module")[1]][:3] == ["x.0", "x.1", "x.2"]
    assert [row[0] for row in make_openvino_rows(profile, "module", 1)[1]] == ["x", "total"]
    many = tuple(make_pair(str(i), 1.0, 1.0, module=("x", str(i))) for i in range(41))
    profile = replace(JOINED, openvino=replace(JOINED.openvino, pairs=many))
    assert len(make_openvino_rows(profile, "module")[1]) == 2


@pytest.mark.parametrize(("own", "ratio"), [(9.994, "9.99"), (10.0, "10"), (10.6, "11"), (0.001, "0.00")])
def test_large_ratios_are_rounded(own, ratio):
    profile = replace(JOINED, openvino=replace(JOINED.openvino, pairs=(make_pair("a", own, 1.0),)))
    assert make_openvino_rows(profile)[1][0][5] == ratio


def test_pairs_are_json():
    pair = PAIRS[0]
    assert pair.is_matched
    assert [p.is_matched for p in PAIRS] == [True, True, True, False, False, False]
    assert [p.ratio for p in PAIRS] == [4.0, 0.5, None, None, None, None]
    assert make_pair("a", 0.0, 1.0).ratio is None
    assert make_pair("a", 1.0, 0.0).ratio is None
    assert pair.to_dict() == {
        "key": "conv",
        "type": "A+B+C+D+E",
        "layers": ["conv", "bias"],
        "seconds": 0.004,
        "openvino_seconds": 0.001,
        "kernels": ["jit", "ref"],
        "flops": 8_000_000,
        "module": "a",
        "ratio": 4.0,
    }
    result = JOINED.to_dict()["openvino"]
    assert {**result, "pairs": len(result["pairs"])} == {
        "version": "2025.4",
        "pairs": 6,
        "seconds": 0.006,
        "layer_seconds": 0.005,
    }
