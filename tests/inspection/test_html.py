"""HTML for notebooks: escaped tables without scripts."""

from __future__ import annotations

import html
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, write, write_row_loop
from lxml import etree

import irrun
from irrun import inspection
from irrun._html import describe_array, make_frame, make_table, shorten
from irrun.inspection import Comparison, LayerComparison, Metrics, OutputComparison

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e" + "y" * 1000
X = np.array([[1, 2, 3], [4, np.nan, -6]], np.float32)


@pytest.fixture
def model(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Sigmoid", "Relu")))
    model.graph.name = HOSTILE
    for layer in model.graph.layers:
        layer.name = f"{layer.type}{HOSTILE}"
        for port in layer.outputs:
            port.names = ()
    return model


def parse(text):
    """Check that HTML is well-formed and contains only tables, and return its texts."""
    tree = etree.fromstring(text.replace("<br>", "<br/>"))
    tags = {element.tag for element in tree.iter()}
    assert tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert {name for element in tree.iter() for name in element.attrib} <= {"style", "title"}
    assert "\u202e" not in text
    assert max(len(t) for t in tree.itertext()) < 3000
    return list(tree.itertext())


def test_models_are_tables_of_inputs_and_outputs(model):
    texts = parse(model._repr_html_())
    assert texts[0].startswith("Model: </script><img")
    assert {"input", "output", "f32", "[2,3]"} <= set(texts)


def test_compiled_models_show_threads_and_kernels(model):
    texts = parse(irrun.compile_model(model, threads=3)._repr_html_())
    assert texts[texts.index("threads") + 1] == "3"


def test_layers_show_their_ports_and_attributes(tmp_path):
    source = irrun.read_model(write(tmp_path, chain("Elu", data=['alpha="2"'])))
    texts = parse(source.graph.layers[1]._repr_html_())
    assert texts[0] == "Layer 1: layer1, Elu (opset1)"
    assert texts[texts.index("output 0") + 1] == "f32[2,3]"
    assert texts[texts.index("alpha") + 1] == "2"
    assert texts[-1].startswith("line ")


def test_layers_with_bodies_show_their_size(tmp_path):
    loop = irrun.read_model(write_row_loop(tmp_path)).graph.layers[1]
    texts = parse(loop._repr_html_())
    assert texts[texts.index("body") + 1] == "3 layers"


def test_reports_of_checks_list_findings(model):
    report = inspection.check(model, X)
    assert repr(report) == f"<CheckReport: 1 error and {len(report.findings) - 1} notes in 1 run>"
    texts = parse(report._repr_html_())
    assert texts[0] == "Check: failed"
    assert {"nan", "error"} <= set(texts)
    assert parse(inspection.check(model, np.zeros((2, 3), np.float32))._repr_html_())[0].startswith("Check: passed")


def test_wide_tables_scroll_and_numbers_do_not_wrap():
    text = make_table("t", ("a", "b"), [(1, 2)], ("b",))
    assert text.startswith('<div style="overflow-x:auto">')
    assert '<td style="text-align:right;white-space:nowrap">2</td>' in text
    assert "<th" not in make_table("t", ("", ""), [(1, 2)])


def test_outputs_show_ranges_and_first_values(model):
    texts = parse(irrun.compile_model(model)(np.zeros((2, 3), np.float32))._repr_html_())
    assert {"f32[2,3]", "0.5 to 0.5", "0.5 0.5 0.5 0.5 …"} <= set(texts)


def test_traces_show_values(model):
    with inspection.record(irrun.compile_model(model, optimize=False), X) as trace:
        texts = parse(trace._repr_html_())
    assert texts[0] == f"Trace: {len(trace)} values"
    assert "1 NaN" in texts


def test_comparisons_show_layers_and_outputs(tmp_path):
    names = ("model", "other")
    models = [
        irrun.read_model(write(tmp_path, chain("Elu", data=(f'alpha="{alpha}"',)), name=name))
        for alpha, name in zip((1, 2), names, strict=True)
    ]
    for model in models:
        model.graph.layers[1].name = HOSTILE
    x = np.full((2, 3), -1, np.float32)
    texts = parse(inspection.compare(models[0], models[1], x)._repr_html_())
    assert "adds" in texts
    assert "the model differs, </script><img" in texts[0]
    same = parse(inspection.compare(models[0], models[0], x)._repr_html_())
    assert "agrees" in same[0]


def test_long_traces_are_cut(tmp_path):
    path = write(tmp_path, chain(*["Relu"] * 60))
    with inspection.record(path, np.ones((2, 3), np.float32)) as trace:
        text = trace._repr_html_()
    assert text.count("<tr>") == 41
    assert f"{len(trace) - 40} more values" in text


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([1.5, np.nan], np.float32), ("nan to nan", "1.5 nan")),
        (np.array([3, -1], np.int8), ("-1 to 3", "3 -1")),
        (np.array([True, False]), ("0 to 1", "1 0")),
        (np.array([1.5, 2], ml_dtypes.bfloat16), ("1.5 to 2", "1.5 2")),
        (np.array([1, 7], ml_dtypes.int4), ("1 to 7", "1 7")),
        (np.zeros(2, [("nf4", np.uint8)]), ("", "(0,) (0,)")),
        (np.array(["<b>", "c"], object), ("", "<b> c")),
        (np.zeros((0, 3), np.float32), ("empty", "")),
        (np.float64(2).reshape(()), ("2 to 2", "2")),
    ],
)
def test_arrays_of_all_types_are_described(array, expected):
    assert describe_array(array) == expected


def test_cells_are_escaped_and_shortened():
    text = make_table("<t>", ("<h>",), [(HOSTILE,)], notes="<n>")
    assert "<img" not in text
    assert {"<t>", "<h>", "<n>"} <= set(parse(text))
    assert len(shorten("a" * 500)) == 99


def test_frame_contains_the_page_in_an_attribute():
    page = '<html><script>x = "</script>" && 1</script></html>'
    frame = make_frame(page, 300)
    attribute = re.search(r'srcdoc="([^"]*)"', frame)
    assert attribute is not None
    assert html.unescape(attribute[1]) == page
    assert "<script" not in frame
    assert "allow-same-origin" not in frame


def test_report_of_a_trace_is_a_frame(tmp_path):
    path = write(tmp_path, chain("Relu"))
    with inspection.record(path, np.ones((2, 3), np.float32)) as trace:
        report = trace.report(height=300)
    assert report._repr_html_().startswith("<iframe srcdoc=")
    assert "height:300px" in report._repr_html_()
    assert len(repr(report)) < 100
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.page


def test_report_requires_the_model_that_was_run(tmp_path):
    path = write(tmp_path, chain("Relu"))
    with inspection.record(irrun.read_model(path), np.ones((2, 3), np.float32)) as trace:
        other = irrun.read_model(write(tmp_path, chain("Tanh"), name="other"))
        with pytest.raises(irrun.InputError, match="the model differs"):
            trace.report(other)
        path.unlink()
        with pytest.raises(irrun.InputError, match="pass the model"):
            trace.report()


def test_importing_irrun_does_not_import_html():
    code = "import irrun, sys; irrun.compile_model; print([m for m in sys.modules if 'html' in m and 'irrun' in m])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_statistics_of_traces_are_shown(tmp_path):
    x = np.array([[1, 2, 3], [4, np.inf, -6]], np.float32)
    with inspection.record(write(tmp_path, chain("Relu")), x, tmp_path / "run.trace") as trace:
        texts = parse(trace._repr_html_())
        times = [f"{value.seconds * 1000:.2f} ms" for value in trace.entries.values()]
    header = ["value", "operation", "type", "time", "range", "mean", "remarks"]
    assert texts[1:8] == header
    assert texts[8:15] == ["x", "Parameter", "f32[2,3]", times[0], "-6 to 4", "0.8", "1 inf"]
    assert texts[15:22] == ["layer1", "Relu", "f32[2,3]", times[1], "0 to 4", "2", "1 inf"]
    assert texts[0].startswith("Trace: 2 values in ")
    assert len(texts) == 22
    nothing = inspection.record(write(tmp_path, chain("Relu")), np.full((2, 3), np.nan, np.float32))
    assert "to" not in parse(nothing._repr_html_())[8:]


def test_failures_and_omissions_are_noted(tmp_path):
    path = write(tmp_path, chain(*["Relu"] * 41, "Softmax", data=[""] * 41 + ['axis="7"']))
    with pytest.raises(irrun.IrrunError):
        inspection.record(path, X, tmp_path / "run.trace")
    with inspection.Trace.open(tmp_path / "run.trace") as trace:
        texts = parse(trace._repr_html_())
    assert texts[-1].startswith("2 more values. The run failed: ")
    path = write(tmp_path, chain(*["Relu"] * 39))
    with inspection.record(path, X) as trace:
        assert "more values" not in trace._repr_html_()


def test_right_columns_are_numbers(tmp_path):
    with inspection.record(write(tmp_path, chain("Relu")), X) as trace:
        header = re.findall(r'<th style="text-align:(\w+)[^>]*>(\w+)', trace._repr_html_())
    assert [name for side, name in header if side == "right"] == ["time", "mean"]
    models = [write(tmp_path, chain("Elu", data=(f'alpha="{alpha}"',)), name=f"model{alpha}") for alpha in (1, 2)]
    text = inspection.compare(models[0], models[1], -np.ones((2, 3), np.float32))._repr_html_()
    header = re.findall(r'<th style="text-align:(\w+)[^>]*>([^<]+)', text)
    assert [name for side, name in header if side == "right"] == [
        "own dB",
        "own max abs",
        "accumulated dB",
        "accumulated max abs",
        "dB",
        "max abs",
        "top 5",
    ]


def test_comparisons_are_cut_and_described(tmp_path):
    exact = Metrics(count=4)
    wrong = Metrics(max_abs=0.12345, sqnr_db=12.34, differing=1, count=4)
    layers = [
        LayerComparison(f"l{i}", "Relu", f"l{i}", "name", wrong, exact, verdict, 0.0, reason)
        for i, (verdict, reason) in enumerate([("exact", ""), ("inherits", ""), *[("adds", "why")] * 25])
    ]
    outputs = [OutputComparison("y", wrong, 0.666, False), OutputComparison("z", None, 0.0, True)]
    comparison = Comparison(False, "other.xml", "f32", layers, outputs, 30, ["a note"])
    texts = parse(comparison._repr_html_())
    assert texts[0] == "Comparison: the model differs, l2 (Relu) is the first layer that adds an error"
    assert texts[9:15] == ["l1", "Relu", "inherits", "12.3", "0.1235", "equal"]
    assert texts.count("adds") == 24
    assert "Compared with other.xml (f32); 27 of 30 layers matched. a note. 1 more layer" in texts
    assert texts[-12:-7] == ["Outputs", "output", "dB", "max abs", "top 5"]
    assert texts[-7:] == ["y", "12.3", "0.1235", "67%", "z", "missing", "0%"]
    less = Comparison(True, "other.xml", "f32", layers[1:26], outputs, 30)
    assert "more layers" not in less._repr_html_()
    assert len(parse(less._repr_html_())) > 100


def test_report_is_800_pixels_high_by_default(tmp_path):
    with inspection.record(write(tmp_path, chain("Relu")), np.ones((2, 3), np.float32)) as trace:
        assert "height:800px" in trace.report()._repr_html_()


def test_report_may_be_of_a_model_in_memory(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    model.path = None
    with inspection.record(model, np.ones((2, 3), np.float32)) as trace:
        with pytest.raises(irrun.InputError, match="does not name an existing file of the model; pass the model"):
            trace.report()
        assert trace.report(model).page
