"""Tests of operations that generate tensors, for what conformance tests do not cover: errors, state, distributions."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import layer, net, port

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support.context import State
from irrun.ops._support.random_numbers import generate_mersenne_twister, generate_philox
from irrun.ops.generation.eye import eye_9
from irrun.ops.generation.multinomial import _draw_with_replacement, _draw_without_replacement, multinomial_13
from irrun.ops.generation.random_uniform import random_uniform_8
from irrun.ops.generation.range import range_1, range_4


def draw(shape, low, high, name="f32", state=None, **attributes):
    dtype = ELEMENT_TYPES[name].dtype
    return random_uniform_8(
        np.array(shape),
        np.array(low, dtype),
        np.array(high, dtype),
        output_type=ELEMENT_TYPES[name],
        state=State() if state is None else state,
        **attributes,
    )


@pytest.mark.parametrize(
    ("start", "stop", "step", "message"),
    [(0, 1, 0, "step is 0"), (0, np.inf, 1, "stop is inf"), (np.nan, 1, 1, "start is nan")],
)
def test_range_requires_finite_numbers_and_nonzero_step(start, stop, step, message):
    with pytest.raises(InputError, match=message):
        range_1(*(np.array(v, np.float32) for v in (start, stop, step)))


def test_range_with_too_many_elements_is_reported():
    with pytest.raises(InputError, match="elements"):
        range_1(np.array(0, np.int64), np.array(2**62), np.array(1))


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(1, 5, 0.5), (5, 1, -0.7), (0.9, 6, 1.6), (-2.7, 3.3, 1.1), (1.5, 7.5, 2.5)]
)
def test_range_of_fractions_and_integer_type_matches_the_reference_implementation(start, stop, step):
    ov = pytest.importorskip("openvino")
    layers = [
        layer(i, "Parameter", data='shape="" element_type="f32"', outputs=[port(0, (), "FP32")]) for i in range(3)
    ]
    inputs, outputs = [port(i, (), "FP32") for i in range(3)], [port(3, (-1,), "I64")]
    layers.append(layer(3, "Range", "opset4", 'output_type="i64"', inputs, outputs))
    layers.append(layer(4, "Result", inputs=[port(0, (-1,), "I64")]))
    model = ov.Core().read_model(net(layers, [(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]).encode(), b"")
    arguments = [np.array(v, np.float32) for v in (start, stop, step)]
    expected = [ov.Tensor(np.empty(0, np.int64))]
    assert model.evaluate(expected, [ov.Tensor(a) for a in arguments])
    actual = range_4(*arguments, output_type=ELEMENT_TYPES["i64"])
    np.testing.assert_array_equal(actual, expected[0].data)
    assert actual.dtype == np.int64


def test_range_of_large_integers_is_exact():
    values = [np.array(v, np.int64) for v in (2**62, 2**62 + 5, 2)]
    assert range_1(*values).tolist() == [2**62, 2**62 + 2, 2**62 + 4]


def test_eye_negative_dimension_is_reported():
    with pytest.raises(InputError, match="negative"):
        eye_9(np.array(2), np.array(-1), np.array(0), output_type=ELEMENT_TYPES["f32"])


def test_eye_matches_specification():
    three, four, i32 = np.array(3), np.array(4), ELEMENT_TYPES["i32"]
    upper = eye_9(three, four, np.array(2), output_type=i32)
    assert upper.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    lower = eye_9(three, four, np.array([-1]), output_type=i32)
    assert lower.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    zeros = eye_9(np.array(2), np.array(2), np.array(5), np.array([1, 2]), output_type=ELEMENT_TYPES["f16"])
    assert zeros.tolist() == np.zeros((1, 2, 2, 2)).tolist()


def test_range_matches_specification():
    up, down = ([np.array(v) for v in values] for values in ((2, 23, 3), (23, 2, -3)))
    for result in (range_1(*up), range_4(*up, output_type=ELEMENT_TYPES["i32"])):
        assert result.tolist() == [2, 5, 8, 11, 14, 17, 20]
    for result in (range_1(*down), range_4(*down, output_type=ELEMENT_TYPES["i32"])):
        assert result.tolist() == [23, 20, 17, 14, 11, 8, 5]
    halves = (np.array(v, np.float32) for v in (1, 2.5, 0.5))
    assert range_4(*halves, output_type=ELEMENT_TYPES["f32"]).tolist() == [1, 1.5, 2]


def test_random_uniform_matches_specification():
    first = draw([3, 3], 0, 1, global_seed=150, op_seed=10)
    expected = [0.7011236, 0.30539632, 0.93931055, 0.9456035, 0.11694777, 0.50770056, 0.5197197, 0.22727466, 0.991374]
    np.testing.assert_allclose(first.reshape(-1), expected, rtol=1e-6)
    seeds = {"global_seed": 80, "op_seed": 100}
    second = draw([2, 2], 2, 10, "f64", **seeds)
    np.testing.assert_allclose(second.reshape(-1), [5.65927959, 4.23122376, 2.67008206, 2.36423758], rtol=1e-8)
    assert draw([2, 3], 50, 100, "i32", **seeds).tolist() == [[65, 70, 56], [59, 82, 92]]


def test_random_uniform_matches_pytorch():
    # torch.manual_seed(80), then rand(3) and empty(3, dtype=int32).random_(50, 100); the specification has others.
    fractions = draw([3], 0, 1, global_seed=80, alignment="pytorch")
    np.testing.assert_allclose(fractions, [0.610423028, 0.0960195065, 0.0480293036], rtol=1e-7)
    assert draw([6], 50, 100, "i32", global_seed=80, alignment="pytorch").tolist() == [77, 58, 62, 69, 60, 94]


def test_philox_matches_published_numbers():
    assert generate_philox(1, 0, 0, 0).tolist() == [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]]
    ones = 2**64 - 1
    assert generate_philox(1, ones, ones, ones).tolist() == [[0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]]


def test_philox_carries_into_the_upper_half():
    assert generate_philox(3, 9, 5, 2**64 - 1)[1:].tolist() == generate_philox(2, 9, 6, 0).tolist()


def test_mersenne_twister_matches_published_numbers():
    numbers = generate_mersenne_twister(10_000, 5489)
    assert numbers[0] == 3499211612
    assert numbers[9_999] == 4123659995


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i64"])
def test_random_uniform_continues_in_next_run_as_openvino(name, alignment):
    ov = pytest.importorskip("openvino")
    from openvino.utils.node_factory import NodeFactory

    element = getattr(ov.Type, name)
    constants = [ov.op.Constant(np.array([7]))] + [ov.op.Constant(element, ov.Shape([]), [v]) for v in (-3, 50)]
    attributes = {"global_seed": 12, "op_seed": 34, "alignment": alignment}
    node = NodeFactory("opset8").create(
        "RandomUniform", [c.output(0) for c in constants], {"output_type": name, **attributes}
    )
    model = ov.Model([ov.op.Result(node.output(0))], [])
    state = State()
    for _ in range(3):
        expected = [ov.Tensor(element, ov.Shape([7]))]
        assert model.evaluate(expected, [])
        np.testing.assert_array_equal(draw([7], -3, 50, name, state, **attributes), expected[0].data)


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
@pytest.mark.parametrize("name", ["f32", "f16", "i64"])
def test_random_uniform_without_seeds_is_uniform_and_not_reproducible(name, alignment):
    first, second = (draw([100, 100], -2, 6, name, alignment=alignment) for _ in range(2))
    assert first.dtype == ELEMENT_TYPES[name].dtype
    assert not np.array_equal(first, second)
    values = first.astype(np.float64)
    assert values.min() >= -2
    assert values.max() <= 6
    # The mean of 10,000 numbers deviates by more than 0.15 with a probability of 1e-10.
    assert abs(values.mean() - (1.5 if name == "i64" else 2)) < 0.15
    assert np.histogram(values, 8)[0].min() > 1000


def test_random_uniform_invalid_inputs_are_reported():
    with pytest.raises(InputError, match="maxval is float64"):
        random_uniform_8(
            np.array([2]), np.float32(0).reshape(()), np.array(1.0), output_type=ELEMENT_TYPES["f32"], state=State()
        )
    with pytest.raises(InputError, match="contains no integer"):
        draw([2], 5, 5, "i32", global_seed=1)
    with pytest.raises(InputError, match="undefined"):
        draw([2], 0, 5, "u8", global_seed=1)
    with pytest.raises(InputError, match="negative"):
        draw([2, -1], 0, 5, global_seed=1)


def sample(probs, samples, replace, **attributes):
    return multinomial_13(
        np.array(probs, np.float32),
        np.array(samples),
        convert_type=ELEMENT_TYPES["i32"],
        with_replacement=replace,
        **{"log_probs": False, **attributes},
    )


def test_multinomial_without_seeds_follows_probabilities():
    drawn = sample([1, 2, 5], 20_000, True)
    assert drawn.dtype == np.int32
    assert np.abs(np.bincount(drawn) / 20_000 - [0.125, 0.25, 0.625]).max() < 0.025
    logs = sample(np.log([[1, 2, 5]]), 20_000, True, log_probs=True)
    assert np.abs(np.bincount(logs[0]) / 20_000 - [0.125, 0.25, 0.625]).max() < 0.025


def test_multinomial_without_replacement_draws_each_class_once():
    drawn = sample(np.random.default_rng(0).uniform(size=(50, 12)), 12, False)
    assert (np.sort(drawn, axis=1) == np.arange(12)).all()


def test_multinomial_classes_match_specification():
    cumulative = np.array([[0.1, 0.6, 1]], np.float32)
    thresholds = np.array([[0.2, 0.4, 0.6, 0.8, 1]], np.float32)
    assert _draw_with_replacement(cumulative, thresholds).tolist() == [[1, 1, 1, 2, 2]]
    steep = np.array([[0.03, 0.29, 1], [1, 1, 1]], np.float32)
    thresholds = np.tile(np.arange(1, 11, dtype=np.float32) / 10, (2, 1))
    assert _draw_with_replacement(steep, thresholds).tolist() == [[1, 1, 2, 2, 2, 2, 2, 2, 2, 2], [0] * 10]
    # The specification says "only the class with idx 0 can be selected" in the end, but its result has 2 there.
    assert _draw_without_replacement(cumulative, np.array([[0.3, 0.2]], np.float32)).tolist() == [[1, 0]]


def test_multinomial_without_enough_classes_is_reported():
    with pytest.raises(InputError, match="4 different classes"):
        sample([0.5, 0.5], 4, False)
    with pytest.raises(InputError, match="shape"):
        sample(np.zeros((2, 0)), 1, True)
