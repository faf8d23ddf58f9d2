"""Reductions over axes."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder, Conversion, converts
from irrun.ir.legacy.layer import BOOLEAN, OldLayer, Value

__all__: list[str] = []


def _reduce(builder: Builder, old: OldLayer, type: str, value: Value) -> Value:
    axes = builder.integral(old.input(1))
    keep = old.flag("keep_dims", default=True)
    return builder.op(type, [value, axes], {"keep_dims": keep}, shape=old.out_shape())


def _plain(type: str) -> Conversion:
    def convert(builder: Builder, old: OldLayer) -> Value:
        return _reduce(builder, old, type, old.input(0))

    return convert


def _logical(type: str) -> Conversion:
    def convert(builder: Builder, old: OldLayer) -> Value:
        return _reduce(builder, old, type, builder.convert(old.input(0), BOOLEAN))

    return convert


for _type in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"):
    converts(_type)(_plain(_type))
for _old, _type in (("ReduceAnd", "ReduceLogicalAnd"), ("ReduceOr", "ReduceLogicalOr")):
    converts(_old)(_logical(_type))


@converts("ReduceL1")
def reduce_l1(builder: Builder, old: OldLayer) -> Value:
    axes = builder.integral(old.input(1))
    attributes = {"keep_dims": old.flag("keep_dims", default=True)}
    return builder.op("ReduceL1", [old.input(0), axes], attributes, shape=old.out_shape(), version="opset4")


@converts("ReduceL2")
def reduce_l2(builder: Builder, old: OldLayer) -> Value:
    axes = builder.integral(old.input(1))
    attributes = {"keep_dims": old.flag("keep_dims", default=True)}
    inputs = [builder.floating(old.input(0)), axes]
    return builder.op("ReduceL2", inputs, attributes, shape=old.out_shape(), version="opset4")


@converts("ReduceSumSquare")
def reduce_sum_square(builder: Builder, old: OldLayer) -> Value:
    value = old.input(0)
    return _reduce(builder, old, "ReduceSum", builder.binary("Multiply", value, value))


@converts("ReduceLogSum")
def reduce_log_sum(builder: Builder, old: OldLayer) -> Value:
    return builder.unary("Log", _reduce(builder, old, "ReduceSum", builder.floating(old.input(0))))


@converts("ReduceLogSumExp")
def reduce_log_sum_exp(builder: Builder, old: OldLayer) -> Value:
    value = builder.unary("Exp", builder.floating(old.input(0)))
    return builder.unary("Log", _reduce(builder, old, "ReduceSum", value))
