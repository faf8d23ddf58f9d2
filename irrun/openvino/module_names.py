"""The modules that OpenVINO's releases have under several names, each found as one module."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import types
from collections.abc import Sequence
from typing import Any

__all__ = ["PACKAGE", "ModuleFinder", "find_module_name", "load_as"]

PACKAGE = "irrun.openvino"

#: Modules with the names of the whole package.
_FACADES = ("_ov_api", "_pyopenvino", "ie_api", "pyopenvino", "runtime")

#: Modules by their names in some release, after the facades.
_MOVED = {
    "_op_base": "custom_operation",
    "frontend.frontend": "frontend",
    "helpers.packing": "helpers",
    "opset_utils": "utils.node_factory",
    "package_utils": "utils",
    "passes.graph_rewrite": "passes",
    "passes.manager": "passes",
    "properties._properties": "properties",
    "tools.mo": "mo",
    "tools.mo.convert": "mo",
    "tools.ovc": "ovc",
    "tools.ovc.convert": "ovc",
    "util": "utils",
    "utils.data_helpers.data_dispatcher": "utils.data_helpers",
    "utils.data_helpers.wrappers": "utils.data_helpers",
    "utils.postponed_constant": "utils",
}


def find_module_name(name: str) -> str | None:
    """Return the qualified name of irrun's module for a module of OpenVINO, or None.

    Args:
        name: The name within `openvino`, such as "runtime.utils.types"; empty for `openvino` itself.
    """
    parts = name.split(".") if name else []
    while parts and parts[0] in _FACADES:
        parts.pop(0)
    name = ".".join(parts)
    name = _MOVED.get(name, re.sub(r"^(opset\d+)\.ops$", r"\1", name))
    own_name = f"{PACKAGE}.{name}" if name else PACKAGE
    return own_name if _exists(own_name) else None


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
    except ValueError:  # modules without a file, such as the opsets
        return True


class ModuleFinder(importlib.abc.MetaPathFinder):
    """Finds a package with OpenVINO's modules.

    Args:
        root: The name of the package.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Return the specification of a module, or None."""
        if name != self._root and not name.startswith(f"{self._root}."):
            return None
        if self._root == PACKAGE and name[len(PACKAGE) + 1 :].partition(".")[0] not in _FACADES:
            return None
        own_name = find_module_name(name[len(self._root) + 1 :])
        return own_name and load_as(name, own_name)


def load_as(name: str, own_name: str) -> importlib.machinery.ModuleSpec:
    """Return the specification of a module under another name.

    Args:
        name: The other name.
        own_name: The name of the module.
    """
    return importlib.machinery.ModuleSpec(name, _Loader(own_name), is_package=True)


class _Loader(importlib.abc.Loader):
    """Loads a module by importing another one.

    Args:
        own_name: The name of the other module.
    """

    def __init__(self, own_name: str) -> None:
        self.own_name = own_name
        self.spec: Any = None

    def create_module(self, spec: Any) -> types.ModuleType:
        """Return the other module."""
        module = importlib.import_module(self.own_name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Restore the specification, which the import system replaced."""
        module.__spec__ = self.spec
