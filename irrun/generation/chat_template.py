"""Chat templates: messages as one text, in the format that the model was trained on."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from irrun.deadlines import check_time, get_deadline
from irrun.errors import IrrunError
from irrun.forks import make_lock

__all__ = ["ChatTemplateError", "render_chat"]

#: Time limit of a template in seconds, if the run has none.
SECONDS = 10.0


class ChatTemplateError(IrrunError):
    """A chat template is invalid, refuses messages or takes too long, or Jinja is not installed."""


def render_chat(
    template: str, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool, variables: Mapping[str, Any]
) -> str:
    """Return messages as one text.

    Templates are programs, so another process renders them, with limits on time and memory.

    Args:
        template: A Jinja template.
        messages: Messages such as `{"role": "user", "content": "Hello"}`.
        add_generation_prompt: Whether to append the prefix of an answer.
        variables: Additional variables, such as "bos_token".

    Raises:
        ChatTemplateError: See the class.
        TimeLimitError: The run exceeds its time limit.
    """
    values = {**variables, "messages": messages, "add_generation_prompt": add_generation_prompt}
    try:
        request = json.dumps({"template": template, "variables": values}, default=_to_list)
    except (TypeError, ValueError, RecursionError) as error:
        raise ChatTemplateError(f"the messages cannot be written as JSON: {error}") from None
    with _lock:
        answer = _renderer.answer(request)
    if "missing" in answer:
        raise ChatTemplateError("chat templates require Jinja: pip install irrun[text]")
    if "refused" in answer:
        raise ChatTemplateError(f"the chat template failed: {answer['refused']}")
    text: str = answer["text"]
    return text


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"found a value of type {type(value).__name__}")


class _Renderer:
    """The process that renders templates. It starts at the first request, and restarts after a crash."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def answer(self, request: str) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            ChatTemplateError: No answer arrives within the time limit, or the process cannot start.
            TimeLimitError: The run exceeds its time limit.
        """
        check_time()
        deadline = get_deadline()
        seconds = SECONDS if deadline is None else min(SECONDS, deadline.get_remaining_seconds())
        process = self._start()
        timer = threading.Timer(max(seconds, 0.01), process.kill)
        timer.start()
        line = ""
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(request + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
        finally:
            timer.cancel()
            if not line.endswith("\n"):
                self.stop()
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        check_time()
        if timer.finished.is_set() and process.returncode < 0:
            raise ChatTemplateError(f"the chat template takes more than {seconds:.3g} s")
        raise ChatTemplateError(f"the process that renders the chat template ended with code {process.returncode}")

    def _start(self) -> subprocess.Popen[str]:
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}
        script = str(Path(__file__).with_name("template_worker.py"))
        try:
            self._process = subprocess.Popen(
                [sys.executable, script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                env=environment,
            )
        except (OSError, ValueError) as error:
            raise ChatTemplateError(f"cannot start Python to render the chat template: {error}") from None
        self._owner = os.getpid()
        return self._process

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()


_renderer = _Renderer()
_lock = make_lock()
atexit.register(_renderer.stop)
