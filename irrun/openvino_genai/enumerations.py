"""Enumerations of OpenVINO GenAI."""

from __future__ import annotations

import enum

__all__ = [
    "AdapterMode",
    "AggregationMode",
    "GenerationFinishReason",
    "GenerationStatus",
    "KVCrushAnchorPointMode",
    "PoolingType",
    "SparseAttentionMode",
    "StopCriteria",
    "StreamingStatus",
]


class _Enumeration(enum.Enum):
    """An enumeration with members that convert to integers."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


class StreamingStatus(_Enumeration):
    """The answer of a streamer: continue, stop, or stop and remove the prompt from the chat."""

    RUNNING = 0
    STOP = 1
    CANCEL = 2
    TOOL_CALL_STOP = 3


class StopCriteria(_Enumeration):
    """When beam search ends."""

    EARLY = 0
    HEURISTIC = 1
    NEVER = 2


class GenerationFinishReason(_Enumeration):
    """Why a text ended."""

    NONE = 0
    STOP = 1
    LENGTH = 2
    TOOL_CALL = 3


class PoolingType(_Enumeration):
    """How the vectors of tokens are combined into one: the first one, their mean, or the last one."""

    CLS = 0
    MEAN = 1
    LAST_TOKEN = 2


class GenerationStatus(_Enumeration):
    """The state of a request of `ContinuousBatchingPipeline`."""

    RUNNING = 0
    FINISHED = 1
    IGNORED = 2
    CANCEL = 3
    STOP = 4


class AggregationMode(_Enumeration):
    """How scores of tokens in the cache are combined."""

    SUM = 0
    NORM_SUM = 1
    ADAPTIVE_RKV = 2


class SparseAttentionMode(_Enumeration):
    """Which blocks of the prompt attend to each other."""

    TRISHAPE = 0
    XATTENTION = 1


class KVCrushAnchorPointMode(_Enumeration):
    """The point that tokens in the cache are compared with."""

    RANDOM = 0
    ZEROS = 1
    ONES = 2
    MEAN = 3
    ALTERNATING = 4


class AdapterMode(_Enumeration):
    """When adapters are applied."""

    MODE_AUTO = 0
    MODE_DYNAMIC = 1
    MODE_STATIC_RANK = 2
    MODE_STATIC = 3
    MODE_FUSE = 4
