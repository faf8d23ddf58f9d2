"""`irrun ops`: what is supported, read from the kernels' signatures."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

import click

__all__ = ["command"]


@click.command("ops")
@click.argument("type", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(type: str | None, as_json: bool) -> None:
    """List the supported operations by category, or explain one TYPE: its versions, inputs, attributes and kernel.

    \b
    irrun ops Gather
    irrun ops Gather-7
    """
    from irrun.errors import InputError
    from irrun.ops._support.registry import TYPE_ALIASES, list_operations

    every = list(list_operations())
    if type is not None:
        wanted = {type.lower(), TYPE_ALIASES.get(type, type).lower()}
        chosen = [o for o in every if o.type.lower() in wanted or str(o).lower() in wanted]
        if not chosen:
            near = _near(type, [o.type for o in every])
            raise InputError(f"no operation {type!r}" + (f"; is it {near}?" if near else ""))
        every = chosen
    if as_json:
        click.echo(json.dumps([_facts(o) for o in every]))
    elif type is None:
        click.echo(_catalogue(every))
    else:
        click.echo("\n\n".join(_page(o) for o in every))


def _catalogue(every: Sequence[Any]) -> str:
    import textwrap

    categories: dict[str, dict[str, list[str]]] = {}
    for o in every:
        versions = categories.setdefault(o.category, {}).setdefault(o.type, [])
        versions.append(o.opset or str(o.since))
    lines = []
    for category in sorted(categories):
        types = categories[category]
        count = sum(map(len, types.values()))
        lines.append(f"{category} ({count})")
        text = ", ".join(f"{name}-{'/'.join(v)}" for name, v in types.items())
        lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    numbered = sum(1 for o in every if o.opset is None)
    lines.append(f"\n{numbered} versioned operations of the numbered opsets, {len(every) - numbered} others")
    return "\n".join(lines)


def _page(o: Any) -> str:
    summary, _, rest = (inspect.getdoc(o.kernel) or "").partition("\n")
    lines = [f"{o} ({o.category})", f"  {summary}", "", "  inputs"]
    for i, one in enumerate(o.inputs):
        mark = "*" if one.variadic else ""
        lines.append(f"    {i}{'...' if one.variadic else ''}: {mark}{one.name}{' (optional)' if one.optional else ''}")
    if not o.inputs:
        lines.append("    none")
    lines += ["", "  attributes"]
    for a in o.attributes:
        default = "required" if a.required else f"default {_default(a.default)}"
        lines.append(f"    {a.name}: {a.type_name}, {default}")
    if not o.attributes:
        lines.append("    none")
    lines += ["", f"  kernel: {o.kernel.__module__}.{o.kernel.__qualname__}"]
    if rest.strip():
        lines += ["", *(f"  {line}".rstrip() for line in rest.strip("\n").splitlines())]
    return "\n".join(lines)


def _facts(o: Any) -> dict[str, Any]:
    return {
        "type": o.type,
        "since": o.since or None,
        "opset": o.opset,
        "category": o.category,
        "inputs": [{"name": i.name, "optional": i.optional, "variadic": i.variadic} for i in o.inputs],
        "attributes": [
            {"name": a.name, "type": a.type_name, "required": a.required}
            | ({} if a.required else {"default": _default(a.default)})
            for a in o.attributes
        ],
        "kernel": f"{o.kernel.__module__}.{o.kernel.__qualname__}",
        "summary": (inspect.getdoc(o.kernel) or "").partition("\n")[0],
    }


def _default(value: Any) -> str:
    return (
        "none"
        if value is None
        else repr(value)
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def _near(type: str, known: list[str]) -> str:
    import difflib

    return ", ".join(difflib.get_close_matches(type, sorted(set(known)), 3, 0.6))
