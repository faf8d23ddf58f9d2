"""`export_onnx`: writes a model as ONNX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from irrun.activity import announce
from irrun.arguments import check_path
from irrun.atomic_files import check_not_overwriting
from irrun.errors import InputError
from irrun.ir.model import Model
from irrun.ir.reader import read_model

__all__ = ["DEFAULT_OPSET", "OPSETS", "Export", "export_onnx"]

#: The supported ONNX opset versions.
OPSETS = range(18, 29)
#: The default ONNX opset version.
DEFAULT_OPSET = 21


class Export(NamedTuple):
    """The result of an export.

    Attributes:
        files: The .onnx file, and the file of its weights if they exceed 2 GB.
        opset: The ONNX opset version.
        unsupported: Descriptions of the layers that became nodes of the domain "org.openvinotoolkit", with the reasons.
    """

    files: list[Path]
    opset: int
    unsupported: list[str]


def export_onnx(
    model: Model | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    opset: int | None = None,
    partial: bool = False,
) -> Export:
    """Write a model as ONNX. Results equal irrun's up to rounding.

    Names of tensors, dynamic dimensions and compressed weights are kept. Variables become inputs, with the
    initial value as the default, and outputs named `<variable>.new`.

    Args:
        model: The model, or the path of an IR of any version.
        path: The .onnx file to write. Weights of more than 2 GB are written to `<path>.data`.
        opset: The ONNX opset version, 18 to 28; by default 21, the newest one for which
            onnxruntime has all kernels.
        partial: Whether layers that ONNX cannot express become nodes of the domain "org.openvinotoolkit".

    Returns:
        The written files, and the layers that could not be exported.

    Raises:
        UnsupportedError: Some layers cannot be exported. The message lists all of them.
        InputError: The opset is not supported, the package onnx is missing, or a file of the model would be
            overwritten.
        ModelError: The model is invalid.
    """
    try:
        import onnx
    except ImportError:
        raise InputError("exporting requires onnx: pip install 'irrun[onnx]'") from None
    from irrun.export.exporter import export_model
    from irrun.export.writing import write_model

    newest = min(OPSETS[-1], onnx.defs.onnx_opset_version())
    if opset is None:
        opset = min(DEFAULT_OPSET, newest)
    if opset not in range(OPSETS[0], newest + 1):
        raise InputError(f"opset {opset} is not supported, expected {OPSETS[0]} to {newest}")
    target = Path(check_path("path", path, "the path of an .onnx file"))
    source = model if isinstance(model, Model) else read_model(model)
    check_not_overwriting([target, target.with_name(target.name + ".data")], source.files)
    with announce("exporting", target.name):
        graph, unsupported = export_model(source, opset, partial=partial)
        try:
            files = write_model(graph, source, target)
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    return Export(files, opset, unsupported)
