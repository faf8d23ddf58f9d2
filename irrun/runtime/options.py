"""The options for compiling and running models, shared by all functions that run a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict

from irrun.arguments import check_choice, check_flag, check_number

if TYPE_CHECKING:
    from irrun.ir.model import Model
    from irrun.runtime.compilation import Jit
    from irrun.runtime.compiled_model import CompiledModel
    from irrun.runtime.inputs import Inputs
    from irrun.runtime.observer import Observer
    from irrun.runtime.outputs import Outputs

__all__ = ["DEFAULT_SETTINGS", "KernelOptions", "RunOptions", "RunSettings"]


class RunOptions(TypedDict, total=False):
    """Keyword arguments of functions that run models with plain kernels: fields of `RunSettings`, or all in one."""

    precision: str
    threads: int | None
    memory: int | str | None
    weights_memory: int | str | None
    timeout: float | None
    settings: RunSettings | None


class KernelOptions(RunOptions, total=False):
    """Keyword arguments of functions that run models with specialized kernels."""

    jit: Jit


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

    @staticmethod
    def choose(options: Mapping[str, object], *, compiles: bool = False) -> RunSettings:
        """Return the settings that the keyword arguments of a function describe.

        Args:
            options: Fields of the settings, or complete ones as `settings`, which then replace the others.
            compiles: Whether the function may use compiled kernels, so that `jit` is one of its arguments.

        Raises:
            TypeError: The function does not have one of the arguments.
            InputError: A value is invalid.
        """
        known = {field.name for field in fields(RunSettings) if compiles or field.name != "jit"}
        for name in options:
            if name not in known | {"settings"}:
                raise TypeError(f"unexpected keyword argument {name!r}, expected one of {', '.join(sorted(known))}")
        arguments: dict[str, Any] = dict(options)
        settings: RunSettings | None = arguments.pop("settings", None)
        return settings or RunSettings(**arguments)

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

        arguments = {name: value for name, value in vars(self).items() if name != "timeout"}
        if not check_flag("optimize", optimize):
            arguments["jit"] = False
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
