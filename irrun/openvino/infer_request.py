"""`InferRequest`: the inputs, outputs and variables of one user of a compiled model, and its runs."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.errors import IrrunError
from irrun.forks import renew_in_children
from irrun.openvino.getters import from_getter
from irrun.openvino.request_parts import ProfilingInfo as ProfilingInfo
from irrun.openvino.request_parts import VariableState as VariableState
from irrun.openvino.request_tensors import RequestTensors
from irrun.openvino.results import OVDict

if TYPE_CHECKING:
    from irrun.runtime.request import InferRequest as IrrunRequest

__all__ = ["InferRequest", "ProfilingInfo", "VariableState"]

Array = np.ndarray[Any, Any]


class InferRequest(RequestTensors):
    """The inputs, outputs and variables of one user of a compiled model, and its runs.

    Args:
        source: A compiled model, or another request to share the state of.
    """

    def __init__(self, source: Any) -> None:
        if isinstance(source, InferRequest):
            self.__dict__ = source.__dict__
            return
        super().__init__(source)
        self._request: IrrunRequest = source._irrun.create_infer_request()
        self._condition = threading.Condition()
        renew_in_children(self)
        self._is_running = False
        self._pending = 0
        self._callback_thread: int | None = None
        self._callback: Callable[[Any], Any] | None = None
        self._queue_callback: Callable[[InferRequest], None] | None = None
        self._error: BaseException | None = None
        self._userdata: Any = None
        self._seconds = 0.0
        self._profile: list[ProfilingInfo] = []

    def __repr__(self) -> str:
        return self._compiled._describe("InferRequest")

    def _at_fork_reinit(self) -> None:
        self._condition = threading.Condition()
        if self._is_running or self._pending:  # the threads of the parent process continue with it
            self._is_running, self._pending, self._callback_thread = False, 0, None
            self._error = RuntimeError("the run continues in the parent process; start it again")

    # -- runs

    def infer(
        self,
        inputs: Any = None,
        share_inputs: bool = False,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
    ) -> OVDict:
        """Run once and wait.

        Args:
            inputs: Values to set: an array, a tensor, a sequence in the order of the inputs, or a mapping
                from ports, indices or names. Other inputs keep their values.
            share_inputs: Whether the arrays are used without a copy where possible.
            share_outputs: Whether the results are views of the memory of the request.
            decode_strings: Whether strings are returned as texts instead of bytes.

        Returns:
            The results.

        Raises:
            RuntimeError: The request is running, an input does not fit the model, or a kernel failed.
        """
        self._begin()
        try:
            self._set_inputs(inputs, share_inputs)
            self._run()
        finally:
            with self._condition:
                self._is_running = False
                self._pending -= 1
                self._condition.notify_all()
        return self._get_results(share_outputs, decode_strings)

    def start_async(self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False) -> None:
        """Start a run on another thread.

        Args:
            inputs: Values to set; see `infer`.
            userdata: The argument of the callback, if there is one.
            share_inputs: Whether the arrays are used without a copy where possible.

        Raises:
            RuntimeError: The request is running, or an input does not fit the model.
        """
        self._begin()
        try:
            self._set_inputs(inputs, share_inputs)
        except BaseException:
            with self._condition:
                self._is_running = False
                self._pending -= 1
                self._condition.notify_all()
            raise
        if userdata is not None:
            if self._callback is None:
                warnings.warn("There is no callback function!", RuntimeWarning, stacklevel=2)
            else:
                self._userdata = userdata
        self._compiled._executor.submit(self._run_async)

    def _begin(self) -> None:
        with self._condition:
            if self._is_running:
                raise RuntimeError("Infer Request is busy")
            self._is_running = True
            self._pending += 1
            self._error = None

    def _run_async(self) -> None:
        error: BaseException | None = None
        try:
            self._run()
        except BaseException as failure:
            error = failure
        with self._condition:
            self._is_running = False
            self._error = error
            self._callback_thread = threading.get_ident()
        try:
            if self._queue_callback is not None:
                self._queue_callback(self)
            elif self._callback is not None:
                self._callback(self._userdata)
        except BaseException as failure:
            with self._condition:
                self._error = self._error or failure
        with self._condition:
            self._callback_thread = None
            self._pending -= 1
            self._condition.notify_all()

    def _run(self) -> None:
        compiled = self._compiled
        values = self._get_arguments()
        profile: list[ProfilingInfo] = []
        observers = [_make_profiler(profile)] if compiled._is_profiled else []
        start = time.perf_counter()
        try:
            results = self._request.infer(values, observers=observers).to_tuple()
        except IrrunError as error:
            raise RuntimeError(str(error)) from error
        self._seconds = time.perf_counter() - start
        self._profile = profile
        for port, values_ in zip(compiled.outputs, results, strict=True):
            self._store(port, values_)

    def wait(self) -> None:
        """Wait until the run and its callback, and all runs that callbacks started, are complete.

        Raises:
            RuntimeError: A kernel failed.
            Exception: The error of the callback.
        """
        with self._condition:
            self._condition.wait_for(self._is_complete)
            error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_for(self, timeout: int) -> bool:
        """Wait for a time.

        Args:
            timeout: The time in milliseconds.

        Returns:
            Whether the run is complete.
        """
        with self._condition:
            return self._condition.wait_for(self._is_complete, timeout / 1000)

    def _is_complete(self) -> bool:
        if self._callback_thread == threading.get_ident():  # a callback does not wait for itself
            return not self._is_running
        return self._pending == 0

    def cancel(self) -> None:
        """Do nothing: a run of NumPy cannot be interrupted."""

    def set_callback(self, callback: Callable[[Any], Any], userdata: Any = None) -> None:
        """Set the function that is called after each asynchronous run.

        Args:
            callback: A function of `userdata`.
            userdata: Any value.
        """
        self._callback = callback
        self._userdata = userdata

    @property
    def userdata(self) -> Any:
        """The argument of the callback."""
        return self._userdata

    @property
    def latency(self) -> float:
        """The time of the last run in milliseconds."""
        return self._seconds * 1000

    def get_profiling_info(self) -> list[ProfilingInfo]:
        """Return the time that each layer took in the last run, if profiling is enabled."""
        return list(self._profile)

    profiling_info = from_getter(get_profiling_info)

    def get_compiled_model(self) -> Any:
        """Return the compiled model."""
        return self._compiled

    # -- variables

    def query_state(self) -> list[VariableState]:
        """Return the variables."""
        declared = self._compiled._get_variables()
        return [
            VariableState(variable, declared[variable.name])
            for variable in self._request.query_state()
            if variable.name in declared
        ]

    def reset_state(self) -> None:
        """Restore the initial values of all variables."""
        self._request.reset_state()


def _make_profiler(profile: list[ProfilingInfo]) -> Any:
    def observe(layer: Any, inputs: Any, outputs: Any, seconds: float, scope: Any) -> None:
        if not scope:
            profile.append(ProfilingInfo(layer.name, layer.type, seconds))

    return observe
