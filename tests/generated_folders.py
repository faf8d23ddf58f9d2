"""Small models of random weights in folders such as optimum-intel exports."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import irrun.openvino as ov
from irrun.openvino import opset13 as ops

__all__ = ["EXAMPLE", "copy_tokenizer", "make_embedding_folder"]

#: The example, whose tokens are ASCII characters.
EXAMPLE = Path(__file__).parents[1] / "examples" / "text_generation"
HEADS = 4


def copy_tokenizer(folder):
    """Copy the tokenizer and the detokenizer of the example into a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in EXAMPLE.glob("openvino_*tokenizer.*"):
        shutil.copy(path, folder)
    return folder


def make_embedding_folder(folder, words=128):
    """Make a folder with the tokenizer of the example and a model like BERT, and return the folder."""
    ov.save_model(build_bert(words), copy_tokenizer(folder) / "openvino_model.xml", compress_to_fp16=False)
    return folder


class Weights:
    """Random constants."""

    def __init__(self, seed=0):
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape, scale=0.3):
        return ops.constant((self._rng.standard_normal(shape) * scale).astype(np.float32))


def number(value):
    """Return a constant of i64."""
    return ops.constant(np.array(value, np.int64))


def parameter(name, shape, dtype=np.int64):
    """Return a Parameter with a tensor name."""
    node = ops.parameter(shape, dtype, name=name)
    node.output(0).set_names({name})
    return node


def normalize(values):
    """Return a layer normalization."""
    return ops.mvn(values, number([-1]), True, 1e-5, "inside_sqrt")


def multiply(values, weights):
    """Return a matrix product."""
    return ops.matmul(values, weights, False, False)


def split_heads(values, size):
    """Return [batch, tokens, size] as [batch, heads, tokens, size of a head]."""
    split = ops.reshape(values, number([0, 0, HEADS, size // HEADS]), True)
    return ops.transpose(split, number([0, 2, 1, 3]))


def attend(queries, keys, values, size, bias=None):
    """Return an attention of heads, joined."""
    scores = ops.multiply(ops.matmul(queries, keys, False, True), ops.constant(np.float32((size // HEADS) ** -0.5)))
    scores = scores if bias is None else ops.add(scores, bias)
    joined = ops.transpose(multiply(ops.softmax(scores, -1), values), number([0, 2, 1, 3]))
    return ops.reshape(joined, number([0, 0, size]), True)


def build_bert(words, size=32, layers=2, positions=64):
    """Return a model like BERT with the output "last_hidden_state"."""
    weights = Weights()
    ids, mask, kinds = (parameter(n, [-1, -1]) for n in ("input_ids", "attention_mask", "token_type_ids"))
    length = ops.gather(ops.shape_of(ids), number(1), number(0))
    places = ops.range(number(0), length, number(1), output_type="i64")
    embedded = ops.add(ops.gather(weights(words, size), ids, number(0)), ops.gather(weights(2, size), kinds, number(0)))
    state = normalize(ops.add(embedded, ops.gather(weights(positions, size), places, number(0))))
    is_padding = ops.subtract(ops.constant(np.float32(1)), ops.unsqueeze(ops.convert(mask, "f32"), number([1, 2])))
    bias = ops.multiply(is_padding, ops.constant(np.float32(-1e9)))
    for _ in range(layers):
        queries, keys, values = (split_heads(multiply(state, weights(size, size)), size) for _ in range(3))
        state = normalize(ops.add(state, multiply(attend(queries, keys, values, size, bias), weights(size, size))))
        inner = ops.gelu(multiply(state, weights(size, 2 * size)), "erf")
        state = normalize(ops.add(state, multiply(inner, weights(2 * size, size))))
    state.output(0).set_names({"last_hidden_state"})
    return ov.Model([ops.result(state)], [ids, mask, kinds], "bert")
