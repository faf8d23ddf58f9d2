"""Errors while a program runs: their messages, and limits of time."""

from __future__ import annotations

import dataclasses
import itertools
import time

import ml_dtypes
import numpy as np
import pytest
from fast.harness import find_operation, make_programs
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from irrun import deadlines
from irrun.errors import ExecutionError, TimeLimitError
from irrun.runtime.executor import Executor, RequestState

F32 = np.float32


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "out of memory"),
        (
            ValueError("array is too big; `arr.size * arr.dtype.itemsize` is too large"),
            "more elements than an array can have",
        ),
        (ValueError("Maximum allowed dimension exceeded"), "more elements than an array can have"),
        (TypeError("ufunc 'add' not supported for the input types"), "Add-1 is not defined for these element types"),
        (ValueError("operands could not be broadcast together"), "Add-1 does not accept these shapes: operands could"),
        (
            ValueError("axes don't match array"),
            r"Add-1 does not accept inputs of these shapes \(ValueError: axes don't",
        ),
        (IndexError("too large"), r"Add-1 does not accept these values \(IndexError: too large\)"),
        (OverflowError("too large"), r"Add-1 does not accept these values \(OverflowError: too large\)"),
        (AttributeError("x"), r"Add-1 does not accept inputs of these element types and ranks \(AttributeError: x\)"),
        (TypeError("x"), r"Add-1 does not accept inputs of these element types and ranks \(TypeError: x\)"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
    ids=repr,
)
def test_errors_of_numpy_are_explained(error, message):
    program, _ = make_programs(find_operation("Add-1"), [np.ones(2, F32), np.ones(3, ml_dtypes.bfloat16)], {}, (), 1)

    def fail(*inputs):
        raise error

    program.instructions[0] = dataclasses.replace(program.instructions[0], kernel=fail)
    with pytest.raises(ExecutionError, match=message) as caught:
        Executor(program, RequestState()).run([np.ones(2, F32), np.ones(3, ml_dtypes.bfloat16)])
    assert "for inputs f32[2], bf16[3]" in str(caught.value)


@pytest.mark.parametrize("observers", [[], [lambda *_: None]])
@pytest.mark.parametrize("is_loop", [False, True])
def test_time_of_a_run_is_limited(tmp_path, monkeypatch, observers, is_loop):
    path = write_row_loop(tmp_path) if is_loop else write(tmp_path, chain("Relu", "Exp", "Softmax", "Tanh"))
    compiled = irrun.compile_model(path, optimize=False)
    x = np.ones((2, 3), F32)
    clock = itertools.count(time.perf_counter())
    monkeypatch.setattr(deadlines, "perf_counter", lambda: next(clock))  # each step takes a second or more
    request = compiled.create_infer_request()
    expected = request.infer(x, observers=observers, timeout=100)[0]
    with pytest.raises(TimeLimitError, match=r"the run exceeded its time limit of 2 s"):
        request.infer(x, observers=observers, timeout=2)
    np.testing.assert_array_equal(request.infer(x, observers=observers)[0], expected)  # without a limit


def test_inputs_that_are_not_connected_are_none_in_messages(tmp_path):
    def refuse(x, y=None, z=None):
        raise KeyError("refused")

    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "Custom", "extension", "", [port(i, (2, 3)) for i in range(3)], [port(3, (2, 3))], name="mine"),
        layer(2, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (0, 0, 1, 2), (1, 3, 2, 0)]))
    operation = irrun.Operation.from_function(refuse, "Custom", opset="extension")
    compiled = irrun.compile_model(path, operations=[operation])
    with pytest.raises(
        ExecutionError, match=r"KeyError: 'refused', for inputs f32\[2, 3\], none, f32\[2, 3\]"
    ) as caught:
        compiled(np.ones((2, 3), F32))
    assert caught.value.path == path
    assert caught.value.layer == "layer 1 'mine' (Custom, extension)"
    assert caught.value.line == 4


def test_layers_without_inputs_have_none_in_messages(tmp_path):
    def refuse():
        raise KeyError("refused")

    layers = [
        layer(0, "Custom", "extension", outputs=[port(0, (2, 3))], name="mine"),
        layer(1, "Result", inputs=[port(0)]),
    ]
    operation = irrun.Operation.from_function(refuse, "Custom", opset="extension")
    compiled = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 1, 0)])), operations=[operation])
    with pytest.raises(ExecutionError, match=r"KeyError: 'refused', for inputs none"):
        compiled()


@pytest.mark.parametrize("observers", [[], [lambda *_: None]])
def test_values_are_freed_after_their_last_use(observers, tmp_path):
    """Eight values of 4 MiB, of which two exist at the same time."""
    types = ["Negative", "Abs"] * 4
    path = write(tmp_path, chain(*types, shape=(1024, 1024)))
    compiled = irrun.compile_model(path, optimize=False, memory="9M")
    result = compiled.create_infer_request().infer(np.full((1024, 1024), 3, F32), observers=observers)[0]
    np.testing.assert_array_equal(result, np.full((1024, 1024), 3))


def test_reset_restarts_random_generators(tmp_path):
    constants = [np.int64([4]), np.array(0, F32), np.array(1, F32)]
    weights = b"".join(value.tobytes() for value in constants)
    data = 'element_type="{}" shape="{}" offset="{}" size="{}"'
    layers = [
        layer(0, "Const", data=data.format("i64", 1, 0, 8), outputs=[port(0, (1,), "I64")]),
        layer(1, "Const", data=data.format("f32", "", 8, 4), outputs=[port(0, (), "FP32")]),
        layer(2, "Const", data=data.format("f32", "", 12, 4), outputs=[port(0, (), "FP32")]),
        layer(
            3,
            "RandomUniform",
            "opset8",
            'output_type="f32" global_seed="1" op_seed="2"',
            [port(0), port(1), port(2)],
            [port(3, (4,), "FP32")],
        ),
        layer(4, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]
    request = irrun.compile_model(write(tmp_path, net(layers, edges), weights)).create_infer_request()
    first, second = request.infer()[0].copy(), request.infer()[0].copy()
    assert not np.array_equal(first, second)
    request.reset_state()
    np.testing.assert_array_equal(request.infer()[0], first)
    np.testing.assert_array_equal(request.infer()[0], second)
