"""Measurements of layers, derived from the measurements of instructions, and sums of groups."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.inspection.instruments import FlopCounter, InstructionRecord, MemoryMeter, list_layers
from irrun.inspection.keys import KeyTable
from irrun.inspection.machine import Machine
from irrun.inspection.modules import ModulePath, find_modules, format_module
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.runtime.program import Instruction

__all__ = ["LayerProfile", "LayerProfiler", "merge_profiles"]


@dataclass(frozen=True, kw_only=True)
class LayerProfile:
    """The measurements of a layer, of fused layers, or of a group.

    Attributes:
        key: The key of the layer, for all iterations if it is in a body. For several layers, the one with the most
            operations.
        type: The type of that layer.
        layers: The keys of all layers, in order of execution.
        types: Their types.
        module: The module path of the layer.
        calls: The number of calls in a run.
        seconds: The median time of a run in seconds, without the layers in its bodies.
        flops: The number of arithmetic operations in a run; None if a layer does not declare one.
        bytes: The bytes that are read and written in a run: variable inputs, constants and outputs. Views count as 0.
        alive: The bytes of the values that are alive while the layer runs, without weights and the inputs of the model.
        bound: The minimum time that the machine needs for these operations or bytes, in seconds.
        outputs: The types and shapes of the outputs, as text.
        implementation: The fast implementation that ran, and why it was chosen; empty for the plain kernel.
        merged_excess: The sum of the excess of layers that were merged; None for a single layer.
    """

    key: str
    type: str
    layers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    module: ModulePath = ()
    calls: int
    seconds: float
    flops: int | None
    bytes: int
    alive: int
    bound: float
    outputs: tuple[str, ...] = ()
    implementation: str = ""
    merged_excess: float | None = None

    @property
    def flops_per_second(self) -> float | None:
        """The operations per second; None without operations or time."""
        return self.flops / self.seconds if self.flops and self.seconds else None

    @property
    def excess(self) -> float:
        """The seconds above `bound`, summed over merged layers: the maximum that faster kernels could save."""
        return max(self.seconds - self.bound, 0.0) if self.merged_excess is None else self.merged_excess

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and derived values by name."""
        fields = {name: value for name, value in vars(self).items() if name != "merged_excess"}
        return {
            **fields,
            "layers": list(self.layers),
            "types": list(self.types),
            "module": format_module(self.module),
            "outputs": list(self.outputs),
            "flops_per_second": self.flops_per_second,
            "excess": self.excess,
        }


def merge_profiles(key: str, layer_type: str, layers: Iterable[LayerProfile]) -> LayerProfile:
    """Return the sum of layers. Layers with an unknown number of operations count as 0, unless all are unknown.

    Args:
        key: The key of the sum.
        layer_type: Its type.
        layers: The layers.
    """
    layers = list(layers)
    counts = [layer.flops for layer in layers if layer.flops is not None]
    return LayerProfile(
        key=key,
        type=layer_type,
        layers=tuple(name for layer in layers for name in layer.layers),
        types=tuple(dict.fromkeys(name for layer in layers for name in layer.types)),
        calls=sum(layer.calls for layer in layers),
        seconds=sum(layer.seconds for layer in layers),
        flops=sum(counts) if counts or not layers else None,
        bytes=sum(layer.bytes for layer in layers),
        alive=max((layer.alive for layer in layers), default=0),
        bound=sum(layer.bound for layer in layers),
        merged_excess=sum((layer.excess for layer in layers), 0.0),
    )


class LayerProfiler:
    """Assigns layers to instructions, and the measurements of instructions to layers.

    Args:
        model: The model.
        table: Its keys.
        counter: The operations of its layers.
    """

    def __init__(self, model: Model, table: KeyTable, counter: FlopCounter) -> None:
        self.table = table
        self.counter = counter
        self.modules = find_modules(model)
        self.paths = {id(layer): path.replace("[0]/", "[*]/") for path, layer in table.iterate_layers()}

    def describe(
        self, records: Sequence[InstructionRecord], meter: MemoryMeter, machine: Machine
    ) -> dict[int, LayerProfile]:
        """Return the measurements by `id` of the instruction.

        Args:
            records: The times.
            meter: The bytes.
            machine: The speed of the machine.
        """
        # Layers belong to the instructions that computed them, not to instructions that failed earlier.
        ranked = sorted(records, key=lambda record: record.failures > 0)
        layers = self._assign_layers([record.instruction for record in ranked])
        result = {}
        for record in records:
            instruction = record.instruction
            own = layers[id(instruction)]
            counts = [self.counter.flops[id(n)] for n in own if id(n) in self.counter.flops]
            flops = None if None in counts else sum(count for count in counts if count is not None)
            measured = meter.records.get(id(instruction), record)
            main = self._choose_main(instruction, own)
            shown = [n for n in own if not n.is_structural] or [main]
            result[id(instruction)] = LayerProfile(
                key=self._get_path(main),
                type=main.type,
                layers=tuple(map(self._get_path, shown)),
                types=tuple(n.type for n in shown),
                module=self.modules.get(id(main), ()),
                calls=record.calls,
                seconds=statistics.median(record.runs),
                flops=flops,
                bytes=measured.bytes,
                alive=measured.alive,
                bound=machine.get_bound(flops, measured.bytes),
                outputs=tuple(_describe_type(dtype, shape) for dtype, shape in measured.outputs),
                implementation=instruction.description,
            )
        return result

    def _assign_layers(self, instructions: Sequence[Instruction]) -> dict[int, list[Layer]]:
        """Return the layers of each instruction, each layer once.

        A layer that several instructions compute belongs to the instruction created from it. Layers without an
        instruction belong to the owner of their body or to a consumer.
        """
        owners: dict[int, int] = {}
        for instruction in instructions:
            if instruction.is_observed:
                owners.setdefault(id(instruction.layer), id(instruction))
        for instruction in instructions:
            for layer in list_layers(instruction):
                owners.setdefault(id(layer), id(instruction))
        result: dict[int, list[Layer]] = {
            id(instruction): [n for n in list_layers(instruction) if owners[id(n)] == id(instruction)]
            for instruction in instructions
        }
        for layer in self.counter.layers:
            if id(layer) not in owners:
                owner = self._find_owner(layer, owners)
                if owner is not None:
                    result[owner].append(layer)
        return result

    def _find_owner(self, layer: Layer, owners: dict[int, int]) -> int | None:
        current: Layer | None = layer
        while current is not None:
            if id(current) in owners:
                return owners[id(current)]
            graph = self.table.get_graph(current)
            layers = {n.id: n for n in graph.layers}
            seen, queue = {current.id}, [current.id]
            for layer_id in queue:
                if id(layers[layer_id]) in owners:
                    return owners[id(layers[layer_id])]
                targets = {e.to_layer for e in graph.edges if e.from_layer == layer_id} - seen
                seen |= targets
                queue += sorted(targets)
            current = self.table.get_owner(current)
        return None

    def _choose_main(self, instruction: Instruction, layers: Sequence[Layer]) -> Layer:
        """Return the layer with the most operations in the same graph as the instruction."""
        own = [n for n in layers if any(n is m for m in list_layers(instruction))] or [instruction.layer]
        return max([instruction.layer, *own], key=lambda n: self.counter.flops.get(id(n)) or 0)

    def _get_path(self, layer: Layer) -> str:
        return self.paths.get(id(layer)) or layer.name or f"#{layer.id}"


def _describe_type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    try:
        name = str(ElementType.of(dtype))
    except ValueError:
        name = str(dtype)
    return f"{name}[{','.join(map(str, shape))}]"
