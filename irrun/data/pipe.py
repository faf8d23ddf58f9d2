"""Inputs from stdin."""

from __future__ import annotations

import io
import sys

from irrun.errors import InputError
from irrun.limits import format_size
from irrun.machine_memory import get_available_memory, get_default_limit

__all__ = ["Pipe", "read_stdin"]

#: Bytes that are read at once.
BLOCK = 1 << 20
_SUFFIXES = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"PK\x05\x06": ".npz"}


class Pipe(io.BytesIO):
    """The contents of stdin as a file, named "stdin" in messages."""

    def __str__(self) -> str:
        return "stdin"

    @property
    def suffix(self) -> str:
        """The suffix of files of this format: .npy, .npz or .json."""
        start = bytes(self.getbuffer()[:8])
        return next((suffix for magic, suffix in _SUFFIXES.items() if start.startswith(magic)), ".json")


def read_stdin() -> Pipe:
    """Read stdin to its end.

    Raises:
        InputError: It is a terminal, is empty, does not fit in memory that inputs may take, or contains bytes of
            another format.
    """
    stream = sys.stdin
    if stream is None or stream.isatty():
        raise InputError("expected an .npy, .npz or .json file in a pipe to stdin, found none")
    limit = min(get_default_limit(), get_available_memory() // 2)  # the array is a copy
    pipe = Pipe()
    while block := stream.buffer.read(BLOCK):
        if pipe.tell() + len(block) > limit:
            raise InputError(f"stdin contains more than {format_size(limit)}")
        pipe.write(block)
    if not pipe.tell():
        raise InputError("stdin is empty or was read already, expected an .npy, .npz or .json file")
    if pipe.suffix == ".json" and b"\0" in pipe.getbuffer()[:BLOCK].tobytes():
        raise InputError("stdin contains an unknown format, expected an .npy, .npz or .json file")
    return pipe
