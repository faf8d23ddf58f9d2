"""Layers of "type_relaxed_opset": operations between conversions of element types.

OpenVINO's low-precision transformations write them. Such a layer does not state the version of its operation, so the
version is chosen whose attributes match the layer. `input_data_types` names the types of the operation's
inputs, and `output_data_types` the types of its outputs; "dynamic" (in older files "undefined") keeps a type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from irrun.element_types import ElementType
from irrun.ops._support.conversion import convert
from irrun.ops._support.numerics import Array
from irrun.ops._support.operation import Operation
from irrun.ops._support.output_type import parse_optional_type
from irrun.ops._support.registry import register_resolver

__all__ = ["RelaxedOperation", "derive_relaxed_operation", "run_relaxed"]

#: Attributes of the layer that the operation does not have.
RELAXED_ATTRIBUTES = ("type_relax", "input_data_types", "output_data_types")


@register_resolver("type_relaxed_opset")
def derive_relaxed_operation(versions: Sequence[Operation]) -> Operation:
    """Return the relaxed form of an operation.

    Args:
        versions: All versions of the operation.
    """
    return RelaxedOperation(versions[0].type, 0, "type_relaxed_opset", run_relaxed, versions[0].category, versions)


def run_relaxed(
    *inputs: Array | None,
    operation: Operation,
    attributes: Mapping[str, Any],
    input_types: Sequence[ElementType | None],
    output_types: Sequence[ElementType | None],
) -> Any:
    """Run the kernel of an operation between conversions.

    Args:
        inputs: The inputs of the layer.
        operation: The operation.
        attributes: Keyword arguments of its kernel.
        input_types: Types that the inputs are converted to; None keeps a type.
        output_types: Types that the outputs are converted to; None keeps a type.
    """
    converted = [_convert(x, input_types, i) for i, x in enumerate(inputs)]
    result = operation.kernel(*converted, **attributes)
    if isinstance(result, tuple):
        return tuple(_convert(x, output_types, i) for i, x in enumerate(result))
    return _convert(result, output_types, 0)


def _convert(x: Array | None, types: Sequence[ElementType | None], index: int) -> Array | None:
    target = types[index] if index < len(types) else None
    return x if x is None or target is None else convert(x, target)


class RelaxedOperation(Operation):
    """An operation of "type_relaxed_opset".

    Args:
        type: The type of the operation.
        since: 0.
        opset: "type_relaxed_opset".
        kernel: `run_relaxed`.
        category: The category of the operation.
        versions: All versions of the operation.
    """

    versions: Sequence[Operation]

    def __init__(
        self,
        type: str,
        since: int,
        opset: str,
        kernel: Callable[..., Any],
        category: str,
        versions: Sequence[Operation],
    ) -> None:
        super().__init__(type, since, opset, kernel, category)
        object.__setattr__(self, "versions", tuple(versions))

    def select_version(self, attributes: Mapping[str, Any]) -> Operation:
        """Return the version that matches a layer's attributes best.

        That is the version with the fewest required attributes missing, then with the fewest attributes unknown or
        missing, then the newest one.
        """
        names = {name for name in attributes if name not in RELAXED_ATTRIBUTES}

        def count_mismatches(operation: Operation) -> tuple[int, int, int]:
            unknown = len(operation.find_unknown(dict.fromkeys(names)))
            missing = len(operation.attributes) - (len(names) - unknown)
            missing_required = sum(a.required and a.name not in names for a in operation.attributes)
            return missing_required, unknown + missing, -operation.since

        return min(self.versions, key=count_mismatches)

    def bind(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a layer's attributes to the keyword arguments of `run_relaxed`.

        Raises:
            ModelError: A required attribute is missing, or a value is not of the attribute's type.
        """
        operation = self.select_version(attributes)
        return {
            "operation": operation,
            "attributes": operation.bind(attributes),
            "input_types": _parse_types(attributes.get("input_data_types", "")),
            "output_types": _parse_types(attributes.get("output_data_types", "")),
        }

    def count_flops(
        self, inputs: Sequence[Array | None], outputs: Sequence[Array], attributes: Mapping[str, Any]
    ) -> int | None:
        """Count the arithmetic operations of the operation between the conversions."""
        operation: Operation = attributes["operation"]
        return operation.count_flops(inputs, outputs, attributes["attributes"])

    def find_unknown(self, attributes: Mapping[str, Any]) -> list[str]:
        """Return the names in `attributes` that neither the operation nor its relaxed form has."""
        unknown = self.select_version(attributes).find_unknown(attributes)
        return [name for name in unknown if name not in RELAXED_ATTRIBUTES]


def _parse_types(names: str) -> list[ElementType | None]:
    return [parse_optional_type(name) for name in names.split(",")]
