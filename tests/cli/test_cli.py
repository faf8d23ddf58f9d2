"""The command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from ir_text import chain, graph, layer, net, port, write

from irrun.cli.ops import _format_page
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support.operation import Operation

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


@pytest.fixture
def model(tmp_path):
    """A model that computes Relu of x, f32[2,3]."""
    np.save(tmp_path / "x.npy", X)
    return write(tmp_path, chain("Relu"))


@pytest.fixture
def sum_and_difference(tmp_path):
    """A model that computes a + b and a - b, i64[2]."""
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="i64"', outputs=[port(0, (2,), "I64", "a")], name="a"),
        layer(1, "Parameter", data='shape="2" element_type="i64"', outputs=[port(0, (2,), "I64", "b")], name="b"),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2,), "I64", "sum")]),
        layer(3, "Subtract", inputs=[port(0), port(1)], outputs=[port(2, (2,), "I64", "difference")]),
        layer(4, "Result", inputs=[port(0)]),
        layer(5, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (0, 0, 3, 0), (1, 0, 3, 1), (2, 2, 4, 0), (3, 2, 5, 0)]
    return write(tmp_path, net(layers, edges), name="sum_and_difference")


def test_run_prints_summary_of_outputs(model, capsys):
    code, out, err = call(capsys, model, "--input", model.parent / "x.npy")
    assert code == 0
    assert not err
    header, row = out.splitlines()
    assert header.split() == ["output", "type", "shape", "range", "first", "values"]
    assert row.split()[:5] == ["layer1", "f32", "[2,3]", "0", "to"]
    assert "0 0 0 0 1 2" in row


def test_run_command_may_be_omitted(model, capsys):
    expected = call(capsys, model, "--input", model.parent / "x.npy")
    assert call(capsys, "run", model, "--input", model.parent / "x.npy") == expected
    assert call(capsys, "--input", model.parent / "x.npy", model) == expected


def test_run_prints_outputs_as_json(model, capsys):
    code, out, _ = call(capsys, model, "--input", "x=[[-1,0,1],[2,3,4]]", "--json")
    (output,) = json.loads(out)["outputs"]
    assert code == 0
    assert output["values"] == [[0, 0, 1], [2, 3, 4]]
    assert (output["name"], output["type"], output["shape"], output["max"]) == ("layer1", "f32", [2, 3], 4.0)


@pytest.mark.parametrize("target", ["out.npz", "out.npy", "folder/", "folder"])
def test_outputs_are_saved_to_npz_npy_or_folder(model, target, tmp_path, capsys):
    code, _, _ = call(capsys, model, "-i", model.parent / "x.npy", "-o", f"{tmp_path}/{target}")
    assert code == 0
    if target == "out.npz":
        saved = np.load(tmp_path / target)["layer1"]
    else:
        saved = np.load(tmp_path / target if target == "out.npy" else tmp_path / "folder/layer1.npy")
    np.testing.assert_array_equal(saved, np.maximum(X, 0))
    assert not list(tmp_path.glob(".*"))


def test_inputs_are_specified_by_name_key_or_order(sum_and_difference, tmp_path, capsys):
    np.savez(tmp_path / "both.npz", a=[1, 2], b=[10, 20])
    np.savez(tmp_path / "other.npz", p=[10, 20], q=[0, 0])
    expected = {"sum": [11, 22], "difference": [-9, -18]}
    for inputs in (
        ["b=[10,20]", "a=[1,2]"],
        ["[1,2]", "[10,20]"],
        [tmp_path / "both.npz"],
        [f"a={tmp_path}/both.npz:a", f"b={tmp_path}/other.npz:p"],
        [f"a={tmp_path}/both.npz", f"b={tmp_path}/both.npz"],
        ["0=[1,2]", "1=[10,20]"],
    ):
        arguments = [part for text in inputs for part in ("--input", text)]
        code, out, err = call(capsys, sum_and_difference, *arguments, "--json")
        assert code == 0, err
        assert {o["name"]: o["values"] for o in json.loads(out)["outputs"]} == expected


def test_raw_and_json_files_are_loaded(sum_and_difference, tmp_path, capsys):
    (tmp_path / "a.bin").write_bytes(np.array([1, 2], np.int64).tobytes())
    (tmp_path / "b.json").write_text("[10, 20]")
    code, out, _ = call(capsys, sum_and_difference, "-i", f"a={tmp_path}/a.bin", "-i", f"b={tmp_path}/b.json", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["values"] == [11, 22]


def test_random_inputs_depend_on_seed_and_zeros_are_zero(model, capsys):
    first = call(capsys, model, "--input", "random", "--json")
    assert call(capsys, model, "--input", "random", "--json") == first
    assert call(capsys, model, "--input", "random", "--seed", "1", "--json") != first
    _, out, _ = call(capsys, model, "--input", "zeros", "--json")
    assert json.loads(out)["outputs"][0]["max"] == 0


def test_show_adds_intermediate_values_to_outputs(model, tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Exp"), name="two")
    arguments = (path, "--input", model.parent / "x.npy", "--show", "layer1", "--show", "layer2", "--show", "x")
    code, out, err = call(capsys, *arguments)
    assert code == 0, err
    assert [row.split()[0] for row in out.splitlines()] == ["output", "layer2", "layer1", "x"]
    assert call(capsys, *arguments, "-o", tmp_path / "all.npz")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "all.npz")["layer1"], np.maximum(X, 0))
    code, out, err = call(capsys, path, "--input", "zeros", "--show", "layre1")
    assert (code, out) == (2, "")
    assert "unknown value 'layre1'; did you mean layer1" in err


def test_trace_contains_every_layer_and_layers_of_bodies(model, tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Exp"), name="two")
    _, out, _ = call(capsys, path, "--input", model.parent / "x.npy", "--trace")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:3] == ["layer", "operation", "type"]
    assert [row[:4] for row in rows[1:3]] == [["layer1", "Relu", "f32", "[2,3]"], ["layer2", "Exp", "f32", "[2,3]"]]
    assert rows[3] == []
    assert rows[4][0] == "output"
    _, out, _ = call(capsys, path, "--input", model.parent / "x.npy", "--trace", "--json")
    trace = json.loads(out)["trace"]
    assert [(t["name"], t["operation"]) for t in trace] == [("layer1", "Relu"), ("layer2", "Exp")]
    assert trace[0]["values"] == np.maximum(X, 0).tolist()
    dates = Path(__file__).parents[2] / "examples" / "date_translation"
    _, out, _ = call(capsys, dates / "model.xml", "--input", dates / "input.npy", "--trace")
    assert "\nbeam_search[10]/" in out


def test_trace_of_failed_run_ends_at_failing_layer(tmp_path, capsys):
    constant = layer(
        1, "Const", data='element_type="i64" shape="1" offset="0" size="8"', outputs=[port(0, (1,), "I64")]
    )
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32", "x")], name="x"),
        constant,
        layer(2, "Relu", inputs=[port(0)], outputs=[port(1)]),
        layer(3, "Reshape", data='special_zero="false"', inputs=[port(0), port(1)], outputs=[port(2)]),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (2, 1, 3, 0), (1, 0, 3, 1), (3, 2, 4, 0)]
    path = write(tmp_path, net(layers, edges), np.array([5], np.int64))
    code, out, err = call(capsys, path, "--input", "zeros", "--trace")
    assert code == 2
    assert [row.split()[0] for row in out.splitlines() if row] == ["layer", "layer2"]
    assert "layer3" in err


@pytest.mark.parametrize("command", ["upgrade", "extract"])
def test_input_model_is_not_overwritten(command, model, tmp_path, capsys):
    before = model.read_bytes()
    write(tmp_path, chain("Exp"), name="other")
    for arguments in (
        [model, "-o", model],
        [model, "-o", tmp_path / "." / "model.xml"],
        [tmp_path / "other.xml", "-w", tmp_path / "model.bin", "-o", model],
    ):
        code, out, err = call(capsys, command, *arguments)
        assert (code, out) == (2, "")
        assert "this would overwrite the input file" in err
    assert model.read_bytes() == before
    assert call(capsys, command, model, "-o", tmp_path / "new.xml")[0] == 0


def test_missing_weights_are_reported_once(tmp_path, capsys):
    data = 'element_type="f32" shape="2" offset="0" size="8"'
    layers = [layer(i, "Const", data=data, outputs=[port(0, (2,), "FP32")]) for i in (0, 1)]
    layers += [layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2)]), layer(3, "Result", inputs=[port(0)])]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), None)
    code, out, _ = call(capsys, "validate", path)
    assert code == 1
    assert out.count("\n") == 1
    hint = "if it is elsewhere, pass its path as weights (--weights)"
    assert f"model.bin is missing; {hint}; 2 constants require it" in out
    assert call(capsys, "info", path)[1].count("is missing") == 1
    assert "2 constants require it" in call(capsys, path)[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "y=[1]"], "unknown input 'y'; the model has x: f32[2,3]"),
        ([], "missing input x: f32[2,3]\n"),
        (["--input", "[[1,2],[3,4]]"], "input x: f32[2,3] does not accept shape [2, 2]"),
        (["--input", "nowhere.npy"], "cannot read nowhere.npy: No such file"),
        (["--input", "nonsense"], "'nonsense' is not a file, JSON, random, zeros or ones, for input x"),
        (["--input", "[1, [2]]"], "lists of different lengths"),
        (["--input", "[1,"], "the text is not valid JSON"),
        (["--input", "zeros", "--input", "zeros"], "too many inputs: expected x: f32[2,3], found also 'zeros'"),
        (["--input", "x=zeros", "--input", "x=ones"], "found two values for input x: f32[2,3]"),
        (["--input", "zeros", "--output", "/dev/null/folder/out.npy"], "cannot write"),
        (["--input", "zeros", "--weights", "nowhere.bin"], "cannot read the weights"),
        (["--input", "zeros", "--nonsense"], "No such option"),
        (["--input", "zeros", "--mean", "x"], "expected a list of numbers, found 'x'"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(model, arguments, message, capsys):
    code, out, err = call(capsys, model, *arguments)
    assert code == 2
    assert message in err
    assert err.startswith("irrun: ")
    assert err.count("\n") == 1
    assert not out


def test_inputs_are_converted_only_without_loss(sum_and_difference, tmp_path, capsys):
    np.save(tmp_path / "bytes.npy", np.array([1, 2], np.uint8))
    code, out, _ = call(capsys, sum_and_difference, "-i", tmp_path / "bytes.npy", "-i", "zeros", "--json")
    assert (code, json.loads(out)["outputs"][0]["values"]) == (0, [1, 2])
    np.save(tmp_path / "large.npy", np.array([1, 2**64 - 1], np.uint64))
    code, _, err = call(capsys, sum_and_difference, "-i", tmp_path / "large.npy", "-i", "zeros")
    assert code == 2
    assert "does not accept u64 with values that i64 cannot represent" in err
    for values in ([1.0, 2.0], [1.5, 2.0]):
        np.save(tmp_path / "floats.npy", np.array(values))
        code, _, err = call(capsys, sum_and_difference, "-i", tmp_path / "floats.npy", "-i", "zeros")
        assert code == 2
        assert "does not accept f64: floats are not converted to i64; convert it first" in err


def test_pickles_are_rejected(model, tmp_path, capsys):
    np.save(tmp_path / "pickle.npy", np.array([print], dtype=object), allow_pickle=True)
    code, _, err = call(capsys, model, "--input", tmp_path / "pickle.npy")
    assert code == 2
    assert "cannot be read as npy" in err


def test_image_is_resized_and_converted_to_layout(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :, 0] = 200  # red
    image.fromarray(pixels).save(tmp_path / "red.png")
    path = write(tmp_path, chain("Relu", shape=(1, 3, 2, 2)))
    for channels, index in (("BGR", 2), ("RGB", 0)):
        _, out, _ = call(capsys, path, "-i", tmp_path / "red.png", "--channels", channels, "--json")
        values = np.array(json.loads(out)["outputs"][0]["values"])
        assert values.shape == (1, 3, 2, 2)
        assert (values[0, index] == 200).all()
        assert values.sum() == 800
    _, out, _ = call(capsys, path, "-i", tmp_path / "red.png", "--mean", "100", "--scale", "50", "--json")
    assert json.loads(out)["outputs"][0]["max"] == 2


def test_check_reports_wrong_declarations(tmp_path, capsys):
    good = chain("Relu")
    bad = good.replace('<port id="1" precision="FP32"><dim>2</dim>', '<port id="1" precision="FP32"><dim>9</dim>')
    assert bad != good
    assert call(capsys, write(tmp_path, good, name="good"), "-i", "zeros", "--check")[0] == 0
    code, out, _ = call(capsys, write(tmp_path, bad, name="bad"), "-i", "zeros", "--check")
    assert code == 1
    assert "declared f32[9,3], actual f32[2,3]" in out


def test_info_shows_operations_and_unsupported_ones(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Foo", data=['colour="blue"', ""]), None)
    code, out, _ = call(capsys, "info", path)
    assert code == 1
    assert out.count("Foo") == 2
    for text in ("x: f32[2,3]", "Relu-1", "unsupported operations", "Foo of opset1", "Relu-1 colour"):
        assert text in out
    code, out, _ = call(capsys, "info", path, "--json")
    facts = json.loads(out)
    assert facts["operations"]["Relu-1"] == 1
    assert facts["operations"]["Foo (opset1)"] == 1
    assert facts["inputs"][0]["shape"] == "[2,3]"


def test_info_shows_findings(tmp_path, capsys):
    path = write(tmp_path, chain("Relu").replace('from-port="0"', 'from-port="5"', 1))
    code, out, _ = call(capsys, "info", path)
    assert code == 1
    assert "an edge refers to output port 5" in out


def test_info_fails_if_the_model_cannot_run(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Clamp", data=["", 'min="0"']))
    code, out, _ = call(capsys, "info", path)
    assert code == 1
    assert "Clamp-1 requires the attribute max" in out
    assert call(capsys, "info", write(tmp_path, chain("Relu")))[0] == 0


def test_validate_prints_findings_with_lines(tmp_path, capsys):
    good = write(tmp_path, chain("Relu"), name="good")
    assert call(capsys, "validate", good)[0] == 0
    text = chain("Relu", "Relu").replace('id="1" name', 'id="one" name').replace("<dim>3</dim>", "<dim>x</dim>", 1)
    code, out, _ = call(capsys, "validate", write(tmp_path, text, name="bad"))
    assert code == 1
    assert len(out.splitlines()) >= 3
    assert "bad.xml:3: " in out
    code, out, _ = call(capsys, "validate", write(tmp_path, text, name="bad"), "--json")
    assert code == 1
    assert all(f["message"] for f in json.loads(out))


def test_ops_lists_and_describes_operations(capsys):
    code, out, _ = call(capsys, "ops")
    assert code == 0
    assert "movement" in out
    code, out, _ = call(capsys, "ops", "gather")
    assert code == 0
    for text in ("Gather-1", "Gather-7", "Gather-8", "batch_dims: int, default 0", "0: data"):
        assert text in out
    assert "irrun.ops.movement.gather.gather_7(" in out
    code, _, err = call(capsys, "ops", "Gathre")
    assert code == 2
    assert "unknown operation 'Gathre'; did you mean Gather" in err
    code, out, _ = call(capsys, "ops", "Gather", "--json")
    assert {o["since"] for o in json.loads(out)} == {1, 7, 8}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "Const",
            ["Constant-1 (infrastructure)", "    none", "    offset: int, ", "    shape: shape"],
        ),
        ("Parameter", ["Parameter-1 (infrastructure)", "    element_type: element type (optional), "]),
        ("Result", ["Result-1 (infrastructure)", "    0: value"]),
    ],
)
def test_ops_describes_operations_without_kernel(name, expected, capsys):
    code, out, _ = call(capsys, "ops", name)
    assert code == 0
    lines = out.splitlines()
    assert all(any(line.startswith(prefix) for line in lines) for prefix in expected)
    assert "  no kernel: the operation is part of the structure of the graph" in lines
    _, out, _ = call(capsys, "ops", name, "--json")
    (operation,) = json.loads(out)
    assert operation["kernel"] is None
    assert operation["summary"] == lines[1].strip()


def test_ops_formats_sections_of_docstring():
    def scale_1(x, *rest, mode: str = "a", output_type: ElementType = ELEMENT_TYPES["i64"]):
        """Scale `x`.

        A longer
        description.

        Args:
            x: Numeric,
                any shape.
            *rest: More inputs.
            mode: The mode: "a" or "b".
            output_type: Type of the result.

        Returns:
            A tensor.

        Raises:
            InputError: `x` is empty.

        Spec:
            Scale-1
        """

    page = list(_format_page(Operation.from_function(scale_1, "Scale", since=1, category="arithmetic")))
    qualified = f"{__name__}.{scale_1.__qualname__}"
    signature = [line for line in page[3 : page.index("  A longer")] if line]
    assert " ".join(line.strip() for line in signature) == (
        f"{qualified}( x, *rest, mode: str = 'a', output_type: ElementType = i64, )"
    )
    page[3 : page.index("  A longer")] = []
    assert page == [
        "Scale-1 (arithmetic)",
        "  Scale `x`.",
        "",
        "  A longer",
        "  description.",
        "",
        "  Inputs:",
        "    0: x",
        "        Numeric, any shape.",
        "    1...: rest (optional)",
        "        More inputs.",
        "",
        "  Attributes:",
        "    mode: str, default 'a'",
        '        The mode: "a" or "b".',
        "    output_type: element type, default i64",
        "        Type of the result.",
        "",
        "  Returns:",
        "    A tensor.",
        "",
        "  Raises:",
        "    InputError: `x` is empty.",
        "",
        "  Spec:",
        "    Scale-1",
    ]


def test_extract_writes_part_of_model(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Exp", "Negative"))
    part = tmp_path / "part.xml"
    code, _, err = call(capsys, "extract", path, "--inputs", "layer1", "--outputs", "layer2", "-o", part)
    assert code == 0, err
    code, out, _ = call(capsys, part, "--input", "layer1=zeros", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["values"] == [[1, 1, 1], [1, 1, 1]]
    code, _, err = call(capsys, "extract", path, "--inputs", "layer3", "--outputs", "layer2", "-o", part)
    assert code == 2
    assert "do not depend on layer3" in err
    code, _, err = call(capsys, "extract", path, "--inputs", "layr1", "-o", part)
    assert code == 2
    assert "did you mean layer1" in err


def test_extract_rejects_empty_names(model, tmp_path, capsys):
    for text in ("", " , "):
        code, _, err = call(capsys, "extract", model, "--outputs", text, "--output", tmp_path / "part.xml")
        assert code == 2
        assert "contains no names" in err
    assert not (tmp_path / "part.xml").exists()


def list_modules(*arguments):
    """Run the command line in a new process and return its output and the names of the imported modules."""
    script = (
        "import sys\nfrom irrun.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return process.stdout, set(process.stderr.split())


def test_help_imports_neither_numpy_nor_kernels():
    out, modules = list_modules("--help")
    assert "Commands" in out
    assert not {"numpy", "lxml", "rich"} & modules
    assert not [name for name in modules if name.startswith(("irrun.ops", "irrun.ir", "irrun.runtime"))]


def test_info_imports_kernels_of_model_only(model):
    out, modules = list_modules("info", model)
    assert "Relu-1" in out
    categories = {name.split(".")[2] for name in modules if name.startswith("irrun.ops.")}
    assert categories == {"_support", "activation", "infrastructure", "shape_rules"}
    assert not {"irrun.runtime.executor", "irrun.runtime.compiled_model", "irrun.data.load", "rich"} & modules


def test_every_command_has_help(capsys):
    from irrun.cli import COMMANDS

    for name in COMMANDS:
        code, out, _ = call(capsys, name, "--help")
        assert code == 0
        assert out.startswith(f"Usage: irrun {name}")


def test_unknown_command_is_reported(capsys):
    code, _, err = call(capsys, "rnu")
    assert code == 2
    assert "No such command or file 'rnu'" in err
    code, _, err = call(capsys, "nowhere.xml")
    assert code == 2
    assert "nowhere.xml: cannot read the model: No such file" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input"], "requires an argument"),
        # reported before the inputs are read and the model runs
        (["--output", ""], "expected an .npz, .npy or .json file or a folder for the outputs, found ''"),
        (["--output", "-"], "expected an .npz, .npy or .json file or a folder for the outputs, found '-'"),
        (["--output", "out.txt"], "expected an .npz, .npy or .json file or a folder for the outputs, found out.txt"),
        (["--output", "n" * 300], "File name too long"),
        (["--input", "random", "--seed", "-1"], "--seed"),
        (["--input", "zeros", "--scale", "0"], "expected numbers other than 0, found '0'"),
        (["--input", "zeros", "--mean", "nan"], "expected finite numbers, found 'nan'"),
        (["--input", "zeros", "--weights", "."], "expected a regular file, found a folder"),
        (["--input", "."], "'.' is a folder"),
        (["--input", "a\x1b[31mb\n.npy"], r"a\x1b[31mb .npy"),
        (["--input", "zeros", "more"], "unexpected extra argument"),
    ],
)
def test_more_invalid_arguments_are_reported_in_one_line(model, arguments, message, capsys):
    code, out, err = call(capsys, model, *arguments)
    assert code == 2
    assert message in err
    assert err.startswith("irrun: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert not out


@pytest.mark.parametrize("command", ["run", "info", "validate"])
def test_unprintable_names_are_escaped(command, tmp_path, capsys):
    """Names contain an escape sequence (with a one-character introducer, which XML allows), a line break, RTL marks."""
    name = "a&#10;b&#x9b;31m&#x202e;c[/red]"
    text = chain("Relu", "Foo").replace('names="x"', f'names="{name}"').replace('name="layer1"', f'name="{name}"')
    text = text.replace('name="net"', f'name="{name}"').replace(
        'type="Foo"', f'type="{"Relu" if command == "run" else name}"'
    )
    path = write(tmp_path, text)
    _, out, err = call(capsys, command, path, *(["--input", "zeros", "--check"] if command == "run" else []))
    assert all(c.isprintable() for c in (out + err).replace("\n", ""))
    lines = (out + err).splitlines()
    assert not any(line.startswith("b") for line in lines)
    if command == "info":
        assert any(r"\x9b31m\u202ec" in line for line in lines)


#: A process that a shell starts in the background ignores SIGINT, and so do its children.
SCRIPT = """
import signal, sys
from irrun.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main(sys.argv[1:])
"""

#: Prints a line when the inference starts.
ANNOUNCING_SCRIPT = """
from irrun.runtime.executor import Executor
run = Executor.run
def announce(*arguments, **options):
    Executor.run = run
    print("started", flush=True)
    return run(*arguments, **options)
Executor.run = announce
"""


def start_process(*arguments, script=SCRIPT, **options):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_endless_loop_can_be_interrupted(tmp_path):
    import signal

    inner = (
        '<port_map><input external_port_id="2" internal_layer_id="0"/>'
        '<output external_port_id="-1" internal_layer_id="3" purpose="execution_condition"/>'
        '<output external_port_id="3" internal_layer_id="2"/></port_map>'
        '<back_edges><edge from-layer="2" to-layer="0"/></back_edges><body>'
    )
    truth = 'element_type="boolean" shape="" offset="8" size="1"'
    x = layer(0, "Parameter", data='shape="1" element_type="f32"', outputs=[port(0, (1,))], name="x")
    body = [x, layer(1, "Const", data=truth, outputs=[port(0)])]
    body += [layer(i, "Result", inputs=[port(0)]) for i in (2, 3)]
    inner += graph(body, [(0, 0, 2, 0), (1, 0, 3, 0)]) + "</body>"
    layers = [
        x,
        layer(1, "Const", data='element_type="i64" shape="" offset="0" size="8"', outputs=[port(0)]),
        layer(2, "Const", data=truth, outputs=[port(0)]),
        layer(3, "Loop", "opset5", "", [port(0), port(1), port(2)], [port(3)], inner=inner),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(1, 0, 3, 0), (2, 0, 3, 1), (0, 0, 3, 2), (3, 3, 4, 0)]
    path = write(tmp_path, net(layers, edges), (1 << 62).to_bytes(8, "little") + b"\1")
    process = start_process(path, "--input", "zeros", script=ANNOUNCING_SCRIPT + SCRIPT)
    try:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err == "irrun: interrupted\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("command", ["dump", "trace", "output", "folder"])
def test_temporary_files_are_deleted_when_a_signal_ends_the_command(name, command, tmp_path):
    import signal

    number = getattr(signal, name)
    path = write(tmp_path, chain("Relu", "Tanh"))
    target = tmp_path / "results" / "file"
    arguments = {
        "dump": [path, "--input", "zeros", "--dump", target],
        "trace": ["trace", path, "--input", "zeros", "--output", target],
        "output": [path, "--input", "zeros", "--output", target.with_suffix(".npz")],
        "folder": [path, "--input", "zeros"],
    }[command]
    # The signal arrives while a temporary file or folder exists.
    script = f"""if True:
        import signal, tempfile, time
        signal.signal({int(number)}, signal.SIG_DFL)
        from irrun import atomic_files
        def stop(make):
            def run(*arguments, **options):
                made = make(*arguments, **options)
                print("made", flush=True)
                time.sleep(60)
                return made
            return run
        atomic_files.os.fdopen = stop(atomic_files.os.fdopen)
    """
    if command == "folder":
        script += """
        from irrun.cli import run
        def work(*arguments, **options):
            with tempfile.TemporaryDirectory(prefix="irrun-"):
                print("made", flush=True)
                time.sleep(60)
        run.command.callback = work
    """
    process = start_process(*arguments, script=script + SCRIPT, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        assert process.stdout.readline() == "made\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert err == f"irrun: ended by {name}\n"
    assert process.returncode == -number
    assert {p.name for p in tmp_path.rglob("*") if p.is_file()} == {"model.bin", "model.xml"}
    assert not list(tmp_path.glob("irrun-*"))


def test_interrupt_during_import_is_reported_as_interrupt():
    """NumPy raises ImportError for an interrupt during its import; other ImportErrors are not interrupts."""
    script = """if True:
        import signal
        from irrun.cli import main, ops

        def raise_interrupt(*_):
            try:
                signal.raise_signal(signal.SIGINT)
                for _ in range(1000):  # where the handler runs at the latest
                    pass
            except KeyboardInterrupt:
                raise ImportError("numpy failed to import") from None

        def raise_missing(*_):
            raise ImportError("no such module")

        signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes ignore it
        ops._format_catalog = raise_missing
        try:
            main(["ops"])
        except ImportError as error:
            print(error)
        ops._format_catalog = raise_interrupt
        try:
            main(["ops"])
        finally:
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (130, "no such module\n", "irrun: interrupted\n")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_full_disk_is_reported():
    with open("/dev/full", "w") as full:
        process = start_process("ops", stdout=full)
        assert process.communicate(timeout=60)[1] == "irrun: cannot write the output: No space left on device\n"
        assert process.returncode == 2


def test_commands_end_quietly_when_the_reader_closes_the_pipe(model, monkeypatch):
    """Their exit code is that of a program that SIGPIPE ends."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # without a buffer, Python ignores incomplete writes
    commands = [["ops"], ["info", model, "--layers"], [model, "-i", "zeros", "--json"], ["--help"]]
    processes = [start_process(*command) for command in commands]
    for process in processes:
        process.stdout.close()  # long before the first output, since Python starts
    assert [(process.stderr.read(), process.wait(timeout=60)) for process in processes] == [("", 141)] * len(commands)
    process = start_process("ops", "--json")
    assert process.stdout.read(10)
    process.stdout.close()  # before the rest, which exceeds the buffer of a pipe
    assert (process.stderr.read(), process.wait(timeout=60)) == ("", 141)


def test_names_outside_of_terminal_encoding_are_escaped(model):
    import os

    process = start_process(model, "--input", "日本.npy", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert r"cannot read \u65e5\u672c.npy" in process.communicate(timeout=60)[1]
    assert process.returncode == 2


def test_info_does_not_read_weights(tmp_path, capsys):
    import tracemalloc

    path = write(tmp_path, chain("Relu"))
    with open(path.with_suffix(".bin"), "wb") as file:
        file.truncate(2 << 30)
    tracemalloc.start()
    try:
        assert call(capsys, "info", path)[0] == 0
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["run", "info", "upgrade", "extract", "validate", "ops"])
def test_help_fits_80_columns(name, capsys):
    _, out, _ = call(capsys, name, "--help")
    assert max(map(len, out.splitlines())) <= 80


def test_json_of_empty_output_with_many_rows(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", shape=(1 << 17, 0)))
    code, out, _ = call(capsys, path, "--input", "zeros", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["shape"] == [1 << 17, 0]


def test_non_finite_values_are_printed_without_warnings(model, capsys):
    """The mean of infinities and the minimum of NaN are undefined."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text, expected in (
            ("[[Infinity, -Infinity, 1], [2, NaN, 3]]", "(2 not finite)"),
            ("[[Infinity, 0, 1], [2, 4, 3]]", "0 to 4 (1 not finite)"),
            ("[[NaN, NaN, NaN], [NaN, NaN, NaN]]", "(6 not finite)"),
        ):
            code, out, _ = call(capsys, model, "--input", text)
            assert code == 0
            assert expected in out
            assert call(capsys, model, "--input", text, "--json")[0] == 0
