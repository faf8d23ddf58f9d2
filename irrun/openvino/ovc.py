"""The converter of models, which programs import as `openvino.tools.ovc`. irrun reads OpenVINO IR only."""

from __future__ import annotations

from typing import Any

from irrun.openvino.model import Model

__all__ = ["convert_model"]


def convert_model(*_: Any, **__: Any) -> Model:
    """Refuse to convert a model of another framework.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(
        "irrun does not convert models of other frameworks. Install openvino, convert the model with "
        "openvino.convert_model and openvino.save_model, and read the .xml"
    )
