"""Conformance cases for the quantization operations."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.harness import EXACT

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16
FAKE_QUANTIZE = ("plugin-fake-quantize",)
#: The reference implementation truncates bf16 after each of the four operations instead of rounding.
FAKE_CONVERT = ("plugin-fake-convert",)


@register_cases("FakeQuantize", since=1)
def fake_quantize_1(rng):
    """Compare with the reference implementation.

    The CPU plugin multiplies by reciprocals, so its results may differ by one level. Specialized kernels compute the
    same levels, and multiply them by the width of a level. In both orders a product and a sum are rounded twice,
    relative to at most twice the larger limit of the output.
    """
    for case in generate_fake_quantize_cases(rng):
        if case.tolerance == EXACT:
            largest = max(float(np.abs(limit).max()) for limit in case.inputs[3:])
            case = replace(case, optimized_tolerance=(0, 6 * float(np.finfo(F32).eps) * largest))
        yield case


def generate_fake_quantize_cases(rng):
    """Yield the cases with the tolerance of the plain kernel."""
    table = [  # shapes of the data, the input limits and the output limits
        ((2, 3, 4), (), ()),
        ((2, 3, 4), (1,), (1,)),
        ((2, 3, 4), (1, 1, 1), (1, 1, 1)),
        ((2, 3, 4), (3, 1), (3, 1)),
        ((2, 3, 4), (1, 3, 1), (1, 3, 1)),
        ((2, 3, 4), (4,), (4,)),
        ((2, 3, 4), (2, 3, 4), (2, 3, 4)),
        ((2, 3, 4), (2, 1, 4), (3, 1)),
        ((2, 3, 4), (1, 3, 1), (1,)),
        ((2, 3, 4), (1,), (1, 3, 1)),
        ((1, 3, 4, 4), (1, 3, 1, 1), (1, 3, 1, 1)),
        ((2, 3, 2, 2), (2, 1, 1, 1), (1, 3, 1, 1)),
        ((5,), (1,), (5,)),
        ((2, 3, 2, 2, 2), (1, 3, 1, 1, 1), (1, 1, 1, 1, 1)),
    ]
    for i, (shape, inputs, outputs) in enumerate(table):
        for levels in (2, 16, 255, 256, 65536):
            yield Case(
                sample_fake_quantize_inputs(rng, shape, inputs, outputs),
                {"levels": levels},
                constants=[1, 2, 3, 4] if i % 2 else [],
                faults=FAKE_QUANTIZE,
                tolerance=EXACT,
            )
    data, low, high, out_low, out_high = sample_fake_quantize_inputs(rng, (4, 50), (1,), (1,))
    yield Case(
        [data, high, low, out_low, out_high], {"levels": 16}, faults=FAKE_QUANTIZE, tolerance=EXACT, note="low > high"
    )
    yield Case(
        [data, low, high, out_high, out_low], {"levels": 16}, faults=FAKE_QUANTIZE, tolerance=EXACT, note="descending"
    )
    yield Case(
        [data, low, low, out_low, out_high], {"levels": 16}, faults=FAKE_QUANTIZE, tolerance=EXACT, note="empty range"
    )
    halves = (np.arange(-8, 24) / 2).astype(F32)
    limits = [np.array([x], F32) for x in (0, 15, 0, 15)]
    yield Case([halves, *limits], {"levels": 16}, faults=FAKE_QUANTIZE, tolerance=EXACT, note="ties")
    special = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 3e38, 1e-45], F32)
    yield Case([special, *limits], {"levels": 16}, faults=FAKE_QUANTIZE, tolerance=EXACT, note="infinities and NaN")
    yield Case([halves.astype(F16), *[x.astype(F16) for x in limits]], {"levels": 16}, tolerance=EXACT)
    for broadcast in ("numpy", "none", "pdpd"):
        shape = (2, 3, 4)
        inputs = sample_fake_quantize_inputs(rng, shape, shape, shape)
        yield Case(inputs, {"levels": 256, "auto_broadcast": broadcast}, faults=FAKE_QUANTIZE, tolerance=EXACT)
    for levels in (2, 16, 256):
        data, *limits = sample_fake_quantize_inputs(rng, (1, 3, 5, 5), (1, 3, 1, 1), (1, 3, 1, 1))
        step = np.max((limits[3] - limits[2]) / (levels - 1))
        yield Case(
            [data, *limits],
            {"levels": levels},
            constants=[1, 2, 3, 4],
            tolerance=(1e-5, float(step) * 1.001),
        )
    for dtype in (F16, BF16):
        inputs = [x.astype(dtype) for x in sample_fake_quantize_inputs(rng, (2, 3, 4), (3, 1), (3, 1))]
        yield Case(inputs, {"levels": 16}, faults=FAKE_QUANTIZE, tolerance=EXACT if dtype is F16 else None)


def sample_fake_quantize_inputs(rng, shape, inputs, outputs):
    """Return random inputs of FakeQuantize, with some data outside of the limits."""
    middle, reach = rng.normal(size=inputs), rng.uniform(0.5, 2, inputs)
    out_middle, out_reach = rng.normal(size=outputs), rng.uniform(0.5, 9, outputs)
    arrays = (
        rng.normal(size=shape) * 2,
        middle - reach,
        middle + reach,
        out_middle - out_reach,
        out_middle + out_reach,
    )
    return [np.asarray(x, F32) for x in arrays]


@register_cases("FakeConvert", since=13)
def fake_convert_13(rng):
    every = np.arange(0, 1 << 16, 7, dtype=np.uint16).view(F16)
    for kind in ("f8e4m3", "f8e5m2"):
        attributes = {"destination_type": kind}
        one, none = np.ones(1, F16), np.zeros(1, F16)
        yield Case([every, one, none], attributes, tolerance=EXACT, faults=FAKE_CONVERT, note="all bit patterns of f16")
        yield Case([every, one], attributes, tolerance=EXACT, faults=FAKE_CONVERT)
        with np.errstate(over="ignore", invalid="ignore"):
            every_f32 = every.astype(F32)
        yield Case([every_f32, np.ones((), F32), np.zeros((), F32)], attributes, tolerance=EXACT, faults=FAKE_CONVERT)
        for shape, limits in [
            ((2, 3, 4), (1,)),
            ((2, 3, 4), ()),
            ((2, 3, 4), (1, 3, 1)),
            ((2, 3, 4), (3, 1)),
            ((2, 3, 4), (4,)),
            ((2, 3, 4), (2, 3, 4)),
            ((2, 3, 4, 2), (1, 3, 1, 1)),
            ((2, 3, 4, 2), (2, 1, 1, 1)),
        ]:
            data = (rng.normal(size=shape) * 50).astype(F32)
            scale, shift = rng.uniform(0.1, 4, limits).astype(F32), np.asarray(rng.normal(size=limits), F32)
            scale = np.asarray(scale, F32)
            yield Case([data, scale, shift], attributes, tolerance=EXACT, faults=FAKE_CONVERT)
            yield Case([data, scale], attributes, constants=[1], tolerance=EXACT, faults=FAKE_CONVERT)
        for dtype in (F16, BF16):
            inputs = [(rng.normal(size=(2, 3, 4)) * 50), rng.uniform(0.1, 4, (3, 1)), rng.normal(size=(3, 1))]
            yield Case(
                [x.astype(dtype) for x in inputs],
                attributes,
                faults=FAKE_CONVERT,
                tolerance=EXACT if dtype is F16 else (0.025, 0.025),
                note="the oracle truncates bf16 after each of the four operations instead of rounding",
            )
        scalars = [np.array(x, F16) for x in (-3.3, 0.7, 0.2)]
        yield Case(scalars, attributes, faults=FAKE_CONVERT, tolerance=EXACT, note="scalars")
