"""Installation of `irrun.openvino` and `irrun.openvino_genai` under the names `openvino` and `openvino_genai`."""

from __future__ import annotations

import email.message
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

from irrun.openvino.module_names import PACKAGE, ModuleFinder, load_as

__all__ = ["install_as_openvino"]

_NAME = "openvino"
#: OpenVINO GenAI, with the extension module that its classes belong to.
_GENAI = ("openvino_genai", "openvino_genai.py_openvino_genai")

#: Submodules of OpenVINO that do not depend on its libraries and are used if they are installed.
_FOREIGN = "openvino.tools"


def install_as_openvino(*, replace: bool = False) -> types.ModuleType:
    """Let `import openvino` import `irrun.openvino`, and `import openvino_genai` its namesake, in this process.

    Args:
        replace: Whether to do so even if OpenVINO is installed.

    Returns:
        The module.

    Raises:
        RuntimeError: OpenVINO is installed or imported, and `replace` is False.
    """
    module = importlib.import_module(PACKAGE)
    if sys.modules.get(_NAME) is module:
        return module
    if not replace and (_NAME in sys.modules or importlib.util.find_spec(_NAME) is not None):
        raise RuntimeError("openvino is installed; pass replace=True to use irrun.openvino instead")
    for name in [n for n in sys.modules if n == _NAME or n.startswith(f"{_NAME}.") or n in _GENAI]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(_NAME))
    sys.modules[_NAME] = module
    return module


class _Finder(ModuleFinder):
    """Finds `openvino` and its submodules, and states its version."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Return the specification of a module, or None."""
        if name in _GENAI:
            return load_as(name, "irrun.openvino_genai")
        if name == _FOREIGN:
            folders = [os.path.join(entry or ".", _NAME) for entry in sys.path]
            spec = importlib.machinery.PathFinder.find_spec(name, [f for f in folders if os.path.isdir(f)])
            return spec or importlib.machinery.ModuleSpec(name, None, is_package=True)
        return super().find_spec(name, path, target)

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        """Return the distribution that states the version of `openvino`."""
        if getattr(context, "name", None) in (None, _NAME):
            yield _Distribution()


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
