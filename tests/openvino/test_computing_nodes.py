"""Single nodes that are computed, types of results that follow from operations, and small functions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irrun
import irrun.openvino as ov
from irrun.openvino import _offline_transformations, compression, experimental, inference, passes, utils
from irrun.openvino.node import Node, create_node
from irrun.openvino.ports import Output
from irrun.openvino.serialization import unpack_model
from irrun.openvino.shape import PartialShape
from irrun.openvino.utils.decorators import custom_preprocess_function
from irrun.ops._support import registry

ops = ov.opset13


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def evaluate(node: Any, *arrays: Any) -> list[Any]:
    """Return the results of a node for some inputs."""
    outputs = [ov.Tensor(np.zeros(0, np.float32)) if t.is_dynamic() else ov.Tensor(t, [0]) for t in _list_types(node)]
    assert node.evaluate(outputs, [ov.Tensor(np.asarray(array)) for array in arrays])
    return [output.data.tolist() for output in outputs]


def _list_types(node: Any) -> list[Any]:
    return [output.element_type for output in node.outputs()]


# Computation


def test_nodes_with_bodies_are_computed() -> None:
    x = ops.parameter([4, 2], np.float32, name="x")
    then, other = (ops.parameter([4, 2], np.float32) for _ in range(2))
    branch = ov.op.if_op(ops.parameter([], bool).output(0))
    bodies = [ov.Model([ops.negative(then)], [then], "then"), ov.Model([ops.abs(other)], [other], "else")]
    for index, body in enumerate(bodies):
        branch.set_function(index, body)
    branch.set_input(x, then, other)
    branch.set_output(bodies[0].results[0], bodies[1].results[0])
    values = np.array([[1, -2]] * 4, np.float32)
    assert evaluate(branch, np.array(True), values) == [(-values).tolist()]
    assert evaluate(branch, np.array(False), values) == [np.abs(values).tolist()]


def test_loops_with_optional_inputs_are_computed() -> None:
    row, total = (ops.parameter([1], np.float32) for _ in range(2))
    body = ov.Model([ops.add(row, total)], [row, total], "body")
    node = ov.op.tensor_iterator()
    node.set_body(body)
    node.set_sliced_input(row, ops.parameter([3], np.float32), 0, 1, 1, -1, 0)
    node.set_merged_input(total, ops.parameter([1], np.float32), body.results[0])
    node.get_iter_value(body.results[0], -1)
    node.get_concatenated_slices(body.results[0], 0, 1, 1, -1, 0)
    assert evaluate(node, f32([1, 2, 4]), f32([10])) == [[17], [11, 13, 17]]


def test_only_the_last_iteration_is_returned() -> None:
    x = ops.parameter([1], np.float32)
    node = ov.op.tensor_iterator()
    node.set_body(ov.Model([ops.relu(x)], [x], "body"))
    with pytest.raises(RuntimeError, match="values of the last iteration only, found the iteration 0"):
        node.get_iter_value(node.get_body().results[0], 0)
    assert node.get_iter_value(node.get_body().results[0]).get_index() == 0


def test_numbers_of_outputs_are_passed_to_operations() -> None:
    data = ops.parameter([2, 4], np.float32)
    split = ops.split(data, ops.constant(i64(1)), 2)
    assert evaluate(split, f32([[1, 2, 3, 4]] * 2), i64(1)) == [[[1, 2]] * 2, [[3, 4]] * 2]
    parts = ops.variadic_split(data, ops.constant(i64(1)), ops.constant(i64([1, 3])))
    assert [len(v[0]) for v in evaluate(parts, f32([[1, 2, 3, 4]]), i64(1), i64([1, 3]))] == [1, 3]


def test_operations_with_states_start_anew() -> None:
    node = ops.random_uniform(ops.constant(i64([4])), f32(0), f32(1), "f32", 5, 6)
    first, second = (evaluate(node, i64([4]), f32(0), f32(1)) for _ in range(2))
    assert first == second
    read = ops.read_value(ops.parameter([2], np.float32), "v", np.float32, [2])
    assert evaluate(read, f32([1, 2])) == [[1, 2]]


def test_missing_optional_inputs_are_left_out() -> None:
    image = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    node = ops.squeeze(ops.parameter([1, 2], np.float32), ops.constant(i64([0])))
    assert evaluate(node, f32([[1, 2]]), i64([0])) == [[1, 2]]
    assert inference.compute_node(node, [f32([[1, 2]]), None])[0].tolist() == [1, 2]
    assert inference.compute_node(ops.relu(ops.parameter([1])), [-image])[0].max() == 0


def test_unsupported_operations_are_refused() -> None:
    node = Node("Nothing", "opset1", [ops.parameter([1]).output(0)])
    with pytest.raises(RuntimeError, match="unsupported operation Nothing of opset1"):
        node.evaluate([], [])
    assert inference.find_operation(node) is None
    with pytest.raises(RuntimeError, match="Nothing of opset1 is not registered"):
        create_node("Nothing", "opset1", [])


@pytest.fixture
def register() -> Iterator[Any]:
    """Return a function that registers operations until the test ends."""
    before = dict(vars(registry._registry))
    saved = {name: value.copy() if hasattr(value, "copy") else value for name, value in before.items()}
    function: Any = irrun.op
    yield function
    vars(registry._registry).update(saved)


def test_types_of_results_of_own_operations(register: Any) -> None:
    shapes: list[Any] = []

    @register("OwnCount", opset="own")  # type: ignore[untyped-decorator]
    def count(data: Any, other: Any = None) -> Any:
        shapes.append(data.shape)
        return np.array(data.size, np.int32), data.astype(np.float16)

    @register("OwnFailure", opset="own")  # type: ignore[untyped-decorator]
    def fail(data: Any) -> Any:
        raise ValueError

    data = ops.parameter(ov.PartialShape([2, ov.Dimension(3, 7), -1]), np.float32)
    node = create_node("OwnCount", "own", [data])
    assert [t.to_string() for t in _list_types(node)][:1] == ["i32"]
    assert shapes[0] == (2, 3, 1)
    assert _list_types(create_node("OwnCount", "own", [None, data])) == [ov.Type.dynamic]
    for unknown in (ops.parameter(ov.PartialShape.dynamic()), ops.parameter([1], ov.Type.dynamic)):
        assert _list_types(create_node("OwnCount", "own", [unknown]))[0] == unknown.element_type
    assert _list_types(create_node("OwnFailure", "own", [ops.parameter([1], np.int8)])) == [ov.Type.i8]


def test_numbers_of_outputs() -> None:
    x = ops.parameter([4], np.float32)
    axis = ops.constant(i64(0))
    assert inference.count_outputs(ops.split(x, axis, 2)) == 2
    assert inference.count_outputs(ops.variadic_split(x, axis, ops.constant(i64([1, 3])))) == 2
    unknown = ops.parameter(ov.PartialShape([-1]), np.int64)
    assert inference.count_outputs(ops.variadic_split(x, axis, unknown)) == 1
    assert inference.count_outputs(ov.op.if_op(ops.constant(True).output(0))) == 1
    assert inference.count_outputs(ops.topk(x, i64(1), 0, "max", "value")) == 2
    assert inference.count_outputs(ops.relu(x)) == 1
    assert inference.count_outputs(Node("VariadicSplit", "opset1", [x.output(0), None, None])) == 1


# Experimental functions


def test_tensors_of_ports_are_declared() -> None:
    relu = ops.relu(ops.parameter([2, 3], np.float32))
    experimental.set_element_type(relu.output(0).get_tensor(), ov.Type.i8)
    assert (relu.output(0).element_type, list(relu.output(0).shape)) == (ov.Type.i8, [2, 3])
    experimental.set_tensor_type(relu.output(0).get_tensor(), "f16", ov.PartialShape([-1, 4]))
    assert (relu.output(0).element_type, str(relu.output(0).partial_shape)) == (ov.Type.f16, "[?,4]")


def test_values_become_shapes() -> None:
    x = ops.parameter([2, 3], np.float32)
    shape = PartialShape([1])
    assert experimental.evaluate_as_partial_shape(ops.shape_of(x).output(0), shape)
    assert str(shape) == "[2,3]"
    assert experimental.evaluate_as_partial_shape(ops.constant(i64([[4, -1]])), shape)
    assert str(shape) == "[4,?]"
    assert not experimental.evaluate_as_partial_shape(ops.parameter([2], np.int64).output(0), shape)
    assert str(shape) == "[4,?]"


# Transformations


def test_transformations_that_irrun_does_not_have() -> None:
    for name in (
        "convert_sequence_to_tensor_iterator_transformation",
        "paged_attention_transformation",
        "stateful_to_stateless_transformation",
    ):
        with pytest.raises(RuntimeError, match=f"irrun does not have the transformation {name}"):
            getattr(_offline_transformations, name)(1, a=2)


def test_loops_with_states_stay() -> None:
    part, state = (ops.parameter([1], np.float32) for _ in range(2))
    node = ov.op.tensor_iterator()
    node.set_body(ov.Model([ops.add(part, state)], [part, state], "body"))
    data = ops.parameter([3], np.float32)
    node.set_sliced_input(part, data, 0, 1, 1, -1, 0)
    node.set_merged_input(state, ops.constant(f32([0])), node.get_body().results[0])
    node.set_friendly_name("sum")
    model = ov.Model([node.get_iter_value(node.get_body().results[0])], [data], "model")
    with pytest.raises(RuntimeError, match="LowLatency2: irrun cannot replace the state of sum"):
        _offline_transformations.apply_low_latency_transformation(model)


def test_weights_are_found_through_three_operations() -> None:
    node = ops.constant(f32([1, -2]))
    for _ in range(3):
        node = ops.negative(node)
    found = compression._find_value(Output(node, 0))
    assert found is not None
    assert found.tolist() == [-1, 2]
    assert compression._find_value(Output(ops.negative(node), 0)) is None
    assert compression._find_value(Output(ops.parameter([1]), 0)) is None
    assert compression._find_value(ops.split(ops.constant(f32([1, 2])), i64(0), 2).output(0)) is None


def test_streams_of_other_programs_are_refused() -> None:
    for stream in (b"", b"PK", 3, "text"):
        with pytest.raises((RuntimeError, TypeError), match=r"export_model of irrun|must be an io\.BytesIO object"):
            unpack_model(stream)


# Passes


def test_passes_have_names_and_texts() -> None:
    own = passes.ModelPass()
    assert (own.get_name(), repr(own), repr(passes.Manager())) == ("ModelPass", "<ModelPass>", "<Manager>")
    own.set_name("own")
    assert (own.get_name(), passes.ModelPass().get_name()) == ("own", "ModelPass")
    assert repr(passes.AnyInput()) == "<AnyInput>"
    with pytest.raises(RuntimeError, match=r"ModelPass\.run_on_model is not defined"):
        own.run_on_model(ov.Model([], [], "m"))
    assert not passes.MatcherPass().apply(ops.relu(ops.parameter([1])))


@pytest.mark.parametrize("is_last", [False, True])
def test_new_nodes_are_visited_next(is_last: bool) -> None:
    x = ops.parameter([1], np.float32)
    model = ov.Model([ops.negative(ops.abs(x, name="first"), name="second")], [x], "m")
    seen: list[str] = []
    new = [ops.exp(x, name="new"), ops.exp(x, name="newer")]

    def callback(matcher: Any) -> bool:
        node = matcher.get_match_root()
        seen.append(node.get_friendly_name())
        if node.get_friendly_name() == "first":
            for other in new:
                assert rewrite.register_new_node(other) is other
        return is_last

    rewrite = passes.MatcherPass()
    rewrite.register_matcher(
        passes.Matcher(passes.WrapType(["opset13.Abs", "opset13.Negative", "opset13.Exp"])), callback
    )
    assert passes.GraphRewrite(rewrite).run_on_model(model) is is_last
    assert seen == ["first", "new", "newer", "second"]


def test_later_passes_do_not_visit_replaced_nodes() -> None:
    x = ops.parameter([1], np.float32)
    model = ov.Model([ops.abs(x)], [x], "m")
    seen: list[int] = []
    graph = passes.GraphRewrite()
    for number, result in ((0, False), (1, True), (2, False)):

        def callback(_: Any, number: int = number, result: bool = result) -> bool:
            seen.append(number)
            return result

        added = passes.MatcherPass(passes.Matcher(passes.WrapType("opset13.Abs")), callback)
        assert graph.add_matcher(added) is added
    assert graph.run_on_model(model)
    assert seen == [0, 1]
    assert not passes.GraphRewrite().run_on_model(model)


def test_models_are_validated_after_passes_that_changed_them(monkeypatch: pytest.MonkeyPatch) -> None:
    validated: list[Any] = []
    monkeypatch.setattr(ov.Model, "validate_nodes_and_infer_types", lambda self: validated.append(self))

    class Pass(passes.ModelPass):
        def __init__(self, result: bool) -> None:
            self.result = result

        def run_on_model(self, model: ov.Model) -> bool:
            return self.result

    for result, validates, count in ((True, True, 1), (False, True, 0), (True, False, 0)):
        validated.clear()
        manager = passes.Manager()
        if not validates:
            manager.set_per_pass_validation(False)
        registered = Pass(result)
        assert manager.register_pass(registered) is registered
        manager.run_passes(ov.Model([], [], "m"))
        assert len(validated) == count


def test_trees_are_written_to_dot_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = ops.parameter([1], np.float32, name='x"y')
    model = ov.Model([ops.relu(x, name="relu")], [x], "m")
    for arguments, name in (
        ((), "graph.dot"),
        (("a",), "a.dot"),
        (("b.dot",), "b.dot"),
        (("c.svg", None, True), "c.svg.dot"),
    ):
        assert not passes.VisualizeTree(*arguments).run_on_model(model)
        text = (tmp_path / name).read_text()
        assert text.startswith("digraph {\n")
        assert text.endswith("}\n")
        assert 'label="Parameter\\nx\\"y"' in text
        assert text.count(" -> ") == 2
    assert sorted(os.listdir()) == ["a.dot", "b.dot", "c.svg.dot", "graph.dot"]


# Functions of utils


def test_small_functions() -> None:
    array = np.zeros(3, np.float32)
    assert utils.numpy_to_c(array) == array.ctypes.data
    assert utils.get_cmake_path() == ""
    assert utils.deprecated(name="x")(len) is len
    assert utils.make_postponed_constant(lambda: ov.Tensor(array)).get_data().tolist() == [0, 0, 0]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = utils.nothing

    class Own:
        @utils.deprecatedclassproperty("message")
        def name(cls) -> str:
            return cls.__name__  # type: ignore[attr-defined, no-any-return]

    assert (Own.name, Own().name) == ("Own", "Own")


def test_functions_of_preprocessing_may_return_nodes() -> None:
    @custom_preprocess_function
    def negate(output: Any) -> Any:
        """Negate."""
        return ops.negative(output)

    result = negate(ops.parameter([1]).output(0))
    assert (type(result), result.get_node().get_type_name(), negate.__doc__) == (Output, "Negative", "Negate.")


def test_files_become_tensors(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x01\x02\xff")
    tensor = ov.tensor_from_file(tmp_path / "x.bin")
    assert (tensor.element_type, tensor.data.tolist()) == (ov.Type.u8, [1, 2, 255])
