"""Matrix products."""

from __future__ import annotations

import math

from irrun.ir.legacy.blobs import add_biases, get_weights
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, LegacyLayer, Value

__all__: list[str] = []


@converts("FullyConnected", "InnerProduct")
def convert_fully_connected(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a MatMul over all axes but the first.

    If both input and output have rank 3, the second axis is kept too.
    """
    value = builder.to_float(layer.get_input())
    shape, out_features = layer.get_input_shape(), layer.get_int("out-size", "out_size")
    if not shape:
        raise layer.make_error("the input is a scalar, expected rank 1 or more")
    keeps_axis = len(shape) == 3 and len(layer.get_output_shape()) == 3
    in_features = shape[-1] if keeps_axis else math.prod(shape[1:])
    if len(shape) != 2 and not keeps_axis:
        pattern = builder.add_constant([0, -1] if in_features else [0, 0], name="shape")
        value = builder.add_op("Reshape", [value, pattern], {"special_zero": True}, shape=(shape[0], in_features))
    weights = get_weights(builder, layer, [out_features, in_features])
    product_shape = (*shape[:2], out_features) if keeps_axis else (shape[0], out_features)
    attributes = {"transpose_a": False, "transpose_b": True}
    value = builder.add_op("MatMul", [value, weights], attributes, shape=product_shape)
    value = add_biases(builder, layer, value, (*[1] * (len(product_shape) - 1), out_features))
    return builder.reshape(value, layer.get_output_shape())


@converts("Gemm")
def convert_gemm(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to operations that compute alpha * A @ B + beta * C."""
    left, right = (builder.to_float(layer.get_input(i)) for i in (0, 1))
    attributes = {"transpose_a": layer.get_bool("transpose_a"), "transpose_b": layer.get_bool("transpose_b")}
    value = builder.add_op("MatMul", [left, right], attributes, shape=layer.get_output_shape())
    alpha, beta = layer.get_float("alpha", default=1.0), layer.get_float("beta", default=1.0)
    if alpha != 1:
        value = builder.add_binary("Multiply", value, builder.add_constant(alpha, F32, "alpha"))
    if len(layer.inputs) > 2:
        addend = builder.to_float(layer.inputs[2])
        if beta != 1:
            addend = builder.add_binary("Multiply", addend, builder.add_constant(beta, F32, "beta"))
        value = builder.add_binary("Add", value, addend)
    return value
