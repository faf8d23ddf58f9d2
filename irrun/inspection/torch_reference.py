"""A PyTorch module or exported program as a reference, matched through the module names that the converter keeps."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from irrun.errors import ExecutionError, InputError
from irrun.inspection.array_reference import ArrayReference
from irrun.inspection.keys import KeyTable
from irrun.inspection.module_ends import find_layer_ends
from irrun.ir.model import Model, name_inputs

__all__ = ["Module", "TorchReference", "is_torch"]

Array = np.ndarray[Any, Any]


class Module(Protocol):
    """The interface of a PyTorch module, or of an exported program's module."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""

    def register_forward_hook(self, hook: Any) -> Any:
        """Call a function with the module, its inputs and its outputs after each run."""


def is_torch(reference: object) -> bool:
    """Return whether an object is a PyTorch module or an exported program.

    Args:
        reference: Any object.
    """
    return hasattr(reference, "register_forward_hook") or _is_program(reference)


def _is_program(reference: object) -> bool:
    return hasattr(reference, "graph_signature") and callable(getattr(reference, "module", None))


class TorchReference(ArrayReference):
    """A PyTorch module. Forward hooks collect the outputs of its submodules.

    The output of a submodule belongs to the only layer that passes values out of the submodule, if both have the same
    shape. Submodules that run more than once are omitted. For an exported program, only the outputs are compared,
    since its submodules do not run.

    Args:
        module: The module, which runs unchanged (calling `eval()` is up to the caller), or the exported program.
        model: The model.
        arguments: The inputs of the model, in the order of the Parameters.

    Raises:
        InputError: PyTorch is not installed.
        ExecutionError: The module cannot run the inputs.
    """

    def __init__(self, module: Any, model: Model, arguments: Sequence[Array]) -> None:
        try:
            self._torch: Any = importlib.import_module("torch")
        except ImportError:
            raise InputError("comparing with a PyTorch module requires PyTorch: pip install torch") from None
        self._module = module.module() if _is_program(module) else module
        self._model = model
        self._table = KeyTable(model)
        self._ends = find_layer_ends(model.graph)
        self._arrays: dict[str, Array] = {}
        self._run(arguments)
        names = [name for name in self._arrays if name.startswith("output ")]
        title = f"PyTorch ({type(module).__name__})"
        outputs = {name: name for name in names}
        super().__init__(title, model, list(self._arrays), self._arrays.__getitem__, outputs=outputs)
        if getattr(self._module, "training", False):
            self.notes.append("the PyTorch module is in training mode; call eval() for inference mode")

    def _run(self, arguments: Sequence[Array]) -> None:
        values: dict[str, list[Any]] = {}
        handles = []

        def add_hook(name: str, module: Any) -> None:
            def store(module: Any, inputs: Any, output: Any) -> None:
                tensors = _list_tensors(output)
                # Another module may change the tensor in place afterwards.
                values.setdefault(name, []).append(_to_array(tensors[0]).copy() if len(tensors) == 1 else None)

            handles.append(module.register_forward_hook(store))

        for name, module in self._module.named_modules():
            if name:
                add_hook(name, module)
        tensors = [self._torch.from_numpy(np.array(value)) for value in arguments]
        names = name_inputs(self._model.inputs)
        parameters = inspect.signature(self._module.forward).parameters
        by_name = all(name in parameters for name in names)
        try:
            with self._torch.no_grad():
                if by_name:
                    result = self._module(**dict(zip(names, tensors, strict=True)))
                else:
                    result = self._module(*tensors)
        except Exception as error:  # modules are user programs
            raise ExecutionError(f"the PyTorch module cannot run the inputs: {error}") from error
        finally:
            for handle in handles:
                handle.remove()
        self._arrays.clear()
        for name, calls in values.items():
            end = self._ends.get(tuple(name.split(".")))
            if end is None or len(calls) != 1 or calls[0] is None:
                continue
            layer = end.node
            shape = layer.outputs[0].shape
            if shape is not None and not shape.is_compatible(calls[0].shape):
                continue
            self._arrays[self._table.get_value_key(layer, 0)] = calls[0]
        for i, tensor in enumerate(_list_tensors(result)):
            self._arrays[f"output {i}"] = _to_array(tensor)

    def advance(self, arguments: Sequence[Array]) -> None:
        """Run the next inputs of the session. The module keeps its state."""
        self._run(arguments)


def _list_tensors(value: Any) -> list[Any]:
    """Return the tensors of the output of a module, which may be a tuple, a list or a mapping of tensors."""
    if hasattr(value, "detach"):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [t for part in value for t in _list_tensors(part)] if isinstance(value, (list, tuple)) else []


def _to_array(tensor: Any) -> Array:
    """Return the elements of a tensor. NumPy does not have bfloat16, so it becomes f32."""
    tensor = tensor.detach().cpu()
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())
