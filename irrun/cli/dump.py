"""Write all values of a run to a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.atomic_files import atomic_write
from irrun.data.save import FileNames, write_npy
from irrun.data.storable import to_storable
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.inspection.keys import KeyTable
from irrun.ir.graph import Layer
from irrun.runtime.observer import Scope

__all__ = ["ValueDump"]


class ValueDump:
    """An observer that writes the outputs of every layer, in bodies too, to .npy files in a folder.

    Args:
        folder: The folder, which is created if it does not exist.
        table: The keys of the layers.

    Raises:
        InputError: The folder cannot be created.
    """

    def __init__(self, folder: Path, table: KeyTable) -> None:
        self.folder = folder
        self.table = table
        self.names = FileNames(folder)
        self.index: list[dict[str, Any]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot create {folder}: {error.strerror or error}") from None

    def __call__(
        self, layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope
    ) -> None:
        """Write the outputs of a layer."""
        for i, value in enumerate(outputs):
            self.write(self.table.get_value_key(layer, i, scope), layer.type, value)

    def write_inputs(self, arrays: Mapping[str | int, Any]) -> None:
        """Write the inputs of the model."""
        for name, value in arrays.items():
            self.write(str(name), "Parameter", np.asarray(value))

    def write(self, key: str, operation: str, value: Any) -> None:
        """Write a value.

        Args:
            key: The key of the value.
            operation: The type of the layer that produced it.
            value: The value.

        Raises:
            InputError: The file cannot be written.
        """
        path = self.names.choose(key)
        try:
            with atomic_write(path) as file:
                write_npy(file, to_storable(value))
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from None
        element_type = str(ElementType.of(value.dtype))
        entry = {"name": key, "operation": operation, "type": element_type, "shape": list(value.shape)}
        self.index.append({**entry, "file": path.name})

    def finish(self) -> str:
        """Write index.json, which lists the values in order of execution, and return a line about the dump."""
        path = self.folder / "index.json"
        with atomic_write(path) as file:
            file.write(json.dumps(self.index, indent=1).encode())
        return f"wrote {len(self.index)} values to {self.folder}, listed in {path.name}"
