"""Patterns, rewrites and transformations of models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule


def build(ov: Any) -> tuple[Any, Any]:
    """Return a model that adds Relu of an input to the input and flattens it, and the opset."""
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([2, 3], np.float32, name="data")
    data.output(0).set_names({"data"})
    total = ops.add(data, ops.relu(data))
    flat = ops.reshape(total, ops.concat([ops.constant(np.array([-1])), ops.constant(np.array([1]))], 0), False)
    result = ops.result(flat, name="result")
    result.output(0).set_names({"result"})
    return ov.Model([result], [data], "model"), ops


def count(model: Any, node_type: str) -> int:
    return sum(node.get_type_name() == node_type for node in model.get_ordered_ops())


# -- patterns


def test_patterns_match_types_inputs_and_conditions(ov: Any) -> None:
    p = import_submodule(ov, "passes")
    ops = import_submodule(ov, "opset13")
    data, slope = ops.parameter([1, 3], np.float32), ops.parameter([], np.float32)
    relu, prelu = ops.relu(data), ops.prelu(data, slope)
    total = ops.add(slope, relu)

    def match(pattern: Any, value: Any) -> bool:
        return bool(p.Matcher(pattern, "test").match(value))

    assert match(p.WrapType("opset13.Relu"), relu)
    assert not match(p.WrapType("opset13.Relu"), prelu)
    assert match(p.WrapType("opset1::Relu", p.WrapType("opset13.Parameter").output(0)), relu)
    assert match(p.WrapType(["opset13.Relu", "opset13.PRelu"]), prelu)
    assert match(p.WrapType("opset13.PRelu", [p.AnyInput(), p.AnyInput()]), prelu)
    assert not match(p.WrapType("opset13.PRelu", [p.AnyInput()]), prelu)
    assert match(p.Or([p.WrapType("opset13.Relu"), p.WrapType("opset13.PRelu")]), prelu)
    assert match(p.WrapType("opset13.Add", [p.WrapType("opset13.Relu"), p.AnyInput()]), total)
    assert match(p.WrapType("opset13.Add", [p.AnyInput(), p.WrapType("opset13.Relu")]), total)
    assert match(ops.relu(p.AnyInput()), relu)
    assert not match(ops.relu(p.WrapType("opset13.Relu")), relu)
    assert match(relu, relu)
    assert match(p.AnyInput(lambda output: len(output.get_shape()) == 2), data)
    assert not match(p.AnyInput(lambda output: len(output.get_shape()) == 2), slope)
    both = p.AnyInput()
    assert match(ops.subtract(both, both), ops.subtract(relu, relu))
    assert not match(ops.subtract(both, both), ops.subtract(relu, data))


def test_optional_nodes_may_be_absent(ov: Any) -> None:
    p = import_submodule(ov, "passes")
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([1, 3], np.float32)
    absolute = ops.abs(data)
    relu = ops.relu(absolute)
    inner = p.WrapType("opset13.Abs", p.AnyInput())
    pattern = p.WrapType("opset13.Relu", p.Optional(["opset13.Sigmoid"], inner))
    assert p.Matcher(pattern, "absent").match(relu)
    assert p.Matcher(pattern, "present").match(ops.relu(ops.sigmoid(absolute)))
    assert not p.Matcher(pattern, "other").match(ops.relu(ops.tanh(absolute)))
    assert p.Matcher(p.Optional(["opset13.Add"], [absolute, data]), "first").match(absolute)
    assert not p.Matcher(p.Optional(["opset13.Relu"], lambda output: False), "condition").match(relu)


def test_predicates_check_shapes_types_and_attributes(ov: Any) -> None:
    p = import_submodule(ov, "passes")
    ops = import_submodule(ov, "opset13")
    static = ops.parameter([1, 3, 4], np.float32)
    dynamic = ops.parameter(ov.PartialShape([-1, 6]), np.int64)
    unknown = ops.parameter(ov.PartialShape.dynamic(), np.float32)
    expected = {
        p.consumers_count(0): (True, True, True),
        p.has_static_dim(1): (True, True, False),
        p.has_static_dims([0, 2]): (True, False, False),
        p.has_static_shape(): (True, False, False),
        p.has_static_rank(): (True, True, False),
        p.rank_equals(ov.Dimension(2)): (False, True, False),
        p.type_matches(ov.Type.i64): (False, True, False),
        p.type_matches_any([ov.Type.i32, ov.Type.f32]): (True, False, True),
        p.shape_matches("[A, 3, ?]"): (True, False, False),
        p.shape_matches("[A..., 4]"): (True, False, False),
        p.shape_matches("[A, 3, B..., 4]"): (True, False, False),
        p.shape_matches("[A, 3, 4, B...]"): (True, False, False),
        p.shape_matches("[A, B, C, D, E...]"): (False, False, False),
        p.shape_matches("[?, 6]"): (False, True, False),
        p.shape_matches("[A, A, 4]"): (False, False, False),
    }
    for predicate, results in expected.items():
        pattern = p.WrapType("opset13.Parameter", predicate)
        assert tuple(p.Matcher(pattern, "t").match(node) for node in (static, dynamic, unknown)) == results
    matcher = p.Matcher(p.WrapType("opset13.Parameter", p.shape_matches("[First..., Last]")), "symbols")
    assert matcher.match(static)
    assert matcher.get_symbols() == {"First": [1, 3], "Last": 4}
    softmax = ops.softmax(static, 1)
    for axis in (1, 2):
        pattern = p.WrapType("opset13.Softmax", p.attrs_match({"axis": axis}))
        assert p.Matcher(pattern, "axis").match(softmax) == (axis == 1)


def test_matchers_return_what_each_part_of_the_pattern_matched(ov: Any) -> None:
    p = import_submodule(ov, "passes")
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([2], np.float32)
    relu = ops.relu(data)
    pattern_data = p.WrapType("opset13.Parameter")
    pattern = p.WrapType("opset13.Relu", pattern_data)
    matcher = p.Matcher(pattern, "name")
    assert matcher.match(relu)
    assert matcher.get_name() == "name"
    assert matcher.get_match_root().get_name() == relu.get_name()
    assert matcher.get_match_value() == relu.output(0)
    assert [node.get_type_name() for node in matcher.get_match_nodes()] == ["Relu", "Parameter"]
    assert matcher.get_match_values() == [relu.output(0), data.output(0)]
    found = matcher.get_pattern_value_map()
    assert (found[pattern], found[pattern_data]) == (relu.output(0), data.output(0))


def test_types_that_do_not_exist_are_refused(ov: Any) -> None:
    p = import_submodule(ov, "passes")
    for name in ("", "Relu", "opset13", "opset99.Relu", "opset13.Nothing", "opset.Relu"):
        with pytest.raises(RuntimeError, match=r"Unsupported opset|Unrecognized operation"):
            p.WrapType(name)
    with pytest.raises(TypeError):
        p.Manager().register_pass(3)


# -- rewrites


def make_pass(ov: Any) -> Any:
    """Return a pass that replaces Relu by Exp of Relu, once for each Relu."""
    p = import_submodule(ov, "passes")
    ops = import_submodule(ov, "opset13")
    replace = import_submodule(ov, "utils").replace_node

    class Replace(p.MatcherPass):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.visited: list[str] = []
            relu = p.WrapType("opset13.Relu")

            def callback(matcher: Any) -> bool:
                root = matcher.get_match_root()
                self.visited.append(root.get_type_name())
                replace(root, self.register_new_node(ops.exp(root.input_value(0))))
                return True

            self.register_matcher(p.Matcher(relu, "Replace"), callback)

    return Replace()


@pytest.mark.parametrize("kind", ["manager", "GraphRewrite", "BackwardGraphRewrite", "apply"])
def test_passes_replace_nodes(ov: Any, kind: str) -> None:
    p = import_submodule(ov, "passes")
    model, _ = build(ov)
    item = make_pass(ov)
    if kind == "manager":
        manager = p.Manager()
        assert manager.register_pass(item) is item
        manager.run_passes(model)
    elif kind == "apply":
        assert any(item.apply(node) for node in model.get_ordered_ops())
    else:
        rewrite = getattr(p, kind)()
        rewrite.add_matcher(item)
        rewrite.run_on_model(model)
    assert (count(model, "Relu"), count(model, "Exp"), item.visited) == (0, 1, ["Relu"])
    array = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    outputs = ov.compile_model(model, "CPU")(array)
    assert np.allclose(outputs[0].reshape(2, 3), array + np.exp(array), rtol=1e-3)


def test_passes_over_models_run_in_order_and_infer_shapes_anew(ov: Any) -> None:
    p = import_submodule(ov, "passes")
    model, _ = build(ov)
    seen = []

    class Resize(p.ModelPass):  # type: ignore[misc,name-defined]
        def run_on_model(self, model: Any) -> bool:
            model.get_parameters()[0].set_partial_shape(ov.PartialShape([5, 3]))
            seen.append(list(model.get_results()[0].input_value(0).partial_shape.to_shape()))
            return True

    class Look(p.ModelPass):  # type: ignore[misc,name-defined]
        def run_on_model(self, model: Any) -> bool:
            seen.append(list(model.get_results()[0].input_value(0).partial_shape.to_shape()))
            return False

    manager = p.Manager()
    items = [Resize(), Look()]
    for item in items:
        manager.register_pass(item)
    manager.run_passes(model)
    assert seen == [[6, 1], [15, 1]]


# -- transformations


def run(ov: Any, item: Any, model: Any) -> Any:
    manager = import_submodule(ov, "passes").Manager()
    manager.register_pass(item)
    manager.run_passes(model)
    return model


def test_constants_are_folded(ov: Any) -> None:
    model, _ = build(ov)
    run(ov, import_submodule(ov, "passes").ConstantFolding(), model)
    assert (count(model, "Concat"), count(model, "Add"), count(model, "Reshape")) == (0, 1, 1)
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([2, 3], np.float32)
    model = ov.Model([ops.result(ops.shape_of(data))], [data], "shape")
    run(ov, import_submodule(ov, "passes").ConstantFolding(), model)
    assert count(model, "ShapeOf") == 0
    assert list(ov.compile_model(model, "CPU")(np.zeros((2, 3), np.float32))[0]) == [2, 3]


def test_models_are_converted_to_f16(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([2], np.float32)
    total = ops.add(ops.convert(ops.convert(data, "i32"), "f32"), ops.constant(np.ones(2, np.float32)))
    model = ov.Model([ops.result(total)], [data], "f16")
    run(ov, import_submodule(ov, "passes").ConvertFP32ToFP16(), model)
    types = [node.output(0).element_type for node in model.get_ordered_ops() if node.get_type_name() != "Result"]
    assert ov.Type.f32 not in types
    assert types.count(ov.Type.f16) == len(types) - 1
    assert model.outputs[0].element_type == ov.Type.f16


@pytest.mark.parametrize("by_name", [False, True])
def test_inputs_and_outputs_become_variables(ov: Any, by_name: bool) -> None:
    ops = import_submodule(ov, "opset13")
    step, state = ops.parameter([2], np.float32), ops.parameter([2], np.float32)
    state.output(0).set_names({"state"})
    total = ops.add(step, state)
    total.output(0).set_names({"total"})
    kept = ops.result(ops.negative(total))
    result = ops.result(total)
    model = ov.Model([kept, result], [step, state], "sum")
    pairs: Any = {"state": "total"} if by_name else [(state, result)]
    run(ov, import_submodule(ov, "passes").MakeStateful(pairs), model)
    assert (len(model.get_parameters()), len(model.get_results()), len(model.get_sinks())) == (1, 1, 1)
    request = ov.compile_model(model, "CPU").create_infer_request()
    sums = [request.infer({0: np.ones(2, np.float32)})[0].tolist() for _ in range(3)]
    assert sums == [[-1, -1], [-2, -2], [-3, -3]]


def test_serialize_writes_files(ov: Any, tmp_path: Path) -> None:
    p = import_submodule(ov, "passes")
    model, _ = build(ov)
    run(ov, p.Serialize(str(tmp_path / "m.xml"), str(tmp_path / "m.bin")), model)
    read = ov.Core().read_model(tmp_path / "m.xml", tmp_path / "m.bin")
    assert [node.get_type_name() for node in read.get_ordered_ops()] == [
        node.get_type_name() for node in model.get_ordered_ops()
    ]


def test_low_latency_leaves_models_without_loops(ov: Any) -> None:
    model, _ = build(ov)
    before = len(model.get_ordered_ops())
    assert len(run(ov, import_submodule(ov, "passes").LowLatency2(), model).get_ordered_ops()) == before


@pytest.mark.parametrize(("levels", "low", "high"), [(255, -1.0, 1.0), (256, -0.5, 1.5), (16, -1.0, 0.875)])
def test_quantized_weights_are_stored_as_integers(ov: Any, levels: int, low: float, high: float) -> None:
    ops = import_submodule(ov, "opset13")
    rng = np.random.default_rng(0)
    data = ops.parameter([2, 8], np.float32)
    weights = ops.constant(rng.uniform(low, high, (8, 4)).astype(np.float32))
    ranges = [np.full((1, 4), bound, np.float32) for bound in (low, high, low, high)]
    quantized = ops.fake_quantize(weights, *map(ops.constant, ranges), levels)
    model = ov.Model([ops.result(ops.matmul(data, quantized, False, False))], [data], "quantized")
    array = rng.standard_normal((2, 8), np.float32)
    before = ov.compile_model(model, "CPU")(array)[0]
    import_submodule(ov, "_offline_transformations").compress_quantize_weights_transformation(model)
    types = [n.get_element_type() for n in model.get_ordered_ops() if n.get_type_name() == "Constant"]
    assert (count(model, "FakeQuantize"), count(model, "Convert")) == (0, 1)
    assert count(model, "Subtract") == (levels == 256)
    assert (ov.Type.i4 if levels == 16 else ov.Type.i8) in types
    assert np.allclose(ov.compile_model(model, "CPU")(array)[0], before, rtol=2e-2, atol=2e-2)


def build_state(ov: Any) -> tuple[Any, Any]:
    """Return a model that adds its input to a variable, and the variable."""
    ops, util = import_submodule(ov, "opset13"), import_submodule(ov, "op.util")
    info = util.VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([1, 2]), ov.Type.f32, "sum"
    variable = util.Variable(info)
    data = ops.parameter([1, 2], np.float32, name="data")
    total = ops.add(ops.read_value(ops.constant(np.zeros((1, 2), np.float32)), variable), data)
    return ov.Model([ops.result(total)], [ops.assign(total, variable)], [data], "state"), variable


def test_models_list_add_and_remove_variables(ov: Any) -> None:
    model, variable = build_state(ov)
    assert [v.info.variable_id for v in model.get_variables()] == ["sum"]
    found = model.get_variable_by_id("sum").info
    assert (found.data_shape, found.data_type) == (ov.PartialShape([1, 2]), ov.Type.f32)
    assert model.get_variable_by_id("other") is None
    info = type(found)()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([3]), ov.Type.i32, "other"
    other = type(variable)(info)
    model.add_variables([other])
    assert {v.info.variable_id for v in model.get_variables()} == {"sum", "other"}
    model.remove_variable(other)
    assert {v.info.variable_id for v in model.get_variables()} == {"sum"}
    request = ov.compile_model(model, "CPU").create_infer_request()
    for expected in (1, 2):
        assert request.infer([np.ones((1, 2), np.float32)])[0].tolist() == [[expected, expected]]
    assert [state.name for state in request.query_state()] == ["sum"]


@pytest.mark.parametrize("by_name", [True, False])
def test_make_stateful_names_variables_after_tensors_or_nodes(ov: Any, by_name: bool) -> None:
    ops, passes = import_submodule(ov, "opset13"), import_submodule(ov, "passes")
    data = ops.parameter([1, 2], np.float32, name="data")
    data.output(0).set_names({"in"})
    relu = ops.relu(data)
    relu.output(0).set_names({"out"})
    result = ops.result(relu, name="result")
    model = ov.Model([result, ops.result(ops.exp(relu))], [data], "model")
    manager = passes.Manager()
    manager.register_pass(passes.MakeStateful({"in": "out"} if by_name else [(data, result)]))
    manager.run_passes(model)
    assert [v.info.variable_id for v in model.get_variables()] == ["inout" if by_name else "dataresult"]
    assert len(model.inputs) == 0
    assert len(model.outputs) == 1


def test_replaced_nodes_leave_the_friendly_names(ov: Any) -> None:
    model, ops = build(ov)
    relu = next(node for node in model.get_ops() if node.get_type_name() == "Relu")
    exp = ops.exp(relu.input_value(0))
    exp.set_friendly_name("mine")
    import_submodule(ov, "utils").replace_node(relu, exp)
    assert exp.get_friendly_name() == "mine"
    assert count(model, "Relu") == 0


def test_visualize_tree_writes_a_graph(ov: Any, tmp_path: Path) -> None:
    model, _ = build(ov)
    passes = import_submodule(ov, "passes")
    manager = passes.Manager()
    manager.register_pass(passes.VisualizeTree(file_name=str(tmp_path / "graph.svg")))
    manager.run_passes(model)
    text = (tmp_path / "graph.svg.dot").read_text()
    assert text.startswith("digraph")
    assert text.count("->") >= 6
    assert "Relu" in text


def test_passes_that_write_models_report_no_change(irrun_ov: Any, tmp_path: Path) -> None:
    model, _ = build(irrun_ov)
    passes = import_submodule(irrun_ov, "passes")
    for write in (
        passes.VisualizeTree(str(tmp_path / "graph.dot")),
        passes.Serialize(str(tmp_path / "m.xml"), str(tmp_path / "m.bin")),
    ):
        assert write.run_on_model(model) is False
    assert {path.name for path in tmp_path.iterdir()} == {"graph.dot", "m.xml", "m.bin"}
