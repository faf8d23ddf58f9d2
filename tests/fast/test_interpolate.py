"""Resizing by products with banded matrices against the plain kernel."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import check, is_specialized, make_floats
from irrun.fast.interpolate import MAX_LENGTH
from irrun.threads import use_threads


def compare(a, b, inputs):
    """Allow the rounding errors of a few products in another order."""
    np.testing.assert_allclose(
        a, b, rtol=0, atol=4e-6 * max(1, np.abs(inputs[0][np.isfinite(inputs[0])]).max(initial=0))
    )


COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn"]


@pytest.mark.parametrize("mode", ["linear", "linear_onnx", "cubic", "nearest"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_resizing_equals_plain_kernel(mode, coordinates):
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for shape, sizes in (
        ((2, 3, 7, 9), [14, 27]),
        ((2, 3, 7, 9), [7, 5]),
        ((1, 2, 8, 100), [3, 150]),
        ((3, 4, 5), [4, 5]),
    ):
        x = make_floats(shape, 1)
        axes = np.array([-2, len(shape) - 1])
        scales = np.array(sizes, np.float32) / np.array(shape[-2:], np.float32)
        for version, inputs, kind in (
            (11, [x, np.array(sizes), axes], "sizes"),
            (11, [x, scales, axes], "scales"),
            (4, [x, np.array(sizes), scales, axes], "sizes"),
            (4, [x, np.array(sizes), scales, axes], "scales"),
        ):
            name, options = f"Interpolate-{version}", {**attributes, "shape_calculation_mode": kind}
            constants = range(1, len(inputs))
            check(name, inputs, options, constants=constants, compare=compare)
            check(name, inputs, options, compare=compare)
            assert is_specialized(name, inputs, constants, **options)
        all_sizes = np.array([*shape[:-2], *sizes])
        check("Interpolate-11", [x, all_sizes], {**attributes, "shape_calculation_mode": "sizes"}, compare=compare)


def test_special_values_and_other_cases_are_left_to_the_plain_kernel():
    options = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}
    sizes, axes = np.array([6, 6]), np.array([2, 3])
    x = make_floats((1, 2, 4, 4), special=True)
    check("Interpolate-11", [x, sizes, axes], options, compare=compare)
    with np.errstate(over="ignore"):
        rounded = x.astype(np.float16)
    check("Interpolate-11", [rounded, sizes, axes], options)
    check("Interpolate-11", [make_floats((1, 2, 4, 4)), sizes, np.array([1, 3])], options, compare=compare)
    check("Interpolate-11", [make_floats((1, 2, 4, 4)), np.array([0, 6]), axes], options, compare=compare)
    check("Interpolate-11", [make_floats((1, 2, 4, 4)), sizes[:1], axes], options, compare=compare)
    assert not is_specialized("Interpolate-11", [x, sizes, axes], (1, 2), **options, antialias=True)
    x = make_floats((1, 2, 4, 3))
    for other_axes in ([2, 2], [2, -2], [3, 9], [-5, 3]):
        check("Interpolate-11", [x, sizes, np.array(other_axes)], options, compare=compare)
    for large in ([4, MAX_LENGTH + 1], [MAX_LENGTH + 1, 3]):
        check("Interpolate-11", [x, np.array(large), axes], options, compare=compare)


def test_bits_do_not_depend_on_the_number_of_threads():
    from fast.harness import find_operation
    from irrun.fast.specialization import CallSite, specialize

    options = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}
    x = make_floats((1, 40, 60, 60))
    constants = (None, np.array([150, 150]), np.array([2, 3]))
    kernel = specialize(CallSite(find_operation("Interpolate-11"), options, constants, (False,) * 3, 1))
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(kernel(x))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


OPTIONS = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}


@pytest.mark.parametrize(
    ("shape", "sizes", "axes"),
    [
        ((2, 3, 4, 5), [2, 3, 8, 10], None),
        ((2, 3, 4, 5), [2, 3, 4, 5], None),
        ((2, 3, 4, 5), [2, 6, 4, 5], None),
        ((2, 3, 4, 5), [2, 3, 8], None),
        ((2, 3, 4, 5), [3, 8], [1, 2]),
        ((2, 3, 4, 5), [6, 8], [1, 2]),
        ((2, 3, 4, 5), [10, 8], [3, 2]),
        ((2, 3, 4, 5), [10], [-1]),
        ((2, 3, 4, 5), [8], [2]),
        ((2, 3, 4, 5), [3, 4, 200], [1, 2, 3]),
        ((2, 3, 4, 5), [2, 200], [0, 3]),
        ((2, 3, 4, 5), [1, 1], [2, 3]),
        ((1, 4, 5), [8, 10], [1, 2]),
        ((4, 5), [8, 10], [0, 1]),
        ((2, 0, 4, 5), [8, 10], [2, 3]),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["linear_onnx", "nearest"])
def test_axes_may_be_in_any_order(shape, sizes, axes, mode):
    inputs = [make_floats(shape, 1), np.array(sizes)]
    if axes is not None:
        inputs.append(np.array(axes))
    for data in (inputs[0], np.asfortranarray(inputs[0])):
        options = {**OPTIONS, "mode": mode}
        check("Interpolate-11", [data, *inputs[1:]], options, compare=compare, falls_back=True)
        scales = np.array(sizes) / np.array([shape[a] for a in axes or range(len(sizes))])
        if np.isfinite(scales).all():
            options["shape_calculation_mode"] = "scales"
            values = [data, scales.astype(np.float32), *inputs[2:]]
            check("Interpolate-11", values, options, constants=range(1, len(values)), compare=compare, falls_back=True)


def test_sizes_and_axes_of_each_call_are_used():
    x = make_floats((2, 3, 4, 5), 1)
    inputs = [x, np.array([8, 10]), np.array([2, 3])]
    repeat = [[x, np.array([8, 9]), inputs[2]], [x, inputs[1], np.array([3, 2])], [x[:, :, :3], *inputs[1:]]]
    check("Interpolate-11", inputs, OPTIONS, compare=compare, repeat=repeat)


def test_infinite_elements_equal_plain_kernel():
    """Products with weights of 0 would make them NaN."""
    x = make_floats((1, 2, 6, 6), 1)
    x[0, 0, 2, 3] = np.inf
    for mode in ("linear_onnx", "nearest"):
        inputs = [x, np.array([12, 12]), np.array([2, 3])]
        check("Interpolate-11", inputs, {**OPTIONS, "mode": mode}, compare=compare)
