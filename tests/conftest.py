"""Fixtures and paths shared by many tests."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from skips import count_reasons, describe_skips

# Compiled kernels round differently. Tests that compare bits run without them, unless the variable is set.
os.environ.setdefault("IRRUN_JIT", "off")

# Without compiled modules, each process that a test starts would compile all of irrun, and each run all tests.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False

# Shells start background jobs with interrupts ignored, which programs that tests start would inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without OpenVINO, its name would refer to the folder with the tests of its replacement.
_openvino = importlib.util.find_spec("openvino")
if _openvino is not None and _openvino.origin is None:
    sys.modules["openvino"] = None  # type: ignore[assignment]

SHARED = Path(__file__).parents[2] / "shared"
#: The number of deselected tests that are marked as slow.
SLOW = pytest.StashKey[int]()


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count slow tests that are not run since the options do not ask for them."""
    if items and not items[0].config.option.keyword and items[0].config.option.markexpr == "not slow":
        stash = items[0].config.stash
        stash[SLOW] = stash.get(SLOW, 0) + sum(item.get_closest_marker("slow") is not None for item in items)


def pytest_collection_finish() -> None:
    """Exclude the modules and tests from the search for cyclic garbage, which would visit them again and again.

    Only workers do: debuggers and other tools do not find the objects that are excluded.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        gc.collect()
        gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that prints how many slow tests this worker did not run."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["slow"] = session.config.stash.get(SLOW, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Note how many slow tests a worker did not run; all workers collect the same tests."""
    node.config.stash[SLOW] = getattr(node, "workeroutput", {}).get("slow", 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Iterator[None]:
    """End with what was skipped, and how to run it."""
    yield
    reasons = count_reasons(terminalreporter.stats.get("skipped", []))
    lines = describe_skips(reasons, config.stash.get(SLOW, 0))
    if lines:
        terminalreporter.ensure_newline()
        terminalreporter.write_line("\n".join(lines), yellow=True)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of real models next to the checkout; skip the test if it is missing."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real models are not in ../shared/data")
    return folder


@pytest.fixture(scope="session")
def backend_tests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the backend tests of ONNX by name, which all processes that run tests share."""
    from onnx_backend.suite import share_tests

    folder = tmp_path_factory.getbasetemp()
    return share_tests(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(autouse=True)
def forbid_plain(request):
    """Fail where a specialized kernel fails, instead of running the plain instructions.

    This holds in tests of specialized kernels and of the runtime, except those that are marked with `falls_back`.
    """
    if request.path.parent.name not in ("fast", "runtime") or request.node.get_closest_marker("falls_back"):
        return

    def fail(self, instruction, error):
        raise AssertionError(f"the specialized kernel of {instruction.layer.describe()} failed") from error

    request.getfixturevalue("monkeypatch").setattr("irrun.runtime.executor.RequestState.count_fallback", fail)


@pytest.fixture(autouse=True)
def keep_interrupt_handler():
    """Fail a test that leaves another handler of interrupts behind."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) == handler


@pytest.fixture(autouse=True)
def forbid_aliases(monkeypatch):
    """Find kernels by their source texts only, since tests change the functions that make them."""
    from irrun.fast.jit import compiler

    monkeypatch.setattr(compiler, "USES_ALIASES", False)


@pytest.fixture(scope="module")
def own_kernel_cache(tmp_path_factory):
    """Keep compiled kernels in a folder of the module, so that they are compiled by the code that is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def without_panels(monkeypatch):
    """Multiply as on processors for which BLAS has no kernels for small matrices."""
    monkeypatch.setattr("irrun.fast.panels.has_small_kernels", lambda: False)


@pytest.fixture(params=[False, True], ids=["whole products", "panels"])
def any_products(request, monkeypatch):
    """Multiply as on all processors, with and without kernels of BLAS for small matrices."""
    monkeypatch.setattr("irrun.fast.panels.has_small_kernels", lambda: request.param)
    monkeypatch.setattr("irrun.fast.panels._products", {})
