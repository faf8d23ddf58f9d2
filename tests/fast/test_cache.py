"""Variables that grow in place, and attention to shared keys and values, in decoders of two layers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import irrun
from irrun.fast.attention import attend_in_groups, get_repeated_shape
from irrun.fast.cache import _is_beginning, append_to_reordered_variable, append_to_variable
from irrun.fast.errors import NoKernelError
from irrun.ops._support.context import Variables

ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset13")

from benchmarks.sequence_models import DecoderShape, build_decoder  # noqa: E402

F32 = np.float32
RNG = np.random.default_rng(0)
SHAPE = DecoderShape(hidden=64, layers=2, heads=4, kv_heads=2, feed_forward=96, vocabulary=200, head_size=16)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder") / "model.xml"
    ov.save_model(build_decoder(SHAPE, "f32"), path, compress_to_fp16=False)
    return path


@pytest.fixture(scope="module")
def models(path):
    """Compile a decoder with and without optimization."""
    return irrun.compile_model(path), irrun.compile_model(path, optimize=False)


def list_kernels(model):
    return [i.kernel for i in model._fast_program.instructions]


class Conversation:
    """Requests of both models, whose outputs and variables are compared at every step."""

    def __init__(self, models):
        self.requests = [model.create_infer_request() for model in models]
        self.position = 0

    def step(self, count, order=(0, 1), observers=()):
        batch = len(order)
        ids = RNG.integers(0, SHAPE.vocabulary, (batch, count))
        positions = np.broadcast_to(np.arange(self.position, self.position + count), ids.shape).astype(np.int64)
        inputs = [ids, positions, np.array(order, np.int32)]
        actual, expected = (request.infer(inputs, observers=observers)[0] for request in self.requests)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
        self.position += count
        self.compare_variables()
        return actual

    def compare_variables(self):
        for actual, expected in zip(*(request.query_state() for request in self.requests), strict=True):
            assert (actual.state is None) == (expected.state is None)
            if actual.state is not None:
                np.testing.assert_allclose(actual.state, expected.state, rtol=1e-4, atol=1e-5)

    def reset(self):
        for request in self.requests:
            request.reset_state()
        self.position = 0

    @property
    def buffers(self):
        return dict(self.requests[0]._state.variables.buffers)


def test_kernels_are_used(models):
    kernels = list_kernels(models[0])
    assert kernels.count(append_to_reordered_variable) == 4
    assert kernels.count(attend_in_groups) == 2
    assert kernels.count(get_repeated_shape) == 2


def test_many_steps_agree_with_the_plain_kernels(models):
    conversation = Conversation(models)
    conversation.step(5)
    for _ in range(150):
        conversation.step(1)
    conversation.step(40)


def test_buffers_are_kept_until_they_are_full(models):
    conversation = Conversation(models)
    conversation.step(5)
    first = conversation.buffers
    for _ in range(20):
        conversation.step(1)
        assert all(buffer is first[name] for name, buffer in conversation.buffers.items())
    conversation.step(60)
    assert all(buffer is not first[name] for name, buffer in conversation.buffers.items())


@pytest.mark.parametrize("order", [(1, 0), (0, 0), (1, 1), (1,), (0, 1, 1)])
def test_beams_are_reordered(models, order):
    conversation = Conversation(models)
    conversation.step(5)
    conversation.step(1, order)
    conversation.step(2, range(len(order)))


def test_reset_restores_the_initial_values(models):
    conversation = Conversation(models)
    conversation.step(5)
    conversation.step(1)
    conversation.reset()
    assert not conversation.buffers
    conversation.step(3)
    conversation.step(1)


def test_requests_do_not_share_buffers(models):
    first, second = Conversation(models), Conversation(models)
    for count in (3, 1, 1):
        first.step(count)
        second.step(count + 1)


@pytest.mark.falls_back
def test_failed_run_does_not_change_variables(models):
    conversation = Conversation(models)
    conversation.step(5)
    for request in conversation.requests:
        with pytest.raises(irrun.IrrunError):  # the positions do not match
            request.infer([np.ones((2, 1), np.int64), np.ones((2, 3), np.int64), np.arange(2, dtype=np.int32)])
    conversation.compare_variables()
    conversation.step(1)
    conversation.step(1)


def test_error_after_new_elements_were_written_does_not_change_variables(models):
    conversation = Conversation(models)
    conversation.step(5)
    request = conversation.requests[0]
    states = [v.state for v in request.query_state()]
    executor = request._get_executor(request._compiled._fast_program)
    original = executor._run_steps

    def fail_afterwards(*arguments):
        original(*arguments)
        raise RuntimeError

    executor._run_steps = fail_afterwards
    with pytest.raises(RuntimeError):
        request.infer([np.ones((2, 2), np.int64), np.ones((2, 2), np.int64), np.arange(2, dtype=np.int32)])
    executor._run_steps = original
    for variable, state in zip(request.query_state(), states, strict=True):
        np.testing.assert_array_equal(variable.state, state)
    conversation.step(1)
    conversation.step(1)


def test_variables_can_be_set_to_earlier_values(models):
    conversation = Conversation(models)
    conversation.step(5)
    saved = [[v.state for v in request.query_state()] for request in conversation.requests]
    for _ in range(2):
        conversation.step(1)
        conversation.step(1)
        for request, states in zip(conversation.requests, saved, strict=True):
            for variable, state in zip(request.query_state(), states, strict=True):
                variable.state = state
        conversation.position = 5
    conversation.step(3)


def test_writing_to_a_copy_of_the_state_has_no_effect(models):
    conversation = Conversation(models)
    conversation.step(5)
    for variable in conversation.requests[0].query_state():
        variable.state[...] = 7
    conversation.step(1)


def test_observed_runs_may_alternate_with_others(models):
    conversation = Conversation(models)
    conversation.step(5)
    for _ in range(3):
        conversation.step(1, observers=[lambda *_: None])
        conversation.step(1)


def test_two_requests_on_two_threads_return_the_same_bits_as_one(models):
    ids = RNG.integers(0, SHAPE.vocabulary, (2, 40))

    def run_all(_):
        request = models[0].create_infer_request()
        positions = np.arange(40)[None].repeat(2, 0)
        order = np.arange(2, dtype=np.int32)
        return [
            request.infer([ids[:, i : i + 1], positions[:, i : i + 1], order])[0].tobytes() for i in range(ids.shape[1])
        ]

    expected = run_all(0)
    with ThreadPoolExecutor(2) as pool:
        for results in pool.map(run_all, range(2)):
            assert results == expected


def build_cache(*, past_is_output=False, value_is_output=False, reordered=True):
    """Build a model that appends its input to a variable, and returns the sum of the past and of all values."""
    x = o.parameter([-1, -1, 3], F32, name="x")
    order = o.parameter([-1], np.int32, name="order")
    info = ov.op.util.VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([-1, -1, 3]), ov.Type.f32, "v"
    variable = ov.op.util.Variable(info)
    read = o.read_value(o.constant(np.zeros((2, 0, 3), F32)), variable)
    past = o.gather(read, order, o.constant(np.array(0))) if reordered else read
    present = o.concat([past, x], 1)
    sums = [o.reduce_sum(v, o.constant(np.array([1]))) for v in (past, present)]
    results = [*sums, *[past] * past_is_output, *[present] * value_is_output]
    return ov.Model([o.result(r) for r in results], [o.assign(present, variable)], [x, order])


@pytest.mark.parametrize("past_is_output", [False, True])
@pytest.mark.parametrize("value_is_output", [False, True])
@pytest.mark.parametrize("reordered", [False, True])
def test_past_may_have_other_consumers(tmp_path, past_is_output, value_is_output, reordered):
    model = build_cache(past_is_output=past_is_output, value_is_output=value_is_output, reordered=reordered)
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    requests = [
        irrun.compile_model(tmp_path / "model.xml", optimize=optimize).create_infer_request()
        for optimize in (True, False)
    ]
    kept = []
    for n in (1, 3, 100, 1, 1):
        inputs = {"x": RNG.normal(size=(2, n, 3)).astype(F32), "order": np.arange(2, dtype=np.int32)}
        actual, expected = (request.infer(inputs).to_tuple() for request in requests)
        kept.append((actual, expected))
    for actual, expected in kept:  # later runs have not changed earlier outputs
        for a, e in zip(actual, expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("past", "new", "axis", "message"),
    [
        (np.ones((2, 3), F32), np.ones((2, 3), np.int32), 1, "do not match"),
        (np.ones((2, 3), F32), np.ones((3, 3), F32), 1, "do not match"),
        (np.ones((2, 3), F32), np.ones((2, 3), F32), 2, "do not match"),
    ],
)
def test_other_operands_are_left_to_the_plain_kernel(past, new, axis, message):
    with pytest.raises(NoKernelError, match=message):
        append_to_variable(past, new, axis=axis, variable_id="v", variables=Variables())


def build_attention(*, mask, causal=False, groups=3, axis=2, is_constant=True):
    """Build attention with two shared heads. Their copies are next to each other, or after all others (axis 1)."""
    q = o.parameter([-1, 2 * groups, -1, 8], F32, name="q")
    k, v = (o.parameter([-1, 2, -1, 8], F32, name=name) for name in "kv")
    parameters = [q, k, v]
    axes = o.constant(np.array([axis])) if is_constant else o.parameter([1], np.int64)
    repeated = [
        o.reshape(
            o.broadcast(
                o.unsqueeze(x, axes),
                o.constant(np.array([1, 1, groups, 1, 1] if axis == 2 else [1, groups, 1, 1, 1])),
                broadcast_spec="BIDIRECTIONAL",
            ),
            o.constant(np.array([0, 2 * groups, -1, 8])),
            True,
        )
        for x in (k, v)
    ]
    inputs = [q, *repeated]
    if mask is not None:
        parameters.append(o.parameter(ov.PartialShape([-1] * mask.ndim), mask.dtype, name="mask"))
        inputs.append(parameters[-1])
    parameters += [] if is_constant else [axes]
    return ov.Model([o.result(o.scaled_dot_product_attention(*inputs, causal=causal))], parameters)


@pytest.mark.parametrize(
    "mask",
    [
        None,
        np.ones((1, 1, 5, 7), np.bool_),
        np.tril(np.ones((5, 7), np.bool_), 2)[None, None],
        np.tril(np.ones((5, 7), np.bool_), 2),
        RNG.normal(size=(2, 6, 5, 7)).astype(F32),
        RNG.normal(size=(2, 1, 1, 7)).astype(F32),
        np.zeros((1, 1, 5, 7), np.bool_),
    ],
)
def test_grouped_attention_agrees_with_the_plain_kernel(tmp_path, mask):
    for causal in (False, True):
        ov.save_model(build_attention(mask=mask, causal=causal), tmp_path / "model.xml", compress_to_fp16=False)
        fast, plain = (irrun.compile_model(tmp_path / "model.xml", optimize=optimize) for optimize in (True, False))
        assert attend_in_groups in list_kernels(fast)
        batch = 3 if mask is None or mask.shape[0] != 2 else 2
        inputs = [RNG.normal(size=(batch, heads, n, 8)).astype(F32) for heads, n in ((6, 5), (2, 7), (2, 7))]
        inputs += [] if mask is None else [mask]
        np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("axis", "is_constant"), [(1, True), (2, False)])
def test_heads_that_are_repeated_otherwise_are_not_grouped(tmp_path, axis, is_constant):
    model = build_attention(mask=None, axis=axis, is_constant=is_constant)
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    fast, plain = (irrun.compile_model(tmp_path / "model.xml", optimize=optimize) for optimize in (True, False))
    assert attend_in_groups not in list_kernels(fast)
    inputs = [RNG.normal(size=(3, heads, n, 8)).astype(F32) for heads, n in ((6, 5), (2, 7), (2, 7))]
    inputs += [] if is_constant else [np.array([axis])]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-5, atol=1e-6)


def test_repeated_heads_with_other_consumers_are_not_grouped(tmp_path):
    """Their copies are results of the model, or joined instead of attended to."""
    model = build_attention(mask=None)
    attention = model.get_results()[0].input_value(0).get_node()
    q, k, v = (attention.input_value(i) for i in range(3))
    inputs = [RNG.normal(size=(3, heads, n, 8)).astype(F32) for heads, n in ((6, 5), (2, 7), (2, 7))]
    inner = [v.get_node().input_value(0), v.get_node().input_value(0).get_node().input_value(0)]
    joined = o.concat([k, k, v], 1)
    for results in ([k], [v], inner[:1], inner[1:], [o.exp(k)], [o.exp(inner[0])]):
        attended = o.scaled_dot_product_attention(q, k, v)
        other = ov.Model([o.result(r) for r in [attended, *results]], model.get_parameters())
        compare_attention(tmp_path, other, inputs)
    attended = o.scaled_dot_product_attention(q, k, k)
    joined = o.concat([o.concat([k, v], 1), k, v], 1)
    compare_attention(tmp_path, ov.Model([o.result(attended), o.result(joined)], model.get_parameters()), inputs)


def compare_attention(folder, model, inputs):
    """Assert that attention is not grouped, and that the results equal the plain kernels'."""
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
    fast, plain = (irrun.compile_model(folder / "model.xml", optimize=optimize) for optimize in (True, False))
    assert attend_in_groups not in list_kernels(fast)
    for actual, expected in zip(fast(inputs).to_tuple(), plain(inputs).to_tuple(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.falls_back
def test_mismatching_attention_is_reported_by_the_plain_kernel(tmp_path):
    ov.save_model(build_attention(mask=np.ones((1, 1, 5, 7), np.bool_)), tmp_path / "m.xml", compress_to_fp16=False)
    inputs = [np.ones((2, 6, 5, 8), F32), np.ones((2, 2, 7, 8), F32), np.ones((2, 2, 7, 8), F32)]
    for optimize in (True, False):
        with pytest.raises(irrun.InputError, match="do not match"):
            irrun.compile_model(tmp_path / "m.xml", optimize=optimize)([*inputs, np.ones((1, 1, 5, 4), np.bool_)])


@pytest.mark.parametrize("repeated", ["k", "v"])
def test_attention_whose_keys_or_values_alone_are_repeated_is_not_grouped(tmp_path, repeated):
    model = build_attention(mask=None)
    q, k, v = (model.get_results()[0].input_value(0).get_node().input_value(i) for i in range(3))
    own = o.parameter([-1, 6, -1, 8], F32, name="own")
    arguments = (q, k, own) if repeated == "k" else (q, own, v)
    parameters = [p for p in model.get_parameters() if p.get_friendly_name() in ("q", repeated)]
    attended = o.scaled_dot_product_attention(*arguments)
    other = ov.Model([o.result(attended)], [*parameters, own])
    compare_attention(tmp_path, other, [RNG.normal(size=(3, n, m, 8)).astype(F32) for n, m in ((6, 5), (2, 7), (6, 7))])


def test_attention_in_bodies_is_grouped(tmp_path):
    inner = build_attention(mask=None)
    outer = [o.parameter([4, heads, n, 8], F32) for heads, n in ((6, 5), (2, 7), (2, 7))]
    iterator = o.tensor_iterator()
    iterator.set_body(inner)
    for parameter, value in zip(inner.get_parameters(), outer, strict=True):
        iterator.set_sliced_input(parameter, value.output(0), 0, 1, 1, -1, 0)
    output = iterator.get_concatenated_slices(inner.get_results()[0].output(0), 0, 1, 1, -1, 0)
    ov.save_model(ov.Model([o.result(output)], outer), tmp_path / "model.xml", compress_to_fp16=False)
    fast, plain = (irrun.compile_model(tmp_path / "model.xml", optimize=optimize) for optimize in (True, False))
    assert attend_in_groups in [i.kernel for _, i in fast._fast_program.walk()]
    inputs = [RNG.normal(size=p.get_shape()).astype(F32) for p in outer]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("kind", ["append", "prepend", "three", "other variable", "columns"])
def test_values_that_are_appended_to_their_variable_grow_in_place(tmp_path, reordered, kind):
    """Other concatenations are computed by the plain kernel."""
    x, order = o.parameter([-1, -1, 3], F32, name="x"), o.parameter([-1], np.int32, name="order")
    variables = []
    for name in "vw":
        info = ov.op.util.VariableInfo()
        info.data_shape, info.data_type, info.variable_id = ov.PartialShape([-1, -1, 3]), ov.Type.f32, name
        variables.append(ov.op.util.Variable(info))
    reads = [o.read_value(o.constant(np.ones((2, 1, 3), F32)), variable) for variable in variables]
    axis = 1 if kind == "columns" else 0
    past = o.gather(reads[0], order, o.constant(np.array(axis))) if reordered else reads[0]
    parts = {"prepend": [x, past], "three": [past, x, x]}.get(kind, [past, x])
    present = o.concat(parts, 1)
    assigned = variables[::-1] if kind == "other variable" else variables
    sinks = [o.assign(present, assigned[0]), o.assign(o.exp(reads[1]), assigned[1])]
    results = [o.reduce_sum(present, o.constant(np.array([1]))), o.exp(reads[1])]
    model = ov.Model([o.result(r) for r in results], sinks, [x, order])
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    fast, plain = (irrun.compile_model(tmp_path / "model.xml", optimize=optimize) for optimize in (True, False))
    kernel = append_to_reordered_variable if reordered else append_to_variable
    grows = kind == "append" or (kind == "columns" and not reordered)
    assert (kernel in list_kernels(fast)) == grows
    requests = [model.create_infer_request() for model in (fast, plain)]
    for count in (1, 2, 3):
        inputs = {"x": RNG.normal(size=(2, count, 3)).astype(F32), "order": np.array([1, 0], np.int32)}
        if kind == "columns":
            inputs["order"] = np.arange(1, dtype=np.int32)
        actual, expected = (request.infer(inputs).to_tuple() for request in requests)
        for a, e in zip(actual, expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-5)


def test_views_of_the_beginning_of_a_buffer_grow_in_place():
    variables = Variables({})
    first, more = np.zeros((2, 3, 4), np.float32), np.ones((2, 1, 4), np.float32)

    def append(past):
        return append_to_variable(past, more, axis=1, variable_id="v", variables=variables)

    value = append(first)
    buffer = variables.buffers["v"]
    assert value.base is buffer
    view = buffer[:, :4]
    assert append(view).shape == (2, 5, 4)
    assert variables.buffers["v"] is buffer
    for other in (buffer[:, 1:5], buffer[:1, :4], view.copy(), buffer[::-1, :4]):
        if len(other) == 2:
            np.testing.assert_array_equal(append(other), np.concatenate([other, more], 1))
            assert variables.buffers["v"] is not buffer
            variables.buffers["v"] = buffer
        assert not _is_beginning(other, buffer, 1)
    assert _is_beginning(view, buffer, 1)
    assert not _is_beginning(view, buffer, 2)
    assert not _is_beginning(buffer, view, 1)
