"""Compiled pooling has the same results as the plain kernel."""

import importlib.util

import numpy as np
import pytest

from irrun.fast.errors import NoKernelError
from irrun.ops.pooling.windows import max_pool_8
from irrun.threads import use_threads

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]


@pytest.mark.parametrize("seed", range(24))
def test_max_pool_equals_the_plain_kernel(seed, monkeypatch):
    from irrun.fast.jit import pooling

    monkeypatch.setattr(pooling, "MIN_PART_WORK", 1 << 8)
    rng = np.random.default_rng(seed)
    kernel, dilations = rng.integers(1, 6, 2), rng.integers(1, 3, 2)
    strides = [int(rng.integers(1, 4)), int(rng.integers(1, 3))]
    pads = [[int(rng.integers(0, k * d)) for k, d in zip(kernel, dilations, strict=True)] for _ in range(2)]
    size = rng.integers(1, 45, 2) + (kernel - 1) * dilations
    data = rng.normal(size=(int(rng.integers(1, 3)), int(rng.integers(1, 9)), *size)).astype(np.float32)
    special = rng.random(data.shape)
    for limit, value in ((0.3, np.nan), (0.05, -np.inf), (0.02, np.inf)):
        data[special < limit] = value
    attributes = {
        "kernel": [*map(int, kernel)],
        "strides": strides,
        "dilations": [*map(int, dilations)],
        "pads_begin": pads[0],
        "pads_end": pads[1],
        "rounding_type": str(rng.choice(["floor", "ceil", "ceil_torch"])),
        "auto_pad": str(rng.choice(["explicit", "same_upper", "valid"])),
    }
    pool = pooling.MaxPoolKernel(attributes)
    pool.prepare([data.shape])
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(pool(data))
    expected = max_pool_8(data, **attributes)[0]
    for result in results:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("shape", "attributes", "reason"),
    [
        ((1, 2, 9), {"kernel": [3], "strides": [1]}, "two spatial axes"),
        ((1, 2, 9, 9), {"kernel": [3, 3], "strides": [1, 3]}, "strides are too large"),
        ((1, 2, 30, 30), {"kernel": [12, 12], "strides": [1, 1]}, "strides are too large"),
        ((0, 2, 9, 9), {"kernel": [3, 3], "strides": [1, 1]}, "two spatial axes"),
    ],
)
def test_other_windows_are_refused(shape, attributes, reason):
    from irrun.fast.jit.pooling import MaxPoolKernel

    pads = [0] * (len(shape) - 2)
    pool = MaxPoolKernel({**attributes, "pads_begin": pads, "pads_end": pads})
    with pytest.raises(NoKernelError, match=reason):
        pool(np.zeros(shape, np.float32))


def test_windows_of_a_limited_number_of_shapes_are_kept():
    from irrun.fast.jit.bindings import make_layout
    from irrun.fast.jit.pooling import MaxPoolKernel

    kernel = MaxPoolKernel({"kernel": [1, 1], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]})
    for count in range(1, 66):
        kernel.bind([make_layout((1, 1, 1, count))])
        assert len(kernel._windows) == len(kernel._tasks) == (count if count <= 64 else 1)
