"""Operations that programs define in Python, their attributes, and symbols of dimensions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_modules import import_submodule


def make_custom_class(ov: Any) -> Any:
    """Return an operation that copies its input and has attributes."""

    class Custom(ov.Op):  # type: ignore[misc]
        class_type_info = ov.DiscreteTypeInfo("Custom", "extension")

        def __init__(self, inputs: Any = None, attributes: Any = None) -> None:
            super().__init__(self)
            self.passed = attributes
            if inputs is not None:
                self.set_arguments(inputs)
                self.constructor_validate_and_infer_types()

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

        def clone_with_new_inputs(self, inputs: Any) -> Any:
            return Custom(inputs, self.passed)

        def get_type_info(self) -> Any:
            return Custom.class_type_info

        def visit_attributes(self, visitor: Any) -> bool:
            if self.passed is not None:
                visitor.on_attributes(self.passed)
            return True

        def evaluate(self, outputs: Any, inputs: Any) -> bool:
            inputs[0].copy_to(outputs[0])
            return True

    return Custom


@pytest.mark.parametrize(
    "attributes",
    [
        {"axis": 0, "list_int": [1, 2]},
        {"text": "a", "flag": True, "ratio": 0.25},
        {"texts": ["one", "two"]},
        {"floats": np.array([1.5, 2.5], np.float32)},
    ],
)
def test_attributes_of_custom_operations_are_returned_and_written(ov: Any, tmp_path: Path, attributes: Any) -> None:
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([2], np.float32, name="data")
    model = ov.Model([make_custom_class(ov)([data], attributes)], [data], "custom")
    names = set(attributes)
    ov.serialize(model, tmp_path / "m.xml")
    (written,) = re.findall(r'type="Custom"[^>]*>\s*<data ([^>]*?) ?/>', (tmp_path / "m.xml").read_text())
    assert dict(re.findall(r'(\w+)="([^"]*)"', written.replace(", ", ","))).keys() == names
    node = next(n for n in model.get_ops() if n.get_type_name() == "Custom")
    assert node.get_attributes() == attributes
    assert not any(isinstance(value, np.ndarray) for value in attributes.values())
    assert ov.compile_model(model, "CPU")([np.ones(2, np.float32)])[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([{}], "Unsupported attribute type in provided list: <class 'dict'>"),
        (np.array([1j]), "Unsupported NumPy array dtype: complex128"),
        ({}, "Unsupported attribute type: <class 'dict'>"),
    ],
)
def test_attributes_of_other_types_are_refused(ov: Any, tmp_path: Path, value: Any, message: str) -> None:
    data = import_submodule(ov, "opset13").parameter([2], np.float32, name="data")
    model = ov.Model([make_custom_class(ov)([data], {"wrong": value})], [data], "custom")
    with pytest.raises(TypeError, match=re.escape(message)):
        ov.serialize(model, tmp_path / "m.xml")


def test_extensions_that_cannot_be_created_are_refused(ov: Any) -> None:
    class NeedsInputs(ov.Op):  # type: ignore[misc]
        def __init__(self, inputs: Any) -> None:
            super().__init__(self)

    class WrongInfo(ov.Op):  # type: ignore[misc]
        class_type_info = "WrongInfo"

        def __init__(self, inputs: Any = None) -> None:
            super().__init__(self)

        @staticmethod
        def get_type_info() -> Any:
            return WrongInfo.class_type_info

    core = ov.Core()
    with pytest.raises(RuntimeError, match="missing 1 required positional argument: 'inputs'"):
        core.add_extension(NeedsInputs)
    with pytest.raises(RuntimeError, match="Unsupported data type : '<class 'bool'>' is passed as an argument"):
        core.add_extension(bool)
    with pytest.raises(RuntimeError, match="Unsupported data type : '<class 'bool'>' is passed as an argument"):
        ov.OpExtension(bool)
    with pytest.raises(RuntimeError, match="type_info must be an instance of DiscreteTypeInfo, but <class 'str'>"):
        core.add_extension(WrongInfo)


def test_dimensions_hold_symbols(ov: Any) -> None:
    dimension, symbol = ov.Dimension(), ov.Symbol()
    assert not dimension.has_symbol()
    assert not dimension.get_symbol()
    dimension.set_symbol(symbol)
    assert dimension.has_symbol()
    assert dimension.get_symbol() == symbol
    assert bool(symbol)
    assert ov.Symbol() != symbol


def test_factories_refuse_unknown_opsets(ov: Any) -> None:
    with pytest.raises(RuntimeError, match="Unsupported opset version requested"):
        import_submodule(ov, "utils.node_factory").NodeFactory("opset99")


def test_nodes_take_part_in_operators_of_arrays(ov: Any) -> None:
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([2, 3], np.float32, name="data")
    product = np.full(3, 2, np.float32) * data
    assert product.get_type_name() == "Multiply"
    assert ov.compile_model(ov.Model([product], [data], "m"), "CPU")([np.ones((2, 3), np.float32)])[0].tolist() == [
        [2, 2, 2],
        [2, 2, 2],
    ]


def test_missing_inputs_are_refused(ov: Any) -> None:
    ops, factory = import_submodule(ov, "opset13"), import_submodule(ov, "utils.node_factory")
    with pytest.raises(RuntimeError):
        factory.NodeFactory("opset13").create("Relu", [])
    data = ops.parameter([2, 3], np.float32, name="data")
    with pytest.raises(RuntimeError):
        ops.relu(data).input(7)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical_operations_of_numbers_are_refused(ov: Any, name: str) -> None:
    ops = import_submodule(ov, "opset13")
    data = ops.parameter([2, 3], np.float32, name="data")
    with pytest.raises(RuntimeError, match="boolean"):
        getattr(ops, name)(data, data)
