"""The properties of devices and compiled models: their names, values and validation."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from irrun.openvino.element_type import Type
from irrun.openvino.runtime_info import unwrap

__all__ = ["CONFIG_PROPERTIES", "DEVICES", "Config", "get_device_property", "is_absent_device", "parse_device"]

_TRUE, _FALSE = ("yes", "true", "1", "on"), ("no", "false", "0", "off")

#: The processor, and devices that combine devices, here with the processor alone.
DEVICES = ("CPU", "AUTO", "MULTI", "HETERO", "BATCH")

#: OpenVINO's devices for hardware that irrun does not use.
_KNOWN_DEVICES = ("GPU", "NPU", "HETERO", "MULTI", "BATCH", "GNA", "TEMPLATE")


#: Texts of levels of logs that are not named like members of the enumeration.
_LOG_LEVELS = {"LOG_NONE": "NO", "LOG_ERROR": "ERR"}


def _parse_bool(value: Any) -> bool:
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("Expected only true/false")


def _parse_count(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError("Expected only non-negative numbers")
    return number


def _parse_streams(value: Any) -> int:
    name = value.name if hasattr(value, "name") else str(value).upper()
    number = {"AUTO": -1, "NUMA": -2}.get(name)
    if number is None:
        number = int(getattr(value, "value", value))
    if number < -2:
        raise ValueError("Expected only integers >= -1, NUMA or AUTO")
    return os.cpu_count() or 1 if number == -1 else max(number, 1)


def _parse_type(value: Any) -> Type:
    if isinstance(value, Type):
        return value
    name = str(value).strip().lower()
    member = Type._members.get("dynamic" if name in ("undefined", "") else name)
    if member is None:
        raise ValueError("Expected only names of element types")
    return member


def _parse_precision(value: Any) -> Type:
    element_type = _parse_type(value)
    if element_type.to_string() not in ("f32", "f16", "bf16", "dynamic"):
        raise ValueError("Supported values: bf16, f16, f32, dynamic")
    return element_type


def _choose(*path: str) -> Callable[[Any], Any]:
    """Return a parser for a member of an enumeration of `irrun.openvino.properties`."""

    def parse(value: Any) -> Any:
        from irrun.openvino.properties import enumerations

        kind: type[Enum] = getattr(enumerations, path[0])
        if isinstance(value, kind):
            return value
        name = str(value).rpartition(".")[2].upper()
        name = _LOG_LEVELS.get(name, name.removeprefix("LOG_")) if path[0] == "LogLevel" else name
        if name not in kind.__members__:
            raise ValueError(f"Expected only {path[1]}::{'/'.join(kind.__members__)}")
        return kind[name]

    return parse


_choose_hint = _choose("PerformanceMode", "ov::hint::PerformanceMode")


def _parse_text(value: Any) -> str:
    return str(value)


def _keep(value: Any) -> Any:
    return value


#: Properties that can be set, each with its parser and default value.
CONFIG_PROPERTIES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "ALLOW_AUTO_BATCHING": (_parse_bool, True),
    "AUTO_BATCH_TIMEOUT": (_parse_count, 1000),
    "CACHE_DIR": (_parse_text, ""),
    "CACHE_ENCRYPTION_CALLBACKS": (_keep, None),
    "CACHE_MODE": (_choose("CacheMode", "ov::CacheMode"), "OPTIMIZE_SPEED"),
    "COMPILATION_NUM_THREADS": (_parse_count, os.cpu_count() or 1),
    "CPU_DENORMALS_OPTIMIZATION": (_parse_bool, False),
    "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE": (float, 1.0),
    "DEVICE_BIND_BUFFER": (_parse_bool, False),
    "DEVICE_ID": (_parse_text, ""),
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": (_parse_count, 32),
    "ENABLE_CPU_PINNING": (_parse_bool, True),
    "ENABLE_CPU_RESERVATION": (_parse_bool, False),
    "ENABLE_HYPER_THREADING": (_parse_bool, True),
    "ENABLE_MMAP": (_parse_bool, True),
    "ENABLE_RUNTIME_FALLBACK": (_parse_bool, True),
    "ENABLE_STARTUP_FALLBACK": (_parse_bool, True),
    "ENABLE_TENSOR_PARALLEL": (_parse_bool, False),
    "ENABLE_WEIGHTLESS": (_parse_bool, False),
    "EXECUTION_MODE_HINT": (_choose("ExecutionMode", "ov::hint::ExecutionMode"), "PERFORMANCE"),
    "FORCE_TBB_TERMINATE": (_parse_bool, False),
    "INFERENCE_NUM_THREADS": (_parse_count, 0),
    "INFERENCE_PRECISION_HINT": (_parse_precision, "f32"),
    "KEY_CACHE_GROUP_SIZE": (_parse_count, 0),
    "KEY_CACHE_PRECISION": (_parse_type, "f32"),
    "KV_CACHE_PRECISION": (_parse_type, "f32"),
    "LOG_LEVEL": (_choose("LogLevel", "ov::log::Level"), "NO"),
    "MODEL_DISTRIBUTION_POLICY": (_keep, set()),
    "MODEL_PRIORITY": (_choose("Priority", "ov::hint::Priority"), "MEDIUM"),
    "MULTI_DEVICE_PRIORITIES": (_parse_text, ""),
    "NUM_STREAMS": (_parse_streams, 1),
    "PERFORMANCE_HINT": (_choose_hint, "LATENCY"),
    "PERFORMANCE_HINT_NUM_REQUESTS": (_parse_count, 0),
    "PERF_COUNT": (_parse_bool, False),
    "SCHEDULE_POLICY": (_keep, "DEVICE_PRIORITY"),
    "SCHEDULING_CORE_TYPE": (_choose("SchedulingCoreType", "ov::hint::SchedulingCoreType"), "ANY_CORE"),
    "TBB_PARTITIONER": (_keep, "NONE"),
    "VALUE_CACHE_GROUP_SIZE": (_parse_count, 0),
    "VALUE_CACHE_PRECISION": (_parse_type, "f32"),
    "WEIGHTS_PATH": (_parse_text, ""),
}

#: Properties of OpenVINO's CPU plugin that it does not list, with their parsers. They have no effect.
_UNLISTED: dict[str, Callable[[Any], Any]] = {
    "CPU_RUNTIME_CACHE_CAPACITY": int,
    "ENABLE_SAGE_ATTN": _parse_bool,
    "EXCLUSIVE_ASYNC_REQUESTS": _parse_bool,
    "LP_TRANSFORMS_MODE": _parse_bool,
    "SNIPPETS_MODE": _keep,
}

#: Properties of the whole process, which no device lists.
_CORE_PROPERTIES = (
    "ALLOW_AUTO_BATCHING",
    "AUTO_BATCH_TIMEOUT",
    "CACHE_DIR",
    "CACHE_ENCRYPTION_CALLBACKS",
    "CACHE_MODE",
    "COMPILATION_NUM_THREADS",
    "ENABLE_MMAP",
    "FORCE_TBB_TERMINATE",
)

_COMBINING_ONLY = (
    "DEVICE_BIND_BUFFER",
    "ENABLE_RUNTIME_FALLBACK",
    "ENABLE_STARTUP_FALLBACK",
    "MODEL_PRIORITY",
    "MULTI_DEVICE_PRIORITIES",
    "SCHEDULE_POLICY",
)

_READ_ONLY = (
    "SUPPORTED_PROPERTIES",
    "AVAILABLE_DEVICES",
    "RANGE_FOR_ASYNC_INFER_REQUESTS",
    "RANGE_FOR_STREAMS",
    "EXECUTION_DEVICES",
    "FULL_DEVICE_NAME",
    "OPTIMIZATION_CAPABILITIES",
    "DEVICE_TYPE",
    "DEVICE_ARCHITECTURE",
)

_COMPILED_READ_ONLY = (
    "SUPPORTED_PROPERTIES",
    "NETWORK_NAME",
    "OPTIMAL_NUMBER_OF_INFER_REQUESTS",
    "EXECUTION_DEVICES",
    "LOADED_FROM_CACHE",
)


def is_absent_device(name: str) -> bool:
    """Return whether a device is hardware that OpenVINO registers, and that irrun does not use."""
    return name.partition(".")[0] in ("GPU", "NPU")


def parse_device(name: str, *, is_plugin: bool = False) -> str:
    """Return "CPU" or "AUTO" for the name of a device, or the device of which a property is meant.

    Args:
        name: The name, such as "AUTO:GPU,CPU".
        is_plugin: Whether a device that combines devices may be named alone, as for properties. The name is returned.

    Raises:
        RuntimeError: irrun does not support the device, or the device does not exist.
    """
    base, _, rest = name.partition(":")
    device = base.partition(".")[0]
    if device == "CPU" and not rest:
        return "CPU"
    if is_plugin and name in DEVICES:
        return name
    if device == "AUTO" or (device in ("MULTI", "HETERO", "BATCH") and rest):
        names = [part.strip().partition("(")[0] for part in rest.split(",") if part.strip()]
        excluded = [part[1:].partition(".")[0] for part in names if part.startswith("-")]
        devices = [part for part in names if not part.startswith("-")]
        allowed = [d for d in devices if parse_device(d)] if device != "AUTO" else devices
        if any(d.partition(".")[0] == "CPU" for d in allowed) if devices else "CPU" not in excluded:
            return device if is_plugin else "AUTO"
        if not devices:
            raise RuntimeError(f'Device with "{name}" name excludes "CPU", the only device of irrun')
        parse_device(devices[0])
    if device in _KNOWN_DEVICES:
        raise RuntimeError(
            f'Exception: Device with "{name}" name is not available: irrun runs models on the device "CPU" only'
        )
    raise RuntimeError(f'Device with "{name}" name is not registered in the OpenVINO Runtime')


class Config:
    """The values of properties.

    Args:
        values: Properties by name. They are validated.
        device: The device that messages name.

    Attributes:
        values: The values that were set.
    """

    def __init__(self, values: Any = None, device: str = "CPU") -> None:
        self.device = device
        self.values: dict[str, Any] = {}
        self.update(values)

    def update(self, properties: Any, *, ignore_unknown: bool = False) -> None:
        """Set properties.

        Args:
            properties: A mapping, a pair of name and value, or an iterable of such pairs.
            ignore_unknown: Whether unknown properties are ignored, as by devices that pass properties on to others.

        Raises:
            RuntimeError: A property is unknown, or its value is invalid.
        """
        for name, value in _iterate(properties):
            if name == "DEVICE_PROPERTIES":
                inner = unwrap(value)
                for device, settings in inner.items() if isinstance(inner, Mapping) else ():
                    if device in ("CPU", self.device):
                        self.update(settings)
                continue
            is_known = name in CONFIG_PROPERTIES or name in _UNLISTED
            if not is_known or (self.device == "CPU" and name in _COMBINING_ONLY):
                if ignore_unknown:
                    continue
                raise RuntimeError(f"NotFound: Unsupported property {name} by {self.device} plugin.")
            parse = _UNLISTED[name] if name in _UNLISTED else CONFIG_PROPERTIES[name][0]
            try:
                parsed = parse(unwrap(value))
            except (ValueError, TypeError) as error:
                raise RuntimeError(f"Wrong value {unwrap(value)} for property key {name}. {error}.") from None
            if name not in _UNLISTED:
                self.values[name] = parsed

    def get(self, name: str) -> Any:
        """Return the value of a property, which may be the default.

        Raises:
            RuntimeError: The property is unknown.
        """
        if name in self.values:
            return self.values[name]
        if name not in CONFIG_PROPERTIES or (self.device == "CPU" and name in _COMBINING_ONLY):
            raise RuntimeError(f"Cannot get unsupported property: {name}")
        parse, default = CONFIG_PROPERTIES[name]
        return parse(default)

    def get_precision(self) -> str:
        """Return the precision of irrun for INFERENCE_PRECISION_HINT.

        f32 computes graphs in f16 and bf16 in f32. All other hints compute graphs in the declared types.
        """
        return "f32" if self.get("INFERENCE_PRECISION_HINT").to_string() == "f32" else "declared"

    def count_requests(self) -> int:
        """Return the number of infer requests that keep the processor busy."""
        if self.get("PERFORMANCE_HINT_NUM_REQUESTS"):
            return int(self.get("PERFORMANCE_HINT_NUM_REQUESTS"))
        if "NUM_STREAMS" in self.values:
            return int(self.get("NUM_STREAMS"))
        is_throughput = self._get_hint().name != "LATENCY"
        return (os.cpu_count() or 1) if is_throughput else 1

    def _get_hint(self) -> Any:
        is_default = "PERFORMANCE_HINT" not in self.values
        return _choose_hint("THROUGHPUT") if is_default and self.device == "MULTI" else self.get("PERFORMANCE_HINT")

    def get_compiled(self, name: str, model_name: str) -> Any:
        """Return a property of a compiled model.

        Raises:
            RuntimeError: The property is unknown.
        """
        settings = [n for n in CONFIG_PROPERTIES if n not in _CORE_PROPERTIES and n not in _COMBINING_ONLY]
        if name == "SUPPORTED_PROPERTIES":
            return dict.fromkeys([*_COMPILED_READ_ONLY, *settings], "RO")
        if name == "NETWORK_NAME":
            return model_name
        if name == "OPTIMAL_NUMBER_OF_INFER_REQUESTS":
            return self.count_requests()
        if name == "EXECUTION_DEVICES":
            return ["CPU"]
        if name == "LOADED_FROM_CACHE":
            return False
        if name == "NUM_STREAMS" and name not in self.values:
            return self.count_requests()
        if name not in settings and (self.device == "CPU" or name not in _COMBINING_ONLY):
            raise RuntimeError(f"Unsupported property: {name}")
        if name == "MULTI_DEVICE_PRIORITIES":
            return "CPU"
        value = self._get_hint() if name == "PERFORMANCE_HINT" else self.get(name)
        if name == "INFERENCE_NUM_THREADS":
            return value or os.cpu_count() or 1
        if self.device in ("AUTO", "MULTI"):
            return value
        if name == "PERF_COUNT":
            return "YES" if value else "NO"
        if name in ("PERFORMANCE_HINT", "PERFORMANCE_HINT_NUM_REQUESTS"):
            return value.name if isinstance(value, Enum) else str(value)
        return value


def _iterate(properties: Any) -> Iterable[tuple[str, Any]]:
    if properties is None:
        return []
    if isinstance(properties, Mapping):
        return [(_get_name(name), value) for name, value in properties.items()]
    if isinstance(properties, tuple) and len(properties) == 2 and not isinstance(properties[0], tuple):
        return [(_get_name(properties[0]), properties[1])]
    return [(_get_name(name), value) for name, value in properties]


def _get_name(name: Any) -> str:
    return name() if callable(name) else str(name)


def get_device_property(config: Config, device: str, name: str) -> Any:
    """Return a property of a device.

    Args:
        config: The properties set for the device.
        device: One of `DEVICES`.
        name: The name of the property.

    Raises:
        RuntimeError: The property is unknown.
    """
    excluded = _CORE_PROPERTIES if device != "CPU" else (*_CORE_PROPERTIES, *_COMBINING_ONLY)
    cores = os.cpu_count() or 1
    values: dict[str, Callable[[], Any]] = {
        "SUPPORTED_PROPERTIES": lambda: {
            **dict.fromkeys(_READ_ONLY, "RO"),
            **{n: "RW" for n in CONFIG_PROPERTIES if n not in excluded},
        },
        "AVAILABLE_DEVICES": lambda: [""],
        "RANGE_FOR_ASYNC_INFER_REQUESTS": lambda: (1, 1, 1),
        "RANGE_FOR_STREAMS": lambda: (1, cores),
        "OPTIMAL_NUMBER_OF_INFER_REQUESTS": lambda: 1,
        "EXECUTION_DEVICES": lambda: ["CPU"],
        "FULL_DEVICE_NAME": lambda: _get_processor_name() if device == "CPU" else device,
        "OPTIMIZATION_CAPABILITIES": lambda: ["FP32", "INT8", "BIN", "EXPORT_IMPORT"],
        "DEVICE_TYPE": lambda: _get_device_type(),
        "DEVICE_ARCHITECTURE": lambda: "intel64" if platform.machine() in ("x86_64", "AMD64") else "arm64",
    }
    if name in values:
        return values[name]()
    return config.get(name)


def _get_processor_name() -> str:
    return f"{platform.processor() or platform.machine()} (irrun on NumPy)"


def _get_device_type() -> Any:
    from irrun.openvino.properties.enumerations import DeviceType

    return DeviceType.INTEGRATED
