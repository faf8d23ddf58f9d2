"""Which forms of instructions, vectors and tiles compiled kernels use, on this and on other processors."""

from __future__ import annotations

import collections
import ctypes
import os
import re
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fast.harness import find_operation, use_lanes
from irrun.fast.compressed import CompressedWeights
from irrun.fast.errors import NoKernelError
from irrun.fast.interpolate import Interpolation
from irrun.fast.jit import (
    bindings,
    compiler,
    convolution_plan,
    depthwise,
    dot_products,
    host,
    interpolation,
    nests,
    projections,
    quantized_code,
    quantized_convolution,
    quantized_depthwise,
    quantized_kernels,
    tasks,
)
from irrun.fast.jit.bindings import make_layout
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compressed import CompressedKernel, RowProducts
from irrun.fast.jit.compressed_codes import WeightAddresses, supports
from irrun.fast.jit.convolution_plan import Geometry, Plan
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.kernels import ExpressionKernel, SoftmaxKernel
from irrun.fast.jit.reductions import compile_softmax
from irrun.fast.jit.team_code import ACTIVE, make_team_code
from irrun.fast.jit.transposition import is_transposed, make_transposition
from irrun.fast.specialization import CallSite

pytestmark = pytest.mark.usefixtures("own_kernel_cache")

F32 = np.dtype(np.float32)
UNIT, NONE = (1, 1), (0, 0)


# Dot products


@pytest.fixture
def processor(monkeypatch):
    """Return a function that sets the features of the processor, and the forms that LLVM accepts."""

    def describe(lanes, *features, accepts=("_Vnni", "_Neon", "_Pairs")):
        monkeypatch.setattr(dot_products, "get_lanes", lambda: lanes)
        monkeypatch.setattr(dot_products, "has_feature", features.__contains__)
        monkeypatch.setattr(dot_products, "_is_accepted", lambda form: type(form).__name__ in accepts)
        for name in ("_find_vnni", "_find_neon", "_find_pairs"):
            monkeypatch.setattr(dot_products, name, getattr(dot_products, name).__wrapped__)

    with monkeypatch.context():
        yield describe


@pytest.mark.parametrize(
    ("lanes", "features", "accepts", "names"),
    [
        # the form of any weights, and of weights for which pairs may saturate
        (16, ["avx512vnni", "avx512bw"], ["_Vnni", "_Pairs"], ["_Vnni", "_Vnni"]),
        (16, ["avx512bw"], ["_Vnni", "_Pairs"], ["DotProduct", "_Pairs"]),
        (16, ["avx512vnni", "avx512bw"], ["_Pairs"], ["DotProduct", "_Pairs"]),
        (16, ["avxvnni", "avx2"], ["_Vnni", "_Pairs"], ["DotProduct", "DotProduct"]),
        (16, ["avx512bw"], ["_Vnni"], ["DotProduct", "DotProduct"]),
        (8, ["avxvnni", "avx2"], ["_Vnni", "_Pairs"], ["_Vnni", "_Vnni"]),
        (8, ["avx512vnni", "avx2"], ["_Vnni", "_Pairs"], ["DotProduct", "_Pairs"]),
        (8, ["avx512bw"], ["_Vnni", "_Pairs"], ["DotProduct", "DotProduct"]),
        (4, ["avxvnni"], ["_Vnni"], ["DotProduct", "DotProduct"]),
        (4, ["dotprod"], ["_Neon"], ["_Neon", "_Neon"]),
        (4, ["dotprod"], [], ["DotProduct", "DotProduct"]),
        (4, [], ["_Neon", "_Pairs", "_Vnni"], ["DotProduct", "DotProduct"]),
    ],
)
def test_form_of_dot_products_follows_from_the_processor(processor, lanes, features, accepts, names):
    processor(lanes, *features, accepts=accepts)
    forms = [dot_products.get_dot_product(can_saturate=saturates) for saturates in (False, True)]
    assert [type(form).__name__ for form in forms] == names
    with dot_products.use_form("portable"):
        assert dot_products.get_dot_product(can_saturate=True) is dot_products.PORTABLE
    with dot_products.use_form("pairs"):
        assert type(dot_products.get_dot_product(can_saturate=True)).__name__ in ("_Pairs", "DotProduct")
        assert dot_products.get_dot_product(can_saturate=False) is dot_products.PORTABLE
    assert dot_products.get_dot_product(can_saturate=False).name == forms[0].name


# The processor


@pytest.fixture
def binding(tmp_path, monkeypatch):
    """Return the folder of an installed library with a file of code and one of Python."""
    folder = tmp_path / "binding"
    (folder / "folder").mkdir(parents=True)
    (folder / "code.py").write_text("")
    (folder / "library.so").write_text("code")
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    return folder


def test_processor_is_described_by_files_of_the_library(binding, monkeypatch):
    status = os.stat(binding / "library.so")
    assert host._find_library() == [(str(binding / "library.so"), 4, status.st_mtime_ns)]
    monkeypatch.setattr(host, "_read_processor", lambda: ["flags: new"])
    first = host._make_name()
    assert first is not None
    (binding / "library.so").write_text("other code")
    assert host._make_name() not in (None, first)
    (binding / "library.so").unlink()
    assert host._find_library() is None
    assert host._make_name() is None


def test_processors_without_a_description_have_no_name(binding, monkeypatch):
    monkeypatch.setattr(host, "_read_processor", lambda: None)
    assert host._make_name() is None
    monkeypatch.setattr(host, "_read_processor", lambda: ["flags: new"])
    for spec in (None, type("Spec", (), {"origin": None})):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, spec=spec: spec)
        assert host._find_library() is None
        assert host._make_name() is None


def test_functions_of_the_c_library_are_found():
    address = compiler.find_symbol("getpid" if os.name == "posix" else "GetCurrentProcessId")
    assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid()
    assert compiler.find_symbol("no_function_of_this_name") == 0


def test_code_does_not_depend_on_other_files(tmp_path, monkeypatch):
    for name in ("fast/jit/compiler.py", "fast/module.pyc", "fast/text.txt", "fast/__pycache__/compiler.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(compiler, "__file__", str(tmp_path / "fast/jit/compiler.py"))
    describe = compiler._describe_code.__wrapped__
    before = describe()
    for name, is_same in (("text.txt", True), ("__pycache__/compiler.pyc", True), ("module.pyc", False)):
        (tmp_path / "fast" / name).write_text("changed")
        assert (describe() == before) == is_same


def test_kernels_have_no_aliases_where_functions_change(monkeypatch, tmp_path):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    made = []

    def make(value):
        f = Function("nothing", [("x", "ptr")], 4)
        made.append(value)
        return compiler.compile_function(f)

    compiler.cache_kernel(make)(1)
    compiler.cache_kernel(make)(print)
    assert not list(tmp_path.rglob("*.alias"))
    assert made == [1, print]


# Vectors and tiles


@pytest.mark.parametrize(
    ("lanes", "columns", "expected"),
    [(16, 8, 8), (16, 9, 16), (16, 100, 16), (8, 4, 4), (8, 5, 8), (4, 1, 4), (4, 2, 4), (4, 4, 4)],
)
def test_rows_that_fit_into_half_a_vector_have_shorter_vectors(monkeypatch, lanes, columns, expected):
    monkeypatch.setattr(depthwise, "get_lanes", lambda: lanes)
    assert depthwise.choose_lanes(columns) == expected


@pytest.mark.parametrize(
    ("lanes", "kernel", "columns", "has_fast_masks", "has_inner", "is_narrow"),
    [
        (16, 3, 100, True, False, False),
        (16, 3, 16, True, False, True),
        (8, 3, 17, False, True, False),
        (8, 5, 17, False, True, False),
        (8, 6, 17, False, False, False),
        (8, 3, 16, False, False, False),
        (8, 3, 8, False, False, True),
        (4, 3, 9, False, True, False),
        (4, 3, 8, False, False, False),
    ],
)
def test_depthwise_vectors_are_computed_without_masks_where_these_are_slow(
    monkeypatch, lanes, kernel, columns, has_fast_masks, has_inner, is_narrow
):
    monkeypatch.setattr(depthwise, "get_lanes", lambda: lanes)
    monkeypatch.setattr(depthwise, "compile_depthwise", lambda layout, expression: layout)
    geometry = Geometry((9, columns + kernel - 1), (3, kernel), UNIT, UNIT, NONE, NONE)
    layout: Any = depthwise.DepthwiseConvolution(np.ones((2, 3, kernel), F32))._get_kernel(geometry, Expression())
    assert (layout.has_fast_masks, layout.has_inner, layout.is_narrow) == (has_fast_masks, has_inner, is_narrow)


@pytest.mark.parametrize("fill", [0.0, -1.0])
@pytest.mark.parametrize("has_masks", [True, False])
def test_pixels_outside_of_rows_are_replaced_if_they_are_loaded_with_masks_and_not_0(fill, has_masks):
    f = Function("load", [("line", "ptr"), ("column", "i64"), ("width", "i64")], 4)
    p = f.parameters
    loads = depthwise.RowLoads(f, p["column"], p["width"], 3, 1, 1, fill)
    before = f.get_text().count("select <4 x i1>")
    assert len(loads.load(p["line"], has_masks)) == 3
    assert f.get_text().count("select <4 x i1>") - before == (3 if fill and has_masks else 0)
    assert f.get_text().count("call <4 x float> @llvm.masked.load") == (3 if has_masks else 0)


def make_plan(geometry, in_channels, out_channels, images=1):
    return Plan(geometry, in_channels, out_channels, images)


@pytest.mark.parametrize(
    ("lanes", "geometry", "channels", "is_direct", "packs_pixels"),
    [
        # rows of pixels are rows of the result, unless all channels would share the same sets of the cache
        (16, Geometry((20, 20), UNIT, UNIT, UNIT, NONE, NONE), 8, True, False),
        (16, Geometry((128, 128), UNIT, UNIT, UNIT, NONE, NONE), 8, False, False),
        (16, Geometry((128, 128), UNIT, UNIT, UNIT, NONE, NONE), 7, True, False),
        (16, Geometry((128, 256), UNIT, UNIT, UNIT, NONE, NONE), 8, False, False),
        (16, Geometry((128, 129), UNIT, UNIT, UNIT, NONE, NONE), 8, True, False),
        (16, Geometry((20, 20), (1, 3), UNIT, UNIT, NONE, NONE), 8, False, False),
        (16, Geometry((20, 20), (3, 1), UNIT, UNIT, NONE, NONE), 8, True, False),
        (16, Geometry((20, 20), (2, 2), (2, 2), UNIT, NONE, NONE), 8, True, False),
        (16, Geometry((1, 20), (1, 3), UNIT, UNIT, NONE, NONE), 8, True, False),
        (16, Geometry((1, 20), (1, 3), UNIT, UNIT, (1, 1), (1, 1)), 8, False, False),
        (16, Geometry((1, 16386), (1, 3), UNIT, UNIT, NONE, NONE), 8, False, False),
        (8, Geometry((20, 20), UNIT, UNIT, UNIT, NONE, NONE), 8, True, True),
        (8, Geometry((128, 128), UNIT, UNIT, UNIT, NONE, NONE), 8, False, False),
        (8, Geometry((128, 128), UNIT, UNIT, UNIT, NONE, NONE), 3, True, True),
        (8, Geometry((20, 20), UNIT, (2, 2), UNIT, NONE, NONE), 8, True, True),
        (8, Geometry((20, 20), (3, 1), UNIT, UNIT, NONE, NONE), 8, True, False),
    ],
)
def test_tiles_are_completed_at_once_if_their_rows_are_rows_of_the_result(
    monkeypatch, lanes, geometry, channels, is_direct, packs_pixels
):
    monkeypatch.setattr(convolution_plan, "get_lanes", lambda: lanes)
    monkeypatch.setattr("irrun.fast.jit.convolution_tiles.get_lanes", lambda: lanes)
    plan = make_plan(geometry, 4, channels)
    assert (plan.is_direct, plan.packs_pixels) == (is_direct, packs_pixels)


def test_convolutions_of_very_many_or_large_blocks_have_no_plan():
    pointwise = Geometry((4, 4), UNIT, UNIT, UNIT, NONE, NONE)
    assert len(make_plan(pointwise, 1, 8, 16_384).blocks) == 1
    with pytest.raises(NoKernelError, match="the rows are too long, or the blocks are too many"):
        make_plan(pointwise, 1, 8, 16_385)
    # a panel of 64 MiB: rows with as many elements as a window, in all channels
    for columns, is_planned in ((4096, True), (4097, False)):
        geometry = Geometry((4, columns), (4, 1), UNIT, UNIT, NONE, NONE)
        if is_planned:
            assert make_plan(geometry, 1024, 8).panel_size == 1 << 24
        else:
            with pytest.raises(NoKernelError, match="the rows are too long"):
                make_plan(geometry, 1024, 8)


# Compressed weights


def make_weights(shape, dtype, scale=None, zero_point=None, groups=1, nibbles=None):
    codes = np.zeros(shape, dtype)
    return CompressedWeights(codes, zero_point, scale, groups, nibbles)


def spread(*shape, dtype=F32):
    """Return values of which only the rows are apart by an odd number of bytes."""
    return np.lib.stride_tricks.as_strided(np.zeros(1000, dtype), shape, (18, 4))


@pytest.mark.parametrize(
    ("weights", "is_supported"),
    [
        *((make_weights((5, 96), dtype), True) for dtype in (np.int8, np.uint8, ml_dtypes.int4, ml_dtypes.uint4)),
        *((make_weights((5, 96), dtype), False) for dtype in (np.int16, np.float32, ml_dtypes.float8_e4m3fn)),
        (make_weights((5, 90), np.int8), False),
        (make_weights((5, 96), np.int8, groups=2), True),
        (make_weights((5, 96), np.int8, groups=4), False),
        (make_weights((5, 96), np.int8, np.ones((5, 1), F32)), True),
        (make_weights((5, 96), np.int8, np.ones((5, 3), F32), groups=3), True),
        (make_weights((5, 96), np.int8, np.ones((1, 1), F32), groups=3), True),
        (make_weights((5, 96), np.int8, None, np.ones((5, 1), F32)), True),
        (make_weights((5, 96), np.int8, np.ones((5, 1))), False),
        (make_weights((5, 96), np.int8, np.ones((1, 1))), False),
        (make_weights((5, 96), np.int8, None, np.ones((5, 1))), False),
        (make_weights((5, 96), np.int8, np.ones((5, 3), F32)), False),
        (make_weights((5, 96), np.int8, np.ones((5, 1), F32), np.ones((5, 2), F32), groups=2), False),
        (make_weights((5, 96), np.int8, spread(5, 1)), False),
        (make_weights((5, 96), np.int8, spread(1, 1)), True),
        (make_weights((5, 96), np.int8, spread(5, 2), groups=2), True),
    ],
)
def test_weights_of_bytes_and_parameters_of_groups_are_supported(monkeypatch, weights, is_supported):
    monkeypatch.setattr("irrun.fast.jit.compressed_codes.get_lanes", lambda: 16)
    assert supports(weights) == is_supported
    turned = CompressedWeights(weights.codes[:, ::-1], weights.zero_point, weights.scale, weights.groups, None)
    assert not supports(turned)


def test_sums_of_rows_are_computed_where_no_table_contains_the_zero_point(monkeypatch):
    """Tables have 16 elements: the codes of nibbles minus one zero point."""
    scalar, grouped, nibbles = np.ones((1, 1), F32), np.ones((4, 1), F32), np.zeros((4, 64), np.uint8)
    bytes_ = make_weights((4, 128), np.uint8, None, scalar)
    by_tables = make_weights((4, 128), ml_dtypes.uint4, None, scalar, nibbles=nibbles)
    by_groups = make_weights((4, 128), ml_dtypes.uint4, None, np.ones((4, 2), F32), groups=2, nibbles=nibbles)
    without = make_weights((4, 128), np.uint8, grouped)

    def list_sizes(*weights):
        return sorted(RowProducts([WeightAddresses(w) for w in weights]).sums)

    is_wide = compiler.get_lanes() == 16
    assert list_sizes(without) == []
    assert list_sizes(bytes_) == [128]
    assert list_sizes(by_tables) == ([] if is_wide else [128])
    assert list_sizes(by_groups, bytes_, without) == [64, 128]


@pytest.mark.parametrize(
    "data",
    [np.ones((2, 32)), np.ones((2, 31), F32), np.ones((0, 32), F32), np.ones((), F32), np.ones((2, 32), np.int32)],
)
def test_data_of_compressed_products_has_rows_of_f32(data):
    kernel = CompressedKernel(make_weights((4, 32), np.int8))
    assert kernel(np.ones((2, 32), F32)).shape == (2, 4)
    assert kernel(np.ones(32, F32)).shape == (4,)
    with pytest.raises(NoKernelError, match=r"^expected f32 of shape \[\.\.\., K\]$"):
        kernel(data)


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_nibbles_are_decoded_by_narrower_vectors(lanes, dtype):
    """Each weight is multiplied by 1, and all others by 0."""
    nibbles = np.arange(256, dtype=np.uint8).reshape(4, 64)
    codes = np.stack([nibbles & 15, nibbles >> 4], axis=-1).reshape(4, 128).view(dtype)
    unit = np.eye(128, dtype=np.float32)
    with use_lanes(lanes):
        for stored in (nibbles, None):
            weights = CompressedWeights(codes, None, None, 1, stored)
            assert supports(weights)
            kernel = CompressedKernel(weights)
            np.testing.assert_array_equal(kernel(unit).T, weights.decompress())
            np.testing.assert_array_equal(kernel(unit[5]), weights.decompress()[:, 5])


# Interpolation


@pytest.mark.parametrize(
    ("matrix", "taps"),
    [
        ([[1, 0, 0], [0, 0, 1]], 1),
        ([[0.5, 0.5, 0], [0, 0, 1]], 2),
        ([[2, 0, 0], [0, 0, 1]], 2),
        ([[0.5, 0, 0.5], [0.25, 0.75, 0]], 2),
        ([[0.2, 0.3, 0.5], [0, 0, 1]], 0),
        ([[0, 0, 0], [0, 0, 1]], 0),
        ([[np.nan, 0, 0], [0, 0, 1]], 0),
        ([[np.inf, 1, 0], [0, 0, 1]], 0),
    ],
)
def test_results_that_depend_on_at_most_two_elements_have_taps(matrix, taps):
    matrix = np.array(matrix, np.float32)
    found = interpolation._find_taps(matrix)
    if not taps:
        assert found is None
        return
    assert found.indices.shape == found.weights.shape == (taps, 2)
    assert found.is_copy == (taps == 1)
    restored = np.zeros_like(matrix)
    for indices, weights in zip(found.indices, found.weights, strict=True):
        restored[[0, 1], indices] += weights
    np.testing.assert_array_equal(restored, matrix)


def test_only_axes_that_do_not_change_are_identities():
    def find(matrix):
        return interpolation._find_taps(np.array(matrix, np.float32)).is_identity

    assert find(np.eye(3))
    assert not find(np.eye(3)[:2])
    assert not find(np.eye(3)[::-1])
    assert not find(2 * np.eye(3))


def make_interpolation(constants, mode="linear_onnx", calculation="sizes"):
    attributes = {"mode": mode, "shape_calculation_mode": calculation}
    site = CallSite(find_operation("Interpolate-11"), attributes, constants, (False,) * len(constants), 1)
    return interpolation.InterpolateKernel(site)


def test_interpolations_that_are_not_compiled_are_left_to_numpy(monkeypatch):
    kernel = make_interpolation((None, None, None))
    half, identity, three = np.array([[0.5, 0.5]], F32), np.eye(2, dtype=F32), np.array([[0.25, 0.5, 0.25]], F32)
    monkeypatch.setattr(Interpolation, "combine_axes", lambda self, rows, columns: "NumPy")
    for rows, columns in ((half, identity), (identity, half), (half, half)):
        assert kernel.combine_axes(rows, columns).func is interpolation._resize
    for rows, columns in ((identity, identity), (three, half), (half, three)):
        assert kernel.combine_axes(rows, columns) == "NumPy"
    monkeypatch.setattr(interpolation, "MAX_BUFFER_SIZE", 4)
    assert kernel.combine_axes(half, half).func is interpolation._resize
    assert kernel.combine_axes(half, np.array([[0.5, 0.5]] * 2, F32)).func is interpolation._resize
    monkeypatch.setattr(interpolation, "MAX_BUFFER_SIZE", 3)
    assert kernel.combine_axes(half, np.array([[0.5, 0.5]] * 2, F32)) == "NumPy"


SIZES, AXES = np.array([4, 6]), np.array([2, 3])


@pytest.mark.parametrize(
    ("constants", "calculation", "targets"),
    [
        ((None, SIZES, AXES), "sizes", [[4, 6], [2, 3]]),
        ((None, None, AXES), "sizes", [[8, 10], [2, 3]]),
        ((None, None, AXES - 4), "sizes", [[8, 10], [-2, -1]]),
        ((None, np.array([1, 1, 4, 6])), "sizes", [[1, 1, 4, 6], None]),
        ((None, None), "sizes", [[1, 3, 8, 10], None]),
        ((None, SIZES, None), "sizes", None),
        ((None, None, None), "sizes", None),
        ((None, None, AXES), "scales", None),
        ((None, np.array([2.0, 2.0], F32), AXES), "scales", [[2, 2], [2, 3]]),
    ],
)
def test_interpolations_of_declared_shapes_are_compiled(monkeypatch, constants, calculation, targets):
    kernel, calls = make_interpolation(constants, calculation=calculation), []
    monkeypatch.setattr(kernel, "make_resizer", lambda *arguments: calls.append(arguments))
    kernel.compile_resizer((1, 3, 4, 5), (1, 3, 8, 10))
    if targets is None:
        assert calls == []
        return
    ((shape, target, axes),) = calls
    assert shape == (1, 3, 4, 5)
    assert [target.tolist(), axes if axes is None else axes.tolist()] == targets


@pytest.mark.parametrize("lanes", [4, 8])
def test_narrower_vectors_interpolate(lanes):
    data = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype(np.float32)
    for target in ([10, 14], [4, 6], [5, 20], [9, 7]):
        constants = (None, np.array(target), AXES)
        with use_lanes(lanes):
            result = make_interpolation(constants)(data)
        site = CallSite(find_operation("Interpolate-11"), make_interpolation(constants).site.attributes, constants,
                        (False,) * 3, 1)  # fmt: skip
        np.testing.assert_allclose(result, Interpolation(site)(data), rtol=0, atol=1e-5)


# Loops


@pytest.mark.parametrize(
    ("strides", "heights"), [((1, 1), [7, 4, 2, 1]), ((1, 2), [7, 4, 2, 1]), ((2, 1), [4, 2, 1]), ((3, 2), [4, 2, 1])]
)
def test_rows_of_depthwise_convolutions_are_computed_together(monkeypatch, strides, heights):
    """More of them share rows of the data with a stride of 1."""
    monkeypatch.setattr(depthwise, "compile_function", lambda function: function.get_text())
    layout = depthwise._Layout((1, 1), strides, UNIT, 4, False, True, False)
    make: Any = depthwise.compile_depthwise
    text = make.__wrapped__(layout, Expression())
    assert [int(n) for n in re.findall(r"srem i64 %v\d+, (\d+)\n", text)] == heights


def lay_out(shape, dtype=F32, strides=None):
    return nests.StridedLayout(shape, strides or np.empty(shape, dtype).strides, np.dtype(dtype))


VECTOR, SCALAR = True, False


@pytest.mark.parametrize(
    ("dtype", "result", "operand", "expected"),
    [
        # the number of axes, the types, whether values are constant, contiguous or strided, and the form
        (F32, (3, 4), lay_out((3, 4)), (1, ("float",) * 2, (1, 1), VECTOR)),
        (F32, (3, 4), lay_out((3, 4), strides=(32, 4)), (2, ("float",) * 2, (1, 1), VECTOR)),
        (F32, (3, 4), lay_out((4,)), (2, ("float",) * 2, (1, 1), VECTOR)),
        (F32, (3, 4), lay_out((3, 1)), (2, ("float",) * 2, (1, 0), VECTOR)),
        (F32, (3, 4), lay_out((1, 1)), (1, ("float",) * 2, (1, 0), VECTOR)),
        (F32, (3, 4), lay_out((3, 4), strides=(4, 12)), (2, ("float",) * 2, (1, 2), VECTOR)),
        (F32, (3, 4), lay_out((3, 4), strides=(-16, -4)), (1, ("float",) * 2, (1, 2), VECTOR)),
        (np.int32, (3, 4), lay_out((3, 4), np.int32), (1, ("float",) * 2, (1, 1), VECTOR)),
        (np.int64, (3, 4), lay_out((3, 4), np.int64), (1, ("i64",) * 2, (2, 2), SCALAR)),
        (bool, (3, 4), lay_out((4,), bool), (2, ("i8",) * 2, (2, 2), SCALAR)),
    ],
    ids=str,
)
def test_copies_are_vectors_of_f32_or_scalars(monkeypatch, dtype, result, operand, expected):
    made = []

    def record(element, *rest):
        made.append(rest)
        return compiler.Kernel(0, ())

    monkeypatch.setattr(nests, "_compile_nest", record)
    nests.make_nest(nests.Copy(), result, [lay_out(result, dtype)], [operand])
    assert made == [expected]


@pytest.mark.parametrize(("kinds", "gathers"), [((1, 1, 1), 0), ((1, 0, 1), 0), ((1, 2, 1), 1), ((1, 2, 2), 2)])
def test_only_strided_operands_are_gathered(monkeypatch, kinds, gathers):
    monkeypatch.setattr(nests, "compile_function", lambda function: function.get_text())
    make: Any = nests._compile_nest
    text = make.__wrapped__(nests.Copy(), 1, ("float",) * 3, kinds, True)
    # once for whole vectors, and once for the rest
    assert len(re.findall("call <[0-9]+ x float> @llvm.masked.gather", text)) == 2 * gathers


# Instructions


@pytest.mark.parametrize(("type_", "size"), [("float", 4), ("<4 x float>", 4), ("i64", 8), ("<4 x i16>", 2), ("i8", 1)])
def test_elements_are_aligned_unless_stated_otherwise(type_, size):
    f = Function("load", [("p", "ptr")], 4)
    f.load(f.parameters["p"], type_)
    f.load(f.parameters["p"], type_, is_aligned=False)
    assert re.findall(rf"load {re.escape(type_)}, ptr %p, align (\d)", f.get_text()) == [str(size), "1"]


def test_gathered_elements_are_aligned_unless_stated_otherwise():
    f = Function("gather", [("p", "ptr")], 4)
    offsets, mask = Value(f, "<4 x i64>", "zeroinitializer"), Value(f, "<4 x i1>", "zeroinitializer")
    f.gather(f.parameters["p"], offsets, mask)
    f.gather(f.parameters["p"], offsets, mask, is_aligned=False)
    assert re.findall(r"i32 (\d), <4 x i1> zeroinitializer", f.get_text()) == ["4", "1"]


def test_tasks_need_no_memory_of_their_own():
    task = tasks.Task([[tasks.Call(compiler.Kernel(0, ()), ())]])
    assert task.scratch_size == 0
    assert bindings.Binding((3,), [task], (0,)).buffer_size == 0


def test_cache_lines_are_prefetched_into_the_second_level_to_be_read():
    f = Function("prefetch", [("p", "ptr")], 4)
    f.prefetch(f.parameters["p"])
    f.prefetch(f.parameters["p"], level=1, is_written=True)
    # whether it is written, the locality (3 for the first level), and the cache of data
    found = re.findall(r"@llvm\.prefetch\.p0\(ptr %p, i32 (\d), i32 (\d), i32 1\)", f.get_text())
    assert found == [("0", "2"), ("1", "3")]


def test_values_are_converted_to_vectors_of_their_own_type_only():
    f = Function("convert", [("x", "float"), ("n", "i64")], 4)
    x, n = f.parameters["x"], f.parameters["n"]
    assert f.coerce(x, "float") is x
    assert f.coerce(x, "<4 x float>").type == "<4 x float>"
    assert str(f.coerce(2, "<2 x i32>")) == "<i32 2, i32 2>"
    assert str(f.coerce(0.5, "float")) == "0x3FE0000000000000"
    vector = f.coerce(x, f.vector)
    for value, type_ in ((x, "i64"), (n, "float"), (n, "<4 x float>"), (x, "<4 x i64>"), (vector, "float")):
        with pytest.raises(TypeError, match=f"expected {type_}, found {value.type}"):
            f.coerce(value, type_)


def test_intrinsics_are_named_by_the_types_of_their_values():
    f = Function("call", [("x", "float"), ("n", "i64")], 8)
    for value, name in (
        (f.parameters["x"], "f32"),
        (f.parameters["n"], "i64"),
        (f.coerce(0.5, f.vector), "v8f32"),
        (f.coerce(1, f.integers()), "v8i32"),
        (f.coerce(1, f.integers(16)), "v8i16"),
    ):
        assert f.call_math("abs", value).type == value.type
        assert f"{value.type} @llvm.abs.{name}({value.type})" in f.declarations


def test_ranges_of_vectors_have_a_lower_limit_unless_it_is_0():
    for start, has_lower in ((0, False), (-3, False), (1, True), ("n", True)):
        f = Function("mask", [("n", "i64")], 4)
        n = f.parameters["n"]
        mask = f.mask_range(n if start == "n" else start, n)
        assert mask.type == "<4 x i1>"
        assert f.get_text().count("icmp slt <4 x i32>") == 1
        assert f.get_text().count("icmp sge <4 x i32>") == has_lower


# Memory


def test_kernels_without_shared_memory_reserve_none():
    for kernel, shape in ((SoftmaxKernel(2), (3, 4)), (ExpressionKernel(2, (Step("Relu", (0,)),), []), (3, 4))):
        (task,) = kernel.bind([make_layout(shape)]).tasks
        assert kernel.bind([make_layout(shape)]).buffer_size == 0
        assert task.scratch_size == 0
    assert compiler.Kernel(1, ()).entry == 0


def test_matrices_of_few_rows_or_columns_are_not_turned_by_vectors():
    half = compiler.get_lanes() // 2
    for rows, columns, is_turned in ((64, 64, True), (half, 64, True), (half - 1, 64, False), (64, half - 1, False)):
        layout = (rows, columns), (4, 4 * rows)
        assert (make_transposition(*layout, 1) is not None) == is_turned
        assert make_transposition(*layout, 1, is_any_side=True) is not None


def test_only_aligned_f32_is_turned_by_vectors():
    x = np.zeros((256, 256), F32)
    shifted = np.zeros(4 * 256 * 256 + 1, np.uint8)[1:].view(np.float32).reshape(256, 256)
    assert is_transposed(x.T)
    for other in (x, x.astype(np.float64).T, x.view(np.int32).T, shifted.T, x[:8, :8].T):
        assert not is_transposed(other)


@pytest.mark.parametrize("keeps_subnormal", [True, False])
def test_softmax_keeps_subnormal_exponentials_unless_they_are_multiplied(keeps_subnormal):
    data = np.array([0, -80, -87, -88, -95, -100, -103], F32)
    result = np.empty_like(data)
    compile_softmax(keeps_subnormal)(data.ctypes.data, result.ctypes.data, 0, 1, len(data))
    exact = np.exp(data.astype(np.float64))
    tiny = np.finfo(np.float32).tiny
    np.testing.assert_allclose(result[exact >= tiny], exact[exact >= tiny], rtol=1e-5)
    assert (result[exact < tiny] > 0).all() == keeps_subnormal
    if keeps_subnormal:
        np.testing.assert_allclose(result, exact, rtol=1e-5, atol=2.0**-148)
        np.testing.assert_array_equal(SoftmaxKernel(1)(data), result)


# Rows


@pytest.mark.parametrize(
    ("time", "batch", "time_stride", "batch_stride", "groups"),
    [
        # the number of rows, and the first element and the distance of the rows in the data and in the result
        (1, 5, 999, 20, [(5, 0, 20, 0, 1)]),
        (7, 1, 20, 999, [(7, 0, 20, 0, 1)]),
        (7, 3, 60, 20, [(21, 0, 20, 0, 1)]),
        (2, 3, 20, 40, [(2, 0, 20, 0, 3), (2, 40, 20, 1, 3), (2, 80, 20, 2, 3)]),
        (2, 2, 41, 20, [(2, 0, 41, 0, 2), (2, 20, 41, 1, 2)]),
    ],
)
def test_rows_of_inputs_are_read_where_they_are(time, batch, time_stride, batch_stride, groups):
    assert list(projections._list_rows(time, batch, time_stride, batch_stride)) == groups


@pytest.mark.parametrize(("time", "batch", "is_copied"), [(1, 3, False), (2, 1, False), (2, 3, True), (99, 3, False)])
def test_few_time_steps_of_several_sequences_are_copied_to_common_rows(monkeypatch, time, batch, is_copied):
    projection, made = projections.Projection(np.ones((4, 8), F32), None), []
    make = projection._make_task

    def record(*arguments):
        made.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(projection, "_make_task", record)
    x = np.arange(batch * time * 4, dtype=np.float32).reshape(batch, time, 4)
    np.testing.assert_array_equal(projection(x.transpose(1, 0, 2)), x.transpose(1, 0, 2) @ np.ones((4, 8), F32))
    assert made == [(time, batch, *((batch * 4, 4) if is_copied else (4, time * 4)))]


@pytest.mark.parametrize(
    ("lanes", "filter_rows", "heights"),
    [
        # fewest rows that are computed twice; with few registers, fewer rows of large filters
        (16, 5, {1: 1, 2: 2, 7: 4, 14: 5, 20: 5, 28: 4}),
        (8, 3, {1: 1, 2: 2, 7: 4, 14: 5, 20: 5, 28: 4}),
        (8, 4, {1: 1, 2: 2, 7: 2, 14: 2, 20: 2, 28: 2}),
        (4, 5, {1: 1, 14: 2}),
    ],
)
def test_rows_of_codes_are_computed_together(monkeypatch, lanes, filter_rows, heights):
    monkeypatch.setattr(quantized_depthwise, "get_lanes", lambda: lanes)
    assert {rows: quantized_depthwise._choose_height(rows, filter_rows) for rows in heights} == heights


@pytest.mark.parametrize(
    ("stride", "dilation", "tap", "shifts"),
    [(1, 1, 1, (0,)), (2, 1, 0, (0, 8)), (2, 1, 1, (-1, 7)), (2, 1, 2, (0, 8)), (2, 2, 3, (0, 8)), (2, 3, 3, (0, 8))],
)
def test_vectors_of_pixels_contain_odd_and_even_pixels_of_taps(stride, dilation, tap, shifts):
    code = quantized_depthwise._Code.__new__(quantized_depthwise._Code)
    code.layout = quantized_depthwise._Layout((3, 3), (1, stride), (1, dilation), 1, dot_products.PORTABLE)
    code.function = Function("code", [], 8)
    assert code.list_shifts(tap) == shifts


@pytest.mark.parametrize(("vectors", "counts"), [(3, [1, 2, 3]), (2, [1, 2, 3]), (6, [1, 2, 3, 4, 5, 6])])
def test_last_vectors_of_codes_are_read_with_the_mask_of_the_remaining_pixels(monkeypatch, vectors, counts):
    monkeypatch.setattr(quantized_code, "compile_function", lambda function: function.get_text())
    make: Any = quantized_code.compile_products
    text = make.__wrapped__(4, vectors, dot_products.PORTABLE)
    lanes = compiler.get_lanes()
    (rest, _), *_ = collections.Counter(re.findall(r"sub i64 (%v[0-9]+), [0-9]+\n", text)).most_common(1)
    assert re.findall(rf"sub i64 {rest}, ([0-9]+)\n", text) == [str((count - 1) * lanes) for count in counts]


@pytest.mark.parametrize("in_channels", [32, 128])
def test_rows_of_codes_that_sections_share_have_memory_of_their_own(monkeypatch, in_channels):
    monkeypatch.setattr(quantized_convolution, "MIN_PART_WORK", 1 << 14)
    filters = np.ones((1, 64, in_channels, 3, 3), np.int8)
    convolution = quantized_convolution.QuantizedConvolution(filters, np.zeros(64, np.int32))
    geometry = Geometry((9, 14), (3, 3), UNIT, UNIT, UNIT, UNIT)
    tasks, size = convolution.make_tasks(2, geometry, 0, Expression(), False)
    # 11 padded rows of 16 pixels, of groups of four channels, for two images
    pixels = 2 * in_channels // 4 * 11 * 16
    assert len(tasks) == 2
    assert pixels < size <= pixels + 2 * 256


@pytest.mark.parametrize(("kernel", "step"), [(UNIT, 1536), ((3, 3), 3)], ids=["pointwise", "windows"])
def test_blocks_of_pixels_are_multiples_of_tiles(kernel, step, monkeypatch):
    """Blocks of rows of windows are as equal as possible."""
    monkeypatch.setattr(quantized_convolution, "get_lanes", lambda: 16)
    sizes = {"in_quads": 64, "channels": 64, "out_channels": 64, "groups": 1, "is_depthwise": False, "tile": (8, 2)}
    pads = (kernel[0] // 2, kernel[1] // 2)
    geometry = Geometry((300, 301), kernel, UNIT, UNIT, pads, pads)
    blocks = quantized_convolution._Division(types.SimpleNamespace(**sizes), 1, geometry).blocks
    assert {last - first for first, last in blocks[:-1]} == {step}
    assert step == 3 or step % 32 == 0


@pytest.mark.parametrize(("kind", "can_saturate"), [("product", False), ("convolution", True)])
def test_descriptions_name_the_form_that_kernels_use(monkeypatch, kind, can_saturate):
    asked = []

    def record(can_saturate):
        asked.append(can_saturate)
        return dot_products.PORTABLE

    monkeypatch.setattr(quantized_kernels, "get_dot_product", record)
    assert "portable" in quantized_kernels._describe(kind, False)
    assert asked == [can_saturate]


def test_parts_of_jobs_are_numbered_from_0():
    starts = re.findall(r"phi i64 \[ ([^,]+),", make_team_code(compiler.get_triple()))
    assert starts
    assert all(start == "0" or start.startswith("%") for start in starts)


def test_jobs_count_the_helpers_that_read_them():
    """The owner of a job waits until no helper reads it."""
    text = make_team_code(compiler.get_triple())
    places = dict(
        re.findall(r"(%v\d+) = getelementptr inbounds i64, ptr %state, i64 (\d+)", text[text.index("@serve(") :])
    )
    changes = re.findall(r"atomicrmw add ptr (%v\d+), i64 (-?\d+)", text[text.index("@serve(") :])
    assert [(places[pointer], number) for pointer, number in changes if places.get(pointer) == str(ACTIVE)] == [
        (str(ACTIVE), "1"),
        (str(ACTIVE), "-1"),
    ]


@pytest.mark.parametrize("is_valid", [True, False])
def test_modules_are_verified_once(is_valid, monkeypatch):
    """The answer is kept in the cache."""
    compiled = []

    def compile_text(text):
        compiled.append(text)
        if not is_valid:
            raise RuntimeError

    monkeypatch.setattr(compiler._get_compiler(), "compile", compile_text)
    text = f"define void @verified_{is_valid}() {{\n ret void\n}}\n"
    assert [compiler.verify_text(text) for _ in range(2)] == [is_valid] * 2
    assert compiled == [text]
