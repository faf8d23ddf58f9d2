"""Compiled forms of specialized kernels agree with the plain kernels."""

import importlib.util
import math

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from fast.harness import run_with_threads
from irrun.fast.errors import NoKernelError
from irrun.fast.specialization import CallSite
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.registry import find
from irrun.runtime.plan import list_plan

ov = import_builder()
o = import_builder("openvino.opset13")

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

EPSILON = np.finfo(np.float32).eps
AXES = np.array([-2, -1])


def make_kernel(name, version, attributes, constants, shapes):
    """Return the compiled kernel of a call site, and the plain one."""
    from irrun.fast.jit.sites import create_kernel

    load_kernels(name)
    operation = find(name, version)
    site = CallSite(operation, attributes, tuple(constants), (False,) * len(constants), 1)
    return create_kernel(site, shapes), operation.kernel


def make_interpolation(mode, coordinates, shape, sizes):
    attributes = {
        "mode": mode,
        "shape_calculation_mode": "sizes",
        "coordinate_transformation_mode": coordinates,
    }
    shapes = [shape, (2,), (2,), (*shape[:-2], *sizes)]
    kernel, plain = make_kernel("Interpolate", "opset11", attributes, (None, np.array(sizes), AXES), shapes)
    return kernel, lambda data: plain(data, np.array(sizes), AXES, **attributes)


@pytest.mark.parametrize("mode", ["linear", "linear_onnx", "nearest"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
def test_interpolation_agrees_with_the_plain_kernel(mode, coordinates, monkeypatch):
    from irrun.fast.jit import interpolation

    monkeypatch.setattr(interpolation, "MIN_PART_SIZE", 1 << 8)
    resize = interpolation._resize
    calls = []

    def count_calls(*arguments):
        calls.append(0)
        return resize(*arguments)

    monkeypatch.setattr(interpolation, "_resize", count_calls)
    cases = [
        ((2, 3, 7, 9), (14, 27)),
        ((1, 5, 8, 16), (64, 128)),
        ((2, 3, 21, 35), (40, 20)),  # columns are gathered
        ((1, 2, 5, 40), (9, 40)),
        ((3, 9, 33), (9, 50)),
        ((3, 1, 1), (5, 17)),
    ]
    for shape, sizes in cases:
        kernel, plain = make_interpolation(mode, coordinates, shape, sizes)
        data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        result = run_with_threads(lambda kernel=kernel, data=data: kernel(data))
        np.testing.assert_allclose(result, plain(data), rtol=0, atol=16 * EPSILON * np.abs(data).max())
        if mode == "nearest":
            np.testing.assert_array_equal(result, plain(data))
    assert len(calls) >= 3 * 4


def test_interpolation_of_special_values_and_views_agrees_with_the_plain_kernel():
    kernel, plain = make_interpolation("linear_onnx", "half_pixel", (1, 4, 6, 6), (12, 11))
    data = np.random.default_rng(0).normal(size=(1, 4, 6, 6)).astype(np.float32)
    data[0, 0, 2, 2], data[0, 1, 0, 0], data[0, 3, 5, 5] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(kernel(data), plain(data), rtol=0, atol=1e-5)
    view = np.ascontiguousarray(data.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)[:, 2:3]
    np.testing.assert_allclose(kernel(view), plain(view), rtol=0, atol=1e-5)
    long = data.astype(np.float64)
    np.testing.assert_array_equal(kernel(long), plain(long))


def test_other_interpolations_are_left_to_the_specialized_kernel():
    with pytest.raises(NoKernelError, match="not linear or nearest interpolation"):
        make_interpolation("cubic", "half_pixel", (1, 4, 6, 6), (12, 11))
    kernel, plain = make_interpolation("linear", "half_pixel", (1, 2, 40, 40), (10, 9))  # of more than two elements
    data = np.random.default_rng(0).normal(size=(1, 2, 40, 40)).astype(np.float32)
    np.testing.assert_allclose(kernel(data), plain(data), rtol=0, atol=1e-5)


def test_concatenation_of_transposed_inputs_is_exact():
    rng = np.random.default_rng(0)
    data = rng.integers(0, 1 << 32, size=(4, 1, 60, 70, 64), dtype=np.uint32).view(np.float32)
    straight = [x.reshape(1, 64, 60, 70) for x in data]
    turned = [x.transpose(0, 3, 1, 2) for x in data]
    constant = np.ascontiguousarray(turned[3])
    for arrays in (straight, turned, [straight[0], turned[1], straight[2]], [turned[0], constant, turned[1]]):
        constants = [x if x is constant else None for x in arrays]
        kernel, plain = make_kernel("Concat", "opset1", {"axis": 1}, constants, [x.shape for x in arrays] + [None])
        expected = plain(*arrays, axis=1)
        variables = [x for x in arrays if x is not constant]
        result = run_with_threads(lambda kernel=kernel, variables=variables: kernel(*variables).view(np.uint32))
        np.testing.assert_array_equal(result, expected.view(np.uint32))
        sections = [x[:, 1:] for x in variables]  # matrices that are not transposed as a whole, or at other places
        np.testing.assert_array_equal(
            kernel(*sections).view(np.uint32),
            plain(*(x if x is constant else x[:, 1:] for x in arrays), axis=1).view(np.uint32),
        )


def test_concatenation_refuses_other_types_and_shapes():
    shapes = [(1, 64, 60, 70)] * 2 + [None]
    kernel, _ = make_kernel("Concat", "opset1", {"axis": 1}, (None, None), shapes)
    data = np.zeros((1, 60, 70, 64), np.float32).transpose(0, 3, 1, 2)
    for other in (data.astype(np.float64), data[..., 1:], data[0]):
        with pytest.raises(NoKernelError, match=r"expected inputs of one type|do not match"):
            kernel(data, other)


def test_concatenation_of_values_in_f16_stays_in_f16():
    kernel, _ = make_kernel("Concat", "opset1", {"axis": 1}, (None, None), [(1, 64, 60, 70)] * 2 + [None])
    data = np.random.default_rng(0).normal(size=(1, 60, 70, 64)).astype(np.float16).transpose(0, 3, 1, 2)
    result = kernel(data, data)
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, np.concatenate([data, data], 1))


@pytest.mark.parametrize("axes", [[2, 3], [-1], [-1, 0, 2, 1]])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_means_agree_with_the_plain_kernel(axes, keep_dims):
    for shape in ((2, 70, 7, 7), (1, 9, 57, 33), (40, 3, 20, 1)):
        constants = (None, np.array(axes))
        shapes = [shape, (len(axes),), None]
        kernel, plain = make_kernel("ReduceMean", "opset1", {"keep_dims": keep_dims}, constants, shapes)
        data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        result = run_with_threads(lambda kernel=kernel, data=data: kernel(data))
        expected = plain(data.astype(np.float64), np.array(axes), keep_dims=keep_dims)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=0, atol=math.prod(shape) * EPSILON)
        view = data.transpose(0, 1, 3, 2)[:, ::2]
        expected = plain(view.astype(np.float64), np.array(axes), keep_dims=keep_dims)
        np.testing.assert_allclose(kernel(view), expected, rtol=0, atol=math.prod(shape) * EPSILON)
        with pytest.raises(NoKernelError, match="declared rank"):
            kernel(data[0])


@pytest.mark.parametrize(
    ("axes", "shape", "reason"),
    [
        ([1], (2, 40, 60), "not along the last axes"),
        ([2], (2, 4, 6), "NumPy is as fast for fewer than 2,048 elements"),
        ([], (2, 40, 60), "not a value of known rank with constant axes"),
        ([5], (2, 40, 60), "not along the last axes"),
    ],
)
def test_other_means_are_left_to_the_specialized_kernel(axes, shape, reason):
    shapes = [shape, (len(axes),), None]
    with pytest.raises(NoKernelError, match=reason):
        make_kernel("ReduceMean", "opset1", {}, (None, np.array(axes, np.int64)), shapes)


@pytest.mark.parametrize(("shape", "groups"), [((2, 64, 700), 64), ((3, 12, 9, 11), 4), ((1, 6, 5), 1), ((2, 4), 2)])
def test_group_normalization_agrees_with_the_plain_kernel(shape, groups):
    rng = np.random.default_rng(0)
    scale, bias = (rng.normal(size=shape[1]).astype(np.float32) for _ in range(2))
    attributes = {"num_groups": groups, "epsilon": 1e-5}
    shapes = [shape, scale.shape, bias.shape, shape]
    kernel, plain = make_kernel("GroupNormalization", "opset12", attributes, (None, scale, bias), shapes)
    data = (rng.normal(size=shape) + 3).astype(np.float32)
    for x in (data, np.asfortranarray(data)):
        result = run_with_threads(lambda x=x: kernel(x))
        exact = plain(*(v.astype(np.float64) for v in (x, scale, bias)), **attributes)
        np.testing.assert_allclose(result, exact, rtol=0, atol=math.prod(shape[1:]) / groups * 8 * EPSILON)
    with pytest.raises(NoKernelError, match="declared rank"):
        kernel(data.astype(np.float64))


def test_reasons_of_refused_sites_are_shown(tmp_path, monkeypatch):
    from irrun.fast.jit import sites

    def refuse(site, shapes):
        raise NoKernelError("no kernel for this shape")

    monkeypatch.setitem(sites.SITES, "ReduceMean", refuse)
    x = o.parameter([64, 128], np.float32)
    mean = o.reduce_mean(x, o.constant(np.array([1])), True)
    ov.serialize(ov.Model([o.result(mean)], [x], "model"), tmp_path / "model.xml")
    (entry,) = list_plan(irrun.compile_model(tmp_path / "model.xml", jit=True)._fast_program)
    assert "compile: no kernel for this shape" in entry.refused
