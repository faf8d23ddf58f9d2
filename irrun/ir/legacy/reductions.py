"""Reductions over axes."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder, Conversion, converts
from irrun.ir.legacy.layer import BOOLEAN, LegacyLayer, Value

__all__: list[str] = []


def _reduce(builder: Builder, layer: LegacyLayer, type: str, value: Value) -> Value:
    axes = builder.integral(layer.input(1))
    keep = layer.flag("keep_dims", default=True)
    return builder.op(type, [value, axes], {"keep_dims": keep}, shape=layer.out_shape())


def _plain(type: str) -> Conversion:
    def convert(builder: Builder, layer: LegacyLayer) -> Value:
        return _reduce(builder, layer, type, layer.input(0))

    return convert


def _logical(type: str) -> Conversion:
    def convert(builder: Builder, layer: LegacyLayer) -> Value:
        return _reduce(builder, layer, type, builder.convert(layer.input(0), BOOLEAN))

    return convert


for _type in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"):
    converts(_type)(_plain(_type))
for _old, _type in (("ReduceAnd", "ReduceLogicalAnd"), ("ReduceOr", "ReduceLogicalOr")):
    converts(_old)(_logical(_type))


@converts("ReduceL1")
def reduce_l1(builder: Builder, layer: LegacyLayer) -> Value:
    axes = builder.integral(layer.input(1))
    attributes = {"keep_dims": layer.flag("keep_dims", default=True)}
    return builder.op("ReduceL1", [layer.input(0), axes], attributes, shape=layer.out_shape(), version="opset4")


@converts("ReduceL2")
def reduce_l2(builder: Builder, layer: LegacyLayer) -> Value:
    axes = builder.integral(layer.input(1))
    attributes = {"keep_dims": layer.flag("keep_dims", default=True)}
    inputs = [builder.floating(layer.input(0)), axes]
    return builder.op("ReduceL2", inputs, attributes, shape=layer.out_shape(), version="opset4")


@converts("ReduceSumSquare")
def reduce_sum_square(builder: Builder, layer: LegacyLayer) -> Value:
    value = layer.input(0)
    return _reduce(builder, layer, "ReduceSum", builder.binary("Multiply", value, value))


@converts("ReduceLogSum")
def reduce_log_sum(builder: Builder, layer: LegacyLayer) -> Value:
    return builder.unary("Log", _reduce(builder, layer, "ReduceSum", builder.floating(layer.input(0))))


@converts("ReduceLogSumExp")
def reduce_log_sum_exp(builder: Builder, layer: LegacyLayer) -> Value:
    value = builder.unary("Exp", builder.floating(layer.input(0)))
    return builder.unary("Log", _reduce(builder, layer, "ReduceSum", value))
