"""A progress line for long runs, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from irrun.errors import to_one_line
from irrun.ir.model import Layer
from irrun.runtime.executor import Observer, Scope

__all__ = ["progress"]

#: Runs shorter than this show nothing.
PATIENCE = 0.7


@contextmanager
def progress(title: str) -> Iterator[list[Observer]]:
    """Observers that show which layer runs, once the run takes long; none where stderr is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield []
        return
    line = _Line(title)
    try:
        yield [line]
    finally:
        line.close()


class _Line:
    def __init__(self, title: str) -> None:
        self.title = title
        self.count = 0
        self.began = monotonic()
        self.status: Any = None

    def __call__(
        self, layer: Layer, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float, scope: Scope
    ) -> None:
        self.count += 1
        if self.status is None:
            if monotonic() - self.began < PATIENCE:
                return
            from rich.console import Console

            self.status = Console(stderr=True).status("")
            self.status.start()
        from rich.text import Text

        inside = f", iteration {scope[0][1]} of {scope[0][0].name}" if scope else ""
        told = f"{self.title}: {self.count} layers done, {layer.type} {layer.name}{inside}"
        self.status.update(Text(to_one_line(told), no_wrap=True, overflow="ellipsis"))  # names are no markup

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
