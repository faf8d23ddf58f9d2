"""The values that properties accept."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "CacheMode",
    "CompatibilityCheck",
    "CompilerType",
    "DeviceType",
    "ExecutionMode",
    "LogLevel",
    "ModelDistributionPolicy",
    "Num",
    "PerformanceMode",
    "Priority",
    "SchedulePolicy",
    "SchedulingCoreType",
    "TbbPartitioner",
    "WorkloadType",
]


class _Enumeration(IntEnum):
    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {int(self)}>"


class _Entries:
    """Members by their names, each with None for its description, as in classes of pybind11."""

    def __get__(self, instance: object, owner: type[IntEnum]) -> dict[str, tuple[IntEnum, None]]:
        return {name: (member, None) for name, member in owner.__members__.items()}


setattr(_Enumeration, "__entries", _Entries())


class CacheMode(_Enumeration):
    """The optimization goal of a model cache."""

    OPTIMIZE_SIZE = 0
    OPTIMIZE_SPEED = 1


class CompatibilityCheck(_Enumeration):
    """Whether an exported model can be imported."""

    NOT_APPLICABLE = 0
    SUPPORTED = 1
    UNSUPPORTED = 2


class WorkloadType(_Enumeration):
    """The priority of a workload."""

    DEFAULT = 0
    EFFICIENT = 1


class DeviceType(_Enumeration):
    """The kind of a device."""

    INTEGRATED = 0
    DISCRETE = 1

    def __str__(self) -> str:
        return f"Type.{self.name}"


class ExecutionMode(_Enumeration):
    """Whether accuracy or performance matters more."""

    PERFORMANCE = 1
    ACCURACY = 2


class PerformanceMode(_Enumeration):
    """Whether latency or throughput matters."""

    LATENCY = 1
    THROUGHPUT = 2
    CUMULATIVE_THROUGHPUT = 3


class Priority(_Enumeration):
    """The priority of a model or of requests."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    DEFAULT = 1


class SchedulingCoreType(_Enumeration):
    """The cores that run models."""

    ANY_CORE = 0
    PCORE_ONLY = 1
    ECORE_ONLY = 2


class ModelDistributionPolicy(_Enumeration):
    """How a model is distributed over devices."""

    TENSOR_PARALLEL = 0
    PIPELINE_PARALLEL = 1


class SchedulePolicy(_Enumeration):
    """The order in which the device AUTO uses devices."""

    ROUND_ROBIN = 0
    DEVICE_PRIORITY = 1
    DEFAULT = 1


class TbbPartitioner(_Enumeration):
    """How loops are divided among threads."""

    STATIC = 1
    AUTO = 2


class LogLevel(_Enumeration):
    """The level of messages."""

    NO = -1
    ERR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3
    TRACE = 4

    def __str__(self) -> str:
        return f"Level.{self.name}"


class CompilerType(_Enumeration):
    """The compiler of models for an NPU."""

    PLUGIN = 0
    DRIVER = 1
    PREFER_PLUGIN = 2


class Num:
    """A number of streams.

    Args:
        value: The number; -1 for a number that the device chooses, and -2 for one per NUMA node.
    """

    AUTO: Num
    NUMA: Num

    def __init__(self, value: int = -1) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Num) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def to_integer(self) -> int:
        """Return the number."""
        return self.value


Num.AUTO = Num(-1)
Num.NUMA = Num(-2)
