"""Small pictures of values: images, feature maps, attention maps and matrices, as bytes that the page draws."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.inspection.metrics import widen
from irrun.shapes import get_broadcast_shape

__all__ = ["Picture", "PictureStore", "compute_attention", "make_compared_maps", "make_image", "make_maps"]

Array = np.ndarray[Any, Any]

#: Maximum number of maps of one value.
MAX_MAPS = 6
#: Maximum number of maps compared with a reference.
COMPARED_MAPS = 2
#: Minimum number of elements of a map.
MIN_ELEMENTS = 12
#: Maximum height and width of a map and of an image.
MAP_SIDE = 56
IMAGE_SIDE = 160
#: Maximum number of elements in the computed attention maps of all heads.
MAX_ATTENTION = 1 << 21
#: Axes longer than this are sampled before they are averaged.
SAMPLED_SIDE = 512
#: The code of non-finite elements.
NOT_FINITE = 255
#: Codes of elements from the minimum to the maximum of a map: 0 to this.
MAX_CODE = 254


@dataclass(eq=False)
class Picture:
    """A picture with one byte per pixel, or three if it is an image in color.

    Attributes:
        kind: "image", "feature maps", "attention", "matrix" or "compared", which has for each map the value, the
            reference on the same scale, and the magnitude of their difference.
        pixels: Bytes, shape [maps, height, width], or [height, width, 3] of an image in color.
        bounds: The values of the codes 0 and `MAX_CODE`, for each map.
        size: Height and width of the value.
        total: The number of maps of the value.
        numbers: Which maps of the value are compared.
    """

    kind: str
    pixels: Array
    bounds: list[tuple[float, float]]
    size: tuple[int, int]
    total: int
    numbers: Sequence[int] = ()

    @property
    def is_color(self) -> bool:
        """Whether the last axis contains the channels of an image in color."""
        return self.kind == "image" and self.pixels.shape[-1] == 3

    def reduce(self, max_maps: int, side: int) -> None:
        """Keep fewer maps, of a smaller size.

        Args:
            max_maps: Maximum number of maps.
            side: Maximum height and width.
        """
        step = -(-max(self.pixels.shape[:2] if self.is_color else self.pixels.shape[1:]) // side)
        if self.is_color:
            self.pixels = self.pixels[::step, ::step]
        else:
            kept = 3 * max(1, max_maps // 3) if self.kind == "compared" else max_maps
            self.pixels = self.pixels[:kept, ::step, ::step]
            self.bounds = self.bounds[:kept]

    def to_json(self) -> dict[str, Any]:
        """Return the picture for the page."""
        shape = self.pixels.shape
        count, height, width = (1, *shape[:2]) if self.is_color else shape
        return {
            "kind": self.kind,
            "count": count,
            "height": height,
            "width": width,
            "color": self.is_color,
            "bounds": [[_round(low), _round(high)] for low, high in self.bounds],
            "size": list(self.size),
            "total": self.total,
            "numbers": list(self.numbers),
            "data": base64.b64encode(self.pixels.tobytes()).decode("ascii"),
        }


class PictureStore:
    """The pictures of a report. If they exceed a number of bytes, all pictures are reduced.

    Args:
        max_bytes: Maximum size of the pixels of all pictures in bytes.

    Attributes:
        pictures: The pictures by number; None for removed pictures.
        removed: The number of pictures that were removed.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.pictures: list[Picture | None] = []
        self.removed = 0
        self._max_maps = MAX_MAPS
        self._side = IMAGE_SIDE
        self._bytes = 0

    def add(self, picture: Picture) -> int:
        """Add a picture and return its number.

        Args:
            picture: The picture.
        """
        picture.reduce(self._max_maps, self._side)
        self.pictures.append(picture)
        self._bytes += picture.pixels.nbytes
        while self._bytes > self.max_bytes:
            self._reduce_all()
        return len(self.pictures) - 1

    @property
    def is_reduced(self) -> bool:
        """Whether the pictures are smaller than they could be."""
        return self._max_maps < MAX_MAPS or self._side < IMAGE_SIDE

    def to_json(self) -> list[dict[str, Any] | None]:
        """Return the pictures for the page."""
        return [None if picture is None else picture.to_json() for picture in self.pictures]

    def _reduce_all(self) -> None:
        if self._max_maps > 1:
            self._max_maps = {6: 4, 4: 2, 2: 1}.get(self._max_maps, 1)
        elif self._side > 8:
            self._side = 32 if self._side > 32 else self._side // 2
        else:
            self.removed += sum(picture is not None for picture in self.pictures)
            self.pictures = [None] * len(self.pictures)
        for picture in self.pictures:
            if picture is not None:
                picture.reduce(self._max_maps, self._side)
                picture.pixels = picture.pixels.copy()  # frees the larger array
        self._bytes = sum(picture.pixels.nbytes for picture in self.pictures if picture is not None)


def make_image(value: Array) -> Picture | None:
    """Return the first image of a batch of images.

    Args:
        value: Numbers, shape [N, C, H, W], [N, H, W, C] or without N, where C is 1 or 3.

    Returns:
        The picture in the order of the channels of the value; None if the value does not have the shape of an image.
    """
    if value.ndim == 4 and value.shape[0]:
        value = value[0]
    if value.ndim != 3 or _is_unsupported(value):
        return None
    if value.shape[0] in (1, 3) and min(value.shape[1:]) >= 8:
        value = value.transpose(1, 2, 0)
    elif value.shape[2] not in (1, 3) or min(value.shape[:2]) < 8:
        return None
    height, width, channels = value.shape
    reduced = np.stack([_average(value[..., i], IMAGE_SIDE) for i in range(channels)])
    codes, bounds = _quantize(reduced, (0.0, 255.0) if value.dtype == np.uint8 else None)
    pixels = np.minimum(codes, MAX_CODE).transpose(1, 2, 0) if channels == 3 else codes
    return Picture("image", pixels, [bounds], (height, width), 1)


def make_maps(value: Array, *, is_attention: bool = False) -> Picture | None:
    """Return the first maps of a value: channels of [N, C, H, W], heads of attention, or one matrix.

    Args:
        value: Numbers.
        is_attention: Whether the last two axes are queries and keys, so that all maps have the same scale.

    Returns:
        The picture; None if its last two axes do not form a matrix of some size.
    """
    if value.ndim < 2 or min(value.shape[-2:]) < 2 or not value.size or _is_unsupported(value):
        return None
    height, width = value.shape[-2:]
    if height * width < MIN_ELEMENTS:
        return None
    maps, kind = _list_maps(value, is_attention)
    reduced = [_average(maps[i], MAP_SIDE) for i in range(min(len(maps), MAX_MAPS))]
    if kind == "attention":
        pairs = [_quantize(map_, (0.0, 1.0) if np.all(map_ >= 0) else None) for map_ in reduced]
        largest = max((float(map_.max()) for map_ in reduced), default=1.0)
        if 0 < largest < 1:
            pairs = [_quantize(map_, (0.0, largest)) for map_ in reduced]
    else:
        pairs = [_quantize(map_) for map_ in reduced]
    pixels = np.stack([codes for codes, _ in pairs])
    return Picture(kind, pixels, [bounds for _, bounds in pairs], (height, width), len(maps))


def make_compared_maps(value: Array, expected: Array) -> Picture | None:
    """Return the maps of a value that differ most from a reference, with the maps of the reference and the difference.

    Args:
        value: Numbers.
        expected: The reference, of the same shape.

    Returns:
        The picture; None if the last two axes do not form a matrix of some size.
    """
    if value.ndim < 2 or not value.size or value.shape[-2] * value.shape[-1] < MIN_ELEMENTS:
        return None
    maps, others = _list_maps(value, False)[0], _list_maps(expected, False)[0]
    with np.errstate(all="ignore"):
        differences = np.nan_to_num(np.abs(widen(maps) - widen(others)))
    errors = differences.reshape(len(maps), -1).max(axis=1)
    numbers = np.argsort(-errors, kind="stable")[:COMPARED_MAPS]
    pixels, bounds = [], []
    for i in numbers:
        pair = [_average(maps[i], MAP_SIDE), _average(others[i], MAP_SIDE)]
        finite = [part[np.isfinite(part)] for part in pair]
        low = min((float(part.min()) for part in finite if part.size), default=0.0)
        high = max((float(part.max()) for part in finite if part.size), default=0.0)
        difference = _average(differences[i], MAP_SIDE)
        scales = [(low, high), (low, high), (0.0, float(difference.max()))]
        for part, scale in zip([*pair, difference], scales, strict=True):
            pixels.append(_quantize(part, scale)[0])
            bounds.append(scale)
    size = (int(value.shape[-2]), int(value.shape[-1]))
    return Picture("compared", np.stack(pixels), bounds, size, len(maps), [int(i) for i in numbers])


def _list_maps(value: Array, is_attention: bool) -> tuple[Array, str]:
    """Return the maps of a value, shape [maps, height, width], and their kind."""
    height, width = value.shape[-2:]
    if is_attention and value.ndim >= 3:
        return value.reshape(-1, height, width)[: value.shape[-3]], "attention"
    if value.ndim == 4:
        return value[0], "feature maps"
    return value.reshape(-1, height, width)[:1], "matrix"


def compute_attention(inputs: Sequence[Array | None], *, causal: bool) -> Array | None:
    """Return the attention maps of ScaledDotProductAttention, which it does not output.

    Args:
        inputs: The inputs of the layer: query, key, value, mask, scale and sink.
        causal: The attribute of the layer.

    Returns:
        The maps of all heads of the first item of a batch, shape [heads, queries, keys] or [queries, keys]; None if the
        shapes do not match or the maps are too large.
    """
    from irrun.ops.sequence.attention import scaled_dot_product_attention_13

    query, key, _, mask, scale, sink = [*inputs, *[None] * 6][:6]
    if query is None or key is None or min(query.ndim, key.ndim) < 2:
        return None
    length, key_length = query.shape[-2], key.shape[-2]
    try:
        batch = get_broadcast_shape(query.shape[:-2], key.shape[:-2])
        if length * key_length * (batch[-1] if batch else 1) > MAX_ATTENTION:
            return None
        query = _take_heads(query, batch, query.shape[-2:])
        key = _take_heads(key, batch, key.shape[-2:])
        mask = None if mask is None else _take_heads(mask, batch, (length, key_length))
        sink = None if sink is None else _take_heads(sink, batch, (length, 1))
        # With the identity as the value, the result is the weights.
        identity = np.eye(key_length).astype(query.dtype)
        maps: Array = scaled_dot_product_attention_13(query, key, identity, mask, scale, sink, causal=causal)
    except ValueError:
        return None
    return maps


def _take_heads(value: Array, batch: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return the maps of the first item of a batch, after broadcasting."""
    value = np.broadcast_to(value, (*batch, *shape))
    while value.ndim > 3:
        value = value[0]
    return value


def _is_unsupported(value: Array) -> bool:
    return value.dtype.kind in "OUST"


def _average(values: Array, side: int) -> Array:
    """Reduce a matrix to at most `side` rows and columns, as means of blocks."""
    steps = [max(1, length // SAMPLED_SIDE) for length in values.shape]
    result = widen(values[:: steps[0], :: steps[1]])
    for axis, length in enumerate(result.shape):
        if length > side:
            starts = np.arange(side) * length // side
            counts = np.diff(np.append(starts, length))
            sums = np.add.reduceat(result, starts, axis=axis)
            result = sums / np.expand_dims(counts, 1 - axis)
    return result


def _quantize(values: Array, bounds: tuple[float, float] | None = None) -> tuple[Array, tuple[float, float]]:
    """Return the codes of values, and the values of the codes 0 and `MAX_CODE`."""
    is_finite = np.isfinite(values)
    if bounds is None:
        finite = values[is_finite]
        bounds = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    low, high = bounds
    # Halving avoids overflow in the difference of the bounds.
    span = high / 2 - low / 2
    with np.errstate(all="ignore"):
        scaled = (values / 2 - low / 2) / span if span else np.zeros_like(values)
        codes = np.where(is_finite, np.clip(np.nan_to_num(scaled), 0, 1) * MAX_CODE + 0.5, NOT_FINITE)
    return codes.astype(np.uint8), bounds


def _round(number: float) -> float:
    return float(f"{number:.5g}")
