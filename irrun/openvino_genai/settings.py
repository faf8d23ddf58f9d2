"""How models are compiled: the device and the properties that programs pass."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irrun.openvino.config import Config, parse_device
from irrun.runtime.options import RunSettings

__all__ = ["find_model", "make_settings"]

#: Properties of OpenVINO GenAI that do not concern the device and change no result.
_IGNORED = ("ATTENTION_BACKEND", "scheduler_config", "prompt_lookup", "MAX_PROMPT_LEN", "MIN_RESPONSE_LEN")


def make_settings(device: str, properties: Mapping[str, Any]) -> RunSettings:
    """Return how models are compiled.

    Args:
        device: The device.
        properties: Properties of the device.

    Raises:
        RuntimeError: The device or a property is unknown, or asks for what irrun does not provide.
    """
    if not isinstance(device, str):
        raise TypeError(f"device is {device!r}; expected a str")
    for name in ("draft_model", "adapters"):
        if properties.get(name) is not None:
            raise RuntimeError(f"irrun does not provide {name} of OpenVINO GenAI")
    config = Config({}, parse_device(device))
    config.update({name: value for name, value in properties.items() if name not in _IGNORED})
    threads = int(config.get("INFERENCE_NUM_THREADS") or 0) or None
    return RunSettings(precision=config.get_precision(), threads=threads)


def find_model(folder: Path, *names: str) -> Path:
    """Return the first model that exists.

    Args:
        folder: The folder.
        names: Names of files.

    Raises:
        RuntimeError: There is none.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise RuntimeError(f"Could not find a model in the directory '\"{folder}\"'")
