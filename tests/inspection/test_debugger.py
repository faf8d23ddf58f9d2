"""Breakpoints at layers, with commands of the debugger as text."""

from __future__ import annotations

import io
import math
import pdb
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
import irrun.inspection
from inspection.graphs import Row, make_model
from irrun.inspection import Breakpoint
from irrun.inspection.debugger import _LayerDebugger

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"


@pytest.fixture
def model(tmp_path):
    return irrun.read_model(write(tmp_path, chain("Relu", "Exp", "Negative")))


def run_session(model, commands, x=None, **options):
    """Run a model with a breakpoint and commands, and return the outputs and the text of the debugger."""
    compiled = irrun.compile_model(model)
    text = io.StringIO()
    observer = Breakpoint(compiled, stdin=io.StringIO("\n".join(commands) + "\n"), stdout=text, **options)
    x = np.ones((2, 3), np.float32) if x is None else x
    outputs = compiled.create_infer_request().infer(x, observers=[observer])
    return outputs.to_tuple(), text.getvalue(), observer


def run_command(*arguments, commands=()):
    """Run `irrun debug` with commands on its standard input."""
    return subprocess.run(
        [sys.executable, "-m", "irrun", "debug", *map(str, arguments)],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )


def test_run_stops_at_selected_layers(model):
    commands = ["p layer.type, key, scope", "p inputs[0].shape, float(outputs[0][0, 0])", "c"]
    (output,), text, observer = run_session(model, commands, layers="layer2")
    assert "layer2 (Exp" in text
    assert "('Exp', 'layer2', ())" in text
    assert "((2, 3), 2.718" in text
    assert observer.hits == 1
    np.testing.assert_allclose(output, -math.e, rtol=1e-6)


def test_run_stops_at_every_layer_by_default(model):
    _, text, observer = run_session(model, ["c", "c", "c"])
    assert observer.hits == 3
    assert "layer1 (Relu" in text


@pytest.mark.parametrize("command", ["outputs[0][...] = 5", "outputs = [np.full((2, 3), 5, 'f4')]"])
def test_changed_output_is_used_by_the_rest_of_the_run(model, command):
    (output,), _, _ = run_session(model, [command, "c"], layers="layer2")
    np.testing.assert_array_equal(output, -5)


def test_inputs_and_constants_are_not_changed(model):
    x = np.ones((2, 3), np.float32)
    run_session(model, ["outputs[0][...] = 5", "c"], x, layers="layer1")
    np.testing.assert_array_equal(x, 1)


@pytest.mark.parametrize("command", ["nl", "nextlayer"])
def test_next_layer_is_reached(model, command):
    _, text, observer = run_session(model, [command, "p key", "c"], layers="layer1")
    assert observer.hits == 2
    assert "'layer2'" in text


def test_next_layer_is_reached_by_a_function(model):
    _, _, observer = run_session(model, ["next_layer()", "c", "c"], layers="layer1")
    assert observer.hits == 2


def test_kernel_can_be_stepped_through(model):
    commands = ["kernel", "where", "p data", "n", "c", "p key", "c"]
    (output,), text, _ = run_session(model, commands, layers="layer2")
    assert "(kernel)" in text
    assert "exp_1()\n-> return np.asarray(np.exp(data))\n(kernel)" in text
    assert "irrun/ops/activation/elementwise.py" in text.replace("\\", "/")
    assert "the kernel returned f32[2,3]" in text
    assert text.index("the kernel returned") < text.index("'layer2'")
    np.testing.assert_allclose(output, -math.e, rtol=1e-6)


def test_result_of_the_kernel_can_replace_the_outputs(model):
    commands = ["inputs[0] = np.zeros((2, 3), 'f4')", "outputs = step_kernel()", "c", "c"]
    (output,), _, _ = run_session(model, commands, layers="layer2")
    np.testing.assert_array_equal(output, -1)


def test_kernel_can_be_left(model):
    commands = ["kernel", "q", "p key", "c"]
    (output,), text, _ = run_session(model, commands, layers="layer2")
    assert "'layer2'" in text
    np.testing.assert_allclose(output, -math.e, rtol=1e-6)


def test_kernel_of_a_layer_with_a_body_can_be_stepped_through():
    commands = ["kernel", "p len(locals())", "c", "c"]
    compiled = irrun.compile_model(EXAMPLE / "model.xml")
    text = io.StringIO()
    observer = Breakpoint(compiled, "beam_search", stdin=io.StringIO("\n".join(commands)), stdout=text)
    compiled.create_infer_request().infer(np.load(EXAMPLE / "input.npy"), observers=[observer])
    assert "the kernel returned i32[" in text.getvalue()


def test_layer_of_a_body_is_reached_in_one_iteration():
    compiled = irrun.compile_model(EXAMPLE / "model.xml")
    text = io.StringIO()
    commands = io.StringIO("p scope[0][0].name, scope[0][1]\nc\n")
    observer = Breakpoint(compiled, "beam_search[2]/decoder", stdin=commands, stdout=text)
    compiled.create_infer_request().infer(np.load(EXAMPLE / "input.npy"), observers=[observer])
    assert observer.hits == 1
    assert "('beam_search', 2)" in text.getvalue()


def test_condition_selects_values(model):
    _, text, observer = run_session(model, ["c"], condition="abs>2", layers=["layer1", "layer2"])
    assert observer.hits == 1
    assert "layer2 (Exp" in text


def test_quitting_ends_the_run(model):
    import bdb

    with pytest.raises(bdb.BdbQuit):
        run_session(model, ["q"])


def test_commands_are_described(model):
    _, text, _ = run_session(model, ["variables", "help nl", "c"], layers="layer1")
    assert "step_kernel()" in text
    assert "stop at the next layer" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "convolution"}, "no layer matches 'convolution'"),
        ({"condition": "sqnr<20"}, "expected a condition on nan"),
        ({"condition": "error"}, "expected a condition on nan"),
        ({"condition": "abs>__import__('os')"}, "expected a condition"),
    ],
)
def test_invalid_argument_is_reported(model, options, message):
    with pytest.raises(irrun.InputError, match=message):
        irrun.inspection.breakpoint(model, **options)


def test_breakpoint_is_an_observer_of_a_model(model):
    observer = irrun.inspection.breakpoint(model, "layer*", condition="nan")
    irrun.compile_model(model)(np.ones((2, 3), np.float32), observers=[observer])
    assert observer.hits == 0


def test_models_that_are_not_compiled_have_kernels_too(model):
    text = io.StringIO()
    commands = io.StringIO("kernel\nc\nn\np 6 * 7\nc\n")
    observer = Breakpoint(model, "layer2", stdin=commands, stdout=text)
    outputs = irrun.compile_model(model)(np.ones((2, 3), np.float32), observers=[observer])
    np.testing.assert_allclose(outputs[0], -math.e, rtol=1e-6)
    assert "the kernel returned f32[2,3]" in text.getvalue()
    assert "return outputs\n(irrun) 42\n" in text.getvalue()  # the debugger goes on at the layer
    assert observer.hits == 1


def test_commands_for_layers_are_refused_in_kernels(model):
    _, text, observer = run_session(
        model, ["kernel", "kernel", "nl", "p data.shape", "c", "p key", "c"], layers="layer2"
    )
    assert "(kernel) *** the debugger is not at a layer\n" in text
    assert "(kernel) *** the debugger is in a kernel; continue or quit first\n" in text
    assert "(kernel) (2, 3)\n" in text
    assert "(irrun) 'layer2'\n" in text
    assert observer.hits == 1


def test_end_of_a_kernel_is_shown(model):
    _, text, _ = run_session(model, ["kernel", "r", "p __return__.shape", "c", "c"], layers="layer2")
    assert "--Return--" in text
    assert "(kernel) (2, 3)" in text


def test_stops_show_the_layer_and_its_values(model):
    _, text, _ = run_session(model, ["c"], layers="layer2")
    lines = text.splitlines()
    assert lines[0].startswith("layer2 (Exp, ")
    assert lines[0].endswith(" ms)")
    assert lines[1:3] == ["  inputs: f32[2,3]", "  outputs: f32[2,3]"]


def test_only_outputs_that_are_selected_are_checked():
    graph = make_model(
        Row("x", "Parameter"),
        Row("axis", "Constant", value=np.int64(0)),
        Row("s", "Split", ["x", "axis"], {"num_splits": "2"}, 2),
        Row("y", "Result", ["s:0"]),
        Row("z", "Result", ["s:1"]),
    )
    x = np.float32([1, np.nan])
    for layers, hits in (("s", 1), ("s.0", 0), ("s.1", 1)):
        assert run_session(graph, ["c"], x, layers=layers, condition="nan")[2].hits == hits
    condition = irrun.inspection.parse_condition("nan")
    assert run_session(graph, ["c"], x, layers="s.1", types="Split", condition=condition)[2].hits == 1
    with pytest.raises(irrun.InputError, match="no layer is of type 'Relu'"):
        irrun.inspection.breakpoint(graph, types="Relu")


def test_handler_of_interrupts_is_not_replaced(model):
    before = signal.getsignal(signal.SIGINT)
    run_session(model, ["c"], layers="layer2")
    assert signal.getsignal(signal.SIGINT) is before


def test_commands_are_read_from_the_stream(model, capsys):
    observer = Breakpoint(model, "layer2", stdin=io.StringIO("p key\nc\n"))
    irrun.compile_model(model)(np.ones((2, 3), np.float32), observers=[observer])
    assert "'layer2'" in capsys.readouterr().out


def test_error_is_opened_where_it_was_raised(model):
    def fail():
        place = "inside"
        raise ValueError(place)

    for with_cause in (False, True):
        text = io.StringIO()
        observer = Breakpoint(model, stdin=io.StringIO("p place\nq\n"), stdout=text)
        try:
            try:
                fail()
            except ValueError as cause:
                if not with_cause:
                    raise
                raise irrun.ExecutionError("outer") from cause
        except (ValueError, irrun.ExecutionError) as error:
            observer.debug_error(error)
        assert text.getvalue().startswith("ExecutionError: outer" if with_cause else "ValueError: inside")
        assert "'inside'" in text.getvalue()


# The command line


def test_command_stops_in_the_debugger():
    commands = ["p key", "p outputs[0].shape", "outputs[0][...] = 0", "kernel", "c", "c"]
    result = run_command(
        EXAMPLE / "model.xml", "--input", EXAMPLE / "input.npy", "--break", "beam_search[1]/decoder", commands=commands
    )
    assert result.returncode == 0, result.stderr
    assert "'beam_search[1]/decoder'" in result.stdout
    assert "lstm_cell_4" in result.stdout
    assert "beams" in result.stdout


def test_command_stops_on_a_condition(model):
    arguments = (model.path, "--input", "ones", "--break-if", "abs>2")
    result = run_command(*arguments, commands=["p key", "c", "c"])
    assert result.returncode == 0
    assert "'layer2'" in result.stdout


def test_command_reports_that_no_breakpoint_was_reached(model):
    result = run_command(model.path, "--input", "ones", "--break-if", "nan")
    assert result.returncode == 0
    assert "without reaching a breakpoint" in result.stderr


def test_quitting_ends_the_command(model):
    for commands in (["q"], []):
        result = run_command(model.path, "--input", "ones", commands=commands)
        assert result.returncode == 0
        assert "Traceback" not in result.stderr


def test_debugger_opens_where_a_kernel_failed(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")], name="x"),
        layer(1, "Parameter", data='shape="2" element_type="i64"', outputs=[port(0, (2,), "I64")], name="shape"),
        layer(2, "Reshape", data='special_zero="false"', inputs=[port(0), port(1)], outputs=[port(2)], name="reshape"),
        layer(3, "Result", inputs=[port(0)], name="result"),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))
    result = run_command(
        path, "--input", "x=[1,2]", "--input", "shape=[3,5]", "--break-if", "nan", commands=["where", "q"]
    )
    assert result.returncode == 2
    assert "irrun/ops/shape.py" in result.stdout.replace("\\", "/")
    assert "layer 2 'reshape'" in result.stdout  # the error precedes the place
    assert "reshape" in result.stderr


def test_invalid_option_of_the_command_is_reported(model):
    result = run_command(model.path, "--input", "ones", "--break", "convolution")
    assert result.returncode == 2
    assert "no layer matches" in result.stderr


def make_debugger(observer=None):
    text = io.StringIO()
    debugger = _LayerDebugger(observer, "(test) ", io.StringIO(), text)
    debugger.curframe = None
    return debugger, text


@pytest.mark.parametrize("name", ["user_call", "user_line", "user_return", "user_exception"])
def test_kernels_are_entered_at_their_own_function(name, monkeypatch):
    """What their decorators do is skipped."""
    stops = []
    monkeypatch.setattr(pdb.Pdb, name, lambda debugger, *arguments: stops.append(arguments))
    debugger, _ = make_debugger()
    frame, kernel = sys._getframe(), make_debugger.__code__
    arguments = (frame,) if name == "user_line" else (frame, None)
    debugger.target = kernel
    getattr(debugger, name)(*arguments)
    assert stops == []
    assert debugger.target is kernel
    debugger.target = frame.f_code
    getattr(debugger, name)(*arguments)
    assert stops == ([arguments] if name == "user_line" else [])
    assert (debugger.target is None) == (name == "user_line")
    debugger.target = None
    getattr(debugger, name)(*arguments)
    assert stops[-1] == arguments


def test_commands_for_layers_go_on_with_the_prompt_in_a_kernel():
    debugger, text = make_debugger()
    assert debugger.do_nextlayer("") is False
    assert debugger.do_kernel("") is False
    assert debugger.do_variables("") is False
    assert "the debugger is in a kernel; continue or quit first" in text.getvalue()
    assert "the debugger is not at a layer" in text.getvalue()


def test_kernel_is_entered_at_a_layer_only(monkeypatch):
    called: list[str] = []
    observer = SimpleNamespace(stop_at_next_layer=lambda: called.append("next"))
    debugger, text = make_debugger(observer)
    monkeypatch.setattr(debugger, "set_continue", lambda: called.append("continue"))
    assert debugger.do_kernel("") is False
    assert "the debugger is not at a layer" in text.getvalue()

    def stop(step_kernel):
        debugger.curframe = sys._getframe()
        return debugger.do_kernel("")

    results = iter([None, [np.float32([1, 2])]])

    def step():
        called.append("kernel")
        return next(results)

    assert stop(step) is False
    assert "the kernel returned" not in text.getvalue()
    assert stop(step) is False
    assert "the kernel returned" in text.getvalue()
    assert called == ["kernel", "kernel"]
    assert debugger.do_nextlayer("") is True
    assert called[-2:] == ["next", "continue"]
