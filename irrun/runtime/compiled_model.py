"""Compiled models, and the functions that compile and run models."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from irrun.arguments import check_choice, check_flag, check_instance, describe_value
from irrun.errors import InputError
from irrun.forks import make_lock
from irrun.formatting import format_count
from irrun.ir.model import Model, TensorSpec
from irrun.ir.reader import read_model
from irrun.ir.weights import WeightsSource
from irrun.limits import format_size, parse_size
from irrun.ops._support.operation import Operation, check_operation_list
from irrun.runtime.compilation import Jit, resolve_jit
from irrun.runtime.executor import Instrument
from irrun.runtime.inputs import Inputs
from irrun.runtime.malloc import keep_freed_blocks
from irrun.runtime.observer import Observer
from irrun.runtime.outputs import Outputs
from irrun.runtime.passes.precision import PRECISIONS
from irrun.runtime.prepared_model import PreparedModel
from irrun.runtime.request import InferRequest
from irrun.threads import get_default_thread_count

__all__ = ["CompiledModel", "compile_model", "run"]

#: Inputs and outputs that `repr` of a compiled model shows.
MAX_TENSORS = 4
#: Names of OpenVINO's devices that are accepted.
DEVICES = ("CPU", "AUTO", "AUTO:CPU")

#: The device names of OpenVINO.
_DEVICE_NAME = re.compile(r"(AUTO|BATCH|CPU|GNA|GPU|HETERO|MULTI|NPU|TEMPLATE)(\.\d+)?(:.*)?")


def compile_model(
    model: Model | str | os.PathLike[str],
    weights: WeightsSource | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    device_name: str = "CPU",
    check: bool = False,
    weights_memory: int | str | None = None,
    threads: int | None = None,
    operations: Sequence[Operation] = (),
    optimize: bool = True,
    memory: int | str | None = None,
    jit: Jit = None,
    precision: str = "f32",
) -> CompiledModel:
    """Prepare a model for execution.

    Args:
        model: A model, or the path of its .xml file.
        weights: The weights of a model given as a path; by default the .bin next to it. A device name in this position,
            as in OpenVINO's `Core.compile_model`, is used as `device_name`.
        config: None or empty: irrun does not support properties of OpenVINO's devices.
        device_name: "CPU" or "AUTO", which have the same effect.
        check: Whether runs compare declared types and shapes with actual ones, and look for indices out of range; see
            `InferRequest.mismatches` and `InferRequest.invalid_indices`.
        weights_memory: Maximum number of bytes of folded constants, most of which are decompressed weights, or a text
            such as "2G". None selects half of `memory`, or half of the memory that is available to the process.
            Values beyond the limit are computed in each run and freed after their last use. 0 disables constant
            folding, and methods of convolution that keep their filters in another form, up to 256 MiB in total. Integer
            weights of large matrix products always stay compressed, because products of few rows are faster with them.
        threads: Number of threads of a run; None for the value of the environment variable IRRUN_NUM_THREADS, or the
            number of cores. Results do not depend on it.
        operations: Custom operations for this model; they take precedence over registered ones.
        optimize: Whether runs without observers use specialized kernels. Otherwise, and in runs with observers, the
            plain kernels of `irrun.ops` compute every intermediate value.
        memory: Maximum size of the values of one run at the same time, without the weights and the inputs: a number of
            bytes, or a text such as "2G". By default the memory that is available to the process.
        jit: Whether runs use kernels that are compiled for the processor, which requires the extra `jit`. True compiles
            them now. "auto" uses them if they have been compiled before for this model and these options; otherwise,
            once runs have taken long enough for it to pay off, they are compiled in the background for models that are
            compiled later. Compiled kernels may round f32 differently, so a compiled model never switches kernels. None
            selects the value of the environment variable IRRUN_JIT, or "auto".
        precision: The precision of computations. "f32", as in OpenVINO's CPU plugin with the same precision hint,
            computes values in f16 and bf16 in f32, without rounding between operations. "declared" rounds each value
            to its declared type. "f64" computes all floating-point values in f64. Inputs, outputs and variables
            keep their declared types.

    Returns:
        A model that can be called.

    Raises:
        UnsupportedError: The model has unsupported operations; the message lists all of them.
        ModelError: The file is invalid.
        InputError: `device_name` is not supported, `config` has properties, `weights` is set for a model that was
            read already, `threads` is not positive, `memory` is not a positive size, `precision` is unknown, or `jit`
            is True and llvmlite is not installed. It is a `ValueError`.
    """
    if isinstance(weights, str) and _is_device(weights):
        device_name, weights = weights, None
    if isinstance(weights, Mapping):
        weights, config = None, weights
    if config is not None and check_instance("config", config, Mapping, "None"):
        raise InputError(
            f"properties of devices are not supported, found {', '.join(map(str, config))}; "
            "the options of irrun are the keyword arguments of compile_model"
        )
    if not isinstance(device_name, str) or device_name not in DEVICES:
        raise InputError(f"device {describe_value(device_name)} is not supported, expected one of {', '.join(DEVICES)}")
    if not isinstance(model, Model):
        model = read_model(model, weights)
    elif weights is not None:
        raise InputError("weights can only be passed with the path of a model; otherwise pass them to read_model")
    return CompiledModel(
        model,
        check=check,
        weights_memory=weights_memory,
        threads=threads,
        operations=operations,
        optimize=optimize,
        memory=memory,
        jit=jit,
        precision=precision,
    )


def _is_device(text: str) -> bool:
    """Return whether a text passed as the weights is the name of a device."""
    is_word = bool(text) and text.replace(".", "").replace(":", "").isalnum()
    return bool(_DEVICE_NAME.fullmatch(text)) or (is_word and not Path(text).suffix and not os.path.exists(text))


class CompiledModel(PreparedModel):
    """A model that can be run.

    A compiled model never changes, so threads can share it if each of them creates its own infer request. Calling the
    model runs a request that all calls share, so only one thread at a time may call it; a second one gets an
    `ExecutionError`.

    Attributes:
        model: The model that it was compiled from.
        inputs: The inputs, in the order of the Parameters.
        outputs: The outputs, in the order of the Results.
        check: Whether runs compare declared types and shapes with actual ones, and look for indices out of range.
        threads: Number of threads of a run.
        optimize: Whether runs without observers use specialized kernels.
        memory: Memory limit in bytes for the values of one run; None for the available memory.
        precision: The precision of computations: "f32", "declared" or "f64".
        jit: Whether kernels are compiled for the processor: True, False or "auto".

    Args:
        keeps_output_types: Whether outputs are converted to their declared types, which references in f64 are not.
    """

    def __init__(
        self,
        model: Model,
        *,
        check: bool = False,
        weights_memory: int | str | None = None,
        threads: int | None = None,
        operations: Sequence[Operation] = (),
        optimize: bool = True,
        memory: int | str | None = None,
        jit: Jit = None,
        precision: str = "f32",
        keeps_output_types: bool = True,
    ) -> None:
        check_instance("model", model, Model, "a Model; compile_model accepts the path of an .xml file, too")
        check, optimize = check_flag("check", check), check_flag("optimize", optimize)
        operations = check_operation_list(operations)
        precision = check_choice("precision", precision, tuple(PRECISIONS))
        if memory is not None:
            memory = _resolve_size("memory", memory)
        if weights_memory is not None:
            weights_memory = _resolve_size("weights_memory", weights_memory, accepts_zero=True)
        super().__init__(
            model,
            operations,
            check=check,
            precision=precision,
            memory=memory,
            weights_memory=weights_memory,
            threads=_resolve_threads(threads),
            optimize=optimize,
            jit=resolve_jit(jit),
            keeps_output_types=keeps_output_types,
        )
        keep_freed_blocks()
        self._request: InferRequest | None = None
        self._request_lock = make_lock()

    def __repr__(self) -> str:
        inputs, outputs = map(_list_tensors, (self.inputs, self.outputs))
        options = f"{format_count(self.threads, 'thread')}, precision {self.precision}, {self._describe_kernels()}"
        return f"<CompiledModel: {self.model.name!r}, ({inputs}) -> ({outputs}), {options}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a CompiledModel cannot be copied or pickled: it never changes, so threads share it; pass the path of the "
            "model, or compiled.model, which can be pickled, to another process, and compile it there"
        )

    def _describe_kernels(self) -> str:
        """Return which kernels runs without observers use."""
        if not self.optimize:
            return "plain kernels"
        if self.jit != "auto":
            return "jit on" if self.jit else "jit off"
        if self._is_compiled:
            return "jit auto (compiled)"
        return f"jit auto ({'llvmlite is not installed' if self._kernels is None else 'not compiled'})"

    def _repr_html_(self) -> str:
        from irrun._html import make_table

        instructions = self._fast_program.instructions
        fast = sum(bool(instruction.plain) for instruction in instructions)
        rows = [
            ("threads", self.threads),
            ("precision", self.precision),
            ("kernels", self._describe_kernels()),
            ("program", f"{len(instructions)} instructions, {fast} of them with specialized kernels"),
            ("memory", "the available memory" if self.memory is None else format_size(self.memory)),
        ]
        return f"<div>{self.model._repr_html_()}{make_table('Compiled', ('', ''), rows)}</div>"

    @property
    def computed_types(self) -> Mapping[np.dtype[Any], np.dtype[Any]]:
        """The declared types that runs replace by others, because of `precision`."""
        return self._program.computed_types

    def input(self, key: int | str = 0) -> TensorSpec:
        """Return the input of a position or name.

        Raises:
            ModelError: The model does not have it.
        """
        return self.model.input(key)

    def output(self, key: int | str = 0) -> TensorSpec:
        """Return the output of a position or name.

        Raises:
            ModelError: The model does not have it.
        """
        return self.model.output(key)

    def finish_compilation(self) -> None:
        """Compile now the kernels that would be compiled in the background, and use them from the first run on.

        The kernels of a model do not change after its first run. From then on, this method only waits for a compilation
        that has started in the background.
        """
        self._finish_compilation()

    def create_infer_request(self, instrument: Instrument | None = None) -> InferRequest:
        """Create an infer request with its own variables. Requests can run in several threads at once.

        Args:
            instrument: Measures the kernels; see `Instrument`.
        """
        return InferRequest(self, instrument)

    def __call__(
        self, inputs: Inputs = None, *, observers: Sequence[Observer] = (), timeout: float | None = None
    ) -> Outputs:
        """Run once, on a request that all calls share: variables keep their values between calls.

        Args:
            inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
            observers: Called after each instruction; see `Observer`.
            timeout: Seconds after which the run ends with an error; see `InferRequest.infer`.

        Raises:
            InputError: The inputs do not match the model, or the run would exceed its memory.
            ExecutionError: A kernel failed, the run exceeded its time limit, or the shared request is running.
        """
        with self._request_lock:
            if self._request is None:
                self._request = self.create_infer_request()
        return self._request.infer(inputs, observers=observers, timeout=timeout)

    def reset_state(self) -> None:
        """Reset the variables of the request that all calls share."""
        if self._request is not None:
            self._request.reset_state()


def _list_tensors(specs: Sequence[TensorSpec]) -> str:
    """Return the first inputs or outputs as text."""
    more = [f"{len(specs) - MAX_TENSORS} more"] if len(specs) > MAX_TENSORS else []
    return ", ".join([*map(str, specs[:MAX_TENSORS]), *more])


def _resolve_size(name: str, size: int | str, *, accepts_zero: bool = False) -> int:
    """Return a number of bytes.

    Raises:
        InputError: It is not a positive size, or 0 if that is accepted.
    """
    try:
        return 0 if accepts_zero and str(size) == "0" else parse_size(str(size))
    except ValueError:
        raise InputError(f"{name} is {size!r}, expected a number of bytes or a size such as '800M' or '2G'") from None


def _resolve_threads(threads: int | None) -> int:
    """Return the number of threads of runs.

    Raises:
        InputError: It is not a positive integer.
    """
    if threads is None:
        return get_default_thread_count()
    if not isinstance(threads, (int, np.integer)) or isinstance(threads, (bool, np.bool_)) or threads < 1:
        raise InputError(f"threads: expected at least one thread, found {threads!r}")
    return int(threads)


def run(model: Model | str | os.PathLike[str], inputs: Inputs = None, weights: WeightsSource | None = None) -> Outputs:
    """Read, compile and run a model once.

    Args:
        model: A model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        weights: The weights of a model given as a path; by default the .bin next to it.

    Raises:
        IrrunError: See `compile_model` and `CompiledModel.__call__`.
    """
    return compile_model(model, weights)(inputs)
