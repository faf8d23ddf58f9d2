"""Reductions over axes."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder, Conversion, converts
from irrun.ir.legacy.layer import BOOLEAN, LegacyLayer, Value

__all__: list[str] = []


def _reduce(builder: Builder, layer: LegacyLayer, operation: str, value: Value, version: str = "opset1") -> Value:
    """Apply a reduction over the axes that the second input of the layer holds."""
    axes = builder.to_int(layer.get_input(1))
    attributes = {"keep_dims": layer.get_bool("keep_dims", default=True)}
    return builder.add_op(operation, [value, axes], attributes, shape=layer.get_output_shape(), version=version)


def _define_reduction(operation: str) -> Conversion:
    def convert_reduction(builder: Builder, layer: LegacyLayer) -> Value:
        return _reduce(builder, layer, operation, layer.get_input())

    return convert_reduction


def _define_logical_reduction(operation: str) -> Conversion:
    def convert_logical_reduction(builder: Builder, layer: LegacyLayer) -> Value:
        return _reduce(builder, layer, operation, builder.convert(layer.get_input(), BOOLEAN))

    return convert_logical_reduction


for _operation in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"):
    converts(_operation)(_define_reduction(_operation))
for _type, _operation in (("ReduceAnd", "ReduceLogicalAnd"), ("ReduceOr", "ReduceLogicalOr")):
    converts(_type)(_define_logical_reduction(_operation))


@converts("ReduceL1")
def convert_reduce_l1(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ReduceL1."""
    return _reduce(builder, layer, "ReduceL1", layer.get_input(), "opset4")


@converts("ReduceL2")
def convert_reduce_l2(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ReduceL2."""
    return _reduce(builder, layer, "ReduceL2", builder.to_float(layer.get_input()), "opset4")


@converts("ReduceSumSquare")
def convert_reduce_sum_square(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a ReduceSum of squares."""
    value = layer.get_input()
    return _reduce(builder, layer, "ReduceSum", builder.add_binary("Multiply", value, value))


@converts("ReduceLogSum")
def convert_reduce_log_sum(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ReduceSum and Log."""
    return builder.add_unary("Log", _reduce(builder, layer, "ReduceSum", builder.to_float(layer.get_input())))


@converts("ReduceLogSumExp")
def convert_reduce_log_sum_exp(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Exp, ReduceSum and Log."""
    value = builder.add_unary("Exp", builder.to_float(layer.get_input()))
    return builder.add_unary("Log", _reduce(builder, layer, "ReduceSum", value))
