"""Fixtures and paths shared by many tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Compiled kernels round differently. Tests that compare bits run without them, unless the variable is set.
os.environ.setdefault("IRRUN_JIT", "off")

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of real models next to the checkout; skip the test if it is missing."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real models are not available")
    return folder


@pytest.fixture(autouse=True)
def forbid_plain(request, monkeypatch):
    """Fail where a specialized kernel fails, instead of running the plain instructions.

    This holds in tests of specialized kernels and of the runtime, except those that are marked with `falls_back`.
    """
    if request.path.parent.name not in ("fast", "runtime") or request.node.get_closest_marker("falls_back"):
        return

    def fail(self, instruction, values):
        raise AssertionError(f"the specialized kernel of {instruction.layer.describe()} failed")

    monkeypatch.setattr("irrun.runtime.executor.Executor._run_plain", fail)


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
