"""A progress line for long runs on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from irrun.errors import to_one_line
from irrun.ir.graph import Layer
from irrun.runtime.executor import Observer, Scope

__all__ = ["show_progress"]

#: Seconds after which the progress line appears.
DELAY = 0.7


@contextmanager
def show_progress(title: str) -> Iterator[list[Observer]]:
    """Yield the observers that show a progress line on stderr; none if stderr is not a terminal.

    Args:
        title: Text at the start of the line.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield []
        return
    line = _ProgressLine(title)
    try:
        yield [line]
    finally:
        line.close()


class _ProgressLine:
    """An observer that shows the number of executed layers and the last of them."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.count = 0
        self.start = monotonic()
        self.status: Any = None

    def __call__(
        self, layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope
    ) -> None:
        self.count += 1
        if self.status is None:
            if monotonic() - self.start < DELAY:
                return
            from rich.console import Console

            self.status = Console(stderr=True).status("")
            self.status.start()
        from rich.text import Text

        iteration = f", iteration {scope[0][1]} of {scope[0][0].name}" if scope else ""
        text = f"{self.title}: {self.count} layers executed, {layer.type} {layer.name}{iteration}"
        self.status.update(Text(to_one_line(text), no_wrap=True, overflow="ellipsis"))  # a name is not rich markup

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
