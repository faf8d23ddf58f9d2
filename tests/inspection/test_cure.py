"""The layers of a quantized model to keep in floating point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ir_text import write_row_loop

import irrun
from inspection import faults, networks
from inspection.graphs import Row, make_model
from irrun.data.labels import read_labels
from irrun.inspection import Cure, find_cure
from irrun.inspection.cure_search import LOWEST_DB, rate_outputs
from irrun.inspection.cured_model import _make_name, make_cured_model, measure_in_openvino
from irrun.ir.constant import Constant
from irrun.ir.graph import Edge, Layer, Port
from irrun.ir.model import Model

F32 = irrun.ElementType.parse("f32")


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    pytest.importorskip("openvino")
    return irrun.read_model(networks.save(networks.make_resnet((1, 1)), tmp_path_factory.mktemp("net"), "resnet"))


def quantize(model: Model, inputs, names=None, coarse=()) -> Model:
    """Return a model with a FakeQuantize before the input of each convolution, coarser for some of them."""
    ranges = {}

    def observe(layer, arguments, outputs, seconds, scope):
        ranges[layer.name] = [float(arguments[0].min()), float(arguments[0].max())]

    irrun.compile_model(model, optimize=False)(inputs, observers=[observe])
    result = faults.copy_model(model)
    graph = result.graph
    next_id = max(n.id for n in graph.layers) + 1
    for layer in [n for n in graph.layers if n.type == "Convolution"]:
        if names is not None and layer.name not in names:
            continue
        ids = []
        for value in ranges[layer.name] * 2:
            constant = Constant.from_array(np.array(value, np.float32), F32)
            graph.layers.append(
                Layer(next_id, f"{layer.name}/bound{len(ids)}", "Constant", outputs=[Port(0)], constant=constant)
            )
            ids.append(next_id)
            next_id += 1
        levels = "4" if layer.name in coarse else "256"
        quantizer = Layer(
            next_id,
            f"{layer.name}/fq_input_0",
            "FakeQuantize",
            attributes={"levels": levels},
            inputs=[Port(i) for i in range(5)],
            outputs=[Port(5)],
        )
        graph.layers.append(quantizer)
        edge = next(e for e in graph.edges if e.to_layer == layer.id and e.to_port == layer.inputs[0].id)
        graph.edges.remove(edge)
        graph.edges.append(Edge(edge.from_layer, edge.from_port, next_id, 0))
        graph.edges.append(Edge(next_id, 5, edge.to_layer, edge.to_port))
        graph.edges += [Edge(ids[i], 0, next_id, i + 1) for i in range(4)]
        next_id += 1
    return result


def measure(model, other, inputs):
    a, b = (irrun.compile_model(m)(inputs)[0].astype(np.float64) for m in (model, other))
    return 10 * np.log10(np.sum(a**2) / np.sum((a - b) ** 2))


def test_worst_layers_are_found_and_the_prediction_holds(exact):
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)
    names = [n.name for n in exact.graph.layers if n.type == "Convolution"]
    coarse = (names[2], names[5])
    quantized = quantize(exact, x, coarse=coarse)
    cure = find_cure(exact, quantized, [x], 2)
    assert {step.layer for step in cure.steps} == set(coarse)
    assert cure.initial_db == pytest.approx(measure(exact, quantized, x), abs=1e-3)
    for count in (1, 2):
        kept = [step.layer for step in cure.steps[:count]]
        again = quantize(exact, x, [n for n in names if n not in kept], coarse)
        assert cure.steps[count - 1].sqnr_db == pytest.approx(measure(exact, again, x), abs=1e-3)
    assert find_cure(quantized, exact, [x], 1).steps == cure.steps[:1]
    assert set(cure.single_db) == set(names)
    assert set(find_cure(exact, quantize(exact, x, names[1:3]), [x], 1).single_db) == set(names[1:3])
    assert set(cure.to_json()) == {*("initial_db", "layers", "single_db", "held_out_db", "advice", "ignored_scope")}


def test_models_that_are_not_quantized_are_refused(exact):
    with pytest.raises(irrun.InputError, match="expected a quantized and a floating-point model"):
        find_cure(exact, exact, [np.zeros((1, 3, 32, 32), np.float32)], 1)
    with pytest.raises(irrun.InputError, match="a cure requires two models, found 'f64'"):
        find_cure(exact, "f64", [], 1)


# Networks of known errors

W1 = np.float32([[1, 0.5], [0.25, -1]])
W2 = np.float32([[0.5, 0.25], [1, -0.5]])
SETS = [np.float32([[0.3, 0.61]]), np.float32([[0.9, -0.42], [0.17, 0.05]])]


def make_bounds(name, low, high):
    return [Row(f"{name}/{i}", "Constant", value=np.float32(v)) for i, v in enumerate((low, high, low, high))]


def make_quantizer(name, source, levels, low=-1.0, high=1.0):
    bounds = make_bounds(name, low, high)
    inputs = [source, *(row.name for row in bounds)]
    return [*bounds, Row(name, "FakeQuantize", inputs, {"levels": str(levels)})]


def make_perceptron(q1=0, q2=0, parameters=("x", "z"), moved=False):
    """Return a network with two products and two outputs, with quantizers of some levels before the products."""
    rows = [Row(name, "Parameter") for name in parameters]
    rows += [*make_quantizer("q1", "x", q1)] if q1 else []
    rows += [Row("w1", "Constant", value=W1), Row("m1", "MatMul", ["q1" if q1 else "x", "w1"])]
    rows += [Row("r", "Relu", ["m1"]), Row("a", "Add", ["r", "z"])]
    source = "a"
    if q2:
        rows += make_quantizer("q2", "a", q2, 0.0, 2.0)
        source = "q2"
    if moved:
        rows += [Row("order", "Constant", value=np.int64([0, 1])), Row("t", "Transpose", [source, "order"])]
        source = "t"
    rows += [Row("w2", "Constant", value=W2), Row("m2", "MatMul", [source, "w2"])]
    return make_model(*rows, Row("y1", "Result", ["a"]), Row("y2", "Result", ["m2"]))


def run(model, sets, order=("x", "z")):
    """Return the outputs of all runs, with z = 0.1."""
    compiled = irrun.compile_model(model, optimize=False)
    return [compiled({"x": x, "z": np.full_like(x, 0.1)}).to_tuple() for x in sets]


def predict(model, exact, sets=SETS):
    """Return the mean over the outputs of the SQNR over all runs."""
    ratios = []
    for i in range(2):
        pairs = [
            (a[i].astype(np.float64), b[i].astype(np.float64))
            for a, b in zip(run(model, sets), run(exact, sets), strict=True)
        ]
        noise = sum(float(np.sum((a - b) ** 2)) for a, b in pairs)
        signal = sum(float(np.sum(b**2)) for _, b in pairs)
        if noise:
            ratios.append(10 * math.log10(signal / noise))
    return sum(ratios) / len(ratios)


def get_inputs(sets=SETS):
    return [{"x": x, "z": np.full_like(x, 0.1)} for x in sets]


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("parameters", [("x", "z"), ("z", "x")])
def test_error_is_that_over_all_outputs_and_runs(moved, parameters):
    exact = make_perceptron(moved=moved)
    quantized = make_perceptron(16, 8, parameters, moved)
    cure = find_cure(exact, quantized, get_inputs(), 5)
    assert cure.initial_db == pytest.approx(predict(quantized, exact))
    assert cure.single_db == {
        "m1": pytest.approx(predict(make_perceptron(q2=8), exact)),
        "m2": pytest.approx(predict(make_perceptron(q1=16), exact)),
    }
    assert sorted(step.layer for step in cure.steps) == ["m1", "m2"]
    assert cure.steps[0].sqnr_db == pytest.approx(max(cure.single_db.values()))
    assert cure.steps[1].sqnr_db == math.inf
    assert {step.type for step in cure.steps} == {"MatMul"}
    again = find_cure(quantized, exact, get_inputs(), 1)
    assert again.initial_db == pytest.approx(cure.initial_db)
    assert [step.layer for step in again.steps] == [cure.steps[0].layer]
    assert cure.to_json()["layers"][0] == {
        "layer": cure.steps[0].layer,
        "type": "MatMul",
        "sqnr_db": cure.steps[0].sqnr_db,
    }
    assert find_cure(exact, quantized, get_inputs(), 0).steps == []


def test_layers_that_do_not_help_are_not_kept():
    exact = make_perceptron()
    quantized = make_perceptron(3, 16)
    sets = [np.float32([[1, -1], [0, 1]])]  # which three levels represent
    cure = find_cure(exact, quantized, get_inputs(sets), 5)
    assert cure.single_db["m1"] == pytest.approx(cure.initial_db)
    assert [step.layer for step in cure.steps] == ["m2"]
    assert find_cure(exact, make_perceptron(3), get_inputs(sets), 5).initial_db == math.inf


def make_weights(kind, scale=1):
    """Return y = (x + x) times weights that are stored in a type."""
    value = {"i8": np.int8([[1, 2]]), "i32": np.int32([[1, 2]]), "f16": np.float16([[1, 2]])}[kind]
    rows = [
        Row("x", "Parameter"),
        Row("s", "Add", ["x", "x"]),
        Row("w", "Constant", value=value),
        Row("f", "Convert", ["w"], {"destination_type": "f32"}),
        Row("k", "Constant", value=np.float32(scale)),
        Row("v", "Multiply", ["f", "k"]),
        Row("p", "Multiply", ["s", "v"]),
        *make_quantizer("q", "p", 256, 0.0, 8.0),
        Row("y", "Result", ["q"]),
    ]
    return make_model(*rows)


def make_unquantized():
    rows = [
        Row("x", "Parameter"),
        Row("s", "Add", ["x", "x"]),
        Row("v", "Constant", value=np.float32([[1.1, 2.1]])),
        Row("p", "Multiply", ["s", "v"]),
        Row("y", "Result", ["p"]),
    ]
    return make_model(*rows)


@pytest.mark.parametrize(("kind", "layers"), [("i8", ["p"]), ("i32", []), ("f16", [])])
def test_layers_with_weights_of_eight_bits_are_candidates(kind, layers):
    cure = find_cure(make_unquantized(), make_weights(kind), [np.float32([[1, 1]])], 3)
    assert list(cure.single_db) == layers
    assert [step.layer for step in cure.steps] == layers


def test_layers_that_move_or_join_values_are_not_candidates():
    def make_network(levels):
        rows = [Row("x", "Parameter"), *(make_quantizer("q", "x", levels) if levels else [])]
        source = "q" if levels else "x"
        rows += [
            Row("shape", "Constant", value=np.int64([2, 1])),
            Row("reshape", "Reshape", [source, "shape"], {"special_zero": "false"}),
            Row("join", "Concat", ["reshape", "reshape"], {"axis": "1"}),
            Row("e", "Exp", ["reshape"]),
            Row("sum", "Subtract", ["e", "join"]),
            Row("y", "Result", ["sum"]),
        ]
        return make_model(*rows)

    cure = find_cure(make_network(0), make_network(4), [np.float32([[0.3, 0.7]])], 3)
    assert list(cure.single_db) == ["e"]
    assert [step.layer for step in cure.steps] == ["e"]


def test_layers_that_only_the_quantized_model_has_are_not_candidates():
    exact = make_perceptron()
    quantized = make_perceptron(16, 8)
    next(n for n in quantized.graph.layers if n.name == "m1").name = "other"
    next(n for n in exact.graph.layers if n.name == "m1").type = "Unknown"
    with pytest.raises(irrun.IrrunError):
        find_cure(exact, quantized, get_inputs(), 1)


def test_number_of_quantizers_is_stated():
    quantized = make_perceptron(16, 8)
    message = "expected a quantized and a floating-point model, found 2 FakeQuantize in both"
    with pytest.raises(irrun.InputError, match=message):
        find_cure(quantized, make_perceptron(4, 4), get_inputs(), 1)


def test_models_are_read_from_files(tmp_path):
    irrun.save_model(make_perceptron(), tmp_path / "exact.xml")
    irrun.save_model(make_perceptron(16, 8), tmp_path / "quantized.xml")
    cure = find_cure(str(tmp_path / "exact.xml"), tmp_path / "quantized.xml", get_inputs(), 1)
    assert cure.initial_db == pytest.approx(predict(make_perceptron(16, 8), make_perceptron()))


@pytest.mark.parametrize("is_quantized", [False, True])
def test_outputs_of_one_model_only_are_left_out(is_quantized):
    exact, quantized = make_perceptron(), make_perceptron(16, 8)
    expected = find_cure(exact, quantized, get_inputs(), 1)
    graph = (quantized if is_quantized else exact).graph
    graph.layers.append(Layer(90, "last", "ShapeOf", "opset3", {"output_type": "i64"}, [Port(0)], [Port(1)]))
    graph.layers.append(Layer(91, "y3", "Result", inputs=[Port(0)]))
    source = next(e for e in graph.edges if graph.layers[e.to_layer].name == "m1")
    graph.edges += [Edge(source.from_layer, source.from_port, 90, 0), Edge(90, 1, 91, 0)]
    assert find_cure(exact, quantized, get_inputs(), 1).initial_db == pytest.approx(expected.initial_db)
    assert find_cure(quantized, exact, get_inputs(), 1).initial_db == pytest.approx(expected.initial_db)


def test_outputs_that_are_zero_are_left_out():
    exact, quantized = make_perceptron(), make_perceptron(16, 8)  # whose levels do not include 0
    assert find_cure(exact, quantized, [{"x": np.zeros((1, 2), np.float32), "z": np.zeros((1, 2), np.float32)}], 1) == (
        Cure(math.inf, [], {"m1": math.inf, "m2": math.inf})
    )


@pytest.mark.parametrize("change", [lambda row: row._replace(value=W2[:, :1]), lambda row: row])
def test_outputs_of_other_shapes_are_left_out(change):
    rows = [Row("x", "Parameter"), Row("w1", "Constant", value=W1), Row("w2", "Constant", value=W2)]
    rows += [Row("m1", "MatMul", ["x", "w1"]), Row("m2", "MatMul", ["x", "w2"])]
    results = [Row("y1", "Result", ["m1"]), Row("y2", "Result", ["m2"])]
    quantizer = make_quantizer("q", "x", 16)
    exact = make_model(*rows[:2], change(rows[2]), *rows[3:], *results)
    quantized = make_model(*rows[:3], *quantizer, rows[3]._replace(sources=["q", "w1"]), rows[4], *results)
    cure = find_cure(exact, quantized, [SETS[0]], 1)
    assert [step.layer for step in cure.steps] == ["m1"]
    pairs = [irrun.compile_model(m, optimize=False)(SETS[0])[0].astype(np.float64) for m in (quantized, exact)]
    noise, signal = np.sum((pairs[0] - pairs[1]) ** 2), np.sum(pairs[1] ** 2)
    assert cure.initial_db == pytest.approx(10 * math.log10(signal / noise))


def test_weights_behind_quantizers_are_quantized():
    def make_network(levels):
        rows = [Row("x", "Parameter"), Row("w", "Constant", value=np.float32([[0.3, 0.7]]))]
        rows += make_quantizer("q", "w", levels) if levels else []
        rows += [Row("v", "Abs", ["q" if levels else "w"]), Row("p", "Multiply", ["x", "v"]), Row("y", "Result", ["p"])]
        return make_model(*rows)

    cure = find_cure(make_network(0), make_network(4), [np.float32([[1, 2]])], 3)
    assert [step.layer for step in cure.steps] == ["p"]


def test_loops_are_run_as_they_are(tmp_path):
    def make_network(levels):
        model = irrun.read_model(write_row_loop(tmp_path))
        loop = model.graph.layers[1]
        rows = [Row("x", "Parameter"), *(make_quantizer("q", "x", levels) if levels else [])]
        rows += [Row("e", "Exp", ["q" if levels else "x"]), Row("it", "TensorIterator", ["e"], bodies=loop.bodies)]
        return make_model(*rows, Row("y", "Result", ["it"]))

    x = np.float32([[0.3, 0.7, -0.1], [0.2, 0.5, 0.9]])
    cure = find_cure(make_network(0), make_network(4), [x], 3)
    assert [(step.layer, step.sqnr_db) for step in cure.steps] == [("e", math.inf)]


def test_kept_layers_have_their_own_inputs():
    def make_network(levels, operands):
        rows = [Row("x", "Parameter"), Row("z", "Parameter"), Row("s", "Subtract", operands)]
        rows += [*make_quantizer("q1", "x", levels)] if levels else []
        rows += [Row("w1", "Constant", value=W1), Row("m1", "MatMul", ["q1" if levels else "x", "w1"])]
        return make_model(*rows, Row("y1", "Result", ["m1"]), Row("y2", "Result", ["s"]))

    exact, quantized = make_network(0, ["x", "z"]), make_network(4, ["z", "x"])
    cure = find_cure(exact, quantized, get_inputs(), 1)
    assert cure.single_db == {"m1": pytest.approx(-20 * math.log10(2))}


def test_search_ends_at_a_target_and_reports_what_it_tries():
    events = []
    exact, quantized = make_perceptron(), make_perceptron(16, 8)
    cure = find_cure(exact, quantized, get_inputs(SETS[1:]), 2, report=events.append)
    assert events[0].tried is None
    assert events[0].initial_db == cure.initial_db
    tried = [event for event in events[1:] if not event.is_found]
    assert {event.tried.layer: event.tried.sqnr_db for event in tried} == cure.single_db
    assert [(event.done, event.total) for event in tried] == [(1, 2), (2, 2)]
    assert [event.tried for event in events if event.is_found] == cure.steps
    assert find_cure(exact, quantized, get_inputs(SETS[1:]), until=cure.initial_db - 1).single_db == {}
    target = max(cure.single_db.values()) - 0.01
    again = find_cure(exact, quantized, get_inputs(SETS[1:]), until=target, held_out=get_inputs(SETS[:1]))
    assert len(again.steps) == 1
    kept = make_perceptron(q2=8) if again.names == ["m1"] else make_perceptron(q1=16)
    measured = (predict(quantized, exact, SETS[:1]), predict(kept, exact, SETS[:1]))
    assert again.held_out_db == pytest.approx(measured)
    assert again.to_ignored_scope() == {"names": again.names}


def make_chain(levels):
    """Return a network whose tiny output is 0 while any of its layers is quantized."""
    rows = [Row("x", "Parameter"), *(make_quantizer("q1", "x", levels) if levels else [])]
    rows += [Row("k", "Constant", value=np.float32(1e-22)), Row("m1", "Multiply", ["q1" if levels else "x", "k"])]
    rows += make_quantizer("q2", "m1", levels, 0.0, 1.0) if levels else []
    rows += [Row("one", "Constant", value=np.float32(1)), Row("m2", "Multiply", ["q2" if levels else "m1", "one"])]
    rows += make_quantizer("q3", "m2", levels, 0.0, 1.0) if levels else []
    rows += [Row("m3", "Multiply", ["q3" if levels else "m2", "one"]), Row("y", "Result", ["m3"])]
    return make_model(*rows)


def test_layers_that_only_help_together_are_found():
    x = np.float32([[0.31, 0.72]])
    cure = find_cure(make_chain(0), make_chain(4), [x], 3)
    assert cure.initial_db == 0
    assert set(cure.single_db.values()) == {0.0}
    assert {"m2", "m3"} <= set(cure.names)
    assert cure.steps[-1].sqnr_db > 5
    assert any("values of at most" in text for text in cure.advice)
    assert any("within noise" in text for text in cure.advice)


def test_metric_replaces_the_sqnr():
    def score(value, reference):
        return -float(np.abs(value - reference).max())

    exact, quantized = make_perceptron(), make_perceptron(16, 8)
    cure = find_cure(exact, quantized, get_inputs(), until=0.0, metric=score)
    pairs = zip(run(quantized, SETS), run(exact, SETS), strict=True)
    scores = [score(a, b) for value, reference in pairs for a, b in zip(value, reference, strict=True)]
    assert cure.initial_db == pytest.approx(np.mean(scores))
    assert cure.initial_db < 0
    assert cure.steps[-1].sqnr_db == 0


@pytest.mark.parametrize("moved", [False, True])
def test_cured_models_give_what_was_predicted(tmp_path, moved):
    exact, quantized = make_perceptron(moved=moved), make_perceptron(16, 8, moved=moved)
    cure = find_cure(exact, quantized, get_inputs(), 1)
    cured = make_cured_model(exact, quantized, cure.names)
    assert sum(layer.type == "FakeQuantize" for layer in cured.graph.layers) == 1
    irrun.save_model(cured, tmp_path / "cured.xml")
    read = irrun.read_model(tmp_path / "cured.xml")
    assert predict(read, exact) == pytest.approx(cure.steps[0].sqnr_db)
    assert sum(layer.type == "FakeQuantize" for layer in quantized.graph.layers) == 2
    with pytest.raises(irrun.InputError, match="expected the name of one layer of both models, found 'no'"):
        make_cured_model(exact, quantized, ["no"])


def test_openvino_runs_cured_models(exact, tmp_path):
    x = np.random.default_rng(1).standard_normal((1, 3, 32, 32), np.float32)
    quantized = quantize(exact, x)
    cure = find_cure(exact, quantized, [x], 2)
    path, _ = irrun.save_model(make_cured_model(exact, quantized, cure.names), tmp_path / "cured.xml")
    assert measure(exact, irrun.read_model(path), x) == pytest.approx(cure.steps[-1].sqnr_db, abs=1e-3)
    before, after, without = measure_in_openvino(exact, quantized, irrun.read_model(path), [x])
    assert before == pytest.approx(cure.initial_db, abs=1)
    assert after == pytest.approx(cure.steps[-1].sqnr_db, abs=1)
    assert without == pytest.approx(cure.steps[-1].sqnr_db, abs=0.3)


def test_outputs_that_are_not_finite_are_errors():
    good, nan, infinite = (np.float32([1, x]) for x in (1, np.nan, np.inf))
    assert rate_outputs([[nan]], [[good]]) == LOWEST_DB
    assert rate_outputs([[infinite]], [[good]]) == LOWEST_DB
    assert rate_outputs([[nan]], [[nan]]) == math.inf
    assert rate_outputs([[np.float32([2, 5])]], [[infinite]]) == 0
    with pytest.raises(irrun.InputError, match="output 0 of the floating-point model has no finite value"):
        rate_outputs([[good]], [[nan[1:].repeat(2)]])


# Labels and scales of weights


def make_classifier():
    """Return a perceptron whose first output is scores, its quantized version, inputs and labels."""
    exact, quantized = make_perceptron(), make_perceptron(2, 2)
    rng = np.random.default_rng(0)
    sets = [[rng.uniform(-1, 1, (4, 2)).astype(np.float32) for _ in exact.inputs] for _ in range(5)]
    labels = [irrun.compile_model(exact)(inputs)[0].argmax(-1) for inputs in sets]
    return exact, quantized, sets, labels


def test_accuracy_with_labels_is_the_target():
    exact, quantized, sets, labels = make_classifier()
    labels[0] = 1 - labels[0]  # the floating-point model is wrong, too
    cure = find_cure(exact, quantized, sets[:4], until=0.75, labels=labels, held_out=sets[4:])

    def measure_accuracy(model, chosen):
        scores = [irrun.compile_model(model)(sets[i])[0].argmax(-1) == labels[i] for i in chosen]
        return float(np.mean(scores))

    assert cure.initial_db == pytest.approx(measure_accuracy(quantized, range(4)))
    assert cure.initial_db < 0.75
    assert cure.steps[-1].sqnr_db == 0.75
    assert cure.held_out_db == pytest.approx((measure_accuracy(quantized, [4]), 1.0))
    assert "the floating-point model reaches 0.7500" in cure.advice
    with pytest.raises(irrun.InputError, match="labels has 5 elements, expected one for each of 4 runs"):
        find_cure(exact, quantized, sets[:4], 1, labels=labels)
    with pytest.raises(irrun.InputError, match="found 3 labels for an output with 4 rows of scores"):
        find_cure(exact, quantized, sets[:1], 1, labels=[[0, 1, 1]])


def test_user_metrics_get_labels():
    exact, quantized, sets, labels = make_classifier()
    seen = []

    def score(output, label):
        seen.append((output.shape, label.tolist()))
        return 1.0

    assert find_cure(exact, quantized, sets[:1], 1, labels=labels[:1], metric=score).initial_db == 1
    assert set(map(str, seen)) == {str(((4, 2), labels[0].tolist()))}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1\n0\n", [1, 0]),
        ("label\n1\n0\n", [1, 0]),
        ("file,label\nb.npy,1\na.npy,7\n", [7, 1]),
        ("images/b;1\nimages/a; 7", [7, 1]),
        ("1", "has 1 labels, expected one for each of 2 runs"),
        ("a,1\nc,0", "has no label of in/b.npy"),
        ("a,b,1\na,b,2", "has lines other than LABEL or FILE,LABEL"),
        ("", "has 0 labels"),
    ],
)
def test_labels_are_read_from_text(tmp_path, content, expected):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    if isinstance(expected, str):
        with pytest.raises(irrun.InputError, match=expected):
            read_labels(path, ["in/a.npy", "in/b.npy"])
    else:
        assert [int(x) for x in read_labels(path, ["in/a.npy", "in/b.npy"])] == expected


def test_labels_are_read_from_arrays(tmp_path):
    np.save(tmp_path / "labels.npy", np.int64([[1, 2], [3, 4]]))
    assert [x.tolist() for x in read_labels(tmp_path / "labels.npy", ["a", "b"])] == [[1, 2], [3, 4]]
    np.save(tmp_path / "labels.npy", np.int64(3))
    for name in ("labels.npy", "none.npy", "none.csv"):
        with pytest.raises(irrun.InputError, match="cannot read"):
            read_labels(tmp_path / name, ["a"])


def make_product(levels, per_channel=False, transposed=False, weights_kind="FakeQuantize", shape=(2, 8)):
    """Return a product with weights whose columns differ in size a hundredfold, quantized with one scale or several."""
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((8, 4)) * [1, 0.1, 0.01, 0.001]).astype(np.float32)
    limit = np.abs(w).max(axis=0, keepdims=per_channel) if per_channel else np.abs(w).max()
    if transposed:
        w, limit = np.ascontiguousarray(w.T), limit.T
    rows = [Row("x", "Parameter", shapes=[shape])]
    if not levels:
        rows.append(Row("weights", "Constant", value=w))
    elif weights_kind == "FakeQuantize":
        rows += [Row("w", "Constant", value=w), Row("low", "Constant", value=np.float32(-limit))]
        rows.append(Row("high", "Constant", value=np.float32(limit)))
        rows.append(Row("weights", "FakeQuantize", ["w", "low", "high", "low", "high"], {"levels": str(levels)}))
    else:
        codes = np.round(w / limit * 127).astype(np.int8)
        rows += [Row("codes", "Constant", value=codes), Row("scale", "Constant", value=np.float32(limit / 127))]
        rows.append(Row("wide", "Convert", ["codes"], {"destination_type": "f32"}))
        rows.append(Row("weights", "Multiply", ["wide", "scale"]))
    quantizer = make_quantizer("q", "x", 65536, -4, 4) if levels else []
    attributes = {"transpose_a": "false", "transpose_b": str(transposed).lower()}
    rows += [*quantizer, Row("m", "MatMul", ["q" if levels else "x", "weights"], attributes)]
    rows.append(Row("weak", "Constant", value=np.float32([[1, 10, 100, 1000]])))
    return make_model(*rows, Row("y", "Multiply", ["m", "weak"]), Row("r", "Result", ["y"]))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["FakeQuantize", "Multiply"])
def test_gain_of_scales_for_each_channel_is_stated(kind, transposed):
    if kind == "Multiply":
        exact, quantized = make_product(0, transposed=transposed), make_product(255, False, transposed, kind)
        better = make_product(255, True, transposed, kind)
    else:
        exact, quantized = make_product(0, transposed=transposed), make_product(255, False, transposed)
        better = make_product(255, True, transposed)
    x = np.random.default_rng(0).standard_normal((2, 8), np.float32)
    gain = measure(exact, better, x) - measure(exact, quantized, x)
    assert gain > 10
    (advice,) = [text for text in find_cure(exact, quantized, [x], 1).advice if "per-channel" in text]
    assert advice.startswith("per-channel scales of the weights of 1 layer would gain ")
    assert float(advice.split("gain ")[1].split()[0]) == pytest.approx(gain, abs=0.1)
    assert advice.endswith("less than the layers in floating point")
    assert not [text for text in find_cure(exact, better, [x], 1).advice if "per-channel" in text]


def test_names_of_new_layers_are_unique():
    taken = {"a"}
    names = [_make_name("a", "b", taken) for _ in range(3)]
    assert len({*names, "a"}) == 4
    assert taken == {*names, "a"}
