"""The files that commands of the documentation refer to, such as model.xml and x.npy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["write_files"]

SHAPE = [1, 3, 8, 8]
CUSTOM_OPERATION = """
import irrun

@irrun.op("MyOp", opset="extension")
def my_op(data, *, alpha: float = 1.0):
    return data * alpha
"""


def write_files(folder: Path) -> None:
    """Write models, arrays, images and scripts into a folder. Models are built with OpenVINO."""
    import openvino as ov

    models = {
        "model": make_classifier(),
        "other": make_classifier(factor=1.01),
        "fp32": make_classifier(),
        "int8": make_classifier(quantized=True),
        "bert": make_encoder(),
        "siamese": make_difference(),
        "detector": make_detector(),
    }
    for name, model in models.items():
        ov.save_model(model, folder / f"{name}.xml", compress_to_fp16=False)
    rng = np.random.default_rng(0)
    for name in "xab":
        np.save(folder / f"{name}.npy", rng.standard_normal(SHAPE).astype(np.float32))
    np.savez(folder / "b.npz", key=np.load(folder / "b.npy"))
    np.save(folder / "ids.npy", np.array([[1, 2, 3]]))
    np.save(folder / "mask.npy", np.ones((1, 3), np.int64))
    (folder / "my_ops.py").write_text(CUSTOM_OPERATION)
    (folder / "check.py").write_text("import sys\n\nsys.exit('relu' in open(sys.argv[1]).read())\n")
    write_legacy_model(folder / "old.xml")
    write_images(folder)


def make_classifier(factor: float = 1.0, quantized: bool = False) -> Any:
    """Return a network of convolutions, a loop over rows, and a fully connected layer."""
    import openvino as ov
    from openvino import opset13 as ops

    rng = np.random.default_rng(1)

    def constant(name: str, *shape: int) -> Any:
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return ops.constant((rng.standard_normal(shape) * scale).astype(np.float32), name=name)

    def quantize(x: Any, name: str) -> Any:
        if not quantized:
            return x
        bounds = [ops.constant(np.float32(bound)) for bound in (-3, 3, -3, 3)]
        return ops.fake_quantize(x, *bounds, 64, name=f"{name}/fq_input_0")

    def convolve(x: Any, name: str, channels: int) -> Any:
        weights = constant(f"{name}/weights", 4, channels, 3, 3)
        return ops.convolution(quantize(x, name), weights, [1, 1], [1, 1], [1, 1], [1, 1], name=name)

    x = ops.parameter(SHAPE, np.float32, name="x")
    y = ops.relu(convolve(x, "conv1", 3), name="relu1")
    y = ops.relu(convolve(y, "encoder.layer.3/conv", 4), name="encoder.layer.3/relu")
    y = ops.reshape(_loop(y), np.array([1, -1]), False, name="flatten")
    y = ops.matmul(quantize(y, "fc1"), constant("fc1/weights", 10, 256), False, True, name="fc1")
    y = ops.multiply(y, np.float32(factor), name="logits")
    y = ops.softmax(y, 1, name="prob")
    return _finish(ov.Model([y], [x], "classifier"))


def _loop(x: Any) -> Any:
    """Return a TensorIterator over the rows of [1, 4, 8, 8]."""
    import openvino as ov
    from openvino import opset13 as ops

    row = ops.parameter([1, 4, 1, 8], np.float32, name="row")
    body = ov.Model([ops.tanh(row, name="cell")], [row], "body")
    loop = ops.tensor_iterator()
    loop.set_friendly_name("loop")
    loop.set_body(body)
    loop.set_sliced_input(row, x.output(0), 0, 1, 1, -1, 2)
    loop.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 2)
    return loop


def make_encoder() -> Any:
    """Return an embedding with a mask."""
    import openvino as ov
    from openvino import opset13 as ops

    ids = ops.parameter([-1, -1], np.int64, name="ids")
    mask = ops.parameter([-1, -1], np.int64, name="mask")
    table = np.random.default_rng(2).standard_normal((8, 4)).astype(np.float32)
    x = ops.gather(table, ids, np.int64(0))
    x = ops.multiply(x, ops.unsqueeze(ops.convert(mask, "f32"), np.int64(-1)), name="features")
    return _finish(ov.Model([x], [ids, mask], "bert"))


def make_difference() -> Any:
    """Return the difference of two inputs."""
    import openvino as ov
    from openvino import opset13 as ops

    a, b = (ops.parameter(SHAPE, np.float32, name=name) for name in "ab")
    return _finish(ov.Model([ops.subtract(a, b, name="difference")], [a, b], "siamese"))


def make_detector() -> Any:
    """Return a detector that finds two boxes in every image."""
    import openvino as ov
    from openvino import opset13 as ops

    data = ops.parameter(SHAPE, np.float32, name="data")
    boxes = np.array([[0, 1, 0.9, 0.1, 0.1, 0.5, 0.5], [0, 2, 0.2, 0, 0, 1, 1]], np.float32)
    mean = ops.reduce_mean(data, np.array([0, 1, 2, 3]), False)
    boxes = ops.add(boxes[None, None], ops.multiply(mean, np.float32(0)), name="detection_out")
    return _finish(ov.Model([boxes], [data], "detector"))


def _finish(model: Any) -> Any:
    for port in (*model.inputs, *model.outputs):
        port.get_tensor().set_names({port.get_node().get_friendly_name() or "output"})
    for output in model.outputs:
        node = output.get_node().input_value(0).get_node()
        output.get_tensor().set_names({node.get_friendly_name()})
    return model


def write_legacy_model(path: Path) -> None:
    """Write a network of IR v7 that doubles its input."""
    port = "<dim>1</dim><dim>3</dim><dim>8</dim><dim>8</dim>"
    path.write_text(
        f"""<?xml version="1.0"?>
<net name="old" version="7">
  <layers>
    <layer id="0" name="data" type="Input" precision="FP32"><output><port id="0">{port}</port></output></layer>
    <layer id="1" name="double" type="Power" precision="FP32">
      <data power="1" scale="2" shift="0"/>
      <input><port id="0">{port}</port></input><output><port id="1">{port}</port></output>
    </layer>
  </layers>
  <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>
</net>
"""
    )
    path.with_suffix(".bin").write_bytes(b"")


def write_images(folder: Path) -> None:
    """Write street.jpg and the folder images."""
    from PIL import Image

    pixels = np.random.default_rng(3).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "street.jpg")
    (folder / "images").mkdir()
    for i in range(2):
        Image.fromarray(np.roll(pixels, i, 0)).save(folder / "images" / f"{i}.jpg")
