"""An observer that collects what a report shows about a run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.inspection.report.pictures import Picture, PictureStore, compute_attention, make_image, make_maps
from irrun.inspection.report.structure import Structure
from irrun.inspection.report.summaries import describe_statistics, summarize
from irrun.inspection.report.tensors import TensorStore
from irrun.inspection.trace import Trace
from irrun.ir.graph import Layer
from irrun.runtime.observer import Scope

__all__ = ["Collector", "collect_trace", "format_scope"]

Array = np.ndarray[Any, Any]

#: Maximum number of iterations of one body with shown values.
MAX_ITERATIONS = 200
#: Maximum number of shown values.
MAX_VALUES = 30_000
#: Maximum size of the pixels of all pictures in bytes.
MAX_PICTURE_BYTES = 1_200_000
#: Maximum size of constants with statistics in a report without a run, in bytes.
MAX_CONSTANT_BYTES = 1 << 30
#: Number of evenly spaced elements for statistics of constants in a report without a run.
MAX_SAMPLES = 1 << 18
#: Maximum number of images: of inputs and outputs.
MAX_IMAGES = 12


class Collector:
    """Observer that summarizes the outputs of layers, in bodies too.

    Args:
        structure: The layers of the model.
        max_iterations: Maximum number of iterations of one body.
        max_values: Maximum number of values.
        tensor_bytes: Limit for full values in compressed bytes.

    Attributes:
        max_iterations: Maximum number of iterations of one body.
        records: The description of a layer, by its number and by its iterations: "", "3", "3,0".
        iterations: The number of iterations of each graph, by its owner's number and the owner's iterations.
        pictures: The pictures.
        compared: Pictures of values next to the reference's.
        tensors: The full values.
        omitted_values: The number of values that were omitted because of `max_values`.
        omitted_iterations: Whether iterations were omitted because of `max_iterations`.
    """

    def __init__(
        self,
        structure: Structure,
        max_iterations: int = MAX_ITERATIONS,
        max_values: int = MAX_VALUES,
        tensor_bytes: int = 0,
    ) -> None:
        self.structure = structure
        self.records: dict[int, dict[str, dict[str, Any]]] = {}
        self.iterations: dict[int, dict[str, int]] = {}
        self.pictures = PictureStore(MAX_PICTURE_BYTES)
        self.compared = PictureStore(MAX_PICTURE_BYTES)
        self.tensors = TensorStore(tensor_bytes)
        results = [layer for layer in structure.layers if layer.is_output]
        self._outputs = {id(s.layer) for n in results for s in structure.get_sources(n) if s is not None}
        self.omitted_values = 0
        self.omitted_iterations = False
        self.max_iterations = max_iterations
        self._remaining = max_values
        self._constants: list[tuple[Array, dict[str, Any]]] = []
        self._images = 0

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Summarize the outputs of a layer, and inputs that no layer computes in this run."""
        tag = format_scope(scope)
        if not self._count_iterations(scope):
            return
        for value, source in zip(inputs, self.structure.get_sources(layer), strict=False):
            if source is not None and value is not None:
                self._add_input(source.layer, source.port, value, tag)
        self.add(layer, outputs, tag)
        if layer.type == "ScaledDotProductAttention":
            self._add_attention(layer, inputs, tag)

    def add(self, layer: Layer, outputs: Sequence[Array], tag: str = "") -> None:
        """Add the outputs of a layer.

        Args:
            layer: The layer.
            outputs: Its outputs.
            tag: The iterations of the bodies that contain it.
        """
        record = self._make_record(layer, tag, len(outputs))
        if record is not None:
            record["outputs"] = [self._summarize(layer, value) for value in outputs]

    def add_description(
        self, layer: Layer, tag: str, port: int, seconds: float, description: Mapping[str, Any], value: Array | None
    ) -> None:
        """Add one output of a layer. Its elements may be unknown.

        Args:
            layer: The layer.
            tag: The iterations of the bodies that contain it.
            port: The position of the output port.
            seconds: The recorded run time of the layer.
            description: The type, the shape and the statistics.
            value: The value, or None.
        """
        number = self.structure.numbers.get(id(layer))
        record = self.records.get(number, {}).get(tag) if number is not None else None
        record = record or self._make_record(layer, tag, 1)
        if record is None:
            return
        outputs = record.setdefault("outputs", [])
        outputs.extend([None] * (port + 1 - len(outputs)))
        outputs[port] = dict(description) if value is None else self._summarize(layer, value)
        if not layer.is_input:
            record["seconds"] = _round(seconds)

    def count_iteration(self, owner: Layer, tag: str, iteration: int) -> bool:
        """Count an iteration of a body, and return whether its values are shown.

        Args:
            owner: The layer that owns the body.
            tag: The iterations of the bodies that contain the owner.
            iteration: The iteration.
        """
        number = self.structure.numbers.get(id(owner))
        if number is None:
            return False
        counts = self.iterations.setdefault(number, {})
        counts[tag] = max(counts.get(tag, 0), iteration + 1)
        return iteration < self.max_iterations

    def collect_constants(self) -> None:
        """Add values of constants without a run, up to `MAX_CONSTANT_BYTES`. Large constants are sampled."""
        remaining = MAX_CONSTANT_BYTES
        for layer in self.structure.layers:
            constant = layer.constant
            if constant is None or constant.data is None:
                continue
            remaining -= len(constant.data)
            if remaining >= 0:
                with contextlib.suppress(IrrunError):  # validation reports it
                    self._add_constant(layer, constant.to_array())

    def _add_constant(self, layer: Layer, value: Array) -> None:
        record = self._make_record(layer, "", 1)
        if record is None:
            return
        step = -(-value.size // MAX_SAMPLES) | 1 if value.size > MAX_SAMPLES else 1
        summary = summarize(value.reshape(-1)[::step])
        if step > 1:
            summary["sampled"] = summary["shape"][0]
        summary.update(shape=list(value.shape), bytes=int(value.nbytes))
        self._constants.append((value, summary))
        record["outputs"] = [summary]

    def keep_constants(self) -> None:
        """Keep the full values of constants if there is room after other values."""
        for value, summary in self._constants:
            self.tensors.add(value, summary)

    def describe_omissions(self) -> list[str]:
        """Return notes about omitted contents."""
        notes = []
        if self.omitted_iterations:
            notes.append(f"Only the first {self.max_iterations} iterations of each body are shown.")
        if self.omitted_values:
            notes.append(f"{self.omitted_values} values are omitted, because the report would become too large.")
        if self.structure.omitted:
            notes.append(f"{self.structure.omitted} layers are omitted, because the report would become too large.")
        if self.pictures.removed:
            notes.append("Pictures are omitted, because the report would become too large.")
        elif self.pictures.is_reduced:
            notes.append("Pictures are reduced in size and number, because the report would become too large.")
        return notes

    def _count_iterations(self, scope: Scope) -> bool:
        is_shown = True
        for depth, (owner, iteration) in enumerate(scope):
            if is_shown:
                is_shown = self.count_iteration(owner, format_scope(scope[:depth]), iteration)
        self.omitted_iterations |= not is_shown
        return is_shown

    def _add_input(self, source: Layer, port: int, value: Array, tag: str) -> None:
        """Add the value of a constant or of a body's Parameter; observers do not see these as outputs."""
        number = self.structure.numbers.get(id(source))
        if number is None:
            return
        if self.structure.is_constant(source):
            tag = ""
        elif not source.is_input or not tag:
            return
        if tag not in self.records.get(number, {}):
            self.add_description(source, tag, port, 0.0, {}, value)

    def _add_attention(self, layer: Layer, inputs: Sequence[Array | None], tag: str) -> None:
        record = self.records.get(self.structure.numbers.get(id(layer), -1), {}).get(tag)
        is_causal = str(layer.attributes.get("causal", "false")).lower() in ("true", "1")
        maps = None if record is None else compute_attention(inputs, causal=is_causal)
        picture = None if maps is None else make_maps(maps, is_attention=True)
        if record is None or maps is None or picture is None:
            return
        type_name = str(ElementType.of(maps.dtype))
        attention = {"type": type_name, "shape": list(maps.shape), "picture": self.pictures.add(picture)}
        self.tensors.add(maps, attention)
        record["attention"] = attention

    def _make_record(self, layer: Layer, tag: str, count: int) -> dict[str, Any] | None:
        number = self.structure.numbers.get(id(layer))
        if number is None:
            return None
        if self._remaining < count:
            self.omitted_values += count
            return None
        self._remaining -= count
        record: dict[str, Any] = {}
        self.records.setdefault(number, {})[tag] = record
        return record

    def _summarize(self, layer: Layer, value: Array) -> dict[str, Any]:
        summary = summarize(value)
        picture = self._draw(layer, value)
        if picture is not None:
            summary["picture"] = self.pictures.add(picture)
        if self.structure.is_constant(layer):
            self._constants.append((value, summary))
        else:
            is_preferred = layer.is_input or id(layer) in self._outputs
            self.tensors.add(value, summary, is_preferred=is_preferred and self.structure.get_depth(layer) == 0)
        return summary

    def _draw(self, layer: Layer, value: Array) -> Picture | None:
        if self.structure.is_constant(layer):
            return None
        if layer.is_input and self._images < MAX_IMAGES:
            image = make_image(value)
            if image is not None:
                self._images += 1
                return image
        return make_maps(value, is_attention=layer.type in ("SoftMax", "Softmax"))


def collect_trace(collector: Collector, trace: Trace) -> None:
    """Collect the values of a trace instead of a run.

    Args:
        collector: The collector.
        trace: The trace. Layers that the model does not contain are ignored.
    """
    from irrun.errors import InputError

    structure = collector.structure
    for value in trace.entries.values():
        try:
            layer = structure.table.find_layer(value.layer)
        except InputError:
            continue
        iterations = [int(n) for n in re.findall(r"\[(\d{1,9})\]/", value.layer)][: structure.get_depth(layer)]
        owners: list[Layer] = []
        owner = structure.table.get_owner(layer)
        while owner is not None:
            owners.insert(0, owner)
            owner = structure.table.get_owner(owner)
        tags = [",".join(map(str, iterations[:depth])) for depth in range(len(iterations) + 1)]
        shown = [collector.count_iteration(o, t, i) for o, t, i in zip(owners, tags, iterations, strict=False)]
        if not all(shown):
            collector.omitted_iterations = True
            continue
        description = {
            "type": value.type,
            "shape": list(value.shape),
            "bytes": _count_bytes(value.type, value.shape),
            "stats": describe_statistics(value.statistics),
        }
        array = trace[value.key] if trace.has_data(value.key) else None
        collector.add_description(layer, tags[-1], value.port, value.seconds, description, array)


def format_scope(scope: Scope) -> str:
    """Return the iterations of a scope as text: "", "3", "3,0".

    Args:
        scope: The layers whose bodies contain a layer, outermost first, each with its iteration.
    """
    return ",".join(str(iteration) for _, iteration in scope)


def _count_bytes(type_name: str, shape: Sequence[int]) -> int:
    import math

    from irrun.element_types import ELEMENT_TYPES

    element_type: ElementType = ELEMENT_TYPES[type_name]
    return math.prod(shape) * element_type.dtype.itemsize


def _round(seconds: float) -> float:
    return float(f"{seconds:.4g}")
