"""Clients of Dask that start while others are garbage."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from irrun.distributed import cluster
from irrun.errors import InputError

distributed = pytest.importorskip("distributed")


class Leftover:
    """Garbage that notes when it is collected, as a client closes then."""

    def __init__(self, events):
        self.events = events
        self.cycle = self

    def __del__(self):
        self.events.append("collected")


def test_no_garbage_is_collected_while_a_client_starts(monkeypatch):
    events = []

    def start(scheduler):
        events.append("starts")
        assert not gc.isenabled()
        raise OSError("nobody listens")

    monkeypatch.setattr(distributed, "Client", start)
    Leftover(events)
    with ExitStack() as stack, pytest.raises(InputError, match="cannot connect to the scheduler: nobody listens"):
        cluster._create_client(stack, "tcp://127.0.0.1:1", None)
    assert events == ["collected", "starts"]
    assert gc.isenabled()
