"""Growth of regions: instructions that one kernel may replace, because only the last has consumers outside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from irrun.runtime.program import Program

__all__ = ["RegionGrower", "broadcasts"]


class RegionGrower:
    """Grows regions of one program. Instructions have numbers, in order.

    Args:
        program: The program.

    Attributes:
        instructions: The instructions of the program.
        consumers: Numbers of the instructions that read a slot; results have the number after the last one.
    """

    def __init__(self, program: Program) -> None:
        self.instructions = program.instructions
        self.consumers: dict[int, set[int]] = defaultdict(set)
        for number, instruction in enumerate(self.instructions):
            for slot in instruction.inputs:
                self.consumers[slot].add(number)
        for slot in program.results:
            self.consumers[slot].add(len(self.instructions))

    def grow(
        self,
        members: list[int],
        parts: Sequence[list[Any]],
        add: Callable[[int], bool],
        may_grow: Callable[[int], bool],
    ) -> bool:
        """Add the instructions that read values of a region, in order, if a kernel can compute them.

        Args:
            members: The numbers of the first instructions, at least one. `add` appends to it. In the end, it has the
                largest number of members that form a region.
            parts: Other lists that `add` appends to. They keep what the remaining members added.
            add: Adds an instruction to the region and returns True, or returns False.
            may_grow: Returns whether an instruction may be added at all; if not, the region is complete.

        Returns:
            Whether the region has several members.
        """
        lengths = {len(members): [len(part) for part in parts]}
        seen = set(members)
        pending = self._find_consumers(members)
        while pending:
            number = min(pending)
            if number >= len(self.instructions) or not may_grow(number):
                break
            pending.discard(number)
            seen.add(number)
            if add(number):
                pending |= self._find_consumers([number]) - seen
                lengths[len(members)] = [len(part) for part in parts]
        count = len(members)
        while not self._is_closed(members[:count]):  # a region of one member is closed
            count -= 1
        del members[count:]
        for part, length in zip(parts, lengths[count], strict=True):
            del part[length:]
        return count > 1

    def _is_closed(self, members: Sequence[int]) -> bool:
        """Return whether only values of the last instruction are used by other instructions."""
        return self._find_consumers(members[:-1]) <= set(members)

    def _find_consumers(self, members: Sequence[int]) -> set[int]:
        return {n for number in members for slot in self.instructions[number].outputs for n in self.consumers[slot]}


def broadcasts(shape: Sequence[Any], target: Sequence[Any]) -> bool:
    """Return whether a declared shape broadcasts to another without changing it. Kernels check dynamic dimensions."""
    return len(shape) <= len(target) and all(
        d in (1, n) for d, n in zip(reversed(shape), reversed(target), strict=False)
    )
