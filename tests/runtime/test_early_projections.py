"""1x1 convolutions that are computed before their data is enlarged, and others that stay where they are."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.runtime.plan import list_plan

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
OUT_CHANNELS = 96


def constant(*shape, seed=0):
    return o.constant(np.random.default_rng(seed).normal(size=shape).astype(F32))


def enlarge(node, size=(16, 24), mode="linear", axes=(2, 3), **attributes):
    return o.interpolate(node, list(size), mode, "sizes", axes=list(axes), **attributes)


def project(node, out_channels=OUT_CHANNELS, window=1, stride=1, pad=0):
    channels = node.get_output_partial_shape(0)[1].get_length()
    filters = constant(out_channels, channels, window, window, seed=9)
    return o.convolution(node, filters, [stride] * 2, [pad] * 2, [pad] * 2, [1, 1])


def embed(tokens, height, width, channels=OUT_CHANNELS, has_offset=True, transposes=True):
    """Return the map of tokens [1, T, C] after a product, as the decoders of SegFormer compute it."""
    inner = tokens.get_output_partial_shape(0)[2].get_length()
    weights = constant(channels, inner, seed=1) if transposes else constant(inner, channels, seed=1)
    rows = o.matmul(tokens, weights, False, transposes)
    if has_offset:
        rows = o.add(rows, constant(1, 1, channels, seed=2))
    return o.reshape(o.transpose(rows, [0, 2, 1]), [1, -1, height, width], special_zero=False)


def compile_results(parameters, results, **options):
    """Return a compiled model."""
    model = ov.Model([o.result(r) for r in results], list(parameters), "model")
    with tempfile.TemporaryDirectory() as folder:
        ov.serialize(model, Path(folder) / "model.xml")
        return irrun.compile_model(Path(folder) / "model.xml", jit=False, **options)


def list_instructions(compiled):
    """Return the instructions before they were fused and specialized."""
    return [p for i in compiled._fast_program.instructions for p in (i.plain or (i,))]


def count_operations(parameters, *results):
    """Return how often operations are computed, after a comparison with the definition."""
    fast, plain = compile_results(parameters, results), compile_results(parameters, results, optimize=False)
    random = np.random.default_rng(0)
    inputs = [
        random.normal(size=[d.get_length() if d.is_static else 8 for d in p.get_partial_shape()]).astype(F32)
        for p in parameters
    ]
    for actual, expected in zip(fast(inputs).to_tuple(), plain(inputs).to_tuple(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    operations = [i.operation.type for i in list_instructions(fast)]
    return {name: operations.count(name) for name in ("Convolution", "Concat", "Interpolate", "MatMul", "Add")}


def get_convolved_sizes(parameters, result):
    """Return the declared heights and widths of the results of all convolutions."""
    instructions = list_instructions(compile_results(parameters, [result]))
    shapes = [i.layer.outputs[0].shape.get_min_shape() for i in instructions if i.operation.type == "Convolution"]
    return [list(shape[2:]) for shape in shapes]


@pytest.mark.parametrize("has_offset", [True, False])
@pytest.mark.parametrize("transposes", [True, False])
def test_weights_of_products_and_convolution_become_one_matrix(has_offset, transposes):
    tokens = [o.parameter([1, 96, 20], F32), o.parameter([1, 24, 40], F32)]
    sizes = [(8, 12), (4, 6)]
    maps = [
        enlarge(embed(t, *size, has_offset=has_offset, transposes=transposes))
        for t, size in zip(tokens, sizes, strict=True)
    ]
    result = o.relu(o.add(project(o.concat(maps, 1)), constant(1, OUT_CHANNELS, 1, 1)))
    counts = count_operations(tokens, result)
    assert counts == {"Convolution": 0, "Concat": 0, "Interpolate": 2, "MatMul": 2, "Add": 2 + 2 * has_offset}


@pytest.mark.parametrize("mode", ["nearest", "linear", "linear_onnx", "cubic"])
def test_enlarged_maps_are_convolved_before(mode):
    x, y = o.parameter([1, 160, 4, 6], F32), o.parameter([1, 130, 8, 12], F32)
    result = project(o.concat([enlarge(x, mode=mode), enlarge(y, mode=mode)], 1))
    assert count_operations([x, y], result) == {"Convolution": 2, "Concat": 0, "Interpolate": 2, "MatMul": 0, "Add": 1}
    assert get_convolved_sizes([x, y], result) == [[4, 6], [8, 12]]


def test_single_map_is_convolved_before():
    x = o.parameter([2, 128, 4, 6], F32)
    assert get_convolved_sizes([x], project(enlarge(x))) == [[4, 6]]
    assert count_operations([x], project(enlarge(x)))["Add"] == 0


def test_other_maps_are_convolved_together():
    x, y, z = (o.parameter([1, n, *size], F32) for n, size in [(256, (4, 6)), (20, (16, 24)), (30, (16, 24))])
    result = project(o.concat([y, enlarge(x), z], -3))
    assert count_operations([x, y, z], result) == {
        "Convolution": 2,
        "Concat": 1,
        "Interpolate": 1,
        "MatMul": 0,
        "Add": 1,
    }
    result = project(o.concat([enlarge(x), z], 1))
    assert count_operations([x, z], result)["Concat"] == 0


def test_products_of_other_widths_stay():
    tokens = o.parameter([1, 24, 40], F32)
    result = project(enlarge(embed(tokens, 4, 6, channels=120)))
    assert count_operations([tokens], result)["Convolution"] == 1
    assert get_convolved_sizes([tokens], result) == [[4, 6]]


@pytest.mark.parametrize("options", [{"window": 3, "pad": 1}, {"stride": 2}, {"pad": 1}])
def test_other_convolutions_stay(options):
    x = o.parameter([1, 256, 4, 6], F32)
    result = project(enlarge(x), **options)
    assert get_convolved_sizes([x], result) != [[4, 6]]
    assert count_operations([x], result)["Convolution"] == 1


@pytest.mark.parametrize("size", [(16, 24), (8, 12), (4, 6)])
def test_maps_that_are_not_enlarged_much_stay(size):
    x = o.parameter([1, 80, 16, 24], F32)
    result = project(enlarge(x, size))
    assert get_convolved_sizes([x], result) == [list(size)]


def test_values_that_others_need_stay():
    x, y = o.parameter([1, 256, 4, 6], F32), o.parameter([1, 256, 4, 6], F32)
    enlarged = enlarge(x)
    assert count_operations([x], project(enlarged), o.relu(enlarged))["Convolution"] == 1
    joined = o.concat([enlarge(x), enlarge(y)], 1)
    assert count_operations([x, y], project(joined), o.relu(joined))["Concat"] == 1
    twice = o.concat([enlarged, enlarged], 1)
    assert count_operations([x], project(twice))["Concat"] == 1


def test_other_axes_and_dynamic_sizes_stay():
    x = o.parameter([1, 128, 4, 6], F32)
    result = project(enlarge(x, (256, 16), axes=(1, 2)))
    assert count_operations([x], result) == {"Convolution": 1, "Concat": 0, "Interpolate": 1, "MatMul": 0, "Add": 0}
    y = o.parameter([1, 128, -1, 6], F32)
    compiled = compile_results([y], [project(enlarge(y))])
    assert [i.operation.type for i in compiled._fast_program.instructions] == ["Interpolate", "Convolution"]


def test_weights_stay_if_products_exceed_the_memory():
    x = o.parameter([1, 256, 4, 6], F32)
    result = project(enlarge(x))
    compiled = compile_results([x], [result], weights_memory=1000)
    assert [i.operation.type for i in compiled._fast_program.instructions] == ["Interpolate", "Convolution"]


def test_padded_channels_stay():
    x = o.parameter([1, 128, 4, 6], F32)
    result = project(enlarge(x, pads_begin=[0, 8, 0, 0], pads_end=[0, 0, 0, 0]))
    assert get_convolved_sizes([x], result) == [[16, 24]]
    count_operations([x], result)  # compares the results


def transform_rows(rows, shape=(1, OUT_CHANNELS, 4, 6)):
    """Return the map of rows [1, 24, C]."""
    return o.reshape(o.transpose(rows, [0, 2, 1]), list(shape), special_zero=False)


@pytest.mark.parametrize(
    ("shape", "is_moved"),
    [
        ((1, 1, 96), True),
        ((96,), True),
        ((1, 96), True),
        ((1,), False),
        ((), False),
        ((1, 24, 1), False),
        ((24, 96), False),
    ],
)
def test_offsets_of_channels_are_projected(shape, is_moved):
    tokens = o.parameter([1, 24, 40], F32)
    rows = o.add(o.matmul(tokens, constant(OUT_CHANNELS, 40, seed=1), False, True), constant(*shape, seed=2))
    counts = count_operations([tokens], project(enlarge(transform_rows(rows))))
    assert counts["Convolution"] == (not is_moved)


def test_offsets_of_positions_are_not_projected():
    tokens = o.parameter([1, 96, 40], F32)
    rows = o.matmul(tokens, constant(OUT_CHANNELS, 40, seed=1), False, True)
    rows = o.add(rows, constant(1, 96, seed=2), "PDPD")  # along the first two axes
    counts = count_operations([tokens], project(enlarge(transform_rows(rows, (1, OUT_CHANNELS, 8, 12)))))
    assert counts["Convolution"] == 1


@pytest.mark.parametrize(
    ("compute_rows", "is_moved"),
    [
        (lambda tokens: o.matmul(tokens, constant(40, OUT_CHANNELS), False, False), True),
        (lambda tokens: o.matmul(tokens, constant(1, 40, OUT_CHANNELS), False, False), False),
        (lambda tokens: o.matmul(tokens, o.sqrt(o.abs(constant(40, OUT_CHANNELS))), False, False), True),  # is folded
        (lambda tokens: o.matmul(tokens, o.transpose(o.reduce_sum(tokens, [0]), [1, 0]), False, False), False),
        (lambda tokens: o.matmul(constant(96, 40), tokens, False, True), False),
    ],
)
def test_products_with_constant_matrices_are_projected(compute_rows, is_moved):
    tokens = o.parameter([1, 96, 40], F32)
    rows = compute_rows(tokens)
    counts = count_operations([tokens], project(enlarge(transform_rows(rows, (1, 96, *divmod_shape(rows))))))
    assert counts["Convolution"] == (not is_moved)


def divmod_shape(rows):
    """Return the height and width of a map of rows [1, T, C]."""
    length = rows.get_output_partial_shape(0)[1].get_length()
    return 8, length // 8


@pytest.mark.parametrize(
    ("arrange", "is_moved"),
    [
        (lambda rows: o.transpose(o.reshape(rows, [1, 8, 12, 96], special_zero=False), [0, 3, 1, 2]), True),
        (lambda rows: o.reshape(o.transpose(rows, [0, 2, 1]), [1, 96, 8, 12], special_zero=False), True),
        (lambda rows: o.reshape(o.transpose(rows, [2, 0, 1]), [1, 96, 8, 12], special_zero=False), True),
        (lambda rows: o.reshape(rows, [1, 96, 8, 12], special_zero=False), False),  # the channels are pixels
        (lambda rows: o.reshape(o.transpose(rows, [0, 2, 1]), [1, 96, 96, 1], special_zero=False), True),
        (lambda rows: o.reshape(o.transpose(rows, [0, 2, 1]), [1, 48, 16, 12], special_zero=False), False),
    ],
)
def test_axes_of_channels_are_followed(arrange, is_moved):
    tokens = o.parameter([1, 96, 40], F32)
    image = arrange(o.matmul(tokens, constant(OUT_CHANNELS, 40, seed=1), False, True))
    counts = count_operations([tokens], project(enlarge(image, (100, 50))))
    assert counts["MatMul"] == 1
    if image.get_output_partial_shape(0)[1].get_length() == OUT_CHANNELS:
        assert counts["Convolution"] == (not is_moved)


@pytest.mark.parametrize(
    ("version", "axes", "is_moved"),
    [(11, (2, 3), True), (11, (1, 2, 3), False), (4, (2, 3), True), (4, (3, 2), True), (4, (1, 2, 3), False)],
)
def test_axes_of_interpolation_are_compared_with_that_of_the_channels(version, axes, is_moved):
    x = o.parameter([1, 128, 4, 6], F32)
    sizes = [{1: 128, 2: 16, 3: 24}[axis % 4] for axis in axes]
    if version == 11:
        enlarged = enlarge(x, sizes, axes=axes)
    else:
        o10 = import_builder("openvino.opset10")
        scales = o.constant(np.ones(len(axes), F32))
        enlarged = o10.interpolate(x, sizes, scales, "linear", "sizes", axes=list(axes))
    assert get_convolved_sizes([x], project(enlarged)) == ([[4, 6]] if is_moved else [[16, 24]])
    count_operations([x], project(enlarged))


def test_convolutions_in_bodies_are_moved(tmp_path):
    x, part = o.parameter([3, 128, 4, 6], F32), o.parameter([1, 128, 4, 6], F32)
    result = o.result(project(enlarge(part)))
    iterator = o.tensor_iterator()
    iterator.set_body(ov.Model([result], [part], "body"))
    iterator.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 0)
    output = iterator.get_concatenated_slices(result.output(0), 0, 1, 1, -1, 0)
    fast, plain = compile_results([x], [output]), compile_results([x], [output], optimize=False)
    inner = [p for _, i in fast._fast_program.walk() for p in (i.plain or (i,)) if p.operation.type == "Convolution"]
    assert [i.layer.outputs[0].shape.get_min_shape()[2:] for i in inner] == [(4, 6)]
    values = np.random.default_rng(0).normal(size=(3, 128, 4, 6)).astype(F32)
    expected = plain(values)[0]
    np.testing.assert_allclose(fast(values)[0], expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_rewritten_maps_are_freed(tmp_path):
    """The enlarged values are freed after the sum, as the budget of memory shows."""
    x = o.parameter([1, 128, 8, 8], F32)
    value = project(enlarge(x, (256, 256)), 8)
    for _ in range(6):
        value = o.softmax(value, 1)
    compiled = compile_results([x], [value], memory="7M")  # three values of 2 MiB
    assert compiled(np.ones((1, 128, 8, 8), F32))[0].shape == (1, 8, 256, 256)


@pytest.mark.parametrize(("channels", "is_moved"), [(128, True), (126, False)])
def test_half_of_the_multiplications_of_128_channels_is_enough(channels, is_moved):
    x = o.parameter([1, channels, 4, 6], F32)
    assert get_convolved_sizes([x], project(enlarge(x, (8, 6)))) == ([[4, 6]] if is_moved else [[8, 6]])


def test_weights_of_several_convolutions_share_the_memory():
    x, y = o.parameter([1, 128, 4, 6], F32), o.parameter([1, 128, 4, 6], F32)
    results = [project(enlarge(x)), project(enlarge(y))]
    size = 4 * 128 * OUT_CHANNELS
    for memory, count in ((3 * size, 2), (2 * size - 1, 1), (size - 1, 0)):
        instructions = list_instructions(compile_results([x, y], results, weights_memory=memory))
        shapes = [i.layer.outputs[0].shape.get_min_shape() for i in instructions if i.operation.type == "Convolution"]
        assert [shape[2:] for shape in shapes].count((4, 6)) == count


def test_moved_convolutions_use_the_kernels_of_their_shapes():
    """Their weights are constants, as in other convolutions."""
    x = o.parameter([1, 160, 4, 6], F32)
    descriptions = []
    for result in (project(x), project(enlarge(x))):
        plan = list_plan(compile_results([x], [result])._fast_program)
        descriptions.append([e.implementation for e in plan if e.operations == ("Convolution",)])
    assert descriptions[0] == descriptions[1] != ["plain"]
