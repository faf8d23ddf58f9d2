"""Preprocessing and postprocessing as layers of a model."""

from __future__ import annotations

from irrun.openvino.preprocess.enumerations import ColorFormat, PaddingMode, ResizeAlgorithm
from irrun.openvino.preprocess.inputs import InputInfo, InputModelInfo, InputTensorInfo, PreProcessSteps
from irrun.openvino.preprocess.outputs import OutputInfo, OutputModelInfo, OutputTensorInfo, PostProcessSteps
from irrun.openvino.preprocess.processor import PrePostProcessor

__all__ = [
    "ColorFormat",
    "InputInfo",
    "InputModelInfo",
    "InputTensorInfo",
    "OutputInfo",
    "OutputModelInfo",
    "OutputTensorInfo",
    "PaddingMode",
    "PostProcessSteps",
    "PrePostProcessor",
    "PreProcessSteps",
    "ResizeAlgorithm",
]
