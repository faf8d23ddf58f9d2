"""Settings for compiling models, from the device and properties that programs pass."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irrun.openvino.config import Config, parse_device
from irrun.openvino.errors import translate_errors
from irrun.openvino_genai.adapters import to_adapters
from irrun.runtime.options import RunSettings

__all__ = ["DraftModel", "draft_model", "find_model", "make_settings"]

#: OpenVINO GenAI's own properties, which do not change results.
_IGNORED = (
    "adapters",
    "ATTENTION_BACKEND",
    "scheduler_config",
    "prompt_lookup",
    "draft_model",
    "MAX_PROMPT_LEN",
    "MIN_RESPONSE_LEN",
)


class DraftModel:
    """A small model that proposes tokens. irrun does not run it: greedy tokens are the same without proposals."""


@translate_errors
def draft_model(models_path: str | Path, device: str = "", **kwargs: Any) -> DraftModel:
    """Return the model that proposes tokens, for the argument `draft_model` of `LLMPipeline`.

    Args:
        models_path: The folder of the model.
        device: Its device.
        **kwargs: Properties of the device.

    Raises:
        RuntimeError: The folder has no model, or the device or a property is unknown.
    """
    find_model(Path(models_path), "openvino_model.xml")
    make_settings(device or "CPU", kwargs)
    return DraftModel()


def make_settings(device: str, properties: Mapping[str, Any]) -> RunSettings:
    """Return the settings for compiling models.

    Args:
        device: The device.
        properties: Properties of the device.

    Raises:
        RuntimeError: The device or a property is unknown, or irrun does not support it.
    """
    if not isinstance(device, str):
        raise TypeError(f"device is {device!r}; expected a str")
    to_adapters(properties.get("adapters"))
    draft = properties.get("draft_model")
    if draft is not None and not isinstance(draft, DraftModel):
        raise TypeError(f"draft_model is {draft!r}; expected the result of openvino_genai.draft_model")
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
        RuntimeError: No model exists.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise RuntimeError(f"Could not find a model in the directory '\"{folder}\"'")
