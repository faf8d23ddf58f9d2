"""Numbers as people read them."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.formatting import format_number


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.123456, "0.1235"),
        (-1234.56, "-1235"),
        (12345.6, "1.235e+04"),
        (1e-9, "1e-09"),
        (0.25, "0.25"),
        (65504.0, "65504"),
        (np.float16(65504), "65504"),
        (np.float32(0.1), "0.1"),
        (-0.0, "-0"),
        (999_999.0, "999999"),
        (1_000_000.0, "1e+06"),
        (2**40 + 1, "1099511627777"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_floats_have_four_digits_and_whole_numbers_all(number: float, expected: str) -> None:
    assert format_number(number) == expected
