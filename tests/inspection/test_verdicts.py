"""Verdicts, and the rounding errors that they are based on."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from irrun.element_types import ElementType
from irrun.inspection.comparison import OutputComparison
from irrun.inspection.ignored import find_unspecified
from irrun.inspection.metrics import INCOMPARABLE, Metrics
from irrun.inspection.rounding import (
    EXACT,
    Rounding,
    RoundingEstimator,
    get_basic_rounding,
    get_epsilon,
    is_float_array,
)
from irrun.inspection.verdicts import (
    LayerErrors,
    choose_verdict,
    exceeds_level,
    get_ordinary_sqnr,
    get_output_sqnr,
    is_near_zero,
    is_one_level,
)
from irrun.inspection.widen import widen_attributes
from irrun.ir.graph import Layer, Port

INF, NAN = math.inf, math.nan
LAYER = Layer(1, "layer", "Add", "opset1")
EQUAL = Metrics()
WITHIN = Metrics(max_abs=1e-6, sqnr_db=100.0, differing=1, count=4)
OVER = Metrics(max_abs=1.0, sqnr_db=20.0, over_tolerance=0.5, differing=2, count=4)
OVERFLOW = Metrics(max_abs=INF, sqnr_db=-INF, over_tolerance=0.5, differing=2, count=4)
FROM_ZERO = Metrics(max_abs=1.0, sqnr_db=-INF, over_tolerance=0.5, differing=2, count=4)
FAR = {"is_near_zero": False, "is_one_level": False}


def make_errors(own, accumulated, **fields):
    return LayerErrors(LAYER, (), "layer", "name", 64.0, own=[own], accumulated=[accumulated], **fields)


@pytest.mark.parametrize(
    ("own", "accumulated", "fields", "flags", "expected"),
    [
        (EQUAL, EQUAL, {}, "", "exact"),
        (EQUAL, EQUAL, {}, "changed", "exact"),
        (EQUAL, EQUAL, {"has_type_change": True}, "", "exact"),
        (EQUAL, EQUAL, {"has_type_change": True}, "changed", "adds"),
        (EQUAL, EQUAL, {"has_type_change": True}, "perturbed", "perturbed"),
        (EQUAL, WITHIN, {}, "", "exact"),
        (EQUAL, OVER, {}, "", "inherits"),
        (EQUAL, OVER, {}, "changed", "inherits"),
        (EQUAL, OVER, {}, "perturbed", "inherits"),
        (EQUAL, INCOMPARABLE, {}, "", "inherits"),
        (WITHIN, WITHIN, {}, "", "exact"),
        (WITHIN, WITHIN, {}, "changed", "adds"),
        (WITHIN, WITHIN, {}, "perturbed", "exact"),
        (WITHIN, WITHIN, {"has_own_excess": True}, "", "ill-conditioned"),
        (WITHIN, OVER, {}, "", "inherits"),
        (OVER, OVER, FAR, "", "adds"),
        (INCOMPARABLE, INCOMPARABLE, FAR, "", "adds"),
        (OVER, OVER, {}, "", "near zero"),
        (OVER, OVER, {"is_one_level": False}, "perturbed", "near zero"),
        (OVER, OVER, {"is_one_level": False}, "f64", "ill-conditioned"),
        (OVER, OVER, {}, "f64", "one level"),
        (OVER, OVER, {"is_near_zero": False}, "", "one level"),
        (OVER, OVER, {"is_near_zero": False}, "perturbed", "perturbed"),
        (OVER, OVER, FAR, "perturbed", "perturbed"),
        (OVER, OVER, {}, "changed", "adds"),
        (OVER, OVER, FAR, "f64", "ill-conditioned"),
        (OVERFLOW, OVERFLOW, FAR, "f64", "adds"),
        (FROM_ZERO, FROM_ZERO, FAR, "f64", "ill-conditioned"),
        (OVERFLOW, OVERFLOW, FAR, "", "adds"),
    ],
)
def test_verdict_follows_from_the_errors(own, accumulated, fields, flags, expected):
    errors = make_errors(own, accumulated, **fields)
    assert choose_verdict(errors, flags == "perturbed", flags == "f64", flags == "changed") == expected


@pytest.mark.parametrize(
    ("sqnr", "input_error", "expected"),
    [
        (20.0, 0.0, "inherits"),
        (20.0, 0.0099, "amplifies"),
        (20.0, 0.01, "inherits"),
        (20.0, 0.1, "inherits"),
        (20.0, INF, "inherits"),
        (-INF, 0.1, "amplifies"),
        (-INF, INF, "inherits"),
    ],
)
def test_errors_that_grow_more_than_tenfold_are_amplified(sqnr, input_error, expected):
    accumulated = Metrics(max_abs=1.0, sqnr_db=sqnr, over_tolerance=0.5, differing=1, count=4)
    errors = make_errors(EQUAL, accumulated, input_error=input_error)
    assert choose_verdict(errors, False, False, False) == expected


def test_worst_output_represents_a_layer():
    errors = LayerErrors(LAYER, (), "layer", "name", 64.0)
    assert errors.get_worst_own() == errors.get_worst_accumulated() == EQUAL
    assert errors.get_relative_error() == 0
    assert not errors.has_own_excess
    errors.own = [WITHIN, OVER, EQUAL]
    assert errors.get_worst_own() is OVER
    errors.accumulated = [OVER, WITHIN]
    assert errors.get_worst_accumulated() is OVER
    assert errors.get_relative_error() == pytest.approx(0.1)
    more = Metrics(sqnr_db=-INF, differing=3)
    errors.accumulated = [FROM_ZERO, more]
    assert errors.get_worst_accumulated() is more
    assert errors.get_relative_error() == INF
    errors.accumulated.append(INCOMPARABLE)
    assert errors.get_worst_accumulated() is INCOMPARABLE


def test_limits_follow_from_the_precision():
    assert get_output_sqnr(0.0) == 60
    assert get_output_sqnr(2**-23) == 60
    assert get_output_sqnr(2**-10) == pytest.approx(140 * math.log10(2))  # 8 * 2**-10 is 2**-7
    assert get_ordinary_sqnr([Rounding(0, 0, 2**-40), Rounding(0, 0, 1e-5)]) == pytest.approx(40)
    assert get_ordinary_sqnr([Rounding(0, 0, 0.0)]) == -INF
    assert get_ordinary_sqnr([]) == -INF


#: With a factor of 1 and inputs up to 16, errors up to 2**-8 are those of the inputs.
SMALL = Rounding(0.0, 2**-10, 2**-10)


@pytest.mark.parametrize(
    ("value", "expected", "inputs", "is_near"),
    [
        ([2**-8], [0], [[16]], True),
        ([-(2**-8)], [0], [[-16]], True),
        ([2**-8 + 2**-20], [0], [[16]], False),
        ([2**-8], [0], [[15.9]], False),
        ([2**-8], [0], [[1], [16, 2]], True),
        ([2**-8], [0], [[16, INF, NAN]], True),
        ([2**-8], [0], [None, [16]], True),
        ([2**-8, 100], [0, 100], [[16]], True),
        ([2**-8, 101], [0, 100], [[16]], False),
        ([100 + 100 * 2**-10], [100], [[16]], True),
        ([100 + 101 * 2**-10], [100], [[16]], False),
        ([1.6 + 2**-9], [0.1 * 16], [[16]], True),
        ([1.7 + 2**-9], [1.7], [[16]], False),
        ([2**-12], [0], [[0.5]], False),
        ([0], [0], [[INF]], False),
        ([0], [0], [], False),
        ([0], [0], [None], False),
        ([0], [0], [[0]], False),
        ([NAN], [0], [[16]], False),
        ([NAN], [NAN], [[16]], True),
        ([INF], [0], [[16]], False),
        ([0], [0, 0], [[16]], False),
        ([], [], [[16]], False),
    ],
)
def test_errors_of_the_size_of_the_rounding_of_inputs_are_near_zero(value, expected, inputs, is_near):
    arrays = [None if x is None else np.array(x, np.float64) for x in inputs]
    assert is_near_zero(np.float64(value), np.float64(expected), SMALL, 1.0, arrays) is is_near
    assert not is_near_zero(np.float64(value), np.float64(expected), EXACT, 1.0, arrays)


def test_only_floating_point_values_are_near_zero():
    x = np.float64([16])
    assert not is_near_zero(np.int32([1]), np.int32([1]), SMALL, 1.0, [x])
    assert not is_near_zero(x * 0, x * 0, SMALL, 1.0, [np.int32([16])])
    assert is_near_zero(x * 0 + 2**-7, x * 0, SMALL, 2.0, [x])
    assert not is_near_zero(x * 0 + 2**-7, x * 0, SMALL, 1.0, [x])


def quantizes_alike(value, expected, levels=5, bounds=(0.0, 1.0), dtype=np.float64, layer_type="FakeQuantize"):
    layer = Layer(1, "quantize", layer_type, "opset1", {} if levels is None else {"levels": str(levels)})
    inputs = [None if x is None else np.asarray(x, dtype) for x in (7, -9, 90, *bounds)]
    return is_one_level(layer, inputs, np.asarray(value, dtype), np.asarray(expected, dtype))


@pytest.mark.parametrize(
    ("size", "count", "is_one"),
    [(10, 0, True), (10, 1, True), (10, 2, False), (199, 2, False), (200, 2, True), (200, 3, False)],
)
def test_few_elements_may_be_on_the_edge_of_two_levels(size, count, is_one):
    expected = np.full(size, 0.5)
    value = expected.copy()
    value[:count] += 0.25
    assert quantizes_alike(value, expected) is is_one
    assert quantizes_alike(expected, value, bounds=(1.0, 0.0)) is is_one


@pytest.mark.parametrize(
    ("difference", "is_one"), [(0.25, True), (0.25 + 2e-4, True), (0.25 + 3e-4, False), (0.1, True), (0.5, False)]
)
def test_elements_differ_by_at_most_one_level(difference, is_one):
    assert quantizes_alike([difference, 0, 0], [0, 0, 0]) is is_one


def test_rounding_of_levels_is_tolerated():
    assert quantizes_alike(np.full(50, 2e-4), np.zeros(50))
    assert not quantizes_alike(np.full(50, 3e-4), np.zeros(50))
    near = {"levels": 101, "bounds": (0, 100), "dtype": np.float16}
    assert quantizes_alike([101.375], [100], **near)
    assert not quantizes_alike([101.4375], [100], **near)
    assert quantizes_alike([100.375] * 50, [100] * 50, **near)
    assert not quantizes_alike([100.4375] * 50, [100] * 50, **near)


def converts_alike(x, value, expected, dtype="i64"):
    layer = Layer(1, "convert", "Convert", "opset1", {"destination_type": dtype})
    return is_one_level(layer, [np.float32(x)], np.int64(value), np.int64(expected))


def test_integers_differ_by_1_where_numbers_are_integers_but_for_rounding():
    assert converts_alike([7.9999995, 3.5], [7, 3], [8, 3])
    assert converts_alike([8, 8], [8, 8], [7, 7])
    assert not converts_alike([7.99, 3.5], [7, 3], [8, 3])
    assert not converts_alike([8, 3.5], [8, 3], [6, 3])
    assert not converts_alike([8, 3.5], [8, 3], [7])
    layer = Layer(1, "convert", "Convert", "opset1", {"destination_type": "i64"})
    assert not is_one_level(layer, [np.int64([8])], np.int64([8]), np.int64([7]))
    assert not is_one_level(layer, [None], np.int64([8]), np.int64([7]))
    assert not is_one_level(layer, [np.float32([8])], np.float32([8]), np.float32([7]))


def test_numbers_that_no_integer_stands_for_are_unspecified():
    layer = Layer(1, "convert", "Convert", "opset1", {"destination_type": "i8"})
    x = np.float32([-129, -128.5, 0, 127.5, 128, np.inf, -np.inf, np.nan])
    unspecified = find_unspecified(layer, [x], np.zeros(8, np.int8))
    assert unspecified.tolist() == [True, False, False, False, True, True, True, True]
    assert find_unspecified(layer, [x[1:4]], np.zeros(3, np.int8)) is None
    assert find_unspecified(layer, [x], np.zeros(8, np.float32)) is None
    assert find_unspecified(layer, [None], np.zeros(8, np.int8)) is None
    assert find_unspecified(layer, [np.int64([300])], np.zeros(1, np.int8)) is None
    assert find_unspecified(LAYER, [x], np.zeros(8, np.int8)) is None


def test_quantizers_in_f64_differ_by_at_most_one_level():
    errors = make_errors(OVER, OVER, is_near_zero=False, is_one_level=False)
    assert choose_verdict(errors, False, True, False) == "ill-conditioned"
    errors.exceeds_level = True
    assert choose_verdict(errors, False, True, False) == "adds"
    layer = Layer(1, "quantize", "FakeQuantize", "opset1", {"levels": "5"})
    inputs = [np.float32(x) for x in ([0.4, 0.6], 0, 1, 0, 1)]
    assert not exceeds_level(layer, inputs, np.float32([0.5, 0.5]), np.float32([0.25, 0.75]))
    assert exceeds_level(layer, inputs, np.float32([0.5, 0.5]), np.float32([0, 0.75]))
    assert not exceeds_level(LAYER, inputs, np.float32([0.5, 0.5]), np.float32([0, 0.75]))


def test_levels_are_those_of_a_valid_quantization():
    value, expected = [0.25, 0, 0], [0, 0, 0]
    assert not quantizes_alike(value, expected, layer_type="Add")
    assert not quantizes_alike(value, expected[:2])
    for levels in (None, "many", 1):
        assert not quantizes_alike(value, expected, levels=levels)
    assert quantizes_alike([1, 0, 0], expected, levels=2)
    assert not quantizes_alike(value, expected, bounds=(None, 1))
    assert not quantizes_alike(value, expected, bounds=(0, None))
    assert not quantizes_alike(value, expected, bounds=(0,))


# Rounding errors of layers


def test_limits_are_relative_to_elements_and_a_magnitude():
    reference = np.float32([1, -4, INF, NAN])
    rounding = Rounding(relative=0.5, magnitude=2, epsilon=0.25)
    np.testing.assert_array_equal(rounding.get_limits(reference, 3), [3, 6, 0, 0])
    np.testing.assert_array_equal(rounding.get_basic_limits(reference, 3), [1.5, 3, 0, 0])
    np.testing.assert_array_equal(Rounding(0.0, 2, 0.25).get_limits(reference, 3), [1.5, 3, 0, 0])


def estimate(layer_type, inputs, *outputs, version="opset1", attributes=None, epsilon=0.0):
    layer = Layer(1, "layer", layer_type, version, attributes or {})
    return RoundingEstimator(epsilon).estimate(layer, inputs, outputs)


@pytest.mark.parametrize(
    ("value", "relative", "magnitude"),
    [
        ([-1, -2, -4, -8], 0, 1.75),
        ([-1, -2, -4, -9], 1 / 9, 1.75),
        ([1, -2, -4, -8], 2 / 1.75, 1.75),
        ([0, -2, -4, -8], 1 / 3, 3),
        ([0, 0, 0, 0], 8 / float(np.finfo(np.float32).tiny), 0),
        ([INF, -2, -4, -8], 0, 3),
        ([INF, INF, INF, NAN], 0, 0),
    ],
)
def test_rounding_error_is_measured_in_f64(value, relative, magnitude):
    (rounding,) = estimate("Negative", [np.float32([1, 2, 4, 8])], np.float32(value))
    assert rounding == Rounding(pytest.approx(relative), pytest.approx(magnitude), 2**-23)


def test_rounding_of_layers_that_cannot_be_computed_is_that_of_their_type():
    x = np.float32([1, 2, 4, 8])
    basic = [Rounding(0.0, 3.5, 2**-23)]
    value = 2 * x
    assert estimate("Negative", [x], value) != basic
    for layer_type, version, attributes in (
        ("Round", "opset5", {}),
        ("Unknown", "opset1", {}),
        ("RandomUniform", "opset8", {"output_type": "f32", "global_seed": "1", "op_seed": "2"}),
        ("Softmax", "opset1", {"axis": "x"}),
        ("Softmax", "opset1", {"axis": "7"}),
        ("TensorIterator", "opset1", {}),
    ):
        assert estimate(layer_type, [x], value, version=version, attributes=attributes) == basic
    assert estimate("Negative", [x[:2]], value) == basic
    assert estimate("Negative", [None], value) == basic
    assert estimate("Convert", [np.int32([1])], value[:1], attributes={"destination_type": "f32"}) == [
        Rounding(0.0, 2.0, 2**-23)
    ]
    assert estimate("Negative", [x[:0]], value[:0]) == [Rounding(0.0, 0.0, 2**-23)]


def test_rounding_of_each_output_is_measured():
    x = np.float32([[3, 1, 2]])
    attributes = {"axis": "1", "mode": "max", "sort": "value"}
    inputs = [x, np.int64(2)]
    values, indices = np.float32([[3, 4]]), np.int64([[0, 2]])
    roundings = estimate("TopK", inputs, values, indices, attributes=attributes)
    assert roundings == [Rounding(0.5, 3.25, 2**-23), EXACT]
    assert estimate("TopK", inputs, indices, indices) == [EXACT, EXACT]


def test_other_inputs_keep_their_types():
    indices, axis = np.int64([1]), np.int64(0)
    (rounding,) = estimate("Gather", [np.float32([1, 2]), indices, axis], np.float32([4]), version="opset8")
    assert rounding.relative == 0.5
    pads = [np.float32([1]), np.int64([0]), np.int64([1]), None]
    (rounding,) = estimate("Pad", pads, np.float32([2, 0]), attributes={"pad_mode": "constant"})
    assert rounding.relative == 0.5


def test_types_in_attributes_are_widened():
    x = np.float32([1 + 2**-12])
    (rounding,) = estimate("Convert", [x], x.astype(np.float16), attributes={"destination_type": "f16"})
    assert rounding == Rounding(pytest.approx(2**-12), 1, 2**-10)
    attributes = {
        "destination_type": "bf16",
        "element_type": ElementType.parse("f32"),
        "index_element_type": "i64",
        "output_type": "boolean",
        "box_type": "corner",
        "mode": "f32",
    }
    widened = {**attributes, "destination_type": "f64", "element_type": "f64"}
    assert widen_attributes(Layer(1, "", "Convert", "opset1", attributes)) == widened
    for layer_type in ("FakeConvert", "RandomUniform"):
        assert widen_attributes(Layer(1, "", layer_type, "opset1", attributes)) == attributes


def test_epsilon_of_the_reference_is_the_smallest():
    x = np.float16([1])
    assert estimate("Negative", [x], -x)[0].epsilon == 2**-10
    assert estimate("Negative", [x], -x, epsilon=0.5)[0].epsilon == 0.5
    assert estimate("Negative", [x], -x, epsilon=2**-20)[0].epsilon == 2**-10


def test_magnitude_of_large_arrays_is_that_of_a_sample():
    values = np.ones(1 << 17, np.float32)
    values[::2] = 100
    values[0] = 7
    assert estimate("Round", [values], values)[0].magnitude == 100


@pytest.mark.parametrize(
    ("dtype", "epsilon"),
    [
        (np.float32, 2**-23),
        (np.float64, 2**-52),
        (ml_dtypes.bfloat16, 2**-7),
        (ml_dtypes.float8_e8m0fnu, 1),
        (np.int32, 0),
        (np.bool_, 0),
        (object, 0),
        ([("nf4", np.uint8)], 0),
    ],
)
def test_epsilon_is_that_of_the_type(dtype, epsilon):
    assert get_epsilon(np.dtype(dtype)) == epsilon
    assert is_float_array(np.zeros(1, dtype)) == bool(epsilon)


def test_integers_have_no_rounding_error():
    np.testing.assert_array_equal(EXACT.get_limits(np.float32([1, -4]), 64), [0, 0])
    assert get_basic_rounding(np.int32([1]), 0.5) is EXACT
    assert get_basic_rounding(np.float32([2, 4]), 0.0) == Rounding(0.0, 2.5, 2**-23)
    assert get_basic_rounding(np.float32([2, 4]), 0.5) == Rounding(0.0, 2.5, 0.5)


def test_sensitivity_of_results_of_other_shapes_is_unknown():
    """Equal elements differ after a change of their inputs by rounding errors, so that there are more unique ones."""
    layer = Layer(1, "unique", "Unique", "opset10", {"sorted": "true"}, [Port(0)], [Port(i) for i in range(1, 5)])
    values = np.array([1, 1, 2], np.float32)
    outputs = [np.array([1, 2], np.float32), *[np.zeros(2, np.int64)] * 3]
    assert RoundingEstimator(0.0).measure_sensitivity(layer, [values], outputs) is None
    assert RoundingEstimator(0.0).measure_sensitivity(layer, [values[1:]], outputs) is not None


def test_outputs_belong_to_the_first_run_by_default():
    assert OutputComparison("y", None, 0.0, False).run == 0


@pytest.mark.parametrize("epsilon", [0.0, 0.25])
def test_sensitivity_is_measured_by_changes_of_at_most_the_rounding_error(epsilon):
    values = np.linspace(1, 2, 2000, dtype=np.float32)
    (changes,) = RoundingEstimator(epsilon).measure_sensitivity(Layer(1, "r", "Relu"), [values], [values])
    relative = changes / values / max(epsilon, 2**-23)
    assert 0.95 < relative.max() <= 1
    assert relative.min() > 0
