"""Breakpoints at layers: an observer that stops in the standard debugger, pdb."""

from __future__ import annotations

import bdb
import inspect
import pdb
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CodeType, FrameType, TracebackType
from typing import IO, Any

import numpy as np

from irrun.arguments import check_instance, describe_value
from irrun.errors import InputError, escape_unprintable
from irrun.inspection.conditions import Condition, parse_condition
from irrun.inspection.keys import KeyTable, Selection
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.executor import Executor, RequestState
from irrun.runtime.inputs import describe_tensor
from irrun.runtime.observer import Scope
from irrun.runtime.program import Instruction, Program

__all__ = ["Breakpoint", "breakpoint"]

Array = np.ndarray[Any, Any]

_HELP = """\
layer, key, scope        the layer, its key, and the layers whose bodies contain it, each with its iteration
inputs, outputs          lists of arrays; after changes of outputs, the run continues with the new values
step_kernel()            step into the kernel; returns the outputs (command: kernel)
next_layer()             stop at the next layer as well, then type c (command: nextlayer, nl)
"""


class Breakpoint:
    """An observer that stops in the debugger at selected layers that satisfy a condition.

    In the debugger, `layer`, `key`, `inputs`, `outputs` and `scope` are variables. If `outputs` or one of its arrays is
    changed, the run continues with the new values. `step_kernel()` steps into the Python source of the kernel, and
    the command `nextlayer` (`nl`) continues to the next layer.

    Args:
        model: The model that runs, for identifying layers.
        layers: Globs for keys, as for `Selection`; by default all layers.
        types: Types of layers.
        condition: A condition that an output must satisfy, such as "nan" or "abs>1e4"; None for no condition.
        stdin: The input of the debugger; by default, standard input.
        stdout: The output of the debugger; by default, standard output.

    Attributes:
        hits: The number of times that the run stopped.

    Raises:
        InputError: No layer is selected, or the condition is invalid or requires a reference.
    """

    def __init__(
        self,
        model: CompiledModel | Model,
        layers: str | Sequence[str] = (),
        *,
        types: str | Sequence[str] = (),
        condition: str | Condition | None = None,
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
    ) -> None:
        check_instance("model", model, (CompiledModel, Model), "a CompiledModel or a Model")
        if condition is not None:
            check_instance("condition", condition, (str, Condition), "a text such as 'nan', a Condition or None")
        for name, stream, method in (("stdin", stdin, "readline"), ("stdout", stdout, "write")):
            if stream is not None and not hasattr(stream, method):
                raise InputError(f"{name} is {describe_value(stream)}, expected a text stream or None")
        self._compiled = model if isinstance(model, CompiledModel) else None
        self._model = model.model if isinstance(model, CompiledModel) else model
        self._table = KeyTable(self._model)
        self._selection = Selection(layers, types)
        self._selection.check(self._table)
        self._condition = parse_condition(condition) if isinstance(condition, str) else condition
        if self._condition is not None:
            self._condition.check_values_only()
        self._streams = (stdin, stdout)
        self._debugger = _LayerDebugger(self, "(irrun) ", *self._streams)
        self._instructions: dict[int, tuple[Program, Instruction]] | None = None
        self._stops_next = False
        self.hits = 0

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> Sequence[Array] | None:
        """Stop if the layer is selected. The values of `outputs` in the debugger replace the outputs of the layer."""
        key = self._table.get_key(layer, scope)
        if not self._stops_next and not self._is_selected(layer, key, outputs):
            return None
        self._stops_next = False
        self.hits += 1
        results = [value.copy() for value in outputs]  # they may be views of inputs or constants
        self._write(f"{key} ({layer.type}, {seconds * 1e3:.2f} ms)")
        for name, values in (("inputs", inputs), ("outputs", results)):
            self._write(f"  {name}: {', '.join(_describe(value) for value in values) or 'none'}")
        return self._stop(layer, key, list(inputs), results, scope)

    def stop_at_next_layer(self) -> None:
        """Stop at the next layer, whether it is selected or not."""
        self._stops_next = True

    def step_kernel(self, layer: Layer, inputs: Sequence[Array | None]) -> list[Array] | None:
        """Run the kernel of a layer in the debugger, which stops at its first line.

        Args:
            layer: The layer.
            inputs: Its inputs.

        Returns:
            The outputs; None if the debugger was quit.
        """
        kernel, keywords = self.bind_kernel(layer)
        debugger = _LayerDebugger(None, "(kernel) ", *self._streams)
        debugger.target = getattr(inspect.unwrap(kernel), "__code__", None)
        previous = sys.gettrace()
        sys.settrace(None)
        try:
            with np.errstate(all="ignore"):
                result = sys.call_tracing(_run_in_debugger, (debugger, kernel, inputs, keywords))
        except bdb.BdbQuit:
            return None
        finally:
            sys.settrace(previous)
        return [np.asarray(value) for value in (result if isinstance(result, (tuple, list)) else (result,))]

    def bind_kernel(self, layer: Layer) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the kernel of a layer and its keyword arguments. Variables have their initial values.

        Args:
            layer: The layer.
        """
        if self._instructions is None:
            compiled = self._compiled or CompiledModel(self._model, optimize=False)
            self._instructions = {id(i.layer): (program, i) for program, i in compiled._program.walk()}
        program, instruction = self._instructions[id(layer)]
        executor = Executor(replace(program, instructions=[instruction], invariant_count=0), RequestState())
        bound = executor._bind_kernel(instruction)
        return instruction.kernel, dict(getattr(bound, "keywords", {}))

    def debug_error(self, error: BaseException) -> None:
        """Open the debugger where an error was raised: in the kernel, if a kernel failed.

        Args:
            error: The error.
        """
        cause = error.__cause__ if error.__cause__ is not None else error
        self._write(f"{type(error).__name__}: {error}")
        self._debugger.debug_traceback(cause.__traceback__)

    def _is_selected(self, layer: Layer, key: str, outputs: Sequence[Array]) -> bool:
        ports = self._selection.select_ports(layer, key)[: len(outputs)]
        if not ports:
            return False
        return self._condition is None or self._condition.holds_for_any([outputs[port] for port in ports])

    def _write(self, text: str) -> None:
        self._debugger.message(escape_unprintable(text))

    def _stop(
        self, layer: Layer, key: str, inputs: list[Array | None], outputs: list[Array], scope: Scope
    ) -> Sequence[Array]:
        def step_kernel() -> list[Array] | None:
            return self.step_kernel(layer, inputs)

        return _stop(self, layer, key, inputs, outputs, scope, step_kernel, self.stop_at_next_layer)


def breakpoint(  # noqa: A001
    model: CompiledModel | Model,
    layers: str | Sequence[str] = (),
    *,
    types: str | Sequence[str] = (),
    condition: str | Condition | None = None,
) -> Breakpoint:
    """Return an observer that stops in the debugger.

    Example:
        compiled = irrun.compile_model("model.xml")
        compiled(x, observers=[irrun.inspection.breakpoint(compiled, "layer.3*", condition="nan")])

    Args:
        model: The model that runs.
        layers: Globs for keys; by default all layers.
        types: Types of layers.
        condition: A condition that an output must satisfy, such as "nan" or "abs>1e4".

    Raises:
        InputError: No layer is selected, or the condition is invalid or requires a reference.
    """
    return Breakpoint(model, layers, types=types, condition=condition)


def _stop(
    observer: Breakpoint,
    layer: Layer,
    key: str,
    inputs: list[Array | None],
    outputs: Sequence[Array],
    scope: Scope,
    step_kernel: Callable[[], list[Array] | None],
    next_layer: Callable[[], None],
) -> Sequence[Array]:
    """Stop in the debugger. The parameters are the variables in the debugger."""
    observer._debugger.stop(sys._getframe())
    return outputs


def _run_in_debugger(
    debugger: pdb.Pdb, kernel: Callable[..., Any], inputs: Sequence[Array | None], keywords: dict[str, Any]
) -> Any:
    return debugger.runcall(kernel, *inputs, **keywords)


def _describe(value: Array | None) -> str:
    return "none" if value is None else describe_tensor(value)


class _LayerDebugger(pdb.Pdb):
    """pdb with commands for layers.

    Args:
        observer: The observer that stops at layers; None in a kernel.
        prompt: The prompt.
        stdin: The input of commands; by default, standard input.
        stdout: The output; by default, standard output.

    Attributes:
        target: The function where the debugger stops first; None if it stops everywhere. The decorators of a kernel
            are skipped.
    """

    def __init__(self, observer: Breakpoint | None, prompt: str, stdin: IO[str] | None, stdout: IO[str] | None) -> None:
        super().__init__(stdin=stdin, stdout=stdout, nosigint=True)
        if stdin is not None:
            self.use_rawinput = False
        self.prompt = prompt
        self._observer = observer
        self.target: CodeType | None = None

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        """Stop at a call once the target has been reached."""
        if self.target is None:
            super().user_call(frame, argument_list)

    def user_line(self, frame: FrameType) -> None:
        """Stop at a line once the target has been reached."""
        if self.target is None or frame.f_code is self.target:
            self.target = None
            super().user_line(frame)

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        """Stop at a return once the target has been reached."""
        if self.target is None:
            super().user_return(frame, return_value)

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        """Stop at an exception once the target has been reached."""
        if self.target is None:
            super().user_exception(frame, exc_info)

    def stop(self, frame: FrameType) -> None:
        """Stop at the next line of a frame."""
        self.set_trace(frame)

    def debug_traceback(self, traceback: TracebackType | None) -> None:
        """Open the debugger at the innermost frame of a traceback."""
        self.reset()
        self.interaction(None, traceback)

    def do_nextlayer(self, argument: str) -> bool:
        """Continue and stop at the next layer."""
        if self._observer is None:
            self.error("the debugger is in a kernel; continue or quit first")
            return False
        self._observer.stop_at_next_layer()
        self.set_continue()
        return True

    do_nl = do_nextlayer

    def do_kernel(self, argument: str) -> bool:
        """Step into the kernel of the layer, and return at its end."""
        frame = self.curframe
        values = {} if frame is None else frame.f_locals
        if self._observer is None or "step_kernel" not in values:
            self.error("the debugger is not at a layer")
            return False
        result = values["step_kernel"]()
        if result is not None:
            self.message(escape_unprintable(f"the kernel returned {', '.join(map(_describe, result))}"))
        return False

    def do_variables(self, argument: str) -> bool:
        """Describe the variables and functions at a layer."""
        self.message(_HELP.rstrip())
        return False
