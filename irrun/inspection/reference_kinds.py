"""The kinds of references of a comparison: models, f64, OpenVINO, PyTorch, ONNX and arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.arguments import check_path, check_text
from irrun.errors import InputError
from irrun.inspection.array_reference import load_arrays, make_mapping_reference
from irrun.inspection.references import ModelReference, Reference, make_f64_reference
from irrun.inspection.torch_reference import Module, TorchReference, is_torch
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings

__all__ = ["open_reference"]

Array = np.ndarray[Any, Any]


def open_reference(
    model: Model,
    reference: Model | str | os.PathLike[str] | Mapping[str, Array] | Module,
    arguments: Sequence[Array],
    settings: RunSettings = DEFAULT_SETTINGS,
    *,
    names: Mapping[str, str] | None = None,
    has_more: bool = False,
) -> Reference:
    """Run or open a reference.

    Args:
        model: The model.
        reference: The reference, as `against` of `compare`.
        arguments: The inputs of the model, in the order of the Parameters.
        settings: The settings for a reference that irrun runs.
        names: Names of reference arrays -> names of the model.
        has_more: Whether more inputs follow in the same session.

    Raises:
        InputError: The reference does not exist, or its inputs differ from the model's.
    """
    if names and (isinstance(reference, Model) or is_torch(reference) or _is_computed(reference)):
        raise InputError("names of arrays can be mapped only if the reference consists of arrays")
    if isinstance(reference, Model):
        return ModelReference(str(reference.path or reference.name), model, reference, arguments, settings)
    if is_torch(reference):
        return TorchReference(reference, model, arguments)
    if isinstance(reference, Mapping):
        for name in reference:
            check_text("a name in against", name)
        return make_mapping_reference(model, reference, names)
    text = check_path("against", reference, "a Model, arrays by name, 'f64', 'openvino' or a path")
    if text == "f64":
        return make_f64_reference(model, arguments, settings)
    if text == "openvino" or text.startswith("openvino:"):
        from irrun.inspection.openvino_reference import OpenVinoReference

        return OpenVinoReference(text, model, arguments, keeps_batches=has_more)
    if text.lower().endswith(".onnx"):
        from irrun.inspection.onnx_reference import OnnxReference

        return OnnxReference(text, model, arguments)
    if text.lower().endswith(".xml"):
        return ModelReference(text, model, read_model(text), arguments, settings)
    return load_arrays(Path(text), model, names)


def _is_computed(text: object) -> bool:
    """Return whether the text of a reference means a model."""
    name = str(text) if isinstance(text, (str, os.PathLike)) else ""
    return name == "f64" or name.partition(":")[0] == "openvino" or name.lower().endswith((".xml", ".onnx"))
