"""NNCF on irrun: quantization and weight compression without OpenVINO."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("nncf")

PROGRAM = """
import json, sys
if sys.argv[1] == "irrun":
    import irrun
    irrun.install_as_openvino(replace=True)
import nncf, numpy as np, openvino as ov, openvino.opset13 as ops

rng = np.random.default_rng(0)

def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32) * np.float32(0.2)

def build_network():
    data = ops.parameter([1, 3, 16, 16], np.float32, name="data")
    value = data
    for channels in (3, 8):
        value = ops.convolution(value, ops.constant(draw(8, channels, 3, 3)), [1, 1], [1, 1], [1, 1], [1, 1])
        value = ops.relu(ops.add(value, ops.constant(draw(1, 8, 1, 1))))
    value = ops.reduce_mean(value, np.array([2, 3]), False)
    value = ops.matmul(value, ops.constant(draw(8, 5)), False, False)
    return ov.Model([ops.result(ops.softmax(value, 1))], [data], "network")

def build_layers():
    data = ops.parameter([-1, 64], np.float32, name="data")
    value = data
    for _ in range(3):
        value = ops.relu(ops.matmul(value, ops.constant(draw(64, 64)), False, True))
    return ov.Model([ops.result(value)], [data], "layers")

samples = [rng.random((1, 3, 16, 16), np.float32) for _ in range(8)]
quantized = nncf.quantize(build_network(), nncf.Dataset(samples), subset_size=8)
ranges = [
    node.input_value(2).get_node().data.ravel()[0].item()
    for node in quantized.get_ordered_ops()
    if node.get_type_name() == "FakeQuantize"
]
found = {"ranges": ranges, "scores": ov.compile_model(quantized, "CPU")(samples[0])[0].tolist()}
for mode in ("INT8_ASYM", "INT8_SYM", "INT4_SYM", "INT4_ASYM"):
    options = {} if mode.startswith("INT8") else {"group_size": 16, "ratio": 1.0, "all_layers": True}
    compressed = nncf.compress_weights(build_layers(), mode=getattr(nncf.CompressWeightsMode, mode), **options)
    constants = [node for node in compressed.get_ordered_ops() if node.get_type_name() == "Constant"]
    found[mode] = sorted(node.get_element_type().to_string() for node in constants)
    found[mode + " result"] = ov.compile_model(compressed, "CPU")(np.ones((1, 64), np.float32))[0].tolist()
print(json.dumps(found))
"""


def run(name: str) -> dict[str, Any]:
    process = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    found: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return found


def test_models_are_quantized_and_compressed_as_with_openvino() -> None:
    pytest.importorskip("openvino")
    expected, found = run("openvino"), run("irrun")
    assert found["ranges"] == pytest.approx(expected["ranges"], rel=1e-3)
    assert found["scores"][0] == pytest.approx(expected["scores"][0], abs=5e-3)
    for mode in ("INT8_ASYM", "INT8_SYM", "INT4_SYM", "INT4_ASYM"):
        assert found[mode] == expected[mode]
        assert found[f"{mode} result"][0] == pytest.approx(expected[f"{mode} result"][0], rel=2e-2, abs=2e-2)
