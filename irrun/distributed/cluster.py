"""The Dask cluster: one that exists, or the processes of this machine.

On Linux, the processes of this machine are forked from one that has compiled the model and computed a sample. They
share its modules, its packed weights and its compiled kernels.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import pickle
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from irrun.distributed.jobs import Job
from irrun.errors import InputError

__all__ = ["PRELOADED_JOB", "check_is_installed", "connect"]

#: The environment variable with the job that is preloaded.
PRELOADED_JOB = "IRRUN_PRELOADED_JOB"


def check_is_installed() -> None:
    """Raise an InputError if Dask or Zarr is not installed."""
    missing = [name for name in ("dask", "distributed", "zarr") if importlib.util.find_spec(name) is None]
    if missing == ["zarr"] and sys.version_info < (3, 11):
        raise InputError(f"mapping requires Zarr 3 and Python 3.11 or later, found Python {platform.python_version()}")
    if missing:
        raise InputError(f"mapping requires {', '.join(missing)}: pip install 'irrun[dask]'")


@contextmanager
def connect(job: Job, scheduler: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a Dask client; a local cluster is closed in the end.

    Args:
        job: The job of the workers.
        scheduler: The address of a Dask scheduler, or None for a local cluster.
        workers: Number of processes of the local cluster.

    Raises:
        InputError: There is no such scheduler, or the processes cannot start.
    """
    import distributed

    library: Any = distributed
    with ExitStack() as stack:
        if scheduler is not None:
            try:
                client = library.Client(scheduler)
            except (OSError, ValueError) as error:
                raise InputError(f"cannot connect to the scheduler: {error}") from None
            yield stack.enter_context(client)
            return
        if sys.platform == "linux":
            stack.enter_context(_fork_from_preloaded_process(job))
        try:
            cluster = library.LocalCluster(
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                silence_logs="CRITICAL",
            )
        except RuntimeError as error:  # each process imports the main module of the program
            raise InputError(
                f"worker processes could not start ({error}); a program must call map_inputs below "
                "`if __name__ == '__main__':`"
            ) from error
        stack.enter_context(cluster)
        yield stack.enter_context(library.Client(cluster))


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
            yield
        finally:
            os.environ.pop(PRELOADED_JOB, None)
