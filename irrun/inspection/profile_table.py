"""Profiles as rows of text, for tables on terminals and in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from irrun.formatting import format_count
from irrun.inspection.modules import choose_depth, format_module
from irrun.inspection.profile_layers import LayerProfile
from irrun.inspection.profiling import MAX_MODULES, Grouping, Profile

if TYPE_CHECKING:
    from rich.table import Table

    from irrun.inspection.openvino_profile import LayerPair

__all__ = [
    "Sort",
    "describe_candidates",
    "describe_profile",
    "format_quantity",
    "make_openvino_rows",
    "make_profile_rows",
    "make_rich_table",
]

#: How rows are sorted; None keeps the order of the groups.
Sort = Literal["order", "time", "excess"]
Rows = tuple[tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]

#: Maximum number of layers listed as worth making faster.
MAX_CANDIDATES = 5
#: Layers that could save at least this share of the run are worth making faster.
MIN_SAVING = 0.01
#: Maximum difference, as a share, between the sum of the layers and the time of a run that needs no remark.
MAX_DEVIATION = 0.05
#: Maximum number of listed types of fused layers.
MAX_TYPES = 4


def make_profile_rows(
    profile: Profile,
    by: Grouping = "layer",
    depth: int | None = None,
    sort: Sort | None = None,
    top: int | None = None,
) -> Rows:
    """Return the header, the rows and the titles of the columns that are aligned to the right.

    Args:
        profile: The profile.
        by: How the layers are grouped.
        depth: As for `Profile.group`.
        sort: The order of the rows.
        top: The number of groups; None for all.
    """
    groups = profile.group(by, depth)
    if sort in ("time", "excess"):
        groups = sorted(groups, key=lambda group: -(group.seconds if sort == "time" else group.excess))
    names = ("time", "share", "flop", "GFLOP/s", "bytes", "alive", "above bound")
    rows = [(*_describe_group(group, by), *_format_numbers(profile, group)) for group in groups[:top]]
    total = profile.total
    share = f"{profile.executor_seconds / _get_run_seconds(profile):.1%}" if _get_run_seconds(profile) else ""
    empty = ("",) * (len(_get_titles(by)) - 1)
    rows.append(("executor", *empty, _format_seconds(profile.executor_seconds), share, *("",) * 5))
    rows.append(("total", *empty, _format_seconds(_get_run_seconds(profile)), "100.0%", *_format_work(total)))
    return (*_get_titles(by), *names), rows, ("calls", *names)


def make_openvino_rows(
    profile: Profile,
    by: Grouping = "layer",
    depth: int | None = None,
    sort: Sort | None = None,
    top: int | None = None,
) -> Rows:
    """Return the header, the rows and the titles of the columns that are aligned to the right.

    Layers that only one of the engines runs are summed up in one row per engine.

    Args:
        profile: A profile with the counters of OpenVINO.
        by: How layers that both engines run are grouped.
        depth: As for `Profile.group`.
        sort: The order of the rows. By "excess", the layers that lose the most time against OpenVINO are first.
        top: The number of groups; None for all.
    """
    assert profile.openvino is not None
    pairs = profile.openvino.pairs
    matched = _group_pairs([pair for pair in pairs if pair.is_matched], by, depth)
    if sort == "time":
        matched.sort(key=lambda pair: -(pair.seconds or 0))
    elif sort == "excess":
        matched.sort(key=lambda pair: (pair.openvino_seconds or 0) - (pair.seconds or 0))
    right = ("flop", "irrun", "OpenVINO", "ratio")
    rows: list[tuple[str, ...]] = [
        (
            pair.key,
            _join_types(pair.type.split("+")) if by == "layer" else str(len(pair.layers)),
            format_quantity(pair.flops),
            _format_seconds(pair.seconds or 0),
            _format_seconds(pair.openvino_seconds or 0),
            _format_ratio(pair.ratio),
            ", ".join(pair.kernels),
        )
        for pair in matched[:top]
    ]
    if top is not None and len(matched) > top:
        rows.append(_sum_pairs(format_count(len(matched) - top, "more row"), matched[top:]))
    own = [pair for pair in pairs if pair.openvino_seconds is None]
    inserted = [pair for pair in pairs if pair.seconds is None]
    if own:
        rows.append(_sum_pairs(f"{len(own)} only in irrun", own))
    if inserted:
        rows.append(_sum_pairs(f"{len(inserted)} only in OpenVINO", inserted))
    rows.append(_sum_pairs("total", pairs))
    return (by, "type" if by == "layer" else "layers", *right, "kernel"), rows, right


def _group_pairs(pairs: list[LayerPair], by: Grouping, depth: int | None) -> list[LayerPair]:
    """Return the sums of groups of layers that irrun and OpenVINO run."""
    if by == "layer":
        return pairs
    if depth is None:
        depth = choose_depth((pair.module for pair in pairs), MAX_MODULES)
    groups: dict[str, list[LayerPair]] = {}
    for pair in pairs:
        groups.setdefault(pair.type if by == "type" else format_module(pair.module[:depth]), []).append(pair)
    return [
        replace(
            group[0],
            key=_join_types(key.split("+")) if by == "type" else key,
            layers=tuple(name for pair in group for name in pair.layers),
            seconds=sum(pair.seconds or 0 for pair in group),
            openvino_seconds=sum(pair.openvino_seconds or 0 for pair in group),
            kernels=tuple(dict.fromkeys(name for pair in group for name in pair.kernels)),
            flops=sum(pair.flops or 0 for pair in group),
        )
        for key, group in groups.items()
    ]


def describe_profile(profile: Profile) -> list[str]:
    """Return the totals as sentences.

    Args:
        profile: The profile.
    """
    total, machine = profile.total, profile.machine
    rate = f", {total.flops / profile.untimed_seconds / 1e9:.1f} GFLOP/s" if total.flops else ""
    program = "optimized" if profile.optimized else "plain"
    lines = [
        f"Profile: {_format_seconds(profile.untimed_seconds)} per run (median of {profile.runs}, {program} program), "
        f"{_format_seconds(profile.seconds)} with timers, {format_quantity(total.flops)} FLOP{rate}, "
        f"at most {_format_bytes(profile.peak)} alive",
        f"This machine with {machine.threads} thread{'s' if machine.threads > 1 else ''}: "
        f"{machine.flops_per_second / 1e9:.0f} GFLOP/s in matrix products, "
        f"{machine.bytes_per_second / 1e9:.1f} GB/s in copies",
    ]
    covered = _get_run_seconds(profile)
    if abs(covered - profile.seconds) > MAX_DEVIATION * profile.seconds:
        lines.append(
            f"The medians of the layers add up to {_format_seconds(covered)}: times vary between runs, perhaps because "
            "other programs use the processor"
        )
    if profile.unknown_flops:
        lines.append(f"FLOP count unknown: {', '.join(profile.unknown_flops)}")
    for fallback in profile.fallbacks:
        lines.append(f"Fast kernel of {fallback.layers[-1]} failed, so the plain kernel ran: {fallback.reason}")
    return lines


def describe_candidates(profile: Profile) -> list[tuple[str, str]]:
    """Return the layers worth making faster: the layers with the most time above the machine's minimum.

    Args:
        profile: The profile.

    Returns:
        The key of each layer, and its time and bound as text.
    """
    minimum = MIN_SAVING * _get_run_seconds(profile)
    layers = [layer for layer in profile.layers if layer.excess > minimum]
    layers.sort(key=lambda layer: -layer.excess)
    return [
        (
            f"{layer.key} ({_join_types(layer.types or (layer.type,))})",
            f"{_format_seconds(layer.seconds)}, bound {_format_seconds(layer.bound)}",
        )
        for layer in layers[:MAX_CANDIDATES]
    ]


def make_rich_table(profile: Profile, max_rows: int) -> Table:
    """Return the slowest layers as a table of rich.

    Args:
        profile: The profile.
        max_rows: Maximum number of layers.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from irrun.errors import escape_unprintable

    header, rows, right = make_profile_rows(profile, sort="time", top=max_rows)
    title = Text("\n".join(map(escape_unprintable, describe_profile(profile))))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True, min_width=8 if i else 12)
    for row in rows:
        table.add_row(*(Text(escape_unprintable(cell)) for cell in row))
    return table


def format_quantity(number: float | None) -> str:
    """Return a number with a decimal unit, such as "8.21 G", and "-" for None.

    Args:
        number: The number.
    """
    if number is None:
        return "-"
    value = float(number)
    for unit in ("", "K", "M", "G"):
        if abs(value) < 999.5:
            return f"{value:.0f} {unit}".rstrip() if unit == "" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.4g} T"


def _get_titles(by: Grouping) -> tuple[str, ...]:
    return {"layer": ("layer", "type", "calls"), "type": ("type", "calls"), "module": ("module", "layers")}[by]


def _describe_group(group: LayerProfile, by: Grouping) -> tuple[str, ...]:
    if by == "layer":
        return group.key, _join_types(group.types or (group.type,)), str(group.calls)
    return group.key, str(group.calls if by == "type" else len(group.layers))


def _join_types(types: Sequence[str]) -> str:
    shown = "+".join(types[:MAX_TYPES])
    return shown if len(types) <= MAX_TYPES else f"{shown}+{len(types) - MAX_TYPES} more"


def _format_numbers(profile: Profile, group: LayerProfile) -> tuple[str, ...]:
    return _format_seconds(group.seconds), f"{profile.get_share(group):.1%}", *_format_work(group)


def _format_work(group: LayerProfile) -> tuple[str, ...]:
    rate = group.flops_per_second
    return (
        format_quantity(group.flops),
        "-" if rate is None else f"{rate / 1e9:.1f}",
        _format_bytes(group.bytes),
        _format_bytes(group.alive),
        _format_seconds(group.excess),
    )


def _format_bytes(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{format_quantity(count)}B"


def _format_seconds(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


def _get_run_seconds(profile: Profile) -> float:
    """Return the seconds of all layers and the executor."""
    return profile.total.seconds + profile.executor_seconds


def _format_ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _sum_pairs(title: str, pairs: Sequence[LayerPair]) -> tuple[str, ...]:
    own, other = sum(p.seconds or 0 for p in pairs), sum(p.openvino_seconds or 0 for p in pairs)
    flops = sum(p.flops or 0 for p in pairs)
    ratio = _format_ratio(own / other if own and other else None)
    return title, "", format_quantity(flops), _format_seconds(own), _format_seconds(other), ratio, ""
