"""The table of the modules that register operations, computed from what they register.

python tests/ops/kernel_table.py            # rewrite irrun/ops/_support/kernel_modules.py
python tests/ops/kernel_table.py --check    # list the operations whose entries are wrong
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from irrun.ops._support import kernel_modules
from irrun.ops._support.autoload import list_kernel_modules
from irrun.ops._support.operation import StructuralOperation
from irrun.ops._support.registry import list_operations


def build_table() -> dict[str, tuple[str, ...]]:
    """Import all modules and return what `KERNEL_MODULES` should hold.

    The modules of operations that do not belong to irrun are omitted.
    """
    modules: dict[str, set[str]] = {}
    own_modules = set(list_kernel_modules())
    for operation in list_operations():
        if isinstance(operation, StructuralOperation):
            name = "infrastructure.structure"  # registers all operations without kernels
        else:
            module = inspect.getmodule(operation.kernel)
            name = module.__name__.removeprefix("irrun.ops.") if module else ""
        if name in own_modules:
            modules.setdefault(operation.type.lower(), set()).add(name)
    return {operation_type: tuple(sorted(modules[operation_type])) for operation_type in sorted(modules)}


def rewrite_table() -> None:
    """Write `kernel_modules.py` anew."""
    path = Path(kernel_modules.__file__)
    head = path.read_text(encoding="utf-8").partition("KERNEL_MODULES: ")[0]
    lines = [f"    {operation_type!r}: {modules!r}," for operation_type, modules in build_table().items()]
    table = "\n".join(["KERNEL_MODULES: dict[str, tuple[str, ...]] = {", *lines, "}"]).replace("'", '"')
    path.write_text(f"{head}{table}\n", encoding="utf-8")


def find_wrong_entries() -> list[str]:
    """Return the operation types whose entries differ from what the modules register."""
    table, present = build_table(), kernel_modules.KERNEL_MODULES
    return [name for name in sorted(table.keys() | present.keys()) if table.get(name) != present.get(name)]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(", ".join(find_wrong_entries()) or None)
    rewrite_table()
