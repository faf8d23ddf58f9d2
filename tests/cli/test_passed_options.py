"""Each option of a command reaches the function that does the work, and so does its default."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

from irrun.cli import COMMANDS
from irrun.data.image import ImageOptions
from irrun.distributed import MapOptions
from irrun.errors import InputError
from irrun.generation.embedding import EmbeddingConfig
from irrun.inspection import record
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings

X = np.arange(6, dtype=np.float32).reshape(2, 3)
#: The options of runs, and the settings that they stand for.
SETTING_OPTIONS = "--precision f64 --threads 2 --memory 2M --weights-memory 0 --timeout 7"
SETTINGS = RunSettings("f64", 2, 2 << 20, 0, None, 7.0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with models of Relu and Abs, an input, and a file of operations."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, chain("Relu", "Abs"))
    write(tmp_path, chain("Relu", "Negative"), name="other")
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "ops.py").write_text("")
    return tmp_path


@pytest.fixture
def capture(monkeypatch, capsys):
    """Return a function that runs a command up to the call of another function, and returns the arguments of it.

    The words of the command are separated by spaces.
    """

    def run(target, *command):
        calls = []

        def stop(*arguments, **named):
            calls.append((arguments, named))
            raise InputError("stopped")

        monkeypatch.setattr(target, stop)
        words = [word for text in command for word in str(text).split()]
        assert call(capsys, *words) == (2, "", "irrun: stopped\n")
        (found,) = calls
        return found

    return run


def test_map(folder, capture):
    target = "irrun.distributed.map_inputs"
    arguments, named = capture(target, "map", "model.xml", "x=x.npy", "x.npy", "-o", "r.zarr")
    assert arguments == (Path("model.xml"), ("x=x.npy", "x.npy"), Path("r.zarr"), MapOptions())
    assert (named["scheduler"], named["workers"], named["retry"]) == (None, None, False)
    options = (
        "--batch 3 --on-error skip -w w.bin --layout NHWC --channels rgb --mean 1,2 --scale 3 --retry "
        "--scheduler tcp://host:1 --workers 4 --shape x=2,3 --shape 1,3 --jit off --import ops.py"
    )
    arguments, named = capture(target, "map", "model.xml", "x.npy", "-o", "r.zarr", options, SETTING_OPTIONS)
    assert arguments[3] == MapOptions(
        batch=3,
        on_error="skip",
        weights="w.bin",
        memory=2 << 20,
        precision="f64",
        threads=2,
        jit=False,
        image=ImageOptions("NHWC", "RGB", (1.0, 2.0), (3.0,)),
        imports=("ops.py",),
        weights_memory=0,
        timeout=7.0,
        shapes=("x=2,3", "1,3"),
    )
    assert (named["scheduler"], named["workers"], named["retry"]) == ("tcp://host:1", 4, True)


def test_bench(folder, capture):
    target = "irrun.inspection.benchmark.bench"
    (source, arrays), named = capture(target, "bench", "model.xml")
    assert source.name == "net"
    assert arrays["x"].shape == X.shape  # random values
    assert np.ptp(arrays["x"]) > 0
    del named["progress"]
    assert named == {"runs": None, "seconds": None, "requests": 1, "against": None, "settings": DEFAULT_SETTINGS}
    options = "--input x.npy --runs 4 --seconds 0.5 --requests 3 --against openvino"
    (_, arrays), named = capture(target, "bench", "model.xml", options, SETTING_OPTIONS)
    np.testing.assert_array_equal(arrays["x"], X)
    del named["progress"]
    assert named == {"runs": 4, "seconds": 0.5, "requests": 3, "against": "openvino", "settings": SETTINGS}


def test_profile(folder, capture):
    target = "irrun.inspection.profiling.profile"
    (compiled, arrays), named = capture(target, "profile", "model.xml", "-i", "x.npy")
    assert compiled.optimize
    np.testing.assert_array_equal(arrays["x"], X)
    assert (named["runs"], named["against"], named["timeout"]) == (10, None, None)
    options = "--runs 3 --against openvino --plain --threads 2 --timeout 7"
    (compiled, _), named = capture(target, "profile", "model.xml", "-i", "x.npy", options)
    assert (compiled.optimize, compiled.threads) == (False, 2)
    assert (named["runs"], named["against"], named["timeout"]) == (3, "openvino", 7.0)


def test_reduce(folder, capture):
    target = "irrun.inspection.reduction.reduce"
    (source, arrays), named = capture(target, "reduce", "model.xml", "-i", "x.npy")
    assert source.path == Path("model.xml")
    np.testing.assert_array_equal(arrays["x"], X)
    del named["progress"]
    assert named == {"against": None, "fails": None, "test": None, "max_trials": None, "settings": named["settings"]}
    options = "--against f64 --fails sqnr<5 --test false --max-trials 9"
    _, named = capture(target, "reduce", "model.xml", "-i", "x.npy", options, SETTING_OPTIONS)
    del named["progress"]
    assert named == {"against": "f64", "fails": "sqnr<5", "test": "false", "max_trials": 9, "settings": SETTINGS}
    _, named = capture(target, "reduce", "model.xml", "-i", "x.npy", "--against", "other.xml")
    assert named["against"].path == Path("other.xml")


def test_compare(folder, capture):
    target = "irrun.inspection.comparing.compare"
    (source, other), named = capture(target, "compare", "model.xml", "other.xml", "-i", "x.npy", "-i", "ones")
    assert (source.path, other.path) == (Path("model.xml"), Path("other.xml"))
    assert len(named.pop("sequence")) == 2
    assert named == {"names": None, "metric": None, "factor": None, "settings": DEFAULT_SETTINGS}
    options = f"--against f64 --map a=layer1 --map b=layer2 --tolerance 3 {SETTING_OPTIONS}"
    (_, other), named = capture(target, "compare", "model.xml", "-i", "x.npy", options)
    assert other == "f64"
    assert len(named.pop("sequence")) == 1
    assert named == {"names": {"a": "layer1", "b": "layer2"}, "metric": None, "factor": 3.0, "settings": SETTINGS}


def test_check(folder, capture):
    target = "irrun.inspection.checks.check"
    (compiled,), named = capture(target, "check", "model.xml", "-i", "x.npy", "-i", "ones")
    assert not compiled.optimize
    assert len(named.pop("input_sets")) == 2
    assert named == {"target_type": None, "timeout": None}
    options = "--as bf16 --timeout 7 --precision declared"
    (compiled,), named = capture(target, "check", "model.xml", "-i", "x.npy", options)
    assert compiled.precision == "declared"
    assert (len(named["input_sets"]), named["target_type"], named["timeout"]) == (1, "bf16", 7.0)


def test_trace(folder, capture):
    target = "irrun.inspection.recording.record"
    (compiled, arrays, output), named = capture(target, "trace", "model.xml", "-i", "x.npy")
    assert (compiled.optimize, output) == (False, None)
    np.testing.assert_array_equal(arrays["x"], X)
    assert named == {"layers": (), "types": (), "modules": (), "max_bytes": 0, "timeout": None}
    options = "-o r.trace --layers a* --layers b --type Relu --type Abs --module m --module n --timeout 7"
    (_, _, output), named = capture(target, "trace", "model.xml", "-i", "x.npy", options)
    assert output == Path("r.trace")
    expected = {"layers": ("a*", "b"), "types": ("Relu", "Abs"), "modules": ("m", "n"), "max_bytes": None}
    assert named == {**expected, "timeout": 7.0}
    for text, size in (("3K", 3 << 10), ("0", 0)):
        _, named = capture(target, "trace", "model.xml", "-i", "x.npy", "-o", "r.trace", "--max-bytes", text)
        assert named["max_bytes"] == size


def test_report(folder, capture):
    target = "irrun.inspection.report.data.collect_report"
    (source, arrays), named = capture(target, "report", "model.xml")
    assert (source.path, arrays) == (Path("model.xml"), None)
    assert named == {
        "against": None,
        "other": None,
        "channels": "BGR",
        "tensor_bytes": 1200 << 10,
        "settings": DEFAULT_SETTINGS,
    }
    assert capture(target, "report", "model.xml", "--channels", "rgb")[1]["channels"] == "RGB"
    options = f"--tensors 0 --against f64 {SETTING_OPTIONS}"
    (_, arrays), named = capture(target, "report", "model.xml", "-i", "x.npy", options)
    np.testing.assert_array_equal(arrays["x"], X)
    assert named == {"against": "f64", "other": None, "channels": "BGR", "tensor_bytes": 0, "settings": SETTINGS}


@pytest.mark.parametrize(
    ("options", "other", "against", "has_inputs"),
    [
        ("other.xml", "other.xml", None, False),
        ("other.xml -i x.npy", "other.xml", None, True),
        ("--against other.xml", "other.xml", None, False),  # differences of the structure need no inputs
        ("--compare other.xml", "other.xml", None, False),
        ("--against other.xml -i x.npy", None, "other.xml", True),
        ("other.xml --against model.xml -i x.npy", "other.xml", "model.xml", True),
    ],
)
def test_models_of_a_report(options, other, against, has_inputs, folder, capture):
    (_, arrays), named = capture("irrun.inspection.report.data.collect_report", "report", "model.xml", options)
    paths = [None if model is None else str(model.path) for model in (named["other"], named["against"])]
    assert (*paths, arrays is not None) == (other, against, has_inputs)


def test_replay(folder, capture):
    record("model.xml", X, "r.trace")
    target = "irrun.inspection.replaying.replay"
    (trace, source, layer), named = capture(target, "replay", "r.trace", "layer1")
    assert (trace.path, source.path.name, layer) == (Path("r.trace"), "model.xml", "layer1")
    assert named == {"settings": DEFAULT_SETTINGS}
    (_, source, _), named = capture(target, "replay", "r.trace", "layer1", "-m", "other.xml", SETTING_OPTIONS)
    assert (source.path.name, named["settings"]) == ("other.xml", SETTINGS)


def test_debug(folder, capture):
    target = "irrun.inspection.debugger.Breakpoint"
    (compiled, globs), named = capture(target, "debug", "model.xml", "-i", "x.npy")
    assert (compiled.optimize, globs, named) == (False, (), {"types": (), "condition": None})
    options = "--break a --break b* --type Relu --type Abs --break-if nan"
    (_, globs), named = capture(target, "debug", "model.xml", "-i", "x.npy", options)
    assert (globs, named) == (("a", "b*"), {"types": ("Relu", "Abs"), "condition": "nan"})


def test_export(folder, capture):
    target = "irrun.export.export_onnx"
    (source, output), named = capture(target, "export", "model.xml", "-o", "m.onnx")
    assert (source.path, output, named) == (Path("model.xml"), Path("m.onnx"), {"opset": None, "partial": False})
    options = "--opset 20 --partial --shape ?,3"
    (source, _), named = capture(target, "export", "model.xml", "-o", "m.onnx", options)
    assert (str(source.inputs[0].partial_shape), named) == ("[?,3]", {"opset": 20, "partial": True})


def test_validate(folder, capture):
    target = "irrun.runtime.validation.validate"
    assert capture(target, "validate", "model.xml") == ((Path("model.xml"), None), {})
    assert capture(target, "validate", "model.xml", "-w", "w.bin") == ((Path("model.xml"), Path("w.bin")), {})


@pytest.mark.parametrize("command", ["upgrade", "extract", "export", "info"])
def test_weights_and_shapes_of_commands_that_only_read_the_model(command, folder, capture):
    arguments = [] if command == "info" else ["-o", "new.onnx" if command == "export" else "new.xml"]
    name = "irrun.ir.reader.read_findings" if command == "info" else "irrun.ir.reader.read_model"
    assert capture(name, command, "model.xml", *arguments) == ((Path("model.xml"), None), {})
    assert capture(name, command, "model.xml", *arguments, "-w", "w.bin") == ((Path("model.xml"), Path("w.bin")), {})


def test_embed(folder, capture, monkeypatch):
    target = "irrun.generation.embedding.embed"
    settings = dict(vars(DEFAULT_SETTINGS))
    arguments, named = capture(target, "embed", "f", "cat", "dog")
    assert arguments == (Path("f"), ["cat", "dog"], EmbeddingConfig())
    assert named == {"is_query": False, **settings}
    options = (
        "--pooling-type last_token --no-normalize --query --max-length 9 --pad-to-max-length "
        "--query-instruction q: --embed-instruction d: --padding-side left --batch-size 2"
    )
    arguments, named = capture(target, "embed", "f", "a", options, SETTING_OPTIONS)
    assert arguments == (Path("f"), ["a"], EmbeddingConfig(9, True, 2, "last_token", False, "q:", "d:", "left"))
    assert named == {"is_query": True, **vars(SETTINGS)}
    monkeypatch.setattr("sys.stdin", io.StringIO("b\nc\n"))
    assert capture(target, "embed", "f", "a", "-", "d")[0][1] == ["a", "b", "c", "d"]


def test_conformance(folder, capture):
    target = "irrun.conformance.survey.run_survey"
    (device, patterns), named = capture(target, "conformance")
    del named["progress"]
    assert (device, patterns) == ("CPU", ())
    assert named == {"cases": None, "seed": 0, "folder": Path("conformance"), "workers": None, "timeout": 60}
    options = "--device GPU --ops A* --ops B --cases 3 --seed 4 -o page.HTM --workers 5 --timeout 6"
    (device, patterns), named = capture(target, "conformance", options)
    del named["progress"]
    assert (device, patterns) == ("GPU", ("A*", "B"))
    assert named == {"cases": 3, "seed": 4, "folder": Path("page"), "workers": 5, "timeout": 6}
    assert capture(target, "conformance", "-o", "page.html", "--models", "m")[1]["folder"] == Path("m")


#: Options of `irrun generate`, and the values of the configuration.
GENERATION = {
    "--max-new-tokens 3": {"max_new_tokens": 3},
    "--min-new-tokens 0": {"min_new_tokens": 0},
    "--do-sample": {"do_sample": True},
    "--temperature 0": {"temperature": 0.0},
    "--top-k 0": {"top_k": 0},
    "--top-p 1": {"top_p": 1.0},
    "--min-p 0": {"min_p": 0.0},
    "--rng-seed 0": {"rng_seed": 0},
    "--repetition-penalty 0": {"repetition_penalty": 0.0},
    "--presence-penalty -2": {"presence_penalty": -2.0},
    "--frequency-penalty 2": {"frequency_penalty": 2.0},
    "--stop-strings a --stop-strings b": {"stop_strings": ("a", "b")},
    "--ignore-eos": {"ignore_eos": True},
    "--num-return-sequences 1": {"num_return_sequences": 1},
    "--num-beams 1": {"num_beams": 1},
    "--num-beam-groups 1": {"num_beam_groups": 1},
    "--diversity-penalty -1": {"diversity_penalty": -1.0},
    "--length-penalty -1": {"length_penalty": -1.0},
    "--no-repeat-ngram-size 0": {"no_repeat_ngram_size": 0},
    "--stop-criteria NEVER": {"stop_criteria": "never"},
    "--echo": {"echo": True},
    "": {},
}


def replace_values(values):
    """Take the place of the method `replace` of a configuration."""
    raise InputError(repr(values))


@pytest.mark.parametrize("options", GENERATION)
def test_generate(options, capsys, monkeypatch):
    def create(folder, **settings):
        assert (folder, settings) == (Path("f"), vars(DEFAULT_SETTINGS))
        return SimpleNamespace(config=SimpleNamespace(replace=replace_values))

    monkeypatch.setattr("irrun.generation.TextGenerator", create)
    code, _, err = call(capsys, "generate", "f", "Once", *options.split())
    assert (code, err) == (2, f"irrun: {GENERATION[options]!r}\n")


#: Options of `irrun transcribe`, and the values of the configuration.
TRANSCRIPTION = {
    "--language de": {"language": "de"},
    "--task translate": {"task": "translate"},
    "--task transcribe": {"task": "transcribe"},
    "--return-timestamps": {"return_timestamps": True},
    "--initial-prompt Zoe": {"initial_prompt": "Zoe"},
    "--hotwords Zoe": {"hotwords": "Zoe"},
    "--max-new-tokens 1": {"max_new_tokens": 1},
    "": {},
}


@pytest.mark.parametrize("options", TRANSCRIPTION)
def test_transcribe(options, capsys, monkeypatch):
    def create(folder, **settings):
        assert (folder, settings) == (Path("f"), vars(SETTINGS))
        return SimpleNamespace(config=SimpleNamespace(replace=replace_values))

    monkeypatch.setattr("irrun.generation.transcription.SpeechRecognizer", create)
    code, _, err = call(capsys, "transcribe", "f", "a.wav", *options.split(), *SETTING_OPTIONS.split())
    assert (code, err) == (2, f"irrun: {TRANSCRIPTION[options]!r}\n")


#: Command and option -> the smallest value that it accepts, and a smaller one that it does not.
LOWER_LIMITS = {
    "run --seed": (0, -1),
    "run --batch": (1, 0),
    "run --threads": (1, 0),
    "run --timeout": (0, -0.1),
    "map --batch": (1, 0),
    "map --workers": (1, 0),
    "trace --top": (1, 0),
    "compare --tolerance": (0, -0.1),
    "compare --cure": (1, 0),
    "reduce --max-trials": (1, 0),
    "profile --runs": (1, 0),
    "profile --depth": (1, 0),
    "profile --top": (1, 0),
    "bench --runs": (1, 0),
    "bench --seconds": (1e-9, 0),
    "bench --requests": (1, 0),
    "embed --max-length": (1, 0),
    "embed --batch-size": (1, 0),
    "transcribe --max-new-tokens": (1, 0),
    "conformance --cases": (1, 0),
    "conformance --seed": (0, -1),
    "conformance --workers": (1, 0),
    "conformance --timeout": (0, -0.1),
    "generate --max-new-tokens": (1, 0),
    "generate --min-new-tokens": (0, -1),
    "generate --temperature": (0, -0.1),
    "generate --top-k": (0, -1),
    "generate --top-p": (0, -0.1),
    "generate --min-p": (0, -0.1),
    "generate --rng-seed": (0, -1),
    "generate --repetition-penalty": (0, -0.1),
    "generate --presence-penalty": (-2, -2.1),
    "generate --frequency-penalty": (-2, -2.1),
    "generate --num-return-sequences": (1, 0),
    "generate --num-beams": (1, 0),
    "generate --num-beam-groups": (1, 0),
    "generate --no-repeat-ngram-size": (0, -1),
}
#: Command and option -> the largest value that it accepts, and a larger one that it does not.
UPPER_LIMITS = {
    "profile --runs": (100_000, 100_001),
    "bench --requests": (1024, 1025),
    "generate --top-p": (1, 1.1),
    "generate --min-p": (1, 1.1),
    "generate --presence-penalty": (2, 2.1),
    "generate --frequency-penalty": (2, 2.1),
}


@pytest.mark.parametrize("limits", [LOWER_LIMITS, UPPER_LIMITS], ids=["smallest", "largest"])
def test_limits_of_numbers(limits):
    for place, (accepted, refused) in limits.items():
        name, option = place.split()
        command = importlib.import_module(f"irrun.cli.{name}").command
        parameter = next(p for p in command.params if option in p.opts)
        context = click.Context(command)
        assert parameter.type_cast_value(context, str(accepted)) == accepted, place
        with pytest.raises(click.BadParameter, match="is not in the range"):
            parameter.type_cast_value(context, str(refused))


def test_all_ranges_of_numbers_are_tested():
    named = {*LOWER_LIMITS, *UPPER_LIMITS}
    shared = {place.split()[1] for place in named if place.startswith("run ")}
    for name in COMMANDS:
        for parameter in importlib.import_module(f"irrun.cli.{name}").command.params:
            if isinstance(parameter.type, click.IntRange | click.FloatRange) and parameter.type.min is not None:
                assert f"{name} {parameter.opts[-1]}" in named or parameter.opts[-1] in shared
