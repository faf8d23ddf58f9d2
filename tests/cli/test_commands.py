"""What commands print for rare cases: files that cannot be written, several sets of inputs, errors of libraries."""

from __future__ import annotations

import importlib
import io
import json
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

import irrun
import irrun.runtime.compiled_model  # before its functions are replaced
from irrun.data.load import LoadOptions, load_input_sets
from irrun.errors import InputError
from irrun.inspection.comparison import Comparison, LayerComparison
from irrun.inspection.metrics import Metrics
from irrun.inspection.recording import record

F32 = np.float32


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of Relu and Negative, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, chain("Relu", "Negative")).relative_to(tmp_path)


def test_command_line_without_arguments_prints_its_help(capsys):
    code, out, err = call(capsys)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: irrun ")
    assert "irrun model.xml --input x.npy" in err


def test_errors_of_click_are_one_line(model, capsys, monkeypatch):
    def fail(*arguments):
        raise click.ClickException("it is\nbroken")

    monkeypatch.setattr(irrun, "read_model", fail)
    assert call(capsys, model, "-i", "ones") == (2, "", "irrun: it is broken\n")


def test_outputs_that_cannot_be_written_are_reported_before_the_run(model, capsys):
    code, out, err = call(capsys, model, "-i", "ones", "-o", "out.txt")
    assert (code, out) == (2, "")
    assert "Invalid value for --output: expected" in err
    assert err.endswith("found out.txt (see: irrun run --help)\n")


def test_compiled_kernels_without_llvm_are_refused(model, capsys, monkeypatch):
    monkeypatch.setattr("irrun.runtime.compilation.is_installed", lambda: False)
    code, _, err = call(capsys, model, "-i", "ones", "--jit", "on")
    assert code == 2
    assert err == "irrun: compiled kernels require llvmlite: pip install 'irrun[jit]' (see: irrun run --help)\n"
    assert call(capsys, model, "-i", "ones", "--jit", "off")[0] == 0


def test_upgrade_of_unsupported_models_writes_nothing(tmp_path, capsys):
    path = write(tmp_path, chain("Foo"))
    code, out, err = call(capsys, "upgrade", path, "-o", tmp_path / "new.xml")
    assert (code, out) == (2, "")
    assert "unsupported operations: Foo of opset1" in err
    assert not (tmp_path / "new.xml").exists()


# dump


def test_folder_of_a_dump_that_cannot_be_created_is_reported(model, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    code, out, err = call(capsys, model, "-i", "ones", "--dump", "file/values")
    assert (code, out) == (2, "")
    assert err == "irrun: cannot create file/values: Not a directory\n"


def test_value_of_a_dump_that_cannot_be_written_is_reported(model, tmp_path, capsys, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("irrun.cli.dump.atomic_write", fail)
    code, out, err = call(capsys, model, "-i", "ones", "--dump", "values")
    assert (code, out) == (2, "")
    assert err.startswith("irrun: cannot write values/")
    assert err.endswith(".npy: No space left on device\n")


# debug


def test_debugger_reads_no_inputs_from_stdin(model, capsys):
    for text in ("-", "x=-"):
        code, _, err = call(capsys, "debug", model, "-i", text)
        assert code == 2
        assert "--input: expected a file, since the debugger reads commands from stdin" in err


def test_debugger_can_end_the_run(model, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    code, out, _ = call(capsys, "debug", model, "-i", "ones", "--break", "layer2")
    assert code in (0, None)
    assert "first values" not in out


def test_debugger_opens_where_a_kernel_fails(model, tmp_path, capsys, monkeypatch):
    path = write(tmp_path, chain("Custom", versions=["extension"]), name="custom")
    (tmp_path / "ops.py").write_text(
        "import irrun\n\n\n@irrun.op('Custom', opset='extension')\ndef custom(x):\n    raise KeyError('refused')\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    code, out, err = call(capsys, "debug", path, "-i", "ones", "--break", "result", "--import", tmp_path / "ops.py")
    assert code == 2
    assert "KeyError: 'refused'" in err
    assert "layer1" in out


# replay and report


def test_replay_of_a_trace_without_a_path_requires_a_model(model, capsys):
    source = irrun.read_model(model)
    source.path = None
    with record(irrun.compile_model(source, optimize=False), np.ones((2, 3), F32), "run.trace"):
        pass
    code, out, err = call(capsys, "replay", "run.trace", "layer2")
    assert (code, out) == (2, "")
    assert err == "irrun: the trace does not name its model; pass --model\n"
    code, out, _ = call(capsys, "replay", "run.trace", "layer2", "--model", model)
    assert code == 0
    assert "layer2 equals the recorded value" in out


def test_report_that_cannot_be_written_is_reported(model, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    code, out, err = call(capsys, "report", model, "-i", "ones", "-o", "file/report.html")
    assert (code, out) == (2, "")
    assert err.startswith("irrun: cannot write file/report.html: ")
    assert err.count("\n") == 1


def test_report_does_not_overwrite_the_model(model, capsys):
    before = model.read_bytes()
    code, _, err = call(capsys, "report", model, "-i", "ones", "-o", model)
    assert code == 2
    assert "this would overwrite the input file model.xml" in err
    assert model.read_bytes() == before


# compare


def test_first_line_of_a_comparison_names_the_layer_and_its_error():
    own = Metrics(max_abs=0.25, sqnr_db=12.34)
    first = LayerComparison("conv1", "Convolution", "conv1", "name", own, own, "adds", 1e-6, "")

    def describe(*layers, agrees=False, total=1):
        causes = {layer.path: layer for layer in reversed(layers) if layer.verdict == "adds"}
        return Comparison(agrees, "x", "f32", list(layers), [], total, causes=[*reversed(causes.values())]).describe()

    text = "conv1 (Convolution) is the first layer that adds an error"
    assert describe(first) == f"{text} (max abs 0.25, SQNR 12.3 dB)"
    first = replace(first, reason="another axis")
    assert describe(first) == f"{text} (max abs 0.25, SQNR 12.3 dB): another axis"
    assert describe(first, replace(first, key="b[3]/c"), replace(first, key="b[4]/c"), total=2).endswith(
        "another axis; 2 layers add one"
    )
    first = replace(first, own=replace(own, same_shape=False))
    assert describe(first) == f"{text} (another shape): another axis"
    exact, other = replace(first, verdict="exact"), replace(first, key="b", verdict="perturbed")
    assert describe(exact) == "the outputs differ, but no layer adds an error: rounding errors add up"
    assert describe(exact, total=3) == "the outputs differ, and 2 of 3 layers have no value to compare with"
    assert describe(exact, other, replace(other, key="c"), total=3) == (
        "the outputs differ, but no layer adds an error: b (Convolution), one of 2 layers, cannot be read without "
        "changing the reference"
    )
    assert describe(exact, agrees=True) == "no layer adds an error"


def test_notes_of_a_comparison_are_printed(model, capsys, monkeypatch):
    compare = importlib.import_module("irrun.inspection.comparing")
    original = compare.compare

    def add_notes(*arguments, **options):
        result = original(*arguments, **options)
        result.notes.extend(["first\nnote", "second note"])
        return result

    monkeypatch.setattr(compare, "compare", add_notes)
    code, out, _ = call(capsys, "compare", model, "f64", "-i", "ones")
    assert code == 0
    assert out.splitlines()[2:4] == ["first note", "second note"]


# map


@pytest.mark.parametrize("count", range(3))
def test_skipped_inputs_of_a_mapping_are_listed(count, model, capsys, monkeypatch):
    pytest.importorskip("dask")
    from irrun.distributed import MapResult, RowError

    errors = [RowError(3, "a.npy", "skipped", "is broken"), RowError(5, "b.npy", "skipped", "b.npy: is\nempty")][:count]
    calls = []

    def map_inputs(*arguments, **keywords):
        calls.append((*arguments, keywords))
        return MapResult(Path("r.zarr"), 9, errors, computed=9)

    monkeypatch.setattr("irrun.distributed.map_inputs", map_inputs)
    assert call(capsys, "map", model, "*.npy", "-o", "r.zarr", "--batch", 0)[0] == 2
    assert not calls
    options = ["--batch", 3, "--workers", 2, "--on-error", "skip", "--mean", "1,2,3", "--memory", "1G"]
    options += ["--layout", "NHWC", "--channels", "rgb", "--scale", "255"]
    code, out, err = call(capsys, "map", model, "*.npy", "-o", "r.zarr", *options)
    assert code == (1 if errors else 0)
    rows = ["9 rows", "8 of 9 rows, 1 was skipped; --retry retries", "7 of 9 rows, 2 were skipped; --retry retries"][
        count
    ]
    assert out == f"wrote r.zarr, {rows}{' them' if errors else ''}\n"
    assert err.splitlines() == ["skipped, row 3: a.npy: is broken", "skipped, row 5: b.npy: is empty"][:count]
    ((_, inputs, _, passed, keywords),) = calls
    assert inputs == ("*.npy",)
    assert (passed.batch, passed.on_error, passed.memory) == (3, "skip", str(1 << 30))
    image = passed.image
    assert (image.layout, image.channels, image.mean, image.scale) == ("NHWC", "RGB", (1, 2, 3), (255,))
    del keywords["progress"]
    assert keywords == {"scheduler": None, "workers": 2, "retry": False}


# Several sets of inputs


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """The inputs a and b of a model, and files whose only element is the number in their names."""
    monkeypatch.chdir(tmp_path)
    for number in range(1, 7):
        np.save(f"{number}.npy", np.full(1, number, F32))
    np.savez("12.npz", a=np.full(1, 1, F32), b=np.full(1, 2, F32))
    with open("34.NPZ", "wb") as file:
        np.savez(file, a=np.full(1, 3, F32), b=np.full(1, 4, F32))
    parameter = 'shape="1" element_type="f32"'
    layers = [
        *(layer(i, "Parameter", data=parameter, outputs=[port(0, (1,), "FP32")], name="ab"[i]) for i in range(2)),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (1,), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    return irrun.read_model(write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))).inputs


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["a=1.npy", "b=2.npy"], [(1, 2)]),
        (["b=2.npy", "a=1.npy"], [(1, 2)]),
        (["1.npy", "2.npy"], [(1, 2)]),
        (["b=2.npy", "1.npy"], [(1, 2)]),
        (["1.npy", "2.npy", "3.npy", "4.npy"], [(1, 2), (3, 4)]),
        (["1.npy", "2.npy", "3.npy"], [(1, 2), (3, 2)]),
        (["a=1.npy", "b=2.npy", "b=4.npy"], [(1, 2), (1, 4)]),
        (["a=1.npy", "b=2.npy", "b=4.npy", "a=3.npy", "b=6.npy"], [(1, 2), (3, 4), (1, 6)]),
        (["12.npz"], [(1, 2)]),
        (["12.npz", "34.NPZ"], [(1, 2), (3, 4)]),
        (["1.npy", "2.npy", "34.NPZ"], [(1, 2), (3, 4)]),
    ],
)
def test_values_for_inputs_that_are_set_start_the_next_set(specs, expected, pair):
    sets = load_input_sets(specs, pair, LoadOptions())
    assert [tuple(float(value[0]) for value in values.values()) for values in sets] == expected
    assert all(list(values) == list(sets[0]) for values in sets)


def test_first_set_of_inputs_is_complete(pair):
    with pytest.raises(InputError, match="missing input b"):
        load_input_sets(["a=1.npy", "a=3.npy", "b=2.npy"], pair, LoadOptions())


def test_ranges_of_traced_values_are_empty_without_numbers(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "IsNaN", versions=["opset1", "opset10"]))
    assert call(capsys, "trace", path, "-i", "ones", "-o", tmp_path / "run.trace")[0] == 0
    rows = call(capsys, "trace", tmp_path / "run.trace")[1].splitlines()
    (row,) = (row for row in rows if row.startswith("layer1"))
    assert "1 to 1" in row


def test_broken_installations_are_not_reported_as_interrupts(model, capsys, monkeypatch):
    def fail(*arguments):
        raise ImportError("no module")

    monkeypatch.setattr(irrun, "read_model", fail)
    with pytest.raises(ImportError, match="no module"):
        call(capsys, model, "-i", "ones")


def test_info_counts_the_bytes_of_constants(tmp_path, capsys):
    data = 'element_type="{}" shape="3" offset="{}" size="{}"'
    layers = [
        layer(0, "Const", data=data.format("f32", 0, 12), outputs=[port(0, (3,), "FP32")]),
        layer(1, "Const", data=data.format("i64", 16, 24), outputs=[port(0, (3,), "I64")]),
        *(layer(2 + i, "Result", inputs=[port(0, (3,))]) for i in range(2)),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 3, 0)]), bytes(40))
    weights = json.loads(call(capsys, "info", path, "--json")[1])["weights"]
    assert weights == {"file_bytes": 40, "bytes": 36, "constants": 2, "types": {"f32": 1, "i64": 1}}
    assert "weights: 36 B in 2 constants\n  1 f32, 1 i64\n" in call(capsys, "info", path)[1]


def test_validate_prints_the_layer_of_each_finding(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Clamp"))
    code, out, _ = call(capsys, "validate", path)
    assert code == 1
    assert "layer 2 'layer2' (Clamp, opset1): Clamp-1 requires the attribute max, min" in out
    path.write_text(path.read_text().replace("<edges>", "<edges><other/>"))
    lines = call(capsys, "validate", path)[1].splitlines()
    assert any("other" in line and "layer 2" not in line and "None" not in line for line in lines)


def test_written_files_of_a_reduction_are_listed(model, capsys):
    code, out, _ = call(capsys, "reduce", model, "-i", "ones", "--fails", "max<0.5", "-o", "part")
    assert code == 0
    written = [line.removeprefix("wrote ") for line in out.splitlines() if line.startswith("wrote ")]
    assert "part/model.xml" in written


def test_pages_of_operations_describe_what_the_runtime_passes(capsys):
    lines = call(capsys, "ops", "If")[1].splitlines()
    start = lines.index("  Arguments from the runtime:")
    assert lines[start + 1 : start + 5] == [
        "    then_body",
        "        The body that runs if `cond` is true.",
        "    else_body",
        "        The body that runs if `cond` is false.",
    ]


def test_report_does_not_overwrite_the_weights(model, capsys):
    code, _, err = call(capsys, "report", model, "-i", "ones", "-o", model.with_suffix(".bin"))
    assert code == 2
    assert "this would overwrite the input file model.bin" in err


def test_layers_to_trace_are_checked_before_the_run(model, capsys):
    code, out, err = call(capsys, model, "-i", "ones", "--trace", "conv*", "--dump", "values")
    assert (code, out) == (2, "")
    assert "conv*" in err
    assert "no executed layer" not in err
