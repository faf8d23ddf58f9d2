"""Conformance cases for the convolution operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

F32, F16, F64 = np.float32, np.float16, np.float64
SUMS = (1e-5, 1e-5)  # sums of a few dozen products
HALF_SUMS = (2e-3, 2e-3)
#: Tolerances for types that the CPU plugin computes in f32 or less. The unit tests check f64 at full precision.
TOLERANCES = {F16: HALF_SUMS, ml_dtypes.bfloat16: (1e-2, 1e-2), F64: SUMS}


def sample_values(rng, shape, dtype=F32):
    """Return random values, small ones for integer types."""
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -4, 5, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def make_attributes(rank, *, strides=1, dilations=1, begin=0, end=0, **extra):
    """Return the attributes that all convolutions have in common. A number applies to every axis."""
    per_axis = {"strides": strides, "dilations": dilations, "pads_begin": begin, "pads_end": end}
    return {k: [v] * rank if isinstance(v, int) else list(v) for k, v in per_axis.items()} | extra


#: (spatial shape, kernel, attributes) of forward convolutions.
WINDOWS = [
    ((7,), (3,), {}),
    ((7,), (1,), {}),
    ((9,), (3,), {"strides": 2, "begin": 1, "end": 2}),
    ((9,), (2,), {"dilations": 3, "begin": 2}),
    ((6,), (3,), {"auto_pad": "same_upper", "strides": 2}),
    ((6,), (4,), {"auto_pad": "same_lower", "strides": 3}),
    ((5, 6), (3, 3), {}),
    ((5, 6), (1, 1), {}),
    ((5, 6), (1, 1), {"strides": 2}),
    ((5, 6), (1, 1), {"strides": (2, 3), "begin": 1, "end": (0, 2)}),
    ((6, 7), (3, 2), {"strides": (2, 1), "begin": (1, 0), "end": (0, 2)}),
    ((8, 7), (3, 2), {"dilations": (2, 3), "begin": (3, 1), "end": 2}),
    ((8, 7), (2, 3), {"dilations": 2, "strides": 2, "begin": 1, "end": 1}),
    ((7, 8), (3, 4), {"auto_pad": "same_upper"}),
    ((7, 8), (3, 4), {"auto_pad": "same_upper", "strides": (2, 3), "begin": 4, "end": 4}),
    ((7, 8), (4, 3), {"auto_pad": "same_lower", "strides": (3, 2), "dilations": (1, 2)}),
    ((7, 8), (3, 3), {"auto_pad": "valid", "begin": 2, "end": 2}),
    ((7, 8), (3, 3), {"auto_pad": "explicit", "begin": 2, "end": 2}),
    ((3, 4), (5, 6), {"begin": 1, "end": 1}),
    ((4, 5, 6), (2, 3, 2), {}),
    ((4, 5, 6), (1, 1, 1), {}),
    ((4, 5, 6), (3, 3, 3), {"strides": (1, 2, 3), "begin": (1, 0, 2), "end": (0, 1, 1)}),
    ((5, 5, 5), (2, 2, 2), {"dilations": (1, 2, 3), "begin": 1, "end": 1}),
    ((4, 5, 6), (3, 2, 3), {"auto_pad": "same_upper", "strides": 2}),
    ((4, 5, 6), (2, 3, 2), {"auto_pad": "same_lower", "strides": 2}),
]


@register_cases("Convolution", since=1)
def convolution_1(rng):
    for i, (spatial, kernel, window) in enumerate(WINDOWS):
        data, filters = sample_values(rng, (1 + i % 2, 3, *spatial)), sample_values(rng, (4, 3, *kernel))
        yield Case(
            [data, filters],
            make_attributes(len(spatial), **window),
            constants=[1] if i % 3 else [],
            dynamic=[0] if i % 4 == 1 else [],
            tolerance=SUMS,
        )
    for dtype in (F16, ml_dtypes.bfloat16, F64):
        data, filters = sample_values(rng, (2, 2, 5, 5), dtype), sample_values(rng, (3, 2, 3, 3), dtype)
        yield Case([data, filters], make_attributes(2, begin=1, end=1), tolerance=TOLERANCES[dtype])
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        yield Case(
            [sample_values(rng, (1, 2, 4, 5), dtype), sample_values(rng, (3, 2, 2, 3), dtype)],
            make_attributes(2, strides=(1, 2)),
        )
    many = [sample_values(rng, (2, 40, 9, 9)), sample_values(rng, (5, 40, 3, 3))]
    yield Case(many, make_attributes(2, begin=1, end=1), tolerance=(1e-5, 5e-5), note="sums of 360 products")


@register_cases("GroupConvolution", since=1)
def group_convolution_1(rng):
    for i, (spatial, kernel, window) in enumerate(WINDOWS):
        groups, c_out, c_in = ((1, 3, 2), (3, 2, 2), (4, 1, 1), (2, 1, 3))[i % 4]
        data = sample_values(rng, (1 + i % 2, groups * c_in, *spatial))
        filters = sample_values(rng, (groups, c_out, c_in, *kernel))
        yield Case(
            [data, filters],
            make_attributes(len(spatial), **window),
            constants=[1] if i % 3 else [],
            dynamic=[0] if i % 5 == 1 else [],
            tolerance=SUMS,
        )
    for dtype in (F16, F64, np.int32, np.int64):
        data, filters = sample_values(rng, (2, 4, 5, 5), dtype), sample_values(rng, (2, 3, 2, 3, 3), dtype)
        yield Case([data, filters], make_attributes(2, begin=1), tolerance=TOLERANCES.get(dtype))
    depthwise = [sample_values(rng, (1, 8, 10, 11)), sample_values(rng, (8, 1, 1, 3, 3))]
    yield Case(depthwise, make_attributes(2, strides=2, begin=1, end=1), tolerance=SUMS, note="depthwise")


#: (spatial shape, kernel, output_shape or None, attributes) of transposed convolutions.
BACKPROP_WINDOWS = [
    ((5,), (3,), None, {}),
    ((5,), (3,), None, {"strides": 2, "begin": 1, "end": 1, "output_padding": [1]}),
    ((4,), (3,), (9,), {"strides": 2, "begin": 0, "end": 0}),
    ((4,), (3,), (8,), {"strides": 2, "auto_pad": "same_upper"}),
    ((4,), (4,), (7,), {"strides": 2, "auto_pad": "same_lower"}),
    ((1,), (1,), None, {}),
    ((4, 5), (3, 3), None, {}),
    ((4, 5), (1, 1), None, {}),
    ((4, 5), (2, 2), None, {"strides": 2}),
    ((4, 5), (3, 4), None, {"strides": (2, 3), "begin": (1, 0), "end": (0, 2)}),
    ((4, 5), (3, 2), None, {"dilations": (2, 3), "begin": 1, "end": 1}),
    ((4, 5), (3, 3), None, {"strides": 2, "begin": 1, "end": 1, "output_padding": [1, 0]}),
    ((4, 5), (3, 3), None, {"strides": 3, "output_padding": [2, 1]}),
    ((4, 5), (3, 3), None, {"auto_pad": "valid", "begin": 1, "end": 1, "strides": 2}),
    ((4, 5), (3, 3), None, {"auto_pad": "same_upper", "strides": 2}),
    ((4, 5), (3, 3), (8, 10), {"auto_pad": "same_upper", "strides": 2}),
    ((4, 5), (3, 3), (8, 10), {"auto_pad": "same_lower", "strides": 2}),
    ((4, 5), (4, 3), (7, 9), {"auto_pad": "same_upper", "strides": 2}),
    ((4, 5), (3, 3), (8, 10), {"auto_pad": "same_upper", "strides": 2, "output_padding": [1, 1]}),
    ((4, 5), (3, 3), (7, 9), {"strides": 2, "begin": 1, "end": 1}),
    ((3, 4, 5), (2, 3, 2), None, {}),
    ((3, 4, 2), (3, 2, 3), None, {"strides": (1, 2, 3), "begin": (1, 0, 1), "end": (0, 1, 1)}),
    ((3, 2, 3), (2, 2, 2), None, {"dilations": (1, 2, 1), "strides": 2, "output_padding": [1, 0, 1]}),
    ((3, 2, 3), (3, 3, 3), (6, 4, 6), {"strides": 2, "auto_pad": "same_upper"}),
    ((3, 2, 3), (3, 3, 3), (6, 4, 6), {"strides": 2, "auto_pad": "same_lower"}),
]


@register_cases("ConvolutionBackpropData", since=1, grouped=False)
@register_cases("GroupConvolutionBackpropData", since=1, grouped=True)
def generate_backprop_cases(rng, grouped):
    """Yield the cases of a transposed convolution."""
    for i, (spatial, kernel, shape, window) in enumerate(BACKPROP_WINDOWS):
        groups, c_in, c_out = ((3, 2, 2), (4, 1, 1), (2, 3, 1))[i % 3] if grouped else (1, 3, 2 + i % 2)
        prefix = (groups, c_in, c_out) if grouped else (c_in, c_out)
        inputs = [sample_values(rng, (1 + i % 2, groups * c_in, *spatial)), sample_values(rng, (*prefix, *kernel))]
        constants = [1] if i % 3 else []
        if shape is not None:
            inputs.append(np.array(shape, np.int64))
            constants.append(2)
        yield Case(
            inputs,
            make_attributes(len(spatial), **window),
            constants=constants,
            dynamic=[0] if i % 4 == 1 else [],
            tolerance=SUMS,
        )
    prefix = (2, 2, 3) if grouped else (4, 3)
    for dtype in (F16, F64, np.int32, np.int64):
        inputs = [sample_values(rng, (2, 4, 3, 4), dtype), sample_values(rng, (*prefix, 3, 3), dtype)]
        yield Case(inputs, make_attributes(2, strides=2, begin=1), tolerance=TOLERANCES.get(dtype))
    yield Case(
        [sample_values(rng, (2, 4, 1, 1)), sample_values(rng, (*prefix, 1, 1)), np.array([3, 2])],
        make_attributes(2, strides=(1, 2), begin=(1, 2)),
        constants=[1, 2],
        note="padding crops all data along one axis",
    )


@register_cases("BinaryConvolution", since=1)
def binary_convolution_1(rng):
    for i, (spatial, kernel, window) in enumerate([p for p in WINDOWS if len(p[0]) == 2]):
        yield make_binary_case(rng, spatial, kernel, window, pad_value=float(i % 2))
    for pad_value in (0.0, 1.0, -1.0, 0.5):
        yield make_binary_case(rng, (4, 5), (3, 3), {"begin": 1, "end": (2, 0)}, pad_value)
    for dtype in (F16, np.int32, np.int64):
        yield make_binary_case(rng, (4, 5), (3, 3), {"begin": 1, "end": 1}, 1.0, dtype)
    yield make_binary_case(rng, (4, 5), (3, 3), {"begin": 1, "end": 1}, 0.0, c_in=11)
    for window, kernel in (({}, (1, 1)), ({"strides": 2}, (1, 1)), ({"begin": 1}, (2, 3)), ({}, (3, 3))):
        yield make_binary_case(rng, (4, 5), kernel, window, 1.0, c_in=8, symmetric=True)


def make_binary_case(rng, spatial, kernel, window, pad_value, dtype=F32, c_in=3, symmetric=False):
    """Return a case of BinaryConvolution with expected outputs computed by counting equal bits.

    If it is `symmetric`, the order of the bits in each byte of the filters does not matter.
    """
    import openvino as ov
    from openvino import op
    from openvino.utils.node_factory import NodeFactory

    from irrun.ops._support.windows import create_windows

    data = rng.integers(0, 2, (2, c_in, *spatial)).astype(dtype)
    bits = rng.integers(0, 2, (4, c_in, *kernel)).astype(np.uint8)
    if symmetric:
        halves = bits.reshape(-1, 8)[:, :4]
        bits = np.concatenate([halves, halves[:, ::-1]], axis=1).reshape(bits.shape)
    packed = np.packbits(bits.reshape(-1))  # referenced by build(), because a Tensor does not copy it
    attributes = make_attributes(2, **window) | {"mode": "xnor-popcount", "pad_value": pad_value}

    def build():
        parameter = op.Parameter(ov.Type(data.dtype), ov.PartialShape(list(data.shape)))
        filters = op.Constant(ov.Tensor(packed, ov.Shape(list(bits.shape)), ov.Type.u1))
        node = NodeFactory("opset1").create("BinaryConvolution", [parameter.output(0), filters.output(0)], attributes)
        return ov.Model([op.Result(node.output(0))], [parameter])

    strides, dilations, begin, end = (attributes[k] for k in ("strides", "dilations", "pads_begin", "pads_end"))
    windows = create_windows(spatial, kernel, strides, dilations, begin, end, attributes.get("auto_pad", "explicit"))
    padded = windows.pad(data, np.array(pad_value).astype(dtype))
    expected = np.zeros((2, 4, *windows.output_shape), dtype)
    for (y, x), taps_data in windows.iterate_taps(padded):
        equal = taps_data[:, np.newaxis] == bits[np.newaxis, :, :, y, x, np.newaxis, np.newaxis]
        expected += (2 * equal.sum(axis=2) - c_in).astype(dtype)
    return Case(
        [data],
        build=build,
        expected=[expected],
        faults=() if symmetric else ("plugin-binary-convolution", "plugin-binary-convolution-channels"),
        note=f"{kernel} {attributes}",
    )


#: (group, deformable_group, kernel, attributes) of deformable convolutions of data with 4 channels of 6x7.
DEFORMABLE_WINDOWS = [
    (1, 1, (3, 3), {}),
    (1, 1, (1, 1), {}),
    (1, 1, (2, 3), {"strides": (2, 1), "begin": (1, 0), "end": (0, 2)}),
    (1, 1, (2, 2), {"dilations": (2, 3), "begin": 1, "end": 1}),
    (2, 1, (3, 3), {"begin": 1, "end": 1}),
    (1, 2, (3, 3), {"begin": 1, "end": 1}),
    (1, 4, (3, 3), {"begin": 1, "end": 1}),
    (2, 2, (3, 3), {"begin": 1, "end": 1, "strides": 2}),
    (4, 2, (2, 2), {"begin": 1, "end": 0}),
    (2, 4, (2, 2), {"begin": 1, "end": 0}),
    (1, 1, (3, 3), {"auto_pad": "same_upper", "strides": 2}),
    (1, 1, (2, 2), {"auto_pad": "same_lower", "strides": 1}),
    (1, 1, (3, 3), {"auto_pad": "valid", "begin": 1, "end": 1}),
]


@register_cases("DeformableConvolution", since=1, version=1)
@register_cases("DeformableConvolution", since=8, version=8)
def generate_deformable_cases(rng, version):
    """Yield the cases of DeformableConvolution, with masks and padded interpolation for version 8."""
    from irrun.ops._support.windows import create_windows

    for i, (group, deformable_group, kernel, window) in enumerate(DEFORMABLE_WINDOWS):
        attributes = make_attributes(2, **window)
        auto_pad = attributes.get("auto_pad", "explicit")
        strides, dilations, begin, end = (attributes[k] for k in ("strides", "dilations", "pads_begin", "pads_end"))
        out = create_windows((6, 7), kernel, strides, dilations, begin, end, auto_pad).output_shape
        taps = kernel[0] * kernel[1] * deformable_group
        attributes |= {"group": group, "deformable_group": deformable_group}
        scales = (0.0, 0.7, 4.0) if i < 2 else (1.5,)
        for scale in scales:
            data, filters = sample_values(rng, (2, 4, 6, 7)), sample_values(rng, (4, 4 // group, *kernel))
            offsets = (rng.normal(size=(2, 2 * taps, *out)) * scale).astype(F32)
            if version == 1:
                yield Case([data, offsets, filters], attributes, tolerance=SUMS)
                continue
            mask = rng.uniform(size=(2, taps, *out)).astype(F32)
            for padded in (False, True):
                pad = {"bilinear_interpolation_pad": padded}
                inputs = [data, offsets, filters, mask] if i % 2 or padded else [data, offsets, filters]
                yield Case(inputs, attributes | pad, tolerance=SUMS)
    data, filters = sample_values(rng, (1, 2, 5, 5), F16), sample_values(rng, (2, 2, 2, 2), F16)
    offsets = (rng.integers(-2, 3, (1, 8, 4, 4)) / 4).astype(F16)
    one = make_attributes(2) | {"group": 1, "deformable_group": 1}
    yield Case([data, offsets, filters], one, tolerance=HALF_SUMS)
    integer_offsets = rng.integers(-2, 3, (1, 8, 4, 4)).astype(F32)
    yield Case(
        [data.astype(F32), integer_offsets, filters.astype(F32)],
        one,
        tolerance=SUMS,
        note="integer offsets, some at the border",
    )
