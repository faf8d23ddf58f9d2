"""Layers of "type_relaxed_opset": ordinary operations between conversions of element types.

Low-precision passes write them. Such a layer says nothing about the version of its operation, so the one is chosen
whose attributes are those of the layer. `input_data_types` names the types that the operation sees, and
`output_data_types` those that leave the layer; "dynamic" (in older files "undefined") leaves a type as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from irrun.element_types import ElementType
from irrun.ops._support.conversion import convert
from irrun.ops._support.numerics import Array
from irrun.ops._support.operation import Operation
from irrun.ops._support.registry import resolver

__all__ = ["RelaxedOperation", "relaxed"]

OWN_ATTRIBUTES = ("type_relax", "input_data_types", "output_data_types")
UNCHANGED = ("", "dynamic", "undefined", "undef")


@resolver("type_relaxed_opset")
def relaxed(versions: Sequence[Operation]) -> Operation:
    """The relaxed form of an operation that is registered in these versions."""
    return RelaxedOperation(versions[0].type, 0, "type_relaxed_opset", run_relaxed, versions[0].category, versions)


def run_relaxed(*inputs: Array, operation: Any, bound: Any, input_types: Any, output_types: Any) -> Any:
    """Run the kernel of `operation` between conversions."""
    converted = [_as(x, input_types, i) for i, x in enumerate(inputs)]
    result = operation.kernel(*converted, **bound)
    if isinstance(result, tuple):
        return tuple(_as(r, output_types, i) for i, r in enumerate(result))
    return _as(result, output_types, 0)


def _as(x: Array | None, types: Sequence[ElementType | None], position: int) -> Array | None:
    target = types[position] if position < len(types) else None
    return x if x is None or target is None else convert(x, target)


class RelaxedOperation(Operation):
    """An operation of "type_relaxed_opset"; which version it is, its attributes say."""

    versions: Sequence[Operation]

    def __init__(
        self,
        type: str,
        since: int,
        opset: str,
        kernel: Any,
        category: str,
        versions: Sequence[Operation],
    ) -> None:
        super().__init__(type, since, opset, kernel, category)
        object.__setattr__(self, "versions", tuple(versions))

    def chosen(self, given: Mapping[str, Any]) -> Operation:
        """The version whose attributes fit best: none missing, the fewest unknown or left out, the newest."""
        own = {name: value for name, value in given.items() if name not in OWN_ATTRIBUTES}

        def misfit(operation: Operation) -> tuple[int, int, int]:
            unknown = operation.find_unknown(own)
            absent = len(operation.attributes) - (len(own) - len(unknown))
            required = sum(a.required and a.name not in own for a in operation.attributes)
            return required, len(unknown) + absent, -operation.since

        return min(self.versions, key=misfit)

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What `run_relaxed` needs: the version, its own attributes, the types on both sides."""
        operation = self.chosen(given)
        return {
            "operation": operation,
            "bound": operation.bind(given),
            "input_types": _types(given.get("input_data_types", "")),
            "output_types": _types(given.get("output_data_types", "")),
        }

    def find_unknown(self, given: Mapping[str, Any]) -> list[str]:
        """The names in `given` that neither the operation nor its relaxed form has an attribute for."""
        return [n for n in self.chosen(given).find_unknown(given) if n not in OWN_ATTRIBUTES]


def _types(names: str) -> list[ElementType | None]:
    parts = [name.strip().lower() for name in names.split(",")]
    return [None if name in UNCHANGED else ElementType.parse(name) for name in parts]
