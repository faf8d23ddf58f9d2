"""Values beyond a limit of memory are kept in a file."""

from __future__ import annotations

import importlib
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

from irrun import inspection
from irrun.inspection import instruments, metrics, openvino_model, rounding, spool, trace_file

VALUES = {
    "first": np.arange(6, dtype=np.float32).reshape(2, 3),
    "transposed": np.arange(12, dtype=np.int16).reshape(3, 4).T,
    "empty": np.zeros((0, 5), np.float64),
    "scalar": np.array(7, np.int64),
    "bf16": np.array([1.5, -2], ml_dtypes.bfloat16),
    "strings": np.array(["a", "bcd"], object),
    "last": np.linspace(0, 1, 50),
}


@pytest.mark.parametrize("memory", [0, 24, 100, 1 << 20])
def test_values_are_returned_from_memory_and_file(monkeypatch, memory):
    monkeypatch.setattr(spool, "MEMORY", memory)
    values = spool.Spool()
    for key, value in VALUES.items():
        values.put(key, value)
    for key in reversed(VALUES):
        assert key in values
        value = values.get(key)
        assert value.dtype == VALUES[key].dtype
        np.testing.assert_array_equal(value, VALUES[key])
    assert "other" not in values
    assert values.get("other") is None
    values.close()
    assert "first" not in values
    assert values.get("last") is None


def test_memory_is_limited(monkeypatch):
    monkeypatch.setattr(spool, "MEMORY", 100)
    values = spool.Spool()
    kept = [np.ones(10, np.float32), np.ones(15, np.float32), np.ones(1, np.float32)]
    for i, value in enumerate(kept):
        values.put(str(i), value)
    assert [values.get(str(i)) is value for i, value in enumerate(kept)] == [True, True, False]


def test_file_is_created_when_it_is_required(monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    values = spool.Spool()
    values.put("x", np.ones(3))
    values.close()


def test_memory_of_inspections_is_limited():
    assert spool.MEMORY == openvino_model.BATCH_BYTES == trace_file.MAX_INDEX == 2**28
    assert (metrics.CHUNK, rounding.SAMPLE) == (2**13, 2**16)
    assert instruments.MAX_EVENTS == 200_000
    assert openvino_model.SMALL_BATCH == 24


def test_names_of_the_package_are_not_its_modules():
    assert dir(inspection) == sorted(inspection.__all__)
    assert "profile" in dir(inspection)
    importlib.import_module("irrun.inspection.profiling")
    importlib.import_module("irrun.inspection.comparing")
    assert not isinstance(inspection.profile, ModuleType)
    assert not isinstance(inspection.compare, ModuleType)
    assert isinstance(inspection.spool, ModuleType)
    with pytest.raises(AttributeError, match=r"module 'irrun\.inspection' has no attribute 'nothing'"):
        _ = inspection.nothing


def test_functions_of_the_package_can_be_replaced(monkeypatch):
    monkeypatch.setattr(inspection, "profile", len)
    assert vars(inspection)["profile"] is len
