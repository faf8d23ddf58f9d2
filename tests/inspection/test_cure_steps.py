"""The order in which layers are tried and kept in floating point, for given values of the outputs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.inspection import cure
from irrun.inspection.cure import NOISE_DB, CureStep, _advise, find_cure
from irrun.inspection.cure_search import CureSearch
from irrun.ir.graph import Layer
from irrun.ir.model import TensorSpec
from irrun.shapes import PartialShape

NAMES = ("a", "b", "c")


class Search:
    """A search over the layers a, b and c. The value of the outputs depends on the kept layers."""

    instances: ClassVar[list[Search]] = []
    values: ClassVar[dict[str, float]] = {}

    def __init__(self, quantized, exact, declared, sets, settings, metric, labels):
        self.arguments = (quantized, exact, declared, metric, labels)
        self.settings = settings
        self.sets = sets
        self.measured = []
        self.group = ()
        self.limits = []
        Search.instances.append(self)

    def measure(self, kept):
        name = "".join(sorted(layer.name for layer in kept))
        self.measured.append(name)
        return self.values[name]

    def rank_candidates(self):
        return [Layer(i, name, "Convolution") for i, name in enumerate(NAMES)]

    def find_group(self, candidates, initial, least_gain):
        self.limits.append((len(candidates), initial, least_gain))
        for name, value in (("a", 12.0), ("b", 13.0)):
            yield next(layer for layer in candidates if layer.name == name), value

    def describe_outputs(self):
        return ["outputs"]

    def compare_with_others(self, initial, best):
        return [f"others: {initial}, {best}"]

    def use_inputs(self, declared, sets, labels=None):
        self.held_out = (declared, len(sets), labels)


@pytest.fixture
def run(monkeypatch):
    """Return a function that finds a cure for values of the outputs, by the names of the kept layers."""
    monkeypatch.setattr(cure, "CureSearch", Search)
    monkeypatch.setattr(cure, "_read", lambda name, model: model)
    monkeypatch.setattr(cure, "order_models", lambda model, other: (model, other))
    Search.instances = []

    def find(values, count=None, **options):
        monkeypatch.setattr(Search, "values", values)
        model: Any = SimpleNamespace(inputs=[])
        return find_cure(model, model, [{}, {}], count, **options), Search.instances[-1]

    return find


#: The layer b helps most, then a; c hardly helps.
ADDITIVE = {"": 10.0, "a": 13.0, "b": 15.0, "c": 10.05, "ab": 18.0, "bc": 15.05, "ac": 13.05, "abc": 18.05}


def list_steps(found):
    return [(step.layer, step.sqnr_db) for step in found.steps]


def test_best_layers_come_first_until_only_noise_is_gained(run):
    found, search = run(ADDITIVE)
    assert list_steps(found) == [("b", 15.0), ("a", 18.0)]
    assert found.names == ["b", "a"]
    assert search.measured == ["", "a", "b", "c", "ab", "abc"]  # others are not tried again
    assert found.single_db == {"a": 13.0, "b": 15.0, "c": 10.05}
    assert found.advice == ["outputs", "others: 10.0, 18.0"]
    assert (found.initial_db, found.held_out_db) == (10.0, None)


@pytest.mark.parametrize(
    ("count", "names"), [(0, []), (1, ["b"]), (2, ["b", "a"]), (3, ["b", "a", "c"]), (9, ["b", "a", "c"])]
)
def test_number_of_layers_is_limited(count, names, run):
    """With a number, layers that gain little are kept too."""
    found, search = run(ADDITIVE, count)
    assert found.names == names
    assert search.limits == []


def test_layers_that_do_not_help_end_the_search(run):
    found, search = run(ADDITIVE | {"ab": 14.0, "bc": 15.0}, 3)
    assert found.names == ["b"]
    assert search.measured == ["", "a", "b", "c", "ab", "bc"]


@pytest.mark.parametrize(
    ("until", "names", "advice"),
    [
        (10.0, [], []),
        (10.5, ["b"], []),
        (15.0, ["b"], []),
        (15.5, ["b", "a"], []),
        (30.0, ["b", "a"], ["18.00 dB do not reach 30 dB"]),
    ],
)
def test_search_ends_at_a_target(until, names, advice, run):
    found, search = run(ADDITIVE, until=until)
    assert found.names == names
    assert [text for text in found.advice if "reach" in text] == advice
    reaches = until <= 18.0
    assert ("keeping all 3 layers in floating point gives 18.05" in found.advice) is not reaches
    assert (search.measured == [""]) is (until == 10.0)


def test_exact_models_without_a_target_are_tried(run):
    values = dict.fromkeys(ADDITIVE, math.inf)
    found, search = run(values)
    assert found.steps == []
    assert search.measured == ["", "a", "b", "c"]
    assert search.limits == []


def test_groups_are_searched_if_no_single_layer_helps(run):
    flat = dict.fromkeys(ADDITIVE, 10.0) | {"abc": 19.0}
    found, search = run(flat)
    assert list_steps(found) == [("a", 12.0), ("b", 13.0)]
    assert search.limits == [(3, 10.0, NOISE_DB)]
    assert found.advice == ["outputs", "others: 10.0, 13.0"]
    found, search = run(flat, 1)
    assert (found.names, search.limits) == (["a"], [(3, 10.0, NOISE_DB)])
    found, search = run(flat, 0)
    assert (found.names, search.limits) == ([], [])
    found, search = run(flat, metric=lambda a, b: 0.0)
    assert search.limits == [(3, 10.0, 0)]
    found, search = run(flat, until=10.0)
    assert (found.names, search.limits) == ([], [])


def test_trials_and_steps_are_reported(run):
    reports = []
    run(ADDITIVE, 1, report=reports.append)
    tried = [None if r.tried is None else r.tried.layer for r in reports]
    assert tried == [None, "a", "b", "c", "b"]
    assert [(r.done, r.total, r.is_found) for r in reports] == [(i, 3, False) for i in range(4)] + [(3, 3, True)]
    assert all(r.initial_db == 10.0 for r in reports)
    assert [r.tried.sqnr_db for r in reports[1:]] == [13.0, 15.0, 10.05, 15.0]


def test_other_inputs_confirm_the_result(run):
    labels = [1, 2, 3]
    found, search = run(ADDITIVE, held_out=[{}], labels=labels)
    assert found.held_out_db == (10.0, 18.05)  # a metric may count every gain
    *_, metric, own = search.arguments
    assert metric.__name__ == "measure_accuracy"
    assert [int(label) for label in own] == [1, 2]
    _, count, others = search.held_out
    assert (count, [int(label) for label in others]) == (1, [3])
    with pytest.raises(InputError, match="labels has 2 elements, expected one for each of 3 runs"):
        run(ADDITIVE, held_out=[{}], labels=labels[:2])


def test_settings_are_passed_to_the_search(run):
    _, search = run(ADDITIVE, 1, precision="f64", threads=2, memory="1M", weights_memory=0, timeout=3.0)
    settings = search.settings
    assert (settings.precision, settings.threads, settings.memory) == ("f64", 2, "1M")
    assert (settings.weights_memory, settings.timeout, len(search.sets)) == (0, 3.0, 2)


SMALL_GAIN = "keeping b in floating point gains 0.01 dB: within noise"


@pytest.mark.parametrize(
    ("steps", "single", "until", "is_sqnr", "expected"),
    [
        ([], {}, None, True, []),
        ([("a", 13.0)], {"a": 13.0}, None, True, []),
        ([("a", 10.0 + 2 * NOISE_DB)], {"a": 11.0}, None, True, []),
        (
            [("a", 13.0), ("b", 13.01)],
            {"a": 13.0},
            None,
            True,
            ["keeping b in floating point gains 0.01 dB: within noise"],
        ),
        ([("a", 13.0), ("b", 13.01)], {"a": 13.0}, None, False, []),
        ([("a", 13.0)], {"a": 13.0}, 13.0, True, []),
        ([("a", 13.0)], {"a": 13.0}, 13.5, True, ["13.00 dB do not reach 13.5 dB"]),
        ([("a", 13.0)], {"a": 13.0}, 14, False, ["13.00 do not reach 14"]),
        ([], {"a": 12.0, "b": 11.0}, None, True, ["the best single layer gains 2.00 dB"]),
        ([], {"a": 10.01}, None, True, ["the best single layer gains 0.01 dB: within noise"]),
    ],
)
def test_advice(steps, single, until, is_sqnr, expected):
    found = _advise(10.0, [CureStep(name, "Convolution", value) for name, value in steps], single, until, is_sqnr)
    assert found == expected
    assert _advise(math.inf, [], {"a": math.inf}, None, True) == []


def test_unequal_numbers_of_quantizers_are_required():
    def make(count):
        layers = [("", Layer(i, "q", "FakeQuantize", "opset1")) for i in range(count)]
        return SimpleNamespace(graph=SimpleNamespace(walk=lambda: layers), count=count)

    for counts in ((0, 2), (2, 0), (1, 2)):
        models = [make(count) for count in counts]
        assert [model.count for model in cure.order_models(*models)] == sorted(counts, reverse=True)  # type: ignore[attr-defined,arg-type]
    with pytest.raises(
        InputError, match="expected a quantized and a floating-point model, found 1 FakeQuantize in both"
    ):
        cure.order_models(make(1), make(1))


def test_models_are_paths_of_xml_files():
    with pytest.raises(InputError, match=r"a cure requires two models, found 'm\.onnx'"):
        cure._read("other", "m.onnx")


def test_inputs_are_passed_in_the_order_of_each_model():
    def declare(*names):
        layers = [Layer(i, name, "Parameter") for i, name in enumerate(names)]
        return SimpleNamespace(
            inputs=[TensorSpec((layer.name,), ELEMENT_TYPES["f32"], PartialShape([1]), layer) for layer in layers]
        )

    search = object.__new__(CureSearch)
    search.quantized, search.compiled, search.positions = declare("b", "c", "a"), declare("c", "a", "b"), [0]
    arguments = [np.array([n], np.float32) for n in (1, 2, 3)]
    search.use_inputs(declare("a", "b", "c"), [arguments], [np.zeros(1)])
    assert [x.tolist() for x in search.sets[0]] == [[2], [3], [1]]
    assert [x.tolist() for x in search.exact_sets[0]] == [[3], [1], [2]]
