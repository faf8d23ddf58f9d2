"""Writing of models: `save_model`, `serialize`, and the streams of `CompiledModel.export_model`."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from irrun.errors import IrrunError
from irrun.openvino.model import Model

__all__ = ["pack_model", "save_model", "serialize", "unpack_model"]


def save_model(model: Model, output_model: str | os.PathLike[str], compress_to_fp16: bool = True) -> None:
    """Write a model as IR v11.

    Args:
        model: The model.
        output_model: The path of the .xml; the .bin is written next to it.
        compress_to_fp16: Whether large constants of f32 are stored in f16.

    Raises:
        RuntimeError: A file cannot be written.
        TypeError: The argument is not a model.
    """
    _check_model(model)
    path = Path(output_model)
    path.parent.mkdir(parents=True, exist_ok=True)
    if compress_to_fp16:
        from irrun.openvino.compression import compress_to_f16

        model = compress_to_f16(model)
    _write(model, path, None)


def serialize(
    model: Model, xml_path: str | os.PathLike[str], bin_path: str | os.PathLike[str] = "", version: str = "UNSPECIFIED"
) -> None:
    """Write a model as IR v11, with unchanged constants.

    Args:
        model: The model.
        xml_path: The path of the .xml.
        bin_path: The path of the .bin; by default next to the .xml.
        version: "UNSPECIFIED" or "IR_V11".

    Raises:
        RuntimeError: A file cannot be written.
        TypeError: The argument is not a model.
    """
    _check_model(model)
    if version not in ("UNSPECIFIED", "IR_V11"):
        raise RuntimeError(f"unsupported IR version {version}, expected IR_V11")
    _write(model, Path(xml_path), Path(bin_path) if str(bin_path) else None)


def _check_model(model: Any) -> None:
    if not isinstance(model, Model):
        raise TypeError("Incompatible `model` argument. Please provide a valid openvino.Model instance.")


def _write(model: Model, path: Path, weights_path: Path | None) -> None:
    from irrun.ir.writer import save_model as write

    custom = {n.get_friendly_name(): n._implementation for n in model.get_ops() if n._implementation is not None}
    ir = model._to_ir()
    for layer in ir.graph.layers:
        if layer.name in custom:
            layer.attributes.update(custom[layer.name].get_attributes())
    try:
        write(ir, path, weights_path)
    except IrrunError as error:
        raise RuntimeError(str(error)) from error


def pack_model(model: Model) -> bytes:
    """Return a model as the bytes of an archive of its .xml and .bin."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w") as archive:
        path = Path(folder, "model.xml")
        _write(model, path, None)
        archive.write(path, "model.xml")
        archive.write(path.with_suffix(".bin"), "model.bin")
    return buffer.getvalue()


def unpack_model(stream: Any) -> Model:
    """Read a model from what `pack_model` returned.

    Args:
        stream: The bytes, or a binary stream.

    Raises:
        RuntimeError: The stream was written by another program.
        TypeError: The argument is not a stream.
    """
    from irrun.ir.reader import read_model

    if not isinstance(stream, bytes) and not hasattr(stream, "read"):
        raise TypeError(f"`model_stream` must be an io.BytesIO object or bytes, found {type(stream).__name__}")
    data = stream if isinstance(stream, bytes) else bytes(stream.read())
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            xml, weights = archive.read("model.xml"), archive.read("model.bin")
    except (zipfile.BadZipFile, KeyError):
        raise RuntimeError("the stream was not written by CompiledModel.export_model of irrun") from None
    return Model._from_ir(read_model(xml, weights))
