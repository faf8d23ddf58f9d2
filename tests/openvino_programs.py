"""Small programs that run on OpenVINO and on its replacement, and what is compared of their results."""

from __future__ import annotations

import contextlib
import copy
import enum
import importlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MODULES = ("openvino", "irrun.openvino")

#: The newest opset that OpenVINO has as a module.
OPSET = "opset15"

#: Makes the names that programs use, of a module.
Scope = Callable[[Any], dict[str, Any]]


def read_programs(name: str) -> list[str]:
    """Return the programs in a file of `openvino/programs`, one in each line."""
    path = Path(__file__).parent / "openvino" / "programs" / f"{name}.txt"
    return path.read_text(encoding="utf-8").splitlines()


def import_modules(name: str) -> dict[str, Any]:
    """Return the modules of OpenVINO, or of its replacement, under the names that programs use."""
    names = {"ov": "", "ops": f".{OPSET}", "pp": ".preprocess", "props": ".properties", "passes": ".passes"}
    for module in (
        ".utils",
        *(f".utils.{n}" for n in ("types", "node_factory", "reduction", "broadcasting")),
        ".helpers",
    ):
        importlib.import_module(name + module)
    modules = {short: importlib.import_module(name + rest) for short, rest in names.items()}
    return {**modules, "np": np, "copy": copy}


def run_programs(programs: Iterable[str], name: str, make_scope: Scope) -> list[Any]:
    """Run programs one after another, and return a description of the value of the last statement of each.

    Args:
        programs: Statements, which semicolons separate.
        name: The name of the module: OpenVINO or its replacement.
        make_scope: Makes the names that they use besides the modules.
    """
    scope = import_modules(name)
    scope |= make_scope(scope["ov"])
    return [run_program(program, scope) for program in programs]


def run_program(program: str, scope: dict[str, Any]) -> Any:
    """Run a program with some names; see `run_programs`."""
    *statements, last = program.split("; ")
    try:
        for statement in statements:
            exec(statement, scope)
        return describe(eval(last, scope))
    except Exception as error:
        return "raises", type(error).__name__


def make_nothing(_: Any) -> dict[str, Any]:
    """Return no names."""
    return {}


def find_differences(programs: Iterable[str], make_scope: Scope = make_nothing, together: int = 1) -> dict[str, Any]:
    """Return what irrun and OpenVINO return for the programs for which they differ, at most ten of them.

    Args:
        programs: The programs.
        make_scope: Makes the names that they use.
        together: The number of programs that run with the same names, one after another, which saves time.
    """
    differences: dict[str, Any] = {}
    rest = list(programs)
    while rest and len(differences) < 10:
        now, rest = rest[:together], rest[together:]
        for program, expected, found in zip(
            now, *(run_programs(now, name, make_scope) for name in MODULES), strict=True
        ):
            if found != expected:
                differences[program] = {"irrun": found, "openvino": expected}
    return differences


def describe(value: Any) -> Any:
    """Return what is compared of a value: the texts of objects, without addresses and numbers of unnamed nodes."""
    if isinstance(value, enum.Enum) or (hasattr(type(value), "__members__") and not isinstance(value, type)):
        return str(value)
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, str):
        return without_numbers(value)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        rounded = np.round(array.astype(np.float64), 4).tolist() if array.dtype.kind == "f" else array.tolist()
        return "array", array.dtype.str, list(array.shape), repr(rounded)
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(describe, value)]
    if isinstance(value, (set, frozenset)):
        return ["set", *sorted(map(str, map(describe, value)))]
    if isinstance(value, dict):
        return {str(describe(key)): describe(item) for key, item in value.items()}
    if isinstance(value, (ModuleType, type, BaseException)):
        return value.__name__.rpartition(".")[2] if not isinstance(value, BaseException) else type(value).__name__
    return describe_object(value)


def describe_object(value: Any) -> Any:
    """Return what is compared of an object of a class of the modules."""
    kind = type(value).__name__
    if hasattr(value, "get_ordered_ops"):
        return describe_model(value)
    if hasattr(value, "get_type_name") and hasattr(value, "get_friendly_name"):
        return describe_node(value)
    if hasattr(value, "get_node"):
        names = sorted(map(without_numbers, value.get_names())) if hasattr(value, "get_names") else None
        node = without_numbers(value.get_node().get_friendly_name())
        shape = str(value.get_partial_shape()), str(value.get_element_type())
        return kind, node, value.get_index(), names, shape
    if kind == "Tensor":
        data = value.bytes_data if value.element_type.to_string() == "string" else value.data
        return kind, value.element_type.to_string(), list(value.shape), describe(data)
    if kind == "OVAny":
        return kind, describe(value.value)
    if kind == "RTMap":
        return kind, describe_information(value)
    return kind, without_numbers(str(value))


def describe_information(information: Any) -> Any:
    """Return what is compared of runtime information: what Python can represent, which OpenVINO's own cannot all be."""
    described = {}
    for key, value in dict(information).items():
        if key == "OpenVINO Runtime":  # the version that wrote a file
            continue
        with contextlib.suppress(TypeError):
            described[key] = describe(value)
    return described


def describe_node(node: Any) -> Any:
    """Return what is compared of a node: all that it declares."""
    constant = describe(node.get_data()) if node.get_type_name() == "Constant" else None
    return {
        "type": node.get_type_name(),
        "opset": node.get_type_info().version_id,
        "name": without_numbers(node.get_friendly_name()),
        "attributes": describe(node.get_attributes()),
        "rt_info": describe_information(node.get_rt_info()),
        "inputs": [describe(port) for port in node.input_values()],
        "outputs": [describe(port) for port in node.outputs()],
        "constant": constant,
    }


def describe_model(model: Any) -> Any:
    """Return what is compared of a model: its nodes, inputs, outputs and information."""
    return {
        "name": without_numbers(model.get_friendly_name()),
        "nodes": sorted(map(describe_node, model.get_ordered_ops()), key=str),
        "inputs": [describe(port) for port in model.inputs],
        "outputs": [describe(port) for port in model.outputs],
        "layouts": [str(node.get_layout()) for node in (*model.get_parameters(), *model.get_results())],
        "sinks": [without_numbers(node.get_friendly_name()) for node in model.get_sinks()],
        "variables": [
            (v.info.variable_id, str(v.info.data_shape), str(v.info.data_type)) for v in model.get_variables()
        ],
        "rt_info": describe_information(model.get_rt_info()),
    }


def without_numbers(text: str) -> str:
    """Return a text without the numbers of nodes and models that have no names of their own, and addresses."""
    text = re.sub(r"\bModel\d+", "Model", re.sub(r"(?<=[A-Za-z0-9])_\d+(?=\b|_)", "_N", text))
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("irrun.openvino", "openvino").replace("_pyopenvino.", "")
