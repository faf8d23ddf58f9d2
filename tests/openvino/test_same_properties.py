"""Names and values of properties, as on OpenVINO."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from openvino_programs import find_differences

pytest.importorskip("openvino")

MODULES = [
    "",
    "hint",
    "device",
    "streams",
    "log",
    "intel_cpu",
    "intel_gpu",
    "intel_gpu.hint",
    "intel_auto",
    "intel_npu",
]

VALUES = [
    "",
    "True",
    "False",
    "0",
    "1",
    "-1",
    "3",
    "2.5",
    "'text'",
    "None",
    "np.int64(2)",
    "np.float32(1.5)",
    "np.bool_(1)",
]
VALUES += [
    "ov.Type.f32",
    "set()",
    "[1]",
    "b'x'",
    "'a', 'b'",
    "1, 2",
    "p.num_streams",
    "p.streams.Num(3)",
    "p.streams.Num.AUTO",
]
VALUES += [f"p.hint.{name}" for name in ("PerformanceMode.LATENCY", "ExecutionMode.ACCURACY", "Priority.HIGH")]
VALUES += [
    "p.hint.SchedulingCoreType.PCORE_ONLY",
    "p.CacheMode.OPTIMIZE_SIZE",
    "p.log.Level.INFO",
    "p.WorkloadType.EFFICIENT",
]

#: The properties that OpenVINO has, as names within the module of properties.
NAMES = [
    f"{module}.{name}".lstrip(".")
    for module in MODULES
    for name, value in vars(importlib.import_module(f"irrun.openvino.properties.{module}".rstrip("."))).items()
    if isinstance(value, str) and getattr(value, "_kind", None) is not None
]

#: Properties that take any value.
OTHERS = ["p.device.priorities('CPU', 'GPU')", "p.device.priorities('CPU')", "p.device.priorities(3)"]
OTHERS += ["p.device.priorities('CPU', 3)", "p.supported_properties()", "p.supported_properties(1)", "p.hint.model()"]


def import_properties(ov: Any) -> Any:
    """Return the module of properties, with all of its submodules."""
    for module in MODULES:
        importlib.import_module(f"{ov.__name__}.properties.{module}".rstrip("."))
    return {"p": ov.properties}


def test_properties_with_values() -> None:
    programs = [f"p.{name}({value})" for name in NAMES for value in VALUES]
    assert find_differences(programs + OTHERS, import_properties, together=len(programs)) == {}


def test_enumerations() -> None:
    enumerations = [
        f"p.{module}.{name}".replace("..", ".")
        for module in MODULES
        for name, value in vars(importlib.import_module(f"irrun.openvino.properties.{module}".rstrip("."))).items()
        if hasattr(value, "__members__") and module != "intel_gpu.hint"
    ]
    programs = [
        program
        for name in enumerations
        for program in (
            f"{{n: (int(v), str(v), repr(v), v.name) for n, v in {name}.__members__.items()}}",
            f"{name}(1)",
            f"hash(list({name}.__members__.values())[-1]) >= 0",
        )
    ]
    programs += [
        "[p.streams.Num(3).to_integer(), p.streams.Num().to_integer(), p.streams.Num.AUTO.to_integer()]",
        "[p.streams.Num.NUMA.to_integer()]",
        "[vars(c) and {n: v for n, v in vars(c).items() if n[0] != '_'} for c in (p.device.Capability,)]",
        "[p.intel_gpu.MemoryType.surface, p.intel_gpu.MemoryType.buffer]",
        "[p.intel_gpu.CapabilityGPU.HW_MATMUL, p.intel_gpu.CapabilityGPU.USM_MEMORY]",
        "p.enable_profiling + 'x'",
        "str(p.enable_profiling)",
        "p.enable_profiling == 'PERF_COUNT'",
        "p.nothing",
    ]
    assert find_differences(programs, import_properties, together=len(programs)) == {}
