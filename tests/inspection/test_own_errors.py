"""Errors of layers that rounding errors of their inputs explain, on values that stand for those of models."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from inspection.graphs import Row, make_model
from irrun.inspection.connections import ConnectionTable
from irrun.inspection.keys import KeyTable
from irrun.inspection.own_errors import LayerValues, OwnErrors, _are_explained, measure_rounded
from irrun.inspection.rounding import EXACT, Rounding
from irrun.ir.graph import Layer

F32 = np.float32
EPSILON = 2.0**-23


def make_values(output, reference, layer_type="Relu", inputs=(), version="opset1"):
    layer = Layer(1, "layer", layer_type, version)
    return LayerValues(layer, inputs, [np.asarray(output)], [None if reference is None else np.asarray(reference)])


@pytest.fixture
def errors():
    """Own errors of which tests set what is measured: `changes` by rounding of inputs, and `exact` results."""
    reference = SimpleNamespace(is_same_runtime=False, epsilon=0.0)
    model = make_model(Row("x", "Parameter"), Row("y", "Result", ["x"]))
    own = OwnErrors(reference, ConnectionTable(KeyTable(model)), None)

    def set_results(changes=None, exact=None):
        own._estimator = SimpleNamespace(
            measure_sensitivity=lambda *arguments: changes, compute=lambda *arguments: exact
        )
        return own

    return set_results


@pytest.mark.parametrize(
    ("output", "reference", "change", "factor", "is_explained"),
    [
        (F32([1, 2]), F32([1, 2]), [0, 0], 1, True),
        (F32([1, 2.5]), F32([1, 2]), [0.5, 0.5], 1, True),
        (F32([1, 2.5]), F32([1, 2]), [0.5, 0.25], 1, False),
        (F32([1, 2.5]), F32([1, 2]), [0.5, 0.25], 2, True),
        (F32([1, 2 + 2**-22]), F32([1, 2]), [0, 0], 1, True),  # the rounding of the output itself
        (F32([1, 2 + 2**-21]), F32([1, 2]), [0, 0], 1, False),
        (F32([1.5, 2]), F32([1, 2]), [0, 8], 1, True),  # an eighth of the typical change: sqrt(32) / 8 = 0.7
        (F32([1.5, 2]), F32([1, 2]), [0, 4], 1, False),
        (F32([1, 9]), None, [0, 0], 1, True),
        (F32([1, 9]), np.int32([1, 2]), [0, 0], 1, True),
        (F32([1, 9]), F32([1, 2]), [0], 1, True),  # of another shape
    ],
)
def test_errors_are_compared_with_changes(output, reference, change, factor, is_explained):
    values = make_values(output, reference)
    assert _are_explained(values, [np.asarray(change, np.float64)], factor) == is_explained


def test_every_output_is_explained():
    layer = Layer(1, "layer", "Split")
    outputs, changes = [F32([1]), F32([2])], [np.array([0.0]), np.array([0.0])]
    assert _are_explained(LayerValues(layer, [], outputs, outputs), changes, 1)
    assert not _are_explained(LayerValues(layer, [], outputs, [F32([1]), F32([3])]), changes, 1)
    assert not _are_explained(LayerValues(layer, [], outputs, [None, F32([3])]), changes, 1)


@pytest.mark.parametrize(
    ("layer_type", "changes", "is_sensitive"),
    [
        ("Floor", [np.zeros(1)], True),  # discontinuous
        ("Relu", [np.zeros(1)], False),
        ("Relu", [np.ones(1)], True),
        ("Relu", None, True),  # unknown
    ],
)
def test_sensitive_layers_are_explained_by_their_inputs(layer_type, changes, is_sensitive, errors):
    assert errors(changes)._is_sensitive(make_values(F32([2]), F32([1]), layer_type), 1) == is_sensitive


@pytest.mark.parametrize(
    ("layer_type", "version", "inputs", "changes", "is_explained"),
    [
        ("DFT", "opset7", [np.zeros((4, 2))], [np.full(1, 0.25)], True),  # errors grow with the length, 4
        ("DFT", "opset7", [np.zeros((3, 2))], [np.full(1, 0.25)], False),
        ("DFT", "opset7", [np.zeros((4, 2))], None, False),
        ("DFT", "opset7", [None], [np.ones(1)], False),
        ("Relu", "opset1", [np.zeros((4, 2))], [np.ones(1)], False),
        ("Unknown", "extension", [np.zeros((4, 2))], [np.ones(1)], False),
    ],
)
def test_transforms_round_their_angles(layer_type, version, inputs, changes, is_explained, errors):
    values = make_values(F32([2]), F32([1]), layer_type, inputs, version)
    assert errors(changes)._is_transform(values, 1) == is_explained


@pytest.mark.parametrize(
    ("layer_type", "changes", "exact", "is_wrong"),
    [
        ("Relu", [np.zeros(1)], [np.ones(1)], True),  # the reference equals the result in f64
        ("Relu", [np.zeros(1)], [np.full(1, 2.0)], False),  # the kernel does
        ("Relu", [np.ones(1)], [np.ones(1)], False),  # ill-conditioned
        ("Relu", None, [np.ones(1)], False),
        ("Relu", [np.zeros(1)], None, False),
        ("Floor", [np.zeros(1)], [np.ones(1)], False),
    ],
)
def test_wrong_kernels_differ_from_f64_unlike_the_reference(layer_type, changes, exact, is_wrong, errors):
    values = make_values(F32([2]), F32([1]), layer_type)
    assert errors(changes, exact)._has_wrong_kernel(values, 1) == is_wrong


@pytest.mark.parametrize(
    ("value", "expected", "rounding", "is_over"),
    [
        (F32([1 + 2 * EPSILON]), F32([1]), Rounding(0.0, 0.0, EPSILON), False),
        (F32([1 + 4 * EPSILON]), F32([1]), Rounding(0.0, 0.0, EPSILON), True),
        (F32([1 + 2 * EPSILON]), F32([1]), EXACT, True),
        (np.int32([2]), np.int32([1]), EXACT, True),
        (np.int32([1]), np.int32([1]), EXACT, False),
        (np.array(["a"]), np.array(["b"]), Rounding(0.0, 0.0, EPSILON), True),
        (F32([1, 1]), F32([1]), Rounding(0.0, 0.0, EPSILON), True),
    ],
)
def test_errors_are_measured_in_units_of_rounding(value, expected, rounding, is_over):
    assert measure_rounded(value, expected, rounding, 2).over_tolerance == is_over
