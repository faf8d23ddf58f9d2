"""Transformations of exported IR models: quantization with FakeQuantize, weight compression to 8 and 4 bits."""

from __future__ import annotations

import nncf
import numpy as np
import openvino as ov
from nncf import CompressWeightsMode

__all__ = [
    "compress_codebook",
    "compress_fp4",
    "compress_fp8",
    "compress_int4_asym",
    "compress_int4_sym",
    "compress_int8",
    "compress_nf4",
    "convert_to_f16",
    "quantize",
]


def quantize(model: ov.Model) -> ov.Model:
    """Quantize activations and weights to 8 bits with FakeQuantize, calibrated on random inputs."""
    rng = np.random.default_rng(0)
    samples = [[_make_sample(rng, tensor) for tensor in model.inputs] for _ in range(8)]
    quantized: ov.Model = nncf.quantize(model, nncf.Dataset(samples, lambda sample: sample), subset_size=len(samples))
    return quantized


def _make_sample(rng: np.random.Generator, tensor: ov.Output) -> np.ndarray:
    """Return random values for an input: an image of 64 x 64 where its shape is dynamic."""
    if tensor.partial_shape.is_dynamic:
        return rng.standard_normal((1, 3, 64, 64), np.float32)
    shape = tuple(tensor.shape)
    if tensor.element_type.is_real():
        return rng.standard_normal(shape, np.float32)
    return rng.integers(0, 2, shape)


def convert_to_f16(model: ov.Model) -> ov.Model:
    """Convert all f32 values of a graph to f16, apart from inputs and outputs of the model."""
    from openvino.passes import ConvertFP32ToFP16, Manager

    manager = Manager()
    manager.register_pass(ConvertFP32ToFP16())
    manager.run_passes(model)
    return model


def compress_int8(model: ov.Model) -> ov.Model:
    """Compress weights to u8 with one scale and zero point per row."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.INT8_ASYM)
    return compressed


def compress_int4_sym(model: ov.Model) -> ov.Model:
    """Compress weights to i4 with one scale per 32 weights."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.INT4_SYM, group_size=32, ratio=1.0)
    return compressed


def compress_int4_asym(model: ov.Model) -> ov.Model:
    """Compress all weights, including embedding and last layer, to u4 with one scale and zero point per 32 weights."""
    compressed: ov.Model = nncf.compress_weights(
        model, mode=CompressWeightsMode.INT4_ASYM, group_size=32, ratio=1.0, all_layers=True
    )
    return compressed


def compress_nf4(model: ov.Model) -> ov.Model:
    """Compress weights to quantiles of the normal distribution (nf4), with one scale per 32 weights."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.NF4, group_size=32, ratio=1.0)
    return compressed


def compress_codebook(model: ov.Model) -> ov.Model:
    """Compress weights to indices into a codebook of 16 numbers of type f8e4m3."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.CB4, group_size=32, ratio=1.0)
    return compressed


def compress_fp4(model: ov.Model) -> ov.Model:
    """Compress weights to f4e2m1, with scales of type f8e4m3 that have a scale themselves."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.NVFP4, all_layers=True)
    return compressed


def compress_fp8(model: ov.Model) -> ov.Model:
    """Compress weights to f8e4m3, with one scale per 32 weights."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.FP8_E4M3, group_size=32)
    return compressed
