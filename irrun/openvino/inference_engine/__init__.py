"""The API of OpenVINO's Inference Engine, which programs of 2018 to 2021 use.

It reads IR v2 to v7, which OpenVINO does not read since 2023, as well as v10 and v11.
"""

from __future__ import annotations

from irrun.openvino.inference_engine.core import IECore, IEPlugin
from irrun.openvino.inference_engine.data import (
    Blob,
    ColorFormat,
    DataPtr,
    InputInfoPtr,
    MeanVariant,
    PreProcessInfo,
    ResizeAlgorithm,
    TensorDesc,
)
from irrun.openvino.inference_engine.executable import ExecutableNetwork, InferRequest, StatusCode, WaitMode
from irrun.openvino.inference_engine.network import IENetwork
from irrun.openvino.version import get_version

__version__ = get_version()

__all__ = [
    "Blob",
    "ColorFormat",
    "DataPtr",
    "ExecutableNetwork",
    "IECore",
    "IENetwork",
    "IEPlugin",
    "InferRequest",
    "InputInfoPtr",
    "MeanVariant",
    "PreProcessInfo",
    "ResizeAlgorithm",
    "StatusCode",
    "TensorDesc",
    "WaitMode",
    "get_version",
]
