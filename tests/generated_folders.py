"""Small models of random weights in folders such as optimum-intel exports."""

from __future__ import annotations

import json
import shutil
import wave
from pathlib import Path

import numpy as np

import irrun.openvino as ov
from irrun.openvino import opset13 as ops

__all__ = [
    "EXAMPLE",
    "build_speech_decoder",
    "copy_tokenizer",
    "make_embedding_folder",
    "make_sound",
    "make_speech_folder",
    "save_decoder",
    "write_sound",
]

#: The example, whose tokens are ASCII characters.
EXAMPLE = Path(__file__).parents[1] / "examples" / "text_generation"
HEADS = 4


def copy_tokenizer(folder):
    """Copy the tokenizer and the detokenizer of the example into a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in EXAMPLE.glob("openvino_*tokenizer.*"):
        shutil.copy(path, folder)
    return folder


def make_embedding_folder(folder, words=128):
    """Make a folder with the tokenizer of the example and a model like BERT, and return the folder."""
    ov.save_model(build_bert(words), copy_tokenizer(folder) / "openvino_model.xml", compress_to_fp16=False)
    return folder


class Weights:
    """Random constants."""

    def __init__(self, seed=0):
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape, scale=0.3):
        return ops.constant((self._rng.standard_normal(shape) * scale).astype(np.float32))


def number(value):
    """Return a constant of i64."""
    return ops.constant(np.array(value, np.int64))


def parameter(name, shape, dtype=np.int64):
    """Return a Parameter with a tensor name."""
    node = ops.parameter(shape, dtype, name=name)
    node.output(0).set_names({name})
    return node


def normalize(values):
    """Return a layer normalization."""
    return ops.mvn(values, number([-1]), True, 1e-5, "inside_sqrt")


def multiply(values, weights):
    """Return a matrix product."""
    return ops.matmul(values, weights, False, False)


def split_heads(values, size):
    """Return [batch, tokens, size] as [batch, heads, tokens, size of a head]."""
    split = ops.reshape(values, number([0, 0, HEADS, size // HEADS]), True)
    return ops.transpose(split, number([0, 2, 1, 3]))


def attend(queries, keys, values, size, bias=None):
    """Return an attention of heads, joined."""
    scores = ops.multiply(ops.matmul(queries, keys, False, True), ops.constant(np.float32((size // HEADS) ** -0.5)))
    scores = scores if bias is None else ops.add(scores, bias)
    joined = ops.transpose(multiply(ops.softmax(scores, -1), values), number([0, 2, 1, 3]))
    return ops.reshape(joined, number([0, 0, size]), True)


def build_bert(words, size=32, layers=2, positions=64):
    """Return a model like BERT with the output "last_hidden_state"."""
    weights = Weights()
    ids, mask, kinds = (parameter(n, [-1, -1]) for n in ("input_ids", "attention_mask", "token_type_ids"))
    length = ops.gather(ops.shape_of(ids), number(1), number(0))
    places = ops.range(number(0), length, number(1), output_type="i64")
    embedded = ops.add(ops.gather(weights(words, size), ids, number(0)), ops.gather(weights(2, size), kinds, number(0)))
    state = normalize(ops.add(embedded, ops.gather(weights(positions, size), places, number(0))))
    is_padding = ops.subtract(ops.constant(np.float32(1)), ops.unsqueeze(ops.convert(mask, "f32"), number([1, 2])))
    bias = ops.multiply(is_padding, ops.constant(np.float32(-1e9)))
    for _ in range(layers):
        queries, keys, values = (split_heads(multiply(state, weights(size, size)), size) for _ in range(3))
        state = normalize(ops.add(state, multiply(attend(queries, keys, values, size, bias), weights(size, size))))
        inner = ops.gelu(multiply(state, weights(size, 2 * size)), "erf")
        state = normalize(ops.add(state, multiply(inner, weights(2 * size, size))))
    state.output(0).set_names({"last_hidden_state"})
    return ov.Model([ops.result(state)], [ids, mask, kinds], "bert")


def make_speech_folder(folder, seed=0, **changes):
    """Make a folder with the tokenizer of the example and a model like Whisper of sounds of 1 s, and return the folder.

    Tokens from 80 on are special, those from 88 on are times.

    Args:
        folder: The folder.
        seed: The seed of the weights.
        changes: Entries of generation_config.json.
    """
    copy_tokenizer(folder)
    ov.save_model(build_speech_encoder(seed), folder / "openvino_encoder_model.xml", compress_to_fp16=False)
    save_decoder(folder, build_speech_decoder(seed))
    features = {"feature_size": 80, "chunk_length": 1, "n_samples": 16000, "nb_max_frames": 100, "n_fft": 400}
    config = {
        "decoder_start_token_id": 81,
        "pad_token_id": 80,
        "eos_token_id": 80,
        "lang_to_id": {"<|en|>": 82, "<|de|>": 83},
        "task_to_id": {"transcribe": 84, "translate": 85},
        "prev_sot_token_id": 86,
        "no_timestamps_token_id": 87,
        "max_initial_timestamp_index": 10,
        "is_multilingual": True,
        "suppress_tokens": [*range(32), *range(81, 88)],
        "begin_suppress_tokens": [32, 80],
        "max_length": 32,
    }
    (folder / "preprocessor_config.json").write_text(
        json.dumps({**features, "hop_length": 160, "sampling_rate": 16000})
    )
    (folder / "config.json").write_text(json.dumps({"max_source_positions": 50, "max_target_positions": 64}))
    (folder / "generation_config.json").write_text(json.dumps({**config, **changes}))
    return folder


def save_decoder(folder, model):
    """Write the decoder of a folder."""
    ov.save_model(model, folder / "openvino_decoder_model.xml", compress_to_fp16=False)


def build_speech_encoder(seed, size=32, bands=80):
    """Return a model like Whisper's encoder: two convolutions and an attention."""
    weights = Weights(seed)
    features = parameter("input_features", [-1, bands, 100], np.float32)
    first = ops.gelu(ops.convolution(features, weights(size, bands, 3), [1], [1], [1], [1]), "erf")
    second = ops.gelu(ops.convolution(first, weights(size, size, 3), [2], [1], [1], [1]), "erf")
    state = ops.add(ops.transpose(second, number([0, 2, 1])), weights(50, size))
    queries, keys, values = (split_heads(multiply(state, weights(size, size)), size) for _ in range(3))
    state = normalize(ops.add(state, attend(queries, keys, values, size)))
    state.output(0).set_names({"last_hidden_state"})
    return ov.Model([ops.result(state)], [features], "encoder")


def build_speech_decoder(seed, size=32, words=128, positions=64, *, is_stateful=True):
    """Return a model like Whisper's decoder, which keeps the keys and values of past tokens in variables."""
    weights = Weights(seed + 1)
    ids, beams = parameter("input_ids", [-1, -1]), parameter("beam_idx", [-1], np.int32)
    states = parameter("encoder_hidden_states", [-1, -1, size], np.float32)
    shape = ops.shape_of(ids)
    batch, total = (ops.gather(shape, number([i]), number(0)) for i in (0, 1))
    past, caches = number([0]), []
    if is_stateful:
        empty_shape = ops.concat([batch, number([HEADS]), number([0]), number([size // HEADS])], 0)
        empty = ops.broadcast(ops.constant(np.float32(0)), empty_shape)
        for name in ("past_key_values.0.decoder.key", "past_key_values.0.decoder.value"):
            read = ops.read_value(empty, name, "f32", ov.PartialShape([-1, HEADS, -1, size // HEADS]))
            caches.append((name, ops.gather(read, beams, number(0))))
        past = ops.gather(ops.shape_of(caches[0][1]), number([2]), number(0))
        total = ops.add(past, total)
    first, last = (ops.squeeze(value, number([0])) for value in (past, total))
    rows = ops.range(first, last, number(1), output_type="i64")
    columns = ops.range(number(0), last, number(1), output_type="i64")
    embedded = ops.gather(weights(words, size, scale=1.0), ids, number(0))
    state = ops.add(embedded, ops.gather(weights(positions, size, scale=1.0), rows, number(0)))
    is_later = ops.greater(ops.unsqueeze(columns, number([0])), ops.unsqueeze(rows, number([1])))
    bias = ops.multiply(ops.convert(is_later, "f32"), ops.constant(np.float32(-1e9)))
    queries, keys, values = (split_heads(multiply(state, weights(size, size)), size) for _ in range(3))
    sinks = []
    if is_stateful:
        keys, values = (ops.concat([cache, new], 2) for (_, cache), new in zip(caches, (keys, values), strict=True))
        sinks = [ops.assign(new, name) for (name, _), new in zip(caches, (keys, values), strict=True)]
    state = normalize(ops.add(state, attend(queries, keys, values, size, bias)))
    queries = split_heads(multiply(state, weights(size, size)), size)
    keys, values = (split_heads(multiply(states, weights(size, size)), size) for _ in range(2))
    state = normalize(ops.add(state, attend(queries, keys, values, size)))
    logits = multiply(state, weights(size, words, scale=1.0))
    logits.output(0).set_names({"logits"})
    return ov.Model([ops.result(logits)], sinks, [ids, states, *([beams] if is_stateful else [])], "decoder")


def make_sound(count=16000, rate=16000):
    """Return a tone that rises and falls, as f32 from -1 to 1."""
    times = np.arange(count) / rate
    return (np.sin(2 * np.pi * (300 + 100 * np.sin(5 * times)) * times) * 0.4).astype(np.float32)


def write_sound(path, samples=None, rate=16000, width=2, channels=1):
    """Write a WAV file, and return its path."""
    samples = make_sound() if samples is None else samples
    whole = np.round(samples.astype(np.float64) * (2 ** (8 * width - 1) - 1)).astype("<i8") + (128 if width == 1 else 0)
    content = np.repeat(whole.view(np.uint8).reshape(-1, 8)[:, :width], channels, axis=0)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(content.tobytes())
    return path
