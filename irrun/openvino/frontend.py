"""Readers of model formats: OpenVINO IR and ONNX."""

from __future__ import annotations

import sys
from typing import Any

from irrun.openvino.custom_operation import OpExtension as OpExtension
from irrun.openvino.custom_operation import is_tokenizers_library
from irrun.openvino.version import get_version as get_version

__all__ = [
    "ConversionExtension",
    "FrontEnd",
    "FrontEndManager",
    "GeneralFailure",
    "InitializationFailure",
    "NotImplementedFailure",
    "OpConversionFailure",
    "OpExtension",
    "OpValidationFailure",
    "TelemetryExtension",
]

#: The module of the readers in OpenVINO.
frontend = sys.modules[__name__]

#: Formats and the suffixes of their files.
_SUFFIXES = {"ir": ".xml", "onnx": ".onnx"}


class GeneralFailure(RuntimeError):
    """A model cannot be read."""


class InitializationFailure(RuntimeError):
    """A reader cannot be created."""


class NotImplementedFailure(RuntimeError):
    """A reader does not support a feature."""


class OpConversionFailure(RuntimeError):
    """An operation cannot be converted."""


class OpValidationFailure(RuntimeError):
    """An operation is invalid."""


class ConversionExtension:
    """A conversion of an operation, which irrun does not use."""

    def __init__(self, *_: Any) -> None:
        raise NotImplementedFailure("irrun does not convert operations of other frameworks")


class TelemetryExtension:
    """A collector of statistics, which irrun does not use."""

    def __init__(self, *_: Any) -> None:
        pass


class FrontEnd:
    """The reader of OpenVINO IR or ONNX.

    Args:
        name: "ir" or "onnx".
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def add_extension(self, extension: Any) -> None:
        """Accept the library of OpenVINO Tokenizers, whose operations irrun has.

        Raises:
            NotImplementedFailure: The extension is another one.
        """
        if not is_tokenizers_library(extension):
            raise NotImplementedFailure(f"irrun's readers do not support the extension {extension!r}")

    def load(self, path: Any, *_: Any) -> Any:
        """Return the path, which `convert` reads."""
        return path

    def convert(self, model: Any) -> Any:
        """Read the model."""
        from irrun.openvino.core import Core

        return Core().read_model(model)


class FrontEndManager:
    """A list of readers."""

    def get_available_front_ends(self) -> list[str]:
        """Return the names of the readers."""
        return list(_SUFFIXES)

    def load_by_framework(self, framework: str) -> FrontEnd:
        """Return the reader of a format.

        Raises:
            InitializationFailure: The format is neither "ir" nor "onnx".
        """
        if framework not in _SUFFIXES:
            raise InitializationFailure(f"irrun reads OpenVINO IR and ONNX, found {framework}")
        return FrontEnd(framework)

    def load_by_model(self, model: Any) -> FrontEnd | None:
        """Return the reader of a file, or None."""
        names = (name for name, suffix in _SUFFIXES.items() if str(model).lower().endswith(suffix))
        return next(map(FrontEnd, names), None)
