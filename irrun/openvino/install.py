"""Installation of `irrun.openvino` under the name `openvino`."""

from __future__ import annotations

import email.message
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["install_as_openvino"]

_NAME = "openvino"
_PACKAGE = "irrun.openvino"

#: Submodules of OpenVINO that do not depend on its libraries and are used if they are installed.
_FOREIGN = "openvino.tools"

#: The converter of models, which depends on the libraries of OpenVINO, and the module that replaces it.
_CONVERTER = "openvino.tools.ovc"
_OWN_CONVERTER = "irrun.openvino.ovc"


def install_as_openvino(*, replace: bool = False) -> types.ModuleType:
    """Let `import openvino` import `irrun.openvino`, in this process.

    Args:
        replace: Whether to do so even if OpenVINO is installed.

    Returns:
        The module.

    Raises:
        RuntimeError: OpenVINO is installed or imported, and `replace` is False.
    """
    module = importlib.import_module(_PACKAGE)
    if sys.modules.get(_NAME) is module:
        return module
    if not replace and (_NAME in sys.modules or importlib.util.find_spec(_NAME) is not None):
        raise RuntimeError("openvino is installed; pass replace=True to use irrun.openvino instead")
    for name in [n for n in sys.modules if n == _NAME or n.startswith(f"{_NAME}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    sys.modules[_NAME] = module
    return module


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `openvino` and its submodules, and states its version."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Return the specification of a module, or None."""
        if name == _NAME:
            return importlib.machinery.ModuleSpec(name, _Loader(_PACKAGE), is_package=True)
        if not name.startswith(f"{_NAME}."):
            return None
        if name == _FOREIGN:
            folders = [os.path.join(entry or ".", _NAME) for entry in sys.path]
            spec = importlib.machinery.PathFinder.find_spec(name, [f for f in folders if os.path.isdir(f)])
            return spec or importlib.machinery.ModuleSpec(name, None, is_package=True)
        if name == _CONVERTER:
            return importlib.machinery.ModuleSpec(name, _Loader(_OWN_CONVERTER), is_package=True)
        if name.startswith(f"{_FOREIGN}."):
            return None
        own_name = _PACKAGE + name[len(_NAME) :]
        if own_name not in sys.modules and not _exists(own_name):
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(own_name), is_package=True)

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        """Return the distribution that states the version of `openvino`."""
        if getattr(context, "name", None) in (None, _NAME):
            yield _Distribution()


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


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
        module.__spec__ = self.spec if self.spec is not None else module.__spec__


class _Distribution(importlib.metadata.Distribution):
    """The metadata of `openvino`."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the metadata."""
        if filename not in ("METADATA", "PKG-INFO"):
            return None
        from irrun.openvino.version import VERSION

        message = email.message.Message()
        message["Metadata-Version"] = "2.1"
        message["Name"] = _NAME
        message["Version"] = VERSION.partition("-")[0]
        return message.as_string()

    def locate_file(self, path: Any) -> Any:
        """Return a path unchanged."""
        return path
