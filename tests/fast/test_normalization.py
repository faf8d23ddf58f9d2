"""Normalizations whose inputs change between calls, and the operations that follow them."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import check, compare_with_exact, find_operation, make_floats
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.errors import NoKernelError
from irrun.fast.normalization import make_normalization_kernel
from irrun.fast.specialization import CallSite, specialize
from irrun.fast.support import TILE

F32 = np.float32
#: NumPy 1 has 32 dimensions.
MAX_NUMPY_RANK = 32 if np.lib.NumpyVersion(np.__version__) < "2.0.0" else 64
ATTRIBUTES = {"normalize_variance": True, "eps": 1e-5, "eps_mode": "inside_sqrt"}


def make_chain():
    """Return the product with another operand."""
    return ElementwiseChain((Step.create("Multiply", Operand("input", 0), Operand("input", 1)),), 2)


def make_site(axes, name="MVN-6", **attributes):
    is_constant = isinstance(axes, np.ndarray)
    values = (None, axes) if is_constant else (None,) * (2 if name == "MVN-6" else 1)
    return CallSite(find_operation(name), {**ATTRIBUTES, **attributes}, values, (False,) * len(values), output_count=1)


@pytest.mark.parametrize(
    "site",
    [
        make_site(None),
        make_site(None, "MVN-2"),
        make_site(np.array([0, 1])),
        make_site(np.array([], np.int64)),
        make_site(np.array([1.0])),
    ],
    ids=["variable axes", "MVN-2", "two axes", "no axes", "floats"],
)
def test_operations_follow_only_one_constant_axis(site):
    assert make_normalization_kernel(site, make_chain()) is None


@pytest.mark.parametrize("mode", ["inside_sqrt", "outside_sqrt"])
@pytest.mark.parametrize("divides", [True, False])
@pytest.mark.parametrize("axis", [-1, 1])
def test_operations_follow_values_of_changing_shapes(axis, mode, divides):
    """Large values whose last axis is normalized are computed by blocks, all others as a whole."""
    site = make_site(np.array([axis]), eps_mode=mode, normalize_variance=divides)
    kernel = make_normalization_kernel(site, make_chain())
    for shape in (
        (300, 400),
        (300, 500),
        (3, 4),
        (300, 400),
        (20, 300, 40),
        (17, 4096),
        (17, 4097),
        (TILE // 256, 256),
    ):
        x, scale = make_floats(shape, 1), make_floats(shape[-1:], 2)
        exact = site.operation.kernel(x.astype(float), np.array([axis]), **site.attributes)
        for data in (x, np.asfortranarray(x)):
            np.testing.assert_allclose(kernel(data, scale), exact * scale, rtol=1e-5, atol=2e-5)


def test_values_of_other_types_are_left_to_the_kernel():
    kernel = make_normalization_kernel(make_site(np.array([-1])), make_chain())
    x = make_floats((300, 400))
    for inputs in ((x.astype(float), x), (x, x.astype(float))):
        with pytest.raises(NoKernelError, match="expected f32"):
            kernel(*inputs)


@pytest.mark.parametrize("name", ["Softmax-8", "LogSoftmax-5"])
@pytest.mark.parametrize("axis", [1, -1, 0, -2])
def test_softmax_of_changing_shapes_is_accurate(name, axis):
    attributes = {"axis": axis}
    compare = compare_with_exact(name, attributes, allowed_error=1e-6)
    shapes = [
        (3, 5),
        (4, 5),
        (3, 7),
        (2, 1024),
        (2, 1023),
        (2, 3, 4),
        (128, 16),
        (3, 5),
        (17, 4096),
        (17, 4097),
        (0, 5),
    ]
    repeat = [[make_floats(shape, 2, 3)] for shape in shapes]
    check(name, [make_floats((3, 5), 1, 3)], attributes, compare=compare, repeat=repeat)
    check(name, [make_floats((5,), 1)], {"axis": axis % 1}, compare=compare_with_exact(name, {"axis": 0}))


@pytest.mark.parametrize("axes", [[1], [-1], [0, 1], [-2]])
def test_mvn_of_changing_shapes_is_accurate(axes):
    compare = compare_with_exact("MVN-6", ATTRIBUTES, allowed_error=1e-6)
    shapes = [(3, 5), (5, 3), (2, 3, 5), (3, 5), (0, 5), (3, 0), (20, 4096), (20, 4097), (256, 256), (257, 256)]
    repeat = [[make_floats(shape, 2), np.array(axes)] for shape in shapes]
    repeat.append([make_floats((3, 5)).astype(np.float16), np.array(axes)])
    check("MVN-6", [make_floats((4, 5)), np.array(axes)], ATTRIBUTES, constants=(1,), compare=compare, repeat=repeat)


@pytest.mark.parametrize("name", ["BatchNormInference-5", "BatchNormInference-1"])
def test_batch_norm_of_changing_ranks_equals_plain_kernel(name):
    values = [make_floats((3,), i) for i in range(3)] + [np.abs(make_floats((3,), 4))]
    position = 0 if name.endswith("5") else 2
    repeat = []
    for shape in ((2, 3, 4), (2, 3), (1, 3, 2, 2), (2, 4)):
        repeat.append([*values[:position], make_floats(shape, 5), *values[position:]])
    constants = [i for i in range(5) if i != position]

    def compare(a, b, _):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    check(name, repeat[0], {"epsilon": 1e-3}, constants=constants, repeat=repeat, compare=compare, falls_back=True)


def test_group_normalization_scales_each_channel():
    attributes, data = {"num_groups": 2, "epsilon": 1e-4}, make_floats((2, 4, 5), 3)
    scale, bias = np.array([1, 2, 3, 4], F32), np.array([5, 6, 7, 8], F32)
    repeat = [[make_floats(shape, 4), scale, bias] for shape in ((3, 4), (1, 4, 2, 3), (2, 4, 5))]
    repeat += [[data.astype(np.float16), scale, bias], [data.transpose(0, 1, 2)[:, ::-1], scale, bias]]
    compare = compare_with_exact("GroupNormalization-12", attributes, allowed_error=2e-6)
    name, inputs = "GroupNormalization-12", [data, scale, bias]
    check(name, inputs, attributes, constants=(1, 2), compare=compare, repeat=repeat, falls_back=True)


@pytest.mark.parametrize(
    ("operation", "shape", "axis", "expected"),
    [
        ("Softmax-8", (3, 100), -1, "rows in one piece, summed up by products"),
        ("LogSoftmax-5", (3, 100), 0, "in one piece"),
        ("Softmax-8", (2, 3, 100), 2, "in one piece"),
        ("Softmax-8", (100, 2, 16), 2, "plain"),
        ("Softmax-8", (100, 2, 17), 2, "blocks of rows, summed up by products"),
        ("LogSoftmax-5", (2, 4096), 1, "blocks of rows, summed up by products"),
        ("Softmax-8", (2, 4097), 1, "blocks"),
        ("Softmax-8", (100, 2, 17), 1, "blocks"),
        ("Softmax-8", (4096,), 0, "blocks"),
        ("Softmax-8", (*[1] * (MAX_NUMPY_RANK - 2), 50, 60), -1, "blocks of rows, summed up by products"),
        ("MVN-6", (2, 3, 4096), -1, "products with ones"),
        ("MVN-6", (2, 3, 4097), -1, "sums along the axes"),
        ("MVN-6", (2, 3, 40), 1, "sums along the axes"),
    ],
)
def test_method_depends_on_the_shape(operation, shape, axis, expected):
    attributes, constants = {"axis": axis}, (None,)
    if operation == "MVN-6":
        attributes, constants = ATTRIBUTES, (None, np.array([axis]))
    absent = (False,) * len(constants)
    site = CallSite(find_operation(operation), attributes, constants, absent, output_count=1, shape=shape)
    kernel = specialize(site)
    assert site.describe().startswith(f"{expected}: ")
    x = make_floats(shape)
    np.testing.assert_allclose(kernel(x), site.call_plain(x), rtol=1e-5, atol=1e-5)


def test_methods_of_invalid_axes_are_not_described():
    site = CallSite(find_operation("Softmax-8"), {"axis": 2}, (None,), (False,), output_count=1, shape=(3, 100))
    assert specialize(site) is not None
    assert (site.describe(), site.refused) == ("compute in place", ())
