"""Conformance cases for the normalization operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

F32, F16, F64, BF16 = np.float32, np.float16, np.float64, ml_dtypes.bfloat16
TIGHT = (1e-5, 2e-6)  # sums in a different order, followed by a division
HALF = (3e-3, 3e-3)
#: Tolerances where an oracle computes f16 in f16 or f64 in f32.
LOOSE = {F16: HALF, BF16: (2e-2, 2e-2), F64: TIGHT, F32: TIGHT}


def sample_values(rng, shape, dtype=F32):
    return (rng.normal(size=shape) * 2 + 0.5).astype(dtype)


@register_cases("BatchNormInference", since=1, order=(1, 2, 0, 3, 4))
@register_cases("BatchNormInference", since=5, order=(0, 1, 2, 3, 4))
def generate_batch_norm_cases(rng, order):
    """Yield the cases of batch normalization, with the inputs in `order`."""
    shapes = [(2, 3), (1, 1), (2, 3, 4), (1, 5, 3, 4), (2, 4, 3, 3), (1, 3, 2, 3, 4), (2, 1, 5), (3, 4, 0, 2)]
    for i, shape in enumerate(shapes):
        for epsilon in (1e-3, 0.5):
            yield make_norm_case(rng, order, shape, F32, epsilon, i % 3 == 0)
    for dtype in (F16, BF16, F64):
        yield make_norm_case(rng, order, (2, 3, 4, 2), dtype, 1e-3, False)


def make_norm_case(rng, order, shape, dtype, epsilon, constant):
    channels = shape[1]
    gamma, beta, mean = (sample_values(rng, channels, dtype) for _ in range(3))
    variance = rng.uniform(0.1, 3, channels).astype(dtype)
    inputs = [sample_values(rng, shape, dtype), gamma, beta, mean, variance]
    return Case(
        [inputs[k] for k in order],
        {"epsilon": epsilon},
        constants=[i for i, k in enumerate(order) if k] if constant else [],
        tolerance=LOOSE[dtype],
    )


@register_cases("GRN", since=1)
def grn_1(rng):
    for shape in [(2, 3), (1, 4, 5), (2, 3, 4, 5), (1, 1, 2, 2), (1, 8, 3, 3)]:
        for bias in (1e-6, 0.33, 2.0):
            yield Case([sample_values(rng, shape)], {"bias": bias}, tolerance=TIGHT)
    for dtype in (F16, BF16, F64):
        yield Case([sample_values(rng, (2, 3, 4, 5), dtype)], {"bias": 0.1}, tolerance=LOOSE[dtype])


@register_cases("NormalizeL2", since=1)
def normalize_l2_1(rng):
    table = [
        ((3,), [0]),
        ((2, 3), [1]),
        ((2, 3), [0, 1]),
        ((2, 3, 4), [-1]),
        ((2, 3, 4), [2, 0]),
        ((2, 3, 4), []),
        ((2, 3, 4, 5), [1]),
        ((2, 3, 4, 5), [1, 2, 3]),
        ((2, 3, 4, 5), [-1, -2]),
        ((2, 1, 2, 3, 2), [1, 3]),
    ]
    for i, (shape, axes) in enumerate(table):
        for eps_mode in ("add", "max"):
            for eps in (1e-6, 3.0):
                data = sample_values(rng, shape)
                data[..., 0] = 0
                yield Case(
                    [data, np.array(axes, (np.int64, np.int32)[i % 2])],
                    {"eps": eps, "eps_mode": eps_mode},
                    constants=[1],
                    tolerance=TIGHT,
                )
    yield Case(
        [sample_values(rng, (2, 3)), np.array(1)], {"eps": 0.1, "eps_mode": "add"}, constants=[1], tolerance=TIGHT
    )
    for dtype in (F16, BF16, F64):
        yield Case(
            [sample_values(rng, (2, 3, 4), dtype), np.array([1])],
            {"eps": 1e-3, "eps_mode": "max"},
            constants=[1],
            tolerance=LOOSE[dtype],
        )


@register_cases("LRN", since=1)
def lrn_1(rng):
    table = [
        ((2, 6, 3, 4), [1], 5),
        ((2, 6, 3, 4), [1], 3),
        ((2, 6, 3, 4), [1], 4),
        ((2, 6, 3, 4), [1], 1),
        ((2, 3, 5, 4), [2, 3], 3),
        ((2, 3, 5, 4), [3, 2], 5),
        ((2, 3, 5, 4), [1, 2, 3], 3),
        ((1, 3, 4, 4), [1], 15),
        ((2, 5, 4), [1], 3),
        ((2, 5, 4), [2], 3),
        ((2, 3, 3, 2, 4), [1], 3),
        ((2, 3, 3, 2, 4), [2, 3, 4], 3),
        ((6, 4), [1], 3),
        ((6, 4), [0], 3),
        ((2, 3, 4, 3), [], 3),
    ]
    for i, (shape, axes, size) in enumerate(table):
        for alpha, beta, bias in ((1e-4, 0.75, 1.0), (1.5, 0.5, 2.0)):
            data = sample_values(rng, shape)
            spatial = list(range(2, len(shape)))
            is_right = axes == [1] or (sorted(axes) == spatial and size % 2)
            yield Case(
                [data, np.array(axes, (np.int64, np.int32)[i % 2])],
                {"alpha": alpha, "beta": beta, "bias": bias, "size": size},
                constants=[1],
                expected=[compute_lrn(data, axes, alpha, beta, bias, size)],
                faults=() if is_right else ("plugin-lrn",) if axes else ("plugin-lrn-no-axes",),
                tolerance=TIGHT,
            )
    for dtype in (F16, BF16, F64):
        described = {"alpha": 0.5, "beta": 0.75, "bias": 1.0, "size": 3}
        inputs = [sample_values(rng, (2, 4, 3, 3), dtype), np.array([1])]
        yield Case(inputs, described, constants=[1], tolerance=LOOSE[dtype])


def compute_lrn(data, axes, alpha, beta, bias, size):
    """Compute LRN element by element.

    The CPU plugin only supports windows over the channels or over all spatial axes.
    """
    result = np.empty(data.shape, F64)
    half = (size - 1) // 2
    for place in np.ndindex(*data.shape):
        window = tuple(
            slice(max(0, p - half), p + half + 1) if k in axes else slice(p, p + 1) for k, p in enumerate(place)
        )
        squares = np.square(data[window].astype(F64)).sum()
        result[place] = data[place] / (bias + alpha / size ** len(axes) * squares) ** beta
    return result.astype(data.dtype)


@register_cases("MVN", since=2)
def mvn_2(rng):
    for shape in [(2, 3), (2, 3, 4), (1, 3, 4, 5), (2, 2, 3, 3), (2, 2, 2, 3, 4)]:
        for across in (False, True):
            for variance in (False, True):
                described = {"eps": 1e-3, "across_channels": across, "normalize_variance": variance}
                yield Case([sample_values(rng, shape)], described, tolerance=TIGHT)
    for dtype in (F16, BF16, F64):
        described = {"eps": 1e-5, "across_channels": False, "normalize_variance": True}
        yield Case([sample_values(rng, (2, 3, 4, 5), dtype)], described, tolerance=LOOSE[dtype])
    for axes in ([2, 3], [1, 2, 3]):
        described = {"eps": 1e-9, "normalize_variance": True, "across_channels": False, "reduction_axes": axes}
        yield Case([sample_values(rng, (2, 3, 4, 5))], described, tolerance=TIGHT)


@register_cases("MVN", since=6)
def mvn_6(rng):
    table = [
        ((5,), [0]),
        ((2, 3), [1]),
        ((2, 3), [-1, 0]),
        ((2, 3, 4), [2]),
        ((2, 3, 4), [-1]),
        ((2, 3, 4), [1, 2]),
        ((1, 3, 4, 5), [2, 3]),
        ((2, 3, 4, 5), [1, 2, 3]),
        ((2, 3, 4, 5), [0, 2, 3]),
        ((2, 3, 4, 5), [1]),
        ((2, 2, 3, 2, 3), [2, 3, 4]),
        ((2, 2, 3, 2, 3), [1, 2, 3, 4]),
    ]
    for i, (shape, axes) in enumerate(table):
        for variance, mode in ((True, "inside_sqrt"), (True, "outside_sqrt"), (False, "inside_sqrt")):
            yield Case(
                [sample_values(rng, shape), np.array(axes, (np.int64, np.int32)[i % 2])],
                {"eps": (1e-5, 0.2)[i % 2], "normalize_variance": variance, "eps_mode": mode},
                constants=[1],
                dynamic=[0] if i % 4 == 3 else [],
                faults=("reference-dynamic-output",) if i % 4 == 3 else (),
                tolerance=TIGHT,
            )
    for dtype in (F16, BF16, F64):
        described = {"eps": 1e-5, "normalize_variance": True, "eps_mode": "inside_sqrt"}
        inputs = [sample_values(rng, (2, 3, 4, 5), dtype), np.array([2, 3])]
        yield Case(inputs, described, constants=[1], tolerance=LOOSE[dtype])


@register_cases("GroupNormalization", since=12)
def group_normalization_12(rng):
    table = [
        ((2, 4), 2),
        ((1, 4, 5), 1),
        ((2, 4, 5), 4),
        ((2, 6, 3, 4), 1),
        ((2, 6, 3, 4), 2),
        ((2, 6, 3, 4), 3),
        ((2, 6, 3, 4), 6),
        ((1, 4, 2, 3, 4), 2),
    ]
    for i, (shape, groups) in enumerate(table):
        for epsilon in (1e-5, 0.3):
            yield Case(
                [sample_values(rng, shape), sample_values(rng, shape[1]), sample_values(rng, shape[1])],
                {"num_groups": groups, "epsilon": epsilon},
                constants=[1, 2] if i % 2 else [],
                tolerance=TIGHT,
            )
    for dtype in (F16, F64):
        inputs = [sample_values(rng, shape, dtype) for shape in ((2, 4, 3, 3), 4, 4)]
        yield Case(inputs, {"num_groups": 2, "epsilon": 1e-4}, tolerance=LOOSE[dtype])
