"""Details of what the command line prints and accepts: order, boundaries, spellings."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

from irrun.cli.show import format_bytes, summarize_tensor
from irrun.data.load import LoadOptions
from irrun.inspection.profile_table import format_quantity

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


@pytest.fixture
def model(tmp_path):
    """A model with the layers layer1 (Relu), layer2 (Negative) and layer3 (Abs)."""
    np.save(tmp_path / "x.npy", X)
    return write(tmp_path, chain("Relu", "Negative", "Abs"))


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (999_999, "1.0 MB"),
        (1_000_000, "1.0 MB"),
        (1_500_000_000, "1.5 GB"),
        (5_000_000_000_000, "5000.0 GB"),
    ],
)
def test_bytes_have_the_largest_unit_below_1000(count, expected):
    assert format_bytes(count) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (None, "-"),
        (0, "0"),
        (999, "999"),
        (1000, "1 K"),
        (999_499, "999 K"),
        (999_500, "1 M"),
        (8_210_000_000, "8.21 G"),
        (12_345_000_000_000, "12.35 T"),
    ],
)
def test_quantities_have_the_largest_unit_below_1000(number, expected):
    assert format_quantity(number) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([True, False, True]), "2 true"),
        (np.array([3, -7, 5], np.int64), "-7 to 5"),
        (np.array([0.5, -2.25], np.float32), "-2.25 to 0.5"),
        (np.array([1, np.nan, 3], np.float32), "1 to 3 (1 not finite)"),
        (np.zeros((0, 2), np.float32), "empty"),
        (np.array(["a", "b"], dtype=object), "'a' 'b'"),
        (np.arange(9), "0 to 8"),
    ],
)
def test_summary_states_the_range(value, expected):
    assert expected in summarize_tensor(value)


def test_first_elements_are_followed_by_dots_if_there_are_more():
    from irrun.data.json_output import FIRST_ELEMENTS

    few, many = (summarize_tensor(np.arange(n))[3] for n in (FIRST_ELEMENTS, FIRST_ELEMENTS + 1))
    assert not few.endswith("...")
    assert many.endswith(f"{FIRST_ELEMENTS - 1} ...")


def test_seed_is_0_by_default(model, capsys):
    assert LoadOptions().seed == 0
    outputs = [call(capsys, model, "--input", "random", *seed, "--json")[1] for seed in ((), ("--seed", 0))]
    assert outputs[0] == outputs[1]
    assert call(capsys, model, "--input", "random", "--seed", 1, "--json")[1] != outputs[0]


def test_values_are_shown_in_the_order_of_the_options(model, capsys):
    for order in (["layer1", "layer2"], ["layer2", "layer1"]):
        options = [word for name in order for word in ("--show", name)]
        code, out, _ = call(capsys, model, "--input", model.parent / "x.npy", "--json", *options)
        assert code == 0
        assert [output["name"] for output in json.loads(out)["outputs"]] == ["layer3", *order]


@pytest.mark.parametrize("suffix", [".NPZ", ".NPY", ".JSON"])
def test_suffixes_may_be_in_upper_case(model, suffix, tmp_path, capsys):
    target = tmp_path / f"OUT{suffix}"
    code, out, _ = call(capsys, model, "--input", tmp_path / "x.npy", "-o", target)
    assert code == 0
    assert f"wrote {target}" in out
    assert target.is_file()
    if suffix != ".JSON":
        saved = np.load(target)
        np.testing.assert_array_equal(saved if suffix == ".NPY" else saved["layer3"], np.maximum(X, 0))
    (tmp_path / "x.npy").rename(tmp_path / "x2.NPY")
    assert call(capsys, model, "--input", tmp_path / "x2.NPY")[0] == 0


def test_extract_splits_names_at_commas(model, tmp_path, capsys):
    def extract(*options):
        code, _, err = call(capsys, "extract", model, *options, "-o", tmp_path / "part.xml")
        assert (code, err) == (0, "")
        text = (tmp_path / "part.xml").read_text()
        return [n for n in ("x", "layer1", "layer2", "layer3") if f'name="{n}"' in text], text.count('type="Result"')

    assert extract("--outputs", "layer1,layer2") == (["x", "layer1", "layer2"], 2)
    assert extract("--outputs", " layer1 , layer2,") == (["x", "layer1", "layer2"], 2)
    assert extract("--outputs", "layer1", "--outputs", "layer3") == (["x", "layer1", "layer2", "layer3"], 2)
    assert extract("--inputs", "layer1", "--outputs", "layer2") == (["layer1", "layer2"], 1)


def test_extract_keeps_names_with_commas_whole(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Negative").replace('name="layer1"', 'name="a,b"'))
    code, _, err = call(capsys, "extract", path, "--outputs", "a,b", "-o", tmp_path / "part.xml")
    assert (code, err) == (0, "")
    assert (tmp_path / "part.xml").read_text().count('type="Result"') == 1


def test_replay_states_whether_the_model_is_the_recorded_one(model, tmp_path, capsys):
    trace, other = tmp_path / "run.trace", write(tmp_path, chain("Relu", "Abs", "Abs"), name="other")
    assert call(capsys, "trace", model, "--input", model.parent / "x.npy", "-o", trace)[0] == 0
    code, out, _ = call(capsys, "replay", trace, "layer2")
    assert ["layer2", "f32", "[2,3]"] in [line.split()[:3] for line in out.splitlines()]
    assert code == 0
    assert "the model differs from the recorded one" not in out
    assert "layer2 equals the recorded value" in out
    code, out, _ = call(capsys, "replay", trace, "layer2", "--model", other)
    assert code == 1
    assert "the model differs from the recorded one" in out
    assert "layer2 differs from the recorded value: max abs 4, SQNR" in out
    for path, is_same in ((model, True), (other, False)):
        report = json.loads(call(capsys, "replay", trace, "layer2", "--model", path, "--json")[1])
        assert report["same_model"] is is_same
        (entry,) = report["outputs"]
        assert (entry["key"], entry["exact"]) == ("layer2", is_same)
        assert entry["max_abs"] == (0 if is_same else 4)


def test_ops_states_defaults_of_optional_attributes_only(capsys):
    code, out, _ = call(capsys, "ops", "MaxPool-8", "--json")
    assert code == 0
    described = json.loads(out)
    operation = described[0] if isinstance(described, list) else described
    attributes = {a["name"]: a for a in operation["attributes"]}
    assert attributes["kernel"]["required"]
    assert "default" not in attributes["kernel"]
    assert not attributes["rounding_type"]["required"]
    assert attributes["rounding_type"]["default"] == "'floor'"


def test_failing_optional_input_is_described(tmp_path, capsys):
    """A kernel that fails with an absent input is reported with the shapes of the others."""
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x")], name="x"),
        layer(1, "Const", data='element_type="f32" shape="" offset="0" size="4"', outputs=[port(0, (), "FP32")]),
        layer(2, "Clamp", data='min="0"', inputs=[port(0)], outputs=[port(1, (2,), "FP32")], name="clamp"),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (2, 1, 3, 0)]), b"\0" * 4)
    code, _, err = call(capsys, path, "--input", "[1,2]")
    assert code == 2
    assert "layer 2 'clamp' (Clamp, opset1): Clamp-1 requires the attribute max" in err
