"""Requests of the drop-in after errors, and defaults that depend on the processor."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import irrun.openvino as ov
from irrun.openvino import opset13 as ops
from irrun.openvino.config import Config


def compile_relu() -> Any:
    x = ops.parameter([2], np.float32, name="x")
    return ov.Core().compile_model(ov.Model([ops.result(ops.relu(x))], [x], "net"), "CPU")


def test_requests_that_do_not_start_are_complete() -> None:
    request = compile_relu().create_infer_request()
    with pytest.raises(Exception, match="nothing"):
        request.start_async({"nothing": np.zeros(2, np.float32)})
    assert request.wait_for(0)
    request.start_async({"x": np.array([-1, 2], np.float32)})
    request.wait()
    assert request.get_output_tensor().data.tolist() == [0, 2]


def test_shapes_of_shared_tensors_are_checked_in_each_run() -> None:
    request = compile_relu().create_infer_request()
    tensor = ov.Tensor(np.zeros(2, np.float32))
    request.set_input_tensor(tensor)
    tensor.shape = ov.Shape([1])
    with pytest.raises(RuntimeError, match=r"size is not equal to the model input type: got \[1\] expecting \[2\]"):
        request.infer()


def test_number_of_requests_without_a_number_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    config = Config({}, "CPU")
    config.update({"PERFORMANCE_HINT": "THROUGHPUT"})
    assert config.count_requests() == 1
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert config.count_requests() == 6
