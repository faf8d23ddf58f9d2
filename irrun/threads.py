"""Threads: how many a run may use, and how large computations are divided between them.

OpenBLAS divides a product into one part per thread and waits for the slowest. Small products, and products on a
machine with busy cores, then take several times as long as on one thread. During a run, BLAS therefore uses one
thread. Large computations are divided here, into parts that the threads take one after another, so that a thread
that does not get a core delays nothing. The parts do not depend on the number of threads, and neither do the results.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from irrun.blas import find_thread_functions
from irrun.deadlines import check_time, end_at, get_deadline, within_time
from irrun.errors import InputError
from irrun.forks import make_lock, renew_in_children
from irrun.helper_threads import begin_tasks
from irrun.numerals import is_decimal
from irrun.shapes import get_broadcast_shape

__all__ = [
    "FinishPart",
    "copy_unaligned",
    "count_parts",
    "divide_time",
    "get_default_thread_count",
    "get_thread_count",
    "map_parallel",
    "multiply_matrices",
    "run_parallel",
    "split_range",
    "use_threads",
]

Array = np.ndarray[Any, Any]
#: Called with a part of a matrix, which it overwrites, and the rows and columns of the part.
FinishPart = Callable[[Array, slice, slice], object]

#: Environment variables that limit the number of threads, the most important first.
VARIABLES = ("IRRUN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Nanoseconds that a part takes at least, by estimation: to wake a thread, and to wait for the interpreter's lock while
#: another thread has it, takes about 50,000 each, and more while another process keeps a core busy.
MIN_PART_TIME = 250_000
#: Nanoseconds that a call of NumPy takes at least in a part: two threads with shorter calls mostly wait for each other.
MIN_CALL_TIME = 40_000
#: Parts of a computation at most: with more, the threads finish at almost the same time, but products are smaller.
MAX_PARTS = 16
#: Seconds that a thread waits for others before it computes their parts itself: about the time of a part.
MAX_WAITING_TIME = 3e-4
#: Products with so many elements in the inner dimension take much longer than copying their results.
MIN_COPIED_INNER = 128
#: Multiplications per nanosecond, and elements of weights that are read per nanosecond, for estimates.
MULTIPLICATION_RATE, READING_RATE = 30, 4
#: Multiplications of a product of matrices at least for the time to be checked before it.
MIN_SINGLE = 1 << 28
#: Rows and columns of the parts of a product are multiples of it, as in the kernels of BLAS.
PART_MULTIPLE = 64

_count: ContextVar[int] = ContextVar("thread_count", default=1)


def get_default_thread_count() -> int:
    """Return the number of threads of a run, from an environment variable or the number of cores.

    Raises:
        InputError: IRRUN_NUM_THREADS is not a number. 0 is the same as no value. Variables of other programs are
            ignored if irrun does not understand them.
    """
    for name in VARIABLES:
        value = os.environ.get(name, "").split(",")[0].strip()
        if is_decimal(value) and len(value) < 10 and int(value) > 0:
            return int(value)
        if value.strip("0") and name == VARIABLES[0]:
            raise InputError(f"{name} is {os.environ[name]!r}, expected a number of threads")
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def get_thread_count() -> int:
    """Return the number of threads of the current run, or 1 outside of runs."""
    return _count.get()


class _BlasLibrary:
    """The BLAS libraries of the process. Their thread counts are 1 while a run is active."""

    def __init__(self) -> None:
        self._lock = make_lock()
        #: The threads with active runs, each as often as it has one.
        self._threads: list[int] = []
        self._functions: list[tuple[Callable[[], int], Callable[[int], object]]] | None = None
        self._previous: list[int] = []
        #: The thread counts before runs of other threads, which ended when the process forked.
        self._abandoned: list[int] = []
        renew_in_children(self)

    def enter(self) -> None:
        with self._lock:
            self._threads.append(threading.get_ident())
            if len(self._threads) == 1:
                if self._functions is None:
                    self._functions = find_thread_functions()
                self._previous = self._abandoned or [get() for get, _ in self._functions]
                self._abandoned = []
                for (_, set_count), previous in zip(self._functions, self._previous, strict=True):
                    if previous != 1:
                        set_count(1)

    def leave(self) -> None:
        with self._lock:
            self._threads.remove(threading.get_ident())
            if not self._threads and self._functions is not None:
                for (_, set_count), previous in zip(self._functions, self._previous, strict=True):
                    if previous != 1:
                        set_count(previous)

    def _at_fork_reinit(self) -> None:
        own = [thread for thread in self._threads if thread == threading.get_ident()]
        if self._threads and not own:
            self._abandoned = self._previous
        self._threads = own


_blas = _BlasLibrary()


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let the computations inside a `with` block use a number of threads, and BLAS one each.

    Args:
        count: The number of threads, including the calling one.
    """
    token = _count.set(count)
    _blas.enter()
    try:
        yield
    finally:
        _blas.leave()
        _count.reset(token)


def run_parallel(function: Callable[[int], object], count: int, batch: int = 1) -> None:
    """Call a function with 0, ..., count - 1, on the threads of the current run.

    Args:
        function: Called once per part, on any thread. It must not depend on the order of the parts.
        count: The number of parts.
        batch: The least number of consecutive parts that a thread computes at a time, for parts that take less time
            than to wake a thread.

    Raises:
        Exception: The first error of the function.
    """
    batch = max(1, -(-count // max(1, count // batch)))
    helper_count = min(_count.get(), -(-count // batch)) - 1
    if helper_count < 1:
        for part in within_time(range(count)):
            function(part)
        return
    batches = iter(range(0, count, batch))
    errors: list[BaseException] = []

    def compute() -> None:
        for start in batches:
            check_time()
            for part in range(start, min(start + batch, count)):
                function(part)

    deadline = get_deadline()

    def help_out() -> None:
        try:
            with end_at(deadline):
                compute()
        except BaseException as error:
            errors.append(error)

    tasks = begin_tasks(helper_count, help_out)
    try:
        compute()
    finally:
        for _ in batches:  # after an exception, nothing else is started
            pass
        for task in tasks:
            task.finish()
    if errors:
        raise errors[0]


def map_parallel(compute: Callable[[int], Array], store: Callable[[int, Array], object], count: int) -> None:
    """Compute the parts of a result on the threads of the current run, without waiting for threads without a core.

    If a helper does not finish its part soon after the calling thread has run out of parts, the calling thread
    computes the part again, and the helper's result is discarded.

    Args:
        compute: Returns a part of the result. Called on any thread, possibly twice for the same part.
        store: Stores a part. Called once per part, on any thread, never twice at the same time, and never after
            `map_parallel` has returned.
        count: The number of parts.

    Raises:
        Exception: The first error of `compute`.
    """
    helper_count = min(_count.get(), count) - 1
    if helper_count < 1:
        for part in within_time(range(count)):
            store(part, compute(part))
        return
    parts = iter(range(count))
    missing = set(range(count))
    lock = threading.Lock()
    is_complete = threading.Lock()
    is_complete.acquire()
    errors: list[Exception] = []

    def compute_part(part: int) -> None:
        value = compute(part)
        with lock:
            if part in missing:
                store(part, value)
                missing.discard(part)
                if not missing:
                    is_complete.release()

    def help_out() -> None:
        try:
            for part in parts:
                compute_part(part)
        except Exception as error:
            errors.append(error)
            with lock:
                if missing:
                    missing.clear()
                    is_complete.release()

    tasks = begin_tasks(helper_count, help_out)
    try:
        for part in within_time(parts):
            compute_part(part)
        for task in tasks:
            task.withdraw()
        is_complete.acquire(timeout=MAX_WAITING_TIME)
        while not errors:
            with lock:
                first = min(missing, default=-1)
            if first < 0:
                break
            compute_part(first)
    finally:
        with lock:
            missing.clear()
    if errors:
        raise errors[0]


def _multiply_stacks(a: Array, b: Array, out: Array | None) -> Array:
    """Compute `np.matmul(a, b, out)` for several matrices, large ones one by one, which takes the same time."""
    rows, columns = a.shape[-2], b.shape[-1]
    if rows * a.shape[-1] * columns < MIN_SINGLE or a.shape[-1] != b.shape[-2]:
        return np.matmul(a, b, out=out)
    leading = get_broadcast_shape(a.shape[:-2], b.shape[:-2])
    result = np.empty((*leading, rows, columns), np.result_type(a, b)) if out is None else out
    first, second = np.broadcast_to(a, (*leading, *a.shape[-2:])), np.broadcast_to(b, (*leading, *b.shape[-2:]))
    for position in within_time(np.ndindex(*leading)):
        np.matmul(first[position], second[position], out=result[position])
    return result


def count_parts(rows: int, weights: int) -> int:
    """Return the number of parts of a product. It does not depend on the number of threads.

    Args:
        rows: Number of rows that are multiplied by the weights.
        weights: Number of elements of the weights.
    """
    return divide_time(max(rows * weights // MULTIPLICATION_RATE, weights // READING_RATE))


def divide_time(time: int, calls: int = 1) -> int:
    """Return the number of parts for a computation: even, so that two threads finish at the same time, or 1.

    Args:
        time: An estimate of its nanoseconds on one thread.
        calls: The number of calls of NumPy in each part.
    """
    return max(1, min(MAX_PARTS, time // max(MIN_PART_TIME, calls * MIN_CALL_TIME)) // 2 * 2)


def split_range(length: int, count: int, multiple: int = 1) -> list[slice]:
    """Return at most `count` slices of about the same length that cover a range.

    Args:
        length: Length of the range.
        count: Number of slices; 0 counts as 1.
        multiple: The slices begin at multiples of it.
    """
    step = -(-length // max(1, count))
    step += -step % multiple
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def copy_unaligned(array: Array) -> Array:
    """Return an array, or a copy of the same layout if its elements are not aligned.

    NumPy would copy it too, but to another layout, where products may be rounded differently.
    """
    return array if array.flags.aligned else array.copy("K")


def multiply_matrices(a: Array, b: Array, out: Array | None = None, finish: FinishPart | None = None) -> Array:
    """Compute `np.matmul(a, b, out)`; large products of two matrices are divided between threads.

    Args:
        a: Shape [..., M, K].
        b: Shape [..., K, N]. Products are only divided if all leading dimensions are 1.
        out: Array that the result is written to.
        finish: The function to apply to parts of the product; only for matrices.
    """
    if a.ndim < 2 or b.ndim < 2:
        return np.matmul(a, b, out=out)
    if a.size != a.shape[-2] * a.shape[-1]:
        return _multiply_stacks(a, b, out)
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    parts = count_parts(min(rows, columns), max(rows, columns) * inner)
    if parts < 2 or columns < rows:
        b = copy_unaligned(b)
    is_divided = parts >= 2 and b.shape[-2] == inner and b.size == inner * columns and a.size and b.size
    if not is_divided or a.dtype != b.dtype or (out is not None and out.shape[-2:] != (rows, columns)):
        product: Array = np.matmul(a, b, out=out)
        if finish is not None:
            finish(product, slice(0, rows), slice(0, columns))
        return product
    shape = (*get_broadcast_shape(a.shape[:-2], b.shape[:-2]), rows, columns)
    result = np.empty(shape, a.dtype) if out is None else out
    left, right = a.reshape(a.shape[-2:]), b.reshape(b.shape[-2:])
    target = result[(0,) * (result.ndim - 2)]
    length = max(rows, columns)
    step = -(-length // parts)
    step += -step % PART_MULTIPLE

    def select_part(part: int) -> tuple[slice, slice]:
        section = slice(part * step, min((part + 1) * step, length))
        return (slice(0, rows), section) if columns >= rows else (section, slice(0, columns))

    def multiply_part(part: int, out: Array | None = None) -> Array:
        place = select_part(part)
        product: Array = np.matmul(left[place[0]], copy_unaligned(right[:, place[1]]), out=out)
        if finish is not None:
            finish(product, *place)
        return product

    def store_part(part: int, product: Array) -> None:
        target[select_part(part)] = product

    part_count = -(-length // step)
    if inner >= MIN_COPIED_INNER:
        map_parallel(multiply_part, store_part, part_count)
    else:
        run_parallel(lambda part: multiply_part(part, target[select_part(part)]), part_count)
    return result
