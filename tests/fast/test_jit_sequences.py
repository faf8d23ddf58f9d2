"""Sequences of compiled kernels: their memory, and that their results equal the single instructions'."""

import importlib.util

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from fast.harness import list_sequences, run_single_instructions
from irrun.activity import find_step
from irrun.errors import InputError
from irrun.fast.jit.sequences import MAX_MISSES, MAX_PLANS, SequenceKernel
from irrun.inspection.instruments import KernelTimer
from irrun.runtime.passes.jit_sequences import DEFAULT_WORK, join_instructions

ov = import_builder()
o = import_builder("openvino.opset13")

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

F32 = np.float32


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(F32)


def convolve(data, channels, seed=0):
    """Return a 3x3 convolution with a bias and Swish."""
    inner = (data if isinstance(data, ov.Output) else data.output(0)).get_partial_shape()[1].get_length()
    filters = o.constant(draw((channels, inner, 3, 3), seed) * F32(0.2))
    result = o.convolution(data, filters, [1, 1], [1, 1], [1, 1], [1, 1])
    return o.swish(o.add(result, o.constant(draw((1, channels, 1, 1), seed + 1))))


def split(data, count=2, axis=1):
    return o.split(data, o.constant(np.int64(axis)), count).outputs()


def reshape(data, *shape):
    return o.reshape(data, o.constant(np.array(shape, np.int64)), special_zero=False)


def compile_results(folder, parameters, *results, **options):
    """Return a compiled model."""
    path = folder / "model.xml"
    ov.serialize(ov.Model([o.result(r) for r in results], list(parameters), "model"), path)
    return irrun.compile_model(path, jit=True, **options)


def check(compiled, *inputs):
    """Assert that sequences compute the bits of the single instructions, in any run and with any number of threads."""
    expected = run_single_instructions(compiled, inputs)
    first = compiled(inputs).to_tuple()
    compiled([x + F32(1) for x in inputs])
    results = [first]
    for compiled.threads in (1, 2, 4):
        results.append(compiled(inputs).to_tuple())
    for outputs in results:
        for actual, reference in zip(outputs, expected, strict=True):
            assert actual.shape == reference.shape
            np.testing.assert_array_equal(actual, reference)


def count_copies(compiled):
    """Return how many inputs of Concat were copied."""
    plans = [plan for kernel in list_sequences(compiled) for plan in kernel._plans.values()]
    return sum(binding.bases == (0, -1) and len(binding.shape) == 2 for plan in plans for binding in plan.bindings)


def test_parts_of_a_concatenation_are_computed_in_place(tmp_path):
    data = o.parameter([1, 8, 10, 12], F32)
    x = convolve(data, 16)
    first, second = split(x)
    y = convolve(convolve(second, 8, 2), 8, 3)
    compiled = compile_results(tmp_path, [data], convolve(o.concat([first, second, o.add(y, second)], 1), 8, 4))
    (operations,) = list_sequences(compiled).values()
    assert operations.count("Convolution") == 0  # their last operations are listed
    assert "Concat" in operations
    assert "Split" in operations
    check(compiled, draw((1, 8, 10, 12)))
    assert count_copies(compiled) == 0


@pytest.mark.parametrize("axis", [1, -3])
def test_values_of_two_concatenations_are_copied(axis, tmp_path):
    data = o.parameter([1, 8, 10, 12], F32)
    x, y = convolve(data, 8), convolve(data, 8, 2)
    results = o.concat([x, y], axis), o.concat([y, x, data], axis)
    compiled = compile_results(tmp_path, [data], *[convolve(r, 8, 3) for r in results], o.concat([y, x], axis))
    check(compiled, draw((1, 8, 10, 12)))
    assert count_copies(compiled) == 5


def test_concatenations_of_rows_and_of_parts_of_values_are_copied(tmp_path):
    data = o.parameter([1, 8, 10, 12], F32)
    x = convolve(data, 12)
    first, _, third = split(x, 3)
    rows = o.concat([convolve(data, 4, 2), first], 2)
    parts = o.concat([third, convolve(data, 6, 3)], 1)
    compiled = compile_results(tmp_path, [data], convolve(rows, 8, 4), convolve(parts, 8, 5), x)
    check(compiled, draw((1, 8, 10, 12)))
    assert count_copies(compiled) == 3


@pytest.mark.parametrize("position", [0, 1, 2])
def test_concatenations_with_empty_inputs_have_a_plan(position, tmp_path):
    data = o.parameter([1, 8, 10, 12], F32)
    parts = [convolve(data, 8), convolve(data, 4, 2)]
    empty = o.parameter([1, -1, 10, 12], F32)
    parts.insert(position, o.relu(empty))
    compiled = compile_results(tmp_path, [data, empty], o.add(o.concat(parts, 1), o.constant(F32(1))))
    values = draw((1, 8, 10, 12)), np.zeros((1, 0, 10, 12), F32)
    request = compiled.create_infer_request()
    (result,) = request.infer(list(values)).to_tuple()
    assert request.fallbacks == []
    (expected,) = irrun.compile_model(compiled.model, optimize=False)(list(values)).to_tuple()
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_concatenations_of_concatenations_share_their_memory(tmp_path):
    data = o.parameter([1, 8, 10, 12], F32)
    inner = o.concat([convolve(data, 8), convolve(data, 4, 2)], 1)
    outer = o.concat([convolve(inner, 4, 3), inner], 1)
    compiled = compile_results(tmp_path, [data], convolve(outer, 8, 4), outer)
    check(compiled, draw((1, 8, 10, 12)))
    assert count_copies(compiled) == 0


def test_outputs_of_a_sequence_share_no_memory(tmp_path):
    # What follows may compute in place in an output.
    data = o.parameter([1, 8, 10, 12], F32)
    x = convolve(data, 8)
    joined = o.concat([x, convolve(x, 4, 2)], 1)
    compiled = compile_results(tmp_path, [data], x, joined)
    check(compiled, draw((1, 8, 10, 12)))
    (kernel,) = list_sequences(compiled)
    first, second = kernel(draw((1, 8, 10, 12)))
    assert {first.shape, second.shape} == {(1, 8, 10, 12), (1, 12, 10, 12)}
    assert not np.shares_memory(first, second)


def test_outputs_may_be_views_of_values_and_of_inputs(tmp_path):
    data = o.parameter([1, 8, 10, 12], F32)
    x = convolve(data, 8)
    first, second = split(x)
    flat = reshape(x, 1, 8, 120)
    own = reshape(data, 8, 120)
    compiled = compile_results(tmp_path, [data], first, flat, convolve(second, 4, 2), own, convolve(x, 8, 3))
    data = draw((1, 8, 10, 12))
    check(compiled, data)
    outputs = compiled([data]).to_tuple()
    for array in outputs:
        array[...] = 7
    np.testing.assert_array_equal(data, draw((1, 8, 10, 12)))
    assert not any(np.shares_memory(a, b) for i, a in enumerate(outputs) for b in outputs[:i])


def test_gates_residuals_pools_and_products_are_members(tmp_path):
    data = o.parameter([2, 8, 24, 26], F32)
    x = convolve(data, 32)
    mean = o.reduce_mean(x, o.constant(np.array([2, 3])), keep_dims=True)
    gate = o.sigmoid(o.convolution(mean, o.constant(draw((32, 32, 1, 1), 5)), [1, 1], [0, 0], [0, 0], [1, 1]))
    pooled = o.max_pool(o.multiply(x, gate), [1, 1], [1, 1], [1, 1], [1, 1], [3, 3]).output(0)
    y = o.add(convolve(pooled, 32, 7), pooled)
    row = reshape(o.reduce_mean(y, o.constant(np.array([2, 3])), keep_dims=True), 2, 32)
    result = o.add(o.matmul(row, o.constant(draw((32, 40))), False, False), o.constant(draw(40)))
    compiled = compile_results(tmp_path, [data], result)
    (operations,) = list_sequences(compiled).values()
    assert {"ReduceMean", "MaxPool", "Add", "Sigmoid"} <= {*operations}
    check(compiled, draw((2, 8, 24, 26)))


def test_views_that_are_not_contiguous_are_copied(tmp_path):
    data = o.parameter([2, 8, 10, 12], F32)
    x = convolve(convolve(data, 16), 16, 2)
    first, second = split(x)
    compiled = compile_results(tmp_path, [data], convolve(convolve(first, 8, 3), 8, 4), second)
    assert len(list_sequences(compiled)) == 1
    check(compiled, draw((2, 8, 10, 12)))


@pytest.mark.falls_back
def test_dynamic_shapes_without_views_run_the_single_instructions(tmp_path):
    data = o.parameter([-1, 8, 10, 12], F32)
    first, second = split(convolve(data, 16))
    compiled = compile_results(tmp_path, [data], convolve(o.concat([second, convolve(first, 8, 3)], 1), 8, 4))
    assert len(list_sequences(compiled)) == 1
    for batch in (1, 2, 3, 1, 4, 5, 6):
        check(compiled, draw((batch, 8, 10, 12), batch))


def test_dynamic_sizes_have_plans_of_their_own(tmp_path):
    data = o.parameter([1, 8, -1, -1], F32)
    compiled = compile_results(tmp_path, [data], convolve(convolve(data, 8), 8, 3))
    for size in (9, 3, 20, 5, 9, 20):
        check(compiled, draw((1, 8, size, size + 1), size))


@pytest.mark.falls_back
def test_shapes_that_change_all_the_time_have_no_plans(tmp_path):
    data = o.parameter([1, 8, -1, 12], F32)
    compiled = compile_results(tmp_path, [data], convolve(convolve(data, 8), 8, 3))
    (kernel,) = list_sequences(compiled)
    for size in range(8, 20):
        compiled(draw((1, 8, size, 12)))
    assert len(kernel._plans) == 4
    check(compiled, draw((1, 8, 19, 12)))
    assert (1, 8, 19, 12) in {layout.shape for layouts in kernel._plans for layout in layouts}


@pytest.mark.falls_back
def test_members_are_separated_where_shapes_change_in_many_runs(tmp_path):
    data = o.parameter([1, 8, -1, 12], F32)
    compiled = compile_results(tmp_path, [data], convolve(convolve(data, 8), 8, 3), convolve(data, 4, 5))
    request = compiled.create_infer_request()
    (kernel,) = list_sequences(compiled)
    calls = []

    def run(size):
        """Run the request, and return whether the sequence was called."""
        calls.clear()
        inputs = [draw((1, 8, size, 12))]
        for actual, expected in zip(
            request.infer(inputs).to_tuple(), run_single_instructions(compiled, inputs), strict=True
        ):
            np.testing.assert_array_equal(actual, expected)
        return bool(calls)

    def find_plan(layouts):
        calls.append(layouts)
        return original(layouts)

    original, kernel._find_plan = kernel._find_plan, find_plan
    assert all(run(size) for size in range(3, 3 + MAX_PLANS + MAX_MISSES + 1))
    assert not run(30)
    assert not run(30)
    assert not request.fallbacks
    assert compiled.create_infer_request().infer([draw((1, 8, 3, 12))]).to_tuple()[0].shape == (1, 8, 3, 12)
    assert calls  # other requests try again


#: Arithmetic operations of a convolution of 8 maps of 6x6 elements, of its bias and of Swish.
WORK = 2 * 8 * 8 * 9 * 36 + 5 * 8 * 36


def test_long_sequences_are_divided(tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.runtime.passes.jit_sequences.MAX_WORK", 3 * WORK)
    x = data = o.parameter([1, 8, 6, 6], F32)
    for seed in range(7):
        x = convolve(x, 8, seed)
    compiled = compile_results(tmp_path, [data], x)
    assert [len(operations) for operations in list_sequences(compiled).values()] == [3, 3]
    check(compiled, draw((1, 8, 6, 6)))


def list_types(compiled):
    """Return the types of the operations that run one after another: lists for sequences."""
    members = list_sequences(compiled)
    types = [members.get(i.kernel) or i.operation.type for i in compiled._fast_program.sequences]
    return [[name for name in own if name == "Swish"] if isinstance(own, list) else own for own in types]


def accumulate(data):
    """Return a cumulative sum, which is not compiled."""
    return o.cum_sum(data, o.constant(np.int64(3)))


def move_sums(program, position):
    """Move cumulative sums to a position among the convolutions, and join the convolutions again."""
    convolutions = [i for i in program.instructions if i.operation.type == "Swish"]
    sums = [i for i in program.instructions if i.operation.type == "CumSum"]
    program.instructions = [*convolutions[:position], *sums, *convolutions[position:]]
    join_instructions(program)


def test_instructions_between_members_run_afterwards(tmp_path):
    data = o.parameter([1, 8, 6, 6], F32)
    first = convolve(data, 8)
    sums = accumulate(accumulate(first))
    last = convolve(convolve(first, 8, 1), 8, 2)
    compiled = compile_results(tmp_path, [data], last, sums)
    move_sums(compiled._fast_program, 1)
    assert list_types(compiled) == [["Swish"] * 3, "CumSum", "CumSum"]
    check(compiled, draw((1, 8, 6, 6)))


def test_members_that_depend_on_other_instructions_begin_a_sequence(tmp_path):
    data = o.parameter([1, 8, 6, 6], F32)
    first = convolve(convolve(data, 8), 8, 1)
    last = convolve(convolve(accumulate(first), 8, 2), 8, 3)
    compiled = compile_results(tmp_path, [data], o.add(last, first))
    assert list_types(compiled) == [["Swish"] * 2, "CumSum", ["Swish"]]
    check(compiled, draw((1, 8, 6, 6)))


def test_only_a_few_instructions_are_postponed(tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.runtime.passes.jit_sequences.MAX_POSTPONED", 1)
    data = o.parameter([1, 8, 6, 6], F32)
    first = convolve(convolve(data, 8), 8, 1)
    sums = accumulate(accumulate(first))
    last = convolve(convolve(first, 8, 2), 8, 3)
    compiled = compile_results(tmp_path, [data], last, sums)
    move_sums(compiled._fast_program, 2)
    assert list_types(compiled) == [["Swish"] * 2, "CumSum", "CumSum", ["Swish"] * 2]
    check(compiled, draw((1, 8, 6, 6)))


def test_variables_are_read_before_and_written_after_members(tmp_path):
    data = o.parameter([1, 8, 6, 6], F32)
    zeros = o.constant(np.zeros((1, 8, 6, 6), F32))
    first = convolve(data, 8)
    one = o.read_value(zeros, "one")
    second = convolve(o.concat([first, one], 1), 8, 1)
    written = o.assign(second, "one")
    two = o.read_value(zeros, "two")
    third = convolve(o.concat([second, two], 1), 8, 2)
    model = ov.Model([o.result(third)], [written, o.assign(third, "two")], [data], "model")
    ov.serialize(model, tmp_path / "model.xml")
    compiled = irrun.compile_model(tmp_path / "model.xml", jit=True)
    assert list_types(compiled) == ["ReadValue", "ReadValue", ["Swish"] * 3, "Assign", "Assign"]
    plain = irrun.compile_model(tmp_path / "model.xml", optimize=False).create_infer_request()
    request = compiled.create_infer_request()
    for seed in range(4):
        x = [draw((1, 8, 6, 6), seed)]
        np.testing.assert_allclose(request.infer(x)[0], plain.infer(x)[0], rtol=1e-4, atol=1e-4)
    assert not request.fallbacks


def test_transposed_values_of_dynamic_shapes_are_joined(tmp_path):
    data = o.parameter([-1, 8, -1, 6], F32)
    turned = o.transpose(convolve(data, 8), o.constant(np.array([0, 1, 3, 2])))
    compiled = compile_results(tmp_path, [data], convolve(turned, 8, 1))
    assert list_types(compiled) == [["Swish"] * 2]
    for shape in ((1, 8, 6, 6), (2, 8, 5, 6), (1, 8, 1, 6)):
        check(compiled, draw(shape))


def test_sequences_of_unknown_work_are_divided_by_their_number_of_members(tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.runtime.passes.jit_sequences.MAX_WORK", 3 * DEFAULT_WORK)
    x = data = o.parameter([-1, 8, 6, 6], F32)
    for seed in range(7):
        x = convolve(x, 8, seed)
    compiled = compile_results(tmp_path, [data], x)
    assert [len(operations) for operations in list_sequences(compiled).values()] == [3, 3]
    check(compiled, draw((2, 8, 6, 6)))


def test_sequences_tell_their_first_layer_and_number(tmp_path, monkeypatch):
    steps = []
    call = SequenceKernel.__call__

    def record(kernel, *inputs):
        steps.append(find_step())
        return call(kernel, *inputs)

    monkeypatch.setattr("irrun.runtime.passes.jit_sequences.MAX_WORK", 3 * WORK)
    monkeypatch.setattr(SequenceKernel, "__call__", record)
    x = data = o.parameter([1, 8, 6, 6], F32)
    for seed in range(6):
        x = convolve(x, 8, seed)
    compile_results(tmp_path, [data], x)(draw((1, 8, 6, 6)))
    assert [(step.text, step.done, step.total) for step in steps] == [("Convolution", 0, 18), ("Convolution", 9, 18)]


def test_inputs_of_any_layout_are_accepted(tmp_path):
    data = o.parameter([1, 8, 6, 6], F32)
    compiled = compile_results(tmp_path, [data], convolve(convolve(data, 8), 8, 2))
    x = draw((1, 8, 6, 6))
    expected = compiled([x])[0]
    np.testing.assert_array_equal(compiled([np.asfortranarray(x)])[0], expected)
    shifted = np.zeros(x.nbytes + 1, np.uint8)[1:].view(F32).reshape(x.shape)
    shifted[...] = x
    np.testing.assert_array_equal(compiled([shifted])[0], expected)


def test_instruments_measure_single_instructions(tmp_path):
    data = o.parameter([1, 8, 6, 6], F32)
    compiled = compile_results(tmp_path, [data], convolve(convolve(data, 8), 8, 2))
    timer = KernelTimer()
    compiled.create_infer_request(timer).infer([draw((1, 8, 6, 6))])
    timer.finish_run(1.0)
    assert len(timer.records) == 2


def test_values_in_between_count_as_memory_of_a_run(tmp_path):
    data = o.parameter([1, 8, 96, 96], F32)
    x = convolve(convolve(data, 64), 8, 2)
    with pytest.raises(InputError, match="the run would take"):
        compile_results(tmp_path, [data], x, memory=1 << 20)([draw((1, 8, 96, 96))])
    compile_results(tmp_path, [data], x, memory=1 << 22)([draw((1, 8, 96, 96))])


def test_members_run_one_by_one_where_the_memory_does_not_suffice_for_all_values(tmp_path):
    data = o.parameter([1, 8, 96, 96], F32)
    x = convolve(convolve(convolve(data, 64), 8, 2), 64, 4)  # 2.3, 0.3 and 2.3 MB
    compiled = compile_results(tmp_path, [data], x)
    limited = irrun.compile_model(tmp_path / "model.xml", jit=True, memory=1 << 22)
    (kernel,), (limited_kernel,) = list_sequences(compiled), list_sequences(limited)
    value = draw((1, 8, 96, 96))
    for _ in range(2):
        np.testing.assert_array_equal(limited([value]).to_tuple(), compiled([value]).to_tuple())
    assert (kernel._single, len(limited_kernel._single)) == (None, 3)


def test_results_of_a_sequence_count_as_memory_before_they_are_allocated(tmp_path, monkeypatch):
    data = o.parameter([1, 8, 96, 96], F32)
    results = [convolve(data, 64)]
    while len(results) < 10:
        results.append(convolve(results[-1], 64))
    compiled = compile_results(tmp_path, [data], *results, memory=8 << 20)
    allocated = []
    empty = np.empty

    def allocate(*arguments, **keywords):
        allocated.append(empty(*arguments, **keywords))
        return allocated[-1]

    monkeypatch.setattr(np, "empty", allocate)
    with pytest.raises(InputError, match=r"the run would take 9 MiB, .* expected at most 8 MiB"):
        compiled([draw((1, 8, 96, 96))])
    assert sum(x.nbytes for x in allocated) < 16 << 20  # of 24 MB


@pytest.mark.falls_back
def test_wrong_shapes_name_the_layer(tmp_path):
    data, other = o.parameter([1, 8, -1, -1], F32), o.parameter([1, 8, -1, -1], F32)
    x = o.add(convolve(convolve(data, 8), 8, 2), other)
    x.set_friendly_name("sum")
    compiled = compile_results(tmp_path, [data, other], convolve(x, 8, 3))
    check(compiled, draw((1, 8, 6, 6)), draw((1, 8, 6, 6)))
    with pytest.raises(irrun.IrrunError, match="sum"):
        compiled([draw((1, 8, 6, 6)), draw((1, 8, 5, 6))])


@pytest.mark.parametrize("seed", range(20))
def test_blocks_in_use_at_the_same_time_are_apart(seed):
    from irrun.fast.jit.sequence_plans import Block, place_blocks

    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(30):
        first = int(rng.integers(20))
        blocks.append(Block(int(rng.integers(1, 500)), first, first + int(rng.integers(6))))
    size = place_blocks(blocks)
    assert size <= sum(block.size + 63 for block in blocks)
    for i, a in enumerate(blocks):
        start = a.place.offset
        assert start % 64 == 0
        assert start + a.size <= size
        for b in blocks[:i]:
            if a.first <= b.last and b.first <= a.last:
                assert start >= b.place.offset + b.size or b.place.offset >= start + a.size


@pytest.mark.parametrize("thread_count", [1, 2, 4])
def test_tasks_of_a_schedule_wait_for_each_other(thread_count):
    from fast.test_jit_tasks import COUNT, compile_scaling
    from irrun.fast.jit.addresses import get_address
    from irrun.fast.jit.schedules import Schedule
    from irrun.fast.jit.tasks import Address, make_base, make_range_task

    x = np.arange(COUNT, dtype=F32)
    arrays = [x, np.zeros(COUNT, F32), np.zeros(COUNT, F32)]
    tasks = []
    for number in range(60):
        task = make_range_task(compile_scaling(), (make_base(0), make_base(1)), COUNT, 1 + number % 7, (0.5, number))
        tasks.append((task, [Address(number and 1 + number % 2), Address(1 + (number + 1) % 2)]))
        x = x * F32(0.5) + F32(number)
    schedule = Schedule([], tasks, thread_count)
    for _ in range(20):
        schedule.run([get_address(array) for array in arrays])
        np.testing.assert_array_equal(arrays[1], x)
        arrays[1].fill(np.nan)


def attend(x, heads, mask=None, seed=0):
    """Return the sum of tokens [B, L, C] and their attention to themselves, whose heads are side by side."""
    batch, length, channels = x.shape
    weights = [o.constant(draw((channels, channels), seed + i)) for i in range(4)]
    projections = [o.matmul(x, w, False, False) for w in weights[:3]]
    split_heads = [
        o.transpose(reshape(p, batch, length, heads, channels // heads), o.constant([0, 2, 1, 3])) for p in projections
    ]
    attended = o.scaled_dot_product_attention(*split_heads, *([] if mask is None else [mask]))
    joined = reshape(o.transpose(attended, o.constant([0, 2, 1, 3])), batch, length, channels)
    return o.add(x, o.matmul(joined, weights[3], False, False))


def normalize(x):
    """Return a layer normalization."""
    scale, offset = (o.constant(draw((x.shape[-1],), seed)) for seed in (1, 2))
    return o.add(o.multiply(o.mvn(x, o.constant([-1]), True, 1e-5, "inside_sqrt"), scale), offset)


@pytest.mark.parametrize("batch", [1, 2])
def test_layers_of_transformers_are_one_sequence(batch, tmp_path):
    data = o.parameter([batch, 40, 96], F32)
    x = normalize(attend(data, 4))
    x = normalize(attend(x, 3, seed=4))
    compiled = compile_results(tmp_path, [data], x)
    (operations,) = list_sequences(compiled).values()
    assert operations.count("ScaledDotProductAttention") == 2
    check(compiled, draw((batch, 40, 96)))


@pytest.mark.parametrize("shape", [(1, 1, 40, 40), (2, 1, 1, 40), (1, 4, 1, 40), (40, 40)])
def test_masks_of_booleans_are_converted_once(shape, tmp_path):
    data, threshold = o.parameter([2, 40, 96], F32), o.parameter(shape, F32)
    mask = o.greater(threshold, o.constant(F32(-1)))
    x = normalize(attend(data, 4, mask))
    compiled = compile_results(tmp_path, [data, threshold], normalize(attend(x, 4, mask, 4)))
    *_, operations = list_sequences(compiled).values()  # the mask is computed between members
    assert operations.count("ScaledDotProductAttention") == 2
    layers = [i.layer.type for i in compiled._fast_program.instructions]
    assert layers.count("Convert") == 1
    check(compiled, draw((2, 40, 96)), draw(shape, 1))


def test_scores_of_separate_operations_are_members(tmp_path):
    data = o.parameter([1, 40, 96], F32)
    heads = [o.transpose(reshape(p, 1, 40, 4, 24), o.constant([0, 2, 1, 3])) for p in (data, normalize(data))]
    scores = o.softmax(o.multiply(o.matmul(*heads, False, True), o.constant(F32(0.2))), -1)
    attended = o.transpose(o.matmul(scores, heads[1], False, False), o.constant([0, 2, 1, 3]))
    compiled = compile_results(tmp_path, [data], normalize(reshape(attended, 1, 40, 96)), attended)
    assert "Softmax" in next(iter(list_sequences(compiled).values()))
    check(compiled, draw((1, 40, 96)))


def test_maps_and_tokens_are_copied_within_a_sequence(tmp_path):
    """Squares are transposed, and rows of windows are copied."""
    data = o.parameter([1, 8, 12, 12], F32)
    tokens = o.transpose(reshape(convolve(data, 32), 1, 32, 144), o.constant([0, 2, 1]))
    x = normalize(o.matmul(tokens, o.constant(draw((32, 32))), False, False))
    windows = o.transpose(reshape(x, 1, 3, 4, 3, 4, 32), o.constant([0, 1, 3, 2, 4, 5]))
    x = normalize(reshape(windows, 9, 16, 32))
    image = reshape(o.transpose(reshape(x, 1, 144, 32), o.constant([0, 2, 1])), 1, 32, 12, 12)
    compiled = compile_results(tmp_path, [data], convolve(image, 8, 3), windows)
    (operations,) = list_sequences(compiled).values()
    assert operations.count("Transpose") == 3
    check(compiled, draw((1, 8, 12, 12)))


def test_copies_of_single_columns_end_a_sequence(tmp_path):
    data = o.parameter([1, 6, 10, 12], F32)
    x = o.transpose(o.sigmoid(o.sigmoid(convolve(data, 8))), o.constant([3, 1, 2, 0]))
    y = o.transpose(x, o.constant([3, 1, 0, 2]))
    compiled = compile_results(tmp_path, [data], convolve(convolve(reshape(y, 1, 8, 10, 12), 8), 8, 4))
    check(compiled, draw((1, 6, 10, 12)))


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (2, 9, 5, 5), (1, 1, 7, 3), (3, 2, 2, 2)])
def test_small_maps_are_transposed_within_a_sequence(shape, tmp_path):
    batch, channels, height, width = shape
    data = o.parameter([batch, 4, height, width], F32)
    x = o.transpose(convolve(convolve(data, 8), channels, 2), o.constant([0, 2, 3, 1]))
    compiled = compile_results(tmp_path, [data], o.softmax(reshape(x, batch, height * width * channels), 1))
    (operations,) = list_sequences(compiled).values()
    assert "Reshape" in operations
    check(compiled, draw((batch, 4, height, width)))


@pytest.mark.parametrize(("shift", "axes"), [([-3, 2], [1, 2]), ([5, 5], [0, 2]), (40, 1), ([0, 1], [-2, -3])])
def test_rotated_windows_are_members(shift, axes, tmp_path):
    data = o.parameter([2, 15, 14, 40], F32)
    x = o.roll(normalize(data), o.constant(shift), o.constant(axes))
    x = normalize(o.transpose(x, o.constant([0, 2, 1, 3])))
    compiled = compile_results(tmp_path, [data], o.roll(x, o.constant(shift), o.constant(axes)))
    (operations,) = list_sequences(compiled).values()
    assert operations.count("Roll") == 2
    check(compiled, draw((2, 15, 14, 40)))
    plain = irrun.compile_model(tmp_path / "model.xml", optimize=False)
    np.testing.assert_allclose(compiled(draw((2, 15, 14, 40)))[0], plain(draw((2, 15, 14, 40)))[0], atol=1e-5)


def test_rotations_of_columns_or_along_an_axis_twice_are_not_compiled(tmp_path):
    data = o.parameter([4, 20, 20, 40], F32)
    results = [o.roll(data, o.constant(s), o.constant(a)) for s, a in (([1], [3]), ([1, 2], [1, -3]), ([2**40], [1]))]
    compiled = compile_results(tmp_path, [data], *results)
    assert not any("rotation" in i.description for i in compiled._fast_program.instructions)


def test_slices_and_padding_by_nothing_are_views(tmp_path):
    data = o.parameter([1, 8, 8, 32], F32)
    x = normalize(o.pad(normalize(data), [0] * 4, [0] * 4, "constant"))
    corners = [
        o.slice(x, o.constant([row, column]), o.constant([8, 8]), o.constant([2, 2]), o.constant([1, 2]))
        for row in (0, 1)
        for column in (0, 1)
    ]
    merged = normalize(reshape(o.concat(corners, -1), 1, 16, 128))
    padded = o.pad(merged, [0, 1, 0], [0, 0, 0], "constant")
    compiled = compile_results(tmp_path, [data], normalize(padded))
    operations = next(iter(list_sequences(compiled).values()))
    assert operations.count("Slice") == 4
    assert operations.count("Pad") == 1
    check(compiled, draw((1, 8, 8, 32)))


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("has_view", [False, True])
def test_inputs_may_be_views(axes, has_view):
    """Outputs that are views of inputs require contiguous ones."""
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel
    from irrun.fast.jit.sequence_members import Computation, Views
    from irrun.fast.jit.sequences import SequenceKernel

    kernel = ExpressionKernel(3, (Step("Multiply", (0, 0)),), [])
    members = [
        Views(0, (1,), lambda x: x.transpose(1, 0, 2)),
        Computation((1,), 2, kernel),
        Computation((2,), 3, kernel),
    ]
    sequence = SequenceKernel(members, [0], [3, *([1] if has_view else [])])
    data = draw((20, 24, 28)).transpose(axes)
    for _ in range(2):
        results = sequence(data)
        power, *views = results if has_view else (results,)
        np.testing.assert_array_equal(power, ((data**2) ** 2).transpose(1, 0, 2))
        for view in views:
            np.testing.assert_array_equal(view, data.transpose(1, 0, 2))
