"""Variables: they belong to a request, keep their values between runs, and survive errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun

F32 = np.float32


@pytest.fixture
def running_sum(tmp_path):
    """Compile `total = variable + x; variable = total` with a dynamic shape."""
    variable = 'variable_id="sum" variable_type="f32" variable_shape="?"'
    layers = [
        layer(0, "Parameter", data='shape="?" element_type="f32"', outputs=[port(0, ("?",), "FP32")], name="x"),
        layer(4, "Assign", "opset6", 'variable_id="sum"', [port(0)], [port(1, ("?",), "FP32")]),
        layer(1, "Const", data='element_type="f32" shape="1" offset="0" size="4"', outputs=[port(0, (1,), "FP32")]),
        layer(2, "ReadValue", "opset6", variable, [port(0)], [port(1, ("?",), "FP32")]),
        layer(3, "Add", inputs=[port(0), port(1)], outputs=[port(2, ("?",), "FP32", "total")]),
        layer(5, "Result", inputs=[port(0)]),
    ]
    edges = [(1, 0, 2, 0), (2, 1, 3, 0), (0, 0, 3, 1), (3, 2, 4, 0), (3, 2, 5, 0)]
    return irrun.compile_model(write(tmp_path, net(layers, edges), F32(100).tobytes()))


def test_variables_keep_their_values_between_runs(running_sum):
    request = running_sum.create_infer_request()
    for expected in (101, 102, 103):
        assert request.infer(np.ones(1, F32))["total"] == expected
    request.reset_state()
    assert request.infer(np.ones(1, F32))["total"] == 101


def test_calls_share_variables_until_they_are_reset(running_sum):
    running_sum.reset_state()  # nothing has run
    assert [running_sum(np.ones(1, F32))[0].item() for _ in range(2)] == [101, 102]
    running_sum.reset_state()
    assert running_sum(np.ones(1, F32))["total"] == 101


def test_variables_are_described(running_sum):
    request = running_sum.create_infer_request()
    (variable,) = request.query_state()
    assert repr(variable) == "<VariableState: 'sum', initial value>"
    request.infer(np.arange(3, dtype=F32))
    assert repr(request.query_state()[0]) == "<VariableState: 'sum', f32[3]>"


def test_state_before_the_first_run_is_the_constant_initial_value(running_sum):
    request = running_sum.create_infer_request()
    (variable,) = request.query_state()
    np.testing.assert_array_equal(variable.state, [100])
    request.infer(np.ones(1, F32))
    variable.reset()
    np.testing.assert_array_equal(variable.state, [100])


def test_inputs_and_outputs_of_a_compiled_model_are_those_of_the_model(running_sum):
    assert running_sum.input("x") == running_sum.input() == running_sum.inputs[0]
    assert running_sum.output("total") == running_sum.output(0) == running_sum.outputs[0]
    with pytest.raises(irrun.ModelError):
        running_sum.output("x")


def test_shape_of_a_variable_may_change(running_sum):
    request = running_sum.create_infer_request()
    np.testing.assert_array_equal(request.infer(np.arange(3, dtype=F32))[0], [100, 101, 102])
    np.testing.assert_array_equal(request.infer(np.arange(3, dtype=F32))[0], [100, 102, 104])


def test_state_that_contradicts_the_declaration_is_reported(running_sum):
    request = running_sum.create_infer_request()
    (variable,) = request.query_state()
    for value, message in (
        (np.ones(1), r"is f64 \[1\], expected f32"),
        (np.ones((1, 2), F32), r"\[1, 2\], expected f32 \[\?\]"),
    ):
        with pytest.raises(irrun.InputError, match=message):
            variable.state = value
    assert request.infer(np.ones(1, F32))[0] == 101


def test_initial_value_that_depends_on_inputs_is_represented_by_zeros(tmp_path):
    layers = [
        layer(0, "Parameter", data='shape="?,3" element_type="f32"', outputs=[port(0, ("?", 3), "FP32")], name="x"),
        layer(
            1, "ReadValue", "opset6", 'variable_id="v" variable_type="f32" variable_shape="?,3"', [port(0)], [port(1)]
        ),
        layer(2, "Result", inputs=[port(0)]),
        layer(3, "Assign", "opset6", 'variable_id="v"', [port(0)], [port(1)]),
    ]
    edges = [(0, 0, 1, 0), (1, 1, 2, 0), (0, 0, 3, 0)]
    request = irrun.compile_model(write(tmp_path, net(layers, edges))).create_infer_request()
    (variable,) = request.query_state()
    assert (variable.state.shape, variable.state.dtype) == ((0, 3), F32)
    np.testing.assert_array_equal(request.infer(np.ones((2, 3), F32))[0], np.ones((2, 3)))
    np.testing.assert_array_equal(variable.state, np.ones((2, 3)))
    request.reset_state()
    assert variable.state.shape == (0, 3)


def test_initial_value_declares_a_variable_without_attributes(tmp_path):
    request = compile_variable(tmp_path, "", "1,2").create_infer_request()
    np.testing.assert_array_equal(request.infer(np.ones((1, 2), F32))[0], [[3, 4]])
    np.testing.assert_array_equal(request.infer(np.zeros((1, 2), F32))[0], [[1, 1]])
    (variable,) = request.query_state()
    variable.state = np.full((1, 2), 5, F32)
    for shape in ((2,), (1, 3), (1, 1, 2)):
        with pytest.raises(irrun.InputError, match=r"expected f32 \[1,2\]"):
            variable.state = np.ones(shape, F32)
    np.testing.assert_array_equal(request.infer(np.ones((1, 2), F32))[0], [[5, 5]])


@pytest.mark.parametrize(
    ("opset", "declared"), [("opset3", ""), ("opset6", ""), ("opset6", 'variable_type="f32" variable_shape="..."')]
)
def test_initial_value_from_inputs_sets_the_rank_of_a_variable(tmp_path, opset, declared):
    ports = [port(1, ("?", 3), "FP32")]
    layers = [
        layer(0, "Parameter", data='shape="?,3" element_type="f32"', outputs=[port(0, ("?", 3), "FP32")], name="x"),
        layer(1, "ReadValue", opset, f'variable_id="v" {declared}', [port(0, ("?", 3))], ports),
        layer(2, "Result", inputs=[port(0)]),
        layer(3, "Assign", opset, 'variable_id="v"', [port(0)], [port(1)]),
    ]
    edges = [(0, 0, 1, 0), (1, 1, 2, 0), (0, 0, 3, 0)]
    request = irrun.compile_model(write(tmp_path, net(layers, edges))).create_infer_request()
    (variable,) = request.query_state()
    assert variable.state.shape == (0, 3)
    variable.state = np.ones((2, 3), F32)
    for shape in ((3,), (2, 4), (1, 2, 3)):
        with pytest.raises(irrun.InputError, match=r"expected f32 \[\?,3\]"):
            variable.state = np.ones(shape, F32)
    np.testing.assert_array_equal(request.infer(np.zeros((4, 3), F32))[0], np.ones((2, 3)))


def compile_variable(folder, declared, shape, initial=True, opset="opset6"):
    """Compile a model that returns a variable and assigns its input to it."""
    data = f'shape="{shape}" element_type="f32"'
    layers = [
        layer(0, "Parameter", data=data, outputs=[port(0)], name="x"),
        layer(1, "Const", data='element_type="f32" shape="1,2" offset="0" size="8"', outputs=[port(0, (1, 2), "FP32")]),
        layer(2, "ReadValue", opset, f'variable_id="v" {declared}', [port(0)] if initial else [], [port(1)]),
        layer(3, "Result", inputs=[port(0)]),
        layer(4, "Assign", opset, 'variable_id="v"', [port(0)], [port(1)]),
    ]
    edges = [(2, 1, 3, 0), (0, 0, 4, 0)] + ([(1, 0, 2, 0)] if initial else [])
    return irrun.compile_model(write(folder, net(layers, edges), np.array([3, 4], F32).tobytes()))


@pytest.mark.parametrize(
    "declared",
    [
        'variable_type="f32" variable_shape="1,2"',
        'variable_type="f32" variable_shape="?,2..4"',
        'variable_type="f32" variable_shape="..."',
        'variable_type="dynamic" variable_shape="-1,-1"',
    ],
)
def test_declaration_may_be_dynamic(tmp_path, declared):
    model = compile_variable(tmp_path, declared, "1,2")
    request = model.create_infer_request()
    np.testing.assert_array_equal(request.infer(np.ones((1, 2), F32))[0], [[3, 4]])
    np.testing.assert_array_equal(request.infer(np.zeros((1, 2), F32))[0], [[1, 1]])


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ('variable_type="i32" variable_shape="1,2"', r"is f32 \[1, 2\], expected i32 \[1,2\]"),
        ('variable_type="f32" variable_shape="2"', r"expected f32 \[2\]"),
        ('variable_type="dynamic" variable_shape="3.."', r"is f32 \[1, 2\], expected f32 \[3..\]"),
    ],
)
def test_initial_value_must_match_the_declaration(tmp_path, declared, message):
    with pytest.raises(irrun.IrrunError, match=message):
        compile_variable(tmp_path, declared, "1,2")(np.ones((1, 2), F32))


def test_assigned_value_must_match_the_declaration(tmp_path):
    model = compile_variable(tmp_path, 'variable_type="f32" variable_shape="1,2..3"', "1,?")
    np.testing.assert_array_equal(model(np.ones((1, 3), F32))[0], [[3, 4]])
    np.testing.assert_array_equal(model(np.ones((1, 2), F32))[0], [[1, 1, 1]])
    with pytest.raises(irrun.InputError, match=r"\(Assign, opset6\).*\[1, 4\], expected f32 \[1,2..3\]"):
        model(np.ones((1, 4), F32))


def test_initial_value_sets_the_type_of_an_opset3_variable(tmp_path):
    request = compile_variable(tmp_path, "", "1,2", opset="opset3").create_infer_request()
    np.testing.assert_array_equal(request.infer(np.ones((1, 2), F32))[0], [[3, 4]])
    np.testing.assert_array_equal(request.infer(np.ones((1, 2), F32))[0], [[1, 1]])
    (variable,) = request.query_state()
    with pytest.raises(irrun.InputError, match=r"is f64 \[1, 2\], expected f32 \[1,2\]"):
        variable.state = np.ones((1, 2))


def test_variable_without_an_initial_value_is_zero(tmp_path):
    model = compile_variable(tmp_path, 'variable_type="f32" variable_shape="1,2..3"', "1,2", initial=False)
    np.testing.assert_array_equal(model(np.ones((1, 2), F32))[0], [[0, 0]])
    scalar = compile_variable(tmp_path, 'variable_type="i32" variable_shape=""', "", initial=False)
    with pytest.raises(irrun.InputError, match=r"is f32 \[\], expected i32 \[\]"):
        scalar(np.ones((), F32))


def test_requests_do_not_share_state(running_sum):
    first, second = running_sum.create_infer_request(), running_sum.create_infer_request()
    first.infer(np.ones(1, F32))
    assert first.infer(np.ones(1, F32))[0] == 102
    assert second.infer(np.ones(1, F32))[0] == 101
    assert running_sum(np.ones(1, F32))[0] == 101


def test_variables_can_be_read_and_set(running_sum):
    request = running_sum.create_infer_request()
    (variable,) = request.query_state()
    assert variable.name == "sum"
    np.testing.assert_array_equal(variable.state, [100])
    request.infer(np.ones(1, F32))
    assert variable.state == 101
    variable.state = np.array([5], F32)
    assert request.infer(np.ones(1, F32))[0] == 6
    variable.state = [7]
    assert variable.state.dtype == F32
    variable.reset()
    np.testing.assert_array_equal(variable.state, [100])
    assert request.infer(np.ones(1, F32))[0] == 101
    assert repr(request).startswith("<InferRequest: ")


def test_writing_to_outputs_or_inputs_does_not_change_a_variable(running_sum):
    request = running_sum.create_infer_request()
    x = np.ones(1, F32)
    request.infer(x)[0][:] = 7
    x[:] = 9
    assert request.infer(np.ones(1, F32))[0] == 102


@pytest.mark.falls_back
def test_failed_run_does_not_change_variables(running_sum):
    request = running_sum.create_infer_request()
    request.infer(np.ones(3, F32))
    with pytest.raises(irrun.IrrunError):
        request.infer(np.ones(2, F32))
    np.testing.assert_array_equal(request.infer(np.ones(3, F32))[0], [102, 102, 102])


def test_two_threads_return_the_same_bits_as_one(running_sum):
    inputs = np.random.default_rng(0).normal(size=(500, 8)).astype(F32)

    def run_all(_):
        request = running_sum.create_infer_request()
        return np.stack([request.infer(x)[0] for x in inputs])

    expected = run_all(0)
    with ThreadPoolExecutor(2) as pool:
        for results in pool.map(run_all, range(2)):
            np.testing.assert_array_equal(results, expected)


def test_inputs_that_become_variables_are_copied(tmp_path):
    """The variable is the input itself, which the caller changes afterwards."""
    request = compile_variable(tmp_path, 'variable_type="f32" variable_shape="1,2"', "1,2").create_infer_request()
    x = np.ones((1, 2), F32)
    request.infer(x)
    x[:] = 9
    result = request.infer(np.zeros((1, 2), F32))[0]
    np.testing.assert_array_equal(result, [[1, 1]])
    result[:] = 5
    (variable,) = request.query_state()
    np.testing.assert_array_equal(variable.state, [[0, 0]])


def test_failing_runs_name_the_model_and_its_variables_are_those_of_before(tmp_path):
    compiled = compile_variable(tmp_path, 'variable_type="f32" variable_shape="1,2..3"', "1,?")
    with pytest.raises(irrun.InputError) as caught:
        compiled(np.ones((1, 4), F32))
    assert caught.value.path == tmp_path / "model.xml"


def test_variables_that_are_only_assigned_are_listed(tmp_path):
    data = 'shape="1,2" element_type="f32"'
    layers = [
        layer(0, "Parameter", data=data, outputs=[port(0, (1, 2), "FP32")], name="x"),
        layer(1, "Result", inputs=[port(0)]),
        layer(2, "Assign", "opset6", 'variable_id="v"', [port(0)], [port(1)]),
    ]
    compiled = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 1, 0), (0, 0, 2, 0)])))
    request = compiled.create_infer_request()
    assert [variable.name for variable in request.query_state()] == ["v"]
    request.infer(np.full((1, 2), 3, F32))
    np.testing.assert_array_equal(request.query_state()[0].state, [[3, 3]])


@pytest.mark.parametrize(
    ("output", "source", "expected"),
    [("2,3", "4", (2, 3)), ("", "4", (4,)), ("2,?", "4", (2, 0)), ("", "", ())],
)
def test_shape_of_a_variable_is_that_of_the_port_that_declares_dimensions(output, source, expected, tmp_path):
    """The initial value depends on an input, and files write no dimensions for scalars and dynamic ranks."""
    shapes = [tuple(filter(None, text.split(","))) for text in (output, source)]
    layers = [
        layer(0, "Parameter", data='shape="..." element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "ReadValue", "opset3", 'variable_id="v"', [port(0, shapes[1])], [port(1, shapes[0], "FP32")]),
        layer(2, "Result", inputs=[port(0)]),
        layer(3, "Assign", "opset3", 'variable_id="v"', [port(0)], [port(1)]),
    ]
    text = net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0)]).replace("<dim>?</dim>", "<dim>-1</dim>")
    (variable,) = irrun.compile_model(write(tmp_path, text)).create_infer_request().query_state()
    assert variable.state.shape == expected
    assert variable.state.dtype == F32


def test_variables_that_are_assigned_twice_are_not_extended_in_place(tmp_path):
    """Both assigned values extend the variable; the results equal the plain program's."""
    parameter = 'shape="?,2" element_type="f32"'
    variable = 'variable_id="v" variable_type="f32" variable_shape="?,2"'
    layers = [
        layer(0, "Parameter", data=parameter, outputs=[port(0, ("?", 2), "FP32")], name="a"),
        layer(1, "Parameter", data=parameter, outputs=[port(0, ("?", 2), "FP32")], name="b"),
        layer(2, "ReadValue", "opset6", variable, [], [port(1, ("?", 2), "FP32")]),
    ]
    edges = []
    for i in range(2):
        concat, assign, result = 10 + i, 20 + i, 30 + i
        layers.append(layer(concat, "Concat", data='axis="0"', inputs=[port(0), port(1)], outputs=[port(2)]))
        layers.append(layer(assign, "Assign", "opset6", 'variable_id="v"', [port(0)], [port(1)]))
        layers.append(layer(result, "Result", inputs=[port(0)]))
        edges += [(2, 1, concat, 0), (i, 0, concat, 1), (concat, 2, assign, 0), (concat, 2, result, 0)]
    path = write(tmp_path, net(layers, edges))
    requests = [irrun.compile_model(path, optimize=flag).create_infer_request() for flag in (True, False)]
    for count in (1, 2, 3):
        inputs = [np.full((count, 2), 10 * count + i, F32) for i in range(2)]
        fast, plain = (request.infer(inputs).to_tuple() for request in requests)
        for a, b in zip(fast, plain, strict=True):
            np.testing.assert_array_equal(a, b)


def test_running_request_refuses_other_callers(running_sum):
    """The updates of two runs at once would be lost."""
    request = running_sum.create_infer_request()
    (variable,) = request.query_state()
    refused = []

    def call_again(layer, inputs, outputs, seconds, scope):
        x = np.ones(1, F32)
        for function in (
            lambda: request.infer(x),
            lambda: running_sum(x),
            request.reset_state,
            variable.reset,
            lambda: setattr(variable, "state", x),
        ):
            with ThreadPoolExecutor(1) as pool:
                try:
                    pool.submit(function).result()
                except irrun.ExecutionError as error:
                    refused.append(str(error))

    outputs = request.infer(np.ones(1, F32), observers=[call_again])
    assert outputs["total"] == 101
    # The call of the model uses a request of its own.
    assert len(refused) == 4 * (len(refused) // 4) > 0
    assert set(refused) == {
        "the infer request is running; each thread needs its own request: compiled_model.create_infer_request()"
    }
    assert request.infer(np.ones(1, F32))["total"] == 102


def test_calls_of_a_model_at_once_are_refused(running_sum):
    refused = []

    def call_again(*arguments):
        try:
            running_sum(np.ones(1, F32))
        except irrun.ExecutionError as error:
            refused.append(error)

    running_sum(np.ones(1, F32), observers=[call_again])
    assert refused
    assert running_sum(np.ones(1, F32))["total"] == 102


def test_failed_runs_release_the_request(running_sum):
    request = running_sum.create_infer_request()
    with pytest.raises(irrun.InputError):
        request.infer(None)
    assert request.infer(np.ones(1, F32))["total"] == 101
