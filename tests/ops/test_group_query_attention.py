"""GroupQueryAttention in files that OpenVINO writes for ONNX models, compared with its CPU plugin."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import irrun
from irrun.errors import InputError
from irrun.inspection.openvino_tensors import make_tensor, read_tensor
from irrun.limits import limit_allocations
from irrun.ops.internal.group_query_attention import _attend, group_query_attention

helper = pytest.importorskip("onnx").helper
ov = pytest.importorskip("openvino")

F32, F8 = np.float32, ml_dtypes.float8_e4m3fn
#: Types that ONNX cannot tell from those of NumPy.
TYPES = {np.dtype(F8): 17}


class Model:
    """A model of one GroupQueryAttention, and its inputs.

    Args:
        past: The number of cached tokens.
        capacity: The length of the caches; by default, there is no room for more.
        is_static: Whether shapes are declared as static.
        options: Inputs to add, and attributes.
    """

    def __init__(
        self, *, heads=4, groups=2, size=8, length=3, past=5, capacity=None, is_static=False, dtype=F32, **options
    ):
        rng = np.random.default_rng(past + length)
        capacity = past if capacity is None else capacity
        self.parameters, self.names, self.values = [], [], []

        def add(name, value, dynamic=()):
            dims = [f"{name}{i}" if i in dynamic and not is_static else n for i, n in enumerate(value.shape)]
            kind = TYPES.get(value.dtype) or helper.np_dtype_to_tensor_dtype(value.dtype)
            self.parameters.append(helper.make_tensor_value_info(name, kind, dims))
            self.names.append(name)
            self.values.append(value)

        bits, cache_type = options.get("kv_cache_bit_width", 0), options.pop("cache_type", dtype)
        for name, n in (("q", heads), ("k", groups), ("v", groups)):
            add(name, rng.normal(size=(1, length, n * size)).astype(dtype), (1,))
        for name in ("past_k", "past_v"):
            shape = (1, groups, capacity, size // 2 if bits == 4 else size)
            cache = rng.integers(0, 120, shape) if bits else rng.normal(size=shape)
            add(name, cache.astype(cache_type), (2,))
        add("seqlens", np.array([[past + length - 1]], np.int32))
        add("total", np.array([past + length], np.int32))
        angles = rng.normal(size=(64, options.pop("rotated", size) // 2))
        if options.setdefault("do_rotary", 1):
            add("cos", np.cos(angles).astype(dtype))
            add("sin", np.sin(angles).astype(dtype))
        else:
            self.names += ["", ""]
        optional = {
            "positions": np.arange(7, 7 + length)[None],
            "bias": rng.normal(size=(1, heads, length, past + length)).astype(dtype),
            "sink": rng.normal(size=heads).astype(dtype),
        }
        for name, value in optional.items():
            if options.pop(name, False):
                add(name, value, tuple(range(2, value.ndim)) if name == "bias" else (1,))
            else:
                self.names.append("")
        if bits:
            count = groups * size if options["k_quant_type"] == "PER_CHANNEL" else 1
            for name in ("k_scale", "v_scale"):
                add(name, (rng.random(count) / 50 + 0.01).astype(F32))
        self.attributes = {"num_heads": heads, "kv_num_heads": groups, **options}

    def save(self, path):
        """Write the model as IR, as OpenVINO converts it from ONNX, and return OpenVINO's model."""
        while not self.names[-1]:
            self.names.pop()
        outputs = [helper.make_tensor_value_info(name, 0, None) for name in ("output", "present_k", "present_v")]
        node = helper.make_node(
            "GroupQueryAttention", self.names, [o.name for o in outputs], domain="com.microsoft", **self.attributes
        )
        graph = helper.make_graph([node], "graph", self.parameters, outputs)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        (path / "model.onnx").write_bytes(model.SerializeToString())
        converted = ov.Core().read_model(path / "model.onnx")
        ov.serialize(converted, path / "model.xml")
        return converted


QUANTIZED = {"kv_cache_bit_width": 8, "k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "cache_type": np.int8}
CHANNELS = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL"}
FOUR_BITS = {"kv_cache_bit_width": 4, "cache_type": np.uint8}
WINDOW = {"local_window_size": 4, "sliding_window_cache": 1}
STATIC = {"is_static": True, "capacity": 12}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"past": 0},
        {"capacity": 9},
        {"do_rotary": 0},
        {"rotary_interleaved": 1},
        {"rotated": 4},
        {"rotated": 4, "rotary_interleaved": 1},
        {"heads": 6, "groups": 1, "scale": 0.2},
        {"positions": True},
        {"bias": True},
        {"sink": True},
        {"smooth_softmax": 1},
        {"causal": 0},
        {"dtype": np.float16},
        {"local_window_size": 3},
        STATIC,
        {**STATIC, "length": 1},
        {**STATIC, "bias": True, "local_window_size": 3},
        {**STATIC, "causal": 0},
        WINDOW,
        {**WINDOW, "length": 1, "past": 9, "capacity": 6},
        {**WINDOW, "length": 2, "past": 6, "capacity": 6},
        {**WINDOW, "length": 2, "past": 11, "capacity": 7},
        QUANTIZED,
        {**QUANTIZED, **CHANNELS, **STATIC},
        {**QUANTIZED, **FOUR_BITS},
        {**QUANTIZED, **FOUR_BITS, **CHANNELS},
        {**QUANTIZED, "cache_type": F8},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_agrees_with_openvino(options, tmp_path):
    model = Model(**options)
    request = ov.Core().compile_model(model.save(tmp_path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = request.create_infer_request()
    for i, value in enumerate(model.values):
        request.set_input_tensor(i, make_tensor(ov, value))
    request.infer()
    outputs = irrun.compile_model(tmp_path / "model.xml", precision="declared")(model.values)
    for i in range(3):
        expected, actual = read_tensor(request.get_output_tensor(i)), np.asarray(outputs[i])
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        if actual.dtype == F8:  # the plugin rounds to f16 first
            np.testing.assert_allclose(actual.astype(F32), expected.astype(F32), rtol=1 / 8)
            assert (actual == expected).mean() > 0.98
        elif actual.dtype.kind in "iu":
            np.testing.assert_array_equal(actual, expected)
        else:
            rtol = 1e-2 if model.values[3].dtype == F8 else 2e-3 if actual.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol / 2 if rtol > 1e-3 else 2e-6)


def make_arguments(**changes):
    arguments = {
        "query": np.ones((1, 4, 2, 8), F32),
        "key": np.ones((1, 2, 2, 8), F32),
        "value": np.ones((1, 2, 2, 8), F32),
        "past_key": np.ones((1, 2, 3, 8), F32),
        "past_value": np.ones((1, 2, 3, 8), F32),
        "seqlens_k": np.array([4], np.int32),
        "total_sequence_length": np.array([5], np.int32),
        "num_heads": 4,
        "kv_num_heads": 2,
        "scale": 0.0,
        "do_rotary": False,
        "rotary_interleaved": False,
    }
    return arguments | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_num_heads": 3}, r"num_heads is 4, expected a multiple of kv_num_heads \(3\)"),
        ({"kv_num_heads": 0}, "kv_num_heads is 0, expected at least 1"),
        ({"seqlens_k": np.array([4, 4])}, "seqlens_k has 2 values, expected one"),
        ({"seqlens_k": np.array([7])}, "the cache has 3 tokens, expected 6"),
        ({"do_rotary": True}, "do_rotary requires cos_cache and sin_cache"),
        ({"key": np.ones((1, 2, 3, 8), F32)}, "key has shape"),
        ({"head_sink": np.ones(3, F32)}, "head_sink has shape"),
        ({"k_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}, "requires k_scale and v_scale"),
        (
            {"do_rotary": True, "cos_cache": np.ones((4, 4), F32), "sin_cache": np.ones((4, 4), F32)},
            "positions are 3 to 4, cos_cache has only 4",
        ),
        (
            {"do_rotary": True, "cos_cache": np.ones((9, 5), F32), "sin_cache": np.ones((9, 5), F32)},
            "cos_cache has 5 angles, expected at most half of the size 8",
        ),
    ],
)
def test_arguments_are_checked(changes, message):
    with pytest.raises(InputError, match=message):
        group_query_attention(**make_arguments(**changes))


def test_scores_are_within_the_memory_limit():
    query, key = np.zeros((1, 2, 1000, 1), F32), np.zeros((1, 1, 1000, 1), F32)
    mask = np.broadcast_to(F32(0), (1, 1, 1000, 1000))
    assert _attend(query, key, key, mask, None).shape == (1, 2, 1000, 1)
    with limit_allocations(4_000_000), pytest.raises(InputError):
        _attend(query, key, key, mask, None)
