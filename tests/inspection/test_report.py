"""The data and the HTML of reports. tests/browser tests what the page does with them."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zlib
from base64 import b64decode, b64encode
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from ir_text import chain, layer, net, port, write

import irrun
from inspection.graphs import Row, make_graph
from irrun.cli.report import command
from irrun.inspection import compare, record
from irrun.inspection.report import make_report
from irrun.inspection.report.collection import Collector
from irrun.inspection.report.data import collect_report
from irrun.inspection.report.groups import MAX_MEMBERS, Group, build_groups
from irrun.inspection.report.model_explorer import make_graphs, make_node_data
from irrun.inspection.report.page import SCRIPTS, encode_json
from irrun.inspection.report.pictures import (
    NOT_FINITE,
    Picture,
    PictureStore,
    compute_attention,
    make_image,
    make_maps,
)
from irrun.inspection.report.structure import Structure
from irrun.inspection.report.summaries import make_histogram, shorten, summarize
from irrun.inspection.report.tensors import TensorStore
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.ir.weights import Weights

EXAMPLE = Path(__file__).parents[2] / "examples" / "date_translation"


@pytest.fixture(scope="module")
def text():
    return np.load(EXAMPLE / "input.npy")


@pytest.fixture(scope="module")
def report(text):
    return collect_report(EXAMPLE / "model.xml", {"text": text}, against="f64")


def read_data(page: str):
    """Return the data in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def find_layer(data, name: str) -> int:
    return next(i for i, layer in enumerate(data["layers"]) if layer["name"] == name)


# The data of a run.


def test_all_layers_have_the_values_of_the_run(report, text):
    data = report.to_json()
    trace = record(EXAMPLE / "model.xml", {"text": text})
    for value in trace.entries.values():
        number = report.structure.numbers[id(report.structure.table.find_layer(value.layer))]
        tag = ",".join(re.findall(r"\[(\d+)\]/", value.layer))
        output = data["values"][number][tag]["outputs"][value.port]
        assert output["type"] == value.type
        assert output["shape"] == list(value.shape)
        assert output["stats"][0] == pytest.approx(value.statistics["min"], rel=1e-5)


def test_every_iteration_of_a_body_is_contained(report):
    data = report.to_json()
    owner = find_layer(data, "beam_search")
    assert data["iterations"] == {owner: {"": 11}}
    decoder = data["values"][find_layer(data, "decoder")]
    assert list(decoder) == [str(i) for i in range(11)]
    assert len({tuple(record["outputs"][0]["first"]) for record in decoder.values()}) == 11


def test_parameters_of_a_body_have_values_and_connections(report):
    data = report.to_json()
    hidden = find_layer(data, "hidden")
    assert len(data["values"][hidden]) == 11
    graph = data["graphs"][data["layers"][hidden]["graph"]]
    assert any(inner == hidden for _, inner, _ in graph["inputs"])
    assert any(target == hidden for _, target in graph["back_edges"])


def test_constants_belong_to_their_consumers(report):
    data = report.to_json()
    drawn = set()

    def visit(members):
        for member in members:
            visit(member["members"]) if isinstance(member, dict) else drawn.add(member)

    for graph in data["graphs"]:
        visit(graph["members"])
    constants = {i for i, layer in enumerate(data["layers"]) if layer.get("constant")}
    assert constants
    assert drawn == set(range(len(data["layers"]))) - constants
    weights = next(
        i for i in constants if data["values"].get(i, {}).get("", {}).get("outputs", [{}])[0].get("histogram")
    )
    assert data["values"][weights][""]["outputs"][0]["shape"]


def test_errors_are_those_of_compare(report, text):
    data = report.to_json()
    comparison = compare(EXAMPLE / "model.xml", "f64", {"text": text})
    for compared in comparison.layers:
        number = report.structure.numbers[id(report.structure.table.find_layer(compared.key))]
        error = data["errors"][number][",".join(re.findall(r"\[(\d+)\]/", compared.key))]
        assert error["verdict"] == compared.verdict
        assert error["own"]["db"] == (None if compared.own.is_exact else pytest.approx(compared.own.sqnr_db, abs=0.01))


def test_values_of_another_shape_are_called_so(tmp_path):
    path = write(tmp_path, chain("Relu", "Exp"))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    data = collect_report(path, x, against={"layer1": np.zeros((3, 2), np.float32)}).to_json()
    (cause,) = data["reference"]["causes"]
    assert (cause["key"], cause["own"]) == ("layer1", {"db": -1000.0, "abs": "inf"})
    data = collect_report(path, x, against={"layer1": np.full((2, 3), np.inf, np.float32)}).to_json()
    assert data["reference"]["causes"][0]["own"] == {"db": -999.0, "abs": "inf"}


def test_generated_names_are_left_out_beside_the_name_of_a_file(tmp_path):
    x = np.zeros((2, 3), np.float32)
    path = write(tmp_path, chain("Relu").replace('<net name="', '<net name="Model12" comment="', 1), name="small")
    model = irrun.read_model(path)
    assert collect_report(model, x).to_json()["model"]["names"] == ["small.xml"]
    model.graph.name = "classifier"
    assert collect_report(model, x).to_json()["model"]["names"] == ["small.xml", "classifier"]


def test_times_are_those_of_kernels_in_the_optimized_run(report):
    data = report.to_json()
    times = data["times"]
    assert times["source"] == "the optimized run"
    assert sum(kernel["seconds"] for kernel in times["kernels"]) > 0
    numbers = [number for kernel in times["kernels"] for number in kernel["layers"]]
    assert len(numbers) == len(set(numbers))
    by_name = {data["layers"][kernel["layers"][0]]["name"]: kernel for kernel in times["kernels"]}
    assert by_name["decoder"]["calls"] == 11
    fused = [[data["layers"][n]["type"] for n in kernel["layers"]] for kernel in times["kernels"]]
    assert ["MatMul", "Add", "Tanh"] in fused  # the product names the kernel


def test_times_of_plain_kernels_are_called_so(text, tmp_path):
    compiled = irrun.compile_model(EXAMPLE / "model.xml", optimize=False)
    assert "plain kernels" in collect_report(compiled, {"text": text}).times.source
    trace = record(EXAMPLE / "model.xml", {"text": text}, tmp_path / "run.trace")
    with trace:
        times = collect_report(EXAMPLE / "model.xml", trace=trace).times
    assert "plain kernels" in times.source
    assert sum(kernel["seconds"] for kernel in times.kernels) <= times.seconds * 1.01


def test_report_of_a_trace_shows_its_values(text, tmp_path):
    trace = record(EXAMPLE / "model.xml", {"text": text}, tmp_path / "run.trace", max_bytes=1000)
    with trace:
        data = read_data(make_report(EXAMPLE / "model.xml", trace=trace))
    decoder = data["values"][str(find_layer(data, "decoder"))]
    assert len(decoder) == 11
    assert decoder["3"]["outputs"][0]["stats"] is not None
    assert "first" not in decoder["3"]["outputs"][0]  # only statistics were recorded


def test_failed_run_shows_the_values_before_the_failure(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="?,3" element_type="f32"', outputs=[port(0, (-1, 3), "FP32")], name="x"),
        layer(1, "Parameter", data='shape="?,3" element_type="f32"', outputs=[port(0, (-1, 3), "FP32")], name="y"),
        layer(2, "Relu", inputs=[port(0)], outputs=[port(1, (-1, 3), "FP32")], name="first"),
        layer(3, "Add", inputs=[port(0), port(1)], outputs=[port(2, (-1, 3), "FP32")], name="second"),
        layer(4, "Result", inputs=[port(0)], name="result"),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (2, 1, 3, 0), (1, 0, 3, 1), (3, 2, 4, 0)]))
    for name, count in (("x", 2), ("y", 5)):
        np.save(tmp_path / f"{name}.npy", np.ones((count, 3), np.float32))
    output = tmp_path / "r.html"
    arguments = [str(path), "-i", f"x={tmp_path}/x.npy", "-i", f"y={tmp_path}/y.npy", "-o", str(output)]
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, irrun.IrrunError)  # the command line turns it into exit code 2
    data = read_data(output.read_text(encoding="utf-8"))
    assert "second" in data["run"]["error"]
    assert data["values"][str(find_layer(data, "first"))]
    assert str(find_layer(data, "second")) not in data["values"]


def test_values_of_the_reference_are_those_that_differ(tmp_path):
    def make(scale: float):
        shape = 'shape="2,3,8,8" element_type="f32"'
        layers = [
            layer(0, "Parameter", data=shape, outputs=[port(0, (2, 3, 8, 8), "FP32")], name="x"),
            layer(1, "Sigmoid", inputs=[port(0)], outputs=[port(1, (2, 3, 8, 8), "FP32")], name="equal"),
            layer(
                2, "Elu", data=f'alpha="{scale}"', inputs=[port(0)], outputs=[port(1, (2, 3, 8, 8), "FP32")], name="y"
            ),
            layer(3, "Result", inputs=[port(0)], name="r1"),
            layer(4, "Result", inputs=[port(0)], name="r2"),
        ]
        return write(tmp_path, net(layers, [(0, 0, 1, 0), (0, 0, 2, 0), (1, 1, 3, 0), (2, 1, 4, 0)]), name=f"m{scale}")

    value = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    value[0, 2] = np.abs(value[0, 2])
    data = collect_report(make(1.0), value, against=make(0.5)).to_json()
    assert "reference" not in data["values"][find_layer(data, "equal")][""]["outputs"][0]
    output = data["values"][find_layer(data, "y")][""]["outputs"][0]
    picture = data["compared"][output["reference"]["picture"]]
    assert picture["bounds"][0] == picture["bounds"][1]  # one scale
    assert picture["bounds"][2][0] == 0
    assert 2 not in picture["numbers"]  # its elements are positive, and equal
    points = np.frombuffer(b64decode(output["reference"]["points"]["data"]), np.uint8).reshape(-1, 2)
    assert (points[:, 1] <= points[:, 0]).all()
    stored = np.load(io.BytesIO(zlib.decompress(b64decode(data["tensors"][output["tensor"]]))))
    np.testing.assert_array_equal(stored, irrun.compile_model(make(1.0), optimize=False)(value)[1])
    assert data["tensors"][output["reference"]["tensor"]]


def test_statistics_of_large_constants_without_a_run_are_of_a_sample(tmp_path):
    graph = make_graph(
        Row("x", "Parameter", shapes=[[1, 600]]),
        Row("weights", "Constant", value=np.arange(600 * 600, dtype=np.float32).reshape(600, 600)),
        Row("bias", "Constant", value=np.float32([3, 5])),
        Row("product", "MatMul", ["x", "weights"]),
        Row("sum", "Add", ["product", "bias"]),
        Row("y", "Result", ["sum"]),
    )
    data = collect_report(Model(graph, Weights())).to_json()
    large, small = (data["values"][find_layer(data, name)][""]["outputs"][0] for name in ("weights", "bias"))
    assert large["shape"] == [600, 600]
    assert large["sampled"] == 120_000
    assert large["stats"][:2] == [0, 359_997]
    assert "sampled" not in small
    assert small["stats"][:3] == [3, 5, 4]


def test_pairs_list_what_differs_and_what_has_no_match(tmp_path):
    shape = 'shape="2,3" element_type="f32"'

    def make(name: str, second: str, alpha: str):
        layers = [
            layer(0, "Parameter", data=shape, outputs=[port(0, (2, 3), "FP32")], name="x"),
            layer(1, "Elu", data=f'alpha="{alpha}"', inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")], name="elu"),
            layer(2, second, inputs=[port(0)], outputs=[port(1, (2, 3), "FP32")], name=second),
            layer(3, "Result", inputs=[port(0)], name="result"),
        ]
        return write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)]), name=name)

    report = collect_report(make("a", "Relu", "1"), other=make("b", "Tanh", "0.5"))
    data = report.to_json()
    pair = data["other"]
    assert (report.has_run, report.title, pair["layer"], pair["graph"]) == (False, "a.xml · b.xml", 4, 1)
    assert data["graphs"][1]["members"] == [4, 5, 6, 7]
    assert pair["partners"][1] == 5
    assert "alpha is 1, but 0.5 in the other model" in pair["differences"][1]
    assert pair["unmatched"] == [2, 6]


# Limits.


def test_preferred_tensors_replace_others():
    store = TensorStore(1000)
    owners: list[dict[str, int]] = [{}, {}, {}]
    for i, owner in enumerate(owners):
        store.add(np.random.default_rng(i).integers(0, 256, 400, np.uint8), owner, is_preferred=i == 2)
    assert [sorted(owner) for owner in owners] == [["tensor"], [], ["tensor"]]
    assert sum(len(b64decode(blob)) for blob in store.to_json() if blob) <= 1000
    assert store.omitted == 1


def test_iterations_and_values_beyond_the_limits_are_noted(text):
    compiled = irrun.compile_model(EXAMPLE / "model.xml", optimize=False)
    collector = Collector(Structure(compiled.model), max_iterations=4, max_values=120)
    compiled.create_infer_request().infer({"text": text}, observers=[collector])
    records = [record for records in collector.records.values() for record in records.values()]
    assert sum(len(record.get("outputs", ())) for record in records) <= 120
    assert all(int(tag or 0) < 4 for records in collector.records.values() for tag in records)
    notes = " ".join(collector.describe_omissions())
    assert "first 4 iterations" in notes
    assert "values are omitted" in notes


def test_pictures_are_reduced_until_they_fit():
    store = PictureStore(20_000)
    for i in range(40):
        store.add(make_maps(np.random.default_rng(i).random((1, 8, 40, 40))))
    kept = [picture for picture in store.pictures if picture is not None]
    assert sum(picture.pixels.nbytes for picture in kept) <= 20_000
    assert len(kept) == 40
    assert store.is_reduced
    assert all(len(picture.bounds) == len(picture.pixels) for picture in kept)
    tiny = PictureStore(10)
    tiny.add(make_maps(np.ones((1, 8, 40, 40))))
    assert (tiny.pictures, tiny.removed) == ([None], 1)


def test_groups_are_small_and_contain_every_layer_once():
    layers = [Layer(i, f"layer{i}", "Relu") for i in range(MAX_MEMBERS**2 + 3)]
    seen = []

    def visit(group):
        assert len(group.members) <= MAX_MEMBERS
        for member in group.members:
            visit(member) if isinstance(member, Group) else seen.append(member.id)

    visit(build_groups(layers, {}))
    assert seen == [layer.id for layer in layers]


def test_groups_follow_modules_without_chains_and_single_layers():
    layers = [Layer(i, "", "Relu") for i in range(6)]
    paths = [("net", "a", "b"), ("net", "a", "b"), ("net", "c"), ("net", "d", "e"), ("net", "d", "e"), ("net", "d")]
    root = build_groups(layers, {id(layer): path for layer, path in zip(layers, paths, strict=True)})
    assert [member.label if isinstance(member, Group) else member.id for member in root.members] == ["a.b", 2, "d"]
    assert [getattr(member, "label", "") for member in root.members[2].members] == ["e", ""]


def test_numbered_modules_have_the_name_of_their_list():
    layers = [Layer(i, "", "Relu") for i in range(5)]
    paths = [("layer", "0"), ("layer", "0"), ("layer", "1"), ("layer", "1"), ("head",)]
    root = build_groups(layers, {id(layer): path for layer, path in zip(layers, paths, strict=True)})
    assert root.members[0].label == "layer"
    assert [member.label for member in root.members[0].members] == ["layer.0", "layer.1"]


def test_long_texts_are_shortened():
    assert len(shorten("x" * 10**6)) <= 400
    assert shorten("a\u202eb") == "a\\u202eb"


# Summaries and pictures.


@pytest.mark.parametrize(
    "value",
    [
        np.array([], np.float32),
        np.array(3.5),
        np.array([np.nan, np.inf, -np.inf, 1, 2]),
        np.array([-1.7e308, 1.7e308]),
        np.array([2**63, 1], np.uint64),
        np.array([True, False]),
        np.array(["a", "b" * 1000], object),
    ],
    ids=["empty", "scalar", "not finite", "huge", "u64", "boolean", "string"],
)
def test_summary_of_any_value_is_json(value):
    summary = json.loads(json.dumps(summarize(value), allow_nan=False))
    assert summary["shape"] == list(value.shape)
    assert len(summary["first"]) == value.size
    assert all(len(str(element)) <= 60 for element in summary["first"])


def test_histogram_counts_the_finite_elements():
    value = np.array([0, 0, 1, 2, 7, np.nan, np.inf], np.float32)
    histogram = make_histogram(value, 0.0, 7.0)
    assert sum(histogram["counts"]) == 5
    assert histogram["counts"][0] == 2
    integers = make_histogram(np.array([3, 3, 5]), 3.0, 5.0)
    assert (integers["counts"], integers["low"], integers["high"]) == ([2, 0, 1], 3.0, 6.0)
    large = make_histogram(np.arange(10**6), 0.0, 10.0**6 - 1)
    assert large["sampled"]
    assert max(large["counts"]) < 1.1 * min(large["counts"])


def test_maps_are_channels_with_their_ranges():
    value = np.zeros((2, 8, 5, 6), np.float32)
    value[0, 1] = np.arange(30).reshape(5, 6)
    value[0, 2, 0, 0] = np.nan
    picture = make_maps(value)
    assert (picture.kind, picture.pixels.shape, picture.total) == ("feature maps", (6, 5, 6), 8)
    assert picture.bounds[1] == (0.0, 29.0)
    assert (picture.pixels[1].min(), picture.pixels[1].max()) == (0, 254)
    assert picture.pixels[2, 0, 0] == NOT_FINITE
    assert make_maps(np.zeros((1, 4, 3000, 2000), np.float16)).pixels.shape == (4, 56, 56)


def test_means_of_blocks_are_exact():
    value = np.zeros((112, 112))
    value[:56] = 1
    picture = make_maps(value)
    np.testing.assert_array_equal(picture.pixels[0], np.repeat([254, 0], 28)[:, None] * np.ones(56, int))


def test_images_in_both_layouts_are_equal():
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 40, 30), dtype=np.uint8)
    planar, packed = make_image(image), make_image(np.moveaxis(image, 1, 3))
    assert planar.is_color
    np.testing.assert_array_equal(planar.pixels, packed.pixels)
    np.testing.assert_array_equal(
        planar.pixels, np.moveaxis(image[0].astype(float) * 254 / 255 + 0.5, 0, 2).astype(np.uint8)
    )
    assert make_image(np.zeros((1, 128), np.float32)) is None
    assert make_image(np.zeros((1, 5, 5, 7), np.float32)) is None


def test_attention_maps_are_the_weights_of_the_kernel():
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((2, 9, n, 4)).astype(np.float32) for n in (5, 7, 7))
    maps = compute_attention([query, key, value], causal=False)
    scores = query[0] @ key[0].transpose(0, 2, 1) / 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(maps, weights, rtol=1e-5)
    picture = make_maps(maps, is_attention=True)
    decoded = picture.pixels / 254 * picture.bounds[0][1]
    np.testing.assert_allclose(decoded, weights[:6], atol=0.5 / 254 * weights[:6].max() + 1e-6)
    assert (picture.kind, picture.total) == ("attention", 9)
    assert not compute_attention([query, key, value], causal=True)[:, 0, 1:].any()
    assert compute_attention([query, key[:, :2], value], causal=False) is None


def test_picture_is_encoded_row_by_row():
    picture = Picture("matrix", np.arange(6, dtype=np.uint8).reshape(1, 2, 3), [(0.0, 1.0)], (2, 3), 1)
    encoded = picture.to_json()
    assert (encoded["height"], encoded["width"], b64decode(encoded["data"])) == (2, 3, bytes(range(6)))


# The page.


def test_page_is_self_contained_and_allows_only_its_own_scripts(report):
    from irrun.inspection.report.page import render_page

    page = render_page(report.to_json(), "title")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    elements = re.findall(r"<script>(.*?)</script>|<style>(.*?)</style>", page, re.DOTALL)
    assert len(elements) == 3
    for contents in elements:
        digest = hashlib.sha256("".join(contents).encode()).digest()
        assert f"'sha256-{b64encode(digest).decode()}'" in policy
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.findall(r"\b(?:src|href|style|on\w+)=", markup)


def test_texts_cannot_end_the_script_of_the_data():
    texts = ["</script><img src=x onerror=alert(1)>", "<!--<script>", "]]>&amp;", "\u2028\udcff"]
    encoded = encode_json(texts)
    assert json.loads(encoded) == texts
    assert not set("<>&") & set(encoded)
    assert encoded.isascii()


def test_names_are_escaped_in_the_page(tmp_path):
    name = "&lt;/script>&lt;img src=x onerror=alert(1)>"
    path = write(tmp_path, chain("Relu").replace('name="net"', f'name="{name}"').replace("layer1", name))
    page = make_report(path, np.ones((2, 3), np.float32))
    assert "<img" not in page
    assert page.count("</script>") == 3
    assert read_data(page)["layers"][1]["name"] == "</script><img src=x onerror=alert(1)>"


def test_own_scripts_insert_no_html():
    assets = files("irrun.inspection.report") / "assets"
    for name in SCRIPTS:
        source = (assets / name).read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", source)
        assert not re.search(r"https?://(?!www\.w3\.org)", source)


def test_libraries_have_their_licences():
    text = (files("irrun.inspection.report") / "assets" / "THIRD_PARTY.txt").read_text(encoding="utf-8")
    for name in ("@dagrejs/dagre", "@dagrejs/graphlib", "d3-selection", "d3-zoom", "d3-transition"):
        assert re.search(rf"^{re.escape(name)} \d", text, re.MULTILINE)
    assert text.count("ermission") >= 10


# Model Explorer.


def test_model_explorer_graphs_are_consistent(report):
    collection = make_graphs(report)
    assert [graph["id"] for graph in collection["graphs"]] == ["main", "beam_search/body"]
    identifiers = {graph["id"] for graph in collection["graphs"]}
    for graph in collection["graphs"]:
        nodes = {node["id"]: node for node in graph["nodes"]}
        for node in nodes.values():
            assert set(node) <= {
                "id", "label", "namespace", "attrs", "incomingEdges", "outputsMetadata", "subgraphIds"
            }  # fmt: skip
            assert all(edge["sourceNodeId"] in nodes for edge in node["incomingEdges"])
            assert identifiers.issuperset(node.get("subgraphIds", []))
            assert all(isinstance(pair["value"], str) for pair in node["attrs"])
    owner = next(node for node in collection["graphs"][0]["nodes"] if node["label"] == "TensorIterator")
    assert owner["subgraphIds"] == ["beam_search/body"]


def test_model_explorer_node_data_are_numbers_of_nodes(report):
    nodes = {graph["id"]: {node["id"] for node in graph["nodes"]} for graph in make_graphs(report)["graphs"]}
    node_data = make_node_data(report)
    assert set(node_data) == {
        "time_ms", "output_bytes", "largest_magnitude", "own_error_db", "accumulated_error_db"
    }  # fmt: skip
    for data in node_data.values():
        for graph, contents in data.items():
            assert set(contents["results"]) <= nodes[graph]
            assert all(isinstance(result["value"], (int, float)) for result in contents["results"].values())
            assert [color["stop"] for color in contents["gradient"]] == [0, 0.5, 1]
    assert node_data["time_ms"]["main"]["results"]


# The command.


def test_command_without_inputs_writes_the_structure_of_one_or_two_models(tmp_path):
    model = str(EXAMPLE / "model.xml")
    for others, title in (([], "date_translation"), ([model], "n/model.xml"), (["--against", model], "n/model.xml")):
        output = tmp_path / "graph.html"
        result = CliRunner().invoke(command, [str(EXAMPLE / "model.xml"), *others, "-o", str(output)])
        assert result.exit_code == 0, result.output
        data = read_data(output.read_text(encoding="utf-8"))
        assert not data["has_run"]
        assert (data["other"] is None) == (not others)
        assert title in output.read_text(encoding="utf-8")


def test_command_writes_one_file(tmp_path):
    output = tmp_path / "report.html"
    result = CliRunner().invoke(
        command, [str(EXAMPLE / "model.xml"), "-i", str(EXAMPLE / "input.npy"), "-o", str(output)]
    )
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"wrote {output} (")
    assert list(tmp_path.iterdir()) == [output]
    assert output.stat().st_size < 3_000_000


def test_command_shows_the_structure_of_a_model_without_its_weights(tmp_path):
    path = tmp_path / "model.xml"
    path.write_bytes((EXAMPLE / "model.xml").read_bytes())
    result = CliRunner().invoke(command, [str(path), "-o", str(tmp_path / "graph.html")])
    assert result.exit_code == 0, result.output
    data = read_data((tmp_path / "graph.html").read_text(encoding="utf-8"))
    assert len(data["layers"]) == 150
    assert "model.bin is missing" in " ".join(data["notes"])


def test_command_writes_files_for_model_explorer(tmp_path):
    arguments = [str(EXAMPLE / "model.xml"), "-i", str(EXAMPLE / "input.npy"), "--format", "model-explorer"]
    result = CliRunner().invoke(command, [*arguments, "-o", str(tmp_path / "graph.json")])
    assert result.exit_code == 0, result.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "graph.json", "graph.time_ms.json", "graph.output_bytes.json", "graph.largest_magnitude.json"
    }  # fmt: skip
    assert json.loads((tmp_path / "graph.json").read_text())["label"]


def test_command_does_not_overwrite_the_model(tmp_path):
    path = write(tmp_path, chain("Relu"))
    before = path.read_bytes()
    result = CliRunner().invoke(command, [str(path), "-i", "ones", "-o", str(path)])
    assert result.exit_code == 2
    assert "overwrite" in result.output
    assert path.read_bytes() == before
