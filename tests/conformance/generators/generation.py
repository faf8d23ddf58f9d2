"""Configurations for the operations that make tensors."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from conformance.harness import Case, configurations

BF16 = ml_dtypes.bfloat16


@configurations("Range", since=1)
def range_1(rng):
    # The CPU plugin adds the step up instead of multiplying it; the reference decides for fractions.
    for start, stop, step, dtype in [
        (0, 10, 1, np.int32),
        (3, -4, -2, np.int64),
        (5, 5, 1, np.int32),
        (-100, 100, 27, np.int8),
        (1, 0, 1, np.int64),
        (0, 200, 77, np.uint8),
        (10, 50, 13, np.uint16),
        (-30000, 30000, 12345, np.int16),
        (0, 7, 2, np.uint32),
        (2**40, 2**40 + 9, 4, np.uint64),
        (0, 1, 0.1, np.float32),
        (1.5, -2, -0.3, np.float32),
        (0, 1, 0.1, np.float64),
    ]:
        inputs = [np.array(v, dtype) for v in (start, stop, step)]
        yield Case(inputs, tolerance=(0, 0), oracles=("evaluate",))
    for start, stop, step in [(0, 7, 1), (9, 0, -3), (0, 1, 0.25), (2, 2, 1)]:
        inputs = [np.array(v, np.float32) for v in (start, stop, step)]
        yield Case(inputs, tolerance=(0, 0))
        yield Case(inputs, constants=(0, 1, 2), tolerance=(0, 0))
    # Model.evaluate declines f16 and bf16 here, though the CPU plugin computes them in f32.
    yield Case([np.array(v, np.float16) for v in (0, 5, 0.5)])
    yield Case([np.array(v, np.int32) for v in (1, 9, 3)], dynamic=())


@configurations("Range", since=4)
def range_4(rng):
    def case(start, stop, step, dtype, output_type, **more):
        inputs = [np.array(v, dtype) for v in (start, stop, step)]
        return Case(inputs, {"output_type": output_type}, tolerance=(0, 0), **more)

    for out in ("i32", "i64", "f32"):
        yield case(0, 10, 1, np.int32, out)
        yield case(7, -7, -3, np.int64, out)
        yield case(3, 3, 1, np.int32, out)
        yield case(2, 9, 2, np.float32, out, constants=(0, 1, 2))
    for out in ("i8", "i16", "u8", "u16", "u32", "u64", "f64", "f16", "bf16", "i32", "i64", "f32"):
        yield case(1, 30, 7, np.int32, out, oracles=("evaluate",), note="every output type")
        yield case(1.25, 40, 7.75, np.float32, out, oracles=("evaluate",), note="fractions are cut off")
    # The CPU plugin rounds the inputs where the specification cuts fractions off, and adds steps up.
    for arguments in [
        (1.7, 9.9, 1.5, np.float32, "i32"),
        (10.9, 1.2, -1.5, np.float32, "i64"),
        (-3.5, 3.9, 1.2, np.float32, "u8"),
        (5, 1, -1, np.int32, "u8"),
        (250, 300, 20, np.int32, "u8"),
        (300, 303, 1, np.int64, "i8"),
        (-5, -1, 1, np.float32, "u64"),
        (0.3, 50, 0.37, np.float16, "f16"),
        (0, 1, 0.1, np.float32, "f64"),
        (0, 1, 0.1, np.float64, "f32"),
        (0, 1, 0.1, np.float64, "f16"),
        (2**24, 2**24 + 9, 1, np.int32, "f32"),
        (300, 290, -1, np.int32, "f16"),
        (2040, 2060, 1, np.int32, "f16"),
        (1, 0, 1, np.float32, "f32"),
    ]:
        yield case(*arguments, oracles=("evaluate",))
    # The reference's own conversion to bf16 drops half of the fractions it should round up.
    yield case(0.3, 50, 0.37, BF16, "bf16", oracles=("cpu",))
    mixed = [np.array(1, np.int32), np.array(9.5, np.float32), np.array(2, np.int64)]
    for out in ("f32", "i64"):
        yield Case(mixed, {"output_type": out}, oracles=("evaluate",), tolerance=(0, 0), note="mixed types")


@configurations("Eye", since=9)
def eye_9(rng):
    for out in ("i8", "i32", "i64", "u8", "f32"):
        for rows, columns, diagonal in [(3, 4, 0), (4, 3, 2), (3, 5, -1)]:
            inputs = [np.array(v, np.int32) for v in (rows, columns, diagonal)]
            yield Case(inputs, {"output_type": out})
    # f16, bf16 and f64: the plugins turn them into f32; the reference keeps them.
    for out in ("f16", "bf16", "f64"):
        yield Case([np.array(v, np.int64) for v in (3, 3, 1)], {"output_type": out}, oracles=("evaluate",))
    for rows, columns, diagonal, batch in [
        (3, 3, 0, [2]),
        (2, 4, 1, [2, 3]),
        (4, 2, -2, [1, 2, 1]),
        (3, 3, 7, [2]),
        (3, 3, -7, [2]),
        (3, 4, 0, [0]),
        (0, 4, 0, [2]),
        (3, 0, 0, []),
        (2, 2, 0, []),
    ]:
        inputs = [np.array([v], np.int64) for v in (rows, columns, diagonal)] + [np.array(batch, np.int64)]
        # The CPU plugin leaves the ones out where batch_shape is an empty run-time list.
        oracles = ("evaluate", "cpu") if batch else ("evaluate",)
        yield Case(inputs, {"output_type": "f32"}, oracles=oracles)
        yield Case(inputs, {"output_type": "i32"}, constants=(0, 1, 2, 3))
