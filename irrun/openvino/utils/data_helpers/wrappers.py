"""Results and tensors, under the name that OpenVINO defines them in."""

from __future__ import annotations

from irrun.openvino.utils.data_helpers import OVDict as OVDict
from irrun.openvino.utils.data_helpers import tensor_from_file as tensor_from_file

__all__ = ["OVDict", "tensor_from_file"]
