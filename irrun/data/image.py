"""Pictures as inputs: resized to what the model takes, in its layout and channel order."""

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

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True)
class ImageOptions:
    """How a picture becomes a tensor.

    Attributes:
        layout: such as "NCHW", "NHWC", "CHW", "HW"; "auto" reads it off the shape.
        channels: "BGR" (what OpenVINO's own samples and models use) or "RGB".
        mean, scale: per channel in that order, or one for all: value = (pixel - mean) / scale, pixels 0 to 255.
    """

    layout: str = "auto"
    channels: str = "BGR"
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()


def load_image(path: Path, tensor: TensorSpec, options: ImageOptions) -> np.ndarray[Any, Any]:
    """A picture in the type, shape and layout of an input.

    Raises:
        InputError: Pillow is missing, the file is no picture, or the input takes none.
    """
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise InputError(f"reading {path} needs Pillow: pip install 'irrun[images]'") from None
    shape = tensor.partial_shape
    if shape is None:
        raise InputError(f"input {tensor} takes no picture: its rank is unknown")
    layout = _layout(options.layout, shape, tensor)
    sizes = dict(zip(layout, shape, strict=True))
    depth = sizes.get("C", 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures and odd tags, which are no errors
            pixels = _pixels(path, depth, sizes["W"], sizes["H"])
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{path} is larger than the memory, for input {tensor}") from None
    except Exception as error:  # Pillow raises many kinds where a file is not what its name says
        raise InputError(f"{path} cannot be read as a picture: {error}") from None
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if options.channels.upper() == "BGR" and pixels.shape[2] >= 3:
        pixels = pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]]
    return _arranged(_normalized(pixels, options, tensor), layout, tensor)


def _pixels(path: Path, depth: Dimension, width: Dimension, height: Dimension) -> np.ndarray[Any, Any]:
    """u8 [height, width, channels], or [height, width] where `depth` is 1; an open size is the picture's own."""
    from PIL import Image

    with Image.open(path) as picture:
        target = tuple(
            own if isinstance(want, DynamicDimension) else int(want)
            for own, want in zip(picture.size, (width, height), strict=True)
        )
        check_allocation((*target, 4), np.dtype(np.uint8))
        converted = picture.convert("L" if depth == 1 else "RGBA" if depth == 4 else "RGB")
        if target != converted.size:
            converted = converted.resize(target, Image.Resampling.BILINEAR)
        return np.asarray(converted)


def _layout(wanted: str, shape: PartialShape, tensor: TensorSpec) -> str:
    if wanted != "auto":
        layout = wanted.upper()
        if len(layout) != len(shape) or not {"H", "W"} <= set(layout) <= set("NCHW") or len(set(layout)) < len(layout):
            raise InputError(f"layout {wanted!r} does not fit input {tensor}")
        return layout
    if len(shape) == 4:
        return "NHWC" if shape[3] in (1, 3, 4) and shape[1] not in (1, 3, 4) else "NCHW"
    if len(shape) == 3:
        return "HWC" if shape[2] in (1, 3, 4) and shape[0] not in (1, 3, 4) else "CHW"
    if len(shape) == 2:
        return "HW"
    raise InputError(f"input {tensor} takes no picture: its rank is {len(shape)}, expected 2 to 4")


def _normalized(pixels: np.ndarray[Any, Any], options: ImageOptions, tensor: TensorSpec) -> np.ndarray[Any, Any]:
    element = tensor.element_type
    if options.mean or options.scale:
        for values in (options.mean, options.scale):
            if len(values) not in (0, 1, pixels.shape[2]):
                raise InputError(f"{len(values)} values for the {pixels.shape[2]} channels of input {tensor}")
        mean = np.array(options.mean or (0,), np.float64)
        scale = np.array(options.scale or (1,), np.float64)
        pixels = ((pixels - mean) / scale).astype(np.float32)
    if element is None or element.dtype == pixels.dtype:
        return pixels
    if pixels.dtype.kind == "f" and not element.is_float:
        raise InputError(f"mean and scale make fractions, and input {tensor} takes {element}")
    return pixels.astype(element.dtype)


def _arranged(pixels: np.ndarray[Any, Any], layout: str, tensor: TensorSpec) -> np.ndarray[Any, Any]:
    axes = "HWC"
    if "C" not in layout:
        pixels, axes = pixels[:, :, 0], "HW"
    arranged = pixels.transpose([axes.index(a) for a in layout if a != "N"])
    if "N" in layout:
        arranged = np.expand_dims(arranged, layout.index("N"))
    return np.ascontiguousarray(arranged)
