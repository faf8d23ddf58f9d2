"""`PrePostProcessor`."""

from __future__ import annotations

from typing import Any

from irrun.openvino.errors import translate_errors
from irrun.openvino.model import Model
from irrun.openvino.model_ports import find_port
from irrun.openvino.preprocess.description import describe
from irrun.openvino.preprocess.inputs import InputInfo
from irrun.openvino.preprocess.outputs import OutputInfo

__all__ = ["PrePostProcessor"]


class PrePostProcessor:
    """Adds preprocessing and postprocessing to a model, as layers.

    Args:
        model: The model, which `build` changes.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inputs = [InputInfo(parameter) for parameter in model._parameters]
        self._outputs = [OutputInfo(result) for result in model._results]

    def __str__(self) -> str:
        return describe(self._inputs, self._outputs)

    def __repr__(self) -> str:
        return f"<PrePostProcessor: {self}>"

    def input(self, key: int | str | None = None) -> InputInfo:
        """Return an input by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: The input does not exist.
        """
        return self._inputs[_find(self._model.inputs, key, "Input")]

    def output(self, key: int | str | None = None) -> OutputInfo:
        """Return an output by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: The output does not exist.
        """
        return self._outputs[_find(self._model.outputs, key, "Output")]

    @translate_errors
    def build(self) -> Model:
        """Add the layers, and return the model.

        Raises:
            RuntimeError: A step cannot be applied, or its result does not fit the model.
        """
        parameters = [parameter for info in self._inputs for parameter in info._build()]
        for info in self._outputs:
            if info._result.layout.empty and info._model._layout is not None:
                info._result.layout = info._model._layout
        self._model._parameters[:] = parameters
        self._model.validate_nodes_and_infer_types()
        for output_info in self._outputs:
            output_info._build()
        return self._model


def _find(ports: list[Any], key: int | str | None, kind: str) -> int:
    try:
        port = find_port(ports, key, kind, f"{kind.lower()}()")
    except IndexError as error:
        raise RuntimeError(str(error)) from None
    return next(i for i, candidate in enumerate(ports) if candidate == port)
