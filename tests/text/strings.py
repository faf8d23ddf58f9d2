"""Strings and kernels as tests write them."""

from __future__ import annotations

import numpy as np

from irrun.ops._support import registry


def encode(text):
    """Return a text as bytes."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def to_u8(text):
    """Return a text as an input."""
    return np.frombuffer(encode(text), np.uint8)


def to_strings(*texts, shape=None):
    """Return strings as three inputs."""
    encoded = [encode(text) for text in texts]
    bounds = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    shape = (len(texts),) if shape is None else shape
    return [bounds[:-1].reshape(shape), bounds[1:].reshape(shape), to_u8(b"".join(encoded))]


def to_ragged(*rows):
    """Return rows of strings as five inputs."""
    bounds = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return [bounds[:-1], bounds[1:], *to_strings(*(text for row in rows for text in row))]


def from_strings(begins, ends, chars):
    """Return strings as texts, or bytes if they are not UTF-8."""
    text = chars.tobytes()
    parts = [text[a:b] for a, b in zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)]
    try:
        return [part.decode() for part in parts]
    except UnicodeDecodeError:
        return parts


def from_ragged(rows_begin, rows_end, begins, ends, chars):
    """Return rows of strings."""
    texts = from_strings(begins, ends, chars)
    return [texts[a:b] for a, b in zip(rows_begin.tolist(), rows_end.tolist(), strict=True)]


def run(operation_type, *inputs, **attributes):
    """Return the outputs of an operation of the opset "extension" as a list."""
    operation = registry.find(operation_type, "extension")
    texts = {name: ", ".join(map(str, v)) if isinstance(v, list) else str(v) for name, v in attributes.items()}
    result = operation.kernel(*inputs, **operation.bind(texts))
    return list(result) if isinstance(result, tuple) else [result]
