"""What a request takes as inputs, and what it says about anything else."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


@pytest.fixture
def relu(tmp_path):
    return irrun.compile_model(write(tmp_path, chain("Relu")))


def read_only():
    x = X.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    "value",
    [
        X,
        [X],
        (X,),
        X.tolist(),
        {"x": X},
        {0: X},
        {np.int64(0): X},
        X.astype(">f4"),
        np.asfortranarray(X),
        X[::-1, ::-1][::-1, ::-1],
        read_only(),
        X.astype(np.float64),
        X.astype(np.int8),
        X.astype(np.float16),
        X.astype(ml_dtypes.bfloat16),
        np.ma.array(X),
    ],
)
def test_everything_that_means_the_same_array(relu, value):
    np.testing.assert_array_equal(relu(value)[0], np.maximum(X, 0))


def test_a_tensor_is_a_key(relu):
    out = relu({relu.inputs[0]: X})
    assert relu.outputs[0] in out
    assert relu.model.inputs[0] not in out
    np.testing.assert_array_equal(out[relu.model.outputs[0]], np.maximum(X, 0))
    with pytest.raises(KeyError, match="no output x: "):
        out[relu.inputs[0]]
    with pytest.raises(IndexError, match="no output 5; the model has 1: layer1"):
        out[5]
    with pytest.raises(KeyError, match="no output 'y'"):
        out["y"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "missing input x"),
        ([X, X], "fed shape"),
        ({"y": X}, "no input 'y'"),
        ({1: X}, "no input 1"),
        ({-1: X}, "no input -1"),
        ({None: X}, "no input None"),
        ({(0,): X}, "no input"),
        ({1.0: X}, "no input 1.0"),
        ({"x": X, 0: X}, "fed twice"),
        (X.T, "fed shape"),
        (3, "fed shape"),
        ("abc", "cannot be fed a str"),
        (X.astype(complex), "cannot be fed complex128"),
        (X.astype("M8[s]"), "cannot be fed datetime64"),
        (X.astype(object), "cannot be fed objects"),
        (X.astype(str), "cannot be fed string"),
        ([[1], [2, 3]], "cannot be fed a list"),
        ([[10**400] * 3] * 2, "cannot be fed a list"),
        (X.astype(np.float64) / 7, "without loss"),
    ],
)
def test_everything_else_is_an_input_error(relu, value, said):
    with pytest.raises(irrun.InputError, match=said):
        relu(value)


def passing(tmp_path, type):
    """A model that gives what it is fed, three elements of some type."""
    parameter = layer(0, "Parameter", data=f'shape="3" element_type="{type}"', outputs=[port(0, (3,))], name="x")
    return irrun.compile_model(write(tmp_path, net([parameter, layer(1, "Result", inputs=[port(0)])], [(0, 0, 1, 0)])))


def test_strings_are_text(tmp_path):
    model = passing(tmp_path, "string")
    for value in (["a", "b", "c"], np.array(["a", "b", "c"]), np.array([b"a", b"b", b"c"]), ("a", b"b", "c")):
        assert model({"x": value})[0].tolist() == ["a", "b", "c"]
    for value in ([1, 2, 3], ["a", None, "c"], [["a"], ["b", "c"], []]):
        with pytest.raises(irrun.InputError, match="among its strings"):
            model({"x": value})


def test_types_known_by_their_bits_take_codes(tmp_path):
    model = passing(tmp_path, "u3")
    assert model({"x": [0, 3, 7]})[0].view(np.uint8).tolist() == [0, 3, 7]
    for value in ([0, 3, 8], [-1, 0, 0], [0.0, 1.0, 2.0]):
        with pytest.raises(irrun.InputError, match="cannot be fed"):
            model({"x": value})


def test_an_open_type_takes_what_an_element_type_holds(tmp_path):
    model = passing(tmp_path, "dynamic")
    assert model(np.arange(3, dtype=">i4"))[0].dtype == np.int32
    assert model({"x": ["a", "b", "c"]})[0].dtype == object
    for value in (np.zeros(3, complex), np.zeros(3, "M8[s]"), np.zeros(3, "V5")):
        with pytest.raises(irrun.InputError, match="cannot be fed"):
            model(value)


def test_weights_of_any_kind(tmp_path):
    path = write(tmp_path, chain("Relu"))
    for weights in (b"", bytearray(4), memoryview(b"abc"), np.zeros(4)[::2], np.zeros((2, 2))):
        assert irrun.compile_model(path, weights)(X)[0].shape == (2, 3)
    for weights in (5, [1, 2]):
        with pytest.raises(TypeError, match="weights are a path, bytes or an array"):
            irrun.compile_model(path, weights)


def test_the_device_of_an_openvino_program_is_the_cpu(tmp_path):
    path = write(tmp_path, chain("Relu"))
    for compiled in (
        irrun.compile_model(path, "CPU"),
        irrun.compile_model(irrun.read_model(path), "AUTO"),
        irrun.compile_model(path, device_name="CPU"),
    ):
        assert compiled(np.ones((2, 3), np.float32))[0].shape == (2, 3)
    with pytest.raises(ValueError, match="irrun computes on the CPU, not on 'GPU'"):
        irrun.compile_model(path, device_name="GPU")
