"""Small language models of random weights, with the caches that exporters write."""

from __future__ import annotations

import numpy as np
from generated_folders import Weights, multiply, normalize, number, parameter

import irrun.openvino as ov
from irrun.openvino import opset13 as ops

__all__ = ["CACHES", "build_decoder"]

#: Where keys and values are kept: in variables, with the input beam_idx or not, in inputs and outputs, or nowhere.
CACHES = ("variables", "variables without beam_idx", "inputs", "none")
LENGTH = 4096


def build_decoder(
    words=128, *, layers=1, heads=4, groups=4, size=32, cache="variables", inputs=("position_ids",), seed=0, fused=False
):
    """Return a language model.

    Args:
        words: Size of the vocabulary.
        layers: Number of layers.
        heads: Number of heads of queries.
        groups: Number of heads of keys and values.
        size: Number of features of a token.
        cache: One of CACHES, or "inputs of f16".
        inputs: Which of position_ids and token_type_ids it has, besides input_ids and attention_mask.
        seed: Seed of the weights.
        fused: Whether attention is one operation.
    """
    weights = Weights(seed)
    head = size // heads
    names = ["input_ids", "attention_mask", *inputs]
    parameters = {name: parameter(name, [-1, -1]) for name in names}
    if cache == "variables":
        parameters["beam_idx"] = parameter("beam_idx", [-1], np.int32)
    ids = parameters["input_ids"]
    batch = ops.gather(ops.shape_of(ids), number([0]), number(0))
    count, total = (ops.gather(ops.shape_of(parameters[n]), number(1), number(0)) for n in names[:2])
    keys_at = ops.range(number(0), total, number(1), output_type="i64")
    queries_at = ops.range(ops.subtract(total, count), total, number(1), output_type="i64")
    places = parameters.get("position_ids", queries_at)
    state = ops.add(
        ops.gather(weights(words, size), ids, number(0)), ops.gather(weights(LENGTH, size), places, number(0))
    )
    if "token_type_ids" in parameters:
        state = ops.add(state, ops.gather(weights(2, size), parameters["token_type_ids"], number(0)))
    is_seen = ops.less_equal(ops.unsqueeze(keys_at, number(0)), ops.unsqueeze(queries_at, number(1)))
    is_token = ops.greater(ops.unsqueeze(parameters["attention_mask"], number([1, 2])), number(0))
    is_seen = ops.logical_and(is_token, ops.unsqueeze(is_seen, number([0, 1])))
    bias = ops.select(is_seen, ops.constant(np.float32(0)), ops.constant(np.float32(-1e9)))
    results, sinks = [], []

    def split(values, number_of_heads):
        shaped = ops.reshape(values, number([0, 0, number_of_heads, head]), True)
        return ops.transpose(shaped, number([0, 2, 1, 3]))

    def keep(values, name):
        past = None
        if cache.startswith("variables"):
            shape = ops.concat([batch, number([groups, 0, head])], 0)
            past = variable = ops.read_value(
                ops.broadcast(ops.constant(np.float32(0)), shape), name, "f32", ov.PartialShape([-1, groups, -1, head])
            )
            if "beam_idx" in parameters:
                past = ops.gather(variable, parameters["beam_idx"], number(0))
        elif cache == "inputs":
            past = parameters[name] = parameter(name, [-1, groups, -1, head], np.float32)
        elif cache == "inputs of f16":
            parameters[name] = parameter(name, [-1, groups, -1, head], np.float16)
            past = ops.convert(parameters[name], "f32")
        values = values if past is None else ops.concat([past, values], 2)
        if cache.startswith("variables"):
            sinks.append(ops.assign(values, name))
        elif cache.startswith("inputs"):
            present = values if cache == "inputs" else ops.convert(values, "f16")
            present.output(0).set_names({name.replace("past_key_values", "present")})
            results.append(ops.result(present))
        if groups == heads:
            return values
        shape = ops.concat([batch, number([groups, heads // groups]), total_as_list, number([head])], 0)
        repeated = ops.broadcast(ops.unsqueeze(values, number(2)), shape)
        return ops.reshape(repeated, number([0, heads, -1, head]), True)

    total_as_list = ops.unsqueeze(total, number(0))
    for layer in range(layers):
        inner = normalize(state)
        queries = split(multiply(inner, weights(size, size)), heads)
        keys, values = (
            keep(split(multiply(inner, weights(size, groups * head)), groups), f"past_key_values.{layer}.{kind}")
            for kind in ("key", "value")
        )
        if fused:
            attended = ops.scaled_dot_product_attention(queries, keys, values, bias)
        else:
            scores = ops.multiply(ops.matmul(queries, keys, False, True), ops.constant(np.float32(head**-0.5)))
            attended = multiply(ops.softmax(ops.add(scores, bias), -1), values)
        joined = ops.reshape(ops.transpose(attended, number([0, 2, 1, 3])), number([0, 0, size]), True)
        state = ops.add(state, multiply(joined, weights(size, size)))
        inner = ops.swish(multiply(normalize(state), weights(size, 2 * size)))
        state = ops.add(state, multiply(inner, weights(2 * size, size)))
    logits = multiply(normalize(state), weights(size, words))
    logits.output(0).set_names({"logits"})
    return ov.Model([ops.result(logits), *results], sinks, list(parameters.values()), "decoder")
