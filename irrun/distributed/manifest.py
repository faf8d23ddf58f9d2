"""The manifest of a run: the model, the options, and the arrays of the outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from irrun.distributed.jobs import Job
from irrun.distributed.records import RECORDS, read_json
from irrun.errors import InputError
from irrun.runtime.compilation import is_installed

__all__ = [
    "MANIFEST",
    "RAGGED",
    "ROWS",
    "OutputArray",
    "check_same_run",
    "describe_job",
    "get_fill_value",
    "keep_kernels",
    "name_arrays",
    "parse_outputs",
    "read_manifest",
    "to_utf8",
]

Array = np.ndarray[Any, Any]

#: Options that do not affect results, and files that are already part of the model's digest.
SEPARATE_OPTIONS = ("on_error", "threads", "imports", "weights_memory", "timeout")
MANIFEST, RAGGED, ROWS = "irrun.json", "ragged", "rows"
#: Reserved names in the folder.
RESERVED = (MANIFEST, RECORDS, RAGGED, ROWS, "zarr.json")
#: Maximum length of an array's name in bytes.
MAX_NAME = 150
#: The version of the layout of the folder.
FORMAT = 2


@dataclass(frozen=True)
class OutputArray:
    """The array of an output in the Zarr group, with samples along its first axis.

    Attributes:
        shape: The shape of the result for one sample, without the first axis.
        dtype: Its type as NumPy writes it, or "string".
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def numpy_type(self) -> np.dtype[Any]:
        """The type of blocks of results in memory."""
        return np.dtype(object) if self.dtype == "string" else np.dtype(self.dtype)

    @property
    def fill(self) -> Any:
        """The fill value of rows without results."""
        return get_fill_value(self.numpy_type)

    def accepts(self, value: Array) -> bool:
        """Return whether a result has the shape and type of the array."""
        return bool(value.shape == self.shape and value.dtype == self.numpy_type)

    def make_block(self, count: int) -> Array:
        """Return the results of some samples, all missing."""
        return np.full((count, *self.shape), self.fill, self.numpy_type)


def get_fill_value(dtype: np.dtype[Any]) -> Any:
    """Return the fill value of rows without results.

    NaN for floating-point types, the smallest value of signed and the largest of unsigned integers, False, or "".
    """
    if dtype.kind == "f":
        return np.nan
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.min if dtype.kind == "i" else limits.max)
    return "" if dtype.kind == "O" else False


def read_manifest(root: Path) -> dict[str, Any] | None:
    """Return the manifest of the results in a folder, or None if there is none.

    Raises:
        InputError: The manifest is damaged.
    """
    path = root / MANIFEST
    try:
        if not path.is_file():
            return None
        manifest = read_json(path)
        if not isinstance(manifest, dict) or not {"model", "samples", "options"} <= set(manifest):
            raise ValueError("it does not describe a run")
        if not isinstance(manifest["options"], dict):
            raise ValueError("it has no options")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise _create_damage_error(path, str(error)) from None
    return manifest


def _create_damage_error(path: Path, reason: str) -> InputError:
    text = f"{path} is damaged ({reason}), so the run cannot continue; delete the folder or choose another output"
    return InputError(text)


def parse_outputs(root: Path, manifest: Mapping[str, Any]) -> dict[str, OutputArray]:
    """Return the arrays of the outputs by name; empty until the first sample is computed.

    Raises:
        InputError: The manifest is damaged.
    """
    outputs = {}
    try:
        for name, (shape, dtype) in dict(manifest.get("outputs") or {}).items():
            if to_array_name(name) != name or (dtype != "string" and np.dtype(dtype).str != dtype):
                raise ValueError
            outputs[name] = OutputArray(tuple(int(n) for n in shape), dtype)
    except (ValueError, TypeError):
        raise _create_damage_error(root / MANIFEST, "it does not describe the outputs") from None
    return outputs


def describe_job(job: Job) -> dict[str, Any]:
    """Return the manifest of a new run, with everything that affects its results."""
    options = {name: value for name, value in asdict(job.options).items() if name not in SEPARATE_OPTIONS}
    description = {
        "format": FORMAT,
        "model": job.digest,
        "samples": job.count,
        "inputs": job.hash_samples(),
        "options": options,
        "chunk": job.size,
    }
    plain: dict[str, Any] = json.loads(json.dumps(description))
    return plain


def keep_kernels(root: Path, job: Job, manifest: Mapping[str, Any]) -> Job:
    """Return the job with the kernels chosen at the start of the run, unless the options choose them.

    Raises:
        InputError: The run started with compiled kernels, and they are not available.
    """
    jit = manifest["options"].get("jit") if job.options.jit in (None, "auto") else job.options.jit
    if jit is True and not is_installed():
        raise InputError(
            f"{root} was started with compiled kernels, which require llvmlite: pip install 'irrun[jit]', or choose "
            "another output"
        )
    return replace(job, options=replace(job.options, jit=jit is True))


def check_same_run(root: Path, manifest: Mapping[str, Any], description: Mapping[str, Any]) -> None:
    """Raise an InputError if the manifest describes another run."""
    differing = [name for name, value in description.items() if manifest.get(name) != value]
    if not differing:
        return
    old, new = manifest["options"], description["options"]
    changed = [f"{name} was {old.get(name)}, is {value}" for name, value in new.items() if old.get(name) != value]
    details = f" ({'; '.join(changed)})" if "options" in differing and changed else ""
    raise InputError(f"{root} belongs to another run: {', '.join(differing)} differ{details}; choose another output")


def to_utf8(text: str) -> str:
    """Return a text without the surrogates of undecodable bytes in file names and strings."""
    return text.encode("utf-8", "backslashreplace").decode()


def to_array_name(name: str) -> str:
    """Return a valid array and folder name for the name of an output."""
    text = re.sub(r"[/\\\0]", "_", to_utf8(name))
    cleaned = text.encode()[:MAX_NAME].decode(errors="ignore").strip(".") or "output"
    is_reserved = cleaned in RESERVED or cleaned.startswith("__")
    return f"output_{cleaned}" if is_reserved else cleaned


def name_arrays(names: Sequence[str]) -> dict[str, str]:
    """Return a valid and unique array name for each output."""
    result: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        base = chosen = to_array_name(name)
        number = 1
        while chosen.lower() in used:  # some file systems ignore case
            number += 1
            chosen = f"{base}_{number}"
        used.add(chosen.lower())
        result[name] = chosen
    return result
