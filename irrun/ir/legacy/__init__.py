"""Upgrading of IR v2 to v7 (2018 to 2020) to IR v11.

All layers are converted to operations of the numbered opsets, so that no other part of irrun depends on legacy files.
`Input` layers become Parameters, and blobs become Constants. Each output port without a consumer gets a Result.
`pre-process` becomes Subtract and Divide. The ports that the port map of a body names get Parameters and Results.
`statistics` and `quantization_parameters` are ignored.

Precision: the CPU plugins of these versions computed FP16 networks in FP32, and so does the upgraded model. An FP16
input becomes an f32 Parameter, FP16 weights become an f16 Constant followed by a Convert to f32, and each port of
precision FP16 becomes f32. Integers such as I32, I64 and U8 keep their type.

Shapes: legacy files state the shape of every port. Where the attributes do not determine a size (the rounding of a
pooling, the target of a resize), the declared shape does.

Unsupported types: if a type has no conversion, the layer keeps its type and ports, and its version becomes "legacy". It
can be inspected. Compiling the model raises an error that lists all such types.
"""

from __future__ import annotations

from irrun.ir.legacy.network import read_legacy

__all__ = ["read_legacy"]
