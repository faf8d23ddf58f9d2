"""Results and tensors."""

from __future__ import annotations

from irrun.openvino.infer_request import InferRequest as _InferRequestWrapper
from irrun.openvino.results import OVDict as OVDict

__all__ = ["OVDict", "_InferRequestWrapper", "tensor_from_file"]


def tensor_from_file(path: object) -> object:
    """Return a tensor with the bytes of a file."""
    from irrun.openvino import tensor_from_file as read

    return read(path)
