"""Imports the modules of irrun's own kernels when they are needed.

`KERNEL_MODULES` says which modules register an operation type, so that compiling a model imports only the modules of
its operations. A test compares it with what the modules register; `python -m irrun.ops._support.autoload` rewrites it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator

from irrun.ops._support.kernel_modules import KERNEL_MODULES, OPSET_MODULES

__all__ = ["build_table", "list_kernel_modules", "load_all", "load_kernels", "load_opset"]


def load_kernels(*operation_types: str) -> None:
    """Import the modules that register operations of these types, in whatever case they are spelled."""
    for operation_type in operation_types:
        for module in KERNEL_MODULES.get(operation_type.lower(), ()):
            _load(module)


def load_opset(opset: str) -> None:
    """Import the module that derives the operations of `opset` from the numbered ones, if there is one."""
    if opset in OPSET_MODULES:
        _load(OPSET_MODULES[opset])


def load_all() -> None:
    """Import every module of kernels."""
    for module in list_kernel_modules():
        _load(module)


def list_kernel_modules() -> Iterator[str]:
    """Yield the names of all modules of kernels, relative to `irrun.ops`."""
    import irrun.ops

    prefix = "irrun.ops."
    for module in pkgutil.walk_packages(irrun.ops.__path__, prefix):
        name = module.name.removeprefix(prefix)
        if not name.startswith("_"):
            yield name


@functools.cache
def _load(module: str) -> None:
    importlib.import_module(f"irrun.ops.{module}")


def build_table() -> dict[str, tuple[str, ...]]:
    """Import all modules and return what `KERNEL_MODULES` should hold.

    The modules of operations that do not belong to irrun are omitted.
    """
    import inspect

    from irrun.ops._support.operation import StructuralOperation
    from irrun.ops._support.registry import list_operations

    modules: dict[str, set[str]] = {}
    own_modules = set(list_kernel_modules())
    for operation in list_operations():
        if isinstance(operation, StructuralOperation):
            name = operation.category  # there is no kernel, but the module has the name of the category
        else:
            module = inspect.getmodule(operation.kernel)
            name = module.__name__.removeprefix("irrun.ops.") if module else ""
        if name in own_modules:
            modules.setdefault(operation.type.lower(), set()).add(name)
    return {operation_type: tuple(sorted(modules[operation_type])) for operation_type in sorted(modules)}


def _rewrite() -> None:
    """Write `kernel_modules.py` anew."""
    from pathlib import Path

    from irrun.ops._support import kernel_modules

    path = Path(kernel_modules.__file__)
    head = path.read_text(encoding="utf-8").partition("KERNEL_MODULES: ")[0]
    lines = [f"    {operation_type!r}: {modules!r}," for operation_type, modules in build_table().items()]
    table = "\n".join(["KERNEL_MODULES: dict[str, tuple[str, ...]] = {", *lines, "}"]).replace("'", '"')
    path.write_text(f"{head}{table}\n", encoding="utf-8")


if __name__ == "__main__":
    _rewrite()
