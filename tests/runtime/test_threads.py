"""Requests can run on several threads at once, and runs can use several threads."""

from __future__ import annotations

import contextvars
import functools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import irrun
from irrun import threads
from irrun.helper_threads import begin_tasks
from irrun.threads import (
    count_parts,
    divide_time,
    get_default_thread_count,
    map_parallel,
    multiply_matrices,
    run_parallel,
    use_threads,
)

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
RNG = np.random.default_rng(0)


def get_blas_counts():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_two_requests_on_two_threads_return_the_same_bits_as_one():
    """Run a model with a body, back edges and matrix products a thousand times."""
    compiled = irrun.compile_model(EXAMPLE / "model.xml")
    texts = np.load(EXAMPLE / "input.npy")
    inputs = [np.roll(texts[i % len(texts)], i // len(texts) % 3)[None] for i in range(500)]

    def run_all(_: int) -> list[tuple[bytes, bytes]]:
        request = compiled.create_infer_request()
        results = []
        for x in inputs:
            out = request.infer(x)
            results.append((out["beams"].tobytes(), out["scores"].tobytes()))
        return results

    expected = run_all(0)
    with ThreadPoolExecutor(2) as pool:
        for results in pool.map(run_all, range(2)):
            assert results == expected


def test_number_of_threads_of_a_model_does_not_change_bits():
    texts = np.load(EXAMPLE / "input.npy")[:4]
    results = []
    for count in (1, 2, 3):
        compiled = irrun.compile_model(EXAMPLE / "model.xml", threads=count)
        assert compiled.threads == count
        results.append([value.tobytes() for x in texts for value in compiled(x[None]).to_tuple()])
    assert results[0] == results[1] == results[2]


def test_invalid_number_of_threads_is_reported():
    with pytest.raises(ValueError, match="expected at least one thread, found 0"):
        irrun.compile_model(EXAMPLE / "model.xml", threads=0)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"IRRUN_NUM_THREADS": "3"}, 3),
        ({"IRRUN_NUM_THREADS": "3", "OMP_NUM_THREADS": "1"}, 3),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OPENBLAS_NUM_THREADS": "5", "IRRUN_NUM_THREADS": "0"}, 5),
    ],
)
def test_environment_sets_the_default(monkeypatch, variables, expected):
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert get_default_thread_count() >= 1
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert get_default_thread_count() == expected
    assert irrun.compile_model(EXAMPLE / "model.xml").threads == expected


def test_blas_uses_one_thread_during_a_run_and_its_own_number_afterwards():
    with threadpool_limits(2, user_api="blas"):
        before = get_blas_counts()
        with use_threads(2):
            assert all(count == 1 for count in get_blas_counts())
            with use_threads(1):
                pass
            assert all(count == 1 for count in get_blas_counts())
        assert get_blas_counts() == before


def test_blas_is_limited_when_only_threadpoolctl_finds_it(monkeypatch):
    monkeypatch.setattr(threads, "_blas", threads._BlasLibrary())
    monkeypatch.setattr("irrun.blas._load_numpy_library", None)
    with threadpool_limits(2, user_api="blas"):
        before = get_blas_counts()
        with use_threads(1):
            assert all(count == 1 for count in get_blas_counts())
        assert get_blas_counts() == before


def test_overlapping_runs_restore_the_threads_of_blas():
    barrier = threading.Barrier(2)

    def run(_):
        for _ in range(50):
            with use_threads(2):
                barrier.wait()

    with threadpool_limits(2, user_api="blas"):
        before = get_blas_counts()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(run, range(2)))
        assert get_blas_counts() == before


def test_runs_without_a_known_blas_library_work(monkeypatch):
    monkeypatch.setattr(threads, "_blas", threads._BlasLibrary())
    monkeypatch.setattr("irrun.blas._load_numpy_library", None)
    monkeypatch.setattr("threadpoolctl.ThreadpoolController", None)
    with use_threads(2):
        assert multiply_matrices(np.eye(2), np.eye(2)).tolist() == np.eye(2).tolist()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_part_runs_once(count):
    calls = []
    with use_threads(count):
        run_parallel(calls.append, 100)
        run_parallel(calls.append, 0)
    assert sorted(calls) == list(range(100))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("parts", "batch"), [(0, 4), (1, 4), (3, 4), (5, 4), (8, 4), (9, 4), (100, 7)])
def test_every_part_of_a_batch_runs_once(count, parts, batch):
    calls = []
    with use_threads(count):
        run_parallel(calls.append, parts, batch)
    assert sorted(calls) == list(range(parts))


def test_fewer_parts_than_two_batches_run_on_the_calling_thread():
    names = []
    with use_threads(2):
        run_parallel(lambda _: names.append(threading.current_thread().name), 7, 4)
    assert names == [threading.current_thread().name] * 7


def test_number_of_parts_is_even_and_grows_with_the_time():
    assert [divide_time(time * threads.MIN_PART_TIME) for time in (0, 1, 2, 3, 4, 7, 100)] == [1, 1, 2, 2, 4, 6, 16]
    assert divide_time(4_000_000, calls=50) == 2
    assert divide_time(3_900_000, calls=50) == 1


def test_withdrawn_tasks_do_not_run():
    calls = []
    is_blocked, may_continue = threading.Event(), threading.Event()

    def block():
        calls.append("block")
        is_blocked.set()
        may_continue.wait(30)

    (task,) = begin_tasks(1, block)
    is_blocked.wait(30)
    assert not task.withdraw()
    for number in range(100):  # most are withdrawn before the helper wakes up
        (other,) = begin_tasks(1, functools.partial(calls.append, number))
        if other.withdraw():
            calls.append(number)
        else:
            other._is_done.acquire()
    may_continue.set()
    task.finish()
    assert calls == ["block", *range(100)]


def test_exception_of_a_part_is_raised():
    def fail(part):
        if part == 3:
            raise KeyError(part)

    for count in (1, 2):
        with use_threads(count), pytest.raises(KeyError):
            run_parallel(fail, 10)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_part_of_a_result_is_stored_once(count):
    stored = []
    with use_threads(count):
        map_parallel(lambda part: np.array(part), lambda part, value: stored.append((part, int(value))), 50)
        map_parallel(lambda part: np.array(part), lambda part, value: stored.append(None), 0)
    assert sorted(stored) == [(part, part) for part in range(50)]


def test_parts_of_a_thread_without_a_core_are_computed_again():
    """Block the helper until the call has returned."""
    is_returned, is_blocked = threading.Event(), threading.Event()
    caller = threading.current_thread()
    stored, computed = [], set()

    def compute(part):
        if threading.current_thread() is not caller:
            is_blocked.set()
            is_returned.wait(30)
        else:
            is_blocked.wait(30)
            computed.add(part)
        return np.array(part)

    with use_threads(2):
        map_parallel(compute, lambda part, value: stored.append((part, int(value))), 4)
    assert sorted(stored) == [(part, part) for part in range(4)]
    assert computed == set(range(4))
    is_returned.set()
    with use_threads(2):
        map_parallel(lambda part: np.array(part), lambda part, value: None, 4)
    assert len(stored) == 4


def test_exception_in_a_part_of_a_result_is_raised():
    def fail(part):
        if part == 3:
            raise KeyError(part)
        return np.array(part)

    for count in (1, 2):
        with use_threads(count), pytest.raises(KeyError):
            map_parallel(fail, lambda part, value: None, 10)


def test_parts_run_without_further_threads():
    names = []
    with use_threads(2):
        run_parallel(lambda _: run_parallel(lambda _: names.append(threading.current_thread().name), 2), 2)
    assert len(names) == 4


def test_several_requests_may_divide_products_at_once():
    a, b = RNG.normal(size=(200, 300)), RNG.normal(size=(300, 4000))
    with use_threads(1):  # outside, BLAS divides products among its own threads, and may round differently
        expected = multiply_matrices(a, b).tobytes()

    def multiply(_):
        with use_threads(2):
            return [multiply_matrices(a, b).tobytes() for _ in range(5)]

    with ThreadPoolExecutor(3) as pool:
        for results in pool.map(multiply, range(3)):
            assert results == [expected] * 5


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((1, 600), (600, 5000)),
        ((40, 600), (600, 5000)),
        ((5000, 600), (600, 40)),
        ((1, 1, 100, 600), (1, 600, 1001)),
        ((5000, 300), (1, 300, 7)),
        ((2, 100, 600), (600, 1000)),
        ((600,), (600, 5000)),
        ((0, 600), (600, 5000)),
        ((3, 0), (0, 5)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_divided_products_agree_with_numpy(a_shape, b_shape, dtype):
    a, b = RNG.normal(size=a_shape).astype(dtype), RNG.normal(size=b_shape).astype(dtype)
    expected = a @ b
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(multiply_matrices(a, b))
            out = np.empty_like(expected)
            assert multiply_matrices(a, b, out) is out
            np.testing.assert_array_equal(out, results[-1])
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    assert results[0].shape == expected.shape
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-3)


def test_products_of_transposed_matrices_are_divided():
    weights, rows = RNG.normal(size=(5000, 600)).astype(np.float32), RNG.normal(size=(33, 600)).astype(np.float32)
    assert count_parts(33, weights.size) > 1
    with use_threads(2):
        np.testing.assert_allclose(multiply_matrices(rows, weights.T), rows @ weights.T, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(multiply_matrices(weights, rows.T), weights @ rows.T, rtol=1e-4, atol=1e-3)


def test_mismatching_operands_are_reported_as_by_numpy():
    with use_threads(2), pytest.raises(ValueError, match="mismatch"):
        multiply_matrices(np.ones((100, 600)), np.ones((601, 5000)))


@pytest.mark.parametrize(("rows", "columns"), [(40, 40), (64, 64), (70, 33), (33, 130)])
def test_small_results_of_long_products_are_divided_into_whole_parts(rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, 30_000), np.float32), rng.standard_normal((30_000, columns), np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert count_parts(min(rows, columns), max(rows, columns) * 30_000) > 1
    np.testing.assert_allclose(multiply_matrices(a, b), expected, rtol=0, atol=30_000**0.5 * 1e-4)


@pytest.mark.parametrize(("a", "b"), [((3, 4), (4,)), ((4,), (4, 2)), ((4,), (4,)), ((2, 3, 4), (4,))])
def test_products_with_vectors_are_those_of_numpy(a, b):
    x, y = np.arange(24.0)[: np.prod(a)].reshape(a), np.arange(8.0)[: np.prod(b)].reshape(b)
    with use_threads(2):
        np.testing.assert_array_equal(multiply_matrices(x, y), np.matmul(x, y))


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((3, 4), (4, 5)), ((1, 600), (600, 5000)), ((5000, 600), (600, 40)), ((300, 30), (30, 4000))],
)
def test_parts_of_products_are_finished_where_they_are(a_shape, b_shape):
    a, b = RNG.normal(size=a_shape), RNG.normal(size=b_shape)
    bias = RNG.normal(size=(a_shape[0], b_shape[1]))

    def add_bias(product, rows, columns):
        product += bias[rows, columns]

    for count in (1, 2):
        with use_threads(count):
            np.testing.assert_allclose(multiply_matrices(a, b, finish=add_bias), a @ b + bias, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [1, 7, 64, 100])
@pytest.mark.parametrize("count", [0, 1, 3, 8, 200])
@pytest.mark.parametrize("multiple", [1, 4, 64])
def test_ranges_are_split_into_slices_of_about_the_same_length(length, count, multiple):
    slices = threads.split_range(length, count, multiple)
    assert [i for s in slices for i in range(s.start, s.stop)] == list(range(length))
    assert len(slices) <= max(count, 1)
    assert all(s.start % multiple == 0 for s in slices)
    sizes = [s.stop - s.start for s in slices]
    smallest = math.ceil(math.ceil(length / max(count, 1)) / multiple) * multiple  # with at most so many slices
    assert all(size == smallest for size in sizes[:-1])
    assert 0 < sizes[-1] <= smallest


@pytest.mark.parametrize(
    ("rows", "weights", "expected"),
    [
        (1, 4 * 500_000 - 1, 1),  # reading the weights takes as long as two parts
        (1, 4 * 500_000, 2),
        (1, 4 * 750_000, 2),
        (1, 4 * 1_000_000, 4),
        (60, 250_000 - 1, 1),  # 15 million multiplications
        (60, 250_000, 2),
        (6000, 250_000, 16),
    ],
)
def test_parts_of_products_take_a_quarter_of_a_millisecond(rows, weights, expected):
    assert threads.count_parts(rows, weights) == expected


@pytest.mark.parametrize(
    ("calls", "time", "expected"),
    [(1, 500_000, 2), (7, 560_000, 2), (7, 559_999, 1), (6, 500_000, 2), (25, 2_000_000, 2)],
)
def test_calls_of_a_part_take_at_least_40_microseconds(calls, time, expected):
    assert threads.divide_time(time, calls) == expected


@pytest.fixture
def divided(monkeypatch):
    """The functions that divide products, each with the number of parts."""
    calls = []
    for name in ("map_parallel", "run_parallel"):
        function = getattr(threads, name)

        def record(*arguments, function=function, name=name):
            calls.append((name, arguments[-1]))
            return function(*arguments)

        monkeypatch.setattr(threads, name, record)
    return calls


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "expected"),
    [
        (8, 8, 8, []),
        (64, 1000, 512, [("map_parallel", 4)]),
        (512, 1000, 64, [("map_parallel", 4)]),
        (256, 128, 512, [("map_parallel", 2)]),
        (256, 127, 600, [("run_parallel", 2)]),
        (64, 4000, 64, [("map_parallel", 1)]),  # parts have at least 64 columns
    ],
)
def test_large_products_are_divided_along_the_longer_axis(rows, inner, columns, expected, divided):
    a, b = RNG.normal(size=(rows, inner)).astype(np.float32), RNG.normal(size=(inner, columns)).astype(np.float32)
    np.testing.assert_allclose(multiply_matrices(a, b), a @ b, rtol=1e-3, atol=1e-3)
    assert divided == expected


def test_products_of_other_types_or_shapes_are_not_divided(divided):
    a, b = RNG.normal(size=(64, 1000)), RNG.normal(size=(1000, 512))
    np.testing.assert_allclose(multiply_matrices(a.astype(np.float32), b), a.astype(np.float32) @ b, rtol=1e-6)
    stacked = np.stack([b, b])
    np.testing.assert_allclose(multiply_matrices(a, stacked), a @ stacked)
    with pytest.raises(ValueError, match="mismatch"):
        multiply_matrices(a, b, np.empty((64, 511)))
    assert divided == []


@pytest.mark.parametrize(("limit", "count"), [(24, 6), (25, 1)])
def test_large_products_of_stacks_are_computed_one_by_one(limit, count, monkeypatch):
    """So that the time is checked between them."""
    monkeypatch.setattr(threads, "MIN_SINGLE", limit)
    shapes = []
    matmul = np.matmul

    def record(a, b, out=None):
        shapes.append(a.shape)
        return matmul(a, b, out=out)

    a, b = RNG.normal(size=(2, 1, 3, 4)), RNG.normal(size=(3, 4, 2)).astype(np.float32)
    expected = matmul(a, b)
    monkeypatch.setattr(np, "matmul", record)
    result = multiply_matrices(a, b)
    out = np.empty_like(expected)
    assert multiply_matrices(a, b, out) is out
    np.testing.assert_allclose(result, expected)
    np.testing.assert_array_equal(out, result)
    assert (len(shapes), result.dtype) == (2 * count, np.float64)
    with pytest.raises(ValueError, match="mismatch"):
        multiply_matrices(a, b[:, :3])


def test_unaligned_arrays_are_copied_to_the_same_layout():
    aligned = np.arange(12.0).reshape(3, 4).T
    assert threads.copy_unaligned(aligned) is aligned
    unaligned = np.zeros(12 * 8 + 1, np.uint8)[1:].view(np.float64).reshape(3, 4).T
    unaligned[...] = aligned
    copy = threads.copy_unaligned(unaligned)
    assert copy.flags.aligned
    assert copy.strides == aligned.strides
    np.testing.assert_array_equal(copy, aligned)


def test_threads_are_the_cores_of_the_process_or_of_the_machine(monkeypatch):
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert threads.get_default_thread_count() == 3
    monkeypatch.delattr("os.sched_getaffinity")
    for count, expected in ((7, 7), (None, 1)):
        monkeypatch.setattr("os.cpu_count", lambda count=count: count)
        assert threads.get_default_thread_count() == expected


@pytest.mark.parametrize(
    ("count", "batch", "helpers"), [(2, None, 1), (3, None, 2), (9, None, 3), (4, 2, 1), (9, 4, 1)]
)
def test_parts_are_divided_between_all_threads(count, batch, helpers, monkeypatch):
    begun, parts = [], []

    def begin(number, function):
        begun.append(number)
        return []

    monkeypatch.setattr(threads, "begin_tasks", begin)
    with use_threads(4):
        run_parallel(parts.append, count, *([] if batch is None else [batch]))
    assert begun == [helpers]
    assert parts == list(range(count))


def test_parts_run_on_one_thread_outside_of_runs():
    used = []
    contextvars.Context().run(run_parallel, lambda part: used.append(threading.get_ident()), 8)
    assert used == [threading.get_ident()] * 8
