"""Import of the modules of irrun's kernels when a model requires them.

`KERNEL_MODULES` lists the modules that register each operation type, so that compiling a model imports only the modules
of its operations. A test compares it with the modules; `python tests/ops/kernel_table.py` rewrites it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator

from irrun.ops._support.kernel_modules import KERNEL_MODULES, OPSET_MODULES

__all__ = ["list_kernel_modules", "load_all", "load_kernels", "load_opset"]


def load_kernels(*operation_types: str) -> None:
    """Import the modules that register operations of these types, regardless of case."""
    for operation_type in operation_types:
        for module in KERNEL_MODULES.get(operation_type.lower(), ()):
            _load(module)


def load_opset(opset: str) -> None:
    """Import the module that derives the operations of `opset` from the numbered ones, if there is one."""
    if opset in OPSET_MODULES:
        _load(OPSET_MODULES[opset])


@functools.cache
def load_all() -> None:
    """Import every module of kernels."""
    for module in list_kernel_modules():
        _load(module)


def list_kernel_modules() -> Iterator[str]:
    """Yield the names of all modules of kernels, relative to `irrun.ops`."""
    import pkgutil

    import irrun.ops

    prefix = "irrun.ops."
    for module in pkgutil.walk_packages(irrun.ops.__path__, prefix):
        name = module.name.removeprefix(prefix)
        if not name.startswith(("_", "shape_rules")):
            yield name


@functools.cache
def _load(module: str) -> None:
    importlib.import_module(f"irrun.ops.{module}")
