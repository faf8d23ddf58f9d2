"""`irrun ops`: list supported operations, or describe one from the signature and docstring of its kernel."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand
from irrun.cli.imports import import_option

if TYPE_CHECKING:
    from irrun.ops._support.attributes import Attribute
    from irrun.ops._support.operation import Operation

__all__ = ["command"]

#: Line width of the output.
WIDTH = 100
SECTIONS = ("Args", "Returns", "Raises", "Spec")


def _complete_type(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the types of operations that begin with a text, ignoring case."""
    from irrun.ops._support.registry import list_operations

    types = sorted({operation.type for operation in list_operations()})
    return [name for name in types if name.lower().startswith(incomplete.lower())]


@click.command(
    "ops",
    cls=ExampleCommand,
    examples=[
        "irrun ops Gather",
        "irrun ops Gather-7",
    ],
)
@click.argument("name", required=False, metavar="[TYPE]", shell_complete=_complete_type)
@import_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> None:
    """List the supported operations by category, or describe the versions of one TYPE."""
    from irrun.cli.tables import print_lines
    from irrun.ops._support.registry import list_operations

    operations = list(list_operations())
    if name is not None:
        operations = _select(name, operations)
    if as_json:
        click.echo(json.dumps([_to_json(operation) for operation in operations]))
    elif name is None:
        print_lines(_format_catalog(operations))
    else:
        for number, operation in enumerate(operations):
            print_lines([*[""] * (2 * (number > 0)), *_format_page(operation)])


def _get_width() -> int:
    """Return the length of lines: less on narrow terminals."""
    from irrun.cli.terminal import find_width

    return min(WIDTH, find_width(sys.stdout)) if sys.stdout.isatty() else WIDTH


def _select(name: str, operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations of a type ("Gather") or the one of a type and version ("Gather-7")."""
    from irrun.errors import InputError

    types = {o.type for o in operations if name in o.aliases}
    names = {name.lower(), *(operation_type.lower() for operation_type in types)}
    selected = [o for o in operations if o.type.lower() in names or str(o).lower() in names]
    selected = selected or [o for o in operations if names & _get_pages(o)]
    if not selected:
        matches = ", ".join(difflib.get_close_matches(name, sorted({o.type for o in operations}), 3, 0.6))
        raise InputError(f"unknown operation {name!r}" + (f"; did you mean {matches}?" if matches else ""))
    return selected


def _get_pages(operation: Operation) -> set[str]:
    """Return the pages of the specification that describe an operation, in lower case.

    The name of a page may contain another version: Acosh-3 describes the Acosh of opset 4.
    """
    text = _split_sections(_get_docstring(operation)).get("Spec", "")
    return {page.strip().lower() for page in re.split(r"[,\n]", text)}


def _format_catalog(operations: Sequence[Operation]) -> Iterator[str]:
    categories: dict[str, dict[str, list[str]]] = {}
    for o in operations:
        versions = categories.setdefault(o.category, {}).setdefault(o.type, [])
        versions.append(o.opset or str(o.since))
    for category in sorted(categories):
        types = categories[category]
        yield f"{category} ({sum(map(len, types.values()))})"
        text = ", ".join(f"{name}-{'/'.join(versions)}" for name, versions in types.items())
        yield from _wrap(text, 2)
    numbered = sum(1 for o in operations if o.opset is None)
    yield ""
    yield f"{numbered} versioned operations of the numbered opsets, {len(operations) - numbered} others"


def _format_page(operation: Operation) -> Iterator[str]:
    """Yield the lines that describe an operation."""
    sections = _split_sections(_get_docstring(operation))
    summary, _, details = sections.pop("").partition("\n")
    arguments = _parse_arguments(sections.pop("Args", ""))
    kernel = _get_kernel_name(operation)
    yield f"{operation} ({operation.category})"
    yield from _wrap(summary, 2)
    yield ""
    if kernel is None:
        yield "  no kernel: the operation is part of the structure of the graph"
    else:
        yield from _format_signature(operation, kernel)
    if details.strip():
        yield ""
        yield from textwrap.indent(details.strip("\n"), "  ").splitlines()
    yield from ("", "  Inputs:")
    for i, port in enumerate(operation.inputs):
        index = f"{i}..." if port.variadic else str(i)
        yield f"    {index}: {port.name}{' (optional)' if port.optional else ''}"
        yield from _wrap(arguments.get(port.name, ""), 8)
    if not operation.inputs:
        yield "    none"
    yield from ("", "  Attributes:")
    for attribute in operation.attributes:
        yield f"    {attribute.name}: {attribute.type_name}, {_format_default(attribute)}"
        yield from _wrap(arguments.get(attribute.name, ""), 8)
    if not operation.attributes:
        yield "    none"
    if operation.provided:
        yield from ("", "  Arguments from the runtime:")
        for name in operation.provided:
            yield f"    {name}"
            yield from _wrap(arguments.get(name, ""), 8)
    for title, text in sections.items():
        yield from ("", f"  {title}:")
        yield from textwrap.indent(text, "    ").splitlines()


def _format_signature(operation: Operation, kernel: str) -> Iterator[str]:
    """Yield the kernel's qualified name and signature, with one parameter per line if it is long."""
    signature = inspect.signature(operation.kernel)
    parameters: list[str] = []
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in parameters and not any(q.startswith("*") for q in parameters):
            parameters.append("*")
        annotation = "" if p.annotation is p.empty else f": {_format_annotation(p.annotation)}"
        default = "" if p.default is p.empty else f"{' = ' if annotation else '='}{_format_constant(p.default)}"
        parameters.append(f"{'*' * (p.kind is p.VAR_POSITIONAL)}{p.name}{annotation}{default}")
    result = signature.return_annotation
    end = "" if result is inspect.Signature.empty else f" -> {_format_annotation(result)}"
    line = f"  {kernel}({', '.join(parameters)}){end}"
    if len(line) <= _get_width():
        yield line
    else:
        yield f"  {kernel}("
        yield from (f"      {parameter}," for parameter in parameters)
        yield f"  ){end}"


def _format_annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _format_constant(value: Any) -> str:
    from irrun.element_types import ElementType

    return str(value) if isinstance(value, ElementType) else repr(value)


def _split_sections(docstring: str) -> dict[str, str]:
    """Split a Google-style docstring into its sections; the text before the first one has the key ""."""
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in docstring.splitlines():
        if line.endswith(":") and line[:-1] in SECTIONS:
            current = line[:-1]
            sections[current] = []
        else:
            sections[current].append(line)
    return {title: textwrap.dedent("\n".join(lines)).strip("\n") for title, lines in sections.items()}


def _parse_arguments(text: str) -> dict[str, str]:
    """Return the description of each parameter in an Args section."""
    arguments: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        match = re.match(r"\*{0,2}(\w+)(?: \([^)]*\))?: *(.*)", line)
        if match:
            name = match[1]
            arguments[name] = [match[2]]
        elif name:
            arguments[name].append(line.strip())
    return {name: " ".join(lines).strip() for name, lines in arguments.items()}


def _wrap(text: str, indent: int) -> Iterable[str]:
    margin = " " * indent
    whole: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    return textwrap.wrap(text, _get_width(), initial_indent=margin, subsequent_indent=margin, **whole)


def _to_json(operation: Operation) -> dict[str, Any]:
    return {
        "type": operation.type,
        "since": operation.since or None,
        "opset": operation.opset,
        "category": operation.category,
        "inputs": [{"name": i.name, "optional": i.optional, "variadic": i.variadic} for i in operation.inputs],
        "attributes": [
            {"name": a.name, "type": a.type_name, "required": a.required}
            | ({} if a.required else {"default": _format_value(a.default)})
            for a in operation.attributes
        ],
        "kernel": _get_kernel_name(operation),
        "summary": _get_docstring(operation).partition("\n")[0],
    }


def _get_kernel_name(operation: Operation) -> str | None:
    """Return the qualified name of the kernel, or None for an operation without a kernel."""
    from irrun.ops._support.operation import StructuralOperation

    if isinstance(operation, StructuralOperation):
        return None
    return f"{operation.kernel.__module__}.{operation.kernel.__qualname__}"


def _get_docstring(operation: Operation) -> str:
    from irrun.ops._support.operation import StructuralOperation

    if isinstance(operation, StructuralOperation):
        return operation.summary
    return inspect.getdoc(operation.kernel) or ""


def _format_default(attribute: Attribute) -> str:
    return "required" if attribute.required else f"default {_format_value(attribute.default)}"


def _format_value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return repr(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
