"""Small networks with the structure of well-known ones, built with OpenVINO and random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["make_bert", "make_resnet", "make_swin", "save"]


class Builder:
    """Builds layers with random weights and names."""

    def __init__(self, seed: int = 0) -> None:
        from openvino import opset13

        self.ops = opset13
        self.rng = np.random.default_rng(seed)

    def constant(self, value, name, dtype=np.float32):
        return self.ops.constant(np.asarray(value, dtype), name=name)

    def weights(self, name, *shape, scale=None):
        scale = scale or 1 / np.sqrt(max(np.prod(shape[1:]), 1))
        return self.constant(self.rng.standard_normal(shape) * scale, name)

    def convolution(self, x, name, channels, size, stride=1):
        kernel = self.weights(f"{name}/weights", channels, x.get_output_partial_shape(0)[1].get_length(), size, size)
        pads = [size // 2] * 2
        y = self.ops.convolution(x, kernel, [stride] * 2, pads, pads, [1, 1], name=name)
        bias = self.weights(f"{name}/bias_value", 1, channels, 1, 1, scale=0.1)
        return self.ops.add(y, bias, name=f"{name}/bias")

    def dense(self, x, name, size):
        last = x.get_output_partial_shape(0)[-1].get_length()
        y = self.ops.matmul(x, self.weights(f"{name}/weights", size, last), False, True, name=name)
        return self.ops.add(y, self.weights(f"{name}/bias_value", size, scale=0.1), name=f"{name}/bias")

    def normalize(self, x, name):
        size = x.get_output_partial_shape(0)[-1].get_length()
        y = self.ops.mvn(x, self.constant([-1], f"{name}/axes", np.int64), True, 1e-5, "INSIDE_SQRT", name=name)
        y = self.ops.multiply(
            y, self.constant(1 + 0.1 * self.rng.standard_normal(size), f"{name}/gamma"), name=f"{name}/scale"
        )
        return self.ops.add(
            y, self.constant(0.1 * self.rng.standard_normal(size), f"{name}/beta"), name=f"{name}/shift"
        )

    def reshape(self, x, name, shape):
        return self.ops.reshape(x, self.constant(shape, f"{name}/shape", np.int64), True, name=name)

    def transpose(self, x, name, order):
        return self.ops.transpose(x, self.constant(order, f"{name}/order", np.int64), name=name)

    def attention(self, x, name, heads, mask=None):
        """Return multi-head attention of [batch, tokens, features]."""
        _, tokens, size = (d.get_length() for d in x.get_output_partial_shape(0))
        width = size // heads
        parts = []
        for part in ("query", "key", "value"):
            y = self.dense(x, f"{name}/{part}", size)
            y = self.reshape(y, f"{name}/{part}/split", [0, tokens, heads, width])
            parts.append(self.transpose(y, f"{name}/{part}/heads", [0, 2, 1, 3]))
        scores = self.ops.matmul(parts[0], parts[1], False, True, name=f"{name}/scores")
        scores = self.ops.multiply(scores, self.constant(width**-0.5, f"{name}/factor"), name=f"{name}/scaled")
        if mask is not None:
            scores = self.ops.add(scores, mask, name=f"{name}/masked")
        weights = self.ops.softmax(scores, -1, name=f"{name}/softmax")
        y = self.ops.matmul(weights, parts[2], False, False, name=f"{name}/context")
        y = self.transpose(y, f"{name}/merge", [0, 2, 1, 3])
        y = self.reshape(y, f"{name}/join", [0, tokens, size])
        return self.dense(y, f"{name}/output", size)

    def feed_forward(self, x, name, factor=4):
        size = x.get_output_partial_shape(0)[-1].get_length()
        y = self.dense(x, f"{name}/up", factor * size)
        y = self.ops.gelu(y, "erf", name=f"{name}/gelu")
        return self.dense(y, f"{name}/down", size)

    def finish(self, results, inputs, name):
        import openvino as ov

        nodes = []
        for node in results:
            node.output(0).get_tensor().set_names({node.get_friendly_name()})
            nodes.append(node)
        return ov.Model(nodes, inputs, name)


def make_resnet(blocks=(2, 2), channels=8, size=32, classes=10, seed=0):
    """Return a residual network with bottleneck blocks."""
    from openvino import opset1

    b = Builder(seed)
    image = b.ops.parameter([1, 3, size, size], np.float32, name="image")
    x = b.ops.relu(b.convolution(image, "stem", channels, 3, 2), name="stem/relu")
    x = opset1.max_pool(x, [2, 2], [0, 0], [0, 0], [2, 2], name="stem/pool")
    for stage, count in enumerate(blocks):
        width = channels << stage
        for i in range(count):
            name = f"layer{stage + 1}.{i}"
            stride = 2 if stage and not i else 1
            y = b.ops.relu(b.convolution(x, f"{name}/conv1", width, 1), name=f"{name}/relu1")
            y = b.ops.relu(b.convolution(y, f"{name}/conv2", width, 3, stride), name=f"{name}/relu2")
            y = b.convolution(y, f"{name}/conv3", 4 * width, 1)
            shortcut = x if i else b.convolution(x, f"{name}/downsample", 4 * width, 1, stride)
            x = b.ops.relu(b.ops.add(y, shortcut, name=f"{name}/add"), name=f"{name}/relu3")
    axes = b.constant([2, 3], "pool/axes", np.int64)
    x = b.ops.reduce_mean(x, axes, False, name="pool")
    return b.finish([b.dense(x, "classifier", classes)], [image], "resnet")


def make_bert(layers=2, size=32, heads=4, tokens=12, words=50, seed=1):
    """Return an encoder with token and position embeddings and an attention mask."""
    b = Builder(seed)
    ids = b.ops.parameter([1, tokens], np.int64, name="input_ids")
    mask = b.ops.parameter([1, tokens], np.int64, name="attention_mask")
    zero = b.constant(0, "embeddings/axis", np.int64)
    x = b.ops.gather(b.weights("embeddings/words", words, size, scale=1.0), ids, zero, name="embeddings/gather")
    x = b.ops.add(x, b.weights("embeddings/positions", 1, tokens, size, scale=0.3), name="embeddings/sum")
    x = b.normalize(x, "embeddings/norm")
    bias = b.ops.convert(mask, "f32", name="mask/convert")
    bias = b.ops.subtract(b.constant(1, "mask/one"), bias, name="mask/invert")
    bias = b.ops.multiply(bias, b.constant(-10000, "mask/minimum"), name="mask/bias")
    bias = b.reshape(bias, "mask/shape", [1, 1, 1, tokens])
    for i in range(layers):
        name = f"encoder.{i}"
        y = b.attention(x, f"{name}/attention", heads, bias)
        x = b.normalize(b.ops.add(x, y, name=f"{name}/residual1"), f"{name}/norm1")
        y = b.feed_forward(x, f"{name}/mlp")
        x = b.normalize(b.ops.add(x, y, name=f"{name}/residual2"), f"{name}/norm2")
    first = b.ops.gather(
        x, b.constant(0, "pooler/index", np.int64), b.constant(1, "pooler/axis", np.int64), name="pooler/first"
    )
    pooled = b.ops.tanh(b.dense(first, "pooler/dense", size), name="pooler")
    return b.finish([x, pooled], [ids, mask], "bert")


def make_swin(size=16, features=16, window=4, heads=2, blocks=4, seed=2):
    """Return a transformer with attention in shifted windows."""
    b = Builder(seed)
    image = b.ops.parameter([1, 3, size * 2, size * 2], np.float32, name="pixels")
    x = b.convolution(image, "patches", features, 3, 2)
    x = b.transpose(x, "patches/last", [0, 2, 3, 1])
    count = size // window
    for i in range(blocks):
        name = f"block.{i}"
        y = b.normalize(x, f"{name}/norm1")
        shift = window // 2 if i % 2 else 0
        axes = b.constant([1, 2], f"{name}/roll/axes", np.int64)
        if shift:
            y = b.ops.roll(y, b.constant([-shift, -shift], f"{name}/roll/shift", np.int64), axes, name=f"{name}/roll")
        y = b.reshape(y, f"{name}/split", [1, count, window, count, window, features])
        y = b.transpose(y, f"{name}/windows", [0, 1, 3, 2, 4, 5])
        y = b.reshape(y, f"{name}/tokens", [count * count, window * window, features])
        mask = b.weights(f"{name}/relative_bias", 1, heads, window * window, window * window, scale=0.5)
        y = b.attention(y, f"{name}/attention", heads, mask)
        y = b.reshape(y, f"{name}/unsplit", [1, count, count, window, window, features])
        y = b.transpose(y, f"{name}/unwindow", [0, 1, 3, 2, 4, 5])
        y = b.reshape(y, f"{name}/image", [1, size, size, features])
        if shift:
            back = b.constant([shift, shift], f"{name}/unroll/shift", np.int64)
            y = b.ops.roll(y, back, axes, name=f"{name}/unroll")
        x = b.ops.add(x, y, name=f"{name}/residual1")
        x = b.ops.add(x, b.feed_forward(b.normalize(x, f"{name}/norm2"), f"{name}/mlp", 2), name=f"{name}/residual2")
    x = b.ops.reduce_mean(x, b.constant([1, 2], "pool/axes", np.int64), False, name="pool")
    return b.finish([b.dense(x, "head", 10)], [image], "swin")


def save(model, folder: Path, name: str) -> Path:
    """Save a model of OpenVINO as an IR with f32 weights, and return the path of the .xml."""
    import openvino as ov

    path = folder / f"{name}.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    return path
