"""Sequences of compiled kernels, which run one after another without the interpreter.

Calling a kernel from Python takes about ten microseconds, as long as a small layer.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.fast.errors import REFUSALS, NoKernelError, NoPlanError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import Layout, get_layout, get_strides
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.sequence_members import Member, list_inputs, list_outputs, view_elements
from irrun.fast.jit.sequence_plans import Plan, make_plan
from irrun.limits import check_allocation, collect_values, find_owner
from irrun.threads import copy_unaligned

__all__ = ["SequenceKernel"]

Array = np.ndarray[Any, Any]

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)

#: Maximum number of combinations of shapes for which a sequence keeps its plan.
MAX_PLANS = 4
#: Maximum number of consecutive runs with changed shapes after which the members stay joined.
MAX_MISSES = 8


class SequenceKernel:
    """The kernel of a sequence.

    Args:
        members: The members, in order.
        inputs: Slots of the inputs.
        outputs: Slots of the outputs. Members compute all of them.
        coded: Slots of the values that are codes in bytes. All others are f32.
    """

    description = "compiled: sequence of kernels"

    def __init__(
        self,
        members: Sequence[Member],
        inputs: Sequence[int],
        outputs: Sequence[int],
        coded: Collection[int] = (),
    ) -> None:
        self._members = members
        self._inputs, self._outputs = inputs, outputs
        self._coded = coded
        self._input_types = [U8 if slot in coded else F32 for slot in inputs]
        self._plans: dict[tuple[Layout, ...], Plan | None] = {}
        self._plan_count = 0
        #: One sequence per member, once memory was insufficient for all.
        self._single: list[SequenceKernel] | None = None
        #: The last layouts without a plan.
        self._latest: tuple[Layout, ...] = ()
        #: The number of runs without a plan since the last run with one.
        self._misses = 0

    def __call__(self, *inputs: Array) -> Array | tuple[Array, ...]:
        """Compute the outputs.

        If the memory limit of the run is too small for all values at once, the members run one by one.

        Raises:
            NoKernelError: The kernels of the members do not support the types of the inputs.
            NoPlanError: The members do not support the shapes, or the shapes change in every run.
            InputError: There is not enough memory for a member.
        """
        if [x.dtype for x in inputs] != self._input_types:
            raise NoKernelError("expected f32, and codes in bytes")
        if self._coded:
            inputs = tuple([x if x.dtype == F32 else view_elements(x) for x in inputs])
        layouts = tuple([get_layout(x) for x in inputs])
        plan = self._find_plan(layouts)
        with collect_values() as values:
            try:
                required = plan.arena_size + F32.itemsize * sum(map(math.prod, plan.results))
                check_allocation([required], np.dtype(np.uint8))
                values.add(required)
            except InputError:
                if len(self._members) == 1:
                    raise
                values.size = 0
                return self._run_members(inputs)
            held = [copy_unaligned(x) if plan.reads_views else make_contiguous(x) for x in inputs]
            values.add(sum(copy.nbytes for copy, x in zip(held, inputs, strict=True) if copy is not x))
            results = [np.empty(shape, F32) for shape in plan.results]
            arrays = [np.empty(plan.arena_size, np.uint8), *held, *results]
            plan.get_schedule().run([get_address(x) for x in arrays])
        outputs = []
        for slot, (number, first, layout) in zip(self._outputs, plan.outputs, strict=True):
            result = arrays[number]
            if first or (result.shape, result.strides) != layout:
                result = np.ndarray(layout.shape, F32, result, first, layout.strides)
            outputs.append(result.view(U8) if slot in self._coded else result)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _run_members(self, inputs: Sequence[Array]) -> Array | tuple[Array, ...]:
        """Compute the outputs member by member, and release each value after its last use.

        Raises:
            NoKernelError: No kernel of a member supports its inputs.
            MemoryLimitError: The live values exceed the limit of the run.
        """
        if self._single is None:
            self._single = [
                SequenceKernel([x], list(dict.fromkeys(list_inputs(x))), list_outputs(x), self._coded)
                for x in self._members
            ]
        last_uses = {slot: number for number, part in enumerate(self._single) for slot in part._inputs}
        owned = {id(find_owner(x)) for x in inputs}
        alive = dict(zip(self._inputs, inputs, strict=True))
        with collect_values() as values:
            for number, part in enumerate(self._single):
                results = part(*[alive[slot] for slot in part._inputs])
                computed = results if isinstance(results, tuple) else (results,)
                alive.update(zip(part._outputs, computed, strict=True))
                for slot in [slot for slot in alive if slot not in self._outputs and last_uses.get(slot, -1) <= number]:
                    del alive[slot]
                owners = {id(owner): owner for x in alive.values() if (owner := find_owner(x)) is not None}
                values.size = sum(owner.nbytes for key, owner in owners.items() if key not in owned)
                del results, computed, owners
            outputs = [alive[slot] for slot in self._outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _find_plan(self, layouts: tuple[Layout, ...]) -> Plan:
        """Return the plan for inputs of some layouts.

        Making a plan takes longer than running single instructions. After several plans, further plans are only made
        for layouts that occur twice in a row, which excludes growing values.

        Raises:
            NoPlanError: There is no plan, or making it would not pay off.
        """
        plans = self._plans  # other threads may replace it
        is_repeated, self._latest = layouts == self._latest, layouts
        if layouts not in plans and (self._plan_count < MAX_PLANS or is_repeated):
            self._plan_count += 1
            plans = self._plans = {**(plans if len(plans) < MAX_PLANS else {}), layouts: self._make_plan(layouts)}
        plan = plans.get(layouts)
        if plan is None:
            self._misses += 1
            reason = (
                "expected shapes that all members support" if layouts in plans else "the shapes change in every run"
            )
            raise NoPlanError(reason, self._misses > MAX_MISSES)
        self._misses = 0
        return plan

    def _make_plan(self, layouts: tuple[Layout, ...]) -> Plan | None:
        """Return the plan for layouts, if there is one. If no kernel accepts views, inputs are copied."""
        for reads_views in (True, False):
            own = layouts if reads_views else [Layout(x.shape, get_strides(x.shape)) for x in layouts]
            with contextlib.suppress(*REFUSALS):
                plan = make_plan(self._members, dict(zip(self._inputs, own, strict=True)), self._outputs)
                plan.reads_views = reads_views
                return plan
        return None
