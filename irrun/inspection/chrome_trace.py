"""Profiles in the Trace Event Format, which Perfetto, speedscope and chrome://tracing open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from irrun.inspection.modules import format_module
from irrun.runtime.observer import Scope

if TYPE_CHECKING:
    from irrun.inspection.instruments import Event
    from irrun.inspection.profile_layers import LayerProfile
    from irrun.inspection.profiling import Profile

__all__ = ["make_chrome_trace"]

PROCESS, THREAD = 1, 1


def make_chrome_trace(profile: Profile) -> dict[str, Any]:
    """Return the calls of the last run as complete events, and the memory of values as a counter.

    Calls in bodies are nested in one event per iteration. Weights and inputs do not count as memory of values.

    Args:
        profile: The profile.
    """
    events = sorted(profile.events, key=lambda item: (item[1].start, -item[1].end))
    origin = events[0][1].start if events else math.nan
    return {
        "traceEvents": [
            _name("process_name", f"irrun: {profile.model}"),
            _name("thread_name", f"run on {profile.machine.threads} threads"),
            *(_make_iteration(*item, origin) for item in _find_iterations([event for _, event in events])),
            *(_make_call(layer, event, origin) for layer, event in events),
            *_make_memory_track(events, origin),
        ],
        "displayTimeUnit": "ms",
        "otherData": {"dropped_events": profile.dropped_events},
    }


def _name(kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": THREAD, "ts": 0, "args": {"name": name}}


def _make_call(layer: LayerProfile, event: Event, origin: float) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "type": "+".join(layer.types) or layer.type,
        "module": format_module(layer.module),
        "outputs": list(layer.outputs),
        "flops": None if layer.flops is None else layer.flops // max(layer.calls, 1),
        "bytes": layer.bytes // max(layer.calls, 1),
    }
    if len(layer.layers) > 1:
        arguments["layers"] = list(layer.layers)
    if event.scope:
        arguments["iteration"] = event.scope[-1][1]
    return _make_event(layer.key, layer.type, event.start, event.end, origin, arguments)


def _make_memory_track(events: list[tuple[LayerProfile, Event]], origin: float) -> list[dict[str, Any]]:
    """Return a counter of the live bytes while each layer runs, the maximum over its calls; 0 at the end."""
    track: list[tuple[float, int]] = []
    for layer, event in events:
        if not track or track[-1][1] != layer.alive:
            track.append((event.start, layer.alive))
    if events:
        track.append((max(event.end for _, event in events), 0))
    return [
        {"ph": "C", "name": "memory", "ts": round((time - origin) * 1e9) / 1000, "pid": PROCESS,
         "args": {"values in bytes": alive}}
        for time, alive in track
    ]  # fmt: skip


def _make_iteration(scope: Scope, start: float, end: float, origin: float) -> dict[str, Any]:
    owner, number = scope[-1]
    return _make_event(f"iteration {number}", "iteration", start, end, origin, {"layer": owner.name})


def _make_event(
    name: str, category: str, start: float, end: float, origin: float, arguments: dict[str, Any]
) -> dict[str, Any]:
    # Both ends are rounded to nanoseconds, so that nested events stay nested.
    begin, stop = round((start - origin) * 1e9), round((end - origin) * 1e9)
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "ts": begin / 1000,
        "dur": (stop - begin) / 1000,
        "pid": PROCESS,
        "tid": THREAD,
        "args": arguments,
    }


def _find_iterations(events: list[Event]) -> list[tuple[Scope, float, float]]:
    """Return the iterations of bodies, from the start of the first call to the end of the last."""
    iterations: dict[tuple[tuple[int, int], ...], tuple[Scope, float, float]] = {}
    result: list[tuple[Scope, float, float]] = []
    for event in events:
        scope = event.scope
        if not scope:
            result += iterations.values()
            iterations = {}
        for depth in range(1, len(scope) + 1):
            key = tuple((id(owner), number) for owner, number in scope[:depth])
            _, start, end = iterations.get(key, (scope, event.start, event.end))
            iterations[key] = (scope[:depth], min(start, event.start), max(end, event.end))
    return [*result, *iterations.values()]
