"""Generate the reference pages of the documentation site: commands, operations and API."""

from __future__ import annotations

import inspect
from collections import defaultdict
from pathlib import Path
from types import FunctionType

import click

import irrun
from irrun.cli import _group as cli
from irrun.ops._support.operation import Operation, StructuralOperation
from irrun.ops._support.registry import list_operations

__all__ = ["write_pages"]

#: Columns of the help of commands.
WIDTH = 84


def write_pages(folder: Path) -> None:
    """Write all reference pages into a folder, which is created if it is missing."""
    (folder / "operations").mkdir(parents=True, exist_ok=True)
    _write(folder / "commands.rst", format_commands())
    _write(folder / "api.rst", format_api())
    categories = group_operations()
    _write(folder / "onnx.rst", format_exports(categories))
    _write(folder / "operations" / "index.rst", format_index(categories))
    indexed: set[str] = set()
    for operations in categories.values():
        for name, versions in operations.items():
            _write(folder / "operations" / f"{name}.rst", format_operation(name, versions, indexed))


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:  # unchanged pages are not built again
        path.write_text(text, encoding="utf-8")


def format_title(title: str, character: str = "=") -> str:
    """Return a title in reStructuredText."""
    return f"{title}\n{character * len(title)}\n\n"


def format_commands() -> str:
    """Return the page of the command line: the help of every command."""
    context = click.Context(cli, info_name="irrun", terminal_width=WIDTH)
    text = format_title("Command line") + _format_block(cli.get_help(context))
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None and not command.hidden:
            help_text = command.get_help(click.Context(command, parent=context, info_name=name, terminal_width=WIDTH))
            text += format_title(f"irrun {name}", "-") + _format_block(help_text)
    return text


def _format_block(text: str) -> str:
    lines = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return f".. code-block:: text\n\n{lines}\n\n"


def format_api() -> str:
    """Return the page of the Python API: every public name."""
    text = format_title("Python API")
    text += "`irrun.openvino` offers :doc:`the API of OpenVINO </openvino_api>` as well.\n\n"
    documented: set[object] = set()
    for module in (irrun, irrun.inspection):
        text += format_title(module.__name__, "-")
        values = [getattr(module, name) for name in sorted(module.__all__, key=str.lower)]
        values = [v for v in values if isinstance(v, type | FunctionType) and v not in documented]
        documented.update(values)
        text += "".join(_format_member(value) for value in values if inspect.isfunction(value))
        text += "".join(_format_member(value) for value in values if inspect.isclass(value))
    return text


def _format_member(value: type | FunctionType) -> str:
    path = f"{value.__module__}.{value.__qualname__}"
    if inspect.isfunction(value):
        return f".. autofunction:: {path}\n\n"
    members = "" if issubclass(value, (Exception, tuple)) else "   :members:\n"
    return f".. autoclass:: {path}\n{members}\n"


def group_operations() -> dict[str, dict[str, list[Operation]]]:
    """Return all operations by category and type."""
    categories: dict[str, dict[str, list[Operation]]] = defaultdict(lambda: defaultdict(list))
    for operation in list_operations():
        if operation.kernel.__module__.startswith("irrun."):
            categories[operation.category][operation.type].append(operation)
    return {category: dict(sorted(categories[category].items())) for category in sorted(categories)}


def format_index(categories: dict[str, dict[str, list[Operation]]]) -> str:
    """Return the index of all operations."""
    text = format_title("Operations")
    for category, operations in categories.items():
        text += format_title(category.capitalize(), "-") + ".. toctree::\n   :maxdepth: 1\n\n"
        text += "".join(f"   {name}\n" for name in operations) + "\n"
    return text


def format_exports(categories: dict[str, dict[str, list[Operation]]]) -> str:
    """Return the page of the operations that can be exported to ONNX."""
    from irrun.export.rules import describe_rule

    text = format_title("Export to ONNX") + "How :doc:`irrun export </export>` expresses each operation.\n\n"
    for category, operations in categories.items():
        text += format_title(category.capitalize(), "-") + ".. list-table::\n   :header-rows: 1\n\n"
        text += "   * - operation\n     - in ONNX\n"
        for operation in (version for versions in operations.values() for version in versions):
            text += f"   * - {operation}\n     - {describe_rule(str(operation))}\n"
        text += "\n"
    return text


def format_operation(name: str, versions: list[Operation], indexed: set[str]) -> str:
    """Return the page of an operation: every version with its kernel's documentation.

    Args:
        name: The type.
        versions: All versions.
        indexed: The kernels of the pages before this one, which are added to. A kernel is indexed once.
    """
    text = format_title(name)
    documented: set[str] = set()
    for operation in versions:
        text += format_title(str(operation), "-")
        if isinstance(operation, StructuralOperation):
            text += f"{operation.summary} It belongs to the structure of a graph and has no kernel.\n\n"
            continue
        function = inspect.unwrap(operation.kernel)
        path = f"{operation.kernel.__module__}.{operation.kernel.__name__}"
        if path in documented:
            text += f"Computed by :py:func:`{function.__name__} <{path}>`, like the version above.\n\n"
        else:
            documented.add(path)
            option = "   :no-index:\n" if path in indexed else ""
            text += f".. autofunction:: {path}\n{option}\n"
    indexed.update(documented)
    return text
