"""Layers that state sizes of the original inputs adapt when a model is reshaped, as in OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irrun
import irrun.openvino as irrun_ov

ov = pytest.importorskip("openvino")
ops = ov.opset13

F32 = np.float32


def make_parameter(*shape, dtype=F32, name=None):
    return ops.parameter(ov.PartialShape(list(shape)), dtype, name)


def integers(*values):
    return ops.constant(np.array(values, np.int64))


def scalar(value, dtype=np.int64):
    return ops.constant(np.array(value, dtype))


def weights(*shape):
    return ops.constant(np.linspace(-1, 1, int(np.prod(shape)), dtype=F32).reshape(shape))


def make_flattened_data():
    x = make_parameter(1, 4, 3)
    return [x], [ops.relu(ops.reshape(x, integers(12), False))]


def make_matrix_in_front_of_weights(target, transpose_a=False, transpose_b=False):
    x = make_parameter(1, 4, 3)
    matrix = ops.reshape(x, integers(*target), False)
    shape = (5, 12) if transpose_b else (12, 5)
    return [x], [ops.matmul(matrix, weights(*shape), transpose_a, transpose_b)]


def make_matrix_after_weights(target, transpose_b):
    x = make_parameter(4, 3, 1)
    return [x], [ops.matmul(weights(5, 12), ops.reshape(x, integers(*target), False), False, transpose_b)]


def make_matrix_in_front_of_an_input():
    x, y = make_parameter(1, 4, 3), make_parameter(12, 5)
    return [x, y], [ops.matmul(ops.reshape(x, integers(1, 12), False), y, False, False)]


def make_transposed_matrix():
    x = make_parameter(1, 4, 3)
    matrix = ops.transpose(ops.reshape(x, integers(12, 1), False), integers(1, 0))
    return [x], [ops.matmul(matrix, weights(12, 5), False, False)]


def make_squeezed_slice():
    x = make_parameter(1, 6, 4)
    squeezed = ops.squeeze(x, integers(0))
    return [x], [ops.strided_slice(squeezed, integers(1), integers(4), integers(1), [0], [0])]


def make_slice_that_is_squeezed(begin, end, begin_mask=0, end_mask=0):
    x = make_parameter(1, 6, 4)
    part = ops.strided_slice(x, integers(begin), integers(end), integers(1), [begin_mask], [end_mask])
    return [x], [ops.squeeze(part, integers(0))]


def make_proposal():
    scores, deltas, image = make_parameter(1, 24, 34, 62), make_parameter(1, 48, 34, 62), make_parameter(1, 3)
    attributes = {
        "base_size": np.uint32(85),
        "pre_nms_topn": np.uint32(10),
        "post_nms_topn": np.uint32(10),
        "nms_thresh": 0.3,
        "feat_stride": np.uint32(1),
        "min_size": np.uint32(12),
        "ratio": np.array([0.1, 1.5, 2.0, 2.5], F32),
        "scale": np.array([2, 3, 3], F32),
    }
    return [scores, deltas, image], [ops.proposal(scores, deltas, ops.reshape(image, integers(3), False), attributes)]


def make_positions():
    x = make_parameter(1, 8, 4)
    positions = ops.constant(np.arange(8, dtype=np.int64)[None])
    size = ops.gather(ops.shape_of(x), integers(0, 1), scalar(0))
    return [x], [ops.broadcast(positions, size, broadcast_spec="BIDIRECTIONAL")]


def make_cell():
    x = make_parameter(1, 3)
    state = ops.constant(np.full((1, 4), 0.5, F32))
    cell = ops.lstm_cell(x, state, state, weights(16, 3), weights(16, 4), weights(16), 4)
    return [x], [cell.output(0), cell.output(1)]


def make_iterated_cell():
    x = make_parameter(1, 5, 3)
    state = ops.constant(np.full((1, 4), 0.5, F32))
    part, hidden, memory = make_parameter(1, 1, 3), make_parameter(1, 4), make_parameter(1, 4)
    data = ops.squeeze(part, integers(1))
    cell = ops.lstm_cell(data, hidden, memory, weights(16, 3), weights(16, 4), weights(16), 4)
    first, second = ops.result(cell.output(0)), ops.result(cell.output(1))
    rows = ops.result(ops.unsqueeze(cell.output(0), integers(1)))
    iterator = ops.tensor_iterator()
    iterator.set_body(ov.Model([first, second, rows], [part, hidden, memory], "body"))
    iterator.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 1)
    iterator.set_merged_input(hidden, state.output(0), first.output(0))
    iterator.set_merged_input(memory, state.output(0), second.output(0))
    return [x], [iterator.get_concatenated_slices(rows.output(0), 0, 1, 1, -1, 1)]


def make_dense_layer(with_bias):
    x = make_parameter(1, 6, 8)
    y = ops.matmul(ops.reshape(x, integers(-1, 8), False), weights(8, 5), False, False)
    if with_bias:
        y = ops.add(y, weights(1, 5))
    return [x], [ops.reshape(y, integers(1, 6, 5), False)]


def make_transposed_input():
    x = make_parameter(12, 1)
    return [x], [ops.matmul(ops.transpose(ops.relu(x), integers(1, 0)), weights(12, 5), False, False)]


def make_transposed_second_matrix(transpose_b):
    x = make_parameter(4, 3, 1)
    shape = (12, 1) if transpose_b else (1, 12)
    matrix = ops.transpose(ops.reshape(x, integers(*shape), False), integers(1, 0))
    return [x], [ops.matmul(weights(5, 12), matrix, False, transpose_b)]


def make_matrix_transposed_twice():
    x = make_parameter(1, 4, 3)
    matrix = ops.transpose(ops.reshape(x, integers(1, 12), False), integers(1, 0))
    return [x], [ops.matmul(matrix, weights(12, 5), True, False)]


def make_two_matrices():
    """Both matrices are reshaped, and other consumers read one of them."""
    x, y = make_parameter(1, 4, 3), make_parameter(12, 5)
    first = ops.reshape(x, integers(1, 12), False)
    second = ops.reshape(y, integers(12, 5), False)
    return [x, y], [ops.matmul(first, second, False, False), ops.relu(second)]


def make_vector_after_matrix():
    x = make_parameter(1, 4, 3)
    return [x], [ops.matmul(ops.reshape(x, integers(1, 12), False), weights(12), False, False)]


def make_matrix_in_front_of_matrices():
    x = make_parameter(1, 4, 3)
    return [x], [ops.matmul(ops.reshape(x, integers(1, 12), False), weights(2, 12, 5), False, False)]


def make_slice_after_squeeze(axes, shape, begin, end, strides, masks):
    x = make_parameter(*shape)
    squeezed = ops.squeeze(x, integers(*axes))
    named = {f"{name}_mask": value for name, value in masks.items()}
    part = ops.strided_slice(squeezed, *(integers(*v) for v in (begin, end, strides)), **named)
    return [x], [part]


def make_squeeze_after_slice(axes, shape, begin, end, strides, masks):
    x = make_parameter(*shape)
    named = {f"{name}_mask": value for name, value in masks.items()}
    part = ops.strided_slice(x, *(integers(*v) for v in (begin, end, strides)), **named)
    return [x], [ops.squeeze(part, integers(*axes))]


def make_slice_with_two_consumers():
    x = make_parameter(1, 6, 4)
    part = ops.strided_slice(x, integers(0), integers(1), integers(1), [0], [0])
    return [x], [ops.squeeze(part, integers(0)), ops.relu(part)]


def make_sequence(values, target_axes=(0, 1), shape=(1, 8, 4), mode="BIDIRECTIONAL", dtype=np.int64):
    x = make_parameter(*shape)
    positions = ops.constant(np.asarray(values, dtype))
    size = ops.gather(ops.shape_of(x), integers(*target_axes), scalar(0))
    return [x], [ops.broadcast(positions, size, broadcast_spec=mode)]


def make_cell_with_states(batch):
    x = make_parameter(batch, 3)
    state = ops.constant(np.full((batch, 4), 0.5, F32))
    cell = ops.lstm_cell(x, state, ops.add(state, scalar(1, F32)), weights(16, 3), weights(16, 4), weights(16), 4)
    return [x], [cell.output(0), cell.output(1)]


def make_dense_layers(pattern=(-1, 8), target=(1, 6, 5), bias=(1, 5), shape=(1, 6, 8), transpose_b=False):
    x = make_parameter(*shape)
    matrix = weights(5, 8) if transpose_b else weights(8, 5)
    y = ops.matmul(ops.reshape(x, integers(*pattern), False), matrix, False, transpose_b)
    y = y if bias is None else ops.add(y, weights(*bias))
    return [x], [ops.reshape(y, integers(*target), False)]


BATCHES = [3, -1, "2..4"]
NO_MASKS = {"begin": [0, 0, 0], "end": [0, 0, 0]}
CASES: dict[str, tuple[Any, list[list[Any]]]] = {
    "flattened data": (make_flattened_data, [[[b, 4, 3]] for b in BATCHES]),
    "fixed batch": (lambda: make_matrix_in_front_of_weights([1, 12]), [[[b, 4, 3]] for b in BATCHES]),
    "open columns": (lambda: make_matrix_in_front_of_weights([1, -1]), [[[b, 4, 3]] for b in BATCHES]),
    "transposed weights": (
        lambda: make_matrix_in_front_of_weights([1, 12], transpose_b=True),
        [[[b, 4, 3]] for b in BATCHES],
    ),
    "transposed data": (
        lambda: make_matrix_in_front_of_weights([12, 1], transpose_a=True),
        [[[b, 4, 3]] for b in BATCHES],
    ),
    "second matrix": (lambda: make_matrix_after_weights([12, 1], False), [[[4, 3, b]] for b in BATCHES]),
    "second matrix, transposed": (lambda: make_matrix_after_weights([1, 12], True), [[[4, 3, b]] for b in BATCHES]),
    "two inputs": (
        make_matrix_in_front_of_an_input,
        [[[3, 4, 3], [12, 5]], [[1, 4, 6], [24, 5]], [[-1, 4, 3], [12, -1]], [[2, 4, 3], [-1, 5]]],
    ),
    "transposed matrix": (make_transposed_matrix, [[[b, 4, 3]] for b in BATCHES]),
    "squeezed and sliced": (make_squeezed_slice, [[[b, 6, 4]] for b in BATCHES] + [[[1, 3, 4]]]),
    "sliced and squeezed": (lambda: make_slice_that_is_squeezed(0, 1), [[[b, 6, 4]] for b in BATCHES]),
    "last slice": (lambda: make_slice_that_is_squeezed(-1, 9), [[[b, 6, 4]] for b in BATCHES]),
    "all slices": (lambda: make_slice_that_is_squeezed(0, 0, 1, 1), [[[b, 6, 4]] for b in BATCHES]),
    "proposal": (make_proposal, [[[b, 24, 34, 62], [b, 48, 34, 62], [b, 3]] for b in (2, -1)]),
    "positions": (make_positions, [[[3, 8, 4]], [[1, 11, 4]], [[-1, -1, 4]]]),
    "cell": (make_cell, [[[b, 3]] for b in BATCHES]),
    "iterated cell": (make_iterated_cell, [[[b, 5, 3]] for b in BATCHES] + [[[2, 7, 3]]]),
    "dense layer": (lambda: make_dense_layer(False), [[[b, 6, 8]] for b in BATCHES]),
    "dense layer with bias": (lambda: make_dense_layer(True), [[[b, 6, 8]] for b in BATCHES]),
    "transposed input": (make_transposed_input, [[[12, b]] for b in BATCHES]),
    "transposed second matrix": (lambda: make_transposed_second_matrix(False), [[[4, 3, b]] for b in BATCHES]),
    "second matrix, transposed twice": (lambda: make_transposed_second_matrix(True), [[[4, 3, b]] for b in BATCHES]),
    "matrix transposed twice": (make_matrix_transposed_twice, [[[b, 4, 3]] for b in BATCHES]),
    "two matrices": (make_two_matrices, [[[1, 4, 3], [12, 5]]]),
    "vector": (make_vector_after_matrix, [[[b, 4, 3]] for b in BATCHES]),
    "matrices": (make_matrix_in_front_of_matrices, [[[1, 4, 3]]]),
    "two squeezed axes": (
        lambda: make_slice_after_squeeze(
            (0, -2), (1, 6, 1, 4), [1, 0], [4, 2], [1, 1], {"begin": [0, 1], "end": [0, 0]}
        ),
        [[[1, n, 1, 4]] for n in (9, -1)],
    ),
    "squeezed and sliced by two": (
        lambda: make_slice_after_squeeze((0,), (1, 6, 4), [1], [5], [2], {"begin": [0], "end": [0]}),
        [[[1, 8, 4]]],
    ),
    "squeezed and sliced to an element": (
        lambda: make_slice_after_squeeze(
            (0,), (1, 6, 4), [1], [2], [1], {"begin": [0], "end": [0], "shrink_axis": [1]}
        ),
        [[[1, 8, 4]]],
    ),
    "slice of two axes that is squeezed": (
        lambda: make_squeeze_after_slice((0, 2), (1, 6, 3), [0, 1, 1], [1, 5, 2], [1, 1, 1], NO_MASKS),
        [[[b, 6, 3]] for b in BATCHES] + [[[1, 9, 3]]],
    ),
    "last element of the last axis": (
        lambda: make_squeeze_after_slice(
            (-1,), (2, 6, 3), [0, 0, -1], [9, 9, 9], [1, 1, 1], {"begin": [1, 1, 0], "end": [1, 1, 0]}
        ),
        [[[b, 6, 4]] for b in BATCHES],
    ),
    "slice by two that is squeezed": (
        lambda: make_squeeze_after_slice((0,), (1, 6, 3), [0, 0], [1, 6], [1, 2], {"begin": [0], "end": [0]}),
        [[[1, 8, 3]]],
    ),
    "slice of fewer axes that is squeezed": (
        lambda: make_squeeze_after_slice((2,), (2, 6, 1), [0], [9], [1], {"begin": [1], "end": [1]}),
        [[[b, 6, 1]] for b in BATCHES],
    ),
    "slice with two consumers": (make_slice_with_two_consumers, [[[b, 6, 4]] for b in BATCHES]),
    "positions without a batch": (lambda: make_sequence(range(8)), [[[3, 8, 4]], [[1, 11, 4]], [[-1, -1, 4]]]),
    "positions of i32": (
        lambda: make_sequence([range(8)], dtype=np.int32),
        [[[3, 8, 4]], [[1, 11, 4]]],
    ),
    "positions in front of an axis": (
        lambda: make_sequence(np.arange(8)[:, None], (1, 2)),
        [[[3, 8, 5]], [[1, 11, 4]], [[1, -1, -1]]],
    ),
    "six positions": (lambda: make_sequence([range(6)], shape=(1, 6, 4)), [[[3, 6, 4]], [[1, 9, 4]]]),
    "five positions": (lambda: make_sequence([range(5)], shape=(1, 5, 4)), [[[3, 5, 4]]]),
    "other numbers": (lambda: make_sequence([range(1, 9)]), [[[3, 8, 4]]]),
    "numbers in floating point": (lambda: make_sequence([range(8)], dtype=F32), [[[3, 8, 4]]]),
    "positions that are only repeated": (lambda: make_sequence([range(8)], mode="NUMPY"), [[[3, 8, 4]]]),
    "cell with a batch": (lambda: make_cell_with_states(2), [[[2, 3]]]),
    "cell with a computed state": (lambda: make_cell_with_states(1), [[[1, 3]]]),
    "dense layer, bias of one element": (lambda: make_dense_layers(bias=(1, 1)), [[[b, 6, 8]] for b in BATCHES]),
    "dense layer, bias of a vector": (lambda: make_dense_layers(bias=(5,)), [[[b, 6, 8]] for b in BATCHES]),
    "dense layer, transposed weights": (lambda: make_dense_layers(transpose_b=True), [[[b, 6, 8]] for b in BATCHES]),
    "dense layer of four dimensions": (
        lambda: make_dense_layers(shape=(1, 2, 3, 8), target=(1, 2, 3, 5)),
        [[[b, 2, 3, 8]] for b in BATCHES],
    ),
    "dense layer, bias of rows": (lambda: make_dense_layers(bias=(6, 5)), [[[1, 6, 8]]]),
    "dense layer, known rows": (lambda: make_dense_layers(pattern=(6, 8)), [[[1, 6, 8]]]),
    "dense layer, open result": (lambda: make_dense_layers(target=(-1, 6, 5)), [[[b, 6, 8]] for b in BATCHES]),
    "dense layer, other rows": (lambda: make_dense_layers(target=(1, 3, 10)), [[[1, 6, 8]]]),
    "dense layer, matrix": (lambda: make_dense_layers(shape=(6, 8), target=(6, 5)), [[[6, 8]]]),
}


def save(name, folder):
    parameters, results = CASES[name][0]()
    path = folder / "m.xml"
    ov.save_model(ov.Model(results, parameters, "m"), path, compress_to_fp16=False)
    return path


@pytest.mark.parametrize(("name", "shapes"), [(name, s) for name, (_, many) in CASES.items() for s in many], ids=str)
def test_reshaped_models_are_those_of_openvino(name, shapes, tmp_path):
    """Shapes are equal, in the OpenVINO module too, and for the first shapes of each case also results."""
    path = save(name, tmp_path)
    theirs = ov.Core().read_model(path)
    theirs.reshape(dict(enumerate(map(ov.PartialShape, shapes))))
    expected = [str(output.partial_shape) for output in theirs.outputs]
    model = irrun.read_model(path)
    model.reshape(dict(enumerate(shapes)))
    assert [str(output.partial_shape) for output in model.outputs] == expected
    module = irrun_ov.Core().read_model(path)
    module.reshape(dict(enumerate(map(irrun_ov.PartialShape, shapes))))
    assert [str(output.partial_shape) for output in module.outputs] == expected
    if shapes != CASES[name][1][0]:
        return
    rng = np.random.default_rng(0)
    inputs = [rng.random([n if isinstance(n, int) and n > 0 else 3 for n in shape], F32) for shape in shapes]
    reference = ov.compile_model(theirs, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(inputs)
    irrun.save_model(model, tmp_path / "saved.xml")
    for candidate in (model, tmp_path / "saved.xml"):
        request = irrun.compile_model(candidate, check=True).create_infer_request()
        for i, result in enumerate(request.infer(inputs).to_tuple()):
            np.testing.assert_allclose(result, reference[i], rtol=1e-4, atol=1e-5)
        assert request.mismatches == []
    results = irrun_ov.compile_model(module, "CPU")(inputs)
    for i in range(len(expected)):
        np.testing.assert_allclose(results[i], reference[i], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_adapted_models_compute_the_same_for_the_original_shapes(name, tmp_path):
    path = save(name, tmp_path)
    model = irrun.read_model(path)
    originals = {i: spec.partial_shape for i, spec in enumerate(model.inputs)}
    model.reshape(dict(enumerate(CASES[name][1][0])))
    model.reshape(originals)
    inputs = [np.random.default_rng(1).random(shape, F32) for shape in originals.values()]
    expected = irrun.run(path, inputs).to_tuple()
    for found, value in zip(irrun.run(model, inputs).to_tuple(), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6)
