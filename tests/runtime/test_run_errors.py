"""Errors while a program runs: their messages, and limits of time."""

from __future__ import annotations

import dataclasses
import itertools
import time

import ml_dtypes
import numpy as np
import pytest
from fast.harness import find_operation, make_programs
from ir_text import chain, write, write_row_loop

import irrun
from irrun.errors import ExecutionError, TimeLimitError
from irrun.runtime import executor
from irrun.runtime.executor import Executor, RequestState

F32 = np.float32


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "out of memory"),
        (ValueError("array is too big; `arr.size * arr.dtype.itemsize` is too large"), "out of memory"),
        (ValueError("Maximum allowed dimension exceeded"), "out of memory"),
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
    monkeypatch.setattr(executor, "perf_counter", lambda: next(clock))  # each step takes a second or more
    request = compiled.create_infer_request()
    expected = request.infer(x, observers=observers, timeout=100)[0]
    with pytest.raises(TimeLimitError, match=r"the run exceeded its time limit of 2 s"):
        request.infer(x, observers=observers, timeout=2)
    np.testing.assert_array_equal(request.infer(x, observers=observers)[0], expected)  # without a limit
