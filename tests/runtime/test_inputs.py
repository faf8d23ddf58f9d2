"""Conversion of inputs: what a request accepts, and how it reports anything else."""

from __future__ import annotations

import pickle
import re

import ml_dtypes
import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.runtime.inputs import _assign_positions, _explain_shape
from irrun.shapes import parse_shape

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
def test_equivalent_inputs_are_accepted(relu, value):
    np.testing.assert_array_equal(relu(value)[0], np.maximum(X, 0))


def test_arrays_of_other_processes_run_on_specialized_kernels(tmp_path):
    """Pickling gives an array a dtype object of its own."""
    compiled = irrun.compile_model(write(tmp_path, chain(*["Relu"] * 4)), jit=False)
    pickled = pickle.loads(pickle.dumps(X))
    assert pickled.dtype is not X.dtype
    for value in (X, pickled):
        request = compiled.create_infer_request()
        np.testing.assert_array_equal(request.infer(value)[0], np.maximum(X, 0))
        assert request.fallbacks == []


def test_tensor_specs_are_keys_of_inputs_and_outputs(relu):
    out = relu({relu.inputs[0]: X})
    assert relu.outputs[0] in out
    assert relu.model.inputs[0] not in out
    np.testing.assert_array_equal(out[relu.model.outputs[0]], np.maximum(X, 0))
    with pytest.raises(KeyError, match="unknown output x: "):
        out[relu.inputs[0]]
    with pytest.raises(IndexError, match="unknown output 5; the model has 1: layer1"):
        out[5]
    with pytest.raises(KeyError, match="unknown output 'y'"):
        out["y"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "missing input x"),
        ([X, X], "does not accept shape"),
        ({"y": X}, "unknown input 'y'"),
        ({1: X}, "unknown input 1"),
        ({-1: X}, "unknown input -1"),
        ({None: X}, "unknown input None"),
        ({(0,): X}, "unknown input"),
        ({1.0: X}, "unknown input 1.0"),
        ({"x": X, 0: X}, "found two values"),
        (X.T, "does not accept shape"),
        (3, "does not accept shape"),
        ("abc", "does not accept a str"),
        (X.astype(complex), "does not accept complex128"),
        (X.astype("M8[s]"), "does not accept datetime64"),
        (X.astype(object), "does not accept objects"),
        (X.astype(str), "does not accept string"),
        ([[1], [2, 3]], "does not accept a list"),
        ([[10**400] * 3] * 2, "does not accept a list"),
        (X.astype(np.int64) + 2**40 + 1, "with values that f32 cannot represent"),
        (X[:, :2], r"does not accept shape \[2, 2\]: dimension 1 is 2, expected 3$"),
        (X[:1], "dimension 0 is 1, expected 2; another batch size requires Model.reshape"),
        (X[None], r"found 3 dimensions, expected 2; remove the first axis: x\[0\]"),
        (X[0], "found 1 dimension, expected 2$"),
    ],
)
def test_other_inputs_are_reported(relu, value, message):
    with pytest.raises(irrun.InputError, match=message):
        relu(value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("element_type", ["f64", "f32", "f16", "bf16"])
def test_floats_are_cast_whatever_their_values(tmp_path, dtype, element_type):
    model = compile_identity(tmp_path, element_type)
    dtype, declared = np.dtype(dtype), model.inputs[0].element_type.dtype
    for values in ([0, 0, 0], [1 / 3, 1e30, -1e-30], [np.nan, np.inf, 3]):
        with np.errstate(all="ignore"):
            array = np.array(values).astype(dtype)
            expected = array.astype(declared)
        actual = model(array)[0]
        assert actual.dtype == declared
        np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("value", [np.zeros(3), np.zeros(3, np.float16), [0.0, 0.0, 0.0], [0.5, 1, 2]])
@pytest.mark.parametrize("element_type", ["i64", "u8", "boolean"])
def test_floats_are_never_converted_to_integers(tmp_path, value, element_type):
    with pytest.raises(irrun.InputError, match=f"floats are not converted to {element_type}; convert it first"):
        compile_identity(tmp_path, element_type)({"x": value})


@pytest.mark.parametrize("element_type", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_integers_of_8_bits_are_floats(tmp_path, dtype, element_type):
    value = np.arange(256, dtype=np.uint8).view(dtype).reshape(2, 128)
    precision = {"f16": "FP16", "bf16": "BF16", "f32": "FP32", "f64": "FP64"}[element_type]
    text = net(
        [
            layer(
                0,
                "Parameter",
                data=f'element_type="{element_type}" shape="?,?"',
                outputs=[port(0, [-1, -1], precision)],
            ),
            layer(1, "Result", inputs=[port(0, [-1, -1])]),
        ],
        [(0, 0, 1, 0)],
    )
    compiled = irrun.compile_model(write(tmp_path, text))
    for x in (value, value[:, ::-3], value[1, 100]):
        result = compiled(np.reshape(x, (-1, np.shape(x)[-1] if np.ndim(x) else 1)))[0]
        np.testing.assert_array_equal(result.astype(np.int64).ravel(), np.asarray(x).astype(np.int64).ravel())


def test_integers_that_do_not_fit_are_reported(tmp_path):
    model = compile_identity(tmp_path, "i32")
    assert model(np.array([1, -2, 2**31 - 1]))[0].dtype == np.int32
    with pytest.raises(irrun.InputError, match="does not accept i64 with values that i32 cannot represent"):
        model(np.array([1, 2, 2**31]))


@pytest.mark.parametrize("element_type", ["bf16", "f8e4m3", "f8e5m2", "f8e8m0"])
def test_saved_arrays_of_low_precision_floats_are_accepted(tmp_path, element_type):
    model = compile_identity(tmp_path, element_type)
    array = np.array([0.5, 1, 4]).astype(model.inputs[0].element_type.dtype)
    np.save(tmp_path / "x.npy", array)
    np.testing.assert_array_equal(model(irrun.load_inputs([f"{tmp_path}/x.npy"], model.inputs))[0], array)
    if element_type != "f8e5m2":  # NumPy does not load what it saved
        loaded = np.load(tmp_path / "x.npy")
        assert loaded.dtype.kind == "V"
        np.testing.assert_array_equal(model(loaded)[0], array)
        with pytest.raises(irrun.InputError, match="does not accept"):
            compile_identity(tmp_path, "f32")(loaded)


@pytest.mark.parametrize(
    ("declared", "shape", "message"),
    [
        ((1, 3, 30, 30), (1, 30, 30, 3), r"it looks like NHWC, expected NCHW; transpose it: x.transpose\(0, 3, 1, 2\)"),
        ((1, 30, 30, 3), (1, 3, 30, 30), r"it looks like NCHW, expected NHWC; transpose it: x.transpose\(0, 2, 3, 1\)"),
        ((1, 3, 30, 30), (3, 30, 30), r"found 3 dimensions, expected 4; add a batch axis: x\[None\]"),
        ((1, 3, 30, 30), (30, 30, 3), r"it looks like HWC, expected NCHW: x.transpose\(2, 0, 1\)\[None\]"),
        ((1, 30, 30, 3), (3, 30, 30), r"it looks like CHW, expected NHWC: x.transpose\(1, 2, 0\)\[None\]"),
        ((1, 3, 30, 30), (1, 3, 30, 31), "dimension 3 is 31, expected 30$"),
        ((1, 3, 30, 30), (1, 3, 32, 31), "dimension 2 is 32, expected 30; dimension 3 is 31, expected 30$"),
        (
            (1, 3, 30, 30),
            (4, 3, 30, 30),
            "dimension 0 is 4, expected 1; another batch size requires Model.reshape or --batch 4$",
        ),
        ((1, 3, 30, 30), (1, 1, 3, 30, 30), "found 5 dimensions, expected 4"),
        ((-1, 3), (2, 4), "dimension 1 is 4, expected 3$"),
    ],
)
def test_shape_errors_name_the_dimension_and_the_likely_cause(tmp_path, declared, shape, message):
    text = chain("Relu", shape=declared)
    model = irrun.compile_model(write(tmp_path, text))
    with pytest.raises(irrun.InputError, match=message):
        model(np.zeros(shape, np.float32))


def compile_identity(tmp_path, element_type):
    """Compile a model that returns its input of three elements."""
    parameter = layer(
        0, "Parameter", data=f'shape="3" element_type="{element_type}"', outputs=[port(0, (3,))], name="x"
    )
    return irrun.compile_model(write(tmp_path, net([parameter, layer(1, "Result", inputs=[port(0)])], [(0, 0, 1, 0)])))


def test_strings_may_be_text_or_bytes(tmp_path):
    model = compile_identity(tmp_path, "string")
    for value in (["a", "b", "c"], np.array(["a", "b", "c"]), np.array([b"a", b"b", b"c"]), ("a", b"b", "c")):
        assert model({"x": value})[0].tolist() == ["a", "b", "c"]
    for value in ([1, 2, 3], ["a", None, "c"], [["a"], ["b", "c"], []]):
        with pytest.raises(irrun.InputError, match="among its strings"):
            model({"x": value})


def test_opaque_types_accept_codes(tmp_path):
    model = compile_identity(tmp_path, "u3")
    assert model({"x": [0, 3, 7]})[0].view(np.uint8).tolist() == [0, 3, 7]
    for value in ([0, 3, 8], [-1, 0, 0], [0.0, 1.0, 2.0]):
        with pytest.raises(irrun.InputError, match="does not accept"):
            model({"x": value})


def test_dynamic_element_type_accepts_every_element_type(tmp_path):
    model = compile_identity(tmp_path, "dynamic")
    assert model(np.arange(3, dtype=">i4"))[0].dtype == np.int32
    assert model({"x": ["a", "b", "c"]})[0].dtype == object
    for value in (np.zeros(3, complex), np.zeros(3, "M8[s]"), np.zeros(3, "V5")):
        with pytest.raises(irrun.InputError, match="does not accept"):
            model(value)


def test_weights_may_be_bytes_or_arrays(tmp_path):
    path = write(tmp_path, chain("Relu"))
    for weights in (b"", bytearray(4), memoryview(b"abc"), np.zeros(4)[::2], np.zeros((2, 2))):
        assert irrun.compile_model(path, weights)(X)[0].shape == (2, 3)
    for weights in (5, [1, 2]):
        with pytest.raises(TypeError, match="expected weights as a path, bytes or an array"):
            irrun.compile_model(path, weights)


def test_empty_weights_path_is_the_default(tmp_path):
    path = write(tmp_path, chain("Relu"))
    assert irrun.read_model(path, "").weights.path == irrun.read_model(path).weights.path
    assert irrun.compile_model(path, "")(X)[0].shape == (2, 3)


def test_properties_of_devices_are_reported(tmp_path):
    path = write(tmp_path, chain("Relu"))
    for model in (path, irrun.read_model(path)):
        assert irrun.compile_model(model, "CPU", {})(X)[0].shape == (2, 3)
        for arguments in (("CPU", {"NUM_STREAMS": 2}), ({"NUM_STREAMS": 2},)):
            with pytest.raises(ValueError, match="properties of devices are not supported, found NUM_STREAMS"):
                irrun.compile_model(model, *arguments)


def test_weights_of_a_model_that_was_read_are_reported(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    with pytest.raises(ValueError, match="pass them to read_model"):
        irrun.compile_model(model, tmp_path / "model.bin")


def test_device_name_may_follow_the_model(tmp_path):
    path = write(tmp_path, chain("Relu"))
    for compiled in (
        irrun.compile_model(path, "CPU"),
        irrun.compile_model(irrun.read_model(path), "AUTO"),
        irrun.compile_model(path, device_name="CPU"),
    ):
        assert compiled(np.ones((2, 3), np.float32))[0].shape == (2, 3)


@pytest.mark.parametrize(
    "device", ["GPU", "GPU.1", "NPU", "AUTO:GPU,CPU", "MULTI:CPU,GPU", "HETERO:GPU,CPU", "gpu", "MYRIAD"]
)
def test_unsupported_devices_are_reported(tmp_path, device):
    path = write(tmp_path, chain("Relu"))
    for compile_it in (
        lambda: irrun.compile_model(path, device),
        lambda: irrun.compile_model(irrun.read_model(path), device),
        lambda: irrun.compile_model(path, device_name=device),
    ):
        with pytest.raises(ValueError, match=f"device '{device}' is not supported, expected one of CPU, AUTO"):
            compile_it()


def test_positions_of_inputs_start_at_0(relu):
    for key in (-1, 1, np.int64(5), 0.0, None):
        with pytest.raises(irrun.InputError, match=re.escape(f"unknown input {key!r}; the model has x")):
            relu({key: X})
    with pytest.raises(IndexError, match="unknown output -1; the model has 1: layer1"):
        relu(X)[-1]


def write_sum(folder):
    parameter = 'shape="2,3" element_type="f32"'
    layers = [
        layer(0, "Parameter", data=parameter, outputs=[port(0, (2, 3), "FP32")], name="a"),
        layer(1, "Parameter", data=parameter, outputs=[port(0, (2, 3), "FP32")], name="b"),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    return write(folder, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))


def test_numbers_and_names_of_inputs_are_compared(tmp_path):
    compiled = irrun.compile_model(write_sum(tmp_path))
    for inputs in ([X, X], (X, X), {"a": X, "b": X}, {"a": X, 1: X}, {compiled.inputs[1]: X, 0: X}):
        np.testing.assert_array_equal(compiled(inputs)[0], 2 * X)
    for inputs, message in [
        ([X, X, X], "found 3 inputs, the model has 2"),
        ([X], r"missing input b.*\[2,3\]"),
        (X, r"missing input b.*\[2,3\]"),
        ([], "missing input a.*, b"),
        (None, "missing input a.*, b"),
        ({"b": X}, "missing input a"),
        ({"a": X, 0: X}, "found two values for input a"),
        ({"a": X, "c": X}, "unknown input 'c'; the model has a.*; b"),
    ]:
        with pytest.raises(irrun.InputError, match=message):
            compiled(inputs)


def test_models_without_inputs_accept_none(tmp_path):
    layers = [
        layer(0, "Const", data='element_type="f32" shape="2" offset="0" size="8"', outputs=[port(0, (2,), "FP32")]),
        layer(1, "Result", inputs=[port(0)]),
    ]
    compiled = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 1, 0)]), bytes(8)))
    for inputs in (None, [], (), {}):
        assert compiled(inputs)[0].tolist() == [0, 0]
    with pytest.raises(irrun.InputError, match="unknown input 'x'; the model has none"):
        compiled({"x": X})
    with pytest.raises(irrun.InputError, match="found 1 input, the model has 0"):
        compiled(X)


@pytest.mark.parametrize(
    ("element_type", "size", "is_accepted"),
    [
        ("bf16", 2, True),
        ("f16", 2, False),
        ("f32", 4, False),
        ("u8", 1, False),
        ("f8e4m3", 1, True),
        ("bf16", 4, False),
    ],
)
def test_bits_of_types_that_numpy_lacks_are_accepted(element_type, size, is_accepted, tmp_path):
    """np.save writes them as bytes without a meaning, which other types are not."""
    text = net(
        [
            layer(0, "Parameter", data=f'shape="3" element_type="{element_type}"', outputs=[port(0, (3,))], name="x"),
            layer(1, "Result", inputs=[port(0, (3,))]),
        ],
        [(0, 0, 1, 0)],
    )
    compiled = irrun.compile_model(write(tmp_path, text))
    value = np.zeros(3, f"V{size}")
    if is_accepted:
        assert compiled(value)[0].dtype == irrun.ElementType.parse(element_type).dtype
    else:
        with pytest.raises(irrun.InputError, match="does not accept"):
            compiled(value)


@pytest.mark.parametrize("shape", [(1,), (-1,), ()])
def test_scalars_are_accepted_as_one_element(tmp_path, shape):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", shape=shape)))
    assert compiled(np.float32(3))[0].shape == (1,) * len(shape)
    assert compiled(np.float32(3))[0] == 3


def test_scalars_are_not_repeated(tmp_path):
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", shape=(2,))))
    with pytest.raises(irrun.InputError, match=r"does not accept shape \[\]"):
        compiled(np.float32(3))


ARRAY, NUMBER = np.ones(2, np.float32), np.float32(3)


@pytest.mark.parametrize(
    ("inputs", "count", "expected"),
    [
        (None, 1, {}),
        (ARRAY, 1, {0: ARRAY}),
        ([ARRAY], 1, {0: ARRAY}),
        ((NUMBER,), 1, {0: NUMBER}),
        ([3], 1, {0: [3]}),  # the elements of the only input
        ([[1, 2]], 1, {0: [[1, 2]]}),
        ([1, 2], 1, {0: [1, 2]}),
        ([NUMBER, NUMBER], 1, {0: [NUMBER, NUMBER]}),
        ([1, 2], 2, {0: 1, 1: 2}),
        ([ARRAY], 2, {0: ARRAY}),
        (ARRAY, 2, {0: ARRAY}),
        ({"a": ARRAY}, 2, {0: ARRAY}),
        ({1: ARRAY, "a": NUMBER}, 2, {1: ARRAY, 0: NUMBER}),
        ([], 0, {}),
    ],
    ids=str,
)
def test_values_are_for_the_inputs_in_their_order(inputs, count, expected):
    found = _assign_positions(inputs, [None] * count, {"a": 0})  # type: ignore[list-item]
    assert found.keys() == expected.keys()
    assert all(found[key] is value or found[key] == value for key, value in expected.items())


@pytest.mark.parametrize(
    ("shape", "declared", "expected"),
    [
        ((2, 3), "2,4", "dimension 1 is 3, expected 4"),
        ((5, 4), "2,4", "dimension 0 is 5, expected 2; another batch size requires Model.reshape or --batch 5"),
        ((5, 3), "2,4", "dimension 0 is 5, expected 2; dimension 1 is 3, expected 4"),
        ((5,), "2", "dimension 0 is 5, expected 2"),
        ((2, 9), "?,1..8", "dimension 1 is 9, expected 1..8"),
        ((3,), "1,3", "found 1 dimension, expected 2; add a batch axis: x[None]"),
        ((), "2,3", "found 0 dimensions, expected 2"),
        ((1, 2, 3), "2,3", "found 3 dimensions, expected 2; remove the first axis: x[0]"),
        ((2, 2, 3), "2,3", "found 3 dimensions, expected 2"),
        ((1, 2, 4), "2,3", "found 3 dimensions, expected 2"),
        ((3, 8, 9), "1,3,8,9", "found 3 dimensions, expected 4; add a batch axis: x[None]"),
        (
            (8, 9, 3),
            "1,3,8,9",
            "found 3 dimensions, expected 4; it looks like HWC, expected NCHW: x.transpose(2, 0, 1)",
        ),
        (
            (3, 8, 9),
            "1,8,9,3",
            "found 3 dimensions, expected 4; it looks like CHW, expected NHWC: x.transpose(1, 2, 0)",
        ),
        ((8, 9, 4), "1,3,8,9", "found 3 dimensions, expected 4"),
        ((9, 3), "1,3,8,9", "found 2 dimensions, expected 4"),
        ((1, 8, 9, 3), "1,3,8,9", "it looks like NHWC, expected NCHW; transpose it: x.transpose(0, 3, 1, 2)"),
        ((1, 3, 8, 9), "1,8,9,3", "it looks like NCHW, expected NHWC; transpose it: x.transpose(0, 2, 3, 1)"),
    ],
)
def test_differences_of_shapes_are_explained(shape, declared, expected):
    assert _explain_shape(shape, parse_shape(declared)).startswith(expected)
    if ";" not in expected or "axis" in expected:
        assert _explain_shape(shape, parse_shape(declared)) == expected
