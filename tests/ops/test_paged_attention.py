"""PagedAttentionExtension, compared with OpenVINO's CPU plugin, and in a model that OpenVINO transforms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irrun
from irrun.errors import InputError
from irrun.ops._support.context import OutputCount, State
from irrun.ops.internal.paged_attention import paged_attention_extension

ov = pytest.importorskip("openvino")

EXAMPLE = Path(__file__).parents[2] / "examples" / "text_generation" / "model.xml"
F32, I32 = np.float32, np.int32
BLOCK = 32
SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


class Batch:
    """Sequences, and a model of one layer for them.

    Args:
        lengths: The number of new tokens of each sequence.
        past: The number of tokens of each in the caches.
        constants: Inputs other than the default ones, by name.
    """

    def __init__(self, lengths=(3, 2), past=(5, 0), *, heads=4, groups=2, size=8, value_size=8, **constants):
        rng = np.random.default_rng(sum(lengths))
        counts = [-(-(a + b) // BLOCK) for a, b in zip(lengths, past, strict=True)]
        self.groups, self.size, self.value_size = groups, size, value_size
        self.values = {
            "query": rng.normal(size=(sum(lengths), heads * size)).astype(F32),
            "key": rng.normal(size=(sum(lengths), groups * size)).astype(F32),
            "value": rng.normal(size=(sum(lengths), groups * value_size)).astype(F32),
            "key_cache.0": rng.normal(size=(7, groups, BLOCK, size)).astype(F32),
            "value_cache.0": rng.normal(size=(7, groups, BLOCK, value_size)).astype(F32),
            "past_lens": np.array(past, I32),
            "subsequence_begins": np.cumsum([0, *lengths]).astype(I32),
            "block_indices": rng.permutation(7)[: sum(counts)].astype(I32),
            "block_indices_begins": np.cumsum([0, *counts]).astype(I32),
        }
        self.constants = {
            "scale": np.array(size**-0.5, F32),
            "sliding_window": np.array(0, I32),
            "alibi_slopes": np.zeros(0, F32),
            "max_context_len": np.array(max(a + b for a, b in zip(lengths, past, strict=True)), I32),
            **{name: np.zeros(0, I32) for name in ("score_aggregation_window", "rotated_block_indices", "deltas")},
            **{name: np.zeros(0, F32) for name in ("rotation_trig_lut", "xattention_threshold")},
            **{name: np.array(0, I32) for name in ("xattention_block_size", "xattention_stride")},
            "sinks": np.zeros(0, F32),
            "adaptive_rkv_start_size": np.array(0, I32),
            **{f"integers{i}": np.zeros(0, I32) for i in range(4)},
            "qq_bias": np.zeros(0, np.uint8),
            "qq_bias_begins": np.zeros(0, I32),
        } | constants

    def build(self):
        """Return a model of the layer with the constants."""
        parameters = []
        for name, value in self.values.items():
            shape = [-1, *value.shape[1:]]
            parameter = ov.op.Parameter(ov.Type(value.dtype), ov.PartialShape(shape))
            parameter.output(0).get_tensor().set_names({name})
            parameters.append(parameter)
        constants = [ov.op.Constant(ov.Tensor(x)) for x in self.constants.values()]
        layer = ov._pyopenvino.op._PagedAttentionExtension([x.output(0) for x in (*parameters, *constants)])
        for name, value in (("k_head_size", self.size), ("v_head_size", self.value_size)):
            layer.get_rt_info()[name] = value
        layer.get_rt_info()["num_k_heads"] = layer.get_rt_info()["num_v_heads"] = self.groups
        return ov.Model([ov.op.Result(layer.output(i)) for i in (0, 1)], parameters)

    def run_on_plugin(self, model):
        """Return the outputs of the CPU plugin, and the caches after the run."""
        request = ov.Core().compile_model(model, "CPU", SETTINGS).create_infer_request()
        tensors = [ov.Tensor(x.copy()) for x in self.values.values()]
        for i, tensor in enumerate(tensors):
            request.set_input_tensor(i, tensor)
        request.infer()
        return [np.array(request.get_output_tensor(i).data) for i in (0, 1)], [np.array(t.data) for t in tensors[3:5]]


@pytest.mark.parametrize(
    "batch",
    [
        Batch(),
        Batch((1,), (0,)),
        Batch((1, 1), (40, 70)),
        Batch((40,), (0,)),
        Batch((2, 1, 3), (31, 0, 64)),
        Batch(groups=1),
        Batch(groups=4),
        Batch(heads=6, groups=2, value_size=16),
        Batch(scale=np.array(0.7, F32)),
        Batch(sliding_window=np.array(3, I32)),
        Batch((1, 1), (40, 70), sliding_window=np.array(16, I32)),
        Batch(alibi_slopes=np.array([0.1, 0.2, 0.3, 0.4], F32)),
        Batch(sinks=np.array([0.5, -1, 2, 0], F32).reshape(1, 4, 1, 1)),
        Batch(score_aggregation_window=np.array([3, 1], I32)),
    ],
    ids=lambda batch: str(list(batch.values["past_lens"])),
)
def test_agrees_with_openvino(batch, tmp_path):
    model = batch.build()
    ov.serialize(model, tmp_path / "model.xml")
    expected, _ = batch.run_on_plugin(model)
    outputs = irrun.compile_model(tmp_path / "model.xml")(list(batch.values.values()))
    for i in (0, 1):
        np.testing.assert_allclose(np.asarray(outputs[i]), expected[i], rtol=2e-5, atol=3e-6)


def run_kernel(batch, state, count=1, **changes):
    inputs = list((batch.values | changes).values())
    return paged_attention_extension(*inputs, *batch.constants.values(), state=state, outputs=OutputCount(count))


def test_requests_write_to_copies_of_the_caches():
    batch, state = Batch(), State()
    _, caches = batch.run_on_plugin(batch.build())
    before = [batch.values[name].copy() for name in ("key_cache.0", "value_cache.0")]
    run_kernel(batch, state)
    first, second = batch.values["block_indices"]
    for name, cache in zip(("key", "value"), caches, strict=True):  # the plugin sets the rest of blocks to 0
        np.testing.assert_array_equal(state[name][first, :, :8], cache[first, :, :8])
        np.testing.assert_array_equal(state[name][second, :, :2], cache[second, :, :2])
    np.testing.assert_array_equal(batch.values["key_cache.0"], before[0])
    np.testing.assert_array_equal(batch.values["value_cache.0"], before[1])
    run_kernel(batch, state, **{"key_cache.0": before[0] + 1})
    unused = [i for i in range(7) if i not in batch.values["block_indices"]]
    np.testing.assert_array_equal(state["key"][unused], before[0][unused] + 1)


def test_requests_keep_their_copies_until_others_are_given():
    batch, state = Batch(), State()
    first = run_kernel(batch, state)[0]
    unused = next(i for i in range(7) if i not in batch.values["block_indices"])
    state["key"][unused] = 5
    np.testing.assert_array_equal(run_kernel(batch, state)[0], first)
    assert (state["key"][unused] == 5).all()
    wider = {name: batch.values[name].astype(np.float64) for name in ("key_cache.0", "value_cache.0")}
    for changes in (wider, {"value_cache.0": batch.values["value_cache.0"] + 1}):
        run_kernel(batch, state)
        state["key"][unused] = 5
        run_kernel(batch, state, **changes)
        assert (state["key"][unused] != 5).any()


def test_keys_may_have_the_layout_of_gpus():
    batch = Batch()
    expected = run_kernel(batch, State())[0]
    keys = batch.values["key_cache.0"].swapaxes(2, 3)
    np.testing.assert_array_equal(run_kernel(batch, State(), **{"key_cache.0": keys})[0], expected)


def test_scores_are_divided_by_the_root_of_the_size_without_a_scale():
    expected = run_kernel(Batch(), State())[0]
    np.testing.assert_array_equal(run_kernel(Batch(scale=np.zeros(0, F32)), State())[0], expected)


@pytest.mark.parametrize(
    ("changes", "constants", "message"),
    [
        ({"block_indices": np.array([0, 9], I32)}, {}, r"has the blocks \[9\], expected enough blocks of 32 tokens"),
        ({"past_lens": np.array([40, 0], I32)}, {}, "a sequence of 43 tokens has the blocks"),
        ({"key": np.ones((5, 15), F32)}, {}, "query, key and value have 32, 15 and 16 columns"),
        ({"query": np.ones((4, 32), F32)}, {}, "key has shape"),
        ({"key_cache.0": np.ones((7, 2, BLOCK, 8), np.uint8)}, {}, "key_cache has the type uint8"),
        ({"value_cache.0": np.ones((7, 2, 8), F32)}, {}, "value_cache has shape"),
        ({"subsequence_begins": np.array([0, 5], I32)}, {}, "subsequence_begins has shape"),
        ({}, {"alibi_slopes": np.ones(3, F32)}, "alibi_slopes has 3 values, expected one for each of the 4 heads"),
        ({}, {"score_aggregation_window": np.ones(3, I32)}, "score_aggregation_window has 3 values, expected 2"),
        ({}, {"rotated_block_indices": np.ones(1, I32)}, "rotated_block_indices has shape .* it is not supported"),
    ],
)
def test_inputs_are_checked(changes, constants, message):
    with pytest.raises(InputError, match=message):
        run_kernel(Batch(**constants), State(), **changes)


def test_scores_of_diversity_are_not_supported():
    with pytest.raises(InputError, match="the third output"):
        run_kernel(Batch(), State(), 3)


def test_transformed_model_generates_what_the_original_generates(tmp_path):
    from openvino._offline_transformations import paged_attention_transformation

    model = ov.Core().read_model(EXAMPLE)
    paged_attention_transformation(model)
    ov.serialize(model, tmp_path / "model.xml")
    paged = irrun.compile_model(tmp_path / "model.xml").create_infer_request()
    original = irrun.compile_model(EXAMPLE).create_infer_request()
    tokens = np.array([5, 9, 3, 7, 1, 2, 8, 4, 6])
    compiled = ov.Core().compile_model(model, "CPU", SETTINGS)
    shapes = {port.any_name: port.partial_shape for port in compiled.inputs if "cache" in port.any_name}
    caches = {
        name: np.zeros((4, shape[1].get_length(), 4, shape[3].get_length()), F32) for name, shape in shapes.items()
    }
    past = 0
    for length in (4, 1, 3, 1):
        part = slice(past, past + length)
        positions = np.arange(past, past + length)
        inputs = {"input_ids": tokens[None, part], "position_ids": positions[None], "beam_idx": np.array([0], I32)}
        inputs["attention_mask"] = np.ones((1, past + length), np.int64)
        expected = original.infer(inputs)[0]
        order = np.array([2, 0, 3, 1], I32)[: -(-(past + length) // 4)]
        arguments = {
            "input_ids": tokens[part],
            "position_ids": positions,
            "max_context_len": np.array(past + length, I32),
            "past_lens": np.array([past], I32),
            "subsequence_begins": np.array([0, length], I32),
            "block_indices": order,
            "block_indices_begins": np.array([0, len(order)], I32),
        }
        actual = paged.infer(arguments | caches)[0]
        np.testing.assert_allclose(actual.reshape(expected.shape), expected, rtol=1e-4, atol=2e-5)
        past += length
