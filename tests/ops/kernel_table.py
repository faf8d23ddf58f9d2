"""The tables of the modules that register operations and specializers, computed from what they register.

python tests/ops/kernel_table.py            # rewrite irrun/ops/_support/kernel_modules.py and irrun/fast/modules.py
python tests/ops/kernel_table.py --check    # list the operations whose entries are wrong
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

from irrun.fast import modules, specialization
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
            for operation_type in (operation.type, *operation.aliases):
                modules.setdefault(operation_type.lower(), set()).add(name)
    return {operation_type: tuple(sorted(modules[operation_type])) for operation_type in sorted(modules)}


def rewrite_table() -> None:
    """Write `kernel_modules.py` anew."""
    path = Path(kernel_modules.__file__)
    head = path.read_text(encoding="utf-8").partition("KERNEL_MODULES: ")[0]
    lines = [f"    {operation_type!r}: {modules!r}," for operation_type, modules in build_table().items()]
    table = "\n".join(["KERNEL_MODULES: dict[str, tuple[str, ...]] = {", *lines, "}"]).replace("'", '"')
    path.write_text(f"{head}{table}\n", encoding="utf-8")


def build_specializer_table() -> dict[str, str]:
    """Import all modules of `irrun.fast` and return what its `MODULES` should hold."""
    folder = Path(modules.__file__).parent
    names = [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__init__.py")]
    for name in sorted(names):
        if name not in ("__init__", "jit"):
            importlib.import_module(f"irrun.fast.{name}")
    table = {}
    for operation, specializer in specialization._specializers.items():
        name = (inspect.unwrap(specializer).__module__).split(".")[2]
        table[operation.rpartition("-")[0]] = name
    return dict(sorted(table.items()))


def rewrite_specializer_table() -> None:
    """Write `irrun/fast/modules.py` anew."""
    path = Path(modules.__file__)
    head = path.read_text(encoding="utf-8").partition("MODULES: ")[0]
    lines = [f'    "{name}": "{module}",' for name, module in build_specializer_table().items()]
    path.write_text("\n".join([f"{head}MODULES: dict[str, str] = {{", *lines, "}"]) + "\n", encoding="utf-8")


def find_wrong_entries() -> list[str]:
    """Return the operation types whose entries differ from what the modules register."""
    table, present = build_table(), kernel_modules.KERNEL_MODULES
    return [name for name in sorted(table.keys() | present.keys()) if table.get(name) != present.get(name)]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(", ".join(find_wrong_entries()) or None)
    rewrite_table()
    rewrite_specializer_table()
