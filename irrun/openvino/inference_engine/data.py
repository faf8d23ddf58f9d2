"""Inputs, outputs and blobs of the Inference Engine."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.openvino.node import Output

__all__ = [
    "Blob",
    "ColorFormat",
    "DataPtr",
    "InputInfoPtr",
    "MeanVariant",
    "PreProcessInfo",
    "ResizeAlgorithm",
    "TensorDesc",
    "get_default_layout",
]

Array = np.ndarray[Any, Any]

_LAYOUTS = {0: "SCALAR", 1: "C", 2: "NC", 3: "CHW", 4: "NCHW", 5: "NCDHW"}


class ColorFormat(IntEnum):
    """The color format of an image."""

    RAW = 0
    RGB = 1
    BGR = 2
    RGBX = 3
    BGRX = 4
    NV12 = 5
    I420 = 6


class ResizeAlgorithm(IntEnum):
    """How an image is resized."""

    NO_RESIZE = 0
    RESIZE_BILINEAR = 1
    RESIZE_AREA = 2


class MeanVariant(IntEnum):
    """The kind of mean values to subtract."""

    MEAN_IMAGE = 0
    MEAN_VALUE = 1
    NONE = 2


class PreProcessInfo:
    """Preprocessing of an input; irrun performs the resizing.

    Attributes:
        resize_algorithm: How images are resized.
        color_format: The color format.
        mean_variant: The kind of mean values to subtract.
    """

    def __init__(self) -> None:
        self.resize_algorithm = ResizeAlgorithm.NO_RESIZE
        self.color_format = ColorFormat.RAW
        self.mean_variant = MeanVariant.NONE


class TensorDesc:
    """The description of a blob.

    Args:
        precision: The precision, such as "FP32".
        dims: The shape.
        layout: The layout, such as "NCHW".

    Attributes:
        precision: The precision.
        dims: The shape.
        layout: The layout.
    """

    def __init__(self, precision: str, dims: Any, layout: str = "ANY") -> None:
        self.precision = precision
        self.dims = [int(n) for n in dims]
        self.layout = layout

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorDesc) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.precision, tuple(self.dims), self.layout))


class Blob:
    """The memory of an input or output.

    Args:
        tensor_desc: The description.
        array: The values; the blob uses their memory. By default, memory is allocated.

    Attributes:
        tensor_desc: The description.
        buffer: The values.
    """

    def __init__(self, tensor_desc: TensorDesc, array: Any = None) -> None:
        self.tensor_desc = tensor_desc
        dtype = ElementType.parse(tensor_desc.precision).dtype
        if array is None:
            self.buffer: Array = np.zeros(tensor_desc.dims, dtype)
        else:
            values = np.asarray(array)
            if values.size != int(np.prod(tensor_desc.dims)):
                raise AttributeError(
                    f"Number of elements in provided numpy array {values.size} and required by TensorDesc "
                    f"{int(np.prod(tensor_desc.dims))} are not equal"
                )
            if values.dtype != dtype:
                raise ValueError(
                    f"Data type {values.dtype} of provided numpy array doesn't match {tensor_desc.precision}"
                )
            self.buffer = values.reshape(tensor_desc.dims)


class DataPtr:
    """An input or output of a network.

    Args:
        name: The name.
        port: The port of the model.
        network: The network.

    Attributes:
        name: The name.
    """

    def __init__(self, name: str, port: Output) -> None:
        self.name = name
        self._port = port
        self._precision: str | None = None
        self._layout: str | None = None

    def __iter__(self) -> Iterator[int]:
        """Iterate over the shape, which programs of 2018 expect instead of this object."""
        return iter(self.shape)

    @property
    def shape(self) -> list[int]:
        """The shape."""
        return list(self._port.shape)

    @property
    def precision(self) -> str:
        """The precision of the values that programs pass or receive, such as "FP32"."""
        if self._precision is not None:
            return self._precision
        element_type = self._port._data.element_type
        if element_type is None or element_type.name in ("f16", "bf16"):
            return "FP32"
        return element_type.precision

    @precision.setter
    def precision(self, precision: str) -> None:
        try:
            ElementType.parse(precision)
        except ValueError:
            raise ValueError(f"Unsupported precision {precision}!") from None
        self._precision = precision.upper()

    @property
    def layout(self) -> str:
        """The layout of the values that programs pass or receive, such as "NCHW"."""
        return self._layout or get_default_layout(len(self.shape))

    @layout.setter
    def layout(self, layout: str) -> None:
        self._layout = layout.upper()

    @property
    def initialized(self) -> bool:
        """Always True."""
        return True


class InputInfoPtr:
    """An input of a network.

    Args:
        data: The input.

    Attributes:
        input_data: The input.
        preprocess_info: The preprocessing.
    """

    def __init__(self, data: DataPtr) -> None:
        self.input_data = data
        self.preprocess_info = PreProcessInfo()

    @property
    def name(self) -> str:
        """The name."""
        return self.input_data.name

    @property
    def precision(self) -> str:
        """The precision of the values that programs pass."""
        return self.input_data.precision

    @precision.setter
    def precision(self, precision: str) -> None:
        self.input_data.precision = precision

    @property
    def layout(self) -> str:
        """The layout of the values that programs pass."""
        return self.input_data.layout

    @layout.setter
    def layout(self, layout: str) -> None:
        self.input_data.layout = layout

    @property
    def tensor_desc(self) -> TensorDesc:
        """The description."""
        return TensorDesc(self.precision, self.input_data.shape, self.layout)


def get_default_layout(rank: int) -> str:
    """Return the layout of a tensor of some rank."""
    return _LAYOUTS.get(rank, "BLOCKED")
