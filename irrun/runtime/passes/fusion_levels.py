"""Convolutions of quantized values in units of levels.

A convolution of the values of a FakeQuantize, and the FakeQuantize after it, compute in units of the distance of two
levels; a value halfway between two levels may become the other one. The result is the numbers of the levels in f32, in
a slot of their own, if all its readers are such convolutions: they multiply their filters by the distance of two
levels. The instructions that are replaced are kept between decodings and an encoding, in case they have to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irrun.fast.packing import PackedMemory
from irrun.fast.quantized_chains import EXACT, Affine, LevelChain, get_quantization, lower_chain
from irrun.fast.support import F32
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.fusion_regions import Region
from irrun.runtime.program import Instruction

__all__ = ["LevelPlan", "LoweredRegion"]

Array = np.ndarray[Any, Any]


@dataclass(eq=False, repr=False)
class LoweredRegion:
    """A convolution and the operations after it, in units of levels.

    Attributes:
        chain: The operations.
        filters: The filters of the convolution in f32, multiplied by scales.
        output: The slot of the result.
        slots: The slots of inputs, by the original ones.
        before: Instructions that decode inputs, in case the original instructions run.
        after: The same for the instruction that encodes the result.
    """

    chain: LevelChain
    filters: Array
    output: int
    slots: dict[int, int]
    before: list[Instruction]
    after: list[Instruction]


class LevelPlan:
    """Which values of a program are numbers of levels.

    Args:
        view: The program.
        regions: The regions that are fused.
        packed: The memory limit for filters in other forms.
    """

    def __init__(self, view: View, regions: Sequence[Region], packed: PackedMemory) -> None:
        self.view = view
        candidates = [region for region in regions if self._reads_quantized_data(region)]
        self._owners = {id(member): region for region in candidates for member in region.members}
        self._quantizations = {
            id(region): quantization.result
            for region in candidates
            if (quantization := self._get_last_quantization(region)) is not None
        }
        #: The meaning of the values in slots, and the slots of the numbers of levels.
        self._levels = {
            region.members[-1].outputs[0]: self._quantizations[id(region)]
            for region in candidates
            if id(region) in self._quantizations and self._is_read_as_levels(region)
        }
        self._regions = [region for region in candidates if self._concerns(region)]
        size = sum(4 * filters.size for region in self._regions if (filters := self._get_filters(region)) is not None)
        if not packed.fits(size):
            self._regions = []
        self._coded = {slot: view.add_slot(port=view.ports.get(slot)) for slot in self._levels if self._regions}

    def lower(self) -> dict[int, LoweredRegion] | None:
        """Return the regions in units of levels, by identity, or None if one of them cannot be computed so."""
        lowered = {}
        for region in self._regions:
            result = self._lower(region)
            if result is None:
                return None
            lowered[id(region)] = result
        return lowered

    def _reads_quantized_data(self, region: Region) -> bool:
        """Return whether a region starts with a convolution of the values of a FakeQuantize."""
        if self._get_filters(region) is None or region.anchor is None:
            return False
        producer = self.view.producers.get(region.anchor.inputs[0])
        return producer is not None and producer.operation.has_levels and not producer.operation.is_custom

    def _get_filters(self, region: Region) -> Array | None:
        """Return the filters [GROUPS, C_OUT, C_IN, kernel...] of a region that starts with a convolution."""
        anchor = region.anchor
        if anchor is None or not anchor.operation.convolves or anchor.operation.is_custom:
            return None
        if len(anchor.inputs) != 2:
            return None
        filters = self.view.get_constant(anchor.inputs[1])
        rank = 4 if anchor.operation.has_groups else 3
        if filters is None or filters.dtype is not F32 or filters.ndim < rank or not filters.size:
            return None
        return filters if anchor.operation.has_groups else filters[np.newaxis]

    def _get_rank(self, region: Region) -> int:
        filters = self._get_filters(region)
        assert filters is not None
        return filters.ndim - 1

    def _get_last_quantization(self, region: Region) -> Any:
        return get_quantization(region.chain, region.chain.steps[-1], self._get_rank(region))

    def _concerns(self, region: Region) -> bool:
        """Return whether a region quantizes, or reads or returns numbers of levels."""
        rank = self._get_rank(region)
        quantizes = any(get_quantization(region.chain, step, rank) for step in region.chain.steps)
        assert region.anchor is not None
        return quantizes or not self._levels.keys().isdisjoint((region.anchor.inputs[0], *region.inputs[1:]))

    def _is_read_as_levels(self, region: Region) -> bool:
        """Return whether all readers of the result of a region can read numbers of levels."""
        slot = region.members[-1].outputs[0]
        readers = self.view.consumers[slot]
        if self.view.is_result(slot) or not readers:
            return False
        for reader in readers:
            owner = self._owners.get(id(reader))
            if owner is None or reader.bodies or self._get_rank(owner) != self._get_rank(region):
                return False
            if reader is owner.anchor:
                has_offset = self._quantizations[id(region)].offset.any()
                if reader.inputs.index(slot) or slot in reader.inputs[1:] or (has_offset and _is_padded(reader)):
                    return False
        return True

    def _lower(self, region: Region) -> LoweredRegion | None:
        anchor, filters, last = region.anchor, self._get_filters(region), region.members[-1]
        assert anchor is not None
        assert filters is not None
        groups, c_out, c_in = filters.shape[:3]
        meaning = self._levels.get(anchor.inputs[0], EXACT)
        scaled = filters * _align(meaning.scale, (groups, 1, c_in), filters.ndim)
        sums = filters * _align(meaning.offset, (groups, 1, c_in), filters.ndim)
        offset = sums.reshape(groups * c_out, -1).sum(axis=1) if meaning.offset.any() else np.zeros(1)
        inputs = {0: Affine(np.ones(1), offset)}
        inputs |= {i: self._levels[slot] for i, slot in enumerate(region.inputs) if i and slot in self._levels}
        result = last.outputs[0]
        chain = lower_chain(region.chain, filters.ndim - 1, inputs, result in self._levels)
        if chain is None:
            return None
        scaled = (scaled * _align(chain.scale, (groups, c_out, 1), filters.ndim)).astype(np.float32)
        if not np.isfinite(scaled).all():
            return None
        read = dict.fromkeys(slot for slot in (anchor.inputs[0], *region.inputs[1:]) if slot in self._levels)
        return LoweredRegion(
            chain,
            scaled if anchor.operation.has_groups else scaled[0],
            self._coded.get(result, result),
            {slot: self._coded[slot] for slot in read},
            [self._convert(slot, self._coded[slot], slot, _Decoding) for slot in read],
            [self._convert(result, result, self._coded[result], _Encoding)] if result in self._levels else [],
        )

    def _convert(self, slot: int, source: int, target: int, kernel: type[_Decoding] | type[_Encoding]) -> Instruction:
        """Return the instruction that decodes or encodes the values of a slot."""
        producer = self.view.producers[slot]
        levels = self._levels[slot]
        rank = len(self.view.get_shape(slot) or ())
        return replace(
            producer,
            kernel=kernel(levels, rank),
            attributes={},
            inputs=(source,),
            outputs=(target,),
            plain=(),
            is_observed=False,
        )


def _align(value: Array, shape: Sequence[int], rank: int) -> Array:
    """Return one element, or one for each channel, in the shape of filters."""
    return value if value.size == 1 else value.reshape(*shape, *[1] * (rank - 3))


def _is_padded(instruction: Instruction) -> bool:
    attributes = instruction.attributes
    auto_pad = attributes.get("auto_pad", "explicit")
    if auto_pad == "valid":
        return False
    return auto_pad != "explicit" or any(attributes["pads_begin"]) or any(attributes["pads_end"])


class _Conversion:
    """Converts between numbers of levels and their values.

    Args:
        levels: The meaning of the numbers.
        rank: The rank of the values.
    """

    def __init__(self, levels: Affine, rank: int) -> None:
        self.scale, self.offset = (v if v.size == 1 else v.reshape(-1, *[1] * (rank - 2)) for v in levels)


class _Decoding(_Conversion):
    """Returns the values of numbers of levels."""

    def __call__(self, numbers: Array) -> Array:
        """Decode f32."""
        values: Array = (numbers * self.scale + self.offset).astype(np.float32)
        return values


class _Encoding(_Conversion):
    """Returns the numbers of the levels of values."""

    def __call__(self, values: Array) -> Array:
        """Encode f32."""
        numbers: Array = np.rint((values - self.offset) / self.scale).astype(np.float32)
        return numbers
