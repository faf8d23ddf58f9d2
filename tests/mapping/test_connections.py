"""How clusters of this machine start: libraries, interrupts, the server process of workers, and failures."""

from __future__ import annotations

import base64
import contextlib
import gc
import os
import pickle
import re
import signal
import sys
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from irrun.distributed import cluster
from irrun.errors import ExecutionError, InputError

distributed = pytest.importorskip("distributed")


@pytest.mark.parametrize(
    ("missing", "version", "names", "message"),
    [
        ({"zarr"}, (3, 10), (), "mapping requires Zarr 3 and Python 3.11 or later, found Python "),
        ({"zarr"}, (3, 11), (), "mapping requires zarr: pip install 'irrun[dask]'"),
        ({"zarr", "dask"}, (3, 10), (), "mapping requires dask, zarr: pip install 'irrun[dask]'"),
        ({"distributed", "dask"}, (3, 12), ("dask",), "mapping requires dask: pip install 'irrun[dask]'"),
        ({"distributed"}, (3, 12), ("dask",), None),
        (set(), (3, 10), (), None),
    ],
)
def test_missing_libraries_are_named(missing, version, names, message, monkeypatch):
    monkeypatch.setattr(cluster, "importlib", SimpleNamespace(
        util=SimpleNamespace(find_spec=lambda name: None if name in missing else name)
    ))  # fmt: skip
    monkeypatch.setattr(cluster, "sys", SimpleNamespace(version_info=version, platform=sys.platform))
    if message is None:
        cluster.check_is_installed(*names)
    else:
        with pytest.raises(InputError, match=f"^{re.escape(message)}"):
            cluster.check_is_installed(*names)


class Resource:
    """A cluster or a client that notes when it starts and ends."""

    def __init__(self, events, name, *arguments, **options):
        self.events, self.name, self.arguments, self.options = events, name, arguments, options
        events.append(name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.events.append(f"end of {self.name}")


@pytest.fixture
def events():
    return []


@pytest.fixture
def fakes(events, monkeypatch):
    """Replace what starts processes and connections."""
    made = {}

    def make(name):
        def create(*arguments, **options):
            assert not gc.isenabled()
            made[name] = Resource(events, name, *arguments, **options)
            return made[name]

        return create

    monkeypatch.setattr(distributed, "LocalCluster", make("LocalCluster"))
    monkeypatch.setattr(distributed, "Client", make("Client"))
    monkeypatch.setattr(cluster, "make_security", lambda: "security")
    return made


@pytest.mark.parametrize("workers", [3, None])
def test_local_clusters_listen_to_this_machine_only(workers, fakes, events):
    with ExitStack() as stack:
        client = cluster._create_client(stack, None, workers)
        assert client is fakes["Client"]
        assert client.arguments == (fakes["LocalCluster"],)
    assert fakes["LocalCluster"].arguments == ()
    assert fakes["LocalCluster"].options == {
        "n_workers": workers or os.cpu_count(),
        "threads_per_worker": 1,
        "processes": True,
        "protocol": "tls://",
        "security": "security",
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": "CRITICAL",
    }
    assert events == ["LocalCluster", "Client", "end of Client", "end of LocalCluster"]


def test_schedulers_are_connected_to(fakes, events):
    with ExitStack() as stack:
        assert cluster._create_client(stack, "tcp://host:1", 2).arguments == ("tcp://host:1",)
    assert events == ["Client", "end of Client"]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RuntimeError("no main"), InputError,
         "worker processes could not start (no main); a program must call map_inputs below "
         "`if __name__ == '__main__':`"),
        (OSError("no memory"), ExecutionError, "worker processes could not start: OSError: no memory"),
    ],
)  # fmt: skip
def test_processes_that_do_not_start_are_an_error(error, kind, message, fakes, monkeypatch):
    def fail(**options):
        raise error

    monkeypatch.setattr(distributed, "LocalCluster", fail)
    with ExitStack() as stack, pytest.raises(kind, match=f"^{re.escape(message)}$") as raised:
        cluster._create_client(stack, None, 1)
    assert raised.value.__cause__ is error


def test_connections_without_message_name_their_error(monkeypatch):
    def fail(scheduler):
        raise TimeoutError

    monkeypatch.setattr(distributed, "Client", fail)
    with ExitStack() as stack, pytest.raises(InputError, match=r"^cannot connect to the scheduler: TimeoutError$"):
        cluster._create_client(stack, "tcp://host:1", None)


@pytest.mark.parametrize(
    ("scheduler", "platform", "forks"), [(None, "linux", True), (None, "darwin", False), ("tcp://a", "linux", False)]
)
def test_only_processes_of_this_machine_are_forked(scheduler, platform, forks, events, monkeypatch):
    @contextmanager
    def fork(job):
        events.append(f"fork for {job}")
        yield
        events.append("end of fork")

    def create(stack, *arguments):
        assert signal.getsignal(signal.SIGINT) is not default
        events.append(arguments)
        stack.callback(close)
        return "client"

    def close():
        assert signal.getsignal(signal.SIGINT) is not default
        events.append("end of client")

    default = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(cluster, "_fork_from_preloaded_process", fork)
    monkeypatch.setattr(cluster, "_create_client", create)
    monkeypatch.setattr(cluster, "sys", SimpleNamespace(platform=platform))
    with contextlib.suppress(KeyError), cluster.connect("job", scheduler, 5) as client:
        events.append(client)
        assert signal.getsignal(signal.SIGINT) is default
        raise KeyError
    expected = [(scheduler, 5), "client", "end of client"]
    assert events == (["fork for job", *expected] if forks else expected)


class Job(NamedTuple):
    """A job of which the first sample can be selected."""

    name: str

    def select_first(self):
        return Job("first")


def test_workers_are_forked_from_a_process_that_computed_the_first_sample(monkeypatch):
    from distributed import utils

    dask = pytest.importorskip("dask")
    preloaded = []

    def start(context):
        assert dask.config.get("distributed.worker.multiprocessing-method") == "forkserver"
        assert pickle.loads(base64.b64decode(os.environ["IRRUN_PRELOADED_JOB"])) == Job("first")

    before = dask.config.get("distributed.worker.multiprocessing-method")
    context = SimpleNamespace(set_forkserver_preload=preloaded.append)
    monkeypatch.setattr(utils, "get_mp_context", lambda: context)
    monkeypatch.setattr(cluster, "_start_server", start)
    with cluster._fork_from_preloaded_process(Job("all")):
        assert "IRRUN_PRELOADED_JOB" in os.environ
    assert preloaded == [["distributed", "zarr", "irrun.distributed.preload"]]
    assert "IRRUN_PRELOADED_JOB" not in os.environ
    assert dask.config.get("distributed.worker.multiprocessing-method") == before


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_servers_of_workers_that_are_interrupted_are_killed(error, events, monkeypatch):
    from multiprocessing import forkserver, resource_tracker

    class Probe:
        def __init__(self, target):
            assert target() is None

        def start(self):
            events.append("probe")
            if error:
                raise error

        def join(self):
            events.append("joined")

    def ensure_running():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        events.append("server")

    monkeypatch.setattr(resource_tracker, "ensure_running", lambda: events.append("tracker"))
    monkeypatch.setattr(forkserver, "ensure_running", ensure_running)
    server = SimpleNamespace(_forkserver_pid=1 << 30, _stop=lambda: events.append("stopped"))
    monkeypatch.setattr(forkserver, "_forkserver", server)
    monkeypatch.setattr(os, "kill", lambda *arguments: events.append(arguments))
    started = ["tracker", "server", "probe"]
    if error:
        with pytest.raises(error):
            cluster._start_server(SimpleNamespace(Process=Probe))
        assert events == [*started, (1 << 30, signal.SIGKILL), "stopped"]
    else:
        cluster._start_server(SimpleNamespace(Process=Probe))
        assert events == [*started, "joined"]
