"""Child processes that are forked while other threads hold locks, import modules, compile kernels or run models."""

import gc
import importlib
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from ir_text import chain, write

import irrun
from irrun import garbage, threads
from irrun.blas import find_thread_functions
from irrun.forks import make_lock
from irrun.runtime.compilation import ProgramKernels
from irrun.runtime.program import Program

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

#: Seconds after which a child process hangs.
PATIENCE = 60


def fork(function):
    """Return the exit code of a child process that calls a function: 0 if it returns true, -SIGKILL if it hangs."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if function() else 1
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(code)
    deadline = time.monotonic() + PATIENCE
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline += PATIENCE
        time.sleep(0.002)


@contextmanager
def hold(context, seconds=None):
    """Let another thread hold a lock or be in a context, for some seconds or until the `with` block ends."""
    is_held, is_over = threading.Event(), threading.Event()

    def work():
        with context:
            is_held.set()
            is_over.wait(seconds)

    thread = threading.Thread(target=work)
    thread.start()
    is_held.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.fixture
def path(tmp_path):
    return write(tmp_path, chain("Tanh", "Relu", "Exp", shape=(2, 3)))


X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def test_locks_that_another_thread_holds_are_free():
    lock = make_lock()
    with hold(lock):
        assert fork(lambda: lock.acquire(timeout=1)) == 0
        assert lock.locked()


def test_the_lock_of_the_blas_library_and_its_runs_are_forgotten(path):
    with hold(threads._blas._lock):
        assert fork(lambda: irrun.run(path, X)[0].shape == (2, 3)) == 0
    functions = find_thread_functions()
    counts = [get() for get, _ in functions]

    def run_once():
        with threads.use_threads(1):
            pass
        return [get() for get, _ in functions] == counts

    with hold(threads.use_threads(1)):
        assert fork(run_once) == 0
    assert [get() for get, _ in functions] == counts


def test_a_collection_that_another_thread_has_paused_goes_on():
    with hold(garbage.pause_collection()):
        assert not gc.isenabled()
        assert fork(gc.isenabled) == 0
        with garbage.pause_collection():
            assert fork(lambda: not gc.isenabled()) == 0
    assert gc.isenabled()


def test_modules_that_another_thread_imports_are_complete(tmp_path, monkeypatch):
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.5)\nvalue = 1\n")
    monkeypatch.setattr(irrun, "__path__", [*irrun.__path__, str(tmp_path)])
    name = "irrun.slow_module"
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    while name not in sys.modules:
        time.sleep(0.001)
    assert not hasattr(sys.modules[name], "value")
    assert fork(lambda: importlib.import_module(name).value == 1) == 0
    thread.join()
    del sys.modules[name]


def test_modules_that_another_thread_looks_for_are_imported(tmp_path, monkeypatch):
    (tmp_path / "sought_module.py").write_text("value = 1\n")
    name, is_looking = "irrun.sought_module", threading.Event()

    class SlowFinder:
        def find_spec(self, sought, path, target=None):
            if sought == name and not is_looking.is_set():
                is_looking.set()
                time.sleep(0.5)

    monkeypatch.setattr(irrun, "__path__", [*irrun.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [SlowFinder(), *sys.meta_path])
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    is_looking.wait()
    assert fork(lambda: importlib.import_module(name).value == 1) == 0
    thread.join()
    del sys.modules[name]


def test_kernels_are_compiled_after_another_thread_has_used_llvm(path, own_kernel_cache):
    ffi = pytest.importorskip("llvmlite.binding.ffi")
    irrun.compile_model(path, jit=True)
    with hold(ffi.lib._lock, seconds=0.5):
        assert fork(lambda: irrun.compile_model(path, jit=True)(X)[0].shape == (2, 3)) == 0


def test_models_are_compiled_and_run_while_another_thread_compiles_and_runs_them(tmp_path, own_kernel_cache):
    pytest.importorskip("llvmlite")
    x = np.ones((64, 256), np.float32)
    path = write(tmp_path, chain("Tanh", "SoftSign", "Exp", "Softmax", shape=x.shape))
    compiled = irrun.compile_model(path, jit=True, threads=2)
    expected = compiled(x)[0]
    is_over = False

    def work():
        while not is_over:
            other = irrun.compile_model(path, jit=True, threads=2)
            for _ in range(20):
                other(x)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            time.sleep(0.01)
            assert (
                fork(
                    lambda: (
                        np.array_equal(compiled(x)[0], expected)
                        and np.array_equal(irrun.compile_model(path, jit=True, threads=2)(x)[0], expected)
                    )
                )
                == 0
            )
    finally:
        is_over = True
        thread.join()


def test_a_request_that_another_thread_runs_has_the_variables_from_before_the_run(path):
    compiled = irrun.compile_model(path)
    expected = compiled(X)[0]
    is_running, is_over = threading.Event(), threading.Event()

    def observe(*_):
        is_running.set()
        is_over.wait()

    thread = threading.Thread(target=compiled, args=(X,), kwargs={"observers": [observe]})
    thread.start()
    is_running.wait()
    try:
        assert fork(lambda: np.array_equal(compiled(X)[0], expected)) == 0
        with pytest.raises(irrun.ExecutionError, match="the infer request is running"):
            compiled(X)
    finally:
        is_over.set()
        thread.join()


def test_a_background_compilation_is_started_again():
    is_compiling, is_over = threading.Event(), threading.Event()
    kernels = ProgramKernels("program")
    program = Program([], [], [], [], [], [])

    def compile_slowly():
        is_compiling.set()
        is_over.wait()
        return program

    def compile_again():
        programs = [program]
        for _ in range(3):
            kernels.count_run(1, programs.pop)
        kernels.wait()
        return not programs

    for _ in range(3):
        kernels.count_run(1, compile_slowly)
    is_compiling.wait()
    try:
        assert fork(compile_again) == 0
    finally:
        is_over.set()
        kernels.wait()


def test_asynchronous_requests_start_threads_of_their_own(path):
    from irrun import openvino

    compiled = openvino.Core().compile_model(str(path))
    queue = openvino.AsyncInferQueue(compiled, 2)
    queue.start_async([X])
    queue.wait_all()
    expected = queue[0].results[0].copy()

    def run_again():
        queue.start_async([X])
        queue.wait_all()
        request = compiled.create_infer_request()
        request.start_async([X])
        request.wait()
        return np.array_equal(request.results[0], expected)

    assert fork(run_again) == 0


def test_asynchronous_runs_of_the_parent_process_are_reported(path):
    from irrun import openvino

    compiled = openvino.Core().compile_model(str(path))
    queue = openvino.AsyncInferQueue(compiled, 1)
    is_running, is_over = threading.Event(), threading.Event()

    def wait(request, userdata):
        is_running.set()
        is_over.wait()

    queue.set_callback(wait)
    queue.start_async([X])
    is_running.wait()

    def check():
        with pytest.raises(RuntimeError, match="runs continue in the parent process; start them again"):
            queue.wait_all()
        is_over.set()
        queue.start_async([X])
        queue.wait_all()
        return True

    try:
        assert fork(check) == 0
    finally:
        is_over.set()
        queue.wait_all()
