"""HTML for notebooks: escaped tables without scripts."""

from __future__ import annotations

import html
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, write
from lxml import etree

import irrun
from irrun import inspection
from irrun._html import describe_array, make_frame, make_table, shorten

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
