"""Inspection of runs: traces, comparison with a reference, checks of values.

Everything here is built on observers; the executor does not depend on it. The public names are listed in `__all__`;
each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irrun.inspection.bench_results import Bench as Bench
    from irrun.inspection.benchmark import bench as bench
    from irrun.inspection.checks import CheckFinding as CheckFinding
    from irrun.inspection.checks import CheckReport as CheckReport
    from irrun.inspection.checks import check as check
    from irrun.inspection.comparing import compare as compare
    from irrun.inspection.comparison import Comparison as Comparison
    from irrun.inspection.comparison import LayerComparison as LayerComparison
    from irrun.inspection.comparison import OutputComparison as OutputComparison
    from irrun.inspection.conditions import Condition as Condition
    from irrun.inspection.conditions import parse_condition as parse_condition
    from irrun.inspection.cure import Cure as Cure
    from irrun.inspection.cure import CureStep as CureStep
    from irrun.inspection.cure import find_cure as find_cure
    from irrun.inspection.debugger import Breakpoint as Breakpoint
    from irrun.inspection.debugger import breakpoint as breakpoint  # noqa: A004
    from irrun.inspection.differences import LayerDifference as LayerDifference
    from irrun.inspection.differences import ModelDifferences as ModelDifferences
    from irrun.inspection.differences import diff as diff
    from irrun.inspection.keys import KeyTable as KeyTable
    from irrun.inspection.keys import Selection as Selection
    from irrun.inspection.metrics import Metrics as Metrics
    from irrun.inspection.metrics import measure as measure
    from irrun.inspection.metrics import measure_top_k as measure_top_k
    from irrun.inspection.profile_layers import LayerProfile as LayerProfile
    from irrun.inspection.profiling import Profile as Profile
    from irrun.inspection.profiling import profile as profile
    from irrun.inspection.recording import Recorder as Recorder
    from irrun.inspection.recording import record as record
    from irrun.inspection.reduction import Reduction as Reduction
    from irrun.inspection.reduction import reduce as reduce
    from irrun.inspection.replaying import replay as replay
    from irrun.inspection.trace import Trace as Trace
    from irrun.inspection.trace import TracedValue as TracedValue

#: The public names by the module that defines them.
_NAMES = {
    "bench_results": ("Bench",),
    "benchmark": ("bench",),
    "checks": ("CheckFinding", "CheckReport", "check"),
    "comparing": ("compare",),
    "comparison": ("Comparison", "LayerComparison", "OutputComparison"),
    "conditions": ("Condition", "parse_condition"),
    "cure": ("Cure", "CureStep", "find_cure"),
    "debugger": ("Breakpoint", "breakpoint"),
    "differences": ("LayerDifference", "ModelDifferences", "diff"),
    "keys": ("KeyTable", "Selection"),
    "metrics": ("Metrics", "measure", "measure_top_k"),
    "profile_layers": ("LayerProfile",),
    "profiling": ("Profile", "profile"),
    "recording": ("Recorder", "record"),
    "reduction": ("Reduction", "reduce"),
    "replaying": ("replay",),
    "trace": ("Trace", "TracedValue"),
}
_MODULES = {name: f"irrun.inspection.{module}" for module, names in _NAMES.items() for name in names}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module 'irrun.inspection' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
