"""Clients of Dask that start while others are garbage."""

from __future__ import annotations

import gc
import importlib.util
import shutil
from contextlib import ExitStack

import pytest

from irrun.distributed import cluster, security
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


@pytest.mark.parametrize("source", ["cryptography", "openssl"])
def test_only_processes_of_a_local_cluster_connect_to_it(source, monkeypatch):
    if source == "cryptography":
        pytest.importorskip("cryptography")
    else:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with ExitStack() as stack:
        client = cluster._create_client(stack, None, 1)
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert all(worker.startswith("tls://127.0.0.1:") for worker in client.scheduler_info()["workers"])
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        others = security.make_security()
        assert others.tls_worker_key != client.security.tls_worker_key
        for wrong in (address.replace("tls", "tcp"), *client.scheduler_info()["workers"], address):
            with pytest.raises((OSError, TimeoutError)):
                distributed.Client(wrong, timeout=2, security=others if wrong.startswith("tls") else None)


def test_a_local_cluster_without_a_key_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(security, "OPENSSL", ("no-such-program",))
    with ExitStack() as stack, pytest.raises(InputError, match="cryptography is not installed: pip install"):
        cluster._create_client(stack, None, 1)
    monkeypatch.setattr(security, "OPENSSL", ("true",))
    with ExitStack() as stack, pytest.raises(InputError, match="cryptography is not installed: pip install"):
        cluster._create_client(stack, None, 1)
