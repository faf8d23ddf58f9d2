"""Computes the first sample of a job in the server process before it forks the workers.

The second run copies unaligned weights. Errors are ignored here; the workers report them.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import os
import pickle
import warnings

from irrun.distributed.cluster import PRELOADED_JOB
from irrun.distributed.workers import compute_samples

__all__: list[str] = []

warnings.simplefilter("ignore")  # workers write to the terminal of the user
if job := os.environ.get(PRELOADED_JOB):
    with contextlib.suppress(Exception):
        for _ in range(2):
            compute_samples(pickle.loads(base64.b64decode(job)), [0])
    gc.collect()
    gc.freeze()  # garbage collection in a worker would copy the pages of all objects
