"""Loading of images as inputs, in the size, layout and channel order of the input."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.ir.model import TensorSpec
from irrun.limits import check_allocation
from irrun.shapes import Dimension, DynamicDimension, PartialShape

__all__ = ["IMAGE_SUFFIXES", "ImageOptions", "load_image"]

Array = np.ndarray[Any, Any]

#: Maximum number of pixels that are decoded, and the temporary memory for each in bytes.
MAX_PIXELS, BYTES_PER_PIXEL = 100_000_000, 9

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True)
class ImageOptions:
    """Options for converting an image to a tensor.

    Attributes:
        layout: The layout of the input, such as "NCHW", "NHWC", "CHW" or "HW". "auto" derives it from the shape.
        channels: "BGR" (as in the samples and models of OpenVINO) or "RGB".
        mean: Mean to subtract from the pixels (0 to 255): one per channel in the order of `channels`, or a single one.
        scale: Divisors of the pixels after subtracting the mean: one per channel, or a single one.
    """

    layout: str = "auto"
    channels: str = "BGR"
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()


def load_image(path: Path, tensor: TensorSpec, options: ImageOptions) -> Array:
    """Load an image in the type, shape and layout of an input.

    Args:
        path: The file.
        tensor: The input.
        options: How the image is converted.

    Returns:
        An array that matches `tensor`. Dynamic dimensions have the size of the image.

    Raises:
        InputError: Pillow is missing, the file is not an image, or the input does not accept images.
    """
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise InputError(f"reading {path} requires Pillow: pip install 'irrun[images]'") from None
    shape = tensor.partial_shape
    if shape is None:
        raise InputError(f"input {tensor} does not accept images: expected rank 2 to 4, found an unknown rank")
    layout = _resolve_layout(options.layout, shape, tensor)
    sizes = dict(zip(layout, shape, strict=True))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about large images and unknown tags
            pixels = _read_pixels(path, sizes.get("C", 1), sizes["W"], sizes["H"])
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{path} does not fit in memory, for input {tensor}") from None
    except Exception as error:  # Pillow raises many types of errors for invalid files
        raise InputError(f"{path} cannot be read as an image: {error}") from None
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if options.channels.upper() == "BGR" and pixels.shape[2] >= 3:
        pixels = pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]]
    return _arrange_axes(_normalize(pixels, options, tensor), layout)


def _read_pixels(path: Path, channels: Dimension, width: Dimension, height: Dimension) -> Array:
    """Return pixels as u8 [height, width, channels], or [height, width] if `channels` is 1."""
    from PIL import Image

    with Image.open(path) as image:
        target = tuple(
            actual if isinstance(expected, DynamicDimension) else int(expected)
            for actual, expected in zip(image.size, (width, height), strict=True)
        )
        check_allocation((*target, 4), np.dtype(np.uint8))
        image.draft(None, target)  # JPEG files are decoded at a reduced size
        pixels = image.size[0] * image.size[1]
        if pixels > MAX_PIXELS:
            raise InputError(f"{path} has {pixels} pixels, expected at most {MAX_PIXELS}; reduce its size first")
        check_allocation((pixels, BYTES_PER_PIXEL), np.dtype(np.uint8))
        converted = image.convert("L" if channels == 1 else "RGBA" if channels == 4 else "RGB")
        if target != converted.size:
            converted = converted.resize(target, Image.Resampling.BILINEAR)
        return np.asarray(converted)


def _resolve_layout(layout: str, shape: PartialShape, tensor: TensorSpec) -> str:
    if layout != "auto":
        axes = layout.upper()
        if len(axes) != len(shape) or not {"H", "W"} <= set(axes) <= set("NCHW") or len(set(axes)) < len(axes):
            raise InputError(f"layout {layout!r} does not fit input {tensor}")
        return axes
    if len(shape) == 4:
        return "NHWC" if shape[3] in (1, 3, 4) and shape[1] not in (1, 3, 4) else "NCHW"
    if len(shape) == 3:
        return "HWC" if shape[2] in (1, 3, 4) and shape[0] not in (1, 3, 4) else "CHW"
    if len(shape) == 2:
        return "HW"
    raise InputError(f"input {tensor} does not accept images: expected rank 2 to 4, found {len(shape)}")


def _normalize(pixels: Array, options: ImageOptions, tensor: TensorSpec) -> Array:
    element_type = tensor.element_type
    if options.mean or options.scale:
        for name, numbers in (("mean", options.mean), ("scale", options.scale)):
            if len(numbers) not in (0, 1, pixels.shape[2]):
                raise InputError(
                    f"{name}: expected 1 or {pixels.shape[2]} numbers for the channels of input {tensor}, "
                    f"found {len(numbers)}"
                )
        mean = np.array(options.mean or (0,), np.float64)
        scale = np.array(options.scale or (1,), np.float64)
        with np.errstate(all="ignore"):  # a tiny scale makes pixels infinite
            pixels = ((pixels - mean) / scale).astype(np.float32)
    if element_type is None or element_type.dtype == pixels.dtype:
        return pixels
    if pixels.dtype.kind == "f" and not element_type.is_float:
        raise InputError(f"mean and scale require an input of a floating-point type, found input {tensor}")
    return pixels.astype(element_type.dtype)


def _arrange_axes(pixels: Array, layout: str) -> Array:
    axes = "HWC"
    if "C" not in layout:
        pixels, axes = pixels[:, :, 0], "HW"
    arranged = pixels.transpose([axes.index(a) for a in layout if a != "N"])
    if "N" in layout:
        arranged = np.expand_dims(arranged, layout.index("N"))
    return np.ascontiguousarray(arranged)
