"""Tasks of compiled kernels, and the team of threads that computes them."""

import ctypes
import itertools
import os
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from irrun.fast.jit import team
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function
from irrun.fast.jit.compiler import Kernel, compile_function, get_lanes
from irrun.fast.jit.tasks import SCRATCH, Call, Task, align_size, make_base, make_range_task
from irrun.threads import use_threads

COUNT = 1000


@pytest.fixture(autouse=True)
def use_own_cache(own_kernel_cache):
    """Keep the compiled kernels of these tests apart."""


def compile_scaling():
    """Return a kernel that multiplies the elements of a range by a factor and adds an integer."""
    names = [
        ("source", "ptr"),
        ("target", "ptr"),
        ("first", "i64"),
        ("last", "i64"),
        ("factor", "float"),
        ("add", "i64"),
    ]
    f = Function("scale", names, get_lanes())
    p = f.parameters
    with f.loop(p["first"], p["last"]) as i:
        value = f.load(f.offset(p["source"], i)) * p["factor"] + f.convert("sitofp", p["add"], "float")
        f.store(value, f.offset(p["target"], i))
    return compile_function(f)


def scale(source, task, thread_count):
    result = np.full(len(source), np.nan, np.float32)
    with use_threads(thread_count):
        task.run(get_address(source), get_address(result))
    return result


def make_scaling_task(part_count):
    return make_range_task(compile_scaling(), (make_base(0), make_base(1)), COUNT, part_count, (2.5, -3))


@pytest.mark.parametrize("thread_count", [1, 2, 4])
@pytest.mark.parametrize("part_count", [1, 2, 7, 100])
def test_all_parts_are_computed(part_count, thread_count):
    source = np.arange(COUNT, dtype=np.float32)
    task = make_scaling_task(part_count)
    for _ in range(20):
        np.testing.assert_array_equal(scale(source, task, thread_count), source * np.float32(2.5) - 3)


def test_kernels_take_relative_and_absolute_addresses():
    source = np.arange(COUNT, dtype=np.float32)
    result = np.zeros(COUNT, np.float32)
    kernel = compile_scaling()
    task = Task([[Call(kernel, (make_base(0).move(40), get_address(result), 0, 5, -1.0, 7))]])
    task.keep(result)
    task.run(get_address(source))
    np.testing.assert_array_equal(result[:6], [-3, -4, -5, -6, -7, 0])


def test_compiled_functions_have_an_entry():
    """Only `compile_function` adds one, which `Call` needs."""
    assert Kernel(8, ["ptr", "i64"]).entry == 0
    f = Function("do_nothing", [("data", "ptr")], get_lanes())
    kernel = compile_function(f)
    assert kernel.entry not in (0, kernel.address)
    assert kernel.identity[1] == "do_nothing"


@pytest.mark.parametrize("thread_count", [1, 4])
def test_each_thread_has_its_own_scratch_memory(thread_count):
    kernel = compile_scaling()
    length = 100
    offset = align_size(4 * length)
    parts = []
    for start in range(0, COUNT, length):
        data, result = make_base(0).move(4 * start), make_base(1).move(4 * start)
        first, second = SCRATCH, SCRATCH.move(offset)
        parts.append(
            [
                Call(kernel, (data, first, 0, length, 2.0, 1)),
                Call(kernel, (first, second, 0, length, 3.0, start)),
                Call(kernel, (second, result, 0, length, 1.0, 0)),
            ]
        )
    task = Task(parts, offset + 4 * length)
    source = np.arange(COUNT, dtype=np.float32)
    expected = (source * 2 + 1) * 3 + np.repeat(np.arange(0, COUNT, length), length)
    for _ in range(50):
        np.testing.assert_array_equal(scale(source, task, thread_count), expected)


def test_helpers_that_sleep_are_woken_up():
    source = np.arange(COUNT, dtype=np.float32)
    task = make_scaling_task(8)
    for _ in range(3):
        np.testing.assert_array_equal(scale(source, task, 3), source * np.float32(2.5) - 3)
        helpers = team._get_team()._helpers
        deadline = time.monotonic() + 60
        while not all(helper.is_asleep for helper in helpers[:2]):
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_helpers_announce_that_they_sleep_without_the_lock_of_the_interpreter():
    sleeps = ctypes.c_int64()
    has_begun = threading.Event()

    def serve():
        has_begun.set()  # the next call releases the lock
        own_team.serve(99, sleeps)

    own_team = team._get_team()
    thread = threading.Thread(target=serve)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        thread.start()
        has_begun.wait()
        deadline = time.monotonic() + 30
        while not sleeps.value:  # this thread keeps the lock
            assert time.monotonic() < deadline
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def test_threads_that_run_tasks_at_the_same_time_get_their_own_results():
    task = make_scaling_task(16)
    failures = []

    def work(seed):
        source = np.random.default_rng(seed).random(COUNT, np.float32)
        expected = source * np.float32(2.5) - 3
        for _ in range(300):
            if not np.array_equal(scale(source, task, 3), expected):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_a_team_of_its_own():
    source = np.arange(COUNT, dtype=np.float32)
    task = make_scaling_task(8)
    expected = scale(source, task, 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(scale(source, task, 2), expected) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_array_equal(scale(source, task, 2), expected)


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "arm64-apple-darwin24", "riscv64-unknown-linux-gnu"])
def test_the_code_of_the_team_is_valid_on_each_platform(triple):
    llvm = pytest.importorskip("llvmlite.binding")
    from irrun.fast.jit.team_code import make_team_code

    llvm.parse_assembly(make_team_code(triple)).verify()


def test_tasks_run_where_no_thread_can_be_started(monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread")

    source = np.arange(COUNT, dtype=np.float32)
    task = make_scaling_task(8)
    team._get_team.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        np.testing.assert_array_equal(scale(source, task, 3), source * np.float32(2.5) - 3)
    np.testing.assert_array_equal(scale(source, task, 3), source * np.float32(2.5) - 3)
    assert len(team._get_team()._helpers) == 2


@pytest.mark.parametrize("reason", ["a helper without a core", "no core for the thread"])
def test_jobs_are_computed_without_helpers_while_the_cores_are_busy(reason, monkeypatch):
    delays = itertools.chain([0, team.SAMPLE_TIME], itertools.repeat(team.SAMPLE_TIME))
    monkeypatch.setattr(team, "_read_delay", lambda: next(delays))
    load = team._Load()
    now = time.perf_counter_ns()
    assert load.allows_helpers(now)
    if reason == "a helper without a core":
        load.judge_waiting(now, 4, 0.0)
        assert load.allows_helpers(now)
        load.judge_waiting(now - 1000, 4, 1e12)
    else:
        assert load.allows_helpers(now + team.SAMPLE_TIME - 1)
        assert not load.allows_helpers(now + 2 * team.SAMPLE_TIME)
    later = now + 3 * team.SAMPLE_TIME
    assert load.allows_helpers(later + team.MAX_PENALTY)
    assert not load.allows_helpers(now + team.MIN_PENALTY // 2)
