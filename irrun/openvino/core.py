"""`Core`: reading and compiling of models, devices and their properties."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.errors import IrrunError
from irrun.openvino.compiled_model import CompiledModel
from irrun.openvino.config import (
    CONFIG_PROPERTIES,
    DEVICES,
    Config,
    get_device_property,
    is_absent_device,
    parse_device,
)
from irrun.openvino.getters import from_getter
from irrun.openvino.model import Model
from irrun.openvino.old_types import use_old_types
from irrun.openvino.tensor import Tensor
from irrun.openvino.version import VERSION, Version

__all__ = ["Core", "compile_model"]

#: Properties of the process.
_CORE_PROPERTIES = ("CACHE_DIR", "CACHE_MODE", "ENABLE_MMAP", "FORCE_TBB_TERMINATE", "ALLOW_AUTO_BATCHING")


class Core:
    """Reads and compiles models.

    Args:
        xml_config_file: The plugins of OpenVINO, which irrun does not use.
    """

    def __init__(self, xml_config_file: Any = "") -> None:
        self._configs = {device: Config(device=device) for device in DEVICES}
        self._operations: list[Any] = []

    def __repr__(self) -> str:
        return f"<Core: available plugins[{', '.join(self.get_available_devices())}]>"

    # -- models

    def read_model(self, model: Any, weights: Any = None, config: Mapping[str, Any] | None = None) -> Model:
        """Read a model.

        Args:
            model: The path of an .xml, its content as bytes or text, or a stream.
            weights: A path, bytes, a tensor or a stream; None or an empty path for the .bin next to the .xml.
            config: Properties. They are only validated, and the folder CACHE_DIR is created.

        Raises:
            RuntimeError: A file cannot be read or is invalid.
            TypeError: The model is of another type.
        """
        from irrun.ir.file_kinds import is_onnx
        from irrun.ir.reader import read_model
        from irrun.openvino.ovc import name_producers

        folder = Config(config).values.get("CACHE_DIR")
        if folder:
            os.makedirs(folder, exist_ok=True)
        source = _to_model_source(model)
        if isinstance(source, bytes) and is_onnx(source):
            weights = None  # OpenVINO accepts any, and reads none
        try:
            model = Model._from_ir(read_model(source, _to_weights_source(weights)))
        except IrrunError as error:
            raise RuntimeError(str(error)) from error
        if is_onnx(source):
            name_producers(model)
        else:
            model._rt_info["version"] = model._source_version
        return use_old_types(model) if model._source_version == 10 else model

    def compile_model(
        self,
        model: Any,
        device_name: str | None = None,
        config: Any = None,
        *,
        weights: Any = None,
    ) -> CompiledModel:
        """Prepare a model for execution.

        Args:
            model: A model, or what `read_model` accepts.
            device_name: "CPU", "AUTO" (the default), or a device that combines these, such as "MULTI:CPU".
            config: Properties.
            weights: The weights of a model that is read.

        Raises:
            RuntimeError: The device is not available, a property is unknown, or the model is invalid.
        """
        if isinstance(device_name, Mapping):
            device_name, config = None, device_name
        if isinstance(device_name, (bytes, Tensor)):  # compile_model(xml, weights, device)
            weights, device_name = device_name, config if isinstance(config, str) else None
            config = None
        name = "AUTO" if device_name is None else device_name
        plugin = name.partition(":")[0].partition(".")[0]
        merged = Config(self._configs[plugin].values if plugin in DEVICES else None, plugin)
        merged.update(config, ignore_unknown=plugin in ("AUTO", "MULTI"))
        priorities = merged.values.get("MULTI_DEVICE_PRIORITIES")
        parse_device(f"{name}:{priorities}" if name == plugin != "CPU" and priorities else name)
        if not isinstance(model, Model):
            try:
                model = self.read_model(model, weights)
            except TypeError:
                raise RuntimeError(
                    f"Path: '{model}' does not exist. Please provide valid model's path either as a string, bytes or "
                    "pathlib.Path"
                ) from None
        return CompiledModel(model, merged, self._operations)

    def import_model(self, model_stream: Any, device_name: str, config: Any = None) -> CompiledModel:
        """Read a compiled model that `CompiledModel.export_model` wrote.

        Raises:
            RuntimeError: Another program wrote it.
        """
        from irrun.openvino.serialization import unpack_model

        return self.compile_model(unpack_model(model_stream), device_name, config)

    def query_model(self, model: Model, device_name: str, config: Any = None) -> dict[str, str]:
        """Return the device of each layer that is supported.

        Args:
            model: The model.
            device_name: "CPU" or "AUTO".
            config: Properties.

        Raises:
            RuntimeError: The device is not available.
        """
        from irrun.ops._support import registry

        parse_device(device_name)
        names = [
            node.get_friendly_name()
            for node in model.get_ops()
            if registry.find(node._type, node._version, self._operations) is not None
        ]
        return dict.fromkeys(sorted(names), "CPU")

    def add_extension(self, extension: Any, *_: Any) -> None:
        """Add an operation.

        Args:
            extension: A class derived from `Op`, an `irrun.Operation`, or a list of these. Extensions that add no
                operation have no effect, nor has the path of the library of OpenVINO Tokenizers, whose operations
                irrun has.

        Raises:
            RuntimeError: The path of another library was passed, which irrun cannot use.
        """
        from irrun.openvino.custom_operation import Extension, OpExtension, is_tokenizers_library, make_operation

        if isinstance(extension, (list, tuple)):
            for item in extension:
                self.add_extension(item)
            return
        if is_tokenizers_library(extension):
            return
        if isinstance(extension, OpExtension) or not isinstance(extension, Extension):
            self._operations.append(make_operation(extension))

    # -- devices

    def get_available_devices(self) -> list[str]:
        """Return the devices: only "CPU"."""
        return ["CPU"]

    available_devices = from_getter(get_available_devices)

    def get_versions(self, device_name: str) -> dict[str, Version]:
        """Return the version of a device by its name."""
        parse_device(device_name, is_plugin=True)
        return {device_name: Version(VERSION, f"irrun_{device_name.lower()}_plugin")}

    def get_property(self, *arguments: Any, **keywords: Any) -> Any:
        """Return a property: `get_property(property)` or `get_property(device_name, property)`.

        Both arguments may be passed by name.

        Raises:
            RuntimeError: The property is unknown, or the device is not available.
        """
        values = _bind(("device_name", "property"), arguments, keywords)
        name = _get_name(values["property"])
        if "device_name" not in values:
            if name not in _CORE_PROPERTIES and name not in self._configs["AUTO"].values:
                raise RuntimeError(
                    f"Exception is thrown while trying to call get_property with unsupported property: '{name}'"
                )
            return self._configs["AUTO"].get(name)
        device = parse_device(_get_name(values["device_name"]), is_plugin=True)
        return get_device_property(self._configs[device], device, name)

    def set_property(self, *arguments: Any, **keywords: Any) -> None:
        """Set properties: `set_property(properties)` or `set_property(device_name, properties)`.

        Properties are a mapping, or a pair of name and value. Both arguments may be passed by name. Properties of GPU
        and NPU are ignored, as they are until a model is compiled for these devices.

        Raises:
            RuntimeError: A property is unknown, its value is invalid, or the device is not available.
        """
        values = _bind(("device_name", "properties"), arguments, keywords)
        device = values.get("device_name")
        if device is not None and is_absent_device(str(device)):
            return
        configs = (
            self._configs.values() if device is None else [self._configs[parse_device(str(device), is_plugin=True)]]
        )
        for config in configs:
            config.update(values["properties"])

    def unload_plugin(self, device_name: str) -> None:
        """Do nothing but check the device."""
        parse_device(device_name, is_plugin=True)

    def register_plugin(self, *_: Any) -> None:
        """Refuse to register a plugin.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("irrun does not support plugins of OpenVINO")

    register_plugins = create_context = get_default_context = register_plugin


def _bind(names: Sequence[str], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name. The first one may be omitted, so that positional arguments are the last ones.

    Raises:
        TypeError: An argument is unknown, missing or superfluous.
    """
    rest = [name for name in names if name not in keywords]
    bound = {**dict(zip(rest[len(rest) - len(arguments) :], arguments, strict=False)), **keywords}
    if len(arguments) > len(rest) or not {names[-1]} <= bound.keys() <= set(names):
        raise TypeError(f"expected the arguments {' and '.join(names)}; the first one may be omitted")
    return bound


def _get_name(name: Any) -> str:
    return name() if callable(name) else str(name)


def _to_model_source(model: Any) -> Any:
    if isinstance(model, Tensor):
        model = model.data.tobytes()
    if isinstance(model, io.IOBase):
        model = model.read()
    if isinstance(model, str) and model.lstrip().startswith("<"):
        model = model.encode()
    if isinstance(model, bytes) and model and not model.lstrip().startswith(b"<") and b"\n" not in model:
        model = os.fsdecode(model)
    if isinstance(model, bytes):
        return model
    try:
        path = Path(model)
    except TypeError:
        raise TypeError(f"Provided python object type {type(model)} isn't supported as 'model' argument.") from None
    if not path.exists():
        raise RuntimeError(f'Could not open the file: "{path}"')
    return path


def _to_weights_source(weights: Any) -> Any:
    if weights is None or (isinstance(weights, (str, Path)) and str(weights) in ("", ".")):
        return None
    if isinstance(weights, Tensor):
        return np.ascontiguousarray(weights.data)
    return weights.read() if isinstance(weights, io.IOBase) else weights


def compile_model(model: Any, device_name: str = "AUTO", config: Any = None) -> CompiledModel:
    """Prepare a model for execution; see `Core.compile_model`."""
    return Core().compile_model(model, device_name, config or {})


assert set(_CORE_PROPERTIES) <= set(CONFIG_PROPERTIES)
