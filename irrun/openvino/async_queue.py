"""`AsyncInferQueue`: a pool of infer requests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from irrun.forks import renew_in_children
from irrun.openvino.compiled_model import CompiledModel
from irrun.openvino.infer_request import InferRequest

__all__ = ["AsyncInferQueue"]


class AsyncInferQueue:
    """A pool of infer requests that run asynchronously.

    Args:
        model: The compiled model.
        jobs: The number of requests; 0 for the number that keeps the processor busy.
    """

    def __init__(self, model: CompiledModel, jobs: int = 0) -> None:
        if not hasattr(model, "create_infer_request"):
            raise TypeError(f"AsyncInferQueue: expected a CompiledModel, found {type(model).__name__}")
        count = jobs or int(model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self._requests = [model.create_infer_request() for _ in range(count)]
        self._idle = deque(range(count))
        self._condition = threading.Condition()
        renew_in_children(self)
        self._userdata: list[Any] = [None] * count
        self._callback: Callable[[InferRequest, Any], Any] | None = None
        self._errors: deque[BaseException] = deque()
        for index, request in enumerate(self._requests):
            request._queue_callback = self._make_callback(index)

    def _at_fork_reinit(self) -> None:
        self._condition = threading.Condition()
        running = set(range(len(self._requests))).difference(self._idle)
        if running:  # the threads of the parent process continue with them
            self._idle.extend(sorted(running))
            self._errors.append(RuntimeError("runs continue in the parent process; start them again"))

    def _make_callback(self, index: int) -> Callable[[InferRequest], None]:
        def complete(request: InferRequest) -> None:
            error = request._error
            try:
                if error is None and self._callback is not None:
                    self._callback(request, self._userdata[index])
            except BaseException as failure:
                error = failure
            with self._condition:
                if error is not None:
                    self._errors.append(error)
                if not request._is_running:  # the callback may have restarted it
                    self._idle.append(index)
                self._condition.notify_all()

        return complete

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[InferRequest]:
        return iter(self._requests)

    def __getitem__(self, index: int) -> InferRequest:
        return self._requests[index]

    def __repr__(self) -> str:
        return f"<AsyncInferQueue: {len(self._requests)} jobs>"

    @property
    def userdata(self) -> list[Any]:
        """The user data of the requests."""
        return list(self._userdata)

    def set_callback(self, callback: Callable[[InferRequest, Any], Any]) -> None:
        """Set the function that is called after each run.

        Args:
            callback: Called with the request and the user data.
        """
        self._callback = callback

    def is_ready(self) -> bool:
        """Return whether a request is idle."""
        with self._condition:
            return bool(self._idle)

    def get_idle_request_id(self) -> int:
        """Wait until a request is idle, and return its index.

        Raises:
            Exception: The error of a previous run or its callback.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._idle)
            self._raise_error()
            return self._idle[0]

    def start_async(self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False) -> None:
        """Start a run on the next idle request.

        Args:
            inputs: The inputs; see `InferRequest.infer`.
            userdata: The argument of the callback.
            share_inputs: Whether arrays are used without a copy where possible.

        Raises:
            Exception: The error of a previous run or its callback. The new run is then not started.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._idle)
            self._raise_error()
            index = self._idle.popleft()
            self._userdata[index] = userdata
        request = self._requests[index]
        try:
            request.start_async(inputs, share_inputs=share_inputs)
        except BaseException:
            with self._condition:
                self._idle.append(index)
                self._condition.notify_all()
            raise

    def wait_all(self) -> None:
        """Wait until all runs and callbacks are complete.

        Raises:
            Exception: The error of a run or its callback.
        """
        with self._condition:
            self._condition.wait_for(lambda: len(self._idle) == len(self._requests))
            self._raise_error()

    def _raise_error(self) -> None:
        """Raise the first error; it and all later ones are forgotten."""
        if self._errors:
            error = self._errors.popleft()
            self._errors.clear()
            raise error
