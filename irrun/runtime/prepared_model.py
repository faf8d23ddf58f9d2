"""Models and their programs: how programs are made, and which program runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from irrun.activity import announce
from irrun.fast.packing import MAX_PANEL_BYTES, PackedMemory
from irrun.fast.specialization import DEFAULT_PACKED_BYTES
from irrun.forks import make_lock
from irrun.garbage import pause_collection
from irrun.ir.model import Model, index_names
from irrun.machine_memory import get_available_memory
from irrun.ops._support.operation import Operation
from irrun.runtime import passes
from irrun.runtime.compilation import JIT_PACKED_BYTES, ProgramKernels, find_kernels
from irrun.runtime.lowering import lower
from irrun.runtime.passes.phases import Resources
from irrun.runtime.passes.precision import change_precision
from irrun.runtime.program import Program
from irrun.runtime.shape_values import ShapeCache
from irrun.threads import use_threads

__all__ = ["PreparedModel"]


class PreparedModel:
    """A model and the programs that run it, which all requests share.

    Args:
        model: The model.
        operations: Custom operations.
        check: See `compile_model`, as for all other arguments.
        precision: One of the known ones.
        memory: In bytes.
        weights_memory: In bytes.
        threads: The number of threads.
        optimize: Whether runs without observers use specialized kernels.
        jit: Whether kernels are compiled.
        keeps_output_types: Whether outputs are converted to their declared types.
    """

    def __init__(
        self,
        model: Model,
        operations: Sequence[Operation],
        *,
        check: bool,
        precision: str,
        memory: int | None,
        weights_memory: int | None,
        threads: int,
        optimize: bool,
        jit: bool | Literal["auto"],
        keeps_output_types: bool,
    ) -> None:
        self.model = model
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.check = check
        self.precision = precision
        self.memory = memory
        self.threads = threads
        self.optimize = optimize
        self.jit = jit
        self._input_names = index_names(self.inputs)
        self._output_names = index_names(self.outputs)
        self._kernels: ProgramKernels | None = None
        if optimize and jit:
            options = (precision, memory, weights_memory, keeps_output_types, sorted(map(str, operations)))
            self._kernels = find_kernels(model, options)
        #: Whether runs without observers use compiled kernels, which never changes after the first one.
        self._is_compiled = self._kernels is not None and (jit is True or self._kernels.are_complete())
        if weights_memory is None:
            weights_memory = (get_available_memory() if memory is None else memory) // 2
        self._weights_bytes = weights_memory
        with use_threads(threads), announce(self._describe_preparation()):
            with pause_collection():
                self._program = lower(model, operations, postpones=self._is_compiled)
            change_precision(self._program, precision, keeps_output_types)
            passes.apply_passes(self._program, weights_memory, self.model.weights.release, keeps_compressed=optimize)
            with np.errstate(all="ignore"), pause_collection():
                self._fast_program = self._choose_program() if optimize else self._program
        self._is_settled = False
        self._settling = make_lock()
        self._shape_cache: ShapeCache | None = None
        #: Whether the next run is the first one that reads weights from the file; compiled kernels have copies.
        self._prefetches_weights = not self._is_compiled

    def _describe_preparation(self) -> str:
        if not self._is_compiled:
            return "preparing the program"
        return "compiling kernels" if self.jit is True else "loading kernels"

    def _choose_program(self) -> Program:
        """Return the program of runs without observers."""
        if self._is_compiled:
            try:
                return self._compile_program()
            except Exception:
                if self.jit is True:
                    raise
                self._is_compiled = False
                self._fill_postponed()
        return self._optimize(uses_jit=False)

    def _compile_program(self) -> Program:
        """Return the program with compiled kernels, and note that they have been compiled."""
        program = self._optimize(uses_jit=True)
        if self._has_postponed():
            from irrun.runtime.passes.postponed_constants import fill_used

            fill_used(self._program, program)
        self.model.weights.release()  # kernels have copies of most weights
        if self._kernels is not None:
            self._kernels.set_complete(program)
        return program

    def _optimize(self, uses_jit: bool) -> Program:
        weights = self.model.weights
        packed_bytes = min(self._weights_bytes, JIT_PACKED_BYTES if uses_jit else DEFAULT_PACKED_BYTES)
        # Compiled kernels read compressed weights in their stored form, and copy other weights.
        arranged_bytes = 0 if uses_jit else self._weights_bytes
        resources = Resources(
            PackedMemory(packed_bytes, weights.release, min(arranged_bytes, MAX_PANEL_BYTES), weights.contains),
            PackedMemory(arranged_bytes, weights.release),
            uses_jit,
        )
        return passes.optimize(self._program, resources)

    def _has_postponed(self) -> bool:
        return any(current.postponed for current in self._program.walk_programs())

    def _fill_postponed(self) -> None:
        if self._has_postponed():
            from irrun.runtime.passes.postponed_constants import fill_postponed

            fill_postponed(self._program)

    def _get_plain_program(self) -> Program:
        """Return the program of a run with observers."""
        self._fill_postponed()
        if self._program.unaligned:
            from irrun.runtime.passes.constant_alignment import align_postponed_constants

            align_postponed_constants(self._program)
            self.model.weights.release()
        return self._program

    def _start_run(self) -> Program:
        """Return the program of a run without observers, which does not change from now on."""
        if not self._is_settled:
            with self._settling:
                self._is_settled = True
        if self._prefetches_weights:
            self._prefetches_weights = False
            self._prefetch_weights()
        return self._fast_program

    def _prefetch_weights(self) -> None:
        """Read the weights that are used as a whole into memory; other operations may only need some rows."""
        program = self._fast_program
        instructions = (i for instruction in program.instructions for i in instruction.plain or (instruction,))
        slots = [s for i in instructions if i.operation.kind in ("product", "window") for s in i.inputs]
        constants = [program.initial[slot] for slot in dict.fromkeys(slots) if slot in program.constant_layers]
        self.model.weights.prefetch([value for value in constants if value is not None])

    def _get_shape_cache(self) -> ShapeCache:
        """Return the programs for certain input shapes."""
        cache = self._shape_cache
        if cache is None or cache.program is not self._fast_program:
            cache = self._shape_cache = ShapeCache(self._fast_program, self.optimize)
        return cache

    def _count_run(self, seconds: float) -> None:
        """Count a run without observers. After enough of them, kernels are compiled for later models."""
        if self._kernels is not None and not self._is_compiled:
            self._kernels.count_run(seconds, lambda: self._optimize(uses_jit=True))

    def _finish_compilation(self) -> None:
        """Compile kernels before the first run; see `CompiledModel.finish_compilation`."""
        with self._settling:
            if not self._is_settled and self._kernels is not None and not self._is_compiled:
                with contextlib.suppress(Exception), np.errstate(all="ignore"), use_threads(self.threads):
                    self._fast_program = self._compile_program()
                    self._is_compiled, self._prefetches_weights = True, False
        if self._kernels is not None:
            self._kernels.wait()
