"""The report page in a browser: each page must open without requests, errors and messages (see `visit`)."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from ir_text import chain, write

from browser.pages import (
    EXAMPLE,
    HOSTILE,
    write_branch_report,
    write_broken_report,
    write_deep_report,
    write_hostile_report,
    write_large_report,
)
from irrun.inspection.report import make_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def date_report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "date.html"
    inputs = {"text": np.load(EXAMPLE / "input.npy")}
    path.write_text(make_report(EXAMPLE / "model.xml", inputs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def deep_report(tmp_path_factory):
    return write_deep_report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def broken_report(tmp_path_factory):
    return write_broken_report(tmp_path_factory.mktemp("broken"))


def test_values_of_another_shape_stand_out(visit, tmp_path):
    path = tmp_path / "shape.html"
    model = write(tmp_path, chain("Relu", "Exp", "Negative"))
    against = {"layer3": np.zeros((3, 2), np.float32)}
    path.write_text(make_report(model, [np.ones((2, 3), np.float32)], against=against), encoding="utf-8")
    page = visit(path).page
    assert "other shape" in page.inner_text("#nodes .selected")
    assert "other shape" in page.inner_text("#panel .causes li")
    assert "inf" not in page.inner_text("#panel .causes li")
    assert page.locator("#legend .gradient").count() == 1


def test_page_opens_at_the_layer_that_adds_most_of_the_error(visit, broken_report):
    opened = visit(broken_report)
    page = opened.page
    assert "LSTMCell" in opened.get_selected()
    assert "1 layer adds an error" in page.inner_text("#subtitle")
    finding = page.locator("#panel .causes li")
    assert finding.count() == 1
    assert "beam_search[0]/decoder" in finding.inner_text()
    assert "differs in" in finding.locator(".reason").inner_text()
    assert finding.get_attribute("aria-current") == "true"
    assert page.inner_text("#nodes .faulty.selected .badge") == "1"
    view, node = (page.locator(selector).bounding_box() for selector in ("#canvas", "#nodes .selected"))
    assert view["x"] < node["x"] < view["x"] + view["width"] - node["width"]
    page.click("#panel .path button")  # the overview has the list too
    assert page.locator("#panel .causes li[aria-current]").count() == 0
    page.click("[data-zoom=close]")
    assert page.locator("#nodes .faulty .badge").count() == 1
    page.click("#panel .causes button")
    assert "LSTMCell" in opened.get_selected()


def test_values_of_the_reference_are_beside_those_of_the_model(visit, broken_report, tmp_path):
    page = visit(broken_report).page
    assert page.locator("#panel .compared-statistics").first.locator("tr").count() == 3
    assert page.locator("#panel figure[data-kind=compared] canvas").count() == 6  # two outputs
    assert page.locator("#panel .scatter circle").count() > 300
    page.click("#panel button:has-text('Show whole') >> nth=0")
    assert page.inner_text("#viewer .muted").startswith("1 map of 12 × 128")
    whole = page.evaluate("document.querySelector('#viewer canvas').toDataURL()")
    page.select_option("#viewer select", "difference")
    assert page.evaluate("document.querySelector('#viewer canvas').toDataURL()") != whole
    page.click("#viewer button:has-text('Close')")
    saved = []
    for title in ("Save .npy", "Save reference .npy"):
        with page.expect_download() as download:
            page.click(f"#panel button:has-text('{title}') >> nth=0")
        download.value.save_as(tmp_path / f"{title}.npy")
        saved.append(np.load(tmp_path / f"{title}.npy"))
    assert [value.shape for value in saved] == [(12, 128), (12, 128)]
    assert np.abs(saved[0] - saved[1]).max() == pytest.approx(0.9637, abs=1e-4)


def test_page_without_inputs_shows_the_structure_and_constants(visit, tmp_path):
    path = tmp_path / "graph.html"
    path.write_text(make_report(EXAMPLE / "model.xml"), encoding="utf-8")
    page = visit(path).page
    assert page.eval_on_selector_all("#measure option", "all => all.map(o => o.value)") == ["weights", "type"]
    assert page.input_value("#measure") == "type"
    assert "did not run" in page.inner_text("#panel")
    page.fill("#search", "decoder")
    page.press("#search", "Enter")
    page.click("#panel details >> nth=0")
    assert "min" in page.inner_text("#panel details[open] .statistics")
    assert "Time" not in page.inner_text("#table .head")


def test_two_models_are_side_by_side(visit, broken_report):
    folder = broken_report.parent
    path = folder / "pair.html"
    path.write_text(make_report(folder / "broken.xml", other=EXAMPLE / "model.xml"), encoding="utf-8")
    opened = visit(path)
    page = opened.page
    assert page.input_value("#measure") == "difference"
    assert "LSTMCell" in opened.get_selected()
    assert "1 layer differs" in page.inner_text("#panel .findings")
    assert "32768 of 65536 elements differ" in page.inner_text("#panel .reason")
    assert "LSTMCell" in page.inner_text("#nodes .partner")
    assert page.locator("#nodes .header", has_text="beam_search").count() == 2  # bodies open together
    page.click("#panel section:has-text('Other model') .link")
    assert "date_translation/model.xml" in page.inner_text("#panel .path")


def test_keys_with_iterations_open_these(visit, date_report):
    opened = visit(date_report, "#beam_search[2]/decoder")
    assert "beam_search[2]/decoder" in opened.page.inner_text("#panel .key")
    opened.search("beam_search[7]/decoder")
    assert "beam_search[7]/decoder" in opened.page.inner_text("#panel .key")
    assert opened.page.locator("#nodes .slider input").input_value() == "7"


def test_search_finds_and_focuses_a_layer(visit, date_report):
    opened = visit(date_report)
    opened.search("Softmax")
    assert opened.get_selected().startswith("SoftMax")
    assert opened.page.evaluate("document.activeElement.classList.contains('selected')")
    assert opened.page.inner_text("#panel h2").startswith("SoftMax")
    assert "SoftMax" in opened.page.inner_text("#table .row.selected")
    box = opened.page.locator("#nodes .selected").bounding_box()
    canvas = opened.page.locator("#canvas").bounding_box()
    assert canvas["x"] < box["x"] < box["x"] + box["width"] < canvas["x"] + canvas["width"]
    assert canvas["y"] < box["y"] < box["y"] + box["height"] < canvas["y"] + canvas["height"]


def test_search_for_a_type_lists_all_layers_of_it_in_the_table(visit, date_report):
    page = visit(date_report).page
    page.fill("#search", "matmul")
    count = page.locator("#results [role=option] .type", has_text="MatMul").count()
    assert count > 3
    assert page.inner_text("#table .count").startswith(f"{count} of")
    page.fill("#search", "no such layer")
    assert "No layer" in page.inner_text("#results")


def test_search_for_a_constant_shows_it_at_its_consumer(visit, date_report):
    opened = visit(date_report)
    opened.search("Constant")
    details = opened.page.locator("#panel details[open]")
    assert details.count() == 1
    assert "constant" in details.inner_text()


def test_search_understands_regular_expressions_and_attributes(visit, date_report):
    page = visit(date_report).page

    def count(query: str) -> int:
        page.fill("#search", query)
        return page.locator("#results [role=option]").count()

    layers = json.loads(page.text_content("#data"))["layers"]
    assert count(r"/^encoder_l\d(_reverse)?$/") == 2
    assert count(r"/LSTM(Cell|Sequence)$/") == 3
    assert count("/lstm(/") == 0
    assert "not a regular expression" in page.inner_text("#results")
    expected = [n for n in layers if str(n.get("attributes", {}).get("hidden_size")) == "128"]
    assert count("hidden_size=128") == len(expected) > 0
    assert count("type=MatMul") == sum(layer["type"] == "MatMul" for layer in layers)
    assert count("hidden_size=12") == 0
    assert count("hidden_size:12 decoder") == 1


def test_edges_enter_and_leave_bodies(visit, date_report):
    opened = visit(date_report)
    page = opened.page
    opened.search("beam_search")
    edges = page.locator("#edges > path").count()
    page.keyboard.press("Enter")
    body = json.loads(page.text_content("#data"))["graphs"][1]
    assert page.locator("#edges path.back").count() == len(body["back_edges"]) > 0
    assert page.locator("#edges > path").count() > edges + 40
    pills = page.locator("#nodes .pill")
    assert pills.filter(has_text="from memory").count() == 1
    for text, kind in (("sliced", "inputs"), ("concatenated", "outputs")):
        assert pills.filter(has_text=text).count() == sum(axis is not None for _, _, axis in body[kind]) > 0
    pills.filter(has_text="from memory").dispatch_event("click")
    assert "memory" in page.inner_text("#panel .key")


def test_graph_is_saved_as_svg_and_png(visit, deep_report, tmp_path):
    page = visit(deep_report).page
    for suffix in ("svg", "png"):
        with page.expect_download() as download:
            page.click(f"[data-zoom={suffix}]")
        download.value.save_as(tmp_path / f"graph.{suffix}")
        assert download.value.suggested_filename == f"deep.{suffix}"
    svg = ElementTree.parse(tmp_path / "graph.svg")
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Sigmoid", "Tanh", "SoftMax", "Exp"} <= set(texts)
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


def test_body_opens_and_its_slider_changes_values(visit, date_report):
    opened = visit(date_report)
    page = opened.page
    opened.search("beam_search")
    assert page.locator("#nodes .node", has_text="LSTMCell").count() == 0
    page.keyboard.press("Enter")
    assert page.locator("#nodes .node", has_text="LSTMCell").count() == 1
    opened.search("decoder")
    first = page.inner_text("#panel .first >> nth=0")
    slider = page.locator("#nodes .slider input")
    assert slider.get_attribute("max") == "10"  # every iteration of the body
    values = {first}
    for _ in range(10):
        slider.press("ArrowRight")
        values.add(page.inner_text("#panel .first >> nth=0"))
    assert len(values) == 11
    assert "beam_search[10]/decoder" in page.inner_text("#panel .key")
    assert page.locator("#table .row.selected", has_text="beam_search[10]/decoder").count() == 1
    page.locator("#nodes .node.selected").press("[")
    assert "beam_search[9]/decoder" in page.inner_text("#panel .key")


def test_bodies_of_if_and_nested_loops_open(visit, tmp_path):
    pytest.importorskip("openvino")
    opened = visit(write_branch_report(tmp_path))
    page = opened.page
    opened.search("else_sigmoid")
    assert "This branch was not executed" in page.inner_text("#panel")
    assert "idle" in page.get_attribute("#nodes .selected", "class")
    opened.search("step")
    first = page.inner_text("#panel .first >> nth=0")
    assert page.locator("#nodes .slider input:visible").count() == 1  # If has no iterations
    page.keyboard.press("]")
    assert "branch[0]/repeat[1]/step" in page.inner_text("#panel .key")
    assert page.inner_text("#panel .first >> nth=0") != first
    assert page.locator("#nodes .header").count() == 4
    for header in page.locator("#nodes .header").all():
        assert header.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_parameter_of_a_body_links_to_its_sources(visit, date_report):
    opened = visit(date_report)
    opened.search("hidden")
    text = opened.page.inner_text("#panel")
    assert "Outside of the body" in text
    assert "In later iterations" in text


def test_colors_change_with_the_measure(visit, deep_report):
    opened = visit(deep_report)
    assert opened.page.input_value("#measure") == "own"
    seen = {(tuple(opened.read_colors()), opened.page.inner_text("#legend"))}
    for measure in ("accumulated", "time", "memory", "range", "type"):
        opened.page.select_option("#measure", measure)
        seen.add((tuple(opened.read_colors()), opened.page.inner_text("#legend")))
    assert len({colors for colors, _ in seen}) == len({legend for _, legend in seen}) == 6


def test_measures_without_numbers_are_not_offered(visit, date_report):
    options = visit(date_report).page.eval_on_selector_all("#measure option", "options => options.map(o => o.value)")
    assert options == ["time", "memory", "range", "weights", "type"]


def test_times_name_their_run_and_the_slowest_layers(visit, date_report):
    opened = visit(date_report)
    page = opened.page
    assert "the optimized run" in page.inner_text("#panel .facts")
    assert "the optimized run" in page.inner_text("#legend")
    names = page.locator("#panel .bars .link").all_inner_texts()
    assert len(set(names)) == len(names) == 6
    opened.search("decoder")
    assert "11 calls together" in page.inner_text("#panel .facts >> nth=0")


def test_table_sorts_and_selects(visit, date_report):
    opened = visit(date_report)
    page = opened.page
    page.click("#table .head button:has-text('Memory')")
    rows = page.locator("#table .rows .row")
    assert page.get_attribute("#table [aria-sort]", "aria-sort") == "descending"
    largest = rows.first.inner_text()
    page.click("#table .head button:has-text('Memory')")
    assert rows.first.inner_text() != largest
    rows.nth(2).click()
    name = rows.nth(2).locator(".cell").nth(2).inner_text()
    assert opened.get_selected().startswith(name)
    page.locator("#table .scroller").press("ArrowDown")
    assert "selected" in rows.nth(3).get_attribute("class")


def test_groups_open_and_close_with_the_keyboard(visit, deep_report):
    opened = visit(deep_report)
    page = opened.page
    page.click("[data-zoom=close]")
    assert page.locator("#nodes .node.group").count() == 2
    page.locator("#nodes .node.group").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#nodes .header").count() == 1
    assert "stem" in page.inner_text("#nodes .header")
    page.keyboard.press("Enter")
    assert page.locator("#nodes .header").count() == 0


def test_arrow_keys_follow_the_edges(visit, deep_report):
    opened = visit(deep_report)
    opened.search("Tanh")
    opened.page.keyboard.press("ArrowDown")
    assert opened.get_selected().startswith("SoftMax")
    opened.page.keyboard.press("ArrowUp")
    opened.page.keyboard.press("ArrowUp")
    assert opened.get_selected().startswith("Sigmoid")
    opened.page.keyboard.press("Escape")
    assert opened.page.inner_text("#panel h2") == "Overview"


def test_images_and_attention_are_drawn(visit, deep_report):
    opened = visit(deep_report)
    page = opened.page
    assert page.locator("#panel canvas.image").count() == 1
    opened.search("SoftMax")
    assert page.locator("#panel figure[data-kind=attention] canvas").count() == 3
    opened.search("Tanh")
    assert page.locator("#panel figure[data-kind='feature maps'] canvas").count() == 3
    colors = page.evaluate(
        "() => { const c = document.querySelector('#panel .map canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return new Set(Array.from({length: c.width * c.height}, (_, i) => d.slice(4 * i, 4 * i + 3).join())).size }"
    )
    assert colors > 20


def test_errors_are_shown(visit, deep_report):
    opened = visit(deep_report)
    opened.search("SoftMax")
    text = opened.page.inner_text("#panel")
    assert "Accumulated" in text
    assert "dB, largest difference" in text
    assert "Verdict" in opened.page.inner_text("#table .head")


def test_hostile_names_are_shown_as_text(visit, tmp_path):
    opened = visit(write_hostile_report(tmp_path))
    page = opened.page
    assert page.inner_text("h1") == f"hostile.xml {HOSTILE}"
    assert page.title().startswith(f"hostile.xml · {HOSTILE}")
    opened.search("Relu")
    assert HOSTILE in page.inner_text("#panel")
    assert "\\u202eRelu" in page.inner_text("#panel .key")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
    page.fill("#search", HOSTILE)
    assert page.locator("#results [role=option]").count() == 4
    page.press("#search", "Escape")
    with page.expect_download() as download:
        page.click("[data-zoom=svg]")
    download.value.save_as(tmp_path / "graph.svg")
    elements = {element.tag.partition("}")[2] for element in ElementTree.parse(tmp_path / "graph.svg").iter()}
    assert elements.isdisjoint({"script", "img", "image", "foreignObject"})


def test_network_of_5000_layers_is_usable(visit, tmp_path):
    opened = visit(write_large_report(tmp_path))
    page = opened.page
    assert page.locator("#nodes .node").count() <= 150
    assert page.inner_text("#table .count").startswith("5,000 layers")
    is_cut = "spans => spans.some(span => span.scrollWidth > span.clientWidth + 1)"
    assert not page.eval_on_selector_all("#nodes .node .first .name", is_cut)
    assert all(text.count(" + ") <= 3 for text in page.locator("#panel .bars .muted").all_inner_texts())
    opened.search("layer2501")
    assert "layer2501" in opened.get_selected()
    assert page.locator("#nodes .node").count() < 300
    page.click("[data-zoom=fit]")
    assert page.locator("#nodes .selected").bounding_box()["width"] > 50  # the group around it, which is legible
    page.click("[data-zoom=fit]")
    assert page.locator("#nodes .selected").bounding_box()["width"] < 50  # the whole graph
    page.select_option("#measure", "range")
    page.click("#table .head button:has-text('Time')")
    assert page.locator("#table .rows .row").count() < 100


def test_schemes_differ_and_follow_the_system(browser, deep_report):
    backgrounds = []
    for scheme in ("light", "dark"):
        page = browser.new_context(color_scheme=scheme).new_page()
        page.goto(deep_report.as_uri())
        page.wait_for_selector("html[data-ready=true]")
        read = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(read)
        page.click("#theme")
        assert page.evaluate(read) != before
        backgrounds.append(before)
        page.context.close()
    assert backgrounds[0] != backgrounds[1]


def test_narrow_screen_shows_one_part_at_a_time(browser, deep_report):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(deep_report.as_uri())
    page.wait_for_selector("html[data-ready=true]")
    for view, part in (("panel", "#panel"), ("table", "#table"), ("graph", "#canvas")):
        page.click(f".tabs [data-view={view}]")
        assert [page.locator(other).is_visible() for other in ("#canvas", "#panel", "#table")].count(True) == 1
        assert page.locator(part).is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click(".tabs [data-view=table]")
    page.click("#table .rows .row >> nth=1")
    assert page.locator("#panel").is_visible()
    page.fill("#search", "softmax")
    page.press("#search", "Enter")
    assert page.locator("#canvas").is_visible()
    context.close()


def test_page_prints_all_rows_and_the_drawing_in_light_colors(visit, deep_report):
    page = visit(deep_report).page
    page.click("#theme")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#table .rows .row").count() == 6
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".search").is_visible()
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.classList.contains('printing')") is False
