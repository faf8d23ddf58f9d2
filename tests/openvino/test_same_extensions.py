"""Operations that programs define in Python, as on OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino_programs import find_differences, import_modules, read_programs

pytest.importorskip("openvino")


def make_classes(ov: Any) -> Any:
    """Return classes derived from `Op`, and a function that runs their nodes."""
    ops = import_modules(ov.__name__)["ops"]

    class Base(ov.Op):  # type: ignore[misc]
        def __init__(self, inputs: Any = None, attributes: Any = None) -> None:
            super().__init__(self)
            self.passed = attributes
            if inputs is not None:
                self.set_arguments(inputs)
                self.constructor_validate_and_infer_types()

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

        def visit_attributes(self, visitor: Any) -> bool:
            if self.passed is not None:
                visitor.on_attributes(self.passed)
            return True

    class Own(Base):
        class_type_info = ov.DiscreteTypeInfo("Own", "extension")

        def clone_with_new_inputs(self, inputs: Any) -> Any:
            return Own(inputs, self.passed)

        def get_type_info(self) -> Any:
            return Own.class_type_info

        def evaluate(self, outputs: Any, inputs: Any) -> bool:
            outputs[0].data[...] = inputs[0].data * 2
            return True

        def has_evaluate(self) -> bool:
            return True

    class Two(Own):
        def clone_with_new_inputs(self, inputs: Any) -> Any:
            return Two(inputs, self.passed)

        def validate_and_infer_types(self) -> None:
            self.set_output_size(2)
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))
            self.set_output_type(1, ov.Type.i32, ov.PartialShape([2]))

        def evaluate(self, outputs: Any, inputs: Any) -> bool:
            outputs[0].data[...] = inputs[0].data * 2
            outputs[1].data[...] = [3, 4]
            return True

    class Plain(Base):
        class_type_info = ov.DiscreteTypeInfo("Plain", "extension")

        def clone_with_new_inputs(self, inputs: Any) -> Any:
            return Plain(inputs, self.passed)

        def get_type_info(self) -> Any:
            return Plain.class_type_info

    class Failing(Own):
        def clone_with_new_inputs(self, inputs: Any) -> Any:
            return Failing(inputs, self.passed)

        def evaluate(self, outputs: Any, inputs: Any) -> bool:
            return False

    class Growing(Own):
        """An operation whose output has a dynamic shape."""

        def clone_with_new_inputs(self, inputs: Any) -> Any:
            return Growing(inputs, self.passed)

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), ov.PartialShape([-1]))

        def evaluate(self, outputs: Any, inputs: Any) -> bool:
            outputs[0].shape = [2 * inputs[0].shape[0]]
            outputs[0].data[...] = np.tile(inputs[0].data, 2)
            return True

    class NeedsInputs(ov.Op):  # type: ignore[misc]
        def __init__(self, inputs: Any) -> None:
            super().__init__(self)

    x, y = (ops.parameter([2], np.float32, name=name) for name in "xy")

    def run(results: Any) -> Any:
        model = ov.Model([ops.result(v if hasattr(v, "get_index") else v.output(0)) for v in results], [x], "model")
        compiled = ov.Core().compile_model(model, "CPU")
        return list(compiled([np.array([1, -2], np.float32)]).to_tuple())

    classes = {c.__name__: c for c in (Own, Two, Plain, Failing, Growing, NeedsInputs)}
    return {**classes, "x": x, "y": y, "run": run, "core": ov.Core()}


def test_operations_in_python() -> None:
    assert find_differences(read_programs("extensions"), make_classes) == {}
