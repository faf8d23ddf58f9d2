"""Observers that compute single layers of a quantized model in floating point: their errors, and what they keep."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from irrun.inspection.isolated_layers import ErrorObserver, Replacer
from irrun.inspection.keys import KeyTable

X = np.float32([[1, -2, 3], [4, -5, 6]])


@pytest.fixture
def table(tmp_path):
    """The keys of a model with the layers x, layer1 (Relu), layer2 (Negative) and layer3 (Abs)."""
    return KeyTable(irrun.read_model(write(tmp_path, chain("Relu", "Negative", "Abs"))))


def find(table, name):
    return next(layer for layer in table.graph.layers if layer.name == name)


def isolate(function, *addresses):
    """Return a layer that computes the outputs of a function of the values at some addresses."""

    def run(arguments):
        results = function(*arguments)
        return SimpleNamespace(to_tuple=lambda: results if isinstance(results, tuple) else (results,))

    return SimpleNamespace(addresses=addresses, compiled=run)


def observe(observer, layer, *outputs, scope=()):
    return observer(layer, [], list(outputs), 0.0, scope)


@pytest.mark.parametrize(
    ("exact", "quantized", "error"),
    [
        ([[3, 4]], [[3, 4]], 0),
        ([[3, 4]], [[3, 1]], 9 / 25),
        ([[3, 4]], [[1, 4]], 4 / 25),
        ([[0, 0]], [[2, 1]], 5),  # there is no signal
    ],
)
def test_errors_are_relative_to_the_values(exact, quantized, error, table):
    layer = find(table, "layer1")
    kept = {id(layer): isolate(lambda x: np.float32(exact), (0, 0))}
    observer = ErrorObserver(kept, table, [X])
    observe(observer, layer, np.float32(quantized))
    assert observer.errors[id(layer)] == pytest.approx(error)


def test_errors_add_up_over_the_outputs_in_floating_point(table):
    layer = find(table, "layer1")
    exact = np.float32([2, 0]), np.array([5, 7]), np.float16([1]), np.float32([1, 1])
    kept = {id(layer): isolate(lambda x: exact, (0, 0))}
    observer = ErrorObserver(kept, table, [X])
    observe(observer, layer, np.float32([1, 0]), np.array([0, 0]), np.float16([3]), np.float32([1]))
    assert observer.errors == {id(layer): pytest.approx((1 + 4) / (4 + 1))}


def test_values_are_kept_until_the_last_layer_has_used_them(table):
    first, second = find(table, "layer1"), find(table, "layer2")
    kept = {
        id(first): isolate(lambda x, same: np.abs(x), (0, 0), (0, 0), None),
        id(second): isolate(np.add, (first.id, 1), (0, 0)),
    }
    observer = ErrorObserver(kept, table, [X])
    assert observer.values.keys() == {(0, 0)}
    observe(observer, first, np.maximum(X, 0), scope=((first, 0),))
    assert not observer.errors  # in a body
    observe(observer, first, np.maximum(X, 0))
    assert observer.values.keys() == {(0, 0), (first.id, 1)}
    observe(observer, second, np.maximum(X, 0) + X)
    assert observer.values == {}
    assert observer.errors[id(second)] == 0
    observe(observer, find(table, "layer3"), X)
    assert observer.values == {}


def test_layers_are_replaced_by_their_computation_in_floating_point(table):
    first, second = find(table, "layer1"), find(table, "layer2")
    kept = {id(second): isolate(lambda x: x.astype(np.float64) * 10, (first.id, 1))}
    observer = Replacer(kept, table, [X])
    assert observe(observer, first, np.abs(X)) is None
    assert observe(observer, second, X, scope=((first, 0),)) is None
    (replaced,) = observe(observer, second, X)
    assert replaced.dtype == np.float32
    np.testing.assert_array_equal(replaced, np.abs(X) * 10)
    assert observer.values.keys() == {(0, 0), (first.id, 1)}


def test_replaced_values_are_those_that_others_read(table):
    first, second = find(table, "layer1"), find(table, "layer2")
    kept = {
        id(first): isolate(lambda x: x + 1, (0, 0)),
        id(second): isolate(lambda x: x * 2, (first.id, 1)),
    }
    observer = Replacer(kept, table, [X])
    observe(observer, first, X)
    np.testing.assert_array_equal(observe(observer, second, X)[0], (X + 1) * 2)
