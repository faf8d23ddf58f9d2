"""Sliding windows and padding, compared with index arithmetic."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops._support.windows import compute_same_padding, create_windows, pad_spatial

Array = np.ndarray[Any, Any]


def read(x: Array, *position: int) -> float:
    """Return an element of a matrix, or -1 outside of it."""
    is_inside = all(0 <= p < n for p, n in zip(position, x.shape, strict=True))
    return float(x[position]) if is_inside else -1.0


def list_padded(x: Array, begin: tuple[int, ...], end: tuple[int, ...]) -> Array:
    """Return a matrix with padding, or without cropped rows and columns."""
    rows, columns = (max(n + b + e, 0) for n, b, e in zip(x.shape, begin, end, strict=True))
    values = [read(x, i - begin[0], j - begin[1]) for i in range(rows) for j in range(columns)]
    return np.array(values).reshape(rows, columns)


@pytest.mark.parametrize("begin", list(itertools.product((-3, -1, 0, 2), repeat=2)))
@pytest.mark.parametrize("end", list(itertools.product((-4, -1, 0, 1, 3), repeat=2)))
def test_padding_and_cropping_may_be_combined(begin: tuple[int, ...], end: tuple[int, ...]) -> None:
    x = np.arange(6.0).reshape(2, 3)
    result = pad_spatial(np.stack([x, x + 10]), begin, end, -1)
    expected = list_padded(x, begin, end)
    assert result.shape == (2, *expected.shape)
    np.testing.assert_array_equal(result[0], expected)
    np.testing.assert_array_equal(result[1], np.where(expected < 0, -1, expected + 10))


def test_unpadded_data_is_not_copied() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert pad_spatial(x, (0, 0), (0, 0)) is x
    assert np.shares_memory(pad_spatial(x, (0, -1), (-1, 0)), x)
    assert pad_spatial(x, (0, 1), (0, 0)).tolist() == [[0, 0, 1, 2], [0, 3, 4, 5]]


def test_view_of_windows_is_read_only() -> None:
    """Windows overlap, so that a change of an element of a window would change others."""
    windows = create_windows((4,), (2,), (1,), (1,), (0,), (0,), "explicit", "floor")
    view = windows.get_view(np.arange(4.0))
    assert view.tolist() == [[0, 1], [1, 2], [2, 3]]
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 7


#: Length, kernel, stride, dilation, padding before and after.
AXES = [
    (n, k, s, d, b, e)
    for n in (1, 5, 6)
    for k, d in ((1, 1), (2, 1), (3, 1), (2, 2), (3, 2))
    for s in (1, 2, 3)
    for b, e in ((0, 0), (1, 2), (2, 1), (-1, 1), (4, 4))
]


@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
def test_number_of_windows_follows_from_their_positions(rounding: Any) -> None:
    for n, k, s, d, b, e in AXES:
        last = n + e - ((k - 1) * d + 1)  # the last position at which a window fits
        if last < -b:
            with pytest.raises(InputError, match=f"a window of {k} elements with dilation {d} does not fit into {n}"):
                create_windows([n], [k], [s], [d], [b], [e], "explicit", rounding)
            continue
        starts = list(range(-b, last + 1, s))
        if rounding != "floor" and starts[-1] < last:
            starts.append(starts[-1] + s)
        if rounding == "ceil_torch" and starts[-1] >= n:
            starts.pop()
        windows = create_windows([n], [k], [s], [d], [b], [e], "explicit", rounding)
        assert windows.output_shape == (len(starts),)


def test_windows_contain_the_elements_at_their_positions() -> None:
    x = np.arange(35.0).reshape(5, 7)
    for kernel, strides, dilations, pads in itertools.product(
        [(2, 3), (3, 1)], [(1, 2), (3, 1)], [(1, 1), (1, 2), (2, 1)], [(0, 0), (1, 2), (3, -1)]
    ):
        windows = create_windows(x.shape, kernel, strides, dilations, pads, pads)
        expected = np.zeros((*windows.output_shape, *kernel))
        for i, j, u, v in np.ndindex(expected.shape):
            row, column = i * strides[0] + u * dilations[0] - pads[0], j * strides[1] + v * dilations[1] - pads[1]
            expected[i, j, u, v] = read(x, row, column)
        padded = windows.pad(x, -1)
        np.testing.assert_array_equal(windows.get_view(padded), expected)
        taps = dict(windows.iterate_taps(padded))
        assert list(taps) == list(np.ndindex(kernel))
        for (u, v), values in taps.items():
            np.testing.assert_array_equal(values, expected[:, :, u, v])
        for start, stop in ((0, 1), (0, len(expected)), (len(expected) - 1, len(expected))):
            part = windows.select_rows(start, stop)
            np.testing.assert_array_equal(part.get_view(part.pad(x, -1)), expected[start:stop])


def test_cropped_kernels_omit_elements_that_are_always_padding() -> None:
    for n, k, s, d, b, e in AXES:
        if n + b + e < (k - 1) * d + 1:
            continue
        windows = create_windows([n], [k], [s], [d], [b], [e])
        (count,) = windows.output_shape
        used = [u for u in range(k) if u * d - b < n and (count - 1) * s + u * d - b >= 0]
        cropped = windows.crop_kernel([n])
        expected = used[-1] - used[0] + 1 if used else 1
        assert cropped.kernel == (expected,)
        if used:
            assert cropped.pads_begin == (b - used[0] * d,)
        x = np.arange(1.0, n + 1)
        sums = (v.get_view(v.pad(x)).sum(axis=-1) for v in (windows, cropped))
        np.testing.assert_array_equal(*sums)


def test_same_padding_makes_room_for_a_window_at_each_stride() -> None:
    for n, k, s, d, *_ in AXES:
        count = -(-n // s)
        total = max((count - 1) * s + (k - 1) * d + 1 - n, 0)
        assert compute_same_padding(n, k, s, d) == (total // 2, (total + 1) // 2)
        for mode, begin in (("same_upper", total // 2), ("same_lower", (total + 1) // 2)):
            windows = create_windows([n], [k], [s], [d], [9], [9], mode)  # type: ignore[arg-type]
            assert (windows.pads_begin, windows.pads_end) == ((begin,), (total - begin,))
            assert windows.output_shape == (count,)


@pytest.mark.parametrize("mode", ["valid", "explicit", "notset"])
def test_attributes_are_optional_and_ignored_by_valid(mode: Any) -> None:
    windows = create_windows([5, 5], [2, 3], [], [], [], [], mode)
    assert (windows.strides, windows.dilations, windows.pads_begin) == ((1, 1), (1, 1), (0, 0))
    assert windows.output_shape == (4, 3)
    padded = create_windows([5, 5], [2, 3], [], [], [1, 1], [2, 2], mode)
    assert padded.output_shape == ((4, 3) if mode == "valid" else (7, 6))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("kernel", [2], r"kernel \[2\] has 1 values, expected one for each of 2 spatial axes"),
        ("kernel", [2, 0], r"kernel \[2, 0\] has a value below 1"),
        ("strides", [0, 1], r"strides \[0, 1\] has a value below 1"),
        ("strides", [1, 1, 1], "strides .* has 3 values"),
        ("dilations", [1, 0], r"dilations \[1, 0\] has a value below 1"),
        ("pads_begin", [1], "pads_begin .* has 1 values"),
        ("pads_end", [1, 1, 1], "pads_end .* has 3 values"),
    ],
)
def test_invalid_attributes_are_refused(name: str, values: list[int], message: str) -> None:
    attributes: dict[str, Any] = {
        "kernel": [1, 1],
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
    }
    assert create_windows([5, 5], **attributes).output_shape == (5, 5)
    with pytest.raises(InputError, match=message):
        create_windows([5, 5], **attributes | {name: values})
