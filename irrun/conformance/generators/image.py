"""Conformance cases for the image operations."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

BF16 = ml_dtypes.bfloat16
PILLOW = ("plugin-bicubic-pillow", "plugin-interpolate-bytes", "plugin-interpolate-nan")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")

#: Coordinates in f32 have a relative error of up to 6e-8, which carries over to the weights computed from them.
WEIGHTED = (4e-6, 4e-6)


def sample_f32(rng, shape):
    return rng.normal(size=shape).astype(np.float32)


def sample_u8(rng, shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def make_i64(*values):
    return np.array(values, np.int64)


@register_cases("Interpolate", since=1)
def interpolate_1(rng):
    # Only the CPU plugin implements this version.
    def make_case(shape, axes, sizes, dtype=np.float32, note="", **attributes):
        data = rng.normal(size=shape).astype(dtype) if dtype != np.uint8 else sample_u8(rng, shape)
        attributes = {"mode": "nearest", "axes": axes, **attributes}
        tolerance = WEIGHTED if dtype == np.float32 else None
        inputs = [data, make_i64(*sizes)]
        return Case(inputs, attributes, constants=(1,), tolerance=tolerance, note=note)

    for mode, align in itertools.product(("nearest", "linear", "cubic"), (True, False)):
        yield make_case((1, 2, 4, 5), [2, 3], (7, 8), mode=mode, align_corners=align)
        yield make_case((1, 2, 6, 5), [2, 3], (3, 2), mode=mode, align_corners=align)
        yield make_case((1, 2, 6, 5), [2, 3], (12, 10), mode=mode, align_corners=align)
    for align in (True, False):
        yield make_case((1, 2, 3, 4, 5), [2, 3, 4], (6, 7, 3), mode="linear", align_corners=align)
        yield make_case((1, 2, 3, 4, 5), [2, 3, 4], (2, 7, 10), mode="nearest", align_corners=align)
    yield make_case((1, 2, 6, 6), [2, 3], (3, 3), mode="linear", antialias=True, align_corners=False)
    yield make_case((1, 2, 4, 4), [2, 3], (9, 7), mode="nearest", pads_begin=[0, 0, 1, 2], pads_end=[0, 0, 1, 0])
    yield make_case((1, 2, 4, 4), [2, 3], (9, 7), mode="linear", align_corners=False, pads_begin=[0, 0, 1, 2])
    yield make_case((1, 2, 4, 5), [2, 3], (8, 9), np.float16, mode="linear")
    yield make_case((1, 2, 4, 5), [2, 3], (8, 9), np.uint8, mode="nearest")
    yield make_case((1, 2, 1, 1), [2, 3], (4, 5), mode="linear")
    yield make_case((1, 2, 4, 5), [2, 3], (1, 1), mode="linear")
    yield make_case(
        (1, 2, 4, 5), [3, 2], (8, 7), mode="nearest", note="axes are a set, sizes are in ascending order of axes"
    )
    yield make_case((2, 3, 4, 5), [1, 2], (6, 7), mode="cubic")
    yield make_case((2, 3, 4), [1, 2], (6, 7), mode="nearest")
    yield make_case((2, 3, 4), [2], (6,), mode="linear", align_corners=False)


@register_cases("Interpolate", since=4, version=4)
def _generate_interpolate_cases(rng, version):
    """Yield the cases that versions 4 and 11 have in common, with the inputs of version 4."""

    def make_case(data, axes, sizes=None, scales=None, faults=(), constants=None, note="", **attributes):
        by = "sizes" if scales is None else "scales"
        sizes = make_i64(*([1] * len(scales) if sizes is None else sizes))
        scales = np.array([1] * len(sizes) if scales is None else scales, np.float32)
        if isinstance(data, tuple):
            data = sample_f32(rng, data)
        attributes = {"mode": "nearest", "shape_calculation_mode": by, **attributes}
        if version == 4:
            inputs = [data, sizes, scales, make_i64(*axes) if axes is not None else None]
            constants = (1, 2, 3) if constants is None else constants
        else:
            inputs = [data, sizes if by == "sizes" else scales, make_i64(*axes) if axes is not None else None]
            constants = (1, 2) if constants is None else constants
        tolerance = WEIGHTED if data.dtype in (np.float32, np.float64) else None
        return Case(inputs, attributes, constants=constants, faults=faults, tolerance=tolerance, note=note)

    # Every coordinate transformation, up and down, for each mode.
    for coordinates in COORDINATES:
        for nearest in NEAREST:
            yield make_case(
                (1, 2, 4, 6),
                (2, 3),
                (7, 4),
                coordinate_transformation_mode=coordinates,
                nearest_mode=nearest,
            )
        for mode in ("linear", "linear_onnx", "cubic"):
            attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
            yield make_case((1, 2, 4, 6), (2, 3), (7, 4), **attributes)
            yield make_case((2, 1, 5, 3), (2, 3), (2, 9), **attributes)
            yield make_case((1, 2, 4, 6), (2, 3), scales=(1.6, 0.45), **attributes)
            yield make_case((1, 1, 4, 6), (2, 3), (1, 1), **attributes)
    # Scales.
    for mode in ("nearest", "linear", "linear_onnx", "cubic"):
        yield make_case((1, 2, 3, 3), (2, 3), scales=(2.0, 2.0), mode=mode)
        yield make_case((1, 2, 7, 5), (2, 3), scales=(0.6, 0.8), mode=mode)
        yield make_case((1, 1, 3, 6), (2, 3), scales=(1 / 3, 5 / 3), mode=mode)
        yield make_case((1, 2, 1, 1), (2, 3), (3, 4), mode=mode)
        yield make_case((1, 2, 3, 4), (2, 3), (3, 4), mode=mode, note="unchanged size")
    # Antialias, which the CPU plugin ignores for images.
    for sizes in ((2, 3), (3, 9), (8, 9)):
        for coordinates in ("half_pixel", "asymmetric"):
            yield make_case(
                (1, 2, 6, 7),
                (2, 3),
                sizes,
                faults=() if sizes == (8, 9) else ("plugin-interpolate-antialias",),
                mode="linear",
                antialias=True,
                coordinate_transformation_mode=coordinates,
            )
    # The coefficient of cubic interpolation.
    for a in (-0.5, -0.75, -0.3, 0.0):
        yield make_case((1, 2, 4, 5), (2, 3), (7, 3), mode="cubic", cube_coeff=a)
    # Pads.
    for mode in ("nearest", "linear", "linear_onnx", "cubic"):
        pads = {"pads_begin": [0, 0, 1, 2], "pads_end": [0, 0, 2, 1]}
        yield make_case((1, 2, 4, 5), (2, 3), (9, 6), mode=mode, **pads)
        yield make_case((1, 2, 4, 5), (2, 3), scales=(1.5, 0.7), mode=mode, **pads)
    yield make_case((1, 2, 4, 5), (2, 3), (9, 6), mode="nearest", pads_begin=[0, 0, 1], pads_end=[0])
    # Other axes and ranks.
    yield make_case((2, 3, 4, 5), (3, 2), (8, 3), mode="cubic")
    yield make_case((2, 3, 4, 5), (1, 3), (5, 7), mode="nearest")
    yield make_case((2, 3, 4, 5), (1, 2), (5, 7), mode="linear")
    yield make_case((2, 3, 4, 5), (0, 2), (3, 7), mode="cubic")
    yield make_case((3, 4), None, (6, 7), mode="linear")
    yield make_case((3, 4), (0, 1), (6, 7), mode="linear_onnx")
    yield make_case((3, 4), (0, 1), (6, 7), mode="cubic")
    yield make_case((3, 4), (0, 1), (6, 7), mode="nearest")
    yield make_case((5,), (0,), (9,), mode="linear")
    yield make_case((5,), (0,), (3,), mode="nearest")
    yield make_case((1, 3, 5), (2,), (9,), mode="linear")
    yield make_case((1, 3, 5), (2,), (3,), mode="nearest")
    yield make_case((2, 3, 4), None, (2, 6, 5), mode="linear_onnx")
    yield make_case((1, 2, 3, 4, 3), (2, 3, 4), (5, 3, 7), mode="linear_onnx")
    yield make_case((1, 2, 3, 4, 3), (2, 3, 4), (5, 3, 7), mode="linear")
    yield make_case((1, 2, 3, 4, 3), (2, 3, 4), (2, 6, 2), mode="nearest")
    yield make_case((1, 2, 4, 6, 5), (2, 3, 4), (2, 3, 4), mode="linear", antialias=True)
    yield make_case((1, 2, 2, 2, 2, 3), (4, 5), (5, 4), mode="nearest")
    yield make_case((1, 2, 2, 2, 2, 3), (4, 5), (5, 4), mode="linear")
    # Types.
    for dtype in (np.float16, BF16):
        for mode in ("nearest", "linear", "linear_onnx", "cubic"):
            faults = () if dtype == np.float16 or mode == "nearest" else ("reference-bf16",)
            yield make_case(sample_f32(rng, (1, 2, 4, 5)).astype(dtype), (2, 3), (7, 3), mode=mode, faults=faults)
    for dtype in (np.int32, np.int64, np.float64):
        data = rng.integers(-100, 100, (1, 2, 4, 5)).astype(dtype)
        yield make_case(data, (2, 3), (7, 3), mode="nearest")
    for mode in ("linear", "linear_onnx", "cubic"):
        data = rng.normal(size=(1, 2, 4, 5))
        yield make_case(data, (2, 3), (7, 3), mode=mode)
    for dtype, mode in itertools.product((np.uint8, np.int8), ("nearest", "linear", "linear_onnx", "cubic")):
        data = rng.integers(30, 90, (1, 2, 4, 5)).astype(dtype)
        faults = () if mode == "nearest" else ("plugin-interpolate-bytes",)
        yield make_case(data, (2, 3), (7, 3), mode=mode, faults=faults)
    faults = ("plugin-interpolate-bytes", "plugin-interpolate-antialias")
    yield make_case(sample_u8(rng, (1, 2, 6, 7)), (2, 3), (3, 4), mode="linear", antialias=True, faults=faults)
    # Infinity and NaN.
    strange = sample_f32(rng, (1, 2, 5, 6))
    strange[0, 0, 0, 0], strange[0, 0, 3, 2], strange[0, 1, 4, 5] = np.inf, np.nan, -np.inf
    for mode, antialias in itertools.product(("nearest", "linear", "linear_onnx", "cubic"), (False, True)):
        for sizes in ((8, 9), (3, 4)):
            faults = ("plugin-interpolate-nan", "plugin-interpolate-antialias")
            yield make_case(strange, (2, 3), sizes, mode=mode, antialias=antialias, faults=faults)
    # Other types of integers and scales.
    for mode in ("nearest", "cubic"):
        attributes = {"mode": mode, "shape_calculation_mode": "sizes"}
        sizes, axes = np.array([3, 9], np.int32), np.array([2, 3], np.int32)
        scales = np.array([0.75, 2.5], np.float32)
        data = sample_f32(rng, (1, 2, 4, 5))
        inputs = [data, sizes, scales, axes] if version == 4 else [data, sizes, axes]
        yield Case(inputs, attributes, constants=range(1, len(inputs)), tolerance=WEIGHTED)
        attributes = {"mode": mode, "shape_calculation_mode": "scales"}
        for dtype in (np.float16, BF16):
            narrow = scales.astype(dtype)
            inputs = [data, sizes, narrow, axes] if version == 4 else [data, narrow, axes]
            yield Case(inputs, attributes, constants=range(1, len(inputs)), tolerance=WEIGHTED)
    # Dynamic shapes.
    for mode in ("nearest", "linear", "cubic"):
        yield make_case((1, 2, 4, 5), (2, 3), (7, 3), mode=mode, constants=(3,) if version == 4 else (2,))
        yield make_case((1, 2, 4, 5), (2, 3), scales=(2, 0.5), mode=mode, constants=(3,) if version == 4 else (2,))


@register_cases("Interpolate", since=11)
def interpolate_11(rng):
    yield from _generate_interpolate_cases(rng, 11)

    def make_pillow_case(data, axes, sizes, exact=False, **attributes):
        data = sample_f32(rng, data) if isinstance(data, tuple) else data
        inputs = [data, make_i64(*sizes), make_i64(*axes)]
        attributes = {"mode": "bicubic_pillow", "shape_calculation_mode": "sizes", **attributes}
        return Case(inputs, attributes, constants=(1, 2), faults=() if exact else PILLOW)

    for mode in ("bilinear_pillow", "bicubic_pillow"):
        for sizes in ((7, 9), (2, 3), (9, 2), (4, 6), (4, 3), (8, 6), (1, 1)):
            yield make_pillow_case((1, 2, 4, 6), (2, 3), sizes, exact=True, mode=mode, cube_coeff=-0.5)
        for a in (-0.75, -0.3):
            yield make_pillow_case((1, 2, 5, 6), (2, 3), (3, 8), mode=mode, cube_coeff=a)
        pads = {"pads_begin": [0, 0, 1, 2], "pads_end": [0, 0, 2, 0]}
        yield make_pillow_case((1, 2, 4, 6), (2, 3), (5, 5), mode=mode, cube_coeff=-0.5, **pads)
        yield make_pillow_case((5, 6), (0, 1), (3, 8), mode=mode)
        strange = sample_f32(rng, (1, 2, 5, 6))
        strange[0, 0, 0, 0], strange[0, 0, 3, 2], strange[0, 1, 4, 5] = np.inf, np.nan, -np.inf
        yield make_pillow_case(strange, (2, 3), (3, 8), mode=mode)
        yield make_pillow_case(strange, (2, 3), (7, 2), mode=mode)
        yield make_pillow_case((2, 5, 6, 3), (1, 2), (3, 8), mode=mode)
        yield make_pillow_case((2, 5, 6, 3), (1, 3), (3, 8), mode=mode)
        yield make_pillow_case(sample_u8(rng, (1, 2, 7, 6)), (2, 3), (4, 9), mode=mode)
        yield make_pillow_case(rng.integers(-128, 128, (1, 2, 7, 6)).astype(np.int8), (2, 3), (4, 9), mode=mode)
        yield make_pillow_case(sample_f32(rng, (1, 2, 7, 6)).astype(np.float16), (2, 3), (4, 9), mode=mode)
        scales = np.array([0.6, 1.7], np.float32)
        attributes = {"mode": mode, "shape_calculation_mode": "scales"}
        yield Case([sample_f32(rng, (1, 2, 5, 4)), scales, make_i64(2, 3)], attributes)


@register_cases("GridSample", since=9)
def grid_sample_9(rng):
    for mode, padding, align in itertools.product(
        ("bilinear", "bicubic", "nearest"), ("zeros", "border", "reflection"), (False, True)
    ):
        attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
        grid = rng.uniform(-1, 1, (2, 3, 4, 2)).astype(np.float32)
        yield Case([sample_f32(rng, (2, 3, 5, 7)), grid], attributes, tolerance=WEIGHTED)
        outside = grid * np.float32(3)
        yield Case([sample_f32(rng, (2, 2, 4, 3)), outside], attributes, tolerance=WEIGHTED, note="outside")
        yield Case([sample_f32(rng, (1, 2, 1, 1)), 2 * grid[:1]], attributes, note="one pixel")
        corners = np.array([[[[-1, -1], [1, 1], [-1, 1], [0, 0], [0.5, -0.5]]]], np.float32)
        yield Case([sample_f32(rng, (1, 2, 4, 6)), corners], attributes, note="edges")
    for mode in ("bilinear", "bicubic", "nearest"):
        grid = rng.uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(np.float32)
        yield Case([sample_f32(rng, (1, 2, 5, 6)).astype(np.float16), grid], {"mode": mode})
        yield Case([sample_f32(rng, (1, 2, 5, 6)).astype(BF16), grid], {"mode": mode})
        yield Case([sample_f32(rng, (1, 2, 5, 6)), grid], {"mode": mode}, dynamic=(0, 1))
        # The CPU plugin computes f64 in f32.
        yield Case([rng.normal(size=(1, 2, 5, 6)), grid], {"mode": mode}, tolerance=WEIGHTED)
        yield Case([rng.integers(-99, 99, (1, 2, 5, 6)).astype(np.int32), grid], {"mode": mode})
        # The CPU plugin rounds 8-bit results, the reference implementation truncates them.
        for dtype in (np.int64, np.int16) if mode != "nearest" else (np.int8, np.uint8, np.int64, np.bool_):
            yield Case([rng.integers(0, 99, (1, 2, 5, 6)).astype(dtype), grid], {"mode": mode})
        yield Case([sample_f32(rng, (1, 2, 5, 6)), grid.astype(np.float16)], {"mode": mode})
        for padding in ("zeros", "border", "reflection"):
            strange = np.array([[[[1e9, 0], [0, -1e9], [1e12, 0.3], [1e4, -1e4]]]], np.float32)
            attributes = {"mode": mode, "padding_mode": padding}
            inputs = [sample_f32(rng, (1, 2, 5, 6)), strange]
            yield Case(inputs, attributes, faults=("plugin-grid-sample",), note="far away")
    yield Case([sample_f32(rng, (1, 2, 5, 6)), np.zeros((1, 0, 3, 2), np.float32)], {})


def _round_channel(x, dtype):
    """Clip a channel to [0, 255]; for integers, round halves away from zero, as the reference implementation does."""
    x = min(max(np.float32(x), np.float32(0)), np.float32(255))
    return np.float32(np.floor(np.float64(x) + 0.5)) if dtype == np.uint8 else x


def _convert_to_rgb(y, u, v, order):
    """Convert pixel by pixel. y has the shape [N, H, W], u and v have the shape [N, H / 2, W / 2]."""
    f = np.float32
    image = np.zeros((*y.shape, 3), y.dtype)
    for n, row, column in np.ndindex(y.shape):
        c = f(y[n, row, column]) - f(16)
        d, e = (f(plane[n, row // 2, column // 2]) - f(128) for plane in (u, v))
        red = f(1.164) * c + f(1.596) * e
        green = f(1.164) * c - f(0.391) * d - f(0.813) * e
        blue = f(1.164) * c + f(2.018) * d
        pixel = [red, green, blue] if order == "rgb" else [blue, green, red]
        image[n, row, column] = [_round_channel(x, y.dtype) for x in pixel]
    return image


@register_cases("NV12toRGB", since=8, layout="nv12", order="rgb")
@register_cases("NV12toBGR", since=8, layout="nv12", order="bgr")
@register_cases("I420toRGB", since=8, layout="i420", order="rgb")
@register_cases("I420toBGR", since=8, layout="i420", order="bgr")
def _generate_yuv_cases(rng, layout, order):
    """Yield images in one tensor and in planes.

    The CPU plugin rounds halves to even, the reference implementation away from zero.
    """
    shapes = ((1, 2, 2), (1, 4, 6), (3, 6, 4), (2, 16, 16))
    for dtype, (n, height, width) in itertools.product((np.uint8, np.float32), shapes):

        def sample_plane(*shape, dtype=dtype):
            return sample_u8(rng, shape) if dtype == np.uint8 else rng.uniform(0, 255, shape).astype(np.float32)

        y, u, v = sample_plane(n, height, width), *(sample_plane(n, height // 2, width // 2) for _ in "uv")
        uv = np.stack([u, v], axis=-1)
        below = uv if layout == "nv12" else np.stack([u, v], axis=1)
        single = np.concatenate([y, below.reshape(n, height // 2, width)], axis=1)[..., None]
        planes = [y[..., None], *([uv] if layout == "nv12" else [u[..., None], v[..., None]])]
        for inputs in ([single], planes):
            if dtype == np.uint8:
                yield Case(inputs, faults=("plugin-yuv",), expected=[_convert_to_rgb(y, u, v, order)])
            else:
                yield Case(inputs)
    for dtype in (np.float16, BF16):
        yield Case([sample_u8(rng, (1, 6, 4, 1)).astype(dtype)])


@register_cases("RGBtoNV12", since=17, order="rgb")
@register_cases("BGRtoNV12", since=17, order="bgr")
def _generate_nv12_cases(rng, order):
    """Yield cases with expected values computed pixel by pixel, because OpenVINO has no implementation."""

    def compute_expected(image):
        n, height, width, _ = image.shape
        f, dtype = np.float32, image.dtype
        y, uv = np.zeros((n, height, width, 1), dtype), np.zeros((n, height // 2, width // 2, 2), dtype)
        for i, row, column in np.ndindex(n, height // 2, width // 2):
            total_u = total_v = f(0)
            for dy, dx in np.ndindex(2, 2):
                pixel = [f(p) for p in image[i, 2 * row + dy, 2 * column + dx]]
                r, g, b = pixel if order == "rgb" else pixel[::-1]
                luma = _round_channel(f(0.257) * r + f(0.504) * g + f(0.098) * b + f(16), dtype)
                y[i, 2 * row + dy, 2 * column + dx, 0] = luma
                total_u += _round_channel(f(-0.148) * r - f(0.291) * g + f(0.439) * b + f(128), dtype)
                total_v += _round_channel(f(0.439) * r - f(0.368) * g - f(0.071) * b + f(128), dtype)
            uv[i, row, column] = [_round_channel(total / f(4), dtype) for total in (total_u, total_v)]
        return y, uv

    for dtype, shape, single in itertools.product(
        (np.uint8, np.float32), ((1, 2, 2, 3), (1, 4, 6, 3), (2, 6, 4, 3)), (True, False)
    ):
        image = sample_u8(rng, shape) if dtype == np.uint8 else rng.uniform(0, 255, shape).astype(np.float32)
        y, uv = compute_expected(image)
        n, height, width, _ = shape
        below = uv.reshape(n, height // 2, width, 1)
        outputs = [np.concatenate([y, below], axis=1)] if single else [y, uv]
        yield Case([image], {"single_plane": single}, expected=outputs)
