"""Write the parameter names of OpenVINO's node factories to `irrun/openvino/signatures.txt`.

The names are read from the installed `openvino` package. Run it from the root of the repository:

    python docs/make_openvino_signatures.py
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from irrun.ops._support import registry

#: Functions of different names than their operations.
ALIASES = {"absolute": "abs", "ceil": "ceiling"}
LAST_OPSET = 17


def describe(function: object, operation: object) -> str:
    """Return the parameters of a function, separated by spaces."""
    defaults = {a.name: None if a.required else str(a.default).lower() for a in operation.attributes}
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = parameter.default
        is_value = isinstance(default, (bool, int, float, str)) and parameter.name in defaults
        has_default = is_value and str(default).lower() != defaults[parameter.name]
        parts.append(f"{parameter.name}={default}" if has_default else parameter.name)
    return " ".join(parts)


def collect() -> dict[str, list[tuple[int, str, str]]]:
    """Return the signatures of all opsets."""
    operations: dict[str, list] = {}
    for operation in registry.list_operations():
        if operation.opset is None:
            operations.setdefault(operation.type.lower(), []).append(operation)
    table: dict[str, list[tuple[int, str, str]]] = {}
    for opset in range(1, LAST_OPSET + 1):
        module = importlib.import_module(f"openvino.opset{opset}")
        for name in dir(module):
            function = getattr(module, name)
            versions = operations.get(ALIASES.get(name, name).replace("_", ""))
            if versions is None or inspect.isclass(function) or not callable(function):
                continue
            operation = max((o for o in versions if o.since <= opset), key=lambda o: o.since, default=versions[0])
            entry = (opset, operation.type, describe(function, operation))
            entries = table.setdefault(name, [])
            if not entries or entries[-1][1:] != entry[1:]:
                entries.append(entry)
    return table


def main() -> None:
    """Write the file."""
    lines = [
        " ".join(filter(None, (name, str(opset), operation_type, parameters)))
        for name, entries in sorted(collect().items())
        for opset, operation_type, parameters in entries
    ]
    path = Path(__file__).parents[1] / "irrun" / "openvino" / "signatures.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
