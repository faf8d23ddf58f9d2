"""Tests that cards state what kernels do, on the cases that are compared with OpenVINO."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("openvino")

from irrun.conformance.cases import GENERATORS, list_cases, load_generators
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support import registry
from irrun.ops._support.autoload import load_all
from irrun.ops._support.card import Card
from irrun.ops._support.context import OutputCount
from irrun.ops.shape_rules import Value, find_rule
from irrun.ops.shape_rules.bounds import infer_bounds

load_generators()
load_all()
OPERATIONS = [o for o in registry.list_operations() if (o.type, o.since) in GENERATORS and not o.opset]
#: Cases per operation, from all over its list.
SAMPLE = 6


def call(operation, inputs, attributes):
    """Return the outputs of the kernel as a list."""
    provided = {name: OutputCount(8) for name, kind in operation.provided.items() if kind is OutputCount}
    with np.errstate(all="ignore"):
        result = operation.kernel(*inputs, **operation.bind(attributes), **provided)
    return list(result) if isinstance(result, tuple | list) else [result]


def list_calls(operation):
    """Return cases as calls of the kernel: inputs, attributes and outputs; without cases that build a model."""
    try:
        cases = list_cases(operation.type, operation.since)
    except ModuleNotFoundError:
        pytest.importorskip("openvino")  # which computes the inputs of some cases
        raise
    cases = [c for c in cases if c.build is None and c.opset is None]
    calls = []
    for case in cases[:: max(1, len(cases) // SAMPLE)]:
        inputs = [None if x is None else np.asarray(x) for x in case.inputs]
        calls.append((inputs, case.attributes, call(operation, inputs, case.attributes)))
    return calls


def select(**fields):
    """Return the operations whose cards have some values, as parameters of a test."""
    chosen = [o for o in OPERATIONS if all(getattr(o, name) == value for name, value in fields.items())]
    assert chosen
    return pytest.mark.parametrize("operation", chosen, ids=str)


def get_bytes(array):
    """Return the bits of each element, as rows."""
    if array.dtype == object:
        array = np.array([repr(v) for v in array.reshape(-1)], "S64")
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).reshape(array.size, array.itemsize)


@select(kind="view")
def test_views_share_the_memory_of_the_first_input(operation):
    shared = [
        np.shares_memory(y, x[0])
        for x, _, outputs in list_calls(operation)
        for y in outputs
        if y.size and y.dtype != object
    ]
    assert any(shared)


@select(views="contiguous")
def test_contiguous_views_are_contiguous(operation):
    """Parts are, if they are taken along the first axis that is not 1."""
    checked = 0
    for inputs, _, outputs in list_calls(operation):
        x = inputs[0]
        for y in outputs:
            axis = next((i for i, (n, m) in enumerate(zip(x.shape, y.shape, strict=False)) if n != m), 0)
            if x.flags.c_contiguous and (y.size == x.size or x.shape[:axis] == (1,) * axis):
                assert y.flags.c_contiguous
                checked += 1
    assert checked


@select(is_overwritable=True)
def test_results_that_may_be_overwritten_are_new(operation):
    for inputs, _, outputs in list_calls(operation):
        assert isinstance(outputs[0], np.generic) or outputs[0].flags.writeable
        assert not any(np.shares_memory(x, outputs[0]) for x in inputs if x is not None)


@select(kind="elementwise")
def test_elements_depend_on_one_element_of_the_first_input(operation):
    checked = 0
    for inputs, attributes, (before, *_) in list_calls(operation):
        x = inputs[0]
        if x.size < 2 or not before.size or before.dtype == object:
            continue
        changed = x.copy()
        changed.reshape(-1)[0] = changed.reshape(-1)[-1]
        after = call(operation, [changed, *inputs[1:]], attributes)[0]
        assert after.shape == before.shape
        count = int((get_bytes(after) != get_bytes(before)).any(axis=1).sum())
        assert count <= max(1, before.size // x.size)
        checked += 1
    assert checked


@select(kind="rowwise")
def test_rowwise_results_have_the_shape_of_the_first_input(operation):
    calls = list_calls(operation)
    assert calls
    for inputs, _, outputs in calls:
        assert outputs[0].shape == inputs[0].shape


@select(keeps_values=True)
def test_values_are_kept(operation):
    for inputs, _, outputs in list_calls(operation):
        shaping = set(operation.shaped_by or ())
        known = {
            bytes(row)
            for i, x in enumerate(inputs)
            if x is not None and i not in shaping and x.dtype == outputs[0].dtype
            for row in get_bytes(x)
        }
        if operation.kind == "window" and outputs[0].dtype.kind == "f":  # of windows outside of the data
            known.add(np.finfo(outputs[0].dtype).min.tobytes())
        assert {bytes(row) for row in get_bytes(outputs[0])} <= known


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.shaped_by is not None], ids=str)
def test_other_inputs_do_not_determine_shapes(operation):
    """Floating-point inputs are replaced by ones, except the inputs that the card names."""
    for inputs, attributes, outputs in list_calls(operation):
        others = [
            np.ones_like(x) if x is not None and i not in operation.shaped_by and x.dtype.kind == "f" else x
            for i, x in enumerate(inputs)
        ]
        assert [y.shape for y in call(operation, others, attributes)] == [y.shape for y in outputs]


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.shaped_by], ids=str)
def test_named_inputs_exist(operation):
    assert max(operation.shaped_by) < len(operation.inputs) or operation.inputs[-1].variadic


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.lengths is not None], ids=str)
def test_lengths_are_an_input(operation):
    assert operation.inputs[operation.lengths].name == "sequence_lengths"


@select(discontinuous=True)
def test_discontinuous_results_jump(operation):
    """A tiny change of multiples of 1, 8.5 or 17 changes results much more, in some case."""
    jumps = []
    for inputs, attributes, outputs in list_calls(operation):
        if outputs[0].dtype == object or any(x is not None and x.dtype.kind not in "fiu" for x in inputs):
            continue
        others = [y if y is None else y.astype(np.float32) for y in inputs[1:]]
        if operation.type == "FakeConvert":  # a scale of 1 and a shift of 0
            others = [np.full_like(y, 1 - i) for i, y in enumerate(others)]
        for factor in (1, 8.5, 17):
            x = (np.arange(inputs[0].size, dtype=np.float32).reshape(inputs[0].shape) - 2) * factor
            below, above = (
                np.nan_to_num(call(operation, [(x + step).astype(np.float32), *others], attributes)[0].astype(float))
                for step in (-0.02, 0.02)
            )
            jumps.append(np.abs(above - below).max(initial=0))
    assert max(jumps) > 0.1


#: Operations that are not continuous functions of numbers, or jump only at 0 to the power of 0 or between many levels.
UNSUITABLE = {"Bucketize", "FakeConvert", "Power", "Select"}


@pytest.mark.parametrize(
    "operation",
    [
        o
        for o in OPERATIONS
        if o.kind == "elementwise"
        and o.category not in ("logical", "bitwise", "comparison", "type")
        and o.type not in UNSUITABLE
        and not any(a.required for a in o.attributes)
    ],
    ids=str,
)
def test_numbers_that_jump_are_discontinuous(operation):
    count = sum(not x.optional for x in operation.inputs)
    varying = [i for i in range(count) if i not in operation.scalars]
    operands = [np.array(0.5, np.float32)] * count
    for i, x in zip(varying, np.meshgrid(*[np.arange(-2.5, 3, 0.5, dtype=np.float32)] * len(varying)), strict=True):
        operands[i] = x
    with np.errstate(all="ignore"):
        value = operation.kernel(*operands).astype(np.float64)
        jumps = []
        for i, end in itertools.product(varying, (-9, 9)):
            moved = [np.nextafter(x, np.float32(end)) if k == i else x for k, x in enumerate(operands)]
            jumps.append(np.abs(operation.kernel(*moved).astype(np.float64) - value))
    sizes = np.nan_to_num(np.array(jumps), posinf=0.0)
    assert (sizes > 0.1 * np.maximum(np.abs(np.nan_to_num(value, posinf=0.0)), 1)).any() == operation.discontinuous


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.output_types], ids=str)
def test_outputs_have_the_stated_types(operation):
    defaults = {a.name: a.default for a in operation.attributes if not a.required}
    for inputs, attributes, outputs in list_calls(operation):
        bound = {**defaults, **operation.bind(attributes)}
        assert len(outputs) == len(operation.output_types)
        for source, output in zip(operation.output_types, outputs, strict=True):
            stated = inputs[source].dtype if isinstance(source, int) else bound.get(source, source)
            if isinstance(stated, str):
                stated = ElementType.parse(stated)
            assert output.dtype == getattr(stated, "dtype", stated), source


def test_cards_derive_what_their_kind_implies():
    relu, uniform, transpose = (registry.find(name, "opset8") for name in ("Relu", "RandomUniform", "Transpose"))
    assert (relu.shaped_by, relu.folding) == ((), "linear")
    assert uniform.folding == "never"
    assert transpose.keeps_values
    assert registry.get_card("NoSuchOperation", "opset1").kind == "other"


@select(gathers=True)
def test_gathering_takes_slices_along_an_axis(operation):
    checked = 0
    for (data, indices, axis, *_), attributes, (result, *_) in list_calls(operation):
        if attributes.get("batch_dims", 0) or data.dtype == object or not (indices.astype(np.int64) >= 0).all():
            continue
        expected = np.take(data, indices.astype(np.int64), int(axis.reshape(())), mode="clip")
        if (indices.astype(np.int64) < data.shape[int(axis.reshape(()))]).all():
            assert result.shape == expected.shape
            assert result.tobytes() == expected.tobytes()
            checked += 1
    assert checked


@select(has_levels=True)
def test_results_are_evenly_spaced_levels_within_limits(operation):
    checked = 0
    for inputs, attributes, (result, *_) in list_calls(operation):
        if any(x.size != 1 for x in inputs[1:]) or not result.size:
            continue
        x = inputs[0].astype(np.float64)
        low, high, first, last = (value.astype(np.float64).item() for value in inputs[1:])
        if low >= high or first == last:
            continue
        top = int(attributes["levels"]) - 1
        levels = (result.astype(np.float64) - first) / (last - first) * top
        np.testing.assert_allclose(levels, np.clip(np.rint(levels), 0, top), atol=0.02)
        assert (np.rint(levels[x <= low]) == 0).all()
        assert (np.rint(levels[x >= high]) == top).all()
        checked += 1
    assert checked


@select(multiplies_matrices=True)
def test_products_multiply_the_last_two_axes(operation):
    checked = 0
    for (a, b, *_), attributes, (result, *_) in list_calls(operation):
        if min(a.ndim, b.ndim) < 2 or a.dtype != np.float32 or b.dtype != np.float32:
            continue
        a, b = (
            x.swapaxes(-1, -2) if attributes.get(name) in (True, "true") else x
            for x, name in ((a, "transpose_a"), (b, "transpose_b"))
        )
        np.testing.assert_allclose(result, np.matmul(a, b), rtol=1e-3, atol=1e-3)
        checked += 1
    assert checked


@pytest.mark.parametrize("operation", list(registry.list_operations()), ids=str)
def test_shape_rules_exist(operation):
    """Only operations that the inference of shapes knows, and operations with bodies, have no rule."""
    is_structural = operation.type in ("Constant", "Parameter", "Result")
    assert (find_rule(operation) is None) == (operation.kind == "control" or is_structural)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.extremes], ids=str)
def test_values_are_within_the_inferred_bounds(operation):
    """Integers in random intervals give results between the bounds that follow from the intervals."""
    random = np.random.default_rng(list(operation.type.encode()))
    attributes = operation.bind(
        {a.name: "i64" if a.type is ElementType else "3" for a in operation.attributes if a.required}
    )
    is_reduction = operation.kind == "reduction"
    count = 1 if is_reduction else sum(not i.optional for i in operation.inputs)
    i64 = ELEMENT_TYPES["boolean" if "boolean" in operation.output_types else "i64"]
    axes = [np.array([0])] if is_reduction else []
    for _ in range(20):
        low = random.integers(1, 12, (count, 5))
        high = low + random.integers(0, 4, low.shape) * random.integers(0, 2, low.shape)
        values = [Value(None, None, (a.astype(float), b.astype(float))) for a, b in zip(low, high, strict=True)]
        known = [Value.of_array(array) for array in axes]
        (bounds,) = infer_bounds(operation, attributes, [*values, *known], i64)
        for _ in range(20):
            point = list(random.integers(low, high + 1))
            (result,) = call(operation, [*point, *axes], {a: str(v) for a, v in attributes.items()})[:1]
            assert (bounds[0] <= result).all()
            assert (result <= bounds[1]).all()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("elementwise", {"shaped_by": (), "shape": "broadcast_operands", "folding": "linear", "scratch": 0.0}),
        ("rowwise", {"shaped_by": (), "shape": "keep_shape", "folding": "small", "scratch": 1.0}),
        ("movement", {"shaped_by": None, "shape": None, "folding": "small", "scratch": 1.0, "keeps_values": False}),
        ("view", {"shaped_by": None, "folding": "small", "scratch": 0.0, "keeps_values": True}),
        ("window", {"shaped_by": None, "scratch": 1.0}),
        ("selection", {"scratch": 1.0}),
        ("product", {"shaped_by": None, "shape": None, "folding": "small", "scratch": 0.0, "keeps_values": False}),
        ("random", {"folding": "never", "scratch": 0.0}),
    ],
)
def test_kinds_determine_what_cards_do_not_state(kind, fields):
    card = Card(kind=kind)
    assert {name: getattr(card, name) for name in fields} == fields
    stated = Card(kind=kind, shape="infer_gather", shaped_by=(1,), folding="never", scratch=2.5)
    assert (stated.shape, stated.shaped_by, stated.folding, stated.scratch) == ("infer_gather", (1,), "never", 2.5)
