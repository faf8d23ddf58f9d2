"""Traces: the values of a run, in memory or in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from irrun._lazy import get_provider
from irrun.arguments import check_choice, check_integer, check_path, check_text
from irrun.atomic_files import atomic_write
from irrun.errors import InputError
from irrun.inspection.model_hash import hash_model
from irrun.ir.model import Model
from irrun.ir.reader import read_model

__all__ = ["Trace", "TraceReport", "TracedValue"]

Array = np.ndarray[Any, Any]

#: Maximum number of values in notebooks.
MAX_ROWS = 40


@dataclass(frozen=True)
class TracedValue:
    """The description of a recorded value.

    Attributes:
        key: The key of the value.
        layer: The key of the layer that produced it.
        layer_type: The type of the layer.
        port: The position of the output port.
        type: The element type.
        shape: The shape.
        statistics: Minimum, maximum, mean and standard deviation of the finite elements; the number of zeros, NaNs
            and infinities. Empty for strings.
        seconds: The run time of the layer.
        member: The name of the file in the archive that stores the value; None if only this description is stored.
        is_selected: Whether the value was selected; otherwise it was recorded as an input of a selected layer.
    """

    key: str
    layer: str
    layer_type: str
    port: int
    type: str
    shape: tuple[int, ...]
    statistics: Mapping[str, float | int | None]
    seconds: float
    member: str | None
    is_selected: bool

    def to_json(self) -> dict[str, Any]:
        """Return the entry of `index.json`."""
        return {**vars(self), "shape": list(self.shape), "statistics": dict(self.statistics)}


class Trace(Mapping[str, Array]):
    """The values of a run by key. They are read from the file when they are accessed.

    Args:
        index: The contents of `index.json`, without the values.
        values: The values in the order of execution.
        read: A function that returns the array of a value.
        path: The file, if there is one.

    Attributes:
        index: The contents of `index.json`, without the values.
        entries: The descriptions of the values by key, in the order of execution.
        path: The file, or None.
    """

    def __init__(
        self,
        index: Mapping[str, Any],
        values: Sequence[TracedValue],
        read: Callable[[TracedValue], Array],
        path: Path | None = None,
    ) -> None:
        self.index = index
        self.entries = {value.key: value for value in values}
        self.path = path
        self._read = read
        self._close: Callable[[], None] = lambda: None

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Trace:
        """Open a trace file.

        Args:
            path: The file.

        Raises:
            InputError: The file cannot be read or is not a valid trace.
        """
        trace: Trace = get_provider("open_trace")(Path(check_path("path", path, "the path of a trace")))
        return trace

    @property
    def model_hash(self) -> str:
        """The hash of the model that was run; see `hash_model`."""
        return str(self.index.get("model", {}).get("hash", ""))

    @property
    def precision(self) -> str:
        """The precision of the run: "declared", or the element type that replaced the floating-point types."""
        return str(self.index.get("precision", ""))

    @property
    def error(self) -> str | None:
        """The message of the error that ended the run, or None."""
        message = self.index.get("error")
        return None if message is None else str(message)

    @property
    def input_keys(self) -> list[str]:
        """The keys of the inputs of the model, in the order of the Parameters."""
        return [str(key) for key in self.index.get("inputs", [])]

    @property
    def output_keys(self) -> dict[str, str]:
        """The keys of the outputs of the model, by the names of the outputs."""
        return {str(name): str(key) for name, key in self.index.get("outputs", {}).items()}

    def get_inputs(self) -> list[Array]:
        """Return the inputs of the model, in the order of the Parameters.

        Raises:
            InputError: The trace does not contain all inputs.
        """
        return [self[key] for key in self.input_keys]

    def has_data(self, key: str) -> bool:
        """Return whether the trace contains the elements of a value."""
        value = self.entries.get(check_text("key", key, "the key of a value"))
        return value is not None and value.member is not None

    def __getitem__(self, key: str) -> Array:
        value = self.entries.get(key) if isinstance(key, str) else None
        if value is None:
            raise KeyError(f"the trace does not contain {key!r}")
        if value.member is None:
            raise InputError(f"the trace contains only statistics of {key!r}")
        return self._read(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self.entries

    def __repr__(self) -> str:
        return f"<Trace: {len(self)} values{f' in {self.path}' if self.path else ''}>"

    def _repr_html_(self) -> str:
        html: str = get_provider("make_trace_html")(self, MAX_ROWS)
        return html

    def report(
        self, model: Model | str | os.PathLike[str] | None = None, *, height: int = 800, channels: str = "BGR"
    ) -> TraceReport:
        """Return a page with the graph and the values; notebooks display it.

        Args:
            model: The model that was run; by default the file that the trace names.
            height: The height in a notebook in pixels.
            channels: The order of the channels of images: "BGR" or "RGB".

        Raises:
            InputError: The trace does not name a file, or the model differs from the one that was run.
        """
        if model is None:
            path = str(self.index.get("model", {}).get("path") or "")
            if not Path(path).is_file():
                raise InputError("the trace does not name an existing file of the model; pass the model")
            model = path
        height = check_integer("height", height, 1)
        check_choice("channels", channels, ("BGR", "RGB"))
        source = model if isinstance(model, Model) else read_model(model)
        if hash_model(source) != self.model_hash:
            raise InputError("the model differs from the one that was run")
        return TraceReport(get_provider("make_report")(source, trace=self, channels=channels), height)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._close()


@dataclass(frozen=True)
class TraceReport:
    """A page that shows a trace.

    Attributes:
        page: The page as HTML.
        height: The height in a notebook in pixels.
    """

    page: str = field(repr=False)
    height: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Args:
            path: The .html file.
        """
        with atomic_write(Path(path)) as file:
            file.write(self.page.encode())

    def _repr_html_(self) -> str:
        from irrun._html import make_frame

        return make_frame(self.page, self.height)
