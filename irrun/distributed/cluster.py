"""The Dask cluster: an existing one, or private processes on this machine.

On Linux, local processes are forked from one that has compiled the model and computed a sample. They
share its modules, its packed weights and its compiled kernels.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import importlib.util
import os
import pickle
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from irrun.distributed.jobs import Job
from irrun.distributed.security import make_security
from irrun.errors import ExecutionError, InputError
from irrun.garbage import pause_collection
from irrun.interrupts import block_interrupts, delay_interrupts

__all__ = ["PRELOADED_JOB", "check_is_installed", "connect"]

#: The environment variable with the job that is preloaded.
PRELOADED_JOB = "IRRUN_PRELOADED_JOB"
#: The requirement for programs, since each process imports the main module.
GUARD = "a program must call map_inputs below `if __name__ == '__main__':`"


def check_is_installed(*names: str) -> None:
    """Check that libraries of the extra `dask` are installed; by default, the libraries that `map_inputs` needs.

    Raises:
        InputError: A library is missing.
    """
    missing = [n for n in names or ("dask", "distributed", "zarr") if importlib.util.find_spec(n) is None]
    if missing == ["zarr"] and sys.version_info < (3, 11):
        raise InputError(f"mapping requires Zarr 3 and Python 3.11 or later, found Python {platform.python_version()}")
    if missing:
        raise InputError(f"mapping requires {', '.join(missing)}: pip install 'irrun[dask]'")


@contextmanager
def connect(job: Job, scheduler: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a Dask client. A local cluster is closed at the end.

    Interrupts never reach the processes of a local cluster, and are delayed while they start and end.

    Args:
        job: The job of the workers.
        scheduler: The address of a Dask scheduler, or None for a local cluster.
        workers: Number of processes of the local cluster.

    Raises:
        InputError: The scheduler does not exist, or the processes cannot start.
    """
    with ExitStack() as preloaded:
        if scheduler is None and sys.platform == "linux":
            preloaded.enter_context(_fork_from_preloaded_process(job))
        stack = ExitStack()
        try:
            with delay_interrupts():
                client = _create_client(stack, scheduler, workers)
            yield client
        finally:
            with delay_interrupts():
                stack.close()


def _create_client(stack: ExitStack, scheduler: str | None, workers: int | None) -> Any:
    import distributed

    library: Any = distributed
    if scheduler is not None:
        stack.enter_context(library.utils.silence_logging_cmgr("CRITICAL"))
        try:
            with _collect_before():
                client = library.Client(scheduler)
            return stack.enter_context(client)
        except Exception as error:  # the exception depends on the problem with the address
            raise InputError(f"cannot connect to the scheduler: {str(error) or type(error).__name__}") from None
    security = make_security()
    try:
        with block_interrupts(), _collect_before():
            cluster = library.LocalCluster(
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=1,
                processes=True,
                protocol="tls://",
                security=security,
                dashboard_address="127.0.0.1:0",
                silence_logs="CRITICAL",
            )
    except RuntimeError as error:  # each process imports the main module of the program
        raise InputError(f"worker processes could not start ({error}); {GUARD}") from error
    except Exception as error:
        text = f"worker processes could not start: {type(error).__name__}: {error}"
        raise ExecutionError(text) from error
    stack.enter_context(cluster)
    with _collect_before():
        client = library.Client(cluster)
    return stack.enter_context(client)


@contextmanager
def _collect_before() -> Iterator[None]:
    """Collect garbage now, rather than while a client or a cluster starts.

    A client that failed to connect closes when it is collected. If another client is starting in the same thread, they
    deadlock, since Dask starts and stops its event loop under one lock.
    """
    gc.collect()
    with pause_collection():
        yield


@contextmanager
def _fork_from_preloaded_process(job: Job) -> Iterator[None]:
    """Let Dask fork workers from a server process that has run the module `preload`."""
    import dask
    from distributed import utils

    library: Any = dask
    utilities: Any = utils
    with library.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        context = utilities.get_mp_context()
        context.set_forkserver_preload(["distributed", "zarr", "irrun.distributed.preload"])
        os.environ[PRELOADED_JOB] = base64.b64encode(pickle.dumps(job.select_first())).decode()
        try:
            _start_server(context)
            yield
        finally:
            os.environ.pop(PRELOADED_JOB, None)


def _start_server(context: Any) -> None:
    """Start the server process, and wait until it has run the module `preload`. An interrupt may end the wait."""
    from multiprocessing import forkserver, resource_tracker

    with delay_interrupts():
        resource_tracker.ensure_running()  # starting it later would unblock the signals
        with block_interrupts():
            forkserver.ensure_running()
    try:
        probe = context.Process(target=_do_nothing)
        probe.start()  # the server answers when it is ready
        probe.join()
    except BaseException:
        _kill_server(forkserver)
        raise


def _kill_server(forkserver: Any) -> None:
    """Kill a server process, which might compute for a long time before it notices that nobody is waiting."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        server = forkserver._forkserver
        os.kill(server._forkserver_pid, signal.SIGKILL)
        server._stop()


def _do_nothing() -> None:
    pass
