"""Enumerations of OpenVINO GenAI."""

from __future__ import annotations

import enum

__all__ = ["GenerationFinishReason", "PoolingType", "StopCriteria", "StreamingStatus"]


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
