"""Kernels of single recurrent cells, planned like the body of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import Shape, keep_binding
from irrun.fast.jit.body_operations import add_step
from irrun.fast.jit.body_plans import BodyPlan, BodyPlanner, BodyStep, count_strides
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.nests import StridedLayout
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.schedules import Schedule
from irrun.fast.specialization import CallSite
from irrun.limits import check_allocation, collect_values
from irrun.threads import get_thread_count

__all__ = ["CellKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


class CellKernel(CompiledKernel):
    """The kernel of a recurrent cell with constant weights.

    Args:
        site: The call site.
    """

    description = "compiled: a cell, products with packed weights and one pass over the gates"

    def __init__(self, site: CallSite) -> None:
        inputs, outputs = (
            range(len(site.constants)),
            range(len(site.constants), len(site.constants) + site.output_count),
        )
        self._step = BodyStep(site, tuple(inputs), tuple(outputs))
        self._constants = {i: x for i, x in enumerate(site.constants) if x is not None}
        self._plans: dict[tuple[Shape, ...], tuple[BodyPlan, dict[int, Schedule]]] = {}

    def __call__(self, *inputs: Array) -> Any:
        """Compute the cell.

        Raises:
            NoKernelError: The inputs are not f32, or have other shapes.
        """
        if not all(x.dtype == F32 for x in inputs):
            raise NoKernelError("expected f32")
        shapes = tuple([x.shape for x in inputs])
        plan, schedules = self._plans.get(shapes) or self._make_plan(shapes)
        threads = get_thread_count()
        schedule = schedules.get(threads)
        if schedule is None:
            schedule = schedules[threads] = Schedule(plan.tables, plan.tasks, threads)
        with collect_values() as values:
            check_allocation([plan.arena_size], np.dtype(np.uint8))
            values.add(plan.arena_size)
            held = [make_contiguous(x) for x in inputs]
            results = [np.empty(layout.shape, layout.dtype) for layout in plan.results.values()]
            arena = np.empty(plan.arena_size, np.uint8)
            schedule.run([get_address(x) for x in (arena, *held, *results)])
        return results[0] if len(results) == 1 else tuple(results)

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the variable inputs.

        Raises:
            NoKernelError: No kernel supports these shapes.
        """
        self._make_plan(tuple(shapes))

    def _make_plan(self, shapes: tuple[Shape, ...]) -> tuple[BodyPlan, dict[int, Schedule]]:
        layouts = (StridedLayout(shape, count_strides(shape, F32), F32) for shape in shapes)
        planner = BodyPlanner(dict(zip(self._step.site.variable_inputs, layouts, strict=True)), self._constants)
        add_step(planner, self._step)
        plan = planner.finish(self._step.outputs, ())
        return keep_binding(self._plans, shapes, (plan, {}))
