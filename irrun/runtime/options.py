"""The options for compiling and running models, shared by all functions that run a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from irrun.arguments import check_choice, check_flag, check_number

if TYPE_CHECKING:
    from irrun.ir.model import Model
    from irrun.runtime.compilation import Jit
    from irrun.runtime.compiled_model import CompiledModel
    from irrun.runtime.inputs import Inputs
    from irrun.runtime.observer import Observer
    from irrun.runtime.outputs import Outputs

__all__ = ["DEFAULT_SETTINGS", "RunSettings"]


@dataclass(frozen=True)
class RunSettings:
    """Options for compiling and running models, as in `compile_model` and `InferRequest.infer`.

    Attributes:
        precision: Precision of computations.
        threads: Threads of a run.
        memory: Memory limit for the values of a run.
        weights_memory: Memory limit for decompressed weights.
        jit: Whether to use compiled kernels.
        timeout: Time limit for each run in seconds.
    """

    precision: str = "f32"
    threads: int | None = None
    memory: int | str | None = None
    weights_memory: int | str | None = None
    jit: Jit = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Check the options that are not checked when a model is compiled.

        Raises:
            InputError: A value is invalid.
        """
        check_choice("jit", self.jit, (None, True, False, "auto"))
        if self.timeout is not None:
            check_number("timeout", self.timeout, 0, "a number of seconds")

    def compile(self, model: Model, *, optimize: bool = True, **others: Any) -> CompiledModel:
        """Compile a model.

        Args:
            model: The model.
            optimize: Whether runs without observers use specialized kernels.
            others: More arguments of `CompiledModel`; they take precedence over these options.

        Raises:
            IrrunError: See `compile_model`.
        """
        from irrun.runtime.compiled_model import CompiledModel

        arguments: dict[str, Any] = {
            "precision": self.precision,
            "threads": self.threads,
            "memory": self.memory,
            "weights_memory": self.weights_memory,
            "jit": self.jit if check_flag("optimize", optimize) else False,
        }
        return CompiledModel(model, optimize=optimize, **(arguments | others))

    def infer(self, compiled: CompiledModel, inputs: Inputs, observers: Sequence[Observer] = ()) -> Outputs:
        """Run a compiled model once, with new variables.

        Args:
            compiled: The model.
            inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
            observers: Called after each instruction.

        Raises:
            IrrunError: See `InferRequest.infer`.
        """
        return compiled.create_infer_request().infer(inputs, observers=observers, timeout=self.timeout)


DEFAULT_SETTINGS = RunSettings()
