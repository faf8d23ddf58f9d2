"""Operands that the compiled kernel of normalizations accepts."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.kernels import NormalizationKernel


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((3, 5, 4), "full"),
        ((4,), "row"),
        ((1, 1, 4), "row"),
        ((1,), "scalar"),
        ((), "scalar"),
        ((5, 4), None),  # ends like a row, but has several
        ((4, 1), None),  # has as many elements as a row
        ((1, 3, 5, 4), None),
    ],
)
def test_operands_of_normalizations(shape, kind):
    attributes = {"eps": 1e-5, "normalize_variance": True, "eps_mode": "inside_sqrt"}
    kernel = NormalizationKernel(3, 1, attributes, (), [])
    if kind is None:
        with pytest.raises(
            NoKernelError, match=r"^expected a scalar, a row, or an operand with the shape of the data$"
        ):
            kernel._classify([np.ones(shape, np.float32)], (3, 5, 4))
    else:
        assert kernel._classify([np.ones(shape, np.float32)], (3, 5, 4)).kinds == (kind,)
    with pytest.raises(NoKernelError):
        kernel._classify([np.ones((4,))], (3, 5, 4))
