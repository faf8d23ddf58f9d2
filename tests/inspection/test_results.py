"""Results before anything is measured or found: they have no error, of a single run, and count nothing."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from inspection.graphs import Row, make_model
from irrun.errors import InputError
from irrun.inspection.checks import _LayerState
from irrun.inspection.comparison import Comparison, LayerComparison, OutputComparison
from irrun.inspection.comparison_table import make_layer_row
from irrun.inspection.cure import CureProgress
from irrun.inspection.instruments import InstructionRecord
from irrun.inspection.metrics import Metrics, measure, measure_top_k
from irrun.inspection.profile_layers import merge_profiles
from irrun.inspection.reference_kinds import open_reference
from irrun.inspection.verdicts import LayerErrors
from irrun.ir.graph import Layer
from irrun.runtime.options import RunSettings

LAYER = Layer(1, "layer", "Relu")


def test_metrics_of_equal_values_are_the_defaults():
    metrics = Metrics()
    assert metrics.is_exact
    assert metrics.to_json() == Metrics(0.0, 0.0, 0.0, 1.0, math.inf, 0.0, 0.0, 0, 0, True).to_json()
    assert (metrics.max_abs, metrics.max_rel, metrics.rms, metrics.cosine, metrics.max_ulps) == (0, 0, 0, 1, 0)
    assert (metrics.over_tolerance, metrics.differing, metrics.count, metrics.same_shape) == (0, 0, 0, True)


def test_every_difference_is_above_the_tolerance_by_default():
    actual, reference = np.float32([1, 2, 3, 4]), np.float32([1, 2, 3.5, 4.25])
    assert measure(actual, reference).over_tolerance == 0.5
    assert measure(actual, reference, 0.25).over_tolerance == 0.25
    assert measure(actual, reference, 0.5).over_tolerance == 0


def test_five_largest_elements_are_compared_by_default():
    reference = np.arange(12.0)
    actual = reference.copy()
    actual[[6, 5]] = actual[[5, 6]]  # the sixth largest
    assert measure_top_k(actual, reference) == 1
    assert measure_top_k(actual, reference, 6) == pytest.approx(5 / 6)
    actual[[7, 5]] = actual[[5, 7]]
    assert measure_top_k(actual, reference) == pytest.approx(4 / 5)


def test_layers_and_outputs_are_of_the_first_of_one_run():
    layer = LayerComparison("layer", "Relu", "layer", "name", Metrics(), Metrics(), "exact", 0.0, "")
    output = OutputComparison("y", Metrics(), 1.0, True)
    assert (layer.run, layer.contribution_db, layer.since) == (0, None, ())
    assert (output.run, output.score) == (0, None)
    assert layer.to_json()["run"] == output.to_json()["run"] == 0
    assert Comparison(True, "reference", "f32", [layer], [output], 1).runs == 1


def test_rows_name_the_run_of_a_session():
    def make(run):
        return LayerComparison("layer", "Relu", "key", "name", Metrics(), Metrics(), "adds", 0.0, "", run)

    assert make_layer_row(make(3))[0] == "key"
    assert make_layer_row(make(3), True)[0] == "key (run 4)"


def test_layers_have_no_errors_until_they_are_measured():
    errors = LayerErrors(LAYER, (), "layer", "name", 1.0)
    assert (errors.rounding, errors.own, errors.accumulated, errors.explanation) == ([], [], [], "")
    assert not errors.has_own_excess
    assert not errors.has_wrong_kernel
    assert not errors.exceeds_level
    assert not errors.has_type_change
    assert errors.is_near_zero
    assert errors.is_one_level
    assert errors.input_error == 0


def test_instructions_take_no_time_until_they_run():
    record = InstructionRecord(SimpleNamespace(), ())
    assert (record.runs, record.outputs) == ([], ())
    assert (record.seconds, record.calls, record.bytes, record.alive, record.failures) == (0, 0, 0, 0, 0)


def test_checks_start_without_findings():
    state = _LayerState(LAYER, "layer", 0)
    assert (state.elements, state.channel_elements, state.largest, state.limits) == (0, 0, -math.inf, None)
    assert not state.counts
    assert state.is_made == {}


def test_tried_layers_are_not_kept_unless_they_are_found():
    assert not CureProgress(10.0, None, 0, 3).is_found


def test_profile_of_no_layer_keeps_nothing_alive():
    assert merge_profiles("module", "Relu", []).alive == 0


def test_names_of_arrays_are_texts():
    model = make_model(Row("x", "Parameter", shapes=[(3,)]), Row("a", "Relu", ["x"]), Row("y", "Result", ["a"]))
    x = np.ones(3, np.float32)
    assert open_reference(model, {"a": x}, [x], RunSettings()).name == "arrays"
    with pytest.raises(InputError, match=r"a name in against is 3, expected a text"):
        open_reference(model, {"a": x, 3: x}, [x], RunSettings())
    for reference in (model, "f64", "openvino"):
        with pytest.raises(InputError, match="names of arrays can be mapped only if the reference consists of arrays"):
            open_reference(model, reference, [x], RunSettings(), names={"a": "b"})
