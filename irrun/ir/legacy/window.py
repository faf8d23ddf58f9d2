"""The window attributes of legacy convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irrun.ir.legacy.layer import LegacyLayer

__all__ = ["Window"]


@dataclass
class Window:
    """The window attributes of a layer, one entry per spatial axis, in the order of the axes.

    Attributes:
        kernel: Sizes of the window.
        strides: Distances between windows.
        pads_begin: Padding before the first element.
        pads_end: Padding after the last element.
        dilations: Distances between the elements of a window.
        auto_pad: "explicit", "valid", "same_upper" or "same_lower".
    """

    kernel: list[int]
    strides: list[int]
    pads_begin: list[int]
    pads_end: list[int]
    dilations: list[int]
    auto_pad: str

    @staticmethod
    def read(layer: LegacyLayer) -> Window:
        """Read the window attributes of a layer, in any of their three spellings.

        Args:
            layer: A convolution or a pooling.

        Returns:
            The window.

        Raises:
            ModelError: An attribute is missing, not positive, or does not have one entry per spatial axis.
        """
        if layer.attributes.get("kernel", "").strip():
            window = _read_window_lists(layer)
        elif layer.has_attribute("kernel-x"):
            window = _read_window_xy(layer)
        else:
            window = _read_window_caffe(layer)
        for name in ("strides", "pads_begin", "pads_end", "dilations"):
            count = len(getattr(window, name))
            if count != len(window.kernel):
                raise layer.make_error(f"{name} has {count} entries, but kernel has {len(window.kernel)}")
        if min([*window.kernel, *window.strides, *window.dilations], default=1) < 1:
            raise layer.make_error("kernel, strides and dilations must be positive")
        return window

    @property
    def attributes(self) -> dict[str, object]:
        """The attributes of a Convolution or GroupConvolution."""
        return {
            "strides": self.strides,
            "dilations": self.dilations,
            "pads_begin": self.pads_begin,
            "pads_end": self.pads_end,
            "auto_pad": self.auto_pad,
        }

    def compute_extent(self, axis: int) -> int:
        """Return the number of elements that the dilated window spans on a spatial axis."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def compute_pads(self, in_shape: Sequence[int], out_shape: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the padding that `auto_pad` determines, or the explicit padding.

        Args:
            in_shape: Spatial dimensions of the input.
            out_shape: Spatial dimensions of the output.

        Returns:
            The padding at the beginning and at the end of each axis.
        """
        if self.auto_pad == "explicit":
            return self.pads_begin, self.pads_end
        pads_begin, pads_end = [], []
        for axis, (size, out_size) in enumerate(zip(in_shape, out_shape, strict=True)):
            total = 0
            if self.auto_pad != "valid":
                total = max((out_size - 1) * self.strides[axis] + self.compute_extent(axis) - size, 0)
            begin = (total + 1) // 2 if self.auto_pad == "same_lower" else total // 2
            pads_begin.append(begin)
            pads_end.append(total - begin)
        return pads_begin, pads_end


def _read_auto_pad(layer: LegacyLayer) -> str:
    auto_pad = layer.get_text("auto_pad", default="").lower()
    return auto_pad if auto_pad in ("valid", "same_upper", "same_lower") else "explicit"


def _read_window_lists(layer: LegacyLayer) -> Window:
    """Read `kernel`, `strides` and the other lists of IR v3 and later."""
    kernel = layer.get_ints("kernel")
    ones, zeros = [1] * len(kernel), [0] * len(kernel)
    pads_begin = layer.get_ints("pads_begin", default=zeros)
    return Window(
        kernel=kernel,
        strides=layer.get_ints("strides", "stride", default=ones),
        pads_begin=pads_begin,
        pads_end=layer.get_ints("pads_end", default=pads_begin),
        dilations=layer.get_ints("dilations", default=ones),
        auto_pad=_read_auto_pad(layer),
    )


def _read_window_xy(layer: LegacyLayer) -> Window:
    """Read `kernel-x`, `kernel-y` and the other numbers of IR v2."""
    pads_begin = [layer.get_int("pad-y", default=0), layer.get_int("pad-x", default=0)]
    return Window(
        kernel=[layer.get_int("kernel-y"), layer.get_int("kernel-x")],
        # Files of IR v2 may state a stride of 0, which means 1.
        strides=[layer.get_int("stride-y", default=1) or 1, layer.get_int("stride-x", default=1) or 1],
        pads_begin=pads_begin,
        pads_end=[layer.get_int("pad-b", default=pads_begin[0]), layer.get_int("pad-r", default=pads_begin[1])],
        dilations=[layer.get_int("dilation-y", default=1), layer.get_int("dilation-x", default=1)],
        auto_pad=_read_auto_pad(layer),
    )


def _read_window_caffe(layer: LegacyLayer) -> Window:
    """Read `kernel_size`, `kernel_h` and the other attributes that keep Caffe's names."""
    size, stride, pad = (
        layer.get_int("kernel_size"),
        layer.get_int("stride", default=1),
        layer.get_int("pad", default=0),
    )
    return Window(
        kernel=[layer.get_int(f"kernel_{axis}", default=0) or size for axis in "hw"],
        strides=[layer.get_int(f"stride_{axis}", default=0) or stride for axis in "hw"],
        pads_begin=[layer.get_int(f"pad_{axis}", default=0) or pad for axis in "hw"],
        pads_end=[0, 0],
        dilations=[1, 1],
        auto_pad=_read_auto_pad(layer),
    )
