"""What is done to IR models after export: quantization with FakeQuantize, compression of weights to 8 and 4 bits."""

from __future__ import annotations

import nncf
import numpy as np
import openvino as ov
from nncf import CompressWeightsMode

__all__ = ["codebook", "fp4", "fp8", "int4_asym", "int4_sym", "int8", "nf4", "quantize"]


def quantize(model: ov.Model) -> ov.Model:
    """Activations and weights in 8 bits, by FakeQuantize, calibrated on random images."""
    rng = np.random.default_rng(0)
    images = [rng.standard_normal((1, 3, 64, 64), np.float32) for _ in range(8)]
    quantized: ov.Model = nncf.quantize(model, nncf.Dataset(images), subset_size=len(images))
    return quantized


def int8(model: ov.Model) -> ov.Model:
    """Weights as u8 with one scale and zero point per row."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.INT8_ASYM)
    return compressed


def int4_sym(model: ov.Model) -> ov.Model:
    """Weights as i4 with one scale for 32 of them."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.INT4_SYM, group_size=32, ratio=1.0)
    return compressed


def int4_asym(model: ov.Model) -> ov.Model:
    """Weights as u4 with one scale and zero point for 32 of them, the embedding and the last layer too."""
    compressed: ov.Model = nncf.compress_weights(
        model, mode=CompressWeightsMode.INT4_ASYM, group_size=32, ratio=1.0, all_layers=True
    )
    return compressed


def nf4(model: ov.Model) -> ov.Model:
    """Weights as quantiles of the normal distribution, with one scale for 32 of them."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.NF4, group_size=32, ratio=1.0)
    return compressed


def codebook(model: ov.Model) -> ov.Model:
    """Weights as places in a table of 16 numbers in f8e4m3."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.CB4, group_size=32, ratio=1.0)
    return compressed


def fp4(model: ov.Model) -> ov.Model:
    """Weights as f4e2m1, with scales in f8e4m3 that have a scale themselves."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.NVFP4, all_layers=True)
    return compressed


def fp8(model: ov.Model) -> ov.Model:
    """Weights as f8e4m3, with one scale for 32 of them."""
    compressed: ov.Model = nncf.compress_weights(model, mode=CompressWeightsMode.FP8_E4M3, group_size=32)
    return compressed
