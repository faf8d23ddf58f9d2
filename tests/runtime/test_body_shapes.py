"""Shapes of the outputs of loops and branches, given the shapes that their bodies infer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irrun.element_types import ElementType
from irrun.ir.graph import BackEdge, Body, Graph, Layer, Port, PortMapEntry
from irrun.ops.shape_rules import ShapeError, Value
from irrun.runtime.body_shapes import _LoopBody, infer_bodies
from irrun.shapes import parse_shape

F32 = ElementType.parse("f32")
#: The ids of a Parameter and a Result of the body, and of the ports of the layer.
PARAMETER, RESULT, INPUT, OUTPUT = 10, 20, 1, 2


def known(text):
    return Value(None if text is None else parse_shape(text))


def scalar(number):
    return Value.of_array(np.array(number))


def describe(value):
    return None if value.shape is None else str(value.shape)


class Inference:
    """The inference of a body whose results are given."""

    def __init__(self, results, has_failed=False):
        self.results = results
        self.has_failed = has_failed

    def get_results(self):
        return self.results


def make_loop(kind="TensorIterator", inputs=(), outputs=(), back_edges=((RESULT, PARAMETER),)):
    body = Body(Graph([], []), list(inputs), list(outputs), [BackEdge(*edge) for edge in back_edges])
    ports = [Port(8), Port(9)] if kind == "Loop" else []
    return Layer(0, "loop", kind, inputs=[*ports, Port(INPUT)], outputs=[Port(OUTPUT, F32)], bodies={"body": body})


def infer(layer, inputs, make_results):
    """Infer the outputs of a loop; return their shapes, and the arguments of each inference of the body."""
    calls: list[Any] = []

    def infer_body(body, arguments):
        assert body is layer.bodies["body"]
        calls.append({key: describe(value) for key, value in arguments.items()})
        return make_results(arguments, len(calls))

    values, (last,) = infer_bodies(infer_body, layer, inputs)
    assert isinstance(last, Inference)
    return [describe(value) for value in values], calls


STATE = PortMapEntry(INPUT, PARAMETER)
LAST = PortMapEntry(OUTPUT, RESULT)


@pytest.mark.parametrize(
    ("before", "after", "shapes", "expected"),
    [
        ("2,3", ["2,3"], ["[2,3]"], "[2,3]"),
        ("?,3", ["2,3"], ["[?,3]"], "[2,3]"),
        (None, ["2,3"], [None], "[2,3]"),
        ("2,3", ["2,4", "2,4"], ["[2,3]", "[2,?]"], "[2,4]"),
        ("2,3", ["2,3,1", "5"], ["[2,3]", None], "[5]"),
        ("2,3", [None, "5"], ["[2,3]", None], "[5]"),
        ("2,3,4,5", ["3,3,4,5", "3,4,4,5", "3,4,5,5"], ["[2,3,4,5]", "[?,3,4,5]", "[?,?,4,5]", None], "[3,4,5,5]"),
    ],
)
def test_states_that_change_become_dynamic(before, after, shapes, expected):
    """In the last of four attempts, the rank is unknown."""
    layer = make_loop(inputs=[STATE], outputs=[LAST])

    def make_results(arguments, count):
        return Inference({RESULT: known(after[min(count, len(after)) - 1])})

    found, calls = infer(layer, {INPUT: known(before)}, make_results)
    assert [call[PARAMETER] for call in calls] == shapes
    assert found == [expected]


def test_states_without_results_or_inputs_keep_their_shapes():
    layer = make_loop(inputs=[STATE], outputs=[LAST])
    assert infer(layer, {INPUT: known("2,3")}, lambda *_: Inference({})) == ([None], [{PARAMETER: "[2,3]"}])
    assert infer(layer, {}, lambda *_: Inference({RESULT: known("2")})) == (["[2]"], [{}])
    failing = Inference({RESULT: known("4")}, has_failed=True)
    assert infer(layer, {INPUT: known("2,3")}, lambda *_: failing) == (["[4]"], [{PARAMETER: "[2,3]"}])


def test_only_values_of_states_change_between_iterations():
    """The value of the first iteration is not that of the others; invariant values are."""
    layer = make_loop(inputs=[STATE, PortMapEntry(INPUT, 11)], outputs=[LAST])
    arrays = []

    def infer_body(body, arguments):
        arrays.append({key: value.get_array() for key, value in arguments.items()})
        return Inference({RESULT: known("2")})

    infer_bodies(infer_body, layer, {INPUT: Value.of_array(np.ones(2))})
    assert arrays[0][PARAMETER] is None
    assert arrays[0][11].tolist() == [1, 1]


def slices(start=0, end=-1, stride=1, part_size=1, axis=0):
    return PortMapEntry(INPUT, PARAMETER, axis, start, end, stride, part_size)


@pytest.mark.parametrize(
    ("entry", "shape", "count", "slice"),
    [
        (slices(), "6,2", 6, "[1,2]"),
        (slices(axis=-1), "6,2", 2, "[6,1]"),
        (slices(part_size=2, stride=2), "6,2", 3, "[2,2]"),
        (slices(part_size=2, stride=2), "7,2", 3, "[2,2]"),
        (slices(part_size=3), "5,2", 3, "[3,2]"),
        (slices(-1, 0, -1), "6,2", 6, "[1,2]"),
        (slices(-1, 0, -2, 2), "6,2", 3, "[2,2]"),
        (slices(1, 3), "6,2", 3, "[1,2]"),
        (slices(1, -2), "6,2", 4, "[1,2]"),
        (slices(0, 9), "6,2", 6, "[1,2]"),
        (slices(part_size=7), "6,2", 0, "[7,2]"),
        (slices(), "?,2", None, "[1,2]"),
        (slices(), None, None, None),
    ],
)
def test_slices_are_counted(entry, shape, count, slice):
    loop = _LoopBody(None, make_loop(), {}, make_loop().bodies["body"])  # type: ignore[arg-type]
    assert describe(loop.slice(entry, known(shape))) == slice
    assert loop.slices == [count]
    assert loop.count_iterations({}, {}) == count


def test_values_that_are_not_sliced_are_passed_whole():
    loop = _LoopBody(None, make_loop(), {}, make_loop().bodies["body"])  # type: ignore[arg-type]
    value = known("6,2")
    assert loop.slice(PortMapEntry(INPUT, PARAMETER), value) is value
    assert loop.slices == []
    with pytest.raises(ShapeError):
        loop.slice(slices(axis=2), value)


def test_first_known_count_is_the_number_of_iterations():
    layer = make_loop(inputs=[slices(), slices()], outputs=[PortMapEntry(OUTPUT, RESULT, 0)], back_edges=())
    loop = _LoopBody(None, layer, {}, layer.bodies["body"])  # type: ignore[arg-type]
    loop.slices = [None, 3, 4]
    assert loop.count_iterations({}, {}) == 3
    loop.slices = [None, None]
    assert loop.count_iterations({}, {}) is None


@pytest.mark.parametrize(
    ("start", "end", "part_size", "expected"), [(0, 6, 1, 6), (0, 6, 2, 3), (-1, -7, 1, 6), (6, 0, 3, 2)]
)
def test_outputs_count_iterations_without_slices(start, end, part_size, expected):
    outputs = [PortMapEntry(OUTPUT, RESULT), PortMapEntry(OUTPUT, RESULT, 0, start, end, 1, part_size)]
    layer = make_loop(outputs=outputs)
    loop = _LoopBody(None, layer, {}, layer.bodies["body"])  # type: ignore[arg-type]
    assert loop.count_iterations({}, {}) == expected
    layer = make_loop(outputs=outputs[:1])
    assert _LoopBody(None, layer, {}, layer.bodies["body"]).count_iterations({}, {}) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "condition", "goes_on", "expected"),
    [
        (5, True, True, 5),
        (5, True, None, None),
        (5, None, True, None),
        (None, True, True, None),
        (-1, True, True, None),
        (5, False, None, 0),
        (0, None, None, 0),
        (5, True, False, 1),
        (None, True, False, 1),
        (5, None, False, None),
        (0, True, False, 0),
    ],
)
def test_iterations_of_loops(limit, condition, goes_on, expected):
    outputs = [PortMapEntry(OUTPUT, RESULT, 0), PortMapEntry(-1, 21, purpose="execution_condition")]
    layer = make_loop("Loop", [STATE], outputs)
    inputs = {8: limit, 9: condition}
    known_inputs = {port: scalar(value) for port, value in inputs.items() if value is not None}
    results = {RESULT: known("2,3"), 21: None if goes_on is None else scalar(goes_on)}
    found, _ = infer(layer, {**known_inputs, INPUT: known("2,3")}, lambda *_: Inference(results))
    loop = _LoopBody(None, layer, known_inputs, layer.bodies["body"])  # type: ignore[arg-type]
    assert loop.count_iterations(results, {}) == expected
    assert found == [f"[{'?' if expected is None else 2 * expected},3]"]


@pytest.mark.parametrize(("condition", "expected"), [(True, "[2,4]"), (None, "[2,?]")])
def test_loops_that_may_be_skipped_return_their_initial_states(condition, expected):
    outputs = [LAST, PortMapEntry(-1, 21, purpose="execution_condition")]
    layer = make_loop("Loop", [STATE], outputs)
    inputs = {8: scalar(3), INPUT: known("2,3"), **({} if condition is None else {9: scalar(condition)})}
    results = {RESULT: known("2,4"), 21: scalar(True)}
    assert infer(layer, inputs, lambda *_: Inference(results))[0] == [expected]


def test_scalars_are_concatenated_to_a_vector():
    layer = make_loop(outputs=[PortMapEntry(OUTPUT, RESULT, 0, 0, 4)], back_edges=())
    assert infer(layer, {}, lambda *_: Inference({RESULT: known("")}))[0] == ["[4]"]
    assert infer(layer, {}, lambda *_: Inference({RESULT: known(None)}))[0] == [None]
    assert infer(layer, {}, lambda *_: Inference({}))[0] == [None]


def test_loops_without_a_body_have_unknown_outputs():
    layer = Layer(0, "loop", "Loop", outputs=[Port(OUTPUT), Port(3)])
    values, inferences = infer_bodies(lambda *_: Inference({}), layer, {})
    assert ([describe(value) for value in values], inferences) == ([None, None], [])


# Branches


def make_branches():
    bodies = {}
    for name in ("then_body", "else_body"):
        bodies[name] = Body(Graph([], []), [PortMapEntry(INPUT, PARAMETER)], [PortMapEntry(OUTPUT, RESULT)], [])
    return Layer(0, "if", "If", inputs=[Port(0), Port(INPUT)], outputs=[Port(OUTPUT, F32)], bodies=bodies)


def infer_branches(condition, shapes, inputs=()):
    layer = make_branches()
    taken = []

    def infer_body(body, arguments):
        (name,) = (name for name, other in layer.bodies.items() if other is body)
        taken.append((name, describe(arguments[PARAMETER])))
        return Inference({RESULT: known(shapes[len(taken) - 1])})

    values, inferences = infer_bodies(infer_body, layer, {0: condition, **dict(inputs)})
    assert len(inferences) == len(taken)
    return [describe(value) for value in values], taken


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (True, ["then_body"]),
        (False, ["else_body"]),
        ([True], ["then_body"]),
        (None, ["then_body", "else_body"]),
    ],
)
def test_branches_that_a_constant_excludes_are_not_inferred(condition, names):
    value = known("") if condition is None else scalar(condition)
    found, taken = infer_branches(value, ["2,3", "2,3"], {INPUT: known("4")})
    assert (found, taken) == (["[2,3]"], [(name, "[4]") for name in names])


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (["2,3", "2,4"], "[2,3..4]"),
        (["2,3", "2,?"], "[2,?]"),
        (["2,3", "2"], None),
        (["2", ""], "[?]"),
        (["2,3", None], None),
        ([None, None], None),
    ],
)
def test_shapes_of_branches_are_united(shapes, expected):
    found, taken = infer_branches(known("1"), shapes)
    assert found == [expected]
    assert taken == [("then_body", None), ("else_body", None)]  # the input is not known


def test_conditions_have_one_element():
    for shape in ("", "1", "?", "1,1", None):
        infer_branches(known(shape), ["1", "1"])
    for shape in ("2", "0", "1,2"):
        with pytest.raises(ShapeError, match=rf"^cond has the shape \[{shape}\], expected a single element$"):
            infer_branches(known(shape), ["1", "1"])
