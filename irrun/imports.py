"""Python files that register custom operations."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from irrun.errors import InputError

__all__ = ["import_file"]


class _SourceLoader(SourceFileLoader):
    """Loads a file from its source; compiled files do not show changes within a second that keep the size."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_file(path: Path) -> ModuleType:
    """Execute a Python file as a module.

    Args:
        path: The file.

    Returns:
        The module.

    Raises:
        InputError: The file does not exist, raises an exception or exits.
    """
    if not path.is_file():
        raise InputError(f"expected a Python file, found {str(path)!r}")
    if path.suffix != ".py":
        raise InputError(f"expected a file that ends in .py, found {str(path)!r}")
    name = f"irrun_import_{path.stem}"
    loader = _SourceLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # as for a script, so that the file can import its neighbors
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        location = f"{path}:{frames[-1].lineno}" if frames else str(path)
        raise InputError(f"{location}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module
